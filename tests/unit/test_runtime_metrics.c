/* Metrics against their definitions, computed the slow way, and against values worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "runtime/metrics.h"
#include "runtime_fixture.h"

enum { AUC, LOGLOSS, GAUC, PCOC, ACCURACY }; /* order in the fixture */

static double value(int metric, uint32_t n, const float *p, const float *y, const float *where,
                    const uint64_t *by, const char **why) {
    RtModel *m = fix_model(FIX_USERS_SMALL);
    RtMetrics *s = rt_metrics_new(m);
    /* in two parts, so that collecting is seen too */
    rt_metrics_add(s, metric, n / 3, p, y, where, by);
    uint32_t k = n / 3;
    rt_metrics_add(s, metric, n - k, p + k, y + k, where ? where + k : NULL, by ? by + k : NULL);
    double v;
    bool ok = rt_metrics_value(s, metric, &v, why);
    assert_true(ok == (*why == NULL));
    assert_true(ok || isnan(v));
    rt_metrics_free(s);
    rt_model_free(m);
    return v;
}

static double slow_auc(uint32_t n, const float *p, const float *y, const uint64_t *by, uint64_t group,
                       uint32_t *rows) {
    double good = 0, pairs = 0;
    *rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (by && by[i] != group) continue;
        ++*rows;
        for (uint32_t j = 0; j < n; j++) {
            if ((by && by[j] != group) || y[i] != 1 || y[j] != 0) continue;
            pairs++;
            good += p[i] > p[j] ? 1 : p[i] == p[j] ? 0.5 : 0;
        }
    }
    return pairs ? good / pairs : -1;
}

static uint32_t next(uint32_t *s) { return *s = *s * 1664525u + 1013904223u, *s >> 8; }

static void test_auc_against_pairs(void **state) {
    (void)state;
    uint32_t seed = 1;
    for (int round = 0; round < 30; round++) {
        enum { N = 400 };
        float p[N], y[N];
        uint64_t by[N];
        const char *why;
        uint32_t levels = round % 3 == 0 ? 7 : 100000; /* few levels: many ties */
        for (int i = 0; i < N; i++) {
            p[i] = ((float)(next(&seed) % levels) / (float)levels - 0.5f) * (round % 2 ? 1 : 1e-3f);
            y[i] = next(&seed) % 3 == 0;
            by[i] = (next(&seed) % 40) * 0x123456789abcdefu;
        }
        uint32_t rows;
        assert_true(fabs(value(AUC, N, p, y, NULL, NULL, &why) - slow_auc(N, p, y, NULL, 0, &rows)) < 1e-12);
        double sum = 0, weight = 0;
        for (uint64_t g = 0; g < 40; g++) {
            double a = slow_auc(N, p, y, by, g * 0x123456789abcdefu, &rows);
            if (a >= 0) sum += a * rows, weight += rows;
        }
        assert_true(fabs(value(GAUC, N, p, y, NULL, by, &why) - sum / weight) < 1e-12);
    }
}

static void test_known_values(void **state) {
    (void)state;
    const char *why;
    /* positives 0.8 0.4 0.4, negatives 0.4 0.1: pairs 1+1 + 0.5+1 + 0.5+1 of 6 */
    float p[] = {0.8f, 0.4f, 0.4f, 0.4f, 0.1f}, y[] = {1, 1, 1, 0, 0};
    assert_float_equal(value(AUC, 5, p, y, NULL, NULL, &why), 5.0 / 6, 1e-15);
    float where[] = {1, 0, 0, 1, 1};
    assert_float_equal(value(AUC, 5, p, y, where, NULL, &why), 1, 0);
    assert_float_equal(value(ACCURACY, 5, p, y, NULL, NULL, &why), 3.0 / 5, 1e-15);
    assert_float_equal(value(PCOC, 5, p, y, NULL, NULL, &why), 0.7, 1e-6);
    double ll = -(log(0.8) + 2 * log(0.4) + log(0.6) + log(0.9)) / 5;
    assert_float_equal(value(LOGLOSS, 5, p, y, NULL, NULL, &why), ll, 1e-7);
    float sure[] = {1, 0, 1}, wrong[] = {0, 1, 1};
    assert_float_equal(value(LOGLOSS, 3, sure, wrong, NULL, NULL, &why), -2 * log(1e-7) / 3, 1e-6);
    float zeros[] = {-0.0f, 0.0f}, two[] = {1, 0};
    assert_float_equal(value(AUC, 2, zeros, two, NULL, NULL, &why), 0.5, 0);
    /* a label of 0.25 is a quarter of a positive */
    float q[] = {0.9f, 0.1f}, part[] = {0.25f, 0};
    assert_float_equal(value(AUC, 2, q, part, NULL, NULL, &why), (0.25 * (1 + 0.375)) / (0.25 * 1.75), 1e-15);
}

static void test_normalized_entropy(void **state) {
    (void)state;
    RtModel *m = fix_model(FIX_USERS_SMALL);
    RtMetrics *s = rt_metrics_new(m);
    float rate[] = {0.25f, 0.25f, 0.25f, 0.25f}, y[] = {1, 0, 0, 0}, ones[] = {1, 1, 1, 1};
    assert_true(isnan(rt_metrics_normalized_entropy(s, LOGLOSS))); /* no rows */
    rt_metrics_add(s, LOGLOSS, 4, rate, y, NULL, NULL);
    rt_metrics_add(s, AUC, 4, rate, y, NULL, NULL);
    assert_float_equal(rt_metrics_normalized_entropy(s, LOGLOSS), 1,
                       1e-12); /* who says the rate has learnt nothing */
    assert_true(isnan(rt_metrics_normalized_entropy(s, AUC)));
    rt_metrics_reset(s);
    rt_metrics_add(s, LOGLOSS, 4, rate, ones, NULL, NULL);
    assert_true(isnan(rt_metrics_normalized_entropy(s, LOGLOSS))); /* nothing to learn */
    rt_metrics_free(s);
    rt_model_free(m);
}

/* Sums go on from a checkpoint that has seen 2^33 rows: no count is one of 32 bits. */
static void test_many_rows_before(void **state) {
    (void)state;
    RtModel *m = fix_model(FIX_USERS_SMALL);
    RtMetrics *s = rt_metrics_new(m);
    const double rows = 0x1p33;
    float p[] = {0.5f, 0.5f}, y[] = {1, 0};
    RtMetricSums sums = {
        .rows = 1ull << 33, .p = rows / 4, .y = rows / 8, .loss = rows / 2, .right = rows * 3 / 4};
    const int made_of_sums[] = {LOGLOSS, PCOC, ACCURACY};
    for (int i = 0; i < 3; i++) {
        const char *why;
        double v, want[] = {(rows / 2 + 2 * log(2)) / (rows + 2), (rows / 4 + 1) / (rows / 8 + 1),
                            (rows * 3 / 4 + 1) / (rows + 2)};
        rt_metrics_restore(s, made_of_sums[i], &sums);
        rt_metrics_add(s, made_of_sums[i], 2, p, y, NULL, NULL);
        assert_true(rt_metrics_value(s, made_of_sums[i], &v, &why));
        assert_float_equal(v, want[i], 1e-14);
        RtMetricSums out;
        assert_true(rt_metrics_sums(s, made_of_sums[i], &out));
        assert_true(out.rows == (1ull << 33) + 2);
    }
    rt_metrics_free(s);
    rt_model_free(m);
}

static void test_undefined(void **state) {
    (void)state;
    const char *why;
    float p[] = {0.8f, 0.4f, NAN}, ones[] = {1, 1, 1}, zeros[] = {0, 0, 0};
    uint64_t by[] = {1, 2, 3};
    value(AUC, 2, p, ones, NULL, NULL, &why);
    assert_string_equal(why, "all labels are alike");
    value(GAUC, 2, p, ones, NULL, by, &why);
    assert_string_equal(why, "no group has both labels");
    value(PCOC, 2, p, zeros, NULL, NULL, &why);
    assert_string_equal(why, "no label is above 0");
    value(LOGLOSS, 0, p, ones, NULL, NULL, &why);
    assert_string_equal(why, "no rows");
    value(AUC, 3, p, ones, NULL, NULL, &why);
    assert_string_equal(why, "a prediction is not finite");
}

static void test_many_rows(void **state) {
    (void)state;
    enum { N = 300000 };
    float *p = malloc(N * sizeof *p), *y = malloc(N * sizeof *y);
    for (int i = 0; i < N; i++) p[i] = (float)((i * 7919LL) % N) / N, y[i] = (i * 7919LL) % N >= N / 2;
    const char *why;
    assert_float_equal(value(AUC, N, p, y, NULL, NULL, &why), 1, 0);
    for (int i = 0; i < N; i++) p[i] = 0.5f;
    assert_float_equal(value(AUC, N, p, y, NULL, NULL, &why), 0.5, 0);
    free(p);
    free(y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auc_against_pairs),  cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_normalized_entropy), cmocka_unit_test(test_many_rows_before),
        cmocka_unit_test(test_undefined),          cmocka_unit_test(test_many_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
