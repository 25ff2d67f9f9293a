/* micro-batch: the step's rows are run in n blocks, one after the other; gradients are summed, the update is
 * one.
 *
 * before:
 *   %3 = bn_stats %0 : step f32[2,1]
 *   %4 = bn_update %3 {mean=mean, var=var, momentum=0.99} : none
 *   %5 = bn_norm %0, %3, %1, %2 {eps=0.001} : f32[1]
 * after:
 *   %3 = bn_stats %0 {blocks=4} : step f32[4,2,1]
 *   %4 = sum %3 {axis=0, keep=0} : step f32[2,1]
 *   %5 = inv_rows : step f32[1]
 *   %6 = const {value=[0.25], shape=[1]} : always f32[1]
 *   %7 = max2 %5, %6 : step f32[1]
 *   %8 = mul %4, %7 : step f32[2,1]
 *   %9 = bn_update %8 {mean=mean, var=var, momentum=0.99} : none
 *   %10 = bn_norm %0, %3, %1, %2 {eps=0.001} : f32[1]
 * (tests/golden/passes/micro-batch/norm.*)
 *
 * Only func train is changed: func.blocks says how many there are, and schedule and plan-memory arrange the
 * loop over them, in which the blocks' values take the same places in turn. What the step computes stays what
 * it was, up to the order of sums, except for batch normalisation: its statistics become those of each block,
 * and the running ones move by the mean over the blocks (of those that have rows: a short last batch may have
 * fewer rows than n). Losses, weighted or not, are still divided by the rows of the whole step, and norms
 * that clip are of summed gradients.
 *
 * It does not apply where a row's value needs a sum over all rows of the step other than batch
 * normalisation's.
 *
 * auto: the fewest blocks, a power of two, with which all values of a block's rows take no more than the L2
 * cache of one core; but at least 64 rows a block, so that products stay products. */
#include "passes/rewrite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1024, MIN_ROWS = 64 };

/* ---- does it apply? ---- */

static bool sums_rows(const IrNode *n) {
    switch (n->op) {
    case OP_SUMROWS:
    case OP_MEANROWS:
    case OP_MATMULGRADW:
    case OP_SUMSQ:
    case OP_DENSEGRAD:
    case OP_ROWGRAD: return true;
    default: return false;
    }
}

/* A value of rows that needs all rows of the step, or NULL. mark: comes after a sum over rows. */
static const IrNode *needs_whole(const IrFunc *f) {
    for (int i = 0; i < f->body.n; i++) {
        IrNode *n = f->body.nodes[i];
        n->mark = sums_rows(n);
        for (int k = 0; k < n->n_in; k++) n->mark |= n->in[k]->mark;
        if (ir_ops[n->op].effect == EFFECT_ROOT) continue;
        if (!sums_rows(n) && n->mark && (n->type.live == LIVE_ROW || n->type.live == LIVE_POS)) return n;
    }
    return NULL;
}

/* ---- how many ---- */

/* Bytes of all values a row; of lists, with as many positions as their axis may have (16 if that isn't said).
 */
static double bytes_a_row(const IrProgram *p, const IrFunc *f) {
    double bytes = 0;
    for (int i = 0; i < f->body.n; i++) {
        IrType t = f->body.nodes[i]->type;
        if (t.elem != TY_F32 || t.live < LIVE_ROW || t.live == LIVE_UNIQ) continue;
        int64_t positions = t.live == LIVE_POS ? p->axes[t.axis].max ? p->axes[t.axis].max : 16 : 1;
        bytes += 4.0 * (double)ir_type_size(t) * (double)positions;
    }
    return bytes;
}

static int64_t by_cache(const IrProgram *p, const IrFunc *f, const PassOptions *o) {
    double all = bytes_a_row(p, f) * (double)p->batch;
    int64_t n = 1;
    while (2 * n <= MOST && p->batch / (2 * n) >= MIN_ROWS && all / (double)n > (double)o->target.l2_bytes)
        n *= 2;
    return n;
}

static bool read_n(IrProgram *p, const PassOptions *o, const char *args, const IrFunc *train, int64_t *n) {
    static const char *const known[] = {"n"};
    int number;
    if (!pass_args_known(p, "micro-batch", args, known, 1)) return false;
    const char *text = pass_arg(p, args, "n");
    if (!text || !strcmp(text, "auto")) {
        *n = train ? by_cache(p, train, o) : 1;
        return true;
    }
    int most = p->batch > 0 && p->batch < MOST ? (int)p->batch : MOST;
    if (!pass_arg_int(p, "micro-batch", args, "n", 1, most, 1, &number)) return false;
    *n = number;
    return true;
}

/* ---- batch normalisation ---- */

typedef struct {
    int64_t n;
    bool norm;          /* there was some */
    IrNode *from, *sum; /* the last sum over blocks: beta's and gamma's gradients are two slices of one */
} Blocks;

static IrNode *over_blocks(Blocks *x, IrBuilder *b, IrNode *by_block) {
    if (x->from != by_block) x->from = by_block, x->sum = pass_sum(b, by_block, 0, false);
    return x->sum;
}

/* The mean over blocks that have rows: 1 / min(rows, n) of their sum. */
static IrNode *mean_over_blocks(Blocks *x, IrBuilder *b, IrNode *stats) {
    IrNode *sum = over_blocks(x, b, stats), *inv = ir_build(b, OP_INVROWS, 0, NULL, 0, NULL);
    return ir_build2(b, OP_MUL, sum, pass_scalar_op(b, OP_MAX2, inv, 1.0 / (double)x->n));
}

static IrNode *visit(PassRewrite *rw, IrNode *n) {
    Blocks *x = rw->user;
    IrAttr blocks = ir_ai("blocks", x->n), eps;
    switch (n->op) {
    case OP_BNSTATS: x->norm = true; return ir_build(&rw->b, OP_BNSTATS, 1, n->in, 1, &blocks);
    case OP_BNGSUMS:
        eps = ir_af("eps", ir_attr_f(n, "eps"));
        return ir_build(&rw->b, OP_BNGSUMS, 3, n->in, 1, &eps);
    case OP_BNUPDATE: n->in[0] = mean_over_blocks(x, &rw->b, n->in[0]); return n->in[0] ? n : NULL;
    case OP_BNNORM:
    case OP_BNGRAD: return n;
    default: break;
    }
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k]->op == OP_BNGSUMS && !(n->in[k] = over_blocks(x, &rw->b, n->in[k]))) return NULL;
    return n;
}

/* ---- the pass ---- */

bool pass_micro_batch(IrProgram *p, const PassOptions *o, const char *args) {
    IrFunc *train = ir_func(p, "train");
    Blocks x = {0};
    if (!read_n(p, o, args, train, &x.n)) return false;
    if (!train) return true;
    if (x.n < 2) {
        diag_note(p->diag, (Span){0}, "micro-batch: a step of %lld rows is one block (n=1)",
                  (long long)p->batch);
        return true;
    }
    const IrNode *whole = needs_whole(train);
    if (whole) {
        diag_warn(p->diag, whole->span, NULL, "micro-batch: this needs a sum over all rows of the step (%s)",
                  ir_ops[whole->op].text);
        return true;
    }
    if (!pass_rewrite(p, train, visit, &x, NULL)) return false;
    train->blocks = x.n;
    int rows = (int)((p->batch + x.n - 1) / x.n);
    pass_effect(p, "micro-batch", "%lld blocks of %s%s a step", (long long)x.n, rows > 1 ? "up to " : "",
                pass_count_text(p, rows, "row"));
    if (x.norm)
        diag_note(p->diag, (Span){0},
                  "micro-batch: batch normalisation uses the statistics of each of %lld blocks",
                  (long long)x.n);
    return true;
}
