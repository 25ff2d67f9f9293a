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

static IrNode *visit(PassRewrite *rw, IrNode *n) {
    n->mark = pass_onehot_depth(n);
    return pass_is_onehot_product(n) ? pass_looked_up(&rw->b, n->in[0], n->in[1]) : n;
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
