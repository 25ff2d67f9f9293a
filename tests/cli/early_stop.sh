#!/usr/bin/env bash
# Evaluations while training goes on, and what follows from them: the best checkpoint kept, training ended early, rates
# taken down. Each is worked out anew here from the log; and a training that is stopped and goes on does the same.
. tests/cli/common.sh.inc

clicks_csv 300 > train.csv; clicks_csv 120 300 > eval.csv
clicks_ctr > clicks.ctr; build clicks clicks.ctr
train() { local code=$1; shift; expect "$code" ./clicks train --data train.csv --eval-data eval.csv "$@"; }

# ---- --eval-every ----
evaluated() { sed -nE 's/^\{"step":([0-9]+),"(evaluation|epoch_end)":([0-9]+),.*/\1\2\3/p' "$1" | tr '\n' ' '; }
train 0 --epochs 2 --save plain; quiet
train 0 --epochs 2 --save often --eval-every 4 --log log.jsonl --json; quiet
same plain/weights.safetensors often/weights.safetensors # evaluation leaves no trace
[ "$(evaluated log.jsonl)" = "4evaluation1 8evaluation2 10epoch_end1 12evaluation4 16evaluation5 20epoch_end2 " ] || { fail "evaluations:"; cat log.jsonl; }
prints '"evaluations":\[\{"step":4,"eval_rows":120,"eval_loss":0\.[0-9]+,"auc":\{"ctr":0\.[0-9]+,"rate":0\.[0-9]+\},"logloss":\{"ctr":0\.[0-9]+\},"normalized_entropy":\{"ctr":[0-9.]+\}\},\{"step":8,'
train 0 --epochs 1 --eval-every 100rows --log log.jsonl; quiet # 32 rows a step
[ "$(evaluated log.jsonl)" = "4evaluation1 7evaluation2 10epoch_end1 " ] || { fail "evaluations by rows:"; cat log.jsonl; }
prints '^step 4: loss \(evaluation\) 0\.[0-9]{6}, auc ctr 0\.[0-9]{6}, logloss ctr '; prints '^step 7: '
# of a step that --steps ends with there is one evaluation
train 0 --epochs 2 --steps 8 --eval-every 4 --log log.jsonl; [ "$(evaluated log.jsonl)" = "4evaluation1 8evaluation2 8epoch_end1 " ] || { fail "the last evaluation:"; cat log.jsonl; }
expect 0 ./clicks train --data train.csv --eval-fraction 0.2 --eval-every 3 --epochs 1 --json; quiet; prints '"evaluations":\[\{"step":3,'

# ---- --early-stop: the rule worked out from the log ----
# by_hand N KEY up|down: step of the best evaluation, and of the last
by_hand() {
  sed -nE "/\"(evaluation|epoch_end)\"/s/^\{\"step\":([0-9]+),.*$2([0-9.e-]+).*/\1 \2/p" log.jsonl | awk -v n="$1" -v up="$3" '
    { better = NR == 1 || (up == "up" ? $2 > best : $2 < best); since++
      if (better) { best = $2; at = $1; since = 0 }
      last = $1; if (since >= n) exit }
    END { print at, last }'
}
auc='"auc":\{"ctr":'; rate='"rate":'; loss='"eval_loss":'; logloss='"logloss":\{"ctr":'
check() { # N KEY up|down VALUE-OF-BEST OPTIONS…
  local n=$1 key=$2 way=$3; shift 3
  rm -rf stopped early log.jsonl
  train 0 --epochs 12 --early-stop "$n" --save early --log log.jsonl --json "$@"
  cp out early.out
  read -r best last < <(by_hand "$n" "$key" "$way")
  prints "\"stopped_early\":true,\"best\":\{\"metric\":\"[a-z]+(:[a-z]+)?\",\"value\":0\.[0-9]+,\"step\":$best\}"
  hears "is no better for $n evaluation"; hears ": training ends"
  [ "$(tail -n 1 log.jsonl | sed -E 's/^\{"step":([0-9]+).*/\1/')" = "$last" ] && [ "$last" -lt 120 ] && [ "$best" -lt "$last" ] || fail "$*: ended at step $last, the best was $best"
  grep -q "\"step\": $best," early/state.json || fail "$*: saved $(grep '"step":' early/state.json), the best was $best"
  train 0 --epochs 12 --steps "$best" --save stopped
  same stopped/weights.safetensors early/weights.safetensors; same early/weights.safetensors early/best/weights.safetensors
}
check 2 "$auc" up
check 3 "$auc" up --eval-every 7
check 1 "$loss" down --early-stop-metric loss --eval-every 200rows
check 2 "$rate" up --early-stop-metric auc:rate
check 3 "$logloss" down --early-stop-metric logloss --eval-every 3
# what is saved evaluates to the best value
value=$(sed -E 's/.*"best":\{"metric":"logloss:ctr","value":(0\.[0-9]+).*/\1/' early.out | awk '{ printf "%.6f", $1 }')
expect 0 ./clicks eval --data eval.csv --load early; prints "^logloss ctr +$value$"
train 0 --epochs 12 --early-stop 3 --early-stop-metric logloss --eval-every 3 --save early; prints "^best +logloss:ctr $value, after step $best$"
# one message, whole
[ "$(wc -l < err)" = 1 ] && grep -qE "^step $last: logloss:ctr is no better for 3 evaluations \(best $value at step $best\): training ends$" err || { fail "message:"; cat err; }
train 0 --epochs 12 --early-stop 3 --early-stop-metric logloss --eval-every 3 # without --save it ends as early
prints "^best +logloss:ctr $value, after step $best$"
# not stopped: the best one all the same
train 0 --epochs 12 --steps "$((best + 2))" --early-stop 50 --early-stop-metric logloss --eval-every 3 --save other; quiet
same early/weights.safetensors other/weights.safetensors
# a cut that is better than any evaluation that training in one go would make is what is saved
train 0 --epochs 12 --steps 2 --early-stop 3 --save cut --json; prints '"stopped_early":false,"best":\{"metric":"auc:ctr","value":0\.[0-9]+,"step":2\}'
grep -q '"step": 2,' cut/state.json || fail "cut: $(grep '"step":' cut/state.json)"; absent cut/best
# a new training takes the old best one away
train 0 --epochs 1 --save early; absent early/best

# ---- stopped and gone on ----
how=(--epochs 12 --early-stop 3 --early-stop-metric logloss --eval-every 3 --lr-plateau 0.5,2)
rm -rf whole; train 0 "${how[@]}" --save whole --log whole.jsonl --threads 2
values() { sed -nE '/"(evaluation|epoch_end)"/s/"(seconds|samples_per_s)":[^,]*//gp' "$1"; }
for stops in "1 2 3 4" "5 10 11" "9 12 17 18 20"; do
  rm -rf part part.jsonl
  for n in $stops; do train 0 "${how[@]}" --save part --resume --steps "$n" --log part.jsonl --keep 1; done
  train 0 "${how[@]}" --save part --resume --log part.jsonl
  same whole/weights.safetensors part/weights.safetensors; same whole/best/weights.safetensors part/best/weights.safetensors
done
rm -rf part; train 0 "${how[@]}" --save part --save-every 2; same whole/weights.safetensors part/weights.safetensors
# killed in between, by signals at any moment
for wait in 0.02 0.05 0.1 0.2; do
  rm -rf part
  ./clicks train --data train.csv --eval-data eval.csv "${how[@]}" --save part > out 2> err & pid=$!
  sleep $wait; kill -TERM $pid 2> /dev/null; wait $pid; code=$?
  [ $code = 0 ] || [ $code = 75 ] || [ $code = 143 ] || { fail "stopped after $wait s: exit code $code"; cat err; }
  train 0 "${how[@]}" --save part --resume
  same whole/weights.safetensors part/weights.safetensors
done
# done: going on ends the same way
cp -r whole again; train 0 "${how[@]}" --save again --resume; same whole/weights.safetensors again/weights.safetensors
# more patience goes on
train 0 --epochs 4 --early-stop 30 --early-stop-metric logloss --eval-every 3 --lr-plateau 0.5,2 --save again --resume
grep -q "^going on from again" err || fail "stderr: $(cat err)"
# what decides the bytes must be the same
refuses() {
  local text=$1; shift; train 1 --save whole --resume "$@"
  says "error: whole: the training that was stopped was another one
$text
hint: --resume=force goes on all the same"
}
refuses "  --eval-every: 3 steps in the checkpoint, 4 steps here" --epochs 12 --early-stop 3 --early-stop-metric logloss --eval-every 4 --lr-plateau 0.5,2
refuses "  --lr-plateau: 0.5,2 in the checkpoint, none here
  --early-stop-metric: logloss:ctr in the checkpoint, auc:ctr here" --epochs 12 --early-stop 3 --eval-every 3
clicks_csv 130 300 > eval2.csv
expect 1 ./clicks train --data train.csv --eval-data eval2.csv "${how[@]}" --save whole --resume; hears "  'eval2.csv': "
# the best one is gone
rm -rf part; train 0 --early-stop 3 --early-stop-metric loss --eval-every 2 --save part --steps 3
grep -q '"step": 3,' part/state.json && grep -q '"step": 2,' part/best/state.json || fail "part is of $(grep '"step":' part/state.json), best of $(grep '"step":' part/best/state.json)"
rm -r part/best; train 1 --early-stop 3 --early-stop-metric loss --eval-every 2 --save part --resume
says "error: part: the best checkpoint so far, of step 2, is not in part/best
hint: --resume=force goes on without it"
train 0 --early-stop 3 --early-stop-metric loss --eval-every 2 --save part --resume=force; hears "going on from part, after step 3"

# ---- --lr-plateau is the schedule that it says ----
# whoever knows when rates go down can write it as a schedule: the same bytes
rm -rf plateau scheduled; train 0 --epochs 6 --lr-plateau 0.25,2 --early-stop-metric loss --eval-every 4 --save plateau --log log.jsonl --log-every 1; cp err plateau.err
steps=$(sed -nE "/\"(evaluation|epoch_end)\"/s/^\{\"step\":([0-9]+),.*\"eval_loss\":([0-9.e-]+).*/\1 \2/p" log.jsonl | awk '
  { since++; if (NR == 1 || $2 < best) { best = $2; since = 0 } else if (since >= 2) { printf "%s%s", n++ ? ", " : "", $1; since = 0 } }')
rates=$(echo "$steps" | awk -F, '{ r = 0.05; printf "%.17g", r; for (i = 1; i <= NF; i++) printf ", %.17g", r *= 0.25 }')
[ -n "$steps" ] && [ "$(grep -c "rates are now times" plateau.err)" = "$(echo "$steps" | awk -F, '{ print NF }')" ] || { fail "rates went down after steps $steps:"; cat plateau.err; }
grep -qE "^step ${steps%%,*}: loss is no better for 2 evaluations \(best 0\.[0-9]{6} at step [0-9]+\): rates are now times 0\.25$" plateau.err || { fail "message:"; cat plateau.err; }
sed "s/adam(lr = lr)/adam(lr = piecewise([$steps], [$rates]))/" clicks.ctr > schedule.ctr; build schedule schedule.ctr
expect 0 ./schedule train --data train.csv --eval-data eval.csv --epochs 6 --save scheduled; same plateau/weights.safetensors scheduled/weights.safetensors
# the log tells the rate of each step
first=${steps%%,*}
grep -q "^{\"step\":$first,\"epoch\".*\"lr\":0.05," log.jsonl && grep -q "^{\"step\":$((first + 1)),\"epoch\".*\"lr\":0.0125," log.jsonl || fail "the log's rates around step $first"
# rows that missed steps are caught up at the rates of those steps
sed 's/adam(lr = lr)/adam(lr = lr, exact = true)/; s/buckets = 50/buckets = 2000000/' clicks.ctr > exact.ctr; build exact exact.ctr
rm -rf whole part; expect 0 ./exact train --data train.csv --eval-data eval.csv --epochs 4 --lr-plateau 0.25,1 --eval-every 2 --save whole; hears "rates are now times 0.0625"
for n in 7 13 21; do expect 0 ./exact train --data train.csv --eval-data eval.csv --epochs 4 --lr-plateau 0.25,1 --eval-every 2 --save part --resume --steps $n; done
expect 0 ./exact train --data train.csv --eval-data eval.csv --epochs 4 --lr-plateau 0.25,1 --eval-every 2 --save part --resume; same whole/weights.safetensors part/weights.safetensors

# ---- messages and the progress line ----
! LC_ALL=C grep -q '[[:cntrl:]]' plateau.err || fail "control characters in a file"
train 0 --epochs 6 --lr-plateau 0.25,2 --early-stop-metric loss --eval-every 4 --progress always # a line is wiped before a message
! grep -E "is no better" err | tr '\r' '\n' | grep -E "rows/s.*is no better" || fail "a message stands behind a progress line"

# ---- usage ----
expect 2 ./clicks train --data train.csv --eval-data eval.csv --early-stop 2 --early-stop-metric acc
says "error: --early-stop-metric: expected one of loss, auc:ctr, logloss:ctr, auc:rate, found 'acc'"
exit $bad
