/* Plans: phases that the threads can run, and places that nothing else overwrites while a value lives. The
 * rules are restated here from what the generated code relies on, not taken from the passes that make the
 * plan. */
#include "ir/internal.h"
#include <stdlib.h>

#define FIXED_ALIGN 64

typedef struct {
    IrProgram *p;
    const IrFunc *f;
    const IrPlaces *places;
    bool ok;
} PlanCheck;

static void wrong_plan(PlanCheck *c, const IrNode *n, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void wrong_plan(PlanCheck *c, const IrNode *n, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    diag_error(c->p->diag, ir_node_place(c->places, n), NULL, "%%%d %s in func '%s': %s", n->id,
               ir_ops[n->op].text, c->f->name, arena_vprintf(c->p->arena, fmt, ap));
    va_end(ap);
    c->ok = false;
}

/* ---- phases ---- */

static int table_of(const IrNode *n) {
    if (n->type.elem != TY_NONE && n->type.live == LIVE_UNIQ) return n->type.axis;
    const IrAttr *w = ir_attr(n, "w");
    return w ? (int)w->i : -1;
}

/* Whether another thread than the one that made it may read a value: then a barrier must stand between. */
static bool crosses_threads(const IrNode *from, const IrNode *to) {
    from = ir_viewed(from);
    IrDomain a = from->plan.domain, b = to->plan.domain;
    if (a == DOM_NONE || b == DOM_NONE) return false; /* nothing runs */
    if (a != b || a == DOM_TILES) return true;
    return a == DOM_UNIQ && table_of(from) != table_of(to);
}

static void check_phases(PlanCheck *c) {
    int before = 0;
    for (int i = 0; i < c->f->body.n && c->ok; i++) {
        const IrNode *n = c->f->body.nodes[i];
        const IrPlan *plan = &n->plan;
        if (plan->phase < before)
            wrong_plan(c, n,
                       plan->phase < 0 ? "expected a phase, as the nodes above have one"
                                       : "expected phase %d or later, found %d",
                       before, plan->phase);
        else
            before = plan->phase;
        if (plan->domain != DOM_NONE && plan->block < 1)
            wrong_plan(c, n, "expected a block of at least 1, found %d", plan->block);
        if (n->op == OP_RESULT &&
            (n->in[0]->plan.phase != plan->phase || n->in[0]->plan.domain != plan->domain))
            wrong_plan(c, n, "expected the phase and domain of its region %%%d", n->in[0]->id);
        int64_t rows = ir_of_row_block(n) && plan->domain == DOM_ROWS ? ir_block_rows(n) : plan->block;
        if (rows != plan->block)
            wrong_plan(c, n, "expected a block of %lld rows, as it adds up, found %d", (long long)rows,
                       plan->block);
        for (int k = 0; k < n->n_in; k++)
            if (ir_viewed(n->in[k])->plan.phase == plan->phase && crosses_threads(n->in[k], n))
                wrong_plan(c, n, "expected a barrier before it reads %%%d, found both in phase %d",
                           n->in[k]->id, plan->phase);
    }
}

static bool reads_weight(const IrNode *n, int64_t w) {
    if (n->op == OP_FETCH && ir_attr_i(n, "w") == w) return true;
    for (int i = 0; i < n->n_in; i++)
        if (ir_viewed(n->in[i])->op == OP_WEIGHT && ir_attr_i(ir_viewed(n->in[i]), "w") == w) return true;
    return false;
}

/* A weight is written when all that reads it has run, on all threads, and the loss is known to be finite. */
static void check_update(PlanCheck *c, const IrNode *update, int64_t w) {
    for (int i = 0; i < c->f->body.n && c->ok; i++) {
        const IrNode *n = c->f->body.nodes[i];
        if (n == update || n->plan.domain == DOM_NONE || n->plan.phase < update->plan.phase) continue;
        if (n->op == OP_LOSS || reads_weight(n, w))
            wrong_plan(c, update, "expected a phase behind that of %%%d %s, found %d and %d", n->id,
                       ir_ops[n->op].text, update->plan.phase, n->plan.phase);
    }
}

static void check_updates(PlanCheck *c) {
    for (int i = 0; i < c->f->body.n && c->ok; i++) {
        const IrNode *n = c->f->body.nodes[i];
        const IrNode *writer = ir_writer(n);
        if (!writer) continue;
        check_update(c, n, ir_attr_i(writer, n->op == OP_BNUPDATE ? "mean" : "w"));
        if (n->op == OP_BNUPDATE) check_update(c, n, ir_attr_i(n, "var"));
    }
}

/* ---- places ---- */

typedef struct {
    const IrNode *node;
    int64_t begin, end; /* bytes of the fixed arena; elements a position or unique row */
    int first, last;    /* phases in which it lives; in a thread's own arenas, nodes of the body */
} Lifetime;

static int64_t times(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static int64_t plus(int64_t a, int64_t b) { return a > INT64_MAX - b ? INT64_MAX : a + b; }

static int64_t place_size(const IrProgram *p, const IrFunc *f, const IrNode *n) {
    int64_t size = ir_place_elements(n), rows = p->batch;
    if (n->plan.region == REGION_LOCAL)
        return n->type.live == LIVE_ROW ? times(times(4, size), n->plan.block) : size;
    if (n->plan.region != REGION_FIXED) return size;
    if (n->plan.per_block && f->blocks) rows = (rows + f->blocks - 1) / f->blocks;
    return times(times(4, size), n->type.live == LIVE_ROW ? rows : 1);
}

static bool stands_within(const IrBody *b, const IrNode *part) {
    for (int i = 0; i < b->n; i++)
        for (int k = 0; b->nodes[i]->op == OP_CONCAT && k < b->nodes[i]->n_in; k++)
            if (ir_part(b->nodes[i], k) == part && ir_in_place(b->nodes[i], k)) return true;
    return false;
}

static int lower_first(const void *a, const void *b) {
    const Lifetime *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->node->id < y->node->id ? -1 : x->node->id > y->node->id;
}

static void check_overlaps(PlanCheck *c, Lifetime *lives, int n) {
    qsort(lives, (size_t)n, sizeof *lives, lower_first);
    for (int i = 0; i < n && c->ok; i++)
        for (int k = i + 1; k < n && lives[k].begin < lives[i].end && c->ok; k++) {
            const Lifetime *a = &lives[i], *b = &lives[k];
            if (a->first <= b->last && b->first <= a->last)
                wrong_plan(
                    c, b->node,
                    "expected a place of its own, found it within that of %%%d, while both live in phase %d",
                    a->node->id,
                    a->node->plan.phase > b->node->plan.phase ? a->node->plan.phase : b->node->plan.phase);
        }
}

/* What the plan says that no placement can do without: the largest sum of what lives at one time, which is
 * reached where some value's life begins. A plan may leave it out. */
static void check_lower(PlanCheck *c, const Lifetime *lives, int n) {
    int64_t most = 0;
    const IrNode *at = NULL;
    bool known = c->f->lower_bytes > 0 && c->p->batch > 0; /* without a batch no value's size is */
    for (int i = 0; i < n && known; i++) {
        int64_t sum = 0;
        for (int k = 0; k < n; k++)
            if (lives[k].first <= lives[i].first && lives[i].first <= lives[k].last)
                sum =
                    plus(sum, (lives[k].end - lives[k].begin + FIXED_ALIGN - 1) / FIXED_ALIGN * FIXED_ALIGN);
        if (sum > most) most = sum, at = lives[i].node;
    }
    if (at && most != c->f->lower_bytes)
        wrong_plan(c, at, "expected lower=%lld, the most bytes that live at one time, found lower=%lld",
                   (long long)most, (long long)c->f->lower_bytes);
}

/* A value a row or step lies in the fixed arena, one a position in its axis's, one a unique row in its
 * table's. */
static bool right_region(const IrNode *n) {
    switch (n->plan.region) {
    case REGION_FIXED: return n->type.live < LIVE_POS;
    case REGION_AXIS: return n->type.live == LIVE_POS;
    case REGION_UNIQ: return n->type.live == LIVE_UNIQ;
    case REGION_LOCAL:
        return ir_viewed(n)->plan.domain == DOM_ROWS &&
               (n->type.live == LIVE_ROW || n->type.live == LIVE_POS);
    default: return false;
    }
}

/* In a function that is run block after block, a place for one block at a time holds only what no later phase
 * reads. */
static void check_per_block(PlanCheck *c, const IrNode *n, const Lifetime *live) {
    const IrFunc *f = c->f;
    bool inside = f->blocks && live->first >= f->loop_first && live->first <= f->loop_last;
    if (n->plan.per_block && (!inside || live->last > f->loop_last || n->type.live < LIVE_ROW))
        wrong_plan(c, n, "expected a place for the whole step, as it is read outside its block");
}

/* A thread's own arenas: a value there is seen only by what the same thread runs for the same block of rows.
 */
static Lifetime local_life(PlanCheck *c, int at, int64_t begin, int64_t end) {
    const IrNode *n = c->f->body.nodes[at];
    Lifetime live = {n, begin, end, at, at};
    for (int i = 0; i < c->f->body.n; i++) {
        const IrNode *user = c->f->body.nodes[i];
        bool reads = false, writes = i < at && ir_writes_within(&c->f->body, user, n);
        for (int k = 0; k < user->n_in; k++) reads |= ir_stands_in(user->in[k], n);
        if (writes && i < live.first) live.first = i;
        if (!reads && !writes) continue;
        if (i > live.last) live.last = i;
        if (user->plan.phase != n->plan.phase || ir_ops[user->op].effect == EFFECT_ROOT)
            wrong_plan(c, n, "expected a place for the whole step, as %%%d %s it in phase %d", user->id,
                       writes ? "writes" : "reads", user->plan.phase);
    }
    return live;
}

/* Whether n has its place in the arena: `axis` is the list's or table's number, -1 for values a row or step.
 */
static bool in_arena(const IrNode *n, IrRegionKind region, int axis) {
    if (n->plan.region != region || ir_viewed(n) != n || n->plan.ld)
        return false; /* lives in another's place */
    if (region == REGION_LOCAL)
        return axis < 0 ? n->type.live == LIVE_ROW : n->type.live == LIVE_POS && n->type.axis == axis;
    return region == REGION_FIXED || n->type.axis == axis;
}

/* All values in one arena. */
static void check_arena(PlanCheck *c, IrRegionKind region, int axis, int64_t total, Lifetime *lives) {
    int n = 0;
    bool bytes = axis < 0;
    for (int i = 0; i < c->f->body.n && c->ok; i++) {
        const IrNode *x = c->f->body.nodes[i];
        if (!in_arena(x, region, axis)) continue;
        int64_t end = plus(x->plan.offset, place_size(c->p, c->f, x));
        if (x->plan.offset < 0 || end > total)
            wrong_plan(c, x, "expected a place within %lld %s, found %lld to %lld", (long long)total,
                       bytes ? "bytes" : "elements", (long long)x->plan.offset, (long long)end);
        else if (bytes && x->plan.offset % FIXED_ALIGN)
            wrong_plan(c, x, "expected an offset that is a multiple of %d, found %lld", FIXED_ALIGN,
                       (long long)x->plan.offset);
        if (region == REGION_LOCAL) {
            lives[n++] = local_life(c, i, x->plan.offset, end);
            continue;
        }
        Lifetime *live = &lives[n++];
        *live = (Lifetime){x, x->plan.offset, end, ir_first_write(x), x->mark};
        check_per_block(c, x, live);
        ir_whole_life(c->f, x, &live->first, &live->last);
    }
    if (c->ok) check_overlaps(c, lives, n);
    if (c->ok && region == REGION_FIXED) check_lower(c, lives, n);
}

/* Where a view stands is given by what it views; a kernel steps over what lies between units if it can. */
static void check_within(PlanCheck *c, const IrNode *n) {
    for (int k = 0; k < n->n_in && c->ok; k++)
        if (n->in[k]->plan.ld && !ir_is_view(n) && !ir_reads_strided(n, k))
            wrong_plan(c, n,
                       "expected one unit of %%%d after another, found %lld elements from each to the next",
                       n->in[k]->id, (long long)n->in[k]->plan.ld);
    if (!ir_is_view(n)) {
        if (!n->plan.ld && n->plan.col)
            wrong_plan(c, n, "expected a place of its own, found a part of one");
        else if (n->plan.ld && !ir_writes_strided(n))
            wrong_plan(c, n, "expected a place of its own, as it can't be written within another's");
        else if (n->plan.ld && !stands_within(&c->f->body, n))
            wrong_plan(
                c, n,
                "expected the place of a part of a concat that reads it, found %s+%lld col=%lld ld=%lld",
                ir_region_names[n->plan.region], (long long)n->plan.offset, (long long)n->plan.col,
                (long long)n->plan.ld);
        return;
    }
    if (n->op == OP_SLICE && (!ir_one_run(n->in[0]->type, ir_attr_i(n, "axis")) ||
                              (n->plan.region == REGION_NONE && ir_viewed(n)->op != OP_WEIGHT))) {
        wrong_plan(c, n, "expected a domain: it isn't one run of elements in a place of its operand");
        return;
    }
    IrPlan place = ir_view_place(n);
    if (n->plan.region != place.region || n->plan.offset != place.offset)
        wrong_plan(c, n, "expected the place of what it is a view of: %s+%lld", ir_region_names[place.region],
                   (long long)place.offset);
    else if (n->plan.col != place.col || n->plan.ld != place.ld)
        wrong_plan(c, n, "expected col=%lld ld=%lld of what it is a view of, found col=%lld ld=%lld",
                   (long long)place.col, (long long)place.ld, (long long)n->plan.col, (long long)n->plan.ld);
}

static void check_places(PlanCheck *c) {
    const IrFunc *f = c->f;
    Lifetime *lives = ARENA_ARRAY(c->p->arena, Lifetime, f->body.n);
    ir_last_reads(&f->body); /* sets marks */
    for (int i = 0; i < f->body.n && c->ok; i++) {
        const IrNode *n = f->body.nodes[i];
        check_within(c, n);
        if (n->plan.region == REGION_NONE || n->plan.region == REGION_INPUT) continue;
        if (n->type.elem != TY_F32 || !right_region(n))
            wrong_plan(c, n, "doesn't belong into the region '%s'", ir_region_names[n->plan.region]);
        if (n->plan.phase < 0) wrong_plan(c, n, "expected a phase, as it has a place");
    }
    if (c->ok) check_arena(c, REGION_FIXED, -1, f->fixed_bytes, lives);
    if (c->ok) check_arena(c, REGION_LOCAL, -1, f->local_bytes, lives);
    for (int i = 0; i < c->p->n_axes && c->ok; i++) {
        check_arena(c, REGION_AXIS, i, f->axis_elems ? f->axis_elems[i] : 0, lives);
        check_arena(c, REGION_LOCAL, i, f->local_elems ? f->local_elems[i] : 0, lives);
    }
    for (int i = 0; i < c->p->n_weights && c->ok; i++)
        check_arena(c, REGION_UNIQ, i, f->uniq_elems ? f->uniq_elems[i] : 0, lives);
}

bool ir_verify_plan(IrProgram *p, const IrFunc *f, const IrPlaces *places) {
    PlanCheck c = {p, f, places, true};
    bool phased = false, placed = false;
    for (int i = 0; i < f->body.n; i++) {
        const IrPlan *plan = &f->body.nodes[i]->plan;
        phased |= plan->phase != -1 || plan->domain != DOM_NONE;
        placed |= plan->region != REGION_NONE;
    }
    if (phased) check_phases(&c);
    const IrNode *last = f->body.n ? f->body.nodes[f->body.n - 1] : NULL;
    if (phased && c.ok && f->blocks && f->loop_last > last->plan.phase)
        wrong_plan(&c, last, "expected a loop that ends in phase %d or before, found %d", last->plan.phase,
                   f->loop_last);
    if (phased && c.ok) check_updates(&c);
    if (placed && c.ok) check_places(&c);
    return c.ok;
}
