/* Gradient rules of recurrent layers. What runs backwards along the list is one op; the rest, above all the
 * gradients of the recurrent weights, is made of ops over all positions at once. */
#include "passes/gradients.h"

/* x of the position before, 0 at a row's first. */
static IrNode *before(PassGrad *c, IrNode *x) {
    IrAttr k = ir_ai("k", -1);
    return x ? ir_build(&c->b, OP_SHIFT, 1, &x, 1, &k) : NULL;
}

/* y is the record h, r, u, c, and all of g is about h: nothing else reads the record's other parts, which the
 * frontend hides. G = gru_grad's: dp of r, u, c side by side, then d, the whole gradient of h.
 * dUg = sum over positions of h_before^T [dp_r, dp_u]; dUc = (r h_before)^T dp_c. With u' = (1-a) u:
 * da = sum over the units of -u d (h_before - c). */
void pass_grad_gru(PassGrad *c, IrNode *y, IrNode *g) {
    int64_t u = ir_type_width(y->in[2]->type);
    bool scored = y->op == OP_AUGRU;
    g = pass_gradient_repeat(c, pass_slice(&c->b, g, 0, 0, u), y);
    if (!g) return;
    IrNode *plain[] = {y, y->in[1], y->in[2], g}, *with_scores[] = {y, y->in[1], y->in[2], y->in[3], g};
    IrNode *G = ir_build(&c->b, scored ? OP_AUGRUGRAD : OP_GRUGRAD, scored ? 5 : 4,
                         scored ? with_scores : plain, 0, NULL);
    pass_gradient_to(c, y, y->in[0], pass_slice(&c->b, G, 0, 0, 3 * u));

    IrNode *h = before(c, pass_slice(&c->b, y, 0, 0, u));
    if (pass_gradient_wants(y->in[1]))
        pass_gradient_to_own(c, y->in[1], pass_gradient_product(c, h, pass_slice(&c->b, G, 0, 0, 2 * u)));
    if (pass_gradient_wants(y->in[2])) {
        IrNode *reset = ir_build2(&c->b, OP_MUL, pass_slice(&c->b, y, 0, u, 2 * u), h);
        pass_gradient_to_own(c, y->in[2],
                             pass_gradient_product(c, reset, pass_slice(&c->b, G, 0, 2 * u, 3 * u)));
    }
    if (scored && pass_gradient_wants(y->in[3])) {
        IrNode *towards = ir_build2(&c->b, OP_SUB, pass_slice(&c->b, y, 0, 3 * u, 4 * u), h); /* c - h */
        IrNode *by_gate = ir_build2(&c->b, OP_MUL, pass_slice(&c->b, y, 0, 2 * u, 3 * u), towards);
        IrNode *each = ir_build2(&c->b, OP_MUL, pass_slice(&c->b, G, 0, 3 * u, 4 * u), by_gate);
        pass_gradient_to(c, y, y->in[3], pass_sum(&c->b, each, 0, true));
    }
}

/* c' = f c + (1-f) v: with d the whole gradient of c', dv = (1-f) d and df = d (c - v). */
void pass_grad_sru(PassGrad *c, IrNode *y, IrNode *g) {
    IrNode *f = y->in[0], *v = y->in[1];
    g = pass_gradient_repeat(c, g, y);
    if (!g) return;
    IrNode *d = ir_build2(&c->b, OP_SRUGRAD, f, g);
    if (pass_gradient_wants(v))
        pass_gradient_to(c, y, v,
                         ir_build2(&c->b, OP_MUL, ir_build2(&c->b, OP_SUB, ir_const(&c->b, 1), f), d));
    if (pass_gradient_wants(f))
        pass_gradient_to(c, y, f, ir_build2(&c->b, OP_MUL, d, ir_build2(&c->b, OP_SUB, before(c, y), v)));
}
