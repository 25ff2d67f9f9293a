/* Counters beyond 32 bits. Nobody waits for 2^32 rows in a test: a checkpoint says that they were. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "runtime/checkpoint.h"
#include "runtime/message.h"
#include "runtime_run.h"

static const uint64_t before = (uint64_t)UINT32_MAX - 10; /* the counters pass 2^32 in what follows */

/* ckpt as a training of so many steps and rows would have left it. */
static void save_at(uint64_t step, uint64_t epoch, uint64_t epoch_rows) {
    char err[RT_MESSAGE] = "";
    RtModel *m = fix_model(FIX_USERS_SMALL);
    RtTables *t = rt_tables_new(m, 7, err, sizeof err);
    RtSaver *s = rt_saver_open("ckpt", 1, err, sizeof err);
    json_t *part = json_pack("{s:I,s:I,s:f,s:f}", "rows", (json_int_t)before, "steps", (json_int_t)step,
                             "loss", 1e9, "seconds", 1e5);
    RtState state = {.step = step, .epoch = epoch, .epoch_rows = epoch_rows};
    state.run = json_pack("{s:O,s:I}", "run", part, "bad_rows", (json_int_t)before);
    assert_true(rt_saver_save(s, m, t, &state, err, sizeof err));
    json_decref(part);
    json_decref(state.run);
    rt_saver_close(s);
    rt_tables_free(t);
    rt_model_free(m);
}

static json_int_t number(const json_t *o, const char *key) {
    return json_integer_value(json_object_get(o, key));
}

static void test_steps_and_rows(void **state) {
    (void)state;
    save_at(before, 0, 0);
    Run r =
        run("train --data train.csv --save ckpt --save-every 4 --keep 9 --resume=force --epochs 1 --json");
    assert_int_equal(r.code, 0);
    json_t *o = run_json(&r), *saved = json_load_file("ckpt/state.json", 0, NULL);
    assert_true(number(o, "rows") == (json_int_t)(before + 2000));
    assert_true(number(o, "steps") == (json_int_t)(before + 32));
    assert_true(number(saved, "step") == (json_int_t)(before + 32));
    assert_true(number(json_object_get(json_object_get(saved, "run"), "run"), "rows") ==
                (json_int_t)(before + 2000));
    json_decref(saved);
    json_decref(o);
    /* earlier ones, on both sides of 2^32, are in the order of their steps */
    assert_true(run_exists("ckpt/step-4294967292/state.json")); /* saves are due by the number of the step */
    assert_true(run_exists("ckpt/step-4294967296/state.json"));
    assert_true(run_exists("ckpt/step-4294967300/state.json"));
}

/* --steps counts from the beginning, here to the third step from now. */
static void test_limit(void **state) {
    (void)state;
    save_at(before, 0, 0);
    Run r = run("train --data train.csv --save ckpt --resume=force --epochs 1 --steps 4294967288 --json");
    assert_int_equal(r.code, 0);
    json_t *o = run_json(&r);
    assert_true(number(o, "steps") == 4294967288);
    json_decref(o);
}

static void test_position(void **state) {
    (void)state;
    save_at(before, 0, before);
    Run r = run("train --data train.csv --save ckpt --resume=force --epochs 1");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "the data has 2000 rows, training was stopped behind row 4294967285\n"));
    /* epochs: the rows of this one are read, whatever its number */
    save_at(before, before, 0);
    r = run("train --data train.csv --save ckpt --resume=force --epochs 4294967286 --json");
    assert_int_equal(r.code, 0);
    json_t *o = run_json(&r);
    assert_true(number(o, "rows") == (json_int_t)(before + 2000));
    json_decref(o);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, run_setup, run_teardown)
    const struct CMUnitTest tests[] = {T(test_steps_and_rows), T(test_limit), T(test_position)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
