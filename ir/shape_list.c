/* Shape rules of ops along a list that change its axis or relate its positions to each other. */
#include "ir/internal.h"

static bool want_along(IrProgram *p, const IrNode *n, int i, const char **why) {
    IrType t = n->in[i]->type;
    if (!ir_want_f32(p, n, i, why)) return false;
    if (t.live == LIVE_POS) return true;
    return ir_wrong(p, why, "%sexpected a value along a list, found %s", ir_operand(p, n, i),
                    ir_type_text(p, t));
}

/* The axis attribute names a list appended to `parent`. */
static bool appended(IrProgram *p, int axis, int parent, const char **why) {
    const IrAxis *x = &p->axes[axis];
    return (x->kind == AXIS_APPEND && x->parent == parent) ||
           ir_wrong(p, why, "expected an axis appended to '%s', found '%s'", p->axes[parent].name, x->name);
}

bool ir_shape_append(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    IrType t = n->in[0]->type;
    int axis = (int)ir_attr_i(n, "axis");
    if (!want_along(p, n, 0, why) || !appended(p, axis, t.axis, why) ||
        !ir_want_dims(p, n, 1, t.rank, t.dim, why))
        return false;
    if (n->in[1]->type.live > LIVE_ROW)
        return ir_wrong(p, why, "operand 2: expected one value a row, found %s",
                        ir_type_text(p, n->in[1]->type));
    t.axis = axis;
    *out = t;
    return true;
}

bool ir_shape_appendgrad(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    IrType t = n->in[0]->type;
    int axis = (int)ir_attr_i(n, "axis");
    if (!want_along(p, n, 0, why) || !appended(p, t.axis, axis, why)) return false;
    t.axis = axis;
    *out = t;
    return true;
}

/* q, k, v, and what else there is: one dimension a position, along one list; k as wide as q. */
static bool attend_operands(IrProgram *p, const IrNode *n, const char **why) {
    IrType q = n->in[0]->type, v = n->in[2]->type;
    for (int i = 0; i < n->n_in; i++) {
        IrType t = n->in[i]->type;
        if (!want_along(p, n, i, why)) return false;
        if (t.rank != 1)
            return ir_wrong(p, why, "%sexpected one dimension a position, found %s", ir_operand(p, n, i),
                            ir_type_text(p, t));
        if (t.axis != q.axis)
            return ir_wrong(p, why, "expected values along one list, found one along %s and one along %s",
                            ir_axis_described(p, q.axis), ir_axis_described(p, t.axis));
        if (!ir_want_dims(p, n, i, 1, i < 2 ? q.dim : v.dim, why)) return false;
    }
    return true;
}

bool ir_shape_attend(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    if (!attend_operands(p, n, why)) return false;
    *out = n->in[2]->type;
    return true;
}

bool ir_shape_attendgrad(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    if (!attend_operands(p, n, why)) return false;
    *out = n->in[0]->type;
    out->dim[0] += n->in[1]->type.dim[0] + n->in[2]->type.dim[0];
    return ir_check_dims(p, out->rank, out->dim, why);
}
