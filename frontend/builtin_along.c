/* Built-ins along a list: what position t sees of its neighbours, which position it is, one position more,
 * and how long lists are. */
#include <math.h>
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

/* ---- positions ---- */

/* What the reader makes along an axis and x depends on: then numbering x's positions reads no column that x
 * doesn't. A mask depends on none; it takes the first there is. */
static IrNode *reader_value(Ev *ev, IrNode *x, int axis) {
    const IrBody *body = ev->b.body;
    IrNode **todo = NULL, *found = NULL;
    int count = 0, cap = 0, visited = 0, mark = ++ev->mark;
    ARENA_PUSH(ev->a, todo, count, cap, x);
    while (count && !found) {
        IrNode *n = todo[--count];
        if (n->mark == mark) continue;
        n->mark = mark;
        visited++;
        if (ir_is_reader(n) && ev_is_list(n) && n->type.axis == axis) found = n;
        for (int i = 0; i < n->n_in; i++) ARENA_PUSH(ev->a, todo, count, cap, n->in[i]);
    }
    ev->steps += visited / 16; /* as ev_depends counts */
    for (int i = 0; !found && i < body->n; i++)
        if (ir_is_reader(body->nodes[i]) && ev_is_list(body->nodes[i]) && body->nodes[i]->type.axis == axis)
            found = body->nodes[i];
    return found;
}

static Value *positions(Ev *ev, Call *c) {
    int axis = axis_of(ev, c);
    IrNode *x, *list = NULL;
    if (axis < 0 || !ev_node(ev, c->args[0].v, c->args[0].span, &x)) return NULL;
    if (!ir_axis_max(ev->p, axis)) {
        ev_error(ev, c->args[0].span,
                 "list(\";\", max = 50) uses the first 50 values; truncate(list, 50) does too",
                 "positions: expected a list with a max, found %s", ir_axis_described(ev->p, axis));
        return NULL;
    }
    /* an appended list has no value of the reader's: then the one it was appended to has, and so on */
    for (int a = axis; a >= 0 && !list; a = ev->p->axes[a].parent) list = reader_value(ev, x, a);
    IrAttr attr = ir_ai("axis", axis);
    ev_at(ev, c->span);
    return ev_tensor(ev, ev_op_attrs(ev, OP_POSITIONS, list, 1, &attr));
}

/* ---- one position more ---- */

/* Lists appended to alike share the new axis. */
static int appended_axis(Ev *ev, int axis, Span span) {
    for (int i = 0; i < ev->p->n_axes; i++)
        if (ev->p->axes[i].kind == AXIS_APPEND && ev->p->axes[i].parent == axis) return i;
    int64_t most = ir_axis_max(ev->p, axis);
    return ev_new_axis(ev, AXIS_APPEND, axis, most ? most + 1 : 0, "plus1", span);
}

static Value *append(Ev *ev, Call *c) {
    IrNode *x = sequence(ev, c, 0), *row = arg_f32(ev, c, 1);
    if (!x || !row) return NULL;
    if (ev_is_list(row) || !ir_same_dims(x->type, row->type)) {
        ev_error(ev, c->args[1].span, NULL, "append: expected one value a row of the sizes of %s, found %s",
                 ev_shape(ev, x), ev_shape(ev, row));
        return NULL;
    }
    int axis = appended_axis(ev, x->type.axis, c->span);
    if (axis < 0) return NULL;
    IrAttr attr = ir_ai("axis", axis);
    ev_at(ev, c->span);
    return ev_tensor(ev, ir_build(&ev->b, OP_APPEND, 2, (IrNode *[]){x, row}, 1, &attr));
}

/* ---- attention within a row ---- */

static Value *attend(Ev *ev, Call *c) {
    static const char *const names[] = {"q", "k", "v"};
    IrNode *in[3];
    for (int i = 0; i < 3; i++) {
        if (!(in[i] = sequence(ev, c, i))) return NULL;
        const char *found = ev_shape(ev, in[i]);
        if (in[i]->type.rank != 1)
            ev_error(ev, c->args[i].span, "reshape(x, [-1]) makes one of them",
                     "attend: expected '%s' with one dimension a position, found %s", names[i], found);
        else if (in[i]->type.axis != in[0]->type.axis)
            ev_error(ev, c->args[i].span, NULL,
                     "attend: expected '%s' along the list of 'q', found %s and %s", names[i],
                     ev_shape(ev, in[0]), found);
        else if (i == 1 && !ir_same_dims(in[0]->type, in[1]->type))
            ev_error(ev, c->args[i].span, NULL, "attend: expected 'k' as wide as 'q', found %s and %s",
                     ev_shape(ev, in[0]), found);
        else
            continue;
        return NULL;
    }
    double scale = 1 / sqrt((double)ir_type_width(in[0]->type));
    if (c->args[3].v && !arg_number(ev, c, 3, &scale)) return NULL;
    IrAttr attr = ir_af("scale", scale);
    ev_at(ev, c->span);
    return ev_tensor(ev, ir_build(&ev->b, OP_ATTEND, 3, in, 1, &attr));
}

/* ---- tables ---- */

const Builtin builtins_along[] = {
    {"shift", "seq k", shift},
    {"mask", "seq k", mask},
    {"last", "seq", last},
    {"longest", "seq", longest},
    {"positions", "seq", positions},
    {"append", "seq row", append},
    {"attend", "q k v scale?", attend},
    {0},
};
