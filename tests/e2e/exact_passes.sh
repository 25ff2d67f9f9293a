#!/usr/bin/env bash
# Leaving out any exact pass changes no loss of 20 steps at lr 0.001 by more than 1e-5, relative. Nor does -O0.
. tests/e2e/common.sh.inc
exact=$("$ctrc" --list-passes | awk '/ exact/ { print $1 }' | sort -u)
[ "$(echo "$exact" | wc -l)" -ge 4 ] || fail "--list-passes names fewer than four exact passes: $exact"
for v in uid mid cat; do seq 1000 1300 > "$work/${v}_voc.txt"; done
for m in wdl deepfm dlrm adult bank din; do
  args="-D lr=0.001"; [ $m = din ] && args="$args -D logs=$work"; grep -q 'param buckets' models/$m.ctr && args="$args -D buckets=1000"
  "$ctrc" synth models/$m.ctr $args --rows 12000 --seed 3 -o "$work/log" 2> /dev/null || fail "no log for $m"
  losses() { # losses NAME FLAGS…
    local name=$1; shift
    "$ctrc" models/$m.ctr $args "$@" -o "$work/$m" || fail "$m.ctr does not compile with $*"
    "$work/$m" train --data "$work/log" --no-shuffle --steps 20 --log "$work/$name.jsonl" --log-every 1 > /dev/null || fail "$m $*: training failed"
    sed -n '/"epoch_end"/!s/.*"loss": *\([0-9.eE+-]*\).*/\1/p' "$work/$name.jsonl" > "$work/$name"
    [ "$(wc -l < "$work/$name")" = 20 ] || fail "$m $*: expected 20 losses, found $(wc -l < "$work/$name")"
  }
  losses all
  compare() {
    paste "$work/all" "$work/$1" | awk -v what="$m without $1" '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > worst) worst = d }
      END { printf "%s: largest relative difference %.1e\n", what, worst; exit worst > 1e-5 }' || fail "$m: $1"
  }
  for p in $exact; do losses "$p" --disable="$p"; compare "$p"; done
  losses O0 -O0; compare O0
  losses other -D lr=0.002   # the comparison must be able to fail
  if ( compare other ) > /dev/null; then fail "$m: another lr was not told apart"; fi
done
