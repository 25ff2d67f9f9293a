/* Evaluation: all rows once, metrics over them. Used by `eval`, and by `train` after each epoch. */
#include <math.h>
#include <stdlib.h>
#include "runtime/checkpoint.h"
#include "runtime/message.h"
#include "runtime/program.h"
#include "runtime/progress.h"
#include "runtime/stop.h"

float rt_corrected(float p, double keep) {
    double q = p;
    return keep >= 1 || !(q >= 0 && q <= 1) ? p : (float)(q / (q + (1 - q) / keep));
}

static void add_rows(const RtExec *x, int function, RtMetrics *s, int metric, const float *p, const float *y,
                     const float *where, const uint64_t *by) {
    double keep = *rt_tables_keep_negatives(x->tables);
    uint32_t rows = x->step.rows;
    if (function != RT_EVAL || keep >= 1) {
        rt_metrics_add(s, metric, rows, p, y, where, by);
        return;
    }
    float q[256]; /* what the function left may be looked at again: it stays as it is */
    for (uint32_t i = 0, n; i < rows; i += n) {
        n = rows - i < 256 ? rows - i : 256;
        for (uint32_t k = 0; k < n; k++) q[k] = rt_corrected(p[i + k], keep);
        rt_metrics_add(s, metric, n, q, y + i, where ? where + i : NULL, by ? by + i : NULL);
    }
}

void rt_collect(const RtExec *x, int function, RtMetrics *s) {
    const RtModel *m = x->m;
    for (int i = 0; i < m->n_metrics; i++) {
        const RtMetric *t = &m->metrics[i];
        const void *where = t->where[function] >= 0 ? rt_exec_output(x, function, t->where[function]) : NULL;
        const void *by = t->by[function] >= 0 ? rt_exec_output(x, function, t->by[function]) : NULL;
        add_rows(x, function, s, i, rt_exec_output(x, function, t->p[function]),
                 rt_exec_output(x, function, t->y[function]), where, by);
    }
}

static int evaluate_batches(RtExec *x, const RtArgs *a, RtReader *r, RtMetrics *s, RtProgress *progress,
                            RtEvaluation *out) {
    char err[RT_MESSAGE] = "";
    RtBatch *b;
    double loss = 0;
    int got, code = RT_EXIT_OK;
    while (code == RT_EXIT_OK && (got = rt_reader_next(r, &b, err, sizeof err)) > 0) {
        if (rt_stop_reason()) return RT_EXIT_AGAIN;
        if (got == 2) continue;
        rt_exec_batch(x, b);
        if (!rt_exec_run(x, RT_EVAL, x->m->program->eval)) return rt_report_nan(x, RT_EVAL, r, b);
        rt_collect(x, RT_EVAL, s);
        loss += (double)x->loss * b->rows;
        out->rows += b->rows;
        rt_reader_release(r, b);
        rt_progress_show(progress, rt_now(), out->rows, loss / (double)out->rows, rt_reader_progress(r), 0);
        code = rt_too_many_bad_rows(r, a);
    }
    out->loss = loss / (double)out->rows;
    out->bad_rows = rt_reader_bad_rows(r);
    out->wait = rt_reader_wait_seconds(r);
    return code != RT_EXIT_OK ? code : got < 0 ? rt_fail(RT_EXIT_FAILED, "%s", err) : RT_EXIT_OK;
}

int rt_evaluate(RtExec *x, const RtArgs *a, const RtWords *paths, RtMetrics *s, RtProgress *progress,
                RtEvaluation *out) {
    char err[RT_MESSAGE] = "";
    double start = rt_now();
    RtReaderOptions o = rt_reader_options(x->m, a, paths, RT_EVAL, x->tables);
    if (a->command == RT_CMD_TRAIN) o.bad_path = NULL; /* it holds the rows of --data */
    o.sampling = (RtSampling){.hold_out = a->eval_fraction, .held = true};
    o.wake = a->command == RT_CMD_TRAIN ? rt_stop_wake : NULL;
    *out = (RtEvaluation){0};
    rt_metrics_reset(s);
    rt_progress_begin(progress, "evaluation", start);
    RtReader *r = rt_reader_open(x->m, &o, err, sizeof err);
    if (!r) return rt_fail(RT_EXIT_FAILED, "%s", err);
    int code = evaluate_batches(x, a, r, s, progress, out);
    rt_progress_clear();
    if (code == RT_EXIT_OK) rt_warn_bad_rows(r, o.bad_path);
    rt_reader_close(r);
    out->seconds = rt_now() - start;
    return code;
}

static int print(const RtModel *m, const RtArgs *a, const RtExec *x, RtMetrics *s, const RtEvaluation *e) {
    json_t *o = json_object();
    json_object_set_new(o, "model", json_string(m->name));
    json_object_set_new(o, "rows", json_integer((json_int_t)e->rows));
    json_object_set_new(o, "loss", rt_real(e->rows ? e->loss : NAN));
    rt_report_metrics(m, s, o, true);
    json_object_set_new(o, "samples_per_s", rt_real((double)e->rows / e->seconds));
    json_object_set_new(o, "seconds", json_real(e->seconds));
    json_object_set_new(o, "read_s", json_real(e->wait));
    json_object_set_new(o, "compute_s", json_real(x->run_seconds));
    json_object_set_new(o, "bad_rows", json_integer((json_int_t)e->bad_rows));
    if (a->calibration) json_object_set_new(o, "calibration", rt_calibration(m, s));
    if (a->json) return rt_print_json(o);
    printf("%s: %llu rows in %.1f s\n", m->name, (unsigned long long)e->rows, e->seconds);
    printf("%-20s %.6f\n", "loss", e->loss);
    rt_print_metrics(m, o, true, stdout);
    if (a->calibration) rt_print_calibration(json_object_get(o, "calibration"));
    json_decref(o);
    return rt_flush_stdout();
}

int rt_eval(const RtModel *m, const RtArgs *a) {
    char err[RT_MESSAGE] = "";
    if (a->calibration && !m->n_metrics)
        return rt_fail(
            RT_EXIT_USAGE,
            "--calibration: expected a model with a metric, which pairs a prediction with a label");
    RtTables *t = rt_checkpoint_open(m, a->load, err, sizeof err);
    if (!t) return rt_fail(RT_EXIT_FAILED, "%s", err);
    RtExec *x = rt_exec_new(m, t, rt_args_threads(a), err, sizeof err);
    RtMetrics *s = rt_metrics_new(m);
    RtProgress progress;
    RtEvaluation e;
    rt_progress_init(&progress, a->progress);
    if (a->calibration) rt_metrics_keep(s);
    int code = x ? rt_evaluate(x, a, &a->data, s, &progress, &e) : rt_fail(RT_EXIT_FAILED, "%s", err);
    if (code == RT_EXIT_OK) code = print(m, a, x, s, &e);
    rt_metrics_free(s);
    rt_exec_free(x);
    rt_tables_free(t);
    return code;
}
