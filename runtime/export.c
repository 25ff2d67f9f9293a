/* `export`: a checkpoint in forms that other programs read. */
#include "runtime/export.h"
#include <stdlib.h>
#include <string.h>
#include "runtime/checkpoint.h"
#include "runtime/message.h"
#include "runtime/outfile.h"
#include "runtime/program.h"
#include "runtime/safetensors.h"

bool rt_weight_values(RtTables *t, int weight, RtPut put, void *own) {
    const float *dense = rt_tables_dense(t, weight, 0);
    uint64_t width = rt_tables_width(t, weight), rows = rt_tables_rows(t, weight);
    if (dense) return put(own, dense, rows * width * sizeof *dense);
    float *row = malloc(width * sizeof *row);
    if (!row) rt_out_of_memory();
    bool ok = true;
    for (uint64_t i = 0; i < rows && ok; i++) {
        rt_tables_get_row(t, weight, (uint32_t)i, 0, row);
        ok = put(own, row, width * sizeof *row);
    }
    free(row);
    return ok;
}

/* ---- safetensors ---- */

static bool put_tensor(void *own, const void *data, uint64_t bytes) {
    return rt_tensors_write(own, data, bytes);
}

/* Other than a checkpoint it has no slots, and every table whole: NAME with the shape that the model gives
 * it. */
static bool write_safetensors(FILE *f, const char *path, const RtModel *m, RtTables *t, char *err,
                              size_t err_bytes) {
    RtTensor *list = calloc((size_t)m->n_weights + 1, sizeof *list);
    if (!list) rt_out_of_memory();
    for (int i = 0; i < m->n_weights; i++) {
        const RtWeight *w = &m->weights[i];
        list[i] = (RtTensor){.name = (char *)w->name, .rank = w->rank, .source = i};
        memcpy(list[i].dim, w->dim, sizeof list[i].dim);
    }
    char keep[40];
    snprintf(keep, sizeof keep, "%.17g", *rt_tables_keep_negatives(t));
    const char *const metadata[] = {"format", "pt",      "model",          m->name, "ctrc", m->ctrc,
                                    "digest", m->digest, "keep_negatives", keep,    NULL};
    RtTensorWriter *out = rt_tensors_begin(f, path, list, m->n_weights, metadata);
    for (int i = 0; i < m->n_weights && rt_weight_values(t, list[i].source, put_tensor, out); i++) continue;
    free(list);
    return rt_tensors_end(out, err, err_bytes);
}

/* ---- the command ---- */

static int export_tables(const RtModel *m, const RtArgs *a, RtTables *t) {
    char err[RT_MESSAGE] = "";
    RtOut out;
    int code = rt_out_open(&out, a->out);
    if (code != RT_EXIT_OK) return code;
    bool ok = a->export_format == RT_EXPORT_ONNX ? rt_onnx_write(out.f, m, t, err, sizeof err)
                                                 : write_safetensors(out.f, a->out, m, t, err, sizeof err);
    return rt_out_close(&out, ok ? RT_EXIT_OK : rt_fail(RT_EXIT_FAILED, "%s", err));
}

int rt_export(const RtModel *m, const RtArgs *a) {
    char err[RT_MESSAGE] = "";
    RtTables *t = rt_checkpoint_open(m, a->load, err, sizeof err);
    if (!t) return rt_fail(RT_EXIT_FAILED, "%s", err);
    int code = export_tables(m, a, t);
    rt_tables_free(t);
    return code;
}
