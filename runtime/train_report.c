/* What a training says: progress line, log, entries of epochs, the summary at the end. */
#include <math.h>
#include <stdio.h>
#include "runtime/profile.h"
#include "runtime/train.h"

double rt_train_mean_loss(const RtTrainPart *p) { return p->rows ? p->loss / (double)p->rows : NAN; }
double rt_train_seconds(const RtTrainPart *p) { return rt_now() - p->start - p->evaluated; }

void rt_train_name_epoch(RtTrain *t) {
    if (t->epochs)
        snprintf(t->what, sizeof t->what, "epoch %llu/%lld", (unsigned long long)t->epoch_number + 1,
                 (long long)t->epochs);
    else
        snprintf(t->what, sizeof t->what, "epoch %llu", (unsigned long long)t->epoch_number + 1);
    rt_progress_begin(&t->progress, t->what, t->epoch.start);
}

void rt_train_begin_epoch(RtTrain *t) {
    t->epoch = (RtTrainPart){.start = rt_now()};
    t->in_epoch = false;
    t->metrics_from = 0;
    t->sums_restored = false;
    rt_metrics_reset(t->metrics);
    rt_train_name_epoch(t);
}

/* ---- after each step ---- */

static void add(RtTrainPart *p, const RtExec *x) {
    p->rows += x->step.rows;
    p->steps++;
    p->loss += (double)x->loss * x->step.rows;
}

static void show_progress(RtTrain *t) {
    if (!t->progress.on) return;
    double share = rt_reader_progress(t->reader),
           more = t->epochs ? (double)t->epochs - 1 - (double)t->epoch_number : 0;
    if (t->steps > 0) { /* whichever ends first */
        double part = (double)t->epoch.steps / (double)((uint64_t)t->steps - (t->run.steps - t->epoch.steps));
        if (share < 0 || part * (1 + more) > share) share = part, more = 0;
    }
    rt_progress_show(&t->progress, rt_now(), t->epoch.rows, rt_train_mean_loss(&t->epoch), share, more);
}

void rt_train_count(RtTrain *t) {
    add(&t->run, t->x);
    add(&t->epoch, t->x);
    add(&t->logged, t->x);
    t->in_epoch = true;
    rt_train_log_step(t);
    show_progress(t);
}

/* ---- after each epoch ---- */

/* Trainings of many thousand epochs, or evaluations, don't grow for it: the log has all of them, a list the last
 * so many. Returns how many were left out for the new one. */
enum { ENTRIES = 1000 };
static size_t add_entry(json_t *list, json_t *entry) {
    json_array_append_new(list, entry);
    if (json_array_size(list) <= ENTRIES) return 0;
    json_array_remove(list, 0);
    return 1;
}

/* Into t->evaluation. */
static int evaluate(RtTrain *t) {
    RtEvaluation e;
    const RtWords *paths = t->a->eval_data.n ? &t->a->eval_data : &t->a->data;
    uint64_t begun = rt_span();
    int code = rt_evaluate(t->x, t->a, paths, t->metrics, &t->progress, &e);
    rt_span_end(begun, "evaluation");
    t->run.evaluated += e.seconds;
    t->logged.evaluated += e.seconds;
    t->epoch.evaluated += e.seconds;
    if (code != RT_EXIT_OK) return code;
    json_decref(t->evaluation);
    t->evaluation = json_object();
    t->evaluated_step = t->run.steps;
    json_object_set_new(t->evaluation, "eval_rows", json_integer((json_int_t)e.rows));
    json_object_set_new(t->evaluation, "eval_loss", rt_real(e.loss));
    rt_report_metrics(t->m, t->metrics, t->evaluation, true);
    return code;
}

int rt_train_evaluate_midway(RtTrain *t) {
    int code = evaluate(t);
    if (code != RT_EXIT_OK) return code;
    json_t *entry = json_pack("{s:I}", "step", (json_int_t)t->run.steps);
    json_object_update(entry, t->evaluation);
    add_entry(t->evaluations, entry);
    rt_train_log_evaluation(t);
    rt_train_name_epoch(t);
    if (t->a->json) return code;
    printf("step %llu: loss (evaluation) %.6f", (unsigned long long)t->run.steps,
           json_number_value(json_object_get(entry, "eval_loss")));
    rt_print_metrics(t->m, entry, false, stdout);
    printf("\n");
    fflush(stdout);
    return code;
}

/* Metrics of the epoch: of an evaluation, which may just have been made, or of its training rows. */
static int epoch_metrics(RtTrain *t, json_t **out) {
    bool made = t->evaluation && t->evaluated_step == t->run.steps;
    int code = rt_train_evaluates(t) && !made ? evaluate(t) : RT_EXIT_OK;
    if (code != RT_EXIT_OK) return code;
    *out = json_object();
    if (rt_train_evaluates(t))
        json_object_update(*out, t->evaluation);
    else
        rt_report_metrics(t->m, t->metrics, *out, true);
    return code;
}

/* Sums go on where they stood; ranks need the predictions of all rows, which are not saved. */
static void warn_of_metrics(const RtTrain *t) {
    bool auc = false, gauc = false;
    for (int i = 0; i < t->m->n_metrics; i++) {
        auc |= t->m->metrics[i].kind == RT_AUC;
        gauc |= t->m->metrics[i].kind == RT_GAUC;
    }
    if (!t->metrics_from || rt_train_evaluates(t) || !t->m->n_metrics) return;
    if (t->sums_restored && !auc && !gauc) return;
    rt_warn("training went on in epoch %llu: its %s %s of the %llu rows since",
            (unsigned long long)t->epoch_number + 1,
            !t->sums_restored ? "metrics"
            : auc && gauc     ? "auc and gauc"
            : auc             ? "auc"
                              : "gauc",
            t->sums_restored && auc != gauc ? "is" : "are",
            (unsigned long long)(t->epoch.rows - t->metrics_from));
}

int rt_train_end_epoch(RtTrain *t) {
    json_t *entry = json_object();
    double s = rt_train_seconds(&t->epoch);
    json_object_set_new(entry, "rows", json_integer((json_int_t)t->epoch.rows));
    json_object_set_new(entry, "loss", rt_real(rt_train_mean_loss(&t->epoch)));
    json_object_set_new(entry, "seconds", json_real(s));
    json_object_set_new(entry, "samples_per_s", rt_real((double)t->epoch.rows / s));
    json_t *last = NULL;
    int code = epoch_metrics(t, &last);
    if (code != RT_EXIT_OK) {
        json_decref(entry);
        return code;
    }
    warn_of_metrics(t);
    json_decref(t->last);
    t->last = last;
    rt_train_log_epoch(t, entry, t->last);
    json_object_update(entry, t->last);
    t->left_out += add_entry(t->entries, entry);
    rt_progress_clear();
    if (!t->a->json && t->epochs != 1) {
        printf("epoch %llu: %llu rows in %.1f s, loss %.6f", (unsigned long long)t->epoch_number + 1,
               (unsigned long long)t->epoch.rows, s, rt_train_mean_loss(&t->epoch));
        rt_print_metrics(t->m, t->last, false, stdout);
        printf("\n");
        fflush(stdout);
    }
    t->in_epoch = false;
    return code;
}

/* ---- results ---- */

json_t *rt_train_memory(const RtTrain *t) {
    json_int_t cache = t->reader ? (json_int_t)rt_reader_cache_bytes(t->reader) : 0;
    return json_pack("{s:I,s:I,s:I}", "weights", (json_int_t)rt_tables_bytes(t->tables), "step",
                     (json_int_t)rt_exec_bytes(t->x), "cache", cache);
}

/* Which rows it was that training and evaluation saw. */
static void print_sampling(const RtTrain *t) {
    const json_t *eval_rows = json_object_get(t->last, "eval_rows");
    if (t->a->eval_fraction > 0 && eval_rows)
        printf("%-20s %lld rows, by a hash of their bytes\n", "held out",
               (long long)json_integer_value(eval_rows));
    uint64_t left = t->reader ? rt_reader_negatives_left(t->reader) : 0;
    if (left)
        printf("%-20s %llu rows; predictions are corrected for it\n", "negatives left out",
               (unsigned long long)left);
}

/* Of a cut that is better still: the last evaluation. */
static void add_best(const RtTrain *t, json_t *o) {
    const RtJudge *j = &t->judge;
    json_object_set_new(o, "stopped_early", json_boolean(j->stop));
    json_object_set_new(o, "best",
                        json_pack("{s:s,s:o,s:I}", "metric", j->name, "value",
                                  rt_real(j->cut_is_best ? j->cut : j->best), "step",
                                  (json_int_t)(j->cut_is_best ? t->run.steps : j->best_step)));
}

int rt_train_print(RtTrain *t) {
    double total = rt_train_seconds(&t->run);
    const json_t *entry = json_array_get(t->entries, json_array_size(t->entries) - 1);
    const json_t *loss = json_object_get(entry, "loss");
    json_t *o = json_object();
    double wait = t->read_before + (t->reader ? rt_reader_wait_seconds(t->reader) : 0);
    uint64_t bad = t->reader ? rt_reader_bad_rows(t->reader) : t->bad_before;
    if (t->reader) rt_warn_bad_rows(t->reader, t->a->bad_rows);
    json_object_set_new(o, "model", json_string(t->m->name));
    json_object_set_new(o, "rows", json_integer((json_int_t)t->run.rows));
    json_object_set_new(o, "steps", json_integer((json_int_t)t->run.steps));
    json_object_set_new(o, "loss", loss ? json_incref((json_t *)loss) : json_null());
    if (t->last) json_object_update(o, t->last);
    json_object_set_new(o, "samples_per_s", rt_real(t->run.rows ? (double)t->run.rows / total : NAN));
    json_object_set_new(o, "seconds", json_real(total));
    json_object_set_new(o, "read_s", json_real(wait));
    json_object_set_new(o, "compute_s", json_real(t->compute_before + t->x->run_seconds));
    json_object_set_new(o, "bad_rows", json_integer((json_int_t)bad));
    if (t->a->keep_negatives > 0 && t->reader)
        json_object_set_new(o, "negatives_left_out",
                            json_integer((json_int_t)rt_reader_negatives_left(t->reader)));
    json_object_set_new(o, "memory", rt_train_memory(t));
    json_object_set_new(o, "epochs", json_incref(t->entries));
    if (t->left_out) json_object_set_new(o, "epochs_left_out", json_integer((json_int_t)t->left_out));
    if (t->a->eval_every.n) json_object_set_new(o, "evaluations", json_incref(t->evaluations));
    if (t->a->early_stop > 0) add_best(t, o);
    if (t->a->json) return rt_print_json(o);
    printf("%s: %llu rows, %llu steps in %.1f s", t->m->name, (unsigned long long)t->run.rows,
           (unsigned long long)t->run.steps, total);
    if (t->run.rows) printf(" (%.0f rows/s)", (double)t->run.rows / total);
    printf("\n");
    if (json_is_real(loss)) printf("%-20s %.6f\n", "loss", json_real_value(loss));
    if (json_is_real(json_object_get(t->last, "eval_loss")))
        printf("%-20s %.6f\n", "loss (evaluation)", json_real_value(json_object_get(t->last, "eval_loss")));
    if (t->last) rt_print_metrics(t->m, o, true, stdout);
    print_sampling(t);
    const json_t *best = json_object_get(o, "best");
    if (json_is_real(json_object_get(best, "value")))
        printf("%-20s %s %.6f, after step %lld\n", "best", t->judge.name,
               json_real_value(json_object_get(best, "value")),
               (long long)json_integer_value(json_object_get(best, "step")));
    if (t->a->save) printf("%-20s %s\n", "saved to", t->a->save);
    json_decref(o);
    return rt_flush_stdout();
}
