/* Features: columns of one row to ids, numbers and keys. Results that a batch needs are written straight into
 * the row's record, in the order of the features; others live in scratch until the row is done. */
#include "runtime/reader_internal.h"
#include "runtime/reader_lanes.h"
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <stdlib.h>
#include <string.h>

RtMod rt_mod_new(uint32_t divisor) {
    /* floor(2^64 / d), as far as it fits: the quotient is then at most one too small */
    return (RtMod){divisor, divisor > 1 ? (uint64_t)(((unsigned __int128)1 << 64) / divisor) : UINT64_MAX};
}

void rt_features_init(RtFeatureState *s, const RtPlan *p) {
    size_t n = (size_t)p->m->n_features;
    s->value = rt_reader_alloc(n, sizeof *s->value);
    s->scratch = rt_reader_alloc(n, sizeof *s->scratch);
    s->cap = rt_reader_alloc(n, sizeof *s->cap);
    s->axis_len = rt_reader_alloc((size_t)p->m->n_axes, sizeof *s->axis_len);
    int parts = 0;
    for (int i = 0; i < p->m->n_features; i++)
        if (p->m->features[i].n_in > parts) parts = p->m->features[i].n_in;
    s->cross = rt_reader_alloc((size_t)parts, sizeof *s->cross);
}

void rt_features_free(RtFeatureState *s, const RtPlan *p) {
    for (int i = 0; s->scratch && i < p->m->n_features; i++) free(s->scratch[i]);
    free(s->value);
    free(s->scratch);
    free(s->cap);
    free(s->axis_len);
    free(s->cross);
}

typedef struct {
    const RtPlan *p;
    const RtFeature *f;
    int i; /* the feature's number */
    const RtValues *columns;
    RtFeatureState *s;
    RtFeatureError *error;
    RtSpans *spans; /* NULL: texts may stand anywhere */
} Run;

static inline const RtValues *part(const Run *r, int k) {
    RtPart in = r->f->in[k];
    return in.is_column ? &r->columns[in.index] : &r->s->value[in.index];
}

/* ---- one function an op: writes `out`, returns how many values ---- */

static uint32_t run_hash(const Run *r, const RtValues *x, uint32_t *out) {
    RtMod mod = r->p->mod[r->i];
    if (r->f->farm64) {
        for (uint32_t i = 0; i < x->n; i++)
            out[i] = x->text[i].p ? rt_mod(rt_farm64(x->text[i].p, x->text[i].n), mod) : RT_NO_ID;
    } else {
        for (uint32_t i = 0; i < x->n; i++)
            out[i] = x->text[i].p ? rt_mod(XXH3_64bits(x->text[i].p, x->text[i].n), mod) : RT_NO_ID;
    }
    return x->n;
}

static uint32_t run_vocab(const Run *r, const RtValues *x, uint32_t *out) {
    const RtVocabTable *t = r->p->m->vocabs[r->f->vocab].table;
    int axis = r->f->axis;
    bool leave_out =
        axis >= 0 && r->p->m->axes[axis].kind == RT_AXIS_FILTER && part(r, 0) == x && r->f->unknown < 0;
    RtPart in = r->f->in[0]; /* near: all in the block, as they stand there */
    bool near = r->spans && in.is_column && r->p->m->columns[in.index].kind == RT_STRING &&
                !r->spans->span[in.index].odd;
    uint32_t unknown = r->f->unknown < 0 ? RT_NO_ID : (uint32_t)r->f->unknown, n = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        uint32_t id = RT_NO_ID;
        if (x->text[i].p) {
            id = near ? rt_vocab_find_near(t, x->text[i].p, x->text[i].n)
                      : rt_vocab_find(t, x->text[i].p, x->text[i].n);
            if (id == RT_NO_ID) id = unknown;
        }
        if (id != RT_NO_ID || !leave_out) out[n++] = id;
    }
    return n;
}

/* How many bounds are <= x: bounds ascend. */
static uint32_t count_bounds(const float *bounds, uint32_t n, float x) {
    uint32_t lo = 0, hi = n;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (bounds[mid] <= x)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}
static uint32_t count_bounds_whole(const double *bounds, uint32_t n, int64_t x) {
    uint32_t lo = 0, hi = n;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if ((long double)bounds[mid] <= (long double)x)
            lo = mid + 1; /* long double holds every int64 */
        else
            hi = mid;
    }
    return lo;
}

static uint32_t run_bucketize(const Run *r, const RtValues *x, uint32_t *out) {
    uint32_t n_bounds = (uint32_t)r->f->n_bounds;
    for (uint32_t i = 0; i < x->n; i++)
        out[i] = x->whole ? count_bounds_whole(r->f->bounds, n_bounds, x->whole[i])
                          : count_bounds(r->p->bounds[r->i], n_bounds, x->real[i]);
    return x->n;
}

/* A float's value if it is a whole number that an id can be, else -1. */
static int64_t whole_of(float x) { return x >= 0 && x < 0x1p32f && x == (float)(int64_t)x ? (int64_t)x : -1; }

static uint32_t run_identity(const Run *r, const RtValues *x, uint32_t *out) {
    for (uint32_t i = 0; i < x->n; i++) {
        int64_t v = x->whole ? x->whole[i] : whole_of(x->real[i]);
        if (v < 0 || (uint64_t)v >= r->f->bound) {
            *r->error = (RtFeatureError){r->p->root[r->i], r->f->bound, x->whole ? x->whole + i : NULL,
                                         x->real ? x->real + i : NULL};
            return UINT32_MAX;
        }
        out[i] = (uint32_t)v;
    }
    return x->n;
}

/* None below 0, which wraps, and from the bound on. */
static uint32_t run_offset(const Run *r, const RtValues *x, uint32_t *out) {
    for (uint32_t i = 0; i < x->n; i++) {
        uint64_t id = x->id[i] + (uint64_t)r->f->by;
        out[i] = x->id[i] == RT_NO_ID || id >= r->f->bound ? RT_NO_ID : (uint32_t)id;
    }
    return x->n;
}

static inline bool is_list(const Run *r, int k) {
    RtPart in = r->f->in[k];
    return in.is_column ? r->p->m->columns[in.index].is_list : r->p->m->features[in.index].axis >= 0;
}

/* XXH3 of the parts' words; a part that is no list counts at every position. */
static uint32_t run_cross(const Run *r, uint32_t *out) {
    uint64_t *word = r->s->cross;
    uint32_t n = 1;
    for (int k = 0; k < r->f->n_in; k++)
        if (is_list(r, k)) n = part(r, k)->n;
    for (uint32_t i = 0; i < n; i++) {
        bool whole = true;
        for (int k = 0; k < r->f->n_in && whole; k++) {
            const RtValues *x = part(r, k);
            uint32_t at = is_list(r, k) ? i : 0;
            if (x->id) {
                whole = x->id[at] != RT_NO_ID;
                word[k] = x->id[at];
            } else {
                whole = x->text[at].p != NULL;
                word[k] = whole ? XXH3_64bits(x->text[at].p, x->text[at].n) : 0;
            }
        }
        out[i] = whole ? rt_mod(XXH3_64bits(word, (size_t)r->f->n_in * 8), r->p->mod[r->i]) : RT_NO_ID;
    }
    return n;
}

/* A missing text has the key of the empty one: rows without a group are a group. */
static uint32_t run_key(const RtValues *x, uint32_t *out) {
    for (uint32_t i = 0; i < x->n; i++) {
        uint64_t key = x->id          ? x->id[i]
                       : x->text[i].p ? XXH3_64bits(x->text[i].p, x->text[i].n)
                                      : XXH3_64bits("", 0);
        memcpy(out + 2 * (size_t)i, &key, 8);
    }
    return x->n;
}

static uint32_t run_number(const RtValues *x, uint32_t *out) {
    for (uint32_t i = 0; i < x->n; i++) {
        float f = (float)x->whole[i];
        memcpy(out + i, &f, 4);
    }
    return x->n;
}

/* The row's length along an axis; filtered ones were set by their vocab. */
static uint32_t length_along(const RtFeatureState *s, const RtModel *m, int axis) {
    const RtAxis *a = &m->axes[axis];
    if (a->kind == RT_AXIS_LIST || a->kind == RT_AXIS_FILTER) return s->axis_len[axis];
    uint32_t whole = length_along(s, m, a->parent);
    if (a->kind == RT_AXIS_APPEND) return whole + 1;
    return whole < a->max ? whole : (uint32_t)a->max;
}

static uint32_t run_positions(const Run *r, uint32_t *out) {
    uint32_t n = length_along(r->s, r->p->m, r->f->axis);
    for (uint32_t i = 0; i < n; i++) out[i] = i;
    return n;
}

/* The same values, or the first or last of them: no copy. */
static RtValues view(const Run *r, const RtValues *x) {
    RtValues v = *x;
    if (r->f->op != RT_F_TRUNCATE) return v;
    const RtAxis *a = &r->p->m->axes[r->f->axis];
    if (x->n <= a->max) return v;
    uint32_t skip = a->kind == RT_AXIS_LAST ? x->n - (uint32_t)a->max : 0;
    v.n = (uint32_t)a->max;
    v.text = x->text ? x->text + skip : NULL;
    v.whole = x->whole ? x->whole + skip : NULL;
    v.real = x->real ? x->real + skip : NULL;
    v.id = x->id ? x->id + skip : NULL;
    v.key = x->key ? x->key + skip : NULL;
    return v;
}

static void store_view(const RtFeature *f, const RtValues *v, uint32_t *out) {
    if (!v->n) return; /* a column that has had no value yet has no array either */
    if (f->type == RT_T_F32)
        memcpy(out, v->real, v->n * sizeof(float));
    else if (f->type == RT_T_ID)
        memcpy(out, v->id, v->n * sizeof(uint32_t));
    else if (f->type == RT_T_KEY)
        memcpy(out, v->key, v->n * sizeof(uint64_t));
}

/* Most values that the feature can have in this row. */
static uint32_t most_values(const Run *r) {
    uint32_t n = r->f->op == RT_F_POSITIONS ? length_along(r->s, r->p->m, r->f->axis) : 1;
    for (int k = 0; k < r->f->n_in; k++)
        if (part(r, k)->n > n) n = part(r, k)->n;
    return n;
}

static uint32_t *scratch_of(const Run *r, uint32_t n) {
    if (r->s->cap[r->i] < n) {
        free(r->s->scratch[r->i]);
        r->s->cap[r->i] = n * 2;
        r->s->scratch[r->i] = rt_reader_alloc((size_t)n * 2, 8);
    }
    return r->s->scratch[r->i];
}

static uint32_t run_op(const Run *r, uint32_t *out) {
    const RtValues *x = part(r, 0);
    switch (r->f->op) {
    case RT_F_HASH: return run_hash(r, x, out);
    case RT_F_VOCAB: return run_vocab(r, x, out);
    case RT_F_BUCKETIZE: return run_bucketize(r, x, out);
    case RT_F_IDENTITY: return run_identity(r, x, out);
    case RT_F_OFFSET: return run_offset(r, x, out);
    case RT_F_CROSS: return run_cross(r, out);
    case RT_F_POSITIONS: return run_positions(r, out);
    case RT_F_KEY: return run_key(x, out);
    case RT_F_NUMBER: return run_number(x, out);
    default: return 0;
    }
}

/* Runs one feature. words: where its result goes if it is stored, NULL if not. */
static bool run_feature(const Run *r, uint32_t *words) {
    RtValues *v = &r->s->value[r->i];
    RtFeatureOp op = r->f->op;
    if (op == RT_F_VALUE || op == RT_F_TRUNCATE) {
        *v = view(r, part(r, 0));
        if (words) store_view(r->f, v, words);
        return true;
    }
    uint32_t *out = words ? words : scratch_of(r, most_values(r)), n = run_op(r, out);
    if (n == UINT32_MAX) return false;
    *v = (RtValues){.n = n};
    if (r->f->type == RT_T_F32)
        v->real = (float *)out;
    else if (r->f->type == RT_T_KEY)
        v->key = NULL; /* nothing is made of keys */
    else
        v->id = out;
    return true;
}

/* Lengths along all axes that are on. */
static void store_lengths(const RtFeatureState *s, const RtPlan *p, uint32_t *words) {
    for (int k = 0; k < p->n_axis_words; k++) words[k] = length_along(s, p->m, p->axis_order[k]);
}

/* A group's values by lanes; those of columns that are not plain in this row from their values. NULL: some
 * text is no number. */
static uint32_t *run_lanes(const Run *any, const RtGroup *group, RtSpans *spans, uint32_t *at) {
    const RtPlan *p = any->p;
    uint32_t *end = rt_lanes_run(spans, p, group, at);
    for (int k = 0; end && spans->odd && k < group->n; k++) {
        Run r = *any;
        r.i = p->order[group->first + k];
        r.f = &p->m->features[r.i];
        uint32_t column = (uint32_t)r.f->in[0].index;
        if (spans->span[column].odd) run_feature(&r, at);
        at += spans->span[column].n;
    }
    return end;
}

bool rt_features_run(RtFeatureState *s, const RtPlan *p, const RtValues *columns, RtSpans *spans,
                     RtRows *rows, RtFeatureError *error) {
    const RtModel *m = p->m;
    uint32_t longest = 1, appended = 0; /* no axis is longer than a list and all that may be appended to it */
    for (int k = 0; k < p->n_axis_words; k++) {
        int axis = p->axis_order[k];
        if (m->axes[axis].kind == RT_AXIS_LIST && s->axis_len[axis] > longest) longest = s->axis_len[axis];
        appended += m->axes[axis].kind == RT_AXIS_APPEND;
    }
    longest += appended;
    /* room for everything now: values that later features look at must not move */
    rt_rows_reserve(rows, (size_t)p->n_axis_words + (size_t)p->n_items * 2 * longest);
    uint32_t *head = rows->word + rows->words, *at = head + p->n_axis_words;
    for (int k = 0; k < p->n_groups; k++) {
        const RtGroup *group = &p->groups[k];
        Run r = {p, NULL, 0, columns, s, error, spans};
        if (spans && group->kind != RT_GROUP_ONE) {
            if (!(at = run_lanes(&r, group, spans, at))) return false;
            continue;
        }
        for (int j = group->first; j < group->first + group->n; j++) {
            int i = r.i = p->order[j];
            r.f = &m->features[i];
            bool stored = p->item_of[i] >= 0;
            if (!run_feature(&r, stored ? at : NULL)) return false;
            uint32_t n = s->value[i].n;
            if (r.f->axis >= 0 && m->axes[r.f->axis].kind == RT_AXIS_FILTER) s->axis_len[r.f->axis] = n;
            if (stored) at += (size_t)n * (size_t)p->items[p->item_of[i]].words;
        }
    }
    store_lengths(s, p, head);
    rows->words += (size_t)(at - head);
    return true;
}
