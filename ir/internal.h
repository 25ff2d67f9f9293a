/* What the files of ir/ share among themselves; nothing outside this folder includes it. */
#ifndef CTRC_IR_INTERNAL_H
#define CTRC_IR_INTERNAL_H
#include "ir/ir.h"

/* ---- attributes, by the op table ---- */
#define IR_MAX_ATTRS 8
typedef struct {
    const char *name; /* not terminated: len bytes of the op table's text */
    int len;
    char kind; /* i f b s I F w c x v o */
    bool optional;
} IrAttrSpec;
/* The attributes that an op takes, in the order in which they are printed; returns how many. */
int ir_attr_specs(IrOp op, IrAttrSpec out[IR_MAX_ATTRS]);
/* Position in specs, -1 if there is none of that name. */
int ir_attr_find(const IrAttrSpec *specs, int n, const char *key);
/* Number of operands; attributes: all there, none unknown or double, of the right kind, indices in range. */
bool ir_check_form(IrProgram *p, const IrNode *n, const char **why);
/* verify_region.c: what a fused node must hold if, and only if, it is of kind update. */
bool ir_check_update_region(IrProgram *p, const IrNode *n, const char **why);

/* The results of a fused node beside its first. */
bool ir_check_results(IrProgram *p, const IrNode *n, const char **why);

/* ---- shape rules: one a name in the op table's shape column, in shape_*.c ---- */
typedef bool IrShapeRule(IrProgram *p, const IrNode *n, IrType *out, const char **why);
#define OP(id, text, min, max, attrs, shape, ...) IrShapeRule ir_shape_##shape;
#include "ir/ops.def"
#undef OP

/* Sets *why and returns false, so that a rule can end with `return ir_wrong(…)`. */
bool ir_wrong(IrProgram *p, const char **why, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Sizes of at least 1, a rank of 1 … IR_MAX_RANK, and not more elements than an offset can count. */
bool ir_check_dims(IrProgram *p, int rank, const int64_t *dim, const char **why);
#define IR_MAX_ELEMS ((int64_t)1 << 40)
#define IR_MAX_BOUND ((int64_t)0xffffffff) /* ids are 32 bits wide, the last value means "no id" */

/* Operand i is f32 (of any liveness); …of exactly that size; …of elem e. */
bool ir_want_f32(IrProgram *p, const IrNode *n, int i, const char **why);
bool ir_want_dims(IrProgram *p, const IrNode *n, int i, int rank, const int64_t *dim, const char **why);
const char *ir_operand(IrProgram *p, const IrNode *n,
                       int i); /* "" for the only operand, else "operand 2: " */
bool ir_want_coarse(IrProgram *p, const IrNode *n, int i, const char **why); /* lives always or once a step */
bool ir_want_rows(IrProgram *p, const IrNode *n, int i, const char **why);   /* lives a row or a position */
/* A value of each of the blocks of n's `rows` rows that a batch has: f32[blocks,…] a step. */
bool ir_by_blocks(IrProgram *p, const IrNode *n, int rank, const int64_t *dim, IrType *out, const char **why);
/* The operand is one of that kind, of the blocks of n's `rows` rows. */
bool ir_want_blocks(IrProgram *p, const IrNode *n, const char **why);
/* Makes live and axis of `t` at least as fine as those of `with`; false if they can't meet. */
bool ir_join_live(IrProgram *p, IrType *t, IrType with, const char **why);
bool ir_sound_reduction(IrProgram *p, const IrNode *n, const char **why); /* a body of such a region */
bool ir_axis_attr(IrProgram *p, const IrNode *n, const char *key, int rank, int *out, const char **why);

/* ---- verifier ---- */
/* Where declarations stand in an IR text, by number: the verifier's errors point there while a text is read,
 * and otherwise to the places in the .ctr file. A node's place is then in its aux. */
typedef enum {
    DECL_PARAM,
    DECL_AXIS,
    DECL_COLUMN,
    DECL_VOCAB,
    DECL_OPTIMIZER,
    DECL_WEIGHT,
    DECL_TRAIN,
    DECL_FUNC,
    DECL_COUNT
} IrDecl;
typedef struct {
    Span *at[DECL_COUNT];
    int n[DECL_COUNT], cap[DECL_COUNT];
} IrPlaces;
Span ir_decl_place(const IrProgram *p, const IrPlaces *places, IrDecl decl, int index);
Span ir_node_place(const IrPlaces *places, const IrNode *n);
/* The two halves of ir_verify. places NULL: the .ctr file's. Functions need sound declarations. */
bool ir_verify_decls(IrProgram *p, const IrPlaces *places);
bool ir_verify_funcs(IrProgram *p, const IrPlaces *places);
/* Plans, where schedule and plan-memory have filled them in: verify_plan.c. */
bool ir_verify_plan(IrProgram *p, const IrFunc *f, const IrPlaces *places);

/* ---- text ---- */
/* The fewest digits that read back as exactly v; "inf", "-inf", "nan". Returns buf. */
const char *ir_double_text(double v, char buf[32]);
void ir_put_string(FILE *out, const char *s, size_t n); /* quoted and escaped */
bool ir_bare_name(const char *s);           /* needs no quotes: a letter or _, then also digits and dots */
void ir_put_name(FILE *out, const char *s); /* bare or quoted */
void ir_put_axis(const IrProgram *p, FILE *out, int64_t axis);
void ir_put_weight(const IrProgram *p, FILE *out, int64_t weight);
void ir_put_column(const IrProgram *p, FILE *out, int64_t column);
extern const char *const ir_domain_names[5], *const ir_kernel_names[5], *const ir_region_names[N_REGIONS];

#endif
