/* Products with at most NARROW columns, which would waste most of a register tile: the last layer of a tower,
 * an attention score. Each element is one sum in one fixed order: lanes of a vector, then what is left of the
 * inner size in smaller vectors, then all of them added. */
#include "backend/emit.h"

int64_t emit_narrow_scratch(int64_t n, int64_t k) { return 4 * n * ((k + 15) / 16 * 16); }

typedef struct {
    Val a, b, total;
} Dot;

static void dot_piece(Emit *e, int first, int w, void *user) {
    Dot *d = user;
    Val x = emit_fmul(e, emit_load_vec(e, emit_at_const(e, d->a, first), w),
                      emit_load_vec(e, emit_at_const(e, d->b, first), w));
    emit_set(e, d->total, emit_fadd(e, emit_get(e, d->total), emit_hsum(e, x)));
}

/* sum of a[l] * b[l] over k terms, both contiguous */
static Val dot(Emit *e, Val a, Val b, int64_t k) {
    int64_t whole = k / e->W * e->W;
    Val sum = emit_var(e, emit_vec(e, e->W));
    emit_set(e, sum, emit_const(e, e->W, 0));
    EmitLoop l = emit_for(e, emit_i64(e, 0), emit_i64(e, whole), e->W);
    Val x = emit_load_vec(e, emit_at(e, a, l.i), e->W), y = emit_load_vec(e, emit_at(e, b, l.i), e->W);
    emit_set(e, sum, emit_fma(e, x, y, emit_get(e, sum)));
    emit_end(e, &l);
    Dot d = {emit_at_const(e, a, whole), emit_at_const(e, b, whole), emit_var(e, e->f32)};
    emit_set(e, d.total, emit_hsum(e, emit_get(e, sum)));
    emit_pieces(e, (int)(k - whole), dot_piece, &d);
    return emit_get(e, d.total);
}

/* The columns of B, each contiguous: in place if they are, else copied to scratch. */
static Val columns_of(Emit *e, const EmitGemm *g, int64_t *stride) {
    *stride = g->b_col;
    if (g->b_row == 1) return g->b;
    *stride = (g->k + 15) / 16 * 16;
    EmitNest n = {.n = 2, .dim = {g->n, g->k}, .n_ref = 2};
    n.ref[0] = (NestRef){.base = e->scratch, .stride = {*stride, 1}};
    n.ref[1] = (NestRef){.base = g->b, .stride = {g->b_col, g->b_row}};
    emit_copy(e, &n);
    return e->scratch;
}

static Val finish(Emit *e, const EmitEpilogue *end, Val v, Val row, int64_t col) {
    return end->f(e, v, row, emit_i64(e, col), 1, end->places, end->user);
}

void emit_narrow(Emit *e, const EmitGemm *g, Val lo, Val hi) {
    int64_t stride;
    Val columns = columns_of(e, g, &stride);
    EmitLoop i = emit_for(e, lo, hi, 1);
    Val a = emit_at(e, g->a, emit_scale(e, i.i, g->a_row)),
        c = emit_at(e, g->c, emit_scale(e, i.i, g->c_row));
    for (int64_t j = 0; j < g->n; j++) {
        Val v = dot(e, a, emit_at_const(e, columns, j * stride), g->k);
        if (g->epilogue) v = finish(e, g->epilogue, v, i.i, j);
        emit_store(e, v, emit_at_const(e, c, j));
    }
    emit_end(e, &i);
}

/* ---- weight gradients: C[k,n] = sum over rows of x[k] g[n], by columns of x ---- */

typedef struct {
    const EmitGradW *g;
} Grad;

static void grad_group(Emit *e, Val col, const EmitGroup *p, void *user) {
    const EmitGradW *g = ((Grad *)user)->g;
    Val sum[NARROW][GROUP_PIECES];
    for (int j = 0; j < g->n; j++)
        for (int i = 0; i < p->n; i++) {
            sum[j][i] = emit_var(e, emit_vec(e, p->w[i]));
            emit_set(e, sum[j][i], emit_const(e, p->w[i], 0));
        }
    EmitLoop m = emit_for(e, emit_i64(e, 0), g->rows, 1);
    Val x = emit_at(e, emit_at(e, g->x, emit_scale(e, m.i, g->x_row)), col),
        y = emit_at(e, g->g, emit_scale(e, m.i, g->g_row));
    for (int i = 0; i < p->n; i++) {
        Val v = emit_load_vec(e, emit_at_const(e, x, p->first[i]), p->w[i]);
        for (int j = 0; j < g->n; j++) {
            Val f = emit_splat(e, emit_load_vec(e, emit_at_const(e, y, j), 1), p->w[i]);
            emit_set(e, sum[j][i], emit_fma(e, v, f, emit_get(e, sum[j][i])));
        }
    }
    emit_end(e, &m);
    for (int j = 0; j < g->n; j++)
        for (int i = 0; i < p->n; i++)
            for (int lane = 0; lane < p->w[i]; lane++) {
                Val v = emit_take(e, emit_get(e, sum[j][i]), lane, 1);
                Val row = emit_add(e, col, emit_i64(e, p->first[i] + lane));
                Val to = emit_at_const(e, emit_at(e, g->c, emit_scale(e, row, g->n)), j);
                v = emit_grown(e, v, to);
                if (g->epilogue) v = finish(e, g->epilogue, v, row, j);
                emit_store(e, v, to);
            }
}

void emit_narrow_grad_w(Emit *e, const EmitGradW *g, Val lo, Val hi) {
    Grad user = {g};
    emit_columns(e, g->k, lo, hi, grad_group, &user);
}
