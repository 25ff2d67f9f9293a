/* What `check` prints: a table of the columns, one of hashes, crosses and vocabularies, bad rows, warnings;
 * or all that as one object. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/check.h"
#include "runtime/message.h"

#define STANDS_OUT                                                                                           \
    0.001 /* share of the rows, from which more than the first of the frequent values are worth a place */
enum { ALIKE = 3 /* warnings of a kind that are printed */ };

static const char *const kinds[] = {"label", "string", "int", "float", "skip"};

const char *rt_check_show(const RtCheckColumn *c, const RtTally *t, const RtTallyValue *v,
                          char out[RT_SHOWN]) {
    if (c->c->kind == RT_INT)
        snprintf(out, RT_SHOWN, "%lld", (long long)v->key);
    else if (c->c->kind == RT_STRING)
        rt_show(rt_tally_text(t, v), v->bytes, out); /* what was cut off lies beyond what is shown */
    else if (c->c->positive)
        snprintf(out, RT_SHOWN, "%s", rt_check_number(c->c, v->key) > 0 ? "1" : "0");
    else
        snprintf(out, RT_SHOWN, "%.6g", rt_check_number(c->c, v->key));
    return out;
}

static const char *const op_names[] = {[RT_F_HASH] = "hash", [RT_F_VOCAB] = "vocab", [RT_F_CROSS] = "cross"};

static const char *part_name(const RtDataCheck *k, RtPart part) {
    int column = part.is_column ? part.index : k->plan->root[part.index];
    return column >= 0 ? k->m->columns[column].name : "...";
}

const char *rt_check_feature_name(const RtDataCheck *k, const RtCheckFeature *f, char out[200]) {
    size_t used = (size_t)snprintf(out, 200, "%s(", op_names[f->f->op]);
    for (int i = 0; i < f->f->n_in && used < 190; i++)
        used += (size_t)snprintf(out + used, 200 - used, "%s%s", i ? ", " : "", part_name(k, f->f->in[i]));
    if (used < 199) snprintf(out + used, 200 - used, ")");
    return out;
}

static double share(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : NAN; }

/* Of what a top value's count is a share: rows, or a list's elements. */
static uint64_t top_of(const RtCheckColumn *c) { return c->c->is_list ? c->values : c->rows; }

/* ---- tables ---- */

enum { CELLS = 8 + RT_CHECK_LABELS, CELL = 400 };
typedef struct {
    char (*cell)[CELLS][CELL];
    int rows, cells, left; /* left: cells from here on, and the first two, stand at the left edge */
    size_t cap;
} Table;

static void add(Table *t, int cell, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add(Table *t, int cell, const char *format, ...) {
    va_list ap;
    if (cell == 0) {
        t->cell = rt_reader_grow(t->cell, &t->cap, (size_t)t->rows + 1, sizeof *t->cell);
        memset(t->cell[t->rows++], 0, sizeof *t->cell);
    }
    va_start(ap, format);
    vsnprintf(t->cell[t->rows - 1][cell], CELL, format, ap);
    va_end(ap);
    if (cell >= t->cells) t->cells = cell + 1;
}

/* Below an empty line, unless there is nothing below its head. Takes the table. */
static void print_table(Table *t) {
    int width[CELLS] = {0};
    if (t->rows > 1)
        putchar('\n');
    else
        t->rows = 0; /* the head alone */
    for (int r = 0; r < t->rows; r++)
        for (int c = 0; c < t->cells; c++) {
            int n = (int)strlen(t->cell[r][c]);
            if (n > width[c]) width[c] = n;
        }
    for (int r = 0; r < t->rows; r++) {
        int last = t->cells - 1;
        while (last > 0 && !t->cell[r][last][0]) last--;
        for (int c = 0; c <= last; c++) {
            bool left = c == 0 || c >= t->left;
            if (c) fputs("  ", stdout);
            printf("%*s", c == last && left ? 0 : left ? -width[c] : width[c], t->cell[r][c]);
        }
        putchar('\n');
    }
    free(t->cell);
}

/* 100 % only if all are, 0 % only if none is. */
static void add_share(Table *t, int cell, double x) {
    if (isnan(x))
        add(t, cell, "-");
    else if ((x > 0 && x < 0.0005) || (x < 1 && x >= 0.9995))
        add(t, cell, x < 0.5 ? "<0.1 %%" : ">99.9 %%");
    else
        add(t, cell, x == 0 || x == 1 ? "%.0f %%" : "%.1f %%", 100 * x);
}

static void add_count(Table *t, int cell, double n, bool exact) {
    if (isnan(n))
        add(t, cell, "-");
    else if (exact)
        add(t, cell, "%.0f", n);
    else { /* three digits of it are known */
        double unit = n < 1000 ? 1 : pow(10, floor(log10(n)) - 2);
        add(t, cell, "~%.0f", round(n / unit) * unit);
    }
}

static void add_top(Table *t, int cell, const RtCheckColumn *c) {
    RtTallyValue top[RT_CHECK_TOP];
    int n = rt_tally_top(&c->tally, top, RT_CHECK_TOP);
    char text[CELL] = "", shown[RT_SHOWN];
    size_t used = 0;
    /* nothing stands out */
    if (n > 1 && (double)top[0].n < STANDS_OUT * (double)top_of(c)) n = 1;
    for (int i = 0; i < n && used < sizeof text; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%s %.3g %%", i ? ", " : "",
                             rt_check_show(c, &c->tally, &top[i], shown), 100 * share(top[i].n, top_of(c)));
    add(t, cell, "%s", text);
}

static void add_range(Table *t, int cell, const RtCheckColumn *c) {
    if (c->c->is_list && c->rows)
        add(t, cell, "%llu to %llu long, mean %.3g", (unsigned long long)c->shortest,
            (unsigned long long)c->longest, (double)c->elements / (double)c->rows);
    else if (rt_check_is_number(c->c) && c->values)
        add(t, cell, "%.6g to %.6g, median %.6g", c->min, c->max, rt_check_quantile(c, 0.5));
}

static void print_columns(const RtDataCheck *k) {
    Table t = {.left = 4 + k->n_labels};
    static const char *const heads[] = {"column", "kind", "filled", "distinct"};
    for (int i = 0; i < 4; i++) add(&t, i, "%s", heads[i]);
    for (int l = 0; l < k->n_labels; l++)
        add(&t, 4 + l, k->n_labels > 1 ? "auc %s" : "auc", k->column[k->label[l]].c->name);
    add(&t, 4 + k->n_labels, "range");
    add(&t, 5 + k->n_labels, "most frequent");
    for (int i = 0; i < k->n_columns; i++) {
        const RtCheckColumn *c = &k->column[i];
        add(&t, 0, "%s", c->c->name);
        add(&t, 1, c->c->is_list ? "%s list" : "%s", kinds[c->c->kind]);
        add_share(&t, 2, share(c->filled, c->rows));
        add_count(&t, 3, rt_tally_distinct(&c->tally), rt_tally_exact(&c->tally));
        for (int l = 0; l < k->n_labels; l++) {
            double auc = c->c->is_list ? NAN : rt_check_auc(c, l);
            add(&t, 4 + l, isnan(auc) ? "" : "%.3f", auc);
        }
        add_range(&t, 4 + k->n_labels, c);
        add_top(&t, 5 + k->n_labels, c);
    }
    print_table(&t);
}

static void print_features(const RtDataCheck *k) {
    Table t = {.left = 4};
    char name[200];
    static const char *const heads[] = {"ids", "buckets", "distinct", "collide"};
    for (int i = 0; i < 4; i++) add(&t, i, "%s", heads[i]);
    for (int i = 0; i < k->n_features; i++) {
        const RtCheckFeature *f = &k->feature[i];
        double distinct;
        bool exact;
        if (f->f->op == RT_F_VOCAB) continue;
        double shared = rt_check_collisions(k, f, &distinct, &exact);
        add(&t, 0, "%s", rt_check_feature_name(k, f, name));
        add(&t, 1, "%llu", (unsigned long long)f->f->buckets);
        add_count(&t, 2, distinct, exact);
        add_share(&t, 3, shared);
    }
    print_table(&t);
    t = (Table){.left = 3};
    static const char *const vocab_heads[] = {"vocabulary", "values", "unknown"};
    for (int i = 0; i < 3; i++) add(&t, i, "%s", vocab_heads[i]);
    for (int i = 0; i < k->n_features; i++) {
        const RtCheckFeature *f = &k->feature[i];
        if (f->f->op != RT_F_VOCAB) continue;
        add(&t, 0, "%s", rt_check_feature_name(k, f, name));
        add(&t, 1, "%lld", (long long)k->m->vocabs[f->f->vocab].n);
        add_share(&t, 2, share(f->unknown, f->looked_up));
    }
    print_table(&t);
}

/* ---- text ---- */

static void print_head(const RtDataCheck *k) {
    printf("%s: %llu rows in %u file%s, %.1f MB in %.1f s (%.0f rows/s)\n", k->m->name,
           (unsigned long long)k->rows, k->files.n, k->files.n == 1 ? "" : "s", (double)k->bytes / 1e6,
           k->seconds, (double)k->rows / k->seconds);
    for (int l = 0; l < k->n_labels && k->rows; l++) {
        uint64_t n = rt_check_positives(k, l);
        printf("label %s: %llu rows are 1 (%.3g %%)\n", k->column[k->label[l]].c->name, (unsigned long long)n,
               100 * share(n, k->rows));
    }
    bool any = false;
    for (int i = 0; i < k->m->n_columns; i++) {
        const RtColumn *c = &k->m->columns[i];
        if (c->kind == RT_SKIP || k->plan->column_on[i]) continue;
        printf("%s%s", any ? ", " : "not read: ", c->name);
        any = true;
    }
    if (any) putchar('\n');
}

static void print_bad(const RtDataCheck *k) {
    if (!k->bad_rows) return;
    printf("\nbad rows: %llu, %.3g %%\n", (unsigned long long)k->bad_rows,
           100 * share(k->bad_rows, k->rows + k->bad_rows));
    for (uint64_t i = 0; i < k->bad_rows && i < RT_CHECK_MESSAGES; i++) {
        const char *text = k->bad[i].text;
        printf("  %.*s\n", (int)strcspn(text, "\n"), text); /* without the hint */
    }
    if (k->bad_rows > RT_CHECK_MESSAGES) puts("  ...");
}

static void print_warnings(const RtDataCheck *k) {
    size_t n = json_array_size(k->warnings);
    printf(n ? "\n%zu warning%s\n" : "\nno warnings\n", n, n == 1 ? "" : "s");
    for (size_t i = 0, alike = 0; i < n; i++) {
        const json_t *w = json_array_get(k->warnings, i), *next = json_array_get(k->warnings, i + 1);
        const char *kind = json_string_value(json_object_get(w, "kind")),
                   *text = json_string_value(json_object_get(w, "text"));
        bool last = !next || strcmp(kind, json_string_value(json_object_get(next, "kind")));
        if (alike++ < ALIKE)
            printf("  %s: %s\n", kind, text);
        else if (last)
            printf("  %s: and %zu more, of which --json tells\n", kind, alike - ALIKE);
        if (last) alike = 0;
    }
}

/* ---- JSON ---- */

static void set_real(json_t *o, const char *key, double x) { json_object_set_new(o, key, rt_real(x)); }
static void set_count(json_t *o, const char *key, uint64_t n) {
    json_object_set_new(o, key, json_integer((json_int_t)n));
}

static json_t *value_json(const RtCheckColumn *c, const RtTallyValue *v) {
    if (c->c->kind == RT_INT) return json_integer((json_int_t)v->key);
    if (c->c->kind != RT_STRING) return rt_real(rt_check_number(c->c, v->key));
    json_t *text = json_stringn(rt_tally_text(&c->tally, v), v->bytes);
    char shown[RT_SHOWN];
    return text ? text : json_string(rt_show(rt_tally_text(&c->tally, v), v->bytes, shown)); /* not UTF-8 */
}

static json_t *top_json(const RtCheckColumn *c) {
    RtTallyValue top[RT_CHECK_TOP];
    int n = rt_tally_top(&c->tally, top, RT_CHECK_TOP);
    json_t *a = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(
            a, json_pack("{s:o,s:I}", "value", value_json(c, &top[i]), "count", (json_int_t)top[i].n));
    return a;
}

static json_t *column_json(const RtDataCheck *k, const RtCheckColumn *c) {
    json_t *o = json_object(), *auc = json_object();
    json_object_set_new(o, "name", json_string(c->c->name));
    json_object_set_new(o, "kind", json_string(kinds[c->c->kind]));
    json_object_set_new(o, "list", json_boolean(c->c->is_list));
    set_count(o, "filled", c->filled);
    set_count(o, "distinct", (uint64_t)llround(rt_tally_distinct(&c->tally)));
    json_object_set_new(o, "exact", json_boolean(rt_tally_exact(&c->tally)));
    json_object_set_new(o, "top", top_json(c));
    if (rt_check_is_number(c->c) && c->values) {
        set_real(o, "min", c->min);
        set_real(o, "max", c->max);
        set_real(o, "mean", c->sum / (double)c->values);
        set_real(o, "median", rt_check_quantile(c, 0.5));
    }
    if (c->c->is_list && c->rows)
        json_object_set_new(o, "length",
                            json_pack("{s:I,s:f,s:I,s:I}", "min", (json_int_t)c->shortest, "mean",
                                      (double)c->elements / (double)c->rows, "max", (json_int_t)c->longest,
                                      "cut", (json_int_t)c->cut));
    for (int l = 0; l < k->n_labels && c->c->kind != RT_LABEL; l++)
        set_real(auc, k->column[k->label[l]].c->name, rt_check_auc(c, l));
    json_object_set_new(o, "auc", auc);
    return o;
}

static json_t *feature_json(const RtDataCheck *k, const RtCheckFeature *f) {
    json_t *o = json_object();
    char name[200];
    json_object_set_new(o, "name", json_string(rt_check_feature_name(k, f, name)));
    if (f->f->op == RT_F_VOCAB) {
        set_count(o, "values", (uint64_t)k->m->vocabs[f->f->vocab].n);
        set_count(o, "looked_up", f->looked_up);
        set_count(o, "unknown", f->unknown);
        return o;
    }
    double distinct;
    bool exact;
    double shared = rt_check_collisions(k, f, &distinct, &exact);
    set_count(o, "buckets", f->f->buckets);
    if (isfinite(distinct)) set_count(o, "distinct", (uint64_t)llround(distinct));
    set_real(o, "collisions", shared);
    json_object_set_new(o, "exact", json_boolean(exact));
    return o;
}

static int print_json(const RtDataCheck *k) {
    json_t *o = json_object(), *labels = json_object(), *columns = json_array(), *ids = json_array(),
           *bad = json_array();
    json_object_set_new(o, "model", json_string(k->m->name));
    set_count(o, "rows", k->rows);
    set_count(o, "bad_rows", k->bad_rows);
    set_count(o, "bytes", k->bytes);
    set_real(o, "seconds", k->seconds);
    for (int l = 0; l < k->n_labels && k->rows; l++)
        set_count(labels, k->column[k->label[l]].c->name, rt_check_positives(k, l));
    for (int i = 0; i < k->n_columns; i++) json_array_append_new(columns, column_json(k, &k->column[i]));
    for (int i = 0; i < k->n_features; i++) json_array_append_new(ids, feature_json(k, &k->feature[i]));
    for (uint64_t i = 0; i < k->bad_rows && i < RT_CHECK_MESSAGES; i++)
        json_array_append_new(bad, json_string(k->bad[i].text));
    json_object_set_new(o, "positives", labels);
    json_object_set_new(o, "columns", columns);
    json_object_set_new(o, "ids", ids);
    json_object_set_new(o, "first_bad", bad);
    json_object_set(o, "warnings", k->warnings);
    return rt_print_json(o);
}

int rt_check_print(RtDataCheck *k) {
    if (k->a->json) return print_json(k);
    print_head(k);
    if (k->rows) print_columns(k);
    if (k->rows) print_features(k);
    print_bad(k);
    print_warnings(k);
    return rt_flush_stdout();
}
