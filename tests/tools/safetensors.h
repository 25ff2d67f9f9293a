/* Reads a safetensors file whole: tensors of F32, by name. For tests only. */
#ifndef CTRC_TESTS_SAFETENSORS_H
#define CTRC_TESTS_SAFETENSORS_H
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *name;
    int rank;
    int64_t dim[8];
    int64_t size;
    const char *dtype; /* "F32", "I64", … */
    const void *data;  /* NULL if its bytes lie outside the file */
} Tensor;
typedef struct {
    Tensor *tensors;
    int n;
    char *bytes;  /* the file */
    void *header; /* json_t */
} Safetensors;

/* NULL on error, with one line in err. */
Safetensors *safetensors_read(const char *path, char *err, size_t err_bytes);
void safetensors_free(Safetensors *s);
const Tensor *safetensors_find(const Safetensors *s, const char *name);

#endif
