/* Loops over elements. A nest walks a few places in memory ("refs") at once, each with its stride for each
 * dimension; dimensions that all refs walk as one are joined first, so that most nests are one flat loop.
 * The innermost dimension runs in whole vectors, the rest of it in smaller powers of two if its size is
 * constant, else one by one. The body is emitted for each width and computes the same bits in each. */
#include "backend/emit.h"

void emit_nest_merge(Emit *e, EmitNest *n) {
    int d = n->lo ? 1 : 0; /* drop constant sizes of 1 */
    for (int from = d; from < n->n; from++) {
        if (n->dim[from] == 1) continue;
        n->dim[d] = n->dim[from];
        for (int k = 0; k < n->n_ref; k++) n->ref[k].stride[d] = n->ref[k].stride[from];
        d++;
    }
    n->n = d ? d : 1;
    if (!d) n->dim[0] = 1;
    for (int i = n->n - 2; i >= 0; i--) {
        bool one = true;
        for (int k = 0; k < n->n_ref && one; k++)
            one = n->ref[k].stride[i] == n->ref[k].stride[i + 1] * n->dim[i + 1];
        if (!one) continue;
        if (i == 0 && n->lo) {
            n->lo = emit_scale(e, n->lo, n->dim[1]);
            n->hi = emit_scale(e, n->hi, n->dim[1]);
        } else {
            n->dim[i] *= n->dim[i + 1];
        }
        for (int k = 0; k < n->n_ref; k++) n->ref[k].stride[i] = n->ref[k].stride[i + 1];
        for (int j = i + 1; j + 1 < n->n; j++) {
            n->dim[j] = n->dim[j + 1];
            for (int k = 0; k < n->n_ref; k++) n->ref[k].stride[j] = n->ref[k].stride[j + 1];
        }
        n->n--;
    }
}

/* ---- refs ---- */

static Val lanes_from(Emit *e, Val first, int64_t stride, int w) { /* u32 element numbers */
    Val lanes[64], base = LLVMBuildTrunc(e->b, first, e->i32, "");
    if (w == 1) return base;
    for (int i = 0; i < w; i++) lanes[i] = emit_i32(e, i * stride);
    return emit_add(e, emit_splat(e, base, w), LLVMConstVector(lanes, (unsigned)w));
}

Val emit_ref_load(Emit *e, EmitNest *n, int ref, int w) {
    NestRef *r = &n->ref[ref];
    int64_t inner = r->stride[n->n - 1];
    if (r->hoisted) return emit_splat(e, r->hoisted, w);
    if (inner == 1 || w == 1) return emit_load_vec(e, emit_at(e, r->base, r->at), w);
    Val v = LLVMGetPoison(emit_vec(e, w)); /* only in nests that ask for it */
    for (int i = 0; i < w; i++) {
        Val x = emit_load_vec(e, emit_at(e, r->base, emit_add(e, r->at, emit_i64(e, i * inner))), 1);
        v = LLVMBuildInsertElement(e->b, v, x, emit_i32(e, i), "");
    }
    return v;
}

Val emit_ref_index(Emit *e, EmitNest *n, int ref, int w) {
    return lanes_from(e, n->ref[ref].at, n->ref[ref].stride[n->n - 1], w);
}

void emit_ref_store(Emit *e, EmitNest *n, int ref, Val v) {
    NestRef *r = &n->ref[ref];
    int64_t inner = r->stride[n->n - 1];
    int w = emit_lanes(v);
    if (inner == 1 || w == 1) {
        emit_store(e, v, emit_at(e, r->base, r->at));
        return;
    }
    for (int i = 0; i < w; i++)
        emit_store(e, emit_take(e, v, i, 1), emit_at(e, r->base, emit_add(e, r->at, emit_i64(e, i * inner))));
}

/* ---- loops ---- */

static Val offset_add(Emit *e, Val a, Val i, int64_t stride) {
    if (!stride) return a;
    Val b = emit_scale(e, i, stride);
    return a ? emit_add(e, a, b) : b;
}

/* The body at index i of the innermost dimension; `outer` holds the offsets without it. */
static void at_index(Emit *e, EmitNest *n, Val *outer, Val i, int w) {
    for (int k = 0; k < n->n_ref; k++) {
        n->ref[k].at = offset_add(e, outer[k], i, n->ref[k].stride[n->n - 1]);
        if (!n->ref[k].at) n->ref[k].at = emit_i64(e, 0);
    }
    n->body(e, n, w, n->user);
}

static void run(Emit *e, EmitNest *n, Val *outer, Val lo, Val hi, int w) {
    EmitLoop l = emit_for(e, lo, hi, w);
    at_index(e, n, outer, l.i, w);
    emit_end(e, &l);
}

static int width_of(const Emit *e, const EmitNest *n) {
    int w = n->max_w ? n->max_w : e->W;
    for (int k = 0; k < n->n_ref; k++) { /* a store with gaps: one by one */
        int64_t s = n->ref[k].stride[n->n - 1];
        if (n->ref[k].base && s != 0 && s != 1) w = 1;
    }
    return w;
}

static void inner_const(Emit *e, EmitNest *n, Val *outer, int64_t size, int w) {
    int64_t whole = size / w * w, done = 0;
    if (whole / w > 4) {
        run(e, n, outer, emit_i64(e, 0), emit_i64(e, whole), w);
        done = whole;
    }
    while (done < size) {
        while (w > size - done) w /= 2;
        at_index(e, n, outer, emit_i64(e, done), w);
        done += w;
    }
}

static void inner(Emit *e, EmitNest *n, Val *outer, Val lo, Val hi) {
    int w = width_of(e, n);
    for (int k = 0; k < n->n_ref; k++) {
        NestRef *r = &n->ref[k];
        r->hoisted = NULL;
        /* ref 0 is the result: never loaded ahead */
        if (k && r->base && !r->stride[n->n - 1])
            r->hoisted = emit_load_vec(e, outer[k] ? emit_at(e, r->base, outer[k]) : r->base, 1);
    }
    if (!lo) {
        inner_const(e, n, outer, n->dim[n->n - 1], w);
        return;
    }
    if (w > 1) {
        Val count = emit_sub(e, hi, lo);
        Val whole = emit_add(e, lo, LLVMBuildAnd(e->b, count, emit_i64(e, -(int64_t)w), ""));
        run(e, n, outer, lo, whole, w);
        lo = whole;
    }
    run(e, n, outer, lo, hi, 1);
}

static void level(Emit *e, EmitNest *n, int d, Val *outer) {
    Val lo = d == 0 ? n->lo : NULL, hi = d == 0 ? n->hi : NULL;
    if (d == n->n - 1) {
        inner(e, n, outer, lo, hi);
        return;
    }
    if (!lo) lo = emit_i64(e, 0), hi = emit_i64(e, n->dim[d]);
    EmitLoop l = emit_for(e, lo, hi, 1);
    Val here[NEST_REFS];
    for (int k = 0; k < n->n_ref; k++) here[k] = offset_add(e, outer[k], l.i, n->ref[k].stride[d]);
    level(e, n, d + 1, here);
    emit_end(e, &l);
}

void emit_nest(Emit *e, EmitNest *n) {
    Val outer[NEST_REFS];
    emit_nest_merge(e, n);
    for (int k = 0; k < n->n_ref; k++) outer[k] = n->ref[k].start;
    level(e, n, 0, outer);
}

static void copy_body(Emit *e, EmitNest *n, int w, void *user) {
    (void)user;
    emit_ref_store(e, n, 0, emit_ref_load(e, n, 1, w));
}
void emit_copy(Emit *e, EmitNest *n) {
    n->body = copy_body;
    emit_nest(e, n);
}

static void fill_body(Emit *e, EmitNest *n, int w, void *user) {
    emit_ref_store(e, n, 0, emit_const(e, w, *(double *)user));
}
void emit_fill(Emit *e, Val base, Val from, Val to, double v) {
    EmitNest n = {.n = 1, .lo = from, .hi = to, .n_ref = 1, .body = fill_body, .user = &v};
    n.ref[0] = (NestRef){.base = base, .stride = {1}};
    emit_nest(e, &n);
}

void emit_pieces(Emit *e, int n, EmitPiece piece, void *user) {
    int w = e->W;
    for (int done = 0; done < n; done += w) {
        while (w > n - done) w /= 2;
        piece(e, done, w, user);
    }
}

/* ---- units ---- */

NestRef emit_ref(Emit *e, const IrNode *n, IrType to) {
    NestRef r = {.base = emit_base(e, n)};
    emit_strides_of(e, n, to, r.stride);
    if (to.live == LIVE_POS && n->type.live == LIVE_ROW) r.row_size = emit_unit(e, n);
    return r;
}

void emit_nest_units(Emit *e, EmitNest *n, IrType t) {
    bool by_row = false;
    for (int k = 0; k < n->n_ref; k++) by_row |= n->ref[k].row_size != 0;
    if (!by_row) {
        emit_units(e, t, &n->lo, &n->hi);
        emit_nest(e, n);
        return;
    }
    EmitLoop rows = emit_for(e, e->lo, e->hi, 1);
    n->lo = emit_offset(e, t.axis, rows.i);
    n->hi = emit_offset(e, t.axis, emit_add(e, rows.i, emit_i64(e, 1)));
    for (int k = 0; k < n->n_ref; k++)
        if (n->ref[k].row_size) n->ref[k].start = emit_scale(e, rows.i, n->ref[k].row_size);
    emit_nest(e, n);
    emit_end(e, &rows);
}

void emit_copy_units(Emit *e, EmitNest *n, IrType t) {
    n->body = copy_body;
    emit_nest_units(e, n, t);
}

/* ---- columns ---- */

static EmitGroup group_of(const Emit *e, int64_t columns) {
    EmitGroup g = {0};
    int w = e->W;
    for (int64_t done = 0; done < columns && g.n < GROUP_PIECES; done += w) {
        while (w > columns - done) w /= 2;
        g.first[g.n] = (int)done;
        g.w[g.n++] = w;
    }
    return g;
}

void emit_groups(Emit *e, int64_t columns, EmitGroupBody body, void *user) {
    int64_t whole = (int64_t)GROUP_PIECES * e->W, done = columns / whole * whole;
    EmitGroup g = group_of(e, whole);
    if (done > whole) {
        EmitLoop col = emit_for(e, emit_i64(e, 0), emit_i64(e, done), whole);
        body(e, col.i, &g, user);
        emit_end(e, &col);
    } else if (done) {
        body(e, emit_i64(e, 0), &g, user);
    }
    while (done < columns) {
        g = group_of(e, columns - done);
        body(e, emit_i64(e, done), &g, user);
        done += g.first[g.n - 1] + g.w[g.n - 1];
    }
}

int64_t emit_column_tiles(int64_t columns) { return (columns + TILE_COLUMNS - 1) / TILE_COLUMNS; }

void emit_columns(Emit *e, int64_t columns, Val lo, Val hi, EmitGroupBody body, void *user) {
    int64_t whole = columns / TILE_COLUMNS;
    if (whole) {
        EmitLoop t = emit_for(e, lo, emit_min_i64(e, hi, emit_i64(e, whole)), 1);
        EmitGroup g = group_of(e, TILE_COLUMNS);
        body(e, emit_scale(e, t.i, TILE_COLUMNS), &g, user);
        emit_end(e, &t);
    }
    if (columns % TILE_COLUMNS) {
        EmitIf last = emit_if(e, emit_icmp(e, LLVMIntSGT, hi, emit_i64(e, whole)));
        EmitGroup g = group_of(e, columns % TILE_COLUMNS);
        body(e, emit_i64(e, whole * TILE_COLUMNS), &g, user);
        emit_fi(e, &last);
    }
}
