#!/usr/bin/env bash
# Kills training at random moments, mostly while it saves, and lets it go on: the checkpoint is whole after each kill, and
# the end has the bytes of training in one go. CTRC_KILLS: how many (default 30). CTRC_KILL_SEED: which moments.
. tests/cli/common.sh.inc
kills=${CTRC_KILLS:-30}
RANDOM=${CTRC_KILL_SEED:-1}
clicks_ctr > clicks.ctr; build clicks clicks.ctr; build large clicks.ctr -D buckets=2000000
mkdir data; clicks_csv 1500 > data/a.csv; clicks_csv 1500 1500 | gzip > data/b.csv.gz
mkdir target

done=0 runs=0 again=0 begun=0
# until_done PROGRAM DIR: kills it and lets it go on until it has come to its end
until_done() {
  local program=$1 dir=$2 code before=-1 step most=$((done + kills / 4 + 1))
  while :; do
    ./"$program" train --data data --epochs 2 --save "$dir" --save-every $((RANDOM % 4 * 3 + 1)) --resume --threads $((RANDOM % 3 + 1)) > out 2> err < /dev/null & local pid=$!
    if [ $done -lt "$kills" ] && [ $done -lt "$most" ]; then
      sleep "0.0$((RANDOM % 9))$((RANDOM % 10))"
      kill -KILL $pid 2> /dev/null
    fi
    wait $pid 2> /dev/null; code=$?
    [ $code != 0 ] || return
    [ $code = 137 ] || { fail "exit code $code"; cat err; return; }
    done=$((done + 1))
    [ -e "$dir/state.json" ] || { begun=$((begun + 1)); continue; }
    again=$((again + 1))
    expect 0 ./"$program" eval --data data/a.csv --load "$dir" --json; quiet
    step=$(sed -n 's/^ *"step": \([0-9]*\),$/\1/p' "$dir/state.json")
    [ "$step" -ge "$before" ] || fail "step $step after step $before"
    before=$step
    [ $bad = 0 ] || return
  done
}
for program in clicks large; do expect 0 ./$program train --data data --epochs 2 --save whole_$program; done
while [ $done -lt "$kills" ] && [ $bad = 0 ]; do
  # in turn: small and large tables; a directory that is replaced as a whole, and one that cannot be (a link)
  program=clicks; [ $((runs % 2)) = 0 ] || program=large
  rm -rf target ckpt ckpt.*
  [ $((runs / 2 % 2)) = 0 ] || { mkdir target; ln -s target ckpt; }
  until_done $program ckpt
  same whole_$program/weights.safetensors ckpt/weights.safetensors
  left=$(ls -A ckpt | grep -v '^step-[0-9]*$' | tr '\n' ' '); [ "$left" = "state.json weights.safetensors " ] || fail "left behind: $left"
  absent ckpt.tmp ckpt.lock target.lock target.tmp
  runs=$((runs + 1))
done
echo "$done kills in $runs trainings, $begun before the first checkpoint, $again with a whole one after it"
exit $bad
