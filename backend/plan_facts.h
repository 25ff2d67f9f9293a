/* What a plan says of each kernel, in numbers and words: `--emit=plan` prints it, `--emit=html` shows it. */
#ifndef CTRC_BACKEND_PLAN_FACTS_H
#define CTRC_BACKEND_PLAN_FACTS_H
#include "backend/emit.h"

/* Texts, in the program's arena or constant. */
const char *plan_from(const IrProgram *p, const IrNode *n);    /* "deepfm.ctr:11", "-" */
const char *plan_op(const IrProgram *p, const IrNode *n);      /* "relu"; of a region: "matmul+add+relu" */
const char *plan_size(const IrProgram *p, const IrNode *n);    /* of a product "396x512"; else the type */
const char *plan_place(const IrProgram *p, const IrNode *n);   /* "fixed+2048", "~h+64", "@items+0", "-" */
const char *plan_kernel(const PassTarget *t, const IrNode *n); /* "tile" */
const char *plan_why(Arena *a, const PassTarget *t, const IrNode *n); /* it is that one; may be "" */
const char *plan_domain(const IrNode *n);                             /* "rows" */

/* plan_arenas.c: what stands in an arena, and how large it must be at least. In bytes: of an arena of a list or
 * table, a position or unique row. Live from phase `first` to `last`; in a thread's own (REGION_LOCAL), from
 * kernel to kernel. */
typedef struct {
    const IrNode *node;
    int first, last;
    int64_t offset, bytes;
    bool per_block; /* the rows of one block */
} PlanBuffer;
typedef struct {
    IrRegionKind region;
    int index; /* the list's or table's number; -1: of values a row or step */
    int64_t size, live; /* live: the largest sum of what lives at one time */
    PlanBuffer *buffers;
    int n;
} PlanArena;
PlanArena *plan_arenas(const IrProgram *p, const IrFunc *f, int *n); /* sets marks; the fixed one is the first */

/* rates.c: what one core does in a second at best, and where the numbers come from. */
typedef struct {
    double flops;        /* multiply-adds in registers */
    double cache_bytes;  /* read and written, where all fits into the core's own cache */
    double memory_bytes; /* … where it doesn't */
    const char *source;
} PlanRates;
PlanRates plan_rates(Arena *a, const EmitTarget *t, const char *march);
/* Of a kernel on one thread: its arithmetic or its bytes, whichever take longer. */
double plan_seconds(const PlanRates *r, const PassTarget *t, const IrNode *n, IrCost c);

/* Bytes of a weight alone, and of what its optimizer keeps for it. A table's are those of all its rows. */
double plan_weight_bytes(const IrWeight *w);
double plan_slot_bytes(const IrProgram *p, const IrWeight *w);

#endif
