/* Gradient rules of elementwise ops. Where the result is at hand and makes it cheaper, a rule uses it
 * instead of the operand: relu, sigmoid, tanh, exp, sqrt, div. */
#include "passes/gradients.h"
#include <math.h>

static IrNode *op1(PassGrad *c, IrOp op, IrNode *a) { return ir_build1(&c->b, op, a); }
static IrNode *op2(PassGrad *c, IrOp op, IrNode *a, IrNode *b) { return ir_build2(&c->b, op, a, b); }
static IrNode *opc(PassGrad *c, IrOp op, IrNode *a, double v) { return pass_scalar_op(&c->b, op, a, v); }
static IrNode *mul(PassGrad *c, IrNode *a, IrNode *b) { return op2(c, OP_MUL, a, b); }
/* v - a */
static IrNode *csub(PassGrad *c, double v, IrNode *a) { return op2(c, OP_SUB, ir_const(&c->b, v), a); }
static bool wants(const IrNode *y, int i) { return pass_gradient_wants(y->in[i]); }
static void to(PassGrad *c, IrNode *y, int i, IrNode *g) { pass_gradient_to(c, y, y->in[i], g); }

/* ---- two operands ---- */

void pass_grad_add(PassGrad *c, IrNode *y, IrNode *g) {
    to(c, y, 0, g);
    to(c, y, 1, g);
}

void pass_grad_sub(PassGrad *c, IrNode *y, IrNode *g) {
    to(c, y, 0, g);
    if (wants(y, 1)) to(c, y, 1, op1(c, OP_NEG, g));
}

void pass_grad_mul(PassGrad *c, IrNode *y, IrNode *g) {
    if (wants(y, 0)) to(c, y, 0, mul(c, g, y->in[1]));
    if (wants(y, 1)) to(c, y, 1, mul(c, g, y->in[0]));
}

void pass_grad_div(PassGrad *c, IrNode *y, IrNode *g) {
    IrNode *part = op2(c, OP_DIV, g, y->in[1]);
    to(c, y, 0, part);
    if (wants(y, 1)) to(c, y, 1, op1(c, OP_NEG, mul(c, part, y)));
}

static void choose(PassGrad *c, IrNode *y, IrNode *g, IrOp first, IrOp second) {
    if (wants(y, 0)) to(c, y, 0, mul(c, g, op2(c, first, y->in[0], y->in[1])));
    if (wants(y, 1)) to(c, y, 1, mul(c, g, op2(c, second, y->in[0], y->in[1])));
}
void pass_grad_max2(PassGrad *c, IrNode *y, IrNode *g) { choose(c, y, g, OP_GE, OP_LT); }
void pass_grad_min2(PassGrad *c, IrNode *y, IrNode *g) { choose(c, y, g, OP_LE, OP_GT); }

void pass_grad_bcelogits(PassGrad *c, IrNode *y, IrNode *g) {
    to(c, y, 0, mul(c, g, op2(c, OP_SUB, op1(c, OP_SIGMOID, y->in[0]), y->in[1])));
}

/* ---- one operand ---- */

void pass_grad_neg(PassGrad *c, IrNode *y, IrNode *g) { to(c, y, 0, op1(c, OP_NEG, g)); }

void pass_grad_exp(PassGrad *c, IrNode *y, IrNode *g) { to(c, y, 0, mul(c, g, y)); }

void pass_grad_log(PassGrad *c, IrNode *y, IrNode *g) { to(c, y, 0, op2(c, OP_DIV, g, y->in[0])); }

void pass_grad_log1p(PassGrad *c, IrNode *y, IrNode *g) {
    to(c, y, 0, op2(c, OP_DIV, g, opc(c, OP_ADD, y->in[0], 1)));
}

void pass_grad_sqrt(PassGrad *c, IrNode *y, IrNode *g) {
    to(c, y, 0, op2(c, OP_DIV, g, opc(c, OP_MUL, y, 2)));
}

void pass_grad_square(PassGrad *c, IrNode *y, IrNode *g) {
    to(c, y, 0, mul(c, g, opc(c, OP_MUL, y->in[0], 2)));
}

void pass_grad_abs(PassGrad *c, IrNode *y, IrNode *g) {
    IrNode *sign = op2(c, OP_SUB, opc(c, OP_GT, y->in[0], 0), opc(c, OP_LT, y->in[0], 0));
    to(c, y, 0, mul(c, g, sign));
}

void pass_grad_relu(PassGrad *c, IrNode *y, IrNode *g) { to(c, y, 0, mul(c, g, opc(c, OP_GT, y, 0))); }

void pass_grad_leakyrelu(PassGrad *c, IrNode *y, IrNode *g) {
    /* 1 or slope, each without rounding */
    IrNode *below = opc(c, OP_MUL, opc(c, OP_LE, y->in[0], 0), ir_attr_f(y, "slope"));
    to(c, y, 0, mul(c, g, op2(c, OP_ADD, opc(c, OP_GT, y->in[0], 0), below)));
}

void pass_grad_sigmoid(PassGrad *c, IrNode *y, IrNode *g) {
    to(c, y, 0, mul(c, g, mul(c, y, csub(c, 1, y))));
}

void pass_grad_tanh(PassGrad *c, IrNode *y, IrNode *g) {
    to(c, y, 0, mul(c, g, csub(c, 1, op1(c, OP_SQUARE, y))));
}

void pass_grad_softplus(PassGrad *c, IrNode *y, IrNode *g) {
    to(c, y, 0, mul(c, g, op1(c, OP_SIGMOID, y->in[0])));
}

void pass_grad_erf(PassGrad *c, IrNode *y, IrNode *g) {
    IrNode *bell = op1(c, OP_EXP, op1(c, OP_NEG, op1(c, OP_SQUARE, y->in[0])));
    to(c, y, 0, mul(c, g, opc(c, OP_MUL, bell, M_2_SQRTPI)));
}

void pass_grad_clip(PassGrad *c, IrNode *y, IrNode *g) {
    IrNode *x = y->in[0];
    IrNode *inside = mul(c, opc(c, OP_GE, x, ir_attr_f(y, "lo")), opc(c, OP_LE, x, ir_attr_f(y, "hi")));
    to(c, y, 0, mul(c, g, inside));
}

/* Dropout is linear, and its zeros depend on seed, step, key and element alone: the gradient goes through the
 * same op, whole, so that elements have the same numbers. */
void pass_grad_dropout(PassGrad *c, IrNode *y, IrNode *g) {
    IrNode *whole = pass_gradient_repeat(c, g, y);
    to(c, y, 0, whole ? ir_build(&c->b, OP_DROPOUT, 1, &whole, y->n_attrs, y->attrs) : NULL);
}
