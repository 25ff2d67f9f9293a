#!/usr/bin/env bash
# Bad input: each a message that says what, where and what was expected; exit code 1; nothing half written.
. tests/cli/common.sh.inc

clicks_ctr > clicks.ctr
build clicks clicks.ctr
clicks_csv 300 > good.csv
expect 0 ./clicks train --data good.csv --save ckpt; quiet
cp -r ckpt kept

# What must not be there after a failure: a checkpoint, a part of one, a part of predictions; what was there stays.
nothing_written() {
  absent new new.tmp ckpt.tmp p.csv p.csv.tmp
  same ckpt/weights.safetensors kept/weights.safetensors
  same ckpt/state.json kept/state.json
}
# refused MESSAGE FILES…: training refuses the data in the same words whether or not a checkpoint is there already
refused() {
  local message=$1; shift
  for dir in new ckpt; do
    expect 1 ./clicks train --data "$@" --no-shuffle --save $dir --json; says "$message"; silent
  done
  nothing_written
}
# the same for evaluation and prediction, which read with other code around
refused_everywhere() {
  refused "$@"
  local message=$1; shift
  expect 1 ./clicks eval --data "$@" --load ckpt; says "$message"; silent
  expect 1 ./clicks predict --data "$@" --load ckpt -o p.csv; says "$message"; silent
  expect 1 ./clicks train --data good.csv --eval-data "$@" --save new; says "$message"; silent
  nothing_written
}
# broken SED-SCRIPT MESSAGE: good.csv with one line changed
broken() { sed "$1" good.csv > bad.csv; refused_everywhere "$2" bad.csv; }

# ---- a column that isn't there ----
broken '1s/user/usr/' "bad.csv:1:1: error: column 'user' is missing from the header
hint: did you mean 'usr'?"
broken '1s/price/zzz/' "bad.csv:1:1: error: column 'price' is missing from the header"
broken '1s/shown/user/' "bad.csv:1:1: error: column 'user' stands twice in the header"

# ---- number of fields ---- (line 290 is past several steps of training)
broken '290s/,x$//' "bad.csv:290:1: error: expected 5 fields, found 4"
broken '290s/$/,y/' "bad.csv:290:1: error: expected 5 fields, found 6"
broken '2s/,/,,/' "bad.csv:2:1: error: expected 5 fields, found 6" # all columns are shifted; price isn't to blame
broken '5s/.*/nothing/' "bad.csv:5:1: error: expected 5 fields, found 1"

# ---- values ----
broken '290s/.*/0,u1,cheap,t1,x/' "bad.csv:290:6: error: expected a number for column 'price', found 'cheap'"
broken '290s/.*/0,u1,1.5e,t1,x/' "bad.csv:290:6: error: expected a number for column 'price', found '1.5e'"
broken '290s/.*/0,u1,nan,t1,x/' "bad.csv:290:6: error: expected a number for column 'price', found 'nan'"
broken '290s/.*/0,u1,1e99,t1,x/' "bad.csv:290:6: error: expected a number that fits 32-bit floats for column 'price', found '1e99'"
broken '290s/.*/0,u1,,t1,x/' "bad.csv:290:6: error: column 'price' is empty and has no default"

# ---- quotes ----
broken '290s/.*/0,"u1,0.5,t1,x/' "bad.csv:290:3: error: a quote is opened here and never closed"
broken '290s/.*/0,"u1"z,0.5,t1,x/' "bad.csv:290:7: error: expected a separator or the line's end after a closing quote, found 'z'"
sed '290s/.*/0,"u1\n\nstill u1",cheap,t1,x/' good.csv > bad.csv # a field over three lines: places below it still fit
refused_everywhere "bad.csv:292:11: error: expected a number for column 'price', found 'cheap'" bad.csv

# ---- labels; for predictions they may be anything, or absent ----
labels() {
  sed "290s/^[01],/$1,/" good.csv > bad.csv
  refused "$2" bad.csv
  expect 1 ./clicks eval --data bad.csv --load ckpt; says "$2"; silent
  expect 0 ./clicks predict --data bad.csv --load ckpt; quiet
  [ "$(wc -l < out)" = 300 ] || fail "predictions of rows whose label is '$1'"
}
labels 2 "bad.csv:290:1: error: expected a label from 0 to 1 for column 'click', found '2'"
labels -1 "bad.csv:290:1: error: expected a label from 0 to 1 for column 'click', found '-1'"
labels yes "bad.csv:290:1: error: expected a number for column 'click', found 'yes'
hint: a label that is a text says which one means 1: label positive(\"yes\")"
labels '' "bad.csv:290:1: error: label 'click' is empty"

# ---- what isn't text at all ----
printf '0,u1,0.\0005,t1,x\n' | cat good.csv - > bad.csv
refused_everywhere "bad.csv:302:6: error: expected a number for column 'price', found '0.\\x005'" bad.csv
printf '0,u1,\033[31m\377,t1,x\n' | cat good.csv - > bad.csv # harmless to a terminal
refused_everywhere "bad.csv:302:6: error: expected a number for column 'price', found '\\x1b[31m\\xff'" bad.csv
printf '\377\376c\000' > bad.csv
refused_everywhere "bad.csv: error: expected UTF-8 text, found UTF-16" bad.csv

# ---- files ----
: > bad.csv
refused_everywhere "bad.csv: error: the file is empty" bad.csv
head -n 1 good.csv > bad.csv
refused_everywhere "bad.csv: error: only a header, no rows" bad.csv
printf '\n\r\n\n' > bad.csv
refused_everywhere "bad.csv: error: no rows, only blank lines" bad.csv
refused_everywhere "none.csv: error: cannot open: no such file or directory" none.csv
refused_everywhere "good.csv/x: error: cannot open: not a directory" good.csv/x
refused "none.csv: error: cannot open: no such file or directory" good.csv none.csv
mkdir empty
refused_everywhere "empty: error: the directory holds no data files" empty
mkdir headers; head -n 1 good.csv > headers/a.csv; : > headers/b.csv
refused_everywhere "headers: error: no rows in any file of the directory" headers
if [ "$(id -u)" != 0 ]; then # root may read anything
  cp good.csv locked.csv; chmod 0 locked.csv
  refused_everywhere "locked.csv: error: cannot open: permission denied" locked.csv
fi
for dir in new ckpt; do
  expect 1 ./clicks train --data - --save $dir < /dev/null; says "<stdin>: error: the file is empty"; silent
done
nothing_written

# ---- compressed files: cut short, damaged, not what their name says ----
clicks_csv 20000 > long.csv # larger than one read
gzip -c long.csv > whole.gz; size=$(wc -c < whole.gz)
for n in 30 400 $((size / 2)) $((size - 4)) $((size - 1)); do
  head -c "$n" whole.gz > cut.csv.gz
  refused_everywhere "cut.csv.gz: error: the gzip data breaks off: the file is cut short" cut.csv.gz
done
head -c 300 whole.gz > damaged.csv.gz; head -c 3000 /dev/zero | tr '\0' '\377' >> damaged.csv.gz
expect 1 ./clicks train --data damaged.csv.gz --save new; hears "damaged.csv.gz: error: damaged gzip data ("; silent
cp good.csv plain.csv.gz
refused_everywhere "plain.csv.gz: error: not a gzip file" plain.csv.gz
head -c $((size / 2)) whole.gz > half
expect 1 ./clicks train --data - --save new < half; says "<stdin>: error: the gzip data breaks off: the file is cut short"; silent
if has zstd; then
  zstd -q -c long.csv > whole.zst; size=$(wc -c < whole.zst)
  for n in 30 400 $((size / 2)) $((size - 1)); do
    head -c "$n" whole.zst > cut.csv.zst
    refused_everywhere "cut.csv.zst: error: the zstd data breaks off: the file is cut short" cut.csv.zst
  done
  head -c 300 whole.zst > damaged.csv.zst; head -c "$size" /dev/zero | tr '\0' '\377' >> damaged.csv.zst
  expect 1 ./clicks train --data damaged.csv.zst --save new; hears "damaged.csv.zst: error: damaged zstd data ("; silent
  cp good.csv plain.csv.zst
  refused_everywhere "plain.csv.zst: error: not a zstd file" plain.csv.zst
fi
nothing_written

# ---- skipping bad rows ----
sed -e '7s/.*/0,u1,nan,"t;1",x/' -e '120s/^./-1/' -e '290s/,x$//' good.csv > bad.csv
expect 0 ./clicks train --data bad.csv --no-shuffle --on-bad-row skip --bad-rows rows.csv --save skipped
says "warning: 3 bad rows skipped, written to rows.csv
  the first: bad.csv:7:6: error: expected a number for column 'price', found 'nan'"
prints '^clicks: 297 rows, 10 steps'
sed -n -e '1p;7p;120p;290p' bad.csv > want; same want rows.csv
sed -e '7d;120d;290d' good.csv > rest.csv # as if they had never been there
expect 0 ./clicks train --data rest.csv --no-shuffle --save rest; same rest/weights.safetensors skipped/weights.safetensors
expect 0 ./clicks eval --data bad.csv --load ckpt --on-bad-row skip --json; prints '"rows":297,.*"bad_rows":3'
says "warning: 3 bad rows skipped
  the first: bad.csv:7:6: error: expected a number for column 'price', found 'nan'"
expect 0 ./clicks train --data bad.csv --on-bad-row skip --epochs 3 --json; prints '"rows":891,.*"bad_rows":3' # not counted thrice
hears "warning: 3 bad rows skipped"
# the bad rows themselves are data again: still bad, or mended
expect 1 ./clicks train --data rows.csv --on-bad-row skip --save new
says "error: all of the 3 rows are bad, the first: rows.csv:2:6: error: expected a number for column 'price', found 'nan'"
sed -e '2s/nan/0.5/' -e '3s/^-1/1/' -e '4s/$/,x/' rows.csv > mended.csv
expect 0 ./clicks train --data mended.csv --save mended; quiet; prints '^clicks: 3 rows'
# they keep the header they came with
printf 'tags,user,click,price\nt1,u1,0,0.5\nt1,u1,0,free\n' > other.csv
expect 0 ./clicks train --data bad.csv other.csv --on-bad-row skip --bad-rows rows.csv; hears "warning: 4 bad rows skipped"
sed -n -e '1p;7p;120p;290p' bad.csv > want; same want rows.csv
sed -n -e '1p;3p' other.csv > want; same want rows.csv.2
# not onto the data; not more than wanted; not into nowhere
cp bad.csv keep.csv
expect 1 ./clicks train --data bad.csv --on-bad-row skip --bad-rows ./bad.csv --save new
says "./bad.csv: error: --bad-rows would overwrite this file, which is read"; same bad.csv keep.csv
# nor anything else onto a file that is read, whatever name it is given by
overwrites() { # FILE OPTION COMMAND…
  local file=$1 option=$2 before; shift 2; before=$(md5sum < "$file")
  expect 1 ./clicks "$@"; says "$file: error: $option would overwrite this file, which is read"; silent
  [ "$(md5sum < "$file")" = "$before" ] || fail "$*: $file is not what it was"
}
cp good.csv eval.csv; mkdir days; cp good.csv days; ln good.csv another; ln -s days/good.csv link
printf 'tags,user,click,price\nt1,u1,0,free\n' > rows.csv.2 # what --bad-rows rows.csv wrote of a file with another header
overwrites eval.csv --bad-rows train --data good.csv --eval-data eval.csv --on-bad-row skip --bad-rows eval.csv
overwrites rows.csv.2 --bad-rows train --data bad.csv rows.csv.2 --on-bad-row skip --bad-rows rows.csv
overwrites good.csv --log train --data good.csv --log good.csv
overwrites another --log train --data good.csv --log another
overwrites link --log train --data days --log link
overwrites eval.csv --profile train --data good.csv --eval-data eval.csv --profile eval.csv
overwrites good.csv -o predict --data good.csv --load ckpt -o good.csv
overwrites ckpt/state.json -o predict --data good.csv --load ckpt -o ckpt/state.json
overwrites ckpt/weights.safetensors -o export --load ckpt --format safetensors -o ckpt/weights.safetensors
overwrites ckpt/weights.safetensors --log train --data good.csv --init-from ckpt --log ckpt/weights.safetensors
rm -r another link days eval.csv rows.csv.2
expect 1 ./clicks train --data bad.csv --on-bad-row skip --max-bad-rows 2 --save new
says "error: more than 2 bad rows (--max-bad-rows)"; silent
expect 0 ./clicks train --data bad.csv --on-bad-row skip --max-bad-rows 3
expect 1 ./clicks train --data bad.csv --on-bad-row skip --bad-rows none/rows.csv --save new
says "none/rows.csv: error: cannot write: no such file or directory"
expect 2 ./clicks train --data bad.csv --bad-rows rows.csv --save new
says "error: --bad-rows is for skipped rows
hint: add --on-bad-row skip"
nothing_written

# ---- a full disk ----
sed 's/buckets = 50/buckets = 20000/' clicks.ctr > wide.ctr; build wide wide.ctr # ~1 MB of weights
if [ -w /dev/full ]; then
  expect 1 ./clicks predict --data good.csv --load ckpt -o /dev/full; says "error: cannot write /dev/full: no space left on device"
  expect 1 ./clicks train --data good.csv --log /dev/full --log-every 1; says "error: cannot write /dev/full: no space left on device"
  expect 1 ./clicks train --data bad.csv --on-bad-row skip --bad-rows /dev/full; hears "/dev/full: error: cannot write: no space left on device"
  for command in "predict --data good.csv --load ckpt" "train --data good.csv" "train --data good.csv --json" \
    "eval --data good.csv --load ckpt" "info" "info --json" "train --help" "--help" "--version"; do
    # shellcheck disable=SC2086
    ./clicks $command > /dev/full 2> err; [ $? = 1 ] || fail "$command: a full disk behind stdout goes unnoticed"
    says "error: cannot write to stdout: no space left on device"
  done
fi
# a limit on the size of files is a disk that is full for one file, and needs no rights
(ulimit -f 64; expect 1 ./wide train --data good.csv --save new; says "error: cannot write new.tmp/weights.safetensors: file too large"
  expect 1 ./wide train --data good.csv --save ckpt; says "error: cannot write ckpt.tmp/weights.safetensors: file too large"
  expect 1 ./clicks predict --data long.csv --load ckpt -o p.csv; says "error: cannot write p.csv: file too large"
  exit $bad) || bad=1
nothing_written
# a real one, where a small file system may be mounted
cat > full.sh << 'SH'
mount -t tmpfs -o size=192k tmpfs disk || exit 77
. tests.inc
expect 1 ./wide train --data good.csv --save disk/ckpt; says "error: cannot write disk/ckpt.tmp/weights.safetensors: no space left on device"
[ -z "$(ls -A disk)" ] || fail "left on the full disk: $(ls -A disk)"
expect 0 ./clicks train --data good.csv --save disk/ckpt; quiet; cp disk/ckpt/state.json before.json
expect 1 ./wide train --data good.csv --save disk/ckpt; says "error: cannot write disk/ckpt.tmp/weights.safetensors: no space left on device"
same disk/ckpt/weights.safetensors ckpt/weights.safetensors; same disk/ckpt/state.json before.json; absent disk/ckpt.tmp
rm -r disk/ckpt
# the mounted directory itself, which cannot be renamed
for again in 1 2; do expect 0 ./clicks train --data good.csv --save disk/; quiet; same disk/weights.safetensors ckpt/weights.safetensors; done; cp disk/state.json before.json
expect 1 ./wide train --data good.csv --save disk; says "error: cannot write disk/.tmp/weights.safetensors: no space left on device"
same disk/weights.safetensors ckpt/weights.safetensors; same disk/state.json before.json; absent disk/.tmp disk.tmp
# one that may only be read
mount -o remount,ro disk || exit 1
expect 1 ./clicks train --data good.csv --save disk/new; says "error: cannot save to disk/new: read-only file system"
expect 1 ./clicks train --data good.csv --save disk; says "error: cannot save to disk: read-only file system"
exit $bad
SH
{ echo 'bad=0'; declare -f fail expect quiet says same absent; } > tests.inc
mkdir disk
no_mount=""
if has unshare && unshare -rm mount -t tmpfs -o size=64k tmpfs disk 2> /dev/null; then
  unshare -rm bash full.sh || bad=1
else
  no_mount=" (no small file system could be mounted: that part left out)"
fi
# where nothing can be saved this is told before training
: > ckpt_file; mkdir other; : > other/notes
expect 1 ./clicks train --data good.csv --save none/ckpt; says "error: cannot save to none/ckpt: no such file or directory"; silent
expect 1 ./clicks train --data good.csv --save ckpt_file; says "error: cannot save to ckpt_file: not a directory"; silent
expect 1 ./clicks train --data good.csv --save other; silent
says "error: cannot save to other: the directory is not empty and holds no checkpoint"
nothing_written

# ---- a loss that is not finite ----
# The op's number and how it was fused may change with the passes; what it came from, and the rows, may not.
not_finite() { sed -E 's/ from op %[0-9]+ [a-z_]+ of / from op of /' err > err.op; mv err.op err; says "$1"; }
sed 's/^z = concat(fields, price)/s = log(price - 0.105)\nz = concat(fields, s)/' clicks.ctr > nan.ctr; build nan nan.ctr
awk -F, -v OFS=, 'NR > 1 && NR != 77 && $3 < 0.106 { $3 = 0.2 } NR == 77 { $3 = 0.1 } { print }' good.csv > low.csv
for threads in 1 2 3; do
  for dir in new ckpt; do
    expect 1 ./nan train --data low.csv --no-shuffle --threads $threads --save $dir --json --log log.jsonl --log-every 1; silent
    not_finite "error: the loss of step 3 is nan
  the first value that is not finite (nan) comes from op of s, f32[1], at nan.ctr:13:5
  the batch's 32 rows are low.csv:66-97
hint: a smaller learning rate, or clip_norm on the optimizer"
    [ "$(wc -l < log.jsonl)" = 2 ] || fail "$(wc -l < log.jsonl) lines in the log of two whole steps"
  done
done
head -n 51 low.csv > a.csv; { head -n 1 low.csv; echo; tail -n +52 low.csv; } > b.csv # a batch of two files
expect 1 ./nan train --data a.csv b.csv --no-shuffle; silent
not_finite "error: the loss of step 3 is nan
  the first value that is not finite (nan) comes from op of s, f32[1], at nan.ctr:13:5
  the batch's 32 rows are b.csv:17-48
hint: a smaller learning rate, or clip_norm on the optimizer"
sed -n -e 1p -e '60s/,[0-9.]*,/,0.1,/' -e '52,$p' low.csv > c.csv
expect 1 ./nan train --data a.csv c.csv --no-shuffle; silent
hears "error: the loss of step 2 is nan"; hears "  the batch's 32 rows are a.csv:34-51, c.csv:2-15"
expect 1 ./nan train --data low.csv --save new # shuffled: single lines and ranges of the file
grep -qE '^  the batch.s 32 rows are low\.csv:([0-9]+(-[0-9]+)?, )*77(-[0-9]+)?(,|$)|[ :]76-77' err || hears "77"
expect 0 ./nan train --data a.csv --save fine; quiet
expect 1 ./nan eval --data low.csv --load fine; silent
not_finite "error: the loss of an evaluation batch is nan
  the first value that is not finite (nan) comes from op of s, f32[1], at nan.ctr:13:5
  the batch's 32 rows are low.csv:66-97"
expect 1 ./nan train --data a.csv --eval-data low.csv --save new; hears "error: the loss of an evaluation batch is nan"; silent
# a learning rate that makes it diverge
build diverging clicks.ctr -D lr=1e30
expect 1 ./diverging train --data good.csv --no-shuffle --save new; silent
hears "error: the loss of step 2 is nan"; hears "  the batch's 32 rows are good.csv:34-65"; hears "at clicks.ctr:13:"
# a gradient that isn't finite though the loss is: seen a step later, or when saving
cat > root.ctr << 'CTR'
model root
input csv(header = true) {
  price float
  click label
}
z = sqrt(relu(dense(price, 1, init = zeros)))
predict ctr = sigmoid(z)
loss bce_logits(z, click)
optimizer sgd(lr = 0.1)
train(batch = 32, epochs = 1)
CTR
build root root.ctr
expect 1 ./root train --data good.csv --save new; silent
hears "error: the loss of step 2 is nan"; hears "  weight 'z.price.kernel' holds nan at [0,0]"
expect 1 ./root train --data good.csv --steps 1 --save new; silent
says "error: not saved: weight 'z.price.bias' holds values that are not finite"
nothing_written

[ $bad = 0 ] && echo "bad input is told and leaves nothing behind$no_mount"
exit $bad
