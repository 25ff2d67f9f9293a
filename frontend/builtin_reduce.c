/* sum, mean, max, min: of a list member by member, of a ragged value along its list, else along a named axis.
 */
#include "frontend/value.h"
#include <math.h>

typedef enum { R_SUM, R_MEAN, R_MAX, R_MIN } Reduction;

/* ---- of a list ---- */

static double combine(Reduction r, double a, double b) {
    return r == R_MAX ? fmax(a, b) : r == R_MIN ? fmin(a, b) : a + b;
}

static Value *numbers(Ev *ev, Reduction r, Value *const *v, int n) {
    double x = v[0]->number;
    for (int i = 1; i < n; i++) x = combine(r, x, v[i]->number);
    return ev_number(ev, r == R_MEAN ? x / n : x);
}

static Value *members(Ev *ev, Call *c, Reduction r, Value *const *v, int n, Span at) {
    static const IrOp ops[] = {OP_ADD, OP_ADD, OP_MAX2, OP_MIN2};
    if (n == 0) {
        ev_error(ev, at, NULL, "%s of an empty list", c->of->name);
        return NULL;
    }
    if (!ev_step(ev, at, n / 16)) return NULL;
    bool all = true;
    for (int i = 0; i < n; i++) all &= v[i]->kind == V_NUMBER;
    if (all) return numbers(ev, r, v, n);
    IrNode *sum = NULL;
    for (int i = 0; i < n; i++) {
        if (!ev_step(ev, at, 1)) return NULL;
        IrNode *x = ev_f32(ev, v[i], at, c->of->name);
        if (!x || (i && !(x = ev_elementwise(ev, ops[r], sum, x, at)))) return NULL;
        sum = x;
    }
    ev_at(ev, c->span);
    return ev_tensor(ev, r == R_MEAN ? ev_scale(ev, sum, 1.0 / n) : sum);
}

/* ---- of a tensor ---- */

static IrNode *along_list(Ev *ev, IrNode *x, Reduction r, bool keep) {
    static const IrOp ops[] = {OP_SEGSUM, OP_SEGMEAN, OP_SEGMAX};
    IrNode *n = ir_build1(&ev->b, ops[r], x);
    if (!n || !keep || n->type.rank == IR_MAX_RANK) return n;
    int64_t dim[IR_MAX_RANK] = {1};
    for (int i = 0; i < n->type.rank; i++) dim[i + 1] = n->type.dim[i];
    return ev_reshape(ev, n, n->type.rank + 1, dim);
}

static IrNode *inside(Ev *ev, IrNode *x, Reduction r, int axis, bool keep) {
    IrAttr attrs[] = {ir_ai("axis", axis), ir_ab("keep", keep)};
    IrNode *n = ev_op_attrs(ev, r == R_MAX ? OP_MAXR : OP_SUM, x, 2, attrs);
    return r == R_MEAN ? ev_scale(ev, n, 1.0 / (double)x->type.dim[axis]) : n;
}

static Value *reduce(Ev *ev, Call *c, Reduction r) {
    bool keep = false, list;
    int axis;
    if (!arg_bool(ev, c, 2, &keep)) return NULL;
    IrNode *x = arg_f32(ev, c, 0);
    if (!x) return NULL;
    if (!c->args[1].v) {
        if (ev_is_list(x)) return ev_tensor(ev, along_list(ev, x, r, keep));
        ev_error(ev, c->span, arena_printf(ev->a, "%s(x, axis = -1) reduces the last one", c->of->name),
                 "%s of %s must name its axis", c->of->name, ev_shape(ev, x));
        return NULL;
    }
    if (!ev_axis(ev, &c->args[1], x, 0, &list, &axis)) return NULL;
    return ev_tensor(ev, list ? along_list(ev, x, r, keep) : inside(ev, x, r, axis, keep));
}

static Value *reduce_any(Ev *ev, Call *c, Reduction r) {
    const Value *v = c->args[0].v;
    if (v->kind != V_LIST) return reduce(ev, c, r);
    if (c->args[1].v || c->args[2].v) {
        ev_error(ev, c->args[1].v ? c->args[1].span : c->args[2].span, "stack(list) makes one tensor of it",
                 "%s of a list goes member by member, so it takes no axis", c->of->name);
        return NULL;
    }
    return members(ev, c, r, v->list.items, v->list.n, c->args[0].span);
}

static Value *sum(Ev *ev, Call *c) { return reduce_any(ev, c, R_SUM); }
static Value *mean(Ev *ev, Call *c) { return reduce_any(ev, c, R_MEAN); }

/* max(2, 3) and min(2, 3) of numbers are numbers; of tensors max reduces, and takes an axis second. */
static Value *max(Ev *ev, Call *c) {
    if (c->args[0].v->kind != V_NUMBER || !c->args[1].v) return reduce_any(ev, c, R_MAX);
    double a = 0, b = 0;
    if (!arg_number(ev, c, 0, &a) || !arg_number(ev, c, 1, &b)) return NULL;
    return ev_number(ev, fmax(a, b));
}

static Value *min(Ev *ev, Call *c) {
    Value **v = ARENA_ARRAY(ev->a, Value *, c->n_rest + 1);
    for (int i = 0; i < c->n_rest; i++) v[i] = c->rest[i].v;
    if (c->n_rest == 1 && v[0]->kind == V_LIST)
        return members(ev, c, R_MIN, v[0]->list.items, v[0]->list.n, c->span);
    if (c->n_rest == 1 && v[0]->kind != V_NUMBER) {
        ev_error(ev, c->span, "-max(-x, axis) is the smallest along an axis",
                 "min: expected numbers or a list, found %s", ev_describe(ev, v[0]));
        return NULL;
    }
    return members(ev, c, R_MIN, v, c->n_rest, c->span);
}

const Builtin builtins_reduce[] = {
    {"sum", "x axis? keep?", sum},
    {"mean", "x axis? keep?", mean},
    {"max", "x axis? keep?", max},
    {"min", "*values", min},
    {0},
};
