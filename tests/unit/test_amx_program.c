/* A whole program as for a CPU with AMX, whose instructions are functions here (emulate.h): products of rows
 * and of positions, small ones a row, epilogues, weight gradients by themselves, in one visit with the update
 * and in micro-batches. It must give the same bits at any number of threads, and what the same program gives
 * by vdpbf16ps, up to the order of sums and what follows from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "backend/backend.h"
#include "frontend/compile.h"
#include "passes/pass.h"
#include "runtime/exec.h"
#include "tests/tools/emulate.h"
#include "tests/tools/jit.h"
#include "tests/tools/random_batch.h"

enum { BATCH = 150, STEPS = 4, FIELDS = 17 };
static const uint32_t rows[STEPS] = {BATCH, 47, BATCH, 1};

static void write_model(FILE *f) {
    fprintf(f, "model m\ninput csv() { y label; x float; l string list(\";\", axis = h, max = 40)");
    for (int i = 0; i < FIELDS; i++) fprintf(f, "; f%d string", i);
    fprintf(f, " }\nitems = table(90, 20)\nlist = embed(hash(l, 90), items)\nfields = [");
    for (int i = 0; i < FIELDS; i++) fprintf(f, "%sembed(hash(f%d, 90), items)", i ? ", " : "", i);
    fputs("]\ncrossed = dot_interaction(stack(fields))\n"
          "liked = sum(attention(fields[0], list, hidden = [36, 17]) * list)\n"
          "z = concat(x, crossed, liked, concat(fields)) |> mlp([130, 49, 16]) |> dense(1)\n"
          "predict p = sigmoid(z)\nloss bce_logits(z, y)\noptimizer sgd(lr = 0.05)\n"
          "train(batch = 150)\n",
          f);
    fclose(f);
}

typedef struct {
    Arena *a;
    Jit *jit;
    RtModel *m;
} Program;

static Program program(const char *passes) {
    char path[] = "/tmp/ctrc_amx_XXXXXX", err[512];
    write_model(fdopen(mkstemp(path), "w"));
    Program r = {.a = arena_new()};
    Diag *d = diag_new(r.a, stderr);
    IrProgram *p = frontend_compile(r.a, d, path, NULL, 0, CTRC_SOURCE_DIR "/frontend/lib");
    unlink(path);
    PassArg *enable = NULL;
    int n = 0;
    assert_true(pass_parse_args(r.a, d, passes, &enable, &n));
    PassOptions o = {.level = 2, .out = stdout, .enable = enable, .n_enable = n};
    d->out = fopen("/dev/null", "w"); /* that passes change the model is known here */
    if (!p || !backend_target(d, "sapphirerapids", &o.target) || !pass_run_all(p, &o)) fail_msg("%s", passes);
    r.jit = jit_new(p, "sapphirerapids", JIT_QUICK, err, sizeof err);
    if (!r.jit || !(r.m = jit_model(r.jit, err, sizeof err))) fail_msg("%s", err);
    fclose(d->out);
    return r;
}

static void release(Program *r) {
    rt_model_free(r->m);
    jit_free(r->jit);
    arena_free(r->a);
}

/* What steps of training leave: each one's predictions, then those of the last batch by `predict`. */
typedef struct {
    float p[STEPS + 1][BATCH];
} Result;

static void run(const Program *r, uint32_t threads, Result *out) {
    char err[512];
    uint64_t rng = 7;
    const RtProgram *code = jit_program(r->jit);
    RtTables *tables = rt_tables_new(r->m, 3, err, sizeof err);
    RtExec *x = tables ? rt_exec_new(r->m, tables, threads, err, sizeof err) : NULL;
    if (!x) fail_msg("%s", err);
    memset(out, 0, sizeof *out);
    for (int s = 0; s <= STEPS; s++) {
        bool train = s < STEPS;
        RtBatch *b = random_batch_new(r->m, &rng, train ? rows[s] : BATCH, LISTS_MIXED);
        random_batch_bind(b, tables, train);
        rt_exec_batch(x, b);
        assert_true(
            rt_exec_run(x, train ? RT_TRAIN : RT_PREDICT, (RtStepFn)(train ? code->train : code->predict)));
        memcpy(out->p[s], rt_exec_output(x, train ? RT_TRAIN : RT_PREDICT, 0), b->rows * sizeof(float));
        random_batch_free(b);
    }
    rt_exec_free(x);
    rt_tables_free(tables);
}

static double largest_difference(const Result *a, const Result *b) {
    double most = 0;
    for (int s = 0; s <= STEPS; s++)
        for (int i = 0; i < BATCH; i++) most = fmax(most, fabs((double)a->p[s][i] - (double)b->p[s][i]));
    return most;
}

static void check(const char *blocks) {
    char passes[128];
    snprintf(passes, sizeof passes, "mixed-precision%s", blocks);
    Program tiles = program(passes);
    snprintf(passes, sizeof passes, "mixed-precision, schedule(amx=off)%s", blocks);
    Program vectors = program(passes);
    Result by_tiles, by_vectors, again;
    run(&tiles, 1, &by_tiles);
    int64_t products = amx_products();
    assert_true(products > 1000 && amx_is_released());
    run(&vectors, 1, &by_vectors);
    assert_true(amx_products() == products);
    for (uint32_t threads = 2; threads <= 3; threads++) {
        run(&tiles, threads, &again);
        assert_memory_equal(&by_tiles, &again, sizeof again);
    }
    double most = largest_difference(&by_tiles, &by_vectors);
    print_message("by tiles and by vectors: %.2g apart\n", most);
    assert_true(most > 0 && most < 1e-5);
    release(&tiles), release(&vectors);
}

static void test_program(void **state) {
    (void)state;
    check("");
}
static void test_micro_batches(void **state) {
    (void)state;
    check(", micro-batch(n=3)");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_program), cmocka_unit_test(test_micro_batches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
