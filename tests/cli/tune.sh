#!/usr/bin/env bash
# ctrc --tune-kernels: figures are measured and kept, -O2 chooses by them and nothing else does; the plan, `info`, IR and
# checkpoints say what was chosen; a program made so computes the same up to rounding. What was measured decides nothing
# here: where a choice is asked for, the table is written by hand.
. tests/cli/common.sh.inc
clicks_ctr > clicks.ctr
clicks_csv 2000 > train.csv
export CTRC_TUNE_ROUNDS=1
table() { echo cache/ctrc/products-*.json; }
# figures NAME TILE LIBRARY …: of products by name; of all others 90 and 60
figures() {
  awk -v given="$*" '
    BEGIN { n = split(given, word, "|") ; for (i = 1; i <= n; i++) { split(word[i], part, ":"); tile[part[1]] = part[2]; library[part[1]] = part[3] } }
    /": \{$/ && !/"products"/ { name = $0; sub(/^ *"/, "", name); sub(/,.*/, "", name) }
    /"tile":/ { sub(/: .*/, ": " (name in tile ? tile[name] : 90) ",") }
    /"library":/ { sub(/: .*/, ": " (name in library ? library[name] : 60)) }
    { print }' measured.json > "$(table)"
}
tuned() { expect 0 "$ctrc" "$@"; }

# ---- wrong usage ----
expect 2 "$ctrc" clicks.ctr --tune-kernels --march=x86-64-v3
says "error: --tune-kernels measures this CPU, --march=x86-64-v3 makes a program for another
hint: leave one of the two out"
expect 2 "$ctrc" clicks.ctr --tune-kernels -O1
says "error: --tune-kernels needs -O2: below it kernels are chosen by a rule, not by measured costs"
expect 2 "$ctrc" clicks.ctr --tune-kernels --static
says "error: --static generates all products: --tune-kernels has nothing to choose"
expect 2 "$ctrc" clicks.ctr --tune-kernels --emit=ast
says "error: --emit=ast makes no products that --tune-kernels could measure"
expect 2 "$ctrc" check clicks.ctr --tune-kernels; says "error: --tune-kernels is no option for check
hint: ctrc --help says which option goes where"
for n in x 0 1001 1.5 '' -1; do
  expect 1 env CTRC_TUNE_ROUNDS="$n" "$ctrc" clicks.ctr --tune-kernels
  says "error: CTRC_TUNE_ROUNDS: expected a whole number from 1 to 1000, found '$n'"
done
for place in /dev/null/none ''; do
  expect 1 env XDG_CACHE_HOME="$place" HOME='' "$ctrc" clicks.ctr --tune-kernels
  says "error: --tune-kernels has no folder to keep its figures in
hint: it is \$XDG_CACHE_HOME/ctrc, or ~/.cache/ctrc"
done
absent clicks cache/ctrc/products-*.json

# ---- without a table ----
tuned clicks.ctr --emit=plan; cp out plain.plan; quiet
! grep -qE '^  (not )?measured|^products:' plain.plan || fail "a plan without a table tells of measured products"
build plain clicks.ctr
tuned clicks.ctr --emit=ir -o plain.ir

# ---- measuring ----
tuned clicks.ctr --tune-kernels -o first; silent
grep -qxE "measured 7 products in [0-9.]+ s, kept in $work/$(table)" err || { fail "not told what was measured"; cat err; }
grep -qxE 'kernels: (schedule\(.*\)|as without measuring, none is better)' err || { fail "not told what was chosen"; cat err; }
[ "$(wc -l < err)" = 2 ] || { fail "more is told"; cat err; }
[ -x first ] || fail "no program was made"
[ "$(ls cache/ctrc | grep -vc '^rates-')" = 1 ] || fail "more than the table is left: $(ls cache/ctrc)"
cp "$(table)" measured.json
grep -oE '"[^"]+ rows[^"]*"' measured.json | sort > found
sort > want << 'END'
"9x16, 32 of 32 rows, epilogue"
"16x8, 32 of 32 rows, epilogue"
"1x8t, 32 of 32 rows, epilogue"
"8x16t, 32 of 32 rows, epilogue"
"16x9t, 32 of 32 rows"
"dW 16x8, 32 rows"
"dW 9x16, 32 rows"
END
diff want found || fail "other products were measured"
tuned clicks.ctr --tune-kernels --emit=plan; cp out again.plan
grep -qE '^measured [0-9]+ products in ' err || fail "not measured anew"
[ "$(grep -c '": {$' "$(table)")" = "$(grep -c '": {$' measured.json)" ] || fail "the table grew"
tuned clicks.ctr --tune-kernels -D batch=64 --emit=plan
[ "$(grep -c '": {$' "$(table)")" -gt "$(grep -c '": {$' measured.json)" ] || fail "products of another batch aren't kept beside"

# ---- without a linker, or with one that makes nothing of use: nothing is measured, nothing is left behind ----
mkdir fake; printf '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho junk > "$2"\n' > fake/cc; chmod +x fake/cc
cp -r cache before
expect 1 env PATH="$work/fake:$PATH" "$ctrc" clicks.ctr --tune-kernels --emit=plan; hears "error: can't load what is to be measured: "
expect 1 env PATH=/nonexistent "$ctrc" clicks.ctr --tune-kernels --emit=plan; hears "error: cannot find 'cc', which links the program"
diff -r cache before || fail "a failure leaves something behind in the cache folder"

# ---- choosing: 'dW 16x8' is twice as fast by the library, '16x8' not by a tenth, 'dW 9x16' not by a fifth ----
chosen='schedule(library=dW 16x8)'
figures 'dW 16x8:40:80.25|16x8:90:98|dW 9x16:90:107'
tuned clicks.ctr --emit=plan; quiet; cp out tuned.plan
sed -n '/^func train/,/^$/s/^  measured: //p' tuned.plan > found
cat > want << 'END'
9x16, 32 of 32 rows, epilogue: tile 90.0 GFLOP/s, library 60.0: tile
16x8, 32 of 32 rows, epilogue: tile 90.0 GFLOP/s, library 98.0: tile, as the library isn't a tenth faster
1x8t, 32 of 32 rows, epilogue: tile 90.0 GFLOP/s, library 60.0: tile
8x16t, 32 of 32 rows, epilogue: tile 90.0 GFLOP/s, library 60.0: tile
16x9t, 32 of 32 rows: tile 90.0 GFLOP/s, library 60.0: tile
dW 9x16, 32 rows: tile 90.0 GFLOP/s, library 107.0: tile, as the library isn't a fifth faster
dW 16x8, 32 rows: tile 40.0 GFLOP/s, library 80.2: library
END
diff want found || fail "the plan tells other products"
tail -n 1 tuned.plan > found; echo "products: measured on this $(basename "$(table)" | cut -d- -f2), kept in $work/$(table)" > want
diff want found || fail "the plan doesn't tell where figures are kept"
grep -E '^ *[0-9]+ +[0-9]+ +tiles/1 +library ' tuned.plan | grep -q 'dW 16x8' || fail "the plan's kernel of dW 16x8 isn't the library"
prints '^  library: fewer columns than a vector, measured to be faster, or asked for by schedule.s arguments$'
grep -v '^products:' tuned.plan | grep -v '^  measured' > rest.plan
[ "$(grep -c ' library ' rest.plan)" = 1 ] || fail "other products than dW 16x8 go to the library"

# ---- what the program, its IR and its checkpoints say ----
build tuned clicks.ctr; quiet
expect 0 ./tuned info; prints "^passes .*, schedule\\(library=dW 16x8\\), plan-memory\$"
expect 0 ./plain info; prints "^passes .*, schedule, plan-memory\$"
tuned clicks.ctr --emit=ir -o tuned.ir
grep -qxF "applied \"$chosen\"" tuned.ir || fail "the IR doesn't say what was chosen"
tuned tuned.ir --emit=plan; cmp -s out tuned.plan || fail "the plan of the .ir file is another one"
expect 0 ./plain train --data train.csv --epochs 1 --save plain.ckpt --json; cp out plain.json
expect 0 ./tuned train --data train.csv --epochs 1 --save tuned.ckpt --json; cp out tuned.json
expect 1 ./tuned train --data train.csv --save plain.ckpt --resume --epochs 2; hears "pass '$chosen' here, not in the checkpoint"

# ---- the same up to rounding: every loss and metric ----
values() { grep -oE '"(loss|auc|logloss|total|ctr|rate)[^"]*": *-?[0-9.eE+-]+' "$1" | tr -d ' "' ; }
values plain.json > a; values tuned.json > b
[ "$(wc -l < a)" -ge 3 ] || { fail "few values to compare"; cat plain.json; }
paste -d: a b | awk -F: '$1 != $3 { print "other values"; exit 1 } { d = $2 - $4; if (d < 0) d = -d; if (!(d <= 1e-4 * ($2 < 0 ? -$2 : $2))) { print; bad = 1 } } END { exit bad }' ||
  fail "training differs by more than rounding"
# at any number of threads the same bits
for n in 1 2 3; do expect 0 ./tuned train --data train.csv --epochs 1 --threads $n --save t$n; done
same t1/weights.safetensors t2/weights.safetensors; same t1/weights.safetensors t3/weights.safetensors

# ---- where the table doesn't count ----
tuned clicks.ctr -O1 --emit=ir -o o1.ir; ! grep -qF "$chosen" o1.ir || fail "-O1 chooses by measured costs"
tuned clicks.ctr --march=x86-64-v3 --emit=plan; ! grep -qE 'measured: |^products:' out || fail "another CPU's plan uses this one's costs"
tuned clicks.ctr --enable='schedule(products=tile)' --emit=ir -o tile.ir; ! grep -qF "library=" tile.ir || fail "products=tile isn't obeyed"
tuned clicks.ctr --enable='schedule(tile=dW 16x8)' --emit=plan
prints '^  measured: dW 16x8, .*: tile, by schedule.s arguments or weighed with the other products$'
tuned clicks.ctr --tune-kernels --enable='schedule(tile=9x16|16x8|1x8t|8x16t|16x9t|dW 9x16, library=dW 16x8)' --emit=plan
hears 'kernels: schedule(tile=9x16|16x8|1x8t|8x16t|16x9t|dW 9x16,library=dW 16x8)'
figures 'dW 16x8:40:80.25|16x8:90:98' # again
tuned clicks.ctr -D batch=16 --emit=plan; prints '^  not measured: dW 16x8, 16 rows: tile$'
tuned clicks.ctr --tune-kernels --enable='schedule(products=tile)' --emit=plan
says "warning: --tune-kernels measured nothing: no product's kernel is left to choose
hint: an .ir file that schedule has run on has them, and schedule(products=…) says them"
tuned tuned.ir --tune-kernels --emit=plan; hears "warning: --tune-kernels measured nothing"

# ---- written into the command, the choice needs no table ----
damaged=$work/$(table); mv "$damaged" kept.json
tuned clicks.ctr --enable='schedule(library=dW 16x8)' --emit=ir; cmp -s out tuned.ir || fail "schedule(library=…) isn't what the table led to"

# ---- a damaged table is told of, and not used ----
head -c 100 kept.json > "$damaged"
tuned clicks.ctr --emit=plan; hears "warning: the table of products '$damaged' isn't used: line "; hears "hint: ctrc --tune-kernels measures anew"
cmp -s out plain.plan || fail "a damaged table changes the plan"
sed 's/"ctrc": "[^"]*"/"ctrc": "0.0.1"/' kept.json > "$damaged"
tuned clicks.ctr --emit=plan; hears "isn't used: ctrc 0.0.1 measured it, this is ctrc "
cmp -s out plain.plan || fail "another version's table changes the plan"
tuned clicks.ctr --tune-kernels --emit=plan; hears "isn't used: ctrc 0.0.1 measured it"; hears "measured 7 products in "
tuned clicks.ctr --emit=plan; quiet; prints '^  measured: dW 16x8, 32 rows: tile '

exit $bad
