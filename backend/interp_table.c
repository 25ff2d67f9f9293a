/* Reference meaning of the table ops: one-hots, lookups, unique rows, gradients by row. */
#include <stdlib.h>
#include <string.h>
#include "backend/interp_core.h"

bool interp_ONEHOT(Interp *it, const IrNode *n) {
    InterpValue id = interp_in(it, n, 0);
    int64_t size = ir_type_size(n->type);
    double *out = interp_out(it, n);
    for (int64_t i = 0; i < id.count; i++) {
        if (id.v[i] < 0) continue;
        if (id.v[i] >= (double)size) return interp_error(it, n, "id %.0f of %lld", id.v[i], (long long)size);
        out[i * size + (int64_t)id.v[i]] = 1;
    }
    return true;
}

/* ---- unique rows ---- */

static bool names_ids_of(const IrNode *n, int weight) {
    return (n->op == OP_FETCH || n->op == OP_ROWGRAD) && ir_attr_i(n, "w") == weight;
}

/* Which operands of an op that names_ids_of are ids: all of fetch's, every other one of row_grad's. */
static bool add_ids(Interp *it, const IrNode *n, InterpUnique *u, int64_t *cap, int64_t rows) {
    for (int k = 0; k < n->n_in; k += n->op == OP_FETCH ? 1 : 2) {
        const InterpValue *ids = interp_ids(it, n->in[k]);
        if (!ids) return false;
        for (int64_t i = 0; i < ids->count; i++) {
            int64_t id = (int64_t)ids->v[i];
            if (id < 0) continue;
            if (id >= rows) return interp_error(it, n, "id %lld of %lld", (long long)id, (long long)rows);
            if (u->index[id] >= 0) continue;
            if (u->n == *cap) {
                *cap = *cap ? *cap * 2 : 64;
                u->id = realloc(u->id, sizeof(int64_t) * (size_t)*cap);
                if (!u->id) return interp_error(it, n, "out of memory");
            }
            u->index[id] = u->n;
            u->id[u->n++] = id;
        }
    }
    return true;
}

static bool scan(Interp *it, const IrBody *b, int weight, InterpUnique *u, int64_t *cap, int64_t rows) {
    for (int i = 0; i < b->n; i++) {
        const IrNode *n = b->nodes[i];
        if (names_ids_of(n, weight) && !add_ids(it, n, u, cap, rows)) return false;
    }
    return true;
}

/* In order of first appearance: the ids of the function's fetches in order, in each the positions in order.
 * The op that asks comes last, for one inside a region, whose ids are arguments. */
const InterpUnique *interp_unique(Interp *it, const IrNode *n, int weight) {
    InterpUnique *u = &it->unique[weight];
    int64_t rows = it->p->weights[weight].dim[0], cap = 0;
    if (u->found) return u;
    if (!u->index) {
        u->index = malloc(sizeof(int64_t) * (size_t)rows);
        if (!u->index) return interp_error(it, n, "out of memory"), NULL;
        for (int64_t i = 0; i < rows; i++) u->index[i] = -1;
    }
    u->found = true;
    bool ok = scan(it, &it->func->body, weight, u, &cap, rows);
    if (ok && names_ids_of(n, weight)) ok = add_ids(it, n, u, &cap, rows);
    return ok ? u : NULL;
}

bool interp_FETCH(Interp *it, const IrNode *n) {
    int w = (int)ir_attr_i(n, "w");
    const InterpUnique *u = interp_unique(it, n, w);
    if (!u) return false;
    int64_t size = ir_type_size(n->type);
    double *out = interp_out(it, n);
    for (int64_t i = 0; i < u->n; i++)
        memcpy(out + i * size, it->weight[w] + u->id[i] * size, sizeof(double) * (size_t)size);
    return true;
}

/* ---- lookups ---- */

/* The id's row: in a whole weight by the id itself, in fetched rows by its place among them. */
static const double *row_for(Interp *it, const IrNode *n, double id) {
    IrType t = n->in[1]->type;
    InterpValue rows = interp_in(it, n, 1);
    int64_t i = (int64_t)id, width = ir_type_size(n->type);
    int64_t bound = t.live == LIVE_UNIQ ? it->p->weights[t.axis].dim[0] : rows.size / width;
    if (i >= bound) return interp_error(it, n, "id %lld of %lld", (long long)i, (long long)bound), NULL;
    if (t.live == LIVE_UNIQ) i = it->unique[t.axis].index[i];
    if (i < 0) return interp_error(it, n, "id %.0f was not fetched", id), NULL;
    return rows.v + i * width;
}

bool interp_EMBED(Interp *it, const IrNode *n) {
    InterpValue id = interp_in(it, n, 0);
    int64_t size = ir_type_size(n->type);
    double *out = interp_out(it, n);
    for (int64_t i = 0; i < id.count; i++) {
        if (id.v[i] < 0) continue;
        const double *row = row_for(it, n, id.v[i]);
        if (!row) return false;
        memcpy(out + i * size, row, sizeof(double) * (size_t)size);
    }
    return true;
}

bool interp_EMBEDPOOL(Interp *it, const IrNode *n) {
    InterpValue id = interp_in(it, n, 0);
    const int64_t *off = it->batch->offsets[n->in[0]->type.axis];
    bool mean = strcmp(ir_attr_s(n, "kind"), "mean") == 0;
    int64_t size = ir_type_size(n->type);
    double *out = interp_out(it, n);
    for (int64_t r = 0; r < it->batch->rows; r++) {
        double *sum = out + r * size;
        for (int64_t i = off[r]; i < off[r + 1]; i++) {
            if (id.v[i] < 0) continue;
            const double *row = row_for(it, n, id.v[i]);
            if (!row) return false;
            for (int64_t e = 0; e < size; e++) sum[e] += row[e];
        }
        for (int64_t e = 0; mean && off[r + 1] > off[r] && e < size; e++)
            sum[e] /= (double)(off[r + 1] - off[r]);
    }
    return true;
}

/* ---- gradients by row ---- */

enum { PLAIN, POOLED_SUM, POOLED_MEAN };

/* Adds each pair's gradients to row place[id] (or row id itself) of out. */
static bool add_pairs(Interp *it, const IrNode *n, const int64_t *place, int64_t width, double *out) {
    int64_t bound = it->p->weights[ir_attr_i(n, "w")].dim[0];
    const IrAttr *kinds = ir_attr(n, "kinds");
    for (int k = 0; k + 1 < n->n_in; k += 2) {
        InterpValue id = interp_in(it, n, k), g = interp_in(it, n, k + 1);
        IrType ti = n->in[k]->type, tg = n->in[k + 1]->type;
        int64_t kind = kinds->ilist.v[k / 2];
        if (kind != PLAIN && ti.live != LIVE_POS)
            return interp_error(it, n, "pair %d is pooled without a list", k / 2);
        for (int64_t i = 0; i < id.count; i++) {
            if (id.v[i] < 0) continue;
            if (id.v[i] >= (double)bound)
                return interp_error(it, n, "id %.0f of %lld", id.v[i], (long long)bound);
            int64_t from = interp_row(it, tg, ti, i); /* pooled: the gradient of the position's row */
            double share = 1;
            if (kind == POOLED_MEAN) {
                const int64_t *off = it->batch->offsets[ti.axis];
                int64_t row = interp_row(it, (IrType){.live = LIVE_ROW}, ti, i);
                share = 1.0 / (double)(off[row + 1] - off[row]);
            }
            double *sum = out + (place ? place[(int64_t)id.v[i]] : (int64_t)id.v[i]) * width;
            for (int64_t e = 0; e < width; e++) sum[e] += g.v[from * g.size + e] * share;
        }
    }
    return true;
}

bool interp_DENSEGRAD(Interp *it, const IrNode *n) {
    return add_pairs(it, n, NULL, ir_type_size(n->type) / n->type.dim[0], interp_out(it, n));
}

bool interp_ROWGRAD(Interp *it, const IrNode *n) {
    const InterpUnique *u = interp_unique(it, n, (int)ir_attr_i(n, "w"));
    return u && add_pairs(it, n, u->index, ir_type_size(n->type), interp_out(it, n));
}
