/* How often each value of a column occurs, in bounded memory. The first RT_TALLY_EXACT distinct values are
 * counted exactly, as each is there from its first occurrence. Of values that come later, the frequent ones
 * are kept by the summary of Misra and Gries ("Finding repeated elements", Sci. Comput. Programming 2, 1982),
 * so that their counts are too small by at most a share of 1/RT_TALLY_REST of these occurrences; and
 * HyperLogLog counts how many there are.
 *
 * Beside the count, each value has sums by two halves of the rows and by label (parts), for rt_tally_auc. */
#ifndef CTRC_RUNTIME_TALLY_H
#define CTRC_RUNTIME_TALLY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/hll.h"

enum {
    RT_TALLY_EXACT = 100000,
    RT_TALLY_REST = 4096,
    RT_TALLY_TEXT = 44 /* bytes of a value that are kept */
};

/* 64 bits to 64 well mixed ones: the finalizer of MurmurHash3. */
static inline uint64_t rt_mixed(uint64_t key) {
    key = (key ^ key >> 33) * 0xff51afd7ed558ccdull;
    key = (key ^ key >> 33) * 0xc4ceb9fe1a85ec53ull;
    return key ^ key >> 33;
}

typedef struct {
    uint64_t key, n;
    uint32_t text;  /* place of its text */
    uint16_t bytes; /* of the text; the value's own, if these are less */
    bool cut;
} RtTallyValue;

/* Values by key: open addressing into a dense array. */
typedef struct {
    RtTallyValue *value;
    uint32_t n, cap, *slot; /* slot: number of the value + 1 */
    size_t slots;
    char *text;
    size_t text_bytes, text_cap;
} RtTallyMap;

typedef struct {
    RtTallyMap map, rest;
    int labels;
    /* of value i: rows in half 0, in half 1; then of each label: positive ones in half 0, in half 1.
     * Behind the last value's: those of rows without a value, of values that came too late. */
    uint64_t *part;
    size_t part_cap;
    uint64_t *none, *late; /* parts */
    RtHll *hll;            /* NULL while all values are in the map */
} RtTally;

void rt_tally_init(RtTally *t, int labels);
void rt_tally_free(RtTally *t);
/* The parts of the value, for rt_tally_row; they stay until the next call. text may be NULL. */
uint64_t *rt_tally_add(RtTally *t, uint64_t key, const char *text, size_t bytes);
/* Fetches what rt_tally_add will look at for the key, whose turn comes after a few others; near: it comes
 * soon. */
static inline void rt_tally_expect(const RtTally *t, uint64_t key, bool near) {
    const RtTallyMap *m = &t->map;
    if (!m->slots) return;
    const uint32_t *slot = &m->slot[rt_mixed(key) & (m->slots - 1)];
    if (!near)
        __builtin_prefetch(slot);
    else if (*slot)
        __builtin_prefetch(&m->value[*slot - 1]);
}
static inline void rt_tally_row(uint64_t *part, int half, int labels, uint32_t positive) {
    part[half]++;
    for (int l = 0; l < labels; l++) part[2 + 2 * l + half] += positive >> l & 1;
}
bool rt_tally_exact(const RtTally *t);
double rt_tally_distinct(const RtTally *t);
/* Up to `most` values by falling counts (then by rising key); what was counted after the map was full may be
 * too small. */
int rt_tally_top(const RtTally *t, RtTallyValue *out, int most);
const char *rt_tally_text(const RtTally *t, const RtTallyValue *v);
/* What the column alone says about label l: AUC on one half of the rows of each value's share of positives on
 * the other half (a value that isn't there has the share of all rows), averaged over both ways. NaN if a half
 * has not both labels. It overrates no rare value, since none is judged by the rows that it was learnt from.
 */
double rt_tally_auc(const RtTally *t, int label);

/* Rows that are judged alike. */
typedef struct {
    double score, positive, negative;
} RtScored;
/* AUC of n groups, which are sorted by score. */
double rt_auc_of_groups(RtScored *s, size_t n);

#endif
