#include "runtime/exec.h"
#include <errno.h>
#include "runtime/message.h"
#include "runtime/norms.h"
#include "runtime/optimizer.h"
#include "runtime/profile.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ALIGN = 64, CAP_STEP = 16 };

static void *take(size_t n, size_t size) {
    void *p = calloc(n ? n : 1, size);
    if (!p) rt_out_of_memory();
    return p;
}
/* Of huge pages where it fills some: kernels walk rows that lie a small page apart, and a page of each would
 * not fit what the core remembers of the page tables. */
static char *arena(uint64_t bytes) {
    uint64_t align = bytes < RT_HUGE_PAGE ? ALIGN : RT_HUGE_PAGE, all = (bytes / align + 1) * align;
    char *p = aligned_alloc(align, all);
    if (!p) return NULL;
    if (align == RT_HUGE_PAGE) rt_ask_huge_pages(p, all);
    memset(p, 0, bytes); /* the pages are there before the first step */
    return p;
}

static void sizes(RtExec *x) {
    const RtModel *m = x->m;
    for (int f = 0; f < RT_FUNCTIONS_N; f++) {
        const RtFunction *fn = &m->fn[f];
        if (fn->fixed_bytes > x->fixed_bytes) x->fixed_bytes = fn->fixed_bytes;
        if (fn->scratch_bytes > x->scratch_bytes) x->scratch_bytes = fn->scratch_bytes;
        if (fn->row_block > x->row_block) x->row_block = fn->row_block;
        for (int i = 0; i < m->n_axes; i++) {
            if (fn->axis_elems[i] > x->axis_elems[i]) x->axis_elems[i] = fn->axis_elems[i];
            if (fn->local_elems[i] > x->local_elems[i]) x->local_elems[i] = fn->local_elems[i];
        }
        for (int i = 0; i < m->n_weights; i++)
            if (fn->uniq_elems[i] > x->uniq_elems[i]) x->uniq_elems[i] = fn->uniq_elems[i];
    }
}

static uint64_t cap_for(uint64_t n) { return (n + n / 4 + CAP_STEP) / CAP_STEP * CAP_STEP; }

static void renew(char **base, uint64_t bytes) {
    free(*base);
    if ((*base = arena(bytes))) return;
    fprintf(stderr, "error: out of memory: %llu bytes for the values of one batch\n",
            (unsigned long long)bytes);
    exit(1);
}

/* Makes room for n values of `elems` floats; what was there is not needed any more. */
static void room(char **base, uint64_t *cap, uint64_t elems, uint64_t n) {
    if (n <= *cap && *base) return;
    *cap = cap_for(n);
    renew(base, *cap * elems * sizeof(float));
}

/* A thread's arena for the positions of the rows that it is at: before its scratch, last axis first. */
static char **local_arena(const RtExec *x, uint32_t thread, int axis) {
    return (char **)x->scratch[thread] - 1 - axis;
}

/* Positions of the row_block rows in a row that have the most: blocks may begin anywhere. */
static uint64_t most_positions(const uint32_t *offsets, uint64_t rows, uint64_t row_block) {
    uint64_t most = 0;
    for (uint64_t lo = 0; lo < rows; lo++) {
        uint64_t hi = lo + row_block < rows ? lo + row_block : rows;
        if (offsets[hi] - offsets[lo] > most) most = offsets[hi] - offsets[lo];
        if (hi == rows) break;
    }
    return most;
}

static void local_room(RtExec *x, int axis, uint64_t n) {
    if (n <= x->local_cap[axis] && *local_arena(x, 0, axis)) return;
    x->local_cap[axis] = cap_for(n);
    for (uint32_t t = 0; t < rt_pool_threads(x->pool); t++)
        renew(local_arena(x, t, axis), x->local_cap[axis] * x->local_elems[axis] * sizeof(float));
}

/* Of the pointers before a thread's scratch. */
static uint64_t head_bytes(const RtExec *x) {
    return ((uint64_t)x->m->n_axes * sizeof(char *) + ALIGN - 1) / ALIGN * ALIGN;
}

static bool threads_and_scratch(RtExec *x, uint32_t threads, char *err, size_t err_bytes) {
    char reason[RT_SHOWN];
    x->scratch = take(threads, sizeof *x->scratch);
    bool ok = (x->step.fixed = arena(x->fixed_bytes));
    for (uint32_t i = 0; i < threads && ok; i++) {
        char *head = arena(head_bytes(x) + x->scratch_bytes);
        if (head) x->scratch[x->n_scratch++] = head + head_bytes(x);
        ok = head != NULL;
    }
    if (!ok)
        snprintf(err, err_bytes, "out of memory: %.1f MB for the values of a step",
                 (double)(x->fixed_bytes + threads * x->scratch_bytes) / 1e6);
    if (ok && !(x->pool = rt_pool_new(threads))) {
        snprintf(err, err_bytes, "cannot start %u threads: %s", threads, rt_reason(errno, reason));
        ok = false;
    }
    return ok;
}

RtExec *rt_exec_new(const RtModel *m, RtTables *tables, uint32_t threads, char *err, size_t err_bytes) {
    RtExec *x = take(1, sizeof *x);
    *x = (RtExec){.m = m, .tables = tables};
    x->opt = take(m->n_weights, sizeof *x->opt);
    x->axis_elems = take(m->n_axes, sizeof *x->axis_elems);
    x->local_elems = take(m->n_axes, sizeof *x->local_elems);
    x->local_cap = take(m->n_axes, sizeof *x->local_cap);
    x->uniq_elems = take(m->n_weights, sizeof *x->uniq_elems);
    x->axis_cap = take(m->n_axes, sizeof *x->axis_cap);
    x->uniq_cap = take(m->n_weights, sizeof *x->uniq_cap);
    x->axis_arena = take(m->n_axes, sizeof *x->axis_arena);
    x->uniq_arena = take(m->n_weights, sizeof *x->uniq_arena);
    sizes(x);
    if (!threads_and_scratch(x, threads, err, err_bytes)) {
        rt_exec_free(x);
        return NULL;
    }
    RtStep *s = &x->step;
    s->axis_arena = x->axis_arena;
    s->axis_cap = x->axis_cap;
    s->local_cap = x->local_cap;
    s->uniq_arena = x->uniq_arena;
    s->uniq_cap = x->uniq_cap;
    s->scratch = x->scratch;
    s->opt = x->opt;
    s->runtime = x;
    rt_tables_bind(tables, s);
    return x;
}

void rt_exec_free(RtExec *x) {
    if (!x) return;
    for (uint32_t t = 0; x->index && t < rt_pool_threads(x->pool); t++) rt_index_scratch_free(x->index[t]);
    free(x->index);
    rt_pool_free(x->pool);
    for (uint32_t t = 0; x->scratch && t < x->n_scratch; t++) {
        for (int i = 0; i < x->m->n_axes; i++) free(*local_arena(x, t, i));
        free(x->scratch[t] - head_bytes(x));
    }
    for (int i = 0; i < x->m->n_axes; i++) free(x->axis_arena[i]);
    for (int i = 0; i < x->m->n_weights; i++) free(x->uniq_arena[i]);
    free(x->scratch);
    free(x->step.fixed);
    free(x->opt);
    free(x->axis_elems);
    free(x->local_elems);
    free(x->local_cap);
    free(x->uniq_elems);
    free(x->axis_cap);
    free(x->uniq_cap);
    free(x->axis_arena);
    free(x->uniq_arena);
    free(x);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct {
    RtExec *x;
    RtBatch *b;
} Index;
static void index_rows(void *arg, uint32_t thread, uint32_t threads) {
    const Index *i = arg;
    (void)threads;
    uint64_t begun = rt_span();
    if (begun) rt_profile_step_thread(thread);
    rt_batch_index(i->b, i->x->index[thread]);
    rt_span_end(begun, "number rows");
}

/* What the reader left to us. */
static void index_batch(RtExec *x, RtBatch *b) {
    double start = now();
    if (!x->index) {
        x->index = take(rt_pool_threads(x->pool), sizeof *x->index);
        for (uint32_t t = 0; t < rt_pool_threads(x->pool); t++) x->index[t] = rt_index_scratch_new(x->m);
    }
    for (uint32_t t = 0; t < rt_pool_threads(x->pool); t++) rt_index_reserve(x->index[t], b);
    rt_pool_run(x->pool, index_rows, &(Index){x, b});
    b->to_index = false;
    x->run_seconds += now() - start;
}

void rt_exec_batch(RtExec *x, RtBatch *b) {
    RtStep *s = &x->step;
    if (b->to_index) index_batch(x, b);
    s->rows = s->row_hi = b->rows;
    s->inv_rows = b->rows ? 1.0f / (float)b->rows : 0;
    s->offsets = (void *)b->offsets;
    s->inputs = (void *)b->inputs;
    s->tables = b->tables;
    for (int i = 0; i < x->m->n_axes; i++) {
        const uint32_t *offsets = b->offsets[i];
        if (x->axis_elems[i])
            room(&x->axis_arena[i], &x->axis_cap[i], x->axis_elems[i], offsets ? offsets[b->rows] : 0);
        if (x->local_elems[i]) local_room(x, i, offsets ? most_positions(offsets, b->rows, x->row_block) : 0);
    }
    for (int i = 0; i < x->m->n_weights; i++)
        if (x->uniq_elems[i]) room(&x->uniq_arena[i], &x->uniq_cap[i], x->uniq_elems[i], b->tables[i].n);
}

typedef struct {
    RtExec *x;
    RtStepFn fn;
} Run;
static void run(void *arg, uint32_t thread, uint32_t threads) {
    Run *r = arg;
    r->fn(&r->x->step, thread, threads);
}

static void optimizer_scalars(RtExec *x) {
    const RtModel *m = x->m;
    const uint64_t *updates = rt_tables_updates(x->tables);
    for (int i = 0; i < m->n_weights; i++)
        if (m->weights[i].optimizer >= 0)
            x->opt[i] = rt_opt_step(&m->opts[m->weights[i].optimizer], x->step.step, updates[i] + 1,
                                    *rt_tables_lr_scale(x->tables));
}

bool rt_exec_run(RtExec *x, int function, RtStepFn fn) {
    double start = now();
    x->loss_given = false;
    x->step.stop = 0;
    x->function = function;
    x->step.kept = function != RT_TRAIN && function == x->kept;
    x->step.check = rt_profile_is_on() ? RT_CHECK_MARK : RT_CHECK_NONE;
    if (function == RT_TRAIN) {
        x->step.step++;
        optimizer_scalars(x);
        rt_tables_before_step(x->tables, x->step.step, x->step.tables);
        if (x->norms) {
            uint64_t begun = rt_span();
            rt_norms_rehearse(x->norms, x, fn);
            rt_span_end(begun, "rehearsal for norms");
        }
    }
    if (!x->step.stop) rt_pool_run(x->pool, run, &(Run){x, fn});
    x->run_seconds += now() - start;
    x->kept = function;
    if (x->step.stop) return false;
    if (function == RT_TRAIN) rt_tables_after_step(x->tables, x->step.step);
    return true;
}

void rt_exec_find_nan(RtExec *x, RtStepFn fn) {
    x->check = (RtCheck){.on = true};
    x->step.check = RT_CHECK_NAN;
    x->step.stop = x->step.kept = 0;
    fn(&x->step, 0, 1);
    x->step.check = RT_CHECK_NONE;
}

const void *rt_exec_output(const RtExec *x, int function, int output) {
    const RtPlace *p = &x->m->fn[function].outputs[output];
    switch (p->region) {
    case RT_AT_FIXED: return (const char *)x->step.fixed + p->offset;
    case RT_AT_AXIS: return x->axis_arena[p->axis] + 4 * p->offset * x->axis_cap[p->axis];
    case RT_AT_UNIQ: return x->uniq_arena[p->axis] + 4 * p->offset * x->uniq_cap[p->axis];
    case RT_AT_INPUT: return ((const void **)x->step.inputs)[p->input];
    }
    return NULL;
}

uint64_t rt_exec_bytes(const RtExec *x) {
    uint64_t sum = x->fixed_bytes + rt_pool_threads(x->pool) * x->scratch_bytes;
    for (int i = 0; i < x->m->n_axes; i++)
        sum += 4 * (x->axis_cap[i] * x->axis_elems[i] +
                    rt_pool_threads(x->pool) * x->local_cap[i] * x->local_elems[i]);
    for (int i = 0; i < x->m->n_weights; i++) sum += 4 * x->uniq_cap[i] * x->uniq_elems[i];
    return sum;
}

/* ---- what generated code calls (abi.def); the matrix product is in gemm.c ---- */

static RtPool *pool_of(void *step) { return ((RtExec *)((RtStep *)step)->runtime)->pool; }

void rt_barrier(void *step, uint32_t thread, uint32_t threads) {
    RtPool *p = pool_of(step);
    (void)thread;
    if (threads == rt_pool_threads(p)) rt_pool_barrier(p); /* else looking for a NaN, with the pool asleep */
}

uint32_t rt_take(void *step, uint32_t thread, uint32_t threads, uint32_t blocks) {
    return rt_pool_take(pool_of(step), thread, threads, blocks);
}

void rt_fetch(void *step, uint32_t weight, uint32_t lo, uint32_t hi, void *out, uint32_t train) {
    const RtStep *s = step;
    RtExec *x = s->runtime;
    rt_tables_fetch(x->tables, (const RtTableBatch *)s->tables + weight, (int)weight, lo, hi, out, train,
                    s->step);
}

void rt_touched(void *step, uint32_t weight, uint32_t lo, uint32_t hi) {
    const RtStep *s = step;
    RtExec *x = s->runtime;
    rt_tables_touch(x->tables, (const RtTableBatch *)s->tables + weight, (int)weight, lo, hi, s->step);
}

void rt_loss(void *step, float loss) {
    RtStep *s = step;
    RtExec *x = s->runtime;
    x->loss = loss;
    x->loss_given = true;
    if (!isfinite(loss)) s->stop = 1;
}

void rt_check(void *step, uint32_t op, void *values, uint64_t units, uint64_t size, uint64_t stride) {
    RtExec *x = ((RtStep *)step)->runtime;
    for (uint64_t u = 0; u < units && !x->check.found; u++) {
        const float *v = (const float *)values + u * stride;
        for (uint64_t i = 0; i < size && !x->check.found; i++)
            if (!isfinite(v[i])) x->check = (RtCheck){true, true, op, v[i], u * size + i};
    }
}
