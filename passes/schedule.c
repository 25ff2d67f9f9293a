/* schedule: blocks, tiles, kernels, and the phases between which threads wait for each other. Required;
 * exact.
 *
 * before:
 *   %2 = inv_rows : step f32[1]
 *   %3 = matmul %0, %1 {ta=0, tb=0} : f32[8]
 *   %4 = relu %3 : f32[8]
 *   %5 = sum %4 {axis=0, keep=0} : f32[1]
 *   %7 = mean_rows %5 : step f32[1]
 *   %8 = loss %7 {name="total"} : none
 *   %10 = gt %4, %9 : f32[8]
 *   %11 = mul %2, %10 : f32[8]
 *   %12 = matmul_grad_w %0, %11 : step f32[1,8]
 *   %13 = update %12 {w=w} : none
 * after:
 *   %2 = inv_rows : step f32[1] #phase=0
 *   %3 = pack %1 {t=0} : always f32[1,8] #phase=0 domain=tiles block=1 kernel=loop
 *   %5 = matmul %0, %3 {ta=0, tb=0} : f32[8] #phase=1 domain=rows block=64 kernel=tile
 *   %6 = relu %5 : f32[8] #phase=1 domain=rows block=64 kernel=loop
 *   %7 = sum %6 {axis=0, keep=0} : f32[1] #phase=1 domain=rows block=64 kernel=loop
 *   %8 = gt %6, %4 : f32[8] #phase=1 domain=rows block=64 kernel=loop
 *   %9 = mul %2, %8 : f32[8] #phase=1 domain=rows block=64 kernel=loop
 *   %10 = mean_rows %7 : step f32[1] #phase=2 domain=one block=1 kernel=loop
 *   %11 = loss %10 {name="total"} : none #phase=2 domain=one block=1 kernel=loop
 *   %12 = matmul_grad_w %0, %9 : step f32[1,8] #phase=2 domain=tiles block=1 kernel=tile
 *   %14 = update %12 {w=w} : none #phase=3 domain=tiles block=1 kernel=loop
 * (tests/golden/passes/schedule/phases.*; the body is sorted by phase; what is packed: pack_weights.c)
 *
 * All threads run a function's nodes in order and meet at a barrier between phases. Within a phase the owner
 * of a piece of work is fixed by the domain:
 *
 *   rows   blocks of `block` rows, and the positions inside them. Everything a row or position.
 *   uniq   blocks of `block` unique rows of one table. Everything a unique row; row_grad and the updates of
 *          rows, where the owner of a row finds its occurrences.
 *   tiles  tiles of a step-wide result, each of which reads all rows: weight gradients, sums over rows,
 *          statistics, whole updates, packs, elementwise ops of TILE_ELEMS elements or more.
 *   one    the first thread: what is small or must be one sum in one order. The loss.
 *   none   not run: sources, reader-stage values, the roots that only name a value, which stand in the last
 *          phase in the order in which the model declares them, and views: a reshape of a value that has a
 *          place is the same place under another type, and a slice of it, or of a weight, is a part of that
 *          place, where it is one run of elements in each unit and all that read it can step over the others
 *          between units (ir/view.c, passes/place_views.c).
 *
 * A value may be read in the phase that makes it only by the thread that made it, and that is so between two
 * `rows` ops, two `uniq` ops of one table, and two `one` ops. Any other edge crosses a barrier. Each node
 * stands in the earliest phase that its operands allow, which gives the fewest barriers: as many as the edges
 * that cross on the longest path. A row's forward and backward work that no statistic parts is one phase, so
 * its values are still in cache.
 *
 * With micro-batches (IrFunc.blocks) the phases fall in three: what no row's value goes into, such as fetch;
 * what is run for one block of rows after the other, loop_first to loop_last: all that is a row or position,
 * batch normalisation's statistics, and sums over rows, which grow from block to block; and what is behind,
 * on the whole step again.
 *
 * Updates come later than every reader of their weight, and later than the loss: a loss that isn't finite
 * stops the step before any weight is touched. */
#include "passes/schedule.h"
#include "passes/place_views.h"
#include <stdlib.h>
#include <string.h>

enum { ROW_BLOCK = 64, UNIQ_BLOCK = 256, TILE_ELEMS = 4096 };

/* Made by a kernel, so that it gets a place of its own. */
static bool has_place(const IrNode *n) {
    return n->type.elem == TY_F32 && ir_viewed(n)->plan.domain != DOM_NONE;
}

/* Not run: its operand's place under another type, or a part of it. */
static bool is_view(const IrNode *n) {
    if (n->op == OP_SLICE && (has_place(n->in[0]) || ir_viewed(n->in[0])->op == OP_WEIGHT))
        return pass_views(n);
    return n->op == OP_RESHAPE && has_place(n->in[0]);
}

/* mark: pass_mark_strided's. */
static IrDomain domain_of(const IrNode *n) {
    switch (ir_runs_as(n)) {
    case OP_CONST:
    case OP_WEIGHT:
    case OP_COLUMN:
    case OP_INVROWS:
    case OP_ARG:
    case OP_PREDICT:
    case OP_METRIC: return DOM_NONE;
    case OP_LOSS:
    case OP_BNUPDATE:
    case OP_SUMSQ:
    case OP_MEANROWS: return DOM_ONE;
    case OP_UPDATETOUCHED:
    case OP_UPDATEROWS: return DOM_UNIQ;
    case OP_UPDATE:
    case OP_MATMULGRADW:
    case OP_DENSEGRAD:
    case OP_SUMROWS:
    case OP_SUMBLOCKS:
    case OP_BNSTATS:
    case OP_BNJOINSTATS:
    case OP_BNGSUMS:
    case OP_PACK: return DOM_TILES;
    case OP_BLOCKSUMS:
    case OP_BNBLOCKSTATS:
    case OP_BNBLOCKGSUMS: return DOM_ROWS;
    default: break;
    }
    if (ir_ops[n->op].cls == CLASS_READ || is_view(n)) return DOM_NONE;
    if (ir_writer(n)) return DOM_TILES; /* a region: those of the gradient that it begins with */
    switch (n->type.live) {
    case LIVE_ROW:
    case LIVE_POS: return DOM_ROWS;
    case LIVE_UNIQ: return DOM_UNIQ;
    default: break;
    }
    bool chain = n->op == OP_FUSED && !ir_product_of(n) && !ir_ends_in_reduction(n);
    bool elementwise = ir_ops[n->op].cls == CLASS_EW || chain;
    return elementwise && ir_type_size(n->type) >= TILE_ELEMS ? DOM_TILES : DOM_ONE;
}

/* Of a node in domain uniq, whose unique rows it walks. */
static int table_of(const IrNode *n) {
    return n->type.live == LIVE_UNIQ ? n->type.axis : (int)ir_attr_i(n, "w");
}

static bool crosses(const IrNode *from, const IrNode *to) {
    from = ir_viewed(from);
    if (from->plan.domain == DOM_NONE || to->plan.domain == DOM_NONE) return false;
    if (from->plan.domain != to->plan.domain || from->plan.domain == DOM_TILES) return true;
    return from->plan.domain == DOM_UNIQ && table_of(from) != table_of(to);
}

/* ---- phases ---- */

static void at_least(IrNode *n, int phase) {
    if (n->plan.phase < phase) n->plan.phase = phase;
}

/* Whether n reads weight w as it is now. */
static bool reads(const IrNode *n, int w) {
    if (n->op == OP_FETCH && ir_attr_i(n, "w") == w) return true;
    for (int i = 0; i < n->n_in; i++)
        if (pass_is_weight(ir_viewed(n->in[i]), w)) return true;
    return false;
}

/* Last phase in which weight w is read, and last in which an update before node `until` writes it. */
static void after_users(IrBody *body, IrNode *update, int w) {
    bool before = true;
    for (int i = 0; i < body->n; i++) {
        IrNode *n = body->nodes[i];
        if (n == update)
            before = false;
        else if (n->plan.domain != DOM_NONE && reads(n, w))
            at_least(update, n->plan.phase + 1);
        else if (before && n->op == OP_BNUPDATE && (ir_attr_i(n, "mean") == w || ir_attr_i(n, "var") == w))
            at_least(update, n->plan.phase); /* the same thread, in order */
    }
}

/* ---- micro-batches: what is run before, for each block of rows, and behind ---- */

enum { BEFORE, INSIDE, BEHIND };

/* A sum over the rows of the step, which grows block by block. */
static bool grows(const IrNode *n) {
    IrOp op = ir_runs_as(n);
    bool sums = op == OP_SUMROWS || op == OP_MEANROWS || op == OP_MATMULGRADW || op == OP_SUMSQ;
    for (int k = 0; sums && k < n->n_in; k++)
        if (n->in[k]->type.live == LIVE_ROW || n->in[k]->type.live == LIVE_POS) return true;
    return false;
}

/* mark of the operands: theirs. */
static int section_of(const IrNode *n) {
    if (pass_is_root(n)) return BEHIND;
    if (n->plan.domain == DOM_NONE && !ir_is_view(n)) return BEFORE; /* what the step begins with */
    if (n->op == OP_ROWGRAD || n->op == OP_DENSEGRAD) return BEHIND;
    if (n->plan.domain == DOM_ROWS || n->op == OP_BNSTATS || n->op == OP_BNGSUMS || grows(n)) return INSIDE;
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k]->mark != BEFORE)
            return ir_is_view(n) && n->type.live >= LIVE_ROW ? n->in[k]->mark : BEHIND;
    return BEFORE;
}

static void find_sections(IrFunc *f) {
    for (int i = 0; i < f->body.n; i++)
        f->body.nodes[i]->mark = f->blocks ? section_of(f->body.nodes[i]) : BEFORE;
}

/* ---- all phases ---- */

/* The phases of one section's nodes, none before `base`. Returns the last of them, base - 1 if there is none.
 */
static int find_section_phases(IrBody *body, int section, int base, int *loss_phase) {
    int last = base - 1;
    for (int i = 0; i < body->n; i++) {
        IrNode *n = body->nodes[i];
        if (n->mark != section) continue;
        at_least(n, base);
        for (int k = 0; k < n->n_in; k++) at_least(n, n->in[k]->plan.phase + crosses(n->in[k], n));
        if (n->op == OP_LOSS && n->plan.phase > *loss_phase) *loss_phase = n->plan.phase;
        if (n->plan.domain != DOM_NONE && n->plan.phase > last) last = n->plan.phase;
    }
    return last;
}

static void find_phases(IrFunc *f) {
    IrBody *body = &f->body;
    int loss_phase = -1;
    pass_mark_strided(body);
    for (int i = 0; i < body->n; i++) {
        IrNode *n = body->nodes[i];
        n->plan = (IrPlan){.domain = domain_of(n)};
    }
    find_sections(f);
    int before = find_section_phases(body, BEFORE, 0, &loss_phase);
    if (f->blocks) {
        f->loop_first = before + 1;
        f->loop_last = find_section_phases(body, INSIDE, f->loop_first, &loss_phase);
        find_section_phases(body, BEHIND, f->loop_last + 1, &loss_phase);
    }
    int last = loss_phase;
    for (int i = 0; i < body->n; i++) {
        IrNode *n = body->nodes[i];
        const IrNode *writer = ir_writer(n);
        if (writer) {
            at_least(n, loss_phase + 1);
            after_users(body, n, (int)ir_attr_i(writer, n->op == OP_BNUPDATE ? "mean" : "w"));
            if (n->op == OP_BNUPDATE) after_users(body, n, (int)ir_attr_i(n, "var"));
        }
        if (n->plan.phase > last) last = n->plan.phase;
    }
    for (int i = 0; i < body->n; i++)
        if (body->nodes[i]->op == OP_PREDICT || body->nodes[i]->op == OP_METRIC)
            at_least(body->nodes[i], last);
}

static int by_phase(const void *a, const void *b) {
    const IrNode *x = *(IrNode *const *)a, *y = *(IrNode *const *)b;
    if (x->plan.phase != y->plan.phase) return x->plan.phase < y->plan.phase ? -1 : 1;
    return x->mark < y->mark ? -1 : 1; /* their order before: operands first */
}

static void sort_by_phase(IrBody *body) {
    for (int i = 0; i < body->n; i++) body->nodes[i]->mark = i;
    if (body->n) qsort(body->nodes, (size_t)body->n, sizeof *body->nodes, by_phase);
}

/* Fewer rows a block where a micro-batch has few: threads share its rows by blocks. */
static int rows_a_block(const IrProgram *p, const IrFunc *f, int rows) {
    int64_t all = f->blocks ? (p->batch + f->blocks - 1) / f->blocks : INT64_MAX;
    while (rows > 8 && rows > all / 4) rows /= 2;
    return rows;
}

/* ---- the pass ---- */

static bool read_args(IrProgram *p, const char *args, PassKernels *kernels, int *rows) {
    static const char *const known[] = {"products", "tile", "library", "rows", "amx"};
    return pass_args_known(p, "schedule", args, known, 5) && pass_read_kernels(p, args, kernels) &&
           pass_arg_int(p, "schedule", args, "rows", 1, 4096, ROW_BLOCK, rows);
}

bool pass_schedule(IrProgram *p, const PassOptions *o, const char *args) {
    PassKernels kernels;
    int rows;
    if (!read_args(p, args, &kernels, &rows)) return false;
    if (!pass_weigh_products(p, o, &kernels, rows_a_block, rows)) return false;
    for (int f = 0; f < p->n_funcs; f++) {
        IrBody *body = &p->funcs[f]->body;
        pass_pack(p, p->funcs[f], &o->target, &kernels);
        pass_block_sums(p, p->funcs[f], rows_a_block(p, p->funcs[f], rows));
        find_phases(p->funcs[f]);
        sort_by_phase(body);
        for (int i = 0; i < body->n; i++) {
            IrPlan *plan = &body->nodes[i]->plan;
            if (plan->domain == DOM_NONE) continue;
            plan->block = plan->domain == DOM_ROWS   ? rows_a_block(p, p->funcs[f], rows)
                          : plan->domain == DOM_UNIQ ? UNIQ_BLOCK
                                                     : 1;
            if (body->nodes[i]->op != OP_RESULT)
                plan->kernel = pass_choose_kernel(body->nodes[i], &o->target, &kernels);
        }
    }
    return true;
}
