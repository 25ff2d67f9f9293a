/* Parts of fuse: weight gradients and the updates by them, in one visit (fuse_update.c); chains that read the
 * same (fuse_siblings.c). */
#ifndef CTRC_PASSES_FUSE_PARTS_H
#define CTRC_PASSES_FUSE_PARTS_H
#include "passes/rewrite.h"

/* Joins what may be joined and gains by it, and notes in the program how many updates of whole weights that
 * are, and why others are not. Before chains are made of single ops. taking: by place in the body, the sums
 * that take in what they add up, which gains more; NULL: whatever may be joined is. */
bool pass_fuse_updates(IrProgram *p, IrFunc *f, const bool *taking);

/* Behind chains: joins those that read the same value, or each other, to regions with several results. How
 * many regions that made; -1: error reported. */
int pass_fuse_siblings(IrProgram *p, IrFunc *f);

#endif
