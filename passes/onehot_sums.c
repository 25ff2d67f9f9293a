/* What is linear in one-hots, and the same of looked-up rows: see rewrite.h. */
#include "passes/rewrite.h"

enum { MAX_DEPTH = 10000 }; /* of sums of one-hots: pass_looked_up goes down by recursion */

int pass_scaled_onehots(const IrNode *n) {
    int k = ir_scaled_operand(n);
    bool turned = k == 0 && n->op == OP_MUL && !n->in[0]->mark && n->in[1]->mark;
    return turned && ir_same_dims(n->in[0]->type, n->in[1]->type) ? 1 : k;
}

int pass_onehot_depth(const IrNode *n) {
    const IrNode *x = n->n_in > 0 ? n->in[0] : NULL, *y = n->n_in > 1 ? n->in[1] : NULL;
    int deeper = 0, scaled = pass_scaled_onehots(n);
    switch (n->op) {
    case OP_ONEHOT: return 1;
    case OP_ADD:
    case OP_SUB:
        if (x->mark > 0 && y->mark > 0 && ir_same_dims(x->type, y->type))
            deeper = x->mark > y->mark ? x->mark : y->mark;
        break;
    case OP_MUL:
    case OP_DIV:
        if (scaled >= 0) deeper = n->in[scaled]->mark;
        break;
    case OP_BROADCAST:
        if (ir_same_dims(x->type, n->type)) deeper = x->mark;
        break;
    case OP_NEG:
    case OP_SEGSUM:
    case OP_SEGMEAN: deeper = x->mark; break;
    default: break;
    }
    return deeper > 0 && deeper < MAX_DEPTH ? deeper + 1 : 0;
}

typedef struct {
    IrNode *from, *to;
} Made;
typedef struct {
    IrBuilder *b;
    IrNode *weight;
    int64_t first; /* row of the weight that the one-hots' first element meets */
    Made *made;    /* shared parts once */
    int n, cap;
} Lookup;

IrNode *pass_moved_id(IrBuilder *b, IrNode *id, const IrNode *weight, int64_t first) {
    IrAttr a[2] = {ir_ai("by", first), ir_ai("n", weight->type.dim[0])};
    return first ? ir_build(b, OP_OFFSET, 1, &id, 2, a) : id;
}

static IrNode *looked_up(Lookup *l, IrNode *n) {
    for (int i = 0; i < l->n; i++)
        if (l->made[i].from == n) return l->made[i].to;
    IrNode *in[2] = {0}, *r;
    int scaled = pass_scaled_onehots(n); /* the number may be a one-hot of one value itself: not looked up */
    for (int i = 0; i < n->n_in && n->op != OP_ONEHOT; i++)
        in[i] = scaled >= 0 && i != scaled ? n->in[i] : looked_up(l, n->in[i]);
    if (scaled == 1 && in[0]->mark > 0) { /* behind the lookup it is a factor for good */
        IrNode *number = in[0];
        in[0] = in[1], in[1] = number;
    }
    if (n->op == OP_ONEHOT)
        r = ir_build2(l->b, OP_EMBED, pass_moved_id(l->b, n->in[0], l->weight, l->first), l->weight);
    else if (n->op == OP_BROADCAST)
        r = pass_along_list(l->b, in[0], n->type);
    else
        r = n->n_in == 2 ? ir_build2(l->b, n->op, in[0], in[1]) : ir_build1(l->b, n->op, in[0]);
    Made made = {n, r};
    ARENA_PUSH(l->b->p->arena, l->made, l->n, l->cap, made);
    return r;
}

IrNode *pass_looked_up(IrBuilder *b, IrNode *n, IrNode *weight, int64_t first) {
    Lookup l = {.b = b, .weight = weight, .first = first};
    return looked_up(&l, n);
}

/* ---- slices ---- */

typedef struct {
    IrBuilder *b;
    int64_t begin, end;
    Made *made;
    int n, cap;
} Cut;

/* Ids that the slice leaves out become none, whose one-hot is zeros. */
static IrNode *onehot_of_some(const Cut *c, IrNode *id) {
    IrAttr a[2] = {ir_ai("by", -c->begin), ir_ai("n", c->end - c->begin)};
    return ir_build1(c->b, OP_ONEHOT, ir_build(c->b, OP_OFFSET, 1, &id, 2, a));
}

static IrNode *cut(Cut *c, IrNode *n) {
    for (int i = 0; i < c->n; i++)
        if (c->made[i].from == n) return c->made[i].to;
    IrNode *in[2] = {0}, *r;
    int scaled = pass_scaled_onehots(n);
    for (int i = 0; i < n->n_in && n->op != OP_ONEHOT; i++)
        in[i] = scaled >= 0 && i != scaled ? n->in[i] : cut(c, n->in[i]);
    if (n->op == OP_ONEHOT)
        r = onehot_of_some(c, n->in[0]);
    else if (n->op == OP_BROADCAST)
        r = pass_along_list(c->b, in[0], n->type);
    else
        r = n->n_in == 2 ? ir_build2(c->b, n->op, in[0], in[1]) : ir_build1(c->b, n->op, in[0]);
    if (r) r->mark = pass_onehot_depth(r);
    Made made = {n, r};
    ARENA_PUSH(c->b->p->arena, c->made, c->n, c->cap, made);
    return r;
}

IrNode *pass_onehot_slice(IrBuilder *b, IrNode *n, int64_t begin, int64_t end) {
    Cut c = {.b = b, .begin = begin, .end = end};
    return cut(&c, n);
}

bool pass_is_onehot_product(const IrNode *n) {
    return pass_is_plain_product(n) && n->in[0]->mark > 0 && n->in[0]->type.rank == 1;
}
