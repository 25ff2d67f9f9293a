/* Cuts the files' text into blocks of whole rows. What follows the last whole row of a read is kept for the
 * next block. With a second file beside, its block has exactly as many rows as the first file's. */
#include "runtime/reader_internal.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    RtSource *source;
    char *left; /* read but not yet in a block */
    size_t n_left, cap_left;
    bool ended;    /* nothing more to read */
    bool mended;   /* the last line had no line end and got one */
    uint64_t line; /* number of the first line that is left */
} Stream;

struct RtCutter {
    const RtPlan *p;
    RtFiles *files;
    int sides;
    Stream side[RT_SIDES];
    uint32_t file;
    bool open;
    bool any_bytes, any_rows; /* in the files of the present argument */
    uint64_t rows;            /* of the present file; counted only with a second file beside */
    uint64_t before;          /* bytes of the files done */
};

RtCutter *rt_cutter_new(const RtPlan *p, RtFiles *files, int wake) {
    RtCutter *c = rt_reader_alloc(1, sizeof *c);
    c->p = p;
    c->files = files;
    c->sides = p->side ? 2 : 1;
    for (int k = 0; k < c->sides; k++) c->side[k].source = rt_source_new(wake);
    return c;
}

void rt_cutter_free(RtCutter *c) {
    if (!c) return;
    for (int k = 0; k < RT_SIDES; k++) {
        rt_source_free(c->side[k].source);
        free(c->side[k].left);
    }
    free(c);
}

void rt_cutter_rewind(RtCutter *c) {
    c->file = 0;
    c->open = c->any_bytes = c->any_rows = false;
    c->before = 0;
}

uint64_t rt_cutter_taken(const RtCutter *c) {
    return c->before + (c->open ? rt_source_taken(c->side[0].source) : 0);
}

void rt_block_free(RtBlock *b) {
    if (!b) return;
    free(b->text[0]);
    free(b->text[1]);
    free(b);
}

/* Reads on until text has `want` bytes or the file ends; then the last line gets its line end. */
static bool top_up(Stream *s, char **text, size_t *bytes, size_t *cap, size_t want, RtMessage *err) {
    if (s->ended || *bytes >= want) return true;
    *text = rt_reader_grow(*text, cap, want + 1 + RT_PAD, 1);
    int64_t got = rt_source_read(s->source, *text + *bytes, want - *bytes, err);
    if (got < 0) return false;
    s->ended = (size_t)got < want - *bytes;
    *bytes += (size_t)got;
    s->mended = s->ended && *bytes && (*text)[*bytes - 1] != '\n';
    if (s->mended) (*text)[(*bytes)++] = '\n';
    return true;
}

/* ---- opening ---- */

static bool read_header(RtCutter *c, int k, RtFile *f, RtMessage *err) {
    Stream *s = &c->side[k];
    const RtSyntax *x = &c->p->syntax;
    size_t at = 0;
    for (;;) { /* blank lines may stand before it */
        const char *end = rt_record_end(x, s->left + at, s->left + s->n_left);
        if (!end && !s->ended) {
            if (s->n_left >= RT_ROW_LIMIT)
                return rt_message(err, "%s:%llu:1: error: the header is longer than 64 MiB", f->name[k],
                                  (unsigned long long)s->line);
            if (!top_up(s, &s->left, &s->n_left, &s->cap_left, s->n_left * 2 + 4096, err)) return false;
            continue;
        }
        if (!end) end = s->left + s->n_left;
        const char *from = s->left + at;
        bool blank = rt_is_blank(x, from, end);
        if (!blank && !f->layout[k])
            f->layout[k] = rt_layout_by_header(c->p, k, f->name[k], s->line, from, (size_t)(end - from), err);
        if (!blank && !f->layout[k]) return false;
        s->line += rt_count_lines(from, (size_t)(end - from));
        at = (size_t)(end - s->left);
        if (!blank || (at == s->n_left && s->ended)) break;
    }
    s->n_left -= at;
    memmove(s->left, s->left + at, s->n_left);
    return true;
}

/* A carriage return that ends a line by itself, as old Macs and some spreadsheets have it: all lines would be
 * one. Only looked for where no line ends otherwise, and no quote may hold it. */
static bool check_line_ends(const RtCutter *c, const Stream *s, const RtFile *f, int k, RtMessage *err) {
    size_t n = s->n_left - s->mended;
    if (!n || memchr(s->left, '\n', n)) return true;
    const char *cr = memchr(s->left, '\r', n), *end = s->left + n;
    char quote = c->p->syntax.quote;
    if (!cr || cr + 1 == end || (quote && memchr(s->left, quote, (size_t)(cr - s->left)))) return true;
    return rt_message(err,
                      "%s:1:%zu: error: lines end in a carriage return alone, expected a newline\n"
                      "hint: tr '\\r' '\\n' makes newlines of them",
                      f->name[k], (size_t)(cr - s->left) + 1);
}

static bool open_side(RtCutter *c, int k, RtFile *f, RtMessage *err) {
    Stream *s = &c->side[k];
    if (!rt_source_open(s->source, f->path[k], err)) return false;
    s->n_left = 0;
    s->ended = s->mended = false;
    s->line = 1;
    if (!top_up(s, &s->left, &s->n_left, &s->cap_left, 64 << 10, err)) return false;
    if (k == 0 && s->n_left) c->any_bytes = true;
    if (s->n_left >= 3 && !memcmp(s->left, "\xef\xbb\xbf", 3)) { /* byte-order mark */
        s->n_left -= 3;
        memmove(s->left, s->left + 3, s->n_left);
        if (s->n_left == 1 && s->ended) s->n_left = 0; /* the line end that top_up gave the mark */
    }
    if (!check_line_ends(c, s, f, k, err)) return false;
    return !c->p->m->header || !s->n_left || read_header(c, k, f, err);
}

static bool open_file(RtCutter *c, RtMessage *err) {
    for (int k = 0; k < c->sides; k++)
        if (!open_side(c, k, &c->files->file[c->file], err)) return false;
    c->open = true;
    c->rows = 0;
    return true;
}

/* ---- cutting ---- */

/* Puts what is left of the stream at the block's beginning. */
static void begin(Stream *s, RtBlock *b, int k) {
    b->text[k] = rt_reader_grow(b->text[k], &b->cap[k], s->n_left + 1 + RT_PAD, 1);
    memcpy(b->text[k], s->left, s->n_left);
    b->bytes[k] = s->n_left;
    b->line[k] = s->line;
    s->n_left = 0;
}

/* Keeps what follows `cut` for the next block. */
static uint64_t finish(Stream *s, RtBlock *b, int k, size_t cut) {
    s->n_left = b->bytes[k] - cut;
    s->left = rt_reader_grow(s->left, &s->cap_left, s->n_left + 1, 1);
    memcpy(s->left, b->text[k] + cut, s->n_left);
    b->bytes[k] = cut;
    memset(b->text[k] + cut, 0, RT_PAD);
    uint64_t lines = rt_count_lines(b->text[k], cut);
    s->line += lines;
    return lines;
}

static bool too_long(const RtCutter *c, int k, uint64_t line, RtMessage *err) {
    return rt_message(err, "%s:%llu:1: error: a row longer than 64 MiB%s", c->files->file[c->file].name[k],
                      (unsigned long long)line, c->p->syntax.quote ? "; is a quote never closed?" : "");
}

/* One past the last whole record of text, 0 if there is none. */
static size_t last_record(const RtSyntax *x, const char *text, size_t bytes) {
    if (!x->quote || !memchr(text, x->quote, bytes)) {
        const char *nl = memrchr(text, '\n', bytes);
        return nl ? (size_t)(nl - text) + 1 : 0;
    }
    const char *at = text, *next;
    while ((next = rt_record_end(x, at, text + bytes))) at = next;
    return (size_t)(at - text);
}

/* Whether lines that hold nothing are rows of the present file. */
static bool blank_rows(const RtCutter *c, int side) {
    const RtLayout *l = rt_layout_of(c->p, &c->files->file[c->file], side);
    return l && l->blank_rows; /* no layout: nothing was read, not even a header */
}

/* Rows of text, at most `most` of them; *cut: where they end. whole: the end of the text is the end of the
 * last record, too. */
static uint64_t count_rows(const RtCutter *c, int side, const char *text, size_t bytes, uint64_t most,
                           bool whole, size_t *cut) {
    const RtSyntax *x = &c->p->syntax;
    bool every = blank_rows(c, side);
    const char *at = text, *end = text + bytes;
    uint64_t n = 0;
    while (n < most && at < end) {
        const char *next = rt_record_end(x, at, end);
        if (!next && !whole) break;
        if (!next) next = end;
        n += every || !rt_is_blank(x, at, next);
        at = next;
    }
    *cut = (size_t)(at - text);
    return n;
}

/* Bytes of lines that are no rows, with which text begins. */
static size_t before_row(const RtCutter *c, int side, const char *text, size_t bytes) {
    const RtSyntax *x = &c->p->syntax;
    const char *at = text, *next;
    if (blank_rows(c, side)) return 0;
    while ((next = rt_record_end(x, at, text + bytes)) && rt_is_blank(x, at, next)) at = next;
    return (size_t)(at - text);
}

/* The second file has ended after n rows of the block; *b's first file has more. */
static bool fail_shorter(const RtCutter *c, const RtBlock *b, uint64_t n, RtMessage *err) {
    const RtFile *f = &c->files->file[c->file];
    size_t at;
    count_rows(c, 0, b->text[0], b->bytes[0], n, true, &at);
    at += before_row(c, 0, b->text[0] + at, b->bytes[0] - at);
    uint64_t line = b->line[0] + rt_count_lines(b->text[0], at), rows = c->rows + n;
    return rt_message(err, "%s:%llu: error: ends after %llu row%s, '%s' has another at line %llu", f->name[1],
                      (unsigned long long)c->side[1].line, (unsigned long long)rows, rows == 1 ? "" : "s",
                      f->name[0], (unsigned long long)line);
}

/* The second file's part: as many rows as the first one's. */
static bool cut_second(RtCutter *c, RtBlock *b, uint64_t rows, RtMessage *err) {
    Stream *s = &c->side[1];
    begin(s, b, 1);
    size_t cut = 0, want = RT_BLOCK_BYTES;
    for (;;) {
        if (!top_up(s, &b->text[1], &b->bytes[1], &b->cap[1], want, err)) return false;
        uint64_t n = count_rows(c, 1, b->text[1], b->bytes[1], rows, s->ended, &cut);
        if (n == rows) break;
        if (s->ended) {
            finish(s, b, 1, cut);
            return fail_shorter(c, b, n, err);
        }
        if (want >= 16 * (size_t)RT_ROW_LIMIT) return too_long(c, 1, s->line, err);
        want *= 2;
    }
    finish(s, b, 1, cut);
    return true;
}

/* After the first file's last row the second one must have none. */
static bool check_second_ended(RtCutter *c, RtBlock *b, RtMessage *err) {
    Stream *s = &c->side[1];
    const RtFile *f = &c->files->file[c->file];
    for (;;) {
        begin(s, b, 1);
        if (!top_up(s, &b->text[1], &b->bytes[1], &b->cap[1], RT_BLOCK_BYTES, err)) return false;
        if (!b->bytes[1]) return true;
        size_t blank = before_row(c, 1, b->text[1], b->bytes[1]);
        const char *rest = b->text[1] + blank, *end = b->text[1] + b->bytes[1];
        /* what is left may be the beginning of a blank line; but one as long as a block is taken for a row */
        bool row = rest < end && (blank_rows(c, 1) || !rt_is_blank(&c->p->syntax, rest, end) || !blank);
        finish(s, b, 1, blank);
        if (row)
            return rt_message(err, "%s:%llu: error: has another row, '%s' ends at line %llu after %llu row%s",
                              f->name[1], (unsigned long long)s->line, f->name[0],
                              (unsigned long long)c->side[0].line - 1, (unsigned long long)c->rows,
                              c->rows == 1 ? "" : "s");
        if (s->ended) return true;
    }
}

/* 1: a block; 0: the file has ended; -1: error. */
static int cut_block(RtCutter *c, RtBlock *b, uint64_t *lines, RtMessage *err) {
    Stream *s = &c->side[0];
    begin(s, b, 0);
    size_t cut, want = RT_BLOCK_BYTES;
    for (;;) {
        if (!top_up(s, &b->text[0], &b->bytes[0], &b->cap[0], want, err)) return -1;
        cut = s->ended ? b->bytes[0] : last_record(&c->p->syntax, b->text[0], b->bytes[0]);
        if (cut || s->ended) break;
        if (want >= RT_ROW_LIMIT) return too_long(c, 0, s->line, err) - 1;
        want *= 2;
    }
    if (!cut) return c->sides == 2 && !check_second_ended(c, b, err) ? -1 : 0;
    *lines = finish(s, b, 0, cut);
    uint64_t most = c->sides == 2 ? UINT64_MAX : 1, rows = 0;
    if (c->sides == 2 || !c->any_rows) rows = count_rows(c, 0, b->text[0], b->bytes[0], most, true, &cut);
    c->any_rows |= rows > 0;
    if (c->sides == 2) {
        if (!cut_second(c, b, rows, err)) return -1;
        c->rows += rows;
    }
    return 1;
}

static bool check_any_rows(const RtCutter *c, const RtFile *f, RtMessage *err) {
    if (c->any_rows) return true;
    if (strcmp(f->argument, f->path[0]))
        return rt_message(err, "%s: error: no rows in any file of the directory", f->argument);
    if (!c->any_bytes) return rt_message(err, "%s: error: the file is empty", f->name[0]);
    return rt_message(err, "%s: error: %s", f->name[0],
                      f->layout[0] ? "only a header, no rows" : "no rows, only blank lines");
}

int rt_cutter_next(RtCutter *c, RtBlock *b, uint64_t *lines, RtMessage *err) {
    while (c->file < c->files->n) {
        if (!c->open && !open_file(c, err)) return -1;
        int got = cut_block(c, b, lines, err);
        b->file = c->file;
        if (got) return got;
        const RtFile *f = &c->files->file[c->file];
        c->before += rt_source_taken(c->side[0].source);
        c->open = false;
        c->file++;
        if (!f->last) continue;
        if (!check_any_rows(c, f, err)) return -1;
        c->any_bytes = c->any_rows = false;
    }
    return 0;
}
