#!/usr/bin/env bash
# Exact passes are exact for attention and recurrent layers too: exact_passes.sh.inc says how far.
models="models/din models/dien"
each="models/dien"
. tests/e2e/exact_passes.sh.inc
