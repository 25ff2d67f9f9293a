#!/usr/bin/env bash
# What a training tells while it runs: --log, its keys and norms; --tensorboard, read by TensorBoard's own package
# where there is one. Whatever is logged, the weights are the same to the bit.
. tests/cli/common.sh.inc

clicks_csv 300 > train.csv; clicks_csv 120 300 > eval.csv
clicks_ctr > clicks.ctr; build clicks clicks.ctr

# ---- keys of a line ----
expect 0 ./clicks train --data train.csv --epochs 2 --save plain; quiet
expect 0 ./clicks train --data train.csv --epochs 2 --save logged --log log.jsonl --log-every 3 --tensorboard tb --threads 2; quiet
same plain/weights.safetensors logged/weights.safetensors
line='^\{"step":[0-9]+,"epoch":[12],"rows":[0-9]+,"loss":0\.[0-9]+,"lr":0\.05,"samples_per_s":[0-9.e+]+,"seconds":[0-9.e-]+,"read_s":[0-9.e-]+,"compute_s":[0-9.e-]+'
line+=',"memory":\{"weights":[0-9]+,"step":[0-9]+,"cache":0,"resident":[0-9]{6,}\},"grad_norm":[0-9.e-]+,"weight_norm":[0-9.]+'
line+=',"grad_norms":\{"t":[0-9.e-]+(,"z\.[a-z0-9.]+":[0-9.e-]+){6}\},"weight_norms":\{("[a-z0-9.]+":[0-9.e-]+,?){7}\},"norm_rows":\{"t":[0-9]+\}\}$'
[ "$(grep -cE "$line" log.jsonl)" = 6 ] || { fail "lines of steps:"; cat log.jsonl; }
[ "$(grep -cE '^\{"step":[12]0,"epoch_end":[12],"rows":300,"loss":0\.[0-9]+,"seconds":[0-9.e-]+,"samples_per_s":[0-9.e+]+,"auc":\{"ctr":[0-9.]+,"rate":[0-9.]+\},"logloss":\{"ctr":[0-9.]+\},"normalized_entropy":\{"ctr":[0-9.]+\}\}$' log.jsonl)" = 2 ] ||
  { fail "lines of epochs:"; cat log.jsonl; }
# the same lines at any number of threads, but for times
steady() { sed -E 's/"(samples_per_s|seconds|read_s|compute_s|step|resident)":[^,}]*//g' "$1"; }
step_lines() { steady "$1" | sed -E '/"epoch_end"/d; s/,"memory":\{[^}]*\}//'; }
for threads in 1 3; do
  expect 0 ./clicks train --data train.csv --epochs 2 --log other.jsonl --log-every 3 --threads $threads
  [ "$(steady log.jsonl)" = "$(steady other.jsonl)" ] || { fail "$threads threads log something else"; diff <(steady log.jsonl) <(steady other.jsonl); }
done
expect 0 ./clicks train --data train.csv --log bare.jsonl --log-every 3 --log-norms off; quiet
[ "$(grep -c '"grad_norm' bare.jsonl)" = 0 ] && [ "$(grep -c '"resident"' bare.jsonl)" = 3 ] || { fail "--log-norms off:"; cat bare.jsonl; }
expect 1 ./clicks train --data train.csv --tensorboard train.csv; says "error: cannot write train.csv: not a directory"

# ---- norms, whatever the optimizer ----
# The gradient of the first step depends on no optimizer: what each one's slots tell of it must agree.
norms() { sed -n '1s/.*"grad_norms":{\([^}]*\)}.*/\1/p' "$1" | tr ',' '\n' | tr -d '"'; }
agree() { # FILE FILE
  [ "$(norms "$1" | wc -l)" -gt 4 ] && paste -d: <(norms "$1") <(norms "$2") | awk -F: '
    $1 != $3 || !($2 > 0) || $2 - $4 > 1e-5 * $2 || $4 - $2 > 1e-5 * $2 { print; bad = 1 } END { exit bad }'
}
model() { # OPTIMIZER ROWS
  cat << CTR
model one
input csv(header = true) {
  user   string
  price  float
  tags   string list(";")
  click  label
}
u = hash(user, $2)
t = table($2, 3, init = normal(0.3))
w = dense(onehot(u), 1, bias = false, init = normal(0.2))
d = concat(embed(u, t), pool(embed(hash(tags, $2), t), mean), price) |> batchnorm |> dropout(0.2) |> dense(4, init = glorot_uniform)
z = dense(relu(d), 1, init = glorot_uniform) + w
predict ctr = sigmoid(z)
loss bce_logits(z, click)
metric auc(ctr, click)
optimizer $1
train(batch = 32, epochs = 2, shuffle = 70)
CTR
}
for rows in 50 2000000; do
  n=0
  for optimizer in "adam(lr = 0.01)" "sgd(lr = 0.1)" "momentum(lr = 0.05)" "adagrad(lr = 0.1)" "adagrad_decay(lr = 0.1, every = 3, rate = 0.5)" \
    "rmsprop(lr = 0.01)" "adam(lr = warmup(12, 0.02), exact = true)" "adam_async(lr = 0.02)" "ftrl(lr = 0.1, l1 = 0.01, l2 = 0.01)"; do
    model "$optimizer" $rows > one.ctr
    for level in -O2 -O0; do
      [ $level = -O2 ] || [ $rows = 50 ] || continue
      build one one.ctr $level
      expect 0 ./one train --data train.csv --save without
      expect 0 ./one train --data train.csv --save with --log one.jsonl --log-every 1 --threads 2; quiet
      cmp -s with/weights.safetensors without/weights.safetensors || fail "$optimizer $level, $rows rows: logging changes the weights"
      if [ $n = 0 ]; then cp one.jsonl first.jsonl; else agree first.jsonl one.jsonl || fail "$optimizer $level, $rows rows: another gradient"; fi
      n=$((n + 1))
    done
  done
done
# several rates: all are told, by kind
sed 's/^optimizer .*/optimizer adam(lr = 0.01) for z\noptimizer adam(lr = 0.5) for d\noptimizer sgd(lr = exponential(0.1, 0.5, 10)) for t, w/' one.ctr > several.ctr
build several several.ctr; expect 0 ./several train --data train.csv --log several.jsonl --log-every 10
grep -q '"lr":0.01,"lrs":{"adam":0.01,"adam_1":0.5,"sgd":0.05}' several.jsonl || { fail "rates:"; cat several.jsonl; }
# gradients are told after clipping
sed 's/^optimizer .*/optimizer adam(lr = 0.01, clip_norm = 0.001)/' one.ctr > clipped.ctr; build clipped clipped.ctr
expect 0 ./clipped train --data train.csv --log clipped.jsonl --log-every 1
norms clipped.jsonl | awk -F: '{ n++; bad += !($2 > 0 && $2 < 0.0010001); at += $2 > 0.000999 } END { exit !(n > 4 && !bad && at > 2) }' || { fail "clipped norms:"; norms clipped.jsonl; }

# ---- a loss that isn't finite stops the step as without a log ----
sed 's/price, tags/price/; s/^click.*/&/' train.csv | awk -F, 'BEGIN { OFS = "," } NR == 100 { $3 = "1e38" } { print }' > inf.csv
sed 's/lr = lr)/lr = 1e30)/' clicks.ctr > wild.ctr; build wild wild.ctr
expect 1 ./wild train --data inf.csv --no-shuffle; cp err want_err; expect 1 ./wild train --data inf.csv --no-shuffle --log wild.jsonl --log-every 1
same want_err err

# ---- going on: nothing twice ----
for at in 3 7 13; do
  rm -rf part again.jsonl
  expect 0 ./clicks train --data train.csv --epochs 2 --steps $at --save part --log again.jsonl --log-every 3 --tensorboard part_tb
  expect 0 ./clicks train --data train.csv --epochs 2 --save part --resume --log again.jsonl --log-every 3 --tensorboard part_tb
  same plain/weights.safetensors part/weights.safetensors
  [ "$(step_lines log.jsonl)" = "$(step_lines again.jsonl)" ] || { fail "stopped at $at, another log:"; diff <(step_lines log.jsonl) <(step_lines again.jsonl); }
done

# ---- TensorBoard reads it ----
python=${CTRC_PYTHON:-python3}
if has "$python" && "$python" -c 'import tensorboard' 2> /dev/null; then
  expect 0 ./clicks train --data train.csv --epochs 2 --eval-data eval.csv --log log.jsonl --log-every 3 --tensorboard tb
  "$python" - << 'PY' || fail "TensorBoard's package reads something else"
import json, logging
logging.disable(logging.WARNING)
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
def read(path):
    a = EventAccumulator(path, size_guidance={"scalars": 0}); a.Reload(); return a
lines = [json.loads(l) for l in open("log.jsonl")]
steps = [l for l in lines if "epoch_end" not in l]; ends = [l for l in lines if "epoch_end" in l]
a = read("tb"); tags = a.Tags()["scalars"]
def flat(o, before=""):
    for k, v in o.items():
        if isinstance(v, dict): yield from flat(v, before + k + "/")
        elif k != "step": yield before + k, v
def near(x, y): return abs(x - y) <= 1e-6 * max(abs(x), abs(y))
def holds(tag, want):
    got = [(e.step, e.value) for e in a.Scalars(tag)]
    assert len(got) == len(want) and all(g[0] == w[0] and near(g[1], w[1]) for g, w in zip(got, want)), (tag, got, want)
for tag, _ in flat(steps[0]):
    holds(tag, [(l["step"], dict(flat(l))[tag]) for l in steps])
for tag, key in [("eval/loss", "eval_loss"), ("epoch/loss", "loss"), ("epoch/rows", "rows")]:
    holds(tag, [(l["step"], l[key]) for l in ends])
holds("eval/auc/ctr", [(l["step"], l["auc"]["ctr"]) for l in ends])
for tag in "loss lr samples_per_s grad_norm grad_norms/z.dense.kernel weight_norms/t memory/resident".split(): assert tag in tags, tags
assert [e.step for e in read("part_tb").Scalars("loss")] == [3, 6, 9, 12, 15, 18]
PY
else
  echo "no python with tensorboard: event files are read by test_events alone"
fi
exit $bad
