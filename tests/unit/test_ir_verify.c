/* The verifier, on programs that a pass broke in memory: what no text can say, as the reader would refuse it.
 */
#include "test_ir_fixture.h"

static const char sound[] =
    "ctrc-ir 1\n"
    "axis h list max=4\n"
    "axis h2 last parent=h max=2\n"
    "input csv separator=\",\"\n"
    "column label label\n"
    "column user string\n"
    "column list float list=\";\" axis=h\n"
    "vocab 0 values=[\"a\"]\n"
    "optimizer 0 sgd lr=warmup(5, 0.1)\n"
    "weight t [10,4] zeros trainable table lazy optimizer=0\n"
    "weight v [4] zeros trainable optimizer=0\n"
    "train batch=16\n"
    "func model {\n"
    "  %0 = column {col=user} : str\n"
    "  %1 = hash %0 {buckets=10, fn=\"xxh3\"} : id<10>\n"
    "  %2 = weight {w=t} : always f32[10,4]\n"
    "  %3 = embed %1, %2 : f32[4]\n"
    "  %4 = sum %3 {axis=0, keep=0} : f32[1]\n"
    "  %5 = fused %4 {kind=\"chain\"} : f32[1] {\n"
    "    %6 = arg {index=0} : f32[1]\n"
    "    %7 = sigmoid %6 : f32[1]\n"
    "  }\n"
    "  %8 = column {col=label} : f32[1]\n"
    "  %9 = mul %5, %8 : f32[1]\n"
    "  %10 = predict %5 {name=\"p\"} : none\n"
    "  %11 = loss %9 {name=\"loss\"} : none\n"
    "  %12 = metric %5, %8 {kind=\"auc\", name=\"p\", where=0, by=0} : none\n"
    "}\n"
    "func train fixed=384 axes=[h: 2] uniq=[t: 4] {\n"
    "  %0 = column {col=user} : str #phase=0\n"
    "  %1 = hash %0 {buckets=10, fn=\"xxh3\"} : id<10> #phase=0 at=input+0\n"
    "  %2 = fetch %1 {w=t} : f32[@t,4] #phase=0 domain=uniq block=64 kernel=loop at=uniq+0\n"
    "  %3 = embed %1, %2 : f32[4] #phase=1 domain=rows block=8 kernel=loop at=fixed+0\n"
    "  %4 = sum_rows %3 : step f32[4] #phase=2 domain=tiles block=1 kernel=loop at=fixed+256\n"
    "  %5 = sum_sq %4 : step f32[1] #phase=3 domain=one block=1 kernel=loop at=fixed+0\n"
    "  %6 = loss %5 {name=\"total\"} : none #phase=3 domain=one block=1\n"
    "  %7 = update %4 {w=v} : none #phase=4 domain=tiles block=1\n"
    "}\n";

static IrNode *model(IrProgram *p, int i) { return ir_func(p, "model")->body.nodes[i]; }
static IrNode *train(IrProgram *p, int i) { return ir_func(p, "train")->body.nodes[i]; }

static void operand_below(IrProgram *p) { model(p, 3)->in[0] = model(p, 4); }
static void operand_missing(IrProgram *p) { model(p, 3)->in[0] = NULL; }
static void operand_of_region(IrProgram *p) { model(p, 7)->in[0] = model(p, 5)->body->nodes[1]; }
static void operand_from_outside(IrProgram *p) { model(p, 5)->body->nodes[1]->in[0] = model(p, 4); }
static void operand_of_other_func(IrProgram *p) { model(p, 3)->in[0] = train(p, 1); }
static void node_twice(IrProgram *p) { ir_func(p, "model")->body.nodes[6] = model(p, 4); }
static void id_twice(IrProgram *p) { model(p, 5)->body->nodes[1]->id = 3; }
static void id_negative(IrProgram *p) { model(p, 4)->id = -1; }
static void wrong_op(IrProgram *p) { model(p, 4)->op = OP_COUNT; }
static void wrong_type(IrProgram *p) { model(p, 4)->type.dim[0] = 2; }
static void wrong_axis(IrProgram *p) { model(p, 4)->type.live = LIVE_POS, model(p, 4)->type.axis = 9; }
static void wrong_index(IrProgram *p) { model(p, 2)->attrs[0].i = 7; }
static void wrong_attr_kind(IrProgram *p) { model(p, 2)->attrs[0].kind = 'i'; }
static void lost_attr(IrProgram *p) { model(p, 4)->n_attrs = 1; }
static void lost_body(IrProgram *p) { model(p, 5)->body = NULL; }
static void unasked_body(IrProgram *p) { model(p, 4)->body = model(p, 5)->body; }
static void empty_body(IrProgram *p) { model(p, 5)->body->n = 0; }
static void region_of_itself(IrProgram *p) {
    model(p, 5)->n_in = 0, model(p, 5)->body->nodes[0] = model(p, 5);
}
static void region_twice(IrProgram *p) {
    model(p, 7)->op = OP_FUSED, model(p, 7)->attrs = model(p, 5)->attrs, model(p, 7)->n_attrs = 1,
             model(p, 7)->body = model(p, 5)->body;
}
static void arg_outside(IrProgram *p) {
    model(p, 6)->op = OP_ARG, model(p, 6)->attrs[0].key = "index", model(p, 6)->attrs[0].kind = 'i';
}
static void arg_of_other_type(IrProgram *p) { model(p, 5)->in[0] = model(p, 3); }
static void root_in_region(IrProgram *p) { model(p, 5)->body->nodes[1] = model(p, 8); }
static void two_predictions(IrProgram *p) { model(p, 9)->op = OP_PREDICT, model(p, 9)->attrs[0].s = "p"; }
static void lost_prediction(IrProgram *p) { model(p, 8)->attrs[0].s = "q"; }
static void update_in_model(IrProgram *p) { ir_func(p, "train")->name = "eval"; }
static void loss_in_predict(IrProgram *p) { ir_func(p, "model")->name = "predict"; }
static void loss_a_row(IrProgram *p) { ir_func(p, "model")->name = "eval"; }

static void same_names(IrProgram *p) { p->weights[1].name = "t"; }
static void no_name(IrProgram *p) { p->input.columns[1].name = ""; }
static void size_zero(IrProgram *p) { p->weights[1].dim[0] = 0; }
static void rank_too_high(IrProgram *p) { p->weights[1].rank = 7; }
static void optimizer_beyond(IrProgram *p) { p->weights[1].optimizer = 3; }
static void sparse_vector(IrProgram *p) { p->weights[1].sparse = p->weights[1].lazy = true; }
static void sparse_plain(IrProgram *p) {
    p->weights[0].sparse = true, p->weights[0].table = p->weights[0].lazy = false;
}
static void axis_of_itself(IrProgram *p) { p->axes[1].parent = 1; }
static void last_none(IrProgram *p) { p->axes[1].max = 0; }
static void appended_short(IrProgram *p) { p->axes[1].kind = AXIS_APPEND, p->axes[1].max = 4; }
static void list_without_axis(IrProgram *p) { p->input.columns[2].axis = 1; }
static void axis_without_list(IrProgram *p) { p->input.columns[2].is_list = false; }
static void column_beside_nothing(IrProgram *p) { p->input.columns[2].side = 1; }
static void endless_warmup(IrProgram *p) { p->opts[0].lr.then = &p->opts[0].lr; }
static void empty_warmup(IrProgram *p) { p->opts[0].lr.then = NULL; }
static void empty_vocab(IrProgram *p) { p->vocabs[0].n = 0; }
static void negative_batch(IrProgram *p) { p->batch = -1; }
static void huge_batch(IrProgram *p) { p->batch = INT64_MAX; }

static void phase_lost(IrProgram *p) { train(p, 4)->plan.phase = -1; }
static void phase_back(IrProgram *p) { train(p, 4)->plan.phase = 0; }
static void no_barrier(IrProgram *p) { train(p, 3)->plan.phase = 0; }
static void tiles_of_one_phase(IrProgram *p) {
    train(p, 7)->plan.phase = 2, train(p, 5)->plan.phase = train(p, 6)->plan.phase = 2;
}
static void update_beside_loss(IrProgram *p) { train(p, 7)->plan.phase = 3; }
static void no_block(IrProgram *p) { train(p, 3)->plan.block = 0; }
static void beyond_arena(IrProgram *p) { train(p, 4)->plan.offset = 384; }
static void unaligned(IrProgram *p) { train(p, 4)->plan.offset = 260; }
static void overlapping(IrProgram *p) { train(p, 4)->plan.offset = 192; }
static void overwritten_later(IrProgram *p) { train(p, 5)->plan.offset = 256; }
static void overlapping_at_larger_batch(IrProgram *p) { p->batch = 17; }
static void uniq_beyond(IrProgram *p) { train(p, 2)->plan.offset = 1; }
static void uniq_unplanned(IrProgram *p) { ir_func(p, "train")->uniq_elems = NULL; }
static void wrong_region(IrProgram *p) { train(p, 3)->plan.region = REGION_AXIS; }
static void local_of_the_step(IrProgram *p) { train(p, 4)->plan.region = REGION_LOCAL; }
static void local_read_later(IrProgram *p) {
    train(p, 3)->plan.region = REGION_LOCAL, train(p, 3)->plan.offset = 0;
    ir_func(p, "train")->local_bytes = 4096;
}
static void local_beyond(IrProgram *p) {
    local_read_later(p);
    ir_func(p, "train")->local_bytes = 64;
}
static void place_of_id(IrProgram *p) { train(p, 1)->plan.region = REGION_FIXED; }

static const struct {
    void (*damage)(IrProgram *);
    const char *error; /* with what stands in front of it, from "error: " on */
} cases[] = {
    {operand_below, "%3 embed in func 'model': operand 1 isn't defined above in the same body"},
    {operand_missing, "%3 embed in func 'model': operand 1 isn't defined above in the same body"},
    {operand_of_region, "%9 mul in func 'model': operand 1 isn't defined above in the same body"},
    {operand_from_outside, "%7 sigmoid in func 'model': operand 1 isn't defined above in the same body"},
    {operand_of_other_func, "%3 embed in func 'model': operand 1 isn't defined above in the same body"},
    {node_twice, "%4 sum in func 'model': stands in the program twice"},
    {id_twice, "%3 sigmoid in func 'model': its id is used twice"},
    {id_negative, "%-1 sum in func 'model': expected an id of at least 0"},
    {wrong_op, "%4: expected an op, found number"},
    {wrong_type, "%4 sum in func 'model': expected type f32[1], found f32[2]"},
    {wrong_axis, "%4 sum in func 'model': expected an axis below 2, found 9"},
    {wrong_index, "%2 weight in func 'model': attribute 'w': expected a weight, found number 7 of 2"},
    {wrong_attr_kind, "%2 weight in func 'model': attribute 'w': expected kind w, found i"},
    {lost_attr, "%4 sum in func 'model': missing attribute 'keep'"},
    {lost_body, "%5 fused in func 'model': expected a body"},
    {unasked_body, "%4 sum in func 'model': expected no body"},
    {empty_body, "%5 fused in func 'model': expected a body, found none"},
    {arg_outside, "%8 arg in func 'model': an argument outside a region"},
    {arg_of_other_type, "%6 arg in func 'model': expected the operand's type f32[4], found f32[1]"},
    {root_in_region, "%10 predict in func 'model': doesn't stand in a region"},
    {two_predictions, "%11 predict in func 'model': a second prediction 'p'"},
    {lost_prediction, "%12 metric in func 'model': there is no prediction 'p'"},
    {update_in_model, "%7 update in func 'eval': writes weights outside func 'train'"},
    {loss_in_predict, "%11 loss in func 'predict': doesn't stand in func 'predict'"},
    {loss_a_row, "%11 loss in func 'eval': expected step f32[1], found f32[1]"},
    {same_names, "expected different names, found two weights 't'"},
    {no_name, "column 1 has no name"},
    {size_zero, "weight 'v': expected sizes of at least 1, found 0"},
    {rank_too_high, "weight 'v': expected 1 to 6 dimensions, found 7"},
    {optimizer_beyond, "weight 'v': expected an optimizer below 1, found 3 and -1"},
    {sparse_vector, "weight 'v': expected a table of at least 2 dimensions, found 1"},
    {sparse_plain, "weight 't': sparse, but neither a table nor lazy"},
    {axis_of_itself, "axis 'h2': expected a parent that stands above it"},
    {appended_short, "axis 'h2': expected max of 5, one more than its parent's, found 4"},
    {last_none, "axis 'h2': expected max of at least 1, found 0"},
    {list_without_axis, "column 'list': expected the axis of a list"},
    {axis_without_list, "column 'list': expected no axis, as it is no list"},
    {column_beside_nothing, "column 'list': there is no second file"},
    {endless_warmup, "optimizer 0: expected a complete learning rate"},
    {empty_warmup, "optimizer 0: expected a complete learning rate"},
    {empty_vocab, "vocab 0: expected at least one value"},
    {negative_batch, "expected batch, epochs, steps and shuffle of at least 0"},
    {huge_batch, "expected a batch of at most 16777216"},
    {phase_lost, "%4 sum_rows in func 'train': expected a phase, as the nodes above have one"},
    {phase_back, "%4 sum_rows in func 'train': expected phase 1 or later, found 0"},
    {no_barrier, "%3 embed in func 'train': expected a barrier before it reads %2, found both in phase 0"},
    {tiles_of_one_phase,
     "%5 sum_sq in func 'train': expected a barrier before it reads %4, found both in phase 2"},
    {update_beside_loss, "%7 update in func 'train': expected a phase behind that of %6 loss, found 3 and 3"},
    {no_block, "%3 embed in func 'train': expected a block of at least 1, found 0"},
    {beyond_arena, "%4 sum_rows in func 'train': expected a place within 384 bytes, found 384 to 400"},
    {unaligned, "%4 sum_rows in func 'train': expected an offset that is a multiple of 64, found 260"},
    {overlapping, "%4 sum_rows in func 'train': expected a place of its own, found it within that of %3, "
                  "while both live in phase 2"},
    {overwritten_later, "%5 sum_sq in func 'train': expected a place of its own, found it within that of %4, "
                        "while both live in phase 3"},
    {region_of_itself, "%5 fused in func 'model': regions nested more than 16 deep"},
    {region_twice, "%6 arg in func 'model': stands in the program twice"},
    {overlapping_at_larger_batch, "%4 sum_rows in func 'train': expected a place of its own, found it within "
                                  "that of %3, while both live in phase 2"},
    {uniq_beyond, "%2 fetch in func 'train': expected a place within 4 elements, found 1 to 5"},
    {uniq_unplanned, "%2 fetch in func 'train': expected a place within 0 elements, found 0 to 4"},
    {wrong_region, "%3 embed in func 'train': doesn't belong into the region 'axis'"},
    {local_of_the_step, "%4 sum_rows in func 'train': doesn't belong into the region 'local'"},
    {local_read_later,
     "%3 embed in func 'train': expected a place for the whole step, as %4 reads it in phase 2"},
    {local_beyond, "%3 embed in func 'train': expected a place within 64 bytes, found 0 to 128"},
    {place_of_id, "%1 hash in func 'train': doesn't belong into the region 'fixed'"},
};

static void test_sound(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrProgram *p = fx_program(&fx, sound);
    assert_true(ir_verify(p));
    assert_true(ir_verify(p)); /* and leaves nothing behind */
    assert_string_equal(fx_messages(&fx), "");
    fx_free(&fx);
}

static void test_damage(void **state) {
    (void)state;
    int mistakes = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Fx fx = fx_new();
        IrProgram *p = fx_program(&fx, sound);
        cases[i].damage(p);
        bool ok = ir_verify(p);
        const char *expected = cases[i].error ? arena_printf(fx.arena, "error: %s", cases[i].error) : "";
        bool right =
            ok == (cases[i].error == NULL) && strncmp(fx_messages(&fx), expected, strlen(expected)) == 0;
        if (!right) print_error("case %zu: expected: %s\n   found: %s\n", i, expected, fx_messages(&fx));
        mistakes += !right;
        fx_free(&fx);
    }
    assert_int_equal(mistakes, 0);
}

/* Errors of passes point into the .ctr file. */
static void test_place(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrProgram *p = fx_program(&fx, sound);
    int file = diag_add_file(fx.diag, "m.ctr", "x = sum(e)\n", 11, false);
    model(p, 4)->span = (Span){(uint16_t)file, 1, 5, 1, 11};
    wrong_type(p);
    assert_false(ir_verify(p));
    assert_string_equal(fx_messages(&fx),
                        "m.ctr:1:5: error: %4 sum in func 'model': expected type f32[1], found f32[2]\n"
                        "    1 | x = sum(e)\n"
                        "      |     ^~~~~~\n");
    fx_free(&fx);
}

/* A recurrent layer's record is read for the state alone, until there are gradients. */
static void test_record(void **state) {
    static const char text[] = "ctrc-ir 1\n"
                               "axis h list\n"
                               "input csv separator=\",\"\n"
                               "column x float list=\";\" axis=h\n"
                               "func %s {\n"
                               "  %%0 = column {col=x} : f32[~h,1]\n"
                               "  %%1 = pad %%0 {axis=0, before=0, after=5} : f32[~h,6]\n"
                               "  %%2 = const {value=[0], shape=[2, 4]} : always f32[2,4]\n"
                               "  %%3 = const {value=[0], shape=[2, 2]} : always f32[2,2]\n"
                               "  %%4 = %s : f32[~h,8]\n"
                               "  %%5 = %s\n"
                               "}\n";
    static const struct {
        const char *func, *layer, *user, *error;
    } uses[] = {
        {"model", "gru %1, %2, %3", "slice %4 {axis=0, begin=0, end=2} : f32[~h,2]", ""},
        {"model", "augru %1, %2, %3, %0", "slice %4 {axis=0, begin=1, end=2} : f32[~h,1]", ""},
        {"train", "gru %1, %2, %3", "neg %4 : f32[~h,8]", ""},
        {"model", "gru %1, %2, %3", "slice %4 {axis=0, begin=1, end=3} : f32[~h,2]",
         "test.ir:11:3: error: %5 slice in func 'model': expected a slice of the first 2 values of %4, the "
         "state\n"},
        {"model", "augru %1, %2, %3, %0", "neg %4 : f32[~h,8]",
         "test.ir:11:3: error: %5 neg in func 'model': expected a slice of the first 2 values of %4, the "
         "state\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        Fx fx = fx_new();
        IrProgram *p = fx_read(&fx, arena_printf(fx.arena, text, uses[i].func, uses[i].layer, uses[i].user));
        size_t n = strlen(uses[i].error);
        if ((p == NULL) != (n > 0) || strncmp(fx_messages(&fx), uses[i].error, n) != 0)
            fail_msg("use %zu: expected: %s\n   found: %s", i, uses[i].error, fx_messages(&fx));
        fx_free(&fx);
    }
}

/* Each block of rows fills its own part of a sum, so the plan's blocks are those of the sum. */
static void test_block_of_sums(void **state) {
    static const char text[] =
        "ctrc-ir 1\n"
        "input csv separator=\",\"\n"
        "column x float\n"
        "train batch=100\n"
        "func eval {\n"
        "  %%0 = column {col=x} : f32[1] #phase=0\n"
        "  %%1 = relu %%0 : f32[1] #phase=0 domain=rows block=64 kernel=loop\n"
        "  %%2 = block_sums %%1 {rows=%d} : step f32[%d,1] #phase=0 domain=rows block=64 kernel=loop\n"
        "}\n";
    (void)state;
    Fx fx = fx_new();
    assert_non_null(fx_read(&fx, arena_printf(fx.arena, text, 64, 2)));
    assert_string_equal(fx_messages(&fx), "");
    assert_null(fx_read(&fx, arena_printf(fx.arena, text, 32, 4)));
    assert_non_null(strstr(fx_messages(&fx), "test.ir:8:3: error: %2 block_sums in func 'eval': expected a "
                                             "block of 32 rows, as it adds up, found 64\n"));
    fx_free(&fx);
}

/* What a region's kernel makes is there when it has run, and not later. */
static void test_results(void **state) {
    static const char text[] =
        "ctrc-ir 1\n"
        "input csv separator=\",\"\n"
        "column x float\n"
        "train batch=64\n"
        "func eval fixed=768 local=%d {\n"
        "  %%0 = column {col=x} : f32[1] #phase=0 at=input+0\n"
        "  %%1 = fused %%0 {kind=\"chain\"} : f32[1] #phase=0 domain=rows block=64 kernel=loop at=%s+0 {\n"
        "    %%2 = arg {index=0} : f32[1]\n"
        "    %%3 = relu %%2 : f32[1]\n"
        "    %%4 = out %%3 {index=1} : none\n"
        "    %%5 = neg %%3 : f32[1]\n"
        "  }\n"
        "  %%6 = neg %%1 : f32[1] #phase=0 domain=rows block=64 kernel=loop at=fixed+256\n"
        "  %%7 = result %%1 {index=1} : f32[1] #phase=%d domain=rows block=64 at=%s+0\n"
        "  %%8 = neg %%7 : f32[1] #phase=%d domain=rows block=64 kernel=loop at=fixed+512\n"
        "}\n";
    static const struct {
        int local;
        const char *first, *second;
        int phase;
        const char *error;
    } plans[] = {
        {256, "fixed", "local", 0, ""},
        {256, "local", "local", 0,
         "%7 result in func 'eval': expected a place of its own, found it within that of %1"},
        {256, "local", "fixed", 1,
         "%7 result in func 'eval': expected the phase and domain of its region %1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        Fx fx = fx_new();
        IrProgram *p = fx_read(&fx, arena_printf(fx.arena, text, plans[i].local, plans[i].first,
                                                 plans[i].phase, plans[i].second, plans[i].phase));
        if ((p != NULL) != !*plans[i].error || !strstr(fx_messages(&fx), plans[i].error))
            fail_msg("plan %zu: expected: %s\n   found: %s", i, plans[i].error, fx_messages(&fx));
        fx_free(&fx);
    }
}

/* Panels are read by products that want them as they stand, and by nothing else. */
static void test_packs(void **state) {
    static const char text[] = "ctrc-ir 1\n"
                               "axis h list\n"
                               "input csv separator=\",\"\n"
                               "column x float\n"
                               "column y float list=\";\" axis=h\n"
                               "func predict {\n"
                               "  %%0 = column {col=x} : f32[1]\n"
                               "  %%1 = pad %%0 {axis=0, before=0, after=1} : f32[2]\n"
                               "  %%2 = const {value=[0], shape=[2, 2]} : always f32[2,2]\n"
                               "  %%3 = pack %%2 {t=%d} : always f32[2,2]\n"
                               "  %%4 = const {value=[0], shape=[2, 4]} : always f32[2,4]\n"
                               "  %%5 = column {col=y} : f32[~h,1]\n"
                               "  %%6 = pad %%5 {axis=0, before=0, after=5} : f32[~h,6]\n"
                               "  %%7 = %s\n"
                               "}\n";
    static const char region[] = "fused %%1, %%3 {kind=\"product\"} : f32[2] {\n"
                                 "    %%8 = arg {index=0} : f32[2]\n"
                                 "    %%9 = arg {index=1} : always f32[2,2]\n"
                                 "    %%10 = matmul %%8, %%9 {ta=0, tb=%d} : f32[2]\n"
                                 "  }";
    Fx texts = fx_new();
    const char *right = arena_printf(texts.arena, region, 0), *wrong = arena_printf(texts.arena, region, 1);
    const struct {
        int t;
        const char *user, *wants;
    } uses[] = {
        {0, "matmul %1, %3 {ta=0, tb=0} : f32[2]", NULL},
        {1, "matmul %1, %3 {ta=0, tb=1} : f32[2]", NULL},
        {0, "gru %6, %4, %3 : f32[~h,8]", NULL},
        {0, right, NULL},
        {0, "matmul %1, %3 {ta=0, tb=0, bf16=0} : f32[2]", NULL},
        {0, "matmul %1, %3 {ta=0, tb=0, bf16=1} : f32[2]", "tb=0, or as the weights of a recurrent layer"},
        {0, "matmul %1, %3 {ta=0, tb=1} : f32[2]", "tb=0, or as the weights of a recurrent layer"},
        {1, "matmul %1, %3 {ta=0, tb=0} : f32[2]", "tb=1, or as the weights of a recurrent layer's gradient"},
        {0, "matmul %3, %2 {ta=0, tb=0} : always f32[2,2]", "tb=0, or as the weights of a recurrent layer"},
        {1, "gru %6, %4, %3 : f32[~h,8]", "tb=1, or as the weights of a recurrent layer's gradient"},
        {0, "neg %3 : always f32[2,2]", "tb=0, or as the weights of a recurrent layer"},
        {0, wrong, "tb=0, or as the weights of a recurrent layer"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        Fx fx = fx_new();
        IrProgram *p = fx_read(&fx, arena_printf(fx.arena, text, uses[i].t, uses[i].user));
        const char *error = uses[i].wants ? arena_printf(fx.arena,
                                                         ": expected %%3 only as the right side of a "
                                                         "product with %s\n",
                                                         uses[i].wants)
                                          : "";
        if ((p == NULL) != (uses[i].wants != NULL) || !strstr(fx_messages(&fx), error))
            fail_msg("use %zu: expected: %s\n   found: %s", i, error, fx_messages(&fx));
        fx_free(&fx);
    }
    fx_free(&texts);
    static const char bf16[] = "ctrc-ir 1\n"
                               "input csv separator=\",\"\n"
                               "column x float\n"
                               "func predict {\n"
                               "  %0 = column {col=x} : f32[1]\n"
                               "  %1 = const {value=[0], shape=[1, 2]} : always f32[1,2]\n"
                               "  %2 = pack %1 {t=0, bf16=1} : always f32[1,2]\n"
                               "  %3 = matmul %0, %2 {ta=0, tb=0, bf16=0} : f32[2]\n"
                               "}\n";
    Fx fx = fx_new();
    assert_null(fx_read(&fx, bf16));
    assert_non_null(
        strstr(fx_messages(&fx), ": expected %2 only as the right side of a product with tb=0 and bf16=1\n"));
    fx_free(&fx);
}

/* Parts of places: a view stands where its operand's plan and its own attributes say, and only where all that
 * read it can step over what lies between its units. */
static void test_parts_of_places(void **state) {
    static const char text[] = "ctrc-ir 1\n"
                               "input csv separator=\",\"\n"
                               "column s string\n"
                               "weight t [9,8] zeros\n"
                               "weight u [9,4] zeros\n"
                               "train batch=16\n"
                               "func train fixed=2560 {\n"
                               "  %%0 = column {col=s} : str #phase=0\n"
                               "  %%1 = hash %%0 {buckets=9, fn=\"xxh3\"} : id<9> #phase=0 at=input+0\n"
                               "  %%2 = weight {w=t} : always f32[9,8] #phase=0\n"
                               "  %%6 = weight {w=u} : always f32[9,4] #phase=0\n"
                               "  %%3 = embed %%1, %%2 : f32[8] #phase=0 domain=rows block=8 at=fixed+%s\n"
                               "  %%4 = %s #phase=0%s\n"
                               "  %%5 = %s #phase=0 domain=rows block=8 at=fixed+512%s\n"
                               "}\n";
    static const char part[] = "slice %3 {axis=0, begin=4, end=8} : f32[4]", at[] = " at=fixed+0 col=4 ld=8";
    static const char reader[] = "square %4 : f32[4]", both[] = "concat %4, %3 {axis=0} : f32[12]";
    static const char other[] = "embed %1, %6 : f32[4]", mine[] = " domain=rows block=8 at=fixed+512 ld=12";
    static const struct {
        const char *place, *view, *view_at, *user, *user_at, *error;
    } uses[] = {
        {"0", part, at, reader, "", ""},
        {"0", part, " at=fixed+0 ld=8", reader, "",
         "13:3: error: %4 slice in func 'train': expected col=4 ld=8 of what it is a view of, found col=0 "
         "ld=8"},
        {"0", part, " at=fixed+0 col=4", reader, "",
         "13:3: error: %4 slice in func 'train': expected col=4 ld=8 of what it is a view of, found col=4 "
         "ld=0"},
        {"0", part, " at=fixed+64 col=4 ld=8", reader, "",
         "13:3: error: %4 slice in func 'train': expected the place of what it is a view of: fixed+0"},
        {"0", part, at, "sum_sq %4 : step f32[1]", "",
         "14:3: error: %5 sum_sq in func 'train': expected one unit of %4 after another, found 8 elements "
         "from each "
         "to the next"},
        {"0 ld=16", part, " at=fixed+0 col=4 ld=16", reader, "",
         "12:3: error: %3 embed in func 'train': expected the place of a part of a concat that reads it, "
         "found "
         "fixed+0 col=0 ld=16"},
        {"0", part, at, reader, " col=2",
         "14:3: error: %5 square in func 'train': expected a place of its own, found a part of one"},
        {"0", "slice %2 {axis=1, begin=4, end=8} : always f32[9,4]", " col=4", "embed %1, %4 : f32[4]", "",
         "13:3: error: %4 slice in func 'train': expected a domain: it isn't one run of elements in a place "
         "of its "
         "operand"},
        {"0", "slice %2 {axis=0, begin=1, end=9} : always f32[8,8]", " col=8", "square %3 : f32[8]", "", ""},
        {"0", "slice %2 {axis=0, begin=1, end=9} : always f32[8,8]", "", "square %3 : f32[8]", "",
         "13:3: error: %4 slice in func 'train': expected col=8 ld=0 of what it is a view of, found col=0 "
         "ld=0"},
        /* made within a concat's place: %3 behind %4 */
        {"512 col=4 ld=12", other, mine, both, "", ""},
        {"512 col=4 ld=12", other, " domain=rows block=8 at=fixed+1792", both, "", ""}, /* which is copied */
        {"512 col=5 ld=12", other, mine, both, "",
         "12:3: error: %3 embed in func 'train': expected the place of a part of a concat that reads it, "
         "found "
         "fixed+512 col=5 ld=12"},
        {"512 col=4 ld=8", other, mine, both, "",
         "12:3: error: %3 embed in func 'train': expected the place of a part of a concat that reads it, "
         "found "
         "fixed+512 col=4 ld=8"},
        {"512 col=4 ld=12", other, " domain=rows block=8 at=fixed+1216", both, "",
         "13:3: error: %4 embed in func 'train': expected a place of its own, found it within that of %5, "
         "while "
         "both live in phase 0"},
        {"512 col=4 ld=12", "onehot %1 : f32[9]", " domain=rows block=8 at=fixed+512 ld=17",
         "concat %4, %3 {axis=0} : f32[17]", "",
         "12:3: error: %3 embed in func 'train': expected the place of a part of a concat that reads it, "
         "found "
         "fixed+512 col=4 ld=12"},
        {"512 col=9 ld=17", "onehot %1 : f32[9]", " domain=rows block=8 at=fixed+512 ld=17",
         "concat %4, %3 {axis=0} : f32[17]", "",
         "13:3: error: %4 onehot in func 'train': expected a place of its own, as it can't be written within "
         "another's"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        Fx fx = fx_new();
        IrProgram *p = fx_read(&fx, arena_printf(fx.arena, text, uses[i].place, uses[i].view, uses[i].view_at,
                                                 uses[i].user, uses[i].user_at));
        const char *error = *uses[i].error ? arena_printf(fx.arena, "test.ir:%s\n", uses[i].error) : "";
        if ((p == NULL) != (*error != 0) || strncmp(fx_messages(&fx), error, strlen(error)) != 0)
            fail_msg("use %zu: expected: %s\n   found: %s", i, error, fx_messages(&fx));
        fx_free(&fx);
    }
}

/* Random pointers swapped within a function: an error or a sound program, never a crash. */
static void test_shuffled(void **state) {
    (void)state;
    uint32_t seed = 12345;
    for (int round = 0; round < 2000; round++) {
        Fx fx = fx_new();
        IrProgram *p = fx_program(&fx, sound);
        IrBody *b = &ir_func(p, round % 2 ? "model" : "train")->body;
        for (int k = 0; k < 2; k++) {
            seed = seed * 1664525u + 1013904223u;
            IrNode *n = b->nodes[(seed >> 8) % (uint32_t)b->n],
                   *other = b->nodes[(seed >> 16) % (uint32_t)b->n];
            switch (seed >> 29) {
            case 0:
                if (n->n_in) n->in[0] = other;
                break;
            case 1: n->op = other->op; break;
            case 2: n->type = other->type; break;
            case 3: n->attrs = other->attrs, n->n_attrs = other->n_attrs; break;
            case 4: n->in = other->in, n->n_in = other->n_in; break;
            case 5: n->body = other->body; break;
            case 6: n->plan = other->plan; break;
            case 7: b->nodes[(seed >> 8) % (uint32_t)b->n] = other; break;
            }
        }
        if (ir_verify(p)) {
            const char *text = fx_print(&fx, p);
            IrProgram *again = fx_read(&fx, text);
            if (!again) fail_msg("verified but not read:\n%s\n%s", text, fx_messages(&fx));
        }
        fx_free(&fx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound),    cmocka_unit_test(test_damage),
        cmocka_unit_test(test_place),    cmocka_unit_test(test_record),
        cmocka_unit_test(test_packs),    cmocka_unit_test(test_parts_of_places),
        cmocka_unit_test(test_shuffled), cmocka_unit_test(test_block_of_sums),
        cmocka_unit_test(test_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
