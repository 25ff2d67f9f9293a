/* Rows by the short way (the grid and its lanes) against the same rows by the long one, bit for bit, messages
 * included; and floats made in lanes against strtof. Where the CPU has no short way there is nothing to
 * compare. CTRC_RANDOM_SEED=n: other logs. */
#include "reader_fixture.h"
#include "runtime/reader_parse.h"
#include "runtime/vocab_table.h"

static uint64_t seed = 0x9e3779b97f4a7c15u;
static uint64_t next(void) { /* xorshift64 */
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}
static uint32_t pick(uint32_t n) { return (uint32_t)(next() >> 33) % n; }

/* ---- a log by two parsers ---- */

static RtRows *parse(const RtPlan *plan, RtBadRows bad, const Text *log, bool direct, uint64_t *n_direct) {
    RtFile file = {.name = {"rows", "rows"}};
    RtFiles files = {.file = &file, .n = 1, .cap = 1};
    RtBlock block = {.text = {calloc(log->n + RT_PAD, 1)}, .bytes = {log->n}, .line = {1}};
    assert_non_null(memcpy(block.text[0], log->s, log->n));
    RtParser *p = rt_parser_new(plan, &files, bad, NULL);
    p->direct = p->direct && direct;
    RtRows *rows = rt_rows_new();
    rt_rows_clear(rows);
    rt_parse_block(p, &block, rows);
    *n_direct += p->n_direct;
    rt_parser_free(p);
    free(block.text[0]);
    return rows;
}

static void show(const RtRows *a, const RtRows *b, const Text *log) {
    uint32_t i = 0;
    while (i < a->n && i < b->n && a->line[i] == b->line[i] && a->at[i + 1] == b->at[i + 1] &&
           !memcmp(a->word + a->at[i], b->word + a->at[i], 4 * (size_t)(a->at[i + 1] - a->at[i])))
        i++;
    fail_msg("row %u differs; %u and %u rows, %llu and %llu bad, '%s' and '%s'\n%.4000s", i, a->n, b->n,
             (unsigned long long)a->n_bad, (unsigned long long)b->n_bad, a->n_bad ? a->error.text : "",
             b->n_bad ? b->error.text : "", log->s);
}

/* How many rows went the short way. */
static uint64_t compare(const RtModel *m, RtBadRows bad, const Text *log) {
    RtMessage err;
    RtPlan *plan = rt_plan_new(m, RT_TRAIN, &err);
    assert_non_null(plan);
    uint64_t directly = 0, none = 0;
    RtRows *a = parse(plan, bad, log, true, &directly), *b = parse(plan, bad, log, false, &none);
    assert_int_equal(none, 0);
    bool same = a->n == b->n && a->words == b->words && a->n_bad == b->n_bad && a->failed == b->failed &&
                !memcmp(a->word, b->word, a->words * 4) && !memcmp(a->at, b->at, ((size_t)a->n + 1) * 4) &&
                !memcmp(a->line, b->line, (size_t)a->n * 4) && a->bad_bytes[0] == b->bad_bytes[0] &&
                (!a->n_bad || !strcmp(a->error.text, b->error.text));
    if (!same) show(a, b, log);
    rt_rows_free(a);
    rt_rows_free(b);
    rt_plan_free(plan);
    return directly;
}

/* ---- random logs ---- */

static const RtBlob blob = {(rt_ptr) "a\nlunch\nbreakfast\n0123456789abcdef\n", 35};
// clang-format off
#define COLUMNS(sep2)                                                                                        \
    LABEL("y", "") ","                                                                                       \
    COL("s", "string", "") ","                                                                               \
    COL("x", "float", ",'default':1.5") ","                                                                  \
    LIST("l", "string", ";", 0, "") ","                                                                      \
    COL("t", "string", ",'default':'none'") ","                                                              \
    LIST("m", "float", sep2, 1, ",'default':2") ","                                                          \
    COL("n", "int", "") ","                                                                                  \
    COL("u", "skip", "") ","                                                                                 \
    LIST("e", "float", ";", 3, ",'default':7") ","                                                           \
    COL("z", "float", ",'default':0") ","                                                                    \
    LIST("k", "string", ";", 2, "")
#define VOCAB(in, axis) FEATURE("vocab", in, "id", axis, ",'bound':4,'vocab':0,'unknown':-1")
#define FEATURES                                                                                             \
    HASH(C(1), -1, 1000) ","      /* in lanes together, */                                                   \
    HASH(C(3), 0, 1000) ","                                                                                  \
    HASH(C(4), -1, 1000) ","                                                                                 \
    HASH(C(10), 2, 1000) ","                                                                                 \
    VALUE(C(2), -1) ","           /* these, */                                                               \
    VALUE(C(5), 1) ","                                                                                       \
    VALUE(C(9), -1) ","                                                                                      \
    HASH(C(3), 0, 2147483648) "," /* these, each modulo its own */                                           \
    HASH(C(1), -1, 1) ","                                                                                    \
    HASH(C(10), 2, 97) ","                                                                                   \
    FEATURE("identity", C(6), "id", -1, ",'bound':1000,'n':1000") ","                                        \
    VALUE(C(0), -1) ","                                                                                      \
    VOCAB(C(3), 0) ","                                                                                       \
    VOCAB(C(4), -1) ","                                                                                      \
    FEATURE("key", C(1), "key", -1, "") ","                                                                  \
    FEATURE("bucketize", C(8), "id", 3, ",'bound':4,'bounds':[0,1,2]")
#define INPUTS                                                                                               \
    AS("id", 0) "," AS("id", 1) "," AS("id", 2) "," AS("id", 3) "," AS("f32", 4) "," AS("f32", 5) ","        \
    AS("f32", 6) "," AS("id", 7) "," AS("id", 8) "," AS("id", 9) "," AS("id", 10) "," AS("f32", 11) ","      \
    AS("id", 12) "," AS("id", 13) "," AS("key", 14) "," AS("id", 15)
#define AXES                                                                                                 \
    AXIS("l", "") "," AXIS("m", ",'max':3,'shared':true") "," AXIS("k", ",'max':5") "," AXIS("e", "")
// clang-format on
#define MIXED(in, sep2)                                                                                      \
    {                                                                                                        \
        .input = in, .columns = COLUMNS(sep2), .features = FEATURES, .inputs = INPUTS, .axes = AXES,         \
        .vocabs = "{'path':null,'n':4,'digest':'00'}", .blobs = &blob                                        \
    }

typedef struct {
    char separator, list2;
    bool quotes, returns; /* fields may be quoted; lines end in \r\n */
    uint32_t odd;         /* one in so many values is */
} Kind;

static void put_text(Text *t) {
    static const uint8_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 40};
    static const char *const known[] = {"a", "lunch", "breakfast", "0123456789abcdef", "lunch0", "lunc"};
    if (!pick(4)) {
        say(t, "%s", known[pick(6)]);
        return;
    }
    for (uint32_t n = sizes[pick(sizeof sizes)]; n > 0; n--)
        say(t, "%c", "abcXYZ0189_-.:\xc3\xff#"[pick(17)]);
}
static void put_number(Text *t) {
    switch (pick(9)) {
    case 0: say(t, "%u", pick(10)); break;
    case 1: say(t, "%.1f", pick(1000) / 10.0); break;
    case 2: say(t, "-%.3f", pick(9999) / 1000.0); break;
    case 3: say(t, "%u", pick(200000000)); break;
    case 4: say(t, "%.9g", (double)next() / 1e12); break;
    case 5: say(t, "%ue-%u", pick(100), pick(9)); break;
    case 6: say(t, "%.12f", pick(1000000) / 1e6); break;
    case 7: say(t, ".%u", pick(1000000)); break;
    default: say(t, "%u.", pick(1000000));
    }
}
static void put_odd(Text *t) {
    static const char *const odd[] = {"",     "",   "",    "?",  " a", "b ",  " ", "\tc", "\"",
                                      "a\"b", "?x", "x y", "1 ", "+1", "nan", "-", ".",   "\r"};
    say(t, "%s", odd[pick(sizeof odd / sizeof *odd)]);
}
static void put_value(Text *t, const Kind *k, bool number) {
    if (!pick(k->odd))
        put_odd(t);
    else if (number)
        put_number(t);
    else
        put_text(t);
}
static void put_field(Text *t, const Kind *k, bool number, char list) {
    bool quoted = k->quotes && !pick(3);
    if (quoted) say(t, "\"");
    for (uint32_t n = list ? pick(pick(20) ? 9 : 60) : 0;; n--) {
        put_value(t, k, number);
        if (quoted && !pick(20)) say(t, "%s", (const char *[]){"\"\"", ",", "\n", "\""}[pick(4)]);
        if (!n) break;
        say(t, "%c", list);
    }
    if (quoted) say(t, "\"");
}
static void put_row(Text *t, const Kind *k) {
    static const char lists[] = "\0\0\0;\0m\0\0;\0;";
    for (int f = 0; f < 11; f++) {
        if (f) say(t, "%c", k->separator);
        if (f == 0 || f == 6)
            say(t, "%u", f ? pick(1005) : pick(60) ? pick(2) : 2);
        else
            put_field(t, k, f == 2 || f == 5 || f == 8 || f == 9, lists[f] == 'm' ? k->list2 : lists[f]);
    }
    if (!pick(60)) say(t, "%c%s", k->separator, pick(2) ? "" : "more");
    say(t, k->returns ? "\r\n" : "\n");
    if (!pick(40)) say(t, "%s\n", pick(2) ? "" : " ");
}

static void test_both_ways(void **state) {
    (void)state;
    static const Kind kinds[] = {{',', ';', true, false, 1u << 30}, {',', ';', false, false, 1u << 30},
                                 {',', ';', true, true, 60},        {'\t', ';', false, false, 20},
                                 {',', '|', true, false, 40},       {',', ';', true, false, 300}};
    const Describe models[] = {MIXED(",'trim':false", ";"),
                               MIXED(",'quote':'','trim':false", ";"),
                               MIXED(",'missing':['?','NULL']", ";"),
                               MIXED(",'format':'tsv','separator':'\\t','quote':'','missing':['?']", ";"),
                               MIXED("", "|"),
                               MIXED("", ";")};
    uint64_t rows = 0, directly = 0;
    for (int k = 0; k < 6; k++) {
        RtModel *m = model_of(&models[k]);
        for (int i = 0; i < 60; i++) {
            Text log = {0};
            uint32_t n = 1 + pick(i % 10 ? 40 : 400); /* some of several windows */
            for (uint32_t r = 0; r < n; r++) put_row(&log, &kinds[k]);
            if (!pick(3)) log.s[--log.n - 1] = '\n'; /* a last line without its last byte */
            rows += n;
            directly += compare(m, (RtBadRows)(i % 3), &log);
            free(log.s);
        }
        rt_model_free(m);
    }
    if (!rt_is_v3()) return (void)printf("skipped: this CPU has no AVX2, the long way is the only one\n");
    if (directly < rows / 3)
        fail_msg("%llu of %llu rows went the short way", (unsigned long long)directly,
                 (unsigned long long)rows);
}

/* Rows that fill a window, or more than one, and such as end where it does. */
static void test_long_rows(void **state) {
    (void)state;
    const Describe d = MIXED(",'trim':false", ";");
    RtModel *m = model_of(&d);
    for (int i = 0; i < 200; i++) {
        Text log = {0};
        for (int r = 0; r < 4; r++) {
            say(&log, "1,s,2,");
            uint32_t bytes = r == i % 4 ? RT_GRID_BYTES - 64 + pick(128) : pick(300);
            for (uint32_t n = 0; n < bytes; n += 5) say(&log, "ab%c%c;", 'a' + pick(9), 'a' + pick(9));
            say(&log, "x,t,1;2,3,,k,4,5\n");
        }
        compare(m, RT_BAD_SKIP, &log);
        free(log.s);
    }
    rt_model_free(m);
}

/* Lanes are more than a row has places, where a list is hashed many times. */
static void test_many_lanes(void **state) {
    (void)state;
    const Describe d = {.input = ",'trim':false",
                        .columns = LIST("l", "string", ";", 0, ""),
                        .axes = AXIS("l", ""),
                        .features = HASH(C(0), 0, 10) "," HASH(C(0), 0, 11) "," HASH(C(0), 0, 12) "," HASH(
                            C(0), 0, 13) "," HASH(C(0), 0, 14) "," HASH(C(0), 0, 15),
                        .inputs = AS("id", 0) "," AS("id", 1) "," AS("id", 2) "," AS("id", 3) "," AS(
                            "id", 4) "," AS("id", 5)};
    RtModel *m = model_of(&d);
    Text log = {0};
    for (int r = 0; r < 3; r++)
        for (uint32_t n = r == 1 ? 8000 : 3; n > 0; n--)
            say(&log, "%c%c", 'a' + pick(26), n > 1 ? ';' : '\n');
    uint64_t directly = compare(m, RT_BAD_FAIL, &log);
    if (rt_is_v3()) assert_int_equal(directly, 3);
    free(log.s);
    rt_model_free(m);
}

/* ---- floats ---- */

static void put_float(Text *t) {
    uint64_t bits = next();
    float f;
    switch (pick(8)) {
    case 0: say(t, "%.*f", (int)(bits % 8), (double)(bits >> 40) / (double)(1 << (bits % 24))); break;
    case 1: say(t, "-%.*f", (int)(bits % 5), (double)(bits >> 50) / 100); break;
    case 2: say(t, "%u", (uint32_t)(bits >> 32) >> (bits % 32)); break;
    case 3: say(t, "%u.%u", (uint32_t)(bits >> 32) % 1000, (uint32_t)bits >> (bits % 32)); break;
    case 4: say(t, "0.%0*u", (int)(1 + bits % 7), (uint32_t)(bits >> 32) % 1000000); break;
    case 5: say(t, "%.9g", (double)(bits >> 11) * 1e-12); break;
    case 6: /* in the middle of two floats, or beside it */
        f = (float)(bits >> 40);
        say(t, "%.*f", (int)(bits % 4), (double)f + 0.5 + (double)((int)(bits % 3) - 1) / 1000);
        break;
    default: say(t, "%llue%d", (unsigned long long)(bits >> 44), (int)(bits % 20) - 10);
    }
}

static void test_floats(void **state) {
    (void)state;
    const Describe d = {.columns = LIST("x", "float", ";", 0, ""),
                        .axes = AXIS("x", ""),
                        .features = VALUE(C(0), 0),
                        .inputs = AS("f32", 0)};
    RtModel *m = model_of(&d);
    RtMessage err;
    RtPlan *plan = rt_plan_new(m, RT_TRAIN, &err);
    uint64_t values = getenv("CTRC_NIGHTLY") ? 10000000 : 1000000, directly = 0;
    for (uint64_t done = 0; done < values; done += 2000) {
        Text log = {0};
        for (int i = 0; i < 2000; i++) {
            put_float(&log);
            say(&log, i % 40 == 39 ? "\n" : ";");
        }
        RtRows *rows = parse(plan, RT_BAD_FAIL, &log, true, &directly);
        assert_int_equal(rows->n, 50);
        const char *at = log.s;
        for (int i = 0; i < 2000; i++) {
            char *end;
            float want = strtof(at, &end), got;
            memcpy(&got, rows->word + rows->at[i / 40] + 1 + i % 40, 4);
            if (memcmp(&want, &got, 4))
                fail_msg("%.*s: expected %.9g, found %.9g", (int)(end - at), at, (double)want, (double)got);
            at = end + 1;
        }
        rt_rows_free(rows);
        free(log.s);
    }
    if (rt_is_v3()) assert_int_equal(directly, values / 40);
    rt_plan_free(plan);
    rt_model_free(m);
}

int main(void) {
    const char *other = getenv("CTRC_RANDOM_SEED");
    if (other) seed ^= strtoull(other, NULL, 10) << 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways),
        cmocka_unit_test(test_long_rows),
        cmocka_unit_test(test_many_lanes),
        cmocka_unit_test(test_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
