/* Statements. A mistake poisons what its statement binds and evaluation goes on with the next one. */
#include "frontend/value.h"
#include <string.h>

static Flow exec(Ev *ev, Scope *s, const AstStmt *st, bool top, Value **returned);

Flow ev_block(Ev *ev, Scope *s, const AstBlock *b, bool top, Value **returned) {
    for (int i = 0; i < b->n; i++) {
        Flow flow = exec(ev, s, b->stmts[i], top, returned);
        if (flow != FLOW_NEXT) return flow;
    }
    return FLOW_NEXT;
}

/* ---- binding ---- */

Value *ev_bound_value(Ev *ev, Scope *s, const AstExpr *e, const char *name, bool top) {
    const char *outer = ev->here.bound;
    Part *part = NULL;
    ev->here.bound = top ? NULL : name;
    if (top) part = names_push(ev, PART_TOP, name, e, 0);
    Value *v = ev_expr(ev, s, e);
    if (part) names_pop(ev, part);
    ev->here.bound = outer;
    return v;
}

/* A table is bound for good by the statement that makes it; other names for it are plain values. */
static BindKind kind_of(const Value *v, int n_weights) {
    return v && v->kind == V_TABLE && v->table.weight >= n_weights ? BIND_TABLE : BIND_VALUE;
}

static void bind(Ev *ev, Scope *s, const AstStmt *st, bool top) {
    int n_weights = ev->p->n_weights;
    Value *v = ev_bound_value(ev, s, st->value, st->name, top);
    scope_bind(ev, s, st->name, v, kind_of(v, n_weights), st->name_span, st);
}

static void unpack_items(Ev *ev, Scope *s, const AstStmt *st, bool top) {
    AstExpr *list = st->unpack.value;
    for (int i = 0; i < st->unpack.n; i++) {
        int n_weights = ev->p->n_weights;
        Value *v = ev_bound_value(ev, s, list->list.items[i], st->unpack.names[i], top);
        scope_bind(ev, s, st->unpack.names[i], v, kind_of(v, n_weights), st->unpack.spans[i], st);
    }
}

/* `a, b = [x, y]` binds member by member, so that each has its own path; but `a, b = [b, a]` swaps. */
static bool mentions(const AstStmt *st, const AstExpr *e) {
    switch (e->kind) {
    case EX_NAME:
        for (int i = 0; i < st->unpack.n; i++)
            if (strcmp(st->unpack.names[i], e->name) == 0) return true;
        return false;
    case EX_NUMBER:
    case EX_STRING:
    case EX_BOOL:
    case EX_NONE: return false;
    case EX_LIST:
        for (int i = 0; i < e->list.n; i++)
            if (mentions(st, e->list.items[i])) return true;
        return false;
    case EX_CALL:
        for (int i = 0; i < e->call.n_args; i++)
            if (mentions(st, e->call.args[i].value)) return true;
        return mentions(st, e->call.callee);
    case EX_INDEX: return mentions(st, e->index.of) || mentions(st, e->index.at);
    case EX_UNARY:
    case EX_BINARY: return mentions(st, e->op.a) || mentions(st, e->op.b);
    case EX_PIPE: return mentions(st, e->pipe.value) || mentions(st, e->pipe.into);
    case EX_COMPREHENSION: return true;
    }
    return true;
}

static void unpack(Ev *ev, Scope *s, const AstStmt *st, bool top) {
    const AstExpr *e = st->unpack.value;
    int n = st->unpack.n;
    if (e->kind == EX_LIST && e->list.n == n && !mentions(st, e)) {
        unpack_items(ev, s, st, top);
        return;
    }
    Value *v = ev_bound_value(ev, s, e, st->unpack.names[0], top);
    if (v && (v->kind != V_LIST || v->list.n != n)) {
        ev_error(ev, e->span, NULL, "expected a list of %d to unpack, found %s", n, ev_describe(ev, v));
        v = NULL;
    }
    for (int i = 0; i < n; i++)
        scope_bind(ev, s, st->unpack.names[i], v ? v->list.items[i] : NULL, BIND_VALUE, st->unpack.spans[i],
                   st);
}

/* ---- choice and repetition ---- */

static Flow branch(Ev *ev, Scope *s, const AstStmt *st, bool top, Value **returned) {
    const AstExpr *cond = st->branch.cond;
    Value *v = ev_expr(ev, s, cond);
    if (!v) return FLOW_NEXT;
    if (v->kind != V_BOOL) {
        const char *hint = v->kind == V_TENSOR ? "`if` chooses while the model is built; a row's choice is "
                                                 "arithmetic, such as c * a + (1 - c) * b"
                                               : NULL;
        ev_error(ev, cond->span, hint, "expected true or false, found %s", ev_describe(ev, v));
        return FLOW_NEXT;
    }
    if (v->boolean) return ev_block(ev, s, &st->branch.then, top, returned);
    return st->branch.has_else ? ev_block(ev, s, &st->branch.other, top, returned) : FLOW_NEXT;
}

static Flow loop(Ev *ev, Scope *s, const AstStmt *st, bool top, Value **returned) {
    Value *v = ev_expr(ev, s, st->loop.in);
    if (!v) return FLOW_NEXT;
    if (v->kind != V_LIST) {
        ev_error(ev, st->loop.in->span,
                 v->kind == V_NUMBER ? "[n] is a list of one, range(n) the list 0 … n-1" : NULL,
                 "expected a list, found %s", ev_describe(ev, v));
        return FLOW_NEXT;
    }
    for (int i = 0; i < v->list.n; i++) {
        Value *item = v->list.items[i];
        if (!ev_step(ev, st->span, 1)) return FLOW_STOP;
        if (!scope_bind(ev, s, st->loop.var, item, BIND_VALUE, st->loop.var_span, NULL)) return FLOW_NEXT;
        Part *part = names_push(ev, PART_LOOP, names_loop_text(ev, item, i), st, i);
        Flow flow = ev_block(ev, s, &st->loop.body, top, returned);
        names_pop(ev, part);
        if (flow != FLOW_NEXT) return flow;
    }
    return FLOW_NEXT;
}

/* ---- the rest ---- */

static Flow give_back(Ev *ev, Scope *s, const AstStmt *st, bool top, Value **returned) {
    if (top) {
        ev_error(ev, st->span, NULL, "`return` outside a layer");
        return FLOW_NEXT;
    }
    const char *outer = ev->here.bound;
    ev->here.bound = NULL;
    *returned = st->value ? ev_expr(ev, s, st->value) : ev_none(ev);
    ev->here.bound = outer;
    return FLOW_RETURN;
}

static void define_layer(Ev *ev, Scope *s, const AstStmt *st) {
    for (int i = 0; i < st->layer.n_params; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(st->layer.params[i].name, st->layer.params[k].name) == 0)
                ev_error(ev, st->layer.params[i].span, NULL, "layer '%s' has two arguments '%s'", st->name,
                         st->layer.params[i].name);
    Value *v = ARENA_NEW(ev->a, Value);
    v->kind = V_LAYER;
    v->layer.decl = st;
    v->layer.scope = s;
    scope_bind(ev, s, st->name, v, BIND_LAYER, st->name_span, st);
}

static void model(Ev *ev, const AstStmt *st) {
    if (ev->model_stmt) {
        ev_error(ev, st->span, NULL, "a second `model`");
        diag_note(ev->d, ev->model_stmt->span, "the first one");
        return;
    }
    ev->model_stmt = st;
    ev->p->name = st->name;
}

static void discard(Ev *ev, Scope *s, const AstStmt *st, bool top) {
    Value *v = ev_bound_value(ev, s, st->value, "", top);
    if (v)
        ev_warn(ev, st->span, "bind it to a name, or begin the line with `loss`, `metric` or `predict`",
                "this value is never used");
}

/* Statements that only the file's top level may hold, loops and choices there included. */
static const char *top_level_word(AstStmtKind k) {
    switch (k) {
    case ST_MODEL: return "model";
    case ST_PARAM: return "param";
    case ST_INPUT: return "input";
    case ST_IMPORT: return "import";
    case ST_PREDICT: return "predict";
    case ST_LOSS: return "loss";
    case ST_METRIC: return "metric";
    case ST_OPTIMIZER: return "optimizer";
    case ST_TRAIN: return "train";
    case ST_ENABLE: return "enable";
    default: return NULL;
    }
}

static bool of_main_file(AstStmtKind k) {
    return k == ST_MODEL || k == ST_PREDICT || k == ST_LOSS || k == ST_METRIC || k == ST_OPTIMIZER ||
           k == ST_TRAIN;
}

static bool allowed(Ev *ev, const AstStmt *st, bool top) {
    const char *word = top_level_word(st->kind);
    if (!word) return true;
    if (st->kind == ST_ENABLE && !st->enable.on) word = "disable";
    if (!top) {
        ev_error(ev, st->span, NULL, "`%s` inside a layer: it belongs to the file's top level", word);
        return false;
    }
    if (of_main_file(st->kind) && st->span.file != ev->main_file) {
        ev_error(ev, st->span, NULL, "`%s` in an imported file: it belongs to the model's own file", word);
        return false;
    }
    return true;
}

static Flow exec(Ev *ev, Scope *s, const AstStmt *st, bool top, Value **returned) {
    if (!ev_step(ev, st->span, 1)) return FLOW_STOP;
    if (!allowed(ev, st, top)) return FLOW_NEXT;
    switch (st->kind) {
    case ST_MODEL: model(ev, st); break;
    case ST_PARAM: ev_param(ev, s, st); break;
    case ST_INPUT: ev_input(ev, s, st); break;
    case ST_IMPORT: ev_import(ev, s, st); break;
    case ST_LAYER: define_layer(ev, s, st); break;
    case ST_BIND: bind(ev, s, st, top); break;
    case ST_UNPACK: unpack(ev, s, st, top); break;
    case ST_FOR: return loop(ev, s, st, top, returned);
    case ST_IF: return branch(ev, s, st, top, returned);
    case ST_RETURN: return give_back(ev, s, st, top, returned);
    case ST_PREDICT: ev_predict(ev, s, st); break;
    case ST_LOSS: ev_loss(ev, s, st); break;
    case ST_METRIC: ev_metric(ev, s, st); break;
    case ST_OPTIMIZER: ev_optimizer(ev, s, st); break;
    case ST_TRAIN: ev_train(ev, s, st); break;
    case ST_ENABLE: ev_enable(ev, s, st); break;
    case ST_EXPR: discard(ev, s, st, top); break;
    }
    return ev->stop ? FLOW_STOP : FLOW_NEXT;
}
