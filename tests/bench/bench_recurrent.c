/* Nanoseconds a position of a recurrent layer's kernels, on one core, beside what its products alone would
 * take at 85 GFLOP/s. Lists have 1 to 50 positions, all lengths as likely.
 *
 *     bench_recurrent [rows] */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "tests/tools/emit_jit.h"

static const double peak = 85; /* GFLOP/s that large products reach on the reference CPU */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* other programs may be running */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *numbers(size_t n, float scale) {
    float *v = aligned_alloc(64, (n * sizeof *v + 63) / 64 * 64);
    if (!v) abort();
    for (size_t i = 0; i < n; i++) v[i] = scale * ((float)((i * 2654435761u >> 8) % 1000) / 1000 - 0.5f);
    return v;
}

/* Best of several runs, in ns. */
static double best_of(EmitKernel f, RtStep *step, char *scratch) {
    double best = 1e18, spent = 0;
    f(step, 0, step->rows, scratch);
    for (int i = 0; i < 1000 && (spent < 0.3 || i < 5); i++) {
        double t = now();
        f(step, 0, step->rows, scratch);
        t = now() - t;
        spent += t;
        if (t < best) best = t;
    }
    return 1e9 * best;
}

static void measure(EmitJitLayer layer, uint32_t rows) {
    uint32_t *offsets = malloc(sizeof *offsets * (rows + 1u));
    offsets[0] = 0;
    for (uint32_t r = 0; r < rows; r++) offsets[r + 1] = offsets[r] + 1 + (r * 2654435761u >> 8) % 50;
    uint64_t cap = (offsets[rows] + 15u) / 16 * 16;
    size_t u = (size_t)layer.units;
    EmitJit *jit = emit_jit_layer(&layer, 0);
    char *arena = (char *)numbers((size_t)emit_jit_layer_offset(layer.units, LAYER_END) * cap, 1);
    float *weights[] = {numbers(u * 2 * u, 1), numbers(u * u, 1)};
    char *scratch = (char *)numbers((size_t)emit_jit_layer_scratch(jit) / 4, 0);
    RtStep step = {.rows = rows,
                   .offsets = (const uint32_t *[]){offsets},
                   .axis_arena = &arena,
                   .axis_cap = &cap,
                   .weights = weights};
    double bound = 6 * (double)(u * u) / peak, ns[2];
    for (int back = 0; back < 2; back++)
        ns[back] = best_of(emit_jit_layer_kernel(jit, back), &step, scratch) / offsets[rows];
    printf("%-6s %5ld %6u %9u %8.1f %8.1f %8.1f %6.2f %6.2f\n", layer.scored ? "augru" : "gru",
           (long)layer.units, rows, offsets[rows], bound, ns[0], ns[1], bound / ns[0], bound / ns[1]);
    emit_jit_free(jit);
    free(offsets), free(arena), free(weights[0]), free(weights[1]), free(scratch);
}

int main(int argc, char **argv) {
    static const EmitJitLayer layers[] = {{36, 0}, {36, 1}, {16, 0}, {64, 0}, {128, 0}};
    uint32_t rows = argc > 1 ? (uint32_t)atoi(argv[1]) : 512;
    printf("%-6s %5s %6s %9s %8s %8s %8s   of the bound\n", "", "units", "rows", "positions", "bound",
           "forward", "backward");
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) measure(layers[i], rows);
    return 0;
}
