/* Ops that stay along a list: from position to position of the same row, and the length of the longest row.
 * A row is walked by one thread, in the order of its positions, so bits don't depend on the cut. */
#include <math.h>
#include "backend/emit.h"

typedef struct {
    Val from, to;                   /* the row's first position in x and in the result */
    Val count;                      /* positions of the row */
    int64_t size;                   /* floats of a position */
    int64_t from_stride, to_stride; /* from position to position */
} RowSpan;

/* Opens a loop over the kernel's rows; `s` describes the one that runs. */
static EmitLoop each_row(Emit *e, const IrNode *n, Val x, Val out, RowSpan *s) {
    EmitLoop row = emit_for(e, e->lo, e->hi, 1);
    Val first = emit_offset(e, n->type.axis, row.i);
    Val last = emit_offset(e, n->type.axis, emit_add(e, row.i, emit_i64(e, 1)));
    *s = (RowSpan){.count = emit_sub(e, last, first), .size = ir_type_size(n->type)};
    s->from_stride = emit_unit(e, n->in[0]), s->to_stride = emit_unit(e, n);
    s->from = emit_at(e, x, emit_scale(e, first, s->from_stride));
    s->to = emit_at(e, out, emit_scale(e, first, s->to_stride));
    return row;
}

/* ---- softmax: columns side by side, each along the positions ---- */

static Val column(Emit *e, Val base, Val col, Val position, int64_t stride) {
    return emit_at(e, emit_at(e, base, emit_scale(e, position, stride)), col);
}

static void softmax_group(Emit *e, Val col, const EmitGroup *g, void *user) {
    const RowSpan *s = user;
    Val most[GROUP_PIECES], sum[GROUP_PIECES], zero = emit_i64(e, 0);
    for (int i = 0; i < g->n; i++) {
        most[i] = emit_var(e, emit_vec(e, g->w[i]));
        sum[i] = emit_var(e, emit_vec(e, g->w[i]));
        emit_set(e, most[i], emit_const(e, g->w[i], -INFINITY));
        emit_set(e, sum[i], emit_const(e, g->w[i], 0));
    }
    EmitLoop p = emit_for(e, zero, s->count, 1);
    Val x = column(e, s->from, col, p.i, s->from_stride);
    for (int i = 0; i < g->n; i++) {
        Val v = emit_load_vec(e, emit_at_const(e, x, g->first[i]), g->w[i]), old = emit_get(e, most[i]);
        emit_set(e, most[i], emit_select(e, emit_fcmp(e, LLVMRealOGT, v, old), v, old));
    }
    emit_end(e, &p);
    p = emit_for(e, zero, s->count, 1);
    x = column(e, s->from, col, p.i, s->from_stride);
    Val y = column(e, s->to, col, p.i, s->to_stride);
    for (int i = 0; i < g->n; i++) {
        Val v = emit_load_vec(e, emit_at_const(e, x, g->first[i]), g->w[i]);
        v = emit_exp_negative(e, emit_fsub(e, v, emit_get(e, most[i])));
        emit_store(e, v, emit_at_const(e, y, g->first[i]));
        emit_set(e, sum[i], emit_fadd(e, emit_get(e, sum[i]), v));
    }
    emit_end(e, &p);
    p = emit_for(e, zero, s->count, 1);
    y = column(e, s->to, col, p.i, s->to_stride);
    for (int i = 0; i < g->n; i++) {
        Val at = emit_at_const(e, y, g->first[i]);
        emit_store(e, emit_fdiv(e, emit_load_vec(e, at, g->w[i]), emit_get(e, sum[i])), at);
    }
    emit_end(e, &p);
}

void emit_SEGSOFTMAX(Emit *e, const IrNode *n) {
    Val x = emit_base(e, n->in[0]), out = emit_base(e, n);
    RowSpan s;
    EmitLoop row = each_row(e, n, x, out, &s);
    emit_groups(e, s.size, softmax_group, &s);
    emit_end(e, &row);
}

/* ---- shift ---- */

/* `count` positions of `size` floats, one copy if they stand one after another on both sides. */
static void copy_positions(Emit *e, Val to, int64_t to_stride, Val from, int64_t from_stride, Val count,
                           int64_t size) {
    EmitNest copy = {.n = 2, .dim = {1, size}, .lo = emit_i64(e, 0), .hi = count, .n_ref = 2};
    copy.ref[0] = (NestRef){.base = to, .stride = {to_stride, 1}};
    copy.ref[1] = (NestRef){.base = from, .stride = {from_stride, 1}};
    emit_copy(e, &copy);
}

static void zero_body(Emit *e, EmitNest *n, int w, void *user) {
    (void)user;
    emit_ref_store(e, n, 0, emit_const(e, w, 0));
}

static void zero_positions(Emit *e, Val to, int64_t stride, Val from, Val end, int64_t size) {
    EmitNest n = {.n = 2, .dim = {1, size}, .lo = from, .hi = end, .n_ref = 1, .body = zero_body};
    n.ref[0] = (NestRef){.base = to, .stride = {stride, 1}};
    emit_nest(e, &n);
}

/* The part of a row that has a source is one copy, the rest zeros. */
void emit_SHIFT(Emit *e, const IrNode *n) {
    int64_t k = ir_attr_i(n, "k"), away = k < 0 ? -k : k;
    Val x = emit_base(e, n->in[0]), out = emit_base(e, n);
    RowSpan s;
    EmitLoop row = each_row(e, n, x, out, &s);
    Val gap = emit_min_i64(e, s.count, emit_i64(e, away)), kept = emit_sub(e, s.count, gap); /* gap: zeros */
    Val to = k < 0 ? emit_at(e, s.to, emit_scale(e, gap, s.to_stride)) : s.to;
    Val from = k < 0 ? s.from : emit_at(e, s.from, emit_scale(e, gap, s.from_stride)), zero = emit_i64(e, 0);
    copy_positions(e, to, s.to_stride, from, s.from_stride, kept, s.size);
    zero_positions(e, s.to, s.to_stride, k < 0 ? zero : kept, k < 0 ? gap : s.count, s.size);
    emit_end(e, &row);
}

/* ---- one position more ---- */

/* The positions before row `row` of a list, and those up to its end. */
static void row_positions(Emit *e, IrType t, Val row, Val *from, Val *to) {
    *from = emit_offset(e, t.axis, row);
    *to = emit_offset(e, t.axis, emit_add(e, row, emit_i64(e, 1)));
}

static Val position_of(Emit *e, const IrNode *n, Val base, Val position) {
    return emit_at(e, base, emit_scale(e, position, emit_unit(e, n)));
}

/* One position's floats. */
static void copy_one(Emit *e, Val to, Val from, int64_t size) {
    EmitNest n = {.n = 1, .dim = {size}, .n_ref = 2};
    n.ref[0] = (NestRef){.base = to, .stride = {1}};
    n.ref[1] = (NestRef){.base = from, .stride = {1}};
    emit_copy(e, &n);
}

void emit_APPEND(Emit *e, const IrNode *n) {
    Val x = emit_base(e, n->in[0]), more = emit_base(e, n->in[1]), out = emit_base(e, n), from, end, to,
        out_end;
    int64_t size = ir_type_size(n->type);
    EmitLoop row = emit_for(e, e->lo, e->hi, 1);
    row_positions(e, n->in[0]->type, row.i, &from, &end);
    row_positions(e, n->type, row.i, &to, &out_end);
    copy_positions(e, position_of(e, n, out, to), emit_unit(e, n), position_of(e, n->in[0], x, from),
                   emit_unit(e, n->in[0]), emit_sub(e, end, from), size);
    if (n->in[1]->type.live == LIVE_ROW) more = position_of(e, n->in[1], more, row.i);
    copy_one(e, position_of(e, n, out, emit_sub(e, out_end, emit_i64(e, 1))), more, size);
    emit_end(e, &row);
}

void emit_APPENDGRAD(Emit *e, const IrNode *n) {
    Val g = emit_base(e, n->in[0]), out = emit_base(e, n), from, g_end, to, end;
    EmitLoop row = emit_for(e, e->lo, e->hi, 1);
    row_positions(e, n->in[0]->type, row.i, &from, &g_end);
    row_positions(e, n->type, row.i, &to, &end);
    copy_positions(e, position_of(e, n, out, to), emit_unit(e, n), position_of(e, n->in[0], g, from),
                   emit_unit(e, n->in[0]), emit_sub(e, end, to), ir_type_size(n->type));
    emit_end(e, &row);
}

void emit_SEGLAST(Emit *e, const IrNode *n) {
    Val x = emit_base(e, n->in[0]), out = emit_base(e, n), from, end;
    int64_t size = ir_type_size(n->type);
    EmitLoop row = emit_for(e, e->lo, e->hi, 1);
    row_positions(e, n->in[0]->type, row.i, &from, &end);
    Val to = position_of(e, n, out, row.i);
    EmitIf any = emit_if(e, emit_icmp(e, LLVMIntSLT, from, end));
    copy_one(e, to, position_of(e, n->in[0], x, emit_sub(e, end, emit_i64(e, 1))), size);
    emit_else(e, &any);
    emit_fill(e, to, emit_i64(e, 0), emit_i64(e, size), 0);
    emit_fi(e, &any);
    emit_end(e, &row);
}
/* ---- sru: units side by side, each along the positions ---- */

/* One of sru's two directions over a row's list. */
typedef struct {
    RowSpan s; /* f and the result */
    Val x;     /* the row's first position in the other operand */
    int64_t x_stride;
    bool backwards; /* sru_grad */
} Sru;

/* c = f c + (1 - f) x, or from the last position on, d = x + what the position after it keeps: f d */
static void sru_group(Emit *e, Val col, const EmitGroup *g, void *user) {
    const Sru *s = user;
    Val state[GROUP_PIECES], last = emit_sub(e, s->s.count, emit_i64(e, 1));
    for (int i = 0; i < g->n; i++) {
        state[i] = emit_var(e, emit_vec(e, g->w[i]));
        emit_set(e, state[i], emit_const(e, g->w[i], 0));
    }
    EmitLoop p = emit_for(e, emit_i64(e, 0), s->s.count, 1);
    Val position = s->backwards ? emit_sub(e, last, p.i) : p.i;
    Val f = column(e, s->s.from, col, position, s->s.from_stride),
        x = column(e, s->x, col, position, s->x_stride),
        y = column(e, s->s.to, col, position, s->s.to_stride);
    for (int i = 0; i < g->n; i++) {
        int w = g->w[i], at = g->first[i];
        Val fv = emit_load_vec(e, emit_at_const(e, f, at), w),
            xv = emit_load_vec(e, emit_at_const(e, x, at), w);
        Val old = emit_get(e, state[i]), now;
        if (s->backwards) {
            now = emit_fadd(e, xv, old);
            emit_set(e, state[i], emit_fmul(e, fv, now));
        } else {
            now = emit_fma(e, fv, old, emit_fmul(e, emit_fsub(e, emit_const(e, w, 1), fv), xv));
            emit_set(e, state[i], now);
        }
        emit_store(e, now, emit_at_const(e, y, at));
    }
    emit_end(e, &p);
}

static void sru(Emit *e, const IrNode *n, bool backwards) {
    Val f = emit_base(e, n->in[0]), x = emit_base(e, n->in[1]), out = emit_base(e, n);
    Sru s = {.x_stride = emit_unit(e, n->in[1]), .backwards = backwards};
    EmitLoop row = each_row(e, n, f, out, &s.s);
    s.x = emit_at(e, x, emit_scale(e, emit_offset(e, n->type.axis, row.i), s.x_stride));
    emit_groups(e, s.s.size, sru_group, &s);
    emit_end(e, &row);
}
void emit_SRU(Emit *e, const IrNode *n) { sru(e, n, false); }
void emit_SRUGRAD(Emit *e, const IrNode *n) { sru(e, n, true); }

/* ---- over the step ---- */

void emit_LONGEST(Emit *e, const IrNode *n) {
    int axis = (int)ir_attr_i(n, "axis");
    Val most = emit_var(e, e->i64), out = emit_base(e, n);
    emit_set(e, most, emit_i64(e, 0));
    EmitLoop row = emit_for(e, emit_i64(e, 0), emit_to_i64(e, emit_step(e, STEP_rows)), 1);
    Val next = emit_add(e, row.i, emit_i64(e, 1));
    Val length = emit_sub(e, emit_offset(e, axis, next), emit_offset(e, axis, row.i)),
        old = emit_get(e, most);
    emit_set(e, most, emit_select(e, emit_icmp(e, LLVMIntSGT, length, old), length, old));
    emit_end(e, &row);
    emit_store(e, LLVMBuildSIToFP(e->b, emit_get(e, most), e->f32, ""), out);
}
