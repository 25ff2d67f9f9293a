#!/usr/bin/env bash
# Exact passes are exact: exact_passes.sh.inc says how far.
models="wdl deepfm dlrm adult bank"
. tests/e2e/exact_passes.sh.inc
