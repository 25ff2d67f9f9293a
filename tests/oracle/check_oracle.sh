#!/usr/bin/env bash
# The first 20 losses of five models, against those that an independent implementation recorded (oracle.py): the
# compiled program's to 1e-4, the reference interpreter's to 1e-9, with and without the optional passes.
#   check_oracle.sh [MODEL…]
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
BUILD=$(cd "${BUILD:-$root/build/release}" && pwd) || exit 1
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
bad=0
fail() { echo "FAILED: $*"; bad=1; }
check() { "$BUILD/tests/oracle_check" "$record" "$@"; }

for model in ${*:-wdl deepfm dlrm adult bank}; do
  record=$here/$model.json
  log=$here/$(sed -n 's/.*"log": "\(.*\)".*/\1/p' "$record")
  read -ra defines < <(check --defines)
  check --log "$log" || { fail "$model: other log"; continue; }
  "$BUILD/bin/ctrc" "$root/models/$model.ctr" "${defines[@]}" -o "$work/$model" || { fail "$model: doesn't compile"; continue; }
  "$work/$model" train --data "$log" --steps 0 --save "$work/start" > /dev/null 2> "$work/err" ||
    { cat "$work/err"; fail "$model: no checkpoint of the initial weights"; continue; }
  check --weights "$work/start" || { fail "$model: other initial weights"; continue; }
  "$work/$model" train --data "$log" --steps 20 --no-shuffle --threads 2 --log "$work/log" --log-every 1 > /dev/null 2> "$work/err" ||
    { cat "$work/err"; fail "$model: doesn't train"; continue; }
  check --losses "$work/log" --rel 1e-4 || fail "$model: compiled program"
  for level in 0 2; do
    "$BUILD/tests/replay" "$root/models/$model.ctr" "${defines[@]}" -O$level --data "$log" --load "$work/start" --steps 20 \
      > "$work/replayed" || fail "$model: no replay"
    check --losses "$work/replayed" --rel 1e-9 || fail "$model: interpreter, -O$level"
  done
done
exit $bad
