/* Programs around single ops: for each op of the op table one or more variants (shapes, lives, attributes). A
 * program holds a group of them, as compiling one each would take long: all elementwise ops of one variant, or
 * all variants of another op. It has func `model` and trains, so that the passes add backward ops and updates.
 *
 * The op's result, whatever its shape, is weighed by a fixed pattern into one number a row, which is a prediction
 * `OP_VARIANT`, and the squared distance of which to a label is a loss. Its operands come from trained weights of
 * its own, `OP_VARIANT.w0` …, so a wrong gradient shows as a wrong weight. */
#ifndef CTRC_TESTS_OP_CASES_H
#define CTRC_TESTS_OP_CASES_H
#include "ir/ir.h"

enum { OP_CASE_BATCH = 150 };

/* Group number `group`, from 0; its name in *what. `only`: just the values whose names begin so, NULL: all.
 * NULL without an error in d after the last group. A program may come without values. */
IrProgram *op_case_group(Arena *a, Diag *d, int group, const char *only, const char **what);
/* Programs that aim at optimizers and updates rather than at one op. */
IrProgram *op_case_optimizer(Arena *a, Diag *d, int variant, const char **what);

#endif
