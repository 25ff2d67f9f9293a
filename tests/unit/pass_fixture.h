/* A small program and batches for tests that run passes and compare by the reference interpreter.
 *
 * The schema is fixed: row number i, positions' numbers li and lj along lists h and k, label y, floats x and
 * v (along h), texts s and ls (along h). Values come from a hash of (column, place), so two programs with the
 * same nodes see the same batch, whatever a pass did. Weights are filled by their name. */
#ifndef CTRC_TESTS_PASS_FIXTURE_H
#define CTRC_TESTS_PASS_FIXTURE_H
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "backend/interp.h"
#include "passes/pass.h"

enum { COL_I, COL_LI, COL_LJ, COL_Y, COL_X, COL_V, COL_S, COL_LS, COL_N };
enum { AXIS_H, AXIS_K, AXIS_H1, AXES }; /* h1: appended to h */
enum { MAX_ROWS = 8, MAX_POS = 16 }; /* bounds of i and of li, lj */

/* ---- programs ---- */

static inline IrProgram *fx_program(Arena *a, Diag *d) {
    static const struct {
        const char *name;
        IrColKind kind;
        int axis;
    } columns[COL_N] = {{"i", COL_INT, -1},    {"li", COL_INT, AXIS_H},   {"lj", COL_INT, AXIS_K},
                        {"y", COL_LABEL, -1},  {"x", COL_FLOAT, -1},      {"v", COL_FLOAT, AXIS_H},
                        {"s", COL_STRING, -1}, {"ls", COL_STRING, AXIS_H}};
    IrProgram *p = ir_program_new(a, d);
    p->name = "fixture";
    p->batch = MAX_ROWS;
    p->epochs = 1;
    p->seed = 1;
    p->input.kind = IN_CSV;
    p->input.separator = ',';
    for (int i = 0; i < 2; i++) {
        IrAxis x = {.name = i ? "k" : "h", .kind = AXIS_LIST, .parent = -1, .shared = true};
        ARENA_PUSH(a, p->axes, p->n_axes, p->cap_axes, x);
    }
    IrAxis more = {.name = "h1", .kind = AXIS_APPEND, .parent = AXIS_H, .shared = true};
    ARENA_PUSH(a, p->axes, p->n_axes, p->cap_axes, more);
    for (int i = 0; i < COL_N; i++) {
        IrColumn c = {.name = columns[i].name, .kind = columns[i].kind, .axis = columns[i].axis};
        c.is_list = c.axis >= 0;
        c.list_sep = c.is_list ? ';' : 0;
        ARENA_PUSH(a, p->input.columns, p->input.n_columns, p->input.cap_columns, c);
    }
    ir_func_new(p, "model");
    return p;
}

static inline int fx_optimizer(IrProgram *p, IrOptimizer o) {
    ARENA_PUSH(p->arena, p->opts, p->n_opts, p->cap_opts, o);
    return p->n_opts - 1;
}

static inline IrWeight *fx_weight(IrProgram *p, const char *name, int optimizer, int rank,
                                  const int64_t *dim) {
    IrWeight w = {.name = arena_strdup(p->arena, name),
                  .rank = rank,
                  .init = INIT_ZEROS,
                  .trainable = optimizer >= 0,
                  .optimizer = optimizer,
                  .own_optimizer = -1};
    for (int i = 0; i < rank; i++) w.dim[i] = dim[i];
    ARENA_PUSH(p->arena, p->weights, p->n_weights, p->cap_weights, w);
    return &p->weights[p->n_weights - 1];
}

static inline IrNode *fx_column(IrBuilder *b, int col) {
    IrAttr a = ir_ai("col", col);
    return ir_build(b, OP_COLUMN, 0, NULL, 1, &a);
}

/* Ids that differ from row to row (place to place): i, li or lj. */
static inline IrNode *fx_number(IrBuilder *b, int col) {
    IrAttr a = ir_ai("n", col == COL_I ? MAX_ROWS : MAX_POS);
    IrNode *x = fx_column(b, col);
    return ir_build(b, OP_IDENTITY, 1, &x, 1, &a);
}

/* Ids that repeat and are sometimes missing: of s or ls. */
static inline IrNode *fx_hash(IrBuilder *b, int col, int64_t buckets) {
    IrAttr a[2] = {ir_ai("buckets", buckets), ir_as("fn", "xxh3")};
    IrNode *x = fx_column(b, col);
    return ir_build(b, OP_HASH, 1, &x, 2, a);
}

static inline IrNode *fx_weight_node(IrBuilder *b, int w) {
    IrAttr a = ir_ai("w", w);
    return ir_build(b, OP_WEIGHT, 0, NULL, 1, &a);
}

static inline IrNode *fx_reshape(IrBuilder *b, IrNode *x, int rank, const int64_t *dim) {
    IrAttr a = ir_ail(b->p->arena, "shape", dim, rank);
    return x ? ir_build(b, OP_RESHAPE, 1, &x, 1, &a) : NULL;
}

/* f32[1] from any value: all elements, flat, each times its own factor. */
static inline IrNode *fx_scalar(IrBuilder *b, IrNode *x, double (*factor)(int)) {
    if (!x) return NULL;
    int64_t size = ir_type_size(x->type);
    double *v = ARENA_ARRAY(b->p->arena, double, size);
    for (int i = 0; i < size; i++) v[i] = factor(i);
    IrAttr c[2] = {ir_afl(b->p->arena, "value", v, (int)size), ir_ail(b->p->arena, "shape", &size, 1)};
    IrNode *flat = fx_reshape(b, x, 1, &size);
    IrNode *scaled = ir_build2(b, OP_MUL, flat, ir_build(b, OP_CONST, 0, NULL, 2, c));
    IrAttr sum[2] = {ir_ai("axis", 0), ir_ab("keep", false)};
    return scaled ? ir_build(b, OP_SUM, 1, &scaled, 2, sum) : NULL;
}

static inline void fx_root(IrBuilder *b, IrOp op, IrNode *x, const char *name) {
    IrAttr a = ir_as("name", name);
    if (x) ir_build(b, op, 1, &x, 1, &a);
}

/* The same program once more, through its text. */
static inline IrProgram *fx_copy(Arena *a, Diag *d, IrProgram *p) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    ir_renumber(p);
    ir_print(p, f);
    fclose(f);
    IrProgram *copy = ir_read(a, d, "copy.ir", arena_strndup(a, text, size), size);
    free(text);
    return copy;
}

/* ---- batches ---- */

static inline double fx_random(uint64_t key) { /* -1 … 1 */
    key = (key ^ (key >> 31)) * 0x9e3779b97f4a7c15u;
    key = (key ^ (key >> 29)) * 0xbf58476d1ce4e5b9u;
    key ^= key >> 32;
    return (double)(key & 0xffffffffffffu) / (double)0x800000000000u - 1;
}

typedef struct {
    InterpBatch b;
    const int64_t *offsets[AXES];
    int64_t h1[MAX_ROWS + 1];
    uint64_t seed;
} FxBatch;

static inline bool fx_fetch(void *user, const IrNode *n, InterpValue *out) {
    const FxBatch *batch = user;
    if (n->op == OP_OFFSET) {
        if (!fx_fetch(user, n->in[0], out)) return false;
        for (int64_t i = 0; i < out->count; i++) {
            double id = out->v[i] + (double)ir_attr_i(n, "by");
            out->v[i] = out->v[i] < 0 || id < 0 || id >= (double)n->type.bound ? -1 : id;
        }
        return true;
    }
    const IrNode *column = n->op == OP_COLUMN ? n : n->in[0];
    int64_t col = ir_attr_i(column, "col");
    for (int64_t i = 0; i < out->count * out->size; i++) {
        double r = fx_random(batch->seed * 1000003 + (uint64_t)col * 4099 + (uint64_t)i);
        if (n->op == OP_COLUMN)
            out->v[i] = col == COL_Y ? r > 0 : r;
        else if (n->op == OP_IDENTITY)
            out->v[i] = (double)i;
        else if (n->op == OP_HASH)
            out->v[i] = floor((r + 1) / 2 * 1.2 * (double)n->type.bound) >= (double)n->type.bound
                            ? -1
                            : floor((r + 1) / 2 * 1.2 * (double)n->type.bound);
        else
            return false;
    }
    return true;
}

/* h and k: offsets of rows + 1. */
static inline InterpBatch *fx_batch(FxBatch *f, uint64_t seed, int64_t rows, const int64_t *h,
                                    const int64_t *k) {
    *f = (FxBatch){.b = {.rows = rows, .fetch = fx_fetch, .user = f}, .seed = seed};
    for (int64_t r = 0; r <= rows; r++) f->h1[r] = h[r] + r;
    f->offsets[AXIS_H] = h, f->offsets[AXIS_K] = k, f->offsets[AXIS_H1] = f->h1;
    f->b.offsets = f->offsets;
    return &f->b;
}

/* Weights by name, so that equal programs start equal. */
static inline void fx_fill(Interp *it, const IrProgram *p, double scale) {
    for (int w = 0; w < p->n_weights; w++) {
        uint64_t key = 1469598103934665603u;
        for (const char *s = p->weights[w].name; *s; s++) key = (key ^ (uint64_t)*s) * 1099511628211u;
        int64_t size = 1;
        for (int i = 0; i < p->weights[w].rank; i++) size *= p->weights[w].dim[i];
        double *v = interp_weight(it, w);
        for (int64_t i = 0; i < size; i++) {
            v[i] = scale * fx_random(key + (uint64_t)i * 7919);
            if (p->weights[w].running) v[i] = 1 + v[i] / 2 / scale;
        }
    }
}

#endif
