/* Rows of a block: each one's fields to column values, then features. */
#include "runtime/reader_parse.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ---- */

static RtText number_text(double x, char room[32]) {
    int n =
        x == (double)(int64_t)x ? snprintf(room, 32, "%lld", (long long)x) : snprintf(room, 32, "%.9g", x);
    return (RtText){room, (uint32_t)n};
}

static void make_column(RtParser *p, int i) {
    const RtColumn *c = &p->p->m->columns[i];
    RtField *k = &p->column[i];
    k->c = c;
    k->v = &p->values[i];
    k->max = UINT32_MAX;
    k->text = p->p->column_text[i];
    if (c->is_list) {
        const RtAxis *a = &p->p->m->axes[c->axis];
        if (a->max && a->max < UINT32_MAX) k->max = (uint32_t)a->max;
        k->keep_empty = a->shared;
        k->indexed = memchr(p->p->set[c->side], c->list_sep, (size_t)p->p->n_set[c->side]) != NULL;
        p->list[p->n_lists++] = i;
    }
    k->default_real = (float)c->default_num;
    k->default_whole = c->kind == RT_INT ? (int64_t)c->default_num : 0;
    k->default_text = c->default_str ? (RtText){c->default_str, (uint32_t)c->default_len}
                                     : number_text(c->default_num, k->default_room);
    k->positive_len = c->positive ? strlen(c->positive) : 0;
    k->negative_len = c->negative ? strlen(c->negative) : 0;
    k->direct = rt_direct_of(p, k, i);
}

RtParser *rt_parser_new(const RtPlan *plan, const RtFiles *files, RtBadRows bad, const RtSampling *s) {
    const RtModel *m = plan->m;
    RtParser *p = rt_reader_alloc(1, sizeof *p);
    p->p = plan;
    p->files = files;
    p->bad = bad;
    if (s) p->sampling = *s;
    p->label = p->sampling.keep_negatives > 0 ? rt_label_column(m) : -1;
    p->column = rt_reader_alloc((size_t)m->n_columns, sizeof *p->column);
    p->values = rt_reader_alloc((size_t)m->n_columns, sizeof *p->values);
    p->list = rt_reader_alloc((size_t)m->n_columns, sizeof *p->list);
    p->axis_first = rt_reader_alloc((size_t)m->n_axes, sizeof *p->axis_first);
    for (int i = 0; i < m->n_columns; i++)
        if (plan->column_on[i]) make_column(p, i);
    for (int side = 0; side < RT_SIDES; side++) {
        RtIndex *x = &p->index[side];
        memcpy(x->set, plan->set[side], sizeof x->set);
        x->n_set = plan->n_set[side];
        x->place = rt_reader_alloc(RT_WINDOW + 64, sizeof *x->place);
        p->direct = rt_grid_init(&p->grid[side], plan, side);
    }
    rt_spans_init(&p->spans, plan, p->grid);
    rt_features_init(&p->features, plan);
    return p;
}

void rt_parser_free(RtParser *p) {
    if (!p) return;
    for (int i = 0; i < p->p->m->n_columns; i++) {
        free(p->values[i].text);
        free(p->values[i].whole);
        free(p->values[i].real);
    }
    rt_features_free(&p->features, p->p);
    rt_spans_free(&p->spans);
    for (int side = 0; side < RT_SIDES; side++) {
        free(p->index[side].place);
        rt_grid_free(&p->grid[side]);
    }
    free(p->column);
    free(p->values);
    free(p->list);
    free(p->axis_first);
    for (size_t i = 0; i < p->n_pieces; i++) free(p->pieces[i].text);
    free(p->pieces);
    free(p);
}

/* ---- rows ---- */

static bool measure_lists(RtParser *p) {
    for (int i = 0; i < p->n_lists; i++) p->axis_first[p->column[p->list[i]].c->axis] = -1;
    for (int i = 0; i < p->n_lists; i++) {
        const RtField *k = &p->column[p->list[i]];
        int axis = k->c->axis, first = p->axis_first[axis];
        if (first < 0) {
            p->axis_first[axis] = p->list[i];
            p->features.axis_len[axis] = k->v->n;
            continue;
        }
        const RtField *other = &p->column[first];
        if (k->total == other->total) continue;
        char where[RT_MESSAGE / 4] = ""; /* the other list, if it stands in the other file */
        if (k->c->side != other->c->side)
            snprintf(where, sizeof where, " (%s:%llu)", p->files->file[p->block->file].name[other->c->side],
                     (unsigned long long)p->line[other->c->side]);
        return rt_row_fail(
            p, k->c->side, k->at, "lists along '%s' differ in length: '%s' has %u%s, '%s' has %u",
            p->p->m->axes[axis].name, other->c->name, other->total, where, k->c->name, k->total);
    }
    return true;
}

/* A bad row's place. */
static void add_place(RtParser *p, RtRows *rows) {
    RtFeatureError e;
    for (int i = 0; i < p->p->m->n_columns; i++)
        if (p->p->column_on[i]) rt_value_none(&p->column[i]);
    for (int i = 0; i < p->n_lists; i++) p->features.axis_len[p->column[p->list[i]].c->axis] = 0;
    rt_features_run(&p->features, p->p, p->values, NULL, rows, &e); /* 0 is within every bound */
}

static bool add_features(RtParser *p, RtRows *rows) {
    RtFeatureError e;
    size_t words = rows->words;
    if (rt_features_run(&p->features, p->p, p->values, NULL, rows, &e)) return true;
    rows->words = words;
    const RtField *k = &p->column[e.column];
    size_t i = e.whole ? (size_t)(e.whole - k->v->whole) : (size_t)(e.real - k->v->real);
    char expected[64], found[64];
    snprintf(expected, sizeof expected, "0 to %llu", (unsigned long long)e.bound - 1);
    int n = e.whole ? snprintf(found, sizeof found, "%lld", (long long)*e.whole)
                    : snprintf(found, sizeof found, "%.9g", (double)*e.real);
    return rt_value_fail(p, k, k->v->text ? k->v->text[i].p : k->at, found, (size_t)n, expected);
}

static const RtLayout *layout_of(const RtParser *p, int side) {
    return rt_layout_of(p->p, &p->files->file[p->block->file], side);
}

/* To the present row's end, without looking into it. */
static void pass_over(RtParser *p, int sides, const char **row_end, uint64_t *lines) {
    for (int side = 0; side < sides; side++) {
        const char *base = p->block->text[side], *end = base + p->block->bytes[side];
        const char *next = rt_record_end(&p->p->syntax, p->row[side], end);
        row_end[side] = next ? next : end;
        rt_index_seek(&p->index[side], (uint32_t)(row_end[side] - base));
        lines[side] = rt_count_lines(p->row[side], (size_t)(row_end[side] - p->row[side]));
    }
}

/* Whether the row belongs to the other part. */
static bool is_held_back(const RtParser *p) {
    if (p->sampling.hold_out <= 0) return false;
    const char *end = p->block->text[0] + p->block->bytes[0],
               *next = rt_record_end(&p->p->syntax, p->row[0], end);
    return rt_sample_held(&p->sampling, p->row[0], next ? next : end) != p->sampling.held;
}

/* Whether the row is a negative that sampling leaves out. */
static bool is_left_out(const RtParser *p, const char *row_end) {
    return p->label >= 0 && p->column[p->label].v->real[0] == 0 &&
           !rt_sample_stays(&p->sampling, p->row[0], row_end);
}

/* The short way, for rows in which nothing is quoted and nothing is wrong; others go the long way, which says
 * what is. */
static bool parse_directly(RtParser *p, int sides, RtRows *rows, const char **row_end, uint64_t *lines) {
    RtFeatureError e;
    size_t words = rows->words;
    if (!p->direct || p->observer.own) return false;
    p->n_room = p->piece = 0;
    p->spans.odd = false;
    for (int side = 0; side < sides; side++, *lines++ = 1)
        if (!rt_direct_parse(p, side, layout_of(p, side), &row_end[side])) return false;
    if (measure_lists(p) && rt_features_run(&p->features, p->p, p->values, &p->spans, rows, &e)) {
        p->n_direct++;
        return true;
    }
    rows->words = words;
    return false;
}

/* The long way. */
static bool parse_fields(RtParser *p, int side, const RtLayout *l, const char **row_end) {
    rt_index_seek(&p->index[side], (uint32_t)(p->row[side] - p->block->text[side]));
    return p->p->syntax.format >= RT_LIBSVM ? rt_pairs_parse(p, l, row_end)
                                            : rt_fields_parse(p, side, l, row_end);
}

/* Whether the row is good; row_end of each side is set either way, lines: how many lines each has. */
static bool parse_row(RtParser *p, int sides, RtRows *rows, const char **row_end, uint64_t *lines) {
    bool ok = true;
    if (parse_directly(p, sides, rows, row_end, lines)) return true;
    p->n_room = p->piece = 0;
    for (int side = 0; side < sides; side++) {
        const RtLayout *l = layout_of(p, side);
        bool good = false;
        p->side = side;
        p->quoted = false;
        if (ok) good = parse_fields(p, side, l, &row_end[side]);
        lines[side] = good && !p->quoted ? 1 : 0;
        if (!good) { /* where the fields broke off the record still has an end */
            const char *base = p->block->text[side], *end = base + p->block->bytes[side];
            const char *next = rt_record_end(&p->p->syntax, p->row[side], end);
            row_end[side] = next ? next : end;
            rt_index_seek(&p->index[side], (uint32_t)(row_end[side] - base));
        }
        if (!lines[side]) lines[side] = rt_count_lines(p->row[side], (size_t)(row_end[side] - p->row[side]));
        ok = ok && good;
    }
    return ok && measure_lists(p) && add_features(p, rows);
}

/* To the next row, over lines that are none; NULL: the block has ended. */
static const char *next_row(RtParser *p, int side, const char *at) {
    const char *end = p->block->text[side] + p->block->bytes[side];
    const RtLayout *l = layout_of(p, side); /* NULL: nothing was read of the file, not even a header */
    while (!(l && l->blank_rows) && at < end && (*at == '\n' || *at == '\r' || *at == ' ' || *at == '#')) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        next = next ? next + 1 : end;
        if (!rt_is_blank(&p->p->syntax, at, next)) break;
        p->line[side]++;
        at = next;
        rt_index_seek(&p->index[side], (uint32_t)(at - p->block->text[side]));
    }
    return at < end ? at : NULL;
}

static void add_row(const RtParser *p, RtRows *rows, const char *row_end, uint32_t flag) {
    rows->line[rows->n++] = (uint32_t)(p->line[0] - p->block->line[0]) | flag;
    rows->at[rows->n] = (uint32_t)rows->words;
    if (p->p->echo.n) rt_echo_add(p->p, layout_of(p, 0), rows, p->row[0], row_end);
}

/* False: the block ends with it. */
static bool add_bad(RtParser *p, int sides, RtRows *rows, const char *const *row_end) {
    if (p->bad == RT_BAD_FAIL || !rows->n_bad) rows->error = p->error;
    rows->n_bad++;
    if (p->observer.own) p->observer.bad(p->observer.own, &p->error);
    if (p->bad == RT_BAD_FAIL) {
        rows->failed = true;
        return false;
    }
    for (int side = 0; side < sides; side++)
        rt_rows_add_bad(rows, side, p->row[side], (size_t)(row_end[side] - p->row[side]));
    if (p->bad == RT_BAD_HOLD) {
        add_place(p, rows);
        add_row(p, rows, row_end[0], RT_LINE_BAD);
    }
    return true;
}

void rt_parse_block(RtParser *p, const RtBlock *b, RtRows *rows) {
    int sides = p->p->side ? 2 : 1;
    const char *at[RT_SIDES] = {b->text[0], b->text[1]}, *row_end[RT_SIDES];
    uint64_t lines[RT_SIDES] = {0, 0};
    p->block = b;
    for (int side = 0; side < sides; side++) {
        rt_index_start(&p->index[side], b->text[side], (uint32_t)b->bytes[side]);
        if (p->direct) rt_grid_start(&p->grid[side], b->text[side], (uint32_t)b->bytes[side]);
        p->line[side] = b->line[side];
    }
    for (;;) {
        bool ended = false;
        for (int side = 0; side < sides; side++) ended |= !(p->row[side] = next_row(p, side, at[side]));
        if (ended) return;
        rt_rows_reserve(rows, 0);
        size_t words = rows->words;
        if (is_held_back(p)) {
            pass_over(p, sides, row_end, lines);
            rows->n_held++;
        } else if (parse_row(p, sides, rows, row_end, lines)) {
            if (is_left_out(p, row_end[0])) {
                rows->words = words;
                rows->n_negatives++;
            } else
                add_row(p, rows, row_end[0], 0);
            if (p->observer.own) p->observer.row(p->observer.own, p, row_end);
        } else if (!add_bad(p, sides, rows, row_end))
            return;
        for (int side = 0; side < sides; side++) {
            at[side] = row_end[side];
            p->line[side] += lines[side];
        }
    }
}
