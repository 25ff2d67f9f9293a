#include "runtime/wire.h"
#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, LENGTH = 2, FIXED32 = 5 };

static void put(RtWire *w, const void *p, size_t n) {
    if (w->n + n > w->cap) {
        w->cap = (w->n + n) * 2;
        w->p = realloc(w->p, w->cap);
        if (!w->p) abort();
    }
    if (n) memcpy(w->p + w->n, p, n);
    w->n += n;
}

/* Seven bits a byte, the lowest first; all bytes but the last have the highest bit set. */
static void put_varint(RtWire *w, uint64_t v) {
    uint8_t b[10];
    size_t n = 0;
    for (; v > 0x7f; v >>= 7) b[n++] = (uint8_t)(v | 0x80);
    b[n++] = (uint8_t)v;
    put(w, b, n);
}

static void put_tag(RtWire *w, int field, int type) { put_varint(w, (uint64_t)field << 3 | (uint64_t)type); }

void rt_wire_int(RtWire *w, int field, int64_t v) {
    put_tag(w, field, VARINT);
    put_varint(w, (uint64_t)v);
}

void rt_wire_float(RtWire *w, int field, float v) {
    put_tag(w, field, FIXED32);
    put(w, &v, sizeof v);
}

void rt_wire_head(RtWire *w, int field, uint64_t n) {
    put_tag(w, field, LENGTH);
    put_varint(w, n);
}

void rt_wire_bytes(RtWire *w, int field, const void *p, size_t n) {
    rt_wire_head(w, field, n);
    put(w, p, n);
}

void rt_wire_text(RtWire *w, int field, const char *s) { rt_wire_bytes(w, field, s, strlen(s)); }

void rt_wire_message(RtWire *w, int field, RtWire *inner) {
    rt_wire_bytes(w, field, inner->p, inner->n);
    free(inner->p);
    *inner = (RtWire){0};
}
