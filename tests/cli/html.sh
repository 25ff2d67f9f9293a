#!/usr/bin/env bash
# --emit=html in a browser: html_checks.js, added to a copy of the page, drives slider, mouse, keys and tables and
# says in the title what came of it. Then the same with a page that is broken on purpose: each must be noticed.
. "$(dirname "$0")/common.sh.inc"

# ---- without a browser ----
expect 0 "$ctrc" "$source_dir/models/deepfm.ctr" --emit=html -o deepfm.html; quiet; silent
expect 0 "$ctrc" "$source_dir/models/deepfm.ctr" --emit=html; quiet; same out deepfm.html
[ "$(grep -c '<script' deepfm.html)" = 2 ] || fail "expected two script elements"
expect 0 "$ctrc" "$source_dir/models/adult.ctr" --emit=ir -o adult.ir
expect 0 "$ctrc" adult.ir --emit=html -o from_ir.html; quiet
for f in deepfm.html from_ir.html; do
  # addresses in what the browser reads, the data aside; a namespace is a name
  sed '/<script type="application\/json"/d' $f | grep -oE '[a-z]+://[^ "'"'"'`]*' | grep -v '^http://www.w3.org/2000/svg$' > found
  [ ! -s found ] || { fail "$f names addresses:"; cat found; }
done

# The sanitizers see the compiler, and the page is the same in both trees.
if [ -n "${CTRC_TEST_LIGHT:-}" ]; then
  [ $bad = 0 ] && echo "CTRC_TEST_LIGHT: the page is driven by a browser in the release tree alone"
  exit $bad
fi

find_browser
if [ -z "$browser" ]; then
  [ $bad = 0 ] || exit 1
  echo "skipped: no chromium at hand; the page was only checked without one"; exit 77
fi

# ---- a large one: more lines than any of the models' training graphs ----
awk 'BEGIN {
  print "model large\ninput csv() {\n  y label"
  for (i = 0; i < 60; i++) print "  c" i " string"
  print "}"
  for (i = 0; i < 60; i++) printf "e%d = embed(hash(c%d, 1000), table(1000, 16))\nm%d = mlp(e%d * %d, [32, 16, 8], norm = batchnorm)\n", i, i, i, i, i + 1
  printf "z = concat("; for (i = 0; i < 60; i++) printf "%sm%d", i ? ", " : "", i
  print ") |> mlp([64, 32], norm = batchnorm) |> dense(1)\npredict p = sigmoid(z)\nloss bce_logits(z, y)\noptimizer adam(lr = 0.1)\ntrain(batch = 64, epochs = 1)"
}' > large.ctr
expect 0 "$ctrc" large.ctr --emit=html -o large.html; quiet
for v in uid mid cat; do printf 'default\na\nb\n' > ${v}_voc.txt; done
expect 0 "$ctrc" "$source_dir/models/din.ctr" -D logs=. --emit=html -o din.html; quiet
expect 0 "$ctrc" "$source_dir/models/dien.ctr" -D logs=. --emit=html -o dien.html; quiet
expect 0 "$ctrc" "$source_dir/models/deepfm.ctr" '--enable=micro-batch(n=8)' --emit=html -o blocks.html

# title PAGE WIDTH: what a page's script leaves there
title() {
  HOME=$work timeout 240 $browser --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$work/profile-$1" \
    --window-size="$2",900 --dump-dom "file://$work/$1" < /dev/null 2> "browser-$1.log" | grep -oE '<title>[^<]*' | head -n 1 | cut -c8-
}
# drive PAGE WIDTH NAME [stop]: leaves the title in NAME.title. Two at a time; then `wait`. stop: at the first failure.
started=0
drive() {
  { cat "$1"; echo "<script>stopAtFirst = '${4:-}'</script><script>"; cat "$source_dir/tests/cli/html_checks.js"; echo '</script>'; } > "$3.driven.html"
  title "$3.driven.html" "$2" > "$3.title" &
  started=$((started + 1)); [ $((started % 2)) = 1 ] || wait
}
# A browser that can't even start is no fault of the page's.
printf '<title>none</title><script>document.title = "starts"</script>' > start.html
if [ "$(title start.html 1280)" != starts ]; then
  tail -n 3 browser-start.html.log
  [ $bad = 0 ] || exit 1
  echo "skipped: $browser doesn't start here; the page was only checked without it"; exit 77
fi

runs="blocks:1280 deepfm:800 dien:1280 large:1280"
for run in $runs; do drive "${run%:*}.html" "${run#*:}" "${run%:*}"; done

# ---- a broken page is noticed ----
faults=""
broken() { # NAME WHAT SED
  sed "$3" din.html > "$1.html"
  ! cmp -s din.html "$1.html" || { fail "nothing to break: $2"; return; }
  faults="$faults $1"; echo "$2" > "$1.what"
  drive "$1.html" 1280 "$1" stop
}
broken order "sorts the wrong way" 's/const sign = this.down ? -1 : 1/const sign = 1/'
broken kin "misses ancestors" 's/^    for (const x of inputsOf(next)) {/    for (const x of inputsOf(next).slice(1)) {/'
broken column "marks the column beside" 's/Math.min(col - 1, text.length)/Math.min(col, text.length)/'
broken lines "takes changed lines for equal ones" 's/const old = pairs.get(line);$/const old = pairs.get(line) || line;/'
broken text "drops a character of the text" 's/parent.append(text.slice(at));/parent.append(text.slice(at + 1));/'
broken keys "has deaf keys" 's/ArrowRight: 1/ArrowRight: 0/'
broken words "keeps what passes did to itself" 's/return \[words && words.replace.*/return "";/'
wait

for run in $runs; do
  got=$(cat "${run%:*}.title")
  case "$got" in PASSED*) echo "${run%:*}: $got" ;; *) fail "${run%:*} at ${run#*:} px: ${got:-no title}" ;; esac
done
ready=$(sed -n 's/.*ready after \([0-9]*\) ms.*/\1/p' large.title)
[ "${ready:-99999}" -lt 10000 ] || fail "the large page is ready after ${ready:-?} ms"
for name in $faults; do
  case "$(cat "$name.title")" in FAILED*) ;; *) fail "a page that $(cat "$name.what") passes" ;; esac
done

[ $bad = 0 ] && echo "the page does what it should in $browser"
exit $bad
