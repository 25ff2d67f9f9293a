/* Vocabulary files: line ends, duplicates, emptiness, and speed. */
#include "test_ir_fixture.h"
#include <time.h>

static const char *write_file(Fx *fx, const char *bytes, size_t size) {
    char *path = arena_strdup(fx->arena, "/tmp/ctrc_vocab_XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_true(write(fd, bytes, size) == (ssize_t)size);
    close(fd);
    return path;
}

static bool load(Fx *fx, IrVocab *v, const char *bytes, size_t size) {
    IrProgram *p = ir_program_new(fx->arena, fx_diag(fx));
    *v = (IrVocab){.path = write_file(fx, bytes, size)};
    bool ok = ir_vocab_load(p, v);
    unlink(v->path);
    return ok;
}

static void test_lines(void **state) {
    (void)state;
    static const char *const texts[] = {"a\nbb\nccc\n", "a\r\nbb\r\nccc\r\n", "a\nbb\nccc",
                                        "\xef\xbb\xbf"
                                        "a\nbb\r\nccc"};
    uint64_t digest = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Fx fx = fx_new();
        IrVocab v;
        assert_true(load(&fx, &v, texts[i], strlen(texts[i])));
        assert_int_equal(v.n, 3);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(v.lens[k], k + 1);
            assert_string_equal(v.values[k], (&(const char *const[]){"a", "bb", "ccc"}[0])[k]);
        }
        if (i == 0) digest = v.digest;
        assert_true(v.digest == digest); /* of the values, not of the file's line ends */
        assert_true(ir_vocab_digest(&v) == digest);
        fx_free(&fx);
    }
}

static void test_odd_values(void **state) {
    (void)state;
    Fx fx = fx_new();
    IrVocab v;
    assert_true(load(&fx, &v, " a \n\nx\0y\n\r\r\n", 12));
    assert_int_equal(v.n, 4);
    assert_string_equal(v.values[0], " a "); /* nothing is trimmed */
    assert_int_equal(v.lens[1], 0);
    assert_memory_equal(v.values[2], "x\0y", 4);
    assert_string_equal(v.values[3], "\r");
    fx_free(&fx);
}

static void assert_refused(const char *bytes, size_t size, const char *message) {
    Fx fx = fx_new();
    IrVocab v;
    assert_false(load(&fx, &v, bytes, size));
    if (!strstr(fx_messages(&fx), message)) fail_msg("expected '%s', found '%s'", message, fx_messages(&fx));
    assert_non_null(strstr(fx_messages(&fx), v.path));
    fx_free(&fx);
}

static void test_errors(void **state) {
    (void)state;
    assert_refused("", 0, "expected one value a line, found an empty file");
    assert_refused("\xef\xbb\xbf", 3, "expected one value a line, found an empty file");
    assert_refused("a\nb\nc\nb\n", 8, "line 4 repeats the value 'b' of line 2");
    assert_refused("a\n\nb\n\n", 6, "line 4 repeats the value '' of line 2");
    Fx fx = fx_new();
    IrProgram *p = ir_program_new(fx.arena, fx_diag(&fx));
    IrVocab v = {.path = "no/such/voc.txt"};
    assert_false(ir_vocab_load(p, &v));
    v.path = "/tmp";
    assert_false(ir_vocab_load(p, &v));
    assert_string_equal(fx_messages(&fx),
                        "error: can't read vocabulary 'no/such/voc.txt': No such file or directory\n"
                        "hint: paths of vocabularies are relative to the working directory\n"
                        "error: can't read vocabulary '/tmp': Is a directory\n"
                        "hint: paths of vocabularies are relative to the working directory\n");
    fx_free(&fx);
}

/* The largest vocabulary of the reference models has 543,060 values: some 30 ms in a release build. The bound
 * is for a sanitized build on a busy machine; a search that compares each value with all before takes
 * minutes. */
static void test_large(void **state) {
    (void)state;
    enum { N = 543060 };
    Fx fx = fx_new();
    char *text = malloc((size_t)N * 16), *end = text;
    for (int i = 0; i < N; i++) end += sprintf(end, "value-%d\n", i);
    const char *path = write_file(&fx, text, (size_t)(end - text));
    free(text);
    IrProgram *p = ir_program_new(fx.arena, fx_diag(&fx));
    IrVocab v = {.path = path};
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    assert_true(ir_vocab_load(p, &v));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    unlink(path);
    assert_int_equal(v.n, N);
    assert_string_equal(v.values[N - 1], "value-543059");
    double ms = (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
    print_message("%d values in %.1f ms\n", N, ms);
    assert_true(ms < 2000);
    fx_free(&fx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_odd_values),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
