/* Rows of tables: made when first fetched, marked when updated, caught up with the steps they missed. */
#include "runtime/tables_own.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/message.h"

static void slots_initialise(const RtStore *s, float *row) {
    for (int k = 0; k < s->n_slots; k++)
        for (uint64_t e = 0; e < s->width; e++) row[(k + 1) * s->width + e] = s->slot_start[k];
}
static void row_initialise(const RtTables *t, const RtStore *s, uint32_t id, float *row) {
    rt_init_values(s->w, t->seed, (uint64_t)id * s->width, s->width, row);
    slots_initialise(s, row);
}

/* ---- catching up ---- */

/* Both kinds of catching up do just what the missed steps would have done, one after another, so a row looks
 * the same whether it was caught up once or several times. */
enum { LANES = 16 };

/* A decaying number ends at zero, not at the smallest denormal, which 0.9 times rounds to itself. */
static float decayed(float x, float rate) {
    x *= rate;
    return fabsf(x) < FLT_MIN ? 0 : x;
}

/* Steps after+1 … to of adam with zero gradient. Once m is zero only v moves. */
static void adam_missed(const RtStore *s, uint64_t after, uint64_t to, uint64_t n, float *w, float *m,
                        float *v) {
    float b1 = (float)s->opt->beta1, b2 = (float)s->opt->beta2, eps = (float)s->opt->eps, live = 1;
    uint64_t k = after + 1;
    for (; k <= to && live > 0; k++) {
        float alpha = s->alpha[k - s->alpha_from];
        live = 0;
        for (uint64_t e = 0; e < n; e++) {
            m[e] = decayed(m[e], b1);
            v[e] = decayed(v[e], b2);
            w[e] -= alpha * m[e] / (sqrtf(v[e]) + eps);
            live += fabsf(m[e]);
        }
    }
    for (live = 1; k <= to && live > 0; k++) {
        live = 0;
        for (uint64_t e = 0; e < n; e++) live += v[e] = decayed(v[e], b2);
    }
}

static void adagrad_missed(const RtStore *s, uint64_t after, uint64_t to, uint64_t n, float *a) {
    float rate = (float)s->opt->rate, start = (float)s->opt->init;
    for (uint64_t k = rt_opt_decays(s->opt, after, to); k; k--) {
        bool moved = false;
        for (uint64_t e = 0; e < n; e++) {
            float x = fmaxf(a[e] * rate, start);
            moved |= x != a[e];
            a[e] = x;
        }
        if (!moved) return;
    }
}

/* Brings a stored row to the end of step `to`. */
static void catch_up(RtStore *s, uint32_t slot, float *row, uint64_t to) {
    uint64_t from = s->last[slot];
    if (from >= to) return;
    if (s->opt->kind == RT_ADAM)
        for (uint64_t e = 0; e < s->width; e += LANES)
            adam_missed(s, from, to, s->width - e < LANES ? s->width - e : LANES, row + e, row + s->width + e,
                        row + 2 * s->width + e);
    else
        adagrad_missed(s, from, to, s->width, row + s->width);
    s->last[slot] = to;
}

/* Rows are short: a call of memcpy for each would take longer than the copying. */
static inline void copy_row(float *to, const float *from, uint64_t n) {
    uint64_t e = 0;
    for (; e + 4 <= n; e += 4) memcpy(to + e, from + e, 4 * sizeof *to);
    for (; e < n; e++) to[e] = from[e];
}

/* The same for one part of it, without storing. */
static void copy_caught_up(const RtStore *s, uint32_t slot, int part, uint64_t to, float *out) {
    const float *row = s->base + slot * s->stride;
    uint64_t from = s->last ? s->last[slot] : to;
    if (from >= to) {
        copy_row(out, row + part * s->width, s->width);
        return;
    }
    for (uint64_t e = 0; e < s->width; e += LANES) {
        float b[3][LANES];
        uint64_t n = s->width - e < LANES ? s->width - e : LANES;
        for (int k = 0; k <= s->n_slots && k < 3; k++)
            memcpy(b[k], row + k * s->width + e, n * sizeof(float));
        if (s->opt->kind == RT_ADAM)
            adam_missed(s, from, to, n, b[0], b[1], b[2]);
        else
            adagrad_missed(s, from, to, n, b[1]);
        memcpy(out + e, b[part], n * sizeof(float));
    }
}

/* ---- in a step ---- */

static float *row_for_training(RtTables *t, RtStore *s, uint32_t id, uint32_t slot, uint64_t step) {
    float *row = s->base + slot * s->stride;
    if (!s->state[slot]) {
        row_initialise(t, s, id, row);
        s->state[slot] = ROW_INIT;
        if (s->last) s->last[slot] = step - 1; /* its slots are what zero gradients would have left */
    } else if (s->last)
        catch_up(s, slot, row, step - 1);
    return row;
}

/* Rows that a batch names lie anywhere in memory: what is copied of each is asked for some rows before. */
enum { ROWS_AHEAD = 16, LINE_FLOATS = 64 / sizeof(float) };
static inline void ask_for_row(const RtStore *s, uint32_t slot) {
    if (slot == RT_NO_ID) return;
    const float *row = s->base + slot * s->stride;
    for (uint64_t e = 0; e < s->width; e += LINE_FLOATS) __builtin_prefetch(row + e);
    __builtin_prefetch(row + s->width - 1);
    __builtin_prefetch(s->state + slot);
}

void rt_tables_fetch(RtTables *t, const RtTableBatch *b, int weight, uint32_t lo, uint32_t hi, float *out,
                     bool train, uint64_t step) {
    RtStore *s = &t->store[weight];
    const uint32_t *ids = b->id, *slots = b->slot;
    for (uint32_t u = lo; u < hi; u++) {
        float *to = out + u * s->width;
        if (u + ROWS_AHEAD < hi) ask_for_row(s, slots[u + ROWS_AHEAD]);
        if (train)
            copy_row(to, row_for_training(t, s, ids[u], slots[u], step), s->width);
        else if (slots[u] == RT_NO_ID || !(s->state[slots[u]] & ROW_TOUCHED))
            rt_init_values(s->w, t->seed, ids[u] * s->width, s->width, to);
        else
            copy_caught_up(s, slots[u], 0, t->done, to);
    }
}

void rt_tables_touch(RtTables *t, const RtTableBatch *b, int weight, uint32_t lo, uint32_t hi,
                     uint64_t step) {
    RtStore *s = &t->store[weight];
    const uint32_t *slots = b->slot;
    for (uint32_t u = lo; u < hi; u++) {
        s->state[slots[u]] = ROW_INIT | ROW_TOUCHED;
        if (s->last) s->last[slots[u]] = step;
    }
}

/* Rates of past steps, for exact adam. */
static void remember_alpha(RtStore *s, uint64_t step, double scale) {
    if (!s->alpha_n) s->alpha_from = step;
    if (s->alpha_n == s->alpha_cap) {
        s->alpha_cap = s->alpha_cap ? 2 * s->alpha_cap : 1024;
        s->alpha = realloc(s->alpha, s->alpha_cap * sizeof *s->alpha);
        if (!s->alpha) rt_out_of_memory();
    }
    s->alpha[s->alpha_n++] = rt_opt_step(s->opt, step, step, scale).alpha;
}

/* A lazy weight kept whole is never fetched: its accumulators catch up here. */
static void dense_decays(RtTables *t, int i, const RtTableBatch *b, uint64_t step) {
    RtStore *s = &t->store[i];
    const uint32_t *slots = b->slot;
    for (uint32_t u = 0; u < b->n; u++) {
        uint64_t from = s->last[slots[u]] ? s->last[slots[u]] : step - 1; /* never updated: at its start */
        adagrad_missed(s, from, step - 1, s->width, t->slots[3 * i] + slots[u] * s->width);
        s->last[slots[u]] = step - 1;
    }
}

void rt_tables_before_step(RtTables *t, uint64_t step, const RtTableBatch *batch) {
    for (int i = 0; i < t->m->n_weights; i++) {
        RtStore *s = &t->store[i];
        if (!s->last) continue;
        if (s->w->sparse && s->opt->kind == RT_ADAM) remember_alpha(s, step, t->lr_scale);
        if (!s->w->sparse && s->opt->kind == RT_ADAGRAD_DECAY) dense_decays(t, i, &batch[i], step);
    }
}

void rt_tables_after_step(RtTables *t, uint64_t step) {
    t->done = step;
    for (int i = 0; i < t->m->n_weights; i++) t->updates[i]++;
}

/* ---- in checkpoints ---- */

static int by_id(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

uint32_t *rt_tables_touched_ids(const RtTables *t, int weight, uint64_t *n) {
    RtStore *s = &t->store[weight];
    /* a dense update moves rows without saying which */
    bool all = !s->w->sparse && s->opt && s->opt->kind == RT_ADAM && s->opt->exact;
    pthread_mutex_lock(&s->lock);
    uint64_t rows = s->direct ? s->rows : s->met, count = 0;
    pthread_mutex_unlock(&s->lock);
    for (uint64_t r = 0; r < rows; r++) count += all || (s->state[r] & ROW_TOUCHED);
    uint32_t *ids = malloc((count + 1) * sizeof *ids);
    if (!ids) rt_out_of_memory();
    *n = 0;
    for (uint64_t r = 0; r < rows; r++)
        if (all || (s->state[r] & ROW_TOUCHED)) ids[(*n)++] = s->direct ? (uint32_t)r : s->ids[r];
    if (!s->direct) qsort(ids, count, sizeof *ids, by_id);
    return ids;
}

static float *dense_row(const RtTables *t, const RtStore *s, uint32_t id, int part) {
    int i = (int)(s - t->store);
    return (part ? t->slots[3 * i + part - 1] : t->weights[i]) + id * s->width;
}

void rt_tables_get_row(RtTables *t, int weight, uint32_t id, int part, float *out) {
    RtStore *s = &t->store[weight];
    if (!s->w->sparse) {
        memcpy(out, dense_row(t, s, id, part), s->width * sizeof(float));
        return;
    }
    uint32_t slot = rt_tables_slot(t, weight, id, false);
    if (slot != RT_NO_ID && (s->state[slot] & ROW_TOUCHED))
        copy_caught_up(s, slot, part, t->done, out);
    else if (part == 0)
        rt_init_values(s->w, t->seed, id * s->width, s->width, out);
    else
        for (uint64_t e = 0; e < s->width; e++) out[e] = s->slot_start[part - 1];
}

void rt_tables_put_row(RtTables *t, int weight, uint32_t id, int part, const float *values) {
    RtStore *s = &t->store[weight];
    uint32_t slot = rt_tables_slot(t, weight, id, true);
    float *row = s->w->sparse ? s->base + slot * s->stride + part * s->width : dense_row(t, s, id, part);
    if (s->w->sparse && !s->state[slot])
        slots_initialise(s, s->base + slot * s->stride); /* part 0 comes first */
    s->state[slot] = ROW_INIT | ROW_TOUCHED;
    memcpy(row, values, s->width * sizeof(float));
}

void rt_tables_settle(RtTables *t) {
    for (int i = 0; i < t->m->n_weights; i++) {
        RtStore *s = &t->store[i];
        if (s->w->sparse || !s->last || s->opt->kind != RT_ADAGRAD_DECAY) continue;
        for (uint64_t r = 0; r < s->rows; r++) {
            if (!s->last[r] || s->last[r] >= t->done) continue; /* never updated: at its start */
            adagrad_missed(s, s->last[r], t->done, s->width, t->slots[3 * i] + r * s->width);
            s->last[r] = t->done;
        }
    }
}

void rt_tables_loaded(RtTables *t, uint64_t step) {
    t->done = step;
    for (int i = 0; i < t->m->n_weights; i++) {
        RtStore *s = &t->store[i];
        uint64_t rows = s->direct ? s->rows : s->met;
        bool all = !s->w->sparse && s->rows <= RT_MAPPED_ROWS; /* read as one piece, not by row */
        t->updates[i] = step;
        for (uint64_t r = 0; s->last && r < rows; r++)
            if (all || s->state[r]) s->last[r] = step;
    }
}
