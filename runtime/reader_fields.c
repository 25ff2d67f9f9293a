/* A row's fields to the values of its columns. Only columns that are on are looked at; a field is passed over
 * by its separators alone. */
#include "runtime/reader_parse.h"
#include <string.h>

/* ---- one field ---- */

static inline void begin_field(RtField *k, const char *at) {
    k->at = at;
    k->v->n = k->total = k->empty = 0;
}

bool rt_is_empty_list(const RtParser *p, const char *at, size_t bytes) {
    if (rt_is_plain(p->p, at, bytes)) return false;
    rt_trim(p->p, &at, &bytes);
    return rt_plan_is_missing(p->p, at, bytes);
}

bool rt_text_put(RtParser *p, RtField *k, const char *at, size_t bytes) {
    if (!k->c->is_list) return rt_value_put(p, k, at, bytes);
    if (rt_is_empty_list(p, at, bytes)) return true;
    for (const char *end = at + bytes;;) {
        const char *sep = memchr(at, k->c->list_sep, (size_t)(end - at));
        if (!rt_value_put(p, k, at, (size_t)((sep ? sep : end) - at))) return false;
        if (!sep) return true;
        at = sep + 1;
    }
}

/* The end of a field's text: without the carriage return that belongs to the line's end. */
static inline uint32_t text_end(const char *base, uint32_t at, uint32_t stop) {
    return base[stop] == '\n' && stop > at && base[stop - 1] == '\r' ? stop - 1 : stop;
}

/* The separator or line end that ends the field. */
static inline uint32_t skip_field(RtIndex *x, char separator) {
    for (;;) {
        uint32_t place = rt_index_next(x);
        char b = x->base[place];
        if (b == separator || b == '\n') return place;
    }
}

/* A list straight from the index. Gives the place that ends the field. Plain strings, by far most of what
 * long rows hold, take the short way; everything else goes through put. */
__attribute__((noinline)) static bool list_field(RtParser *p, RtIndex *x, RtField *k, uint32_t at,
                                                 uint32_t *stop) {
    const char *base = x->base, sep = k->c->list_sep, separator = p->p->syntax.separator;
    RtValues *v = k->v;
    RtText *text = v->text;
    uint32_t n = 0, short_way = k->c->kind == RT_STRING ? (k->cap < k->max ? k->cap : k->max) : 0, from = at;
    for (;;) {
        uint32_t place = rt_index_next(x), end = place;
        char b = base[place];
        bool last = b == separator || b == '\n';
        if (last)
            end = text_end(base, from, place);
        else if (b != sep)
            continue;
        if (n < short_way && rt_is_plain(p->p, base + from, end - from))
            text[n++] = (RtText){base + from, end - from};
        else {
            k->total += n - v->n;
            v->n = n;
            if (last && from == at && rt_is_empty_list(p, base + from, end - from))
                n = 0;
            else if (!rt_value_put(p, k, base + from, end - from))
                return false;
            else
                n = v->n;
            text = v->text;
            if (k->c->kind == RT_STRING) short_way = k->cap < k->max ? k->cap : k->max;
        }
        if (last) {
            k->total += n - v->n;
            v->n = n;
            *stop = place;
            return true;
        }
        from = place + 1;
    }
}

/* A quoted field: its text, and the place that ends it. */
static bool quoted_field(RtParser *p, RtIndex *x, uint32_t at, RtText *text, uint32_t *stop) {
    const char *base = x->base, *end = base + x->bytes, *open = base + at, quote = p->p->syntax.quote;
    const char *close = rt_closing_quote(open + 1, end, quote);
    p->quoted = true;
    if (!close) return rt_row_fail(p, p->side, open, "a quote is opened here and never closed");
    const char *after = close + 1;
    if (after + 1 < end && *after == '\r' && after[1] == '\n') after++;
    if (*after != p->p->syntax.separator && *after != '\n') {
        char shown[RT_SHOWN];
        return rt_row_fail(p, p->side, close + 1,
                           "expected a separator or the line's end after a closing quote, found %s",
                           rt_show(close + 1, 1, shown));
    }
    *text = (RtText){open + 1, (uint32_t)(close - open - 1)};
    if (memchr(text->p, quote, text->n)) { /* doubled ones become single */
        char *out = rt_row_room(p, text->n), *o = out;
        for (uint32_t i = 0; i < text->n; i++) {
            *o++ = text->p[i];
            if (text->p[i] == quote) i++;
        }
        *text = (RtText){out, (uint32_t)(o - out)};
    }
    rt_index_seek(x, (uint32_t)(after - base));
    *stop = rt_index_next(x);
    return true;
}

/* ---- separated fields ---- */

/* Fields of the present row; *closed: every quote is. */
static uint64_t count_fields(const RtParser *p, int side, bool *closed) {
    const RtSyntax *s = &p->p->syntax;
    const char *at = p->row[side], *end = p->block->text[side] + p->block->bytes[side];
    uint64_t found = 1;
    bool first = true;
    *closed = true;
    for (; at < end && *at != '\n'; at++, first = false) {
        if (s->quote && *at == s->quote && (first || at[-1] == s->separator)) {
            const char *close = rt_closing_quote(at + 1, end, s->quote);
            *closed = close;
            if (!close) break;
            at = close;
        } else
            found += *at == s->separator;
    }
    return found;
}

static bool fail_fields(RtParser *p, int side, int expected) {
    bool closed;
    uint64_t found = count_fields(p, side, &closed);
    return rt_row_fail(p, side, p->row[side], "expected %d field%s, found %llu", expected,
                       expected == 1 ? "" : "s", (unsigned long long)found);
}

/* A row broke off at a value. If its number of fields is wrong, the value was probably another column's. */
static bool fail_row(RtParser *p, int side, int expected) {
    bool closed;
    uint64_t found = count_fields(p, side, &closed);
    return closed && found != (uint64_t)expected ? fail_fields(p, side, expected) : false;
}

bool rt_fields_parse(RtParser *p, int side, const RtLayout *l, const char **row_end) {
    RtIndex *x = &p->index[side];
    const char *base = x->base, separator = p->p->syntax.separator, quote = p->p->syntax.quote;
    uint32_t at = (uint32_t)(p->row[side] - base), stop = at;
    for (int f = 0; f < l->n_fields; f++, at = stop + 1) {
        int c = l->column[f];
        bool is_quoted = quote && base[at] == quote;
        if (c >= 0 && !is_quoted && p->column[c].indexed && !l->also) {
            begin_field(&p->column[c], base + at);
            if (!list_field(p, x, &p->column[c], at, &stop)) return fail_row(p, side, l->n_fields);
        } else {
            RtText text = {0};
            if (is_quoted) {
                if (!quoted_field(p, x, at, &text, &stop)) return fail_row(p, side, l->n_fields);
            } else {
                stop = skip_field(x, separator);
                text = (RtText){base + at, text_end(base, at, stop) - at};
            }
            for (; c >= 0; c = l->also ? l->also[c] : -1) {
                begin_field(&p->column[c], base + at);
                if (!rt_text_put(p, &p->column[c], text.p, text.n)) return fail_row(p, side, l->n_fields);
            }
        }
        if ((base[stop] == '\n') != (f == l->n_fields - 1)) return fail_fields(p, side, l->n_fields);
    }
    *row_end = base + stop + 1;
    return true;
}

/* ---- libsvm and libffm: label, then index:value or field:index:value ---- */

static bool put_pair_part(RtParser *p, const RtLayout *l, int f, const char *at, size_t bytes) {
    int c = l->column[f];
    return c < 0 || rt_value_put(p, &p->column[c], at, bytes);
}

bool rt_pairs_parse(RtParser *p, const RtLayout *l, const char **row_end) {
    RtIndex *x = &p->index[0];
    const char *base = x->base;
    uint32_t from = (uint32_t)(p->row[0] - base);
    int part = 0, parts = l->n_fields - 1; /* part 0: the label */
    bool comment = false;
    for (int f = 0; f < l->n_fields; f++)
        if (l->column[f] >= 0) begin_field(&p->column[l->column[f]], base + from);
    for (bool label = true;;) {
        uint32_t stop = rt_index_next(x), end = text_end(base, from, stop);
        char b = base[stop];
        bool empty = end == from && (label || part == 0);
        if (!empty && base[from] == '#' && (label || part == 0)) comment = true;
        if (!comment && !empty) {
            int f = label ? 0 : part + 1;
            bool more = b == ':';
            if (label ? more : more != (part + 1 < parts)) {
                char shown[RT_SHOWN], *wanted = label        ? "a label"
                                                : parts == 2 ? "index:value"
                                                             : "field:index:value";
                return rt_row_fail(p, 0, base + from, "expected %s, found %s", wanted,
                                   rt_show(base + from, end + more - from, shown));
            }
            if (label && l->column[0] >= 0) p->column[l->column[0]].at = base + from;
            if (!put_pair_part(p, l, f, base + from, end - from)) return false;
            part = label || !more ? 0 : part + 1;
            label = false;
        }
        if (b == '\n') {
            if (label) return rt_row_fail(p, 0, p->row[0], "expected a label, found nothing");
            *row_end = base + stop + 1;
            return true;
        }
        from = stop + 1;
    }
}
