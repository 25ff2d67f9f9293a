/* Inside the parser: what scanner, token filter, grammar and error wording share. Nobody else includes it.
 *
 *   text → scanner.l (raw tokens) → tokens.c (where statements end, which words are keywords)
 *        → grammar.y (the tree, through the builders in parse_build.c)
 *
 * All of it lives in the compilation's arena, except the scanner's buffer, which ast_parse frees. */
#ifndef CTRC_FRONTEND_PARSE_H
#define CTRC_FRONTEND_PARSE_H
#include "frontend/ast.h"

enum { PARSE_MAX_NAME = 255, PARSE_MAX_NUMBER = 400 /* bytes of one name, of one number */ };

typedef struct {
    int kind; /* of grammar.h */
    Span span;
    const char *text; /* in the file's text */
    size_t len;
    bool newline;  /* a newline stands between it and the token before */
    double number; /* NUMBER */
    const char *s; /* NAME and keywords: the word; STRING: its bytes after escapes */
    size_t n;
} Token;

/* An open bracket. `depth` and the statement's place are restored when it closes. */
typedef struct {
    int kind; /* '(' '[' '{' */
    Span span;
    int depth;
    uint32_t stmt_col;
    int stmt_frames, stmt_kind;
} BracketFrame;

typedef struct Parser {
    Arena *a;
    Diag *d;
    int file;
    AstBlock *result;
    int nodes;    /* and entries of lists made so far, for AST_MAX_NODES */
    bool stopped; /* a limit was passed: say nothing more and let the grammar see the end of the file */

    /* scanner */
    void *scanner;
    const char *text;   /* the whole file */
    uint32_t line, col; /* of the next byte */
    Token scanned;

    /* token filter */
    Token ahead[2]; /* raw tokens already read */
    int n_ahead;
    Token last;       /* handed to the grammar last */
    Token before;     /* the one before it */
    bool at_start;    /* the next token opens a statement */
    bool last_opened; /* p->last opened one */
    bool recovering;  /* after an error: skip to the end of the statement */
    BracketFrame frames[AST_MAX_NESTING + 1];
    int n_frames;
    int depth, unary_run; /* nesting of brackets and unary operators; unary operators just before */
    uint32_t stmt_col;    /* column and open brackets where the running statement began */
    int stmt_frames;
    int stmt_kind; /* and its first token's kind */
} Parser;

/* ---- scanner.l ---- */
bool scanner_open(Parser *p, const char *text, size_t size);
void scanner_close(Parser *p);
void scanner_next(Parser *p, Token *out); /* kind YYEOF at the end, YYerror after a reported error */

/* ---- tokens.c ---- */
const Token *tokens_next(Parser *p);
void tokens_recover(Parser *p);      /* the grammar met an error at p->last */
const Token *tokens_peek(Parser *p); /* the raw token behind p->last */

/* ---- syntax_error.c ---- */
/* expected: names of grammar symbols, as grammar.y's %token lines have them. */
void syntax_error(Parser *p, const char *const *expected, int n);

/* ---- parse_build.c ---- */
typedef struct {
    AstExpr **v;
    int n, cap;
} ExprList;
typedef struct {
    AstArg *v;
    int n, cap;
    bool written; /* the brackets stand there */
} ArgList;
typedef struct {
    AstFor *v;
    int n, cap;
} ForList;
typedef struct {
    AstParamDecl *v;
    int n, cap;
} ParamList;
typedef struct {
    AstStmt **v;
    int n, cap;
} StmtList;
typedef struct {
    AstColumn *v;
    int n, cap;
} ColumnList;
typedef struct {
    const char **v;
    int n, cap;
    Span *spans;
    int n_spans, cap_spans;
} NameList;
typedef struct {
    const char *s;
    Span span;
} Word;
typedef struct {
    Word word;
    ArgList args;
    Span span;
} ColumnOption;
typedef struct {
    ColumnOption *v;
    int n, cap;
} OptionList;

void parse_stop(Parser *p, Span at, const char *hint, const char *message); /* reports, then stops */
void build_count(Parser *p, Span at);                                       /* one more node or list entry */
Span span_join(Span from, Span to);
AstExpr *build_expr(Parser *p, AstExprKind kind, Span span);
AstExpr *build_name(Parser *p, Word w);
AstExpr *build_string(Parser *p, Span span, const char *s, size_t n);
AstExpr *build_list(Parser *p, Span span, ExprList items);
AstExpr *build_comprehension(Parser *p, Span span, AstExpr *value, ForList fors);
AstExpr *build_call(Parser *p, Span span, AstExpr *callee, ArgList args);
AstExpr *build_index(Parser *p, Span span, AstExpr *of, AstExpr *at);
AstExpr *build_op(Parser *p, Span span, AstOperator op, Span op_span, AstExpr *a, AstExpr *b);
AstExpr *build_pipe(Parser *p, Span span, AstExpr *value, AstExpr *into);
AstStmt *build_stmt(Parser *p, AstStmtKind kind, Span span, Word name);
AstStmt *build_valued(Parser *p, AstStmtKind kind, Span span, Word name, AstExpr *value);
AstBlock build_block(StmtList l);
AstColumn build_column(Parser *p, Span span, Word name, Word kind, ArgList args, OptionList options,
                       AstExpr *initial);
Word build_text(Parser *p, Span span, const char *s, size_t n); /* a string that may hold no NUL byte */
bool build_is_call(Parser *p, AstExpr *e, const char *example); /* reports if not */

bool parse_is_operator(int kind); /* a token that stands between two operands, but for |> */

#endif
