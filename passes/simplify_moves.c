/* Movement in simplify: ops that move nothing go, and of two that move the same elements twice one is left.
 *
 * Reshapes are kept apart from what really moves: parts that are stacked, and the parts of a stack's
 * gradient, are joined and cut as flat rows, so that a reshape is left where it costs nothing. */
#include "passes/simplify.h"

static IrNode *flat(PassRewrite *rw, IrNode *x) {
    int64_t size = ir_type_size(x->type);
    return pass_reshape(&rw->b, x, 1, &size);
}

/* ---- transpose ---- */

static bool in_order(const IrAttr *order) {
    for (int i = 0; i < order->ilist.n; i++)
        if (order->ilist.v[i] != i) return false;
    return true;
}

/* Nothing but its last two axes swapped. */
static bool swaps_last(const IrNode *n) {
    if (n->op != OP_TRANSPOSE) return false;
    const IrAttr *order = ir_attr(n, "order");
    int rank = order->ilist.n;
    for (int i = 0; i < rank - 2; i++)
        if (order->ilist.v[i] != i) return false;
    return rank >= 2 && order->ilist.v[rank - 1] == rank - 2;
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

/* A product takes its operands either way round. */
static IrNode *matmul(PassRewrite *rw, IrNode *n) {
    bool swap[2] = {swaps_last(n->in[0]), swaps_last(n->in[1])};
    if (!swap[0] && !swap[1]) return n;
    IrNode *x = swap[0] ? n->in[0]->in[0] : n->in[0], *y = swap[1] ? n->in[1]->in[0] : n->in[1];
    return pass_matmul(&rw->b, x, y, (ir_attr_i(n, "ta") != 0) != swap[0],
                       (ir_attr_i(n, "tb") != 0) != swap[1]);
}

/* ---- concat, slice, reshape ---- */

/* Reshaped flat rows, one after another along the first axis: the same as the rows themselves in a row. */
static IrNode *concat(PassRewrite *rw, IrNode *n) {
    if (n->n_in == 1) return n->in[0];
    if (n->type.rank < 2 || ir_attr_i(n, "axis") != 0) return n;
    IrNode **rows = ARENA_ARRAY(rw->p->arena, IrNode *, n->n_in);
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i]->op != OP_RESHAPE || n->in[i]->in[0]->type.rank != 1) return n;
        rows[i] = n->in[i]->in[0];
    }
    IrNode *joined = ir_build(&rw->b, OP_CONCAT, n->n_in, rows, n->n_attrs, n->attrs);
    return pass_reshape(&rw->b, joined, n->type.rank, n->type.dim);
}

/* A slice of a concat or pad that is just what went in there; a slice of a slice. */
static IrNode *slice(PassRewrite *rw, IrNode *n) {
    IrNode *x = n->in[0];
    int axis = (int)ir_attr_i(n, "axis");
    int64_t begin = ir_attr_i(n, "begin"), at = 0;
    if (ir_type_eq(x->type, n->type)) return x;
    if (x->op == OP_CONCAT && ir_attr_i(x, "axis") == axis)
        for (int i = 0; i < x->n_in; at += x->in[i++]->type.dim[axis])
            if (at == begin && ir_type_eq(x->in[i]->type, n->type)) return x->in[i];
    if (x->op == OP_PAD && ir_attr_i(x, "axis") == axis && ir_attr_i(x, "before") == begin &&
        ir_type_eq(x->in[0]->type, n->type))
        return x->in[0];
    if (x->op == OP_SLICE && ir_attr_i(x, "axis") == axis) {
        int64_t from = ir_attr_i(x, "begin");
        return pass_slice(&rw->b, x->in[0], axis, from + begin, from + ir_attr_i(n, "end"));
    }
    return n;
}

/* A flat row of a slice along the first axis is a slice of the flat row. */
static IrNode *reshape(PassRewrite *rw, IrNode *n) {
    IrNode *x = n->in[0];
    if (ir_type_eq(x->type, n->type)) return x;
    if (x->op == OP_RESHAPE) return pass_reshape(&rw->b, x->in[0], n->type.rank, n->type.dim);
    if (n->type.rank != 1 || x->op != OP_SLICE || x->type.rank < 2 || ir_attr_i(x, "axis") != 0) return n;
    int64_t inner = ir_type_size(x->type) / x->type.dim[0];
    return pass_slice(&rw->b, flat(rw, x->in[0]), 0, ir_attr_i(x, "begin") * inner,
                      ir_attr_i(x, "end") * inner);
}

/* ---- entrances ---- */

/* Appends x, or the parts of which it was joined before, to part. */
static int add_parts(IrNode **part, int n, IrNode *x, int axis) {
    bool joined = x->op == OP_CONCAT && ir_attr_i(x, "axis") == axis;
    for (int i = 0; joined && i < x->n_in; i++) part[n++] = x->in[i];
    if (!joined) part[n++] = x;
    return n;
}

IrNode *pass_simplify_pads(PassRewrite *rw, IrNode *n) {
    IrNode *a = n->in[0], *b = n->in[1];
    if (a->op != OP_PAD || b->op != OP_PAD || !ir_type_eq(a->type, b->type)) return n;
    int axis = (int)ir_attr_i(a, "axis");
    if (ir_attr_i(b, "axis") != axis || !ir_type_eq(a->type, n->type)) return n;
    if (ir_attr_i(a, "before") > ir_attr_i(b, "before")) {
        a = n->in[1];
        b = n->in[0];
    }
    if (ir_attr_i(a, "before") + a->in[0]->type.dim[axis] != ir_attr_i(b, "before")) return n;
    IrAttr along = ir_ai("axis", axis),
           pad[3] = {along, ir_ai("before", ir_attr_i(a, "before")), ir_ai("after", ir_attr_i(b, "after"))};
    IrNode **part = ARENA_ARRAY(rw->p->arena, IrNode *, 2 + a->in[0]->n_in + b->in[0]->n_in);
    int parts = add_parts(part, add_parts(part, 0, a->in[0], axis), b->in[0], axis);
    IrNode *both = ir_build(&rw->b, OP_CONCAT, parts, part, 1, &along);
    return both ? ir_build(&rw->b, OP_PAD, 1, &both, 3, pad) : NULL;
}

IrNode *pass_simplify_move(PassRewrite *rw, IrNode *n) {
    bool same = ir_type_eq(n->in[0]->type, n->type);
    switch (n->op) {
    case OP_RESHAPE: return reshape(rw, n);
    case OP_BROADCAST:
    case OP_PAD: return same ? n->in[0] : n;
    case OP_SLICE: return slice(rw, n);
    case OP_CONCAT: return concat(rw, n);
    case OP_TRANSPOSE: return transpose(rw, n);
    case OP_MATMUL: return matmul(rw, n);
    case OP_SUM:
    case OP_MAXR:
        if (n->in[0]->type.dim[ir_attr_i(n, "axis")] != 1) return n;
        return pass_reshape(&rw->b, n->in[0], n->type.rank, n->type.dim);
    default: return n;
    }
}
