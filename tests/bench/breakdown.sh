#!/usr/bin/env bash
# Where a training step's CPU time goes, by kind of kernel: samples one or more programs with perf, all at once so
# that what else the machine does falls on them alike, and prints ms a step, one column a program.
#   bash tests/bench/breakdown.sh LOG PROGRAM...        (EPOCHS=4, on one thread each, rows from memory)
# User CPU time, not wall time. Needs perf (linux-perf). The first epoch's reading is in "reader".
set -euo pipefail
log=${1:?usage: breakdown.sh LOG PROGRAM...}; shift
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
i=0
for program in "$@"; do
  perf record -q -F 1000 -e cpu-clock:u -o "$work/$i.perf" "$(realpath "$program")" train --threads 1 --cache memory \
    --epochs "${EPOCHS:-4}" --data "$log" --json > "$work/$i.json" 2> "$work/$i.err" &
  i=$((i + 1))
done
wait
for ((k = 0; k < i; k++)); do
  steps=$(grep -oE '"steps": *[0-9]+' "$work/$k.json" | head -n 1 | grep -oE '[0-9]+') || { cat "$work/$k.err" >&2; exit 1; }
  perf report -i "$work/$k.perf" --sort symbol -n --stdio 2> /dev/null | awk -v k="$k" -v steps="$steps" '
    function kind(s) {
      if (s ~ /^recurrent_product|_k[0-9]+_(au)?gru(_grad)?$/) return "2 recurrent layers"
      if (s ~ /_gradient_and_update$/) return "3 updates in one visit with gradients: packing, narrow ones, formulas"
      if (s ~ /^tile_[0-9]+(x[0-9]+)?_[468](_|$)/) return "2 weight gradients: tiles"
      if (s ~ /^tile_/) return "1 products and dx: tiles"
      if (s ~ /_k[0-9]+_pack$/) return "4 packing of weights"
      if (s ~ /matmul_grad_w/) return "3 weight gradients: packing, narrow ones"
      if (s ~ /_k[0-9]+_update$/) return "5 updates of whole weights"
      if (s ~ /update_rows|row_grad|gather|embed|fetch|memmove|memcpy|rt_tables|rt_touched|rt_init/) return "6 gathers, gradients and updates of rows"
      if (s ~ /concat|slice|copy|shift|memset/) return "7 copies"
      if (s ~ /sum_rows|mean_rows|sumsq/) return "8 sums over rows"
      if (s ~ /_k[0-9]+_(matmul|fused)$/) return "4 elementwise chains"
      if (s ~ /_k[0-9]+_/) return "9 other kernels"
      return "a reader and runtime"
    }
    /^ +[0-9.]+%/ { t[kind($4)] += $2; all += $2 }
    END { for (j in t) printf "%s\t%d\t%.2f\n", j, k, t[j] / steps; printf "b all\t%d\t%.2f\n", k, all / steps }'
done | sort | awk -F '\t' -v n="$i" '
  $1 != last { if (last != "") row(); last = $1; split("", v) } { v[$2] = $3 } END { row() }
  function row(   j, line) {
    line = "| " substr(last, 3)
    for (j = 0; j < n; j++) line = line " | " (j in v ? v[j] : "0.00")
    print line " |"
  }'
