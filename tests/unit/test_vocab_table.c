/* A vocabulary's hash table: every value at its place, nothing else found, at sizes around those of the
 * table. */
#include "runtime/vocab_table.h"
#include "runtime/abi.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static RtVocabTable *table_of(const char *text, uint64_t n) {
    return rt_vocab_table_new(text, strlen(text), n);
}
static uint32_t find(const RtVocabTable *t, const char *value) {
    char room[64]; /* what stands behind a text near others must not count */
    size_t n = strlen(value);
    assert_true(n + 16 <= sizeof room);
    memset(room, ';', sizeof room);
    memcpy(room, value, n);
    uint32_t index = rt_vocab_find(t, value, n);
    assert_int_equal(rt_vocab_find_near(t, room, n), index);
    return index;
}
static void expect(const RtVocabTable *t, const char *value, uint32_t index) {
    assert_int_equal(find(t, value), index);
}

static void test_few(void **state) {
    (void)state;
    RtVocabTable *t = table_of("a\nbb\n\na b\nbb\n\r\n", 6);
    expect(t, "a", 0);
    expect(t, "bb", 1); /* of equal values the first */
    expect(t, "", 2);
    expect(t, "a b", 3);
    expect(t, "\r", 5);
    expect(t, "b", RT_NO_ID);
    expect(t, "a\nbb", RT_NO_ID);
    rt_vocab_table_free(t);
    t = table_of("", 0);
    expect(t, "", RT_NO_ID);
    rt_vocab_table_free(t);
    t = table_of("one\n", 1);
    expect(t, "one", 0);
    expect(t, "on", RT_NO_ID);
    rt_vocab_table_free(t);
    rt_vocab_table_free(NULL);
}

/* Numbers as text, some of them long, so that lines begin and end anywhere in a window. */
static char *numbers(int n, size_t *bytes) {
    char *text = malloc((size_t)n * 24 + 1), *to = text;
    assert_non_null(text);
    for (int i = 0; i < n; i++) to += sprintf(to, i % 7 ? "%d\n" : "%020d\n", i);
    *to = 0;
    *bytes = (size_t)(to - text);
    return text;
}

static void check_numbers(int n) {
    size_t bytes;
    char *text = numbers(n, &bytes), value[32];
    RtVocabTable *t = rt_vocab_table_new(text, bytes, (uint64_t)n);
    for (int i = 0; i < n; i++) {
        sprintf(value, i % 7 ? "%d" : "%020d", i);
        if (find(t, value) != (uint32_t)i) fail_msg("of %d: %s", n, value);
        sprintf(value, i % 7 ? "%020d" : "%d", i);
        if (find(t, value) != RT_NO_ID) fail_msg("of %d: %s", n, value);
    }
    rt_vocab_table_free(t);
    free(text);
}

static void test_sizes(void **state) {
    (void)state;
    for (int n = 1; n < 200; n++) check_numbers(n);
    static const int sizes[] = {682, 683, 1023, 1024, 1025, 43690, 43691, 65535, 65536, 400000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check_numbers(sizes[i]);
}

/* The largest vocabulary of the reference models: some 8 ms in a release build on a busy machine; the bound
 * is for a sanitized one. */
static void test_large(void **state) {
    (void)state;
    enum { N = 543060 };
    size_t bytes;
    char *text = numbers(N, &bytes);
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    RtVocabTable *t = rt_vocab_table_new(text, bytes, N);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    double ms = (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
    print_message("%d values in %.1f ms\n", N, ms);
    expect(t, "543059", N - 1);
    assert_true(ms < 1000);
    rt_vocab_table_free(t);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_few), cmocka_unit_test(test_sizes),
                                       cmocka_unit_test(test_large)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
