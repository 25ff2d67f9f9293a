#!/usr/bin/env bash
# The ladder: what a contest's winners did by hand to train six models in 30 % of the time, here by flags alone, one
# optimisation added after the other. Prints a Markdown table and writes one JSON object.
#   bash tests/bench/ladder.sh [options]
#     --auc | --times | --table    only this part: AUCs (may run beside other work: `nice`), times (wants a quiet machine),
#                        or just the table of what is kept; default: all three. Each prints the table in the end
#     --keep DIR         where results are kept from run to run, one file a figure (default build/bench/ladder/results);
#                        an AUC that is there is not taken again
#     --quick            few rows, steps and rounds, small hashes: about two minutes on an idle machine (the default)
#     --full             100,000 rows, 400 steps, 5 rounds, hashes as the models have them (a first rung of minutes)
#     --rows N --steps N --rounds N --seeds N     single figures of these
#     --epochs N         AUC after so many epochs instead of --steps
#     --threads N        of AUC runs (default: all; the same bits with any number)
#     --budget S         seconds that one measurement of a step's time may take; at least two steps
#     --buckets N        of every hash of WDL, DeepFM and DLRM (0: as the model has it)
#     --only wdl,din     of the models        --rungs exact,sru     of the rungs
#     --logs DIR         logs of ../shared/peers/make_logs.py; else they are made by that script, or by `ctrc synth` if
#                        it isn't there or no Python has numpy ($CTRC_PYTHON, default python3)
#     --ctrc FILE        the compiler (default: built into build/release)
#     --json FILE        default build/bench/ladder.json
#
# Rungs: `required`, the frontend's IR with only the required passes (-O0); `exact` passes (-O2); then, each on top of
# those before, `indicator`-to-embedding, `sru` (gru-to-sru), `micro`-batch(n=8), DIEN n=2. Beside the ladder, in place of
# sru and without micro-batches: `tied` and `light`, the other forms of an SRU. A pass that does not apply to a model is
# "–": its program is the one before. Figures: seconds to --steps steps of 512 rows from memory, from time a step; the
# ratio to the first rung within a round; CPU seconds of all threads; the AUC after training from the log, on the
# evaluation log, mean of the seeds and half the spread. Rounds are interleaved: in each, every program runs once.
# Medians over rounds. Nothing here decides a test.
#
# So the whole of it, AUCs whenever there is time and times when the machine is quiet:
#   nice -n 19 bash tests/bench/ladder.sh --auc   --full --epochs 3 --logs DIR --rungs exact,indicator,sru,micro,tied,light
#              bash tests/bench/ladder.sh --times --full --logs DIR
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/bench/measure.sh.inc
steps=40 seeds=3 epochs="" threads="" part=all kept="" wanted=""
while [ $# -gt 0 ]; do
  case $1 in
    --auc | --times | --table) part=${1#--}; shift ;;
    --steps) steps=$2; shift 2 ;; --seeds) seeds=$2; shift 2 ;; --epochs) epochs=$2; shift 2 ;; --threads) threads=$2; shift 2 ;;
    --keep) kept=$2; shift 2 ;; --rungs) wanted=" ${2//,/ } "; shift 2 ;;
    *) [ "$1" != --full ] || steps=400; option "$@"; shift $taken ;;
  esac
done
prepare ladder
kept=${kept:-$work/results}; mkdir -p "$kept"
does() { [ $part = all ] || [ $part = "$1" ]; }

rungs="required exact indicator sru micro tied light"
declare -A title=([required]="required passes" [exact]="+ exact passes" [indicator]="+ indicator-to-embedding" [sru]="+ gru-to-sru"
                  [micro]="+ micro-batch" [tied]="gru-to-sru(tied=true) instead" [light]="gru-to-sru(light) instead")
# The contest's own number of steps, for the last line.
declare -A contest=([wdl]=8900 [deepfm]=700 [dlrm]=11600 [din]=16000 [dien]=2700 [mmoe]=27700)
declare -A pass=([required]="" [exact]="" [indicator]=indicator-to-embedding [sru]=gru-to-sru [micro]=micro-batch [tied]=gru-to-sru [light]=gru-to-sru)
# The rung that each stands on.
declare -A below=([exact]=required [indicator]=exact [sru]=indicator [micro]=sru [tied]=indicator [light]=indicator)
for r in $wanted; do [ -n "${title[$r]:-}" ] || die "unknown rung $r: expected some of $rungs"; done
[ -z "$wanted" ] || for r in $rungs; do [[ $wanted == *" $r "* ]] || rungs=$(echo " $rungs " | sed "s/ $r / /"); done
blocks() { if [ "$1" = dien ]; then echo 2; else echo 8; fi; }
asked() { # asked MODEL RUNG: the passes that are on there by name
  case $2 in
    required | exact) ;;
    indicator) echo indicator-to-embedding ;;
    sru) echo "$(asked "$1" indicator),gru-to-sru" ;;
    micro) echo "$(asked "$1" sru),micro-batch(n=$(blocks "$1"))" ;;
    tied) echo "$(asked "$1" indicator),gru-to-sru(tied=true)" ;;
    light) echo "$(asked "$1" indicator),gru-to-sru(light)" ;;
  esac
}
flags() { if [ "$2" = required ]; then echo -O0; else local on; on=$(asked "$1" "$2"); echo "-O2${on:+ --enable=$on}"; fi; }

# ---- programs: same[m.r] is the rung whose program this one is ----
declare -A same
find_same() { # find_same MODEL RUNG
  local m=$1 r=$2
  [ -z "${same[$m.$r]:-}" ] || return 0
  [ -z "${below[$r]:-}" ] || find_same "$m" "${below[$r]}"
  same[$m.$r]=$m.$r
  # shellcheck disable=SC2046
  [ -z "${pass[$r]}" ] || applies "${pass[$r]}" "$m" $(flags "$m" "$r") || same[$m.$r]=${same[$m.${below[$r]}]}
}
for m in $only; do
  for r in $rungs; do
    find_same "$m" "$r"
    [ $part != table ] && [ "${same[$m.$r]}" = "$m.$r" ] || continue
    # shellcheck disable=SC2046
    compile "$work/$m.$r" "$m" $(flags "$m" "$r")
  done
  [ $part = table ] || say "compiled $m"
done
# each MODEL: its rungs that are programs of their own
each() { local r; for r in $rungs; do [ "${same[$1.$r]}" != "$1.$r" ] || echo "$r"; done; }
# keep_settings NAME TEXT: results of other settings are not mixed with these
keep_settings() {
  if [ -f "$kept/$1.settings" ]; then
    [ "$(cat "$kept/$1.settings")" = "$2" ] || die "$kept has results of other settings ($(cat "$kept/$1.settings"), now $2): give another --keep"
  fi
  echo "$2" > "$kept/$1.settings"
}

# ---- time: a run takes all of them anew ----
declare -A count
if does times; then
  rm -f "$kept"/*.{wall,cpu,ratio,steps}
  echo "$(machine); medians of $rounds interleaved rounds; $source_of_logs${buckets:+; hashes of $buckets}" > "$kept/times.told"
  for m in $only; do
    for r in $(each $m); do count[$m.$r]=$(steps_for "$work/$m.$r" $m); echo "${count[$m.$r]}" > "$kept/$m.$r.steps"; done
  done
  for round in $(seq "$rounds"); do
    for m in $only; do
      first=""
      for r in $(each $m); do
        both=$(step_time "$work/$m.$r" "${count[$m.$r]}" $m)
        wall=${both% *} cpu=${both#* }
        first=${first:-$wall}
        echo "$wall" >> "$kept/$m.$r.wall"; echo "$cpu" >> "$kept/$m.$r.cpu"
        echo "$wall $first" | awk '{ print $1 / $2 }' >> "$kept/$m.$r.ratio"
        say "round $round: $m $r, ${count[$m.$r]} steps: $(echo "$wall $cpu" | awk '{ printf "%.2f ms a step, %.2f ms of CPU", 1000 * $1, 1000 * $2 }')"
      done
    done
  done
fi

# ---- AUC: seed by seed, so that a run that is cut off has something of each ----
if does auc; then
  if [ -n "$epochs" ]; then length="--epochs $epochs" told="$epochs epochs"; else length="--epochs 1000 --steps $steps" told="$steps steps"; fi
  keep_settings auc "$told; $source_of_logs${buckets:+; hashes of $buckets}"
  for s in $(seq "$seeds"); do
    for m in $only; do
      for r in $(each $m); do
        to=$kept/$m.$r.$s.json
        [ ! -s "$to" ] || continue
        # shellcheck disable=SC2086
        "$work/$m.$r" train --data "$(file_of $m train)" --eval-data "$(file_of $m eval)" $length --cache memory --seed "$s" ${threads:+--threads $threads} --json 2> "$work/err" > "$to.part" ||
          { cat "$work/err" >&2; die "$m $r: training failed"; }
        mv "$to.part" "$to"
        say "AUC of $m $r, seed $s: $(aucs_in "$to")"
      done
    done
  done
fi

# ---- the table, of all that is kept ----
# mean and half the spread of each prediction: "0.6533 ±0.0012 / 0.6712 ±0.0004"; of fewer seeds than asked for, how many
auc_of() { # auc_of MODEL.RUNG
  local f
  for f in "$kept/$1".[0-9]*.json; do [ ! -s "$f" ] || aucs_in "$f"; done |
    awk -v seeds="$seeds" '{ for (i = 1; i <= NF; i++) { s[i] += $i; if (NR == 1 || $i < lo[i]) lo[i] = $i; if (NR == 1 || $i > hi[i]) hi[i] = $i } n = NF }
      END { if (!n) print "–"; else { for (i = 1; i <= n; i++) printf "%s%.4f ±%.4f", (i > 1 ? " / " : ""), s[i] / NR, (hi[i] - lo[i]) / 2; print NR < seeds ? sprintf(" (%d seed%s)", NR, NR == 1 ? "" : "s") : "" } }'
}
cell() { if [ -s "$kept/${same[$1]}.$2" ]; then median < "$kept/${same[$1]}.$2"; else echo -; fi; }
[ ! -f "$kept/times.told" ] || echo "Times: $(cat "$kept/times.told")."
[ ! -f "$kept/auc.settings" ] || echo "AUC: of $seeds seeds after $(cat "$kept/auc.settings")."
echo
echo "| model | passes | s to $steps steps | ratio | CPU s | CPU ratio | AUC |"
echo "|---|---|---|---|---|---|---|"
first_of() { echo "${rungs%% *}"; }
rungs=$(echo $rungs)
for m in $only; do
  for r in $rungs; do
    case $r in tied | light) [ "${same[$m.$r]}" = "$m.$r" ] || continue ;; esac # told where there is an SRU
    note=""; [ "${same[$m.$r]}" = "$m.$r" ] || note=" –"
    by="${title[$r]}"; [ $r != micro ] || by="$by(n=$(blocks $m))"
    echo "$(cell $m.$r wall) $(cell $m.$r ratio) $(cell $m.$r cpu) $(cell "$m.$(first_of)" cpu)" |
      awk -v m=$m -v by="$by$note" -v n="$steps" -v auc="$(auc_of "${same[$m.$r]}")" 'function num(x, y, f) { return x == "-" || y == "-" || y == 0 ? "–" : sprintf(f, x * y) }
        { printf "| %s | %s | %s | %s | %s | %s | %s |\n", m, by, num($1, n, "%.2f"), num($2, 1, "%.3f"), num($3, n, "%.2f"), $4 == "-" || $4 == 0 ? "–" : num($3, 1 / $4, "%.3f"), auc }'
  done
done
if [ -f "$kept/times.told" ]; then
  for r in $rungs; do
    case $r in tied | light) continue ;; esac
    for m in $only; do echo "$(cell $m.$r wall) $(cell "$m.$(first_of)" wall) $(cell $m.$r cpu) $(cell "$m.$(first_of)" cpu) ${contest[$m]}"; done |
      awk -v by="${title[$r]}" -v n="$steps" '{ if ($1 == "-" || $2 == "-") lacks = 1; a += $1; b += $2; c += $3; d += $4; e += $1 * $5; f += $2 * $5 }
        END { if (lacks || !b || !d) exit; printf "| **total** | %s | %.2f | %.3f | %.2f | %.3f | at the contest'"'"'s steps: %.0f s, ratio %.3f |\n", by, n * a, a / b, n * c, c / d, e, e / f }'
  done
fi

# ---- the same as JSON ----
column() { [ ! -s "$1" ] || paste -sd , "$1"; }
{
  printf '{"times":"%s","auc":"%s","steps":%d,"models":{' "$(cat "$kept/times.told" 2> /dev/null || true)" "$(cat "$kept/auc.settings" 2> /dev/null || true)" "$steps"
  comma=""
  for m in $only; do
    printf '%s"%s":[' "$comma" $m; comma=","; inner=""
    for r in $rungs; do
      s=${same[$m.$r]}
      auc=$(for f in "$kept/$s".[0-9]*.json; do [ ! -s "$f" ] || aucs_in "$f" | sed 's/ /,/g; s/.*/[&]/'; done | paste -sd ,)
      printf '%s{"rung":"%s","flags":"%s","applies":%s,"steps_measured":%s,"wall_s_a_step":[%s],"cpu_s_a_step":[%s],"ratio":[%s],"auc":[%s]}' "$inner" $r "$(flags $m $r)" \
        "$([ "$s" = $m.$r ] && echo true || echo false)" "$(cat "$kept/$s.steps" 2> /dev/null || echo null)" "$(column "$kept/$s.wall")" "$(column "$kept/$s.cpu")" "$(column "$kept/$s.ratio")" "$auc"
      inner=","
    done
    printf ']'
  done
  printf '}}\n'
} > "$json"
say "JSON: $json"
