/* Where bytes come from: compressed files, directories, stdin, a second file beside; and what each purpose
 * needs. */
#include "reader_fixture.h"
#include <fcntl.h>
#include <zlib.h>
#include <zstd.h>

static const Describe one = ONE_FLOAT(NULL);

/* Numbers from..to-1, a line each. */
static Text lines(int from, int to) {
    Text t = {0};
    say(&t, "%s", "");
    for (int i = from; i < to; i++) say(&t, "%d\n", i);
    return t;
}

static size_t gzip(const void *p, size_t n, uint8_t *out, size_t cap) {
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)p;
    z.avail_in = (uInt)n;
    z.next_out = out;
    z.avail_out = (uInt)cap;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

static void expect_file(const char *path, const char *want) { expect_rows_of(&one, RT_TRAIN, path, want); }

enum { MANY = 200000 }; /* lines: more than a block of the reader holds */

static void test_gzip(void **state) {
    (void)state;
    Text all = lines(0, MANY), few = lines(MANY, MANY + 3);
    size_t cap = all.n + 1000, n = 0, first;
    uint8_t *z = malloc(cap);
    n += first = gzip(all.s, all.n, z, cap);
    n += gzip("", 0, z + n, cap - n); /* an empty member */
    n += gzip(few.s, few.n, z + n, cap - n);
    write_bytes("two.gz", z, n);
    Text want = lines(0, MANY + 3);
    expect_file("two.gz", want.s);
    write_bytes("without_suffix", z, n);
    expect_file("without_suffix", want.s);
    memset(z + n, 0, 512); /* padding */
    write_bytes("padded.gz", z, n + 512);
    expect_file("padded.gz", want.s);
    z[n] = 'x';
    write_bytes("followed.gz", z, n + 1);
    expect_error_of(&one, "followed.gz", "followed.gz: error: the gzip data is followed by something else\n");
    write_bytes("cut.gz", z, n - 1);
    expect_error_of(&one, "cut.gz", "cut.gz: error: the gzip data breaks off: the file is cut short\n");
    write_bytes("cut.gz", z, first / 2);
    expect_error_of(&one, "cut.gz", "cut.gz: error: the gzip data breaks off: the file is cut short\n");
    write_bytes("cut.gz", z, 5);
    expect_error_of(&one, "cut.gz", "cut.gz: error: the gzip data breaks off: the file is cut short\n");
    z[first - 6] ^= 1; /* the checksum */
    write_bytes("damaged.gz", z, n);
    expect_error_of(&one, "damaged.gz", "damaged.gz: error: damaged gzip data (incorrect data check)\n");
    write_text("plain.gz", "1\n2\n");
    expect_error_of(&one, "plain.gz", "plain.gz: error: not a gzip file\n");
    write_text("empty.gz", "");
    expect_error_of(&one, "empty.gz", "empty.gz: error: the file is empty\n");
    write_bytes("nothing.gz", z, gzip("", 0, z, cap));
    expect_error_of(&one, "nothing.gz", "nothing.gz: error: the file is empty\n");
    free(z);
    free(all.s);
    free(few.s);
    free(want.s);
}

static void test_zstd(void **state) {
    (void)state;
    Text all = lines(0, MANY), few = lines(MANY, MANY + 3);
    size_t cap = ZSTD_compressBound(all.n) + 1000, n = 0, first;
    uint8_t *z = malloc(cap);
    n += first = ZSTD_compress(z, cap, all.s, all.n, 3);
    memcpy(z + n, "\x50\x2a\x4d\x18\x03\0\0\0abc", 11); /* a frame to skip */
    n += 11;
    n += ZSTD_compress(z + n, cap - n, few.s, few.n, 3);
    write_bytes("two.zst", z, n);
    Text want = lines(0, MANY + 3);
    expect_file("two.zst", want.s);
    write_bytes("without_suffix", z, n);
    expect_file("without_suffix", want.s);
    write_bytes("cut.zst", z, n - 1);
    expect_error_of(&one, "cut.zst", "cut.zst: error: the zstd data breaks off: the file is cut short\n");
    write_bytes("cut.zst", z, first / 2);
    expect_error_of(&one, "cut.zst", "cut.zst: error: the zstd data breaks off: the file is cut short\n");
    write_bytes("cut.zst", z, 6);
    expect_error_of(&one, "cut.zst", "cut.zst: error: the zstd data breaks off: the file is cut short\n");
    z[n] = 'x';
    write_bytes("followed.zst", z, n + 1);
    expect_error_of(&one, "followed.zst",
                    "followed.zst: error: damaged zstd data (Unknown frame descriptor)\n");
    memset(z + first, 'x', 20);
    write_bytes("damaged.zst", z, n);
    expect_error_of(&one, "damaged.zst",
                    "damaged.zst: error: damaged zstd data (Unknown frame descriptor)\n");
    write_text("plain.zst", "1\n2\n");
    expect_error_of(&one, "plain.zst", "plain.zst: error: not a zstd file\n");
    free(z);
    free(all.s);
    free(few.s);
    free(want.s);
}

static void test_directories(void **state) {
    (void)state;
    enter_directory();
    mkdir("logs", 0755);
    mkdir("logs/sub", 0755);
    write_text("logs/part-10", "10\n");
    write_text("logs/part-2", "2");
    write_text("logs/part-1", "1\n");
    write_text("logs/part-0", ""); /* as writers of many parts leave them */
    write_text("logs/_SUCCESS", "");
    write_text("logs/.part-1.crc", "x");
    write_text("logs/sub/part-3", "3\n");
    write_text("first", "0\n");
    RtModel *m = model_of(&one);
    const char *paths[] = {"first", "logs/", "first"};
    RtReaderOptions o = options(RT_TRAIN, paths, 3);
    char *got = rows_with(m, &o);
    assert_string_equal(got, "0\n1\n10\n2\n0\n");
    free(got);
    /* where rows come from */
    char err[1200];
    RtReader *r = rt_reader_open(m, &o, err, sizeof err);
    RtBatch *b;
    assert_int_equal(rt_reader_next(r, &b, err, sizeof err), 1);
    assert_int_equal(b->rows, 4);
    assert_string_equal(rt_reader_file(r, b->row_file[1]), "logs/part-1");
    assert_string_equal(rt_reader_file(r, b->row_file[3]), "logs/part-2");
    assert_int_equal(b->row_line[3], 1);
    rt_reader_release(r, b);
    assert_int_equal(rt_reader_next(r, &b, err, sizeof err), 1);
    assert_true(b->last_of_epoch);
    assert_string_equal(rt_reader_file(r, b->row_file[0]), "first");
    assert_true(rt_reader_progress(r) == 1);
    rt_reader_close(r);
    rt_model_free(m);
}

/* Runs with stdin replaced by a pipe that `text` comes through. */
static char *rows_of_stdin(const RtModel *m, RtReaderOptions o, const char *text, bool keep_open) {
    int p[2], old = dup(0);
    assert_int_equal(pipe(p), 0);
    assert_int_equal(write(p[1], text, strlen(text)), strlen(text));
    if (!keep_open) close(p[1]);
    dup2(p[0], 0);
    close(p[0]);
    char *got = NULL;
    if (!keep_open)
        got = rows_with(m, &o);
    else { /* nobody writes, nobody ends it: closing the reader must not hang */
        char err[1200];
        RtReader *r = rt_reader_open(m, &o, err, sizeof err);
        assert_non_null(r);
        usleep(20000);
        rt_reader_close(r);
        close(p[1]);
    }
    dup2(old, 0);
    close(old);
    return got;
}

static void test_stdin(void **state) {
    (void)state;
    RtModel *m = model_of(&one);
    const char *paths[] = {"-", "-"};
    RtReaderOptions o = options(RT_TRAIN, paths, 1);
    char *got = rows_of_stdin(m, o, "1\n2\n3", false);
    assert_string_equal(got, "1\n2\n3\n");
    free(got);
    got = rows_of_stdin(m, o, "1\nx\n", false);
    assert_string_equal(got, "<stdin>:2:1: error: expected a number for column 'x', found 'x'\n");
    free(got);
    got = rows_of_stdin(m, o, "", false);
    assert_string_equal(got, "<stdin>: error: the file is empty\n");
    free(got);
    rows_of_stdin(m, o, "1\n", true);
    o.epochs = 2;
    got = rows_with(m, &o);
    assert_string_equal(got,
                        "<stdin>: error: stdin can be read once only; several epochs need --cache memory\n");
    free(got);
    o.cache = true;
    got = rows_of_stdin(m, o, "1\n2\n", false);
    assert_string_equal(got, "1\n2\n1\n2\n");
    free(got);
    o.n_paths = 2;
    got = rows_with(m, &o);
    assert_string_equal(got, "<stdin>: error: given twice\n");
    free(got);
    rt_model_free(m);
}

/* ---- a second file beside ---- */

#define PAIR(header, quote)                                                                                  \
    {                                                                                                        \
        .input = ",'beside':'_neg','header':" header ",'quote':'" quote "'",                                 \
        .columns = LABEL("y", "") "," LIST("a", "int", ";", 0, "") "," LIST(                                 \
            "b", "int", ";", 0, ",'side':1,'used_predict':false"),                                           \
        .axes = AXIS("h", ",'shared':true"),                                                                 \
        .features = VALUE(C(0), -1) "," FEATURE("number", C(1), "f32", 0, "") "," FEATURE(                   \
            "number", C(2), "f32", 0, ",'predict':false"),                                                   \
        .inputs = AS("f32", 0) "," AS("f32", 1) "," AS("f32", 2),                                            \
    }

static void expect_pair(const Describe *d, const char *first, const char *second, const char *want) {
    write_text("pair", first);
    write_text("pair_neg", second);
    expect_rows_of(d, RT_TRAIN, "pair", want);
}

static void test_beside(void **state) {
    (void)state;
    Describe d = PAIR("false", "");
    expect_pair(&d, "1,1;2\n0,3\n", "4;5\n6\n", "1 [1 2] [4 5]\n0 [3] [6]\n");
    expect_pair(&d, "\n1,1;2\n\n0,3", "4;5\r\n6\n", "1 [1 2] [4 5]\n0 [3] [6]\n");
    expect_pair(&d, "1,1;2\n\n0,3\n", "4;5\n6;7\n",
                "pair_neg:2:1: error: lists along 'h' differ in length: 'a' has 1 (pair:3), 'b' has 2\n");
    expect_pair(&d, "1,1;2\n0,x\n", "4;5\n6\n",
                "pair:2:3: error: expected a whole number for column 'a', found 'x'\n");
    expect_pair(&d, "1,1;2\n0,3\n", "4;5\nx\n",
                "pair_neg:2:1: error: expected a whole number for column 'b', found 'x'\n");
    Describe h = PAIR("true", "\\\"");
    expect_pair(&h, "a,y\n1;2,1\n\"3\",0\n", "c,b\n\"x\n\ny\",4;5\nz,\"6\"\n", "1 [1 2] [4 5]\n0 [3] [6]\n");
    expect_pair(&h, "a,y\n1;2,1\n3,0\n", "c,b\n\"x\n\ny\",4;5\nz,?\n",
                "pair_neg:5:3: error: expected a whole number for column 'b', found '?'\n");
    expect_pair(&h, "a,y\n1;2,1\n", "c\nx\n", "pair_neg:1:1: error: column 'b' is missing from the header\n");
    unlink("pair_neg");
    expect_rows_of(&h, RT_TRAIN, "pair",
                   "pair_neg: error: cannot open the file beside 'pair': no such file or directory\n");
    expect_rows_of(
        &h, RT_TRAIN, "-",
        "<stdin>: error: the model reads a second file beside each ('_neg'), so stdin cannot be its data\n");
}

/* Whichever file is longer, both are named with their lines. */
static void test_beside_rows(void **state) {
    (void)state;
    Describe d = PAIR("false", ""), h = PAIR("true", "\\\"");
    expect_pair(&d, "1,1;2\n\n\n0,3\n", "4;5\n",
                "pair_neg:2: error: ends after 1 row, 'pair' has another at line 4\n");
    expect_pair(&d, "1,1\n0,3\n1,1", "4\n5",
                "pair_neg:3: error: ends after 2 rows, 'pair' has another at line 3\n");
    expect_pair(&d, "1,1;2\n0,3\n", "",
                "pair_neg:1: error: ends after 0 rows, 'pair' has another at line 1\n");
    expect_pair(&d, "1,1;2\n\n", "4;5\n\n6\n",
                "pair_neg:2: error: has another row, 'pair' ends at line 2 after 1 row\n");
    expect_pair(&d, "", "4\n", "pair_neg:1: error: has another row, 'pair' ends at line 0 after 0 rows\n");
    expect_pair(&d, "", "", "pair: error: the file is empty\n");
    expect_pair(&h, "a,y\n1,1\n", "c,b\n",
                "pair_neg:2: error: ends after 0 rows, 'pair' has another at line 2\n");
    expect_pair(&h, "a,y\n1,1\n", "c,b\n\"\n\",4\n,5\n",
                "pair_neg:4: error: has another row, 'pair' ends at line 2 after 1 row\n");
    /* compressed, and past the first block */
    Text first = {0}, second = {0};
    size_t fewer = 0; /* bytes of first's rows but for the last nine */
    for (int i = 0; i < MANY; i++) {
        if (i == MANY - 9) fewer = first.n;
        say(&first, "1,%d\n", i);
        if (i < MANY - 5) say(&second, "%d\n", i);
    }
    size_t cap = first.n + 1000;
    uint8_t *z = malloc(cap);
    write_bytes("pair.gz", z, gzip(first.s, first.n, z, cap));
    write_bytes("pair_neg.gz", z, gzip(second.s, second.n, z, cap));
    expect_error_of(
        &d, "pair.gz",
        "pair_neg.gz:199996: error: ends after 199995 rows, 'pair.gz' has another at line 199996\n");
    write_bytes("pair.gz", z, gzip(first.s, fewer, z, cap));
    expect_error_of(
        &d, "pair.gz",
        "pair_neg.gz:199992: error: has another row, 'pair.gz' ends at line 199991 after 199991 rows\n");
    write_bytes("pair.gz", z, gzip(first.s, first.n, z, cap));
    write_bytes("pair_neg.gz", z, gzip(second.s, second.n, z, cap) / 2);
    expect_error_of(&d, "pair.gz", "pair_neg.gz: error: the gzip data breaks off: the file is cut short\n");
    unlink("pair.gz");
    unlink("pair_neg.gz");
    free(z);
    free(first.s);
    free(second.s);
}

/* A line that holds nothing is an empty list where a list is all that a line can hold. */
static void test_blank_rows(void **state) {
    (void)state;
    Describe d = PAIR("false", "");
    expect_pair(&d, "1,1;2\n0,\n1,3\n0,", "4;5\n\n6\n\n", "1 [1 2] [4 5]\n0 [] []\n1 [3] [6]\n0 [] []\n");
    expect_pair(&d, "1,\n\n0,3\n", "\r\n6\r\n", "1 [] []\n0 [3] [6]\n");
    expect_pair(&d, "1,\n0,3\n", " \n6\n\n",
                "pair_neg:3: error: has another row, 'pair' ends at line 2 after 2 rows\n");
    expect_pair(&d, "1,1\n0,3\n", "4\n\n6\n",
                "pair_neg:2:1: error: lists along 'h' differ in length: 'a' has 1 (pair:2), 'b' has 0\n");
    Describe h = PAIR("true", "\\\"");
    expect_pair(&h, "a,y\n,1\n3,0\n", "\nb\n\n6\n", "1 [] []\n0 [3] [6]\n");
    expect_pair(&h, "a,y\n,1\n3,0\n", "b,c\n\n,x\n6,x\n", "1 [] []\n0 [3] [6]\n"); /* two fields: nothing */
    /* the first file, alone or in a pair; whether the list is read doesn't matter */
    Describe alone = {.columns = LIST("l", "float", ";", 0, ",'used_predict':false"),
                      .axes = AXIS("l", ""),
                      .features = FEATURE("value", C(0), "f32", 0, ",'predict':false"),
                      .inputs = AS("f32", 0)};
    expect_rows(&alone, "1;2\n\n \n3\n", "[1 2]\n[]\n[]\n[3]\n");
    expect_rows(&alone, "\n\n", "[]\n[]\n");
    expect_rows_of(&alone, RT_PREDICT, "data.csv", "\n\n");
    Describe headed = alone;
    headed.input = ",'header':true";
    expect_rows(&headed, "\nl\n\n1\n", "[]\n[1]\n");
    expect_rows_of(&headed, RT_PREDICT, "data.csv", "\n\n");
    Describe turned = {.input = ",'beside':'_neg'",
                       .columns = LIST("l", "float", ";", 0, "") "," COL("s", "string", ",'side':1"),
                       .axes = AXIS("l", ""),
                       .features = VALUE(C(0), 0) "," HASH(C(1), -1, 1),
                       .inputs = AS("f32", 0) "," AS("id", 1)};
    expect_pair(&turned, "1\n\n2\n", "x\ny\n\n", "[1] 0\n[] 0\n[2] -\n"); /* a string, too, may be empty */
    expect_pair(&turned, "1\n\n2\n", "x\ny\n",
                "pair_neg:3: error: ends after 2 rows, 'pair' has another at line 3\n");
    /* a number may not: there a blank line is a line too many, as everywhere else */
    Describe one_x = ONE_FLOAT(NULL);
    expect_rows(&one_x, "1\n\n2\n", "1\n2\n");
}

/* Blocks of the two files end at different rows: their lines differ much in length. */
static void test_beside_long(void **state) {
    (void)state;
    Describe d = PAIR("false", "");
    for (int longer = 0; longer < 2; longer++) {
        Text first = {0}, second = {0}, want = {0};
        const char *pad = "000000000000000000000000000000000000000000000000000000000000";
        for (int i = 0; i < 40000; i++) {
            int a = i % 70, b = i % 50;
            say(&first, "1,%s%d\n", longer ? "" : pad, a);
            say(&second, "%s%d\n", longer ? pad : "", b);
            say(&want, "1 [%d] [%d]\n", a, b);
            if (i % 1000) continue;
            say(&first, "1,\n\n"); /* a row without values, a line that is none */
            say(&second, "\n");
            say(&want, "1 [] []\n");
        }
        write_bytes("pair", first.s, first.n);
        write_bytes("pair_neg", second.s, second.n);
        expect_rows_of(&d, RT_TRAIN, "pair", want.s);
        free(first.s);
        free(second.s);
        free(want.s);
    }
}

static void test_beside_names(void **state) {
    (void)state;
    Describe d = PAIR("false", "");
    enter_directory();
    mkdir("pairs", 0755);
    uint8_t z[200];
    write_text("pairs/a", "1,1\n");
    write_text("pairs/a_neg", "2\n");
    write_bytes("pairs/b.gz", z, gzip("1,3\n", 4, z, sizeof z));
    write_bytes("pairs/b.gz_neg", z, gzip("4\n", 2, z, sizeof z));
    write_bytes("pairs/c.gz", z, gzip("1,5\n", 4, z, sizeof z));
    write_bytes("pairs/c_neg.gz", z, gzip("6\n", 2, z, sizeof z));
    expect_rows_of(&d, RT_TRAIN, "pairs", "1 [1] [2]\n1 [3] [4]\n1 [5] [6]\n");
    unlink("pairs/c_neg.gz");
    expect_rows_of(
        &d, RT_TRAIN, "pairs",
        "pairs/c.gz_neg: error: cannot open the file beside 'pairs/c.gz': no such file or directory\n");
}

static void test_beside_skipped_rows(void **state) {
    (void)state;
    Describe d = PAIR("true", "\\\"");
    RtModel *m = model_of(&d);
    write_text("pair", "a,y\n1,1\n2,x\n3,0\n4,1\n");
    write_text("pair_neg", "b\n1\n\"2\"\ny\n4\n");
    const char *path = "pair";
    RtReaderOptions o = options(RT_TRAIN, &path, 1);
    o.bad = RT_BAD_SKIP;
    o.bad_path = "bad";
    char *got = rows_with(m, &o), *first = read_text("bad"), *second = read_text("bad_neg");
    assert_string_equal(got, "1 [1] [1]\n1 [4] [4]\n");
    assert_string_equal(first, "a,y\n2,x\n3,0\n");
    assert_string_equal(second, "b\n\"2\"\ny\n");
    free(got);
    free(first);
    free(second);
    rt_model_free(m);
}

/* ---- purposes ---- */

static void test_predict(void **state) {
    (void)state;
    /* the label and the second file aren't needed: they may hold anything, or be away */
    Describe d = {
        .input = ",'beside':'_neg'",
        .columns =
            LABEL("y", "") "," COL("x", "float", "") "," COL("z", "float", ",'used_predict':false") "," LIST(
                "n", "int", ";", 0, ",'side':1,'used_predict':false"),
        .axes = AXIS("n", ""),
        .features = FEATURE("value", C(0), "f32", -1, ",'predict':false") "," VALUE(C(1), -1) "," FEATURE(
            "value", C(2), "f32", -1, ",'predict':false") "," FEATURE("number", C(3), "f32", 0,
                                                                      ",'predict':false"),
        .inputs = AS("f32", 0) "," AS("f32", 1) "," AS("f32", 2) "," AS("f32", 3),
    };
    write_text("p", "what,5,?\n,6,\n");
    expect_rows_of(&d, RT_PREDICT, "p", " 5\n 6\n");
    expect_rows_of(&d, RT_EVAL, "p",
                   "p_neg: error: cannot open the file beside 'p': no such file or directory\n");
    Describe h = d;
    h.input = ",'beside':'_neg','header':true";
    write_text("p", "id,x\n1,5\n");
    expect_rows_of(&h, RT_PREDICT, "p", " 5\n");
    write_text("p", "what,5\n");
    expect_rows_of(&d, RT_PREDICT, "p", "p:1:1: error: expected 3 fields, found 2\n");
    /* what isn't read is NULL */
    RtModel *m = model_of(&d);
    write_text("p", "?,5,?\n");
    const char *path = "p";
    RtReaderOptions o = options(RT_PREDICT, &path, 1);
    char err[1200];
    RtReader *r = rt_reader_open(m, &o, err, sizeof err);
    RtBatch *b;
    assert_int_equal(rt_reader_next(r, &b, err, sizeof err), 1);
    assert_null(b->inputs[0]);
    assert_non_null(b->inputs[1]);
    assert_null(b->inputs[3]);
    assert_null(b->offsets[0]);
    rt_reader_close(r);
    rt_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gzip),         cmocka_unit_test(test_zstd),
        cmocka_unit_test(test_directories),  cmocka_unit_test(test_stdin),
        cmocka_unit_test(test_beside),       cmocka_unit_test(test_beside_long),
        cmocka_unit_test(test_beside_rows),  cmocka_unit_test(test_blank_rows),
        cmocka_unit_test(test_beside_names), cmocka_unit_test(test_beside_skipped_rows),
        cmocka_unit_test(test_predict),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    leave_directory();
    return failed;
}
