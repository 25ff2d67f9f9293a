/* Walking, rebuilding and comparing: see rewrite.h. */
#include "passes/rewrite.h"
#include <string.h>

/* ---- properties ---- */

bool pass_is_root(const IrNode *n) { return ir_ops[n->op].effect == EFFECT_ROOT || ir_writer(n); }

bool pass_is_weight(const IrNode *n, int weight) {
    return n->op == OP_WEIGHT && (weight < 0 || ir_attr_i(n, "w") == weight);
}

bool pass_is_lazy(const IrProgram *p, const IrNode *n) {
    return n->op == OP_WEIGHT && p->weights[ir_attr_i(n, "w")].lazy;
}

bool pass_is_plain_product(const IrNode *n) {
    return n->op == OP_MATMUL && n->in[1]->op == OP_WEIGHT && n->in[1]->type.rank == 2 &&
           !ir_attr_i(n, "ta") && !ir_attr_i(n, "tb");
}

bool pass_coarser(IrType a, IrType b) { return a.live < b.live; }

bool pass_is_const(const IrNode *n, double value) {
    if (n->op != OP_CONST) return false;
    const IrAttr *a = ir_attr(n, "value");
    for (int i = 0; i < a->flist.n; i++)
        if (a->flist.v[i] != value) return false;
    return a->flist.n > 0;
}

static bool same_bytes(const void *a, const void *b, size_t size, int n) {
    return n == 0 || memcmp(a, b, size * (size_t)n) == 0; /* empty lists may have no storage */
}

static bool attr_equal(const IrAttr *a, const IrAttr *b) {
    if (a->kind != b->kind || strcmp(a->key, b->key) != 0) return false;
    switch (a->kind) {
    case 'f': return memcmp(&a->f, &b->f, sizeof a->f) == 0; /* bits: 0 and -0 differ */
    case 's': return strcmp(a->s, b->s) == 0;
    case 'I':
        return a->ilist.n == b->ilist.n && same_bytes(a->ilist.v, b->ilist.v, sizeof(int64_t), a->ilist.n);
    case 'F':
        return a->flist.n == b->flist.n && same_bytes(a->flist.v, b->flist.v, sizeof(double), a->flist.n);
    default: return a->i == b->i;
    }
}

bool pass_equal(const IrNode *a, const IrNode *b) {
    if (a->op != b->op || a->n_in != b->n_in || a->n_attrs != b->n_attrs) return false;
    if (a->body || b->body || !ir_type_eq(a->type, b->type)) return false;
    for (int i = 0; i < a->n_in; i++)
        if (a->in[i] != b->in[i]) return false;
    for (int i = 0; i < a->n_attrs; i++)
        if (!attr_equal(&a->attrs[i], &b->attrs[i])) return false;
    return true;
}

static uint64_t mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

static IrNode *concat_of(const IrBody *body, int n, IrNode **part, int axis) {
    for (int i = body ? body->n - 1 : -1; i >= 0; i--) {
        IrNode *x = body->nodes[i];
        if (x->op != OP_CONCAT || x->n_in != n || ir_attr_i(x, "axis") != axis) continue;
        if (same_bytes(x->in, part, sizeof *part, n)) return x;
    }
    return NULL;
}

IrNode *pass_concat_once(IrBuilder *b, const IrBody *around, int n, IrNode **part, int axis) {
    IrNode *same = concat_of(b->body, n, part, axis);
    if (!same) same = concat_of(around, n, part, axis);
    IrAttr a = ir_ai("axis", axis);
    return same ? same : ir_build(b, OP_CONCAT, n, part, 1, &a);
}

uint64_t pass_hash(const IrNode *n) {
    uint64_t h = mix((uint64_t)n->op, (uint64_t)n->n_attrs);
    for (int i = 0; i < n->n_in; i++) h = mix(h, (uint64_t)(uintptr_t)n->in[i]);
    for (int i = 0; i < n->n_attrs; i++) {
        const IrAttr *a = &n->attrs[i];
        uint64_t bits = 0;
        switch (a->kind) {
        case 'f': memcpy(&bits, &a->f, sizeof bits); break;
        case 's': bits = strlen(a->s); break;
        case 'I': bits = a->ilist.n ? (uint64_t)a->ilist.v[0] : 0; break;
        case 'F':
            if (a->flist.n) memcpy(&bits, &a->flist.v[0], sizeof bits);
            break;
        default: bits = (uint64_t)a->i;
        }
        h = mix(h, bits);
    }
    return h;
}

/* ---- bodies ---- */

void pass_push(IrProgram *p, IrBody *body, IrNode *n) {
    ARENA_PUSH(p->arena, body->nodes, body->n, body->cap, n);
}

int pass_by_id(const void *a, const void *b) {
    const IrNode *x = *(IrNode *const *)a, *y = *(IrNode *const *)b;
    return x->id < y->id ? -1 : x->id > y->id;
}

IrBody *pass_region_body(IrProgram *p, IrNode *const *outside, int n_in, IrNode *const *nodes, int n) {
    IrBody *body = ARENA_NEW(p->arena, IrBody);
    IrBuilder b = {.p = p, .body = body};
    for (int i = 0; i < n_in; i++) {
        b.span = outside[i]->span;
        outside[i]->aux = ir_arg(&b, i, outside[i]->type);
    }
    for (int i = 0; i < n; i++) {
        IrNode *copy = ir_clone_node(p, nodes[i]);
        for (int k = 0; k < nodes[i]->n_in; k++) copy->in[k] = nodes[i]->in[k]->aux;
        pass_push(p, body, copy);
        nodes[i]->aux = copy;
    }
    return body;
}

int pass_only_operand(const IrNode *region, const IrNode *user, int k) {
    if (user->in[k]->op != OP_ARG) return -1;
    int64_t index = ir_attr_i(user->in[k], "index");
    for (int i = 0; i < region->body->n; i++) {
        const IrNode *b = region->body->nodes[i];
        for (int j = 0; j < b->n_in; j++)
            if (b->in[j]->op == OP_ARG && ir_attr_i(b->in[j], "index") == index && (b != user || j != k))
                return -1;
    }
    return (int)index;
}

int pass_dead_code(IrProgram *p, IrBody *body) {
    (void)p;
    for (int i = 0; i < body->n; i++) body->nodes[i]->mark = pass_is_root(body->nodes[i]);
    for (int i = body->n - 1; i >= 0; i--) {
        IrNode *n = body->nodes[i];
        if (!n->mark) continue;
        for (int k = 0; k < n->n_in; k++) n->in[k]->mark = 1;
    }
    int kept = 0, before = body->n;
    for (int i = 0; i < body->n; i++)
        if (body->nodes[i]->mark) body->nodes[kept++] = body->nodes[i];
    body->n = kept;
    return before - kept;
}

int pass_count_ops(const IrProgram *p, IrOp op) {
    int n = 0;
    for (int i = 0; i < p->n_funcs; i++)
        for (int k = 0; k < p->funcs[i]->body.n; k++) n += p->funcs[i]->body.nodes[k]->op == op;
    return n;
}

void pass_count_uses(IrBody *body) {
    for (int i = 0; i < body->n; i++) body->nodes[i]->mark = 0;
    for (int i = 0; i < body->n; i++)
        for (int k = 0; k < body->nodes[i]->n_in; k++) body->nodes[i]->in[k]->mark++;
}

int pass_pool_lookups(IrProgram *p, IrBody *body) {
    int pooled = 0;
    pass_count_uses(body);
    for (int i = 0; i < body->n; i++) {
        IrNode *n = body->nodes[i];
        if ((n->op != OP_SEGSUM && n->op != OP_SEGMEAN) || n->in[0]->op != OP_EMBED || n->in[0]->mark != 1)
            continue;
        IrAttr kind = ir_as("kind", n->op == OP_SEGSUM ? "sum" : "mean");
        n->op = OP_EMBEDPOOL; /* the result's type stays: a row of the table a row of the batch */
        n->in = n->in[0]->in;
        n->n_in = 2;
        n->attrs = NULL;
        n->n_attrs = 0;
        int cap = 0;
        ARENA_PUSH(p->arena, n->attrs, n->n_attrs, cap, kind);
        pooled++;
    }
    if (pooled) pass_dead_code(p, body);
    return pooled;
}

bool pass_rewrite(IrProgram *p, IrFunc *f, PassVisit visit, void *user, int *changed) {
    IrBody old = f->body;
    f->body = (IrBody){0};
    PassRewrite rw = {.p = p, .f = f, .b = {.p = p, .body = &f->body}, .user = user};
    for (int i = 0; i < old.n; i++) old.nodes[i]->aux = NULL;
    for (int i = 0; i < old.n; i++) {
        IrNode *n = old.nodes[i];
        for (int k = 0; k < n->n_in; k++) n->in[k] = n->in[k]->aux;
        rw.b.span = n->span;
        rw.b.name = n->name;
        IrNode *r = visit(&rw, n);
        if (!r) return false;
        if (r == n)
            pass_push(p, &f->body, n);
        else
            rw.changed++;
        n->aux = r;
    }
    if (changed) *changed += rw.changed;
    return true;
}

/* ---- building ---- */

IrNode *pass_weight_node(IrBuilder *b, int weight) {
    IrAttr a = ir_ai("w", weight);
    return ir_build(b, OP_WEIGHT, 0, NULL, 1, &a);
}

IrNode *pass_scalar_op(IrBuilder *b, IrOp op, IrNode *x, double y) {
    return x ? ir_build2(b, op, x, ir_const(b, y)) : NULL;
}

IrNode *pass_sum(IrBuilder *b, IrNode *x, int axis, bool keep) {
    IrAttr a[2] = {ir_ai("axis", axis), ir_ab("keep", keep)};
    return ir_build(b, OP_SUM, 1, &x, 2, a);
}

IrNode *pass_slice(IrBuilder *b, IrNode *x, int axis, int64_t begin, int64_t end) {
    IrAttr a[3] = {ir_ai("axis", axis), ir_ai("begin", begin), ir_ai("end", end)};
    return ir_build(b, OP_SLICE, 1, &x, 3, a);
}

IrNode *pass_reshape(IrBuilder *b, IrNode *x, int rank, const int64_t *dim) {
    if (!x) return NULL;
    IrType t = x->type;
    t.rank = rank;
    for (int i = 0; i < rank; i++) t.dim[i] = dim[i];
    if (ir_same_dims(t, x->type)) return x;
    IrAttr a = ir_ail(b->p->arena, "shape", dim, rank);
    return ir_build(b, OP_RESHAPE, 1, &x, 1, &a);
}

IrNode *pass_matmul(IrBuilder *b, IrNode *x, IrNode *y, bool ta, bool tb) {
    IrNode *in[2] = {x, y};
    IrAttr a[2] = {ir_ab("ta", ta), ir_ab("tb", tb)};
    return ir_build(b, OP_MATMUL, 2, in, 2, a);
}

IrNode *pass_along_list(IrBuilder *b, IrNode *x, IrType like) {
    if (!x) return NULL;
    IrAttr a[2] = {ir_ail(b->p->arena, "shape", x->type.dim, x->type.rank), ir_ai("axis", like.axis)};
    return ir_build(b, OP_BROADCAST, 1, &x, 2, a);
}

IrNode *pass_seg_len(IrBuilder *b, int axis) {
    IrAttr a = ir_ai("axis", axis);
    return ir_build(b, OP_SEGLEN, 0, NULL, 1, &a);
}
