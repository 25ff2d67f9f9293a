/* --emit=ast: one node a line, indented by two spaces a level, with the place where it stands. */
#include "frontend/ast.h"

static void line(FILE *out, int indent, Span at, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static void put_expr(const AstExpr *e, int indent, FILE *out);
static void put_block(const AstBlock *b, int indent, FILE *out);

static void line(FILE *out, int indent, Span at, const char *fmt, ...) {
    fprintf(out, "%*s", indent * 2, "");
    va_list ap;
    va_start(ap, fmt);
    vfprintf(out, fmt, ap);
    va_end(ap);
    fprintf(out, " @%u:%u-%u:%u\n", at.line, at.col, at.end_line, at.end_col);
}

static const char *operator_text(AstOperator op) {
    switch (op) {
    case B_OR: return "or";
    case B_AND: return "and";
    case B_LT: return "<";
    case B_LE: return "<=";
    case B_GT: return ">";
    case B_GE: return ">=";
    case B_EQ: return "==";
    case B_NE: return "!=";
    case B_CONCAT: return "++";
    case B_ADD: return "+";
    case B_SUB: return "-";
    case B_MUL: return "*";
    case B_DIV: return "/";
    case B_MOD: return "%";
    case B_MATMUL: return "@";
    case U_NEG: return "-";
    case U_NOT: return "not";
    }
    return "?";
}

static void put_string(const AstExpr *e, int indent, FILE *out) {
    fprintf(out, "%*sstring \"", indent * 2, "");
    for (size_t i = 0; i < e->string.n; i++) {
        unsigned char c = (unsigned char)e->string.s[i];
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7F)
            fprintf(out, "\\x%02x", c);
        else
            fputc(c, out);
    }
    fprintf(out, "\" @%u:%u-%u:%u\n", e->span.line, e->span.col, e->span.end_line, e->span.end_col);
}

static void put_args(const AstArg *args, int n, int indent, FILE *out) {
    for (int i = 0; i < n; i++) {
        if (args[i].name) line(out, indent, args[i].name_span, "named %s", args[i].name);
        put_expr(args[i].value, indent + (args[i].name != NULL), out);
    }
}

static void put_comprehension(const AstExpr *e, int indent, FILE *out) {
    line(out, indent, e->span, "comprehension");
    put_expr(e->comp.value, indent + 1, out);
    for (int i = 0; i < e->comp.n_fors; i++) {
        const AstFor *f = &e->comp.fors[i];
        line(out, indent + 1, f->var_span, "for %s", f->var);
        put_expr(f->in, indent + 2, out);
        if (!f->cond) continue;
        line(out, indent + 1, f->cond->span, "if");
        put_expr(f->cond, indent + 2, out);
    }
}

static void put_expr(const AstExpr *e, int indent, FILE *out) {
    switch (e->kind) {
    case EX_NUMBER: line(out, indent, e->span, "number %.17g", e->number); break;
    case EX_STRING: put_string(e, indent, out); break;
    case EX_BOOL: line(out, indent, e->span, "%s", e->boolean ? "true" : "false"); break;
    case EX_NONE: line(out, indent, e->span, "none"); break;
    case EX_NAME: line(out, indent, e->span, "name %s", e->name); break;
    case EX_LIST:
        line(out, indent, e->span, "list");
        for (int i = 0; i < e->list.n; i++) put_expr(e->list.items[i], indent + 1, out);
        break;
    case EX_COMPREHENSION: put_comprehension(e, indent, out); break;
    case EX_CALL:
        line(out, indent, e->span, "call");
        put_expr(e->call.callee, indent + 1, out);
        put_args(e->call.args, e->call.n_args, indent + 1, out);
        break;
    case EX_INDEX:
        line(out, indent, e->span, "index");
        put_expr(e->index.of, indent + 1, out);
        put_expr(e->index.at, indent + 1, out);
        break;
    case EX_UNARY:
    case EX_BINARY:
        line(out, indent, e->span, "%s %s", e->kind == EX_UNARY ? "unary" : "binary",
             operator_text(e->op.op));
        put_expr(e->op.a, indent + 1, out);
        if (e->op.b) put_expr(e->op.b, indent + 1, out);
        break;
    case EX_PIPE:
        line(out, indent, e->span, "pipe");
        put_expr(e->pipe.value, indent + 1, out);
        put_expr(e->pipe.into, indent + 1, out);
        break;
    }
}

static void put_option(const char *name, const AstExpr *e, int indent, FILE *out) {
    if (!e) return;
    line(out, indent, e->span, "%s", name);
    put_expr(e, indent + 1, out);
}

static void put_columns(const AstColumn *columns, int n, int indent, FILE *out) {
    for (int i = 0; i < n; i++) {
        const AstColumn *c = &columns[i];
        line(out, indent, c->span, "column %s %s", c->name, c->kind);
        put_args(c->skip_args, c->n_skip_args, indent + 1, out);
        if (c->has_list) {
            line(out, indent + 1, c->list_span, "list");
            put_args(c->list_args, c->n_list_args, indent + 2, out);
        }
        put_option("positive", c->positive, indent + 1, out);
        put_option("negative", c->negative, indent + 1, out);
        put_option("from", c->from, indent + 1, out);
        put_option("initial", c->initial, indent + 1, out);
    }
}

static void put_input(const AstStmt *s, int indent, FILE *out) {
    line(out, indent, s->span, "input %s", s->input.format);
    put_args(s->input.args, s->input.n_args, indent + 1, out);
    put_columns(s->input.columns, s->input.n_columns, indent + 1, out);
    if (!s->input.beside) return;
    line(out, indent, s->input.beside->span, "beside");
    put_expr(s->input.beside, indent + 1, out);
    put_columns(s->input.beside_columns, s->input.n_beside, indent + 1, out);
}

static void put_layer(const AstStmt *s, int indent, FILE *out) {
    line(out, indent, s->span, "layer %s", s->name);
    for (int i = 0; i < s->layer.n_params; i++) {
        const AstParamDecl *q = &s->layer.params[i];
        line(out, indent + 1, q->span, "parameter %s", q->name);
        if (q->initial) put_expr(q->initial, indent + 2, out);
    }
    if (s->layer.expr)
        put_expr(s->layer.expr, indent + 1, out);
    else
        put_block(&s->layer.body, indent + 1, out);
}

static void put_branch(const AstStmt *s, int indent, FILE *out) {
    line(out, indent, s->span, "if");
    put_expr(s->branch.cond, indent + 1, out);
    put_block(&s->branch.then, indent + 1, out);
    if (!s->branch.has_else) return;
    fprintf(out, "%*selse\n", indent * 2, "");
    put_block(&s->branch.other, indent + 1, out);
}

static void put_valued(const AstStmt *s, const char *what, int indent, FILE *out) {
    line(out, indent, s->span, "%s%s%s", what, s->name ? " " : "", s->name ? s->name : "");
    if (s->value) put_expr(s->value, indent + 1, out);
}

static void put_stmt(const AstStmt *s, int indent, FILE *out) {
    switch (s->kind) {
    case ST_MODEL: line(out, indent, s->span, "model %s", s->name); break;
    case ST_PARAM: put_valued(s, "param", indent, out); break;
    case ST_INPUT: put_input(s, indent, out); break;
    case ST_IMPORT: line(out, indent, s->span, "import \"%s\"", s->import.path); break;
    case ST_LAYER: put_layer(s, indent, out); break;
    case ST_BIND: put_valued(s, "bind", indent, out); break;
    case ST_UNPACK:
        line(out, indent, s->span, "unpack");
        for (int i = 0; i < s->unpack.n; i++)
            line(out, indent + 1, s->unpack.spans[i], "to %s", s->unpack.names[i]);
        put_expr(s->unpack.value, indent + 1, out);
        break;
    case ST_FOR:
        line(out, indent, s->span, "for %s", s->loop.var);
        put_expr(s->loop.in, indent + 1, out);
        put_block(&s->loop.body, indent + 1, out);
        break;
    case ST_IF: put_branch(s, indent, out); break;
    case ST_RETURN: put_valued(s, "return", indent, out); break;
    case ST_PREDICT: put_valued(s, "predict", indent, out); break;
    case ST_LOSS: put_valued(s, "loss", indent, out); break;
    case ST_METRIC: put_valued(s, "metric", indent, out); break;
    case ST_OPTIMIZER:
        line(out, indent, s->span, "optimizer");
        put_expr(s->optimizer.kind, indent + 1, out);
        for (int i = 0; i < s->optimizer.n_targets; i++) {
            line(out, indent + 1, s->optimizer.targets[i]->span, "for");
            put_expr(s->optimizer.targets[i], indent + 2, out);
        }
        break;
    case ST_TRAIN:
        line(out, indent, s->span, "train");
        put_args(s->train.args, s->train.n_args, indent + 1, out);
        break;
    case ST_ENABLE:
        line(out, indent, s->span, "%s \"%s\"", s->enable.on ? "enable" : "disable", s->name);
        put_args(s->enable.args, s->enable.n_args, indent + 1, out);
        break;
    case ST_EXPR: put_valued(s, "expression", indent, out); break;
    }
}

static void put_block(const AstBlock *b, int indent, FILE *out) {
    for (int i = 0; i < b->n; i++) put_stmt(b->stmts[i], indent, out);
}

void ast_print(const AstBlock *b, FILE *out) { put_block(b, 0, out); }
