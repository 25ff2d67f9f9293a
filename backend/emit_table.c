/* Table rows: fetching a batch's unique rows, looking them up, and gathering gradients for them.
 *
 * An id's rows come from what fetch gave (then a lookup says which of them each position holds) or from a
 * whole weight (then the id itself does). Gradients are summed by unique row: its occurrences are listed in
 * one fixed order, so one thread owns the sum and repeats it in the same order always. */
#include <string.h>
#include "backend/emit.h"

void emit_FETCH(Emit *e, const IrNode *n) {
    Val lo = LLVMBuildTrunc(e->b, e->lo, e->i32, ""), hi = LLVMBuildTrunc(e->b, e->hi, e->i32, "");
    Val args[] = {e->step, emit_i32(e, ir_attr_i(n, "w")), lo, hi, emit_base(e, n), emit_i32(e, e->train)};
    emit_call(e, "rt_fetch", args, 6);
}

/* ---- looking up ---- */

/* u32 array that says, position by position, which of `rows` to take. */
static Val row_numbers(Emit *e, const IrNode *n) {
    const IrNode *id = emit_operand(e, n, 0), *rows = emit_operand(e, n, 1);
    if (rows->type.live != LIVE_UNIQ) return emit_base(e, id);
    int k = backend_input_lookup(&e->in, id, rows->type.axis, n->op == OP_EMBEDPOOL);
    return emit_step_elem(e, STEP_inputs, k);
}

static Val is_id(Emit *e, Val u32) { return emit_icmp(e, LLVMIntNE, u32, LLVMConstInt(e->i32, RT_NO_ID, 0)); }

typedef struct { Val from, to, valid; } Lookup;

static void copy_group(Emit *e, Val col, const EmitGroup *g, void *user) {
    Lookup *l = user;
    for (int i = 0; i < g->n; i++) {
        Val at = emit_add(e, col, emit_i64(e, g->first[i]));
        emit_store(e, emit_load_vec(e, emit_at(e, l->from, at), g->w[i]), emit_at(e, l->to, at));
    }
}
static void zero_group(Emit *e, Val col, const EmitGroup *g, void *user) {
    Lookup *l = user;
    for (int i = 0; i < g->n; i++)
        emit_store(e, emit_const(e, g->w[i], 0), emit_at(e, l->to, emit_add(e, col, emit_i64(e, g->first[i]))));
}

void emit_EMBED(Emit *e, const IrNode *n) {
    int64_t width = ir_type_size(n->type);
    Val numbers = row_numbers(e, n), rows = emit_base(e, n->in[1]), out = emit_base(e, n), lo, hi;
    emit_units(e, n->type, &lo, &hi);
    EmitLoop u = emit_for(e, lo, hi, 1);
    Val which = emit_load_elem(e, e->i32, numbers, u.i);
    Lookup l = {.to = emit_at(e, out, emit_scale(e, u.i, width))};
    EmitIf valid = emit_if(e, is_id(e, which));
    l.from = emit_at(e, rows, emit_scale(e, emit_to_i64(e, which), width));
    emit_groups(e, width, copy_group, &l);
    emit_else(e, &valid);
    emit_groups(e, width, zero_group, &l);
    emit_fi(e, &valid);
    emit_end(e, &u);
}

typedef struct {
    Val numbers, rows, to, first, last;
    int64_t width;
    bool mean;
} Pool;

static void pool_group(Emit *e, Val col, const EmitGroup *g, void *user) {
    Pool *p = user;
    Val acc[GROUP_PIECES];
    for (int i = 0; i < g->n; i++) {
        acc[i] = emit_var(e, emit_vec(e, g->w[i]));
        emit_set(e, acc[i], emit_const(e, g->w[i], 0));
    }
    EmitLoop k = emit_for(e, p->first, p->last, 1);
    Val which = emit_load_elem(e, e->i32, p->numbers, k.i);
    EmitIf valid = emit_if(e, is_id(e, which));
    Val row = emit_at(e, emit_at(e, p->rows, emit_scale(e, emit_to_i64(e, which), p->width)), col);
    for (int i = 0; i < g->n; i++)
        emit_set(e, acc[i], emit_fadd(e, emit_get(e, acc[i]), emit_load_vec(e, emit_at_const(e, row, g->first[i]), g->w[i])));
    emit_fi(e, &valid);
    emit_end(e, &k);
    Val length = LLVMBuildSIToFP(e->b, emit_sub(e, p->last, p->first), e->f32, "");
    length = emit_select(e, emit_icmp(e, LLVMIntEQ, p->first, p->last), emit_const(e, 1, 1), length);
    for (int i = 0; i < g->n; i++) {
        Val v = emit_get(e, acc[i]);
        if (p->mean) v = emit_fdiv(e, v, emit_splat(e, length, g->w[i]));
        emit_store(e, v, emit_at_const(e, emit_at(e, p->to, col), g->first[i]));
    }
}

void emit_EMBEDPOOL(Emit *e, const IrNode *n) {
    int axis = emit_operand(e, n, 0)->type.axis;
    Pool p = {.width = ir_type_size(n->type), .mean = !strcmp(ir_attr_s(n, "kind"), "mean")};
    p.numbers = row_numbers(e, n), p.rows = emit_base(e, n->in[1]);
    Val out = emit_base(e, n);
    EmitLoop row = emit_for(e, e->lo, e->hi, 1);
    p.first = emit_offset(e, axis, row.i), p.last = emit_offset(e, axis, emit_add(e, row.i, emit_i64(e, 1)));
    p.to = emit_at(e, out, emit_scale(e, row.i, p.width));
    emit_groups(e, p.width, pool_group, &p);
    emit_end(e, &row);
}

void emit_ONEHOT(Emit *e, const IrNode *n) {
    int64_t size = ir_type_size(n->type);
    Val ids = emit_base(e, n->in[0]), out = emit_base(e, n), lo, hi;
    emit_units(e, n->type, &lo, &hi);
    emit_fill(e, out, emit_scale(e, lo, size), emit_scale(e, hi, size), 0);
    EmitLoop u = emit_for(e, lo, hi, 1);
    Val id = emit_load_elem(e, e->i32, ids, u.i);
    EmitIf valid = emit_if(e, is_id(e, id));
    emit_store(e, emit_const(e, 1, 1), emit_at(e, out, emit_add(e, emit_scale(e, u.i, size), emit_to_i64(e, id))));
    emit_fi(e, &valid);
    emit_end(e, &u);
}

/* ---- gradients by unique row ---- */

/* A gradient as the occurrences of one lookup find it: at base + index * stride, divided by the row's length if
 * `offsets` isn't NULL. A row's gradient for positions needs the row: `row_axis`. */
typedef struct {
    const IrNode *g;
    int ordinal, mean_axis, row_axis; /* axis or -1 */
    int64_t stride;
} Source;

typedef struct {
    Source *source;
    int n, weight;
    int64_t width;
    Val start, lookup, index; /* of the table's batch */
    Val out, unique;          /* where the sum goes, and whose it is */
} Gather;

static Gather gather_of(Emit *e, const IrNode *n) {
    const int64_t *kinds = ir_attr(n, "kinds")->ilist.v;
    Gather t = {.weight = (int)ir_attr_i(n, "w"), .n = n->n_in / 2};
    const IrWeight *w = &e->p->weights[t.weight];
    t.width = 1;
    for (int i = 1; i < w->rank; i++) t.width *= w->dim[i];
    t.source = ARENA_ARRAY(e->arena, Source, t.n);
    for (int i = 0; i < t.n; i++) {
        const IrNode *id = emit_operand(e, n, 2 * i), *g = emit_operand(e, n, 2 * i + 1);
        int input = backend_input_lookup(&e->in, id, t.weight, kinds[i] != 0);
        IrLive live = kinds[i] ? LIVE_ROW : id->type.live;
        t.source[i] = (Source){.g = g, .ordinal = e->in.inputs[input].ordinal, .mean_axis = -1, .row_axis = -1};
        if (kinds[i] == 2) t.source[i].mean_axis = id->type.axis;
        if (g->type.live == LIVE_ROW || g->type.live == LIVE_POS) t.source[i].stride = t.width;
        if (live == LIVE_POS && g->type.live == LIVE_ROW) t.source[i].row_axis = id->type.axis;
    }
    t.start = emit_table(e, t.weight, TABLE_start);
    t.lookup = emit_table(e, t.weight, TABLE_occ_lookup);
    t.index = emit_table(e, t.weight, TABLE_occ_index);
    return t;
}

/* The row that holds a position: the last whose offset isn't beyond it. */
static Val row_of_position(Emit *e, int axis, Val pos) {
    Val lo = emit_var(e, e->i64), hi = emit_var(e, e->i64);
    emit_set(e, lo, emit_i64(e, 0));
    emit_set(e, hi, emit_to_i64(e, emit_step(e, STEP_rows)));
    EmitLoop bit = emit_for(e, emit_i64(e, 0), emit_i64(e, 32), 1); /* each halves the range */
    Val a = emit_get(e, lo), b = emit_get(e, hi);
    Val mid = LLVMBuildLShr(e->b, emit_add(e, a, b), emit_i64(e, 1), "");
    Val open = emit_icmp(e, LLVMIntSGT, emit_sub(e, b, a), emit_i64(e, 1));
    Val before = emit_icmp(e, LLVMIntULE, emit_offset(e, axis, mid), pos);
    emit_set(e, lo, emit_select(e, LLVMBuildAnd(e->b, open, before, ""), mid, a));
    emit_set(e, hi, emit_select(e, LLVMBuildAnd(e->b, open, LLVMBuildNot(e->b, before, ""), ""), mid, b));
    emit_end(e, &bit);
    return emit_get(e, lo);
}

static void add_source(Emit *e, Gather *t, const Source *s, Val at, Val *acc, Val col, const EmitGroup *g) {
    Val row = s->row_axis >= 0 ? row_of_position(e, s->row_axis, at) : at, scale = NULL;
    if (s->mean_axis >= 0) {
        Val next = emit_offset(e, s->mean_axis, emit_add(e, row, emit_i64(e, 1)));
        Val length = emit_sub(e, next, emit_offset(e, s->mean_axis, row));
        scale = LLVMBuildSIToFP(e->b, length, e->f32, "");
    }
    Val from = emit_at(e, emit_at(e, emit_base(e, s->g), emit_scale(e, row, s->stride)), col);
    for (int i = 0; i < g->n; i++) {
        Val v = emit_load_vec(e, emit_at_const(e, from, g->first[i]), g->w[i]);
        if (scale) v = emit_fdiv(e, v, emit_splat(e, scale, g->w[i]));
        emit_set(e, acc[i], emit_fadd(e, emit_get(e, acc[i]), v));
    }
    (void)t;
}

static void gather_group(Emit *e, Val col, const EmitGroup *g, void *user) {
    Gather *t = user;
    Val acc[GROUP_PIECES];
    for (int i = 0; i < g->n; i++) {
        acc[i] = emit_var(e, emit_vec(e, g->w[i]));
        emit_set(e, acc[i], emit_const(e, g->w[i], 0));
    }
    int lookups = 0;
    for (int i = 0; i < e->in.n; i++)
        lookups += e->in.inputs[i].kind == BE_LOOKUP && e->in.inputs[i].table == t->weight;
    Val first = emit_to_i64(e, emit_load_elem(e, e->i32, t->start, t->unique));
    Val last = emit_to_i64(e, emit_load_elem(e, e->i32, t->start, emit_add(e, t->unique, emit_i64(e, 1))));
    EmitLoop o = emit_for(e, first, last, 1);
    Val at = emit_to_i64(e, emit_load_elem(e, e->i32, t->index, o.i));
    Val ordinal = emit_load_elem(e, e->i8, t->lookup, o.i);
    for (int i = 0; i < t->n; i++) {
        if (lookups == 1) {
            add_source(e, t, &t->source[i], at, acc, col, g);
            continue;
        }
        EmitIf mine = emit_if(e, emit_icmp(e, LLVMIntEQ, ordinal, LLVMConstInt(e->i8, (uint64_t)t->source[i].ordinal, 0)));
        add_source(e, t, &t->source[i], at, acc, col, g);
        emit_fi(e, &mine);
    }
    emit_end(e, &o);
    for (int i = 0; i < g->n; i++) emit_store(e, emit_get(e, acc[i]), emit_at_const(e, emit_at(e, t->out, col), g->first[i]));
}

void emit_ROWGRAD(Emit *e, const IrNode *n) {
    Gather t = gather_of(e, n);
    Val out = emit_base(e, n);
    EmitLoop u = emit_for(e, e->lo, e->hi, 1);
    t.unique = u.i;
    t.out = emit_at(e, out, emit_scale(e, u.i, t.width));
    emit_groups(e, t.width, gather_group, &t);
    emit_end(e, &u);
}

/* Tiles of a whole table's gradient: so many of its rows. */
static int64_t rows_a_tile(const IrWeight *w) {
    int64_t width = 1;
    for (int i = 1; i < w->rank; i++) width *= w->dim[i];
    return width >= 16384 ? 1 : 16384 / width;
}

int64_t emit_dense_grad_tiles(const IrWeight *w) { return (w->dim[0] + rows_a_tile(w) - 1) / rows_a_tile(w); }

void emit_DENSEGRAD(Emit *e, const IrNode *n) {
    Gather t = gather_of(e, n);
    const IrWeight *w = &e->p->weights[t.weight];
    int64_t tile = rows_a_tile(w);
    Val out = emit_base(e, n), ids = emit_table(e, t.weight, TABLE_id);
    Val lo = emit_scale(e, e->lo, tile), hi = emit_min_i64(e, emit_scale(e, e->hi, tile), emit_i64(e, w->dim[0]));
    emit_fill(e, out, emit_scale(e, lo, t.width), emit_scale(e, hi, t.width), 0);
    EmitLoop u = emit_for(e, emit_i64(e, 0), emit_to_i64(e, emit_table(e, t.weight, TABLE_n)), 1);
    Val id = emit_to_i64(e, emit_load_elem(e, e->i32, ids, u.i));
    Val mine = LLVMBuildAnd(e->b, emit_icmp(e, LLVMIntSGE, id, lo), emit_icmp(e, LLVMIntSLT, id, hi), "");
    EmitIf own = emit_if(e, mine);
    t.unique = u.i;
    t.out = emit_at(e, out, emit_scale(e, id, t.width));
    emit_groups(e, t.width, gather_group, &t);
    emit_fi(e, &own);
    emit_end(e, &u);
}
