#!/usr/bin/env bash
# adam(exact = true) on touched rows is a dense adam: 200 steps in which rows come, stay away for 20 steps or 140, and
# come back, with a rate that changes. The dense one is the same program with its tables made plain weights. By the
# interpreter to 1e-9, compiled to 1e-5; a table whose rows are stored as they are met, too.
. tests/e2e/common.sh.inc
replay=$BUILD/tests/replay
[ -x "$replay" ] || fail "the build tree has no $replay"
cd "$work" || exit 1
case $ctrc in /*) ;; *) ctrc=$OLDPWD/$ctrc; quick=$OLDPWD/$quick; replay=$OLDPWD/$replay ;; esac

cat > exact.ctr << 'CTR'
model exact
param rows = 300
input csv() {
  y    label
  user string
  shop string
  seen string list(";", axis = h, max = 4)
}
users = table(rows, 3)
v = concat(embed(hash(user, rows), users), pool(embed(hash(seen, rows), users), mean))
z = dense(v, 1) + dense(onehot(hash(shop, 40)), 1, bias = false, init = zeros)
predict p = sigmoid(z)
loss bce_logits(z, y)
optimizer adam(lr = cosine(0.05, 150), exact = true)
train(batch = 32, epochs = 1)
CTR
# Every 20 steps others: set 0, 1, 0, 2, 0, 1, 0, 3, … so that set 0 comes back soon and set 3 late.
awk 'BEGIN {
  for (i = 0; i < 6400; i++) {
    era = int(i / 640); set = era % 2 == 0 ? 0 : era % 4 == 1 ? 1 : era == 3 ? 2 : 3
    u = i * 7919 % 23; v = i * 104729 % 19; s = i * 31 % 5; h = (i * 48271 + 12345) % 1000
    printf "%d,u%d_%d,s%d_%d,%s\n", h < 200 + 25 * u, set, u, set, s, v % 4 ? "u" set "_" v ";u" set "_" u : ""
  }
  for (set = 0; set < 5; set++) for (u = 0; u < 23; u++) printf "0,u%d_%d,s%d_%d,\n", set, u, set, u % 5 > "all"
}' > log

# differs NAME A B: the largest relative difference of two columns of numbers
differs() {
  paste "$2" "$3" | awk '{ d = $1 - $2; s = $1 < 0 ? -$1 : $1; if (d < 0) d = -d; if (s > 1e-3) d /= s
                           if (d > worst) worst = d; if (NF != 2) bad = 1 } END { printf "%.3e\n", bad ? 1 : worst }'
}
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }

for rows in 300 1100000; do
  "$ctrc" exact.ctr -D rows=$rows --emit=ir --print-before=simplify > exact.ir 2> /dev/null
  awk '/^ctrc-ir / && n++ { exit } { print }' exact.ir > first.ir; mv first.ir exact.ir
  sed '/^weight /s/ table\| lazy//g; /^optimizer /s/ exact//' exact.ir > dense.ir
  sed '/^optimizer /s/ exact//' exact.ir > lazy.ir
  grep -q '^weight .* lazy' exact.ir && ! grep -q '^weight .* lazy' dense.ir || fail "$rows rows: the tables weren't made plain weights"
  "$ctrc" dense.ir --emit=ir -o whole.ir && ! grep -qE '= update_(rows|touched) ' whole.ir || fail "$rows rows: the dense program updates by row"
  for m in exact dense lazy; do
    "$quick" $m.ir -o $m || fail "$m.ir with $rows rows does not compile"
    ./$m train --data log --no-shuffle --steps 0 --save start.$m > /dev/null || fail "$m: nothing saved"
    ./$m train --data log --no-shuffle --log $m.jsonl --log-every 1 --save end > /dev/null || fail "$m: training failed"
    sed -n '/"epoch_end"/!s/.*"loss": *\([0-9.eE+-]*\).*/\1/p' $m.jsonl > $m.losses
    [ "$(wc -l < $m.losses)" = 200 ] || fail "$m: $(wc -l < $m.losses) losses"
    ./$m predict --data all --load end > $m.p || fail "$m: no predictions"
    [ $rows = 300 ] || continue
    "$replay" $m.ir --data log --load start.exact --steps 200 > $m.exactly || fail "$m: no replay"
  done
  d=$(differs losses dense.losses exact.losses) p=$(differs predictions dense.p exact.p)
  echo "$rows rows, compiled: losses differ by $d, predictions by $p"
  below "$d" 1e-5 && below "$p" 1e-5 || fail "exact isn't dense"
  d=$(differs losses dense.losses lazy.losses)
  below 1e-4 "$d" || fail "lazy adam's losses differ by $d only: rows don't come and go"
  [ $rows = 300 ] || continue
  d=$(differs losses dense.exactly exact.exactly)
  echo "$rows rows, interpreter: losses differ by $d"
  below "$d" 1e-9 || fail "exact isn't dense"
done
