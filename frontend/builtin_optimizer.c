/* Optimizers and learning rates that change with the number of updates. */
#include "frontend/value.h"
#include <math.h>

/* ---- schedules ---- */

static Value *schedule(Ev *ev, IrSched s) {
    Value *v = ARENA_NEW(ev->a, Value);
    v->kind = V_SCHEDULE;
    IrSched *kept = ARENA_NEW(ev->a, IrSched);
    *kept = s;
    v->schedule = kept;
    return v;
}

static bool positive(Ev *ev, const Call *c, int i, double *out) {
    if (!c->args[i].v) return true;
    if (!arg_number(ev, c, i, out)) return false;
    if (*out > 0 && isfinite(*out)) return true;
    ev_error(ev, c->args[i].span, NULL, "%s: expected a positive number as '%s', found %s", c->of->name,
             arg_name(ev, c, i), ev_describe(ev, c->args[i].v));
    return false;
}

static bool rate_of(Ev *ev, const Call *c, int i, IrSched *out) {
    const Value *v = c->args[i].v;
    if (v->kind == V_SCHEDULE) {
        *out = *v->schedule;
        return true;
    }
    if (v->kind == V_NUMBER) {
        out->kind = SCHED_CONST;
        return positive(ev, c, i, &out->lr);
    }
    ev_error(ev, c->args[i].span, NULL, "%s: expected a number or a schedule as '%s', found %s", c->of->name,
             arg_name(ev, c, i), ev_describe(ev, v));
    return false;
}

static Value *exponential(Ev *ev, Call *c) {
    IrSched s = {.kind = SCHED_EXPONENTIAL};
    return positive(ev, c, 0, &s.lr) && positive(ev, c, 1, &s.rate) && positive(ev, c, 2, &s.every)
               ? schedule(ev, s)
               : NULL;
}

static Value *cosine(Ev *ev, Call *c) {
    IrSched s = {.kind = SCHED_COSINE};
    return positive(ev, c, 0, &s.lr) && positive(ev, c, 1, &s.steps) &&
                   arg_range(ev, c, 2, 0, INFINITY, &s.end)
               ? schedule(ev, s)
               : NULL;
}

static Value *piecewise(Ev *ev, Call *c) {
    IrSched s = {.kind = SCHED_PIECEWISE};
    int n;
    if (!arg_numbers(ev, c, 0, &s.at, &s.n) || !arg_numbers(ev, c, 1, &s.values, &n)) return NULL;
    if (n != s.n + 1) {
        ev_error(ev, c->span, NULL,
                 "piecewise: expected one value more than steps, found %d steps and %d values", s.n, n);
        return NULL;
    }
    for (int i = 0; i < s.n; i++)
        if (!(s.at[i] > (i ? s.at[i - 1] : 0))) {
            ev_error(ev, c->args[0].span, NULL, "piecewise: expected rising, positive steps, found %s",
                     ev_number_text(ev, s.at[i]));
            return NULL;
        }
    for (int i = 0; i < n; i++)
        if (!(s.values[i] > 0)) {
            ev_error(ev, c->args[1].span, NULL, "piecewise: expected positive values, found %s",
                     ev_number_text(ev, s.values[i]));
            return NULL;
        }
    return schedule(ev, s);
}

static Value *warmup(Ev *ev, Call *c) {
    IrSched s = {.kind = SCHED_WARMUP, .then = ARENA_NEW(ev->a, IrSched)};
    return positive(ev, c, 0, &s.steps) && rate_of(ev, c, 1, s.then) ? schedule(ev, s) : NULL;
}

/* ---- optimizers: lr, clip_norm and l2 are parameters 0 to 2 of each ---- */

static Value *finish(Ev *ev, Call *c, IrOptimizer o, bool right) {
    bool l2 = o.kind == OPT_FTRL || arg_range(ev, c, 2, 0, INFINITY, &o.l2);
    if (!right || !rate_of(ev, c, 0, &o.lr) || !arg_range(ev, c, 1, 0, INFINITY, &o.clip_norm) || !l2)
        return NULL;
    o.span = ev_user_span(ev, c->span);
    Value *v = ARENA_NEW(ev->a, Value);
    v->kind = V_OPTIMIZER;
    IrOptimizer *kept = ARENA_NEW(ev->a, IrOptimizer);
    *kept = o;
    v->optimizer = kept;
    return v;
}

static bool below_one(Ev *ev, const Call *c, int i, double *out) {
    if (!arg_range(ev, c, i, 0, 1, out)) return false;
    if (*out < 1) return true;
    ev_error(ev, c->args[i].span, NULL, "%s: expected '%s' below 1, found 1", c->of->name,
             arg_name(ev, c, i));
    return false;
}

static Value *sgd(Ev *ev, Call *c) { return finish(ev, c, (IrOptimizer){.kind = OPT_SGD}, true); }

static Value *momentum(Ev *ev, Call *c) {
    IrOptimizer o = {.kind = OPT_MOMENTUM, .momentum = 0.9};
    return finish(ev, c, o, below_one(ev, c, 3, &o.momentum));
}

static Value *adagrad(Ev *ev, Call *c) {
    IrOptimizer o = {.kind = OPT_ADAGRAD, .init = 0.1};
    bool right = positive(ev, c, 3, &o.init);
    return finish(ev, c, o, right);
}

static Value *adagrad_decay(Ev *ev, Call *c) {
    IrOptimizer o = {.kind = OPT_ADAGRAD_DECAY, .init = 0.1, .every = 100000, .rate = 0.9};
    int64_t every = 100000;
    bool right = positive(ev, c, 3, &o.init) && arg_whole(ev, c, 4, 1, INT64_MAX, &every) &&
                 positive(ev, c, 5, &o.rate);
    o.every = (double)every;
    if (right && o.rate > 1) {
        ev_error(ev, c->args[5].span, NULL, "adagrad_decay: expected a rate of at most 1, found %s",
                 ev_number_text(ev, o.rate));
        right = false;
    }
    return finish(ev, c, o, right);
}

static Value *rmsprop(Ev *ev, Call *c) {
    IrOptimizer o = {.kind = OPT_RMSPROP, .rho = 0.9, .eps = 1e-10};
    bool right = below_one(ev, c, 3, &o.rho) && positive(ev, c, 4, &o.eps);
    return finish(ev, c, o, right);
}

static Value *adam_like(Ev *ev, Call *c, IrOptKind kind) {
    IrOptimizer o = {.kind = kind, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    bool right = below_one(ev, c, 3, &o.beta1) && below_one(ev, c, 4, &o.beta2) &&
                 positive(ev, c, 5, &o.eps) && (kind != OPT_ADAM || arg_bool(ev, c, 6, &o.exact));
    return finish(ev, c, o, right);
}

static Value *adam(Ev *ev, Call *c) { return adam_like(ev, c, OPT_ADAM); }
static Value *adam_async(Ev *ev, Call *c) { return adam_like(ev, c, OPT_ADAM_ASYNC); }

/* ftrl's l2 is its own: it shrinks the weight, not the gradient. */
static Value *ftrl(Ev *ev, Call *c) {
    IrOptimizer o = {.kind = OPT_FTRL, .init = 0.1};
    bool right = arg_range(ev, c, 2, 0, INFINITY, &o.l2_ftrl) &&
                 arg_range(ev, c, 3, 0, INFINITY, &o.l1_ftrl) && positive(ev, c, 4, &o.init);
    return finish(ev, c, o, right);
}

const Builtin builtins_optimizer[] = {
    {"exponential", "lr rate every", exponential},
    {"cosine", "lr steps end?", cosine},
    {"piecewise", "steps values", piecewise},
    {"warmup", "steps lr", warmup},
    {"sgd", "lr clip_norm? l2?", sgd},
    {"momentum", "lr clip_norm? l2? m?", momentum},
    {"adagrad", "lr clip_norm? l2? init?", adagrad},
    {"adagrad_decay", "lr clip_norm? l2? init? every? rate?", adagrad_decay},
    {"rmsprop", "lr clip_norm? l2? rho? eps?", rmsprop},
    {"adam", "lr clip_norm? l2? beta1? beta2? eps? exact?", adam},
    {"adam_async", "lr clip_norm? l2? beta1? beta2? eps?", adam_async},
    {"ftrl", "lr clip_norm? l2? l1? init?", ftrl},
    {0},
};
