/* What passes share: walking and rebuilding a function's body.
 *
 * A pass owns the nodes of the function that it rewrites: it may change operands in place. Node.aux and
 * Node.mark are its scratch; nothing may be expected in them when a pass starts. */
#ifndef CTRC_PASSES_REWRITE_H
#define CTRC_PASSES_REWRITE_H
#include "passes/pass.h"

/* ---- properties ---- */
bool pass_is_root(const IrNode *n); /* kept without users: roots and writes */
bool pass_is_lazy(const IrProgram *p,
                  const IrNode *n);                /* a WEIGHT node of a weight that is updated by rows */
bool pass_is_plain_product(const IrNode *n);       /* with a whole weight of rank 2, neither side swapped */
bool pass_is_weight(const IrNode *n, int weight);  /* a WEIGHT node, of this weight (any if -1) */
bool pass_coarser(IrType a, IrType b);             /* a lives strictly less often than b */
bool pass_is_const(const IrNode *n, double value); /* a const, all of whose elements are value */
/* Same op, operands, attributes and type: one may stand for the other if the op is pure. */
bool pass_equal(const IrNode *a, const IrNode *b);
/* A concat: an equal one of b's body or of `around`, what stands before it (or NULL), else a new one. */
IrNode *pass_concat_once(IrBuilder *b, const IrBody *around, int n, IrNode **part, int axis);
uint64_t pass_hash(const IrNode *n);

/* ---- bodies ---- */
void pass_push(IrProgram *p, IrBody *body, IrNode *n);
/* For qsort of IrNode *: in the order in which they stand, where ids count along the body. */
int pass_by_id(const void *a, const void *b);
/* A region's body: an argument for each of the operands from outside, and copies of the nodes in that order. Sets
 * aux of both to what stands for them in it. */
IrBody *pass_region_body(IrProgram *p, IrNode *const *outside, int n_in, IrNode *const *nodes, int n);
/* Which operand of the region its node `user` reads as operand k, if that is one and nothing else in the region
 * reads it; else -1. */
int pass_only_operand(const IrNode *region, const IrNode *user, int k);
int pass_count_ops(const IrProgram *p, IrOp op); /* nodes of that op in all functions */
/* Removes what no root or write needs. Returns how many nodes went. */
int pass_dead_code(IrProgram *p, IrBody *body);
/* Sets mark of each node to how many operands of other nodes it is. */
void pass_count_uses(IrBody *body);

/* seg_sum and seg_mean of a lookup that nothing else uses become embed_pool, in place. Returns how many. */
int pass_pool_lookups(IrProgram *p, IrBody *body);

/* Rebuilds a body front to back. `visit` gets each node, its operands already replaced, and returns the node
 * that stands for it from there on: the node itself to keep it, an earlier one, or a new one made with b
 * (NULL: an error was reported). New nodes take the span and name of the node visited. */
typedef struct {
    IrProgram *p;
    IrFunc *f;
    IrBuilder b;
    void *user;
    int changed; /* nodes that were replaced */
} PassRewrite;
typedef IrNode *(*PassVisit)(PassRewrite *rw, IrNode *n);
bool pass_rewrite(IrProgram *p, IrFunc *f, PassVisit visit, void *user, int *changed);

/* ---- onehot_sums.c: what is linear in one-hots ---- */
/* If n is linear in one-hots of its own width (sums, differences, sums and means along a list, times a
 * number), how many ops deep; else 0. Expects this in `mark` of n's operands, where anything below 1 counts
 * as 0; the caller keeps it in n->mark. */
int pass_onehot_depth(const IrNode *n);
/* Of a product with a number, or a quotient by one: the other operand, which may be linear in one-hots (marked);
 * of two numbers, the one that is. Else -1. */
int pass_scaled_onehots(const IrNode *n);
/* Elements begin to end of such a value (marked), as sums and the like of narrower one-hots, marked too. */
IrNode *pass_onehot_slice(IrBuilder *b, IrNode *n, int64_t begin, int64_t end);
/* A product of such a value (marked) with a whole weight. */
bool pass_is_onehot_product(const IrNode *n);
/* n @ weight[first … first + width of n - 1], for a marked n: each one-hot in it becomes a lookup. */
IrNode *pass_looked_up(IrBuilder *b, IrNode *n, IrNode *weight, int64_t first);
/* The id of the same row of weight[first …], counted in the whole weight. */
IrNode *pass_moved_id(IrBuilder *b, IrNode *id, const IrNode *weight, int64_t first);

/* ---- building; NULL operands give NULL ---- */
IrNode *pass_weight_node(IrBuilder *b, int weight);
IrNode *pass_scalar_op(IrBuilder *b, IrOp op, IrNode *x, double y); /* op(x, const y) */
IrNode *pass_sum(IrBuilder *b, IrNode *x, int axis, bool keep);
IrNode *pass_slice(IrBuilder *b, IrNode *x, int axis, int64_t begin, int64_t end);
IrNode *pass_reshape(IrBuilder *b, IrNode *x, int rank,
                     const int64_t *dim); /* x itself if it has that shape */
IrNode *pass_matmul(IrBuilder *b, IrNode *x, IrNode *y, bool ta, bool tb);
IrNode *pass_along_list(IrBuilder *b, IrNode *x, IrType like); /* x for each position of like's list */
IrNode *pass_seg_len(IrBuilder *b, int axis);

/* ---- weights.c: weights that passes make, and those that they leave without use ---- */
const char *pass_path_of(IrProgram *p, const char *name); /* "a.b" of "a.b.kernel" */
/* The parts that two paths have in common at their beginning. */
const char *pass_common_path(IrProgram *p, const char *a, const char *b);
/* A new weight, trained as `like` is. Returns its number. */
int pass_add_weight(IrProgram *p, const IrWeight *like, const char *name, IrInit init, int rank,
                    const int64_t *dim);
/* Of the first n weights those that are marked in `which` and that no node names any more leave the program.
 */
void pass_drop_unnamed(IrProgram *p, const bool *which, int n);

/* ---- effects.c: what a pass did, for --emit=plan, --emit=html and the manager's messages ---- */
/* A pass notes what only it knows: "NAME: …". How the work changed is measured around it, not by the pass. */
void pass_effect(IrProgram *p, const char *pass, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
typedef struct {
    const char *func; /* whose: "model" or "train"; NULL if there is none */
    IrWork work;
    int64_t fixed, lower, local; /* bytes: see IrFunc */
    int n_effects;
} PassMeasure;
PassMeasure pass_measure(const IrProgram *p);
/* "1 product", "2 products": in the arena. */
const char *pass_count_text(IrProgram *p, int n, const char *what);
/* Makes one effect of what the pass noted and of how the work changed since `was`. Returns it without the
 * name. */
const char *pass_note_effect(IrProgram *p, const char *pass, PassMeasure was);

/* ---- arguments ---- */
/* The value of `key` in "a=1,b=x"; NULL if it isn't there. In the arena. */
const char *pass_arg(IrProgram *p, const char *args, const char *key);
/* The integer `key` of args, `otherwise` if it isn't there; false and an error if it isn't in lo..hi. */
bool pass_arg_int(IrProgram *p, const char *pass, const char *args, const char *key, int lo, int hi,
                  int otherwise, int *out);
/* The word `key` of args as its place in words, the first if it isn't there; false and an error if it is none
 * of them. */
bool pass_arg_word(IrProgram *p, const char *pass, const char *args, const char *key,
                   const char *const *words, int n_words, int *out);
/* Is `key` there, alone or as key=true? false and an error if it is neither that nor key=false. */
bool pass_arg_bool(IrProgram *p, const char *pass, const char *args, const char *key, bool *out);
/* Reports the first key of args that isn't in known. */
bool pass_args_known(IrProgram *p, const char *pass, const char *args, const char *const *known, int n_known);

/* The passes, by the names of their files. */
#define PASS(text, fn, ...) bool fn(IrProgram *p, const PassOptions *o, const char *args);
#include "passes/passes.def"
#undef PASS

#endif
