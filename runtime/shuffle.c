/* The order of rows in a run: a permutation by (seed, epoch, run) alone, so a cached epoch and one read from
 * text agree, and a run's order doesn't depend on how it was cut into blocks. */
#include "runtime/reader_internal.h"

static uint64_t mix64(uint64_t x) { /* SplitMix64 (Steele, Lea, Flood 2014) */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void rt_shuffle_run(RtRef *ref, uint64_t n, uint64_t seed, uint64_t epoch, uint64_t run) {
    uint64_t state = mix64(run + mix64(epoch + mix64(seed)));
    for (uint64_t i = n; i > 1; i--) {
        state = mix64(state);
        uint64_t k = (uint64_t)(((unsigned __int128)state * i) >> 64); /* 0…i-1; the bias is below i / 2^64 */
        RtRef t = ref[i - 1];
        ref[i - 1] = ref[k];
        ref[k] = t;
    }
}
