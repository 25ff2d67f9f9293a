/* Small programs around single ops: for each op of the op table one or more variants (shapes, lives,
 * attributes), each a whole program with func `model` that trains, so that the passes add the backward ops
 * and updates.
 *
 * The op's result, whatever its shape, is weighed by a fixed pattern into one number a row, `predict p`, of
 * which the loss is the squared distance to a label. Its operands come from trained weights, so a wrong
 * gradient shows as a wrong weight. */
#ifndef CTRC_TESTS_OP_CASES_H
#define CTRC_TESTS_OP_CASES_H
#include "ir/ir.h"

enum { OP_CASE_BATCH = 150 };

/* The program of a variant, from 0; NULL if the op has no such variant. */
IrProgram *op_case(Arena *a, Diag *d, IrOp op, int variant);
/* Programs that aim at optimizers and updates rather than at one op. */
IrProgram *op_case_optimizer(Arena *a, Diag *d, int variant, const char **what);

#endif
