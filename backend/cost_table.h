/* What products cost on this CPU, kept in a file: cost_table.c. Measured anew: tune.c. */
#ifndef CTRC_BACKEND_COST_TABLE_H
#define CTRC_BACKEND_COST_TABLE_H
#include "passes/product_cost.h"

/* What figures hold for. */
typedef struct {
    const char *name; /* of the CPU, by itself: "AMD EPYC 7763 64-Core Processor" */
    const char *path; /* of its table; NULL: there is no place for one */
    const char *cpu;  /* as LLVM calls it: "znver3" */
    PassTarget target;
} CostCpu;
bool cost_cpu(Diag *d, Arena *a, CostCpu *out);
/* The table's figures into c. A file that isn't there gives none; one that is no use gives none and a
 * warning. */
void cost_table_read(Diag *d, Arena *a, const CostCpu *cpu, PassCosts *c);
bool cost_table_write(Diag *d, Arena *a, const CostCpu *cpu, const PassCosts *c);

#endif
