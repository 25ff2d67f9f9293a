/* The model description: what backend_describe writes of a program is what the runtime reads. */
#include "test_ir_fixture.h"
#include "passes/pass.h"
#include "tests/tools/batch_bridge.h"

static const char program[] =
    "ctrc-ir 1\n"
    "model ads\n"
    "source \"dir/\xff/ads.ctr\"\n"
    "digest 0x00c0ffee00000001\n"
    "file 0 \"dir/ads.ctr\"\n"
    "param lr = 0.001\n"
    "param logs = \"a\\xffb\"\n"
    "axis h list max=50 shared\n"
    "axis tags list\n"
    "axis h_last last parent=h max=3\n"
    "axis tags_known filter parent=tags\n"
    "input csv separator=\"\\xa7\" quote=\"\\\"\" header trim missing=[\"?\", \"NULL\"]\n"
    "column clicked label positive=\"yes\" negative=\"no\"\n"
    "column user string default=\"a\\x00b\" from=\"User Name\"\n"
    "column hist string list=\"\\x02\" axis=h\n"
    "column tags string list=\";\" axis=tags\n"
    "column price float default=-1.5\n"
    "column age int\n"
    "column _ skip skip=3\n"
    "vocab 0 digest=0x71336433e2a73809 values=[\"x\", \"\", \"y\\x00z\"]\n"
    "optimizer 0 adam lr=warmup(100, cosine(0.1, 1000, 0.001)) beta1=0.9 beta2=0.999 eps=1e-08 clip_norm=5 "
    "l2=0.25 exact\n"
    "optimizer 1 ftrl lr=piecewise([10, 20], [0.1, 0.01, 0.002]) init=0.1 l1_ftrl=0.5 l2_ftrl=2\n"
    "weight users [5000,4] truncated_normal(0.5) trainable table lazy optimizer=0\n"
    "weight w [14,1] glorot_uniform trainable optimizer=1\n"
    "train batch=64 epochs=3 steps=100 shuffle=20000 seed=-7\n"
    "func model {\n"
    "  %0 = column {col=user} : str\n"
    "  %1 = hash %0 {buckets=5000, fn=\"farm64\"} : id<5000>\n"
    "  %2 = weight {w=users} : always f32[5000,4]\n"
    "  %3 = embed %1, %2 : f32[4] @7:3-7:9 \"fields.user\"\n"
    "  %4 = column {col=hist} : str[~h]\n"
    "  %5 = truncate %4 {axis=h_last} : str[~h_last]\n"
    "  %6 = hash %5 {buckets=5000, fn=\"xxh3\"} : id<5000>[~h_last]\n"
    "  %7 = embed_pool %6, %2 {kind=\"mean\"} : f32[4]\n"
    "  %8 = column {col=tags} : str[~tags]\n"
    "  %9 = vocab %8 {vocab=0, unknown=-1, axis=tags_known} : id<3>[~tags_known]\n"
    "  %10 = onehot %9 : f32[~tags_known,3]\n"
    "  %11 = seg_sum %10 : f32[3]\n"
    "  %12 = column {col=price} : f32[1]\n"
    "  %13 = column {col=age} : int\n"
    "  %14 = bucketize %13 {bounds=[18, 30.5]} : id<3>\n"
    "  %15 = cross %0, %14 {buckets=77} : id<77>\n"
    "  %16 = onehot %15 : f32[77]\n"
    "  %17 = slice %16 {axis=0, begin=0, end=1} : f32[1]\n"
    "  %18 = number %13 : f32[1]\n"
    "  %19 = concat %3, %7, %11, %12, %17, %18 {axis=0} : f32[14]\n"
    "  %20 = weight {w=w} : always f32[14,1]\n"
    "  %21 = matmul %19, %20 {ta=0, tb=0} : f32[1]\n"
    "  %22 = sigmoid %21 : f32[1]\n"
    "  %23 = predict %22 {name=\"ctr\"} : none\n"
    "  %24 = column {col=clicked} : f32[1]\n"
    "  %25 = bce_logits %21, %24 : f32[1]\n"
    "  %26 = loss %25 {name=\"loss\"} : none\n"
    "  %27 = key %0 : key\n"
    "  %28 = metric %22, %24, %12, %27 {kind=\"gauc\", name=\"ctr\", where=1, by=1} : none\n"
    "  %29 = metric %22, %24 {kind=\"auc\", name=\"ctr\", where=0, by=0} : none\n"
    "}\n";

typedef struct {
    Fx fx;
    IrProgram *p;
    RtModel *m;
} Bed;

static void bed_new(Bed *b, int level) {
    *b = (Bed){.fx = fx_new()};
    b->p = fx_program(&b->fx, program);
    PassOptions o = {.level = level, .out = stdout};
    ir_mark_used(b->p);
    if (!backend_target(b->p->diag, "x86-64-v3", &o.target) || !pass_run_all(b->p, &o))
        fail_msg("%s", fx_messages(&b->fx));
    b->m = bridge_model(b->p, "x86-64-v3");
    if (!b->m) fail_msg("%s", fx_messages(&b->fx));
}

static void bed_free(Bed *b) {
    rt_model_free(b->m);
    fx_free(&b->fx);
}

static void test_head(void **state) {
    (void)state;
    Bed b;
    bed_new(&b, 2);
    const RtModel *m = b.m;
    assert_string_equal(m->name, "ads");
    assert_string_equal(m->source, "dir/?/ads.ctr"); /* shown to people only */
    assert_string_equal(m->digest, "00c0ffee00000001");
    assert_string_equal(m->march, "x86-64-v3");
    assert_int_equal(m->batch, 64);
    assert_int_equal(m->epochs, 3);
    assert_int_equal(m->steps, 100);
    assert_int_equal(m->shuffle, 20000);
    assert_int_equal(m->seed, -7);
    assert_int_equal(m->n_params, 2);
    assert_int_equal(m->n_passes, b.p->n_applied);
    assert_int_equal(m->n_changes, 0);
    bed_free(&b);
}

static void test_columns(void **state) {
    (void)state;
    Bed b;
    bed_new(&b, 2);
    const RtModel *m = b.m;
    assert_int_equal((unsigned char)m->separator, 0xa7);
    assert_int_equal(m->quote, '"');
    assert_true(m->header && m->trim);
    assert_int_equal(m->n_missing, 2);
    assert_string_equal(m->missing[1], "NULL");
    assert_null(m->beside);
    assert_int_equal(m->n_columns, 7);
    const RtColumn *c = m->columns;
    assert_int_equal(c[0].kind, RT_LABEL);
    assert_string_equal(c[0].positive, "yes");
    assert_string_equal(c[0].negative, "no");
    assert_true(c[0].used && !c[0].used_predict);
    assert_string_equal(c[1].from, "User Name");
    assert_int_equal(c[1].default_len, 3);
    assert_memory_equal(c[1].default_str, "a\0b", 3);
    assert_true(c[2].is_list);
    assert_int_equal(c[2].list_sep, 2);
    assert_int_equal(c[2].axis, 0);
    assert_true(c[4].has_default);
    assert_true(c[4].default_num == -1.5);
    assert_int_equal(c[6].kind, RT_SKIP);
    assert_int_equal(c[6].skip, 3);
    assert_int_equal(m->n_axes, 4);
    assert_int_equal(m->axes[2].kind, RT_AXIS_LAST);
    assert_int_equal(m->axes[2].parent, 0);
    assert_int_equal(m->axes[2].max, 3);
    assert_int_equal(m->axes[3].kind, RT_AXIS_FILTER);
    assert_true(m->axes[0].shared && !m->axes[1].shared);
    assert_int_equal(m->vocabs[0].n, 3);
    assert_int_equal(m->vocabs[0].bytes, 7); /* each value and its newline */
    assert_memory_equal(m->vocabs[0].text, "x\n\ny\0z\n", 7);
    bed_free(&b);
}

static const RtFeature *feature(const RtModel *m, RtFeatureOp op, int nth) {
    for (int i = 0; i < m->n_features; i++)
        if (m->features[i].op == op && nth-- == 0) return &m->features[i];
    fail_msg("no feature of op %d", (int)op);
    return NULL;
}

static void test_features(void **state) {
    (void)state;
    Bed b;
    bed_new(&b, 2);
    const RtModel *m = b.m;
    const RtFeature *user = feature(m, RT_F_HASH, 0), *hist = feature(m, RT_F_HASH, 1);
    assert_true(user->farm64 && !hist->farm64);
    assert_true(user->in[0].is_column);
    assert_int_equal(user->in[0].index, 1);
    assert_int_equal(hist->axis, 2);
    assert_false(hist->in[0].is_column);
    assert_ptr_equal(&m->features[hist->in[0].index], feature(m, RT_F_TRUNCATE, 0));
    assert_int_equal(feature(m, RT_F_BUCKETIZE, 0)->n_bounds, 2);
    assert_true(feature(m, RT_F_BUCKETIZE, 0)->bounds[1] == 30.5);
    assert_int_equal(feature(m, RT_F_VOCAB, 0)->unknown, -1);
    assert_int_equal(feature(m, RT_F_VOCAB, 0)->axis, 3);
    assert_int_equal(feature(m, RT_F_VOCAB, 0)->bound, 3);
    assert_int_equal(feature(m, RT_F_CROSS, 0)->n_in, 2);
    assert_int_equal(feature(m, RT_F_CROSS, 0)->buckets, 77);
    assert_true(feature(m, RT_F_CROSS, 0)->predict);
    assert_false(feature(m, RT_F_KEY, 0)->predict); /* gauc's groups are of evaluation only */
    assert_int_equal(feature(m, RT_F_NUMBER, 0)->type, RT_T_F32);
    /* user's row by row, the history pooled: two lookups of one table; the tags' one-hots are rows of the kernel,
     * and so is what a slice leaves of the cross's */
    assert_int_equal(m->n_lookups, 4);
    assert_true(m->lookups[2].table != m->lookups[0].table && m->lookups[2].pooled);
    assert_true(m->lookups[3].table == m->lookups[2].table && !m->lookups[3].pooled);
    assert_int_equal(m->lookups[0].table, m->lookups[1].table);
    assert_int_equal(m->lookups[1].ordinal, 1);
    assert_true(m->lookups[0].pooled != m->lookups[1].pooled);
    bed_free(&b);
}

static void test_weights_and_optimizers(void **state) {
    (void)state;
    for (int level = 0; level <= 2; level += 2) {
        Bed b;
        bed_new(&b, level);
        const RtWeight *users = &b.m->weights[0], *w = &b.m->weights[1];
        assert_string_equal(users->name, "users");
        assert_int_equal(users->rank, 2);
        assert_int_equal(users->dim[0], 5000);
        assert_string_equal(users->init, "truncated_normal");
        assert_true(users->init_arg == 0.5);
        assert_true(users->table && users->lazy && users->trainable && !users->running);
        assert_int_equal(users->sparse, level == 2); /* stored as met only if every use is by row */
        assert_int_equal(users->n_slots, 2);
        assert_string_equal(users->slots[0], "m");
        assert_int_equal(w->optimizer, 1);
        assert_string_equal(w->slots[0], "n");
        const RtOptimizer *adam = &b.m->opts[0], *ftrl = &b.m->opts[1];
        assert_int_equal(adam->kind, RT_ADAM);
        assert_true(adam->exact && adam->clip_norm == 5 && adam->l2 == 0.25 && adam->eps == 1e-8);
        assert_int_equal(adam->lr.kind, RT_LR_WARMUP);
        assert_int_equal(adam->lr.then->kind, RT_LR_COSINE);
        assert_true(adam->lr.then->end == 0.001);
        assert_true(ftrl->l1_ftrl == 0.5 && ftrl->l2_ftrl == 2 && ftrl->init == 0.1);
        assert_int_equal(ftrl->lr.n, 2);
        assert_true(ftrl->lr.values[2] == 0.002);
        bed_free(&b);
    }
}

static const IrNode *root(const IrProgram *p, const char *func, IrOp op, int nth) {
    const IrFunc *f = ir_func(p, func);
    for (int i = 0; i < f->body.n; i++)
        if (f->body.nodes[i]->op == op && nth-- == 0) return f->body.nodes[i];
    return NULL;
}

static void test_functions(void **state) {
    (void)state;
    static const char *const funcs[] = {"train", "eval", "predict"};
    Bed b;
    bed_new(&b, 2);
    const RtModel *m = b.m;
    for (int f = 0; f < RT_FUNCTIONS_N; f++) {
        const IrFunc *func = ir_func(b.p, funcs[f]);
        const IrNode *p = root(b.p, funcs[f], OP_PREDICT, 0)->in[0];
        const RtPlace *place = &m->fn[f].outputs[m->predictions[0].output[f]];
        assert_int_equal(place->region, RT_AT_FIXED);
        assert_int_equal(place->offset, p->plan.offset);
        assert_int_equal(m->fn[f].fixed_bytes, func->fixed_bytes);
        assert_int_equal(m->fn[f].n_nodes, func->body.n);
        assert_true(m->fn[f].flops > 0);
        for (int i = 0; i < func->body.n; i++)
            assert_int_equal(m->fn[f].nodes[i].id, func->body.nodes[i]->id);
    }
    assert_int_equal(m->n_metrics, 2);
    assert_int_equal(m->metrics[0].kind, RT_GAUC);
    assert_true(m->metrics[1].where[0] < 0 && m->metrics[1].by[0] < 0);
    for (int f = 0; f < 2; f++) {
        /* the label, the filter and the groups are read from where the reader put them */
        const RtPlace *y = &m->fn[f].outputs[m->metrics[0].y[f]],
                      *where = &m->fn[f].outputs[m->metrics[0].where[f]],
                      *by = &m->fn[f].outputs[m->metrics[0].by[f]];
        assert_true(y->region == RT_AT_INPUT && where->region == RT_AT_INPUT && by->region == RT_AT_INPUT);
        assert_int_equal(m->features[m->inputs[y->input].index].in[0].index, 0);
        assert_int_equal(m->features[m->inputs[where->input].index].in[0].index, 4);
        assert_int_equal(m->features[m->inputs[by->input].index].op, RT_F_KEY);
        assert_int_equal(m->metrics[0].p[f], m->predictions[0].output[f]);
    }
    bool placed = false;
    for (int i = 0; i < m->fn[RT_EVAL].n_nodes; i++) {
        const RtNodeInfo *n = &m->fn[RT_EVAL].nodes[i];
        if (n->name && strcmp(n->name, "fields.user") == 0)
            placed |= n->at && strcmp(n->at, "dir/ads.ctr:7:3") == 0;
    }
    assert_true(placed);
    bed_free(&b);
}

/* A text that the reader compares with must arrive as it is; JSON can't carry it if it is not UTF-8. */
static void test_not_utf8(void **state) {
    (void)state;
    Fx fx = fx_new();
    const char *at = strstr(program, "\"yes\"");
    IrProgram *p =
        fx_program(&fx, arena_printf(fx.arena, "%.*s\"\\xe9\"%s", (int)(at - program), program, at + 5));
    PassOptions o = {.out = stdout};
    assert_true(backend_target(p->diag, "x86-64-v3", &o.target) && pass_run_all(p, &o));
    assert_null(backend_describe(p, "x86-64-v3"));
    assert_non_null(strstr(fx_messages(&fx), "error: expected text in UTF-8, found other bytes"));
    fx_free(&fx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head),      cmocka_unit_test(test_columns),
        cmocka_unit_test(test_features),  cmocka_unit_test(test_weights_and_optimizers),
        cmocka_unit_test(test_functions), cmocka_unit_test(test_not_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
