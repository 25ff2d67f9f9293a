/* How fast one core is, for predicted times: multiply-adds in registers, bytes in its own cache, bytes in
 * memory. Measured once for each CPU (about 50 ms) and kept in the user's cache folder,
 *
 *     $XDG_CACHE_HOME/ctrc/rates-znver3-8.json, else ~/.cache/ctrc/…    (8: floats in a vector)
 *
 * so that a plan is the same text each time; delete the file to measure anew. Where nothing can be kept, and
 * for another machine's --march, a prediction uses given numbers and says so. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "backend/kept.h"
#include "backend/plan_facts.h"

/* A Zen 3 core at 3.5 GHz; with vectors of 16 floats one with two such units at 3 GHz. */
static PlanRates given(int vector_floats) {
    const char *source = "given for a core like Zen 3, not measured here";
    if (vector_floats == 16)
        return (PlanRates){190e9, 60e9, 12e9, "given for a core with AVX-512, not measured here"};
    return (PlanRates){110e9, 50e9, 12e9, source};
}

/* ---- measuring ---- */

enum { SUMS = 12, CACHE_FLOATS = 1 << 14, MEMORY_FLOATS = 1 << 22 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* other programs may be running */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* SUMS independent chains of multiply-adds: enough to hide an add's latency on two units. Returns a sum, so
 * that nothing is optimised away. A macro, because a vector's length is part of the function's target. */
#define MULTIPLY_ADDS(NAME, FLOATS, TARGET)                                                                  \
    __attribute__((target(TARGET))) static float NAME(int64_t times, float x) {                              \
        typedef float Vector __attribute__((vector_size(4 * FLOATS)));                                       \
        Vector sum[SUMS], by = {0};                                                                          \
        by += x;                                                                                             \
        for (int i = 0; i < SUMS; i++) sum[i] = by * (float)i;                                               \
        for (int64_t k = 0; k < times; k++)                                                                  \
            for (int i = 0; i < SUMS; i++) sum[i] = sum[i] * by + by;                                        \
        float total = 0;                                                                                     \
        for (int i = 0; i < SUMS; i++) total += sum[i][0];                                                   \
        return total;                                                                                        \
    }
MULTIPLY_ADDS(multiply_adds_8, 8, "avx2,fma")
MULTIPLY_ADDS(multiply_adds_16, 16, "avx512f,prefer-vector-width=512")

/* c = a + b over n floats, as often as asked. */
__attribute__((target("avx2"))) static void add_arrays(const float *a, const float *b, float *c, int64_t n,
                                                       int64_t times) {
    typedef float Vector __attribute__((vector_size(32)));
    for (int64_t k = 0; k < times; k++) {
        for (int64_t i = 0; i < n; i += 8)
            *(Vector *)(c + i) = *(const Vector *)(a + i) + *(const Vector *)(b + i);
        __asm__ volatile("" : : "r"(c) : "memory");
    }
}

static double best_flops(int vector_floats) {
    enum { TIMES = 100000 };
    double best = 0;
    volatile float sink;
    for (int run = 0; run < 5; run++) {
        double start = now();
        sink = vector_floats == 16 ? multiply_adds_16(TIMES, 0.5f) : multiply_adds_8(TIMES, 0.5f);
        double rate = 2.0 * SUMS * vector_floats * TIMES / (now() - start);
        best = rate > best ? rate : best;
    }
    (void)sink;
    return best;
}

static double best_bytes(float *block, int64_t floats, int64_t times) {
    double best = 0;
    for (int run = 0; run < 5; run++) {
        double start = now();
        add_arrays(block, block + floats, block + 2 * floats, floats, times);
        double rate = 12.0 * (double)floats * (double)times / (now() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

static bool measure(int vector_floats, PlanRates *out) {
    float *block = aligned_alloc(64, (size_t)3 * MEMORY_FLOATS * sizeof *block);
    if (!block) return false;
    memset(block, 0, (size_t)3 * MEMORY_FLOATS * sizeof *block);
    out->flops = best_flops(vector_floats);
    out->cache_bytes = best_bytes(block, CACHE_FLOATS, 20);
    out->memory_bytes = best_bytes(block, MEMORY_FLOATS, 1);
    free(block);
    return true;
}

/* ---- keeping ---- */

static bool read_rates(const char *path, PlanRates *out) {
    json_t *j = json_load_file(path, 0, NULL);
    bool ok = j && json_unpack(j, "{s:F, s:F, s:F}", "flops", &out->flops, "cache_bytes", &out->cache_bytes,
                               "memory_bytes", &out->memory_bytes) == 0;
    json_decref(j);
    return ok && out->flops > 0 && out->cache_bytes > 0 && out->memory_bytes > 0;
}

static bool write_rates(Arena *a, const char *path, const PlanRates *r) {
    return kept_write(a, path,
                      json_pack("{s:f, s:f, s:f}", "flops", r->flops, "cache_bytes", r->cache_bytes,
                                "memory_bytes", r->memory_bytes));
}

PlanRates plan_rates(Arena *a, const EmitTarget *t, const char *march) {
    PlanRates r;
    const char *name = arena_printf(a, "rates-%s-%d.json", t->cpu, t->pass.vector_floats);
    const char *path = strcmp(march, "native") ? NULL : kept_path(a, name, true);
    if (!path) return given(t->pass.vector_floats);
    if (!read_rates(path, &r) &&
        (!measure(t->pass.vector_floats, &r) || !write_rates(a, path, &r) || !read_rates(path, &r)))
        return given(t->pass.vector_floats);
    r.source = arena_printf(a, "measured on this %s, kept in %s", t->cpu, path);
    return r;
}

/* ---- prediction ---- */

/* Shares of the multiply-add rate that kernels reach: products as measured in README.md; loops do an
 * operation at a time, and few of theirs are multiply-adds. */
static double share(const char *kernel) {
    if (!strcmp(kernel, "tile")) return 0.8;
    if (!strcmp(kernel, "vdpbf16ps")) return 2 * 0.8;  /* two terms an instruction; not measured */
    if (!strcmp(kernel, "tdpbf16ps")) return 16 * 0.4; /* a tile of products in 16 cycles; not measured */
    if (!strcmp(kernel, "bf16 pairs")) return 0.8 / 20;
    if (!strcmp(kernel, "library")) return 0.65;
    if (!strcmp(kernel, "recurrent")) return 0.4;
    return 0.25;
}

double plan_seconds(const PlanRates *r, const PassTarget *t, const IrNode *n, IrCost c) {
    double compute = c.flops / (r->flops * share(plan_kernel(t, n)));
    double move = c.bytes / (c.bytes <= (double)t->l2_bytes ? r->cache_bytes : r->memory_bytes);
    return compute > move ? compute : move;
}
