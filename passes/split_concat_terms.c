/* Opening a product's left side into atoms, and building the products of the atoms: parts of split-concat. */
#include "passes/split_concat.h"
#include <stdlib.h>

/* ---- opening ---- */

static int last_axis(const IrNode *x) { return x->type.rank - 1; }

/* Linear in its operands, which have its sizes but for the last one of a concat's parts. */
bool pass_split_can_open(const IrNode *x) {
    switch (x->op) {
    case OP_CONCAT: return ir_attr_i(x, "axis") == last_axis(x);
    case OP_ADD:
    case OP_SUB:
    case OP_NEG:
    case OP_BROADCAST:
        for (int i = 0; i < x->n_in; i++)
            if (!ir_same_dims(x->in[i]->type, x->type)) return false;
        return true;
    default: return false;
    }
}

static int number_of(const Split *s, const IrNode *x) {
    int i = 0;
    while (i < s->n && s->inner[i] != x) i++;
    return i < s->n ? i : -1;
}

static void find_inner(Split *s, IrNode *x, int depth) {
    if (depth == SPLIT_DEPTH || !pass_split_can_open(x) || number_of(s, x) >= 0) return;
    if (s->onehots && x->mark != SPLIT_HAS_ONEHOTS) return;
    for (int i = 0; i < x->n_in; i++) find_inner(s, x->in[i], depth + 1);
    if (s->n < SPLIT_INNER) s->inner[s->n++] = x;
}

/* How many operands of the insides and of the product n is. */
static int uses_inside(const Split *s, const IrNode *n) {
    int uses = s->product->in[0] == n;
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->inner[i]->n_in; k++) uses += s->inner[i]->in[k] == n;
    return uses;
}

bool pass_split_open(Split *s, IrNode *product, bool onehots) {
    *s = (Split){.product = product, .onehots = onehots};
    if (product->op != OP_MATMUL || ir_attr_i(product, "ta")) return false;
    IrNode *x = product->in[0], *w = product->in[1];
    if (x->type.live < LIVE_ROW || w->type.live > LIVE_STEP || w->type.rank != 2) return false;
    find_inner(s, x, 0);
    bool concat = onehots;
    for (int i = 0; i < s->n; i++) {
        concat |= s->inner[i]->op == OP_CONCAT;
        s->open[i] = true;
        s->kept[i] = s->inner[i]->mark > uses_inside(s, s->inner[i]);
    }
    return concat && s->n > 0 && s->inner[s->n - 1] == x;
}

/* ---- atoms ---- */

static bool add_place(Split *s, IrNode *x, SplitPlace at) {
    int i = 0;
    while (i < s->n_atoms && s->atom[i].value != x) i++;
    if (i == SPLIT_ATOMS || (i < s->n_atoms && s->atom[i].n == SPLIT_PLACES)) return false;
    if (i == s->n_atoms) s->atom[s->n_atoms++] = (SplitAtom){.value = x, .group = (int)x->type.live};
    s->atom[i].at[s->atom[i].n++] = at;
    return true;
}

/* x stands at `at` of the left side. */
static bool add_atoms(Split *s, IrNode *x, SplitPlace at) {
    int number = number_of(s, x);
    if (number < 0 || !s->open[number]) return add_place(s, x, at);
    for (int i = 0; i < x->n_in; i++) {
        bool turned = x->op == OP_NEG || (x->op == OP_SUB && i == 1);
        if (!add_atoms(s, x->in[i], (SplitPlace){at.begin, at.minus != turned})) return false;
        if (x->op == OP_CONCAT) at.begin += ir_type_width(x->in[i]->type);
    }
    return true;
}

bool pass_split_atoms(Split *s) {
    s->n_atoms = 0;
    return add_atoms(s, s->product->in[0], (SplitPlace){0, false});
}

/* ---- products of atoms ---- */

static bool turned(const Split *s) { return ir_attr_i(s->product, "tb"); }

/* Of a W that was put together or cut out of something, that alone which holds begin … end-1, counted within
 * it. */
static IrNode *part_within(IrNode *w, int axis, int64_t *begin, int64_t *end) {
    if (w->op == OP_SLICE && ir_attr_i(w, "axis") == axis) {
        *begin += ir_attr_i(w, "begin");
        *end += ir_attr_i(w, "begin");
        return part_within(w->in[0], axis, begin, end);
    }
    if (w->op != OP_CONCAT || ir_attr_i(w, "axis") != axis) return w;
    int64_t at = 0;
    for (int i = 0; i < w->n_in; at += w->in[i++]->type.dim[axis])
        if (*begin >= at && *end <= at + w->in[i]->type.dim[axis]) {
            *begin -= at;
            *end -= at;
            return part_within(w->in[i], axis, begin, end);
        }
    return w;
}

/* The rows (columns, if it is used turned) of W that meet begin … end-1 of the left side: each slice once, so
 * that its gradient is one sum. */
static IrNode *weight_part(const Split *s, IrBuilder *b, int64_t begin, int64_t end) {
    IrNode *w = s->product->in[1];
    int axis = turned(s) ? 1 : 0;
    w = part_within(w, axis, &begin, &end);
    if (end - begin == w->type.dim[axis]) return w;
    for (int i = 0; i < b->body->n; i++) {
        IrNode *n = b->body->nodes[i];
        if (n->op == OP_SLICE && n->in[0] == w && ir_attr_i(n, "axis") == axis &&
            ir_attr_i(n, "begin") == begin && ir_attr_i(n, "end") == end)
            return n;
    }
    return pass_slice(b, w, axis, begin, end);
}

/* What an atom is multiplied with: the sum of the parts of W that it meets, by sign. */
static IrNode *weight_of(const Split *s, IrBuilder *b, const SplitAtom *a) {
    int64_t width = ir_type_width(a->value->type);
    int first = 0;
    while (first < a->n && a->at[first].minus) first++;
    bool negative = first == a->n;
    if (negative) first = 0;
    IrNode *w = weight_part(s, b, a->at[first].begin, a->at[first].begin + width);
    if (negative) w = ir_build1(b, OP_NEG, w);
    for (int i = 0; i < a->n; i++) {
        if (i == first) continue;
        IrNode *part = weight_part(s, b, a->at[i].begin, a->at[i].begin + width);
        w = ir_build2(b, a->at[i].minus ? OP_SUB : OP_ADD, w, part);
    }
    return w;
}

static bool plain(const SplitAtom *a) { return a->n == 1 && !a->at[0].minus; }

static IrNode *joined(const Split *s, IrBuilder *b, IrNode **part, int n, int axis) {
    return n == 1 ? part[0] : pass_concat_once(b, s->around, n, part, axis);
}

/* The product of all atoms of the group with their weights; NULL if there are none. Neighbours in x that meet
 * W as they stand keep their slice of W in one. */
static IrNode *product_of(Split *s, IrBuilder *b, int group) {
    IrNode *value[SPLIT_ATOMS], *weight[SPLIT_ATOMS];
    int n = 0, n_weights = 0;
    for (int i = 0; i < s->n_atoms; i++) {
        const SplitAtom *a = &s->atom[i];
        if (a->group != group) continue;
        value[n++] = a->value;
        if (!plain(a)) {
            weight[n_weights++] = weight_of(s, b, a);
            continue;
        }
        int64_t begin = a->at[0].begin, end = begin + ir_type_width(a->value->type);
        for (; i + 1 < s->n_atoms; i++) {
            const SplitAtom *next = &s->atom[i + 1];
            if (next->group != group || !plain(next) || next->at[0].begin != end) break;
            value[n++] = next->value;
            end += ir_type_width(next->value->type);
        }
        weight[n_weights++] = weight_part(s, b, begin, end);
    }
    if (!n) return NULL;
    IrNode *x = joined(s, b, value, n, last_axis(value[0]));
    return pass_matmul(b, x, joined(s, b, weight, n_weights, turned(s) ? 1 : 0), false, turned(s));
}

/* Adds a lookup for each place of each atom that is linear in one-hots. */
static IrNode *add_lookups(const Split *s, IrBuilder *b, IrNode *sum) {
    for (int i = 0; i < s->n_atoms; i++) {
        const SplitAtom *a = &s->atom[i];
        for (int k = 0; k < a->n && a->group == SPLIT_LOOKUPS; k++) {
            IrNode *rows = pass_looked_up(b, a->value, s->product->in[1], a->at[k].begin);
            if (sum)
                sum = ir_build2(b, a->at[k].minus ? OP_SUB : OP_ADD, sum, rows);
            else
                sum = a->at[k].minus ? ir_build1(b, OP_NEG, rows) : rows;
        }
    }
    return sum;
}

/* Nothing that lives as often as the result is left where a row's value was only repeated along a list. */
static IrNode *along_list(Split *s, IrBuilder *b, IrNode *y) {
    IrType t = s->product->type;
    return !y || y->type.live == t.live ? y : pass_along_list(b, y, t);
}

/* The slices of W, in the order in which they stand in it: so differentiate adds up their gradients neighbour
 * by neighbour, and simplify makes one concat of that. */
static int by_begin(const void *a, const void *b) {
    const IrNode *x = *(IrNode *const *)a, *y = *(IrNode *const *)b;
    int64_t from = ir_attr_i(x, "begin"), other = ir_attr_i(y, "begin");
    if (from != other) return from < other ? -1 : 1;
    return (ir_attr_i(x, "end") > ir_attr_i(y, "end")) - (ir_attr_i(x, "end") < ir_attr_i(y, "end"));
}

static void push_slices_first(IrBuilder *b, IrBody *from) {
    IrNode **slice = ARENA_ARRAY(b->p->arena, IrNode *, from->n + 1);
    int n = 0;
    for (int i = 0; i < from->n; i++)
        if (from->nodes[i]->op == OP_SLICE) slice[n++] = from->nodes[i];
    qsort(slice, (size_t)n, sizeof *slice, by_begin);
    for (int i = 0; i < n; i++) pass_push(b->p, b->body, slice[i]);
    for (int i = 0; i < from->n; i++)
        if (from->nodes[i]->op != OP_SLICE) pass_push(b->p, b->body, from->nodes[i]);
}

IrNode *pass_split_build(Split *s, IrBuilder *b) {
    IrBody made = {0};
    IrBuilder aside = *b;
    aside.body = &made;
    s->around = b->body;
    IrNode *sum = NULL;
    for (int group = LIVE_ALWAYS; group <= LIVE_POS; group++) {
        IrNode *y = product_of(s, &aside, group);
        if (y) sum = sum ? ir_build2(&aside, OP_ADD, y, sum) : y;
    }
    sum = along_list(s, &aside, add_lookups(s, &aside, sum));
    push_slices_first(b, &made);
    return sum;
}
