#!/usr/bin/env bash
# Programs in batch jobs: told to stop they save and say 75, told to save they go on, two don't save into one directory,
# a full disk costs no checkpoint. And nothing of it costs a byte of the result.
. tests/cli/common.sh.inc
clicks_ctr > clicks.ctr; build clicks clicks.ctr
clicks_csv 4000 > train.csv; clicks_csv 120 4000 > eval.csv
long="train --data train.csv --epochs 100000 --cache memory --json"

# start ARGUMENTS…: in the background, as a shell with job control would: SIGINT isn't ignored
start() { env --default-signal=INT,TERM,USR1 ./clicks "$@" > out 2> err < /dev/null & pid=$!; }
# await TEST…: until it holds, at most 20 s
await() { local n=0; until eval "$*"; do n=$((n + 1)); [ $n -lt 2000 ] || { fail "waited in vain for: $*"; cat err; return; }; sleep 0.01; done; }
# trains [STEP]: what was started with $logged has made the step, or any
logged="--log log.jsonl --log-every 20 --log-norms off"
trains() { await grep -qs "'\"step\":${1-}'" log.jsonl; rm -f log.jsonl; }
# ends CODE: the program started
ends() { wait $pid; local got=$?; [ $got = "$1" ] || { fail "exit code $got, expected $1"; cat err; }; }
step() { sed -n 's/^ *"step": \([0-9]*\),$/\1/p' "$1/state.json"; }
whole() { expect 0 ./clicks eval --data eval.csv --load "$1" --json; quiet; }

# ---- SIGTERM, SIGINT: save and exit with 75 ----
for signal in TERM INT; do
  rm -rf ckpt
  # shellcheck disable=SC2086
  start $long --save ckpt --save-every 50
  await [ -e ckpt/state.json ]; kill -s $signal $pid; ends 75; silent
  says "stopped by SIG$signal after step $(step ckpt), saved to ckpt; --resume goes on"
  whole ckpt; absent ckpt.lock ckpt.tmp
done
# in an evaluation, which is done anew when training goes on
mkfifo slow; sleep 30 > slow & sleeper=$!
rm -rf ckpt
# shellcheck disable=SC2086
{ start train --data train.csv --epochs 1 --save ckpt --eval-data slow $logged --log-every 125; trains 125; kill -INT $pid; ends 75; }
grep -q '"ended": true' ckpt/state.json || fail "stopped while evaluating, but nothing says so"
expect 0 ./clicks train --data train.csv --epochs 2 --save ckpt --eval-data eval.csv --resume --json
prints '"rows":8000,.*"epochs":\[\{"rows":4000,.*"eval_rows":120.*\},\{"rows":4000,.*"eval_rows":120'
expect 0 ./clicks train --data train.csv --epochs 2 --save go; same go/weights.safetensors ckpt/weights.safetensors
# while it waits for rows that don't come
mkfifo rows; { cat train.csv; sleep 30; } > rows & feeder=$!
env --default-signal=TERM ./clicks train --data - --save piped > out 2> err < rows & pid=$!
await [ -e piped.lock ]; sleep 0.1; kill $pid; ends 75; whole piped
# and while nobody has opened the pipe yet that the rows are to come from
mkfifo nobody; env --default-signal=TERM ./clicks train --data nobody --save early > out 2> err < /dev/null & pid=$!
await [ -e early.lock ]; sleep 0.1; kill $pid; ends 75; [ "$(step early)" = 0 ] || fail "step $(step early) without a row"
kill $sleeper $feeder 2> /dev/null; wait $sleeper $feeder 2> /dev/null

# ---- two SIGINTs: at once, the checkpoint stays ----
rm -rf ckpt
# shellcheck disable=SC2086
start $long --save ckpt --save-every 50
await [ -e ckpt/state.json ]; kill -INT $pid; kill -INT $pid 2> /dev/null; wait $pid; code=$?
[ $code = 130 ] || [ $code = 75 ] || fail "two SIGINTs: exit code $code"
whole ckpt

# ---- without --save nothing can be saved: the signals do what they always do ----
# shellcheck disable=SC2086
for signal in TERM:143 INT:130; do
  start $long $logged; trains; kill -s ${signal%:*} $pid; ends ${signal#*:}
done
# shellcheck disable=SC2086
{ start $long $logged; trains; kill -USR1 $pid; await [ -s err ]; says "warning: SIGUSR1 asks to save, but there is no --save"; kill $pid; ends 143; }

# ---- SIGUSR1: save and go on ----
rm -rf ckpt
# shellcheck disable=SC2086
start $long --save ckpt $logged; trains; absent ckpt
kill -USR1 $pid; await [ -e ckpt/state.json ]; first=$(step ckpt)
kill -USR1 $pid; await '[ "$(step ckpt)" -gt $first ]'; mv err err1; mv out out1; whole ckpt; ls -d ckpt/step-* > /dev/null || fail "the one before isn't kept"
kill $pid; ends 75; whole ckpt

# ---- --stop-after ----
rm -rf ckpt
# shellcheck disable=SC2086
{ expect 75 ./clicks $long --save ckpt --stop-after 0.3s; hears "stopped by --stop-after after step "
  first=$(step ckpt); expect 75 ./clicks $long --save ckpt --stop-after 0.005m --resume; [ "$(step ckpt)" -gt "$first" ] || fail "no step in 0.3 s"; }
expect 0 ./clicks train --data train.csv --epochs 1 --save quick --stop-after 1h; quiet
expect 75 ./clicks train --data train.csv --epochs 1 --save none --stop-after 0h; [ "$(step none)" = 0 ] || fail "step $(step none) in no time"

# ---- two programs, one directory ----
rm -rf ckpt
# shellcheck disable=SC2086
{ start $long --save ckpt --save-every 50; await [ -e ckpt/state.json ]; mv err err1; mv out out1
  for name in ckpt ./ckpt/ "$PWD/ckpt"; do
    expect 1 ./clicks train --data train.csv --save "$name"; says "error: cannot save to $name: another program saves there (pid $pid)"; silent
  done; }
kill -KILL $pid; wait $pid 2> /dev/null
expect 0 ./clicks train --data train.csv --save ckpt; quiet; absent ckpt.lock ckpt.tmp # a dead one's lock is none

# ---- disk full: told, training goes on, the last checkpoint stays ----
rm -rf ckpt; expect 0 ./clicks train --data train.csv --save ckpt --steps 30; cp -r ckpt before
(ulimit -f 4; expect 1 ./clicks train --data train.csv --save ckpt --save-every 50 --resume
  sort -o err err # a save beside training is heard of when it has ended
  says "error: cannot write ckpt.tmp/weights.safetensors: file too large
going on from ckpt, after step 30
warning: cannot write ckpt.tmp/weights.safetensors: file too large; training goes on, the checkpoint of step 30 stays
warning: cannot write ckpt.tmp/weights.safetensors: file too large; training goes on, the checkpoint of step 30 stays
warning: training went on in epoch 1: its auc is of the 3040 rows since"; exit $bad) || bad=1
same before/state.json ckpt/state.json; same before/weights.safetensors ckpt/weights.safetensors; absent ckpt.tmp ckpt.lock
rm -rf none
(ulimit -f 4; expect 1 ./clicks train --data train.csv --save none --save-every 100
  says "warning: cannot write none.tmp/weights.safetensors: file too large; training goes on without a checkpoint
error: cannot write none.tmp/weights.safetensors: file too large"; exit $bad) || bad=1
absent none none.tmp none.lock

# ---- earlier checkpoints, and damage ----
rm -rf ckpt; expect 0 ./clicks train --data train.csv --epochs 1 --save ckpt --save-every 25 --keep 3; quiet
[ "$(ls ckpt | tr '\n' ' ')" = "state.json step-100 step-75 weights.safetensors " ] || fail "kept: $(ls ckpt)"
for c in ckpt ckpt/step-75 ckpt/step-100; do whole $c; done
cp -r ckpt sound
# flip FILE OFFSET: one bit of the byte
flip() { printf "\\$(printf '%03o' $(($(od -An -tu1 -j "$2" -N1 "$1") ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
flip ckpt/weights.safetensors $(($(wc -c < ckpt/weights.safetensors) - 5))
for command in "eval --load" "predict --load"; do
  # shellcheck disable=SC2086
  expect 1 ./clicks $command ckpt --data eval.csv; silent
  grep -qE "^error: ckpt/weights.safetensors: damaged: the checksum of tensor 'z.mlp.1.dense.kernel/v' is [0-9a-f]{16}, state.json has [0-9a-f]{16}$" err || { fail "damage isn't told"; cat err; }
  hears "hint: the one before it is whole: ckpt/step-100"
done
expect 1 ./clicks train --data train.csv --epochs 1 --save ckpt --resume; hears "hint: the one before it is whole: --resume=previous goes on from ckpt/step-100"
expect 0 ./clicks train --data train.csv --epochs 1 --save ckpt --resume=previous; hears "going on from ckpt/step-100, after step 100"
same sound/weights.safetensors ckpt/weights.safetensors; whole ckpt
[ "$(ls ckpt | tr '\n' ' ')" = "state.json step-100 weights.safetensors " ] || fail "kept: $(ls ckpt)"
# the one before is damaged as well: the one before that
rm -r ckpt; cp -r sound ckpt; : > ckpt/weights.safetensors; flip ckpt/step-100/state.json 100
expect 1 ./clicks eval --data eval.csv --load ckpt; hears "ckpt/weights.safetensors: not a safetensors file, or cut short"; hears "hint: the one before it is whole: ckpt/step-75"
rm -r ckpt/step-75; expect 1 ./clicks train --data train.csv --save ckpt --resume=previous; says "error: ckpt: neither the checkpoint nor one before it is whole"
rm -r ckpt; cp -r sound ckpt; sed -i 's/"step": 125/"step": 124/' ckpt/state.json
expect 1 ./clicks eval --data eval.csv --load ckpt; grep -qE "^error: ckpt/state.json: damaged: its checksum is [0-9a-f]{16}, it says [0-9a-f]{16}$" err || { fail "damage isn't told"; cat err; }
# an earlier one can be used by name
expect 0 ./clicks train --steps 0 --init-from sound/step-75 --save start; same sound/step-75/weights.safetensors start/weights.safetensors
# all of them; --keep 1: none
expect 0 ./clicks train --data train.csv --epochs 1 --save all --save-every 25 --keep 4294967297; [ "$(ls all | tr '\n' ' ')" = "state.json step-100 step-25 step-50 step-75 weights.safetensors " ] || fail "kept: $(ls all)"
expect 0 ./clicks train --data train.csv --epochs 1 --save one --save-every 25 --keep 1; [ "$(ls one | tr '\n' ' ')" = "state.json weights.safetensors " ] || fail "kept: $(ls one)"

# ---- what a kill between two renames leaves is put right ----
expect 0 ./clicks train --data train.csv --epochs 2 --save two
rm -rf ckpt; cp -r sound ckpt; mkdir ckpt.tmp; mv ckpt/step-75 ckpt.tmp; echo mine > ckpt.tmp/notes # after the exchange
expect 0 ./clicks train --data train.csv --epochs 2 --save ckpt --resume; same two/weights.safetensors ckpt/weights.safetensors; absent ckpt.tmp; [ -s ckpt/notes ] || fail "notes are lost"
for left in "state.json weights.safetensors" state.json; do # inside a directory that can't be replaced, around the renames
  rm -rf ckpt; cp -r sound ckpt; mkdir ckpt/.tmp
  for f in $left; do mv ckpt/$f ckpt/.tmp; done
  expect 0 ./clicks train --data train.csv --epochs 2 --save ckpt --resume; hears "going on from ckpt, after step 125"; same two/weights.safetensors ckpt/weights.safetensors
  absent ckpt/.tmp
done

[ $bad = 0 ] && echo "programs stop, save and go on as batch systems need"
exit $bad
