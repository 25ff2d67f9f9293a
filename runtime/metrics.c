#include "runtime/metrics.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/message.h"

/* A row as one word: the prediction's bits, turned so that they sort as the number does, above the label's.
 */
typedef struct {
    uint64_t *row, *group; /* group: gauc only */
    uint64_t n, cap;
    bool not_finite;          /* a prediction was NaN or infinite */
    double p, y, loss, right; /* sums over the rows */
} Rows;

struct RtMetrics {
    const RtModel *m;
    Rows *rows;
    bool keep; /* rows of all pairs */
};

const char *rt_metric_name(RtMetricKind k) {
    static const char *const names[] = {"auc", "gauc", "logloss", "pcoc", "accuracy"};
    return names[k];
}

static void *need(void *p) {
    if (!p) rt_out_of_memory();
    return p;
}

RtMetrics *rt_metrics_new(const RtModel *m) {
    RtMetrics *s = need(calloc(1, sizeof *s));
    s->m = m;
    s->rows = need(calloc(m->n_metrics + 1, sizeof *s->rows));
    return s;
}
void rt_metrics_free(RtMetrics *s) {
    if (!s) return;
    for (int i = 0; i < s->m->n_metrics; i++) {
        free(s->rows[i].row);
        free(s->rows[i].group);
    }
    free(s->rows);
    free(s);
}
void rt_metrics_reset(RtMetrics *s) {
    for (int i = 0; i < s->m->n_metrics; i++) {
        Rows *r = &s->rows[i];
        *r = (Rows){.row = r->row, .group = r->group, .cap = r->cap};
    }
}

/* ---- saved and restored ---- */

static bool needs_rows(const RtMetrics *s, int metric) {
    RtMetricKind kind = s->m->metrics[metric].kind;
    return kind == RT_AUC || kind == RT_GAUC;
}

bool rt_metrics_sums(const RtMetrics *s, int metric, RtMetricSums *out) {
    const Rows *r = &s->rows[metric];
    *out = (RtMetricSums){r->n, r->not_finite, r->p, r->y, r->loss, r->right};
    return !needs_rows(s, metric);
}

void rt_metrics_restore(RtMetrics *s, int metric, const RtMetricSums *sums) {
    Rows *r = &s->rows[metric];
    r->n = sums->rows;
    r->not_finite = sums->not_finite;
    r->p = sums->p, r->y = sums->y, r->loss = sums->loss, r->right = sums->right;
}

/* ---- collecting ---- */

static uint32_t float_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static uint64_t pack(float p, float y) {
    uint32_t u = float_bits(p + 0.0f); /* -0 ties with 0 */
    u ^= u >> 31 ? 0xffffffffu : 0x80000000u;
    return (uint64_t)u << 32 | float_bits(y);
}
float rt_row_label(uint64_t row) {
    uint32_t u = (uint32_t)row;
    float y;
    memcpy(&y, &u, sizeof y);
    return y;
}

float rt_row_prediction(uint64_t row) {
    uint32_t u = (uint32_t)(row >> 32);
    float p;
    u ^= u >> 31 ? 0x80000000u : 0xffffffffu;
    memcpy(&p, &u, sizeof p);
    return p;
}

static void room(Rows *r, uint64_t more, bool groups) {
    if (r->n + more <= r->cap) return;
    while (r->cap < r->n + more) r->cap = r->cap ? 2 * r->cap : 4096;
    r->row = need(realloc(r->row, r->cap * sizeof *r->row));
    if (groups) r->group = need(realloc(r->group, r->cap * sizeof *r->group));
}

double rt_logloss(double p, double y) {
    p = p < 1e-7 ? 1e-7 : p > 1 - 1e-7 ? 1 - 1e-7 : p;
    return -(y * log(p) + (1 - y) * log1p(-p));
}

/* Whether no earlier metric looks at the same prediction, label and rows. */
static bool is_first(const RtModel *m, int metric) {
    const RtMetric *b = &m->metrics[metric];
    for (const RtMetric *a = m->metrics; a < b; a++)
        if (a->p[RT_EVAL] == b->p[RT_EVAL] && a->y[RT_EVAL] == b->y[RT_EVAL] &&
            a->where[RT_EVAL] == b->where[RT_EVAL])
            return false;
    return true;
}

void rt_metrics_keep(RtMetrics *s) { s->keep = true; }

void rt_metrics_add(RtMetrics *s, int metric, uint32_t rows, const float *p, const float *y,
                    const float *where, const uint64_t *by) {
    Rows *r = &s->rows[metric];
    RtMetricKind kind = s->m->metrics[metric].kind;
    bool keep = kind == RT_AUC || kind == RT_GAUC || (s->keep && is_first(s->m, metric));
    if (keep) room(r, rows, kind == RT_GAUC);
    for (uint32_t i = 0; i < rows; i++) {
        if (where && where[i] == 0) continue;
        if (!isfinite(p[i])) r->not_finite = true;
        if (keep) {
            r->row[r->n] = pack(p[i], y[i]);
            if (kind == RT_GAUC) r->group[r->n] = by[i];
        }
        if (kind == RT_LOGLOSS)
            r->loss += rt_logloss(p[i], y[i]);
        else if (kind == RT_ACCURACY)
            r->right += (p[i] > 0.5f) == (y[i] > 0.5f);
        r->p += p[i];
        r->y += y[i];
        r->n++;
    }
}

/* ---- the rank statistic ---- */

/* One pass of a least-significant-digit radix sort by 16 bits of `key`; group may be NULL. */
static void radix_pass(const uint64_t *key, int shift, uint64_t n, const uint64_t *row, const uint64_t *group,
                       uint64_t *to_row, uint64_t *to_group, uint64_t *count) {
    memset(count, 0, 65536 * sizeof *count);
    for (uint64_t i = 0; i < n; i++) count[key[i] >> shift & 0xffff]++;
    for (uint64_t d = 0, sum = 0; d < 65536; d++) {
        uint64_t c = count[d];
        count[d] = sum;
        sum += c;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = count[key[i] >> shift & 0xffff]++;
        to_row[at] = row[i];
        if (group) to_group[at] = group[i];
    }
}

/* By prediction, and before that by group. An even number of passes: the result is where the rows were. */
static void sort_rows(const Rows *r) {
    uint64_t *count = need(malloc(65536 * sizeof *count)), *row = need(malloc((r->n + 1) * sizeof *row));
    uint64_t *group = r->group ? need(malloc((r->n + 1) * sizeof *group)) : NULL;
    radix_pass(r->row, 32, r->n, r->row, r->group, row, group, count);
    radix_pass(row, 48, r->n, row, group, r->row, r->group, count);
    for (int shift = 0; r->group && shift < 64; shift += 32) {
        radix_pass(r->group, shift, r->n, r->row, r->group, row, group, count);
        radix_pass(group, shift + 16, r->n, row, group, r->row, r->group, count);
    }
    free(count);
    free(row);
    free(group);
}

/* AUC of sorted rows lo..hi-1; a label between 0 and 1 counts as that much of a positive row and the rest of
 * a negative one. False if there are no positives or no negatives. */
static bool auc_of(const Rows *r, uint64_t lo, uint64_t hi, double *auc) {
    double positives = 0, negatives = 0, above = 0;
    for (uint64_t i = lo; i < hi;) {
        uint64_t tie = i;
        double p = 0, n = 0;
        for (; i < hi && r->row[i] >> 32 == r->row[tie] >> 32; i++) {
            double y = rt_row_label(r->row[i]);
            p += y;
            n += 1 - y;
        }
        above += p * (negatives + 0.5 * n);
        positives += p;
        negatives += n;
    }
    *auc = above / (positives * negatives);
    return positives > 0 && negatives > 0;
}

static bool gauc_of(const Rows *r, double *out) {
    double sum = 0, rows = 0;
    for (uint64_t lo = 0, hi; lo < r->n; lo = hi) {
        for (hi = lo + 1; hi < r->n && r->group[hi] == r->group[lo];) hi++;
        double auc;
        if (!auc_of(r, lo, hi, &auc)) continue;
        sum += auc * (double)(hi - lo);
        rows += (double)(hi - lo);
    }
    *out = sum / rows;
    return rows > 0;
}

const uint64_t *rt_metrics_rows(RtMetrics *s, int metric, uint64_t *n) {
    Rows r = s->rows[metric];
    *n = r.n;
    if (!s->keep || !is_first(s->m, metric)) return NULL;
    r.group = NULL;
    if (r.n) sort_rows(&r);
    return r.row;
}

bool rt_metrics_value(RtMetrics *s, int metric, double *out, const char **why) {
    Rows *r = &s->rows[metric];
    *why = NULL;
    *out = NAN;
    if (r->n == 0)
        *why = "no rows";
    else if (r->not_finite)
        *why = "a prediction is not finite";
    else
        switch (s->m->metrics[metric].kind) {
        case RT_AUC:
            sort_rows(r);
            if (!auc_of(r, 0, r->n, out)) *why = "all labels are alike";
            break;
        case RT_GAUC:
            sort_rows(r);
            if (!gauc_of(r, out)) *why = "no group has both labels";
            break;
        case RT_LOGLOSS: *out = r->loss / (double)r->n; break;
        case RT_ACCURACY: *out = r->right / (double)r->n; break;
        case RT_PCOC:
            if (r->y > 0)
                *out = r->p / r->y;
            else
                *why = "no label is above 0";
            break;
        }
    return !*why;
}

double rt_entropy(double p) { return p > 0 && p < 1 ? -(p * log(p) + (1 - p) * log1p(-p)) : NAN; }

double rt_metrics_normalized_entropy(const RtMetrics *s, int metric) {
    const Rows *r = &s->rows[metric];
    if (s->m->metrics[metric].kind != RT_LOGLOSS || !r->n || r->not_finite) return NAN;
    return r->loss / (double)r->n / rt_entropy(r->y / (double)r->n);
}
