/* --log and --tensorboard: one object every --log-every steps and after each epoch, as a line and as scalars.
 * Keys are told in README.md. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "runtime/message.h"
#include "runtime/optimizer.h"
#include "runtime/train.h"

static bool is_open(const RtTrain *t) { return t->log || t->events; }

bool rt_train_open_logs(RtTrain *t, char *err, size_t err_bytes) {
    const RtArgs *a = t->a;
    if (a->log && !(t->log = rt_log_open(a->log, t->run.steps, err, err_bytes))) return false;
    if (a->tensorboard && !(t->events = rt_events_open(a->tensorboard, t->run.steps, err, err_bytes)))
        return false;
    if (is_open(t) && !a->log_norms) t->norms = rt_norms_new(t->m);
    t->logged_read = t->read_before;
    t->logged_compute = t->compute_before;
    return true;
}

/* Of two errors the first is told. */
bool rt_train_close_logs(RtTrain *t, char *err, size_t err_bytes) {
    char other[RT_MESSAGE];
    bool log = rt_log_close(t->log, err, err_bytes);
    bool events = rt_events_close(t->events, log ? err : other, log ? err_bytes : sizeof other);
    rt_norms_free(t->norms);
    return log && events;
}

/* ---- after a step ---- */

/* The rate of the first optimizer in use, and with several those of all, by kind. */
static void add_rates(const RtTrain *t, json_t *o) {
    const RtModel *m = t->m;
    json_t *all = json_object();
    double first = NAN;
    for (int i = 0; i < m->n_opts; i++) {
        bool used = false;
        for (int w = 0; w < m->n_weights && !used; w++) used = m->weights[w].optimizer == i;
        if (!used) continue;
        char key[64];
        double lr = rt_sched_rate(&m->opts[i].lr, (double)t->run.steps) * *rt_tables_lr_scale(t->tables);
        snprintf(key, sizeof key, "%s", m->opts[i].kind_name);
        for (int k = 1; json_object_get(all, key); k++)
            snprintf(key, sizeof key, "%s_%d", m->opts[i].kind_name, k);
        json_object_set_new(all, key, rt_real(lr));
        if (json_object_size(all) == 1) first = lr;
    }
    json_object_set_new(o, "lr", rt_real(first));
    if (json_object_size(all) > 1) json_object_set(o, "lrs", all);
    json_decref(all);
}

/* Bytes of memory that the process has, 0 if the system doesn't say. */
static json_int_t resident(void) {
    long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f) return 0;
    if (fscanf(f, "%*s %lld", &pages) != 1) pages = 0;
    fclose(f);
    return (json_int_t)pages * sysconf(_SC_PAGESIZE);
}

static void add_norms(const RtTrain *t, json_t *o) {
    const RtNorm *n = rt_norms(t->norms);
    json_t *grads = json_object(), *weights = json_object(), *rows = json_object();
    double grad = 0, weight = 0;
    for (int i = 0; i < t->m->n_weights; i++) {
        const char *name = t->m->weights[i].name;
        if (!n[i].given) continue;
        grad += n[i].grad * n[i].grad;
        weight += n[i].weight * n[i].weight;
        json_object_set_new(grads, name, rt_real(n[i].grad));
        json_object_set_new(weights, name, rt_real(n[i].weight));
        if (n[i].rows) json_object_set_new(rows, name, json_integer((json_int_t)n[i].rows));
    }
    json_object_set_new(o, "grad_norm", rt_real(sqrt(grad)));
    json_object_set_new(o, "weight_norm", rt_real(sqrt(weight)));
    json_object_set_new(o, "grad_norms", grads);
    json_object_set_new(o, "weight_norms", weights);
    json_object_set_new(o, "norm_rows", rows);
}

static bool is_due(const RtTrain *t, uint64_t step) {
    return is_open(t) && step % (uint64_t)t->log_every == 0;
}

void rt_train_before_step(RtTrain *t) { t->x->norms = is_due(t, t->run.steps + 1) ? t->norms : NULL; }

void rt_train_log_step(RtTrain *t) {
    if (!is_due(t, t->run.steps)) return;
    json_t *o = json_object(), *memory = rt_train_memory(t);
    double s = rt_train_seconds(&t->logged), read = t->read_before + rt_reader_wait_seconds(t->reader),
           compute = t->compute_before + t->x->run_seconds;
    json_object_set_new(o, "step", json_integer((json_int_t)t->run.steps));
    json_object_set_new(o, "epoch", json_integer((json_int_t)t->epoch_number + 1));
    json_object_set_new(o, "rows", json_integer((json_int_t)t->run.rows));
    json_object_set_new(o, "loss", rt_real(rt_train_mean_loss(&t->logged)));
    add_rates(t, o);
    json_object_set_new(o, "samples_per_s", rt_real((double)t->logged.rows / s));
    json_object_set_new(o, "seconds", json_real(rt_now() - t->run.start));
    json_object_set_new(o, "read_s", json_real(read - t->logged_read));
    json_object_set_new(o, "compute_s", json_real(compute - t->logged_compute));
    json_object_set_new(memory, "resident", json_integer(resident()));
    json_object_set_new(o, "memory", memory);
    if (t->norms) add_norms(t, o);
    if (t->events) rt_events_write(t->events, t->run.steps, o);
    if (t->log) rt_log_write(t->log, json_incref(o));
    json_decref(o);
    t->logged = (RtTrainPart){.start = rt_now()};
    t->logged_read = read;
    t->logged_compute = compute;
}

/* ---- after an epoch, an evaluation ---- */

/* As scalars: "epoch/loss" …, and what evaluations say "eval/loss", "eval/auc/ctr" …, whatever they were made
 * for; metrics of training rows "train/auc/ctr" …. */
static void write_events(RtTrain *t, const json_t *epoch, const json_t *metrics) {
    const char *key;
    json_t *v, *o = json_object(), *m = json_object();
    json_object_foreach((json_t *)metrics, key, v)
        json_object_set(m, strncmp(key, "eval_", 5) ? key : key + 5, v);
    if (epoch) json_object_set(o, "epoch", (json_t *)epoch);
    json_object_set_new(o, rt_train_evaluates(t) ? "eval" : "train", m);
    rt_events_write(t->events, t->run.steps, o);
    json_decref(o);
}

static void write_line(RtTrain *t, const char *key, json_int_t n, const json_t *a, const json_t *b) {
    json_t *o = json_object();
    json_object_set_new(o, "step", json_integer((json_int_t)t->run.steps));
    json_object_set_new(o, key, json_integer(n));
    if (a) json_object_update(o, (json_t *)a);
    json_object_update(o, (json_t *)b);
    rt_log_write(t->log, o);
}

void rt_train_log_epoch(RtTrain *t, const json_t *epoch, const json_t *metrics) {
    if (t->log) write_line(t, "epoch_end", (json_int_t)t->epoch_number + 1, epoch, metrics);
    if (t->events) write_events(t, epoch, metrics);
}

void rt_train_log_evaluation(RtTrain *t) {
    if (t->log) write_line(t, "evaluation", (json_int_t)t->judge.evaluations + 1, NULL, t->evaluation);
    if (t->events) write_events(t, NULL, t->evaluation);
}
