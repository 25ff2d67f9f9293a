#!/usr/bin/env bash
# Every call of the functions that read data and write checkpoints, and of malloc, fails once, and once with all calls
# after it: the training before and what it saved is never lost, a failure is told, and going on without faults ends in
# the same bytes.
# CTRC_FAULTS=all: every call; else some, beginning elsewhere for each function. FUNCTIONS="read write": only these.
# PART=1/2, PART=2/2: every other call, for two runs beside each other. So are FAILS=once, FAILS=on, and HOW=beside (the
# checkpoint's directory is replaced), HOW=inside (it is a link, so its files are).
. tests/cli/common.sh.inc
! ldd "$ctrc" | grep -q asan || { echo "not under AddressSanitizer, which must be preloaded first"; exit 77; }
cc -shared -fPIC -O1 -o faults.so "$source_dir/tests/torture/faults.c" || { echo "FAILED: no faults.so"; exit 1; }
clicks_ctr > clicks.ctr; build clicks clicks.ctr
clicks_csv 640 > train.csv; clicks_csv 60 640 > eval.csv
train="train --data train.csv --epochs 2 --save-every 12 --keep 3 --resume"
# shellcheck disable=SC2086
expect 0 ./clicks $train --save whole
expect 0 ./clicks train --data train.csv --epochs 2 --steps 5 --save before
# a thread that cannot be made for want of memory: EAGAIN
told_by="[Ii]nput/output error|[Oo]ut of memory|[Cc]annot allocate memory|cannot start .*thread.*: resource temporarily unavailable"
faults=0 told=0 again=0 wrong=0 part=${PART:-1/1}
declare -A known
# untouched: what stood there before, to the byte, is all there is; or a lock that nobody holds is left beside it, too.
# What comes of each of these was looked at the first time: eval and going on see nothing else of the training before.
untouched() {
  diff -rq before ckpt > /dev/null || return 1
  local left=("$how" ckpt.* target.*); left="${left[*]}"
  [[ $left != *.tmp* ]] || return 1
  [ -z "${known[$left]:-}" ] || return 0
  known[$left]=1; return 1
}
# try FUNCTION CALL [FAULT_ON=1]: whether there was such a call
try() {
  local code
  rm -rf ckpt ckpt.* target target.* count
  if [ $how = beside ]; then cp -r before ckpt; else cp -r before target; ln -s target ckpt; fi
  # shellcheck disable=SC2086
  env FAULT="$1" FAULT_AT="$2" ${3:-} FAULT_COUNT=count LD_PRELOAD=./faults.so ./clicks $train --save ckpt > out 2> err < /dev/null; code=$?
  [ $code != 0 ] || [ "$(od -An -t d8 count | tr -d ' ')" -ge "$2" ] || return 1
  faults=$((faults + 1)); [ $bad = 0 ] || { wrong=$((wrong + 1)); bad=0; }
  [ $code = 0 ] || [ $code = 1 ] || { fail "$*: exit code $code"; cat err; }
  [ $code = 0 ] || { told=$((told + 1)); [[ $(< err) =~ $told_by ]] || { fail "$*: not told"; cat err; }; }
  ! untouched || return 0
  again=$((again + 1))
  # whole, unless a replacement inside the directory broke off: then the next training puts it right
  if [ -e ckpt/state.json ]; then expect 0 ./clicks eval --data eval.csv --load ckpt --json
  elif [ ! -e ckpt/.tmp/state.json ]; then fail "$*: the checkpoint is lost"; ls -aR ckpt; fi
  # shellcheck disable=SC2086
  expect 0 ./clicks $train --save ckpt
  hears "going on from ckpt, after step"; same whole/weights.safetensors ckpt/weights.safetensors
  absent ckpt.tmp ckpt/.tmp
}
for how in ${HOW:-beside inside}; do
  first=1
  for function in ${FUNCTIONS:-fork fsync rename renameat2 mkdir link unlink fopen fwrite fflush read write mmap malloc}; do
    each=7; case $function in fwrite) each=211 ;; malloc) each=631 ;; esac
    [ "${CTRC_FAULTS:-}" != all ] || { each=1; first=1; }
    each=$((each * ${part#*/})) from=$((first + ${part%/*} - 1))
    for fails in ${FAILS:-once on}; do
      on=; [ $fails = once ] || on=FAULT_ON=1
      for ((k = from; wrong < 20; k += each)); do try $function $k $on || break; done
    done
    first=$((first % 7 + 1))
  done
done
[ $wrong = 0 ] || bad=1
[ $faults -gt 40 ] || [ -n "${FUNCTIONS:-}" ] || fail "only $faults faults"
echo "$faults faults, $told of them ended the program with a message; $again times there was something to go on from that hadn't been seen yet"
exit $bad
