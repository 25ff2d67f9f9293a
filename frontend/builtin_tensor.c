/* Elementwise built-ins, softmax, dropout, and what batch normalisation in the layer library is made of. */
#include "frontend/value.h"
#include <math.h>
#include <string.h>

static Value *unary(Ev *ev, Call *c, IrOp op) {
    IrNode *x = arg_f32(ev, c, 0);
    return x ? ev_tensor(ev, ir_build1(&ev->b, op, x)) : NULL;
}

/* On a number the result is a number. */
static Value *unary_or_number(Ev *ev, Call *c, IrOp op, double (*f)(double)) {
    if (c->args[0].v->kind != V_NUMBER) return unary(ev, c, op);
    double r = f(c->args[0].v->number);
    if (isfinite(r)) return ev_number(ev, r);
    ev_error(ev, c->span, NULL, "%s of %s is not a finite number", c->of->name,
             ev_describe(ev, c->args[0].v));
    return NULL;
}

static Value *relu(Ev *ev, Call *c) { return unary(ev, c, OP_RELU); }
static Value *sigmoid(Ev *ev, Call *c) { return unary(ev, c, OP_SIGMOID); }
static Value *tanh_(Ev *ev, Call *c) { return unary_or_number(ev, c, OP_TANH, tanh); }
static Value *softplus(Ev *ev, Call *c) { return unary(ev, c, OP_SOFTPLUS); }
static Value *erf_(Ev *ev, Call *c) { return unary_or_number(ev, c, OP_ERF, erf); }
static Value *exp_(Ev *ev, Call *c) { return unary_or_number(ev, c, OP_EXP, exp); }
static Value *log_(Ev *ev, Call *c) { return unary_or_number(ev, c, OP_LOG, log); }
static Value *log1p_(Ev *ev, Call *c) { return unary_or_number(ev, c, OP_LOG1P, log1p); }
static Value *sqrt_(Ev *ev, Call *c) { return unary_or_number(ev, c, OP_SQRT, sqrt); }
static Value *abs_(Ev *ev, Call *c) { return unary_or_number(ev, c, OP_ABS, fabs); }
static double times_itself(double x) { return x * x; }
static Value *square(Ev *ev, Call *c) { return unary_or_number(ev, c, OP_SQUARE, times_itself); }
static Value *stop_gradient(Ev *ev, Call *c) { return unary(ev, c, OP_STOPGRAD); }

static Value *leaky_relu(Ev *ev, Call *c) {
    double slope = 0.2;
    IrNode *x = arg_f32(ev, c, 0);
    if (!arg_range(ev, c, 1, 0, INFINITY, &slope) || !x) return NULL;
    IrAttr attr = ir_af("slope", slope);
    return ev_tensor(ev, ev_op_attrs(ev, OP_LEAKYRELU, x, 1, &attr));
}

static Value *clip(Ev *ev, Call *c) {
    double lo = 0, hi = 0;
    if (!arg_number(ev, c, 1, &lo) || !arg_number(ev, c, 2, &hi)) return NULL;
    if (lo > hi) {
        ev_error(ev, c->span, NULL, "clip: expected lo <= hi, found %s and %s", ev_number_text(ev, lo),
                 ev_number_text(ev, hi));
        return NULL;
    }
    if (c->args[0].v->kind == V_NUMBER) return ev_number(ev, fmin(fmax(c->args[0].v->number, lo), hi));
    IrNode *x = arg_f32(ev, c, 0);
    IrAttr attrs[] = {ir_af("lo", lo), ir_af("hi", hi)};
    return ev_tensor(ev, ev_op_attrs(ev, OP_CLIP, x, 2, attrs));
}

static Value *softmax(Ev *ev, Call *c) {
    IrNode *x = arg_f32(ev, c, 0);
    bool list;
    int axis;
    if (!x || !ev_axis(ev, &c->args[1], x, -1, &list, &axis)) return NULL;
    if (list) return ev_tensor(ev, ir_build1(&ev->b, OP_SEGSOFTMAX, x));
    IrAttr attr = ir_ai("axis", axis);
    return ev_tensor(ev, ev_op_attrs(ev, OP_SOFTMAX, x, 1, &attr));
}

static Value *dropout(Ev *ev, Call *c) {
    double rate = 0;
    IrNode *x = arg_f32(ev, c, 0);
    if (!arg_range(ev, c, 1, 0, 1, &rate) || !x) return NULL;
    if (rate == 1) {
        ev_error(ev, c->args[1].span, NULL, "dropout: expected a rate below 1, found 1");
        return NULL;
    }
    if (rate == 0) return ev_tensor(ev, x);
    IrAttr attrs[] = {ir_af("rate", rate), ir_ai("key", names_key(ev, "dropout"))};
    return ev_tensor(ev, ev_op_attrs(ev, OP_DROPOUT, x, 2, attrs));
}

/* ---- for the layer library ---- */

/* A number becomes one value a channel. */
static IrNode *by_channel(Ev *ev, Call *c, int i, int64_t channels) {
    if (c->args[i].v->kind != V_NUMBER) return arg_f32(ev, c, i);
    IrAttr attrs[] = {ir_afl(ev->a, "value", &c->args[i].v->number, 1), ir_ail(ev->a, "shape", &channels, 1)};
    return ir_build(&ev->b, OP_CONST, 0, NULL, 2, attrs);
}

/* _batchnorm(x, gamma, beta, mean, variance, eps, momentum) */
static Value *batchnorm(Ev *ev, Call *c) {
    double eps = 0, momentum = 0;
    IrNode *x = arg_f32(ev, c, 0);
    if (!arg_range(ev, c, 5, 0, INFINITY, &eps) || !arg_range(ev, c, 6, 0, 1, &momentum) || !x) return NULL;
    if (x->type.live < LIVE_ROW) {
        ev_error(ev, c->args[0].span, NULL, "expected a value that differs from row to row, found %s",
                 ev_shape(ev, x));
        return NULL;
    }
    IrNode *in[5] = {x};
    for (int i = 1; i < 5; i++) in[i] = by_channel(ev, c, i, ir_type_width(x->type));
    IrAttr attrs[] = {ir_af("eps", eps), ir_af("momentum", momentum)};
    return ev_tensor(ev, ir_build(&ev->b, OP_BATCHNORM, 5, in, 2, attrs));
}

const Builtin builtins_tensor[] = {
    {"relu", "x", relu},
    {"sigmoid", "x", sigmoid},
    {"tanh", "x", tanh_},
    {"softplus", "x", softplus},
    {"erf", "x", erf_},
    {"exp", "x", exp_},
    {"log", "x", log_},
    {"log1p", "x", log1p_},
    {"sqrt", "x", sqrt_},
    {"abs", "x", abs_},
    {"square", "x", square},
    {"stop_gradient", "x", stop_gradient},
    {"leaky_relu", "x slope?", leaky_relu},
    {"clip", "x lo hi", clip},
    {"softmax", "x axis?", softmax},
    {"dropout", "x rate", dropout},
    {"_batchnorm", "x gamma beta mean variance eps momentum", batchnorm},
    {0},
};
