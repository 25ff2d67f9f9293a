#!/usr/bin/env bash
# Criteo's format, as its logs come: TSV without a header, counts that are negative, huge or empty, categories that
# are empty, lines that end in tabs, CRLF, a last line without a newline. Twenty rows, none of which may be lost.
. tests/cli/common.sh.inc

# row LABEL COUNTS CATEGORIES: 1 + 13 + 26 fields; each argument is a list of words whose last is repeated, '.' is an
# empty field.
row() {
  awk -v label="$1" -v counts="$2" -v words="$3" 'BEGIN {
    line = label
    n = split(counts, c, " "); for (i = 1; i <= 13; i++) line = line "\t" field(c[i < n ? i : n])
    n = split(words, w, " ");  for (i = 1; i <= 26; i++) line = line "\t" field(w[i < n ? i : n])
    printf "%s", line
  }
  function field(text) { return text == "." ? "" : text }'
}
rows() {
  row 0 "1 1 5 0 1382 4 15 2 181 1 2 . 2" "68fd1e64 80e26c9b fb936136 7b4723c4 25c83c98 7e0ccccf"; echo
  row 1 "2 0 44 1 102 8 2 2 4 1 1 . 4" "68fd1e64 f0cf0024 6f67f7e5 41274cd7 25c83c98 fe6b92e5"; echo
  row 0 "." "."; echo                                                 # nothing but the label: 39 tabs
  row 1 "." "."; echo
  row 0 "-1" "05db9164"; echo                                         # every count negative
  row 1 "-3 -2 -1 0" "05db9164 ."; echo
  row 0 "0" ". 05db9164"; echo
  row 1 "2147483647" "ffffffff"; echo                                 # the largest 32-bit count, and beyond
  row 0 "4294967296 9999999999" "00000000"; echo
  row 0 ". -1 ." ". 68fd1e64 ."; echo
  row 1 "1 . 1 . 1 . 1 . 1 . 1 . 1" "68fd1e64 . 80e26c9b . fb936136 ."; echo
  row 0 "007 +5 -0 0" "05db9164"; echo                                # unusual spellings
  row 1 "3.0 1e3 2.50 4" "05db9164"; echo                             # as pandas writes counts that may be missing
  row 0 "1" "DEADBEEF deadbeef"; echo
  row 0 "1" "\" '' \"a\" , ; | #"; echo                               # quotes and separators of other formats
  row 1 "1" "a-category-that-is-much-longer-than-eight-hexadecimal-digits"; echo
  row 0 "1" "é 猫 05db9164"; echo
  printf '%s\r\n' "$(row 1 "5" "05db9164")"                           # CRLF
  printf '%s\r\n' "$(row 0 "5" "05db9164 . ")"; echo                  # and an empty last field before it; a blank line
  row 1 "6" "05db9164 68fd1e64"                                       # no newline at the end of the file
}
rows > awkward.tsv
[ "$(grep -c . awkward.tsv)" = 20 ] || fail "the file has not twenty rows"
[ "$(head -n 3 awkward.tsv | tail -n 1 | tr -cd '\t' | wc -c)" = 39 ] || fail "the third row has not 40 fields"

for m in deepfm dlrm dcnv2; do
  build $m "$source_dir/models/criteo_$m.ctr" -D buckets=100 -D batch=8
  expect 0 ./$m train --data awkward.tsv --save ckpt_$m --json
  grep -q '"rows":20,' out && grep -q '"bad_rows":0' out || fail "$m: not every row was read: $(cat out)"
  expect 0 ./$m eval --data awkward.tsv --load ckpt_$m --json
  grep -qE '"auc":\{"ctr":[01]\.?[0-9]*\}' out || fail "$m: no AUC: $(cat out)"
  expect 0 ./$m predict --data awkward.tsv --load ckpt_$m -o p_$m
  awk '!($1 >= 0 && $1 <= 1) { bad = 1 } END { exit bad || NR != 20 }' p_$m || fail "$m: expected 20 probabilities: $(cat p_$m)"
done

# What a field holds must tell: an empty count is not 0 where counts are ranges, CRLF and spelling are nothing.
{ row 0 "." "."; echo; row 0 "0" "."; echo; row 0 "0" "-"; echo; printf '%s\r\n' "$(row 0 "0" ".")"; row 0 "+0 00 0.0 -0 0" "."; echo; } > few.tsv
expect 0 ./deepfm predict --data few.tsv --load ckpt_deepfm -o p
[ "$(sort -u p | wc -l)" = 2 ] || fail "expected 'empty' to differ from 0 and nothing else: $(cat p)"
[ "$(tail -n +2 p | sort -u | wc -l)" = 1 ] || fail "one row in four spellings got several predictions: $(cat p)"

# A lost field, and a label or count that is none, are errors with their line; or are skipped and counted.
{ row 0 "1" "05db9164"; echo; row 1 "1" "05db9164" | cut -f 1-39; row 1 "one" "05db9164"; echo; row . "1" "05db9164"; echo; row 1 "1" "05db9164"; echo; } > broken.tsv
expect 1 ./dlrm train --data broken.tsv; hears "broken.tsv:2"
expect 0 ./dlrm train --data broken.tsv --on-bad-row skip --json
grep -q '"rows":2,' out && grep -q '"bad_rows":3' out || fail "expected two rows and three bad ones: $(cat out)"
exit $bad
