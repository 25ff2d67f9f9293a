#!/usr/bin/env bash
# MovieLens, split by time: movielens_din and movielens_dien reach AUC 0.782 on the held-out rows (logistic regression:
# 0.777). One seed; CTRC_TEST_SEEDS="1 2 3" takes more and looks at their mean.
. tests/e2e/common.sh.inc
[ -f "$data/make_movielens.py" ] && [ -f "$data/ml-latest-small/ratings.csv" ] || skip "make_movielens.py or ml-latest-small is not in $data"
command -v python3 > /dev/null || skip "no python3 to run make_movielens.py"
python3 "$data/make_movielens.py" "$work" > /dev/null || fail "make_movielens.py failed"
for m in movielens_din movielens_dien; do
  "$ctrc" models/$m.ctr -o "$work/$m" || fail "$m.ctr does not compile"
  all=()
  for seed in ${CTRC_TEST_SEEDS:-1}; do
    "$work/$m" train --data "$work/movielens_train.tsv" --seed $seed --save "$work/saved" > /dev/null || fail "$m, seed $seed: training failed"
    auc=$("$work/$m" eval --data "$work/movielens_eval.tsv" --load "$work/saved" --json | number auc like)
    echo "$m, seed $seed: AUC $auc on the held-out rows"
    at_least "$auc" 0.780 || fail "$m, seed $seed: AUC $auc, expected at least 0.780"
    all+=("$auc")
  done
  auc=$(mean "${all[@]}")
  at_least "$auc" 0.782 || fail "$m: mean AUC $auc, expected at least 0.782"
done
