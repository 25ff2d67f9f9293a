/* Runs the generated functions over batches: owns the arenas, the step's struct and the threads.
 *
 * Nothing is allocated in a step: rt_exec_batch grows, between steps, what a batch's positions and unique
 * rows need; the fixed arena and the threads' scratch have their full size from the start. */
#ifndef CTRC_RUNTIME_EXEC_H
#define CTRC_RUNTIME_EXEC_H
#include "runtime/pool.h"
#include "runtime/reader.h"
#include "runtime/tables.h"

typedef struct {
    bool on, found;
    uint32_t op; /* id of the first node with a value that is not finite */
    float value;
    uint64_t element; /* in what rt_check was given */
} RtCheck;

typedef struct RtExec {
    const RtModel *m;
    RtTables *tables;
    RtPool *pool;
    RtStep step;    /* step.runtime is this struct */
    RtOptStep *opt; /* [weight] */
    float loss;     /* of the last run, by rt_loss */
    bool loss_given;
    RtCheck check;
    double run_seconds; /* in generated code and in indexing batches, in all */
    RtIndexScratch **index; /* [thread], when first used */
    int function;       /* of the last run: RT_TRAIN … */
    int kept;           /* function of which `fixed` holds what it makes of weights; RT_TRAIN: of none */
    struct RtNorms *norms; /* not NULL: the next training step is to fill it (norms.h) */
    uint64_t fixed_bytes, scratch_bytes;
    uint64_t row_block, *axis_elems, *local_elems, *uniq_elems; /* largest of the functions */
    uint64_t *axis_cap, *local_cap, *uniq_cap;
    char **axis_arena, **uniq_arena, **scratch;
    uint32_t n_scratch;
} RtExec;

/* tables are the caller's and must outlive it. NULL on error, with one line in err. */
RtExec *rt_exec_new(const RtModel *m, RtTables *tables, uint32_t threads, char *err, size_t err_bytes);
void rt_exec_free(RtExec *x);
/* Makes b the batch of the next runs; it must stay until then. What the reader left to index is indexed by all
 * threads. */
void rt_exec_batch(RtExec *x, RtBatch *b);
/* Runs a function (RT_TRAIN …) over the batch. RT_TRAIN: step number x->step.step + 1, which stands in
 * x->step.step afterwards. False: the loss was not finite, nothing was updated. */
bool rt_exec_run(RtExec *x, int function, RtStepFn fn);
/* The last run again, on one thread, with x->check telling the first value that is not finite. */
void rt_exec_find_nan(RtExec *x, RtStepFn fn);
/* Where a function left output number `output`: [rows] floats, or u64 of a key. */
const void *rt_exec_output(const RtExec *x, int function, int output);
/* Bytes of the arenas at their present size. */
uint64_t rt_exec_bytes(const RtExec *x);

#endif
