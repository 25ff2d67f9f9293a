/* Assembles a batch: gathers rows into one array an input and makes the offsets of each axis. Runs on one
 * thread. What is looked up in tables is numbered in batch_index.c. */
#include <stdlib.h>
#include <string.h>
#include "runtime/batch_own.h"

enum { LINE = 64, COPY = 8 /* words moved at once; arrays have that much slack */ };

void *rt_room(RtRoom *r, size_t bytes) {
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
    RtGather *g = &a->gather[item];
    a->target[a->n_targets] = (RtTarget){item, lookup, input, g->target < 0};
    if (g->target < 0) g->target = a->n_targets;
    return a->n_targets++;
}

RtAssembler *rt_assembler_new(const RtPlan *p, RtTables *tables, uint32_t batch, bool index_later) {
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
    if (!index_later) a->scratch = rt_index_scratch_new(m);
    for (int k = 0; k < p->n_items; k++)
        a->gather[k] =
            (RtGather){p->items[k].axis < 0 ? -1 : p->axis_word[p->items[k].axis], p->items[k].words, -1};
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
    rt_index_scratch_free(a->scratch);
    free(a);
}

RtBatch *rt_batch_new(const RtAssembler *a) {
    const RtModel *m = a->p->m;
    RtOwn *o = rt_reader_alloc(1, sizeof *o);
    o->head.batch = &o->batch;
    o->batch.own = o;
    o->batch.offsets = rt_reader_alloc((size_t)m->n_axes, sizeof(void *));
    o->batch.inputs = rt_reader_alloc((size_t)m->n_inputs, sizeof(void *));
    o->batch.tables = rt_reader_alloc((size_t)m->n_weights, sizeof *o->batch.tables);
    o->offsets = rt_reader_alloc((size_t)m->n_axes, sizeof *o->offsets);
    o->value = rt_reader_alloc((size_t)a->n_targets, sizeof *o->value);
    o->a = a;
    o->table = rt_reader_alloc((size_t)m->n_weights, sizeof *o->table);
    o->looked_up = rt_reader_alloc((size_t)m->n_weights, sizeof *o->looked_up);
    o->order = rt_reader_alloc((size_t)m->n_weights, sizeof *o->order);
    return &o->batch;
}

void rt_batch_free(const RtAssembler *a, RtBatch *b) {
    if (!b) return;
    const RtModel *m = a->p->m;
    RtOwn *o = b->own;
    for (int i = 0; i < m->n_axes; i++) free(o->offsets[i].p);
    for (int i = 0; i < a->n_targets; i++) free(o->value[i].p);
    for (int i = 0; i < m->n_weights; i++) {
        RtTableRoom *t = &o->table[i];
        free(t->id.p);
        free(t->slot.p);
        free(t->start.p);
        free(t->occ_lookup.p);
        free(t->occ_index.p);
    }
    free(o->offsets);
    free(o->value);
    free(o->table);
    free(o->looked_up);
    free(o->order);
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

static void find_records(RtAssembler *a, RtOwn *o, const RtRef *refs, uint32_t n) {
    uint32_t *file = rt_room(&o->row_file, (size_t)n * sizeof *file);
    uint64_t *line = rt_room(&o->row_line, (size_t)n * sizeof *line);
    bool *is_bad = rt_room(&o->row_bad, (size_t)n * sizeof *is_bad);
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
static void gather_echo(RtOwn *o, const RtRef *refs, uint32_t n) {
    size_t bytes = 0;
    for (uint32_t r = 0; r < n; r++) bytes += rt_echo_of(refs[r].rows, refs[r].row).n;
    RtText *text = rt_room(&o->row_echo, n * sizeof *text);
    char *to = rt_room(&o->echo, bytes);
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
static bool make_offsets(RtAssembler *a, RtOwn *o, uint32_t n, RtMessage *err) {
    for (int i = 0; i < a->p->m->n_axes; i++) {
        int word = a->p->axis_word[i];
        if (word < 0) continue;
        uint32_t *off = rt_room(&o->offsets[i], ((size_t)n + 1) * sizeof *off);
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
            const RtGather *g = &a->gather[k];
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

static void gather(RtAssembler *a, RtOwn *o, const RtRef *refs, uint32_t n) {
    for (int t = 0; t < a->n_targets; t++) {
        const RtTarget *target = &a->target[t];
        size_t bytes =
            rt_item_count(a, o, target->item, n) * (size_t)a->gather[target->item].words * sizeof(uint32_t);
        void *p = rt_room(&o->value[t], bytes);
        if (target->first) a->out[target->item] = p;
        if (target->input >= 0) o->batch.inputs[target->input] = p;
    }
    gather_rows(a, refs, n);
    for (int t = 0; t < a->n_targets; t++) {
        const RtTarget *target = &a->target[t];
        size_t bytes =
            rt_item_count(a, o, target->item, n) * (size_t)a->gather[target->item].words * sizeof(uint32_t);
        if (!target->first) memcpy(o->value[t].p, o->value[a->gather[target->item].target].p, bytes);
    }
    for (int i = 0; i < a->p->m->n_inputs; i++) {
        const RtInput *in = &a->p->m->inputs[i];
        if (in->kind == RT_IN_LOOKUP && a->lookup_target[in->index] >= 0)
            o->batch.inputs[i] = o->value[a->lookup_target[in->index]].p;
    }
}

bool rt_batch_fill(RtAssembler *a, RtBatch *b, const RtRef *refs, uint32_t n, RtMessage *err) {
    RtOwn *o = b->own;
    b->rows = n;
    find_records(a, o, refs, n);
    if (a->p->echo.n) gather_echo(o, refs, n);
    if (!make_offsets(a, o, n, err)) return false;
    int weight;
    if (!rt_batch_count(b, &weight))
        return too_many(a, o->looked_up[weight], "lookups in", a->p->m->weights[weight].name, err);
    gather(a, o, refs, n);
    b->to_index = !a->scratch;
    if (!a->scratch) return true;
    rt_index_reserve(a->scratch, b);
    rt_batch_index(b, a->scratch);
    return true;
}
