#include "tests/tools/safetensors.h"
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *path, size_t *size, char *err, size_t err_bytes) {
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) {
        snprintf(err, err_bytes, "%s: %s", path, strerror(errno));
        if (f) fclose(f);
        return NULL;
    }
    *size = (size_t)ftell(f);
    rewind(f);
    char *bytes = malloc(*size + 1);
    if (!bytes) abort();
    if (fread(bytes, 1, *size, f) != *size) {
        snprintf(err, err_bytes, "%s: cannot read", path);
        free(bytes);
        bytes = NULL;
    }
    fclose(f);
    return bytes;
}

static void tensor(Tensor *t, const char *name, const json_t *o, const char *data, size_t data_bytes) {
    t->name = strdup(name);
    const json_t *shape = json_object_get(o, "shape"), *at = json_object_get(o, "data_offsets");
    t->dtype = json_string_value(json_object_get(o, "dtype"));
    t->rank = (int)json_array_size(shape);
    t->size = 1;
    for (int d = 0; d < t->rank && d < 8; d++)
        t->size *= t->dim[d] = json_integer_value(json_array_get(shape, (size_t)d));
    int64_t begin = json_integer_value(json_array_get(at, 0)),
            end = json_integer_value(json_array_get(at, 1));
    if (begin >= 0 && begin <= end && (size_t)end <= data_bytes) t->data = data + begin;
}

Safetensors *safetensors_read(const char *path, char *err, size_t err_bytes) {
    size_t size;
    uint64_t header_bytes;
    json_error_t e;
    char *bytes = read_file(path, &size, err, err_bytes);
    if (!bytes) return NULL;
    if (size >= 8) memcpy(&header_bytes, bytes, 8);
    json_t *header =
        size >= 8 && header_bytes <= size - 8 ? json_loadb(bytes + 8, header_bytes, 0, &e) : NULL;
    if (!json_is_object(header)) {
        snprintf(err, err_bytes, "%s: expected a safetensors header", path);
        free(bytes);
        return NULL;
    }
    Safetensors *s = calloc(1, sizeof *s);
    if (!s) abort();
    s->bytes = bytes;
    s->header = header;
    s->tensors = calloc(json_object_size(header) + 1, sizeof *s->tensors);
    const char *name;
    json_t *o;
    json_object_foreach(header, name, o) if (strcmp(name, "__metadata__") != 0)
        tensor(&s->tensors[s->n++], name, o, bytes + 8 + header_bytes, size - 8 - header_bytes);
    return s;
}

void safetensors_free(Safetensors *s) {
    if (!s) return;
    for (int i = 0; i < s->n; i++) free(s->tensors[i].name);
    free(s->tensors);
    free(s->bytes);
    json_decref(s->header);
    free(s);
}

const Tensor *safetensors_find(const Safetensors *s, const char *name) {
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->tensors[i].name, name) == 0) return &s->tensors[i];
    return NULL;
}
