#!/usr/bin/env bash
# The compiler's outputs on a full disk: told, with exit code 1, and no half file is left; a file that was there stays.
. tests/cli/common.sh.inc

cat > m.ctr << 'CTR'
model m
input csv() { y label; u string }
z = dense(embed(hash(u, 5000), table(5000, 4)), 1)
predict p = sigmoid(z)
loss bce_logits(z, y)
optimizer sgd(lr = 0.1)
CTR

# told FILE REASON: of outputs that the driver writes, and of those that LLVM gives
told() {
  for kind in ir plan dot; do expect 1 "$ctrc" m.ctr --emit=$kind -o "$1"; says "error: can't write '$1': $2"; silent; done
  for kind in llvm asm obj; do expect 1 "$ctrc" m.ctr --emit=$kind -o "$1"; says "error: can't write the output: $2"; silent; done
}
# nothing_left: in ./disk but the file that was there
nothing_left() { [ "$(ls -A disk)" = old ] && [ "$(cat disk/old)" = old ] || fail "left behind: $(ls -A disk)"; }

mkdir disk; echo old > disk/old
if [ -w /dev/full ]; then
  told /dev/full "No space left on device"
  for command in "m.ctr --emit=ast" "m.ctr --emit=ir" "m.ctr --emit=obj" "check m.ctr --print-after=fuse" "--help" "--list-passes"; do
    # shellcheck disable=SC2086
    "$ctrc" $command > /dev/full 2> err; [ $? = 1 ] || fail "$command: a full disk behind stdout goes unnoticed"
    hears "No space left on device"
  done
fi
# a limit on the size of files is a disk that is full for one file, and needs no rights
(ulimit -f 1
  for to in disk/new disk/old; do
    told $to "File too large"
    expect 1 "$ctrc" m.ctr -o $to; says "error: can't write the output: File too large"
    expect 1 "$ctrc" synth m.ctr --rows 1000 -o $to; says "error: can't write '$to': File too large"; silent
  done
  exit $bad) || bad=1
nothing_left
expect 0 "$ctrc" m.ctr --emit=obj -o m.o
(ulimit -f $(($(wc -c < m.o) / 1024 + 8)) # the object fits, the program doesn't: the linker says why
  expect 1 "$ctrc" m.ctr -o disk/old; hears "error: 'cc' could not link the program (its messages stand above)"
  exit $bad) || bad=1
nothing_left
[ $bad = 0 ] && echo "a full disk leaves no half file"
exit $bad
