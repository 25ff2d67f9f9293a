/* What is counted of a column, and what follows from the counts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "runtime/check.h"
#include "runtime/message.h"

bool rt_check_is_number(const RtColumn *c) {
    return c->kind == RT_INT || c->kind == RT_FLOAT || (c->kind == RT_LABEL && !c->positive);
}

void rt_check_column_init(RtCheckColumn *c, int labels) {
    rt_tally_init(&c->tally, labels);
    rt_tally_init(&c->lengths, labels);
    c->min = INFINITY;
    c->max = -INFINITY;
    c->shortest = UINT64_MAX;
    if (c->label >= 0) c->course = rt_reader_alloc(1, sizeof *c->course);
    if (c->label >= 0) c->course->chunk = 1;
}

void rt_check_column_free(RtCheckColumn *c) {
    rt_tally_free(&c->tally);
    rt_tally_free(&c->lengths);
    free(c->in_row);
    free(c->bins);
    free(c->course);
}

/* ---- numbers ---- */

uint64_t rt_check_number_key(const RtColumn *c, const RtValues *v, uint32_t i) {
    if (c->kind == RT_INT) return (uint64_t)v->whole[i];
    float x = v->real[i] + 0.0f; /* -0 is 0 */
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

double rt_check_number(const RtColumn *c, uint64_t key) {
    if (c->kind == RT_INT) return (double)(int64_t)key;
    uint32_t bits = (uint32_t)key;
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

/* A value of the map by its number, with what it counts. */
typedef struct {
    double x;
    uint64_t n;
    const uint64_t *part;
} Number;

static int by_number(const void *a, const void *b) {
    double x = ((const Number *)a)->x, y = ((const Number *)b)->x;
    return x < y ? -1 : x > y;
}

/* The map's values in order, and behind them room for the bins. */
static Number *sorted(const RtCheckColumn *c) {
    const RtTallyMap *m = &c->tally.map;
    size_t stride = 2 + 2 * (size_t)c->tally.labels;
    Number *v = rt_reader_alloc((size_t)m->n + RT_CHECK_BINS, sizeof *v);
    for (uint32_t i = 0; i < m->n; i++)
        v[i] = (Number){rt_check_number(c->c, m->value[i].key), m->value[i].n, c->tally.part + i * stride};
    qsort(v, m->n, sizeof *v, by_number);
    return v;
}

static void make_bins(RtCheckColumn *c) {
    c->bins = rt_reader_alloc(1, sizeof *c->bins);
    Number *v = sorted(c);
    for (int b = 0; b < RT_CHECK_BINS; b++)
        c->bins->lower[b] = v[(size_t)c->tally.map.n * b / RT_CHECK_BINS].x;
    free(v);
}

static void add_late(RtCheckColumn *c, double x, uint32_t positive) {
    if (!c->bins) make_bins(c);
    int lo = 0, hi = RT_CHECK_BINS;
    while (hi - lo > 1) {
        int mid = (lo + hi) / 2;
        if (c->bins->lower[mid] <= x)
            lo = mid;
        else
            hi = mid;
    }
    c->bins->n[lo]++;
    for (int l = 0; l < c->tally.labels; l++) c->bins->positive[lo][l] += positive >> l & 1;
}

double rt_check_quantile(const RtCheckColumn *c, double share) {
    Number *v = sorted(c);
    size_t n = c->tally.map.n;
    uint64_t all = 0, seen = 0;
    double x = NAN;
    for (int b = 0; c->bins && b < RT_CHECK_BINS; b++)
        v[n++] = (Number){c->bins->lower[b], c->bins->n[b], NULL};
    qsort(v, n, sizeof *v, by_number);
    for (size_t i = 0; i < n; i++) all += v[i].n;
    for (size_t i = 0; i < n && isnan(x); i++)
        if ((double)(seen += v[i].n) >= share * (double)all) x = v[i].x;
    free(v);
    return x;
}

/* ---- counting ---- */

static void add_course(RtCheckCourse *s, uint32_t positive) {
    if (!s->n || s->rows[s->n - 1] == s->chunk) {
        if (s->n == RT_CHECK_CHUNKS) { /* two chunks become one */
            for (int i = 0; i < s->n / 2; i++) {
                s->rows[i] = s->rows[2 * i] + s->rows[2 * i + 1];
                s->positive[i] = s->positive[2 * i] + s->positive[2 * i + 1];
            }
            s->n /= 2;
            s->chunk *= 2;
        }
        s->rows[s->n] = s->positive[s->n] = 0;
        s->n++;
    }
    s->rows[s->n - 1]++;
    s->positive[s->n - 1] += positive;
}

static void add_number(RtCheckColumn *c, double x) {
    if (x < c->min) c->min = x;
    if (x > c->max) c->max = x;
    c->sum += x;
}

/* An element counts once a row for what its being there says, however often the list holds it. */
static void add_element(RtCheckColumn *c, uint64_t *part, uint64_t row, int half, uint32_t positive) {
    if (part == c->tally.late) return;
    size_t i = (size_t)(part - c->tally.part) / (2 + 2 * (size_t)c->tally.labels), had = c->cap_in_row;
    c->in_row = rt_reader_grow(c->in_row, &c->cap_in_row, i + 1, sizeof *c->in_row);
    if (c->cap_in_row > had) memset(c->in_row + had, 0, (c->cap_in_row - had) * sizeof *c->in_row);
    if (c->in_row[i] == row) return;
    c->in_row[i] = row;
    rt_tally_row(part, half, c->tally.labels, positive);
}

static void add_list(RtCheckColumn *c, const uint64_t *key, uint32_t kept, uint64_t total) {
    c->elements += total;
    c->cut += c->most && total > c->most;
    if (total < c->shortest) c->shortest = total;
    if (total > c->longest) c->longest = total;
    if (c->differ) return;
    uint64_t hash = XXH3_64bits_withSeed(key, kept * sizeof *key, total);
    if (c->elements == total) c->first_list = hash; /* nothing before it, but for empty ones */
    c->differ = hash != c->first_list;
}

void rt_check_column_add(RtCheckColumn *c, const RtCheckValues *v, uint32_t rows, const uint8_t *half,
                         const uint32_t *positive) {
    bool list = c->c->is_list, number = rt_check_is_number(c->c);
    int labels = c->lengths.labels;
    size_t at = 0;
    for (uint32_t r = 0; r < rows; r++) {
        if (c->course) add_course(c->course, positive[r] >> c->label & 1);
        if (list)
            rt_tally_row(rt_tally_add(&c->lengths, v->total[r], NULL, 0), half[r], labels, positive[r]);
        else if (!v->count[r])
            rt_tally_row(c->tally.none, half[r], labels, positive[r]);
        c->filled += list ? v->total[r] > 0 : v->count[r] > 0;
        if (list) add_list(c, v->key + at, v->count[r], v->total[r]);
        for (uint32_t i = 0; i < v->count[r]; i++, at++) {
            if (at + 16 < v->n) rt_tally_expect(&c->tally, v->key[at + 16], false);
            if (at + 8 < v->n) rt_tally_expect(&c->tally, v->key[at + 8], true);
            RtText t = c->c->kind == RT_STRING ? v->text[at] : (RtText){NULL, 0};
            uint64_t *part = rt_tally_add(&c->tally, v->key[at], t.p, t.n);
            if (number) add_number(c, rt_check_number(c->c, v->key[at]));
            if (list) {
                add_element(c, part, c->rows + r + 1, half[r], positive[r]);
                continue;
            }
            rt_tally_row(part, half[r], labels, positive[r]);
            if (number && part == c->tally.late) add_late(c, rt_check_number(c->c, v->key[at]), positive[r]);
        }
    }
    c->rows += rows;
    c->values += at;
}

/* ---- what follows ---- */

uint64_t rt_check_positives(const RtDataCheck *k, int label) {
    const RtCheckCourse *s = k->column[k->label[label]].course;
    uint64_t n = 0;
    for (int i = 0; i < s->n; i++) n += s->positive[i];
    return n;
}

bool rt_check_course(const RtCheckColumn *c, double *first, double *last, double *rows) {
    const RtCheckCourse *s = c->course;
    double p[2] = {0, 0}, n[2] = {0, 0};
    int tenth = s->n / 10;
    for (int i = 0; i < tenth; i++)
        for (int end = 0; end < 2; end++) {
            int at = end ? s->n - 1 - i : i;
            p[end] += (double)s->positive[at];
            n[end] += (double)s->rows[at];
        }
    *first = p[0] / n[0];
    *last = p[1] / n[1];
    *rows = n[0] < n[1] ? n[0] : n[1];
    return tenth > 0;
}

/* As a number: rows with a smaller one against rows with a larger one, whichever way it goes. */
static double auc_of_numbers(const RtCheckColumn *c, int label) {
    size_t n = c->tally.map.n, k = 0;
    RtScored *s = rt_reader_alloc(n + RT_CHECK_BINS, sizeof *s);
    Number *v = sorted(c);
    for (size_t i = 0; i < n; i++, k++) {
        double rows = (double)(v[i].part[0] + v[i].part[1]),
               p = (double)(v[i].part[2 + 2 * label] + v[i].part[3 + 2 * label]);
        s[k] = (RtScored){v[i].x, p, rows - p};
    }
    for (int b = 0; c->bins && b < RT_CHECK_BINS; b++, k++)
        s[k] = (RtScored){c->bins->lower[b], (double)c->bins->positive[b][label],
                          (double)(c->bins->n[b] - c->bins->positive[b][label])};
    double auc = rt_auc_of_groups(s, k);
    free(v);
    free(s);
    return auc < 0.5 ? 1 - auc : auc;
}

/* Rows, and those of them with a positive label, among those that a tally's value i was counted of. */
static void rows_of(const uint64_t *part, int label, double *rows, double *positive) {
    *rows += (double)(part[0] + part[1]);
    *positive += (double)(part[2 + 2 * label] + part[3 + 2 * label]);
}

double rt_check_element_auc(const RtCheckColumn *c, int label, RtTallyValue *element) {
    const RtTally *t = &c->tally, *l = &c->lengths;
    size_t stride = 2 + 2 * (size_t)t->labels;
    double rows = 0, positives = 0, best = NAN;
    for (uint32_t i = 0; i < l->map.n; i++) rows_of(l->part + i * stride, label, &rows, &positives);
    rows_of(l->late, label, &rows, &positives);
    for (uint32_t i = 0; i < t->map.n; i++) {
        double n = 0, p = 0;
        rows_of(t->part + i * stride, label, &n, &p);
        double auc = 0.5 + 0.5 * fabs(p / positives - (n - p) / (rows - positives));
        if (!(auc > best) && !isnan(best)) continue;
        best = auc;
        *element = t->map.value[i];
    }
    return best;
}

double rt_check_auc(const RtCheckColumn *c, int label) {
    RtTallyValue element;
    if (c->c->kind == RT_LABEL) return NAN;
    if (c->c->is_list)
        return fmax(fmax(rt_tally_auc(&c->lengths, label), rt_check_element_auc(c, label, &element)), 0.5);
    double auc = rt_tally_auc(&c->tally, label);
    if (rt_check_is_number(c->c)) auc = fmax(auc, auc_of_numbers(c, label)); /* fmax passes over a NaN */
    return auc < 0.5 ? 0.5 : auc;
}

/* ---- collisions ---- */

static int by_bucket(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static uint32_t bucket_of(const RtCheckColumn *c, uint64_t key, RtMod mod) {
    if (c->c->kind != RT_INT) return rt_mod(key, mod); /* the key of a text is its hash */
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)key);
    return rt_mod(XXH3_64bits(text, (size_t)n), mod);
}

static double count_collisions(const RtCheckColumn *c, RtMod mod) {
    size_t n = c->tally.map.n, shared = 0;
    uint32_t *bucket = rt_reader_alloc(n, sizeof *bucket);
    for (size_t i = 0; i < n; i++) bucket[i] = bucket_of(c, c->tally.map.value[i].key, mod);
    qsort(bucket, n, sizeof *bucket, by_bucket);
    for (size_t i = 0; i < n; i++)
        shared += (i && bucket[i] == bucket[i - 1]) || (i + 1 < n && bucket[i] == bucket[i + 1]);
    free(bucket);
    return n ? (double)shared / (double)n : 0;
}

/* Of d values in b buckets, each value meets another with 1 - (1 - 1/b)^(d-1). */
static double expected(double d, double b) { return d > 1 ? -expm1((d - 1) * log1p(-1 / b)) : 0; }

double rt_check_collisions(const RtDataCheck *k, const RtCheckFeature *f, double *distinct, bool *exact) {
    *exact = false;
    *distinct = NAN;
    double buckets = (double)f->f->buckets;
    if (f->f->op == RT_F_CROSS) { /* linear counting: Whang et al., ACM TODS 15(2), 1990 */
        uint64_t used = 0;
        for (uint64_t i = 0; f->occupied && i <= f->f->buckets / 64; i++)
            used += (uint64_t)__builtin_popcountll(f->occupied[i]);
        if (!f->occupied || (double)used == buckets) return NAN;
        *distinct = -buckets * log1p(-(double)used / buckets);
        return expected(*distinct, buckets);
    }
    for (int i = 0; i < k->n_columns; i++) {
        const RtCheckColumn *c = &k->column[i];
        if (c->column != k->plan->root[f->feature]) continue;
        *distinct = rt_tally_distinct(&c->tally);
        *exact =
            rt_tally_exact(&c->tally) && !f->f->farm64 && (c->c->kind == RT_STRING || c->c->kind == RT_INT);
        if (*exact) return count_collisions(c, rt_mod_new((uint32_t)f->f->buckets));
    }
    return expected(*distinct, buckets);
}
