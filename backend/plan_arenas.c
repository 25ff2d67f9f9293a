/* What stands in each arena of a function, and from when to when: the memory plan as --emit=plan sums it up
 * and --emit=html draws it. */
#include "backend/plan_facts.h"

/* The first and last kernel that touch n's place, as the how manieth of the function. */
static void block_lifetime(const IrBody *b, const IrNode *n, int *first, int *last) {
    int kernel = 0;
    *first = *last = -1;
    for (int i = 0; i < b->n; i++) {
        const IrNode *x = b->nodes[i];
        if (!ir_runs(x)) continue;
        bool touches = ir_writes_within(b, x, n);
        for (int k = 0; k < x->n_in; k++) touches |= ir_stands_in(x->in[k], n);
        if (touches) *last = kernel;
        if (touches && *first < 0) *first = kernel;
        kernel++;
    }
}

static int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* Bytes of a value in its arena: of all rows, of a block's, of one value a step; or a position or unique row.
 */
static int64_t bytes_of(const IrProgram *p, const IrFunc *f, const IrNode *n) {
    bool by_row = n->type.live == LIVE_ROW;
    if (n->plan.region == REGION_LOCAL)
        return by_row ? rounded(4 * ir_type_size(n->type) * n->plan.block) : 4 * ir_type_size(n->type);
    if (n->plan.region != REGION_FIXED) return 4 * ir_type_size(n->type);
    int64_t rows = by_row ? p->batch : 1;
    if (n->plan.per_block && f->blocks) rows = (rows + f->blocks - 1) / f->blocks;
    return rounded(4 * ir_place_elements(n) * rows);
}

/* The largest sum of what lives at one time: no placement needs less. */
static int64_t live_bytes(const PlanArena *a) {
    int64_t most = 0;
    for (int i = 0; i < a->n; i++) { /* the most is reached where some value begins */
        int64_t live = 0;
        for (int k = 0; k < a->n; k++)
            if (a->buffers[k].first <= a->buffers[i].first && a->buffers[i].first <= a->buffers[k].last)
                live += a->buffers[k].bytes;
        if (live > most) most = live;
    }
    return most;
}

/* index: the list's or table's number, -1 of values a row or step. */
static PlanArena one_arena(const IrProgram *p, const IrFunc *f, IrRegionKind region, int index,
                           int64_t size) {
    PlanArena a = {.region = region, .index = index, .size = size};
    int cap = 0;
    for (int i = 0; i < f->body.n; i++) {
        const IrNode *n = f->body.nodes[i];
        bool by_row = region == REGION_FIXED || (region == REGION_LOCAL && n->type.live == LIVE_ROW);
        if (n->plan.region != region || ir_viewed(n) != n || n->plan.ld ||
            (by_row ? -1 : n->type.axis) != index)
            continue;
        PlanBuffer b = {.node = n,
                        .offset = by_row ? n->plan.offset : 4 * n->plan.offset,
                        .bytes = bytes_of(p, f, n),
                        .per_block = region == REGION_LOCAL || n->plan.per_block};
        if (region == REGION_LOCAL)
            block_lifetime(&f->body, n, &b.first, &b.last);
        else {
            b.first = ir_first_write(n), b.last = n->mark;
            ir_whole_life(f, n, &b.first, &b.last);
        }
        ARENA_PUSH(p->arena, a.buffers, a.n, cap, b);
    }
    a.live = live_bytes(&a);
    return a;
}

PlanArena *plan_arenas(const IrProgram *p, const IrFunc *f, int *n) {
    PlanArena *all = NULL;
    int cap = *n = 0;
    ir_last_reads(&f->body);
    ARENA_PUSH(p->arena, all, *n, cap, one_arena(p, f, REGION_FIXED, -1, f->fixed_bytes));
    for (int i = 0; f->axis_elems && i < p->n_axes; i++)
        if (f->axis_elems[i])
            ARENA_PUSH(p->arena, all, *n, cap, one_arena(p, f, REGION_AXIS, i, 4 * f->axis_elems[i]));
    for (int i = 0; f->uniq_elems && i < p->n_weights; i++)
        if (f->uniq_elems[i])
            ARENA_PUSH(p->arena, all, *n, cap, one_arena(p, f, REGION_UNIQ, i, 4 * f->uniq_elems[i]));
    if (f->local_bytes) ARENA_PUSH(p->arena, all, *n, cap, one_arena(p, f, REGION_LOCAL, -1, f->local_bytes));
    for (int i = 0; f->local_elems && i < p->n_axes; i++)
        if (f->local_elems[i])
            ARENA_PUSH(p->arena, all, *n, cap, one_arena(p, f, REGION_LOCAL, i, 4 * f->local_elems[i]));
    return all;
}
