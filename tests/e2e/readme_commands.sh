#!/usr/bin/env bash
# What README.md tells a newcomer to do works: the quick start, and the way from one's own CSV to predictions.
. tests/e2e/common.sh.inc
[ "$BUILD" -ef build/release ] || skip "the quick start builds build/release; this run uses $BUILD"
out=$(bash models/quickstart.sh 2>&1) || { echo "$out"; fail "models/quickstart.sh"; }
best=$(echo "$out" | sed -n 's/.*best possible AUC //p' | tail -n 1)
auc=$(echo "$out" | sed -n 's/^auc ctr *//p')
echo "quick start: AUC $auc, best possible $best"
at_least "$best" 0.7 && at_least "$auc" 0.6 || { echo "$out"; fail "the quick start shows no AUC worth seeing"; }

cd "$work"
awk '/^```ctr$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$OLDPWD/README.md" > clicks.ctr
grep -q '^model clicks' clicks.ctr || fail "README.md no longer holds the model 'clicks'"
"$ctrc" check clicks.ctr || fail "check"
"$ctrc" clicks.ctr || fail "compile"
"$ctrc" synth clicks.ctr --rows 5000 -o clicks.csv 2> err || { cat err; fail "synth"; }
"$ctrc" synth clicks.ctr --rows 1000 --seed 2 -o held_out.csv 2> err || { cat err; fail "synth"; }
./clicks train --data clicks.csv --eval-data held_out.csv --save checkpoint > out 2>&1 || { cat out; fail "train"; }
grep -q '^auc ctr' out || { cat out; fail "train shows no AUC"; }
# new.csv: the three rows that README.md shows, without the label
awk '/^time,user/ { inside = 1 } /^```$/ { inside = 0 } inside' "$OLDPWD/README.md" | sed 's/,[^,]*$//' > new.csv
[ "$(wc -l < new.csv)" = 3 ] || fail "README.md's rows were not found"
./clicks predict --data new.csv --load checkpoint -o predictions.csv || fail "predict"
[ "$(wc -l < predictions.csv)" = 2 ] || fail "expected two predictions, found $(wc -l < predictions.csv)"
