# awk -f compare.awk OLD.json NEW.json: two reports of run.sh beside each other, as Markdown. A ratio is new / old, of
# medians; its spread is from the least that any two rounds could give to the most. Reports of one run (--against-ctrc
# writes two) have rounds in common: then a ratio is taken within each round, and of these are median and spread.
# A figure has moved if its spread leaves out 1; of fewer than three rounds nothing is said.
function fail(text) { print "compare: " text > "/dev/stderr"; failed = 1; exit 2 }
function text_of(s, key,    m) { return match(s, "\"" key "\": *\"[^\"]*\"") ? quoted(substr(s, RSTART, RLENGTH)) : "" }
function quoted(s) { sub(/^"[^"]*": *"/, "", s); sub(/"$/, "", s); return s }
function sort(v, n,    i, j, x) { for (i = 2; i <= n; i++) { x = v[i]; for (j = i - 1; j >= 1 && v[j] > x; j--) v[j + 1] = v[j]; v[j + 1] = x } }
function median(v, n) { sort(v, n); return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2 }
function read(path, which,    line, s, at, item, name, list, n, i, part) {
  s = ""
  while ((at = (getline line < path)) > 0) s = s " " line
  if (at < 0) fail(path ": cannot be read")
  close(path)
  gsub(/[ \t\r]+/, " ", s)
  if (s !~ /"report": *"ctrc bench 1"/) fail(path ": expected a report of tests/bench/run.sh")
  run[which] = text_of(s, "run"); told[which] = text_of(s, "machine") "; ctrc " text_of(s, "ctrc")
  while (match(s, /"[^"]+": *\{ *"unit": *"[^"]*", *"better": *"[^"]*", *"values": *\[[^]]*\]/)) {
    item = substr(s, RSTART, RLENGTH); s = substr(s, RSTART + RLENGTH)
    name = item; sub(/^"/, "", name); sub(/".*/, "", name)
    list = item; sub(/.*\[/, "", list); sub(/\].*/, "", list)
    n = split(list, part, ",")
    if (list ~ /^ *$/) n = 0
    count[which, name] = n
    for (i = 1; i <= n; i++) value[which, name, i] = part[i] + 0
    unit[name] = text_of(item, "unit"); better[name] = text_of(item, "better")
    if (which == "new" || !(("new", name) in count)) { if (!(name in place)) { place[name] = ++names; order[names] = name } }
  }
}
function number(x) { return x == 0 ? "0" : x >= 1000 ? sprintf("%.0f", x) : sprintf("%.4g", x) }
BEGIN {
  if (ARGC != 3) fail("usage: awk -f compare.awk OLD.json NEW.json")
  read(ARGV[1], "old"); read(ARGV[2], "new")
  paired = run["old"] != "" && run["old"] == run["new"]
  print "old: " told["old"]; print "new: " told["new"]
  print paired ? "One run: ratios within rounds." : "Two runs: ratios of medians, spread over any two rounds."
  print ""
  print "| figure | unit | old | new | new / old | spread | |"
  print "|---|---|---|---|---|---|---|"
  for (k = 1; k <= names; k++) {
    name = order[k]; n = count["old", name] + 0; m = count["new", name] + 0
    if (!n || !m) { lacking = lacking (lacking == "" ? "" : ", ") name (n ? " (old)" : " (new)"); continue }
    delete a; delete b; delete r
    for (i = 1; i <= n; i++) a[i] = value["old", name, i]
    for (i = 1; i <= m; i++) b[i] = value["new", name, i]
    zero = 0
    for (i = 1; i <= n; i++) if (a[i] == 0) zero = 1
    if (zero) { zeros = zeros (zeros == "" ? "" : ", ") name; continue }
    within = paired && n == m
    for (i = 1; i <= n && within; i++) r[i] = b[i] / a[i]
    old = median(a, n); new = median(b, m)
    if (within) { ratio = median(r, n); lo = r[1]; hi = r[n] }
    else { ratio = new / old; lo = b[1] / a[n]; hi = b[m] / a[1] }
    few = n < 3 || m < 3
    if (within && (!least || n < least)) least = n
    # neither is better for figures that only describe
    mark = few ? "few rounds" : lo > 1 ? (better[name] == "more" ? "**better**" : better[name] == "less" ? "**worse**" : "moved") : hi < 1 ? (better[name] == "more" ? "**worse**" : better[name] == "less" ? "**better**" : "moved") : ""
    if (mark ~ /better/) gains++; else if (mark ~ /worse/) losses++
    printf "| %s | %s | %s | %s | %.3f | %s | %s |\n", name, unit[name], number(old), number(new), ratio, sprintf("%.3f–%.3f", lo, hi), mark
  }
  printf "\n%d better, %d worse, beyond the spread.\n", gains, losses
  if (least >= 3) printf "Of %d rounds all fall on one side of 1 by chance in one case of %d.\n", least, 2 ^ (least - 1)
  if (zeros != "") print "No ratio, since an old value is 0: " zeros "."
  if (lacking != "") print "In one report only: " lacking "."
}
END { if (failed) exit 2 }
