#include "runtime/safetensors.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include "runtime/message.h"

static void *need(void *p) {
    if (!p) rt_out_of_memory();
    return p;
}

const char *rt_shape_text(int rank, const int64_t *dim, char out[160]) {
    size_t n = 0;
    out[n++] = '[';
    for (int i = 0; i < rank; i++)
        n += (size_t)snprintf(out + n, 160 - n, "%s%" PRId64, i ? "," : "", dim[i]);
    strcpy(out + n, "]");
    return out;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const RtTensor *)a)->name, ((const RtTensor *)b)->name);
}
static int by_place(const void *a, const void *b) {
    const RtTensor *x = a, *y = b;
    return x->i64 != y->i64 ? y->i64 - x->i64 : by_name(a, b);
}

/* ---- writing ---- */

struct RtTensorWriter {
    FILE *f;
    char *path;
    int error; /* errno of the first failure */
    XXH3_state_t *sum;
};

static uint64_t element_bytes(const RtTensor *t) { return t->i64 ? 8 : 4; }

static void lay_out(RtTensor *list, int n) {
    uint64_t at = 0;
    qsort(list, n, sizeof *list, by_place);
    for (int i = 0; i < n; i++) {
        RtTensor *t = &list[i];
        t->bytes = element_bytes(t);
        for (int k = 0; k < t->rank; k++) t->bytes *= (uint64_t)t->dim[k];
        t->offset = at;
        at += t->bytes;
    }
}

static char *header_text(const RtTensor *list, int n, const char *const *metadata) {
    RtTensor *sorted = need(malloc((n + 1) * sizeof *sorted));
    json_t *root = json_object(), *meta = json_object();
    for (; metadata && *metadata; metadata += 2)
        json_object_set_new(meta, metadata[0], json_string(metadata[1]));
    json_object_set_new(root, "__metadata__", meta);
    memcpy(sorted, list, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_name);
    for (int i = 0; i < n; i++) {
        const RtTensor *t = &sorted[i];
        json_t *shape = json_array();
        for (int k = 0; k < t->rank; k++) json_array_append_new(shape, json_integer(t->dim[k]));
        json_object_set_new(root, t->name,
                            json_pack("{s:s,s:o,s:[I,I]}", "dtype", t->i64 ? "I64" : "F32", "shape", shape,
                                      "data_offsets", (json_int_t)t->offset,
                                      (json_int_t)(t->offset + t->bytes)));
    }
    char *text = need(json_dumps(root, JSON_COMPACT));
    json_decref(root);
    free(sorted);
    return text;
}

RtTensorWriter *rt_tensors_create(const char *path, RtTensor *list, int n, const char *const *metadata,
                                  char *err, size_t err_bytes) {
    FILE *f = fopen(path, "wb");
    if (!f) {
        char reason[RT_SHOWN];
        snprintf(err, err_bytes, "cannot write %s: %s", path, rt_reason(errno, reason));
        return NULL;
    }
    setvbuf(f, NULL, _IOFBF, 1 << 20);
    return rt_tensors_begin(f, path, list, n, metadata);
}

RtTensorWriter *rt_tensors_begin(FILE *f, const char *path, RtTensor *list, int n,
                                 const char *const *metadata) {
    lay_out(list, n);
    RtTensorWriter *w = need(malloc(sizeof *w));
    *w = (RtTensorWriter){f, need(strdup(path)), 0, need(XXH3_createState())};
    char *text = header_text(list, n, metadata);
    uint64_t length = strlen(text), padded = (length + 7) / 8 * 8; /* spaces, so that the data is aligned */
    XXH3_64bits_reset(w->sum);
    uint8_t head[8];
    for (int i = 0; i < 8; i++) head[i] = (uint8_t)(padded >> 8 * i);
    rt_tensors_write(w, head, 8);
    rt_tensors_write(w, text, length);
    rt_tensors_write(w, "       ", padded - length);
    free(text);
    XXH3_64bits_reset(w->sum);
    return w;
}

bool rt_tensors_write(RtTensorWriter *w, const void *data, uint64_t bytes) {
    XXH3_64bits_update(w->sum, data, bytes);
    errno = 0;
    if (!w->error && fwrite(data, 1, bytes, w->f) != bytes) w->error = errno ? errno : EIO;
    return !w->error;
}

uint64_t rt_tensors_written_checksum(RtTensorWriter *w) {
    uint64_t h = XXH3_64bits_digest(w->sum);
    XXH3_64bits_reset(w->sum);
    return h;
}

bool rt_tensors_end(RtTensorWriter *w, char *err, size_t err_bytes) {
    char reason[RT_SHOWN];
    int e = w->error;
    if (e) snprintf(err, err_bytes, "cannot write %s: %s", w->path, rt_reason(e, reason));
    XXH3_freeState(w->sum);
    free(w->path);
    free(w);
    return !e;
}

bool rt_tensors_finish(RtTensorWriter *w, char *err, size_t err_bytes) {
    if (!w->error && (fflush(w->f) || fsync(fileno(w->f)))) w->error = errno;
    if (fclose(w->f) && !w->error) w->error = errno;
    return rt_tensors_end(w, err, err_bytes);
}

/* ---- reading ---- */

struct RtTensorFile {
    void *map;
    size_t bytes;
    const char *data;
    void *copy; /* of the data, where other programs' headers leave it unaligned; else NULL */
    RtTensor *list;
    int n;
};

/* One entry of the header; false: not as it should be. */
static bool read_entry(RtTensor *t, const char *name, const json_t *o, uint64_t data_bytes) {
    const char *dtype = json_string_value(json_object_get(o, "dtype"));
    const json_t *shape = json_object_get(o, "shape"), *at = json_object_get(o, "data_offsets");
    if (!dtype || !json_is_array(shape) || json_array_size(at) != 2 ||
        json_array_size(shape) > RT_TENSOR_RANK)
        return false;
    t->name = need(strdup(name));
    t->i64 = !strcmp(dtype, "I64");
    if (!t->i64 && strcmp(dtype, "F32")) return false;
    t->rank = (int)json_array_size(shape);
    t->bytes = element_bytes(t);
    for (int k = 0; k < t->rank; k++) {
        t->dim[k] = json_integer_value(json_array_get(shape, k));
        if (t->dim[k] < 0 || __builtin_mul_overflow(t->bytes, (uint64_t)t->dim[k], &t->bytes)) return false;
    }
    int64_t lo = json_integer_value(json_array_get(at, 0)), hi = json_integer_value(json_array_get(at, 1));
    t->offset = (uint64_t)lo;
    return lo >= 0 && hi >= lo && (uint64_t)hi <= data_bytes && (uint64_t)(hi - lo) == t->bytes &&
           lo % (t->i64 ? 8 : 4) == 0;
}

static void align_data(RtTensorFile *f) {
    size_t bytes = f->bytes - (size_t)(f->data - (const char *)f->map);
    if ((uintptr_t)f->data % 8 == 0) return;
    f->copy = need(malloc(bytes ? bytes : 1));
    memcpy(f->copy, f->data, bytes);
    f->data = f->copy;
}

static bool read_header(RtTensorFile *f, const char *path, char *err, size_t err_bytes) {
    const uint8_t *p = f->map;
    uint64_t length = 0;
    for (int i = 0; i < 8 && f->bytes >= 8; i++) length |= (uint64_t)p[i] << 8 * i;
    if (f->bytes < 8 || length > f->bytes - 8) {
        snprintf(err, err_bytes, "%s: not a safetensors file, or cut short", path);
        return false;
    }
    json_error_t e;
    json_t *root = json_loadb((const char *)p + 8, length, 0, &e);
    if (!json_is_object(root)) {
        snprintf(err, err_bytes, "%s: not a safetensors file: the header is not JSON", path);
        json_decref(root);
        return false;
    }
    f->data = (const char *)p + 8 + length;
    f->list = need(calloc(json_object_size(root) + 1, sizeof *f->list));
    const char *name;
    json_t *o;
    bool ok = true;
    json_object_foreach(root, name, o) {
        if (!strcmp(name, "__metadata__")) continue;
        if (read_entry(&f->list[f->n++], name, o, f->bytes - 8 - length)) continue;
        snprintf(err, err_bytes, "%s: tensor '%s': expected F32 or I64 with data inside the file", path,
                 name);
        ok = false;
        break;
    }
    json_decref(root);
    if (ok) qsort(f->list, f->n, sizeof *f->list, by_name);
    if (ok) align_data(f);
    return ok;
}

RtTensorFile *rt_tensors_open(const char *path, char *err, size_t err_bytes) {
    char reason[RT_SHOWN];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        snprintf(err, err_bytes, "cannot open %s: %s", path, rt_reason(errno, reason));
        if (fd >= 0) close(fd);
        return NULL;
    }
    RtTensorFile *f = need(calloc(1, sizeof *f));
    f->bytes = (size_t)st.st_size;
    f->map = f->bytes ? mmap(NULL, f->bytes, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    close(fd);
    if (f->map == MAP_FAILED) {
        snprintf(err, err_bytes, "cannot read %s: %s", path, rt_reason(errno, reason));
        free(f);
        return NULL;
    }
    if (read_header(f, path, err, err_bytes)) return f;
    rt_tensors_close(f);
    return NULL;
}

void rt_tensors_close(RtTensorFile *f) {
    if (!f) return;
    for (int i = 0; i < f->n; i++) free(f->list[i].name);
    free(f->list);
    free(f->copy);
    if (f->map) munmap(f->map, f->bytes);
    free(f);
}

int rt_tensors_count(const RtTensorFile *f) { return f->n; }
const RtTensor *rt_tensors_at(const RtTensorFile *f, int i) { return &f->list[i]; }
const RtTensor *rt_tensors_find(const RtTensorFile *f, const char *name) {
    RtTensor key = {.name = (char *)name};
    return f->n ? bsearch(&key, f->list, f->n, sizeof key, by_name) : NULL;
}
const void *rt_tensors_data(const RtTensorFile *f, const RtTensor *t) { return f->data + t->offset; }
uint64_t rt_tensors_checksum(const RtTensorFile *f, const RtTensor *t) {
    return XXH3_64bits(rt_tensors_data(f, t), t->bytes);
}
