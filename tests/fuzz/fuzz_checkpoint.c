/* Checkpoints: state.json up to the first NUL byte, weights.safetensors behind it. Either is refused with a
 * message, or evaluation and training go on from it. Where state.json says "checksum": "right", the right one
 * is put there: else no change of the text would get past it; "checksums": {} likewise is no word about
 * tensors. */
#include <jansson.h>
#include <sys/stat.h>
#include <xxhash.h>
#include "runtime/checkpoint.h"
#include "runtime/program.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/runtime_fixture_steps.h"

static const char csv[] = "clicked,user,x,group\n1,u1,0.5,1\n0,u2,-1,2\n1,u3,2,1\n";

static void put_checksum(json_t *o) {
    const char *said = json_string_value(json_object_get(o, "checksum"));
    if (!said || strcmp(said, "right")) return;
    json_object_del(o, "checksum");
    char *text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS), sum[20];
    if (!text) abort();
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)XXH3_64bits(text, strlen(text)));
    free(text);
    json_object_set_new(o, "checksum", json_string(sum));
}

static void write_state(const char *text, size_t n) {
    json_t *o = json_loadb(text, n, 0, NULL);
    put_checksum(o);
    char *fixed = o ? json_dumps(o, 0) : NULL;
    json_decref(o);
    if (fixed)
        fuzz_write("ckpt/state.json", fixed, strlen(fixed));
    else
        fuzz_write("ckpt/state.json", text, n);
    free(fixed);
}

static bool opens(const char *users) {
    char err[2000] = "";
    RtModel *m = fix_model(users);
    RtTables *t = rt_checkpoint_open(m, "ckpt", err, sizeof err);
    FUZZ_CHECK(t || *err, "refused without a word");
    bool ok = t != NULL;
    rt_tables_free(t);
    rt_model_free(m);
    return ok;
}

static void go_on(const char *users) {
    char *argv[] = {"logit",    "train", "--data",    "train.csv", "--save",     "ckpt",  "--resume=force",
                    "--epochs", "1",     "--threads", "1",         "--progress", "never", NULL};
    char *d = fix_description(users);
    RtProgram p = {.abi = RT_ABI_VERSION,
                   .description = d,
                   .description_bytes = strlen(d),
                   .train = fix_train,
                   .eval = fix_eval,
                   .predict = fix_predict};
    FILE *out = stdout;
    stdout = fuzz_null();
    int code = rt_main(&p, sizeof argv / sizeof *argv - 1, argv);
    stdout = out;
    FUZZ_CHECK(code == RT_EXIT_OK || code == RT_EXIT_FAILED, "exit code %d", code);
    free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *nul = memchr(data, 0, size);
    size_t n = nul ? (size_t)(nul - data) : size;
    const char *users = memmem(data, size, "users.ids", 9) ? FIX_USERS_LARGE : "5";
    FILE *messages = stderr;
    fuzz_enter_directory();
    mkdir("ckpt", 0777);
    fuzz_write("train.csv", csv, sizeof csv - 1);
    write_state((const char *)data, n);
    fuzz_write("ckpt/weights.safetensors", data + n + (nul != NULL), size - n - (nul != NULL));
    stderr = fuzz_null();
    if (opens(users)) go_on(users);
    stderr = messages;
    return 0;
}
