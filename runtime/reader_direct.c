/* The short way from a row's fields to the values of its columns, by the grid: no field is looked at but
 * those of used columns, and these by loops of their kind, or not before their features are made
 * (reader_lanes.h). A field in which not all is plain goes through rt_value_put, value by value. Rows of
 * another number of fields, with quotes within fields, with a value that is none go to rt_fields_parse, which
 * says what is wrong. */
#include "runtime/reader_parse.h"
#include "runtime/reader_number.h"
#include <string.h>

/* A used column's field: its bytes are from..place[last], and the places behind place[first] up to there end
 * its elements. */
typedef struct {
    const char *base;
    const uint32_t *place;
    uint32_t from, first, last;
} Span;

static inline uint32_t elements(const RtField *k, const Span *s) {
    return k->c->is_list ? s->last - s->first : 1;
}

/* Where each element ends. */
static inline const uint32_t *ends(const RtField *k, const Span *s) {
    return s->place + (k->c->is_list ? s->first + 1 : s->last);
}

/* ---- value by value ---- */

static bool put_elements(RtParser *p, RtField *k, const Span *s) {
    const char *base = s->base;
    uint32_t from = s->from;
    for (uint32_t i = s->first + 1;; i++) {
        bool last = i == s->last;
        if (!last && base[s->place[i]] != k->c->list_sep) continue;
        const char *at = base + from;
        size_t bytes = s->place[i] - from;
        if (last && from == s->from && rt_is_empty_list(p, at, bytes)) return true;
        if (!rt_value_put(p, k, at, bytes)) return false;
        if (last) return true;
        from = s->place[i] + 1;
    }
}

static bool put_field(RtParser *p, RtField *k, const Span *s, bool quoted) {
    k->v->n = k->total = k->empty = 0;
    if (k->c->is_list && k->indexed && !quoted) return put_elements(p, k, s);
    return rt_text_put(p, k, s->base + s->from, s->place[s->last] - s->from);
}

/* ---- loops ---- */

RtDirect rt_direct_of(const RtParser *p, const RtField *k, int column) {
    const RtColumn *c = k->c;
    const RtPlan *plan = p->p;
    if (!plan->column_values[column]) return RT_NOTHING;
    if (!rt_plan_has_spans(plan, c)) return RT_BY_VALUE;
    if (c->kind == RT_STRING) return RT_TEXTS;
    if (k->text || c->positive || (c->kind == RT_LABEL && c->is_list)) return RT_BY_VALUE;
    return c->kind == RT_FLOAT ? RT_FLOATS : c->kind == RT_INT ? RT_INTS : RT_UNIT;
}

/* Room for the field's values; how many of them are kept. */
static inline uint32_t begin_loop(RtField *k, const Span *s) {
    uint32_t n = elements(k, s), kept = n < k->max ? n : k->max;
    k->total = n;
    k->empty = 0;
    if (k->cap < kept) rt_value_room(k, kept);
    return k->v->n = kept;
}

/* Of a list that is made in lanes: its length is all that its column holds. */
static inline uint32_t begin_list(RtField *k, const Span *s) {
    k->at = s->base + s->from;
    k->total = s->last - s->first;
    return k->v->n = k->total < k->max ? k->total : k->max;
}

static inline void put_texts(RtField *k, const Span *s, uint32_t n) {
    const uint32_t *end = ends(k, s);
    RtText *text = k->v->text;
    for (uint32_t i = 0, from = s->from; i < n; i++) {
        text[i] = (RtText){s->base + from, end[i] - from};
        from = end[i] + 1;
    }
}

static bool put_floats(RtField *k, const Span *s, uint32_t n) {
    const uint32_t *end = ends(k, s);
    float *real = k->v->real;
    for (uint32_t i = 0, from = s->from; i < n; i++) {
        const char *at = s->base + from;
        uint32_t bytes = end[i] - from;
        if (!rt_short_float(at, bytes, &real[i]) && rt_parse_float(at, bytes, &real[i]) != RT_NUMBER_OK)
            return false;
        from = end[i] + 1;
    }
    return true;
}

static bool put_ints(RtField *k, const Span *s, uint32_t n) {
    const uint32_t *end = ends(k, s);
    int64_t *whole = k->v->whole;
    for (uint32_t i = 0, from = s->from; i < n; i++) {
        const char *at = s->base + from;
        uint32_t bytes = end[i] - from;
        if (!rt_short_int(at, bytes, &whole[i]) && rt_parse_int(at, bytes, &whole[i]) != RT_NUMBER_OK)
            return false;
        from = end[i] + 1;
    }
    return true;
}

static inline bool put_unit(RtField *k, const Span *s) {
    float *out = k->v->real;
    uint32_t bytes = s->place[s->last] - s->from;
    return rt_short_float(s->base + s->from, bytes, out) && (!k->c->unit_label || (*out >= 0 && *out <= 1));
}

/* A field all of whose values are plain. */
static bool loop_field(RtParser *p, RtField *k, const Span *s, bool quoted) {
    if (k->direct == RT_BY_VALUE) return put_field(p, k, s, quoted);
    uint32_t n = begin_loop(k, s);
    switch (k->direct) {
    case RT_TEXTS: put_texts(k, s, n); return true;
    case RT_FLOATS: return put_floats(k, s, n);
    case RT_INTS: return put_ints(k, s, n);
    case RT_UNIT: return put_unit(k, s);
    default: return true;
    }
}

/* ---- rows ---- */

/* A carriage return before the line's end is no part of the last field. */
static void cut_return(RtParser *p, RtGrid *g, uint32_t line, uint32_t at) {
    uint32_t last = g->end[g->line[line]],
             from = last && g->place[last - 1] >= at ? g->place[last - 1] + 1 : at;
    uint32_t *end = &g->place[last];
    if (*end == from || g->base[*end - 1] != '\r') return;
    --*end;
    if (!rt_is_plain(p->p, g->base + from, *end - from)) g->mark[line] |= RT_LINE_ODD;
}

static bool is_plain(const RtParser *p, const RtField *k, const Span *s) {
    const uint32_t *end = ends(k, s);
    bool plain = true;
    for (uint32_t i = 0, from = s->from, n = elements(k, s); i < n && plain; i++) {
        plain = rt_is_plain(p->p, s->base + from, end[i] - from);
        from = end[i] + 1;
    }
    return plain;
}

/* Whether each field that begins with a quote ends with the next one: then the line's fields are those that
 * the grid has, and quotes stand around them. */
static bool quotes_are_around(const RtGrid *g, uint32_t at, uint32_t first, int n_fields) {
    for (int f = 0; f < n_fields; f++) {
        uint32_t end = g->place[g->end[first + (uint32_t)f]];
        if (g->base[at] == g->quote) {
            const char *next = memchr(g->base + at + 1, g->quote, end - at - 1);
            if (!next || next + 1 != g->base + end) return false;
        }
        at = end + 1;
    }
    return true;
}

/* A used field's values. span: where they stand, for features that are made in lanes. */
static inline bool take_field(RtParser *p, const RtUsed *used, const Span *s, bool quoted, bool odd,
                              RtSpan *span) {
    RtField *k = &p->column[used->column];
    *span = (RtSpan){s->from, used->is_list ? s->first + 1 : s->last, 1, false};
    odd = (odd || quoted) && !is_plain(p, k, s);
    if (!odd && !used->values) {
        if (used->is_list) span->n = begin_list(k, s);
        return true;
    }
    k->at = s->base + s->from;
    if (!(odd ? put_field(p, k, s, quoted) : loop_field(p, k, s, quoted))) return false;
    span->n = k->v->n;
    span->odd = odd;
    p->spans.odd |= odd;
    return true;
}

bool rt_direct_parse(RtParser *p, int side, const RtLayout *l, const char **row_end) {
    RtGrid *g = &p->grid[side];
    uint32_t at = (uint32_t)(p->row[side] - g->base);
    if (!l->used || !rt_grid_find(g, at)) return false;
    uint32_t line = g->i, first = line ? g->line[line - 1] + 1 : 0, stop = rt_grid_line_end(g, line);
    if (g->line[line] - first + 1 != (uint32_t)l->n_fields) return false;
    cut_return(p, g, line, at);
    bool odd = g->mark[line] & RT_LINE_ODD, quotes = g->mark[line] & RT_LINE_QUOTED;
    if (quotes && !quotes_are_around(g, at, first, l->n_fields)) return false;
    Span s = {g->base, g->place, 0, 0, 0};
    const uint32_t *end = g->end + first;
    uint32_t cut = UINT32_MAX; /* the place that was moved to a closing quote */
    for (const RtUsed *used = l->used; used < l->used + l->n_used; used++) {
        uint32_t f = used->field;
        s.first = f || first ? end[(int64_t)f - 1] : UINT32_MAX; /* one before the first place */
        s.from = f ? s.place[s.first] + 1 + (s.first == cut) : at;
        s.last = end[f];
        bool quoted = quotes && g->base[s.from] == g->quote;
        if (quoted) s.from++, g->place[cut = s.last]--;
        if (!take_field(p, used, &s, quoted, odd, &p->spans.span[used->column])) return false;
    }
    *row_end = g->base + stop + 1;
    g->i++;
    return true;
}
