/* Register tiles against sums in double precision, at sizes that leave tails in every direction, cross blocks
 * of terms and groups of panels; and the same bits however rows or tiles are cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/tools/emit_jit.h"

static const EmitJitShape shapes[] = {
    {1, 1, 0, 0, 0},    {8, 4, 0, 0, 0},     {16, 16, 0, 0, 0},  {17, 5, 0, 0, 0},   {15, 31, 0, 0, 0},
    {40, 80, 0, 0, 0},  {80, 144, 0, 0, 0},  {33, 385, 0, 0, 0}, {300, 12, 0, 0, 0}, {64, 800, 0, 0, 0},
    {396, 70, 0, 0, 0}, {31, 1025, 0, 0, 0}, {7, 9, 1, 0, 0},    {16, 24, 1, 0, 0},  {23, 100, 1, 0, 0},
    {80, 13, 1, 0, 0},  {144, 390, 1, 0, 0}, {9, 769, 1, 0, 0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, ROWS = 601 };

/* Rounding of a sum of k products of numbers below 1; a wrong or missing term is about 0.3. */
static double tolerance(int64_t k) { return 2e-7 * (double)k + 1e-6; }

static void expect_product(const EmitJitShape *s, const float *c, const float *a, const float *b,
                           int64_t rows) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < s->n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < s->k; l++)
                sum += (double)a[i * s->k + l] * (s->tb ? b[j * s->k + l] : b[l * s->n + j]);
            if (!(fabs(c[i * s->n + j] - sum) <= tolerance(s->k)))
                fail_msg("%ldx%ld%s: [%ld,%ld] is %.9g, expected %.9g", (long)s->k, (long)s->n,
                         s->tb ? " b^T" : "", (long)i, (long)j, c[i * s->n + j], sum);
        }
}

static void check_gemm(EmitJit *jit, int k) {
    const EmitJitShape *s = &shapes[k];
    EmitGemmFn f = emit_jit_gemm(jit, k);
    size_t m = ROWS, size = m * (size_t)s->n;
    float *a = emit_jit_numbers(m * (size_t)s->k, 1), *b = emit_jit_numbers((size_t)(s->n * s->k), 2),
          *c = emit_jit_numbers(size + 1, 3), *d = emit_jit_numbers(size, 4);
    char *scratch = (char *)emit_jit_numbers((size_t)emit_jit_scratch(jit, k) / 4 + 1, 5);
    float guard = c[size];
    f(c, a, b, scratch, 0, ROWS);
    assert_true(c[size] == guard);
    expect_product(s, c, a, b, ROWS);
    static const int64_t cuts[] = {0, 1, 3, 8, 64, 65, 75, 130, 141, 149, 154, 400, ROWS};
    enum { CUTS = sizeof cuts / sizeof *cuts - 1 };
    for (size_t i = 0; i < CUTS; i++) f(d, a, b, scratch, cuts[i], cuts[i + 1]);
    assert_memory_equal(c, d, size * sizeof *c);
    emit_jit_pack(jit, k)((float *)scratch, b); /* once for all of them */
    memset(d, 0, size * sizeof *d);
    for (size_t i = 0; i < CUTS; i++)
        emit_jit_packed(jit, k)(d, a, (float *)scratch, NULL, cuts[i], cuts[i + 1]);
    assert_memory_equal(c, d, size * sizeof *c);
    free(a), free(b), free(c), free(d), free(scratch);
}

static void check_grad(EmitJit *jit, int k, int64_t rows) {
    const EmitJitShape *s = &shapes[k];
    EmitGradFn f = emit_jit_grad(jit, k);
    size_t size = (size_t)(s->n * s->k);
    float *x = emit_jit_numbers((size_t)(rows * s->k) + 1, 1),
          *g = emit_jit_numbers((size_t)(rows * s->n) + 1, 2), *c = emit_jit_numbers(size + 1, 3),
          *d = emit_jit_numbers(size, 4);
    char *scratch = (char *)emit_jit_numbers((size_t)emit_jit_scratch(jit, k) / 4 + 1, 5);
    float guard = c[size];
    int64_t tiles = emit_jit_tiles(jit, k);
    f(c, x, g, scratch, 0, tiles, rows);
    assert_true(c[size] == guard);
    for (int64_t i = 0; i < s->k; i++)
        for (int64_t j = 0; j < s->n; j++) {
            double sum = 0;
            for (int64_t m = 0; m < rows; m++) sum += (double)x[m * s->k + i] * g[m * s->n + j];
            if (!(fabs(c[i * s->n + j] - sum) <= tolerance(rows)))
                fail_msg("dW %ldx%ld: [%ld,%ld] is %.9g, expected %.9g", (long)s->k, (long)s->n, (long)i,
                         (long)j, c[i * s->n + j], sum);
        }
    for (int64_t t = 0; t < tiles; t += 3) f(d, x, g, scratch, t, t + 3 < tiles ? t + 3 : tiles, rows);
    assert_memory_equal(c, d, size * sizeof *c);
    free(x), free(g), free(c), free(d), free(scratch);
}

static EmitJit *jit;
static void test_products(void **state) {
    (void)state;
    for (int k = 0; k < SHAPES; k++) check_gemm(jit, k);
}
static void test_weight_gradients(void **state) {
    (void)state;
    static const int64_t rows[] = {ROWS, 256, 1, 0};
    for (int k = 0; k < SHAPES; k++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) check_grad(jit, k, rows[r]);
}

/* The tiles of this CPU, and those for AVX-512 in whatever vectors it has. */
static int run(int vector_floats) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products),
                                       cmocka_unit_test(test_weight_gradients)};
    jit = emit_jit_products(shapes, SHAPES, vector_floats);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    emit_jit_free(jit);
    return failed;
}

int main(void) { return run(0) + run(16); }
