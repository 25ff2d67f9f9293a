/* Fields to values: kinds of columns, empty values, lists, quotes, line ends, each kind of feature. */
#include "reader_fixture.h"
#include <xxhash.h>

/* label, float with a default, int */
static const Describe numbers = {
    .columns = LABEL("y", "") "," COL("x", "float", ",'default':0.5") "," COL("n", "int", ""),
    .features = VALUE(C(0), -1) "," VALUE(C(1), -1) "," FEATURE("number", C(2), "f32", -1, ""),
    .inputs = AS("f32", 0) "," AS("f32", 1) "," AS("f32", 2),
};

/* Strings become their places in this vocabulary, unknown ones 99. */
static const char words[] = "a\nb\nc\nab\na b\na,b\na\"b\na\nb;c\nx\x01z\n";
enum { A, B, C_, AB, A_SPACE_B, A_COMMA_B, A_QUOTE_B, A_AGAIN };
static const RtBlob blob = {(rt_ptr)words, sizeof words - 1};
#define VOCAB(in, axis, more) FEATURE("vocab", in, "id", axis, ",'bound':100,'vocab':0,'unknown':99" more)
#define WORDS "{'path':null,'n':10,'digest':'00'}"

/* two strings, a list of strings, a list of numbers */
#define TEXTS(in)                                                                                            \
    {                                                                                                        \
        .input = in, .axes = AXIS("l", "") "," AXIS("m", ""), .vocabs = WORDS, .blobs = &blob,               \
        .columns = COL("s", "string", "") "," COL("t", "string", ",'default':'b'") "," LIST(                 \
            "l", "string", ";", 0, "") "," LIST("m", "float", ";", 1, ",'default':7"),                       \
        .features = VOCAB(C(0), -1, "") "," VOCAB(C(1), -1, "") "," VOCAB(C(2), 0, "") "," VALUE(C(3), 1),   \
        .inputs = AS("id", 0) "," AS("id", 1) "," AS("id", 2) "," AS("f32", 3),                              \
    }

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
    expect_rows(&numbers,
                "\xef\xbb\xbf"
                "1,2,3\n0,4,5\n",
                want);
}

static void test_strings_and_lists(void **state) {
    (void)state;
    Describe d = TEXTS(NULL);
    expect_rows(&d, "a,b,a;b;c,1;2\n", "0 1 [0 1 2] [1 2]\n");
    expect_rows(&d, "zzz,ab,a,3\n", "99 3 [0] [3]\n");
    /* no value; the default; an empty field is an empty list, whatever the default */
    expect_rows(&d, ",,,\n", "- 1 [] []\n");
    expect_rows(&d, " , , , \n", "- 1 [] []\n");
    /* empty elements: strings are left out, numbers get the default */
    expect_rows(&d, "a,a,;a;;b;,;5;\n", "0 0 [0 1] [7 5 7]\n");
    /* blanks around fields and elements */
    expect_rows(&d, "  a\t, b ,\ta ; b,  1 ; 2 \n", "0 1 [0 1] [1 2]\n");
    /* other bytes pass: a quote inside, control bytes */
    expect_rows(&d, "a\"b,x\x01z,a b;a\"b,1\n", "6 9 [4 6] [1]\n");
}

static void test_long_lists(void **state) {
    (void)state;
    Describe d = TEXTS(NULL);
    for (int n = 1; n < 300; n = n * 3 / 2 + 1) {
        Text text = {0}, want = {0};
        for (int row = 0; row < 5; row++) {
            say(&text, "a,b,");
            say(&want, "0 1 [");
            for (int i = 0; i < n + row; i++) {
                say(&text, i ? ";%s" : "%s", i % 3 ? "b" : "c");
                say(&want, i ? " %d" : "%d", i % 3 ? 1 : 2);
            }
            say(&text, ",");
            say(&want, "] [");
            for (int i = 0; i < 2 * n; i++) {
                say(&text, i ? ";%d.5" : "%d.5", i);
                say(&want, i ? " %d.5" : "%d.5", i);
            }
            say(&text, "\n");
            say(&want, "]\n");
        }
        expect_rows(&d, text.s, want.s);
        free(text.s);
        free(want.s);
    }
}

static void test_trim_off(void **state) {
    (void)state;
    Describe d = TEXTS(",'trim':false");
    expect_rows(&d, "a b, b,a; b,1\n", "4 99 [0 99] [1]\n");
    expect_rows(&d, " ,\t, ,1\n", "99 99 [99] [1]\n");
    expect_error(&d, "a,b,a, 1\n",
                 "data.csv:1:7: error: expected a number for column 'm', found ' 1'\n"
                 "hint: trim = true in the input's brackets takes blanks away\n");
}

static void test_missing_texts(void **state) {
    (void)state;
    Describe d = TEXTS(",'missing':['?','NULL']");
    expect_rows(&d, "?,NULL,?,NULL\n", "- 1 [] []\n");
    expect_rows(&d, " ? ,?,a;?;NULL;b,1;?;2\n", "- 1 [0 1] [1 7 2]\n");
    expect_rows(&d, "??,NULLS,N,1\n", "99 99 [99] [1]\n");
    expect_rows(&d, "\"?\",a,a,1\n", "- 0 [0] [1]\n"); /* quoted or not */
}

static void test_quotes(void **state) {
    (void)state;
    Describe d = TEXTS(NULL);
    expect_rows(&d, "\"a\",\"b\",\"a;b\",\"1;2\"\n", "0 1 [0 1] [1 2]\n");
    expect_rows(&d, "\"a,b\",\"a\"\"b\",\"a,b;a\"\"b\",1\n", "5 6 [5 6] [1]\n");
    expect_rows(&d, "\"\",\"\",\"\",\"\"\n", "- 1 [] []\n");
    expect_rows(&d, "\"a\",b,a,\"1\"\r\nb,b,b,2\r\n", "0 1 [0] [1]\n1 1 [1] [2]\n");
    expect_rows(&d, "\"a\",b,a,\"1\"", "0 1 [0] [1]\n");
    /* lines inside: the next rows are in step */
    expect_rows(&d, "\"x\ny\n\nz\",b,\"a;\nb\",1\na,a,a,2\n", "99 1 [0 99] [1]\n0 0 [0] [2]\n");
    /* a quote that isn't a field's first byte is text */
    expect_rows(&d, "a\"b,a,a,1\nb, \"b,c,2\n", "6 0 [0] [1]\n1 99 [2] [2]\n");
    expect_rows(&d, "x\"\"y,\"\"\"\",a,1\n", "99 99 [0] [1]\n");
}

static void test_quote_none(void **state) {
    (void)state;
    Describe d = TEXTS(",'quote':'','separator':'\\t'");
    expect_rows(&d, "\"a\tb\ta;b\t1\na\t\"\t\t2\n", "99 1 [0 1] [1]\n0 99 [] [2]\n");
}

static void test_long_quoted_field(void **state) {
    (void)state;
    Describe d = TEXTS(NULL);
    size_t n = 3 << 20, at = 0; /* longer than a block, with separators and line ends inside */
    char *text = malloc(n + 100);
    at += (size_t)sprintf(text, "a,b,c,1\n\"");
    for (size_t i = 0; i < n; i++) text[at++] = "ab,\n;\"\""[i % 7];
    while (text[at - 1] == '"') at--;
    at += (size_t)sprintf(text + at, "\",b,c,1\nb,a,a;b,2");
    write_bytes("data.csv", text, at);
    expect_rows_of(&d, RT_TRAIN, "data.csv", "0 1 [2] [1]\n99 1 [2] [1]\n1 0 [0 1] [2]\n");
    free(text);
}

/* Windows and blocks end anywhere: within fields, quotes, line ends. */
static void test_many_blocks(void **state) {
    (void)state;
    Describe d = TEXTS(NULL);
    Text text = {0}, want = {0};
    unsigned seed = 1;
    for (int i = 0; i < 150000; i++) {
        static const char *const field[] = {"a",       "\"b\"",      "c", "\"a\"\"b\"",
                                            "\"a,b\"", "\"a\nb;c\"", "",  "  ab\t"},
                                 *const id[] = {"0", "1", "2", "6", "5", "99", "-", "3"};
        static const char *const end[] = {"\n", "\r\n", "\n\n", "\r\n \n"};
        seed = seed * 1103515245 + 12345;
        unsigned s = seed >> 8 & 7, n = seed >> 16 & 3;
        say(&text, "%s,,\"%.*s\",%d%s", field[s], 2 * (int)n, "a;b;c;", i, end[seed >> 20 & 3]);
        static const char *const list[] = {"", "0", "0 1", "0 1 2"};
        say(&want, "%s 1 [%s] [%d]\n", id[s], list[n], i);
    }
    write_bytes("data.csv", text.s, text.n);
    expect_rows_of(&d, RT_TRAIN, "data.csv", want.s);
    free(text.s);
    free(want.s);
}

/* Any byte may separate a list, the fields' separator too where the list is quoted. */
static void test_list_separators(void **state) {
    (void)state;
    Describe d = {
        .axes = AXIS("l", "") "," AXIS("m", "") "," AXIS("n", ""),
        .vocabs = WORDS,
        .blobs = &blob,
        .columns = LIST("l", "string", "\\u0002", 0, "") "," LIST("m", "string", " ", 1,
                                                                  "") "," LIST("n", "float", ",", 2, ""),
        .features = VOCAB(C(0), 0, "") "," VOCAB(C(1), 1, "") "," VALUE(C(2), 2),
        .inputs = AS("id", 0) "," AS("id", 1) "," AS("f32", 2),
    };
    expect_rows(&d,
                "a\x02"
                "b,a b  c ,\"1,2,3\"\n",
                "[0 1] [0 1 2] [1 2 3]\n");
    expect_rows(&d, "a;b,a;b,1\n", "[99] [99] [1]\n");
    Describe many = {
        /* more separators than the index has room for */
        .columns = LIST("a", "float", "a", 0, "") "," LIST("b", "float", "b", 1, "") "," LIST(
            "c", "float", "c", 2,
            "") "," LIST("d", "float", "d", 3,
                         "") "," LIST("e", "float", "f", 4,
                                      "") "," LIST("f", "float", "g", 5,
                                                   "") "," LIST("g", "float", "h", 6,
                                                                "") "," LIST("h", "float", "i", 7, ""),
        .axes = AXIS("a", "") "," AXIS("b", "") "," AXIS("c", "") "," AXIS("d", "") "," AXIS(
            "e", "") "," AXIS("f", "") "," AXIS("g", "") "," AXIS("h", ""),
        .features = VALUE(C(0), 0) "," VALUE(C(6), 6) "," VALUE(C(7), 7),
        .inputs = AS("f32", 0) "," AS("f32", 1) "," AS("f32", 2),
    };
    expect_rows(&many, "1a2,3b4,5,6,7,8,8h9,10i11i12\n,,,,,,,\n", "[1 2] [8 9] [10 11 12]\n[] [] []\n");
}

static void test_labels(void **state) {
    (void)state;
    Describe d = {
        .columns = LABEL("y", ",'positive':'yes'") "," LABEL(
            "z", ",'positive':'>50K','negative':'<=50K','default':1"),
        .features = VALUE(C(0), -1) "," VALUE(C(1), -1),
        .inputs = AS("f32", 0) "," AS("f32", 1),
    };
    expect_rows(&d, "yes,>50K\nno,<=50K\nmaybe, >50K \nYES,\n", "1 1\n0 0\n0 1\n0 1\n");
    Describe rating = {
        .columns = LABEL("y", ",'unit_label':false"), .features = VALUE(C(0), -1), .inputs = AS("f32", 0)};
    expect_rows(&rating, "4.5\n-3\n", "4.5\n-3\n");
}

/* ---- features ---- */

static void test_hash(void **state) {
    (void)state;
    Describe d = {
        .columns =
            COL("s", "string", "") "," COL("n", "int", ",'default':12") "," LIST("l", "string", ";", 0, ""),
        .axes = AXIS("l", ",'shared':true"),
        .features = HASH(C(0), -1, 1000) "," HASH(C(1), -1, 1000) "," HASH(C(2), 0, 1000) "," FEATURE(
            "hash", C(0), "id", -1, ",'bound':1000,'buckets':1000,'fn':'farm64'"),
        .inputs = AS("id", 0) "," AS("id", 1) "," AS("id", 2) "," AS("id", 3),
    };
    char want[200];
    unsigned s = XXH3_64bits("shop", 4) % 1000, twelve = XXH3_64bits("12", 2) % 1000,
             minus = XXH3_64bits("-7", 2) % 1000;
    unsigned x = XXH3_64bits("x", 1) % 1000, farm = 13009744463427800296u % 1000,
             hello = XXH3_64bits("hello", 5) % 1000;
    /* ints by their decimal text; an empty element of a shared axis keeps its place; no value, no id */
    snprintf(want, sizeof want, "%u %u [%u - %u] %u\n- %u [] -\n", hello, twelve, x, s, farm, minus);
    expect_rows(&d, "hello,+0012,x;;shop\n,-7,\n", want);
    snprintf(want, sizeof want, "%u %u [%u] %u\n", hello, twelve, x, farm);
    expect_rows(&d, " hello ,,\"x\"\n", want);
}

static void test_vocab(void **state) {
    (void)state;
    /* unknown values of a list are left out: the feature has an axis of its own */
    Describe d = {
        .columns = COL("s", "string", "") "," LIST("l", "string", ";", 0, "") "," COL("n", "int", ""),
        .axes = AXIS("l", "") ",{'name':'f','kind':'filter','parent':0,'max':0,'shared':false}",
        .features = FEATURE("vocab", C(0), "id", -1, ",'bound':10,'vocab':0,'unknown':-1") "," FEATURE(
            "vocab", C(1), "id", 1,
            ",'bound':10,'vocab':0,'unknown':-1") "," HASH(C(1), 0,
                                                           7) "," FEATURE("vocab", C(2), "id", -1,
                                                                          ",'bound':3,'vocab':1,'unknown':2"),
        .inputs = AS("id", 0) "," AS("id", 1) "," AS("id", 3),
        .vocabs = WORDS ",{'path':'n.txt','n':2,'digest':'00'}",
        .blobs = (RtBlob[]){blob, {(rt_ptr) "10\n-3\n", 6}},
    };
    expect_rows(&d, "a,a;nope;b;;c,10\nnope,nope,010\n,,-3\n", "0 [0 1 2] 0\n- [] 0\n- [] 1\n");
}

static void test_bucketize_and_identity(void **state) {
    (void)state;
    Describe d = {
        .columns = COL("x", "float", "") "," COL("n", "int", "") "," LIST("l", "int", ";", 0, ""),
        .axes = AXIS("l", ""),
        .features = FEATURE("bucketize", C(0), "id", -1, ",'bound':4,'bounds':[0.1,0.7,5]") "," FEATURE(
            "bucketize", C(1), "id", -1,
            ",'bound':3,'bounds':[-1,9007199254740992]") "," FEATURE("identity", C(1), "id", -1,
                                                                     ",'bound':10000000,'n':"
                                                                     "10000000") "," FEATURE("ident"
                                                                                             "ity",
                                                                                             C(2), "id", 0,
                                                                                             ",'"
                                                                                             "bound"
                                                                                             "':5,'"
                                                                                             "n':"
                                                                                             "5"),
        .inputs = AS("id", 0) "," AS("id", 1) "," AS("id", 3),
    };
    /* a bound is reached by the same text: 0.7 in 32 bits is below 0.7 in 64 */
    expect_rows(&d, "0.09,5,0;4\n0.1,0,\n0.7,1,1;2;3\n4.9,2,\n5,3,\n-1e9,4,\n",
                "0 1 [0 4]\n1 1 []\n2 1 [1 2 3]\n2 1 []\n3 1 []\n0 1 []\n");
}

/* An id moved along; none stays none, and so is what comes below 0 or to the bound. */
static void test_offset(void **state) {
    (void)state;
#define MOVED(more) "," FEATURE("offset", F(2), "id", 0, more)
    Describe d = {
        .columns = COL("n", "string", "") "," LIST("l", "int", ";", 0, ""),
        .axes = AXIS("l", ""),
        .features = FEATURE("vocab", C(0), "id", -1, ",'bound':100,'vocab':0,'unknown':-1") "," FEATURE("offset", F(0), "id", -1, ",'bound':1000,'by':7") "," FEATURE(
            "identity", C(1), "id", 0,
            ",'bound':5,'n':5")
            MOVED(",'bound':4294967295,'by':4294967290") MOVED(",'bound':2,'by':-2"),
        .inputs = AS("id", 0) "," AS("id", 1) "," AS("id", 3) "," AS("id", 4),
        .vocabs = WORDS,
        .blobs = &blob,
    };
    expect_rows(&d, "b,0;4\nnope,1;2;3\n",
                "1 8 [4294967290 4294967294] [- -]\n- - [4294967291 4294967292 4294967293] [- 0 1]\n");
}

static void test_cross_and_key(void **state) {
    (void)state;
    Describe d = {
        .columns = COL("s", "string", "") "," COL("n", "int", "") "," LIST("l", "string", ";", 0, ""),
        .axes = AXIS("l", ",'shared':true"),
        .features =
            VOCAB(C(0), -1, "") "," FEATURE("cross", C(0) "," C(1), "id", -1, ",'bound':1000,'buckets':1000") "," FEATURE(
                "cross", F(0) "," C(2), "id", 0,
                ",'bound':1000,'buckets':1000") "," FEATURE("key", C(0), "key", -1,
                                                            "") "," FEATURE("key", C(1), "key", -1, ""),
        .inputs = AS("id", 1) "," AS("id", 2) "," AS("key", 3) "," AS("key", 4),
        .vocabs = WORDS,
        .blobs = &blob,
    };
    uint64_t b = XXH3_64bits("b", 1), seven = XXH3_64bits("7", 1), x = XXH3_64bits("x", 1),
             nothing = XXH3_64bits("", 0);
    uint64_t pair[2] = {b, seven}, with_id[2] = {1, x};
    char want[300];
    snprintf(want, sizeof want, "%u [%u - %u] %016llx %016llx\n- [- -] %016llx %016llx\n",
             (unsigned)(XXH3_64bits(pair, 16) % 1000), (unsigned)(XXH3_64bits(with_id, 16) % 1000),
             (unsigned)(XXH3_64bits(with_id, 16) % 1000), (unsigned long long)b, (unsigned long long)seven,
             (unsigned long long)nothing, (unsigned long long)seven);
    expect_rows(&d, "b,7,x;;x\n,07,x;x\n", want);
}

static void test_axes(void **state) {
    (void)state;
    /* max 3 of a shared axis; the last 2 of those; the first 2 of a list of its own */
    Describe d = {
        .columns = LIST("a", "string", ";", 0, "") "," LIST("b", "int", ";", 0, "") "," LIST("c", "float",
                                                                                             ";", 1, ""),
        .axes = AXIS("h", ",'max':3,'shared':true") "," AXIS(
            "c", "") ",{'name':'h2','kind':'last','parent':0,'max':2,'shared':true},"
                     "{'name':'c2','kind':'first','parent':1,'max':2,'shared':false}",
        .features = VOCAB(C(0), 0, "") "," FEATURE("truncate", C(0), "str", 2, ",'n':2") "," VOCAB(
            F(1), 2, "") "," FEATURE("truncate", C(1), "int", 2,
                                     ",'n':2") "," FEATURE("number", F(3), "f32", 2,
                                                           "") "," FEATURE("truncate", C(2), "f32", 3,
                                                                           ",'n':2"),
        .inputs = AS("id", 0) "," AS("id", 2) "," AS("f32", 4) "," AS("f32", 5),
        .vocabs = WORDS,
        .blobs = &blob,
    };
    expect_rows(&d, "a;b;c;ab;a,1;2;3;4;5,6\na,1,1;2;3\n,,\n",
                "[0 1 2] [1 2] [2 3] [6]\n[0] [0] [1] [1 2]\n[] [] [] []\n");
    /* elements beyond max aren't looked at, but they count */
    expect_rows(&d, "a;b;c;ab,1;2;3;nonsense,\n", "[0 1 2] [1 2] [2 3] []\n");
}

/* Positions count what remains: of a list with a max, of its last two, of what a vocabulary knows; and of each with
 * one more, whose offsets nothing but the number of rows tells from the list's. */
static void test_positions(void **state) {
    (void)state;
#define POSITIONS(in, axis) FEATURE("positions", in, "id", axis, ",'bound':9")
#define DERIVED(name, kind, parent, max)                                                                     \
    ",{'name':'" name "','kind':'" kind "','parent':" #parent ",'max':" #max ",'shared':false}"
    Describe d = {
        .columns = LIST("a", "string", ";", 0, ""),
        .axes = AXIS("h", ",'max':4") DERIVED("two", "last", 0, 2) DERIVED("known", "filter", 0, 0)
            DERIVED("more", "append", 0, 5) DERIVED("two_more", "append", 1, 3) DERIVED("known_more", "append", 2, 5)
                DERIVED("more_more", "append", 3, 6),
        .features = FEATURE("vocab", C(0), "id", 2, ",'bound':3,'vocab':0,'unknown':-1") "," POSITIONS(
            C(0), 0) "," POSITIONS(C(0), 1) "," POSITIONS(F(0), 2) "," POSITIONS(C(0), 3) "," POSITIONS(C(0), 4) ","
            POSITIONS(F(0), 5) "," POSITIONS(C(0), 6),
        .inputs = AS("id", 1) "," AS("id", 2) "," AS("id", 3) "," AS("id", 4) "," AS("id", 5) "," AS("id", 6) ","
            AS("id", 7),
        .vocabs = WORDS,
        .blobs = &blob,
    };
    expect_rows(&d, "a;x;b;c;c\nx\n\"\"\nb\n",
                "[0 1 2 3] [0 1] [0 1 2] [0 1 2 3 4] [0 1 2] [0 1 2 3] [0 1 2 3 4 5]\n"
                "[0] [0] [] [0 1] [0 1] [0] [0 1 2]\n"
                "[] [] [] [0] [0] [0] [0 1]\n"
                "[0] [0] [0] [0 1] [0 1] [0 1] [0 1 2]\n");
}

static void test_svm(void **state) {
    (void)state;
    Describe d = SVM;
    expect_rows(&d, "1 3:0.5 7:1\n0\n\n \n 0  5:2\t6:3  \r\n1 1:1 # note: 2:2\n# all of it\n",
                "1 [3 7] [0.5 1]\n0 [] []\n0 [5 6] [2 3]\n1 [1] [1]\n");
    Describe ffm = {
        .input = ",'format':'libffm'",
        .columns = LABEL("y", "") "," LIST("f", "int", " ", 0, "") "," LIST(
            "i", "string", " ", 0, "") "," LIST("v", "float", " ", 0, ",'default':1"),
        .axes = AXIS("h", ",'shared':true"),
        .features = VALUE(C(0), -1) "," FEATURE("identity", C(1), "id", 0, ",'bound':100,'n':100") "," VOCAB(
            C(2), 0, "") "," VALUE(C(3), 0),
        .inputs = AS("f32", 0) "," AS("id", 1) "," AS("id", 2) "," AS("f32", 3),
        .vocabs = WORDS,
        .blobs = &blob,
    };
    expect_rows(&ffm, "1 0:a:0.5 12:c:1\n0 3:zz:\n", "1 [0 12] [0 2] [0.5 1]\n0 [3] [99] [1]\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_line_ends),
        cmocka_unit_test(test_strings_and_lists),
        cmocka_unit_test(test_long_lists),
        cmocka_unit_test(test_trim_off),
        cmocka_unit_test(test_missing_texts),
        cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_quote_none),
        cmocka_unit_test(test_long_quoted_field),
        cmocka_unit_test(test_list_separators),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_vocab),
        cmocka_unit_test(test_bucketize_and_identity), cmocka_unit_test(test_offset),
        cmocka_unit_test(test_cross_and_key),
        cmocka_unit_test(test_axes), cmocka_unit_test(test_positions),
        cmocka_unit_test(test_svm),
        cmocka_unit_test(test_many_blocks),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    leave_directory();
    return failed;
}
