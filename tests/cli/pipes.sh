#!/usr/bin/env bash
# Parquet and databases through a pipe: the same training as from a file, to the byte. Uses what is there of duckdb (the
# program, or its Python package; $CTRC_PYTHON is a python to ask) and sqlite3.
. tests/cli/common.sh.inc

clicks_ctr > clicks.ctr
build clicks clicks.ctr
clicks_csv 5000 > log.csv
expect 0 ./clicks train --data log.csv --save file; quiet
python=${CTRC_PYTHON:-python3}
tried=""

# ---- DuckDB ----
if has duckdb; then
  duck() { duckdb -c "$1"; }
elif has "$python" && "$python" -c 'import duckdb' 2> /dev/null; then
  duck() { "$python" -c 'import sys, duckdb; duckdb.sql(sys.argv[1])' "$1"; }
fi
if declare -F duck > /dev/null; then
  tried="$tried duckdb"
  # lists are lists in the Parquet file
  duck "COPY (SELECT click, \"user\", price, string_split(tags, ';') AS tags FROM read_csv('log.csv', header = true, all_varchar = true)) TO 'log.parquet' (FORMAT parquet)" > /dev/null || fail "no Parquet file"
  query="SELECT click, \"user\", price, array_to_string(tags, ';') AS tags FROM 'log.parquet'"
  pipe() { duck "COPY ($query) TO '/dev/stdout' (FORMAT csv, HEADER)"; }
  set -o pipefail
  pipe | expect 0 ./clicks train --data - --save pipe; quiet; same file/weights.safetensors pipe/weights.safetensors
  pipe | expect 0 ./clicks train --data - --epochs 3 --cache memory --save pipe3; expect 0 ./clicks train --data log.csv --epochs 3 --save file3
  same file3/weights.safetensors pipe3/weights.safetensors
  counts() { grep -oE '"(name|filled|distinct|count|rows)":[^,}]*' out; } # not the AUC: rows have other bytes, so other halves
  expect 0 ./clicks check --data log.csv --json; counts > a; pipe > piped.csv; expect 0 ./clicks check --data - --json < piped.csv; counts > b; same a b
  pipe | expect 0 ./clicks predict --data - --load file; cp out p; expect 0 ./clicks predict --data log.csv --load file; same out p
fi

# ---- SQLite ----
if has sqlite3; then
  tried="$tried sqlite3"
  sqlite3 log.db -cmd '.mode csv' '.import log.csv log' || fail "no SQLite file"
  sqlite3 -header -csv log.db 'SELECT click, user, price, tags FROM log ORDER BY rowid' | expect 0 ./clicks train --data - --save sqlite; quiet
  same file/weights.safetensors sqlite/weights.safetensors
fi

# ---- pipes that have names are read once, as stdin is ----
mkfifo named
fed() { local code=$1; shift; (exec 3<> named; cat log.csv > named & expect "$code" ./clicks "$@"; kill $! 2> /dev/null; exit $bad) || bad=1; }
fed 2 train --data named --epochs 2; says "error: --data named: a pipe can be read once only
hint: add --epochs 1 or --cache memory"; silent
fed 2 train --data named --epochs 1 --validate-first 10; says "error: --data named: a pipe can be read once only, --validate-first reads it twice"; silent
fed 2 train --data named --epochs 1 --eval-fraction 0.1; says "error: --data named: a pipe can be read once only, --eval-fraction reads it twice"; silent
fed 2 train --data log.csv --epochs 2 --eval-data named; says "error: --eval-data named: a pipe can be read once only
hint: add --epochs 1"; silent
fed 2 train --data log.csv --epochs 1 --eval-every 10 --eval-data named; says "error: --eval-data named: a pipe can be read once only, --eval-every reads it again"; silent
expect 0 ./clicks train --data <(cat log.csv) --save process; quiet; same file/weights.safetensors process/weights.safetensors
expect 0 ./clicks train --data <(cat log.csv) --epochs 3 --cache memory --save process3
expect 0 ./clicks train --data log.csv --epochs 3 --save file3; same file3/weights.safetensors process3/weights.safetensors
{ cat log.csv > named & } 2> /dev/null; expect 0 ./clicks train --data named --save process; quiet; same file/weights.safetensors process/weights.safetensors

# ---- a source that breaks off ----
# A pipe cannot tell that from the end of the data: pipefail does.
(set -o pipefail; { head -n 1000 log.csv; false; } | ./clicks train --data - --save broken > out 2> err) && fail "the source's failure goes unnoticed"

[ $bad = 0 ] || exit 1
[ -n "$tried" ] || { echo "skipped: neither duckdb (program or Python package) nor sqlite3 is at hand"; exit 77; }
echo "through a pipe from:$tried"
