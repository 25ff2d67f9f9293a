/* Broken input of every kind: a valid log is mutated at random and read in all ways. Whatever it holds, the
 * reader must give the same rows and errors for any number of threads, each row must be either read or bad,
 * and the bad lines, fed back, must be bad again. Run under sanitizers, this finds what reads or writes out
 * of place. */
#include "reader_fixture.h"
#include "runtime/reader_internal.h"
#include <zlib.h>

static uint64_t seed = 0x9e3779b97f4a7c15u;
static uint32_t pick(uint32_t n) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 32) * n >> 32);
}

static const RtBlob blob = {(rt_ptr) "a\nb\nc\n", 6};
#define COLUMNS                                                                                              \
    LABEL("y", "")                                                                                           \
    "," COL("x", "float", ",'default':1.5") "," COL("n", "int", "") "," COL("s", "string", "") "," LIST(     \
        "l", "string", ";", 0, "") "," LIST("m", "float", "|", 1, "") "," LIST("k", "string", ";", 1,        \
                                                                               ",'default':'z'")
#define FEATURES                                                                                                                                                                                    \
    VALUE(C(0), -1)                                                                                                                                                                                 \
    "," VALUE(C(1), -1) "," FEATURE("identity", C(2), "id", -1, ",'bound':100,'n':100") "," HASH(C(3), -1, 1000) "," FEATURE("vocab", C(4), "id", 2, ",'bound':3,'vocab':0,'unknown':-1") "," HASH( \
        C(4), 0, 50) "," VALUE(C(5),                                                                                                                                                                \
                               1) "," FEATURE("truncate", C(6), "str",                                                                                                                              \
                                              3, ",'n':2") "," HASH(F(7), 3,                                                                                                                        \
                                                                    50) "," FEATURE("cross", C(3) "," C(4),                                                                                         \
                                                                                    "id", 0,                                                                                                        \
                                                                                    ",'bound':9,'buckets':"                                                                                         \
                                                                                    "9") "," FEATURE("bucke"                                                                                        \
                                                                                                     "tize",                                                                                        \
                                                                                                     C(5),                                                                                          \
                                                                                                     "id",                                                                                          \
                                                                                                     1,                                                                                             \
                                                                                                     ",'"                                                                                           \
                                                                                                     "bound"                                                                                        \
                                                                                                     "':4,'"                                                                                        \
                                                                                                     "bound"                                                                                        \
                                                                                                     "s':["                                                                                         \
                                                                                                     "0,1,"                                                                                         \
                                                                                                     "2]") "," FEATURE("key",                                                                       \
                                                                                                                       C(2),                                                                        \
                                                                                                                       "key",                                                                       \
                                                                                                                       -1,                                                                          \
                                                                                                                       "")
#define INPUTS                                                                                               \
    AS("f32", 0)                                                                                             \
    "," AS("f32", 1) "," AS("id", 2) "," AS_LOOKUP(0) "," AS_LOOKUP(1) "," AS_LOOKUP(2) "," AS(              \
        "f32", 6) "," AS_LOOKUP(3) "," AS("id", 9) "," AS("id", 10) "," AS("key", 11)
#define AXES                                                                                                 \
    AXIS("l", "")                                                                                            \
    "," AXIS("m",                                                                                            \
             ",'max':3,'shared':true") ",{'name':'f','kind':'filter','parent':0,'max':0,'shared':false},"    \
                                       "{'name':'t','kind':'last','parent':1,'max':2,'shared':true}"
#define LOOKUPS LOOKUP(3, 0, false) "," LOOKUP(4, 0, true) "," LOOKUP(5, 0, false) "," LOOKUP(8, 0, true)
#define FUZZED(in)                                                                                           \
    {                                                                                                        \
        .input = in, .columns = COLUMNS, .features = FEATURES, .inputs = INPUTS, .axes = AXES,               \
        .lookups = LOOKUPS, .weights = TABLE("t", 1000), .vocabs = "{'path':null,'n':3,'digest':'00'}",      \
        .blobs = &blob                                                                                       \
    }

static const char header[] = "y,x,n,s,l,m,k\n";
static const char *const good[] = {
    "1,2.5,3,abc,a;b;c,1|2,x;y\n",        "0,,99,\"a,\"\"b\"\"\nc\",\"a;b\",,\r\n",
    "0.5,-1e3,0,?,;;,0.5|1|2|3,a;b;;d\n", "\n",
    "1, 7 ,  12,\"\",zz;a,\"3\",\"q\"\n",
};

/* A log with mistakes in it; returns its length. */
static size_t make_log(char *out, bool with_header, uint32_t n_rows) {
    static const char spice[] = ",,,\n\n\"\"\";;||\r \t.-+eE0123456789xyz?\xef\xbb\xbf\0\xff#:";
    size_t n = 0;
    if (with_header) n += (size_t)sprintf(out, "%s", header);
    for (uint32_t i = 0; i < n_rows; i++) n += (size_t)sprintf(out + n, "%s", good[pick(5)]);
    for (uint32_t k = pick(6); k > 0 && n > 4; k--) {
        size_t at = (with_header && pick(8) ? sizeof header - 1 : 0);
        if (at >= n) continue;
        at += pick((uint32_t)(n - at));
        switch (pick(5)) {
        case 0: out[at] = spice[pick(sizeof spice - 1)]; break;
        case 1: /* one more */
            memmove(out + at + 1, out + at, n - at);
            out[at] = spice[pick(sizeof spice - 1)];
            n++;
            break;
        case 2: /* some less */ {
            size_t less = 1 + pick(5);
            if (at + less > n) less = n - at;
            memmove(out + at, out + at + less, n - at - less);
            n -= less;
            break;
        }
        case 3: n = at; break;
        default: out[at] ^= (char)(1 << pick(8)); break;
        }
    }
    return n;
}

/* Everything that is seen of a run. */
static char *all_of(const RtModel *m, const char *path, RtReaderOptions o, uint64_t *good_rows,
                    uint64_t *bad_rows) {
    char err[1200] = "";
    Text t = {0};
    say(&t, "%s", "");
    o.paths = &path;
    o.n_paths = 1;
    *good_rows = *bad_rows = 0;
    RtReader *r = rt_reader_open(m, &o, err, sizeof err);
    RtBatch *b;
    int got = -1;
    while (r && (got = rt_reader_next(r, &b, err, sizeof err)) == 1) {
        for (uint32_t k = 0; k < b->rows; k++) {
            say(&t, "%d: ", (int)b->row_line[k]);
            say_row(&t, m, b, k);
        }
        *good_rows += b->rows;
        rt_reader_release(r, b);
    }
    if (r) *bad_rows = rt_reader_bad_rows(r);
    if (got < 0) say(&t, "%s\n", err);
    if (r && rt_reader_first_bad(r)) say(&t, "first: %s\n", rt_reader_first_bad(r));
    rt_reader_close(r);
    return t.s;
}

/* Rows, counted by a splitter written for nothing but being simple. blank: lines without anything are rows. */
static uint64_t count_records(const char *p, size_t n, bool quotes, bool blank) {
    uint64_t records = 0;
    size_t i = n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3) ? 3 : 0;
    while (i < n) {
        size_t begin = i;
        bool field = true;
        while (i < n && p[i] != '\n') {
            if (quotes && field && p[i] == '"') {
                for (i++; i < n; i++) {
                    if (p[i] != '"') continue;
                    if (i + 1 < n && p[i + 1] == '"')
                        i++;
                    else
                        break;
                }
                if (i < n) i++;
                field = false;
                continue;
            }
            field = p[i++] == ',';
        }
        size_t end = i;
        if (end > begin && p[end - 1] == '\r') end--;
        while (end > begin && p[begin] == ' ') begin++;
        records += blank || end > begin;
        i++;
    }
    return records;
}

static void fuzz(const Describe *d, bool with_header, bool quotes) {
    RtModel *m = model_of(d);
    static char log[1 << 18];
    for (int round = 0; round < 400; round++) {
        size_t n =
            make_log(log, with_header, pick(20) ? pick(40) : 3000); /* now and then more than a window */
        write_bytes("fuzz", log, n);
        RtReaderOptions o = options(RT_TRAIN, NULL, 0);
        o.batch = 1 + pick(9);
        o.bad = pick(4) ? RT_BAD_SKIP : RT_BAD_FAIL;
        o.bad_path = "fuzz_bad";
        o.threads = 1;
        uint64_t read, bad, again_read, again_bad;
        char *want = all_of(m, "fuzz", o, &read, &bad);
        o.threads = 3;
        char *got = all_of(m, "fuzz", o, &again_read, &again_bad);
        if (strcmp(got, want)) fail_msg("round %d: threads differ:\n%s----\n%s", round, want, got);
        bool whole = o.bad == RT_BAD_SKIP && !strstr(want, "missing from the header") &&
                     !strstr(want, "twice in the header") && !strstr(want, "UTF-16") &&
                     !strstr(want, "carriage return alone");
        uint64_t records = count_records(log, n, quotes, false);
        if (with_header && records) records--;
        if (whole && read + bad != records)
            fail_msg("round %d: %d rows read, %d bad, of %d:\n%.*s", round, (int)read, (int)bad, (int)records,
                     (int)n, log);
        if (whole && bad) { /* the lines that were bad are bad by themselves */
            char *lines = read_text("fuzz_bad");
            write_text("fuzz_again", lines);
            if (!memchr(log, 0, n)) { /* read_text ends at a NUL */
                free(got);
                got = all_of(m, "fuzz_again", o, &again_read, &again_bad);
                if (again_read || again_bad != bad)
                    fail_msg("round %d: %d bad rows, again %d and %d read:\n%s", round, (int)bad,
                             (int)again_bad, (int)again_read, lines);
            }
            free(lines);
        }
        free(got);
        free(want);
    }
    rt_model_free(m);
}

static void test_csv(void **state) {
    (void)state;
    Describe d = FUZZED(",'missing':['?','NULL']");
    fuzz(&d, false, true);
}

static void test_csv_with_header(void **state) {
    (void)state;
    Describe d = FUZZED(",'header':true");
    fuzz(&d, true, true);
}

static void test_without_quotes(void **state) {
    (void)state;
    Describe d = FUZZED(",'quote':''");
    fuzz(&d, false, false);
}

/* A second file beside: no matter what, rows stay in step or an error says otherwise. */
static void test_beside(void **state) {
    (void)state;
    Describe d = {
        .input = ",'beside':'_neg'",
        .columns = COL("a", "string", "") "," COL("b", "float", ",'side':1"),
        .features = HASH(C(0), -1, 100) "," VALUE(C(1), -1),
        .inputs = AS("id", 0) "," AS("f32", 1),
    };
    RtModel *m = model_of(&d);
    static char log[2][4096];
    for (int round = 0; round < 400; round++) {
        size_t n[2] = {0, 0};
        for (int side = 0; side < 2; side++) {
            for (uint32_t i = 0; i < 20; i++)
                n[side] += (size_t)sprintf(log[side] + n[side], pick(4) ? "%u\n" : "\"%u\"\r\n", i);
            for (uint32_t k = pick(3); k > 0; k--) log[side][pick((uint32_t)n[side])] = "\"\n,1"[pick(4)];
            write_bytes(side ? "fuzz_neg" : "fuzz", log[side], n[side]);
        }
        RtReaderOptions o = options(RT_TRAIN, NULL, 0);
        o.bad = RT_BAD_SKIP;
        uint64_t read, bad;
        o.threads = 1;
        char *want = all_of(m, "fuzz", o, &read, &bad);
        o.threads = 2;
        char *got = all_of(m, "fuzz", o, &read, &bad);
        assert_string_equal(got, want);
        /* in a pair a line of the one string may be empty, one of the one number not */
        uint64_t records[2] = {count_records(log[0], n[0], true, true),
                               count_records(log[1], n[1], true, false)};
        bool complains = strstr(got, "has another");
        if ((records[0] != records[1]) != complains)
            fail_msg("round %d: %d and %d rows: %s", round, (int)records[0], (int)records[1], got);
        if (!complains) assert_int_equal(read + bad, records[0]);
        free(got);
        free(want);
    }
    rt_model_free(m);
}

static void test_compressed(void **state) {
    (void)state;
    Describe d = FUZZED("");
    RtModel *m = model_of(&d);
    static char log[1 << 16];
    static uint8_t z[1 << 16];
    for (int round = 0; round < 300; round++) {
        z_stream s = {0};
        size_t n = make_log(log, false, 30);
        deflateInit2(&s, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
        s.next_in = (Bytef *)log;
        s.avail_in = (uInt)n;
        s.next_out = z;
        s.avail_out = sizeof z;
        deflate(&s, Z_FINISH);
        deflateEnd(&s);
        n = s.total_out;
        for (uint32_t k = pick(3); k > 0; k--) z[pick((uint32_t)n)] ^= (uint8_t)(1 << pick(8));
        if (pick(2)) n = pick((uint32_t)n);
        write_bytes("fuzz.gz", z, n);
        RtReaderOptions o = options(RT_TRAIN, NULL, 0);
        o.bad = RT_BAD_SKIP;
        uint64_t read, bad;
        char *want = all_of(m, "fuzz.gz", o, &read, &bad), *got = all_of(m, "fuzz.gz", o, &read, &bad);
        assert_string_equal(got, want);
        free(got);
        free(want);
    }
    rt_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_csv_with_header),
        cmocka_unit_test(test_without_quotes),
        cmocka_unit_test(test_beside),
        cmocka_unit_test(test_compressed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    leave_directory();
    return failed;
}
