/* Making nodes. A builder infers the type of what it appends, so no node of a wrong shape ever stands in a
 * body. */
#include "ir/internal.h"
#include <stdlib.h>
#include <string.h>

IrAttr ir_ai(const char *key, int64_t v) { return (IrAttr){.key = key, .kind = 'i', .i = v}; }
IrAttr ir_ab(const char *key, bool v) { return (IrAttr){.key = key, .kind = 'b', .i = v}; }
IrAttr ir_af(const char *key, double v) { return (IrAttr){.key = key, .kind = 'f', .f = v}; }
IrAttr ir_as(const char *key, const char *v) { return (IrAttr){.key = key, .kind = 's', .s = v}; }

IrAttr ir_ail(Arena *a, const char *key, const int64_t *v, int n) {
    IrAttr attr = {.key = key, .kind = 'I'};
    attr.ilist.v = ARENA_ARRAY(a, int64_t, n);
    attr.ilist.n = n;
    if (n) memcpy(attr.ilist.v, v, sizeof *v * (size_t)n);
    return attr;
}

IrAttr ir_afl(Arena *a, const char *key, const double *v, int n) {
    IrAttr attr = {.key = key, .kind = 'F'};
    attr.flist.v = ARENA_ARRAY(a, double, n);
    attr.flist.n = n;
    if (n) memcpy(attr.flist.v, v, sizeof *v * (size_t)n);
    return attr;
}

const IrAttr *ir_attr(const IrNode *n, const char *key) {
    for (int i = 0; i < n->n_attrs; i++)
        if (strcmp(n->attrs[i].key, key) == 0) return &n->attrs[i];
    return NULL;
}

static const IrAttr *need_attr(const IrNode *n, const char *key) {
    const IrAttr *a = ir_attr(n, key);
    if (!a) {
        fprintf(stderr, "ctrc: internal error: op %s has no attribute '%s'\n", ir_ops[n->op].text, key);
        abort();
    }
    return a;
}

int64_t ir_attr_i(const IrNode *n, const char *key) { return need_attr(n, key)->i; }
double ir_attr_f(const IrNode *n, const char *key) { return need_attr(n, key)->f; }
const char *ir_attr_s(const IrNode *n, const char *key) { return need_attr(n, key)->s; }

static IrNode *node_new(IrProgram *p, IrOp op) {
    IrNode *n = ARENA_NEW(p->arena, IrNode);
    n->op = op;
    n->id = p->next_id++;
    n->plan.phase = -1;
    return n;
}

/* Attributes stand in the op table's order, with the table's kinds, whoever listed them. Those that the table
 * doesn't know come last, for ir_infer to complain about. */
static void set_attrs(IrProgram *p, IrNode *n, int count, const IrAttr *attrs) {
    IrAttrSpec specs[IR_MAX_ATTRS];
    int n_specs = ir_attr_specs(n->op, specs);
    n->attrs = ARENA_ARRAY(p->arena, IrAttr, count);
    for (int s = 0; s <= n_specs; s++)
        for (int i = 0; i < count; i++) {
            int at = ir_attr_find(specs, n_specs, attrs[i].key);
            if (at != s && !(at < 0 && s == n_specs)) continue;
            IrAttr a = attrs[i];
            if (at >= 0 && (a.kind == 'i' || a.kind == 'b') && strchr("ibwcxvo", specs[at].kind))
                a.kind = specs[at].kind;
            if (a.kind == 's') a.s = arena_strdup(p->arena, a.s);
            n->attrs[n->n_attrs++] = a;
        }
}

static void append(IrBuilder *b, IrNode *n) {
    ARENA_PUSH(b->p->arena, b->body->nodes, b->body->n, b->body->cap, n);
}

static IrNode *prepare(IrBuilder *b, IrOp op, int n_in, IrNode *const *in, int n_attrs, const IrAttr *attrs) {
    for (int i = 0; i < n_in; i++)
        if (!in[i]) return NULL;
    IrNode *n = node_new(b->p, op);
    n->span = b->span;
    n->name = b->name;
    n->in = ARENA_ARRAY(b->p->arena, IrNode *, n_in);
    n->n_in = n_in;
    if (n_in) memcpy(n->in, in, sizeof *in * (size_t)n_in);
    set_attrs(b->p, n, n_attrs, attrs);
    return n;
}

static IrNode *infer_and_append(IrBuilder *b, IrNode *n) {
    const char *why = NULL;
    if (!ir_infer(b->p, n, &n->type, &why)) {
        diag_error(b->p->diag, n->span, NULL, "%s: %s", ir_ops[n->op].text, why);
        return NULL;
    }
    append(b, n);
    return n;
}

IrNode *ir_build(IrBuilder *b, IrOp op, int n_in, IrNode *const *in, int n_attrs, const IrAttr *attrs) {
    IrNode *n = prepare(b, op, n_in, in, n_attrs, attrs);
    return n ? infer_and_append(b, n) : NULL;
}

IrNode *ir_build1(IrBuilder *b, IrOp op, IrNode *x) { return ir_build(b, op, 1, &x, 0, NULL); }

IrNode *ir_build2(IrBuilder *b, IrOp op, IrNode *x, IrNode *y) {
    return ir_build(b, op, 2, (IrNode *[]){x, y}, 0, NULL);
}

IrNode *ir_const(IrBuilder *b, double value) {
    IrAttr attrs[] = {ir_afl(b->p->arena, "value", &value, 1),
                      ir_ail(b->p->arena, "shape", (int64_t[]){1}, 1)};
    return ir_build(b, OP_CONST, 0, NULL, 2, attrs);
}

IrNode *ir_arg(IrBuilder *b, int index, IrType type) {
    IrAttr attr = ir_ai("index", index);
    IrNode *n = prepare(b, OP_ARG, 0, NULL, 1, &attr);
    n->type = type;
    return infer_and_append(b, n);
}

IrNode *ir_fused(IrBuilder *b, const char *kind, int n_in, IrNode *const *in, IrBody *body) {
    IrAttr attr = ir_as("kind", kind);
    IrNode *n = prepare(b, OP_FUSED, n_in, in, 1, &attr);
    if (!n) return NULL;
    n->body = body;
    return infer_and_append(b, n);
}

IrNode *ir_clone_node(IrProgram *p, const IrNode *n) {
    IrNode *c = node_new(p, n->op);
    int id = c->id;
    *c = *n;
    c->id = id;
    c->aux = NULL;
    c->mark = 0;
    c->in = ARENA_ARRAY(p->arena, IrNode *, n->n_in);
    if (n->n_in) memcpy(c->in, n->in, sizeof *n->in * (size_t)n->n_in);
    c->attrs = ARENA_ARRAY(p->arena, IrAttr, n->n_attrs);
    for (int i = 0; i < n->n_attrs; i++) {
        const IrAttr *a = &n->attrs[i];
        c->attrs[i] = a->kind == 'I'   ? ir_ail(p->arena, a->key, a->ilist.v, a->ilist.n)
                      : a->kind == 'F' ? ir_afl(p->arena, a->key, a->flist.v, a->flist.n)
                                       : *a;
    }
    return c;
}
