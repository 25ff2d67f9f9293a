/* From a .ctr file to IR: func `model`, complete with schema, weights, optimizers and train settings. */
#ifndef CTRC_FRONTEND_COMPILE_H
#define CTRC_FRONTEND_COMPILE_H
#include "ir/ir.h"

typedef struct { const char *name, *value; } Define; /* -D name=value */

/* Reads path, parses, evaluates. library_dir holds the layer library. NULL after errors (all in d). */
IrProgram *frontend_compile(Arena *a, Diag *d, const char *path, const Define *defs, int n_defs, const char *library_dir);
/* Reads a whole file; NULL after an error in d. Limit 64 MB. */
const char *frontend_read_file(Arena *a, Diag *d, const char *path, size_t *size);

/* ctrc synth: writes rows of the program's own columns with a planted signal to out; *best_auc gets the AUC of
 * the probabilities that the labels were drawn from (of the first label column). */
bool frontend_synth(IrProgram *p, int64_t rows, uint64_t seed, const char *out, double *best_auc);
/* ctrc diff. Returns the number of differences. */
int frontend_diff(const IrProgram *a, const IrProgram *b, FILE *out);

#endif
