/* Storage of weights: dense arrays, and tables whose rows are stored as they are met. See README.md.
 *
 * A row is *initialised* when a training step first fetches it and *touched* when an update first writes it.
 * Only touched rows differ from their initial values, so only they count: in evaluation, in checkpoints.
 * Threading: rt_tables_slots may be called by readers' threads at any time (it locks); rt_fetch and
 * rt_touched by the threads of a step, each for rows of its own; the rest between steps. */
#ifndef CTRC_RUNTIME_TABLES_H
#define CTRC_RUNTIME_TABLES_H
#include "runtime/model.h"

typedef struct RtTables RtTables;

#define RT_MAPPED_ROWS (1u << 20) /* tables up to this size are saved whole, and find rows without hashing   \
                                   */

/* Reserves and initialises: dense weights and slots now, table rows when first met. */
RtTables *rt_tables_new(const RtModel *m, uint64_t seed, char *err, size_t err_bytes);
/* Without slots, for what is evaluated, predicts or is exported: a third of the memory, with adam. Of such tables there
 * is part 0 only, and no training step, no save. */
RtTables *rt_tables_new_fixed(const RtModel *m, uint64_t seed, char *err, size_t err_bytes);
void rt_tables_free(RtTables *t);
/* The storage row of an id: of a sparse table in the order in which ids were first met, else the id. create:
 * a new one if it has none, else RT_NO_ID. And of n different ids. */
uint32_t rt_tables_slot(RtTables *t, int weight, uint32_t id, bool create);
void rt_tables_slots(RtTables *t, int weight, const uint32_t *id, uint32_t n, bool create, uint32_t *slot);
/* So that the next rt_tables_slots with up to so many new ids allocates nothing. */
void rt_tables_reserve(RtTables *t, int weight, uint64_t more);
/* Initial value of elements first..first+n-1 of a weight, by (seed, name, element): numerics "Randomness". */
void rt_init_values(const RtWeight *w, uint64_t seed, uint64_t first, uint64_t n, float *out);
/* Of what fills at least one, where the system has them: p begins at the border of one, or of a small page.
 */
enum { RT_HUGE_PAGE = 2 << 20 };
void rt_ask_huge_pages(void *p, uint64_t bytes);
/* The pointers that a step needs (weights, slots, table_rows). */
void rt_tables_bind(RtTables *t, RtStep *s);
/* Bytes in use: dense arrays, rows met, indexes. */
uint64_t rt_tables_bytes(const RtTables *t);

/* ---- around a step ---- */
/* Before step number `step`: rates for rows to catch up with, missed decays of dense rows that the batch's
 * unique rows name. After it: the step counts as done. */
void rt_tables_before_step(RtTables *t, uint64_t step, const RtTableBatch *batch);
void rt_tables_after_step(RtTables *t, uint64_t step);
uint64_t *rt_tables_updates(RtTables *t); /* [weight] updates so far, for adam_async's powers */
/* What rt_fetch and rt_touched do, without a step around. */
void rt_tables_fetch(RtTables *t, const RtTableBatch *b, int weight, uint32_t lo, uint32_t hi, float *out,
                     bool train, uint64_t step);
void rt_tables_touch(RtTables *t, const RtTableBatch *b, int weight, uint32_t lo, uint32_t hi, uint64_t step);

/* ---- for checkpoints; part 0 is the weight, 1… its slots ---- */
bool rt_tables_is_large(const RtTables *t, int weight);    /* saved as ids and rows */
uint64_t rt_tables_rows(const RtTables *t, int weight);    /* of what is updated by row, else 1 */
uint64_t rt_tables_width(const RtTables *t, int weight);   /* elements a row */
float *rt_tables_dense(RtTables *t, int weight, int part); /* NULL if the weight is sparse */
/* Ids of the touched rows, ascending, malloc'd. */
uint32_t *rt_tables_touched_ids(const RtTables *t, int weight, uint64_t *n);
/* One row as it stands after the steps done (exact rows caught up), or its initial value. */
void rt_tables_get_row(RtTables *t, int weight, uint32_t id, int part, float *out);
/* Stores a row read from a checkpoint: it counts as touched. Of each row, part 0 first. */
void rt_tables_put_row(RtTables *t, int weight, uint32_t id, int part, const float *values);
void rt_tables_loaded(RtTables *t, uint64_t step); /* after all rows are put; as many updates as steps */
/* Between the two no reader's thread is amid a change: what fork copies is whole. */
void rt_tables_hold(RtTables *t);
void rt_tables_release(RtTables *t); /* after fork: in both processes */
/* Before dense arrays are read: what rows of theirs have missed is done. Changes no bit of what comes after.
 */
void rt_tables_settle(RtTables *t);
uint64_t rt_tables_seed(const RtTables *t);
/* The share of negatives that the weights were trained on, 1: all. What they predict is corrected by it
 * (rt_corrected), so it is saved with them. */
double *rt_tables_keep_negatives(RtTables *t);
/* What all rates are multiplied by, 1 at first (--lr-plateau). */
double *rt_tables_lr_scale(RtTables *t);

#endif
