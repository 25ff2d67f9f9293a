/* Statements that say what the model is for: predict, loss, metric, optimizer, train, enable and disable. */
#include "frontend/value.h"
#include <string.h>

static bool row_scalar(const IrNode *n) {
    return n->type.elem == TY_F32 && n->type.rank == 1 && n->type.dim[0] == 1;
}

void ev_predict(Ev *ev, Scope *s, const AstStmt *st) {
    Value *v = ev_bound_value(ev, s, st->value, st->name, true);
    IrNode *n = v ? ev_f32(ev, v, st->value->span, "predict") : NULL;
    if (n && (!row_scalar(n) || n->type.live != LIVE_ROW)) {
        ev_error(ev, st->value->span, ev_list_hint(n), "a prediction is f32[1] a row, found %s",
                 ev_shape(ev, n));
        n = NULL;
    }
    Value *bound = NULL;
    if (n) {
        bound = ev_tensor(ev, n);
        bound->tensor.prediction = st->name;
        ev_at(ev, st->value->span);
        ev->b.name = st->name;
        IrAttr attr = ir_as("name", st->name);
        ev_op_attrs(ev, OP_PREDICT, n, 1, &attr);
    }
    ARENA_PUSH(ev->a, ev->predicts, ev->n_predicts, ev->cap_predicts, ((RootNote){n, st->value->span}));
    if (scope_bind(ev, s, st->name, bound, BIND_PREDICTION, st->name_span, st))
        scope_own(s, st->name)->decl->used = true;
}

void ev_loss(Ev *ev, Scope *s, const AstStmt *st) {
    Value *v = ev_bound_value(ev, s, st->value, "loss", true);
    IrNode *n = v ? ev_f32(ev, v, st->value->span, "loss") : NULL;
    if (n && (!row_scalar(n) || n->type.live > LIVE_ROW)) {
        ev_error(ev, st->value->span, "mean(x, axis = …) or sum(x, axis = …) makes one number of it",
                 "a loss is f32[1] a row, found %s", ev_shape(ev, n));
        n = NULL;
    }
    if (n) {
        ev_at(ev, st->value->span);
        ev->b.name = "loss";
        IrAttr attr = ir_as("name", ev->n_losses ? arena_printf(ev->a, "loss_%d", ev->n_losses) : "loss");
        ev_op_attrs(ev, OP_LOSS, n, 1, &attr);
    }
    ARENA_PUSH(ev->a, ev->losses, ev->n_losses, ev->cap_losses, ((RootNote){n, st->value->span}));
}

/* ---- metrics ---- */

static const char *metric_kind(Ev *ev, const AstExpr *e) {
    static const char *const kinds[] = {"auc", "gauc", "logloss", "pcoc", "accuracy"};
    const char *name = e->kind == EX_CALL && e->call.callee->kind == EX_NAME ? e->call.callee->name : NULL;
    for (int i = 0; name && i < 5; i++)
        if (strcmp(name, kinds[i]) == 0) return kinds[i];
    const char *hint = name ? diag_did_you_mean(ev->d, name, kinds, 5) : NULL;
    if (!hint) hint = "the metrics are auc, gauc, logloss, pcoc and accuracy";
    if (name)
        ev_error(ev, e->call.callee->span, hint, "unknown metric '%s'", name);
    else
        ev_error(ev, e->span, hint, "expected a metric such as auc(prediction, label)");
    return NULL;
}

static IrNode *scalar_of(Ev *ev, const Arg *a, const char *kind, const char *what) {
    IrNode *n = ev_f32(ev, a->v, a->span, kind);
    if (!n || (row_scalar(n) && n->type.live == LIVE_ROW)) return n;
    ev_error(ev, a->span, ev_list_hint(n), "%s: expected f32[1] a row as %s, found %s", kind, what,
             ev_shape(ev, n));
    return NULL;
}

static IrNode *group(Ev *ev, const Arg *a, const char *kind) {
    const IrColumn *c = a->v->kind == V_COLUMN ? &ev->p->input.columns[a->v->column] : NULL;
    if (!c || c->is_list || (c->kind != COL_STRING && c->kind != COL_INT)) {
        ev_error(ev, a->span, NULL, "%s: expected a string or int column as 'by', found %s", kind,
                 ev_describe(ev, a->v));
        return NULL;
    }
    ev_at(ev, a->span);
    return ir_build1(&ev->b, OP_KEY, ev_column_node(ev, a->v->column));
}

void ev_metric(Ev *ev, Scope *s, const AstStmt *st) {
    const AstExpr *e = st->value;
    const char *kind = metric_kind(ev, e);
    if (!kind) return;
    bool grouped = strcmp(kind, "gauc") == 0;
    Arg a[4] = {0};
    if (!ev_options(ev, s, kind, e->span, grouped ? "p y by where?" : "p y where?", e->call.args,
                    e->call.n_args, a))
        return;
    Arg by = grouped ? a[2] : (Arg){0}, where = grouped ? a[3] : a[2];
    if (a[0].v->kind != V_TENSOR || !a[0].v->tensor.prediction) {
        ev_error(ev, a[0].span, "`predict NAME = …` makes one",
                 "%s: expected the name of a prediction, found %s", kind, ev_describe(ev, a[0].v));
        return;
    }
    IrNode *in[4] = {a[0].v->tensor.node, scalar_of(ev, &a[1], kind, "label")};
    int n = 2;
    if (strcmp(kind, "auc") != 0 && !grouped && ev_no_probability(in[0]))
        ev_warn(ev, a[0].span, "sigmoid(z) makes a probability of it",
                "%s takes a probability, but '%s' may lie outside [0, 1]", kind, a[0].v->tensor.prediction);
    if (a[1].v->kind == V_COLUMN) ev_unit_label(ev, a[1].v->column);
    if (where.v) in[n++] = scalar_of(ev, &where, kind, "'where'");
    if (by.v) in[n++] = group(ev, &by, kind);
    for (int i = 0; i < n; i++)
        if (!in[i]) return;
    ev_at(ev, e->span);
    ev->b.name = NULL;
    IrAttr attrs[] = {ir_as("kind", kind), ir_as("name", a[0].v->tensor.prediction),
                      ir_ab("where", where.v != NULL), ir_ab("by", by.v != NULL)};
    ir_build(&ev->b, OP_METRIC, n, in, 4, attrs);
}

/* ---- optimizers ---- */

static const char *target(Ev *ev, const AstExpr *e) {
    if (e->kind == EX_NAME) return e->name;
    if (e->kind == EX_STRING && e->string.n) return e->string.s;
    ev_error(ev, e->span, NULL, "expected a name or the path of a weight in quotes, such as \"deep.mlp.0\"");
    return NULL;
}

void ev_optimizer(Ev *ev, Scope *s, const AstStmt *st) {
    const AstExpr *e = st->optimizer.kind;
    Value *v = ev_expr(ev, s, e);
    if (v && v->kind != V_OPTIMIZER) {
        ev_error(ev, e->span, NULL, "expected an optimizer such as adam(lr = 0.001), found %s",
                 ev_describe(ev, v));
        v = NULL;
    }
    OptimizerStmt o = {.stmt = st, .failed = v == NULL};
    if (v) o.optimizer = *v->optimizer;
    o.optimizer.span = st->span;
    int n = st->optimizer.n_targets;
    const char **targets = ARENA_ARRAY(ev->a, const char *, n + 1);
    for (int i = 0; i < n; i++) {
        targets[i] = target(ev, st->optimizer.targets[i]);
        if (!targets[i]) return;
    }
    o.optimizer.targets = targets;
    o.optimizer.n_targets = n;
    for (int i = 0; n == 0 && i < ev->n_opts; i++) {
        if (ev->opts[i].stmt->optimizer.n_targets) continue;
        ev_error(ev, st->span, "optimizer … for PATH takes a part of the weights",
                 "a second `optimizer` for everything");
        diag_note(ev->d, ev->opts[i].stmt->span, "the first one");
        return;
    }
    ARENA_PUSH(ev->a, ev->opts, ev->n_opts, ev->cap_opts, o);
}

/* ---- train, enable, disable ---- */

static bool whole(Ev *ev, const Arg *a, const char *what, int64_t lo, int64_t hi, int64_t *out) {
    int64_t x;
    if (!a->v) return true;
    if (a->v->kind == V_NUMBER && ev_whole(a->v->number, &x) && x >= lo && x <= hi) {
        *out = x;
        return true;
    }
    ev_error(ev, a->span, NULL, "train: expected a whole number from %lld to %lld as '%s', found %s",
             (long long)lo, (long long)hi, what, ev_describe(ev, a->v));
    return false;
}

void ev_train(Ev *ev, Scope *s, const AstStmt *st) {
    if (ev->train_stmt) {
        ev_error(ev, st->span, NULL, "a second `train`");
        diag_note(ev->d, ev->train_stmt->span, "the first one");
        return;
    }
    ev->train_stmt = st;
    IrProgram *p = ev->p;
    Arg a[5] = {0};
    if (!ev_options(ev, s, "train", st->span, "batch? epochs? steps? shuffle? seed?", st->train.args,
                    st->train.n_args, a))
        return;
    const int64_t most = (int64_t)1 << 53;
    whole(ev, &a[0], "batch", 1, IR_MAX_BATCH, &p->batch);
    whole(ev, &a[1], "epochs", 1, most, &p->epochs);
    whole(ev, &a[2], "steps", 1, most, &p->steps);
    whole(ev, &a[3], "shuffle", 0, (int64_t)1 << 32, &p->shuffle);
    whole(ev, &a[4], "seed", 0, most, &p->seed);
    if (a[2].v && !a[1].v) p->epochs = 0; /* steps alone decide */
}

static const char *argument_text(Ev *ev, Scope *s, const AstArg *arg) {
    Value *v = ev_expr(ev, s, arg->value);
    if (!v) return NULL;
    const char *text = v->kind == V_STRING                        ? v->string.s
                       : v->kind == V_NUMBER || v->kind == V_BOOL ? ev_describe(ev, v)
                                                                  : NULL;
    if (text && arg->name) return arena_printf(ev->a, "%s=%s", arg->name, text);
    if (!text)
        ev_error(ev, arg->value->span, NULL, "expected a number, a string, true or false, found %s",
                 ev_describe(ev, v));
    else
        ev_error(ev, arg->value->span, NULL, "arguments of passes are named: name = value");
    return NULL;
}

/* As on the command line: +micro-batch(n=8), -split-concat. The driver knows which passes there are. */
void ev_enable(Ev *ev, Scope *s, const AstStmt *st) {
    const char *args = "";
    for (int i = 0; i < st->enable.n_args; i++) {
        const char *text = argument_text(ev, s, &st->enable.args[i]);
        if (!text) return;
        args = arena_printf(ev->a, "%s%s%s", args, i ? "," : "", text);
    }
    bool brackets = st->enable.n_args > 0;
    const char *request = arena_printf(ev->a, "%c%s%s%s%s", st->enable.on ? '+' : '-', st->name,
                                       brackets ? "(" : "", args, brackets ? ")" : "");
    ARENA_PUSH(ev->a, ev->p->requests, ev->p->n_requests, ev->p->cap_requests, request);
    ARENA_PUSH(ev->a, ev->p->request_spans, ev->p->n_request_spans, ev->p->cap_request_spans, st->span);
}
