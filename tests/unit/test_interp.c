/* The reference interpreter against numbers worked out by hand: each op on three rows small enough to follow.
 *
 *   row   x     y   i     positions: v, hi
 *   0     1     1   0     (1, id 1) (2, id 0)
 *   1    -2     0   none  no positions
 *   2     0.5   1   2     (3, id 2) (4, id 2) (5, no id)
 *   table t: row k is (10k + 10, 10k + 11) */
#include "test_ir_fixture.h"
#include <math.h>
#include "backend/interp.h"

static const char head[] = "ctrc-ir 1\n"
                           "axis h list\n"
                           "axis h1 append parent=h\n"
                           "input csv separator=\",\"\n"
                           "column x float\n"
                           "column y label\n"
                           "column i int\n"
                           "column v float list=\";\" axis=h\n"
                           "column hi int list=\";\" axis=h\n"
                           "optimizer 0 %s\n"
                           "weight t [3,2] zeros trainable table lazy optimizer=0\n"
                           "weight w [2] zeros trainable optimizer=0\n"
                           "weight mean [2] zeros running\n"
                           "weight var [2] ones running\n"
                           "train batch=4 epochs=1 steps=0 shuffle=0 seed=3\n"
                           "func %s {\n"
                           "  %%0 = column {col=x} : f32[1]\n"
                           "  %%1 = column {col=y} : f32[1]\n"
                           "  %%2 = column {col=i} : int\n"
                           "  %%3 = identity %%2 {n=3} : id<3>\n"
                           "  %%4 = column {col=v} : f32[~h,1]\n"
                           "  %%5 = column {col=hi} : int[~h]\n"
                           "  %%6 = identity %%5 {n=3} : id<3>[~h]\n"
                           "  %%7 = weight {w=t} : always f32[3,2]\n"
                           "  %%8 = concat %%0, %%1 {axis=0} : f32[2]\n" /* (1,1) (-2,0) (0.5,1) */
                           "  %%9 = const {value=[1, 2, 3, 4], shape=[2, 2]} : always f32[2,2]\n"
                           "  %%10 = weight {w=w} : always f32[2]\n"
                           "  %%11 = weight {w=mean} : always f32[2]\n"
                           "  %%12 = weight {w=var} : always f32[2]\n"
                           "%s}\n";

static const int64_t offsets[] = {0, 2, 2, 5}, appended[] = {0, 3, 4, 8};

static bool deliver(void *user, const IrNode *n, InterpValue *out) {
    static const double x[] = {1, -2, 0.5}, y[] = {1, 0, 1}, i[] = {0, -1, 2}, v[] = {1, 2, 3, 4, 5},
                        hi[] = {1, 0, 2, 2, -1};
    const IrProgram *p = user;
    const IrNode *column = n->op == OP_IDENTITY ? n->in[0] : n;
    const char *name = p->input.columns[ir_attr_i(column, "col")].name;
    const double *from = !strcmp(name, "x")   ? x
                         : !strcmp(name, "y") ? y
                         : !strcmp(name, "i") ? i
                         : !strcmp(name, "v") ? v
                                              : hi;
    assert_true(out->count <= (n->type.live == LIVE_POS ? 5 : 3));
    memcpy(out->v, from, sizeof(double) * (size_t)out->count);
    return true;
}

typedef struct {
    Fx fx;
    IrProgram *p;
    Interp *it;
    InterpBatch batch;
    const int64_t *offsets[2];
} Bed;

/* The interpreter on a function `func` with the given lines; t and w filled. Not to be moved. */
static void bed_new(Bed *b, const char *func, const char *optimizer, const char *lines) {
    *b = (Bed){.fx = fx_new(), .offsets = {offsets, appended}};
    b->p = fx_program(&b->fx, arena_printf(b->fx.arena, head, optimizer, func, lines));
    b->it = interp_new(b->p, (uint64_t)b->p->seed);
    for (int k = 0; k < 6; k++) interp_weight(b->it, 0)[k] = 10 * (k / 2) + 10 + k % 2;
    interp_weight(b->it, 1)[0] = 1;
    interp_weight(b->it, 1)[1] = -1;
    interp_weight(b->it, 3)[0] = interp_weight(b->it, 3)[1] = 1;
    b->batch = (InterpBatch){.rows = 3, .offsets = b->offsets, .fetch = deliver, .user = b->p};
}

static void bed_run(Bed *b, const char *func) {
    if (!interp_run(b->it, func, &b->batch)) fail_msg("%s", fx_messages(&b->fx));
}

static void bed_free(Bed *b) {
    interp_free(b->it);
    fx_free(&b->fx);
}

static void same_numbers(const char *what, const double *got, const double *want, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-12 * fmax(1, fabs(want[i]))))
            fail_msg("%s\n[%lld]: expected %.15g, found %.15g", what, (long long)i, want[i], got[i]);
}

/* The last line's value. */
static void expect(const char *lines, int n, const double *want) {
    Bed b;
    bed_new(&b, "model", "sgd lr=0.1", lines);
    bed_run(&b, "model");
    const IrBody *body = &ir_func(b.p, "model")->body;
    const InterpValue *v = interp_value(b.it, body->nodes[body->n - 1]);
    assert_non_null(v);
    if (v->count * v->size != n)
        fail_msg("%s\nexpected %d values, found %lld", lines, n, (long long)(v->count * v->size));
    same_numbers(lines, v->v, want, n);
    bed_free(&b);
}

#define EXPECT(lines, ...)                                                                                   \
    expect(lines, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

static void test_sources(void **state) {
    (void)state;
    EXPECT("%20 = const {value=[1.5, -2], shape=[2]} : always f32[2]\n", 1.5, -2);
    EXPECT("%20 = const {value=[7], shape=[3]} : always f32[3]\n", 7, 7, 7);
    EXPECT("%20 = weight {w=t} : always f32[3,2]\n", 10, 11, 20, 21, 30, 31);
    EXPECT("%20 = inv_rows : step f32[1]\n", 1.0 / 3);
    EXPECT("%20 = seg_len {axis=h} : f32[1]\n", 2, 0, 3);
    EXPECT("%20 = longest {axis=h} : step f32[1]\n", 3);
    EXPECT("%20 = stop_gradient %0 : f32[1]\n", 1, -2, 0.5);
}

static void test_one_operand(void **state) {
    (void)state;
    EXPECT("%20 = neg %0 : f32[1]\n", -1, 2, -0.5);
    EXPECT("%20 = exp %0 : f32[1]\n", M_E, exp(-2), sqrt(M_E));
    EXPECT("%20 = log %4 : f32[~h,1]\n", 0, M_LN2, log(3), 2 * M_LN2, log(5));
    EXPECT("%20 = log1p %4 : f32[~h,1]\n", M_LN2, log(3), 2 * M_LN2, log(5), log(6));
    EXPECT("%20 = sqrt %4 : f32[~h,1]\n", 1, M_SQRT2, sqrt(3), 2, sqrt(5));
    EXPECT("%20 = square %0 : f32[1]\n", 1, 4, 0.25);
    EXPECT("%20 = abs %0 : f32[1]\n", 1, 2, 0.5);
    EXPECT("%20 = relu %0 : f32[1]\n", 1, 0, 0.5);
    EXPECT("%20 = leaky_relu %0 {slope=0.2} : f32[1]\n", 1, -0.4, 0.5);
    EXPECT("%20 = sigmoid %0 : f32[1]\n", 0.7310585786300049, 0.11920292202211755, 0.6224593312018546);
    EXPECT("%20 = tanh %0 : f32[1]\n", 0.7615941559557649, -0.9640275800758169, 0.46211715726000973);
    EXPECT("%20 = softplus %0 : f32[1]\n", 1.3132616875182228, 0.1269280110429726, 0.9740769841801067);
    EXPECT("%20 = erf %0 : f32[1]\n", 0.8427007929497149, -0.9953222650189527, 0.5204998778130465);
    EXPECT("%20 = clip %0 {lo=-1, hi=0.75} : f32[1]\n", 0.75, -1, 0.5);
    /* where e^x or e^-x is past the end of the numbers */
    EXPECT(
        "%20 = const {value=[-1000, 1000], shape=[2]} : always f32[2]\n%21 = sigmoid %20 : always f32[2]\n",
        0, 1);
    EXPECT(
        "%20 = const {value=[-1000, 1000], shape=[2]} : always f32[2]\n%21 = softplus %20 : always f32[2]\n",
        0, 1000);
}

static void test_two_operands(void **state) {
    (void)state;
    EXPECT("%20 = add %0, %1 : f32[1]\n", 2, -2, 1.5);
    EXPECT("%20 = sub %0, %1 : f32[1]\n", 0, -2, -0.5);
    EXPECT("%20 = mul %0, %0 : f32[1]\n", 1, 4, 0.25);
    EXPECT("%20 = div %1, %0 : f32[1]\n", 1, 0, 2);
    EXPECT("%20 = max2 %0, %1 : f32[1]\n", 1, 0, 1);
    EXPECT("%20 = min2 %0, %1 : f32[1]\n", 1, -2, 0.5);
    EXPECT("%20 = lt %0, %1 : f32[1]\n", 0, 1, 1);
    EXPECT("%20 = le %0, %1 : f32[1]\n", 1, 1, 1);
    EXPECT("%20 = gt %0, %1 : f32[1]\n", 0, 0, 0);
    EXPECT("%20 = ge %0, %1 : f32[1]\n", 1, 0, 0);
    EXPECT("%20 = eq %0, %1 : f32[1]\n", 1, 0, 0);
    EXPECT("%20 = ne %0, %1 : f32[1]\n", 0, 1, 1);
    EXPECT("%20 = bce_logits %0, %1 : f32[1]\n", 0.31326168751822286, 0.1269280110429726,
           0.47407698418010663);
    /* a row's value along a list, sizes of 1 that stretch, ranks from the right */
    EXPECT("%20 = mul %4, %0 : f32[~h,1]\n", 1, 2, 1.5, 2, 2.5);
    EXPECT("%20 = mul %0, %9 : f32[2,2]\n", 1, 2, 3, 4, -2, -4, -6, -8, 0.5, 1, 1.5, 2);
    EXPECT("%20 = mul %8, %9 : f32[2,2]\n", 1, 2, 3, 4, -2, 0, -6, 0, 0.5, 2, 1.5, 4);
    EXPECT("%20 = reshape %8 {shape=[2, 1]} : f32[2,1]\n%21 = mul %20, %8 : f32[2,2]\n", 1, 1, 1, 1, 4, 0, 0,
           0, 0.25, 0.5, 0.5, 1);
}

static void test_moves(void **state) {
    (void)state;
    EXPECT("%20 = concat %8, %0 {axis=0} : f32[3]\n", 1, 1, 1, -2, 0, -2, 0.5, 1, 0.5);
    EXPECT("%20 = concat %4, %8 {axis=0} : f32[~h,3]\n", 1, 1, 1, 2, 1, 1, 3, 0.5, 1, 4, 0.5, 1, 5, 0.5, 1);
    EXPECT("%20 = concat %9, %9 {axis=1} : always f32[2,4]\n", 1, 2, 1, 2, 3, 4, 3, 4);
    EXPECT("%20 = slice %9 {axis=1, begin=1, end=2} : always f32[2,1]\n", 2, 4);
    EXPECT("%20 = pad %9 {axis=0, before=1, after=0} : always f32[3,2]\n", 0, 0, 1, 2, 3, 4);
    EXPECT("%20 = reshape %9 {shape=[4]} : always f32[4]\n", 1, 2, 3, 4);
    EXPECT("%20 = transpose %9 {order=[1, 0]} : always f32[2,2]\n", 1, 3, 2, 4);
    EXPECT("%20 = const {value=[1, 2, 3, 4, 5, 6], shape=[1, 2, 3]} : always f32[1,2,3]\n"
           "%21 = transpose %20 {order=[2, 0, 1]} : always f32[3,1,2]\n",
           1, 4, 2, 5, 3, 6);
    EXPECT("%20 = gather %9 {axis=1, indices=[1, 1, 0]} : always f32[2,3]\n", 2, 2, 1, 4, 4, 3);
    EXPECT("%20 = scatter_add %9 {axis=1, indices=[2, 2], size=3} : always f32[2,3]\n", 0, 0, 3, 0, 0, 7);
    EXPECT("%20 = broadcast %0 {shape=[2, 2]} : f32[2,2]\n", 1, 1, 1, 1, -2, -2, -2, -2, 0.5, 0.5, 0.5, 0.5);
    EXPECT("%20 = broadcast %0 {shape=[1], axis=h} : f32[~h,1]\n", 1, 1, 0.5, 0.5, 0.5);
}

static void test_reductions(void **state) {
    (void)state;
    EXPECT("%20 = sum %9 {axis=0, keep=0} : always f32[2]\n", 4, 6);
    EXPECT("%20 = sum %9 {axis=1, keep=1} : always f32[2,1]\n", 3, 7);
    EXPECT("%20 = sum %8 {axis=0, keep=0} : f32[1]\n", 2, -2, 1.5);
    EXPECT("%20 = max %8 {axis=0, keep=0} : f32[1]\n", 1, 0, 1);
    EXPECT("%20 = neg %9 : always f32[2,2]\n%21 = max %20 {axis=0, keep=0} : always f32[2]\n", -1, -2);
    EXPECT("%20 = seg_sum %4 : f32[1]\n", 3, 0, 12);
    EXPECT("%20 = seg_mean %4 : f32[1]\n", 1.5, 0, 4);
    EXPECT("%20 = seg_max %4 : f32[1]\n", 2, 0, 5);
    EXPECT("%20 = neg %4 : f32[~h,1]\n%21 = seg_max %20 : f32[1]\n", -1, 0, -3);
    EXPECT("%20 = log %4 : f32[~h,1]\n%21 = seg_softmax %20 : f32[~h,1]\n", 1.0 / 3, 2.0 / 3, 0.25, 4.0 / 12,
           5.0 / 12);
    EXPECT("%20 = append %4, %0 {axis=h1} : f32[~h1,1]\n", 1, 2, 1, -2, 3, 4, 5, 0.5);
    EXPECT("%20 = append %4, %0 {axis=h1} : f32[~h1,1]\n%21 = append_grad %20 {axis=h} : f32[~h,1]\n", 1, 2,
           3, 4, 5);
    EXPECT("%20 = append %4, %0 {axis=h1} : f32[~h1,1]\n%21 = seg_last %20 : f32[1]\n", 1, -2, 0.5);
    EXPECT("%20 = seg_last %4 : f32[1]\n", 2, 0, 5);
    /* scores ln 2 * v[t] v[s], so the weights of v = 1, 2 are 2^1 : 2^2 at the first position, 2^2 : 2^4 at
     * the second */
    EXPECT("%20 = attend %4, %4, %4 {scale=0.6931471805599453} : f32[~h,1]\n", 5.0 / 3, 1.8,
           (3 * 0x1p9 + 4 * 0x1p12 + 5 * 0x1p15) / (0x1p9 + 0x1p12 + 0x1p15),
           (3 * 0x1p12 + 4 * 0x1p16 + 5 * 0x1p20) / (0x1p12 + 0x1p16 + 0x1p20),
           (3 * 0x1p15 + 4 * 0x1p20 + 5 * 0x1p25) / (0x1p15 + 0x1p20 + 0x1p25));
    EXPECT("%20 = shift %4 {k=1} : f32[~h,1]\n", 2, 0, 4, 5, 0);
    EXPECT("%20 = shift %4 {k=-2} : f32[~h,1]\n", 0, 0, 0, 0, 3);
    EXPECT("%20 = shift %4 {k=9} : f32[~h,1]\n", 0, 0, 0, 0, 0);
    EXPECT("%20 = shift %4 {k=0} : f32[~h,1]\n", 1, 2, 3, 4, 5);
    EXPECT("%20 = sum_rows %8 : step f32[2]\n", -0.5, 2);
    EXPECT("%20 = sum_rows %4 : step f32[1]\n", 15);
    EXPECT("%20 = mean_rows %4 : step f32[1]\n", 5); /* by rows, not by positions */
    EXPECT("%20 = sum_sq %9 : step f32[1]\n", 30);
    EXPECT("%20 = sum_sq %0 : step f32[1]\n", 5.25);
    EXPECT("%20 = const {value=[1000, 1000], shape=[2]} : always f32[2]\n%21 = softmax %20 {axis=0} : always "
           "f32[2]\n",
           0.5, 0.5);
    EXPECT("%20 = log %9 : always f32[2,2]\n%21 = softmax %20 {axis=0} : always f32[2,2]\n", 0.25, 2.0 / 6,
           0.75, 4.0 / 6);
}

/* Update gates x/(1+x) for x = 1 … 5, and 0.5 as candidate: u h + (1-u)/2. */
#define GATES                                                                                                \
    "%20 = log %4 : f32[~h,1]\n%21 = sigmoid %20 : f32[~h,1]\n"                                              \
    "%22 = const {value=[0.5], shape=[1]} : always f32[1]\n"                                                 \
    "%23 = broadcast %22 {shape=[1], axis=h} : f32[~h,1]\n"

static void test_recurrent(void **state) {
    (void)state;
    EXPECT(GATES "%24 = sru %21, %23 : f32[~h,1]\n", 0.25, 1.0 / 3, 0.125, 0.2, 0.25);
    EXPECT(GATES "%24 = div %23, %23 : f32[~h,1]\n%25 = sru_grad %21, %24 : f32[~h,1]\n", 1 + 2.0 / 3, 1,
           1 + 0.8 * (1 + 5.0 / 6), 1 + 5.0 / 6, 1);
    EXPECT("%20 = log %4 : f32[~h,1]\n" /* the reset gate is 0.5, the candidate tanh(log(3)/2) = 0.5 */
           "%21 = const {value=[0], shape=[1]} : always f32[1]\n"
           "%22 = const {value=[0.5493061443340549], shape=[1]} : always f32[1]\n"
           "%23 = concat %21, %20, %22 {axis=0} : f32[~h,3]\n"
           "%24 = const {value=[0], shape=[1, 2]} : always f32[1,2]\n"
           "%25 = const {value=[0], shape=[1, 1]} : always f32[1,1]\n"
           "%26 = gru %23, %24, %25 : f32[~h,4]\n",
           0.25, 0.5, 0.5, 0.5, 1.0 / 3, 0.5, 2.0 / 3, 0.5, 0.125, 0.5, 0.75, 0.5, 0.2, 0.5, 0.8, 0.5, 0.25,
           0.5, 5.0 / 6, 0.5);
}

static void test_products(void **state) {
    (void)state;
    EXPECT("%20 = matmul %8, %9 {ta=0, tb=0} : f32[2]\n", 4, 6, -2, -4, 3.5, 5);
    EXPECT("%20 = matmul %8, %9 {ta=0, tb=1} : f32[2]\n", 3, 7, -2, -6, 2.5, 5.5);
    EXPECT("%20 = matmul %9, %9 {ta=1, tb=0} : always f32[2,2]\n", 10, 14, 14, 20);
    EXPECT("%20 = reshape %8 {shape=[1, 2]} : f32[1,2]\n%21 = matmul %20, %20 {ta=1, tb=0} : f32[2,2]\n", 1,
           1, 1, 1, 4, 0, 0, 0, 0.25, 0.5, 0.5, 1);
    EXPECT("%20 = reshape %8 {shape=[2, 1]} : f32[2,1]\n%21 = matmul %9, %20 {ta=0, tb=0} : f32[2,1]\n", 3, 7,
           -2, -6, 2.5, 5.5);
    EXPECT("%20 = concat %4, %4 {axis=0} : f32[~h,2]\n%21 = matmul %20, %9 {ta=0, tb=0} : f32[~h,2]\n", 4, 6,
           8, 12, 12, 18, 16, 24, 20, 30);
    EXPECT("%20 = matmul_grad_w %8, %8 : step f32[2,2]\n", 5.25, 1.5, 1.5, 2);
}

static void test_norms(void **state) {
    (void)state;
    double m0 = -0.5 / 3, v0 = 5.25 / 3 - m0 * m0, m1 = 2.0 / 3, v1 = 2.0 / 3 - m1 * m1,
           s0 = sqrt(v0 + 0.001), s1 = sqrt(v1 + 0.001);
    EXPECT("%20 = bn_stats %8 : step f32[2,2]\n", m0, m1, v0, v1);
    EXPECT("%20 = bn_stats %4 : step f32[2,1]\n", 3, 2);
#define NORM                                                                                                 \
    (1 - m0) / s0 + 1, -(1 - m1) / s1 - 1, (-2 - m0) / s0 + 1, m1 / s1 - 1, (0.5 - m0) / s0 + 1,             \
        -(1 - m1) / s1 - 1
    EXPECT("%20 = bn_stats %8 : step f32[2,2]\n%21 = bn_norm %8, %20, %10, %10 {eps=0.001} : f32[2]\n", NORM);
    EXPECT("%20 = batchnorm %8, %10, %10, %11, %12 {eps=0.001, momentum=0.9} : f32[2]\n", NORM);
    double h0 = (1 - m0) / s0 - 2 * (-2 - m0) / s0 + 0.5 * (0.5 - m0) / s0;
    double h1 = (1 - m1) / s1 + (1 - m1) / s1; /* the gradient is x, which is 0 in row 1 */
    EXPECT("%20 = bn_stats %8 : step f32[2,2]\n%21 = bn_grad_sums %8, %20, %8 {eps=0.001} : step f32[2,2]\n",
           1 - 2 + 0.5, 2, 1 * (1 - m0) / s0 - 2 * (-2 - m0) / s0 + 0.5 * (0.5 - m0) / s0, h1);
#define GRAD(x, m, s, sum, h, gamma) (gamma) / (s) * ((x) - ((sum) + ((x) - (m)) / (s) * (h)) / 3)
    EXPECT("%20 = bn_stats %8 : step f32[2,2]\n%21 = bn_grad_sums %8, %20, %8 {eps=0.001} : step f32[2,2]\n"
           "%22 = bn_grad %8, %20, %10, %21, %8 {eps=0.001} : f32[2]\n",
           GRAD(1, m0, s0, -0.5, h0, 1), GRAD(1, m1, s1, 2, h1, -1), GRAD(-2, m0, s0, -0.5, h0, 1),
           GRAD(0, m1, s1, 2, h1, -1), GRAD(0.5, m0, s0, -0.5, h0, 1), GRAD(1, m1, s1, 2, h1, -1));
}

static void test_tables(void **state) {
    (void)state;
    EXPECT("%20 = onehot %3 : f32[3]\n", 1, 0, 0, 0, 0, 0, 0, 0, 1);
    EXPECT("%20 = embed %3, %7 : f32[2]\n", 10, 11, 0, 0, 30, 31);
    EXPECT("%20 = embed %6, %7 : f32[~h,2]\n", 20, 21, 10, 11, 30, 31, 30, 31, 0, 0);
    EXPECT("%20 = embed_pool %6, %7 {kind=\"sum\"} : f32[2]\n", 30, 32, 0, 0, 60, 62);
    EXPECT("%20 = embed_pool %6, %7 {kind=\"mean\"} : f32[2]\n", 15, 16, 0, 0, 20,
           62.0 / 3); /* by positions, with an id or not */
    EXPECT("%20 = fetch %6, %3 {w=t} : f32[@t,2]\n", 20, 21, 10, 11, 30, 31); /* as first met */
    EXPECT("%20 = fetch %3, %6 {w=t} : f32[@t,2]\n", 10, 11, 30, 31, 20, 21);
    EXPECT("%20 = fetch %3, %6 {w=t} : f32[@t,2]\n%21 = embed_pool %6, %20 {kind=\"sum\"} : f32[2]\n", 30, 32,
           0, 0, 60, 62);
    EXPECT(
        "%20 = fetch %3, %6 {w=t} : f32[@t,2]\n%21 = neg %20 : f32[@t,2]\n%22 = sum_sq %21 : step f32[1]\n",
        100 + 121 + 900 + 961 + 400 + 441);
    double third = 0.5 / 3, y3 = 1.0 / 3; /* row 2's gradient (0.5, 1), shared by its three positions */
    EXPECT("%20 = dense_grad %3, %8, %6, %8 {w=t, kinds=[0, 2]} : step f32[3,2]\n", 1 + 0.5, 1 + 0.5, 0.5,
           0.5, 0.5 + 2 * third, 1 + 2 * y3);
    EXPECT("%20 = dense_grad %6, %8 {w=t, kinds=[1]} : step f32[3,2]\n", 1, 1, 1, 1, 1, 2);
    EXPECT("%20 = concat %4, %4 {axis=0} : f32[~h,2]\n%21 = dense_grad %6, %20 {w=t, kinds=[0]} : step "
           "f32[3,2]\n",
           2, 2, 1, 1, 7, 7);
    EXPECT("%20 = row_grad %3, %8, %6, %8 {w=t, kinds=[0, 2]} : f32[@t,2]\n", 1 + 0.5, 1 + 0.5,
           0.5 + 2 * third, 1 + 2 * y3, 0.5, 0.5);
    /* a gradient that is the same for every row */
    EXPECT("%20 = dense_grad %6, %10 {w=t, kinds=[2]} : step f32[3,2]\n", 0.5, -0.5, 0.5, -0.5, 2.0 / 3,
           -2.0 / 3);
}

static void test_regions_and_roots(void **state) {
    (void)state;
    EXPECT("%20 = fused %0, %9 {kind=\"chain\"} : f32[2,2] {\n"
           "  %21 = arg {index=0} : f32[1]\n"
           "  %22 = arg {index=1} : always f32[2,2]\n"
           "  %23 = mul %21, %22 : f32[2,2]\n"
           "  %24 = relu %23 : f32[2,2]\n"
           "}\n",
           1, 2, 3, 4, 0, 0, 0, 0, 0.5, 1, 1.5, 2);
    EXPECT("%20 = predict %0 {name=\"p\"} : none\n", 1, -2, 0.5);
    EXPECT("%20 = predict %0 {name=\"p\"} : none\n%21 = metric %0, %1 {kind=\"auc\", name=\"p\", where=0, "
           "by=0} : none\n",
           1, -2, 0.5);
    Bed b;
    bed_new(&b, "model", "sgd lr=0.1",
            "%20 = loss %0 {name=\"a\"} : none\n%21 = sum_rows %4 : step f32[1]\n%22 = loss %21 {name=\"b\"} "
            ": none\n");
    bed_run(&b, "model");
    assert_true(fabs(interp_loss(b.it) - (15 - 0.5 / 3)) <
                1e-12); /* the mean of a row's loss, a step's as it is */
    bed_free(&b);
}

/* Which of 32 elements are dropped, worked out from the formula with another program. */
static void test_dropout(void **state) {
    (void)state;
    static const char *const want[2][2] = {
        {"x..........x..x...x.....x..x.xx.", ".xxxxx.x...x..x..x.....x.....xx."},
        {".....xx..x.x........x......x...x", "x..x.....xx..........xxx........"}};
    Bed b;
    bed_new(&b, "train", "sgd lr=0.1",
            "%20 = const {value=[3], shape=[32]} : always f32[32]\n"
            "%21 = dropout %20 {rate=0.25, key=9} : always f32[32]\n"
            "%22 = dropout %20 {rate=0.25, key=10} : always f32[32]\n");
    const IrBody *body = &ir_func(b.p, "train")->body;
    for (int step = 0; step < 2; step++) {
        bed_run(&b, "train");
        for (int key = 0; key < 2; key++) {
            const double *v = interp_value(b.it, body->nodes[body->n - 2 + key])->v;
            for (int i = 0; i < 32; i++)
                assert_true(fabs(v[i] - (want[step][key][i] == 'x' ? 0 : 4)) < 1e-12);
        }
    }
    bed_free(&b);
}

/* ---- updates ---- */

/* Runs two training steps and compares a weight (0: t, 1: w). */
static void expect_trained(const char *optimizer, const char *lines, int weight, const double *want, int n) {
    Bed b;
    bed_new(&b, "train", optimizer, lines);
    bed_run(&b, "train");
    bed_run(&b, "train");
    same_numbers(arena_printf(b.fx.arena, "%s\n%s", optimizer, lines), interp_weight(b.it, weight), want, n);
    bed_free(&b);
}

/* w = (1, -1), of which the first element has gradient 0.5 in both steps, the second none. */
static void expect_w(const char *optimizer, double w0, double w1) {
    expect_trained(optimizer,
                   "%20 = const {value=[0.5, 0], shape=[2]} : always f32[2]\n%21 = update %20 {w=w} : none\n",
                   1, (double[]){w0, w1}, 2);
}

static void test_optimizers(void **state) {
    (void)state;
    expect_w("sgd lr=0.1", 0.9, -1);
    expect_w("momentum lr=0.1 momentum=0.9", 1 - 0.05 - 0.1 * (0.45 + 0.5), -1);
    expect_w("adagrad lr=0.1 init=0.1", 1 - 0.05 / sqrt(0.35) - 0.05 / sqrt(0.6), -1);
    /* decayed before step 2: 0.35 * 0.5 */
    expect_w("adagrad_decay lr=0.1 init=0.1 rate=0.5 every=1",
             1 - 0.05 / sqrt(0.35) - 0.05 / sqrt(0.175 + 0.25), -1);
    expect_w("adagrad_decay lr=0.1 init=0.3 rate=0.5 every=1",
             1 - 0.05 / sqrt(0.55) - 0.05 / sqrt(0.3 + 0.25), -1);
    expect_w("adagrad_decay lr=0.1 init=0.1 rate=0.5 every=2", 1 - 0.05 / sqrt(0.35) - 0.05 / sqrt(0.6), -1);
    double s1 = 0.9 + 0.1 * 0.25, s2 = 0.9 * s1 + 0.1 * 0.25;
    expect_w("rmsprop lr=0.1 rho=0.9 eps=0.001", 1 - 0.05 / sqrt(s1 + 0.001) - 0.05 / sqrt(s2 + 0.001), -1);
    /* adam: m and v with a constant gradient, corrected, are the gradient and its square */
    expect_w("adam lr=0.1 beta1=0.9 beta2=0.999 eps=1e-15", 0.8, -1);
    expect_w("adam_async lr=0.1 beta1=0.9 beta2=0.999 eps=1e-15", 0.8, -1);
    double n1 = 0.1 + 0.25, n2 = n1 + 0.25, z1 = 0.5 - (sqrt(n1) - sqrt(0.1)) / 0.1 * 1;
    double f1 = -(z1 + 0.02) / (sqrt(n1) / 0.1 + 2 * 0.5); /* z1 is below zero */
    double z2 = z1 + 0.5 - (sqrt(n2) - sqrt(n1)) / 0.1 * f1;
    double f2 = fabs(z2) <= 0.02 ? 0 : ((z2 > 0 ? 0.02 : -0.02) - z2) / (sqrt(n2) / 0.1 + 2 * 0.5);
    expect_w("ftrl lr=0.1 init=0.1 l1_ftrl=0.02 l2_ftrl=0.5", f2, 0);
}

static void test_schedules(void **state) {
    (void)state;
    expect_w("sgd lr=exponential(0.1, 0.5, 2)", 1 - 0.05 * sqrt(0.5) - 0.05 * 0.5, -1);
    expect_w("sgd lr=cosine(0.1, 2, 0.02)", 1 - 0.5 * 0.06 - 0.5 * 0.02, -1);
    expect_w("sgd lr=piecewise([1], [0.1, 0.3])", 1 - 0.05 - 0.15, -1);
    expect_w("sgd lr=warmup(4, 0.1)", 1 - 0.05 / 4 - 0.05 / 2, -1);
}

static void test_updates(void **state) {
    (void)state;
    const char *scaled = "%20 = const {value=[0.5, 0], shape=[2]} : always f32[2]\n"
                         "%21 = const {value=[0.1], shape=[1]} : always f32[1]\n"
                         "%22 = update %20, %21 {w=w} : none\n";
    expect_trained("sgd lr=0.1", scaled, 1, (double[]){0.99, -1}, 2);
    const char *touched = "%20 = const {value=[1], shape=[3, 2]} : always f32[3,2]\n%21 = update_touched "
                          "%20, %3 {w=t, scaled=0} : none\n";
    expect_trained("sgd lr=0.1", touched, 0, (double[]){9.8, 10.8, 20, 21, 29.8, 30.8}, 6);
    const char *rows = "%20 = fetch %3 {w=t} : f32[@t,2]\n%21 = row_grad %3, %8 {w=t, kinds=[0]} : "
                       "f32[@t,2]\n%22 = update_rows %21 {w=t} : none\n";
    expect_trained("sgd lr=0.1", rows, 0, (double[]){9.8, 10.8, 20, 21, 29.9, 30.8}, 6);
    /* the table's row 1 is in no batch: adam leaves it, or, exact, moves it as long as its m isn't zero (it
     * is) */
    expect_trained("adam lr=0.1 beta1=0.9 beta2=0.999 eps=1e-15", rows, 0,
                   (double[]){9.8, 10.8, 20, 21, 29.8, 30.8}, 6);
    const char *stats =
        "%20 = bn_stats %8 : step f32[2,2]\n%21 = bn_update %20 {mean=mean, var=var, momentum=0.9} : none\n";
    expect_trained("sgd lr=0.1", stats, 2, (double[]){0.19 * -0.5 / 3, 0.19 * 2 / 3}, 2);
    double v = 5.25 / 3 - 0.25 / 9;
    expect_trained("sgd lr=0.1", stats, 3, (double[]){0.81 + 0.19 * v, 0.81 + 0.19 * (2.0 / 3 - 4.0 / 9)}, 2);
}

/* A row that was met once and then no more: exact adam goes on moving it by what is left of its m. */
static void test_exact_adam(void **state) {
    (void)state;
    const char *lines = "%20 = fetch %3 {w=t} : f32[@t,2]\n%21 = row_grad %3, %8 {w=t, kinds=[0]} : "
                        "f32[@t,2]\n%22 = update_rows %21 {w=t} : none\n";
    for (int exact = 0; exact < 2; exact++) {
        Bed b;
        bed_new(&b, "train",
                exact ? "adam lr=0.1 beta1=0.9 beta2=0.999 eps=1e-15 exact"
                      : "adam lr=0.1 beta1=0.9 beta2=0.999 eps=1e-15",
                lines);
        bed_run(&b, "train");
        b.batch.rows = 0; /* a step in which no id stands */
        bed_run(&b, "train");
        double m = 0.9 * 0.1, v = 0.999 * 0.001, alpha = 0.1 * sqrt(1 - 0.999 * 0.999) / (1 - 0.81);
        double w = 9.9 - (exact ? alpha * m / sqrt(v) : 0);
        same_numbers("exact adam", interp_weight(b.it, 0), &w, 1);
        bed_free(&b);
    }
}

/* Every op of a step sees the weights as they were before it, wherever the update stands; a loss that is not
 * finite leaves them alone. */
static void test_step(void **state) {
    (void)state;
    Bed b;
    bed_new(&b, "train", "sgd lr=0.1",
            "%20 = const {value=[1, 1], shape=[2]} : always f32[2]\n%21 = update %20 {w=w} : none\n"
            "%22 = neg %10 : always f32[2]\n");
    const IrBody *body = &ir_func(b.p, "train")->body;
    bed_run(&b, "train");
    same_numbers("after", interp_value(b.it, body->nodes[body->n - 1])->v, (double[]){-1, 1}, 2);
    same_numbers("weight", interp_weight(b.it, 1), (double[]){0.9, -1.1}, 2);
    bed_free(&b);
    bed_new(
        &b, "train", "sgd lr=0.1",
        "%20 = const {value=[1, 1], shape=[2]} : always f32[2]\n%21 = update %20 {w=w} : none\n"
        "%22 = log %0 : f32[1]\n%23 = mean_rows %22 : step f32[1]\n%24 = loss %23 {name=\"total\"} : none\n");
    bed_run(&b, "train");
    assert_true(isnan(interp_loss(b.it)));
    same_numbers("weight", interp_weight(b.it, 1), (double[]){1, -1}, 2);
    bed_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sources),      cmocka_unit_test(test_one_operand),
        cmocka_unit_test(test_two_operands), cmocka_unit_test(test_moves),
        cmocka_unit_test(test_reductions),   cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_products),     cmocka_unit_test(test_norms),
        cmocka_unit_test(test_tables),       cmocka_unit_test(test_regions_and_roots),
        cmocka_unit_test(test_dropout),      cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_schedules),    cmocka_unit_test(test_updates),
        cmocka_unit_test(test_exact_adam),   cmocka_unit_test(test_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
