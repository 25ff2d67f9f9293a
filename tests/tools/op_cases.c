#include "tests/tools/op_cases.h"
#include <string.h>

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
} Case;

#define DIMS(...)                                                                                            \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

/* ---- schema ---- */

static int column(Case *c, const char *name, IrColKind kind, int axis) {
    IrProgram *p = c->p;
    IrColumn col = {.name = name, .kind = kind, .axis = axis, .is_list = axis >= 0, .list_sep = ';'};
    ARENA_PUSH(p->arena, p->input.columns, p->input.n_columns, p->input.cap_columns, col);
    return p->input.n_columns - 1;
}

static int axis(Case *c, const char *name, int64_t max) {
    IrProgram *p = c->p;
    IrAxis a = {.name = name, .kind = AXIS_LIST, .parent = -1, .max = max, .shared = true};
    ARENA_PUSH(p->arena, p->axes, p->n_axes, p->cap_axes, a);
    return p->n_axes - 1;
}

static IrNode *read_column(Case *c, const char *name, IrColKind kind, int ax) {
    IrAttr at = ir_ai("col", column(c, name, kind, ax));
    at.kind = 'c';
    return ir_build(&c->b, OP_COLUMN, 0, NULL, 1, &at);
}

static IrNode *hash(Case *c, const char *name, int ax, int64_t buckets) {
    IrNode *text = read_column(c, name, COL_STRING, ax);
    return ir_build(&c->b, OP_HASH, 1, &text, 2, (IrAttr[]){ir_ai("buckets", buckets), ir_as("fn", "xxh3")});
}

/* ---- building blocks ---- */

static IrNode *unary(Case *c, IrOp op, IrNode *x) { return ir_build1(&c->b, op, x); }
static IrNode *binary(Case *c, IrOp op, IrNode *x, IrNode *y) { return ir_build2(&c->b, op, x, y); }
static IrNode *with(Case *c, IrOp op, IrNode *x, int n, const IrAttr *at) {
    return ir_build(&c->b, op, 1, &x, n, at);
}
static IrNode *constant(Case *c, double v) { return ir_const(&c->b, v); }

static IrNode *reshape(Case *c, IrNode *x, int rank, const int64_t *dim) {
    IrAttr at = ir_ail(c->p->arena, "shape", dim, rank);
    return with(c, OP_RESHAPE, x, 1, &at);
}

static IrNode *matmul(Case *c, IrNode *x, IrNode *y, bool ta, bool tb) {
    return ir_build(&c->b, OP_MATMUL, 2, (IrNode *[]){x, y}, 2, (IrAttr[]){ir_ab("ta", ta), ir_ab("tb", tb)});
}

static int new_weight(Case *c, int rank, const int64_t *dim) {
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

static IrNode *weight_value(Case *c, int w) {
    IrAttr at = ir_ai("w", w);
    at.kind = 'w';
    return ir_build(&c->b, OP_WEIGHT, 0, NULL, 1, &at);
}

static IrNode *always(Case *c, int rank, const int64_t *dim) {
    return weight_value(c, new_weight(c, rank, dim));
}

static IrNode *table(Case *c, int64_t rows, int64_t width) {
    int w = new_weight(c, 2, (int64_t[]){rows, width});
    c->p->weights[w].table = c->p->weights[w].lazy = true;
    return weight_value(c, w);
}

static IrNode *columns(Case *c, IrNode *x, int64_t begin, int64_t end) {
    IrAttr at[] = {ir_ai("axis", 0), ir_ai("begin", begin), ir_ai("end", end)};
    return ir_build(&c->b, OP_SLICE, 1, &x, 3, at);
}

/* A trained value of that shape, for each row or each position of the list: every other one a part of a wider
 * value. */
static IrNode *spread(Case *c, IrNode *x, int rank, const int64_t *dim) {
    int64_t size = 1;
    for (int d = 0; d < rank; d++) size *= dim[d];
    bool part = c->parts && c->n_spread++ % 2;
    IrNode *flat =
        matmul(c, x, always(c, DIMS(ir_type_width(x->type), part ? size + 5 : size)), false, false);
    if (part) flat = columns(c, flat, 3, size + 3);
    return rank == 1 ? flat : reshape(c, flat, rank, dim);
}

static IrNode *row(Case *c, int rank, const int64_t *dim) { return spread(c, c->x, rank, dim); }

static IrNode *numbers_of_list(Case *c) {
    int n = c->p->input.n_columns;
    IrNode *v[2];
    for (int i = 0; i < 2; i++)
        v[i] = read_column(c, arena_printf(c->p->arena, "list%d", n + i), COL_FLOAT, c->list);
    IrAttr at = ir_ai("axis", 0);
    return ir_build(&c->b, OP_CONCAT, 2, v, 1, &at);
}

static IrNode *pos(Case *c, int rank, const int64_t *dim) { return spread(c, numbers_of_list(c), rank, dim); }

static IrNode *positive(Case *c, IrNode *x) {
    return binary(c, OP_ADD, unary(c, OP_SOFTPLUS, x), constant(c, 0.2));
}

static IrNode *row_id(Case *c, int64_t n) {
    return hash(c, arena_printf(c->p->arena, "id%d", c->p->input.n_columns), -1, n);
}
static IrNode *list_id(Case *c, int64_t n) {
    return hash(c, arena_printf(c->p->arena, "ids%d", c->p->input.n_columns), c->list, n);
}

static IrNode *embed(Case *c, IrNode *id, IrNode *rows) { return binary(c, OP_EMBED, id, rows); }

static IrNode *embed_pool(Case *c, IrNode *id, IrNode *rows, const char *kind) {
    IrAttr at = ir_as("kind", kind);
    return ir_build(&c->b, OP_EMBEDPOOL, 2, (IrNode *[]){id, rows}, 1, &at);
}

/* ---- elementwise ---- */

/* Rounded is only what both know to the last bit, numbers of the log and a weight that isn't trained: else
 * what differs by fp32's rounding can come to lie on two sides of a border. */
static IrNode *bf16_case(Case *c, int variant) {
    IrNode *x = variant == 0   ? c->x
                : variant == 1 ? numbers_of_list(c)
                : variant == 2 ? always(c, DIMS(19))
                               : NULL;
    if (!x) return NULL;
    if (variant == 2) c->p->weights[c->p->n_weights - 1].trainable = false;
    int64_t width = ir_type_width(x->type);
    IrNode *y = variant == 0 ? row(c, 1, &width) : variant == 1 ? pos(c, 1, &width) : always(c, 1, &width);
    return binary(c, OP_MUL, unary(c, OP_BF16, x), y);
}

static IrNode *unary_case(Case *c, IrOp op, int variant) {
    if (op == OP_BF16) return bf16_case(c, variant);
    IrNode *x = variant == 0   ? row(c, DIMS(13))
                : variant == 1 ? pos(c, DIMS(3, 5))
                : variant == 2 ? always(c, DIMS(19))
                               : NULL;
    if (!x) return NULL;
    switch (op) {
    case OP_LOG:
    case OP_SQRT: return unary(c, op, positive(c, x));
    case OP_LOG1P: return unary(c, op, unary(c, OP_SQUARE, x));
    case OP_LEAKYRELU: return with(c, op, x, 1, (IrAttr[]){ir_af("slope", 0.2)});
    case OP_CLIP: return with(c, op, x, 2, (IrAttr[]){ir_af("lo", -0.5), ir_af("hi", 0.75)});
    case OP_DROPOUT: return with(c, op, x, 2, (IrAttr[]){ir_af("rate", 0.3), ir_ai("key", 77)});
    case OP_STOPGRAD: return binary(c, OP_MUL, unary(c, op, x), x);
    case OP_SIGMOID: /* also where e^-x overflows */
    case OP_SOFTPLUS: return unary(c, op, variant == 1 ? binary(c, OP_MUL, x, constant(c, 60)) : x);
    default: return unary(c, op, x);
    }
}

static IrNode *binary_case(Case *c, IrOp op, int variant) {
    IrNode *x, *y;
    switch (variant) {
    case 0: x = row(c, DIMS(13)), y = row(c, DIMS(13)); break;
    case 1: x = row(c, DIMS(2, 1, 3)), y = row(c, DIMS(4, 1)); break;
    case 2: x = pos(c, DIMS(5)), y = row(c, DIMS(1)); break;
    case 3: x = always(c, DIMS(7)), y = pos(c, DIMS(2, 7)); break;
    case 4: x = always(c, DIMS(33)), y = always(c, DIMS(33)); break;
    default: return NULL;
    }
    bool compares = op == OP_LT || op == OP_LE || op == OP_GT || op == OP_GE || op == OP_EQ || op == OP_NE;
    if (op == OP_DIV) y = positive(c, y);
    if (op == OP_EQ || op == OP_NE) x = unary(c, OP_RELU, x), y = unary(c, OP_RELU, y); /* zeros are equal */
    if (op == OP_BCELOGITS) y = unary(c, OP_STOPGRAD, unary(c, OP_SIGMOID, y));
    IrNode *v = binary(c, op, x, y);
    return compares ? binary(c, OP_MUL, v, binary(c, OP_ADD, x, y)) : v;
}

/* ---- movement ---- */

static IrNode *concat(Case *c, int n, IrNode **x, int64_t ax) {
    IrAttr at = ir_ai("axis", ax);
    return ir_build(&c->b, OP_CONCAT, n, x, 1, &at);
}

/* Lists of at most 50 from here on. */
static void short_lists(Case *c) {
    c->list = axis(c, arena_printf(c->p->arena, "short%d", c->p->n_axes), 50);
}

/* append(x, row), lists appended to alike sharing the axis. */
static IrNode *append(Case *c, IrNode *x, IrNode *row) {
    IrProgram *p = c->p;
    int more = -1, parent = x->type.axis;
    for (int i = 0; i < p->n_axes; i++)
        if (p->axes[i].kind == AXIS_APPEND && p->axes[i].parent == parent) more = i;
    if (more < 0) {
        int64_t most = p->axes[parent].max;
        IrAxis a = {.name = arena_printf(p->arena, "%s_plus1", p->axes[parent].name),
                    .kind = AXIS_APPEND,
                    .parent = parent};
        a.max = most ? most + 1 : 0;
        ARENA_PUSH(p->arena, p->axes, p->n_axes, p->cap_axes, a);
        more = p->n_axes - 1;
    }
    IrAttr at = ir_ai("axis", more);
    at.kind = 'x';
    return ir_build(&c->b, OP_APPEND, 2, (IrNode *[]){x, row}, 1, &at);
}

static IrNode *append_case(Case *c, int variant) {
    switch (variant) {
    case 0: return unary(c, OP_SQUARE, append(c, pos(c, DIMS(3)), row(c, DIMS(3))));
    case 1: /* and on along the new axis */
        return with(c, OP_SHIFT, append(c, pos(c, DIMS(2, 9)), row(c, DIMS(2, 9))), 1,
                    (IrAttr[]){ir_ai("k", 1)});
    case 2:
        return unary(c, OP_SEGSUM, append(c, pos(c, DIMS(17)), always(c, DIMS(17)))); /* a gradient by row */
    case 3: { /* positions of the new axis, looked up; twice appended */
        short_lists(c);
        IrNode *ids = list_id(c, 9);
        IrNode *x = append(c, append(c, embed(c, ids, table(c, 9, 7)), row(c, DIMS(7))), row(c, DIMS(7)));
        IrAttr at = ir_ai("axis", x->type.axis);
        at.kind = 'x';
        IrNode *at_place = with(c, OP_POSITIONS, ids, 1, &at);
        return binary(c, OP_MUL, x, embed(c, at_place, table(c, at_place->type.bound, 7)));
    }
    default: return NULL;
    }
}

static IrNode *move_case(Case *c, IrOp op, int variant) {
    Arena *a = c->p->arena;
    if (op == OP_APPEND) return append_case(c, variant);
    if (op == OP_SHIFT) {
        static const int64_t by[] = {1, -1, 3, -2, 0};
        if (variant > 4) return NULL;
        IrNode *x = variant % 2 ? pos(c, DIMS(2, 9)) : pos(c, DIMS(3));
        return with(c, op, x, 1, (IrAttr[]){ir_ai("k", by[variant])});
    }
    if (variant > 3 || (variant > 1 && op != OP_CONCAT && op != OP_BROADCAST && op != OP_TRANSPOSE))
        return NULL;
    IrNode *x = variant == 0 ? row(c, DIMS(4, 3)) : pos(c, DIMS(4, 3));
    switch (op) {
    case OP_CONCAT:
        if (variant == 2)
            return concat(c, 3, (IrNode *[]){row(c, DIMS(5)), always(c, DIMS(2)), row(c, DIMS(9))}, 0);
        if (variant == 3)
            return concat(c, 3, (IrNode *[]){pos(c, DIMS(2, 3)), row(c, DIMS(2, 2)), always(c, DIMS(2, 1))},
                          1);
        return concat(c, 2, (IrNode *[]){x, binary(c, OP_MUL, x, x)}, variant);
    case OP_SLICE:
        return with(c, op, x, 3, (IrAttr[]){ir_ai("axis", variant), ir_ai("begin", 1), ir_ai("end", 3)});
    case OP_PAD:
        return with(c, op, x, 3, (IrAttr[]){ir_ai("axis", variant), ir_ai("before", 2), ir_ai("after", 1)});
    case OP_RESHAPE: return binary(c, OP_MUL, reshape(c, x, DIMS(2, 6)), row(c, DIMS(6)));
    case OP_TRANSPOSE: {
        static const int64_t orders[4][3] = {{2, 0, 1}, {1, 0, 2}, {0, 2, 1}, {2, 1, 0}};
        IrNode *t = variant % 2 ? pos(c, DIMS(2, 3, 4)) : row(c, DIMS(2, 3, 4));
        IrAttr at = ir_ail(a, "order", orders[variant], 3);
        return with(c, op, t, 1, &at);
    }
    case OP_GATHER:
        return with(c, op, x, 2,
                    (IrAttr[]){ir_ai("axis", variant), ir_ail(a, "indices", (int64_t[]){2, 0, 2, 1, 0}, 5)});
    case OP_SCATTERADD:
        return with(c, op, x, 3,
                    (IrAttr[]){ir_ai("axis", variant),
                               ir_ail(a, "indices", (int64_t[]){5, 1, 5, 0}, variant ? 3 : 4),
                               ir_ai("size", 7)});
    case OP_BROADCAST: {
        IrAttr shape = ir_ail(a, "shape", (int64_t[]){2, 4, 3}, 3), list = ir_ai("axis", c->list);
        list.kind = 'x';
        if (variant == 0) return with(c, op, row(c, DIMS(4, 1)), 1, &shape);
        if (variant == 1) return with(c, op, pos(c, DIMS(2, 1, 3)), 1, &shape);
        if (variant == 2) return with(c, op, row(c, DIMS(4, 3)), 2, (IrAttr[]){shape, list});
        return with(c, op, always(c, DIMS(1, 3)), 1, &shape);
    }
    default: return NULL;
    }
}

/* ---- reductions ---- */

/* q, k of width d, v of width e; the lists of the batches are empty, one position, and up to 150 long. */
static IrNode *attend_case(Case *c, int variant) {
    static const int64_t widths[][2] = {{1, 1}, {7, 7}, {18, 18}, {36, 36}, {9, 20}, {33, 5}};
    enum { WIDTHS = sizeof widths / sizeof *widths };
    IrNode *in[3];
    IrAttr scale = ir_af("scale", variant == 1 ? -0.4 : 0.3);
    if (variant == WIDTHS) { /* itself, along an appended axis; a gradient by row */
        in[0] = in[1] = in[2] = append(c, pos(c, DIMS(9)), row(c, DIMS(9)));
        return unary(c, OP_SEGSUM, ir_build(&c->b, OP_ATTEND, 3, in, 1, &scale));
    }
    if (variant > WIDTHS) return NULL;
    for (int i = 0; i < 3; i++) in[i] = pos(c, DIMS(widths[variant][i / 2]));
    return unary(c, OP_SQUARE, ir_build(&c->b, OP_ATTEND, 3, in, 1, &scale));
}

/* Reductions of what is computed for them alone, which fuse makes one kernel of: along an axis, in all the
 * ways in which operands can stretch. */
static IrNode *reduced_case(Case *c, IrOp op, int variant) {
    IrNode *x, *y;
    int64_t axis = 0;
    switch (variant) {
    case 0: x = pos(c, DIMS(36)), y = row(c, DIMS(36)); break;      /* a row's value along a list */
    case 1: x = row(c, DIMS(4, 37)), y = row(c, DIMS(4, 1)); break; /* a number each */
    case 2: x = row(c, DIMS(4, 37)), y = always(c, DIMS(37)), axis = 1; break;
    case 3: x = pos(c, DIMS(2, 3, 5)), y = row(c, DIMS(2, 1, 1)), axis = 1; break;
    case 4: x = row(c, DIMS(70)), y = constant(c, 0.3); break;
    case 5: x = pos(c, DIMS(3, 4)), y = row(c, DIMS(3, 1)), axis = 1; break;
    default: return NULL;
    }
    IrNode *v = binary(c, OP_SUB, unary(c, OP_TANH, x), y);
    v = binary(c, OP_MUL, binary(c, OP_MUL, v, y), constant(c, 0.1)); /* small enough that training goes on */
    return with(c, op, v, 2, (IrAttr[]){ir_ai("axis", axis), ir_ab("keep", false)});
}

/* The same along the list. */
static IrNode *summed_case(Case *c, IrOp op, int variant) {
    IrNode *x, *y;
    switch (variant) {
    case 0: x = pos(c, DIMS(36)), y = row(c, DIMS(36)); break;
    case 1: x = pos(c, DIMS(5)), y = pos(c, DIMS(1)); break;
    case 2: x = pos(c, DIMS(2, 9)), y = row(c, DIMS(1)); break;
    case 3: x = pos(c, DIMS(1)), y = always(c, DIMS(1)); break;
    case 4: x = pos(c, DIMS(80)), y = always(c, DIMS(80)); break;
    default: return NULL;
    }
    return unary(c, op, binary(c, OP_MUL, unary(c, OP_RELU, x), y));
}

/* A weighted sum along the list; behind stop_gradient nothing else reads the weights, so that training has it
 * as one region, too. */
static IrNode *attention_case(Case *c, int variant) {
    static const int64_t width[] = {36, 1, 5, 150, 7, 24};
    if (variant > 5) return NULL;
    IrNode *x = binary(c, OP_MUL, pos(c, DIMS(1)), constant(c, 3));
    IrNode *v = variant == 4   ? row(c, DIMS(7))
                : variant == 5 ? pos(c, DIMS(3, 8))
                               : pos(c, DIMS(width[variant]));
    IrNode *weights = unary(c, OP_SEGSOFTMAX, x);
    if (variant % 2) v = binary(c, OP_ADD, unary(c, OP_TANH, v), row(c, DIMS(1)));
    IrNode *sum =
        unary(c, OP_SEGSUM, variant > 2 ? binary(c, OP_MUL, v, weights) : binary(c, OP_MUL, weights, v));
    return variant == 2 ? binary(c, OP_MUL, unary(c, OP_STOPGRAD, sum), row(c, DIMS(5))) : sum;
}

static IrNode *reduce_case(Case *c, IrOp op, int variant) {
    switch (op) {
    case OP_ATTEND: return attend_case(c, variant);
    case OP_SUM:
    case OP_MAXR: {
        if (variant > 3) return reduced_case(c, op, variant - 4);
        IrNode *x = variant == 3 ? pos(c, DIMS(17)) : variant == 2 ? pos(c, DIMS(3, 4)) : row(c, DIMS(5, 6));
        if (variant % 2) x = unary(c, OP_RELU, x); /* equals: several zeros may be the largest */
        return with(c, op, x, 2,
                    (IrAttr[]){ir_ai("axis", variant == 1 ? 1 : 0), ir_ab("keep", variant == 2)});
    }
    case OP_SOFTMAX: {
        if (variant > 2) return NULL;
        IrNode *x = variant == 0 ? row(c, DIMS(9)) : variant == 1 ? row(c, DIMS(4, 5)) : pos(c, DIMS(4, 3));
        return with(c, op, binary(c, OP_MUL, x, constant(c, 3)), 1,
                    (IrAttr[]){ir_ai("axis", variant == 1 ? 1 : 0)});
    }
    case OP_SEGSUM:
    case OP_SEGMEAN:
    case OP_SEGMAX:
        if (variant > 2) return summed_case(c, op, variant - 3);
        return unary(c, op,
                     variant == 0   ? pos(c, DIMS(5))
                     : variant == 1 ? pos(c, DIMS(2, 3))
                                    : unary(c, OP_RELU, pos(c, DIMS(4))));
    case OP_SEGSOFTMAX: { /* as attention has it, and squared: a row's sum alone has no gradient */
        if (variant > 2) return attention_case(c, variant - 3);
        IrNode *x = variant == 0 ? pos(c, DIMS(1)) : variant == 1 ? pos(c, DIMS(2, 9)) : pos(c, DIMS(33));
        IrNode *y = unary(c, op, binary(c, OP_MUL, x, constant(c, 3)));
        return variant == 0 ? unary(c, OP_SEGSUM, binary(c, OP_MUL, y, pos(c, DIMS(5))))
                            : unary(c, OP_SQUARE, y);
    }
    case OP_LONGEST: {
        if (variant > 0) return NULL;
        IrAttr at = ir_ai("axis", c->list);
        at.kind = 'x';
        IrNode *used = unary(c, OP_SEGSUM, pos(c, DIMS(2))), *most = ir_build(&c->b, op, 0, NULL, 1, &at);
        return binary(c, OP_DIV, used, binary(c, OP_ADD, most, constant(c, 1)));
    }
    case OP_SUMROWS:
    case OP_MEANROWS: {
        if (variant > 3) return NULL;
        IrNode *x = variant == 0   ? row(c, DIMS(6))
                    : variant == 1 ? pos(c, DIMS(2, 3))
                    : variant == 2 ? binary(c, OP_MUL, row(c, DIMS(37)), row(c, DIMS(37)))
                                   : binary(c, OP_SUB, pos(c, DIMS(2, 3)), always(c, DIMS(1)));
        IrNode *sum = unary(c, op, x);
        /* over all rows: kept small, so that the loss is of the size of one */
        return unary(
            c, OP_TANH,
            binary(c, OP_MUL, sum, binary(c, OP_MUL, unary(c, OP_TANH, row(c, DIMS(1))), constant(c, 0.05))));
    }
    default: return NULL;
    }
}

/* ---- recurrent layers ---- */

static IrNode *part(Case *c, IrNode *x, int64_t ax, int64_t begin, int64_t end) {
    return with(c, OP_SLICE, x, 3, (IrAttr[]){ir_ai("axis", ax), ir_ai("begin", begin), ir_ai("end", end)});
}

/* A recurrent weight, small enough for many units not to saturate; own: it is a weight, else rows of one, as
 * in the layer library. */
static IrNode *state_weight(Case *c, int64_t units, int64_t columns, bool own) {
    if (own) return always(c, DIMS(units, columns));
    IrNode *whole = binary(c, OP_MUL, always(c, DIMS(units + 3, columns)), constant(c, 0.2));
    return part(c, whole, 0, 3, units + 3);
}

/* variant 3: one after another; 4: from a value that is the same for all positions of a row. */
static IrNode *gru_case(Case *c, IrOp op, int variant) {
    static const int64_t sizes[] = {7, 1, 36, 16, 9};
    if (variant > 4) return NULL;
    int64_t u = sizes[variant];
    IrNode *x = pos(c, DIMS(3 * u));
    if (variant == 4) {
        IrAttr to[2] = {ir_ail(c->p->arena, "shape", (int64_t[]){3 * u}, 1), ir_ai("axis", c->list)};
        to[1].kind = 'x';
        x = with(c, OP_BROADCAST, row(c, DIMS(3 * u)), 2, to);
    }
    IrNode *h = NULL;
    for (int layer = 0; layer <= (variant == 3); layer++) {
        if (layer) x = matmul(c, h, always(c, DIMS(u, 3 * u)), false, false);
        bool own = variant < 2;
        IrNode *in[4] = {x, state_weight(c, u, 2 * u, own), state_weight(c, u, u, own)};
        if (op == OP_AUGRU) in[3] = unary(c, variant % 2 ? OP_SIGMOID : OP_SEGSOFTMAX, pos(c, DIMS(1)));
        h = part(c, ir_build(&c->b, op, op == OP_AUGRU ? 4 : 3, in, 0, NULL), 0, 0, u);
    }
    return h;
}

static IrNode *sru_case(Case *c, int variant) {
    static const int64_t sizes[] = {7, 1, 36, 16};
    if (variant > 3) return NULL;
    int64_t u = sizes[variant];
    IrNode *state = binary(c, OP_SRU, unary(c, OP_SIGMOID, pos(c, DIMS(u))), pos(c, DIMS(u)));
    return variant ? state : unary(c, OP_TANH, state);
}

/* ---- products and normalisation ---- */

/* Products with something done to their result, which fuse makes one kernel with them. */
static IrNode *epilogue_case(Case *c, int variant) {
    IrNode *plain;
    switch (variant) {
    case 0: /* a row's value along its positions */
        plain = matmul(c, pos(c, DIMS(5)), always(c, DIMS(5, 17)), false, false);
        return unary(c, OP_RELU, binary(c, OP_ADD, plain, row(c, DIMS(17))));
    case 1: /* narrower than a vector: the library's */
        plain = matmul(c, row(c, DIMS(12)), always(c, DIMS(12, 6)), false, false);
        return unary(c, OP_TANH, binary(c, OP_ADD, plain, always(c, DIMS(6))));
    case 2: /* dot products */
        plain = matmul(c, row(c, DIMS(19)), always(c, DIMS(19, 2)), false, false);
        return unary(c, OP_SIGMOID, binary(c, OP_ADD, plain, always(c, DIMS(2))));
    case 3: /* rows of the product that are not the batch's */
        plain = matmul(c, row(c, DIMS(3, 20)), always(c, DIMS(20, 24)), false, false);
        return binary(c, OP_ADD, binary(c, OP_MUL, plain, row(c, DIMS(3, 1))), row(c, DIMS(24)));
    case 4: /* a gradient that is the same for all positions of a row */
        plain = matmul(c, pos(c, DIMS(5)), always(c, DIMS(5, 17)), false, false);
        return unary(c, OP_SEGSUM, plain);
    case 5:
        plain = matmul(c, row(c, DIMS(30)), always(c, DIMS(30, 21)), false, false);
        return with(c, OP_DROPOUT, binary(c, OP_ADD, plain, always(c, DIMS(21))), 2,
                    (IrAttr[]){ir_af("rate", 0.25), ir_ai("key", 77)});
    default: return NULL;
    }
}

static IrNode *matmul_case(Case *c, int variant) {
    switch (variant) {
    case 0: return matmul(c, row(c, DIMS(13)), always(c, DIMS(13, 9)), false, false);
    case 1: return matmul(c, row(c, DIMS(70)), always(c, DIMS(50, 70)), false, true);
    case 2: return matmul(c, pos(c, DIMS(5)), always(c, DIMS(5, 17)), false, false);
    case 3: return matmul(c, row(c, DIMS(4, 5)), always(c, DIMS(5, 3)), false, false);
    case 4: return matmul(c, row(c, DIMS(2, 3, 4)), row(c, DIMS(2, 4, 5)), false, false);
    case 5: return matmul(c, row(c, DIMS(2, 4, 3)), row(c, DIMS(2, 5, 4)), true, true);
    case 6: return matmul(c, always(c, DIMS(2, 3)), row(c, DIMS(3, 4)), false, false);
    case 7: return matmul(c, always(c, DIMS(3, 2)), row(c, DIMS(4, 3)), true, true);
    case 8: return matmul(c, always(c, DIMS(3, 4)), always(c, DIMS(4, 2)), false, false);
    case 9: return matmul(c, pos(c, DIMS(3, 4)), row(c, DIMS(4, 2)), false, false);
    case 10: return matmul(c, row(c, DIMS(3, 6)), always(c, DIMS(7, 6)), false, true);
    case 11: return matmul(c, row(c, DIMS(6, 3)), always(c, DIMS(6, 2)), true, false);
    case 12:
        return unary(c, OP_RELU,
                     binary(c, OP_ADD, matmul(c, row(c, DIMS(40)), always(c, DIMS(40, 33)), false, false),
                            always(c, DIMS(33))));
    case 13: return matmul(c, row(c, DIMS(4, 6)), row(c, DIMS(4, 6)), false, true); /* dot interaction */
    case 14: return matmul(c, row(c, DIMS(3)), always(c, DIMS(3, 1)), false, false);
    default: return epilogue_case(c, variant - 15);
    }
}

static IrNode *batchnorm_case(Case *c, int variant) {
    if (variant > 2) return NULL;
    IrNode *x = variant == 0 ? row(c, DIMS(7)) : variant == 1 ? pos(c, DIMS(3)) : row(c, DIMS(2, 5));
    int64_t k = ir_type_width(x->type);
    IrNode *in[5] = {x, always(c, DIMS(k)), always(c, DIMS(k))};
    for (int i = 3; i < 5; i++) {
        int w = new_weight(c, DIMS(k));
        IrWeight *r = &c->p->weights[w];
        r->init = i == 3 ? INIT_ZEROS : INIT_ONES;
        r->running = true;
        r->trainable = false;
        in[i] = weight_value(c, w);
    }
    return ir_build(&c->b, OP_BATCHNORM, 5, in, 2, (IrAttr[]){ir_af("eps", 1e-3), ir_af("momentum", 0.99)});
}

/* ---- tables ---- */

static IrNode *table_case(Case *c, IrOp op, int variant) {
    switch (op) {
    case OP_ONEHOT: {
        if (variant == 3) { /* among the parts of a concat */
            IrNode *list = unary(c, op, list_id(c, 11)),
                   *parts[4] = {row(c, DIMS(3)), unary(c, op, row_id(c, 23))};
            parts[2] = unary(c, OP_SEGMEAN, list), parts[3] = parts[1];
            IrNode *x = concat(c, 4, parts, 0), *y = concat(c, 2, (IrNode *[]){list, parts[0]}, 0);
            x = matmul(c, x, always(c, DIMS(3 + 23 + 11 + 23, 5)), false, false);
            return binary(c, OP_ADD, x, matmul(c, y, always(c, DIMS(11 + 3, 5)), false, false));
        }
        if (variant > 3) return NULL;
        IrNode *x = unary(c, op, variant == 1 ? list_id(c, 11) : row_id(c, 23));
        if (variant == 2) return binary(c, OP_MUL, x, row(c, DIMS(23)));
        IrNode *w = always(c, DIMS(ir_type_width(x->type), 5));
        c->p->weights[c->p->n_weights - 1].lazy = true; /* all its uses are products with one-hots */
        return matmul(c, x, w, false, false);
    }
    case OP_EMBED:
        if (variant == 0) return embed(c, row_id(c, 40), table(c, 40, 5));
        if (variant == 1) return embed(c, list_id(c, 40), table(c, 40, 16));
        if (variant == 2) { /* one table, three uses */
            IrNode *t = table(c, 60, 3);
            IrNode *all = binary(c, OP_MUL, embed(c, row_id(c, 60), t), embed(c, row_id(c, 60), t));
            return binary(c, OP_ADD, all, embed(c, list_id(c, 60), t));
        }
        if (variant == 3)
            return unary(c, OP_SQUARE, embed(c, row_id(c, 30), always(c, DIMS(30, 4)))); /* no table */
        if (variant == 4) { /* some of its rows, by an id of its own and one that is moved */
            IrNode *w = always(c, DIMS(41, 4));
            IrNode *rows =
                with(c, OP_SLICE, w, 3, (IrAttr[]){ir_ai("axis", 0), ir_ai("begin", 8), ir_ai("end", 38)});
            return binary(c, OP_MUL, embed(c, row_id(c, 30), rows), embed(c, list_id(c, 41), w));
        }
        return NULL;
    case OP_EMBEDPOOL: {
        if (variant > 2) return NULL;
        IrNode *t = table(c, 50, 6), *l = list_id(c, 50);
        IrNode *v = embed_pool(c, l, t, variant == 1 ? "mean" : "sum");
        if (variant < 2) return v;
        return concat(c, 4,
                      (IrNode *[]){v, embed_pool(c, l, t, "mean"), embed(c, row_id(c, 50), t),
                                   unary(c, OP_SEGMAX, embed(c, l, t))},
                      0);
    }
    default: return NULL;
    }
}

/* ---- sources ---- */

static IrNode *source_case(Case *c, IrOp op, int variant) {
    IrAttr at[2] = {ir_ai("axis", c->list)};
    at[0].kind = 'x';
    if (op == OP_CONST && variant == 0) {
        double v[6] = {1, -2, 0.5, 3, 0, 1.25};
        at[0] = ir_afl(c->p->arena, "value", v, 6);
        at[1] = ir_ail(c->p->arena, "shape", (int64_t[]){2, 3}, 2);
        return binary(c, OP_MUL, ir_build(&c->b, op, 0, NULL, 2, at), row(c, DIMS(2, 3)));
    }
    if (variant > 0) return NULL;
    switch (op) {
    case OP_WEIGHT: return always(c, DIMS(4, 3));
    case OP_COLUMN: return read_column(c, "alone", COL_FLOAT, -1);
    case OP_INVROWS: return binary(c, OP_MUL, ir_build(&c->b, op, 0, NULL, 0, NULL), row(c, DIMS(5)));
    case OP_SEGLEN: {
        IrNode *used = unary(c, OP_SEGSUM, pos(c, DIMS(2))); /* the axis must be read by something */
        return binary(c, OP_MUL, ir_build(&c->b, op, 0, NULL, 1, at), used);
    }
    default: return NULL;
    }
}

/* ---- the program around ---- */

/* v behind x0 to x2: a part of a concat, which v's kernel may write to itself. */
static IrNode *among_others(Case *c, IrNode *v) {
    int64_t size = ir_type_size(v->type);
    return concat(c, 2, (IrNode *[]){c->x, reshape(c, v, 1, &size)}, 0);
}

/* One number a row of a value of any shape and life: each element weighs differently. */
static IrNode *to_number(Case *c, IrNode *v) {
    if (!v) return NULL;
    bool among = c->parts && c->name[strlen(c->name) - 1] % 2;
    if (among && (v->type.live == LIVE_ROW || v->type.live == LIVE_POS)) v = among_others(c, v);
    if (v->type.live == LIVE_POS) v = unary(c, OP_SEGMEAN, v);
    int64_t size = ir_type_size(v->type);
    double *pattern = ARENA_ARRAY(c->p->arena, double, size);
    for (int64_t i = 0; i < size; i++)
        pattern[i] = (double)(i % 7 + 1) / (double)(4 * size) * (i % 3 ? 1 : -1);
    IrAttr at[2] = {ir_afl(c->p->arena, "value", pattern, (int)size), ir_ail(c->p->arena, "shape", &size, 1)};
    IrNode *weighed = binary(c, OP_MUL, reshape(c, v, 1, &size), ir_build(&c->b, OP_CONST, 0, NULL, 2, at));
    IrNode *sum = with(c, OP_SUM, weighed, 2, (IrAttr[]){ir_ai("axis", 0), ir_ab("keep", true)});
    if (sum && sum->type.live < LIVE_ROW) { /* differs by row all the same */
        IrNode *x0 =
            with(c, OP_SLICE, c->x, 3, (IrAttr[]){ir_ai("axis", 0), ir_ai("begin", 0), ir_ai("end", 1)});
        sum = binary(c, OP_MUL, sum, binary(c, OP_ADD, x0, constant(c, 1)));
    }
    return sum;
}

static void root(Case *c, IrOp op, IrNode *x, const char *name) {
    IrAttr at = ir_as("name", name);
    ir_build(&c->b, op, 1, &x, 1, &at);
}

static void metrics(Case *c, IrNode *p) {
    IrNode *number = read_column(c, "group", COL_INT, -1);
    IrNode *key = unary(c, OP_KEY, number);
    IrNode *in[3] = {p, c->y, key};
    for (int by = 0; by < 2; by++)
        ir_build(&c->b, OP_METRIC, 2 + by, in, 4,
                 (IrAttr[]){ir_as("kind", by ? "gauc" : "auc"), ir_as("name", c->name), ir_ab("where", false),
                            ir_ab("by", by)});
}

/* Adds a value under the name that was set before it was made: its prediction and its loss. */
static void add(Case *c, IrNode *value) {
    IrNode *v = to_number(c, value);
    if (!v) return;
    IrNode *p = unary(c, OP_SIGMOID, v);
    root(c, OP_PREDICT, p, c->name);
    root(c, OP_LOSS, unary(c, OP_SQUARE, binary(c, OP_SUB, v, c->y)), c->name);
    if (c->n_values++ == 0) metrics(c, p);
}

static void name_value(Case *c, const char *name) {
    c->name = name;
    c->n_weights = 0;
}

static IrProgram *finish(Case *c, const IrOptimizer *opt) {
    ARENA_PUSH(c->p->arena, c->p->opts, c->p->n_opts, c->p->cap_opts, *opt);
    for (int i = 0; i < c->p->n_weights; i++)
        c->p->weights[i].optimizer = c->p->weights[i].trainable ? 0 : -1;
    ir_mark_used(c->p);
    ir_renumber(c->p);
    return c->p->diag->errors ? NULL : c->p;
}

static Case begin(Arena *a, Diag *d, const char *name) {
    IrProgram *p = ir_program_new(a, d);
    p->name = name;
    p->source = "case.ctr";
    p->input.separator = ',';
    p->batch = OP_CASE_BATCH;
    p->epochs = 1;
    p->seed = 5;
    IrFunc *f = ir_func_new(p, "model");
    Case c = {.p = p, .b = {.p = p, .body = &f->body}};
    c.y = read_column(&c, "y", COL_LABEL, -1);
    p->input.columns[0].unit_label = true;
    IrNode *x[3];
    for (int i = 0; i < 3; i++) x[i] = read_column(&c, arena_printf(a, "x%d", i), COL_FLOAT, -1);
    c.x = concat(&c, 3, x, 0);
    c.list = axis(&c, "h", 0);
    return c;
}

static IrNode *value_of(Case *c, IrOp op, int variant) {
    switch (ir_ops[op].cls) {
    case CLASS_SRC: return source_case(c, op, variant);
    case CLASS_EW: return ir_ops[op].max_in == 1 ? unary_case(c, op, variant) : binary_case(c, op, variant);
    case CLASS_MOVE: return move_case(c, op, variant);
    case CLASS_RED:
        if (op == OP_SRU) return sru_case(c, variant);
        if (op == OP_GRU || op == OP_AUGRU) return gru_case(c, op, variant);
        return reduce_case(c, op, variant);
    case CLASS_TAB: return table_case(c, op, variant);
    case CLASS_PROD: return op == OP_MATMUL ? matmul_case(c, variant) : NULL;
    case CLASS_NORM: return op == OP_BATCHNORM ? batchnorm_case(c, variant) : NULL;
    default: return NULL;
    }
}

/* Adds the variant, if there is one and it is wanted. False: there is none. */
static bool try_value(Case *c, IrOp op, int variant, const char *only) {
    Diag *d = c->p->diag;
    name_value(c, arena_printf(c->p->arena, "%s_%d", ir_ops[op].text, variant));
    bool wanted = !only || strncmp(c->name, only, strlen(only)) == 0;
    /* what exists is known by making it: what isn't wanted is made in a program of its own */
    Case other = wanted ? *c : begin(c->p->arena, d, "unwanted");
    other.name = c->name;
    other.parts = ir_ops[op].cls != CLASS_EW;
    IrNode *v = value_of(&other, op, variant);
    if (wanted) *c = other;
    if (v && wanted) add(c, v);
    return v;
}

enum { UNARY_VARIANTS = 3, BINARY_VARIANTS = 5 };

/* All elementwise ops with so many operands, in one variant. */
static void elementwise_group(Case *c, int operands, int variant, const char *only) {
    for (int op = 0; op < OP_COUNT; op++)
        if (ir_ops[op].cls == CLASS_EW && ir_ops[op].max_in == operands)
            try_value(c, (IrOp)op, variant, only);
}

/* The group-th op that has a group for itself; -1 after the last. */
static int op_of_group(int group) {
    for (int op = 0; op < OP_COUNT; op++) {
        IrClass k = ir_ops[op].cls;
        bool has = k == CLASS_SRC || k == CLASS_MOVE || k == CLASS_RED || k == CLASS_TAB || k == CLASS_PROD ||
                   k == CLASS_NORM;
        if (has && group-- == 0) return op;
    }
    return -1;
}

IrProgram *op_case_group(Arena *a, Diag *d, int group, const char *only, const char **what) {
    IrOptimizer sgd = {.kind = OPT_SGD, .lr = {.kind = SCHED_CONST, .lr = 0.1}};
    Case c = begin(a, d, "ops");
    int op = op_of_group(group - UNARY_VARIANTS - BINARY_VARIANTS);
    if (group < UNARY_VARIANTS) {
        *what = arena_printf(a, "ops of one operand, variant %d", group);
        elementwise_group(&c, 1, group, only);
    } else if (group < UNARY_VARIANTS + BINARY_VARIANTS) {
        *what = arena_printf(a, "ops of two operands, variant %d", group - UNARY_VARIANTS);
        elementwise_group(&c, 2, group - UNARY_VARIANTS, only);
    } else if (op >= 0) {
        *what = ir_ops[op].text;
        for (int variant = 0; try_value(&c, (IrOp)op, variant, only);) variant++;
    } else
        return NULL;
    return finish(&c, &sgd);
}

/* ---- optimizers ---- */

static const struct {
    const char *what;
    IrOptimizer o;
} optimizers[] = {
    {"sgd, l2", {.kind = OPT_SGD, .l2 = 0.1}},
    {"sgd, clip_norm", {.kind = OPT_SGD, .clip_norm = 0.05}},
    {"sgd, l2, clip_norm", {.kind = OPT_SGD, .l2 = 0.1, .clip_norm = 0.05}},
    {"momentum", {.kind = OPT_MOMENTUM, .momentum = 0.9}},
    {"adagrad", {.kind = OPT_ADAGRAD, .init = 0.1}},
    {"adagrad_decay", {.kind = OPT_ADAGRAD_DECAY, .init = 0.001, .every = 2, .rate = 0.5}},
    {"rmsprop", {.kind = OPT_RMSPROP, .rho = 0.9, .eps = 1e-10}},
    {"adam", {.kind = OPT_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-2}},
    {"adam, exact", {.kind = OPT_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-2, .exact = true}},
    {"adam, exact, l2",
     {.kind = OPT_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-2, .exact = true, .l2 = 0.1}},
    {"adam, clip_norm", {.kind = OPT_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-2, .clip_norm = 0.05}},
    {"adam_async", {.kind = OPT_ADAM_ASYNC, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-2}},
    {"ftrl", {.kind = OPT_FTRL, .init = 0.1, .l1_ftrl = 0.002, .l2_ftrl = 0.1}},
};
static const struct {
    const char *what;
    IrSched s;
} schedules[] = {
    {"exponential", {.kind = SCHED_EXPONENTIAL, .lr = 0.1, .rate = 0.5, .every = 2}},
    {"cosine", {.kind = SCHED_COSINE, .lr = 0.1, .steps = 4, .end = 0.01}},
    {"piecewise",
     {.kind = SCHED_PIECEWISE, .at = (double[]){1, 3}, .values = (double[]){0.1, 0.05, 0.2}, .n = 2}},
    {"warmup", {.kind = SCHED_WARMUP, .steps = 3, .then = &(IrSched){.kind = SCHED_CONST, .lr = 0.1}}},
};

/* A dense weight, a table that is looked up by row and pooled along a list, one that is large, a lazy weight.
 */
static IrNode *trained_things(Case *c) {
    IrNode *t = table(c, 90, 4), *large = table(c, 1100000, 2);
    IrNode *onehot = unary(c, OP_ONEHOT, row_id(c, 30)), *lazy = always(c, DIMS(30, 3));
    c->p->weights[c->p->n_weights - 1].lazy = true;
    return concat(c, 5,
                  (IrNode *[]){row(c, DIMS(6)), embed(c, row_id(c, 90), t),
                               embed_pool(c, list_id(c, 90), t, "mean"), embed(c, row_id(c, 1100000), large),
                               matmul(c, onehot, lazy, false, false)},
                  0);
}

IrProgram *op_case_optimizer(Arena *a, Diag *d, int variant, const char **what) {
    enum { N_OPT = sizeof optimizers / sizeof *optimizers, N_SCHED = sizeof schedules / sizeof *schedules };
    if (variant >= N_OPT + N_SCHED) return NULL;
    IrOptimizer o = {.kind = OPT_SGD};
    if (variant < N_OPT) {
        o = optimizers[variant].o;
        o.lr = (IrSched){.kind = SCHED_CONST, .lr = 0.1};
        *what = optimizers[variant].what;
    } else {
        o.lr = schedules[variant - N_OPT].s;
        *what = schedules[variant - N_OPT].what;
    }
    Case c = begin(a, d, "optimizer");
    name_value(&c, "trained");
    add(&c, unary(&c, OP_TANH, trained_things(&c)));
    return finish(&c, &o);
}
