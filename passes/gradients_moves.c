/* Gradient rules of ops that move elements, and of reductions. */
#include "passes/gradients.h"

static void to(PassGrad *c, IrNode *y, int i, IrNode *g) { pass_gradient_to(c, y, y->in[i], g); }

/* ---- movement ---- */

void pass_grad_concat(PassGrad *c, IrNode *y, IrNode *g) {
    int axis = (int)ir_attr_i(y, "axis");
    int64_t at = 0;
    for (int i = 0; i < y->n_in; i++) {
        int64_t n = y->in[i]->type.dim[axis];
        if (pass_gradient_wants(y->in[i])) to(c, y, i, pass_slice(&c->b, g, axis, at, at + n));
        at += n;
    }
}

static IrNode *pad(PassGrad *c, IrNode *x, int axis, int64_t before, int64_t after) {
    IrAttr a[3] = {ir_ai("axis", axis), ir_ai("before", before), ir_ai("after", after)};
    return x ? ir_build(&c->b, OP_PAD, 1, &x, 3, a) : NULL;
}

void pass_grad_slice(PassGrad *c, IrNode *y, IrNode *g) {
    int axis = (int)ir_attr_i(y, "axis");
    to(c, y, 0, pad(c, g, axis, ir_attr_i(y, "begin"), y->in[0]->type.dim[axis] - ir_attr_i(y, "end")));
}

void pass_grad_pad(PassGrad *c, IrNode *y, IrNode *g) {
    int axis = (int)ir_attr_i(y, "axis");
    int64_t before = ir_attr_i(y, "before");
    to(c, y, 0, pass_slice(&c->b, g, axis, before, before + y->in[0]->type.dim[axis]));
}

void pass_grad_reshape(PassGrad *c, IrNode *y, IrNode *g) {
    to(c, y, 0, pass_reshape(&c->b, g, y->in[0]->type.rank, y->in[0]->type.dim));
}

void pass_grad_transpose(PassGrad *c, IrNode *y, IrNode *g) {
    const IrAttr *order = ir_attr(y, "order");
    int64_t back[IR_MAX_RANK];
    for (int i = 0; i < order->ilist.n; i++) back[order->ilist.v[i]] = i;
    IrAttr a = ir_ail(c->p->arena, "order", back, order->ilist.n);
    to(c, y, 0, g ? ir_build(&c->b, OP_TRANSPOSE, 1, &g, 1, &a) : NULL);
}

void pass_grad_gather(PassGrad *c, IrNode *y, IrNode *g) {
    const IrAttr *indices = ir_attr(y, "indices");
    int axis = (int)ir_attr_i(y, "axis");
    IrAttr a[3] = {ir_ai("axis", axis), *indices, ir_ai("size", y->in[0]->type.dim[axis])};
    to(c, y, 0, g ? ir_build(&c->b, OP_SCATTERADD, 1, &g, 3, a) : NULL);
}

void pass_grad_scatteradd(PassGrad *c, IrNode *y, IrNode *g) {
    IrAttr a[2] = {ir_ai("axis", ir_attr_i(y, "axis")), *ir_attr(y, "indices")};
    to(c, y, 0, g ? ir_build(&c->b, OP_GATHER, 1, &g, 2, a) : NULL);
}

void pass_grad_broadcast(PassGrad *c, IrNode *y, IrNode *g) { to(c, y, 0, g); }

/* Position t+k gets what position t's result got. A gradient that is the same all along isn't after a shift:
 * a position whose value went nowhere gets none. */
void pass_grad_shift(PassGrad *c, IrNode *y, IrNode *g) {
    if (!(g = pass_gradient_repeat(c, g, y))) return;
    IrAttr back = ir_ai("k", -ir_attr_i(y, "k"));
    to(c, y, 0, ir_build(&c->b, OP_SHIFT, 1, &g, 1, &back));
}

/* The list's positions get theirs, the row what its one position got. A gradient that is the same all along
 * is the list's as it stands. */
void pass_grad_append(PassGrad *c, IrNode *y, IrNode *g) {
    IrNode *x = y->in[0], *row = y->in[1];
    IrAttr axis = ir_ai("axis", x->type.axis);
    if (!g) return;
    if (pass_gradient_wants(x))
        pass_gradient_to_own(c, x,
                             g->type.live < LIVE_POS ? g : ir_build(&c->b, OP_APPENDGRAD, 1, &g, 1, &axis));
    if (!pass_gradient_wants(row)) return;
    IrNode *last = pass_gradient_repeat(c, g, y);
    if (last) last = ir_build1(&c->b, OP_SEGLAST, last);
    if (last) pass_gradient_to(c, last, row, last);
}

/* ---- reductions inside a row ---- */

/* v of the reduction's result, with the reduced axis as 1 again. */
static IrNode *kept(PassGrad *c, IrNode *y, IrNode *v) {
    IrType t = y->in[0]->type;
    t.dim[ir_attr_i(y, "axis")] = 1;
    return pass_reshape(&c->b, v, t.rank, t.dim);
}

static IrNode *stretch(PassGrad *c, IrNode *v, IrType to_type) {
    if (!v || ir_same_dims(v->type, to_type)) return v;
    IrAttr a = ir_ail(c->p->arena, "shape", to_type.dim, to_type.rank);
    return ir_build(&c->b, OP_BROADCAST, 1, &v, 1, &a);
}

void pass_grad_sum(PassGrad *c, IrNode *y, IrNode *g) {
    to(c, y, 0, stretch(c, kept(c, y, g), y->in[0]->type));
}

void pass_grad_maxr(PassGrad *c, IrNode *y, IrNode *g) {
    IrNode *largest = ir_build2(&c->b, OP_EQ, y->in[0], kept(c, y, y));
    IrNode *share =
        ir_build2(&c->b, OP_DIV, kept(c, y, g), pass_sum(&c->b, largest, (int)ir_attr_i(y, "axis"), true));
    to(c, y, 0, ir_build2(&c->b, OP_MUL, largest, share));
}

/* y (g - sum(g y)) */
void pass_grad_softmax(PassGrad *c, IrNode *y, IrNode *g) {
    IrNode *dot = pass_sum(&c->b, ir_build2(&c->b, OP_MUL, g, y), (int)ir_attr_i(y, "axis"), true);
    to(c, y, 0, ir_build2(&c->b, OP_MUL, y, ir_build2(&c->b, OP_SUB, g, dot)));
}

/* the same along a list */
void pass_grad_segsoftmax(PassGrad *c, IrNode *y, IrNode *g) {
    IrNode *dot = ir_build1(&c->b, OP_SEGSUM, ir_build2(&c->b, OP_MUL, g, y));
    to(c, y, 0, ir_build2(&c->b, OP_MUL, y, ir_build2(&c->b, OP_SUB, g, dot)));
}

/* ---- reductions along a list or over the step: the gradient is the same all along, so it stays coarse ----
 */

void pass_grad_segsum(PassGrad *c, IrNode *y, IrNode *g) { to(c, y, 0, g); }

void pass_grad_segmean(PassGrad *c, IrNode *y, IrNode *g) {
    /* an empty list has no position that would take the gradient; 1 keeps it finite all the same */
    IrNode *count = pass_scalar_op(&c->b, OP_MAX2, pass_seg_len(&c->b, y->in[0]->type.axis), 1);
    to(c, y, 0, ir_build2(&c->b, OP_DIV, g, count));
}

void pass_grad_segmax(PassGrad *c, IrNode *y, IrNode *g) {
    IrNode *largest = ir_build2(&c->b, OP_EQ, y->in[0], y);
    IrNode *count = pass_scalar_op(&c->b, OP_MAX2, ir_build1(&c->b, OP_SEGSUM, largest), 1);
    to(c, y, 0, ir_build2(&c->b, OP_MUL, largest, ir_build2(&c->b, OP_DIV, g, count)));
}

void pass_grad_sumrows(PassGrad *c, IrNode *y, IrNode *g) { to(c, y, 0, g); }

void pass_grad_meanrows(PassGrad *c, IrNode *y, IrNode *g) {
    to(c, y, 0, ir_build2(&c->b, OP_MUL, g, ir_build(&c->b, OP_INVROWS, 0, NULL, 0, NULL)));
}
