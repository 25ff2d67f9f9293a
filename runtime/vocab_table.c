/* A vocabulary as a hash table, made at start from the values baked into the program. Open addressing, at
 * most half full; an entry keeps 32 bits of the hash, so a text is compared only where it is almost surely
 * the same. */
#include "runtime/reader_internal.h"
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint32_t tag, index;
} Entry; /* index RT_NO_ID: free */
struct RtVocabTable {
    const char *text;
    uint64_t *at; /* [n + 1] where each value begins; it ends one byte, a '\n', before the next */
    Entry *entry;
    uint64_t mask;
};

static const Entry *find(const RtVocabTable *t, const char *p, size_t bytes, uint64_t hash) {
    for (uint64_t k = hash & t->mask;; k = (k + 1) & t->mask) {
        const Entry *e = &t->entry[k];
        if (e->index == RT_NO_ID) return e;
        if (e->tag != (uint32_t)(hash >> 32)) continue;
        uint64_t at = t->at[e->index], len = t->at[e->index + 1] - 1 - at;
        if (len == bytes && !memcmp(t->text + at, p, bytes)) return e;
    }
}

RtVocabTable *rt_vocab_table_new(const RtVocab *v) {
    RtVocabTable *t = rt_reader_alloc(1, sizeof *t);
    uint64_t n = 0, slots = 16;
    t->text = v->text;
    t->at = rt_reader_alloc((size_t)v->n + 1, sizeof *t->at);
    for (uint64_t begin = 0; begin < v->bytes && n < (uint64_t)v->n; n++) {
        const char *end = memchr(v->text + begin, '\n', v->bytes - begin);
        t->at[n] = begin;
        begin = end ? (uint64_t)(end - v->text) + 1 : v->bytes + 1;
        t->at[n + 1] = begin;
    }
    while (slots < n * 2) slots *= 2;
    t->mask = slots - 1;
    t->entry = rt_reader_alloc(slots, sizeof *t->entry);
    for (uint64_t k = 0; k < slots; k++) t->entry[k].index = RT_NO_ID;
    for (uint64_t i = 0; i < n; i++) {
        const char *p = v->text + t->at[i];
        size_t bytes = t->at[i + 1] - 1 - t->at[i];
        uint64_t hash = XXH3_64bits(p, bytes);
        Entry *e = (Entry *)find(t, p, bytes, hash);
        if (e->index == RT_NO_ID)
            *e = (Entry){(uint32_t)(hash >> 32), (uint32_t)i}; /* of equal values the first counts */
    }
    return t;
}

void rt_vocab_table_free(RtVocabTable *t) {
    if (!t) return;
    free(t->at);
    free(t->entry);
    free(t);
}

uint32_t rt_vocab_find(const RtVocabTable *t, const char *p, size_t bytes) {
    return find(t, p, bytes, XXH3_64bits(p, bytes))->index;
}
