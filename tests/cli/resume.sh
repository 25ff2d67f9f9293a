#!/usr/bin/env bash
# Training that is stopped and goes on ends in the same bytes as training in one go: every optimizer, small and large
# tables, shuffled or not, several files and epochs, other thread counts in between. And what is refused.
. tests/cli/common.sh.inc

# One program with every optimizer, on a table, on a weight that is updated by row, and on dense ones.
optimizers=("sgd(lr = 0.1, clip_norm = 1)" "momentum(lr = 0.05)" "adagrad(lr = 0.1)" "adagrad_decay(lr = 0.1, every = 7, rate = 0.5)"
  "rmsprop(lr = 0.01)" "adam(lr = warmup(12, 0.02), l2 = 0.001)" "adam(lr = cosine(0.02, 25), exact = true)"
  "adam_async(lr = exponential(0.02, 0.5, 10))" "ftrl(lr = 0.1, l1 = 0.01, l2 = 0.01)")
every_ctr() {
  local i n=${#optimizers[@]}
  cat << 'CTR'
model every
param rows = 50
input csv(header = true) {
  user   string
  price  float
  tags   string list(";")
  click  label
}
u = hash(user, rows)
CTR
  for ((i = 0; i < n; i++)); do
    echo "t$i = table(rows, 3, optimizer = ${optimizers[i]})"
    echo "w$i = dense(onehot(u), 1, bias = false)"
    echo "d$i = concat(embed(u, t$i), pool(embed(hash(tags, rows), t$i), mean), price) |> batchnorm() |> dropout(0.2) |> dense(2)"
    echo "optimizer ${optimizers[i]} for d$i, w$i"
  done
  echo "z = dense(concat($(for ((i = 0; i < n; i++)); do printf 'd%s, ' $i; done) price), 1) + $(for ((i = 0; i < n; i++)); do printf 'w%s + ' $i; done) 0"
  cat << 'CTR'
predict ctr = sigmoid(z)
loss bce_logits(z, click)
metric auc(ctr, click)
optimizer adam(lr = 0.01)
train(batch = 32, epochs = 3, shuffle = 70)
CTR
}
clicks_csv 300 > train.csv; clicks_csv 120 300 > eval.csv
mkdir parts
{ sed -n '1,101p' train.csv; } > parts/a.csv; { sed -n '1p;102,151p' train.csv; } | gzip > parts/b.csv.gz
if has zstd; then sed -n '1p;152,$p' train.csv | zstd -q > parts/c.csv.zst; else sed -n '1p;152,$p' train.csv > parts/c.csv; fi

# tensors: of whole and part, which differ
tensors() { diff <(sed -n '/"checksums"/,$p' whole/state.json) <(sed -n '/"checksums"/,$p' part/state.json) | sed -n 's/^> *"\([^"]*\)":.*/\1/p' | tr '\n' ' '; echo; }
# goes_on WHOLE STOPS ARGUMENTS…: steps to stop at, each with another number of threads, and on to the end
goes_on() {
  local whole=$1 stops=$2 threads=1 n; shift 2
  rm -rf part
  for n in $stops; do
    expect 0 "$@" --save part --resume --steps "$n" --threads $threads; threads=$((threads % 3 + 1))
  done
  expect 0 "$@" --save part --resume --threads $threads --json
  cmp -s "$whole/weights.safetensors" part/weights.safetensors || { fail "$* stopped at $stops: other weights"; tensors; }
}

# ---- every optimizer ----
every_ctr > every.ctr
for how in "-D rows=50" "-D rows=2000000" "-D rows=50 -O0"; do # -O0: weights that are updated by row are kept whole
  # shellcheck disable=SC2086
  build every every.ctr $how
  rm -rf whole; expect 0 ./every train --data train.csv --save whole --threads 2
  goes_on whole "1 9 10 17 29" ./every train --data train.csv
done

# ---- every way to read ----
clicks_ctr > clicks.ctr; build clicks clicks.ctr
sed '50s/,u[0-9]*,[^,]*/,u1,cheap/; 200s/,u[0-9]*,[^,]*/,u1,dear/' train.csv > bad.csv
for how in "--data parts" "--data parts --no-shuffle" "--data parts --cache memory" "--data parts/a.csv parts --seed 5" \
           "--data bad.csv --on-bad-row skip" "--data train.csv --eval-data eval.csv"; do
  rm -rf whole; cp clicks run
  # shellcheck disable=SC2086
  { expect 0 ./clicks train $how --epochs 3 --save whole --json; cp out whole.json
    goes_on whole "3 4 10 20 25" ./clicks train $how --epochs 3; }
  numbers() { sed 's/"\(samples_per_s\|seconds\|read_s\|compute_s\)":[^,}]*//g; s/"memory":{[^}]*}//' "$1"; }
  # with evaluation data what is reported is the same too, but for times
  case $how in *eval-data*) [ "$(numbers out)" = "$(numbers whole.json)" ] || { fail "$how: another report"; diff <(numbers out) <(numbers whole.json); } ;; esac
done
# metrics of training rows: sums are of the whole epoch, wherever it was stopped; ranks are not: told
sed '/^metric auc/d; s/^metric logloss.*/&\nmetric pcoc(ctr, click)\nmetric accuracy(rate, click)\nmetric logloss(rate, click, where = price)/' clicks.ctr > sums.ctr
build sums sums.ctr; rm -rf whole; expect 0 ./sums train --data parts --epochs 2 --save whole --json; cp out whole.json
rm -rf part; for n in 3 4 13 18; do expect 0 ./sums train --data parts --epochs 2 --save part --resume --steps $n; done
expect 0 ./sums train --data parts --epochs 2 --save part --resume --json; says "going on from part, after step 18"
[ "$(numbers out)" = "$(numbers whole.json)" ] || { fail "sums of an epoch:"; diff <(numbers out) <(numbers whole.json); }
rm -rf part; expect 0 ./clicks train --data parts --epochs 2 --steps 13 --save part; expect 0 ./clicks train --data parts --epochs 2 --save part --resume
says "going on from part, after step 13
warning: training went on in epoch 2: its auc is of the 204 rows since"
# more epochs than were asked for at first
rm -rf part whole; expect 0 ./clicks train --data parts --epochs 4 --save whole
expect 0 ./clicks train --data parts --epochs 1 --save part; expect 0 ./clicks train --data parts --epochs 4 --save part --resume
hears "going on from part, after step 10"; same whole/weights.safetensors part/weights.safetensors
[ "$(ls part)" = "state.json
step-10
weights.safetensors" ] || fail "in part: $(ls part)"
# all done: nothing changes, the summary comes again
cp part/state.json state; expect 0 ./clicks train --data parts --epochs 4 --save part --resume --json; same state part/state.json
prints '"rows":1200,"steps":40,'
# bad rows of the first epoch are not forgotten
rm -rf part; expect 0 ./clicks train --data bad.csv --on-bad-row skip --epochs 2 --steps 12 --save part
expect 0 ./clicks train --data bad.csv --on-bad-row skip --epochs 2 --save part --resume --json
prints '"bad_rows":2,'; hears "bad.csv:50:"
# the log has each line once
for at in 0 7 13; do
  rm -rf part log.jsonl
  [ $at = 0 ] || { expect 0 ./clicks train --data train.csv --epochs 2 --steps $at --save part --log log.jsonl --log-every 2; echo '{"step":99}' >> log.jsonl; }
  expect 0 ./clicks train --data train.csv --epochs 2 --save part --resume --log log.jsonl --log-every 2
  [ "$(sed -n 's/^{"step":\([0-9]*\),"epoch":.*/\1/p' log.jsonl | tr '\n' ' ')" = "2 4 6 8 10 12 14 16 18 20 " ] || { fail "lines of the log:"; cat log.jsonl; }
done

# ---- with nothing there it begins; without --resume it begins anew ----
rm -rf part reference; expect 0 ./clicks train --data train.csv --save reference
expect 0 ./clicks train --data train.csv --save part --resume; quiet; same reference/weights.safetensors part/weights.safetensors
expect 0 ./clicks train --data train.csv --save part; quiet; same reference/weights.safetensors part/weights.safetensors
absent part/step-10

# ---- what has changed is told ----
expect 0 ./clicks train --data train.csv --save ckpt --steps 4
refuses() { # TEXT COMMAND…
  local text=$1; shift; cp -r ckpt before; expect 1 "$@" --save ckpt --resume; silent
  says "error: ckpt: the training that was stopped was another one
$text
hint: --resume=force goes on all the same"
  same before/state.json ckpt/state.json; same before/weights.safetensors ckpt/weights.safetensors; rm -r before
}
digest() { sed -n 's/^ *"digest": "\([0-9a-f]*\)"$/\1/p' "$1/state.json" | head -n 1; }
cp train.csv longer.csv; tail -n 1 train.csv >> longer.csv
bytes=$(wc -c < train.csv); longer=$(wc -c < longer.csv)
refuses "  'longer.csv': $bytes bytes in the checkpoint, $longer here" ./clicks train --data longer.csv
refuses "  data: 1 file in the checkpoint, 3 here
  'parts/a.csv': $bytes bytes in the checkpoint, $(wc -c < parts/a.csv) here" ./clicks train --data parts
sed 's/,t/,T/' train.csv > same_size.csv
expect 1 ./clicks train --data same_size.csv --save ckpt --resume; hears "  'same_size.csv': other bytes (digest "
refuses "  seed: 1 in the checkpoint, 9 here" ./clicks train --data train.csv --seed 9
refuses "  shuffle: 100 in the checkpoint, 0 here" ./clicks train --data train.csv --no-shuffle
refuses "  --on-bad-row: fail in the checkpoint, skip here" ./clicks train --data train.csv --on-bad-row skip
build batch clicks.ctr -D batch=64
expect 1 ./batch train --data train.csv --save ckpt --resume; hears "  digest of source and params: "; hears "  batch: 32 in the checkpoint, 64 here"
build o0 clicks.ctr -O0; expect 1 ./o0 train --data train.csv --save ckpt --resume; hears "  pass 'fuse' in the checkpoint, not here"
sed 's/model clicks/model clacks/' clicks.ctr > clacks.ctr; build clacks clacks.ctr
expect 1 ./clacks train --data train.csv --save ckpt --resume; hears "  model: clicks in the checkpoint, clacks here"
# told to, it goes on; the same data under another name and in another place is the same
cp -r ckpt forced; expect 0 ./batch train --data longer.csv --save forced --resume=force; hears "going on from forced, after step 4"
mkdir elsewhere; cp train.csv elsewhere/moved.csv; cp -r ckpt part2
expect 0 ./clicks train --data elsewhere/moved.csv --save part2 --resume; same reference/weights.safetensors part2/weights.safetensors
head -n 101 train.csv > shorter.csv; cp -r ckpt short
expect 1 ./clicks train --data shorter.csv --save short --resume=force; says "going on from short, after step 4
error: the data has 100 rows, training was stopped behind row 128"

# ---- a large file: pieces are compared at once, and all of it once that was read beside training ----
awk -v note="$(printf 'n%.0s' {1..2000})" 'NR == 1 { print $0 ",note"; next } { row[NR] = $0 }
  END { for (i = 0; i < 12000; i++) print row[2 + i % (NR - 1)] "," note }' train.csv > large.csv
rm -rf big; n=0 # a busy machine may be slow to read it
until [ $n = 2000 ] || grep -q '"whole": "' big/state.json 2> /dev/null; do
  n=$((n + 100)); expect 0 ./clicks train --data large.csv --epochs 9 --save big --resume --steps $n
done
whole=$(sed -n 's/^ *"whole": "\([0-9a-f]*\)",*$/\1/p' big/state.json)
[ "$(wc -c < large.csv)" -gt 20000000 ] && [ -n "$whole" ] || fail "no digest of all of large.csv: '$whole'"
rm -rf ckpt.kept; mv ckpt ckpt.kept; cp -r big ckpt
# its second million of bytes lies between two pieces, the first of which ends at 2^20
cp large.csv elsewhere.csv; printf x | dd of=large.csv bs=1 seek=1100000 conv=notrunc 2> /dev/null
expect 1 ./clicks train --data large.csv --epochs 9 --save big --resume; silent
hears "  'large.csv': other bytes (digest $whole in the checkpoint, "; same ckpt/state.json big/state.json
expect 0 ./clicks train --data elsewhere.csv --epochs 9 --save big --resume --steps $((n + 1)); hears "going on from big, after step $n"
rm -rf ckpt; mv ckpt.kept ckpt

# ---- --init-from: weights and slots, at step 0 ----
expect 0 ./clicks train --steps 0 --init-from ckpt --save start; same ckpt/weights.safetensors start/weights.safetensors
grep -q '"step": 0,' start/state.json || fail "step of start/state.json"
expect 0 ./clicks train --data train.csv --init-from reference --save more; quiet
! cmp -s more/weights.safetensors reference/weights.safetensors || fail "--init-from: nothing was trained"
sed 's/adam(/ftrl(/' clicks.ctr > other.ctr; build other other.ctr
expect 0 ./other train --steps 0 --init-from ckpt --save start; hears "the optimizer's values of 't' and others are not in the checkpoint and start afresh"
hears "warning: ckpt: written by the model 'clicks' from another source"
expect 1 ./clicks train --data train.csv --init-from none; says "error: cannot open none/state.json: no such file or directory"
# with --resume it counts only at the beginning
rm -rf a b; expect 0 ./clicks train --data train.csv --init-from ckpt --save a
expect 0 ./clicks train --data train.csv --init-from ckpt --save b --resume --steps 4
expect 0 ./clicks train --data train.csv --init-from ckpt --save b --resume; same a/weights.safetensors b/weights.safetensors

# ---- Python reads them ----
python=${CTRC_PYTHON:-python3}
if "$python" -c 'import safetensors.numpy' 2> /dev/null; then
  "$python" - << 'PY' || fail "python's safetensors"
from safetensors.numpy import load_file
t = load_file("reference/weights.safetensors")
assert t["t"].shape == (50, 4) and t["t/m"].shape == (50, 4) and t["z.mlp.0.dense.kernel"].dtype.name == "float32", t.keys()
PY
else
  echo "$python has no safetensors: not read by it"
fi

[ $bad = 0 ] && echo "training that was stopped ends as training in one go"
exit $bad
