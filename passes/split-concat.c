/* split-concat: products over a concat are split by how often its parts live, and equal terms are merged.
 * Exact.
 *
 * before, the first layer of DIN's attention: %5 of a row against the positions %6 of a list
 *   %9 = sub %5, %6 : f32[~h,36]
 *   %10 = mul %5, %6 : f32[~h,36]
 *   %11 = concat %5, %6, %9, %10 {axis=0} : f32[~h,144]
 *   %12 = matmul %11, %7 {ta=0, tb=0} : f32[~h,80]
 *   %13 = add %12, %8 : f32[~h,80]
 * after, with W = %7 in four slices Wq, Wk, Wd and Wp:
 *   %14 = add %10, %12 : always f32[36,80]              Wq + Wd
 *   %15 = matmul %5, %14 {ta=0, tb=0} : f32[80]         once a row
 *   %16 = sub %11, %12 : always f32[36,80]              Wk - Wd
 *   %17 = concat %6, %9 {axis=0} : f32[~h,72]           half as wide
 *   %18 = concat %16, %13 {axis=0} : always f32[72,80]
 *   %19 = matmul %17, %18 {ta=0, tb=0} : f32[~h,80]
 *   %20 = add %15, %8 : f32[80]
 *   %21 = add %19, %20 : f32[~h,80]
 * (tests/golden/passes/split-concat/attention.*)
 *
 * That is q Wq + k Wk + (q - k) Wd + (q * k) Wp = q (Wq + Wd) + [k, q * k] [Wk - Wd; Wp]. In general: the
 * left side x is opened through concats, sums, differences and broadcasts along a list into atoms; an atom is
 * multiplied with the sum, by sign, of all slices of W that it meets; and the atoms that live equally often,
 * of a position, a row, a step or always, are one product. A bias is added to the coarsest of them that is as
 * wide.
 *
 * The weight stays one: slices and sums of it are computed once a step. So its initial values, checkpoint, l2
 * and clip_norm know nothing of the split, and its gradient is put together from its slices' in one concat.
 *
 * Opening costs nothing where it merges terms or moves work from positions to rows, else it widens the
 * product: each concat and each sum is opened only where that makes the whole cheaper, by ir_step_cost. Where
 * all parts live alike and none occurs twice, nothing is gained and nothing is touched. Nor is a weight that
 * is updated by rows (lazy), whose one-hots must stay in plain view. */
#include "passes/split_concat.h"
#include <math.h>

/* ---- the cost model ---- */

/* A byte that is moved takes as long as this many operations: products reach about 80 GFLOP/s on a core whose
 * second-level cache feeds copies with about 20 GB/s. */
enum { FLOPS_A_BYTE = 4 };
static const double least_gain = 0.05; /* of the cost: estimates aren't better than that */

static double price(IrCost c) { return c.flops + FLOPS_A_BYTE * c.bytes; }

static void add_cost(IrCost *sum, IrCost c) {
    sum->flops += c.flops;
    sum->bytes += c.bytes;
}

/* What is added to a product is added while that is in registers: it is read, and nothing else is moved. */
static IrCost cost_built(const IrProgram *p, const IrNode *n) {
    IrCost c = ir_step_cost(p, n);
    if (n->op == OP_ADD && n->in[0]->op == OP_MATMUL) c.bytes = 4 * ir_step_elements(p, n->in[1]->type);
    return c;
}

/* Sums are fused with what makes their operands: only the result is moved. */
static IrCost cost_computed(const IrProgram *p, const IrNode *n) {
    IrCost c = ir_step_cost(p, n);
    if (ir_ops[n->op].cls == CLASS_EW) c.bytes = 4 * ir_step_elements(p, n->type);
    return c;
}

static bool is_operand(const IrNode *of, const IrNode *x) {
    for (int i = 0; i < of->n_in; i++)
        if (of->in[i] == x) return true;
    return false;
}

static bool is_atom(const Split *s, const IrNode *x) {
    for (int i = 0; i < s->n_atoms; i++)
        if (s->atom[i].value == x) return true;
    return false;
}

/* Of what the left side is made of, as far as it has to be computed: for others, as an atom, or for another
 * that has. */
static IrCost cost_inner(const IrProgram *p, const Split *s) {
    bool computed[SPLIT_INNER];
    IrCost sum = {0, 0};
    for (int i = s->n - 1; i >= 0; i--) {
        computed[i] = s->kept[i] || is_atom(s, s->inner[i]);
        for (int k = i + 1; k < s->n; k++) computed[i] |= computed[k] && is_operand(s->inner[k], s->inner[i]);
        if (computed[i]) add_cost(&sum, cost_computed(p, s->inner[i]));
    }
    return sum;
}

/* Of the product with what is open now. */
static IrCost cost_split(IrProgram *p, Split *s) {
    IrBody aside = {0};
    IrBuilder b = {.p = p, .body = &aside, .span = s->product->span, .name = s->product->name};
    if (!pass_split_atoms(s) || !pass_split_build(s, &b)) return (IrCost){INFINITY, INFINITY};
    IrCost sum = cost_inner(p, s);
    for (int i = 0; i < aside.n; i++) add_cost(&sum, cost_built(p, aside.nodes[i]));
    return sum;
}

typedef struct {
    Split split;
    int products; /* that were split */
} State;

static bool gains(double now, double before) { return now < (1 - least_gain) * before; }

/* Closes again what isn't worth opening, insides first. Returns whether the left side itself stays open,
 * which it does if that gains enough. */
static bool choose(IrProgram *p, State *st) {
    Split *s = &st->split;
    IrCost best = cost_split(p, s);
    for (int i = 0; i < s->n - 1; i++) {
        s->open[i] = false;
        IrCost closed = cost_split(p, s);
        if (price(closed) <= price(best))
            best = closed;
        else
            s->open[i] = true;
    }
    s->open[s->n - 1] = false;
    IrCost whole = cost_split(p, s);
    if (!gains(best.flops, whole.flops) || !gains(price(best), price(whole))) return false;
    s->open[s->n - 1] = true;
    st->products++;
    return pass_split_atoms(s);
}

/* ---- the pass ---- */

enum { SPLIT_SUM = -1 }; /* mark of a sum that this pass built and that only one node needs */

static IrNode *marked(IrNode *sum, const IrNode *stands_for) {
    if (sum && sum->op == OP_ADD && stands_for->mark == 1) sum->mark = SPLIT_SUM;
    return sum;
}

/* A bias on (product of positions + what a row adds) is added once a row; so its gradient, too, is summed by
 * row. */
static IrNode *add_to_coarser(PassRewrite *rw, IrNode *n) {
    for (int i = 0; i < 2; i++) {
        IrNode *sum = n->in[i], *more = n->in[1 - i];
        if (sum->mark != SPLIT_SUM || more->type.live > sum->in[1]->type.live ||
            !ir_same_dims(more->type, sum->in[1]->type))
            continue;
        IrNode *coarser = ir_build2(&rw->b, OP_ADD, sum->in[1], more);
        return marked(ir_build2(&rw->b, OP_ADD, sum->in[0], coarser), n);
    }
    return n;
}

static IrNode *visit(PassRewrite *rw, IrNode *n) {
    State *st = rw->user;
    if (n->op == OP_ADD) return add_to_coarser(rw, n);
    if (n->op != OP_MATMUL || pass_is_lazy(rw->p, n->in[1])) return n;
    if (!pass_split_open(&st->split, n, false) || !choose(rw->p, st)) return n;
    return marked(pass_split_build(&st->split, &rw->b), n);
}

bool pass_split_concat(IrProgram *p, const PassOptions *o, const char *args) {
    (void)o;
    if (!pass_args_known(p, "split-concat", args, NULL, 0)) return false;
    State *st = ARENA_NEW(p->arena, State);
    IrFunc *model = ir_func(p, "model");
    if (!model) return true; /* differentiated: its gradients are written for the products as they are */
    pass_count_uses(&model->body);
    if (!pass_rewrite(p, model, visit, st, NULL)) return false;
    pass_dead_code(p, &model->body);
    if (st->products) pass_effect(p, "split-concat", "%s split", pass_count_text(p, st->products, "product"));
    return true;
}
