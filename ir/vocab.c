/* Vocabulary files: one value a line. Values stay where they stand in the file's text, each line's end
 * replaced by NUL, so half a million values cost one read, one scan, and one hash each. */
#include "ir/internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

static void split_lines(IrProgram *p, IrVocab *v, char *text, size_t size) {
    int64_t lines = 0;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n'; /* in vectors: faster than a search for each */
    v->values = ARENA_ARRAY(p->arena, const char *, lines);
    v->lens = ARENA_ARRAY(p->arena, int, lines);
    v->n = lines;
    char *s = text, *end = text + size;
    for (int64_t i = 0; i < lines; i++) {
        char *nl = memchr(s, '\n', (size_t)(end - s));
        *nl = 0;
        v->values[i] = s;
        v->lens[i] = (int)(nl - s);
        s = nl + 1;
    }
}

/* Open addressing over line numbers + 1, beside 32 bits of the hash so that only likely equals are compared.
 * The table is far larger than the cache: cells are asked for AHEAD lines before they are looked at. */
enum { AHEAD = 16 };
typedef struct {
    uint32_t tag, line;
} Cell;

static int64_t find_equal(const IrVocab *v, const Cell *table, size_t mask, uint64_t hash, int64_t line,
                          size_t *at) {
    size_t c = (size_t)hash & mask;
    for (; table[c].line; c = (c + 1) & mask) {
        int64_t other = table[c].line - 1;
        if (table[c].tag != (uint32_t)(hash >> 32) || v->lens[other] != v->lens[line]) continue;
        if (memcmp(v->values[other], v->values[line], (size_t)v->lens[line]) == 0) return other;
    }
    *at = c;
    return -1;
}

static bool no_duplicates(IrProgram *p, const IrVocab *v) {
    size_t cells = 64, at = 0;
    while (cells / 4 * 3 < (size_t)v->n) cells *= 2;
    Cell *table = calloc(cells, sizeof *table);
    uint64_t ring[AHEAD];
    if (!table) {
        diag_error(p->diag, v->span, NULL, "out of memory for vocabulary '%s'", v->path);
        return false;
    }
    bool unique = true;
    for (int64_t i = 0; unique && i < v->n + AHEAD; i++) {
        int64_t line = i - AHEAD;
        if (line >= 0) {
            uint64_t hash = ring[line % AHEAD];
            int64_t other = find_equal(v, table, cells - 1, hash, line, &at);
            if (other < 0)
                table[at] = (Cell){(uint32_t)(hash >> 32), (uint32_t)line + 1};
            else
                diag_error(p->diag, v->span, NULL,
                           "vocabulary '%s': line %lld repeats the value '%.60s' of line %lld", v->path,
                           (long long)line + 1, v->values[line], (long long)other + 1);
            unique = other < 0;
        }
        if (i >= v->n) continue;
        ring[i % AHEAD] = XXH3_64bits(v->values[i], (size_t)v->lens[i]);
        __builtin_prefetch(&table[ring[i % AHEAD] & (cells - 1)], 1);
    }
    free(table);
    return unique;
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
    split_lines(p, v, text, size);
    if (v->n == 0) {
        diag_error(p->diag, v->span, NULL, "vocabulary '%s': expected one value a line, found an empty file",
                   v->path);
        return false;
    }
    return no_duplicates(p, v);
}
