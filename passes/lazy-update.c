/* lazy-update: a table is looked up and updated by the step's unique rows; it is never handled whole. Exact.
 *
 * before:
 *   %1 = weight {w=t} : always f32[100,4]
 *   %2 = hash %0 {buckets=100, fn="xxh3"} : id<100>
 *   %3 = embed %2, %1 : f32[4]
 *   %10 = dense_grad %2, %9 {w=t, kinds=[0]} : step f32[100,4]
 *   %11 = update_touched %10, %2 {w=t, scaled=0} : none
 * after:
 *   %1 = hash %0 {buckets=100, fn="xxh3"} : id<100>
 *   %2 = fetch %1 {w=t} : f32[@t,4]
 *   %3 = embed %1, %2 : f32[4]
 *   %10 = row_grad %1, %9 {w=t, kinds=[0]} : f32[@t,4]
 *   %11 = update_rows %10 {w=t} : none
 * (tests/golden/passes/lazy-update/table.*)
 *
 * Applies to a lazy weight if every function only looks it up, and the update's gradient consists of lookups'
 * gradients: then its rows may be stored as they are met, and `sparse` says so. What stands between gradient
 * and update (l2, the norm that clips) is elementwise or a sum over elements, and moves to unique rows with
 * it: a row that isn't among them has a gradient of zeros. A weight that is also used whole stays dense. */
#include "passes/rewrite.h"

/* ---- may it? ---- */

static bool is_lookup(const IrNode *user, int operand) {
    return (user->op == OP_EMBED || user->op == OP_EMBEDPOOL) && operand == 1;
}

static bool is_update(const IrNode *n, int w) {
    return (n->op == OP_UPDATE || n->op == OP_UPDATETOUCHED) && ir_attr_i(n, "w") == w;
}

static bool is_scalar(const IrNode *n) { return ir_type_size(n->type) == 1 && n->type.live <= LIVE_STEP; }

/* Marks what has the table's shape and can be made by unique rows: the weight, its lookups' gradients, and
 * elementwise ops of those and single numbers. */
static void mark_by_rows(const IrFunc *f, int w) {
    for (int i = 0; i < f->body.n; i++) {
        IrNode *n = f->body.nodes[i];
        n->mark = pass_is_weight(n, w) || (n->op == OP_DENSEGRAD && ir_attr_i(n, "w") == w);
        if (ir_ops[n->op].cls != CLASS_EW || n->op == OP_DROPOUT || is_scalar(n)) continue;
        n->mark = 1;
        for (int k = 0; k < n->n_in; k++)
            if (!is_scalar(n->in[k]) && !n->in[k]->mark) n->mark = 0;
    }
}

static const IrNode *update_of(const IrFunc *f, int w) {
    for (int i = 0; i < f->body.n; i++)
        if (is_update(f->body.nodes[i], w)) return f->body.nodes[i];
    return NULL;
}

/* The weight, or what is marked, used by anything but lookups, marked nodes, the norm, and the update? */
static bool used_otherwise(const IrFunc *f, int w) {
    for (int i = 0; i < f->body.n; i++) {
        const IrNode *n = f->body.nodes[i];
        if (n->mark || n->op == OP_SUMSQ || is_update(n, w)) continue;
        for (int k = 0; k < n->n_in; k++)
            if (!is_lookup(n, k) && (n->in[k]->mark || pass_is_weight(n->in[k], w))) return true;
    }
    return false;
}

static bool only_looked_up(const IrProgram *p, int w) {
    const IrWeight *v = &p->weights[w];
    if (!v->lazy || v->rank < 2) return false;
    bool seen = false;
    for (int i = 0; i < p->n_funcs; i++) {
        const IrFunc *f = p->funcs[i];
        mark_by_rows(f, w);
        for (int k = 0; k < f->body.n; k++) seen |= pass_is_weight(f->body.nodes[k], w);
        const IrNode *update = update_of(f, w);
        if (update && update->op == OP_UPDATE && !p->opts[v->optimizer].exact) return false;
        if (update && !update->in[0]->mark) return false;
        if (used_otherwise(f, w)) return false;
    }
    return seen;
}

/* ---- rewriting ---- */

typedef struct {
    int w;
    IrNode *fetch;
} Table;

static bool of_rows(const IrNode *n, int w) { return n->type.live == LIVE_UNIQ && n->type.axis == w; }

/* Operands come converted: an elementwise op on unique rows is built anew, to live by unique rows itself. */
static IrNode *to_rows(PassRewrite *rw, IrNode *n) {
    const Table *t = rw->user;
    if (pass_is_weight(n, t->w)) return t->fetch;
    if (n->op == OP_DENSEGRAD && ir_attr_i(n, "w") == t->w)
        return ir_build(&rw->b, OP_ROWGRAD, n->n_in, n->in, n->n_attrs, n->attrs);
    if (is_update(n, t->w)) {
        IrAttr w = ir_ai("w", t->w);
        bool scaled = n->op == OP_UPDATE ? n->n_in > 1 : ir_attr_i(n, "scaled");
        return ir_build(&rw->b, OP_UPDATEROWS, scaled ? 2 : 1, n->in, 1, &w);
    }
    if (ir_ops[n->op].cls != CLASS_EW ||
        !(of_rows(n->in[0], t->w) || (n->n_in > 1 && of_rows(n->in[1], t->w))))
        return n;
    /* differentiate keeps l2 from rows that aren't touched; a unique row is touched by definition */
    if (n->op == OP_GT && n->in[0]->op == OP_ROWGRAD && pass_is_const(n->in[1], 0))
        return ir_const(&rw->b, 1);
    if (n->op == OP_MUL && pass_is_const(n->in[1], 1)) return n->in[0];
    return ir_build(&rw->b, n->op, n->n_in, n->in, n->n_attrs, n->attrs);
}

/* Reader-stage nodes first, then one fetch with the ids of all lookups in order of use. */
static IrNode *add_fetch(IrProgram *p, IrFunc *f, int w) {
    IrBody old = f->body;
    IrNode **ids = ARENA_ARRAY(p->arena, IrNode *, old.n + 1), *weight = NULL;
    int n_ids = 0;
    for (int i = 0; i < old.n; i++) {
        IrNode *n = old.nodes[i];
        if (!weight && pass_is_weight(n, w)) weight = n;
        if (n->n_in < 2 || !is_lookup(n, 1) || !pass_is_weight(n->in[1], w)) continue;
        bool known = false;
        for (int k = 0; k < n_ids; k++) known |= ids[k] == n->in[0];
        if (!known) ids[n_ids++] = n->in[0];
    }
    if (!n_ids) return NULL;
    f->body = (IrBody){0};
    for (int i = 0; i < old.n; i++)
        if (ir_is_reader(old.nodes[i]) || old.nodes[i]->op == OP_FETCH) pass_push(p, &f->body, old.nodes[i]);
    IrBuilder b = {.p = p, .body = &f->body, .span = weight->span, .name = weight->name};
    IrAttr a = ir_ai("w", w);
    IrNode *fetch = ir_build(&b, OP_FETCH, n_ids, ids, 1, &a);
    for (int i = 0; i < old.n; i++)
        if (!ir_is_reader(old.nodes[i]) && old.nodes[i]->op != OP_FETCH) pass_push(p, &f->body, old.nodes[i]);
    return fetch;
}

static bool make_sparse(IrProgram *p, IrFunc *f, int w) {
    int errors = p->diag->errors;
    Table t = {.w = w, .fetch = add_fetch(p, f, w)};
    if (p->diag->errors > errors) return false;
    if (!t.fetch) return true; /* this function doesn't use it */
    if (!pass_rewrite(p, f, to_rows, &t, NULL)) return false;
    pass_dead_code(p, &f->body);
    return true;
}

bool pass_lazy_update(IrProgram *p, const PassOptions *o, const char *args) {
    (void)o;
    if (pass_arg(p, args, "exact")) { /* which rows an optimizer updates is part of the model */
        diag_error(p->diag, (Span){0}, "write adam(exact = true) in the model",
                   "'exact' is an argument of an optimizer, not of pass 'lazy-update'");
        return false;
    }
    if (!pass_args_known(p, "lazy-update", args, NULL, 0)) return false;
    int n = 0;
    for (int w = 0; w < p->n_weights; w++) {
        if (!only_looked_up(p, w)) continue;
        n++;
        for (int i = 0; i < p->n_funcs; i++)
            if (!make_sparse(p, p->funcs[i], w)) return false;
        p->weights[w].sparse = true;
    }
    if (n) pass_effect(p, "lazy-update", "%s by rows", pass_count_text(p, n, "weight"));
    return true;
}
