/* Constant folding for simplify: an elementwise op of constants is a constant. Computed in double, as the
 * meaning of an op is; the backend rounds a constant once, where it would have rounded each step. */
#include "passes/simplify.h"
#include <math.h>

enum { MAX_FOLDED = 256 }; /* elements of a result with listed values; filled ones fold at any size */

static double one(const IrNode *n, double x) {
    switch (n->op) {
    case OP_NEG: return -x;
    case OP_EXP: return exp(x);
    case OP_LOG: return log(x);
    case OP_LOG1P: return log1p(x);
    case OP_SQRT: return sqrt(x);
    case OP_SQUARE: return x * x;
    case OP_ABS: return fabs(x);
    case OP_RELU: return x > 0 ? x : 0;
    case OP_LEAKYRELU: return x > 0 ? x : ir_attr_f(n, "slope") * x;
    case OP_SIGMOID: return 1 / (1 + exp(-x));
    case OP_TANH: return tanh(x);
    case OP_SOFTPLUS: return fmax(x, 0) + log1p(exp(-fabs(x)));
    case OP_ERF: return erf(x);
    case OP_CLIP: return fmin(fmax(x, ir_attr_f(n, "lo")), ir_attr_f(n, "hi"));
    default: return x; /* stop_gradient */
    }
}

static double two(IrOp op, double x, double y) {
    switch (op) {
    case OP_ADD: return x + y;
    case OP_SUB: return x - y;
    case OP_MUL: return x * y;
    case OP_DIV: return x / y;
    case OP_MAX2: return x > y ? x : y;
    case OP_MIN2: return x < y ? x : y;
    case OP_LT: return x < y;
    case OP_LE: return x <= y;
    case OP_GT: return x > y;
    case OP_GE: return x >= y;
    case OP_EQ: return x == y;
    case OP_NE: return x != y;
    default: return fmax(x, 0) - x * y + log1p(exp(-fabs(x))); /* bce_logits */
    }
}

/* Element i of a value of type `to`, as an operand that stretches to it has it. */
static double element(const IrNode *x, IrType to, int64_t i) {
    const IrAttr *v = ir_attr(x, "value");
    if (v->flist.n == 1) return v->flist.v[0];
    int64_t at = 0, step = 1;
    for (int k = 1; k <= to.rank; k++) { /* from the last dimension */
        int64_t place = i % to.dim[to.rank - k];
        i /= to.dim[to.rank - k];
        if (k > x->type.rank) continue;
        if (x->type.dim[x->type.rank - k] != 1) at += place * step;
        step *= x->type.dim[x->type.rank - k];
    }
    return v->flist.v[at];
}

IrNode *pass_fold(IrBuilder *b, IrNode *n) {
    if (ir_ops[n->op].cls != CLASS_EW || n->op == OP_DROPOUT || n->op == OP_STOPGRAD || n->op == OP_BF16)
        return n;
    bool filled = true;
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i]->op != OP_CONST) return n;
        filled &= ir_attr(n->in[i], "value")->flist.n == 1;
    }
    int64_t count = filled ? 1 : ir_type_size(n->type);
    if (count > MAX_FOLDED) return n;
    double v[MAX_FOLDED];
    for (int64_t i = 0; i < count; i++) {
        double x = element(n->in[0], n->type, i);
        v[i] = n->n_in == 2 ? two(n->op, x, element(n->in[1], n->type, i)) : one(n, x);
        if (!isfinite(v[i])) return n; /* leave it for the run to show */
    }
    IrAttr a[2] = {ir_afl(b->p->arena, "value", v, (int)count),
                   ir_ail(b->p->arena, "shape", n->type.dim, n->type.rank)};
    return ir_build(b, OP_CONST, 0, NULL, 2, a);
}
