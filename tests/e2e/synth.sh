#!/usr/bin/env bash
# A log of `ctrc synth` can be learnt: training comes near the best AUC that the planted signal allows.
. tests/e2e/common.sh.inc
for m in deepfm adult; do
  "$ctrc" models/$m.ctr -o "$work/$m" || fail "$m.ctr does not compile"
  "$ctrc" synth models/$m.ctr --rows 40000 --seed 1 -o "$work/train" 2> /dev/null || fail "synth"
  best=$("$ctrc" synth models/$m.ctr --rows 8000 --seed 2 -o "$work/eval" 2>&1 | grep -oE '0\.[0-9]+' | tail -n 1)
  "$ctrc" synth models/$m.ctr --rows 8000 --seed 2 -o "$work/eval2" 2> /dev/null
  cmp "$work/eval" "$work/eval2" || fail "$m: one seed, two logs"
  p=$(sed -n 's/^predict \([a-z_]*\).*/\1/p' models/$m.ctr | head -n 1)
  auc=$("$work/$m" train --data "$work/train" --eval-data "$work/eval" --epochs 2 --json | number auc "$p")
  echo "$m: AUC $auc, best possible $best"
  at_least "$best" 0.7 || fail "$m: best possible AUC '$best', expected a strong signal"
  at_least "$auc" "$(awk -v b="$best" 'BEGIN { print 0.5 + (b - 0.5) * 0.55 }')" || fail "$m: AUC $auc is far below $best"
done
