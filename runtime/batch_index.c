/* The rows that a batch looks up in its tables: each table's unique rows are numbered, ids become these
 * numbers, and for each row its occurrences are listed, by lookup and place. A table is one thread's work;
 * the batch deals its tables out (rt_batch_index), so that the threads of a step share what would else be
 * done beside them by a reader that wants one of their CPUs. */
#include <stdlib.h>
#include <string.h>
#include "runtime/batch_own.h"
#include "runtime/tables.h"

enum {
    AHEAD = 16,    /* ids for which memory is asked before they are looked at */
    LEAST_BITS = 6 /* log2 of slots */
};

struct RtIndexScratch {
    uint64_t *slot; /* id << 32 | unique + 1, 0: free; at most half of them taken */
    uint8_t *bits;  /* [weight] log2 of the slots that the batches so far needed */
    uint32_t
        *number; /* of tables of up to RT_MAPPED_ROWS: [id] unique + 1, 0: not met; all 0 between tables */
    uint32_t *count; /* by unique row */
    size_t cap_slots, cap_number, cap_count;
};

RtIndexScratch *rt_index_scratch_new(const RtModel *m) {
    RtIndexScratch *s = rt_reader_alloc(1, sizeof *s);
    s->bits = rt_reader_alloc((size_t)m->n_weights, 1);
    return s;
}

void rt_index_scratch_free(RtIndexScratch *s) {
    if (!s) return;
    free(s->slot);
    free(s->bits);
    free(s->number);
    free(s->count);
    free(s);
}

static size_t rows_of(const RtAssembler *a, int weight) { return (size_t)a->p->m->weights[weight].dim[0]; }

static void reserve_slots(RtIndexScratch *s, size_t ids) {
    size_t want = (size_t)1 << LEAST_BITS;
    while (want < 2 * ids + 2) want *= 2;
    if (want <= s->cap_slots) return;
    free(s->slot);
    s->slot = rt_reader_alloc(want, sizeof *s->slot);
    s->cap_slots = want;
}

static void reserve_numbers(RtIndexScratch *s, size_t rows) {
    if (rows <= s->cap_number) return;
    free(s->number);
    s->number = rt_reader_alloc(rows, sizeof *s->number);
    s->cap_number = rows;
}

void rt_index_reserve(RtIndexScratch *s, const RtBatch *b) {
    const RtOwn *o = b->own;
    for (int k = 0; k < o->n_tables; k++) {
        size_t total = o->looked_up[o->order[k]], rows = rows_of(o->a, o->order[k]);
        s->count = rt_reader_grow(s->count, &s->cap_count, total + 1, sizeof *s->count);
        if (rows <= RT_MAPPED_ROWS) {
            reserve_numbers(s, rows);
            continue;
        }
        size_t most = total < rows ? total : rows;
        reserve_slots(s, most);
        if (o->a->tables && o->a->p->purpose == RT_TRAIN) rt_tables_reserve(o->a->tables, o->order[k], most);
    }
}

/* ---- numbering ---- */

/* The ids that were met, and where each one's number stands: as many slots as they need, not as many as there
 * are values, so that they stay in the core's own cache. */
typedef struct {
    uint32_t *ids, n_ids;
    int bits;
} Numbers;

/* Where the id's number stands, or is to stand, among 2^bits slots. */
static inline uint64_t place_of(const uint64_t *slot, int bits, uint32_t id) {
    uint64_t mask = ((uint64_t)1 << bits) - 1, k = (uint64_t)(id * 0x9e3779b1u) << 32 >> (64 - bits);
    while (slot[k] && (uint32_t)(slot[k] >> 32) != id) k = (k + 1) & mask;
    return k;
}

static void make_slots(RtIndexScratch *s, Numbers *x, int bits) {
    size_t want = (size_t)1 << bits;
    x->bits = bits;
    memset(s->slot, 0, want * sizeof *s->slot);
    for (uint32_t u = 0; u < x->n_ids; u++)
        s->slot[place_of(s->slot, bits, x->ids[u])] = (uint64_t)x->ids[u] << 32 | (u + 1);
}

/* Numbers the id, met for the first time. */
static uint32_t number_new(RtIndexScratch *s, Numbers *x, uint64_t place, uint32_t id) {
    x->ids[x->n_ids] = id;
    s->count[x->n_ids] = 0;
    s->slot[place] = (uint64_t)id << 32 | ++x->n_ids;
    uint32_t number = x->n_ids;
    if ((size_t)x->n_ids * 2 > (size_t)1 << x->bits) make_slots(s, x, x->bits + 1);
    return number;
}

/* Replaces ids by the numbers of unique rows, and counts each one's occurrences. Whether an id is new can't
 * be foretold, so nothing branches on it. */
static void number_directly(RtIndexScratch *s, Numbers *x, uint32_t *value, size_t n) {
    uint32_t *count = s->count, *number = s->number, *ids = x->ids, n_ids = x->n_ids;
    for (size_t i = 0; i < n; i++) {
        uint32_t id = value[i], next = value[i + AHEAD < n ? i + AHEAD : i];
        __builtin_prefetch(number + (next == RT_NO_ID ? 0 : next));
        if (id == RT_NO_ID) continue;
        uint32_t met = number[id], u = met ? met - 1 : n_ids;
        ids[n_ids] = id; /* of the next number to give, whose place nobody uses yet */
        count[n_ids] = 0;
        n_ids += !met;
        number[id] = u + 1;
        count[u]++;
        value[i] = u;
    }
    x->n_ids = n_ids;
}

/* The same for a table of more ids than that. */
static void number_by_slots(RtIndexScratch *s, Numbers *x, uint32_t *value, size_t n) {
    uint32_t *count = s->count;
    const uint64_t *slot = s->slot;
    int bits = x->bits;
    for (size_t i = 0; i < n; i++) {
        uint32_t id = value[i];
        if (id == RT_NO_ID) continue;
        uint64_t place = place_of(slot, bits, id);
        uint32_t number = (uint32_t)slot[place];
        if (!number) {
            number = number_new(s, x, place, id);
            slot = s->slot, bits = x->bits;
        }
        count[number - 1]++;
        value[i] = number - 1;
    }
}

/* ---- a table ---- */

static bool looks_up(const RtAssembler *a, int lookup, int weight) {
    return a->p->m->lookups[lookup].table == weight && a->lookup_target[lookup] >= 0;
}

static size_t lookup_count(const RtOwn *o, int lookup) {
    const RtAssembler *a = o->a;
    return rt_item_count(a, o, a->target[a->lookup_target[lookup]].item, o->batch.rows);
}

/* Into ids, which has room for all of them; returns how many there are. */
static uint32_t number_table(RtIndexScratch *s, const RtOwn *o, int weight, uint32_t *ids) {
    const RtAssembler *a = o->a;
    const RtModel *m = a->p->m;
    bool small = rows_of(a, weight) <= RT_MAPPED_ROWS;
    Numbers x = {.ids = ids};
    if (!small) make_slots(s, &x, s->bits[weight] ? s->bits[weight] : LEAST_BITS);
    for (int l = 0; l < m->n_lookups; l++)
        if (looks_up(a, l, weight))
            (small ? number_directly : number_by_slots)(s, &x, o->value[a->lookup_target[l]].p,
                                                        lookup_count(o, l));
    if (!small) s->bits[weight] = (uint8_t)x.bits;
    for (uint32_t u = 0; small && u < x.n_ids; u++) s->number[ids[u]] = 0;
    return x.n_ids;
}

/* count becomes the place of each unique row's next occurrence. */
static void place_starts(uint32_t *start, uint32_t *count, uint32_t n) {
    uint32_t sum = 0;
    for (uint32_t u = 0; u < n; u++) {
        uint32_t c = count[u];
        start[u] = count[u] = sum;
        sum += c;
    }
    start[n] = sum;
}

static void place_occurrences(const RtOwn *o, int lookup, uint32_t *next, uint8_t *occ_lookup,
                              uint32_t *occ_index) {
    const RtAssembler *a = o->a;
    const RtLookup *l = &a->p->m->lookups[lookup];
    const uint32_t *value = o->value[a->lookup_target[lookup]].p;
    int axis = a->p->m->features[l->feature].axis;
    for (uint32_t r = 0, i = 0; r < o->batch.rows; r++) {
        uint32_t end = axis < 0 ? r + 1 : o->batch.offsets[axis][r + 1];
        for (; i < end; i++) {
            if (value[i] == RT_NO_ID) continue;
            uint32_t k = next[value[i]]++;
            occ_lookup[k] = (uint8_t)l->ordinal;
            occ_index[k] = l->pooled ? r : i;
        }
    }
}

/* Where the rows stand; a second reader (evaluation) may share the tables. */
static void find_slots(const RtAssembler *a, int weight, const uint32_t *id, uint32_t *slot, uint32_t n) {
    if (a->tables)
        rt_tables_slots(a->tables, weight, id, n, a->p->purpose == RT_TRAIN, slot);
    else
        memcpy(slot, id, (size_t)n * sizeof *slot);
}

static void index_table(RtOwn *o, int weight, RtIndexScratch *s) {
    const RtAssembler *a = o->a;
    const RtModel *m = a->p->m;
    RtTableRoom *t = &o->table[weight];
    uint32_t *id = t->id.p, *start = t->start.p, *slot = t->slot.p, *occ_index = t->occ_index.p;
    uint8_t *occ_lookup = t->occ_lookup.p;
    uint32_t n_ids = number_table(s, o, weight, id);
    place_starts(start, s->count, n_ids);
    for (int l = 0; l < m->n_lookups; l++)
        if (looks_up(a, l, weight)) place_occurrences(o, l, s->count, occ_lookup, occ_index);
    find_slots(a, weight, id, slot, n_ids);
    o->batch.tables[weight] = (RtTableBatch){
        .n = n_ids, .id = id, .slot = slot, .start = start, .occ_lookup = occ_lookup, .occ_index = occ_index};
}

/* ---- all tables ---- */

static void table_room(RtTableRoom *t, size_t looked_up) {
    rt_room(&t->id, looked_up * sizeof(uint32_t));
    rt_room(&t->slot, looked_up * sizeof(uint32_t));
    rt_room(&t->start, (looked_up + 1) * sizeof(uint32_t));
    rt_room(&t->occ_lookup, looked_up);
    rt_room(&t->occ_index, looked_up * sizeof(uint32_t));
}

bool rt_batch_count(RtBatch *b, int *weight) {
    RtOwn *o = b->own;
    const RtAssembler *a = o->a;
    const RtModel *m = a->p->m;
    o->n_tables = 0;
    atomic_store_explicit(&o->next, 0, memory_order_relaxed);
    for (int w = 0; w < m->n_weights; w++) {
        bool any = false;
        o->looked_up[w] = 0;
        for (int l = 0; l < m->n_lookups; l++)
            if (looks_up(a, l, w)) any = true, o->looked_up[w] += lookup_count(o, l);
        *weight = w;
        if (o->looked_up[w] > UINT32_MAX) return false;
        if (!any) continue;
        int k = o->n_tables++;
        for (; k > 0 && o->looked_up[o->order[k - 1]] < o->looked_up[w]; k--) o->order[k] = o->order[k - 1];
        o->order[k] = w;
        table_room(&o->table[w], o->looked_up[w]);
    }
    return true;
}

void rt_batch_index(RtBatch *b, RtIndexScratch *s) {
    RtOwn *o = b->own;
    for (int k; (k = atomic_fetch_add_explicit(&o->next, 1, memory_order_relaxed)) < o->n_tables;)
        index_table(o, o->order[k], s);
}
