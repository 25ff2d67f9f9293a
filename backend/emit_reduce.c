/* Reductions: inside a row, along lists, and over all rows of the step. A sum's order is fixed by its size
 * and the target's vectors alone. Sums over rows are owned by columns: a tile of columns reads all rows. */
#include <math.h>
#include "backend/emit.h"

static Val larger(Emit *e, Val a, Val b) { return emit_select(e, emit_fcmp(e, LLVMRealOGT, b, a), b, a); }
static Val plus(Emit *e, Val a, Val b) { return emit_fadd(e, a, b); }

typedef struct {
    Val (*join)(Emit *e, Val a, Val b);
    double start;
} Reducer;
static const Reducer sum_of = {plus, 0}, max_of = {larger, -INFINITY};

static Val across(Emit *e, const Reducer *r, Val v) { /* lanes, by halves */
    for (int n = emit_lanes(v); n > 1; n /= 2)
        v = r->join(e, emit_take(e, v, 0, n / 2), emit_take(e, v, n / 2, n / 2));
    return v;
}

/* ---- inside a row ---- */

typedef struct {
    const Reducer *r;
    Val base, total;
} Row;
static void row_piece(Emit *e, int first, int w, void *user) {
    Row *p = user;
    Val v = across(e, p->r, emit_load_vec(e, emit_at_const(e, p->base, first), w));
    emit_set(e, p->total, p->r->join(e, emit_get(e, p->total), v));
}

/* `size` contiguous elements to one */
static Val reduce_row(Emit *e, const Reducer *r, Val base, int64_t size) {
    int64_t whole = size / e->W * e->W;
    Row p = {r, emit_at_const(e, base, whole), emit_var(e, e->f32)};
    emit_set(e, p.total, emit_const(e, 1, r->start));
    if (whole) {
        Val acc = emit_var(e, emit_vec(e, e->W));
        emit_set(e, acc, emit_load_vec(e, base, e->W));
        EmitLoop l = emit_for(e, emit_i64(e, e->W), emit_i64(e, whole), e->W);
        emit_set(e, acc, r->join(e, emit_get(e, acc), emit_load_vec(e, emit_at(e, base, l.i), e->W)));
        emit_end(e, &l);
        emit_set(e, p.total, across(e, r, emit_get(e, acc)));
    }
    emit_pieces(e, (int)(size - whole), row_piece, &p);
    return emit_get(e, p.total);
}

typedef struct {
    const Reducer *r;
    Val from, to;
    EmitAxis a;
} Strided;

/* Columns of `inner`, each reduced along `size` rows that are `inner` apart. */
static void strided_group(Emit *e, Val col, const EmitGroup *g, void *user) {
    Strided *s = user;
    Val from = emit_at(e, s->from, col), to = emit_at(e, s->to, col), acc[GROUP_PIECES];
    for (int i = 0; i < g->n; i++) {
        acc[i] = emit_var(e, emit_vec(e, g->w[i]));
        emit_set(e, acc[i], emit_load_vec(e, emit_at_const(e, from, g->first[i]), g->w[i]));
    }
    EmitLoop k = emit_for(e, emit_i64(e, 1), emit_i64(e, s->a.size), 1);
    Val row = emit_at(e, from, emit_scale(e, k.i, s->a.inner));
    for (int i = 0; i < g->n; i++)
        emit_set(e, acc[i],
                 s->r->join(e, emit_get(e, acc[i]),
                            emit_load_vec(e, emit_at_const(e, row, g->first[i]), g->w[i])));
    emit_end(e, &k);
    for (int i = 0; i < g->n; i++) emit_store(e, emit_get(e, acc[i]), emit_at_const(e, to, g->first[i]));
}

static void reduce_axis(Emit *e, const IrNode *n, const Reducer *r) {
    EmitAxis a = emit_axis(n->in[0]->type, ir_attr_i(n, "axis"));
    Val lo, hi, x = emit_base(e, n->in[0]), out = emit_base(e, n);
    emit_units(e, n->type, &lo, &hi);
    EmitLoop o = emit_for(e, emit_scale(e, lo, a.outer), emit_scale(e, hi, a.outer), 1);
    EmitAxis one = {a.outer, 1, a.inner}; /* of the result */
    Strided s = {r, emit_at(e, x, emit_scale(e, o.i, emit_outer(e, n->in[0], &a))),
                 emit_at(e, out, emit_scale(e, o.i, emit_outer(e, n, &one))), a};
    if (a.inner == 1)
        emit_store(e, reduce_row(e, r, s.from, a.size), s.to);
    else
        emit_groups(e, a.inner, strided_group, &s);
    emit_end(e, &o);
}

void emit_SUM(Emit *e, const IrNode *n) { reduce_axis(e, n, &sum_of); }
void emit_MAXR(Emit *e, const IrNode *n) { reduce_axis(e, n, &max_of); }

/* ---- softmax: e^(x - max), then divided by its sum ---- */

static void exp_body(Emit *e, EmitNest *n, int w, void *user) {
    (void)user;
    emit_ref_store(e, n, 0,
                   emit_exp_negative(e, emit_fsub(e, emit_ref_load(e, n, 1, w), emit_ref_load(e, n, 2, w))));
}
static void div_body(Emit *e, EmitNest *n, int w, void *user) {
    (void)user;
    emit_ref_store(e, n, 0, emit_fdiv(e, emit_ref_load(e, n, 1, w), emit_ref_load(e, n, 2, w)));
}

static void softmax_row(Emit *e, const Strided *s) {
    Val memory = emit_var(e, e->f32); /* a ref wants an address */
    EmitNest n = {.n = 1, .dim = {s->a.size}, .n_ref = 3, .body = exp_body};
    n.ref[0] = (NestRef){.base = s->to, .stride = {1}};
    n.ref[1] = (NestRef){.base = s->from, .stride = {1}};
    n.ref[2] = (NestRef){.base = memory, .stride = {0}};
    emit_set(e, memory, reduce_row(e, &max_of, s->from, s->a.size));
    EmitNest exps = n, divs = n;
    emit_nest(e, &exps);
    emit_set(e, memory, reduce_row(e, &sum_of, s->to, s->a.size));
    divs.ref[1] = divs.ref[0];
    divs.body = div_body;
    emit_nest(e, &divs);
}

static void softmax_group(Emit *e, Val col, const EmitGroup *g, void *user) {
    Strided *s = user;
    Val from = emit_at(e, s->from, col), to = emit_at(e, s->to, col), zero = emit_i64(e, 0),
        size = emit_i64(e, s->a.size);
    for (int i = 0; i < g->n; i++) {
        int w = g->w[i];
        Val most = emit_var(e, emit_vec(e, w)), sum = emit_var(e, emit_vec(e, w));
        Val x = emit_at_const(e, from, g->first[i]), y = emit_at_const(e, to, g->first[i]);
        emit_set(e, most, emit_const(e, w, -INFINITY));
        emit_set(e, sum, emit_const(e, w, 0));
        EmitLoop k = emit_for(e, zero, size, 1);
        emit_set(
            e, most,
            larger(e, emit_get(e, most), emit_load_vec(e, emit_at(e, x, emit_scale(e, k.i, s->a.inner)), w)));
        emit_end(e, &k);
        k = emit_for(e, zero, size, 1);
        Val v = emit_load_vec(e, emit_at(e, x, emit_scale(e, k.i, s->a.inner)), w);
        v = emit_exp_negative(e, emit_fsub(e, v, emit_get(e, most)));
        emit_store(e, v, emit_at(e, y, emit_scale(e, k.i, s->a.inner)));
        emit_set(e, sum, emit_fadd(e, emit_get(e, sum), v));
        emit_end(e, &k);
        k = emit_for(e, zero, size, 1);
        Val at = emit_at(e, y, emit_scale(e, k.i, s->a.inner));
        emit_store(e, emit_fdiv(e, emit_load_vec(e, at, w), emit_get(e, sum)), at);
        emit_end(e, &k);
    }
}

void emit_SOFTMAX(Emit *e, const IrNode *n) {
    EmitAxis a = emit_axis(n->type, ir_attr_i(n, "axis"));
    Val lo, hi, x = emit_base(e, n->in[0]), out = emit_base(e, n);
    emit_units(e, n->type, &lo, &hi);
    EmitLoop o = emit_for(e, emit_scale(e, lo, a.outer), emit_scale(e, hi, a.outer), 1);
    Strided s = {NULL, emit_at(e, x, emit_scale(e, o.i, emit_outer(e, n->in[0], &a))),
                 emit_at(e, out, emit_scale(e, o.i, emit_outer(e, n, &a))), a};
    if (a.inner == 1)
        softmax_row(e, &s);
    else
        emit_groups(e, a.inner, softmax_group, &s);
    emit_end(e, &o);
}

/* ---- along a list ---- */

typedef struct {
    const Reducer *r;
    Val from, to, first, last; /* positions of the row */
    int64_t stride;            /* from position to position */
    bool mean;
} Segment;

static void segment_group(Emit *e, Val col, const EmitGroup *g, void *user) {
    Segment *s = user;
    Val acc[GROUP_PIECES];
    for (int i = 0; i < g->n; i++) {
        acc[i] = emit_var(e, emit_vec(e, g->w[i]));
        emit_set(e, acc[i], emit_const(e, g->w[i], s->r->start));
    }
    EmitLoop p = emit_for(e, s->first, s->last, 1);
    Val at = emit_at(e, emit_at(e, s->from, emit_scale(e, p.i, s->stride)), col);
    for (int i = 0; i < g->n; i++)
        emit_set(
            e, acc[i],
            s->r->join(e, emit_get(e, acc[i]), emit_load_vec(e, emit_at_const(e, at, g->first[i]), g->w[i])));
    emit_end(e, &p);
    Val empty = emit_icmp(e, LLVMIntEQ, s->first, s->last);
    Val count = LLVMBuildSIToFP(e->b, emit_sub(e, s->last, s->first), e->f32, "");
    for (int i = 0; i < g->n; i++) {
        Val v = emit_get(e, acc[i]);
        if (s->mean) v = emit_fdiv(e, v, emit_splat(e, count, g->w[i]));
        v = emit_select(e, empty, emit_const(e, g->w[i], 0), v);
        emit_store(e, v, emit_at_const(e, emit_at(e, s->to, col), g->first[i]));
    }
}

static void segment(Emit *e, const IrNode *n, const Reducer *r, bool mean) {
    int axis = n->in[0]->type.axis;
    int64_t size = ir_type_size(n->type);
    Val x = emit_base(e, n->in[0]), out = emit_base(e, n);
    EmitLoop row = emit_for(e, e->lo, e->hi, 1);
    Segment s = {r,
                 x,
                 emit_at(e, out, emit_scale(e, row.i, emit_unit(e, n))),
                 emit_offset(e, axis, row.i),
                 emit_offset(e, axis, emit_add(e, row.i, emit_i64(e, 1))),
                 emit_unit(e, n->in[0]),
                 mean};
    emit_groups(e, size, segment_group, &s);
    emit_end(e, &row);
}

void emit_SEGSUM(Emit *e, const IrNode *n) { segment(e, n, &sum_of, false); }
void emit_SEGMEAN(Emit *e, const IrNode *n) { segment(e, n, &sum_of, true); }
void emit_SEGMAX(Emit *e, const IrNode *n) { segment(e, n, &max_of, false); }

/* ---- over the step ---- */

enum { CHAINS = 4 }; /* partial sums that run side by side: rows 0, 4, 8 …; 1, 5, 9 …; and so on */

typedef struct {
    Val x, out, units, divide;
    int64_t stride; /* of x, from unit to unit */
} OverRows;

static void rows_group(Emit *e, Val col, const EmitGroup *g, void *user) {
    OverRows *o = user;
    Val acc[CHAINS][GROUP_PIECES], x = emit_at(e, o->x, col);
    for (int c = 0; c < CHAINS; c++)
        for (int i = 0; i < g->n; i++) {
            acc[c][i] = emit_var(e, emit_vec(e, g->w[i]));
            emit_set(e, acc[c][i], emit_const(e, g->w[i], 0));
        }
    Val whole = LLVMBuildAnd(e->b, o->units, emit_i64(e, -CHAINS), "");
    for (int part = 0; part < 2; part++) {
        EmitLoop m = part ? emit_for(e, whole, o->units, 1) : emit_for(e, emit_i64(e, 0), whole, CHAINS);
        for (int c = 0; c < (part ? 1 : CHAINS); c++) {
            Val at = emit_at(e, x, emit_scale(e, emit_add(e, m.i, emit_i64(e, c)), o->stride));
            for (int i = 0; i < g->n; i++) {
                Val v = emit_load_vec(e, emit_at_const(e, at, g->first[i]), g->w[i]);
                emit_set(e, acc[c][i], emit_fadd(e, emit_get(e, acc[c][i]), v));
            }
        }
        emit_end(e, &m);
    }
    for (int i = 0; i < g->n; i++) {
        Val low = emit_fadd(e, emit_get(e, acc[0][i]), emit_get(e, acc[1][i]));
        Val v = emit_fadd(e, low, emit_fadd(e, emit_get(e, acc[2][i]), emit_get(e, acc[3][i])));
        if (o->divide) v = emit_fdiv(e, v, emit_splat(e, o->divide, g->w[i]));
        Val to = emit_at_const(e, emit_at(e, o->out, col), g->first[i]);
        emit_store(e, emit_grown(e, v, to), to);
    }
}

/* What is summed up: `units` of them from x on, column tiles lo to hi-1. */
typedef struct {
    Val x, units, out, lo, hi;
    int64_t size, stride;
    bool mean;
} Sum;

/* One function for all sums of one size: a model has dozens of biases. */
static void run_sum(Emit *e, const Sum *s) {
    int64_t size = s->size, stride = s->stride;
    bool mean = s->mean;
    LLVMTypeRef types[] = {e->ptr, e->ptr, e->ptr, e->i64, e->f32, e->i64, e->i64};
    Val args[] = {e->step, s->x, s->out, s->units, emit_to_f32(e, emit_step(e, STEP_rows)), s->lo, s->hi};
    const char *name = arena_printf(e->arena, "%s_%lld_of_%lld%s", mean ? "mean_rows" : "sum_rows",
                                    (long long)size, (long long)stride, emit_more(e) ? "_more" : "");
    Val f;
    EmitFn outer;
    if (emit_shared_open(e, name, types, 7, &f, &outer)) {
        OverRows o = {LLVMGetParam(f, 1), LLVMGetParam(f, 2), LLVMGetParam(f, 3),
                      mean ? LLVMGetParam(f, 4) : NULL, stride};
        emit_columns(e, size, LLVMGetParam(f, 5), LLVMGetParam(f, 6), rows_group, &o);
        emit_fn_close(e, &outer);
    }
    emit_shared_call(e, f, args, 7);
}

static void over_rows(Emit *e, const IrNode *n, Val out, bool mean) {
    Sum s = {.x = emit_first_of(e, n->in[0]), .units = emit_unit_count(e, n->in[0]->type), .out = out};
    s.lo = e->lo, s.hi = e->hi, s.size = ir_type_size(n->type), s.stride = emit_unit(e, n->in[0]);
    s.mean = mean;
    run_sum(e, &s);
}

/* ---- in two halves: each block of rows behind the kernel that made it, then the blocks ---- */

Val emit_blocks(Emit *e, const IrNode *n) {
    Val rows = emit_unit_count(e, (IrType){.live = LIVE_ROW});
    int64_t block = ir_block_rows(n);
    return emit_udiv(e, emit_add(e, rows, emit_i64(e, block - 1)), emit_i64(e, block));
}

Val emit_block_part(Emit *e, const IrNode *n) {
    Val block = emit_udiv(e, e->lo, emit_i64(e, ir_block_rows(n)));
    return emit_at(e, emit_base(e, n), emit_scale(e, block, ir_type_size(n->type) / n->type.dim[0]));
}

void emit_BLOCKSUMS(Emit *e, const IrNode *n) {
    Val lo, hi;
    Sum s = {.size = ir_type_size(n->in[0]->type), .stride = emit_unit(e, n->in[0])};
    emit_units(e, n->in[0]->type, &lo, &hi);
    s.x = emit_at(e, emit_base(e, n->in[0]), emit_scale(e, lo, s.stride));
    s.units = emit_sub(e, hi, lo), s.out = emit_block_part(e, n);
    s.lo = emit_i64(e, 0), s.hi = emit_i64(e, emit_column_tiles(s.size));
    run_sum(e, &s);
}

static void over_blocks(Emit *e, const IrNode *n, Val out) {
    Sum s = {.x = emit_base(e, n->in[0]), .units = emit_blocks(e, n), .out = out, .lo = e->lo, .hi = e->hi};
    s.size = s.stride = ir_type_size(n->type);
    run_sum(e, &s);
}

void emit_sum_tiles(Emit *e, const IrNode *n, Val out) {
    if (n->op == OP_SUMBLOCKS)
        over_blocks(e, n, out);
    else
        over_rows(e, n, out, false);
}
void emit_SUMROWS(Emit *e, const IrNode *n) { emit_sum_tiles(e, n, emit_base(e, n)); }
void emit_SUMBLOCKS(Emit *e, const IrNode *n) { emit_sum_tiles(e, n, emit_base(e, n)); }
void emit_MEANROWS(Emit *e, const IrNode *n) { over_rows(e, n, emit_base(e, n), true); }

void emit_SUMSQ(Emit *e, const IrNode *n) {
    IrType t = n->in[0]->type;
    Val x = emit_first_of(e, n->in[0]), count = emit_scale(e, emit_unit_count(e, t), ir_type_size(t)),
        acc[CHAINS], out = emit_base(e, n);
    for (int c = 0; c < CHAINS; c++) {
        acc[c] = emit_var(e, emit_vec(e, e->W));
        emit_set(e, acc[c], emit_const(e, e->W, 0));
    }
    Val whole = emit_mul(e, emit_udiv(e, count, emit_i64(e, CHAINS * e->W)), emit_i64(e, CHAINS * e->W));
    EmitLoop l = emit_for(e, emit_i64(e, 0), whole, (int64_t)CHAINS * e->W);
    for (int c = 0; c < CHAINS; c++) {
        Val v = emit_load_vec(e, emit_at_const(e, emit_at(e, x, l.i), (int64_t)c * e->W), e->W);
        emit_set(e, acc[c], emit_fma(e, v, v, emit_get(e, acc[c])));
    }
    emit_end(e, &l);
    Val low = emit_fadd(e, emit_get(e, acc[0]), emit_get(e, acc[1])), rest = emit_var(e, e->f32);
    emit_set(e, rest,
             emit_hsum(e, emit_fadd(e, low, emit_fadd(e, emit_get(e, acc[2]), emit_get(e, acc[3])))));
    EmitLoop r = emit_for(e, whole, count, 1);
    Val v = emit_load_vec(e, emit_at(e, x, r.i), 1);
    emit_set(e, rest, emit_fma(e, v, v, emit_get(e, rest)));
    emit_end(e, &r);
    bool rows = t.live == LIVE_ROW || t.live == LIVE_POS;
    emit_store(e, rows ? emit_grown(e, emit_get(e, rest), out) : emit_get(e, rest), out);
}
