/* Printing of diagnostics. Whatever bytes a file holds, a message is a few short lines of printable text:
 * control bytes and broken UTF-8 are shown as '?', a long source line only by a window around the caret. */
#include "ir/diag.h"
#include <string.h>

#define SHOWN 100       /* characters of a source line that are shown at most */
#define BEFORE_CARET 40 /* of these, how many stand before the caret in a clipped line */
#define MESSAGE_MAX 600 /* bytes of one message */
#define NAME_MAX_LEN 64 /* longer names are no slips of the finger */

Diag *diag_new(Arena *a, FILE *out) {
    Diag *d = ARENA_NEW(a, Diag);
    d->arena = a;
    d->out = out;
    d->max_errors = 20;
    return d;
}

int diag_add_file(Diag *d, const char *path, const char *text, size_t size, bool library) {
    DiagFile f = {path, text, size, library};
    ARENA_PUSH(d->arena, d->files, d->n_files, d->cap_files, f);
    return d->n_files - 1;
}

bool diag_full(const Diag *d) { return d->errors >= d->max_errors; }

/* Bytes of the well-formed UTF-8 sequence at s, 0 if it isn't one. */
static size_t utf8_length(const char *s, size_t left) {
    const unsigned char *u = (const unsigned char *)s;
    if (left == 0) return 0;
    if (u[0] < 0x80) return 1;
    size_t n = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
    if (u[0] < 0xc2 || u[0] > 0xf4 || n > left) return 0;
    for (size_t i = 1; i < n; i++)
        if ((u[i] & 0xc0) != 0x80) return 0;
    if (u[0] == 0xe0 && u[1] < 0xa0) return 0; /* overlong */
    if (u[0] == 0xed && u[1] > 0x9f) return 0; /* surrogate */
    if (u[0] == 0xf0 && u[1] < 0x90) return 0;
    if (u[0] == 0xf4 && u[1] > 0x8f) return 0; /* above U+10FFFF */
    return n;
}

/* Prints the character at s as one character; returns the bytes it takes in the source. */
static size_t put_character(FILE *out, const char *s, size_t left) {
    size_t n = utf8_length(s, left);
    unsigned char c = (unsigned char)s[0];
    bool c1_control = n == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0;
    if (n == 0 || c < 0x20 || c == 0x7f || c1_control) {
        fputc(c == '\t' ? ' ' : '?', out);
        return n ? n : 1;
    }
    fwrite(s, 1, n, out);
    return n;
}

static size_t step_character(const char *s, size_t left) {
    size_t n = utf8_length(s, left);
    return n ? n : 1;
}

static void put_text(FILE *out, const char *s, size_t n) {
    for (size_t i = 0; i < n;) i += put_character(out, s + i, n - i);
}

static const DiagFile *file_of(const Diag *d, Span at) {
    return at.line > 0 && at.file < d->n_files ? &d->files[at.file] : NULL;
}

/* The text of line number `line` (from 1), without its line end. False if the file is shorter. */
static bool find_line(const DiagFile *f, uint32_t line, const char **start, size_t *size) {
    const char *p = f->text, *end = f->text + f->size;
    if (!f->text) return false;
    for (uint32_t i = 1; i < line; i++) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        if (!nl) return false;
        p = nl + 1;
    }
    if (p == end && line > 1 && f->size && end[-1] != '\n') return false;
    const char *nl = memchr(p, '\n', (size_t)(end - p));
    *start = p;
    *size = (size_t)((nl ? nl : end) - p);
    if (*size && p[*size - 1] == '\r') (*size)--;
    return true;
}

/* Bytes from `from` to the character boundary `count` characters before it. */
static size_t back_characters(const char *text, size_t from, int count) {
    while (from > 0 && count-- > 0) {
        size_t p = from - 1; /* to the start of the sequence that ends at from, if it is well formed */
        for (int k = 0; k < 3 && p > 0 && ((unsigned char)text[p] & 0xc0) == 0x80; k++) p--;
        from = utf8_length(text + p, from - p) == from - p ? p : from - 1;
    }
    return from;
}

static size_t forward_characters(const char *text, size_t size, size_t from, int count) {
    while (from < size && count-- > 0) from += step_character(text + from, size - from);
    return from;
}

/* The source line and below it a caret under the first byte of the span and ~ under the rest. */
static void show_source(const Diag *d, Span at) {
    const DiagFile *f = file_of(d, at);
    const char *line;
    size_t size;
    if (!f || !find_line(f, at.line, &line, &size)) return;
    size_t caret = at.col > 0 ? at.col - 1 : 0;
    if (caret > size) caret = size;
    size_t end = at.end_line > at.line ? size : at.end_col > 0 ? at.end_col - 1 : 0;
    if (end > size) end = size;

    size_t first = 0, last = forward_characters(line, size, 0, SHOWN);
    if (last < size) {
        first = back_characters(line, caret, BEFORE_CARET);
        last = forward_characters(line, size, first, SHOWN);
        if (last == size) first = back_characters(line, size, SHOWN);
    }
    const char *left = first > 0 ? "..." : "", *right = last < size ? "..." : "";
    fprintf(d->out, "%5u | %s", at.line, left);
    put_text(d->out, line + first, last - first);
    fprintf(d->out, "%s\n      | %*s", right, (int)strlen(left), "");
    for (size_t i = first; i < caret; i += step_character(line + i, size - i)) fputc(' ', d->out);
    fputc('^', d->out);
    for (size_t i = caret; i < end && i < last; i += step_character(line + i, size - i))
        if (i > caret) fputc('~', d->out);
    fputc('\n', d->out);
}

static void say(Diag *d, Span at, const char *what, const char *fmt, va_list ap) {
    const DiagFile *f = file_of(d, at);
    if (f) {
        put_text(d->out, f->path, strlen(f->path));
        fprintf(d->out, ":%u:%u: ", at.line, at.col);
    }
    fprintf(d->out, "%s: ", what);
    char text[MESSAGE_MAX];
    int n = vsnprintf(text, sizeof text, fmt, ap);
    bool cut = n >= (int)sizeof text;
    size_t shown = cut ? back_characters(text, sizeof text - 1, 3) : n > 0 ? (size_t)n : 0;
    put_text(d->out, text, shown);
    fputs(cut ? "...\n" : "\n", d->out);
    show_source(d, at);
}

static void say_hint(Diag *d, const char *hint) {
    if (!hint) return;
    fputs("hint: ", d->out);
    size_t n = strlen(hint);
    put_text(d->out, hint, n > MESSAGE_MAX ? MESSAGE_MAX : n);
    fputc('\n', d->out);
}

void diag_error(Diag *d, Span at, const char *hint, const char *fmt, ...) {
    d->muted = diag_full(d);
    if (d->errors++ >= d->max_errors) {
        if (d->errors == d->max_errors + 1) fputs("error: too many errors, the rest are not shown\n", d->out);
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    say(d, at.line ? at : d->asked_at, "error", fmt, ap);
    va_end(ap);
    say_hint(d, hint);
}

void diag_warn(Diag *d, Span at, const char *hint, const char *fmt, ...) {
    d->warnings++;
    d->muted = false;
    va_list ap;
    va_start(ap, fmt);
    say(d, at.line ? at : d->asked_at, "warning", fmt, ap);
    va_end(ap);
    say_hint(d, hint);
}

void diag_note(Diag *d, Span at, const char *fmt, ...) {
    if (d->muted) return;
    va_list ap;
    va_start(ap, fmt);
    say(d, at, "note", fmt, ap);
    va_end(ap);
}

/* Edit distance where swapping two neighbours is one edit. Both strings are at most NAME_MAX_LEN long. */
static int edit_distance(const char *a, int n, const char *b, int m) {
    int rows[3][NAME_MAX_LEN + 1];
    int *before = rows[0], *prev = rows[1], *now = rows[2];
    for (int j = 0; j <= m; j++) prev[j] = j;
    for (int i = 1; i <= n; i++) {
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = prev[j - 1] + (a[i - 1] != b[j - 1]);
            if (prev[j] + 1 < best) best = prev[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && before[j - 2] + 1 < best) best = before[j - 2] + 1;
            now[j] = best;
        }
        int *spare = before;
        before = prev;
        prev = now;
        now = spare;
    }
    return prev[m];
}

const char *diag_nearest(const char *name, const char *const *candidates, int n) {
    size_t length = strlen(name);
    if (length == 0 || length > NAME_MAX_LEN) return NULL;
    int limit = (int)(length + 2) / 3, best = limit + 1; /* one slip in three letters */
    const char *nearest = NULL;
    for (int i = 0; i < n; i++) {
        if (!candidates[i]) continue;
        size_t m = strlen(candidates[i]);
        if (m == 0 || m > NAME_MAX_LEN) continue;
        int distance = edit_distance(name, (int)length, candidates[i], (int)m);
        if (distance < best && distance < (int)(length > m ? length : m)) {
            best = distance;
            nearest = candidates[i];
        }
    }
    return nearest;
}

const char *diag_did_you_mean(Diag *d, const char *name, const char *const *candidates, int n) {
    const char *near = diag_nearest(name, candidates, n);
    return near ? arena_printf(d->arena, "did you mean '%s'?", near) : NULL;
}
