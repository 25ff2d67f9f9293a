/* Bytes of one file, or of stdin, decompressed if need be. gzip and zstd are known by their first bytes, so a
 * compressed stdin or a file under another name works too; a name that promises one must keep it. One
 * RtSource serves file after file, so its buffers and decoders are made once. */
#include "runtime/reader_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RAW_BYTES = 1 << 18 };
typedef enum { PLAIN, GZIP, ZSTD } Coding;

struct RtSource {
    int fd, wake;
    bool waits; /* a pipe or terminal: a read may take forever, so it must heed `wake` */
    Coding coding;
    RtRaw raw;
    uint64_t taken;
    RtGzip *gzip;
    RtZstd *zstd;
};

RtSource *rt_source_new(int wake) {
    RtSource *s = rt_reader_alloc(1, sizeof *s);
    s->fd = -1;
    s->wake = wake;
    s->raw.cap = RAW_BYTES;
    s->raw.raw = rt_reader_alloc(RAW_BYTES, 1);
    return s;
}

static void close_file(RtSource *s) {
    if (s->fd > STDIN_FILENO) close(s->fd);
    s->fd = -1;
}

void rt_source_free(RtSource *s) {
    if (!s) return;
    close_file(s);
    rt_gzip_free(s->gzip);
    rt_zstd_free(s->zstd);
    free(s->raw.raw);
    free(s);
}

/* read() that can be woken. 0: the end, or told to stop: whoever stops the reader drops what was read. */
static int64_t read_some(RtSource *s, char *to, size_t n, RtMessage *err) {
    for (;;) {
        if (s->waits) { /* without `wake`, -1, poll waits for the rows alone */
            struct pollfd f[2] = {{s->fd, POLLIN, 0}, {s->wake, POLLIN, 0}};
            if (poll(f, 2, -1) < 0 && errno != EINTR) break;
            if (f[1].revents) return 0;
            if (!f[0].revents) continue;
        }
        ssize_t got = read(s->fd, to, n);
        if (got >= 0) {
            s->taken += (uint64_t)got;
            return got;
        }
        if (errno != EINTR) break;
    }
    char reason[RT_SHOWN];
    rt_message(err, "%s: error: cannot read: %s", s->raw.name, rt_reason(errno, reason));
    return -1;
}

bool rt_source_refill(RtSource *s, RtRaw *raw, RtMessage *err) {
    if (raw->ended) return true;
    int64_t got = read_some(s, raw->raw, raw->cap, err);
    if (got < 0) return false;
    raw->at = 0;
    raw->end = (size_t)got;
    raw->ended = got == 0;
    return true;
}

static bool ends_with(const char *name, const char *suffix) {
    size_t n = strlen(name), k = strlen(suffix);
    return n >= k && !strcmp(name + n - k, suffix);
}

/* Looks at the first bytes, which stay in raw. */
static bool find_coding(RtSource *s, RtMessage *err) {
    RtRaw *raw = &s->raw;
    while (raw->end < 4 && !raw->ended) {
        int64_t got = read_some(s, raw->raw + raw->end, raw->cap - raw->end, err);
        if (got < 0) return false;
        raw->end += (size_t)got;
        raw->ended = got == 0;
    }
    const uint8_t *b = (const uint8_t *)raw->raw;
    bool gzip = raw->end >= 2 && b[0] == 0x1f && b[1] == 0x8b;
    bool zstd = raw->end >= 4 && ((b[0] == 0x28 && b[1] == 0xb5) || (b[0] >> 4 == 5 && b[1] == 0x2a)) &&
                b[2] == (b[0] == 0x28 ? 0x2f : 0x4d) &&
                b[3] == (b[0] == 0x28 ? 0xfd : 0x18); /* a frame, or one to skip */
    s->coding = gzip ? GZIP : zstd ? ZSTD : PLAIN;
    if (raw->end && !gzip && ends_with(raw->name, ".gz"))
        return rt_message(err, "%s: error: not a gzip file", raw->name);
    if (raw->end && !zstd && ends_with(raw->name, ".zst"))
        return rt_message(err, "%s: error: not a zstd file", raw->name);
    if (s->coding == PLAIN && raw->end >= 2 &&
        ((b[0] == 0xff && b[1] == 0xfe) || (b[0] == 0xfe && b[1] == 0xff)))
        return rt_message(err, "%s: error: expected UTF-8 text, found UTF-16", raw->name);
    return true;
}

/* A pipe that has a name is waited for when it is opened, until somebody writes to it. So it isn't waited for
 * here, but where it is read, and that can be woken. */
static int open_file(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

bool rt_source_open(RtSource *s, const char *path, RtMessage *err) {
    close_file(s);
    bool standard = !strcmp(path, "-");
    s->raw.name = standard ? "<stdin>" : path;
    s->raw.at = s->raw.end = 0;
    s->raw.ended = false;
    s->taken = 0;
    s->fd = standard ? STDIN_FILENO : open_file(path);
    struct stat st;
    if (s->fd < 0 || fstat(s->fd, &st)) {
        char reason[RT_SHOWN];
        return rt_message(err, "%s: error: cannot open: %s", s->raw.name, rt_reason(errno, reason));
    }
    s->waits = !S_ISREG(st.st_mode);
    if (!s->waits) posix_fadvise(s->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    if (!find_coding(s, err)) return false;
    if (s->coding == GZIP) {
        if (!s->gzip) s->gzip = rt_gzip_new();
        rt_gzip_start(s->gzip);
    } else if (s->coding == ZSTD) {
        if (!s->zstd) s->zstd = rt_zstd_new();
        rt_zstd_start(s->zstd);
    }
    return true;
}

static int64_t read_plain(RtSource *s, char *to, size_t n, RtMessage *err) {
    RtRaw *raw = &s->raw;
    size_t done = raw->end - raw->at; /* what find_coding took */
    if (done > n) done = n;
    memcpy(to, raw->raw + raw->at, done);
    raw->at += done;
    while (done < n && !raw->ended) {
        int64_t got = read_some(s, to + done, n - done, err);
        if (got < 0) return -1;
        raw->ended = got == 0;
        done += (size_t)got;
    }
    return (int64_t)done;
}

int64_t rt_source_read(RtSource *s, char *to, size_t n, RtMessage *err) {
    if (s->coding == GZIP) return rt_gzip_read(s->gzip, s, &s->raw, to, n, err);
    if (s->coding == ZSTD) return rt_zstd_read(s->zstd, s, &s->raw, to, n, err);
    return read_plain(s, to, n, err);
}

uint64_t rt_source_taken(const RtSource *s) { return s->taken; }
