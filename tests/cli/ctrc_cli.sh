#!/usr/bin/env bash
# The command line of ctrc: what it prints where, exit codes, files that appear whole or not at all.
set -u
ctrc=$(readlink -f "$BUILD/bin/ctrc")
work=$(mktemp -d); trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
bad=0
fail() { echo "FAILED: $*"; bad=1; }
export XDG_CACHE_HOME=$work/cache # plans keep measured rates there
cd "$work" || exit 1

# expect CODE "PATTERN OF STDERR" ARGUMENTS…: stdout is left in ./out, stderr in ./err
expect() {
  local code=$1 pattern=$2; shift 2
  timeout 60 "$ctrc" "$@" > out 2> err < /dev/null; local got=$?
  [ "$got" = "$code" ] || { fail "ctrc $*: exit code $got, expected $code"; cat err; }
  if [ -z "$pattern" ]; then [ ! -s err ] || { fail "ctrc $*: stderr isn't empty"; cat err; }
  else grep -qF -- "$pattern" err || { fail "ctrc $*: stderr lacks '$pattern'"; cat err; }; fi
}
prints() { grep -qE -- "$1" out || { fail "stdout lacks '$1'"; head -n 20 out; }; }
nothing_left() { for f in *.??????; do [ ! -e "$f" ] || fail "$f left behind"; done; }

cat > m.ctr <<'END'
model m
param lr = 0.1
param dim = 4
input csv() {
  y label
  a string
  b float = 0
}
x = concat(embed(hash(a, 100), table(100, dim)), b)
z = dense(x, 1)
predict p = sigmoid(z)
loss bce_logits(z, y)
metric auc(p, y)
optimizer sgd(lr = lr)
train(batch = 32, epochs = 1)
END
sed 's/dense(x, 1)/dense(tanh(x), 1)/' m.ctr > n.ctr
sed 's/^z = .*/z = dense(onehot(hash(a, 100)), 1) + dense(x, 1)/' m.ctr > hot.ctr
sed 's/hash(a/hash(aa/; s/bce_/bcee_/' m.ctr > broken.ctr

# ---- without a model ----
expect 0 "" --version; prints '^ctrc [0-9]+\.[0-9]+\.[0-9]+'
expect 0 "" --help; prints 'ctrc MODEL\.ctr'; prints '--list-passes'
expect 0 "" -h; prints 'Examples:'
expect 0 "" check --help; prints 'Examples:'
expect 0 "" --list-passes; prints '^simplify +exact'; prints '^differentiate +required'
expect 2 "expected a .ctr or an .ir file"

# ---- wrong usage ----
expect 2 "unknown option '--emt=ir'" m.ctr --emt=ir; grep -q "did you mean '--emit'" err || fail "no hint for --emt"
expect 2 "did you mean '--march'" m.ctr -march=native
expect 2 "ctrc --help lists the options" m.ctr -x
expect 2 "unknown kind 'plann' of --emit" m.ctr --emit=plann
expect 2 "--verify-each takes no value, found '--verify-each=1'" m.ctr --verify-each=1
expect 2 "expected a value after --emit" m.ctr --emit
expect 2 "expected a value after -o" m.ctr -o
expect 2 "expected -O0, -O1 or -O2, found '-O3'" m.ctr -O3
expect 2 "unknown pass 'simplfy'" m.ctr --disable=simplfy
expect 2 "did you mean 'simplify'" m.ctr --print-after=simplfy
expect 2 "can't be disabled" m.ctr --disable=differentiate
{ cat m.ctr; printf 'disable "simplify"\nenable "simplfy"\n'; } > asks.ctr
expect 2 "asks.ctr:$(wc -l < asks.ctr):1: error: unknown pass 'simplfy'" check asks.ctr
# what a file asks for has its place there, whichever way it is wrong
asks() { { cat m.ctr; echo "$2"; } > asks.ctr; expect "$1" "asks.ctr:$(wc -l < asks.ctr):1: $3" check asks.ctr; }
asks 2 'enable "micro-batch"(n = 0)' "error: micro-batch: expected n from 1 to 32, found '0'"
asks 2 'enable "micro-batch"(m = 2)' "error: pass 'micro-batch' has no argument 'm'"
asks 2 'enable "indicator-to-embedding"(combine = "max")' "error: indicator-to-embedding: expected combine=sum or concat, found 'max'"
asks 2 'disable "schedule"' "error: pass 'schedule' can't be disabled: no program compiles without it"
asks 0 'enable "gru-to-sru"' "warning: pass 'gru-to-sru' does not apply to this model"
expect 0 "note: micro-batch: a step of 32 rows is one block (n=1)" m.ctr '--enable=micro-batch(n=1)' --emit=ir -o one.ir
expect 0 "warning: pass 'micro-batch' is left out: --disable=micro-batch wins over --enable" m.ctr --enable=micro-batch --disable=micro-batch --emit=ir -o out.ir
# however arguments are written, they are one text in what has been applied
for args in '(dim=4,combine=sum)' '( dim = 4, combine = "sum" )'; do
  expect 0 "applied indicator-to-embedding(dim=4,combine=sum), which changes the model" hot.ctr "--enable=indicator-to-embedding$args" --emit=ir -o args.ir
done
expect 2 "expected ')'" m.ctr '--enable=fuse(a=1'
expect 2 "--print-only needs" m.ctr --print-only=p
expect 2 "unknown --march 'sparc'" m.ctr --march=sparc
expect 2 "expected -D name=value, found '-D lr'" m.ctr -D lr
expect 2 "expected -D name=value, found '-D 1=2'" m.ctr -D1=2
expect 2 "-D needs a .ctr file" m.ir -D lr=2
expect 2 "expected a .ctr or an .ir file, found 'm.txt'" m.txt
expect 2 "did you mean 'check'" chek m.ctr
expect 2 "found a further 'n.ctr'" m.ctr n.ctr
expect 2 "expected a .ctr or an .ir file after 'check'" check
expect 2 "expected two files after 'diff'" diff m.ctr
expect 2 "-o is no option for check" check m.ctr -o x
expect 2 "--rows is no option for compiling" m.ctr --rows 3
expect 2 "synth needs --rows N" synth m.ctr -o log
expect 2 "synth needs -o FILE" synth m.ctr --rows 3
expect 2 "expected a whole number from 1 to" synth m.ctr --rows 0 -o log
expect 2 "found '1e3'" synth m.ctr --rows 1e3 -o log
expect 2 "expected a whole number from 0 to" synth m.ctr --rows 1 --seed -1 -o log
expect 2 "--emit=ast needs a .ctr file" m.ir --emit=ast

# ---- files ----
expect 1 "can't read 'none.ctr': No such file or directory" none.ctr
expect 1 "can't read 'none.ir'" check none.ir
expect 1 "can't read 'none.ctr'" none.ctr --emit=ast
mkdir dir.ctr; expect 2 "directory" check dir.ctr
if [ "$(id -u)" != 0 ]; then cp m.ctr secret.ctr; chmod 0 secret.ctr; expect 1 "Permission denied" secret.ctr; fi

# ---- check, and errors in the program ----
expect 0 "" check m.ctr; [ ! -s out ] || fail "check prints to stdout"
expect 0 "" check m.ctr -D lr=0.5 -D dim=8
expect 2 "larning" check m.ctr -D larning=0.5
expect 2 "broken.ctr:9:23: error" broken.ctr; [ ! -e broken ] || fail "an executable of a broken program"
grep -q "did you mean 'a'" err || fail "no hint in: $(cat err)"
expect 2 "broken.ctr:12:" check broken.ctr
printf 'ctrc-ir 1\nmodel m\nnonsense\n' > broken.ir
expect 2 "broken.ir:3:" check broken.ir

# ---- texts ----
expect 0 "" m.ctr --emit=ast; prints '^model m @1:1-1:8'
expect 0 "" m.ctr --emit=ir -o m.ir; [ ! -s out ] || fail "-o prints to stdout too"
expect 0 "" m.ctr --emit=ir; cmp -s out m.ir || fail "--emit=ir differs between stdout and -o"
expect 0 "" m.ir --emit=ir; cmp -s out m.ir || fail "m.ir doesn't read back as it is"
expect 0 "" check m.ir
expect 0 "" --emit ir m.ctr; cmp -s out m.ir || fail "--emit ir isn't --emit=ir"
for kind in plan llvm asm dot; do
  expect 0 "" m.ctr --emit=$kind -o text.$kind
  [ -s text.$kind ] || fail "--emit=$kind: nothing written"
  expect 0 "" m.ir --emit=$kind; cmp -s out text.$kind || fail "--emit=$kind of m.ir differs from that of m.ctr"
done
expect 0 "" m.ctr --emit=html -o m.html; head -c 15 m.html | grep -q '<!doctype html>' || fail "--emit=html: no page"
expect 0 "" m.ctr --emit=obj -o m.o; head -c 4 m.o | grep -q ELF || fail "--emit=obj: no object file"
expect 0 "before simplify" m.ctr --print-before=simplify --emit=plan -o plan; prints '^func model'
[ "$(grep -c '^ctrc-ir' out)" = 1 ] || fail "--print-before=simplify: not one program"   # though the pass stands twice
cp out front.ir; expect 0 "" check front.ir   # as the frontend made it
expect 0 "after fuse" m.ctr --print-after=fuse,simplify --emit=plan -o plan; grep -q 'after simplify' err || fail "two passes: one dump"
[ "$(grep -c '^ctrc-ir' out)" = "$(grep -c '^after ' err)" ] || fail "--print-after=fuse,simplify: not one program a dump"
expect 0 "after schedule" m.ctr --print-after=all --verify-each --emit=plan -o plan
expect 0 "" m.ctr --emit=ir --print-only=z.dense; prints 'z\.dense'; ! grep -q '^ctrc-ir' out || fail "--print-only prints the whole program"
expect 0 "" m.ctr --emit=ir --print-only=z.dens; prints "^no layer or value is named 'z.dens', did you mean 'z.dense'\\?$"
printf 'c = tanh(1)\nlayer top(x) = dense(x * 2, 1)\n' > top.ctr
sed 's/^param lr/import "top.ctr"\n&/; s/dense(x, 1)/top(x)/' m.ctr > two.ctr
expect 0 "" two.ctr --emit=ir --print-only=z; prints '^file 0 "two.ctr"'; prints '^file 1 "top.ctr"'; prints '@1/2:'
expect 0 "warning: pass 'fuse' doesn't run here: --print-after=fuse shows nothing" m.ctr --disable=fuse --print-after=fuse --emit=ir
expect 0 "warning: pass 'fuse' doesn't run here: --print-before=fuse shows nothing" m.ctr -O0 --print-before=fuse,all --emit=ir
expect 0 "" m.ctr -O0 --emit=ir; ! grep -q 'applied "fuse"' out || fail "-O0 ran fuse"
expect 0 "" m.ctr --disable=fuse --emit=ir; ! grep -q 'applied "fuse"' out || fail "--disable=fuse ran fuse"
expect 0 "" m.ctr --disable fuse,simplify --emit=ir; ! grep -q 'applied "simplify"' out || fail "--disable takes one pass only"
expect 0 "" m.ctr -D lr=0.25 --emit=ir; prints 'lr = 0\.25'

# ---- what predicted times rest on: measured once, kept, measured anew if the file is no use; else given ----
rates=$(echo cache/ctrc/rates-*.json); [ -s "$rates" ] || fail "no rates are kept"
expect 0 "" m.ctr --emit=plan; prints "; measured on this .*, kept in $work/$rates\$"
printf '{"flops": 5e9, "cache_bytes": 7e9, "memory_bytes": 3e9}' > "$rates"
expect 0 "" m.ctr --emit=plan; prints ' at 5 GFLOP/s, 7 GB/s in cache, 3 GB/s in memory; measured on this'
for junk in '' '{"flops": 0, "cache_bytes": 1, "memory_bytes": 1}' '{"flops": "fast"}' '['; do
  printf '%s' "$junk" > "$rates"
  expect 0 "" m.ctr --emit=plan; prints '; measured on this'; grep -q '"memory_bytes": [1-9]' "$rates" || fail "rates stay '$junk'"
done
expect 0 "" m.ctr --march=x86-64-v3 --emit=plan; prints '; given for a core like Zen 3, not measured here$'
expect 0 "" m.ctr --march=x86-64-v4 --emit=plan; prints '; given for a core with AVX-512, not measured here$'
XDG_CACHE_HOME=/dev/null/none HOME='' expect 0 "" m.ctr --emit=plan; prints '; given for a core'

# ---- diff ----
expect 0 "no difference" diff m.ctr m.ctr; [ ! -s out ] || fail "diff of equal programs prints"
expect 0 "no difference" diff m.ctr front.ir
expect 0 "" diff m.ctr n.ctr
diff - out << 'END' || fail "diff m.ctr n.ctr"
func model
+ %6 = tanh %5 : f32[5] "z"
~ %7 = matmul %5, %6 {ta=0, tb=0} : f32[1] "z.dense"
  %8 = matmul %6, %7 {ta=0, tb=0} : f32[1] "z.dense"   (operand 1)
END
expect 0 "" m.ctr -D lr=0.2 --emit=ir -o m2.ir; expect 0 "" diff m.ir m2.ir
diff - out << 'END' || fail "diff m.ir m2.ir"
- param lr = 0.1
+ param lr = 0.2
- optimizer 0 sgd lr=0.1
+ optimizer 0 sgd lr=0.2
END
expect 0 "" diff m.ctr m.ir; prints '^- func model'; prints '^\+ func train'

# ---- outputs ----
expect 0 "" m.ctr; [ -x m ] || fail "no ./m"
expect 0 "" m.ctr -o sub; [ -x sub ] || fail "no ./sub"
expect 0 "" -o from_ir m.ir; [ -x from_ir ] || fail "no ./from_ir"
mkdir d; cp m.ctr d/inner.ctr; expect 0 "" d/inner.ctr; [ -x inner ] || fail "d/inner.ctr: no ./inner here"
./m info > out 2> err || { fail "./m info"; cat err; }
cp m.ctr same.ctr; cp m.ctr keep.ctr
expect 1 "the program was read from it" same.ctr -o same.ctr
expect 1 "the program was read from it" same.ctr --emit=ir -o ./same.ctr
expect 1 "the program was read from it" synth same.ctr --rows 3 -o same.ctr
ln -s same.ctr link; expect 1 "the program was read from it" same.ctr --emit=plan -o link
cmp -s same.ctr keep.ctr || fail "the source was overwritten"
printf 'z = 3\n' > part.ctr; sed 's/^model m/&\nimport "part.ctr"/' m.ctr > whole.ctr
expect 1 "the program was read from it" whole.ctr --emit=ir -o part.ctr
expect 1 "it is a directory" m.ctr -o d
expect 1 "it is a directory" m.ctr --emit=ir -o d
expect 1 "expected a regular file" m.ctr -o /dev/null; [ -c /dev/null ] || fail "/dev/null is gone"
expect 0 "" m.ctr --emit=ir -o /dev/null; [ -c /dev/null ] || fail "/dev/null is gone"
expect 1 "No such file or directory" m.ctr --emit=ir -o none/x
expect 1 "No such file or directory" m.ctr -o none/x
if [ -w /dev/full ]; then
  expect 1 "No space left on device" m.ctr --emit=ir -o /dev/full
  "$ctrc" m.ctr --emit=ir > /dev/full 2> err; [ $? = 1 ] || fail "a full disk behind stdout goes unnoticed"
  "$ctrc" --help > /dev/full 2> err; [ $? = 1 ] || fail "a full disk behind --help goes unnoticed"
fi
nothing_left

# ---- no linker ----
PATH=/nonexistent "$ctrc" m.ctr -o unlinked > out 2> err
[ $? = 1 ] && grep -q "cc" err && [ ! -e unlinked ] || { fail "without cc: expected exit code 1 and a message"; cat err; }

# ---- a moved tree, and one that misses a part ----
mkdir -p moved/bin moved/lib moved/share
cp "$ctrc" moved/bin/; cp -r "$(dirname "$ctrc")/../lib/ctrc" moved/lib/; cp -r "$(dirname "$ctrc")/../share/ctrc" moved/share/
moved/bin/ctrc m.ctr -o by_moved > out 2> err || { fail "a moved tree doesn't compile"; cat err; }
rm moved/lib/ctrc/libctrc_rt.a
moved/bin/ctrc m.ctr -o by_moved > out 2> err; [ $? = 1 ] && grep -q "can't find the runtime library" err || fail "no message for a missing runtime library"
rm -r moved/share
moved/bin/ctrc check m.ctr > out 2> err; [ $? = 1 ] && grep -q "can't find the layer library" err || fail "no message for a missing layer library"

# ---- synth ----
expect 0 "" synth m.ctr --rows 50 --seed 3 -o log; prints 'best possible AUC 0\.[0-9]+'
[ "$(wc -l < log)" = 50 ] || fail "synth --rows 50 wrote $(wc -l < log) lines"
expect 0 "" synth m.ctr --rows 50 --seed=4 -o log2; ! cmp -s log log2 || fail "two seeds, one log"
expect 1 "No such file or directory" synth m.ctr --rows 50 -o none/log

exit $bad
