#!/usr/bin/env bash
# weights.safetensors has the same bytes at 1, 2, 3 and 4 threads, and from two runs with one seed; another seed differs.
. tests/e2e/common.sh.inc
for m in wdl deepfm dlrm adult bank din mmoe dien; do
  small=$(small models/$m.ctr)
  "$ctrc" models/$m.ctr $small -o "$work/$m" || fail "$m.ctr does not compile"
  "$ctrc" synth models/$m.ctr $small --rows 3000 --seed 5 -o "$work/$m.log" 2> /dev/null || fail "no log for $m"
  train() { "$work/$m" train --data "$work/$m.log" --epochs 2 --save "$work/$m-$1" --threads "$2" --seed "$3" > /dev/null 2> "$work/err" || { cat "$work/err"; fail "$m: training with $2 threads"; }; }
  train one 1 1
  for t in 2 3 4; do
    train $t $t 1
    cmp "$work/$m-one/weights.safetensors" "$work/$m-$t/weights.safetensors" || fail "$m: $t threads give other bits than one"
  done
  train again 2 1
  cmp "$work/$m-one/weights.safetensors" "$work/$m-again/weights.safetensors" || fail "$m: a second run gives other bits"
  train other 2 2
  cmp -s "$work/$m-one/weights.safetensors" "$work/$m-other/weights.safetensors" && fail "$m: another seed gives the same bits"
done
echo "same bits at 1, 2, 3 and 4 threads for eight models"
