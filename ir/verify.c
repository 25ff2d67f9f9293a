/* The verifier: what every pass may rely on. It looks at declarations first, and at functions only if these are
 * sound, so that no rule reads past an array. Errors stand at the node's place and name it; the first few tell
 * enough, so a function's remaining nodes are skipped after one error. */
#include "ir/internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    IrProgram *p;
    const IrFunc *f;
    Span (*place)(const IrNode *n);
    bool ok;
} Verifier;

static void complain(Verifier *v, Span at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void complain(Verifier *v, Span at, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    diag_error(v->p->diag, at, NULL, "%s", arena_vprintf(v->p->arena, fmt, ap));
    va_end(ap);
    v->ok = false;
}

/* ---- declarations ---- */

typedef struct {
    const char *name;
    int index;
} Named;

static int by_name(const void *a, const void *b) {
    const Named *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : x->index - y->index;
}

/* Names that are looked up must be there and differ. */
static void check_names(Verifier *v, const char *what, Named *names, int n, Span (*span_of)(const IrProgram *, int)) {
    for (int i = 0; i < n; i++)
        if (!names[i].name || !*names[i].name) {
            complain(v, span_of(v->p, names[i].index), "%s %d has no name", what, names[i].index);
            return;
        }
    qsort(names, (size_t)n, sizeof *names, by_name);
    for (int i = 1; i < n; i++)
        if (strcmp(names[i].name, names[i - 1].name) == 0)
            complain(v, span_of(v->p, names[i].index), "expected different names, found two %ss '%s'", what, names[i].name);
}

static Span column_span(const IrProgram *p, int i) { return p->input.columns[i].span; }
static Span axis_span(const IrProgram *p, int i) { return p->axes[i].span; }
static Span weight_span(const IrProgram *p, int i) { return p->weights[i].span; }
static Span no_span(const IrProgram *p, int i) { return (void)p, (void)i, (Span){0}; }

static void check_all_names(Verifier *v) {
    IrProgram *p = v->p;
    int most = p->input.n_columns + p->n_axes + p->n_weights + p->n_funcs + p->n_params, n = 0;
    Named *names = ARENA_ARRAY(p->arena, Named, most);
    for (int i = 0; i < p->input.n_columns; i++)
        if (p->input.columns[i].kind != COL_SKIP) names[n++] = (Named){p->input.columns[i].name, i};
    check_names(v, "column", names, n, column_span);
    for (n = 0; n < p->n_axes; n++) names[n] = (Named){p->axes[n].name, n};
    check_names(v, "axis", names, n, axis_span);
    for (n = 0; n < p->n_weights; n++) names[n] = (Named){p->weights[n].name, n};
    check_names(v, "weight", names, n, weight_span);
    for (n = 0; n < p->n_funcs; n++) names[n] = (Named){p->funcs[n]->name, n};
    check_names(v, "function", names, n, no_span);
    for (n = 0; n < p->n_params; n++) names[n] = (Named){p->params[n].name, n};
    check_names(v, "param", names, n, no_span);
}

static void check_axes(Verifier *v) {
    for (int i = 0; i < v->p->n_axes; i++) {
        const IrAxis *x = &v->p->axes[i];
        if (x->kind == AXIS_LIST ? x->parent != -1 : x->parent < 0 || x->parent >= i)
            complain(v, x->span, "axis '%s': expected %s", x->name, x->kind == AXIS_LIST ? "no parent" : "a parent that stands above it");
        bool counted = x->kind == AXIS_FIRST || x->kind == AXIS_LAST;
        if (x->max < counted) complain(v, x->span, "axis '%s': expected max of at least %d, found %lld", x->name, counted, (long long)x->max);
    }
}

static void check_columns(Verifier *v) {
    const IrInput *in = &v->p->input;
    for (int i = 0; i < in->n_columns; i++) {
        const IrColumn *c = &in->columns[i];
        bool has_axis = c->axis >= 0 && c->axis < v->p->n_axes && v->p->axes[c->axis].kind == AXIS_LIST;
        if (c->kind == COL_SKIP) {
            if (c->skip < 1) complain(v, c->span, "column %d: expected to skip at least 1 field, found %d", i, c->skip);
        } else if (c->is_list ? !has_axis : c->axis != -1) {
            complain(v, c->span, "column '%s': expected %s", c->name, c->is_list ? "the axis of a list" : "no axis, as it is no list");
        }
        if (c->side != 0 && c->side != 1) complain(v, c->span, "column '%s': expected side 0 or 1, found %d", c->name, c->side);
        if (c->side == 1 && !in->beside) complain(v, c->span, "column '%s': there is no second file", c->name);
        if (c->kind == COL_STRING && c->has_default && c->default_len > 0 && !c->default_str)
            complain(v, c->span, "column '%s': expected a default text", c->name);
    }
}

static bool sound_schedule(const IrSched *s) {
    for (int depth = 0; s; s = s->then, depth++) {
        if (s->kind == SCHED_PIECEWISE && (s->n < 0 || !s->values || (s->n > 0 && !s->at))) return false;
        if (s->kind != SCHED_WARMUP) return true;
        if (depth > 16) return false;
    }
    return false; /* a warmup towards nothing */
}

static void check_training(Verifier *v) {
    IrProgram *p = v->p;
    for (int i = 0; i < p->n_opts; i++)
        if (!sound_schedule(&p->opts[i].lr)) complain(v, p->opts[i].span, "optimizer %d: expected a complete learning rate", i);
    for (int i = 0; i < p->n_vocabs; i++)
        if (p->vocabs[i].n < 1) complain(v, p->vocabs[i].span, "vocab %d: expected at least one value", i);
    if (p->batch < 0 || p->epochs < 0 || p->steps < 0 || p->shuffle < 0)
        complain(v, (Span){0}, "expected batch, epochs, steps and shuffle of at least 0");
}

static void check_weights(Verifier *v) {
    IrProgram *p = v->p;
    for (int i = 0; i < p->n_weights; i++) {
        const IrWeight *w = &p->weights[i];
        const char *why = NULL;
        if (!ir_check_dims(p, w->rank, w->dim, &why)) complain(v, w->span, "weight '%s': %s", w->name, why);
        if (w->optimizer < -1 || w->optimizer >= p->n_opts || w->own_optimizer < -1 || w->own_optimizer >= p->n_opts)
            complain(v, w->span, "weight '%s': expected an optimizer below %d, found %d and %d", w->name, p->n_opts, w->optimizer,
                     w->own_optimizer);
        if (w->optimizer >= 0 && !w->trainable) complain(v, w->span, "weight '%s' isn't trainable, but has an optimizer", w->name);
        if (!isfinite(w->init_arg)) complain(v, w->span, "weight '%s': expected a finite initial value, found %g", w->name, w->init_arg);
        if ((w->table || w->sparse) && w->rank < 2)
            complain(v, w->span, "weight '%s': expected a table of at least 2 dimensions, found %d", w->name, w->rank);
        if (w->sparse && !w->table && !w->lazy) complain(v, w->span, "weight '%s': sparse, but neither a table nor lazy", w->name);
    }
}

/* ---- nodes ---- */

static void wrong_node(Verifier *v, const IrNode *n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void wrong_node(Verifier *v, const IrNode *n, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(v->p->arena, fmt, ap);
    va_end(ap);
    complain(v, v->place(n), "%%%d %s in func '%s': %s", n->id, ir_ops[n->op].text, v->f->name, text);
}

/* A type that may be printed: ARG and the operands of a rule bring theirs unchecked. */
static bool sound_type(Verifier *v, const IrNode *n) {
    IrType t = n->type;
    const char *why = NULL;
    if (t.elem == TY_NONE) return true;
    if (t.elem > TY_NONE || t.live > LIVE_UNIQ) return wrong_node(v, n, "expected a type, found none"), false;
    int axes = t.live == LIVE_POS ? v->p->n_axes : v->p->n_weights;
    if (t.live >= LIVE_POS && (t.axis < 0 || t.axis >= axes))
        return wrong_node(v, n, "expected %s below %d, found %d", t.live == LIVE_POS ? "an axis" : "a table", axes, t.axis), false;
    if (t.elem == TY_F32 && !ir_check_dims(v->p, t.rank, t.dim, &why)) return wrong_node(v, n, "%s", why), false;
    if (t.elem == TY_ID && (t.bound < 1 || t.bound > IR_MAX_BOUND))
        return wrong_node(v, n, "expected a bound of ids of at least 1, found %lld", (long long)t.bound), false;
    return true;
}

/* An argument: inside a region, of the region's operand, and of its type. */
static bool sound_arg(Verifier *v, const IrNode *n, const IrNode *region) {
    if (!region) return wrong_node(v, n, "an argument outside a region"), false;
    int64_t index = ir_attr_i(n, "index");
    if (index < 0 || index >= region->n_in)
        return wrong_node(v, n, "expected an operand from 0 to %d, found %lld", region->n_in - 1, (long long)index), false;
    IrType expected = region->in[index]->type;
    if (ir_type_eq(expected, n->type)) return true;
    return wrong_node(v, n, "expected the operand's type %s, found %s", ir_type_text(v->p, expected), ir_type_text(v->p, n->type)), false;
}

static bool sound_attr_kinds(Verifier *v, const IrNode *n) {
    IrAttrSpec specs[IR_MAX_ATTRS];
    int n_specs = ir_attr_specs(n->op, specs);
    for (int i = 0; i < n->n_attrs; i++) {
        int s = ir_attr_find(specs, n_specs, n->attrs[i].key);
        if (n->attrs[i].kind != specs[s].kind)
            return wrong_node(v, n, "attribute '%s': expected kind %c, found %c", n->attrs[i].key, specs[s].kind, n->attrs[i].kind), false;
        if (n->attrs[i].kind == 's' && !n->attrs[i].s) return wrong_node(v, n, "attribute '%s' has no text", n->attrs[i].key), false;
    }
    return true;
}

static bool check_body(Verifier *v, const IrBody *b, const IrNode *region, int depth);

/* n->mark of all nodes is 0 before the body that holds them is looked at, and 1 once they stand above. */
static bool check_node(Verifier *v, const IrNode *n, const IrNode *region, int depth) {
    if ((unsigned)n->op >= OP_COUNT) return complain(v, v->place(n), "%%%d: expected an op, found number %d", n->id, n->op), false;
    for (int i = 0; i < n->n_in; i++)
        if (!n->in[i] || n->in[i]->mark != depth) return wrong_node(v, n, "operand %d isn't defined above in the same body", i + 1), false;
    const char *why = NULL;
    IrType inferred;
    IrOpInfo info = ir_ops[n->op];
    if (region && (info.cls == CLASS_ROOT || info.cls == CLASS_UPD || info.cls == CLASS_READ || n->op == OP_COLUMN))
        return wrong_node(v, n, "doesn't stand in a region"), false;
    if (n->op == OP_FUSED ? !n->body : n->body != NULL) return wrong_node(v, n, n->body ? "has no body" : "expected a body"), false;
    if (!ir_check_form(v->p, n, &why)) return wrong_node(v, n, "%s", why), false;
    if (!sound_attr_kinds(v, n) || !sound_type(v, n)) return false;
    if (n->body && !check_body(v, n->body, n, depth + 1)) return false;
    if (!ir_infer(v->p, n, &inferred, &why)) return wrong_node(v, n, "%s", why), false;
    if (!ir_type_eq(inferred, n->type))
        return wrong_node(v, n, "expected type %s, found %s", ir_type_text(v->p, inferred), ir_type_text(v->p, n->type)), false;
    return n->op != OP_ARG || sound_arg(v, n, region);
}

static bool check_body(Verifier *v, const IrBody *b, const IrNode *region, int depth) {
    if (depth > 64) return wrong_node(v, region, "regions nested too deep"), false;
    for (int i = 0; i < b->n; i++)
        if (!b->nodes[i]) return complain(v, (Span){0}, "func '%s' holds a missing node", v->f->name), false;
    for (int i = 0; i < b->n; i++) b->nodes[i]->mark = 0;
    bool ok = true;
    for (int i = 0; ok && i < b->n; i++) {
        IrNode *n = b->nodes[i];
        if (n->mark) return wrong_node(v, n, "stands in the body twice"), false;
        ok = check_node(v, n, region, depth);
        n->mark = depth;
    }
    return ok;
}

/* ---- ids ---- */

static int count_nodes(const IrBody *b) {
    int n = b->n;
    for (int i = 0; i < b->n; i++)
        if (b->nodes[i]->body) n += count_nodes(b->nodes[i]->body);
    return n;
}

static int collect(const IrBody *b, const IrNode **out) {
    int n = 0;
    for (int i = 0; i < b->n; i++) {
        out[n++] = b->nodes[i];
        if (b->nodes[i]->body) n += collect(b->nodes[i]->body, out + n);
    }
    return n;
}

static int by_id(const void *a, const void *b) {
    int x = (*(const IrNode *const *)a)->id, y = (*(const IrNode *const *)b)->id;
    return x < y ? -1 : x > y;
}

static void check_ids(Verifier *v) {
    int n = count_nodes(&v->f->body);
    const IrNode **nodes = ARENA_ARRAY(v->p->arena, const IrNode *, n);
    collect(&v->f->body, nodes);
    qsort(nodes, (size_t)n, sizeof *nodes, by_id);
    for (int i = 0; i < n; i++)
        if (nodes[i]->id < 0 || (i && nodes[i]->id == nodes[i - 1]->id)) {
            wrong_node(v, nodes[i], nodes[i]->id < 0 ? "expected an id of at least 0" : "its id is used twice");
            return;
        }
}

/* ---- roots ---- */

static bool predicts(const IrFunc *f, const char *name) {
    for (int i = 0; i < f->body.n; i++)
        if (f->body.nodes[i]->op == OP_PREDICT && strcmp(ir_attr_s(f->body.nodes[i], "name"), name) == 0) return true;
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
        if (ir_ops[n->op].effect == EFFECT_WRITES && !is_train) wrong_node(v, n, "writes weights outside func 'train'");
        if (is_predict && (n->op == OP_LOSS || n->op == OP_METRIC)) wrong_node(v, n, "doesn't stand in func 'predict'");
        if (staged && n->op == OP_LOSS) {
            if (++losses > 1) wrong_node(v, n, "expected one loss, the total of the step");
            if (n->in[0]->type.live > LIVE_STEP)
                wrong_node(v, n, "expected step f32[1], found %s", ir_type_text(v->p, n->in[0]->type));
        }
        if (n->op == OP_METRIC && !predicts(f, ir_attr_s(n, "name")))
            wrong_node(v, n, "there is no prediction '%s'", ir_attr_s(n, "name"));
        for (int k = 0; k < i && n->op == OP_PREDICT; k++)
            if (f->body.nodes[k]->op == OP_PREDICT && strcmp(ir_attr_s(f->body.nodes[k], "name"), ir_attr_s(n, "name")) == 0)
                wrong_node(v, n, "a second prediction '%s'", ir_attr_s(n, "name"));
    }
}

static Span span_of(const IrNode *n) { return n->span; }

bool ir_verify_at(IrProgram *p, Span (*place)(const IrNode *n)) {
    Verifier v = {.p = p, .place = place, .ok = true};
    check_all_names(&v);
    check_axes(&v);
    check_columns(&v);
    check_training(&v);
    check_weights(&v);
    for (int i = 0; v.ok && i < p->n_funcs; i++) {
        v.f = p->funcs[i];
        if (!check_body(&v, &v.f->body, NULL, 1)) continue;
        check_ids(&v);
        check_roots(&v);
        if (v.ok && !ir_verify_plan(p, v.f, place)) v.ok = false;
    }
    return v.ok;
}

bool ir_verify(IrProgram *p) { return ir_verify_at(p, span_of); }
