/* split-concat: products over a concat are split by how often its parts live, and terms are merged. Exact.
 *
 * before: the scores of DIN's attention, q of a row against the facts k of a list
 * after: TODO
 * (tests/golden/passes/split-concat/attention.*)
 */
#include "passes/split_concat.h"
#include <math.h>

/* A float that is moved costs as much as this many operations: products reach about 80 GFLOP/s on a core whose
 * second-level cache gives about 20 GB/s to copies. */
enum { FLOPS_A_BYTE = 4 };
static const double least_gain = 0.05;

static double price(const IrProgram *p, const IrNode *n) {
    IrCost c = ir_step_cost(p, n);
    return c.flops + FLOPS_A_BYTE * c.bytes;
}

/* An add to a product is done while the product is in registers: it reads what is added. */
static double price_built(const IrProgram *p, const IrNode *n) {
    if (n->op != OP_ADD || n->in[0]->op != OP_MATMUL) return price(p, n);
    return ir_step_cost(p, n).flops + FLOPS_A_BYTE * 4 * ir_step_elements(p, n->in[1]->type);
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

/* Of what the left side is made of, as far as it has to be computed: for others, as an atom, or to compute
 * another. */
static double price_inner(const IrProgram *p, const Split *s) {
    bool computed[SPLIT_INNER];
    double sum = 0;
    for (int i = s->n - 1; i >= 0; i--) {
        computed[i] = s->kept[i] || is_atom(s, s->inner[i]);
        for (int k = i + 1; k < s->n; k++) computed[i] |= computed[k] && is_operand(s->inner[k], s->inner[i]);
        if (computed[i]) sum += price(p, s->inner[i]);
    }
    return sum;
}

/* Of the product with what is open now. */
static double price_split(IrProgram *p, Split *s) {
    IrBody aside = {0};
    IrBuilder b = {.p = p, .body = &aside, .span = s->product->span, .name = s->product->name};
    if (!pass_split_atoms(s) || !pass_split_build(s, &b)) return INFINITY;
    double sum = price_inner(p, s);
    for (int i = 0; i < aside.n; i++) sum += price_built(p, aside.nodes[i]);
    return sum;
}

/* Closes again what isn't worth opening, insides first. Returns whether the left side itself stays open, and
 * gains enough. */
static bool choose(IrProgram *p, Split *s) {
    double best = price_split(p, s);
    for (int i = 0; i < s->n; i++) {
        bool whole = i == s->n - 1;
        s->open[i] = false;
        double closed = price_split(p, s);
        if (whole && !(best < (1 - least_gain) * closed)) return false;
        if (!whole && closed <= best)
            best = closed;
        else
            s->open[i] = true;
    }
    return pass_split_atoms(s);
}

/* Rows of such a weight are updated where a one-hot names them, which must stay plain to see. */
static bool lazy(const IrProgram *p, const IrNode *w) {
    return w->op == OP_WEIGHT && p->weights[ir_attr_i(w, "w")].lazy;
}

static IrNode *visit(PassRewrite *rw, IrNode *n) {
    if (n->op != OP_MATMUL || lazy(rw->p, n->in[1])) return n;
    Split *s = rw->user;
    if (!pass_split_open(s, n) || !choose(rw->p, s)) return n;
    return pass_split_build(s, &rw->b);
}

bool pass_split_concat(IrProgram *p, const PassOptions *o, const char *args) {
    (void)o;
    if (!pass_args_known(p, "split-concat", args, NULL, 0)) return false;
    Split *s = ARENA_NEW(p->arena, Split);
    for (int i = 0; i < p->n_funcs; i++) {
        pass_count_uses(&p->funcs[i]->body);
        if (!pass_rewrite(p, p->funcs[i], visit, s, NULL)) return false;
        pass_dead_code(p, &p->funcs[i]->body);
    }
    return true;
}
