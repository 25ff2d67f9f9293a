/* fuse: chains of elementwise ops, and the epilogues of products, become one kernel each. Exact.
 *
 * before:
 *   %3 = matmul %0, %1 {ta=0, tb=0} : f32[8]
 *   %4 = add %3, %2 : f32[8]
 *   %5 = relu %4 : f32[8]
 * after:
 *   %3 = fused %0, %1, %2 {kind="product"} : f32[8] {
 *     %4 = arg {index=0} : f32[1]
 *     %5 = arg {index=1} : always f32[1,8]
 *     %6 = arg {index=2} : always f32[8]
 *     %7 = matmul %4, %5 {ta=0, tb=0} : f32[8]
 *     %8 = add %7, %6 : f32[8]
 *     %9 = relu %8 : f32[8]
 *   }
 * (tests/golden/passes/fuse/epilogue.*)
 *
 * A region grows from its last op backwards. It takes an operand in if that is elementwise (or, once a
 * region, a row's product with a matrix that all rows share), has exactly the region's type, and is used
 * nowhere else; so nothing is computed twice, nothing that is needed outside is hidden, and a region needs
 * nothing that comes after its last op. Coarser and smaller values (a bias, a number a row) come in as
 * operands and are stretched. A product's operands are never taken in: the region is its epilogue.
 *
 * Regions of another kind come first: a weight's gradient with the update by it (fuse_update.c). Arguments:
 * fuse(updates=auto|all|none), auto being those that gain by it. */
#include "passes/fuse_update.h"
#include <stdlib.h>

enum { MAX_BODY = 24, MAX_OPERANDS = 16 };

typedef struct {
    IrNode *member[MAX_BODY]; /* the last op first */
    int n;
    IrNode *product;
} Region;

static bool elementwise(const IrNode *n) { return ir_ops[n->op].cls == CLASS_EW; }

static bool shared_product(const IrNode *n) {
    return n->op == OP_MATMUL && !ir_attr_i(n, "ta") && n->type.live > LIVE_STEP &&
           n->in[0]->type.live > LIVE_STEP && n->in[1]->type.rank == 2 && n->in[1]->type.live <= LIVE_STEP;
}

/* How many operands of the region's elementwise ops n is. */
static int uses_inside(const Region *r, const IrNode *n) {
    int uses = 0;
    for (int i = 0; i < r->n; i++)
        for (int k = 0; r->member[i] != r->product && k < r->member[i]->n_in; k++)
            uses += r->member[i]->in[k] == n;
    return uses;
}

static bool member(const Region *r, const IrNode *n) {
    for (int i = 0; i < r->n; i++)
        if (r->member[i] == n) return true;
    return false;
}

/* Distinct operands from outside, the product's first. */
static int operands(const Region *r, IrNode **out) {
    int n = 0;
    for (int i = -1; i < r->n; i++) {
        const IrNode *user = i < 0 ? r->product : r->member[i];
        for (int k = 0; user && k < user->n_in; k++) {
            bool known = member(r, user->in[k]);
            for (int j = 0; j < n; j++) known |= out[j] == user->in[k];
            if (!known) out[n++] = user->in[k];
        }
    }
    return n;
}

/* mark: uses in the whole body. */
static bool takes(const Region *r, const IrNode *x) {
    if (r->n == MAX_BODY || member(r, x) || !ir_type_eq(x->type, r->member[0]->type)) return false;
    if (!elementwise(x) && (r->product || !shared_product(x))) return false;
    return x->mark == uses_inside(r, x);
}

static void grow(Region *r) {
    for (bool grown = true; grown;) {
        grown = false;
        for (int i = 0; i < r->n && !grown; i++)
            for (int k = 0; r->member[i] != r->product && k < r->member[i]->n_in && !grown; k++) {
                IrNode *x = r->member[i]->in[k], *outside[2 * MAX_BODY];
                if (!takes(r, x)) continue;
                r->member[r->n++] = x;
                if (operands(r, outside) > MAX_OPERANDS) {
                    r->n--;
                    continue;
                }
                if (!elementwise(x)) r->product = x;
                grown = true;
            }
    }
}

/* Copies a member into the region; aux of a member or operand: its node there. */
static void copy_in(IrProgram *p, IrBody *body, IrNode *n) {
    IrNode *copy = ir_clone_node(p, n);
    for (int i = 0; i < n->n_in; i++) copy->in[i] = n->in[i]->aux;
    pass_push(p, body, copy);
    n->aux = copy;
}

/* In the order in which they stood: ids count along the body. */
static int by_id(const void *a, const void *b) {
    const IrNode *x = *(IrNode *const *)a, *y = *(IrNode *const *)b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The body: operands, the product, then the elementwise ops. */
static IrNode *region_node(IrProgram *p, Region *r) {
    IrNode *outside[2 * MAX_BODY], *last = r->member[0];
    qsort(r->member, (size_t)r->n, sizeof *r->member, by_id);
    int n_in = operands(r, outside);
    IrBody *body = ARENA_NEW(p->arena, IrBody), aside = {0};
    IrBuilder b = {.p = p, .body = body};
    for (int i = 0; i < n_in; i++) {
        b.span = outside[i]->span;
        outside[i]->aux = ir_arg(&b, i, outside[i]->type);
    }
    if (r->product) copy_in(p, body, r->product);
    for (int i = 0; i < r->n; i++)
        if (r->member[i] != r->product) copy_in(p, body, r->member[i]);
    b.body = &aside;
    b.span = last->span;
    b.name = r->product ? r->product->name : last->name;
    return ir_fused(&b, r->product ? "product" : "chain", n_in, outside, body);
}

/* Back to front, so that a region begins at the last op that it can have. mark: uses, or TAKEN. */
static bool fuse_func(IrProgram *p, IrFunc *f) {
    enum { TAKEN = -1 };
    IrBody *body = &f->body;
    pass_count_uses(body);
    for (int i = 0; i < body->n; i++) body->nodes[i]->id = i;
    IrNode **made = ARENA_ARRAY(p->arena, IrNode *, body->n + 1); /* by the place of a region's last op */
    for (int i = body->n - 1; i >= 0; i--) {
        IrNode *n = body->nodes[i];
        if (n->mark == TAKEN || !elementwise(n)) continue;
        Region r = {.member = {n}, .n = 1};
        grow(&r);
        if (r.n == 1) continue;
        made[i] = region_node(p, &r);
        if (!made[i]) return false;
        for (int k = 0; k < r.n; k++) r.member[k]->mark = TAKEN;
    }
    IrBody old = *body;
    *body = (IrBody){0};
    for (int i = 0; i < old.n; i++) old.nodes[i]->aux = made[i];
    for (int i = 0; i < old.n; i++) {
        IrNode *n = made[i] ? made[i] : old.nodes[i];
        if (!made[i] && n->mark == TAKEN) continue;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k]->aux) n->in[k] = n->in[k]->aux;
        pass_push(p, body, n);
    }
    return true;
}

bool pass_fuse(IrProgram *p, const PassOptions *o, const char *args) {
    static const char *const known[] = {"updates"}, *const wishes[] = {"auto", "all", "none"};
    enum { AUTO, ALL, NONE };
    int wish;
    (void)o;
    if (!pass_args_known(p, "fuse", args, known, 1) ||
        !pass_arg_word(p, "fuse", args, "updates", wishes, 3, &wish))
        return false;
    for (int i = 0; i < p->n_funcs; i++) {
        if (wish != NONE && !pass_fuse_updates(p, p->funcs[i], wish == ALL)) return false;
        if (!fuse_func(p, p->funcs[i])) return false;
    }
    return true;
}
