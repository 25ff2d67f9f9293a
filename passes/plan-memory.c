/* plan-memory: lifetimes to arena offsets. Required; exact.
 *
 * before, with a batch of 64:
 *   %2 = matmul %0, %1 {ta=0, tb=0} : f32[8] #phase=0 domain=rows block=64 kernel=tile
 *   %3 = relu %2 : f32[8] #phase=0 domain=rows block=64 kernel=loop
 *   %4 = sum_rows %3 : step f32[8] #phase=1 domain=tiles block=1 kernel=loop
 *   %5 = sum %4 {axis=0, keep=0} : step f32[1] #phase=2 domain=one block=1 kernel=loop
 * after:
 *   %2 = matmul %0, %1 {ta=0, tb=0} : f32[8] #phase=0 domain=rows block=64 kernel=tile at=local+0
 *   %3 = relu %2 : f32[8] #phase=0 domain=rows block=64 kernel=loop at=fixed+0
 *   %4 = sum_rows %3 : step f32[8] #phase=1 domain=tiles block=1 kernel=loop at=fixed+2048
 *   %5 = sum %4 {axis=0, keep=0} : step f32[1] #phase=2 domain=one block=1 kernel=loop at=fixed+0
 * (tests/golden/passes/plan-memory/chain.*)
 *
 * Three kinds of arenas: the fixed one, in bytes, for values a row (at the full batch) and a step; one a list
 * axis, in elements a position; one a table, in elements a unique row. The latter two grow with their list,
 * so offsets in them are multiples of a capacity.
 *
 * A value lives from the phase that makes it to the last one that reads it, whole phases: two kernels of one
 * phase run at the same time. What the runtime reads after the step (predictions, operands of metrics,
 * losses) lives to the end. Weights, constants and what the reader delivers take no place here, and a view
 * stands in the place of what it views, which lives as long as its views are read. A part of a concat is made
 * within the concat's place where both sides can (passes/place_views.c): that place lives from the first
 * part's phase to the last that reads the concat or a part, and the concat copies what is left.
 *
 * Within a phase a thread runs all kernels of domain rows for one block of rows before it takes the next.
 * What they hand to each other needs room for that block alone, in arenas that each thread has for itself
 * (local: the fixed one and those of list axes once more), and lives from one kernel to another: the same few
 * hundred KB again and again, which stay in cache, where values of the whole step would go through memory.
 *
 * With micro-batches, phases loop_first to loop_last are run for one block of rows after the other: a value a
 * row that nothing reads behind them has a place for one block only, which the blocks take in turn; what is
 * read behind them lives from the first block on, and what they read from before lives until the last.
 *
 * Placement is greedy by size, largest first, each in the smallest gap that fits among the values that live
 * at the same time; where that takes more than the largest sum of what lives at one time (lower_bytes of the
 * fixed arena), which no placement beats, other orders are tried and the best is taken. */
#include "passes/place_views.h"
#include <stdlib.h>

typedef struct {
    IrNode *node;
    int first, last;      /* phases */
    int64_t size, offset; /* bytes, or elements a position or unique row */
    double weight;        /* the heaviest is placed first */
    int order;            /* in the body */
} Buffer;
typedef struct {
    Buffer *buf;
    int n, cap;
} Buffers;

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* ---- lifetimes ---- */

static bool delivered(const IrNode *n) {
    return ir_is_reader(n) && (n->type.elem == TY_F32 || n->type.elem == TY_ID || n->type.elem == TY_KEY);
}

static IrRegionKind region_of(const IrNode *n) {
    if (delivered(n)) return REGION_INPUT;
    if (ir_is_reader(n) || n->type.elem != TY_F32) return REGION_NONE;
    if (n->op == OP_CONST || n->op == OP_WEIGHT || n->op == OP_INVROWS || n->op == OP_ARG) return REGION_NONE;
    if (n->type.live == LIVE_POS) return REGION_AXIS;
    return n->type.live == LIVE_UNIQ ? REGION_UNIQ : REGION_FIXED;
}

/* By number in the body: what first writes within a value's place and what last reads there, as numbers and
 * as phases. What the runtime reads after the step is read in the last phase, by no node. */
typedef struct {
    int first, last, first_phase, last_phase;
    bool is_output;
} Uses;

/* id: the number in the body. aux: the concat within which a node is made, which stands behind it. */
static Uses *find_uses(IrProgram *p, const IrBody *b) {
    Uses *uses = ARENA_ARRAY(p->arena, Uses, b->n + 1);
    for (int i = 0; i < b->n; i++) {
        b->nodes[i]->id = i;
        uses[i].first = uses[i].last = i;
        if (b->nodes[i]->op == OP_RESULT) uses[i].first = b->nodes[i]->in[0]->id;
    }
    for (int i = 0; i < b->n; i++)
        for (int k = 0; k < b->nodes[i]->n_in; k++) {
            Uses *u = &uses[ir_viewed(b->nodes[i]->in[k])->id];
            u->last = i;
            u->is_output |= ir_ops[b->nodes[i]->op].effect == EFFECT_ROOT;
        }
    for (int i = 0; i < b->n; i++) {
        Uses *u = &uses[i];
        u->first_phase = b->nodes[u->first]->plan.phase;
        u->last_phase = b->nodes[u->is_output ? b->n - 1 : u->last]->plan.phase;
        const IrNode *concat = b->nodes[i]->aux;
        if (!concat) continue;
        Uses *within = &uses[concat->id];
        if (u->first < within->first) within->first = u->first;
        if (u->last > within->last) within->last = u->last;
        within->is_output |= u->is_output;
    }
    return uses;
}

/* Made of a block of rows and read for no other: a place in the thread's own arenas. */
static bool is_local(const IrNode *n, const Uses *u) {
    return n->plan.domain == DOM_ROWS && (n->type.live == LIVE_ROW || n->type.live == LIVE_POS) &&
           u->first_phase == u->last_phase && !u->is_output;
}

static bool made_in_loop(const IrFunc *f, const IrNode *n) {
    return f->blocks && n->plan.phase >= f->loop_first && n->plan.phase <= f->loop_last;
}

/* ---- placement ---- */

static int heavier_first(const void *a, const void *b) {
    const Buffer *x = a, *y = b;
    if (x->weight != y->weight) return x->weight > y->weight ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* Where the smallest gap that takes x begins, among the placed buffers (by offset) that live when x does;
 * else behind the last of them. */
static int64_t best_gap(Buffer *const *placed, int n, const Buffer *x) {
    int64_t end = 0, best = -1, best_room = INT64_MAX;
    for (int i = 0; i < n; i++) {
        const Buffer *y = placed[i];
        if (y->first > x->last || x->first > y->last) continue;
        int64_t room = y->offset - end;
        if (room >= x->size && room < best_room) {
            best = end;
            best_room = room;
        }
        if (y->offset + y->size > end) end = y->offset + y->size;
    }
    return best >= 0 ? best : end;
}

/* Offsets by the buffers' weights, heaviest first; returns the arena's size. placed: room for all. */
static int64_t place_by_weight(Buffers *b, Buffer **placed) {
    int64_t total = 0;
    qsort(b->buf, (size_t)b->n, sizeof *b->buf, heavier_first);
    for (int i = 0; i < b->n; i++) {
        Buffer *x = &b->buf[i];
        x->offset = best_gap(placed, i, x);
        int at = i;
        for (; at > 0 && placed[at - 1]->offset > x->offset; at--) placed[at] = placed[at - 1];
        placed[at] = x;
        if (x->offset + x->size > total) total = x->offset + x->size;
    }
    return total;
}

/* The largest sum of what lives at one time, which is reached where some buffer's life begins. */
static int64_t lower_bound(const Buffers *b) {
    int64_t most = 0;
    for (int i = 0; i < b->n; i++) {
        int64_t live = 0;
        for (int k = 0; k < b->n; k++)
            if (b->buf[k].first <= b->buf[i].first && b->buf[i].first <= b->buf[k].last)
                live += b->buf[k].size;
        if (live > most) most = live;
    }
    return most;
}

/* By size, by how long it lives, or by both, shaken: from half of it to one and a half. The same weights on
 * every machine. */
static double weight_of(const Buffer *b, int attempt) {
    uint32_t x = (uint32_t)b->order * 0x9e3779b1u + (uint32_t)attempt * 0x85ebca6bu;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    x = (x ^ x >> 12) * 0x297a2d39u;
    double shaken = 0.5 + (double)(x ^ x >> 15) / 4294967296.0, size = (double)b->size;
    double life = b->last - b->first + 1;
    return shaken * (attempt % 3 == 0 ? size : attempt % 3 == 1 ? life : size * life);
}

/* Sets offsets; returns the arena's size. Largest first is best mostly; where it leaves more than the bound,
 * some other orders are tried as well. */
static int64_t place(Arena *a, Buffers *b) {
    enum { ATTEMPTS = 200, WORK = 4000000 };
    if (!b->n) return 0;
    Buffer **placed = ARENA_ARRAY(a, Buffer *, b->n);
    int64_t best = INT64_MAX, bound = lower_bound(b), square = (int64_t)b->n * b->n;
    for (int attempt = 0; attempt <= ATTEMPTS && attempt * square <= WORK && best > bound; attempt++) {
        for (int i = 0; i < b->n; i++) {
            Buffer *x = &b->buf[i];
            x->weight = attempt ? weight_of(x, attempt) : (double)x->size;
        }
        int64_t total = place_by_weight(b, placed);
        for (int i = 0; i < b->n && total < best; i++) b->buf[i].node->plan.offset = b->buf[i].offset;
        if (total < best) best = total;
    }
    return best;
}

/* ---- values of the step ---- */

static void add(Arena *a, Buffers *b, const IrFunc *f, IrNode *n, int64_t size, const Uses *u) {
    Buffer x = {.node = n, .first = u->first_phase, .last = u->last_phase, .size = size, .order = n->id};
    ir_whole_life(f, n, &x.first, &x.last);
    ARENA_PUSH(a, b->buf, b->n, b->cap, x);
}

/* Bytes of a value in the fixed arena; -1 after an error. */
static int64_t fixed_size(IrProgram *p, const IrFunc *f, const IrNode *n) {
    const int64_t limit = (int64_t)1 << 44; /* 16 TB: sums of such sizes still can't overflow */
    int64_t elems = ir_place_elements(n), rows = n->type.live == LIVE_ROW ? p->batch : 1;
    if (n->plan.per_block) rows = (rows + f->blocks - 1) / f->blocks;
    if (elems <= limit / 4 / rows) return round_up(4 * elems * rows, 64);
    diag_error(p->diag, n->span, NULL, "%s of %s takes more than 16 TB with a batch of %lld",
               ir_ops[n->op].text, ir_type_text(p, n->type), (long long)p->batch);
    return -1;
}

/* ---- values of a block of rows ---- */

/* Places in a thread's own arenas. A value there lives from its kernel to the last that reads it: a thread
 * runs them one after the other. */
typedef struct {
    Buffers rows, *axis; /* bytes; elements a position, [n_axes] */
} Locals;

static bool add_local(IrProgram *p, Locals *l, IrNode *n, const Uses *uses) {
    int64_t size = ir_type_size(n->type);
    if (size > ((int64_t)1 << 40) / 4 / n->plan.block)
        return false; /* as a value of the step it gets its error */
    n->plan.region = REGION_LOCAL;
    bool by_row = n->type.live == LIVE_ROW;
    Buffers *b = by_row ? &l->rows : &l->axis[n->type.axis];
    if (by_row) size = round_up(4 * size * n->plan.block, 64);
    ARENA_PUSH(p->arena, b->buf, b->n, b->cap,
               ((Buffer){.node = n, .first = uses->first, .last = uses->last, .size = size, .order = n->id}));
    return true;
}

static void place_locals(IrProgram *p, IrFunc *f, Locals *l) {
    f->local_bytes = place(p->arena, &l->rows);
    f->local_elems = NULL;
    for (int i = 0; i < p->n_axes; i++) {
        if (!l->axis[i].n) continue;
        if (!f->local_elems) f->local_elems = ARENA_ARRAY(p->arena, int64_t, p->n_axes);
        f->local_elems[i] = place(p->arena, &l->axis[i]);
    }
}

static void stand_at(IrNode *n, IrPlan place) {
    n->plan.region = place.region, n->plan.offset = place.offset, n->plan.per_block = place.per_block;
    n->plan.col = place.col, n->plan.ld = place.ld;
}

/* Parts of concats, the widest concats first, as they stand behind their parts; then views, behind what they
 * view. */
static void place_within(IrBody *b) {
    for (int i = b->n - 1; i >= 0; i--) {
        IrNode *n = b->nodes[i];
        const IrNode *within = n->aux;
        if (within) stand_at(n, ir_part_place(within, pass_part_number(within, n)));
    }
    for (int i = 0; i < b->n; i++)
        if (ir_is_view(b->nodes[i])) stand_at(b->nodes[i], ir_view_place(b->nodes[i]));
    for (int i = 0; i < b->n; i++)
        if (ir_all_in_place(b->nodes[i])) b->nodes[i]->plan.kernel = KERNEL_NONE;
}

/* ---- the pass ---- */

static bool plan_func(IrProgram *p, IrFunc *f) {
    Buffers fixed = {0};
    Buffers *axis = ARENA_ARRAY(p->arena, Buffers, p->n_axes + 1);
    Buffers *uniq = ARENA_ARRAY(p->arena, Buffers, p->n_weights + 1);
    Locals locals = {.axis = ARENA_ARRAY(p->arena, Buffers, p->n_axes + 1)};
    pass_place_parts(&f->body);
    const Uses *uses = find_uses(p, &f->body);
    for (int i = 0; i < f->body.n; i++) {
        IrNode *n = f->body.nodes[i];
        int64_t elems = ir_type_size(n->type);
        if (ir_viewed(n) != n || n->aux) continue;
        n->plan.region = region_of(n);
        n->plan.offset = 0;
        n->plan.per_block = false;
        bool placed = n->plan.region == REGION_FIXED || n->plan.region == REGION_AXIS;
        if (placed && is_local(n, &uses[i]) && add_local(p, &locals, n, &uses[i])) continue;
        n->plan.per_block =
            made_in_loop(f, n) && n->type.live >= LIVE_ROW && uses[i].last_phase <= f->loop_last;
        switch (n->plan.region) {
        case REGION_FIXED: {
            int64_t bytes = fixed_size(p, f, n);
            if (bytes < 0) return false;
            add(p->arena, &fixed, f, n, bytes, &uses[i]);
            break;
        }
        case REGION_AXIS: add(p->arena, &axis[n->type.axis], f, n, elems, &uses[i]); break;
        case REGION_UNIQ: add(p->arena, &uniq[n->type.axis], f, n, elems, &uses[i]); break;
        default: break;
        }
    }
    f->fixed_bytes = place(p->arena, &fixed);
    f->lower_bytes = lower_bound(&fixed);
    place_locals(p, f, &locals);
    f->axis_elems = ARENA_ARRAY(p->arena, int64_t, p->n_axes + 1);
    f->uniq_elems = ARENA_ARRAY(p->arena, int64_t, p->n_weights + 1);
    for (int i = 0; i < p->n_axes; i++) f->axis_elems[i] = place(p->arena, &axis[i]);
    for (int i = 0; i < p->n_weights; i++) f->uniq_elems[i] = place(p->arena, &uniq[i]);
    place_within(&f->body);
    return true;
}

bool pass_plan_memory(IrProgram *p, const PassOptions *o, const char *args) {
    (void)o;
    if (!pass_args_known(p, "plan-memory", args, NULL, 0)) return false;
    if (p->batch < 1) { /* a program may be read and rewritten without one, not planned */
        diag_error(p->diag, p->train_at.line ? p->train_at : p->text_end, NULL,
                   "expected a batch of at least 1, found %lld", (long long)p->batch);
        return false;
    }
    for (int i = 0; i < p->n_funcs; i++) {
        for (int k = 0; k < p->funcs[i]->body.n; k++) {
            const IrNode *n = p->funcs[i]->body.nodes[k];
            if (n->plan.phase >= 0) continue;
            diag_error(p->diag, n->span, NULL, "plan-memory needs phases: run schedule first");
            return false;
        }
        if (!plan_func(p, p->funcs[i])) return false;
    }
    return true;
}
