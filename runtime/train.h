/* A training while it runs, shared by train.c (the loop), train_report.c (what it says), train_resume.c (what
 * is saved of it, and going on). */
#ifndef CTRC_RUNTIME_TRAIN_H
#define CTRC_RUNTIME_TRAIN_H
#include "runtime/checkpoint.h"
#include "runtime/log.h"
#include "runtime/program.h"
#include "runtime/progress.h"

typedef struct {
    uint64_t rows, steps;
    double loss;             /* sum over rows */
    double start, evaluated; /* evaluated: seconds of evaluation since start, not counted as training */
} RtTrainPart;

typedef struct {
    const RtModel *m;
    const RtArgs *a;
    RtTables *tables;
    RtExec *x;
    RtReader *reader; /* NULL if there is nothing to train */
    RtMetrics *metrics;
    RtLog *log;
    RtSaver *saver; /* NULL without --save */
    RtProgress progress;
    int64_t epochs, steps, log_every; /* steps -1: no limit */
    uint64_t shuffle, seed;
    char what[64];                  /* of the progress line */
    RtTrainPart run, epoch, logged; /* since the beginning, of the epoch, since the last line of the log */
    uint64_t epoch_number;          /* from 0 */
    bool in_epoch;                  /* rows were used that no entry of `epochs` holds yet */
    bool ended;                     /* all rows of the epoch were used, its evaluation is still to come */
    json_t *entries, *last; /* entries of "epochs"; metrics of the last one, with eval_rows and eval_loss */

    json_t *data;                       /* digests of the files, with --save */
    bool saved;                         /* there is a checkpoint of this training, */
    bool saved_ended;                   /* with this `ended`, */
    uint64_t saved_step;                /* of this step */
    bool saving_ended;                  /* the same of the save that is under way */
    uint64_t saving_step;
    double read_before, compute_before; /* seconds, of the programs that this one goes on from */
    uint64_t bad_before;
    uint64_t metrics_from; /* rows of the epoch that metrics of training rows don't have */
    char *first_bad;
} RtTrain;

/* Whether there is data to evaluate on after each epoch. */
static inline bool rt_train_evaluates(const RtTrain *t) {
    return t->a->eval_data.n || (t->a->eval_fraction > 0 && t->a->data.n);
}

/* ---- train_report.c ---- */
double rt_train_seconds(const RtTrainPart *p);
void rt_train_name_epoch(RtTrain *t); /* on the progress line */
void rt_train_begin_epoch(RtTrain *t);
void rt_train_count(RtTrain *t); /* after a step */
/* The entry of the epoch, with an evaluation. RT_EXIT_AGAIN: stopped in it; then nothing has changed. */
int rt_train_end_epoch(RtTrain *t);
int rt_train_print(RtTrain *t);

/* ---- train_resume.c ---- */
/* Tables and position: of the checkpoint to go on from, or of a beginning. Needs t->saver. */
int rt_train_start(RtTrain *t);
/* False: err says why. */
bool rt_train_save(RtTrain *t, char *err, size_t err_bytes);
/* Begins to save beside training; none may be under way. */
void rt_train_start_save(RtTrain *t);
RtSaveEnd rt_train_ask_save(RtTrain *t, bool wait, char *err, size_t err_bytes); /* as rt_saver_ask */

#endif
