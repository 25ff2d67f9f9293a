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
 * of zeros and looks up zeros. Where a list's lookups are then only summed, they become embed_pool.
 *
 * Or a concat that has such values among its parts, which meet rows of the weight from some row on: their ids
 * are moved by as much, and the rest is a narrower product with the weight's other rows.
 *
 * before:
 *   %6 = concat %0, %3, %5 {axis=0} : f32[13]
 *   %7 = weight {w=w} : always f32[13,8]
 *   %8 = matmul %6, %7 {ta=0, tb=0} : f32[8]
 * after, where %3 was the one-hot of %2:
 *   %5 = weight {w=w} : always f32[13,8]
 *   %6 = slice %5 {axis=0, begin=0, end=1} : always f32[1,8]
 *   %7 = slice %5 {axis=0, begin=11, end=13} : always f32[2,8]
 *   %8 = concat %0, %4 {axis=0} : f32[3]
 *   %9 = concat %6, %7 {axis=0} : always f32[3,8]
 *   %10 = matmul %8, %9 {ta=0, tb=0} : f32[8]
 *   %11 = offset %2 {by=1, n=13} : id<13>
 *   %12 = embed %11, %5 : f32[8]
 *   %13 = add %10, %12 : f32[8]
 * (tests/golden/passes/onehot-to-embedding/concat.*)
 *
 * A slice of such a concat, its sum or mean along a list, or a multiple of it is first made part by part; a
 * slice of a one-hot is a narrower one, of an id counted from the slice's first element on (`offset`), none
 * where the slice leaves it out.
 *
 * The weight stays one, with its checkpoint, initial values, fans, l2 and clip_norm; and as a lookup is one
 * in the whole weight, its gradient is made by row, where a slice's rows would need the one-hots again.
 *
 * What is left: a one-hot that something else uses than products with weights, such as an activation or a
 * batch normalisation of the concat, is built in full; a note says where. */
#include "passes/split_concat.h"

/* A node's mark: how deep it is in the one-hots that it is linear in; SPLIT_HAS_ONEHOTS if they are among the
 * parts of which concats, sums and broadcasts made it; else 0. */
static int onehots_in(const IrNode *n) {
    int depth = pass_onehot_depth(n);
    for (int i = 0; !depth && i < n->n_in && pass_split_can_open(n); i++)
        if (n->in[i]->mark) return SPLIT_HAS_ONEHOTS;
    return depth;
}

/* ---- ops on concats that have one-hots ---- */

/* Of an op that does the same to each part of such a concat, or takes some of them: which operand that is;
 * else -1. */
static int concat_operand(const IrNode *n) {
    int k = 0;
    switch (n->op) {
    case OP_SLICE:
    case OP_SEGSUM:
    case OP_SEGMEAN: break;
    case OP_MUL:
    case OP_DIV:
        if ((k = pass_scaled_onehots(n)) < 0) return -1;
        break;
    default: return -1;
    }
    const IrNode *x = n->in[k];
    return x->op == OP_CONCAT && x->mark == SPLIT_HAS_ONEHOTS && x->type.rank == 1 ? k : -1;
}

static IrNode *marked(IrNode *n) {
    if (n) n->mark = onehots_in(n);
    return n;
}

static IrNode *slice_of(IrBuilder *b, IrNode *x, int64_t begin, int64_t end) {
    if (end - begin == ir_type_width(x->type)) return x;
    return x->mark > 0 ? pass_onehot_slice(b, x, begin, end) : marked(pass_slice(b, x, 0, begin, end));
}

/* What n does, done to one part of its operand. Of a slice, the part's elements from `begin` to `end`. */
static IrNode *done_to(IrBuilder *b, const IrNode *n, int operand, IrNode *part, int64_t begin, int64_t end) {
    if (n->op == OP_SLICE) return slice_of(b, part, begin, end);
    if ((n->op == OP_SEGSUM || n->op == OP_SEGMEAN) && part->type.live != LIVE_POS)
        part = pass_along_list(b, part, n->in[0]->type); /* a row's value, which the concat repeats */
    IrNode *in[2] = {n->in[0], n->n_in > 1 ? n->in[1] : NULL};
    in[operand] = part;
    return part ? marked(ir_build(b, n->op, n->n_in, in, n->n_attrs, n->attrs)) : NULL;
}

/* n as a concat of what it does to the parts of its operand x, or to those that a slice meets. */
static IrNode *by_part(IrBuilder *b, const IrNode *n, int operand, IrNode *x, int64_t begin, int64_t end,
                       int depth) {
    if (x->op != OP_CONCAT || x->mark != SPLIT_HAS_ONEHOTS || depth == SPLIT_DEPTH)
        return done_to(b, n, operand, x, begin, end);
    IrNode **part = ARENA_ARRAY(b->p->arena, IrNode *, x->n_in);
    IrAttr axis = ir_ai("axis", 0);
    int parts = 0;
    for (int64_t i = 0, at = 0, width; i < x->n_in; i++, at += width) {
        width = ir_type_width(x->in[i]->type);
        int64_t from = begin > at ? begin - at : 0, to = end < at + width ? end - at : width;
        if (from < to) part[parts++] = by_part(b, n, operand, x->in[i], from, to, depth + 1);
    }
    return parts == 1 ? part[0] : marked(ir_build(b, OP_CONCAT, parts, part, 1, &axis));
}

/* A slice may meet only parts that live less often than the concat: of a row, they are repeated along its
 * list. */
static IrNode *into_concat(IrBuilder *b, IrNode *n, int operand) {
    IrNode *x = n->in[operand];
    bool slice = n->op == OP_SLICE;
    IrNode *y = by_part(b, n, operand, x, slice ? ir_attr_i(n, "begin") : 0,
                        slice ? ir_attr_i(n, "end") : ir_type_width(x->type), 0);
    if (!y || y->type.live == n->type.live) return y;
    return n->type.live == LIVE_POS ? marked(pass_along_list(b, y, n->type)) : n;
}

/* ---- products ---- */

/* Opens what has one-hots; all else is one atom each, and what isn't to be looked up is one product. */
static bool open_onehots(Split *s, IrNode *product) {
    const IrNode *x = product->in[0], *w = product->in[1];
    if (x->mark != SPLIT_HAS_ONEHOTS || x->type.rank != 1 || w->op != OP_WEIGHT || ir_attr_i(product, "tb"))
        return false;
    if (!pass_split_open(s, product, true) || !pass_split_atoms(s)) return false;
    for (int i = 0; i < s->n_atoms; i++)
        s->atom[i].group = s->atom[i].value->mark > 0 ? SPLIT_LOOKUPS : LIVE_POS;
    return true;
}

/* A lookup in some of a weight's rows is one in the weight. */
static IrNode *lookup_in_whole(PassRewrite *rw, IrNode *n) {
    IrNode *rows = n->in[1], *w = rows->op == OP_SLICE ? rows->in[0] : rows;
    if (rows == w || w->op != OP_WEIGHT || ir_attr_i(rows, "axis") != 0 || pass_is_lazy(rw->p, w)) return n;
    IrNode *id = pass_moved_id(&rw->b, n->in[0], w, ir_attr_i(rows, "begin"));
    return id ? ir_build(&rw->b, n->op, 2, (IrNode *[]){id, w}, n->n_attrs, n->attrs) : NULL;
}

static IrNode *visit(PassRewrite *rw, IrNode *n) {
    n->mark = onehots_in(n);
    int operand = concat_operand(n);
    if (operand >= 0) return into_concat(&rw->b, n, operand);
    if (n->op == OP_SLICE && n->in[0]->mark > 0)
        return slice_of(&rw->b, n->in[0], ir_attr_i(n, "begin"), ir_attr_i(n, "end"));
    if (n->op == OP_EMBED || n->op == OP_EMBEDPOOL) return lookup_in_whole(rw, n);
    if (n->op != OP_MATMUL) return n;
    if (pass_is_onehot_product(n)) return pass_looked_up(&rw->b, n->in[0], n->in[1], 0);
    Split *s = rw->user;
    return !pass_is_lazy(rw->p, n->in[1]) && open_onehots(s, n) ? pass_split_build(s, &rw->b) : n;
}

/* ---- what is left ---- */

/* After the pass every one-hot that is still there has a user that needs it in full. Names the first of each;
 * false if it is a product that a lookup should stand for. */
static bool note_rest(IrProgram *p, const IrBody *body) {
    for (int i = 0; i < body->n; i++) body->nodes[i]->mark = 0, body->nodes[i]->aux = NULL;
    for (int i = 0; i < body->n; i++) {
        IrNode *n = body->nodes[i];
        n->mark = onehots_in(n);
        if (n->op == OP_ONEHOT) n->aux = n;
        for (int k = 0; k < n->n_in; k++) {
            IrNode *hot = n->in[k]->mark ? n->in[k]->aux : NULL;
            if (!hot) continue;
            if (n->mark) {
                n->aux = hot;
                continue;
            }
            if (pass_is_onehot_product(n)) {
                diag_error(p->diag, n->span, NULL,
                           "a product with a one-hot is left: a mistake of the compiler");
                return false;
            }
            diag_note(
                p->diag, n->span,
                "'%s' needs a one-hot of %lld value%s in full: only a product with rows of a weight becomes "
                "a lookup",
                ir_ops[n->op].text, (long long)hot->type.dim[0], hot->type.dim[0] == 1 ? "" : "s");
            break;
        }
    }
    return true;
}

bool pass_onehot_to_embedding(IrProgram *p, const PassOptions *o, const char *args) {
    (void)o;
    if (!pass_args_known(p, "onehot-to-embedding", args, NULL, 0)) return false;
    Split *s = ARENA_NEW(p->arena, Split);
    int before = pass_count_ops(p, OP_ONEHOT);
    for (int i = 0; i < p->n_funcs; i++) {
        IrBody *body = &p->funcs[i]->body;
        if (!pass_rewrite(p, p->funcs[i], visit, s, NULL)) return false;
        pass_dead_code(p, body);
        if (!note_rest(p, body)) return false;
        pass_pool_lookups(p, body);
    }
    int gone = before - pass_count_ops(p, OP_ONEHOT);
    if (gone) pass_effect(p, "onehot-to-embedding", "%s looked up", pass_count_text(p, gone, "one-hot"));
    return true;
}
