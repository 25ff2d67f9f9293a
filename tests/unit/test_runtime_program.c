/* The generated program from outside: train, eval, predict, info, their files and messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <glob.h>
#include "runtime/safetensors.h"
#include "runtime_run.h"

#define TRAIN "train --data train.csv --no-shuffle "

static bool starts(const char *s, const char *prefix) { return !strncmp(s, prefix, strlen(prefix)); }
static double at(const json_t *o, const char *a, const char *b) {
    o = json_object_get(o, a);
    return json_number_value(b ? json_object_get(o, b) : o);
}

static void test_train_json(void **state) {
    (void)state;
    Run r = run(TRAIN "--eval-data eval.csv --epochs 3 --json --threads 2");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.err, "");
    assert_int_equal(r.out[0], '{');
    json_t *o = run_json(&r);
    assert_string_equal(json_string_value(json_object_get(o, "model")), "logit");
    assert_int_equal(at(o, "rows", NULL), 6000);
    assert_int_equal(at(o, "steps", NULL), 96); /* 32 an epoch, the last one short */
    assert_int_equal(at(o, "eval_rows", NULL), 500);
    json_t *epochs = json_object_get(o, "epochs");
    assert_int_equal(json_array_size(epochs), 3);
    double first = at(json_array_get(epochs, 0), "loss", NULL),
           last = at(json_array_get(epochs, 2), "loss", NULL);
    assert_true(first < 0.69 && last < first);
    assert_float_equal(at(o, "loss", NULL), last, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(at(json_array_get(epochs, i), "rows", NULL), 2000);
        assert_true(at(json_array_get(epochs, i), "samples_per_s", NULL) > 0);
        assert_true(at(json_array_get(epochs, i), "seconds", NULL) > 0);
    }
    assert_true(at(o, "auc", "ctr") > 0.75);
    assert_float_equal(at(o, "auc", "ctr"), at(json_array_get(epochs, 2), "auc", "ctr"), 0);
    assert_true(at(o, "gauc", "ctr") > 0.7);
    assert_float_equal(at(o, "logloss", "ctr"), at(o, "eval_loss", NULL), 1e-6);
    assert_true(fabs(at(o, "pcoc", "ctr") - 1) < 0.2);
    const char *keys[] = {"samples_per_s", "seconds", "read_s", "compute_s", "accuracy", "bad_rows"};
    assert_true(at(o, "memory", "weights") > 0 && at(o, "memory", "step") >= 1024);
    for (int i = 0; i < 6; i++) assert_non_null(json_object_get(o, keys[i]));
    json_decref(o);
}

/* Without evaluation data the metrics are of the training rows as they were predicted. */
static void test_train_metrics_without_eval(void **state) {
    (void)state;
    Run r = run(TRAIN "--epochs 1 --json");
    json_t *o = run_json(&r);
    assert_float_equal(at(o, "logloss", "ctr"), at(o, "loss", NULL), 1e-6);
    assert_null(json_object_get(o, "eval_loss"));
    json_decref(o);
}

static void test_train_summary(void **state) {
    (void)state;
    Run r = run(TRAIN "--epochs 1 --save ckpt");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.err, "");
    assert_true(starts(r.out, "logit: 2000 rows, 32 steps in "));
    assert_non_null(strstr(r.out, "\nloss                 0."));
    assert_non_null(strstr(r.out, "\nauc ctr              0."));
    assert_non_null(strstr(r.out, "\nsaved to             ckpt\n"));
    r = run(TRAIN "--epochs 2");
    assert_true(starts(r.out, "epoch 1: 2000 rows in "));
}

static void test_steps(void **state) {
    (void)state;
    Run r = run(TRAIN "--steps 40 --epochs 5 --json --save ckpt");
    json_t *o = run_json(&r);
    assert_int_equal(at(o, "rows", NULL), 2000 + 8 * 64);
    assert_int_equal(at(o, "steps", NULL), 40);
    assert_int_equal(json_array_size(json_object_get(o, "epochs")), 2);
    assert_int_equal(at(json_array_get(json_object_get(o, "epochs"), 1), "rows", NULL), 512);
    json_decref(o);
    json_t *s = json_load_file("ckpt/state.json", 0, NULL);
    assert_int_equal(at(s, "step", NULL), 40);
    assert_int_equal(at(s, "epoch", NULL), 1);
    assert_int_equal(at(s, "epoch_rows", NULL), 512);
    assert_int_equal(at(s, "seed", NULL), 7);
    assert_int_equal(at(s, "format", NULL), 2);
    assert_string_equal(json_string_value(json_object_get(s, "digest")), "00112233aabbccdd");
    json_decref(s);
}

/* Step 0 is a model as it starts; no data is needed for it. */
static void test_steps_0(void **state) {
    (void)state;
    Run r = run("train --steps 0 --save ckpt --json");
    assert_int_equal(r.code, 0);
    json_t *o = run_json(&r);
    assert_true(json_is_null(json_object_get(o, "loss")));
    json_decref(o);
    r = run("train --steps 0 --eval-data eval.csv --json");
    o = run_json(&r);
    assert_int_equal(at(o, "eval_rows", NULL), 500);
    double auc = at(o, "auc", "ctr");
    json_decref(o);
    r = run("eval --data eval.csv --load ckpt --json");
    o = run_json(&r);
    assert_float_equal(at(o, "auc", "ctr"), auc, 0);
    json_decref(o);
}

static void test_same_bits(void **state) {
    (void)state;
    const char *users[] = {FIX_USERS_SMALL, FIX_USERS_LARGE};
    for (int k = 0; k < 2; k++) {
        char args[200];
        for (int t = 1; t <= 4; t++) {
            snprintf(args, sizeof args, "train --data train.csv --eval-data eval.csv --threads %d --save t%d",
                     t, t);
            assert_int_equal(run_how((RunHow){.users = users[k]}, args).code, 0);
            if (t == 1) continue;
            snprintf(args, sizeof args, "t%d/weights.safetensors", t);
            assert_true(run_same_files("t1/weights.safetensors", args));
        }
        run_how((RunHow){.users = users[k]}, "train --data train.csv --save other --seed 8");
        assert_false(run_same_files("t1/weights.safetensors", "other/weights.safetensors"));
        /* evaluation between epochs, and how far the reader was ahead, leave no trace */
        run_how((RunHow){.users = users[k]}, "train --data train.csv --save plain");
        assert_true(run_same_files("t1/weights.safetensors", "plain/weights.safetensors"));
        run_how((RunHow){.users = users[k]}, "train --data train.csv --steps 5 --save five");
        run_how((RunHow){.users = users[k]},
                "train --data train.csv --steps 5 --epochs 1 --threads 3 --save five2");
        assert_true(run_same_files("five/weights.safetensors", "five2/weights.safetensors"));
    }
}

static void test_eval_agrees(void **state) {
    (void)state;
    const char *users[] = {FIX_USERS_SMALL, FIX_USERS_LARGE};
    for (int k = 0; k < 2; k++) {
        RunHow how = {.users = users[k]};
        Run r = run_how(how, "train --data train.csv --eval-data eval.csv --seed 3 --save ckpt --json");
        json_t *o = run_json(&r);
        r = run_how(how, "eval --data eval.csv --load ckpt --json");
        assert_int_equal(r.code, 0);
        json_t *e = run_json(&r);
        assert_float_equal(at(o, "auc", "ctr"), at(e, "auc", "ctr"), 0);
        assert_float_equal(at(o, "eval_loss", NULL), at(e, "loss", NULL), 0);
        assert_int_equal(at(e, "rows", NULL), 500);
        assert_null(json_object_get(e, "steps"));
        assert_null(json_object_get(e, "epochs"));
        json_decref(o);
        json_decref(e);
    }
}

static void test_predict(void **state) {
    (void)state;
    run(TRAIN "--save ckpt");
    Run r = run("predict --data eval.csv --load ckpt");
    assert_int_equal(r.code, 0);
    int lines = 0;
    double first = atof(r.out), sum = 0;
    for (char *p = r.out; *p; p = strchr(p, '\n') + 1) lines++, sum += atof(p);
    assert_int_equal(lines, 500);
    assert_true(first > 0 && first < 1 && sum > 100 && sum < 400);
    Run h = run("predict --data eval.csv --load ckpt --header");
    assert_true(starts(h.out, "ctr\n"));
    Run f = run("predict --data eval.csv --load ckpt -o p.csv");
    assert_string_equal(f.out, "");
    char text[16384];
    run_slurp("p.csv", text, sizeof text);
    assert_string_equal(text, run("predict --data eval.csv --load ckpt").out);
    Run j = run("predict --data eval.csv --load ckpt --format jsonl");
    json_t *o = json_loads(j.out, JSON_DISABLE_EOF_CHECK, NULL);
    assert_float_equal(at(o, "ctr", NULL), first, 0);
    json_decref(o);
    /* the row's own batch doesn't matter: a file of the last row alone */
    assert_int_equal(system("(head -1 eval.csv; tail -1 eval.csv) > last.csv"), 0);
    Run one = run("predict --data last.csv --load ckpt");
    assert_string_equal(one.out, strrchr(text, '\n') - (strlen(one.out) - 1));
}

/* Every weight of the checkpoint, without its slots. */
static void same_weights(const char *got, const char *want) {
    char err[200];
    RtTensorFile *a = rt_tensors_open(got, err, sizeof err), *b = rt_tensors_open(want, err, sizeof err);
    assert_true(a && b);
    int weights = 0;
    for (int i = 0; i < rt_tensors_count(b); i++) {
        const RtTensor *y = rt_tensors_at(b, i), *x = rt_tensors_find(a, y->name);
        if (strchr(y->name, '/')) continue;
        weights++;
        assert_non_null(x);
        assert_int_equal(x->rank, y->rank);
        assert_int_equal(x->bytes, y->bytes);
        assert_memory_equal(x->dim, y->dim, (size_t)x->rank * sizeof *x->dim);
        assert_memory_equal(rt_tensors_data(a, x), rt_tensors_data(b, y), x->bytes);
    }
    assert_int_equal(rt_tensors_count(a), weights);
    assert_true(weights >= 3);
    rt_tensors_close(a);
    rt_tensors_close(b);
}

/* A table of more than 2^20 rows is saved by the rows touched, and exported whole. */
static void whole_table(const char *got, const char *saved, const char *name, int64_t rows) {
    char err[200], ids_name[100];
    snprintf(ids_name, sizeof ids_name, "%s.ids", name);
    RtTensorFile *a = rt_tensors_open(got, err, sizeof err), *b = rt_tensors_open(saved, err, sizeof err);
    const RtTensor *x = rt_tensors_find(a, name), *y = rt_tensors_find(b, name),
                   *ids = rt_tensors_find(b, ids_name);
    assert_true(x && y && ids && !rt_tensors_find(a, ids_name));
    assert_int_equal(x->dim[0], rows);
    assert_true(ids->dim[0] > 0 && ids->dim[0] < rows);
    size_t width = (size_t)x->dim[1];
    const float *all = rt_tensors_data(a, x), *touched = rt_tensors_data(b, y);
    const int64_t *id = rt_tensors_data(b, ids);
    for (int64_t i = 0; i < ids->dim[0]; i++)
        assert_memory_equal(all + (size_t)id[i] * width, touched + (size_t)i * width, width * sizeof *all);
    rt_tensors_close(a);
    rt_tensors_close(b);
}

/* No file of such a name, temporary ones included. */
static void none_like(const char *pattern) {
    glob_t g;
    assert_int_equal(glob(pattern, 0, NULL, &g), GLOB_NOMATCH);
}

static void test_export(void **state) {
    (void)state;
    run(TRAIN "--save ckpt");
    Run r = run("export --load ckpt --format safetensors -o w.safetensors");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "");
    assert_string_equal(r.err, "");
    same_weights("w.safetensors", "ckpt/weights.safetensors");
    RunHow large = {.users = "1100000"};
    run_how(large, TRAIN "--save large");
    assert_int_equal(run_how(large, "export --load large --format safetensors -o l.safetensors").code, 0);
    whole_table("l.safetensors", "large/weights.safetensors", "users", 1100000);
    r = run("export --load ckpt --format onnx -o m.onnx"); /* the fixture has a description alone */
    assert_int_equal(r.code, 1);
    assert_string_equal(r.err, "error: the program has no ONNX graph\n");
    none_like("m.onnx*");
    r = run("export --load none --format safetensors -o n.safetensors");
    assert_string_equal(r.err, "error: cannot open none/state.json: no such file or directory\n");
    assert_false(run_exists("n.safetensors"));
    r = run("export --load ckpt --format safetensors -o /dev/full");
    assert_int_equal(r.code, 1);
    assert_string_equal(r.err, "error: cannot write /dev/full: no space left on device\n");
    r = run_how((RunHow){.file_limit = 1000}, "export --load ckpt --format safetensors -o q.safetensors");
    assert_string_equal(r.err, "error: cannot write q.safetensors: file too large\n");
    none_like("q.safetensors*");
}

/* What ONNX cannot hold is told before anything is written. */
static void test_export_no_onnx(void **state) {
    (void)state;
    RunHow how = {.graph = "{\"lacks\":\"longest\"}"};
    run(TRAIN "--save ckpt");
    Run r = run_how(how, "export --load ckpt --format onnx -o m.onnx");
    assert_int_equal(r.code, 1);
    assert_string_equal(r.err,
                        "error: the model 'logit' cannot be written as ONNX: there is no form for longest\n");
    how = (RunHow){.users = "300000000", /* times 2 numbers: 2.4 GB, of which a few rows are there */
                   .graph = "{\"nodes\":[],\"weights\":[1],\"constants\":[],\"inputs\":[],\"outputs\":[]}",
                   .file_limit = 1 << 20};
    assert_int_equal(run_how(how, "train --data train.csv --steps 1 --save big").code, 0);
    r = run_how(how, "export --load big --format onnx -o m.onnx");
    assert_int_equal(r.code, 1);
    assert_string_equal(r.err, "error: the model 'logit' takes 2.4 GB, an ONNX file holds less than 2 GB\n"
                               "hint: --format safetensors has no such limit\n");
    none_like("m.onnx*");
    r = run_how(how, "export --load big --format onnx -o /dev/full");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "holds less than 2 GB"));
}

/* A bad row, or a full disk, leaves no file and no part of one. */
static void test_predict_whole_or_not(void **state) {
    (void)state;
    run(TRAIN "--save ckpt");
    assert_int_equal(system("(cat eval.csv; echo 1,u1,abc,2) > bad.csv; echo old > p.csv"), 0);
    Run r = run("predict --data bad.csv --load ckpt -o p.csv");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "bad.csv:502:"));
    char text[100];
    run_slurp("p.csv", text, sizeof text);
    assert_string_equal(text, "old\n");
    assert_int_not_equal(system("ls p.csv.* > list 2>&1"), 0); /* no temporary file */
    r = run_how((RunHow){.file_limit = 1000}, "predict --data eval.csv --load ckpt -o q.csv");
    assert_int_equal(r.code, 1);
    assert_string_equal(r.err, "error: cannot write q.csv: file too large\n");
    assert_false(run_exists("q.csv"));
    assert_int_not_equal(system("ls q.csv.* > list 2>&1"), 0); /* no temporary file */
    r = run("predict --data eval.csv --load ckpt -o /no/such/dir/p.csv");
    assert_string_equal(r.err, "error: cannot write /no/such/dir/p.csv: no such file or directory\n");
    r = run("predict --data eval.csv --load ckpt -o /dev/full");
    assert_string_equal(r.err, "error: cannot write /dev/full: no space left on device\n");
}

static void test_info(void **state) {
    (void)state;
    Run r = run("info");
    assert_int_equal(r.code, 0);
    assert_true(starts(r.out, "model        logit\nsource       logit.ctr, digest 00112233aabbccdd\n"));
    assert_non_null(strstr(r.out, "\nparameters   2002, trained 2002\n"));
    assert_non_null(strstr(r.out, "\npasses       simplify\n"));
    assert_non_null(strstr(r.out, "\nchanges      none\n"));
    assert_non_null(strstr(r.out, "  users  [1000,2] truncated_normal   adagrad, rows as met\n"));
    assert_non_null(strstr(r.out, "  clicked label, not for predictions\n"));
    r = run_how((RunHow){.users = FIX_USERS_LARGE}, "info --json");
    json_t *o = run_json(&r);
    assert_int_equal(at(o, "parameters", NULL), 200000002);
    assert_int_equal(json_array_size(json_object_get(o, "columns")), 4);
    assert_int_equal(at(json_object_get(o, "kernels"), "fetch", NULL), 1);
    assert_int_equal(at(o, "memory", "train_step"), 1024 + 64);
    json_decref(o);
}

/* ---- the log ---- */

static void test_log(void **state) {
    (void)state;
    Run r = run(TRAIN "--epochs 2 --log t.jsonl --log-every 10 --eval-data eval.csv");
    assert_int_equal(r.code, 0);
    char text[16384];
    run_slurp("t.jsonl", text, sizeof text);
    int steps = 0, ends = 0;
    double rows = 0;
    for (char *p = strtok(text, "\n"); p; p = strtok(NULL, "\n")) {
        json_t *o = json_loads(p, 0, NULL);
        assert_non_null(o);
        if (json_object_get(o, "epoch_end")) {
            ends++;
            assert_true(at(o, "auc", "ctr") > 0.5);
            assert_int_equal(at(o, "rows", NULL), 2000);
        } else {
            steps++;
            assert_int_equal(at(o, "step", NULL), 10 * steps);
            assert_true(at(o, "loss", NULL) > 0 && at(o, "loss", NULL) < 0.8);
            assert_true(at(o, "rows", NULL) > rows);
            rows = at(o, "rows", NULL);
        }
        json_decref(o);
    }
    assert_int_equal(steps, 6);
    assert_int_equal(ends, 2);
    r = run(TRAIN "--log /dev/full --log-every 10");
    assert_int_equal(r.code, 1);
    assert_string_equal(r.err, "error: cannot write /dev/full: no space left on device\n");
    r = run(TRAIN "--log no/such/t.jsonl");
    assert_string_equal(r.err, "error: cannot write no/such/t.jsonl: no such file or directory\n");
}

/* ---- undefined metrics, bad rows, progress ---- */

static void test_undefined(void **state) {
    (void)state;
    assert_int_equal(system("(head -1 eval.csv; grep ^1 eval.csv) > ones.csv"), 0);
    Run r = run(TRAIN "--epochs 1 --eval-data ones.csv --json");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.err, "warning: auc of ctr is undefined: all labels are alike\nwarning: gauc of ctr "
                               "is undefined: no group has both labels\n");
    json_t *o = run_json(&r);
    assert_true(json_is_null(json_object_get(json_object_get(o, "auc"), "ctr")));
    assert_true(json_is_real(json_object_get(json_object_get(o, "logloss"), "ctr")));
    json_decref(o);
    r = run(TRAIN "--epochs 1 --eval-data ones.csv");
    assert_non_null(strstr(r.out, "\nauc ctr              undefined\n"));
}

static void test_bad_rows(void **state) {
    (void)state;
    assert_int_equal(system("(cat eval.csv; echo 1,u1,abc,2; echo 0,u2,1.5) > bad.csv"), 0);
    Run r = run("train --data bad.csv --epochs 1");
    assert_int_equal(r.code, 1);
    assert_true(starts(r.err, "bad.csv:502:"));
    assert_non_null(strstr(r.err, ": error: "));
    r = run("train --data bad.csv --epochs 1 --on-bad-row skip --bad-rows out.csv --json");
    assert_int_equal(r.code, 0);
    assert_true(starts(r.err, "warning: 2 bad rows skipped, written to out.csv\n  the first: bad.csv:502:"));
    json_t *o = run_json(&r);
    assert_int_equal(at(o, "rows", NULL), 500);
    assert_int_equal(at(o, "bad_rows", NULL), 2);
    json_decref(o);
    r = run("train --data bad.csv --epochs 1 --on-bad-row skip --max-bad-rows 1");
    assert_int_equal(r.code, 1);
    assert_string_equal(r.err, "error: more than 1 bad row (--max-bad-rows)\n");
    assert_int_equal(
        run("train --data bad.csv --epochs 1 --on-bad-row skip --max-bad-rows 2 --save ckpt").code, 0);
    r = run("eval --data bad.csv --load ckpt --on-bad-row skip --max-bad-rows 1");
    assert_int_equal(r.code, 1);
    assert_string_equal(r.err, "error: more than 1 bad row (--max-bad-rows)\n");
    r = run("eval --data bad.csv --load ckpt --on-bad-row skip --bad-rows e.csv --json");
    assert_non_null(strstr(r.out, "\"bad_rows\":2"));
    assert_true(run_exists("e.csv"));
    /* the rows of --data stay what --bad-rows holds */
    r = run("train --data bad.csv --eval-data eval.csv --epochs 1 --on-bad-row skip --bad-rows out.csv");
    assert_int_equal(system("grep -q abc out.csv"), 0);
}

static void test_progress(void **state) {
    (void)state;
    run_write_csv("long.csv", 600000, 5);
    Run r = run("train --data long.csv --epochs 2 --progress always --threads 1");
    assert_non_null(strstr(r.err, "epoch 1/2: "));
    assert_non_null(strstr(r.err, " rows/s, loss 0."));
    assert_non_null(strstr(r.err, " left"));
    r = run("train --data long.csv --epochs 2");
    assert_string_equal(r.err, "");
}

/* ---- NaN ---- */

static void test_nan(void **state) {
    (void)state;
    Run r = run_how((RunHow){.from = "\"lr\":{\"kind\":\"const\",\"lr\":0.1}",
                             .to = "\"lr\":{\"kind\":\"const\",\"lr\":3e38}"},
                    TRAIN "--save ckpt --threads 2");
    assert_int_equal(r.code, 1);
    assert_string_equal(r.err, "error: the loss of step 2 is nan\n"
                               "  the first value that is not finite (-inf) comes from op %5 mul of deep, "
                               "f32[1], at logit.ctr:9:11\n"
                               "  the batch's 64 rows are train.csv:66-129\n"
                               "hint: a smaller learning rate, or clip_norm on the optimizer\n");
    assert_false(run_exists("ckpt"));
    r = run_how((RunHow){.from = "\"init\":\"zeros\",\"arg\":0", .to = "\"init\":\"constant\",\"arg\":1e39"},
                TRAIN);
    assert_string_equal(
        r.err,
        "error: the loss of step 1 is nan\n"
        "  weight 'bias' holds inf at [0]\n"
        "  the first value that is not finite (inf) comes from op %5 mul of deep, f32[1], at logit.ctr:9:11\n"
        "  the batch's 64 rows are train.csv:2-65\n"
        "hint: a smaller learning rate, or clip_norm on the optimizer\n");
    r = run_how((RunHow){.from = "\"init\":\"truncated_normal\",\"arg\":0.1",
                         .to = "\"init\":\"truncated_normal\",\"arg\":1e39"},
                TRAIN "--steps 3");
    assert_non_null(strstr(r.err, "  weight 'users' holds "));
    assert_non_null(strstr(r.err, "comes from op %3 fetch of users, f32[@users,2], at logit.ctr:8:9\n"));
    /* in evaluation */
    assert_int_equal(run(TRAIN "--save ckpt").code, 0);
    assert_int_equal(system("(head -1 eval.csv; echo 1,u1,-3e38,1; echo 1,u1,-3e38,1) > huge.csv"), 0);
    r = run("eval --data huge.csv --load ckpt");
    assert_int_equal(r.code, 1);
    assert_true(starts(r.err, "error: the loss of an evaluation batch is inf\n"));
    assert_non_null(strstr(r.err, "  the batch's 2 rows are huge.csv:2-3\n"));
    /* rows that shuffling scattered, over two files: each file once, the first forty ranges */
    assert_int_equal(system("for f in a b; do (head -1 eval.csv; for i in $(seq 250); do echo 1,u$i,3e38,1; "
                            "done) > $f.csv; done"),
                     0);
    r = run_how((RunHow){.from = "\"shuffle\":0", .to = "\"shuffle\":500"}, "train --data a.csv b.csv");
    char *rows = strstr(r.err, "\n  the batch's 64 rows are a.csv:");
    assert_non_null(rows);
    char *end = strchr(rows + 1, '\n'), *second = strstr(rows, ", b.csv:");
    assert_true(second && second < end && !memcmp(end - 5, " more", 5));
    int commas = 0;
    for (char *q = rows; q < end; q++) commas += *q == ',';
    assert_int_equal(commas, 39);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, run_setup, run_teardown)
    const struct CMUnitTest tests[] = {T(test_train_json),
                                       T(test_train_metrics_without_eval),
                                       T(test_train_summary),
                                       T(test_steps),
                                       T(test_steps_0),
                                       T(test_same_bits),
                                       T(test_eval_agrees),
                                       T(test_predict),
                                       T(test_predict_whole_or_not),
                                       T(test_export),
                                       T(test_export_no_onnx),
                                       T(test_info),
                                       T(test_log),
                                       T(test_undefined),
                                       T(test_bad_rows),
                                       T(test_progress),
                                       T(test_nan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
