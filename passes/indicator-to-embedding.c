/* indicator-to-embedding: one-hots that feed a network become trained rows of width `dim`. Changes the model.
 *
 * before:
 *   %2 = onehot %1 : f32[100]
 *   %3 = weight {w=wide.a.dense.kernel} : always f32[100,1]
 *   %4 = matmul %2, %3 {ta=0, tb=0} : f32[1]
 *   %7 = onehot %6 : f32[50]
 *   %8 = weight {w=wide.b.dense.kernel} : always f32[50,1]
 *   %9 = matmul %7, %8 {ta=0, tb=0} : f32[1]
 *   %10 = add %4, %9 : f32[1]
 * after:
 *   %4 = weight {w=wide.a.dense.indicator} : always f32[100,16]
 *   %5 = embed %1, %4 : f32[16]
 *   %6 = weight {w=wide.b.dense.indicator} : always f32[50,16]
 *   %7 = embed %3, %6 : f32[16]
 *   %8 = add %5, %7 : f32[16]
 *   %9 = weight {w=wide.indicator.kernel} : always f32[16,1]
 *   %10 = matmul %8, %9 {ta=0, tb=0} : f32[1]
 * (tests/golden/passes/indicator-to-embedding/sum.*)
 *
 * What the winners of the reference contest did by hand with WDL and DeepFM. dense(onehot(a), n) +
 * dense(onehot(b), n) + ... becomes dense(embed(a, Ta) + embed(b, Tb) + ..., n): each kernel becomes a table
 * `indicator` of its own, with the initial values of a table and the kernel's optimizer, and one new kernel
 * serves the whole sum. With combine=concat the rows stand side by side instead of being added. Kernels of
 * different optimizers stay in different sums. A one-hot among the parts of a concat that only feeds products
 * becomes a lookup there, and the products' kernels lose its rows for `dim` new ones.
 *
 * A kernel is taken if its product is its only use and its one-hots are linear (rewrite.h), pooled along a
 * list or not. Everything else is left to onehot-to-embedding, which is exact. */
#include "passes/rewrite.h"
#include <math.h>
#include <string.h>

enum { SUM, CONCAT };

typedef struct {
    int dim, combine;
    int *uses;        /* of a node, by id */
    bool *inner;      /* used once, by a sum of its own type, or a product that is only pooled */
    bool *feeds;      /* a concat that only feeds products with weights of their own */
    int *weight_uses; /* by weight */
    int n_ids, n_weights;
    IrBody body; /* before the rewriting */
} Ind;

/* ---- what may be rewritten ---- */

static bool own_kernel(const Ind *d, const IrProgram *p, const IrNode *product) {
    int w = (int)ir_attr_i(product->in[1], "w");
    return w < d->n_weights && d->weight_uses[w] == 1 && p->weights[w].trainable &&
           p->weights[w].optimizer >= 0;
}

static bool pooled_product(const Ind *d, const IrNode *n) {
    return (n->op == OP_SEGSUM || n->op == OP_SEGMEAN) && n->in[0]->op == OP_MATMUL &&
           n->in[0]->id < d->n_ids && d->uses[n->in[0]->id] == 1;
}

/* The product of one-hots that an addend is, or pools along a list; else NULL. */
static IrNode *term_product(const Ind *d, const IrProgram *p, IrNode *n) {
    if (pooled_product(d, n)) n = n->in[0];
    return n->id < d->n_ids && pass_is_onehot_product(n) && own_kernel(d, p, n) ? n : NULL;
}

static bool feeds_product(const Ind *d, const IrProgram *p, const IrNode *user, int operand) {
    return operand == 0 && pass_is_plain_product(user) && own_kernel(d, p, user);
}

static void look_at(Ind *d, IrProgram *p, const IrBody *body) {
    d->n_ids = p->next_id, d->n_weights = p->n_weights, d->body = *body;
    d->uses = ARENA_ARRAY(p->arena, int, d->n_ids + 1);
    d->inner = ARENA_ARRAY(p->arena, bool, d->n_ids + 1);
    d->feeds = ARENA_ARRAY(p->arena, bool, d->n_ids + 1);
    d->weight_uses = ARENA_ARRAY(p->arena, int, d->n_weights + 1);
    for (int i = 0; i < body->n; i++) {
        const IrNode *n = body->nodes[i];
        d->feeds[n->id] = n->op == OP_CONCAT && n->type.rank == 1;
        for (int k = 0; k < n->n_in; k++) {
            d->uses[n->in[k]->id]++;
            if (pass_is_weight(n->in[k], -1)) d->weight_uses[ir_attr_i(n->in[k], "w")]++;
        }
    }
    for (int i = 0; i < body->n; i++) {
        const IrNode *n = body->nodes[i];
        for (int k = 0; k < n->n_in; k++) {
            const IrNode *x = n->in[k];
            bool added = n->op == OP_ADD && d->uses[x->id] == 1 && ir_type_eq(x->type, n->type);
            d->inner[x->id] = added || pooled_product(d, n);
            if (!feeds_product(d, p, n, k)) d->feeds[x->id] = false;
        }
    }
}

/* ---- weights ---- */

static const char *free_name(IrProgram *p, const char *path, const char *part, const char *end) {
    const char *dot = *path ? "." : "";
    const char *name = arena_printf(p->arena, "%s%s%s%s", path, dot, part, end);
    for (int i = 1; ir_weight_by_name(p, name) >= 0; i++)
        name = arena_printf(p->arena, "%s%s%s_%d%s", path, dot, part, i, end);
    return name;
}

static void become_table(IrWeight *w, const char *name, int64_t rows, int dim) {
    w->name = name;
    w->rank = 2;
    w->dim[0] = rows, w->dim[1] = dim;
    w->init = INIT_TRUNCATED_NORMAL;
    w->init_arg = 1 / sqrt(dim);
    w->table = w->lazy = true;
}

static int add_weight(IrProgram *p, const IrWeight *like, const char *name, int64_t in, int64_t out) {
    return pass_add_weight(p, like, name, INIT_GLOROT_UNIFORM, 2, (int64_t[]){in, out});
}

/* ---- sums ---- */

typedef struct {
    IrNode **v;
    int n, cap;
} Nodes;

/* The addends of a sum in their order, through sums inside it. */
static Nodes addends(const Ind *d, IrProgram *p, IrNode *root) {
    Nodes found = {0}, stack = {0};
    ARENA_PUSH(p->arena, stack.v, stack.n, stack.cap, root);
    while (stack.n) {
        IrNode *n = stack.v[--stack.n];
        bool open = n->op == OP_ADD && (n == root || (n->id < d->n_ids && d->inner[n->id]));
        if (!open) ARENA_PUSH(p->arena, found.v, found.n, found.cap, n);
        for (int k = open ? n->n_in - 1 : -1; k >= 0; k--)
            ARENA_PUSH(p->arena, stack.v, stack.n, stack.cap, n->in[k]);
    }
    return found;
}

/* The rows that stand for a term's one-hots, pooled as the term was. Its kernel becomes their table. */
static IrNode *rows_of(const Ind *d, IrBuilder *b, IrNode *term, IrNode *product) {
    IrProgram *p = b->p;
    int w = (int)ir_attr_i(product->in[1], "w");
    IrWeight *kernel = &p->weights[w];
    become_table(kernel, free_name(p, pass_path_of(p, kernel->name), "indicator", ""), kernel->dim[0],
                 d->dim);
    IrNode *rows = pass_looked_up(b, product->in[0], pass_weight_node(b, w), 0);
    return term == product ? rows : ir_build1(b, term->op, rows);
}

/* The terms of one optimizer as one product; marks them done in `products`. */
static IrNode *one_product(const Ind *d, IrBuilder *b, const Nodes *all, IrNode **products, int first) {
    IrProgram *p = b->p;
    Nodes rows = {0};
    IrWeight like = p->weights[ir_attr_i(products[first]->in[1], "w")];
    const char *path = like.name;
    for (int i = first; i < all->n; i++) {
        if (!products[i]) continue;
        IrWeight *w = &p->weights[ir_attr_i(products[i]->in[1], "w")];
        if (w->optimizer != like.optimizer) continue;
        path = pass_common_path(p, path, w->name);
        ARENA_PUSH(p->arena, rows.v, rows.n, rows.cap, rows_of(d, b, all->v[i], products[i]));
        products[i] = NULL;
    }
    IrNode *x = rows.v[0];
    IrAttr axis = ir_ai("axis", 0);
    if (d->combine == CONCAT && rows.n > 1) x = ir_build(b, OP_CONCAT, rows.n, rows.v, 1, &axis);
    for (int i = 1; d->combine == SUM && i < rows.n; i++) x = ir_build2(b, OP_ADD, x, rows.v[i]);
    if (!x) return NULL;
    const char *name = rows.n > 1 ? free_name(p, path, "indicator", ".kernel") : like.name;
    return pass_matmul(b, x, pass_weight_node(b, add_weight(p, &like, name, x->type.dim[0], like.dim[1])),
                       false, false);
}

static IrNode *rewrite_sum(const Ind *d, IrBuilder *b, IrNode *root) {
    Nodes all = addends(d, b->p, root);
    IrNode **products = ARENA_ARRAY(b->p->arena, IrNode *, all.n), *sum = NULL;
    int found = 0;
    for (int i = 0; i < all.n; i++) {
        bool own = all.v[i] == root || (all.v[i]->id < d->n_ids && d->inner[all.v[i]->id]);
        products[i] = own ? term_product(d, b->p, all.v[i]) : NULL;
        found += products[i] != NULL;
        if (!products[i]) sum = sum ? ir_build2(b, OP_ADD, sum, all.v[i]) : all.v[i];
    }
    if (!found) return root;
    for (int i = 0; i < all.n; i++) {
        IrNode *product = products[i] ? one_product(d, b, &all, products, i) : NULL;
        if (product) sum = sum ? ir_build2(b, OP_ADD, sum, product) : product;
    }
    return sum;
}

/* ---- concats ---- */

/* The concat with lookups in place of one-hots; the products behind it follow when they are visited. */
static IrNode *rewrite_concat(const Ind *d, IrBuilder *b, IrNode *n, const IrWeight *like) {
    IrProgram *p = b->p;
    IrNode **parts = ARENA_ARRAY(p->arena, IrNode *, n->n_in);
    IrAttr axis = ir_ai("axis", 0);
    for (int i = 0; i < n->n_in; i++) {
        parts[i] = n->in[i];
        if (!parts[i]->mark) continue;
        const char *name = free_name(p, pass_path_of(p, like->name), "indicator", "");
        int w = add_weight(p, like, name, 0, 0);
        become_table(&p->weights[w], name, ir_type_width(parts[i]->type), d->dim);
        parts[i] = pass_looked_up(b, parts[i], pass_weight_node(b, w), 0);
    }
    return ir_build(b, OP_CONCAT, n->n_in, parts, 1, &axis);
}

static IrNode *narrower_product(IrBuilder *b, IrNode *n) {
    int w = (int)ir_attr_i(n->in[1], "w");
    b->p->weights[w].dim[0] = ir_type_width(n->in[0]->type);
    return pass_matmul(b, n->in[0], pass_weight_node(b, w), false, false);
}

static const IrWeight *kernel_behind(const IrProgram *p, IrBody body, const IrNode *concat) {
    for (int i = 0; i < body.n; i++) {
        const IrNode *n = body.nodes[i];
        if (n->op == OP_MATMUL && n->in[0] == concat) return &p->weights[ir_attr_i(n->in[1], "w")];
    }
    return NULL;
}

/* ---- the pass ---- */

static bool has_onehots(const IrNode *n) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]->mark) return true;
    return false;
}

static IrNode *visit(PassRewrite *rw, IrNode *n) {
    const Ind *d = rw->user;
    n->mark = pass_onehot_depth(n);
    if (n->mark) return n;
    if (n->op == OP_CONCAT && d->feeds[n->id] && d->uses[n->id] && has_onehots(n)) {
        const IrWeight like = *kernel_behind(rw->p, d->body, n);
        return rewrite_concat(d, &rw->b, n, &like);
    }
    if (pass_is_plain_product(n) && n->in[0]->op == OP_CONCAT &&
        ir_type_width(n->in[0]->type) != n->in[1]->type.dim[0])
        return narrower_product(&rw->b, n);
    if (d->inner[n->id] || (n->op != OP_ADD && !term_product(d, rw->p, n))) return n;
    return rewrite_sum(d, &rw->b, n);
}

bool pass_indicator_to_embedding(IrProgram *p, const PassOptions *o, const char *args) {
    (void)o;
    static const char *const known[] = {"dim", "combine"}, *const ways[] = {"sum", "concat"};
    Ind d = {0};
    if (!pass_args_known(p, "indicator-to-embedding", args, known, 2) ||
        !pass_arg_int(p, "indicator-to-embedding", args, "dim", 1, 4096, 16, &d.dim) ||
        !pass_arg_word(p, "indicator-to-embedding", args, "combine", ways, 2, &d.combine))
        return false;
    int before = pass_count_ops(p, OP_ONEHOT);
    for (int i = 0; i < p->n_funcs; i++) {
        IrBody *body = &p->funcs[i]->body;
        ir_renumber(p);
        look_at(&d, p, body);
        if (!pass_rewrite(p, p->funcs[i], visit, &d, NULL)) return false;
        pass_dead_code(p, body);
        pass_pool_lookups(p, body);
    }
    int gone = before - pass_count_ops(p, OP_ONEHOT);
    if (gone)
        pass_effect(p, "indicator-to-embedding", "%s trained as rows", pass_count_text(p, gone, "one-hot"));
    return true;
}
