#!/usr/bin/env bash
# `check`: what it counts, what it warns of, and that neither threads nor the cut of the data into files matter.
. tests/cli/common.sh.inc

cat > m.ctr << 'CTR'
model m
input csv(header = true) {
  click label
  user  string
  kind  string
  price float = 0
  when  int
  tags  string list(";", max = 3)
  gone  string
  never float = 0
  spare string
}
ids = [hash(user, 1000), hash(kind, 7), cross([kind, user], 500), vocab(kind, ["k0", "k1", "k2"]), bucketize(when, [10, 20])]
z = dense(concat(price, never), 1) + sum([dense(onehot(i), 1, bias = false) for i in ids]) +
    pool(dense(onehot(hash(tags, 100)), 1, bias = false), sum) + dense(onehot(hash(gone, 50)), 1)
predict p = sigmoid(z)
loss bce_logits(z, click)
metric auc(p, click)
optimizer adam(lr = 0.01)
train(batch = 32)
CTR
build m m.ctr
# rows FIRST LAST: of the log; price follows the label by chance, kind does half the time
log() {
  awk -v first="$1" -v last="$2" 'BEGIN {
    print "click,user,kind,price,when,tags,gone,never,spare"
    for (i = first; i <= last; i++) {
      h = (i * 48271 + 12345) % 1000; y = h < 250
      tags = ""; for (t = 0; t < i % 6; t++) tags = tags (t ? ";" : "") "t" (i + t) % 9
      printf "%d,u%d,k%d,%s,%d,%s,,1,x%d\n", y, i * 7919 % 400, y && i % 2 ? 5 : i % 5, i % 10 ? h : "", i % 97, tags, i
    }
  }'
}
log 1 4000 > log.csv

# ---- the table ----
expect 0 ./m check --data log.csv; quiet
prints '^m: 4000 rows in 1 file, 0\.1 MB in [0-9.]+ s \([0-9]+ rows/s\)$'
prints '^label click: [0-9]+ rows are 1 \(25 %\)$'; prints '^not read: spare$'
prints '^column +kind +filled +distinct +auc +range +most frequent$'
prints "^user +string +100 % +400 +0\.[0-9]{3} +'u"
prints "^kind +string +100 % +6 +0\.[67][0-9]{2} +'k"
prints '^price +float +90\.0 % +[0-9]+ +1\.000 +0 to 999, median '
prints '^when +int +100 % +97 +0\.[0-9]{3} +0 to 96, median 48 '
prints "^tags +string list +83\.4 % +9 +0 to 5 long, mean 2\.5 +'t"
prints '^gone +string +0 % +0 '; prints '^never +float +100 % +1 .* 1 to 1, median 1 +1 100 %$'
prints '^click +label +100 % +2 +0 to 1, median 0 +0 75 %, 1 25 %$'
prints '^ids +buckets +distinct +collide$'; prints '^hash\(user\) +1000 +400 +[234][0-9]\.. %$'; prints '^cross\(kind, user\) +500 +'
prints '^vocabulary +values +unknown$'; prints '^vocab\(kind\) +3 +[45][0-9]\.[0-9] %$'
# the share of unknown values is what it is: k3, k4 and k5
want=$(awk -F, 'NR > 1 { n += $3 > "k2" } END { printf "%.1f", 100 * n / (NR - 1) }' log.csv)
prints "^vocab\\(kind\\) +3 +$want %$"
# and of values that share a bucket: a hash of 6 in 7 buckets
cp out table

# ---- warnings ----
prints '^[0-9]+ warnings$'
prints "^  leak: column 'price' alone tells 'click' with an AUC of 1\.0000: is it known before the outcome is\?$"
prints "^  empty: column 'gone' is empty in all rows$"; prints "^  constant: column 'never' is 1 in all rows: it tells nothing$"
prints "^  cut: column 'tags': 33 % of the lists are longer than the 3 values that are kept$"
prints "^  unknown values: vocab\(kind\): $want % of the values are not in the vocabulary$"
prints "^  collisions: hash\(user\): [0-9]+ % of 400 values share a bucket with another in 1000 buckets; 4000 would leave below 10 %$"
# changed WARNING AWK-SCRIPT: a log that differs in one thing gives one more warning
changed() {
  awk -F, -v OFS=, "$2 { print }" log.csv > changed.csv
  expect 0 ./m check --data changed.csv; quiet; prints "^  $1"; grep -qE "^  $1" table && fail "the log itself has this: $1"
}
changed "constant label: label 'click' is 0 in all rows: nothing can be learnt from it$" 'NR > 1 { $1 = 0 }'
changed "imbalance: label 'click' is 1 in 0\.5 % of the rows: train --keep-negatives 0\.0. has a tenth" 'NR > 1 { $1 = NR % 200 == 0 }'
changed "drift: label 'click' is 1 in 0 % of the first tenth of the rows, in 100 % of the last: they are in an order" 'NR > 1 { $1 = NR > 2000 }'
changed "unscaled: column 'price' goes from 0 to 5e\+06: unless the model does so already, take log1p" 'NR == 9 { $4 = 5000000 }'
changed "unique: column 'user' has 4000 values in 4000 rows: nearly every row has its own" 'NR > 1 { $2 = "u" NR }'
changed "copies: about [0-9]+ % of the rows are copies of another$" 'NR > 1000 { $0 = "0,u1,k1,1,5,t1,,1,x" }'
changed "mostly empty: column 'gone' has a value in 0\.25 % of the rows only$" 'NR > 1 && NR % 400 == 0 { $7 = "g" NR }'
changed "leak: the length of 'tags' alone tells 'click' with an AUC of 1\.0000" 'NR > 1 { $6 = $1 ? "a" : "a;b" }'
# of a list also what it holds: an element, however often a row has it; the same in all rows; one of its own for each
changed "leak: 'sold' in 'tags' alone tells 'click' with an AUC of 1\.0000" 'NR > 1 { $6 = $1 ? "sold;t" NR % 9 ";sold" : "t" NR % 9 ";t1;t2" }'
changed "constant: column 'tags' is the same list in all rows: it tells nothing$" 'NR > 1 { $6 = "t1;t2" }'
changed "unique: column 'tags' has 8000 values in 8000 elements: nearly every element has its own" 'NR > 1 { $6 = "t" NR ";s" NR }'
# an id of few rows each tells nothing, whatever labels these have; one that is made of the label does
changed "leak: column 'kind' alone tells 'click' with an AUC of 1\.0000" 'NR > 1 { $3 = "k" $1 }'
grep -q "leak: column 'user'" table && fail "an id taken for a leak"
# a clean log has none
awk -F, -v OFS=, 'NR == 1 || ($7 = "g" NR % 3) && ($4 = NR % 7) && ($8 = NR % 5) && ($6 = "t1;t" NR % 3) && ($3 = "k" NR % 3) && ($2 = "u" NR % 50) { print }' log.csv > clean.csv
sed 's/hash(kind, 7)/hash(kind, 1000)/; s/\], 500)/], 5000)/; s/hash(gone, 50)/hash(gone, 1000)/; s/hash(tags, 100)/hash(tags, 1000)/' m.ctr > clean.ctr; build clean clean.ctr
expect 0 ./clean check --data clean.csv; quiet; prints '^no warnings$'

# ---- threads, files, compression: the same to the letter ----
head_less() { sed -e '1d' out; }
expect 0 ./m check --data log.csv --threads 1; head_less > one
for threads in 2 3 7; do expect 0 ./m check --data log.csv --threads $threads; head_less | cmp -s - one || fail "$threads threads count otherwise"; done
mkdir parts; log 1 1500 > parts/a.csv; log 1501 1501 | gzip > parts/b.csv.gz; log 1502 4000 > parts/c.csv
expect 0 ./m check --data parts; prints '^m: 4000 rows in 3 files'; head_less | cmp -s - one || fail "in three files it counts otherwise"
expect 0 ./m check --data - < log.csv; quiet; head_less | cmp -s - one || fail "from stdin it counts otherwise"
# several blocks of text
log 1 60000 > long.csv
expect 0 ./m check --data long.csv --threads 1; head_less > one
expect 0 ./m check --data long.csv --threads 3; head_less | cmp -s - one || fail "of many blocks 3 threads count otherwise"
prints '^when +int +100 % +97 '; prints "^user +string +100 % +400 "

# ---- JSON ----
expect 0 ./m check --data log.csv --json; quiet
[ "$(wc -l < out)" = 1 ] || fail "not one line"
if has python3; then
  python3 - << 'PY' || fail "the JSON object isn't what it should be"
import json
o = json.load(open("out"))
assert o["rows"] == 4000 and o["bad_rows"] == 0 and o["positives"] == {"click": 1000}, o
c = {x["name"]: x for x in o["columns"]}
assert c["user"]["distinct"] == 400 and c["user"]["exact"] and c["tags"]["length"]["max"] == 5
assert c["tags"]["length"]["cut"] == sum(i % 6 > 3 for i in range(1, 4001)), c["tags"]
assert c["when"]["min"] == 0 and c["when"]["max"] == 96 and c["when"]["top"][0]["count"] == 42
assert abs(c["price"]["auc"]["click"] - 1) < 1e-12 and c["gone"]["filled"] == 0
assert {w["kind"] for w in o["warnings"]} >= {"leak", "empty", "constant", "cut", "collisions", "unknown values"}
assert [i["buckets"] for i in o["ids"] if i["name"] == "hash(kind)"] == [7]
PY
fi

# ---- bad rows ----
sed -e '8s/,[0-9]*,t/,soon,t/' -e '100s/$/,z/' -e '3000s/^[01]/2/' log.csv > bad.csv
expect 1 ./m check --data bad.csv; quiet # training would stop
prints '^m: 3997 rows in 1 file'; prints '^bad rows: 3, 0\.075 %$'
prints "^  bad\.csv:8:[0-9]+: error: expected a whole number for column 'when', found 'soon'$"
prints '^  bad\.csv:100:1: error: expected 9 fields, found 10$'; prints "^  bad\.csv:3000:1: error: expected a label from 0 to 1 for column 'click', found '2'$"
prints '^  bad rows: 3 rows cannot be read: training stops at the first, --on-bad-row skip passes over them$'
expect 0 ./m check --data bad.csv --on-bad-row skip --bad-rows rows.csv; quiet; prints 'training skips them$'
sed -n -e '1p;8p;100p;3000p' bad.csv > want; same want rows.csv
expect 1 ./m check --data rows.csv; prints '^m: 0 rows'; prints '^bad rows: 3, 100 %$'
expect 0 ./m check --data bad.csv --on-bad-row skip --max-bad-rows 3
expect 1 ./m check --data bad.csv --on-bad-row skip --max-bad-rows 2; says "error: more than 2 bad rows (--max-bad-rows)"
cp bad.csv keep.csv; expect 1 ./m check --data bad.csv --on-bad-row skip --bad-rows bad.csv
says "bad.csv: error: --bad-rows would overwrite this file, which is read"; same bad.csv keep.csv
expect 1 ./m check --data none.csv; says "none.csv: error: cannot open: no such file or directory"; silent
: > empty.csv; expect 1 ./m check --data empty.csv; says "empty.csv: error: the file is empty"; silent

# ---- data to predict on ----
cut -d, -f2- log.csv > unlabelled.csv
expect 0 ./m check --data unlabelled.csv; quiet; prints '^user +string +100 % +400 '
prints "^  label missing: column 'click' is missing from the header: these rows can be predicted on, not trained with$"
expect 1 ./m check --data - < unlabelled.csv; says "<stdin>:1:1: error: column 'click' is missing from the header"
cut -d, -f1,3- log.csv > userless.csv
expect 1 ./m check --data userless.csv; hears "userless.csv:1:1: error: column 'user' is missing from the header"

# ---- other formats: pairs, a second file beside ----
cat > pairs.ctr << 'CTR'
model pairs
input libsvm() { y label; i int list(axis = h); v float list(axis = h) }
z = sum(embed(identity(i, 50), table(50, 1)) * v, axis = h)
predict p = sigmoid(z)
loss bce_logits(z, y)
optimizer adam(lr = 0.1)
train(batch = 8)
CTR
build pairs pairs.ctr
awk 'BEGIN { for (i = 0; i < 50; i++) printf "%d %d:1 %d:2.5\n", i % 2, i % 50, (i + 7) % 50 }' > pairs.txt
expect 0 ./pairs check --data pairs.txt; quiet; prints '^i +int list +100 % +50 +2 to 2 long, mean 2 '; prints '^v +float list +100 % +2 +2 to 2 long, mean 2 +1 50 %, 2\.5 50 %$'
cat > beside.ctr << 'CTR'
model beside
input tsv() { y label; a string } beside "_b" { b string }
z = dense(onehot(hash(a, 10)), 1) + dense(onehot(hash(b, 10)), 1)
predict p = sigmoid(z)
loss bce_logits(z, y)
optimizer adam(lr = 0.1)
train(batch = 8)
CTR
build beside beside.ctr
for i in 0 1 0 1 1 0; do printf '%d\ta%d\n' $i $i; done > two; for i in x y x x x x; do echo $i; done > two_b
expect 0 ./beside check --data two; quiet; prints "^b +string +100 % +2 .*'x' 83\.3 %, 'y' 16\.7 %$"

# ---- train --validate-first ----
expect 0 ./m train --data log.csv --validate-first 1000 --save first
hears "warning: the first 1000 rows: column 'price' alone tells 'click' with an AUC of 1.0000"; hears "warning: the first 1000 rows: column 'never' is 1 in all rows: it tells nothing"
expect 0 ./m train --data log.csv --save plain; quiet; same first/weights.safetensors plain/weights.safetensors
expect 1 ./m train --data bad.csv --validate-first 50 --save none; says "bad.csv:8:$(awk -F, 'NR == 8 { print length($1 $2 $3 $4) + 5 }' bad.csv): error: expected a whole number for column 'when', found 'soon'"; silent; absent none
expect 1 ./m train --data rows.csv log.csv --validate-first 2 --on-bad-row skip --save none
hears "error: 3 of the first 5 rows are bad, the first: rows.csv:2:"; absent none
expect 1 ./m train --data unlabelled.csv --validate-first 10; hears "error: column 'click' is missing from the header"

exit $bad
