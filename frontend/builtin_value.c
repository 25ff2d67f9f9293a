/* Built-ins that give compile-time values: sizes, numbers, shared layers. */
#include "frontend/value.h"
#include <math.h>
#include <stdlib.h>

static Value *length_of(Ev *ev, Call *c) {
    const Value *v = c->args[0].v;
    if (v->kind == V_LIST) return ev_number(ev, v->list.n);
    if (v->kind == V_STRING) return ev_number(ev, (double)v->string.n);
    const char *hint = v->kind == V_COLUMN || v->kind == V_TENSOR
                           ? "length(column) counts a row's list, width(x) and shape(x) tell sizes"
                           : NULL;
    ev_error(ev, c->args[0].span, hint, "len: expected a list or a string, found %s", ev_describe(ev, v));
    return NULL;
}

/* range(n), range(from, to) */
static Value *range(Ev *ev, Call *c) {
    int64_t from = 0, to = 0;
    const Value *n_given = c->args[1].v ? NULL : c->args[0].v;
    if (n_given &&
        !(n_given->kind == V_NUMBER && ev_whole(n_given->number, &to) && to >= 0 && to <= 1000000)) {
        ev_error(ev, c->args[0].span, NULL, "range: expected a whole number from 0 to 1000000, found %s",
                 ev_describe(ev, n_given));
        return NULL;
    }
    if (!n_given && !arg_whole(ev, c, 0, -1000000, 1000000, &from)) return NULL;
    if (!arg_whole(ev, c, 1, -1000000, 1000000, &to)) return NULL;
    int64_t n = to > from ? to - from : 0;
    if (!ev_step(ev, c->span, n)) return NULL;
    Value **items = ARENA_ARRAY(ev->a, Value *, n + 1);
    for (int64_t i = 0; i < n; i++) items[i] = ev_number(ev, (double)(from + i));
    return ev_list(ev, items, (int)n);
}

static Value *size(Ev *ev, Call *c) {
    const Value *v = c->args[0].v;
    if (v->kind == V_TENSOR && v->tensor.node->type.elem == TY_ID)
        return ev_number(ev, (double)v->tensor.node->type.bound);
    const char *hint = v->kind == V_LIST     ? "len(list) counts a list"
                       : v->kind == V_TENSOR ? "width(x) is the last size, shape(x) all of them"
                                             : NULL;
    ev_error(ev, c->args[0].span, hint, "size: expected an id, found %s", ev_describe(ev, v));
    return NULL;
}

static IrNode *shaped(Ev *ev, Call *c) {
    const Value *v = c->args[0].v;
    if (v->kind == V_TABLE) return v->table.node;
    return arg_f32(ev, c, 0);
}

static Value *width(Ev *ev, Call *c) {
    IrNode *n = shaped(ev, c);
    return n ? ev_number(ev, (double)ir_type_width(n->type)) : NULL;
}

static Value *shape(Ev *ev, Call *c) {
    IrNode *n = shaped(ev, c);
    if (!n) return NULL;
    Value **items = ARENA_ARRAY(ev->a, Value *, n->type.rank);
    for (int i = 0; i < n->type.rank; i++) items[i] = ev_number(ev, (double)n->type.dim[i]);
    return ev_list(ev, items, n->type.rank);
}

static Value *floor_of(Ev *ev, Call *c) {
    double x = 0;
    return arg_number(ev, c, 0, &x) ? ev_number(ev, floor(x)) : NULL;
}

static Value *shared(Ev *ev, Call *c) {
    Value *f = c->args[0].v;
    if (f->kind == V_SHARED) return f;
    if (f->kind != V_LAYER && f->kind != V_BUILTIN) {
        ev_error(ev, c->args[0].span, NULL, "shared: expected a layer, found %s", ev_describe(ev, f));
        return NULL;
    }
    SharedLayer *s = ARENA_NEW(ev->a, SharedLayer);
    s->layer = f;
    s->base = names_base(ev);
    Value *v = ARENA_NEW(ev->a, Value);
    v->kind = V_SHARED;
    v->shared = s;
    return v;
}

const Builtin builtins_value[] = {
    {"len", "a", length_of}, {"range", "from to?", range}, {"size", "id", size},    {"width", "x", width},
    {"shape", "x", shape},   {"floor", "x", floor_of},     {"shared", "f", shared}, {0},
};
