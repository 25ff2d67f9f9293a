/* Rows of a block: fields to column values, then features. Only columns that are on are looked at; a field is
 * passed over by its separators alone. The errors of bad rows are made here. */
#include "runtime/reader_internal.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const RtColumn *c;
    RtValues *v; /* in RtParser.values */
    uint32_t cap;
    uint32_t total;  /* list: elements in the field, also those beyond `max` */
    uint32_t max;    /* kept; UINT32_MAX: no limit */
    bool text;       /* the bytes are wanted beside the number */
    bool indexed;    /* the list separator is in the index */
    bool keep_empty; /* an empty string in a list holds its place */
    const char *at;  /* where the field begins, for messages */
    RtText default_text;
    float default_real;
    int64_t default_whole;
    char default_room[32];
    size_t positive_len, negative_len;
} Column;

typedef struct {
    char *text;
    size_t cap;
} Piece;
struct RtParser {
    const RtPlan *p;
    const RtFiles *files;
    RtBadRows bad;
    RtIndex index[RT_SIDES];
    Column *column;   /* [column] */
    RtValues *values; /* [column] as features see them */
    int *list;        /* list columns that are on */
    int n_lists;
    int *axis_first; /* [axis] the first list column seen of it in this row, -1 */
    RtFeatureState features;
    Piece *pieces; /* texts of this row that don't stand in the block as such */
    size_t n_pieces, cap_pieces, piece, n_room;
    const char *row[RT_SIDES]; /* the present row of each side, for messages */
    uint64_t line[RT_SIDES];
    const RtBlock *block;
    int side;    /* being parsed */
    bool quoted; /* the row has a quoted field, so it may span lines */
    RtMessage error;
};

/* ---- making ---- */

static RtText number_text(double x, char room[32]) {
    int n =
        x == (double)(int64_t)x ? snprintf(room, 32, "%lld", (long long)x) : snprintf(room, 32, "%.9g", x);
    return (RtText){room, (uint32_t)n};
}

static void make_column(RtParser *p, int i) {
    const RtColumn *c = &p->p->m->columns[i];
    Column *k = &p->column[i];
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
}

RtParser *rt_parser_new(const RtPlan *plan, const RtFiles *files, RtBadRows bad) {
    const RtModel *m = plan->m;
    RtParser *p = rt_reader_alloc(1, sizeof *p);
    p->p = plan;
    p->files = files;
    p->bad = bad;
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
    }
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
    for (int side = 0; side < RT_SIDES; side++) free(p->index[side].place);
    free(p->column);
    free(p->values);
    free(p->list);
    free(p->axis_first);
    for (size_t i = 0; i < p->n_pieces; i++) free(p->pieces[i].text);
    free(p->pieces);
    free(p);
}

/* ---- errors ---- */

/* file:line:col of a byte of the present row. */
static int fail_at(RtParser *p, int side, const char *at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static int fail_at(RtParser *p, int side, const char *at, const char *format, ...) {
    const char *row = p->row[side], *begin = row;
    uint64_t line = p->line[side];
    for (const char *c = row; c < at; c++)
        if (*c == '\n') {
            line++;
            begin = c + 1;
        }
    char what[RT_MESSAGE / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return rt_message(&p->error, "%s:%llu:%zu: error: %s", p->files->file[p->block->file].name[side],
                      (unsigned long long)line, (size_t)(at - begin) + 1, what);
}

/* At a value of the column if it stands in the row itself, else at its field. */
static const char *place_of(const RtParser *p, const Column *k, const char *at) {
    const char *text = p->block->text[k->c->side];
    return at >= text && at < text + p->block->bytes[k->c->side] ? at : k->at;
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* What in the .ctr file would have made a value of it. Blanks are still there only if nothing trims them. */
static const char *hint_for(const Column *k, const char *found, size_t bytes) {
    float number;
    if (bytes && (is_blank(found[0]) || is_blank(found[bytes - 1])))
        return "\nhint: trim = true in the input's brackets takes blanks away";
    if (k->c->kind == RT_LABEL && !k->c->positive && rt_parse_float(found, bytes, &number) != RT_NUMBER_OK)
        return "\nhint: a label that is a text says which one means 1: label positive(\"yes\")";
    return "";
}

static int fail_value(RtParser *p, const Column *k, const char *at, const char *found, size_t bytes,
                      const char *expected) {
    char shown[RT_SHOWN];
    return fail_at(p, k->c->side, place_of(p, k, at), "expected %s for column '%s', found %s%s", expected,
                   k->c->name, rt_show(found, bytes, shown), hint_for(k, found, bytes));
}

static const char *expected_number(const Column *k, RtNumber why) {
    if (k->c->kind == RT_INT) return why == RT_NUMBER_RANGE ? "a whole number of 64 bits" : "a whole number";
    return why == RT_NUMBER_RANGE ? "a number that fits 32-bit floats" : "a number";
}

/* ---- values ---- */

static void more_values(Column *k) {
    uint32_t cap = k->cap ? k->cap * 2 : 16;
    size_t n = cap;
    RtColumnKind kind = k->c->kind;
    size_t have = 0;
    if (kind == RT_STRING || k->text) k->v->text = rt_reader_grow(k->v->text, &have, n, sizeof *k->v->text);
    have = 0;
    if (kind == RT_INT) k->v->whole = rt_reader_grow(k->v->whole, &have, n, sizeof *k->v->whole);
    have = 0;
    if (kind == RT_FLOAT || kind == RT_LABEL)
        k->v->real = rt_reader_grow(k->v->real, &have, n, sizeof *k->v->real);
    k->cap = cap;
}

/* An empty value: the default, no value, nothing at all, or an error. */
static bool put_empty(RtParser *p, Column *k, const char *at) {
    const RtColumn *c = k->c;
    uint32_t i = k->v->n;
    if (!c->has_default) {
        if (c->kind == RT_STRING) {
            if (c->is_list && !k->keep_empty) return true;
            k->v->text[k->v->n++] = (RtText){NULL, 0};
            k->total++;
            return true;
        }
        const char *place = place_of(p, k, at);
        if (c->is_list)
            return fail_at(p, c->side, place, "empty element in list '%s', which has no default", c->name);
        if (c->kind == RT_LABEL) return fail_at(p, c->side, place, "label '%s' is empty", c->name);
        return fail_at(p, c->side, place, "column '%s' is empty and has no default", c->name);
    }
    if (k->v->text) k->v->text[i] = k->default_text;
    if (k->v->whole) k->v->whole[i] = k->default_whole;
    if (k->v->real) k->v->real[i] = k->default_real;
    k->v->n++;
    k->total++;
    return true;
}

static bool same(const char *text, size_t bytes, const char *word, size_t word_bytes) {
    return bytes == word_bytes && !memcmp(text, word, bytes);
}

static bool put_label(RtParser *p, Column *k, const char *at, size_t bytes) {
    const RtColumn *c = k->c;
    float *out = &k->v->real[k->v->n];
    if (c->positive) {
        *out = same(at, bytes, c->positive, k->positive_len);
        if (*out == 0 && c->negative && !same(at, bytes, c->negative, k->negative_len)) {
            char expected[2 * RT_SHOWN + 8], a[RT_SHOWN], b[RT_SHOWN];
            snprintf(expected, sizeof expected, "%s or %s", rt_show(c->positive, k->positive_len, a),
                     rt_show(c->negative, k->negative_len, b));
            return fail_value(p, k, at, at, bytes, expected);
        }
        return true;
    }
    RtNumber why = rt_parse_float(at, bytes, out);
    if (why != RT_NUMBER_OK) return fail_value(p, k, at, at, bytes, expected_number(k, why));
    if (c->unit_label && !(*out >= 0 && *out <= 1))
        return fail_value(p, k, at, at, bytes, "a label from 0 to 1");
    return true;
}

/* Text for this row alone, in pieces that never move. */
static char *row_room(RtParser *p, size_t bytes) {
    for (; p->piece < p->n_pieces; p->piece++, p->n_room = 0)
        if (p->n_room + bytes <= p->pieces[p->piece].cap) break;
    if (p->piece == p->n_pieces) {
        p->pieces = rt_reader_grow(p->pieces, &p->cap_pieces, p->n_pieces + 1, sizeof *p->pieces);
        size_t cap = bytes > 4096 ? bytes : 4096;
        p->pieces[p->n_pieces++] = (Piece){rt_reader_alloc(cap, 1), cap};
    }
    char *at = p->pieces[p->piece].text + p->n_room;
    p->n_room += bytes;
    return at;
}

/* The decimal text of a whole number, as hashes see it: no plus sign, no zeros in front. */
static RtText whole_text(RtParser *p, const char *at, size_t bytes, int64_t value) {
    bool canonical = at[0] != '+' && (at[0] != '0' || bytes == 1) && (at[0] != '-' || at[1] != '0');
    if (canonical) return (RtText){at, (uint32_t)bytes};
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)value); /* no longer than what it came from */
    return (RtText){memcpy(row_room(p, (size_t)n), text, (size_t)n), (uint32_t)n};
}

/* Whether the text is a value as it stands: nothing to trim, not empty, not one of the missing texts. */
static inline bool is_plain(const RtPlan *p, const char *at, size_t bytes) {
    return bytes && !(p->odd[(uint8_t)at[0]] | (p->odd[(uint8_t)at[bytes - 1]] & RT_BLANK));
}

static inline void trim(const RtPlan *p, const char **at, size_t *bytes) {
    while (*bytes && p->odd[(uint8_t)(*at)[0]] & RT_BLANK) ++*at, --*bytes;
    while (*bytes && p->odd[(uint8_t)(*at)[*bytes - 1]] & RT_BLANK) --*bytes;
}

/* One value: a field's, or a list element's. */
static bool put(RtParser *p, Column *k, const char *at, size_t bytes) {
    bool plain = is_plain(p->p, at, bytes);
    if (!plain) trim(p->p, &at, &bytes);
    if (k->v->n >= k->max) {
        k->total++;
        return true;
    }
    if (k->v->n == k->cap) more_values(k);
    if (!plain && rt_plan_is_missing(p->p, at, bytes)) return put_empty(p, k, at);
    uint32_t i = k->v->n;
    RtNumber why;
    switch (k->c->kind) {
    case RT_STRING: k->v->text[i] = (RtText){at, (uint32_t)bytes}; break;
    case RT_FLOAT:
        why = rt_parse_float(at, bytes, &k->v->real[i]);
        if (why != RT_NUMBER_OK) return fail_value(p, k, at, at, bytes, expected_number(k, why));
        if (k->text) k->v->text[i] = (RtText){at, (uint32_t)bytes};
        break;
    case RT_INT:
        why = rt_parse_int(at, bytes, &k->v->whole[i]);
        if (why != RT_NUMBER_OK) return fail_value(p, k, at, at, bytes, expected_number(k, why));
        if (k->text) k->v->text[i] = whole_text(p, at, bytes, k->v->whole[i]);
        break;
    default:
        if (!put_label(p, k, at, bytes)) return false;
        if (k->text) k->v->text[i] = (RtText){at, (uint32_t)bytes};
    }
    k->v->n++;
    k->total++;
    return true;
}

/* ---- fields ---- */

static inline void begin_field(Column *k, const char *at) {
    k->at = at;
    k->v->n = k->total = 0;
}

/* Whether a list's field is empty as a whole: then the list is, whatever the default. */
static bool is_empty_list(const RtParser *p, const char *at, size_t bytes) {
    if (is_plain(p->p, at, bytes)) return false;
    trim(p->p, &at, &bytes);
    return rt_plan_is_missing(p->p, at, bytes);
}

/* A column's value from a field's text. */
static bool put_text(RtParser *p, Column *k, const char *at, size_t bytes) {
    if (!k->c->is_list) return put(p, k, at, bytes);
    if (is_empty_list(p, at, bytes)) return true;
    for (const char *end = at + bytes;;) {
        const char *sep = memchr(at, k->c->list_sep, (size_t)(end - at));
        if (!put(p, k, at, (size_t)((sep ? sep : end) - at))) return false;
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
__attribute__((noinline)) static bool list_field(RtParser *p, RtIndex *x, Column *k, uint32_t at,
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
        if (n < short_way && is_plain(p->p, base + from, end - from))
            text[n++] = (RtText){base + from, end - from};
        else {
            k->total += n - v->n;
            v->n = n;
            if (last && from == at && is_empty_list(p, base + from, end - from))
                n = 0;
            else if (!put(p, k, base + from, end - from))
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
    if (!close) return fail_at(p, p->side, open, "a quote is opened here and never closed");
    const char *after = close + 1;
    if (after + 1 < end && *after == '\r' && after[1] == '\n') after++;
    if (*after != p->p->syntax.separator && *after != '\n') {
        char shown[RT_SHOWN];
        return fail_at(p, p->side, close + 1,
                       "expected a separator or the line's end after a closing quote, found %s",
                       rt_show(close + 1, 1, shown));
    }
    *text = (RtText){open + 1, (uint32_t)(close - open - 1)};
    if (memchr(text->p, quote, text->n)) { /* doubled ones become single */
        char *out = row_room(p, text->n), *o = out;
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
    return fail_at(p, side, p->row[side], "expected %d field%s, found %llu", expected,
                   expected == 1 ? "" : "s", (unsigned long long)found);
}

/* A row broke off at a value. If its number of fields is wrong, the value was probably another column's. */
static bool fail_row(RtParser *p, int side, int expected) {
    bool closed;
    uint64_t found = count_fields(p, side, &closed);
    return closed && found != (uint64_t)expected ? fail_fields(p, side, expected) : false;
}

static bool parse_fields(RtParser *p, int side, const RtLayout *l, const char **row_end) {
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
            RtText text;
            if (is_quoted) {
                if (!quoted_field(p, x, at, &text, &stop)) return fail_row(p, side, l->n_fields);
            } else {
                stop = skip_field(x, separator);
                text = (RtText){base + at, text_end(base, at, stop) - at};
            }
            for (; c >= 0; c = l->also ? l->also[c] : -1) {
                begin_field(&p->column[c], base + at);
                if (!put_text(p, &p->column[c], text.p, text.n)) return fail_row(p, side, l->n_fields);
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
    return c < 0 || put(p, &p->column[c], at, bytes);
}

static bool parse_pairs(RtParser *p, const RtLayout *l, const char **row_end) {
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
                return fail_at(p, 0, base + from, "expected %s, found %s", wanted,
                               rt_show(base + from, end + more - from, shown));
            }
            if (label && l->column[0] >= 0) p->column[l->column[0]].at = base + from;
            if (!put_pair_part(p, l, f, base + from, end - from)) return false;
            part = label || !more ? 0 : part + 1;
            label = false;
        }
        if (b == '\n') {
            if (label) return fail_at(p, 0, p->row[0], "expected a label, found nothing");
            *row_end = base + stop + 1;
            return true;
        }
        from = stop + 1;
    }
}

/* ---- rows ---- */

static bool measure_lists(RtParser *p) {
    for (int i = 0; i < p->n_lists; i++) p->axis_first[p->column[p->list[i]].c->axis] = -1;
    for (int i = 0; i < p->n_lists; i++) {
        const Column *k = &p->column[p->list[i]];
        int axis = k->c->axis, first = p->axis_first[axis];
        if (first < 0) {
            p->axis_first[axis] = p->list[i];
            p->features.axis_len[axis] = k->v->n;
            continue;
        }
        const Column *other = &p->column[first];
        if (k->total != other->total)
            return fail_at(p, k->c->side, k->at,
                           "lists along '%s' differ in length: '%s' has %u, '%s' has %u",
                           p->p->m->axes[axis].name, other->c->name, other->total, k->c->name, k->total);
    }
    return true;
}

static bool add_features(RtParser *p, RtRows *rows) {
    RtFeatureError e;
    size_t words = rows->words;
    if (rt_features_run(&p->features, p->p, p->values, rows, &e)) return true;
    rows->words = words;
    const Column *k = &p->column[e.column];
    size_t i = e.whole ? (size_t)(e.whole - k->v->whole) : (size_t)(e.real - k->v->real);
    char expected[64], found[64];
    snprintf(expected, sizeof expected, "0 to %llu", (unsigned long long)e.bound - 1);
    int n = e.whole ? snprintf(found, sizeof found, "%lld", (long long)*e.whole)
                    : snprintf(found, sizeof found, "%.9g", (double)*e.real);
    return fail_value(p, k, k->v->text ? k->v->text[i].p : k->at, found, (size_t)n, expected);
}

static const RtLayout *layout_of(const RtParser *p, int side) {
    return p->p->fixed[side] ? p->p->fixed[side] : p->files->file[p->block->file].layout[side];
}

/* Whether the row is good; row_end of each side is set either way, lines: how many lines each has. */
static bool parse_row(RtParser *p, int sides, RtRows *rows, const char **row_end, uint64_t *lines) {
    bool ok = true;
    p->n_room = p->piece = 0;
    for (int side = 0; side < sides; side++) {
        const RtLayout *l = layout_of(p, side);
        bool good = false;
        p->side = side;
        p->quoted = false;
        if (ok)
            good = p->p->syntax.format >= RT_LIBSVM ? parse_pairs(p, l, &row_end[side])
                                                    : parse_fields(p, side, l, &row_end[side]);
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

/* To the next row that isn't blank; NULL: the block has ended. */
static const char *next_row(RtParser *p, int side, const char *at) {
    const char *end = p->block->text[side] + p->block->bytes[side];
    while (at < end && (*at == '\n' || *at == '\r' || *at == ' ' || *at == '#')) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        next = next ? next + 1 : end;
        if (!rt_is_blank(&p->p->syntax, at, next)) break;
        p->line[side]++;
        at = next;
        rt_index_seek(&p->index[side], (uint32_t)(at - p->block->text[side]));
    }
    return at < end ? at : NULL;
}

void rt_parse_block(RtParser *p, const RtBlock *b, RtRows *rows) {
    int sides = p->p->side ? 2 : 1;
    const char *at[RT_SIDES] = {b->text[0], b->text[1]}, *row_end[RT_SIDES];
    uint64_t lines[RT_SIDES] = {0, 0};
    p->block = b;
    for (int side = 0; side < sides; side++) {
        rt_index_start(&p->index[side], b->text[side], (uint32_t)b->bytes[side]);
        p->line[side] = b->line[side];
    }
    for (;;) {
        bool ended = false;
        for (int side = 0; side < sides; side++) ended |= !(p->row[side] = next_row(p, side, at[side]));
        if (ended) return;
        rt_rows_reserve(rows, 0);
        if (parse_row(p, sides, rows, row_end, lines)) {
            rows->line[rows->n++] = (uint32_t)(p->line[0] - b->line[0]);
            rows->at[rows->n] = (uint32_t)rows->words;
        } else {
            if (p->bad == RT_BAD_FAIL || !rows->n_bad) rows->error = p->error;
            rows->n_bad++;
            if (p->bad == RT_BAD_FAIL) {
                rows->failed = true;
                return;
            }
            for (int side = 0; side < sides; side++)
                rt_rows_add_bad(rows, side, p->row[side], (size_t)(row_end[side] - p->row[side]));
        }
        for (int side = 0; side < sides; side++) {
            at[side] = row_end[side];
            p->line[side] += lines[side];
        }
    }
}
