/* What `export` writes, and how weights get there. */
#ifndef CTRC_RUNTIME_EXPORT_H
#define CTRC_RUNTIME_EXPORT_H
#include <stdio.h>
#include "runtime/tables.h"

/* Takes the values of a weight, piece by piece in row-major order. False: that was enough (the disk is full).
 */
typedef bool (*RtPut)(void *own, const void *data, uint64_t bytes);
/* The whole weight as it stands after the steps done; rows of a table that no step touched have their initial
 * values. False: put said so. */
bool rt_weight_values(RtTables *t, int weight, RtPut put, void *own);

/* The prediction with the weights in t as an ONNX model (export_onnx.c). False and one line in err. */
bool rt_onnx_write(FILE *f, const RtModel *m, RtTables *t, char *err, size_t err_bytes);

#endif
