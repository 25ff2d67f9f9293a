#!/usr/bin/env bash
# Every `ctr` block of models/README.md and README.md is a whole program: it must pass `ctrc check` without a warning.
set -u
ctrc=$BUILD/bin/ctrc
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
n=0; bad=0
for page in models/README.md README.md; do
  [ -f "$page" ] || continue
  awk -v dir="$dir" -v page="${page//\//_}" '
    /^```ctr$/ { inside = 1; k++; f = dir "/" page "." k ".ctr"; next }
    /^```$/ { inside = 0 }
    inside { print > f }' "$page"
done
for f in "$dir"/*.ctr; do
  n=$((n + 1))
  out=$("$ctrc" check "$f" 2>&1) || { echo "$f does not compile:"; echo "$out"; bad=1; continue; }
  [ -z "$out" ] || { echo "$f is not clean:"; echo "$out"; bad=1; }
done
[ "$n" -ge 4 ] || { echo "only $n snippets found"; bad=1; }
for v in uid mid cat; do printf 'default\na\nb\n' > "$dir/${v}_voc.txt"; done
for f in models/*.ctr models/papers/*.ctr; do
  grep -q '^model ' "$f" || continue   # imported by others
  logs=(); grep -q 'amazon.ctr"' "$f" && logs=(-D "logs=$dir")
  out=$("$ctrc" check "$f" "${logs[@]}" 2>&1) || { echo "$f does not compile:"; echo "$out"; bad=1; continue; }
  [ -z "$out" ] || { echo "$f is not clean:"; echo "$out"; bad=1; }
done
exit $bad
