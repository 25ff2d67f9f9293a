/* The code that --tune-kernels measures is the products that it is about: what each way computes, against
 * sums in double precision. How fast, no test asks. */
#include "backend/tune.h"
#include <dlfcn.h>
#include <math.h>
#include "backend/link.h"
#include "tests/tools/emit_jit.h"
#include "tests/unit/test_ir_fixture.h"

enum { ROWS = 70, FIRST = 3, LAST = 67 }; /* rows that are there, and those of them that are asked for */

static const PassProduct products[] = {{.k = 12, .n = 16, .ended = true},
                                       {.k = 49, .n = 37},
                                       {.k = 21, .n = 9, .swapped = true, .ended = true},
                                       {.k = 300, .n = 5, .swapped = true},
                                       {.k = 36, .n = 20, .grad = true},
                                       {.k = 131, .n = 7, .grad = true}};
enum { PRODUCTS = sizeof products / sizeof *products };

/* Element (i, j) of a product: of all rows for a gradient, else row i's. */
static double expected(const PassProduct *s, const float *a, const float *b, const float *bias, int64_t i,
                       int64_t j) {
    double sum = 0;
    if (s->grad) {
        for (int64_t r = 0; r < ROWS; r++) sum += (double)a[r * s->k + i] * (double)b[r * s->n + j];
        return sum;
    }
    for (int64_t l = 0; l < s->k; l++)
        sum += (double)a[i * s->k + l] * (double)b[s->swapped ? j * s->k + l : l * s->n + j];
    return s->ended ? fmax(sum + (double)bias[j], 0) : sum;
}

static void check(const PassProduct *s, TuneFn f, TuneFn pack, char *scratch) {
    float *a = emit_jit_numbers((size_t)(ROWS * s->k), 1), *bias = emit_jit_numbers((size_t)s->n, 3);
    float *b = emit_jit_numbers((size_t)(s->n * (s->grad ? ROWS : s->k)), 2);
    int64_t rows = s->grad ? s->k : ROWS, lo = s->grad ? 0 : FIRST, hi = s->grad ? ROWS : LAST;
    float *c = emit_jit_room((size_t)(rows * s->n)), *panels = emit_jit_room((size_t)(s->k * (s->n + 16)));
    for (int64_t i = 0; i < rows * s->n; i++) c[i] = -77;
    if (pack) pack(NULL, panels, b, NULL, NULL, NULL, 0, 0);
    f(NULL, c, a, pack ? panels : b, scratch, bias, lo, hi);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < s->n; j++) {
            bool made = s->grad || (i >= FIRST && i < LAST);
            double is = (double)c[i * s->n + j], want = made ? expected(s, a, b, bias, i, j) : -77;
            if (!(fabs(is - want) <= 1e-4))
                fail_msg("%ldx%ld%s: element %ld, %ld is %g, expected %g", (long)s->k, (long)s->n,
                         s->grad ? " gradient" : "", (long)i, (long)j, is, want);
        }
    free(a), free(b), free(c), free(bias), free(panels);
}

static TuneFn function(Fx *fx, void *code, const char *way, int i) {
    TuneFn f;
    *(void **)&f = dlsym(code, arena_printf(fx->arena, "measured_%s_%d", way, i));
    return f;
}

static void test_both_ways(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrProgram *p = ir_program_new(fx.arena, fx_diag(&fx));
    char folder[] = "/tmp/ctrc_tune.XXXXXX";
    assert_non_null(mkdtemp(folder));
    char *object = arena_printf(fx.arena, "%s/code.o", folder),
         *so = arena_printf(fx.arena, "%s/code.so", folder);
    const char *const more[] = {"-shared", "-ldnnl", NULL};
    assert_true(tune_emit(p, products, PRODUCTS, object));
    assert_true(link_run(p, &object, 1, CTRC_BUILD_DIR "/lib/ctrc/libctrc_rt.a", more, so));
    void *code = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    if (!code) fail_msg("%s", dlerror());
    PassTarget t;
    assert_true(backend_target(fx.diag, "native", &t));
    for (int i = 0; i < PRODUCTS; i++) {
        char *scratch = (char *)emit_jit_room((size_t)tune_scratch(&t, &products[i]) / 4 + 16);
        TuneFn pack = function(&fx, code, "pack", i);
        assert_true(products[i].grad == !pack);
        check(&products[i], function(&fx, code, "tile", i), pack, scratch);
        check(&products[i], function(&fx, code, "library", i), NULL, scratch);
        free(scratch);
    }
    unlink(object), unlink(so);
    assert_int_equal(rmdir(folder), 0);
    assert_string_equal(fx_messages(&fx), "");
    fx_free(&fx);
}

/* An object that can't be written. */
static void test_no_place(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrProgram *p = ir_program_new(fx.arena, fx_diag(&fx));
    assert_false(tune_emit(p, products, 1, "/dev/null/none.o"));
    assert_string_equal(fx_messages(&fx), "error: can't write '/dev/null/none.o': Not a directory\n");
    fx_free(&fx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_both_ways), cmocka_unit_test(test_no_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
