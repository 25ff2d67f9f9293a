/* Batches: order, shuffling, epochs, the cache, each table's unique rows; the same for any number of threads.
 */
#include "reader_fixture.h"
#include "runtime/pool.h"
#include "runtime/reader_internal.h"
#include <xxhash.h>

/* x float, s and t strings on one table of 1000 rows, l a list on that table, pooled; u on a large table */
static const Describe logs = {
    .columns = COL("x", "float", "") "," COL("s", "string", "") "," LIST("l", "string", ";", 0, "") "," COL(
        "t", "string", "") "," COL("u", "int", ""),
    .axes = AXIS("l", ""),
    .features =
        VALUE(C(0), -1) "," HASH(C(1), -1, 1000) "," HASH(C(2), 0, 1000) "," HASH(C(3), -1, 1000) "," FEATURE(
            "identity", C(4), "id", -1, ",'bound':100000000,'n':100000000") "," FEATURE("key", C(1), "key",
                                                                                        -1, ""),
    .inputs = AS("f32", 0) "," AS_LOOKUP(0) "," AS_LOOKUP(1) "," AS_LOOKUP(2) "," AS_LOOKUP(3) "," AS(
        "id", 1) "," AS("id", 2) "," AS("key", 5),
    .lookups = LOOKUP(1, 0, false) "," LOOKUP(2, 0, true) "," LOOKUP(3, 0, false) "," LOOKUP(4, 1, false),
    .weights = TABLE("shops", 1000) "," TABLE("users", 100000000),
};

/* Rows with all that may differ from row to row; 0 … n-1 is in x. */
static void write_logs(const char *path, int n, unsigned seed) {
    Text t = {0};
    say(&t, "%s", "");
    for (int i = 0; i < n; i++) {
        seed = seed * 1103515245 + 12345;
        say(&t, "%d,%.*s%u,", i, seed >> 8 & 1, "s", seed >> 12 & 63);
        for (unsigned k = seed >> 20 & 7; k > 0; k--)
            say(&t, "%s%u", k < (seed >> 20 & 7) ? ";" : "", seed >> k & 63);
        say(&t, ",%s,%u\n", i % 5 ? "t" : "", (seed >> 4) % 100000000);
    }
    write_bytes(path, t.s, t.n);
    free(t.s);
}

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Everything about a table in a batch that must follow from the lookups' ids, worked out the slow way. */
static void check_table(const RtModel *m, const RtBatch *b, int table) {
    const RtTableBatch *t = &b->tables[table];
    const uint32_t *id = t->id, *start = t->start, *occ_index = t->occ_index;
    const uint8_t *occ_lookup = t->occ_lookup;
    uint32_t met = 0;
    uint32_t *seen = calloc(t->n + 1, sizeof *seen);
    for (int i = 0; i < m->n_inputs; i++) {
        if (m->inputs[i].kind != RT_IN_LOOKUP || !b->inputs[i]) continue;
        const RtLookup *l = &m->lookups[m->inputs[i].index];
        if (l->table != table) continue;
        const uint32_t *u = b->inputs[i];
        int axis = m->features[l->feature].axis;
        for (uint32_t r = 0; r < b->rows; r++) {
            uint32_t from = axis < 0 ? r : b->offsets[axis][r],
                     to = axis < 0 ? r + 1 : b->offsets[axis][r + 1];
            for (uint32_t p = from; p < to; p++) {
                if (u[p] == RT_NO_ID) continue;
                assert_true(u[p] <= met); /* numbered as they are met */
                if (u[p] == met) met++;
                uint32_t k = start[u[p]] + seen[u[p]]++;
                assert_int_equal(occ_lookup[k], l->ordinal);
                assert_int_equal(occ_index[k], l->pooled ? r : p);
            }
        }
    }
    assert_int_equal(met, t->n);
    assert_int_equal(start[0], 0);
    for (uint32_t u = 0; u < t->n; u++) assert_int_equal(start[u + 1] - start[u], seen[u]);
    memcpy(seen, id, t->n * sizeof *seen);
    qsort(seen, t->n, sizeof *seen, by_size);
    for (uint32_t u = 1; u < t->n; u++) assert_true(seen[u] != seen[u - 1]);
    free(seen);
}

/* Of everything in a batch. */
static uint64_t digest(const RtModel *m, const RtBatch *b) {
    uint64_t h = XXH3_64bits(b->row_line, b->rows * sizeof *b->row_line);
    h = XXH3_64bits_withSeed(b->row_file, b->rows * sizeof *b->row_file, h);
    for (int a = 0; a < m->n_axes; a++)
        h = XXH3_64bits_withSeed(b->offsets[a], (b->rows + 1) * sizeof(uint32_t), h);
    for (int i = 0; i < m->n_inputs; i++) {
        int axis = input_axis(m, i);
        size_t n = axis < 0 ? b->rows : b->offsets[axis][b->rows];
        h = XXH3_64bits_withSeed(b->inputs[i], n * (m->inputs[i].kind == RT_IN_KEY ? 8 : 4), h);
    }
    for (int w = 0; w < m->n_weights; w++) {
        const RtTableBatch *t = &b->tables[w];
        const uint32_t *start = t->start;
        h = XXH3_64bits_withSeed(t->id, t->n * sizeof(uint32_t), h);
        h = XXH3_64bits_withSeed(t->slot, t->n * sizeof(uint32_t), h);
        h = XXH3_64bits_withSeed(start, (t->n + 1) * sizeof(uint32_t), h);
        h = XXH3_64bits_withSeed(t->occ_lookup, start[t->n], h);
        h = XXH3_64bits_withSeed(t->occ_index, start[t->n] * sizeof(uint32_t), h);
    }
    return h;
}

enum { INDEXERS = 3 };
typedef struct {
    RtBatch *b;
    RtIndexScratch *scratch[INDEXERS];
} Indexers;
static void index_rows(void *arg, uint32_t thread, uint32_t threads) {
    Indexers *x = arg;
    (void)threads;
    rt_batch_index(x->b, x->scratch[thread]);
}

/* A line for each batch, which is fully checked. Those that come without tables are indexed by three threads.
 */
static char *run(const RtModel *m, const RtReaderOptions *o) {
    char err[1200] = "";
    Text t = {0};
    say(&t, "%s", "");
    RtReader *r = rt_reader_open(m, o, err, sizeof err);
    RtPool *pool = rt_pool_new(INDEXERS);
    Indexers x = {0};
    for (int i = 0; i < INDEXERS; i++) x.scratch[i] = rt_index_scratch_new(m);
    RtBatch *b;
    int got = -1, n = 0;
    double progress = 0;
    uint64_t epoch = 0;
    while (r && (got = rt_reader_next(r, &b, err, sizeof err)) == 1) {
        assert_true(b->rows >= 1 && b->rows <= o->batch);
        assert_true(b->rows == o->batch || b->last_of_epoch);
        assert_int_equal(b->to_index, o->index_later);
        x.b = b;
        for (int i = 0; i < INDEXERS && b->to_index; i++) rt_index_reserve(x.scratch[i], b);
        if (b->to_index) rt_pool_run(pool, index_rows, &x);
        if (b->epoch != epoch) progress = 0;
        epoch = b->epoch;
        assert_true(rt_reader_progress(r) >= progress && rt_reader_progress(r) <= 1);
        progress = rt_reader_progress(r);
        say(&t, "%d.%d%s: %u rows, %016llx\n", (int)b->epoch, n, b->last_of_epoch ? " last" : "", b->rows,
            (unsigned long long)digest(m, b));
        for (int w = 0; w < m->n_weights; w++) check_table(m, b, w);
        const uint32_t *slot = b->tables[0].slot, *id = b->tables[0].id;
        for (uint32_t u = 0; u < b->tables[0].n; u++)
            assert_int_equal(slot[u], rt_tables_slot(o->tables, 0, id[u], false));
        rt_reader_release(r, b);
        n++;
    }
    if (got < 0) fail_msg("%s", err);
    rt_reader_close(r);
    for (int i = 0; i < INDEXERS; i++) rt_index_scratch_free(x.scratch[i]);
    rt_pool_free(pool);
    return t.s;
}

static RtTables *tables_of(const RtModel *m) {
    char err[400];
    RtTables *t = rt_tables_new(m, 1, err, sizeof err);
    if (!t) fail_msg("%s", err);
    return t;
}

static char *run_anew(const RtModel *m, RtReaderOptions o) {
    o.tables = tables_of(m);
    char *s = run(m, &o);
    rt_tables_free(o.tables);
    return s;
}

static void test_known_batch(void **state) {
    (void)state;
    Describe d = logs;
    RtModel *m = model_of(&d);
    write_text("known", "0,a,b;a;b,a,7\n1,b,,,7\n2,,c,a,8\n");
    const char *path = "known";
    RtReaderOptions o = options(RT_TRAIN, &path, 1);
    o.tables = tables_of(m);
    char err[1200];
    RtReader *r = rt_reader_open(m, &o, err, sizeof err);
    RtBatch *b;
    assert_int_equal(rt_reader_next(r, &b, err, sizeof err), 1);
    assert_int_equal(b->rows, 3);
    assert_true(b->last_of_epoch);
    /* s: a b -; l: b a b | | c; t: a - a. So unique rows are a, b, c */
    const uint32_t *s = b->inputs[1], *l = b->inputs[2], *t = b->inputs[3], *u = b->inputs[4];
    const RtTableBatch *shops = &b->tables[0], *users = &b->tables[1];
    assert_int_equal(shops->n, 3);
    assert_memory_equal(s, ((uint32_t[]){0, 1, RT_NO_ID}), 12);
    assert_memory_equal(l, ((uint32_t[]){1, 0, 1, 2}), 16);
    assert_memory_equal(t, ((uint32_t[]){0, RT_NO_ID, 0}), 12);
    assert_memory_equal(u, ((uint32_t[]){0, 0, 1}), 12);
    assert_memory_equal(b->offsets[0], ((uint32_t[]){0, 3, 3, 4}), 16);
    assert_memory_equal(shops->start, ((uint32_t[]){0, 4, 7, 8}), 16);
    assert_memory_equal(shops->occ_lookup, ((uint8_t[]){0, 1, 2, 2, 0, 1, 1, 1}), 8);
    assert_memory_equal(shops->occ_index, ((uint32_t[]){0, 0, 0, 2, 1, 0, 0, 2}), 32);
    assert_memory_equal(users->id, ((uint32_t[]){7, 8}), 8);
    assert_memory_equal(users->slot, ((uint32_t[]){0, 1}), 8); /* a large table: as they are met */
    assert_memory_equal(b->row_line, ((uint64_t[]){1, 2, 3}), 24);
    rt_reader_release(r, b);
    assert_int_equal(rt_reader_next(r, &b, err, sizeof err), 0);
    assert_int_equal(rt_reader_next(r, &b, err, sizeof err), 0);
    rt_reader_close(r);
    /* evaluation gives no row a place */
    write_text("known", "0,a,,,8\n0,a,,,9\n");
    o.purpose = RT_EVAL;
    r = rt_reader_open(m, &o, err, sizeof err);
    assert_int_equal(rt_reader_next(r, &b, err, sizeof err), 1);
    assert_memory_equal(b->tables[1].slot, ((uint32_t[]){1, RT_NO_ID}), 8);
    rt_reader_release(r, b);
    rt_reader_close(r);
    rt_tables_free(o.tables);
    rt_model_free(m);
}

static void test_threads_and_cache(void **state) {
    (void)state;
    Describe d = logs;
    RtModel *m = model_of(&d);
    write_logs("one", 70001, 1); /* several blocks */
    write_logs("two", 30, 2);
    write_logs("three", 40000, 3);
    const char *paths[] = {"one", "two", "three"};
    RtReaderOptions o = options(RT_TRAIN, paths, 3);
    o.epochs = 2;
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        o.batch = 1000;
        o.shuffle = shuffled ? 30000 : 0;
        o.threads = 1;
        o.cache = o.index_later = false;
        char *want = run_anew(m, o);
        for (int k = 0; k < 3; k++) {
            o.threads = 1 + 3 * (k & 1);
            o.cache = o.index_later = k >= 1;
            char *got = run_anew(m, o);
            assert_int_equal(strlen(got), strlen(want));
            assert_memory_equal(got, want, strlen(want));
            free(got);
        }
        free(want);
    }
    rt_model_free(m);
}

/* The numbers in x, in the order in which rows come. */
static int *order_of(const RtModel *m, RtReaderOptions o, int *n) {
    char err[1200];
    int *out = calloc(100000, sizeof *out);
    *n = 0;
    o.tables = tables_of(m);
    RtReader *r = rt_reader_open(m, &o, err, sizeof err);
    assert_non_null(r);
    RtBatch *b;
    while (rt_reader_next(r, &b, err, sizeof err) == 1) {
        for (uint32_t k = 0; k < b->rows; k++) out[(*n)++] = (int)((const float *)b->inputs[0])[k];
        rt_reader_release(r, b);
    }
    rt_reader_close(r);
    rt_tables_free(o.tables);
    return out;
}

static void test_shuffle(void **state) {
    (void)state;
    Describe d = logs;
    RtModel *m = model_of(&d);
    enum { ROWS = 1050, RUN = 100 };
    write_logs("rows", ROWS, 5);
    const char *path = "rows";
    RtReaderOptions o = options(RT_TRAIN, &path, 1);
    o.epochs = 2;
    int n, moved = 0, differ = 0, first_differ = 0;
    int *plain = order_of(m, o, &n);
    assert_int_equal(n, 2 * ROWS);
    for (int i = 0; i < n; i++) assert_int_equal(plain[i], i % ROWS);
    o.shuffle = RUN;
    int *a = order_of(m, o, &n), *again = order_of(m, o, &n);
    assert_int_equal(n, 2 * ROWS);
    assert_memory_equal(a, again, (size_t)n * sizeof *a);
    for (int epoch = 0; epoch < 2; epoch++) { /* each run keeps its rows, in an order of its own */
        for (int run_begin = 0; run_begin < ROWS; run_begin += RUN) {
            int end = run_begin + RUN < ROWS ? run_begin + RUN : ROWS;
            bool seen[RUN] = {false};
            for (int i = run_begin; i < end; i++) {
                int x = a[epoch * ROWS + i];
                assert_in_range(x, run_begin, end - 1);
                assert_false(seen[x - run_begin]);
                seen[x - run_begin] = true;
                moved += x != i;
                differ += epoch && x != a[i];
                first_differ += run_begin > 0 && x - run_begin != a[epoch * ROWS + i - run_begin];
            }
        }
    }
    assert_true(moved > 2 * ROWS * 95 / 100);
    assert_true(differ > ROWS * 95 / 100);                   /* from epoch to epoch */
    assert_true(first_differ > 2 * (ROWS - RUN) * 90 / 100); /* from run to run */
    o.seed = 2;
    int *other = order_of(m, o, &n);
    assert_memory_not_equal(a, other, (size_t)n * sizeof *a);
    /* resuming: rows that were used already are passed over */
    o.seed = 1;
    o.skip_rows = 333;
    free(other);
    other = order_of(m, o, &n);
    assert_int_equal(n, 2 * ROWS - 333);
    assert_memory_equal(other, a + 333, (size_t)n * sizeof *a);
    free(plain);
    free(a);
    free(again);
    free(other);
    rt_model_free(m);
}

static void test_last_of_epoch(void **state) {
    (void)state;
    Describe d = logs;
    RtModel *m = model_of(&d);
    write_logs("eight", 8, 1); /* two whole batches: the second one knows that it is the last */
    const char *path = "eight";
    RtReaderOptions o = options(RT_TRAIN, &path, 1);
    o.tables = tables_of(m);
    o.epochs = 0; /* on and on */
    char err[1200];
    RtReader *r = rt_reader_open(m, &o, err, sizeof err);
    RtBatch *b;
    for (int i = 0; i < 7; i++) {
        assert_int_equal(rt_reader_next(r, &b, err, sizeof err), 1);
        assert_int_equal(b->rows, 4);
        assert_int_equal(b->epoch, i / 2);
        assert_int_equal(b->last_of_epoch, i % 2);
        rt_reader_release(r, b);
    }
    assert_true(rt_reader_wait_seconds(r) > 0);
    rt_reader_close(r);
    o.cache = true;
    o.epochs = 3;
    r = rt_reader_open(m, &o, err, sizeof err);
    int n = 0;
    for (; rt_reader_next(r, &b, err, sizeof err) == 1; n++) {
        assert_int_equal(b->last_of_epoch, n % 2);
        rt_reader_release(r, b);
    }
    assert_int_equal(n, 6);
    assert_true(rt_reader_cache_bytes(r) > 8 * 4 * 5);
    rt_reader_close(r);
    rt_tables_free(o.tables);
    rt_model_free(m);
}

/* A reader may be closed at any moment. */
static void test_close_early(void **state) {
    (void)state;
    Describe d = logs;
    RtModel *m = model_of(&d);
    write_logs("long", 60000, 1);
    const char *path = "long";
    RtReaderOptions o = options(RT_TRAIN, &path, 1);
    o.tables = tables_of(m);
    o.epochs = 0;
    o.threads = 3;
    for (int i = 0; i < 12; i++) {
        char err[1200];
        o.shuffle = i % 2 ? 10000 : 0;
        o.cache = i % 3 == 0;
        RtReader *r = rt_reader_open(m, &o, err, sizeof err);
        RtBatch *b;
        for (int k = 0; k < i * i; k++) {
            assert_int_equal(rt_reader_next(r, &b, err, sizeof err), 1);
            rt_reader_release(r, b);
        }
        rt_reader_close(r);
    }
    rt_tables_free(o.tables);
    rt_model_free(m);
}

static void test_bad_descriptions(void **state) {
    (void)state;
    enter_directory();
    const char *path = "/dev/null";
    RtReaderOptions o = options(RT_TRAIN, &path, 1);
    const struct {
        Describe d;
        const char *want;
    } wrong[] = {
        {{.columns = COL("x", "float", ""), .features = FEATURE("number", C(0), "f32", -1, "")},
         "description: features[0]: the op doesn't fit its parts or its type\n"},
        {{.columns = COL("x", "string", ""), .features = VALUE(C(0), -1)},
         "description: features[0]: the op doesn't fit its parts or its type\n"},
        {{.columns = COL("x", "skip", ""), .features = HASH(C(0), -1, 3)},
         "description: features[0]: the op doesn't fit its parts or its type\n"},
        {{.columns = LIST("x", "string", ";", 0, ""), .axes = AXIS("x", ""), .features = HASH(C(0), -1, 3)},
         "description: features[0]: its axis doesn't follow from its parts'\n"},
        {{.columns = COL("x", "string", ""), .axes = AXIS("x", ""), .features = HASH(C(0), 0, 3)},
         "description: features[0]: its axis doesn't follow from its parts'\n"},
        {{.columns = LIST("x", "string", ";", 0, ""), /* how long a filtered list is only its values tell */
          .axes = AXIS("x", "") ",{'name':'known','kind':'filter','parent':0,'max':0,'shared':false}",
          .features = FEATURE("positions", C(0), "id", 1, ",'bound':9")},
         "description: features[0]: its axis doesn't follow from its parts'\n"},
        {{.columns = COL("x", "float", ""), .features = VALUE(C(0), -1), .inputs = AS("id", 0)},
         "description: inputs[0]: not the type of features[0]\n"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        RtModel *m = model_of(&wrong[i].d);
        char *got = rows_with(m, &o);
        assert_string_equal(got, wrong[i].want);
        free(got);
        rt_model_free(m);
    }
    RtModel *m = model_of(&logs);
    char *got = rows_with(m, &o);
    assert_string_equal(got, "table 'users' has no storage\n");
    free(got);
    o.n_paths = 0;
    o.tables = tables_of(m);
    got = rows_with(m, &o);
    assert_string_equal(got, "no data files given\n");
    free(got);
    rt_tables_free(o.tables);
    rt_model_free(m);
}

/* ---- the edges of 32 bits, by rows made by hand ---- */

/* A batch of two rows that say they have so many values in their list, of a block that began at line `first`.
 */
static bool fill_claiming(const RtModel *m, uint32_t values, uint64_t first, uint64_t *line, RtMessage *err) {
    RtPlan *p = rt_plan_new(m, RT_TRAIN, err);
    assert_non_null(p);
    RtAssembler *a = rt_assembler_new(p, NULL, 2, false);
    RtBatch *b = rt_batch_new(a);
    RtRows *rows = rt_rows_new();
    enum { WORDS = 64 };
    for (uint32_t r = 0; r < 2; r++) {
        rt_rows_reserve(rows, WORDS);
        memset(rows->word + rows->words, 0, WORDS * sizeof *rows->word);
        rows->word[rows->words + (size_t)p->axis_word[0]] = values;
        rows->at[r] = (uint32_t)rows->words;
        rows->line[r] = r;
        rows->words += WORDS;
        rows->at[++rows->n] = (uint32_t)rows->words;
    }
    rows->first_line = first;
    bool ok = rt_batch_fill(a, b, (RtRef[]){{rows, 0}, {rows, 1}}, 2, err);
    *line = b->row_line[1];
    rt_rows_free(rows);
    rt_batch_free(a, b);
    rt_assembler_free(a);
    rt_plan_free(p);
    return ok;
}

static void test_edges(void **state) {
    (void)state;
    RtModel *m = model_of(&logs);
    RtMessage err = {""};
    uint64_t line;
    assert_true(fill_claiming(m, 0, (uint64_t)UINT32_MAX + 5, &line, &err));
    assert_true(line == (uint64_t)UINT32_MAX + 6);
    assert_false(fill_claiming(m, 1u << 31, 1, &line, &err));
    assert_string_equal(err.text,
                        "error: a batch of 2 rows has 4294967296 values along 'l', expected fewer than "
                        "2^32: compile the model with a smaller batch");
    assert_false(fill_claiming(m, (1u << 31) - 1, 1, &line, &err)); /* with those of two strings a row */
    assert_string_equal(err.text,
                        "error: a batch of 2 rows has 4294967298 lookups in 'shops', expected fewer than "
                        "2^32: compile the model with a smaller batch");
    rt_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_known_batch),
        cmocka_unit_test(test_threads_and_cache),
        cmocka_unit_test(test_shuffle),
        cmocka_unit_test(test_last_of_epoch),
        cmocka_unit_test(test_close_early),
        cmocka_unit_test(test_bad_descriptions),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    leave_directory();
    return failed;
}
