/* ctrc --tune-kernels: how fast each product of a model is by tiles and by the library, on this CPU.
 *
 * What is measured is a step's work on one thread: weights are packed once for tiles, then blocks of rows are
 * multiplied as the schedule cuts them, with an epilogue if the product has one; a gradient is one call of
 * all rows. The code is the emitter's own and the runtime's own rt_gemm, linked by `cc` as programs are and
 * loaded here. All products and both ways take turns, round after round, so that what else the machine does
 * falls on all alike; each turn is run once before the clock starts, since a step's operands come from the
 * product before, and weights that don't fit the cache stream past as they do in a step. Time is this
 * thread's CPU time; a figure is the median over rounds. */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "backend/kept.h"
#include "backend/link.h"
#include "backend/tune.h"

static const Span no_place = {0};

enum { ROUNDS = 15, MOST_ROUNDS = 1000 };
static const double turn_seconds = 1e-3, /* at least */
    most_seconds = 12;                   /* of all rounds; those of a large model are fewer */

typedef struct {
    CostCpu cpu;
    const char *lib_dir;
    int rounds;
} Tune;

typedef struct {
    const PassProduct *s;
    const char *key;
    TuneFn way[2], pack; /* tile, library */
    double *rate[2];     /* by rounds */
} Case;

/* Operands, shared by all products. */
typedef struct {
    float *a, *b, *c, *packed, *bias;
    char *scratch;
} Room;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- room ---- */

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static float *numbers(int64_t n) {
    float *v = aligned_alloc(64, ((size_t)n * sizeof *v + 127) / 64 * 64);
    if (!v) abort();
    for (int64_t i = 0; i < n; i++) v[i] = (float)(((uint64_t)i * 2654435761u >> 8) % 1000) / 1000 - 0.5f;
    return v;
}

static Room room_for(const PassTarget *t, const PassProduct *s, int n) {
    int64_t a = 1, b = 1, c = 1, packed = 1, bias = 1, scratch = 4;
    for (int i = 0; i < n; i++, s++) {
        a = larger(a, s->step_rows * s->k);
        b = larger(b, s->n * (s->grad ? s->step_rows : s->k));
        c = larger(c, s->n * (s->grad ? s->k : s->step_rows));
        packed = larger(packed, emit_packed_floats(t->vector_floats, s->k, s->n));
        bias = larger(bias, s->n);
        scratch = larger(scratch, tune_scratch(t, s));
    }
    return (Room){numbers(a),      numbers(b),    numbers(c),
                  numbers(packed), numbers(bias), (char *)numbers(scratch / 4 + 16)};
}

static void leave(Room *r) {
    free(r->a), free(r->b), free(r->c), free(r->packed), free(r->bias), free(r->scratch);
}

/* ---- turns ---- */

enum { TILE, LIBRARY };

static void step_of(const Case *k, int way, const Room *r) {
    const PassProduct *s = k->s;
    const float *b = r->b;
    if (way == TILE && k->pack) {
        k->pack(NULL, r->packed, r->b, NULL, NULL, NULL, 0, 0);
        b = r->packed;
    }
    for (int64_t lo = 0; lo < s->step_rows; lo += s->call_rows) {
        int64_t hi = lo + s->call_rows < s->step_rows ? lo + s->call_rows : s->step_rows;
        k->way[way](NULL, r->c, r->a, b, r->scratch, r->bias, lo, hi);
    }
}

/* GFLOP/s */
static double turn(const Case *k, int way, const Room *r) {
    int times = 0;
    step_of(k, way, r);
    double start = now(), end;
    do {
        step_of(k, way, r);
        times++;
        end = now();
    } while (end - start < turn_seconds);
    return 1e-9 * times * pass_product_flops(k->s) / (end - start);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static double run(Arena *a, PassCosts *c, const Case *k, int n, int rounds, const Room *r) {
    double start = now();
    int done = 0;
    while (done < rounds && (done == 0 || now() - start < most_seconds)) {
        for (int i = 0; i < n; i++)
            for (int way = 0; way < 2; way++) k[i].rate[way][done] = turn(&k[i], way, r);
        done++;
    }
    for (int i = 0; i < n; i++)
        pass_cost_put(a, c,
                      (PassCost){k[i].key, median(k[i].rate[TILE], done), median(k[i].rate[LIBRARY], done)});
    return now() - start;
}

/* ---- code ---- */

/* The measured functions, loaded; they stay loaded, as oneDNN, which comes with them, doesn't like to go.
 * NULL: error reported. */
static void *load(const Tune *u, IrProgram *p, const PassProduct *products, int n) {
    const char *lib = arena_printf(p->arena, "%s/libctrc_rt.a", u->lib_dir);
    char *object = link_temporary(p, u->cpu.path, ".o"),
         *so = object ? link_temporary(p, u->cpu.path, ".so") : NULL;
    const char *const more[] = {"-shared", "-ldnnl", NULL};
    bool ok = so && tune_emit(p, products, n, object) && link_run(p, &object, 1, lib, more, so);
    void *code = ok ? dlopen(so, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (ok && !code) diag_error(p->diag, no_place, NULL, "can't load what is to be measured: %s", dlerror());
    if (object) unlink(object);
    if (so) unlink(so);
    return code;
}

static TuneFn function(IrProgram *p, void *code, const char *way, int i) {
    TuneFn f;
    *(void **)&f = dlsym(code, arena_printf(p->arena, "measured_%s_%d", way, i));
    if (!f) abort(); /* just made */
    return f;
}

static bool measure(PassCosts *c, IrProgram *p, const PassProduct *products, int n) {
    const Tune *u = c->context;
    Arena *a = p->arena;
    void *code = load(u, p, products, n);
    if (!code) return false;
    Case *k = ARENA_ARRAY(a, Case, n);
    for (int i = 0; i < n; i++) {
        k[i] = (Case){.s = &products[i], .key = pass_product_key(a, &products[i])};
        k[i].way[TILE] = function(p, code, "tile", i), k[i].way[LIBRARY] = function(p, code, "library", i);
        if (!products[i].grad) k[i].pack = function(p, code, "pack", i);
        for (int way = 0; way < 2; way++) k[i].rate[way] = ARENA_ARRAY(a, double, u->rounds);
    }
    Room r = room_for(&u->cpu.target, products, n);
    double seconds = run(a, c, k, n, u->rounds, &r);
    leave(&r);
    if (!cost_table_write(p->diag, a, &u->cpu, c)) return false;
    fprintf(p->diag->out, "measured %d products in %.1f s, kept in %s\n", n, seconds, u->cpu.path);
    return true;
}

/* ---- entrances ---- */

static PassCosts *costs_of(Diag *d, Arena *a, CostCpu *cpu) {
    if (!cost_cpu(d, a, cpu)) return NULL;
    PassCosts *c = ARENA_NEW(a, PassCosts);
    if (cpu->path) c->source = arena_printf(a, "measured on this %s, kept in %s", cpu->cpu, cpu->path);
    cost_table_read(d, a, cpu, c);
    return c;
}

PassCosts *backend_costs(Diag *d, Arena *a, const char *march) {
    CostCpu cpu;
    PassCosts *c = strcmp(march, "native") ? NULL : costs_of(d, a, &cpu);
    return c && c->n ? c : NULL;
}

/* CTRC_TUNE_ROUNDS: fewer rounds, for tests. 0: error reported. */
static int rounds_wanted(Diag *d) {
    const char *text = getenv("CTRC_TUNE_ROUNDS");
    if (!text) return ROUNDS;
    char *end;
    long n = isdigit((unsigned char)*text) ? strtol(text, &end, 10) : 0;
    if (n >= 1 && n <= MOST_ROUNDS && !*end) return (int)n;
    diag_error(d, no_place, NULL, "CTRC_TUNE_ROUNDS: expected a whole number from 1 to %d, found '%s'",
               MOST_ROUNDS, text);
    return 0;
}

PassCosts *backend_tune(Diag *d, Arena *a, const char *lib_dir) {
    Tune *u = ARENA_NEW(a, Tune);
    PassCosts *c = costs_of(d, a, &u->cpu);
    if (!c || !(u->rounds = rounds_wanted(d))) return NULL;
    if (!u->cpu.path || !kept_path(a, "", true)) {
        diag_error(d, no_place, "it is $XDG_CACHE_HOME/ctrc, or ~/.cache/ctrc",
                   "--tune-kernels has no folder to keep its figures in");
        return NULL;
    }
    u->lib_dir = lib_dir;
    c->measure = measure, c->context = u;
    return c;
}
