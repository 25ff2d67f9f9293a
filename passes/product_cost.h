/* Products that can be made by generated tiles or by the library: their names, sizes, and what each way was
 * measured to cost on a CPU. The figures come from the backend (cost_table.c, tune.c); schedule chooses. */
#ifndef CTRC_PASSES_PRODUCT_COST_H
#define CTRC_PASSES_PRODUCT_COST_H
#include "passes/pass.h"

/* x W, x W^T (swapped), or a weight's gradient x^T g (grad). */
typedef struct PassProduct {
    bool grad, swapped;
    int64_t k, n;      /* length of the sums and columns; of a gradient the result's rows and columns */
    int64_t unit_rows; /* rows a row of the batch, or a position */
    bool ended;        /* an epilogue follows, in the same kernel */
    int64_t call_rows, step_rows; /* of one call of the kernel, and of a step; large ones are cut */
} PassProduct;

/* The product that n is or holds, by all but its rows. False: there is none, or it can be made in one way
 * only.
 */
bool pass_product_shape(const IrNode *n, PassProduct *out);
/* The rows too, which follow from the batch and from how many rows a call has; lists count as in a plan. */
bool pass_product(const IrProgram *p, const IrFunc *f, const IrNode *n, int64_t block, PassProduct *out);
/* Of one kind and size: what a name tells. */
bool pass_same_product(const PassProduct *a, const PassProduct *b);
/* "396x1024", "1024x396t" by the transpose, "dW 396x1024": as schedule's arguments name it. */
const char *pass_product_name(Arena *a, const PassProduct *s);
/* "396x1024, 64 of 512 rows, epilogue": what was measured. */
const char *pass_product_key(Arena *a, const PassProduct *s);
double pass_product_flops(const PassProduct *s); /* of a step */

typedef struct {
    const char *key;
    double tile, library; /* GFLOP/s */
} PassCost;
typedef struct PassCosts {
    PassCost *item;
    int n, cap;
    const char *source; /* "measured on this znver3, kept in …" */
    /* --tune-kernels: measures these products and puts them in. False: error reported. Else NULL. */
    bool (*measure)(struct PassCosts *c, IrProgram *p, const PassProduct *products, int n);
    void *context;      /* measure's own */
    bool asked, failed; /* measure was called; and failed */
} PassCosts;
const PassCost *pass_cost(const PassCosts *c, const char *key); /* NULL: not measured */
void pass_cost_put(Arena *a, PassCosts *c, PassCost cost);      /* in place of an equal key's */

/* Whether the library is so much faster that it is chosen: a tenth, in gradients a fifth. Its calls get
 * memory and its sums have another order; and what was measured alone is off by as much as that in a program
 * (tests/bench). */
bool pass_library_wins(const PassProduct *s, double tile_seconds, double library_seconds);

#endif
