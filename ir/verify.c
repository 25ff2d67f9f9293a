/* The verifier: what every pass may rely on. Declarations (verify_decl.c) come first, then functions, node by
 * node, then their plans (verify_plan.c). Errors stand at the node's place and name it; one tells enough, so
 * the rest of its function is skipped. */
#include "ir/internal.h"
#include <stdlib.h>
#include <string.h>

enum {
    MAX_DEPTH = 16,          /* of regions */
    FIRST_STAMP = 0x5ea10000 /* above the marks of nodes that stand in no body, and so were never cleared */
};

typedef struct {
    IrProgram *p;
    const IrFunc *f;
    const IrPlaces *places;
    int stamp; /* of the newest body: in the mark of its nodes that were checked */
    bool ok;
} Verifier;

/* Both report and return false. */
static bool complain(Verifier *v, Span at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool complain(Verifier *v, Span at, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    diag_error(v->p->diag, at, NULL, "%s", arena_vprintf(v->p->arena, fmt, ap));
    va_end(ap);
    return v->ok = false;
}

/* ---- nodes ---- */

static bool wrong_node(Verifier *v, const IrNode *n, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static bool wrong_node(Verifier *v, const IrNode *n, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(v->p->arena, fmt, ap);
    va_end(ap);
    return complain(v, ir_node_place(v->places, n), "%%%d %s in func '%s': %s", n->id, ir_ops[n->op].text,
                    v->f->name, text);
}

/* A type that may be printed: ARG and the operands of a rule bring theirs unchecked. */
static bool sound_type(Verifier *v, const IrNode *n) {
    IrType t = n->type;
    const char *why = NULL;
    if (t.elem == TY_NONE) return true;
    if (t.elem > TY_NONE || t.live > LIVE_UNIQ) return wrong_node(v, n, "expected a type, found none");
    int axes = t.live == LIVE_POS ? v->p->n_axes : v->p->n_weights;
    if (t.live >= LIVE_POS && (t.axis < 0 || t.axis >= axes))
        return wrong_node(v, n, "expected %s below %d, found %d", t.live == LIVE_POS ? "an axis" : "a table",
                          axes, t.axis);
    if (t.elem == TY_F32 && !ir_check_dims(v->p, t.rank, t.dim, &why)) return wrong_node(v, n, "%s", why);
    if (t.elem == TY_ID && (t.bound < 1 || t.bound > IR_MAX_BOUND))
        return wrong_node(v, n, "expected a bound of ids of at least 1, found %lld", (long long)t.bound);
    return true;
}

/* An argument: inside a region, of the region's operand, and of its type. */
static bool sound_arg(Verifier *v, const IrNode *n, const IrNode *region) {
    if (!region) return wrong_node(v, n, "an argument outside a region");
    int64_t index = ir_attr_i(n, "index");
    if (index < 0 || index >= region->n_in)
        return wrong_node(v, n, "expected an operand from 0 to %d, found %lld", region->n_in - 1,
                          (long long)index);
    IrType expected = region->in[index]->type;
    if (ir_type_eq(expected, n->type)) return true;
    return wrong_node(v, n, "expected the operand's type %s, found %s", ir_type_text(v->p, expected),
                      ir_type_text(v->p, n->type));
}

static bool sound_attr_kinds(Verifier *v, const IrNode *n) {
    IrAttrSpec specs[IR_MAX_ATTRS];
    int n_specs = ir_attr_specs(n->op, specs);
    for (int i = 0; i < n->n_attrs; i++) {
        int s = ir_attr_find(specs, n_specs, n->attrs[i].key);
        if (n->attrs[i].kind != specs[s].kind)
            return wrong_node(v, n, "attribute '%s': expected kind %c, found %c", n->attrs[i].key,
                              specs[s].kind, n->attrs[i].kind);
        if (n->attrs[i].kind == 's' && !n->attrs[i].s)
            return wrong_node(v, n, "attribute '%s' has no text", n->attrs[i].key);
    }
    return true;
}

/* Before differentiate, gru's and augru's record may be read for the state alone: their gradient is that of
 * the state. */
static bool sound_record_use(Verifier *v, const IrNode *n) {
    for (int i = 0; i < n->n_in && strcmp(v->f->name, "model") == 0; i++) {
        const IrNode *x = n->in[i];
        int64_t units = (x->op == OP_GRU || x->op == OP_AUGRU) ? ir_type_width(x->type) / 4 : 0;
        if (units && (n->op != OP_SLICE || ir_attr_i(n, "end") > units))
            return wrong_node(v, n, "expected a slice of the first %lld values of %%%d, the state",
                              (long long)units, x->id);
    }
    return true;
}

/* Whether operand i of n is the right side of a product, or a recurrent layer's state's part of the weights,
 * and swapped and rounded there as the pack is. */
static bool reads_panels(const IrNode *n, int i, const IrNode *pack) {
    bool t = ir_attr_i(pack, "t"), bf16 = ir_takes_bf16(pack);
    if (n->op == OP_MATMUL)
        return i == 1 && !ir_attr_i(n, "ta") && ir_attr_i(n, "tb") == t && ir_takes_bf16(n) == bf16;
    return ir_is_recurrent(n) && (i == 1 || i == 2) && !bf16 &&
           t == (n->op == OP_GRUGRAD || n->op == OP_AUGRUGRAD);
}

/* A pack holds panels: only what multiplies with it knows how to read them. */
static bool sound_pack_use(Verifier *v, const IrNode *n) {
    for (int i = 0; i < n->n_in; i++) {
        const IrNode *x = n->in[i];
        if (x->op != OP_PACK) continue;
        bool t = ir_attr_i(x, "t"), bf16 = ir_takes_bf16(x), ok = n->op == OP_FUSED || reads_panels(n, i, x);
        for (int k = 0; n->op == OP_FUSED && k < n->body->n; k++) {
            const IrNode *b = n->body->nodes[k];
            for (int j = 0; j < b->n_in; j++)
                if (b->in[j]->op == OP_ARG && ir_attr_i(b->in[j], "index") == i) ok &= reads_panels(b, j, x);
        }
        if (!ok)
            return wrong_node(v, n,
                              bf16
                                  ? "expected %%%d only as the right side of a product with tb=%d and bf16=1"
                                  : "expected %%%d only as the right side of a product with tb=%d, or as the "
                                    "weights of a recurrent layer%s",
                              x->id, t, t ? "'s gradient" : "");
    }
    return true;
}

static bool check_body(Verifier *v, const IrBody *b, const IrNode *region, int depth);

/* `stamp` is the body's: an operand that has it stands above, in the same body. */
static bool check_node(Verifier *v, const IrNode *n, const IrNode *region, int stamp, int depth) {
    if ((unsigned)n->op >= OP_COUNT)
        return complain(v, ir_node_place(v->places, n), "%%%d: expected an op, found number %d", n->id,
                        (int)n->op);
    const IrOpInfo *info = &ir_ops[n->op];
    bool of_rows = info->cls == CLASS_READ || n->op == OP_COLUMN;
    bool writes = n->op == OP_FUSED ? ir_writer(n) != NULL : info->cls == CLASS_UPD;
    bool root = info->cls == CLASS_ROOT && n->op != OP_OUT;
    if (region && (root || of_rows || (writes && ir_writer(region) != n)))
        return wrong_node(v, n, "doesn't stand in a region");
    if (!region && n->op == OP_OUT) return wrong_node(v, n, "stands only in a region");
    if (region && (n->plan.phase != -1 || n->plan.domain != DOM_NONE || n->plan.region != REGION_NONE))
        return wrong_node(v, n, "expected no plan inside a region, which is run as one");
    for (int i = 0; i < n->n_in; i++)
        if (!n->in[i] || n->in[i]->mark != stamp)
            return wrong_node(v, n, "operand %d isn't defined above in the same body", i + 1);
    if (n->op == OP_FUSED && !n->body) return wrong_node(v, n, "expected a body");
    if (n->op != OP_FUSED && n->body) return wrong_node(v, n, "expected no body");
    const char *why = NULL;
    IrType inferred;
    if (!ir_check_form(v->p, n, &why)) return wrong_node(v, n, "%s", why);
    if (!sound_attr_kinds(v, n) || !sound_type(v, n)) return false;
    if (n->body && !check_body(v, n->body, n, depth + 1)) return false;
    if (!ir_infer(v->p, n, &inferred, &why)) return wrong_node(v, n, "%s", why);
    if (!ir_type_eq(inferred, n->type))
        return wrong_node(v, n, "expected type %s, found %s", ir_type_text(v->p, inferred),
                          ir_type_text(v->p, n->type));
    if (n->op == OP_FUSED && (!ir_check_update_region(v->p, n, &why) || !ir_check_results(v->p, n, &why)))
        return wrong_node(v, n, "%s", why);
    return sound_record_use(v, n) && sound_pack_use(v, n) && (n->op != OP_ARG || sound_arg(v, n, region));
}

static bool check_body(Verifier *v, const IrBody *b, const IrNode *region, int depth) {
    if (depth > MAX_DEPTH) return wrong_node(v, region, "regions nested more than %d deep", MAX_DEPTH);
    int stamp = ++v->stamp;
    for (int i = 0; i < b->n; i++) {
        IrNode *n = b->nodes[i];
        if (!n) return complain(v, (Span){0}, "func '%s' holds a missing node", v->f->name);
        if (n->mark > FIRST_STAMP) return wrong_node(v, n, "stands in the program twice");
        if (!check_node(v, n, region, stamp, depth)) return false;
        n->mark = stamp;
    }
    return true;
}

/* Passes leave anything in marks. */
static void clear_marks(const IrBody *b, int depth) {
    for (int i = 0; i < b->n && depth <= MAX_DEPTH; i++) {
        if (!b->nodes[i]) continue;
        b->nodes[i]->mark = 0;
        if (b->nodes[i]->body) clear_marks(b->nodes[i]->body, depth + 1);
    }
}

/* ---- ids ---- */

static int count_nodes(const IrBody *b) {
    int n = b->n;
    for (int i = 0; i < b->n; i++)
        if (b->nodes[i]->body) n += count_nodes(b->nodes[i]->body);
    return n;
}

typedef struct {
    const IrNode *node;
    int order; /* in the function */
} Placed;

static int collect(const IrBody *b, Placed *out, int n) {
    for (int i = 0; i < b->n; i++) {
        out[n] = (Placed){b->nodes[i], n};
        n++;
        if (b->nodes[i]->body) n = collect(b->nodes[i]->body, out, n);
    }
    return n;
}

static int by_id(const void *a, const void *b) {
    const Placed *x = a, *y = b;
    if (x->node->id != y->node->id) return x->node->id < y->node->id ? -1 : 1;
    return x->order - y->order;
}

static void check_ids(Verifier *v) {
    int n = count_nodes(&v->f->body);
    Placed *nodes = ARENA_ARRAY(v->p->arena, Placed, n);
    collect(&v->f->body, nodes, 0);
    qsort(nodes, (size_t)n, sizeof *nodes, by_id);
    for (int i = 0; i < n && v->ok; i++) {
        const IrNode *x = nodes[i].node;
        if (x->id < 0)
            wrong_node(v, x, "expected an id of at least 0");
        else if (i && x->id == nodes[i - 1].node->id)
            wrong_node(v, x, "its id is used twice");
    }
}

/* ---- roots ---- */

static bool predicts(const IrFunc *f, const char *name) {
    for (int i = 0; i < f->body.n; i++)
        if (f->body.nodes[i]->op == OP_PREDICT && strcmp(ir_attr_s(f->body.nodes[i], "name"), name) == 0)
            return true;
    return false;
}

/* What each function is for: only `train` writes, `predict` has no loss and no metric; the stages after
 * `differentiate` have one loss, the total of the step. */
static void check_roots(Verifier *v) {
    const IrFunc *f = v->f;
    bool is_train = strcmp(f->name, "train") == 0, is_predict = strcmp(f->name, "predict") == 0;
    bool staged = is_train || is_predict || strcmp(f->name, "eval") == 0;
    int losses = 0;
    for (int i = 0; i < f->body.n; i++) {
        const IrNode *n = f->body.nodes[i];
        if (ir_writer(n) && !is_train) wrong_node(v, n, "writes weights outside func 'train'");
        if (ir_is_update_region(n) && f->blocks)
            wrong_node(v, n, "expected gradient and update apart, as micro-batches add to the gradient");
        if (is_predict && (n->op == OP_LOSS || n->op == OP_METRIC))
            wrong_node(v, n, "doesn't stand in func 'predict'");
        if (staged && n->op == OP_LOSS) {
            if (++losses > 1) wrong_node(v, n, "expected one loss, the total of the step");
            if (n->in[0]->type.live > LIVE_STEP)
                wrong_node(v, n, "expected step f32[1], found %s", ir_type_text(v->p, n->in[0]->type));
        }
        if (n->op == OP_METRIC && !predicts(f, ir_attr_s(n, "name")))
            wrong_node(v, n, "there is no prediction '%s'", ir_attr_s(n, "name"));
        for (int k = 0; k < i && n->op == OP_PREDICT; k++)
            if (f->body.nodes[k]->op == OP_PREDICT &&
                strcmp(ir_attr_s(f->body.nodes[k], "name"), ir_attr_s(n, "name")) == 0)
                wrong_node(v, n, "a second prediction '%s'", ir_attr_s(n, "name"));
    }
}

/* ---- the whole ---- */

Span ir_node_place(const IrPlaces *places, const IrNode *n) {
    if (!places) return n->span;
    return n->aux ? *(const Span *)n->aux : (Span){0};
}

bool ir_verify_funcs(IrProgram *p, const IrPlaces *places) {
    Verifier v = {.p = p, .places = places, .stamp = FIRST_STAMP, .ok = true};
    for (int i = 0; i < p->n_funcs; i++) clear_marks(&p->funcs[i]->body, 0);
    for (int i = 0; i < p->n_funcs; i++) {
        v.f = p->funcs[i];
        if (!check_body(&v, &v.f->body, NULL, 0)) continue;
        check_ids(&v);
        check_roots(&v);
        if (v.ok && !ir_verify_plan(p, v.f, places)) v.ok = false;
    }
    return v.ok;
}

bool ir_verify(IrProgram *p) { return ir_verify_decls(p, NULL) && ir_verify_funcs(p, NULL); }
