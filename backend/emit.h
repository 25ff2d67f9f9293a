/* Inside the backend: one Emit holds a module while it is built. Not for other folders.
 *
 * Each node becomes one kernel, an internal LLVM function
 *     void kernel(RtStep *step, i64 lo, i64 hi, char *scratch)
 * that computes units lo..hi-1 of the node's domain: rows (for a value along a list: the positions in those
 * rows), unique rows, or tiles. A driver function for each of train, eval, predict hands each thread its
 * share of blocks and sets barriers between phases.
 *
 * Bits never depend on the cut: an element is computed by the same operations in the same order whichever
 * unit range it falls into, so vector code and its scalar tail run the same instructions, nothing is
 * contracted or reassociated by LLVM (no fast-math flag is ever set), and fused multiply-adds are explicit.
 */
#ifndef CTRC_BACKEND_EMIT_H
#define CTRC_BACKEND_EMIT_H
#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include "backend/backend.h"
#include "runtime/abi.h"

typedef LLVMValueRef Val;

enum { EMIT_WHOLE, EMIT_PRODUCTS, EMIT_REST }; /* the rest stands with the drivers and ctrc_model */

typedef struct Emit {
    IrProgram *p;
    Arena *arena;
    IrFunc *f; /* the function being emitted */
    PassTarget target;
    BackendInputs in;
    int W; /* floats in a vector: target.vector_floats */
    bool train;
    int part; /* which kernels are made here: EMIT_WHOLE, or one of the parts that threads make side by side
               */
    LLVMContextRef cx;
    LLVMModuleRef mod;
    LLVMBuilderRef b;
    LLVMTypeRef f32, i1, i8, i32, i64, ptr, none;
    LLVMTypeRef t_step, t_table, t_opt, t_blob, t_model;
    /* the kernel being emitted */
    int64_t local_at; /* bytes of kernels' scratch in this function, behind which the rows of a block stand */
    Val fn, step, lo, hi, scratch;
    const IrNode *region;    /* FUSED node whose body is being emitted: ARG means its operand */
    LLVMBasicBlockRef entry; /* of the kernel: allocas and what is loaded once go here */
} Emit;

/* ---- emit_build.c: values ---- */
Val emit_i64(Emit *e, int64_t v);
Val emit_i32(Emit *e, int64_t v);
LLVMTypeRef emit_vec(Emit *e, int w);         /* float, or <w x float> */
int emit_lanes(Val v);                        /* 1 for a scalar */
Val emit_const(Emit *e, int w, double v);     /* v in every lane */
Val emit_like(Emit *e, Val x, double v);      /* v, typed as x */
Val emit_int_like(Emit *e, Val x, int64_t v); /* v as i32, in as many lanes as x has */
Val emit_splat(Emit *e, Val scalar, int w);
Val emit_add(Emit *e, Val a, Val b); /* integers */
Val emit_sub(Emit *e, Val a, Val b);
Val emit_mul(Emit *e, Val a, Val b);
Val emit_scale(Emit *e, Val a, int64_t k); /* a * k */
Val emit_min_i64(Emit *e, Val a, Val b);
Val emit_udiv(Emit *e, Val a, Val b);
Val emit_fadd(Emit *e, Val a, Val b);
Val emit_fsub(Emit *e, Val a, Val b);
Val emit_fmul(Emit *e, Val a, Val b);
Val emit_fdiv(Emit *e, Val a, Val b);
Val emit_fma(Emit *e, Val a, Val b, Val c);                     /* a * b + c, one rounding */
Val emit_intrinsic(Emit *e, const char *name, Val *x, int n);   /* overloaded on the type of x[0] */
Val emit_instruction(Emit *e, const char *name, Val *x, int n); /* an intrinsic of one type */
Val emit_select(Emit *e, Val c, Val a, Val b);
Val emit_fcmp(Emit *e, LLVMRealPredicate p, Val a, Val b);
Val emit_icmp(Emit *e, LLVMIntPredicate p, Val a, Val b);
Val emit_to_i64(Emit *e, Val u32);
Val emit_to_f32(Emit *e, Val unsigned_int);
Val emit_take(Emit *e, Val vec, int from, int w); /* lanes from..from+w-1; a scalar if w is 1 */
Val emit_hsum(Emit *e, Val vec);                  /* halves added until one is left */

/* ---- emit_build.c: memory ---- */
Val emit_at(Emit *e, Val base, Val floats); /* base + floats, as float * */
Val emit_at_const(Emit *e, Val base, int64_t floats);
Val emit_at_bytes(Emit *e, Val base, Val bytes);
Val emit_load_vec(Emit *e, Val p, int w);
void emit_store(Emit *e, Val v, Val p);
enum { CACHE_LINE = 16 }; /* floats */
void emit_prefetch(Emit *e, Val p, bool to_write);
void emit_prefetch_run(Emit *e, Val p, int64_t floats, bool to_write); /* a line after the other */
void emit_prefetch_far(Emit *e, Val p);                                /* into the second-level cache */
Val emit_load(Emit *e, LLVMTypeRef t, Val p);
Val emit_load_elem(Emit *e, LLVMTypeRef t, Val base, Val index); /* base[index] of type t */
Val emit_var(Emit *e, LLVMTypeRef t);                            /* a local variable; becomes a register */
void emit_set(Emit *e, Val var, Val v);
Val emit_get(Emit *e, Val var);
Val emit_i32_table(Emit *e, const int64_t *v, int n); /* constant array of i32 */

/* ---- emit_build.c: control ---- */
typedef struct {
    LLVMBasicBlockRef head, exit;
    Val i, step;
} EmitLoop;
/* for (i = lo; i < hi; i += step): code that follows is the body until emit_end. Signed i64. */
EmitLoop emit_for(Emit *e, Val lo, Val hi, int64_t step);
void emit_end(Emit *e, EmitLoop *l);
typedef struct {
    LLVMBasicBlockRef other, after;
    bool has_else;
} EmitIf;
EmitIf emit_if(Emit *e, Val cond);
void emit_else(Emit *e, EmitIf *f);
void emit_fi(Emit *e, EmitIf *f);

/* ---- emit_build.c: functions ----
 * Opens an internal function whose first argument is the step, for code to follow; closing it goes back to
 * the one before. */
typedef struct {
    Val fn, step, lo, hi, scratch;
    LLVMBasicBlockRef entry, block;
} EmitFn;
EmitFn emit_fn_open(Emit *e, const char *name, LLVMTypeRef *args, int n);
void emit_fn_close(Emit *e, const EmitFn *outer);
/* A function that several kernels call, by its name, which must say all that it depends on. True: it is new,
 * and open to be filled. Shared functions know no node: all places come as arguments. */
bool emit_shared_open(Emit *e, const char *name, LLVMTypeRef *args, int n, Val *f, EmitFn *outer);
void emit_shared_call(Emit *e, Val f, Val *args, int n);

/* ---- emit_abi.c: the names of runtime/abi.def ---- */
#define EMIT_FIELD_(type, name) STEP_##name,
enum { RT_STRUCT_STEP(EMIT_FIELD_) };
#undef EMIT_FIELD_
#define EMIT_FIELD_(type, name) TABLE_##name,
enum { RT_STRUCT_TABLE_BATCH(EMIT_FIELD_) };
#undef EMIT_FIELD_
#define EMIT_FIELD_(type, name) OPT_STEP_##name,
enum { RT_STRUCT_OPT_STEP(EMIT_FIELD_) };
#undef EMIT_FIELD_
void emit_abi_types(Emit *e);
void emit_abi_functions(Emit *e);
Val emit_step_ptr(Emit *e, int field);             /* address of a field of *step */
Val emit_step(Emit *e, int field);                 /* its value */
Val emit_step_elem(Emit *e, int field, int index); /* pointer that an array field holds at index */
Val emit_table(Emit *e, int weight, int field);    /* field of step->tables[weight] */
Val emit_opt(Emit *e, int weight, int field);
Val emit_call(Emit *e, const char *name, Val *args, int n);

/* ---- emit_profile.c ---- */
void emit_mark(Emit *e, int64_t what);
void emit_hand_over(Emit *e, Val checked, Val marked);

/* ---- emit_place.c: where values stand ---- */
/* Base address of a whole value, loaded once in the kernel's entry. An ARG is the region's operand. */
Val emit_base(Emit *e, const IrNode *n);
int64_t emit_unit(const Emit *e, const IrNode *n); /* floats from one unit's value to the next */
const IrNode *emit_operand(const Emit *e, const IrNode *n, int i); /* n->in[i], through ARG */
Val emit_offsets(Emit *e, int axis);                               /* u32 * */
Val emit_offset(Emit *e, int axis, Val row);                       /* i64: positions before the row */
/* The units of a type that the kernel's lo..hi covers: rows, positions, unique rows; 0..1 for a step. */
void emit_units(Emit *e, IrType t, Val *lo, Val *hi);
/* How many units of a type there are in the whole step; of rows and positions, in a function that is run by
 * blocks, those of the present block, and which is the first of them. */
Val emit_unit_count(Emit *e, IrType t);
Val emit_first_unit(Emit *e, IrType t);
Val emit_first_of(Emit *e, const IrNode *n); /* address of that unit's value */
/* In a function that is run by blocks: whether sums over rows hold those of earlier blocks (i1); else NULL.
 */
Val emit_more(Emit *e);
Val emit_grown(Emit *e, Val v, Val at); /* v, with what stands at `at` if there is more */

/* ---- emit_nest.c: loops over elements ---- */
enum { NEST_DIMS = IR_MAX_RANK + 2, NEST_REFS = 64 };
typedef struct {
    Val base;                  /* NULL: an index; its value is the element number itself */
    Val start;                 /* NULL or i64: elements before the first */
    int64_t stride[NEST_DIMS]; /* elements, by dimension */
    int64_t row_size; /* not 0: a row's value that repeats along its positions, of that many elements */
    Val at, hoisted;  /* while emitting: element offset, or the value if the inner stride is 0 */
} NestRef;
typedef struct EmitNest EmitNest;
struct EmitNest {
    int n;                  /* dimensions, the outermost first */
    int64_t dim[NEST_DIMS]; /* dim[0] is ignored if lo is given */
    Val lo, hi;             /* range of dimension 0; NULL: 0..dim[0] */
    int n_ref;
    NestRef ref[NEST_REFS];
    int max_w; /* widest vector to use, 0: the target's */
    void (*body)(Emit *e, EmitNest *n, int w, void *user);
    void *user;
};
/* Joins dimensions that all refs walk as one. */
void emit_nest_merge(Emit *e, EmitNest *n);
void emit_nest(Emit *e, EmitNest *n);
/* Dimension 0 counts the units of t that the kernel's lo..hi covers; rows are walked where a ref has
 * row_size. */
void emit_nest_units(Emit *e, EmitNest *n, IrType t);
/* A ref to n's value for a nest over the units and dimensions of `to`. */
NestRef emit_ref(Emit *e, const IrNode *n, IrType to);
Val emit_ref_load(Emit *e, EmitNest *n, int ref, int w);
void emit_ref_store(Emit *e, EmitNest *n, int ref, Val v);
Val emit_ref_index(Emit *e, EmitNest *n, int ref, int w);      /* u32 in each lane */
void emit_copy(Emit *e, EmitNest *n);                          /* ref 0 = ref 1 */
void emit_copy_units(Emit *e, EmitNest *n, IrType t);          /* the same over units of t */
void emit_fill(Emit *e, Val base, Val from, Val to, double v); /* floats from..to-1 */
/* Calls piece(first, w) for constant widths that make up n lanes: whole vectors, then 8, 4, 2, 1. */
typedef void (*EmitPiece)(Emit *e, int first, int w, void *user);
void emit_pieces(Emit *e, int n, EmitPiece piece, void *user);
/* emit_weave.c: EmitWeave w = emit_weave(e); then emit_woven(e, &w) behind each piece of code, emit_weave_end behind
 * the last one. */
enum { WEAVE_PIECES = 6 };
typedef struct {
    LLVMBasicBlockRef block; /* NULL: nothing is woven any more */
    Val last, next[WEAVE_PIECES];
    int n, left[WEAVE_PIECES];
} EmitWeave;
EmitWeave emit_weave(Emit *e);
void emit_woven(Emit *e, EmitWeave *w);
void emit_weave_end(Emit *e, EmitWeave *w);
/* Calls body with up to GROUP_PIECES pieces at a time, at columns col + first[i], that make up `columns`. */
enum { GROUP_PIECES = 8 };
typedef struct {
    int n, first[GROUP_PIECES], w[GROUP_PIECES];
} EmitGroup;
typedef void (*EmitGroupBody)(Emit *e, Val col, const EmitGroup *g, void *user);
void emit_groups(Emit *e, int64_t columns, EmitGroupBody body, void *user);
/* Tiles lo..hi-1 of TILE_COLUMNS columns each: body with the pieces of each. */
enum { TILE_COLUMNS = 16 };
int64_t emit_column_tiles(int64_t columns);
void emit_columns(Emit *e, int64_t columns, Val lo, Val hi, EmitGroupBody body, void *user);

/* ---- emit_math.c ---- */
Val emit_exp(Emit *e, Val x);
Val emit_exp_negative(Emit *e, Val x); /* x <= 0, or NaN */
Val emit_log(Emit *e, Val x);
Val emit_log1p(Emit *e, Val x);
Val emit_sigmoid(Emit *e, Val x);
Val emit_tanh(Emit *e, Val x);
Val emit_erf(Emit *e, Val x);
Val emit_softplus(Emit *e, Val x);
Val emit_sqrt(Emit *e, Val x);
Val emit_abs(Emit *e, Val x);
Val emit_round_bf16(Emit *e, Val x); /* to nearest, ties to even; NaN as it is */

/* ---- emit_ew.c ---- */
typedef Val (*EmitLeaf)(Emit *e, const IrNode *n, int w, void *user);
/* An elementwise expression: from root down to the leaves, which are all nodes that aren't elementwise,
 * `stop`, and, unless `whole`, everything but root. `leaf` gives a leaf's value, `index` a dropout's element
 * numbers. */
typedef struct {
    const IrNode *root, *stop;
    bool whole;
    EmitLeaf leaf, index;
    void *user;
} EmitBody;
Val emit_body_value(Emit *e, const EmitBody *b, int w); /* w lanes at one place */
int64_t emit_ew_tiles(Emit *e, const IrNode *n);
void emit_ew_kernel(Emit *e, const IrNode *n);
/* The elementwise nodes of a region's body after `first`, on `first`'s value, which stands in the region's
 * place. */
void emit_ew_epilogue(Emit *e, const IrNode *fused, const IrNode *first);
bool emit_is_ew(const IrNode *n);
/* Strides of a value of type t along the dimensions of a result of type `to`; dimension 0 counts units. The
 * second: of n's value where it stands. */
void emit_strides(IrType t, IrType to, int64_t *out);
void emit_strides_of(const Emit *e, const IrNode *n, IrType to, int64_t *out);

/* ---- emit_pack.c: the right side of a product in panels ---- */
typedef struct {
    int64_t count[4]; /* panels of that many vectors; the widest come first */
} EmitPanels;
EmitPanels emit_panels(int W, int64_t n);
/* Calls body for all panels of n columns: the first column, vectors, and columns that exist. */
typedef void (*EmitPanelBody)(Emit *e, Val col, int vectors, int cols, void *user);
void emit_each_panel(Emit *e, int64_t n, EmitPanelBody body, void *user);
int64_t emit_packed_floats(int W, int64_t terms, int64_t n);
typedef struct {
    Val b; /* element (l, j) at b[l * b_row + j * b_col]; one of the two is 1 */
    int64_t b_row, b_col;
    Val to;
    int64_t n; /* columns */
    Val terms;
    bool bf16; /* pairs of terms, each in the place of one */
} EmitPack;
void emit_pack(Emit *e, const EmitPack *p);
void emit_transpose(Emit *e, Val *v, int n); /* n vectors of n lanes; 8 or 16 */
int64_t emit_pack_tiles(const PassTarget *t, const IrNode *n);

/* ---- emit_tile.c: products ---- */
/* What is done to the finished elements before they are stored: f(value, row, first column, lanes). Tiles are
 * shared by products with equal keys, so f finds its operands at the addresses that the array `places` holds.
 */
typedef struct {
    Val (*f)(Emit *e, Val acc, Val row, Val col, int w, Val places, void *user);
    void *user;
    const char *key;
    Val places;
} EmitEpilogue;
typedef struct {
    int64_t n, k; /* columns of the result, length of the sums */
    Val a;        /* element (i, l) at a[i * a_row + l * a_col] */
    int64_t a_row, a_col;
    Val b; /* element (l, j) at b[l * b_row + j * b_col] */
    int64_t b_row, b_col;
    bool packed; /* b is in panels already */
    bool bf16;   /* a and b are rounded to bfloat16; the panels hold pairs */
    bool amx;    /* with bf16: by AMX, between emit_amx_open and emit_amx_close */
    Val c;       /* element (i, j) at c[i * c_row + j] */
    int64_t c_row;
    int packs_a; /* 0; else A comes in packed strips of that many rows, as tiles use them */
    bool accumulate;
    Val row_base;                 /* NULL, or what the epilogue's row numbers begin with */
    const EmitEpilogue *epilogue; /* NULL: none */
} EmitGemm;
/* Rows lo..hi-1 of C = A B, by register tiles on packed panels. */
void emit_gemm(Emit *e, const EmitGemm *g, Val lo, Val hi);
int64_t emit_gemm_scratch(const PassTarget *t, int64_t n, int64_t k);
int64_t emit_gemm_bf16_scratch(const PassTarget *t, int64_t n, int64_t k, bool packed, bool amx);
/* C[k,n] = sum over rows m of x[m,k] g[m,n], tiles of C lo..hi-1 */
typedef struct {
    int64_t k, n, x_row, g_row; /* x_row, g_row: floats from row to row of x and g */
    Val x, g, c, rows;
    bool bf16; /* x and g are rounded to bfloat16 */
    bool amx;  /* as in EmitGemm */
    Val more;  /* i1: the sum is added to what C holds; NULL: never */
    const EmitEpilogue *epilogue;
    /* Where there is no c: sums stand in scratch, in a matrix of the thread's own, and finish gets elements
     * lo..hi-1 of it, counted along its rows, once all terms are in. */
    void (*finish)(Emit *e, Val sums, Val lo, Val hi, void *user);
    void *user;
} EmitGradW;
int64_t emit_grad_w_tiles(const PassTarget *t, int64_t k, int64_t n, bool amx);
int64_t emit_grad_w_scratch(const PassTarget *t, int64_t k, int64_t n, bool amx);
int64_t emit_grad_sums_scratch(int64_t k, int64_t n); /* as well, if there is no c */
void emit_grad_w(Emit *e, const EmitGradW *g, Val lo, Val hi);
enum { EMIT_FIRST = 1, EMIT_LAST = 2 }; /* flags of a block of terms: sums begin with it, and are finished */

/* ---- emit_bf16.c: pairs of bfloat16 in the place of one float ---- */
int64_t emit_terms(int64_t terms, bool bf16); /* slots that hold so many terms */
Val emit_slots(Emit *e, Val terms, bool bf16);
Val emit_bf16_pairs(Emit *e, Val first, Val second); /* of the same lane of both */
Val emit_bf16_load(Emit *e, Val p, int w);           /* w pairs of the 2w floats at p */
Val emit_bf16_dot(Emit *e, Val a, Val b, Val sum);   /* sum + both products of each pair */
/* Of a pair whose first term is number `first`: the second's, and if there is none, the first's again. */
Val emit_bf16_second(Emit *e, Val first, Val terms, Val *exists);
Val emit_bf16_zero_unless(Emit *e, Val exists, Val v);
/* So many rows of A, from `a` on, as pairs: row by row, or side by side if that is how A stands. */
enum { EMIT_BF16_ROWS = 192 }; /* at most */
void emit_bf16_left(Emit *e, const EmitGemm *g, Val a, Val rows, Val to);
void emit_bf16_row(Emit *e, Val from, Val to, int64_t k); /* k terms that stand one after another */

/* ---- emit_amx.c: the same by tiles of 16 rows and 16 slots ---- */
enum { EMIT_AMX_ROWS = 16 };
int64_t emit_amx_row(int64_t slots); /* floats of a row of A: whole tiles */
void emit_amx_open(Emit *e);         /* a kernel's first word, and its last */
void emit_amx_close(Emit *e);
/* Rows of A, g->a_row apart, by a panel of B, to c (g->c_row) and g's epilogue. A ends in zeros
 * (emit_amx_row).
 */
typedef struct {
    int vectors, cols; /* of the panel; columns that exist */
    Val a, b, c, slots, rows, row0, col0, flags;
} EmitAmxPanel;
void emit_amx_panel(Emit *e, const EmitGemm *g, const EmitAmxPanel *p);
/* A in slots, rows emit_amx_row apart: from a matrix by rows or, by the second, from one whose columns are
 * A's rows: term l of row i at from[l * term + i]. Rows are filled up to a multiple of 16. */
void emit_amx_left(Emit *e, const EmitGemm *g, Val a, Val rows, Val to);
typedef struct {
    Val from;
    int64_t term;
    Val terms, rows, to;
    int64_t to_row;
} EmitAmxLeft;
void emit_amx_rows(Emit *e, const EmitAmxLeft *x);

/* ---- emit_library.c: products by calls of rt_gemm ---- */
/* Rows lo..hi-1 of C = A B in one call; tb: B is stored [n,k]. */
void emit_library(Emit *e, const EmitGemm *g, bool tb, Val lo, Val hi);
/* Strips lo..hi-1 of C = x^T g, of so many rows each, a call for each. */
void emit_library_grad(Emit *e, const EmitGradW *g, Val lo, Val hi);
int64_t emit_library_strip(int64_t k);

/* ---- emit_product.c, emit_narrow.c ---- */
/* A product x @ y, or x^T g, in numbers: `many` products a unit of [m,k] by [k,n]. */
typedef struct {
    const IrNode *node; /* MATMUL or MATMULGRADW */
    IrType x, y;
    int64_t m, n, k, many; /* for x^T g: k x n is the result, m the rows of a unit */
    bool ta, tb;
    bool merged; /* y is shared and x not swapped: all rows of all units are one product */
    bool packed; /* y is packed for tiles */
    bool bf16;   /* of operands rounded to bfloat16 */
    bool grad;   /* x^T g */
} EmitProduct;
EmitProduct emit_product(const IrNode *fused, const IrNode *product);
typedef enum { PRODUCT_TILE, PRODUCT_LIBRARY, PRODUCT_NARROW, PRODUCT_PLAIN } EmitChoice;
EmitChoice emit_choice(const PassTarget *t, const IrNode *n); /* how the product in n is made in the end */
bool emit_by_amx(const PassTarget *t, const IrNode *n);       /* a tile by AMX */
const char *emit_choice_why(const PassTarget *t, const IrNode *n);
int64_t emit_product_tiles(const PassTarget *t, const IrNode *n);
int64_t emit_product_scratch(const PassTarget *t, const IrNode *n);
/* The weight gradient in a region, as it is before all else. PRODUCT_TILE: no c is given, but the rest of g's
 * way to finish. Other kernels: tiles e->lo … e->hi - 1 to c, each emit_grad_tile_elements one after another.
 */
void emit_grad_tiles(Emit *e, const IrNode *region, EmitGradW g);
int64_t emit_grad_tile_elements(const PassTarget *t, const IrNode *region);
/* Products with at most four columns: rows dotted with vectors; weight gradients by columns of x. */
enum { NARROW = 4 };
void emit_narrow(Emit *e, const EmitGemm *g, Val lo, Val hi);
int64_t emit_narrow_scratch(int64_t n, int64_t k);
void emit_narrow_grad_w(Emit *e, const EmitGradW *g, Val lo, Val hi);

/* ---- emit_gru.c ---- */
int64_t emit_gru_scratch(const PassTarget *t, const IrNode *n);
/* For the plan: how, in a few words. */
const char *emit_gru_why(const PassTarget *t, const IrNode *n, Arena *a);

/* ---- emit_reduce.c, emit_norm.c, emit_update.c, emit_table.c: tiles of step-wide results ---- */
int64_t emit_update_tiles(int64_t elements);
void emit_sum_tiles(Emit *e, const IrNode *n, Val out); /* of a sum_rows or sum_blocks, to out */
Val emit_blocks(Emit *e, const IrNode *n);              /* how many blocks of n's `rows` rows the step has */
/* Where this block's part of n's value is, n being one of ir_of_row_block. */
Val emit_block_part(Emit *e, const IrNode *n);
int64_t emit_dense_grad_tiles(const IrWeight *w);
/* Tiles that a node's step-wide result is cut into; 1 if it isn't. */
int64_t emit_tiles(Emit *e, const IrNode *n);
/* Scratch bytes that the node's kernel needs. */
int64_t emit_scratch(const IrProgram *p, const PassTarget *t, const IrNode *n);

/* ---- emit_region.c ---- */
void emit_reduction(Emit *e, const IrNode *n); /* a region that ends in one */

/* ---- emit_attend.c ---- */
int64_t emit_attend_scratch(const IrNode *n);

/* ---- one function an op, by the op table ----
 * EW: the value from the operands' values. SRC: the address. Others: the whole kernel. READ ops are done by
 * the reader, and what a step sees of them is an input; ROOT ops are the driver's. */
#define EMIT_DECL_EW(ID) Val emit_##ID(Emit *e, const IrNode *n, Val const *x);
#define EMIT_DECL_SRC(ID) Val emit_##ID(Emit *e, const IrNode *n);
#define EMIT_DECL_READ(ID)
#define EMIT_DECL_ROOT(ID)
#define EMIT_DECL_KERNEL(ID) void emit_##ID(Emit *e, const IrNode *n);
#define EMIT_DECL_MOVE EMIT_DECL_KERNEL
#define EMIT_DECL_RED EMIT_DECL_KERNEL
#define EMIT_DECL_PROD EMIT_DECL_KERNEL
#define EMIT_DECL_TAB EMIT_DECL_KERNEL
#define EMIT_DECL_NORM EMIT_DECL_KERNEL
#define EMIT_DECL_UPD EMIT_DECL_KERNEL
#define EMIT_DECL_REG EMIT_DECL_KERNEL
#define OP(ID, text, mi, ma, at, sh, gr, co, ef, CLS, me) EMIT_DECL_##CLS(ID)
#include "ir/ops.def"
#undef OP
void emit_seg_len_kernel(Emit *e, const IrNode *n);

/* ---- emit.c, target.c ---- */
enum { LEVEL_BF16 = 5, LEVEL_AMX };
typedef struct {
    char *triple, *cpu, *features;
    int level; /* 3 or 4: x86-64-v3, -v4; LEVEL_BF16: -v4 and avx512_bf16; LEVEL_AMX: that and AMX */
    PassTarget pass;
} EmitTarget;
bool emit_target(Diag *d, Arena *a, const char *march, EmitTarget *out);
LLVMTargetMachineRef emit_machine(Diag *d, const EmitTarget *t, int level);
/* An empty module and a builder, types and declarations of the runtime; p and cx are set. */
void emit_open_module(Emit *e, LLVMTargetMachineRef tm, const EmitTarget *t);
bool emit_optimise(IrProgram *p, LLVMModuleRef mod, LLVMTargetMachineRef tm, int level);
/* A module with the program's functions; with `model`, the constant ctrc_model too. NULL: error in p->diag.
 */
LLVMModuleRef emit_module(IrProgram *p, int part, LLVMContextRef cx, LLVMTargetMachineRef tm,
                          const EmitTarget *t, int level,
                          void (*model)(Emit *e, const EmitTarget *t, const char *march), const char *march);
void emit_model_constant(Emit *e, const EmitTarget *t, const char *march);

/* An axis of a value's row between what lies before it (outer) and after it (inner). */
typedef struct {
    int64_t outer, size, inner;
} EmitAxis;
EmitAxis emit_axis(IrType t, int64_t axis);
/* Floats from one outer index to the next, units being joined to them: n's units stand one after another, or
 * there is one outer index a unit. */
int64_t emit_outer(const Emit *e, const IrNode *n, const EmitAxis *a);

#endif
