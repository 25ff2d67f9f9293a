/* Reference meaning of the sources and of the elementwise ops. */
#include <math.h>
#include <stdlib.h>
#include "backend/interp_core.h"

/* ---- sources ---- */

bool interp_CONST(Interp *it, const IrNode *n) {
    const IrAttr *value = ir_attr(n, "value");
    double *out = interp_out(it, n);
    int64_t size = ir_type_size(n->type);
    for (int64_t i = 0; i < size; i++) out[i] = value->flist.v[value->flist.n == 1 ? 0 : i];
    return true;
}

bool interp_WEIGHT(Interp *it, const IrNode *n) {
    int w = (int)ir_attr_i(n, "w");
    interp_alias(it, n, (InterpValue){it->weight[w], 1, ir_type_size(n->type)});
    return true;
}

bool interp_INVROWS(Interp *it, const IrNode *n) {
    interp_out(it, n)[0] = 1.0 / (double)it->batch->rows;
    return true;
}

bool interp_SEGLEN(Interp *it, const IrNode *n) {
    int axis = (int)ir_attr_i(n, "axis");
    const int64_t *off = it->batch->offsets ? it->batch->offsets[axis] : NULL;
    if (!off) return interp_error(it, n, "the batch has no offsets of axis '%s'", it->p->axes[axis].name);
    double *out = interp_out(it, n);
    for (int64_t r = 0; r < it->batch->rows; r++) out[r] = (double)(off[r + 1] - off[r]);
    return true;
}

/* ---- reader stage: the batch delivers these; they are never run ---- */

#define DELIVERED(ID)                                                                                        \
    bool interp_##ID(Interp *it, const IrNode *n) { return interp_error(it, n, "belongs to the reader"); }
DELIVERED(COLUMN)
DELIVERED(NUMBER)
DELIVERED(HASH)
DELIVERED(VOCAB)
DELIVERED(BUCKETIZE)
DELIVERED(IDENTITY)
DELIVERED(OFFSET)
DELIVERED(CROSS)
DELIVERED(TRUNCATE)
DELIVERED(POSITIONS)
DELIVERED(KEY)

/* ---- one operand ---- */

typedef double (*Unary)(double x, const IrNode *n);

static bool unary(Interp *it, const IrNode *n, Unary f) {
    InterpValue x = interp_in(it, n, 0);
    double *out = interp_out(it, n);
    for (int64_t i = 0; i < x.count * x.size; i++) out[i] = f(x.v[i], n);
    return true;
}

/* To nearest, ties to even, in the range of bfloat16, which is that of float. */
double interp_round_bf16(double x) {
    if (!isfinite(x) || x == 0) return x;
    int e;
    frexp(x, &e); /* x = m 2^e, 0.5 <= |m| < 1: 8 bits of m stay */
    double unit = ldexp(1, (e > -125 ? e : -125) - 8), r = nearbyint(x / unit) * unit;
    return fabs(r) >= 0x1p128 ? copysign(INFINITY, r) : r;
}

#define UNARY(ID, expr)                                                                                      \
    static double value_##ID(double x, const IrNode *n) {                                                    \
        (void)n;                                                                                             \
        return expr;                                                                                         \
    }                                                                                                        \
    bool interp_##ID(Interp *it, const IrNode *n) { return unary(it, n, value_##ID); }

UNARY(NEG, -x)
UNARY(EXP, exp(x))
UNARY(LOG, log(x))
UNARY(LOG1P, log1p(x))
UNARY(SQRT, sqrt(x))
UNARY(SQUARE, x *x)
UNARY(ABS, fabs(x))
UNARY(RELU, x > 0 ? x : x <= 0 ? 0 : x) /* NaN stays */
UNARY(LEAKYRELU, x > 0 ? x : ir_attr_f(n, "slope") * x)
UNARY(SIGMOID, x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)))
UNARY(TANH, tanh(x))
UNARY(SOFTPLUS, fmax(x, 0) + log1p(exp(-fabs(x))))
UNARY(ERF, erf(x))
UNARY(CLIP, x<ir_attr_f(n, "lo") ? ir_attr_f(n, "lo") : x> ir_attr_f(n, "hi") ? ir_attr_f(n, "hi") : x)
UNARY(STOPGRAD, x)
UNARY(BF16, interp_round_bf16(x))

/* ---- two operands ---- */

typedef double (*Binary)(double x, double y);

static bool binary(Interp *it, const IrNode *n, Binary f) {
    InterpValue x = interp_in(it, n, 0), y = interp_in(it, n, 1);
    IrType tx = n->in[0]->type, ty = n->in[1]->type;
    double *out = interp_out(it, n);
    int64_t count = interp_count(it, n->type), size = ir_type_size(n->type);
    int64_t *of_x = interp_stretch(tx, n->type), *of_y = interp_stretch(ty, n->type);
    for (int64_t i = 0; i < count; i++) {
        const double *xr = x.v + interp_row(it, tx, n->type, i) * x.size;
        const double *yr = y.v + interp_row(it, ty, n->type, i) * y.size;
        for (int64_t e = 0; e < size; e++) out[i * size + e] = f(xr[of_x[e]], yr[of_y[e]]);
    }
    free(of_x);
    free(of_y);
    return true;
}

#define BINARY(ID, expr)                                                                                     \
    static double value_##ID(double x, double y) { return expr; }                                            \
    bool interp_##ID(Interp *it, const IrNode *n) { return binary(it, n, value_##ID); }

BINARY(ADD, x + y)
BINARY(SUB, x - y)
BINARY(MUL, x *y)
BINARY(DIV, x / y)
BINARY(MAX2, x >= y ? x : y)
BINARY(MIN2, x <= y ? x : y)
BINARY(LT, x < y)
BINARY(LE, x <= y)
BINARY(GT, x > y)
BINARY(GE, x >= y)
BINARY(EQ, x == y)
BINARY(NE, x != y)
BINARY(BCELOGITS, fmax(x, 0) - x * y + log1p(exp(-fabs(x)))) /* x the logit, y the label */

/* ---- dropout ---- */

static uint32_t mix32(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

bool interp_DROPOUT(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0);
    if (!it->training) {
        interp_alias(it, n, x);
        return true;
    }
    double rate = ir_attr_f(n, "rate");
    uint32_t key = (uint32_t)ir_attr_i(n, "key");
    uint32_t of_seed = mix32((uint32_t)it->seed ^ mix32((uint32_t)(it->seed >> 32)));
    uint32_t of_step = mix32((uint32_t)it->step + mix32(key + of_seed));
    double *out = interp_out(it, n);
    for (int64_t i = 0; i < x.count * x.size; i++) {
        double u = mix32((uint32_t)i + of_step);
        out[i] = u < rate * 4294967296.0 ? 0 : x.v[i] / (1 - rate);
    }
    return true;
}
