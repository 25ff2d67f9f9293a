/* What follows from an evaluation: whether it is the best so far, whose checkpoint is kept (DIR/best) and is
 * what --save ends with; whether training ends early; whether rates go down. An evaluation is better if its
 * metric is, by however little; one without a value (NaN) isn't. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "runtime/message.h"
#include "runtime/train.h"

/* ---- which metric ---- */

static bool can_judge(RtMetricKind k) { return k != RT_PCOC; } /* neither high nor low is good */

static bool matches(const RtMetric *x, const char *text) {
    const char *kind = rt_metric_name(x->kind);
    size_t n = strlen(kind);
    return can_judge(x->kind) && !strncmp(text, kind, n) &&
           (!text[n] || (text[n] == ':' && !strcmp(text + n + 1, x->key)));
}

static int unknown_metric(const RtModel *m, const char *text) {
    char list[RT_MESSAGE / 2] = "";
    size_t used = 0;
    for (int i = 0; i < m->n_metrics && used < sizeof list; i++)
        if (can_judge(m->metrics[i].kind))
            used += (size_t)snprintf(list + used, sizeof list - used, ", %s:%s",
                                     rt_metric_name(m->metrics[i].kind), m->metrics[i].key);
    return rt_fail(RT_EXIT_USAGE, "--early-stop-metric: expected one of loss%s, found '%s'", list, text);
}

int rt_judge_init(RtTrain *t) {
    const RtModel *m = t->m;
    const char *text = t->a->early_stop_metric;
    RtJudge *j = &t->judge;
    *j = (RtJudge){.metric = -1, .best = NAN, .name = "loss"};
    for (int i = 0; i < m->n_metrics && j->metric < 0; i++)
        if (matches(&m->metrics[i], text ? text : "auc")) j->metric = i;
    if (text && j->metric < 0 && strcmp(text, "loss")) return unknown_metric(m, text);
    if (j->metric < 0) return RT_EXIT_OK;
    const RtMetric *x = &m->metrics[j->metric];
    j->higher = x->kind != RT_LOGLOSS;
    snprintf(j->name, sizeof j->name, "%s:%s", rt_metric_name(x->kind), x->key);
    return RT_EXIT_OK;
}

static double value_of(const RtTrain *t) {
    const RtJudge *j = &t->judge;
    const json_t *v = json_object_get(t->evaluation, "eval_loss");
    if (j->metric >= 0) {
        const RtMetric *x = &t->m->metrics[j->metric];
        v = json_object_get(json_object_get(t->evaluation, rt_metric_name(x->kind)), x->key);
    }
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static bool is_better(const RtJudge *j, double v) {
    if (isnan(v) || isnan(j->best)) return !isnan(v);
    return j->higher ? v > j->best : v < j->best;
}

/* ---- after an evaluation ---- */

/* A failure is told as any save's amid training; the best one saved before stays. */
static void save_best(RtTrain *t) {
    char err[RT_MESSAGE] = "";
    rt_train_hear_of_save(t, true); /* what DIR holds is to be this step's, not that of a save under way */
    if (rt_train_save(t, err, sizeof err) && rt_saver_keep_best(t->saver, err, sizeof err)) return;
    rt_warn("%s; training goes on, the best checkpoint is not kept", err);
}

static void say_no_better(const RtTrain *t, uint64_t since, const char *what) {
    const RtJudge *j = &t->judge;
    char best[64] = "no value yet";
    if (!isnan(j->best))
        snprintf(best, sizeof best, "best %.6f at step %llu", j->best, (unsigned long long)j->best_step);
    rt_progress_clear();
    fprintf(stderr, "step %llu: %s is no better for %llu evaluation%s (%s): %s\n",
            (unsigned long long)t->run.steps, j->name, (unsigned long long)since, since == 1 ? "" : "s", best,
            what);
}

void rt_judge(RtTrain *t) {
    RtJudge *j = &t->judge;
    const RtArgs *a = t->a;
    double v = value_of(t);
    j->evaluations++;
    if (is_better(j, v)) {
        j->best = v;
        j->best_step = t->run.steps;
        j->since = j->since_rate = 0;
        if (a->early_stop > 0 && t->saver) save_best(t);
        return;
    }
    j->since++;
    j->since_rate++;
    if (a->lr_plateau.n > 0 && j->since_rate >= (uint64_t)a->lr_plateau.n) {
        char what[64];
        double *scale = rt_tables_lr_scale(t->tables);
        *scale *= a->lr_plateau.factor;
        snprintf(what, sizeof what, "rates are now times %g", *scale);
        say_no_better(t, j->since_rate, what);
        j->since_rate = 0;
    }
    if (a->early_stop > 0 && j->since >= (uint64_t)a->early_stop) {
        j->stop = true;
        say_no_better(t, j->since, "training ends");
    }
}

void rt_judge_cut(RtTrain *t) {
    t->judge.cut = value_of(t);
    t->judge.cut_is_best = is_better(&t->judge, t->judge.cut);
}

bool rt_judge_takes_best(const RtTrain *t) {
    const RtJudge *j = &t->judge;
    return t->a->early_stop > 0 && !isnan(j->best) && !j->cut_is_best && j->best_step != t->run.steps;
}

/* ---- in state.json ---- */

static const char *every_text(const RtArgs *a, char out[40]) {
    const RtEvery *e = &a->eval_every;
    snprintf(out, 40, e->n > 0 ? "%lld %s" : "none", (long long)e->n, e->rows ? "rows" : "steps");
    return out;
}
static const char *plateau_text(const RtArgs *a, char out[40]) {
    snprintf(out, 40, a->lr_plateau.n > 0 ? "%g,%lld" : "none", a->lr_plateau.factor,
             (long long)a->lr_plateau.n);
    return out;
}

json_t *rt_judge_json(const RtTrain *t) {
    const RtJudge *j = &t->judge;
    char every[40], plateau[40];
    return json_pack("{s:s,s:o,s:I,s:I,s:I,s:I,s:f,s:b,s:s,s:s}", "metric", j->name, "best", rt_real(j->best),
                     "best_step", (json_int_t)j->best_step, "evaluations", (json_int_t)j->evaluations,
                     "since", (json_int_t)j->since, "since_rate", (json_int_t)j->since_rate, "lr_scale",
                     *rt_tables_lr_scale(t->tables), "kept", t->a->early_stop > 0, "eval_every",
                     every_text(t->a, every), "lr_plateau", plateau_text(t->a, plateau));
}

/* Only what decides bytes, or what the best one is. */
bool rt_judge_matters(const RtTrain *t, const json_t *saved) {
    const char *plateau = json_string_value(json_object_get(saved, "lr_plateau"));
    return t->a->lr_plateau.n > 0 || (plateau && strcmp(plateau, "none")) ||
           (t->a->early_stop > 0 && json_is_true(json_object_get(saved, "kept")));
}

static void compare_key(RtLines *c, const char *option, const json_t *saved, const char *key,
                        const char *here) {
    const char *there = json_string_value(json_object_get(saved, key));
    if (!there) there = "none";
    if (strcmp(there, here)) rt_line(c, "%s: %.100s in the checkpoint, %.100s here", option, there, here);
}

void rt_judge_compare(const RtTrain *t, const json_t *saved, RtLines *c) {
    char every[40], plateau[40];
    compare_key(c, "--eval-every", saved, "eval_every", every_text(t->a, every));
    compare_key(c, "--lr-plateau", saved, "lr_plateau", plateau_text(t->a, plateau));
    compare_key(c, "--early-stop-metric", saved, "metric", t->judge.name);
}

void rt_judge_restore(RtTrain *t, const json_t *saved) {
    RtJudge *j = &t->judge;
    const json_t *scale = json_object_get(saved, "lr_scale"), *best = json_object_get(saved, "best");
    if (json_is_number(scale)) *rt_tables_lr_scale(t->tables) = json_number_value(scale);
    j->evaluations = (uint64_t)json_integer_value(json_object_get(saved, "evaluations"));
    j->since_rate = (uint64_t)json_integer_value(json_object_get(saved, "since_rate"));
    const char *name = json_string_value(json_object_get(saved, "metric"));
    bool kept = json_is_true(json_object_get(saved, "kept"));
    if (!name || strcmp(name, j->name) || (t->a->early_stop > 0 && !kept))
        return; /* of another metric, or lost */
    j->best = json_is_number(best) ? json_number_value(best) : NAN;
    j->best_step = (uint64_t)json_integer_value(json_object_get(saved, "best_step"));
    j->since = (uint64_t)json_integer_value(json_object_get(saved, "since"));
}
