#include "runtime/reader_grid.h"
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

bool rt_is_v3(void) {
    static int known = -1; /* racing threads would write the same */
    int v3 = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (v3 < 0) {
        v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
             __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
        __atomic_store_n(&known, v3, __ATOMIC_RELAXED);
    }
    return v3;
}

/* Whoever takes places four at a time begins one before the first and ends some behind the last. */
enum { BEFORE = 8, BEHIND = 8 };

bool rt_grid_init(RtGrid *g, const RtPlan *p, int side) {
    if (!rt_is_v3() || p->syntax.format >= RT_LIBSVM) return false;
    g->separator = p->syntax.separator;
    g->quote = p->syntax.quote;
    for (int k = 0; k < p->n_set[side]; k++) {
        uint8_t byte = p->set[side][k];
        if (byte != '\n' && byte != (uint8_t)g->separator) g->list[g->n_list++] = byte;
    }
    for (int byte = 0; byte < 256; byte++) {
        if (!p->odd[byte] && (!g->quote || byte != (uint8_t)g->quote)) continue;
        if (g->n_odd == RT_STRUCTURAL) return false;
        g->odd[g->n_odd++] = (uint8_t)byte;
    }
    g->place = (uint32_t *)rt_reader_alloc(RT_GRID_BYTES + 64, sizeof *g->place) + BEFORE;
    g->end = rt_reader_alloc(RT_GRID_BYTES + 64, sizeof *g->end);
    g->line = rt_reader_alloc(RT_GRID_BYTES + 64, sizeof *g->line);
    g->mark = rt_reader_alloc(RT_GRID_BYTES + 64, 1);
    g->bits_of_byte = rt_reader_alloc(256, sizeof *g->bits_of_byte);
    for (int byte = 0; byte < 256; byte++)
        for (int bit = 0, n = 0; bit < 8; bit++)
            if (byte >> bit & 1) g->bits_of_byte[byte] |= (uint64_t)bit << 8 * n++;
    return true;
}

void rt_grid_free(RtGrid *g) {
    if (g->place) free(g->place - BEFORE);
    free(g->end);
    free(g->line);
    free(g->mark);
    free(g->bits_of_byte);
}

void rt_grid_start(RtGrid *g, const char *base, uint32_t bytes) {
    g->base = base;
    g->bytes = bytes;
    g->to = g->n = g->i = 0;
}

/* ---- a window ---- */

#define ALWAYS inline __attribute__((always_inline))

typedef struct {
    __m256i separator, newline, list[RT_STRUCTURAL], odd[RT_STRUCTURAL];
} Wanted;
typedef struct {
    uint64_t end, line, all, odd; /* field ends, line ends, all places, odd bytes */
} Bits;

RT_V3 static ALWAYS uint64_t bits_of(__m256i a, __m256i b) {
    return (uint32_t)_mm256_movemask_epi8(a) | (uint64_t)(uint32_t)_mm256_movemask_epi8(b) << 32;
}

RT_V3 static ALWAYS uint64_t bits_of_any(__m256i a, __m256i b, const __m256i *want, int n) {
    __m256i ma = _mm256_setzero_si256(), mb = ma;
    for (int k = 0; k < n; k++) {
        ma = _mm256_or_si256(ma, _mm256_cmpeq_epi8(a, want[k]));
        mb = _mm256_or_si256(mb, _mm256_cmpeq_epi8(b, want[k]));
    }
    return bits_of(ma, mb);
}

RT_V3 static ALWAYS Bits look(const char *at, const Wanted *w, int n_list, int n_odd) {
    __m256i a = _mm256_loadu_si256((const __m256i *)at), b = _mm256_loadu_si256((const __m256i *)(at + 32));
    Bits x;
    x.line = bits_of(_mm256_cmpeq_epi8(a, w->newline), _mm256_cmpeq_epi8(b, w->newline));
    x.end = x.line | bits_of(_mm256_cmpeq_epi8(a, w->separator), _mm256_cmpeq_epi8(b, w->separator));
    x.all = x.end | (n_list ? bits_of_any(a, b, w->list, n_list) : 0);
    x.odd = n_odd ? bits_of_any(a, b, w->odd, n_odd) : 0;
    return x;
}

/* Each puts one number a set bit, and some too many, which the next ones overwrite: with a branch a bit, most
 * would be foreseen wrongly. */

/* Where bits are many: those of a byte at once. */
RT_V3 static ALWAYS uint32_t *put_many(const uint64_t *bits_of_byte, uint32_t *out, uint64_t bits,
                                       uint32_t base) {
    __m256i at = _mm256_set1_epi32((int)base);
    for (int k = 0; k < 8; k++, bits >>= 8, at = _mm256_add_epi32(at, _mm256_set1_epi32(8))) {
        __m128i in_byte = _mm_loadl_epi64((const __m128i *)&bits_of_byte[bits & 0xff]);
        _mm256_storeu_si256((__m256i *)out, _mm256_add_epi32(at, _mm256_cvtepu8_epi32(in_byte)));
        out += __builtin_popcountll(bits & 0xff);
    }
    return out;
}

/* Where they are few, in groups: a branch a group. */
enum { FEW = 4 };
RT_V3 static ALWAYS uint32_t *put_few(uint32_t *out, uint64_t bits, uint32_t base) {
    uint32_t *end = out + __builtin_popcountll(bits);
    while (out < end) {
        for (int k = 0; k < FEW; k++, bits = _blsr_u64(bits)) out[k] = base + (uint32_t)_tzcnt_u64(bits);
        out += FEW;
    }
    return end;
}

/* The rank among `all` of each of `bits`. at_once: most words have some, but not more than a group. */
RT_V3 static ALWAYS uint32_t *put_ranks(uint32_t *out, uint64_t bits, uint64_t all, uint32_t before,
                                        bool at_once) {
    uint32_t *end = out + __builtin_popcountll(bits);
    for (bool more = at_once || out < end; more; more = out < end) {
        for (int k = 0; k < FEW; k++, bits = _blsr_u64(bits))
            out[k] = before + (uint32_t)__builtin_popcountll(all & (_blsi_u64(bits) - 1));
        out += FEW;
    }
    return end;
}

static void mark_lines(RtGrid *g, uint32_t n, const Bits *x, uint64_t hits, uint32_t at) {
    for (; hits; hits &= hits - 1) {
        uint32_t place = at + (uint32_t)__builtin_ctzll(hits);
        uint64_t below = (hits & -hits) - 1;
        uint8_t *mark = &g->mark[n + (uint32_t)__builtin_popcountll(x->line & below)];
        if (g->quote && g->base[place] == g->quote)
            *mark |= RT_LINE_QUOTED;
        else if (!g->quote || !place || g->base[place - 1] != g->quote) /* a quote that closes is not odd */
            *mark |= RT_LINE_ODD;
    }
}

/* n_list, n_odd: as the grid has them, constants where there are few. */
RT_V3 static ALWAYS void scan_for(RtGrid *g, uint32_t from, uint32_t to, int n_list, int n_odd) {
    Wanted w = {.separator = _mm256_set1_epi8(g->separator), .newline = _mm256_set1_epi8('\n')};
    for (int k = 0; k < g->n_list; k++) w.list[k] = _mm256_set1_epi8((char)g->list[k]);
    for (int k = 0; k < g->n_odd; k++) w.odd[k] = _mm256_set1_epi8((char)g->odd[k]);
    uint32_t *place = g->place, *end = g->end, *line = g->line;
    uint64_t was_place = 1, was_odd = 0; /* of the byte before */
    g->mark[0] = 0;
    for (uint32_t at = from; at < to; at += 64) {
        Bits x = look(g->base + at, &w, n_list, n_odd);
        uint64_t in = to - at < 64 ? (1ull << (to - at)) - 1 : ~0ull;
        x.line &= in, x.end &= in, x.all &= in, x.odd &= in;
        uint32_t n = (uint32_t)(line - g->line);
        uint64_t after = x.all << 1 | was_place; /* bytes with which a value begins, or would */
        uint64_t hits = (after & (x.all | x.odd)) | (x.all & (x.odd << 1 | was_odd));
        was_place = x.all >> 63, was_odd = x.odd >> 63;
        if (x.line) {
            line = put_ranks(line, x.line, x.end, (uint32_t)(end - g->end), true);
            for (uint32_t k = n; k < (uint32_t)(line - g->line); k++) g->mark[k + 1] = 0;
        }
        end = put_ranks(end, x.end, x.all, (uint32_t)(place - g->place), n_list > 0);
        place = n_list ? put_many(g->bits_of_byte, place, x.all, at) : put_few(place, x.all, at);
        if (__builtin_expect(hits != 0, 0)) mark_lines(g, n, &x, hits, at);
    }
    for (int k = 0; k < BEHIND; k++) place[k] = to;
    g->n = (uint32_t)(line - g->line);
    g->i = 0;
    g->to = to;
}

RT_V3 static void scan(RtGrid *g, uint32_t from, uint32_t to) {
    if (g->n_list == 1 && g->n_odd == 1)
        scan_for(g, from, to, 1, 1);
    else if (!g->n_list && g->n_odd == 1)
        scan_for(g, from, to, 0, 1);
    else
        scan_for(g, from, to, g->n_list, g->n_odd);
}

bool rt_grid_find(RtGrid *g, uint32_t at) {
    while (g->i < g->n && rt_grid_line_end(g, g->i) < at) g->i++;
    if (g->i < g->n) return true;
    uint32_t left = g->bytes - at;
    scan(g, at, at + (left < RT_GRID_BYTES ? left : RT_GRID_BYTES));
    return g->n > 0;
}
