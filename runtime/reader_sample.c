/* Which rows are read, by a hash of their bytes: XXH3 as a fraction of 2^64 against the share wanted. Two
 * seeds, so that the negatives that stay are spread over both parts alike. */
#include "runtime/reader_internal.h"
#include <xxhash.h>

static bool below(const char *p, const char *end, uint64_t seed, double share) {
    if (end > p && end[-1] == '\n') end--;
    if (end > p && end[-1] == '\r') end--;
    return (double)(XXH3_64bits_withSeed(p, (size_t)(end - p), seed) >> 11) * 0x1p-53 < share;
}

bool rt_sample_held(const RtSampling *s, const char *p, const char *end) {
    return below(p, end, 1, s->hold_out);
}
bool rt_sample_stays(const RtSampling *s, const char *p, const char *end) {
    return below(p, end, 2, s->keep_negatives);
}

int rt_label_column(const RtModel *m) {
    int found = -1;
    for (int i = 0; i < m->n_columns; i++) {
        const RtColumn *c = &m->columns[i];
        if (c->kind != RT_LABEL || !c->used) continue;
        if (found >= 0) return -1;
        found = i;
    }
    bool unit = found >= 0 && !m->columns[found].is_list &&
                (m->columns[found].unit_label || m->columns[found].positive);
    return unit ? found : -1;
}
