/* The compile-time evaluator's own types: values, scopes, and the state of one evaluation.
 *
 * A Value is immutable and lives in the compilation's arena. NULL is the poisoned value: its error has been
 * reported, and whatever is computed from it is poisoned too, without another message.
 * Functions named ev_* may report errors; those that return a pointer return NULL then. */
#ifndef CTRC_FRONTEND_VALUE_H
#define CTRC_FRONTEND_VALUE_H
#include "frontend/ast.h"
#include "frontend/compile.h"
#include "frontend/strmap.h"
#include "ir/ir.h"

typedef struct Value Value;
typedef struct Scope Scope;
typedef struct Ev Ev;
typedef struct Builtin Builtin;
typedef struct SharedLayer SharedLayer;

/* ---- values ---- */
typedef enum {
    V_NONE,
    V_BOOL,
    V_NUMBER,
    V_STRING,
    V_LIST,
    V_COLUMN, /* a declared column; becomes a tensor where one is needed */
    V_AXIS,   /* a name given by list(axis = …) */
    V_TENSOR, /* an IR node: f32, an id, or a truncated column */
    V_TABLE,
    V_LAYER,
    V_BUILTIN,
    V_SHARED,
    V_WORD, /* a bare word of fn, unknown, init, keep; init words may carry a number */
    V_SCHEDULE,
    V_OPTIMIZER
} ValueKind;

struct Value {
    ValueKind kind;
    union {
        bool boolean;
        double number;
        struct {
            const char *s;
            size_t n;
        } string; /* a NUL follows the n bytes */
        struct {
            Value **items;
            int n;
        } list;           /* never holds NULL */
        int column, axis; /* indices into the program */
        struct {
            IrNode *node;
            const char *prediction; /* name, if `predict` bound it */
        } tensor;
        struct {
            int weight;
            IrNode *node;
        } table;
        struct {
            const AstStmt *decl;
            Scope *scope; /* where the layer stands */
        } layer;
        const Builtin *builtin;
        SharedLayer *shared;
        struct {
            const char *text;
            bool has_arg, by_default;
            double arg;
        } word;
        const IrSched *schedule;
        const IrOptimizer *optimizer;
    };
};

/* ---- names ---- */
typedef enum {
    BIND_VALUE,
    BIND_TABLE,
    BIND_COLUMN,
    BIND_AXIS,
    BIND_PARAM,
    BIND_LAYER,
    BIND_PREDICTION,
    BIND_BUILTIN
} BindKind;

/* One place in the text that gives a name; all bindings that the place makes share it. */
typedef struct {
    const char *name;
    Span span;
    BindKind kind;
    bool used;
    const void *place;
} Decl;

typedef struct {
    const char *name;
    uint64_t hash;
    Value *value;
    BindKind kind;
    Decl *decl;
} Binding;

struct Scope {
    Scope *up;
    Binding *items;
    int n, cap;
    StrMap index; /* name → position + 1, once there are many */
};

/* A part of the paths of weights: a top-level statement, a running layer call, or a turn of a loop. */
typedef enum { PART_TOP, PART_CALL, PART_LOOP, PART_SHARED } PartKind;
typedef struct Part {
    PartKind kind;
    struct Part *up;
    const char *text;
    const void *site; /* the call or loop in the syntax tree, and its turn: what tells weights of a shared
                         layer apart */
    int turn;
    int suffix;       /* CALL: number written behind this part once a weight was made; -1 not decided */
    const char *path; /* printed path up to here */
    SharedLayer *shared;
} Part;

struct SharedLayer { /* what shared(f) gives */
    Value *layer;
    const char *base; /* first part of its weights' paths */
    StrMap made;      /* place in the layer (names_shared_key) → the Value of its weight or table */
};

/* ---- built-ins ---- */
typedef struct {
    Value *v;
    Span span;
} Arg; /* v NULL: left out */
typedef struct {
    const Builtin *of;
    const AstExpr *site;
    Span span; /* of the call, in a file of the user's */
    Arg *args; /* one a parameter */
    Arg *rest;
    int n_rest;   /* what a `*` parameter took */
    Scope *scope; /* of the caller */
} Call;
struct Builtin {
    const char *name;
    const char *params; /* "c buckets fn?": `?` may be left out, `*` takes all positional arguments; `x=words`
                           pool's kind */
    Value *(*run)(Ev *ev, Call *c);
};

/* ---- one evaluation ---- */
typedef struct {
    const char *path, *real;
    int file;
    Scope *scope;
    bool running;
    AstBlock *block;
} SourceFile;
typedef struct {            /* beside IrProgram.weights, by index */
    bool told;              /* the file itself says how it starts */
    const IrOptimizer *own; /* table(…, optimizer = …) */
} WeightNote;
typedef struct {
    IrOptimizer optimizer;
    const AstStmt *stmt;
    bool failed; /* its own error was reported */
} OptimizerStmt;
typedef struct {
    IrNode *node;
    Span span; /* of the expression */
} RootNote;

typedef struct {               /* what a running layer call changes and gives back */
    const char *bound;         /* the name that the running statement of a layer binds */
    bool in_default;           /* in the default of a library layer's argument */
    const char *library_layer; /* name of the layer by which the user's call entered the library */
    Span user_call;            /* that call */
    Span caller;
    bool has_caller; /* the call of the innermost running layer of the user's */
} Where;

struct Ev {
    IrProgram *p;
    Arena *a;
    Diag *d;
    IrBuilder b; /* appends to func `model`; span and name are set by ev_at */
    const char *library_dir;
    const Define *defs;
    int n_defs;
    bool *def_used;
    Scope *root, *library; /* built-ins; the layer library, which sees built-ins only */
    SourceFile **files;
    int n_files, cap_files;
    Decl **decls;
    int n_decls, cap_decls;
    StrMap decl_by_place;
    StrMap signatures;  /* name of a built-in → its parsed parameters */
    StrMap params;      /* name → Value, of all files */
    int main_file;      /* index of the main file in d->files */
    bool import_failed; /* unknown names may come from the missing import: no message */
    /* where we are */
    Part *part;
    Where here;
    int depth;
    int64_t steps;
    char *stack_base;
    int mark;  /* last one that ev_depends put into nodes */
    bool stop; /* a limit was passed: unwind */
    /* what was met */
    WeightNote *notes;
    int n_notes, cap_notes;
    StrMap claims;   /* path up to a layer's part → the Part that owns it */
    StrMap paths;    /* of weights → non-NULL */
    StrMap suffixes; /* path → the first suffix that is free there */
    struct {
        IrNode *in;
        int vocab;
        IrNode *out;
    } * filters;
    int n_filters, cap_filters;
    StrMap bad_vocabs; /* paths of files that are no vocabularies */
    IrNode **columns;
    int n_columns; /* [column] its node, made when first used */
    OptimizerStmt *opts;
    int n_opts, cap_opts;
    RootNote *predicts;
    int n_predicts, cap_predicts;
    RootNote *losses;
    int n_losses, cap_losses;
    StrMap reported; /* place and text of messages: each is shown once */
    const AstStmt *model_stmt, *input_stmt, *train_stmt;
};

/* eval_core.c: messages, limits, making and describing values */
void ev_error(Ev *ev, Span at, const char *hint, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void ev_warn(Ev *ev, Span at, const char *hint, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
const char *ev_among(Ev *ev, const char *what, const char *const *words, int n); /* "WHAT a, b and c" */
Span ev_user_span(const Ev *ev, Span s);  /* a span in the library becomes that of the user's call */
void ev_at(Ev *ev, Span s);               /* nodes built from now on belong here */
bool ev_step(Ev *ev, Span at, int64_t n); /* counts n evaluation steps; false: a limit is passed */
bool ev_room(Ev *ev, Span at, size_t bytes);
Value *ev_none(Ev *ev);
Value *ev_bool(Ev *ev, bool b);
Value *ev_number(Ev *ev, double x);
Value *ev_string(Ev *ev, const char *s, size_t n);
Value *ev_list(Ev *ev, Value **items, int n);
Value *ev_tensor(Ev *ev, IrNode *n);             /* NULL for NULL */
const char *ev_describe(Ev *ev, const Value *v); /* "a number", "string column 'c'", "f32[16]" */
const char *ev_number_text(Ev *ev, double x);
bool ev_equal(Ev *ev, const Value *a, const Value *b, Span at);
bool ev_whole(double x, int64_t *out);

/* scope.c */
Scope *scope_new(Ev *ev, Scope *up);
Binding *scope_own(Scope *s, const char *name);
Binding *scope_find(Ev *ev, Scope *s, const char *name, bool hidden);
/* Gives a name its value; an error if the name may not be bound again. place: the text that binds. */
bool scope_bind(Ev *ev, Scope *s, const char *name, Value *v, BindKind kind, Span at, const void *place);
Value *scope_read(Ev *ev, Scope *s, const char *name, Span at); /* unknown: an error with the nearest name */
void scope_import(Ev *ev, Scope *into, const Scope *from, Span at);
void scope_warn_unused(Ev *ev);

/* eval.c, eval_expr.c, eval_op.c, eval_call.c */
typedef enum { FLOW_NEXT, FLOW_RETURN, FLOW_STOP } Flow;
Flow ev_block(Ev *ev, Scope *s, const AstBlock *b, bool top, Value **returned);
/* Evaluates what a statement binds to a name. At the top level the name starts the paths of the weights made
 * meanwhile, in a layer it ends them. */
Value *ev_bound_value(Ev *ev, Scope *s, const AstExpr *e, const char *name, bool top);
Value *ev_expr(Ev *ev, Scope *s, const AstExpr *e);
Value *ev_binary(Ev *ev, const AstExpr *e, Value *a, Value *b);
Value *ev_unary(Ev *ev, const AstExpr *e, Value *a);
Value *ev_call(Ev *ev, Scope *s, const AstExpr *e, const AstExpr *callee, const AstArg *args, int n_args,
               const AstExpr *piped);
Value *ev_words(Ev *ev, Scope *s, const char *param, const AstExpr *e, bool *taken);
/* Binds a bracketed list of options ("a b? c?") that is no call: input, list, train. */
bool ev_options(Ev *ev, Scope *s, const char *what, Span at, const char *params, const AstArg *args, int n,
                Arg *out);

/* names.c */
Part *names_push(Ev *ev, PartKind kind, const char *text, const void *site, int turn);
void names_pop(Ev *ev, Part *part);
const char *names_loop_text(Ev *ev, const Value *v, int turn);
const char *names_weight(Ev *ev);             /* a new path for a weight made here */
void names_reuse(Ev *ev, const char *weight); /* the call that runs uses a weight that was made before */
const char *
names_base(Ev *ev); /* the path that a weight would get, not claimed: what shared(f) starts with */
const char *names_shared_key(Ev *ev, const Part *from, const void *site);
int64_t names_key(Ev *ev, const char *what); /* a number from the path, for dropout */

/* tensor.c */
IrNode *ev_column_node(Ev *ev, int column);
IrNode *ev_f32(Ev *ev, const Value *v, Span at,
               const char *what); /* number, column, weight, tensor → f32 node */
/* *out: the node of a tensor, or of a column as the reader gives it; NULL for other values. False: an error.
 */
bool ev_node(Ev *ev, const Value *v, Span at, IrNode **out);
IrNode *ev_elementwise(Ev *ev, IrOp op, IrNode *x, IrNode *y, Span at);
IrNode *ev_unary_op(Ev *ev, IrOp op, IrNode *x);
IrNode *ev_op_attrs(Ev *ev, IrOp op, IrNode *x, int n, const IrAttr *attrs);
IrNode *ev_reshape(Ev *ev, IrNode *x, int rank, const int64_t *dim);
IrNode *ev_concat(Ev *ev, IrNode **xs, int n, int axis, Span at, const char *what);
IrNode *ev_matmul(Ev *ev, IrNode *a, IrNode *b, Span at);
IrNode *ev_scale(Ev *ev, IrNode *x, double by);
const char *ev_shape(Ev *ev, const IrNode *n); /* type text */
const char *ev_list_hint(const IrNode *n);     /* what makes a row's value of a list's; NULL if n is none */
const char *ev_axis_name(const Ev *ev, int axis);
/* An axis argument for x: *list says that it is the list axis; else *axis counts inside the position. */
bool ev_axis(Ev *ev, const Arg *arg, const IrNode *x, double dflt, bool *list, int *axis);
bool ev_is_list(const IrNode *n);
bool ev_depends(Ev *ev, IrNode *n, bool (*is)(const Ev *, const IrNode *), IrNode **found);
bool ev_is_trained(const Ev *ev, const IrNode *n);
bool ev_is_label(const Ev *ev, const IrNode *n);
/* builtin_loss.c */
bool ev_no_probability(const IrNode *n); /* plainly: a dense layer's output, a logarithm, … */
void ev_unit_label(Ev *ev, int column); /* a label used in bce … accuracy must lie in [0, 1] */

/* args.c: arguments of built-ins, by number; each reports what was expected */
const char *arg_name(Ev *ev, const Call *c, int i);
bool arg_wrong(Ev *ev, const Call *c, int i, const char *hint, const char *expected); /* false */
bool arg_number(Ev *ev, const Call *c, int i, double *out);
bool arg_range(Ev *ev, const Call *c, int i, double lo, double hi, double *out); /* lo ≤ x ≤ hi */
bool arg_whole(Ev *ev, const Call *c, int i, int64_t lo, int64_t hi, int64_t *out);
bool arg_bool(Ev *ev, const Call *c, int i, bool *out);
bool arg_numbers(Ev *ev, const Call *c, int i, double **out, int *n);
bool arg_string(Ev *ev, const Call *c, int i, const char **s, size_t *n);
const char *arg_word(Ev *ev, const Call *c, int i, const char *const *words, int n);
IrNode *arg_f32(Ev *ev, const Call *c, int i);
IrNode *arg_scalar(Ev *ev, const Call *c, int i); /* f32[1] a row */

/* schema.c, roots.c, import.c, finish.c; see there for what is checked */
void ev_input(Ev *ev, Scope *s, const AstStmt *st);
void ev_predict(Ev *ev, Scope *s, const AstStmt *st);
void ev_loss(Ev *ev, Scope *s, const AstStmt *st);
void ev_metric(Ev *ev, Scope *s, const AstStmt *st);
void ev_optimizer(Ev *ev, Scope *s, const AstStmt *st);
void ev_train(Ev *ev, Scope *s, const AstStmt *st);
void ev_enable(Ev *ev, Scope *s, const AstStmt *st);
void ev_param(Ev *ev, Scope *s, const AstStmt *st);
void ev_import(Ev *ev, Scope *s, const AstStmt *st);
bool ev_load_library(Ev *ev);
SourceFile *ev_open(Ev *ev, const char *path, Span at, bool library);
bool ev_finish(Ev *ev);

/* builtin_feature.c: an axis derived from `parent`, called NAME_suffix. -1: a limit is passed */
int ev_new_axis(Ev *ev, IrAxisKind kind, int parent, int64_t max, const char *suffix, Span span);

/* builtin_weight.c */
Value *ev_make_weight(Ev *ev, const Call *c, IrWeight w, bool told, const IrOptimizer *own);

/* Tables of built-ins, each ended by a NULL name. */
extern const Builtin builtins_value[], builtins_feature[], builtins_tensor[], builtins_shape[],
    builtins_reduce[], builtins_along[], builtins_recurrent[], builtins_weight[], builtins_loss[],
    builtins_optimizer[];

#endif
