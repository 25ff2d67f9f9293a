#include "runtime/protobuf.h"
#include <stdlib.h>
#include <string.h>
#include "runtime/message.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5, VARINT_MAX = 10 };

void rt_proto_free(RtProto *b) {
    free(b->data);
    *b = (RtProto){0};
}

void rt_proto_clear(RtProto *b) { b->n = 0; }

static void room(RtProto *b, size_t more) {
    if (b->n + more <= b->cap) return;
    b->cap = 2 * b->cap > b->n + more ? 2 * b->cap : b->n + more + 64;
    if (!(b->data = realloc(b->data, b->cap))) rt_out_of_memory();
}

void rt_proto_raw(RtProto *b, const void *p, size_t n) {
    room(b, n);
    if (n) memcpy(b->data + b->n, p, n);
    b->n += n;
}

static size_t put_varint(uint8_t out[VARINT_MAX], uint64_t v) {
    size_t n = 0;
    for (; v >= 128; v >>= 7) out[n++] = (uint8_t)(v | 128);
    out[n++] = (uint8_t)v;
    return n;
}

void rt_proto_varint(RtProto *b, uint64_t v) {
    uint8_t bytes[VARINT_MAX];
    rt_proto_raw(b, bytes, put_varint(bytes, v));
}

static void tag(RtProto *b, uint32_t field, unsigned wire) {
    rt_proto_varint(b, (uint64_t)field << 3 | wire);
}

static void little_endian(RtProto *b, uint64_t bits, size_t bytes) {
    uint8_t v[8];
    for (size_t i = 0; i < bytes; i++) v[i] = (uint8_t)(bits >> 8 * i);
    rt_proto_raw(b, v, bytes);
}

void rt_proto_int(RtProto *b, uint32_t field, int64_t v) {
    tag(b, field, WIRE_VARINT);
    rt_proto_varint(b, (uint64_t)v);
}

void rt_proto_float(RtProto *b, uint32_t field, float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    tag(b, field, WIRE_32);
    little_endian(b, bits, sizeof bits);
}

void rt_proto_double(RtProto *b, uint32_t field, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    tag(b, field, WIRE_64);
    little_endian(b, bits, sizeof bits);
}

void rt_proto_head(RtProto *b, uint32_t field, uint64_t n) {
    tag(b, field, WIRE_BYTES);
    rt_proto_varint(b, n);
}

void rt_proto_bytes(RtProto *b, uint32_t field, const void *p, size_t n) {
    rt_proto_head(b, field, n);
    rt_proto_raw(b, p, n);
}

void rt_proto_text(RtProto *b, uint32_t field, const char *s) { rt_proto_bytes(b, field, s, strlen(s)); }

void rt_proto_message(RtProto *b, uint32_t field, RtProto *inner) {
    rt_proto_bytes(b, field, inner->data, inner->n);
    rt_proto_free(inner);
}

size_t rt_proto_open(RtProto *b, uint32_t field) {
    tag(b, field, WIRE_BYTES);
    return b->n;
}

/* The length stands before the fields and is known only now: they make room for it. */
void rt_proto_close(RtProto *b, size_t opened) {
    uint8_t length[VARINT_MAX];
    size_t size = b->n - opened, n = put_varint(length, size);
    room(b, n);
    memmove(b->data + opened + n, b->data + opened, size);
    memcpy(b->data + opened, length, n);
    b->n += n;
}
