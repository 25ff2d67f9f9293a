#!/usr/bin/env bash
# IR text of the reference models, damaged in each way: an error that names line and column and says what is wrong there.
. "$(dirname "$0")/common.sh.inc"
for v in uid mid cat; do printf 'default\na\nb\n' > ${v}_voc.txt; done
models="wdl deepfm dlrm din dien mmoe"
[ -z "${CTRC_TEST_LIGHT:-}" ] || models="deepfm dien"

# refused FILE LINE REGEX: with that message at that line (a number; 0: wherever)
count=0
refused() {
  local line=$2; [ "$line" != 0 ] || line='[0-9]+'
  count=$((count + 1))
  expect 2 "$ctrc" "$1" --emit=plan -o plan
  head -n 1 err | grep -qE "^$1:$line:[0-9]+: error: $3" || { fail "$1, line $2: expected '$3':"; head -n 3 err; }
}
# lines FILE REGEX: the numbers of three lines that match, one each of the first, second and last third
lines() { grep -nE "$2" "$1" | cut -d : -f 1 > found; awk '{ n[NR] = $1 } END { print n[int(NR / 6) + 1]; print n[int(NR / 2) + 1]; print n[int(NR * 5 / 6) + 1] }' found; }
# damage FILE LINE SED: leaves it in bad.ir
damage() { sed -E "$2$3" "$1" > bad.ir; ! cmp -s "$1" bad.ir || fail "nothing to damage in line $2 of $1"; }

for m in $models; do
  logs=(); case $m in din | dien) logs=(-D logs=.) ;; esac
  expect 0 "$ctrc" "$source_dir/models/$m.ctr" "${logs[@]}" --march=x86-64-v3 --print-after=split-concat --emit=ir -o $m.ir; cp out $m.half.ir
  size=$(stat -c %s $m.ir)
  for k in 1 4 7 10 13 16 19; do head -c $((size * k / 20 + 3)) $m.ir > bad.ir; refused bad.ir 0 .; done
  sed '/^func eval/,$d' $m.ir > bad.ir; count=$((count + 1)); expect 2 "$ctrc" bad.ir --emit=obj -o obj; hears "bad.ir:$(($(wc -l < bad.ir) + 1)):1: error: the program has no function 'eval'"
  sed '/^func/,$d' $m.half.ir > bad.ir; refused bad.ir $(($(wc -l < bad.ir) + 1)) "differentiate needs func 'model', which this program doesn't have"
  for f in $m.ir $m.half.ir; do
    sed 's/^train batch=[0-9]*/train batch=0/' $f > bad.ir; refused bad.ir "$(grep -n ^train bad.ir | cut -d : -f 1)" 'expected a batch of at least 1, found 0'
  done
  sed '/^train batch=/d' $m.half.ir > bad.ir; refused bad.ir $(($(wc -l < bad.ir) + 1)) 'expected a batch of at least 1, found 0'
  damage $m.ir "$(grep -n '^applied "fuse"' $m.ir | cut -d : -f 1)" 's/fuse/fuze/'; refused bad.ir "$(grep -n '^applied "fuze"' bad.ir | cut -d : -f 1)" "unknown pass 'fuze'"
  for f in $m.ir $m.half.ir; do
    for n in $(lines $f '^  %[0-9]+ = [a-z].* : .*f32\['); do damage $f $n 's/ : (.*)f32\[([^]]*)\]/ : \1f32[\2,7]/'; refused bad.ir $n 'expected type .*f32\['; done
    for n in $(lines $f '^  %[0-9]+ = [a-z]'); do damage $f $n 's/ = ([a-z])/ = \1q/'; refused bad.ir $n "expected an op, found '[a-z]q"; done
    for n in $(lines $f '^  %[0-9]+ = [a-z_]+ %'); do damage $f $n 's/ %[0-9]+([ ,])/ %99999\1/2'; refused bad.ir $n "expected a value defined above, found %99999"; done
    for n in $(lines $f '^  %[0-9]+ = [a-z_]+ %'); do damage $f $n 's/^(  %)([0-9]+)( = [a-z_]+ %)[0-9]+/\1\2\3\2/'; refused bad.ir $n "expected a value defined above, found %[0-9]+"; done
  done
  for n in $(lines $m.ir '^  %.* at=fixed\+[0-9]+'); do
    for to in fixed+9 fixed+1; do damage $m.ir $n "s/ at=fixed\\+/ at=$to/"; refused bad.ir 0 "%[0-9]+ [a-z_0-9]+ in func '[a-z]+': expected (a place within|an offset that|the place of) "; done
    damage $m.ir $n 's/ at=fixed\+[0-9]+/ at=uniq+0/'; refused bad.ir 0 "%[0-9]+ [a-z_0-9]+ in func '[a-z]+': (doesn't belong into the region 'uniq'|expected the place of )"
  done
done

[ $bad = 0 ] && echo "$count damaged programs were refused"
exit $bad
