#!/usr/bin/env bash
# What each pass does to each of the six reference models: kernels, FLOPs and bytes of a training step (from
# --emit=plan) and time a step, without it and with it. Prints a Markdown table and writes one JSON object.
#   bash tests/bench/passes.sh [options]
#     --quick | --full             as in ladder.sh (20,000 rows and hashes of 1,000, or the models' own)
#     --rounds N  --budget S  --rows N  --buckets N  --only wdl,din  --logs DIR  --ctrc FILE   as in ladder.sh
#     --passes P[,P]               of these (default: all that are not required)
#     --no-time                    what the plan says alone; takes seconds
#     --least                      CPU time of one thread, by the least of all rounds' runs: for a machine that others use,
#                                  where medians say more of these. As many rounds as there is time for, at least 3
#     --json FILE                  default build/bench/passes.json
#
# An exact pass is left out of -O2 by --disable; one that changes the model is added to -O2 by --enable. "–" is a pass
# that leaves the model's program as it is: its time is not taken. mixed-precision is forced where the CPU has no bf16
# products; it then costs time. Times: medians of interleaved rounds, from memory, in ms of wall time and of CPU time
# of all threads; the latter is the steadier on a machine that does other work. Nothing here decides a test.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/bench/measure.sh.inc
passes="" timed=yes least=no
while [ $# -gt 0 ]; do
  case $1 in
    --no-time) timed=no; shift ;; --least) least=yes; shift ;; --passes) passes=${2//,/ }; shift 2 ;;
    *) option "$@"; shift $taken ;;
  esac
done
prepare passes

"$ctrc" --list-passes > "$work/list"
all=$(awk '!/ required / && !seen[$1]++ { print $1 }' "$work/list")
for p in ${passes:=$all}; do grep -qx "$p" <<< "$all" || die "unknown pass $p: expected some of $(echo $all)"; done
exact() { grep -q "^$1 .* exact " "$work/list"; }
argument() { # what a pass that changes the model is measured with
  case $1 in micro-batch) if [ "$2" = dien ]; then echo "(n=2)"; else echo "(n=8)"; fi ;; mixed-precision) echo "(force=true)" ;; esac
}
# The program of model m with everything is m.all; m.P is that without the exact pass P, or with P, which changes it.
flag() { if exact "$1"; then echo "--disable=$1"; else echo "--enable=$1$(argument "$1" "$2")"; fi; }
without() { if exact "$2"; then echo "$1.$2"; else echo "$1.all"; fi; }
with() { if exact "$2"; then echo "$1.all"; else echo "$1.$2"; fi; }

# ---- programs, and what their plans say ----
declare -A changed count
build() { # build NAME MODEL FLAGS…
  local name=$1; shift
  compile "$work/$name.plan" "$@" --emit=plan
  [ $timed = no ] || compile "$work/$name" "$@"
}
graph() { compile "$work/$1.ir" "$2" "${@:3}" --emit=ir; sed -i '/^\(applied\|effect\) /d' "$work/$1.ir"; }
for m in $only; do
  build $m.all $m; graph $m.all $m
  for p in $passes; do
    graph $m.$p $m "$(flag $p $m)"
    changed[$m.$p]=no
    cmp -s "$work/$m.all.ir" "$work/$m.$p.ir" || { changed[$m.$p]=yes; build $m.$p $m "$(flag $p $m)"; }
  done
  say "compiled $m"
done
# kernels, MFLOP and MB of func train
train_of() { sed -n 's/^  total: \([0-9]*\) kernels in [0-9]* phases\{0,1\}, \([0-9.]*\) MFLOP and \([0-9.]*\) MB.*/\1 \2 \3/p' "$work/$1.plan" | head -n 1; }

# ---- time ----
# runs_of_one PROGRAM STEPS MODEL: CPU seconds of one epoch and of five, by one thread
runs_of_one() {
  local log; log=$(cut_log "$3" "$2")
  echo "$(cpu_of "$1" train --data "$log" --cache memory --epochs 1 --no-shuffle --threads 1 --json) $(cpu_of "$1" train --data "$log" --cache memory --epochs 5 --no-shuffle --threads 1 --json)"
}
least_of() { # least_of MODEL.PASS: seconds a step
  awk -v n="${count[$1]}" 'NR == 1 || $1 < one { one = $1 } NR == 1 || $2 < five { five = $2 } END { printf "%.6g\n", (five - one) / 4 / n }' "$work/$1.runs"
}
if [ $timed = yes ]; then
  for m in $only; do
    for p in all $passes; do [ $p != all ] && [ ${changed[$m.$p]} = no ] || count[$m.$p]=$(steps_for "$work/$m.$p" $m); done
  done
  for round in $(seq "$rounds"); do
    for m in $only; do
      for p in all $passes; do
        [ -n "${count[$m.$p]:-}" ] || continue
        if [ $least = yes ]; then
          runs_of_one "$work/$m.$p" "${count[$m.$p]}" $m >> "$work/$m.$p.runs"
          say "round $round: $m $p, ${count[$m.$p]} steps: $(least_of $m.$p | awk '{ printf "%.2f ms of CPU at least", 1000 * $1 }')"
          continue
        fi
        both=$(step_time "$work/$m.$p" "${count[$m.$p]}" $m)
        echo "${both% *}" >> "$work/$m.$p.wall"; echo "${both#* }" >> "$work/$m.$p.cpu"
        say "round $round: $m $p, ${count[$m.$p]} steps: $(echo "$both" | awk '{ printf "%.2f ms a step, %.2f ms of CPU", 1000 * $1, 1000 * $2 }')"
      done
    done
  done
fi
# --least: the fastest run of each kind; what happened to others is of the machine
time_of() { if [ -f "$work/$1.runs" ]; then if [ $2 = cpu ]; then least_of $1; else echo null; fi; elif [ -f "$work/$1.$2" ]; then median < "$work/$1.$2"; else echo null; fi; }

# ---- the table, and the same as JSON ----
echo "$(machine); $([ $timed = no ] || echo "$([ $least = no ] && echo medians || echo 'the least') of $rounds interleaved rounds; $source_of_logs"'; ')a step of $batch rows${buckets:+; hashes of $buckets}"
echo
row() { if [ $timed = yes ]; then printf '| %s | %s | %s | %s | %s | %s | %s | %s |\n' "$@"; else printf '| %s | %s | %s | %s | %s |\n' "${@:1:5}"; fi; }
row pass model kernels MFLOP MB "wall ms" "CPU ms" "CPU ratio"
row --- --- --- --- --- --- --- ---
printf '{"machine":"%s","rows":%d,"rounds":%d,"buckets":%s,"passes":[' "$(machine)" "$rows" "$rounds" "${buckets:-null}" > "$json"
comma=""
for p in $passes; do
  for m in $only; do
    if [ ${changed[$m.$p]} = no ]; then
      row $p $m – – – – – –
      printf '%s{"pass":"%s","model":"%s","applies":false}' "$comma" $p $m >> "$json"
    else
      off=$(without $m $p) on=$(with $m $p)
      figures="$(train_of $off) $(train_of $on) $(time_of $off wall) $(time_of $on wall) $(time_of $off cpu) $(time_of $on cpu)"
      echo "$figures" | awk 'function num(x) { return x < 100 ? sprintf("%.1f", x) : sprintf("%.0f", x) }
        function ms(i) { return $i == "null" ? "–" : num(1000 * $i) " → " num(1000 * $(i + 1)) }
        { printf "%d → %d\t%s → %s\t%s → %s\t%s\t%s\t%s\n", $1, $4, num($2), num($5), num($3), num($6), ms(7), ms(9), ($9 == "null" || $9 == 0 ? "" : sprintf("%.2f", $10 / $9)) }' > "$work/cells"
      IFS=$'\t' read -r -a cells < "$work/cells"
      row "$p$(argument $p $m)" $m "${cells[@]}"
      echo "$figures" | awk -v c="$comma" -v p=$p -v m=$m '{ printf "%s{\"pass\":\"%s\",\"model\":\"%s\",\"applies\":true,\"kernels\":[%s,%s],\"mflop\":[%s,%s],\"mb\":[%s,%s],\"wall_s\":[%s,%s],\"cpu_s\":[%s,%s]}", c, p, m, $1, $4, $2, $5, $3, $6, $7, $8, $9, $10 }' >> "$json"
    fi
    comma=","
  done
done
echo ']}' >> "$json"
say "JSON: $json"
