#!/usr/bin/env bash
# Census income: trained on adult.data, every seed reaches AUC 0.913 on adult.test (one-hot logistic regression: 0.910).
. tests/e2e/common.sh.inc
[ -f "$data/adult.data" ] || skip "adult.data is not in $data"
"$ctrc" models/adult.ctr -o "$work/adult" || fail "adult.ctr does not compile"
for seed in 1 2 3; do
  auc=$("$work/adult" train --data "$data/adult.data" --eval-data "$data/adult.test" --seed $seed --json | number auc income)
  echo "adult, seed $seed: AUC $auc on adult.test"
  at_least "$auc" 0.913 || fail "seed $seed: AUC $auc, expected at least 0.913"
done
