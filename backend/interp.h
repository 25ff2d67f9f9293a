/* The reference interpreter: runs IR in double precision, straight from the op table's meaning. It shares no
 * code with the emitter. It runs a function of any stage: `model` (forward only), `train` (with updates),
 * `eval`, `predict`, before or after any pass.
 *
 * `model` means what training computes: batchnorm by the batch's statistics, dropout at work (of the step that
 * would be next), nothing written. In `train` all updates take effect when the step ends, so that every op sees
 * the weights as they were before; a loss that is not finite leaves them as they are. */
#ifndef CTRC_BACKEND_INTERP_H
#define CTRC_BACKEND_INTERP_H
#include "ir/ir.h"

/* A value: `count` rows (positions, unique rows; 1 for step and always) of ir_type_size doubles.
 * Ids are doubles too, -1 for none. */
typedef struct { double *v; int64_t count; int64_t size; } InterpValue;

/* One batch, as the reader delivers it, in double precision, per reader-stage node that the function reads:
 * the test or tool fills `value` for each node of class READ or COLUMN that a step op uses. */
typedef struct {
    int64_t rows;
    const int64_t **offsets; /* [axis][rows+1], NULL if unused */
    
    bool (*fetch)(void *user, const IrNode *node, InterpValue *out);
    void *user;
} InterpBatch;

typedef struct Interp Interp;
Interp *interp_new(IrProgram *p, uint64_t seed);
void interp_free(Interp *it);
double *interp_weight(Interp *it, int weight);           /* whole, row-major; to be filled by the caller */
double *interp_slot(Interp *it, int weight, int slot);   /* set to the optimizer's initial state by interp_new */
void interp_set_step(Interp *it, uint64_t step);         /* counts from 1; interp_run of "train" advances it */
/* Runs one function over a batch. False: message in p->diag. Values stay until the next run. */
bool interp_run(Interp *it, const char *func, const InterpBatch *b);
const InterpValue *interp_value(const Interp *it, const IrNode *n); /* NULL if it wasn't computed */
double interp_loss(const Interp *it); /* total of the last run: mean over rows of func model's, or the loss node's */

#endif
