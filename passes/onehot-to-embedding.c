/* onehot-to-embedding: products with one-hots become lookups of the weight's rows. Exact.
 *
 * before:
 *   %1 = hash %0 {buckets=1000, fn="xxh3"} : id<1000>
 *   %2 = onehot %1 : f32[1000]
 *   %3 = weight {w=w} : always f32[1000,8]
 *   %4 = matmul %2, %3 {ta=0, tb=0} : f32[8]
 * after:
 *   %1 = hash %0 {buckets=1000, fn="xxh3"} : id<1000>
 *   %2 = weight {w=w} : always f32[1000,8]
 *   %3 = embed %1, %2 : f32[8]
 * (tests/golden/passes/onehot-to-embedding/dense.*)
 *
 * The left side may also be what is linear in one-hots: sums and differences of them, their sum or mean along
 * a list, a one-hot times a number; each one-hot in it becomes a lookup. A value without an id has a one-hot
 * of zeros and looks up zeros. Where a list's lookups are then only summed, they become embed_pool. */
#include "passes/rewrite.h"

enum { MAX_DEPTH = 10000 }; /* of sums of one-hots: looked_up goes down by recursion */

typedef struct {
    IrNode *from, *to;
} Made;
typedef struct {
    IrBuilder *b;
    IrNode *weight;
    Made *made; /* what was converted for this product: shared parts once */
    int n, cap;
} Lookup;

static bool is_number(const IrNode *n) {
    return n->type.elem == TY_F32 && ir_type_size(n->type) == 1 && n->type.rank == 1;
}

/* If n is linear in one-hots of its own width, how many ops deep; else 0. mark holds it for the operands. */
static int onehot_depth(const IrNode *n) {
    const IrNode *x = n->n_in > 0 ? n->in[0] : NULL, *y = n->n_in > 1 ? n->in[1] : NULL;
    int deeper = 0;
    switch (n->op) {
    case OP_ONEHOT: return 1;
    case OP_ADD:
    case OP_SUB:
        if (x->mark && y->mark && pass_same_dims(x->type, y->type))
            deeper = x->mark > y->mark ? x->mark : y->mark;
        break;
    case OP_MUL: deeper = is_number(y) ? x->mark : is_number(x) ? y->mark : 0; break;
    case OP_DIV: deeper = is_number(y) ? x->mark : 0; break;
    case OP_NEG:
    case OP_SEGSUM:
    case OP_SEGMEAN: deeper = x->mark; break;
    default: break;
    }
    return deeper && deeper < MAX_DEPTH ? deeper + 1 : 0;
}

/* n @ weight, by lookups. */
static IrNode *looked_up(Lookup *l, IrNode *n) {
    for (int i = 0; i < l->n; i++)
        if (l->made[i].from == n) return l->made[i].to;
    IrNode *in[2] = {0}, *r;
    for (int i = 0; i < n->n_in && n->op != OP_ONEHOT; i++)
        in[i] = n->in[i]->mark ? looked_up(l, n->in[i]) : n->in[i];
    if (n->op == OP_ONEHOT)
        r = ir_build2(l->b, OP_EMBED, n->in[0], l->weight);
    else
        r = n->n_in == 2 ? ir_build2(l->b, n->op, in[0], in[1]) : ir_build1(l->b, n->op, in[0]);
    Made made = {n, r};
    ARENA_PUSH(l->b->p->arena, l->made, l->n, l->cap, made);
    return r;
}

static IrNode *visit(PassRewrite *rw, IrNode *n) {
    n->mark = onehot_depth(n);
    if (n->op != OP_MATMUL || n->in[1]->op != OP_WEIGHT || n->in[1]->type.rank != 2) return n;
    if (!n->in[0]->mark || n->in[0]->type.rank != 1 || ir_attr_i(n, "ta") || ir_attr_i(n, "tb")) return n;
    Lookup l = {.b = &rw->b, .weight = n->in[1]};
    return looked_up(&l, n->in[0]);
}

bool pass_onehot_to_embedding(IrProgram *p, const PassOptions *o, const char *args) {
    (void)o;
    if (!pass_args_known(p, "onehot-to-embedding", args, NULL, 0)) return false;
    for (int i = 0; i < p->n_funcs; i++) {
        if (!pass_rewrite(p, p->funcs[i], visit, NULL, NULL)) return false;
        pass_dead_code(p, &p->funcs[i]->body);
        pass_pool_lookups(p, &p->funcs[i]->body);
    }
    return true;
}
