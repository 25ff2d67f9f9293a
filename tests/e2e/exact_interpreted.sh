#!/usr/bin/env bash
# Every exact pass, left out of every model: the reference interpreter, in double precision, finds the same losses,
# metrics and trained weights to 1e-9 after three steps. So does -O0.
. tests/e2e/common.sh.inc
replay=$BUILD/tests/replay
[ -x "$replay" ] || fail "the build tree has no $replay"
exact=$("$ctrc" --list-passes | awk '/ exact/ { print $1 }' | sort -u)
[ "$(echo "$exact" | wc -l)" -ge 5 ] || fail "--list-passes names fewer than five exact passes: $exact"

# Without the norms of gradients: l2 of rows that the step leaves alone counts in them or doesn't, by what updates.
numbers() { sed 's/"gradients".*}//' "$1" | grep -oE '[:-] *-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?[,}]' | tr -d ':,} '; }
# far A B: how far the numbers of two replays are from each other, relative; 1 if they don't pair
far() {
  paste <(numbers "$1") <(numbers "$2") | awk '
    NF != 2 { worst = 1 }
    { d = $1 - $2; if (d < 0) d = -d; s = $1 < 0 ? -$1 : $1; if (s > 1e-9) d /= s; if (d > worst) worst = d }
    END { printf "%.1e\n", NR < 4 ? 1 : worst }'
}
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }

# one MODEL OPTIONS…: prints the worst of all passes
one() {
  local file=$1 m=$(basename "$1" .ctr) dir worst=0 d p
  shift; dir=$work/$m; mkdir -p "$dir"
  "$ctrc" synth "$file" "$@" --rows 40 --seed 5 -o "$dir/log" > /dev/null || fail "no log for $m"
  run() { "$replay" "$file" "$@" --data "$dir/log" --steps 3 --json; }
  run "$@" > "$dir/all" || fail "$m: no replay"
  for p in $exact; do
    run "$@" --disable="$p" > "$dir/less" || fail "$m: no replay without $p"
    d=$(far "$dir/all" "$dir/less")
    below "$d" 1e-9 || fail "$m without $p: results differ by $d"
    below "$d" "$worst" || worst=$d
  done
  run "$@" -O0 > "$dir/less" || fail "$m: no replay at -O0"
  d=$(far "$dir/all" "$dir/less")
  below "$d" 1e-9 || fail "$m at -O0: results differ by $d"
  below "$d" "$worst" || worst=$d
  echo "$m $* : $worst"
}

n=0
for f in models/*.ctr models/papers/*.ctr; do
  grep -q '^model ' "$f" || continue # imported by others
  # shellcheck disable=SC2046
  one "$f" $(small "$f" 60) -D batch=16
  n=$((n + 1))
done
[ $n -ge 29 ] || fail "only $n models were compared"
# the comparison must be able to fail
"$replay" models/wdl.ctr -D buckets=60 -D batch=16 -D lr=0.0011 --data "$work/wdl/log" --steps 3 --json > "$work/other"
below 1e-7 "$(far "$work/wdl/all" "$work/other")" || fail "another lr was not told apart"
