#!/usr/bin/env bash
# Exact passes are exact: exact_passes.sh.inc says how far. With CTRC_NIGHTLY of every model, else of those whose
# graphs differ most; exact_interpreted.sh takes the interpreter through all of them.
models="models/wdl models/deepfm models/dlrm models/mmoe tests/e2e/onehots"
if [ -n "${CTRC_NIGHTLY:-}" ]; then
  models=$(grep -l '^model ' models/*.ctr models/papers/*.ctr tests/e2e/onehots.ctr | sed 's/\.ctr$//')
fi
. tests/e2e/exact_passes.sh.inc
