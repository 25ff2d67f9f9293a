/* Inside of a batch, shared by batch.c (gathers its values) and batch_index.c (numbers its tables' rows). */
#ifndef CTRC_RUNTIME_BATCH_OWN_H
#define CTRC_RUNTIME_BATCH_OWN_H
#include <stdatomic.h>
#include "runtime/reader_internal.h"

typedef struct {
    void *p;
    size_t cap;
} RtRoom; /* aligned memory; what was in it may be lost when it grows */
void *rt_room(RtRoom *r, size_t bytes);

typedef struct {
    RtRoom id, slot, start, occ_lookup, occ_index;
} RtTableRoom;

/* Where an item's values go: an input of its own, or a lookup's, whose ids then become unique rows. */
typedef struct {
    int item, lookup, input;
    bool first; /* of its item: gathered into; others are copies */
} RtTarget;
typedef struct {
    int word, words, target;
} RtGather; /* word: of the row's length along the item's axis, -1: one value */

struct RtAssembler {
    const RtPlan *p;
    RtTables *tables;
    uint32_t batch;
    RtTarget *target;
    int n_targets;
    RtGather *gather;        /* [item] */
    uint32_t **out;          /* [item] where the next row's values go */
    int *lookup_target;      /* [lookup] -1: off */
    const uint32_t **record; /* [row] */
    RtIndexScratch *scratch; /* of a reader that numbers rows itself; NULL: later */
};

typedef struct {
    RtBatchOwn head;
    RtBatch batch;
    const RtAssembler *a; /* what of it doesn't change */
    RtRoom *offsets;      /* [axis] */
    RtRoom *value;        /* [target] */
    RtTableRoom *table;   /* [weight] */
    size_t *looked_up;    /* [weight] values that are looked up in it */
    int *order;           /* [n_tables] tables of which rows are looked up, the one with most values first */
    int n_tables;
    atomic_int next; /* of order, not taken yet */
    RtRoom row_file, row_line, row_bad, row_echo, echo;
} RtOwn;

/* Values of an item in the batch: rows, or positions along its axis. */
static inline size_t rt_item_count(const RtAssembler *a, const RtOwn *o, int item, uint32_t n) {
    int axis = a->p->items[item].axis;
    return axis < 0 ? n : o->batch.offsets[axis][n];
}

#endif
