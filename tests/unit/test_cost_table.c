/* The file of measured costs: what is written reads back, what is damaged or of another CPU or ctrc is not
 * used, and said so. */
#include "backend/cost_table.h"
#include <errno.h>
#include <sys/stat.h>
#include "tests/unit/test_ir_fixture.h"

typedef struct {
    Fx fx;
    char folder[64];
    CostCpu cpu;
} World;

static void begin(World *w) {
    *w = (World){.fx = fx_new(), .folder = "/tmp/ctrc_costs.XXXXXX"};
    assert_non_null(mkdtemp(w->folder));
    setenv("XDG_CACHE_HOME", w->folder, 1);
    assert_true(cost_cpu(fx_diag(&w->fx), w->fx.arena, &w->cpu));
    assert_int_equal(mkdir(arena_printf(w->fx.arena, "%s/ctrc", w->folder), 0777), 0);
}

static void end(World *w) {
    unlink(w->cpu.path);
    rmdir(w->cpu.path);
    rmdir(arena_printf(w->fx.arena, "%s/ctrc", w->folder));
    assert_int_equal(rmdir(w->folder), 0); /* nothing is left behind */
    fx_free(&w->fx);
}

static void put_file(const World *w, const char *text) {
    FILE *f = fopen(w->cpu.path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_reads_back(void **state) {
    (void)state;
    World w;
    begin(&w);
    Arena *a = w.fx.arena;
    PassCosts c = {0}, again = {0};
    cost_table_read(fx_diag(&w.fx), a, &w.cpu, &c); /* there is no file */
    assert_int_equal(c.n, 0);
    pass_cost_put(a, &c, (PassCost){"dW 12x16, 512 rows", 90.25, 1.0 / 3});
    pass_cost_put(a, &c, (PassCost){"12x16, 64 of 512 rows, epilogue", 1, 2});
    pass_cost_put(a, &c, (PassCost){"12x16, 64 of 512 rows, epilogue", 5, 7}); /* in place of that */
    assert_int_equal(c.n, 2);
    for (int i = 0; i < 2; i++) { /* over a file that is there, too */
        assert_true(cost_table_write(fx_diag(&w.fx), a, &w.cpu, &c));
        again = (PassCosts){0};
        cost_table_read(fx_diag(&w.fx), a, &w.cpu, &again);
        assert_int_equal(again.n, 2);
    }
    assert_true(pass_cost(&again, "dW 12x16, 512 rows")->tile == 90.25);
    assert_true(pass_cost(&again, "dW 12x16, 512 rows")->library == 0.3333); /* four digits */
    assert_true(pass_cost(&again, "12x16, 64 of 512 rows, epilogue")->library == 7);
    assert_null(pass_cost(&again, "12x16, 64 of 512 rows"));
    assert_null(pass_cost(NULL, "12x16, 64 of 512 rows"));
    assert_string_equal(fx_messages(&w.fx), "");
    end(&w);
}

/* text with the CPU's name for '$', and for '@' all that stands before the products. */
static const char *filled(const World *w, const char *text) {
    Arena *a = w->fx.arena;
    const PassTarget *t = &w->cpu.target;
    const char *out = "";
    for (; *text; text++) {
        if (*text == '$')
            out = arena_printf(a, "%s%s", out, w->cpu.name);
        else if (*text == '@')
            out = arena_printf(a, "%s\"ctrc\": \"%s\", \"cpu\": \"%s\", \"l1\": %ld, \"l2\": %ld", out,
                               CTRC_VERSION, w->cpu.name, (long)t->l1_bytes, (long)t->l2_bytes);
        else
            out = arena_printf(a, "%s%c", out, *text);
    }
    return out;
}

/* Every damage is told by one warning, and nothing of the file is used. */
static void test_damage(void **state) {
    (void)state;
    static const struct {
        const char *text, *why;
    } damaged[] = {
        {"", "line 1: '[' or '{' expected near end of file"},
        {"{\"ctrc\": ", "line 1: unexpected token near end of file"},
        {"[1]", "expected texts \"ctrc\" and \"cpu\""},
        {"{\"ctrc\": 1, \"cpu\": \"x\"}", "expected texts \"ctrc\" and \"cpu\""},
        {"{\"ctrc\": \"0.0.9\", \"cpu\": \"$\"}", "ctrc 0.0.9 measured it, this is ctrc " CTRC_VERSION},
        {"{\"ctrc\": \"" CTRC_VERSION "\", \"cpu\": \"Z80\"}", "it was measured on another CPU, 'Z80'"},
        {"{\"ctrc\": \"" CTRC_VERSION "\", \"cpu\": \"$\", \"l1\": 1, \"l2\": 2}",
         "it was measured on another CPU, '$'"},
        {"{@}", "expected an object \"products\""},
        {"{@, \"products\": [3]}", "expected an object \"products\""},
        {"{@, \"products\": {\"1x5, 3 rows\": {\"tile\": 1, \"library\": 2}, \"k\": {\"tile\": 1}}}",
         "expected GFLOP/s \"tile\" and \"library\" of product \"k\""},
        {"{@, \"products\": {\"k\": {\"tile\": -1, \"library\": 2}}}",
         "expected GFLOP/s \"tile\" and \"library\" of product \"k\""},
        {"{@, \"products\": {\"k\": {\"tile\": 1, \"library\": 0}}}",
         "expected GFLOP/s \"tile\" and \"library\" of product \"k\""},
        {"{@, \"products\": {\"k\": {\"tile\": 1e300, \"library\": 1}}}",
         "expected GFLOP/s \"tile\" and \"library\" of product \"k\""},
        {"{@, \"products\": {\"k\": {\"tile\": \"fast\", \"library\": 1}}}",
         "expected GFLOP/s \"tile\" and \"library\" of product \"k\""},
        {"{@, \"products\": {\"k\": 3}}", "expected GFLOP/s \"tile\" and \"library\" of product \"k\""},
        {"{@, \"products\": {\"k\": {\"tile\": 1, \"library\": 1}, \"k\": 1}}",
         "line 1: duplicate object key near '\"k\"'"},
    };
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        World w;
        begin(&w);
        Arena *a = w.fx.arena;
        PassCosts c = {0};
        put_file(&w, filled(&w, damaged[i].text));
        cost_table_read(fx_diag(&w.fx), a, &w.cpu, &c);
        assert_int_equal(c.n, 0);
        assert_string_equal(fx_messages(&w.fx),
                            arena_printf(a,
                                         "warning: the table of products '%s' isn't used: %s\n"
                                         "hint: ctrc --tune-kernels measures anew\n",
                                         w.cpu.path, filled(&w, damaged[i].why)));
        end(&w);
    }
}

static void test_no_file(void **state) {
    (void)state;
    World w;
    begin(&w);
    PassCosts c = {0};
    assert_int_equal(mkdir(w.cpu.path, 0777), 0);
    cost_table_read(fx_diag(&w.fx), w.fx.arena, &w.cpu, &c);
    assert_int_equal(c.n, 0);
    assert_non_null(
        strstr(fx_messages(&w.fx),
               arena_printf(w.fx.arena, "warning: the table of products '%s' isn't used: ", w.cpu.path)));
    assert_false(cost_table_write(fx_diag(&w.fx), w.fx.arena, &w.cpu, &c));
    assert_non_null(
        strstr(fx_messages(&w.fx),
               arena_printf(w.fx.arena, "error: can't write '%s': Is a directory\n", w.cpu.path)));
    end(&w);
}

/* A CPU's file is its own: by name, length of vectors, and what the CPU calls itself. */
static void test_place(void **state) {
    (void)state;
    World w;
    begin(&w);
    Arena *a = w.fx.arena;
    const char *begins =
        arena_printf(a, "%s/ctrc/products-%s-%d-", w.folder, w.cpu.cpu, w.cpu.target.vector_floats);
    assert_memory_equal(w.cpu.path, begins, strlen(begins));
    assert_int_equal(strlen(w.cpu.path), strlen(begins) + strlen("01234567.json"));
    assert_true(*w.cpu.name && w.cpu.name[strlen(w.cpu.name) - 1] != ' ');
    CostCpu again;
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", w.folder, 1);
    assert_true(cost_cpu(fx_diag(&w.fx), a, &again));
    begins = arena_printf(a, "%s/.cache/ctrc/products-", w.folder);
    assert_memory_equal(again.path, begins, strlen(begins));
    unsetenv("HOME");
    assert_true(cost_cpu(fx_diag(&w.fx), a, &again));
    assert_null(again.path);
    PassCosts c = {0};
    cost_table_read(fx_diag(&w.fx), a, &again, &c);
    assert_int_equal(c.n, 0);
    assert_string_equal(fx_messages(&w.fx), "");
    end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reads_back), cmocka_unit_test(test_damage),
                                       cmocka_unit_test(test_no_file), cmocka_unit_test(test_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
