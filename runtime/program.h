/* The generated program as a whole: its commands, and what they share. */
#ifndef CTRC_RUNTIME_PROGRAM_H
#define CTRC_RUNTIME_PROGRAM_H
#include <jansson.h>
#include "runtime/args.h"
#include "runtime/exec.h"
#include "runtime/metrics.h"

enum { RT_EXIT_OK = 0, RT_EXIT_FAILED = 1, RT_EXIT_USAGE = 2, RT_EXIT_AGAIN = 75 /* stopped and saved */ };

/* main() of a generated program, but for the constant it takes. Returns the exit code. */
int rt_main(const RtProgram *program, int argc, char **argv);

/* Whether the program's code can run here: the runtime's interface, the CPU, the system. False and a message
 * in err. */
bool rt_machine_fits(const RtProgram *p, char *err, size_t err_bytes);
/* Asks the system for AMX's tiles, before threads are started. False and a message in err. */
bool rt_request_tiles(char *err, size_t err_bytes);

/* Whether no file that the command reads is one that it would write to; else an error, before anything is
 * opened. */
int rt_outputs_apart(const RtModel *m, const RtArgs *a);

/* One command, after parsing. */
int rt_train(const RtModel *m, const RtArgs *a);
int rt_eval(const RtModel *m, const RtArgs *a);
int rt_predict(const RtModel *m, const RtArgs *a);
int rt_check_data(const RtModel *m, const RtArgs *a);
int rt_export(const RtModel *m, const RtArgs *a);
int rt_info(const RtModel *m, const RtArgs *a);

/* train --validate-first: looks at the first rows of --data. An exit code; what it thinks of them is a
 * warning. */
int rt_validate_first(const RtModel *m, const RtArgs *a);

/* Prints "error: message" to stderr, below a progress line if there is one; a message that begins with a
 * place
 * ("f.csv:3:1: error: …") stays as it is. Returns the code. */
int rt_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rt_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* At the end of reading: how many rows were skipped, if any, and the first one's message. */
void rt_warn_bad_rows(const RtReader *r, const char *written_to);
int rt_too_many_bad_rows(const RtReader *r, const RtArgs *a); /* an exit code: beyond --max-bad-rows? */

double rt_now(void); /* seconds of the monotonic clock */
uint32_t rt_args_threads(const RtArgs *a);
/* What the reader needs for a command's --data; the rest is the caller's to set. */
RtReaderOptions rt_reader_options(const RtModel *m, const RtArgs *a, const RtWords *paths, int purpose,
                                  RtTables *t);
/* An evaluation: all rows of paths once, into s (which is reset). RT_EXIT_AGAIN: training was told to stop.
 */
typedef struct {
    uint64_t rows, bad_rows;
    double loss, seconds, wait;
} RtEvaluation;
struct RtProgress;
int rt_evaluate(RtExec *x, const RtArgs *a, const RtWords *paths, RtMetrics *s, struct RtProgress *progress,
                RtEvaluation *out);
/* The last batch's outputs into the metrics; those of RT_EVAL corrected. */
void rt_collect(const RtExec *x, int function, RtMetrics *s);
/* What a model says that was trained on the share `keep` of the negatives, as a probability among all rows:
 * q = p / (p + (1 - p) / w), He et al., "Practical Lessons from Predicting Clicks on Ads at Facebook", ADKDD
 * 2014, section 6.3. A number that is no probability stays what it is. */
float rt_corrected(float p, double keep);

/* ---- results (report.c) ---- */
json_t *rt_real(double v); /* null if not finite */
/* The values as {"auc":{"ctr":…},…} added to o, undefined ones null, with a note to stderr if asked. */
void rt_report_metrics(const RtModel *m, RtMetrics *s, json_t *o, bool note);
/* "name prediction  value" lines, or " name prediction value" parts of one line. */
void rt_print_metrics(const RtModel *m, const json_t *o, bool lines, FILE *f);
/* How far predictions can be taken for probabilities (calibration.c), of metrics that were told to keep rows:
 * {"ctr":{…},…} by what reports call each prediction. */
json_t *rt_calibration(const RtModel *m, RtMetrics *s);
void rt_print_calibration(const json_t *o);
/* One object, one line, on stdout; takes the reference. An exit code: a full disk is an error. */
int rt_print_json(json_t *o);
int rt_flush_stdout(void);

/* ---- the first NaN (nan.c) ---- */
/* Says what is known about a loss that is not finite in this batch; returns RT_EXIT_FAILED. */
int rt_report_nan(RtExec *x, int function, const RtReader *r, const RtBatch *b);

#endif
