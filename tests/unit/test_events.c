/* Event files: checksums and protocol buffers by published vectors, files by a decoder of our own, going on
 * behind what is there, and errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/crc32c.h"
#include "runtime/events.h"
#include "runtime/protobuf.h"

/* ---- crc32c, protobuf ---- */

static void test_crc32c(void **state) { /* RFC 3720, B.4 */
    (void)state;
    uint8_t bytes[32] = {0};
    assert_int_equal(rt_crc32c("", 0), 0);
    assert_int_equal(rt_crc32c("123456789", 9), 0xe3069283u);
    assert_int_equal(rt_crc32c(bytes, 32), 0x8a9136aau);
    memset(bytes, 0xff, 32);
    assert_int_equal(rt_crc32c(bytes, 32), 0x62a8ab43u);
    for (int i = 0; i < 32; i++) bytes[i] = (uint8_t)i;
    assert_int_equal(rt_crc32c(bytes, 32), 0x46dd794eu);
    uint32_t crc = 0x46dd794eu;
    assert_int_equal(rt_crc32c_masked(bytes, 32), ((crc >> 15) | (crc << 17)) + 0xa282ead8u);
}

static void is_bytes(RtProto *b, const char *want, size_t n) {
    assert_int_equal(b->n, n);
    assert_memory_equal(b->data, want, n);
    rt_proto_clear(b);
}
#define IS(b, want) is_bytes(b, want, sizeof want - 1)

static void test_protobuf(void **state) { /* the first three from the page "Encoding" */
    (void)state;
    RtProto b = {0};
    rt_proto_int(&b, 1, 150);
    IS(&b, "\x08\x96\x01");
    rt_proto_text(&b, 2, "testing");
    IS(&b, "\x12\x07testing");
    size_t at = rt_proto_open(&b, 3);
    rt_proto_int(&b, 1, 150);
    rt_proto_close(&b, at);
    IS(&b, "\x1a\x03\x08\x96\x01");
    rt_proto_int(&b, 1, -2);
    IS(&b, "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    rt_proto_int(&b, 16, 0);
    IS(&b, "\x80\x01\x00");
    rt_proto_float(&b, 1, 1.5f);
    IS(&b, "\x0d\x00\x00\xc0\x3f");
    rt_proto_double(&b, 1, -2);
    IS(&b, "\x09\x00\x00\x00\x00\x00\x00\x00\xc0");
    rt_proto_bytes(&b, 4, NULL, 0);
    IS(&b, "\x22\x00");
    at = rt_proto_open(&b, 4); /* packed [3, 270, 86942] */
    rt_proto_varint(&b, 3), rt_proto_varint(&b, 270), rt_proto_varint(&b, 86942);
    rt_proto_close(&b, at);
    IS(&b, "\x22\x06\x03\x8e\x02\x9e\xa7\x05");
    /* messages in messages whose lengths take two bytes and three */
    char text[20000];
    memset(text, 'x', sizeof text);
    size_t outer = rt_proto_open(&b, 1), inner = rt_proto_open(&b, 1);
    rt_proto_raw(&b, text, 200);
    rt_proto_close(&b, inner);
    rt_proto_raw(&b, text, sizeof text);
    rt_proto_close(&b, outer);
    assert_int_equal(b.n, 4 + 3 + 200 + sizeof text);
    assert_memory_equal(b.data, "\x0a\xeb\x9d\x01\x0a\xc8\x01xxx", 10);
    rt_proto_free(&b);
    assert_null(b.data);
}

/* ---- a decoder ---- */

typedef struct {
    uint64_t step;
    char tag[64];
    float value;
} Scalar;
typedef struct {
    int files, records, versions;
    uint64_t restarts[8]; /* steps of SessionLog START */
    int n_restarts, n;
    Scalar scalar[64];
} Found;

static uint64_t varint(const uint8_t **p) {
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
        v |= (uint64_t)(**p & 127) << shift;
        if (*(*p)++ < 128) return v;
    }
}
static uint64_t le(const uint8_t *p, int n) {
    uint64_t v = 0;
    while (n--) v = v << 8 | p[n];
    return v;
}

static void decode_value(const uint8_t *p, const uint8_t *end, Scalar *s) {
    while (p < end) {
        uint64_t tag = varint(&p);
        if (tag == 10) {
            uint64_t n = varint(&p);
            assert_true(n < sizeof s->tag);
            memcpy(s->tag, p, n);
            s->tag[n] = 0;
            p += n;
        } else {
            assert_int_equal(tag, 21);
            uint32_t bits = (uint32_t)le(p, 4);
            memcpy(&s->value, &bits, 4);
            p += 4;
        }
    }
}

static void decode_event(const uint8_t *p, const uint8_t *end, Found *f) {
    uint64_t step = 0;
    while (p < end) {
        uint64_t tag = varint(&p), n = (tag & 7) == 2 ? varint(&p) : 0;
        const uint8_t *stop = p + n;
        if (tag == 9) {
            double wall;
            memcpy(&wall, p, 8);
            assert_true(wall > 1e9);
            p += 8;
        } else if (tag == 16)
            step = varint(&p);
        else if (tag == 26) {
            assert_int_equal(n, 13);
            assert_memory_equal(p, "brain.Event:2", 13);
            f->versions++;
        } else if (tag == 42) {
            while (p < stop) {
                assert_int_equal(varint(&p), 10);
                uint64_t size = varint(&p);
                assert_true(f->n < 64);
                f->scalar[f->n] = (Scalar){.step = step};
                decode_value(p, p + size, &f->scalar[f->n++]);
                p += size;
            }
        } else {
            assert_int_equal(tag, 58); /* session_log { status: START } */
            assert_memory_equal(p, "\x08\x01", 2);
            f->restarts[f->n_restarts++] = step;
        }
        if (n) p = stop;
    }
}

static void decode_file(const char *path, Found *f) {
    static uint8_t bytes[1 << 16];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(bytes, 1, sizeof bytes, file), at = 0;
    fclose(file);
    f->files++;
    while (at < n) {
        uint64_t size = le(bytes + at, 8);
        assert_true(at + 16 + size <= n);
        assert_int_equal(le(bytes + at + 8, 4), rt_crc32c_masked(bytes + at, 8));
        assert_int_equal(le(bytes + at + 12 + size, 4), rt_crc32c_masked(bytes + at + 12, size));
        decode_event(bytes + at + 12, bytes + at + 12 + size, f);
        at += 16 + size;
        f->records++;
    }
}

static Found decode(const char *dir) {
    struct dirent **names;
    Found f = {0};
    int n = scandir(dir, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
        if (strstr(names[i]->d_name, "tfevents") && strstr(names[i]->d_name, ".ctrc")) decode_file(path, &f);
        free(names[i]);
    }
    free(names);
    return f;
}

/* ---- files ---- */

static char err[300];

static RtEvents *start(const char *dir, uint64_t after) {
    RtEvents *e = rt_events_open(dir, after, err, sizeof err);
    if (!e) fail_msg("%s", err);
    return e;
}

static void put(RtEvents *e, uint64_t step) {
    json_t *o = json_pack("{s:I,s:f,s:i,s:n,s:{s:f},s:s}", "step", (json_int_t)step, "loss",
                          1.0 / (double)step, "rows", 32, "lost", "auc", "ctr", 0.75, "word", "x");
    rt_events_write(e, step, o);
    json_decref(o);
}

static void finish(RtEvents *e) { assert_true(rt_events_close(e, err, sizeof err)); }

static int setup(void **state) {
    static char dir[64];
    strcpy(dir, "/tmp/ctrc-events-XXXXXX");
    *state = mkdtemp(dir);
    return !*state || chdir(dir);
}
static int teardown(void **state) {
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", (char *)*state);
    return chdir("/") || system(command);
}

static void test_scalars(void **state) {
    (void)state;
    RtEvents *e = start("runs", 0);
    put(e, 1);
    put(e, 300);
    finish(e);
    Found f = decode("runs");
    assert_int_equal(f.files, 1);
    assert_int_equal(f.records, 3);
    assert_int_equal(f.versions, 1);
    assert_int_equal(f.n_restarts, 0);
    assert_int_equal(f.n, 6);
    const Scalar want[] = {{1, "loss", 1},           {1, "rows", 32},   {1, "auc/ctr", 0.75f},
                           {300, "loss", 1 / 300.f}, {300, "rows", 32}, {300, "auc/ctr", 0.75f}};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(f.scalar[i].step, want[i].step);
        assert_string_equal(f.scalar[i].tag, want[i].tag);
        assert_true(f.scalar[i].value == want[i].value);
    }
}

/* Steps of "loss" in the order of the files. */
static void losses_are(const Found *f, const uint64_t *want, int n) {
    int k = 0;
    for (int i = 0; i < f->n; i++) {
        if (strcmp(f->scalar[i].tag, "loss")) continue;
        assert_true(k < n);
        assert_int_equal(f->scalar[i].step, want[k++]);
    }
    assert_int_equal(k, n);
}

static void test_going_on(void **state) {
    (void)state;
    RtEvents *e = start("runs", 0);
    for (uint64_t step = 100; step <= 500; step += 100) put(e, step);
    finish(e);
    assert_int_equal(
        system("echo other > runs/events.out.tfevents.1.host.other; echo x >> runs/events.*.ctrc"), 0);
    e = start("runs", 300); /* cuts steps 400, 500 and the broken end */
    put(e, 400);
    finish(e);
    Found f = decode("runs");
    assert_int_equal(f.files, 2);
    assert_int_equal(f.n_restarts, 1);
    assert_int_equal(f.restarts[0], 301);
    losses_are(&f, (uint64_t[]){100, 200, 300, 400}, 4);
    e = start("runs", 400); /* within the same second: the third sorts behind the second */
    put(e, 500);
    finish(e);
    f = decode("runs");
    assert_int_equal(f.files, 3);
    losses_are(&f, (uint64_t[]){100, 200, 300, 400, 500}, 5);
    finish(start("runs", 150));
    f = decode("runs");
    losses_are(&f, (uint64_t[]){100}, 1);
    /* a new training replaces what ours wrote, and nothing else */
    e = start("runs", 0);
    put(e, 7);
    finish(e);
    f = decode("runs");
    assert_int_equal(f.files, 1);
    losses_are(&f, (uint64_t[]){7}, 1);
    assert_int_equal(access("runs/events.out.tfevents.1.host.other", F_OK), 0);
}

static void test_errors(void **state) {
    (void)state;
    finish(start("new/runs//one/", 0)); /* what is missing is made */
    assert_int_equal(access("new/runs/one", F_OK), 0);
    assert_null(rt_events_open("", 0, err, sizeof err));
    assert_string_equal(err, "cannot write : no such file or directory");
    FILE *f = fopen("file", "w");
    fclose(f);
    assert_null(rt_events_open("file/below/it", 0, err, sizeof err));
    assert_string_equal(err, "cannot write file/below/it: not a directory");
    char deep[PATH_MAX + 1], told[PATH_MAX + 100];
    memset(deep, 'a', PATH_MAX);
    deep[PATH_MAX] = 0;
    assert_null(rt_events_open(deep, 0, told, sizeof told));
    assert_non_null(strstr(told, ": file name too long"));
    assert_null(rt_events_open("file", 0, err, sizeof err));
    assert_string_equal(err, "cannot write file: not a directory");
    assert_true(rt_events_close(NULL, err, sizeof err));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c),
        cmocka_unit_test(test_protobuf),
        cmocka_unit_test_setup_teardown(test_scalars, setup, teardown),
        cmocka_unit_test_setup_teardown(test_going_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
