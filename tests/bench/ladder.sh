#!/usr/bin/env bash
# The ladder: what a contest's winners did by hand to train six models in 30 % of the time, here by flags alone, one
# optimisation added after the other. Prints a Markdown table and writes one JSON object.
#   bash tests/bench/ladder.sh [options]
#     --quick            few rows, steps and rounds, small hashes: about two minutes on an idle machine (the default)
#     --full             100,000 rows, 400 steps, 5 rounds, hashes as the models have them (a first rung of minutes)
#     --rows N --steps N --rounds N --seeds N     single figures of these
#     --budget S         seconds that one measurement of a step's time may take; at least two steps
#     --limit S          an AUC is left out where training to --steps would take longer than so
#     --buckets N        of every hash of WDL, DeepFM and DLRM (0: as the model has it)
#     --only wdl,din     of the models
#     --logs DIR         logs of ../shared/peers/make_logs.py; else they are made by that script, or by `ctrc synth` if
#                        it isn't there or no Python has numpy ($CTRC_PYTHON, default python3)
#     --ctrc FILE        the compiler (default: built into build/release)
#     --json FILE        default build/bench/ladder.json
#
# Rungs: the frontend's IR with only the required passes (-O0); exact passes (-O2); then, each on top of those before,
# indicator-to-embedding, gru-to-sru, micro-batch(n=8), DIEN n=2. A pass that does not apply to a model is "–": its
# program is the one before. Figures: seconds to --steps steps of 512 rows from memory, from time a step; the ratio to
# the first rung within a round; CPU seconds of all threads; the AUC after so many steps of training from the log, on the
# evaluation log, mean of the seeds and half the spread. Rounds are interleaved: in each, every program runs once.
# Medians over rounds. Nothing here decides a test.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/bench/measure.sh.inc
steps=40 seeds=3 limit=30
while [ $# -gt 0 ]; do
  case $1 in
    --steps) steps=$2; shift 2 ;; --seeds) seeds=$2; shift 2 ;; --limit) limit=$2; shift 2 ;;
    *) [ "$1" != --full ] || { steps=400 limit=600; }; option "$@"; shift $taken ;;
  esac
done
prepare ladder

rungs="required exact indicator sru micro"
declare -A title=([required]="required passes" [exact]="+ exact passes" [indicator]="+ indicator-to-embedding" [sru]="+ gru-to-sru" [micro]="+ micro-batch")
# The contest's own number of steps, for the last line.
declare -A contest=([wdl]=8900 [deepfm]=700 [dlrm]=11600 [din]=16000 [dien]=2700 [mmoe]=27700)
declare -A pass=([required]="" [exact]="" [indicator]=indicator-to-embedding [sru]=gru-to-sru [micro]=micro-batch)
for r in $rungs; do
  [ -z "${pass[$r]}" ] || "$ctrc" --list-passes | grep -q "^${pass[$r]} " || { say "this ctrc has no pass ${pass[$r]}: its rung is left out"; rungs=${rungs/ $r/}; }
done
blocks() { if [ "$1" = dien ]; then echo 2; else echo 8; fi; }
flags() { # flags MODEL RUNG: all that is on there
  local on="" r
  [ "$2" != required ] || { echo "-O0"; return; }
  for r in $rungs; do
    [ -z "${pass[$r]}" ] || on=$on,${pass[$r]}
    [ $r != micro ] || on="$on(n=$(blocks "$1"))"
    [ "$r" != "$2" ] || break
  done
  echo "-O2${on:+ --enable=${on#,}}"
}

# ---- programs: same[m.r] is the rung whose program this one is ----
declare -A same
for m in $only; do
  below=required
  for r in $rungs; do
    same[$m.$r]=$m.$r
    # shellcheck disable=SC2046
    if [ -n "${pass[$r]}" ] && ! applies "${pass[$r]}" $m $(flags $m $r); then
      same[$m.$r]=${same[$m.$below]}
    else
      # shellcheck disable=SC2046
      compile "$work/$m.$r" $m $(flags $m $r)
    fi
    below=$r
  done
  say "compiled $m"
done

# ---- time ----
declare -A count
for m in $only; do
  for r in $rungs; do if [ "${same[$m.$r]}" = $m.$r ]; then count[$m.$r]=$(steps_for "$work/$m.$r" $m); fi; done
done
for round in $(seq "$rounds"); do
  for m in $only; do
    first=""
    for r in $rungs; do
      [ "${same[$m.$r]}" = $m.$r ] || continue
      both=$(step_time "$work/$m.$r" "${count[$m.$r]}" $m)
      wall=${both% *} cpu=${both#* }
      first=${first:-$wall $cpu}
      echo "$wall" >> "$work/$m.$r.wall"; echo "$cpu" >> "$work/$m.$r.cpu"
      echo "$wall ${first% *}" | awk '{ print $1 / $2 }' >> "$work/$m.$r.ratio"
      say "round $round: $m $r, ${count[$m.$r]} steps: $(echo "$wall $cpu" | awk '{ printf "%.2f ms a step, %.2f ms of CPU", 1000 * $1, 1000 * $2 }')"
    done
  done
done

# ---- AUC ----
for m in $only; do
  for r in $rungs; do
    [ "${same[$m.$r]}" = $m.$r ] || continue
    awk -v t="$(median < "$work/$m.$r.wall")" -v n="$steps" -v limit="$limit" 'BEGIN { exit t * n > limit }' || { say "$m $r: no AUC, $steps steps would take longer than --limit"; continue; }
    for s in $(seq "$seeds"); do
      "$work/$m.$r" train --data "$(file_of $m train)" --eval-data "$(file_of $m eval)" --epochs 1000 --cache memory --steps "$steps" --seed "$s" --json 2> "$work/err" > "$work/out" ||
        { cat "$work/err" >&2; die "$m $r: training failed"; }
      sed 's/"epochs".*//' "$work/out" | grep -o '"auc":{[^}]*}' | grep -oE ':[0-9.eE+-]+' | tr -d : | paste -sd ' ' >> "$work/$m.$r.auc"
    done
  done
done
# mean and half the spread of each column: "0.6533 ±0.0012 / 0.6712 ±0.0004"
auc_of() {
  [ -f "$1" ] || { echo "–"; return; }
  awk '{ for (i = 1; i <= NF; i++) { s[i] += $i; if (NR == 1 || $i < lo[i]) lo[i] = $i; if (NR == 1 || $i > hi[i]) hi[i] = $i } n = NF }
    END { for (i = 1; i <= n; i++) printf "%s%.4f ±%.4f", (i > 1 ? " / " : ""), s[i] / NR, (hi[i] - lo[i]) / 2; print "" }' "$1"
}

# ---- the table ----
echo "$(machine); medians of $rounds interleaved rounds; $source_of_logs${buckets:+; hashes of $buckets}; AUC of $seeds seeds after $steps steps"
echo
echo "| model | passes | s to $steps steps | ratio | CPU s | CPU ratio | AUC |"
echo "|---|---|---|---|---|---|---|"
cell() { median < "$work/${same[$1]}.$2"; }
for m in $only; do
  for r in $rungs; do
    note=""; [ "${same[$m.$r]}" = $m.$r ] || note=" –"
    by="${title[$r]}"; [ $r != micro ] || by="$by(n=$(blocks $m))"
    echo "$(cell $m.$r wall) $(cell $m.$r ratio) $(cell $m.$r cpu) $(cell $m.required cpu)" |
      awk -v m=$m -v by="$by$note" -v n="$steps" -v auc="$(auc_of "$work/${same[$m.$r]}.auc")" '{ printf "| %s | %s | %.2f | %.3f | %.2f | %.3f | %s |\n", m, by, n * $1, $2, n * $3, $3 / $4, auc }'
  done
done
for r in $rungs; do
  for m in $only; do echo "$(cell $m.$r wall) $(cell $m.required wall) $(cell $m.$r cpu) $(cell $m.required cpu) ${contest[$m]}"; done |
    awk -v by="${title[$r]}" -v n="$steps" '{ a += $1; b += $2; c += $3; d += $4; e += $1 * $5; f += $2 * $5 }
      END { printf "| **total** | %s | %.2f | %.3f | %.2f | %.3f | at the contest'"'"'s steps: %.0f s, ratio %.3f |\n", by, n * a, a / b, n * c, c / d, e, e / f }'
done

# ---- the same as JSON ----
column() { sed 's/ .*//' "$1" | paste -sd ,; }
{
  printf '{"machine":"%s","logs":"%s","rows":%d,"steps":%d,"rounds":%d,"seeds":%d,"buckets":%s,"models":{' "$(machine)" "$source_of_logs" "$rows" "$steps" "$rounds" "$seeds" "${buckets:-null}"
  comma=""
  for m in $only; do
    printf '%s"%s":[' "$comma" $m; comma=","; inner=""
    for r in $rungs; do
      s=${same[$m.$r]}; auc="[]"; [ ! -f "$work/$s.auc" ] || auc="[$(sed 's/ /,/g; s/.*/[&]/' "$work/$s.auc" | paste -sd ,)]"
      printf '%s{"rung":"%s","flags":"%s","applies":%s,"steps_measured":%d,"wall_s_a_step":[%s],"cpu_s_a_step":[%s],"ratio":[%s],"auc":%s}' "$inner" $r "$(flags $m $r)" \
        "$([ "$s" = $m.$r ] && echo true || echo false)" "${count[$s]}" "$(column "$work/$s.wall")" "$(column "$work/$s.cpu")" "$(column "$work/$s.ratio")" "$auc"
      inner=","
    done
    printf ']'
  done
  printf '}}\n'
} > "$json"
say "JSON: $json"
