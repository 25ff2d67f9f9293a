/* The intermediate representation: one IrProgram is a whole model from input schema to optimizer.
 *
 * Ownership: everything lives in IrProgram.arena. Nodes are never freed one by one; passes rebuild
 * node lists. Shapes are per row: the batch dimension is implicit and the type's `live` says how often
 * a value exists. All sizes are in elements unless a name says bytes. */
#ifndef CTRC_IR_IR_H
#define CTRC_IR_IR_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "ir/arena.h"
#include "ir/diag.h"

/* ---- types ---- */
typedef enum { TY_F32, TY_ID, TY_STR, TY_INT, TY_KEY, TY_NONE } IrElem; /* NONE: roots and updates */
typedef enum {
    LIVE_ALWAYS, /* weights, constants, and what is computed from them alone: text `always f32[…]` */
    LIVE_STEP,   /* one value a step: `step f32[…]` */
    LIVE_ROW,    /* `f32[16]`, `id<1000>`, `str`, `int` */
    LIVE_POS,    /* one a position of list axis `axis`: `f32[~h,16]`, `id<1000>[~h]` */
    LIVE_UNIQ    /* one a unique row of table `axis` (a weight index) in this step: `f32[@shops,16]` */
} IrLive;
#define IR_MAX_RANK 6
typedef struct {
    IrElem elem;
    IrLive live;
    int rank;      /* of f32: dimensions inside a row, at least 1; 0 for other elems */
    int axis;      /* LIVE_POS: axis index; LIVE_UNIQ: weight index; else -1 */
    int64_t bound; /* TY_ID: ids are 0 … bound-1 */
    int64_t dim[IR_MAX_RANK];
} IrType;

IrType ir_f32(IrLive live, int axis, int rank, const int64_t *dim);
bool ir_type_eq(IrType a, IrType b);
int64_t ir_type_size(IrType t);  /* elements in one row (position, …): product of dims; 1 for ids */
int64_t ir_type_width(IrType t); /* last dimension */

/* ---- schema ---- */
typedef enum { COL_LABEL, COL_STRING, COL_INT, COL_FLOAT, COL_SKIP } IrColKind;
typedef struct {
    const char *name;
    IrColKind kind;
    int skip;              /* COL_SKIP: how many fields */
    bool is_list;
    char list_sep;
    int axis;              /* list: index of its axis (a shared one, or its own); else -1 */
    bool has_default;
    double default_num;    /* label, int, float */
    const char *default_str;
    int default_len;
    const char *positive, *negative; /* label texts, NULL if none */
    const char *from;      /* header text, NULL: the name */
    int side;              /* 0 the main file, 1 the `beside` file */
    bool used;             /* anything reads it: set by ir_mark_used */
    bool used_predict;     /* a prediction depends on it */
    bool unit_label;       /* used in bce…accuracy: must lie in [0,1] and may not be empty */
    Span span;
} IrColumn;

typedef enum { AXIS_LIST, AXIS_FIRST, AXIS_LAST, AXIS_FILTER, AXIS_APPEND, AXIS_KINDS } IrAxisKind;
extern const char *const ir_axis_kinds[AXIS_KINDS]; /* as texts call them: "list" … */
typedef struct {
    const char *name;
    IrAxisKind kind; /* AXIS_LIST: of columns; else derived from `parent` */
    int parent;      /* derived: index, else -1 */
    int64_t max;     /* AXIS_LIST: declared max (only the first max are used), 0 none; FIRST/LAST: n;
                        APPEND: one more than the parent can have, 0 if that has no max */
    bool shared;     /* declared with axis =: lists stay aligned */
    Span span;
} IrAxis;

typedef enum { IN_CSV, IN_TSV, IN_LIBSVM, IN_LIBFFM } IrInputKind;
typedef struct {
    IrInputKind kind;
    char separator, quote; /* quote 0: none */
    bool header, trim;
    const char **missing;
    int n_missing;
    IrColumn *columns;
    int n_columns, cap_columns;
    const char *beside; /* suffix, NULL if there is no second file */
} IrInput;

typedef struct {
    const char *path; /* NULL: values listed in the program; then `values` is printed */
    uint64_t digest;  /* XXH3 of the values, each followed by '\n' */
    const char **values;
    int *lens;
    int64_t n;
    Span span;
} IrVocab;

/* ---- weights ---- */
typedef enum {
    INIT_ZEROS, INIT_ONES, INIT_CONSTANT, INIT_NORMAL, INIT_TRUNCATED_NORMAL, INIT_UNIFORM,
    INIT_GLOROT_UNIFORM, INIT_GLOROT_NORMAL, INIT_HE_NORMAL
} IrInit;
typedef struct {
    const char *name; /* path: deep.mlp.0.dense.kernel */
    int rank;
    int64_t dim[IR_MAX_RANK];
    IrInit init;
    double init_arg;   /* c, s or a */
    bool trainable;
    bool table;        /* made by table() */
    bool lazy;         /* updated on touched rows only: a table, or all uses are products with a one-hot */
    bool running;      /* a running statistic */
    int optimizer;     /* index, -1 if not trained */
    int own_optimizer; /* the table's own `optimizer =`, -1 */
    bool sparse;       /* set by lazy-update: every use goes through fetch, so rows may be stored as met */
    Span span;
} IrWeight;

typedef enum { SCHED_CONST, SCHED_EXPONENTIAL, SCHED_COSINE, SCHED_PIECEWISE, SCHED_WARMUP } IrSchedKind;
typedef struct IrSched {
    IrSchedKind kind;
    double lr;            /* CONST; start of EXPONENTIAL and COSINE */
    double rate, every;   /* EXPONENTIAL: lr * rate^(t/every) */
    double steps, end;    /* COSINE, WARMUP: steps */
    double *at, *values;  /* PIECEWISE: n bounds, n+1 values */
    int n;
    struct IrSched *then; /* WARMUP: the schedule it rises to */
} IrSched;

typedef enum {
    OPT_SGD, OPT_MOMENTUM, OPT_ADAGRAD, OPT_ADAGRAD_DECAY, OPT_RMSPROP, OPT_ADAM, OPT_ADAM_ASYNC, OPT_FTRL
} IrOptKind;
typedef struct {
    IrOptKind kind;
    IrSched lr;
    double clip_norm, l2;      /* 0: none */
    double momentum;           /* momentum */
    double init, rate, every;  /* adagrad, adagrad_decay, ftrl's init */
    double beta1, beta2, eps;  /* adam, adam_async, rmsprop's eps */
    double rho;                /* rmsprop */
    double l1_ftrl, l2_ftrl;   /* ftrl's own */
    bool exact;                /* adam: tables as a dense Adam would */
    const char **targets;      /* `for` selectors, none: everything else */
    int n_targets;
    Span span;
} IrOptimizer;
/* Slots that an optimizer keeps for each element: names as in checkpoints ("m", "v"), count returned. */
int ir_opt_slots(const IrOptimizer *o, const char *names[3]);
const char *ir_opt_name(IrOptKind k);   /* "adam" … */
const char *ir_init_name(IrInit i);

/* ---- nodes ---- */
typedef enum {
#define OP(id, ...) OP_##id,
#include "ir/ops.def"
#undef OP
    OP_COUNT
} IrOp;
typedef enum { CLASS_SRC, CLASS_READ, CLASS_EW, CLASS_MOVE, CLASS_RED, CLASS_PROD, CLASS_TAB, CLASS_NORM,
               CLASS_UPD, CLASS_ROOT, CLASS_REG } IrClass;
typedef enum { EFFECT_PURE, EFFECT_READS, EFFECT_WRITES, EFFECT_ROOT } IrEffect;

typedef struct {
    const char *key;
    char kind; /* i b w c x v o -> i; f -> f; s -> s; I, F -> list */
    union {
        int64_t i;
        double f;
        const char *s;
        struct { int64_t *v; int n; } ilist;
        struct { double *v; int n; } flist;
    };
} IrAttr;

/* How the backend runs a node: filled by `schedule` and `plan-memory`, printed after '#'. */
typedef enum { DOM_NONE, DOM_ROWS, DOM_UNIQ, DOM_TILES, DOM_ONE } IrDomain;
typedef enum { KERNEL_NONE, KERNEL_LOOP, KERNEL_TILE, KERNEL_LIBRARY, KERNEL_AMX } IrKernel;
typedef enum { REGION_NONE, REGION_FIXED, REGION_AXIS, REGION_UNIQ, REGION_INPUT, REGION_LOCAL, N_REGIONS } IrRegionKind;
typedef struct {
    int phase;         /* -1 unset; a barrier stands between phases */
    IrDomain domain;   /* ROWS: blocks of rows (and the positions in them); UNIQ: blocks of a table's unique
                          rows; TILES: tiles of a step-wide result; ONE: the first thread alone */
    int block;         /* rows (unique rows, tiles) a block */
    IrKernel kernel;
    IrRegionKind region;
    bool per_block;    /* the place holds the rows (positions) of one micro-batch at a time, not of the whole step */
    int64_t offset;    /* FIXED: bytes into the fixed arena. AXIS, UNIQ: elements a position (unique row) that
                          lie before it in that axis's (table's) arena: address = base + 4 * offset * capacity.
                          LOCAL: the same two, for a value a row and one a position, in arenas that each thread has
                          for the block of rows that it is at */
    int64_t col, ld;   /* a value within another's place: elements of the other's first unit before its own, and
                          elements from a unit to the next; ld 0: its own size. address += 4 * (col + unit * ld) */
} IrPlan;

typedef struct IrNode IrNode;
typedef struct IrBody IrBody;
struct IrNode {
    IrOp op;
    int id;           /* printed as %id; renumbered by ir_renumber */
    IrType type;
    IrNode **in;
    int n_in;
    IrAttr *attrs;
    int n_attrs;
    Span span;
    const char *name; /* layer path it came from ("deep.mlp.0.dense"), or NULL */
    IrBody *body;     /* regions */
    IrPlan plan;
    void *aux;        /* scratch of the running pass */
    int mark;         /* scratch of the running pass */
};
struct IrBody { /* a list of nodes in order: operands stand before their uses */
    IrNode **nodes;
    int n, cap;
};
typedef struct {
    const char *name; /* "model" from the frontend; "train", "eval", "predict" after differentiate */
    IrBody body;
    int64_t fixed_bytes;   /* of the arena; set by plan-memory */
    int64_t *axis_elems;   /* [n_axes] elements a position */
    int64_t *uniq_elems;   /* [n_weights] elements a unique row */
    int64_t lower_bytes;   /* largest sum of live fixed values in any phase */
    int64_t local_bytes;   /* of a thread's arena for the rows of a block; set by plan-memory */
    int64_t *local_elems;  /* [n_axes] elements a position of the block's */
    int64_t blocks;        /* micro-batches a step, set by micro-batch; 0: the step is run in one piece. Block m of n
                              has rows m*rows/n to (m+1)*rows/n */
    int loop_first, loop_last; /* the phases that are run for one block after the other; set by schedule */
} IrFunc;

typedef struct { const char *name; bool is_string; double num; const char *str; } IrParam;

enum { IR_MAX_BATCH = 1 << 24 };
typedef struct IrProgram {
    Arena *arena;
    Diag *diag;
    const char *name;          /* model NAME */
    const char *source;        /* path of the main file */
    uint64_t digest;           /* XXH3 of the source texts and params */
    IrInput input;
    IrAxis *axes;         int n_axes, cap_axes;
    IrVocab *vocabs;      int n_vocabs, cap_vocabs;
    IrWeight *weights;    int n_weights, cap_weights;
    IrOptimizer *opts;    int n_opts, cap_opts;
    IrParam *params;      int n_params, cap_params;
    IrFunc **funcs;       int n_funcs, cap_funcs;
    const char **applied; int n_applied, cap_applied;   /* passes already run, with arguments */
    Span *applied_spans;  int n_applied_spans, cap_applied_spans; /* of those that the text lists, in their order */
    const char *settled;       /* arguments that the pass just run found out itself, to be recorded as its own; or NULL */
    const char **effects; int n_effects, cap_effects;   /* what each did: "split-concat: …" */
    const char **requests; int n_requests, cap_requests; /* enable/disable lines of the file: "+p(args)" "-p" */
    Span *request_spans;  int n_request_spans, cap_request_spans; /* of each */
    int64_t batch, epochs, steps, shuffle, seed; /* train(…); 0 steps: no limit */
    Span text_end;        /* of the IR text that it was read from, where what lacks should stand; else no place */
    Span train_at;        /* of train(…) there */
    int next_id;
} IrProgram;

/* ---- op table ---- */
typedef struct {
    const char *id, *text, *attrs, *meaning;
    int min_in, max_in;
    IrEffect effect;
    IrClass cls;
} IrOpInfo;
extern const IrOpInfo ir_ops[OP_COUNT];
int ir_op_by_text(const char *text); /* -1 if unknown */
/* The result type; false: *why holds what is wrong ("expected …, found …"), in the program's arena. */
bool ir_infer(IrProgram *p, const IrNode *n, IrType *out, const char **why);
typedef struct { double flops, bytes; } IrCost; /* a row / position / unique row / step, as the result lives */
IrCost ir_cost(const IrProgram *p, const IrNode *n);
/* Work of a step of a whole batch, for choosing and for reports. How long lists are and how many rows of a table
 * differ is only known when data comes: a list counts with its declared maximum, else with a guess, and each row
 * of the batch meets a row of its own in each table, as far as the table has that many. */
enum { IR_GUESSED_POSITIONS = 20 };
int64_t ir_positions(const IrProgram *p, int axis, bool *known); /* a row; *known: a maximum is declared */
double ir_step_elements(const IrProgram *p, IrType t);           /* of all values of the type */
/* bytes: every operand read once, the result written once; of tables the rows at hand */
IrCost ir_step_cost(const IrProgram *p, const IrNode *n);
bool ir_runs(const IrNode *n); /* has a kernel; before `schedule`: will have one */
/* What a function does in such a step, in sum. */
typedef struct {
    int ops; /* that run */
    double flops, bytes;
    int phases, barriers; /* 0 before `schedule`; with micro-batches, barriers of all blocks */
} IrWork;
IrWork ir_func_work(const IrProgram *p, const IrFunc *f);

/* ---- places within places (view.c) ----
 * A view is a reshape or slice that schedule gave domain none: it isn't run, and is its operand's place. */
bool ir_is_view(const IrNode *n);
const IrNode *ir_viewed(const IrNode *n); /* the node in whose place n stands: n's operand and so on, or n */
/* Whether part of an axis is one run of elements in each unit's value: all dimensions before it are 1. */
bool ir_one_run(IrType t, int64_t axis);
int64_t ir_unit_stride(const IrNode *n); /* elements from one unit's value to the next */
/* What a view's plan says of its place, by its operand's. */
IrPlan ir_view_place(const IrNode *view);
/* Whether n's kernel can read operand k, and write its result, with other values' elements between units. */
bool ir_reads_strided(const IrNode *n, int k);
bool ir_writes_strided(const IrNode *n);
/* The node whose kernel makes part k of a concat: the operand, or what it is a reshape of. */
IrNode *ir_part(const IrNode *concat, int k);
/* What the plan says of part k's place if the part is made within the concat's, whose place is known. */
IrPlan ir_part_place(const IrNode *concat, int k);
bool ir_in_place(const IrNode *concat, int k); /* whether the plans say so */
bool ir_all_in_place(const IrNode *n);         /* of a concat's parts all are: it has no kernel */
bool ir_stands_in(const IrNode *x, const IrNode *n); /* n itself, a view of it, or a part made within it */
/* Whether x's kernel writes within n's place: x itself stands there, or another result of the region that x is. */
bool ir_writes_within(const IrBody *b, const IrNode *x, const IrNode *n);
int ir_first_write(const IrNode *n);           /* first phase that writes within n's place */

/* ---- building ---- */
IrProgram *ir_program_new(Arena *a, Diag *d);
IrFunc *ir_func_new(IrProgram *p, const char *name);
IrFunc *ir_func(const IrProgram *p, const char *name); /* NULL if missing */
/* Values of a vocabulary file, one a line (LF or CRLF), into v: values, lens, n, digest. v->path and v->span are
 * the caller's. False after an error at v->span: unreadable, empty, a value that stands there twice. */
bool ir_vocab_load(IrProgram *p, IrVocab *v);
/* The same digest for values listed in the program. */
uint64_t ir_vocab_digest(const IrVocab *v);
int ir_weight_by_name(const IrProgram *p, const char *name); /* -1 */
int ir_column_by_name(const IrProgram *p, const char *name); /* -1 */

/* A builder appends nodes to a body, giving each the current span and name. When shape inference fails it
 * reports the error at the span, and returns NULL; NULL operands give NULL without a further message. */
typedef struct { IrProgram *p; IrBody *body; Span span; const char *name; } IrBuilder;
IrNode *ir_build(IrBuilder *b, IrOp op, int n_in, IrNode *const *in, int n_attrs, const IrAttr *attrs);
IrNode *ir_build1(IrBuilder *b, IrOp op, IrNode *x);
IrNode *ir_build2(IrBuilder *b, IrOp op, IrNode *x, IrNode *y);
IrNode *ir_const(IrBuilder *b, double value);                   /* always f32[1] */
/* Regions: first the body, with a builder of its own whose `arg`s take the operands' types, then the region. */
IrNode *ir_arg(IrBuilder *b, int index, IrType type);
IrNode *ir_fused(IrBuilder *b, const char *kind, int n_in, IrNode *const *in, IrBody *body);
IrNode *ir_clone_node(IrProgram *p, const IrNode *n);            /* operands and body as they are */

IrAttr ir_ai(const char *key, int64_t v);
IrAttr ir_ab(const char *key, bool v);
IrAttr ir_af(const char *key, double v);
IrAttr ir_as(const char *key, const char *v);
IrAttr ir_ail(Arena *a, const char *key, const int64_t *v, int n); /* copies */
IrAttr ir_afl(Arena *a, const char *key, const double *v, int n);  /* copies */
const IrAttr *ir_attr(const IrNode *n, const char *key); /* NULL if absent */
int64_t ir_attr_i(const IrNode *n, const char *key);     /* aborts if absent: a mistake of ours */
double ir_attr_f(const IrNode *n, const char *key);
const char *ir_attr_s(const IrNode *n, const char *key);

/* ---- whole-program helpers ---- */
void ir_renumber(IrProgram *p);          /* ids in printing order, from 0 in each function */
void ir_mark_used(IrProgram *p);         /* columns: used, used_predict */
int ir_count_uses(IrBody *b, const IrNode *n);
bool ir_is_reader(const IrNode *n);      /* made by the reader stage: columns and class READ */
/* What writes weights: n itself, or the last node of a region that does; else NULL. */
const IrNode *ir_writer(const IrNode *n);
/* What the body gives as the region's result number `index`, 1 or more, by an `out`; NULL: there is none. */
const IrNode *ir_result(const IrNode *region, int index);
/* Of a product or quotient with a number f32[1] the operand that it scales; -1 if n is none. */
int ir_scaled_operand(const IrNode *n);
bool ir_sums_gradient(const IrNode *n);    /* over the rows of the step, of a weight: what such a region begins with */
bool ir_is_update_region(const IrNode *n); /* a region that writes a weight: its gradient's sum, then the update */
const IrNode *ir_product_of(const IrNode *n); /* the matrix product (class PROD) that n is or holds, else NULL */
bool ir_is_recurrent(const IrNode *n);   /* gru, augru and their gradients */
bool ir_same_dims(IrType a, IrType b);   /* rank and sizes, however often the values live */
/* Sets each node's mark to the last phase that reads its place; what the runtime reads after the step (operands of
 * roots) lives to the function's last phase. Needs phases. */
void ir_last_reads(const IrBody *b);
/* In a function that changes no weight, what is made of weights alone is made in its first run and kept for the next
 * ones: its place is its own in all phases. */
bool ir_is_kept(const IrFunc *f, const IrNode *n);
/* The phases that first write and last read n's place become those in which it is n's own: all of them if n is kept. In
 * a function whose phases loop_first to loop_last are run block after block, what comes from before lasts through all
 * blocks, and what is read behind them grows from the first on. */
void ir_whole_life(const IrFunc *f, const IrNode *n, int *first, int *last);
/* Rows for which a thread runs all of a phase's kernels before it takes the next ones: the largest block of any
 * node in domain rows, since threads must own the same rows in every node of a phase. */
int64_t ir_row_block(const IrFunc *f);
/* Does a product (a pack: those that read it) round its operands to bfloat16? Not of a region. */
bool ir_takes_bf16(const IrNode *n);
/* Elements that the place of one of n's values holds: those of its type; of a `pack` with its panels' padding to
 * whole vectors, of up to PACK_LANES elements; with bf16 half of them, two terms being a pair, an odd one's with 0. */
enum { PACK_LANES = 16 };
int64_t ir_place_elements(const IrNode *n);
int64_t ir_axis_max(const IrProgram *p, int axis); /* most positions that a row can have along it, 0: no limit */
const char *ir_axis_described(const IrProgram *p, int axis); /* "list column 'hist_item' (axis 'h')" */
/* Is a layer's or weight's path the pattern, or is its beginning up to a dot? '*' stands for any characters. */
bool ir_path_matches(const char *path, const char *pattern);
bool *ir_named_weights(const IrProgram *p); /* [n_weights] of each, whether a node names it; in the arena */
/* Takes the weights marked in `drop`, which no node may name, out of a program without a plan; the others move up.
 * Returns of each former number the new one, -1 for those that went; in the arena. */
int *ir_drop_weights(IrProgram *p, const bool *drop);
void ir_fans(const IrWeight *w, double *fan_in, double *fan_out); /* last two dimensions */

/* ---- regions that end in a reduction (kinds reduce and attention): region.c ---- */
typedef struct {
    const IrNode *last;         /* the reduction */
    const IrNode *value;        /* what is reduced; of attention: what is weighed */
    const IrNode *weight;       /* the seg_softmax of a number a position that `value` is multiplied by, or NULL */
    IrType of;                  /* what is reduced */
    int axis;                   /* inside a row, or -1: along a list, over the step's rows */
    int64_t outer, size, inner; /* elements before that axis, along it, after it; axis -1: size 0 */
} IrReduction;
enum { WALK_UNIT, WALK_OUTER, WALK_ALONG, WALK_INNER, IR_WALK_STEPS };
bool ir_ends_in_reduction(const IrNode *n);
/* One of block_sums' kind, or a region that ends in it: each block of ir_block_rows rows gives its own part of
 * a value of the step. */
bool ir_of_row_block(const IrNode *n);
int64_t ir_block_rows(const IrNode *n);
IrOp ir_runs_as(const IrNode *n);        /* the reduction that a region ends in; else n's op */
bool ir_reducible(IrOp op);              /* such a region may end in it */
IrReduction ir_reduction(const IrNode *last);
/* Elements of a value of type t from one unit, outer index, index along the reduction and inner index to the next;
 * false if t doesn't stretch to r->of in such a way. A row's value among positions: none a unit. */
bool ir_walk(const IrReduction *r, IrType t, int64_t step[IR_WALK_STEPS]);

/* ---- text ---- */
void ir_print(const IrProgram *p, FILE *out);
void ir_print_type(const IrProgram *p, IrType t, FILE *out);
const char *ir_type_text(const IrProgram *p, IrType t); /* in the arena */
/* Only the nodes whose layer name or id ("%12") matches, with their operands and users. */
void ir_print_only(const IrProgram *p, const char *what, FILE *out);
/* Reads IR text. Errors go to d with line and column; returns NULL then. */
IrProgram *ir_read(Arena *a, Diag *d, const char *path, const char *text, size_t size);
/* Operand order, types, attributes, names of weights, regions, plan. False and errors in p->diag. */
bool ir_verify(IrProgram *p);

#endif
