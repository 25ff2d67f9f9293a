/* The command line of a generated program, as in the manual: MODEL train|eval|predict|check|export|info. */
#ifndef CTRC_RUNTIME_ARGS_H
#define CTRC_RUNTIME_ARGS_H
#include <stdbool.h>
#include <stdint.h>

typedef enum {
    RT_CMD_TRAIN,
    RT_CMD_EVAL,
    RT_CMD_PREDICT,
    RT_CMD_CHECK,
    RT_CMD_EXPORT,
    RT_CMD_INFO,
    RT_COMMANDS
} RtCommand;
typedef enum { RT_PROGRESS_AUTO, RT_PROGRESS_ALWAYS, RT_PROGRESS_NEVER } RtProgressMode;
enum { RT_EXPORT_SAFETENSORS, RT_EXPORT_ONNX };
/* --resume; with changed data or program too; from the checkpoint before a damaged one. */
enum { RT_RESUME = 1, RT_RESUME_FORCE = 2, RT_RESUME_PREVIOUS = 4 };
typedef struct {
    const char **v;
    int n;
} RtWords;

/* --eval-every: after each n steps, or as soon as n more rows are used; n 0: not given. */
typedef struct {
    int64_t n;
    bool rows;
} RtEvery;
/* --lr-plateau: after n evaluations that are no better, rates times factor; n 0: not given. */
typedef struct {
    double factor;
    int64_t n;
} RtPlateau;

/* --profile-steps: from step `first` to step `last`; last 0: not given. */
typedef struct {
    int64_t first, last;
} RtRange;

typedef struct {
    RtCommand command;
    const char *program; /* base name, for messages */
    RtWords data, eval_data;
    int64_t epochs, steps, threads, seed; /* -1: not given */
    bool seed_given;                      /* a seed may be any number */
    bool no_shuffle, json, header, calibration;
    double eval_fraction, keep_negatives; /* 0: not given */
    int64_t validate_first;               /* -1: not given */
    const char *save, *load, *init_from, *log, *tensorboard, *profile, *bad_rows, *out;
    int64_t save_every, keep;        /* -1: not given */
    RtRange profile_steps;
    RtEvery eval_every;
    int64_t early_stop;              /* evaluations; -1: not given */
    const char *early_stop_metric;   /* NULL: not given */
    RtPlateau lr_plateau;
    unsigned resume;                 /* RT_RESUME… or'ed */
    double stop_after;               /* seconds; -1: not given */
    int64_t log_every, max_bad_rows; /* -1: not given */
    int log_norms;                   /* 0 on, 1 off */
    int on_bad_row;                  /* 0 fail, 1 skip */
    int progress;                    /* RtProgressMode */
    int cache;                       /* 0 none, 1 memory */
    int format;                      /* 0 csv, 1 jsonl */
    int export_format;               /* RT_EXPORT_…; -1: not given */
    RtWords columns;                 /* predict: fields of the row to write before its predictions */
} RtArgs;

/* Parses. Returns -1 to go on, else the exit code: 0 after --help or --version (printed to stdout), 2 after
 * an error (printed to stderr). model: the model's name, for --help. */
int rt_args_parse(RtArgs *a, const char *model, const char *version, int argc, char **argv);
void rt_args_free(RtArgs *a);

#endif
