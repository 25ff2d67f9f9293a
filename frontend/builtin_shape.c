/* Built-ins that move elements: concat, stack, slice, reshape, transpose, gather, tril. */
#include "frontend/value.h"
#include <string.h>

typedef struct {
    IrNode **v;
    int n, cap;
} Nodes;

/* Lists are flattened, however deep. */
static bool flatten(Ev *ev, const Call *c, const Value *v, Span at, Nodes *out) {
    if (v->kind != V_LIST) {
        IrNode *n = ev_f32(ev, v, at, c->of->name);
        if (n) ARENA_PUSH(ev->a, out->v, out->n, out->cap, n);
        return n != NULL;
    }
    for (int i = 0; i < v->list.n; i++)
        if (!ev_step(ev, at, 1) || !flatten(ev, c, v->list.items[i], at, out)) return false;
    return true;
}

static bool parts_of(Ev *ev, const Call *c, Nodes *out) {
    for (int i = 0; i < c->n_rest; i++)
        if (!flatten(ev, c, c->rest[i].v, c->rest[i].span, out)) return false;
    ev_at(ev, c->span);
    if (out->n) return true;
    ev_error(ev, c->span, NULL, "%s: expected at least one tensor, found none", c->of->name);
    return false;
}

/* Joining elements of a list one behind the other is no operation of rows. */
static bool inner_axis(Ev *ev, const Call *c, int i, const IrNode *x, double dflt, int *axis) {
    bool list;
    if (!ev_axis(ev, &c->args[i], x, dflt, &list, axis)) return false;
    if (!list) return true;
    const char *hint = strcmp(c->of->name, "slice") == 0 ? "truncate(list, n) shortens a list" : NULL;
    ev_error(ev, c->args[i].v ? c->args[i].span : c->span, hint, "%s doesn't work along a list: %s",
             c->of->name, ev_shape(ev, x));
    return false;
}

static Value *concat(Ev *ev, Call *c) {
    Nodes parts = {0};
    if (!parts_of(ev, c, &parts)) return NULL;
    const IrNode *like = parts.v[0]; /* a ragged part counts the list as its axis 0 */
    for (int i = 0; i < parts.n; i++)
        if (ev_is_list(parts.v[i])) like = parts.v[i];
    int axis;
    if (!inner_axis(ev, c, 1, like, -1, &axis)) return NULL;
    return ev_tensor(ev, ev_concat(ev, parts.v, parts.n, axis, c->span, "concat"));
}

static Value *stack(Ev *ev, Call *c) {
    Nodes parts = {0};
    if (!parts_of(ev, c, &parts)) return NULL;
    for (int i = 0; i < parts.n; i++) {
        IrType t = parts.v[i]->type, first = parts.v[0]->type;
        bool same = t.rank == first.rank;
        for (int k = 0; same && k < t.rank; k++) same = t.dim[k] == first.dim[k];
        if (!same) {
            ev_error(ev, c->span, NULL, "stack: shapes don't match: %s and %s", ev_shape(ev, parts.v[0]),
                     ev_shape(ev, parts.v[i]));
            return NULL;
        }
        if (t.rank == IR_MAX_RANK) {
            ev_error(ev, c->span, NULL, "stack: a tensor has at most %d dimensions", IR_MAX_RANK);
            return NULL;
        }
    }
    IrNode **rows = ARENA_ARRAY(ev->a, IrNode *, parts.n);
    for (int i = 0; i < parts.n; i++) {
        int64_t dim[IR_MAX_RANK] = {1};
        memcpy(dim + 1, parts.v[i]->type.dim, sizeof *dim * (size_t)parts.v[i]->type.rank);
        if (!(rows[i] = ev_reshape(ev, parts.v[i], parts.v[i]->type.rank + 1, dim))) return NULL;
    }
    return ev_tensor(ev, ev_concat(ev, rows, parts.n, 0, c->span, "stack"));
}

static Value *slice(Ev *ev, Call *c) {
    IrNode *x = arg_f32(ev, c, 0);
    int axis;
    int64_t begin = 0, end = 0;
    if (!x || !inner_axis(ev, c, 3, x, -1, &axis)) return NULL;
    int64_t size = x->type.dim[axis];
    if (!arg_whole(ev, c, 1, 0, size - 1, &begin) || !arg_whole(ev, c, 2, begin + 1, size, &end)) return NULL;
    IrAttr attrs[] = {ir_ai("axis", axis), ir_ai("begin", begin), ir_ai("end", end)};
    return ev_tensor(ev, ev_op_attrs(ev, OP_SLICE, x, 3, attrs));
}

/* Sizes of the new shape; one of them may be -1. */
static bool new_sizes(Ev *ev, const Call *c, int64_t total, int64_t *dim, int *rank) {
    double *sizes;
    if (!arg_numbers(ev, c, 1, &sizes, rank)) return false;
    int open = -1;
    int64_t known = 1;
    bool fits = *rank >= 1 && *rank <= IR_MAX_RANK;
    for (int i = 0; fits && i < *rank; i++) {
        fits = ev_whole(sizes[i], &dim[i]) && (dim[i] >= 1 || (dim[i] == -1 && open < 0));
        if (!fits) break;
        if (dim[i] == -1)
            open = i;
        else if ((fits = dim[i] <= total))
            known *= dim[i];
        fits = fits && known <= total;
    }
    if (fits && open >= 0 && total % known == 0) known *= dim[open] = total / known;
    return fits && known == total;
}

static Value *reshape(Ev *ev, Call *c) {
    IrNode *x = arg_f32(ev, c, 0);
    int64_t dim[IR_MAX_RANK];
    int rank = 0, errors = ev->d->errors;
    if (!x) return NULL;
    if (new_sizes(ev, c, ir_type_size(x->type), dim, &rank))
        return ev_tensor(ev, ev_reshape(ev, x, rank, dim));
    if (errors != ev->d->errors) return NULL;
    const char *text = "";
    for (int i = 0; i < c->args[1].v->list.n && i < 8; i++)
        text =
            arena_printf(ev->a, "%s%s%s", text, i ? ", " : "", ev_describe(ev, c->args[1].v->list.items[i]));
    ev_error(ev, c->args[1].span, NULL,
             "reshape: expected sizes for the %lld elements of %s (one may be -1), found [%s]",
             (long long)ir_type_size(x->type), ev_shape(ev, x), text);
    return NULL;
}

static Value *transpose(Ev *ev, Call *c) {
    IrNode *x = arg_f32(ev, c, 0);
    if (!x) return NULL;
    int rank = x->type.rank, ragged = ev_is_list(x), n;
    int64_t order[IR_MAX_RANK];
    for (int i = 0; i < rank; i++) order[i] = i;
    if (!c->args[1].v) {
        if (rank < 2) {
            ev_error(ev, c->args[0].span, NULL, "transpose: expected at least 2 dimensions, found %s",
                     ev_shape(ev, x));
            return NULL;
        }
        order[rank - 1] = rank - 2, order[rank - 2] = rank - 1;
    } else {
        double *axes;
        if (!arg_numbers(ev, c, 1, &axes, &n)) return NULL;
        bool fits = n == rank + ragged && (!ragged || axes[0] == 0);
        unsigned seen = 0;
        for (int i = ragged; fits && i < n; i++) {
            int64_t k;
            fits = ev_whole(axes[i], &k) && k >= ragged && k < n && !(seen & 1u << k);
            if (fits) seen |= 1u << k, order[i - ragged] = k - ragged;
        }
        if (!fits) {
            ev_error(ev, c->args[1].span, NULL, "transpose: expected each axis of %s once%s", ev_shape(ev, x),
                     ragged ? ", the list's (0) first" : "");
            return NULL;
        }
    }
    IrAttr attr = ir_ail(ev->a, "order", order, rank);
    return ev_tensor(ev, ev_op_attrs(ev, OP_TRANSPOSE, x, 1, &attr));
}

static IrNode *gather_at(Ev *ev, IrNode *x, int axis, const int64_t *indices, int n) {
    IrAttr attrs[] = {ir_ai("axis", axis), ir_ail(ev->a, "indices", indices, n)};
    return ev_op_attrs(ev, OP_GATHER, x, 2, attrs);
}

static Value *gather(Ev *ev, Call *c) {
    IrNode *x = arg_f32(ev, c, 0);
    double *at;
    int n, axis;
    if (!x || !arg_numbers(ev, c, 1, &at, &n) || !inner_axis(ev, c, 2, x, -1, &axis)) return NULL;
    int64_t *indices = ARENA_ARRAY(ev->a, int64_t, n);
    for (int i = 0; i < n; i++)
        if (!ev_whole(at[i], &indices[i]) || indices[i] < 0 || indices[i] >= x->type.dim[axis]) {
            ev_error(ev, c->args[1].span, NULL, "gather: expected indices from 0 to %lld, found %s",
                     (long long)x->type.dim[axis] - 1, ev_number_text(ev, at[i]));
            return NULL;
        }
    if (n == 0) {
        ev_error(ev, c->args[1].span, NULL, "gather: expected at least one index, found an empty list");
        return NULL;
    }
    return ev_tensor(ev, gather_at(ev, x, axis, indices, n));
}

/* Entries below the diagonal of the last two dimensions, row by row. */
static Value *tril(Ev *ev, Call *c) {
    IrNode *x = arg_f32(ev, c, 0);
    if (!x) return NULL;
    IrType t = x->type;
    int64_t n = t.dim[t.rank - 1];
    if (t.rank < 2 || t.dim[t.rank - 2] != n || n < 2) {
        ev_error(ev, c->args[0].span, NULL, "tril: expected a square matrix of at least 2 by 2, found %s",
                 ev_shape(ev, x));
        return NULL;
    }
    if (n > 2000 || !ev_step(ev, c->span, n * n / 16)) {
        ev_error(ev, c->args[0].span, NULL, "tril: expected at most 2000 by 2000, found %s", ev_shape(ev, x));
        return NULL;
    }
    int64_t *indices = ARENA_ARRAY(ev->a, int64_t, n * (n - 1) / 2);
    int count = 0;
    for (int64_t i = 1; i < n; i++)
        for (int64_t j = 0; j < i; j++) indices[count++] = i * n + j;
    t.dim[t.rank - 2] = n * n;
    IrNode *flat = ev_reshape(ev, x, t.rank - 1, t.dim);
    return ev_tensor(ev, gather_at(ev, flat, t.rank - 2, indices, count));
}

const Builtin builtins_shape[] = {
    {"concat", "*parts axis?", concat},
    {"stack", "*parts", stack},
    {"slice", "x begin end axis?", slice},
    {"reshape", "x sizes", reshape},
    {"transpose", "x order?", transpose},
    {"gather", "x indices axis", gather},
    {"tril", "x", tril},
    {0},
};
