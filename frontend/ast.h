/* The syntax tree of a .ctr file, as the parser builds it. Every node has the span of its text.
 * Trees live in the compilation's arena. */
#ifndef CTRC_FRONTEND_AST_H
#define CTRC_FRONTEND_AST_H
#include "ir/diag.h"

/* What the parser promises to whoever walks the tree by recursion. Brackets, blocks and unary operators
 * nest at most AST_MAX_NESTING deep; a chain such as a + b + c … makes the tree higher than that, but no
 * expression is higher than AST_MAX_HEIGHT nodes. */
enum { AST_MAX_NESTING = 200, AST_MAX_HEIGHT = 1000, AST_MAX_NODES = 1000000 };

typedef struct AstExpr AstExpr;
typedef struct AstStmt AstStmt;

typedef struct { /* an argument of a call or of any bracketed list of options */
    const char *name; /* NULL: positional */
    Span name_span;
    AstExpr *value;
} AstArg;

typedef enum {
    EX_NUMBER, EX_STRING, EX_BOOL, EX_NONE, EX_NAME, EX_LIST, EX_COMPREHENSION,
    EX_CALL, EX_INDEX, EX_UNARY, EX_BINARY, EX_PIPE
} AstExprKind;
typedef enum {
    B_OR, B_AND, B_LT, B_LE, B_GT, B_GE, B_EQ, B_NE, B_CONCAT, B_ADD, B_SUB, B_MUL, B_DIV, B_MOD, B_MATMUL,
    U_NEG, U_NOT
} AstOperator;

typedef struct { const char *var; Span var_span; AstExpr *in, *cond; /* cond may be NULL */ } AstFor;

struct AstExpr {
    AstExprKind kind;
    int height; /* 1 for a leaf; at most AST_MAX_HEIGHT */
    Span span;
    union {
        double number;
        struct { const char *s; size_t n; } string; /* unescaped; may hold any byte */
        bool boolean;
        const char *name;
        struct { AstExpr **items; int n; } list;
        struct { AstExpr *value; AstFor *fors; int n_fors; } comp; /* conds belong to the `for` before them */
        struct { AstExpr *callee; AstArg *args; int n_args; } call;
        struct { AstExpr *of, *at; } index;
        struct { AstOperator op; Span op_span; AstExpr *a, *b; } op; /* unary: b NULL */
        struct { AstExpr *value, *into; } pipe; /* into: EX_NAME or EX_CALL */
    };
};

typedef struct { /* NAME KIND [list(…)] [positive(…) [negative(…)]] [from("…")] [= constant] */
    const char *name;  /* "_" for skip */
    Span span, name_span;
    const char *kind;  /* label string int float skip, as written */
    Span kind_span;
    AstArg *skip_args; int n_skip_args;   /* _ skip(n) */
    bool has_list;  AstArg *list_args; int n_list_args; Span list_span;
    AstExpr *positive, *negative, *from, *initial; /* NULL if absent */
} AstColumn;

typedef struct { const char *name; Span span; AstExpr *initial; /* NULL: required */ } AstParamDecl; /* layer parameter */

typedef enum {
    ST_MODEL, ST_PARAM, ST_INPUT, ST_IMPORT, ST_LAYER, ST_BIND, ST_UNPACK, ST_FOR, ST_IF, ST_RETURN,
    ST_PREDICT, ST_LOSS, ST_METRIC, ST_OPTIMIZER, ST_TRAIN, ST_ENABLE, ST_EXPR
} AstStmtKind;

typedef struct { AstStmt **stmts; int n; } AstBlock;

struct AstStmt {
    AstStmtKind kind;
    Span span;
    const char *name;  /* model, param, layer, bind, predict, and the pass of enable/disable */
    Span name_span;
    union {
        AstExpr *value; /* param, bind, return (may be NULL), predict, loss, metric (a call), expr */
        struct { const char *format; Span format_span; AstArg *args; int n_args; AstColumn *columns; int n_columns;
                 AstExpr *beside; /* suffix, NULL if none */ AstColumn *beside_columns; int n_beside; } input;
        struct { const char *path; Span path_span; } import;
        struct { AstParamDecl *params; int n_params; AstExpr *expr; /* `= expr` */ AstBlock body; /* or { } */ } layer;
        struct { const char **names; Span *spans; int n; AstExpr *value; } unpack; /* a, b = list */
        struct { const char *var; Span var_span; AstExpr *in; AstBlock body; } loop;
        struct { AstExpr *cond; AstBlock then, other; bool has_else; } branch;
        struct { AstExpr *kind; /* a call: adam(lr = …) */ AstExpr **targets; int n_targets; } optimizer;
        struct { AstArg *args; int n_args; } train;
        struct { bool on; AstArg *args; int n_args; bool has_args; } enable;
    };
};

/* Parses one file that was registered with d. Never NULL; errors are in d->errors. Limits: nesting 200. */
AstBlock *ast_parse(Arena *a, Diag *d, int file);
/* For --emit=ast: one node a line, indented, with spans. */
void ast_print(const AstBlock *b, FILE *out);

#endif
