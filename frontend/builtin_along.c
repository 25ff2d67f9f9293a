/* Built-ins along a list: what position t sees of its neighbours, and how long lists are. */
#include "frontend/value.h"

enum { FARTHEST = 1 << 24 };

/* A value f32[~h,…]. */
static IrNode *sequence(Ev *ev, const Call *c, int i) {
    IrNode *x = arg_f32(ev, c, i);
    if (!x || ev_is_list(x)) return x;
    ev_error(ev, c->args[i].span, NULL, "%s: expected a value along a list, found %s", c->of->name,
             ev_shape(ev, x));
    return NULL;
}

/* The axis of a list column, of ids or of a value along a list; -1 after an error. */
static int axis_of(Ev *ev, const Call *c) {
    const Value *v = c->args[0].v;
    IrNode *n;
    if (!ev_node(ev, v, c->args[0].span, &n)) return -1;
    if (n && ev_is_list(n)) return n->type.axis;
    ev_error(ev, c->args[0].span, NULL, "%s: expected a list column or what is made of one, found %s",
             c->of->name, ev_describe(ev, v));
    return -1;
}

static IrNode *shifted(Ev *ev, IrNode *x, int64_t k) {
    IrAttr attr = ir_ai("k", k);
    return ev_op_attrs(ev, OP_SHIFT, x, 1, &attr);
}

static Value *shift(Ev *ev, Call *c) {
    int64_t k = 0;
    IrNode *x = sequence(ev, c, 0);
    if (!arg_whole(ev, c, 1, -FARTHEST, FARTHEST, &k) || !x) return NULL;
    return ev_tensor(ev, shifted(ev, x, k));
}

/* A one at each position, shifted. */
static IrNode *mask_of(Ev *ev, int axis, int64_t k) {
    IrNode *one = ir_const(&ev->b, 1);
    IrAttr attrs[] = {ir_ail(ev->a, "shape", (int64_t[]){1}, 1), ir_ai("axis", axis)};
    return shifted(ev, ev_op_attrs(ev, OP_BROADCAST, one, 2, attrs), k);
}

static Value *mask(Ev *ev, Call *c) {
    int64_t k = 0;
    int axis = axis_of(ev, c);
    if (!arg_whole(ev, c, 1, -FARTHEST, FARTHEST, &k) || axis < 0) return NULL;
    ev_at(ev, c->span);
    return ev_tensor(ev, mask_of(ev, axis, k));
}

/* The sum of the one position that has none after it: zeros for an empty list. */
static Value *last(Ev *ev, Call *c) {
    IrNode *x = sequence(ev, c, 0);
    if (!x) return NULL;
    ev_at(ev, c->span);
    IrNode *after = mask_of(ev, x->type.axis, 1);
    IrNode *ends = after ? ir_build2(&ev->b, OP_SUB, ir_const(&ev->b, 1), after) : NULL;
    IrNode *only = ends ? ir_build2(&ev->b, OP_MUL, x, ends) : NULL;
    return only ? ev_tensor(ev, ir_build1(&ev->b, OP_SEGSUM, only)) : NULL;
}

static Value *longest(Ev *ev, Call *c) {
    int axis = axis_of(ev, c);
    if (axis < 0) return NULL;
    ev_at(ev, c->span);
    IrAttr attr = ir_ai("axis", axis);
    return ev_tensor(ev, ir_build(&ev->b, OP_LONGEST, 0, NULL, 1, &attr));
}

const Builtin builtins_along[] = {
    {"shift", "seq k", shift},
    {"mask", "seq k", mask},
    {"last", "seq", last},
    {"longest", "seq", longest},
    {0},
};
