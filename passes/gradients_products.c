/* Gradient rules of matrix products, lookups, batch normalisation and weights. */
#include "passes/gradients.h"

static bool shared(const IrNode *x, const IrNode *other) {
    return x->type.rank == 2 && x->type.live <= LIVE_STEP &&
           (other->type.live > LIVE_STEP || other->type.rank != 2);
}

static IrNode *swap_last(PassGrad *c, IrNode *x) {
    if (!x) return NULL;
    int64_t order[IR_MAX_RANK];
    int rank = x->type.rank;
    for (int i = 0; i < rank; i++) order[i] = i;
    order[rank - 1] = rank - 2;
    order[rank - 2] = rank - 1;
    IrAttr a = ir_ail(c->p->arena, "order", order, rank);
    return ir_build(&c->b, OP_TRANSPOSE, 1, &x, 1, &a);
}

static IrNode *flat_matrix(PassGrad *c, IrNode *x) {
    int64_t width = ir_type_width(x->type), dim[2] = {ir_type_size(x->type) / width, width};
    return pass_reshape(&c->b, x, 2, dim);
}

IrNode *pass_gradient_product(PassGrad *c, IrNode *x, IrNode *g) {
    if (!x || !g) return NULL;
    if (x->type.live > LIVE_STEP) return ir_build2(&c->b, OP_MATMULGRADW, x, g);
    return pass_matmul(&c->b, flat_matrix(c, x), flat_matrix(c, g), true, false);
}

/* Of the shared operand, the one matrix that all rows use: summed over rows and leading dimensions. With
 * C = op(A) op(B), rows of op(A) are what is summed over for dB; for dA = g op(B)^T it is the columns of g,
 * so both factors are turned. */
static void to_shared(PassGrad *c, IrNode *y, int which, IrNode *g, bool ta, bool tb) {
    IrNode *a = y->in[0], *b = y->in[1];
    g = pass_gradient_repeat(c, g, y);
    if (!g) return;
    IrNode *left, *right; /* d(shared, untransposed) = left^T right over everything */
    bool swapped;         /* the shared operand is used transposed */
    if (which == 1) {
        left = ta ? swap_last(c, a) : a;
        right = g;
        swapped = tb;
    } else {
        left = swap_last(c, g);
        right = tb ? b : swap_last(c, b);
        swapped = ta;
    }
    pass_gradient_to_own(c, y->in[which],
                         swapped ? pass_gradient_product(c, right, left)
                                 : pass_gradient_product(c, left, right));
}

/* C = op(A) op(B): dA = g op(B)^T, or its transpose op(B) g^T; dB = op(A)^T g, or g^T op(A). */
void pass_grad_matmul(PassGrad *c, IrNode *y, IrNode *g) {
    IrNode *a = y->in[0], *b = y->in[1];
    bool ta = ir_attr_i(y, "ta"), tb = ir_attr_i(y, "tb");
    if (pass_gradient_wants(a)) {
        if (shared(a, b))
            to_shared(c, y, 0, g, ta, tb);
        else if (ta)
            pass_gradient_to(c, y, a, pass_matmul(&c->b, b, g, tb, true));
        else
            pass_gradient_to(c, y, a, pass_matmul(&c->b, g, b, false, !tb));
    }
    if (pass_gradient_wants(b)) {
        if (shared(b, a))
            to_shared(c, y, 1, g, ta, tb);
        else if (tb)
            pass_gradient_to(c, y, b, pass_matmul(&c->b, g, a, true, ta));
        else
            pass_gradient_to(c, y, b, pass_matmul(&c->b, a, g, !ta, false));
    }
}

/* ---- attention: one record holds all three gradients ---- */

void pass_grad_attend(PassGrad *c, IrNode *y, IrNode *g) {
    IrNode *in[5] = {y->in[0], y->in[1], y->in[2], y, pass_gradient_repeat(c, g, y)};
    IrAttr scale = ir_af("scale", ir_attr_f(y, "scale"));
    IrNode *all = in[4] ? ir_build(&c->b, OP_ATTENDGRAD, 5, in, 1, &scale) : NULL;
    for (int i = 0, at = 0; all && i < 3; i++) {
        int width = (int)y->in[i]->type.dim[0];
        if (pass_gradient_wants(y->in[i]))
            pass_gradient_to_own(c, y->in[i], pass_slice(&c->b, all, 0, at, at + width));
        at += width;
    }
}

/* ---- lookups ---- */

/* One pair for each id and kind, so that the runtime's list of occurrences and ours agree. A list pooled both
 * ways has one list of occurrences: the mean's gradient joins the sum's. */
static void add_pair(PassGrad *c, PassGradWeight *w, IrNode *id, IrNode *g, int kind) {
    for (int i = 0; i < w->n_pairs; i++) {
        PassGradPair *q = &w->pairs[i];
        if (q->id != id || (q->kind == 0) != (kind == 0)) continue;
        if (q->kind != kind) {
            IrNode *count = pass_scalar_op(&c->b, OP_MAX2, pass_seg_len(&c->b, id->type.axis), 1);
            IrNode **mean = kind == 2 ? &g : &q->g;
            *mean = ir_build2(&c->b, OP_DIV, *mean, count);
            q->kind = 1;
        }
        q->g = ir_build2(&c->b, OP_ADD, q->g, g);
        return;
    }
    PassGradPair pair = {id, g, kind};
    ARENA_PUSH(c->p->arena, w->pairs, w->n_pairs, w->cap_pairs, pair);
}

static void lookup(PassGrad *c, IrNode *y, IrNode *g, int kind) {
    IrNode *id = y->in[0], *rows = y->in[1];
    g = pass_gradient_repeat(c, g, y);
    if (rows->op == OP_WEIGHT) {
        add_pair(c, &c->weights[ir_attr_i(rows, "w")], id, g, kind);
        return;
    }
    /* rows computed from weights: no table, so its gradient is a whole one */
    IrNode *hot = ir_build1(&c->b, OP_ONEHOT, id);
    if (kind) hot = ir_build1(&c->b, kind == 1 ? OP_SEGSUM : OP_SEGMEAN, hot);
    pass_gradient_to_own(c, rows, pass_gradient_product(c, hot, g));
}

void pass_grad_embed(PassGrad *c, IrNode *y, IrNode *g) { lookup(c, y, g, 0); }

void pass_grad_embedpool(PassGrad *c, IrNode *y, IrNode *g) {
    lookup(c, y, g, ir_attr_s(y, "kind")[0] == 's' ? 1 : 2); /* sum, mean */
}

/* ---- batch normalisation: y is bn_norm(x, stats, gamma, beta), which differentiate made of batchnorm ----
 */

void pass_grad_batchnorm(PassGrad *c, IrNode *y, IrNode *g) {
    IrNode *x = y->in[0], *stats = y->in[1], *gamma = y->in[2], *beta = y->in[3];
    IrAttr eps = ir_af("eps", ir_attr_f(y, "eps"));
    g = pass_gradient_repeat(c, g, y);
    if (!g) return;
    IrNode *sums = ir_build(&c->b, OP_BNGSUMS, 3, (IrNode *[]){x, stats, g}, 1, &eps);
    IrNode *parts[2] = {beta, gamma};
    for (int i = 0; i < 2; i++) {
        if (!pass_gradient_wants(parts[i])) continue;
        IrNode *row = pass_slice(&c->b, sums, 0, i, i + 1);
        pass_gradient_to_own(c, parts[i], pass_reshape(&c->b, row, parts[i]->type.rank, parts[i]->type.dim));
    }
    if (pass_gradient_wants(x))
        pass_gradient_to(c, y, x,
                         ir_build(&c->b, OP_BNGRAD, 5, (IrNode *[]){x, stats, gamma, sums, g}, 1, &eps));
}

/* ---- weights ---- */

void pass_grad_weight(PassGrad *c, IrNode *y, IrNode *g) {
    PassGradWeight *w = &c->weights[ir_attr_i(y, "w")];
    w->whole = w->whole ? ir_build2(&c->b, OP_ADD, w->whole, g) : g;
}
