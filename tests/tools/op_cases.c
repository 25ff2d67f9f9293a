#include "tests/tools/op_cases.h"
#include "tests/tools/op_build.h"

/* ---- the program around ---- */

/* v behind x0 to x2: a part of a concat, which v's kernel may write to itself. */
static IrNode *among_others(OpCase *c, IrNode *v) {
    int64_t size = ir_type_size(v->type);
    return concat(c, 2, (IrNode *[]){c->x, reshape(c, v, 1, &size)}, 0);
}

/* One number a row of a value of any shape and life: each element weighs differently. */
static IrNode *to_number(OpCase *c, IrNode *v) {
    if (!v) return NULL;
    bool among = c->parts && c->name[strlen(c->name) - 1] % 2;
    if (among && (v->type.live == LIVE_ROW || v->type.live == LIVE_POS)) v = among_others(c, v);
    if (v->type.live == LIVE_POS) v = unary(c, OP_SEGMEAN, v);
    int64_t size = ir_type_size(v->type);
    double *pattern = ARENA_ARRAY(c->p->arena, double, size);
    for (int64_t i = 0; i < size; i++)
        pattern[i] = (double)(i % 7 + 1) / (double)(4 * size) * (i % 3 ? 1 : -1);
    IrAttr at[2] = {ir_afl(c->p->arena, "value", pattern, (int)size), ir_ail(c->p->arena, "shape", &size, 1)};
    IrNode *weighed = binary(c, OP_MUL, reshape(c, v, 1, &size), ir_build(&c->b, OP_CONST, 0, NULL, 2, at));
    IrNode *sum = with(c, OP_SUM, weighed, 2, (IrAttr[]){ir_ai("axis", 0), ir_ab("keep", true)});
    if (sum && sum->type.live < LIVE_ROW) { /* differs by row all the same */
        IrNode *x0 =
            with(c, OP_SLICE, c->x, 3, (IrAttr[]){ir_ai("axis", 0), ir_ai("begin", 0), ir_ai("end", 1)});
        sum = binary(c, OP_MUL, sum, binary(c, OP_ADD, x0, constant(c, 1)));
    }
    return sum;
}

static void root(OpCase *c, IrOp op, IrNode *x, const char *name) {
    IrAttr at = ir_as("name", name);
    ir_build(&c->b, op, 1, &x, 1, &at);
}

static void metrics(OpCase *c, IrNode *p) {
    IrNode *number = read_column(c, "group", COL_INT, -1);
    IrNode *key = unary(c, OP_KEY, number);
    IrNode *in[3] = {p, c->y, key};
    for (int by = 0; by < 2; by++)
        ir_build(&c->b, OP_METRIC, 2 + by, in, 4,
                 (IrAttr[]){ir_as("kind", by ? "gauc" : "auc"), ir_as("name", c->name), ir_ab("where", false),
                            ir_ab("by", by)});
}

/* Adds a value under the name that was set before it was made: its prediction and its loss. */
static void add(OpCase *c, IrNode *value) {
    IrNode *v = to_number(c, value);
    if (!v) return;
    IrNode *p = unary(c, OP_SIGMOID, v);
    root(c, OP_PREDICT, p, c->name);
    root(c, OP_LOSS, unary(c, OP_SQUARE, binary(c, OP_SUB, v, c->y)), c->name);
    if (c->n_values++ == 0) metrics(c, p);
}

static void name_value(OpCase *c, const char *name) {
    c->name = name;
    c->n_weights = 0;
}

static IrProgram *finish(OpCase *c, const IrOptimizer *opt) {
    ARENA_PUSH(c->p->arena, c->p->opts, c->p->n_opts, c->p->cap_opts, *opt);
    for (int i = 0; i < c->p->n_weights; i++)
        c->p->weights[i].optimizer = c->p->weights[i].trainable ? 0 : -1;
    ir_mark_used(c->p);
    ir_renumber(c->p);
    return c->p->diag->errors ? NULL : c->p;
}

static OpCase begin(Arena *a, Diag *d, const char *name) {
    IrProgram *p = ir_program_new(a, d);
    p->name = name;
    p->source = "case.ctr";
    p->input.separator = ',';
    p->batch = OP_CASE_BATCH;
    p->epochs = 1;
    p->seed = 5;
    IrFunc *f = ir_func_new(p, "model");
    OpCase c = {.p = p, .b = {.p = p, .body = &f->body}};
    c.y = read_column(&c, "y", COL_LABEL, -1);
    p->input.columns[0].unit_label = true;
    IrNode *x[3];
    for (int i = 0; i < 3; i++) x[i] = read_column(&c, arena_printf(a, "x%d", i), COL_FLOAT, -1);
    c.x = concat(&c, 3, x, 0);
    c.list = axis(&c, "h", 0);
    return c;
}

/* Adds the variant, if there is one and it is wanted. False: there is none. */
static bool try_value(OpCase *c, IrOp op, int variant, const char *only) {
    Diag *d = c->p->diag;
    name_value(c, arena_printf(c->p->arena, "%s_%d", ir_ops[op].text, variant));
    bool wanted = !only || strncmp(c->name, only, strlen(only)) == 0;
    /* what exists is known by making it: what isn't wanted is made in a program of its own */
    OpCase other = wanted ? *c : begin(c->p->arena, d, "unwanted");
    other.name = c->name;
    other.parts = ir_ops[op].cls != CLASS_EW;
    IrNode *v = op_value(&other, op, variant);
    if (wanted) *c = other;
    if (v && wanted) add(c, v);
    return v;
}

enum { UNARY_VARIANTS = 3, BINARY_VARIANTS = 5 };

/* All elementwise ops with so many operands, in one variant. */
static void elementwise_group(OpCase *c, int operands, int variant, const char *only) {
    for (int op = 0; op < OP_COUNT; op++)
        if (ir_ops[op].cls == CLASS_EW && ir_ops[op].max_in == operands)
            try_value(c, (IrOp)op, variant, only);
}

/* The group-th op that has a group for itself; -1 after the last. */
static int op_of_group(int group) {
    for (int op = 0; op < OP_COUNT; op++) {
        IrClass k = ir_ops[op].cls;
        bool has = k == CLASS_SRC || k == CLASS_MOVE || k == CLASS_RED || k == CLASS_TAB || k == CLASS_PROD ||
                   k == CLASS_NORM;
        if (has && group-- == 0) return op;
    }
    return -1;
}

IrProgram *op_case_group(Arena *a, Diag *d, int group, const char *only, const char **what) {
    IrOptimizer sgd = {.kind = OPT_SGD, .lr = {.kind = SCHED_CONST, .lr = 0.1}};
    OpCase c = begin(a, d, "ops");
    int op = op_of_group(group - UNARY_VARIANTS - BINARY_VARIANTS);
    if (group < UNARY_VARIANTS) {
        *what = arena_printf(a, "ops of one operand, variant %d", group);
        elementwise_group(&c, 1, group, only);
    } else if (group < UNARY_VARIANTS + BINARY_VARIANTS) {
        *what = arena_printf(a, "ops of two operands, variant %d", group - UNARY_VARIANTS);
        elementwise_group(&c, 2, group - UNARY_VARIANTS, only);
    } else if (op >= 0) {
        *what = ir_ops[op].text;
        for (int variant = 0; try_value(&c, (IrOp)op, variant, only);) variant++;
    } else
        return NULL;
    return finish(&c, &sgd);
}

/* ---- optimizers ---- */

static const struct {
    const char *what;
    IrOptimizer o;
} optimizers[] = {
    {"sgd, l2", {.kind = OPT_SGD, .l2 = 0.1}},
    {"sgd, clip_norm", {.kind = OPT_SGD, .clip_norm = 0.05}},
    {"sgd, l2, clip_norm", {.kind = OPT_SGD, .l2 = 0.1, .clip_norm = 0.05}},
    {"momentum", {.kind = OPT_MOMENTUM, .momentum = 0.9}},
    {"adagrad", {.kind = OPT_ADAGRAD, .init = 0.1}},
    {"adagrad_decay", {.kind = OPT_ADAGRAD_DECAY, .init = 0.001, .every = 2, .rate = 0.5}},
    {"rmsprop", {.kind = OPT_RMSPROP, .rho = 0.9, .eps = 1e-10}},
    {"adam", {.kind = OPT_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-2}},
    {"adam, exact", {.kind = OPT_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-2, .exact = true}},
    {"adam, exact, l2",
     {.kind = OPT_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-2, .exact = true, .l2 = 0.1}},
    {"adam, clip_norm", {.kind = OPT_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-2, .clip_norm = 0.05}},
    {"adam_async", {.kind = OPT_ADAM_ASYNC, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-2}},
    {"ftrl", {.kind = OPT_FTRL, .init = 0.1, .l1_ftrl = 0.002, .l2_ftrl = 0.1}},
};
static const struct {
    const char *what;
    IrSched s;
} schedules[] = {
    {"exponential", {.kind = SCHED_EXPONENTIAL, .lr = 0.1, .rate = 0.5, .every = 2}},
    {"cosine", {.kind = SCHED_COSINE, .lr = 0.1, .steps = 4, .end = 0.01}},
    {"piecewise",
     {.kind = SCHED_PIECEWISE, .at = (double[]){1, 3}, .values = (double[]){0.1, 0.05, 0.2}, .n = 2}},
    {"warmup", {.kind = SCHED_WARMUP, .steps = 3, .then = &(IrSched){.kind = SCHED_CONST, .lr = 0.1}}},
};

/* A dense weight, a table that is looked up by row and pooled along a list, one that is large, a lazy weight.
 */
static IrNode *trained_things(OpCase *c) {
    IrNode *t = table(c, 90, 4), *large = table(c, 1100000, 2);
    IrNode *onehot = unary(c, OP_ONEHOT, row_id(c, 30)), *lazy = always(c, DIMS(30, 3));
    c->p->weights[c->p->n_weights - 1].lazy = true;
    return concat(c, 5,
                  (IrNode *[]){row(c, DIMS(6)), embed(c, row_id(c, 90), t),
                               embed_pool(c, list_id(c, 90), t, "mean"), embed(c, row_id(c, 1100000), large),
                               matmul(c, onehot, lazy, false, false)},
                  0);
}

IrProgram *op_case_optimizer(Arena *a, Diag *d, int variant, const char **what) {
    enum { N_OPT = sizeof optimizers / sizeof *optimizers, N_SCHED = sizeof schedules / sizeof *schedules };
    if (variant >= N_OPT + N_SCHED) return NULL;
    IrOptimizer o = {.kind = OPT_SGD};
    if (variant < N_OPT) {
        o = optimizers[variant].o;
        o.lr = (IrSched){.kind = SCHED_CONST, .lr = 0.1};
        *what = optimizers[variant].what;
    } else {
        o.lr = schedules[variant - N_OPT].s;
        *what = schedules[variant - N_OPT].what;
    }
    OpCase c = begin(a, d, "optimizer");
    name_value(&c, "trained");
    add(&c, unary(&c, OP_TANH, trained_things(&c)));
    return finish(&c, &o);
}
