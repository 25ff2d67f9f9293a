/* The pass manager: levels, requests of the file against the command line, resuming behind what was applied,
 * dumps, and what it says about names that are no pass or passes that find nothing to do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/unit/pass_fixture.h"

typedef struct {
    Arena *a;
    Diag *d;
    IrProgram *p;
    FILE *messages_file, *out_file;
    char *messages, *out;
    size_t n1, n2;
    PassOptions o;
} World;

/* loss = (tanh(tanh(x w)) - y)^2 with w twice, so that simplify has work; a one-hot product if asked. */
static void model(World *w, bool hot) {
    IrProgram *p = w->p = fx_program(w->a, w->d);
    IrBuilder b = {.p = p, .body = &p->funcs[0]->body};
    int opt = fx_optimizer(p, (IrOptimizer){.kind = OPT_SGD, .lr = {.kind = SCHED_CONST, .lr = 0.1}});
    fx_weight(p, "w", opt, 1, (int64_t[]){1});
    IrNode *x = fx_column(&b, COL_X), *t = ir_build2(&b, OP_MUL, x, fx_weight_node(&b, 0));
    t = ir_build2(&b, OP_ADD, ir_build1(&b, OP_TANH, t), ir_build1(&b, OP_TANH, t));
    if (hot) {
        fx_weight(p, "hot", opt, 2, (int64_t[]){5, 1})->lazy = true;
        IrAttr plain[2] = {ir_ab("ta", false), ir_ab("tb", false)};
        IrNode *in[2] = {ir_build1(&b, OP_ONEHOT, fx_hash(&b, COL_S, 5)), fx_weight_node(&b, 1)};
        t = ir_build2(&b, OP_ADD, t, ir_build(&b, OP_MATMUL, 2, in, 2, plain));
    }
    fx_root(&b, OP_PREDICT, t, "p");
    fx_root(&b, OP_LOSS, ir_build1(&b, OP_SQUARE, ir_build2(&b, OP_SUB, t, fx_column(&b, COL_Y))), "l");
}

static void begin(World *w, bool hot) {
    *w = (World){.a = arena_new()};
    w->messages_file = open_memstream(&w->messages, &w->n1);
    w->out_file = open_memstream(&w->out, &w->n2);
    w->d = diag_new(w->a, w->messages_file);
    w->o =
        (PassOptions){.level = 2, .verify_each = true, .target = {8, 16, 32768, 524288}, .out = w->out_file};
    model(w, hot);
}

static void end(World *w) {
    fclose(w->messages_file);
    fclose(w->out_file);
    free(w->messages);
    free(w->out);
    arena_free(w->a);
}

static const char *said(World *w) {
    fflush(w->messages_file);
    return w->messages;
}

/* The applied passes, in one line. */
static const char *applied(const World *w) {
    const char *line = "";
    for (int i = 0; i < w->p->n_applied; i++)
        line = arena_printf(w->a, "%s%s%s", line, i ? " " : "", w->p->applied[i]);
    return line;
}

static void request(World *w, const char *text) {
    ARENA_PUSH(w->a, w->p->requests, w->p->n_requests, w->p->cap_requests, text);
}

#define ALL                                                                                                  \
    "simplify onehot-to-embedding split-concat differentiate simplify lazy-update fuse schedule plan-memory"

static void test_levels(void **state) {
    (void)state;
    World w;
    begin(&w, true);
    assert_true(pass_run_all(w.p, &w.o));
    assert_string_equal(applied(&w), ALL);
    assert_string_equal(said(&w), "");
    end(&w);
    begin(&w, true);
    w.o.level = 0;
    assert_true(pass_run_all(w.p, &w.o));
    assert_string_equal(applied(&w), "differentiate schedule plan-memory");
    end(&w);
}

static void test_enable_and_disable(void **state) {
    (void)state;
    static const PassArg simplify[] = {{"simplify", NULL}}, fuse[] = {{"fuse", NULL}},
                         rows[] = {{"schedule", "rows=32"}};
    World w;
    begin(&w, true); /* both places of simplify, and fuse by the file */
    w.o.disable = simplify;
    w.o.n_disable = 1;
    request(&w, "-fuse");
    assert_true(pass_run_all(w.p, &w.o));
    assert_string_equal(applied(&w),
                        "onehot-to-embedding split-concat differentiate lazy-update schedule plan-memory");
    end(&w);
    begin(&w, true); /* the command line wins over the file, in both directions */
    request(&w, "-fuse");
    request(&w, "+simplify");
    w.o.enable = fuse;
    w.o.n_enable = 1;
    w.o.disable = simplify;
    w.o.n_disable = 1;
    assert_true(pass_run_all(w.p, &w.o));
    assert_string_equal(
        applied(&w), "onehot-to-embedding split-concat differentiate lazy-update fuse schedule plan-memory");
    end(&w);
    begin(&w, true); /* at -O0, one by name; arguments are recorded */
    w.o.level = 0;
    request(&w, "+simplify");
    w.o.enable = rows;
    w.o.n_enable = 1;
    assert_true(pass_run_all(w.p, &w.o));
    assert_string_equal(applied(&w), "simplify differentiate simplify schedule(rows=32) plan-memory");
    end(&w);
}

static void test_required(void **state) {
    (void)state;
    static const PassArg no[] = {{"schedule", NULL}};
    World w;
    begin(&w, false);
    w.o.disable = no;
    w.o.n_disable = 1;
    assert_false(pass_run_all(w.p, &w.o));
    assert_non_null(
        strstr(said(&w), "error: pass 'schedule' can't be disabled: no program compiles without it"));
    end(&w);
}

/* What an .ir file may say, and no program can be planned for. */
static void test_no_batch(void **state) {
    (void)state;
    World w;
    begin(&w, false);
    w.p->batch = 0;
    assert_false(pass_run_all(w.p, &w.o));
    assert_string_equal(said(&w), "error: expected a batch of at least 1, found 0\n");
    end(&w);
}

static void test_names(void **state) {
    (void)state;
    static const PassArg wrong[] = {{"simplfy", NULL}};
    static const char *print[] = {"fuze"};
    World w;
    begin(&w, false);
    w.o.enable = wrong;
    w.o.n_enable = 1;
    w.o.print_after = print;
    w.o.n_print_after = 1;
    request(&w, "+plan-memry");
    assert_false(pass_run_all(w.p, &w.o));
    assert_non_null(strstr(said(&w), "error: unknown pass 'simplfy'"));
    assert_non_null(strstr(said(&w), "did you mean 'simplify'?"));
    assert_non_null(strstr(said(&w), "did you mean 'fuse'?"));
    assert_non_null(strstr(said(&w), "did you mean 'plan-memory'?"));
    assert_int_equal(w.p->n_applied, 0);
    end(&w);
    begin(&w, false);
    assert_false(pass_run_one(w.p, &w.o, "simplify", "deeply=1"));
    assert_non_null(strstr(said(&w), "error: pass 'simplify' has no argument 'deeply'"));
    assert_false(pass_run_one(w.p, &w.o, "nothing-like-it", NULL));
    assert_non_null(strstr(said(&w), "error: unknown pass 'nothing-like-it'"));
    end(&w);
}

/* Arguments out of range, or not among the words that a pass knows. */
static void test_argument_values(void **state) {
    (void)state;
    static const struct {
        const char *pass, *args, *message;
    } wrong[] = {
        {"schedule", "rows=0", "schedule: expected rows from 1 to 4096, found '0'"},
        {"schedule", "rows=6f", "schedule: expected rows from 1 to 4096, found '6f'"},
        {"schedule", "rows=", "schedule: expected rows from 1 to 4096, found ''"},
        {"schedule", "products=fast", "schedule: expected products=auto, tile or library, found 'fast'"},
        {"indicator-to-embedding", "dim=4097",
         "indicator-to-embedding: expected dim from 1 to 4096, found '4097'"},
        {"indicator-to-embedding", "combine=mean",
         "indicator-to-embedding: expected combine=sum or concat, found 'mean'"},
        {"gru-to-sru", "light=maybe", "gru-to-sru: expected light=false or true, found 'maybe'"},
        {"gru-to-sru", "tied=x", "gru-to-sru: expected tied=false or true, found 'x'"},
        {"gru-to-sru", "light,tied=true", "gru-to-sru: the light form has no reset gate that could be tied"},
        {"gru-to-sru", "layer=a", "pass 'gru-to-sru' has no argument 'layer'"},
        {"gru-to-sru", "layer=a", "hint: did you mean 'layers'?"},
        {"gru-to-sru", "x=1", "hint: it takes layers, light and tied"},
        {"gru-to-sru", "layers=a,light=true,layers=b", "pass 'gru-to-sru' has argument 'layers' twice"},
        {"split-concat", "x", "hint: it takes none"},
        {"lazy-update", "exact=true", "'exact' is an argument of an optimizer, not of pass 'lazy-update'"},
        {"lazy-update", "exact", "hint: write adam(exact = true) in the model"},
        {"micro-batch", "n=0", "micro-batch: expected n from 1 to"},
        {"micro-batch", "8", "hint: it takes n"},
        {"mixed-precision", NULL, "mixed-precision: the target has no bfloat16 products (avx512_bf16)"},
        {"mixed-precision", NULL,
         "hint: mixed-precision(force=true) computes the same with fp32 instructions"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        World w;
        begin(&w, false);
        assert_false(pass_run_one(w.p, &w.o, wrong[i].pass, wrong[i].args));
        assert_non_null(strstr(said(&w), wrong[i].message));
        end(&w);
    }
}

static void test_does_not_apply(void **state) {
    (void)state;
    static const PassArg asked[] = {
        {"onehot-to-embedding", NULL}, {"simplify", NULL}, {"gru-to-sru", "layers=states"}};
    World w;
    begin(&w, false);
    w.o.enable = asked;
    w.o.n_enable = 3;
    assert_true(pass_run_all(w.p, &w.o));
    assert_non_null(strstr(said(&w), "warning: pass 'onehot-to-embedding' does not apply to this model"));
    assert_non_null(strstr(said(&w), "warning: pass 'gru-to-sru' does not apply to this model"));
    assert_null(strstr(said(&w), "'simplify'"));
    end(&w);
}

static const char *effect_of(World *w, int i) { return i < w->p->n_effects ? w->p->effects[i] : "none"; }

/* Every pass says what it did, in the order in which they run; one that was asked for and changes the model
 * says it to the user as well. */
static void test_effects(void **state) {
    (void)state;
    static const PassArg asked[] = {{"micro-batch", "n=4"}, {"mixed-precision", "force=true"}};
    static const char *const said_of[] = {
        "simplify: func model, 9 to 8 ops, 0.000376 to 0.000248 MFLOP, 0.000952 to 0.000888 MB",
        "onehot-to-embedding: 1 one-hot looked up; func model, 8 to 7 ops, 0.000248 to 0.000168 MFLOP, "
        "0.000888 "
        "to 0.000548 MB",
        "split-concat: func model, 7 ops, 0.000168 MFLOP, 0.000548 MB as before",
        "differentiate: func model to train, 7 to 19 ops, 0.000168 to 0.000344 MFLOP, 0.000548 to 0.001304 "
        "MB",
        "simplify: func train, 19 ops, 0.000344 MFLOP, 0.001304 MB as before",
        "lazy-update: 1 weight by rows; func train, 19 to 20 ops, 0.000344 MFLOP, 0.001304 to 0.001312 MB",
        "micro-batch: 4 blocks of up to 2 rows a step; func train, 20 ops, 0.000344 MFLOP, 0.001312 MB",
        "mixed-precision: func train, 20 ops, 0.000344 MFLOP, 0.001312 MB as before",
        "fuse: 0 of 1 update of whole weights in one visit with the gradient; 1 not, as micro-batches add to "
        "the "
        "gradient block by block; train: 18 to 7 ops, 0.0 to 0.0 MB a step of 8 rows (chain 2, reduce 1; 1 "
        "with several "
        "results); eval: 9 to 5 ops, 0.0 to 0.0 MB a step of 8 rows (chain 2); predict: 6 to 3 ops, 0.0 to "
        "0.0 MB a "
        "step of 8 rows (chain 1); func train, 20 to 9 ops, 0.000344 MFLOP, 0.001312 to 0.000608 MB",
        "schedule: func train, 9 ops, 0.000344 MFLOP, 0.000608 MB, 5 phases, 10 barriers",
        "plan-memory: func train, 9 ops, 0.000344 MFLOP, 0.000608 MB, fixed 0.375 KiB (at least 0.375 live "
        "at "
        "once), 0.0625 KiB a thread for a block of rows",
    };
    World w;
    begin(&w, true);
    w.o.enable = asked;
    w.o.n_enable = 2;
    assert_true(pass_run_all(w.p, &w.o));
    for (size_t i = 0; i < sizeof said_of / sizeof *said_of; i++)
        assert_string_equal(effect_of(&w, (int)i), said_of[i]);
    assert_int_equal(w.p->n_effects, w.p->n_applied);
    const char *told = arena_printf(w.a,
                                    "applied micro-batch(n=4), which changes the model: %s\n"
                                    "warning: pass 'mixed-precision' does not apply to this model\n",
                                    effect_of(&w, 6) + strlen("micro-batch: "));
    assert_string_equal(said(&w), told);
    end(&w);
}

/* An .ir file is past some passes: asking for them, or for leaving them out, does nothing, and that is said.
 */
static void test_past(void **state) {
    (void)state;
    static const PassArg on[] = {{"gru-to-sru", NULL}, {"micro-batch", "n=2"}, {"fuse", NULL}},
                         off[] = {{"micro-batch", NULL}, {"differentiate", NULL}, {"lazy-update", NULL}};
    World w;
    begin(&w, true);
    assert_true(pass_run_one(w.p, &w.o, "differentiate", NULL));
    assert_true(pass_run_one(w.p, &w.o, "micro-batch", "n=4"));
    w.o.enable = on;
    w.o.n_enable = 3;
    w.o.disable = off + 2;
    w.o.n_disable = 1;
    assert_true(pass_run_all(w.p, &w.o));
    assert_string_equal(said(&w),
                        "warning: pass 'gru-to-sru' is not run: this program is already behind where it "
                        "stands, at 'micro-batch(n=4)'\n"
                        "warning: pass 'micro-batch' has run already: --enable=micro-batch changes "
                        "nothing\n");
    end(&w);
    begin(&w, true);
    assert_true(pass_run_one(w.p, &w.o, "differentiate", NULL));
    assert_true(pass_run_one(w.p, &w.o, "micro-batch", "n=4"));
    w.o.disable = off;
    w.o.n_disable = 1;
    assert_true(pass_run_all(w.p, &w.o));
    assert_string_equal(said(&w), "warning: pass 'micro-batch' has run already: --disable=micro-batch "
                                  "doesn't undo it\n");
    end(&w);
}

/* Compiled in two halves by hand, with the text between them, as in one go. */
static void test_resume(void **state) {
    (void)state;
    World w, whole;
    begin(&w, true);
    begin(&whole, true);
    assert_true(pass_run_all(whole.p, &whole.o));
    for (int halfway = 0; halfway < pass_count; halfway++) {
        IrProgram *p = fx_copy(w.a, w.d, w.p);
        for (int i = 0; i <= halfway; i++)
            if (pass_table[i].kind != PASS_CHANGES)
                assert_true(pass_run_one(p, &w.o, pass_table[i].name, NULL));
        w.p = fx_copy(w.a, w.d, p);
        assert_non_null(w.p);
        assert_true(pass_run_all(w.p, &w.o));
        assert_string_equal(applied(&w), ALL);
        assert_int_equal(w.p->funcs[0]->body.n, whole.p->funcs[0]->body.n);
        assert_int_equal(w.p->funcs[0]->fixed_bytes, whole.p->funcs[0]->fixed_bytes);
        model(&w, true);
    }
    end(&w);
    end(&whole);
    begin(&w, true); /* from -O0: what stands before an applied pass is never run after it */
    assert_true(pass_run_one(w.p, &w.o, "differentiate", NULL));
    assert_true(pass_run_all(w.p, &w.o));
    assert_string_equal(applied(&w), "differentiate simplify lazy-update fuse schedule plan-memory");
    end(&w);
}

static void test_dumps(void **state) {
    (void)state;
    static const char *after[] = {"simplify"}, *all[] = {"all"};
    World w;
    begin(&w, false);
    w.o.print_after = after;
    w.o.n_print_after = 1;
    assert_true(pass_run_all(w.p, &w.o));
    fflush(w.out_file);
    /* it stands twice: by its name it is dumped where it first runs, and what is saved is one program */
    assert_non_null(strstr(said(&w), "after simplify:\n"));
    assert_null(strstr(said(&w), "after simplify:\nafter simplify:\n"));
    assert_null(strstr(w.out + 1, "ctrc-ir 1\n"));
    Diag *d = diag_new(w.a, stderr);
    assert_non_null(ir_read(w.a, d, "dump", w.out, strlen(w.out)));
    end(&w);
    begin(&w, false);
    w.o.print_before = all;
    w.o.n_print_before = 1;
    w.o.print_only = "%0";
    assert_true(pass_run_all(w.p, &w.o));
    fflush(w.out_file);
    assert_null(strstr(w.out, "ctrc-ir"));
    assert_non_null(strstr(w.out, "%0 = column"));
    end(&w);
}

static void test_parse_args(void **state) {
    (void)state;
    World w;
    PassArg *list = NULL;
    int n = 0;
    begin(&w, false);
    assert_true(pass_parse_args(w.a, w.d, " a , b( x = \"1\", y=(2,3) ),c()", &list, &n));
    assert_int_equal(n, 3);
    assert_string_equal(list[0].name, "a");
    assert_null(list[0].args);
    assert_string_equal(list[1].name, "b");
    assert_string_equal(list[1].args, "x=1,y=(2,3)");
    assert_string_equal(list[2].name, "c");
    assert_null(list[2].args);
    assert_true(pass_parse_args(w.a, w.d, "d", &list, &n)); /* adds */
    assert_int_equal(n, 4);
    assert_true(pass_parse_args(w.a, w.d, "", &list, &n));
    assert_int_equal(n, 4);
    static const char *wrong[] = {"a(", "a)", "a,", ",a", "a(b)c", "a(x=(1)", "(x=1)"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int errors = w.d->errors;
        assert_false(pass_parse_args(w.a, w.d, wrong[i], &list, &n));
        assert_int_equal(w.d->errors, errors + 1);
    }
    end(&w);
}

static void test_list(void **state) {
    (void)state;
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    pass_list(f);
    fclose(f);
    for (int i = 0; i < pass_count; i++) {
        assert_non_null(strstr(text, pass_table[i].name));
        assert_non_null(strstr(text, pass_table[i].meaning));
        assert_true(strlen(pass_table[i].why_here) > 20);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),         cmocka_unit_test(test_enable_and_disable),
        cmocka_unit_test(test_no_batch),       cmocka_unit_test(test_required),
        cmocka_unit_test(test_names),          cmocka_unit_test(test_argument_values),
        cmocka_unit_test(test_does_not_apply), cmocka_unit_test(test_effects),
        cmocka_unit_test(test_past),           cmocka_unit_test(test_resume),
        cmocka_unit_test(test_dumps),          cmocka_unit_test(test_parse_args),
        cmocka_unit_test(test_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
