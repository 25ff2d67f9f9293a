/* What the losses of the layer library are made of; and metrics, which stand in lines of their own. */
#include "frontend/value.h"

/* _label(y): a label that must lie in [0, 1]; as a tensor. */
static Value *label(Ev *ev, Call *c) {
    const Value *v = c->args[0].v;
    if (v->kind == V_COLUMN) ev_unit_label(ev, v->column);
    return ev_tensor(ev, arg_scalar(ev, c, 0));
}

void ev_unit_label(Ev *ev, int column) {
    IrColumn *col = &ev->p->input.columns[column];
    if (col->kind == COL_LABEL) col->unit_label = true;
}

/* _scalar(x): f32[1] a row, or an error that says so */
static Value *scalar(Ev *ev, Call *c) { return ev_tensor(ev, arg_scalar(ev, c, 0)); }

bool ev_no_probability(const IrNode *n) {
    for (;;) switch (n->op) {
        case OP_MATMUL: /* what a dense layer gives */
        case OP_LOG:
        case OP_LOG1P:
        case OP_TANH:
        case OP_RELU:
        case OP_LEAKYRELU:
        case OP_SOFTPLUS: return true;
        case OP_ADD: /* the bias of a dense layer; of two probabilities it may be a mixture */
            if (ev_no_probability(n->in[0])) return true;
            n = n->in[1];
            break;
        case OP_NEG: /* sums and gathered values keep what they are made of */
        case OP_SLICE:
        case OP_RESHAPE:
        case OP_STOPGRAD: n = n->in[0]; break;
        default: return false;
        }
}

/* _probability(p): says where bce has no gradient, or that it is given no probability. */
static Value *probability(Ev *ev, Call *c) {
    IrNode *p = arg_scalar(ev, c, 0);
    if (p && p->op == OP_SIGMOID)
        ev_warn(ev, c->args[0].span,
                "bce_logits(z, y) takes what goes into the sigmoid and has no such limit",
                "bce clips the prediction to [1e-7, 1 - 1e-7] and has no gradient outside");
    if (p && ev_no_probability(p))
        ev_warn(ev, c->args[0].span,
                "bce_logits(z, y) takes it as it is; sigmoid(z) makes a probability of it",
                "bce takes a probability, but this value may lie outside [0, 1]");
    return ev_tensor(ev, p);
}

static Value *bce_logits(Ev *ev, Call *c) {
    IrNode *z = arg_scalar(ev, c, 0), *y = arg_scalar(ev, c, 1);
    if (z && z->op == OP_SIGMOID)
        ev_warn(ev, c->args[0].span, "give it what goes into the sigmoid, or a probability to bce(p, y)",
                "bce_logits applies the sigmoid itself, but this value is a sigmoid's already");
    return ev_tensor(ev, ev_elementwise(ev, OP_BCELOGITS, z, y, c->span));
}

/* _weight(w): f32[1] a row that no trained weight influences. */
static Value *row_weight(Ev *ev, Call *c) {
    IrNode *w = arg_scalar(ev, c, 0), *found = NULL;
    if (!w || !ev_depends(ev, w, ev_is_trained, &found)) return ev_tensor(ev, w);
    ev_error(ev, c->args[0].span,
             "stop_gradient doesn't help: a weight that training changes would change what is trained for",
             "a loss's weight must not depend on trained weights, but '%s' influences it",
             ev->p->weights[ir_attr_i(found, "w")].name);
    return NULL;
}

static Value *metric(Ev *ev, Call *c) {
    ev_error(ev, c->span, arena_printf(ev->a, "metric %s(prediction, label)", c->of->name),
             "'%s' is a metric and no value", c->of->name);
    return NULL;
}

const Builtin builtins_loss[] = {
    {"_label", "y", label},
    {"_scalar", "x", scalar},
    {"_probability", "p", probability},
    {"_bce_logits", "z y", bce_logits},
    {"_weight", "w", row_weight},
    {"auc", "p y where? by?", metric},
    {"gauc", "p y by where?", metric},
    {"logloss", "p y where? by?", metric},
    {"pcoc", "p y where? by?", metric},
    {"accuracy", "p y where? by?", metric},
    {0},
};
