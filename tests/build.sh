#!/usr/bin/env bash
# Configures and builds one preset: bash tests/build.sh release|asan. Quiet unless something fails.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
mkdir -p build
log=build/$preset.log
if ! { cmake --preset "$preset" && cmake --build --preset "$preset"; } >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  echo "build.sh: building $preset failed; the whole output is in $log" >&2
  exit 1
fi
