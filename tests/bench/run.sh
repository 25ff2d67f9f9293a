#!/usr/bin/env bash
# Measures, on this machine, everything that is promised: what the machine can do, compile time, start-up, training
# from memory and from text, evaluation, prediction, memory, tables of several sizes, the reader, the race against
# frameworks. Prints one Markdown report and writes it and one JSON report to build/bench/.
#   bash tests/bench/run.sh [options]
#     --rounds N         interleaved rounds (default 3): in each everything runs once; figures are medians, with the spread
#     --only wdl,din     models (default: the six reference models; any of models/ or tests/bench/, by `ctrc synth`)
#     --parts P,P        of machine models tables reader peers (default: all)
#     --quick            one round, 5,000 rows, small hashes, tables of up to 10^6 rows, no peers: some minutes
#     --rows N           of the logs (default 100,000)       --logs DIR   logs of ../shared/peers/make_logs.py
#     --buckets N        of every hash of WDL, DeepFM and DLRM (default: as the model has it)
#     --no-peers         no race        --peers-rounds N   rounds of the race (default: as --rounds)
#     --venv DIR         the race's virtual environments (default $CTRC_VENV, ../venv; `race.py setup` makes them)
#     --ctrc FILE        the compiler (default: built into build/release)
#     --against-ctrc FILE   another one, measured in the same rounds, and beside it the ratios new / other
#     --against OLD.json ratios new / old to an earlier report
#     --json FILE        default build/bench/report.json; the Markdown stands beside it, and other's JSON as FILE.other.json
#     --work DIR         what is removed and made anew by each run (default build/bench/run)
#     --compare OLD.json NEW.json   measures nothing: compares two reports
#
# Logs come from ../shared/peers/make_logs.py where it is and a Python has numpy ($CTRC_PYTHON), else from `ctrc synth`.
# Nothing here decides a test. The machine should be idle; on one that is not, --against-ctrc is what to believe.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/bench/measure.sh.inc
. tests/bench/report.sh.inc
. tests/bench/models.sh.inc
. tests/bench/parts.sh.inc
against() { awk -f tests/bench/compare.awk "$1" "$2"; }

rows=100000 rounds=3 buckets="" parts="machine models tables reader peers" quick=no work=build/bench/run other="" old="" peers_rounds="" venv=${CTRC_VENV:-}
while [ $# -gt 0 ]; do
  case $1 in
    --compare) [ $# = 3 ] || die "--compare takes two reports: OLD.json NEW.json"; against "$2" "$3"; exit ;;
    --quick) quick=yes rows=5000 rounds=1 buckets=1000 parts=${parts% peers}; shift ;;
    --parts) parts=${2//,/ }; shift 2 ;;
    --no-peers) parts=${parts% peers}; shift ;;
    --peers-rounds) peers_rounds=$2; shift 2 ;;
    --venv) venv=$2; shift 2 ;; --work) work=$2; shift 2 ;;
    --against-ctrc) other=$(readlink -f "$2"); shift 2 ;;
    --against) old=$2; [ -f "$old" ] || die "no $old"; shift 2 ;;
    --rounds | --only | --rows | --logs | --buckets | --ctrc | --json) option "$@"; shift $taken ;;
    *) die "unknown option $1 (see the head of $0)" ;;
  esac
done
for p in $parts; do [[ " machine models tables reader peers " == *" $p "* ]] || die "unknown part $p: expected some of machine models tables reader peers"; done
for m in $only; do [ -f "$(model_of "$m")" ] || die "unknown model $m: expected some of models/ or tests/bench/"; done
does() { [[ " $parts " == *" $1 "* ]]; }

# ---- compilers, programs and logs ----
if [ -z "$ctrc" ]; then bash tests/install.sh; bash tests/build.sh release; ctrc=build/release/bin/ctrc; fi
ctrc=$(readlink -f "$ctrc")
declare -A ctrc_of=([new]=$ctrc)
whos=new; [ -z "$other" ] || { whos="new other" ctrc_of[other]=$other; }
json=${json:-build/bench/report.json}; report=${json%.json}.md
rm -rf "$work"; mkdir -p "$work" "$(dirname "$json")"
run_id="$(date +%s.%N) $$" machine_told=$(machine)
cc -O2 -D_GNU_SOURCE -o "$work/timed" tests/bench/timed.c
touch "$work/values.new" "$work/values.other"
sizes="100000 1000000 10000000 100000000" table_lines=60000
[ $quick = no ] || { sizes="100000 1000000" table_lines=10240; }

# bench_machine and bench_reader: built in the compiler's own tree, if it lies in one
benches=$(dirname "$(dirname "$ctrc")")/tests
programs=""; ! does machine || programs=bench_machine; ! does reader || programs="$programs bench_reader"
if [ -n "$programs" ]; then
  # shellcheck disable=SC2086
  cmake --build "$(dirname "$benches")" --target $programs > "$work/err" 2>&1 || { tail -n 20 "$work/err" >&2; die "$programs: cannot be built in $(dirname "$benches")"; }
fi
# shellcheck disable=SC2086
case " $parts " in *" models "* | *" reader "*)
  named=""; for m in $only; do [ "$(kind_of "$m")" = own ] || named="$named $m"; done
  ! does reader || named="$named deepfm"
  [ -z "$named" ] || prepare_logs "$rows" $named
  for m in $only; do [ "$(kind_of "$m")" != own ] || prepare_own "$rows" "$m"; done ;;
esac
if does models; then for m in $only; do for who in $whos; do prepare_model $who "$m"; done; done; fi
if does tables; then prepare_tables; fi
if does reader && ! prepare_reader; then say "no reader: $ctrc has no sources beside it"; parts=$(echo " $parts " | sed 's/ reader / /'); fi

# ---- rounds ----
turned=$whos
for round in $(seq "$rounds"); do
  does machine && { machine_round; say "round $round: machine"; }
  if does models; then
    for m in $only; do for who in $turned; do model_round $who "$m"; say "round $round: $m $who"; done; done
  fi
  if does tables; then for who in $turned; do tables_round $who; say "round $round: tables $who"; done; fi
  does reader && { reader_round; say "round $round: reader"; }
  turned=$(echo "$turned" | awk '{ for (i = NF; i; i--) printf "%s ", $i }') # neither compiler is always the first
done
race_told=""
if does peers; then
  venv=${venv:-../venv} race_work=${CTRC_RACE_WORK:-$PWD/build/bench/race}
  raced=$(for m in $only; do [[ " $reference " != *" $m "* ]] || echo "$m"; done | paste -sd ,)
  if [ ! -f "$peers/race.py" ]; then race_told="no $peers/race.py"
  elif [ -z "$raced" ]; then race_told="none of the six reference models was asked for"
  elif [ ! -x "$venv/torch/bin/python" ] || [ ! -x "$venv/tf/bin/python" ]; then race_told="no virtual environments in $venv: \`race.py setup --venv DIR\` makes them, --venv DIR names them"
  else mkdir -p "$race_work"; race; fi
fi

# ---- the reports ----
json_of new "${ctrc_of[new]}" > "$json"
[ -z "$other" ] || json_of other "$other" > "${json%.json}.other.json"
{
  echo "# Measured"
  echo
  echo "$machine_told; $rounds interleaved round$([ "$rounds" = 1 ] || echo s), medians${source_of_logs:+; $source_of_logs}${buckets:+; hashes of $buckets}; $ctrc."
  if does machine; then printf '\n## The machine\n\n'; machine_table; fi
  if does models; then printf '\n## Models\n\n'; models_table new; fi
  if does models && [ -n "$other" ]; then printf '\n## Models, by %s\n\n' "$other"; models_table other; fi
  if does tables; then printf '\n## Table sizes\n\n'; tables_table new; fi
  if does reader; then printf '\n## Reader\n\n'; reader_table; fi
  if does peers; then printf '\n## The race\n\n'; if [ -n "$race_told" ]; then echo "Not run: $race_told."; else echo '```'; cat "$work/race.txt"; echo '```'; fi; fi
  if [ -n "$other" ]; then printf '\n## New beside other\n\n'; against "${json%.json}.other.json" "$json"; fi
  if [ -n "$old" ]; then printf '\n## New beside old\n\n'; against "$old" "$json"; fi
  printf '\n## All figures\n\n'; all_figures
} > "$report"
cat "$report"
say "reports: $report $json"
