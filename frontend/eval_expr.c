/* Expressions, but for calls (eval_call.c) and operators (eval_op.c). */
#include "frontend/value.h"

static Value *list(Ev *ev, Scope *s, const AstExpr *e) {
    Value **items = ARENA_ARRAY(ev->a, Value *, e->list.n + 1);
    bool whole = true;
    for (int i = 0; i < e->list.n; i++) {
        items[i] = ev_expr(ev, s, e->list.items[i]);
        whole &= items[i] != NULL;
    }
    return whole ? ev_list(ev, items, e->list.n) : NULL;
}

/* ---- comprehensions ---- */

typedef struct {
    Value **items;
    int n, cap;
    bool whole;
} Collected;

static bool holds(Ev *ev, Scope *s, const AstExpr *cond, Collected *out) {
    if (!cond) return true;
    Value *v = ev_expr(ev, s, cond);
    if (!v) out->whole = false;
    if (v && v->kind != V_BOOL) {
        ev_error(ev, cond->span, NULL, "expected true or false, found %s", ev_describe(ev, v));
        out->whole = false;
    }
    return v && v->kind == V_BOOL && v->boolean;
}

/* Each turn has a scope of its own, so the variable hides a column of its name and the layers made see their
 * turn's. */
static void collect(Ev *ev, Scope *s, const AstExpr *e, int depth, Collected *out) {
    if (depth == e->comp.n_fors) {
        Value *v = ev_expr(ev, s, e->comp.value);
        if (v)
            ARENA_PUSH(ev->a, out->items, out->n, out->cap, v);
        else
            out->whole = false;
        return;
    }
    const AstFor *f = &e->comp.fors[depth];
    Value *in = ev_expr(ev, s, f->in);
    if (!in || in->kind != V_LIST) {
        if (in)
            ev_error(ev, f->in->span,
                     in->kind == V_NUMBER ? "[n] is a list of one, range(n) the list 0 … n-1" : NULL,
                     "expected a list, found %s", ev_describe(ev, in));
        out->whole = false;
        return;
    }
    for (int i = 0; i < in->list.n && ev_step(ev, f->var_span, 1); i++) {
        Value *item = in->list.items[i];
        Scope *turn = scope_new(ev, s);
        scope_bind(ev, turn, f->var, item, BIND_VALUE, f->var_span, NULL);
        Part *part = names_push(ev, PART_LOOP, names_loop_text(ev, item, i), f, i);
        if (holds(ev, turn, f->cond, out)) collect(ev, turn, e, depth + 1, out);
        names_pop(ev, part);
    }
}

static Value *comprehension(Ev *ev, Scope *s, const AstExpr *e) {
    Collected c = {.whole = true};
    collect(ev, s, e, 0, &c);
    return c.whole && !ev->stop ? ev_list(ev, c.items, c.n) : NULL;
}

/* ---- index ---- */

static Value *item_at(Ev *ev, Scope *s, const AstExpr *e) {
    Value *of = ev_expr(ev, s, e->index.of), *at = ev_expr(ev, s, e->index.at);
    if (!of || !at) return NULL;
    if (of->kind != V_LIST) {
        const char *hint = of->kind == V_TENSOR ? "slice(x, begin, end) takes a part of a tensor" : NULL;
        ev_error(ev, e->index.of->span, hint, "expected a list to index, found %s", ev_describe(ev, of));
        return NULL;
    }
    int64_t i;
    if (at->kind != V_NUMBER || !ev_whole(at->number, &i)) {
        ev_error(ev, e->index.at->span, NULL, "expected a whole number as index, found %s",
                 ev_describe(ev, at));
        return NULL;
    }
    if (i < 0 || i >= of->list.n) {
        if (of->list.n)
            ev_error(ev, e->index.at->span, NULL, "expected an index from 0 to %d, found %lld",
                     of->list.n - 1, (long long)i);
        else
            ev_error(ev, e->index.at->span, NULL, "index into an empty list");
        return NULL;
    }
    return of->list.items[i];
}

/* ---- and, or ---- */

static bool truth(Ev *ev, Scope *s, const AstExpr *e, bool *out) {
    Value *v = ev_expr(ev, s, e);
    if (!v) return false;
    if (v->kind == V_BOOL) {
        *out = v->boolean;
        return true;
    }
    const char *hint = v->kind == V_TENSOR ? "of 0s and 1s, a * b is `and`, 1 - a is `not`" : NULL;
    ev_error(ev, e->span, hint, "expected true or false, found %s", ev_describe(ev, v));
    return false;
}

static Value *logic(Ev *ev, Scope *s, const AstExpr *e) {
    bool a, b;
    if (!truth(ev, s, e->op.a, &a)) return NULL;
    if (e->op.op == U_NOT) return ev_bool(ev, !a);
    if (a == (e->op.op == B_OR)) return ev_bool(ev, a);
    return truth(ev, s, e->op.b, &b) ? ev_bool(ev, b) : NULL;
}

static Value *binary(Ev *ev, Scope *s, const AstExpr *e) {
    if (e->op.op == B_OR || e->op.op == B_AND) return logic(ev, s, e);
    Value *a = ev_expr(ev, s, e->op.a), *b = ev_expr(ev, s, e->op.b);
    return a && b ? ev_binary(ev, e, a, b) : NULL;
}

static Value *unary(Ev *ev, Scope *s, const AstExpr *e) {
    if (e->op.op == U_NOT) return logic(ev, s, e);
    Value *a = ev_expr(ev, s, e->op.a);
    return a ? ev_unary(ev, e, a) : NULL;
}

static Value *pipe(Ev *ev, Scope *s, const AstExpr *e) {
    const AstExpr *into = e->pipe.into;
    if (into->kind == EX_CALL)
        return ev_call(ev, s, e, into->call.callee, into->call.args, into->call.n_args, e->pipe.value);
    return ev_call(ev, s, e, into, NULL, 0, e->pipe.value);
}

Value *ev_expr(Ev *ev, Scope *s, const AstExpr *e) {
    if (!ev_step(ev, e->span, 1)) return NULL;
    switch (e->kind) {
    case EX_NUMBER: return ev_number(ev, e->number);
    case EX_STRING: return ev_string(ev, e->string.s, e->string.n);
    case EX_BOOL: return ev_bool(ev, e->boolean);
    case EX_NONE: return ev_none(ev);
    case EX_NAME: return scope_read(ev, s, e->name, e->span);
    case EX_LIST: return list(ev, s, e);
    case EX_COMPREHENSION: return comprehension(ev, s, e);
    case EX_CALL: return ev_call(ev, s, e, e->call.callee, e->call.args, e->call.n_args, NULL);
    case EX_INDEX: return item_at(ev, s, e);
    case EX_UNARY: return unary(ev, s, e);
    case EX_BINARY: return binary(ev, s, e);
    case EX_PIPE: return pipe(ev, s, e);
    }
    return NULL;
}
