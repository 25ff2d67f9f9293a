#!/usr/bin/env bash
# --emit=lib: a model as a shared library with a header, in C and in Python; threads, errors, two models in a process.
. tests/cli/common.sh.inc
clicks_ctr > clicks.ctr
clicks_csv 2000 > log.csv
build clicks clicks.ctr
expect 0 ./clicks train --data log.csv --save ckpt
expect 0 ./clicks predict --data log.csv --load ckpt; cp out p
expect 0 "$ctrc" clicks.ctr --emit=lib; quiet; silent
for f in libclicks.so clicks.h; do [ -s $f ] || fail "no $f"; done
ls clicks.h.* libclicks.so.* 2> /dev/null && fail "something is left behind"
if has nm; then # nothing is seen from outside but these
  nm -D --defined-only libclicks.so | awk '{ print $3 }' | sort > names
  printf 'clicks_%s\n' close open predict prediction_name predictions > want; same want names
fi
flags=(-std=c17 -Wall -Wextra -Werror -O1 -I. -L. -Wl,-rpath,"$PWD" -pthread)
[ -z "${CTRC_TEST_LIGHT:-}" ] || flags+=(-fsanitize=address,undefined) # libraries of that tree need it

# ---- the example ----
sed 's/adult/clicks/g; s/ADULT/CLICKS/g' "$source_dir/models/serving/serve.c" > serve.c
expect 0 cc "${flags[@]}" serve.c -lclicks -o serve; quiet
expect 0 ./serve ckpt < log.csv; quiet; same p out
cp -r ckpt broken; printf x | dd of=broken/weights.safetensors bs=1 seek=2000 conv=notrunc 2> /dev/null
expect 1 ./serve broken < log.csv; silent; hears "broken/weights.safetensors: damaged: the checksum of tensor "
expect 1 ./serve none < log.csv; silent; says "cannot open none/state.json: no such file or directory"
{ head -n 3 log.csv; echo 1,u1,x,t1,x; tail -n +4 log.csv | head -n 2; } > bad.csv
expect 1 ./serve ckpt < bad.csv; says "rows:4:6: error: expected a number for column 'price', found 'x'"
{ head -n 2 p; echo nan,nan; sed -n '3,4p' p; } > want; same want out
expect 3 ./serve ckpt < /dev/null; says "rows:1:1: error: expected the header line, found none"
echo user,tags > short.csv
expect 3 ./serve ckpt < short.csv; says "rows:1:1: error: column 'price' is missing from the header"
if has python3 && [ -z "${CTRC_TEST_LIGHT:-}" ]; then
  expect 0 python3 "$source_dir/models/serving/serve.py" ./libclicks.so clicks ckpt < log.csv; quiet; same p out
else
  echo "skipped: the Python example: no python3, or libraries that need a sanitizer"
fi

# ---- two models in a process, called by many threads with texts of all sizes ----
sed 's/model clicks/model other/; s/\[16, 8\]/[8]/' clicks.ctr > other.ctr
build other other.ctr; expect 0 ./other train --data log.csv --save other.ckpt
expect 0 ./other predict --data log.csv --load other.ckpt; cp out q
expect 0 "$ctrc" other.ctr --emit=lib -o ./libother.so; quiet
cat > threads.c << 'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "clicks.h"
#include "other.h"
enum { ROWS = 2000, THREADS = 8, CALLS = 150 };
static clicks_model *clicks;
static other_model *other;
static char *line[ROWS + 1], *header;
static float want[2][ROWS][2];
static int bad;

static char *slurp(const char *path) {
    FILE *f = fopen(path, "r");
    char *s = calloc(1, 1 << 20);
    if (!f || !s || !fread(s, 1, (1 << 20) - 1, f)) exit(9);
    fclose(f);
    return s;
}
static void *work(void *arg) {
    unsigned seed = (unsigned)(size_t)arg;
    char *text = malloc(1 << 20), message[200];
    float (*out)[2] = malloc(sizeof want[0]);
    for (int i = 0; i < CALLS; i++) {
        int which = rand_r(&seed) % 2, first = rand_r(&seed) % ROWS, n = 1 + rand_r(&seed) % (i % 3 ? 40 : 500);
        if (first + n > ROWS) n = ROWS - first;
        size_t head = strlen(header), body = (size_t)(line[first + n] - line[first]), rows = (size_t)n;
        memcpy(text, header, head);
        memcpy(text + head, line[first], body);
        int code = which ? other_predict(other, text, head + body, *out, &rows, message, sizeof message)
                         : clicks_predict(clicks, text, head + body, *out, &rows, message, sizeof message);
        if (code || *message || rows != (size_t)n || memcmp(out, want[which][first], (size_t)n * sizeof *out))
            __atomic_store_n(&bad, 1, __ATOMIC_RELAXED);
    }
    free(text);
    free(out);
    return NULL;
}
int main(void) {
    char *log = slurp("log.csv"), *at = strchr(log, '\n') + 1, message[200];
    header = strndup(log, (size_t)(at - log));
    for (int i = 0; i < ROWS; i++) line[i] = at, at = strchr(at, '\n') + 1;
    line[ROWS] = at;
    for (int k = 0; k < 2; k++) {
        char *all = slurp(k ? "q" : "p"), *p = all;
        for (int i = 0; i < ROWS; i++) {
            want[k][i][0] = strtof(p, &p);
            want[k][i][1] = strtof(p + 1, &p);
        }
        free(all);
    }
    if (clicks_open("ckpt", &clicks, message, sizeof message) || other_open("other.ckpt", &other, NULL, 0)) return 2;
    if (clicks_open("other.ckpt", &(clicks_model *){0}, message, sizeof message) != CLICKS_CHECKPOINT) return 3;
    size_t one = 1, none = 0;
    float out[2];
    if (clicks_predict(clicks, log, strlen(log), out, &one, message, sizeof message) != CLICKS_ARGUMENT) return 4;
    puts(message);
    if (clicks_predict(NULL, log, 1, out, &one, NULL, 0) != CLICKS_ARGUMENT) return 5;
    if (clicks_predict(clicks, header, strlen(header), NULL, &none, NULL, 0) != CLICKS_OK || none) return 6;
    if (strcmp(clicks_prediction_name(clicks, 1), "rate") || clicks_prediction_name(clicks, 2)) return 7;
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, work, (void *)(size_t)(i + 1));
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    clicks_close(clicks);
    clicks_close(NULL);
    other_close(other);
    free(header), free(log);
    return bad;
}
C
expect 0 cc "${flags[@]}" -D_GNU_SOURCE threads.c -lclicks -lother -o threads; quiet
expect 0 ./threads; quiet; echo "the text has 2000 rows, there is room for 1" > want; same want out

[ $bad = 0 ] && echo "a model serves inside other programs"
exit $bad
