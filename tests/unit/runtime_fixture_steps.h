/* The fixture's step functions, written as generated code is: phases with barriers between them, contiguous
 * shares of rows and of unique rows, one owner an element, the same order of sums at any number of threads.
 * See runtime_fixture.h for the model. */
#ifndef CTRC_RUNTIME_FIXTURE_STEPS_H
#define CTRC_RUNTIME_FIXTURE_STEPS_H
#include "runtime/abi.h"
#include "runtime_fixture.h"

typedef struct {
    float *z, *p, *g, *rows;
    const float *x, *y;
    const uint32_t *lookup;
    const RtTableBatch *users;
} FixView;

static inline FixView fix_view(RtStep *s) {
    char *fixed = s->fixed;
    const void **in = s->inputs;
    return (FixView){.z = (float *)fixed,
                     .p = (float *)(fixed + 256),
                     .g = (float *)(fixed + 512),
                     .rows = ((float **)s->uniq_arena)[FIX_USERS],
                     .x = in[FIX_IN_X],
                     .y = in[FIX_IN_Y],
                     .lookup = in[FIX_IN_USER],
                     .users = (const RtTableBatch *)s->tables + FIX_USERS};
}
static inline uint32_t fix_share(uint32_t n, uint32_t t, uint32_t threads) {
    return (uint32_t)((uint64_t)n * t / threads);
}

static inline void fix_forward(RtStep *s, uint32_t t, uint32_t threads, bool train) {
    FixView v = fix_view(s);
    uint32_t lo = fix_share(v.users->n, t, threads), hi = fix_share(v.users->n, t + 1, threads);
    rt_fetch(s, FIX_USERS, lo, hi, v.rows, train);
    if (s->check) rt_check(s, 3, v.rows + 2 * lo, hi - lo, 2, 2);
    rt_barrier(s, t, threads);
    float **w = s->weights;
    lo = fix_share(s->rows, t, threads), hi = fix_share(s->rows, t + 1, threads);
    for (uint32_t i = lo; i < hi; i++) {
        const float *row = v.rows + 2 * v.lookup[i];
        v.z[i] = w[FIX_W][0] * v.x[i] + w[FIX_BIAS][0] + row[0] + row[1];
        v.p[i] = 1 / (1 + expf(-v.z[i]));
    }
    if (s->check) rt_check(s, 5, v.z + lo, hi - lo, 1, 1), rt_check(s, 7, v.p + lo, hi - lo, 1, 1);
    rt_barrier(s, t, threads);
}

static inline void fix_loss(RtStep *s, uint32_t t, uint32_t threads) {
    FixView v = fix_view(s);
    float sum = 0;
    for (uint32_t i = 0; t == 0 && i < s->rows; i++)
        sum += fmaxf(v.z[i], 0) - v.z[i] * v.y[i] + log1pf(expf(-fabsf(v.z[i])));
    if (t == 0) rt_loss(s, sum * s->inv_rows);
    rt_barrier(s, t, threads);
}

static inline void fix_adam(RtStep *s, int w, float g) {
    float *m = ((float **)s->slots)[3 * w], *v = ((float **)s->slots)[3 * w + 1];
    *m = 0.9f * *m + 0.1f * g;
    *v = 0.999f * *v + 0.001f * g * g;
    ((float **)s->weights)[w][0] -= ((RtOptStep *)s->opt)[w].alpha * *m / (sqrtf(*v) + 1e-8f);
}

static inline void fix_train(RtStep *s, uint32_t t, uint32_t threads) {
    fix_forward(s, t, threads, true);
    fix_loss(s, t, threads);
    if (s->stop) return;
    FixView v = fix_view(s);
    float bias = 0, w = 0;
    for (uint32_t i = 0; t == 0 && i < s->rows; i++) {
        v.g[i] = (v.p[i] - v.y[i]) * s->inv_rows;
        bias += v.g[i], w += v.g[i] * v.x[i];
    }
    rt_barrier(s, t, threads);
    if (t == 0) fix_adam(s, FIX_BIAS, bias), fix_adam(s, FIX_W, w);
    uint32_t lo = fix_share(v.users->n, t, threads), hi = fix_share(v.users->n, t + 1, threads);
    const uint32_t *start = v.users->start, *occ = v.users->occ_index, *slot = v.users->slot;
    rt_touched(s, FIX_USERS, lo, hi);
    for (uint32_t u = lo; u < hi; u++) {
        float g = 0, *row = ((float **)s->table_rows)[FIX_USERS] + 4 * (uint64_t)slot[u];
        for (uint32_t k = start[u]; k < start[u + 1]; k++) g += v.g[occ[k]];
        for (int e = 0; e < 2; e++) {
            row[2 + e] += g * g;
            row[e] -= ((RtOptStep *)s->opt)[FIX_USERS].lr * g / sqrtf(row[2 + e]);
        }
    }
}
static inline void fix_eval(RtStep *s, uint32_t t, uint32_t threads) {
    fix_forward(s, t, threads, false);
    fix_loss(s, t, threads);
}
static inline void fix_predict(RtStep *s, uint32_t t, uint32_t threads) { fix_forward(s, t, threads, false); }
#endif
