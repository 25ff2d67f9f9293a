/* What products cost on this CPU, kept in a file: cost_table.c. Measured anew: tune.c. */
#ifndef CTRC_BACKEND_COST_TABLE_H
#define CTRC_BACKEND_COST_TABLE_H
#include "backend/emit.h"
#include "passes/product_cost.h"

/* What figures hold for. */
typedef struct {
    const char *name; /* of the CPU, by itself: "AMD EPYC 7763 64-Core Processor" */
    const char *path; /* of its table; NULL: there is no place for one */
    EmitTarget t;
} CostCpu;
bool cost_cpu(Diag *d, Arena *a, CostCpu *out);
/* The table's figures into c. A file that isn't there gives none; one that is no use gives none and a
 * warning. */
void cost_table_read(Diag *d, Arena *a, const CostCpu *cpu, PassCosts *c);
bool cost_table_write(Diag *d, Arena *a, const CostCpu *cpu, const PassCosts *c);

/* tune_code.c: an object with a function for each way to make each product,
 *     void measured_tile_I(NULL, c, a, b, scratch, bias, rows lo, hi), _library_I, and _pack_I, a to panels
 * c; of a gradient c is x^T g with x in a and g in b. False: error reported. */
typedef void (*TuneFn)(void *none, float *c, const float *a, const float *b, char *scratch, const float *bias,
                       int64_t lo, int64_t hi);
bool tune_emit(IrProgram *p, const EmitTarget *t, const PassProduct *products, int n, const char *object);
int64_t tune_scratch(const PassTarget *t, const PassProduct *s); /* bytes */

#endif
