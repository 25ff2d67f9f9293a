#!/usr/bin/env bash
# More rows and values than 32 bits count: a stream of one block over and over, through a pipe into train, check, eval and
# predict. Each must count every row, and say of the whole what it says of one block; the last row is bad, and is named by
# its line.
#   ROWS=2148000000 bash tests/torture/counts.sh       more than 2^31 rows, more than 2^32 values in lists
#   COMMANDS="train check"                             only these
. tests/cli/common.sh.inc
rows_wanted=${ROWS:-300000} commands=${COMMANDS:-train check eval predict}
block=$((1 << 16)); [ "$rows_wanted" -lt $((1 << 24)) ] || block=$((1 << 20))
blocks=$(((rows_wanted + block - 1) / block)) rows=$(((rows_wanted + block - 1) / block * block))
cat > counts.ctr << 'CTR'
model counts
input csv() {
  click  label
  ids    int list(";")
}
z = pool(embed(identity(ids, 4), table(4, 1)), sum)
predict ctr = sigmoid(z)
loss bce_logits(z, click)
metric logloss(ctr, click)
metric pcoc(ctr, click)
metric accuracy(ctr, click)
optimizer sgd(lr = 0.001)
train(batch = 65536, epochs = 1)
CTR
"$ctrc" counts.ctr -o counts || exit 1
awk -v rows=$block 'BEGIN { for (i = 0; i < rows; i++) print ((i * 48271 + 12345) % 1000 < 300 ? 1 : 0) ",0;" (1 + i * 7919 % 3) }' > block.csv
positive=$(grep -c '^1' block.csv)
feed() { local i; for ((i = 0; i < blocks; i++)); do cat block.csv || return; done; echo "x,y"; }
count() { grep -o "\"$1\": \?[0-9]*" "$2" | head -n 1 | grep -o '[0-9]*$'; } # the first number of that name
real() { grep -o "\"$1\":{\"ctr\":[0-9.e-]*" "$2" | head -n 1 | sed 's/.*://'; }
# is WHAT GOT WANTED
is() { [ "$2" = "$3" ] || fail "$1: $2, expected $3"; }
# long CODE ARGUMENTS: as expect, however long it takes
long() {
  local code=$1 got begin; shift; begin=$(date +%s)
  feed | ./counts "$@" --data - --on-bad-row skip > out 2> err; got=${PIPESTATUS[1]}
  [ "$got" = "$code" ] || { fail "$*: exit code $got, expected $code"; cat err; }
  [ "$rows_wanted" -lt $((1 << 24)) ] || echo "$1: $rows rows in $(($(date +%s) - begin)) s"
}
last="<stdin>:$((rows + 1)):1: error: expected a number for column 'click', found 'x'"

expect 0 ./counts train --data block.csv --save ckpt # for eval and predict
expect 0 ./counts eval --data block.csv --load ckpt --json; mv out one.json
for command in $commands; do
  case $command in
  train)
    long 0 train --save trained --json; hears "$last"
    is rows "$(count rows out)" $rows; is steps "$(count steps out)" $(((rows + 65535) / 65536)); is "bad rows" "$(count bad_rows out)" 1
    is "rows in state.json" "$(count rows trained/state.json)" $rows; grep -qF "\"first_bad\": \"$last" trained/state.json || fail "first_bad"
    is "rows of the epoch" "$(grep -o '"epochs":\[{"rows":[0-9]*' out | grep -o '[0-9]*$')" $rows ;;
  check)
    long 0 check --json
    is rows "$(count rows out)" $rows; is "bad rows" "$(count bad_rows out)" 1; is bytes "$(count bytes out)" $((rows * 6 + 4))
    is positives "$(grep -o '"positives":{"click":[0-9]*' out | grep -o '[0-9]*$')" $((positive * blocks))
    is filled "$(count filled out)" $rows; prints "\"value\":0.0,\"count\":$((rows - positive * blocks))\}"
    prints "\"name\":\"ids\".*\"top\":\[\{\"value\":0,\"count\":$rows\}"; prints "\"mean\":2.0"; grep -qF "$last" out || fail "not named: the last row" ;;
  eval)
    long 0 eval --load ckpt --json; hears "$last"
    is rows "$(count rows out)" $rows; is "bad rows" "$(count bad_rows out)" 1
    for metric in logloss pcoc accuracy; do
      awk -v a="$(real $metric out)" -v b="$(real $metric one.json)" 'BEGIN { d = a / b - 1; exit !(d < 1e-6 && d > -1e-6) }' || fail "$metric: $(real $metric out), of one block $(real $metric one.json)"
    done ;;
  predict)
    mkfifo lines; tail -n 1 < lines > last & end=$!
    n=$(feed | ./counts predict --load ckpt --data - --on-bad-row skip 2> err | tee lines | wc -l)
    wait $end; hears "<stdin>:$((rows + 1)):3: error: expected a whole number for column 'ids', found 'y'"; is predictions "$n" $((rows + 1)); is "the last prediction" "$(cat last)" nan ;;
  *) fail "unknown command $command" ;;
  esac
done
echo "$rows rows, $((3 * rows)) values: $commands"
exit $bad
