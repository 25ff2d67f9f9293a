#!/usr/bin/env bash
# AUC of a million scores, most of them tied, against scikit-learn's, to 1e-12; GAUC, log loss and the calibration table
# of fewer, too. test_runtime_metrics compares with all pairs of fewer rows, and needs no package. Python is $CTRC_PYTHON, or python3.
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

# ---- the others ----
cat > others.ctr << 'CTR'
model others
input csv() {
  p    float
  y    label
  user string
  day  int
  w    float
}
predict score = sigmoid(p) + weight([1], init = zeros)
loss    bce(score, y, weight = w)
metric  gauc(score, y, by = user)
metric  gauc(score, y, by = day, where = w)
metric  auc(score, y)
metric  logloss(score, y)
metric  pcoc(score, y)
optimizer sgd(lr = 0.1)
train(batch = 512)
CTR
build others others.ctr
cat > compare.py << 'PY'
import json, subprocess, sys
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import log_loss, roc_auc_score
rng, n = np.random.default_rng(3), 20000
z = np.round(rng.normal(-2, 1.5, n), 2)
y = (rng.random(n) < 1 / (1 + np.exp(0.3 - 0.8 * z))).astype(int)
user, day, w = rng.integers(0, 900, n), rng.integers(-3, 4, n), rng.integers(0, 3, n)
with open("log.csv", "w") as f:
    f.writelines(f"{a:.2f},{b},u{c},{d},{e}\n" for a, b, c, d, e in zip(z, y, user, day, w))
run = lambda *a: subprocess.run(["./others", *a, "--data", "log.csv", "--load", "ckpt"], check=True, capture_output=True).stdout
o = json.loads(run("eval", "--calibration", "--json"))
p = np.array([np.float32(v) for v in run("predict").split()]).astype(float)
def gauc(by, rows):
    total = weight = 0
    for k in np.unique(by[rows]):
        i = rows & (by == k)
        if 0 < y[i].sum() < i.sum(): total += i.sum() * roc_auc_score(y[i], p[i]); weight += i.sum()
    return total / weight
rate, c = y.mean(), o["calibration"]["score"]
observed, predicted = calibration_curve(y, p, n_bins=10, strategy="quantile")
pairs = [(o["gauc"]["score"], gauc(user, w >= 0)), (o["gauc"]["score_1"], gauc(day, w > 0)), (o["auc"]["score"], roc_auc_score(y, p)),
         (o["logloss"]["score"], log_loss(y, p)), (c["logloss"], log_loss(y, p)), (o["pcoc"]["score"], p.sum() / y.sum()),
         (o["normalized_entropy"]["score"], log_loss(y, p) / -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))),
         *zip([b["observed"] for b in c["bins"]], observed), *zip([b["predicted"] for b in c["bins"]], predicted)]
worst = max(abs(a - b) for a, b in pairs)
loss = (w * -(y * np.log(p) + (1 - y) * np.log(1 - p))).mean() # the loss itself is made in single precision
print(f"{len(pairs)} figures, largest difference {worst:.3g}, of the weighted loss {abs(loss - o['loss']):.3g}")
sys.exit(len(pairs) != 27 or not worst < 1e-12 or not abs(loss - o["loss"]) < 1e-6)
PY
printf '0.5,1,u,1,1\n' > one.csv; rm -r ckpt
expect 0 ./others train --data one.csv --steps 0 --save ckpt
"$python" compare.py || fail "other figures than scikit-learn's"

[ $bad = 0 ] && echo "the AUC of a million scores is scikit-learn's"
exit $bad
