/* Batches of random values, as the reader would deliver them, for programs of any kind.
 *
 * Values belong to features, so the same batch can be given to several sets of tables (whose storage rows
 * differ) and to the interpreter through the bridge. Labels are 0 or 1, other numbers lie in (-2, 2), ids are
 * skewed so that they repeat, one in ten is missing. */
#ifndef CTRC_TESTS_RANDOM_BATCH_H
#define CTRC_TESTS_RANDOM_BATCH_H
#include "runtime/reader.h"
#include "runtime/tables.h"

typedef enum { LISTS_MIXED, LISTS_EMPTY, LISTS_LONG } RandomLists;

/* Everything hangs on the batch; freed by random_batch_free. */
RtBatch *random_batch_new(const RtModel *m, uint64_t *rng, uint32_t rows, RandomLists lists);
/* Finds unique rows and gives them their storage rows: new ones if `train`. */
void random_batch_bind(RtBatch *b, RtTables *t, bool train);
void random_batch_free(RtBatch *b);

uint64_t random_next(uint64_t *rng); /* splitmix64 */
double random_unit(uint64_t *rng);   /* [0, 1) */

#endif
