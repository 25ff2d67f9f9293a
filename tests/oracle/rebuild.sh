#!/usr/bin/env bash
# Makes the records anew (MODEL.json): after a change of a model, of a weight's name or of the generator of initial
# values. Look at the differences before committing them. With --logs the logs too.
#   BUILD=build/release PYTHON=python bash tests/oracle/rebuild.sh [--logs] [MODEL…]
# PYTHON needs torch, numpy and xxhash; without it a virtual environment is made in build/venv.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/models.sh"
BUILD=$(cd "${BUILD:-$root/build/release}" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
if [ -z "${PYTHON:-}" ]; then
  PYTHON=$root/build/venv/bin/python
  [ -x "$PYTHON" ] || python3 -m venv "$root/build/venv"
  "$PYTHON" -m pip install --quiet torch numpy xxhash
fi
if [ "${1:-}" = --logs ]; then
  shift
  "$PYTHON" -B "$here/make_logs.py" "$work"
  for log in elm.csv adult.csv bank.csv taobao.csv amazon.tsv amazon.tsv_neg; do
    gzip -9nc "$work/$log" > "$here/$log.gz"
  done
  cp "$work"/*_voc.txt "$here"
fi
for model in ${*:-$all_models}; do
  # the log and the settings are the oracle's own
  log=$here/$("$PYTHON" -B "$here/oracle.py" "$model" --log)
  read -ra defines < <("$PYTHON" -B "$here/oracle.py" "$model" --defines)
  mapfile -t arguments < <(arguments_of "$model" "$work")
  "$BUILD/bin/ctrc" "${arguments[@]}" "${defines[@]}" -o "$work/$model"
  "$work/$model" train --data "$log" --steps 0 --save "$work/start-$model" > /dev/null
  "$PYTHON" -B "$here/oracle.py" "$model" --weights "$work/start-$model/weights.safetensors" --out "$here/$model.json"
  rm -r "$work/start-$model"
  echo "$here/$model.json"
done
