/* What `check` counts with: distinct values, frequent values, AUC of a column alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/check.h"
#include "runtime/tally.h"

static uint64_t next(uint64_t *s) {
    *s = *s * 6364136223846793005ull + 1442695040888963407ull;
    return *s >> 33;
}

/* ---- HyperLogLog ---- */

static void test_hll_is_near_at_every_size(void **state) {
    (void)state;
    static const double sizes[] = {1, 10, 100, 1000, 5000, 20000, 50000, 100000, 1000000, 10000000};
    static RtHll h;
    double done = 0;
    memset(&h, 0, sizeof h);
    assert_true(rt_hll_count(&h) == 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (; done < sizes[i]; done++) {
            rt_hll_add(&h, rt_mixed((uint64_t)done + 12345));
            rt_hll_add(&h, rt_mixed((uint64_t)done + 12345)); /* a second time changes nothing */
        }
        double error = fabs(rt_hll_count(&h) - sizes[i]) / sizes[i];
        if (error > 4 * 0.0081) fail_msg("%.0f values: counted %.1f", sizes[i], rt_hll_count(&h));
    }
}

/* Over many sets the error is as small as the paper says, and on neither side. */
static void test_hll_error(void **state) {
    (void)state;
    static RtHll h;
    enum { SETS = 60, N = 40000 };
    double sum = 0, squares = 0;
    for (uint64_t set = 0; set < SETS; set++) {
        memset(&h, 0, sizeof h);
        for (uint64_t i = 0; i < N; i++) rt_hll_add(&h, rt_mixed(set << 40 | i));
        double e = rt_hll_count(&h) / N - 1;
        sum += e;
        squares += e * e;
    }
    assert_true(sqrt(squares / SETS) < 0.011);
    assert_true(fabs(sum / SETS) < 0.004);
}

/* ---- tally ---- */

static void add_text(RtTally *t, uint64_t key, const char *text) { rt_tally_add(t, key, text, strlen(text)); }

static void test_tally_counts_exactly(void **state) {
    (void)state;
    RtTally t;
    RtTallyValue top[3];
    char text[32];
    rt_tally_init(&t, 0);
    for (uint64_t i = 1; i <= 300; i++) /* value i occurs i times */
        for (uint64_t k = 0; k < i; k++) {
            snprintf(text, sizeof text, "v%llu", (unsigned long long)i);
            add_text(&t, i * 0x9e3779b97f4a7c15ull, text);
        }
    assert_true(rt_tally_exact(&t));
    assert_true(rt_tally_distinct(&t) == 300);
    assert_int_equal(rt_tally_top(&t, top, 3), 3);
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "v%d", 300 - i);
        assert_int_equal(top[i].n, 300 - i);
        assert_int_equal(top[i].bytes, 4);
        assert_memory_equal(rt_tally_text(&t, &top[i]), text, 4);
    }
    rt_tally_free(&t);
}

static void test_tally_keeps_the_beginning_of_long_texts(void **state) {
    (void)state;
    RtTally t;
    RtTallyValue top[1];
    char text[100];
    memset(text, 'x', sizeof text);
    rt_tally_init(&t, 0);
    rt_tally_add(&t, 1, text, sizeof text);
    rt_tally_add(&t, 0, NULL, 0); /* a key of 0, no text */
    assert_int_equal(rt_tally_top(&t, top, 1), 1);
    assert_int_equal(top[0].key, 0); /* of equal counts the smaller key */
    rt_tally_add(&t, 1, text, sizeof text);
    assert_int_equal(rt_tally_top(&t, top, 1), 1);
    assert_int_equal(top[0].bytes, RT_TALLY_TEXT);
    assert_true(top[0].cut);
    rt_tally_free(&t);
}

/* A value that first comes when the map is full, and often then, is found; its count is not too large and too
 * small by little. */
static void test_tally_finds_late_values(void **state) {
    (void)state;
    enum { MANY = 300000, OFTEN = 20000 };
    RtTally t;
    RtTallyValue top[3];
    rt_tally_init(&t, 1);
    for (uint64_t i = 0; i < RT_TALLY_EXACT; i++) add_text(&t, i + 1, "early");
    assert_true(rt_tally_exact(&t));
    assert_true(rt_tally_add(&t, 7, "early", 5) != t.late);
    for (uint64_t i = 0; i < MANY; i++) {
        assert_true(rt_tally_add(&t, 1000000 + i, "rare", 4) == t.late);
        if (i % (MANY / OFTEN) == 0) add_text(&t, 99, "early"), add_text(&t, 5000000000, "late");
    }
    assert_false(rt_tally_exact(&t));
    double distinct = RT_TALLY_EXACT + MANY + 1;
    assert_true(fabs(rt_tally_distinct(&t) / distinct - 1) < 0.035);
    rt_tally_top(&t, top, 3);
    assert_int_equal(top[0].key, 99);
    assert_int_equal(top[0].n, OFTEN + 1);
    assert_true(top[1].key == 5000000000);
    assert_memory_equal(rt_tally_text(&t, &top[1]), "late", 4);
    assert_true(top[1].n <= OFTEN && top[1].n + (MANY + OFTEN) / (RT_TALLY_REST / 2) >= OFTEN);
    rt_tally_free(&t);
}

/* ---- AUC ---- */

/* Every pair compared, by the definition in the header. */
static double slow_auc(int n, const int *value, const int *y, const int *half, int values) {
    double sum = 0;
    for (int learn = 0; learn < 2; learn++) {
        double rows = 0, positives = 0, good = 0, pairs = 0, *score = calloc((size_t)values, sizeof *score);
        double *seen = calloc((size_t)values, sizeof *seen), *ones = calloc((size_t)values, sizeof *ones);
        for (int i = 0; i < n; i++)
            if (half[i] == learn) rows++, positives += y[i], seen[value[i]]++, ones[value[i]] += y[i];
        for (int v = 0; v < values; v++) score[v] = (ones[v] + positives / rows) / (seen[v] + 1);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                if (half[i] == learn || half[j] == learn || !y[i] || y[j]) continue;
                double a = score[value[i]], b = score[value[j]];
                pairs++;
                good += a > b ? 1 : a == b ? 0.5 : 0;
            }
        sum += good / pairs;
        free(score);
        free(seen);
        free(ones);
    }
    return sum / 2;
}

static void test_auc_of_values(void **state) {
    (void)state;
    enum { N = 400, VALUES = 12 };
    uint64_t s = 5;
    for (int round = 0; round < 10; round++) {
        int value[N], y[N], half[N];
        RtTally t;
        rt_tally_init(&t, 2);
        for (int i = 0; i < N; i++) {
            value[i] = (int)(next(&s) % VALUES);
            half[i] = (int)(next(&s) & 1);
            y[i] = next(&s) % 100 < 5 + 7 * (uint64_t)value[i];
            uint64_t *part = value[i] ? rt_tally_add(&t, (uint64_t)value[i], NULL, 0) : t.none;
            rt_tally_row(part, half[i], 2, (unsigned)y[i] << 1); /* the second of two labels */
        }
        assert_true(fabs(rt_tally_auc(&t, 1) - slow_auc(N, value, y, half, VALUES)) < 1e-12);
        assert_true(isnan(rt_tally_auc(&t, 0))); /* the first is never positive */
        rt_tally_free(&t);
    }
}

/* Values that occur once tell nothing, whatever label they happen to have. */
static void test_auc_is_not_fooled_by_ids(void **state) {
    (void)state;
    uint64_t s = 9;
    RtTally t;
    rt_tally_init(&t, 1);
    for (uint64_t i = 0; i < 5000; i++)
        rt_tally_row(rt_tally_add(&t, i, NULL, 0), (int)(next(&s) & 1), 1, next(&s) % 3 == 0);
    assert_true(fabs(rt_tally_auc(&t, 0) - 0.5) < 1e-9);
    rt_tally_free(&t);
}

/* ---- a column of numbers, with more values than the map holds ---- */

static void test_numbers_beyond_the_map(void **state) {
    (void)state;
    enum { ROWS = 400000, BLOCK = 1000 };
    RtColumn column = {.name = "x", .kind = RT_FLOAT};
    RtCheckColumn c = {.c = &column, .label = -1};
    static float x[BLOCK];
    static uint64_t key[BLOCK];
    static uint32_t one[BLOCK], positive[BLOCK];
    static uint8_t half[BLOCK];
    uint64_t s = 3;
    rt_check_column_init(&c, 1);
    for (int from = 0; from < ROWS; from += BLOCK) {
        for (int i = 0; i < BLOCK; i++) {
            x[i] = (float)next(&s) / 0x1p31f;
            key[i] = rt_check_number_key(&column, &(RtValues){.n = 1, .real = x}, (uint32_t)i);
            one[i] = 1;
            half[i] = next(&s) & 1;
            positive[i] = x[i] > 0.9f;
        }
        rt_check_column_add(&c, &(RtCheckValues){.key = key, .count = one, .total = one}, BLOCK, half,
                            positive);
    }
    assert_int_equal(c.rows, ROWS);
    assert_int_equal(c.filled, ROWS);
    assert_non_null(c.bins);
    assert_true(c.min >= 0 && c.min < 1e-4 && c.max > 0.9999 && c.max <= 1);
    assert_true(fabs(rt_check_quantile(&c, 0.5) - 0.5) < 0.005);
    assert_true(fabs(rt_check_quantile(&c, 0.1) - 0.1) < 0.005);
    assert_true(rt_check_auc(&c, 0) > 0.999); /* x alone gives the label away */
    rt_check_column_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hll_is_near_at_every_size),
        cmocka_unit_test(test_hll_error),
        cmocka_unit_test(test_tally_counts_exactly),
        cmocka_unit_test(test_tally_keeps_the_beginning_of_long_texts),
        cmocka_unit_test(test_tally_finds_late_values),
        cmocka_unit_test(test_auc_of_values),
        cmocka_unit_test(test_auc_is_not_fooled_by_ids),
        cmocka_unit_test(test_numbers_beyond_the_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
