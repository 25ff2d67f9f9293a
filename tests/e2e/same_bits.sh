#!/usr/bin/env bash
# weights.safetensors has the same bytes at 1, 2, 3 and 4 threads, and from two runs with one seed; another seed differs.
# So it has with -O0 and -O2 where each value is written once, so that the passes find nothing to put together.
. tests/e2e/common.sh.inc
mkdir "$work/papers"
# Three are made by ctrc, too: LLVM's optimisation changes no bit either.
for m in wdl deepfm dlrm adult bank din mmoe dien papers/bst; do
  small=$(small models/$m.ctr)
  "$quick" models/$m.ctr $small -o "$work/$m" || fail "$m.ctr does not compile"
  "$ctrc" synth models/$m.ctr $small --rows 1100 --seed 5 -o "$work/$m.log" 2> /dev/null || fail "no log for $m"
  train() { "$work/$m" train --data "$work/$m.log" --epochs 2 --save "$work/$m-$1" --threads "$2" --seed "$3" > /dev/null 2> "$work/err" || { cat "$work/err"; fail "$m: training with $2 threads"; }; }
  train one 1 1
  case $m in deepfm | din | adult)
    mv "$work/$m" "$work/$m.quick"
    "$ctrc" models/$m.ctr $small -o "$work/$m" || fail "$m.ctr does not compile"
    train optimised 1 1
    cmp "$work/$m-one/weights.safetensors" "$work/$m-optimised/weights.safetensors" || fail "$m: LLVM's optimisation changes bits" ;;
  esac
  for t in 2 3 4; do
    train $t $t 1
    cmp "$work/$m-one/weights.safetensors" "$work/$m-$t/weights.safetensors" || fail "$m: $t threads give other bits than one"
  done
  train again 2 1
  cmp "$work/$m-one/weights.safetensors" "$work/$m-again/weights.safetensors" || fail "$m: a second run gives other bits"
  train other 2 2
  cmp -s "$work/$m-one/weights.safetensors" "$work/$m-other/weights.safetensors" && fail "$m: another seed gives the same bits"
done
# ---- along lists: of any length, empty ones, and more than the 64 positions that attention takes at a time ----
cat > "$work/along.ctr" <<'END'
model along
input csv() { y label; s string; l string list(";", max = 90); m string list("|") }
t = table(50, 18)
layer item(c) = embed(hash(c, 50), t)
more = append(item(l), item(s))
seen = attend(more * embed(positions(more), table(91, 18)), more, more)
m1   = item(m)
z    = sum(concat(sum(seen) * last(seen), sum(attend(m1, m1, slice(m1, 0, 7)))), axis = 0) * 0.05
predict p = sigmoid(z)
loss bce_logits(z, y)
optimizer sgd(lr = 0.1)
train(batch = 64, epochs = 2)
END
awk 'BEGIN { srand(3); for (r = 0; r < 400; r++) {
  printf "%d,s%d,", rand() < 0.4, 40 * rand()
  n = r % 4 ? int(12 * rand()) : int(100 * rand()); for (i = 0; i < n; i++) printf "%sv%d", i ? ";" : "", 40 * rand()
  printf ","; n = r % 9 ? int(7 * rand()) : int(150 * rand()); for (i = 0; i < n; i++) printf "%sv%d", i ? "|" : "", 40 * rand()
  print "" } }' > "$work/along.csv"
for level in 0 2; do
  "$quick" "$work/along.ctr" -O$level -o "$work/along" || fail "along.ctr does not compile with -O$level"
  for t in 1 2 3 4; do
    "$work/along" train --data "$work/along.csv" --save "$work/along-$level-$t" --threads $t > /dev/null 2>&1 || fail "along.ctr: training"
    cmp "$work/along-0-1/weights.safetensors" "$work/along-$level-$t/weights.safetensors" || fail "along.ctr: -O$level, $t threads: other bits than -O0 with one thread"
  done
done
"$work/along" train --data "$work/along.csv" --save "$work/along-other" --steps 3 > /dev/null 2>&1
cmp -s "$work/along-0-1/weights.safetensors" "$work/along-other/weights.safetensors" && fail "along.ctr: three steps give the bits of all"
echo "same bits at 1, 2, 3 and 4 threads for nine models"
