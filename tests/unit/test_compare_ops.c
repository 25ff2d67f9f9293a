/* Compiled code against the reference interpreter, op by op: each case of op_cases.h is compiled without and
 * with the exact passes, run by the runtime over ragged batches (full, short, a single row, all lists empty,
 * long lists) at 1, 2 and 3 threads, and must give the same bits at each, and what the interpreter gives up
 * to fp32's rounding: losses, predictions, weights and optimizer slots. At the end every op must have been
 * met in what was compiled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "backend/backend.h"
#include "backend/interp.h"
#include "runtime/exec.h"
#include "tests/tools/batch_bridge.h"
#include "tests/tools/emulate.h"
#include "tests/tools/jit.h"
#include "tests/tools/op_cases.h"
#include "tests/tools/random_batch.h"

static bool met[OP_COUNT]; /* in a function that was compiled */
static int cases_run;
static FILE *nowhere; /* /dev/null */

/* ---- what a run leaves behind: numbers in a fixed order, in labelled parts ---- */

typedef struct {
    double *v;
    size_t n, cap;
    struct {
        char label[80];
        size_t begin;
    } * part;
    size_t n_parts, cap_parts;
} Trace;

static void trace_part(Trace *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void trace_part(Trace *t, const char *fmt, ...) {
    if (t->n_parts == t->cap_parts)
        t->part = realloc(t->part, sizeof *t->part * (t->cap_parts = 2 * t->cap_parts + 64));
    if (!t->part) abort();
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->part[t->n_parts].label, sizeof t->part->label, fmt, ap);
    va_end(ap);
    t->part[t->n_parts++].begin = t->n;
}

static void trace_add(Trace *t, double v) {
    if (t->n == t->cap) t->v = realloc(t->v, sizeof *t->v * (t->cap = 2 * t->cap + 1024));
    if (!t->v) abort();
    t->v[t->n++] = v;
}

static void trace_floats(Trace *t, const float *v, size_t n) {
    for (size_t i = 0; i < n; i++) trace_add(t, v[i]);
}

static void trace_free(Trace *t) {
    free(t->v);
    free(t->part);
    *t = (Trace){0};
}

/* ---- a case's batches ---- */

static const struct {
    uint32_t rows;
    RandomLists lists;
} shapes[] = {{OP_CASE_BATCH, LISTS_MIXED}, {7, LISTS_MIXED}, {1, LISTS_MIXED}, {64, LISTS_EMPTY},
              {OP_CASE_BATCH, LISTS_LONG},  {33, LISTS_MIXED}};
enum { STEPS = sizeof shapes / sizeof *shapes };

typedef struct {
    char name[120];
    IrProgram *p;
    const RtModel *m;
    const RtProgram *program;
    RtBatch *batch[STEPS];
} Run;

enum { SAMPLE = 1 << 16 }; /* of a larger table the touched rows are compared */

/* ---- by the compiled program ---- */

static void trace_rows(Trace *t, RtTables *tables, const RtWeight *w, int number) {
    uint64_t n = rt_tables_rows(tables, number), width = rt_tables_width(tables, number);
    uint32_t *ids = n > SAMPLE ? rt_tables_touched_ids(tables, number, &n) : NULL;
    float *row = malloc(sizeof *row * width);
    for (int part = 0; part <= w->n_slots; part++) {
        trace_part(t, "%s%s%s", w->name, part ? "/" : "", part ? w->slots[part - 1] : "");
        for (uint64_t i = 0; i < n; i++) {
            rt_tables_get_row(tables, number, ids ? ids[i] : (uint32_t)i, part, row);
            trace_floats(t, row, width);
        }
    }
    free(row);
    free(ids);
}

/* The accumulators of a lazy weight that is kept whole catch up with missed decays when their row is next
 * touched, so what they hold in between is not compared; the weights, which they divide, are. */
static bool catches_up_late(const RtModel *m, const RtWeight *w, int part) {
    return part && w->lazy && !w->sparse && m->opts[w->optimizer].kind == RT_ADAGRAD_DECAY;
}

static void trace_weights(Trace *t, RtTables *tables, const RtModel *m) {
    for (int i = 0; i < m->n_weights; i++) {
        const RtWeight *w = &m->weights[i];
        if (w->sparse) {
            trace_rows(t, tables, w, i);
            continue;
        }
        for (int part = 0; part <= w->n_slots; part++) {
            trace_part(t, "%s%s%s", w->name, part ? "/" : "", part ? w->slots[part - 1] : "");
            if (!catches_up_late(m, w, part))
                trace_floats(t, rt_tables_dense(tables, i, part), w->size > 10 * SAMPLE ? SAMPLE : w->size);
        }
    }
}

static void trace_outputs(Trace *t, const RtExec *x, int function, uint32_t rows, int step) {
    for (int k = 0; k < x->m->n_predictions; k++) {
        trace_part(t, "step %d: prediction %s", step, x->m->predictions[k].name);
        trace_floats(t, rt_exec_output(x, function, x->m->predictions[k].output[function]), rows);
    }
}

static void run_compiled(const Run *r, uint32_t threads, Trace *t) {
    char err[512];
    RtTables *tables = rt_tables_new(r->m, (uint64_t)r->p->seed, err, sizeof err);
    RtExec *x = tables ? rt_exec_new(r->m, tables, threads, err, sizeof err) : NULL;
    if (!x) fail_msg("%s: %s", r->name, err);
    for (int s = 0; s < STEPS; s++) {
        RtBatch *b = r->batch[s];
        random_batch_bind(b, tables, true);
        rt_exec_batch(x, b);
        if (!rt_exec_run(x, RT_TRAIN, (RtStepFn)r->program->train))
            fail_msg("%s: step %d: loss %g", r->name, s, (double)x->loss);
        trace_part(t, "step %d: loss", s);
        trace_add(t, x->loss);
        trace_outputs(t, x, RT_TRAIN, b->rows, s);
    }
    for (int f = RT_EVAL; f <= RT_PREDICT; f++)
        for (int s = 0; s < STEPS; s++) {
            random_batch_bind(r->batch[s], tables, false);
            rt_exec_batch(x, r->batch[s]);
            rt_exec_run(x, f, (RtStepFn)(f == RT_EVAL ? r->program->eval : r->program->predict));
            trace_part(t, "%s %d: loss", f == RT_EVAL ? "eval" : "predict", s);
            if (f == RT_EVAL) trace_add(t, x->loss);
            trace_outputs(t, x, f, r->batch[s]->rows, s);
        }
    trace_weights(t, tables, r->m);
    rt_exec_free(x);
    rt_tables_free(tables);
}

/* ---- by the interpreter ---- */

static void trace_interp_outputs(Trace *t, const Interp *it, const Run *r, const char *func, int step) {
    const IrFunc *f = ir_func(r->p, func);
    for (int k = 0; k < r->m->n_predictions; k++)
        for (int i = 0; i < f->body.n; i++) {
            const IrNode *n = f->body.nodes[i];
            if (n->op != OP_PREDICT || strcmp(ir_attr_s(n, "name"), r->m->predictions[k].name) != 0) continue;
            const InterpValue *v = interp_value(it, n);
            trace_part(t, "step %d: prediction %s", step, r->m->predictions[k].name);
            for (int64_t e = 0; e < v->count * v->size; e++) trace_add(t, v->v[e]);
        }
}

/* The same elements of each weight as in trace_weights; which rows were touched is taken from the batches. */
static void trace_interp_weights(Trace *t, Interp *it, const Run *r) {
    for (int w = 0; w < r->m->n_weights; w++) {
        const RtWeight *rw = &r->m->weights[w];
        uint64_t rows = rw->rank ? (uint64_t)rw->dim[0] : 1, width = rw->size / rows;
        bool sampled = rw->sparse && rows > SAMPLE;
        char *touched = calloc(rows, 1);
        for (int s = 0; sampled && s < STEPS; s++)
            for (uint32_t i = 0; i < r->batch[s]->tables[w].n; i++)
                touched[((const uint32_t *)r->batch[s]->tables[w].id)[i]] = 1;
        for (int part = 0; part <= rw->n_slots; part++) {
            const double *v = part ? interp_slot(it, w, part - 1) : interp_weight(it, w);
            trace_part(t, "%s%s%s", rw->name, part ? "/" : "", part ? rw->slots[part - 1] : "");
            uint64_t whole = rw->size > 10 * SAMPLE ? SAMPLE : rw->size;
            for (uint64_t i = 0; i < (sampled ? rw->size : whole) && !catches_up_late(r->m, rw, part); i++)
                if (!sampled || touched[i / width]) trace_add(t, v[i]);
        }
        free(touched);
    }
}

static void run_interpreter(const Run *r, Trace *t) {
    Interp *it = interp_new(r->p, (uint64_t)r->p->seed);
    for (int w = 0; w < r->m->n_weights; w++) {
        const RtWeight *rw = &r->m->weights[w];
        float *v = malloc(sizeof *v * rw->size);
        rt_init_values(rw, (uint64_t)r->p->seed, 0, rw->size, v);
        for (uint64_t i = 0; i < rw->size; i++) interp_weight(it, w)[i] = (double)v[i];
        free(v);
    }
    Bridge *bridge = bridge_new(r->p, r->m);
    for (int s = 0; s < STEPS; s++) {
        if (!interp_run(it, "train", bridge_batch(bridge, r->batch[s])))
            fail_msg("%s: the interpreter failed", r->name);
        trace_part(t, "step %d: loss", s);
        trace_add(t, interp_loss(it));
        trace_interp_outputs(t, it, r, "train", s);
    }
    for (int f = 0; f < 2; f++)
        for (int s = 0; s < STEPS; s++) {
            const char *func = f == 0 ? "eval" : "predict";
            if (!interp_run(it, func, bridge_batch(bridge, r->batch[s])))
                fail_msg("%s: the interpreter failed", r->name);
            trace_part(t, "%s %d: loss", func, s);
            if (f == 0) trace_add(t, interp_loss(it));
            trace_interp_outputs(t, it, r, func, s);
        }
    trace_interp_weights(t, it, r);
    bridge_free(bridge);
    interp_free(it);
}

/* ---- comparing ---- */

static const char *label_at(const Trace *t, size_t i, size_t *within) {
    size_t k = 0;
    while (k + 1 < t->n_parts && t->part[k + 1].begin <= i) k++;
    *within = i - t->part[k].begin;
    return t->part[k].label;
}

static void same_bits(const Run *r, const char *what_a, const Trace *a, const char *what_b, const Trace *b) {
    size_t within;
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++)
        if (memcmp(&a->v[i], &b->v[i], sizeof(double)) != 0) {
            const char *label = label_at(a, i, &within);
            fail_msg("%s: %s [%zu]: %s: %.9g, %s: %.9g", r->name, label, within, what_a, a->v[i], what_b,
                     b->v[i]);
        }
}

/* Up to fp32's rounding, which is relative to the largest value of a part. */
static void close_to(const Run *r, const Trace *got, const Trace *want) {
    if (got->n != want->n || got->n_parts != want->n_parts)
        fail_msg("%s: expected %zu values, found %zu", r->name, want->n, got->n);
    for (size_t k = 0; k < want->n_parts; k++) {
        size_t begin = want->part[k].begin, end = k + 1 < want->n_parts ? want->part[k + 1].begin : want->n;
        double most = 0;
        assert_string_equal(want->part[k].label, got->part[k].label);
        for (size_t i = begin; i < end; i++) most = fmax(most, fabs(want->v[i]));
        for (size_t i = begin; i < end; i++)
            if (!(fabs(got->v[i] - want->v[i]) <= 5e-5 * most + 2e-6))
                fail_msg("%s: %s [%zu]: interpreter: %.9g, compiled: %.9g", r->name, want->part[k].label,
                         i - begin, want->v[i], got->v[i]);
    }
}

/* ---- running a case ---- */

static void mark_met(const IrBody *b) {
    for (int i = 0; i < b->n; i++) {
        met[b->nodes[i]->op] = true;
        if (b->nodes[i]->body) mark_met(b->nodes[i]->body);
    }
}

/* `quick`: what the same program left behind, made by the quick code generator; NULL: leaves it in *kept. */
static void run_all(Run *r, const Trace *quick, Trace *kept) {
    Trace one = {0}, want = {0};
    uint64_t rng = 12345;
    for (int s = 0; s < STEPS; s++)
        r->batch[s] = random_batch_new(r->m, &rng, shapes[s].rows, shapes[s].lists);
    run_compiled(r, 1, &one);
    if (quick) same_bits(r, "quick code", quick, "optimised code", &one);
    for (uint32_t threads = 2; threads <= 3; threads++) {
        Trace more = {0};
        run_compiled(r, threads, &more);
        same_bits(r, "1 thread", &one, threads == 2 ? "2 threads" : "3 threads", &more);
        trace_free(&more);
    }
    run_interpreter(r, &want);
    close_to(r, &one, &want);
    for (int s = 0; s < STEPS; s++) random_batch_free(r->batch[s]);
    trace_free(kept);
    *kept = one;
    trace_free(&want);
}

/* How a case is compiled: with the exact passes, with none, in three micro-batches a step (which fall on no
 * tile's border), each by the quick code generator, as LLVM takes nearly all of the time; and with the exact
 * passes as ctrc does it, which must give the same bits. */
static const PassArg blocks[] = {{"micro-batch", "n=3"}};
typedef enum {
    PASSES,
    OPTIMISED,
    NO_PASSES,
    IN_BLOCKS,
    BY_AMX, /* programs with products of bfloat16 */
    WAYS
} Way; /* OPTIMISED is held against what ran before it */
static const struct {
    int level, n_enable, codegen;
    const char *name, *march;
} ways[WAYS] = {{2, 0, JIT_QUICK, "-O2", "native"},
                {2, 0, 2, "-O2, optimised", "native"},
                {0, 0, JIT_QUICK, "-O0", "native"},
                {2, 1, JIT_QUICK, "-O2 in blocks", "native"},
                {2, 0, JIT_QUICK, "-O2 for AMX", "sapphirerapids"}};

/* Micro-batches cut the sums over rows, which are few and in most cases; LLVM meets the same few shapes of
 * loop in all: a third and a twelfth of the cases, unless asked for all. CTRC_TEST_LIGHT (set in the
 * sanitizers' tree, whose sanitizers don't see into generated code): the exact passes only. */
static bool left_out(Way way, int number) {
    if (getenv("CTRC_TEST_CASE") || getenv("CTRC_NIGHTLY")) return false;
    if (getenv("CTRC_TEST_LIGHT")) return way != PASSES && way != BY_AMX;
    return (way == IN_BLOCKS && number % 3) || (way == OPTIMISED && number % 12);
}

/* Leaves what it ran to in *kept, against which OPTIMISED is held. */
static void run_case(IrProgram *p, Way way, const char *name, Trace *kept) {
    Run r = {.p = p};
    char err[512];
    PassOptions o = {
        .level = ways[way].level, .out = stdout, .enable = blocks, .n_enable = ways[way].n_enable};
    snprintf(r.name, sizeof r.name, "%s %s", name, ways[way].name);
    if (getenv("CTRC_TEST_VERBOSE")) fprintf(stderr, "%s\n", r.name);
    if (o.n_enable) p->diag->out = nowhere; /* that micro-batches change batch normalisation is known here */
    if (!backend_target(p->diag, ways[way].march, &o.target) || !pass_run_all(p, &o) || !ir_verify(p))
        fail_msg("%s: the passes failed", r.name);
    if (getenv("CTRC_TEST_PRINT")) ir_print(p, stderr);
    for (int i = 0; i < p->n_funcs; i++) mark_met(&p->funcs[i]->body);
    Jit *j = jit_new(p, ways[way].march, ways[way].codegen, err, sizeof err);
    if (!j) fail_msg("%s: %s", r.name, err);
    RtModel *m = jit_model(j, err, sizeof err);
    if (!m) fail_msg("%s: %s", r.name, err);
    r.m = m;
    r.program = jit_program(j);
    int64_t before = amx_products();
    run_all(&r, way == OPTIMISED ? kept : NULL, kept);
    assert_true((way == BY_AMX) == (amx_products() > before));
    rt_model_free(m);
    jit_free(j);
    cases_run++;
}

static bool has_bf16(const IrProgram *p) {
    const IrBody *b = &ir_func(p, "model")->body;
    for (int i = 0; i < b->n; i++)
        if (ir_product_of(b->nodes[i]) && ir_takes_bf16(b->nodes[i])) return true;
    return false;
}

static bool has_values(const IrProgram *p) {
    const IrBody *b = &ir_func(p, "model")->body;
    for (int i = 0; i < b->n; i++)
        if (b->nodes[i]->op == OP_PREDICT) return true;
    return false;
}

/* A program, built anew for each way, as passes rewrite it; NULL after the last. */
typedef IrProgram *MakeCase(Arena *a, Diag *d, int number, const char *only, const char **what);

static void run_cases(MakeCase *make, const char *only) {
    Trace kept = {0};
    bool more = true;
    for (int number = 0; more; number++)
        for (Way way = 0; way < WAYS && more; way++) {
            if (left_out(way, number)) continue;
            const char *what;
            Arena *a = arena_new();
            Diag *d = diag_new(a, stderr);
            IrProgram *p = make(a, d, number, only, &what);
            if (d->errors) fail_msg("case %d is wrong", number);
            if (p && has_values(p) && (way != BY_AMX || has_bf16(p))) run_case(p, way, what, &kept);
            more = p;
            arena_free(a);
        }
    trace_free(&kept);
}

static IrProgram *optimizer_case(Arena *a, Diag *d, int number, const char *only, const char **what) {
    IrProgram *p = op_case_optimizer(a, d, number, what);
    if (p && only && strncmp(*what, only, strlen(only)) != 0) ir_func(p, "model")->body.n = 0; /* no values */
    return p;
}

/* CTRC_TEST_CASE=relu_1: only the values whose names begin so. */
static void test_ops(void **state) {
    (void)state;
    run_cases(op_case_group, getenv("CTRC_TEST_CASE"));
}

/* CTRC_TEST_OPTIMIZER=adam: only those whose names begin so. */
static void test_optimizers(void **state) {
    (void)state;
    run_cases(optimizer_case, getenv("CTRC_TEST_OPTIMIZER"));
}

/* Ops that no generated code computes: the reader's (its own tests cover them), and two that differentiate
 * takes out: batchnorm as the frontend writes it, and stop_gradient. */
static bool not_compiled(IrOp op) {
    return ir_ops[op].cls == CLASS_READ || op == OP_BATCHNORM || op == OP_STOPGRAD;
}

static void test_every_op_was_met(void **state) {
    (void)state;
    if (getenv("CTRC_TEST_CASE") || getenv("CTRC_TEST_OPTIMIZER")) skip();
    if (getenv("CTRC_TEST_LIGHT")) { /* some ops stand only in programs without the exact passes */
        print_message(
            "skipped: CTRC_TEST_LIGHT compiles with the exact passes only; without it all are met\n");
        skip();
    }
    for (int op = 0; op < OP_COUNT; op++)
        if (!met[op] && !not_compiled((IrOp)op))
            fail_msg("op '%s' was in none of %d cases", ir_ops[op].text, cases_run);
}

int main(void) {
    nowhere = fopen("/dev/null", "w");
    if (!nowhere) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ops), cmocka_unit_test(test_optimizers),
                                       cmocka_unit_test(test_every_op_was_met)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
