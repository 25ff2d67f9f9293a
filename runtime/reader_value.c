/* Texts to values of a column: numbers, labels, what is empty or missing. The errors of bad values are made
 * here. */
#include "runtime/reader_parse.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

int rt_row_fail(RtParser *p, int side, const char *at, const char *format, ...) {
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
static const char *place_of(const RtParser *p, const RtField *k, const char *at) {
    const char *text = p->block->text[k->c->side];
    return at >= text && at < text + p->block->bytes[k->c->side] ? at : k->at;
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* What in the .ctr file would have made a value of it. Blanks are still there only if nothing trims them. */
static const char *hint_for(const RtField *k, const char *found, size_t bytes) {
    float number;
    if (bytes && (is_blank(found[0]) || is_blank(found[bytes - 1])))
        return "\nhint: trim = true in the input's brackets takes blanks away";
    if (k->c->kind == RT_LABEL && !k->c->positive && rt_parse_float(found, bytes, &number) != RT_NUMBER_OK)
        return "\nhint: a label that is a text says which one means 1: label positive(\"yes\")";
    return "";
}

int rt_value_fail(RtParser *p, const RtField *k, const char *at, const char *found, size_t bytes,
                  const char *expected) {
    char shown[RT_SHOWN];
    return rt_row_fail(p, k->c->side, place_of(p, k, at), "expected %s for column '%s', found %s%s", expected,
                       k->c->name, rt_show(found, bytes, shown), hint_for(k, found, bytes));
}

static const char *expected_number(const RtField *k, RtNumber why) {
    if (k->c->kind == RT_INT) return why == RT_NUMBER_RANGE ? "a whole number of 64 bits" : "a whole number";
    return why == RT_NUMBER_RANGE ? "a number that fits 32-bit floats" : "a number";
}

/* ---- values ---- */

void rt_value_room(RtField *k, uint32_t least) {
    uint32_t cap = k->cap ? k->cap * 2 : 16;
    while (cap < least) cap *= 2;
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

void rt_value_none(RtField *k) {
    k->v->n = k->total = 0;
    if (k->c->is_list) return;
    if (!k->cap) rt_value_room(k, 1);
    if (k->v->text) k->v->text[0] = (RtText){NULL, 0};
    if (k->v->whole) k->v->whole[0] = 0;
    if (k->v->real) k->v->real[0] = 0;
    k->v->n = k->total = 1;
}

/* An empty value: the default, no value, nothing at all, or an error. */
static bool put_empty(RtParser *p, RtField *k, const char *at) {
    const RtColumn *c = k->c;
    uint32_t i = k->v->n;
    k->empty++;
    if (!c->has_default) {
        if (c->kind == RT_STRING) {
            if (c->is_list && !k->keep_empty) return true;
            k->v->text[k->v->n++] = (RtText){NULL, 0};
            k->total++;
            return true;
        }
        const char *place = place_of(p, k, at);
        if (c->is_list)
            return rt_row_fail(p, c->side, place, "empty element in list '%s', which has no default",
                               c->name);
        if (c->kind == RT_LABEL) return rt_row_fail(p, c->side, place, "label '%s' is empty", c->name);
        return rt_row_fail(p, c->side, place, "column '%s' is empty and has no default", c->name);
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

static bool put_label(RtParser *p, RtField *k, const char *at, size_t bytes) {
    const RtColumn *c = k->c;
    float *out = &k->v->real[k->v->n];
    if (c->positive) {
        *out = same(at, bytes, c->positive, k->positive_len);
        if (*out == 0 && c->negative && !same(at, bytes, c->negative, k->negative_len)) {
            char expected[2 * RT_SHOWN + 8], a[RT_SHOWN], b[RT_SHOWN];
            snprintf(expected, sizeof expected, "%s or %s", rt_show(c->positive, k->positive_len, a),
                     rt_show(c->negative, k->negative_len, b));
            return rt_value_fail(p, k, at, at, bytes, expected);
        }
        return true;
    }
    RtNumber why = rt_parse_float(at, bytes, out);
    if (why != RT_NUMBER_OK) return rt_value_fail(p, k, at, at, bytes, expected_number(k, why));
    if (c->unit_label && !(*out >= 0 && *out <= 1))
        return rt_value_fail(p, k, at, at, bytes, "a label from 0 to 1");
    return true;
}

char *rt_row_room(RtParser *p, size_t bytes) {
    for (; p->piece < p->n_pieces; p->piece++, p->n_room = 0)
        if (p->n_room + bytes <= p->pieces[p->piece].cap) break;
    if (p->piece == p->n_pieces) {
        p->pieces = rt_reader_grow(p->pieces, &p->cap_pieces, p->n_pieces + 1, sizeof *p->pieces);
        size_t cap = bytes > 4096 ? bytes : 4096;
        p->pieces[p->n_pieces++] = (RtPiece){rt_reader_alloc(cap, 1), cap};
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
    return (RtText){memcpy(rt_row_room(p, (size_t)n), text, (size_t)n), (uint32_t)n};
}

bool rt_value_put(RtParser *p, RtField *k, const char *at, size_t bytes) {
    bool plain = rt_is_plain(p->p, at, bytes);
    if (!plain) rt_trim(p->p, &at, &bytes);
    if (k->v->n >= k->max) {
        k->total++;
        return true;
    }
    if (k->v->n == k->cap) rt_value_room(k, k->cap + 1);
    if (!plain && rt_plan_is_missing(p->p, at, bytes)) return put_empty(p, k, at);
    uint32_t i = k->v->n;
    RtNumber why;
    switch (k->c->kind) {
    case RT_STRING: k->v->text[i] = (RtText){at, (uint32_t)bytes}; break;
    case RT_FLOAT:
        why = rt_parse_float(at, bytes, &k->v->real[i]);
        if (why != RT_NUMBER_OK) return rt_value_fail(p, k, at, at, bytes, expected_number(k, why));
        if (k->text) k->v->text[i] = (RtText){at, (uint32_t)bytes};
        break;
    case RT_INT:
        why = rt_parse_int(at, bytes, &k->v->whole[i]);
        if (why != RT_NUMBER_OK) return rt_value_fail(p, k, at, at, bytes, expected_number(k, why));
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
