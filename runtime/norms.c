#include "runtime/norms.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/tables_own.h"
#include "runtime/message.h"

/* A rate for optimizers whose slots don't tell the gradient: what it adds to a weight drowns the weight. */
static const float steep = 0x1p40f;

typedef struct {
    float *p; /* what the step may write, as it was: rows of the weight and its slots */
    uint64_t cap, rows;
} Kept;

struct RtNorms {
    const RtModel *m;
    Kept *kept;   /* [weight] */
    RtNorm *norm; /* [weight] */
    RtOptStep *opt;
};

static void *take(size_t n, size_t size) {
    void *p = calloc(n ? n : 1, size);
    if (!p) rt_out_of_memory();
    return p;
}

RtNorms *rt_norms_new(const RtModel *m) {
    RtNorms *n = take(1, sizeof *n);
    *n = (RtNorms){.m = m};
    n->kept = take((size_t)m->n_weights, sizeof *n->kept);
    n->norm = take((size_t)m->n_weights, sizeof *n->norm);
    n->opt = take((size_t)m->n_weights, sizeof *n->opt);
    return n;
}

void rt_norms_free(RtNorms *n) {
    if (!n) return;
    for (int i = 0; i < n->m->n_weights; i++) free(n->kept[i].p);
    free(n->kept);
    free(n->norm);
    free(n->opt);
    free(n);
}

const RtNorm *rt_norms(const RtNorms *n) { return n->norm; }

/* ---- what a step may write ---- */

static bool is_written(const RtWeight *w) { return w->optimizer >= 0 || w->running; }

/* Whether updates name rows; a dense update of a weight kept whole doesn't. */
static bool by_row(const RtStore *s) {
    bool whole = !s->w->sparse && s->opt && s->opt->kind == RT_ADAM && s->opt->exact;
    return (s->w->sparse || s->w->lazy) && !whole;
}

typedef struct {
    RtTables *t;
    const RtTableBatch *batch; /* [weight] */
} Where;

static uint64_t pieces(const Where *x, int i) { return by_row(&x->t->store[i]) ? x->batch[i].n : 1; }
static uint64_t piece_floats(const Where *x, int i) {
    const RtStore *s = &x->t->store[i];
    return by_row(s) ? s->width : s->w->size;
}

/* Part 0 is the weight, 1… its slots, of the k-th piece. */
static float *piece(const Where *x, int i, uint64_t k, int part) {
    const RtStore *s = &x->t->store[i];
    uint64_t row = by_row(s) ? ((const uint32_t *)x->batch[i].slot)[k] : 0;
    if (s->w->sparse) return s->base + row * s->stride + (uint64_t)part * s->width;
    return (part ? x->t->slots[3 * i + part - 1] : x->t->weights[i]) + row * s->width;
}

static float *kept(const RtNorms *n, const Where *x, int i, uint64_t k, int part) {
    uint64_t floats = piece_floats(x, i), parts = 1 + (uint64_t)n->m->weights[i].n_slots;
    return n->kept[i].p + (k * parts + (uint64_t)part) * floats;
}

/* ---- before the rehearsal ---- */

static void keep(RtNorms *n, const Where *x, int i) {
    const RtWeight *w = &n->m->weights[i];
    uint64_t floats = piece_floats(x, i), need = pieces(x, i) * floats * (1 + (uint64_t)w->n_slots);
    Kept *to = &n->kept[i];
    if (need > to->cap) {
        free(to->p);
        to->p = take(need, sizeof *to->p);
        to->cap = need;
    }
    for (uint64_t k = 0; k < pieces(x, i); k++)
        for (int part = 0; part <= w->n_slots; part++) {
            float *from = piece(x, i, k, part);
            memcpy(kept(n, x, i, k, part), from, floats * sizeof *from);
            if (part) memset(from, 0, floats * sizeof *from);
        }
}

/* Rows are made and caught up now, so that what is kept of them is what the step itself begins with. */
static void fetch(const Where *x, int i, uint64_t step) {
    uint32_t n = x->batch[i].n;
    if (!x->t->store[i].w->sparse || !n) return;
    float *unused = take(n * x->t->store[i].width, sizeof *unused);
    rt_tables_fetch(x->t, &x->batch[i], i, 0, n, unused, true, step);
    free(unused);
}

/* ---- after it ---- */

/* The square of the gradient's element, from what the update made of empty slots. */
static double square(const RtOptimizer *o, const Where *x, int i, uint64_t k, uint64_t e, float before) {
    double slot = o->kind == RT_SGD ? 0 : (double)piece(x, i, k, 1)[e];
    double moved = ((double)before - (double)piece(x, i, k, 0)[e]) / (double)steep;
    switch (o->kind) {
    case RT_SGD: return moved * moved;
    case RT_MOMENTUM: return slot * slot;
    case RT_ADAGRAD:
    case RT_FTRL: return slot;
    case RT_ADAGRAD_DECAY: return moved * moved * slot; /* empty, the slot is still at its lower bound */
    case RT_RMSPROP: return slot / (1 - o->rho);
    case RT_ADAM:
    case RT_ADAM_ASYNC: return slot * slot / ((1 - o->beta1) * (1 - o->beta1));
    }
    return NAN;
}

static void measure(RtNorms *n, const Where *x, int i) {
    const RtWeight *w = &n->m->weights[i];
    if (w->optimizer < 0) return;
    const RtStore *s = &x->t->store[i];
    double grad = 0, weight = 0;
    for (uint64_t k = 0; k < pieces(x, i); k++) {
        const float *before = kept(n, x, i, k, 0);
        for (uint64_t e = 0; e < piece_floats(x, i); e++) {
            grad += square(s->opt, x, i, k, e, before[e]);
            weight += (double)before[e] * (double)before[e];
        }
    }
    n->norm[i] = (RtNorm){true, sqrt(grad), sqrt(weight), by_row(s) ? pieces(x, i) : 0};
}

static void put_back(RtNorms *n, const Where *x, int i) {
    uint64_t floats = piece_floats(x, i);
    for (uint64_t k = 0; k < pieces(x, i); k++)
        for (int part = 0; part <= n->m->weights[i].n_slots; part++)
            memcpy(piece(x, i, k, part), kept(n, x, i, k, part), floats * sizeof(float));
}

/* ---- the rehearsal ---- */

typedef struct {
    RtNorms *n;
    RtExec *x;
    RtStepFn fn;
    Where where;
    bool after;
} Rehearsal;

/* Each weight by one thread, so that its sums don't depend on how many there are. */
static void each_weight(void *arg, uint32_t thread, uint32_t threads) {
    Rehearsal *r = arg;
    for (int i = (int)thread; i < r->n->m->n_weights; i += (int)threads) {
        if (!is_written(&r->n->m->weights[i])) continue;
        if (!r->after) {
            fetch(&r->where, i, r->x->step.step);
            keep(r->n, &r->where, i);
            continue;
        }
        if (!r->x->step.stop) measure(r->n, &r->where, i);
        put_back(r->n, &r->where, i);
    }
}

static void run(void *arg, uint32_t thread, uint32_t threads) {
    Rehearsal *r = arg;
    r->fn(&r->x->step, thread, threads);
}

void rt_norms_rehearse(RtNorms *n, RtExec *x, RtStepFn fn) {
    Rehearsal r = {.n = n, .x = x, .fn = fn, .where = {x->tables, x->step.tables}};
    size_t bytes = (size_t)n->m->n_weights * sizeof *n->opt;
    memcpy(n->opt, x->opt, bytes);
    rt_pool_run(x->pool, each_weight, &r);
    for (int i = 0; i < n->m->n_weights; i++) x->opt[i].lr = x->opt[i].alpha = steep;
    rt_pool_run(x->pool, run, &r);
    r.after = true;
    rt_pool_run(x->pool, each_weight, &r);
    memcpy(x->opt, n->opt, bytes);
}
