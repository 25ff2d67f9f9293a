/* Inside of RtTables, shared by tables.c (storage), table_slots.c (where an id's row stands) and table_rows.c
 * (rows in a step and in checkpoints). */
#ifndef CTRC_RUNTIME_TABLES_OWN_H
#define CTRC_RUNTIME_TABLES_OWN_H
#include <pthread.h>
#include "runtime/optimizer.h"
#include "runtime/tables.h"

enum { ROW_INIT = 1, ROW_TOUCHED = 2 };

/* id → storage row, open addressing; an entry is row << 32 | id + 1, 0 is free. */
typedef struct {
    uint64_t *entry;
    uint64_t size, used;
} RtSlotIndex;

typedef struct {
    const RtWeight *w;
    const RtOptimizer *opt; /* NULL if not trained */
    uint64_t width, stride; /* floats a row: of the weight, and with its slots */
    uint64_t rows;          /* capacity */
    int n_slots;            /* the weight's, or 0 where nothing is trained */
    bool by_row;            /* a table, or a weight updated by row, whatever its storage */
    bool direct;            /* storage row = id: what is kept whole */
    float slot_start[3];
    float *base;          /* sparse: row storage */
    uint8_t *state;       /* [rows] ROW_… */
    uint64_t *last;       /* [rows] last step that a row has seen; only if rows must catch up */
    uint32_t *map;        /* sparse, up to RT_MAPPED_ROWS: [rows] storage row + 1 of each id, 0: not met */
    RtSlotIndex index;    /* sparse, more rows than that */
    uint32_t *ids;        /* sparse: [rows] id of each storage row */
    uint32_t met;         /* sparse: rows given out */
    pthread_mutex_t lock; /* of map, index, ids, met */
    float *alpha;         /* exact adam: adam's alpha of steps alpha_from … */
    uint64_t alpha_from, alpha_n, alpha_cap;
} RtStore;

struct RtTables {
    const RtModel *m;
    uint64_t seed, done; /* done: steps trained */
    bool trained;        /* there are slots, and what catching up needs */
    double keep_negatives, lr_scale;
    RtStore *store;                   /* [weight] */
    uint64_t *updates;                /* [weight] */
    float **weights, **slots, **rows; /* as in RtStep */
};

void *rt_pages(uint64_t bytes); /* zeroed, reserved address space; NULL with errno */
void rt_pages_free(void *p, uint64_t bytes);
/* Of a sparse store: room for where its rows stand, false with errno; what that takes, under its lock. */
bool rt_slots_reserve(RtStore *s);
void rt_slots_free(RtStore *s);
uint64_t rt_slots_bytes(const RtStore *s);

#endif
