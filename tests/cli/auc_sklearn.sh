#!/usr/bin/env bash
# AUC of a million scores, most of them tied, against scikit-learn's, to 1e-12. test_runtime_metrics compares with all
# pairs of fewer rows, and needs no package. Python is $CTRC_PYTHON, or python3.
. tests/cli/common.sh.inc
python=${CTRC_PYTHON:-python3}
"$python" -c 'import numpy, sklearn.metrics' 2> /dev/null || { echo "skipped: $python has no numpy and sklearn"; exit 77; }

cat > scores.ctr << 'CTR'
model scores
input csv() {
  p float
  y label
}
predict score = p + weight([1], init = zeros)
loss    mse(score, y)
metric  auc(score, y)
optimizer sgd(lr = 0.1)
train(batch = 4096)
CTR
build scores scores.ctr
cat > compare.py << 'PY'
import json, subprocess, sys
import numpy as np
from sklearn.metrics import roc_auc_score
rng, bad = np.random.default_rng(7), 0
for levels in (7, 1000, 10**6, 0):  # 0: as they come
    z = rng.normal(size=10**6)
    y = (rng.random(10**6) < 1 / (1 + np.exp(3 - z))).astype(int)
    p = (np.floor(z * levels) / levels if levels else z).astype(np.float32)
    with open("log.csv", "w") as f:
        f.writelines(f"{a:.9g},{b}\n" for a, b in zip(p.tolist(), y.tolist()))
    out = subprocess.run(["./scores", "eval", "--data", "log.csv", "--load", "ckpt", "--json"], check=True, capture_output=True)
    got, want = json.loads(out.stdout)["auc"]["score"], roc_auc_score(y, p)
    print(f"{len(np.unique(p))} different scores: {got:.15f}, scikit-learn {want:.15f}")
    bad |= not abs(got - want) <= 1e-12 or not 0.6 < want < 0.9
sys.exit(bad)
PY
printf '0.5,1\n' > one.csv
expect 0 ./scores train --data one.csv --steps 0 --save ckpt
"$python" compare.py || fail "another AUC than scikit-learn's"

[ $bad = 0 ] && echo "the AUC of a million scores is scikit-learn's"
exit $bad
