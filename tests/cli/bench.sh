#!/usr/bin/env bash
# tests/bench/run.sh: what it says of two reports, to the letter, and that a small run makes whole ones. No time decides.
. tests/cli/common.sh.inc
bench() { local code=$1; shift; (cd "$source_dir" && timeout 300 bash tests/bench/run.sh "$@" > "$work/out" 2> "$work/err"); local got=$?; [ $got = "$code" ] || { fail "run.sh $*: exit code $got, expected $code"; cat err; }; }
told() { printf '%s\n' "$1" > want; cmp -s want out || { fail "the report isn't what it should be:"; diff want out; }; }

# report RUN CTRC FIGURE…: as run.sh writes it
report() {
  printf '{"report":"ctrc bench 1","run":"%s","machine":"2 cores","ctrc":"%s","date":"2026-01-01T00:00:00Z","rounds":3,"rows":9,"logs":"",\n"figures":{\n' "$1" "$2"; shift 2
  printf '%s\n' "$@" | sed '$!s/$/,/'
  printf '}}\n'
}
figure() { echo "\"$1\":{\"unit\":\"$2\",\"better\":\"$3\",\"values\":[$4]}"; }
report "1 1" a "$(figure wdl.step rows/s more 100,110,120)" "$(figure wdl.compile s less 2,2.2,1.8)" "$(figure wdl.info ms less 5,5,5)" \
  "$(figure wdl.memory.step MB none 7,7,7)" "$(figure wdl.text rows/s more 0,1,1)" "$(figure old.step rows/s more 1,1,1)" "$(figure dlrm.step rows/s more 1000,2000)" > old.json
report "2 2" b "$(figure wdl.step rows/s more 150,140,160)" "$(figure wdl.compile s less 2.5,2.3,2.4)" "$(figure wdl.info ms less 4,5,6)" \
  "$(figure wdl.memory.step MB none 8,8,8)" "$(figure wdl.text rows/s more 1,1,1)" "$(figure new.step rows/s more 1,1,1)" "$(figure dlrm.step rows/s more 2500,2600)" > new.json
bench 0 --compare "$work/old.json" "$work/new.json"
told "old: 2 cores; ctrc a
new: 2 cores; ctrc b
Two runs: ratios of medians, spread over any two rounds.

| figure | unit | old | new | new / old | spread | |
|---|---|---|---|---|---|---|
| wdl.step | rows/s | 110 | 150 | 1.364 | 1.167–1.600 | **better** |
| wdl.compile | s | 2 | 2.4 | 1.200 | 1.045–1.389 | **worse** |
| wdl.info | ms | 5 | 5 | 1.000 | 0.800–1.200 |  |
| wdl.memory.step | MB | 7 | 8 | 1.143 | 1.143–1.143 | moved |
| dlrm.step | rows/s | 1500 | 2550 | 1.700 | 1.250–2.600 | few rounds |

1 better, 1 worse, beyond the spread.
No ratio, since an old value is 0: wdl.text.
In one report only: old.step (old), new.step (new)."
quiet
# rounds that two compilers had in common: what slowed one of them slowed the other
report "3 3" a "$(figure wdl.step rows/s more 100,50,200)" "$(figure wdl.info ms less 5,4,6)" > old.json
report "3 3" b "$(figure wdl.step rows/s more 110,56,218)" "$(figure wdl.info ms less 5,5,5)" > new.json
bench 0 --compare "$work/old.json" "$work/new.json"
told "old: 2 cores; ctrc a
new: 2 cores; ctrc b
One run: ratios within rounds.

| figure | unit | old | new | new / old | spread | |
|---|---|---|---|---|---|---|
| wdl.step | rows/s | 100 | 110 | 1.100 | 1.090–1.120 | **better** |
| wdl.info | ms | 5 | 5 | 1.000 | 0.833–1.250 |  |

1 better, 0 worse, beyond the spread.
Of 3 rounds all fall on one side of 1 by chance in one case of 4."
mv out first; tr -d '\n' < new.json | sed 's/[:,]/& /g' > other.json # the same object, written otherwise
bench 0 --compare "$work/old.json" "$work/other.json"; same first out

echo '{"report":"something else"}' > bad.json
bench 2 --compare "$work/old.json" "$work/bad.json"; says "compare: $work/bad.json: expected a report of tests/bench/run.sh"
bench 2 --compare "$work/old.json" "$work/none.json"; says "compare: $work/none.json: cannot be read"
bench 2 --compare "$work/old.json"; says "run.sh: --compare takes two reports: OLD.json NEW.json"
bench 2 --parts models,tents; says "run.sh: unknown part tents: expected some of machine models tables reader peers"
bench 2 --only wdl,nothing; says "run.sh: unknown model nothing: expected some of models/ or tests/bench/"
bench 2 --against "$work/none.json"; says "run.sh: no $work/none.json"
bench 2 --sideways; says "run.sh: unknown option --sideways (see the head of tests/bench/run.sh)"

if [ -n "${CTRC_TEST_LIGHT:-}" ]; then echo "skipped in this tree: a small run"; exit $bad; fi
bench 0 --quick --only few --parts models --ctrc "$ctrc" --against-ctrc "$ctrc" --json "$work/small.json" --work "$work/run"
for section in '# Measured' '## Models' "## Models, by $ctrc" '## New beside other' '## All figures'; do grep -qxF "$section" out || fail "the report lacks '$section'"; done
same out small.md
prints '^[|] few [|]( [0-9.]+ [|]){12}$'
prints '^[|] few [|]( [0-9.]+ [|]){7}$'
prints '^0 better, 0 worse, beyond the spread[.]$' # of one round
for f in small.json small.other.json; do
  sed -n 's/^"\([^"]*\)":{"unit":"[^"]*","better":"[a-z]*","values":\[[0-9.e+-]*\]},\{0,1\}$/\1/p' $f | sort | tr '\n' ' ' > figures
  [ "$(cat figures)" = "few.compile few.eval few.info few.memory.allowed few.memory.cache few.memory.scores few.memory.step few.memory.weights few.peak few.predict few.size few.step few.step.1 few.text " ] ||
    fail "$f has other figures: $(cat figures)"
done
if has jq; then jq -e '.rounds == 1 and .rows == 5000 and (.figures["few.step"].values | length) == 1' small.json > /dev/null || fail "small.json isn't what it should be"
else echo "not checked: whether the reports are JSON (no jq)"; fi
exit $bad
