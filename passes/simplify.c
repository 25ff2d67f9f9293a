/* simplify: constant folding, identities, common subexpressions, pooled lookups, dead code. Exact.
 *
 * before:
 *   %0 = column {col=x} : f32[1]
 *   %1 = const {value=[2], shape=[1]} : always f32[1]
 *   %2 = const {value=[0.5], shape=[1]} : always f32[1]
 *   %3 = mul %1, %2 : always f32[1]
 *   %4 = mul %0, %3 : f32[1]
 *   %5 = relu %4 : f32[1]
 *   %6 = relu %4 : f32[1]
 *   %7 = add %5, %6 : f32[1]
 *   %8 = exp %7 : f32[1]
 *   %9 = predict %7 {name="p"} : none
 * after:
 *   %0 = column {col=x} : f32[1]
 *   %1 = relu %0 : f32[1]
 *   %2 = add %1, %1 : f32[1]
 *   %3 = predict %2 {name="p"} : none
 * (tests/golden/passes/simplify/basics.*)
 *
 * Only identities that hold for every float are used: nothing is reassociated, 0 * x stays, and x + 0 goes
 * only where x can't be -0 (or where the 0 is the padding of a part, whose sign is nobody's). Two equal
 * dropouts have equal keys, so they are one; a batchnorm is never merged with its equal, since each moves the
 * running statistics once. */
#include "passes/simplify.h"
#include <math.h>

/* ---- identities of elementwise ops ---- */

/* Can't be -0, so that x + 0 is x. */
static bool never_minus_zero(const IrNode *x) {
    switch (x->op) {
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
    case OP_EQ:
    case OP_NE:
    case OP_EXP:
    case OP_SIGMOID:
    case OP_SOFTPLUS:
    case OP_SQUARE:
    case OP_ABS:
    case OP_ONEHOT:
    case OP_LONGEST:
    case OP_SEGLEN: return true;
    default: return false;
    }
}

/* Would an elementwise op of values of types a and b have type t? (They can meet; the question is how far
 * they stretch each other.) */
static bool stretch_to(IrType a, IrType b, IrType t) {
    if ((a.rank > b.rank ? a.rank : b.rank) != t.rank || (a.live > b.live ? a.live : b.live) != t.live)
        return false;
    for (int i = 1; i <= t.rank; i++) {
        int64_t da = i <= a.rank ? a.dim[a.rank - i] : 1, db = i <= b.rank ? b.dim[b.rank - i] : 1;
        if ((da > db ? da : db) != t.dim[t.rank - i]) return false;
    }
    return true;
}

/* Elementwise ops stretch operands themselves: a broadcast that the other operand makes needless goes. */
static IrNode *without_broadcast(PassRewrite *rw, IrNode *n) {
    for (int i = 0; n->n_in == 2 && i < 2; i++) {
        if (n->in[i]->op != OP_BROADCAST) continue;
        IrNode *in[2] = {n->in[0], n->in[1]};
        in[i] = n->in[i]->in[0];
        if (stretch_to(in[0]->type, in[1]->type, n->type))
            return ir_build(&rw->b, n->op, 2, in, n->n_attrs, n->attrs);
    }
    return n;
}

static IrNode *elementwise(PassRewrite *rw, IrNode *n) {
    IrNode *x = n->in[0], *y = n->n_in > 1 ? n->in[1] : NULL;
    IrNode *lighter = without_broadcast(rw, n);
    if (lighter != n) return lighter;
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
        if (y_fits && pass_is_const(x, 0) && never_minus_zero(y)) return y;
        return pass_simplify_pads(rw, n);
    case OP_NEG: return x->op == OP_NEG ? x->in[0] : n;
    case OP_RELU:
    case OP_ABS: return x->op == n->op ? x : n;
    case OP_DROPOUT: return ir_attr_f(n, "rate") == 0 ? x : n;
    default: return n;
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
    if (r == n && n->n_in) r = ir_ops[n->op].cls == CLASS_EW ? elementwise(rw, n) : pass_simplify_move(rw, n);
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
