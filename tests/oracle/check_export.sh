#!/usr/bin/env bash
# What `export` writes of the six reference models, trained on the oracle's logs, and of one with other ops. ONNX: by onnxruntime the same
# predictions as the program's own, to 1e-5; the file's structure by our own decoder. Safetensors: the reference
# implementation loads it and predicts the same, to 1e-5. Python is $CTRC_PYTHON, or python3; without its packages the
# parts that need none of them run.
#   check_export.sh [MODEL…]
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
. "$here/models.sh"
BUILD=$(cd "${BUILD:-$root/build/release}" && pwd) || exit 1
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python=${CTRC_PYTHON:-python3}
bad=0
quick=$BUILD/bin/ctrc_quick # as ctrc, but LLVM doesn't optimise
[ -z "${CTRC_NIGHTLY:-}" ] || quick=$BUILD/bin/ctrc
fail() { echo "FAILED: $*"; bad=1; }
has_packages() { "$python" -c "import $1" 2> /dev/null; }
runs_onnx=$(has_packages "numpy, onnx, onnxruntime" && echo yes)
runs_reference=$(has_packages "numpy, torch" && echo yes)
[ -n "$runs_onnx" ] || echo "skipped: ONNX by onnxruntime: $python has no numpy, onnx, onnxruntime"
[ -n "$runs_reference" ] || echo "skipped: the reference model: $python has no numpy, torch"
is() { [ "$2" = "$3" ] || fail "$1: '$2', expected '$3'"; }

# compare_onnx LOG: what the program in ./$model says with the checkpoint in ./ckpt, against its ONNX file
compare_onnx() {
  ./"$model" predict --data "$1" --load ckpt --header > p.csv || fail "$model: doesn't predict"
  ./"$model" export --load ckpt --format onnx -o m.onnx || fail "$model: no ONNX file"
  "$BUILD/tests/onnx_structure" m.onnx > structure || fail "$model: ONNX"
  echo "$model: $(cat structure)"
  [ -z "$runs_onnx" ] ||
    "$python" "$here/onnx_check.py" m.onnx --log "$1" --vocabularies "$here" --predictions p.csv ||
    fail "$model: ONNX by onnxruntime"
}

# ---- every op along a list, with empty and cut ones; then with predictions that are corrected ----
cd "$work" || exit 1
model=lists
awk 'BEGIN {
  print "y,a,x,u,n,b"
  for (i = 0; i < 60; i++) {
    k = i * 7 % 8; a = x = ""
    for (j = 0; j < k; j++) { a = a (j ? ";" : "") "a" (i * j % 13); x = x (j ? ";" : "") (j == 2 ? "" : (i + j) % 9 / 4) }
    printf "%d,%s,%s,%s,%s,%s\n", i % 3 == 0, a, x, i % 5 ? "u" i % 7 : "", i % 4 ? i % 6 : "", i % 3 ? "b" i % 4 "|b1" : ""
  }
}' > lists.csv
"$quick" "$here/lists.ctr" -o lists 2> err || { cat err; fail "lists: doesn't compile"; }
for share in "" "--keep-negatives 0.5"; do
  # shellcheck disable=SC2086
  ./lists train --data lists.csv $share --save ckpt > out 2>&1 || { cat out; fail "lists: doesn't train"; }
  compare_onnx lists.csv
done
is "lists: loops" "$(sed 's/.*bodies //' structure)" 1

light=${CTRC_TEST_LIGHT:+dien} # in the sanitizers' tree, whose programs take long
for model in ${*:-${light:-wdl deepfm dlrm mmoe din dien}}; do
  record=$here/$model.json log=$here/$(sed -n 's/.*"log": "\([^"]*\)".*/\1/p' "$here/$model.json")
  mapfile -t arguments < <(arguments_of "$model" "$work")
  read -ra defines < <("$BUILD/tests/oracle_check" "$record" --defines)
  cd "$work" || exit 1
  "$quick" "${arguments[@]}" "${defines[@]}" -o "$model" || { fail "$model: doesn't compile"; continue; }
  ./"$model" train --data "$log" --epochs 2 --save ckpt > /dev/null || { fail "$model: doesn't train"; continue; }
  compare_onnx "$log"
  ./"$model" export --load ckpt --format safetensors -o m.safetensors || fail "$model: no safetensors file"
  # gru and augru are loops; nothing else is
  is "$model: loops" "$(sed 's/.*bodies //' structure)" "$([ "$model" = dien ] && echo 2 || echo 0)"
  for weights in m.safetensors ckpt/weights.safetensors; do # what was exported; the checkpoint itself, with its slots
    [ -z "$runs_reference" ] ||
      "$python" "$here/predict.py" "$model" --weights $weights --predictions p.csv || fail "$model: reference, $weights"
  done
  rm -rf ckpt m.onnx m.safetensors "$model"
done
exit $bad
