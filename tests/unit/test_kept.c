/* What eval and predict make of weights alone: made once, kept from run to run, and made anew when a step has
 * changed the weights, when the other function ran, and when a value that is not finite is looked for. */
#include "test_ir_fixture.h"
#include <math.h>
#include "backend/backend.h"
#include "passes/pass.h"
#include "runtime/exec.h"
#include "tests/tools/jit.h"
#include "tests/tools/random_batch.h"

static const char model[] = "ctrc-ir 1\n"
                            "model m\n"
                            "source \"m.ctr\"\n"
                            "input csv separator=\",\"\n"
                            "column y label used\n"
                            "column x float used used_predict\n"
                            "optimizer 0 sgd lr=0.1\n"
                            "weight wide [1,48] uniform(1) trainable optimizer=0\n"
                            "weight tall [48,40] uniform(0.1) trainable optimizer=0\n"
                            "weight out [40,1] uniform(0.5) trainable optimizer=0\n"
                            "train batch=70 epochs=1 steps=0 shuffle=0 seed=3\n"
                            "func model {\n"
                            "  %0 = column {col=y} : f32[1]\n"
                            "  %1 = column {col=x} : f32[1]\n"
                            "  %2 = weight {w=wide} : always f32[1,48]\n"
                            "  %3 = weight {w=tall} : always f32[48,40]\n"
                            "  %4 = weight {w=out} : always f32[40,1]\n"
                            "  %5 = square %3 : always f32[48,40]\n"
                            "  %6 = matmul %1, %2 {ta=0, tb=0} : f32[48]\n"
                            "  %7 = tanh %6 : f32[48]\n"
                            "  %8 = matmul %7, %5 {ta=0, tb=0} : f32[40]\n"
                            "  %9 = tanh %8 : f32[40]\n"
                            "  %10 = matmul %9, %4 {ta=0, tb=0} : f32[1]\n"
                            "  %11 = bce_logits %10, %0 : f32[1]\n"
                            "  %12 = sigmoid %10 : f32[1]\n"
                            "  %13 = predict %12 {name=\"p\"} : none\n"
                            "  %14 = loss %11 {name=\"loss\"} : none\n"
                            "}\n";
enum { TALL = 1, ROWS = 70 };

typedef struct {
    IrProgram *p;
    Jit *jit;
    RtModel *m;
    RtTables *tables;
    RtBatch *batch;
} World;

static World world(Fx *fx) {
    char err[512];
    uint64_t rng = 5;
    World w = {.p = fx_program(fx, model)};
    PassOptions o = {.level = 2, .out = stdout, .verify_each = true};
    if (!backend_target(w.p->diag, "native", &o.target) || !pass_run_all(w.p, &o))
        fail_msg("%s", fx_messages(fx));
    w.jit = jit_new(w.p, "native", JIT_QUICK, err, sizeof err);
    if (!w.jit || !(w.m = jit_model(w.jit, err, sizeof err))) fail_msg("%s", err);
    w.tables = rt_tables_new(w.m, 3, err, sizeof err);
    w.batch = random_batch_new(w.m, &rng, ROWS, LISTS_MIXED);
    random_batch_bind(w.batch, w.tables, true);
    return w;
}

static void release(World *w, Fx *fx) {
    random_batch_free(w->batch);
    rt_tables_free(w->tables);
    rt_model_free(w->m);
    jit_free(w->jit);
    fx_free(fx);
}

static RtExec *exec_of(const World *w, uint32_t threads) {
    char err[512];
    RtExec *x = rt_exec_new(w->m, w->tables, threads, err, sizeof err);
    if (!x) fail_msg("%s", err);
    return x;
}

static RtStepFn code(const World *w, int function) {
    const RtProgram *p = jit_program(w->jit);
    return (RtStepFn)(function == RT_TRAIN ? p->train : function == RT_EVAL ? p->eval : p->predict);
}

static void run(const World *w, RtExec *x, int function, float out[ROWS]) {
    rt_exec_batch(x, w->batch);
    assert_true(rt_exec_run(x, function, code(w, function)));
    if (out) memcpy(out, rt_exec_output(x, function, 0), ROWS * sizeof *out);
}

/* What a fresh executor makes of the weights as they stand. */
static void fresh(const World *w, int function, float out[ROWS]) {
    RtExec *x = exec_of(w, 1);
    run(w, x, function, out);
    rt_exec_free(x);
}

#define ASSERT_SAME(a, b) assert_memory_equal(a, b, sizeof(a))
#define ASSERT_OTHER(a, b) assert_memory_not_equal(a, b, sizeof(a))

static void test_kept(void **state) {
    (void)state;
    Fx fx = fx_new(); /* it must not move */
    World w = world(&fx);
    float *weight = rt_tables_dense(w.tables, TALL, 0);
    float want[ROWS], got[ROWS], other[ROWS];
    for (uint32_t threads = 1; threads <= 3; threads++) {
        RtExec *x = exec_of(&w, threads);
        fresh(&w, RT_EVAL, want);
        run(&w, x, RT_EVAL, got);
        ASSERT_SAME(got, want);
        weight[7] += 1; /* behind the executor's back: so it shows what was kept */
        fresh(&w, RT_EVAL, other);
        ASSERT_OTHER(other, want);
        run(&w, x, RT_EVAL, got);
        ASSERT_SAME(got, want);
        run(&w, x, RT_PREDICT, got); /* the other function keeps nothing of this one's */
        ASSERT_SAME(got, other);
        run(&w, x, RT_EVAL, got);
        ASSERT_SAME(got, other);
        run(&w, x, RT_TRAIN, NULL);
        fresh(&w, RT_EVAL, want);
        ASSERT_OTHER(other, want);
        run(&w, x, RT_EVAL, got);
        ASSERT_SAME(got, want);
        rt_exec_free(x);
    }
    release(&w, &fx);
}

static void test_look_for_nan(void **state) {
    (void)state;
    Fx fx = fx_new(); /* it must not move */
    World w = world(&fx);
    RtExec *x = exec_of(&w, 2);
    run(&w, x, RT_EVAL, NULL);
    run(&w, x, RT_EVAL, NULL);
    rt_tables_dense(w.tables, TALL, 0)[3] = NAN;
    rt_exec_find_nan(x, code(&w, RT_EVAL));
    assert_true(x->check.found);
    rt_exec_free(x);
    release(&w, &fx);
}

/* Nothing else may ever stand in a kept value's place. */
static void test_places(void **state) {
    (void)state;
    Fx fx = fx_new(); /* it must not move */
    World w = world(&fx);
    const IrFunc *f = ir_func(w.p, "eval");
    int kept = 0;
    for (int i = 0; i < f->body.n; i++) {
        const IrNode *n = f->body.nodes[i];
        if (!ir_is_kept(f, n)) continue;
        kept++;
        int64_t from = n->plan.offset, to = from + 4 * ir_place_elements(n);
        for (int k = 0; k < f->body.n; k++) {
            const IrNode *o = f->body.nodes[k];
            if (o == n || o->plan.region != REGION_FIXED || !ir_runs(o)) continue;
            assert_true(o->plan.offset >= to || o->plan.offset + 4 * ir_place_elements(o) <= from);
        }
    }
    assert_true(kept >= 2); /* the square, and a pack */
    const IrFunc *train = ir_func(w.p, "train");
    for (int i = 0; i < train->body.n; i++) assert_false(ir_is_kept(train, train->body.nodes[i]));
    release(&w, &fx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kept), cmocka_unit_test(test_look_for_nan),
                                       cmocka_unit_test(test_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
