/* What passes that change the model must keep all the same. Random graphs can't be compared before and after
 * them, and golden files hold what a pass wrote, right or wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "passes/rewrite.h"
#include "tests/unit/pass_fixture.h"

typedef struct {
    Arena *a;
    IrProgram *p;
    IrBuilder b;
    int opt;
} World;

static void begin(World *w) {
    w->a = arena_new();
    w->p = fx_program(w->a, diag_new(w->a, stderr));
    w->b = (IrBuilder){.p = w->p, .body = &w->p->funcs[0]->body};
    w->opt = fx_optimizer(w->p, (IrOptimizer){.kind = OPT_SGD, .lr = {.kind = SCHED_CONST, .lr = 0.1}});
}

static IrNode *new_weight(World *w, const char *name, int rank, const int64_t *dim) {
    fx_weight(w->p, name, w->opt, rank, dim);
    return fx_weight_node(&w->b, w->p->n_weights - 1);
}

static IrNode *product(World *w, IrNode *x, IrNode *y) {
    IrAttr plain[2] = {ir_ab("ta", false), ir_ab("tb", false)};
    return ir_build(&w->b, OP_MATMUL, 2, (IrNode *[]){x, y}, 2, plain);
}

static void finish(World *w, IrNode *z) {
    IrBuilder *b = &w->b;
    fx_root(b, OP_PREDICT, z, "z");
    fx_root(b, OP_LOSS, ir_build1(b, OP_SQUARE, ir_build2(b, OP_SUB, z, fx_column(b, COL_Y))), "loss");
    assert_true(ir_verify(w->p));
}

/* ---- indicator-to-embedding: each column has its rows ---- */

enum { TABLES = 3 };
static const char *const hashes[TABLES] = {"xxh3", "farm64", "xxh3"};

/* By weight: the hash by whose ids its rows are taken. The third is a list's, pooled. */
static void check_ids(const IrProgram *p, bool looked_up) {
    const IrBody *b = &p->funcs[0]->body;
    int met = 0;
    for (int i = 0; i < b->n; i++) {
        const IrNode *n = b->nodes[i], *id = n;
        if (n->n_in < 2 || n->in[1]->op != OP_WEIGHT || ir_attr_i(n->in[1], "w") >= TABLES) continue;
        int w = (int)ir_attr_i(n->in[1], "w");
        while (id->op != OP_HASH && id->n_in) id = id->in[0];
        assert_int_equal(id->op, OP_HASH);
        assert_string_equal(ir_attr_s(id, "fn"), hashes[w]);
        assert_int_equal(id->type.live, w == 2 ? LIVE_POS : LIVE_ROW);
        assert_int_equal(n->op == OP_EMBED || n->op == OP_EMBEDPOOL, looked_up);
        assert_int_equal(met & 1 << w, 0);
        met |= 1 << w;
    }
    assert_int_equal(met, (1 << TABLES) - 1);
}

static void test_own_tables(void **state) {
    (void)state;
    World w;
    begin(&w);
    IrNode *sum = NULL;
    for (int i = 0; i < TABLES; i++) {
        IrAttr a[2] = {ir_ai("buckets", 6), ir_as("fn", hashes[i])};
        IrNode *text = fx_column(&w.b, i == 2 ? COL_LS : COL_S);
        IrNode *hot = ir_build1(&w.b, OP_ONEHOT, ir_build(&w.b, OP_HASH, 1, &text, 2, a));
        if (i == 2) hot = ir_build1(&w.b, OP_SEGSUM, hot);
        IrNode *kernel = new_weight(&w, arena_printf(w.a, "hot%d.kernel", i), 2, (int64_t[]){6, 1});
        w.p->weights[i].lazy = true;
        IrNode *z = product(&w, hot, kernel);
        sum = sum ? ir_build2(&w.b, OP_ADD, sum, z) : z;
    }
    finish(&w, sum);
    check_ids(w.p, false);
    assert_true(pass_run_one(w.p, &(PassOptions){0}, "indicator-to-embedding", "dim=4"));
    assert_true(ir_verify(w.p));
    check_ids(w.p, true);
    arena_free(w.a);
}

/* ---- onehot-to-embedding: each one-hot of a sum is looked up by its own id ---- */

enum { BUCKETS = 7 };

/* The weight after two steps of z = (one-hot of a + one-hot of b - one-hot of c / 2) @ w. */
static void summed(bool looked_up, double *out) {
    static const int64_t lists[MAX_ROWS + 1] = {0};
    World w;
    begin(&w);
    IrNode *hot[3];
    for (int i = 0; i < 3; i++) {
        IrAttr a[2] = {ir_ai("buckets", BUCKETS), ir_as("fn", i == 1 ? "farm64" : "xxh3")};
        IrNode *text = fx_column(&w.b, COL_S), *id = ir_build(&w.b, OP_HASH, 1, &text, 2, a);
        if (i == 2) { /* moved by one row */
            IrAttr more[2] = {ir_ai("buckets", BUCKETS - 1), ir_as("fn", "xxh3")};
            IrAttr by[2] = {ir_ai("by", 1), ir_ai("n", BUCKETS)};
            id = ir_build(&w.b, OP_HASH, 1, &text, 2, more);
            id = ir_build(&w.b, OP_OFFSET, 1, &id, 2, by);
        }
        hot[i] = ir_build1(&w.b, OP_ONEHOT, id);
    }
    IrNode *sum = ir_build2(&w.b, OP_ADD, hot[0], hot[1]);
    sum = ir_build2(&w.b, OP_SUB, sum, ir_build2(&w.b, OP_DIV, hot[2], ir_const(&w.b, 2)));
    IrNode *kernel = new_weight(&w, "hot.kernel", 2, (int64_t[]){BUCKETS, 1});
    w.p->weights[0].lazy = true;
    finish(&w, product(&w, sum, kernel));
    if (looked_up) assert_true(pass_run_one(w.p, &(PassOptions){0}, "onehot-to-embedding", NULL));
    assert_int_equal(pass_count_ops(w.p, OP_EMBED), looked_up ? 3 : 0);
    assert_true(pass_run_one(w.p, &(PassOptions){0}, "differentiate", NULL));
    assert_true(ir_verify(w.p));
    Interp *it = interp_new(w.p, 3);
    fx_fill(it, w.p, 0.5);
    for (uint64_t step = 0; step < 2; step++) {
        FxBatch f;
        assert_true(interp_run(it, "train", fx_batch(&f, step, MAX_ROWS, lists, lists)));
    }
    for (int i = 0; i < BUCKETS; i++) out[i] = interp_weight(it, 0)[i];
    interp_free(it);
    arena_free(w.a);
}

static void test_own_ids(void **state) {
    (void)state;
    double built[BUCKETS], looked_up[BUCKETS];
    summed(false, built);
    summed(true, looked_up);
    for (int i = 0; i < BUCKETS; i++)
        if (fabs(built[i] - looked_up[i]) > 1e-12)
            fail_msg("row %d: %.15g by one-hots, %.15g by lookups", i, built[i], looked_up[i]);
}

/* ---- micro-batch: where all rows are alike, a block's statistics are the step's ---- */

static IrNode *norm(World *w, IrNode *x) {
    static const char *const names[4] = {"gamma", "beta", "mean", "var"};
    int64_t one = 1;
    IrNode *in[5] = {x};
    for (int i = 0; i < 4; i++) {
        in[1 + i] = new_weight(w, names[i], 1, &one);
        IrWeight *made = &w->p->weights[w->p->n_weights - 1];
        if (i < 2) continue;
        made->running = true;
        made->trainable = false;
        made->optimizer = -1;
    }
    IrAttr a[2] = {ir_af("eps", 0.1), ir_af("momentum", 0.9)};
    return ir_build(&w->b, OP_BATCHNORM, 5, in, 2, a);
}

/* Weights after two steps of so many rows, the last of fewer rows than there are blocks. */
static int trained(const char *blocks, int64_t rows, double *out) {
    static const int64_t lists[MAX_ROWS + 1] = {0};
    World w;
    begin(&w);
    int64_t one = 1;
    IrNode *same = ir_build2(&w.b, OP_ADD, ir_build2(&w.b, OP_MUL, fx_column(&w.b, COL_X), ir_const(&w.b, 0)),
                             ir_const(&w.b, 0.7));
    IrNode *x = ir_build2(&w.b, OP_MUL, same, new_weight(&w, "scale", 1, &one));
    finish(&w, norm(&w, x));
    assert_true(pass_run_one(w.p, &(PassOptions){0}, "differentiate", NULL));
    if (blocks) assert_true(pass_run_one(w.p, &(PassOptions){0}, "micro-batch", blocks));
    assert_true(ir_verify(w.p));
    Interp *it = interp_new(w.p, 3);
    fx_fill(it, w.p, 0.5);
    for (int step = 0; step < 2; step++) {
        FxBatch f;
        assert_true(interp_run(it, "train", fx_batch(&f, (uint64_t)step, step ? 2 : rows, lists, lists)));
    }
    int n = w.p->n_weights;
    for (int i = 0; i < n; i++) out[i] = interp_weight(it, i)[0];
    interp_free(it);
    arena_free(w.a);
    return n;
}

static void test_equal_rows(void **state) {
    (void)state;
    double whole[8], blocks[8];
    for (int64_t rows = 6; rows <= 7; rows++) { /* 3 divides one of them */
        int n = trained(NULL, rows, whole);
        assert_int_equal(n, 5);
        assert_int_equal(trained("n=3", rows, blocks), n);
        for (int i = 0; i < n; i++)
            if (fabs(whole[i] - blocks[i]) > 1e-12)
                fail_msg("%d rows, weight %d: %.15g, in blocks %.15g", (int)rows, i, whole[i], blocks[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_own_tables), cmocka_unit_test(test_own_ids),
                                       cmocka_unit_test(test_equal_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
