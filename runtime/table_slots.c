/* Where a sparse table's rows stand: packed, in the order in which they were first met, whatever the table's
 * size, so that rows that are often used lie together in few large pages. Tables of up to RT_MAPPED_ROWS rows
 * keep a storage row for each id in an array of which only the pages that were met exist; larger ones hash.
 */
#include <stdlib.h>
#include "runtime/tables_own.h"
#include "runtime/message.h"

enum { IDS_AHEAD = 16 }; /* ids lie anywhere in the map: what is looked at is asked for some ids before */

static bool is_mapped(const RtStore *s) { return s->rows <= RT_MAPPED_ROWS; }

bool rt_slots_reserve(RtStore *s) {
    if (is_mapped(s) && !(s->map = rt_pages(s->rows * sizeof *s->map))) return false;
    return (s->ids = rt_pages(s->rows * sizeof *s->ids));
}

void rt_slots_free(RtStore *s) {
    rt_pages_free(s->map, s->rows * sizeof *s->map);
    rt_pages_free(s->ids, s->rows * sizeof *s->ids);
    free(s->index.entry);
}

uint64_t rt_slots_bytes(const RtStore *s) {
    uint64_t map = is_mapped(s) ? s->rows * sizeof *s->map : s->index.size * sizeof *s->index.entry;
    return map + s->met * sizeof *s->ids;
}

/* ---- the hashed index ---- */

static uint64_t home_of(const RtSlotIndex *x, uint32_t id) {
    return (uint64_t)id * 0x9e3779b97f4a7c15u >> 20 & (x->size - 1);
}

static uint64_t *index_find(const RtSlotIndex *x, uint32_t id) {
    uint64_t i = home_of(x, id);
    while (x->entry[i] && (uint32_t)x->entry[i] != id + 1) i = (i + 1) & (x->size - 1);
    return &x->entry[i];
}

static void index_grow(RtSlotIndex *x) {
    RtSlotIndex old = *x;
    x->size = old.size ? old.size * 2 : 1024;
    x->entry = calloc(x->size, sizeof *x->entry);
    if (!x->entry) rt_out_of_memory();
    for (uint64_t i = 0; i < old.size; i++)
        if (old.entry[i]) *index_find(x, (uint32_t)old.entry[i] - 1) = old.entry[i];
    free(old.entry);
}

/* ---- storage rows of ids ---- */

static uint32_t new_slot(RtStore *s, uint32_t id) {
    s->ids[s->met] = id;
    return s->met++;
}

static uint32_t mapped_slot(RtStore *s, uint32_t id, bool create) {
    if (!s->map[id] && create) s->map[id] = new_slot(s, id) + 1;
    return s->map[id] - 1; /* 0 - 1 is RT_NO_ID */
}

static uint32_t hashed_slot(RtStore *s, uint32_t id, bool create) {
    RtSlotIndex *x = &s->index;
    if (!x->size || (create && x->used * 2 >= x->size)) index_grow(x);
    uint64_t *e = index_find(x, id);
    if (*e) return (uint32_t)(*e >> 32);
    if (!create) return RT_NO_ID;
    uint32_t slot = new_slot(s, id);
    *e = (uint64_t)slot << 32 | (id + 1);
    x->used++;
    return slot;
}

void rt_tables_reserve(RtTables *t, int weight, uint64_t more) {
    RtStore *s = &t->store[weight];
    if (s->direct || is_mapped(s)) return;
    pthread_mutex_lock(&s->lock);
    while ((s->index.used + more) * 2 >= s->index.size) index_grow(&s->index);
    pthread_mutex_unlock(&s->lock);
}

static void ask_for(const RtStore *s, uint32_t id) {
    if (is_mapped(s))
        __builtin_prefetch(s->map + id);
    else if (s->index.size)
        __builtin_prefetch(s->index.entry + home_of(&s->index, id));
}

void rt_tables_slots(RtTables *t, int weight, const uint32_t *id, uint32_t n, bool create, uint32_t *slot) {
    _Static_assert(RT_NO_ID == UINT32_MAX, "what a map's zeros stand for");
    RtStore *s = &t->store[weight];
    if (s->direct) {
        for (uint32_t i = 0; i < n; i++) slot[i] = id[i];
        return;
    }
    pthread_mutex_lock(&s->lock); /* an evaluation's reader may look up while the next epoch is read ahead */
    for (uint32_t i = 0; i < n; i++) {
        if (i + IDS_AHEAD < n) ask_for(s, id[i + IDS_AHEAD]);
        slot[i] = is_mapped(s) ? mapped_slot(s, id[i], create) : hashed_slot(s, id[i], create);
    }
    pthread_mutex_unlock(&s->lock);
}

uint32_t rt_tables_slot(RtTables *t, int weight, uint32_t id, bool create) {
    uint32_t slot;
    rt_tables_slots(t, weight, &id, 1, create, &slot);
    return slot;
}
