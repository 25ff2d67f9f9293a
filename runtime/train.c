/* The training loop. Everything that costs time stands in the step or in the reader; here batches are handed
 * from one to the other, and numbers are collected between steps. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/checkpoint.h"
#include "runtime/log.h"
#include "runtime/message.h"
#include "runtime/program.h"
#include "runtime/progress.h"

typedef struct {
    uint64_t rows, steps;
    double loss;             /* sum over rows */
    double start, evaluated; /* evaluated: seconds of evaluation since start, not counted as training */
} Part;

typedef struct {
    const RtModel *m;
    const RtArgs *a;
    RtTables *tables;
    RtExec *x;
    RtReader *reader; /* NULL with --steps 0 */
    RtMetrics *metrics;
    RtLog *log;
    RtProgress progress;
    int64_t epochs, steps, log_every; /* steps -1: no limit */
    char what[64];                    /* of the progress line */
    Part run, epoch, logged;          /* since the beginning, of the epoch, since the last line of the log */
    uint64_t epoch_number;            /* from 0 */
    bool in_epoch;                    /* rows were used that no entry of `epochs` holds yet */
    json_t *entries, *last; /* entries of "epochs"; metrics of the last one, with eval_rows and eval_loss */
} Train;

static double mean_loss(const Part *p) { return p->rows ? p->loss / (double)p->rows : NAN; }
static double seconds(const Part *p) { return rt_now() - p->start - p->evaluated; }

static void begin_epoch(Train *t) {
    t->epoch = (Part){.start = rt_now()};
    t->in_epoch = false;
    rt_metrics_reset(t->metrics);
    if (t->epochs)
        snprintf(t->what, sizeof t->what, "epoch %llu/%lld", (unsigned long long)t->epoch_number + 1,
                 (long long)t->epochs);
    else
        snprintf(t->what, sizeof t->what, "epoch %llu", (unsigned long long)t->epoch_number + 1);
    rt_progress_begin(&t->progress, t->what, t->epoch.start);
}

/* ---- after each step ---- */

static void add(Part *p, const RtExec *x) {
    p->rows += x->step.rows;
    p->steps++;
    p->loss += (double)x->loss * x->step.rows;
}

static void log_step(Train *t) {
    if (!t->log || t->run.steps % (uint64_t)t->log_every) return;
    json_t *o = json_object();
    double s = seconds(&t->logged);
    json_object_set_new(o, "step", json_integer((json_int_t)t->run.steps));
    json_object_set_new(o, "epoch", json_integer((json_int_t)t->epoch_number + 1));
    json_object_set_new(o, "rows", json_integer((json_int_t)t->run.rows));
    json_object_set_new(o, "loss", rt_real(mean_loss(&t->logged)));
    json_object_set_new(o, "samples_per_s", rt_real((double)t->logged.rows / s));
    json_object_set_new(o, "seconds", json_real(rt_now() - t->run.start));
    rt_log_write(t->log, o);
    t->logged = (Part){.start = rt_now()};
}

static void show_progress(Train *t) {
    if (!t->progress.on) return;
    double share = rt_reader_progress(t->reader),
           more = t->epochs ? (double)t->epochs - 1 - (double)t->epoch_number : 0;
    if (t->steps > 0) { /* whichever ends first */
        double part = (double)t->epoch.steps / (double)((uint64_t)t->steps - (t->run.steps - t->epoch.steps));
        if (share < 0 || part * (1 + more) > share) share = part, more = 0;
    }
    rt_progress_show(&t->progress, rt_now(), t->epoch.rows, mean_loss(&t->epoch), share, more);
}

/* ---- after each epoch ---- */

static int evaluate(Train *t, json_t *entry) {
    RtEvaluation e;
    int code = rt_evaluate(t->x, t->a, &t->a->eval_data, t->metrics, &t->progress, &e);
    t->run.evaluated += e.seconds;
    t->logged.evaluated += e.seconds;
    if (code != RT_EXIT_OK) return code;
    json_object_set_new(entry, "eval_rows", json_integer((json_int_t)e.rows));
    json_object_set_new(entry, "eval_loss", rt_real(e.loss));
    return code;
}

static void log_epoch(Train *t, const json_t *entry) {
    if (!t->log) return;
    json_t *o = json_object();
    json_object_set_new(o, "step", json_integer((json_int_t)t->run.steps));
    json_object_set_new(o, "epoch_end", json_integer((json_int_t)t->epoch_number + 1));
    json_object_update(o, (json_t *)entry);
    rt_log_write(t->log, o);
}

static int end_epoch(Train *t) {
    json_t *entry = json_object();
    double s = seconds(&t->epoch);
    json_object_set_new(entry, "rows", json_integer((json_int_t)t->epoch.rows));
    json_object_set_new(entry, "loss", rt_real(mean_loss(&t->epoch)));
    json_object_set_new(entry, "seconds", json_real(s));
    json_object_set_new(entry, "samples_per_s", rt_real((double)t->epoch.rows / s));
    json_array_append_new(t->entries, entry);
    json_decref(t->last);
    t->last = json_object();
    int code = t->a->eval_data.n ? evaluate(t, t->last) : RT_EXIT_OK;
    if (code != RT_EXIT_OK) return code;
    rt_report_metrics(t->m, t->metrics, t->last, true);
    json_object_update(entry, t->last);
    log_epoch(t, entry);
    rt_progress_clear();
    if (!t->a->json && t->epochs != 1) {
        printf("epoch %llu: %llu rows in %.1f s, loss %.6f", (unsigned long long)t->epoch_number + 1,
               (unsigned long long)t->epoch.rows, s, mean_loss(&t->epoch));
        rt_print_metrics(t->m, t->last, false, stdout);
        printf("\n");
        fflush(stdout);
    }
    t->in_epoch = false;
    return code;
}

/* ---- the loop ---- */

static int step(Train *t, const RtBatch *b) {
    rt_exec_batch(t->x, b);
    if (!rt_exec_run(t->x, RT_TRAIN, t->m->program->train))
        return rt_report_nan(t->x, RT_TRAIN, t->reader, b);
    if (!t->a->eval_data.n) rt_collect(t->x, RT_TRAIN, t->metrics);
    add(&t->run, t->x);
    add(&t->epoch, t->x);
    add(&t->logged, t->x);
    t->in_epoch = true;
    log_step(t);
    show_progress(t);
    return RT_EXIT_OK;
}

static int loop(Train *t) {
    char err[RT_MESSAGE] = "";
    int code = RT_EXIT_OK;
    while (code == RT_EXIT_OK && (t->steps < 0 || t->run.steps < (uint64_t)t->steps)) {
        RtBatch *b;
        int got = rt_reader_next(t->reader, &b, err, sizeof err);
        if (got < 0) return rt_fail(RT_EXIT_FAILED, "%s", err);
        if (got == 0) break;
        bool last = b->last_of_epoch;
        code = step(t, b);
        rt_reader_release(t->reader, b);
        if (code == RT_EXIT_OK) code = rt_too_many_bad_rows(t->reader, t->a);
        if (code != RT_EXIT_OK || !last) continue;
        code = end_epoch(t);
        t->epoch_number++;
        begin_epoch(t);
    }
    if (code == RT_EXIT_OK && !t->run.rows && t->steps)
        return rt_fail(RT_EXIT_FAILED, "the data has no rows");
    if (code == RT_EXIT_OK && (t->in_epoch || (t->steps == 0 && t->a->eval_data.n))) code = end_epoch(t);
    return code;
}

static int save(Train *t) {
    char err[RT_MESSAGE] = "";
    RtState s = {.step = t->x->step.step, .epoch = t->epoch_number, .epoch_rows = t->epoch.rows};
    if (rt_checkpoint_save(t->a->save, t->m, t->tables, &s, err, sizeof err)) return RT_EXIT_OK;
    return rt_fail(RT_EXIT_FAILED, "%s", err);
}

/* ---- results ---- */

static json_t *memory(const Train *t) { /* bytes */
    json_int_t cache = t->reader ? (json_int_t)rt_reader_cache_bytes(t->reader) : 0;
    return json_pack("{s:I,s:I,s:I}", "weights", (json_int_t)rt_tables_bytes(t->tables), "step",
                     (json_int_t)rt_exec_bytes(t->x), "cache", cache);
}

static int print(Train *t, double total) {
    const json_t *entry = json_array_get(t->entries, json_array_size(t->entries) - 1);
    const json_t *loss = json_object_get(entry, "loss");
    json_t *o = json_object();
    double wait = t->reader ? rt_reader_wait_seconds(t->reader) : 0;
    uint64_t bad = t->reader ? rt_reader_bad_rows(t->reader) : 0;
    if (t->reader) rt_warn_bad_rows(t->reader, t->a->bad_rows);
    json_object_set_new(o, "model", json_string(t->m->name));
    json_object_set_new(o, "rows", json_integer((json_int_t)t->run.rows));
    json_object_set_new(o, "steps", json_integer((json_int_t)t->run.steps));
    json_object_set_new(o, "loss", loss ? json_incref((json_t *)loss) : json_null());
    if (t->last) json_object_update(o, t->last);
    json_object_set_new(o, "samples_per_s", rt_real(t->run.rows ? (double)t->run.rows / total : NAN));
    json_object_set_new(o, "seconds", json_real(total));
    json_object_set_new(o, "read_s", json_real(wait));
    json_object_set_new(o, "compute_s", json_real(t->x->run_seconds));
    json_object_set_new(o, "bad_rows", json_integer((json_int_t)bad));
    json_object_set_new(o, "memory", memory(t));
    json_object_set_new(o, "epochs", json_incref(t->entries));
    if (t->a->json) return rt_print_json(o);
    printf("%s: %llu rows, %llu steps in %.1f s", t->m->name, (unsigned long long)t->run.rows,
           (unsigned long long)t->run.steps, total);
    if (t->run.rows) printf(" (%.0f rows/s)", (double)t->run.rows / total);
    printf("\n");
    if (json_is_real(loss)) printf("%-20s %.6f\n", "loss", json_real_value(loss));
    if (json_is_real(json_object_get(t->last, "eval_loss")))
        printf("%-20s %.6f\n", "loss (evaluation)", json_real_value(json_object_get(t->last, "eval_loss")));
    if (t->last) rt_print_metrics(t->m, o, true, stdout);
    if (t->a->save) printf("%-20s %s\n", "saved to", t->a->save);
    json_decref(o);
    return rt_flush_stdout();
}

/* ---- setting up ---- */

/* Whether training reads the second file, which is of no use to a model that uses none of its columns. */
static bool reads_beside(const RtModel *m) {
    for (int i = 0; i < m->n_columns; i++)
        if (m->columns[i].side && m->columns[i].used) return true;
    return false;
}

/* Stdin is read once. */
static int check_stdin(const RtModel *m, const RtWords *files, const char *option, bool once,
                       const char *hint) {
    for (int i = 0; i < files->n; i++) {
        if (strcmp(files->v[i], "-")) continue;
        if (reads_beside(m))
            return rt_fail(RT_EXIT_USAGE,
                           "%s -: the model reads a second file beside each, which stdin has not", option);
        if (!once) return rt_fail(RT_EXIT_USAGE, "%s -: stdin can be read once only\nhint: %s", option, hint);
    }
    return RT_EXIT_OK;
}

static int check_usage(const RtModel *m, const RtArgs *a, int64_t epochs) {
    int code =
        check_stdin(m, &a->data, "--data", epochs == 1 || a->cache, "add --epochs 1 or --cache memory");
    if (code != RT_EXIT_OK) return code;
    return check_stdin(m, &a->eval_data, "--eval-data", epochs == 1, "add --epochs 1");
}

/* Evaluation data is opened after an epoch; that it isn't there at all is told before. */
static int find_eval_data(const RtWords *files) {
    char reason[RT_SHOWN];
    for (int i = 0; i < files->n; i++)
        if (strcmp(files->v[i], "-") && access(files->v[i], R_OK))
            return rt_fail(RT_EXIT_FAILED, "%s: error: cannot open: %s", files->v[i],
                           rt_reason(errno, reason));
    return RT_EXIT_OK;
}

static int open_all(Train *t) {
    char err[RT_MESSAGE] = "";
    const RtModel *m = t->m;
    const RtArgs *a = t->a;
    int code = find_eval_data(&a->eval_data);
    if (code != RT_EXIT_OK) return code;
    if (a->save && !rt_checkpoint_probe(a->save, err, sizeof err)) return rt_fail(RT_EXIT_FAILED, "%s", err);
    if (a->log && !(t->log = rt_log_open(a->log, err, sizeof err))) return rt_fail(RT_EXIT_FAILED, "%s", err);
    uint64_t seed = (uint64_t)(a->seed_given ? a->seed : m->seed);
    if (!(t->tables = rt_tables_new(m, seed, err, sizeof err))) return rt_fail(RT_EXIT_FAILED, "%s", err);
    if (!(t->x = rt_exec_new(m, t->tables, rt_args_threads(a), err, sizeof err)))
        return rt_fail(RT_EXIT_FAILED, "%s", err);
    t->metrics = rt_metrics_new(m);
    t->entries = json_array();
    rt_progress_init(&t->progress, a->progress);
    if (t->steps == 0) return RT_EXIT_OK;
    RtReaderOptions o = rt_reader_options(m, a, &a->data, RT_TRAIN, t->tables);
    o.shuffle = a->no_shuffle ? 0 : (uint64_t)m->shuffle;
    o.seed = seed;
    o.epochs = (uint64_t)t->epochs;
    o.cache = a->cache;
    if (!(t->reader = rt_reader_open(m, &o, err, sizeof err))) return rt_fail(RT_EXIT_FAILED, "%s", err);
    return RT_EXIT_OK;
}

static int run(Train *t) {
    int code = open_all(t);
    if (code != RT_EXIT_OK) return code;
    t->run.start = t->logged.start = rt_now();
    begin_epoch(t);
    code = loop(t);
    double total = seconds(&t->run);
    rt_progress_clear();
    if (code == RT_EXIT_OK && t->a->save) code = save(t);
    if (code == RT_EXIT_OK) code = print(t, total);
    return code;
}

int rt_train(const RtModel *m, const RtArgs *a) {
    char err[RT_MESSAGE] = "";
    Train t = {.m = m, .a = a};
    t.epochs = a->epochs >= 0 ? a->epochs : m->epochs;
    t.steps = a->steps >= 0 ? a->steps : m->steps > 0 ? m->steps : -1;
    t.log_every = a->log_every > 0 ? a->log_every : 100;
    int code = check_usage(m, a, t.epochs);
    if (code == RT_EXIT_OK) code = run(&t);
    if (t.reader) rt_reader_close(t.reader);
    if (!rt_log_close(t.log, err, sizeof err) && code == RT_EXIT_OK)
        code = rt_fail(RT_EXIT_FAILED, "%s", err);
    json_decref(t.entries);
    json_decref(t.last);
    rt_metrics_free(t.metrics);
    rt_exec_free(t.x);
    rt_tables_free(t.tables);
    return code;
}
