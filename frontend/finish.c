/* When all statements have run: what the model lacks, labels that leak, what no root needs, and which
 * optimizer trains which weight. */
#include "frontend/value.h"
#include <string.h>

static Span whole_file(const Ev *ev) {
    return (Span){.file = (uint16_t)ev->main_file, .line = 1, .col = 1, .end_line = 1, .end_col = 2};
}

static void lacking(Ev *ev) {
    Span at = ev->model_stmt ? ev->model_stmt->span : whole_file(ev);
    if (!ev->model_stmt) ev_error(ev, at, "model NAME is the first line", "the file has no `model`");
    if (!ev->input_stmt) ev_error(ev, at, NULL, "the model has no `input`");
    if (!ev->n_predicts) ev_error(ev, at, "predict NAME = …", "the model has no `predict`");
    if (!ev->n_losses) ev_error(ev, at, "loss bce_logits(z, label)", "the model has no `loss`");
}

static void label_leaks(Ev *ev) {
    for (int i = 0; i < ev->n_predicts; i++) {
        IrNode *label;
        if (!ev->predicts[i].node || !ev_depends(ev, ev->predicts[i].node, ev_is_label, &label)) continue;
        const IrColumn *c = &ev->p->input.columns[ir_attr_i(label, "col")];
        ev_error(ev, ev->predicts[i].span, NULL, "the prediction depends on label '%s'", c->name);
        diag_note(ev->d, c->span, "the label");
    }
}

static void unknown_defines(Ev *ev) {
    const char **names = ARENA_ARRAY(ev->a, const char *, ev->p->n_params + 1);
    for (int i = 0; i < ev->p->n_params; i++) names[i] = ev->p->params[i].name;
    for (int i = 0; i < ev->n_defs && !ev->import_failed; i++) {
        if (ev->def_used[i]) continue;
        int n = ev->p->n_params;
        const char *hint = diag_did_you_mean(ev->d, ev->defs[i].name, names, n);
        if (!hint)
            hint = n ? ev_among(ev, n == 1 ? "its param is" : "its params are", names, n) : "it has none";
        ev_error(ev, (Span){0}, hint, "-D %s: the model has no such param", ev->defs[i].name);
    }
}

/* ---- pruning ---- */

/* Keeps the nodes that a root needs; afterwards mark is true of nodes that a loss needs. */
static void prune(IrBody *b) {
    for (int i = 0; i < b->n; i++) b->nodes[i]->mark = ir_ops[b->nodes[i]->op].cls == CLASS_ROOT;
    for (int i = b->n - 1; i >= 0; i--)
        for (int k = 0; b->nodes[i]->mark && k < b->nodes[i]->n_in; k++) b->nodes[i]->in[k]->mark = 1;
    int n = 0;
    for (int i = 0; i < b->n; i++)
        if (b->nodes[i]->mark) b->nodes[n++] = b->nodes[i];
    b->n = n;
    for (int i = 0; i < n; i++) b->nodes[i]->mark = b->nodes[i]->op == OP_LOSS;
    for (int i = n - 1; i >= 0; i--)
        for (int k = 0; b->nodes[i]->mark && k < b->nodes[i]->n_in; k++) b->nodes[i]->in[k]->mark = 1;
}

static IrAttr *attr_of(IrNode *n, const char *key) { return (IrAttr *)ir_attr(n, key); }

/* Weights and vocabularies that no node names any more aren't made; the others move up. */
static void drop_unused_weights(Ev *ev) {
    int before = ev->p->n_weights;
    bool *drop = ir_named_weights(ev->p);
    for (int i = 0; i < before; i++) drop[i] = !drop[i];
    int *to = ir_drop_weights(ev->p, drop);
    for (int i = 0; i < before; i++)
        if (to[i] >= 0) ev->notes[to[i]] = ev->notes[i];
}

static void drop_unused_vocabs(Ev *ev, IrBody *b) {
    IrProgram *p = ev->p;
    int *vocab = ARENA_ARRAY(ev->a, int, p->n_vocabs + 1), m = 0;
    for (int i = 0; i < b->n; i++)
        if (b->nodes[i]->op == OP_VOCAB) vocab[ir_attr_i(b->nodes[i], "vocab")] = 1;
    for (int i = 0; i < p->n_vocabs; i++) {
        if (!vocab[i]) continue;
        p->vocabs[m] = p->vocabs[i];
        vocab[i] = m++;
    }
    p->n_vocabs = m;
    for (int i = 0; i < b->n; i++)
        if (b->nodes[i]->op == OP_VOCAB)
            attr_of(b->nodes[i], "vocab")->i = vocab[ir_attr_i(b->nodes[i], "vocab")];
}

/* ---- tables ---- */

/* Linear in one-hots: a product with it reads only the rows that ids name. Expects this in `aux` of n's
 * operands. */
static bool of_onehots(const IrNode *n) {
    int scaled = ir_scaled_operand(n);
    switch (n->op) {
    case OP_ONEHOT: return true;
    case OP_SEGSUM:
    case OP_SEGMEAN:
    case OP_NEG: return n->in[0]->aux;
    case OP_MUL:
    case OP_DIV: return scaled >= 0 && n->in[scaled]->aux;
    case OP_ADD:
    case OP_SUB:
        return ir_type_width(n->in[0]->type) == ir_type_width(n->in[1]->type) && n->in[0]->aux &&
               n->in[1]->aux;
    default: return false;
    }
}

static bool by_row(const IrNode *use, int operand) {
    if (operand != 1) return false;
    if (use->op == OP_EMBED) return true;
    return use->op == OP_MATMUL && use->in[0]->type.rank == 1 && !ir_attr_i(use, "ta") &&
           !ir_attr_i(use, "tb") && use->in[0]->aux;
}

/* lazy: a table, or a weight all of whose uses are products with a one-hot. Decided here, before all passes.
 */
static void decide_lazy(IrProgram *p, const IrBody *b) {
    for (int i = 0; i < p->n_weights; i++)
        p->weights[i].lazy = p->weights[i].trainable && !p->weights[i].running && p->weights[i].rank == 2;
    for (int i = 0; i < b->n; i++) {
        b->nodes[i]->aux = of_onehots(b->nodes[i]) ? b->nodes[i] : NULL;
        for (int k = 0; k < b->nodes[i]->n_in; k++)
            if (b->nodes[i]->in[k]->op == OP_WEIGHT && !by_row(b->nodes[i], k))
                p->weights[ir_attr_i(b->nodes[i]->in[k], "w")].lazy = false;
    }
    for (int i = 0; i < b->n; i++) b->nodes[i]->aux = NULL;
}

/* ---- optimizers ---- */

static bool covers(const char *target, const char *path) {
    size_t n = strlen(target);
    return strncmp(path, target, n) == 0 && (path[n] == 0 || path[n] == '.');
}

/* Index of the statement for a weight: the longest target that covers it, else the one for everything, else
 * -1. */
static int choose(const IrProgram *p, const char *path) {
    int best = -1;
    size_t length = 0;
    for (int o = 0; o < p->n_opts; o++) {
        if (p->opts[o].n_targets == 0 && best < 0) best = o;
        for (int t = 0; t < p->opts[o].n_targets; t++) {
            const char *target = p->opts[o].targets[t];
            if (!covers(target, path) || strlen(target) <= length) continue;
            best = o;
            length = strlen(target);
        }
    }
    return best;
}

static void check_targets(Ev *ev, int o) {
    IrProgram *p = ev->p;
    const AstStmt *st = ev->opts[o].stmt;
    for (int t = 0; t < p->opts[o].n_targets; t++) {
        const char *target = p->opts[o].targets[t];
        bool found = false;
        for (int w = 0; w < p->n_weights && !found; w++)
            found = p->weights[w].trainable && covers(target, p->weights[w].name);
        for (int other = 0; other < o; other++)
            for (int k = 0; k < p->opts[other].n_targets; k++)
                if (strcmp(p->opts[other].targets[k], target) == 0)
                    ev_error(ev, st->optimizer.targets[t]->span, NULL, "'%s' has an optimizer already",
                             target);
        if (found) continue;
        const char **starts = NULL; /* beginnings of paths, which a target may be */
        int n = 0, cap = 0;
        for (int w = 0; w < p->n_weights; w++)
            for (const char *dot = p->weights[w].name; dot; dot = *dot ? strchr(dot + 1, '.') : NULL) {
                const char *end = strchr(dot + 1, '.');
                ARENA_PUSH(ev->a, starts, n, cap,
                           end ? arena_strndup(ev->a, p->weights[w].name, (size_t)(end - p->weights[w].name))
                               : p->weights[w].name);
                if (!end) break;
            }
        ev_error(ev, st->optimizer.targets[t]->span, diag_did_you_mean(ev->d, target, starts, n),
                 "no weight is called '%s' or begins with '%s.'", target, target);
    }
}

static void assign_optimizers(Ev *ev, const IrBody *b) {
    IrProgram *p = ev->p;
    bool failed = false;
    for (int o = 0; o < ev->n_opts; o++) {
        failed |= ev->opts[o].failed;
        ARENA_PUSH(ev->a, p->opts, p->n_opts, p->cap_opts, ev->opts[o].optimizer);
    }
    for (int o = 0; o < ev->n_opts; o++) check_targets(ev, o);
    bool *needed = ARENA_ARRAY(ev->a, bool, p->n_weights + 1);
    for (int i = 0; i < b->n; i++)
        if (b->nodes[i]->op == OP_WEIGHT && b->nodes[i]->mark) needed[ir_attr_i(b->nodes[i], "w")] = true;
    for (int w = 0; w < p->n_weights; w++) {
        IrWeight *v = &p->weights[w];
        if (!v->trainable || v->running) continue;
        if (!needed[w]) {
            ev_warn(ev, v->span, NULL, "no loss depends on weight '%s': it keeps its first values", v->name);
            continue;
        }
        v->optimizer = choose(p, v->name);
        if (ev->notes[w].own) {
            ARENA_PUSH(ev->a, p->opts, p->n_opts, p->cap_opts, *ev->notes[w].own);
            v->optimizer = v->own_optimizer = p->n_opts - 1;
        }
        if (v->optimizer < 0 && !failed) {
            ev_error(ev, v->span, "optimizer adam(lr = 0.001)", "no optimizer for weight '%s'", v->name);
            failed = true; /* the others lack it too */
        }
        bool ftrl = v->optimizer >= 0 && p->opts[v->optimizer].kind == OPT_FTRL;
        if (ftrl && !ev->notes[w].told) v->init = INIT_ZEROS, v->init_arg = 0;
    }
}

bool ev_finish(Ev *ev) {
    IrProgram *p = ev->p;
    if (ev->stop) return false;
    if (ev->d->errors == 0) lacking(ev);
    label_leaks(ev);
    unknown_defines(ev);
    if (ev->d->errors) return false;
    IrBody *b = ev->b.body;
    prune(b);
    drop_unused_weights(ev);
    drop_unused_vocabs(ev, b);
    decide_lazy(p, b);
    assign_optimizers(ev, b);
    if (ev->d->errors) return false;
    ir_mark_used(p);
    ir_renumber(p);
    scope_warn_unused(ev);
    return ir_verify(p);
}
