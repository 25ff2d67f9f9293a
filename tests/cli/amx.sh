#!/usr/bin/env bash
# mixed-precision for a CPU with AMX: tdpbf16ps in the reference models' code, between ldtilecfg and tilerelease of each
# kernel; what a plan says of it, how it is left off; such a program's word where it can't run; its IR on other CPUs.
. tests/cli/common.sh.inc

# ---- the reference models ----
for v in uid mid cat; do printf 'default\na\nb\n' > ${v}_voc.txt; done
# tiles FILE: kernels with tiles; tdpbf16ps; functions that break a rule, and the first of them. A kernel configures
# tiles once, before it calls what works on them, and gives them back as often as it returns.
tiles() {
  awk 'function leave() { if (name == "") return
         tile = name ~ /^tile_amx_/
         if (tile ? !products || configures || gives : configures != (gives > 0) || (gives && gives != returns) || (calls && first < configured)) { bad++; if (bad == 1) which = name }
         kernels += configures; all += products; name = "" }
       /^[A-Za-z_][A-Za-z_0-9.]*:/ { leave(); name = substr($1, 1, length($1) - 1); products = configures = gives = returns = calls = 0 }
       /^\ttdpbf16ps/ { products++ }
       /^\tldtilecfg/ { configures++; configured = NR }
       /^\ttilerelease/ { gives++ }
       /^\tret/ { returns++ }
       /^\tcallq\ttile_amx_/ { if (!calls++) first = NR }
       END { leave(); print kernels + 0, all + 0, bad + 0, which }' "$1"
}
# inner FILE: tdpbf16ps and loads of tiles in the largest loop over panels of 48 columns
inner() {
  awk '/^[.A-Za-z_].*:/ { label = $1; n = loads = 0 }
       /^[A-Za-z_]/ { wide = /^tile_amx_48_/ }
       /^\ttdpbf16ps/ && wide { n++ } /^\ttileloadd/ { loads++ }
       /^\tj/ && label == $2 ":" && n > most { most = n; l = loads }
       END { print most + 0, l + 0 }' "$1"
}
asm() { # COMPILER MODEL FLAG…
  local compiler=$1 f=$source_dir/models/$2.ctr logs=(); shift 2
  ! grep -q 'amazon.ctr"' "$f" || logs=(-D logs=.)
  expect 0 "$compiler" "$f" "${logs[@]}" --march=sapphirerapids --emit=asm -o m.s "$@"
}
models="wdl deepfm dlrm din dien mmoe"
[ -z "${CTRC_TEST_LIGHT:-}" ] || models="deepfm din" # the sanitizers' tree: ctrc takes long
for m in $models; do
  asm "$quick" $m --enable=mixed-precision; hears "applied mixed-precision, which changes the model: "
  read -r kernels all broken which < <(tiles m.s)
  [ "$kernels" -gt 10 ] && [ "$all" -gt 100 ] && [ "$broken" = 0 ] || fail "$m: $kernels kernels with tiles, $all tdpbf16ps, $broken functions that break a rule ($which)"
  ! grep -q vdpbf16ps m.s || fail "$m: vdpbf16ps beside AMX"
done
# three tiles of columns by two of rows, seven loads for six products, however often LLVM repeats them
asm "$ctrc" deepfm --enable=mixed-precision; read -r most loads < <(inner m.s); read -r _ _ broken which < <(tiles m.s)
[ "$most" -ge 6 ] && [ $((most % 6)) = 0 ] && [ "$loads" = $((most / 6 * 7)) ] && [ "$broken" = 0 ] || fail "$most tdpbf16ps and $loads loads of tiles in the largest loop, $broken functions that break a rule ($which)"
asm "$quick" deepfm --enable='mixed-precision,schedule(amx=off)'; read -r kernels all _ < <(tiles m.s)
[ "$kernels $all" = "0 0" ] && grep -q vdpbf16ps m.s || fail "amx=off: $kernels kernels with tiles, $all tdpbf16ps"
asm "$quick" deepfm; quiet; ! grep -qE 'tdpbf16ps|tilecfg|tilerelease' m.s || fail "tiles without mixed-precision"

# ---- one after another ----
cat > wide.ctr << 'CTR'
model wide
input csv(header = true) { bought label; user string; price float }
z = concat(embed(hash(user, 300), table(300, 12)), price) |> mlp([37, 16]) |> dense(1)
predict p = sigmoid(z)
loss bce_logits(z, bought)
optimizer adam(lr = 0.01)
train(batch = 50, epochs = 1)
CTR
expect 0 "$ctrc" synth wide.ctr --rows 60 --seed 4 -o wide.csv
expect 0 "$ctrc" wide.ctr --march=sapphirerapids --enable=mixed-precision --emit=ir -o amx.ir; hears "9 products of bfloat16"
grep -qE ' = fused .*kernel=amx' amx.ir || fail "no kernel by AMX in the IR"
grep -qE '^  %[0-9]+ = pack %[0-9]+ \{t=0, bf16=1\} ' amx.ir || fail "no pack of pairs"
expect 0 "$ctrc" amx.ir --march=sapphirerapids --emit=ir -o again.ir; same amx.ir again.ir
expect 0 "$ctrc" amx.ir --march=sapphirerapids --emit=plan; prints ' tdpbf16ps +[0-9.]+ '; prints ' pack bf16 '
prints '^  tdpbf16ps: operands rounded to bfloat16 by mixed-precision, tiles of 16 by 16 sums in fp32 by AMX$'
expect 0 "$ctrc" amx.ir --march=cooperlake --emit=plan; prints ' vdpbf16ps +[0-9.]+ '; ! grep -q tdpbf16ps out || fail "AMX for cooperlake"
expect 0 "$ctrc" amx.ir --march=x86-64-v3 --emit=plan; prints ' bf16 pairs +[0-9.]+ '
expect 0 "$ctrc" wide.ctr --march=sapphirerapids --enable='mixed-precision,schedule(amx=off)' --emit=plan; prints ' vdpbf16ps +[0-9.]+ '
expect 0 "$ctrc" wide.ctr --march=cooperlake --enable='mixed-precision,schedule(amx=off)' --emit=ir -o off.ir
expect 0 "$ctrc" wide.ctr --march=sapphirerapids --enable='mixed-precision,schedule(amx=off)' --emit=ir -o again.ir; same off.ir again.ir
expect 2 "$ctrc" wide.ctr --march=sapphirerapids --enable='schedule(amx=on)' --emit=ir
says "error: schedule: expected amx=auto or off, found 'on'"

# ---- where it can't run; a program without such products asks for no AMX ----
expect 0 "$ctrc" wide.ctr --march=sapphirerapids --enable=mixed-precision -o tiles
expect 0 "$ctrc" wide.ctr --march=sapphirerapids -o vectors; quiet
if grep -qw amx_bf16 /proc/cpuinfo; then expect 0 ./tiles train --data wide.csv; else
  expect 1 ./tiles train --data wide.csv; silent; hears "error: this CPU has no "; hears "hint: "
  hears ", the model's code needs it (x86-64-v4, avx512bf16 and AMX)"
fi
if grep -qw avx512_bf16 /proc/cpuinfo; then expect 0 ./vectors train --data wide.csv; else
  expect 1 ./vectors train --data wide.csv; silent; hears ", the model's code needs it (x86-64-v4 and avx512bf16)"
fi

# ---- code for AMX on another CPU: the same as its own ----
for p in amx off; do
  expect 0 "$ctrc" $p.ir --march=x86-64-v3 -o $p; expect 0 ./$p train --data wide.csv --save $p.ckpt --threads 2; quiet
done
same amx.ckpt/weights.safetensors off.ckpt/weights.safetensors

[ $bad = 0 ] && echo "products of bfloat16 by AMX are made"
exit $bad
