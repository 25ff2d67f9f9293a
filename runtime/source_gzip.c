/* gzip, of one member or several one after another (as bgzip and `cat a.gz b.gz` make them). */
#include "runtime/reader_internal.h"
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

struct RtGzip {
    z_stream z;
    bool within; /* a member has begun and not ended */
    bool ended;
};

RtGzip *rt_gzip_new(void) {
    RtGzip *g = rt_reader_alloc(1, sizeof *g);
    if (inflateInit2(&g->z, 15 + 16) != Z_OK)
        rt_reader_alloc(SIZE_MAX / 2, 1); /* fails for want of memory alone */
    return g;
}

void rt_gzip_free(RtGzip *g) {
    if (!g) return;
    inflateEnd(&g->z);
    free(g);
}

void rt_gzip_start(RtGzip *g) {
    inflateReset(&g->z);
    g->within = true; /* the first member's magic was seen */
    g->ended = false;
}

/* After a member: another one, zero padding, or the end. */
static bool next_member(RtGzip *g, RtSource *s, RtRaw *raw, RtMessage *err) {
    for (;;) {
        while (raw->at < raw->end && raw->raw[raw->at] == 0)
            raw->at++; /* padding, as tape and block tools leave it */
        if (raw->at < raw->end) break;
        if (!rt_source_refill(s, raw, err)) return false;
        if (raw->ended) {
            g->ended = true;
            return true;
        }
    }
    if ((uint8_t)raw->raw[raw->at] != 0x1f)
        return rt_message(err, "%s: error: the gzip data is followed by something else", raw->name);
    inflateReset(&g->z);
    g->within = true;
    return true;
}

int64_t rt_gzip_read(RtGzip *g, RtSource *s, RtRaw *raw, char *to, size_t n, RtMessage *err) {
    size_t done = 0;
    while (done < n && !g->ended) {
        if (!g->within) {
            if (!next_member(g, s, raw, err)) return -1;
            continue;
        }
        if (raw->at == raw->end) {
            if (!rt_source_refill(s, raw, err)) return -1;
            if (raw->ended) {
                rt_message(err, "%s: error: the gzip data breaks off: the file is cut short", raw->name);
                return -1;
            }
        }
        size_t room = n - done < UINT32_MAX ? n - done : UINT32_MAX;
        g->z.next_in = (Bytef *)raw->raw + raw->at;
        g->z.avail_in = (uInt)(raw->end - raw->at);
        g->z.next_out = (Bytef *)to + done;
        g->z.avail_out = (uInt)room;
        int result = inflate(&g->z, Z_NO_FLUSH);
        raw->at = raw->end - g->z.avail_in;
        done += room - g->z.avail_out;
        if (result == Z_STREAM_END)
            g->within = false;
        else if (result != Z_OK && result != Z_BUF_ERROR) {
            rt_message(err, "%s: error: damaged gzip data (%s)", raw->name,
                       g->z.msg ? g->z.msg : "out of memory");
            return -1;
        }
    }
    return (int64_t)done;
}
