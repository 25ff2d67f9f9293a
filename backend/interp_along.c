/* Reference meaning of ops that stay along a list: from position to position, and over the lists' lengths. */
#include <math.h>
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
