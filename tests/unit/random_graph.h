/* random_program: a graph of a given number, of ops as models have them and in ways in which they don't, with
 * three random optimizers, two predictions and up to four losses. */
#ifndef CTRC_TESTS_RANDOM_GRAPH_H
#define CTRC_TESTS_RANDOM_GRAPH_H
#include "tests/unit/pass_fixture.h"

static double factor(int i) { return 0.3 - 0.07 * (i % 7); }

typedef struct {
    IrProgram *p;
    IrBuilder b;
    uint64_t state;
    IrNode *pool[200];
    int n;
} Gen;

static uint64_t below(Gen *g, uint64_t n) {
    g->state ^= g->state << 13;
    g->state ^= g->state >> 7;
    g->state ^= g->state << 17;
    return (g->state >> 11) % n;
}

static void keep(Gen *g, IrNode *n) {
    assert_non_null(n);
    if (g->n < (int)(sizeof g->pool / sizeof *g->pool) && ir_type_size(n->type) <= 64) g->pool[g->n++] = n;
}

static IrNode *any(Gen *g) { return g->pool[below(g, (uint64_t)g->n)]; }

/* One of the last few, to get depth; else any. */
static IrNode *recent(Gen *g) {
    return below(g, 3) && g->n > 5 ? g->pool[g->n - 1 - (int)below(g, 5)] : any(g);
}

static IrNode *of_rank1(Gen *g) {
    IrNode *x = recent(g);
    return fx_reshape(&g->b, x, 1, (int64_t[]){ir_type_size(x->type)});
}

static int weight(Gen *g, int rank, const int64_t *dim) {
    fx_weight(g->p, arena_printf(g->p->arena, "w%d", g->p->n_weights), (int)below(g, (uint64_t)g->p->n_opts),
              rank, dim);
    return g->p->n_weights - 1;
}

static IrNode *vector_weight(Gen *g, int64_t n) { return fx_weight_node(&g->b, weight(g, 1, &n)); }

static void random_optimizers(Gen *g) {
    for (int i = 0; i < 3; i++) {
        IrOptimizer o = {.kind = (IrOptKind)below(g, OPT_FTRL + 1), .lr = {.kind = SCHED_CONST, .lr = 0.05}};
        o.momentum = 0.9, o.init = 0.1, o.rate = 0.9, o.every = 2, o.rho = 0.9;
        o.beta1 = 0.9, o.beta2 = 0.99, o.eps = 1e-2; /* so that rounding isn't blown up to a step of lr */
        o.l1_ftrl = 0.01, o.l2_ftrl = 0.1;
        if (below(g, 3) == 0) o.l2 = 0.05;
        if (below(g, 3) == 0) o.clip_norm = 0.02;
        o.exact = o.kind == OPT_ADAM && below(g, 2);
        fx_optimizer(g->p, o);
    }
}

static IrNode *unary(Gen *g, IrNode *x) {
    static const IrOp ops[] = {OP_NEG,      OP_ABS, OP_RELU,     OP_SIGMOID, OP_TANH,
                               OP_SOFTPLUS, OP_ERF, OP_STOPGRAD, OP_TANH};
    IrAttr slope = ir_af("slope", 0.1), clip[2] = {ir_af("lo", -0.3), ir_af("hi", 0.8)};
    IrAttr drop[2] = {ir_af("rate", below(g, 3) ? 0.3 : 0), ir_ai("key", (int64_t)below(g, 3))};
    switch (below(g, 12)) {
    case 0: return ir_build(&g->b, OP_LEAKYRELU, 1, &x, 1, &slope);
    case 1: return ir_build(&g->b, OP_CLIP, 1, &x, 2, clip);
    case 2: return ir_build(&g->b, OP_DROPOUT, 1, &x, 2, drop);
    default: return ir_build1(&g->b, ops[below(g, sizeof ops / sizeof *ops)], x);
    }
}

static IrNode *binary(Gen *g) {
    static const IrOp ops[] = {OP_ADD, OP_SUB, OP_MUL, OP_MAX2, OP_MIN2, OP_LT, OP_GE, OP_ADD, OP_MUL};
    static const double numbers[] = {0, 1, -1, -0.0, 0.5};
    IrNode *x = recent(g), *y = any(g);
    IrOp op = ops[below(g, sizeof ops / sizeof *ops)];
    if (below(g, 3) == 0)
        y = ir_const(&g->b, numbers[below(g, 5)]);
    else if (!(x->type.rank == y->type.rank && !memcmp(x->type.dim, y->type.dim, sizeof x->type.dim)))
        y = ir_build1(&g->b, OP_NEG, x);
    if (below(g, 6) == 0)
        return ir_build2(&g->b, OP_DIV, x,
                         ir_build2(&g->b, OP_ADD, ir_build1(&g->b, OP_SQUARE, y), ir_const(&g->b, 1)));
    return below(g, 2) ? ir_build2(&g->b, op, x, y) : ir_build2(&g->b, op, y, x);
}

static IrNode *move(Gen *g) {
    IrBuilder *b = &g->b;
    Arena *a = g->p->arena;
    IrNode *x = of_rank1(g), *y = of_rank1(g);
    int64_t n = ir_type_size(x->type), at = (int64_t)below(g, (uint64_t)n);
    IrAttr axis = ir_ai("axis", 0);
    switch (below(g, 10)) {
    case 8: { /* stacked, multiplied with itself turned, or both turned */
        IrNode *rows[2] = {fx_reshape(b, x, 2, (int64_t[]){1, n}),
                           fx_reshape(b, unary(g, x), 2, (int64_t[]){1, n})};
        IrNode *stack = ir_build(b, OP_CONCAT, 2, rows, 1, &axis);
        IrAttr order = ir_ail(a, "order", (int64_t[]){1, 0}, 2),
               t[2] = {ir_ab("ta", false), ir_ab("tb", false)};
        IrNode *turned = ir_build(b, OP_TRANSPOSE, 1, &stack, 1, &order);
        if (n > 8 || below(g, 2)) return ir_build(b, OP_MATMUL, 2, (IrNode *[]){stack, turned}, 2, t);
        IrNode *tall = fx_reshape(b, stack, 2, (int64_t[]){n, 2});
        IrNode *wide = ir_build(b, OP_TRANSPOSE, 1, &tall, 1, &order);
        return ir_build(b, OP_MATMUL, 2, (IrNode *[]){turned, wide}, 2, t);
    }
    case 9: { /* cut in two, each part on its own way */
        if (n < 2) return unary(g, x);
        IrNode *m = fx_reshape(b, x, 2, (int64_t[]){n, 1}), *part[2];
        int64_t at2 = 1 + at % (n - 1), cut[3] = {0, at2, n};
        for (int i = 0; i < 2; i++) {
            part[i] = ir_build(b, OP_SLICE, 1, &m, 3,
                               (IrAttr[]){axis, ir_ai("begin", cut[i]), ir_ai("end", cut[i + 1])});
            part[i] = ir_build1(b, i ? OP_SIGMOID : OP_TANH,
                                fx_reshape(b, part[i], 1, (int64_t[]){cut[i + 1] - cut[i]}));
        }
        return ir_build(b, OP_CONCAT, 2, (IrNode *[]){part[1], part[0]}, 1, &axis);
    }
    case 0: return ir_build(b, OP_CONCAT, 3, (IrNode *[]){x, y, x}, 1, &axis);
    case 1:
        return ir_build(b, OP_SLICE, 1, &x, 3,
                        (IrAttr[]){axis, ir_ai("begin", at),
                                   ir_ai("end", at + 1 + (int64_t)below(g, (uint64_t)(n - at)))});
    case 2:
        return ir_build(
            b, OP_PAD, 1, &x, 3,
            (IrAttr[]){axis, ir_ai("before", (int64_t)below(g, 2)), ir_ai("after", (int64_t)below(g, 2))});
    case 3:
        return ir_build(b, OP_GATHER, 1, &x, 2,
                        (IrAttr[]){axis, ir_ail(a, "indices", (int64_t[]){at, 0, at}, 3)});
    case 4:
        return ir_build(
            b, OP_SCATTERADD, 1, &x, 3,
            (IrAttr[]){axis, ir_ail(a, "indices", ARENA_ARRAY(a, int64_t, n), (int)n), ir_ai("size", 2)});
    case 5: {
        /* one of its parts back; the other counts too, since what nothing depends on any more isn't decayed
         * by l2 */
        IrNode *both = ir_build(b, OP_CONCAT, 2, (IrNode *[]){x, y}, 1, &axis);
        IrNode *part = ir_build(b, OP_SLICE, 1, &both, 3,
                                (IrAttr[]){axis, ir_ai("begin", n), ir_ai("end", n + ir_type_size(y->type))});
        return ir_build2(b, OP_ADD, part,
                         ir_build(b, OP_SUM, 1, &x, 2, (IrAttr[]){axis, ir_ab("keep", true)}));
    }
    case 6: return fx_reshape(b, fx_reshape(b, x, 2, (int64_t[]){n, 1}), 2, (int64_t[]){1, n});
    default: {
        IrNode *m = fx_reshape(b, x, 2, n % 2 ? (int64_t[]){n, 1} : (int64_t[]){n / 2, 2});
        IrAttr order = ir_ail(a, "order", (int64_t[]){1, 0}, 2);
        m = ir_build(b, OP_TRANSPOSE, 1, &m, 1, &order);
        return below(g, 2) ? ir_build(b, OP_TRANSPOSE, 1, &m, 1, &order) : m;
    }
    }
}

static IrNode *reduction(Gen *g) {
    static const IrOp along[] = {OP_SEGSUM, OP_SEGMEAN, OP_SEGMAX};
    IrNode *x = recent(g);
    IrAttr a[2] = {ir_ai("axis", (int64_t)below(g, (uint64_t)x->type.rank)), ir_ab("keep", below(g, 2))};
    if (x->type.live == LIVE_POS && below(g, 2)) return ir_build1(&g->b, along[below(g, 3)], x);
    if (x->type.live >= LIVE_ROW && below(g, 6) == 0) return ir_build1(&g->b, OP_MEANROWS, x);
    switch (below(g, 3)) {
    case 0: return ir_build(&g->b, OP_SUM, 1, &x, 2, a);
    case 1: return ir_build(&g->b, OP_MAXR, 1, &x, 2, a);
    default: return ir_build(&g->b, OP_SOFTMAX, 1, &x, 1, a);
    }
}

static IrNode *dense(Gen *g, IrNode *x) {
    int64_t out = 1 + (int64_t)below(g, 4), dim[2] = {ir_type_width(x->type), out};
    bool turned = below(g, 4) == 0;
    IrAttr t[2] = {ir_ab("ta", false), ir_ab("tb", turned)};
    IrNode *w = fx_weight_node(&g->b, weight(g, 2, turned ? (int64_t[]){dim[1], dim[0]} : dim));
    IrNode *y = ir_build(&g->b, OP_MATMUL, 2, (IrNode *[]){x, w}, 2, t);
    if (below(g, 3)) y = ir_build2(&g->b, OP_ADD, y, vector_weight(g, out));
    return below(g, 2) ? unary(g, y) : y;
}

static IrNode *batchnorm(Gen *g, IrNode *x) {
    int64_t k = ir_type_width(x->type);
    IrNode *in[5] = {x, vector_weight(g, k), vector_weight(g, k)};
    for (int i = 3; i < 5; i++) {
        int w = weight(g, 1, &k);
        g->p->weights[w].running = true;
        g->p->weights[w].trainable = false;
        g->p->weights[w].optimizer = -1;
        in[i] = fx_weight_node(&g->b, w);
    }
    IrAttr a[2] = {ir_af("eps", 0.1), ir_af("momentum", 0.9)};
    return ir_build(&g->b, OP_BATCHNORM, 5, in, 2, a);
}

/* A number a row: one of the file, or a one-hot of one value. */
static IrNode *number(Gen *g) {
    return below(g, 3) ? fx_column(&g->b, COL_X) : ir_build1(&g->b, OP_ONEHOT, fx_hash(&g->b, COL_S, 1));
}

/* A lookup in a new table or the first one, of one text or a list, in one of the ways a model may say it. */
static IrNode *lookup(Gen *g) {
    IrBuilder *b = &g->b;
    bool list = below(g, 2), hot = below(g, 3) == 0;
    int64_t dim[2] = {6, 3};
    int t = 0;
    if (hot || below(g, 2)) {
        t = weight(g, 2, dim);
        g->p->weights[t].lazy = true;
        g->p->weights[t].table = !hot;
    }
    IrNode *rows = fx_weight_node(b, t), *id = fx_hash(b, list ? COL_LS : COL_S, 6);
    if (!hot) {
        IrNode *x = ir_build2(b, OP_EMBED, id, rows);
        return list && below(g, 2) ? ir_build1(b, below(g, 2) ? OP_SEGMEAN : OP_SEGSUM, x) : x;
    }
    IrAttr plain[2] = {ir_ab("ta", false), ir_ab("tb", false)};
    IrNode *one = ir_build1(b, OP_ONEHOT, id);
    if (list && below(g, 2)) one = ir_build1(b, below(g, 2) ? OP_SEGMEAN : OP_SEGSUM, one);
    if (below(g, 3) == 0) one = ir_build2(b, OP_ADD, one, ir_build1(b, OP_ONEHOT, fx_hash(b, COL_S, 6)));
    if (below(g, 3) == 0) one = ir_build2(b, OP_MUL, number(g), one);
    return ir_build(b, OP_MATMUL, 2, (IrNode *[]){one, rows}, 2, plain);
}

/* Parts of a concat as attention has them: q of a row, or always, k of a list, and what both make. */
static IrNode *part_of(Gen *g, IrNode *q, IrNode *k) {
    IrBuilder *b = &g->b;
    IrNode *pair[2] = {below(g, 2) ? q : k, below(g, 2) ? q : k};
    IrAttr axis = ir_ai("axis", 0);
    switch (below(g, 9)) {
    case 0: return q;
    case 1: return k;
    case 2: return ir_build2(b, OP_MUL, q, k);
    case 3: return ir_build2(b, OP_ADD, pair[0], pair[1]);
    case 4: return ir_build1(b, OP_NEG, pair[0]);
    case 5: return ir_build(b, OP_CONCAT, 2, pair, 1, &axis);
    case 6: {
        IrAttr a[2] = {ir_ail(g->p->arena, "shape", q->type.dim, 1), ir_ai("axis", AXIS_H)};
        return q->type.live == LIVE_ROW ? ir_build(b, OP_BROADCAST, 1, &q, 2, a) : q;
    }
    default: return ir_build2(b, OP_SUB, pair[0], pair[1]);
    }
}

/* concat(q, k, q - k, q * k, …) @ W: what split-concat looks for. */
static IrNode *dense_of_concat(Gen *g) {
    IrBuilder *b = &g->b;
    IrNode *rows = fx_weight_node(b, 0), *part[5];
    IrNode *k = ir_build2(b, OP_EMBED, fx_hash(b, COL_LS, 6), rows);
    IrNode *q = below(g, 4) ? ir_build2(b, OP_EMBED, fx_hash(b, COL_S, 6), rows) : vector_weight(g, 3);
    if (below(g, 2)) q = unary(g, q);
    if (below(g, 2)) k = unary(g, k);
    int n = 2 + (int)below(g, 4);
    for (int i = 0; i < n; i++) part[i] = part_of(g, q, k);
    IrAttr axis = ir_ai("axis", 0);
    IrNode *x = ir_build(b, OP_CONCAT, n, part, 1, &axis);
    int64_t width = ir_type_width(x->type), out = 4 + (int64_t)below(g, 8);
    bool turned = below(g, 4) == 0;
    IrAttr t[2] = {ir_ab("ta", false), ir_ab("tb", turned)};
    int w = weight(g, 2, turned ? (int64_t[]){out, width} : (int64_t[]){width, out});
    IrNode *y = ir_build(b, OP_MATMUL, 2, (IrNode *[]){x, fx_weight_node(b, w)}, 2, t);
    if (below(g, 3)) y = ir_build2(b, OP_ADD, y, vector_weight(g, out));
    return below(g, 2) ? unary(g, y) : y;
}

/* What is linear in one-hots of 6, of a row or a list. */
static IrNode *onehots(Gen *g) {
    IrBuilder *b = &g->b;
    bool list = below(g, 2);
    IrNode *x = ir_build1(b, OP_ONEHOT, fx_hash(b, list ? COL_LS : COL_S, 6));
    if (list && below(g, 2)) x = ir_build1(b, below(g, 2) ? OP_SEGSUM : OP_SEGMEAN, x);
    if (below(g, 4) == 0) x = ir_build2(b, OP_SUB, x, ir_build1(b, OP_ONEHOT, fx_hash(b, COL_S, 6)));
    if (below(g, 4) == 0) x = ir_build2(b, OP_MUL, x, number(g));
    return below(g, 5) ? x : ir_build1(b, OP_NEG, x);
}

/* A concat of rank 1, pooled, scaled or cut. */
static IrNode *of_concat(Gen *g, IrNode *x) {
    int64_t n = ir_type_width(x->type), from = (int64_t)below(g, (uint64_t)n);
    switch (below(g, 4)) {
    case 0: return ir_build2(&g->b, OP_MUL, x, number(g));
    case 1: return ir_build2(&g->b, OP_MUL, ir_const(&g->b, 0.5), x);
    case 2: {
        IrAttr cut[3] = {ir_ai("axis", 0), ir_ai("begin", from),
                         ir_ai("end", from + 1 + (int64_t)below(g, (uint64_t)(n - from)))};
        return ir_build(&g->b, OP_SLICE, 1, &x, 3, cut);
    }
    default:
        return x->type.live == LIVE_POS ? ir_build1(&g->b, below(g, 2) ? OP_SEGMEAN : OP_SEGSUM, x) : x;
    }
}

/* concat(x, onehot, …) @ W, some of it summed, inside another concat, used twice, or not linear. */
static IrNode *dense_of_onehots(Gen *g) {
    IrBuilder *b = &g->b;
    IrNode *part[5];
    IrAttr axis = ir_ai("axis", 0);
    int n = 2 + (int)below(g, 4);
    for (int i = 0; i < n; i++) {
        part[i] = below(g, 2) ? onehots(g) : of_rank1(g);
        if (i > 0 && (below(g, 8) == 0 || ir_type_size(part[i]->type) > 16)) part[i] = part[i - 1];
        if (below(g, 8) == 0) part[i] = unary(g, part[i]);
    }
    IrNode *x = ir_build(b, OP_CONCAT, n, part, 1, &axis);
    if (below(g, 3) == 0) x = ir_build(b, OP_CONCAT, 2, (IrNode *[]){x, onehots(g)}, 1, &axis);
    IrNode *whole = x;
    if (below(g, 3) == 0) x = of_concat(g, x);
    bool cut = x->op == OP_SLICE;
    if (below(g, 4) == 0)
        x = ir_build2(b, below(g, 2) ? OP_ADD : OP_SUB, x, vector_weight(g, ir_type_size(x->type)));
    IrNode *y = dense(g, x);
    if (below(g, 4) == 0) y = ir_build2(b, OP_MUL, y, fx_scalar(b, dense(g, x), factor));
    /* what was cut away counts too: see move */
    return cut ? ir_build2(b, OP_ADD, y, fx_scalar(b, whole, factor)) : y;
}

/* A lookup in some rows of a weight that is used whole as well. */
static IrNode *lookup_in_rows(Gen *g) {
    IrBuilder *b = &g->b;
    int64_t first = (int64_t)below(g, 3), dim[2] = {9, 3};
    IrNode *w = fx_weight_node(b, weight(g, 2, dim));
    IrAttr cut[3] = {ir_ai("axis", 0), ir_ai("begin", first), ir_ai("end", first + 6)};
    IrNode *rows = ir_build(b, OP_SLICE, 1, &w, 3, cut);
    IrNode *x = ir_build2(b, OP_EMBED, fx_hash(b, below(g, 2) ? COL_LS : COL_S, 6), rows);
    return below(g, 2) ? x : ir_build2(b, OP_ADD, x, fx_scalar(b, w, factor));
}

/* A recurrent layer over x along the list, or over a row's value repeated along it. */
static IrNode *recurrent(Gen *g, IrNode *x) {
    IrBuilder *b = &g->b;
    int64_t u = 1 + (int64_t)below(g, 3), in = ir_type_size(x->type);
    IrAttr to[2] = {ir_ail(g->p->arena, "shape", &in, 1), ir_ai("axis", AXIS_H)},
           plain[2] = {ir_ab("ta", false), ir_ab("tb", false)};
    x = fx_reshape(b, x, 1, &in);
    if (x->type.live != LIVE_POS) x = ir_build(b, OP_BROADCAST, 1, &x, 2, to);
    IrNode *kernel = fx_weight_node(b, weight(g, 2, (int64_t[]){in, 3 * u}));
    IrNode *p = ir_build(b, OP_MATMUL, 2, (IrNode *[]){x, kernel}, 2, plain);
    IrAttr state[3] = {ir_ai("axis", 0), ir_ai("begin", 0), ir_ai("end", u)};
    IrNode *first = ir_build(b, OP_SLICE, 1, &p, 3, state);
    int kind = (int)below(g, 4); /* sru, augru, gru, gru */
    if (kind == 0) return ir_build2(b, OP_SRU, ir_build1(b, OP_SIGMOID, first), first);
    IrNode *ops[4] = {p, fx_weight_node(b, weight(g, 2, (int64_t[]){u, 2 * u})),
                      fx_weight_node(b, weight(g, 2, (int64_t[]){u, u}))};
    ops[3] = ir_build1(b, OP_SEGSOFTMAX, fx_column(b, COL_V));
    IrNode *record = ir_build(b, kind == 1 ? OP_AUGRU : OP_GRU, kind == 1 ? 4 : 3, ops, 0, NULL);
    return ir_build(b, OP_SLICE, 1, &record, 3, state);
}

/* A reduction of what is computed for it alone; along a list often weighed by a softmax. */
static IrNode *weighed_sum(Gen *g) {
    IrBuilder *b = &g->b;
    static const IrOp along[] = {OP_SEGSUM, OP_SEGMEAN, OP_SEGMAX, OP_SEGSUM};
    IrNode *x = recent(g), *v = fx_column(b, COL_V);
    if (below(g, 2)) x = unary(g, x);
    if (below(g, 2)) x = ir_build2(b, OP_MUL, x, v);
    if (below(g, 3)) v = ir_build1(b, OP_SEGSOFTMAX, v);
    bool list = x->type.live == LIVE_POS || below(g, 2);
    if (list) return ir_build1(b, along[below(g, 4)], ir_build2(b, OP_MUL, below(g, 2) ? x : unary(g, x), v));
    x = ir_build2(b, OP_MUL, x, below(g, 2) ? x : unary(g, x));
    if (x->type.live >= LIVE_ROW && below(g, 3) == 0) return ir_build1(b, OP_SUMROWS, x);
    IrAttr a[2] = {ir_ai("axis", (int64_t)below(g, (uint64_t)x->type.rank)), ir_ab("keep", below(g, 2))};
    return ir_build(b, below(g, 3) ? OP_SUM : OP_MAXR, 1, &x, 2, a);
}

static IrNode *step(Gen *g) {
    IrNode *x = recent(g);
    bool rows = x->type.live >= LIVE_ROW;
    switch (below(g, 23)) {
    case 20:
    case 21: return weighed_sum(g);
    case 14:
    case 15: return dense_of_concat(g);
    case 16:
    case 17: return dense_of_onehots(g);
    case 18: return lookup_in_rows(g);
    case 19: return recurrent(g, x);
    case 0:
    case 1:
    case 2: return unary(g, x);
    case 3:
    case 4:
    case 5: return binary(g);
    case 6:
    case 7: return move(g);
    case 8: return reduction(g);
    case 9: return dense(g, of_rank1(g));
    case 10: return lookup(g);
    case 11: return rows ? batchnorm(g, x) : unary(g, x);
    case 12: { /* the same once more */
        IrNode *n = ir_clone_node(g->p, x);
        ARENA_PUSH(g->p->arena, g->b.body->nodes, g->b.body->n, g->b.body->cap, n);
        return n;
    }
    case 13: return recurrent(g, x);
    default: {
        IrAttr a[2] = {ir_ail(g->p->arena, "shape", x->type.dim, x->type.rank), ir_ai("axis", AXIS_H)};
        return x->type.live == LIVE_ROW ? ir_build(&g->b, OP_BROADCAST, 1, &x, 2, a) : unary(g, x);
    }
    }
}

/* f32[1] a row of any value. */
static IrNode *score(Gen *g, IrNode *x) {
    x = ir_build1(&g->b, OP_TANH, x);
    if (x->type.live == LIVE_POS) x = ir_build1(&g->b, OP_SEGSUM, x);
    x = fx_scalar(&g->b, x, factor);
    return x->type.live == LIVE_ROW ? x : ir_build2(&g->b, OP_ADD, x, fx_column(&g->b, COL_X));
}

/* ---- the whole ---- */

static IrProgram *random_program(Arena *a, Diag *d, uint64_t seed) {
    Gen g = {.p = fx_program(a, d), .state = seed * 0x9e3779b97f4a7c15u + 12345};
    for (int i = 0; i < 10; i++) below(&g, 2);
    g.b = (IrBuilder){.p = g.p, .body = &g.p->funcs[0]->body};
    random_optimizers(&g);
    weight(&g, 2, (int64_t[]){6, 3});
    g.p->weights[0].table = g.p->weights[0].lazy = true;
    IrAttr axis = ir_ai("axis", AXIS_H);
    keep(&g, fx_column(&g.b, COL_X));
    keep(&g, fx_column(&g.b, COL_V));
    keep(&g, ir_build(&g.b, OP_SEGLEN, 0, NULL, 1, &axis));
    keep(&g, vector_weight(&g, 3));
    keep(&g, lookup(&g));
    keep(&g, lookup(&g));
    int steps = 5 + (int)below(&g, 25);
    for (int i = 0; i < steps; i++) keep(&g, step(&g));
    IrNode *z = score(&g, recent(&g)), *other = score(&g, any(&g)), *y = fx_column(&g.b, COL_Y);
    IrNode *p = ir_build1(&g.b, OP_SIGMOID, z);
    fx_root(&g.b, OP_PREDICT, p, "p");
    fx_root(&g.b, OP_PREDICT, other, "q");
    IrAttr m[4] = {ir_as("kind", "auc"), ir_as("name", "p"), ir_ab("where", false), ir_ab("by", false)};
    ir_build(&g.b, OP_METRIC, 2, (IrNode *[]){p, y}, 4, m);
    fx_root(&g.b, OP_LOSS, ir_build2(&g.b, OP_BCELOGITS, z, y), "bce");
    if (below(&g, 2))
        fx_root(&g.b, OP_LOSS, ir_build1(&g.b, OP_SQUARE, ir_build2(&g.b, OP_SUB, other, y)), "mse");
    if (below(&g, 3) == 0)
        fx_root(&g.b, OP_LOSS, ir_build1(&g.b, OP_MEANROWS, ir_build1(&g.b, OP_SQUARE, other)), "step");
    if (below(&g, 3) == 0)
        fx_root(&g.b, OP_LOSS, fx_scalar(&g.b, ir_build1(&g.b, OP_SQUARE, vector_weight(&g, 2)), factor),
                "always");
    ir_renumber(g.p);
    return g.p;
}

#endif
