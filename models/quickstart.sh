#!/usr/bin/env bash
# Installs what is missing (Debian 12), builds ctrc, compiles a model, makes a log for it and trains on it.
#   bash models/quickstart.sh
set -euo pipefail
cd "$(dirname "$0")/.."
bash tests/install.sh
echo "== building ctrc"
bash tests/build.sh release
ctrc=build/release/bin/ctrc
work=build/quickstart
mkdir -p "$work"
echo "== models/deepfm.ctr -> $work/deepfm"
"$ctrc" models/deepfm.ctr -o "$work/deepfm"
echo "== two logs with the model's own columns and a planted signal"
"$ctrc" synth models/deepfm.ctr --rows 60000 --seed 1 -o "$work/train.csv"
"$ctrc" synth models/deepfm.ctr --rows 10000 --seed 2 -o "$work/eval.csv"
echo "== training; compare the AUC with the best possible on eval.csv, above"
"$work/deepfm" train --data "$work/train.csv" --eval-data "$work/eval.csv" --epochs 2 --save "$work/checkpoint"
echo "== the first predictions"
"$work/deepfm" predict --data "$work/eval.csv" --load "$work/checkpoint" -o "$work/predictions.csv"
head -n 3 "$work/predictions.csv"
