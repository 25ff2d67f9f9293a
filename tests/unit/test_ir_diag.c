/* Memory and messages. What a Diag prints stands in tests/golden/ir/diag.txt, byte for byte. */
#include "test_ir_fixture.h"

static Span at(int file, uint32_t line, uint32_t col, uint32_t end_line, uint32_t end_col) {
    return (Span){(uint16_t)file, line, col, end_line, end_col};
}

static int add(Diag *d, const char *path, const char *text) {
    return diag_add_file(d, path, text, strlen(text), false);
}

static void title(Fx *fx, const char *text) { fprintf(fx->out, "---- %s\n", text); }

static void places(Fx *fx, Diag *d) {
    int f = add(d, "model.ctr", "model m\n\ndeep = f(user_idd)\nlast = 1");
    title(fx, "a name with a hint");
    const char *names[] = {"gender", "user_id", "shop_id"};
    diag_error(d, at(f, 3, 10, 3, 18), diag_did_you_mean(d, "user_idd", names, 3), "unknown name '%s'",
               "user_idd");
    title(fx, "one byte, an empty span, a place at the end of the line and one beyond it");
    diag_error(d, at(f, 1, 1, 1, 2), NULL, "one byte");
    diag_error(d, at(f, 1, 1, 1, 1), NULL, "empty");
    diag_error(d, at(f, 1, 8, 1, 8), NULL, "at the end");
    diag_error(d, at(f, 1, 80, 1, 90), NULL, "beyond the end");
    title(fx, "a span of two lines ends with the first, an empty line, the last line without a newline");
    diag_error(d, at(f, 3, 8, 4, 3), NULL, "two lines");
    diag_error(d, at(f, 2, 1, 2, 1), NULL, "empty line");
    diag_error(d, at(f, 4, 8, 4, 9), NULL, "last line");
    title(fx, "no such line, no place, no such file");
    diag_error(d, at(f, 9, 1, 9, 2), NULL, "line 9");
    diag_error(d, (Span){0}, "a hint of its own", "no place");
    diag_error(d, at(99, 1, 1, 1, 1), NULL, "no file");
    title(fx, "a warning, and notes that belong to an error");
    diag_warn(d, at(f, 4, 1, 4, 5), NULL, "'last' is never used");
    diag_error(d, at(f, 3, 8, 3, 9), NULL, "in a layer");
    diag_note(d, at(f, 4, 1, 4, 5), "called from here");
}

static void odd_bytes(Fx *fx, Diag *d) {
    title(fx, "tabs, control bytes, NUL, CRLF");
    static const char bytes[] = "\tx\t= \x01\x1b[31m\x7f \0 y\r\nnext\r\n";
    int f = diag_add_file(d, "bytes.ctr", bytes, sizeof bytes - 1, false);
    diag_error(d, at(f, 1, 2, 1, 3), NULL, "x");
    diag_error(d, at(f, 1, 16, 1, 17), NULL, "y");
    title(fx, "UTF-8: columns are bytes, the caret counts characters");
    f = add(d,
            "gr\xc3\xbc\xc3\x9f"
            "e.ctr",
            "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 = \"\xc3\xbc\"\n");
    diag_error(d, at(f, 1, 13, 1, 17), NULL, "the string '%s'", "\xc3\xbc");
    title(fx, "broken UTF-8: overlong, cut, surrogate, above the last, lone");
    f = add(d, "broken.ctr", "\xc0\xaf \xe2\x82 \xed\xa0\x80 \xf5\x80\x80\x80 \x80 end\xc3");
    diag_error(d, at(f, 1, 18, 1, 21), NULL, "end");
    title(fx, "bytes in a message and in a path");
    f = add(d, "a\nb.ctr", "x");
    diag_error(d, at(f, 1, 1, 1, 2), "hint\x1b[0m", "unknown name '%s'", "a\nb\xff");
}

static void long_lines(Fx *fx, Diag *d) {
    size_t size = 5000000; /* one line */
    char *text = arena_alloc(fx->arena, size + 1);
    for (size_t i = 0; i < size; i++) text[i] = (char)('a' + i % 26);
    int f = diag_add_file(d, "long.ctr", text, size, false);
    title(fx, "a line of 5 MB: a window at its start, in its middle, at its end");
    diag_error(d, at(f, 1, 3, 1, 6), NULL, "start");
    diag_error(d, at(f, 1, 2000000, 1, 2000005), NULL, "middle");
    diag_error(d, at(f, 1, 2000000, 1, 4000000), NULL, "middle, a long span");
    diag_error(d, at(f, 1, 5000000, 1, 5000001), NULL, "end");
    title(fx, "a message of 5 MB");
    diag_error(d, (Span){0}, NULL, "unknown name '%s'", text);
    title(fx, "a name that is cut within a character");
    char *wide = arena_alloc(fx->arena, 3001);
    for (size_t i = 0; i < 3000; i += 3) memcpy(wide + i, "\xe2\x82\xac", 3);
    diag_error(d, (Span){0}, NULL, "%s", wide);
    title(fx, "a clipped line of wide characters");
    f = diag_add_file(d, "wide.ctr", wide, 3000, false);
    diag_error(d, at(f, 1, 1501, 1, 1504), NULL, "in the middle");
}

static void test_golden(void **state) {
    (void)state;
    Fx fx = fx_new();
    Diag *d = fx_diag(&fx);
    d->max_errors = 100;
    places(&fx, d);
    odd_bytes(&fx, d);
    long_lines(&fx, d);
    fx_golden(&fx, "tests/golden/ir/diag.txt", fx_messages(&fx));
    fx_free(&fx);
}

static void test_too_many(void **state) {
    (void)state;
    Fx fx = fx_new();
    Diag *d = fx_diag(&fx);
    for (int i = 1; i <= 25; i++) {
        assert_int_equal(diag_full(d), i > 20);
        diag_error(d, (Span){0}, NULL, "number %d", i);
        diag_note(d, (Span){0}, "note %d", i);
    }
    assert_int_equal(d->errors, 25);
    const char *text = fx_messages(&fx);
    assert_non_null(
        strstr(text, "error: number 20\nnote: note 20\nerror: too many errors, the rest are not shown\n"));
    assert_null(strstr(text, "number 21"));
    assert_null(strstr(text, "note 21")); /* a note goes with its error */
    assert_null(strstr(strstr(text, "too many") + 1, "too many"));
    diag_warn(d, (Span){0}, NULL, "still said");
    assert_non_null(strstr(fx_messages(&fx), "warning: still said"));
    fx_free(&fx);
}

static void test_nearest(void **state) {
    (void)state;
    static const char *const names[] = {"user_id", "shop_id", "relu", "sum", "x", NULL, "", "batchnorm"};
    static const struct {
        const char *name, *nearest;
    } cases[] = {
        {"user_idd", "user_id"},
        {"usr_id", "user_id"},
        {"uesr_id", "user_id"},
        {"reul", "relu"},
        {"batch_norm", "batchnorm"},
        {"sun", "sum"},
        {"relu", "relu"},
        {"y", NULL},
        {"completely", NULL},
        {"", NULL},
        {"ab", NULL},
    };
    int n = sizeof names / sizeof *names;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *found = diag_nearest(cases[i].name, names, n);
        if (!cases[i].nearest)
            assert_null(found);
        else
            assert_string_equal(found, cases[i].nearest);
    }
    char huge[200];
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = 0;
    assert_null(diag_nearest(huge, names, n));
    Fx fx = fx_new();
    assert_null(diag_did_you_mean(fx_diag(&fx), "completely", names, n));
    fx_free(&fx);
}

/* ---- the arena ---- */

static void test_arena(void **state) {
    (void)state;
    Arena *a = arena_new();
    unsigned char *kept[300];
    size_t sizes[300], total = 0;
    for (int i = 0; i < 300; i++) { /* small ones, some larger than a chunk, none at all */
        sizes[i] = i % 50 == 7 ? (size_t)300000 + (size_t)i : (size_t)(i * 37) % 1000;
        kept[i] = arena_alloc(a, sizes[i]);
        assert_true((uintptr_t)kept[i] % 16 == 0);
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(kept[i][k], 0);
        memset(kept[i], i, sizes[i]);
        total += sizes[i];
    }
    for (int i = 0; i < 300; i++) /* none overlaps another */
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(kept[i][k], i & 255);
    assert_true(arena_used(a) >= total && arena_used(a) < total + 300 * 32);
    assert_string_equal(arena_printf(a, "%d and %s", 12, "more"), "12 and more");
    assert_string_equal(arena_strndup(a, "abcdef", 3), "abc");
    assert_string_equal(arena_strdup(a, ""), "");
    arena_free(a);
    arena_free(NULL);
}

static void test_arena_grow(void **state) {
    (void)state;
    Arena *a = arena_new();
    int *list = NULL, *other = NULL, n = 0, cap = 0, n_other = 0, cap_other = 0;
    for (int i = 0; i < 100000;
         i++) { /* two arrays in turn, so that neither can always grow where it stands */
        ARENA_PUSH(a, list, n, cap, i);
        if (i % 3 == 0) ARENA_PUSH(a, other, n_other, cap_other, -i);
    }
    for (int i = 0; i < n; i++) assert_int_equal(list[i], i);
    for (int i = 0; i < n_other; i++) assert_int_equal(other[i], -3 * i);
    char *text = arena_grow(a, arena_strdup(a, "abc"), 4, 100);
    for (int i = 3; i < 100; i++) assert_int_equal(text[i], 0);
    assert_ptr_equal(arena_grow(a, text, 100, 50), text);
    assert_non_null(arena_grow(a, NULL, 0, 10));
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden), cmocka_unit_test(test_too_many),   cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_arena),  cmocka_unit_test(test_arena_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
