/* ctrc --tune-kernels: how fast each product of a model is by tiles and by the library, on this CPU.
 *
 * What is measured is a step's work on one thread: weights are packed once for tiles, then blocks of rows are
 * multiplied as the schedule cuts them, with an epilogue if the product has one; a gradient is one call of
 * all rows. The code is the emitter's own and the runtime's own rt_gemm, linked by `cc` as programs are and
 * loaded here.
 *
 * In a step other kernels run between two calls. So the second-level cache is filled with other things before
 * each; then a block's rows are read, which the product before has just made; and a gradient's operands,
 * which were made long before, are each time others, out of more than caches hold. (Measured warm, oneDNN was
 * up to a fifth ahead in gradients of DIEN's in which it is behind in the program.) All products and both
 * ways take turns, round after round, so that what else the machine does falls on all alike. Time is this
 * thread's CPU time; a figure is the median over rounds. */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "backend/emit.h"
#include "backend/kept.h"
#include "backend/link.h"
#include "backend/tune.h"

static const Span no_place = {0};

enum { ROUNDS = 31, MOST_ROUNDS = 1000 };
static const double turn_seconds = 1e-3, /* of a product in a round, at least, */
    most_turn = 4e-3,                    /* unless it takes that long with all around it */
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
    float *a, *b, *c, *packed, *bias; /* c: of gradients too */
    float *others;                    /* fill the second-level cache */
    float *fresh;                     /* operands of gradients, one after another, around */
    int64_t n_others, n_fresh, at;    /* floats */
    char *scratch;
    double clock; /* seconds that asking for the time takes */
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

enum { FRESH = 16 << 20, UNIT = 16 };

static Room room_for(const PassTarget *t, const PassProduct *s, int n) {
    int64_t a = 1, b = 1, c = 1, packed = 1, bias = 1, scratch = 4, fresh = FRESH;
    for (int i = 0; i < n; i++, s++) {
        if (s->grad) {
            fresh = larger(fresh, s->step_rows * (s->k + s->n) + 2 * UNIT);
            c = larger(c, s->n * s->k);
        } else {
            a = larger(a, s->step_rows * s->k);
            b = larger(b, s->n * s->k);
            c = larger(c, s->n * s->step_rows);
        }
        packed = larger(packed, emit_packed_floats(t->vector_floats, s->k, s->n));
        bias = larger(bias, s->n);
        scratch = larger(scratch, tune_scratch(t, s));
    }
    Room r = {
        .a = numbers(a), .b = numbers(b), .c = numbers(c), .packed = numbers(packed), .bias = numbers(bias)};
    r.n_others = 2 * t->l2_bytes / 4, r.others = numbers(r.n_others);
    r.n_fresh = fresh, r.fresh = numbers(fresh);
    r.scratch = (char *)numbers(scratch / 4 + UNIT);
    r.clock = 1;
    for (int i = 0; i < 100; i++) {
        double start = now(), took = now() - start;
        r.clock = took < r.clock ? took : r.clock;
    }
    return r;
}

static void leave(Room *r) {
    free(r->a), free(r->b), free(r->c), free(r->packed), free(r->bias), free(r->scratch);
    free(r->others), free(r->fresh);
}

/* ---- turns ---- */

enum { TILE, LIBRARY };

static void read_floats(const float *v, int64_t n) {
    float sum = 0;
    for (int64_t i = 0; i < n; i += CACHE_LINE) sum += v[i];
    __asm__ volatile("" : : "x"(sum) : "memory");
}

static const float *fresh(Room *r, int64_t n) {
    if (r->at + n > r->n_fresh) r->at = 0;
    const float *v = r->fresh + r->at;
    r->at += (n + UNIT - 1) / UNIT * UNIT;
    return v;
}

static double timed(TuneFn f, const Room *r, float *c, const float *a, const float *b, int64_t lo,
                    int64_t hi) {
    double start = now();
    f(NULL, c, a, b, r->scratch, r->bias, lo, hi);
    double took = now() - start - r->clock;
    return took > 0 ? took : 0;
}

/* Seconds of one step. */
static double gradient(const Case *k, int way, Room *r) {
    const PassProduct *s = k->s;
    const float *x = fresh(r, s->step_rows * s->k), *g = fresh(r, s->step_rows * s->n);
    read_floats(r->others, r->n_others);
    return timed(k->way[way], r, r->c, x, g, 0, s->step_rows);
}

static double product(const Case *k, int way, Room *r) {
    const PassProduct *s = k->s;
    double took = 0;
    read_floats(r->others, r->n_others);
    if (way == TILE) took += timed(k->pack, r, r->packed, r->b, NULL, 0, 0);
    for (int64_t lo = 0; lo < s->step_rows; lo += s->call_rows) {
        int64_t hi = lo + s->call_rows < s->step_rows ? lo + s->call_rows : s->step_rows;
        read_floats(r->others, r->n_others);
        read_floats(r->a + lo * s->k, (hi - lo) * s->k);
        took += timed(k->way[way], r, r->c, r->a, way == TILE ? r->packed : r->b, lo, hi);
    }
    return took;
}

/* GFLOP/s */
static double turn(const Case *k, int way, Room *r) {
    int times = 0;
    double took = 0, start = now();
    while (took < turn_seconds && (!times || now() - start < most_turn)) {
        took += k->s->grad ? gradient(k, way, r) : product(k, way, r);
        times++;
    }
    return 1e-9 * times * pass_product_flops(k->s) / (took > 0 ? took : 1e-9);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
double tune_median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static double run(Arena *a, PassCosts *c, const Case *k, int n, int rounds, Room *r) {
    double start = now();
    int done = 0;
    while (done < rounds && (done == 0 || now() - start < most_seconds)) {
        for (int i = 0; i < n; i++)
            for (int way = 0; way < 2; way++) k[i].rate[way][done] = turn(&k[i], way, r);
        done++;
    }
    for (int i = 0; i < n; i++)
        pass_cost_put(
            a, c,
            (PassCost){k[i].key, tune_median(k[i].rate[TILE], done), tune_median(k[i].rate[LIBRARY], done)});
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
