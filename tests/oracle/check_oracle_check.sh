#!/usr/bin/env bash
# oracle_check must say no: to a gradient that one side lacks, to norms that are all zero, to anything off by more than
# is allowed. A small record, and what differs from it.
set -u
BUILD=$(cd "${BUILD:-$(dirname "$0")/../../build/release}" && pwd) || exit 1
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
bad=0
fail() { echo "FAILED: $*"; bad=1; }
check() { "$BUILD/tests/oracle_check" record "$@" > out 2> err; }
yes() { check "$@" || { cat err; fail "expected to pass: $*"; }; }
# no TEXT ARGUMENT…: refused, with this message
no() {
  local text=$1; shift
  check "$@"
  [ $? -eq 1 ] || fail "expected to be refused: $*"
  [ "$(cat err)" = "record: $text" ] || { cat err; fail "expected: $text"; }
}

printf 'a log' > log
cat > record << 'END'
{"model": "m", "files": {"log": "0000000000000000"}, "losses": [0.5, 0.25], "metrics": {"auc": {"p": 0.75}},
 "gradients": {"w": [2, 1], "b": [0.5, 0]}, "clipped": {"w": [1.5, 1]}}
END
no "./log is not the file that the record was made on: expected digest 0000000000000000, found 4078002f40cdaec8" --files .

printf '0.5\n0.25\n' > losses
yes --losses losses --rel 1e-9
printf '{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 0.2501}\n{"epoch_end": 1, "loss": 9}\n' > losses
yes --losses losses --rel 1e-3
no "step 2: expected loss 0.25, found 0.25009999999999999" --losses losses --rel 1e-4
printf '0.5\n' > losses
no "expected 2 losses, found 1 in losses" --losses losses --rel 1e-4

echo '{"auc": {"p": 0.75}}' > metrics
yes --metrics metrics --rel 1e-9
echo '{"auc": {"p": null}}' > metrics
no "auc of p: expected 0.75, found none in metrics" --metrics metrics --rel 1e-9
echo '{"auc": {"p": 0.5}}' > metrics
no "auc of p: expected 0.75, found 0.5" --metrics metrics --rel 1e-9

norms() { printf '{"gradients": {%s}, "clipped": {%s}}\n' "$1" "$2"; }
right='"w": 1, "b": 1e-9'
{ norms '"w": 2, "b": 0.5' '"w": 1.5, "b": 0.5'; norms "$right" "$right"; } > norms
yes --norms gradients norms --rel 1e-3 --floor 1e-8
yes --norms clipped norms --rel 1e-3 --floor 1e-8
no "step 2: the norm of the gradient of 'b', gradients: expected 0, found 1.0000000000000001e-09" \
  --norms gradients norms --rel 1e-3 --floor 1e-10
{ norms '"w": 2, "b": 0.5' '"w": 2, "b": 0.5'; norms "$right" "$right"; } > norms
no "step 1: the norm of the gradient of 'w', clipped: expected 1.5, found 2" --norms clipped norms --rel 1e-3 --floor 1e-8
{ norms '"w": 2' ''; norms "$right" ''; } > norms
no "step 1: no gradient of 'b'" --norms gradients norms --rel 1e-3 --floor 1e-8
{ norms '"w": 2, "b": 0.5, "x": 1' ''; norms "$right" ''; } > norms
no "step 1: a gradient of 'x', which the record doesn't know" --norms gradients norms --rel 1e-3 --floor 1e-8
norms '"w": 2, "b": 0.5' '' > norms
no "expected gradients of 2 steps, found 1 in norms" --norms gradients norms --rel 1e-3 --floor 1e-8

cat > record << 'END'
{"model": "m", "losses": [0.5], "gradients": {"w": [0], "b": [0]}, "clipped": {}}
END
norms '"w": 0, "b": 0' '' > norms
no "of 2 norms of gradients only 0 are large enough to tell anything" --norms gradients norms --rel 1e-3 --floor 1e-8
exit $bad
