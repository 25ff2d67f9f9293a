/* Parts of schedule: which kernel runs a product (choose_kernel.c, weigh_products.c), what is packed for it
 * (pack_weights.c), and sums over rows, block by block (block_sums.c). */
#ifndef CTRC_PASSES_SCHEDULE_H
#define CTRC_PASSES_SCHEDULE_H
#include "passes/product_cost.h"
#include "passes/rewrite.h"

typedef enum { PRODUCTS_AUTO, PRODUCTS_TILE, PRODUCTS_LIBRARY } PassProducts;
typedef struct {
    PassProduct product; /* by kind, k and n */
    IrKernel kernel;
    bool used;
} PassNamedKernel;
/* Who decides: what names a product, else the wish, else the rule. */
typedef struct {
    PassProducts wish;
    PassNamedKernel *named;
    int n, cap;
    bool no_amx;
} PassKernels;
/* schedule's arguments products=, tile=, library= and amx=. False: error reported. */
bool pass_read_kernels(IrProgram *p, const char *args, PassKernels *out);
IrKernel pass_choose_kernel(const IrNode *n, const PassTarget *target, const PassKernels *kernels);
/* Names the products for which measured costs speak against the rule, and says so in p->settled. `call_rows`:
 * of a function's kernels. False: error reported. */
typedef int PassRows(const IrProgram *p, const IrFunc *f, int rows);
bool pass_weigh_products(IrProgram *p, const PassOptions *o, PassKernels *kernels, PassRows *call_rows,
                         int rows);

/* Packs what products by tiles read as their right side, once a step. Before there is a plan. */
void pass_pack(IrProgram *p, IrFunc *f, const PassTarget *target, const PassKernels *kernels);

/* Splits sums over the rows of the step into those of blocks of so many rows, and of these. Before there is a
 * plan. */
void pass_block_sums(IrProgram *p, IrFunc *f, int rows);

#endif
