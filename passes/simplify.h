/* The parts of simplify. */
#ifndef CTRC_PASSES_SIMPLIFY_H
#define CTRC_PASSES_SIMPLIFY_H
#include "passes/rewrite.h"

/* A constant for an elementwise op of constants, else n. */
IrNode *pass_fold(IrBuilder *b, IrNode *n);
/* What stands for a movement, reduction or product with a simpler operand or none: simplify_moves.c. */
IrNode *pass_simplify_move(PassRewrite *rw, IrNode *n);
/* The sum of two neighbouring parts, each padded with zeros, is both in a row: else n. */
IrNode *pass_simplify_pads(PassRewrite *rw, IrNode *n);

#endif
