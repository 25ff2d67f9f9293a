#!/usr/bin/env bash
# A training of very many epochs, or evaluations, does not grow for it: --json and checkpoints hold the last 1,000
# entries, --json says how many came before, the log holds all of them, and going on changes nothing.
. tests/cli/common.sh.inc
clicks_ctr > clicks.ctr; build clicks clicks.ctr
clicks_csv 32 > train.csv; clicks_csv 8 32 > eval.csv
# count PATTERN FILE: the objects of a JSON report that begin so
count() { tr '{' '\n' < "$2" | grep -c "$1"; }

train="train --data train.csv --cache memory --threads 1"
expect 0 ./clicks $train --epochs 1003 --log log.jsonl --json --save whole; cp out whole.json
n=$(count '^"rows":32,"loss"' whole.json); [ "$n" = 1000 ] || fail "$n epochs in --json instead of 1000"
grep -q '"epochs_left_out":3[,}]' whole.json || { fail "3 epochs left out are not told"; cat whole.json | tail -c 300; }
n=$(grep -c epoch_end log.jsonl); [ "$n" = 1003 ] || fail "$n epochs in the log instead of 1003"

expect 0 ./clicks $train --epochs 998 --save parts
n=$(count '"samples_per_s"' parts/state.json); [ "$n" = 998 ] || fail "$n epochs in the checkpoint instead of 998"
expect 0 ./clicks $train --epochs 1002 --save parts --resume
n=$(count '"samples_per_s"' parts/state.json); [ "$n" = 1000 ] || fail "$n epochs in the checkpoint instead of 1000"
expect 0 ./clicks $train --epochs 1003 --save parts --resume --json
same whole/weights.safetensors parts/weights.safetensors
grep -q '"epochs_left_out":3[,}]' out || { fail "what the programs before left out is not counted"; tail -c 300 out; }
# going on where nothing is left to do counts none twice
expect 0 ./clicks $train --epochs 1001 --save few
expect 0 ./clicks $train --epochs 1001 --save few --resume --json
grep -q '"epochs_left_out":1[,}]' out || { fail "one epoch too many or too few"; tail -c 300 out; }

# two steps an epoch: an evaluation amid each
clicks_csv 64 > train.csv
expect 0 ./clicks $train --epochs 1002 --eval-data eval.csv --eval-every 1 --json
n=$(count '^"step":[0-9]*,"eval_rows"' out); [ "$n" = 1000 ] || { fail "$n evaluations in --json instead of 1000"; tail -c 600 out; }
first=$(tr '{' '\n' < out | grep -m 1 '^"step":[0-9]*,"eval_rows"')
[[ $first == '"step":5,'* ]] || fail "the first evaluation that is left is $first"
exit $bad
