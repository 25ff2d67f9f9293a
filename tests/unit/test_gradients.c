/* Gradients by central differences, in double precision, for every op that has one.
 *
 * A case builds a value from trained weights; its elements are summed with different factors into a loss. The
 * derivative that `differentiate` gives is read off an sgd step of rate 1, and compared with differences of
 * the loss of func `model` along random directions and at single elements. Batches: several rows with empty
 * and longer lists, one row with one position, rows without any position but one. Each case runs with a
 * gradient that is the same for every row (it stays coarse) and one that differs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/unit/pass_fixture.h"

/* ---- making cases ---- */

typedef struct {
    int rank;
    int64_t dim[3];
} Shape;
#define S1(a) ((Shape){1, {a}})
#define S2(a, b) ((Shape){2, {a, b}})
#define S3(a, b, c) ((Shape){3, {a, b, c}})

typedef struct {
    IrProgram *p;
    IrBuilder b;
    int opt;
} Maker;

typedef struct {
    IrOp op;
    IrLive la, lb;
    Shape sa, sb;
    bool ta, tb;
    int variant;
    bool all; /* also with lists of 50; and every weight must have a gradient in one of the batches */
} Spec;
typedef IrNode *(*Make)(Maker *m, const Spec *s);

static int64_t elements(Shape s) {
    int64_t n = 1;
    for (int i = 0; i < s.rank; i++) n *= s.dim[i];
    return n;
}

static int new_weight(Maker *m, Shape s, bool lazy) {
    const char *name = arena_printf(m->p->arena, "w%d", m->p->n_weights);
    fx_weight(m->p, name, m->opt, s.rank, s.dim)->lazy = lazy;
    return m->p->n_weights - 1;
}

static IrNode *new_weight_node(Maker *m, Shape s) { return fx_weight_node(&m->b, new_weight(m, s, false)); }

static IrNode *table(Maker *m, int64_t rows, int64_t width) {
    return fx_weight_node(&m->b, new_weight(m, S2(rows, width), true));
}

/* A value that lives as asked, each of its elements in each row or position a weight of its own. */
static IrNode *value(Maker *m, IrLive live, Shape s) {
    if (live == LIVE_ALWAYS) return new_weight_node(m, s);
    if (live == LIVE_STEP) return ir_build1(&m->b, OP_MEANROWS, value(m, LIVE_ROW, s));
    IrNode *id = fx_number(&m->b, live == LIVE_ROW ? COL_I : COL_LI);
    IrNode *rows = table(m, live == LIVE_ROW ? MAX_ROWS : MAX_POS, elements(s));
    return fx_reshape(&m->b, ir_build2(&m->b, OP_EMBED, id, rows), s.rank, s.dim);
}

static IrNode *with_scalar(Maker *m, IrOp op, IrNode *x, double v) {
    return ir_build2(&m->b, op, x, ir_const(&m->b, v));
}

static IrNode *positive(Maker *m, IrNode *x) {
    return with_scalar(m, OP_ADD, ir_build1(&m->b, OP_SQUARE, x), 0.5);
}

/* ---- one case ---- */

static bool covered[OP_COUNT];
static int cases, failures;

static double factor(int i) { return 1 + 0.37 * i - 0.05 * i * i; }

/* The loss: sum of all elements times factors; `fine`: and times a number of the row (position). */
static bool build(Arena *a, Diag *d, Make make, const Spec *s, bool fine, IrProgram **out) {
    Maker m = {.p = fx_program(a, d)};
    m.b = (IrBuilder){.p = m.p, .body = &m.p->funcs[0]->body};
    m.opt = fx_optimizer(m.p, (IrOptimizer){.kind = OPT_SGD, .lr = {.kind = SCHED_CONST, .lr = 1}});
    IrNode *x = make(&m, s);
    if (x && fine && x->type.live == LIVE_POS)
        x = ir_build2(&m.b, OP_MUL, x, with_scalar(&m, OP_ADD, fx_column(&m.b, COL_V), 2));
    if (x && x->type.live == LIVE_POS) x = ir_build1(&m.b, OP_SEGSUM, x);
    if (x && fine && x->type.live == LIVE_ROW)
        x = ir_build2(&m.b, OP_MUL, x, with_scalar(&m, OP_ADD, fx_column(&m.b, COL_X), 2));
    if (x && (ir_type_size(x->type) > 1 || x->type.rank > 1)) x = fx_scalar(&m.b, x, factor);
    fx_root(&m.b, OP_LOSS, x, "loss");
    fx_root(&m.b, OP_PREDICT, fx_column(&m.b, COL_X), "p");
    *out = m.p;
    ir_renumber(m.p);
    return x && ir_verify(m.p);
}

static double loss_of(Interp *it, const InterpBatch *b) {
    interp_set_step(it, 5);
    return interp_run(it, "model", b) ? interp_loss(it) : NAN;
}

typedef struct {
    Interp *it;
    const InterpBatch *batch;
    double **w, **g; /* weights where they are, their gradients */
    int64_t *size;
    int n;
} Probe;

/* (loss(w + h d) - loss(w - h d)) / 2h, and the gradient's word for it. */
static bool agrees(const Probe *q, double *const *direction, double *largest) {
    const double h = 1e-5;
    double expected = 0, found[2];
    for (int w = 0; w < q->n; w++)
        for (int64_t i = 0; i < q->size[w]; i++) expected += direction[w][i] * q->g[w][i];
    for (int side = 0; side < 2; side++) {
        double move = side ? h : -h;
        for (int w = 0; w < q->n; w++)
            for (int64_t i = 0; i < q->size[w]; i++) q->w[w][i] += move * direction[w][i];
        found[side] = loss_of(q->it, q->batch);
        for (int w = 0; w < q->n; w++)
            for (int64_t i = 0; i < q->size[w]; i++) q->w[w][i] -= move * direction[w][i];
    }
    double slope = (found[1] - found[0]) / (2 * h);
    if (fabs(slope) > *largest) *largest = fabs(slope);
    bool ok = fabs(slope - expected) <= 1e-6 * (1 + fabs(slope));
    if (!ok) fprintf(stderr, "  by differences %.9g, by differentiate %.9g\n", slope, expected);
    return ok;
}

static bool probe(const Probe *q, Arena *a, double *largest) {
    double **d = ARENA_ARRAY(a, double *, q->n + 1);
    for (int w = 0; w < q->n; w++) d[w] = ARENA_ARRAY(a, double, q->size[w]);
    for (int round = 0; round < 3; round++) { /* all elements at once */
        for (int w = 0; w < q->n; w++)
            for (int64_t i = 0; i < q->size[w]; i++)
                d[w][i] = fx_random((uint64_t)(round * 7001 + w * 977 + i));
        if (!agrees(q, d, largest)) return false;
    }
    for (int w = 0; w < q->n; w++) { /* one at a time */
        memset(d[w], 0, sizeof **d * (size_t)q->size[w]);
        for (int other = 0; other < q->n; other++) memset(d[other], 0, sizeof **d * (size_t)q->size[other]);
        for (int64_t i = 0; i < q->size[w]; i += 1 + q->size[w] / 3) {
            d[w][i] = 1;
            if (!agrees(q, d, largest)) return false;
            d[w][i] = 0;
        }
    }
    return true;
}

typedef struct {
    double slope;     /* the largest by differences */
    uint64_t weights; /* which have a gradient: a bit each */
    int n_weights;
} Met;

static bool run_case(Make make, const Spec *s, bool fine, const InterpBatch *batch, Met *met) {
    Arena *a = arena_new();
    Diag *d = diag_new(a, stderr);
    IrProgram *p, *q;
    bool ok = build(a, d, make, s, fine, &p);
    for (int i = 0; ok && i < p->funcs[0]->body.n; i++) covered[p->funcs[0]->body.nodes[i]->op] = true;
    q = ok ? fx_copy(a, d, p) : NULL;
    PassOptions o = {.verify_each = true, .out = stderr};
    ok = q && pass_run_one(q, &o, "differentiate", NULL);
    Interp *forward = ok ? interp_new(p, 1) : NULL, *train = ok ? interp_new(q, 1) : NULL;
    if (ok) {
        Probe probed = {.it = forward, .batch = batch, .n = p->n_weights};
        probed.w = ARENA_ARRAY(a, double *, p->n_weights + 1);
        probed.g = ARENA_ARRAY(a, double *, p->n_weights + 1);
        probed.size = ARENA_ARRAY(a, int64_t, p->n_weights + 1);
        fx_fill(forward, p, 1);
        fx_fill(train, q, 1);
        interp_set_step(train, 5);
        ok = interp_run(train, "train", batch);
        for (int w = 0; w < p->n_weights; w++) {
            probed.size[w] = 1;
            for (int i = 0; i < p->weights[w].rank; i++) probed.size[w] *= p->weights[w].dim[i];
            if (p->weights[w].running) probed.size[w] = 0;
            probed.w[w] = interp_weight(forward, w);
            probed.g[w] = ARENA_ARRAY(a, double, probed.size[w]);
            for (int64_t i = 0; i < probed.size[w]; i++) {
                probed.g[w][i] = probed.w[w][i] - interp_weight(train, w)[i];
                if (probed.g[w][i] != 0) met->weights |= (uint64_t)1 << w;
            }
        }
        met->n_weights = p->n_weights;
        ok = ok && probe(&probed, a, &met->slope);
    }
    if (forward) interp_free(forward);
    if (train) interp_free(train);
    arena_free(a);
    return ok;
}

static void check(Make make, Spec s) {
    static const int64_t many[] = {0, 2, 2, 5, 6}, other[] = {0, 0, 3, 4, 7}, one[] = {0, 1},
                         few[] = {0, 0, 0, 1}, long_lists[] = {0, 50, 50, 53};
    FxBatch f;
    Met met = {0};
    cases++;
    for (int run = 0; run < (s.all ? 8 : 6); run++) {
        InterpBatch *b = run / 2 == 0   ? fx_batch(&f, 11, 4, many, other)
                         : run / 2 == 1 ? fx_batch(&f, 12, 1, one, one)
                         : run / 2 == 2 ? fx_batch(&f, 13, 3, few, few)
                                        : fx_batch(&f, 14, 3, long_lists, few);
        if (run_case(make, &s, run % 2, b, &met)) continue;
        fprintf(stderr, "%s, variant %d, live %d %d, ranks %d %d, ta %d tb %d: wrong in run %d\n",
                ir_ops[s.op].text, s.variant, s.la, s.lb, s.sa.rank, s.sb.rank, s.ta, s.tb, run);
        failures++;
        return;
    }
    bool some = met.slope >= 1e-3, each = met.weights == ((uint64_t)1 << met.n_weights) - 1;
    if (some && (each || !s.all)) return;
    fprintf(stderr, "%s, variant %d: %s\n", ir_ops[s.op].text, s.variant,
            some ? "a weight has no gradient" : "no gradient at all");
    failures++;
}

static void all_agree(void) {
    int wrong = failures;
    failures = 0;
    assert_int_equal(wrong, 0);
}

/* ---- elementwise ---- */

static IrNode *make_unary(Maker *m, const Spec *s) {
    IrNode *x = value(m, s->la, s->sa);
    if (s->op == OP_LOG || s->op == OP_SQRT) x = positive(m, x);
    if (s->op == OP_LOG1P) x = with_scalar(m, OP_ADD, ir_build1(&m->b, OP_SQUARE, x), -0.5);
    IrAttr slope = ir_af("slope", 0.2), clip[2] = {ir_af("lo", -0.4), ir_af("hi", 0.6)};
    if (s->op == OP_LEAKYRELU) return ir_build(&m->b, s->op, 1, &x, 1, &slope);
    if (s->op == OP_CLIP) return ir_build(&m->b, s->op, 1, &x, 2, clip);
    return ir_build1(&m->b, s->op, x);
}

static void test_unary(void **state) {
    static const IrOp ops[] = {OP_NEG,  OP_EXP,       OP_LOG,     OP_LOG1P, OP_SQRT,     OP_SQUARE, OP_ABS,
                               OP_RELU, OP_LEAKYRELU, OP_SIGMOID, OP_TANH,  OP_SOFTPLUS, OP_ERF,    OP_CLIP};
    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (int live = LIVE_ALWAYS; live <= LIVE_POS; live++)
            check(make_unary, (Spec){.op = ops[i], .la = (IrLive)live, .sa = S1(9)});
    all_agree();
}

static IrNode *make_binary(Maker *m, const Spec *s) {
    IrNode *x = value(m, s->la, s->sa), *y = value(m, s->lb, s->sb);
    if (s->op == OP_DIV) y = positive(m, y);
    if (s->op == OP_BCELOGITS) y = fx_column(&m->b, COL_Y);
    return ir_build2(&m->b, s->op, x, y);
}

static void test_binary(void **state) {
    static const IrOp ops[] = {OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_MAX2, OP_MIN2, OP_BCELOGITS};
    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (int la = LIVE_ALWAYS; la <= LIVE_POS; la++)
            for (int lb = LIVE_ALWAYS; lb <= LIVE_POS; lb++) {
                Spec s = {.op = ops[i], .la = (IrLive)la, .lb = (IrLive)lb, .sa = S2(2, 3), .sb = S1(3)};
                check(make_binary, s);
                s.sa = S2(1, 3), s.sb = S2(2, 1), s.variant = 1;
                check(make_binary, s);
            }
    all_agree();
}

/* x used twice, on both sides, and stopped on one. */
static IrNode *make_reused(Maker *m, const Spec *s) {
    IrNode *x = value(m, s->la, S1(2)), *stopped = ir_build1(&m->b, OP_STOPGRAD, x);
    if (s->variant == 0) return ir_build2(&m->b, OP_MUL, x, x);
    return ir_build2(&m->b, OP_ADD, ir_build2(&m->b, OP_SUB, stopped, stopped),
                     ir_build1(&m->b, OP_SQUARE, x));
}

static IrNode *make_dropout(Maker *m, const Spec *s) {
    IrAttr a[2] = {ir_af("rate", 0.4), ir_ai("key", 9)};
    IrNode *x = value(m, s->la, S1(5));
    return ir_build(&m->b, OP_DROPOUT, 1, &x, 2, a);
}

static void test_reuse_and_dropout(void **state) {
    (void)state;
    for (int live = LIVE_ALWAYS; live <= LIVE_POS; live++) {
        check(make_reused, (Spec){.op = OP_MUL, .la = (IrLive)live});
        check(make_reused, (Spec){.op = OP_STOPGRAD, .la = (IrLive)live, .variant = 1});
        check(make_dropout, (Spec){.op = OP_DROPOUT, .la = (IrLive)live});
    }
    all_agree();
}

/* ---- movement and reductions ---- */

static IrNode *make_move(Maker *m, const Spec *s) {
    IrBuilder *b = &m->b;
    Arena *a = m->p->arena;
    IrNode *x = value(m, s->la, s->op == OP_BROADCAST ? S2(1, 3) : S3(2, 3, 2));
    IrAttr axis = ir_ai("axis", 1);
    switch (s->op) {
    case OP_SLICE: return ir_build(b, s->op, 1, &x, 3, (IrAttr[]){axis, ir_ai("begin", 1), ir_ai("end", 3)});
    case OP_PAD: return ir_build(b, s->op, 1, &x, 3, (IrAttr[]){axis, ir_ai("before", 2), ir_ai("after", 1)});
    case OP_RESHAPE: return fx_reshape(b, x, 2, (int64_t[]){4, 3});
    case OP_TRANSPOSE:
        return ir_build(b, s->op, 1, &x, 1, (IrAttr[]){ir_ail(a, "order", (int64_t[]){2, 0, 1}, 3)});
    case OP_GATHER:
        return ir_build(b, s->op, 1, &x, 2,
                        (IrAttr[]){axis, ir_ail(a, "indices", (int64_t[]){2, 0, 2, 2}, 4)});
    case OP_SCATTERADD:
        return ir_build(b, s->op, 1, &x, 3,
                        (IrAttr[]){axis, ir_ail(a, "indices", (int64_t[]){3, 0, 3}, 3), ir_ai("size", 5)});
    case OP_BROADCAST: {
        IrAttr to[2] = {ir_ail(a, "shape", (int64_t[]){2, 2, 3}, 3), ir_ai("axis", AXIS_H)};
        return ir_build(b, s->op, 1, &x, s->variant ? 2 : 1, to);
    }
    default: {
        IrNode *part = value(m, s->lb, S3(2, 1, 2));
        return ir_build(b, OP_CONCAT, 3, (IrNode *[]){x, part, x}, 1, &axis);
    }
    }
}

static void test_moves(void **state) {
    static const IrOp ops[] = {OP_SLICE,  OP_PAD,        OP_RESHAPE,   OP_TRANSPOSE,
                               OP_GATHER, OP_SCATTERADD, OP_BROADCAST, OP_CONCAT};
    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (int live = LIVE_ALWAYS; live <= LIVE_POS; live++) {
            check(make_move, (Spec){.op = ops[i], .la = (IrLive)live, .lb = (IrLive)live});
            if (ops[i] == OP_BROADCAST && live <= LIVE_ROW)
                check(make_move, (Spec){.op = ops[i], .la = (IrLive)live, .variant = 1});
            for (int lb = LIVE_ALWAYS; ops[i] == OP_CONCAT && lb <= LIVE_POS; lb++)
                check(make_move, (Spec){.op = ops[i], .la = (IrLive)live, .lb = (IrLive)lb});
        }
    all_agree();
}

static IrNode *make_reduction(Maker *m, const Spec *s) {
    IrBuilder *b = &m->b;
    IrNode *x = value(m, s->la, s->variant == 3 ? S1(3) : S2(3, 2));
    IrAttr a[2] = {ir_ai("axis", s->variant == 1 ? 1 : 0), ir_ab("keep", s->variant == 2)};
    if (s->variant == 4) { /* equal largest ones */
        IrAttr zero = ir_ai("axis", 0);
        x = ir_build(b, OP_CONCAT, 2, (IrNode *[]){x, x}, 1, &zero);
    }
    if (s->op == OP_SUM || s->op == OP_MAXR) return ir_build(b, s->op, 1, &x, 2, a);
    if (s->op == OP_SOFTMAX) return ir_build(b, s->op, 1, &x, 1, a);
    return ir_build1(b, s->op, x);
}

static void test_reductions(void **state) {
    static const IrOp inside[] = {OP_SUM, OP_MAXR, OP_SOFTMAX}, along[] = {OP_SEGSUM, OP_SEGMEAN, OP_SEGMAX};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        check(make_reduction, (Spec){.op = along[i], .la = LIVE_POS});
        for (int live = LIVE_ALWAYS; live <= LIVE_POS; live++)
            for (int variant = 0; variant < 5; variant++)
                check(make_reduction, (Spec){.op = inside[i], .la = (IrLive)live, .variant = variant});
    }
    check(make_reduction, (Spec){.op = OP_SUMROWS, .la = LIVE_ROW});
    check(make_reduction, (Spec){.op = OP_SUMROWS, .la = LIVE_POS});
    check(make_reduction, (Spec){.op = OP_MEANROWS, .la = LIVE_ROW});
    check(make_reduction, (Spec){.op = OP_MEANROWS, .la = LIVE_POS});
    all_agree();
}

/* The largest along a list where several positions are equal. */
static IrNode *make_equal_positions(Maker *m, const Spec *s) {
    (void)s;
    IrAttr a[2] = {ir_ail(m->p->arena, "shape", (int64_t[]){2}, 1), ir_ai("axis", AXIS_H)};
    IrNode *row = value(m, LIVE_ROW, S1(2)), *repeated = ir_build(&m->b, OP_BROADCAST, 1, &row, 2, a);
    return ir_build1(&m->b, OP_SEGMAX, repeated);
}

/* A step's value back among the rows: statistics that rows then use. */
static IrNode *make_centred(Maker *m, const Spec *s) {
    IrNode *x = value(m, s->la, S1(2));
    return ir_build1(&m->b, OP_SQUARE, ir_build2(&m->b, OP_SUB, x, ir_build1(&m->b, s->op, x)));
}

static void test_statistics(void **state) {
    (void)state;
    check(make_equal_positions, (Spec){.op = OP_SEGMAX, .variant = 1});
    for (int live = LIVE_ROW; live <= LIVE_POS; live++) {
        check(make_centred, (Spec){.op = OP_MEANROWS, .la = (IrLive)live, .variant = 1});
        check(make_centred, (Spec){.op = OP_SUMROWS, .la = (IrLive)live, .variant = 1});
    }
    check(make_centred, (Spec){.op = OP_SEGMEAN, .la = LIVE_POS, .variant = 1});
    all_agree();
}

/* ---- from position to position ---- */

/* variant 0: alone, so that the gradient is the same for all positions; 1: of a row's value repeated, which
 * only the shift makes different; 2: attention, a weighted sum that is zero where a list is empty. */
static IrNode *make_along(Maker *m, const Spec *s) {
    IrBuilder *b = &m->b;
    IrNode *x = value(m, s->variant == 1 ? LIVE_ROW : LIVE_POS, s->sa);
    IrAttr a[2] = {ir_ail(m->p->arena, "shape", s->sa.dim, s->sa.rank), ir_ai("axis", AXIS_H)};
    if (s->variant == 1) x = ir_build(b, OP_BROADCAST, 1, &x, 2, a);
    IrAttr k = ir_ai("k", s->ta ? -1 : s->tb ? 2 : 1);
    if (s->op == OP_SHIFT) return ir_build(b, OP_SHIFT, 1, &x, 1, &k);
    IrNode *y = ir_build1(b, OP_SEGSOFTMAX, x);
    if (s->variant == 2) y = ir_build1(b, OP_SEGSUM, ir_build2(b, OP_MUL, y, value(m, LIVE_POS, S1(3))));
    return s->variant == 2 ? y : ir_build1(b, OP_SQUARE, y);
}

/* The last position's value, through a mask. */
static IrNode *last_of(Maker *m, IrNode *x) {
    IrBuilder *b = &m->b;
    IrNode *one = ir_const(b, 1);
    IrAttr k = ir_ai("k", 1),
           to[2] = {ir_ail(m->p->arena, "shape", (int64_t[]){1}, 1), ir_ai("axis", AXIS_H)};
    IrNode *ones = ir_build(b, OP_BROADCAST, 1, &one, 2, to), *after = ir_build(b, OP_SHIFT, 1, &ones, 1, &k);
    IrNode *only = ir_build2(b, OP_MUL, x, ir_build2(b, OP_SUB, one, after));
    return ir_build1(b, OP_SEGSUM, only);
}

/* It, over the length of the longest row. */
static IrNode *make_last(Maker *m, const Spec *s) {
    IrAttr axis = ir_ai("axis", AXIS_H);
    return ir_build2(&m->b, OP_DIV, last_of(m, value(m, LIVE_POS, s->sa)),
                     ir_build(&m->b, OP_LONGEST, 0, NULL, 1, &axis));
}

static void test_along(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        Spec s = {.op = OP_SHIFT, .sa = S2(2, 3), .ta = kind == 1, .tb = kind == 2};
        for (s.variant = 0; s.variant < 2; s.variant++) check(make_along, s);
    }
    for (int variant = 0; variant < 3; variant += 2)
        for (int wide = 0; wide < 2; wide++)
            check(make_along, (Spec){.op = OP_SEGSOFTMAX, .variant = variant, .sa = wide ? S1(3) : S1(1)});
    check(make_along, (Spec){.op = OP_SEGSOFTMAX, .sa = S2(2, 3)});
    check(make_last, (Spec){.op = OP_SHIFT, .variant = 3, .sa = S1(4)});
    all_agree();
}

/* ---- appending, and attention ---- */

/* variant 0: squared, 1: alone, so that the gradient may be the same for all positions, 2: the row's value
 * only, 3: the list's only. */
static IrNode *make_append(Maker *m, const Spec *s) {
    IrAttr zeros[2] = {ir_afl(m->p->arena, "value", (double[]){0.5}, 1),
                       ir_ail(m->p->arena, "shape", s->sa.dim, s->sa.rank)},
           axis = ir_ai("axis", AXIS_H1);
    IrNode *constant = ir_build(&m->b, OP_CONST, 0, NULL, 2, zeros), *x;
    IrNode *row = s->variant == 3 ? constant : value(m, s->lb, s->sa);
    if (s->variant == 2) {
        IrAttr along[2] = {zeros[1], ir_ai("axis", AXIS_H)};
        x = ir_build(&m->b, OP_BROADCAST, 1, &constant, 2, along);
    } else
        x = value(m, LIVE_POS, s->sa);
    IrNode *y = ir_build(&m->b, OP_APPEND, 2, (IrNode *[]){x, row}, 1, &axis);
    y = s->variant == 1 ? y : ir_build1(&m->b, OP_SQUARE, y);
    return y ? ir_build1(&m->b, OP_SEGSUM, y)
             : NULL; /* along h1: the fixture's numbers of positions are h's */
}

/* variant 0: three values; 1: of v only; 2: itself, also along the appended list; 3: a sum, so that the
 * gradient is the same along the list; 4: of q and k only. */
static IrNode *make_attend(Maker *m, const Spec *s) {
    IrNode *in[3];
    IrAttr scale = ir_af("scale", s->ta ? -0.7 : 0.9), axis = ir_ai("axis", AXIS_H1);
    for (int i = 0; i < 3; i++) in[i] = value(m, LIVE_POS, i < 2 ? s->sa : s->sb);
    if (s->variant == 1) in[0] = in[1] = fx_column(&m->b, COL_V);
    if (s->variant == 4) in[2] = fx_column(&m->b, COL_V);
    if (s->variant == 2)
        in[0] = in[1] = in[2] =
            ir_build(&m->b, OP_APPEND, 2, (IrNode *[]){in[0], value(m, LIVE_ROW, s->sa)}, 1, &axis);
    IrNode *y = ir_build(&m->b, OP_ATTEND, 3, in, 1, &scale);
    return (s->variant != 2 && s->variant != 3) || !y ? y : ir_build1(&m->b, OP_SEGSUM, y);
}

static void test_append_and_attend(void **state) {
    (void)state;
    for (int variant = 0; variant < 4; variant++)
        for (int lb = LIVE_ALWAYS; lb <= LIVE_ROW; lb++)
            check(make_append, (Spec){.op = OP_APPEND,
                                      .lb = (IrLive)lb,
                                      .sa = lb == LIVE_STEP ? S2(2, 2) : S1(3),
                                      .variant = variant});
    for (int variant = 0; variant < 5; variant++)
        for (int wide = 0; wide < 3; wide++)
            check(make_attend, (Spec){.op = OP_ATTEND,
                                      .sa = wide == 0 ? S1(1) : S1(4),
                                      .sb = wide == 1 ? S1(3)
                                            : wide    ? S1(4)
                                                      : S1(1),
                                      .ta = wide == 1,
                                      .variant = variant});
}

/* ---- recurrent layers ---- */

/* Along h, however long its lists are: positions of equal ids have equal values, those without an id zeros.
 */
static IrNode *along_h(Maker *m, int64_t width) {
    return ir_build2(&m->b, OP_EMBED, fx_hash(&m->b, COL_LS, 23), table(m, 23, width));
}

static IrNode *state_of(Maker *m, IrNode *record, int64_t units) {
    IrAttr a[3] = {ir_ai("axis", 0), ir_ai("begin", 0), ir_ai("end", units)};
    return ir_build(&m->b, OP_SLICE, 1, &record, 3, a);
}

/* A recurrent weight, small where there are many units: else 50 positions are chaos, which differences can't
 * measure. part: rows of a kernel. */
static IrNode *state_weight(Maker *m, int64_t units, int64_t columns, bool part) {
    IrNode *w = new_weight_node(m, S2(part ? units + 2 : units, columns));
    IrAttr a[3] = {ir_ai("axis", 0), ir_ai("begin", 2), ir_ai("end", units + 2)};
    if (part) w = ir_build(&m->b, OP_SLICE, 1, &w, 3, a);
    return units < 7 ? w : with_scalar(m, OP_MUL, w, 2.0 / (double)units);
}

/* variant 0: the state alone, so that its gradient is the same for all positions; 1: squared, by rows of
 * kernels; 2: the last state; 3: one layer upon another. */
static IrNode *make_recurrent(Maker *m, const Spec *s) {
    IrBuilder *b = &m->b;
    int64_t u = s->sa.dim[0];
    IrNode *h = NULL;
    for (int layer = 0; layer <= (s->variant == 3); layer++) {
        IrAttr t[2] = {ir_ab("ta", false), ir_ab("tb", false)};
        int64_t width = s->op == OP_SRU ? u : 3 * u;
        IrNode *x = layer ? ir_build(b, OP_MATMUL, 2, (IrNode *[]){h, state_weight(m, u, width, false)}, 2, t)
                          : along_h(m, width);
        if (s->op == OP_SRU) {
            h = ir_build2(b, OP_SRU, ir_build1(b, OP_SIGMOID, along_h(m, u)), x);
            continue;
        }
        bool part = s->variant == 1;
        IrNode *in[4] = {x, state_weight(m, u, 2 * u, part), state_weight(m, u, u, part)};
        if (s->op == OP_AUGRU)
            in[3] = ir_build1(b, s->variant == 2 ? OP_SEGSOFTMAX : OP_SIGMOID, along_h(m, 1));
        h = state_of(m, ir_build(b, s->op, s->op == OP_AUGRU ? 4 : 3, in, 0, NULL), u);
    }
    if (s->variant == 2) return last_of(m, h);
    return s->variant ? ir_build1(b, OP_SQUARE, h) : h;
}

static void test_recurrent(void **state) {
    static const IrOp ops[] = {OP_GRU, OP_AUGRU, OP_SRU};
    static const int64_t units[] = {1, 2, 7, 36};
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++)
            for (int variant = 0; variant < 4; variant++)
                check(make_recurrent,
                      (Spec){.op = ops[i], .sa = S1(units[k]), .variant = variant, .all = true});
    all_agree();
}

/* ---- products ---- */

static IrNode *make_matmul(Maker *m, const Spec *s) {
    IrAttr t[2] = {ir_ab("ta", s->ta), ir_ab("tb", s->tb)};
    return ir_build(&m->b, OP_MATMUL, 2, (IrNode *[]){value(m, s->la, s->sa), value(m, s->lb, s->sb)}, 2, t);
}

static Shape turned(Shape s, bool turn) {
    if (turn && s.rank >= 2) {
        int64_t t = s.dim[s.rank - 1];
        s.dim[s.rank - 1] = s.dim[s.rank - 2];
        s.dim[s.rank - 2] = t;
    }
    return s;
}

static void test_matmul(void **state) {
    static const struct {
        IrLive la, lb;
        Shape sa, sb;
    } kinds[] = {
        {LIVE_ROW, LIVE_ALWAYS, {1, {3}}, {2, {3, 4}}}, /* dense layer */
        {LIVE_POS, LIVE_ALWAYS, {1, {3}}, {2, {3, 4}}},
        {LIVE_STEP, LIVE_ALWAYS, {1, {3}}, {2, {3, 4}}},
        {LIVE_ALWAYS, LIVE_ALWAYS, {1, {3}}, {2, {3, 4}}},
        {LIVE_ROW, LIVE_STEP, {1, {3}}, {2, {3, 4}}},
        {LIVE_ROW, LIVE_ALWAYS, {2, {2, 3}}, {2, {3, 4}}}, /* shared right */
        {LIVE_POS, LIVE_STEP, {3, {2, 2, 3}}, {2, {3, 4}}},
        {LIVE_ALWAYS, LIVE_ALWAYS, {3, {2, 2, 3}}, {2, {3, 4}}},
        {LIVE_ALWAYS, LIVE_ROW, {2, {2, 3}}, {2, {3, 4}}}, /* shared left */
        {LIVE_STEP, LIVE_POS, {2, {2, 3}}, {3, {2, 3, 4}}},
        {LIVE_ALWAYS, LIVE_ALWAYS, {2, {2, 3}}, {2, {3, 4}}}, /* plain */
        {LIVE_STEP, LIVE_ALWAYS, {2, {2, 3}}, {2, {3, 4}}},
        {LIVE_ROW, LIVE_ROW, {2, {2, 3}}, {2, {3, 4}}}, /* batched */
        {LIVE_POS, LIVE_ROW, {2, {2, 3}}, {2, {3, 4}}},
        {LIVE_ROW, LIVE_ALWAYS, {3, {2, 2, 3}}, {3, {2, 3, 4}}},
        {LIVE_ALWAYS, LIVE_POS, {3, {2, 2, 3}}, {3, {2, 3, 4}}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int t = 0; t < 4; t++) {
            bool ta = t & 1, tb = t & 2;
            if (ta && kinds[i].sa.rank < 2) continue;
            check(make_matmul, (Spec){.op = OP_MATMUL,
                                      .la = kinds[i].la,
                                      .lb = kinds[i].lb,
                                      .sa = turned(kinds[i].sa, ta),
                                      .sb = turned(kinds[i].sb, tb),
                                      .ta = ta,
                                      .tb = tb,
                                      .variant = (int)i});
        }
    all_agree();
}

/* The loss is a product itself: its gradient is 1/rows, the same for all rows. */
static IrNode *make_bare_dense(Maker *m, const Spec *s) {
    IrAttr t[2] = {ir_ab("ta", false), ir_ab("tb", false)};
    IrNode *x = value(m, s->la, S1(3)), *w = new_weight_node(m, S2(3, 1)), *bias = new_weight_node(m, S1(1));
    IrNode *y = ir_build(&m->b, OP_MATMUL, 2, (IrNode *[]){x, w}, 2, t);
    return ir_build2(&m->b, OP_ADD, y, bias);
}

/* ---- lookups ---- */

static IrNode *pooled(Maker *m, IrNode *id, IrNode *rows, const char *kind) {
    IrAttr a = ir_as("kind", kind);
    return ir_build(&m->b, OP_EMBEDPOOL, 2, (IrNode *[]){id, rows}, 1, &a);
}

static IrNode *make_lookup(Maker *m, const Spec *s) {
    IrBuilder *b = &m->b;
    IrNode *t = fx_weight_node(b, new_weight(m, S2(5, 2), s->variant != 11)), *row = fx_hash(b, COL_S, 5),
           *list = fx_hash(b, COL_LS, 5);
    IrAttr none[2] = {ir_ab("ta", false), ir_ab("tb", false)};
    switch (s->variant) {
    case 0: return ir_build2(b, OP_EMBED, row, t);
    case 1: return ir_build2(b, OP_EMBED, list, t);
    case 2: return pooled(m, list, t, "sum");
    case 3: return pooled(m, list, t, "mean");
    case 4: /* one list, pooled both ways, twice, and not pooled */
        return ir_build2(b, OP_ADD,
                         ir_build2(b, OP_MUL, pooled(m, list, t, "mean"), pooled(m, list, t, "sum")),
                         ir_build2(b, OP_MUL, pooled(m, list, t, "mean"),
                                   ir_build1(b, OP_SEGMAX, ir_build2(b, OP_EMBED, list, t))));
    case 5: /* the same table by three lists of ids, the last through an equal expression */
        return ir_build2(
            b, OP_MUL, ir_build2(b, OP_EMBED, row, t),
            ir_build2(b, OP_MUL, pooled(m, list, t, "sum"), ir_build2(b, OP_EMBED, fx_hash(b, COL_S, 5), t)));
    case 6: return ir_build2(b, OP_EMBED, row, ir_build1(b, OP_TANH, t)); /* rows computed from a weight */
    case 7: return pooled(m, list, ir_build1(b, OP_TANH, t), "sum");
    case 8: return pooled(m, list, ir_build1(b, OP_TANH, t), "mean");
    case 9: return ir_build(b, OP_MATMUL, 2, (IrNode *[]){ir_build1(b, OP_ONEHOT, row), t}, 2, none);
    case 10:
        return ir_build(b, OP_MATMUL, 2,
                        (IrNode *[]){ir_build1(b, OP_SEGMEAN, ir_build1(b, OP_ONEHOT, list)), t}, 2, none);
    default: /* looked up and used whole: then every row is updated */
        return ir_build2(
            b, OP_MUL, ir_build2(b, OP_EMBED, row, t),
            ir_build1(b, OP_TANH,
                      ir_build(b, OP_SUM, 1, &t, 2, (IrAttr[]){ir_ai("axis", 0), ir_ab("keep", false)})));
    }
}

static void test_lookups(void **state) {
    (void)state;
    for (int live = LIVE_STEP; live <= LIVE_POS; live++)
        check(make_bare_dense, (Spec){.op = OP_MATMUL, .la = (IrLive)live, .variant = 100});
    for (int variant = 0; variant < 12; variant++)
        check(make_lookup, (Spec){.op = OP_EMBED, .variant = variant});
    all_agree();
}

/* ---- batch normalisation ---- */

static IrNode *make_batchnorm(Maker *m, const Spec *s) {
    IrNode *x = value(m, s->la, s->sa);
    int64_t k = s->sa.dim[s->sa.rank - 1];
    int mean = new_weight(m, S1(k), false), var = new_weight(m, S1(k), false);
    m->p->weights[mean].running = m->p->weights[var].running = true;
    m->p->weights[mean].trainable = m->p->weights[var].trainable = false;
    m->p->weights[mean].optimizer = m->p->weights[var].optimizer = -1;
    IrNode *gamma = new_weight_node(m, S1(k)), *beta = new_weight_node(m, S1(k));
    if (s->variant == 1) gamma = ir_build1(&m->b, OP_EXP, gamma);
    IrAttr a[2] = {ir_af("eps", 1e-2), ir_af("momentum", 0.9)};
    return ir_build(&m->b, OP_BATCHNORM, 5,
                    (IrNode *[]){x, gamma, beta, fx_weight_node(&m->b, mean), fx_weight_node(&m->b, var)}, 2,
                    a);
}

static void test_batchnorm(void **state) {
    (void)state;
    for (int live = LIVE_ROW; live <= LIVE_POS; live++)
        for (int variant = 0; variant < 2; variant++) {
            check(make_batchnorm,
                  (Spec){.op = OP_BATCHNORM, .la = (IrLive)live, .sa = S1(3), .variant = variant});
            check(make_batchnorm,
                  (Spec){.op = OP_BATCHNORM, .la = (IrLive)live, .sa = S2(2, 3), .variant = variant});
        }
    all_agree();
}

/* ---- nothing left out ---- */

static void test_every_op(void **state) {
    static const char *const grads[OP_COUNT] = {
#define OP(id, text, min_in, max_in, attrs, shape, grad, ...) #grad,
#include "ir/ops.def"
#undef OP
    };
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        bool has = strcmp(grads[op], "none") != 0 && strcmp(grads[op], "late") != 0;
        if (has && !covered[op]) fail_msg("no case has '%s'", ir_ops[op].text);
    }
    assert_true(cases > 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary),
        cmocka_unit_test(test_binary),
        cmocka_unit_test(test_reuse_and_dropout),
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_along),
        cmocka_unit_test(test_append_and_attend),
        cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_lookups),
        cmocka_unit_test(test_batchnorm),
        cmocka_unit_test(test_every_op),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
