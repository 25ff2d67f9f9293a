/* Fields to values: kinds of columns, empty values, lists, quotes, line ends. */
#include "reader_fixture.h"

/* label, float, int */
static const Describe numbers = {
    .columns = LABEL("y", "") "," COL("x", "float", ",'default':0.5") "," COL("n", "int", ""),
    .features = VALUE(C(0), -1) "," VALUE(C(1), -1) "," FEATURE("number", C(2), "f32", -1, ""),
    .inputs = AS("f32", 0) "," AS("f32", 1) "," AS("f32", 2),
};

static void test_numbers(void **state) {
    (void)state;
    expect_rows(&numbers, "1,2.5,3\n0,-1e-3,-4\n", "1 2.5 3\n0 -0.00100000005 -4\n");
    expect_rows(&numbers, "1,,3\n0,  ,+7\n.5, 1. ,007\n", "1 0.5 3\n0 0.5 7\n0.5 1 7\n");
}

static void test_line_ends(void **state) {
    (void)state;
    const char *want = "1 2 3\n0 4 5\n";
    expect_rows(&numbers, "1,2,3\n0,4,5\n", want);
    expect_rows(&numbers, "1,2,3\n0,4,5", want);
    expect_rows(&numbers, "1,2,3\r\n0,4,5\r\n", want);
    expect_rows(&numbers, "1,2,3\r\n0,4,5\r", want);
    expect_rows(&numbers, "\n\n1,2,3\n\r\n  \n0,4,5\n\n", want);
    expect_rows(&numbers, "\xef\xbb\xbf" "1,2,3\n0,4,5\n", want);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_line_ends),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    leave_directory();
    return failed;
}
