/* Writing protocol buffers: fields one after another into a buffer that grows. The wire format is three kinds
 * of numbers and pieces of known length, so what we write needs no library.
 * Source: https://protobuf.dev/programming-guides/encoding. */
#ifndef CTRC_RUNTIME_PROTOBUF_H
#define CTRC_RUNTIME_PROTOBUF_H
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint8_t *data; /* the buffer's own; malloc'd */
    size_t n, cap; /* bytes */
} RtProto;         /* all zero: empty */

void rt_proto_free(RtProto *b);
void rt_proto_clear(RtProto *b); /* empty, memory kept */
/* int32, int64, uint64, bool and enum; a negative number as its 64-bit two's complement. */
void rt_proto_int(RtProto *b, uint32_t field, int64_t v);
void rt_proto_float(RtProto *b, uint32_t field, float v);
void rt_proto_double(RtProto *b, uint32_t field, double v);
void rt_proto_bytes(RtProto *b, uint32_t field, const void *p, size_t n);
void rt_proto_text(RtProto *b, uint32_t field, const char *s);
/* A message made before, which is freed and then empty again. */
void rt_proto_message(RtProto *b, uint32_t field, RtProto *inner);
/* Only the head of a field of n bytes, which follow elsewhere. */
void rt_proto_head(RtProto *b, uint32_t field, uint64_t n);
/* A message inside: what is written between the two is its fields. */
size_t rt_proto_open(RtProto *b, uint32_t field);
void rt_proto_close(RtProto *b, size_t opened);
/* For packed repeated numbers, inside a field that is open. */
void rt_proto_varint(RtProto *b, uint64_t v);
void rt_proto_raw(RtProto *b, const void *p, size_t n);

#endif
