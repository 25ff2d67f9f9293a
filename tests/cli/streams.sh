#!/usr/bin/env bash
# Programs started without stdin, stdout or stderr, as batch systems may: no file that they open takes the place of one.
# And programs that are killed: no part of an output file stays.
. tests/cli/common.sh.inc
clicks_ctr > clicks.ctr; build clicks clicks.ctr
clicks_csv 600 > train.csv
expect 0 ./clicks train --data train.csv --save ckpt; quiet
expect 0 ./clicks predict --data train.csv --load ckpt -o all.csv

# ---- closed ones ----
# closed CODE STREAMS ARGUMENTS…: without these (0, 1, 2), what is left of them in out and err
closed() {
  local code=$1 which=$2 got; shift 2
  ( case $which in *1*) exec >&- ;; *) exec > out ;; esac
    case $which in *2*) exec 2>&- ;; *) exec 2> err ;; esac
    case $which in *0*) exec <&- ;; esac
    timeout 120 "$@" ); got=$?
  [ $got = "$code" ] || fail "without $which: $*: exit code $got, expected $code"
}
for command in "train" "check" "predict --load ckpt" "eval --load ckpt"; do
  # shellcheck disable=SC2086
  closed 1 0 ./clicks $command --data -; says "<stdin>: error: cannot read: bad file descriptor"
  # shellcheck disable=SC2086
  closed 1 1 ./clicks $command --data train.csv; says "error: cannot write to stdout: bad file descriptor"
done
for which in 1 2 12 012; do
  rm -rf without; code=1; [ $which != 2 ] || code=0 # the summary cannot be written, all else is
  closed $code $which ./clicks train --data train.csv --save without --save-every 5 --log log.jsonl; same ckpt/weights.safetensors without/weights.safetensors
  expect 0 ./clicks eval --data train.csv --load without; quiet
  ! grep -v '^{' log.jsonl || fail "something else in the log"
  closed 0 $which ./clicks predict --data train.csv --load ckpt -o p.csv; same all.csv p.csv
  closed 0 $which "$quick" clicks.ctr -o other; same clicks other
done

# ---- killed ----
mkfifo rows
for signal in TERM KILL; do
  ./clicks predict --data rows --load ckpt -o killed.csv 2> err & pid=$!
  exec 3> rows; head -n 100 train.csv >&3
  for ((try = 0; try < 200; try++)); do ls -l "/proc/$pid/fd" | grep -q 'killed.csv\|(deleted)' && break; sleep 0.05; done
  [ $try -lt 200 ] || fail "no output file was opened"
  named=$(ls killed.csv.* 2> /dev/null)
  kill -$signal $pid; wait $pid 2> /dev/null
  exec 3>&-
  if [ -n "$named" ]; then echo "a file without a name isn't known to this file system: what is left of a killed program isn't looked for"; rm -f killed.csv.*
  else absent killed.csv killed.csv.*; fi
done
exit $bad
