/* What this machine can do, for a step's arithmetic and for its rows: multiply-adds in registers, the best
 * fp32 and bf16 products of oneDNN and of our own tiles, sequential reading and writing, random reads of 64
 * bytes.
 *
 *     bench_machine [--quick] [--mb N] [--json FILE]
 *
 * Each is measured on one thread and on all CPUs at once (each thread its own operands; memory is read by all
 * of them, and written in shares). A figure is the best of some repetitions by the clock, all threads begun
 * together: a bound, so other work on the machine may only lower it. N: megabytes of the memory (default
 * 1024), to be much more than the last cache. Prints a table; JSON:
 * {"NAME":{"unit":"GFLOP/s","one":…,"all":…},…}. */
#include <dlfcn.h>
#include <dnnl.h>
#include <emmintrin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "runtime/pool.h"
#include "tests/tools/emit_jit.h"

enum { LINE = 64, LINE_WORDS = 8, BLOCK = 64 /* rows of a product that one call makes in a step */ };

static double seconds_each = 0.1;
static int repeats = 7;
static int cpus;
static volatile uint64_t sink; /* so that what was read counts as used */
static char *memory;
static size_t memory_bytes;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- threads that begin together ---- */

/* One piece of work of thread `thread`; returns how much was done (FLOPs, bytes, reads). */
typedef double (*Work)(int thread, int threads, void *arg);
typedef struct {
    Work work;
    void *arg;
    int threads, times;
    atomic_int arrived;
    atomic_llong first, last; /* ns: the first to begin, the last to end */
} Round;
typedef struct {
    Round *r;
    int thread;
    double done;
} Runner;

static void one_thread(void) { /* oneDNN's, of this thread */
    void (*set)(int);
    *(void **)&set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (set) set(1);
}

static void *runner(void *arg) {
    Runner *u = arg;
    Round *r = u->r;
    one_thread();
    r->work(u->thread, r->threads, r->arg); /* operands and code are at hand */
    atomic_fetch_add(&r->arrived, 1);
    while (atomic_load(&r->arrived) < r->threads) _mm_pause();
    long long from = (long long)(now() * 1e9);
    for (int i = 0; i < r->times; i++) u->done += r->work(u->thread, r->threads, r->arg);
    long long to = (long long)(now() * 1e9), seen = atomic_load(&r->first);
    while (from < seen && !atomic_compare_exchange_weak(&r->first, &seen, from))
        ;
    seen = atomic_load(&r->last);
    while (to > seen && !atomic_compare_exchange_weak(&r->last, &seen, to))
        ;
    return NULL;
}

static double round_of(Work work, void *arg, int threads, int times, double *took) {
    Round r = {.work = work, .arg = arg, .threads = threads, .times = times, .first = INT64_MAX};
    Runner u[threads];
    pthread_t id[threads];
    double done = 0;
    for (int i = 0; i < threads; i++) {
        u[i] = (Runner){.r = &r, .thread = i};
        if (pthread_create(&id[i], NULL, runner, &u[i])) abort();
    }
    for (int i = 0; i < threads; i++) pthread_join(id[i], NULL), done += u[i].done;
    *took = 1e-9 * (double)(atomic_load(&r.last) - atomic_load(&r.first));
    return done / *took;
}

/* The best of `repeats` rounds, each of about seconds_each. */
static double best_rate(Work work, void *arg, int threads) {
    double took, best = round_of(work, arg, threads, 1, &took);
    int times = took > 0 ? (int)(seconds_each / took) : 1000;
    for (int i = 0; i < repeats; i++) {
        double rate = round_of(work, arg, threads, times < 1 ? 1 : times > 1000000 ? 1000000 : times, &took);
        if (rate > best) best = rate;
    }
    return best;
}

/* ---- products ---- */

/* Twelve chains of multiply-adds, as many sums as a tile of 16 registers has. */
#define CHAINS(W)                                                                                            \
    CHAIN(W, 0)                                                                                              \
    CHAIN(W, 1) CHAIN(W, 2) CHAIN(W, 3) CHAIN(W, 4) CHAIN(W, 5) CHAIN(W, 6) CHAIN(W, 7) CHAIN(W, 8)          \
        CHAIN(W, 9) CHAIN(W, 10) CHAIN(W, 11)
#define CHAIN(W, R) "vfmadd231ps %%" W "mm12, %%" W "mm12, %%" W "mm" #R "\n"
enum { CHAINS_N = 12, CHAIN_TIMES = 20000 };

static double multiply_adds(int thread, int threads, void *arg) {
    (void)thread, (void)threads;
    bool wide = *(bool *)arg;
    __asm__ volatile("vzeroall" ::
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                           "xmm10", "xmm11", "xmm12");
    for (int i = 0; i < CHAIN_TIMES && wide; i++)
        __asm__ volatile(CHAINS("z")::
                             : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                               "xmm10", "xmm11");
    for (int i = 0; i < CHAIN_TIMES && !wide; i++)
        __asm__ volatile(CHAINS("y")::
                             : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                               "xmm10", "xmm11");
    __asm__ volatile("vzeroupper" ::: "memory");
    return 2.0 * (wide ? 16 : 8) * CHAINS_N * CHAIN_TIMES;
}

/* y[m,n] = x[m,k] w[k,n]: layers of the reference models, and squares that a library is at home with. */
static const struct {
    int64_t m, k, n;
} shapes[] = {{512, 396, 1024}, {512, 1024, 512}, {512, 128, 64},
              {512, 200, 80},   {256, 256, 256},  {1024, 1024, 1024}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct {
    int shape;
    EmitGemmFn tile;
    dnnl_primitive_t bf16; /* oneDNN's product of bf16, float sums */
    dnnl_stream_t stream;
    struct Operands {
        float *x, *w, *y, *packed;
        char *scratch;
        dnnl_memory_t memory[3];
    } * of; /* [thread] */
} Product;

static double flops(int shape) {
    return 2.0 * (double)shapes[shape].m * (double)shapes[shape].k * (double)shapes[shape].n;
}

static double library(int thread, int threads, void *arg) {
    (void)threads;
    Product *p = arg;
    struct Operands *o = &p->of[thread];
    int64_t m = shapes[p->shape].m, k = shapes[p->shape].k, n = shapes[p->shape].n;
    dnnl_sgemm('N', 'N', m, n, k, 1, o->x, k, o->w, n, 0, o->y, n);
    return flops(p->shape);
}

static double tiles(int thread, int threads, void *arg) {
    (void)threads;
    Product *p = arg;
    struct Operands *o = &p->of[thread];
    for (int64_t i = 0; i < shapes[p->shape].m; i += BLOCK)
        p->tile(o->y, o->x, o->packed, o->scratch, i, i + BLOCK); /* all shapes have whole blocks */
    return flops(p->shape);
}

static double library_bf16(int thread, int threads, void *arg) {
    (void)threads;
    Product *p = arg;
    dnnl_memory_t *o = p->of[thread].memory;
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, o[0]}, {DNNL_ARG_WEIGHTS, o[1]}, {DNNL_ARG_DST, o[2]}};
    if (dnnl_primitive_execute(p->bf16, p->stream, 3, args) != dnnl_success) abort();
    dnnl_stream_wait(p->stream);
    return flops(p->shape);
}

static float *numbers(size_t n) {
    float *v = aligned_alloc(64, (n * sizeof *v + 63) / 64 * 64);
    if (!v) abort();
    for (size_t i = 0; i < n; i++) v[i] = (float)((i * 2654435761u >> 8) % 1000) / 1000 - 0.5f;
    return v;
}

static void must(dnnl_status_t s, const char *what) {
    if (s == dnnl_success) return;
    fprintf(stderr, "bench_machine: oneDNN refused %s (status %d)\n", what, (int)s);
    exit(1);
}

/* A product of bf16 by the library: one primitive, and memory over each thread's operands (read as bf16). */
static void open_bf16(Product *p, dnnl_engine_t engine) {
    dnnl_dim_t m = shapes[p->shape].m, k = shapes[p->shape].k, n = shapes[p->shape].n;
    dnnl_memory_desc_t d[3];
    dnnl_memory_desc_init_by_tag(&d[0], 2, (dnnl_dims_t){m, k}, dnnl_bf16, dnnl_ab);
    dnnl_memory_desc_init_by_tag(&d[1], 2, (dnnl_dims_t){k, n}, dnnl_bf16, dnnl_ab);
    dnnl_memory_desc_init_by_tag(&d[2], 2, (dnnl_dims_t){m, n}, dnnl_f32, dnnl_ab);
    dnnl_matmul_desc_t op;
    dnnl_primitive_desc_t desc;
    must(dnnl_matmul_desc_init(&op, &d[0], &d[1], NULL, &d[2]), "a product of bf16");
    must(dnnl_primitive_desc_create(&desc, &op, NULL, engine, NULL), "a product of bf16");
    must(dnnl_primitive_create(&p->bf16, desc), "a product of bf16");
    must(dnnl_stream_create(&p->stream, engine, dnnl_stream_default_flags), "a stream");
    dnnl_primitive_desc_destroy(desc);
    for (int t = 0; t < cpus; t++) {
        float *data[] = {p->of[t].x, p->of[t].w, p->of[t].y};
        for (int i = 0; i < 3; i++)
            must(dnnl_memory_create(&p->of[t].memory[i], &d[i], engine, data[i]), "memory");
    }
}

static void open_product(Product *p, EmitJit *jit, int shape) {
    size_t m = (size_t)shapes[shape].m, k = (size_t)shapes[shape].k, n = (size_t)shapes[shape].n;
    size_t scratch = (size_t)emit_jit_scratch(jit, shape) / 4 + 16;
    *p = (Product){.shape = shape, .tile = emit_jit_packed(jit, shape)};
    p->of = calloc((size_t)cpus, sizeof *p->of);
    if (!p->of) abort();
    for (int t = 0; t < cpus; t++) {
        struct Operands *o = &p->of[t];
        o->x = numbers(m * k), o->w = numbers(k * n), o->y = numbers(m * n);
        o->scratch = (char *)numbers(scratch), o->packed = numbers(scratch);
        emit_jit_pack(jit, shape)(o->packed, o->w);
    }
}

static void close_product(Product *p) {
    for (int t = 0; t < cpus; t++) {
        struct Operands *o = &p->of[t];
        for (int i = 0; p->bf16 && i < 3; i++) dnnl_memory_destroy(o->memory[i]);
        free(o->x), free(o->w), free(o->y), free(o->scratch), free(o->packed);
    }
    if (p->bf16) dnnl_primitive_destroy(p->bf16), dnnl_stream_destroy(p->stream);
    free(p->of);
}

/* ---- memory ---- */

/* A thread's share of whole pages. */
static char *share(int thread, int threads, size_t *bytes) {
    *bytes = memory_bytes / (size_t)threads / 4096 * 4096;
    return memory + (size_t)thread * *bytes;
}

static double sequential_read(int thread, int threads, void *arg) {
    (void)arg;
    size_t n;
    const __m128i *p = (const __m128i *)share(thread, threads, &n), *end = p + n / sizeof *p;
    __m128i a = _mm_setzero_si128(), b = a, c = a, d = a;
    for (; p < end; p += 4) {
        a = _mm_xor_si128(a, p[0]), b = _mm_xor_si128(b, p[1]);
        c = _mm_xor_si128(c, p[2]), d = _mm_xor_si128(d, p[3]);
    }
    sink = (uint64_t)_mm_cvtsi128_si64(_mm_xor_si128(_mm_xor_si128(a, b), _mm_xor_si128(c, d)));
    return (double)n;
}

/* Plain stores, which read a line before they write it; streaming ones, which don't. */
static double sequential_write(int thread, int threads, void *arg) {
    size_t n;
    __m128i *p = (__m128i *)share(thread, threads, &n), *end = p + n / sizeof *p;
    __m128i v = _mm_set1_epi32(thread);
    if (*(bool *)arg) {
        for (; p < end; p += 4)
            _mm_stream_si128(p, v), _mm_stream_si128(p + 1, v), _mm_stream_si128(p + 2, v),
                _mm_stream_si128(p + 3, v);
        _mm_sfence();
    } else
        for (; p < end; p += 4) {
            _mm_store_si128(p, v), _mm_store_si128(p + 1, v), _mm_store_si128(p + 2, v),
                _mm_store_si128(p + 3, v);
            __asm__ volatile("" ::: "memory"); /* not to become a call that streams */
        }
    return (double)n;
}

enum { READS = 1 << 18 };
static uint64_t place(uint64_t i) { /* of the i-th read: any line, as likely as any other */
    i *= 0x9e3779b97f4a7c15u;
    i ^= i >> 29;
    i *= 0xbf58476d1ce4e5b9u;
    return (uint64_t)((unsigned __int128)(i ^ i >> 32) * (memory_bytes / LINE) >> 64);
}

/* All 64 bytes of lines whose places don't depend on each other; `ahead`: how many of them are prefetched. */
static double random_read(int thread, int threads, void *arg) {
    static _Atomic uint64_t next;
    const uint64_t ahead = *(const uint64_t *)arg, from = atomic_fetch_add(&next, READS);
    const uint64_t *words = (const uint64_t *)memory;
    uint64_t sum = 0;
    (void)thread, (void)threads;
    for (uint64_t i = from; i < from + READS; i++) {
        if (ahead) __builtin_prefetch(words + LINE_WORDS * place(i + ahead));
        const __m128i *p = (const __m128i *)(words + LINE_WORDS * place(i));
        sum +=
            (uint64_t)_mm_cvtsi128_si64(_mm_xor_si128(_mm_xor_si128(p[0], p[1]), _mm_xor_si128(p[2], p[3])));
    }
    sink = sum;
    return READS;
}

/* Each place follows from what was read before: how long one read takes. */
static double chained_read(int thread, int threads, void *arg) {
    (void)arg;
    const uint64_t *words = (const uint64_t *)memory;
    uint64_t at = (uint64_t)(thread + 1) * 0x2545f4914f6cdd1du;
    for (int i = 0; i < READS / 8; i++) at = at * 6364136223846793005u + 1 + words[LINE_WORDS * place(at)];
    (void)threads;
    sink = at;
    return READS / 8;
}

static bool open_memory(size_t bytes) {
    memory_bytes = bytes;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    madvise(memory, bytes, MADV_HUGEPAGE); /* as the runtime's large tables */
    memset(memory, 1, bytes);
    return true;
}

/* Megabytes of huge pages that this program has. */
static long huge_mb(void) {
    char line[256];
    long kb = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f)) sscanf(line, "AnonHugePages: %ld kB", &kb);
    if (f) fclose(f);
    return kb / 1024;
}

/* ---- the table ---- */

typedef struct {
    const char *name, *title, *unit;
    double one, all; /* 0: there is none on this CPU */
} Figure;
enum { FMA, LIBRARY, TILES, BF16, BF16_TILES, READ, WRITE, STREAM, RANDOM, PREFETCH, CHAINED, FIGURES };
static Figure figures[FIGURES] = {
    {"fp32_registers", "fp32 multiply-adds in registers", "GFLOP/s", 0, 0},
    {"fp32_library", "fp32 products, oneDNN, best shape", "GFLOP/s", 0, 0},
    {"fp32_tiles", "fp32 products, our tiles, best shape", "GFLOP/s", 0, 0},
    {"bf16_library", "bf16 products, oneDNN, best shape", "GFLOP/s", 0, 0},
    {"bf16_tiles", "bf16 products, our tiles, best shape", "GFLOP/s", 0, 0},
    {"read", "sequential read", "GB/s", 0, 0},
    {"write", "sequential write, plain stores", "GB/s", 0, 0},
    {"write_streaming", "sequential write, streaming stores", "GB/s", 0, 0},
    {"random_read", "random 64-byte reads, independent", "M/s", 0, 0},
    {"random_read_prefetch", "random 64-byte reads, prefetched 16 ahead", "M/s", 0, 0},
    {"random_read_chained", "random 64-byte reads, each after the one before", "M/s", 0, 0}};

static void both(int figure, Work work, void *arg, double scale) {
    double one = scale * best_rate(work, arg, 1), all = cpus > 1 ? scale * best_rate(work, arg, cpus) : one;
    if (one > figures[figure].one) figures[figure].one = one;
    if (all > figures[figure].all) figures[figure].all = all;
}

static void products(bool has_bf16) {
    EmitJitShape shape[SHAPES];
    for (int i = 0; i < SHAPES; i++) shape[i] = (EmitJitShape){.n = shapes[i].n, .k = shapes[i].k};
    EmitJit *jit = emit_jit_products(shape, SHAPES, 0);
    dnnl_engine_t engine = NULL;
    if (has_bf16) must(dnnl_engine_create(&engine, dnnl_cpu, 0), "an engine");
    for (int i = 0; i < SHAPES; i++) {
        Product p;
        open_product(&p, jit, i);
        both(LIBRARY, library, &p, 1e-9);
        both(TILES, tiles, &p, 1e-9);
        if (has_bf16) open_bf16(&p, engine);
        if (has_bf16) both(BF16, library_bf16, &p, 1e-9);
        close_product(&p);
    }
    if (engine) dnnl_engine_destroy(engine);
    emit_jit_free(jit);
}

static void print(bool has_bf16) {
    printf("%d CPUs; memory %zu MB, %ld MB of it in huge pages; each the best of %d times %.2f s\n\n", cpus,
           memory_bytes >> 20, huge_mb(), repeats + 1, seconds_each);
    printf("| rate | unit | one core | all cores |\n|---|---|---|---|\n");
    for (int i = 0; i < FIGURES; i++) {
        const Figure *f = &figures[i];
        if (f->one)
            printf("| %s | %s | %.1f | %.1f |\n", f->title, f->unit, f->one, f->all);
        else
            printf("| %s | %s | – | – |\n", f->title, f->unit);
    }
    if (!has_bf16) printf("\nThis CPU has no bf16 products (avx512_bf16).\n");
    if (has_bf16) printf("\nOur tiles multiply bf16 as fp32: there are no bf16 tiles to measure.\n");
}

static bool write_json(const char *path) {
    FILE *f = fopen(path, "w");
    if (!f) return false;
    const char *comma = "";
    fprintf(f, "{");
    for (int i = 0; i < FIGURES; i++) {
        if (!figures[i].one) continue;
        fprintf(f, "%s\"%s\":{\"unit\":\"%s\",\"one\":%.6g,\"all\":%.6g}", comma, figures[i].name,
                figures[i].unit, figures[i].one, figures[i].all);
        comma = ",\n";
    }
    fprintf(f, "}\n");
    return !fclose(f);
}

int main(int argc, char **argv) {
    size_t mb = 1024;
    const char *json = NULL;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--quick"))
            repeats = 2, seconds_each = 0.03;
        else if (!strcmp(argv[i], "--mb") && i + 1 < argc && atol(argv[i + 1]) > 0)
            mb = (size_t)atol(argv[++i]);
        else if (!strcmp(argv[i], "--json") && i + 1 < argc)
            json = argv[++i];
        else
            return fprintf(stderr, "usage: bench_machine [--quick] [--mb N] [--json FILE]\n"), 2;
    cpus = (int)rt_cpus();
    if (!open_memory(mb << 20)) return perror("bench_machine: no memory"), 1;
    __builtin_cpu_init();
    bool has_bf16 = __builtin_cpu_supports("avx512bf16"), wide = __builtin_cpu_supports("avx512f"),
         no = false, yes = true;
    if (!__builtin_cpu_supports("fma")) return fprintf(stderr, "bench_machine: this CPU has no fma\n"), 1;
    both(FMA, multiply_adds, &wide, 1e-9);
    products(has_bf16);
    both(READ, sequential_read, NULL, 1e-9);
    both(RANDOM, random_read, &(uint64_t){0}, 1e-6);
    both(PREFETCH, random_read, &(uint64_t){16}, 1e-6);
    both(CHAINED, chained_read, NULL, 1e-6);
    both(WRITE, sequential_write, &no, 1e-9);
    both(STREAM, sequential_write, &yes, 1e-9);
    print(has_bf16);
    if (json && !write_json(json)) return perror(json), 1;
    munmap(memory, memory_bytes);
    return 0;
}
