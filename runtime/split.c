/* Where records and fields end. Fields are found through an index of structural bytes made with vector
 * compares, a window at a time so that it stays in the cache; records, where only they are wanted, by memchr.
 */
#include "runtime/reader_internal.h"
#include <emmintrin.h>
#include <immintrin.h>
#include <string.h>

/* ---- index ---- */

/* Writes base + the place of each set bit; may write up to 8 places too many. */
static inline uint32_t *put_bits(uint32_t *out, uint64_t bits, uint32_t base) {
    if (!bits) return out;
    uint32_t *end = out + __builtin_popcountll(bits);
    do { /* in groups of 8: one branch for most words instead of one for each bit */
        for (int k = 0; k < 8; k++) {
            out[k] = base + (uint32_t)__builtin_ctzll(bits | 1ull << 63);
            bits &= bits - 1;
        }
        out += 8;
    } while (out < end);
    return end;
}

__attribute__((target("avx2,bmi,popcnt"))) static uint32_t *scan_avx2(const RtIndex *x, uint32_t from,
                                                                      uint32_t to, uint32_t *out) {
    __m256i want[RT_STRUCTURAL];
    for (int k = 0; k < x->n_set; k++) want[k] = _mm256_set1_epi8((char)x->set[k]);
    for (uint32_t at = from; at < to; at += 64) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(x->base + at)),
                b = _mm256_loadu_si256((const __m256i *)(x->base + at + 32));
        __m256i ma = _mm256_cmpeq_epi8(a, want[0]), mb = _mm256_cmpeq_epi8(b, want[0]);
        for (int k = 1; k < x->n_set; k++) {
            ma = _mm256_or_si256(ma, _mm256_cmpeq_epi8(a, want[k]));
            mb = _mm256_or_si256(mb, _mm256_cmpeq_epi8(b, want[k]));
        }
        uint64_t bits = (uint32_t)_mm256_movemask_epi8(ma) | (uint64_t)(uint32_t)_mm256_movemask_epi8(mb)
                                                                 << 32;
        if (to - at < 64) bits &= (1ull << (to - at)) - 1;
        out = put_bits(out, bits, at);
    }
    return out;
}

static uint32_t *scan_sse2(const RtIndex *x, uint32_t from, uint32_t to, uint32_t *out) {
    for (uint32_t at = from; at < to; at += 64) {
        uint64_t bits = 0;
        for (int part = 0; part < 4; part++) {
            __m128i a = _mm_loadu_si128((const __m128i *)(x->base + at + 16 * part)), m = _mm_setzero_si128();
            for (int k = 0; k < x->n_set; k++)
                m = _mm_or_si128(m, _mm_cmpeq_epi8(a, _mm_set1_epi8((char)x->set[k])));
            bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(m) << (16 * part);
        }
        if (to - at < 64) bits &= (1ull << (to - at)) - 1;
        out = put_bits(out, bits, at);
    }
    return out;
}

static uint32_t *scan(const RtIndex *x, uint32_t from, uint32_t to, uint32_t *out) {
    static int avx2 = -1; /* racing threads would write the same */
    int have = __atomic_load_n(&avx2, __ATOMIC_RELAXED);
    if (have < 0) {
        have = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
               __builtin_cpu_supports("popcnt");
        __atomic_store_n(&avx2, have, __ATOMIC_RELAXED);
    }
    return have ? scan_avx2(x, from, to, out) : scan_sse2(x, from, to, out);
}

void rt_index_start(RtIndex *x, const char *base, uint32_t bytes) {
    x->base = base;
    x->bytes = bytes;
    x->scanned = x->n = x->i = 0;
}

void rt_index_refill(RtIndex *x) {
    uint32_t left = x->bytes - x->scanned, to = x->scanned + (left < RT_WINDOW ? left : RT_WINDOW);
    x->n = (uint32_t)(scan(x, x->scanned, to, x->place) - x->place);
    x->i = 0;
    x->scanned = to;
}

void rt_index_seek(RtIndex *x, uint32_t place) {
    if (place >= x->scanned) {
        x->scanned = place;
        x->n = x->i = 0;
    }
    while (x->i < x->n && x->place[x->i] < place) x->i++;
}

/* ---- records ---- */

const char *rt_closing_quote(const char *p, const char *end, char quote) {
    for (;;) {
        const char *q = p < end ? memchr(p, quote, (size_t)(end - p)) : NULL;
        if (!q || q + 1 >= end) return q;
        if (q[1] != quote) return q;
        p = q + 2;
    }
}

/* The first quote in p..end that opens a field: a field's first byte. */
static const char *opening_quote(const RtSyntax *s, const char *p, const char *end, bool at_field) {
    const char *from = p;
    for (;;) {
        const char *q = p < end ? memchr(p, s->quote, (size_t)(end - p)) : NULL;
        if (!q) return NULL;
        if (q == from ? at_field : q[-1] == s->separator) return q;
        p = q + 1;
    }
}

const char *rt_record_end(const RtSyntax *s, const char *p, const char *end) {
    bool at_field = true; /* p is the first byte of a field */
    for (;;) {
        const char *line = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
        const char *open = s->quote ? opening_quote(s, p, line ? line : end, at_field) : NULL;
        if (!open) return line ? line + 1 : NULL;
        const char *close = rt_closing_quote(open + 1, end, s->quote);
        if (!close) return NULL;
        p = close + 1;
        at_field = false;
    }
}

bool rt_is_blank(const RtSyntax *s, const char *p, const char *end) {
    if (end > p && end[-1] == '\n') end--;
    if (end > p && end[-1] == '\r') end--;
    if (s->format >= RT_LIBSVM || (s->trim && s->separator != ' '))
        while (p < end && *p == ' ') p++;
    return p == end || (s->format >= RT_LIBSVM && *p == '#'); /* a line that is all comment */
}

uint64_t rt_count_lines(const char *p, size_t bytes) {
    uint64_t n = 0;
    size_t i = 0;
    const __m128i nl = _mm_set1_epi8('\n'), zero = _mm_setzero_si128();
    while (bytes - i >= 16) { /* counters of 8 bits: added up before they can overflow */
        size_t blocks = (bytes - i) / 16;
        if (blocks > 255) blocks = 255;
        __m128i sum = zero;
        for (size_t k = 0; k < blocks; k++, i += 16)
            sum = _mm_sub_epi8(sum, _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(p + i)), nl));
        __m128i wide = _mm_sad_epu8(sum, zero);
        n += (uint64_t)_mm_cvtsi128_si64(wide) + (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(wide, wide));
    }
    for (; i < bytes; i++) n += p[i] == '\n';
    return n;
}
