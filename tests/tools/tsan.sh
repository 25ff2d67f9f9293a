#!/usr/bin/env bash
# ThreadSanitizer over programs that train, evaluate and predict: the runtime is built with it, and generated code is
# instrumented too (LLVM's own pass over --emit=llvm, vectors taken apart first, since accesses of more than 16 bytes
# are none of its business). Barriers are atomics, which it understands, so nothing is suppressed.
#   bash tests/tools/tsan.sh [options]
#     --only wdl,few     models (default: the six reference models; any of models/ or tests/bench/)
#     --steps N          of training (default 12)     --threads N   (default 2)
#     --ctrc FILE        the compiler (default: built into build/release)
#     --runtime FILE     libctrc_rt.a, built with -fsanitize=thread (default: built into build/tsan)
#     --plain            generated code as ctrc makes it: only the runtime is watched
#     --fault            generated code without its barriers: is that found? Exit code 1 if not; prints the first report
#     --work DIR         what is removed and made anew (default build/tsan-run)
# Prints every report in full; exit code 1 if there is one. Not watched: oneDNN, OpenMP, libc. Runs some 50 times slower.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/bench/measure.sh.inc
steps=12 threads=2 plain=no fault=no runtime="" work=build/tsan-run
while [ $# -gt 0 ]; do
  case $1 in
    --steps) steps=$2; shift 2 ;; --runtime) runtime=$2; shift 2 ;; --threads) threads=$2; shift 2 ;; --plain) plain=yes; shift ;; --fault) fault=yes; shift ;; --work) work=$2; shift 2 ;;
    --only | --ctrc | --logs) option "$@"; shift $taken ;;
    *) die "unknown option $1 (see the head of $0)" ;;
  esac
done
for m in $only; do [ -f "$(model_of "$m")" ] || die "unknown model $m: expected some of models/ or tests/bench/"; done
if [ -z "$ctrc" ]; then bash tests/install.sh; bash tests/build.sh release; ctrc=$PWD/build/release/bin/ctrc; fi
if [ -z "$runtime" ]; then
  mkdir -p build
  say "building the runtime in build/tsan"
  { cmake -S . -B build/tsan -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O1 -g" -DCMAKE_C_FLAGS=-fsanitize=thread &&
    cmake --build build/tsan -j2 --target ctrc_rt; } > build/tsan.log 2>&1 || { tail -n 30 build/tsan.log >&2; die "building failed; the whole output is in build/tsan.log"; }
  runtime=build/tsan/lib/ctrc/libctrc_rt.a
fi
nm "$runtime" 2> /dev/null | grep __tsan_read > /dev/null || die "$runtime was not built with -fsanitize=thread"
tool() { if command -v "$1-19" > /dev/null; then echo "$1-19"; else echo "/usr/lib/llvm-19/bin/$1"; fi; }
rm -rf "$work"; mkdir -p "$work"; work=$(cd "$work" && pwd)
buckets=1000
export TSAN_OPTIONS="exitcode=0 halt_on_error=0 history_size=4 report_signal_unsafe=1 log_path=$work/report"
named=""
for m in $only; do if [ "$(kind_of "$m")" = own ]; then prepare_own $((steps * batch)) "$m"; else named="$named $m"; fi; done
[ -z "$named" ] || prepare_logs $((steps * batch)) $named

# link MODEL: its program, instrumented
link() {
  local m=$1 object=$work/$1.o
  if [ $plain = yes ]; then
    compile "$object" "$m" --emit=obj
  else
    compile "$work/$m.ll" "$m" --emit=llvm
    sed -i '/^attributes #/s/{ \(.*noinline\)/{ sanitize_thread \1/' "$work/$m.ll"
    grep -q 'sanitize_thread' "$work/$m.ll" || die "$m: no function to instrument"
    [ $fault = no ] || sed -i '/call void @rt_barrier/d' "$work/$m.ll"
    "$(tool opt)" -scalarize-load-store -passes='function(scalarize-masked-mem-intrin,scalarizer),tsan-module,function(tsan)' "$work/$m.ll" -o "$work/$m.bc"
    "$(tool llc)" -O0 -mcpu=native -filetype=obj -relocation-model=pic "$work/$m.bc" -o "$object"
    rm "$work/$m.ll" "$work/$m.bc"
  fi
  cc -fsanitize=thread "$object" "$runtime" -ldnnl -lxxhash -lz -lzstd -ljansson -lpthread -lm -o "$work/$m"
}
# run MODEL ARGUMENTS…: the program under ThreadSanitizer; it must do its work all the same
run() {
  local m=$1; shift
  setarch "$(uname -m)" -R "$work/$m" "$@" > "$work/out" 2> "$work/err" || { cat "$work/err" >&2; cat "$work"/report* >&2 2> /dev/null || true; die "$m $* failed"; }
}
total=0
for m in $only; do
  link "$m"; rm -f "$work"/report*; rm -rf "$work/ckpt"
  half=$((steps / 2 < 1 ? 1 : steps / 2))
  if [ $fault = yes ]; then # ends with the first report
    TSAN_OPTIONS="$TSAN_OPTIONS halt_on_error=1" setarch "$(uname -m)" -R "$work/$m" train --data "$(file_of "$m" train)" --threads "$threads" --epochs 1 --steps "$steps" > "$work/out" 2> "$work/err" || true
    grep -q '^WARNING: ThreadSanitizer: data race' "$work"/report* 2> /dev/null || die "$m: a program without barriers, and nothing is found"
    cat "$work"/report*; echo "$m: found at once, without barriers"
    continue
  fi
  run "$m" train --data "$(file_of "$m" train)" --eval-data "$(file_of "$m" eval)" --threads "$threads" --epochs 2 --steps "$steps" --cache memory --save "$work/ckpt" --save-every "$half" --json
  run "$m" train --data "$(file_of "$m" train)" --threads "$threads" --epochs 2 --steps $((steps + half)) --save "$work/ckpt" --resume --log "$work/log.jsonl" --log-every 2 --json
  run "$m" eval --data "$(file_of "$m" eval)" --threads "$threads" --load "$work/ckpt" --json
  run "$m" predict --data "$(file_of "$m" eval)" --threads "$threads" --load "$work/ckpt" -o "$work/predictions"
  n=$(cat "$work"/report* 2> /dev/null | grep -c '^WARNING: ThreadSanitizer' || true)
  [ "$n" = 0 ] || cat "$work"/report*
  echo "$m: $n reports of ThreadSanitizer ($((steps + half)) steps on $threads threads, evaluation, prediction; generated code $([ $plain = yes ] && echo "not " || true)instrumented)"
  total=$((total + n))
done
rm -rf "$work"
[ $total = 0 ]
