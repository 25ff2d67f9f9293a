/* What the files of the reference interpreter share: the state of a run and the few questions that every op
 * asks of it ("how many rows has this type now", "which row of x does row i of the result take"). Private to
 * backend/interp*.c.
 *
 * Ownership: the value map owns each value that an op made, until the next run; aliases (weights, arguments
 * of regions, roots) are not owned. */
#ifndef CTRC_BACKEND_INTERP_CORE_H
#define CTRC_BACKEND_INTERP_CORE_H
#include "backend/interp.h"

/* The step's unique rows of one table, in order of first appearance. */
typedef struct {
    bool found;     /* filled in this run */
    int64_t n;      /* unique rows */
    int64_t *id;    /* [n] */
    int64_t *index; /* [rows of the table] place among the unique rows, -1: not in this step */
} InterpUnique;

typedef struct {
    const IrNode *node;
    InterpValue value;
    bool owned;
} InterpEntry;

struct Interp {
    IrProgram *p;
    uint64_t seed;
    uint64_t step;     /* of the next (or running) train step, from 1 */
    double **weight;   /* [weight] */
    double **slot;     /* [weight * 3 + slot] */
    uint64_t *updates; /* [weight] times it was updated: adam_async's own t */
    int n_weights;

    /* one run */
    const IrFunc *func;
    const InterpBatch *batch;
    bool training;        /* funcs model and train: statistics of the batch, dropout at work */
    const IrNode *region; /* the fused region being run: its operands are the ARGs' values */
    InterpUnique *unique; /* [weight] */
    int64_t **row_of;     /* [axis][position]: the row it belongs to; NULL until asked for */
    int n_axes;
    InterpEntry *map; /* open addressing by node */
    size_t map_cap, map_n;
    double loss;
};

typedef bool (*InterpFn)(Interp *it, const IrNode *n);
#define OP(id, ...) bool interp_##id(Interp *it, const IrNode *n);
#include "ir/ops.def"
#undef OP

/* Reports at the node's span; always false, so that ops can return it. */
bool interp_error(Interp *it, const IrNode *n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Operand i; it was computed before. */
InterpValue interp_in(const Interp *it, const IrNode *n, int i);
/* An operand of type id of any op of the function, asked of the batch if need be. NULL after an error. */
const InterpValue *interp_ids(Interp *it, const IrNode *id);
/* The result: zeros, count * size of the node's type. */
double *interp_out(Interp *it, const IrNode *n);
/* The result is that of another node (or a weight): not copied, not owned. */
void interp_alias(Interp *it, const IrNode *n, InterpValue v);

/* How many times a value of this type exists in this step. */
int64_t interp_count(Interp *it, IrType t);
/* The index at which a value of type `from` is read for index i of type `to` (the same or a finer live). */
int64_t interp_row(Interp *it, IrType from, IrType to, int64_t i);
/* For each element of a row of `to` the element of `from` that it takes: sizes of 1 stretch, ranks align from
 * the right. Malloc'd. */
int64_t *interp_stretch(IrType from, IrType to);
/* A shape around one axis (negative: from the end): [outer, size, inner], row-major. */
typedef struct {
    int64_t outer, size, inner;
} InterpAxis;
InterpAxis interp_axis(IrType t, int64_t axis);

double interp_round_bf16(double x); /* as op bf16 */

/* The unique rows of a table in this step. NULL after an error. */
const InterpUnique *interp_unique(Interp *it, const IrNode *n, int weight);
double interp_rate(const IrSched *s, double t); /* a schedule's rate at update t, from 1 */

#endif
