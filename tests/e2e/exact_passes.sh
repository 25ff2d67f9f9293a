#!/usr/bin/env bash
# Exact passes are exact: exact_passes.sh.inc says how far. With CTRC_NIGHTLY each pass and every model; else those
# models whose graphs differ most, and of most of them only all passes at once: making programs takes the time.
# exact_interpreted.sh takes the interpreter through all.
models="models/wdl models/deepfm models/dlrm models/mmoe tests/e2e/onehots"
each="models/deepfm tests/e2e/onehots"
if [ -n "${CTRC_NIGHTLY:-}" ]; then
  models=$(grep -l '^model ' models/*.ctr models/papers/*.ctr tests/e2e/onehots.ctr | sed 's/\.ctr$//')
fi
. tests/e2e/exact_passes.sh.inc
