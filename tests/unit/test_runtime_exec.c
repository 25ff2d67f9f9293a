/* Threads, barriers, matrix products, arenas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sched.h>
#include <stdatomic.h>
#include "runtime/exec.h"
#include "runtime_fixture_steps.h"

/* ---- pool ---- */

typedef struct {
    RtPool *pool;
    atomic_uint count[200];
    unsigned wrong;
    uint32_t threads;
} Phases;

/* In each phase every thread must see all of the phase before as done. */
static void phases(void *arg, uint32_t thread, uint32_t threads) {
    Phases *p = arg;
    for (int i = 0; i < 200; i++) {
        if (i > 0 && atomic_load(&p->count[i - 1]) != threads) p->wrong++;
        if (i % 50 == (int)thread) sched_yield();
        atomic_fetch_add(&p->count[i], 1);
        rt_pool_barrier(p->pool);
    }
}

static void test_barrier(void **state) {
    (void)state;
    for (uint32_t threads = 1; threads <= 7; threads += 2) { /* more threads than CPUs sleep at once */
        static Phases p;
        RtPool *pool = rt_pool_new(threads);
        assert_int_equal(rt_pool_threads(pool), threads);
        for (int round = 0; round < 20; round++) {
            p = (Phases){.pool = pool};
            rt_pool_run(pool, phases, &p);
            assert_int_equal(p.wrong, 0);
            for (int i = 0; i < 200; i++) assert_int_equal(p.count[i], threads);
        }
        rt_pool_free(pool);
    }
}

/* Blocks that are taken: by each thread first its own in order, then those of a thread that doesn't come. */
enum { TAKE_ROUNDS = 50, TAKE_BLOCKS = 37 };
typedef struct {
    RtPool *pool;
    uint32_t late; /* this thread takes nothing before all is taken */
    atomic_uint times[TAKE_ROUNDS][TAKE_BLOCKS], taken[TAKE_ROUNDS];
    atomic_uint wrong;
} Takes;

static void take_blocks(void *arg, uint32_t thread, uint32_t threads) {
    Takes *t = arg;
    for (uint32_t round = 0; round < TAKE_ROUNDS; round++) {
        uint32_t blocks = round % TAKE_BLOCKS + 1, own = blocks * thread / threads;
        while (thread == t->late && atomic_load(&t->taken[round]) < blocks) sched_yield();
        for (uint32_t b; (b = rt_pool_take(t->pool, thread, threads, blocks)) != RT_NONE_LEFT;) {
            if (b >= blocks || (threads == 1 && b != own++)) {
                atomic_fetch_add(&t->wrong, 1);
                break;
            }
            atomic_fetch_add(&t->times[round][b], 1);
            atomic_fetch_add(&t->taken[round], 1);
        }
        rt_pool_barrier(t->pool); /* deals anew */
    }
}

static void test_take(void **state) {
    (void)state;
    for (uint32_t threads = 1; threads <= 5; threads++) {
        static Takes t;
        t = (Takes){.pool = rt_pool_new(threads), .late = threads > 1 ? threads - 1 : UINT32_MAX};
        rt_pool_run(t.pool, take_blocks, &t);
        assert_int_equal(t.wrong, 0);
        for (uint32_t round = 0; round < TAKE_ROUNDS; round++)
            for (uint32_t b = 0; b < round % TAKE_BLOCKS + 1; b++) assert_int_equal(t.times[round][b], 1);
        rt_pool_free(t.pool);
    }
    /* a thread's own come first, in order; a thread alone then takes all others */
    RtPool *pool = rt_pool_new(1);
    static const uint32_t all[] = {0, 1, 2, RT_NONE_LEFT, RT_NONE_LEFT};
    for (int i = 0; i < 5; i++) assert_int_equal(rt_pool_take(pool, 0, 1, 3), all[i]);
    rt_pool_free(pool);
}

static void test_cpus(void **state) {
    (void)state;
    cpu_set_t all, one;
    uint32_t n = rt_cpus();
    sched_getaffinity(0, sizeof all, &all);
    assert_true(n >= 1 && n <= (uint32_t)CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
            break;
        }
    sched_setaffinity(0, sizeof one, &one);
    assert_int_equal(rt_cpus(), 1);
    sched_setaffinity(0, sizeof all, &all);
}

/* ---- products ---- */

static float pseudo(uint32_t *s) {
    return (float)((*s = *s * 1664525u + 1013904223u) >> 8) / (1 << 24) - 0.5f;
}

static void one_product(uint32_t ta, uint32_t tb, uint32_t accumulate, uint64_t m, uint64_t n, uint64_t k) {
    enum { LD = 40 };
    float a[LD * LD], b[LD * LD], c[LD * LD], want[LD * LD];
    uint32_t seed = (uint32_t)(m * 100 + n * 10 + k);
    for (int i = 0; i < LD * LD; i++)
        a[i] = pseudo(&seed), b[i] = pseudo(&seed), c[i] = want[i] = pseudo(&seed);
    for (uint64_t i = 0; i < m; i++)
        for (uint64_t j = 0; j < n; j++) {
            double sum = accumulate ? want[i * LD + j] : 0;
            for (uint64_t q = 0; q < k; q++)
                sum += (double)(ta ? a[q * LD + i] : a[i * LD + q]) * (tb ? b[j * LD + q] : b[q * LD + j]);
            want[i * LD + j] = (float)sum;
        }
    rt_gemm(ta, tb, m, n, k, a, LD, b, LD, c, LD, accumulate);
    for (int i = 0; i < LD * LD; i++)
        assert_true(fabsf(c[i] - want[i]) < 1e-5f); /* nothing outside m × n moves */
}

static void test_gemm(void **state) {
    (void)state;
    static const uint64_t sizes[][3] = {{1, 1, 1},   {3, 5, 7}, {16, 32, 8}, {37, 29, 40},
                                        {40, 1, 40}, {5, 6, 0}, {0, 4, 4},   {4, 0, 4}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t f = 0; f < 8; f++)
            one_product(f & 1, f >> 1 & 1, f >> 2, sizes[i][0], sizes[i][1], sizes[i][2]);
}

/* Large enough that the library would share it among threads. */
static void products(void *arg, uint32_t thread, uint32_t threads) {
    (void)arg, (void)threads;
    enum { N = 384 };
    float *a = calloc(N * N, sizeof *a), *c = calloc(N * N, sizeof *c);
    for (int i = 0; i < N; i++) a[i * N + i] = (float)thread + 2;
    rt_gemm(0, 0, N, N, N, a, N, a, N, c, N, 0);
    for (int i = 0; i < N * N; i++)
        assert_true(c[i] == (i % (N + 1) ? 0 : ((float)thread + 2) * ((float)thread + 2)));
    free(a);
    free(c);
}

static int tasks(void) {
    FILE *f = popen("ls /proc/$PPID/task | wc -l", "r");
    int n = 0;
    if (!f || fscanf(f, "%d", &n) != 1) fail();
    pclose(f);
    return n;
}

/* A team of the library's own would still be there, asleep. */
static void test_gemm_on_all_threads(void **state) {
    (void)state;
    products(NULL, 0, 1);
    int before = tasks();
    RtPool *pool = rt_pool_new(3);
    rt_pool_run(pool, products, NULL);
    assert_int_equal(tasks(), before + 2);
    rt_pool_free(pool);
    assert_true(before <= 2); /* a sanitizer may have one of its own */
}

/* ---- arenas and outputs ---- */

static void test_exec(void **state) {
    (void)state;
    char err[300] = "";
    RtModel *m = fix_model(FIX_USERS_SMALL);
    RtTables *t = rt_tables_new(m, 1, err, sizeof err);
    RtExec *x = rt_exec_new(m, t, 2, err, sizeof err);
    assert_non_null(x);
    assert_int_equal((uintptr_t)x->step.fixed % 64, 0);
    for (int i = 0; i < 2; i++) assert_int_equal((uintptr_t)x->scratch[i] % 64, 0);
    float xs[64] = {0}, ys[64] = {0};
    uint32_t lookup[64], ids[64], start[65], occ[64];
    uint8_t ordinal[64] = {0};
    const void *inputs[4] = {xs, ys, lookup, NULL};
    for (uint32_t i = 0; i < 64; i++) lookup[i] = ids[i] = start[i] = occ[i] = i;
    start[64] = 64;
    RtTableBatch tables[3] = {0};
    tables[FIX_USERS] =
        (RtTableBatch){.id = ids, .slot = ids, .start = start, .occ_lookup = ordinal, .occ_index = occ};
    RtBatch b = {.inputs = inputs, .tables = tables};
    uint64_t cap = 0;
    const uint32_t rows[] = {5, 64, 7, 64, 1};
    for (int i = 0; i < 5; i++) {
        b.rows = tables[FIX_USERS].n = rows[i];
        rt_exec_batch(x, &b);
        assert_true(x->uniq_cap[FIX_USERS] >= rows[i] && x->uniq_cap[FIX_USERS] % 16 == 0);
        assert_true(x->uniq_cap[FIX_USERS] >= cap); /* never shrinks */
        cap = x->uniq_cap[FIX_USERS];
        assert_int_equal((uintptr_t)x->uniq_arena[FIX_USERS] % 64, 0);
        assert_true(rt_exec_run(x, RT_TRAIN, fix_train));
        assert_int_equal(x->step.step, (uint64_t)i + 1);
        assert_float_equal(x->step.inv_rows, 1.0 / rows[i], 1e-7);
        assert_true(isfinite(x->loss) && x->loss > 0);
        const float *p = rt_exec_output(x, RT_TRAIN, 0);
        for (uint32_t r = 0; r < rows[i]; r++) assert_true(p[r] > 0 && p[r] < 1);
        assert_ptr_equal(rt_exec_output(x, RT_TRAIN, 1), ys);
    }
    assert_true(rt_exec_bytes(x) >= 1024 + 2 * 64 + cap * 16);
    /* a step with a loss that isn't finite changes nothing */
    float before[2], after[2], bias = x->tables ? rt_tables_dense(t, FIX_BIAS, 0)[0] : 0;
    rt_tables_get_row(t, FIX_USERS, 0, 0, before);
    xs[0] = INFINITY;
    assert_false(rt_exec_run(x, RT_TRAIN, fix_train));
    rt_exec_find_nan(x, fix_train);
    assert_true(x->check.found);
    assert_int_equal(x->check.op, 5);
    rt_tables_get_row(t, FIX_USERS, 0, 0, after);
    assert_memory_equal(before, after, sizeof before);
    assert_float_equal(rt_tables_dense(t, FIX_BIAS, 0)[0], bias, 0);
    rt_exec_free(x);
    rt_tables_free(t);
    rt_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_barrier),
                                       cmocka_unit_test(test_take),
                                       cmocka_unit_test(test_cpus),
                                       cmocka_unit_test(test_gemm),
                                       cmocka_unit_test(test_gemm_on_all_threads),
                                       cmocka_unit_test(test_exec)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
