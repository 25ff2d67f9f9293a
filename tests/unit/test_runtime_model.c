/* The model description: every field arrives, every mistake is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "runtime_fixture.h"

static void test_fields(void **state) {
    (void)state;
    RtModel *m = fix_model(FIX_USERS_SMALL);
    assert_string_equal(m->name, "logit");
    assert_string_equal(m->source, "logit.ctr");
    assert_int_equal(m->batch, 64);
    assert_int_equal(m->epochs, 2);
    assert_int_equal(m->seed, 7);
    assert_int_equal(m->n_params, 2);
    assert_true(m->params[1].is_string);
    assert_int_equal(m->format, RT_CSV);
    assert_int_equal(m->separator, ',');
    assert_int_equal(m->quote, '"');
    assert_null(m->beside);
    assert_int_equal(m->n_columns, 4);
    assert_int_equal(m->columns[1].kind, RT_STRING);
    assert_true(m->columns[2].has_default);
    assert_float_equal(m->columns[2].default_num, 0.5, 0);
    assert_false(m->columns[0].has_default);
    assert_int_equal(m->features[2].op, RT_F_HASH);
    assert_int_equal(m->features[2].buckets, 1000);
    assert_int_equal(m->inputs[2].kind, RT_IN_LOOKUP);
    assert_int_equal(m->weights[1].size, 2000);
    assert_int_equal(m->weights[1].n_slots, 1);
    assert_int_equal(m->opts[1].lr.kind, RT_LR_WARMUP);
    assert_float_equal(m->opts[1].lr.then->lr, 0.1, 0);
    assert_int_equal(m->fn[RT_EVAL].uniq_elems[1], 4);
    assert_int_equal(m->fn[RT_TRAIN].outputs[0].offset, 256);
    assert_int_equal(m->fn[RT_TRAIN].outputs[1].input, 1);
    assert_int_equal(m->metrics[2].by[RT_EVAL], 2);
    assert_int_equal(m->metrics[0].by[RT_EVAL], -1);
    rt_model_free(m);
}

static const struct {
    const char *from, *to, *message;
} mistakes[] = {
    {"\"abi\":2", "\"abi\":9", "model description: made for runtime interface 9, this runtime has 2"},
    {"\"batch\":64,", "", "model description: missing key 'batch'"},
    {"\"batch\":64", "\"batch\":0", "model description: key 'batch': 0 is not within 1 ... 2147483647"},
    {"\"model\":\"logit\"", "\"model\":3",
     "model description: key 'model': expected a string, found a whole number"},
    {"\"shape\":[1,1],", "", "model description: weights[2]: missing key 'shape'"},
    {"\"shape\":[1,1]", "\"shape\":[1,0]",
     "model description: weights[2]: key 'shape': expected sizes from 1"},
    {"\"kind\":\"label\"", "\"kind\":\"lable\"",
     "model description: columns[0]: key 'kind': expected one of label string int float skip, found 'lable'"},
    {"\"separator\":\",\"", "\"separator\":\"ab\"",
     "model description: input: key 'separator': expected one byte, found \"ab\""},
    {"[[\"c\",2]]", "[[\"f\",2]]",
     "model description: features[0]: key 'in': feature 2 is not an earlier one"},
    {"[[\"c\",2]]", "[[\"c\",9]]",
     "model description: features[0]: key 'in': column 9 is not an earlier one"},
    {"\"lookup\":0", "\"lookup\":1", "model description: inputs[2]: key 'lookup': 1 is not within 0 ... 0"},
    {"\"uniq_elems\":[0,4,0]", "\"uniq_elems\":[0,4]",
     "model description: functions.train: key 'uniq_elems': expected 3 numbers, found 2"},
    {"\"lr\":{\"kind\":\"const\",\"lr\":0.1}", "\"lr\":{\"kind\":\"const\"}",
     "model description: optimizers[0].lr: missing key 'lr'"},
    {"\"kind\":\"auc\",\"prediction\":\"ctr\"", "\"kind\":\"auc\",\"prediction\":\"cvr\"",
     "model description: metrics[0]: there is no prediction 'cvr'"},
    {"\"region\":\"fixed\"", "\"region\":\"heap\"",
     "model description: functions.train.outputs[0]: key 'region': expected one of fixed axis uniq input, "
     "found 'heap'"},
    {"\"axes\":[]", "\"axes\":[3]", "model description: axes[0]: expected an object"},
};

static void test_mistakes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        char *s = fix_description_with(FIX_USERS_SMALL, mistakes[i].from, mistakes[i].to), err[300] = "";
        assert_null(rt_model_parse(s, strlen(s), NULL, err, sizeof err));
        assert_string_equal(err, mistakes[i].message);
        free(s);
    }
}

static void test_not_json(void **state) {
    (void)state;
    char err[300];
    assert_null(rt_model_parse("{\"abi\":", 7, NULL, err, sizeof err));
    assert_int_equal(strncmp(err, "model description:1:7: ", 23), 0);
    assert_null(rt_model_parse("[]", 2, NULL, err, sizeof err));
    assert_string_equal(err, "model description: expected an object");
}

/* Any prefix is an error, never a crash. */
static void test_prefixes(void **state) {
    (void)state;
    char *s = fix_description(FIX_USERS_SMALL), err[300];
    for (size_t n = 0; n < strlen(s); n += 7) assert_null(rt_model_parse(s, n, NULL, err, sizeof err));
    free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fields), cmocka_unit_test(test_mistakes),
                                       cmocka_unit_test(test_not_json), cmocka_unit_test(test_prefixes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
