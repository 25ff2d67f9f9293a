/* Values as nodes of the graph, and the checks of shapes whose messages speak the language's words. */
#include "frontend/value.h"
#include <string.h>

/* ---- columns ---- */

IrNode *ev_column_node(Ev *ev, int column) {
    if (ev->columns[column]) return ev->columns[column];
    IrAttr attr = {.key = "col", .kind = 'c', .i = column};
    return ev->columns[column] = ir_build(&ev->b, OP_COLUMN, 0, NULL, 1, &attr);
}

bool ev_node(Ev *ev, const Value *v, Span at, IrNode **out) {
    *out = v->kind == V_TENSOR ? v->tensor.node : NULL;
    if (v->kind != V_COLUMN) return true;
    const IrColumn *c = &ev->p->input.columns[v->column];
    if (c->kind != COL_SKIP) return (*out = ev_column_node(ev, v->column)) != NULL;
    ev_error(ev, at, NULL, "column '%s' is skipped, so it has no value", c->name);
    return false;
}

/* A float or label column is f32 as it is, an int column becomes it. */
static IrNode *column_f32(Ev *ev, const Value *v, Span at) {
    IrNode *n;
    if (!ev_node(ev, v, at, &n)) return NULL;
    if (n->type.elem == TY_F32) return n;
    if (n->type.elem == TY_INT) return ir_build1(&ev->b, OP_NUMBER, n);
    ev_error(ev, at,
             "hash(column, buckets) or vocab(column, [values]) makes an id of it, embed(id, table) a vector",
             "expected numbers, found %s", ev_describe(ev, v));
    return NULL;
}

static IrNode *tensor_f32(Ev *ev, const Value *v, Span at) {
    IrNode *n = v->tensor.node;
    switch (n->type.elem) {
    case TY_F32: return n;
    case TY_INT: return ir_build1(&ev->b, OP_NUMBER, n);
    case TY_ID:
        ev_error(ev, at, "embed(id, table) or onehot(id) makes numbers of it", "expected numbers, found %s",
                 ev_describe(ev, v));
        return NULL;
    default: ev_error(ev, at, NULL, "expected numbers, found %s", ev_describe(ev, v)); return NULL;
    }
}

/* what: the built-in or operator for messages, may be NULL */
IrNode *ev_f32(Ev *ev, const Value *v, Span at, const char *what) {
    ev_at(ev, at);
    switch (v->kind) {
    case V_NUMBER: return ir_const(&ev->b, v->number);
    case V_COLUMN: return column_f32(ev, v, at);
    case V_TENSOR: return tensor_f32(ev, v, at);
    case V_TABLE:
        ev_error(ev, at, "embed(id, table) takes its rows; weight([k, n]) makes a matrix",
                 "a table is no tensor");
        return NULL;
    default: break;
    }
    const char *hint = v->kind == V_LIST ? "concat, stack or sum make one tensor of a list" : NULL;
    ev_error(ev, at, hint, "%s%sexpected a tensor, found %s", what ? what : "", what ? ": " : "",
             ev_describe(ev, v));
    return NULL;
}

/* ---- describing ---- */

const char *ev_shape(Ev *ev, const IrNode *n) { return ir_type_text(ev->p, n->type); }
const char *ev_axis_name(const Ev *ev, int axis) { return ev->p->axes[axis].name; }
bool ev_is_list(const IrNode *n) { return n->type.live == LIVE_POS; }

/* ---- small builders: the span was set by ev_at ---- */

IrNode *ev_unary_op(Ev *ev, IrOp op, IrNode *x) { return x ? ir_build1(&ev->b, op, x) : NULL; }

IrNode *ev_op_attrs(Ev *ev, IrOp op, IrNode *x, int n, const IrAttr *attrs) {
    return x ? ir_build(&ev->b, op, 1, &x, n, attrs) : NULL;
}

IrNode *ev_reshape(Ev *ev, IrNode *x, int rank, const int64_t *dim) {
    IrAttr shape = ir_ail(ev->a, "shape", dim, rank);
    return ev_op_attrs(ev, OP_RESHAPE, x, 1, &shape);
}

IrNode *ev_scale(Ev *ev, IrNode *x, double by) {
    return x ? ir_build2(&ev->b, OP_MUL, x, ir_const(&ev->b, by)) : NULL;
}

const char *ev_list_hint(const IrNode *n) {
    return ev_is_list(n) ? "sum(x), mean(x) or last(x) makes one value a row of a list's" : NULL;
}

/* ---- meeting shapes ---- */

static int root_axis(const Ev *ev, int axis) {
    while (ev->p->axes[axis].parent >= 0) axis = ev->p->axes[axis].parent;
    return axis;
}

static bool is_list_column(const Ev *ev, const IrNode *n) {
    (void)ev;
    return n->op == OP_COLUMN && ev_is_list(n);
}

/* The list column that a value along a list was made of, or any of its axis if it wasn't made of values. */
static const IrColumn *list_column(Ev *ev, IrNode *n) {
    int root = root_axis(ev, n->type.axis);
    const IrColumn *columns = ev->p->input.columns;
    IrNode *found;
    if (ev_depends(ev, n, is_list_column, &found) && found->type.axis == root)
        return &columns[ir_attr_i(found, "col")];
    for (int i = 0; i < ev->p->input.n_columns; i++)
        if (columns[i].is_list && columns[i].axis == root) return &columns[i];
    return NULL;
}

/* Below an error: where a value's list comes from. */
static void note_list(Ev *ev, const IrNode *n, const IrColumn *c) {
    const IrAxis *axis = &ev->p->axes[n->type.axis];
    if (axis->kind == AXIS_LIST)
        diag_note(ev->d, c->span, "~%s is the list of column '%s'", axis->name, c->name);
    else
        diag_note(ev->d, axis->span, "~%s is made here of the list of column '%s'", axis->name, c->name);
}

static bool lists_meet(Ev *ev, IrNode *x, IrNode *y, Span at) {
    if (!ev_is_list(x) || !ev_is_list(y) || x->type.axis == y->type.axis) return true;
    const IrColumn *of_x = list_column(ev, x), *of_y = list_column(ev, y);
    const IrAxis *a = &ev->p->axes[x->type.axis], *b = &ev->p->axes[y->type.axis];
    const char *hint =
        !a->shared && !b->shared && a->kind == AXIS_LIST && b->kind == AXIS_LIST
            ? "columns whose lists are equally long in every row share an axis: list(…, axis = h)"
            : NULL;
    int errors = ev->d->errors;
    if (!of_x || !of_y) {
        ev_error(ev, at, hint, "two different lists meet: %s and %s", ev_shape(ev, x), ev_shape(ev, y));
        return false;
    }
    ev_error(ev, at, hint, "two different lists meet: %s of column '%s' and %s of column '%s'",
             ev_shape(ev, x), of_x->name, ev_shape(ev, y), of_y->name);
    if (ev->d->errors == errors) return false; /* said before */
    note_list(ev, x, of_x);
    note_list(ev, y, of_y);
    return false;
}

IrNode *ev_elementwise(Ev *ev, IrOp op, IrNode *x, IrNode *y, Span at) {
    if (!x || !y || !lists_meet(ev, x, y, at)) return NULL;
    for (int i = 1; i <= x->type.rank && i <= y->type.rank; i++) {
        int64_t a = x->type.dim[x->type.rank - i], b = y->type.dim[y->type.rank - i];
        if (a == b || a == 1 || b == 1) continue;
        ev_error(ev, at, NULL, "shapes don't match: %s and %s", ev_shape(ev, x), ev_shape(ev, y));
        return NULL;
    }
    ev_at(ev, at);
    return ir_build2(&ev->b, op, x, y);
}

/* One after another along an axis inside the row; a row's value repeats along a list. */
IrNode *ev_concat(Ev *ev, IrNode **xs, int n, int axis, Span at, const char *what) {
    IrNode *list = NULL;
    for (int i = 0; i < n; i++) {
        IrType first = xs[0]->type, t = xs[i]->type;
        bool fits = t.rank == first.rank;
        for (int k = 0; fits && k < t.rank; k++) fits = k == axis || t.dim[k] == first.dim[k];
        if (!fits) {
            ev_error(ev, at, NULL, "%s: shapes don't match: %s and %s", what, ev_shape(ev, xs[0]),
                     ev_shape(ev, xs[i]));
            return NULL;
        }
        if (list && !lists_meet(ev, list, xs[i], at)) return NULL;
        if (ev_is_list(xs[i])) list = xs[i];
    }
    if (n == 1) return xs[0];
    ev_at(ev, at);
    IrAttr attr = ir_ai("axis", axis);
    return ir_build(&ev->b, OP_CONCAT, n, xs, 1, &attr);
}

static IrNode *matmul_mismatch(Ev *ev, const IrNode *a, const IrNode *b, Span at, const char *why) {
    ev_error(ev, at, NULL, "shapes don't match: %s @ %s%s", ev_shape(ev, a), ev_shape(ev, b), why);
    return NULL;
}

static bool shared_matrix(const IrNode *n) { return n->type.rank == 2 && n->type.live < LIVE_ROW; }

static IrNode *product(Ev *ev, IrNode *a, IrNode *b) {
    IrAttr attrs[] = {ir_ab("ta", false), ir_ab("tb", false)};
    return ir_build(&ev->b, OP_MATMUL, 2, (IrNode *[]){a, b}, 2, attrs);
}

IrNode *ev_matmul(Ev *ev, IrNode *a, IrNode *b, Span at) {
    if (!lists_meet(ev, a, b, at)) return NULL;
    IrType x = a->type, y = b->type;
    if (y.rank < 2) return matmul_mismatch(ev, a, b, at, " (the right side must be a matrix)");
    if (x.dim[x.rank - 1] != y.dim[y.rank - 2]) return matmul_mismatch(ev, a, b, at, "");
    ev_at(ev, at);
    if (shared_matrix(b) || (shared_matrix(a) && y.rank >= 2 && x.rank == 2)) return product(ev, a, b);
    if (x.rank == 1) { /* a row's vector by a row's matrix */
        if (y.rank != 2) return matmul_mismatch(ev, a, b, at, "");
        IrNode *row = ev_reshape(ev, a, 2, (int64_t[]){1, x.dim[0]});
        IrNode *r = row ? product(ev, row, b) : NULL;
        return r ? ev_reshape(ev, r, 1, &y.dim[1]) : NULL;
    }
    bool lead = x.rank == y.rank;
    for (int i = 0; lead && i < x.rank - 2; i++) lead = x.dim[i] == y.dim[i];
    return lead ? product(ev, a, b) : matmul_mismatch(ev, a, b, at, " (leading sizes must be equal)");
}

/* ---- axes ---- */

bool ev_axis(Ev *ev, const Arg *arg, const IrNode *x, double dflt, bool *list, int *axis) {
    bool ragged = ev_is_list(x);
    int rank = x->type.rank + ragged;
    *list = false;
    double value = dflt;
    if (arg && arg->v) {
        const Value *v = arg->v;
        int named = v->kind == V_AXIS     ? v->axis
                    : v->kind == V_COLUMN ? ev->p->input.columns[v->column].axis
                                          : -1;
        if (v->kind == V_AXIS || (v->kind == V_COLUMN && named >= 0)) {
            int own =
                ragged ? x->type.axis : -1; /* a derived axis goes by the name of the list it came from */
            while (own >= 0 && own != named) own = ev->p->axes[own].parent;
            if (own >= 0) return *list = true;
            ev_error(ev, arg->span, NULL, "%s doesn't run along %s", ev_shape(ev, x), ev_describe(ev, v));
            return false;
        }
        if (v->kind != V_NUMBER) {
            ev_error(ev, arg->span, NULL, "expected an axis: a number, or a list's name; found %s",
                     ev_describe(ev, v));
            return false;
        }
        value = v->number;
    }
    int64_t k;
    if (!ev_whole(value, &k) || k < -rank || k >= rank) {
        ev_error(ev, arg && arg->v ? arg->span : ev->b.span, NULL,
                 "expected an axis from %d to %d of %s, found %s", -rank, rank - 1, ev_shape(ev, x),
                 ev_number_text(ev, value));
        return false;
    }
    if (k < 0) k += rank;
    if (ragged && k == 0) return *list = true;
    *axis = (int)k - ragged;
    return true;
}

/* ---- what a value depends on ---- */

bool ev_depends(Ev *ev, IrNode *n, bool (*is)(const Ev *, const IrNode *), IrNode **found) {
    int mark = ++ev->mark; /* nodes seen so far in this search carry it */
    IrNode **todo = NULL;
    int count = 0, cap = 0, visited = 0;
    bool it = false;
    ARENA_PUSH(ev->a, todo, count, cap, n);
    while (count) {
        IrNode *x = todo[--count];
        if (x->mark == mark) continue;
        x->mark = mark;
        visited++;
        if (is(ev, x)) {
            if (found) *found = x;
            it = true;
            break;
        }
        for (int i = 0; i < x->n_in; i++) ARENA_PUSH(ev->a, todo, count, cap, x->in[i]);
    }
    ev->steps += visited / 16; /* a search costs too */
    return it;
}

bool ev_is_trained(const Ev *ev, const IrNode *n) {
    return n->op == OP_WEIGHT && ev->p->weights[ir_attr_i(n, "w")].trainable;
}

bool ev_is_label(const Ev *ev, const IrNode *n) {
    return n->op == OP_COLUMN && ev->p->input.columns[ir_attr_i(n, "col")].kind == COL_LABEL;
}
