/* Assembles a batch: gathers rows into one array an input, makes the offsets of each axis, and finds each
 * table's unique rows with the places where they occur. Runs on one thread. */
#include "runtime/reader_internal.h"
#include "runtime/tables.h"
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, COPY = 8 /* words moved at once; arrays have that much slack */ };

typedef struct {
    void *p;
    size_t cap;
} Room; /* aligned memory; what was in it may be lost when it grows */
typedef struct {
    Room id, slot, start, occ_lookup, occ_index;
} TableRoom;
typedef struct {
    RtBatchOwn head;
    RtBatch batch;
    Room *offsets;    /* [axis] */
    Room *value;      /* [target] */
    TableRoom *table; /* [weight] */
    Room row_file, row_line, row_bad, row_echo, echo;
} Own;

/* Where an item's values go: an input of its own, or a lookup's, whose ids then become unique rows. */
typedef struct {
    int item, lookup, input;
    bool first; /* of its item: gathered into; others are copies */
} Target;
typedef struct {
    int word, words, target;
} Gather; /* word: of the row's length along the item's axis, -1: one value */

struct RtAssembler {
    const RtPlan *p;
    RtTables *tables;
    uint32_t batch;
    Target *target;
    int n_targets;
    Gather *gather;          /* [item] */
    uint32_t **out;          /* [item] where the next row's values go */
    int *lookup_target;      /* [lookup] -1: off */
    const uint32_t **record; /* [row] */
    uint64_t *slot;          /* scratch: id << 32 | unique + 1, 0: free; at most half of them taken */
    uint8_t *bits;           /* [weight] log2 of the slots that the batches so far needed */
    uint32_t *number;        /* scratch of small tables: [id] unique + 1, 0: not met; all 0 between tables */
    size_t cap_slots, cap_number, cap_count;
    uint32_t *count; /* scratch: by unique row */
};

static void *room(Room *r, size_t bytes) {
    bytes += LINE;
    if (bytes <= r->cap) return r->p;
    size_t cap = r->cap ? r->cap : 1024;
    while (cap < bytes) cap *= 2;
    free(r->p);
    r->p = aligned_alloc(LINE, cap);
    if (!r->p) rt_reader_alloc(SIZE_MAX / 2, 1); /* says so and ends */
    r->cap = cap;
    return r->p;
}

static int add_target(RtAssembler *a, int feature, int lookup, int input) {
    int item = a->p->item_of[feature];
    Gather *g = &a->gather[item];
    a->target[a->n_targets] = (Target){item, lookup, input, g->target < 0};
    if (g->target < 0) g->target = a->n_targets;
    return a->n_targets++;
}

RtAssembler *rt_assembler_new(const RtPlan *p, RtTables *tables, uint32_t batch) {
    const RtModel *m = p->m;
    RtAssembler *a = rt_reader_alloc(1, sizeof *a);
    a->p = p;
    a->tables = tables;
    a->batch = batch;
    a->target = rt_reader_alloc((size_t)(m->n_inputs + m->n_lookups), sizeof *a->target);
    a->gather = rt_reader_alloc((size_t)p->n_items, sizeof *a->gather);
    a->out = rt_reader_alloc((size_t)p->n_items, sizeof *a->out);
    a->lookup_target = rt_reader_alloc((size_t)m->n_lookups, sizeof *a->lookup_target);
    a->record = rt_reader_alloc(batch, sizeof *a->record);
    a->bits = rt_reader_alloc((size_t)m->n_weights, 1);
    for (int k = 0; k < p->n_items; k++)
        a->gather[k] =
            (Gather){p->items[k].axis < 0 ? -1 : p->axis_word[p->items[k].axis], p->items[k].words, -1};
    for (int i = 0; i < m->n_lookups; i++)
        a->lookup_target[i] =
            p->feature_on[m->lookups[i].feature] ? add_target(a, m->lookups[i].feature, i, -1) : -1;
    for (int i = 0; i < m->n_inputs; i++)
        if (m->inputs[i].kind != RT_IN_LOOKUP && p->feature_on[m->inputs[i].index])
            add_target(a, m->inputs[i].index, -1, i);
    return a;
}

void rt_assembler_free(RtAssembler *a) {
    if (!a) return;
    free(a->target);
    free(a->gather);
    free(a->out);
    free(a->lookup_target);
    free(a->record);
    free(a->slot);
    free(a->bits);
    free(a->number);
    free(a->count);
    free(a);
}

RtBatch *rt_batch_new(const RtAssembler *a) {
    const RtModel *m = a->p->m;
    Own *o = rt_reader_alloc(1, sizeof *o);
    o->head.batch = &o->batch;
    o->batch.own = o;
    o->batch.offsets = rt_reader_alloc((size_t)m->n_axes, sizeof(void *));
    o->batch.inputs = rt_reader_alloc((size_t)m->n_inputs, sizeof(void *));
    o->batch.tables = rt_reader_alloc((size_t)m->n_weights, sizeof *o->batch.tables);
    o->offsets = rt_reader_alloc((size_t)m->n_axes, sizeof *o->offsets);
    o->value = rt_reader_alloc((size_t)a->n_targets, sizeof *o->value);
    o->table = rt_reader_alloc((size_t)m->n_weights, sizeof *o->table);
    return &o->batch;
}

void rt_batch_free(const RtAssembler *a, RtBatch *b) {
    if (!b) return;
    const RtModel *m = a->p->m;
    Own *o = b->own;
    for (int i = 0; i < m->n_axes; i++) free(o->offsets[i].p);
    for (int i = 0; i < a->n_targets; i++) free(o->value[i].p);
    for (int i = 0; i < m->n_weights; i++) {
        TableRoom *t = &o->table[i];
        free(t->id.p);
        free(t->slot.p);
        free(t->start.p);
        free(t->occ_lookup.p);
        free(t->occ_index.p);
    }
    free(o->offsets);
    free(o->value);
    free(o->table);
    free(o->row_file.p);
    free(o->row_line.p);
    free(o->row_bad.p);
    free(o->row_echo.p);
    free(o->echo.p);
    free(b->offsets);
    free(b->inputs);
    free(b->tables);
    free(o);
}

/* ---- gathering ---- */

static void find_records(RtAssembler *a, Own *o, const RtRef *refs, uint32_t n) {
    uint32_t *file = room(&o->row_file, (size_t)n * sizeof *file);
    uint64_t *line = room(&o->row_line, (size_t)n * sizeof *line);
    bool *is_bad = room(&o->row_bad, (size_t)n * sizeof *is_bad);
    for (uint32_t r = 0; r < n; r++) {
        const RtRows *rows = refs[r].rows;
        a->record[r] = rows->word + rows->at[refs[r].row];
        __builtin_prefetch(a->record[r]);
        file[r] = rows->file;
        line[r] = rows->first_line + (rows->line[refs[r].row] & ~RT_LINE_BAD);
        is_bad[r] = rows->line[refs[r].row] & RT_LINE_BAD;
    }
    o->batch.row_file = file;
    o->batch.row_line = line;
    o->batch.row_bad = is_bad;
}

/* Copies: the rows may be filled anew before the batch is used. */
static void gather_echo(Own *o, const RtRef *refs, uint32_t n) {
    size_t bytes = 0;
    for (uint32_t r = 0; r < n; r++) bytes += rt_echo_of(refs[r].rows, refs[r].row).n;
    RtText *text = room(&o->row_echo, n * sizeof *text);
    char *to = room(&o->echo, bytes);
    for (uint32_t r = 0; r < n; r++) {
        RtText t = rt_echo_of(refs[r].rows, refs[r].row);
        memcpy(to, t.p, t.n);
        text[r] = (RtText){to, t.n};
        to += t.n;
    }
    o->batch.row_echo = text;
}

static bool too_many(const RtAssembler *a, uint64_t found, const char *what, const char *name,
                     RtMessage *err) {
    return rt_message(err,
                      "error: a batch of %u rows has %llu %s '%s', expected fewer than 2^32: compile "
                      "the model with a smaller batch",
                      a->batch, (unsigned long long)found, what, name);
}

/* Places in a batch are numbered in 32 bits; so are the occurrences of a table's rows in it. */
static bool make_offsets(RtAssembler *a, Own *o, uint32_t n, RtMessage *err) {
    for (int i = 0; i < a->p->m->n_axes; i++) {
        int word = a->p->axis_word[i];
        if (word < 0) continue;
        uint32_t *off = room(&o->offsets[i], ((size_t)n + 1) * sizeof *off);
        uint64_t sum = 0;
        for (uint32_t r = 0; r < n; r++) {
            off[r] = (uint32_t)sum;
            sum += a->record[r][word];
        }
        if (sum > UINT32_MAX) return too_many(a, sum, "values along", a->p->m->axes[i].name, err);
        off[n] = (uint32_t)sum;
        o->batch.offsets[i] = off;
    }
    return true;
}

/* Values of an item in the batch: rows, or positions along its axis. */
static size_t item_count(const RtAssembler *a, const Own *o, int item, uint32_t n) {
    int axis = a->p->items[item].axis;
    return axis < 0 ? n : o->batch.offsets[axis][n];
}

static void gather_rows(RtAssembler *a, const RtRef *refs, uint32_t n) {
    enum { AHEAD = 2 }; /* rows to have in the cache before they are copied */
    for (uint32_t r = 0; r < n; r++) {
        if (r + AHEAD < n) {
            const RtRows *rows = refs[r + AHEAD].rows;
            const uint32_t *end = rows->word + rows->at[refs[r + AHEAD].row + 1];
            for (const uint32_t *p = a->record[r + AHEAD]; p < end; p += LINE / sizeof *p)
                __builtin_prefetch(p);
        }
        const uint32_t *len = a->record[r], *from = len + a->p->n_axis_words;
        for (int k = 0; k < a->p->n_items; k++) {
            const Gather *g = &a->gather[k];
            uint32_t *to = a->out[k], words = (g->word < 0 ? 1 : len[g->word]) * (uint32_t)g->words;
            if (words == 1)
                *to = *from;
            else
                for (uint32_t i = 0; i < words; i += COPY) memcpy(to + i, from + i, COPY * sizeof *to);
            from += words;
            a->out[k] = to + words;
        }
    }
}

static void gather(RtAssembler *a, Own *o, const RtRef *refs, uint32_t n) {
    for (int t = 0; t < a->n_targets; t++) {
        const Target *target = &a->target[t];
        size_t bytes =
            item_count(a, o, target->item, n) * (size_t)a->gather[target->item].words * sizeof(uint32_t);
        void *p = room(&o->value[t], bytes);
        if (target->first) a->out[target->item] = p;
        if (target->input >= 0) o->batch.inputs[target->input] = p;
    }
    gather_rows(a, refs, n);
    for (int t = 0; t < a->n_targets; t++) {
        const Target *target = &a->target[t];
        size_t bytes =
            item_count(a, o, target->item, n) * (size_t)a->gather[target->item].words * sizeof(uint32_t);
        if (!target->first) memcpy(o->value[t].p, o->value[a->gather[target->item].target].p, bytes);
    }
    for (int i = 0; i < a->p->m->n_inputs; i++) {
        const RtInput *in = &a->p->m->inputs[i];
        if (in->kind == RT_IN_LOOKUP && a->lookup_target[in->index] >= 0)
            o->batch.inputs[i] = o->value[a->lookup_target[in->index]].p;
    }
}

/* ---- unique rows of a table ---- */

static bool looks_up(const RtAssembler *a, int lookup, int weight) {
    return a->p->m->lookups[lookup].table == weight && a->lookup_target[lookup] >= 0;
}

static size_t lookup_count(const RtAssembler *a, const Own *o, int lookup, uint32_t n) {
    return item_count(a, o, a->target[a->lookup_target[lookup]].item, n);
}

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

static void make_slots(RtAssembler *a, Numbers *x, int bits) {
    size_t want = (size_t)1 << bits;
    x->bits = bits;
    if (want > a->cap_slots) {
        free(a->slot);
        a->slot = rt_reader_alloc(want, sizeof *a->slot);
        a->cap_slots = want;
    } else
        memset(a->slot, 0, want * sizeof *a->slot);
    for (uint32_t u = 0; u < x->n_ids; u++)
        a->slot[place_of(a->slot, bits, x->ids[u])] = (uint64_t)x->ids[u] << 32 | (u + 1);
}

/* Numbers the id, met for the first time. */
static uint32_t number_new(RtAssembler *a, Numbers *x, uint64_t place, uint32_t id) {
    x->ids[x->n_ids] = id;
    a->count[x->n_ids] = 0;
    a->slot[place] = (uint64_t)id << 32 | ++x->n_ids;
    uint32_t number = x->n_ids;
    if ((size_t)x->n_ids * 2 > (size_t)1 << x->bits) make_slots(a, x, x->bits + 1);
    return number;
}

/* Replaces ids by the numbers of unique rows, and counts each one's occurrences. Whether an id is new can't
 * be foretold, so nothing branches on it. */
static void number_directly(RtAssembler *a, Numbers *x, uint32_t *value, size_t n) {
    enum { AHEAD = 16 };
    uint32_t *count = a->count, *number = a->number, *ids = x->ids, n_ids = x->n_ids;
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
static void number_by_slots(RtAssembler *a, Numbers *x, uint32_t *value, size_t n) {
    uint32_t *count = a->count;
    const uint64_t *slot = a->slot;
    int bits = x->bits;
    for (size_t i = 0; i < n; i++) {
        uint32_t id = value[i];
        if (id == RT_NO_ID) continue;
        uint64_t place = place_of(slot, bits, id);
        uint32_t number = (uint32_t)slot[place];
        if (!number) {
            number = number_new(a, x, place, id);
            slot = a->slot, bits = x->bits;
        }
        count[number - 1]++;
        value[i] = number - 1;
    }
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

static void place_occurrences(RtAssembler *a, const Own *o, int lookup, uint32_t n, uint8_t *occ_lookup,
                              uint32_t *occ_index) {
    const RtLookup *l = &a->p->m->lookups[lookup];
    const uint32_t *value = o->value[a->lookup_target[lookup]].p;
    int axis = a->p->m->features[l->feature].axis;
    uint32_t *next = a->count;
    for (uint32_t r = 0, i = 0; r < n; r++) {
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

/* How many values of the batch are looked up in a table. */
static size_t looked_up(const RtAssembler *a, const Own *o, int weight, uint32_t n) {
    size_t total = 0;
    for (int l = 0; l < a->p->m->n_lookups; l++)
        if (looks_up(a, l, weight)) total += lookup_count(a, o, l, n);
    return total;
}

static bool tables_fit(const RtAssembler *a, const Own *o, uint32_t n, RtMessage *err) {
    for (int w = 0; w < a->p->m->n_weights; w++) {
        size_t total = looked_up(a, o, w, n);
        if (total > UINT32_MAX) return too_many(a, total, "lookups in", a->p->m->weights[w].name, err);
    }
    return true;
}

/* Into ids, which has room for all of them; returns how many there are. */
static uint32_t number_table(RtAssembler *a, const Own *o, int weight, uint32_t n, uint32_t *ids) {
    enum { LEAST_BITS = 6 };
    const RtModel *m = a->p->m;
    size_t rows = (size_t)m->weights[weight].dim[0];
    bool small = rows <= RT_MAPPED_ROWS;
    Numbers x = {.ids = ids};
    if (small && rows > a->cap_number) {
        free(a->number);
        a->number = rt_reader_alloc(rows, sizeof *a->number);
        a->cap_number = rows;
    }
    if (!small) make_slots(a, &x, a->bits[weight] ? a->bits[weight] : LEAST_BITS);
    for (int l = 0; l < m->n_lookups; l++)
        if (looks_up(a, l, weight))
            (small ? number_directly : number_by_slots)(a, &x, o->value[a->lookup_target[l]].p,
                                                        lookup_count(a, o, l, n));
    if (!small) a->bits[weight] = (uint8_t)x.bits;
    for (uint32_t u = 0; small && u < x.n_ids; u++) a->number[ids[u]] = 0;
    return x.n_ids;
}

static void fill_table(RtAssembler *a, Own *o, int weight, uint32_t n) {
    const RtModel *m = a->p->m;
    size_t total = looked_up(a, o, weight, n);
    bool any = false;
    for (int l = 0; l < m->n_lookups; l++) any |= looks_up(a, l, weight);
    if (!any) return;
    a->count = rt_reader_grow(a->count, &a->cap_count, total + 1, sizeof *a->count);
    TableRoom *t = &o->table[weight];
    uint32_t *id = room(&t->id, total * sizeof *id), n_ids = number_table(a, o, weight, n, id);
    uint32_t *start = room(&t->start, ((size_t)n_ids + 1) * sizeof *start),
             *slot = room(&t->slot, (size_t)n_ids * sizeof *slot);
    uint8_t *occ_lookup = room(&t->occ_lookup, total);
    uint32_t *occ_index = room(&t->occ_index, total * sizeof *occ_index);
    place_starts(start, a->count, n_ids);
    for (int l = 0; l < m->n_lookups; l++)
        if (looks_up(a, l, weight)) place_occurrences(a, o, l, n, occ_lookup, occ_index);
    find_slots(a, weight, id, slot, n_ids);
    o->batch.tables[weight] = (RtTableBatch){
        .n = n_ids, .id = id, .slot = slot, .start = start, .occ_lookup = occ_lookup, .occ_index = occ_index};
}

bool rt_batch_fill(RtAssembler *a, RtBatch *b, const RtRef *refs, uint32_t n, RtMessage *err) {
    Own *o = b->own;
    b->rows = n;
    find_records(a, o, refs, n);
    if (a->p->echo.n) gather_echo(o, refs, n);
    if (!make_offsets(a, o, n, err) || !tables_fit(a, o, n, err)) return false;
    gather(a, o, refs, n);
    for (int w = 0; w < a->p->m->n_weights; w++) fill_table(a, o, w, n);
    return true;
}
