/* Reference meaning of the ops that move elements. */
#include <stdlib.h>
#include <string.h>
#include "backend/interp_core.h"

bool interp_CONCAT(Interp *it, const IrNode *n) {
    double *out = interp_out(it, n);
    int64_t count = interp_count(it, n->type), size = ir_type_size(n->type), axis = ir_attr_i(n, "axis");
    InterpAxis whole = interp_axis(n->type, axis);
    int64_t begin = 0; /* along the axis */
    for (int k = 0; k < n->n_in; k++) {
        InterpValue x = interp_in(it, n, k);
        IrType tx = n->in[k]->type;
        InterpAxis part = interp_axis(tx, axis);
        for (int64_t i = 0; i < count; i++)
            for (int64_t o = 0; o < whole.outer; o++)
                memcpy(out + i * size + (o * whole.size + begin) * whole.inner,
                       x.v + interp_row(it, tx, n->type, i) * x.size + o * part.size * part.inner,
                       sizeof(double) * (size_t)(part.size * part.inner));
        begin += part.size;
    }
    return true;
}

/* Slice, pad, gather and scatter_add all say: element `from` along the axis of x goes to element `to` of the
 * result, added where several meet. */
static bool place(Interp *it, const IrNode *n, int64_t pairs, const int64_t *from, const int64_t *to) {
    InterpValue x = interp_in(it, n, 0);
    double *out = interp_out(it, n);
    InterpAxis ax = interp_axis(n->in[0]->type, ir_attr_i(n, "axis"));
    InterpAxis ay = interp_axis(n->type, ir_attr_i(n, "axis"));
    for (int64_t i = 0; i < x.count * ax.outer; i++)
        for (int64_t k = 0; k < pairs; k++)
            for (int64_t e = 0; e < ax.inner; e++)
                out[(i * ay.size + to[k]) * ay.inner + e] += x.v[(i * ax.size + from[k]) * ax.inner + e];
    return true;
}

static int64_t *counting(int64_t first, int64_t n) {
    int64_t *v = malloc(sizeof(int64_t) * (size_t)(n + 1));
    for (int64_t i = 0; v && i < n; i++) v[i] = first + i;
    return v;
}

bool interp_SLICE(Interp *it, const IrNode *n) {
    int64_t begin = ir_attr_i(n, "begin"), len = ir_attr_i(n, "end") - begin;
    int64_t *from = counting(begin, len), *to = counting(0, len);
    bool ok = place(it, n, len, from, to);
    free(from);
    free(to);
    return ok;
}

bool interp_PAD(Interp *it, const IrNode *n) {
    int64_t len = interp_axis(n->in[0]->type, ir_attr_i(n, "axis")).size;
    int64_t *from = counting(0, len), *to = counting(ir_attr_i(n, "before"), len);
    bool ok = place(it, n, len, from, to);
    free(from);
    free(to);
    return ok;
}

bool interp_GATHER(Interp *it, const IrNode *n) {
    const IrAttr *at = ir_attr(n, "indices");
    int64_t *to = counting(0, at->ilist.n);
    bool ok = place(it, n, at->ilist.n, at->ilist.v, to);
    free(to);
    return ok;
}

bool interp_SCATTERADD(Interp *it, const IrNode *n) {
    const IrAttr *at = ir_attr(n, "indices");
    int64_t *from = counting(0, at->ilist.n);
    bool ok = place(it, n, at->ilist.n, from, at->ilist.v);
    free(from);
    return ok;
}

bool interp_RESHAPE(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0);
    memcpy(interp_out(it, n), x.v, sizeof(double) * (size_t)(x.count * x.size));
    return true;
}

/* How panels stand in memory is the compiled program's alone. */
bool interp_PACK(Interp *it, const IrNode *n) { return interp_RESHAPE(it, n); }

bool interp_TRANSPOSE(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0);
    IrType tx = n->in[0]->type;
    const IrAttr *order = ir_attr(n, "order");
    double *out = interp_out(it, n);
    int64_t stride[IR_MAX_RANK]; /* of x's axes */
    for (int d = tx.rank - 1, s = 1; d >= 0; s *= (int)tx.dim[d--]) stride[d] = s;
    for (int64_t e = 0; e < x.size; e++) { /* element e of the result */
        int64_t rest = e, from = 0;
        for (int d = n->type.rank - 1; d >= 0; d--) {
            from += rest % n->type.dim[d] * stride[order->ilist.v[d]];
            rest /= n->type.dim[d];
        }
        for (int64_t i = 0; i < x.count; i++) out[i * x.size + e] = x.v[i * x.size + from];
    }
    return true;
}

bool interp_BROADCAST(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0);
    IrType tx = n->in[0]->type;
    double *out = interp_out(it, n);
    int64_t count = interp_count(it, n->type), size = ir_type_size(n->type);
    int64_t *of_x = interp_stretch(tx, n->type);
    for (int64_t i = 0; i < count; i++)
        for (int64_t e = 0; e < size; e++)
            out[i * size + e] = x.v[interp_row(it, tx, n->type, i) * x.size + of_x[e]];
    free(of_x);
    return true;
}
