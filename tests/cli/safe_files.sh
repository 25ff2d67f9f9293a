#!/usr/bin/env bash
# Files of others: links that lie where a program writes, names that a shell would act on, permissions by umask.
. tests/cli/common.sh.inc
clicks_ctr > clicks.ctr; build clicks clicks.ctr
clicks_csv 300 > train.csv
echo mine > victim; cp victim kept

# ---- a link at the lock's place ----
ln -s victim ckpt.lock
expect 1 ./clicks train --data train.csv --save ckpt; says "error: cannot save to ckpt: too many levels of symbolic links"; same victim kept
rm ckpt.lock; expect 0 ./clicks train --data train.csv --save ckpt; quiet

# ---- a link where a checkpoint is written first: what it leads to is neither moved nor removed ----
for how in beside inside; do
  rm -rf theirs ckpt ckpt.*; mkdir theirs; echo mine > theirs/notes; echo mine > theirs/weights.safetensors; echo mine > theirs/state.json; cp -r theirs theirs.kept
  if [ $how = beside ]; then ln -s theirs ckpt.tmp; else mkdir target; ln -s target ckpt; ln -s ../theirs target/.tmp; fi
  ./clicks train --data train.csv --save ckpt > out 2> err; code=$?
  diff -r theirs theirs.kept || fail "$how: $(ls theirs)"
  [ $code = 1 ] || fail "exit code $code"; says "error: cannot save to ckpt: file exists"; silent
  rm -rf theirs theirs.kept target ckpt ckpt.tmp
done
for kept in step-10 best; do # DIR/step-N and DIR/best, which a new training removes
  mkdir theirs; echo mine > theirs/weights.safetensors; expect 0 ./clicks train --data train.csv --save ckpt; ln -s ../theirs ckpt/$kept
  expect 0 ./clicks train --data train.csv --save ckpt; [ -s theirs/weights.safetensors ] || fail "$kept: a file of others is gone"
  rm -rf theirs ckpt
done
expect 0 ./clicks train --data train.csv --save ckpt; quiet

# ---- predictions: neither a link nor a file that has the temporary name ----
for t in p.csv.tmp p.csv.XXXXXX; do ln -s victim $t; done
expect 0 ./clicks predict --data train.csv --load ckpt -o p.csv; quiet; same victim kept
[ "$(wc -l < p.csv)" = 300 ] || fail "$(wc -l < p.csv) predictions"
echo theirs > q.csv.tmp; expect 0 ./clicks predict --data train.csv --load ckpt -o q.csv; [ "$(cat q.csv.tmp)" = theirs ] || fail "q.csv.tmp is not what it was"
expect 1 ./clicks predict --data none.csv --load ckpt -o r.csv; absent r.csv r.csv.*

# ---- permissions ----
for mask in 077 027 022; do
  (umask $mask; rm -rf m; mkdir m
    "$ctrc" clicks.ctr -o m/clicks > out 2> err < /dev/null && ./clicks train --data train.csv --save m/ckpt --save-every 4 --log m/log > out 2> err \
      && ./clicks predict --data train.csv --load ckpt -o m/p.csv) || { fail "umask $mask"; cat err; }
  too_open=$(find m -mindepth 1 -perm /$mask); [ -z "$too_open" ] || fail "umask $mask, yet open: $too_open"
  [ -x m/clicks ] || fail "not executable under umask $mask"
done
[ "$(stat -c %a m/p.csv m/ckpt m/ckpt/state.json m/clicks | tr '\n' ' ')" = "644 755 644 755 " ] || fail "umask 022: $(stat -c '%a %n' m/p.csv m/ckpt m/ckpt/state.json m/clicks)"

# ---- names that a shell would act on ----
odd='a;touch pwned;$(touch pwned)`touch pwned` b'
mkdir "$odd"; cp clicks.ctr "$odd/$odd.ctr"; cp train.csv "$odd/$odd.csv"
expect 0 "$ctrc" "$odd/$odd.ctr" -o "$odd/$odd"; quiet
expect 0 "./$odd/$odd" train --data "$odd/$odd.csv" --save "$odd/ckpt $odd"; quiet
expect 0 "./$odd/$odd" predict --data "$odd/$odd.csv" --load "$odd/ckpt $odd" -o "$odd/p $odd"; quiet
ln -s train.csv -- -o; expect 0 ./clicks check --data ./-o
absent pwned "$odd/pwned"
# and names that cc or the linker would take for options, for a file of arguments, or for two arguments
cp clicks.ctr ./-x.ctr; cp clicks.ctr ./@x.ctr; cp clicks.ctr a,b.ctr; mkdir ./-d ./@d d,e
for name in -x @x a,b; do
  expect 0 "$quick" "./$name.ctr"; quiet; expect 0 "./$name" info; quiet
  for d in "" ./-d/ ./@d/ d,e/ @d/; do
    case "$d$name" in -*) continue ;; esac # that is an option of ctrc
    expect 0 "$quick" clicks.ctr -o "$d$name"; quiet; same clicks "$d$name"
    expect 0 "$quick" clicks.ctr --emit=lib -o "$d$name.so"; quiet; [ -s "$d$name.so" ] || fail "no $d$name.so"
  done
done
! has readelf || { readelf -d d,e/a,b.so > out; prints 'SONAME.*\[a,b\.so\]'; }
[ $bad = 0 ] && echo "files of others stay as they are"
exit $bad
