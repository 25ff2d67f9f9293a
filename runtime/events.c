#include "runtime/events.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "runtime/crc32c.h"
#include "runtime/message.h"
#include "runtime/protobuf.h"

/* Fields of Event, Summary, Summary.Value and SessionLog. */
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, SESSION_STATUS = 1, SESSION_START = 1 };
enum { HEAD = 12, TAIL = 4 }; /* of a record: length and its checksum; the checksum of its bytes */
#define PREFIX "events.out.tfevents."
#define SUFFIX ".ctrc"

struct RtEvents {
    FILE *f;
    char path[PATH_MAX];
    int error;
    RtProto event;
};

/* ---- records ---- */

static void put_le(uint8_t *to, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(v >> 8 * i);
}
static uint64_t get_le(const uint8_t *from, int bytes) {
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint64_t)from[i] << 8 * i;
    return v;
}

static void write_record(RtEvents *e) {
    uint8_t head[HEAD], tail[TAIL];
    put_le(head, e->event.n, 8);
    put_le(head + 8, rt_crc32c_masked(head, 8), 4);
    put_le(tail, rt_crc32c_masked(e->event.data, e->event.n), 4);
    errno = 0;
    bool ok = fwrite(head, HEAD, 1, e->f) == 1 && fwrite(e->event.data, e->event.n, 1, e->f) == 1 &&
              fwrite(tail, TAIL, 1, e->f) == 1 && fflush(e->f) == 0;
    if (!ok && !e->error) e->error = errno ? errno : EIO;
}

static void begin_event(RtEvents *e, uint64_t step) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    rt_proto_clear(&e->event);
    rt_proto_double(&e->event, EVENT_WALL_TIME, (double)t.tv_sec + 1e-9 * (double)t.tv_nsec);
    rt_proto_int(&e->event, EVENT_STEP, (int64_t)step);
}

/* ---- files that are there ---- */

static bool is_ours(const char *name) {
    size_t n = strlen(name), prefix = strlen(PREFIX), suffix = strlen(SUFFIX);
    return n > prefix + suffix && !strncmp(name, PREFIX, prefix) && !strcmp(name + n - suffix, SUFFIX);
}

/* An event that we wrote begins with its time and its step. */
static uint64_t step_of(const uint8_t *event, size_t n) {
    uint64_t step = 0;
    if (n < 11 || event[0] != (EVENT_WALL_TIME << 3 | 1) || event[9] != EVENT_STEP << 3) return 0;
    for (size_t i = 10, shift = 0; i < n && shift < 64; i++, shift += 7) {
        step |= (uint64_t)(event[i] & 127) << shift;
        if (event[i] < 128) break;
    }
    return step;
}

/* Where the first record begins that is of a later step, or isn't whole. */
static off_t end_of_step(FILE *f, uint64_t after, uint64_t file_bytes) {
    uint8_t head[HEAD], *event = NULL;
    uint64_t at = 0, n;
    bool earlier = true;
    while (earlier && fread(head, HEAD, 1, f) == 1) {
        n = get_le(head, 8);
        if (n > file_bytes || get_le(head + 8, 4) != rt_crc32c_masked(head, 8)) break;
        if (!(event = realloc(event, n + TAIL))) rt_out_of_memory();
        earlier = fread(event, n + TAIL, 1, f) == 1 &&
                  get_le(event + n, TAIL) == rt_crc32c_masked(event, n) && step_of(event, n) <= after;
        if (earlier) at += HEAD + n + TAIL;
    }
    free(event);
    return (off_t)at;
}

static bool cut(const char *path, uint64_t after) {
    struct stat st;
    FILE *f = fopen(path, "r+");
    if (!f) return false;
    bool ok = !fstat(fileno(f), &st) && !ftruncate(fileno(f), end_of_step(f, after, (uint64_t)st.st_size));
    int e = errno;
    fclose(f);
    errno = e;
    return ok;
}

/* Removes or cuts our files in dir; *newest: the latest of the times in their names. */
static bool go_through(const char *dir, uint64_t after, uint64_t *newest) {
    DIR *d = opendir(dir);
    bool ok = d;
    for (const struct dirent *f; ok && (f = readdir(d));) {
        char path[PATH_MAX];
        if (!is_ours(f->d_name)) continue;
        uint64_t seconds = strtoull(f->d_name + strlen(PREFIX), NULL, 10);
        if (seconds > *newest) *newest = seconds;
        snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
        ok = after ? cut(path, after) : unlink(path) == 0;
    }
    int e = errno;
    if (d) closedir(d);
    errno = e;
    return ok;
}

/* ---- opening ---- */

static void greet(RtEvents *e, uint64_t after) {
    begin_event(e, 0);
    rt_proto_text(&e->event, EVENT_VERSION, "brain.Event:2");
    write_record(e);
    if (!after) return;
    begin_event(e, after + 1);
    size_t session = rt_proto_open(&e->event, EVENT_SESSION);
    rt_proto_int(&e->event, SESSION_STATUS, SESSION_START);
    rt_proto_close(&e->event, session);
    write_record(e);
}

/* With what is above it, as TensorBoard's own writers do: runs are kept as runs/NAME. */
static bool make_dir(const char *dir) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s", dir) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (char *slash = path + 1; *path && (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        if (mkdir(path, 0777) && errno != EEXIST) return false;
    }
    return !mkdir(dir, 0777) || errno == EEXIST;
}

RtEvents *rt_events_open(const char *dir, uint64_t after, char *err, size_t err_bytes) {
    char host[64] = "", reason[RT_SHOWN];
    uint64_t newest = 0, seconds = (uint64_t)time(NULL);
    RtEvents *e = calloc(1, sizeof *e);
    if (!e) rt_out_of_memory();
    gethostname(host, sizeof host - 1);
    snprintf(e->path, sizeof e->path, "%s", dir);
    if (make_dir(dir) && go_through(dir, after, &newest)) {
        if (seconds <= newest) seconds = newest + 1;
        int n = snprintf(e->path, sizeof e->path, "%s/" PREFIX "%010" PRIu64 ".%s" SUFFIX, dir, seconds,
                         *host ? host : "localhost");
        errno = ENAMETOOLONG;
        if (n < (int)sizeof e->path) e->f = fopen(e->path, "w");
    }
    if (!e->f) {
        snprintf(err, err_bytes, "cannot write %s: %s", e->path, rt_reason(errno, reason));
        free(e);
        return NULL;
    }
    greet(e, after);
    return e;
}

/* ---- scalars ---- */

static void put_scalars(RtProto *b, const char *before, const json_t *numbers) {
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)numbers, key, v) {
        char tag[512];
        snprintf(tag, sizeof tag, "%s%s%s", before, *before ? "/" : "", key);
        if (json_is_object(v)) put_scalars(b, tag, v);
        if (!json_is_number(v) || !strcmp(tag, "step")) continue;
        size_t value = rt_proto_open(b, SUMMARY_VALUE);
        rt_proto_text(b, VALUE_TAG, tag);
        rt_proto_float(b, VALUE_SIMPLE, (float)json_number_value(v));
        rt_proto_close(b, value);
    }
}

void rt_events_write(RtEvents *e, uint64_t step, const json_t *numbers) {
    begin_event(e, step);
    size_t summary = rt_proto_open(&e->event, EVENT_SUMMARY);
    put_scalars(&e->event, "", numbers);
    rt_proto_close(&e->event, summary);
    write_record(e);
}

bool rt_events_close(RtEvents *e, char *err, size_t err_bytes) {
    if (!e) return true;
    char reason[RT_SHOWN];
    if (fclose(e->f) && !e->error) e->error = errno;
    int error = e->error;
    if (error) snprintf(err, err_bytes, "cannot write %s: %s", e->path, rt_reason(error, reason));
    rt_proto_free(&e->event);
    free(e);
    return !error;
}
