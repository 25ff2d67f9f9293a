/* The verifier's first half: declarations. Functions are looked at only if these are sound, so that no rule
 * reads past an array. */
#include "ir/internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    IrProgram *p;
    const IrPlaces *places;
    bool ok;
} DeclCheck;

static void wrong_decl(DeclCheck *v, IrDecl decl, int index, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void wrong_decl(DeclCheck *v, IrDecl decl, int index, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    diag_error(v->p->diag, ir_decl_place(v->p, v->places, decl, index), NULL, "%s",
               arena_vprintf(v->p->arena, fmt, ap));
    va_end(ap);
    v->ok = false;
}

typedef struct {
    const char *name;
    int index;
} Named;

static int by_name(const void *a, const void *b) {
    const Named *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : x->index - y->index;
}

/* Names that are looked up must be there and differ. */
static void check_names(DeclCheck *v, IrDecl decl, const char *one, const char *many, Named *names, int n) {
    for (int i = 0; i < n; i++)
        if (!names[i].name || !*names[i].name) {
            wrong_decl(v, decl, names[i].index, "%s %d has no name", one, names[i].index);
            return;
        }
    qsort(names, (size_t)n, sizeof *names, by_name);
    for (int i = 1; i < n; i++)
        if (strcmp(names[i].name, names[i - 1].name) == 0)
            wrong_decl(v, decl, names[i].index, "expected different names, found two %s '%s'", many,
                       names[i].name);
}

static void check_all_names(DeclCheck *v) {
    IrProgram *p = v->p;
    int most = p->input.n_columns + p->n_axes + p->n_weights + p->n_funcs + p->n_params, n = 0;
    Named *names = ARENA_ARRAY(p->arena, Named, most);
    for (int i = 0; i < p->input.n_columns; i++)
        if (p->input.columns[i].kind != COL_SKIP) names[n++] = (Named){p->input.columns[i].name, i};
    check_names(v, DECL_COLUMN, "column", "columns", names, n);
    for (n = 0; n < p->n_axes; n++) names[n] = (Named){p->axes[n].name, n};
    check_names(v, DECL_AXIS, "axis", "axes", names, n);
    for (n = 0; n < p->n_weights; n++) names[n] = (Named){p->weights[n].name, n};
    check_names(v, DECL_WEIGHT, "weight", "weights", names, n);
    for (n = 0; n < p->n_funcs; n++) names[n] = (Named){p->funcs[n]->name, n};
    check_names(v, DECL_FUNC, "function", "functions", names, n);
    for (n = 0; n < p->n_params; n++) names[n] = (Named){p->params[n].name, n};
    check_names(v, DECL_PARAM, "param", "params", names, n);
}

static void check_axes(DeclCheck *v) {
    for (int i = 0; i < v->p->n_axes; i++) {
        const IrAxis *x = &v->p->axes[i];
        if (x->kind == AXIS_LIST ? x->parent != -1 : x->parent < 0 || x->parent >= i)
            wrong_decl(v, DECL_AXIS, i, "axis '%s': expected %s", x->name,
                       x->kind == AXIS_LIST ? "no parent" : "a parent that stands above it");
        bool counted = x->kind == AXIS_FIRST || x->kind == AXIS_LAST;
        if (x->max < counted)
            wrong_decl(v, DECL_AXIS, i, "axis '%s': expected max of at least %d, found %lld", x->name,
                       counted, (long long)x->max);
        if (x->kind == AXIS_APPEND && x->parent >= 0 && x->parent < i) {
            int64_t most = ir_axis_max(v->p, x->parent), expected = most ? most + 1 : 0;
            if (x->max != expected)
                wrong_decl(v, DECL_AXIS, i,
                           "axis '%s': expected max of %lld, one more than its parent's, found %lld", x->name,
                           (long long)expected, (long long)x->max);
        }
    }
}

static void check_columns(DeclCheck *v) {
    const IrInput *in = &v->p->input;
    for (int i = 0; i < in->n_columns; i++) {
        const IrColumn *c = &in->columns[i];
        bool has_axis = c->axis >= 0 && c->axis < v->p->n_axes && v->p->axes[c->axis].kind == AXIS_LIST;
        if (c->kind == COL_SKIP) {
            if (c->skip < 1)
                wrong_decl(v, DECL_COLUMN, i, "column %d: expected to skip at least 1 field, found %d", i,
                           c->skip);
        } else if (c->is_list ? !has_axis : c->axis != -1) {
            wrong_decl(v, DECL_COLUMN, i, "column '%s': expected %s", c->name,
                       c->is_list ? "the axis of a list" : "no axis, as it is no list");
        }
        if (c->side != 0 && c->side != 1)
            wrong_decl(v, DECL_COLUMN, i, "column '%s': expected side 0 or 1, found %d", c->name, c->side);
        if (c->side == 1 && !in->beside)
            wrong_decl(v, DECL_COLUMN, i, "column '%s': there is no second file", c->name);
        if (c->kind == COL_STRING && c->has_default && c->default_len > 0 && !c->default_str)
            wrong_decl(v, DECL_COLUMN, i, "column '%s': expected a default text", c->name);
    }
}

static bool sound_schedule(const IrSched *s) {
    for (int depth = 0; s; s = s->then, depth++) {
        if (s->kind == SCHED_PIECEWISE && (s->n < 0 || !s->values || (s->n > 0 && !s->at))) return false;
        if (s->kind != SCHED_WARMUP) return true;
        if (depth > 16) return false;
    }
    return false; /* a warmup towards nothing */
}

static void check_training(DeclCheck *v) {
    IrProgram *p = v->p;
    for (int i = 0; i < p->n_opts; i++)
        if (!sound_schedule(&p->opts[i].lr))
            wrong_decl(v, DECL_OPTIMIZER, i, "optimizer %d: expected a complete learning rate", i);
    for (int i = 0; i < p->n_vocabs; i++)
        if (p->vocabs[i].n < 1) wrong_decl(v, DECL_VOCAB, i, "vocab %d: expected at least one value", i);
    if (p->batch < 0 || p->epochs < 0 || p->steps < 0 || p->shuffle < 0)
        wrong_decl(v, DECL_TRAIN, 0, "expected batch, epochs, steps and shuffle of at least 0");
    if (p->batch > IR_MAX_BATCH) wrong_decl(v, DECL_TRAIN, 0, "expected a batch of at most %d", IR_MAX_BATCH);
}

static void check_weights(DeclCheck *v) {
    IrProgram *p = v->p;
    for (int i = 0; i < p->n_weights; i++) {
        const IrWeight *w = &p->weights[i];
        const char *why = NULL;
        if (!ir_check_dims(p, w->rank, w->dim, &why))
            wrong_decl(v, DECL_WEIGHT, i, "weight '%s': %s", w->name, why);
        if (w->optimizer < -1 || w->optimizer >= p->n_opts || w->own_optimizer < -1 ||
            w->own_optimizer >= p->n_opts)
            wrong_decl(v, DECL_WEIGHT, i, "weight '%s': expected an optimizer below %d, found %d and %d",
                       w->name, p->n_opts, w->optimizer, w->own_optimizer);
        if (w->optimizer >= 0 && !w->trainable)
            wrong_decl(v, DECL_WEIGHT, i, "weight '%s' isn't trainable, but has an optimizer", w->name);
        if (!isfinite(w->init_arg))
            wrong_decl(v, DECL_WEIGHT, i, "weight '%s': expected a finite initial value, found %g", w->name,
                       w->init_arg);
        if ((w->table || w->sparse) && w->rank < 2)
            wrong_decl(v, DECL_WEIGHT, i, "weight '%s': expected a table of at least 2 dimensions, found %d",
                       w->name, w->rank);
        if (w->sparse && !w->table && !w->lazy)
            wrong_decl(v, DECL_WEIGHT, i, "weight '%s': sparse, but neither a table nor lazy", w->name);
    }
}

Span ir_decl_place(const IrProgram *p, const IrPlaces *places, IrDecl decl, int index) {
    if (places) return index < places->n[decl] ? places->at[decl][index] : (Span){0};
    switch (decl) {
    case DECL_AXIS: return p->axes[index].span;
    case DECL_COLUMN: return p->input.columns[index].span;
    case DECL_VOCAB: return p->vocabs[index].span;
    case DECL_OPTIMIZER: return p->opts[index].span;
    case DECL_WEIGHT: return p->weights[index].span;
    default: return (Span){0};
    }
}

bool ir_verify_decls(IrProgram *p, const IrPlaces *places) {
    DeclCheck v = {p, places, true};
    check_all_names(&v);
    check_axes(&v);
    check_columns(&v);
    check_training(&v);
    check_weights(&v);
    return v.ok;
}
