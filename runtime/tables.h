/* Storage of weights: dense arrays, and tables whose rows are stored as they are met. See README.md.
 * Threading: rt_tables_slot is called by one thread of the reader at a time; the rest between or in steps. */
#ifndef CTRC_RUNTIME_TABLES_H
#define CTRC_RUNTIME_TABLES_H
#include "runtime/model.h"

typedef struct RtTables RtTables;

/* Reserves and initialises: dense weights and slots now, table rows when first met. */
RtTables *rt_tables_new(const RtModel *m, uint64_t seed, char *err, size_t err_bytes);
void rt_tables_free(RtTables *t);
/* The storage row of an id; create: a new one if it has none, else RT_NO_ID. Tables of up to 2^20 rows: the id. */
uint32_t rt_tables_slot(RtTables *t, int weight, uint32_t id, bool create);
void rt_tables_prefetch(const RtTables *t, int weight, uint32_t slot);
/* Initial value of elements first..first+n-1 of a weight, by (seed, name, element): numerics "Randomness". */
void rt_init_values(const RtWeight *w, uint64_t seed, uint64_t first, uint64_t n, float *out);
/* The pointers that a step needs (weights, slots, table_rows). */
void rt_tables_bind(RtTables *t, RtStep *s);
uint64_t rt_tables_bytes(const RtTables *t);

#endif
