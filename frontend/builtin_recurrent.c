/* What the recurrent layers of the layer library are made of: checks of their arguments, and the ops that run
 * along a list. */
#include "frontend/value.h"

enum { MOST_UNITS = 1 << 20 };

/* _sequence(x): f32[~h,k] */
static Value *sequence(Ev *ev, Call *c) {
    IrNode *x = arg_f32(ev, c, 0);
    if (!x || (ev_is_list(x) && x->type.rank == 1)) return ev_tensor(ev, x);
    ev_error(ev, c->args[0].span, NULL, "expected one vector for each position of a list, found %s",
             ev_shape(ev, x));
    return NULL;
}

/* _units(n) */
static Value *units(Ev *ev, Call *c) {
    int64_t n = 0;
    return arg_whole(ev, c, 0, 1, MOST_UNITS, &n) ? ev_number(ev, (double)n) : NULL;
}

/* _scores(a, x): f32[~h,1], one for each position of x */
static Value *scores(Ev *ev, Call *c) {
    IrNode *a = arg_f32(ev, c, 0), *x = arg_f32(ev, c, 1);
    if (!a || !x) return NULL;
    if (ev_is_list(a) && a->type.axis == x->type.axis && a->type.rank == 1 && a->type.dim[0] == 1)
        return ev_tensor(ev, a);
    IrType wanted = ir_f32(LIVE_POS, x->type.axis, 1, (int64_t[]){1});
    ev_error(ev, c->args[0].span, NULL, "expected scores %s, one for each position of %s, found %s",
             ir_type_text(ev->p, wanted), ev_shape(ev, x), ev_shape(ev, a));
    return NULL;
}

/* _gru(p, gates, candidate, scores): p is x's part of the products, with the biases; gates and candidate are
 * the rows of the kernels that are for the state; scores none: gru, else augru. Of the record of each
 * position only the state is shown. */
static Value *gru(Ev *ev, Call *c) {
    bool scored = c->args[3].v->kind != V_NONE;
    IrNode *in[4];
    for (int i = 0; i < 3 + scored; i++)
        if (!(in[i] = arg_f32(ev, c, i))) return NULL;
    IrNode *record = ir_build(&ev->b, scored ? OP_AUGRU : OP_GRU, 3 + scored, in, 0, NULL);
    IrAttr state[] = {ir_ai("axis", 0), ir_ai("begin", 0), ir_ai("end", ir_type_width(in[2]->type))};
    return ev_tensor(ev, ev_op_attrs(ev, OP_SLICE, record, 3, state));
}

/* _sru(f, v) */
static Value *sru(Ev *ev, Call *c) {
    IrNode *f = arg_f32(ev, c, 0), *v = arg_f32(ev, c, 1);
    return f && v ? ev_tensor(ev, ir_build2(&ev->b, OP_SRU, f, v)) : NULL;
}

const Builtin builtins_recurrent[] = {
    {"_sequence", "x", sequence}, {"_units", "n", units},
    {"_scores", "a x", scores},   {"_gru", "p gates candidate scores", gru},
    {"_sru", "f v", sru},         {0},
};
