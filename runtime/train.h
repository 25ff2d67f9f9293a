/* A training while it runs, shared by train.c (the loop), train_report.c (what it says), train_log.c (--log,
 * --tensorboard), train_resume.c (what is saved of it, and going on). */
#ifndef CTRC_RUNTIME_TRAIN_H
#define CTRC_RUNTIME_TRAIN_H
#include "runtime/checkpoint.h"
#include "runtime/events.h"
#include "runtime/log.h"
#include "runtime/message.h"
#include "runtime/norms.h"
#include "runtime/program.h"
#include "runtime/progress.h"

typedef struct {
    uint64_t rows, steps;
    double loss;             /* sum over rows */
    double start, evaluated; /* evaluated: seconds of evaluation since start, not counted as training */
} RtTrainPart;

/* What evaluations say of the training so far (train_judge.c). */
typedef struct {
    int metric;     /* number of the model's, -1: the loss */
    char name[128]; /* "auc:ctr" */
    bool higher;    /* is better */
    double best;    /* NaN: none yet */
    double cut;     /* of cut_is_best */
    uint64_t best_step, evaluations;
    uint64_t since,
        since_rate;   /* evaluations that were no better, since the best one; or since rates went down */
    bool stop;        /* early */
    bool cut_is_best; /* --steps cut the epoch short at a step that is better than the best one */
} RtJudge;

/* What tells one checkpoint of a training from the next. */
typedef struct {
    uint64_t step, evaluations;
    bool ended, due; /* as in RtTrain */
} RtTrainMark;

typedef struct {
    const RtModel *m;
    const RtArgs *a;
    RtTables *tables;
    RtExec *x;
    RtReader *reader; /* NULL if there is nothing to train */
    RtMetrics *metrics;
    RtLog *log;
    RtEvents *events;                   /* --tensorboard */
    RtNorms *norms;                     /* NULL if none are wanted */
    double logged_read, logged_compute; /* seconds in all when the last line was written */
    RtSaver *saver;                     /* NULL without --save */
    RtProgress progress;
    int64_t epochs, steps, log_every; /* steps -1: no limit */
    uint64_t shuffle, seed;
    char what[64];                  /* of the progress line */
    RtTrainPart run, epoch, logged; /* since the beginning, of the epoch, since the last line of the log */
    uint64_t epoch_number;          /* from 0 */
    bool in_epoch;                  /* rows were used that no entry of `epochs` holds yet */
    bool ended;                     /* all rows of the epoch were used, its evaluation is still to come */
    json_t *entries, *last; /* entries of "epochs"; metrics of the last one, with eval_rows and eval_loss */
    uint64_t left_out;      /* epochs that `entries` had, up to its first */
    RtJudge judge;
    bool due;                /* an evaluation amid an epoch is still to come */
    json_t *evaluation;      /* of the last one: eval_rows, eval_loss, metrics */
    uint64_t evaluated_step; /* after which that was */
    json_t *evaluations;     /* of --eval-every, with `step` */

    json_t *data, *eval_data;           /* digests of the files, with --save */
    RtDigester *digester;
    bool saved;                         /* there is a checkpoint of this training, */
    RtTrainMark saved_at, saving_at;    /* made there; the same of the save that is under way */
    double read_before, compute_before; /* seconds, of the programs that this one goes on from */
    uint64_t bad_before;
    uint64_t metrics_from; /* rows of the epoch that metrics of training rows don't have, */
    bool sums_restored;    /* but for those that are made of sums */
    char *first_bad;
} RtTrain;

/* Whether there is data to evaluate on after each epoch. */
static inline bool rt_train_evaluates(const RtTrain *t) {
    return t->a->eval_data.n || (t->a->eval_fraction > 0 && t->a->data.n);
}

/* ---- train.c ---- */
/* Tells of the save beside training, if it has failed; wait: until it has ended. */
void rt_train_hear_of_save(RtTrain *t, bool wait);

/* ---- train_report.c ---- */
double rt_train_seconds(const RtTrainPart *p);
double rt_train_mean_loss(const RtTrainPart *p); /* NaN without rows */
json_t *rt_train_memory(const RtTrain *t);       /* bytes: {"weights","step","cache"} */
void rt_train_name_epoch(RtTrain *t);            /* on the progress line */
void rt_train_begin_epoch(RtTrain *t);
void rt_train_count(RtTrain *t); /* after a step */
/* The entry of the epoch, with an evaluation. RT_EXIT_AGAIN: stopped in it; then nothing has changed. */
int rt_train_end_epoch(RtTrain *t);
/* An evaluation amid an epoch; likewise. */
int rt_train_evaluate_midway(RtTrain *t);
int rt_train_print(RtTrain *t);

/* ---- train_log.c ---- */
/* --log and --tensorboard, behind what they hold of steps up to t->run.steps. False: err says why. */
bool rt_train_open_logs(RtTrain *t, char *err, size_t err_bytes);
bool rt_train_close_logs(RtTrain *t, char *err, size_t err_bytes);
/* Before a step: what it has to measure, if it will be logged. After it: the line, if it is due. */
void rt_train_before_step(RtTrain *t);
void rt_train_log_step(RtTrain *t);
void rt_train_log_epoch(RtTrain *t, const json_t *epoch, const json_t *metrics);
void rt_train_log_evaluation(RtTrain *t);

/* ---- train_judge.c ---- */
int rt_judge_init(RtTrain *t); /* an exit code */
void rt_judge(RtTrain *t);     /* after an evaluation that training in one go would make, too */
void rt_judge_cut(RtTrain *t); /* after one that it would not: where --steps ends an epoch early */
bool rt_judge_takes_best(
    const RtTrain *t);                   /* whether an earlier step than the last is what --save is to hold */
json_t *rt_judge_json(const RtTrain *t); /* in state.json, */
bool rt_judge_matters(const RtTrain *t, const json_t *saved);
void rt_judge_compare(const RtTrain *t, const json_t *saved, RtLines *c);
void rt_judge_restore(RtTrain *t, const json_t *saved);

/* ---- train_resume.c ---- */
/* Tables and position: of the checkpoint to go on from, or of a beginning. Needs t->saver. */
int rt_train_start(RtTrain *t);
/* None may be under way beside training. False: err says why. */
bool rt_train_save(RtTrain *t, char *err, size_t err_bytes);
/* Begins to save beside training; none may be under way. */
void rt_train_start_save(RtTrain *t);
RtSaveEnd rt_train_ask_save(RtTrain *t, bool wait, char *err, size_t err_bytes); /* as rt_saver_ask */

#endif
