/* Open addressing, at most two thirds full. A cell of 32 bits holds a value's index + 1 and, in the bits that
 * indices leave, some of its hash, so that a text is compared only where it is almost surely the same: half a
 * million values need 4 MB, most of which stays in the last level of the cache. */
#include "runtime/vocab_table.h"
#include "runtime/reader_internal.h"
#include <emmintrin.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Of few short values, a table by the texts themselves: they are compared in two words, without a branch on
 * how long they are. */
enum { SHORT = 16, FEW_VALUES = 256 };
typedef struct {
    uint64_t low, high; /* the text, zeros behind it */
    uint32_t bytes;     /* and its length, for texts that end in zeros; UINT32_MAX: free */
    uint32_t index;
} ShortCell;

struct RtVocabTable {
    ShortCell *short_cell; /* [1 << (64 - short_shift)]; NULL: values are many, or one is long */
    uint32_t short_shift;
    const char *text;
    uint32_t *at;         /* [n + 1] where each value begins; it ends one byte, a '\n', before the next */
    uint32_t *cell;       /* [mask + 1] 0: free */
    uint64_t mask, words; /* words: of both arrays, which are one mapping */
    uint32_t index_bits;  /* those of a cell that hold the index + 1 */
};

static inline uint64_t hash_of(const char *p, size_t bytes) { return XXH3_64bits(p, bytes); }

/* The cell of the value, or the free one that ends the search for it. */
static inline uint32_t *find(const RtVocabTable *t, const char *p, size_t bytes, uint64_t hash) {
    uint32_t tag = (uint32_t)(hash >> 32) & ~t->index_bits;
    for (uint64_t k = hash & t->mask;; k = (k + 1) & t->mask) {
        uint32_t c = t->cell[k];
        if (!c) return &t->cell[k];
        if ((c & ~t->index_bits) != tag) continue;
        uint32_t i = (c & t->index_bits) - 1, at = t->at[i];
        if (t->at[i + 1] - 1 - at == bytes && !memcmp(t->text + at, p, bytes)) return &t->cell[k];
    }
}

/* The table is larger than the near caches: a cell is asked for AHEAD values before it is looked at. */
enum { AHEAD = 16 };
typedef struct {
    RtVocabTable *t;
    uint64_t n, most; /* values hashed; not more are wanted */
    uint64_t hash[AHEAD];
} Filling;

static inline void insert(const Filling *f, uint64_t i) {
    const RtVocabTable *t = f->t;
    uint64_t hash = f->hash[i % AHEAD];
    uint32_t *c = find(t, t->text + t->at[i], t->at[i + 1] - 1 - t->at[i], hash);
    if (!*c) *c = ((uint32_t)(hash >> 32) & ~t->index_bits) | (uint32_t)(i + 1);
}

/* The value that ends before byte `end`. */
static inline void add(Filling *f, uint64_t end) {
    RtVocabTable *t = f->t;
    uint64_t i = f->n++, begin = t->at[i];
    t->at[i + 1] = (uint32_t)(end + 1);
    if (i >= AHEAD) insert(f, i - AHEAD);
    f->hash[i % AHEAD] = hash_of(t->text + begin, end - begin);
    __builtin_prefetch(&t->cell[f->hash[i % AHEAD] & t->mask], 1);
}

/* Newlines 64 bytes at a time: a call of memchr for each would cost more than its value's hash. */
static void fill(Filling *f, uint64_t bytes) {
    const char *text = f->t->text;
    const __m128i nl = _mm_set1_epi8('\n');
    uint64_t at = 0;
    for (; at + 64 <= bytes; at += 64) {
        uint64_t bits = 0;
        for (int part = 0; part < 4; part++) {
            __m128i x = _mm_loadu_si128((const __m128i *)(text + at + 16 * part));
            bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(x, nl)) << (16 * part);
        }
        for (; bits && f->n < f->most; bits &= bits - 1) add(f, at + (uint64_t)__builtin_ctzll(bits));
    }
    for (; at < bytes && f->n < f->most; at++)
        if (text[at] == '\n') add(f, at);
    for (uint64_t i = f->n > AHEAD ? f->n - AHEAD : 0; i < f->n; i++) insert(f, i);
}

/* Zeroed memory for `words`; of large tables in huge pages, for of small ones each costs a fault, which
 * together took longer than filling the table. */
static uint32_t *map_words(uint64_t *words) {
    const uint64_t huge = (2 << 20) / sizeof(uint32_t);
    bool large = *words >= huge / 2;
    if (large) *words = (*words + huge - 1) & ~(huge - 1); /* whole huge pages begin at the border of one */
    uint32_t *p = mmap(NULL, *words * sizeof *p, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) rt_reader_out_of_memory(*words, sizeof *p);
    if (large) madvise(p, *words * sizeof *p, MADV_HUGEPAGE);
    return p;
}

/* The text's cell, or the free one that ends the search for it. */
static inline ShortCell *find_short(const RtVocabTable *t, uint64_t low, uint64_t high, uint32_t bytes) {
    uint64_t k = (low * 0x9e3779b97f4a7c15u ^ (high + bytes) * 0xc2b2ae3d27d4eb4fu) * 0x9e3779b97f4a7c15u >>
                 t->short_shift;
    for (;; k = (k + 1) & (UINT64_MAX >> t->short_shift)) {
        ShortCell *c = &t->short_cell[k];
        if (c->bytes == UINT32_MAX || (c->low == low && c->high == high && c->bytes == bytes)) return c;
    }
}

static void fill_short(RtVocabTable *t, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        if (t->at[i + 1] - 1 - t->at[i] > SHORT) return;
    if (n > FEW_VALUES) return;
    int bits = 6;
    while (1u << bits < 4 * n) bits++;
    t->short_shift = 64 - (uint32_t)bits;
    t->short_cell = rt_reader_alloc((size_t)1 << bits, sizeof *t->short_cell);
    for (size_t k = 0; k < (size_t)1 << bits; k++) t->short_cell[k].bytes = UINT32_MAX;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t word[2] = {0, 0};
        uint32_t bytes = t->at[i + 1] - 1 - t->at[i];
        memcpy(word, t->text + t->at[i], bytes);
        ShortCell *c = find_short(t, word[0], word[1], bytes);
        if (c->bytes == UINT32_MAX) *c = (ShortCell){word[0], word[1], bytes, (uint32_t)i};
    }
}

RtVocabTable *rt_vocab_table_new(const char *text, uint64_t bytes, uint64_t n) {
    RtVocabTable *t = rt_reader_alloc(1, sizeof *t);
    uint64_t slots = 16;
    while (slots * 2 < n * 3) slots *= 2;
    t->words = slots + n + 1;
    t->text = text;
    t->cell = map_words(&t->words);
    t->at = t->cell + slots;
    t->mask = slots - 1;
    t->index_bits = n ? UINT32_MAX >> __builtin_clz((uint32_t)n) : 0;
    Filling f = {.t = t, .most = n};
    fill(&f, bytes);
    fill_short(t, f.n);
    return t;
}

void rt_vocab_table_free(RtVocabTable *t) {
    if (!t) return;
    free(t->short_cell);
    munmap(t->cell, t->words * sizeof *t->cell);
    free(t);
}

uint32_t rt_vocab_find(const RtVocabTable *t, const char *p, size_t bytes) {
    uint32_t c = *find(t, p, bytes, hash_of(p, bytes));
    return c ? (c & t->index_bits) - 1 : RT_NO_ID;
}

uint32_t rt_vocab_find_near(const RtVocabTable *t, const char *p, size_t bytes) {
    static const char ones[2 * SHORT] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    if (!t->short_cell) return rt_vocab_find(t, p, bytes);
    if (bytes > SHORT) return RT_NO_ID;
    uint64_t word[2], mask[2];
    memcpy(word, p, sizeof word);
    memcpy(mask, ones + SHORT - bytes, sizeof mask);
    ShortCell *c = find_short(t, word[0] & mask[0], word[1] & mask[1], (uint32_t)bytes);
    return c->bytes == UINT32_MAX ? RT_NO_ID : c->index;
}
