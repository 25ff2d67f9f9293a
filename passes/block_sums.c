/* Part of schedule: what is summed up over the step's rows is summed in two halves, each block of rows behind
 * the kernel that made it, while it is in cache, then the blocks.
 *
 * before:
 *   %4 = mul %2, %3 : f32[8]
 *   %5 = sum_rows %4 : step f32[8]
 * after, with blocks of 64 rows and a batch of 512:
 *   %4 = mul %2, %3 : f32[8]
 *   %5 = block_sums %4 {rows=64} : step f32[8,8]
 *   %6 = sum_blocks %5 {rows=64} : step f32[8]
 *
 * So are batch normalisation's statistics and the sums of its gradient, the sum over rows that a region ends
 * in (kind reduce), and that which a gradient with its update begins with (kind update). Summed as a whole,
 * by tiles of columns, each tile reads all rows again, of which those of a layer's output are no longer in
 * cache; and a bias has too few columns to be shared by all threads, where blocks of rows are taken by
 * whoever is free.
 *
 * A block's sum is that thread's who runs the block, into a part of its own; the parts are added up in their
 * order. So the order of a sum is given by the schedule's rows and doesn't depend on threads.
 *
 * Not with micro-batches, whose sums grow from one micro-batch to the next. */
#include "passes/rewrite.h"
#include "passes/schedule.h"

typedef struct {
    IrProgram *p;
    IrBody out;
    int rows;
} Splitter;

static IrNode *by_blocks(Splitter *s, const IrNode *at, IrOp op, int n, IrNode *const *in) {
    IrBuilder b = {s->p, &s->out, at->span, at->name};
    IrAttr how[] = {ir_ai("rows", s->rows), {0}};
    if (op == OP_BNBLOCKGSUMS) how[1] = ir_af("eps", ir_attr_f(at, "eps"));
    return ir_build(&b, op, n, in, 1 + (op == OP_BNBLOCKGSUMS), how);
}

/* n becomes `op` of its parts, at its place in the body and for all that read it. */
static void join(Splitter *s, IrNode *n, IrOp op, IrNode *parts) {
    n->op = op;
    n->in = ARENA_ARRAY(s->p->arena, IrNode *, 1);
    n->in[0] = parts, n->n_in = 1;
    n->attrs = ARENA_ARRAY(s->p->arena, IrAttr, 1);
    n->attrs[0] = ir_ai("rows", s->rows), n->n_attrs = 1;
    n->body = NULL;
}

static bool by_row(const IrNode *x) { return x->type.live == LIVE_ROW || x->type.live == LIVE_POS; }
static bool fits(const IrNode *x) { return by_row(x) && x->type.rank < IR_MAX_RANK; }
static bool one_row(const IrNode *x) { return x->type.live == LIVE_ROW && x->type.rank == 1; }

/* ---- regions ---- */

/* Kind update: the sum in it becomes one of blocks. */
static void split_update(Splitter *s, IrNode *region) {
    for (int i = 0; i < region->body->n; i++) {
        IrNode *sum = region->body->nodes[i];
        int k = sum->op == OP_SUMROWS ? pass_only_operand(region, sum, 0) : -1;
        if (k < 0 || !fits(region->in[k])) continue;
        region->in[k] = by_blocks(s, region, OP_BLOCKSUMS, 1, &region->in[k]);
        sum->in[0]->type = region->in[k]->type;
        join(s, sum, OP_SUMBLOCKS, sum->in[0]);
    }
}

/* Kind reduce: the region ends in sums of blocks, and n adds these up. */
static void split_reduce(Splitter *s, IrNode *n) {
    IrNode *region = ir_clone_node(s->p, n), *last = n->body->nodes[n->body->n - 1];
    IrBody aside = {0};
    IrBuilder b = {.p = s->p, .body = &aside, .span = last->span};
    IrAttr rows = ir_ai("rows", s->rows);
    IrNode *sums = ir_build(&b, OP_BLOCKSUMS, 1, last->in, 1, &rows);
    region->body->nodes[n->body->n - 1] = sums;
    region->type = sums->type;
    pass_push(s->p, &s->out, region);
    join(s, n, OP_SUMBLOCKS, region);
}

/* ---- a body ---- */

static void split(Splitter *s, IrNode *n) {
    if (ir_is_update_region(n)) {
        split_update(s, n);
        return;
    }
    IrNode *x = n->n_in ? n->in[0] : NULL;
    switch (ir_runs_as(n)) {
    case OP_SUMROWS:
        if (n->op == OP_FUSED && ir_ends_in_reduction(n)) {
            if (fits(n->body->nodes[n->body->n - 1]->in[0])) split_reduce(s, n);
        } else if (fits(x)) {
            join(s, n, OP_SUMBLOCKS, by_blocks(s, n, OP_BLOCKSUMS, 1, n->in));
        }
        return;
    case OP_BNSTATS:
        if (one_row(x)) join(s, n, OP_BNJOINSTATS, by_blocks(s, n, OP_BNBLOCKSTATS, 1, n->in));
        return;
    case OP_BNGSUMS:
        if (one_row(x) && by_row(n->in[2]))
            join(s, n, OP_SUMBLOCKS, by_blocks(s, n, OP_BNBLOCKGSUMS, 3, n->in));
        return;
    default: return;
    }
}

void pass_block_sums(IrProgram *p, IrFunc *f, int rows) {
    Splitter s = {.p = p, .rows = rows};
    if (f->blocks || p->batch < 1) return;
    for (int i = 0; i < f->body.n; i++) {
        split(&s, f->body.nodes[i]);
        pass_push(p, &s.out, f->body.nodes[i]);
    }
    f->body = s.out;
}
