#!/usr/bin/env bash
# Do the tests find faults? Puts the faults of tests/tools/mutations/, one at a time, into a copy of this tree, builds it
# there and says which tests fail. Not part of the suite: it takes minutes. Exits 1 if a fault is found by no test.
#   bash tests/tools/mutations.sh [--keep] [NAME…]
# NAME: some of the faults (gradient-sign …). --keep: go on with the copy and its build of the last time, brought up to
# date. The copy is build/mutations/tree ($CTRC_MUTATIONS: another folder); this tree is only read.
#
# A patch opens with what its fault is. Columns: `text` is test_pass_golden, which sees every change of a pass's output,
# right or wrong; the others look at what a program computes, or hold its plan against what threads rely on. A fault
# that a test doesn't survive (a crash, no end within a quarter of an hour) counts as found.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=${CTRC_MUTATIONS:-build/mutations}
keep=no; [ "${1:-}" != --keep ] || { keep=yes; shift; }
tests="test_pass_golden test_pass_meaning test_pass_manager test_gradients test_pass_random"
mkdir -p "$work"; work=$(cd "$work" && pwd)
[ $keep = yes ] || rm -rf "$work/tree" "$work/build"
mkdir -p "$work/tree"
# only what differs, a fault that a stopped run left among it, so that --keep builds no more than that
git ls-files | while read -r f; do cmp -s "$f" "$work/tree/$f" || cp --parents "$f" "$work/tree"; done
names=${*:-$(cd tests/tools/mutations && ls ./*.patch | sed 's|./||; s/\.patch$//')}

launcher=""; ! command -v ccache > /dev/null || launcher="-DCMAKE_C_COMPILER_LAUNCHER=ccache"
# shellcheck disable=SC2086
cmake -S "$work/tree" -B "$work/build" -DCMAKE_BUILD_TYPE=Release $launcher > "$work/log" 2>&1 || { cat "$work/log"; exit 2; }
build() { # build TEST…
  cmake --build "$work/build" -j "${CTRC_JOBS:-2}" --target "$@" > "$work/log" 2>&1
}
run() { # run TEST: 0 if it passes
  timeout 900 "$work/build/tests/$1" > "$work/$1.out" 2>&1
}
# shellcheck disable=SC2086
build $tests || { tail -n 30 "$work/log"; echo "the tree does not build"; exit 2; }
for t in $tests; do run "$t" || { tail -n 5 "$work/$t.out"; echo "$t fails without any fault: mend that first"; exit 2; }; done

missed=0
echo "| fault | in | text | found by |"
echo "|---|---|---|---|"
for name in $names; do
  patch=tests/tools/mutations/$name.patch
  [ -f "$patch" ] || { echo "no $patch"; exit 2; }
  what=$(head -n 1 "$patch"); file=$(sed -n 's|^+++ b/||p' "$patch" | head -n 1)
  patch -d "$work/tree" -p1 -s < "$patch" || { echo "$name: the patch does not apply any more"; exit 2; }
  text=no; by=""
  # shellcheck disable=SC2086
  if ! build $tests; then
    tail -n 5 "$work/log"; by="does not build"; missed=$((missed + 1))
  else
    run test_pass_golden || text=yes
    for t in ${tests#* }; do run "$t" || by="$by, $t"; done
  fi
  patch -d "$work/tree" -p1 -s -R < "$patch"
  by=${by#, }
  [ -n "$by" ] || [ $text = yes ] || { missed=$((missed + 1)); by="**none**"; }
  echo "| $name: $what | \`$file\` | $text | ${by:-–} |"
done
[ $missed = 0 ] || { echo "$missed not found"; exit 1; }
