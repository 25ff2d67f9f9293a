#!/usr/bin/env bash
# The six reference models, on the logs of tests/oracle cut into several files: stopped again and again, by --steps and by
# the clock, with other thread counts and saves beside training in between, each ends in the bytes of training in one go.
# And what `eval` says of the end is what follows from what `predict` prints.
#   six_models.sh [MODEL…]
. tests/cli/common.sh.inc
here=$source_dir/tests/oracle root=$source_dir
. "$here/models.sh"
has zstd || echo "no zstd: gzip in its place"

# cut_log LOG: into ./log, plain, .gz and .zst; of a log with a second file beside it, that too
cut_log() {
  local log=$1 beside; rm -rf log; mkdir log
  for beside in "" _neg; do
    [ -e "${log%.gz}$beside.gz" ] || continue
    zcat "${log%.gz}$beside.gz" > all
    head -n 100 all > "log/a$beside"
    sed -n '101,350p' all | gzip > "log/b$beside.gz"
    if has zstd; then sed -n '351,$p' all | zstd -q > "log/c$beside.zst"; else sed -n '351,$p' all | gzip > "log/c$beside.gz"; fi
  done
}
# follows PREDICTION LABEL: what eval says of the pair, from what predict prints: log loss, and AUC over all pairs of rows
follows() {
  expect 0 "./$model" predict --data log --load whole --header --columns "$2"
  awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i; next } { print $at "," $1 }' out > pairs
  awk -F, '{ p[NR] = $1; y[NR] = $2; s -= $2 == 1 ? log($1) : log(1 - $1) }
    END { for (i = 1; i <= NR; i++) for (j = 1; j <= NR; j++) if (y[i] == 1 && y[j] == 0) { n++; k += p[i] > p[j] ? 1 : p[i] == p[j] ? 0.5 : 0 }
          printf "%.12f %.12f\n", s / NR, k / n }' pairs > by_hand
  expect 0 "./$model" eval --data log --load whole --calibration --json; quiet
  echo "$(sed -n "s/.*\"$1\":{\"rows\":[^[]*\"logloss\":\([0-9.e-]*\),.*/\1/p" out) $(sed -n "s/.*\"auc\":{[^}]*\"$1\":\([0-9.e-]*\).*/\1/p" out)" > told
  paste -d' ' by_hand told | awk '{ a = $1 / $3 - 1; b = $2 - $4 } END { exit !(NF == 4 && a < 1e-6 && a > -1e-6 && b < 1e-9 && b > -1e-9) }' ||
    fail "$model: of $1 predict's output has log loss and AUC $(cat by_hand), eval says $(cat told)"
}

stops=0 light=${CTRC_TEST_LIGHT:+dien} # in the sanitizers' tree, whose programs take long
for model in ${*:-${light:-wdl deepfm dlrm mmoe din dien}}; do
  record=$here/$model.json log=$here/$(sed -n 's/.*"log": "\([^"]*\)".*/\1/p' "$here/$model.json")
  mapfile -t arguments < <(arguments_of "$model" "$work")
  read -ra defines < <("$BUILD/tests/oracle_check" "$record" --defines)
  build "$model" "${arguments[@]}" "${defines[@]}"
  cut_log "$log"
  train=("./$model" train --data log --epochs 3 --save-every 4)
  rm -rf whole part; expect 0 "${train[@]}" --save whole --threads 2; quiet
  threads=1
  for n in 1 9 20 21 47; do
    expect 0 "${train[@]}" --save part --resume --steps $n --threads $threads; threads=$((threads % 3 + 1))
  done
  expect 0 "${train[@]}" --save part --resume; hears "going on from part, after step 47"; same whole/weights.safetensors part/weights.safetensors
  # by the clock, wherever that is; at most some times, since a busy machine may not come to a step
  rm -rf part; code=75
  for ((n = 0; code == 75 && n < 8; n++)); do
    "${train[@]}" --save part --resume --stop-after "0.${n}5s" --threads $((n % 3 + 1)) > out 2> err; code=$?
    [ $code = 0 ] || [ $code = 75 ] || { fail "$model stopped by the clock: exit code $code"; cat err; }
    [ $code = 0 ] || stops=$((stops + 1))
  done
  expect 0 "${train[@]}" --save part --resume; same whole/weights.safetensors part/weights.safetensors
  case $model in mmoe) follows click clk; follows purchase buy ;; di*n) follows ctr click ;; *) follows ctr clicked ;; esac
done
[ $bad = 0 ] && echo "each ends in the bytes of training in one go; $stops of the stops were by the clock"
exit $bad
