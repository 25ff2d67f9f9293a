#include "tests/tools/exact_metrics.h"
#include <math.h>
#include <stdlib.h>

typedef struct {
    double p, y;
} Row;
typedef struct {
    Row *row;
    int64_t n, cap;
} Rows;
struct ExactMetrics {
    IrProgram *p;
    const RtModel *m;
    Rows *rows; /* [metric] */
};

ExactMetrics *exact_metrics_new(IrProgram *p, const RtModel *m) {
    ExactMetrics *e = calloc(1, sizeof *e);
    if (!e || !(e->rows = calloc((size_t)m->n_metrics + 1, sizeof *e->rows))) abort();
    e->p = p;
    e->m = m;
    return e;
}

void exact_metrics_free(ExactMetrics *e) {
    if (!e) return;
    for (int i = 0; i < e->m->n_metrics; i++) free(e->rows[i].row);
    free(e->rows);
    free(e);
}

static void push(Rows *r, Row row) {
    if (r->n == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 1024;
        if (!(r->row = realloc(r->row, (size_t)r->cap * sizeof *r->row))) abort();
    }
    r->row[r->n++] = row;
}

/* The model's metrics are described in the order of the function's. */
void exact_metrics_add(ExactMetrics *e, const Interp *it) {
    const IrBody *b = &ir_func(e->p, "train")->body;
    for (int i = 0, k = 0; i < b->n && k < e->m->n_metrics; i++) {
        const IrNode *n = b->nodes[i];
        if (n->op != OP_METRIC) continue;
        Rows *r = &e->rows[k++];
        const InterpValue *p = interp_value(it, n->in[0]), *y = interp_value(it, n->in[1]),
                          *where = ir_attr_i(n, "where") ? interp_value(it, n->in[2]) : NULL;
        for (int64_t row = 0; p && y && row < p->count; row++)
            if (!where || where->v[row] != 0) push(r, (Row){p->v[row], y->v[row]});
    }
}

static int by_prediction(const void *a, const void *b) {
    double x = ((const Row *)a)->p, y = ((const Row *)b)->p;
    return (x > y) - (x < y);
}

/* How often a positive row stands above a negative one; ties count half, a label between 0 and 1 as that much
 * of a positive row and the rest of a negative one. Sorts the rows. */
static double auc(Rows *r) {
    double below = 0, positive = 0, pairs = 0;
    qsort(r->row, (size_t)r->n, sizeof *r->row, by_prediction);
    for (int64_t i = 0, end; i < r->n; i = end) {
        double plus = 0, minus = 0;
        for (end = i; end < r->n && r->row[end].p == r->row[i].p; end++) {
            plus += r->row[end].y;
            minus += 1 - r->row[end].y;
        }
        pairs += plus * (below + 0.5 * minus);
        below += minus;
        positive += plus;
    }
    return pairs / (below * positive);
}

static double logloss(const Rows *r) {
    double sum = 0;
    for (int64_t i = 0; i < r->n; i++) {
        double p = fmin(fmax(r->row[i].p, 1e-7), 1 - 1e-7), y = r->row[i].y;
        sum -= y * log(p) + (1 - y) * log1p(-p);
    }
    return sum / (double)r->n;
}

json_t *exact_metrics_json(const ExactMetrics *e) {
    json_t *all = json_object();
    for (int k = 0; k < e->m->n_metrics; k++) {
        const RtMetric *m = &e->m->metrics[k];
        if (m->kind != RT_AUC && m->kind != RT_LOGLOSS) continue;
        const char *kind = m->kind == RT_AUC ? "auc" : "logloss";
        double v = m->kind == RT_AUC ? auc(&e->rows[k]) : logloss(&e->rows[k]);
        if (!json_object_get(all, kind)) json_object_set_new(all, kind, json_object());
        json_object_set_new(json_object_get(all, kind), m->key, isfinite(v) ? json_real(v) : json_null());
    }
    return all;
}
