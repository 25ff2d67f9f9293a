#!/usr/bin/env bash
# predict --columns: fields of the row in front of its predictions, in every form of file and output.
. tests/cli/common.sh.inc

clicks_ctr > clicks.ctr
build clicks clicks.ctr
clicks_csv 3000 > log.csv
expect 0 ./clicks train --data log.csv --save ckpt
expect 0 ./clicks predict --data log.csv --load ckpt; quiet; cp out p

# ---- in order, at any number of threads, from a pipe; also columns that the model doesn't know ----
tail -n +2 log.csv | cut -d, -f2 > user; tail -n +2 log.csv | cut -d, -f5,1 > rest
paste -d, user p > want
for n in 1 2 5; do expect 0 ./clicks predict --data log.csv --load ckpt --columns user --threads $n; quiet; same want out; done
expect 0 ./clicks predict --data - --load ckpt --columns user < log.csv; same want out
tail -n +2 log.csv | awk -F, '{ print $5 "," $1 }' | paste -d, - p > want
expect 0 ./clicks predict --data log.csv --load ckpt --columns shown,click -o o.csv; silent; same want o.csv
expect 0 ./clicks predict --data log.csv --load ckpt --columns shown --columns click --header; { echo shown,click,ctr,rate; cat want; } > all; same all out
sed 's/^\(.*\),\(.*\),\(.*\),\(.*\)$/{"shown":"\1","click":"\2","ctr":\3,"rate":\4}/' want > lines
expect 0 ./clicks predict --data log.csv --load ckpt --columns shown,click --format jsonl; same lines out
expect 1 ./clicks predict --data log.csv --load ckpt --columns usr; silent
says "log.csv:1:1: error: column 'usr' (--columns) is missing from the header"

# ---- what must be quoted; bad rows have their fields, too ----
cat > odd.csv << 'CSV'
click,user,price,tags,shown
0, u1 ,0.5,t1,"a,b"
1,"say ""u""",0.5,t2;t3,two
1,u\2,x,t2,"in
two lines"
0,u3,0.5
CSV
printf '1,\xff\t\xc3\xa9,0.5,t1,x\r\n' >> odd.csv
expect 1 ./clicks predict --data odd.csv --load ckpt --columns user -o none.csv; absent none.csv
expect 0 ./clicks predict --data odd.csv --load ckpt --columns user,shown --on-bad-row skip
sed 's/,[-0-9.e]*,[-0-9.e]*$/,P/; s/,nan,nan$/,BAD/' out > got
printf ' u1 ,"a,b",P\n"say ""u""",two,P\nu\\2,"in\ntwo lines",BAD\nu3,,BAD\n\xff\t\xc3\xa9,x,P\n' > want; same want got
expect 0 ./clicks predict --data odd.csv --load ckpt --columns user,shown --on-bad-row skip --format jsonl
sed 's/"ctr":null,"rate":null/BAD/; s/"ctr":.*/P}/' out > got
cat > want << 'EOT'
{"user":" u1 ","shown":"a,b",P}
{"user":"say \"u\"","shown":"two",P}
{"user":"u\\2","shown":"in\ntwo lines",BAD}
{"user":"u3","shown":"",BAD}
EOT
printf '{"user":"\\ufffd\\u0009\xc3\xa9","shown":"x",P}\n' >> want
sed -i 's/\\ntwo/\\u000atwo/' want; same want got

# ---- without a header: declared columns, past skipped ones ----
cat > plain.ctr << 'CTR'
model plain
input tsv() {
  y     label
  _     skip(2)
  b     string
  other string
}
predict p = sigmoid(dense(onehot(hash(b, 9)), 1))
loss bce(p, y)
optimizer sgd(lr = 0.1)
CTR
build plain plain.ctr
printf '1\ta\tb\tx, y\tk1\n0\tc\td\tz\tk"2\n' > plain.tsv
expect 0 ./plain train --data plain.tsv --epochs 1 --save plain.ckpt
expect 0 ./plain predict --data plain.tsv --load plain.ckpt --columns other,b
sed 's/,[-0-9.e]*$/,P/' out > got; printf 'k1,"x, y",P\n"k""2",z,P\n' > want; same want got
expect 1 ./plain predict --data plain.tsv --load plain.ckpt --columns othr; silent
says "error: --columns: the model has no column 'othr'
hint: did you mean 'other'?"

[ $bad = 0 ] && echo "predictions come with the fields asked for"
exit $bad
