#!/usr/bin/env bash
# A training that runs for long, of small epochs, with evaluations, saves beside it and a log: its memory must not grow.
# Its resident size is taken ten times a second; behind the first third, by when all that is kept has been met, the
# largest size may not pass the largest of that third by more than 5 % and 4 MB.
#   HOURS=1 bash tests/torture/soak.sh      default: 20 seconds (SECONDS_LONG=n: n seconds)
. tests/cli/common.sh.inc
! ldd "$ctrc" | grep -q asan || { echo "skipped: AddressSanitizer keeps freed memory for a while"; exit 77; }
long=${SECONDS_LONG:-20}
[ -z "${HOURS:-}" ] || long=$(awk -v h="$HOURS" 'BEGIN { printf "%d", h * 3600 }')
clicks_ctr > clicks.ctr; build clicks clicks.ctr -D buckets=2000000
clicks_csv 20000 > train.csv; clicks_csv 2000 20000 > eval.csv
./clicks train --data train.csv --eval-data eval.csv --epochs 100000000 --save ckpt --save-every 500 --keep 2 --log log.jsonl \
  --log-every 1000 --threads 2 --stop-after "${long}s" > out 2> err < /dev/null & pid=$!
rss() { awk '/^VmRSS/ { print $2 }' "/proc/$pid/status" 2> /dev/null; } # kB
early=0 late=0 last=0 n=0 begin=$(date +%s)
# /proc/PID/fd counted as well: a descriptor that is not closed is a leak, too
fds() { ls "/proc/$pid/fd" 2> /dev/null | wc -l; }
most_fds=0
while kill -0 $pid 2> /dev/null; do
  size=$(rss); [ -n "$size" ] || break
  past=$(($(date +%s) - begin)) n=$((n + 1)) last=$size
  if [ $((past * 3)) -lt "$long" ]; then [ "$size" -le $early ] || early=$size
  else [ "$size" -le $late ] || late=$size; fi
  open=$(fds); [ "$open" -le $most_fds ] || most_fds=$open
  sleep 0.1
done
wait $pid; code=$?
[ $code = 75 ] || { fail "exit code $code"; tail -n 5 err; }
[ $n -gt 20 ] || fail "only $n looks at it"
[ "$late" -le $((early + early / 20 + 4096)) ] || fail "memory grows: at most $early kB in the first third, $late kB behind it"
[ "$most_fds" -le 40 ] || fail "$most_fds files open"
epochs=$(grep -c epoch_end log.jsonl)
[ "$epochs" -ge 1 ] || fail "not one epoch"
expect 0 ./clicks eval --data eval.csv --load ckpt --json; quiet
echo "$long s, $epochs epochs, step $(sed -n 's/^ *"step": \([0-9]*\),$/\1/p' ckpt/state.json): at most $early kB in the first third, $late kB behind it, $last kB at the end; at most $most_fds files open"
exit $bad
