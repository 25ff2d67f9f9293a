/* Makes the tree's nodes, and checks what a grammar rule can't say: the limits of the tree, the options of a
 * column and their order. */
#include <string.h>
#include "frontend/parse.h"

void parse_stop(Parser *p, Span at, const char *hint, const char *message) {
    if (!p->stopped) diag_error(p->d, at, hint, "%s", message);
    p->stopped = true;
}

Span span_join(Span from, Span to) {
    from.end_line = to.end_line;
    from.end_col = to.end_col;
    return from;
}

void build_count(Parser *p, Span span) {
    if (++p->nodes > AST_MAX_NODES)
        parse_stop(p, span, "long lists of values belong in a file: vocab(c, file = \"…\")",
                   "the file is too large: more than 1000000 values, names and statements");
}

/* ---- expressions ---- */

AstExpr *build_expr(Parser *p, AstExprKind kind, Span span) {
    build_count(p, span);
    AstExpr *e = ARENA_NEW(p->a, AstExpr);
    e->kind = kind;
    e->span = span;
    e->height = 1;
    return e;
}

static void stand_on(Parser *p, AstExpr *e, const AstExpr *child) {
    if (!child || child->height < e->height) return;
    e->height = child->height + 1;
    if (e->height > AST_MAX_HEIGHT)
        parse_stop(p, e->span, "bind parts of it to names, or take sum([…]) of a list",
                   "an expression of more than 1000 operators and calls, one on top of the other");
}

static void stand_on_args(Parser *p, AstExpr *e, const AstArg *args, int n) {
    for (int i = 0; i < n; i++) stand_on(p, e, args[i].value);
}

AstExpr *build_name(Parser *p, Word w) {
    AstExpr *e = build_expr(p, EX_NAME, w.span);
    e->name = w.s;
    return e;
}

AstExpr *build_string(Parser *p, Span span, const char *s, size_t n) {
    AstExpr *e = build_expr(p, EX_STRING, span);
    e->string.s = s;
    e->string.n = n;
    return e;
}

AstExpr *build_list(Parser *p, Span span, ExprList items) {
    AstExpr *e = build_expr(p, EX_LIST, span);
    e->list.items = items.v;
    e->list.n = items.n;
    for (int i = 0; i < items.n; i++) stand_on(p, e, items.v[i]);
    return e;
}

AstExpr *build_comprehension(Parser *p, Span span, AstExpr *value, ForList fors) {
    AstExpr *e = build_expr(p, EX_COMPREHENSION, span);
    e->comp.value = value;
    e->comp.fors = fors.v;
    e->comp.n_fors = fors.n;
    stand_on(p, e, value);
    for (int i = 0; i < fors.n; i++) {
        stand_on(p, e, fors.v[i].in);
        stand_on(p, e, fors.v[i].cond);
    }
    if (fors.n > AST_MAX_NESTING) parse_stop(p, span, NULL, "nested more than 200 deep");
    return e;
}

AstExpr *build_call(Parser *p, Span span, AstExpr *callee, ArgList args) {
    AstExpr *e = build_expr(p, EX_CALL, span);
    e->call.callee = callee;
    e->call.args = args.v;
    e->call.n_args = args.n;
    stand_on(p, e, callee);
    stand_on_args(p, e, args.v, args.n);
    return e;
}

AstExpr *build_index(Parser *p, Span span, AstExpr *of, AstExpr *at) {
    AstExpr *e = build_expr(p, EX_INDEX, span);
    e->index.of = of;
    e->index.at = at;
    stand_on(p, e, of);
    stand_on(p, e, at);
    return e;
}

AstExpr *build_op(Parser *p, Span span, AstOperator op, Span op_span, AstExpr *a, AstExpr *b) {
    AstExpr *e = build_expr(p, b ? EX_BINARY : EX_UNARY, span);
    e->op.op = op;
    e->op.op_span = op_span;
    e->op.a = a;
    e->op.b = b;
    stand_on(p, e, a);
    stand_on(p, e, b);
    return e;
}

AstExpr *build_pipe(Parser *p, Span span, AstExpr *value, AstExpr *into) {
    if (into->kind != EX_NAME && into->kind != EX_CALL) {
        diag_error(p->d, into->span, "x |> f(a) is f(x, a)", "expected a name or a call right of '|>'");
        return value;
    }
    AstExpr *e = build_expr(p, EX_PIPE, span);
    e->pipe.value = value;
    e->pipe.into = into;
    stand_on(p, e, value);
    stand_on(p, e, into);
    return e;
}

/* ---- statements ---- */

AstStmt *build_stmt(Parser *p, AstStmtKind kind, Span span, Word name) {
    build_count(p, span);
    AstStmt *s = ARENA_NEW(p->a, AstStmt);
    s->kind = kind;
    s->span = span;
    s->name = name.s;
    s->name_span = name.span;
    return s;
}

AstStmt *build_valued(Parser *p, AstStmtKind kind, Span span, Word name, AstExpr *value) {
    AstStmt *s = build_stmt(p, kind, span, name);
    s->value = value;
    return s;
}

AstBlock build_block(StmtList l) { return (AstBlock){l.v, l.n}; }

bool build_is_call(Parser *p, AstExpr *e, const char *example) {
    if (e->kind == EX_CALL) return true;
    diag_error(p->d, e->span, NULL, "expected a call, as in %s", example);
    return false;
}

Word build_text(Parser *p, Span span, const char *s, size_t n) {
    if (memchr(s, 0, n)) diag_error(p->d, span, NULL, "expected a string without '\\x00'");
    return (Word){s, span};
}

/* ---- columns ---- */

static const char *const kinds[] = {"label", "string", "int", "float", "skip"};
static const char *const options_in_order[] = {"list", "positive", "negative", "from"};
enum { N_KINDS = 5, N_OPTIONS = 4 };

static int find(const char *const *words, int n, const char *s) {
    for (int i = 0; i < n; i++)
        if (!strcmp(words[i], s)) return i;
    return -1;
}

static AstExpr *one_text(Parser *p, const ColumnOption *o) {
    if (o->args.n == 1 && !o->args.v[0].name) return o->args.v[0].value;
    diag_error(p->d, o->span, NULL, "expected one value in the brackets of '%s', found %d%s", o->word.s,
               o->args.n, o->args.n == 1 ? " with a name" : "");
    return NULL;
}

static void set_option(Parser *p, AstColumn *c, const ColumnOption *o, int which) {
    switch (which) {
    case 0:
        c->has_list = true;
        c->list_args = o->args.v;
        c->n_list_args = o->args.n;
        c->list_span = o->span;
        break;
    case 1: c->positive = one_text(p, o); break;
    case 2:
        c->negative = one_text(p, o);
        if (!c->positive)
            diag_error(p->d, o->word.span, "positive(…) comes first", "'negative' without 'positive'");
        break;
    case 3: c->from = one_text(p, o); break;
    }
}

static void check_kind(Parser *p, const AstColumn *c, ArgList args, Span args_span) {
    if (find(kinds, N_KINDS, c->kind) < 0) {
        const char *hint = diag_did_you_mean(p->d, c->kind, kinds, N_KINDS);
        if (find(options_in_order, N_OPTIONS, c->kind) >= 0)
            hint = arena_printf(p->a, "the kind comes first, as in %s string list(\";\")", c->name);
        diag_error(p->d, c->kind_span, hint, "unknown kind '%s', expected label, string, int, float or skip",
                   c->kind);
    } else if (args.written && strcmp(c->kind, "skip")) {
        diag_error(p->d, args_span, NULL, "the kind '%s' takes no arguments, only 'skip' does", c->kind);
    }
}

AstColumn build_column(Parser *p, Span span, Word name, Word kind, ArgList args, OptionList options,
                       AstExpr *initial) {
    build_count(p, span);
    AstColumn c = {.name = name.s,
                   .span = span,
                   .name_span = name.span,
                   .kind = kind.s,
                   .kind_span = kind.span,
                   .skip_args = args.v,
                   .n_skip_args = args.n,
                   .initial = initial};
    check_kind(p, &c, args, kind.span);
    int last = -1;
    for (int i = 0; i < options.n; i++) {
        const ColumnOption *o = &options.v[i];
        int which = find(options_in_order, N_OPTIONS, o->word.s);
        if (which < 0)
            diag_error(p->d, o->word.span, diag_did_you_mean(p->d, o->word.s, options_in_order, N_OPTIONS),
                       "unknown option '%s' of a column, expected list, positive, negative or from",
                       o->word.s);
        else if (which == last)
            diag_error(p->d, o->word.span, NULL, "'%s' given twice", o->word.s);
        else if (which < last)
            diag_error(p->d, o->word.span, "the order is list positive negative from",
                       "'%s' must stand before '%s'", o->word.s, options_in_order[last]);
        else
            set_option(p, &c, o, which);
        if (which > last) last = which;
    }
    return c;
}
