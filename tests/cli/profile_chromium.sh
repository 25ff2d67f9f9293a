#!/usr/bin/env bash
# What --profile writes, read by Chromium: by the engine behind its Performance panel, which a page of the developer
# tools loads. Chromium must find the threads by their names, and on each the events that trace_check counts.
. tests/cli/common.sh.inc
trace_check=$(readlink -f "$BUILD/tests/trace_check")
[ -z "${CTRC_TEST_LIGHT:-}" ] || { echo "CTRC_TEST_LIGHT: traces are the same in both trees, a browser reads them in the release tree alone"; exit 0; }
clicks_ctr > clicks.ctr; build clicks clicks.ctr; clicks_csv 300 > train.csv; clicks_csv 120 300 > eval.csv
expect 0 ./clicks train --data train.csv --eval-data eval.csv --epochs 2 --save ckpt --save-every 5 --profile p.json --threads 2; quiet
"$trace_check" p.json > counts || fail "p.json is no trace"
find_browser
[ -n "$browser" ] || { [ $bad = 0 ] || exit 1; echo "skipped: no chromium at hand, nothing but our own reader has seen the trace"; exit 77; }

cat > read.js << 'JS'
(async () => {
  const {TraceModel} = await import("./models/trace/trace.js");
  const model = TraceModel.Model.createWithAllHandlers(), counts = new Map(), lines = [];
  await model.parse(events, {});
  for (const process of model.parsedTrace(0).data.Renderer.processes.values())
    for (const thread of process.threads.values())
      for (const entry of thread.entries) {
        const key = thread.name + "\t" + entry.name;
        counts.set(key, (counts.get(key) || 0) + 1);
      }
  for (const [key, n] of counts) lines.push(key + "\t" + n);
  return "READ " + lines.join(";");
})()
JS
# Its protocol by two pipes: a JSON object each way, ended by a zero byte.
mkfifo to from
HOME=$work timeout 240 "$browser" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$work/profile" \
  --remote-debugging-pipe about:blank < /dev/null 3< to 4> from 2> browser.log > /dev/null & pid=$!
exec 5> to 6< from
send() { printf '%s\0' "$1" >&5; }
# answer ID: the browser's answer to that message, nothing if it ends or stays silent
answer() { local m; while IFS= read -r -t 200 -d '' m <&6; do case $m in '{"id":'"$1",*) printf '%s\n' "$m"; return ;; esac; done; }
value() { sed -n 's/.*"'"$1"'":"\([^"]*\)".*/\1/p'; }
# evaluate ID FILE.json: what read.js says of it
evaluate() {
  { printf '{"id":%s,"sessionId":"%s","method":"Runtime.evaluate","params":{"returnByValue":true,"awaitPromise":true,"expression":"' "$1" "$session"
    { printf 'var events = '; cat "$2"; printf ';'; cat read.js; } | sed 's/\\/\\\\/g; s/"/\\"/g' | tr '\n' ' '
    printf '"}}\0'; } >&5
  answer "$1"
}
send '{"id":1,"method":"Target.createTarget","params":{"url":"devtools://devtools/bundled/devtools_app.html"}}'
target=$(answer 1 | value targetId)
send '{"id":2,"method":"Target.attachToTarget","params":{"targetId":"'"$target"'","flatten":true}}'
session=$(answer 2 | value sessionId)
# the page's document comes some time after the page itself
for ((try = 0; try < 100; try++)); do
  send '{"id":3,"sessionId":"'"$session"'","method":"Runtime.evaluate","params":{"expression":"location.href + document.readyState"}}'
  case $(answer 3) in *devtools_app.htmlcomplete*) break ;; '') break ;; esac
  sleep 0.2
done
got=$(evaluate 4 p.json)
sed '/"barrier"/{x;s/^/x/;/^xx$/{x;d};x}' p.json > fewer.json # without its second barrier
fewer=$(evaluate 5 fewer.json)
send '{"id":9,"method":"Browser.close"}'; wait $pid
exec 5>&- 6<&-

case $got in
*'"READ '*) ;;
*) # a browser that doesn't start, or has no such engine, is no fault of the trace's
  case $got in *"Failed to fetch dynamically imported module"* | '')
    [ $bad = 0 ] || exit 1
    tail -n 3 browser.log
    echo "skipped: $browser doesn't start here or has no engine for traces"; exit 77 ;;
  esac
  fail "$browser: $got" ;;
esac
read_of() { printf '%s\n' "$1" | value value | sed 's/^READ //; s/\\t/\t/g' | tr ';' '\n' | LC_ALL=C sort; }
read_of "$got" > by_browser; LC_ALL=C sort counts > by_us; same by_us by_browser
events() { awk -F'\t' '{ n += $3 } END { print n }' "$1"; }
read_of "$fewer" > by_browser; [ "$(events by_browser)" = $(($(events counts) - 1)) ] || fail "an event that is missing isn't noticed"
echo "$browser: $(events counts) events on $(cut -f1 counts | sort -u | wc -l) threads"
exit $bad
