/* `check`: what is in log files, without training on them. Blocks of text are parsed by the threads of a
 * pool, one each; then each thread takes the columns that are its own through all of these blocks in order.
 * So what is counted doesn't depend on the number of threads, and memory is that of the blocks and of the
 * counts (tally.h), whatever the size of the data. check_read.c does this; check_column.c counts;
 * check_warn.c judges; check_report.c prints. */
#ifndef CTRC_RUNTIME_CHECK_H
#define CTRC_RUNTIME_CHECK_H
#include <jansson.h>
#include "runtime/program.h"
#include "runtime/reader_parse.h"
#include "runtime/tally.h"

enum { RT_CHECK_LABELS = 8, RT_CHECK_MESSAGES = 5, RT_CHECK_TOP = 3, RT_CHECK_BINS = 1024 };

/* Rows of a label in order of the data: sums over chunks of equal size, which doubles as needed. */
enum { RT_CHECK_CHUNKS = 512 };
typedef struct {
    uint64_t chunk, rows[RT_CHECK_CHUNKS], positive[RT_CHECK_CHUNKS];
    int n;
} RtCheckCourse;

/* Numbers that came when the tally was full, by ranges that hold equally many of those before. */
typedef struct {
    double lower[RT_CHECK_BINS]; /* lower[0] is never looked at */
    uint64_t n[RT_CHECK_BINS];
    uint64_t positive[RT_CHECK_BINS][RT_CHECK_LABELS];
} RtCheckBins;

typedef struct {
    const RtColumn *c;
    int column;
    int label; /* number among the labels, -1 */
    bool raw;  /* its numbers go to the network as they are */
    bool hashed;
    uint64_t rows, filled; /* filled: rows with a value; of a list: with an element */
    uint64_t values;       /* of a list: elements that were kept */
    RtTally tally;         /* of values, by rows; of a list's elements, by rows that have them */
    double min, max, sum;  /* of numbers */
    RtTally lengths;       /* of a list, elements in the field */
    uint64_t most;         /* of a list: elements that are kept, 0: all */
    uint64_t shortest, longest, elements, cut; /* cut: rows that have more than that */
    uint64_t *in_row; /* of a list's elements in tally: the last row that has it, from 1 */
    size_t cap_in_row;
    uint64_t first_list;   /* a hash of the first row's list; */
    bool differ;           /* another row has another one */
    RtCheckBins *bins;     /* NULL: none were late */
    RtCheckCourse *course; /* of a label */
} RtCheckColumn;

typedef struct {
    int feature;
    const RtFeature *f;
    uint64_t *occupied;          /* of a cross: a bit a bucket */
    uint64_t looked_up, unknown; /* of a vocabulary */
} RtCheckFeature;

typedef struct RtDataCheck {
    const RtModel *m;
    const RtArgs *a;
    RtPlan *plan;
    RtCheckColumn *column;
    int n_columns;
    RtCheckFeature *feature;
    int n_features;
    int label[RT_CHECK_LABELS]; /* columns, as numbers of `column` */
    int n_labels;
    RtFiles files;
    RtHll *rows_hll; /* of whole rows */
    uint64_t rows, bad_rows, bytes;
    double seconds;
    RtMessage bad[RT_CHECK_MESSAGES];
    RtMessage no_label; /* why training could not read this, if only predictions can; "" */
    json_t *warnings;   /* [{"kind","column","text"},…] */
} RtDataCheck;

/* Reads all rows, or the first `limit` (0: all). An exit code. */
int rt_check_read(RtDataCheck *k, uint64_t limit);
void rt_check_free(RtDataCheck *k);

/* ---- check_column.c ---- */
/* A block's values of one column, in order. */
typedef struct {
    uint64_t *key;
    RtText *text;    /* of strings */
    uint32_t *count; /* [row] values that follow in key; 0: none */
    uint32_t *total; /* [row] of a list: elements in the field */
    size_t n, cap_key, cap_text, cap_count, cap_total;
} RtCheckValues;
void rt_check_column_init(RtCheckColumn *c, int labels);
void rt_check_column_free(RtCheckColumn *c);
uint64_t rt_check_number_key(const RtColumn *c, const RtValues *v, uint32_t i);
double rt_check_number(const RtColumn *c, uint64_t key);
bool rt_check_is_number(const RtColumn *c);
/* Rows 0..rows-1 of a block. half: of each row, 0 or 1; positive: a bit a label. */
void rt_check_column_add(RtCheckColumn *c, const RtCheckValues *v, uint32_t rows, const uint8_t *half,
                         const uint32_t *positive);
/* What it alone reaches, of a list its length or one of its elements: at least 0.5, which says nothing; NaN
 * of a label. */
double rt_check_auc(const RtCheckColumn *c, int label);
/* Of a list: that of the element that tells most by being there; NaN without any. */
double rt_check_element_auc(const RtCheckColumn *c, int label, RtTallyValue *element);
double rt_check_quantile(const RtCheckColumn *c, double share);
/* Share of the distinct values that share their bucket with another; *exact: counted, else expected. */
double rt_check_collisions(const RtDataCheck *k, const RtCheckFeature *f, double *distinct, bool *exact);
/* Shares of positives in the first and the last tenth of the rows, and how many rows these have. */
bool rt_check_course(const RtCheckColumn *c, double *first, double *last, double *rows);
uint64_t rt_check_positives(const RtDataCheck *k, int label);

void rt_check_warn(RtDataCheck *k); /* check_warn.c: fills warnings */
int rt_check_print(RtDataCheck *k); /* check_report.c */
/* A value of the column as people read it, 40 bytes of it at most, in quotes if it is a text. */
const char *rt_check_show(const RtCheckColumn *c, const RtTally *t, const RtTallyValue *v,
                          char out[RT_SHOWN]);
const char *rt_check_feature_name(const RtDataCheck *k, const RtCheckFeature *f, char out[200]);

#endif
