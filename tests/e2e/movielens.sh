#!/usr/bin/env bash
# MovieLens, split by time: movielens_din reaches AUC 0.782 on the held-out rows, as the mean of three seeds (logistic
# regression: 0.777).
. tests/e2e/common.sh.inc
[ -f "$data/make_movielens.py" ] && [ -f "$data/ml-latest-small/ratings.csv" ] || skip "make_movielens.py or ml-latest-small is not in $data"
command -v python3 > /dev/null || skip "no python3 to run make_movielens.py"
python3 "$data/make_movielens.py" "$work" > /dev/null || fail "make_movielens.py failed"
"$ctrc" models/movielens_din.ctr -o "$work/din" || fail "movielens_din.ctr does not compile"
all=()
for seed in 1 2 3; do
  "$work/din" train --data "$work/movielens_train.tsv" --seed $seed --save "$work/saved" > /dev/null || fail "seed $seed: training failed"
  auc=$("$work/din" eval --data "$work/movielens_eval.tsv" --load "$work/saved" --json | number auc like)
  echo "movielens_din, seed $seed: AUC $auc on the held-out rows"
  at_least "$auc" 0.780 || fail "seed $seed: AUC $auc, expected at least 0.780"
  all+=("$auc")
done
auc=$(mean "${all[@]}")
echo "movielens_din: AUC $auc, mean of three seeds"
at_least "$auc" 0.782 || fail "mean AUC $auc, expected at least 0.782"
