#!/usr/bin/env bash
# Files read in step, lists of one axis, labels of several tasks: what doesn't match is told with the place in each file
# and exit code 1, wrong usage with 2, and nothing half written stays.
. tests/cli/common.sh.inc

cat > pairs.ctr << 'CTR'
model pairs
input csv(header = true) {
  click label
  buy   label
  user  string
  items string list(";", axis = h)
  price float  list(";", axis = h)
} beside "_neg" {
  other string list(";", axis = h)
}
t = table(50, 4)
layer taste(c) = mean(dense(concat(embed(hash(c, 50), t), price), 4))
liked = taste(items)
x = concat(embed(hash(user, 50), table(50, 4)), liked)
predict ctr = sigmoid(dense(x, 1))
predict cvr = sigmoid(dense(x, 1))
loss bce_logits(dense(x, 1), click)
loss bce_logits(dense(x, 1), buy)
loss softplus(sum(taste(other) - liked, axis = -1))
metric auc(ctr, click)
metric auc(cvr, buy)
optimizer adagrad(lr = 0.05)
train(batch = 8, epochs = 2)
CTR
build pairs pairs.ctr
"$ctrc" check pairs.ctr 2>&1 | grep -q "no loss depends on weight 'cvr" || fail "a task without a loss goes unnoticed"
pair() { # pair FILE ROWS: row i has i % 3 items, so every third line of the second file is empty
  awk -v n="$2" 'function list(k, w,   s, i) { for (i = 0; i < k; i++) s = s (i ? ";" : "") w i; return s }
    BEGIN { print "click,buy,user,items,price"; for (i = 0; i < n; i++) printf "%d,%d,u%d,%s,%s\n", i % 2, i % 5 == 0, i % 7, list(i % 3, "a"), list(i % 3, "0.") }' > "$1"
  awk -v n="$2" 'function list(k, w,   s, i) { for (i = 0; i < k; i++) s = s (i ? ";" : "") w i; return s }
    BEGIN { print "other"; for (i = 0; i < n; i++) print list(i % 3, "b") }' > "$1_neg"
}
pair good.csv 100
expect 0 ./pairs train --data good.csv --save ckpt --json; prints '"rows":200,.*"bad_rows":0'
cp -r ckpt kept
# refused MESSAGE FILE: training and evaluation, with and without a checkpoint in the place
refused() {
  for dir in new ckpt; do expect 1 ./pairs train --data "$2" --save $dir --json; says "$1"; silent; done
  expect 1 ./pairs eval --data "$2" --load ckpt; says "$1"; silent
  absent new new.tmp ckpt.tmp; same ckpt/weights.safetensors kept/weights.safetensors
}
# broken SED-SCRIPT SED-SCRIPT MESSAGE: each file with a change
broken() {
  sed "$1" good.csv > bad.csv; sed "$2" good.csv_neg > bad.csv_neg
  refused "$3" bad.csv
}

# ---- numbers of rows ---- (line 101 is the last)
broken '' '101d' "bad.csv_neg:101: error: ends after 99 rows, 'bad.csv' has another at line 101"
broken '101d' '' "bad.csv_neg:101: error: has another row, 'bad.csv' ends at line 100 after 99 rows"
broken '' '2,$d' "bad.csv_neg:2: error: ends after 0 rows, 'bad.csv' has another at line 2"
broken '101s/.*/&\n\n/' '100,$d' "bad.csv_neg:100: error: ends after 98 rows, 'bad.csv' has another at line 100"
broken '' '50s/$/\nb9;b9/;$d' "bad.csv_neg:51:1: error: lists along 'h' differ in length: 'items' has 1 (bad.csv:51), 'other' has 2"
cp good.csv bad.csv; : > bad.csv_neg
refused "bad.csv_neg:1: error: ends after 0 rows, 'bad.csv' has another at line 2" bad.csv
rm bad.csv_neg
refused "bad.csv_neg: error: cannot open the file beside 'bad.csv': no such file or directory" bad.csv
: > bad.csv; cp good.csv_neg bad.csv_neg
refused "bad.csv_neg:2: error: has another row, 'bad.csv' ends at line 0 after 0 rows" bad.csv
gzip -c good.csv > z.csv.gz; sed '101d' good.csv_neg | gzip -c > z.csv_neg.gz
refused "z.csv_neg.gz:101: error: ends after 99 rows, 'z.csv.gz' has another at line 101" z.csv.gz
gzip -c good.csv_neg | head -c 30 > z.csv_neg.gz
refused "z.csv_neg.gz: error: the gzip data breaks off: the file is cut short" z.csv.gz
gzip -c good.csv_neg > z.csv_neg.gz
expect 0 ./pairs eval --data z.csv.gz --load ckpt --json; prints '"rows":100,'
# an empty line is nothing in the first file, and a row in the second, which has one list
sed '$s/$/\n\n/' good.csv > more.csv; cp good.csv_neg more.csv_neg
expect 0 ./pairs train --data more.csv --save more; quiet; same more/weights.safetensors ckpt/weights.safetensors
broken '' '$s/$/\n/' "bad.csv_neg:102: error: has another row, 'bad.csv' ends at line 101 after 100 rows"

# ---- lengths of lists ----
broken '4s/;0.1//' '' "bad.csv:4:14: error: lists along 'h' differ in length: 'items' has 2, 'price' has 1"
broken '' '4s/$/;b9/' "bad.csv_neg:4:1: error: lists along 'h' differ in length: 'items' has 2 (bad.csv:4), 'other' has 3"
broken '' '4s/.*//' "bad.csv_neg:4:1: error: lists along 'h' differ in length: 'items' has 2 (bad.csv:4), 'other' has 0"
sed '4s/;0.1//' good.csv > bad.csv; sed '7s/$/;b9/' good.csv_neg > bad.csv_neg
expect 0 ./pairs train --data bad.csv --on-bad-row skip --bad-rows rows.csv --json; prints '"rows":196,.*"bad_rows":2'
says "warning: 2 bad rows skipped, written to rows.csv
  the first: bad.csv:4:14: error: lists along 'h' differ in length: 'items' has 2, 'price' has 1"
sed -n '1p;4p;7p' bad.csv > want; same want rows.csv; sed -n '1p;4p;7p' bad.csv_neg > want; same want rows.csv_neg

# ---- labels of a task ----
broken '9s/,[01],/,,/' '' "bad.csv:9:3: error: label 'buy' is empty"
broken '9s/,[01],/,bought,/' '' "bad.csv:9:3: error: expected a number for column 'buy', found 'bought'
hint: a label that is a text says which one means 1: label positive(\"yes\")"
broken '9s/,[01],/,2,/' '' "bad.csv:9:3: error: expected a label from 0 to 1 for column 'buy', found '2'"
cut -d, -f1,3- good.csv > bad.csv; cp good.csv_neg bad.csv_neg
refused "bad.csv:1:1: error: column 'buy' is missing from the header" bad.csv
sed '1s/buy/bye/' good.csv > bad.csv
refused "bad.csv:1:1: error: column 'buy' is missing from the header
hint: did you mean 'bye'?" bad.csv
# predictions need neither labels nor the second file
expect 0 ./pairs predict --data good.csv --load ckpt -o p; cut -d, -f3- good.csv > alone.csv
expect 0 ./pairs predict --data alone.csv --load ckpt; quiet; same p out

# ---- evaluation data ----
gzip -c good.csv | head -c 200 > cut.csv.gz; gzip -c good.csv_neg > cut.csv_neg.gz
expect 1 ./pairs train --data good.csv --eval-data cut.csv.gz --save new; silent; absent new
says "cut.csv.gz: error: the gzip data breaks off: the file is cut short"
expect 1 ./pairs train --data good.csv --eval-data none.csv --save new; silent; absent new; says "none.csv: error: cannot open: no such file or directory"
tr '\n' '\r' < good.csv > mac.csv; cp good.csv_neg mac.csv_neg
refused "mac.csv:1:27: error: lines end in a carriage return alone, expected a newline
hint: tr '\\r' '\\n' makes newlines of them" mac.csv

# ---- wrong usage ----
expect 2 ./pairs train --data - < good.csv; says "error: --data -: the model reads a second file beside each, which stdin has not"
expect 2 ./pairs eval --data good.csv; silent
expect 2 ./pairs train --data good.csv --bad-rows rows.csv; silent
expect 2 "$ctrc" pairs.ctr -D zz=1 -o new; absent new; hears "error: -D zz: the model has no such param"; hears "hint: it has none"
[ $bad = 0 ] && echo "pairs, lists and tasks are told apart"
exit $bad
