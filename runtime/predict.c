/* Predictions: one line a row, in file order. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/checkpoint.h"
#include "runtime/message.h"
#include "runtime/outfile.h"
#include "runtime/program.h"
#include "runtime/progress.h"

/* ---- lines ---- */

static void print_header(FILE *f, const RtModel *m, const RtWords *columns) {
    for (int k = 0; k < columns->n; k++) fprintf(f, "%s,", columns->v[k]);
    for (int k = 0; k < m->n_predictions; k++) fprintf(f, "%s%s", k ? "," : "", m->predictions[k].name);
    fputc('\n', f);
}

static void print_value(FILE *f, float v, bool json) {
    if (json && !isfinite(v))
        fputs("null", f);
    else
        fprintf(f, "%.9g", (double)v);
}

/* A bad row has a line, too: nan, or null in JSON. */
static bool print_rows(FILE *f, const RtExec *x, const RtBatch *b, bool json) {
    const RtModel *m = x->m;
    double keep = *rt_tables_keep_negatives(x->tables);
    for (uint32_t i = 0; i < x->step.rows; i++) {
        if (json) fputc('{', f);
        if (b->row_echo) fwrite(b->row_echo[i].p, 1, b->row_echo[i].n, f);
        for (int k = 0; k < m->n_predictions; k++) {
            const float *v = rt_exec_output(x, RT_PREDICT, m->predictions[k].output[RT_PREDICT]);
            if (k) fputc(',', f);
            if (json) fprintf(f, "\"%s\":", m->predictions[k].name); /* an identifier: nothing to escape */
            print_value(f, b->row_bad[i] ? NAN : rt_corrected(v[i], keep), json);
        }
        fputs(json ? "}\n" : "\n", f);
    }
    return !ferror(f);
}

static int predict_batches(RtExec *x, RtReader *r, const RtArgs *a, RtOut *out) {
    char err[RT_MESSAGE] = "";
    RtProgress progress;
    RtBatch *b;
    uint64_t rows = 0;
    int got = 0, code = RT_EXIT_OK;
    rt_progress_init(&progress, a->progress);
    rt_progress_begin(&progress, "prediction", rt_now());
    if (a->header && !a->format) print_header(out->f, x->m, &a->columns);
    while (code == RT_EXIT_OK && !ferror(out->f) && (got = rt_reader_next(r, &b, err, sizeof err)) > 0) {
        rt_exec_batch(x, b);
        rt_exec_run(x, RT_PREDICT, x->m->program->predict);
        rows += b->rows;
        bool ok = print_rows(out->f, x, b, a->format);
        rt_reader_release(r, b);
        if (!ok) return rt_out_failed(out);
        rt_progress_show(&progress, rt_now(), rows, NAN, rt_reader_progress(r), 0);
        code = rt_too_many_bad_rows(r, a);
    }
    rt_progress_clear();
    if (got < 0) return rt_fail(RT_EXIT_FAILED, "%s", err);
    if (code == RT_EXIT_OK) rt_warn_bad_rows(r, a->bad_rows);
    return code;
}

static int predict_with(RtExec *x, const RtArgs *a, RtTables *t) {
    char err[RT_MESSAGE] = "";
    RtReaderOptions o = rt_reader_options(x->m, a, &a->data, RT_PREDICT, t);
    o.echo = (RtEchoed){a->columns.v, a->columns.n, a->format};
    RtReader *r = rt_reader_open(x->m, &o, err, sizeof err);
    if (!r) return rt_fail(RT_EXIT_FAILED, "%s", err);
    RtOut out;
    int code = rt_out_open(&out, a->out);
    if (code == RT_EXIT_OK) code = rt_out_close(&out, predict_batches(x, r, a, &out));
    rt_reader_close(r);
    return code;
}

int rt_predict(const RtModel *m, const RtArgs *a) {
    char err[RT_MESSAGE] = "";
    if (!m->n_predictions) return rt_fail(RT_EXIT_FAILED, "the model '%s' declares no prediction", m->name);
    RtTables *t = rt_checkpoint_open(m, a->load, err, sizeof err);
    if (!t) return rt_fail(RT_EXIT_FAILED, "%s", err);
    RtExec *x = rt_exec_new(m, t, rt_args_threads(a), err, sizeof err);
    int code = x ? predict_with(x, a, t) : rt_fail(RT_EXIT_FAILED, "%s", err);
    rt_exec_free(x);
    rt_tables_free(t);
    return code;
}
