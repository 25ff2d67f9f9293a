/* The grammar of .ctr files, over the tokens of tokens.c: each statement is followed by END. */
%code requires {
#include "frontend/parse.h"
}
%code {

static int yylex(YYSTYPE *value, YYLTYPE *at, Parser *p);
static void yyerror(const YYLTYPE *at, Parser *p, const char *message);

/* A rule's span: from its first symbol to its last; of an empty one the place right behind what came before. */
#define YYLLOC_DEFAULT(cur, rhs, n)                                                                            \
    do {                                                                                                       \
        if (n) {                                                                                               \
            (cur) = span_join(YYRHSLOC(rhs, 1), YYRHSLOC(rhs, n));                                             \
        } else {                                                                                               \
            (cur) = YYRHSLOC(rhs, 0);                                                                          \
            (cur).line = (cur).end_line;                                                                       \
            (cur).col = (cur).end_col;                                                                         \
        }                                                                                                      \
    } while (0)
#define YYMAXDEPTH 10000 /* nesting is limited to 200 long before */
#define PUSH(list, value)                                                                                      \
    do {                                                                                                       \
        build_count(p, p->last.span);                                                                          \
        ARENA_PUSH(p->a, (list).v, (list).n, (list).cap, (value));                                             \
    } while (0)
#define PUSH_NAME(list, w)                                                                                     \
    do {                                                                                                       \
        PUSH(list, (w).s);                                                                                     \
        ARENA_PUSH(p->a, (list).spans, (list).n_spans, (list).cap_spans, (w).span);                            \
    } while (0)
#define NO_WORD ((Word){0})
}
%define api.pure full
%define api.location.type {Span}
%define parse.error custom
%define parse.lac full
%locations
%param { Parser *p }
%initial-action { @$ = (Span){(uint16_t)p->file, 1, 1, 1, 1}; }

%union {
    Word word;
    double number;
    struct { const char *s; size_t n; } string;
    AstExpr *expr;
    AstArg arg;
    AstFor for_;
    AstParamDecl param;
    AstStmt *stmt;
    AstColumn column;
    ColumnOption option;
    ExprList exprs;
    ArgList args;
    ForList fors;
    ParamList params;
    StmtList stmts;
    ColumnList columns;
    OptionList options;
    NameList names;
    AstOperator op;
}

/* The names are what syntax_error.c goes by; it puts them into words. */
%token <word> NAME "name"
%token <number> NUMBER "number"
%token <string> STRING "string"
%token FOR "'for'" IN "'in'" IF "'if'" ELSE "'else'" RETURN "'return'" TRUE_ "'true'" FALSE_ "'false'"
%token NONE "'none'" AND "'and'" OR "'or'" NOT "'not'" BESIDE "'beside'"
%token <word> MODEL "'model'" PARAM "'param'" INPUT "'input'" IMPORT "'import'" LAYER "'layer'"
%token <word> PREDICT "'predict'" LOSS "'loss'" METRIC "'metric'" OPTIMIZER "'optimizer'" TRAIN "'train'"
%token <word> ENABLE "'enable'" DISABLE "'disable'"
%token PIPE "'|>'" CONCAT "'++'" EQ "'=='" NE "'!='" LT "'<'" LE "'<='" GT "'>'" GE "'>='"
%token '(' "'('" ')' "')'" '[' "'['" ']' "']'" '{' "'{'" '}' "'}'" ',' "','" '=' "'='" ';' "';'"
%token '+' "'+'" '-' "'-'" '*' "'*'" '/' "'/'" '%' "'%'" '@' "'@'"
%token END "end of line"
%token YYEOF 0 "end of file"

%type <stmts> stmts block
%type <stmt> stmt
%type <word> any_word
%type <expr> expr or_expr and_expr not_expr comparison compared joined sum product unary postfix primary initial
%type <expr> target
%type <op> comparator
%type <arg> arg
%type <args> args args_some args_opt
%type <exprs> items targets
%type <for_> for_clause
%type <fors> for_clauses
%type <param> param
%type <params> params params_some
%type <names> names
%type <columns> columns
%type <column> column
%type <option> option
%type <options> options

%%
file: stmts                 { *p->result = build_block($1); }
;
stmts: %empty               { $$ = (StmtList){0}; }
     | stmts stmt END       { $$ = $1; if ($2) PUSH($$, $2); }
     | stmts error END      { $$ = $1; yyerrok; }
;
block: '{' stmts '}'        { $$ = $2; }
;

/* ---- statements ---- */
stmt: MODEL NAME            { $$ = build_stmt(p, ST_MODEL, @$, $2); }
    | PARAM NAME '=' expr   { $$ = build_valued(p, ST_PARAM, @$, $2, $4); }
    | IMPORT STRING         { $$ = build_stmt(p, ST_IMPORT, @$, NO_WORD);
                              $$->import.path = build_text(p, @2, $2.s, $2.n).s; $$->import.path_span = @2; }
    | INPUT NAME '(' args ')' '{' columns '}'
                            { $$ = build_stmt(p, ST_INPUT, @$, NO_WORD);
                              $$->input.format = $2.s; $$->input.format_span = @2;
                              $$->input.args = $4.v; $$->input.n_args = $4.n;
                              $$->input.columns = $7.v; $$->input.n_columns = $7.n; }
    | INPUT NAME '(' args ')' '{' columns '}' BESIDE expr '{' columns '}'
                            { $$ = build_stmt(p, ST_INPUT, @$, NO_WORD);
                              $$->input.format = $2.s; $$->input.format_span = @2;
                              $$->input.args = $4.v; $$->input.n_args = $4.n;
                              $$->input.columns = $7.v; $$->input.n_columns = $7.n;
                              $$->input.beside = $10;
                              $$->input.beside_columns = $12.v; $$->input.n_beside = $12.n; }
    | LAYER NAME '(' params ')' '=' expr
                            { $$ = build_stmt(p, ST_LAYER, @$, $2);
                              $$->layer.params = $4.v; $$->layer.n_params = $4.n; $$->layer.expr = $7; }
    | LAYER NAME '(' params ')' block
                            { $$ = build_stmt(p, ST_LAYER, @$, $2);
                              $$->layer.params = $4.v; $$->layer.n_params = $4.n;
                              $$->layer.body = build_block($6); }
    | NAME '=' expr         { $$ = build_valued(p, ST_BIND, @$, $1, $3); }
    | names '=' expr        { $$ = build_stmt(p, ST_UNPACK, @$, NO_WORD);
                              $$->unpack.names = $1.v; $$->unpack.spans = $1.spans; $$->unpack.n = $1.n;
                              $$->unpack.value = $3; }
    | FOR NAME IN expr block
                            { $$ = build_stmt(p, ST_FOR, @$, NO_WORD);
                              $$->loop.var = $2.s; $$->loop.var_span = @2; $$->loop.in = $4;
                              $$->loop.body = build_block($5); }
    | IF expr block         { $$ = build_stmt(p, ST_IF, @$, NO_WORD);
                              $$->branch.cond = $2; $$->branch.then = build_block($3); }
    | IF expr block ELSE block
                            { $$ = build_stmt(p, ST_IF, @$, NO_WORD);
                              $$->branch.cond = $2; $$->branch.then = build_block($3);
                              $$->branch.other = build_block($5); $$->branch.has_else = true; }
    | RETURN                { $$ = build_valued(p, ST_RETURN, @$, NO_WORD, NULL); }
    | RETURN expr           { $$ = build_valued(p, ST_RETURN, @$, NO_WORD, $2); }
    | PREDICT NAME '=' expr { $$ = build_valued(p, ST_PREDICT, @$, $2, $4); }
    | LOSS expr             { $$ = build_valued(p, ST_LOSS, @$, NO_WORD, $2); }
    | METRIC expr           { $$ = build_is_call(p, $2, "auc(prediction, label)")
                                       ? build_valued(p, ST_METRIC, @$, NO_WORD, $2) : NULL; }
    | OPTIMIZER expr        { $$ = build_stmt(p, ST_OPTIMIZER, @$, NO_WORD); $$->optimizer.kind = $2;
                              if (!build_is_call(p, $2, "adam(lr = 0.001)")) $$ = NULL; }
    | OPTIMIZER expr FOR targets
                            { $$ = build_stmt(p, ST_OPTIMIZER, @$, NO_WORD); $$->optimizer.kind = $2;
                              $$->optimizer.targets = $4.v; $$->optimizer.n_targets = $4.n;
                              if (!build_is_call(p, $2, "adam(lr = 0.001)")) $$ = NULL; }
    | TRAIN '(' args ')'    { $$ = build_stmt(p, ST_TRAIN, @$, NO_WORD);
                              $$->train.args = $3.v; $$->train.n_args = $3.n; }
    | ENABLE STRING args_opt
                            { $$ = build_stmt(p, ST_ENABLE, @$, build_text(p, @2, $2.s, $2.n)); $$->enable.on = true;
                              $$->enable.args = $3.v; $$->enable.n_args = $3.n;
                              $$->enable.has_args = $3.written; }
    | DISABLE STRING        { $$ = build_stmt(p, ST_ENABLE, @$, build_text(p, @2, $2.s, $2.n)); }
    | expr                  { $$ = build_valued(p, ST_EXPR, @$, NO_WORD, $1); }
;
names: NAME ',' NAME        { $$ = (NameList){0}; PUSH_NAME($$, $1); PUSH_NAME($$, $3); }
     | names ',' NAME       { $$ = $1; PUSH_NAME($$, $3); }
;
targets: target             { $$ = (ExprList){0}; PUSH($$, $1); }
       | targets ',' target { $$ = $1; PUSH($$, $3); }
;
target: NAME                { $$ = build_name(p, $1); }
      | STRING              { $$ = build_string(p, @1, $1.s, $1.n); }
;
params: %empty              { $$ = (ParamList){0}; }
      | params_some
      | params_some ','
;
params_some: param          { $$ = (ParamList){0}; PUSH($$, $1); }
           | params_some ',' param { $$ = $1; PUSH($$, $3); }
;
param: NAME                 { $$ = (AstParamDecl){$1.s, @$, NULL}; }
     | NAME '=' expr        { $$ = (AstParamDecl){$1.s, @1, $3}; }
;

/* ---- columns of an input block ---- */
columns: %empty             { $$ = (ColumnList){0}; }
       | columns column END { $$ = $1; PUSH($$, $2); }
       | columns error END  { $$ = $1; yyerrok; }
;
column: any_word NAME args_opt options initial
                            { $$ = build_column(p, @$, $1, $2, $3, $4, $5); }
;
initial: %empty             { $$ = NULL; }
       | '=' expr           { $$ = $2; }
;
options: %empty             { $$ = (OptionList){0}; }
       | options option     { $$ = $1; PUSH($$, $2); }
;
option: NAME '(' args ')'   { $$ = (ColumnOption){$1, $3, @$}; }
;
any_word: NAME | MODEL | PARAM | INPUT | IMPORT | LAYER | PREDICT | LOSS | METRIC | OPTIMIZER | TRAIN | ENABLE
        | DISABLE
;

/* ---- arguments ---- */
args_opt: %empty            { $$ = (ArgList){0}; }
        | '(' args ')'      { $$ = $2; $$.written = true; }
;
args: %empty                { $$ = (ArgList){0}; }
    | args_some
    | args_some ','
;
args_some: arg              { $$ = (ArgList){0}; PUSH($$, $1); }
         | args_some ',' arg { $$ = $1; PUSH($$, $3); }
;
arg: expr                   { $$ = (AstArg){NULL, @1, $1}; }
   | NAME '=' expr          { $$ = (AstArg){$1.s, @1, $3}; }
;

/* ---- expressions, loosest first ---- */
expr: or_expr
    | expr PIPE postfix     { $$ = build_pipe(p, @$, $1, $3); }
;
or_expr: and_expr
       | or_expr OR and_expr { $$ = build_op(p, @$, B_OR, @2, $1, $3); }
;
and_expr: not_expr
        | and_expr AND not_expr { $$ = build_op(p, @$, B_AND, @2, $1, $3); }
;
not_expr: comparison
        | NOT not_expr      { $$ = build_op(p, @$, U_NOT, @1, $2, NULL); }
;
comparison: joined | compared
;
compared: joined comparator joined { $$ = build_op(p, @$, $2, @2, $1, $3); }
        | compared comparator joined
                            { diag_error(p->d, @2, "join two comparisons with 'and', or put one in brackets",
                                         "comparisons can't be chained");
                              $$ = $1; }
;
comparator: LT { $$ = B_LT; } | LE { $$ = B_LE; } | GT { $$ = B_GT; } | GE { $$ = B_GE; }
          | EQ { $$ = B_EQ; } | NE { $$ = B_NE; }
;
joined: sum
      | joined CONCAT sum   { $$ = build_op(p, @$, B_CONCAT, @2, $1, $3); }
;
sum: product
   | sum '+' product        { $$ = build_op(p, @$, B_ADD, @2, $1, $3); }
   | sum '-' product        { $$ = build_op(p, @$, B_SUB, @2, $1, $3); }
;
product: unary
       | product '*' unary  { $$ = build_op(p, @$, B_MUL, @2, $1, $3); }
       | product '/' unary  { $$ = build_op(p, @$, B_DIV, @2, $1, $3); }
       | product '%' unary  { $$ = build_op(p, @$, B_MOD, @2, $1, $3); }
       | product '@' unary  { $$ = build_op(p, @$, B_MATMUL, @2, $1, $3); }
;
unary: postfix
     | '-' unary            { $$ = build_op(p, @$, U_NEG, @1, $2, NULL); }
;
postfix: primary
       | postfix '(' args ')' { $$ = build_call(p, @$, $1, $3); }
       | postfix '[' expr ']' { $$ = build_index(p, @$, $1, $3); }
;
primary: NAME               { $$ = build_name(p, $1); }
       | NUMBER             { $$ = build_expr(p, EX_NUMBER, @$); $$->number = $1; }
       | STRING             { $$ = build_string(p, @$, $1.s, $1.n); }
       | TRUE_              { $$ = build_expr(p, EX_BOOL, @$); $$->boolean = true; }
       | FALSE_             { $$ = build_expr(p, EX_BOOL, @$); }
       | NONE               { $$ = build_expr(p, EX_NONE, @$); }
       | '(' expr ')'       { $$ = $2; }
       | '[' ']'            { $$ = build_list(p, @$, (ExprList){0}); }
       | '[' items ']'      { $$ = build_list(p, @$, $2); }
       | '[' items ',' ']'  { $$ = build_list(p, @$, $2); }
       | '[' expr for_clauses ']' { $$ = build_comprehension(p, @$, $2, $3); }
;
items: expr                 { $$ = (ExprList){0}; PUSH($$, $1); }
     | items ',' expr       { $$ = $1; PUSH($$, $3); }
;
for_clauses: for_clause     { $$ = (ForList){0}; PUSH($$, $1); }
           | for_clauses for_clause { $$ = $1; PUSH($$, $2); }
;
for_clause: FOR NAME IN expr { $$ = (AstFor){$2.s, @2, $4, NULL}; }
          | FOR NAME IN expr IF expr { $$ = (AstFor){$2.s, @2, $4, $6}; }
;
%%

static int yylex(YYSTYPE *value, YYLTYPE *at, Parser *p) {
    const Token *t = tokens_next(p);
    *at = t->span;
    if (t->kind == NUMBER) value->number = t->number;
    else if (t->kind == STRING) value->string.s = t->s, value->string.n = t->n;
    else value->word = (Word){t->s, t->span};
    return t->kind;
}

/* Only for what isn't a syntax error: the parser's own stack. */
static void yyerror(const YYLTYPE *at, Parser *p, const char *message) {
    (void)message;
    parse_stop(p, *at, NULL, "nested too deep");
}

static int yyreport_syntax_error(const yypcontext_t *ctx, Parser *p) {
    enum { MOST = YYNTOKENS };
    yysymbol_kind_t kinds[MOST];
    const char *names[MOST];
    int n = yypcontext_expected_tokens(ctx, kinds, MOST);
    if (n < 0) return n;
    for (int i = 0; i < n; i++) names[i] = yysymbol_name(kinds[i]);
    syntax_error(p, names, n);
    tokens_recover(p);
    return 0;
}
