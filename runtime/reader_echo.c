/* predict --columns: fields of a row as they stand in the file, ready to be written before its predictions.
 * The parsing threads make the text; of a bad row it has what can be found, else nothing between the commas.
 */
#include "runtime/reader_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which fields ---- */

/* The column's place among the model's, -1. */
static int declared(const RtModel *m, const char *name) {
    for (int i = 0; i < m->n_columns; i++)
        if (m->columns[i].kind != RT_SKIP && m->columns[i].side == 0 && !strcmp(m->columns[i].name, name))
            return i;
    return -1;
}

bool rt_echo_check(const RtModel *m, const RtEchoed *e, RtMessage *err) {
    if (e->n && m->format >= RT_LIBSVM)
        return rt_message(err, "--columns: rows of such pairs have no columns");
    for (int k = 0; k < e->n && !m->header; k++) {
        if (declared(m, e->name[k]) >= 0) continue;
        const char **names = rt_reader_alloc((size_t)m->n_columns, sizeof *names);
        for (int i = 0; i < m->n_columns; i++)
            if (m->columns[i].kind != RT_SKIP) names[i] = m->columns[i].name;
        const char *near = rt_nearest(e->name[k], names, m->n_columns);
        free(names);
        return rt_message(err, "--columns: the model has no column '%s'%s%s%s", e->name[k],
                          near ? "\nhint: did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    return true;
}

void rt_echo_declared(RtPlan *p) {
    RtLayout *l = p->fixed[0];
    if (!p->echo.n || !l) return;
    l->echo = rt_reader_alloc((size_t)p->echo.n, sizeof *l->echo);
    for (int k = 0; k < p->echo.n; k++) {
        const RtColumn *c = &p->m->columns[declared(p->m, p->echo.name[k])];
        for (const RtColumn *x = p->m->columns; x < c; x++)
            if (x->side == 0) l->echo[k] += x->kind == RT_SKIP ? x->skip : 1;
    }
}

/* Any field that the header names, whether the model knows it or not. */
bool rt_echo_by_header(const RtPlan *p, RtLayout *l, char **field, const char *file, uint64_t line,
                       RtMessage *err) {
    l->echo = rt_reader_alloc((size_t)p->echo.n, sizeof *l->echo);
    for (int k = 0; k < p->echo.n; k++) {
        int i = declared(p->m, p->echo.name[k]);
        const char *wanted = i >= 0 && p->m->columns[i].from ? p->m->columns[i].from : p->echo.name[k];
        int at = 0;
        while (at < l->n_fields && strcmp(field[at], wanted)) at++;
        if (at == l->n_fields)
            return rt_message(err, "%s:%llu:1: error: column '%s' (--columns) is missing from the header",
                              file, (unsigned long long)line, wanted);
        l->echo[k] = at;
    }
    return true;
}

/* ---- one field ---- */

static void put(RtRows *r, const char *text, size_t n) {
    r->echo = rt_reader_grow(r->echo, &r->echo_cap, r->echo_bytes + n + 1, 1);
    if (n) memcpy(r->echo + r->echo_bytes, text, n);
    r->echo_bytes += n;
}

/* Field number `wanted` of the record at..end; doubled quotes stay doubled, *quoted says so. */
static RtText find_field(const RtSyntax *s, const char *at, const char *end, int wanted, bool *quoted) {
    for (int i = 0;; i++) {
        const char *close =
            s->quote && at < end && *at == s->quote ? rt_closing_quote(at + 1, end, s->quote) : NULL;
        const char *stop = memchr(close ? close : at, s->separator, (size_t)(end - (close ? close : at)));
        if (i == wanted) {
            *quoted = close != NULL;
            if (close) return (RtText){at + 1, (uint32_t)(close - at - 1)};
            return (RtText){at, (uint32_t)((stop ? stop : end) - at)};
        }
        if (!stop) return (RtText){NULL, 0};
        at = stop + 1;
    }
}

static void put_csv(RtRows *r, RtText t, char quote) {
    bool plain = true;
    for (uint32_t i = 0; i < t.n; i++)
        plain &= t.p[i] != ',' && t.p[i] != '"' && t.p[i] != '\n' && t.p[i] != '\r';
    if (plain) {
        put(r, t.p, t.n);
        return;
    }
    put(r, "\"", 1);
    for (uint32_t i = 0; i < t.n; i++) {
        if (quote && t.p[i] == quote && i + 1 < t.n && t.p[i + 1] == quote)
            i++; /* one that the file doubled */
        put(r, t.p[i] == '"' ? "\"\"" : t.p + i, t.p[i] == '"' ? 2 : 1);
    }
    put(r, "\"", 1);
}

/* Length of the UTF-8 character at p, 0 if there is none: overlong forms and surrogates are none. */
static uint32_t utf8(const uint8_t *p, uint32_t left) {
    uint32_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    if (n > left) return 0;
    for (uint32_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if (n > 2 && ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f))) return 0;
    return n == 4 && ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) ? 0 : n;
}

/* Bytes that are no UTF-8 become the replacement character. */
static void put_json(RtRows *r, RtText t, char quote) {
    put(r, "\"", 1);
    for (uint32_t i = 0; i < t.n;) {
        const uint8_t *c = (const uint8_t *)t.p + i;
        uint32_t n = utf8(c, t.n - i);
        char hex[8];
        if (quote && *c == (uint8_t)quote && i + 1 < t.n && t.p[i + 1] == quote) i++;
        if (!n)
            put(r, "\\ufffd", 6);
        else if (*c < 0x20)
            put(r, hex, (size_t)snprintf(hex, sizeof hex, "\\u%04x", *c));
        else if (*c == '"' || *c == '\\')
            put(r, (char[]){'\\', (char)*c}, 2);
        else
            put(r, t.p + i, n);
        i += n ? n : 1;
    }
    put(r, "\"", 1);
}

/* ---- a row ---- */

void rt_echo_add(const RtPlan *p, const RtLayout *l, RtRows *r, const char *at, const char *end) {
    if (end > at && end[-1] == '\n') end--;
    if (end > at && end[-1] == '\r') end--;
    r->echo_end = rt_reader_grow(r->echo_end, &r->echo_rows, r->n, sizeof *r->echo_end);
    for (int k = 0; k < p->echo.n; k++) {
        bool quoted = false;
        RtText t = find_field(&p->syntax, at, end, l->echo[k], &quoted);
        while (p->syntax.trim && !quoted && t.n && (*t.p == ' ' || *t.p == '\t')) t.p++, t.n--;
        while (p->syntax.trim && !quoted && t.n && (t.p[t.n - 1] == ' ' || t.p[t.n - 1] == '\t')) t.n--;
        const char *name = p->echo.name[k];
        char quote = quoted ? p->syntax.quote : 0;
        if (p->echo.json) {
            put_json(r, (RtText){name, (uint32_t)strlen(name)}, 0);
            put(r, ":", 1);
            put_json(r, t, quote);
        } else
            put_csv(r, t, quote);
        put(r, ",", 1);
    }
    r->echo_end[r->n - 1] = r->echo_bytes;
}

RtText rt_echo_of(const RtRows *r, uint32_t row) {
    size_t from = row ? r->echo_end[row - 1] : 0;
    return (RtText){r->echo + from, (uint32_t)(r->echo_end[row] - from)};
}
