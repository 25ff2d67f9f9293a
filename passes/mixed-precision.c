/* mixed-precision: the operands of products are rounded to bfloat16; weights, sums and all else stay fp32.
 * Changes rounding.
 *
 * On a CPU that multiplies bfloat16 natively (avx512_bf16), the product is marked, and rounds what it reads:
 *
 * before:
 *   %3 = weight {w=w} : always f32[20,16]
 *   %4 = matmul %2, %3 {ta=0, tb=0} : f32[16]
 * after:
 *   %3 = weight {w=w} : always f32[20,16]
 *   %4 = matmul %2, %3 {ta=0, tb=0, bf16=1} : f32[16]
 * (tests/golden/passes/mixed-precision/native.*)
 *
 * so that nothing is stored rounded but the panels that the product reads (`pack`, made by schedule). Marked
 * are those that will be register tiles: results of a vector or more of columns; weight gradients whose
 * operands live equally often. Others, and all on another CPU, get the rounding as an op of its own:
 *
 * before:
 *   %2 = matmul %0, %1 {ta=0, tb=0} : always f32[3]
 *   %3 = relu %2 : always f32[3]
 *   %4 = matmul %0, %1 {ta=0, tb=0} : always f32[3]
 * after:
 *   %2 = bf16 %0 : always f32[4]
 *   %3 = bf16 %1 : always f32[4,3]
 *   %4 = matmul %2, %3 {ta=0, tb=0} : always f32[3]
 *   %5 = relu %4 : always f32[3]
 *   %6 = matmul %2, %3 {ta=0, tb=0} : always f32[3]
 * (tests/golden/passes/mixed-precision/products.*)
 *
 * The recipe of Micikevicius et al. 2018 with bfloat16, whose exponents are those of float, so that no loss
 * scaling is needed: master weights in fp32, operands rounded when a product reads them, in the forward pass,
 * the backward pass and in eval and predict alike; sums in fp32. The product of two bfloat16 numbers is exact
 * in fp32, so it makes no difference to the result which instructions multiply them, but for the order of
 * sums, which is the same here, and numbers below the smallest normal one (backend/emit_bf16.c).
 *
 * Worth it where the CPU multiplies bfloat16 natively; elsewhere the rounding only costs, and the pass is
 * refused unless force=true asks for it (to see what a model loses by it). Products with one column or one
 * row, whose time is that of reading their operands, stay as they are, and recurrent layers. */
#include "passes/rewrite.h"

typedef struct {
    const PassTarget *target;
    IrNode **rounded; /* of a value, by id */
    int n_ids, marked;
} Mixed;

static bool is_product(const IrNode *n) {
    if (n->op != OP_MATMUL && n->op != OP_MATMULGRADW) return false;
    for (int i = 0; i < 2; i++)
        if (ir_type_width(n->in[i]->type) == 1 || n->in[i]->type.dim[0] == 1) return false;
    return true;
}

static IrNode *rounded(Mixed *m, IrBuilder *b, IrNode *x) {
    IrNode **known = &m->rounded[x->id];
    if (!*known) *known = ir_build1(b, OP_BF16, x);
    return *known;
}

/* Whether the backend has tiles of bfloat16 pairs for it. */
static bool is_native(const PassTarget *t, const IrNode *n) {
    IrType x = n->in[0]->type, y = n->in[1]->type;
    if (!t->bf16 || ir_type_width(n->type) < t->vector_floats) return false;
    return n->op == OP_MATMUL || (x.live == y.live && x.axis == y.axis);
}

static void mark(Mixed *m, Arena *a, IrNode *n) {
    IrAttr *attrs = ARENA_ARRAY(a, IrAttr, n->n_attrs + 1);
    for (int i = 0; i < n->n_attrs; i++) attrs[i] = n->attrs[i];
    attrs[n->n_attrs++] = ir_ab("bf16", true);
    n->attrs = attrs;
    m->marked++;
}

static IrNode *visit(PassRewrite *rw, IrNode *n) {
    Mixed *m = rw->user;
    if (!is_product(n)) return n;
    if (is_native(m->target, n)) {
        mark(m, rw->b.p->arena, n);
        return n;
    }
    for (int i = 0; i < 2; i++) n->in[i] = rounded(m, &rw->b, n->in[i]);
    return n;
}

static bool may_run(IrProgram *p, const PassOptions *o, const char *args) {
    static const char *const known[] = {"force"};
    bool force;
    if (!pass_args_known(p, "mixed-precision", args, known, 1) ||
        !pass_arg_bool(p, "mixed-precision", args, "force", &force))
        return false;
    if (o->target.bf16 || force) return true;
    diag_error(p->diag, (Span){0},
               "mixed-precision(force=true) computes the same with fp32 instructions, more slowly",
               "mixed-precision: the target has no bfloat16 products (avx512_bf16)");
    return false;
}

bool pass_mixed_precision(IrProgram *p, const PassOptions *o, const char *args) {
    if (!may_run(p, o, args)) return false;
    int marked = 0;
    for (int i = 0; i < p->n_funcs; i++) {
        Mixed m = {.target = &o->target, .n_ids = p->next_id};
        m.rounded = ARENA_ARRAY(p->arena, IrNode *, m.n_ids + 1);
        if (!pass_rewrite(p, p->funcs[i], visit, &m, NULL)) return false;
        marked += m.marked;
    }
    int n = pass_count_ops(p, OP_BF16);
    if (marked) pass_effect(p, "mixed-precision", "%s of bfloat16", pass_count_text(p, marked, "product"));
    if (n) pass_effect(p, "mixed-precision", "%s rounded", pass_count_text(p, n, "operand"));
    return true;
}
