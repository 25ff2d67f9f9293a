/* replay MODEL --data FILE… [--load DIR] --steps N: what a compiled program would do, done by the reference
 * interpreter in double precision.
 *
 * Compiles MODEL (.ctr or .ir) in this process as `ctrc` would, reads the batches with the runtime's reader
 * in file order, starts from the initial values that the program would have, or from the weights of a
 * checkpoint that the compiled program wrote (--steps 0 --save DIR), and prints the loss of each training
 * step, one a line, with all its digits.
 *
 *   -D name=value, -O0 -O1 -O2, --enable=P, --disable=P    as for ctrc
 *   --lib DIR      layer library (default: ../share/ctrc/lib beside this program's folder)
 *   --json         a line of JSON a step instead: its loss, for each trained weight the norm of its gradient
 *                  (l2 is in it) and that of what its optimizer got, which clip_norm may have shortened:
 *                  {"step": 1, "loss": …, "gradients": {NAME: …}, "clipped": {NAME: …}}; then a line with
 *                  the metrics over all rows as they were predicted, and the norm of each weight at the end:
 *                  {"auc": {NAME: …}, "logloss": …, "weights": {NAME: …}} */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "backend/interp.h"
#include "frontend/compile.h"
#include "passes/pass.h"
#include "runtime/tables.h"
#include "tests/tools/batch_bridge.h"
#include "tests/tools/exact_metrics.h"
#include "tests/tools/safetensors.h"

enum { MANY = 64 };
typedef struct {
    const char *model, *load, *lib;
    const char *data[MANY];
    int n_data;
    Define defs[MANY];
    int n_defs;
    PassOptions passes;
    const char *enable, *disable;
    uint64_t steps, seed;
    bool has_seed, json;
} Options;

static int usage(const char *what) {
    fprintf(stderr,
            "replay: %s\nreplay MODEL.ctr|MODEL.ir --data F… [--load DIR] --steps N [-D n=v] [-O0…2] "
            "[--enable=P] [--disable=P] [--seed N] [--lib DIR] [--json]\n",
            what);
    return 2;
}

static bool define(Arena *a, Options *o, const char *text) {
    const char *eq = strchr(text, '=');
    if (!eq || o->n_defs == MANY) return false;
    o->defs[o->n_defs++] = (Define){arena_strndup(a, text, (size_t)(eq - text)), eq + 1};
    return true;
}

static int parse(int argc, char **argv, Arena *a, Options *o) {
    *o = (Options){.passes = {.level = 2, .out = stdout}, .steps = 20};
    for (int i = 1; i < argc; i++) {
        const char *s = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(s, "--json") == 0)
            o->json = true;
        else if (strncmp(s, "-O", 2) == 0)
            o->passes.level = atoi(s + 2);
        else if (strncmp(s, "--enable=", 9) == 0)
            o->enable = s + 9;
        else if (strncmp(s, "--disable=", 10) == 0)
            o->disable = s + 10;
        else if (s[0] != '-') {
            if (o->model) return usage("more than one model");
            o->model = s;
        } else if (!next)
            return usage(s);
        else if (strcmp(s, "-D") == 0) {
            if (!define(a, o, next)) return usage("-D: expected name=value");
            i++;
        } else if (strcmp(s, "--data") == 0) {
            while (i + 1 < argc && argv[i + 1][0] != '-' && o->n_data < MANY)
                o->data[o->n_data++] = argv[++i];
        } else if (strcmp(s, "--load") == 0)
            o->load = argv[++i];
        else if (strcmp(s, "--lib") == 0)
            o->lib = argv[++i];
        else if (strcmp(s, "--steps") == 0)
            o->steps = strtoull(argv[++i], NULL, 10);
        else if (strcmp(s, "--seed") == 0)
            o->seed = strtoull(argv[++i], NULL, 10), o->has_seed = true;
        else
            return usage(s);
    }
    if (!o->model || !o->n_data) return usage("expected a model and --data");
    return 0;
}

/* ---- compiling ---- */

/* Beside the folder of this program, as in the build tree. */
static const char *own_library(Arena *a) {
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0) return ".";
    path[n] = 0;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(path, '/');
        if (slash) *slash = 0;
    }
    return arena_printf(a, "%s/share/ctrc/lib", path);
}

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

static IrProgram *compile(Arena *a, Diag *d, Options *o) {
    IrProgram *p;
    if (ends_with(o->model, ".ir")) {
        size_t size;
        const char *text = frontend_read_file(a, d, o->model, &size);
        p = text ? ir_read(a, d, o->model, text, size) : NULL;
    } else
        p = frontend_compile(a, d, o->model, o->defs, o->n_defs, o->lib ? o->lib : own_library(a));
    if (!p || !backend_target(d, "native", &o->passes.target)) return NULL;
    PassArg *on = NULL, *off = NULL;
    if (o->enable && !pass_parse_args(a, d, o->enable, &on, &o->passes.n_enable)) return NULL;
    if (o->disable && !pass_parse_args(a, d, o->disable, &off, &o->passes.n_disable)) return NULL;
    o->passes.enable = on;
    o->passes.disable = off;
    return pass_run_all(p, &o->passes) ? p : NULL;
}

/* ---- weights ---- */

static int64_t elements(const IrWeight *w) {
    int64_t size = 1;
    for (int d = 0; d < w->rank; d++) size *= w->dim[d];
    return size;
}

/* A table of more than 2^20 rows is saved as NAME.ids and the rows of these ids; a replay wants all of it. */
static bool load_weight(Interp *it, const IrWeight *w, int number, const Safetensors *s) {
    const Tensor *t = safetensors_find(s, w->name);
    if (!t || !t->data || t->size != elements(w)) {
        fprintf(stderr, "replay: weight '%s': expected %lld values in the checkpoint, found %lld\n", w->name,
                (long long)elements(w), t ? (long long)t->size : 0);
        return false;
    }
    double *v = interp_weight(it, number);
    for (int64_t i = 0; i < t->size; i++) v[i] = (double)((const float *)t->data)[i];
    return true;
}

static bool start(Interp *it, const RtModel *m, uint64_t seed) {
    for (int w = 0; w < m->n_weights; w++) {
        const RtWeight *v = &m->weights[w];
        float *first = malloc(sizeof *first * (v->size ? v->size : 1));
        if (!first) return false;
        rt_init_values(v, seed, 0, v->size, first);
        for (uint64_t i = 0; i < v->size; i++) interp_weight(it, w)[i] = (double)first[i];
        free(first);
    }
    return true;
}

static bool load(Interp *it, IrProgram *p, const char *dir) {
    char path[4096], err[512];
    snprintf(path, sizeof path, "%s/weights.safetensors", dir);
    Safetensors *s = safetensors_read(path, err, sizeof err);
    if (!s) fprintf(stderr, "replay: %s\n", err);
    bool ok = s;
    for (int i = 0; ok && i < p->n_weights; i++) ok = load_weight(it, &p->weights[i], i, s);
    safetensors_free(s);
    return ok;
}

/* ---- running ---- */

/* Operand 1 of an update is the scale that clips, where there is one. */
static double scale_of(const Interp *it, const IrNode *update) {
    bool scaled = update->op == OP_UPDATETOUCHED ? ir_attr_i(update, "scaled") : update->n_in > 1;
    const InterpValue *scale = scaled ? interp_value(it, update->in[1]) : NULL;
    return scale ? scale->v[0] : 1;
}

/* The norm of each weight's gradient as its update gets it, and after clipping. */
static void gradient_norms(const Interp *it, const IrProgram *p, const IrBody *b, json_t *norms,
                           json_t *clipped) {
    for (int i = 0; i < b->n; i++) {
        const IrNode *n = b->nodes[i];
        if (n->body) gradient_norms(it, p, n->body, norms, clipped);
        if (n->op != OP_UPDATE && n->op != OP_UPDATETOUCHED && n->op != OP_UPDATEROWS) continue;
        const InterpValue *g = interp_value(it, n->in[0]);
        const char *name = p->weights[ir_attr_i(n, "w")].name;
        if (!g) continue;
        double sum = 0;
        for (int64_t k = 0; k < g->count * g->size; k++) sum += g->v[k] * g->v[k];
        json_object_set_new(norms, name, json_real(sqrt(sum)));
        json_object_set_new(clipped, name, json_real(sqrt(sum) * scale_of(it, n)));
    }
}

static void print_line(json_t *o) {
    json_dumpf(o, stdout, JSON_REAL_PRECISION(17));
    putchar('\n');
    json_decref(o);
}

static void print_step(const Options *o, const Interp *it, IrProgram *p, uint64_t number) {
    if (!o->json) {
        printf("%.17g\n", interp_loss(it));
        return;
    }
    json_t *norms = json_object(), *clipped = json_object();
    gradient_norms(it, p, &ir_func(p, "train")->body, norms, clipped);
    print_line(json_pack("{s:I,s:o,s:o,s:o}", "step", (json_int_t)number, "loss",
                         isfinite(interp_loss(it)) ? json_real(interp_loss(it)) : json_null(), "gradients",
                         norms, "clipped", clipped));
}

/* 1: a step was run; 0: no rows left; -1: an error, printed. */
static int step(Interp *it, RtReader *r, Bridge *bridge) {
    char err[512];
    RtBatch *b;
    int got = rt_reader_next(r, &b, err, sizeof err);
    if (got < 0) fprintf(stderr, "replay: %s\n", err);
    if (got <= 0) return got;
    bool ok = interp_run(it, "train", bridge_batch(bridge, b));
    rt_reader_release(r, b);
    return ok ? 1 : -1;
}

static json_t *weight_norms(Interp *it, const IrProgram *p) {
    json_t *norms = json_object();
    for (int w = 0; w < p->n_weights; w++) {
        double sum = 0;
        const double *v = interp_weight(it, w);
        for (int64_t i = 0, n = elements(&p->weights[w]); i < n; i++) sum += v[i] * v[i];
        json_object_set_new(norms, p->weights[w].name, json_real(sqrt(sum)));
    }
    return norms;
}

static bool run(const Options *o, IrProgram *p, const RtModel *m, Interp *it, RtReader *r) {
    Bridge *bridge = bridge_new(p, m);
    ExactMetrics *metrics = exact_metrics_new(p, m);
    int got = 1;
    for (uint64_t i = 0; i < o->steps && (got = step(it, r, bridge)) > 0; i++) {
        print_step(o, it, p, i + 1);
        exact_metrics_add(metrics, it);
    }
    json_t *last = got >= 0 && o->json ? exact_metrics_json(metrics) : NULL;
    if (last) {
        json_object_set_new(last, "weights", weight_norms(it, p));
        print_line(last);
    }
    exact_metrics_free(metrics);
    bridge_free(bridge);
    return got >= 0;
}

static bool replay(const Options *o, IrProgram *p, const RtModel *m) {
    char err[512] = "";
    uint64_t seed = o->has_seed ? o->seed : (uint64_t)p->seed;
    Interp *it = interp_new(p, seed);
    RtTables *tables = rt_tables_new(m, seed, err, sizeof err);
    RtReaderOptions ro = {.paths = o->data,
                          .n_paths = o->n_data,
                          .purpose = RT_TRAIN,
                          .batch = (uint32_t)m->batch,
                          .seed = seed,
                          .threads = 1,
                          .tables = tables};
    bool begun = tables && (o->load ? load(it, p, o->load) : start(it, m, seed));
    RtReader *r = begun ? rt_reader_open(m, &ro, err, sizeof err) : NULL;
    if (!r && *err) fprintf(stderr, "replay: %s\n", err);
    bool ok = r && run(o, p, m, it, r);
    if (r) rt_reader_close(r);
    rt_tables_free(tables);
    interp_free(it);
    return ok;
}

int main(int argc, char **argv) {
    Options o;
    Arena *a = arena_new();
    Diag *d = diag_new(a, stderr);
    int wrong = parse(argc, argv, a, &o);
    if (wrong) return wrong;
    IrProgram *p = compile(a, d, &o);
    RtModel *m = p ? bridge_model(p, "native") : NULL;
    bool ok = m && replay(&o, p, m);
    rt_model_free(m);
    arena_free(a);
    return ok ? 0 : 1;
}
