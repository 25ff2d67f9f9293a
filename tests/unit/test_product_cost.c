/* Products that can be made in two ways: their names and sizes, and how schedule chooses by measured costs,
 * by its arguments and by its rule. */
#include "passes/product_cost.h"
#include "tests/unit/test_ir_fixture.h"

/* A row's x [1] times w [1,12] and v [12,16], back by v's transpose, and v's gradient; in eval x w with relu
 * behind it in a region, on 64 rows a call; %s: how train is run by blocks. */
static const char text[] = "ctrc-ir 1\n"
                           "model m\n"
                           "digest 0x0000000000000000\n"
                           "input csv separator=\",\"\n"
                           "column x float used used_predict\n"
                           "column y label used used_predict\n"
                           "optimizer 0 sgd lr=0.1\n"
                           "weight w [1,12] glorot_uniform trainable optimizer=0\n"
                           "weight v [12,16] glorot_uniform trainable optimizer=0\n"
                           "train batch=512 epochs=1 steps=0 shuffle=0 seed=1\n"
                           "func train%s {\n"
                           "  %%0 = column {col=x} : f32[1]\n"
                           "  %%1 = weight {w=w} : always f32[1,12]\n"
                           "  %%2 = weight {w=v} : always f32[12,16]\n"
                           "  %%3 = matmul %%0, %%1 {ta=0, tb=0} : f32[12]\n"
                           "  %%4 = matmul %%3, %%2 {ta=0, tb=0} : f32[16]\n"
                           "  %%5 = matmul %%4, %%2 {ta=0, tb=1} : f32[12]\n"
                           "  %%6 = sum %%5 {axis=0, keep=0} : f32[1]\n"
                           "  %%7 = mean_rows %%6 : step f32[1]\n"
                           "  %%8 = loss %%7 {name=\"total\"} : none\n"
                           "  %%9 = matmul_grad_w %%3, %%4 : step f32[12,16]\n"
                           "  %%10 = update %%9 {w=v} : none\n"
                           "}\n"
                           "func eval {\n"
                           "  %%0 = column {col=x} : f32[1]\n"
                           "  %%1 = weight {w=w} : always f32[1,12]\n"
                           "  %%2 = matmul %%0, %%1 {ta=0, tb=0} : f32[12]\n"
                           "  %%3 = sum %%2 {axis=0, keep=0} : f32[1]\n"
                           "  %%4 = predict %%3 {name=\"p\"} : none\n"
                           "}\n";

typedef struct {
    Fx fx;
    IrProgram *p;
    PassOptions o;
    PassCosts costs;
} World;

static void begin(World *w, const char *blocks) {
    *w = (World){.fx = fx_new()};
    Diag *d = fx_diag(&w->fx);
    const char *ir = arena_printf(w->fx.arena, text, blocks);
    w->p = ir_read(w->fx.arena, d, "m.ir", ir, strlen(ir));
    if (!w->p) fail_msg("%s", fx_messages(&w->fx));
    w->o =
        (PassOptions){.level = 2, .target = {8, 16, 32768, 524288}, .verify_each = true, .costs = &w->costs};
}

static void end(World *w) { fx_free(&w->fx); }

static void put(World *w, const char *key, double tile, double library) {
    pass_cost_put(w->fx.arena, &w->costs, (PassCost){key, tile, library});
}

/* "w:tile v:library …" of train's products in the order in which they stand now. */
static const char *kernels(const World *w) {
    const char *line = "";
    Arena *a = w->fx.arena;
    const IrBody *b = &w->p->funcs[0]->body;
    for (int i = 0; i < b->n; i++) {
        PassProduct s;
        if (!pass_product_shape(b->nodes[i], &s)) continue;
        line = arena_printf(a, "%s%s%s:%s", line, *line ? ", " : "", pass_product_name(a, &s),
                            b->nodes[i]->plan.kernel == KERNEL_LIBRARY ? "library" : "tile");
    }
    return line;
}

static const char *recorded(const World *w) { return w->p->applied[w->p->n_applied - 1]; }

static bool schedule(World *w, const char *args) { return pass_run_one(w->p, &w->o, "schedule", args); }

/* ---- names and sizes ---- */

static void test_keys(void **state) {
    (void)state;
    static const struct {
        const char *blocks;
        int node, block;
        const char *key;
    } cases[] = {
        {"", 3, 64, "1x12, 64 of 512 rows"},       {"", 5, 32, "16x12t, 32 of 512 rows"},
        {"", 9, 1, "dW 12x16, 512 rows"},          {" blocks=8", 9, 1, "dW 12x16, 64 rows"},
        {" blocks=3", 9, 1, "dW 12x16, 171 rows"}, {" blocks=8", 4, 16, "12x16, 16 of 512 rows"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        World w;
        PassProduct s;
        begin(&w, cases[i].blocks);
        const IrFunc *f = w.p->funcs[0];
        assert_true(pass_product(w.p, f, f->body.nodes[cases[i].node], cases[i].block, &s));
        assert_string_equal(pass_product_key(w.fx.arena, &s), cases[i].key);
        assert_false(pass_product(w.p, f, f->body.nodes[6], 64, &s)); /* a sum is none */
        end(&w);
    }
    PassProduct large = {.k = 36, .n = 80, .ended = true, .call_rows = 2048, .step_rows = 4096};
    Arena *a = arena_new();
    assert_string_equal(pass_product_key(a, &large), "36x80, 2048 of 4096 rows, epilogue");
    assert_true(pass_product_flops(&large) == 2.0 * 36 * 80 * 4096);
    arena_free(a);
}

static void test_large_batches_are_cut(void **state) {
    (void)state;
    World w;
    PassProduct s;
    begin(&w, "");
    w.p->batch = 100000;
    const IrFunc *f = w.p->funcs[0];
    assert_true(pass_product(w.p, f, f->body.nodes[3], 4096, &s));
    assert_string_equal(pass_product_key(w.fx.arena, &s), "1x12, 2048 of 4096 rows");
    w.p->batch = 48; /* less than a block */
    assert_true(pass_product(w.p, f, f->body.nodes[3], 64, &s));
    assert_string_equal(pass_product_key(w.fx.arena, &s), "1x12, 48 of 48 rows");
    end(&w);
}

/* Up to four columns are dot products; those of bfloat16 have tiles. */
static void test_one_way_only(void **state) {
    (void)state;
    World w;
    PassProduct s;
    begin(&w, "");
    IrNode *product = w.p->funcs[0]->body.nodes[3];
    assert_true(pass_product_shape(product, &s));
    IrAttr *attrs = ARENA_ARRAY(w.fx.arena, IrAttr, 3);
    attrs[0] = product->attrs[0], attrs[1] = product->attrs[1], attrs[2] = ir_ab("bf16", true);
    product->attrs = attrs, product->n_attrs = 3;
    assert_false(pass_product_shape(product, &s));
    product = w.p->funcs[0]->body.nodes[9];
    assert_true(pass_product_shape(product, &s));
    product->in[1]->type.dim[0] = 4;
    assert_false(pass_product_shape(product, &s));
    end(&w);
}

/* ---- the choice ---- */

static const char by_rule[] = "1x12:tile, 12x16:tile, 16x12t:tile, dW 12x16:tile";

static void test_choice_by_cost(void **state) {
    (void)state;
    static const struct {
        double tile, library;
        const char *kernels, *record;
    } cases[] = {
        {90, 60, by_rule, "schedule"},
        {90, 107, by_rule, "schedule"}, /* not a fifth faster */
        {90, 109, "1x12:tile, 12x16:tile, 16x12t:tile, dW 12x16:library", "schedule(library=dW 12x16)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        World w;
        begin(&w, "");
        put(&w, "dW 12x16, 512 rows", cases[i].tile, cases[i].library);
        put(&w, "dW 12x16, 64 rows", 1, 100); /* of other sizes: don't count */
        put(&w, "12x16, 32 of 512 rows", 1, 100);
        assert_true(schedule(&w, NULL));
        assert_true(w.costs.asked);
        assert_string_equal(kernels(&w), cases[i].kernels);
        assert_string_equal(recorded(&w), cases[i].record);
        assert_string_equal(fx_messages(&w.fx), "");
        end(&w);
    }
}

/* Of products it is enough to be a tenth faster. */
static void test_margin_of_products(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        World w;
        begin(&w, "");
        put(&w, "12x16, 64 of 512 rows", 90, i ? 100 : 98);
        assert_true(schedule(&w, NULL));
        assert_string_equal(recorded(&w), i ? "schedule(library=12x16)" : "schedule");
        end(&w);
    }
}

/* What the rule gives to the library, costs can give to tiles. */
static void test_choice_against_library(void **state) {
    (void)state;
    World w;
    begin(&w, "");
    w.o.target.vector_floats = 16, w.o.target.vector_regs = 32; /* 12 columns are no vector */
    put(&w, "16x12t, 64 of 512 rows", 90, 60);
    put(&w, "12x16, 64 of 512 rows", 60, 90);
    assert_true(schedule(&w, "rows=64"));
    assert_string_equal(kernels(&w), "1x12:library, 12x16:library, 16x12t:tile, dW 12x16:tile");
    assert_string_equal(recorded(&w), "schedule(rows=64, library=12x16, tile=16x12t)");
    end(&w);
}

/* One size has one kernel: by the time that all its uses take together, and by none if one of them is
 * unknown. */
static void test_uses_count_together(void **state) {
    (void)state;
    World w;
    begin(&w, " blocks=8"); /* train multiplies 16 rows at a time, eval 64 */
    put(&w, "1x12, 16 of 512 rows", 10, 100);
    assert_true(schedule(&w, NULL));
    assert_string_equal(recorded(&w), "schedule");
    end(&w);
    begin(&w, " blocks=8");
    put(&w, "1x12, 16 of 512 rows", 10, 100);
    put(&w, "1x12, 64 of 512 rows", 100, 50);
    assert_true(schedule(&w, NULL));
    assert_string_equal(recorded(&w), "schedule(library=1x12)");
    end(&w);
    begin(&w, " blocks=8");
    put(&w, "1x12, 16 of 512 rows", 90, 100);
    put(&w, "1x12, 64 of 512 rows", 100, 50);
    assert_true(schedule(&w, NULL));
    assert_string_equal(recorded(&w), "schedule");
    end(&w);
}

/* 'dW 12x16' by the library saves half of its time; of all that was measured that is a fiftieth, then less
 * than a hundredth. */
static void test_little_is_nothing(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        World w;
        begin(&w, "");
        put(&w, "dW 12x16, 512 rows", 50, 100); /* in 1/50, saves 1/100 */
        put(&w, "12x16, 64 of 512 rows", i ? 0.9 : 1.1, 0.5);
        assert_true(schedule(&w, NULL));
        assert_string_equal(recorded(&w), i ? "schedule" : "schedule(library=dW 12x16)");
        end(&w);
    }
}

static void test_arguments_win(void **state) {
    (void)state;
    World w;
    begin(&w, "");
    put(&w, "dW 12x16, 512 rows", 90, 180);
    put(&w, "12x16, 64 of 512 rows", 90, 180);
    assert_true(schedule(&w, "tile=dW 12x16,library=16x12t"));
    assert_string_equal(kernels(&w), "1x12:tile, 12x16:library, 16x12t:library, dW 12x16:tile");
    assert_string_equal(recorded(&w), "schedule(tile=dW 12x16,library=16x12t, library=12x16)");
    end(&w);
    begin(&w, "");
    put(&w, "dW 12x16, 512 rows", 90, 180);
    assert_true(schedule(&w, "products=tile, library=12x16|1x12"));
    assert_false(w.costs.asked);
    assert_string_equal(kernels(&w), "1x12:library, 12x16:library, 16x12t:tile, dW 12x16:tile");
    assert_string_equal(fx_messages(&w.fx), "");
    end(&w);
}

static void test_wrong_names(void **state) {
    (void)state;
    static const char *const wrong[] = {"x",   "12x",  "12x16 ",  "dW 12x16t", "dW12x16",
                                        "0x5", "-1x5", "12x16tt", ""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        World w;
        begin(&w, "");
        const char *args = arena_printf(w.fx.arena, "library=12x16|%s|1x12", wrong[i]);
        assert_false(schedule(&w, args));
        assert_string_equal(
            fx_messages(&w.fx),
            arena_printf(w.fx.arena,
                         "error: schedule: expected products such as 396x512, 512x396t or 'dW 396x512' "
                         "in library=, found '%s'\n"
                         "hint: --emit=plan lists a model's products in columns op and size\n",
                         wrong[i]));
        end(&w);
    }
    World w;
    begin(&w, "");
    assert_true(schedule(&w, "library=12x16t|dW 1x12|12x16"));
    assert_string_equal(fx_messages(&w.fx),
                        "warning: schedule: this model has no product 12x16t\n"
                        "hint: --emit=plan lists a model's products in columns op and size\n"
                        "warning: schedule: this model has no product dW 1x12\n"
                        "hint: --emit=plan lists a model's products in columns op and size\n");
    end(&w);
}

/* ---- measuring ---- */

static bool measure(PassCosts *c, IrProgram *p, const PassProduct *products, int n) {
    const char **seen = c->context;
    for (int i = 0; i < n; i++) {
        const char *key = pass_product_key(p->arena, &products[i]);
        *seen = arena_printf(p->arena, "%s%s%s", *seen, i ? "; " : "", key);
        pass_cost_put(p->arena, c, (PassCost){key, 50, products[i].grad ? 80 : 40});
    }
    return true;
}

static bool cannot_measure(PassCosts *c, IrProgram *p, const PassProduct *products, int n) {
    (void)c, (void)products, (void)n;
    diag_error(p->diag, (Span){0}, NULL, "can't");
    return false;
}

static void test_measured_on_demand(void **state) {
    (void)state;
    World w;
    const char *seen = "";
    begin(&w, "");
    put(&w, "dW 12x16, 512 rows", 90, 20); /* from before: measured anew */
    w.costs.measure = measure, w.costs.context = &seen;
    assert_true(schedule(&w, NULL));
    assert_string_equal(seen, "1x12, 64 of 512 rows; 12x16, 64 of 512 rows; 16x12t, 64 of 512 rows; "
                              "dW 12x16, 512 rows"); /* eval's product is one of train's */
    assert_int_equal(w.costs.n, 4);
    assert_string_equal(recorded(&w), "schedule(library=dW 12x16)");
    end(&w);
    begin(&w, "");
    w.costs.measure = cannot_measure;
    assert_false(schedule(&w, NULL));
    assert_string_equal(fx_messages(&w.fx), "error: can't\n");
    end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_keys),
                                       cmocka_unit_test(test_large_batches_are_cut),
                                       cmocka_unit_test(test_one_way_only),
                                       cmocka_unit_test(test_choice_by_cost),
                                       cmocka_unit_test(test_margin_of_products),
                                       cmocka_unit_test(test_choice_against_library),
                                       cmocka_unit_test(test_uses_count_together),
                                       cmocka_unit_test(test_little_is_nothing),
                                       cmocka_unit_test(test_arguments_win),
                                       cmocka_unit_test(test_wrong_names),
                                       cmocka_unit_test(test_measured_on_demand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
