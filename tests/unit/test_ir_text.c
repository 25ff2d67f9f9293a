/* The text of programs: everything that ir.h holds is printed, read and printed to the same bytes; each kind
 * of damage is an error with its place; no damage at all makes the reader crash. */
#include "test_ir_fixture.h"
#include <ctype.h>
#include <math.h>
#include "ir/internal.h"

static void assert_same_text(Fx *fx, const char *text) {
    const char *once = fx_print(fx, fx_program(fx, text));
    assert_string_equal(once, text);
}

static void test_everything(void **state) {
    (void)state;
    Fx fx = fx_new();
    assert_same_text(&fx, fx_file(&fx, "tests/golden/ir/everything.ir"));
    fx_free(&fx);
}

/* The whole program in ir/README.md. */
static const char *example(Fx *fx) {
    const char *begin = strstr(fx_file(fx, "ir/README.md"), "```ir\nctrc-ir");
    assert_non_null(begin);
    begin += strlen("```ir\n");
    const char *end = strstr(begin, "```");
    assert_non_null(end);
    return arena_strndup(fx->arena, begin, (size_t)(end - begin));
}

static void test_readme(void **state) {
    (void)state;
    Fx fx = fx_new();
    assert_same_text(&fx, example(&fx));
    fx_free(&fx);
}

/* Fields arrive where they belong: two that are swapped by both reader and printer would print the same
 * bytes. */
static void test_fields(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrProgram *p = fx_program(&fx, fx_file(&fx, "tests/golden/ir/everything.ir"));
    assert_string_equal(p->name, "every");
    assert_string_equal(p->source, "models/every.ctr");
    assert_true(p->digest == 0x0123456789abcdefull);
    assert_int_equal(p->params[0].num, 64);
    assert_true(p->params[1].is_string);
    assert_string_equal(p->params[1].str, "a\"b\\c\n\x01"
                                          "d\xff");

    assert_int_equal(p->n_axes, 6);
    assert_true(p->axes[0].max == 50 && p->axes[0].shared && p->axes[0].kind == AXIS_LIST &&
                p->axes[0].parent == -1);
    assert_true(p->axes[2].kind == AXIS_FIRST && p->axes[2].parent == 0 && p->axes[2].max == 3);
    assert_true(p->axes[3].kind == AXIS_LAST && p->axes[4].kind == AXIS_FILTER && p->axes[4].parent == 1);
    assert_true(p->axes[5].kind == AXIS_APPEND && p->axes[5].parent == 0 && p->axes[5].max == 51);

    const IrInput *in = &p->input;
    assert_true(in->kind == IN_CSV && in->separator == ',' && in->quote == '"' && in->header && in->trim);
    assert_int_equal(in->n_missing, 3);
    assert_string_equal(in->missing[1], "NULL");
    assert_string_equal(in->beside, "_neg");
    const IrColumn *c = in->columns;
    assert_true(c[0].kind == COL_LABEL && c[0].used && !c[0].used_predict && c[0].unit_label &&
                !c[0].is_list && c[0].axis == -1);
    assert_string_equal(c[0].positive, "yes");
    assert_string_equal(c[0].negative, "no");
    assert_true(c[0].span.line == 5 && c[0].span.col == 3 && c[0].span.end_line == 5 &&
                c[0].span.end_col == 20);
    assert_string_equal(fx.diag->files[c[0].span.file].path, "models/every.ctr");
    assert_true(c[1].has_default && c[1].default_num == -0.5 && !c[1].used);
    assert_true(c[2].has_default && c[2].default_len == 3 && memcmp(c[2].default_str, "a\0b", 3) == 0);
    assert_string_equal(c[2].from, "User Name");
    assert_true(c[3].is_list && c[3].list_sep == 2 && c[3].axis == 0 && c[3].used_predict);
    assert_true(c[6].default_num == 1e-300 && c[8].kind == COL_SKIP && c[8].skip == 2 && c[10].side == 1);

    assert_true(p->vocabs[0].n == 3 && p->vocabs[1].n == 3 && p->vocabs[1].lens[2] == 3);
    assert_string_equal(p->vocabs[0].values[1], "two");

    const IrOptimizer *o = p->opts;
    assert_true(o[0].kind == OPT_ADAM && o[0].lr.kind == SCHED_EXPONENTIAL && o[0].lr.lr == 0.001 &&
                o[0].lr.rate == 0.5 && o[0].lr.every == 1000);
    assert_true(o[0].clip_norm == 5 && o[0].l2 == 1e-5 && o[0].beta1 == 0.9 && o[0].beta2 == 0.999 &&
                o[0].eps == 1e-8 && o[0].exact);
    assert_true(o[1].kind == OPT_FTRL && o[1].lr.n == 2 && o[1].lr.at[1] == 20 && o[1].lr.values[2] == 0.001);
    assert_true(o[1].init == 0.1 && o[1].l1_ftrl == 0.5 && o[1].l2_ftrl == 2 && o[1].n_targets == 2 &&
                !o[1].exact);
    assert_string_equal(o[1].targets[1], "deep.mlp.0");
    assert_true(o[2].lr.kind == SCHED_WARMUP && o[2].lr.steps == 100 && o[2].lr.then->kind == SCHED_COSINE);
    assert_true(o[2].lr.then->lr == 0.1 && o[2].lr.then->steps == 1000 && o[2].lr.then->end == 0.001 &&
                o[2].momentum == 0.9);
    assert_true(o[3].rate == 0.9 && o[3].every == 100000 && o[4].rho == 0.9);

    const IrWeight *w = p->weights;
    assert_true(w[0].rank == 2 && w[0].dim[0] == 1000 && w[0].init == INIT_TRUNCATED_NORMAL &&
                w[0].init_arg == 0.5);
    assert_true(w[0].trainable && w[0].table && w[0].lazy && w[0].sparse && !w[0].running &&
                w[0].optimizer == 0 && w[0].own_optimizer == 1);
    assert_string_equal(fx.diag->files[w[0].span.file].path, "lib/dense.ctr");
    assert_true(fx.diag->files[w[0].span.file].library);
    assert_true(w[4].running && !w[4].trainable && w[4].optimizer == -1 && signbit(w[6].init_arg));

    assert_true(p->batch == 64 && p->epochs == 3 && p->steps == 100 && p->shuffle == 20000 && p->seed == -7);
    assert_string_equal(p->requests[1], "-split-concat");
    assert_string_equal(p->applied[1], "micro-batch(n=8)");
    assert_true(p->n_effects == 1 && !strcmp(p->effects[0], "split-concat: 1 product \"split\""));
    assert_int_equal(p->next_id, 43); /* above every id in use */

    const IrFunc *f = ir_func(p, "train");
    assert_true(f->fixed_bytes == 1280 && f->lower_bytes == 1280 && f->axis_elems[0] == 6 &&
                f->axis_elems[1] == 1 && f->uniq_elems[1] == 4);
    const IrNode *fused = f->body.nodes[5];
    assert_true(fused->op == OP_FUSED && fused->id == 5 && fused->body->n == 4 &&
                fused->body->nodes[3]->body->n == 2);
    assert_string_equal(fused->name, "deep");
    assert_true(fused->plan.phase == 1 && fused->plan.domain == DOM_ROWS && fused->plan.block == 64);
    assert_true(fused->plan.kernel == KERNEL_LIBRARY && fused->plan.region == REGION_FIXED &&
                fused->plan.offset == 1024);
    assert_true(fused->body->nodes[0]->plan.phase == -1 && fused->aux == NULL);
    const IrNode *model = ir_func(p, "model")->body.nodes[15];
    assert_true(ir_attr(model, "value")->flist.n == 4 && isinf(ir_attr(model, "value")->flist.v[2]) &&
                model->type.live == LIVE_ALWAYS);
    fx_free(&fx);
}

static void test_doubles(void **state) {
    (void)state;
    static const struct {
        double v;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "-0"},
        {1, "1"},
        {1000, "1000"},
        {1e15, "1e+15"},
        {123456789012345, "123456789012345"},
        {0.1, "0.1"},
        {1e-5, "1e-05"},
        {1.0 / 3, "0.3333333333333333"},
        {0.1 + 0.2, "0.30000000000000004"},
        {5e-324, "5e-324"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
    };
    char buf[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(ir_double_text(cases[i].v, buf), cases[i].text);
    assert_string_equal(ir_double_text(NAN, buf), "nan");
    uint64_t bits = 88172645463325252ull; /* any bit pattern comes back */
    for (int i = 0; i < 20000; i++) {
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        double v;
        memcpy(&v, &bits, sizeof v);
        if (!isfinite(v)) continue;
        double back = strtod(ir_double_text(v, buf), NULL);
        assert_memory_equal(&back, &v, sizeof v);
    }
}

/* Comments, blank lines, CRLF and another order of items are read, and printed in the one way. */
static void test_by_hand(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrProgram *p = fx_program(&fx, "; a comment\n\nctrc-ir 1 ; and one more\r\n"
                                   "train seed=5 batch=2\r\n"
                                   "weight \"w\" [ 2 , 3 ] zeros  ; \"quoted\" without need\n"
                                   "input csv\n"
                                   "model m\n"
                                   "func f {\n\n  %7 = weight {w = \"w\"} : always f32[2, 3]\n}");
    assert_string_equal(fx_print(&fx, p),
                        "ctrc-ir 1\nmodel m\ndigest 0x0000000000000000\ninput csv separator=\"\"\n"
                        "weight w [2,3] zeros\n"
                        "train batch=2 epochs=0 steps=0 shuffle=0 seed=5\n"
                        "func f {\n  %7 = weight {w=w} : always f32[2,3]\n}\n");
    fx_free(&fx);
}

/* Files are numbered by the text itself, whatever the reading process has open already. */
static void test_files_are_renumbered(void **state) {
    (void)state;
    Fx fx = fx_new();
    static const char model[] = "model every\n\n\n# axis\n";
    diag_add_file(fx_diag(&fx), "other.ctr", "", 0, false);
    diag_add_file(fx_diag(&fx), "models/every.ctr", model, strlen(model), false);
    const char *text = fx_file(&fx, "tests/golden/ir/everything.ir");
    IrProgram *p = fx_program(&fx, text);
    assert_string_equal(fx_print(&fx, p), text);
    assert_int_equal(p->axes[0].span.file, 1); /* the file that was open: its text serves messages */
    fx_free(&fx);
}

static void test_print_only(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrProgram *p = fx_program(&fx, fx_file(&fx, "tests/golden/ir/everything.ir"));
    static const char *const what[] = {"%3", "fields", "d*p", "nothing"};
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
        fprintf(f, "---- %s\n", what[i]);
        ir_print_only(p, what[i], f);
    }
    fclose(f);
    fx_golden(&fx, "tests/golden/ir/print-only.txt", text);
    free(text);
    fx_free(&fx);
}

/* ---- damage ---- */

static const char small[] =
    "ctrc-ir 1\n"
    "model m\n"
    "digest 0x0000000000000001\n"
    "file 0 \"m.ctr\"\n"
    "axis h list\n"
    "input csv separator=\",\"\n"
    "column s string list=\";\" axis=h\n"
    "vocab 0 values=[\"a\", \"b\"]\n"
    "optimizer 0 sgd lr=warmup(5, piecewise([1], [2, 3]))\n"
    "weight w [4,2] normal(0.1) trainable table optimizer=0 @1:2-3:4\n"
    "train batch=16\n"
    "func train fixed=256 axes=[h: 2] {\n"
    "  %0 = column {col=s} : str[~h] #phase=0\n"
    "  %1 = hash %0 {buckets=4, fn=\"xxh3\"} : id<4>[~h] #phase=0 at=input+0\n"
    "  %2 = weight {w=w} : always f32[4,2] #phase=0\n"
    "  %3 = embed %1, %2 : f32[~h,2] @1:2-3:4 \"w\" #phase=0 domain=rows block=8 kernel=loop at=axis+0\n"
    "  %4 = seg_sum %3 : f32[2] #phase=0 domain=rows block=8 kernel=loop at=fixed+0\n"
    "  %5 = fused %4 {kind=\"chain\"} : f32[2] #phase=0 domain=rows block=8 kernel=loop at=fixed+128 {\n"
    "    %6 = arg {index=0} : f32[2]\n"
    "    %7 = relu %6 : f32[2]\n"
    "  }\n"
    "}\n";

typedef struct {
    const char *from, *to; /* the first `from` in the sample becomes `to` */
} Damage;

static const Damage damages[] = {
    /* the head */
    {"ctrc-ir 1", "ctrc-ir 2"},
    {"ctrc-ir 1", "model m"},
    {"model m\n", "model m\nmodel n\n"},
    {"model m\n", "modle m\n"},
    {"model m\n", "model m n\n"},
    {"model m\n", "model \"m\n"},
    {"model m\n", "model \"m\\q\"\n"},
    {"model m\n", "model \"m\\x00\"\n"},
    {"model m\n", "model \x80\n"},
    {"0x0000000000000001", "17"},
    {"0x0000000000000001", "0x00000000000000010"},
    {"file 0 ", "file 1 "},
    {"axis h list", "axis h first max=2"},
    {"axis h list", "axis h list mx=2"},
    {"axis h list", "axis h lst"},
    {"input csv", "input xls"},
    {"separator=\",\"", "separator=\",,\""},
    {"s string", "s text"},
    {" axis=h", ""},
    {"axis=h\n", "axis=hh\n"},
    {"vocab 0 values=[\"a\", \"b\"]", "vocab 0 values=[]"},
    {"vocab 0 values=[\"a\", \"b\"]", "vocab 1 values=[\"a\"]"},
    {"vocab 0 values=[\"a\", \"b\"]", "vocab 0"},
    {"vocab 0 values", "vocab 0 digest=0x1 values"},
    {"vocab 0 values=[\"a\", \"b\"]", "vocab 0 path=\"no/such/file\" digest=0x0000000000000001"},
    {"vocab 0 values=[\"a\", \"b\"]", "vocab 0 path=\"tests/golden/ir/voc.txt\" digest=0x0000000000000001"},
    {"sgd", "sdg"},
    {"[2, 3]", "[2]"},
    {"warmup(5, ", "wramup(5, "},
    {"lr=warmup(5, piecewise([1], [2, 3]))", "l2=1e"},
    {"[4,2]", "[4,0]"},
    {"[4,2]", "[4,2,2,2,2,2,2]"},
    {"[4,2]", "[99999999999999999999]"},
    {"[4,2]", "[1099511627776,2]"},
    {"trainable ", ""},
    {"optimizer=0 @", "optimizer=1 @"},
    {"@1:2-3:4", "@1:2-3"},
    {"@1:2-3:4", "@1/1:2-3:4"},
    {"@1:2-3:4", "@0:2-3:4"},
    {"batch=16", "batch=-1"},
    {"weight w", "weight w [1] zeros\nweight w"},
    {"column s", "column s string\ncolumn s"},
    /* functions */
    {"func train", "func"},
    {"func train", "func eval {\n}\nmodel m\nfunc train"},
    {"func train", "func train {\n}\nfunc train"},
    {"fixed=256", "fixd=256"},
    {"fixed=256", "fixed=256 lower=-1"},
    {"fixed=256", "fixed=256 lower=257"},
    {"fixed=256", "fixed=256 lower=64"},
    {"fixed=256", "fixed=9223372036854775807"},
    {"fixed=256", "fixed=256 blocks=1"},
    {"fixed=256", "fixed=256 loop=[0, 0]"},
    {"fixed=256", "fixed=256 blocks=2 loop=[1, 0]"},
    {"fixed=256", "fixed=256 blocks=2 loop=[0]"},
    {"fixed=256", "fixed=256 blocks=2 loop=0"},
    {"fixed=256", "fixed=256 blocks=2 loop=[0, 1]"},
    {"axes=[h: 2]", "axes=[g: 2]"},
    {"axes=[h: 2]", "axes=[h]"},
    {"axes=[h: 2]", "axes=[h: 4611686018427387920]"},
    {"%0 = column", "%0 column"},
    {"%0 = column", "0 = column"},
    {"= embed", "= embde"},
    {"embed %1, %2", "embed %1, %9"},
    {"embed %1, %2", "embed %1, %4"},
    {"embed %1, %2", "embed %1"},
    {"embed %1, %2", "embed %1, 2"},
    {"= seg_sum %3", "= seg_sum %4"},
    {"%4 = seg_sum", "%3 = seg_sum"},
    {"{col=s}", "{col=t}"},
    {"{col=s}", "{column=s}"},
    {"{col=s}", "{col=s, col=s}"},
    {"{col=s}", "{}"},
    {"{buckets=4, ", "{"},
    {"buckets=4", "buckets=4.5"},
    {"buckets=4", "buckets=\"4\""},
    {"fn=\"xxh3\"", "fn=xxh3"},
    {": str[~h]", ": str"},
    {": str[~h]", ": string"},
    {": str[~h]", ": str[~h,2]"},
    {": id<4>[~h]", ": id[~h]"},
    {": f32[~h,2]", ": f32[~h]"},
    {": f32[~h,2]", ": f32[~h,3]"},
    {": f32[~h,2]", ": f32[2"},
    {": f32[~h,2]", ": step f32[~h,2]"},
    {": always f32[4,2]", ": always f32[4,-2]"},
    {"    %7 = relu %6", "    %7 = relu %4"},
    {"    %7 = relu %6", "    %7 = relu %6 {"},
    {"  }\n}\n", "  }\n"},
    {"  }\n}\n", "  }\n}}\n"},
    {"{index=0} : f32[2]\n", "{index=0} : f32[3]\n"},
    {"{index=0}", "{index=1}"},
    {"{index=0}", "{index=-1}"},
    {"{index=0}", "{}"},
    {"{kind=\"chain\"}", "{kind=\"chian\"}"},
    {"fused %4 {", "fused {"},
    {"at=fixed+128 {\n", "at=fixed+128\n"},
    {"    %6 = arg {index=0} : f32[2]\n    %7 = relu %6 : f32[2]\n", ""},
    {"    %6 = arg {index=0} : f32[2]\n", ""},
    {"    %7 = relu %6 : f32[2]\n", "    %7 = sum %6 {axis=0, keep=0} : f32[1]\n"},
    {"    %7 = relu %6 : f32[2]\n", "    %7 = relu %7 : f32[2]\n"},
    {"    %7 = relu %6 : f32[2]\n", "    %7 = relu %8 : f32[2]\n    %8 = relu %6 : f32[2]\n"},
    {"    %7 = relu %6 : f32[2]\n", "    %7 = predict %6 {name=\"p\"} : none\n"},
    {"    %6 = arg", "    %8 = column {col=s} : str[~h]\n    %6 = arg"},
    {"    %7 = relu %6 : f32[2]\n", "    %7 = relu %6 : f32[2] #phase=0\n"},
    {"  }\n}\n", "  }\n  %8 = relu %7 : f32[2] #phase=0 domain=rows block=8 kernel=loop at=fixed+0\n}\n"},
    {"  %4 = seg_sum %3 : f32[2] #phase=0", "  %4 = seg_sum %3 : f32[2] #phase=2"},
    /* plans */
    {"#phase=0\n", "#phse=0\n"},
    {"#phase=0\n", "#phase=-1\n"},
    {"#phase=0\n", "\n"},
    {"#phase=0\n", "#phase=1\n"},
    {"domain=rows", "domain=row"},
    {"domain=rows", "domain=one"},
    {"block=8", "block=0"},
    {"at=fixed+128", "at=fixed-128"},
    {"at=fixed+128", "at=fixd+128"},
    {"at=fixed+128", "at=axis+0"},
    {"at=fixed+128", "at=fixed+100"},
    {"at=fixed+128", "at=fixed+192"},
    {"at=fixed+128", "at=fixed+9223372036854775807"},
    {"at=fixed+128", "at=fixed+64"},
    {"at=axis+0", "at=axis+1"},
    {"at=axis+0", "at=axis+0 per_block=2"},
    {"at=axis+0", "at=axis+0 per_block=1"},
    {"at=axis+0", "at=axis"},
    {"at=axis+0\n", "at=axis+0 at=axis+1\n"},
};

static const char *damaged(Fx *fx, const Damage *d) {
    const char *at = strstr(small, d->from);
    if (!at) fail_msg("the sample has no '%s'", d->from);
    return arena_printf(fx->arena, "%.*s%s%s", (int)(at - small), small, d->to, at + strlen(d->from));
}

/* Each message stands in a golden file; every one has a place, and nothing is read in spite of its damage. */
static void test_damage(void **state) {
    (void)state;
    char *all = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&all, &size);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        Fx fx = fx_new();
        IrProgram *p = fx_read(&fx, damaged(&fx, &damages[i]));
        fputs("---- ", f);
        for (int side = 0; side < 2; side++) { /* one line, printable */
            const char *s = side ? damages[i].to : damages[i].from;
            for (; *s; s++) fputc(*s == '\n' ? '|' : (unsigned char)*s < 0x80 ? *s : '?', f);
            fputs(side ? "\n" : "  ->  ", f);
        }
        fputs(fx_messages(&fx), f);
        if (p) fail_msg("read in spite of '%s' -> '%s'", damages[i].from, damages[i].to);
        if (strncmp(fx_messages(&fx), "test.ir:", 8) != 0)
            fail_msg("no place for '%s' -> '%s': %s", damages[i].from, damages[i].to, fx_messages(&fx));
        fx_free(&fx);
    }
    fclose(f);
    Fx fx = fx_new();
    fx_golden(&fx, "tests/golden/ir/damage.txt", all);
    fx_free(&fx);
    free(all);
}

static void test_sample_is_sound(void **state) {
    (void)state;
    Fx fx = fx_new();
    fx_program(&fx, small);
    fx_free(&fx);
}

/* Reads exactly n bytes that end where the allocation ends, so that a sanitizer sees a read beyond. Whatever
 * is read is printed and read again. */
static void survive(const char *text, size_t n) {
    char *exact = malloc(n ? n : 1);
    memcpy(exact, text, n);
    Fx fx = fx_new();
    IrProgram *p = ir_read(fx.arena, fx_diag(&fx), "test.ir", exact, n);
    if (p) {
        const char *once = fx_print(&fx, p);
        IrProgram *again = fx_read(&fx, once);
        if (!again) fail_msg("printed but not read again:\n%s\n%s", once, fx_messages(&fx));
        assert_string_equal(fx_print(&fx, again), once);
    } else { /* "test.ir:LINE:COLUMN: error: …" */
        assert_true(fx.diag->errors > 0);
        unsigned line, column;
        if (sscanf(fx_messages(&fx), "test.ir:%u:%u: error: ", &line, &column) != 2 || !line || !column)
            fail_msg("no place in '%s', of:\n%.*s", fx_messages(&fx), (int)n, text);
    }
    fx_free(&fx);
    free(exact);
}

static void test_truncated_anywhere(void **state) {
    (void)state;
    for (size_t n = 0; n <= strlen(small); n++) survive(small, n);
    Fx fx = fx_new();
    const char *text = fx_file(&fx, "tests/golden/ir/everything.ir");
    for (size_t n = 0; n <= strlen(text); n += 3) survive(text, n);
    fx_free(&fx);
}

static void test_mutated_anywhere(void **state) {
    (void)state;
    static const char bytes[] = {0, '\n', '"', '%', '9', '-', '{', '}', '[', 'a', ' ', '\\', '@', '\xff'};
    size_t n = strlen(small);
    char *text = malloc(n + 1);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof bytes; k++) {
            memcpy(text, small, n);
            text[i] = bytes[k];
            survive(text, n);
        }
    for (size_t i = 0; i < n; i++) { /* a byte missing */
        memcpy(text, small, i);
        memcpy(text + i, small + i + 1, n - i - 1);
        survive(text, n - 1);
    }
    free(text);
}

/* The end of the piece of text that begins at s: a word, number or value, a quoted string, one other byte. */
static const char *piece_end(const char *s) {
    const char *from = s;
    if (*s == '"') {
        for (s++; *s && *s != '"'; s++) s += *s == '\\' && s[1];
        return *s ? s + 1 : s;
    }
    while (isalnum((unsigned char)*s) || (*s && strchr("_.%~@", *s))) s++;
    return s > from ? s : s + 1;
}

static const char *line_end(const char *s) {
    const char *end = strchr(s, '\n');
    return end ? end + 1 : s + strlen(s);
}

/* Each piece of the text left out, told twice, and put behind the next one. */
static void damage_pieces(const char *text, const char *(*end_of)(const char *)) {
    size_t n = strlen(text);
    char *t = malloc(2 * n + 1);
    for (const char *s = text; *s; s = end_of(s)) {
        const char *end = end_of(s), *next = *end ? end_of(end) : end;
        size_t before = (size_t)(s - text), size = (size_t)(end - s), following = (size_t)(next - end);
        if (*s == ' ') continue;
        memcpy(t, text, before);
        memcpy(t + before, end, n - before - size);
        survive(t, n - size);
        memcpy(t + before, s, size);
        memcpy(t + before + size, s, n - before);
        survive(t, n + size);
        memcpy(t + before, end, following);
        memcpy(t + before + following, s, size);
        memcpy(t + before + following + size, next, strlen(next));
        survive(t, n);
    }
    free(t);
}

static void test_pieces_anywhere(void **state) {
    (void)state;
    Fx fx = fx_new();
    const char *all = fx_file(&fx, "tests/golden/ir/everything.ir"), *plan = example(&fx);
    const char *texts[] = {small, all, plan};
    for (int i = 0; i < 3; i++) {
        damage_pieces(texts[i], line_end);
        if (i == 0 || !getenv("CTRC_TEST_LIGHT")) damage_pieces(texts[i], piece_end);
    }
    for (const char *s = plan; *s; s = line_end(s)) survive(plan, (size_t)(s - plan));
    fx_free(&fx);
}

/* Depth is limited, not the stack. */
static void test_depth(void **state) {
    (void)state;
    Fx fx = fx_new();
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    fputs("ctrc-ir 1\nfunc f {\n", f);
    for (int i = 0; i < 100000; i++) fprintf(f, "%%%d = fused {kind=\"chain\"} : f32[1] {\n", i);
    fclose(f);
    assert_null(fx_read(&fx, text));
    assert_non_null(strstr(fx_messages(&fx), "regions nested more than 16 deep"));
    free(text);

    f = open_memstream(&text, &size);
    fputs("ctrc-ir 1\noptimizer 0 sgd lr=", f);
    for (int i = 0; i < 100000; i++) fputs("warmup(1, ", f);
    fclose(f);
    assert_null(fx_read(&fx, text));
    assert_non_null(strstr(fx_messages(&fx), "schedules nested more than 16 deep"));
    free(text);
    fx_free(&fx);
}

static int in_source_dir(void **state) {
    (void)state;
    return chdir(CTRC_SOURCE_DIR); /* the sample's vocabulary is relative to it */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_readme),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_files_are_renumbered),
        cmocka_unit_test(test_print_only),
        cmocka_unit_test(test_sample_is_sound),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_truncated_anywhere),
        cmocka_unit_test(test_mutated_anywhere),
        cmocka_unit_test(test_pieces_anywhere),
        cmocka_unit_test(test_depth),
    };
    return cmocka_run_group_tests(tests, in_source_dir, NULL);
}
