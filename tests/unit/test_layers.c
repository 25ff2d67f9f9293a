/* The layer library against its formulas: each layer is compiled, run by the interpreter on a few rows with
 * weights that are anything but symmetric, and compared with plain C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "backend/interp.h"
#include "frontend/compile.h"

enum { ROWS = 3, COLUMNS = 4, MOST = 8 };
static const double rows[ROWS][COLUMNS] = {
    {0.5, -1.25, 2, 1}, {-0.75, 0.25, 1.5, 0}, {3, -2, -0.5, 1}}; /* a b c y */
enum { POSITIONS = 4, TO_VECTOR = 2 };
static const int64_t starts[ROWS + 1] = {0, 3, 3, 4};
static const double positions[POSITIONS][TO_VECTOR] = {
    {0.75, -0.5}, {-1.5, 1}, {0.25, 2}, {1.25, -0.75}}; /* k l, in lists */

typedef struct {
    Arena *a;
    Diag *d;
    IrProgram *p;
    Interp *it;
} Run;

static double value(const char *name, int row) {
    static const char *const names[] = {"a", "b", "c", "y"};
    for (int i = 0; i < COLUMNS; i++)
        if (strcmp(names[i], name) == 0) return rows[row][i];
    fail_msg("no column %s", name);
    return 0;
}

static bool fetch(void *user, const IrNode *n, InterpValue *out) {
    Run *r = user;
    const IrColumn *column = &r->p->input.columns[ir_attr_i(n, "col")];
    const char *name = column->name;
    if (column->is_list) {
        *out = (InterpValue){.v = ARENA_ARRAY(r->a, double, POSITIONS), .count = POSITIONS, .size = 1};
        for (int i = 0; i < POSITIONS; i++) out->v[i] = positions[i][name[0] == 'l'];
        return true;
    }
    *out = (InterpValue){.v = ARENA_ARRAY(r->a, double, ROWS), .count = ROWS, .size = 1};
    for (int i = 0; i < ROWS; i++) out->v[i] = value(name, i);
    return true;
}

/* Weight w's element i: different everywhere, of both signs. */
static double filled(int w, int64_t i) { return 0.3 * sin(1.7 * (double)i + 2.3 * w + 0.4) + 0.05; }

static Run run(const char *body) {
    char path[] = "/tmp/ctrc_layers_XXXXXX", text[4096];
    snprintf(text, sizeof text,
             "model m\ninput csv() { y label; a float; b float; c float; k float list(\";\", axis = h);\n"
             "l float list(\";\", axis = h) }\nx = concat(a, b, c)\ns = concat(k, l)\n"
             "layer both(h) = concat(last(h), sum(h))\n%s\n"
             "optimizer sgd(lr = 1)\n",
             body);
    FILE *f = fdopen(mkstemp(path), "w");
    fputs(text, f);
    fclose(f);
    Run r = {.a = arena_new()};
    r.d = diag_new(r.a, stderr);
    r.p = frontend_compile(r.a, r.d, path, NULL, 0, CTRC_SOURCE_DIR "/frontend/lib");
    unlink(path);
    if (!r.p) fail_msg("does not compile:\n%s", text);
    r.it = interp_new(r.p, 1);
    for (int w = 0; w < r.p->n_weights; w++) {
        int64_t n = 1;
        for (int k = 0; k < r.p->weights[w].rank; k++) n *= r.p->weights[w].dim[k];
        for (int64_t i = 0; i < n; i++) interp_weight(r.it, w)[i] = filled(w, i);
    }
    const int64_t *offsets[] = {starts};
    InterpBatch batch = {.rows = ROWS, .fetch = fetch, .user = &r, .offsets = offsets};
    if (!interp_run(r.it, "model", &batch)) fail_msg("does not run:\n%s", text);
    return r;
}

static void release(Run *r) {
    interp_free(r->it);
    arena_free(r->a);
}

static const double *weight(const Run *r, const char *name) {
    int w = ir_weight_by_name(r->p, name);
    if (w < 0) fail_msg("no weight %s", name);
    return interp_weight(r->it, w);
}

/* Operand of the n-th root of a kind. */
static double root(const Run *r, IrOp op, int n, int row) {
    const IrBody *b = &ir_func(r->p, "model")->body;
    for (int i = 0; i < b->n; i++)
        if (b->nodes[i]->op == op && n-- == 0) return interp_value(r->it, b->nodes[i]->in[0])->v[row];
    fail_msg("no such root");
    return 0;
}

static void near(double found, double expected, const char *what, int row, int k) {
    if (!(fabs(found - expected) <= 1e-9 * (1 + fabs(expected))))
        fail_msg("%s: row %d, element %d: expected %.12g, found %.12g", what, row, k, expected, found);
}

/* ---- layers: z = expression of n elements; `want` fills what is expected of one row ---- */

typedef void Want(const Run *r, const double *x, double *out);

static void check(const char *expression, int n, Want *want) {
    char body[2048];
    int len = snprintf(body, sizeof body, "z = %s\nloss mse(slice(z, 0, 1), y)\n", expression);
    for (int k = 0; k < n; k++)
        len +=
            snprintf(body + len, sizeof body - (size_t)len, "predict p%d = slice(z, %d, %d)\n", k, k, k + 1);
    Run r = run(body);
    for (int row = 0; row < ROWS; row++) {
        double out[MOST];
        want(&r, rows[row], out);
        for (int k = 0; k < n; k++) near(root(&r, OP_PREDICT, k, row), out[k], expression, row, k);
    }
    release(&r);
}

static void product(const double *x, const double *w, const double *bias, int in, int out, double *y) {
    for (int j = 0; j < out; j++) {
        y[j] = bias ? bias[j] : 0;
        for (int i = 0; i < in; i++) y[j] += x[i] * w[i * out + j];
    }
}

static void want_dense(const Run *r, const double *x, double *out) {
    product(x, weight(r, "z.dense.kernel"), weight(r, "z.dense.bias"), 3, 2, out);
}

static void normalised(const double *x, const double *gamma, const double *beta, int n, double *out) {
    double mean = 0, var = 0;
    for (int i = 0; i < n; i++) mean += x[i] / n;
    for (int i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean) / n;
    for (int i = 0; i < n; i++) out[i] = (x[i] - mean) / sqrt(var + 1e-5) * gamma[i] + beta[i];
}

static void want_mlp(const Run *r, const double *x, double *out) { /* the norm comes behind the activation */
    double h[2], n[2], last[3];
    product(x, weight(r, "z.mlp.0.dense.kernel"), weight(r, "z.mlp.0.dense.bias"), 3, 2, h);
    for (int i = 0; i < 2; i++) h[i] = fmax(h[i], 0);
    normalised(h, weight(r, "z.mlp.0.layernorm.gamma"), weight(r, "z.mlp.0.layernorm.beta"), 2, n);
    product(n, weight(r, "z.mlp.1.dense.kernel"), weight(r, "z.mlp.1.dense.bias"), 2, 3, last);
    for (int i = 0; i < 3; i++) last[i] = fmax(last[i], 0);
    normalised(last, weight(r, "z.mlp.1.layernorm.gamma"), weight(r, "z.mlp.1.layernorm.beta"), 3, out);
}

static void want_layernorm(const Run *r, const double *x, double *out) {
    normalised(x, weight(r, "z.layernorm.gamma"), weight(r, "z.layernorm.beta"), 3, out);
}

static void want_frozen(const Run *r, const double *x, double *out) {
    for (int i = 0; i < 3; i++)
        out[i] = weight(r, "z.batchnorm.gamma")[i] * x[i] / sqrt(1.001) + weight(r, "z.batchnorm.beta")[i];
}

/* Func model means training: mean and biased variance are the batch's. */
static double standard(double x, int i, double eps) {
    double mean = 0, var = 0;
    for (int row = 0; row < ROWS; row++) mean += rows[row][i] / ROWS;
    for (int row = 0; row < ROWS; row++) var += (rows[row][i] - mean) * (rows[row][i] - mean) / ROWS;
    return (x - mean) / sqrt(var + eps);
}

static void want_batchnorm(const Run *r, const double *x, double *out) {
    for (int i = 0; i < 3; i++)
        out[i] =
            weight(r, "z.batchnorm.gamma")[i] * standard(x[i], i, 1e-3) + weight(r, "z.batchnorm.beta")[i];
}

static void want_dice(const Run *r, const double *x, double *out) {
    for (int i = 0; i < 3; i++) {
        double p = 1 / (1 + exp(-standard(x[i], i, 1e-9)));
        out[i] = p * x[i] + (1 - p) * weight(r, "z.dice.alpha")[i] * x[i];
    }
}

static void want_gelu(const Run *r, const double *x, double *out) {
    (void)r;
    for (int i = 0; i < 3; i++) out[i] = x[i] * 0.5 * (1 + erf(x[i] / sqrt(2)));
}

static void want_prelu(const Run *r, const double *x, double *out) {
    for (int i = 0; i < 3; i++) out[i] = fmax(x[i], 0) + weight(r, "z.prelu.alpha")[i] * fmin(x[i], 0);
}

static void want_l2(const Run *r, const double *x, double *out) {
    (void)r;
    double n = sqrt(fmax(x[0] * x[0] + x[1] * x[1] + x[2] * x[2], 1e-12));
    for (int i = 0; i < 3; i++) out[i] = x[i] / n;
}

static void want_normalize(const Run *r, const double *x, double *out) { (void)r, out[0] = (x[0] - 2) / 0.5; }

/* fields [a b], [c a], [b c] */
static void fields(const double *x, double v[3][2]) {
    v[0][0] = x[0], v[0][1] = x[1], v[1][0] = x[2], v[1][1] = x[0], v[2][0] = x[1], v[2][1] = x[2];
}

static void want_fm(const Run *r, const double *x, double *out) { /* the sum of products of pairs */
    (void)r;
    double v[3][2];
    fields(x, v);
    for (int k = 0; k < 2; k++) out[k] = v[0][k] * v[1][k] + v[0][k] * v[2][k] + v[1][k] * v[2][k];
}

static void want_dots(const Run *r, const double *x, double *out) {
    (void)r;
    double v[3][2];
    int n = 0;
    fields(x, v);
    for (int i = 1; i < 3; i++)
        for (int j = 0; j < i; j++) out[n++] = v[i][0] * v[j][0] + v[i][1] * v[j][1];
}

static void want_cross(const Run *r, const double *x, double *out) {
    const double *w[2] = {weight(r, "z.cross_net.0.kernel"), weight(r, "z.cross_net.1.kernel")};
    const double *b[2] = {weight(r, "z.cross_net.0.bias"), weight(r, "z.cross_net.1.bias")};
    memcpy(out, x, 3 * sizeof *x);
    for (int k = 0; k < 2; k++) {
        double dot = out[0] * w[k][0] + out[1] * w[k][1] + out[2] * w[k][2];
        for (int i = 0; i < 3; i++) out[i] = x[i] * dot + b[k][i] + out[i];
    }
}

static void want_cross_matrix(const Run *r, const double *x, double *out) {
    double y[3];
    product(x, weight(r, "z.cross_net.0.kernel"), weight(r, "z.cross_net.0.bias"), 3, 3, y);
    for (int i = 0; i < 3; i++) out[i] = x[i] * y[i] + x[i];
}

static void want_mmoe(const Run *r, const double *x, double *out) { /* of the second task */
    double expert[2][2], gate[2];
    for (int e = 0; e < 2; e++) {
        char kernel[64], bias[64];
        snprintf(kernel, sizeof kernel, "z.mmoe.%d.expert.mlp.0.dense.kernel", e);
        snprintf(bias, sizeof bias, "z.mmoe.%d.expert.mlp.0.dense.bias", e);
        product(x, weight(r, kernel), weight(r, bias), 3, 2, expert[e]);
        for (int k = 0; k < 2; k++) expert[e][k] = fmax(expert[e][k], 0);
    }
    product(x, weight(r, "z.mmoe.1.gate.dense.kernel"), weight(r, "z.mmoe.1.gate.dense.bias"), 3, 2, gate);
    double sum = exp(gate[0]) + exp(gate[1]);
    for (int k = 0; k < 2; k++) out[k] = (exp(gate[0]) * expert[0][k] + exp(gate[1]) * expert[1][k]) / sum;
}

/* ---- recurrent layers: the last state, and the sum of all; n of each ---- */

typedef void Cell(const Run *r, const double *x, double *state, double *h);

/* h comes out of each position, state is what goes on to the next. */
static void along(const Run *r, const double *row, int n, Cell *cell, double *out) {
    int64_t i = (row - rows[0]) / COLUMNS, from = starts[i], to = starts[i + 1];
    double state[MOST] = {0}, h[MOST] = {0};
    for (int k = 0; k < 2 * n; k++) out[k] = 0;
    for (int64_t t = from; t < to; t++) {
        cell(r, positions[t], state, h);
        for (int k = 0; k < n; k++) {
            out[k] = h[k];
            out[n + k] += h[k];
        }
    }
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* Numerics, `gru`: the products of [x, h] and of [x, r h], as they are written there. */
static void gru_cell(const Run *r, const char *layer, const double *x, double score, double *h) {
    enum { N = 3 };
    char name[4][64];
    static const char *const parts[] = {"gates.kernel", "gates.bias", "candidate.kernel", "candidate.bias"};
    for (int i = 0; i < 4; i++) snprintf(name[i], sizeof name[i], "z.%s.%s", layer, parts[i]);
    double in[TO_VECTOR + N] = {x[0], x[1], h[0], h[1], h[2]}, gate[2 * N], c[N];
    product(in, weight(r, name[0]), weight(r, name[1]), TO_VECTOR + N, 2 * N, gate);
    for (int k = 0; k < N; k++) in[TO_VECTOR + k] *= sigmoid(gate[k]);
    product(in, weight(r, name[2]), weight(r, name[3]), TO_VECTOR + N, N, c);
    for (int k = 0; k < N; k++) {
        double u = (1 - score) * sigmoid(gate[N + k]);
        h[k] = u * h[k] + (1 - u) * tanh(c[k]);
    }
}

static void plain_gru(const Run *r, const double *x, double *state, double *h) {
    gru_cell(r, "gru", x, 0, state);
    memcpy(h, state, 3 * sizeof *h);
}

static void scored_gru(const Run *r, const double *x, double *state, double *h) {
    gru_cell(r, "augru", x, sigmoid(x[1]), state);
    memcpy(h, state, 3 * sizeof *h);
}

static void want_gru(const Run *r, const double *x, double *out) { along(r, x, 3, plain_gru, out); }
static void want_augru(const Run *r, const double *x, double *out) { along(r, x, 3, scored_gru, out); }

/* sigmoid(x W + b), or x W + b */
static void sru_part(const Run *r, const char *part, bool bias, const double *x, int n, double *out) {
    char kernel[64], offset[64];
    snprintf(kernel, sizeof kernel, "z.%s.dense.kernel", part);
    snprintf(offset, sizeof offset, "z.%s.dense.bias", part);
    product(x, weight(r, kernel), bias ? weight(r, offset) : NULL, TO_VECTOR, n, out);
}

/* Numerics, `sru`; reset and highway NULL: f's gate, and x itself. */
static void sru_cell(const Run *r, const double *x, const char *reset, const char *highway, int n, double *c,
                     double *h) {
    double f[3], v[3], g[3], skip[3] = {x[0], x[1]};
    sru_part(r, "sru.forget", true, x, n, f);
    sru_part(r, reset ? reset : "sru.forget", true, x, n, g);
    sru_part(r, "sru.candidate", false, x, n, v);
    if (highway) sru_part(r, highway, false, x, n, skip);
    for (int k = 0; k < n; k++) {
        c[k] = sigmoid(f[k]) * c[k] + (1 - sigmoid(f[k])) * v[k];
        h[k] = sigmoid(g[k]) * tanh(c[k]) + (1 - sigmoid(g[k])) * skip[k];
    }
}

static void plain_sru(const Run *r, const double *x, double *c, double *h) {
    sru_cell(r, x, "sru.reset", "sru.highway", 3, c, h);
}
static void tied_sru(const Run *r, const double *x, double *c, double *h) {
    sru_cell(r, x, NULL, NULL, 2, c, h);
}
static void light_sru(const Run *r, const double *x, double *state, double *h) {
    double f[3], v[3];
    sru_part(r, "sru_light.forget", false, x, 3, f);
    sru_part(r, "sru_light.candidate", false, x, 3, v);
    for (int k = 0; k < 3; k++) h[k] = state[k] = sigmoid(f[k]) * state[k] + (1 - sigmoid(f[k])) * v[k];
}

static void want_sru(const Run *r, const double *x, double *out) { along(r, x, 3, plain_sru, out); }
static void want_tied(const Run *r, const double *x, double *out) { along(r, x, 2, tied_sru, out); }
static void want_light(const Run *r, const double *x, double *out) { along(r, x, 3, light_sru, out); }

static void recurrent_layers_compute_their_formulas(void **state) {
    (void)state;
    check("both(gru(s, 3))", 6, want_gru);
    check("both(augru(s, sigmoid(l), 3))", 6, want_augru);
    check("both(sru(s, 3))", 6, want_sru);
    check("both(sru(s, 2, tied = true))", 4, want_tied); /* as wide as s: nothing is projected */
    check("both(sru_light(s, 3))", 6, want_light);
}

static void want_reduced(const Run *r, const double *x, double *out) {
    (void)r;
    out[0] = (x[0] + x[1] + x[2]) / 3;
    out[1] = fmax(x[0], fmax(x[1], x[2]));
    out[2] = (x[0] + x[1]) / 2;
    out[3] = fmin(x[0], x[2]);
    out[4] = fmin(fmax(x[0], -1), 1);
    out[5] = x[0] > x[1];
    out[6] = x[2] == 2;
    out[7] = log1p(fabs(x[1]));
}

static void want_moved(const Run *r, const double *x, double *out) {
    (void)r; /* [[a b c] [2a 2b 2c]] transposed and flattened, then some of it */
    double t[6] = {x[0], 2 * x[0], x[1], 2 * x[1], x[2], 2 * x[2]};
    memcpy(out, t, sizeof t);
    out[6] = x[2], out[7] = 2 * x[0];
}

static void layers_compute_their_formulas(void **state) {
    (void)state;
    check("dense(x, 2)", 2, want_dense);
    check("layernorm(x)", 3, want_layernorm);
    check("batchnorm(x, frozen = true)", 3, want_frozen);
    check("batchnorm(x)", 3, want_batchnorm);
    check("dice(x)", 3, want_dice);
    check("gelu(x)", 3, want_gelu);
    check("prelu(x)", 3, want_prelu);
    check("l2_normalize(x)", 3, want_l2);
    check("normalize(a, 2, 0.5)", 1, want_normalize);
    check("fm(stack(concat(a, b), concat(c, a), concat(b, c)))", 2, want_fm);
    check("dot_interaction(stack(concat(a, b), concat(c, a), concat(b, c)))", 3, want_dots);
    check("cross_net(x, 2)", 3, want_cross);
    check("cross_net(x, depth = 1, matrix = true)", 3, want_cross_matrix);
    check("mmoe(x, 2, 2, [2])[1]", 2, want_mmoe);
    check("mlp(x, [2, 3], norm = layernorm)", 3, want_mlp);
    check("concat(mean(x, axis = 0), max(x, axis = 0), mean([a, b]), min([a, c]), clip(a, -1, 1), a > b, c "
          "== 2, log1p(abs(b)))",
          8, want_reduced);
    check("concat(reshape(transpose(stack(x, x * 2)), [-1]), gather(x, [2], 0), slice(2 * x, 0, 1))", 8,
          want_moved);
}

/* ---- losses ---- */

static void losses_compute_their_formulas(void **state) {
    (void)state;
    Run r = run("predict p = sigmoid(a)\nw = weight([1])\nloss bce_logits(a * w, y)\nloss bce(sigmoid(b) * "
                "0.9, y, weight = c * c)\n"
                "loss mse(a * w, y, weight = c)\nloss bce(clip(a * w, 2, 3), y)");
    double w = weight(&r, "w")[0];
    for (int row = 0; row < ROWS; row++) {
        double a = rows[row][0], b = rows[row][1], c = rows[row][2], y = rows[row][3], z = a * w;
        double p = 0.9 / (1 + exp(-b)), q = 1 - 1e-7;
        near(root(&r, OP_LOSS, 0, row), fmax(z, 0) - z * y + log1p(exp(-fabs(z))), "bce_logits", row, 0);
        near(root(&r, OP_LOSS, 1, row), -c * c * (y * log(p) + (1 - y) * log(1 - p)), "bce", row, 0);
        near(root(&r, OP_LOSS, 2, row), c * (z - y) * (z - y), "mse", row, 0);
        double clipped = -(y * log(q) + (1 - y) * log(1 - q));
        near(root(&r, OP_LOSS, 3, row), clipped, "bce beyond 1", row, 0);
    }
    release(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_compute_their_formulas),
        cmocka_unit_test(recurrent_layers_compute_their_formulas),
        cmocka_unit_test(losses_compute_their_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
