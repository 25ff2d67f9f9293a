/* Values around single ops: operands of all kinds of shapes and lives. */
#include "tests/tools/op_build.h"

/* ---- elementwise ---- */

/* Rounded is only what both know to the last bit, numbers of the log and a weight that isn't trained: else
 * what differs by fp32's rounding can come to lie on two sides of a border. */
static IrNode *bf16_case(OpCase *c, int variant) {
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

static IrNode *unary_case(OpCase *c, IrOp op, int variant) {
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

static IrNode *binary_case(OpCase *c, IrOp op, int variant) {
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

/* Lists of at most 50 from here on. */
static void short_lists(OpCase *c) {
    c->list = axis(c, arena_printf(c->p->arena, "short%d", c->p->n_axes), 50);
}

/* append(x, row), lists appended to alike sharing the axis. */
static IrNode *append(OpCase *c, IrNode *x, IrNode *row) {
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

static IrNode *append_case(OpCase *c, int variant) {
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

static IrNode *move_case(OpCase *c, IrOp op, int variant) {
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
static IrNode *attend_case(OpCase *c, int variant) {
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
static IrNode *reduced_case(OpCase *c, IrOp op, int variant) {
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
static IrNode *summed_case(OpCase *c, IrOp op, int variant) {
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
static IrNode *attention_case(OpCase *c, int variant) {
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

static IrNode *reduce_case(OpCase *c, IrOp op, int variant) {
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

static IrNode *part(OpCase *c, IrNode *x, int64_t ax, int64_t begin, int64_t end) {
    return with(c, OP_SLICE, x, 3, (IrAttr[]){ir_ai("axis", ax), ir_ai("begin", begin), ir_ai("end", end)});
}

/* A recurrent weight, small enough for many units not to saturate; own: it is a weight, else rows of one, as
 * in the layer library. */
static IrNode *state_weight(OpCase *c, int64_t units, int64_t columns, bool own) {
    if (own) return always(c, DIMS(units, columns));
    IrNode *whole = binary(c, OP_MUL, always(c, DIMS(units + 3, columns)), constant(c, 0.2));
    return part(c, whole, 0, 3, units + 3);
}

/* variant 3: one after another; 4: from a value that is the same for all positions of a row. */
static IrNode *gru_case(OpCase *c, IrOp op, int variant) {
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

static IrNode *sru_case(OpCase *c, int variant) {
    static const int64_t sizes[] = {7, 1, 36, 16};
    if (variant > 3) return NULL;
    int64_t u = sizes[variant];
    IrNode *state = binary(c, OP_SRU, unary(c, OP_SIGMOID, pos(c, DIMS(u))), pos(c, DIMS(u)));
    return variant ? state : unary(c, OP_TANH, state);
}

/* ---- products and normalisation ---- */

/* Products with something done to their result, which fuse makes one kernel with them. */
static IrNode *epilogue_case(OpCase *c, int variant) {
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

/* Of numbers that both know to the last bit, as in bf16_case. */
static IrNode *rounded_product(OpCase *c, int variant) {
    IrNode *parts[11];
    for (int i = 0; i < 11; i++) parts[i] = c->x;
    IrNode *x = variant == 0   ? concat(c, 11, parts, 0)
                : variant == 1 ? numbers_of_list(c)
                               : always(c, DIMS(5, 8));
    bool swapped = variant == 0;
    int64_t k = ir_type_width(x->type), n = variant == 0 ? 37 : 18;
    if (variant == 2) c->p->weights[c->p->n_weights - 1].trainable = false;
    IrNode *y = swapped ? always(c, DIMS(n, k)) : always(c, DIMS(k, n));
    c->p->weights[c->p->n_weights - 1].trainable = false;
    IrAttr how[] = {ir_ab("ta", false), ir_ab("tb", swapped), ir_ab("bf16", true)};
    IrNode *v = ir_build(&c->b, OP_MATMUL, 2, (IrNode *[]){x, y}, 3, how);
    IrNode *by = variant == 0 ? row(c, DIMS(n)) : variant == 1 ? pos(c, DIMS(n)) : always(c, DIMS(n));
    return binary(c, OP_MUL, v, by);
}

static IrNode *matmul_case(OpCase *c, int variant) {
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
    case 15:
    case 16:
    case 17: return rounded_product(c, variant - 15);
    default: return epilogue_case(c, variant - 18);
    }
}

static IrNode *batchnorm_case(OpCase *c, int variant) {
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

static IrNode *table_case(OpCase *c, IrOp op, int variant) {
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

static IrNode *source_case(OpCase *c, IrOp op, int variant) {
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

/* ---- all of them ---- */

IrNode *op_value(OpCase *c, IrOp op, int variant) {
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
