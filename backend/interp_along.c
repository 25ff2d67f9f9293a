/* Reference meaning of ops that stay along a list: from position to position, and over the lists' lengths. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "backend/interp_core.h"

bool interp_SEGSOFTMAX(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0);
    const int64_t *off = it->batch->offsets[n->type.axis];
    double *out = interp_out(it, n);
    for (int64_t r = 0; r < it->batch->rows; r++)
        for (int64_t e = 0; e < x.size; e++) {
            double most = -INFINITY, sum = 0;
            for (int64_t i = off[r]; i < off[r + 1]; i++) most = fmax(most, x.v[i * x.size + e]);
            for (int64_t i = off[r]; i < off[r + 1]; i++)
                sum += out[i * x.size + e] = exp(x.v[i * x.size + e] - most);
            for (int64_t i = off[r]; i < off[r + 1]; i++) out[i * x.size + e] /= sum;
        }
    return true;
}

bool interp_SHIFT(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0);
    const int64_t *off = it->batch->offsets[n->type.axis], k = ir_attr_i(n, "k");
    double *out = interp_out(it, n);
    for (int64_t r = 0; r < it->batch->rows; r++)
        for (int64_t i = off[r]; i < off[r + 1]; i++)
            if (i + k >= off[r] && i + k < off[r + 1])
                memcpy(out + i * x.size, x.v + (i + k) * x.size, sizeof(double) * (size_t)x.size);
    return true;
}

/* ---- appending ---- */

bool interp_APPEND(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0), row = interp_in(it, n, 1);
    const int64_t *off = it->batch->offsets[n->type.axis], *from = it->batch->offsets[n->in[0]->type.axis];
    double *out = interp_out(it, n);
    for (int64_t r = 0; r < it->batch->rows; r++) {
        int64_t count = from[r + 1] - from[r], owner = n->in[1]->type.live == LIVE_ROW ? r : 0;
        if (off[r + 1] - off[r] != count + 1)
            return interp_error(it, n, "row %lld: expected %lld positions of axis '%s', found %lld",
                                (long long)r, (long long)count + 1, it->p->axes[n->type.axis].name,
                                (long long)(off[r + 1] - off[r]));
        memcpy(out + off[r] * x.size, x.v + from[r] * x.size, sizeof(double) * (size_t)(count * x.size));
        memcpy(out + (off[r] + count) * x.size, row.v + owner * x.size, sizeof(double) * (size_t)x.size);
    }
    return true;
}

bool interp_APPENDGRAD(Interp *it, const IrNode *n) {
    InterpValue g = interp_in(it, n, 0);
    const int64_t *off = it->batch->offsets[n->type.axis], *from = it->batch->offsets[n->in[0]->type.axis];
    double *out = interp_out(it, n);
    for (int64_t r = 0; r < it->batch->rows; r++)
        memcpy(out + off[r] * g.size, g.v + from[r] * g.size,
               sizeof(double) * (size_t)((off[r + 1] - off[r]) * g.size));
    return true;
}

bool interp_SEGLAST(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0);
    const int64_t *off = it->batch->offsets[n->in[0]->type.axis];
    double *out = interp_out(it, n);
    for (int64_t r = 0; r < it->batch->rows; r++)
        if (off[r + 1] > off[r])
            memcpy(out + r * x.size, x.v + (off[r + 1] - 1) * x.size, sizeof(double) * (size_t)x.size);
    return true;
}

/* ---- attention ---- */

static double dot(const double *x, const double *y, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* w[s] = softmax over the positions first..end-1 of scale * q . k[s] */
static void attend_weights(const double *q, const InterpValue *k, double scale, int64_t first, int64_t end,
                           double *w) {
    double most = -INFINITY, sum = 0;
    for (int64_t s = first; s < end; s++)
        most = fmax(most, w[s - first] = scale * dot(q, k->v + s * k->size, k->size));
    for (int64_t s = 0; s < end - first; s++) sum += w[s] = exp(w[s] - most);
    for (int64_t s = 0; s < end - first; s++) w[s] /= sum;
}

static double *row_of_weights(Interp *it, const IrNode *n) {
    const int64_t *off = it->batch->offsets[n->type.axis];
    double *w = malloc(sizeof *w * (size_t)(off[it->batch->rows] + 1));
    if (!w) interp_error(it, n, "out of memory");
    return w;
}

bool interp_ATTEND(Interp *it, const IrNode *n) {
    InterpValue q = interp_in(it, n, 0), k = interp_in(it, n, 1), v = interp_in(it, n, 2);
    const int64_t *off = it->batch->offsets[n->type.axis];
    double *out = interp_out(it, n), *w = row_of_weights(it, n), scale = ir_attr_f(n, "scale");
    for (int64_t r = 0; w && r < it->batch->rows; r++)
        for (int64_t t = off[r]; t < off[r + 1]; t++) {
            attend_weights(q.v + t * q.size, &k, scale, off[r], off[r + 1], w);
            for (int64_t s = off[r]; s < off[r + 1]; s++)
                for (int64_t e = 0; e < v.size; e++)
                    out[t * v.size + e] += w[s - off[r]] * v.v[s * v.size + e];
        }
    free(w);
    return w;
}

/* With score a[t,s] and weight w[t,s]: dv[s] = sum_t w g[t], da = w (g[t] . v[s] - g[t] . y[t]), and dq, dk
 * as of the product scale q k^T. */
bool interp_ATTENDGRAD(Interp *it, const IrNode *n) {
    InterpValue q = interp_in(it, n, 0), k = interp_in(it, n, 1), v = interp_in(it, n, 2),
                y = interp_in(it, n, 3), g = interp_in(it, n, 4);
    const int64_t *off = it->batch->offsets[n->type.axis], d = q.size, e = v.size, all = 2 * d + e;
    double *out = interp_out(it, n), *w = row_of_weights(it, n), scale = ir_attr_f(n, "scale");
    for (int64_t r = 0; w && r < it->batch->rows; r++)
        for (int64_t t = off[r]; t < off[r + 1]; t++) {
            attend_weights(q.v + t * d, &k, scale, off[r], off[r + 1], w);
            double mean = dot(g.v + t * e, y.v + t * e, e);
            for (int64_t s = off[r]; s < off[r + 1]; s++) {
                double weight = w[s - off[r]],
                       da = scale * weight * (dot(g.v + t * e, v.v + s * e, e) - mean);
                for (int64_t i = 0; i < d; i++) out[t * all + i] += da * k.v[s * d + i];
                for (int64_t i = 0; i < d; i++) out[s * all + d + i] += da * q.v[t * d + i];
                for (int64_t i = 0; i < e; i++) out[s * all + 2 * d + i] += weight * g.v[t * e + i];
            }
        }
    free(w);
    return w;
}

/* ---- over the step ---- */

bool interp_LONGEST(Interp *it, const IrNode *n) {
    int axis = (int)ir_attr_i(n, "axis");
    const int64_t *off = it->batch->offsets ? it->batch->offsets[axis] : NULL;
    if (!off) return interp_error(it, n, "the batch has no offsets of axis '%s'", it->p->axes[axis].name);
    int64_t most = 0;
    for (int64_t r = 0; r < it->batch->rows; r++)
        if (off[r + 1] - off[r] > most) most = off[r + 1] - off[r];
    interp_out(it, n)[0] = (double)most;
    return true;
}
