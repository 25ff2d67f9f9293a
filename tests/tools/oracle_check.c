/* oracle_check RECORD.json …: holds a program against what tests/oracle/oracle.py recorded.
 *
 *   oracle_check RECORD --defines                   the record's settings as arguments of ctrc: -D batch=32 …
 *   oracle_check RECORD --log FILE                  is it the log that the record was made on?
 *   oracle_check RECORD --weights DIR               are the checkpoint's weights those that the record
 * started from? oracle_check RECORD --losses FILE --rel R       do the losses differ by no more than R,
 * relatively? FILE: a number a line (replay), or lines of JSON (--log) Exit status 0: yes; 1: no, and why on
 * stderr; 2: wrong usage. */
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "tests/tools/safetensors.h"

static const char *record_path;

static int no(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int no(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "%s: ", record_path);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    return 1;
}

static int defines(const json_t *record) {
    const char *name;
    json_t *v;
    json_object_foreach(json_object_get(record, "defines"), name, v)
        printf("-D %s=%.17g ", name, json_number_value(v));
    putchar('\n');
    return 0;
}

static int same_digest(const json_t *record, const char *key, uint64_t found, const char *what) {
    char text[17];
    const char *want = json_string_value(json_object_get(record, key));
    snprintf(text, sizeof text, "%016llx", (unsigned long long)found);
    if (want && strcmp(want, text) == 0) return 0;
    return no("%s: expected digest %s, found %s", what, want ? want : "(none)", text);
}

static int check_log(const json_t *record, const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return no("cannot open %s", path);
    XXH3_state_t *h = XXH3_createState();
    char buf[65536];
    XXH3_64bits_reset(h);
    for (size_t n; (n = fread(buf, 1, sizeof buf, f)) > 0;) XXH3_64bits_update(h, buf, n);
    fclose(f);
    uint64_t digest = XXH3_64bits_digest(h);
    XXH3_freeState(h);
    return same_digest(record, "log_xxh3", digest, "the log is not the one that the record was made on");
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const Tensor *)a)->name, ((const Tensor *)b)->name);
}

static int check_weights(const json_t *record, const char *dir) {
    char path[4096], err[512];
    snprintf(path, sizeof path, "%s/weights.safetensors", dir);
    Safetensors *s = safetensors_read(path, err, sizeof err);
    if (!s) return no("%s", err);
    qsort(s->tensors, (size_t)s->n, sizeof *s->tensors, by_name);
    XXH3_state_t *h = XXH3_createState();
    XXH3_64bits_reset(h);
    for (int i = 0; i < s->n; i++) {
        const Tensor *t = &s->tensors[i];
        if (strchr(t->name, '/') || !t->data) continue;
        XXH3_64bits_update(h, t->name, strlen(t->name) + 1);
        XXH3_64bits_update(h, t->data, (size_t)t->size * sizeof(float));
    }
    uint64_t digest = XXH3_64bits_digest(h);
    XXH3_freeState(h);
    safetensors_free(s);
    return same_digest(
        record, "weights_xxh3", digest,
        "the initial weights are not those that the record started from (their names, the seed or the "
        "generator changed); if that is meant, run tests/oracle/rebuild.sh");
}

/* A number, or a JSON object of a step with a loss. False: neither. */
static bool loss_of_line(const char *line, double *loss) {
    char *end;
    *loss = strtod(line, &end);
    if (end != line) return true;
    json_t *o = json_loads(line, 0, NULL);
    const json_t *v = json_object_get(o, "epoch_end") ? NULL : json_object_get(o, "loss");
    bool ok = json_is_number(v);
    if (ok) *loss = json_number_value(v);
    json_decref(o);
    return ok;
}

static int check_losses(const json_t *record, const char *path, double rel) {
    const json_t *want = json_object_get(record, "losses");
    FILE *f = fopen(path, "r");
    if (!f) return no("cannot open %s", path);
    char line[4096];
    double loss, worst = 0;
    size_t n = 0, bad = 0;
    while (fgets(line, sizeof line, f)) {
        if (!loss_of_line(line, &loss)) continue;
        double expected = json_number_value(json_array_get(want, n++)),
               off = fabs(loss - expected) / fabs(expected);
        if (off > worst) worst = off;
        if (!(off <= rel) && !bad)
            bad = n, no("step %zu: expected loss %.17g, found %.17g (%.2g off)", n, expected, loss, off);
    }
    fclose(f);
    if (n != json_array_size(want))
        return no("expected %zu losses, found %zu in %s", json_array_size(want), n, path);
    printf("%s: %zu losses, at most %.2g off (%.2g allowed)\n",
           json_string_value(json_object_get(record, "model")), n, worst, rel);
    return bad > 0;
}

int main(int argc, char **argv) {
    json_error_t e;
    const char *what = argc > 2 ? argv[2] : "";
    if (argc < 3)
        return fprintf(stderr,
                       "oracle_check RECORD --defines|--log FILE|--weights DIR|--losses FILE --rel R\n"),
               2;
    record_path = argv[1];
    json_t *record = json_load_file(argv[1], 0, &e);
    if (!record) return no("%s", e.text);
    int code = 2;
    if (strcmp(what, "--defines") == 0)
        code = defines(record);
    else if (strcmp(what, "--log") == 0 && argc == 4)
        code = check_log(record, argv[3]);
    else if (strcmp(what, "--weights") == 0 && argc == 4)
        code = check_weights(record, argv[3]);
    else if (strcmp(what, "--losses") == 0 && argc == 6)
        code = check_losses(record, argv[3], atof(argv[5]));
    else
        fprintf(stderr, "oracle_check: unknown arguments\n");
    json_decref(record);
    return code;
}
