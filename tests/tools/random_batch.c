#include "tests/tools/random_batch.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const RtModel *m;
    uint32_t **offsets; /* [axis] */
    void **values;      /* [feature] floats, u32 ids or u64 keys */
    void **inputs;      /* [input] */
} Own;

uint64_t random_next(uint64_t *rng) {
    uint64_t z = *rng += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double random_unit(uint64_t *rng) { return (double)(random_next(rng) >> 11) * 0x1p-53; }

static void *take(size_t n, size_t size) {
    void *p = calloc(n ? n : 1, size);
    if (!p) abort();
    return p;
}

static uint32_t length(uint64_t *rng, RandomLists lists, uint64_t max) {
    uint64_t n = 0;
    if (lists == LISTS_MIXED) n = random_unit(rng) < 0.3 ? 0 : 1 + random_next(rng) % 6;
    if (lists == LISTS_LONG) n = 20 + random_next(rng) % 30 + (random_next(rng) % 16 ? 0 : 100);
    return (uint32_t)(max && n > max ? max : n);
}

static uint32_t count_of(const RtBatch *b, const Own *o, int axis) {
    return axis < 0 ? b->rows : o->offsets[axis][b->rows];
}

/* Is it a label, whose values are 0 and 1? */
static bool label(const RtModel *m, const RtFeature *f) {
    return f->op == RT_F_VALUE && f->in[0].is_column && m->columns[f->in[0].index].kind == RT_LABEL;
}

/* From what a feature is, not from its number, which passes may change. */
static uint64_t feature_seed(const RtModel *m, const RtFeature *f, uint64_t seed) {
    seed = seed * 31 + (uint64_t)f->op + f->buckets;
    for (int k = 0; k < f->n_in; k++) {
        if (f->in[k].is_column)
            seed = seed * 31 + (uint64_t)f->in[k].index;
        else
            seed = feature_seed(m, &m->features[f->in[k].index], seed);
    }
    return random_next(&seed);
}

static void *feature_values(const RtModel *m, const RtFeature *f, uint32_t n, uint64_t seed) {
    uint64_t state = feature_seed(m, f, seed), *rng = &state;
    if (f->type == RT_T_KEY) {
        uint64_t *v = take(n, sizeof *v);
        for (uint32_t i = 0; i < n; i++) v[i] = random_next(rng) % 5;
        return v;
    }
    if (f->type == RT_T_ID) {
        uint32_t *v = take(n, sizeof *v);
        for (uint32_t i = 0; i < n; i++) {
            double u = random_unit(rng);
            v[i] = random_unit(rng) < 0.1 ? RT_NO_ID : (uint32_t)(u * u * u * (double)f->bound);
        }
        return v;
    }
    float *v = take(n, sizeof *v);
    for (uint32_t i = 0; i < n; i++) {
        double u = random_unit(rng);
        v[i] = label(m, f) ? u < 0.4 : (float)(4 * u - 2);
    }
    return v;
}

static void *positions(const uint32_t *offsets, uint32_t rows) {
    uint32_t *v = take(offsets[rows], sizeof *v);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t i = offsets[r]; i < offsets[r + 1]; i++) v[i] = i - offsets[r];
    return v;
}

/* Of an earlier feature. */
static void *moved(const uint32_t *ids, uint32_t n, int64_t by, uint64_t bound) {
    uint32_t *v = take(n, sizeof *v);
    for (uint32_t i = 0; i < n; i++) {
        int64_t id = (int64_t)ids[i] + by;
        v[i] = ids[i] == RT_NO_ID || id < 0 || id >= (int64_t)bound ? RT_NO_ID : (uint32_t)id;
    }
    return v;
}

RtBatch *random_batch_new(const RtModel *m, uint64_t *rng, uint32_t rows, RandomLists lists) {
    RtBatch *b = take(1, sizeof *b);
    Own *o = b->own = take(1, sizeof *o);
    *o = (Own){m, take((size_t)m->n_axes, sizeof(void *)), take((size_t)m->n_features, sizeof(void *)),
               take((size_t)m->n_inputs, sizeof(void *))};
    b->rows = rows;
    for (int a = 0; a < m->n_axes; a++) {
        o->offsets[a] = take(rows + 1u, sizeof(uint32_t));
        const uint32_t *from = m->axes[a].kind == RT_AXIS_APPEND ? o->offsets[m->axes[a].parent] : NULL;
        for (uint32_t r = 0; r < rows; r++)
            o->offsets[a][r + 1] =
                o->offsets[a][r] + (from ? from[r + 1] - from[r] + 1 : length(rng, lists, m->axes[a].max));
    }
    uint64_t seed = random_next(rng);
    for (int f = 0; f < m->n_features; f++) {
        const RtFeature *x = &m->features[f];
        uint32_t n = count_of(b, o, x->axis);
        if (x->op == RT_F_POSITIONS)
            o->values[f] = positions(o->offsets[x->axis], rows);
        else if (x->op == RT_F_OFFSET)
            o->values[f] = moved(o->values[x->in[0].index], n, x->by, x->bound);
        else
            o->values[f] = feature_values(m, x, n, seed);
    }
    b->offsets = (const uint32_t **)o->offsets;
    b->inputs = (const void **)o->inputs;
    b->tables = take((size_t)m->n_weights, sizeof *b->tables);
    for (int i = 0; i < m->n_inputs; i++)
        if (m->inputs[i].kind != RT_IN_LOOKUP) o->inputs[i] = o->values[m->inputs[i].index];
    return b;
}

/* ---- unique rows ---- */

typedef struct {
    uint32_t n, n_occ;
    uint32_t *id, *slot, *start, *occ_index;
    uint8_t *occ_lookup;
    uint32_t *of; /* [table rows] unique row of each id, RT_NO_ID: none yet */
} Unique;

static void free_table(RtTableBatch *t) {
    free((void *)t->id);
    free((void *)t->slot);
    free((void *)t->start);
    free((void *)t->occ_lookup);
    free((void *)t->occ_index);
    *t = (RtTableBatch){0};
}

static const uint32_t *ids_of(const RtBatch *b, const RtLookup *l, uint32_t *n) {
    const Own *o = b->own;
    *n = count_of(b, o, o->m->features[l->feature].axis);
    return o->values[l->feature];
}

static uint32_t row_of_position(const uint32_t *offsets, uint32_t position) {
    uint32_t r = 0;
    while (offsets[r + 1] <= position) r++;
    return r;
}

/* First pass over the table's lookups: unique ids in order of first appearance, how often each occurs. */
static void find_unique(const RtBatch *b, int w, Unique *u, uint32_t **lookup_values) {
    const Own *o = b->own;
    for (int k = 0; k < o->m->n_lookups; k++) {
        const RtLookup *l = &o->m->lookups[k];
        if (l->table != w) continue;
        uint32_t n;
        const uint32_t *ids = ids_of(b, l, &n);
        uint32_t *at = lookup_values[k] = take(n, sizeof *at);
        for (uint32_t i = 0; i < n; i++) {
            at[i] = RT_NO_ID;
            if (ids[i] == RT_NO_ID) continue;
            if (u->of[ids[i]] == RT_NO_ID) {
                u->of[ids[i]] = u->n;
                u->id[u->n++] = ids[i];
            }
            at[i] = u->of[ids[i]];
            u->start[at[i] + 1]++;
            u->n_occ++;
        }
    }
    for (uint32_t i = 0; i < u->n; i++) u->start[i + 1] += u->start[i];
}

/* Second pass: the places of each unique row, in the same order. */
static void find_occurrences(const RtBatch *b, int w, Unique *u, uint32_t *const *lookup_values) {
    const Own *o = b->own;
    uint32_t *next = take(u->n, sizeof *next);
    memcpy(next, u->start, u->n * sizeof *next);
    for (int k = 0; k < o->m->n_lookups; k++) {
        const RtLookup *l = &o->m->lookups[k];
        if (l->table != w) continue;
        uint32_t n;
        ids_of(b, l, &n);
        int axis = o->m->features[l->feature].axis;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t at = lookup_values[k][i];
            if (at == RT_NO_ID) continue;
            u->occ_lookup[next[at]] = (uint8_t)l->ordinal;
            u->occ_index[next[at]++] = l->pooled ? row_of_position(o->offsets[axis], i) : i;
        }
    }
    free(next);
}

static void bind_table(RtBatch *b, int w, RtTables *t, bool train, uint32_t **lookup_values) {
    const Own *o = b->own;
    uint32_t most = 0, rows = (uint32_t)o->m->weights[w].dim[0];
    for (int k = 0; k < o->m->n_lookups; k++) {
        uint32_t n;
        if (o->m->lookups[k].table == w) ids_of(b, &o->m->lookups[k], &n), most += n;
    }
    Unique u = {.id = take(most, 4),
                .slot = take(most, 4),
                .start = take(most + 1u, 4),
                .occ_index = take(most, 4),
                .occ_lookup = take(most, 1),
                .of = take(rows, 4)};
    memset(u.of, 0xff, sizeof *u.of * rows);
    find_unique(b, w, &u, lookup_values);
    find_occurrences(b, w, &u, lookup_values);
    for (uint32_t i = 0; i < u.n; i++) u.slot[i] = rt_tables_slot(t, w, u.id[i], train);
    free(u.of);
    b->tables[w] = (RtTableBatch){.n = u.n,
                                  .id = u.id,
                                  .slot = u.slot,
                                  .start = u.start,
                                  .occ_lookup = u.occ_lookup,
                                  .occ_index = u.occ_index};
}

static void free_lookups(RtBatch *b) {
    Own *o = b->own;
    for (int w = 0; w < o->m->n_weights; w++) free_table(&b->tables[w]);
    for (int i = 0; i < o->m->n_inputs; i++) {
        if (o->m->inputs[i].kind != RT_IN_LOOKUP) continue;
        free(o->inputs[i]);
        o->inputs[i] = NULL;
    }
}

void random_batch_bind(RtBatch *b, RtTables *t, bool train) {
    Own *o = b->own;
    free_lookups(b);
    uint32_t **values = take((size_t)o->m->n_lookups, sizeof *values);
    for (int w = 0; w < o->m->n_weights; w++) {
        bool looked_up = false;
        for (int k = 0; k < o->m->n_lookups; k++) looked_up |= o->m->lookups[k].table == w;
        if (looked_up) bind_table(b, w, t, train, values);
    }
    for (int i = 0; i < o->m->n_inputs; i++)
        if (o->m->inputs[i].kind == RT_IN_LOOKUP) o->inputs[i] = values[o->m->inputs[i].index];
    free(values);
}

void random_batch_free(RtBatch *b) {
    if (!b) return;
    Own *o = b->own;
    free_lookups(b);
    for (int a = 0; a < o->m->n_axes; a++) free(o->offsets[a]);
    for (int f = 0; f < o->m->n_features; f++) free(o->values[f]);
    free(o->offsets);
    free(o->values);
    free(o->inputs);
    free(o);
    free(b->tables);
    free(b);
}
