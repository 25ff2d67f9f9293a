/* The loop of `check`: blocks, the threads that parse them, the threads that count. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "runtime/check.h"
#include "runtime/message.h"
#include "runtime/progress.h"

/* What a thread takes out of a block. */
typedef struct {
    RtBlock block;
    RtRows *rows;
    RtParser *parser;
    const RtDataCheck *k;
    bool full;        /* there is a block */
    uint32_t n, take; /* rows; of these, as many as are wanted */
    uint8_t *half;
    uint32_t *positive;
    uint64_t *hash;
    size_t cap_half, cap_positive, cap_hash;
    RtCheckValues *column;         /* [column] */
    RtCheckValues *feature;        /* [feature] ids of crosses, in key */
    uint64_t *looked_up, *unknown; /* [feature] */
    char *room;                    /* texts that don't stand in the block as such: no longer than it */
    size_t n_room, cap_room;
    RtMessage bad[RT_CHECK_MESSAGES];
    uint32_t n_bad, *bad_before; /* good rows before each bad one */
    size_t cap_bad;
} Lane;

typedef struct {
    RtDataCheck *k;
    Lane *lane;
    uint32_t n_lanes;
    RtPool *pool;
    RtCutter *cutter;
    RtBadFiles *bad_files;
} Reading;

/* ---- a row's values ---- */

static RtText stable(Lane *l, const RtField *k, RtText t) {
    for (int side = 0; side < RT_SIDES; side++) {
        const char *from = l->block.text[side];
        if (from && t.p >= from && t.p < from + l->block.bytes[side]) return t;
    }
    if (!t.n || t.p == k->default_text.p) return t;
    char *to = memcpy(l->room + l->n_room, t.p, t.n);
    l->n_room += t.n;
    return (RtText){to, t.n};
}

static void room(RtCheckValues *v, uint32_t more, bool texts) {
    v->key = rt_reader_grow(v->key, &v->cap_key, v->n + more, sizeof *v->key);
    if (texts) v->text = rt_reader_grow(v->text, &v->cap_text, v->n + more, sizeof *v->text);
}

static void take_column(Lane *l, const RtCheckColumn *c, const RtField *k, RtCheckValues *v) {
    size_t before = v->n;
    uint32_t n = c->c->is_list || !k->empty ? k->v->n : 0;
    room(v, n, c->c->kind == RT_STRING);
    if (c->c->kind == RT_STRING)
        for (uint32_t i = 0; i < n; i++) {
            if (!k->v->text[i].p) continue;
            RtText text = stable(l, k, k->v->text[i]);
            v->text[v->n] = text;
            v->key[v->n++] = XXH3_64bits(text.p, text.n);
        }
    else
        for (uint32_t i = 0; i < n; i++) v->key[v->n++] = rt_check_number_key(c->c, k->v, i);
    v->count = rt_reader_grow(v->count, &v->cap_count, (size_t)l->n + 1, sizeof *v->count);
    v->total = rt_reader_grow(v->total, &v->cap_total, (size_t)l->n + 1, sizeof *v->total);
    v->count[l->n] = (uint32_t)(v->n - before);
    v->total[l->n] = k->total;
}

static void take_feature(Lane *l, const RtParser *p, int i) {
    const RtCheckFeature *f = &l->k->feature[i];
    if (f->f->op == RT_F_CROSS) {
        const RtValues *v = &p->features.value[f->feature];
        RtCheckValues *to = &l->feature[i];
        room(to, v->n, false);
        for (uint32_t j = 0; j < v->n; j++)
            if (v->id[j] != RT_NO_ID) to->key[to->n++] = v->id[j];
    } else if (f->f->op == RT_F_VOCAB) {
        const RtValues *v = &p->values[p->p->root[f->feature]];
        const RtVocabTable *t = p->p->m->vocabs[f->f->vocab].table;
        for (uint32_t j = 0; j < v->n; j++) {
            if (!v->text[j].p) continue;
            l->looked_up[i]++;
            l->unknown[i] += rt_vocab_find(t, v->text[j].p, v->text[j].n) == RT_NO_ID;
        }
    }
}

static void take_row(void *own, const RtParser *p, const char *const *row_end) {
    Lane *l = own;
    const RtDataCheck *k = l->k;
    const char *end = row_end[0];
    if (end > p->row[0] && end[-1] == '\n') end--;
    if (end > p->row[0] && end[-1] == '\r') end--;
    l->half = rt_reader_grow(l->half, &l->cap_half, (size_t)l->n + 1, 1);
    l->positive = rt_reader_grow(l->positive, &l->cap_positive, (size_t)l->n + 1, sizeof *l->positive);
    l->hash = rt_reader_grow(l->hash, &l->cap_hash, (size_t)l->n + 1, sizeof *l->hash);
    l->hash[l->n] = XXH3_64bits(p->row[0], (size_t)(end - p->row[0]));
    l->half[l->n] = (uint8_t)(l->hash[l->n] & 1); /* copies of a row stay together */
    l->positive[l->n] = 0;
    for (int i = 0; i < k->n_labels; i++) {
        const RtValues *v = &p->values[k->column[k->label[i]].column];
        if (v->n && v->real[0] > 0.5f) l->positive[l->n] |= 1u << i;
    }
    for (int i = 0; i < k->n_columns; i++)
        take_column(l, &k->column[i], &p->column[k->column[i].column], &l->column[i]);
    for (int i = 0; i < k->n_features; i++) take_feature(l, p, i);
    l->n++;
}

static void take_bad(void *own, const RtMessage *error) {
    Lane *l = own;
    if (l->n_bad < RT_CHECK_MESSAGES) l->bad[l->n_bad] = *error;
    l->bad_before = rt_reader_grow(l->bad_before, &l->cap_bad, (size_t)l->n_bad + 1, sizeof *l->bad_before);
    l->bad_before[l->n_bad++] = l->n;
}

/* ---- the two phases ---- */

static void clear(Lane *l) {
    l->n = l->take = l->n_bad = 0;
    l->n_room = 0;
    rt_rows_clear(l->rows);
    for (int i = 0; i < l->k->n_columns; i++) l->column[i].n = 0;
    for (int i = 0; i < l->k->n_features; i++) l->feature[i].n = 0;
    size_t most = l->block.bytes[0] + (l->k->plan->side ? l->block.bytes[1] : 0);
    l->room = rt_reader_grow(l->room, &l->cap_room, most + 1, 1);
}

static void parse(void *arg, uint32_t thread, uint32_t threads) {
    Reading *r = arg;
    (void)threads;
    Lane *l = &r->lane[thread];
    if (l->full) rt_parse_block(l->parser, &l->block, l->rows);
}

static void count_cross(RtCheckFeature *f, const RtCheckValues *v) {
    for (size_t i = 0; f->occupied && i < v->n; i++) f->occupied[v->key[i] >> 6] |= 1ull << (v->key[i] & 63);
}

static void count(void *arg, uint32_t thread, uint32_t threads) {
    Reading *r = arg;
    RtDataCheck *k = r->k;
    for (uint32_t b = 0; b < r->n_lanes && r->lane[b].full; b++) {
        Lane *l = &r->lane[b];
        for (int i = (int)thread; i < k->n_columns; i += (int)threads)
            rt_check_column_add(&k->column[i], &l->column[i], l->take, l->half, l->positive);
        for (int i = (int)thread; i < k->n_features; i += (int)threads)
            if (l->take == l->n) count_cross(&k->feature[i], &l->feature[i]);
        if (thread == 0)
            for (uint32_t i = 0; i < l->take; i++) rt_hll_add(k->rows_hll, l->hash[i]);
    }
}

/* How many of the lane's rows are wanted, and what of its bad ones came before. */
static void measure(RtDataCheck *k, Lane *l, uint64_t limit) {
    uint64_t left = limit ? limit - k->rows : UINT64_MAX;
    l->take = l->n < left ? l->n : (uint32_t)left;
    for (uint32_t i = 0; i < l->n_bad && (l->take == l->n || l->bad_before[i] < l->take); i++) {
        if (i < RT_CHECK_MESSAGES && k->bad_rows < RT_CHECK_MESSAGES) k->bad[k->bad_rows] = l->bad[i];
        k->bad_rows++;
    }
    k->rows += l->take;
}

/* ---- setting up ---- */

static void choose_columns(RtDataCheck *k) {
    const RtModel *m = k->m;
    k->column = rt_reader_alloc((size_t)m->n_columns, sizeof *k->column);
    for (int i = 0; i < m->n_columns; i++) {
        if (!k->plan->column_on[i]) continue;
        const RtColumn *c = &m->columns[i];
        RtCheckColumn *col = &k->column[k->n_columns];
        *col = (RtCheckColumn){.c = c, .column = i, .label = -1};
        if (c->is_list) col->most = m->axes[c->axis].max;
        bool binary = c->kind == RT_LABEL && !c->is_list && (c->unit_label || c->positive);
        if (binary && k->n_labels < RT_CHECK_LABELS) {
            col->label = k->n_labels;
            k->label[k->n_labels++] = k->n_columns;
        }
        for (int j = 0; j < m->n_features; j++) {
            const RtFeature *f = &m->features[j];
            if (!k->plan->feature_on[j] || k->plan->root[j] != i) continue;
            col->hashed |= f->op == RT_F_HASH;
            col->raw |= f->type == RT_T_F32 && k->plan->item_of[j] >= 0 && c->kind != RT_LABEL;
        }
        k->n_columns++;
    }
    for (int i = 0; i < k->n_columns; i++) rt_check_column_init(&k->column[i], k->n_labels);
}

/* The same buckets of the same values, asked for at two places. */
static bool is_known(const RtDataCheck *k, int feature) {
    const RtFeature *f = &k->m->features[feature];
    for (int i = 0; i < k->n_features; i++) {
        const RtFeature *g = k->feature[i].f;
        bool parts = g->n_in == f->n_in;
        for (int j = 0; parts && j < f->n_in; j++)
            parts = g->in[j].is_column == f->in[j].is_column && g->in[j].index == f->in[j].index;
        bool root = f->op != RT_F_CROSS && k->plan->root[k->feature[i].feature] == k->plan->root[feature];
        if (g->op == f->op && (parts || root) && g->buckets == f->buckets && g->vocab == f->vocab &&
            g->farm64 == f->farm64)
            return true;
    }
    return false;
}

static void choose_features(RtDataCheck *k) {
    const RtModel *m = k->m;
    k->feature = rt_reader_alloc((size_t)m->n_features, sizeof *k->feature);
    for (int i = 0; i < m->n_features; i++) {
        const RtFeature *f = &m->features[i];
        bool wanted =
            f->op == RT_F_CROSS || ((f->op == RT_F_HASH || f->op == RT_F_VOCAB) && k->plan->root[i] >= 0);
        if (!k->plan->feature_on[i] || !wanted || is_known(k, i)) continue;
        RtCheckFeature *g = &k->feature[k->n_features++];
        *g = (RtCheckFeature){.feature = i, .f = f};
        if (f->op == RT_F_CROSS && f->buckets <= 1u << 30)
            g->occupied = rt_reader_alloc(f->buckets / 64 + 1, sizeof *g->occupied);
    }
}

static void open_lane(Reading *r, Lane *l) {
    RtDataCheck *k = r->k;
    l->k = k;
    l->rows = rt_rows_new();
    l->column = rt_reader_alloc((size_t)k->n_columns, sizeof *l->column);
    l->feature = rt_reader_alloc((size_t)k->n_features, sizeof *l->feature);
    l->looked_up = rt_reader_alloc((size_t)k->n_features, sizeof *l->looked_up);
    l->unknown = rt_reader_alloc((size_t)k->n_features, sizeof *l->unknown);
    l->parser = rt_parser_new(k->plan, &k->files, RT_BAD_SKIP, NULL);
    l->parser->observer = (RtObserver){l, take_row, take_bad};
}

static void free_values(RtCheckValues *v, int n) {
    for (int i = 0; v && i < n; i++) {
        free(v[i].key);
        free(v[i].text);
        free(v[i].count);
        free(v[i].total);
    }
    free(v);
}

static void close_lane(Lane *l, const RtDataCheck *k) {
    free_values(l->column, k->n_columns);
    free_values(l->feature, k->n_features);
    free(l->looked_up);
    free(l->unknown);
    free(l->half);
    free(l->positive);
    free(l->hash);
    free(l->room);
    free(l->bad_before);
    free(l->block.text[0]);
    free(l->block.text[1]);
    rt_parser_free(l->parser);
    rt_rows_free(l->rows);
}

static bool find_files(RtDataCheck *k, RtMessage *err) {
    const RtWords *w = &k->a->data;
    return rt_files_find(&k->files, w->v, w->n, k->m->beside, k->plan->side, err);
}

/* Plan, files, and the first block: then it is known whether the columns are there. */
static int open_for(Reading *r, int purpose, uint64_t *lines, RtMessage *err) {
    RtDataCheck *k = r->k;
    k->plan = rt_plan_new(k->m, purpose, err);
    if (!k->plan || !find_files(k, err)) return -1;
    r->cutter = rt_cutter_new(k->plan, &k->files, -1);
    return rt_cutter_next(r->cutter, &r->lane[0].block, lines, err);
}

static void close_plan(Reading *r) {
    rt_cutter_free(r->cutter);
    rt_files_free(&r->k->files);
    rt_plan_free(r->k->plan);
    r->cutter = NULL;
    r->k->files = (RtFiles){0};
    r->k->plan = NULL;
}

/* Data to predict on has no label column, perhaps: then the rest of it is looked at. Not stdin: what was read
 * of it is gone. */
static int open_data(Reading *r, RtMessage *err) {
    uint64_t lines;
    RtMessage without;
    int got = open_for(r, RT_TRAIN, &lines, err);
    bool by_header = r->k->m->header && r->k->files.n && r->k->files.sized;
    if (got >= 0 || !by_header || !strstr(err->text, "is missing from the header")) return got;
    close_plan(r);
    got = open_for(r, RT_PREDICT, &lines, &without);
    if (got > 0) r->k->no_label = *err;
    return got > 0 ? got : -1;
}

/* ---- the loop ---- */

/* Blocks for the lanes behind the first `have`. */
static bool fill(Reading *r, uint32_t have, RtMessage *err) {
    uint64_t lines;
    bool more = true;
    for (uint32_t i = have; i < r->n_lanes; i++) {
        int got = more ? rt_cutter_next(r->cutter, &r->lane[i].block, &lines, err) : 0;
        if (got < 0) return false;
        r->lane[i].full = more = got > 0;
    }
    for (uint32_t i = 0; i < r->n_lanes; i++)
        if (r->lane[i].full) clear(&r->lane[i]);
    return true;
}

static bool put_bad(Reading *r, RtMessage *err) {
    for (uint32_t i = 0; r->bad_files && i < r->n_lanes && r->lane[i].full; i++)
        if (r->lane[i].n_bad &&
            !rt_bad_files_write(r->bad_files, &r->k->files.file[r->lane[i].block.file], r->lane[i].rows, err))
            return false;
    return true;
}

static bool too_many(const RtDataCheck *k) {
    return k->a->on_bad_row && k->a->max_bad_rows >= 0 && k->bad_rows > (uint64_t)k->a->max_bad_rows;
}

static bool read_blocks(Reading *r, uint64_t limit, RtProgress *progress, RtMessage *err) {
    RtDataCheck *k = r->k;
    for (bool first = true; !(limit && k->rows >= limit) && !too_many(k); first = false) {
        if (!fill(r, first, err)) return false;
        if (!r->lane[0].full) break;
        rt_pool_run(r->pool, parse, r);
        for (uint32_t i = 0; i < r->n_lanes && r->lane[i].full; i++) measure(k, &r->lane[i], limit);
        rt_pool_run(r->pool, count, r);
        if (!put_bad(r, err)) return false;
        k->bytes = rt_cutter_taken(r->cutter);
        double share = k->files.sized && k->files.bytes ? (double)k->bytes / (double)k->files.bytes : -1;
        rt_progress_show(progress, rt_now(), k->rows, NAN, share, 0);
    }
    return !r->bad_files || rt_bad_files_flush(r->bad_files, err);
}

static bool open_bad_files(Reading *r, RtMessage *err) {
    const RtDataCheck *k = r->k;
    if (!k->a->bad_rows || k->a->command != RT_CMD_CHECK) return true;
    return (r->bad_files = rt_bad_files_new(k->m, k->a->bad_rows, k->plan->side, err));
}

static void add_lookups(Reading *r) {
    for (int i = 0; i < r->k->n_features; i++)
        for (uint32_t b = 0; b < r->n_lanes; b++) {
            r->k->feature[i].looked_up += r->lane[b].looked_up[i];
            r->k->feature[i].unknown += r->lane[b].unknown[i];
        }
}

static int run(Reading *r, uint64_t limit) {
    RtDataCheck *k = r->k;
    RtMessage err = {""};
    RtProgress progress;
    double start = rt_now();
    rt_progress_init(&progress, k->a->progress);
    rt_progress_begin(&progress, "check", start);
    if (open_data(r, &err) < 0) return rt_fail(RT_EXIT_FAILED, "%s", err.text);
    r->lane[0].full = true;
    if (!open_bad_files(r, &err)) return rt_fail(RT_EXIT_FAILED, "%s", err.text);
    choose_columns(k);
    choose_features(k);
    for (uint32_t i = 0; i < r->n_lanes; i++) open_lane(r, &r->lane[i]);
    bool ok = read_blocks(r, limit, &progress, &err);
    rt_progress_clear();
    if (!ok) return rt_fail(RT_EXIT_FAILED, "%s", err.text);
    add_lookups(r);
    k->seconds = rt_now() - start;
    return RT_EXIT_OK;
}

int rt_check_read(RtDataCheck *k, uint64_t limit) {
    Reading r = {.k = k, .n_lanes = rt_args_threads(k->a)};
    k->rows_hll = rt_reader_alloc(1, sizeof *k->rows_hll);
    k->warnings = json_array();
    r.lane = rt_reader_alloc(r.n_lanes, sizeof *r.lane);
    r.pool = rt_pool_new(r.n_lanes);
    int code = r.pool ? run(&r, limit) : rt_fail(RT_EXIT_FAILED, "cannot start %u threads", r.n_lanes);
    for (uint32_t i = 0; i < r.n_lanes; i++) close_lane(&r.lane[i], k);
    free(r.lane);
    rt_pool_free(r.pool);
    rt_bad_files_free(r.bad_files);
    rt_cutter_free(r.cutter);
    return code;
}

void rt_check_free(RtDataCheck *k) {
    for (int i = 0; i < k->n_columns; i++) rt_check_column_free(&k->column[i]);
    for (int i = 0; i < k->n_features; i++) free(k->feature[i].occupied);
    free(k->column);
    free(k->feature);
    free(k->rows_hll);
    rt_files_free(&k->files);
    rt_plan_free(k->plan);
    json_decref(k->warnings);
}
