#!/usr/bin/env bash
# The generated program: train, eval, predict and info as scripts and people use them.
. tests/cli/common.sh.inc

clicks_ctr > clicks.ctr
build clicks clicks.ctr
clicks_csv 300 > train.csv
clicks_csv 120 300 > eval.csv
# field NAME, metric NAME PREDICTION: a number of the JSON object in ./out, not of one of its epochs
field() { sed -n "s/\"epochs\":.*//; s/.*\"$1\":\([-0-9.eE+]*\).*/\1/p" out; }
metric() { sed -n "s/\"epochs\":.*//; s/.*\"$1\":{[^}]*\"$2\":\([-0-9.eE+]*\).*/\1/p" out; }
# keys NAMES…: each is a key of the JSON object in ./out; one line, one object
keys() {
  [ "$(wc -l < out)" = 1 ] && grep -qE '^\{.*\}$' out || fail "not one object on one line: $(head -c 300 out)"
  local k; for k; do grep -q "\"$k\":" out || fail "no key '$k' in $(cat out)"; done
}
keyless() { local k; for k; do ! grep -q "\"$k\":" out || fail "key '$k' in $(cat out)"; done; }
# close A B: two numbers agree to seven digits
close() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a != "" && b != "" && d <= 1e-7 * (a < 0 ? -a : a) + 1e-9) }' || fail "'$1' isn't '$2'"; }
# auc_of COLUMN: of the predictions in ./p against the labels of eval.csv, from ranks; equal ones share theirs
auc_of() {
  awk -F, 'NR > 1 { print $1 }' eval.csv | paste -d' ' - <(cut -d, -f"$1" p) | sort -g -k2,2 | awk '
    function share() { ranks += ones * (from + NR - 1) / 2; ones = 0; from = NR }
    NR > 1 && $2 != last { share() }
    NR == 1 { from = 1 }
    { last = $2; ones += $1; P += $1; N += 1 - $1 }
    END { NR++; share(); printf "%.9f", (ranks - P * (P + 1) / 2) / (P * N) }'
}

# ---- help and usage ----
expect 0 ./clicks --help; quiet; prints '^usage: clicks COMMAND'; prints '^  predict +predictions'; prints "the model 'clicks'"
for command in train eval predict info; do
  expect 0 ./clicks $command --help; quiet; prints "^usage: clicks $command"
  prints '^examples:$'; prints "^  .*clicks $command"
done
expect 0 ./clicks train -h; prints '^  --save DIR'
expect 0 ./clicks --version; prints '^clicks \(ctrc [0-9.]+\)$'
expect 2 ./clicks; silent; hears "usage: clicks COMMAND"
usage() { local text=$1; shift; expect 2 ./clicks "$@"; silent; says "error: $text"; }
usage "unknown command 'trian'
hint: did you mean 'train'?" trian
usage "unknown option '--dta'
hint: did you mean '--data'?" train --dta train.csv
usage "unknown option '--eval_data'
hint: did you mean '--eval-data'?" train --eval_data=x
usage "train has no option '--load'
hint: it is an option of eval" train --load ckpt
usage "predict has no option '--json'
hint: it is an option of train" predict --json
usage "train needs --data" train
usage "eval needs --load" eval --data eval.csv
usage "predict needs --load" predict --data eval.csv
usage "--data: expected F..." train --data
usage "--data: expected F..." train --data --json
usage "unexpected 'train.csv'" train train.csv
usage "--epochs: expected a number from 1, found 0" train --data train.csv --epochs 0
usage "--epochs: expected a whole number, found '1.5'" train --data train.csv --epochs 1.5
usage "--steps: expected a number from 0, found -1" train --data train.csv --steps=-1
usage "--threads: expected a number from 1, found 0" train --data train.csv --threads 0
usage "--seed: expected a whole number, found '99999999999999999999'" train --data train.csv --seed 99999999999999999999
usage "--progress: expected auto|always|never, found 'maybe'" train --data train.csv --progress maybe
usage "--cache: expected none|memory, found 'disk'" train --data train.csv --cache=disk
usage "--json takes no value" train --data train.csv --json=yes
usage "--log-every needs --log or --tensorboard" train --data train.csv --log-every 3
usage "--data and --eval-data cannot both be stdin" train --data - --eval-data -
usage "--data -: stdin can be read once only
hint: add --epochs 1 or --cache memory" train --data - --epochs 2
usage "export needs --format" export --load x
usage "--eval-every needs --eval-data or --eval-fraction" train --data train.csv --eval-every 5

# ---- info ----
expect 0 ./clicks info; quiet
prints "^model +clicks$"; prints "^source +clicks\.ctr, digest [0-9a-f]{16}$"; prints "^input +csv, with a header$"
prints "^training +batch 32, epochs 1, shuffle 100, seed 1$"; prints "^parameters +505, trained 505$" # 50*4 + 9*16+16 + 16*8+8 + 8+1
prints "^compiled +by ctrc [0-9.]+ for native$"; prints "^memory +weights and slots [0-9.]+ kB with every row met, a step of 32 rows [0-9.]+ kB$"
prints "^ +[0-9]+ B for each row of a table that a step touches$"
prints "^passes +.*differentiate"; prints "^changes +none$"; prints "^metrics +auc of ctr$"; prints "^  user +string"; prints "^  click label, not for predictions$"
prints "^  z\.mlp\.0\.dense\.kernel \[9,16\] glorot_uniform +adam$"; prints "^  t +\[50,4\] .*rows as met"
expect 0 ./clicks info --json; quiet
keys model source digest ctrc march batch epochs steps shuffle seed format params columns predictions metrics weights parameters memory passes changes
prints '"predictions":\["ctr","rate"\]'; prints '"params":\{"batch":32\.0,"buckets":50\.0,"lr":0\.05\}'
expect 0 timeout 5 ./clicks info < /dev/null

# ---- train, and its JSON object ----
expect 0 ./clicks train --data train.csv --eval-data eval.csv --epochs 2 --save ckpt --json; quiet
keys model rows steps loss auc logloss normalized_entropy samples_per_s seconds read_s compute_s epochs eval_rows eval_loss bad_rows memory
keyless gauc accuracy pcoc
prints '^\{"model":"clicks","rows":600,"steps":20,"loss":0\.[0-9]+,'
prints '"auc":\{"ctr":0\.[0-9]+,"rate":0\.[0-9]+\}'; prints '"logloss":\{"ctr":0\.[0-9]+\}'
prints '"epochs":\[\{"rows":300,"loss":0\.[0-9]+,"seconds":[0-9.e-]+,"samples_per_s":[0-9.]+,.*"auc":\{.*\},\{"rows":300,'
cp out trained.json
close "$(metric logloss ctr)" "$(field eval_loss)"; logloss=$(metric logloss ctr)
for f in weights.safetensors state.json; do [ -s ckpt/$f ] || fail "no ckpt/$f"; done
grep -q '"step": 20,' ckpt/state.json && grep -q '"epoch": 2,' ckpt/state.json || fail "state.json: $(cat ckpt/state.json)"
# for people
expect 0 ./clicks train --data train.csv --epochs 2 --save again; quiet
prints '^epoch 1: 300 rows in [0-9.]+ s, loss 0\.[0-9]{6}, auc ctr 0\.'; prints '^clicks: 600 rows, 20 steps in [0-9.]+ s \([0-9]+ rows/s\)$'
prints '^loss +0\.[0-9]{6}$'; prints '^auc rate +0\.'; prints '^saved to +again$'
same ckpt/weights.safetensors again/weights.safetensors # evaluation leaves no trace
# without evaluation data the metrics are of the training rows as they were predicted
expect 0 ./clicks train --data train.csv --json; close "$(metric logloss ctr)" "$(field loss)"
keyless eval_rows eval_loss
# seeds, steps, order
expect 0 ./clicks train --data train.csv --epochs 2 --seed 9 --save seed9; ! cmp -s ckpt/weights.safetensors seed9/weights.safetensors || fail "another seed, the same weights"
expect 0 ./clicks train --data train.csv --epochs 2 --no-shuffle --save ordered; ! cmp -s ckpt/weights.safetensors ordered/weights.safetensors || fail "shuffling changes nothing"
expect 0 ./clicks train --data train.csv --epochs 5 --steps 13 --json --save steps; prints '"rows":396,"steps":13,' # 300 + 3 batches of 32
# an epoch from memory is the same as one from text
expect 0 ./clicks train --data train.csv --epochs 2 --cache memory --save cached; same ckpt/weights.safetensors cached/weights.safetensors
# a model as it begins, without data
expect 0 ./clicks train --steps 0 --save zero --json; quiet; prints '"rows":0,"steps":0,"loss":null'
grep -q '"step": 0,' zero/state.json || fail "step of zero/state.json"
expect 0 ./clicks train --steps 0 --data train.csv --eval-data eval.csv --json; prints '"eval_rows":120'
a=$(field eval_loss); expect 0 ./clicks eval --data eval.csv --load zero --json; close "$a" "$(field loss)"

# ---- the log ----
expect 0 ./clicks train --data train.csv --eval-data eval.csv --epochs 2 --log log.jsonl --log-every 4; quiet
[ "$(grep -c '^{"step":[0-9]*,"epoch":[12],"rows":[0-9]*,"loss":0\.[0-9]*,"lr":0.05,"samples_per_s":[0-9.]*,"seconds":[0-9.e-]*,.*"norm_rows":{"t":[0-9]*}}$' log.jsonl)" = 5 ] || { fail "lines of steps:"; cat log.jsonl; }
[ "$(grep -c '^{"step":[12]0,"epoch_end":[12],.*"eval_loss":.*"auc":{"ctr":' log.jsonl)" = 2 ] || { fail "lines of epochs:"; cat log.jsonl; }
[ "$(sed -n 's/^{"step":\([0-9]*\),.*/\1/p' log.jsonl | tr '\n' ' ')" = "4 8 10 12 16 20 20 " ] || { fail "order of the log:"; cat log.jsonl; }
expect 1 ./clicks train --data train.csv --log none/log.jsonl; says "error: cannot write none/log.jsonl: no such file or directory"

# ---- data: files, directories, compressed, stdin ----
mkdir parts; head -n 101 train.csv > parts/a.csv; { head -n 1 train.csv; sed -n 102,201p train.csv; } | gzip > parts/b.csv.gz
{ head -n 1 train.csv; sed -n '202,$p' train.csv; } > parts/c.csv; : > parts/.hidden; : > parts/_SUCCESS; mkdir parts/sub
trains_alike() {
  expect 0 ./clicks train "$@" --epochs 1 --save alike; quiet
  if [ -e reference ]; then same reference/weights.safetensors alike/weights.safetensors; else cp -r alike reference; fi
}
trains_alike --data train.csv
trains_alike --data parts/a.csv parts/b.csv.gz parts/c.csv
trains_alike --data parts
trains_alike --data parts/
trains_alike --data=parts/a.csv --data=parts/b.csv.gz --data parts/c.csv
trains_alike --data - < train.csv
cat train.csv | trains_alike --data -
gzip -c train.csv | trains_alike --data -
gzip -c train.csv > renamed; trains_alike --data renamed # known by its first bytes
{ gzip -c parts/a.csv; gzip -dc parts/b.csv.gz | tail -n +2 | gzip -c; tail -n +2 parts/c.csv | gzip -c; } > members.gz; trains_alike --data members.gz
sed 's/$/\r/' train.csv > crlf.csv; printf '\357\273\277' | cat - crlf.csv | head -c -2 > bom.csv; trains_alike --data bom.csv
awk -F, -v OFS=, '{ print $4, "\"" $2 "\"", "extra", $1, $3 }' train.csv > moved.csv; trains_alike --data moved.csv # by the header's names
if has zstd; then zstd -q train.csv -o train.csv.zst; trains_alike --data train.csv.zst; zstd -q -c train.csv | trains_alike --data -; fi
trains_alike --data - --cache memory < train.csv
expect 0 ./clicks train --data - --epochs 2 --cache memory --save cached < train.csv; same ckpt/weights.safetensors cached/weights.safetensors
expect 0 ./clicks train --data train.csv --eval-data - --json < eval.csv; prints '"eval_rows":120'

# a second file: of no use to stdin, and none is asked for if the model uses nothing of it
cat > beside.ctr <<'CTR'
model beside
param second = true
input tsv() { y label; a string } beside "_b" { b string }
c = a
if second { c = b }
z = dense(onehot(hash(c, 9)), 1)
predict p = sigmoid(z)
loss bce_logits(z, y)
optimizer sgd(lr = 0.1)
CTR
build two beside.ctr; build one beside.ctr -D second=false
printf '1\tu\n0\tv\n' > pairs; printf 'w\nu\n' > pairs_b
expect 0 ./two train --data pairs --epochs 1
expect 2 ./two train --data - --epochs 1 < pairs; silent; says "error: --data -: the model reads a second file beside each, which stdin has not"
expect 2 ./two train --data pairs --eval-data - --epochs 1 < pairs; silent; says "error: --eval-data -: the model reads a second file beside each, which stdin has not"
rm pairs_b; expect 0 ./one train --data pairs --epochs 1; quiet
expect 0 ./one train --data - --epochs 1 < pairs; quiet

# ---- threads ----
for n in 1 3 4; do expect 0 ./clicks train --data train.csv --epochs 2 --threads $n --save threads; same ckpt/weights.safetensors threads/weights.safetensors; done

# ---- eval and predict agree with what training said ----
expect 0 ./clicks eval --data eval.csv --load ckpt --json; quiet
keys model rows loss auc logloss normalized_entropy samples_per_s seconds read_s compute_s
keyless steps epochs eval_loss
prints '^\{"model":"clicks","rows":120,"loss":'
metrics() { sed 's/"epochs":.*//; s/.*"auc":/"auc":/; s/,"samples_per_s.*//' "$1"; }
[ "$(metrics out)" = "$(metrics trained.json)" ] || fail "eval says $(metrics out), training said $(metrics trained.json)"
auc_ctr=$(metric auc ctr); auc_rate=$(metric auc rate)
awk -v a="$auc_ctr" 'BEGIN { exit !(a > 0.6) }' || fail "AUC $auc_ctr: nothing was learnt"
expect 0 ./clicks eval --data eval.csv --load ckpt; quiet; prints '^clicks: 120 rows in '; prints "^auc ctr +${auc_ctr:0:5}"
expect 0 ./clicks predict --data eval.csv --load ckpt; quiet; cp out p
[ "$(grep -cE '^0\.[0-9]+,0\.[0-9]+$' p)" = 120 ] || { fail "not 120 lines of two predictions:"; head -n 3 p; }
close "$(auc_of 1)" "$auc_ctr"; close "$(auc_of 2)" "$auc_rate"
loss=$(awk -F, 'NR > 1 { print $1 }' eval.csv | paste -d, - p | awk -F, '{ s -= $1 ? log($2) : log(1 - $2) } END { printf "%.9f", s / NR }')
awk -v a="$loss" -v b="$logloss" 'BEGIN { exit !(a - b < 1e-6 && b - a < 1e-6) }' || fail "log loss of the predictions: $loss"
expect 0 ./clicks eval --data eval.csv --load ckpt; prints "^norm. entropy ctr +[0-9]\.[0-9]{6}$"
entropy=$(awk -F, -v l="$loss" 'NR > 1 { n++; y += $1 } END { p = y / n; printf "%.9f", l / -(p * log(p) + (1 - p) * log(1 - p)) }' eval.csv)
expect 0 ./clicks eval --data eval.csv --load ckpt --json; close "$(metric normalized_entropy ctr)" "$entropy"
# in the order of the file, whatever stands around a row
predicts_alike() { expect 0 "$@" --load ckpt; cmp -s out p || fail "$*: other predictions"; }
for n in 1 2 3 5; do predicts_alike ./clicks predict --data eval.csv --threads $n; done
predicts_alike ./clicks predict --data - < eval.csv
cut -d, -f2- eval.csv > unlabelled.csv; predicts_alike ./clicks predict --data unlabelled.csv
{ head -n 1 eval.csv; tail -n +2 eval.csv | tac; } > reversed.csv; expect 0 ./clicks predict --data reversed.csv --load ckpt; tac out > r; same r p
for n in 1 32 33 120; do head -n $((n + 1)) eval.csv > some.csv; expect 0 ./clicks predict --data some.csv --load ckpt; head -n "$n" p > want; same want out; done
for n in 1 7 1000; do build batch$n clicks.ctr -D batch=$n; predicts_alike ./batch$n predict --data eval.csv; hears "its weights fit"; done
# forms of output
expect 0 ./clicks predict --data eval.csv --load ckpt --header -o h.csv; quiet; silent; { echo ctr,rate; cat p; } > want; same want h.csv
expect 0 ./clicks predict --data eval.csv --load ckpt --format jsonl; sed 's/^\(.*\),\(.*\)$/{"ctr":\1,"rate":\2}/' p > want; same want out
expect 1 ./clicks predict --data eval.csv --load ckpt -o none/p; says "error: cannot write none/p: no such file or directory"
mkdir d; expect 1 ./clicks predict --data eval.csv --load ckpt -o d; says "error: cannot write d: is a directory"
./clicks predict --data eval.csv --load ckpt 2> err | head -n 1 > /dev/null; quiet # a reader that has enough

# ---- a checkpoint of something else ----
expect 1 ./clicks eval --data eval.csv --load none; says "error: cannot open none/state.json: no such file or directory"
expect 1 ./clicks eval --data eval.csv --load d; says "error: d: no checkpoint in this directory"
ln -s state.json d/state.json # there, and not to be opened; root is refused nothing by permissions
expect 1 ./clicks eval --data eval.csv --load d; says "error: cannot open d/state.json: too many levels of symbolic links"; rm d/state.json
build larger clicks.ctr -D buckets=51
sed 's/model clicks/model deeper/; s/mlp(\[16, 8\])/mlp([16, 8, 4])/' clicks.ctr > deeper.ctr; build deeper deeper.ctr
sed 's/t = table/shared = table/; s/, t)/, shared)/g' clicks.ctr > named.ctr; build named named.ctr
for command in eval "predict -o p.csv"; do
  # shellcheck disable=SC2086
  { expect 1 ./larger $command --data eval.csv --load ckpt; silent
    says "error: ckpt: the checkpoint doesn't fit the model 'clicks'
  't' has shape [50,4] in the checkpoint, [51,4] in the model"
    expect 1 ./deeper $command --data eval.csv --load ckpt; silent
    says "error: ckpt: the checkpoint doesn't fit the model 'deeper'
  'z.mlp.2.dense.kernel' is missing from the checkpoint
  'z.mlp.2.dense.bias' is missing from the checkpoint
  'z.dense.kernel' has shape [8,1] in the checkpoint, [4,1] in the model"
    expect 1 ./named $command --data eval.csv --load ckpt; silent; hears "'shared' is missing from the checkpoint"
    hears "'t' is in the checkpoint, not in the model"; absent p.csv p.csv.*; }
done
cp -r ckpt broken; head -c 100 ckpt/weights.safetensors > broken/weights.safetensors
expect 1 ./clicks eval --data eval.csv --load broken; hears "broken/weights.safetensors: not a safetensors file, or cut short"
expect 1 ./clicks eval --data eval.csv --load train.csv; hears "train.csv/state.json: not a directory"
# weights that fit from another source are used, with a word about it; slots of another optimizer don't matter
sed 's/adam(/sgd(/' clicks.ctr > other.ctr; build other other.ctr
expect 0 ./other eval --data eval.csv --load ckpt --json; hears "warning: ckpt: written by the model 'clicks' from another source (digest "
[ "$(metrics out)" = "$(metrics trained.json)" ] || fail "another optimizer evaluates to $(metrics out)"
# two metrics of one kind over the same prediction are told apart: the first has its name, the next a number behind it
sed '/^metric/d' clicks.ctr > segments.ctr
printf 'metric logloss(ctr, click)\nmetric logloss(ctr, 1 - click)\nmetric logloss(ctr, click, where = click)\n' >> segments.ctr
build segments segments.ctr
expect 0 ./segments eval --data eval.csv --load ckpt --json
close "$(metric logloss ctr)" "$logloss"
prints '"logloss":\{"ctr":[0-9.]+,"ctr_1":[0-9.]+,"ctr_2":[0-9.]+\}'
[ "$(metric logloss ctr)" != "$(metric logloss ctr_1)" ] && [ "$(metric logloss ctr)" != "$(metric logloss ctr_2)" ] ||
  fail "different metrics, one number: $(cat out)"
expect 0 ./segments eval --data eval.csv --load ckpt; prints '^logloss ctr +0\.'; prints '^logloss ctr_1 +[0-9]'
expect 0 ./segments info; prints '^metrics +logloss of ctr$'; prints '^ +logloss of ctr_1$'
# the largest table that compiles also runs
sed -e 's/hash(user, buckets)/hash(user, 4294967294)/; s/table(buckets/table(4294967294/' clicks.ctr > largest.ctr
build largest largest.ctr; expect 0 ./largest info; prints '^  t +\[4294967294,4\]'
expect 0 ./largest train --data train.csv --steps 1
# saving over a checkpoint replaces it, and keeps what else is there
echo mine > again/notes; expect 0 ./clicks train --data train.csv --epochs 1 --save again
same again/weights.safetensors reference/weights.safetensors; [ -s again/notes ] || fail "again/notes is gone"; absent again.tmp

# ---- the progress line ----
clicks_csv 4000 > long.csv
long="train --data long.csv --epochs 400 --steps 4000 --cache memory --json"
# shellcheck disable=SC2086
{ expect 0 ./clicks $long; quiet # not without a terminal
  expect 0 ./clicks $long --progress always; hears "rows/s, loss 0."
  grep -q " left" err || fail "no time left in the progress line"
  tail -c 4 err | od -An -c | grep -q '033 *\[ *K' || fail "the progress line isn't cleared"; }
if has script && script -qec true /dev/null > /dev/null 2>&1; then
  script -qec "./clicks $long > /dev/null" /dev/null > tty < /dev/null; grep -q "rows/s, loss 0\." tty || { fail "no progress line on a terminal:"; od -c tty | head; }
  script -qec "./clicks $long --progress never > /dev/null" /dev/null > tty < /dev/null; [ ! -s tty ] || fail "a progress line in spite of 'never'"
fi

[ $bad = 0 ] && echo "the program's commands do what they say"
exit $bad
