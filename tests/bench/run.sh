#!/usr/bin/env bash
# Measures, on this machine: compile time and start-up of each model, training from memory and from text, and the
# programs' size. Where ../shared/peers is present, `race.py run` races the frameworks beside it (see there).
#   bash tests/bench/run.sh [ROUNDS]
# Nothing here decides a test. Medians of ROUNDS (default 3) interleaved rounds; the machine should be idle.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-3}
bash tests/install.sh
bash tests/build.sh release
ctrc=$PWD/build/release/bin/ctrc
work=build/bench; mkdir -p "$work"
models="wdl deepfm dlrm adult bank"
now() { date +%s.%N; }
median() { sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
rate() { sed -n 's/.*"epochs": *\[\(.*\)\].*/\1/p' | grep -oE '"samples_per_s": *[0-9.eE+]+' | sed 's/.*: *//'; }
for m in $models; do [ -f "$work/$m.log" ] || "$ctrc" synth models/$m.ctr --rows 60000 --seed 1 -o "$work/$m.log" 2> /dev/null; done
for r in $(seq "$rounds"); do
  for m in $models; do
    t=$(now); "$ctrc" models/$m.ctr -o "$work/$m"; awk -v a="$t" -v b="$(now)" 'BEGIN { print b - a }' >> "$work/$m.compile.$$"
    t=$(now); "$work/$m" info > /dev/null; awk -v a="$t" -v b="$(now)" 'BEGIN { print (b - a) * 1000 }' >> "$work/$m.info.$$"
    "$work/$m" train --data "$work/$m.log" --epochs 3 --cache memory --json 2> /dev/null | rate > "$work/rates"
    head -n 1 "$work/rates" >> "$work/$m.text.$$"; tail -n +2 "$work/rates" | median >> "$work/$m.step.$$"
    echo "round $r: $m" >&2
  done
done
echo "$(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1); medians of $rounds rounds; logs of ctrc synth, 60,000 rows"
echo
echo "| model | compile s | info ms | step rows/s | text rows/s | program KB |"
echo "|---|---|---|---|---|---|"
for m in $models; do
  printf '| %s | %.2f | %.0f | %.0f | %.0f | %d |\n' $m "$(median < "$work/$m.compile.$$")" "$(median < "$work/$m.info.$$")" \
    "$(median < "$work/$m.step.$$")" "$(median < "$work/$m.text.$$")" "$(($(stat -c %s "$work/$m") / 1024))"
done
rm -f "$work"/*.$$
