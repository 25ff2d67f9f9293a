/* zstd, of one frame or several one after another. */
#include "runtime/reader_internal.h"
#include <stdlib.h>
#include <zstd.h>

struct RtZstd {
    ZSTD_DStream *z;
    bool within; /* a frame has begun and not ended */
};

RtZstd *rt_zstd_new(void) {
    RtZstd *z = rt_reader_alloc(1, sizeof *z);
    z->z = ZSTD_createDStream();
    if (!z->z) rt_reader_alloc(SIZE_MAX / 2, 1);           /* fails for want of memory alone */
    ZSTD_DCtx_setParameter(z->z, ZSTD_d_windowLogMax, 31); /* files made with --long */
    return z;
}

void rt_zstd_free(RtZstd *z) {
    if (!z) return;
    ZSTD_freeDStream(z->z);
    free(z);
}

void rt_zstd_start(RtZstd *z) {
    ZSTD_DCtx_reset(z->z, ZSTD_reset_session_only);
    z->within = false;
}

int64_t rt_zstd_read(RtZstd *z, RtSource *s, RtRaw *raw, char *to, size_t n, RtMessage *err) {
    ZSTD_outBuffer out = {to, n, 0};
    while (out.pos < n) {
        if (raw->at == raw->end) {
            if (!rt_source_refill(s, raw, err)) return -1;
            if (raw->ended && !z->within) break;
        }
        /* with no input left, what the decoder still holds comes out; nothing coming out means cut short */
        size_t before = out.pos;
        ZSTD_inBuffer in = {raw->raw + raw->at, raw->ended ? 0 : raw->end - raw->at, 0};
        size_t left = ZSTD_decompressStream(z->z, &out, &in);
        if (ZSTD_isError(left)) {
            rt_message(err, "%s: error: damaged zstd data (%s)", raw->name, ZSTD_getErrorName(left));
            return -1;
        }
        if (!raw->ended) raw->at += in.pos;
        z->within = left != 0;
        if (raw->ended && z->within && out.pos == before) {
            rt_message(err, "%s: error: the zstd data breaks off: the file is cut short", raw->name);
            return -1;
        }
    }
    return (int64_t)out.pos;
}
