/* GFLOP/s of the generated products beside the library's, on one core, at the sizes of the reference models.
 *
 *     OMP_NUM_THREADS=1 bench_products [rows] */
#include <dnnl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "tests/tools/emit_jit.h"

static const EmitJitShape shapes[] = {
    {1024, 396, 0}, {512, 1024, 0}, {256, 512, 0}, {64, 256, 0}, {512, 396, 0}, {128, 512, 0},
    {32, 128, 0},   {512, 12, 0},   {256, 512, 0}, {80, 144, 0}, {40, 80, 0},   {16, 64, 0},
    {396, 1024, 1}, {1024, 512, 1}, {512, 256, 1}, {144, 80, 1},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* other programs may be running */
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
    int shape;
    int64_t rows;
    float *a, *b, *c, *g;
    char *scratch;
} Case;

typedef void (*Work)(const Case *c);
static void run_gemm(const Case *c) {
    emit_jit_gemm(c->jit, c->shape)(c->c, c->a, c->b, c->scratch, 0, c->rows);
}
static void run_grad(const Case *c) {
    emit_jit_grad(c->jit, c->shape)(c->g, c->a, c->c, c->scratch, 0, emit_jit_tiles(c->jit, c->shape),
                                    c->rows);
}
static void run_library(const Case *c) {
    const EmitJitShape *s = &shapes[c->shape];
    for (int64_t i = 0; i < c->rows; i += 64) {
        int64_t m = c->rows - i < 64 ? c->rows - i : 64;
        dnnl_sgemm('N', s->tb ? 'T' : 'N', m, s->n, s->k, 1, c->a + i * s->k, s->k, c->b, s->tb ? s->k : s->n,
                   0, c->c + i * s->n, s->n);
    }
}
static void run_library_grad(const Case *c) {
    const EmitJitShape *s = &shapes[c->shape];
    dnnl_sgemm('T', 'N', s->k, s->n, c->rows, 1, c->a, s->k, c->c, s->n, 0, c->g, s->n);
}

/* Best of several runs of at least 20 ms in all. */
static double gflops(Work work, const Case *c) {
    const EmitJitShape *s = &shapes[c->shape];
    double best = 1e9, spent = 0;
    work(c);
    for (int i = 0; i < 1000 && (spent < 0.04 || i < 3); i++) {
        double t = now();
        work(c);
        t = now() - t;
        spent += t;
        if (t < best) best = t;
    }
    return 2e-9 * (double)c->rows * (double)s->n * (double)s->k / best;
}

int main(int argc, char **argv) {
    int64_t rows = argc > 1 ? atoll(argv[1]) : 512;
    EmitJit *jit = emit_jit_products(shapes, SHAPES, 0);
    printf("%8s %6s %6s %4s %10s %10s %10s %10s\n", "rows", "k", "n", "", "tile", "library", "tile dW",
           "library dW");
    for (int i = 0; i < SHAPES; i++) {
        const EmitJitShape *s = &shapes[i];
        size_t m = (size_t)rows, n = (size_t)s->n, k = (size_t)s->k;
        Case c = {jit, i, rows, numbers(m * k), numbers(n * k), numbers(m * n), numbers(n * k), NULL};
        c.scratch = (char *)numbers((size_t)emit_jit_scratch(jit, i) / 4 + 16);
        printf("%8ld %6ld %6ld %4s %10.1f %10.1f", (long)rows, (long)s->k, (long)s->n, s->tb ? "b^T" : "",
               gflops(run_gemm, &c), gflops(run_library, &c));
        printf(" %10.1f %10.1f\n", gflops(run_grad, &c), gflops(run_library_grad, &c));
        free(c.a), free(c.b), free(c.c), free(c.g), free(c.scratch);
    }
    emit_jit_free(jit);
    return 0;
}
