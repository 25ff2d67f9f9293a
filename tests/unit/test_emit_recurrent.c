/* The kernels of gru and augru on their own, beside their formulas in double precision: more rows than a
 * kernel sorts at a time, empty rows, equal and very different lengths, units that fill vectors or don't,
 * vectors of 8 and of 16 floats. Any cut of the rows must give the same bits, and what lies around a result
 * stay as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/tools/emit_jit.h"
#include "tests/tools/random_batch.h"

enum { MAX_UNITS = 40, GUARD = 0x5b };

typedef struct {
    EmitJitLayer layer;
    EmitJit *jit;
    uint32_t rows, *offsets;
    uint64_t cap;
    float *arena, *weights[2];
    char *scratch;
    RtStep step;
    const uint32_t *axis_offsets[1];
    char *axis_arena[1];
} Run;

static float *part(const Run *r, EmitJitPart p) {
    return r->arena + (size_t)emit_jit_layer_offset(r->layer.units, p) * r->cap;
}

static void *take(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!p) abort();
    return memset(p, GUARD, (bytes + 127) / 64 * 64);
}

static void fill(float *v, size_t n, float scale, uint64_t *rng) {
    for (size_t i = 0; i < n; i++) v[i] = scale * (float)(2 * random_unit(rng) - 1);
}

static Run open_run(EmitJitLayer layer, uint32_t rows, uint32_t longest) {
    uint64_t rng = 7 * rows + longest;
    Run r = {.layer = layer, .rows = rows};
    size_t u = (size_t)layer.units;
    r.offsets = take(sizeof *r.offsets * (rows + 1u));
    r.offsets[0] = 0;
    for (uint32_t i = 0; i < rows; i++) {
        double x = random_unit(&rng);
        r.offsets[i + 1] = r.offsets[i] + (x < 0.2 ? 0 : (uint32_t)(x * x * longest) + 1);
    }
    r.cap = (r.offsets[rows] + 15u) / 16 * 16;
    r.arena = take(sizeof(float) * (size_t)emit_jit_layer_offset(layer.units, LAYER_END) * r.cap);
    fill(part(&r, LAYER_P), 3 * u * r.cap, 2, &rng);
    fill(part(&r, LAYER_DH), u * r.cap, 1, &rng);
    for (size_t i = 0; i < r.cap; i++) part(&r, LAYER_A)[i] = (float)random_unit(&rng);
    for (int w = 0; w < 2; w++)
        fill(r.weights[w] = take(sizeof(float) * u * u * 2), u * u * 2, 1.5f / sqrtf((float)u), &rng);
    return r;
}

/* The Run must not move from here on. */
static void load_run(Run *r, EmitJit *jit) {
    r->jit = jit;
    r->scratch = take((size_t)emit_jit_layer_scratch(r->jit));
    r->axis_offsets[0] = r->offsets, r->axis_arena[0] = (char *)r->arena;
    r->step = (RtStep){.rows = r->rows,
                       .offsets = r->axis_offsets,
                       .axis_arena = r->axis_arena,
                       .axis_cap = &r->cap,
                       .weights = r->weights};
}

static void close_run(Run *r) {
    free(r->offsets), free(r->arena), free(r->weights[0]), free(r->weights[1]), free(r->scratch);
}

/* ---- the formulas ---- */

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void expect_close(const char *what, const Run *r, size_t at, double got, double want) {
    if (fabs(got - want) <= 2e-5 * (1 + fabs(want))) return;
    fail_msg("%s, %d units, %u rows: float %zu is %.9g, not %.9g", what, (int)r->layer.units, r->rows, at,
             got, want);
}

static void check_forward(const Run *r) {
    size_t u = (size_t)r->layer.units;
    const float *p = part(r, LAYER_P), *a = part(r, LAYER_A), *got = part(r, LAYER_RECORD);
    for (uint32_t row = 0; row < r->rows; row++) {
        double h[MAX_UNITS] = {0};
        for (size_t i = r->offsets[row]; i < r->offsets[row + 1]; i++) {
            double now[4 * MAX_UNITS], *gate = now + u, *c = now + 3 * u;
            for (size_t e = 0; e < 2 * u; e++) {
                double sum = p[i * 3 * u + e];
                for (size_t k = 0; k < u; k++) sum += h[k] * r->weights[0][k * 2 * u + e];
                gate[e] = sigmoid(sum);
            }
            for (size_t e = 0; e < u; e++) {
                double sum = p[i * 3 * u + 2 * u + e];
                for (size_t k = 0; k < u; k++) sum += gate[k] * h[k] * r->weights[1][k * u + e];
                c[e] = tanh(sum);
            }
            for (size_t e = 0; e < u; e++) {
                double keep = gate[u + e] * (r->layer.scored ? 1 - a[i] : 1);
                now[e] = keep * h[e] + (1 - keep) * c[e];
            }
            memcpy(h, now, sizeof *h * u);
            for (size_t e = 0; e < 4 * u; e++)
                expect_close("record", r, i * 4 * u + e, got[i * 4 * u + e], now[e]);
        }
    }
}

static void check_backward(const Run *r) {
    size_t u = (size_t)r->layer.units;
    const float *record = part(r, LAYER_RECORD), *dh = part(r, LAYER_DH), *a = part(r, LAYER_A),
                *got = part(r, LAYER_GRAD);
    for (uint32_t row = 0; row < r->rows; row++) {
        double later[MAX_UNITS] = {0};
        for (size_t i = r->offsets[row + 1]; i-- > r->offsets[row];) {
            const float *now = record + i * 4 * u, *gate = now + 2 * u, *c = now + 3 * u;
            double want[4 * MAX_UNITS], *du = want + u, *dc = want + 2 * u, *d = want + 3 * u;
            double keep = r->layer.scored ? 1 - a[i] : 1;
            for (size_t e = 0; e < u; e++) {
                double before = i > r->offsets[row] ? now[e - 4 * u] : 0;
                d[e] = dh[i * u + e] + later[e];
                dc[e] = d[e] * (1 - keep * gate[e]) * (1 - (double)c[e] * c[e]);
                du[e] = d[e] * keep * (before - c[e]) * gate[e] * (1 - (double)gate[e]);
                later[e] = d[e] * keep * gate[e];
            }
            for (size_t k = 0; k < u; k++) {
                double before = i > r->offsets[row] ? now[k - 4 * u] : 0, back = 0, reset = now[u + k];
                for (size_t e = 0; e < u; e++) back += dc[e] * r->weights[1][k * u + e];
                want[k] = back * before * reset * (1 - reset);
                later[k] += back * reset;
            }
            for (size_t k = 0; k < u; k++)
                for (size_t e = 0; e < 2 * u; e++) later[k] += want[e] * r->weights[0][k * 2 * u + e];
            for (size_t e = 0; e < 4 * u; e++)
                expect_close("gradient", r, i * 4 * u + e, got[i * 4 * u + e], want[e]);
        }
    }
}

/* ---- runs ---- */

static size_t result_bytes(const Run *r) {
    return sizeof(float) * 4 * (size_t)r->layer.units * r->offsets[r->rows];
}

/* Rows in pieces of `piece` rows, the last ones first; the guard behind the last position must stay. */
static void run_pieces(Run *r, int backwards, uint32_t piece) {
    char *out = (char *)part(r, backwards ? LAYER_GRAD : LAYER_RECORD);
    size_t used = result_bytes(r), all = sizeof(float) * 4 * (size_t)r->layer.units * r->cap;
    EmitKernel f = emit_jit_layer_kernel(r->jit, backwards);
    memset(out, GUARD, all + 64 * (size_t)backwards); /* the gradient is the arena's last part */
    uint32_t pieces = (r->rows + piece - 1) / piece;
    for (uint32_t i = pieces; i-- > 0;) {
        uint32_t hi = (i + 1) * piece;
        f(&r->step, i * piece, hi < r->rows ? hi : r->rows, r->scratch);
    }
    for (size_t i = used; i < all + 64 * (size_t)backwards; i++)
        if (out[i] != GUARD)
            fail_msg("%d units: byte %zu behind the result was written", (int)r->layer.units, i);
}

static void check_cuts(Run *r, int backwards) {
    static const uint32_t pieces[] = {2, 64, 300}; /* small ones of few rows: each packs the weights anew */
    size_t bytes = result_bytes(r);
    char *whole = take(bytes), *out = (char *)part(r, backwards ? LAYER_GRAD : LAYER_RECORD);
    run_pieces(r, backwards, r->rows);
    memcpy(whole, out, bytes);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        if (r->rows > 50 * pieces[i]) continue;
        run_pieces(r, backwards, pieces[i]);
        if (memcmp(whole, out, bytes))
            fail_msg("%d units: rows in pieces of %u give other bits", (int)r->layer.units, pieces[i]);
    }
    free(whole);
}

static void check_layer(EmitJitLayer layer, EmitJit *jit, uint32_t rows, uint32_t longest) {
    Run r = open_run(layer, rows, longest);
    load_run(&r, jit);
    check_cuts(&r, 0);
    check_forward(&r);
    check_cuts(&r, 1);
    check_backward(&r);
    close_run(&r);
}

static void check_all(int vector_floats) {
    static const int64_t units[] = {1, 7, 8, 16, 36, 40};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        for (int scored = 0; scored < 2; scored++) {
            EmitJitLayer layer = {units[i], scored};
            EmitJit *jit = emit_jit_layer(&layer, vector_floats);
            check_layer(layer, jit, 1, 1);
            check_layer(layer, jit, 5, 50);
            check_layer(layer, jit, 650, scored ? 9 : 50);
            emit_jit_free(jit);
        }
}

static void test_vectors_of_8(void **state) {
    (void)state;
    check_all(8);
}

static void test_vectors_of_16(void **state) { /* emulated where the CPU has none */
    (void)state;
    check_all(16);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors_of_8),
                                       cmocka_unit_test(test_vectors_of_16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
