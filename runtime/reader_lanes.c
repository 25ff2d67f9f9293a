#include "runtime/reader_lanes.h"
#include "runtime/reader_number.h"
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { LANES = 4, SLACK = 16 /* behind the last: groups of lanes are always whole */ };

void rt_spans_init(RtSpans *s, const RtPlan *p, const RtGrid *grid) {
    s->grid = grid;
    s->span = rt_reader_alloc((size_t)p->m->n_columns, sizeof *s->span);
    s->offset = rt_reader_alloc((size_t)p->m->n_features + 1, sizeof *s->offset);
}

/* What they hold is lost. */
static void more_lanes(RtSpans *s, size_t lanes) {
    s->cap = 2 * lanes;
    free(s->at);
    free(s->bytes);
    free(s->word);
    free(s->divisor);
    free(s->reciprocal);
    s->at = rt_reader_alloc(s->cap, sizeof *s->at);
    s->bytes = rt_reader_alloc(s->cap, sizeof *s->bytes);
    s->word = rt_reader_alloc(s->cap, sizeof *s->word);
    s->divisor = rt_reader_alloc(s->cap, sizeof *s->divisor);
    s->reciprocal = rt_reader_alloc(s->cap, sizeof *s->reciprocal);
}

void rt_spans_free(RtSpans *s) {
    free(s->span);
    free(s->offset);
    free(s->at);
    free(s->bytes);
    free(s->word);
    free(s->divisor);
    free(s->reciprocal);
}

RT_V3 static inline __m256i load(const uint64_t *p) { return _mm256_loadu_si256((const __m256i *)p); }

/* ---- hashes: the bits of XXH3_64bits, whose form is fixed since xxHash 0.8, with its own secret, seed 0
 * ---- */

/* Pieces of the secret, one xor another. */
static const uint64_t FLIP_3 = 0x87275a9bu, FLIP_8 = 0xc73ab174c5ecd5a2u, FLIP_LOW = 0x6782737bea4239b9u,
                      FLIP_HIGH = 0xaf56bc3b0996523au;

#define SET(x) _mm256_set1_epi64x((long long)(x))
#define SWAPPED(x) ((x) << 32 | (x) >> 32)

/* The low 64 bits of x * by; swapped: by's halves. */
RT_V3 static inline __m256i times(__m256i x, __m256i by, __m256i swapped) {
    __m256i crossed = _mm256_mullo_epi32(x, swapped);
    crossed = _mm256_slli_epi64(_mm256_add_epi32(crossed, _mm256_srli_epi64(crossed, 32)), 32);
    return _mm256_add_epi64(_mm256_mul_epu32(x, by), crossed);
}

/* What a text of one to three bytes begins with. */
RT_V3 static inline __m256i begin_3(__m256i word, __m256i bytes) {
    __m256i half = _mm256_slli_epi64(_mm256_srli_epi64(bytes, 1), 3),
            last = _mm256_slli_epi64(_mm256_sub_epi64(bytes, SET(1)), 3);
    __m256i a = _mm256_and_si256(word, SET(0xff)),
            b = _mm256_and_si256(_mm256_srlv_epi64(word, half), SET(0xff)),
            c = _mm256_and_si256(_mm256_srlv_epi64(word, last), SET(0xff));
    __m256i x = _mm256_or_si256(_mm256_or_si256(_mm256_slli_epi64(a, 16), _mm256_slli_epi64(b, 24)),
                                _mm256_or_si256(c, _mm256_slli_epi64(bytes, 8)));
    x = _mm256_xor_si256(x, SET(FLIP_3));
    return _mm256_xor_si256(x, _mm256_srli_epi64(x, 33));
}

/* Of four to eight. */
RT_V3 static inline __m256i begin_8(__m256i word, __m256i bytes) {
#define ROTATED(x, by) _mm256_or_si256(_mm256_slli_epi64(x, by), _mm256_srli_epi64(x, 64 - (by)))
    __m256i last = _mm256_srlv_epi64(word, _mm256_slli_epi64(_mm256_sub_epi64(bytes, SET(4)), 3));
    __m256i x = _mm256_or_si256(_mm256_and_si256(last, SET(0xffffffff)), _mm256_slli_epi64(word, 32));
    x = _mm256_xor_si256(x, SET(FLIP_8));
    return _mm256_xor_si256(x, _mm256_xor_si256(ROTATED(x, 49), ROTATED(x, 24)));
}

/* Four hashes of texts of up to eight bytes. Short and longer ones go the same way with other constants:
 * two multiplications, with a shift between and behind. */
RT_V3 static inline __m256i four_hashes(__m256i word, __m256i bytes) {
    const uint64_t a = 0xc2b2ae3d27d4eb4fu, b = 0x165667b19e3779f9u, c = 0x9fb21c651e98df25u;
    __m256i is_8 = _mm256_cmpgt_epi64(bytes, SET(3));
#define BY(three, eight) _mm256_xor_si256(SET(three), _mm256_and_si256(is_8, SET((three) ^ (eight))))
    __m256i x = _mm256_blendv_epi8(begin_3(word, bytes), begin_8(word, bytes), is_8);
    x = times(x, BY(a, c), BY(SWAPPED(a), SWAPPED(c)));
    x = _mm256_xor_si256(x,
                         _mm256_add_epi64(_mm256_srlv_epi64(x, BY(29u, 35u)), _mm256_and_si256(bytes, is_8)));
    x = times(x, BY(b, c), BY(SWAPPED(b), SWAPPED(c)));
    return _mm256_xor_si256(x, _mm256_srlv_epi64(x, BY(32u, 28u)));
}

/* 9 to 16 bytes. */
static inline uint64_t hash_16(const char *p, uint64_t n) {
    uint64_t low = rt_load64(p) ^ FLIP_LOW, high = rt_load64(p + n - 8) ^ FLIP_HIGH;
    unsigned __int128 product = (unsigned __int128)low * high;
    uint64_t x = n + __builtin_bswap64(low) + high + ((uint64_t)product ^ (uint64_t)(product >> 64));
    x = (x ^ x >> 37) * 0x165667919e3779f9u;
    return x ^ x >> 32;
}

__attribute__((noinline)) static uint64_t hash_more(const char *p, uint64_t n) { return XXH3_64bits(p, n); }

/* rt_mod, with divisors of up to 2^31. */
RT_V3 static inline __m128i four_mods(__m256i x, __m256i divisor, __m256i reciprocal) {
    const __m256i low = _mm256_set1_epi64x(0xffffffff), evens = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    __m256i high = _mm256_srli_epi64(x, 32), rhigh = _mm256_srli_epi64(reciprocal, 32);
    __m256i a = _mm256_add_epi64(_mm256_mul_epu32(high, reciprocal),
                                 _mm256_srli_epi64(_mm256_mul_epu32(x, reciprocal), 32));
    __m256i b = _mm256_add_epi64(_mm256_mul_epu32(x, rhigh), _mm256_and_si256(a, low));
    __m256i q = _mm256_add_epi64(_mm256_mul_epu32(high, rhigh),
                                 _mm256_add_epi64(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32)));
    /* the remainder is below 2^32: its low half is all that counts, and one divisor less wraps if that is too
     * much */
    __m256i r = _mm256_sub_epi32(x, _mm256_mullo_epi32(q, divisor));
    r = _mm256_min_epu32(r, _mm256_sub_epi32(r, divisor));
    return _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(r, evens));
}

RT_V3 static inline int longer_than_8(__m256i bytes) {
    return _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(bytes, SET(8))));
}

/* Longer texts, one by one. */
static inline void put_right(const RtSpans *s, uint32_t i, int lanes, const RtMod *mod, uint32_t *out) {
    for (; lanes; lanes &= lanes - 1) {
        uint32_t k = i + (uint32_t)__builtin_ctz((unsigned)lanes);
        uint64_t n = s->bytes[k], hash = n <= 16 ? hash_16(s->at[k], n) : hash_more(s->at[k], n);
        out[k] = rt_mod(hash, mod ? *mod : (RtMod){(uint32_t)s->divisor[k], s->reciprocal[k]});
    }
}

/* Eight values from lane i on, or four: eight at once have less to wait for. */
RT_V3 static inline void put_hashes(const RtSpans *s, uint32_t i, const RtMod *mod, bool eight,
                                    uint32_t *out) {
    __m256i divisor, reciprocal, bytes = load(s->bytes + i), hash = four_hashes(load(s->word + i), bytes),
                                 hash2;
    int more = longer_than_8(bytes);
    if (eight) {
        __m256i bytes2 = load(s->bytes + i + LANES);
        hash2 = four_hashes(load(s->word + i + LANES), bytes2);
        more |= longer_than_8(bytes2) << LANES;
    }
    divisor = mod ? SET(mod->divisor) : load(s->divisor + i);
    reciprocal = mod ? SET(mod->reciprocal) : load(s->reciprocal + i);
    _mm_storeu_si128((__m128i *)(out + i), four_mods(hash, divisor, reciprocal));
    if (eight) {
        if (!mod) divisor = load(s->divisor + i + LANES), reciprocal = load(s->reciprocal + i + LANES);
        _mm_storeu_si128((__m128i *)(out + i + LANES), four_mods(hash2, divisor, reciprocal));
    }
    if (more) put_right(s, i, more, mod, out);
}

RT_V3 static void run_hashes(const RtSpans *s, uint32_t n, const RtMod *mod, uint32_t *out) {
    uint32_t i = 0;
    for (; i + LANES < n; i += 2 * LANES) put_hashes(s, i, mod, true, out);
    if (i < n) put_hashes(s, i, mod, false, out);
}

/* ---- floats: [-]digits with at most one point, up to eight characters; others one by one ---- */

/* Digits as values, the first lowest in a lane, to numbers of eight digits in each lane's low half. */
RT_V3 static inline __m128i eight_digits(__m256i x) {
    const __m256i tens = _mm256_set1_epi16(10 | 1 << 8), hundreds = _mm256_set1_epi32(100 | 1 << 16);
    __m256i fours = _mm256_madd_epi16(_mm256_maddubs_epi16(x, tens), hundreds);
    __m256i packed = _mm256_packus_epi32(fours, fours);
    __m256i whole = _mm256_madd_epi16(packed, _mm256_set1_epi32(10000 | 1 << 16)); /* lanes 0 1 0 1 2 3 2 3 */
    return _mm_unpacklo_epi64(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
}

/* Four floats; gives the lanes that must be done otherwise. Digits and power of ten are exact doubles, so
 * their quotient is the nearest double, and its nearest float the right one: see rt_short_float. */
RT_V3 static inline int four_floats(__m256i word, __m256i bytes, float *out) {
    const __m256i zero = _mm256_setzero_si256(), byte = _mm256_set1_epi64x(0xff),
                  eight = _mm256_set1_epi64x(8), evens = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    const __m256 powers = _mm256_setr_ps(1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f, 1e6f, 1e7f);
    __m256i minus = _mm256_cmpeq_epi64(_mm256_and_si256(word, byte), _mm256_set1_epi64x('-'));
    bytes = _mm256_add_epi64(bytes, minus);
    word = _mm256_xor_si256(_mm256_srlv_epi64(word, _mm256_and_si256(minus, eight)), _mm256_set1_epi8('0'));
    __m256i x =
        _mm256_sllv_epi64(word, _mm256_sub_epi64(_mm256_set1_epi64x(64), _mm256_slli_epi64(bytes, 3)));
    /* the last character is in the highest byte; the point goes, and those before it move up by one */
    __m256i point = _mm256_cmpeq_epi8(x, _mm256_set1_epi8('.' ^ '0')),
            no_point = _mm256_cmpeq_epi64(point, zero);
    __m256i before = _mm256_andnot_si256(point, _mm256_add_epi64(point, _mm256_set1_epi64x(-1)));
    __m256i behind = _mm256_andnot_si256(_mm256_or_si256(_mm256_slli_epi64(before, 8), byte), x);
    x = _mm256_sllv_epi64(_mm256_and_si256(x, before), _mm256_andnot_si256(no_point, eight));
    x = _mm256_or_si256(x, behind);
    __m256i n = _mm256_sub_epi64(bytes, _mm256_andnot_si256(no_point, _mm256_set1_epi64x(1)));
    __m256i ok = _mm256_cmpeq_epi64(_mm256_subs_epu8(x, _mm256_set1_epi8(9)), zero);
    ok = _mm256_and_si256(ok,
                          _mm256_andnot_si256(_mm256_cmpgt_epi64(bytes, eight), _mm256_cmpgt_epi64(n, zero)));
    /* how many digits stand behind the point: seven less those before it */
    __m256i places = _mm256_sad_epu8(_mm256_and_si256(before, _mm256_set1_epi8(1)), zero);
    places = _mm256_andnot_si256(no_point, _mm256_sub_epi64(_mm256_set1_epi64x(7), places));
    __m256 power = _mm256_permutevar8x32_ps(powers, _mm256_permutevar8x32_epi32(places, evens));
    __m256d d =
        _mm256_div_pd(_mm256_cvtepi32_pd(eight_digits(x)), _mm256_cvtps_pd(_mm256_castps256_ps128(power)));
    d = _mm256_xor_pd(d, _mm256_castsi256_pd(_mm256_slli_epi64(minus, 63)));
    _mm_storeu_ps(out, _mm256_cvtpd_ps(d));
    return ~_mm256_movemask_pd(_mm256_castsi256_pd(ok)) & 15;
}

RT_V3 static bool run_floats(const RtSpans *s, uint32_t n, float *out) {
    for (uint32_t i = 0; i < n; i += 2 * LANES) {
        int more = four_floats(load(s->word + i), load(s->bytes + i), out + i) |
                   four_floats(load(s->word + i + LANES), load(s->bytes + i + LANES), out + i + LANES)
                       << LANES;
        for (; more; more &= more - 1) {
            uint32_t k = i + (uint32_t)__builtin_ctz((unsigned)more);
            if (rt_parse_float(s->at[k], s->bytes[k], &out[k]) != RT_NUMBER_OK) return false;
        }
    }
    return true;
}

/* ---- a group ---- */

RT_V3 static inline void put_one(RtSpans *s, uint32_t k, const char *base, uint32_t from, uint32_t end) {
    s->at[k] = base + from;
    s->bytes[k] = end - from;
    s->word[k] = rt_load64(base + from);
}

/* A list's texts into lanes, in groups, so that there is a branch a group: what is too many there is written
 * anew by the next feature, or lies behind all. */
RT_V3 static inline void put_list(RtSpans *s, uint32_t k, const RtGrid *g, const RtSpan *span) {
    const uint32_t *end = g->place + span->first;
    const char *behind = g->base + 1;
    const __m256i base = _mm256_set1_epi64x((long long)(intptr_t)g->base);
    for (uint32_t i = 0; i < span->n; i += LANES) {
        __m128i ends = _mm_loadu_si128((const __m128i *)(end + i));
        __m128i from = _mm_add_epi32(_mm_loadu_si128((const __m128i *)(end + (int)i - 1)), _mm_set1_epi32(1));
        _mm256_storeu_si256((__m256i *)(s->at + k + i), _mm256_add_epi64(_mm256_cvtepu32_epi64(from), base));
        _mm256_storeu_si256((__m256i *)(s->bytes + k + i), _mm256_cvtepu32_epi64(_mm_sub_epi32(ends, from)));
        for (int j = 0; j < LANES; j++)
            s->word[k + i + (uint32_t)j] = rt_load64(behind + end[(int)i + j - 1]);
    }
    if (span->n) put_one(s, k, g->base, span->from, *end); /* it may be the row's first field */
}

static void put_mods(RtSpans *s, const RtPlan *p, const RtGroup *group, uint32_t n) {
    s->offset[group->n] = n;
    for (int j = 0; j < group->n; j++) {
        RtMod mod = p->mod[p->order[group->first + j]];
        for (uint32_t k = s->offset[j]; k < s->offset[j + 1]; k++)
            s->divisor[k] = mod.divisor, s->reciprocal[k] = mod.reciprocal;
    }
}

/* Values of odd columns are not taken from lanes. */
static void put_nothing(RtSpans *s, const RtLaneItem *lane, int n) {
    for (; n > 0; n--, lane++) {
        const RtSpan *span = &s->span[lane->column];
        for (uint32_t k = s->offset[lane->place], end = k + span->n; span->odd && k < end; k++)
            s->bytes[k] = 1, s->word[k] = '0';
    }
}

RT_V3 uint32_t *rt_lanes_run(RtSpans *s, const RtPlan *p, const RtGroup *group, uint32_t *out) {
    const RtLaneItem *lane = p->lane + group->first;
    uint32_t n = 0, *offset = s->offset;
    for (int j = 0; j < group->n; j++) offset[lane[j].place] = s->span[lane[j].column].n;
    for (int j = 0; j < group->n; j++) {
        uint32_t here = offset[j];
        offset[j] = n;
        n += here;
    }
    if (s->cap < (size_t)n + SLACK) more_lanes(s, (size_t)n + SLACK);
    for (int j = 0; j < group->lists; j++)
        put_list(s, offset[lane[j].place], &s->grid[lane[j].side], &s->span[lane[j].column]);
    for (int j = group->lists; j < group->n; j++) { /* single values: lists may have written over them */
        const RtSpan *span = &s->span[lane[j].column];
        const RtGrid *g = &s->grid[lane[j].side];
        put_one(s, offset[lane[j].place], g->base, span->from, g->place[span->first]);
    }
    if (s->odd) put_nothing(s, lane, group->n);
    for (uint32_t k = 0; k < 2 * LANES; k++) s->bytes[n + k] = 1, s->word[n + k] = '0';
    if (group->kind == RT_GROUP_HASHES) {
        if (!group->one_mod) put_mods(s, p, group, n);
        run_hashes(s, n, group->one_mod ? &p->mod[p->order[group->first]] : NULL, out);
    } else if (!run_floats(s, n, (float *)(void *)out))
        return NULL;
    return out + n;
}
