#!/usr/bin/env bash
# mixed-precision for a CPU with avx512_bf16: vdpbf16ps in the reference models' code, and none without the pass; such a
# program's word where it can't run; and its IR, run on this CPU, trains to the bits of rounding by fp32 instructions.
. tests/cli/common.sh.inc

# ---- the reference models ----
for v in uid mid cat; do printf 'default\na\nb\n' > ${v}_voc.txt; done
# instructions FILE: how often vdpbf16ps stands in it; loads, and registers put aside, in its largest loop body
instructions() {
  awk '/^[.A-Za-z_].*:/ { label = $1; n = loads = aside = 0 }
       /vdpbf16ps/ { all++; n++ }
       /zmm/ && /\(%r/ && !/prefetch/ { if (/\(%rsp\)|\(%rbp\)/) aside++; else loads++ }
       /^\tj/ && label == $2 ":" && n > most { most = n; l = loads; a = aside }
       END { print all + 0, most + 0, l + 0, a + 0 }' "$1"
}
models="deepfm din"; [ -z "${CTRC_NIGHTLY:-}" ] || models="wdl deepfm dlrm din dien mmoe"
[ -z "${CTRC_TEST_LIGHT:-}" ] || models=deepfm # the sanitizers' tree: ctrc takes long
for m in $models; do
  f=$source_dir/models/$m.ctr; logs=(); grep -q 'amazon.ctr"' "$f" && logs=(-D logs=.)
  expect 0 "$ctrc" "$f" "${logs[@]}" --march=cooperlake --enable=mixed-precision --emit=asm -o m.s
  hears "applied mixed-precision, which changes the model: "
  read -r all most loads aside < <(instructions m.s)
  # tiles of 8 rows by 48 columns, four pairs of terms at a time: 96 of them, 12 loads of B, 32 of A
  [ "$all" -gt 500 ] && [ "$most" = 96 ] && [ "$loads" = 44 ] && [ "$aside" = 0 ] || fail "$m: $all vdpbf16ps, at most $most in a loop with $loads loads, $aside of them of registers put aside"
done
expect 0 "$ctrc" "$source_dir/models/deepfm.ctr" --march=cooperlake --emit=asm -o m.s; quiet
read -r all _ < <(instructions m.s); [ "$all" = 0 ] || fail "vdpbf16ps without mixed-precision"
! grep -q 'cvtne' m.s || fail "conversions to bfloat16 without mixed-precision"

# ---- one after another ----
cat > towers.ctr << 'CTR'
model towers
param batch = 50
input csv(header = true) { bought label; user string; price float; seen string list(";", axis = h, max = 6) }
items = table(300, 12)
facts = embed(hash(seen, 300), items)
liked = sum(attention(embed(hash(user, 300), items), facts, hidden = [24]) * facts)
state = last(gru(facts, 16))
z = concat(embed(hash(user, 300), items), liked, state, price) |> mlp([37, 16], norm = batchnorm) |> dense(1)
predict p = sigmoid(z)
loss bce_logits(z, bought)
optimizer adam(lr = 0.01)
train(batch = batch, epochs = 2)
CTR
expect 0 "$ctrc" synth towers.ctr --rows 330 --seed 4 -o towers.csv
for march in cooperlake znver4; do
  expect 0 "$ctrc" towers.ctr --march=$march --enable=mixed-precision --emit=ir -o $march.ir
  hears "products of bfloat16"; same cooperlake.ir $march.ir
done
grep -qE '^  %[0-9]+ = pack %[0-9]+ \{t=1, bf16=1\} : always f32\[[0-9,]+\] .*#phase=0 ' cooperlake.ir || fail "no pack of pairs"
grep -qE '^ +%[0-9]+ = matmul_grad_w .* \{bf16=1\} : step ' cooperlake.ir || fail "no weight gradient of pairs"
grep -q ' = bf16 ' cooperlake.ir || fail "no operand of a narrow product is rounded"
expect 0 "$ctrc" cooperlake.ir --march=cooperlake --emit=ir -o again.ir; same cooperlake.ir again.ir
expect 0 "$ctrc" cooperlake.ir --march=cooperlake --emit=plan
prints ' vdpbf16ps +[0-9.]+ '; prints ' pack bf16 '
prints '^  vdpbf16ps: operands rounded to bfloat16 by mixed-precision, two terms an instruction, sums in fp32$'
expect 0 "$ctrc" cooperlake.ir --march=x86-64-v3 --emit=plan; prints ' bf16 pairs +[0-9.]+ '
prints '^  bf16 pairs: operands rounded to bfloat16 in pairs, but the target has no avx512_bf16: its vdpbf16ps is computed in fp32$'

# ---- where it can't run ----
expect 0 "$ctrc" towers.ctr --march=znver4 --enable=mixed-precision -o znver4
if grep -qw avx512_bf16 /proc/cpuinfo; then expect 0 ./znver4 train --data towers.csv; else
  expect 1 ./znver4 train --data towers.csv; silent; hears "error: this CPU has no avx512"
  hears ", the model's code needs it (x86-64-v4 and avx512bf16)"; hears "hint: compile it with a lower --march"
fi
expect 2 "$ctrc" towers.ctr --march=x86-64-v4 --enable=mixed-precision --emit=ir
says "error: mixed-precision: the target has no bfloat16 products (avx512_bf16)
hint: mixed-precision(force=true) computes the same with fp32 instructions, more slowly"
expect 2 "$ctrc" towers.ctr --march=znver5 --emit=ir
says "error: unknown --march 'znver5': expected native, x86-64-v3, x86-64-v4, or with bfloat16 cooperlake, sapphirerapids or znver4
hint: did you mean 'znver4'?"

# ---- the same bits as operands rounded before, sums in fp32; the library's have another order ----
tiles="schedule(products=tile)"
for blocks in "" "micro-batch(n=3),"; do
  expect 0 "$ctrc" towers.ctr --march=cooperlake "--enable=${blocks}mixed-precision,$tiles" --emit=ir -o marked.ir
  expect 0 "$ctrc" marked.ir --march=x86-64-v3 -o marked; quiet
  expect 0 "$ctrc" towers.ctr --march=x86-64-v3 "--enable=${blocks}mixed-precision(force=true),$tiles" -o forced
  for p in marked forced; do
    expect 0 ./$p train --data towers.csv --save $p.ckpt --threads 2; quiet
    expect 0 ./$p predict --data towers.csv --load $p.ckpt -o $p.csv
  done
  same marked.ckpt/weights.safetensors forced.ckpt/weights.safetensors; same marked.csv forced.csv
done
expect 0 "$ctrc" towers.ctr --march=x86-64-v3 -o plain; expect 0 ./plain train --data towers.csv --save plain.ckpt
! cmp -s plain.ckpt/weights.safetensors marked.ckpt/weights.safetensors || fail "rounding changes nothing"

[ $bad = 0 ] && echo "products of bfloat16 are made, and right"
exit $bad
