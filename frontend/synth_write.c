/* Rows as text, in the program's own format. Files appear under their names whole or not at all. */
#include "frontend/synth.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct SynthFiles {
    IrProgram *p;
    int n; /* 1, or 2 with a `beside` file */
    FILE *f[2];
    char *path[2], *temporary[2];
    bool failed;
};

static void complain(const SynthFiles *s, int side, const char *what) {
    diag_error(s->p->diag, (Span){0}, NULL, "%s '%s': %s", what, s->path[side], strerror(errno));
}

static bool plain(const Synth *s) { return s->p->input.kind == IN_CSV || s->p->input.kind == IN_TSV; }

/* ---- fields ---- */

static void field(const Synth *s, FILE *f, const char *text, int len) {
    const IrInput *in = &s->p->input;
    bool quoted = plain(s) && in->quote && len &&
                  (memchr(text, in->separator, (size_t)len) || memchr(text, in->quote, (size_t)len));
    if (!quoted) {
        fwrite(text, 1, (size_t)len, f);
        return;
    }
    fputc(in->quote, f);
    for (int i = 0; i < len; i++) {
        if (text[i] == in->quote) fputc(in->quote, f);
        fputc(text[i], f);
    }
    fputc(in->quote, f);
}

static int number_text(char *buffer, double x) { return snprintf(buffer, 64, "%.6g", x); }

static void label(const Synth *s, FILE *f, const SynthColumn *c, int y) {
    char buffer[64];
    const char *text = y ? c->col->positive : c->col->negative;
    if (!text && c->col->positive) text = strcmp(c->col->positive, "0") == 0 ? "other" : "0";
    if (text)
        field(s, f, text, (int)strlen(text));
    else
        field(s, f, buffer,
              number_text(buffer, c->compared && !c->col->unit_label ? (y ? c->above : c->below) : y));
}

static void empty(const Synth *s, FILE *f, const SynthValue *v) {
    const IrInput *in = &s->p->input;
    if (in->n_missing && (v->rank & 1)) field(s, f, in->missing[0], (int)strlen(in->missing[0]));
}

static void list(const Synth *s, FILE *f, const SynthColumn *c, const SynthValue *v, int n) {
    char buffer[64], *text = NULL;
    size_t size = 0;
    FILE *m = open_memstream(&text, &size);
    for (int k = 0; m && k < n; k++) {
        int len;
        const char *element = synth_text(c, v[k], buffer, &len);
        if (k) fputc(c->col->list_sep, m);
        fwrite(element, 1, (size_t)len, m);
    }
    if (!m || fclose(m) != 0) return;
    field(s, f, text, (int)size);
    free(text);
}

static void value(const Synth *s, FILE *f, int i, const SynthRow *row) {
    const SynthColumn *c = &s->columns[i];
    char buffer[64];
    int len;
    if (c->kind == SYNTH_LABEL)
        label(s, f, c, row->label[i]);
    else if (c->col->is_list)
        list(s, f, c, row->v[i], row->count[i]);
    else if (row->v[i][0].empty)
        empty(s, f, &row->v[i][0]);
    else {
        const char *text = synth_text(c, row->v[i][0], buffer, &len);
        field(s, f, text, len);
    }
}

/* ---- rows ---- */

/* libsvm: label index:value …; libffm: label field:index:value … */
static void sparse_row(const Synth *s, FILE *f, const SynthRow *row) {
    label(s, f, &s->columns[0], row->label[0]);
    for (int k = 0; k < row->count[1]; k++)
        for (int i = 1; i < s->n; i++) {
            char buffer[64];
            int len;
            const char *text = synth_text(&s->columns[i], row->v[i][k], buffer, &len);
            fprintf(f, "%c%.*s", i == 1 ? ' ' : ':', len, text);
        }
    fputc('\n', f);
}

/* With a header, columns match by name, so nameless ones to be skipped need not be there. */
static bool stands(const Synth *s, int i, int side) {
    const IrColumn *c = s->columns[i].col;
    return c->side == side && !(s->p->input.header && c->kind == COL_SKIP && strcmp(c->name, "_") == 0);
}

static void text_row(const Synth *s, FILE *f, int side, const SynthRow *row) {
    bool first = true;
    for (int i = 0; i < s->n; i++) {
        if (!stands(s, i, side)) continue;
        const IrColumn *c = s->columns[i].col;
        for (int k = 0; k < (c->kind == COL_SKIP ? c->skip : 1); k++) {
            if (!first) fputc(s->p->input.separator, f);
            first = false;
            if (!row)
                field(s, f, c->from ? c->from : c->name, (int)strlen(c->from ? c->from : c->name));
            else if (c->kind == COL_SKIP)
                fputc('x', f);
            else
                value(s, f, i, row);
        }
    }
    fputc('\n', f);
}

void synth_write(SynthFiles *files, const Synth *s, const SynthRow *row) {
    for (int side = 0; side < files->n; side++) {
        if (plain(s))
            text_row(s, files->f[side], side, row);
        else
            sparse_row(s, files->f[side], row);
        files->failed |= ferror(files->f[side]) != 0;
    }
}

/* ---- files ---- */

/* Values are made of letters, digits and signs; a separator that is one of them would cut them up. */
static bool separable(const Synth *s) {
    const IrInput *in = &s->p->input;
    const char *used = "0123456789.-+e";
    char bad = plain(s) && !in->quote && strchr(used, in->separator) ? in->separator : 0;
    for (int i = 0; i < s->n && plain(s); i++)
        if (s->columns[i].col->is_list && strchr(used, s->columns[i].col->list_sep))
            bad = s->columns[i].col->list_sep;
    if (!bad) return true;
    diag_error(s->p->diag, (Span){0}, NULL, "can't make up values: the separator '%c' stands in numbers",
               bad);
    return false;
}

SynthFiles *synth_open(const Synth *s, const char *out) {
    Arena *a = s->p->arena;
    SynthFiles *files = ARENA_NEW(a, SynthFiles);
    *files = (SynthFiles){.p = s->p, .n = s->p->input.beside ? 2 : 1};
    size_t n = strlen(out);
    bool packed = (n > 3 && strcmp(out + n - 3, ".gz") == 0) || (n > 4 && strcmp(out + n - 4, ".zst") == 0);
    if (packed) {
        diag_error(s->p->diag, (Span){0}, "choose a name without .gz or .zst",
                   "can't write '%s': logs are written as plain text", out);
        return NULL;
    }
    if (!separable(s)) return NULL;
    for (int side = 0; side < files->n; side++) {
        files->path[side] = side ? arena_printf(a, "%s%s", out, s->p->input.beside) : arena_strdup(a, out);
        files->temporary[side] = arena_printf(a, "%s.%ld.tmp", files->path[side], (long)getpid());
        files->f[side] = fopen(files->temporary[side], "wb");
        if (!files->f[side]) {
            complain(files, side, "can't write");
            files->n = side;
            synth_close(files, false);
            return NULL;
        }
        if (plain(s) && s->p->input.header) text_row(s, files->f[side], side, NULL);
    }
    return files;
}

bool synth_close(SynthFiles *files, bool keep) {
    bool whole = keep && !files->failed;
    for (int side = 0; side < files->n; side++)
        if (fclose(files->f[side]) != 0) whole = false;
    if (keep && !whole) complain(files, 0, "can't write");
    for (int side = 0; side < files->n; side++) {
        if (whole && rename(files->temporary[side], files->path[side]) == 0) continue;
        if (whole) complain(files, side, "can't write");
        whole = false;
        unlink(files->temporary[side]);
    }
    return whole;
}
