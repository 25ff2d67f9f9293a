/* gru-to-sru: a gru layer becomes sru, or its light form. Changes the model.
 *
 * before:
 *   %10 = concat %8, %9 {axis=1} : always f32[4,12]  (the input's rows of gates.kernel and candidate.kernel)
 *   %11 = matmul %3, %10 {ta=0, tb=0} : f32[~h,12]
 *   %13 = add %11, %12 : f32[~h,12]
 *   %14 = slice %4 {axis=0, begin=4, end=8} : always f32[4,8]  (the state's rows)
 *   %15 = slice %6 {axis=0, begin=4, end=8} : always f32[4,4]
 *   %16 = gru %13, %14, %15 : f32[~h,16]
 *   %17 = slice %16 {axis=0, begin=0, end=4} : f32[~h,4]
 * after:
 *   %5 = matmul %3, %4 {ta=0, tb=0} : f32[~h,4] "states.sru.forget.dense"
 *   %7 = add %5, %6 : f32[~h,4] "states.sru.forget.dense"
 *   %8 = sigmoid %7 : f32[~h,4] "states.sru.forget"
 *   %13 = sigmoid %12 : f32[~h,4] "states.sru.reset"
 *   %15 = matmul %3, %14 {ta=0, tb=0} : f32[~h,4] "states.sru.candidate.dense"
 *   %16 = sru %8, %15 : f32[~h,4] "states.sru"
 *   %17 = tanh %16 : f32[~h,4] "states.sru"
 *   %18 = mul %13, %17 : f32[~h,4] "states.sru"
 *   %20 = sub %19, %13 : f32[~h,4] "states.sru"
 *   %21 = mul %20, %3 : f32[~h,4] "states.sru"
 *   %22 = add %18, %21 : f32[~h,4] "states.sru"
 * (tests/golden/passes/gru-to-sru/default.*)
 *
 * A GRU's gates are products with its own last state, so that a list's positions wait for each other's
 * products. An SRU (Lei et al. 2018, "Simple Recurrent Units for Highly Parallelizable Recurrence") makes its
 * gates of the input alone: all products are over all positions at once, and only a sum of two terms runs
 * along the list. The winners of the reference contest did this to DIEN's first recurrent layer by hand.
 *
 *   f = sigmoid(x Wf + bf), r = sigmoid(x Wr + br), c' = f c + (1 - f) (x U), h = r tanh(c') + (1 - r) x
 *   light: f = sigmoid(x Wf), h' = f h + (1 - f) (x U)
 *
 * where x in the last term is projected (`highway`) if it isn't as wide as the state. What stands there
 * afterwards is, to the weights' names, what the model would be if it said sru or sru_light instead of gru
 * (frontend/lib/recurrent.ctr). So are the initial values: a GRU's own have no counterpart, since they are
 * for the state's rows, too, whose number also decides Glorot's range. Optimizers are kept: `forget` and
 * `reset` are trained as the GRU's gates were, `candidate` and `highway` as its candidate. The GRU's weights
 * leave the program.
 *
 * layers=A|B: the layers one of whose weights has such a path, or one that begins so up to a dot; '*' stands
 * for any characters. Without it, the first gru. augru stays what it is: its scores have no place in an SRU.
 * tied: r is f.  light: the light form. */
#include "passes/rewrite.h"
#include <string.h>

enum { FORGET, RESET, CANDIDATE, HIGHWAY, PARTS };

typedef struct Layer {
    IrNode *op;                 /* gru or augru */
    bool *weights;              /* [n_old] those that it is made of */
    int gates, candidate, bias; /* one weight of each: whose optimizers the new ones take */
    const char *path;           /* "states.gru" */
    struct Layer *first;        /* of the layers of the same weights the first: shared(gru) */
    bool chosen;
    int kernel[PARTS], addend[PARTS]; /* of a first one: the new weights, -1 if there are none yet */
} Layer;

typedef struct {
    Layer *v;
    int n, cap;
    int n_old; /* weights before the pass */
    bool light, tied;
} Layers;

/* ---- finding ---- */

/* Marks what is made into n from weights alone. */
static void mark_cone(const IrBody *b, IrNode *n) {
    for (int i = 0; i < b->n; i++) b->nodes[i]->mark = 0;
    n->mark = 1;
    for (int i = b->n - 1; i >= 0; i--)
        for (int k = 0; b->nodes[i]->mark && k < b->nodes[i]->n_in; k++) b->nodes[i]->in[k]->mark = 1;
}

/* Adds the weights that n is made of. Returns the first, -1 if there is none. */
static int collect(const IrBody *b, IrNode *n, bool *weights) {
    int first = -1;
    if (!n) return first;
    mark_cone(b, n);
    for (int i = 0; i < b->n; i++) {
        if (!b->nodes[i]->mark || !pass_is_weight(b->nodes[i], -1)) continue;
        int w = (int)ir_attr_i(b->nodes[i], "w");
        weights[w] = true;
        if (first < 0 || w < first) first = w;
    }
    return first;
}

/* What the layer's input is multiplied and then added to: its part of the products is `x @ kernel + bias`,
 * where kernel and bias are made of weights alone. NULL if it has another form. */
static IrNode *product_of(const IrNode *op, IrNode **bias) {
    IrNode *p = op->in[0];
    *bias = NULL;
    if (p->op == OP_ADD) {
        int side = p->in[0]->type.live == LIVE_ALWAYS ? 0 : 1;
        *bias = p->in[side], p = p->in[1 - side];
        if ((*bias)->type.live != LIVE_ALWAYS) return NULL;
    }
    bool product = p->op == OP_MATMUL && p->in[1]->type.live == LIVE_ALWAYS && !ir_attr_i(p, "ta") &&
                   !ir_attr_i(p, "tb");
    return product && p->in[0]->type.rank == 1 && p->in[0]->type.live == LIVE_POS ? p : NULL;
}

static void look_at(IrProgram *p, const IrBody *body, Layers *all, IrNode *op) {
    Layer l = {.op = op, .weights = ARENA_ARRAY(p->arena, bool, all->n_old + 1), .path = op->name};
    IrNode *bias, *product = product_of(op, &bias);
    if (product) collect(body, product->in[1], l.weights);
    l.gates = collect(body, op->in[1], l.weights);
    l.candidate = collect(body, op->in[2], l.weights);
    l.bias = collect(body, bias, l.weights);
    if (l.bias < 0) l.bias = l.gates;
    l.path = l.gates < 0 || l.candidate < 0 ? ""
                                            : pass_common_path(p, pass_path_of(p, p->weights[l.gates].name),
                                                               pass_path_of(p, p->weights[l.candidate].name));
    for (int k = 0; k < PARTS; k++) l.kernel[k] = l.addend[k] = -1;
    ARENA_PUSH(p->arena, all->v, all->n, all->cap, l);
}

/* Layers of the same weights are one. After the last of them was found: they don't move any more. */
static void find_shared(Layers *all) {
    for (int i = 0; i < all->n; i++)
        for (int k = 0; k <= i && !all->v[i].first; k++)
            if (k == i || (all->v[k].op->op == all->v[i].op->op &&
                           !memcmp(all->v[k].weights, all->v[i].weights, (size_t)all->n_old)))
                all->v[i].first = &all->v[k];
}

/* ---- choosing ---- */

static bool named(const IrProgram *p, const Layers *all, const Layer *l, const char *pattern) {
    for (int w = 0; w < all->n_old; w++)
        if (l->weights[w] && ir_path_matches(p->weights[w].name, pattern)) return true;
    return false;
}

/* "states.gru, interest.augru" */
static const char *names(Arena *a, const Layers *all) {
    const char *list = "";
    for (int i = 0; i < all->n; i++)
        if (all->v[i].first == &all->v[i])
            list = arena_printf(a, "%s%s%s", list, i ? ", " : "", all->v[i].path);
    return list;
}

static bool choose_named(IrProgram *p, Layers *all, const char *pattern) {
    bool found = false;
    if (!*pattern) {
        diag_error(p->diag, (Span){0}, NULL, "gru-to-sru: expected paths of layers in layers=A|B, found ''");
        return false;
    }
    for (int i = 0; i < all->n; i++) {
        Layer *l = &all->v[i];
        if (l->op->op != OP_GRU || !named(p, all, l, pattern)) continue;
        found = l->chosen = true;
    }
    if (found) return true;
    diag_error(p->diag, (Span){0},
               arena_printf(p->arena, "recurrent layers are %s; only gru becomes sru", names(p->arena, all)),
               "gru-to-sru: no gru layer has a weight called '%s' or one that begins with '%s.'", pattern,
               pattern);
    return false;
}

/* Those that `layers` names, or the first gru. */
static bool choose(IrProgram *p, Layers *all, const char *layers) {
    Layer *first = NULL;
    for (int i = all->n - 1; i >= 0; i--)
        if (all->v[i].op->op == OP_GRU) first = &all->v[i];
    if (!first) return true;
    for (int i = 0; i < all->n && !layers; i++) all->v[i].chosen = all->v[i].first == first;
    for (const char *s = layers; s; s = *s ? s + 1 : NULL) {
        s += strspn(s, " ");
        size_t length = strcspn(s, "|"), trimmed = length;
        while (trimmed && s[trimmed - 1] == ' ') trimmed--;
        if (!choose_named(p, all, arena_strndup(p->arena, s, trimmed))) return false;
        s += length;
    }
    return true;
}

/* ---- building ---- */

typedef struct {
    IrBuilder *b;
    Layer *l;         /* a first one */
    const char *path; /* "states.sru" */
} New;

/* Is it a weight's path, or the beginning of one? */
static bool taken(const IrProgram *p, const char *path) {
    for (int w = 0; w < p->n_weights; w++)
        if (ir_path_matches(p->weights[w].name, path)) return true;
    return false;
}

/* As the frontend names a layer's second weight: "forget.dense_1.kernel". */
static const char *free_path(IrProgram *p, const char *path) {
    const char *name = path;
    for (int i = 1; taken(p, name); i++) name = arena_printf(p->arena, "%s_%d", path, i);
    return name;
}

static int new_weight(IrProgram *p, int like, const char *name, IrInit init, int rank, const int64_t *dim) {
    const IrWeight *w = &p->weights[like];
    bool ftrl = w->optimizer >= 0 && p->opts[w->optimizer].kind == OPT_FTRL; /* it starts from zeros */
    return pass_add_weight(p, w, name, ftrl ? INIT_ZEROS : init, rank, dim);
}

/* dense(x, units) as part of the layer. */
static IrNode *dense(New *m, int part, IrNode *x, bool bias) {
    static const char *const parts[] = {"forget", "reset", "candidate", "highway"};
    IrProgram *p = m->b->p;
    Layer *l = m->l;
    int64_t dim[2] = {ir_type_width(x->type), ir_type_width(l->op->type) / 4};
    bool gate = part == FORGET || part == RESET;
    if (l->kernel[part] < 0) {
        const char *path = free_path(p, arena_printf(p->arena, "%s.%s.dense", m->path, parts[part]));
        l->kernel[part] = new_weight(p, gate ? l->gates : l->candidate,
                                     arena_printf(p->arena, "%s.kernel", path), INIT_GLOROT_UNIFORM, 2, dim);
        if (bias)
            l->addend[part] =
                new_weight(p, l->bias, arena_printf(p->arena, "%s.bias", path), INIT_ZEROS, 1, dim + 1);
    }
    m->b->name = pass_path_of(p, p->weights[l->kernel[part]].name);
    IrNode *y = pass_matmul(m->b, x, pass_weight_node(m->b, l->kernel[part]), false, false);
    if (bias) y = ir_build2(m->b, OP_ADD, y, pass_weight_node(m->b, l->addend[part]));
    if (y && gate) {
        m->b->name = pass_path_of(p, m->b->name);
        y = ir_build1(m->b, OP_SIGMOID, y);
    }
    m->b->name = m->path;
    return y;
}

static IrNode *sru(New *m, IrNode *x, bool tied) {
    IrBuilder *b = m->b;
    IrNode *f = dense(m, FORGET, x, true), *r = tied ? f : dense(m, RESET, x, true);
    IrNode *c = ir_build2(b, OP_SRU, f, dense(m, CANDIDATE, x, false));
    if (c && ir_type_width(x->type) != ir_type_width(c->type)) x = dense(m, HIGHWAY, x, false);
    IrNode *shown = ir_build2(b, OP_MUL, r, ir_build1(b, OP_TANH, c));
    return ir_build2(b, OP_ADD, shown, ir_build2(b, OP_MUL, ir_build2(b, OP_SUB, ir_const(b, 1), r), x));
}

static IrNode *sru_light(New *m, IrNode *x) {
    IrNode *f = dense(m, FORGET, x, false);
    return ir_build2(m->b, OP_SRU, f, dense(m, CANDIDATE, x, false));
}

/* "a.sru" for "a.gru", and for "a" itself if the layer isn't called gru. */
static const char *new_path(IrProgram *p, const Layers *all, const char *path) {
    const char *dot = strrchr(path, '.'), *last = dot ? dot + 1 : path;
    const char *kind = all->light ? "sru_light" : "sru";
    if (!strcmp(last, "gru")) return arena_printf(p->arena, "%.*s%s", (int)(last - path), path, kind);
    return arena_printf(p->arena, "%s%s%s", path, *path ? "." : "", kind);
}

static IrNode *rewrite(IrBuilder *b, const Layers *all, Layer *l, IrNode *n) {
    IrProgram *p = b->p;
    IrNode *bias, *product = product_of(n, &bias);
    New m = {.b = b, .l = l->first, .path = new_path(p, all, l->path)};
    IrNode *x = product->in[0], *h = all->light ? sru_light(&m, x) : sru(&m, x, all->tied);
    if (l == l->first) pass_effect(p, "gru-to-sru", "%s is %s now", l->path, m.path);
    return h;
}

/* ---- the pass ---- */

static Layer *layer_of(Layers *all, const IrNode *n) {
    for (int i = 0; i < all->n; i++)
        if (all->v[i].op == n && all->v[i].chosen) return &all->v[i];
    return NULL;
}

/* mark: a new layer's result, which stands for the old one's record, of which only the state is read. */
static IrNode *visit(PassRewrite *rw, IrNode *n) {
    Layers *all = rw->user;
    n->mark = 0;
    if (n->op == OP_SLICE && n->in[0]->mark && ir_attr_i(n, "begin") == 0 &&
        ir_attr_i(n, "end") == ir_type_width(n->in[0]->type))
        return n->in[0];
    Layer *l = n->op == OP_GRU ? layer_of(all, n) : NULL;
    if (!l) return n;
    IrNode *h = rewrite(&rw->b, all, l, n);
    if (h) h->mark = 1;
    return h;
}

static bool read_args(IrProgram *p, const char *args, Layers *all, const char **layers) {
    static const char *const known[] = {"layers", "light", "tied"};
    if (!pass_args_known(p, "gru-to-sru", args, known, 3) ||
        !pass_arg_bool(p, "gru-to-sru", args, "light", &all->light) ||
        !pass_arg_bool(p, "gru-to-sru", args, "tied", &all->tied))
        return false;
    *layers = pass_arg(p, args, "layers");
    if (!all->light || !all->tied) return true;
    diag_error(p->diag, (Span){0}, NULL, "gru-to-sru: the light form has no reset gate that could be tied");
    return false;
}

/* A layer of another form than the library's stays, and this is said. */
static void leave_odd_ones(IrProgram *p, Layers *all) {
    for (int i = 0; i < all->n; i++) {
        Layer *l = &all->v[i];
        IrNode *bias;
        if (!l->chosen || (product_of(l->op, &bias) && l->gates >= 0 && l->candidate >= 0)) continue;
        l->chosen = false;
        diag_warn(
            p->diag, l->op->span, NULL,
            "gru-to-sru: this gru stays, since it isn't of the form gru(x @ kernel + bias, …) with weights");
    }
}

bool pass_gru_to_sru(IrProgram *p, const PassOptions *o, const char *args) {
    (void)o;
    Layers all = {.n_old = p->n_weights};
    const char *layers;
    if (!read_args(p, args, &all, &layers)) return false;
    IrFunc *model = ir_func(p, "model");
    if (!model) return true; /* differentiated: the gradients are those of the layers as they are */
    for (int i = 0; i < model->body.n; i++) {
        IrNode *n = model->body.nodes[i];
        if (n->op == OP_GRU || n->op == OP_AUGRU) look_at(p, &model->body, &all, n);
    }
    find_shared(&all);
    if (!choose(p, &all, layers)) return false;
    leave_odd_ones(p, &all);
    bool *gone = ARENA_ARRAY(p->arena, bool, all.n_old + 1);
    for (int i = 0; i < all.n; i++)
        for (int w = 0; w < all.n_old; w++) gone[w] |= all.v[i].chosen && all.v[i].weights[w];
    if (!pass_rewrite(p, model, visit, &all, NULL)) return false;
    pass_dead_code(p, &model->body);
    pass_drop_unnamed(p, gone, all.n_old);
    return true;
}
