/* Reference meaning of the updates: each optimizer's formulas as numerics states them, one element at a time.
 *
 * A table's rows that no id names stay as they are, with two exceptions that are about the passage of time:
 * an `exact` adam moves every row in every step (a generated program catches rows up when they are next read,
 * which must give the same), and adagrad_decay shrinks every row's accumulator (likewise). l2 and clip_norm
 * are ops of their own: the gradient comes in with l2 added, clipping as the operand `scale`. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "backend/interp_core.h"

/* ---- learning rates ---- */

double interp_rate(const IrSched *s, double t) {
    switch (s->kind) {
    case SCHED_CONST: return s->lr;
    case SCHED_EXPONENTIAL: return s->lr * pow(s->rate, t / s->every);
    case SCHED_COSINE: {
        double part = fmin(t / s->steps, 1);
        return s->end + (s->lr - s->end) * 0.5 * (1 + cos(M_PI * part));
    }
    case SCHED_PIECEWISE: {
        int i = 0;
        while (i < s->n && t > s->at[i]) i++;
        return s->values[i];
    }
    case SCHED_WARMUP: return interp_rate(s->then, t) * fmin(t / s->steps, 1);
    }
    abort();
}

/* ---- one element ---- */

typedef struct {
    const IrOptimizer *o;
    double lr;
    double alpha; /* adam: the rate with the corrections of its two means */
    double *w;
    double *slot[3]; /* by the order of ir_opt_slots */
} Target;

static void step_adam(const Target *a, int64_t i, double g) {
    const IrOptimizer *o = a->o;
    double *m = &a->slot[0][i], *v = &a->slot[1][i];
    *m = o->beta1 * *m + (1 - o->beta1) * g;
    *v = o->beta2 * *v + (1 - o->beta2) * g * g;
    a->w[i] -= a->alpha * *m / (sqrt(*v) + o->eps);
}

static void step_ftrl(const Target *a, int64_t i, double g) {
    const IrOptimizer *o = a->o;
    double *n = &a->slot[0][i], *z = &a->slot[1][i];
    double before = *n;
    *n += g * g;
    *z += g - (sqrt(*n) - sqrt(before)) / a->lr * a->w[i];
    if (fabs(*z) <= o->l1_ftrl)
        a->w[i] = 0;
    else
        a->w[i] = (copysign(o->l1_ftrl, *z) - *z) / (sqrt(*n) / a->lr + 2 * o->l2_ftrl);
}

static void step_element(const Target *a, int64_t i, double g) {
    const IrOptimizer *o = a->o;
    double *s = a->slot[0] ? &a->slot[0][i] : NULL;
    switch (o->kind) {
    case OPT_SGD: a->w[i] -= a->lr * g; break;
    case OPT_MOMENTUM:
        *s = o->momentum * *s + g;
        a->w[i] -= a->lr * *s;
        break;
    case OPT_ADAGRAD:
    case OPT_ADAGRAD_DECAY: /* the decay came first, for all rows */
        *s += g * g;
        a->w[i] -= a->lr * g / sqrt(*s);
        break;
    case OPT_RMSPROP:
        *s = o->rho * *s + (1 - o->rho) * g * g;
        a->w[i] -= a->lr * g / sqrt(*s + o->eps);
        break;
    case OPT_ADAM:
    case OPT_ADAM_ASYNC: step_adam(a, i, g); break;
    case OPT_FTRL: step_ftrl(a, i, g); break;
    }
}

/* ---- one weight ---- */

typedef struct {
    Target at;
    int64_t rows, width;
    double scale;
} Update;

/* Does a run of `every` steps end right before step t? */
static bool decays_before(const IrOptimizer *o, uint64_t t) {
    return t > 1 && floor((double)(t - 1) / o->every) > floor((double)(t - 2) / o->every);
}

static bool begin(Interp *it, const IrNode *n, const IrNode *scale, Update *u) {
    int w = (int)ir_attr_i(n, "w");
    const IrWeight *iw = &it->p->weights[w];
    if (iw->optimizer < 0) return interp_error(it, n, "weight '%s' has no optimizer", iw->name);
    const IrOptimizer *o = &it->p->opts[iw->optimizer];
    it->updates[w]++;
    u->at = (Target){.o = o, .w = it->weight[w]};
    for (int s = 0; s < 3; s++) u->at.slot[s] = it->slot[w * 3 + s];
    u->at.lr = interp_rate(&o->lr, (double)it->step);
    double t = (double)(o->kind == OPT_ADAM_ASYNC ? it->updates[w] : it->step);
    u->at.alpha = u->at.lr * sqrt(1 - pow(o->beta2, t)) / (1 - pow(o->beta1, t));
    u->rows = iw->rank > 1 ? iw->dim[0] : 1; /* rows of a table; of another weight just a way to count */
    u->width = 1;
    for (int d = iw->rank > 1 ? 1 : 0; d < iw->rank; d++) u->width *= iw->dim[d];
    u->scale = scale ? interp_value(it, scale)->v[0] : 1;
    if (o->kind == OPT_ADAGRAD_DECAY && decays_before(o, it->step))
        for (int64_t i = 0; i < u->rows * u->width; i++)
            u->at.slot[0][i] = fmax(u->at.slot[0][i] * o->rate, o->init);
    return true;
}

/* Row `row` of the weight by g [width]; NULL: a gradient of zeros. */
static void update_row(const Update *u, int64_t row, const double *g) {
    for (int64_t e = 0; e < u->width; e++) step_element(&u->at, row * u->width + e, g ? g[e] * u->scale : 0);
}

static bool every_row(const Update *u) { return u->at.o->kind == OPT_ADAM && u->at.o->exact; }

bool interp_UPDATE(Interp *it, const IrNode *n) {
    Update u;
    if (!begin(it, n, n->n_in > 1 ? n->in[1] : NULL, &u)) return false;
    const double *g = interp_in(it, n, 0).v;
    for (int64_t r = 0; r < u.rows; r++) update_row(&u, r, g + r * u.width);
    return true;
}

bool interp_UPDATETOUCHED(Interp *it, const IrNode *n) {
    bool scaled = ir_attr_i(n, "scaled");
    Update u;
    if (!begin(it, n, scaled ? n->in[1] : NULL, &u)) return false;
    const double *g = interp_in(it, n, 0).v;
    bool *touched = calloc((size_t)u.rows, sizeof *touched);
    if (!touched) return interp_error(it, n, "out of memory");
    for (int k = scaled ? 2 : 1; k < n->n_in; k++) {
        InterpValue ids = interp_in(it, n, k);
        for (int64_t i = 0; i < ids.count; i++)
            if (ids.v[i] >= 0 && ids.v[i] < (double)u.rows) touched[(int64_t)ids.v[i]] = true;
    }
    for (int64_t r = 0; r < u.rows; r++)
        if (touched[r] || every_row(&u)) update_row(&u, r, g + r * u.width);
    free(touched);
    return true;
}

bool interp_UPDATEROWS(Interp *it, const IrNode *n) {
    int w = (int)ir_attr_i(n, "w");
    Update u;
    const InterpUnique *rows = interp_unique(it, n, w);
    if (!rows || !begin(it, n, n->n_in > 1 ? n->in[1] : NULL, &u)) return false;
    const double *g = interp_in(it, n, 0).v;
    for (int64_t i = 0; i < rows->n; i++) update_row(&u, rows->id[i], g + i * u.width);
    for (int64_t r = 0; every_row(&u) && r < u.rows; r++)
        if (rows->index[r] < 0) update_row(&u, r, NULL);
    return true;
}

bool interp_BNUPDATE(Interp *it, const IrNode *n) {
    const double *stats = interp_in(it, n, 0).v;
    double r = ir_attr_f(n, "momentum");
    int64_t k = ir_type_width(n->in[0]->type);
    double *mean = it->weight[ir_attr_i(n, "mean")], *var = it->weight[ir_attr_i(n, "var")];
    for (int64_t c = 0; c < k; c++) {
        mean[c] = r * mean[c] + (1 - r) * stats[c];
        var[c] = r * var[c] + (1 - r) * stats[k + c];
    }
    return true;
}
