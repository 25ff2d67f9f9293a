/* A header line gives a file's layout: declared columns are found by name (or by the text of `from`), in any
 * order; fields that are no declared column, or aren't needed, are passed over. */
#include "runtime/reader_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fields of one record as strings, unquoted and trimmed. */
static char **header_fields(const RtSyntax *s, const char *p, const char *end, int *n_fields) {
    char **field = NULL;
    size_t cap = 0, n = 0;
    if (end > p && end[-1] == '\n') end--;
    if (end > p && end[-1] == '\r') end--;
    for (bool more = true; more; n++) {
        char *text = rt_reader_alloc((size_t)(end - p) + 1, 1), *out = text;
        if (s->quote && p < end && *p == s->quote) {
            const char *close = rt_closing_quote(p + 1, end, s->quote);
            for (p++; p < (close ? close : end); p++) {
                *out++ = *p;
                if (*p == s->quote) p++; /* doubled */
            }
            if (close) p = close + 1;
        }
        while (p < end && *p != s->separator) *out++ = *p++;
        more = p < end;
        p += more;
        if (s->trim) {
            while (out > text && (out[-1] == ' ' || out[-1] == '\t')) out--;
            size_t lead = strspn(text, " \t"), len = (size_t)(out - text);
            if (lead > len) lead = len;
            memmove(text, text + lead, len - lead);
            out -= lead;
        }
        *out = 0;
        field = rt_reader_grow(field, &cap, n + 1, sizeof *field);
        field[n] = text;
    }
    *n_fields = (int)n;
    return field;
}

static bool place_column(const RtPlan *p, RtLayout *l, int column, char **field, const char *name,
                         uint64_t number, RtMessage *err) {
    const RtColumn *c = &p->m->columns[column];
    const char *wanted = c->from ? c->from : c->name;
    int found = -1;
    for (int k = 0; k < l->n_fields; k++) {
        if (strcmp(field[k], wanted)) continue;
        if (found >= 0)
            return rt_message(err, "%s:%llu:1: error: column '%s' stands twice in the header", name,
                              (unsigned long long)number, wanted);
        found = k;
    }
    if (found >= 0) {
        if (l->column[found] >= 0) { /* two columns show one field, as a number and as a text, say */
            if (!l->also) {
                l->also = rt_reader_alloc((size_t)p->m->n_columns, sizeof *l->also);
                memset(l->also, -1, (size_t)p->m->n_columns * sizeof *l->also);
            }
            l->also[column] = l->column[found];
        }
        l->column[found] = column;
        return true;
    }
    const char *near = rt_nearest(wanted, (const char *const *)field, l->n_fields);
    rt_message(err, "%s:%llu:1: error: column '%s' is missing from the header", name,
               (unsigned long long)number, wanted);
    size_t used = strlen(err->text);
    char shown[RT_SHOWN];
    if (near)
        snprintf(err->text + used, sizeof err->text - used, "\nhint: did you mean %s?",
                 rt_show(near, strlen(near), shown));
    return false;
}

RtLayout *rt_layout_by_header(const RtPlan *p, int side, const char *name, uint64_t number, const char *line,
                              size_t bytes, RtMessage *err) {
    RtLayout *l = rt_reader_alloc(1, sizeof *l);
    char **field = header_fields(&p->syntax, line, line + bytes, &l->n_fields);
    l->column = rt_reader_alloc((size_t)l->n_fields, sizeof *l->column);
    for (int k = 0; k < l->n_fields; k++) l->column[k] = -1;
    l->header = rt_reader_alloc(bytes + 1, 1);
    memcpy(l->header, line, bytes);
    l->header_bytes = bytes;
    bool ok = true;
    for (int i = 0; i < p->m->n_columns && ok; i++) {
        const RtColumn *c = &p->m->columns[i];
        if (c->side != side) continue;
        if (p->column_on[i]) ok = place_column(p, l, i, field, name, number, err);
        /* of any declared column: what a row is doesn't depend on what is read of it */
        if (l->n_fields == 1 && c->kind != RT_SKIP && !strcmp(field[0], c->from ? c->from : c->name))
            l->blank_rows |= rt_layout_blank_rows(p->m, c);
    }
    if (ok && side == 0 && p->echo.n) ok = rt_echo_by_header(p, l, field, name, number, err);
    for (int k = 0; k < l->n_fields; k++) free(field[k]);
    free(field);
    if (ok) {
        rt_layout_list_used(l, p);
        return l;
    }
    rt_layout_free(l);
    return NULL;
}

void rt_layout_free(RtLayout *l) {
    if (!l) return;
    free(l->column);
    free(l->also);
    free(l->header);
    free(l->echo);
    free(l->used);
    free(l);
}
