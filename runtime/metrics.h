/* Metrics over all rows of an evaluation (or of an epoch as it was predicted). Exact: AUC keeps every row's
 * prediction and label, 8 bytes a row, 16 for GAUC. */
#ifndef CTRC_RUNTIME_METRICS_H
#define CTRC_RUNTIME_METRICS_H
#include "runtime/model.h"

typedef struct RtMetrics RtMetrics;

RtMetrics *rt_metrics_new(const RtModel *m);
void rt_metrics_free(RtMetrics *s);
void rt_metrics_reset(RtMetrics *s);
/* Rows of metric number `metric`. where (not 0: the row counts) and by (groups) may be NULL. */
void rt_metrics_add(RtMetrics *s, int metric, uint32_t rows, const float *p, const float *y,
                    const float *where, const uint64_t *by);
/* False: undefined, and *why says why ("all labels are alike"). */
bool rt_metrics_value(RtMetrics *s, int metric, double *out, const char **why);
const char *rt_metric_name(RtMetricKind k);
/* Of a logloss: over that of always predicting the observed rate (He et al., ADKDD 2014); below 1 something
 * was learnt. NaN where there is none, and of other metrics. */
double rt_metrics_normalized_entropy(const RtMetrics *s, int metric);
double rt_entropy(double p); /* -(p log p + (1 - p) log(1 - p)); NaN unless 0 < p < 1 */
/* Sums over the rows so far, of the metrics that are made of sums (logloss, pcoc, accuracy), to be saved and
 * restored: exact. AUC and GAUC need all rows: false. */
typedef struct {
    uint64_t rows;
    bool not_finite;
    double p, y, loss, right;
} RtMetricSums;
bool rt_metrics_sums(const RtMetrics *s, int metric, RtMetricSums *out);
void rt_metrics_restore(RtMetrics *s, int metric, const RtMetricSums *sums);

/* ---- rows as they are kept ---- */
/* From now on of each prediction with a label (and a condition) the rows are kept, whatever its metrics are.
 */
void rt_metrics_keep(RtMetrics *s);
/* By rising prediction, of the first metric of such a pair; NULL: the metric isn't one. To be asked after all
 * values: it leaves no groups for a GAUC. */
const uint64_t *rt_metrics_rows(RtMetrics *s, int metric, uint64_t *n);
float rt_row_prediction(uint64_t row);
float rt_row_label(uint64_t row);
/* -(y log p + (1 - y) log(1 - p)), p kept off 0 and 1 by 1e-7. */
double rt_logloss(double p, double y);

#endif
