/* Numbers against strtof and strtoll, FarmHash against its reference, the remainder without division. */
#include "reader_fixture.h"
#include "runtime/reader_internal.h"
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>

static uint64_t seed = 88172645463325252u;
static uint64_t next(void) { /* xorshift64 */
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static void check_float(const char *text) {
    float want = strtof(text, NULL), got = -12345;
    char tight[2000]; /* exactly as long, so that reading past the end shows */
    size_t n = strlen(text);
    memcpy(tight + sizeof tight - n, text, n);
    RtNumber result = rt_parse_float(tight + sizeof tight - n, n, &got);
    if (isinf(want)) {
        if (result != RT_NUMBER_RANGE) fail_msg("%s: expected out of range", text);
        return;
    }
    if (result != RT_NUMBER_OK || memcmp(&got, &want, 4))
        fail_msg("%s: expected %.9g, found %.9g (%d)", text, (double)want, (double)got, result);
}

static void test_floats_as_written(void **state) {
    (void)state;
    char text[400];
    for (int i = 0; i < 300000; i++) {
        uint64_t bits = next();
        double d;
        float f;
        memcpy(&d, &bits, 8);
        memcpy(&f, &bits, 4);
        if (isfinite(f)) {
            snprintf(text, sizeof text, "%.9g", (double)f);
            check_float(text);
            snprintf(text, sizeof text, "%.*g", (int)(bits % 17) + 1, (double)f);
            check_float(text);
        }
        double plain = (double)(int64_t)bits / (double)(1ull << (bits % 63));
        snprintf(text, sizeof text, "%.*f", (int)(bits >> 32) % 12 & 15, plain);
        check_float(text);
        if (isfinite(d)) {
            snprintf(text, sizeof text, "%.17g", d);
            check_float(text);
        }
        snprintf(text, sizeof text, "%" PRIu64 "e%d", bits >> (bits & 63), (int)(next() % 120) - 70);
        check_float(text);
        snprintf(text, sizeof text, "%" PRIu64 ".%" PRIu64, next() >> (bits & 63),
                 next() >> (bits >> 8 & 63));
        check_float(text);
    }
}

/* Half way between two floats, exactly and by a hair to either side: to even, down, up. */
static void test_floats_half_way(void **state) {
    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint32_t bits = (uint32_t)next() & 0x7fffffff;
        float f;
        memcpy(&f, &bits, 4);
        if (!isfinite(f)) continue;
        double middle = ((double)f + (double)nextafterf(f, INFINITY)) / 2;
        if (!isfinite(middle)) continue;
        char text[400], longer[500];
        snprintf(text, sizeof text, "%.200f", middle);
        if (fabs(middle) < 1e-20) snprintf(text, sizeof text, "%.120e", middle);
        check_float(text);
        char *e = strchr(text, 'e');
        snprintf(longer, sizeof longer, "%.*s0000000001%s", (int)(e ? e - text : (long)strlen(text)), text,
                 e ? e : "");
        check_float(longer);
        char *last = e ? e - 1 : text + strlen(text) - 1; /* one unit less at the end, however far that is */
        while (*last == '0' || *last == '.') *last = *last == '.' ? '.' : '9', last--;
        --*last;
        check_float(text);
    }
    for (int i = 0; i < 200000; i++) { /* so near half way that the nearest double is just that */
        float f = (float)(next() >> 40) * 0x1p-24f;
        char text[40];
        snprintf(text, sizeof text, "%.14f", ((double)f + (double)nextafterf(f, 1)) / 2);
        check_float(text);
    }
    check_float("16777217");
    check_float("16777219");
    check_float("16777217.0000000000000000000000000000001");
    check_float("0.000000000000000000000000000000000000011754943508222875");
    check_float("1.401298464324817e-45");
    check_float("7.006492321624085e-46");
    check_float("7.0064923216240853546186479164495806564013097093825788587853e-46");
    check_float("3.4028235677973366e38");
    check_float("3.4028235677973365e38");
    check_float("1e-400");
    check_float("0e999999999999");
    check_float("1e999999999999");
    check_float("-0");
    char zeros[1500];
    memset(zeros, '0', sizeof zeros);
    memcpy(zeros, "0.", 2);
    strcpy(zeros + 1400, "5e1399");
    check_float(zeros);
}

static void test_not_numbers(void **state) {
    (void)state;
    const char *bad[] = {"",      "-",     "+",     ".",   "-.",  "e5",   "1e",  "1e+",
                         "1.2.3", "1,5",   "0x10",  "inf", "nan", "-inf", "1 2", "--1",
                         "1-",    "1e5.0", "1_000", "12a", "..",  "1f",   "NaN"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        float f;
        int64_t n;
        if (rt_parse_float(bad[i], strlen(bad[i]), &f) != RT_NUMBER_BAD)
            fail_msg("'%s' is no number", bad[i]);
        if (rt_parse_int(bad[i], strlen(bad[i]), &n) != RT_NUMBER_BAD)
            fail_msg("'%s' is no whole number", bad[i]);
    }
}

static void test_ints(void **state) {
    (void)state;
    char text[64];
    int64_t n;
    for (int i = 0; i < 100000; i++) {
        int64_t want = (int64_t)next() >> (next() & 63);
        int len = snprintf(text, sizeof text, "%" PRId64, want);
        assert_int_equal(rt_parse_int(text, (size_t)len, &n), RT_NUMBER_OK);
        assert_true(n == want);
    }
    assert_int_equal(rt_parse_int("9223372036854775807", 19, &n), RT_NUMBER_OK);
    assert_int_equal(rt_parse_int("9223372036854775808", 19, &n), RT_NUMBER_RANGE);
    assert_int_equal(rt_parse_int("-9223372036854775808", 20, &n), RT_NUMBER_OK);
    assert_true(n == INT64_MIN);
    assert_int_equal(rt_parse_int("-9223372036854775809", 20, &n), RT_NUMBER_RANGE);
    assert_int_equal(rt_parse_int("99999999999999999999999", 23, &n), RT_NUMBER_RANGE);
    assert_int_equal(rt_parse_int("+0012", 5, &n), RT_NUMBER_OK);
    assert_true(n == 12);
    assert_int_equal(rt_parse_int("3.0", 3, &n), RT_NUMBER_BAD);
}

/* Values of the reference implementation (farmhash::Fingerprint64), for beginnings of one text. */
static void test_farm64(void **state) {
    (void)state;
    static const struct {
        size_t n;
        uint64_t hash;
    } known[] = {
        {0, 0x9ae16a3b2f90404fu},   {1, 0x9b9bea4a229003cfu},   {2, 0x20555aec0051be59u},
        {3, 0x3ad05575511f9ca1u},   {4, 0x3ac09431d1117015u},   {7, 0x5aec9e66e4bdf19au},
        {8, 0x6dda674d51c20f19u},   {9, 0xc643545ec1c9c1aau},   {15, 0x8e83d32dd16bb1b8u},
        {16, 0xfe6f5badee5c13dbu},  {17, 0x7677caec6d8269dcu},  {24, 0x4727d78fbeb62059u},
        {31, 0x3d32855f4e3f834au},  {32, 0x10fbe5831b13134bu},  {33, 0x8e505e5ccfeb8854u},
        {48, 0x78dbad2dc56813bdu},  {63, 0xc6780db7ce7c17d0u},  {64, 0xd7dc143fa6461ea6u},
        {65, 0x054954c778f978c5u},  {100, 0x82495e4c6d0bea9eu}, {127, 0x3964d3d9022b9560u},
        {128, 0xa76b9371c4174318u}, {129, 0xa2032750c4974930u}, {200, 0x0c83151b342d0703u},
        {300, 0x7be036d2f918dae2u},
    };
    char text[300];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(33 + (i * 7 + 3) % 90);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char *tight = malloc(known[i].n + 1); /* so that reading past the end shows */
        memcpy(tight, text, known[i].n);
        if (rt_farm64(tight, known[i].n) != known[i].hash)
            fail_msg("%zu bytes: found %016" PRIx64, known[i].n, rt_farm64(tight, known[i].n));
        free(tight);
    }
    assert_true(rt_farm64("hello", 5) == 13009744463427800296u);
}

static void test_mod(void **state) {
    (void)state;
    for (int i = 0; i < 200000; i++) {
        uint32_t d = (uint32_t)(next() >> 32 >> (next() & 31));
        uint64_t x = next() >> (next() & 63);
        if (!d) d = 1;
        if (i % 5 == 0) x = UINT64_MAX - (next() & 3);
        if (i % 7 == 0) x = x / d * d - (i & 1);
        if (rt_mod(x, rt_mod_new(d)) != x % d) fail_msg("%" PRIu64 " mod %u", x, d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats_as_written),
        cmocka_unit_test(test_floats_half_way),
        cmocka_unit_test(test_not_numbers),
        cmocka_unit_test(test_ints),
        cmocka_unit_test(test_farm64),
        cmocka_unit_test(test_mod),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
