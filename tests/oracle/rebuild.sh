#!/usr/bin/env bash
# Makes the records anew (MODEL.json): after a change of a model, of a weight's name or of the generator of initial
# values. Look at the differences before committing them. With --logs the logs too.
#   BUILD=build/release PYTHON=python bash tests/oracle/rebuild.sh [--logs] [MODEL…]
# PYTHON needs torch, numpy and xxhash; without it a virtual environment is made in build/venv.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
BUILD=$(cd "${BUILD:-$root/build/release}" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
if [ -z "${PYTHON:-}" ]; then
  PYTHON=$root/build/venv/bin/python
  [ -x "$PYTHON" ] || python3 -m venv "$root/build/venv"
  "$PYTHON" -m pip install --quiet torch numpy xxhash
fi
if [ "${1:-}" = --logs ]; then
  shift
  "$PYTHON" "$here/make_logs.py" "$work"
  for name in elm adult bank; do gzip -9nc "$work/$name.csv" > "$here/$name.csv.gz"; done
fi
for model in ${*:-wdl deepfm dlrm adult bank}; do
  log=$here/elm.csv.gz
  case $model in adult | bank) log=$here/$model.csv.gz ;; esac
  # the settings are the oracle's own
  read -ra defines < <("$PYTHON" "$here/oracle.py" "$model" --defines)
  "$BUILD/bin/ctrc" "$root/models/$model.ctr" "${defines[@]}" -o "$work/$model"
  "$work/$model" train --data "$log" --steps 0 --save "$work/start-$model" > /dev/null
  "$PYTHON" "$here/oracle.py" "$model" --log "$log" --weights "$work/start-$model/weights.safetensors" --out "$here/$model.json"
  echo "$here/$model.json"
done
