#!/usr/bin/env bash
# How long a prediction takes in another program: MODEL_predict of `ctrc --emit=lib`, for 1 and for 64 rows of text, from
# C, on one thread. A Markdown table of µs.
#   bash tests/bench/latency.sh CTRC LOG MODEL.ctr [OPTIONS OF ctrc…]     LOG: without a header line, 1,000 rows or more
#   CALLS=n: calls measured of each (default 20000)
set -eu
ctrc=$(readlink -f "$1") log=$(readlink -f "$2") source=$(readlink -f "$3"); shift 3
here=$(cd "$(dirname "$0")" && pwd) calls=${CALLS:-20000}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cd "$work"
"$ctrc" "$source" "$@" --emit=lib
name=$(basename ./*.h .h)
"$ctrc" "$source" "$@" -o train
./train train --data "$log" --epochs 1 --save ckpt > /dev/null
cc -O2 -DMODEL="$name" -include "$name.h" -I. "$here/latency.c" -L. -l"$name" -Wl,-rpath,"$work" -o latency
echo "| model | rows a call | median | p99 | CPU time, median | p99 |"
echo "|---|---|---|---|---|---|"
for rows in 1 64; do
  read -r p50 p99 cpu50 cpu99 < <(./latency $rows "$calls" ckpt < "$log")
  echo "| $name | $rows | $p50 | $p99 | $cpu50 | $cpu99 |"
done
