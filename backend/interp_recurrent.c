/* Reference meaning of recurrent layers and their gradients: along each row's positions one by one.
 *
 * GRU: Cho et al. 2014 as TensorFlow's GRUCell has it, the reset before the product. AUGRU: Zhou et al. 2019,
 * "Deep Interest Evolution Network for Click-Through Rate Prediction", with (1-a) u as DIEN's code has it.
 * SRU: Lei et al. 2018, "Simple Recurrent Units for Highly Parallelizable Recurrence". */
#include <math.h>
#include "backend/interp_core.h"

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* One layer: its sizes and weights, and where its rows begin. */
typedef struct {
    int64_t u;                 /* units */
    const double *Ug, *Uc, *a; /* a NULL: plain gru */
    const int64_t *off;
} Gru;

static Gru gru_of(Interp *it, const IrNode *n) {
    bool scored = n->op == OP_AUGRU || n->op == OP_AUGRUGRAD;
    return (Gru){.u = ir_type_width(n->in[2]->type),
                 .Ug = interp_in(it, n, 1).v,
                 .Uc = interp_in(it, n, 2).v,
                 .a = scored ? interp_in(it, n, 3).v : NULL,
                 .off = it->batch->offsets[n->type.axis]};
}

/* The record of position i from that before it (NULL: the row's first) and from p. */
static void gru_forward(const Gru *g, int64_t i, const double *p, const double *before, double *now) {
    int64_t u = g->u;
    double *h = now, *r = h + u, *c = h + 3 * u; /* behind r stands the update gate */
    for (int64_t e = 0; e < 2 * u; e++) {
        double sum = p[e];
        for (int64_t k = 0; before && k < u; k++) sum += before[k] * g->Ug[k * 2 * u + e];
        r[e] = sigmoid(sum);
    }
    for (int64_t e = 0; e < u; e++) {
        double sum = p[2 * u + e];
        for (int64_t k = 0; before && k < u; k++) sum += r[k] * before[k] * g->Uc[k * u + e];
        c[e] = tanh(sum);
    }
    for (int64_t e = 0; e < u; e++) {
        double gate = r[u + e] * (g->a ? 1 - g->a[i] : 1);
        h[e] = gate * (before ? before[e] : 0) + (1 - gate) * c[e];
    }
}

bool interp_GRU(Interp *it, const IrNode *n) {
    Gru g = gru_of(it, n);
    InterpValue p = interp_in(it, n, 0);
    double *out = interp_out(it, n);
    for (int64_t r = 0; r < it->batch->rows; r++)
        for (int64_t i = g.off[r]; i < g.off[r + 1]; i++)
            gru_forward(&g, i, p.v + i * p.size, i > g.off[r] ? out + (i - 1) * 4 * g.u : NULL,
                        out + i * 4 * g.u);
    return true;
}

bool interp_AUGRU(Interp *it, const IrNode *n) { return interp_GRU(it, n); }

/* d: the whole gradient of position i's h, in the last part of out's row; fills in the others. later: what
 * goes on to the position before. */
static void gru_backward(const Gru *g, int64_t i, const double *before, const double *now, double *out,
                         double *later) {
    int64_t u = g->u;
    const double *r = now + u, *gate = now + 2 * u, *c = now + 3 * u;
    double *dr = out, *du = out + u, *dc = out + 2 * u, *d = out + 3 * u, keep = g->a ? 1 - g->a[i] : 1;
    for (int64_t e = 0; e < u; e++) {
        double h = before ? before[e] : 0;
        dc[e] = d[e] * (1 - keep * gate[e]) * (1 - c[e] * c[e]);
        du[e] = keep * d[e] * (h - c[e]) * gate[e] * (1 - gate[e]);
        later[e] = d[e] * keep * gate[e];
    }
    for (int64_t k = 0; k < u; k++) { /* through (r h) Uc */
        double sum = 0;
        for (int64_t e = 0; e < u; e++) sum += dc[e] * g->Uc[k * u + e];
        dr[k] = sum * (before ? before[k] : 0) * r[k] * (1 - r[k]);
        later[k] += sum * r[k];
    }
    for (int64_t k = 0; k < u; k++) /* through h Ug; du stands behind dr */
        for (int64_t e = 0; e < 2 * u; e++) later[k] += dr[e] * g->Ug[k * 2 * u + e];
}

bool interp_GRUGRAD(Interp *it, const IrNode *n) {
    Gru g = gru_of(it, n);
    const double *record = interp_in(it, n, 0).v, *dh = interp_in(it, n, n->n_in - 1).v;
    double *out = interp_out(it, n), later[g.u];
    int64_t width = 4 * g.u;
    for (int64_t r = 0; r < it->batch->rows; r++)
        for (int64_t i = g.off[r + 1] - 1; i >= g.off[r]; i--) {
            for (int64_t e = 0; e < g.u; e++)
                out[i * width + 3 * g.u + e] = dh[i * g.u + e] + (i + 1 < g.off[r + 1] ? later[e] : 0);
            gru_backward(&g, i, i > g.off[r] ? record + (i - 1) * width : NULL, record + i * width,
                         out + i * width, later);
        }
    return true;
}

bool interp_AUGRUGRAD(Interp *it, const IrNode *n) { return interp_GRUGRAD(it, n); }

bool interp_SRU(Interp *it, const IrNode *n) {
    InterpValue f = interp_in(it, n, 0), v = interp_in(it, n, 1);
    const int64_t *off = it->batch->offsets[n->type.axis];
    double *c = interp_out(it, n);
    for (int64_t r = 0; r < it->batch->rows; r++)
        for (int64_t i = off[r] * f.size; i < off[r + 1] * f.size; i++)
            c[i] = f.v[i] * (i >= (off[r] + 1) * f.size ? c[i - f.size] : 0) + (1 - f.v[i]) * v.v[i];
    return true;
}

bool interp_SRUGRAD(Interp *it, const IrNode *n) {
    InterpValue f = interp_in(it, n, 0), dc = interp_in(it, n, 1);
    const int64_t *off = it->batch->offsets[n->type.axis];
    double *d = interp_out(it, n);
    for (int64_t r = 0; r < it->batch->rows; r++)
        for (int64_t i = off[r + 1] * f.size - 1; i >= off[r] * f.size; i--) {
            int64_t next = i + f.size;
            d[i] = dc.v[i] + (next < off[r + 1] * f.size ? f.v[next] * d[next] : 0);
        }
    return true;
}
