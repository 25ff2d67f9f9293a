/* Small models for tests of the reader: descriptions written by hand around a few columns, files in a
 * directory of their own, batches as text. JSON is written with ' for ". */
#ifndef CTRC_READER_FIXTURE_H
#define CTRC_READER_FIXTURE_H
#include "runtime/reader.h"
#include "tests/unit/abi_text.h"
#include "runtime/tables.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- descriptions ---- */

typedef struct {
    const char *input; /* keys of "input" that differ from a csv's without header */
    const char *columns, *axes, *features, *inputs, *lookups, *weights,
        *vocabs; /* list contents, NULL: none */
    const RtBlob *blobs;
} Describe;

/* A column; more: keys that differ, each with a comma before it (the last of equal keys counts). */
#define COL(name, kind, more)                                                                                \
    "{'name':'" name "','kind':'" kind "','skip':1,'list':null,'axis':-1,'default':null,'positive':null,"    \
    "'negative':null,'from':null,'side':0,'used':true,'used_predict':true,'unit_label':false" more "}"
#define LABEL(name, more) COL(name, "label", ",'used_predict':false,'unit_label':true" more)
#define LIST(name, kind, sep, axis, more) COL(name, kind, ",'list':'" sep "','axis':" #axis more)
#define AXIS(name, more) "{'name':'" name "','kind':'list','parent':-1,'max':0,'shared':false" more "}"
#define FEATURE(op, in, type, axis, more)                                                                    \
    "{'op':'" op "','in':[" in "],'type':'" type "','axis':" #axis ",'predict':true" more "}"
#define C(i) "['c'," #i "]"
#define F(i) "['f'," #i "]"
#define HASH(in, axis, buckets)                                                                              \
    FEATURE("hash", in, "id", axis, ",'bound':" #buckets ",'buckets':" #buckets ",'fn':'xxh3'")
#define VALUE(in, axis) FEATURE("value", in, "f32", axis, "")
#define AS(kind, feature) "{'as':'" kind "','feature':" #feature "}"
#define AS_LOOKUP(i) "{'as':'lookup','lookup':" #i "}"
#define LOOKUP(feature, table, pooled) "{'feature':" #feature ",'table':" #table ",'pooled':" #pooled "}"
#define TABLE(name, rows)                                                                                    \
    "{'name':'" name "','shape':[" #rows                                                                     \
    ",2],'init':'zeros','arg':0,'table':true,'lazy':true,'sparse':true,"                                     \
    "'running':false,'trainable':true,'optimizer':-1,'slots':[]}"

/* Descriptions that several tests start from; in: keys of "input" that differ, NULL: none. */

/* a number a line */
#define ONE_FLOAT(in)                                                                                        \
    { .input = in, .columns = COL("x", "float", ""), .features = VALUE(C(0), -1), .inputs = AS("f32", 0) }

/* libsvm: label, ids below 100, values */
#define SVM                                                                                                  \
    {                                                                                                        \
        .input = ",'format':'libsvm'",                                                                       \
        .columns = LABEL("y", "") "," LIST("i", "int", " ", 0, "") "," LIST("v", "float", " ", 0, ""),       \
        .axes = AXIS("h", ",'shared':true"),                                                                 \
        .features = VALUE(C(0), -1) "," FEATURE("identity", C(1), "id", 0,                                   \
                                                ",'bound':100,'n':100") "," VALUE(C(2), 0),                  \
        .inputs = AS("f32", 0) "," AS("id", 1) "," AS("f32", 2),                                             \
    }

static inline const char *or_none(const char *s) { return s ? s : ""; }
static inline int occurrences(const char *in, const char *of) {
    int n = 0;
    for (const char *p = or_none(in); (p = strstr(p, of)); p++) n++;
    return n;
}

static inline char *description(const Describe *d) {
    static const char format[] =
        "{'abi':" ABI_TEXT ",'ctrc':'0.1.0','model':'m','source':'m.ctr','digest':'00','march':'x86-64-v3','batch':4,"
        "'epochs':1,'steps':0,'shuffle':0,'seed':1,'params':{},'passes':[],'changes':[],"
        "'input':{'format':'csv','separator':',','quote':'\\\"','header':false,'trim':true,'missing':[],'"
        "beside':null%s},"
        "'columns':[%s],'axes':[%s],'features':[%s],'inputs':[%s],'lookups':[%s],'vocabs':[%s],'weights':[%s]"
        ","
        "'optimizers':[],'functions':{'train':%s,'eval':%s,'predict':%s},'predictions':[],'metrics':[]}";
    char elems[2][256] = {"", ""}, fn[1024];
    int counts[2] = {occurrences(d->axes, "'kind'"), occurrences(d->weights, "'shape'")};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < counts[k]; i++) strcat(elems[k], i ? ",0" : "0");
    snprintf(fn, sizeof fn,
             "{'fixed_bytes':0,'scratch_bytes':0,'row_block':64,'local_elems':[%s],'axis_elems':[%s],'uniq_elems':[%s],'flops':0,'nodes':[],'"
             "outputs':[]}",
             elems[0], elems[0], elems[1]);
    size_t n = 1 << 16;
    char *s = malloc(n);
    assert_non_null(s);
    int got = snprintf(s, n, format, or_none(d->input), or_none(d->columns), or_none(d->axes),
                       or_none(d->features), or_none(d->inputs), or_none(d->lookups), or_none(d->vocabs),
                       or_none(d->weights), fn, fn, fn);
    assert_true(got > 0 && (size_t)got < n);
    for (char *p = s; *p; p++)
        if (*p == '\'') *p = '"';
    return s;
}

static inline RtModel *model_of(const Describe *d) {
    char err[400] = "", *s = description(d);
    RtModel *m = rt_model_parse(s, strlen(s), d->blobs, err, sizeof err);
    if (!m) fail_msg("%s", err);
    free(s);
    return m;
}

/* ---- files ---- */

/* The test's directory, made anew once, its working directory from then on: so messages name plain files. */
static inline void enter_directory(void) {
    static char dir[64];
    if (*dir) return;
    snprintf(dir, sizeof dir, "/tmp/ctrc_reader_XXXXXX");
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chdir(dir), 0);
}
static inline void leave_directory(void) {
    char dir[256], command[300];
    if (!getcwd(dir, sizeof dir) || strncmp(dir, "/tmp/ctrc_reader_", 17)) return;
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (chdir("/") || system(command)) fprintf(stderr, "%s stays\n", dir);
}

static inline void write_bytes(const char *path, const void *p, size_t n) {
    enter_directory();
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}
static inline void write_text(const char *path, const char *text) { write_bytes(path, text, strlen(text)); }

static inline char *read_text(const char *path) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *s = calloc(1, 1 << 20);
    assert_non_null(s);
    assert_true(fread(s, 1, (1 << 20) - 1, f) < (1 << 20) - 1);
    fclose(f);
    return s;
}

/* ---- batches as text ---- */

typedef struct {
    char *s;
    size_t n, cap;
} Text;
static inline void say(Text *t, const char *format, ...) {
    if (t->cap - t->n < 256) {
        t->cap = t->cap * 2 + 4096;
        t->s = realloc(t->s, t->cap);
        assert_non_null(t->s);
    }
    va_list args;
    va_start(args, format);
    t->n += (size_t)vsnprintf(t->s + t->n, t->cap - t->n, format, args);
    va_end(args);
}

static inline int input_axis(const RtModel *m, int i) {
    int f = m->inputs[i].kind == RT_IN_LOOKUP ? m->lookups[m->inputs[i].index].feature : m->inputs[i].index;
    return m->features[f].axis;
}

/* One line a row: the values of each input, those of lists in brackets; ids of lookups as the table has them.
 */
static inline void say_row(Text *t, const RtModel *m, const RtBatch *b, uint32_t r) {
    for (int i = 0; i < m->n_inputs; i++) {
        if (!b->inputs[i]) continue;
        int axis = input_axis(m, i);
        uint32_t from = axis < 0 ? r : b->offsets[axis][r], to = axis < 0 ? r + 1 : b->offsets[axis][r + 1];
        say(t, i ? " %s" : "%s", axis < 0 ? "" : "[");
        for (uint32_t k = from; k < to; k++) {
            const char *gap = k > from ? " " : "";
            const uint32_t *id = b->inputs[i];
            if (m->inputs[i].kind == RT_IN_F32)
                say(t, "%s%.9g", gap, (double)((const float *)b->inputs[i])[k]);
            else if (m->inputs[i].kind == RT_IN_KEY)
                say(t, "%s%016llx", gap, (unsigned long long)((const uint64_t *)b->inputs[i])[k]);
            else if (id[k] == RT_NO_ID)
                say(t, "%s-", gap);
            else if (m->inputs[i].kind == RT_IN_ID)
                say(t, "%s%u", gap, id[k]);
            else
                say(t, "%s%u", gap,
                    ((const uint32_t *)b->tables[m->lookups[m->inputs[i].index].table].id)[id[k]]);
        }
        if (axis >= 0) say(t, "]");
    }
    say(t, "\n");
}

static inline RtReaderOptions options(int purpose, const char *const *paths, int n) {
    return (RtReaderOptions){
        .paths = paths, .n_paths = n, .purpose = purpose, .batch = 4, .epochs = 1, .seed = 1, .threads = 2};
}

/* What a run says about its bad rows. */
typedef struct {
    uint64_t n;
    char first[1200]; /* "": there was none */
} BadSeen;

/* All rows of a run, one a line; at the end "error: …" if there was one. To be freed. bad may be NULL. */
static inline char *rows_and_bad(const RtModel *m, const RtReaderOptions *o, BadSeen *bad) {
    Text t = {0};
    char err[1200] = "";
    say(&t, "%s", "");
    RtReader *r = rt_reader_open(m, o, err, sizeof err);
    RtBatch *b;
    int got = -1;
    while (r && (got = rt_reader_next(r, &b, err, sizeof err)) == 1) {
        for (uint32_t k = 0; k < b->rows; k++) say_row(&t, m, b, k);
        rt_reader_release(r, b);
    }
    if (got < 0) say(&t, "%s\n", err);
    if (bad) {
        bad->n = r ? rt_reader_bad_rows(r) : 0;
        snprintf(bad->first, sizeof bad->first, "%s",
                 r && rt_reader_first_bad(r) ? rt_reader_first_bad(r) : "");
    }
    rt_reader_close(r);
    return t.s;
}
static inline char *rows_with(const RtModel *m, const RtReaderOptions *o) { return rows_and_bad(m, o, NULL); }

static inline char *rows_of(const Describe *d, int purpose, const char *path) {
    enter_directory();
    RtModel *m = model_of(d);
    RtReaderOptions o = options(purpose, &path, 1);
    char *s = rows_with(m, &o);
    rt_model_free(m);
    return s;
}

/* Reading gives exactly these lines. */
static inline void expect_rows_of(const Describe *d, int purpose, const char *path, const char *want) {
    char *got = rows_of(d, purpose, path);
    size_t at = 0;
    while (got[at] && got[at] == want[at]) at++;
    size_t from = at > 60 ? at - 60 : 0;
    if (got[at] != want[at])
        fail_msg("%s: byte %zu: ...%.120s\nexpected ...%.120s", path, at, got + from, want + from);
    free(got);
}
static inline void expect_rows(const Describe *d, const char *text, const char *want) {
    write_text("data.csv", text);
    expect_rows_of(d, RT_TRAIN, "data.csv", want);
}
static inline void expect_error_of(const Describe *d, const char *path, const char *want) {
    char *got = rows_of(d, RT_TRAIN, path);
    const char *line = strstr(got, ": error:");
    while (line && line > got && line[-1] != '\n') line--;
    assert_string_equal(line ? line : "(no error)", want);
    free(got);
}
static inline void expect_error(const Describe *d, const char *text, const char *want) {
    write_text("data.csv", text);
    expect_error_of(d, "data.csv", want);
}
#endif
