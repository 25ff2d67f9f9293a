/* Checkpoints: what is in the files, that they appear whole or not at all, what is said when one doesn't fit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <xxhash.h>
#include "runtime/checkpoint.h"
#include "runtime/safetensors.h"
#include "runtime_run.h"

#define TRAIN "train --data train.csv --epochs 1 --save ckpt"

static const float *tensor(RtTensorFile *f, const char *name, const char *shape) {
    char text[160];
    const RtTensor *t = rt_tensors_find(f, name);
    assert_non_null(t);
    assert_string_equal(rt_shape_text(t->rank, t->dim, text), shape);
    return rt_tensors_data(f, t);
}

static void test_contents_small(void **state) {
    (void)state;
    char err[300];
    assert_int_equal(run(TRAIN).code, 0);
    RtTensorFile *f = rt_tensors_open("ckpt/weights.safetensors", err, sizeof err);
    assert_non_null(f);
    const char *names[] = {"bias", "bias/m", "bias/v", "deep.w", "deep.w/m", "deep.w/v", "users", "users/a"};
    assert_int_equal(rt_tensors_count(f), 8);
    for (int i = 0; i < 8; i++) assert_string_equal(rt_tensors_at(f, i)->name, names[i]);
    tensor(f, "bias", "[1]");
    tensor(f, "deep.w/v", "[1,1]");
    const float *users = tensor(f, "users", "[1000,2]"), *a = tensor(f, "users/a", "[1000,2]");
    /* untouched rows have their initial values, and only they an accumulator of 0.1 */
    RtModel *m = fix_model(FIX_USERS_SMALL);
    float first[2000];
    rt_init_values(&m->weights[FIX_USERS], 7, 0, 2000, first);
    int touched = 0;
    for (int i = 0; i < 1000; i++) {
        bool moved = a[2 * i] != 0.1f;
        touched += moved;
        assert_true(moved == (users[2 * i] != first[2 * i]));
    }
    assert_true(touched > 60 && touched <= 80);
    rt_model_free(m);
    rt_tensors_close(f);
}

static void test_contents_large(void **state) {
    (void)state;
    char err[300];
    assert_int_equal(run_how((RunHow){.users = FIX_USERS_LARGE}, TRAIN).code, 0);
    RtTensorFile *f = rt_tensors_open("ckpt/weights.safetensors", err, sizeof err);
    assert_non_null(f);
    assert_int_equal(rt_tensors_count(f), 9);
    const int64_t *ids = (const int64_t *)tensor(f, "users.ids", "[80]");
    assert_int_equal((uintptr_t)ids % 8, 0);
    tensor(f, "users", "[80,2]");
    tensor(f, "users/a", "[80,2]");
    for (int i = 0; i < 80; i++)
        assert_true(ids[i] >= 0 && ids[i] < 100000000 && (i == 0 || ids[i] > ids[i - 1]));
    rt_tensors_close(f);
}

/* Saved, read and saved again: the same bytes. */
static void test_round_trip(void **state) {
    (void)state;
    const char *users[] = {FIX_USERS_SMALL, FIX_USERS_LARGE};
    for (int k = 0; k < 2; k++) {
        char err[300] = "";
        assert_int_equal(run_how((RunHow){.users = users[k]}, TRAIN).code, 0);
        RtModel *m = fix_model(users[k]);
        RtState at;
        json_t *saved = NULL;
        char found[300];
        assert_true(rt_checkpoint_state(m, "ckpt", false, &at, &saved, found, sizeof found, err, sizeof err));
        RtTables *t = rt_checkpoint_resume(m, found, saved, err, sizeof err);
        json_decref(saved);
        assert_string_equal(err, "");
        assert_non_null(t);
        RtSaver *saver = rt_saver_open("again", 2, err, sizeof err);
        assert_non_null(saver);
        assert_true(rt_saver_save(saver, m, t, &(RtState){.step = 32, .epoch = 1}, err, sizeof err));
        rt_saver_close(saver);
        RtTensorFile *a = rt_tensors_open("ckpt/weights.safetensors", err, sizeof err);
        RtTensorFile *b = rt_tensors_open("again/weights.safetensors", err, sizeof err);
        assert_int_equal(rt_tensors_count(a), rt_tensors_count(b));
        for (int i = 0; i < rt_tensors_count(a); i++) {
            const RtTensor *x = rt_tensors_at(a, i), *y = rt_tensors_at(b, i);
            assert_string_equal(x->name, y->name);
            assert_memory_equal(rt_tensors_data(a, x), rt_tensors_data(b, y), x->bytes);
        }
        json_t *s = json_load_file("ckpt/state.json", 0, NULL),
               *again = json_load_file("again/state.json", 0, NULL);
        static const char *const alike[] = {"format", "model", "digest", "passes",
                                            "seed",   "step",  "epoch",  "updates"};
        for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
            assert_true(json_equal(json_object_get(s, alike[i]), json_object_get(again, alike[i])));
        json_decref(s);
        json_decref(again);
        rt_tensors_close(a);
        rt_tensors_close(b);
        rt_tables_free(t);
        rt_model_free(m);
    }
}

/* ---- whole or not at all ---- */

static void test_disk_full(void **state) {
    (void)state;
    Run r = run_how((RunHow){.file_limit = 5000}, TRAIN);
    assert_int_equal(r.code, 1);
    assert_string_equal(r.err, "error: cannot write ckpt.tmp/weights.safetensors: file too large\n");
    assert_string_equal(r.out, "");
    assert_false(run_exists("ckpt"));
    assert_false(run_exists("ckpt.tmp"));
    /* an older checkpoint stays as it was */
    assert_int_equal(run(TRAIN).code, 0);
    assert_int_equal(system("cp -r ckpt old"), 0);
    r = run_how((RunHow){.file_limit = 5000}, TRAIN " --seed 99");
    assert_int_equal(r.code, 1);
    assert_true(run_same_files("ckpt/weights.safetensors", "old/weights.safetensors"));
    assert_true(run_same_files("ckpt/state.json", "old/state.json"));
    assert_false(run_exists("ckpt.tmp"));
}

/* Told before training, not after. */
static void test_unwritable(void **state) {
    (void)state;
    static const struct {
        const char *args, *err;
    } cases[] = {
        {"train --data missing.csv --save no/such/ckpt",
         "error: cannot save to no/such/ckpt: no such file or directory\n"},
        {"train --data missing.csv --save train.csv", "error: cannot save to train.csv: not a directory\n"},
        {"train --data missing.csv --save train.csv/ckpt",
         "error: cannot save to train.csv/ckpt: not a directory\n"},
        {"train --data missing.csv --save .",
         "error: cannot save to .: the directory is not empty and holds no checkpoint\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Run r = run(cases[i].args);
        assert_int_equal(r.code, 1);
        assert_string_equal(r.err, cases[i].err);
    }
}

static void test_replaces(void **state) {
    (void)state;
    assert_int_equal(mkdir("ckpt", 0777), 0); /* an empty directory is as good as none */
    assert_int_equal(run(TRAIN " --seed 1").code, 0);
    assert_int_equal(
        system("cp -r ckpt old; echo mine > ckpt/notes; mkdir ckpt.tmp; echo x > ckpt.tmp/state.json"), 0);
    assert_int_equal(run("train --data train.csv --epochs 1 --seed 2 --save ckpt/ --log ckpt/log.jsonl").code,
                     0);
    assert_false(run_same_files("ckpt/weights.safetensors", "old/weights.safetensors"));
    assert_true(run_exists("ckpt/notes")); /* other files stay */
    assert_true(run_exists("ckpt/log.jsonl"));
    assert_false(run_exists("ckpt.tmp"));
    assert_int_equal(run("eval --data eval.csv --load ckpt").code, 0);
}

/* The directory cannot be renamed (here: it is the working directory's mount-like "." of a checkpoint): files
 * are replaced inside. */
static void test_replaces_inside(void **state) {
    (void)state;
    assert_int_equal(run(TRAIN).code, 0);
    assert_int_equal(chdir("ckpt"), 0);
    Run r = run("train --data ../train.csv --epochs 1 --seed 5 --save .");
    assert_string_equal(r.err, "");
    assert_int_equal(r.code, 0);
    assert_int_equal(run("eval --data ../eval.csv --load .").code, 0);
    assert_false(run_exists(".tmp"));
    assert_int_equal(chdir(".."), 0);
    json_t *s = json_load_file("ckpt/state.json", 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(s, "seed")), 5);
    json_decref(s);
}

/* ---- what doesn't fit ---- */

static void test_other_model(void **state) {
    (void)state;
    assert_int_equal(run(TRAIN).code, 0);
    Run r = run_how((RunHow){.users = "5000"}, "eval --data eval.csv --load ckpt");
    assert_int_equal(r.code, 1);
    assert_string_equal(r.err, "error: ckpt: the checkpoint doesn't fit the model 'logit'\n"
                               "  'users' has shape [1000,2] in the checkpoint, [5000,2] in the model\n");
    r = run_how((RunHow){.users = FIX_USERS_LARGE}, "eval --data eval.csv --load ckpt");
    assert_string_equal(r.err,
                        "error: ckpt: the checkpoint doesn't fit the model 'logit'\n"
                        "  'users' has shape [1000,2] in the checkpoint, [100000000,2] in the model\n");
    r = run_how((RunHow){.from = "\"name\":\"deep.w\"", .to = "\"name\":\"deep.v\""},
                "predict --data eval.csv --load ckpt");
    assert_int_equal(r.code, 1);
    assert_string_equal(r.out, "");
    assert_string_equal(r.err, "error: ckpt: the checkpoint doesn't fit the model 'logit'\n"
                               "  'deep.v' is missing from the checkpoint\n"
                               "  'deep.w' is in the checkpoint, not in the model\n"
                               "  'deep.w/m' is in the checkpoint, not in the model\n"
                               "  'deep.w/v' is in the checkpoint, not in the model\n");
    r = run_how((RunHow){.from = "00112233aabbccdd", .to = "ffffffffffffffff"},
                "eval --data eval.csv --load ckpt");
    assert_int_equal(r.code, 0);
    assert_string_equal(
        r.err,
        "warning: ckpt: written by the model 'logit' from another source (digest 00112233aabbccdd, here "
        "ffffffffffffffff); its weights fit\n");
}

static void test_broken_files(void **state) {
    (void)state;
    static const struct {
        const char *damage, *err;
    } cases[] = {
        {"rm -r ckpt", "error: cannot open ckpt/state.json: no such file or directory\n"},
        {"rm ckpt/state.json", "error: ckpt: no checkpoint in this directory\n"},
        {"rm ckpt/weights.safetensors",
         "error: cannot open ckpt/weights.safetensors: no such file or directory\n"},
        {"echo '{' > ckpt/state.json",
         "ckpt/state.json:2:0: error: string or '}' expected near end of file\n"},
        {"echo '{}' > ckpt/state.json", "error: ckpt/state.json: missing key 'format'\n"},
        {"sed -i 's/\"format\": 2/\"format\": 3/' ckpt/state.json",
         "error: ckpt/state.json: checkpoint format 3, this program reads 2\n"},
        {"sed -i /seed/d ckpt/state.json", "error: ckpt/state.json: missing key 'seed'\n"},
        {": > ckpt/weights.safetensors",
         "error: ckpt/weights.safetensors: not a safetensors file, or cut short\n"},
        {"truncate -s 300 ckpt/weights.safetensors",
         "error: ckpt/weights.safetensors: not a safetensors file, or cut short\n"},
        {"truncate -s 9000 ckpt/weights.safetensors", "error: ckpt/weights.safetensors: tensor 'users/a': "
                                                      "expected F32 or I64 with data inside the file\n"},
        {"sed -i 's/\"bias\":{\"dtype\":\"F32\"/\"bias\":{\"dtype\":\"F16\"/' ckpt/weights.safetensors",
         "error: ckpt/weights.safetensors: tensor 'bias': expected F32 or I64 with data inside the file\n"},
        {"sed -i 's/__metadata__\":{/__metadata__\":[/' ckpt/weights.safetensors",
         "error: ckpt/weights.safetensors: not a safetensors file: the header is not JSON\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(run(TRAIN).code, 0);
        assert_int_equal(system(cases[i].damage), 0);
        Run r = run("eval --data eval.csv --load ckpt");
        assert_int_equal(r.code, 1);
        if (strcmp(r.err, cases[i].err)) fail_msg("%s:\n%s", cases[i].damage, r.err);
        if (system("rm -rf ckpt")) fail();
    }
}

/* Any cut or flipped byte of the header is an error or harmless, never a crash. */
static void test_damaged_headers(void **state) {
    (void)state;
    char err[400], text[600];
    assert_int_equal(run(TRAIN).code, 0);
    int fd = open("ckpt/weights.safetensors", O_RDWR);
    assert_int_equal(pread(fd, text, sizeof text, 0), sizeof text);
    for (size_t i = 0; i < sizeof text; i += 3) {
        char c = (char)(text[i] ^ (1 << i % 7));
        assert_int_equal(pwrite(fd, &c, 1, (off_t)i), 1);
        RtTensorFile *f = rt_tensors_open("ckpt/weights.safetensors", err, sizeof err);
        for (int k = 0; f && k < rt_tensors_count(f); k++) {
            const RtTensor *t = rt_tensors_at(f, k);
            volatile const char *d = rt_tensors_data(f, t);
            if (t->bytes) (void)(d[0] + d[t->bytes - 1]);
        }
        rt_tensors_close(f);
        assert_int_equal(pwrite(fd, &text[i], 1, (off_t)i), 1);
    }
    close(fd);
}

/* A header of any length is read: other programs don't pad it, and then the data isn't aligned. */
static void test_unpadded_header(void **state) {
    (void)state;
    static char text[1 << 16];
    assert_int_equal(run_how((RunHow){.users = FIX_USERS_LARGE}, TRAIN).code, 0);
    FILE *f = fopen("ckpt/weights.safetensors", "rb");
    size_t n = fread(text, 1, sizeof text, f), header = (unsigned char)text[0] + 256 * (unsigned char)text[1];
    fclose(f);
    assert_true(n > header && n < sizeof text);
    f = fopen("ckpt/weights.safetensors", "wb");
    text[0]++; /* one space more */
    assert_true(text[0]);
    fwrite(text, 1, 8 + header, f);
    fputc(' ', f);
    fwrite(text + 8 + header, 1, n - 8 - header, f);
    fclose(f);
    Run r = run_how((RunHow){.users = FIX_USERS_LARGE}, "eval --data eval.csv --load ckpt");
    assert_string_equal(r.err, "");
    assert_int_equal(r.code, 0);
}

/* Words of another kind, in a file whose checksum is right. */
static void test_state_of_other_kinds(void **state) {
    (void)state;
    assert_int_equal(run(TRAIN).code, 0);
    json_t *o = json_load_file("ckpt/state.json", 0, NULL);
    char sum[20];
    json_object_set_new(o, "passes", json_pack("[i]", 1));
    json_object_del(o, "checksum");
    char *text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)XXH3_64bits(text, strlen(text)));
    json_object_set_new(o, "checksum", json_string(sum));
    assert_int_equal(json_dump_file(o, "ckpt/state.json", 0), 0);
    free(text);
    json_decref(o);
    Run r = run(TRAIN " --resume");
    assert_int_equal(r.code, 1);
    assert_string_equal(r.err,
                        "error: ckpt/state.json: key 'passes': expected strings, found a whole number\n");
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, run_setup, run_teardown)
    const struct CMUnitTest tests[] = {
        T(test_contents_small),  T(test_contents_large),  T(test_round_trip),
        T(test_disk_full),       T(test_unwritable),      T(test_replaces),
        T(test_replaces_inside), T(test_other_model),     T(test_broken_files),
        T(test_damaged_headers), T(test_unpadded_header), T(test_state_of_other_kinds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
