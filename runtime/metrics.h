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

#endif
