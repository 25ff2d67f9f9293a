/* What the programs of op_cases.h are built of: columns, weights, trained values of any shape a row or a
 * position. */
#ifndef CTRC_TESTS_OP_BUILD_H
#define CTRC_TESTS_OP_BUILD_H
#include <string.h>
#include "ir/ir.h"

typedef struct {
    IrProgram *p;
    IrBuilder b;
    const char *name; /* of the value being made */
    int n_weights;    /* of the value being made */
    int n_values;
    bool parts;   /* some operands are parts of wider values, some results parts of a concat */
    int n_spread; /* operands made */
    IrNode *x;    /* f32[3] a row */
    IrNode *y;    /* label */
    int list;     /* axis of numbers and ids */
} OpCase;

#define DIMS(...)                                                                                            \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

/* ---- schema ---- */

static inline int column(OpCase *c, const char *name, IrColKind kind, int axis) {
    IrProgram *p = c->p;
    IrColumn col = {.name = name, .kind = kind, .axis = axis, .is_list = axis >= 0, .list_sep = ';'};
    ARENA_PUSH(p->arena, p->input.columns, p->input.n_columns, p->input.cap_columns, col);
    return p->input.n_columns - 1;
}

static inline int axis(OpCase *c, const char *name, int64_t max) {
    IrProgram *p = c->p;
    IrAxis a = {.name = name, .kind = AXIS_LIST, .parent = -1, .max = max, .shared = true};
    ARENA_PUSH(p->arena, p->axes, p->n_axes, p->cap_axes, a);
    return p->n_axes - 1;
}

static inline IrNode *read_column(OpCase *c, const char *name, IrColKind kind, int ax) {
    IrAttr at = ir_ai("col", column(c, name, kind, ax));
    at.kind = 'c';
    return ir_build(&c->b, OP_COLUMN, 0, NULL, 1, &at);
}

static inline IrNode *hash(OpCase *c, const char *name, int ax, int64_t buckets) {
    IrNode *text = read_column(c, name, COL_STRING, ax);
    return ir_build(&c->b, OP_HASH, 1, &text, 2, (IrAttr[]){ir_ai("buckets", buckets), ir_as("fn", "xxh3")});
}

/* ---- building blocks ---- */

static inline IrNode *unary(OpCase *c, IrOp op, IrNode *x) { return ir_build1(&c->b, op, x); }
static inline IrNode *binary(OpCase *c, IrOp op, IrNode *x, IrNode *y) { return ir_build2(&c->b, op, x, y); }
static inline IrNode *with(OpCase *c, IrOp op, IrNode *x, int n, const IrAttr *at) {
    return ir_build(&c->b, op, 1, &x, n, at);
}
static inline IrNode *constant(OpCase *c, double v) { return ir_const(&c->b, v); }

static inline IrNode *reshape(OpCase *c, IrNode *x, int rank, const int64_t *dim) {
    IrAttr at = ir_ail(c->p->arena, "shape", dim, rank);
    return with(c, OP_RESHAPE, x, 1, &at);
}

static inline IrNode *matmul(OpCase *c, IrNode *x, IrNode *y, bool ta, bool tb) {
    return ir_build(&c->b, OP_MATMUL, 2, (IrNode *[]){x, y}, 2, (IrAttr[]){ir_ab("ta", ta), ir_ab("tb", tb)});
}

static inline int new_weight(OpCase *c, int rank, const int64_t *dim) {
    IrProgram *p = c->p;
    IrWeight w = {.name = arena_printf(p->arena, "%s.w%d", c->name, c->n_weights++),
                  .rank = rank,
                  .init = INIT_UNIFORM,
                  .init_arg = 1,
                  .trainable = true,
                  .own_optimizer = -1};
    memcpy(w.dim, dim, sizeof *dim * (size_t)rank);
    ARENA_PUSH(p->arena, p->weights, p->n_weights, p->cap_weights, w);
    return p->n_weights - 1;
}

static inline IrNode *weight_value(OpCase *c, int w) {
    IrAttr at = ir_ai("w", w);
    at.kind = 'w';
    return ir_build(&c->b, OP_WEIGHT, 0, NULL, 1, &at);
}

static inline IrNode *always(OpCase *c, int rank, const int64_t *dim) {
    return weight_value(c, new_weight(c, rank, dim));
}

static inline IrNode *table(OpCase *c, int64_t rows, int64_t width) {
    int w = new_weight(c, 2, (int64_t[]){rows, width});
    c->p->weights[w].table = c->p->weights[w].lazy = true;
    return weight_value(c, w);
}

static inline IrNode *columns(OpCase *c, IrNode *x, int64_t begin, int64_t end) {
    IrAttr at[] = {ir_ai("axis", 0), ir_ai("begin", begin), ir_ai("end", end)};
    return ir_build(&c->b, OP_SLICE, 1, &x, 3, at);
}

/* A trained value of that shape, for each row or each position of the list: every other one a part of a wider
 * value. */
static inline IrNode *spread(OpCase *c, IrNode *x, int rank, const int64_t *dim) {
    int64_t size = 1;
    for (int d = 0; d < rank; d++) size *= dim[d];
    bool part = c->parts && c->n_spread++ % 2;
    IrNode *flat =
        matmul(c, x, always(c, DIMS(ir_type_width(x->type), part ? size + 5 : size)), false, false);
    if (part) flat = columns(c, flat, 3, size + 3);
    return rank == 1 ? flat : reshape(c, flat, rank, dim);
}

static inline IrNode *row(OpCase *c, int rank, const int64_t *dim) { return spread(c, c->x, rank, dim); }

static inline IrNode *numbers_of_list(OpCase *c) {
    int n = c->p->input.n_columns;
    IrNode *v[2];
    for (int i = 0; i < 2; i++)
        v[i] = read_column(c, arena_printf(c->p->arena, "list%d", n + i), COL_FLOAT, c->list);
    IrAttr at = ir_ai("axis", 0);
    return ir_build(&c->b, OP_CONCAT, 2, v, 1, &at);
}

static inline IrNode *pos(OpCase *c, int rank, const int64_t *dim) {
    return spread(c, numbers_of_list(c), rank, dim);
}

static inline IrNode *positive(OpCase *c, IrNode *x) {
    return binary(c, OP_ADD, unary(c, OP_SOFTPLUS, x), constant(c, 0.2));
}

static inline IrNode *row_id(OpCase *c, int64_t n) {
    return hash(c, arena_printf(c->p->arena, "id%d", c->p->input.n_columns), -1, n);
}
static inline IrNode *list_id(OpCase *c, int64_t n) {
    return hash(c, arena_printf(c->p->arena, "ids%d", c->p->input.n_columns), c->list, n);
}

static inline IrNode *embed(OpCase *c, IrNode *id, IrNode *rows) { return binary(c, OP_EMBED, id, rows); }

static inline IrNode *embed_pool(OpCase *c, IrNode *id, IrNode *rows, const char *kind) {
    IrAttr at = ir_as("kind", kind);
    return ir_build(&c->b, OP_EMBEDPOOL, 2, (IrNode *[]){id, rows}, 1, &at);
}

static inline IrNode *concat(OpCase *c, int n, IrNode **x, int64_t ax) {
    IrAttr at = ir_ai("axis", ax);
    return ir_build(&c->b, OP_CONCAT, n, x, 1, &at);
}

/* The variant-th value of an op: variants go from 0 to the first that is NULL. */
IrNode *op_value(OpCase *c, IrOp op, int variant);

#endif
