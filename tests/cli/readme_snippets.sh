#!/usr/bin/env bash
# Every `ctr` block of models/README.md, README.md and ir/README.md is a whole program: it must pass `ctrc check` without
# a warning. The functions shown in ir/README.md are what the compiler prints, and so is what passes/README.md shows behind
# a line `$ ctrc …` (CTRC_UPDATE_GOLDEN=1 writes them anew).
set -u
ctrc=$BUILD/bin/ctrc
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
n=0; bad=0
for page in models/README.md README.md ir/README.md; do
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
# shown WHEN PASS FUNC: of ir/README.md's program, before or after that pass
shown() {
  "$ctrc" "$dir/five.ctr" --march=x86-64-v3 "--print-$1=$2" --emit=plan -o "$dir/plan" 2> "$dir/err" | awk -v f="$3" '$1 == "func" { on = $2 == f } on'
  grep -v "^$1 $2:$" "$dir/err"
}
cp "$dir/ir_README.md.1.ctr" "$dir/five.ctr"
awk '/^; (before|after) .*, func / && fence { print $2, $3, $5 } { fence = $0 == "```ir" }' ir/README.md | tr -d , > "$dir/list"
k=0
while read -r when pass func; do
  k=$((k + 1))
  awk -v want="; $when $pass, func $func" '$0 == want { on = 1; next } $0 == "```" { on = 0 } on' ir/README.md > "$dir/is"
  shown "$when" "$pass" "$func" > "$dir/should"
  if [ -n "${CTRC_UPDATE_GOLDEN:-}" ]; then
    awk -v want="; $when $pass, func $func" -v from="$dir/should" '$0 == "```" { on = 0 } !on
      $0 == want { on = 1; while ((getline line < from) > 0) print line }' ir/README.md > "$dir/page" && cp "$dir/page" ir/README.md
  elif ! diff "$dir/is" "$dir/should" > "$dir/diff"; then
    echo "ir/README.md: func $func $when $pass isn't what the compiler prints:"; cat "$dir/diff"; bad=1
  fi
done < "$dir/list"
# what the text below the plan names is there
shown after plan-memory train > "$dir/plan.ir"
sed -n '/^Phase 0 fetches rows/,/^$/p' ir/README.md | grep -oE '`(fixed|local|uniq|input|ld|domain)[=+][^`]*`' | tr -d '`' > "$dir/named"
[ "$(wc -l < "$dir/named")" -ge 6 ] || { echo "ir/README.md no longer explains its plan"; bad=1; }
while read -r name; do grep -qE -- "(^|[ =])${name//+/\\+}( |\$)" "$dir/plan.ir" || { echo "ir/README.md: the plan it explains has no $name"; bad=1; }; done < "$dir/named"
[ "$k" = 3 ] || { echo "only $k functions found in ir/README.md"; bad=1; }
[ "$n" -ge 5 ] || { echo "only $n snippets found"; bad=1; }
# ---- blocks of passes/README.md that begin with a command: what it prints ----
mkdir "$dir/bin"; ln -s "$(readlink -f "$ctrc")" "$dir/bin/ctrc"
export XDG_CACHE_HOME=$dir/cache # plans keep measured rates there
said=0
while IFS= read -r line; do
  echo "$line" >> "$dir/anew"
  case $line in '$ ctrc '*) ;; *) continue ;; esac
  said=$((said + 1))
  (export PATH="$dir/bin:$PATH"; eval "${line#$ }") >> "$dir/anew"
  while IFS= read -r line; do [ "$line" != '```' ] || break; done # what the page has
  echo '```' >> "$dir/anew"
done < passes/README.md
[ "$said" -ge 3 ] || { echo "only $said commands found in passes/README.md"; bad=1; }
if [ -n "${CTRC_UPDATE_GOLDEN:-}" ]; then cp "$dir/anew" passes/README.md
elif ! diff passes/README.md "$dir/anew" > "$dir/diff"; then echo "passes/README.md isn't what the compiler prints:"; cat "$dir/diff"; bad=1; fi

for v in uid mid cat; do printf 'default\na\nb\n' > "$dir/${v}_voc.txt"; done
for f in models/*.ctr models/papers/*.ctr; do
  grep -q '^model ' "$f" || continue   # imported by others
  logs=(); grep -q 'amazon.ctr"' "$f" && logs=(-D "logs=$dir")
  out=$("$ctrc" check "$f" "${logs[@]}" 2>&1) || { echo "$f does not compile:"; echo "$out"; bad=1; continue; }
  [ -z "$out" ] || { echo "$f is not clean:"; echo "$out"; bad=1; }
done
exit $bad
