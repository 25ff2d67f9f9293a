#!/usr/bin/env bash
# Rows held out by hash, negatives left out and the correction of predictions for it, calibration, bad rows in
# predictions.
. tests/cli/common.sh.inc

clicks_ctr > clicks.ctr
build clicks clicks.ctr
clicks_csv 3000 > log.csv
# number KEY: of the JSON object in ./out, not of one of its epochs
number() { sed -n "s/\"epochs\":.*//; s/.*\"$1\":\([-0-9.eE+]*\).*/\1/p" out; }
metric() { sed -n "s/\"epochs\":.*//; s/.*\"$1\":{[^}]*\"$2\":\([-0-9.eE+]*\).*/\1/p" out; }
near() { awk -v a="$1" -v b="$2" -v by="$3" 'BEGIN { d = a - b; exit !(a != "" && b != "" && d <= by && -d <= by) }' || fail "'$1' isn't within $3 of '$2'"; }

# ---- --eval-fraction: every row in one of two parts, the same always ----
expect 0 ./clicks train --data log.csv --eval-fraction 0.2 --save held --json; quiet
trained=$(number rows); evaluated=$(number eval_rows); loss=$(number eval_loss)
[ $((trained + evaluated)) = 3000 ] || fail "$trained + $evaluated rows"
near "$evaluated" 600 90
expect 0 ./clicks train --data log.csv --eval-fraction 0.2; quiet
prints "^clicks: $trained rows"; prints "^held out +$evaluated rows, by a hash of their bytes$"; prints '^loss \(evaluation\) +0\.'
# the rows that training with it held out can be evaluated later
expect 0 ./clicks eval --data log.csv --load held --eval-fraction 0.2 --json; quiet
[ "$(number rows)" = "$evaluated" ] || fail "eval has $(number rows) rows, not $evaluated"; near "$(number loss)" "$loss" 1e-6
# the two parts themselves: predictions tell which row is which
expect 0 ./clicks predict --data log.csv --load held; cp out p
# whatever threads, cache, order, line ends, seed: as many rows
for how in "--threads 3" "--cache memory --epochs 2" "--no-shuffle" "--seed 9"; do
  # shellcheck disable=SC2086
  expect 0 ./clicks train --data log.csv --eval-fraction 0.2 $how --json; [ "$(number eval_rows)" = "$evaluated" ] || fail "$how: $(number eval_rows) rows held out"
done
{ head -n 1 log.csv; sed 1d log.csv | sort -r; } > sorted.csv
sed 's/$/\r/' log.csv | head -c -2 > crlf.csv
mkdir parts; head -n 1001 log.csv > parts/a.csv; { head -n 1 log.csv; sed 1,1001d log.csv; } | gzip > parts/b.csv.gz
for data in sorted.csv crlf.csv parts; do
  expect 0 ./clicks eval --data $data --load held --eval-fraction 0.2 --json; [ "$(number rows)" = "$evaluated" ] || fail "$data: $(number rows) rows held out"
  near "$(number loss)" "$loss" 1e-5
done
# training on the rest by hand is the same training: the rows held out are found one by one
sed 1d log.csv | while read -r row; do { head -n 1 log.csv; echo "$row"; } > one.csv
  ./clicks eval --data one.csv --load held --eval-fraction 0.2 > one 2> one.err && echo "$row"; done 2> /dev/null < <(sed -n 2,80p log.csv) > by_hand
[ -s by_hand ] || fail "none of 79 rows held out"
{ head -n 1 log.csv; sed -n 2,80p log.csv | grep -vxFf by_hand; } > rest.csv; head -n 80 log.csv > some.csv
expect 0 ./clicks train --data rest.csv --no-shuffle --save rest; expect 0 ./clicks train --data some.csv --no-shuffle --eval-fraction 0.2 --save some
same rest/weights.safetensors some/weights.safetensors
# larger shares hold out more, the same ones among them; threads give the same bytes
expect 0 ./clicks train --data log.csv --eval-fraction 0.2 --threads 1 --save t1; expect 0 ./clicks train --data log.csv --eval-fraction 0.2 --threads 3 --save t3
same t1/weights.safetensors t3/weights.safetensors; same t1/weights.safetensors held/weights.safetensors
# bad rows belong to a part, too
sed -e '5s/.*/0,u1,free,t1,x/' -e '50s/.*/0,u2,free,t1,x/' -e '70s/.*/0,u3,free,t1,x/' -e '90s/.*/0,u4,free,t1,x/' -e '95s/.*/0,u5,free,t1,x/' log.csv > bad.csv
expect 0 ./clicks train --data bad.csv --eval-fraction 0.5 --on-bad-row skip --json
[ $(($(number rows) + $(number eval_rows) + 5)) = 3000 ] || fail "rows beside 5 bad ones: $(number rows) + $(number eval_rows)"
# nothing held out, nothing left
head -n 3 log.csv > few.csv
expect 1 ./clicks train --data few.csv --eval-fraction 0.000001; hears "error: none of the 2 rows is held out (--eval-fraction)"
expect 1 ./clicks train --data few.csv --eval-fraction 0.999999; says "error: no rows are left: 2 are held out, 0 negatives left out"
# resuming with another share is another training
expect 0 ./clicks train --data log.csv --eval-fraction 0.2 --epochs 2 --steps 30 --save on
expect 1 ./clicks train --data log.csv --eval-fraction 0.3 --epochs 2 --save on --resume; hears "--eval-fraction: 0.2 in the checkpoint, 0.3 here"
expect 0 ./clicks train --data log.csv --eval-fraction 0.2 --epochs 2 --save on --resume
expect 0 ./clicks train --data log.csv --eval-fraction 0.2 --epochs 2 --save whole; same on/weights.safetensors whole/weights.safetensors

# ---- --keep-negatives ----
clicks_csv 40000 | awk -F, -v OFS=, 'NR > 1 && $1 == 1 && NR % 4 { $1 = 0 } { $5 = NR; print }' > rare.csv # every row of its own
negatives=$(grep -c '^0,' rare.csv); positives=$(grep -c '^1,' rare.csv)
expect 0 ./clicks train --data rare.csv --keep-negatives 0.25 --epochs 3 --save kept --json; quiet
left=$(number negatives_left_out); near "$left" $((negatives * 3 / 4)) $((negatives / 50))
[ "$(number rows)" = $((3 * (positives + negatives - left))) ] || fail "$(number rows) rows trained, $left left out"
grep -q '"keep_negatives": 0.25' kept/state.json || fail "the checkpoint doesn't say what it was trained on"
expect 0 ./clicks train --data rare.csv --keep-negatives 0.25 --threads 3 --cache memory --epochs 3 --save again; quiet
prints "^negatives left out +$left rows; predictions are corrected for it$"; same kept/weights.safetensors again/weights.safetensors
# predictions are corrected where they leave: their mean is that of the labels among all rows
expect 0 ./clicks predict --data rare.csv --load kept; cp out corrected
mean=$(cut -d, -f1 corrected | awk '{ s += $1 } END { print s / NR }'); share=$(awk -v p="$positives" -v n="$negatives" 'BEGIN { print p / (p + n) }')
near "$mean" "$share" 0.02
# by the formula: the same weights as an uncorrected model, whose predictions p become p / (p + (1 - p) / w)
expect 0 ./clicks train --data rare.csv --steps 0 --init-from kept --save plain
expect 0 ./clicks predict --data rare.csv --load plain; cp out plain_p
paste -d, plain_p corrected | awk -F, '{ for (k = 1; k <= 2; k++) { q = $k / ($k + (1 - $k) / 0.25); d = q - $(k + 2); if (d < 0) d = -d; if (d > worst) worst = d } } END { exit !(NR == 40000 && worst < 2e-7) }' || fail "not corrected by the formula"
# eval sees them so: no rank changes, the log loss does
expect 0 ./clicks eval --data rare.csv --load kept --json; auc=$(metric auc ctr); logloss=$(metric logloss ctr)
expect 0 ./clicks eval --data rare.csv --load plain --json; near "$(metric auc ctr)" "$auc" 1e-5
awk -v a="$logloss" -v b="$(metric logloss ctr)" 'BEGIN { exit !(a < b) }' || fail "the correction makes it no better"
# the evaluation of training, too
expect 0 ./clicks train --data rare.csv --keep-negatives 0.25 --epochs 3 --eval-data rare.csv --json; near "$(metric logloss ctr)" "$logloss" 1e-6
# with rows held out: these keep their negatives
expect 0 ./clicks train --data rare.csv --keep-negatives 0.25 --eval-fraction 0.2 --json; near "$(number eval_rows)" 8000 250
expect 1 ./clicks train --data rare.csv --epochs 4 --save kept --resume; hears "--keep-negatives: 0.25 in the checkpoint, 1 here"
# of one label only
sed 's/^  click  label/  click label; buy label from("shown")/; s/^loss/loss bce(rate, buy)\nloss/' clicks.ctr > two.ctr; build two two.ctr
expect 2 ./two train --data rare.csv --keep-negatives 0.5; says "error: --keep-negatives: expected a model with one label, which lies in [0, 1]"

# ---- eval --calibration ----
expect 0 ./clicks eval --data rare.csv --load kept --calibration --json; quiet; cp out cal.json
if has python3; then
  expect 0 ./clicks predict --data rare.csv --load kept; cp out p
  python3 - << 'PY' || fail "the calibration isn't what it should be"
import json, math
o = json.load(open("cal.json")); c = o["calibration"]["ctr"]
y = [float(l.split(",")[0]) for l in open("rare.csv").read().split("\n")[1:] if l]
p = [float(l.split(",")[0]) for l in open("p")]
n = len(y); assert c["rows"] == n == len(p)
base = sum(y) / n
near = lambda a, b, by=1e-6: abs(a - b) <= by * max(1, abs(b))
assert near(c["observed"], base) and near(c["predicted"], sum(p) / n) and near(c["pcoc"], sum(p) / sum(y))
loss = -sum(b * math.log(a) + (1 - b) * math.log(1 - a) for a, b in zip(p, y)) / n
assert near(c["logloss"], loss) and near(c["logloss"], o["logloss"]["ctr"])
assert near(c["normalized_entropy"], loss / -(base * math.log(base) + (1 - base) * math.log(1 - base)))
bins = c["bins"]
assert sum(b["rows"] for b in bins) == n and all(a["to"] < b["from"] for a, b in zip(bins, bins[1:]))
for b in bins:
    rows = [(q, t) for q, t in zip(p, y) if b["from"] - 1e-9 <= q <= b["to"] + 1e-9]
    assert near(b["predicted"], sum(q for q, _ in rows) / len(rows), 1e-4) and abs(len(rows) - b["rows"]) < 5, b
assert near(c["ece"], sum(b["rows"] * abs(b["predicted"] - b["observed"]) for b in bins) / n)
assert set(o["calibration"]) == {"ctr", "rate"}
PY
fi
expect 0 ./clicks eval --data rare.csv --load kept --calibration; quiet
prints '^calibration of ctr$'; prints '^normalized_entropy +0\.[0-9]{6}$'; prints '^ +from +to +rows +predicted +observed +pcoc$'
expect 0 ./clicks eval --data rare.csv --load kept --json; ! grep -q calibration out || fail "reported unasked"
sed '/^metric/d' clicks.ctr > none.ctr; build none none.ctr
expect 2 ./none eval --data rare.csv --load kept --calibration
says "error: --calibration: expected a model with a metric, which pairs a prediction with a label"

# ---- bad rows in predictions: a line a row, whatever it is ----
clicks_csv 100 > good.csv; sed -e '7s/.*/0,u1,free,t1,x/' -e '60s/,x$//' -e '101s/.*/nothing/' good.csv > bad.csv
expect 1 ./clicks predict --data bad.csv --load held; says "bad.csv:7:6: error: expected a number for column 'price', found 'free'"
expect 0 ./clicks predict --data good.csv --load held; cp out whole.csv
expect 0 ./clicks predict --data bad.csv --load held --on-bad-row skip --bad-rows rows.csv --max-bad-rows 3
says "warning: 3 bad rows skipped, written to rows.csv
  the first: bad.csv:7:6: error: expected a number for column 'price', found 'free'"
sed -e '6s/.*/nan,nan/' -e '59s/.*/nan,nan/' -e '100s/.*/nan,nan/' whole.csv > want; same want out
sed -n -e '1p;7p;60p;101p' bad.csv > want; same want rows.csv
expect 0 ./clicks predict --data bad.csv --load held --on-bad-row skip --format jsonl --threads 3
[ "$(sed -n '6p;59p;100p' out | sort -u)" = '{"ctr":null,"rate":null}' ] && [ "$(wc -l < out)" = 100 ] || fail "as JSON: $(sed -n '6p;59p;100p' out)"
expect 1 ./clicks predict --data bad.csv --load held --on-bad-row skip --max-bad-rows 2 -o p.csv
says "error: more than 2 bad rows (--max-bad-rows)"; absent p.csv p.csv.*
expect 1 ./clicks predict --data rows.csv --load held --on-bad-row skip -o p.csv; hears "all of the 3 rows are bad"; absent p.csv
# what was bad comes back mended, into the lines that were kept for it
sed -e '2s/free/0.5/' -e '3s/$/,x/' -e '4s/.*/0,u1,0.5,,x/' rows.csv > mended.csv
expect 0 ./clicks predict --data mended.csv --load held; quiet; [ "$(wc -l < out)" = 3 ] || fail "mended rows"
# positions and appended lists have places in a bad row, too
cat > seq.ctr << 'CTR'
model seq
input csv() { y label; a int; h string list(";", max = 5) }
items = table(100, 4)
x = append(embed(hash(h, 100), items), embed(identity(a, 100), items)) + embed(positions(append(embed(hash(h, 100), items), embed(identity(a, 100), items))), table(6, 4))
p = dense(pool(x, sum), 1)
predict q = sigmoid(p)
loss bce_logits(p, y)
metric gauc(q, y, by = a)
optimizer adam(lr = 0.1)
train(batch = 8)
CTR
build seq seq.ctr
awk 'BEGIN { for (i = 0; i < 40; i++) printf "%d,%d,%s\n", i % 3 == 0, i % 7, i % 4 ? "a;b" : "" }' > seq.csv
expect 0 ./seq train --data seq.csv --save seq_c; expect 0 ./seq predict --data seq.csv --load seq_c; cp out whole.csv
sed -e '1s/,0,/,x,/' -e '21s/.*/0,1000,a/' seq.csv > bad.csv
expect 0 ./seq predict --data bad.csv --load seq_c --on-bad-row skip
[ "$(sed -n 1p out; sed -n 21p out)" = "nan
nan" ] && [ "$(wc -l < out)" = 40 ] || fail "places of bad rows: $(head -n 3 out)"
diff <(sed '1d;21d' whole.csv) <(sed '1d;21d' out) > /dev/null || fail "other rows' predictions changed"

exit $bad
