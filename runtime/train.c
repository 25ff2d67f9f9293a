/* The training loop. Everything that costs time stands in the step or in the reader; here batches are handed
 * from one to the other, and between steps it is seen to what signals and limits ask for. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/message.h"
#include "runtime/profile.h"
#include "runtime/stop.h"
#include "runtime/train.h"

/* ---- saving ---- */

/* What has become of the save that was begun last. A disk that is full now may not be so at the end, so the
 * work isn't thrown away. */
void rt_train_hear_of_save(RtTrain *t, bool wait) {
    char err[RT_MESSAGE] = "";
    RtSaveEnd end = t->saver ? rt_train_ask_save(t, wait, err, sizeof err) : RT_SAVE_NONE;
    if (end == RT_SAVE_HUNG) {
        rt_warn("%s\nfrom now on training waits for its saves", err);
        if (wait || rt_train_save(t, err, sizeof err)) return; /* who waits saves next */
    } else if (end != RT_SAVE_FAILED)
        return;
    if (t->saved)
        rt_warn("%s; training goes on, the checkpoint of step %llu stays", err,
                (unsigned long long)t->saved_at.step);
    else
        rt_warn("%s; training goes on without a checkpoint", err);
}

/* While training goes on. Where saves are due faster than the disk takes them training waits for it: each is
 * made, and there are never two snapshots. */
static void save_midway(RtTrain *t) {
    rt_train_hear_of_save(t, true);
    rt_train_start_save(t);
    rt_train_hear_of_save(t, false);
}

static int save(RtTrain *t) {
    char err[RT_MESSAGE] = "";
    rt_train_hear_of_save(t, true);
    if (rt_train_save(t, err, sizeof err)) return RT_EXIT_OK;
    return rt_fail(RT_EXIT_FAILED, "%s", err);
}

/* At the end: with --early-stop the best checkpoint, which may be of an earlier step. */
static int save_result(RtTrain *t) {
    char err[RT_MESSAGE] = "";
    if (!rt_judge_takes_best(t)) return save(t);
    rt_train_hear_of_save(t, true);
    if (rt_saver_put_best(t->saver, err, sizeof err)) return RT_EXIT_OK;
    return rt_fail(RT_EXIT_FAILED, "%s", err);
}

static int stop(RtTrain *t) {
    int code = save(t);
    if (code != RT_EXIT_OK) return code;
    fprintf(stderr, "stopped by %s after step %llu, saved to %s; --resume goes on\n", rt_stop_reason(),
            (unsigned long long)t->x->step.step, t->a->save);
    return RT_EXIT_AGAIN;
}

/* What signals and the clock ask for, between two steps. */
static int heed(RtTrain *t) {
    if (rt_stop_reason()) return RT_EXIT_AGAIN;
    if (!rt_stop_save_asked()) return RT_EXIT_OK;
    if (t->saver)
        save_midway(t);
    else
        rt_warn("SIGUSR1 asks to save, but there is no --save");
    return RT_EXIT_OK;
}

/* ---- the loop ---- */

static bool done(const RtTrain *t) {
    return (t->steps >= 0 && t->run.steps >= (uint64_t)t->steps) ||
           (t->epochs && t->epoch_number >= (uint64_t)t->epochs) || t->judge.stop;
}

/* After each end of an epoch, and where --eval-every asks for it. */
static int judge(RtTrain *t) {
    if (rt_train_evaluates(t)) rt_judge(t);
    return RT_EXIT_OK;
}

static int end_epoch(RtTrain *t) {
    t->ended = true;
    int code = rt_train_end_epoch(t);
    if (code != RT_EXIT_OK) return code;
    t->ended = false;
    t->epoch_number++;
    rt_train_begin_epoch(t);
    return judge(t);
}

static int evaluate_midway(RtTrain *t) {
    t->due = true;
    int code = rt_train_evaluate_midway(t);
    if (code != RT_EXIT_OK) return code;
    t->due = false;
    return judge(t);
}

static bool evaluation_is_due(const RtTrain *t, uint64_t rows) {
    const RtEvery *e = &t->a->eval_every;
    if (!e->n) return false;
    uint64_t n = (uint64_t)e->n;
    return e->rows ? t->run.rows / n > (t->run.rows - rows) / n : t->run.steps % n == 0;
}

static int step(RtTrain *t, RtBatch *b) {
    uint64_t begun = rt_span();
    rt_exec_batch(t->x, b);
    rt_train_before_step(t);
    if (!rt_exec_run(t->x, RT_TRAIN, t->m->program->train))
        return rt_report_nan(t->x, RT_TRAIN, t->reader, b);
    if (!rt_train_evaluates(t)) rt_collect(t->x, RT_TRAIN, t->metrics);
    rt_train_count(t);
    rt_span_end(begun, "step");
    return RT_EXIT_OK;
}

static int use(RtTrain *t, RtBatch *b) {
    bool last = b->last_of_epoch;
    uint32_t rows = b->rows;
    int code = step(t, b);
    rt_reader_release(t->reader, b);
    if (code == RT_EXIT_OK) code = rt_too_many_bad_rows(t->reader, t->a);
    if (code == RT_EXIT_OK && last)
        code = end_epoch(t);
    else if (code == RT_EXIT_OK && evaluation_is_due(t, rows))
        code = evaluate_midway(t);
    bool due = t->a->save_every > 0 && t->run.steps % (uint64_t)t->a->save_every == 0;
    if (code == RT_EXIT_OK && due && !done(t)) save_midway(t);
    return code;
}

/* Where --steps ends an epoch early, or evaluations do. */
static int cut_epoch(RtTrain *t) {
    bool judged = t->evaluation && t->evaluated_step == t->run.steps;
    int code = rt_train_end_epoch(t);
    if (code == RT_EXIT_OK && rt_train_evaluates(t) && !judged) rt_judge_cut(t);
    return code;
}

static int loop(RtTrain *t) {
    char err[RT_MESSAGE] = "";
    int code = t->ended ? end_epoch(t) : t->due ? evaluate_midway(t) : RT_EXIT_OK;
    while (code == RT_EXIT_OK && !done(t)) {
        RtBatch *b;
        rt_train_hear_of_save(t, false);
        if ((code = heed(t)) != RT_EXIT_OK) return code;
        rt_profile_step(t->run.steps + 1);
        uint64_t begun = rt_span();
        int got = rt_reader_next(t->reader, &b, err, sizeof err);
        rt_span_end(begun, "wait for rows");
        if (got < 0) return rt_fail(RT_EXIT_FAILED, "%s", err);
        if (got == 0) break;
        if (got == 1) code = use(t, b);
    }
    if (code == RT_EXIT_OK && !t->run.rows && t->steps)
        return rt_fail(RT_EXIT_FAILED, "the data has no rows");
    if (code == RT_EXIT_OK && (t->in_epoch || (t->steps == 0 && rt_train_evaluates(t)))) code = cut_epoch(t);
    return code;
}

/* ---- setting up ---- */

/* Whether training reads the second file, which is of no use to a model that uses none of its columns. */
static bool reads_beside(const RtModel *m) {
    for (int i = 0; i < m->n_columns; i++)
        if (m->columns[i].side && m->columns[i].used) return true;
    return false;
}

static bool is_pipe(const char *path) {
    struct stat st;
    return !stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* Stdin is read once, and so is a pipe that has a name, as the shell gives one to <(…). */
static int check_stdin(const RtModel *m, const RtWords *files, const char *option, bool once,
                       const char *hint) {
    for (int i = 0; i < files->n; i++) {
        bool standard = !strcmp(files->v[i], "-");
        if (standard && reads_beside(m))
            return rt_fail(RT_EXIT_USAGE,
                           "%s -: the model reads a second file beside each, which stdin has not", option);
        if (!once && (standard || is_pipe(files->v[i])))
            return rt_fail(RT_EXIT_USAGE, "%s %s: %s can be read once only\nhint: %s", option, files->v[i],
                           standard ? "stdin" : "a pipe", hint);
    }
    return RT_EXIT_OK;
}

/* What reads --data, or evaluation data, more often than there are epochs. Of stdin args.c sees to it. */
static int check_pipes(const RtArgs *a) {
    const char *twice = a->validate_first > 0  ? "--validate-first"
                        : a->eval_fraction > 0 ? "--eval-fraction"
                                               : NULL;
    for (int i = 0; twice && i < a->data.n; i++)
        if (is_pipe(a->data.v[i]))
            return rt_fail(RT_EXIT_USAGE, "--data %s: a pipe can be read once only, %s reads it twice",
                           a->data.v[i], twice);
    for (int i = 0; a->eval_every.n && i < a->eval_data.n; i++)
        if (is_pipe(a->eval_data.v[i]))
            return rt_fail(RT_EXIT_USAGE,
                           "--eval-data %s: a pipe can be read once only, --eval-every reads it again",
                           a->eval_data.v[i]);
    return RT_EXIT_OK;
}

static int check_usage(const RtModel *m, const RtArgs *a, int64_t epochs) {
    int code =
        check_stdin(m, &a->data, "--data", epochs == 1 || a->cache, "add --epochs 1 or --cache memory");
    if (code == RT_EXIT_OK)
        code = check_stdin(m, &a->eval_data, "--eval-data", epochs == 1, "add --epochs 1");
    if (code == RT_EXIT_OK) code = check_pipes(a);
    if (code == RT_EXIT_OK && a->keep_negatives > 0 && rt_label_column(m) < 0)
        return rt_fail(RT_EXIT_USAGE,
                       "--keep-negatives: expected a model with one label, which lies in [0, 1]");
    return code;
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

static int open_reader(RtTrain *t) {
    char err[RT_MESSAGE] = "";
    RtReaderOptions o = rt_reader_options(t->m, t->a, &t->a->data, RT_TRAIN, t->tables);
    o.shuffle = t->shuffle;
    o.seed = t->seed;
    o.epochs = (uint64_t)t->epochs;
    o.cache = t->a->cache;
    o.first_epoch = t->epoch_number + t->ended;
    o.skip_rows = t->ended ? 0 : t->epoch.rows;
    o.sampling = (RtSampling){.hold_out = t->a->eval_fraction, .keep_negatives = t->a->keep_negatives};
    o.wake = rt_stop_wake;
    if (o.first_epoch) { /* bad rows are those of the first epoch: their file is written, they are counted */
        o.bad_path = NULL;
        o.bad_before = t->bad_before;
        o.first_bad = t->first_bad;
    }
    if (!(t->reader = rt_reader_open(t->m, &o, err, sizeof err))) return rt_fail(RT_EXIT_FAILED, "%s", err);
    return RT_EXIT_OK;
}

enum { PROFILED = 100 }; /* steps, if none are given: those that come first */

static int open_profile(RtTrain *t) {
    char err[RT_MESSAGE] = "";
    RtRange r = t->a->profile_steps;
    if (!t->a->profile) return RT_EXIT_OK;
    if (!r.last) r = (RtRange){(int64_t)t->run.steps + 1, (int64_t)t->run.steps + PROFILED};
    if (!rt_profile_open(t->m, t->a->profile, (uint64_t)r.first, (uint64_t)r.last, err, sizeof err))
        return rt_fail(RT_EXIT_FAILED, "%s", err);
    if (!done(t)) rt_profile_step(t->run.steps + 1); /* the reader begins before the loop does */
    return RT_EXIT_OK;
}

static int close_profile(const RtTrain *t) {
    char err[RT_MESSAGE] = "";
    uint64_t steps;
    if (!rt_profile_close(&steps, err, sizeof err)) return rt_fail(RT_EXIT_FAILED, "%s", err);
    if (!steps && t->a->profile && t->x)
        rt_warn("%s: no step was recorded, training ended after step %llu", t->a->profile,
                (unsigned long long)t->run.steps);
    return RT_EXIT_OK;
}

static int open_all(RtTrain *t) {
    char err[RT_MESSAGE] = "";
    const RtArgs *a = t->a;
    int code = find_eval_data(&a->eval_data);
    if (code == RT_EXIT_OK && a->validate_first > 0 && a->data.n) code = rt_validate_first(t->m, a);
    if (code != RT_EXIT_OK) return code;
    int keep = a->keep <= 0 ? 2 : a->keep < INT_MAX ? (int)a->keep : INT_MAX;
    if (a->save && !(t->saver = rt_saver_open(a->save, keep, err, sizeof err)))
        return rt_fail(RT_EXIT_FAILED, "%s", err);
    rt_progress_init(&t->progress, a->progress);
    t->metrics = rt_metrics_new(t->m);
    if ((code = rt_train_start(t)) != RT_EXIT_OK) return code;
    if ((code = open_profile(t)) != RT_EXIT_OK) return code;
    if (!rt_train_open_logs(t, err, sizeof err)) return rt_fail(RT_EXIT_FAILED, "%s", err);
    if (!(t->x = rt_exec_new(t->m, t->tables, rt_args_threads(a), err, sizeof err)))
        return rt_fail(RT_EXIT_FAILED, "%s", err);
    t->x->step.step = t->run.steps;
    rt_train_name_epoch(t);
    return done(t) ? RT_EXIT_OK : open_reader(t);
}

static int run(RtTrain *t) {
    rt_stop_watch(t->a->save, t->a->stop_after);
    int code = open_all(t);
    if (code != RT_EXIT_OK) return code;
    code = loop(t);
    rt_progress_clear();
    if (code == RT_EXIT_AGAIN) return stop(t);
    if (code == RT_EXIT_OK && t->a->save) code = save_result(t);
    if (code == RT_EXIT_OK) code = rt_train_print(t);
    return code;
}

int rt_train(const RtModel *m, const RtArgs *a) {
    char err[RT_MESSAGE] = "";
    RtTrain t = {.m = m, .a = a};
    t.epochs = a->epochs >= 0 ? a->epochs : m->epochs;
    t.steps = a->steps >= 0 ? a->steps : m->steps > 0 ? m->steps : -1;
    t.log_every = a->log_every > 0 ? a->log_every : 100;
    t.shuffle = a->no_shuffle ? 0 : (uint64_t)m->shuffle;
    int code = check_usage(m, a, t.epochs);
    if (code == RT_EXIT_OK) code = rt_judge_init(&t);
    if (code == RT_EXIT_OK) code = run(&t);
    rt_train_hear_of_save(&t, true);
    if (t.reader) rt_reader_close(t.reader);
    if (!rt_train_close_logs(&t, err, sizeof err) && code == RT_EXIT_OK)
        code = rt_fail(RT_EXIT_FAILED, "%s", err);
    rt_saver_close(t.saver);
    rt_stop_unwatch();
    json_decref(t.entries);
    json_decref(t.last);
    rt_digester_end(t.digester);
    json_decref(t.data);
    json_decref(t.eval_data);
    json_decref(t.evaluation);
    json_decref(t.evaluations);
    free(t.first_bad);
    rt_metrics_free(t.metrics);
    rt_exec_free(t.x); /* its threads end, then nothing writes to the profile any more */
    int profiled = close_profile(&t);
    rt_tables_free(t.tables);
    return code != RT_EXIT_OK ? code : profiled;
}
