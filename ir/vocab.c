/* Vocabulary files: one value a line. Values stay where they stand in the file's text, each line's end
 * replaced by NUL, so half a million values cost one read, one pass, and one hash each. */
#include "ir/internal.h"
#include <emmintrin.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#define XXH_INLINE_ALL /* values are short: a call would cost as much as a hash */
#include <xxhash.h>

/* Digest: XXH3 of the values, each followed by '\n', whatever the file's line ends are. */
uint64_t ir_vocab_digest(const IrVocab *v) {
    XXH3_state_t *state = XXH3_createState();
    XXH3_64bits_reset(state);
    for (int64_t i = 0; i < v->n; i++) {
        XXH3_64bits_update(state, v->values[i], (size_t)v->lens[i]);
        XXH3_64bits_update(state, "\n", 1);
    }
    uint64_t digest = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return digest;
}

/* Whole file into the arena, with one byte to spare. NULL: errno says why. */
static char *read_whole(Arena *a, const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    struct stat info;
    char *text = NULL;
    if (!f) return NULL;
    if (fstat(fileno(f), &info) == 0) {
        if (S_ISREG(info.st_mode)) {
            text = arena_alloc(a, (size_t)info.st_size + 1);
            *size = fread(text, 1, (size_t)info.st_size, f);
            if (ferror(f)) text = NULL;
        } else {
            errno = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
        }
    }
    int reason = errno;
    fclose(f);
    errno = reason;
    return text;
}

/* Line ends become '\n', in place, and the last line gets one; so the digest is that of the text as it
 * stands. There is room for one byte more. */
static size_t normalise(char *text, size_t size) {
    char *end = text + size, *cr = memchr(text, '\r', size);
    if (cr) {
        char *to = cr;
        for (char *from = cr; from < end; from++)
            if (from[0] != '\r' || from + 1 == end || from[1] != '\n') *to++ = *from;
        end = to;
        if (end > text && end[-1] == '\r') end--; /* the last line's, whose '\n' is missing */
    }
    if (end > text && end[-1] != '\n') *end++ = '\n';
    return (size_t)(end - text);
}

/* ---- values, and which of them stands there twice ---- */

/* Newlines of 64 bytes as bits. */
static uint64_t newlines(const char *p) {
    const __m128i nl = _mm_set1_epi8('\n');
    uint64_t bits = 0;
    for (int part = 0; part < 4; part++) {
        __m128i x = _mm_loadu_si128((const __m128i *)(p + 16 * part));
        bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(x, nl)) << (16 * part);
    }
    return bits;
}

static int64_t count_lines(const char *text, size_t size) {
    int64_t lines = 0;
    size_t at = 0;
    for (; at + 64 <= size; at += 64) lines += __builtin_popcountll(newlines(text + at));
    for (; at < size; at++) lines += text[at] == '\n';
    return lines;
}

/* Open addressing, at most three quarters full. A cell is a line number + 1 and, in the bits that these
 * leave, some of the value's hash, so that only likely equals are compared. The table is larger than the near
 * caches: a cell is asked for AHEAD lines before it is looked at. */
enum { AHEAD = 16 };
typedef struct {
    IrVocab *v;
    uint32_t *cell, line_bits;
    size_t mask;
    uint64_t hash[AHEAD];
    int64_t twice, first; /* two lines of one value, -1: none was found */
} Lines;

static void lines_new(Lines *l, Arena *a, IrVocab *v, int64_t lines) {
    size_t cells = 64;
    while (cells / 4 * 3 < (size_t)lines) cells *= 2;
    *l = (Lines){.v = v, .mask = cells - 1, .twice = -1};
    l->line_bits = UINT32_MAX >> __builtin_clz((uint32_t)lines | 1);
    l->cell = ARENA_ARRAY(a, uint32_t, cells);
}

static void look_up(Lines *l, int64_t line) {
    const IrVocab *v = l->v;
    uint64_t hash = l->hash[line % AHEAD];
    uint32_t tag = (uint32_t)(hash >> 32) & ~l->line_bits;
    size_t c = (size_t)hash & l->mask;
    for (; l->cell[c]; c = (c + 1) & l->mask) {
        int64_t other = (int64_t)(l->cell[c] & l->line_bits) - 1;
        if ((l->cell[c] & ~l->line_bits) != tag || v->lens[other] != v->lens[line]) continue;
        if (memcmp(v->values[other], v->values[line], (size_t)v->lens[line])) continue;
        if (l->twice < 0) l->twice = line, l->first = other;
        return;
    }
    l->cell[c] = tag | (uint32_t)(line + 1);
}

static inline void add_line(Lines *l, char *begin, char *end) {
    IrVocab *v = l->v;
    int64_t i = v->n++;
    *end = 0;
    v->values[i] = begin;
    v->lens[i] = (int)(end - begin);
    if (i >= AHEAD) look_up(l, i - AHEAD);
    l->hash[i % AHEAD] = XXH3_64bits(begin, (size_t)(end - begin));
    __builtin_prefetch(&l->cell[l->hash[i % AHEAD] & l->mask], 1);
}

/* One pass over the text: each line becomes a value and is looked up among those before it. */
static void take_lines(Lines *l, char *text, size_t size) {
    char *begin = text;
    size_t at = 0;
    for (; at + 64 <= size; at += 64)
        for (uint64_t bits = newlines(text + at); bits; bits &= bits - 1) {
            char *end = text + at + __builtin_ctzll(bits);
            add_line(l, begin, end);
            begin = end + 1;
        }
    for (; at < size; at++) {
        if (text[at] != '\n') continue;
        add_line(l, begin, text + at);
        begin = text + at + 1;
    }
    int64_t n = l->v->n;
    for (int64_t i = n > AHEAD ? n - AHEAD : 0; i < n; i++) look_up(l, i);
}

static bool split_lines(IrProgram *p, IrVocab *v, char *text, size_t size) {
    int64_t lines = count_lines(text, size);
    Lines l;
    Arena *table = arena_new();
    lines_new(&l, table, v, lines);
    v->values = ARENA_ARRAY(p->arena, const char *, lines);
    v->lens = ARENA_ARRAY(p->arena, int, lines);
    v->n = 0;
    take_lines(&l, text, size);
    arena_free(table);
    if (l.twice >= 0)
        diag_error(p->diag, v->span, NULL,
                   "vocabulary '%s': line %lld repeats the value '%.60s' of line %lld", v->path,
                   (long long)l.twice + 1, v->values[l.twice], (long long)l.first + 1);
    return l.twice < 0;
}

bool ir_vocab_load(IrProgram *p, IrVocab *v) {
    size_t size = 0;
    char *text = read_whole(p->arena, v->path, &size);
    if (!text) {
        diag_error(p->diag, v->span, "paths of vocabularies are relative to the working directory",
                   "can't read vocabulary '%s': %s", v->path, strerror(errno));
        return false;
    }
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) /* a byte-order mark is no value */
        text += 3, size -= 3;
    if (size > INT32_MAX) {
        diag_error(p->diag, v->span, NULL, "vocabulary '%s': expected at most 2 GB, found %zu bytes", v->path,
                   size);
        return false;
    }
    size = normalise(text, size);
    v->digest = XXH3_64bits(text, size);
    if (size == 0) {
        diag_error(p->diag, v->span, NULL, "vocabulary '%s': expected one value a line, found an empty file",
                   v->path);
        return false;
    }
    return split_lines(p, v, text, size);
}
