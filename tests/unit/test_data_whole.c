/* Digests of files from end to end: beside training, and before going on only of files that were touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include "runtime/message.h"
#include "runtime/reader.h"

enum { BYTES = (17 << 20) + 5 };
static char path[] = "/tmp/whole.XXXXXX";
static char digest[20]; /* of the file */

static int make_file(void **state) {
    (void)state;
    char *bytes = malloc(BYTES);
    int fd = mkstemp(path);
    if (!bytes || fd < 0) return -1;
    for (int i = 0; i < BYTES; i++) bytes[i] = (char)(i * 2654435761u >> 24);
    bool ok = write(fd, bytes, BYTES) == BYTES;
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)XXH3_64bits(bytes, BYTES));
    free(bytes);
    return close(fd) || !ok;
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

static json_t *asks(json_int_t bytes) {
    return json_pack("{s:s,s:I,s:n}", "file", path, "bytes", bytes, "whole");
}
static const char *whole(const json_t *file) { return json_string_value(json_object_get(file, "whole")); }

/* What a program that goes on makes of the file, if the checkpoint has "saved", and the file's time plus so
 * many ns. */
static json_t *read_after(const char *saved, json_int_t bytes, int64_t later) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    json_int_t changed = (json_int_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec + later;
    json_t *file = asks(bytes);
    json_t *old =
        json_pack("{s:s,s:I,s:I}", "whole", saved, "inode", (json_int_t)st.st_ino, "changed", changed);
    rt_data_read_whole(file, old);
    json_decref(old);
    return file;
}

static void test_before_going_on(void **state) {
    (void)state;
    json_t *file = read_after("saved", BYTES, 0); /* not touched: not read */
    assert_string_equal(whole(file), "saved");
    assert_true(json_integer_value(json_object_get(file, "changed")) > 0);
    json_decref(file);
    file = read_after("saved", BYTES, -1);
    assert_string_equal(whole(file), digest);
    /* it was made just now: a change might not be seen in its time */
    assert_int_equal(json_integer_value(json_object_get(file, "changed")), 0);
    json_decref(file);
    file = read_after("saved", BYTES + 1, -1); /* it has shrunk since it was looked at */
    assert_null(whole(file));
    json_decref(file);
    file = asks(BYTES);
    json_t *without = json_pack("{s:n}", "whole");
    rt_data_read_whole(file, without); /* nothing to compare with */
    assert_null(whole(file));
    json_decref(without);
    json_decref(file);
}

static void test_beside_training(void **state) {
    (void)state;
    json_t *gone = json_pack("{s:s,s:i,s:n}", "file", "/tmp/no/such/file", "bytes", BYTES, "whole");
    json_t *small = json_pack("{s:s,s:i}", "file", path, "bytes", BYTES);
    json_t *data = json_pack("[o,o]", gone, small), *eval = json_pack("[o]", asks(BYTES));
    assert_null(rt_digester_start(NULL, NULL));
    RtDigester *d = rt_digester_start(data, eval);
    assert_non_null(d);
    const json_t *file = json_array_get(eval, 0);
    for (int i = 0; i < 60000 && !whole(file); i++) { /* at most a minute */
        usleep(1000);
        rt_digester_note(d);
    }
    assert_string_equal(whole(file), digest);
    assert_null(whole(gone));
    assert_null(json_object_get(small, "whole"));
    rt_digester_end(d);
    assert_null(rt_digester_start(json_array_get(data, 1), eval)); /* all is known */
    json_decref(data);
    json_decref(eval);
    rt_digester_note(NULL);
    rt_digester_end(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_before_going_on),
                                       cmocka_unit_test(test_beside_training)};
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
