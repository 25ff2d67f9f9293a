/* simplify: constant folding, identities, common subexpressions, pooled lookups, dead code. Exact.
 *
 * before:  %2 = const {value=[2]}   %3 = const {value=[0.5]}
 *          %4 = mul %2, %3          always f32[1]
 *          %5 = mul %0, %4          f32[4]
 *          %6 = relu %5             f32[4]
 *          %7 = relu %5             f32[4]
 *          %8 = add %6, %7          f32[4]
 * after:   %6 = relu %0             f32[4]
 *          %8 = add %6, %6          f32[4]
 * (tests/golden/passes/simplify/basics.*)
 *
 * Only identities that hold for every float are used: nothing is reassociated, 0 * x stays, and x + 0 goes
 * only where x can't be -0. Two equal dropouts have equal keys, so they are one; a batchnorm is never merged
 * with its equal, since each moves the running statistics once. */
#include "passes/simplify.h"
#include <math.h>

/* ---- identities ---- */

/* Can't be -0, so that x + 0 is x. */
static bool never_minus_zero(const IrNode *x) {
    switch (x->op) {
    case OP_LT: case OP_LE: case OP_GT: case OP_GE: case OP_EQ: case OP_NE:
    case OP_EXP: case OP_SIGMOID: case OP_SOFTPLUS: case OP_SQUARE: case OP_ABS: case OP_ONEHOT: case OP_SEGLEN:
        return true;
    default: return false;
    }
}

static IrNode *elementwise(PassRewrite *rw, IrNode *n) {
    IrNode *x = n->in[0], *y = n->n_in > 1 ? n->in[1] : NULL;
    bool x_fits = ir_type_eq(x->type, n->type), y_fits = y && ir_type_eq(y->type, n->type);
    switch (n->op) {
    case OP_MUL:
        if (x_fits && pass_is_const(y, 1)) return x;
        if (y_fits && pass_is_const(x, 1)) return y;
        if (x_fits && pass_is_const(y, -1)) return ir_build1(&rw->b, OP_NEG, x);
        if (y_fits && pass_is_const(x, -1)) return ir_build1(&rw->b, OP_NEG, y);
        return n;
    case OP_DIV: return x_fits && pass_is_const(y, 1) ? x : n;
    case OP_SUB: return x_fits && pass_is_const(y, 0) && !signbit(ir_attr(y, "value")->flist.v[0]) ? x : n;
    case OP_ADD:
        if (x_fits && pass_is_const(y, 0) && never_minus_zero(x)) return x;
        return y_fits && pass_is_const(x, 0) && never_minus_zero(y) ? y : n;
    case OP_NEG: return x->op == OP_NEG ? x->in[0] : n;
    case OP_RELU: case OP_ABS: return x->op == n->op ? x : n;
    case OP_DROPOUT: return ir_attr_f(n, "rate") == 0 ? x : n;
    default: return n;
    }
}

static bool in_order(const IrAttr *order) {
    for (int i = 0; i < order->ilist.n; i++)
        if (order->ilist.v[i] != i) return false;
    return true;
}

static IrNode *transpose(PassRewrite *rw, IrNode *n) {
    const IrAttr *outer = ir_attr(n, "order");
    if (in_order(outer)) return n->in[0];
    if (n->in[0]->op != OP_TRANSPOSE) return n;
    const IrAttr *inner = ir_attr(n->in[0], "order");
    int64_t order[IR_MAX_RANK];
    for (int i = 0; i < outer->ilist.n; i++) order[i] = inner->ilist.v[outer->ilist.v[i]];
    IrAttr a = ir_ail(rw->p->arena, "order", order, outer->ilist.n);
    return ir_build(&rw->b, OP_TRANSPOSE, 1, n->in[0]->in, 1, &a);
}

/* A slice of a concat or pad that is just what went in there. */
static IrNode *slice(IrNode *n) {
    IrNode *x = n->in[0];
    int axis = (int)ir_attr_i(n, "axis");
    int64_t begin = ir_attr_i(n, "begin"), at = 0;
    if (x->op == OP_CONCAT && ir_attr_i(x, "axis") == axis)
        for (int i = 0; i < x->n_in; at += x->in[i++]->type.dim[axis])
            if (at == begin && ir_type_eq(x->in[i]->type, n->type)) return x->in[i];
    if (x->op == OP_PAD && ir_attr_i(x, "axis") == axis && ir_attr_i(x, "before") == begin &&
        ir_type_eq(x->in[0]->type, n->type))
        return x->in[0];
    return n;
}

static IrNode *identity(PassRewrite *rw, IrNode *n) {
    if (n->n_in == 0) return n;
    bool same = ir_type_eq(n->in[0]->type, n->type);
    switch (n->op) {
    case OP_RESHAPE:
        if (same) return n->in[0];
        if (n->in[0]->op == OP_RESHAPE) return pass_reshape(&rw->b, n->in[0]->in[0], n->type.rank, n->type.dim);
        return n;
    case OP_BROADCAST: case OP_PAD: return same ? n->in[0] : n;
    case OP_SLICE: return same ? n->in[0] : slice(n);
    case OP_CONCAT: return n->n_in == 1 ? n->in[0] : n;
    case OP_TRANSPOSE: return transpose(rw, n);
    case OP_SUM: case OP_MAXR:
        if (n->in[0]->type.dim[ir_attr_i(n, "axis")] != 1) return n;
        return pass_reshape(&rw->b, n->in[0], n->type.rank, n->type.dim);
    default: return ir_ops[n->op].cls == CLASS_EW ? elementwise(rw, n) : n;
    }
}

/* ---- common subexpressions ---- */

typedef struct {
    IrNode **slot;
    size_t cap; /* a power of two, at least twice the nodes */
} Seen;

static bool mergeable(const IrNode *n) {
    return !pass_is_root(n) && n->op != OP_BATCHNORM && !n->body && n->op != OP_ARG;
}

static IrNode *first_equal(Seen *s, IrNode *n) {
    if (!mergeable(n)) return n;
    size_t i = pass_hash(n) & (s->cap - 1);
    while (s->slot[i] && !pass_equal(s->slot[i], n)) i = (i + 1) & (s->cap - 1);
    if (!s->slot[i]) s->slot[i] = n;
    return s->slot[i];
}

static IrNode *visit(PassRewrite *rw, IrNode *n) {
    IrNode *r = pass_fold(&rw->b, n);
    if (r == n) r = identity(rw, n);
    return r == n ? first_equal(rw->user, n) : r;
}

/* ---- the pass ---- */

static bool simplify_func(IrProgram *p, IrFunc *f) {
    for (int changed = 1; changed;) {
        changed = pass_dead_code(p, &f->body);
        Seen seen = {.cap = 64};
        while (seen.cap < 2 * (size_t)f->body.n) seen.cap *= 2;
        seen.slot = ARENA_ARRAY(p->arena, IrNode *, seen.cap);
        if (!pass_rewrite(p, f, visit, &seen, &changed)) return false;
        changed += pass_pool_lookups(p, &f->body);
    }
    return true;
}

bool pass_simplify(IrProgram *p, const PassOptions *o, const char *args) {
    (void)o;
    if (!pass_args_known(p, "simplify", args, NULL, 0)) return false;
    for (int i = 0; i < p->n_funcs; i++)
        if (!simplify_func(p, p->funcs[i])) return false;
    return true;
}
