/* AMX's instructions by Intel's manual, as far as they are used. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/tools/emulate.h"

enum { TILES = 8, ROWS = 16, LANES = 16 };

static _Thread_local struct {
    bool configured;
    int rows[TILES], row_bytes[TILES];
    uint32_t tile[TILES][ROWS][LANES];
} amx;
static _Atomic int64_t products;

static void must(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "AMX: %s\n", what);
    abort();
}

void amx_ldtilecfg(const void *from) {
    const uint8_t *c = from;
    must(c[0] == 1 && c[1] == 0, "expected palette 1 from row 0");
    memset(&amx, 0, sizeof amx);
    for (int i = 0; i < 64; i++)
        must((i >= 16 && i < 32) || (i >= 48 && i < 56) || i < 2 || !c[i], "reserved bytes aren't zero");
    for (int t = 0; t < TILES; t++) {
        amx.row_bytes[t] = c[16 + 2 * t] | c[17 + 2 * t] << 8, amx.rows[t] = c[48 + t];
        must(amx.row_bytes[t] <= 4 * LANES && amx.rows[t] <= ROWS, "a tile is too large");
        must(!amx.row_bytes[t] == !amx.rows[t] && amx.row_bytes[t] % 4 == 0, "a tile has no such shape");
    }
    amx.configured = true;
}

void amx_tilerelease(void) { memset(&amx, 0, sizeof amx); }
bool amx_is_released(void) { return !amx.configured; }
int64_t amx_products(void) { return atomic_load(&products); }

static void check(uint8_t tile) {
    must(amx.configured, "no tiles are configured");
    must(tile < TILES && amx.rows[tile], "no such tile");
}

void amx_tilezero(uint8_t tile) {
    check(tile);
    memset(amx.tile[tile], 0, sizeof amx.tile[tile]);
}

void amx_tileloadd64(uint8_t tile, const void *from, int64_t row_bytes) {
    amx_tilezero(tile);
    for (int r = 0; r < amx.rows[tile]; r++)
        memcpy(amx.tile[tile][r], (const char *)from + r * row_bytes, (size_t)amx.row_bytes[tile]);
}

void amx_tilestored64(uint8_t tile, void *to, int64_t row_bytes) {
    check(tile);
    for (int r = 0; r < amx.rows[tile]; r++)
        memcpy((char *)to + r * row_bytes, amx.tile[tile][r], (size_t)amx.row_bytes[tile]);
}

/* ---- the product ---- */

static float number(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}
static float without_small(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

/* A sum of lower halves' products and one of upper halves', each in order, from zero. The target: fmaf as an
 * instruction. */
__attribute__((target("fma"))) static float sum_of_pairs(const uint32_t *a, const uint32_t (*b)[LANES],
                                                         int column, int pairs) {
    float lower = 0, upper = 0;
    for (int k = 0; k < pairs; k++) {
        uint32_t x = a[k], y = b[k][column];
        lower = without_small(fmaf(number(x << 16), number(y << 16), lower));
        upper = without_small(fmaf(number(x & 0xffff0000), number(y & 0xffff0000), upper));
    }
    return without_small(lower + upper);
}

void amx_tdpbf16ps(uint8_t c, uint8_t a, uint8_t b) {
    check(c), check(a), check(b);
    must(a != b && a != c && b != c, "tiles must be different");
    must(amx.rows[c] == amx.rows[a] && amx.row_bytes[c] == amx.row_bytes[b] &&
             amx.row_bytes[a] / 4 == amx.rows[b],
         "the tiles' shapes don't fit");
    for (int m = 0; m < amx.rows[c]; m++)
        for (int n = 0; n < amx.row_bytes[c] / 4; n++) {
            float sum = sum_of_pairs(amx.tile[a][m], (const uint32_t(*)[LANES])amx.tile[b], n, amx.rows[b]);
            sum = without_small(number(amx.tile[c][m][n]) + sum);
            memcpy(&amx.tile[c][m][n], &sum, sizeof sum);
        }
    atomic_fetch_add(&products, 1);
}
