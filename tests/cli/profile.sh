#!/usr/bin/env bash
# --profile: the trace parses, events nest, every kernel of a step is there under its source line, on every thread;
# and whatever is recorded, the weights are the same.
. tests/cli/common.sh.inc
trace_check=$(readlink -f "$BUILD/tests/trace_check")

clicks_csv 300 > train.csv; clicks_csv 120 300 > eval.csv
clicks_ctr > clicks.ctr
counts() { "$trace_check" "$1" > counts || fail "$1 is no trace"; }
count() { awk -F'\t' -v t="$1" -v n="$2" '$1 == t && $2 == n { sum += $3 } END { print sum + 0 }' counts; }
has_event() { [ "$(count "$1" "$2")" = "$3" ] || fail "$1: $(count "$1" "$2") events '$2', expected $3"; }
for level in -O2 -O0 --enable=micro-batch'(n=2)'; do
  build clicks clicks.ctr "$level"
  rm -rf plain profiled
  expect 0 ./clicks train --data train.csv --eval-data eval.csv --epochs 2 --save plain; quiet
  expect 0 ./clicks train --data train.csv --eval-data eval.csv --epochs 2 --save profiled --save-every 5 --profile p.json --threads 2; quiet
  same plain/weights.safetensors profiled/weights.safetensors
  counts p.json
  has_event "step 0" step 20; has_event "step 0" evaluation 2; has_event "step 0" checkpoint 4; has_event "step 0" "wait for rows" 20
  has_event "reader: assemble" "assemble a batch" 28 # 20, and twice 4 of evaluations
  grep -q "^reader: parse	parse	" counts && grep -q "^reader: read and split	read and split	" counts || fail "the reader's threads: $(cat counts)"
  # each kernel of the plan, by line, as often as steps
  expect 0 "$ctrc" clicks.ctr "$level" --emit=plan -o plan.txt
  awk '/^func train/ { on = 1; next } /^func/ { on = 0 } on && $1 ~ /^[0-9]+$/ { print }' plan.txt | grep -oE ' clicks\.ctr:[0-9]+ ' | sort -u > lines
  [ "$(wc -l < lines)" -ge 4 ] || fail "lines of the plan: $(cat lines)"
  while read -r at; do # a batch of one block of rows is one thread's
    grep -q "^step [01]	$at [a-z]" counts || fail "$level: no kernel of $at"
  done < lines
  ! awk -F'\t' '$1 ~ /^step/' counts | grep -vE '	(clicks\.ctr:[0-9]+ [a-z_0-9]+([+*][a-z_0-9]+)*|step|barrier|number rows|evaluation|checkpoint|wait for rows)	[0-9]+$' || fail "other names"
  [ "$(count "step 0" barrier)" = "$(count "step 1" barrier)" ] && [ "$(count "step 1" barrier)" -ge 40 ] || fail "barriers: $(grep barrier counts)"
done
# with a block of rows for each, every thread has them all
sed 's/batch = 32/batch = 256/' clicks.ctr > wide.ctr; build wide wide.ctr; clicks_csv 512 > wide.csv
expect 0 ./wide train --data wide.csv --profile p.json --threads 2; quiet; counts p.json
while read -r at; do
  for thread in 0 1; do grep -q "^step $thread	wide.${at#clicks.} [a-z]" counts || fail "step $thread has no kernel of $at"; done
done < lines
build clicks clicks.ctr
# which steps
steps_of() { grep -o '"name":"step","cat":"runtime".*"args":{"step":[0-9]*' "$1" | sed 's/.*://' | tr '\n' ' '; }
expect 0 ./clicks train --data train.csv --epochs 2 --profile p.json --profile-steps 7-9 --threads 1; quiet; counts p.json
[ "$(steps_of p.json)" = "7 8 9 " ] || fail "steps $(steps_of p.json)"
has_event "step 0" "clicks.ctr:16 sigmoid+mul+sigmoid+bce_logits+sub+mul" 3
rm -rf part; expect 0 ./clicks train --data train.csv --epochs 12 --steps 5 --save part
expect 0 ./clicks train --data train.csv --epochs 12 --save part --resume --profile p.json --threads 3; counts p.json; has_event "step 0" step 100; has_event "step 2" barrier "$(count "step 0" barrier)"
[ "$(steps_of p.json | awk '{ print $1, $NF }')" = "6 105" ] || fail "steps $(steps_of p.json)"
expect 0 ./clicks train --data train.csv --profile p.json --profile-steps 500-600; says "warning: p.json: no step was recorded, training ended after step 10"
counts p.json; [ ! -s counts ] || fail "events: $(cat counts)"
# a step that is logged, too, is run twice
expect 0 ./clicks train --data train.csv --profile p.json --log log.jsonl --log-every 5 --threads 1; counts p.json; has_event "step 0" "rehearsal for norms" 2; has_event "step 0" "clicks.ctr:16 sigmoid+mul+sigmoid+bce_logits+sub+mul" 12
# a training that fails leaves a trace of what it did
{ cat train.csv; echo "nonsense"; } > bad.csv
expect 1 ./clicks train --data bad.csv --no-shuffle --profile p.json; counts p.json; [ "$(count "step 0" step)" -ge 1 ] || fail "no step before the bad row"
expect 1 ./clicks train --data train.csv --profile none/p.json; says "error: cannot write none/p.json: no such file or directory"
expect 1 ./clicks train --data train.csv --profile /dev/full; says "error: cannot write /dev/full: no space left on device"
exit $bad
