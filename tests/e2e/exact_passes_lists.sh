#!/usr/bin/env bash
# Exact passes are exact for attention, recurrent layers and several tasks too: exact_passes.sh.inc says how far.
models="din dien mmoe"
. tests/e2e/exact_passes.sh.inc
