/* The reference interpreter's driver: walks a function's nodes in order and calls interp_<ID> for each.
 *
 * Updates take effect when the step ends: they run after all other nodes, so every op of a step sees the
 * weights as they were before it, whatever the order in which a pass put the nodes. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "backend/interp_core.h"

static const InterpFn table[OP_COUNT] = {
#define OP(id, ...) [OP_##id] = interp_##id,
#include "ir/ops.def"
#undef OP
};

static void *need(void *p) {
    if (!p) {
        fprintf(stderr, "interpreter: out of memory\n");
        exit(1);
    }
    return p;
}

bool interp_error(Interp *it, const IrNode *n, const char *fmt, ...) {
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    diag_error(it->p->diag, n->span, NULL, "interpreter: %s (%%%d): %s", ir_ops[n->op].text, n->id, text);
    return false;
}

/* ---- values by node ---- */

static InterpEntry *find(const Interp *it, const IrNode *n) {
    if (!it->map_cap) return NULL;
    size_t i = ((uintptr_t)n >> 4) * 0x9e3779b97f4a7c15u & (it->map_cap - 1);
    while (it->map[i].node && it->map[i].node != n) i = (i + 1) & (it->map_cap - 1);
    return &it->map[i];
}

static void grow(Interp *it) {
    InterpEntry *old = it->map;
    size_t cap = it->map_cap;
    it->map_cap = cap ? cap * 2 : 256;
    it->map = need(calloc(it->map_cap, sizeof *it->map));
    for (size_t i = 0; i < cap; i++)
        if (old[i].node) *find(it, old[i].node) = old[i];
    free(old);
}

static void put(Interp *it, const IrNode *n, InterpValue v, bool owned) {
    if (2 * (it->map_n + 1) > it->map_cap) grow(it);
    InterpEntry *e = find(it, n);
    if (!e->node)
        it->map_n++;
    else if (e->owned)
        free(e->value.v);
    *e = (InterpEntry){n, v, owned};
}

static void forget(Interp *it) {
    for (size_t i = 0; i < it->map_cap; i++) {
        if (it->map[i].node && it->map[i].owned) free(it->map[i].value.v);
        it->map[i].node = NULL;
    }
    it->map_n = 0;
    for (int a = 0; a < it->n_axes; a++) {
        free(it->row_of[a]);
        it->row_of[a] = NULL;
    }
    for (int w = 0; w < it->n_weights; w++) {
        InterpUnique *u = &it->unique[w];
        for (int64_t i = 0; u->found && i < u->n; i++) u->index[u->id[i]] = -1;
        free(u->id);
        u->id = NULL;
        u->n = 0;
        u->found = false;
    }
}

const InterpValue *interp_value(const Interp *it, const IrNode *n) {
    const InterpEntry *e = find(it, n);
    return e && e->node ? &e->value : NULL;
}

InterpValue interp_in(const Interp *it, const IrNode *n, int i) {
    const InterpValue *v = interp_value(it, n->in[i]);
    return v ? *v : (InterpValue){0};
}

double *interp_out(Interp *it, const IrNode *n) {
    InterpValue v = {.count = interp_count(it, n->type), .size = ir_type_size(n->type)};
    v.v = need(calloc((size_t)(v.count * v.size) + 1, sizeof(double)));
    put(it, n, v, true);
    return v.v;
}

void interp_alias(Interp *it, const IrNode *n, InterpValue v) { put(it, n, v, false); }

/* ---- rows and shapes ---- */

int64_t interp_count(Interp *it, IrType t) {
    switch (t.live) {
    case LIVE_ALWAYS:
    case LIVE_STEP: return 1;
    case LIVE_ROW: return it->batch->rows;
    case LIVE_POS: return it->batch->offsets[t.axis][it->batch->rows];
    case LIVE_UNIQ: return it->unique[t.axis].n;
    }
    abort();
}

static const int64_t *row_of(Interp *it, int axis) {
    if (!it->row_of[axis]) {
        const int64_t *off = it->batch->offsets[axis];
        it->row_of[axis] = need(malloc(sizeof(int64_t) * (size_t)(off[it->batch->rows] + 1)));
        for (int64_t r = 0; r < it->batch->rows; r++)
            for (int64_t i = off[r]; i < off[r + 1]; i++) it->row_of[axis][i] = r;
    }
    return it->row_of[axis];
}

int64_t interp_row(Interp *it, IrType from, IrType to, int64_t i) {
    if (from.live == LIVE_ALWAYS || from.live == LIVE_STEP) return 0;
    if (from.live == LIVE_ROW && to.live == LIVE_POS) return row_of(it, to.axis)[i];
    return i;
}

int64_t *interp_stretch(IrType from, IrType to) {
    int64_t size = ir_type_size(to);
    int64_t *map = need(malloc(sizeof(int64_t) * (size_t)size));
    for (int64_t e = 0; e < size; e++) {
        int64_t rest = e, stride = 1, at = 0;
        for (int back = 1; back <= from.rank; back++) {
            int64_t dim = from.dim[from.rank - back];
            int64_t wide = back <= to.rank ? to.dim[to.rank - back] : 1;
            int64_t k = rest % wide;
            rest /= wide;
            if (dim != 1) at += k * stride;
            stride *= dim;
        }
        map[e] = at;
    }
    return map;
}

InterpAxis interp_axis(IrType t, int64_t axis) {
    if (axis < 0) axis += t.rank;
    InterpAxis a = {1, t.dim[axis], 1};
    for (int d = 0; d < axis; d++) a.outer *= t.dim[d];
    for (int d = (int)axis + 1; d < t.rank; d++) a.inner *= t.dim[d];
    return a;
}

/* ---- running ---- */

static bool reader_stage(const IrNode *n) { return n->op == OP_COLUMN || ir_ops[n->op].cls == CLASS_READ; }

static bool axis_present(Interp *it, const IrNode *n, IrType t) {
    if (t.live != LIVE_POS || (it->batch->offsets && it->batch->offsets[t.axis])) return true;
    return interp_error(it, n, "the batch has no offsets of axis '%s'", it->p->axes[t.axis].name);
}

/* What the reader delivers is asked for when the first op of the step reads it. */
static bool deliver(Interp *it, const IrNode *n) {
    if (n->type.elem != TY_F32 && n->type.elem != TY_ID)
        return true; /* keys and texts: no op computes with them */
    if (interp_value(it, n)) return true;
    double *v = interp_out(it, n);
    InterpValue wanted = *interp_value(it, n), given = wanted;
    if (!it->batch->fetch || !it->batch->fetch(it->batch->user, n, &given))
        return interp_error(it, n, "the batch has no such value");
    if (given.count * given.size != wanted.count * wanted.size)
        return interp_error(it, n, "expected %lld values from the batch, found %lld",
                            (long long)(wanted.count * wanted.size), (long long)(given.count * given.size));
    if (given.v != v) memcpy(v, given.v, sizeof(double) * (size_t)(wanted.count * wanted.size));
    return true;
}

const InterpValue *interp_ids(Interp *it, const IrNode *id) {
    if (reader_stage(id) && (!axis_present(it, id, id->type) || !deliver(it, id))) return NULL;
    const InterpValue *v = interp_value(it, id);
    if (!v) interp_error(it, id, "asked for before it was computed");
    return v;
}

static bool run_node(Interp *it, const IrNode *n) {
    if (reader_stage(n)) return true;
    if (!axis_present(it, n, n->type)) return false;
    for (int i = 0; i < n->n_in; i++) {
        const IrNode *x = n->in[i];
        if (!axis_present(it, n, x->type)) return false;
        if (reader_stage(x) && !deliver(it, x)) return false;
        if ((x->type.elem == TY_F32 || x->type.elem == TY_ID) && !interp_value(it, x))
            return interp_error(it, n, "operand %%%d comes later or not at all", x->id);
    }
    return table[n->op](it, n);
}

static bool writes(const IrNode *n) {
    if (ir_ops[n->op].effect == EFFECT_WRITES) return true;
    for (int i = 0; n->body && i < n->body->n; i++)
        if (writes(n->body->nodes[i])) return true;
    return false;
}

static bool run_body(Interp *it, const IrBody *b, bool writing) {
    for (int i = 0; i < b->n; i++)
        if (writes(b->nodes[i]) == writing && !run_node(it, b->nodes[i])) return false;
    return true;
}

bool interp_run(Interp *it, const char *func, const InterpBatch *b) {
    forget(it);
    it->func = ir_func(it->p, func);
    if (!it->func) {
        diag_error(it->p->diag, (Span){0}, NULL, "interpreter: the program has no function '%s'", func);
        return false;
    }
    bool train = strcmp(func, "train") == 0;
    it->training = train || strcmp(func, "model") == 0;
    it->batch = b;
    it->region = NULL;
    it->loss = 0;
    if (!run_body(it, &it->func->body, false)) return false;
    /* as in a generated program: a loss that is not finite never reaches the weights */
    if (isfinite(it->loss) && !run_body(it, &it->func->body, true)) return false;
    if (train) it->step++;
    return true;
}

bool interp_ARG(Interp *it, const IrNode *n) {
    int64_t i = ir_attr_i(n, "index");
    if (!it->region || i < 0 || i >= it->region->n_in)
        return interp_error(it, n, "no operand %lld", (long long)i);
    interp_alias(it, n, interp_in(it, it->region, (int)i));
    return true;
}

bool interp_FUSED(Interp *it, const IrNode *n) {
    const IrNode *outer = it->region;
    const IrBody *b = n->body;
    if (!b || !b->n) return interp_error(it, n, "the region is empty");
    it->region = n;
    bool ok = run_body(it, b, false) && run_body(it, b, true);
    it->region = outer;
    const InterpValue *last = interp_value(it, b->nodes[b->n - 1]);
    if (ok && last) interp_alias(it, n, *last);
    return ok;
}

bool interp_OUT(Interp *it, const IrNode *n) {
    (void)it, (void)n;
    return true;
}

bool interp_RESULT(Interp *it, const IrNode *n) {
    const IrNode *inside = ir_result(n->in[0], (int)ir_attr_i(n, "index"));
    const InterpValue *x = inside ? interp_value(it, inside) : NULL;
    if (!x) return interp_error(it, n, "no result %lld", (long long)ir_attr_i(n, "index"));
    interp_alias(it, n, *x);
    return true;
}

/* ---- roots ---- */

bool interp_PREDICT(Interp *it, const IrNode *n) {
    interp_alias(it, n, interp_in(it, n, 0));
    return true;
}

bool interp_METRIC(Interp *it, const IrNode *n) {
    interp_alias(it, n, interp_in(it, n, 0));
    return true;
}

/* Of a row: its mean over the rows; of a step: as it is. Several losses add up. */
bool interp_LOSS(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0);
    double sum = 0;
    for (int64_t i = 0; i < x.count * x.size; i++) sum += x.v[i];
    it->loss += n->in[0]->type.live == LIVE_ROW ? sum / (double)it->batch->rows : sum;
    interp_alias(it, n, x);
    return true;
}

double interp_loss(const Interp *it) { return it->loss; }

/* ---- state ---- */

static double slot_start(const IrOptimizer *o, const char *slot) {
    switch (o->kind) {
    case OPT_ADAGRAD:
    case OPT_ADAGRAD_DECAY: return o->init;
    case OPT_RMSPROP: return 1;
    case OPT_FTRL: return strcmp(slot, "n") == 0 ? o->init : 0;
    default: return 0;
    }
}

Interp *interp_new(IrProgram *p, uint64_t seed) {
    Interp *it = need(calloc(1, sizeof *it));
    it->p = p;
    it->seed = seed;
    it->step = 1;
    it->n_weights = p->n_weights;
    it->n_axes = p->n_axes;
    it->weight = need(calloc((size_t)p->n_weights + 1, sizeof *it->weight));
    it->slot = need(calloc((size_t)p->n_weights * 3 + 1, sizeof *it->slot));
    it->updates = need(calloc((size_t)p->n_weights + 1, sizeof *it->updates));
    it->unique = need(calloc((size_t)p->n_weights + 1, sizeof *it->unique));
    it->row_of = need(calloc((size_t)p->n_axes + 1, sizeof *it->row_of));
    for (int w = 0; w < p->n_weights; w++) {
        const IrWeight *iw = &p->weights[w];
        int64_t size = 1;
        for (int d = 0; d < iw->rank; d++) size *= iw->dim[d];
        it->weight[w] = need(calloc((size_t)size, sizeof(double)));
        if (iw->optimizer < 0) continue;
        const IrOptimizer *o = &p->opts[iw->optimizer];
        const char *names[3];
        for (int s = 0, k = ir_opt_slots(o, names); s < k; s++) {
            double *v = it->slot[w * 3 + s] = need(calloc((size_t)size, sizeof(double)));
            for (int64_t i = 0; i < size; i++) v[i] = slot_start(o, names[s]);
        }
    }
    return it;
}

void interp_free(Interp *it) {
    if (!it) return;
    forget(it);
    for (int w = 0; w < it->n_weights; w++) {
        free(it->weight[w]);
        for (int s = 0; s < 3; s++) free(it->slot[w * 3 + s]);
        free(it->unique[w].index);
    }
    free(it->weight);
    free(it->slot);
    free(it->updates);
    free(it->unique);
    free(it->row_of);
    free(it->map);
    free(it);
}

double *interp_weight(Interp *it, int weight) { return it->weight[weight]; }
double *interp_slot(Interp *it, int weight, int slot) { return it->slot[weight * 3 + slot]; }
void interp_set_step(Interp *it, uint64_t step) { it->step = step; }
