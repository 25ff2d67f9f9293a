/* Norms of gradients and weights in a step, for the log.
 *
 * A gradient may exist nowhere in memory: kernels that make it hand it to the optimizer in registers. So a
 * step whose norms are wanted is run twice. First it is rehearsed with the optimizer's slots emptied, which
 * then hold the gradient or its squares, and all that it wrote is put back; then it is run. Steps that are
 * not logged pay nothing, and no bit of the training depends on what is logged.
 *
 * The gradient is what the optimizer gets: with l2, after clip_norm. Of tables, and of weights whose updates
 * name rows, both norms are over the rows of this step. */
#ifndef CTRC_RUNTIME_NORMS_H
#define CTRC_RUNTIME_NORMS_H
#include "runtime/exec.h"

typedef struct {
    bool given;          /* of weights that an optimizer trains */
    double grad, weight; /* L2 norms; of the weight before the step */
    uint64_t rows;       /* that they are over; 0: all */
} RtNorm;

typedef struct RtNorms RtNorms;
RtNorms *rt_norms_new(const RtModel *m);
void rt_norms_free(RtNorms *n); /* may be NULL */
/* Rehearses the step that x is about to run, after its scalars are set and rows caught up (called by
 * rt_exec_run). Leaves everything as it was, and the norms. */
void rt_norms_rehearse(RtNorms *n, RtExec *x, RtStepFn fn);
const RtNorm *rt_norms(const RtNorms *n); /* [weight] of the last rehearsal */

#endif
