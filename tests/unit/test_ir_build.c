/* The builder and the helpers over a whole program. */
#include "test_ir_fixture.h"
#include "ir/internal.h"

static const char program[] = "ctrc-ir 1\n"
                              "axis h list\n"
                              "axis h3 first parent=h max=3\n"
                              "input csv separator=\",\"\n"
                              "column label label\n"
                              "column user string\n"
                              "column items string list=\";\" axis=h\n"
                              "column prices float list=\";\" axis=h\n"
                              "column weight float\n"
                              "column idle float\n"
                              "column group string\n"
                              "optimizer 0 adam lr=0.1\n"
                              "weight t [10,4] zeros trainable table lazy optimizer=0\n"
                              "weight w [4,1] zeros trainable optimizer=0\n"
                              "train batch=8\n";

static IrBuilder builder(IrProgram *p, const char *func) {
    return (IrBuilder){.p = p, .body = &ir_func_new(p, func)->body, .span = {0, 3, 4, 3, 9}, .name = "layer"};
}

static IrNode *column(IrBuilder *b, const char *name) {
    IrAttr a = ir_ai("col", ir_column_by_name(b->p, name));
    return ir_build(b, OP_COLUMN, 0, NULL, 1, &a);
}

/* Attributes in any order and of plain kinds come out in the table's order and kinds: equal nodes print
 * equally. */
static void test_attributes(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrProgram *p = fx_program(&fx, program);
    IrBuilder b = builder(p, "f");
    char fn[] = "xxh3";
    IrAttr attrs[] = {ir_as("fn", fn), ir_ai("buckets", 10)};
    IrNode *user = column(&b, "user"), *id = ir_build(&b, OP_HASH, 1, &user, 2, attrs);
    fn[0] = 'X'; /* strings were copied */
    assert_non_null(id);
    assert_string_equal(id->attrs[0].key, "buckets");
    assert_string_equal(ir_attr_s(id, "fn"), "xxh3");
    assert_int_equal(ir_attr_i(id, "buckets"), 10);
    assert_int_equal(user->attrs[0].kind, 'c');
    assert_null(ir_attr(id, "rate"));
    IrNode *x = column(&b, "weight");
    int64_t shape[] = {2, 3};
    IrAttr stretch[] = {ir_ail(fx.arena, "shape", shape, 2)};
    shape[0] = 9;
    IrNode *wide = ir_build(&b, OP_BROADCAST, 1, &x, 1, stretch);
    assert_int_equal(wide->type.dim[0], 2);
    IrAttr flags[] = {ir_ab("keep", true), ir_ai("axis", 1)};
    IrNode *sum = ir_build(&b, OP_SUM, 1, &wide, 2, flags);
    assert_string_equal(ir_type_text(p, sum->type), "f32[2,1]");
    assert_int_equal(sum->attrs[1].kind, 'b');
    assert_true(sum->span.line == 3 && strcmp(sum->name, "layer") == 0 && sum->plan.phase == -1);
    assert_true(ir_verify(p));
    fx_free(&fx);
}

/* An error stands at the builder's place; what follows from it is silent. */
static void test_errors(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrProgram *p = fx_program(&fx, program);
    static const char source[] = "\n\nx = relu(user)\n";
    int file = diag_add_file(fx.diag, "m.ctr", source, strlen(source), false);
    IrBuilder b = builder(p, "f");
    b.span = (Span){(uint16_t)file, 3, 5, 3, 15};
    IrNode *bad = ir_build1(&b, OP_RELU, column(&b, "user"));
    assert_null(bad);
    assert_null(ir_build2(&b, OP_ADD, bad, ir_const(&b, 1)));
    assert_null(ir_fused(&b, "chain", 1, &bad, b.body));
    assert_int_equal(fx.diag->errors, 1);
    assert_string_equal(fx_messages(&fx), "m.ctr:3:5: error: relu: expected f32, found str\n"
                                          "    3 | x = relu(user)\n"
                                          "      |     ^~~~~~~~~~\n");
    assert_int_equal(b.body->n, 2); /* the column and the constant: nothing half made */
    IrNode *user = column(&b, "user");
    IrAttr unknown[] = {ir_ai("buckets", 10), ir_as("fn", "xxh3"), ir_ai("size", 1)};
    assert_null(ir_build(&b, OP_HASH, 1, &user, 3, unknown));
    assert_null(ir_build(&b, OP_HASH, 1, &user, 1, unknown));
    assert_non_null(strstr(fx_messages(&fx), "hash: unknown attribute 'size'"));
    assert_non_null(strstr(fx_messages(&fx), "hash: missing attribute 'fn'"));
    fx_free(&fx);
}

static void test_region(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrProgram *p = fx_program(&fx, program);
    IrBuilder b = builder(p, "f");
    IrNode *x = column(&b, "prices"), *c = ir_const(&b, 0.5);
    assert_string_equal(ir_type_text(p, c->type), "always f32[1]");
    IrBody *body = ARENA_NEW(p->arena, IrBody);
    IrBuilder in = {.p = p, .body = body};
    IrNode *a0 = ir_arg(&in, 0, x->type), *a1 = ir_arg(&in, 1, c->type);
    ir_build1(&in, OP_SIGMOID, ir_build2(&in, OP_MUL, a0, a1));
    IrNode *fused = ir_fused(&b, "chain", 2, (IrNode *[]){x, c}, body);
    assert_string_equal(ir_type_text(p, fused->type), "f32[~h,1]");
    ir_renumber(p);
    assert_int_equal(fused->id, 2);
    assert_int_equal(body->nodes[0]->id, 3);
    assert_int_equal(p->next_id, 7);
    assert_true(ir_verify(p));
    const char *text = fx_print(&fx, p);
    assert_string_equal(fx_print(&fx, fx_program(&fx, text)), text);
    fx_free(&fx);
}

static void test_clone(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrProgram *p = fx_program(&fx, program);
    IrBuilder b = builder(p, "f");
    double bounds[] = {1, 2};
    IrNode *x = column(&b, "weight");
    IrAttr attr = ir_afl(fx.arena, "bounds", bounds, 2);
    IrNode *n = ir_build(&b, OP_BUCKETIZE, 1, &x, 1, &attr);
    n->mark = 5;
    n->aux = n;
    IrNode *c = ir_clone_node(p, n);
    assert_true(c->id != n->id && c->op == n->op && c->in[0] == x && c->mark == 0 && !c->aux);
    assert_true(ir_type_eq(c->type, n->type) && strcmp(c->name, n->name) == 0 &&
                c->span.line == n->span.line);
    c->attrs[0].flist.v[0] = 7; /* of its own */
    c->in[0] = n;
    assert_true(n->attrs[0].flist.v[0] == 1 && n->in[0] == x);
    assert_int_equal(b.body->n, 2);
    fx_free(&fx);
}

static void test_lookups(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrProgram *p = fx_program(&fx, program);
    IrBuilder b = builder(p, "f");
    assert_ptr_equal(&ir_func(p, "f")->body, b.body);
    assert_null(ir_func(p, "g"));
    assert_int_equal(ir_weight_by_name(p, "w"), 1);
    assert_int_equal(ir_weight_by_name(p, "x"), -1);
    assert_int_equal(ir_column_by_name(p, "idle"), 5);
    assert_int_equal(ir_column_by_name(p, "_"), -1);
    IrNode *x = column(&b, "weight"), *y = ir_build2(&b, OP_MUL, x, x);
    ir_build2(&b, OP_ADD, x, y);
    assert_int_equal(ir_count_uses(b.body, x), 3);
    assert_int_equal(ir_count_uses(b.body, y), 1);
    for (int op = 0; op < OP_COUNT; op++) assert_int_equal(ir_op_by_text(ir_ops[op].text), op);
    assert_int_equal(ir_op_by_text("no"), -1);
    fx_free(&fx);
}

static void assert_used(IrProgram *p, const char *used, const char *used_predict) {
    for (int i = 0; i < p->input.n_columns; i++) {
        const IrColumn *c = &p->input.columns[i];
        if (c->used != (strstr(used, c->name) != NULL) ||
            c->used_predict != (strstr(used_predict, c->name) != NULL))
            fail_msg("column '%s' is used %d, used_predict %d", c->name, c->used, c->used_predict);
    }
}

/* Columns that a root depends on, and those that a prediction depends on; through lengths of lists too. */
static void test_mark_used(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrProgram *p = fx_program(
        &fx, arena_printf(fx.arena, "%s%s", program,
                          "func model {\n"
                          "  %0 = column {col=user} : str\n"
                          "  %1 = hash %0 {buckets=10, fn=\"xxh3\"} : id<10>\n"
                          "  %2 = weight {w=t} : always f32[10,4]\n"
                          "  %3 = embed %1, %2 : f32[4]\n"
                          "  %4 = sum %3 {axis=0, keep=0} : f32[1]\n"
                          "  %5 = column {col=label} : f32[1]\n"
                          "  %6 = bce_logits %4, %5 : f32[1]\n"
                          "  %7 = column {col=weight} : f32[1]\n"
                          "  %8 = mul %6, %7 : f32[1]\n"
                          "  %9 = column {col=idle} : f32[1]\n"
                          "  %10 = relu %9 : f32[1]\n"
                          "  %11 = seg_len {axis=h3} : f32[1]\n"
                          "  %12 = div %4, %11 : f32[1]\n"
                          "  %13 = column {col=group} : str\n"
                          "  %14 = key %13 : key\n"
                          "  %15 = predict %12 {name=\"p\"} : none\n"
                          "  %16 = loss %8 {name=\"l\"} : none\n"
                          "  %17 = metric %4, %5, %14 {kind=\"gauc\", name=\"p\", where=0, by=1} : none\n"
                          "}\n"));
    p->input.columns[5].used = true; /* of an earlier run */
    ir_mark_used(p);
    assert_used(p, "user label weight group items", "user items");
    fx_free(&fx);
}

/* After differentiate: updates count as roots of `train`, and `predict` says what predictions need. */
static void test_mark_used_staged(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrProgram *p = fx_program(&fx, arena_printf(fx.arena, "%s%s", program,
                                                "func train {\n"
                                                "  %0 = column {col=user} : str\n"
                                                "  %1 = hash %0 {buckets=10, fn=\"xxh3\"} : id<10>\n"
                                                "  %2 = column {col=label} : f32[1]\n"
                                                "  %3 = broadcast %2 {shape=[4]} : f32[4]\n"
                                                "  %4 = row_grad %1, %3 {w=t, kinds=[0]} : f32[@t,4]\n"
                                                "  %5 = update_rows %4 {w=t} : none\n"
                                                "  %6 = column {col=idle} : f32[1]\n"
                                                "}\n"
                                                "func predict {\n"
                                                "  %0 = column {col=weight} : f32[1]\n"
                                                "  %1 = predict %0 {name=\"p\"} : none\n"
                                                "}\n"));
    ir_mark_used(p);
    assert_used(p, "user label weight", "weight");
    fx_free(&fx);
}

static void test_optimizers(void **state) {
    (void)state;
    static const struct {
        IrOptKind kind;
        const char *name, *slots;
    } cases[] = {
        {OPT_SGD, "sgd", ""},
        {OPT_MOMENTUM, "momentum", "v"},
        {OPT_ADAGRAD, "adagrad", "a"},
        {OPT_ADAGRAD_DECAY, "adagrad_decay", "a"},
        {OPT_RMSPROP, "rmsprop", "s"},
        {OPT_ADAM, "adam", "mv"},
        {OPT_ADAM_ASYNC, "adam_async", "mv"},
        {OPT_FTRL, "ftrl", "nz"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        IrOptimizer o = {.kind = cases[i].kind};
        const char *names[3];
        char all[4] = "";
        int n = ir_opt_slots(&o, names);
        for (int k = 0; k < n; k++) strcat(all, names[k]);
        assert_string_equal(all, cases[i].slots);
        assert_string_equal(ir_opt_name(cases[i].kind), cases[i].name);
    }
    assert_string_equal(ir_init_name(INIT_HE_NORMAL), "he_normal");
    double in, out;
    ir_fans(&(IrWeight){.rank = 3, .dim = {7, 5, 3}}, &in, &out);
    assert_true(in == 5 && out == 3);
    ir_fans(&(IrWeight){.rank = 1, .dim = {6}}, &in, &out);
    assert_true(in == 6 && out == 6);
}

static void test_types(void **state) {
    (void)state;
    IrType a = ir_f32(LIVE_POS, 0, 2, (int64_t[]){3, 4}), b = a;
    assert_int_equal(ir_type_size(a), 12);
    assert_int_equal(ir_type_width(a), 4);
    assert_true(ir_type_eq(a, b));
    b.axis = 1;
    assert_false(ir_type_eq(a, b));
    b = a, b.dim[5] = 9; /* beyond the rank */
    assert_true(ir_type_eq(a, b));
    b = a, b.dim[1] = 9;
    assert_false(ir_type_eq(a, b));
    IrType row = ir_f32(LIVE_ROW, 7, 1, (int64_t[]){3});
    assert_int_equal(row.axis, -1); /* only positions and unique rows have one */
    IrType id = {.elem = TY_ID, .live = LIVE_ROW, .axis = -1, .bound = 5}, other = id;
    assert_int_equal(ir_type_size(id), 1);
    other.bound = 6;
    assert_false(ir_type_eq(id, other));
    assert_true(ir_type_eq((IrType){.elem = TY_NONE, .live = LIVE_ROW},
                           (IrType){.elem = TY_NONE, .live = LIVE_STEP}));
}

static void test_cost(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrProgram *p = fx_program(&fx, arena_printf(fx.arena, "%s%s", program,
                                                "func f {\n"
                                                "  %0 = const {value=[0], shape=[8, 16]} : always f32[8,16]\n"
                                                "  %1 = column {col=weight} : f32[1]\n"
                                                "  %2 = broadcast %1 {shape=[8]} : f32[8]\n"
                                                "  %3 = matmul %2, %0 {ta=0, tb=0} : f32[16]\n"
                                                "  %4 = matmul_grad_w %2, %3 : step f32[8,16]\n"
                                                "  %5 = sigmoid %3 : f32[16]\n"
                                                "  %6 = sum %3 {axis=0, keep=0} : f32[1]\n"
                                                "  %7 = fused %3 {kind=\"chain\"} : f32[16] {\n"
                                                "    %8 = arg {index=0} : f32[16]\n"
                                                "    %9 = relu %8 : f32[16]\n"
                                                "    %10 = neg %9 : f32[16]\n"
                                                "  }\n"
                                                "  %11 = matmul %0, %0 {ta=1, tb=0} : always f32[16,16]\n"
                                                "}\n"));
    static const struct {
        int node;
        double flops, bytes;
    } cases[] = {
        {0, 0, 0},
        {2, 0, 4 * 9},
        {3, 2 * 8 * 16, 4 * (8 + 128 + 16)},
        {4, 2 * 8 * 16, 4 * (8 + 16 + 128)},
        {5, 16 * 16, 4 * 32},
        {6, 16, 4 * 17},
        {7, 32, 4 * 32},
        {8, 2.0 * 8 * 16 * 16, 4 * (128 + 128 + 256)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const IrNode *n = ir_func(p, "f")->body.nodes[cases[i].node];
        IrCost c = ir_cost(p, n);
        if (c.flops != cases[i].flops || c.bytes != cases[i].bytes)
            fail_msg("%s: %g flops, %g bytes", ir_ops[n->op].text, c.flops, c.bytes);
    }
    fx_free(&fx);
}

static void test_paths(void **state) {
    (void)state;
    static const struct {
        const char *path, *pattern;
        bool matches;
    } cases[] = {
        {"a.b.c", "a.b.c", true},  {"a.b.c", "a.b", true},    {"a.b.c", "a", true},
        {"a.b.c", "a.", false},    {"a.bc", "a.b", false},    {"a.b", "a.b.c", false},
        {"a.b", "", false},        {"a.b.c", "*", true},      {"a.b.c", "*.c", true},
        {"a.b.c", "a.*", true},    {"a.b.c", "*b", true},     {"a.bc", "*b", false},
        {"a.b.c", "*.b.*", true},  {"a.b.c", "*.a.*", false}, {"a", "a.*", false},
        {"aXbXc", "a*b*c", true},  {"a.b", "**b", true},      {"a.b", "a.?", false},
        {"gru_1.k", "gru", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (ir_path_matches(cases[i].path, cases[i].pattern) != cases[i].matches)
            fail_msg("'%s' and '%s'", cases[i].path, cases[i].pattern);
}

/* A weight that goes takes its number with it: in nodes, in bodies of regions, in types of unique rows. */
static void test_drop_weights(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrProgram *p = fx_program(&fx, program);
    int64_t one = 1;
    for (int i = 0; i < 2; i++) {
        IrWeight w = {.name = i ? "last" : "idle", .rank = 1, .dim = {1}, .optimizer = -1};
        ARENA_PUSH(p->arena, p->weights, p->n_weights, p->cap_weights, w);
    }
    IrBuilder b = builder(p, "f"), inner = {.p = p, .body = ARENA_NEW(p->arena, IrBody)};
    IrAttr last = ir_ai("w", 3), w = ir_ai("w", 1);
    IrNode *x = ir_build(&b, OP_WEIGHT, 0, NULL, 1, &last),
           *y = ir_build(&inner, OP_WEIGHT, 0, NULL, 1, &last);
    assert_non_null(ir_build(&b, OP_WEIGHT, 0, NULL, 1, &w));
    IrNode *arg = ir_arg(&inner, 0, x->type);
    assert_non_null(ir_build2(&inner, OP_ADD, arg, y));
    assert_non_null(ir_fused(&b, "chain", 1, &x, inner.body));
    IrNode *rows = ir_build1(&b, OP_NEG, x);
    rows->type = ir_f32(LIVE_UNIQ, 3, 1, &one);
    bool *named = ir_named_weights(p);
    assert_true(!named[0] && named[1] && !named[2] && named[3]);
    bool drop[] = {true, false, true, false};
    int *to = ir_drop_weights(p, drop);
    assert_true(to[0] == -1 && to[1] == 0 && to[2] == -1 && to[3] == 1);
    assert_int_equal(p->n_weights, 2);
    assert_string_equal(p->weights[0].name, "w");
    assert_string_equal(p->weights[1].name, "last");
    assert_int_equal(ir_attr_i(x, "w"), 1);
    assert_int_equal(ir_attr_i(y, "w"), 1);
    assert_int_equal(rows->type.axis, 1);
    fx_free(&fx);
}

/* A step of 8 rows, lists as long as is guessed: a table's gradient is cleared and written once, whatever
 * looks rows up. */
static void test_step_cost(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrProgram *p =
        fx_program(&fx, arena_printf(fx.arena, "%s%s", program,
                                     "func f {\n"
                                     "  %0 = column {col=user} : str\n"
                                     "  %1 = column {col=items} : str[~h]\n"
                                     "  %2 = hash %0 {buckets=10, fn=\"xxh3\"} : id<10>\n"
                                     "  %3 = hash %1 {buckets=10, fn=\"xxh3\"} : id<10>[~h]\n"
                                     "  %4 = column {col=weight} : f32[1]\n"
                                     "  %5 = broadcast %4 {shape=[4]} : f32[4]\n"
                                     "  %6 = dense_grad %2, %5 {w=t, kinds=[0]} : step f32[10,4]\n"
                                     "  %7 = row_grad %2, %5 {w=t, kinds=[0]} : f32[@t,4]\n"
                                     "  %8 = row_grad %2, %5, %3, %5 {w=t, kinds=[0, 1]} : f32[@t,4]\n"
                                     "}\n"));
    static const struct {
        int node;
        double flops, bytes;
    } cases[] = {
        {6, 8 * 4, 4 * (2 * 40 + 8 * 4)},
        {7, 8 * 4, 4 * (2 * 8 * 4 + 8 * 4)},
        {8, (8 + 8 * IR_GUESSED_POSITIONS) * 4, 4 * (2 * 8 * 4 + 2 * 8 * 4)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        IrCost c = ir_step_cost(p, ir_func(p, "f")->body.nodes[cases[i].node]);
        if (c.flops != cases[i].flops || c.bytes != cases[i].bytes)
            fail_msg("case %zu: %g flops, %g bytes", i, c.flops, c.bytes);
    }
    fx_free(&fx);
}

/* Statistics of 4 blocks cost what those of the whole step cost: a row meets those of its own block. Only the
 * sum over blocks reads them all. */
static void test_cost_of_blocks(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrProgram *p =
        fx_program(&fx, arena_printf(fx.arena, "%s%s", program,
                                     "func f {\n"
                                     "  %0 = column {col=weight} : f32[1]\n"
                                     "  %1 = broadcast %0 {shape=[4]} : f32[4]\n"
                                     "  %2 = const {value=[1, 2, 3, 4], shape=[4]} : always f32[4]\n"
                                     "  %3 = bn_stats %1 : step f32[2,4]\n"
                                     "  %4 = bn_stats %1 {blocks=4} : step f32[4,2,4]\n"
                                     "  %5 = bn_norm %1, %3, %2, %2 {eps=0.1} : f32[4]\n"
                                     "  %6 = bn_norm %1, %4, %2, %2 {eps=0.1} : f32[4]\n"
                                     "  %7 = bn_grad_sums %1, %3, %5 {eps=0.1} : step f32[2,4]\n"
                                     "  %8 = bn_grad_sums %1, %4, %5 {eps=0.1} : step f32[4,2,4]\n"
                                     "  %9 = bn_grad %1, %3, %2, %7, %5 {eps=0.1} : f32[4]\n"
                                     "  %10 = bn_grad %1, %4, %2, %8, %5 {eps=0.1} : f32[4]\n"
                                     "  %11 = sum %8 {axis=0, keep=0} : step f32[2,4]\n"
                                     "}\n"));
    IrNode **node = ir_func(p, "f")->body.nodes;
    for (int i = 3; i < 11; i += 2)
        assert_true(ir_step_cost(p, node[i]).flops == ir_step_cost(p, node[i + 1]).flops);
    assert_true(ir_step_cost(p, node[3]).flops > 0);
    assert_true(ir_step_cost(p, node[11]).flops == 4 * 2 * 4);
    fx_free(&fx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_cost), cmocka_unit_test(test_cost_of_blocks),
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_drop_weights),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_region),
        cmocka_unit_test(test_clone),
        cmocka_unit_test(test_lookups),
        cmocka_unit_test(test_mark_used),
        cmocka_unit_test(test_mark_used_staged),
        cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
