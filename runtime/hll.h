/* How many distinct hashes there are, from 16 KiB: HyperLogLog (Flajolet, Fusy, Gandouet, Meunier,
 * "HyperLogLog: the analysis of a near-optimal cardinality estimation algorithm", AofA 2007), with the
 * estimator of Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", arXiv:1702.01284,
 * algorithm 6, which needs no tables of biases. Standard error 0.81 %, at any number. What it says depends on
 * the set of hashes alone. */
#ifndef CTRC_RUNTIME_HLL_H
#define CTRC_RUNTIME_HLL_H
#include <stdint.h>

enum { RT_HLL_BITS = 14 };
typedef struct {
    uint8_t rank[1 << RT_HLL_BITS];
} RtHll;

/* hash: 64 well mixed bits. */
static inline void rt_hll_add(RtHll *h, uint64_t hash) {
    uint64_t rest = hash << RT_HLL_BITS | 1ull << (RT_HLL_BITS - 1); /* the stop bit: at most 51 zeros */
    uint8_t rank = (uint8_t)(__builtin_clzll(rest) + 1), *at = &h->rank[hash >> (64 - RT_HLL_BITS)];
    if (rank > *at) *at = rank;
}
double rt_hll_count(const RtHll *h);

#endif
