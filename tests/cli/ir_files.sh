#!/usr/bin/env bash
# The IR as a file: what is printed anywhere along the passes compiles to the very same program; and what the other
# kinds of --emit give is what they are called.
. tests/cli/common.sh.inc

# Something of everything: vocabularies, features, lists on one axis, running statistics, several optimizers.
printf 'red\ngreen\nblue\n' > colours.txt
cat > rich.ctr << 'CTR'
model rich
param dim = 4
param lr = 0.02
input csv(header = true, missing = ["?"]) {
  bought label
  user   string
  colour string
  age    int
  price  float = 1
  seen   string list(";", axis = h, max = 6)
  weight float  list(";", axis = h, max = 6) = 0
}
items  = table(300, dim, init = uniform(0.1), optimizer = adagrad(lr = lr))
people = table(200, dim)
ages   = bucketize(age, [18, 30, 50])
parts  = [embed(hash(user, 200), people), embed(vocab(colour, file = "colours.txt", unknown = last), table(4, dim)),
          pool(embed(hash(seen, 300), items) * weight, sum), embed(cross([ages, colour], 100), table(100, 3))]
facts  = embed(hash(seen, 300), items)
liked  = sum(attention(embed(hash(user, 200), people), facts, hidden = [8]) * facts)
deep   = concat(parts, liked, log1p(price)) |> mlp([16, 8], norm = batchnorm) |> dropout(0.1)
wide   = dense(onehot(ages), 1, bias = false) + dense(onehot(hash(user, 200)), 1)
z      = dense(deep, 1) + wide
predict buys   = sigmoid(z)
predict amount = dense(deep, 1)
loss bce_logits(z, bought)
loss mse(amount, price) * 0.1
metric auc(buys, bought)
optimizer adam(lr = cosine(lr, 100), clip_norm = 5) 
optimizer ftrl(lr = 0.05, l2 = 0.001) for wide
train(batch = 48, epochs = 2, shuffle = 500)
CTR
clicks_ctr > clicks.ctr
expect 0 "$ctrc" synth rich.ctr --rows 600 --seed 4 -o rich.csv
clicks_csv 300 > clicks.csv

# weights NAME PROGRAM LOG: after a short training; the first under NAME is what the others must equal
weights() {
  expect 0 "$2" train --data "$3" --save ckpt; quiet
  if [ -e "$1.weights" ]; then same "$1.weights" ckpt/weights.safetensors; else cp ckpt/weights.safetensors "$1.weights"; fi
}
ctrc_quiet() { expect 0 "$ctrc" "$@"; quiet; }

# ---- the same program from its IR, at each level ----
for what in clicks:0 clicks:1 rich:2 clicks:2; do
  m=${what%:*} level=${what#*:}
  ctrc_quiet $m.ctr -O$level -o $m.direct; ctrc_quiet $m.ctr -O$level --emit=ir -o $m.ir
  ctrc_quiet $m.ir --emit=ir -O$level -o again.ir; same $m.ir again.ir
  ctrc_quiet $m.ir -O$level # under its default name
  weights $m.O$level ./$m.direct $m.csv; weights $m.O$level ./$m $m.csv
done
expect 0 ./clicks info; prints '^passes +simplify, onehot-to-embedding, split-concat, differentiate, simplify, lazy-update, fuse, schedule, plan-memory$'
# the same model, too: a checkpoint of one is the other's, without a word
expect 0 ./clicks.direct eval --data clicks.csv --load ckpt; quiet

# ---- every model, as it is and with the passes that change models: the file reads back to the same bytes, and the
# same code is made of it ----
for v in uid mid cat; do printf 'default\na\nb\n' > ${v}_voc.txt; done
models=0
[ -n "${CTRC_TEST_LIGHT:-}" ] || for f in "$source_dir"/models/*.ctr "$source_dir"/models/papers/*.ctr; do
  grep -q '^model ' "$f" || continue # imported by others
  defs=(); grep -qE '^import "(\.\./)?amazon' "$f" && defs=(-D logs=.)
  for more in --enable=simplify '--enable=indicator-to-embedding,gru-to-sru(layers=*),micro-batch(n=3),mixed-precision(force=true)'; do
    [ "$more" = --enable=simplify ] || case "$f" in */wdl.ctr | */deepfm.ctr | */dlrm.ctr | */mmoe.ctr | */din.ctr | */dien.ctr) ;; *) continue ;; esac
    expect 0 "$ctrc" "$f" "${defs[@]}" "$more" --emit=ir -o one.ir
    expect 0 "$ctrc" one.ir --emit=ir -o two.ir; same one.ir two.ir
    for from in "$f" one.ir; do
      if [ "$from" = one.ir ]; then expect 0 "$quick" one.ir --emit=llvm; quiet; else expect 0 "$quick" "$f" "${defs[@]}" "$more" --emit=llvm -o one.ll; fi
    done
    same one.ll out; models=$((models + 1))
  done
done
[ -n "${CTRC_TEST_LIGHT:-}" ] || [ $models -ge 35 ] || fail "only $models programs were read back"

# ---- what each pass did is part of the IR and of the plan ----
grep -qE '^effect "split-concat: 1 product split; func model, [0-9]+ to [0-9]+ ops, [0-9.]+ to [0-9.]+ MFLOP, [0-9.]+ to [0-9.]+ MB"$' rich.ir || fail "rich.ir doesn't say what split-concat saved"
sed -n 's/^applied "\([^"]*\)"$/\1/p' rich.ir > order; sed -n 's/^effect "\([^:]*\): .*/\1/p' rich.ir > told; same order told
expect 0 "$ctrc" rich.ir --emit=plan; prints '^split-concat: 1 product split; func model, '
prints '^schedule: func train, [0-9]+( to [0-9]+)? ops, .* [0-9]+ phases, [0-9]+ barriers$'; prints '^plan-memory: .*, fixed [0-9.]+ KiB \(at least [0-9.]+ live at once\), [0-9.]+ KiB a thread for a block of rows$'
expect 0 "$ctrc" rich.ctr '--enable=micro-batch(n=3)' --emit=ir -o blocks.ir
hears "applied micro-batch(n=3), which changes the model: $(sed -n 's/^effect "micro-batch: \(.*\)"$/\1/p' blocks.ir)"
# the program knows which of them changed the model, and not merely were asked to
ctrc_quiet blocks.ir -o blocks; expect 0 ./blocks info; prints '^passes .*, lazy-update, micro-batch\(n=3\) \(changes the model\), fuse'; prints '^changes +micro-batch\(n=3\)$'
expect 0 "$ctrc" clicks.ctr --enable=gru-to-sru -o none; says "warning: pass 'gru-to-sru' does not apply to this model"
expect 0 ./none info; prints '^passes .*, gru-to-sru, split-concat'; prints '^changes +none$'
flop=$("$ctrc" clicks.ctr --emit=plan | sed -n 's/^  total: .* phases, \([0-9.]*\) MFLOP.*/\1/p' | head -n 1)
./none info | awk -v plan="$flop" '$1 == "arithmetic" { d = $2 - plan; ok = d < 0.06 && d > -0.06 } END { exit !ok }' || fail "info and the plan differ in the work of a step"
expect 0 "$ctrc" rich.ir --enable=gru-to-sru,fuse --disable=lazy-update --emit=ir; same rich.ir out
says "warning: pass 'gru-to-sru' is not run: this program is already behind where it stands, at 'plan-memory'
warning: pass 'fuse' has run already: --enable=fuse changes nothing
warning: pass 'lazy-update' has run already: --disable=lazy-update doesn't undo it"
expect 0 "$ctrc" rich.ctr --disable=split-concat --emit=ir; quiet; ! grep -q 'split-concat' out || fail "--disable=split-concat ran it"
expect 0 "$ctrc" --list-passes; prints '^split-concat +exact +-O1  products over a concat are split by how often its parts live, terms of q - k merged$'
expect 0 "$ctrc" clicks.ctr --enable=split-concat --emit=plan; says "warning: pass 'split-concat' does not apply to this model"
expect 0 "$ctrc" --list-passes; prints "^gru-to-sru +changes the model +-O1  gru layers become sru"
expect 2 "$ctrc" rich.ctr '--enable=split-concat(all=1)'; hears "split-concat"

# ---- what stands between two passes: each dump goes on, through the passes it hasn't seen, to the same end ----
dumps() { # PREFIX: splits the programs of ./out into PREFIX.1.ir, PREFIX.2.ir, …
  rm -f "$1".*.ir
  awk -v to="$1" '/^ctrc-ir / { n++ } n { print > (to "." n ".ir") }' out
}
passes=$("$ctrc" --list-passes | awk '!/ changes the model / { print $1 }') # those run only when asked for
for m in clicks rich; do
  expect 0 "$ctrc" $m.ctr --print-after=all --verify-each --emit=plan -o plan; dumps $m.after
  sed -n 's/^after \(.*\):$/\1/p' err > order; echo "$passes" > want; same want order
  expect 0 "$ctrc" $m.ctr --print-before=simplify --emit=plan -o plan; dumps $m.before
  for f in $m.after.*.ir $m.before.1.ir; do ctrc_quiet $f --verify-each --emit=ir -o end.ir; same $m.ir end.ir; done
  [ "$(ls $m.after.*.ir | wc -l)" = "$(echo "$passes" | wc -l)" ] || fail "--print-after=all: $(ls $m.after.*.ir | wc -l) programs"
done
expect 0 "$ctrc" clicks.ctr --print-after=differentiate --emit=plan -o plan; dumps one; same one.1.ir "clicks.after.$(echo "$passes" | grep -nx differentiate | cut -d: -f1).ir"
ctrc_quiet one.1.ir -o next; weights clicks.O2 ./next clicks.csv
ctrc_quiet rich.before.1.ir -o next; weights rich.O2 ./next rich.csv # as the frontend made it
# passes left out stay left out, and nothing runs twice
ctrc_quiet rich.ctr --disable=lazy-update,fuse --emit=ir -o part.ir
grep '^applied' part.ir > applied; ! grep -qE 'lazy-update|fuse' applied || fail "disabled passes ran"
ctrc_quiet part.ir --disable=lazy-update,fuse --emit=ir -o again.ir; same part.ir again.ir

# ---- vocabularies stand in it by path and digest ----
grep -q '"colours.txt"' rich.ir || fail "no path of the vocabulary in rich.ir"
cp colours.txt kept.txt; printf 'red\ngreen\nblack\n' > colours.txt
expect 2 "$ctrc" rich.ir -o changed; hears "colours.txt"; absent changed
rm colours.txt; expect 2 "$ctrc" rich.ir -o changed; hears "colours.txt"; absent changed
mv kept.txt colours.txt

# ---- text that is no program: a place, no crash ----
head -c 2000 clicks.ir > cut.ir; expect 2 "$ctrc" cut.ir -o cut; grep -qE '^cut\.ir:[0-9]+:[0-9]+: error: ' err || { fail "no place in:"; cat err; }
sed 's/= matmul %[0-9]*, /= matmul %1, /' clicks.after.1.ir > wrong.ir; ! cmp -s clicks.after.1.ir wrong.ir || fail "nothing was changed in wrong.ir"
expect 2 "$ctrc" wrong.ir -o wrong; grep -qE '^wrong\.ir:[0-9]+:[0-9]+: error: ' err || { fail "no place in:"; cat err; }
sed '1s/1/9/' clicks.ir > newer.ir; expect 2 "$ctrc" newer.ir; hears "newer.ir:1:"
absent cut wrong newer

# ---- every model goes through all passes, verified after each; its IR, read again, is the same IR and the same program ----
for v in uid mid cat; do printf 'default\na\nb\n' > ${v}_voc.txt; done
files=("$source_dir"/models/*.ctr "$source_dir"/models/papers/*.ctr)
[ -z "${CTRC_TEST_LIGHT:-}" ] || files=("$source_dir"/models/{deepfm,dien}.ctr) # the sanitizers' tree: ctrc takes long
for f in "${files[@]}" "$source_dir"/tests/e2e/onehots.ctr; do
  grep -q '^model ' "$f" || continue # imported by others
  logs=(); grep -q 'amazon.ctr"' "$f" && logs=(-D logs=.)
  case $f in */papers/*) levels=2 ;; *) levels="0 1 2" ;; esac
  for level in $levels; do expect 0 "$ctrc" check "$f" "${logs[@]}" --verify-each -O$level; quiet; done
  ctrc_quiet "$f" "${logs[@]}" --emit=ir -o m.ir; ctrc_quiet m.ir --emit=ir -o again.ir; same m.ir again.ir
  expect 0 "$quick" "$f" "${logs[@]}" --emit=llvm -o m.ll; expect 0 "$quick" m.ir --emit=llvm -o again.ll; same m.ll again.ll
  ! grep -q ' = onehot ' m.ir || fail "one-hots in the training code of $f"
  # arenas, all rows' and a thread's, are at most a tenth larger than what lives in them at one time
  expect 0 "$ctrc" m.ir --emit=plan
  awk '/^  memory: .*\(at least / { n++; size = $2 == "fixed" ? $3 : $2; live = $0; sub(/.*at least /, "", live); if (!(live > 0 && size <= 1.1 * live)) { print; bad = 1 } }
       END { exit bad || n < 3 }' out > large || fail "arenas of $f: $(cat large)"
done
grep -q ' = offset ' m.ir || fail "no one-hot among a concat's parts was looked up"

# ---- one-hots that something else needs are kept, and that is said ----
sed 's/^v = .*/v = concat(u, x) |> relu/; s/slice(v, 150, 230)/slice(v, 150, 190)/' "$source_dir/tests/e2e/onehots.ctr" > kept.ctr
expect 0 "$ctrc" kept.ctr --emit=ir -o kept.ir
says "kept.ctr:15:5: note: 'relu' needs a one-hot of 200 values in full: only a product with rows of a weight becomes a lookup
   15 | v = concat(u, x) |> relu
      |     ^~~~~~~~~~~~~~~~~~~~"
grep -q ' = onehot ' kept.ir || fail "no one-hot was kept"

# ---- other kinds of --emit ----
ctrc_quiet clicks.ctr --emit=plan -o plan
for text in '^func train$' '^func eval$' '^func predict$' ' matmul\+add\+relu +9x16 ' ' fetch ' ' update_rows( |$)' '^  total: [0-9]+ kernels in [0-9]+ phases, .* a step of 32 rows$' '^  memory: fixed ' 'clicks\.ctr:13 '; do
  grep -qE "$text" plan || { fail "the plan lacks '$text':"; head -n 20 plan; }
done
awk '/^func train/ { on = 1; next } /total/ { on = 0 } on && $1 ~ /^[0-9]+$/ { if ($2 < last) exit 1; last = $2; n++ } END { exit n < 20 }' plan || fail "phases of the plan don't ascend"
ctrc_quiet clicks.ctr --emit=ast; prints '^model clicks'; prints 'predict ctr'
ctrc_quiet clicks.ctr --emit=dot -o g.dot
[ "$(head -c 15 g.dot)" = 'digraph "train"' ] || fail "g.dot begins with $(head -n 1 g.dot)"
grep -q ' -> ' g.dot || fail "no edge in g.dot"
[ "$(tr -cd '{' < g.dot | wc -c)" = "$(tr -cd '}' < g.dot | wc -c)" ] || fail "braces of g.dot don't match"
if has dot; then
  dot -Tsvg g.dot > g.svg 2> err || fail "dot: $(cat err)"
  # DeepFM's predict, 320 nodes, in a picture that can be read: alike fields are one box
  ctrc_quiet "$source_dir/models/deepfm.ctr" --emit=dot -o g.dot
  dot -Tplain g.dot > g.plain 2> err || fail "dot: $(cat err)"
  awk '$1 == "graph" { n++; if (n == 3) wide = $3 } $1 == "node" && n == 3 { boxes++ }
       END { print boxes " boxes, " wide " inches"; exit !(n == 3 && boxes > 20 && boxes < 90 && wide < 45) }' g.plain > size || fail "DeepFM's graph: $(cat size)"
  # what is computed later stands further down, the backward pass too (plain's y grows upward)
  awk '$1 == "graph" { n++ } n == 1 && $1 == "node" { y[$2] = $4 } n == 1 && $1 == "edge" { edges++; if (y[$2] <= y[$3]) up = up " " $2 "->" $3 }
       END { print edges " edges, upwards:" up; exit !(edges > 100 && up == "") }' g.plain > size || fail "DeepFM's train: $(cat size)"
else echo "no dot here: graphs aren't drawn"; fi
ctrc_quiet clicks.ctr --emit=llvm -o m.ll
for f in train eval predict; do grep -qE "^define .*void @ctrc_$f\(" m.ll || fail "no ctrc_$f in the LLVM text"; done
grep -q '^@ctrc_model = ' m.ll || fail "no ctrc_model in the LLVM text"
for verify in opt-19 /usr/lib/llvm-19/bin/opt; do
  if has $verify; then $verify -passes=verify -disable-output m.ll 2> err || { fail "$verify:"; cat err; }; break; fi
done
# assembler text and object: linked by hand they are the same program
ctrc_quiet clicks.ctr --emit=obj -o m.o; [ "$(head -c 4 m.o | od -An -tx1)" = " 7f 45 4c 46" ] || fail "m.o is no ELF file"
ctrc_quiet clicks.ctr --emit=asm -o m.s; grep -q '^ctrc_train:' m.s || fail "no ctrc_train in the assembler text"
runtime="$(dirname "$ctrc")/../lib/ctrc/libctrc_rt.a"
sanitize=$(grep -q __asan_init "$runtime" && echo -fsanitize=address,undefined)
for f in m.o m.s; do
  # shellcheck disable=SC2086
  cc $f "$runtime" $sanitize -ldnnl -lxxhash -lz -lzstd -ljansson -lpthread -lm -o by_hand 2> err || { fail "linking $f:"; head -n 5 err; continue; }
  weights clicks.O2 ./by_hand clicks.csv
done
# another CPU's code, and its own word when this one can't run it
ctrc_quiet clicks.ctr --march=x86-64-v4 --emit=asm -o v4.s; ! cmp -s m.s v4.s || fail "--march=x86-64-v4 changes nothing"
grep -q 'zmm' v4.s || fail "no 512-bit register in code for x86-64-v4"
ctrc_quiet clicks.ctr --march=x86-64-v4 -o v4
if grep -q avx512bw /proc/cpuinfo; then expect 0 ./v4 info; else
  expect 1 ./v4 info; hears "error: this CPU has no avx512"; hears "hint: compile it with a lower --march"; fi
ctrc_quiet clicks.ctr --march=x86-64-v3 -o v3; expect 0 ./v3 train --data clicks.csv --json; prints '"rows":300,"steps":10,'

[ $bad = 0 ] && echo "IR files compile to the same programs"
exit $bad
