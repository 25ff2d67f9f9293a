/* What a purpose reads: which columns, features and axes are on, what a row's record holds, and everything
 * about them that can be worked out before the first row. A description whose features don't fit together is
 * refused here, so that the parsing threads may follow it blindly. */
#include "runtime/reader_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rt_reader_out_of_memory(size_t count, size_t size) {
    fprintf(stderr, "error: out of memory in the reader (%zu x %zu bytes)\n", count, size);
    exit(1);
}

void *rt_reader_alloc(size_t count, size_t size) {
    void *p = calloc(count ? count : 1, size);
    if (!p) rt_reader_out_of_memory(count, size);
    return p;
}

void *rt_reader_grow(void *p, size_t *cap, size_t want, size_t size) {
    if (want <= *cap && p) return p;
    size_t n = *cap ? *cap : 16;
    while (n < want) n *= 2;
    p = realloc(p, n * size);
    if (!p) rt_reader_out_of_memory(n, size);
    *cap = n;
    return p;
}

/* ---- what is on ---- */

static bool for_purpose(const RtPlan *p, bool predict) { return p->purpose != RT_PREDICT || predict; }

static void mark_on(RtPlan *p) {
    const RtModel *m = p->m;
    for (int i = 0; i < m->n_columns; i++) {
        const RtColumn *c = &m->columns[i];
        p->column_on[i] = c->kind != RT_SKIP && (p->purpose == RT_PREDICT ? c->used_predict : c->used);
    }
    for (int i = m->n_features - 1; i >= 0; i--) { /* backwards: parts stand before what is made of them */
        const RtFeature *f = &m->features[i];
        p->feature_on[i] = p->feature_on[i] || for_purpose(p, f->predict);
        if (!p->feature_on[i]) continue;
        for (int k = 0; k < f->n_in; k++) {
            if (f->in[k].is_column)
                p->column_on[f->in[k].index] = true;
            else
                p->feature_on[f->in[k].index] = true;
        }
    }
    for (int i = 0; i < m->n_columns; i++) p->side |= p->column_on[i] && m->columns[i].side == 1;
}

static void mark_axes(RtPlan *p) {
    const RtModel *m = p->m;
    for (int i = 0; i < m->n_axes; i++) p->axis_word[i] = -1;
    for (int i = 0; i < m->n_columns; i++)
        if (p->column_on[i] && m->columns[i].is_list) p->axis_on[m->columns[i].axis] = true;
    for (int i = 0; i < m->n_features; i++)
        if (p->feature_on[i] && m->features[i].axis >= 0) p->axis_on[m->features[i].axis] = true;
    for (bool more = true; more;) { /* roots first, then what hangs on them */
        more = false;
        for (int i = 0; i < m->n_axes; i++) {
            const RtAxis *a = &m->axes[i];
            bool ready = a->kind == RT_AXIS_LIST || a->kind == RT_AXIS_FILTER ? p->axis_on[i]
                                                                              : p->axis_word[a->parent] >= 0;
            if (!ready || p->axis_word[i] >= 0) continue;
            p->axis_on[i] = more = true;
            p->axis_word[i] = p->n_axis_words;
            p->axis_order[p->n_axis_words++] = i;
        }
    }
}

static void mark_items(RtPlan *p) {
    const RtModel *m = p->m;
    for (int i = 0; i < m->n_features; i++) p->item_of[i] = -1;
    for (int i = 0; i < m->n_inputs; i++) {
        const RtInput *in = &m->inputs[i];
        if (in->kind != RT_IN_LOOKUP && p->feature_on[in->index]) p->item_of[in->index] = 0;
    }
    for (int i = 0; i < m->n_lookups; i++)
        if (p->feature_on[m->lookups[i].feature]) p->item_of[m->lookups[i].feature] = 0;
    for (int i = 0; i < m->n_features; i++) { /* in the order of the features: so they are written */
        if (p->item_of[i] < 0) continue;
        p->item_of[i] = p->n_items;
        p->items[p->n_items++] = (RtItem){i, m->features[i].axis, m->features[i].type == RT_T_KEY ? 2 : 1};
    }
}

/* ---- do the features fit together ---- */

enum { HAS_TEXT = 1, HAS_WHOLE = 2, HAS_REAL = 4, HAS_ID = 8, HAS_KEY = 16 };

static int part_column(const RtPlan *p, RtPart part) {
    return part.is_column ? part.index : p->root[part.index];
}
static int part_axis(const RtModel *m, RtPart part) {
    if (!part.is_column) return m->features[part.index].axis;
    return m->columns[part.index].is_list ? m->columns[part.index].axis : -1;
}
static int part_has(const RtModel *m, const int *has, RtPart part) {
    if (!part.is_column) return has[part.index];
    switch (m->columns[part.index].kind) {
    case RT_STRING: return HAS_TEXT;
    case RT_INT: return HAS_TEXT | HAS_WHOLE;
    case RT_FLOAT:
    case RT_LABEL: return HAS_TEXT | HAS_REAL;
    default: return 0;
    }
}

static int type_has(RtValueType t) {
    switch (t) {
    case RT_T_F32: return HAS_REAL;
    case RT_T_ID: return HAS_ID;
    case RT_T_KEY: return HAS_KEY;
    case RT_T_STR: return HAS_TEXT;
    default: return HAS_TEXT | HAS_WHOLE;
    }
}

/* What the op takes; each part must have one of these. */
static int op_takes(RtFeatureOp op) {
    switch (op) {
    case RT_F_HASH:
    case RT_F_VOCAB: return HAS_TEXT;
    case RT_F_NUMBER: return HAS_WHOLE;
    case RT_F_BUCKETIZE:
    case RT_F_IDENTITY: return HAS_WHOLE | HAS_REAL;
    case RT_F_OFFSET: return HAS_ID;
    case RT_F_CROSS: return HAS_TEXT | HAS_ID;
    case RT_F_KEY: return HAS_TEXT | HAS_ID;
    default: return ~0;
    }
}

static RtValueType op_gives(const RtFeature *f) {
    switch (f->op) {
    case RT_F_NUMBER: return RT_T_F32;
    case RT_F_KEY: return RT_T_KEY;
    case RT_F_VALUE:
    case RT_F_TRUNCATE: return f->type;
    default: return RT_T_ID;
    }
}

static bool is_cut(RtAxisKind kind) { return kind == RT_AXIS_FIRST || kind == RT_AXIS_LAST; }

static bool check_axis(const RtModel *m, int i, RtMessage *err) {
    const RtFeature *f = &m->features[i];
    int axis = -1;
    for (int k = 0; k < f->n_in; k++) {
        int a = part_axis(m, f->in[k]);
        if (a >= 0 && axis >= 0 && a != axis)
            return rt_message(err, "description: features[%d]: parts along two axes", i);
        if (a >= 0) axis = a;
    }
    bool derived = f->axis >= 0 && m->axes[f->axis].kind != RT_AXIS_LIST && m->axes[f->axis].parent == axis;
    bool ok = f->axis == axis;
    if (f->op ==
        RT_F_POSITIONS) { /* up to its list, not past a filtered one, whose length is known from its values */
        ok = f->axis >= 0 && axis >= 0;
        for (int a = f->axis; ok && a != axis; a = m->axes[a].parent)
            ok = m->axes[a].kind != RT_AXIS_LIST && m->axes[a].kind != RT_AXIS_FILTER;
    }
    if (f->op == RT_F_TRUNCATE) ok = derived && is_cut(m->axes[f->axis].kind);
    if (f->op == RT_F_VOCAB && f->axis >= 0 && m->axes[f->axis].kind == RT_AXIS_FILTER && f->axis != axis)
        ok = derived && f->unknown < 0;
    if (!ok) return rt_message(err, "description: features[%d]: its axis doesn't follow from its parts'", i);
    return true;
}

static bool check_features(RtPlan *p, RtMessage *err) {
    const RtModel *m = p->m;
    int *has = rt_reader_alloc((size_t)m->n_features, sizeof *has);
    bool ok = true;
    for (int i = 0; i < m->n_features && ok; i++) {
        const RtFeature *f = &m->features[i];
        int most = f->op == RT_F_CROSS ? 1 << 16 : 1;
        if (f->n_in < 1 || f->n_in > most)
            ok = rt_message(err, "description: features[%d]: %d parts", i, f->n_in);
        bool several = f->n_in > 1;
        p->root[i] = ok && !several ? part_column(p, f->in[0]) : -1;
        for (int k = 0; k < f->n_in && ok; k++) {
            int part = part_has(m, has, f->in[k]);
            has[i] = f->op == RT_F_VALUE || f->op == RT_F_TRUNCATE ? part : type_has(op_gives(f));
            if (!(part & op_takes(f->op)) || f->type != op_gives(f) || !(has[i] & type_has(f->type)))
                ok =
                    rt_message(err, "description: features[%d]: the op doesn't fit its parts or its type", i);
            if (f->op != RT_F_VALUE && f->op != RT_F_NUMBER && f->op != RT_F_BUCKETIZE &&
                f->op != RT_F_IDENTITY && f->op != RT_F_POSITIONS && (part & HAS_TEXT) &&
                part_column(p, f->in[k]) >= 0)
                p->column_text[part_column(p, f->in[k])] = true;
        }
        ok = ok && check_axis(m, i, err);
    }
    for (int i = 0; i < m->n_inputs && ok; i++) {
        const RtInput *in = &m->inputs[i];
        int f = in->kind == RT_IN_LOOKUP ? m->lookups[in->index].feature : in->index;
        RtValueType want = in->kind == RT_IN_F32 ? RT_T_F32 : in->kind == RT_IN_KEY ? RT_T_KEY : RT_T_ID;
        if (m->features[f].type != want)
            ok = rt_message(err, "description: inputs[%d]: not the type of features[%d]", i, f);
    }
    free(has);
    return ok;
}

/* ---- what can be worked out ahead ---- */

static bool in_set(const RtPlan *p, int side, uint8_t byte) {
    return memchr(p->set[side], byte, (size_t)p->n_set[side]) != NULL;
}

static void add_structural(RtPlan *p, int side, char byte) {
    /* full: lists with this separator are split by themselves */
    if (p->n_set[side] < RT_STRUCTURAL && !in_set(p, side, (uint8_t)byte))
        p->set[side][p->n_set[side]++] = (uint8_t)byte;
}

static void make_syntax(RtPlan *p) {
    const RtModel *m = p->m;
    p->syntax = (RtSyntax){m->format, m->separator, m->quote, m->trim};
    bool pairs = m->format == RT_LIBSVM || m->format == RT_LIBFFM;
    if (pairs) p->syntax = (RtSyntax){m->format, ' ', 0, true};
    for (int side = 0; side < RT_SIDES; side++) {
        add_structural(p, side, '\n');
        add_structural(p, side, p->syntax.separator);
        if (pairs) {
            add_structural(p, side, '\t');
            add_structural(p, side, ':');
            continue;
        }
        for (int i = 0; i < m->n_columns; i++)
            if (p->column_on[i] && m->columns[i].is_list && m->columns[i].side == side)
                add_structural(p, side, m->columns[i].list_sep);
    }
    if (p->syntax.trim) p->odd[' '] = p->odd['\t'] = RT_BLANK;
    p->missing_len = rt_reader_alloc((size_t)m->n_missing, sizeof *p->missing_len);
    for (int i = 0; i < m->n_missing; i++) {
        p->missing_len[i] = strlen(m->missing[i]);
        p->odd[(uint8_t)m->missing[i][0]] |= RT_MISSING;
    }
}

static void make_features(RtPlan *p) {
    const RtModel *m = p->m;
    for (int i = 0; i < m->n_features; i++) {
        const RtFeature *f = &m->features[i];
        if (!p->feature_on[i]) continue;
        if (f->op == RT_F_HASH || f->op == RT_F_CROSS) p->mod[i] = rt_mod_new((uint32_t)f->buckets);
        if (f->op == RT_F_VOCAB) {
            RtVocab *v = &m->vocabs[f->vocab];
            if (!v->table) v->table = rt_vocab_table_new(v->text, v->bytes, (uint64_t)v->n);
        }
        if (f->op == RT_F_BUCKETIZE) {
            p->bounds[i] = rt_reader_alloc((size_t)f->n_bounds, sizeof(float));
            for (int k = 0; k < f->n_bounds; k++) p->bounds[i][k] = (float)f->bounds[k];
        }
    }
}

/* ---- steps ---- */

bool rt_plan_has_spans(const RtPlan *p, const RtColumn *c) {
    return !c->is_list || (p->n_set[c->side] <= 3 && in_set(p, c->side, (uint8_t)c->list_sep));
}

static bool is_part(const RtPlan *p, int feature) {
    for (int i = 0; i < p->m->n_features; i++)
        for (int k = 0; p->feature_on[i] && k < p->m->features[i].n_in; k++)
            if (!p->m->features[i].in[k].is_column && p->m->features[i].in[k].index == feature) return true;
    return false;
}

static RtGroupKind group_of(const RtPlan *p, int feature) {
    const RtFeature *f = &p->m->features[feature];
    if (p->item_of[feature] < 0 || !f->in[0].is_column || is_part(p, feature)) return RT_GROUP_ONE;
    const RtColumn *c = &p->m->columns[f->in[0].index];
    if (!rt_plan_has_spans(p, c)) return RT_GROUP_ONE;
    if (f->op == RT_F_HASH && c->kind == RT_STRING && !f->farm64 && p->mod[feature].divisor <= 1u << 31)
        return RT_GROUP_HASHES;
    return f->op == RT_F_VALUE && c->kind == RT_FLOAT ? RT_GROUP_FLOATS : RT_GROUP_ONE;
}

static void list_lanes(RtPlan *p, RtGroup *g) {
    RtLaneItem *lane = p->lane + g->first;
    for (int lists = 1; g->kind != RT_GROUP_ONE && lists >= 0; lists--)
        for (int k = 0; k < g->n; k++) {
            int column = p->m->features[p->order[g->first + k]].in[0].index;
            if (p->m->columns[column].is_list != lists) continue;
            *lane++ = (RtLaneItem){column, p->m->columns[column].side, k};
            g->lists += lists;
        }
}

static void make_groups(RtPlan *p) {
    const RtModel *m = p->m;
    for (int i = 0; i < m->n_columns; i++) p->column_values[i] = p->column_on[i];
    for (int i = 0; i < m->n_features; i++) {
        if (!p->feature_on[i]) continue;
        RtGroupKind kind = group_of(p, i);
        RtGroup *last = p->n_groups ? &p->groups[p->n_groups - 1] : NULL;
        if (kind == RT_GROUP_ONE || !last || last->kind != kind) {
            last = &p->groups[p->n_groups++];
            *last = (RtGroup){kind, p->n_order, 0, 0, true};
        }
        last->one_mod &= p->mod[i].divisor == p->mod[last->n ? p->order[last->first] : i].divisor;
        last->n++;
        p->order[p->n_order++] = i;
        if (kind != RT_GROUP_ONE) p->column_values[m->features[i].in[0].index] = false;
    }
    for (int j = 0; j < p->n_groups; j++) {
        list_lanes(p, &p->groups[j]);
        const RtFeature *f = &m->features[p->order[p->groups[j].first]];
        for (int k = 0; p->groups[j].kind == RT_GROUP_ONE && k < f->n_in; k++)
            if (f->in[k].is_column) p->column_values[f->in[k].index] = true;
    }
}

bool rt_layout_blank_rows(const RtModel *m, const RtColumn *only) {
    return only && m->format < RT_LIBSVM && (only->is_list || (only->kind == RT_STRING && m->beside));
}

void rt_layout_list_used(RtLayout *l, const RtPlan *p) {
    if (l->also) return;
    l->used = rt_reader_alloc((size_t)l->n_fields, sizeof *l->used);
    for (int f = 0; f < l->n_fields; f++) {
        int c = l->column[f];
        if (c < 0) continue;
        l->used[l->n_used++] = (RtUsed){(uint32_t)f, c, p->m->columns[c].is_list, p->column_values[c]};
    }
}

/* Without a header, fields are the declared columns in order. */
static RtLayout *declared_layout(const RtPlan *p, int side) {
    const RtModel *m = p->m;
    RtLayout *l = rt_reader_alloc(1, sizeof *l);
    for (int i = 0; i < m->n_columns; i++)
        if (m->columns[i].side == side) l->n_fields += m->columns[i].kind == RT_SKIP ? m->columns[i].skip : 1;
    l->column = rt_reader_alloc((size_t)l->n_fields, sizeof *l->column);
    for (int i = 0, k = 0; i < m->n_columns; i++) {
        if (m->columns[i].side != side) continue;
        int fields = m->columns[i].kind == RT_SKIP ? m->columns[i].skip : 1;
        l->blank_rows = l->n_fields == 1 && rt_layout_blank_rows(m, &m->columns[i]);
        for (; fields > 0; fields--) l->column[k++] = p->column_on[i] ? i : -1;
    }
    rt_layout_list_used(l, p);
    return l;
}

RtPlan *rt_plan_new(const RtModel *m, int purpose, RtMessage *err) {
    RtPlan *p = rt_reader_alloc(1, sizeof *p);
    size_t columns = (size_t)m->n_columns, features = (size_t)m->n_features, axes = (size_t)m->n_axes;
    p->m = m;
    p->purpose = purpose;
    p->column_on = rt_reader_alloc(columns, 1);
    p->column_text = rt_reader_alloc(columns, 1);
    p->feature_on = rt_reader_alloc(features, 1);
    p->axis_on = rt_reader_alloc(axes, 1);
    p->axis_word = rt_reader_alloc(axes, sizeof(int));
    p->axis_order = rt_reader_alloc(axes, sizeof(int));
    p->items = rt_reader_alloc(features, sizeof *p->items);
    p->item_of = rt_reader_alloc(features, sizeof(int));
    p->root = rt_reader_alloc(features, sizeof(int));
    p->order = rt_reader_alloc(features, sizeof(int));
    p->lane = rt_reader_alloc(features, sizeof *p->lane);
    p->groups = rt_reader_alloc(features, sizeof *p->groups);
    p->column_values = rt_reader_alloc(columns, 1);
    p->mod = rt_reader_alloc(features, sizeof *p->mod);
    p->bounds = rt_reader_alloc(features, sizeof *p->bounds);
    mark_on(p);
    if (!check_features(p, err)) {
        rt_plan_free(p);
        return NULL;
    }
    mark_axes(p);
    mark_items(p);
    make_syntax(p);
    make_features(p);
    make_groups(p);
    for (int side = 0; side < RT_SIDES && !m->header; side++) p->fixed[side] = declared_layout(p, side);
    return p;
}

void rt_plan_free(RtPlan *p) {
    if (!p) return;
    for (int i = 0; i < p->m->n_features; i++) free(p->bounds[i]);
    for (int side = 0; side < RT_SIDES; side++) rt_layout_free(p->fixed[side]);
    free(p->column_on);
    free(p->column_text);
    free(p->feature_on);
    free(p->axis_on);
    free(p->axis_word);
    free(p->axis_order);
    free(p->items);
    free(p->item_of);
    free(p->root);
    free(p->order);
    free(p->lane);
    free(p->groups);
    free(p->column_values);
    free(p->mod);
    free(p->bounds);
    free(p->missing_len);
    free(p);
}

bool rt_plan_is_missing(const RtPlan *p, const char *text, size_t bytes) {
    if (!bytes) return true;
    if (!(p->odd[(uint8_t)text[0]] & RT_MISSING)) return false;
    for (int i = 0; i < p->m->n_missing; i++)
        if (p->missing_len[i] == bytes && !memcmp(p->m->missing[i], text, bytes)) return true;
    return false;
}
