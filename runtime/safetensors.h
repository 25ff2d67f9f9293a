/* The safetensors format: 8 bytes length of the header (little endian), the header as JSON, then the data.
 * Header entries stand in order of name. So does the data, but 8-byte elements come first: readers view a
 * tensor's bytes in place and need them aligned. */
#ifndef CTRC_RUNTIME_SAFETENSORS_H
#define CTRC_RUNTIME_SAFETENSORS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { RT_TENSOR_RANK = 6 };
typedef struct {
    char *name;
    bool i64; /* else f32 */
    int rank;
    int64_t dim[RT_TENSOR_RANK];
    uint64_t bytes, offset; /* offset: from the start of the data */
    int source;             /* the writer's: which thing this is */
    int part;
    uint64_t checksum; /* of its data, once it is written: XXH3 with seed 0 */
} RtTensor;

/* ---- writing ---- */
typedef struct RtTensorWriter RtTensorWriter;
/* Sorts list into the order of its data, sets bytes and offsets, writes the header. metadata: text pairs
 * "key", "value", …, NULL. Then the caller writes each tensor's data in the order of list. */
RtTensorWriter *rt_tensors_create(const char *path, RtTensor *list, int n, const char *const *metadata,
                                  char *err, size_t err_bytes);
/* The same into a stream of the caller's; path: for messages. */
RtTensorWriter *rt_tensors_begin(FILE *f, const char *path, RtTensor *list, int n,
                                 const char *const *metadata);
bool rt_tensors_write(RtTensorWriter *w, const void *data, uint64_t bytes); /* false: told by finish */
/* XXH3 of what was written since the last call, or since the header. */
uint64_t rt_tensors_written_checksum(RtTensorWriter *w);
/* Flushes to the disk and closes. False: something failed, err says what; the file is then useless. */
bool rt_tensors_finish(RtTensorWriter *w, char *err, size_t err_bytes);
/* For a stream of the caller's, which stays open. False: as above. */
bool rt_tensors_end(RtTensorWriter *w, char *err, size_t err_bytes);

/* ---- reading ---- */
typedef struct RtTensorFile RtTensorFile;
RtTensorFile *rt_tensors_open(const char *path, char *err, size_t err_bytes);
int rt_tensors_count(const RtTensorFile *f);
const RtTensor *rt_tensors_at(const RtTensorFile *f, int i);              /* in order of name */
const RtTensor *rt_tensors_find(const RtTensorFile *f, const char *name); /* NULL if there is none */
const void *rt_tensors_data(const RtTensorFile *f, const RtTensor *t);
uint64_t rt_tensors_checksum(const RtTensorFile *f, const RtTensor *t);
void rt_tensors_close(RtTensorFile *f);

/* "[3,4]" into out. */
const char *rt_shape_text(int rank, const int64_t *dim, char out[160]);

#endif
