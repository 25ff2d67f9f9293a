#!/usr/bin/env bash
# The examples in models/jobs, as far as they run without a cluster: stopped and started again they end as one training.
. tests/cli/common.sh.inc
jobs=$source_dir/models/jobs
clicks_ctr > clicks.ctr; build clicks clicks.ctr
clicks_csv 4000 > train.csv; clicks_csv 120 4000 > eval.csv
expect 0 ./clicks train --data train.csv --epochs 60 --save whole

# ---- Slurm: scontrol notes what it was told ----
mkdir bin; printf '#!/bin/sh\necho "$*" >> %s/requeued\n' "$work" > bin/scontrol; chmod +x bin/scontrol
export PATH=$work/bin:$PATH SLURM_JOB_ID=42 SLURM_CPUS_PER_TASK=2
stops=0
begun() { local i; for i in $(seq 400); do ! grep -q '^epoch' out err || return 0; sleep 0.05; done; } # it trains
for delay in 0 0.1 0.2 60; do
  bash "$jobs/train.slurm" ./clicks train.csv ckpt --epochs 60 > out 2> err < /dev/null & job=$!
  if [ $delay != 60 ]; then begun; sleep $delay; kill -TERM $job 2> /dev/null; fi
  wait $job; code=$?
  [ $code = 0 ] || { fail "train.slurm: exit code $code"; cat out err; }
  grep -q "back into the queue" out || break
  stops=$((stops + 1)); hears "stopped by SIGTERM after step"
done
[ $stops -ge 1 ] || fail "the job was never stopped"
[ "$(grep -c '^requeue 42$' requeued)" = $stops ] || fail "requeued: $(cat requeued)"
same whole/weights.safetensors ckpt/weights.safetensors
[ -s ckpt.jsonl ] || fail "no log"
# told before it has begun, wherever that is: the job goes back into the queue, or ends trained
for delay in 0 0.01 0.02 0.05; do
  rm -rf requeued early; bash "$jobs/train.slurm" ./clicks train.csv early --epochs 60 > out 2> err < /dev/null & job=$!
  until grep -q "$source_dir" "/proc/$job/cmdline" 2> /dev/null; do :; done; sleep $delay; kill -TERM $job 2> /dev/null
  wait $job; code=$?
  # bash itself may end before it has read the trap: then there was no program
  if [ $code = 143 ]; then [ ! -s err ] || fail "told after $delay s: the job ended, the program went on: $(cat err)"
  else [ $code = 0 ] || fail "told after $delay s: exit code $code"; fi
done
# what isn't 75 ends the job: bad data
echo "click,user" > broken.csv; rm requeued
bash "$jobs/train.slurm" ./clicks broken.csv other > out 2> err < /dev/null; code=$?
[ $code = 1 ] || fail "bad data: exit code $code"
absent requeued

# ---- systemd: the unit is one, but for the program that it would start ----
if has systemd-analyze; then
  sed 's|^ExecStart=[^ ]*|ExecStart=/bin/true|' "$jobs/ctr-train@.service" > ctr-train@.service
  systemd-analyze verify "$PWD/ctr-train@.service" > out 2>&1 || fail "systemd-analyze: $(cat out)"
  [ ! -s out ] || fail "systemd-analyze: $(cat out)"
else
  echo "no systemd-analyze: the unit isn't looked at"
fi

# ---- make: interrupted by its limit, then done; nothing is done twice ----
if has make; then
  cut -d, -f2- eval.csv > new.csv
  pipeline() { make -s -f "$jobs/Makefile" OUT=made CTRC="$ctrc" MODEL=clicks.ctr DATA=train.csv EVAL=eval.csv NEW=new.csv TRAIN="--epochs 60" "$@" > out 2> err < /dev/null; }
  ! pipeline LIMIT=0.2s || fail "a limit of 0.2 s doesn't stop it"
  hears "stopped by --stop-after after step"; absent made/trained.json made/predictions.csv
  pipeline || { fail "make:"; cat err; }
  hears "going on from made/checkpoint"; same whole/weights.safetensors made/checkpoint/weights.safetensors
  [ "$(wc -l < made/predictions.csv)" = 121 ] && grep -q '"auc":' made/metrics.json || fail "made: $(ls made)"
  pipeline || fail "make again"; quiet
  sleep 0.01; clicks_csv 200 > train.csv; pipeline TRAIN= || { fail "make with other data:"; cat err; }; quiet
  grep -q '"rows":200,' made/trained.json || fail "other data, but $(cat made/trained.json)"
else
  echo "no make: the Makefile isn't run"
fi
[ $bad = 0 ] && echo "the examples of jobs run"
exit $bad
