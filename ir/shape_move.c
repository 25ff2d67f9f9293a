/* Shape rules of movement and reductions. Axes count from 0 inside a row; a list axis is none of them. */
#include "ir/internal.h"

bool ir_shape_concat(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    int axis;
    for (int i = 0; i < n->n_in; i++)
        if (!ir_want_f32(p, n, i, why)) return false;
    IrType t = n->in[0]->type;
    if (!ir_axis_attr(p, n, "axis", t.rank, &axis, why)) return false;
    for (int i = 1; i < n->n_in; i++) {
        IrType u = n->in[i]->type;
        bool fits = u.rank == t.rank;
        for (int k = 0; fits && k < t.rank; k++) fits = k == axis || u.dim[k] == t.dim[k];
        if (!fits)
            return ir_wrong(p, why, "part %d: expected the sizes of %s but for axis %d, found %s", i + 1,
                            ir_type_text(p, n->in[0]->type), axis, ir_type_text(p, u));
        if (!ir_join_live(p, &t, u, why)) return false;
        t.dim[axis] += u.dim[axis];
    }
    *out = t;
    return ir_check_dims(p, t.rank, t.dim, why);
}

bool ir_shape_slice(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    int axis;
    if (!ir_want_f32(p, n, 0, why)) return false;
    IrType t = n->in[0]->type;
    if (!ir_axis_attr(p, n, "axis", t.rank, &axis, why)) return false;
    int64_t begin = ir_attr_i(n, "begin"), end = ir_attr_i(n, "end");
    if (begin < 0 || begin >= end || end > t.dim[axis])
        return ir_wrong(p, why, "expected a range within 0:%lld, found %lld:%lld", (long long)t.dim[axis],
                        (long long)begin, (long long)end);
    t.dim[axis] = end - begin;
    *out = t;
    return true;
}

bool ir_shape_pad(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    int axis;
    if (!ir_want_f32(p, n, 0, why)) return false;
    IrType t = n->in[0]->type;
    if (!ir_axis_attr(p, n, "axis", t.rank, &axis, why)) return false;
    int64_t before = ir_attr_i(n, "before"), after = ir_attr_i(n, "after");
    if (before < 0 || after < 0 || before > IR_MAX_ELEMS || after > IR_MAX_ELEMS)
        return ir_wrong(p, why, "expected to pad by at least 0, found %lld and %lld", (long long)before,
                        (long long)after);
    t.dim[axis] += before + after;
    *out = t;
    return ir_check_dims(p, t.rank, t.dim, why);
}

bool ir_shape_reshape(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    const IrAttr *shape = ir_attr(n, "shape");
    if (!ir_want_f32(p, n, 0, why) || !ir_check_dims(p, shape->ilist.n, shape->ilist.v, why)) return false;
    IrType from = n->in[0]->type, t = ir_f32(from.live, from.axis, shape->ilist.n, shape->ilist.v);
    *out = t;
    if (ir_type_size(t) == ir_type_size(from)) return true;
    return ir_wrong(p, why, "expected %lld elements as in %s, found %lld in %s",
                    (long long)ir_type_size(from), ir_type_text(p, from), (long long)ir_type_size(t),
                    ir_type_text(p, t));
}

bool ir_shape_transpose(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    if (!ir_want_f32(p, n, 0, why)) return false;
    IrType from = n->in[0]->type, t = from;
    const IrAttr *order = ir_attr(n, "order");
    if (order->ilist.n != from.rank)
        return ir_wrong(p, why, "expected an order of %d axes, found %d", from.rank, order->ilist.n);
    unsigned seen = 0;
    for (int i = 0; i < from.rank; i++) {
        int64_t axis = order->ilist.v[i];
        if (axis < 0 || axis >= from.rank || (seen & 1u << axis))
            return ir_wrong(p, why, "expected each axis from 0 to %d once, found %lld", from.rank - 1,
                            (long long)axis);
        seen |= 1u << axis;
        t.dim[i] = from.dim[axis];
    }
    *out = t;
    return true;
}

static bool indices_below(IrProgram *p, const IrAttr *indices, int64_t size, const char **why) {
    if (indices->ilist.n == 0) return ir_wrong(p, why, "expected at least one index, found none");
    for (int i = 0; i < indices->ilist.n; i++)
        if (indices->ilist.v[i] < 0 || indices->ilist.v[i] >= size)
            return ir_wrong(p, why, "expected an index from 0 to %lld, found %lld", (long long)size - 1,
                            (long long)indices->ilist.v[i]);
    return true;
}

bool ir_shape_gather(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    int axis;
    if (!ir_want_f32(p, n, 0, why)) return false;
    IrType t = n->in[0]->type;
    const IrAttr *indices = ir_attr(n, "indices");
    if (!ir_axis_attr(p, n, "axis", t.rank, &axis, why) || !indices_below(p, indices, t.dim[axis], why))
        return false;
    t.dim[axis] = indices->ilist.n;
    *out = t;
    return ir_check_dims(p, t.rank, t.dim, why);
}

bool ir_shape_scatteradd(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    int axis;
    if (!ir_want_f32(p, n, 0, why)) return false;
    IrType t = n->in[0]->type;
    const IrAttr *indices = ir_attr(n, "indices");
    int64_t size = ir_attr_i(n, "size");
    if (!ir_axis_attr(p, n, "axis", t.rank, &axis, why) || !indices_below(p, indices, size, why))
        return false;
    if (indices->ilist.n != t.dim[axis])
        return ir_wrong(p, why, "expected %lld indices, one an element, found %d", (long long)t.dim[axis],
                        indices->ilist.n);
    t.dim[axis] = size;
    *out = t;
    return ir_check_dims(p, t.rank, t.dim, why);
}

bool ir_shape_broadcast(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    const IrAttr *shape = ir_attr(n, "shape"), *axis = ir_attr(n, "axis");
    if (!ir_want_f32(p, n, 0, why) || !ir_check_dims(p, shape->ilist.n, shape->ilist.v, why)) return false;
    IrType from = n->in[0]->type, t = ir_f32(from.live, from.axis, shape->ilist.n, shape->ilist.v);
    if (axis) {
        if (from.live > LIVE_ROW)
            return ir_wrong(p, why, "expected a value a row to repeat along a list, found %s",
                            ir_type_text(p, from));
        t.live = LIVE_POS;
        t.axis = (int)axis->i;
    }
    bool fits = from.rank <= t.rank;
    for (int i = 1; fits && i <= from.rank; i++) {
        int64_t d = from.dim[from.rank - i];
        fits = d == 1 || d == t.dim[t.rank - i];
    }
    *out = t;
    return fits || ir_wrong(p, why, "expected sizes that stretch to %s, found %s", ir_type_text(p, t),
                            ir_type_text(p, from));
}

bool ir_shape_reduce(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    int axis;
    if (!ir_want_f32(p, n, 0, why)) return false;
    IrType t = n->in[0]->type;
    if (!ir_axis_attr(p, n, "axis", t.rank, &axis, why)) return false;
    if (ir_attr_i(n, "keep") || t.rank == 1) { /* a row's scalar is f32[1] */
        t.dim[axis] = 1;
    } else {
        for (int i = axis; i + 1 < t.rank; i++) t.dim[i] = t.dim[i + 1];
        t.dim[--t.rank] = 0;
    }
    *out = t;
    return true;
}

bool ir_shape_segment(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    IrType t = n->in[0]->type;
    if (!ir_want_f32(p, n, 0, why)) return false;
    if (t.live != LIVE_POS)
        return ir_wrong(p, why, "expected a value along a list, found %s", ir_type_text(p, t));
    *out = ir_f32(LIVE_ROW, -1, t.rank, t.dim);
    return true;
}

/* From each position to the same position. */
bool ir_shape_along(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    IrType t = n->in[0]->type;
    if (!ir_want_f32(p, n, 0, why)) return false;
    if (t.live != LIVE_POS)
        return ir_wrong(p, why, "expected a value along a list, found %s", ir_type_text(p, t));
    *out = t;
    return true;
}

bool ir_shape_sumrows(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    IrType t = n->in[0]->type;
    if (!ir_want_f32(p, n, 0, why) || !ir_want_rows(p, n, 0, why)) return false;
    *out = ir_f32(LIVE_STEP, -1, t.rank, t.dim);
    return true;
}

bool ir_shape_blocksums(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    IrType t = n->in[0]->type;
    return ir_want_f32(p, n, 0, why) && ir_want_rows(p, n, 0, why) &&
           ir_by_blocks(p, n, t.rank, t.dim, out, why);
}

bool ir_shape_sumblocks(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    IrType t = n->in[0]->type;
    if (!ir_want_blocks(p, n, why)) return false;
    *out = ir_f32(LIVE_STEP, -1, t.rank - 1, t.dim + 1);
    return true;
}

bool ir_shape_sumsq(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    *out = ir_f32(LIVE_STEP, -1, 1, (int64_t[]){1});
    return ir_want_f32(p, n, 0, why);
}

bool ir_shape_same(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    int axis;
    if (!ir_want_f32(p, n, 0, why)) return false;
    *out = n->in[0]->type;
    return ir_axis_attr(p, n, "axis", out->rank, &axis, why);
}
