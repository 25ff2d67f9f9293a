#!/usr/bin/env bash
# ctrc --static: a program that runs where no library is, with the same results; what info says of libraries; and a
# program for a CPU that this machine hasn't.
. tests/cli/common.sh.inc
clicks_ctr > clicks.ctr; clicks_csv 300 > train.csv

# ---- a CPU that this machine hasn't ----
if grep -qw avx512f /proc/cpuinfo; then echo "this CPU has AVX-512: no program is too much for it here"
else
  build v4 clicks.ctr --march=x86-64-v4
  expect 1 ./v4 train --data train.csv; silent
  says "error: this CPU has no avx512f, the model's code needs it (x86-64-v4)
hint: compile it with a lower --march"
fi

expect 2 "$ctrc" clicks.ctr --static --emit=ir; says "error: --static links a program, --emit makes none"
if ldd "$ctrc" | grep -q asan; then
  expect 1 "$ctrc" clicks.ctr --static -o alone; says "error: --static: sanitizers, which this ctrc was built with, can't be"
  absent alone alone.*; echo "no static program under sanitizers"; exit $bad
fi
printf 'int main(void) { return 0; }\n' > one.c
cc -static one.c -o one -lxxhash -lz -lzstd -ljansson -lm 2> /dev/null || { echo "skipped: no static libraries here"; exit 77; }

build shared clicks.ctr --enable='schedule(products=tile)'
expect 0 "$ctrc" clicks.ctr --static -o alone; quiet; silent
expect 0 ./alone info; prints '^libraries    none, linked statically$'
expect 0 ./alone info --json; prints '"libraries":\[\]'
expect 0 ./shared info; prints '^libraries    .*libjansson\.so.*libc\.so'
expect 0 ./shared info --json; prints '"libraries":\[.*"libjansson.so'
for p in alone shared; do expect 0 ./$p train --data train.csv --epochs 2 --save $p.ckpt --save-every 3 --threads 2; quiet; done
same alone.ckpt/weights.safetensors shared.ckpt/weights.safetensors
gzip -k train.csv
expect 0 ./alone eval --data train.csv.gz --load alone.ckpt; quiet
# a root directory that holds nothing else, where that may be tried; one that holds the libraries of `info` and no others
mkdir root shared.root; cp alone train.csv root; cp shared train.csv shared.root
./shared info --json | sed 's|.*"libraries":\[||; s|\].*||' | tr -d '"' | tr ',' '\n' > libraries
while read -r l; do
  path=$(ldd shared | grep -oE "/[^ ]*/$l( |$)" | head -n 1 | tr -d ' '); [ -n "$path" ] || { fail "where is $l?"; continue; }
  mkdir -p "shared.root/${path%/*}"; cp -L "$path" "shared.root/$path"
done < libraries
if unshare --user --map-root-user true 2> /dev/null; then into="unshare --user --map-root-user chroot"
elif [ "$(id -u)" = 0 ]; then into=chroot
else into=; echo "not tried in a root directory of its own: that needs rights"
fi
if [ -n "$into" ]; then
  expect 0 ./shared train --data train.csv --save one.ckpt
  expect 0 $into root /alone train --data /train.csv --save /ckpt; same root/ckpt/weights.safetensors one.ckpt/weights.safetensors
  expect 0 $into shared.root /shared train --data /train.csv --save /ckpt; same shared.root/ckpt/weights.safetensors one.ckpt/weights.safetensors
  rm shared.root/lib*/*/libjansson*; expect 127 $into shared.root /shared info # it is these that it ran with
fi

# ---- a product that was planned for the library ----
expect 1 "$ctrc" clicks.ctr --static --enable='schedule(products=library)' -o none; absent none none.*
hears "error: --static: a product is planned for oneDNN, which can't be linked statically"
hears "hint: --enable='schedule(products=tile)' generates code for each"
[ $bad = 0 ] && echo "static programs need nothing"
exit $bad
