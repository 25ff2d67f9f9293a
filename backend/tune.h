/* Parts of --tune-kernels: tune.c measures what tune_code.c makes. */
#ifndef CTRC_BACKEND_TUNE_H
#define CTRC_BACKEND_TUNE_H
#include "backend/cost_table.h"

/* tune_code.c: an object with a function for each way to make each product,
 *     void measured_tile_I(NULL, c, a, b, scratch, bias, rows lo, hi), _library_I, and _pack_I, a to panels
 * c; of a gradient c is x^T g with x in a and g in b. False: error reported. */
typedef void (*TuneFn)(void *none, float *c, const float *a, const float *b, char *scratch, const float *bias,
                       int64_t lo, int64_t hi);
bool tune_emit(IrProgram *p, const PassProduct *products, int n, const char *object);
double tune_median(double *v, int n); /* sorts v */
int64_t tune_scratch(const PassTarget *t, const PassProduct *s); /* bytes */

#endif
