#!/usr/bin/env bash
# The first 20 steps of each model against those that an independent implementation recorded (oracle.py): losses,
# metrics, and the norm of every weight's gradient. The compiled program's losses and metrics to 1e-4, its gradients
# to 1e-3; the reference interpreter's all to 1e-9, with and without the optional passes.
#   check_oracle.sh [MODEL…]
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
. "$here/models.sh"
BUILD=$(cd "${BUILD:-$root/build/release}" && pwd) || exit 1
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
bad=0
fail() { echo "FAILED: $*"; bad=1; }
check() { "$BUILD/tests/oracle_check" "$record" "$@"; }
train() { "$work/$model" train --data "$log" --no-shuffle "$@" 2> "$work/err"; }

# A program keeps no gradients, but what adam and ftrl keep from step to step tells them: one run for each step, which
# ends after it. The last one's log, which has the norms of all steps, and its results are kept.
gradients_of_program() {
  local k before=$work/start
  for ((k = 1; k <= 20; k++)); do
    train --steps "$k" --threads $((k % 2 + 1)) --save "$work/after-$k" --log "$work/log" --log-every 1 --json \
      > "$work/json" && check --slots "$before" "$work/after-$k" || return 1
    [ "$k" -eq 1 ] || rm -r "$before"
    before=$work/after-$k
  done
  rm -r "$before"
}

light=${CTRC_TEST_LIGHT:+deepfm din_clipped dien} # in the sanitizers' tree, whose programs take long
compiler=$BUILD/bin/ctrc
[ -z "$light" ] || { echo "CTRC_TEST_LIGHT: $light alone, not optimised by LLVM"; compiler=$BUILD/bin/ctrc_quick; }
for model in ${*:-${light:-$all_models}}; do
  record=$here/$model.json
  log=$here/$(sed -n 's/.*"log": "\([^"]*\)".*/\1/p' "$record")
  mapfile -t arguments < <(arguments_of "$model" "$work")
  read -ra defines < <(check --defines)
  arguments+=("${defines[@]}")
  check --files "$here" || { fail "$model: other log"; continue; }
  "$compiler" "${arguments[@]}" -o "$work/$model" || { fail "$model: doesn't compile"; continue; }
  train --steps 0 --save "$work/start" > /dev/null ||
    { cat "$work/err"; fail "$model: no checkpoint of the initial weights"; continue; }
  check --weights "$work/start" || { fail "$model: other initial weights"; continue; }
  echo "compiled program"
  gradients_of_program > "$work/norms" || { cat "$work/err"; fail "$model: doesn't train"; continue; }
  check --losses "$work/log" --rel 1e-4 || fail "$model: losses of the compiled program"
  check --metrics "$work/json" --rel 1e-4 || fail "$model: metrics of the compiled program"
  check --norms clipped "$work/norms" --rel 1e-3 --floor 5e-9 || fail "$model: gradients of the compiled program"
  sed 's/"grad_norms":/"clipped":/' "$work/log" > "$work/logged"
  check --norms clipped "$work/logged" --rel 1e-3 --floor 5e-9 || fail "$model: gradients that --log tells"
  for level in 0 2; do
    echo "interpreter, -O$level"
    "$BUILD/tests/replay" "${arguments[@]}" -O$level --data "$log" --load "$work/start" --steps 20 --json \
      > "$work/replayed" || fail "$model: no replay"
    check --losses "$work/replayed" --rel 1e-9 || fail "$model: interpreter, -O$level"
    check --metrics "$work/replayed" --rel 1e-9 || fail "$model: interpreter, -O$level"
    for key in gradients clipped; do
      check --norms $key "$work/replayed" --rel 1e-9 --floor 1e-16 || fail "$model: interpreter, -O$level"
    done
  done
  rm -r "$work/start"
done
exit $bad
