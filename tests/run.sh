#!/usr/bin/env bash
# Installs what is missing (Debian 12), builds ctrc twice (release; AddressSanitizer + UBSan) and runs all tests.
#   bash tests/run.sh [ctest arguments, such as -R reader]
set -uo pipefail
cd "$(dirname "$0")/.."
bash tests/install.sh || exit 1
jobs=$(nproc); [ "$jobs" -le 4 ] || jobs=4
failed=0
for preset in release asan; do
  echo "== building $preset"
  bash tests/build.sh "$preset" || exit 1
  echo "== testing $preset"
  ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure --no-tests=error "$@" || failed=1
done
exit $failed
