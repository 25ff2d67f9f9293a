/* Tiles of bfloat16 pairs against the instruction's own arithmetic in C, to the last bit: packing, padding of
 * odd inner sizes, addresses, epilogues, weight gradients that grow block by block. First what the backend
 * emits for this CPU, then the code for one with vdpbf16ps: by the instructions where this CPU has them, else
 * with a function in place of each. And by fp32 tiles over operands that were rounded before, which must give
 * the same bits. Then the code for AMX, with functions for its instructions, which add in another order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "tests/tools/emit_jit.h"
#include "tests/tools/emulate.h"

static const EmitJitShape shapes[] = {
    {1, 1, 0, 0, 1},   {8, 4, 0, 0, 1},    {16, 2, 0, 0, 1},   {16, 3, 0, 0, 1},   {17, 31, 0, 0, 1},
    {40, 80, 0, 0, 1}, {80, 145, 0, 0, 1}, {33, 385, 0, 0, 1}, {64, 800, 0, 0, 1}, {300, 12, 0, 0, 1},
    {31, 33, 1, 0, 1}, {48, 64, 1, 0, 1},  {23, 101, 1, 0, 1}, {80, 13, 1, 0, 1},  {144, 391, 1, 0, 1},
    {27, 16, 0, 1, 1}, {50, 9, 1, 1, 1},   {16, 35, 0, 1, 1},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, MOST_ROWS = 201 };
static EmitJitShape plain[SHAPES]; /* the same in fp32 */

/* Numbers, moved to where a page ends behind which none is: generated code that reads or writes beyond them
 * stops the test, with sanitizers or without. To be freed by at_border_free. */
static size_t pages_of(size_t n) { return (n * sizeof(float) + 4095) / 4096 * 4096; }
static float *at_border(float *v, size_t n) {
    char *p = mmap(NULL, pages_of(n) + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED && mprotect(p + pages_of(n), 4096, PROT_NONE) == 0);
    float *to = (float *)(p + pages_of(n) - n * sizeof *v);
    memcpy(to, v, n * sizeof *v);
    free(v);
    return to;
}
static void at_border_free(float *v, size_t n) {
    munmap((char *)v + n * sizeof *v - pages_of(n), pages_of(n) + 4096);
}

/* What scratch holds before: would be found in any result that it went into. */
static float *nothing(size_t n) {
    float *v = emit_jit_room(n);
    for (size_t i = 0; i < n; i++) v[i] = NAN;
    return v;
}

/* Some that the instructions take as zero, and some whose products and sums they give as zero. */
static float *with_small_numbers(size_t n, uint32_t seed) {
    float *v = emit_jit_numbers(n, seed);
    for (size_t i = 0; i < n; i += 3) v[i] = ldexpf(v[i], -(int)(i % 150));
    return v;
}

/* ---- the instruction ---- */

static uint32_t bits_of(float x) {
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}
static float float_of(uint32_t b) {
    float x;
    memcpy(&x, &b, sizeof x);
    return x;
}
static float without_small(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

static float rounded(float x) {
    if (isnan(x)) return x;
    uint32_t b = bits_of(without_small(x)), half = b & 0xffff;
    b &= 0xffff0000;
    if (half > 0x8000 || (half == 0x8000 && (b & 0x10000))) b += 0x10000;
    return float_of(b);
}

static float add_product(float sum, float x, float y) {
    return without_small(fmaf(rounded(x), rounded(y), without_small(sum)));
}

static bool amx; /* whose order of sums is meant */

/* 32 terms at a time, or what is left: the pairs' first terms and their second ones by themselves. */
static float dot_by_tiles(float sum, const float *x, int64_t x_step, const float *y, int64_t y_step,
                          int64_t n) {
    for (int64_t from = 0; from < n; from += 32) {
        float half[2] = {0, 0};
        for (int64_t l = from; l < n && l < from + 32; l++)
            half[l % 2] = add_product(half[l % 2], x[l * x_step], y[l * y_step]);
        sum = without_small(without_small(sum) + without_small(half[0] + half[1]));
    }
    return sum;
}

/* sum + x y over n terms; an odd one has a zero beside it, which only a sum of -0 notices */
static float dot(float sum, const float *x, int64_t x_step, const float *y, int64_t y_step, int64_t n) {
    if (amx) return dot_by_tiles(sum, x, x_step, y, y_step, n);
    for (int64_t l = 0; l < n; l++) sum = add_product(sum, x[l * x_step], y[l * y_step]);
    return n % 2 ? add_product(sum, 0, 0) : sum;
}

/* ---- products ---- */

static const char *name_of(const EmitJitShape *s) {
    static char text[64];
    snprintf(text, sizeof text, "%ldx%ld%s%s", (long)s->k, (long)s->n, s->ta ? ", a^T" : "",
             s->tb ? ", b^T" : "");
    return text;
}

static void expect_product(const EmitJitShape *s, const float *c, const float *a, const float *b,
                           int64_t rows, bool ends) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < s->n; j++) {
            float want = dot(0, a + (s->ta ? i : i * s->k), s->ta ? EMIT_JIT_ROWS : 1,
                             b + (s->tb ? j * s->k : j), s->tb ? 1 : s->n, s->k);
            if (ends) want = emit_jit_end(want, i, j);
            if (bits_of(c[i * s->n + j]) != bits_of(want))
                fail_msg("%s, %ld rows: [%ld,%ld] is %.9g, expected %.9g", name_of(s), (long)rows, (long)i,
                         (long)j, c[i * s->n + j], want);
        }
}

typedef struct {
    float *a, *b, *c, *d;
    char *scratch, *panels;
    size_t size, a_size, b_size, room; /* floats: of the result, a, b, scratch */
} Matrices;

/* Scratch, as long as it is asked for, to whole lines. */
static size_t scratch_floats(EmitJit *jit, int k) {
    return ((size_t)emit_jit_scratch(jit, k) + 63) / 64 * 16;
}

static Matrices matrices(EmitJit *jit, int k, float *(*fill)(size_t, uint32_t)) {
    const EmitJitShape *s = &shapes[k];
    Matrices m = {.size = (size_t)(EMIT_JIT_ROWS * s->n)};
    m.a_size = (size_t)(EMIT_JIT_ROWS * s->k), m.b_size = (size_t)(s->n * s->k),
    m.room = scratch_floats(jit, k);
    m.a = at_border(fill(m.a_size, 1), m.a_size), m.b = at_border(fill(m.b_size, 2), m.b_size);
    m.c = at_border(emit_jit_numbers(m.size + 1, 3), m.size + 1);
    m.d = at_border(emit_jit_numbers(m.size + 1, 4), m.size + 1);
    m.scratch = (char *)at_border(nothing(m.room), m.room);
    m.panels = (char *)at_border(nothing(m.room), m.room);
    return m;
}

static void matrices_free(Matrices *m) {
    at_border_free(m->a, m->a_size), at_border_free(m->b, m->b_size);
    at_border_free(m->c, m->size + 1), at_border_free(m->d, m->size + 1);
    at_border_free((float *)m->scratch, m->room), at_border_free((float *)m->panels, m->room);
}

static EmitJit *jit, *fp32;

static void check_gemm(int k, float *(*fill)(size_t, uint32_t)) {
    const EmitJitShape *s = &shapes[k];
    Matrices m = matrices(jit, k, fill);
    static const int64_t rows[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 23, 24, 33, 47, 64, 65, 70, MOST_ROWS};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        size_t size = (size_t)(rows[r] * s->n);
        float guard = m.c[size];
        emit_jit_gemm(jit, k)(m.c, m.a, m.b, m.scratch, 0, rows[r]);
        assert_true(bits_of(m.c[size]) == bits_of(guard));
        if (r > 3 && rows[r] != 70 && rows[r] != MOST_ROWS) continue; /* these hold the others' */
        expect_product(s, m.c, m.a, m.b, rows[r], false);
    }
    emit_jit_pack(jit, k)((float *)m.panels, m.b);
    static const int64_t cuts[] = {0, 1, 3, 8, 64, 65, 75, 130, MOST_ROWS};
    for (size_t i = 0; i + 1 < sizeof cuts / sizeof *cuts; i++)
        emit_jit_packed(jit, k)(m.d, m.a, (float *)m.panels, m.scratch, cuts[i], cuts[i + 1]);
    assert_memory_equal(m.c, m.d, (size_t)(MOST_ROWS * s->n) * sizeof *m.c);
    emit_jit_ended(jit, k)(m.d, m.a, (float *)m.panels, m.scratch, 0, 70);
    expect_product(s, m.d, m.a, m.b, 70, true);
    matrices_free(&m);
}

static void test_products(void **state) {
    (void)state;
    for (int k = 0; k < SHAPES; k++) check_gemm(k, emit_jit_numbers);
}
static void test_small_numbers(void **state) {
    (void)state;
    for (int k = 0; k < SHAPES; k++) check_gemm(k, with_small_numbers);
}

/* Rounding, then fp32's tiles: what mixed-precision(force=true) does elsewhere. */
static void test_same_as_fp32_tiles(void **state) {
    (void)state;
    for (int k = 0; k < SHAPES; k++) {
        Matrices m = matrices(jit, k, emit_jit_numbers);
        emit_jit_gemm(jit, k)(m.c, m.a, m.b, m.scratch, 0, MOST_ROWS);
        for (int64_t i = 0; i < EMIT_JIT_ROWS * shapes[k].k; i++) m.a[i] = rounded(m.a[i]);
        for (int64_t i = 0; i < shapes[k].n * shapes[k].k; i++) m.b[i] = rounded(m.b[i]);
        emit_jit_gemm(fp32, k)(m.d, m.a, m.b, m.panels, 0, MOST_ROWS);
        assert_memory_equal(m.c, m.d, (size_t)(MOST_ROWS * shapes[k].n) * sizeof *m.c);
        matrices_free(&m);
    }
}

/* ---- weight gradients ---- */

/* Rows in blocks, each of which adds to what those before it left. */
static void expect_grad(const EmitJitShape *s, const float *c, const float *x, const float *g,
                        const int64_t *block, int blocks) {
    for (int64_t i = 0; i < s->k; i++)
        for (int64_t j = 0; j < s->n; j++) {
            float want = 0;
            int64_t from = 0;
            for (int b = 0; b < blocks; from += block[b++])
                want = dot(want, x + from * s->k + i, s->k, g + from * s->n + j, s->n, block[b]);
            if (bits_of(c[i * s->n + j]) != bits_of(want))
                fail_msg("dW %s of %ld rows in %d blocks: [%ld,%ld] is %.9g, expected %.9g", name_of(s),
                         (long)from, blocks, (long)i, (long)j, c[i * s->n + j], want);
        }
}

static void check_grad(int k, int64_t rows) {
    const EmitJitShape *s = &shapes[k];
    size_t size = (size_t)(s->n * s->k);
    size_t x_size = (size_t)(rows * s->k), g_size = (size_t)(rows * s->n), room = scratch_floats(jit, k);
    float *x = at_border(with_small_numbers(x_size, 1), x_size),
          *g = at_border(emit_jit_numbers(g_size, 2), g_size),
          *c = at_border(emit_jit_numbers(size + 1, 3), size + 1),
          *d = at_border(emit_jit_numbers(size, 4), size);
    char *scratch = (char *)at_border(nothing(room), room);
    float guard = c[size];
    int64_t tiles = emit_jit_tiles(jit, k), blocks[] = {rows / 3, rows - rows / 3};
    emit_jit_grad(jit, k)(c, x, g, scratch, 0, tiles, rows);
    assert_true(bits_of(c[size]) == bits_of(guard));
    expect_grad(s, c, x, g, &rows, 1);
    for (int64_t t = 0; t < tiles; t += 3)
        emit_jit_grad(jit, k)(d, x, g, scratch, t, t + 3 < tiles ? t + 3 : tiles, rows);
    assert_memory_equal(c, d, size * sizeof *c);
    memset(d, 0, size * sizeof *d);
    emit_jit_finished(jit, k)(d, x, g, scratch, 0, tiles, rows); /* in scratch, then to its place */
    assert_memory_equal(c, d, size * sizeof *c);
    if (blocks[0]) {
        emit_jit_grad(jit, k)(c, x, g, scratch, 0, tiles, blocks[0]);
        emit_jit_grown(jit, k)(c, x + blocks[0] * s->k, g + blocks[0] * s->n, scratch, 0, tiles, blocks[1]);
        expect_grad(s, c, x, g, blocks, 2);
    }
    at_border_free(x, x_size), at_border_free(g, g_size), at_border_free(c, size + 1),
        at_border_free(d, size);
    at_border_free((float *)scratch, room);
}

static void test_weight_gradients(void **state) {
    (void)state;
    static const int64_t rows[] = {0, 1, 2, 64, 601, 1030};
    for (int k = 0; k < SHAPES; k++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            if (shapes[k].n * shapes[k].k * rows[r] < 4000000) check_grad(k, rows[r]);
}

/* ---- rounding as it is packed ---- */

/* Halfway cases, overflow to infinity, infinities, NaN: a product with one, in 16 columns. */
static void test_rounding(void **state) {
    (void)state;
    static const float odd[] = {
        1 + 0x1p-8f,  1 + 0x1.8p-7f, -1 - 0x1p-8f, 1 + 0x1.000002p-8f, 0x1.fffffep127f, -0x1.fffffep127f,
        INFINITY,     -INFINITY,     0x1p-126f,    0x1.fffffep-127f,   -0x1p-149f,      0x1.fep-126f,
        0x1.ffp-126f, -0.0f,         3.14159274f,  0x1.010000p0f};
    float a[2] = {1, 0}, b[32], c[16];
    for (int i = 0; i < 16; i++) b[i] = odd[i], b[16 + i] = 0;
    char *scratch = (char *)emit_jit_room((size_t)emit_jit_scratch(jit, 2) / 4 + 1);
    emit_jit_gemm(jit, 2)(c, a, b, scratch, 0, 1);
    for (int i = 0; i < 16; i++)
        assert_true(bits_of(c[i]) == bits_of(add_product(add_product(0, 1, odd[i]), 0, 0)));
    b[5] = NAN, b[22] = float_of(0x7f800001); /* a NaN whose upper half alone would be an infinity */
    a[1] = 1;
    emit_jit_gemm(jit, 2)(c, a, b, scratch, 0, 1);
    for (int i = 0; i < 16; i++) assert_int_equal(isnan(c[i]) != 0, i == 5 || i == 6);
    free(scratch);
}

/* Each kernel gave its tiles back, and used some. */
static void test_tiles_given_back(void **state) {
    (void)state;
    assert_true(amx_is_released());
    assert_true(!amx == !amx_products());
}

static int run(int vector_floats) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),         cmocka_unit_test(test_small_numbers),
        cmocka_unit_test(test_weight_gradients), cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_tiles_given_back), cmocka_unit_test(test_same_as_fp32_tiles), /* not AMX */
    };
    amx = vector_floats == EMIT_JIT_AMX;
    for (int i = 0; i < SHAPES; i++) plain[i] = shapes[i], plain[i].bf16 = 0;
    jit = emit_jit_products(shapes, SHAPES, vector_floats);
    fp32 = emit_jit_products(plain, SHAPES, vector_floats);
    size_t n = sizeof tests / sizeof *tests - amx;
    int failed = _cmocka_run_group_tests(amx ? "AMX" : "vectors", tests, n, NULL, NULL);
    emit_jit_free(jit), emit_jit_free(fp32);
    return failed;
}

/* The sanitizers don't see into generated code: their tree leaves the code for other CPUs out. */
int main(void) { return (getenv("CTRC_TEST_LIGHT") ? 0 : run(0)) + run(EMIT_JIT_BF16) + run(EMIT_JIT_AMX); }
