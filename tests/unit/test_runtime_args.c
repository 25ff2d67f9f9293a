/* Command lines: every message, every exit code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "runtime_run.h"

static const struct {
    const char *args, *err;
} wrong[] = {
    {"trian", "error: unknown command 'trian'\nhint: did you mean 'train'?\n"},
    {"serve",
     "error: unknown command 'serve'\nhint: the commands are train, eval, predict, check, export and info\n"},
    {"check", "error: check needs --data\n"},
    {"check --data a --load x", "error: check has no option '--load'\nhint: it is an option of eval\n"},
    {"export", "error: export needs --load\n"},
    {"export --load x", "error: export needs --format\n"},
    {"export --load x --format onnx", "error: export needs -o\n"},
    {"export --load x --format csv", "error: --format: expected safetensors|onnx, found 'csv'\n"},
    {"export --load x --data a", "error: export has no option '--data'\nhint: it is an option of train\n"},
    {"train", "error: train needs --data\n"},
    {"train --epoch 3", "error: unknown option '--epoch'\nhint: did you mean '--epochs'?\n"},
    {"train --zzzzzzzz", "error: unknown option '--zzzzzzzz'\n"},
    {"train --load x --data a", "error: train has no option '--load'\nhint: it is an option of eval\n"},
    {"eval --save x", "error: eval has no option '--save'\nhint: it is an option of train\n"},
    {"eval --data a", "error: eval needs --load\n"},
    {"predict --load a", "error: predict needs --data\n"},
    {"train --data", "error: --data: expected F...\n"},
    {"train --data --json", "error: --data: expected F...\n"},
    {"train --data a --epochs", "error: --epochs: expected N\n"},
    {"train --data a --epochs x", "error: --epochs: expected a whole number, found 'x'\n"},
    {"train --data a --epochs 0", "error: --epochs: expected a number from 1, found 0\n"},
    {"train --data a --epochs=-3", "error: --epochs: expected a number from 1, found -3\n"},
    {"train --data a --epochs 99999999999999999999",
     "error: --epochs: expected a whole number, found '99999999999999999999'\n"},
    {"train --data a --cache disk", "error: --cache: expected none|memory, found 'disk'\n"},
    {"train --data a --json=1", "error: --json takes no value\n"},
    {"train a", "error: unexpected 'a'\n"},
    {"train --data a --bad-rows f", "error: --bad-rows is for skipped rows\nhint: add --on-bad-row skip\n"},
    {"train --data a --max-bad-rows 3",
     "error: --max-bad-rows is for skipped rows\nhint: add --on-bad-row skip\n"},
    {"train --data a --log-every 3", "error: --log-every needs --log or --tensorboard\n"},
    {"train --data a --log-norms off", "error: --log-norms needs --log or --tensorboard\n"},
    {"train --data a --log f --log-norms all", "error: --log-norms: expected on|off, found 'all'\n"},
    {"train --data a --log f --log-every 0", "error: --log-every: expected a number from 1, found 0\n"},
    {"train --data a --tensorboard", "error: --tensorboard: expected DIR\n"},
    {"train --data - --eval-data -", "error: --data and --eval-data cannot both be stdin\n"},
    {"train --data -",
     "error: --data -: stdin can be read once only\nhint: add --epochs 1 or --cache memory\n"},
    {"train --data a --eval-data -",
     "error: --eval-data -: stdin can be read once only\nhint: add --epochs 1\n"},
    {"train --data a --resume", "error: --resume needs --save\n"},
    {"train --data a --save-every 5", "error: --save-every needs --save\n"},
    {"train --data a --keep 5", "error: --keep needs --save\n"},
    {"train --data a --stop-after 5s", "error: --stop-after needs --save\n"},
    {"train --data a --save d --save-every 0", "error: --save-every: expected a number from 1, found 0\n"},
    {"train --data a --save d --keep 0", "error: --keep: expected a number from 1, found 0\n"},
    {"train --data a --save d --resume=maybe", "error: --resume: expected force|previous, found 'maybe'\n"},
    {"train --data a --save d --resume maybe", "error: unexpected 'maybe'\n"},
    {"train --data - --save d --resume",
     "error: --data -: stdin cannot be read again, so --resume cannot go on with it\n"},
    {"train --data a --save d --stop-after 5",
     "error: --stop-after: expected a time such as 90s, 30m or 3h, found '5'\n"},
    {"train --data a --save d --stop-after 5d",
     "error: --stop-after: expected a time such as 90s, 30m or 3h, found '5d'\n"},
    {"train --data a --save d --stop-after 5min",
     "error: --stop-after: expected a time such as 90s, 30m or 3h, found '5min'\n"},
    {"train --data a --save d --stop-after h",
     "error: --stop-after: expected a time such as 90s, 30m or 3h, found 'h'\n"},
    {"train --data a --save d --stop-after=-5s",
     "error: --stop-after: expected a time such as 90s, 30m or 3h, found '-5s'\n"},
    {"train --data a --profile", "error: --profile: expected FILE.json\n"},
    {"train --data a --profile-steps 1-2", "error: --profile-steps needs --profile\n"},
#define RANGE_WANTS "error: --profile-steps: expected two steps such as 500-520, found "
    {"train --data a --profile f --profile-steps 5", RANGE_WANTS "'5'\n"},
    {"train --data a --profile f --profile-steps 5-", RANGE_WANTS "'5-'\n"},
    {"train --data a --profile f --profile-steps 5-4", RANGE_WANTS "'5-4'\n"},
    {"train --data a --profile f --profile-steps 0-4", RANGE_WANTS "'0-4'\n"},
    {"train --data a --profile f --profile-steps 1-2x", RANGE_WANTS "'1-2x'\n"},
#define EVERY_WANTS                                                                                          \
    "error: --eval-every: expected a number of steps such as 500, or of rows such as 100000rows, found "
#define PLATEAU_WANTS                                                                                        \
    "error: --lr-plateau: expected a factor between 0 and 1 and a number of evaluations, such as 0.5,2, "    \
    "found "
    {"train --data a --eval-data a --eval-every 0", EVERY_WANTS "'0'\n"},
    {"train --data a --eval-data a --eval-every=-5rows", EVERY_WANTS "'-5rows'\n"},
    {"train --data a --eval-data a --eval-every 5row", EVERY_WANTS "'5row'\n"},
    {"train --data a --eval-data a --eval-every rows", EVERY_WANTS "'rows'\n"},
    {"train --data a --eval-data a --eval-every 1.5", EVERY_WANTS "'1.5'\n"},
    {"train --data a --eval-data a --eval-every 99999999999999999999",
     EVERY_WANTS "'99999999999999999999'\n"},
    {"train --data a --eval-every 5", "error: --eval-every needs --eval-data or --eval-fraction\n"},
    {"train --data a --early-stop 5", "error: --early-stop needs --eval-data or --eval-fraction\n"},
    {"train --data a --early-stop 0", "error: --early-stop: expected a number from 1, found 0\n"},
    {"train --data a --lr-plateau 0.5,2", "error: --lr-plateau needs --eval-data or --eval-fraction\n"},
    {"train --data a --lr-plateau 0.5", PLATEAU_WANTS "'0.5'\n"},
    {"train --data a --lr-plateau 0.5,", PLATEAU_WANTS "'0.5,'\n"},
    {"train --data a --lr-plateau ,2", PLATEAU_WANTS "',2'\n"},
    {"train --data a --lr-plateau 0.5,0", PLATEAU_WANTS "'0.5,0'\n"},
    {"train --data a --lr-plateau 1,2", PLATEAU_WANTS "'1,2'\n"},
    {"train --data a --lr-plateau 0.5,2x", PLATEAU_WANTS "'0.5,2x'\n"},
    {"train --data a --lr-plateau nan,2", PLATEAU_WANTS "'nan,2'\n"},
    {"train --data a --eval-data a --early-stop-metric auc",
     "error: --early-stop-metric needs --early-stop or --lr-plateau\n"},
    {"train --data a --eval-data a --early-stop 2 --early-stop-metric pcoc",
     "error: --early-stop-metric: expected one of loss, auc:ctr, logloss:ctr, gauc:ctr, accuracy:ctr, found "
     "'pcoc'\n"},
    {"train --data a --eval-data - --epochs 1 --eval-every 5",
     "error: --eval-data -: stdin can be read once only, --eval-every reads it again\n"},
    {"train --data a --validate-first 0", "error: --validate-first: expected a number from 1, found 0\n"},
    {"train --data a --eval-fraction 1",
     "error: --eval-fraction: expected a number between 0 and 1, found '1'\n"},
    {"train --data a --eval-fraction=0.1x",
     "error: --eval-fraction: expected a number between 0 and 1, found '0.1x'\n"},
    {"train --data a --keep-negatives nan",
     "error: --keep-negatives: expected a number between 0 and 1, found 'nan'\n"},
    {"train --data a --eval-fraction 0.1 --eval-data b",
     "error: --eval-fraction and --eval-data: expected one of them\n"},
    {"train --data - --epochs 1 --eval-fraction 0.1",
     "error: --data -: stdin can be read once only, --eval-fraction reads it twice\n"},
    {"train --data - --epochs 1 --validate-first 10",
     "error: --data -: stdin can be read once only, --validate-first reads it twice\n"},
    {"predict --data a --load d --max-bad-rows 3",
     "error: --max-bad-rows is for skipped rows\nhint: add --on-bad-row skip\n"},
    {"predict --data a --load d --columns a,,b",
     "error: --columns: expected names with commas between them\n"},
};

static void test_wrong_usage(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Run r = run(wrong[i].args);
        if (r.code != 2 || strcmp(r.err, wrong[i].err))
            fail_msg("%s: exit code %d\n%s", wrong[i].args, r.code, r.err);
        assert_string_equal(r.out, "");
    }
}

static void test_beside_and_stdin(void **state) {
    (void)state;
    Run r = run_how((RunHow){.from = "\"side\":0", .to = "\"side\":1"}, "train --data - --epochs 1");
    assert_int_equal(r.code, 2);
    assert_string_equal(r.err,
                        "error: --data -: the model reads a second file beside each, which stdin has not\n");
}

static void test_stdin_works(void **state) {
    (void)state;
    Run r = run_how((RunHow){.input = "train.csv"}, "train --data - --epochs 1 --json");
    assert_int_equal(r.code, 0);
    Run f = run_how((RunHow){0}, "train --data train.csv --epochs 1 --json");
    assert_int_equal(strncmp(r.out, f.out, 100), 0);
}

/* Every option of every command stands in its help, with examples. */
static void test_help(void **state) {
    (void)state;
    Run r = run("--help");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out,
                        "usage: logit COMMAND [options]\nthe model 'logit', compiled by ctrc\n\n"
                        "  train      train on log files\n  eval       metrics of a checkpoint on log files\n"
                        "  predict    predictions of a checkpoint, one line a row\n"
                        "  check      what is in log files, column by column, and what is wrong with it\n"
                        "  export     a checkpoint for other programs\n"
                        "  info       model, "
                        "columns, weights, memory, passes\n\n"
                        "logit COMMAND --help says more and gives examples\n");
    static const struct {
        const char *command, *words[30];
    } help[] = {
        {"train",
         {"--data F...",
          "--eval-data",
          "--epochs",
          "--steps",
          "--threads",
          "--seed",
          "--no-shuffle",
          "--save DIR",
          "--save-every",
          "--keep",
          "--resume[=force|previous]",
          "--init-from",
          "--stop-after",
          "--log ",
          "--log-every",
          "--on-bad-row",
          "--bad-rows",
          "--max-bad-rows",
          "--progress",
          "--cache",
          "--json",
          "--eval-fraction",
          "--keep-negatives",
          "--validate-first",
          "examples:"}},
        {"eval",
         {"--data F...", "--load DIR", "--threads", "--on-bad-row", "--json", "--eval-fraction",
          "--calibration", "examples:"}},
        {"predict",
         {"--data F...", "--load DIR", "-o FILE", "--header", "--format", "--columns C,C", "--on-bad-row",
          "examples:"}},
        {"check",
         {"--data F...", "--threads", "--on-bad-row", "--bad-rows", "--max-bad-rows", "--json", "examples:"}},
        {"export", {"--load DIR", "--format safetensors|onnx", "-o FILE", "examples:"}},
        {"info", {"--json", "examples:"}},
    };
    for (size_t i = 0; i < sizeof help / sizeof *help; i++) {
        char args[40];
        snprintf(args, sizeof args, "%s --help", help[i].command);
        r = run(args);
        assert_int_equal(r.code, 0);
        assert_string_equal(r.err, "");
        for (int k = 0; help[i].words[k]; k++)
            if (!strstr(r.out, help[i].words[k]))
                fail_msg("%s --help lacks %s", help[i].command, help[i].words[k]);
        bool predicts = !strcmp(help[i].command, "predict"); /* nothing that isn't the command's */
        assert_int_equal(strstr(r.out, "--columns") != NULL, predicts);
    }
    r = run("");
    assert_int_equal(r.code, 2);
    assert_string_equal(r.out, "");
    r = run("--version");
    assert_string_equal(r.out, "logit (ctrc 0.1.0)\n");
}

/* Words may follow an option in several ways; many files after one --data. */
static void test_forms(void **state) {
    (void)state;
    Run r = run("train --data=train.csv --epochs=1 --threads=2 --json --seed -5");
    assert_int_equal(r.code, 0);
    r = run("train --data train.csv eval.csv --data train.csv --epochs 1 --json");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "\"rows\":4500,"));
}

static void test_machine(void **state) {
    (void)state;
    Run r = run_how((RunHow){.cpu_level = 3}, "info");
    assert_int_equal(r.code, 0); /* tests run on machines with AVX2 */
    r = run_how((RunHow){.cpu_level = 4}, "info");
    if (__builtin_cpu_supports("avx512f")) return;
    assert_int_equal(r.code, 1);
    assert_string_equal(r.err, "error: this CPU has no avx512f, the model's code needs it (x86-64-v4)\nhint: "
                               "compile it with a lower --march\n");
    r = run_how((RunHow){.cpu_level = 5}, "info");
    assert_int_equal(r.code, 1);
    assert_string_equal(
        r.err, "error: this CPU has no avx512f, the model's code needs it (x86-64-v4 and avx512bf16)\nhint: "
               "compile it with a lower --march\n");
    r = run_how((RunHow){.cpu_level = 6}, "info");
    assert_int_equal(r.code, 1);
    assert_string_equal(r.err, "error: this CPU has no avx512f, the model's code needs it (x86-64-v4, "
                               "avx512bf16 and AMX)\nhint: compile it with a lower --march\n");
}

/* What this system says where it has no tiles to give. */
static void test_no_tiles(void **state) {
    (void)state;
    char err[300] = "";
    if (rt_request_tiles(err, sizeof err)) {
        print_message("skipped: this system lets programs use AMX's tiles\n");
        skip();
    }
    assert_string_equal(err,
                        "the system lets no program use AMX's tiles, the model's code needs them\nhint: "
                        "compile it with --enable='schedule(amx=off)' or --march=cooperlake; Linux has them "
                        "from 5.16 on");
}

static void test_other_abi(void **state) {
    (void)state;
    fflush(NULL);
    if (fork() == 0) {
        if (!freopen(".err", "w", stderr)) _exit(99);
        RtProgram p = {.abi = RT_ABI_VERSION + 1};
        int code = rt_main(&p, 1, (char *[]){"logit", NULL});
        fflush(NULL);
        _exit(code);
    }
    int status;
    wait(&status);
    assert_int_equal(WEXITSTATUS(status), 1);
    char text[300], want[300];
    run_slurp(".err", text, sizeof text);
    snprintf(
        want, sizeof want,
        "error: the model's code was made for runtime interface %d, this runtime has %d: compile it again\n",
        RT_ABI_VERSION + 1, RT_ABI_VERSION);
    assert_string_equal(text, want);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, run_setup, run_teardown)
    const struct CMUnitTest tests[] = {
        T(test_wrong_usage), T(test_beside_and_stdin), T(test_stdin_works), T(test_help),
        T(test_forms),       T(test_machine),          T(test_no_tiles),    T(test_other_abi)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
