/* Part of schedule: right sides of products by tiles, and of recurrent layers, are packed once a step.
 *
 * before:
 *   %1 = weight {w=w} : always f32[16,8]
 *   %2 = matmul %0, %1 {ta=0, tb=0} : f32[8]
 *   %3 = matmul %2, %1 {ta=0, tb=1} : f32[16]
 * after:
 *   %1 = weight {w=w} : always f32[16,8]
 *   %2 = pack %1 {t=0} : always f32[16,8]
 *   %3 = matmul %0, %2 {ta=0, tb=0} : f32[8]
 *   %4 = pack %1 {t=1} : always f32[16,8]
 *   %5 = matmul %3, %4 {ta=0, tb=1} : f32[16]
 *
 * A matrix is packed where it lives always or a step and rows are multiplied with it. All threads share the
 * work, and all calls of a kernel, however few rows each has, read the same panels. For a product that rounds
 * to bfloat16 the panels hold pairs of terms (bf16=1), in half the place; a weight that both kinds of product
 * read is packed twice. */
#include "passes/rewrite.h"
#include "passes/schedule.h"

typedef struct {
    IrProgram *p;
    IrBody out;
} Packer;

static bool same_matrix(const IrNode *a, const IrNode *b) {
    return a == b || (a->op == OP_WEIGHT && b->op == OP_WEIGHT && ir_attr_i(a, "w") == ir_attr_i(b, "w"));
}

/* The pack of x that stands in the body, made if there is none. */
static IrNode *packed(Packer *k, IrNode *x, bool swapped, bool bf16) {
    for (int i = 0; i < k->out.n; i++) {
        IrNode *n = k->out.nodes[i];
        if (n->op == OP_PACK && ir_attr_i(n, "t") == swapped && ir_takes_bf16(n) == bf16 &&
            same_matrix(n->in[0], x))
            return n;
    }
    IrBuilder b = {k->p, &k->out, x->span, x->name};
    IrAttr how[] = {ir_ab("t", swapped), ir_ab("bf16", true)};
    return ir_build(&b, OP_PACK, 1, &x, 1 + bf16, how);
}

static bool is_matrix(const IrNode *x) { return x->type.rank == 2 && x->type.live <= LIVE_STEP; }

/* Fewer columns are dot products in the backend. */
enum { LEAST_COLUMNS = 5 };

static void pack_product(Packer *k, IrNode *n, const IrNode *product) {
    if (product->op != OP_MATMUL || n->type.live < LIVE_ROW || ir_attr_i(product, "ta")) return;
    int i = n == product ? 1 : pass_only_operand(n, product, 1);
    if (i < 0 || !is_matrix(n->in[i]) || ir_type_width(product->type) < LEAST_COLUMNS) return;
    n->in[i] = packed(k, n->in[i], ir_attr_i(product, "tb"), ir_takes_bf16(product));
}

static void pack_state(Packer *k, IrNode *n) {
    bool backward = n->op == OP_GRUGRAD || n->op == OP_AUGRUGRAD;
    for (int i = 1; i < 3; i++) n->in[i] = packed(k, n->in[i], backward, false);
}

static bool by_tiles(IrKernel kernel) { return kernel == KERNEL_TILE || kernel == KERNEL_AMX; }

void pass_pack(IrProgram *p, IrFunc *f, const PassTarget *target, const PassKernels *kernels) {
    Packer k = {.p = p};
    for (int i = 0; i < f->body.n; i++) {
        IrNode *n = f->body.nodes[i];
        const IrNode *product = ir_product_of(n);
        if (ir_is_recurrent(n))
            pack_state(&k, n);
        else if (product && by_tiles(pass_choose_kernel(n, target, kernels)))
            pack_product(&k, n, product);
        ARENA_PUSH(p->arena, k.out.nodes, k.out.n, k.out.cap, n);
    }
    f->body = k.out;
}
