/* Vocabulary files: one value a line. Values stay where they stand in the file's text, each line's end
 * replaced by NUL, so half a million values cost one read, one scan, and one hash each. */
#include "ir/internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
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

/* Whole file into the arena, with one byte to spare. NULL after an error. */
static char *read_whole(IrProgram *p, const IrVocab *v, size_t *size) {
    FILE *f = fopen(v->path, "rb");
    if (!f) {
        diag_error(p->diag, v->span, "paths of vocabularies are relative to the working directory",
                   "can't read vocabulary '%s': %s", v->path, strerror(errno));
        return NULL;
    }
    char *text = NULL;
    long end = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    if (end >= 0 && fseek(f, 0, SEEK_SET) == 0) {
        text = arena_alloc(p->arena, (size_t)end + 1);
        *size = fread(text, 1, (size_t)end, f);
        if (*size != (size_t)end || ferror(f)) text = NULL;
    }
    if (!text)
        diag_error(p->diag, v->span, NULL, "can't read vocabulary '%s': %s", v->path,
                   errno ? strerror(errno) : "it is no file");
    fclose(f);
    return text;
}

static void split_lines(IrProgram *p, IrVocab *v, char *text, size_t size) {
    int64_t lines = 0;
    for (const char *s = text; (s = memchr(s, '\n', (size_t)(text + size - s))); s++) lines++;
    if (size && text[size - 1] != '\n') lines++;
    v->values = ARENA_ARRAY(p->arena, const char *, lines);
    v->lens = ARENA_ARRAY(p->arena, int, lines);
    v->n = lines;
    char *s = text, *end = text + size;
    for (int64_t i = 0; i < lines; i++) {
        char *nl = memchr(s, '\n', (size_t)(end - s)), *stop = nl ? nl : end;
        char *next = stop + 1;
        if (stop > s && stop[-1] == '\r') stop--;
        *stop = 0;
        v->values[i] = s;
        v->lens[i] = (int)(stop - s);
        s = next;
    }
}

/* Open addressing over line numbers + 1, kept beside 32 bits of the hash so that few comparisons touch text.
 */
static bool no_duplicates(IrProgram *p, const IrVocab *v) {
    typedef struct {
        uint32_t tag, line;
    } Cell;
    size_t cells = 16;
    while (cells < (size_t)v->n * 2) cells *= 2;
    Cell *table = calloc(cells, sizeof *table);
    bool unique = table != NULL;
    if (!table)
        diag_error(p->diag, v->span, NULL, "out of memory for vocabulary '%s'", v->path ? v->path : "");
    for (int64_t i = 0; unique && i < v->n; i++) {
        uint64_t hash = XXH3_64bits(v->values[i], (size_t)v->lens[i]);
        uint32_t tag = (uint32_t)(hash >> 32);
        size_t c = (size_t)hash & (cells - 1);
        for (; table[c].line; c = (c + 1) & (cells - 1)) {
            int64_t other = table[c].line - 1;
            if (table[c].tag != tag || v->lens[other] != v->lens[i]) continue;
            if (memcmp(v->values[other], v->values[i], (size_t)v->lens[i]) != 0) continue;
            diag_error(p->diag, v->span, NULL,
                       "vocabulary '%s': line %lld repeats the value '%.60s' of line %lld", v->path,
                       (long long)i + 1, v->values[i], (long long)other + 1);
            unique = false;
            break;
        }
        table[c] = (Cell){tag, (uint32_t)i + 1};
    }
    free(table);
    return unique;
}

bool ir_vocab_load(IrProgram *p, IrVocab *v) {
    size_t size = 0;
    errno = 0;
    char *text = read_whole(p, v, &size);
    if (!text) return false;
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3, size -= 3; /* a byte-order mark is no value */
    if (size > INT32_MAX) {
        diag_error(p->diag, v->span, NULL, "vocabulary '%s': expected at most 2 GB, found %zu bytes", v->path,
                   size);
        return false;
    }
    split_lines(p, v, text, size);
    if (v->n == 0) {
        diag_error(p->diag, v->span, NULL, "vocabulary '%s': expected one value a line, found an empty file",
                   v->path);
        return false;
    }
    if (!no_duplicates(p, v)) return false;
    v->digest = ir_vocab_digest(v);
    return true;
}
