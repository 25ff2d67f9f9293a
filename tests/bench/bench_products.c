/* GFLOP/s of the generated products beside the library's (rt_gemm's oneDNN, cut as the schedule cuts it), on
 * one core, for the layers of the six reference models: y = x W, its gradients dx = dy W^T and dW = x^T dy.
 *
 *     OMP_NUM_THREADS=1 bench_products [rows [rounds [model]]]
 *
 * Weights are packed beforehand, as once a step, and products called on 64 rows at a time, as a step calls
 * them. All kinds and layers are run in turn, round after round, so that what else the machine does falls on
 * all of them alike; time is this thread's CPU time; a figure is the median over rounds. The first line is
 * what the core gives for multiply-adds in registers, measured in the same rounds. */
#include <dnnl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "backend/tune.h"
#include "tests/tools/emit_jit.h"

static const struct {
    int64_t k, n;
    const char *models;
} layers[] = {
    {396, 1024, "wdl"},       {1024, 512, "wdl"},    {512, 256, "wdl dlrm"}, {256, 64, "wdl dlrm"},
    {396, 512, "deepfm"},     {512, 128, "deepfm"},  {128, 32, "deepfm"},    {49, 128, "deepfm"},
    {128, 64, "deepfm mmoe"}, {316, 512, "dlrm"},    {12, 512, "dlrm"},      {64, 16, "dlrm"},
    {272, 256, "mmoe"},       {256, 192, "mmoe"},    {192, 128, "mmoe"},     {64, 256, "mmoe"},
    {162, 200, "din dien"},   {200, 80, "din dien"}, {72, 80, "din dien"},   {36, 80, "din dien"},
    {80, 40, "din dien"},     {36, 36, "din dien"},  {36, 108, "dien"},      {72, 100, "dien"},
    {100, 50, "dien"},
};
enum { LAYERS = sizeof layers / sizeof *layers };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *numbers(size_t n) {
    float *v = aligned_alloc(64, (n * sizeof *v + 63) / 64 * 64);
    if (!v) abort();
    for (size_t i = 0; i < n; i++) v[i] = (float)((i * 2654435761u >> 8) % 1000) / 1000 - 0.5f;
    return v;
}

typedef struct {
    EmitJit *jit;
    int64_t rows, k, n;
    float *x, *dx, *w, *dw, *y; /* y stands for dy too */
    char *scratch;
    float *packed, *packed_back;
    EmitGemmFn forward, backward;
    EmitGradFn grad;
    int64_t tiles;
} Case;

enum { BLOCK = 64 }; /* rows of a product, or of a weight gradient, that one call makes in a step */
static int64_t at_most(int64_t a, int64_t most) { return a < most ? a : most; }
static void by_blocks(EmitGemmFn f, const Case *c, float *out, const float *in, const float *packed) {
    for (int64_t i = 0; i < c->rows; i += BLOCK)
        f(out, in, packed, c->scratch, i, i + at_most(c->rows - i, BLOCK));
}
static void forward(const Case *c) { by_blocks(c->forward, c, c->y, c->x, c->packed); }
static void backward(const Case *c) { by_blocks(c->backward, c, c->dx, c->y, c->packed_back); }
static void grad(const Case *c) { c->grad(c->dw, c->x, c->y, c->scratch, 0, c->tiles, c->rows); }

static void library_forward(const Case *c) {
    for (int64_t i = 0; i < c->rows; i += BLOCK)
        dnnl_sgemm('N', 'N', at_most(c->rows - i, BLOCK), c->n, c->k, 1, c->x + i * c->k, c->k, c->w, c->n, 0,
                   c->y + i * c->n, c->n);
}
static void library_backward(const Case *c) {
    for (int64_t i = 0; i < c->rows; i += BLOCK)
        dnnl_sgemm('N', 'T', at_most(c->rows - i, BLOCK), c->k, c->n, 1, c->y + i * c->n, c->n, c->w, c->n, 0,
                   c->dx + i * c->k, c->k);
}
static void library_grad(const Case *c) {
    for (int64_t i = 0; i < c->k; i += BLOCK)
        dnnl_sgemm('T', 'N', at_most(c->k - i, BLOCK), c->n, c->rows, 1, c->x + i, c->k, c->y, c->n, 0,
                   c->dw + i * c->n, c->n);
}

static void (*const works[])(const Case *c) = {forward,         backward,         grad,
                                               library_forward, library_backward, library_grad};
enum { WORKS = sizeof works / sizeof *works };

/* At least a millisecond of one kind of work. */
static double gflops(int work, const Case *c) {
    double flops = 2 * (double)c->rows * (double)c->n * (double)c->k;
    int times = 1 + (int)(50e6 / flops);
    works[work](c); /* its operands, not its neighbour's, are in cache */
    double t = now();
    for (int i = 0; i < times; i++) works[work](c);
    return 1e-9 * times * flops / (now() - t);
}

/* Twelve chains of multiply-adds, as many sums as a tile of 16 registers has. */
static double peak(void) {
    enum { CHAINS = 12, TIMES = 200000 };
    double t = now();
    __asm__ volatile("vzeroall" ::
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                           "xmm10", "xmm11", "xmm12");
#define CHAIN(R) "vfmadd231ps %%ymm12, %%ymm12, %%ymm" #R "\n"
    for (int i = 0; i < TIMES; i++)
        __asm__ volatile(CHAIN(0) CHAIN(1) CHAIN(2) CHAIN(3) CHAIN(4) CHAIN(5) CHAIN(6) CHAIN(7) CHAIN(8)
                             CHAIN(9) CHAIN(10) CHAIN(11)::
                                 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                                   "xmm9", "xmm10", "xmm11");
#undef CHAIN
    __asm__ volatile("vzeroupper" ::: "memory");
    return 1e-9 * 16 * CHAINS * TIMES / (now() - t);
}

static void open_case(Case *c, EmitJit *jit, int layer, int64_t rows) {
    size_t m = (size_t)rows, k = (size_t)layers[layer].k, n = (size_t)layers[layer].n;
    int there = 2 * layer, back = there + 1;
    *c = (Case){.jit = jit, .rows = rows, .k = (int64_t)k, .n = (int64_t)n};
    c->x = numbers(m * k), c->dx = numbers(m * k), c->y = numbers(m * n);
    c->w = numbers(k * n), c->dw = numbers(k * n);
    int64_t a = emit_jit_scratch(jit, there), b = emit_jit_scratch(jit, back);
    c->scratch = (char *)numbers((size_t)(a > b ? a : b) / 4 + 16);
    c->packed = numbers((size_t)a / 4 + 16), c->packed_back = numbers((size_t)b / 4 + 16);
    emit_jit_pack(jit, there)(c->packed, c->w), emit_jit_pack(jit, back)(c->packed_back, c->w);
    c->forward = emit_jit_packed(jit, there), c->backward = emit_jit_packed(jit, back);
    c->grad = emit_jit_grad(jit, there);
    c->tiles = emit_jit_tiles(jit, there);
}

int main(int argc, char **argv) {
    int64_t rows = argc > 1 ? atoll(argv[1]) : 512;
    int rounds = argc > 2 ? atoi(argv[2]) : 15;
    const char *model = argc > 3 ? argv[3] : NULL; /* only its layers */
    if (rows < 1 || rounds < 1) {
        fprintf(stderr, "usage: bench_products [rows [rounds [model]]]\n");
        return 2;
    }
    EmitJitShape shapes[2 * LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        shapes[2 * i] = (EmitJitShape){.n = layers[i].n, .k = layers[i].k};
        shapes[2 * i + 1] = (EmitJitShape){.n = layers[i].k, .k = layers[i].n, .tb = 1};
    }
    EmitJit *jit = emit_jit_products(shapes, 2 * LAYERS, 0);
    static Case c[LAYERS];
    double *figure = calloc((size_t)rounds * (LAYERS * WORKS + 1), sizeof *figure), *top = figure;
    if (!figure) abort();
    for (int i = 0; i < LAYERS; i++) open_case(&c[i], jit, i, rows);
    for (int r = 0; r < rounds; r++) {
        top[r] = peak();
        for (int i = 0; i < LAYERS; i++)
            for (int w = 0; w < WORKS && (!model || strstr(layers[i].models, model)); w++)
                figure[(1 + i * WORKS + w) * rounds + r] = gflops(w, &c[i]);
    }
    printf("multiply-adds in registers: %.1f GFLOP/s; %ld rows, medians of %d rounds\n\n",
           tune_median(top, rounds), (long)rows, rounds);
    printf("| x W | models | tile | dx | dW | library | dx | dW |\n|---|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < LAYERS; i++) {
        bool shown = !model || strstr(layers[i].models, model);
        if (shown) printf("| %ld × %ld | %s |", (long)layers[i].k, (long)layers[i].n, layers[i].models);
        for (int w = 0; w < WORKS && shown; w++)
            printf(" %.0f |", tune_median(figure + (1 + i * WORKS + w) * rounds, rounds));
        if (shown) printf("\n");
        free(c[i].x), free(c[i].dx), free(c[i].w), free(c[i].dw), free(c[i].y), free(c[i].scratch);
        free(c[i].packed), free(c[i].packed_back);
    }
    free(figure);
    emit_jit_free(jit);
    return 0;
}
