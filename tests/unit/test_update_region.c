/* Regions of kind update: what they may hold, by the verifier's words; the bits that they leave in weights
 * and slots, which are those of gradient and update apart, for each optimizer, kernel and number of threads;
 * and what check mode says of a gradient that is not finite. */
#include "test_ir_fixture.h"
#include "backend/backend.h"
#include "passes/pass.h"
#include "runtime/exec.h"
#include "tests/tools/jit.h"
#include "tests/tools/random_batch.h"

/* ---- what they may hold ---- */

static const char head[] = "ctrc-ir 1\n"
                           "model m\n"
                           "input csv separator=\",\"\n"
                           "column x float used\n"
                           "optimizer 0 sgd lr=0.1\n"
                           "weight w [1,8] zeros trainable optimizer=0\n"
                           "weight other [1,8] zeros trainable optimizer=0\n"
                           "weight one [1] zeros trainable optimizer=0\n"
                           "weight square [8,8] zeros trainable optimizer=0\n"
                           "train batch=4\n";
static const char nodes[] = "  %0 = column {col=x} : f32[1]\n"
                            "  %1 = const {value=[1], shape=[8]} : always f32[8]\n"
                            "  %2 = mul %0, %1 : f32[8]\n"
                            "  %3 = weight {w=w} : always f32[1,8]\n"
                            "  %4 = weight {w=other} : always f32[1,8]\n"
                            "  %5 = weight {w=square} : always f32[8,8]\n"
                            "  %6 = const {value=[1], shape=[8, 8]} : always f32[8,8]\n"
                            "  %7 = mul %0, %6 : f32[8,8]\n";
#define ARGS                                                                                                 \
    "    %20 = arg {index=0} : f32[1]\n"                                                                     \
    "    %21 = arg {index=1} : f32[8]\n"
#define SUM "    %30 = matmul_grad_w %20, %21 : step f32[1,8]\n"

static const struct {
    const char *func, *operands, *kind, *type, *body;
    const char *error; /* NULL: none */
} regions[] = {
    {"train", "%0, %2", "update", "none", ARGS SUM "    %31 = update %30 {w=w} : none\n", NULL},
    {"train", "%0, %2, %3", "update", "none",
     ARGS "    %22 = arg {index=2} : always f32[1,8]\n" SUM "    %31 = add %30, %22 : step f32[1,8]\n"
          "    %32 = update %31 {w=w} : none\n",
     NULL},
    {"train", "%0, %2", "chain", "none", ARGS SUM "    %31 = update %30 {w=w} : none\n",
     "expected kind update, as it ends in update"},
    {"train", "%0, %2", "update", "step f32[1,8]", ARGS SUM,
     "expected an update as its last op, found matmul_grad_w"},
    {"train", "%0, %2", "update", "none",
     ARGS SUM "    %31 = const {value=[1], shape=[1]} : always f32[1]\n"
              "    %32 = update %30, %31 {w=w} : none\n",
     "expected no scale, which is known when the whole gradient is"},
    {"train", "%0, %2", "update", "none",
     ARGS SUM "    %31 = transpose %30 {order=[0, 1]} : step f32[1,8]\n"
              "    %32 = update %31 {w=w} : none\n",
     "expected elementwise ops around a sum over rows, found transpose"},
    {"train", "%0, %2", "update", "none",
     ARGS "    %31 = const {value=[1], shape=[1, 8]} : always f32[1,8]\n"
          "    %32 = update %31 {w=w} : none\n",
     "expected one matmul_grad_w, sum_rows or sum_blocks, found 0"},
    {"train", "%0, %2", "update", "none",
     ARGS SUM "    %31 = matmul_grad_w %20, %21 : step f32[1,8]\n"
              "    %32 = add %30, %31 : step f32[1,8]\n"
              "    %33 = update %32 {w=w} : none\n",
     "expected one matmul_grad_w, sum_rows or sum_blocks, found 2"},
    {"train", "%0, %2, %1", "update", "none",
     ARGS "    %22 = arg {index=2} : always f32[8]\n" SUM "    %31 = add %30, %22 : step f32[1,8]\n"
          "    %32 = update %31 {w=w} : none\n",
     "add in it: expected step f32[1,8] or one number, found always f32[8]"},
    {"train", "%0, %2", "update", "none",
     ARGS SUM "    %31 = const {value=[1], shape=[1]} : always f32[1]\n"
              "    %32 = update %31 {w=one} : none\n",
     "expected a gradient of the shape of its sum, step f32[1,8], found always f32[1]"},
    {"train", "%0, %2, %4", "update", "none",
     ARGS "    %22 = arg {index=2} : always f32[1,8]\n" SUM "    %31 = add %30, %22 : step f32[1,8]\n"
          "    %32 = update %31 {w=w} : none\n",
     "expected no weight but 'w', which it writes, found 'other'"},
    {"train", "%5, %7", "update", "none",
     "    %20 = arg {index=0} : always f32[8,8]\n"
     "    %21 = arg {index=1} : f32[8,8]\n"
     "    %30 = matmul_grad_w %20, %21 : step f32[8,8]\n"
     "    %31 = update %30 {w=square} : none\n",
     "its matmul_grad_w reads the weight that it writes"},
    {"train", "%0, %2", "update", "none",
     ARGS SUM "    %31 = update %30 {w=w} : none\n"
              "    %32 = update %30 {w=other} : none\n",
     "%31 update in func 'train': doesn't stand in a region"},
    {"train blocks=2", "%0, %2", "update", "none", ARGS SUM "    %31 = update %30 {w=w} : none\n",
     "expected gradient and update apart, as micro-batches add to the gradient"},
    {"eval", "%0, %2", "update", "none", ARGS SUM "    %31 = update %30 {w=w} : none\n",
     "writes weights outside func 'train'"},
    {"train", "%0, %2", "chain", "none",
     ARGS "    %22 = fused %20, %21 {kind=\"update\"} : none {\n"
          "      %23 = arg {index=0} : f32[1]\n"
          "      %24 = arg {index=1} : f32[8]\n"
          "      %25 = matmul_grad_w %23, %24 : step f32[1,8]\n"
          "      %26 = update %25 {w=w} : none\n"
          "    }\n",
     "fused in func 'train': doesn't stand in a region"},
};

static void test_verifier(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof regions / sizeof *regions; i++) {
        Fx fx = fx_new();
        const char *text = arena_printf(
            fx.arena, "%sfunc %s {\n%s  %%8 = fused %s {kind=\"%s\"} : %s {\n%s  }\n}\n", head,
            regions[i].func, nodes, regions[i].operands, regions[i].kind, regions[i].type, regions[i].body);
        IrProgram *p = fx_read(&fx, text);
        const char *said = fx_messages(&fx);
        if (regions[i].error ? p || !strstr(said, regions[i].error) : !p)
            fail_msg("expected %s, found %s, of:\n%s", regions[i].error ? regions[i].error : "no error", said,
                     text);
        if (p) {
            const char *once = fx_print(&fx, p);
            Fx again = fx_new();
            assert_string_equal(fx_print(&again, fx_program(&again, once)), once);
            fx_free(&again);
        }
        fx_free(&fx);
    }
}

/* A weight moves when the loss is known to be finite, and nothing reads it any more. */
static void test_phases(void **state) {
    (void)state;
    static const char *const errors[] = {NULL, "expected a phase behind that of %5 loss, found 1 and 1",
                                         "expected a phase behind that of %40 mul, found 2 and 3"};
    for (int i = 0; i < 3; i++) {
        Fx fx = fx_new();
        const char *late = i == 2 ? "  %40 = mul %3, %3 : always f32[1,8] #phase=3 domain=one block=1\n" : "";
        const char *text = arena_printf(
            fx.arena,
            "%sfunc train {\n"
            "  %%0 = column {col=x} : f32[1] #phase=0\n"
            "  %%1 = const {value=[1], shape=[8]} : always f32[8] #phase=0\n"
            "  %%2 = mul %%0, %%1 : f32[8] #phase=0 domain=rows block=64 kernel=loop\n"
            "  %%3 = weight {w=w} : always f32[1,8] #phase=0\n"
            "  %%4 = mean_rows %%0 : step f32[1] #phase=1 domain=one block=1 kernel=loop\n"
            "  %%5 = loss %%4 {name=\"total\"} : none #phase=1 domain=one block=1 kernel=loop\n"
            "  %%8 = fused %%0, %%2 {kind=\"update\"} : none #phase=%d domain=tiles block=1 kernel=tile {\n%s"
            "    %%31 = update %%30 {w=w} : none\n"
            "  }\n%s}\n",
            head, i == 1 ? 1 : 2, ARGS SUM, late);
        IrProgram *p = fx_read(&fx, text);
        if (!errors[i] != !!p || (errors[i] && !strstr(fx_messages(&fx), errors[i])))
            fail_msg("case %d: %s\n%s", i, fx_messages(&fx), text);
        fx_free(&fx);
    }
}

/* ---- the same bits ---- */

/* Tiles with and without a whole last panel and strip, of one and of several groups of panels; by rows and by
 * positions, which take several blocks of rows; narrow ones, the library's, sums over rows; a weight used
 * twice. */
static const char model[] = "ctrc-ir 1\n"
                            "model m\n"
                            "source \"m.ctr\"\n"
                            "axis h list\n"
                            "input csv separator=\",\"\n"
                            "column y label used\n"
                            "column x float used used_predict\n"
                            "column v float list=\";\" axis=h used used_predict\n"
                            "%s\n"
                            "weight wide [1,530] uniform(1) trainable optimizer=0\n"
                            "weight tall [530,20] uniform(0.1) trainable optimizer=0\n"
                            "weight bias [20] zeros trainable optimizer=0\n"
                            "weight p1 [1,24] uniform(1) trainable optimizer=0\n"
                            "weight p2 [24,16] uniform(0.5) trainable optimizer=0\n"
                            "weight pbias [16] zeros trainable optimizer=0\n"
                            "weight twice [20,20] uniform(0.3) trainable optimizer=0\n"
                            "weight six [16,6] uniform(0.5) trainable optimizer=0\n"
                            "weight out1 [20,1] uniform(0.5) trainable optimizer=0\n"
                            "weight out2 [6,1] uniform(0.5) trainable optimizer=0\n"
                            "train batch=150 epochs=1 steps=0 shuffle=0 seed=3\n"
                            "func model {\n"
                            "  %%0 = column {col=y} : f32[1]\n"
                            "  %%1 = column {col=x} : f32[1]\n"
                            "  %%2 = column {col=v} : f32[~h,1]\n"
                            "  %%3 = weight {w=wide} : always f32[1,530]\n"
                            "  %%4 = weight {w=tall} : always f32[530,20]\n"
                            "  %%5 = weight {w=bias} : always f32[20]\n"
                            "  %%6 = weight {w=p1} : always f32[1,24]\n"
                            "  %%7 = weight {w=p2} : always f32[24,16]\n"
                            "  %%8 = weight {w=pbias} : always f32[16]\n"
                            "  %%9 = weight {w=twice} : always f32[20,20]\n"
                            "  %%10 = weight {w=six} : always f32[16,6]\n"
                            "  %%11 = weight {w=out1} : always f32[20,1]\n"
                            "  %%12 = weight {w=out2} : always f32[6,1]\n"
                            "  %%20 = matmul %%1, %%3 {ta=0, tb=0} : f32[530]\n"
                            "  %%21 = tanh %%20 : f32[530]\n"
                            "  %%22 = matmul %%21, %%4 {ta=0, tb=0} : f32[20]\n"
                            "  %%23 = add %%22, %%5 : f32[20]\n"
                            "  %%24 = tanh %%23 : f32[20]\n"
                            "  %%25 = matmul %%24, %%9 {ta=0, tb=0} : f32[20]\n"
                            "  %%26 = tanh %%25 : f32[20]\n"
                            "  %%27 = matmul %%26, %%9 {ta=0, tb=0} : f32[20]\n"
                            "  %%28 = matmul %%27, %%11 {ta=0, tb=0} : f32[1]\n"
                            "  %%31 = matmul %%2, %%6 {ta=0, tb=0} : f32[~h,24]\n"
                            "  %%32 = tanh %%31 : f32[~h,24]\n"
                            "  %%33 = matmul %%32, %%7 {ta=0, tb=0} : f32[~h,16]\n"
                            "  %%34 = add %%33, %%8 : f32[~h,16]\n"
                            "  %%35 = tanh %%34 : f32[~h,16]\n"
                            "  %%36 = seg_mean %%35 : f32[16]\n"
                            "  %%37 = matmul %%36, %%10 {ta=0, tb=0} : f32[6]\n"
                            "  %%38 = tanh %%37 : f32[6]\n"
                            "  %%39 = matmul %%38, %%12 {ta=0, tb=0} : f32[1]\n"
                            "  %%40 = add %%28, %%39 : f32[1]\n"
                            "  %%41 = bce_logits %%40, %%0 : f32[1]\n"
                            "  %%42 = sigmoid %%40 : f32[1]\n"
                            "  %%43 = predict %%42 {name=\"p\"} : none\n"
                            "  %%44 = loss %%41 {name=\"loss\"} : none\n"
                            "}\n";

static const char *const optimizers[] = {
    "optimizer 0 sgd lr=0.1 l2=0.01",
    "optimizer 0 momentum lr=0.1 l2=0.01 momentum=0.9",
    "optimizer 0 adagrad lr=0.1 l2=0.01 init=0.1",
    "optimizer 0 adagrad_decay lr=0.1 l2=0.01 init=0.1 every=2 rate=0.5",
    "optimizer 0 rmsprop lr=0.01 l2=0.01 rho=0.9 eps=0.01",
    "optimizer 0 adam lr=0.01",
    "optimizer 0 adam_async lr=0.01 l2=0.01",
    "optimizer 0 ftrl lr=0.1 l2=0.01 init=0.1 l1_ftrl=0.01 l2_ftrl=0.1",
};

enum { WEIGHTS = 10 };

typedef struct {
    Jit *jit;
    RtModel *m;
    IrProgram *p;
} Compiled;

static Compiled compile(Fx *fx, const char *text, const char *updates, int codegen) {
    char err[512];
    PassArg fuse = {"fuse", updates};
    PassOptions o = {.level = 2, .out = stdout, .enable = &fuse, .n_enable = 1, .verify_each = true};
    Compiled c = {.p = fx_program(fx, text)};
    if (!backend_target(c.p->diag, "native", &o.target) || !pass_run_all(c.p, &o))
        fail_msg("%s", fx_messages(fx));
    c.jit = jit_new(c.p, "native", codegen, err, sizeof err);
    if (!c.jit || !(c.m = jit_model(c.jit, err, sizeof err))) fail_msg("%s", err);
    return c;
}

static void release(Compiled *c) {
    rt_model_free(c->m);
    jit_free(c->jit);
}

static int regions_of(const IrProgram *p) {
    const IrBody *b = &ir_func(p, "train")->body;
    int n = 0;
    for (int i = 0; i < b->n; i++) n += ir_is_update_region(b->nodes[i]);
    return n;
}

/* Weights and slots after some steps, one after another. Returns how many numbers. */
static size_t trained(const Compiled *c, uint32_t threads, float *out, size_t room) {
    static const struct {
        uint32_t rows;
        RandomLists lists;
    } shapes[] = {{150, LISTS_MIXED}, {7, LISTS_MIXED}, {150, LISTS_LONG}, {64, LISTS_EMPTY}};
    char err[512];
    size_t n = 0;
    uint64_t rng = 99;
    RtTables *tables = rt_tables_new(c->m, 3, err, sizeof err);
    RtExec *x = tables ? rt_exec_new(c->m, tables, threads, err, sizeof err) : NULL;
    if (!x) fail_msg("%s", err);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        RtBatch *b = random_batch_new(c->m, &rng, shapes[s].rows, shapes[s].lists);
        random_batch_bind(b, tables, true);
        rt_exec_batch(x, b);
        assert_true(rt_exec_run(x, RT_TRAIN, (RtStepFn)jit_program(c->jit)->train));
        random_batch_free(b);
    }
    for (int w = 0; w < c->m->n_weights; w++)
        for (int part = 0; part <= c->m->weights[w].n_slots; part++) {
            uint64_t size = c->m->weights[w].size;
            assert_true(n + size <= room);
            memcpy(out + n, rt_tables_dense(tables, w, part), size * sizeof *out);
            n += size;
        }
    rt_exec_free(x);
    rt_tables_free(tables);
    return n;
}

static void test_bits(void **state) {
    (void)state;
    enum { ROOM = 100000 };
    float *apart = calloc(ROOM, sizeof *apart), *joined = calloc(ROOM, sizeof *joined);
    assert_true(apart && joined);
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        Fx fx = fx_new(), fx2 = fx_new();
        const char *text = arena_printf(fx.arena, model, optimizers[i]);
        /* LLVM's optimisation takes most of the time: of the first one alone, unless asked for all */
        int codegen = getenv("CTRC_NIGHTLY") || (i == 0 && !getenv("CTRC_TEST_LIGHT")) ? 2 : JIT_QUICK;
        Compiled a = compile(&fx, text, "updates=none", codegen),
                 b = compile(&fx2, text, "updates=all", codegen);
        assert_int_equal(regions_of(a.p), 0);
        assert_int_equal(regions_of(b.p), WEIGHTS);
        size_t n = trained(&a, 1, apart, ROOM);
        for (uint32_t threads = 1; threads <= 3; threads++) {
            assert_int_equal(trained(&b, threads, joined, ROOM), n);
            for (size_t k = 0; k < n; k++)
                if (memcmp(&apart[k], &joined[k], sizeof *apart))
                    fail_msg("%s: number %zu at %u threads: %.9g apart, %.9g joined", optimizers[i], k,
                             threads, (double)apart[k], (double)joined[k]);
        }
        release(&a);
        release(&b);
        fx_free(&fx);
        fx_free(&fx2);
    }
    free(apart);
    free(joined);
}

/* ---- check mode ---- */

/* Each position's part of the gradient is finite, their sum isn't; nor is the loss wrong, as w is zero. */
static const char overflowing[] = "ctrc-ir 1\n"
                                  "model m\n"
                                  "source \"m.ctr\"\n"
                                  "axis h list\n"
                                  "input csv separator=\",\"\n"
                                  "column y label used\n"
                                  "column v float list=\";\" axis=h used used_predict\n"
                                  "%s\n"
                                  "weight w [1,16] zeros trainable optimizer=0\n"
                                  "train batch=150 epochs=1 steps=0 shuffle=0 seed=3\n"
                                  "func model {\n"
                                  "  %%0 = column {col=y} : f32[1]\n"
                                  "  %%1 = column {col=v} : f32[~h,1]\n"
                                  "  %%3 = square %%1 : f32[~h,1]\n"
                                  "  %%4 = weight {w=w} : always f32[1,16]\n"
                                  "  %%5 = matmul %%3, %%4 {ta=0, tb=0} : f32[~h,16]\n"
                                  "  %%6 = seg_sum %%5 : f32[16]\n"
                                  "  %%7 = sum %%6 {axis=0, keep=0} : f32[1]\n"
                                  "  %%8 = const {value=[3e38], shape=[1]} : always f32[1]\n"
                                  "  %%9 = mul %%7, %%8 : f32[1]\n"
                                  "  %%10 = predict %%7 {name=\"p\"} : none\n"
                                  "  %%11 = loss %%9 {name=\"loss\"} : none\n"
                                  "}\n";

static void test_check(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        Fx fx = fx_new();
        char err[512];
        uint64_t rng = 7;
        Compiled c =
            compile(&fx, arena_printf(fx.arena, overflowing, optimizers[i]), "updates=all", JIT_QUICK);
        assert_int_equal(regions_of(c.p), 1);
        RtTables *tables = rt_tables_new(c.m, 3, err, sizeof err);
        RtExec *x = rt_exec_new(c.m, tables, 1, err, sizeof err);
        RtBatch *b = random_batch_new(c.m, &rng, 150, LISTS_LONG);
        random_batch_bind(b, tables, true);
        rt_exec_batch(x, b);
        rt_exec_find_nan(x, (RtStepFn)jit_program(c.jit)->train);
        assert_true(x->check.found);
        const char *op = "";
        for (int k = 0; k < c.m->fn[RT_TRAIN].n_nodes; k++)
            if ((uint32_t)c.m->fn[RT_TRAIN].nodes[k].id == x->check.op) op = c.m->fn[RT_TRAIN].nodes[k].op;
        assert_non_null(strstr(op, "matmul_grad_w"));
        assert_non_null(strstr(op, "+update"));
        rt_exec_free(x);
        rt_tables_free(tables);
        random_batch_free(b);
        release(&c);
        fx_free(&fx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_verifier), cmocka_unit_test(test_phases),
                                       cmocka_unit_test(test_bits), cmocka_unit_test(test_check)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
