#include "runtime/tables_own.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "runtime/message.h"

/* ---- memory ---- */

/* Pages that nobody touched cost nothing: a table reserves room for all its rows at once and never moves. */
void *rt_pages(uint64_t bytes) {
    void *p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}
void rt_ask_huge_pages(void *p, uint64_t bytes) {
    if (bytes >= RT_HUGE_PAGE) madvise(p, bytes, MADV_HUGEPAGE);
}
/* For what is used from its beginning on, without gaps. Huge pages, where the system has them: a save copies
 * the page tables (checkpoint_snapshot.c), which of small pages took 55 ms of CPU a gigabyte, of huge ones 1
 * ms; those that training writes to while a save goes on become small, and rows met first, which are the busy
 * ones, lie together. */
static void *packed_pages(uint64_t bytes) {
    void *p = rt_pages(bytes);
    if (p) rt_ask_huge_pages(p, bytes);
    return p;
}
void rt_pages_free(void *p, uint64_t bytes) {
    if (p) munmap(p, bytes ? bytes : 1);
}

static void *take(size_t n, size_t size) {
    void *p = calloc(n ? n : 1, size);
    if (!p) rt_out_of_memory();
    return p;
}

/* ---- making and freeing ---- */

static bool needs_last(const RtOptimizer *o) {
    return o && (o->kind == RT_ADAGRAD_DECAY || (o->kind == RT_ADAM && o->exact));
}

static void store_describe(RtStore *s, const RtModel *m, const RtWeight *w, bool trained) {
    s->w = w;
    s->opt = w->optimizer >= 0 ? &m->opts[w->optimizer] : NULL;
    s->by_row = w->rank && (w->table || w->sparse || w->lazy);
    s->rows = s->by_row ? (uint64_t)w->dim[0] : 1;
    s->width = w->size / s->rows;
    s->n_slots = trained ? w->n_slots : 0;
    s->stride = s->width * (1 + (uint64_t)s->n_slots);
    s->direct = !w->sparse;
    for (int k = 0; k < s->n_slots; k++)
        s->slot_start[k] = s->opt ? rt_opt_slot_start(s->opt, w->slots[k]) : 0;
    pthread_mutex_init(&s->lock, NULL);
}

static bool store_reserve(RtTables *t, int i) {
    RtStore *s = &t->store[i];
    const RtWeight *w = s->w;
    if (s->by_row && !(s->state = rt_pages(s->rows))) return false;
    if (t->trained && s->by_row && needs_last(s->opt) && !(s->last = rt_pages(s->rows * sizeof *s->last)))
        return false;
    if (w->sparse) {
        uint64_t bytes = s->rows * s->stride * sizeof(float);
        return (t->rows[i] = s->base = packed_pages(bytes)) && rt_slots_reserve(s);
    }
    if (!(t->weights[i] = packed_pages(w->size * sizeof(float)))) return false;
    for (int k = 0; k < s->n_slots; k++)
        if (!(t->slots[3 * i + k] = packed_pages(w->size * sizeof(float)))) return false;
    return true;
}

static void fill(float *p, uint64_t n, float value) {
    if (value == 0) return; /* pages start as zeros */
    for (uint64_t i = 0; i < n; i++) p[i] = value;
}

static void dense_initialise(RtTables *t, int i) {
    const RtStore *s = &t->store[i];
    rt_init_values(s->w, t->seed, 0, s->w->size, t->weights[i]);
    for (int k = 0; k < s->n_slots; k++) fill(t->slots[3 * i + k], s->w->size, s->slot_start[k]);
}

static RtTables *make(const RtModel *m, uint64_t seed, bool trained, char *err, size_t err_bytes) {
    RtTables *t = take(1, sizeof *t);
    *t = (RtTables){.m = m, .seed = seed, .trained = trained, .keep_negatives = 1, .lr_scale = 1};
    t->store = take(m->n_weights, sizeof *t->store);
    t->updates = take(m->n_weights, sizeof *t->updates);
    t->weights = take(m->n_weights, sizeof *t->weights);
    t->rows = take(m->n_weights, sizeof *t->rows);
    t->slots = take(3 * (size_t)m->n_weights, sizeof *t->slots);
    for (int i = 0; i < m->n_weights; i++) store_describe(&t->store[i], m, &m->weights[i], trained);
    for (int i = 0; i < m->n_weights; i++) {
        if (store_reserve(t, i)) continue;
        const RtStore *s = &t->store[i];
        char reason[RT_SHOWN];
        snprintf(err, err_bytes, "weight '%s': cannot reserve %.1f GB of address space: %s", s->w->name,
                 (double)s->rows * (double)s->stride * sizeof(float) / 1e9, rt_reason(errno, reason));
        rt_tables_free(t);
        return NULL;
    }
    for (int i = 0; i < m->n_weights; i++)
        if (!m->weights[i].sparse) dense_initialise(t, i);
    return t;
}

RtTables *rt_tables_new(const RtModel *m, uint64_t seed, char *err, size_t err_bytes) {
    return make(m, seed, true, err, err_bytes);
}
RtTables *rt_tables_new_fixed(const RtModel *m, uint64_t seed, char *err, size_t err_bytes) {
    return make(m, seed, false, err, err_bytes);
}

void rt_tables_free(RtTables *t) {
    if (!t) return;
    for (int i = 0; i < t->m->n_weights; i++) {
        RtStore *s = &t->store[i];
        rt_pages_free(s->base, s->rows * s->stride * sizeof(float));
        rt_pages_free(s->state, s->rows);
        rt_pages_free(s->last, s->rows * sizeof *s->last);
        rt_slots_free(s);
        rt_pages_free(t->weights[i], s->w->size * sizeof(float));
        for (int k = 0; k < 3; k++) rt_pages_free(t->slots[3 * i + k], s->w->size * sizeof(float));
        pthread_mutex_destroy(&s->lock);
        free(s->alpha);
    }
    free(t->store);
    free(t->updates);
    free(t->weights);
    free(t->rows);
    free(t->slots);
    free(t);
}

void rt_tables_bind(RtTables *t, RtStep *s) {
    s->weights = t->weights;
    s->slots = t->slots;
    s->table_rows = t->rows;
    s->seed = t->seed;
}

uint64_t rt_tables_bytes(const RtTables *t) {
    uint64_t sum = 0;
    for (int i = 0; i < t->m->n_weights; i++) {
        const RtStore *s = &t->store[i];
        uint64_t row = s->stride * sizeof(float) + 1 + (s->last ? sizeof *s->last : 0);
        if (!s->w->sparse) {
            sum += s->w->size * sizeof(float) * (1 + (uint64_t)s->n_slots);
            continue;
        }
        pthread_mutex_lock((pthread_mutex_t *)&s->lock); /* readers may be giving rows out */
        sum += s->met * row + rt_slots_bytes(s);
        pthread_mutex_unlock((pthread_mutex_t *)&s->lock);
    }
    return sum;
}

void rt_tables_hold(RtTables *t) {
    for (int i = 0; i < t->m->n_weights; i++) pthread_mutex_lock(&t->store[i].lock);
}
void rt_tables_release(RtTables *t) {
    for (int i = 0; i < t->m->n_weights; i++) pthread_mutex_unlock(&t->store[i].lock);
}

uint64_t *rt_tables_updates(RtTables *t) { return t->updates; }
uint64_t rt_tables_seed(const RtTables *t) { return t->seed; }
double *rt_tables_keep_negatives(RtTables *t) { return &t->keep_negatives; }
double *rt_tables_lr_scale(RtTables *t) { return &t->lr_scale; }
bool rt_tables_is_large(const RtTables *t, int weight) { return t->store[weight].rows > RT_MAPPED_ROWS; }
uint64_t rt_tables_rows(const RtTables *t, int weight) { return t->store[weight].rows; }
uint64_t rt_tables_width(const RtTables *t, int weight) { return t->store[weight].width; }
float *rt_tables_dense(RtTables *t, int weight, int part) {
    if (t->store[weight].w->sparse) return NULL;
    return part ? t->slots[3 * weight + part - 1] : t->weights[weight];
}
