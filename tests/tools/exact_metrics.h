/* AUC and logloss of what the reference interpreter predicts, in double precision: the runtime's own keep
 * predictions as float. For tests only. */
#ifndef CTRC_TESTS_EXACT_METRICS_H
#define CTRC_TESTS_EXACT_METRICS_H
#include <jansson.h>
#include "backend/interp.h"
#include "runtime/model.h"

typedef struct ExactMetrics ExactMetrics;

/* p and m are of one program; both must outlive it. */
ExactMetrics *exact_metrics_new(IrProgram *p, const RtModel *m);
void exact_metrics_free(ExactMetrics *e);
/* The rows of the last run of func `train`. */
void exact_metrics_add(ExactMetrics *e, const Interp *it);
/* {"auc": {NAME: value}, "logloss": {…}} under the names that a program reports; null where undefined. The
 * other kinds are left out. The caller's. */
json_t *exact_metrics_json(const ExactMetrics *e);

#endif
