/* Numbers what the reader delivers to a step. Features are reader-stage nodes, equal ones once; inputs are
 * the arrays that step ops read: a feature's raw values, or its positions among a table's unique rows (a
 * lookup).
 *
 * The order is that of first use over the functions in their order, so every part that calls this on one
 * program sees the same numbers. A lookup is made for each (id, table, pooled) that an op reads or scatters
 * by; ids that only say which rows count (`fetch`, `update_touched`) get a plain lookup if they have none. */
#include <string.h>
#include "backend/backend.h"

typedef struct {
    IrProgram *p;
    BackendInputs in;
    int cap, cap_features, n_lookups;
} Collect;

static bool attr_eq(const IrAttr *a, const IrAttr *b) {
    if (strcmp(a->key, b->key) != 0 || a->kind != b->kind) return false;
    switch (a->kind) {
    case 'f': return a->f == b->f;
    case 's': return strcmp(a->s, b->s) == 0;
    case 'I':
        return a->ilist.n == b->ilist.n &&
               (!a->ilist.n || !memcmp(a->ilist.v, b->ilist.v, sizeof(int64_t) * (size_t)a->ilist.n));
    case 'F':
        return a->flist.n == b->flist.n &&
               (!a->flist.n || !memcmp(a->flist.v, b->flist.v, sizeof(double) * (size_t)a->flist.n));
    default: return a->i == b->i;
    }
}

static bool same_feature(const IrNode *a, const IrNode *b) {
    if (a == b) return true;
    if (a->op != b->op || a->n_in != b->n_in || a->n_attrs != b->n_attrs) return false;
    for (int i = 0; i < a->n_attrs; i++) {
        const IrAttr *other = ir_attr(b, a->attrs[i].key);
        if (!other || !attr_eq(&a->attrs[i], other)) return false;
    }
    for (int i = 0; i < a->n_in; i++)
        if (!same_feature(a->in[i], b->in[i])) return false;
    return true;
}

int backend_feature(const BackendInputs *in, const IrNode *value) {
    for (int i = 0; i < in->n_features; i++)
        if (same_feature(in->features[i], value)) return i;
    return -1;
}

int backend_input_raw(const BackendInputs *in, const IrNode *value) {
    int feature = backend_feature(in, value);
    for (int i = 0; feature >= 0 && i < in->n; i++)
        if (in->inputs[i].kind != BE_LOOKUP && in->inputs[i].feature == feature) return i;
    return -1;
}

int backend_input_lookup(const BackendInputs *in, const IrNode *id, int table, bool pooled) {
    int feature = backend_feature(in, id);
    for (int i = 0; feature >= 0 && i < in->n; i++) {
        const BackendInput *b = &in->inputs[i];
        if (b->kind == BE_LOOKUP && b->feature == feature && b->table == table && b->pooled == pooled)
            return i;
    }
    return -1;
}

/* A feature's number; makes it, after those that it is computed from. Columns are features only where a step
 * reads them as they are: inside a feature they are named by their column. */
static int feature(Collect *c, const IrNode *n) {
    int found = backend_feature(&c->in, n);
    if (found >= 0) return found;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]->op != OP_COLUMN) feature(c, n->in[i]);
    ARENA_PUSH(c->p->arena, c->in.features, c->in.n_features, c->cap_features, n);
    return c->in.n_features - 1;
}

static void add_raw(Collect *c, const IrNode *n) {
    if (backend_input_raw(&c->in, n) >= 0) return;
    BackendInput b = {.value = n, .feature = feature(c, n), .table = -1, .lookup = -1, .ordinal = -1};
    b.kind = n->type.elem == TY_ID ? BE_ID : n->type.elem == TY_KEY ? BE_KEY : BE_F32;
    ARENA_PUSH(c->p->arena, c->in.inputs, c->in.n, c->cap, b);
}

static void add_lookup(Collect *c, const IrNode *id, int table, bool pooled) {
    if (backend_input_lookup(&c->in, id, table, pooled) >= 0) return;
    BackendInput b = {.kind = BE_LOOKUP, .value = id, .table = table, .pooled = pooled};
    b.feature = feature(c, id);
    b.lookup = c->n_lookups++;
    for (int i = 0; i < c->in.n; i++)
        if (c->in.inputs[i].kind == BE_LOOKUP && c->in.inputs[i].table == table) b.ordinal++;
    ARENA_PUSH(c->p->arena, c->in.inputs, c->in.n, c->cap, b);
}

/* An operand as it stands outside the region that `user` may be part of. */
static const IrNode *operand(const IrNode *user, int i, const IrNode *region) {
    const IrNode *x = user->in[i];
    return x->op == OP_ARG && region ? region->in[ir_attr_i(x, "index")] : x;
}

static void collect_node(Collect *c, const IrNode *n, const IrNode *region) {
    switch (n->op) {
    case OP_EMBED:
    case OP_EMBEDPOOL: {
        const IrNode *id = operand(n, 0, region), *rows = operand(n, 1, region);
        if (rows->type.live == LIVE_UNIQ)
            add_lookup(c, id, rows->type.axis, n->op == OP_EMBEDPOOL);
        else
            add_raw(c, id);
        return;
    }
    case OP_ROWGRAD:
    case OP_DENSEGRAD: {
        const IrAttr *kinds = ir_attr(n, "kinds");
        for (int i = 0; i + 1 < n->n_in; i += 2) {
            add_lookup(c, operand(n, i, region), (int)ir_attr_i(n, "w"), kinds->ilist.v[i / 2] != 0);
            const IrNode *g = operand(n, i + 1, region);
            if (ir_is_reader(g)) add_raw(c, g);
        }
        return;
    }
    case OP_FETCH: return; /* second round */
    case OP_FUSED:
        for (int i = 0; i < n->body->n; i++) collect_node(c, n->body->nodes[i], n);
        return;
    default:
        for (int i = 0; i < n->n_in; i++) {
            const IrNode *x = operand(n, i, region);
            if (n->op == OP_UPDATETOUCHED && x->type.elem == TY_ID) continue;
            if (ir_is_reader(x)) add_raw(c, x);
        }
    }
}

static void collect_rows_named(Collect *c, const IrNode *n) {
    if (n->op != OP_FETCH && n->op != OP_UPDATETOUCHED) return;
    int w = (int)ir_attr_i(n, "w");
    for (int i = 0; i < n->n_in; i++) {
        const IrNode *id = n->in[i];
        if (id->type.elem != TY_ID || backend_input_lookup(&c->in, id, w, true) >= 0) continue;
        add_lookup(c, id, w, false);
    }
}

BackendInputs backend_inputs(IrProgram *p) {
    Collect c = {.p = p};
    for (int f = 0; f < p->n_funcs; f++)
        for (int i = 0; i < p->funcs[f]->body.n; i++) {
            const IrNode *n = p->funcs[f]->body.nodes[i];
            if (!ir_is_reader(n)) collect_node(&c, n, NULL);
        }
    for (int f = 0; f < p->n_funcs; f++)
        for (int i = 0; i < p->funcs[f]->body.n; i++) collect_rows_named(&c, p->funcs[f]->body.nodes[i]);
    return c.in;
}
