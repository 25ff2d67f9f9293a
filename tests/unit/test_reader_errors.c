/* What is said about bad rows and unreadable files, word for word, and what happens to bad rows that are
 * skipped. */
#include "reader_fixture.h"

/* label, price, age, name, list of ints, list of floats on one axis */
static const Describe shop = {
    .columns =
        LABEL("clicked", "") "," COL("price", "float", "") "," COL("age", "int", ",'default':1") "," COL(
            "name", "string", "") "," LIST("ids", "string", ";", 0, "") "," LIST("amounts", "float", ";", 0,
                                                                                 ""),
    .axes = AXIS("h", ",'shared':true"),
    .features = VALUE(C(0), -1) "," VALUE(C(1), -1) "," FEATURE(
        "identity", C(2), "id", -1, ",'bound':50,'n':50") "," HASH(C(3), -1,
                                                                   9) "," HASH(C(4), 0, 1) "," VALUE(C(5), 0),
    .inputs = AS("f32", 0) "," AS("f32", 1) "," AS("id", 2) "," AS("id", 4) "," AS("f32", 5),
};

static void expect_bad(const char *row, const char *want) {
    char text[4096], message[1200];
    snprintf(text, sizeof text, "0,1,2,x,,\n\n%s\n0,1,2,x,,\n", row);
    snprintf(message, sizeof message, "data.csv:3:%s\n", want);
    expect_error(&shop, text, message);
}

static void test_values(void **state) {
    (void)state;
    expect_bad("0,abc,1,x,,", "3: error: expected a number for column 'price', found 'abc'");
    expect_bad("0,  1.2.3 ,1,x,,", "5: error: expected a number for column 'price', found '1.2.3'");
    expect_bad("0,\"1,5\",1,x,,", "4: error: expected a number for column 'price', found '1,5'");
    expect_bad("0,1e39,1,x,,",
               "3: error: expected a number that fits 32-bit floats for column 'price', found '1e39'");
    expect_bad("0,,1,x,,", "3: error: column 'price' is empty and has no default");
    expect_bad("0,1,2.5,x,,", "5: error: expected a whole number for column 'age', found '2.5'");
    expect_bad("0,1,99999999999999999999,x,,",
               "5: error: expected a whole number of 64 bits for column 'age', found '99999999999999999999'");
    expect_bad("0,1,50,x,,", "5: error: expected 0 to 49 for column 'age', found '50'");
    expect_bad("0,1,-1,x,,", "5: error: expected 0 to 49 for column 'age', found '-1'");
    expect_bad("0,1,2,x,a;b,1;x7", "15: error: expected a number for column 'amounts', found 'x7'");
    expect_bad("0,1,2,x,a;b,1; ", "16: error: empty element in list 'amounts', which has no default");
    expect_bad("0,1,2,x,a;b;c,1;2",
               "15: error: lists along 'h' differ in length: 'ids' has 3, 'amounts' has 2");
    expect_bad("0,1,2,x,,1", "10: error: lists along 'h' differ in length: 'ids' has 0, 'amounts' has 1");
    /* shown short, and harmless to a terminal */
    expect_bad("0,\x1b[31mred\x07,1,x,,",
               "3: error: expected a number for column 'price', found '\\x1b[31mred\\x07'");
    expect_bad("0,\xff\xc3\xa9\xc3,1,x,,",
               "3: error: expected a number for column 'price', found '\\xff\xc3\xa9\\xc3'");
    expect_bad("0,aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee,1,x,,",
               "3: error: expected a number for column 'price', found "
               "'aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd'...");
}

static void test_labels(void **state) {
    (void)state;
    expect_bad("2,1,1,x,,", "1: error: expected a label from 0 to 1 for column 'clicked', found '2'");
    expect_bad("-0.5,1,1,x,,", "1: error: expected a label from 0 to 1 for column 'clicked', found '-0.5'");
    expect_bad("yes,1,1,x,,", "1: error: expected a number for column 'clicked', found 'yes'\n"
                              "hint: a label that is a text says which one means 1: label positive(\"yes\")");
    expect_bad(" ,1,1,x,,", "2: error: label 'clicked' is empty");
    Describe d = {.columns = LABEL("y", ",'positive':'>50K','negative':'<=50K'") "," COL("x", "string", ""),
                  .features = VALUE(C(0), -1),
                  .inputs = AS("f32", 0)};
    expect_error(&d, ">50K,\n<=50K.,\n",
                 "data.csv:2:1: error: expected '>50K' or '<=50K' for column 'y', found '<=50K.'\n");
}

static void test_fields(void **state) {
    (void)state;
    expect_bad("0,1,2,x,", "1: error: expected 6 fields, found 5");
    expect_bad("0,1,2,x,,,", "1: error: expected 6 fields, found 7");
    expect_bad("0", "1: error: expected 6 fields, found 1");
    expect_bad("0,1,2,\"x,y\",", "1: error: expected 6 fields, found 5");
    expect_bad("0,1,2,\"x\",,,,,", "1: error: expected 6 fields, found 9");
    expect_bad("0,,1,2,x,,", "1: error: expected 6 fields, found 7"); /* not: column 'price' is empty */
    expect_bad("0,x,2,a;b", "1: error: expected 6 fields, found 4");
    expect_bad("0,x,2,\"a,,",
               "3: error: expected a number for column 'price', found 'x'"); /* where do fields end? */
    Describe one = ONE_FLOAT(NULL);
    expect_error(&one, "1\n2,3\n", "data.csv:2:1: error: expected 1 field, found 2\n");
    Describe skip = {.columns = COL("x", "float", "") "," COL("_", "skip", ",'skip':3,'used':false"),
                     .features = VALUE(C(0), -1),
                     .inputs = AS("f32", 0)};
    expect_rows(&skip, "1,a,b,c\n", "1\n");
    expect_error(&skip, "1,a,b\n", "data.csv:1:1: error: expected 4 fields, found 3\n");
}

static void test_quotes(void **state) {
    (void)state;
    expect_bad("0,1,2,\"x\"y,,",
               "10: error: expected a separator or the line's end after a closing quote, found 'y'");
    expect_bad("0,1,2,\"x\" ,,",
               "10: error: expected a separator or the line's end after a closing quote, found ' '");
    expect_error(&shop, "0,1,2,x,,\n0,1,2,\"x,,\n0,1,2,x,,\n",
                 "data.csv:2:7: error: a quote is opened here and never closed\n");
}

static void test_endless_row(void **state) {
    (void)state;
    size_t n = (65 << 20) + 100;
    char *text = malloc(n);
    memset(text, 'a', n);
    memcpy(text, "0,1,2,x,,\n0,1,2,\"x,,\n", 21);
    write_bytes("endless.csv", text, n);
    expect_error_of(&shop, "endless.csv",
                    "endless.csv:2:1: error: a row longer than 64 MiB; is a quote never closed?\n");
    unlink("endless.csv");
    free(text);
}

static void test_line_within_quotes(void **state) {
    (void)state;
    expect_error(&shop, "0,1,2,x,,\n0,1,2,\"x\n\ny\",a,?\n",
                 "data.csv:4:6: error: expected a number for column 'amounts', found '?'\n");
    expect_error(&shop, "0,1,2,\"x\n\ny\",a,1\n0,?,2,x,,\n",
                 "data.csv:4:3: error: expected a number for column 'price', found '?'\n");
}

static void test_header(void **state) {
    (void)state;
    Describe d = {
        .input = ",'header':true",
        .columns = COL("price", "float", "") "," COL("n", "int", ",'from':'the number'"),
        .features = VALUE(C(0), -1) "," FEATURE("number", C(1), "f32", -1, ""),
        .inputs = AS("f32", 0) "," AS("f32", 1),
    };
    expect_rows(&d, "price,the number\n1,2\n", "1 2\n");
    expect_rows(&d, "\xef\xbb\xbfother,\"the number\", x , price\r\na,2,b,1\r\n", "1 2\n");
    expect_rows(&d, "\n\r\nthe number,\"a\nb\",price\n2,,1", "1 2\n");
    expect_error(
        &d, "prise,the number\n1,2\n",
        "data.csv:1:1: error: column 'price' is missing from the header\nhint: did you mean 'prise'?\n");
    expect_error(&d, "\nprice,number\n1,2\n",
                 "data.csv:2:1: error: column 'the number' is missing from the header\nhint: did you mean "
                 "'number'?\n");
    expect_error(&d, "a,b\n1,2\n", "data.csv:1:1: error: column 'price' is missing from the header\n");
    expect_error(&d, "price,the number,price\n1,2,3\n",
                 "data.csv:1:1: error: column 'price' stands twice in the header\n");
    expect_error(&d, "price,the number,x\n1,2\n", "data.csv:2:1: error: expected 3 fields, found 2\n");
    Describe twice = {
        /* one field as two columns */
        .input = ",'header':true",
        .columns = COL("a", "float", "") "," COL("b", "string", ",'from':'a'") "," LIST("c", "float", ";", 0,
                                                                                        ",'from':'a'"),
        .axes = AXIS("c", ""),
        .features = VALUE(C(0), -1) "," HASH(C(1), -1, 1) "," VALUE(C(2), 0),
        .inputs = AS("f32", 0) "," AS("id", 1) "," AS("f32", 2),
    };
    expect_rows(&twice, "x,a\n0,5\n0,6\n", "5 0 [5]\n6 0 [6]\n");
}

static void test_files(void **state) {
    (void)state;
    expect_error(&shop, "", "data.csv: error: the file is empty\n");
    expect_error(&shop, "\n\n  \n", "data.csv: error: no rows, only blank lines\n");
    Describe d = ONE_FLOAT(",'header':true");
    expect_error(&d, "x\n", "data.csv: error: only a header, no rows\n");
    expect_error(&d, "x", "data.csv: error: only a header, no rows\n");
    expect_error(&d, "", "data.csv: error: the file is empty\n");
    expect_error(&d, "\xff\xfex\0", "data.csv: error: expected UTF-8 text, found UTF-16\n");
    expect_error_of(&d, "none.csv", "none.csv: error: cannot open: no such file or directory\n");
    mkdir("empty", 0755);
    expect_error_of(&d, "empty", "empty: error: the directory holds no data files\n");
    mkdir("blank", 0755);
    write_text("blank/a", "");
    write_text("blank/b", "x\n");
    expect_error_of(&d, "blank", "blank: error: no rows in any file of the directory\n");
    if (geteuid()) { /* root may read anything */
        write_text("locked.csv", "x\n1\n");
        chmod("locked.csv", 0);
        expect_error_of(&d, "locked.csv", "locked.csv: error: cannot open: permission denied\n");
    }
    expect_error(&d, "x\n1\na\n", "data.csv:3:1: error: expected a number for column 'x', found 'a'\n");
}

/* Lines that end as on old Macs would all be one. */
static void test_carriage_returns(void **state) {
    (void)state;
    Describe one = ONE_FLOAT(NULL), head = ONE_FLOAT(",'header':true");
#define MAC                                                                                                  \
    ":1:2: error: lines end in a carriage return alone, expected a newline\n"                                \
    "hint: tr '\\r' '\\n' makes newlines of them\n"
    expect_error(&one, "1\r2\r3\r", "data.csv" MAC);
    expect_error(&one, "1\r2\r3", "data.csv" MAC);
    expect_error(&head, "x\r1\r2\r", "data.csv" MAC);
    expect_rows(&one, "1\r", "1\n"); /* one line, ended by a carriage return or cut within CRLF */
    expect_rows(&one, "1\r\n", "1\n");
    expect_error(&one, "1\n2\r3\n",
                 "data.csv:2:1: error: expected a number for column 'x', found '2\\x0d3'\n");
    Describe text = {.columns = COL("s", "string", ""), .features = HASH(C(0), -1, 1), .inputs = AS("id", 0)};
    expect_rows(&text, "\"a\rb\"", "0\n"); /* inside quotes it is text */
    Text t = {0};                          /* far into a file whose lines are longer than what is looked at */
    for (int i = 0; i < 30000; i++) say(&t, "%d\r", i);
    write_bytes("long.csv", t.s, t.n);
    expect_error_of(&one, "long.csv", "long.csv" MAC);
    free(t.s);
}

static void test_svm(void **state) {
    (void)state;
    Describe d = SVM;
    expect_error(&d, "1 2:3 4\n", "data.csv:1:7: error: expected index:value, found '4'\n");
    expect_error(&d, "1 2:3:4\n", "data.csv:1:5: error: expected index:value, found '3:'\n");
    expect_error(&d, "1:2 3:4\n", "data.csv:1:1: error: expected a label, found '1:'\n");
    expect_error(&d, "1 x:4\n", "data.csv:1:3: error: expected a whole number for column 'i', found 'x'\n");
    expect_error(&d, "1 100:4\n", "data.csv:1:1: error: expected 0 to 99 for column 'i', found '100'\n");
    expect_error(&d, "1 1:\n", "data.csv:1:5: error: empty element in list 'v', which has no default\n");
}

/* ---- skipping ---- */

static char *skip_rows(const RtModel *m, const char *const *paths, int n, int threads, BadSeen *bad) {
    RtReaderOptions o = options(RT_TRAIN, paths, n);
    o.bad = RT_BAD_SKIP;
    o.bad_path = "bad.csv";
    o.threads = threads;
    o.epochs = 2; /* bad rows count once */
    return rows_and_bad(m, &o, bad);
}

static void test_skip(void **state) {
    (void)state;
    Describe d = {.input = ",'header':true",
                  .columns = COL("x", "float", "") "," COL("s", "string", ""),
                  .features = VALUE(C(0), -1),
                  .inputs = AS("f32", 0)};
    RtModel *m = model_of(&d);
    write_text("a.csv", "s,x\r\np,1\r\nq,bad\r\n\r\nr,2,3\r\n\"s\nt\"u,4\r\nv,5\r\n");
    write_text("b.csv", "s,x\r\np,\n\"w\n\",6\n");
    write_text("c.csv", "x,s\n?,last \"quote\"");
    BadSeen bad;
    const char *paths[] = {"a.csv", "b.csv", "c.csv"};
    char *got = skip_rows(m, paths, 3, 3, &bad);
    assert_string_equal(got, "1\n5\n6\n1\n5\n6\n");
    assert_int_equal(bad.n, 5);
    assert_string_equal(bad.first, "a.csv:3:3: error: expected a number for column 'x', found 'bad'");
    char *lines = read_text("bad.csv"), *others = read_text("bad.csv.2");
    assert_string_equal(lines, "s,x\r\nq,bad\r\nr,2,3\r\n\"s\nt\"u,4\r\np,\n");
    assert_string_equal(others, "x,s\n?,last \"quote\"\n"); /* another header: a file of its own */
    free(got);
    /* fed back, all of them are bad again */
    const char *again[] = {"bad1.csv"};
    write_text("bad1.csv", lines);
    got = skip_rows(m, again, 1, 1, &bad);
    assert_string_equal(got, "error: all of the 4 rows are bad, the first: bad1.csv:2:3: error: expected a "
                             "number for column 'x', found 'bad'\n");
    assert_int_equal(bad.n, 4);
    free(lines);
    lines = read_text("bad.csv");
    char *fed = read_text("bad1.csv");
    assert_string_equal(lines, fed);
    free(got);
    free(fed);
    free(lines);
    free(others);
    rt_model_free(m);
}

static void test_bad_file_unwritable(void **state) {
    (void)state;
    Describe d = ONE_FLOAT(NULL);
    RtModel *m = model_of(&d);
    write_text("data.csv", "1\nx\n");
    const char *path = "data.csv";
    RtReaderOptions o = options(RT_TRAIN, &path, 1);
    o.bad = RT_BAD_SKIP;
    o.bad_path = "no/such/place";
    char *got = rows_with(m, &o);
    assert_string_equal(got, "no/such/place: error: cannot write: no such file or directory\n");
    free(got);
    o.bad_path = "/dev/full";
    got = rows_with(m, &o);
    assert_string_equal(got, "/dev/full: error: cannot write: no space left on device\n");
    free(got);
    rt_model_free(m);
}

/* Rows before the bad one still come, whole batches of them, whatever the threads. */
static void test_error_in_order(void **state) {
    (void)state;
    Describe d = ONE_FLOAT(NULL);
    RtModel *m = model_of(&d);
    Text t = {0}, want = {0};
    for (int i = 0; i < 500000; i++) {
        if (i == 400002 || i == 420000)
            say(&t, "oops\n");
        else
            say(&t, "%d\n", i % 10);
        if (i < 400000) say(&want, "%d\n", i % 10);
    }
    say(&want, "big.csv:400003:1: error: expected a number for column 'x', found 'oops'\n");
    write_text("big.csv", t.s);
    const char *path = "big.csv";
    for (int threads = 1; threads <= 4; threads += 3) {
        RtReaderOptions o = options(RT_TRAIN, &path, 1);
        o.threads = threads;
        char *got = rows_with(m, &o);
        assert_int_equal(strlen(got), want.n);
        assert_string_equal(got, want.s);
        free(got);
    }
    free(t.s);
    free(want.s);
    rt_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_endless_row),
        cmocka_unit_test(test_line_within_quotes),
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_carriage_returns),
        cmocka_unit_test(test_svm),
        cmocka_unit_test(test_skip),
        cmocka_unit_test(test_bad_file_unwritable),
        cmocka_unit_test(test_error_in_order),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    leave_directory();
    return failed;
}
