/* Writes protobuf's wire format, as much of it as ONNX needs:
 * https://protobuf.dev/programming-guides/encoding. A message is bytes in a buffer; one inside another is
 * made first, then put with its length. */
#ifndef CTRC_RUNTIME_WIRE_H
#define CTRC_RUNTIME_WIRE_H
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *p; /* malloc'd */
    size_t n, cap;
} RtWire;

void rt_wire_int(RtWire *w, int field, int64_t v);
void rt_wire_float(RtWire *w, int field, float v);
void rt_wire_bytes(RtWire *w, int field, const void *p, size_t n);
void rt_wire_text(RtWire *w, int field, const char *s);
void rt_wire_message(RtWire *w, int field, RtWire *inner); /* frees inner, which is then empty again */
/* Only the head of a field of n bytes, which follow. */
void rt_wire_head(RtWire *w, int field, uint64_t n);

#endif
