#!/usr/bin/env bash
# Vocabularies from files: what is wrong with one is told when the model is compiled; the program carries the values,
# and keeps to checkpoints that were trained with the same ones.
. tests/cli/common.sh.inc

cat > m.ctr << 'CTR'
model m
param dir = "voc"
input csv() { click label; user string; shop string }
users = vocab(user, file = dir ++ "/users.txt", unknown = last)
shops = vocab(shop, file = dir ++ "/shops.txt", unknown = last)
ann = vocab(user, ["ann"], unknown = last)
fields = [embed(x, table(size(x), 2)) for x in [users, shops, ann]]
z = dense(concat(fields), 1)
predict ctr = sigmoid(z)
loss bce_logits(z, click)
optimizer sgd(lr = 0.1)
train(batch = 4)
CTR
good() { mkdir -p "$1"; printf 'ann\nbob\ncat\n' > "$1/users.txt"; printf 'x\ny\n' > "$1/shops.txt"; }
good voc
printf '1,ann,x\n0,bob,y\n1,cat,zzz\n0,,\n' > d.csv

# ---- files that are no vocabulary: told once, with the caret at the path ----
# refused MESSAGE [HINT]: for users.txt as it stands
refused() {
  for command in "check m.ctr" "m.ctr -o new" "m.ctr --emit=ir -o new"; do
    # shellcheck disable=SC2086
    expect 2 "$ctrc" $command; silent; absent new
    says "m.ctr:4:28: error: $1
    4 | users = vocab(user, file = dir ++ \"/users.txt\", unknown = last)
      |                            ^~~~~~~~~~~~~~~~~~~${2:+
$2}"
  done
}
: > voc/users.txt
refused "vocabulary 'voc/users.txt': expected one value a line, found an empty file"
printf 'ann\nbob\ncat\nbob\n' > voc/users.txt
refused "vocabulary 'voc/users.txt': line 4 repeats the value 'bob' of line 2"
printf 'ann\r\nbob\r\nann' > voc/users.txt
refused "vocabulary 'voc/users.txt': line 3 repeats the value 'ann' of line 1"
printf 'ann\n\nbob\n\n' > voc/users.txt
refused "vocabulary 'voc/users.txt': line 4 repeats the value '' of line 2"
relative="hint: paths of vocabularies are relative to the working directory"
rm voc/users.txt
refused "can't read vocabulary 'voc/users.txt': No such file or directory" "$relative"
mkdir voc/users.txt
refused "can't read vocabulary 'voc/users.txt': Is a directory" "$relative"
rmdir voc/users.txt
expect 2 "$ctrc" check m.ctr -D dir=elsewhere; hears "error: can't read vocabulary 'elsewhere/users.txt': No such file or directory"

# ---- line ends are no matter: one program, byte for byte but for the path ----
good voc; good crlf; good bare
printf '\357\273\277ann\r\nbob\r\ncat\r\n' > crlf/users.txt
printf 'ann\nbob\ncat' > bare/users.txt
build m m.ctr
for dir in crlf bare; do
  build "m_$dir" m.ctr -D dir=$dir
  expect 0 ./m_$dir train --data d.csv --save ckpt_$dir; quiet
done
expect 0 ./m train --data d.csv --save ckpt; quiet
for dir in crlf bare; do same ckpt/weights.safetensors ckpt_$dir/weights.safetensors; done

# ---- an unknown value, and none: the row behind the last; nothing ----
printf '0,ann,x\n0,dan,x\n0,DAN,x\n0,,x\n' > few.csv
expect 0 ./m predict --data few.csv --load ckpt; cp out p
[ "$(sed -n 2p p)" = "$(sed -n 3p p)" ] && [ "$(sort -u p | wc -l)" = 3 ] || fail "known, unknown, unknown, none: $(cat p)"

# ---- the program carries the values: its files may change or go ----
printf 'bob\nann\n' > voc/users.txt; rm voc/shops.txt
expect 0 ./m predict --data few.csv --load ckpt; quiet; same p out
expect 0 ./m train --data d.csv --save again; quiet; same ckpt/weights.safetensors again/weights.safetensors
expect 2 "$ctrc" m.ctr -o new; hears "can't read vocabulary 'voc/shops.txt'"; absent new

# ---- the checkpoint tells which values its rows are of ----
# digest COLUMN [DIR]
digest() { awk -v c="\"$1\"" '$1 == "\"column\":" { on = index($2, c) } on && $1 == "\"digest\":" { gsub(/[",]/, "", $2); print $2; exit }' "${2:-ckpt}/state.json"; }
[ "$(grep -c '"column": "user"' ckpt/state.json)" = 2 ] || fail "not both vocabularies of 'user' are in state.json"
grep -q '"file": "voc/shops.txt"' ckpt/state.json || fail "no path of a vocabulary in state.json"
good other; printf 'ann\ncat\nbob\n' > other/users.txt # as many values, other rows
build other_m m.ctr -D dir=other
expect 0 ./other_m train --data d.csv --save ckpt_other; quiet
other=$(digest user ckpt_other)
[ -n "$other" ] && [ "$other" != "$(digest user)" ] || fail "digests of different values: '$other', '$(digest user)'"
[ "$(digest shop)" = "$(digest shop ckpt_other)" ] || fail "digests of equal values differ"
for command in "eval --data d.csv" "predict --data d.csv -o p.csv"; do
  # shellcheck disable=SC2086
  expect 1 ./other_m $command --load ckpt; silent; absent p.csv
  says "error: ckpt: the checkpoint was trained with another vocabulary than the model 'm' is compiled with
  column 'user': 'voc/users.txt' (3 values, digest $(digest user)) in the checkpoint, 'other/users.txt' (3 values, digest $other) in the model"
done
printf 'x\n' > other/shops.txt; printf 'ann\nbob\ncat\n' > other/users.txt # other values in one, the same in the other
build other_m m.ctr -D dir=other
expect 1 ./other_m eval --data d.csv --load ckpt; hears "column 'shop': 'voc/shops.txt' (2 values, digest $(digest shop)) in the checkpoint, 'other/shops.txt' (1 value, digest "
grep -q "column 'user'" err && fail "the same values in another place are refused"
# values listed in the source; tables are of the same size
good voc
sed 's/\["ann"\]/["bob"]/' m.ctr > listed.ctr; build listed listed.ctr
expect 1 ./listed eval --data d.csv --load ckpt
hears "column 'user': listed values (1 value, digest "; hears " in the checkpoint, listed values (1 value, digest "
# the files of two columns changed about: both are known, but of other columns
good about; cp voc/users.txt about/shops.txt; cp voc/shops.txt about/users.txt
build about_m m.ctr -D dir=about
expect 1 ./about_m eval --data d.csv --load ckpt; hears "column 'user'"; hears "column 'shop'"
# another order of the same lookups is no other vocabulary
sed 's/for x in \[users, shops, ann\]/for x in [ann, shops, users]/' m.ctr | sed '4{h;d};6{G}' > order.ctr; build order order.ctr
expect 1 ./order eval --data d.csv --load ckpt; grep -q "another vocabulary" err && fail "another order is taken for another vocabulary"
# a checkpoint that doesn't tell is not trusted
cp -r ckpt silent; sed -i '/"vocabularies"/,/^  \]/d' silent/state.json
expect 1 ./m eval --data d.csv --load silent; says "error: silent/state.json: missing key 'vocabularies'"

# ---- the reference model, whose three files lie in a directory ----
for v in uid mid cat; do printf 'default\na\nb\n' > ${v}_voc.txt; done
printf '1\ta\tb\tb\tb\002a\tb\002b\n0\tb\ta\ta\t\t\n1\tzz\tzz\tzz\tzz\tzz\n' > log.tsv
din="$source_dir/models/din.ctr"
expect 2 "$ctrc" check "$din" -D logs=none; hears "can't read vocabulary 'none/mid_voc.txt': No such file or directory"
printf 'default\na\na\n' > mid_voc.txt
expect 2 "$ctrc" check "$din"; hears "vocabulary './mid_voc.txt': line 3 repeats the value 'a' of line 2"
: > mid_voc.txt
expect 2 "$ctrc" check "$din"; hears "vocabulary './mid_voc.txt': expected one value a line, found an empty file"
[ "$(grep -c error: err)" = 1 ] || fail "one broken file, more than one error: $(cat err)"
printf 'default\na\nb\n' > mid_voc.txt
build din "$din" -D batch=2
expect 0 ./din train --data log.tsv --save ckpt_din; quiet
printf 'default\nb\na\n' > cat_voc.txt
build din2 "$din" -D batch=2
expect 1 ./din2 predict --data log.tsv --load ckpt_din; silent
hears "column 'category': './cat_voc.txt' (3 values"; hears "column 'hist_cat': './cat_voc.txt' (3 values"
printf '1\ta\tb\tb\tb\002a\tb\n' >> log.tsv # lists of one axis
expect 1 ./din train --data log.tsv --save new; silent; absent new
says "log.tsv:4:13: error: lists along 'h' differ in length: 'hist_item' has 2, 'hist_cat' has 1"
[ $bad = 0 ] && echo "vocabularies are told from one another"
exit $bad
