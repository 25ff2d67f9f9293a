/* The parts of simplify. */
#ifndef CTRC_PASSES_SIMPLIFY_H
#define CTRC_PASSES_SIMPLIFY_H
#include "passes/rewrite.h"

/* A constant for an elementwise op of constants, else n. */
IrNode *pass_fold(IrBuilder *b, IrNode *n);

#endif
