/* The emitted exp, log, tanh … against libm in double precision, over a sweep of all floats and densely where
 * they are used. An ulp is that of the exact result rounded to float. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "tests/tools/emit_jit.h"

enum { N = 1 << 20 };
static EmitJit *jit;
static float in[N], out[N], again[N];

static float from_bits(uint32_t b) {
    float f;
    memcpy(&f, &b, 4);
    return f;
}
static uint32_t bits_of(float f) {
    uint32_t b;
    memcpy(&b, &f, 4);
    return b;
}

static double sigmoid_of(double x) { return 1 / (1 + exp(-x)); }
static double softplus_of(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }

/* Distance in ulps of the exact value's float; both NaN or the same infinity: 0. */
static double ulps(float got, double want) {
    if (isnan(want)) return isnan(got) ? 0 : 1e9;
    float near = (float)want;
    if (isinf(near) || isinf(got)) return got == near || fabs(want) >= 3.4028234e38 ? 0 : 1e9;
    double ulp = fabsf(near) < 0x1p-126f ? 0x1p-149 : ldexp(1, ilogb(near) - 23);
    return fabs(got - want) / ulp;
}

static double worst(double (*f)(double), float *at) {
    double most = 0;
    for (int i = 0; i < N; i++) {
        double u = ulps(out[i], f(in[i]));
        if (u > most) most = u, *at = in[i];
    }
    return most;
}

static void check_range(const char *name, double (*f)(double), double limit) {
    EmitMathFn fn = emit_jit_math_fn(jit, name);
    float at = 0;
    fn(out, in, N);
    double most = worst(f, &at);
    if (most > limit) fail_msg("%s(%.9g): %.2f ulp, at most %.2f expected", name, at, most, limit);
    /* the same bits as a vector's lane or one by one, wherever the cut falls */
    for (int cut = 0; cut < 19; cut++) fn(again + cut * 31, in + cut * 31, 31);
    assert_memory_equal(again, out, 19 * 31 * sizeof *out);
}

static void check(const char *name, double (*f)(double), double lo, double hi, double limit) {
    for (uint32_t i = 0; i < N; i++) in[i] = from_bits(i * 4096u + 1234); /* all exponents, signs and NaNs */
    static const float special[] = {
        0.0f,      -0.0f,     1,          -1,        INFINITY,      -INFINITY,
        NAN,       0x1p-149f, -0x1p-149f, 0x1p-126f, 3.4028235e38f, -3.4028235e38f,
        88.72283f, 88.72284f, -103.97f,   -104.5f,   0.625f,        0.9296875f,
        4,         -4,        0x1p24f};
    memcpy(in, special, sizeof special);
    check_range(name, f, limit);
    for (int i = 0; i < N; i++) in[i] = (float)(lo + (hi - lo) * i / (N - 1));
    check_range(name, f, limit);
}

static void test_exp(void **s) {
    (void)s;
    check("exp", exp, -104, 89, 1);
}
static void test_log(void **s) {
    (void)s;
    check("log", log, 0, 4, 1);
}
static void test_log1p(void **s) {
    (void)s;
    check("log1p", log1p, -1, 3, 2);
}
static void test_sigmoid(void **s) {
    (void)s;
    check("sigmoid", sigmoid_of, -30, 30, 2.5);
}
static void test_tanh(void **s) {
    (void)s;
    check("tanh", tanh, -10, 10, 2);
}
static void test_erf(void **s) {
    (void)s;
    check("erf", erf, -5, 5, 2);
}
static void test_softplus(void **s) {
    (void)s;
    check("softplus", softplus_of, -30, 30, 2);
}

/* bfloat16 has the exponents of float and 8 bits: a unit in the last place is 2^(e-8) for |x| in
 * 2^(e-1)..2^e. */
static double bf16_of(double x) {
    int e;
    if (!isfinite(x)) return x;
    frexp(x, &e);
    double unit = ldexp(1, (e < -125 ? -125 : e) - 8);
    return nearbyint(x / unit) * unit;
}
static void test_bf16(void **s) {
    (void)s;
    check("bf16", bf16_of, -4, 4, 0);
    static const float tie[] = {0x1.01p0f, 0x1.03p0f, 0x1.010002p0f, -0x1.01p0f, 0x1.ffp127f},
                       want[] = {0x1.00p0f, 0x1.04p0f, 0x1.02p0f, -0x1.00p0f, INFINITY};
    float got[5];
    emit_jit_math_fn(jit, "bf16")(got, tie, 5);
    for (int i = 0; i < 5; i++) assert_int_equal(bits_of(got[i]), bits_of(want[i]));
}

static void test_signs(void **s) {
    (void)s;
    static const char *const odd[] = {"tanh", "erf", "log1p"};
    float zero[] = {0.0f, -0.0f}, got[2];
    for (int i = 0; i < 3; i++) {
        emit_jit_math_fn(jit, odd[i])(got, zero, 2);
        assert_int_equal(bits_of(got[0]), bits_of(0.0f));
        assert_int_equal(bits_of(got[1]), bits_of(-0.0f));
    }
}

int main(void) {
    jit = emit_jit_math();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),      cmocka_unit_test(test_log),   cmocka_unit_test(test_log1p),
        cmocka_unit_test(test_sigmoid),  cmocka_unit_test(test_tanh),  cmocka_unit_test(test_erf),
        cmocka_unit_test(test_softplus), cmocka_unit_test(test_signs), cmocka_unit_test(test_bf16),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    emit_jit_free(jit);
    return failed;
}
