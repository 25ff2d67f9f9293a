/* fuse: chains of elementwise ops, the epilogues of products, what a reduction adds up, and attention's
 * weighted sum become one kernel each. Exact.
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
 * nowhere else; so nothing that is needed outside is hidden, and a region needs nothing that comes after its
 * last op. Nothing is computed twice but what costs less than to write and read it (repeated, below). Coarser
 * and smaller values (a bias, a number a row) come in as operands and are stretched. A product's operands are
 * never taken in: the region is its epilogue.
 *
 * A reduction takes in what it reduces, which then stands nowhere in memory:
 *
 * before:
 *   %8 = sub %1, %4 : f32[~h,8]
 *   %9 = square %8 : f32[~h,8]
 *   %10 = sum %9 {axis=0, keep=1} : f32[~h,1]
 * after:
 *   %10 = fused %1, %4 {kind="reduce"} : f32[~h,1] {
 *     %11 = arg {index=0} : f32[~h,1]
 *     %12 = arg {index=1} : f32[8]
 *     %13 = sub %11, %12 : f32[~h,8]
 *     %14 = square %13 : f32[~h,8]
 *     %15 = sum %14 {axis=0, keep=1} : f32[~h,1]
 *   }
 * (tests/golden/passes/fuse/reduce.*)
 *
 * but leaves a product its epilogue. Sums over rows are run by tiles of columns, each thread reading all
 * rows, so they take in cheap ops only. What lives a step is left alone: chains of it are run by tiles,
 * reductions by one thread.
 *
 * A sum along a list that is weighed by a softmax of scores takes in both, unless the weights are read by
 * others, such as gradients:
 *
 * before:
 *   %5 = seg_softmax %1 : f32[~h,1]
 *   %6 = mul %5, %4 : f32[~h,8]
 *   %7 = seg_sum %6 : f32[8]
 * after:
 *   %4 = fused %3, %1 {kind="attention"} : f32[8] {
 *     %5 = arg {index=0} : f32[~h,8]
 *     %6 = arg {index=1} : f32[~h,1]
 *     %7 = tanh %5 : f32[~h,8]
 *     %8 = seg_softmax %6 : f32[~h,1]
 *     %9 = mul %8, %7 : f32[~h,8]
 *     %10 = seg_sum %9 : f32[8]
 *   }
 * (tests/golden/passes/fuse/attention.*)
 *
 * In func train, chains that read the same become one region with several results (fuse_siblings.c).
 *
 * Regions of another kind come first: a weight's gradient with the update by it (fuse_update.c), but not a
 * sum over rows that takes in what it adds up, which saves more. Arguments: fuse(updates=auto|all|none), auto
 * being those that gain by it. */
#include "passes/fuse_parts.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_BODY = 24, MAX_OPERANDS = 16, CHEAP = 4 /* FLOPs an element */ };

typedef struct {
    IrNode *member[MAX_BODY]; /* the last op first */
    int n;
    IrType type; /* of the elementwise ops */
    IrNode *product;
    const IrReduction *reduction; /* of the last op, if it is one */
    IrNode *weight;               /* attention's */
    const bool *again;            /* by id: copied into each region that reads it */
} Region;

static bool elementwise(const IrNode *n) { return ir_ops[n->op].cls == CLASS_EW; }

static bool reduction(const IrNode *n) { return ir_reducible(n->op) && n->in[0]->type.live > LIVE_STEP; }

static bool shared_product(const IrNode *n) {
    return n->op == OP_MATMUL && !ir_attr_i(n, "ta") && n->type.live > LIVE_STEP &&
           n->in[0]->type.live > LIVE_STEP && n->in[1]->type.rank == 2 && n->in[1]->type.live <= LIVE_STEP;
}

/* A reduction takes in what can be walked along with it, and dropout, which counts its elements, never. A sum
 * over rows is run by few tiles of columns, each of which would compute what all threads compute together
 * otherwise: it takes in what costs no more than the memory that it saves. */
static bool reducible(const IrProgram *p, const Region *r, const IrNode *x) {
    int64_t step[IR_WALK_STEPS];
    if (!elementwise(x) || x->op == OP_DROPOUT) return false;
    if (r->reduction->last->op == OP_SUMROWS && ir_cost(p, x).flops > CHEAP * (double)ir_type_size(x->type))
        return false;
    for (int k = 0; k < x->n_in; k++)
        if (x->in[k] != r->weight && !ir_walk(r->reduction, x->in[k]->type, step)) return false;
    return true;
}

/* What a product multiplies, what a softmax is taken of and what is computed again of stay outside. */
static bool opens(const Region *r, const IrNode *n) {
    return n != r->product && n != r->weight && !r->again[n->id];
}

/* How many operands of the region's elementwise ops n is. */
static int uses_inside(const Region *r, const IrNode *n) {
    int uses = 0;
    for (int i = 0; i < r->n; i++)
        for (int k = 0; opens(r, r->member[i]) && k < r->member[i]->n_in; k++)
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
static bool takes(const IrProgram *p, const Region *r, const IrNode *x) {
    if (r->n == MAX_BODY || member(r, x) || !ir_type_eq(x->type, r->type)) return false;
    if (r->reduction && !reducible(p, r, x)) return false;
    if (!elementwise(x) && (r->product || !shared_product(x))) return false;
    return r->again[x->id] || x->mark == uses_inside(r, x);
}

/* Is x cheap, and made of one value of its size (others are stretched) that stands in memory anyway, since
 * others read it or nothing could take it in? */
static bool cheap_to_repeat(const IrProgram *p, const IrNode *x) {
    if (!elementwise(x) || x->op == OP_DROPOUT || x->type.live <= LIVE_STEP) return false;
    if (ir_cost(p, x).flops > CHEAP * (double)ir_type_size(x->type)) return false;
    int large = 0;
    for (int k = 0; k < x->n_in; k++) {
        const IrNode *y = x->in[k];
        if (!ir_type_eq(y->type, x->type)) continue;
        large++;
        if (y->mark == 1 && (elementwise(y) || shared_product(y))) return false;
    }
    return large == 1;
}

/* What two or three elementwise ops of its type or reductions read, and nothing else, is computed in each of
 * them rather than once for all, if that is cheap: written nowhere, and read as often as before. */
static bool *repeated(const IrProgram *p, const IrBody *body) {
    enum { MOST = 3 };
    bool *again = ARENA_ARRAY(p->arena, bool, body->n + 1);
    int *readers = ARENA_ARRAY(p->arena, int, body->n + 1);
    for (int i = 0; i < body->n; i++) {
        const IrNode *n = body->nodes[i];
        for (int k = 0; k < n->n_in; k++)
            readers[n->in[k]->id] += reduction(n) || (elementwise(n) && ir_type_eq(n->type, n->in[k]->type));
    }
    for (int i = 0; i < body->n; i++) {
        const IrNode *n = body->nodes[i];
        again[i] = n->mark > 1 && n->mark <= MOST && n->mark == readers[i] && cheap_to_repeat(p, n);
    }
    return again;
}

static void grow(const IrProgram *p, Region *r) {
    for (bool grown = true; grown;) {
        grown = false;
        for (int i = 0; i < r->n && !grown; i++)
            for (int k = 0; opens(r, r->member[i]) && k < r->member[i]->n_in && !grown; k++) {
                IrNode *x = r->member[i]->in[k], *outside[2 * MAX_BODY];
                if (!takes(p, r, x)) continue;
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

/* The body: operands, the product, then the elementwise ops. */
static IrNode *region_node(IrProgram *p, Region *r) {
    IrNode *outside[2 * MAX_BODY], *order[MAX_BODY], *last = r->member[0];
    int n = 0, n_in;
    qsort(r->member, (size_t)r->n, sizeof *r->member, pass_by_id);
    n_in = operands(r, outside);
    if (r->product) order[n++] = r->product;
    for (int i = 0; i < r->n; i++)
        if (r->member[i] != r->product) order[n++] = r->member[i];
    IrBody *body = pass_region_body(p, outside, n_in, order, n), aside = {0};
    IrBuilder b = {p, &aside, last->span, r->product ? r->product->name : last->name};
    const char *kind = r->product ? "product" : r->weight ? "attention" : r->reduction ? "reduce" : "chain";
    return ir_fused(&b, kind, n_in, outside, body);
}

/* seg_sum of a product with a softmax along the list that nothing else needs: both go in, before what is
 * weighed. */
static void take_weight(Region *r) {
    const IrReduction *d = r->reduction;
    IrNode *last = r->member[0], *product = last->in[0];
    if (last->op != OP_SEGSUM || !d->weight || d->weight->mark != 1 || product->mark != 1) return;
    r->weight = product->in[product->in[0] != d->weight];
    r->member[r->n++] = product;
    r->member[r->n++] = r->weight;
}

/* A product whose epilogue the region would take away from it: as an epilogue it is done in registers. */
static bool robs_product(const Region *r) {
    for (int i = 0; i < r->n; i++)
        for (int k = 0; opens(r, r->member[i]) && k < r->member[i]->n_in; k++) {
            const IrNode *x = r->member[i]->in[k];
            if (i > 0 && shared_product(x) && ir_type_eq(x->type, r->type) && x->mark == uses_inside(r, x))
                return true;
        }
    return false;
}

/* The region that ends in n. */
static Region region_of(const IrProgram *p, IrNode *n, const IrReduction *d, const bool *again) {
    Region r = {.member = {n}, .n = 1, .type = n->type, .again = again};
    if (!elementwise(n)) {
        r.reduction = d;
        r.type = d->of;
        take_weight(&r);
    }
    grow(p, &r);
    if (r.reduction && robs_product(&r)) r.n = 1;
    return r;
}

/* Which sums take in what they add up, by their places in the body. */
static const bool *taking_sums(IrProgram *p, IrBody *body) {
    bool *takes_in = ARENA_ARRAY(p->arena, bool, body->n + 1);
    pass_count_uses(body);
    for (int i = 0; i < body->n; i++) body->nodes[i]->id = i;
    const bool *again = repeated(p, body);
    for (int i = 0; i < body->n; i++) {
        if (body->nodes[i]->op != OP_SUMROWS || !reduction(body->nodes[i])) continue;
        IrReduction d = ir_reduction(body->nodes[i]);
        takes_in[i] = region_of(p, body->nodes[i], &d, again).n > 1;
    }
    return takes_in;
}

/* Back to front, so that a region begins at the last op that it can have. mark: uses, or TAKEN. */
static bool fuse_func(IrProgram *p, IrFunc *f) {
    enum { TAKEN = -1 };
    IrBody *body = &f->body;
    pass_count_uses(body);
    for (int i = 0; i < body->n; i++) body->nodes[i]->id = i;
    const bool *again = repeated(p, body);
    IrNode **made = ARENA_ARRAY(p->arena, IrNode *, body->n + 1); /* by the place of a region's last op */
    for (int i = body->n - 1; i >= 0; i--) {
        IrNode *n = body->nodes[i];
        if (n->mark == TAKEN || !(elementwise(n) || reduction(n))) continue;
        IrReduction d = {0};
        if (!elementwise(n)) d = ir_reduction(n);
        Region r = region_of(p, n, &d, again);
        if (r.n == 1) continue;
        made[i] = region_node(p, &r);
        if (!made[i]) return false;
        for (int k = 0; k < r.n; k++)
            if (!again[r.member[k]->id]) r.member[k]->mark = TAKEN;
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
    pass_dead_code(p, body); /* what all its readers compute again */
    return true;
}

/* ---- what was saved ---- */

typedef struct {
    int ops;
    double bytes;
} Work;

static Work work_of(const IrProgram *p, const IrFunc *f) {
    Work w = {0};
    for (int i = 0; i < f->body.n; i++) {
        const IrNode *n = f->body.nodes[i];
        bool update = pass_is_root(n) && n->op != OP_FUSED; /* a gradient counts, with its update too */
        if (update || ir_ops[n->op].cls == CLASS_SRC || ir_is_reader(n)) continue;
        w.ops++;
        w.bytes += ir_step_cost(p, n).bytes;
    }
    return w;
}

static int regions(const IrFunc *f, const char *kind) {
    int n = 0;
    for (int i = 0; i < f->body.n; i++)
        n += f->body.nodes[i]->op == OP_FUSED && !strcmp(ir_attr_s(f->body.nodes[i], "kind"), kind);
    return n;
}

static void report(IrProgram *p, const IrFunc *f, Work before) {
    Work after = work_of(p, f);
    if (after.ops == before.ops) return;
    static const char *const kinds[] = {"chain", "product", "reduce", "attention", "update"};
    const char *text = "";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int n = regions(f, kinds[i]);
        if (n) text = arena_printf(p->arena, "%s%s%s %d", text, *text ? ", " : "", kinds[i], n);
    }
    int several = 0;
    for (int i = 0; i < f->body.n; i++)
        several += f->body.nodes[i]->op == OP_FUSED && ir_result(f->body.nodes[i], 1) != NULL;
    if (several) text = arena_printf(p->arena, "%s; %d with several results", text, several);
    pass_effect(p, "fuse", "%s: %d to %d ops, %.1f to %.1f MB a step of %lld rows (%s)", f->name, before.ops,
                after.ops, before.bytes / 1e6, after.bytes / 1e6, (long long)p->batch, text);
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
        IrFunc *f = p->funcs[i];
        Work before = work_of(p, f);
        const bool *taking = wish == AUTO ? taking_sums(p, &f->body) : NULL;
        if (wish != NONE && !pass_fuse_updates(p, f, taking)) return false;
        if (!fuse_func(p, f)) return false;
        if (strcmp(f->name, "train") == 0 && pass_fuse_siblings(p, f) < 0) return false;
        report(p, f, before);
    }
    return true;
}
