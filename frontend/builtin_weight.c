/* weight, table, and running statistics. */
#include "frontend/value.h"
#include <math.h>
#include <string.h>

#define MAX_ELEMENTS ((int64_t)1 << 40)
#define MAX_ROWS 4294967294LL

/* ---- inside shared(f) ---- */

static bool same_weight(const IrWeight *a, const IrWeight *b) {
    bool same = a->rank == b->rank && a->table == b->table && a->running == b->running;
    for (int i = 0; same && i < a->rank; i++) same = a->dim[i] == b->dim[i];
    return same;
}

static const char *sizes_text(Ev *ev, const IrWeight *w) {
    const char *s = "";
    for (int i = 0; i < w->rank; i++)
        s = arena_printf(ev->a, "%s%s%lld", s, i ? ", " : "", (long long)w->dim[i]);
    return arena_printf(ev->a, "[%s]", s);
}

static int weight_of(const Value *v) {
    return v->kind == V_TABLE ? v->table.weight : (int)ir_attr_i(v->tensor.node, "w");
}

/* The weight that an earlier call of a running shared layer made at this very place; the innermost one
 * counts. */
static Value *made_before(Ev *ev, const Call *c, const IrWeight *w, bool *wrong) {
    for (const Part *p = ev->part; p; p = p->up) {
        if (p->kind != PART_SHARED) continue;
        Value *v = strmap_get(&p->shared->made, names_shared_key(ev, p, c->site));
        if (!v) continue;
        const IrWeight *old = &ev->p->weights[weight_of(v)];
        if (same_weight(old, w)) {
            names_reuse(ev, old->name);
            return v;
        }
        ev_error(ev, c->span, NULL, "weight '%s' of a shared layer has sizes %s in an earlier call, %s here",
                 old->name, sizes_text(ev, old), sizes_text(ev, w));
        *wrong = true;
        return NULL;
    }
    return NULL;
}

static void remember(Ev *ev, const Call *c, Value *v) {
    for (const Part *p = ev->part; p; p = p->up)
        if (p->kind == PART_SHARED) strmap_put(ev->a, &p->shared->made, names_shared_key(ev, p, c->site), v);
}

/* ---- making ---- */

static Value *weight_value(Ev *ev, int index, bool table) {
    IrAttr attr = {.key = "w", .kind = 'w', .i = index};
    IrNode *node = ir_build(&ev->b, OP_WEIGHT, 0, NULL, 1, &attr);
    if (!node) return NULL;
    if (!table) return ev_tensor(ev, node);
    Value *v = ARENA_NEW(ev->a, Value);
    v->kind = V_TABLE;
    v->table.weight = index;
    v->table.node = node;
    return v;
}

Value *ev_make_weight(Ev *ev, const Call *c, IrWeight w, bool told, const IrOptimizer *own) {
    bool wrong = false;
    Value *v = made_before(ev, c, &w, &wrong);
    if (!v && !wrong) {
        IrProgram *p = ev->p;
        w.name = names_weight(ev);
        w.span = ev_user_span(ev, c->span);
        w.optimizer = w.own_optimizer = -1;
        ARENA_PUSH(ev->a, p->weights, p->n_weights, p->cap_weights, w);
        ARENA_PUSH(ev->a, ev->notes, ev->n_notes, ev->cap_notes, ((WeightNote){told, own}));
        ev_at(ev, c->span);
        v = weight_value(ev, p->n_weights - 1, w.table);
    }
    if (v) remember(ev, c, v);
    return v;
}

static bool initial(Ev *ev, const Call *c, int i, IrWeight *w, bool *told) {
    static const char *const words[] = {
        "zeros",   "ones",           "constant",      "normal",   "truncated_normal",
        "uniform", "glorot_uniform", "glorot_normal", "he_normal"};
    const Value *v = c->args[i].v;
    *told = v != NULL && !(v->kind == V_WORD && v->word.by_default);
    if (!v) return true;
    const char *text = arg_word(ev, c, i, words, 9);
    if (!text) return false;
    for (int k = 0; k < 9; k++)
        if (words[k] == text) w->init = (IrInit)k;
    w->init_arg = v->word.has_arg ? v->word.arg : 0;
    bool needs = w->init == INIT_CONSTANT || w->init == INIT_NORMAL || w->init == INIT_TRUNCATED_NORMAL ||
                 w->init == INIT_UNIFORM;
    if (!needs || v->word.has_arg) return true;
    ev_error(ev, c->args[i].span, NULL, "'%s' needs its number: %s(0.1)", text, text);
    return false;
}

static bool sizes(Ev *ev, const Call *c, IrWeight *w) {
    double *xs;
    int n;
    if (!arg_numbers(ev, c, 0, &xs, &n)) return false;
    if (n < 1 || n > IR_MAX_RANK) {
        ev_error(ev, c->args[0].span, NULL, "weight: expected 1 to %d sizes, found %d", IR_MAX_RANK, n);
        return false;
    }
    int64_t total = 1;
    for (int i = 0; i < n; i++) {
        if (!ev_whole(xs[i], &w->dim[i]) || w->dim[i] < 1) {
            ev_error(ev, c->args[0].span, NULL, "weight: expected whole, positive sizes, found %s",
                     ev_number_text(ev, xs[i]));
            return false;
        }
        if (w->dim[i] > MAX_ELEMENTS / total) {
            ev_error(ev, c->args[0].span, NULL, "weight: more than 2^40 elements");
            return false;
        }
        total *= w->dim[i];
    }
    w->rank = n;
    return true;
}

static Value *weight(Ev *ev, Call *c) {
    IrWeight w = {.init = INIT_GLOROT_UNIFORM, .trainable = true};
    bool told;
    if (!sizes(ev, c, &w) || !initial(ev, c, 1, &w, &told) || !arg_bool(ev, c, 2, &w.trainable)) return NULL;
    return ev_make_weight(ev, c, w, told, NULL);
}

static Value *table(Ev *ev, Call *c) {
    IrWeight w = {.init = INIT_TRUNCATED_NORMAL, .trainable = true, .table = true, .rank = 2};
    bool told;
    if (!arg_whole(ev, c, 0, 1, MAX_ROWS, &w.dim[0]) || !arg_whole(ev, c, 1, 1, 1 << 20, &w.dim[1]))
        return NULL;
    w.init_arg = 1 / sqrt((double)w.dim[1]);
    if (!initial(ev, c, 2, &w, &told)) return NULL;
    const IrOptimizer *own = NULL;
    const Value *o = c->args[3].v;
    if (o && o->kind != V_OPTIMIZER && o->kind != V_NONE) {
        ev_error(ev, c->args[3].span, NULL,
                 "table: expected an optimizer such as adagrad(lr = 0.1), found %s", ev_describe(ev, o));
        return NULL;
    }
    if (o && o->kind == V_OPTIMIZER) own = o->optimizer;
    return ev_make_weight(ev, c, w, told, own);
}

/* _running(size, start): a statistic that training keeps and no optimizer touches. */
static Value *running(Ev *ev, Call *c) {
    IrWeight w = {.init = INIT_ZEROS, .running = true, .rank = 1};
    double start = 0;
    if (!arg_whole(ev, c, 0, 1, MAX_ROWS, &w.dim[0]) || !arg_number(ev, c, 1, &start)) return NULL;
    if (start != 0) w.init = INIT_ONES;
    return ev_make_weight(ev, c, w, true, NULL);
}

const Builtin builtins_weight[] = {
    {"weight", "sizes init? trainable?", weight},
    {"table", "rows dim init? optimizer?", table},
    {"_running", "size start", running},
    {0},
};
