/* What is saved of a training beside its weights, and going on from it: training A rows, stopping and going
 * on for B ends in the same bytes as A + B in one go. So all that decides them is compared first. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/checkpoint_own.h"
#include "runtime/message.h"
#include "runtime/profile.h"
#include "runtime/stop.h"
#include "runtime/train.h"

/* ---- saving ---- */

static json_t *part_json(const RtTrainPart *p) {
    return json_pack("{s:I,s:I,s:f,s:f}", "rows", (json_int_t)p->rows, "steps", (json_int_t)p->steps, "loss",
                     p->loss, "seconds", rt_train_seconds(p));
}

/* Entries of whole epochs: that of one which --steps cut short comes again. */
static json_t *whole_epochs(const RtTrain *t) {
    json_t *a = json_array();
    for (size_t i = 0; i < json_array_size(t->entries) && t->left_out + i < t->epoch_number; i++)
        json_array_append(a, json_array_get(t->entries, i));
    return a;
}

static const char *bad_rows_word(const RtTrain *t) { return t->a->on_bad_row ? "skip" : "fail"; }

static double keep_negatives(const RtTrain *t) { return t->a->keep_negatives > 0 ? t->a->keep_negatives : 1; }

/* Of each metric: what it has summed up of the epoch so far, null if it needs the rows themselves, or has
 * sums of only some of them. */
static json_t *sums_json(const RtTrain *t) {
    json_t *all = json_array();
    for (int i = 0; i < t->m->n_metrics; i++) {
        RtMetricSums s;
        bool whole = rt_metrics_sums(t->metrics, i, &s) && (!t->metrics_from || t->sums_restored) &&
                     isfinite(s.p) && isfinite(s.y) && isfinite(s.loss) && isfinite(s.right);
        json_array_append_new(all, !whole ? json_null()
                                          : json_pack("{s:I,s:b,s:f,s:f,s:f,s:f}", "rows", (json_int_t)s.rows,
                                                      "not_finite", s.not_finite, "p", s.p, "y", s.y, "loss",
                                                      s.loss, "right", s.right));
    }
    return all;
}

static json_t *run_json(const RtTrain *t) {
    const RtReader *r = t->reader;
    json_t *o = json_object();
    const char *first_bad = r ? rt_reader_first_bad(r) : t->first_bad;
    json_object_set_new(o, "batch", json_integer((json_int_t)t->m->batch));
    json_object_set_new(o, "shuffle", json_integer((json_int_t)t->shuffle));
    json_object_set_new(o, "on_bad_row", json_string(bad_rows_word(t)));
    if (t->a->eval_fraction > 0) json_object_set_new(o, "eval_fraction", json_real(t->a->eval_fraction));
    rt_digester_note(t->digester);
    json_object_set_new(o, "data", t->data ? json_incref(t->data) : json_array());
    json_object_set_new(o, "bad_rows", json_integer((json_int_t)(r ? rt_reader_bad_rows(r) : t->bad_before)));
    json_object_set_new(o, "first_bad", first_bad ? json_string(first_bad) : json_null());
    json_object_set_new(o, "ended", json_boolean(t->ended));
    if (!rt_train_evaluates(t) && t->epoch.rows && !t->ended) json_object_set_new(o, "sums", sums_json(t));
    if (rt_train_evaluates(t)) {
        json_object_set_new(o, "due", json_boolean(t->due));
        json_object_set_new(o, "judge", rt_judge_json(t));
        json_object_set(o, "evaluations", t->evaluations);
        if (t->eval_data) json_object_set(o, "eval_data", t->eval_data);
    }
    json_object_set_new(o, "run", part_json(&t->run));
    json_object_set_new(o, "epoch", part_json(&t->epoch));
    json_object_set_new(o, "logged", part_json(&t->logged));
    json_object_set_new(o, "read_s", json_real(t->read_before + (r ? rt_reader_wait_seconds(r) : 0)));
    json_object_set_new(o, "compute_s", json_real(t->compute_before + t->x->run_seconds));
    json_object_set_new(o, "epochs", whole_epochs(t));
    return o;
}

/* Where training stands. */
static RtTrainMark mark_now(const RtTrain *t) {
    return (RtTrainMark){
        .step = t->x->step.step, .evaluations = t->judge.evaluations, .ended = t->ended, .due = t->due};
}

static bool is_saved(const RtTrain *t) {
    RtTrainMark a = t->saved_at, b = mark_now(t);
    return t->saved && a.step == b.step && a.ended == b.ended && a.due == b.due &&
           a.evaluations == b.evaluations;
}

static RtState state_now(const RtTrain *t) {
    return (RtState){
        .step = t->x->step.step, .epoch = t->epoch_number, .epoch_rows = t->epoch.rows, .run = run_json(t)};
}

static void note_saved(RtTrain *t, RtTrainMark at) {
    t->saved = true;
    t->saved_at = at;
}

static bool save(RtTrain *t, char *err, size_t err_bytes) {
    if (is_saved(t)) return true;
    RtState s = state_now(t);
    bool ok = rt_saver_save(t->saver, t->m, t->tables, &s, err, err_bytes);
    json_decref(s.run);
    if (ok) note_saved(t, mark_now(t));
    return ok;
}

bool rt_train_save(RtTrain *t, char *err, size_t err_bytes) {
    uint64_t begun = rt_span();
    bool ok = save(t, err, err_bytes);
    rt_span_end(begun, "checkpoint");
    return ok;
}

/* Training waits for the snapshot only. */
void rt_train_start_save(RtTrain *t) {
    if (is_saved(t)) return;
    uint64_t begun = rt_span();
    RtState s = state_now(t);
    t->saving_at = mark_now(t);
    rt_saver_start(t->saver, t->m, t->tables, &s);
    json_decref(s.run);
    rt_span_end(begun, "checkpoint");
}

RtSaveEnd rt_train_ask_save(RtTrain *t, bool wait, char *err, size_t err_bytes) {
    RtSaveEnd end = rt_saver_ask(t->saver, wait, err, err_bytes);
    if (end == RT_SAVE_DONE) note_saved(t, t->saving_at);
    return end;
}

/* ---- what has changed ---- */

static void compare_text(RtLines *c, const char *what, const json_t *saved, const char *here) {
    const char *there = json_string_value(saved);
    if (!there || strcmp(there, here))
        rt_line(c, "%s: %.100s in the checkpoint, %.100s here", what, there ? there : "none", here);
}
static void compare_number(RtLines *c, const char *what, const json_t *saved, int64_t here) {
    if (json_integer_value(saved) != here)
        rt_line(c, "%s: %lld in the checkpoint, %lld here", what, (long long)json_integer_value(saved),
                (long long)here);
}

static void compare_share(RtLines *c, const char *what, const json_t *saved, double here, double none) {
    double there = json_is_real(saved) ? json_real_value(saved) : none;
    if (there != here) rt_line(c, "%s: %g in the checkpoint, %g here", what, there, here);
}

static bool among(const char *word, const json_t *list, const char *const *v, int n) {
    for (int i = 0; i < n; i++)
        if (!strcmp(word, v[i])) return true;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!strcmp(word, json_string_value(json_array_get(list, i)))) return true;
    return false;
}

static void compare_passes(RtLines *c, const json_t *saved, const RtModel *m) {
    int before = c->n;
    bool same = json_array_size(saved) == (size_t)m->n_passes;
    for (size_t i = 0; i < json_array_size(saved); i++) {
        const char *p = json_string_value(json_array_get(saved, i));
        same = same && !strcmp(p, m->passes[i]);
        if (!among(p, NULL, m->passes, m->n_passes))
            rt_line(c, "pass '%.80s' in the checkpoint, not here", p);
    }
    for (int i = 0; i < m->n_passes; i++)
        if (!among(m->passes[i], saved, NULL, 0))
            rt_line(c, "pass '%.80s' here, not in the checkpoint", m->passes[i]);
    if (!same && c->n == before) rt_line(c, "the passes in another order");
}

static void compare_digest(RtLines *c, const char *name, const json_t *saved, const json_t *here) {
    const char *there = json_string_value(saved), *now = json_string_value(here);
    if (!json_equal(saved, here))
        rt_line(c, "'%s': other bytes (digest %s in the checkpoint, %s here)", name, there ? there : "none",
                now ? now : "none");
}

static void compare_file(RtLines *c, const json_t *saved, json_t *here) {
    const char *name = json_string_value(json_object_get(here, "file"));
    const json_t *a = json_object_get(saved, "bytes"), *b = json_object_get(here, "bytes");
    const json_t *x = json_object_get(saved, "digest"), *y = json_object_get(here, "digest");
    const json_t *whole = json_object_get(saved, "whole");
    if (!json_is_integer(a) || !json_is_integer(b)) return; /* a pipe */
    if (!json_equal(a, b))
        rt_line(c, "'%s': %lld bytes in the checkpoint, %lld here", name, (long long)json_integer_value(a),
                (long long)json_integer_value(b));
    else if (!json_equal(x, y))
        compare_digest(c, name, x, y);
    else if (json_is_string(whole)) {
        rt_data_read_whole(here, saved);
        if (!rt_stop_reason()) compare_digest(c, name, whole, json_object_get(here, "whole"));
    }
}

/* Names and places of files don't matter, their contents and order do. */
static void compare_data(RtLines *c, const char *what, const json_t *saved, const json_t *here) {
    size_t n = json_array_size(saved), k = json_array_size(here);
    if (n != k) rt_line(c, "%s: %zu file%s in the checkpoint, %zu here", what, n, n == 1 ? "" : "s", k);
    for (size_t i = 0; i < n && i < k; i++)
        compare_file(c, json_array_get(saved, i), json_array_get(here, i));
}

static int compare(const RtTrain *t, const char *dir, const json_t *json) {
    const RtModel *m = t->m;
    const json_t *run = json_object_get(json, "run");
    RtLines c = {.most = 6, .room = 900};
    compare_text(&c, "model", json_object_get(json, "model"), m->name);
    compare_text(&c, "digest of source and params", json_object_get(json, "digest"), m->digest);
    compare_text(&c, "compiler", json_object_get(json, "ctrc"), m->ctrc);
    compare_text(&c, "march", json_object_get(json, "march"), m->march);
    compare_passes(&c, json_object_get(json, "passes"), m);
    if (t->a->seed_given) compare_number(&c, "seed", json_object_get(json, "seed"), t->a->seed);
    compare_number(&c, "batch", json_object_get(run, "batch"), m->batch);
    compare_number(&c, "shuffle", json_object_get(run, "shuffle"), (int64_t)t->shuffle);
    compare_text(&c, "--on-bad-row", json_object_get(run, "on_bad_row"), bad_rows_word(t));
    compare_share(&c, "--eval-fraction", json_object_get(run, "eval_fraction"), t->a->eval_fraction, 0);
    compare_share(&c, "--keep-negatives", json_object_get(json, "keep_negatives"), keep_negatives(t), 1);
    if (t->data) compare_data(&c, "data", json_object_get(run, "data"), t->data);
    const json_t *judge = json_object_get(run, "judge");
    if (rt_judge_matters(t, judge)) {
        rt_judge_compare(t, judge, &c);
        if (t->eval_data)
            compare_data(&c, "evaluation data", json_object_get(run, "eval_data"), t->eval_data);
    }
    if (!c.n || (t->a->resume & RT_RESUME_FORCE)) return RT_EXIT_OK;
    return rt_fail(RT_EXIT_FAILED,
                   "%s: the training that was stopped was another one%s\nhint: --resume=force goes on all "
                   "the same",
                   dir, rt_lines(&c));
}

/* ---- going on ---- */

static void restore_part(RtTrainPart *p, const json_t *o) {
    p->rows = (uint64_t)json_integer_value(json_object_get(o, "rows"));
    p->steps = (uint64_t)json_integer_value(json_object_get(o, "steps"));
    p->loss = json_number_value(json_object_get(o, "loss"));
    p->start = rt_now() - json_number_value(json_object_get(o, "seconds"));
}

/* The metrics of the last entry, as rt_train_end_epoch left them. */
static json_t *metrics_of(const json_t *entries) {
    static const char *const others[] = {"rows", "loss", "seconds", "samples_per_s"};
    size_t n = json_array_size(entries);
    json_t *o = n ? json_deep_copy(json_array_get(entries, n - 1)) : NULL;
    for (size_t i = 0; o && i < sizeof others / sizeof *others; i++) json_object_del(o, others[i]);
    return o;
}

static void restore_sums(RtTrain *t, const json_t *all) {
    t->sums_restored = !rt_train_evaluates(t) && json_array_size(all) == (size_t)t->m->n_metrics;
    for (int i = 0; i < t->m->n_metrics && t->sums_restored; i++) {
        const json_t *o = json_array_get(all, (size_t)i);
        RtMetricKind kind = t->m->metrics[i].kind;
        RtMetricSums s = {.rows = (uint64_t)json_integer_value(json_object_get(o, "rows")),
                          .not_finite = json_is_true(json_object_get(o, "not_finite")),
                          .p = json_number_value(json_object_get(o, "p")),
                          .y = json_number_value(json_object_get(o, "y")),
                          .loss = json_number_value(json_object_get(o, "loss")),
                          .right = json_number_value(json_object_get(o, "right"))};
        if (json_is_object(o))
            rt_metrics_restore(t->metrics, i, &s);
        else if (kind != RT_AUC && kind != RT_GAUC)
            t->sums_restored = false;
    }
    if (!t->sums_restored) rt_metrics_reset(t->metrics);
}

static void restore(RtTrain *t, const RtState *s) {
    const json_t *o = s->run;
    restore_part(&t->run, json_object_get(o, "run"));
    restore_part(&t->epoch, json_object_get(o, "epoch"));
    restore_part(&t->logged, json_object_get(o, "logged"));
    t->run.steps = s->step;
    t->epoch.rows = s->epoch_rows;
    t->epoch_number = s->epoch;
    t->in_epoch = s->epoch_rows > 0;
    t->metrics_from = s->epoch_rows;
    if (t->in_epoch) restore_sums(t, json_object_get(o, "sums"));
    t->ended = json_is_true(json_object_get(o, "ended"));
    t->read_before = json_number_value(json_object_get(o, "read_s"));
    t->compute_before = json_number_value(json_object_get(o, "compute_s"));
    t->bad_before = (uint64_t)json_integer_value(json_object_get(o, "bad_rows"));
    const char *first_bad = json_string_value(json_object_get(o, "first_bad"));
    if (first_bad && !(t->first_bad = strdup(first_bad))) rt_out_of_memory();
    json_decref(t->entries);
    t->entries = json_deep_copy(json_object_get(o, "epochs"));
    size_t entries = json_array_size(t->entries);
    t->left_out = s->epoch > entries ? s->epoch - entries : 0;
    t->last = metrics_of(t->entries);
    t->saved = true;
    bool due = json_is_true(json_object_get(o, "due"));
    t->due = due && t->a->eval_every.n;
    rt_judge_restore(t, json_object_get(o, "judge"));
    t->saved_at =
        (RtTrainMark){.step = s->step, .evaluations = t->judge.evaluations, .ended = t->ended, .due = due};
    if (json_is_array(json_object_get(o, "evaluations"))) {
        json_decref(t->evaluations);
        t->evaluations = json_deep_copy(json_object_get(o, "evaluations"));
    }
}

/* DIR/best must be what the checkpoint says; or of a later step, which will come again. */
static int find_best(RtTrain *t, const char *dir) {
    const RtJudge *j = &t->judge;
    uint64_t step;
    char err[RT_MESSAGE] = "";
    if (t->a->early_stop <= 0 || isnan(j->best)) return RT_EXIT_OK;
    if (rt_saver_best_step(t->saver, &step) && (step == j->best_step || step > t->run.steps))
        return RT_EXIT_OK;
    if (j->best_step == t->run.steps && t->saved && rt_saver_keep_best(t->saver, err, sizeof err))
        return RT_EXIT_OK;
    if (t->a->resume & RT_RESUME_FORCE) {
        t->judge.best = NAN;
        return RT_EXIT_OK;
    }
    return rt_fail(
        RT_EXIT_FAILED,
        "%s: the best checkpoint so far, of step %llu, is not in %s/best\nhint: --resume=force goes "
        "on without it",
        dir, (unsigned long long)j->best_step, t->a->save);
}

static int go_on(RtTrain *t) {
    char err[RT_MESSAGE] = "", dir[RT_PATH];
    json_t *json = NULL;
    RtState s;
    bool previous = t->a->resume & RT_RESUME_PREVIOUS;
    if (!rt_checkpoint_state(t->m, t->a->save, previous, &s, &json, dir, sizeof dir, err, sizeof err))
        return rt_fail(RT_EXIT_FAILED, "%s", err);
    int code = compare(t, dir, json);
    if (code == RT_EXIT_OK && !(t->tables = rt_checkpoint_resume(t->m, dir, json, err, sizeof err)))
        code = rt_fail(RT_EXIT_FAILED, "%s", err);
    if (code == RT_EXIT_OK) {
        bool last = !strcmp(dir, t->a->save);
        t->seed = rt_tables_seed(t->tables);
        restore(t, &s);
        *rt_tables_keep_negatives(t->tables) = keep_negatives(t);
        t->saved = last; /* otherwise what stands in the directory is damaged */
        rt_saver_begin(t->saver, last ? RT_SAVE_GO_ON : RT_SAVE_REPAIR);
        code = find_best(t, dir);
    }
    if (code == RT_EXIT_OK)
        fprintf(stderr, "going on from %s, after step %llu\n", dir, (unsigned long long)s.step);
    json_decref(json);
    return code;
}

static int begin(RtTrain *t) {
    char err[RT_MESSAGE] = "";
    t->seed = (uint64_t)(t->a->seed_given ? t->a->seed : t->m->seed);
    t->run.start = t->logged.start = t->epoch.start = rt_now();
    t->tables = rt_tables_new(t->m, t->seed, err, sizeof err);
    if (t->tables) *rt_tables_keep_negatives(t->tables) = keep_negatives(t);
    if (t->tables &&
        (!t->a->init_from || rt_checkpoint_init(t->m, t->a->init_from, t->tables, err, sizeof err)))
        return RT_EXIT_OK;
    return rt_fail(RT_EXIT_FAILED, "%s", err);
}

int rt_train_start(RtTrain *t) {
    char err[RT_MESSAGE] = "";
    const RtWords *data = &t->a->data;
    t->entries = json_array();
    t->evaluations = json_array();
    if (t->a->save && data->n && !(t->data = rt_data_digests(t->m, data->v, data->n, err, sizeof err)))
        return rt_fail(RT_EXIT_FAILED, "%s", err);
    const RtWords *eval = &t->a->eval_data;
    if (t->a->save && eval->n && (t->a->early_stop > 0 || t->a->lr_plateau.n) &&
        !(t->eval_data = rt_data_digests(t->m, eval->v, eval->n, err, sizeof err)))
        return rt_fail(RT_EXIT_FAILED, "%s", err);
    int code = t->a->resume && rt_checkpoint_is_there(t->a->save) ? go_on(t) : begin(t);
    if (code == RT_EXIT_OK) t->digester = rt_digester_start(t->data, t->eval_data);
    return code;
}
