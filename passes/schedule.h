/* Parts of schedule: which kernel runs a product (choose_kernel.c), and what is packed for it
 * (pack_weights.c).
 */
#ifndef CTRC_PASSES_SCHEDULE_H
#define CTRC_PASSES_SCHEDULE_H
#include "passes/rewrite.h"

typedef enum { PRODUCTS_AUTO, PRODUCTS_TILE, PRODUCTS_LIBRARY } PassProducts;
IrKernel pass_choose_kernel(const IrNode *n, const PassTarget *target, PassProducts wish);
/* Packs what products by tiles read as their right side, once a step. Before there is a plan. */
void pass_pack(IrProgram *p, IrFunc *f, const PassTarget *target, PassProducts products);

#endif
