/* oracle_check RECORD.json …: holds a program against what tests/oracle/oracle.py recorded.
 *
 *   RECORD --defines           the record's settings as arguments of ctrc: -D batch=32 …
 *   RECORD --files DIR         are there the log and its companions that the record was made on?
 *   RECORD --weights DIR       are the checkpoint's weights those that the record started from?
 *   RECORD --losses FILE --rel R
 *                              do the losses differ by no more than R, relatively? FILE: a number a line
 *                              (replay), or lines of JSON with `loss` (--log, replay --json)
 *   RECORD --metrics FILE --rel R
 *                              and the metrics? FILE: the last line that has them counts (--json of both)
 *   RECORD --norms gradients|clipped FILE --rel R --floor F
 *                              and the norms of the gradients, of each weight in each step, before or after
 *                              clipping, relatively or by F? FILE: lines of JSON (replay --json, --slots)
 *   RECORD --slots BEFORE AFTER
 *                              prints {"clipped": {NAME: …}}: the norms of the gradients that the optimizers
 *                              got in the one step between two checkpoints, which their slots tell
 *
 * Exit status 0: yes; 1: no, and why on stderr; 2: wrong usage. */
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

static int same_digest(const char *want, uint64_t found, const char *what, const char *fault) {
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)found);
    if (want && strcmp(want, text) == 0) return 0;
    return no("%s %s: expected digest %s, found %s", what, fault, want ? want : "(none)", text);
}

static int check_file(const char *path, const char *digest) {
    FILE *f = fopen(path, "rb");
    if (!f) return no("cannot open %s", path);
    XXH3_state_t *h = XXH3_createState();
    char buf[65536];
    XXH3_64bits_reset(h);
    for (size_t n; (n = fread(buf, 1, sizeof buf, f)) > 0;) XXH3_64bits_update(h, buf, n);
    fclose(f);
    uint64_t found = XXH3_64bits_digest(h);
    XXH3_freeState(h);
    return same_digest(digest, found, path, "is not the file that the record was made on");
}

/* The log, and what is read beside it. */
static int check_files(const json_t *record, const char *dir) {
    const char *name;
    const json_t *digest;
    int bad = 0;
    json_object_foreach(json_object_get(record, "files"), name, digest) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", dir, name);
        bad |= check_file(path, json_string_value(digest));
    }
    return json_object_size(json_object_get(record, "files")) ? bad : no("expected files, found none");
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const Tensor *)a)->name, ((const Tensor *)b)->name);
}

static Safetensors *read_checkpoint(const char *dir, char *err, size_t err_bytes) {
    char path[4096];
    snprintf(path, sizeof path, "%s/weights.safetensors", dir);
    return safetensors_read(path, err, err_bytes);
}

static int check_weights(const json_t *record, const char *dir) {
    char err[512];
    Safetensors *s = read_checkpoint(dir, err, sizeof err);
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
    return same_digest(json_string_value(json_object_get(record, "weights_xxh3")), digest,
                       "the initial weights",
                       "are not those that the record started from (their names, the seed or the generator "
                       "changed; if that is meant, run tests/oracle/rebuild.sh)");
}

/* ---- losses and metrics ---- */

/* Is it off by more than `rel`, relatively? */
static bool off_by(double found, double expected, double rel, double *worst) {
    double off = fabs(found - expected) / fabs(expected);
    if (!(off <= *worst)) *worst = off;
    return !(off <= rel);
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

static void print_found(const json_t *record, size_t n, const char *what, double worst, double rel) {
    printf("%s: %zu %s, at most %.2g off (%.2g allowed)\n",
           json_string_value(json_object_get(record, "model")), n, what, worst, rel);
}

static int check_losses(const json_t *record, const char *path, double rel) {
    const json_t *want = json_object_get(record, "losses");
    FILE *f = fopen(path, "r");
    if (!f) return no("cannot open %s", path);
    char *line = NULL;
    double loss, worst = 0;
    size_t n = 0, bad = 0, size = 0;
    while (getline(&line, &size, f) > 0) {
        if (!loss_of_line(line, &loss)) continue;
        double expected = json_number_value(json_array_get(want, n++));
        if (off_by(loss, expected, rel, &worst) && !bad)
            bad = n, no("step %zu: expected loss %.17g, found %.17g", n, expected, loss);
    }
    free(line);
    fclose(f);
    if (n != json_array_size(want))
        return no("expected %zu losses, found %zu in %s", json_array_size(want), n, path);
    print_found(record, n, "losses", worst, rel);
    return bad > 0;
}

/* The last line of a file that is an object with a member `key`; NULL: none. The caller's. */
static json_t *last_with(const char *path, const char *key) {
    FILE *f = fopen(path, "r");
    json_t *found = NULL;
    char *line = NULL;
    size_t size = 0;
    while (f && getline(&line, &size, f) > 0) {
        json_t *o = json_loads(line, 0, NULL);
        json_t *old = json_object_get(o, key) ? found : o;
        if (old != o) found = o;
        json_decref(old);
    }
    free(line);
    if (f) fclose(f);
    return found;
}

static int check_metrics(const json_t *record, const char *path, double rel) {
    const char *kind, *name;
    json_t *names, *value;
    double worst = 0;
    size_t n = 0;
    int bad = 0;
    json_object_foreach(json_object_get(record, "metrics"), kind, names) {
        json_t *line = last_with(path, kind);
        json_object_foreach(names, name, value) {
            const json_t *found = json_object_get(json_object_get(line, kind), name);
            double expected = json_real_value(value);
            n++;
            if (!json_is_number(found))
                bad |= no("%s of %s: expected %.17g, found none in %s", kind, name, expected, path);
            else if (off_by(json_number_value(found), expected, rel, &worst))
                bad |= no("%s of %s: expected %.17g, found %.17g", kind, name, expected,
                          json_number_value(found));
        }
        json_decref(line);
    }
    if (!n) return no("expected metrics, found none");
    print_found(record, n, "metrics", worst, rel);
    return bad;
}

/* ---- norms of gradients ---- */

typedef struct {
    const json_t *record, *want; /* want: {NAME: [norm of each step]} */
    const char *key;             /* gradients, clipped */
    double rel, floor, worst, worst_small;
    size_t compared, relative, bad; /* relative: those that are large enough for `rel` to decide */
} Norms;

/* The rest of the norms are so small that `floor` decides. */
static bool norm_is_off(Norms *c, double found, double expected) {
    c->compared++;
    if (expected * c->rel <= c->floor) {
        c->worst_small = fmax(c->worst_small, fabs(found - expected));
        return !(fabs(found - expected) <= c->floor);
    }
    c->relative++;
    return off_by(found, expected, c->rel, &c->worst);
}

/* Of one step: every weight of the record, and no other. */
static void step_norms(Norms *c, size_t step, json_t *found) {
    const json_t *weights = json_object_get(c->record, "gradients"), *of_steps;
    const char *name;
    json_t *v;
    json_object_foreach(found, name, v) if (!json_object_get(weights, name)) c->bad +=
        (size_t)no("step %zu: a gradient of '%s', which the record doesn't know", step + 1, name);
    json_object_foreach((json_t *)weights, name, of_steps) {
        const json_t *other = json_object_get(c->want, name); /* clipped: only where that changed something */
        double expected = json_number_value(json_array_get(other ? other : of_steps, step));
        v = json_object_get(found, name);
        if (!json_is_number(v))
            c->bad += (size_t)no("step %zu: no gradient of '%s'", step + 1, name);
        else if (norm_is_off(c, json_number_value(v), expected) && c->bad++ < 10)
            no("step %zu: the norm of the gradient of '%s', %s: expected %.17g, found %.17g", step + 1, name,
               c->key, expected, json_number_value(v));
    }
}

static int check_norms(const json_t *record, const char *key, const char *path, double rel, double floor) {
    Norms c = {
        .record = record, .want = json_object_get(record, key), .key = key, .rel = rel, .floor = floor};
    size_t steps = json_array_size(json_object_get(record, "losses")), n = 0, size = 0;
    FILE *f = fopen(path, "r");
    if (!f) return no("cannot open %s", path);
    char *line = NULL;
    while (getline(&line, &size, f) > 0) {
        json_t *o = json_loads(line, 0, NULL), *found = json_object_get(o, key);
        if (found && n < steps) step_norms(&c, n, found);
        n += found != NULL;
        json_decref(o);
    }
    free(line);
    fclose(f);
    if (n != steps) return no("expected gradients of %zu steps, found %zu in %s", steps, n, path);
    if (2 * c.relative < c.compared || !c.compared)
        return no("of %zu norms of gradients only %zu are large enough to tell anything", c.compared,
                  c.relative);
    printf("%s: %zu norms (%s), at most %.2g off (%.2g allowed); %zu near zero, at most %.2g off (%.2g "
           "allowed)\n",
           json_string_value(json_object_get(record, "model")), c.relative, key, c.worst, rel,
           c.compared - c.relative, c.worst_small, floor);
    return c.bad > 0;
}

/* ---- gradients from what the optimizers keep of them ---- */

/* Adam's first moment in single precision, with the default beta1: m' = 0.9 m + 0.1 g. What rounding alone
 * explains is no gradient. A row of a table that the step didn't touch keeps its moment to the bit. before:
 * NULL for zeros. */
static double sum_from_moments(const Tensor *before, const Tensor *after) {
    const double beta1 = (double)0.9f, rounding = ldexp(1, -23);
    const float *m0 = before ? before->data : NULL, *m1 = after->data;
    int64_t width = after->rank > 1 ? after->size / after->dim[0] : 1;
    double sum = 0;
    for (int64_t i = 0; i < after->size; i += width) {
        if (m0 && memcmp(m0 + i, m1 + i, (size_t)width * sizeof(float)) == 0) continue;
        for (int64_t k = i; k < i + width; k++) {
            double old = m0 ? (double)m0[k] : 0, more = (double)m1[k] - beta1 * old, g = more / (1 - beta1);
            if (fabs(more) > rounding * fabs(old)) sum += g * g;
        }
    }
    return sum;
}

/* FTRL: z' = z + g - (sqrt(n') - sqrt(n)) / lr w. */
static double sum_from_ftrl(const Tensor *z0, const Tensor *z1, const float *n0, const float *n1,
                            const float *w, double lr) {
    double sum = 0;
    for (int64_t i = 0; i < z1->size; i++) {
        double more = (double)((const float *)z1->data)[i] - (double)((const float *)z0->data)[i];
        double g = more + (sqrt((double)n1[i]) - sqrt((double)n0[i])) / lr * (double)w[i];
        sum += g * g;
    }
    return sum;
}

/* The values of weight NAME, or of its slot; NULL if they aren't there as they should be. */
static const float *values(const Safetensors *s, int name_bytes, const char *name, const char *slot,
                           int64_t size) {
    char text[1024];
    snprintf(text, sizeof text, "%.*s%s", name_bytes, name, slot);
    const Tensor *t = safetensors_find(s, text);
    return t && t->size == size ? t->data : NULL;
}

static json_t *norms_between(const Safetensors *before, const Safetensors *after, double ftrl_lr) {
    json_t *norms = json_object();
    for (int i = 0; i < after->n; i++) {
        const Tensor *now = &after->tensors[i], *then = safetensors_find(before, now->name);
        const char *slash = strchr(now->name, '/');
        if (!slash || !now->data || (then && (!then->data || then->size != now->size))) continue;
        int bytes = (int)(slash - now->name);
        double sum = 0;
        if (strcmp(slash, "/m") == 0)
            sum = sum_from_moments(then, now);
        else if (strcmp(slash, "/z") == 0 && then) {
            const float *n0 = values(before, bytes, now->name, "/n", now->size),
                        *n1 = values(after, bytes, now->name, "/n", now->size),
                        *w = values(before, bytes, now->name, "", now->size);
            if (!n0 || !n1 || !w) continue;
            sum = sum_from_ftrl(then, now, n0, n1, w, ftrl_lr);
        } else
            continue;
        json_object_setn_new(norms, now->name, (size_t)bytes, json_real(sqrt(sum)));
    }
    return norms;
}

static int print_norms_between(const json_t *record, const char *dir_before, const char *dir_after) {
    char err[512];
    Safetensors *before = read_checkpoint(dir_before, err, sizeof err),
                *after = before ? read_checkpoint(dir_after, err, sizeof err) : NULL;
    if (after) {
        json_t *line =
            json_pack("{s:o}", "clipped",
                      norms_between(before, after, json_number_value(json_object_get(record, "ftrl_lr"))));
        json_dumpf(line, stdout, JSON_REAL_PRECISION(17));
        putchar('\n');
        json_decref(line);
    }
    int code = after ? 0 : no("%s", err);
    safetensors_free(before);
    safetensors_free(after);
    return code;
}

int main(int argc, char **argv) {
    json_error_t e;
    const char *what = argc > 2 ? argv[2] : "";
    if (argc < 3)
        return fprintf(
                   stderr,
                   "oracle_check RECORD --defines|--files|--weights|--losses|--metrics|--norms|--slots …\n"),
               2;
    record_path = argv[1];
    json_t *record = json_load_file(argv[1], 0, &e);
    if (!record) return no("%s", e.text);
    int code = 2;
    if (strcmp(what, "--defines") == 0)
        code = defines(record);
    else if (strcmp(what, "--files") == 0 && argc == 4)
        code = check_files(record, argv[3]);
    else if (strcmp(what, "--weights") == 0 && argc == 4)
        code = check_weights(record, argv[3]);
    else if (strcmp(what, "--losses") == 0 && argc == 6)
        code = check_losses(record, argv[3], atof(argv[5]));
    else if (strcmp(what, "--metrics") == 0 && argc == 6)
        code = check_metrics(record, argv[3], atof(argv[5]));
    else if (strcmp(what, "--norms") == 0 && argc == 9)
        code = check_norms(record, argv[3], argv[4], atof(argv[6]), atof(argv[8]));
    else if (strcmp(what, "--slots") == 0 && argc == 5)
        code = print_norms_between(record, argv[3], argv[4]);
    else
        fprintf(stderr, "oracle_check: unknown arguments\n");
    json_decref(record);
    return code;
}
