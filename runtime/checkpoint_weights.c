/* weights.safetensors: every weight under its path, its optimizer's slots as NAME/slot, tables of more than
 * 2^20 rows as the ids of their touched rows (NAME.ids) and these rows. Equal states give equal bytes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/checkpoint_own.h"
#include "runtime/message.h"
#include "runtime/program.h"
#include "runtime/safetensors.h"

enum { IDS = -1 }; /* RtTensor.part: 0 the weight, 1… slots */

static void *need(void *p) {
    if (!p) rt_out_of_memory();
    return p;
}

/* NAME, NAME/slot or NAME.ids; malloc'd. */
static char *tensor_name(const RtWeight *w, int part) {
    char *s;
    if (asprintf(&s, "%s%s%s", w->name,
                 part == IDS ? ".ids"
                 : part      ? "/"
                             : "",
                 part > 0 ? w->slots[part - 1] : "") < 0)
        rt_out_of_memory();
    return s;
}

/* ---- writing ---- */

typedef struct {
    uint32_t *ids;
    uint64_t n;
} Touched; /* of large tables */

static RtTensor describe(const RtWeight *w, int weight, int part, bool large, uint64_t rows) {
    RtTensor t = {.name = tensor_name(w, part),
                  .i64 = part == IDS,
                  .rank = part == IDS ? 1 : w->rank,
                  .source = weight,
                  .part = part};
    memcpy(t.dim, w->dim, sizeof t.dim);
    if (large) t.dim[0] = (int64_t)rows;
    return t;
}

static bool write_ids(RtTensorWriter *out, const Touched *ids) {
    bool ok = true;
    for (uint64_t i = 0; i < ids->n && ok; i++) {
        int64_t id = ids->ids[i];
        ok = rt_tensors_write(out, &id, sizeof id);
    }
    return ok;
}

/* v is part of tensor x. False: x is a weight that holds something that isn't finite, or the disk is full. */
static bool write_values(RtTensorWriter *out, const RtTensor *x, const float *v, uint64_t n) {
    bool finite = true;
    for (uint64_t i = 0; i < n && x->part == 0; i++) finite &= isfinite(v[i]) != 0;
    return finite && rt_tensors_write(out, v, n * sizeof *v);
}

static bool write_rows(RtTensorWriter *out, RtTables *t, const RtTensor *x, const uint32_t *ids, uint64_t n) {
    uint64_t width = rt_tables_width(t, x->source);
    float *row = need(malloc(width * sizeof *row));
    bool ok = true;
    for (uint64_t i = 0; i < n && ok; i++) {
        rt_tables_get_row(t, x->source, ids ? ids[i] : (uint32_t)i, x->part, row);
        ok = write_values(out, x, row, width);
    }
    free(row);
    return ok;
}

static bool write_tensor(RtTensorWriter *out, RtTables *t, const RtTensor *x, const Touched *touched) {
    const float *dense = x->part == IDS ? NULL : rt_tables_dense(t, x->source, x->part);
    if (x->part == IDS) return write_ids(out, touched);
    if (rt_tables_is_large(t, x->source)) return write_rows(out, t, x, touched->ids, touched->n);
    if (dense) return write_values(out, x, dense, x->bytes / sizeof *dense);
    return write_rows(out, t, x, NULL, rt_tables_rows(t, x->source));
}

/* All tensors; the first weight that isn't finite ends it, since such a checkpoint is of no use and may not
 * replace an older one. */
static bool write_all(RtTensorWriter *out, RtTables *t, RtTensor *list, int n, const Touched *touched,
                      char *err, size_t err_bytes) {
    int i = 0;
    for (; i < n && write_tensor(out, t, &list[i], &touched[list[i].source]); i++)
        list[i].checksum = rt_tensors_written_checksum(out);
    if (!rt_tensors_finish(out, err, err_bytes)) return false;
    if (i < n)
        snprintf(err, err_bytes, "not saved: weight '%s' holds values that are not finite", list[i].name);
    return i == n;
}

static const char *hex(uint64_t v, char out[20]) {
    snprintf(out, 20, "%016" PRIx64, v);
    return out;
}

static json_t *checksums_of(const RtTensor *list, int n) {
    json_t *o = json_object();
    char sum[20];
    for (int i = 0; i < n; i++) json_object_set_new(o, list[i].name, json_string(hex(list[i].checksum, sum)));
    return o;
}

bool rt_weights_write(const char *path, const RtModel *m, RtTables *t, json_t **checksums, char *err,
                      size_t err_bytes) {
    RtTensor *list = need(calloc(5 * (size_t)m->n_weights + 1, sizeof *list));
    Touched *touched = need(calloc(m->n_weights + 1, sizeof *touched));
    int n = 0;
    rt_tables_settle(t);
    for (int i = 0; i < m->n_weights; i++) {
        bool large = rt_tables_is_large(t, i);
        if (large) touched[i].ids = rt_tables_touched_ids(t, i, &touched[i].n);
        for (int part = large ? IDS : 0; part <= m->weights[i].n_slots; part++)
            list[n++] = describe(&m->weights[i], i, part, large, touched[i].n);
    }
    const char *const metadata[] = {"format", "pt", "model", m->name, NULL};
    RtTensorWriter *out = rt_tensors_create(path, list, n, metadata, err, err_bytes);
    bool ok = out && write_all(out, t, list, n, touched, err, err_bytes);
    *checksums = ok ? checksums_of(list, n) : NULL;
    for (int i = 0; i < n; i++) free(list[i].name);
    for (int i = 0; i < m->n_weights; i++) free(touched[i].ids);
    free(touched);
    free(list);
    return ok;
}

/* ---- reading ---- */

static bool same_shape(const RtTensor *x, const RtWeight *w, bool rows_only) {
    if (x->i64 || x->rank != w->rank) return false;
    for (int k = rows_only; k < w->rank; k++)
        if (x->dim[k] != w->dim[k]) return false;
    return true;
}

/* One tensor that the model needs; NULL after telling a difference. */
static const RtTensor *expect(const RtTensorFile *f, const RtWeight *w, int part, bool large, int64_t rows,
                              RtLines *d) {
    char a[160], b[160], *name = tensor_name(w, part);
    const RtTensor *x = rt_tensors_find(f, name), *whole = part == IDS ? rt_tensors_find(f, w->name) : NULL;
    if (!x && whole) /* a table that was small enough to be saved whole */
        rt_line(d, "'%s' has shape %s in the checkpoint, %s in the model", w->name,
                rt_shape_text(whole->rank, whole->dim, a), rt_shape_text(w->rank, w->dim, b));
    else if (!x)
        rt_line(d, "'%s' is missing from the checkpoint", name);
    else if (part == IDS ? !x->i64 || x->rank != 1
                         : !same_shape(x, w, large) || (large && x->dim[0] != rows)) {
        int64_t dim[6];
        memcpy(dim, w->dim, sizeof dim);
        if (large && rows >= 0) dim[0] = rows;
        rt_line(d, "'%s' has shape %s in the checkpoint, %s in the model", name,
                rt_shape_text(x->rank, x->dim, a), part == IDS ? "[rows]" : rt_shape_text(w->rank, dim, b));
        x = NULL;
    }
    free(name);
    return x;
}

/* How many slots of a weight are to be read: none, all, or all if all are there. */
static int slots_to_read(const RtTensorFile *f, const RtWeight *w, RtSlots slots) {
    if (slots == RT_SLOTS_NONE) return 0;
    bool there = true;
    for (int part = 1; part <= w->n_slots && slots == RT_SLOTS_IF_THERE; part++) {
        char *name = tensor_name(w, part);
        there &= rt_tensors_find(f, name) != NULL;
        free(name);
    }
    return there ? w->n_slots : 0;
}

static void read_weight(const RtTensorFile *f, const RtModel *m, RtTables *t, int i, int slots, RtLines *d) {
    const RtWeight *w = &m->weights[i];
    bool large = rt_tables_is_large(t, i);
    const RtTensor *ids = large ? expect(f, w, IDS, true, -1, d) : NULL;
    if (large && !ids) return;
    const int64_t *id = ids ? rt_tensors_data(f, ids) : NULL;
    uint64_t rows = large ? (uint64_t)ids->dim[0] : rt_tables_rows(t, i), width = rt_tables_width(t, i);
    for (uint64_t r = 0; r < rows && id; r++)
        if (id[r] < 0 || id[r] >= w->dim[0]) {
            rt_line(d, "'%s.ids' holds %lld, the table has %lld rows", w->name, (long long)id[r],
                    (long long)w->dim[0]);
            return;
        }
    for (int part = 0; part <= slots; part++) {
        const RtTensor *x = expect(f, w, part, large, (int64_t)rows, d);
        if (!x) return;
        const float *v = rt_tensors_data(f, x);
        float *dense = rt_tables_dense(t, i, part);
        if (dense && !large)
            memcpy(dense, v, x->bytes);
        else
            for (uint64_t r = 0; r < rows; r++)
                rt_tables_put_row(t, i, id ? (uint32_t)id[r] : (uint32_t)r, part, v + r * width);
    }
}

/* A tensor that belongs to no weight; slots of other optimizers may be there. */
static bool belongs(const RtModel *m, const RtTables *t, const char *name) {
    for (int i = 0; i < m->n_weights; i++) {
        size_t n = strlen(m->weights[i].name);
        if (strncmp(name, m->weights[i].name, n)) continue;
        if (!name[n] || name[n] == '/' || (rt_tables_is_large(t, i) && !strcmp(name + n, ".ids")))
            return true;
    }
    return false;
}

/* ---- damage ---- */

static bool verify(const RtTensorFile *f, const char *path, const json_t *checksums, char *err,
                   size_t err_bytes) {
    const char *name;
    json_t *wanted;
    json_object_foreach((json_t *)checksums, name, wanted) {
        char sum[20];
        const RtTensor *x = rt_tensors_find(f, name);
        const char *w = json_string_value(wanted);
        if (!x)
            snprintf(err, err_bytes, "%s: damaged: tensor '%s' is missing", path, name);
        else if (!w || strcmp(hex(rt_tensors_checksum(f, x), sum), w))
            snprintf(err, err_bytes, "%s: damaged: the checksum of tensor '%s' is %s, state.json has %s",
                     path, name, sum, w ? w : "none");
        else
            continue;
        return false;
    }
    return true;
}

bool rt_weights_whole(const char *path, const json_t *checksums, char *err, size_t err_bytes) {
    RtTensorFile *f = rt_tensors_open(path, err, err_bytes);
    bool ok = f && verify(f, path, checksums, err, err_bytes);
    rt_tensors_close(f);
    return ok;
}

/* ---- all of it ---- */

static void read_all(const RtTensorFile *f, const char *dir, const RtModel *m, RtTables *t, RtSlots slots,
                     RtLines *d) {
    int fresh = 0;
    const char *first = NULL;
    for (int i = 0; i < m->n_weights; i++) {
        int n = slots_to_read(f, &m->weights[i], slots);
        read_weight(f, m, t, i, n, d);
        if (n == m->weights[i].n_slots || slots == RT_SLOTS_NONE) continue;
        if (!fresh++) first = m->weights[i].name;
    }
    if (fresh && !d->n)
        rt_warn("%s: the optimizer's values of '%s'%s are not in the checkpoint and start afresh", dir, first,
                fresh > 1 ? " and others" : "");
    for (int i = 0; i < rt_tensors_count(f); i++)
        if (!belongs(m, t, rt_tensors_at(f, i)->name))
            rt_line(d, "'%s' is in the checkpoint, not in the model", rt_tensors_at(f, i)->name);
}

RtRead rt_weights_read(const char *path, const char *dir, const json_t *checksums, const RtModel *m,
                       RtTables *t, RtSlots slots, char *err, size_t err_bytes) {
    RtLines d = {.most = 5, .room = 800}; /* what doesn't fit */
    RtTensorFile *f = rt_tensors_open(path, err, err_bytes);
    bool whole = f && verify(f, path, checksums, err, err_bytes);
    if (whole) read_all(f, dir, m, t, slots, &d);
    rt_tensors_close(f);
    if (!whole || !d.n) return whole ? RT_READ_OK : RT_READ_DAMAGED;
    snprintf(err, err_bytes, "%s: the checkpoint doesn't fit the model '%s'%s", dir, m->name, rt_lines(&d));
    return RT_READ_OTHER;
}
