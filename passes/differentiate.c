/* differentiate: func `model` becomes train, eval and predict. Required; exact.
 *
 *   train    the forward graph in training form, one total loss, gradients, and the updates at the end
 *   eval     predictions, metrics and the total loss, in evaluation form
 *   predict  predictions only
 *
 * before, func model:
 *   %0 = column {col=x} : f32[1]
 *   %1 = column {col=y} : f32[1]
 *   %2 = weight {w=w} : always f32[1]
 *   %3 = mul %0, %2 : f32[1]
 *   %4 = sub %3, %1 : f32[1]
 *   %5 = square %4 : f32[1]
 *   %6 = loss %5 {name="loss"} : none
 * after, func train: the same up to %5, then
 *   %8 = mean_rows %5 : step f32[1]             the total
 *   %9 = loss %8 {name="total"} : none
 *   %10 = inv_rows : step f32[1]                gradient of %5, the same for each row
 *   %11 = const {value=[2], shape=[1]} : always f32[1]
 *   %12 = mul %4, %11 : f32[1]
 *   %13 = mul %10, %12 : f32[1]                 of %4 and %3
 *   %14 = mul %13, %0 : f32[1]                  of %2, by row
 *   %15 = sum_rows %14 : step f32[1]            of %2
 *   %16 = update %15 {w=w} : none "w"
 * (tests/golden/passes/differentiate/square.*)
 *
 * Training form: batchnorm is bn_stats and bn_norm, dropout is at work. Evaluation form: batchnorm is
 * arithmetic with the running statistics, dropout and stop_gradient are gone.
 *
 * Updates. l2 adds c·w to the gradient, clip_norm multiplies it by min(1, c / norm) as the update's scale. A
 * table (any `lazy` weight) is updated on the rows that the step's ids name: all ids that look it up or meet
 * it in a product with a one-hot. Only an `exact` optimizer updates it whole. */
#include "passes/gradients.h"

/* ---- rules ---- */

void pass_grad_none(PassGrad *c, IrNode *y, IrNode *g) { (void)c, (void)y, (void)g; }

void pass_grad_late(PassGrad *c, IrNode *y, IrNode *g) {
    (void)g;
    diag_error(c->p->diag, y->span, NULL, "'%s' has no gradient: it only comes out of differentiate",
               ir_ops[y->op].text);
    c->failed = true;
}

typedef void (*GradRule)(PassGrad *c, IrNode *y, IrNode *g);
static const GradRule rules[OP_COUNT] = {
#define OP(id, text, min_in, max_in, attrs, shape, grad, ...) pass_grad_##grad,
#include "ir/ops.def"
#undef OP
};

static GradRule rule_of(const IrNode *n) {
    return n->op == OP_BNNORM ? pass_grad_batchnorm
                              : rules[n->op]; /* it stands for the batchnorm it came from */
}

/* ---- what rules call ---- */

bool pass_gradient_wants(const IrNode *x) { return x->mark; }

void pass_gradient_to_own(PassGrad *c, IrNode *x, IrNode *g) {
    if (!pass_gradient_wants(x)) return;
    x->aux = x->aux ? ir_build2(&c->b, OP_ADD, x->aux, g) : g;
    if (!x->aux) c->failed = true;
}

static IrNode *sum_dims(PassGrad *c, IrNode *g, IrType x) {
    while (g && g->type.rank > x.rank) g = pass_sum(&c->b, g, 0, false);
    for (int i = 0; g && i < x.rank; i++)
        if (x.dim[i] == 1 && g->type.dim[i] != 1) g = pass_sum(&c->b, g, i, true);
    return g;
}

/* Sums g over the rows or positions that y has and x doesn't. Where g is the same for all of them, it is
 * multiplied by how many there are. */
static IrNode *sum_live(PassGrad *c, IrNode *g, IrType y, IrType x) {
    bool by_row = x.live == LIVE_ROW;
    if (!g || y.live <= LIVE_STEP || y.live <= x.live) return g;
    if (y.live == LIVE_POS) {
        if (g->type.live == LIVE_POS) return ir_build1(&c->b, by_row ? OP_SEGSUM : OP_SUMROWS, g);
        IrNode *count = pass_seg_len(&c->b, y.axis);
        if (!by_row && g->type.live <= LIVE_STEP)
            return ir_build2(&c->b, OP_MUL, g, ir_build1(&c->b, OP_SUMROWS, count));
        g = ir_build2(&c->b, OP_MUL, g, count);
        return by_row ? g : ir_build1(&c->b, OP_SUMROWS, g);
    }
    if (g->type.live == LIVE_ROW) return ir_build1(&c->b, OP_SUMROWS, g);
    return ir_build2(&c->b, OP_DIV, g, ir_build(&c->b, OP_INVROWS, 0, NULL, 0, NULL));
}

void pass_gradient_to(PassGrad *c, const IrNode *y, IrNode *x, IrNode *g) {
    if (!pass_gradient_wants(x)) return;
    pass_gradient_to_own(c, x, sum_live(c, sum_dims(c, g, x->type), y->type, x->type));
}

IrNode *pass_gradient_repeat(PassGrad *c, IrNode *g, IrNode *like) {
    if (!g || g->type.live >= like->type.live) return g;
    if (like->type.live == LIVE_POS) {
        IrAttr a[2] = {ir_ail(c->p->arena, "shape", g->type.dim, g->type.rank),
                       ir_ai("axis", like->type.axis)};
        return ir_build(&c->b, OP_BROADCAST, 1, &g, 2, a);
    }
    if (like->type.live != LIVE_ROW) return g;
    /* concat repeats a step's value for each row; then that part alone */
    IrAttr axis = ir_ai("axis", 0);
    IrNode *both = ir_build(&c->b, OP_CONCAT, 2, (IrNode *[]){g, like}, 1, &axis);
    return pass_slice(&c->b, both, 0, 0, g->type.dim[0]);
}

/* ---- copying func model ---- */

typedef enum { TRAIN, EVAL, PREDICT_ONLY } Form;

typedef struct {
    PassGrad *c;
    Form form;
    IrNode **map;    /* by mark of the model's node: its copy */
    IrNode **losses; /* operands of the losses, copied */
    int n_losses, cap_losses;
} Copy;

static bool wanted_root(const IrNode *n, Form form) {
    return n->op == OP_PREDICT || (form != PREDICT_ONLY && (n->op == OP_METRIC || n->op == OP_LOSS));
}

/* Numbers the nodes of model that the form needs, from 1; the others get 0. */
static void mark_needed(IrBody *model, Form form) {
    for (int i = 0; i < model->n; i++) model->nodes[i]->mark = wanted_root(model->nodes[i], form);
    for (int i = model->n - 1; i >= 0; i--)
        for (int k = 0; model->nodes[i]->mark && k < model->nodes[i]->n_in; k++)
            model->nodes[i]->in[k]->mark = 1;
    for (int i = 0; i < model->n; i++)
        if (model->nodes[i]->mark) model->nodes[i]->mark = i + 1;
}

static void later(PassGrad *c, IrNode *update) {
    if (update)
        ARENA_PUSH(c->p->arena, c->updates, c->n_updates, c->cap_updates, update);
    else
        c->failed = true;
}

/* Builds a node outside the body, to be put at the end. */
static IrNode *build_later(PassGrad *c, IrOp op, int n_in, IrNode **in, int n_attrs, const IrAttr *attrs) {
    IrBody aside = {0}, *body = c->b.body;
    c->b.body = &aside;
    IrNode *n = ir_build(&c->b, op, n_in, in, n_attrs, attrs);
    c->b.body = body;
    return n;
}

static IrNode *batchnorm_training(PassGrad *c, const IrNode *n, IrNode **in) {
    if (n->in[3]->op != OP_WEIGHT || n->in[4]->op != OP_WEIGHT) {
        diag_error(c->p->diag, n->span, NULL,
                   "expected weights as batchnorm's running mean and variance, found '%s' and '%s'",
                   ir_ops[n->in[3]->op].text, ir_ops[n->in[4]->op].text);
        return NULL;
    }
    IrNode *stats = ir_build1(&c->b, OP_BNSTATS, in[0]);
    IrAttr a[3] = {ir_ai("mean", ir_attr_i(n->in[3], "w")), ir_ai("var", ir_attr_i(n->in[4], "w")),
                   ir_af("momentum", ir_attr_f(n, "momentum"))};
    later(c, stats ? build_later(c, OP_BNUPDATE, 1, &stats, 3, a) : NULL);
    IrAttr eps = ir_af("eps", ir_attr_f(n, "eps"));
    return stats ? ir_build(&c->b, OP_BNNORM, 4, (IrNode *[]){in[0], stats, in[1], in[2]}, 1, &eps) : NULL;
}

/* (x - mean) * (gamma / sqrt(var + eps)) + beta: the bracket is the same for all rows. */
static IrNode *batchnorm_evaluation(PassGrad *c, const IrNode *n, IrNode **in) {
    IrBuilder *b = &c->b;
    IrNode *deviation = ir_build1(b, OP_SQRT, pass_scalar_op(b, OP_ADD, in[4], ir_attr_f(n, "eps")));
    IrNode *scale = ir_build2(b, OP_DIV, in[1], deviation);
    return ir_build2(b, OP_ADD, ir_build2(b, OP_MUL, ir_build2(b, OP_SUB, in[0], in[3]), scale), in[2]);
}

/* Reader-stage nodes are made one where they are equal, at every level of optimization: a table's list of
 * occurrences has each list of ids once. */
static IrNode *same_reader_node(IrBody *body, const IrNode *n) {
    for (int i = 0; ir_is_reader(n) && i < body->n; i++)
        if (pass_equal(body->nodes[i], n)) return body->nodes[i];
    return NULL;
}

static IrNode *copy_node(Copy *k, const IrNode *n, IrNode **in) {
    PassGrad *c = k->c;
    if (n->op == OP_BATCHNORM)
        return k->form == TRAIN ? batchnorm_training(c, n, in) : batchnorm_evaluation(c, n, in);
    if ((n->op == OP_DROPOUT || n->op == OP_STOPGRAD) && k->form != TRAIN) return in[0];
    IrNode *copy = ir_clone_node(c->p, n);
    copy->in = in;
    IrNode *same = same_reader_node(c->b.body, copy);
    if (same) return same;
    pass_push(c->p, c->b.body, copy);
    return copy;
}

static bool copy_body(Copy *k, IrBody *model) {
    PassGrad *c = k->c;
    mark_needed(model, k->form);
    k->map = ARENA_ARRAY(c->p->arena, IrNode *, model->n + 1);
    for (int i = 0; i < model->n; i++) {
        const IrNode *n = model->nodes[i];
        if (!n->mark) continue;
        IrNode **in = ARENA_ARRAY(c->p->arena, IrNode *, n->n_in + 1);
        for (int j = 0; j < n->n_in; j++) in[j] = k->map[n->in[j]->mark];
        c->b.span = n->span;
        c->b.name = n->name;
        if (n->op == OP_LOSS) {
            ARENA_PUSH(c->p->arena, k->losses, k->n_losses, k->cap_losses, in[0]);
            continue;
        }
        k->map[n->mark] = copy_node(k, n, in);
        if (!k->map[n->mark]) return false;
    }
    return true;
}

/* Sum of the means of row losses and of step losses as they are; one root. */
static bool total_loss(Copy *k) {
    IrBuilder *b = &k->c->b;
    IrNode *total = NULL;
    for (int i = 0; i < k->n_losses; i++) {
        IrNode *l = k->losses[i];
        b->span = l->span;
        b->name = l->name;
        if (l->type.live == LIVE_ROW) l = ir_build1(b, OP_MEANROWS, l);
        total = total ? ir_build2(b, OP_ADD, total, l) : l;
        if (!total) return false;
    }
    IrAttr name = ir_as("name", "total");
    return !total || ir_build(b, OP_LOSS, 1, &total, 1, &name);
}

/* ---- backward ---- */

static bool trained(const IrProgram *p, int w) {
    const IrWeight *v = &p->weights[w];
    return v->trainable && !v->running && v->optimizer >= 0;
}

/* mark: a trained weight influences the node by ops that have gradients. aux: its gradient. */
static void mark_active(IrProgram *p, IrBody *body) {
    for (int i = 0; i < body->n; i++) {
        IrNode *n = body->nodes[i];
        n->aux = NULL;
        n->mark = 0;
        if (n->op == OP_WEIGHT)
            n->mark = trained(p, (int)ir_attr_i(n, "w"));
        else if (rule_of(n) != pass_grad_none)
            for (int k = 0; k < n->n_in; k++) n->mark |= n->in[k]->mark;
    }
}

static void add_id(PassGrad *c, PassGradWeight *w, IrNode *id) {
    for (int i = 0; i < w->n_ids; i++)
        if (w->ids[i] == id) return;
    ARENA_PUSH(c->p->arena, w->ids, w->n_ids, w->cap_ids, id);
}

/* A number that one-hots are multiplied with or divided by; it may be made of others, which name no rows. */
static bool is_factor(const IrNode *n, int operand) {
    int scaled = ir_scaled_operand(n);
    return scaled >= 0 && operand != scaled;
}

/* The one-hots that reach the left side of the product at `at` by sums and the like, which leave a row of
 * zeros a row of zeros. mark: reaches it. */
static void add_onehots(PassGrad *c, PassGradWeight *w, IrBody *body, int at) {
    for (int i = 0; i < at; i++) body->nodes[i]->mark = 0;
    body->nodes[at]->in[0]->mark = 1;
    for (int i = at - 1; i >= 0; i--)
        for (int k = 0; body->nodes[i]->mark && k < body->nodes[i]->n_in; k++)
            if (!is_factor(body->nodes[i], k)) body->nodes[i]->in[k]->mark = 1;
    for (int i = 0; i < at; i++)
        if (body->nodes[i]->mark && body->nodes[i]->op == OP_ONEHOT) add_id(c, w, body->nodes[i]->in[0]);
}

/* The ids that name a lazy weight's rows in this step, in order of use. */
static void collect_ids(PassGrad *c, IrBody *body) {
    for (int i = 0; i < body->n; i++) {
        IrNode *n = body->nodes[i];
        if (n->op == OP_EMBED || n->op == OP_EMBEDPOOL) {
            if (n->in[1]->op == OP_WEIGHT) add_id(c, &c->weights[ir_attr_i(n->in[1], "w")], n->in[0]);
        } else if (n->op == OP_MATMUL && n->in[1]->op == OP_WEIGHT) {
            int w = (int)ir_attr_i(n->in[1], "w");
            if (!c->p->weights[w].lazy) continue;
            add_onehots(c, &c->weights[w], body, i);
        }
    }
}

static void backward(PassGrad *c, Copy *k, int n_forward) {
    for (int i = 0; i < k->n_losses; i++) {
        IrNode *l = k->losses[i];
        c->b.span = l->span;
        c->b.name = l->name;
        IrNode *seed =
            l->type.live == LIVE_ROW ? ir_build(&c->b, OP_INVROWS, 0, NULL, 0, NULL) : ir_const(&c->b, 1);
        pass_gradient_to_own(c, l, seed);
    }
    for (int i = n_forward - 1; i >= 0 && !c->failed; i--) {
        IrNode *n = c->b.body->nodes[i];
        if (!n->mark || !n->aux) continue;
        c->b.span = n->span;
        c->b.name = n->name;
        rule_of(n)(c, n, n->aux);
    }
}

/* ---- updates ---- */

static IrNode *dense_grad(PassGrad *c, int w, const PassGradPair *pairs, int n) {
    IrNode **in = ARENA_ARRAY(c->p->arena, IrNode *, 2 * n);
    int64_t *kinds = ARENA_ARRAY(c->p->arena, int64_t, n);
    for (int i = 0; i < n; i++) {
        in[2 * i] = pairs[i].id;
        in[2 * i + 1] = pairs[i].g;
        kinds[i] = pairs[i].kind;
        if (!pairs[i].g) return NULL;
    }
    IrAttr a[2] = {ir_ai("w", w), ir_ail(c->p->arena, "kinds", kinds, n)};
    return ir_build(&c->b, OP_DENSEGRAD, 2 * n, in, 2, a);
}

/* 1 in the rows that an id of this step names, else 0: a gradient of ones, made from looked-up rows because
 * gradients are by row. */
static IrNode *touched(PassGrad *c, int w, IrNode *weight) {
    PassGradWeight *g = &c->weights[w];
    PassGradPair *ones = ARENA_ARRAY(c->p->arena, PassGradPair, g->n_ids);
    for (int i = 0; i < g->n_ids; i++) {
        IrNode *row = ir_build2(&c->b, OP_EMBED, g->ids[i], weight);
        ones[i] = (PassGradPair){g->ids[i], ir_build2(&c->b, OP_EQ, row, row), 0};
    }
    return pass_scalar_op(&c->b, OP_GT, dense_grad(c, w, ones, g->n_ids), 0);
}

static IrNode *with_l2(PassGrad *c, int w, IrNode *g, bool by_row) {
    const IrOptimizer *o = &c->p->opts[c->p->weights[w].optimizer];
    IrNode *weight = pass_weight_node(&c->b, w), *term = pass_scalar_op(&c->b, OP_MUL, weight, o->l2);
    /* rows that aren't touched take no l2: where they would count, in a norm or a whole update, mask them */
    if (by_row && (o->clip_norm > 0 || o->exact))
        term = ir_build2(&c->b, OP_MUL, term, touched(c, w, weight));
    return ir_build2(&c->b, OP_ADD, g, term);
}

static IrNode *clip_scale(PassGrad *c, IrNode *g, double norm) {
    IrNode *length = ir_build1(&c->b, OP_SQRT, ir_build1(&c->b, OP_SUMSQ, g));
    return pass_scalar_op(&c->b, OP_MIN2, ir_build2(&c->b, OP_DIV, ir_const(&c->b, norm), length), 1);
}

static void update_weight(PassGrad *c, int w) {
    PassGradWeight *pg = &c->weights[w];
    const IrWeight *v = &c->p->weights[w];
    if ((!pg->whole && !pg->n_pairs) || c->failed) return;
    const IrOptimizer *o = &c->p->opts[v->optimizer];
    c->b.span = v->span;
    c->b.name = v->name;
    IrNode *g = pg->whole;
    if (pg->n_pairs) {
        for (int i = 0, j = pg->n_pairs - 1; i < j; i++, j--) { /* collected backwards */
            PassGradPair t = pg->pairs[i];
            pg->pairs[i] = pg->pairs[j];
            pg->pairs[j] = t;
        }
        IrNode *looked_up = dense_grad(c, w, pg->pairs, pg->n_pairs);
        g = g ? ir_build2(&c->b, OP_ADD, g, looked_up) : looked_up;
    }
    bool by_row = v->lazy && pg->n_ids > 0;
    if (o->l2 > 0) g = with_l2(c, w, g, by_row);
    IrNode *scale = o->clip_norm > 0 && g ? clip_scale(c, g, o->clip_norm) : NULL;

    IrNode **in = ARENA_ARRAY(c->p->arena, IrNode *, 2 + pg->n_ids);
    int n_in = 0;
    in[n_in++] = g;
    if (scale) in[n_in++] = scale;
    bool rows_only = by_row && !o->exact;
    for (int i = 0; rows_only && i < pg->n_ids; i++) in[n_in++] = pg->ids[i];
    IrAttr a[2] = {ir_ai("w", w), ir_ab("scaled", scale)};
    later(c, g ? build_later(c, rows_only ? OP_UPDATETOUCHED : OP_UPDATE, n_in, in, rows_only ? 2 : 1, a)
               : NULL);
}

/* stop_gradient has done its work. */
static IrNode *drop_stops(PassRewrite *rw, IrNode *n) {
    (void)rw;
    return n->op == OP_STOPGRAD ? n->in[0] : n;
}

static bool make_train(IrProgram *p, IrBody *model, IrFunc *f) {
    PassGrad c = {.p = p, .b = {.p = p, .body = &f->body}};
    Copy k = {.c = &c, .form = TRAIN};
    c.weights = ARENA_ARRAY(p->arena, PassGradWeight, p->n_weights + 1);
    if (!copy_body(&k, model) || !total_loss(&k)) return false;
    int n_forward = f->body.n;
    collect_ids(&c, &f->body);
    mark_active(p, &f->body);
    backward(&c, &k, n_forward);
    for (int w = 0; w < p->n_weights; w++) update_weight(&c, w);
    if (c.failed) return false;
    for (int i = 0; i < c.n_updates; i++) pass_push(p, &f->body, c.updates[i]);
    if (!pass_rewrite(p, f, drop_stops, NULL, NULL)) return false;
    pass_dead_code(p, &f->body);
    return true;
}

static bool make_forward(IrProgram *p, IrBody *model, IrFunc *f, Form form) {
    PassGrad c = {.p = p, .b = {.p = p, .body = &f->body}};
    Copy k = {.c = &c, .form = form};
    if (!copy_body(&k, model) || !total_loss(&k)) return false;
    pass_dead_code(p, &f->body);
    return !c.failed;
}

bool pass_differentiate(IrProgram *p, const PassOptions *o, const char *args) {
    (void)o;
    IrFunc *model = ir_func(p, "model");
    if (!pass_args_known(p, "differentiate", args, NULL, 0)) return false;
    if (!model) {
        diag_error(p->diag, p->text_end, NULL,
                   "differentiate needs func 'model', which this program doesn't have");
        return false;
    }
    p->n_funcs = 0;
    return make_train(p, &model->body, ir_func_new(p, "train")) &&
           make_forward(p, &model->body, ir_func_new(p, "eval"), EVAL) &&
           make_forward(p, &model->body, ir_func_new(p, "predict"), PREDICT_ONLY);
}
