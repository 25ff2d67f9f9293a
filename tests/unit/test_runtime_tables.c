/* Storage of weights: first touch, evaluation without storing, large tables, catching up, initial values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "runtime/optimizer.h"
#include "runtime/tables.h"
#include "runtime_fixture.h"

static RtTables *tables(const RtModel *m, uint64_t seed) {
    char err[300] = "";
    RtTables *t = rt_tables_new(m, seed, err, sizeof err);
    if (!t) fail_msg("%s", err);
    return t;
}

/* ---- initial values ---- */

static RtWeight weight(const char *name, const char *init, double arg, int64_t rows, int64_t cols) {
    return (RtWeight){.name = name,
                      .rank = 2,
                      .dim = {rows, cols},
                      .size = (uint64_t)(rows * cols),
                      .init = init,
                      .init_arg = arg};
}

static void moments(const RtWeight *w, double *mean, double *sd, double *lo, double *hi) {
    float *v = malloc(w->size * sizeof *v);
    rt_init_values(w, 1, 0, w->size, v);
    double sum = 0, sq = 0;
    *lo = INFINITY, *hi = -INFINITY;
    for (uint64_t i = 0; i < w->size; i++) {
        sum += v[i], sq += (double)v[i] * v[i];
        *lo = fmin(*lo, v[i]), *hi = fmax(*hi, v[i]);
    }
    *mean = sum / (double)w->size;
    *sd = sqrt(sq / (double)w->size - *mean * *mean);
    free(v);
}

static void test_distributions(void **state) {
    (void)state;
    static const struct {
        const char *init;
        double arg, sd, bound;
    } cases[] = {
        {"uniform", 0.3, 0.3 / 1.7320508, 0.3},
        {"normal", 0.5, 0.5, 0.5 * 5.2},
        {"truncated_normal", 0.5, 0.5 * 0.87962566, 1.0},
        {"glorot_uniform", 0, 0.0866025, 0.15}, /* sqrt(6 / (200 + 66.667)) = 0.15: fans 200 and 66 below */
        {"glorot_normal", 0, 0, 0},
        {"he_normal", 0, 0.1, 0.1 / 0.87962566 * 2},
        {"constant", 0.25, 0, 0.25},
        {"ones", 0, 0, 1},
        {"zeros", 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RtWeight w = weight("w", cases[i].init, cases[i].arg, 200, 66);
        double mean, sd, lo, hi, want = cases[i].sd, bound = cases[i].bound;
        if (!strcmp(cases[i].init, "glorot_uniform")) bound = sqrt(6.0 / 266), want = bound / sqrt(3);
        if (!strcmp(cases[i].init, "glorot_normal")) want = sqrt(2.0 / 266), bound = 2 * want / 0.87962566;
        moments(&w, &mean, &sd, &lo, &hi);
        bool fixed = !strcmp(cases[i].init, "constant") || !strcmp(cases[i].init, "ones");
        assert_true(fabs(mean - (fixed ? bound : 0)) < 0.02 * (want + 1e-9));
        assert_true(fabs(sd - want) <= 0.02 * want + 1e-7);
        assert_true(lo >= -bound - 1e-6 && hi <= bound + 1e-6);
        if (want > 0 && strcmp(cases[i].init, "normal")) assert_true(hi > 0.99 * bound);
    }
}

/* A row alone is what the whole weight has there; another name or seed gives other values. */
static void test_elements_are_independent(void **state) {
    (void)state;
    RtWeight w = weight("deep.w", "normal", 1, 50, 8), other = weight("deep.w2", "normal", 1, 50, 8);
    float all[400], row[8], named[8], seeded[8];
    rt_init_values(&w, 9, 0, 400, all);
    rt_init_values(&w, 9, 17 * 8, 8, row);
    assert_memory_equal(row, all + 17 * 8, sizeof row);
    rt_init_values(&other, 9, 17 * 8, 8, named);
    rt_init_values(&w, 10, 17 * 8, 8, seeded);
    for (int i = 0; i < 8; i++) {
        assert_true(named[i] != row[i]);
        assert_true(seeded[i] != row[i]);
    }
}

/* The inverse of the normal distribution against its known quantiles, through a weight's many elements: the
 * share below each quantile must be right. */
static void test_normal_shares(void **state) {
    (void)state;
    RtWeight w = weight("n", "normal", 1, 1000, 1000);
    float *v = malloc(w.size * sizeof *v);
    rt_init_values(&w, 3, 0, w.size, v);
    static const double at[] = {-3, -2, -1, 0, 0.5, 1, 2, 3};
    for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
        double share = 0, want = 0.5 * erfc(-at[k] / sqrt(2));
        for (uint64_t i = 0; i < w.size; i++) share += v[i] < at[k];
        share /= (double)w.size;
        assert_true(fabs(share - want) < 5 * sqrt(want * (1 - want) / (double)w.size));
    }
    free(v);
}

/* ---- rows ---- */

typedef struct {
    RtTableBatch b;
    uint32_t id[8], slot[8];
} Batch;
static Batch batch(RtTables *t, int w, bool create, int n, const uint32_t *ids) {
    Batch x = {.b = {.n = (uint32_t)n}};
    for (int i = 0; i < n; i++) {
        x.id[i] = ids[i];
        x.slot[i] = rt_tables_slot(t, w, ids[i], create);
    }
    return x;
}
#define BIND(x) ((x).b.id = (x).id, (x).b.slot = (x).slot, &(x).b)
#define IDS(...)                                                                                             \
    (sizeof((uint32_t[]){__VA_ARGS__}) / 4), (uint32_t[]) { __VA_ARGS__ }

static void first_touch(const char *users) {
    RtModel *m = fix_model(users);
    RtTables *t = tables(m, 5);
    float want[2], got[4], after[4];
    RtTableBatch bs[3] = {0};
    Batch b = batch(t, FIX_USERS, true, IDS(7, 3));
    rt_init_values(&m->weights[FIX_USERS], 5, 14, 2, want);
    rt_tables_before_step(t, 1, bs);
    rt_tables_fetch(t, BIND(b), FIX_USERS, 0, 2, got, true, 1);
    assert_memory_equal(got, want, sizeof want);
    /* an update of row 7 only */
    RtStep s;
    rt_tables_bind(t, &s);
    float *row = ((float **)s.table_rows)[FIX_USERS] + b.slot[0] * 4;
    assert_float_equal(row[2], 0.1, 1e-7); /* adagrad's accumulator starts at init */
    row[0] = 42, row[2] = 9;
    rt_tables_touch(t, &b.b, FIX_USERS, 0, 1, 1);
    rt_tables_after_step(t, 1);
    /* evaluation: the touched row from storage, others computed, also of ids never met */
    Batch e = batch(t, FIX_USERS, false, IDS(7, 3, 99));
    float seen[6];
    rt_tables_fetch(t, BIND(e), FIX_USERS, 0, 3, seen, false, 0);
    assert_float_equal(seen[0], 42, 0);
    rt_init_values(&m->weights[FIX_USERS], 5, 6, 2, want);
    assert_memory_equal(seen + 2, want, sizeof want);
    rt_init_values(&m->weights[FIX_USERS], 5, 198, 2, want);
    assert_memory_equal(seen + 4, want, sizeof want);
    uint64_t n;
    uint32_t *ids = rt_tables_touched_ids(t, FIX_USERS, &n);
    assert_int_equal(n, 1);
    assert_int_equal(ids[0], 7);
    free(ids);
    rt_tables_get_row(t, FIX_USERS, 7, 1, after);
    assert_float_equal(after[0], 9, 0);
    rt_tables_get_row(t, FIX_USERS, 99, 1, after);
    assert_float_equal(after[0], 0.1, 1e-7);
    rt_tables_free(t);
    rt_model_free(m);
}
static void test_first_touch_small(void **state) {
    (void)state;
    first_touch(FIX_USERS_SMALL);
}
static void test_first_touch_large(void **state) {
    (void)state;
    first_touch(FIX_USERS_LARGE);
}

/* Storage rows are given out in the order in which ids are first met; looking up gives out none. */
static void slots_as_met(const char *users, uint32_t n, uint32_t step) {
    RtModel *m = fix_model(users);
    RtTables *t = tables(m, 1);
    uint32_t rows = (uint32_t)m->weights[FIX_USERS].dim[0], last = rows - 1;
    assert_int_equal(rt_tables_is_large(t, FIX_USERS), rows > RT_MAPPED_ROWS);
    uint32_t *id = malloc(n * sizeof *id), *slot = malloc(n * sizeof *slot);
    for (uint32_t i = 0; i < n; i++) id[i] = (uint32_t)((uint64_t)i * step % last);
    rt_tables_slots(t, FIX_USERS, id, n, false, slot);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(slot[i], RT_NO_ID);
    for (uint32_t i = 0; i < n / 2; i++) assert_int_equal(rt_tables_slot(t, FIX_USERS, id[i], true), i);
    rt_tables_slots(t, FIX_USERS, id, n, true, slot);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(slot[i], i);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(rt_tables_slot(t, FIX_USERS, id[i], false), i);
    assert_int_equal(rt_tables_slot(t, FIX_USERS, last, false), RT_NO_ID);
    assert_true(rt_tables_bytes(t) < 4000000);
    float v[2] = {1, 2}, got[2];
    rt_tables_put_row(t, FIX_USERS, last, 0, v);
    rt_tables_get_row(t, FIX_USERS, last, 0, got);
    assert_memory_equal(v, got, sizeof v);
    assert_int_equal(rt_tables_slot(t, FIX_USERS, last, false), n);
    free(id);
    free(slot);
    rt_tables_free(t);
    rt_model_free(m);
}
static void test_slots_mapped(void **state) {
    (void)state;
    slots_as_met(FIX_USERS_SMALL, 900, 7);
}
static void test_slots_hashed(void **state) {
    (void)state;
    slots_as_met(FIX_USERS_LARGE, 50000, 1999);
}

/* Without slots: rows and whole weights read as written, in less memory. */
static void test_fixed(void **state) {
    (void)state;
    RtModel *m = fix_model(FIX_USERS_LARGE);
    char err[400];
    RtTables *both[] = {tables(m, 5), rt_tables_new_fixed(m, 5, err, sizeof err)};
    assert_non_null(both[1]);
    uint64_t bytes[2];
    float put[2] = {3, 4}, got[2][6];
    for (int k = 0; k < 2; k++) {
        for (uint32_t id = 0; id < 1000; id++) rt_tables_put_row(both[k], FIX_USERS, 7 * id, 0, put);
        rt_tables_loaded(both[k], 12);
        Batch e = batch(both[k], FIX_USERS, false, IDS(7, 3, 14));
        rt_tables_fetch(both[k], BIND(e), FIX_USERS, 0, 3, got[k], false, 0);
        bytes[k] = rt_tables_bytes(both[k]);
        rt_tables_free(both[k]);
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    assert_float_equal(got[1][5], 4, 0);
    assert_true(bytes[1] + 1000 * sizeof put <= bytes[0]);
    rt_model_free(m);
}

/* ---- catching up ---- */

static const char ada_opt[] =
    "\"kind\":\"adagrad\",\"lr\":{\"kind\":\"warmup\",\"steps\":10,\"then\":{\"kind\":\"const\",\"lr\":0.1}},"
    "\"clip_norm\":0,\"l2\":0,\"momentum\":0,\"init\":0.1,\"rate\":0,\"every\":0,\"beta1\":0,\"beta2\":0,"
    "\"eps\":0,"
    "\"rho\":0,\"l1\":0,\"l2_ftrl\":0,\"exact\":false";

static RtModel *model_with(const char *opt, bool two_slots) {
    char *s = fix_description_with(FIX_USERS_LARGE, ada_opt, opt);
    if (two_slots)
        s = fix_replace(s, "\"optimizer\":1,\"slots\":[\"a\"]", "\"optimizer\":1,\"slots\":[\"m\",\"v\"]");
    return fix_parse(s);
}

/* Row 5 is updated in steps 1, 4 and 60, with g = 1; a dense adam moves it in every step. */
static void test_exact_adam(void **state) {
    (void)state;
    RtModel *m = model_with("\"kind\":\"adam\",\"lr\":{\"kind\":\"exponential\",\"lr\":0.1,\"rate\":0.5,"
                            "\"every\":20},\"clip_norm\":0,\"l2\":0,"
                            "\"momentum\":0,\"init\":0,\"rate\":0,\"every\":0,\"beta1\":0.9,\"beta2\":0.999,"
                            "\"eps\":1e-8,\"rho\":0,\"l1\":0,"
                            "\"l2_ftrl\":0,\"exact\":true",
                            true);
    RtTables *t = tables(m, 1);
    RtTableBatch bs[3] = {0};
    Batch b = batch(t, FIX_USERS, true, IDS(5));
    RtStep s;
    rt_tables_bind(t, &s);
    float *row = ((float **)s.table_rows)[FIX_USERS], start[2], got[2];
    rt_init_values(&m->weights[FIX_USERS], 1, 10, 2, start);
    double w = start[0], mm = 0, v = 0;
    for (uint64_t step = 1; step <= 60; step++) {
        RtOptStep o = rt_opt_step(&m->opts[1], step, step, 1);
        bool update = step == 1 || step == 4 || step == 60;
        double g = update;
        mm = 0.9 * mm + 0.1 * g, v = 0.999 * v + 0.001 * g * g;
        double alpha = 0.1 * pow(0.5, (double)step / 20) * sqrt(1 - pow(0.999, (double)step)) /
                       (1 - pow(0.9, (double)step));
        assert_true(fabs(o.alpha - alpha) < 1e-6 * alpha);
        w -= alpha * mm / (sqrt(v) + 1e-8);
        rt_tables_before_step(t, step, bs);
        if (update) {
            rt_tables_fetch(t, BIND(b), FIX_USERS, 0, 1, got, true, step);
            for (int e = 0; e < 2; e++) {
                row[2 + e] = 0.9f * row[2 + e] + 0.1f;
                row[4 + e] = 0.999f * row[4 + e] + 0.001f;
                row[e] -= o.alpha * row[2 + e] / (sqrtf(row[4 + e]) + 1e-8f);
            }
            rt_tables_touch(t, BIND(b), FIX_USERS, 0, 1, step);
        }
        rt_tables_after_step(t, step);
        /* as evaluation and checkpoints see it in every step, without storing */
        rt_tables_fetch(t, BIND(b), FIX_USERS, 0, 1, got, false, 0);
        assert_true(fabs(got[0] - w) < 1e-5);
        rt_tables_get_row(t, FIX_USERS, 5, 1, got);
        assert_true(fabs(got[0] - mm) < 1e-5);
    }
    rt_tables_free(t);
    rt_model_free(m);
}

#define DECAY                                                                                                \
    "\"kind\":\"adagrad_decay\",\"lr\":{\"kind\":\"const\",\"lr\":0.1},\"clip_norm\":0,\"l2\":0,"            \
    "\"momentum\":0,"                                                                                        \
    "\"init\":0.1,\"rate\":0.5,\"every\":10,\"beta1\":0,\"beta2\":0,\"eps\":0,\"rho\":0,\"l1\":0,\"l2_"      \
    "ftrl\":0,"                                                                                              \
    "\"exact\":false"

/* As generated code does it in step `step`, decays of that step included; updates in steps 3, 31 and 58, of
 * which 31 is itself a step of decay. */
static bool decay_step(const RtModel *m, float *accumulator, uint64_t step, double *want) {
    RtOptStep o = rt_opt_step(&m->opts[1], step, step, 1);
    bool decays = step > 1 && step % 10 == 1;
    assert_float_equal(o.decay, decays ? 0.5 : 1, 0);
    if (decays) *want = fmax(*want * 0.5, 0.1);
    if (step != 3 && step != 31 && step != 58) return false;
    *want += 4;
    *accumulator = fmaxf(*accumulator * o.decay, 0.1f) + 4;
    return true;
}

static void test_adagrad_decay(void **state) {
    (void)state;
    RtModel *m = model_with(DECAY, false);
    RtTables *t = tables(m, 1);
    RtTableBatch bs[3] = {0};
    Batch b = batch(t, FIX_USERS, true, IDS(5));
    RtStep s;
    rt_tables_bind(t, &s);
    float *row = ((float **)s.table_rows)[FIX_USERS], got[2];
    double a = 0.1;
    for (uint64_t step = 1; step <= 101; step++) {
        rt_tables_before_step(t, step, bs);
        if (step == 3 || step == 31 || step == 58)
            rt_tables_fetch(t, BIND(b), FIX_USERS, 0, 1, got, true, step);
        if (decay_step(m, row + 2, step, &a)) rt_tables_touch(t, BIND(b), FIX_USERS, 0, 1, step);
        rt_tables_after_step(t, step);
        rt_tables_get_row(t, FIX_USERS, 5, 1, got);
        assert_true(fabs(got[0] - a) < 1e-5);
    }
    rt_tables_free(t);
    rt_model_free(m);
}

/* The same for a table that is kept whole and only updated by row: nothing fetches it. */
static void test_adagrad_decay_whole(void **state) {
    (void)state;
    char *d = fix_replace(fix_description_with(FIX_USERS_SMALL, ada_opt, DECAY), "\"sparse\":true",
                          "\"sparse\":false");
    RtModel *m = fix_parse(d);
    RtTables *t = tables(m, 1);
    RtTableBatch bs[3] = {0};
    Batch b = batch(t, FIX_USERS, true, IDS(5));
    RtStep s;
    rt_tables_bind(t, &s);
    assert_null(((float **)s.table_rows)[FIX_USERS]);
    float *a = ((float **)s.slots)[3 * FIX_USERS];
    double want = 0.1;
    for (uint64_t step = 1; step <= 58; step++) {
        bool update = step == 3 || step == 31 || step == 58;
        bs[FIX_USERS] = update ? *BIND(b) : (RtTableBatch){0};
        rt_tables_before_step(t, step, bs);
        if (decay_step(m, a + 10, step, &want)) {
            rt_tables_touch(t, BIND(b), FIX_USERS, 0, 1, step);
            assert_true(fabs(a[10] - want) < 1e-5);
        }
        rt_tables_after_step(t, step);
    }
    assert_float_equal(a[12], 0.1, 1e-7);
    uint64_t n;
    uint32_t *ids = rt_tables_touched_ids(t, FIX_USERS, &n);
    assert_int_equal(n, 1);
    assert_int_equal(ids[0], 5);
    free(ids);
    rt_tables_free(t);
    rt_model_free(m);
}

static void test_no_room(void **state) {
    (void)state;
    char err[300] = "";
    RtModel *m =
        fix_parse(fix_description_with("4000000000", ",2],\"init\":\"trunc", ",16000],\"init\":\"trunc"));
    assert_null(rt_tables_new(m, 1, err, sizeof err));
    assert_string_equal(
        err, "weight 'users': cannot reserve 512000.0 GB of address space: cannot allocate memory");
    rt_model_free(m);
}

/* ---- schedules ---- */

static void test_schedules(void **state) {
    (void)state;
    double at[] = {10, 20}, values[] = {1, 0.5, 0.25};
    RtSched piece = {.kind = RT_LR_PIECEWISE, .at = at, .values = values, .n = 2};
    assert_float_equal(rt_sched_rate(&piece, 10), 1, 0);
    assert_float_equal(rt_sched_rate(&piece, 11), 0.5, 0);
    assert_float_equal(rt_sched_rate(&piece, 21), 0.25, 0);
    RtSched warm = {.kind = RT_LR_WARMUP, .steps = 4, .then = &piece};
    assert_float_equal(rt_sched_rate(&warm, 1), 0.25, 0);
    assert_float_equal(rt_sched_rate(&warm, 4), 1, 0);
    RtSched cosine = {.kind = RT_LR_COSINE, .lr = 2, .steps = 100, .end = 1};
    assert_float_equal(rt_sched_rate(&cosine, 50), 1.5, 1e-12);
    assert_float_equal(rt_sched_rate(&cosine, 1000), 1, 1e-12);
    RtSched expo = {.kind = RT_LR_EXPONENTIAL, .lr = 1, .rate = 0.5, .every = 10};
    assert_float_equal(rt_sched_rate(&expo, 20), 0.25, 1e-12);
    RtOptimizer async = {
        .kind = RT_ADAM_ASYNC, .lr = {.kind = RT_LR_CONST, .lr = 1}, .beta1 = 0.9, .beta2 = 0.999};
    assert_float_equal(rt_opt_step(&async, 1000, 1, 1).alpha, sqrt(1 - 0.999) / (1 - 0.9), 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_distributions),
                                       cmocka_unit_test(test_elements_are_independent),
                                       cmocka_unit_test(test_normal_shares),
                                       cmocka_unit_test(test_first_touch_small),
                                       cmocka_unit_test(test_first_touch_large),
                                       cmocka_unit_test(test_fixed),
                                       cmocka_unit_test(test_slots_mapped),
                                       cmocka_unit_test(test_slots_hashed),
                                       cmocka_unit_test(test_exact_adam),
                                       cmocka_unit_test(test_adagrad_decay),
                                       cmocka_unit_test(test_adagrad_decay_whole),
                                       cmocka_unit_test(test_no_room),
                                       cmocka_unit_test(test_schedules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
