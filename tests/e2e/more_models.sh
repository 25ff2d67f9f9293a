#!/usr/bin/env bash
# The models beyond the reference ones: all pass the compiler's passes, in each of their forms; those of models/papers,
# DIN, DIEN (with its gru, and with sru for it) and MMoE give the interpreter's losses for a few steps, and three
# papers' do better than logistic regression.
. tests/e2e/common.sh.inc
replay=$BUILD/tests/replay
[ -x "$replay" ] || fail "the build tree has no $replay"

# ---- every form of every model, up to the plan of its kernels ----
planned() {
  "$ctrc" "models/$1" "${@:2}" --emit=plan > "$work/plan" || fail "$1 does not compile with ${*:2}"
  [ "$(wc -l < "$work/plan")" -gt 20 ] || fail "$1: a plan of $(wc -l < "$work/plan") lines"
}
for m in mmoe census_mmoe criteo_deepfm criteo_dlrm criteo_dcnv2; do planned $m.ctr; done
planned criteo_dcnv2.ctr -D structure=stacked
planned papers/fibinet.ctr -D matrix=all
planned papers/fibinet.ctr -D matrix=interaction
planned papers/pnn.ctr -D product=outer
planned papers/masknet.ctr -D structure=serial
planned papers/autoint.ctr -D deep=false
for v in uid mid cat; do { echo default; seq 400; } > "$work/${v}_voc.txt"; done
planned papers/bst.ctr -D logs="$work" -D blocks=2 -D heads=1
planned papers/bst.ctr -D logs="$work" --march=x86-64-v4

# ---- compiled against interpreted: the losses of three steps, relative 1e-4 ----
agrees() { # [asked=--enable=PASS] agrees MODEL.ctr OPTIONS…
  local file=$1 m=$(basename "$1" .ctr)${asked:-} args="${*:2} -D batch=32"
  local dir=$work/$m
  mkdir -p "$dir"
  "$quick" $file $args ${asked:-} -o "$dir/m" || fail "$m.ctr does not compile"
  "$ctrc" synth $file $args --rows 96 --seed 4 -o "$dir/log" > /dev/null || fail "no log for $m"
  "$dir/m" train --data "$dir/log" --no-shuffle --epochs 1 --log "$dir/jsonl" --log-every 1 > /dev/null || fail "$m: training failed"
  "$dir/m" train --data "$dir/log" --no-shuffle --steps 0 --save "$dir/start" > /dev/null || fail "$m: nothing saved"
  sed -n '/"epoch_end"/!s/.*"loss": *\([0-9.eE+-]*\).*/\1/p' "$dir/jsonl" > "$dir/ours"
  "$replay" $file $args ${asked:-} --data "$dir/log" --load "$dir/start" --steps 3 > "$dir/theirs" || fail "$m: no replay"
  paste "$dir/ours" "$dir/theirs" | awk -v name="$m" '
    { d = ($1 - $2) / $2; if (d < 0) d = -d; if (d > worst) worst = d; if (NF == 2) n++ }
    END { printf "%s: %d steps, largest relative difference %.1e\n", name, n, worst; exit n != 3 || worst > 1e-4 }' ||
    { paste "$dir/ours" "$dir/theirs"; fail "$m: compiled and interpreted losses"; }
}
# Two at once.
n=0; running=0
for f in models/papers/*.ctr models/din.ctr models/dien.ctr models/mmoe.ctr; do
  m=$(basename "$f" .ctr)
  [ "$m" = columns ] && continue   # imported
  case $f in models/papers/bst.ctr) options=$(small $f) ;; models/papers/*) options="-D buckets=60" ;; *) options=$(small $f) ;; esac
  agrees $f $options 2> "$work/$m.err" &
  n=$((n + 1)); running=$((running + 1))
  [ $running -lt 2 ] || { wait -n || { cat "$work"/*.err; fail "see above"; }; running=1; }
done
for asked in --enable=gru-to-sru '--enable=gru-to-sru(light)'; do
  agrees models/dien.ctr -D logs="$work" 2> "$work/dien$asked.err" &
  n=$((n + 1)); running=$((running + 1))
  [ $running -lt 2 ] || { wait -n || { cat "$work"/*.err; fail "see above"; }; running=1; }
done
unset asked
while [ $running -gt 0 ]; do wait -n || { cat "$work"/*.err; fail "see above"; }; running=$((running - 1)); done
[ "$n" -ge 20 ] || fail "only $n models were compared"

# ---- gru-to-sru: the program says that its model was changed, and is the one of a model that says sru itself ----
"$work/dien--enable=gru-to-sru(light)/m" info | grep -q '^changes  *gru-to-sru(light)$' || fail "info doesn't say what changed the model"
cp models/amazon.ctr "$work"
sed 's/= gru(hist, /= sru(hist, /' models/dien.ctr > "$work/said.ctr"
grep -q 'sru(hist' "$work/said.ctr" || fail "dien.ctr has no gru(hist, …)"
"$quick" "$work/said.ctr" -D logs="$work" -D batch=32 -o "$work/said" || fail "DIEN with sru does not compile"
"$work/said" train --data "$work/dien/log" --no-shuffle --epochs 1 --log "$work/said.jsonl" --log-every 1 > /dev/null || fail "DIEN with sru: training failed"
sed -n '/"epoch_end"/!s/.*"loss": *\([0-9.eE+-]*\).*/\1/p' "$work/said.jsonl" | cmp - "$work/dien--enable=gru-to-sru/ours" || fail "gru-to-sru isn't what sru is"

# ---- better than logistic regression, on one log; the regression has the rate that suits it best ----
"$ctrc" synth models/papers/dcn.ctr --rows 200000 --seed 1 -o "$work/train" > /dev/null || fail "synth"
"$ctrc" synth models/papers/dcn.ctr --rows 20000 --seed 2 -o "$work/eval" > /dev/null || fail "synth"
reach() { # reach MODEL [OPTIONS…]: the AUC of ctr
  "$ctrc" models/papers/$1.ctr "${@:2}" -o "$work/program" || fail "$1.ctr does not compile"
  "$work/program" train --data "$work/train" --eval-data "$work/eval" --epochs 1 --json | number auc ctr
}
best=0
for lr in 0.003 0.01; do
  auc=$(reach logistic -D lr=$lr); echo "logistic regression, lr $lr: AUC $auc"
  at_least "$best" "$auc" || best=$auc
done
at_least "$best" 0.7 || fail "logistic regression: AUC $best, expected a log that can be learnt"
for m in dcn fwfm pnn; do
  auc=$(reach $m); echo "$m: AUC $auc"
  at_least "$auc" "$best" || fail "$m: AUC $auc, less than logistic regression's $best"
done
