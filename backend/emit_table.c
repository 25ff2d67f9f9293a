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

typedef struct {
    Val from, to, valid;
} Lookup;

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
        emit_store(e, emit_const(e, g->w[i], 0),
                   emit_at(e, l->to, emit_add(e, col, emit_i64(e, g->first[i]))));
}

/* The loops stand in functions shared by all lookups of one width: a model has dozens of them. */

void emit_EMBED(Emit *e, const IrNode *n) {
    int64_t width = ir_type_size(n->type), stride = emit_unit(e, n);
    LLVMTypeRef types[] = {e->ptr, e->ptr, e->ptr, e->ptr, e->i64, e->i64};
    Val args[] = {e->step, row_numbers(e, n), emit_base(e, n->in[1]), emit_base(e, n), NULL, NULL}, f, p[6];
    EmitFn outer;
    emit_units(e, n->type, &args[4], &args[5]);
    const char *name = arena_printf(e->arena, "embed_%lld_of_%lld", (long long)width, (long long)stride);
    if (emit_shared_open(e, name, types, 6, &f, &outer)) {
        for (unsigned i = 1; i < 6; i++) p[i] = LLVMGetParam(f, i);
        EmitLoop u = emit_for(e, p[4], p[5], 1);
        Val which = emit_load_elem(e, e->i32, p[1], u.i);
        Lookup l = {.to = emit_at(e, p[3], emit_scale(e, u.i, stride))};
        EmitIf valid = emit_if(e, is_id(e, which));
        l.from = emit_at(e, p[2], emit_scale(e, emit_to_i64(e, which), width));
        emit_groups(e, width, copy_group, &l);
        emit_else(e, &valid);
        emit_groups(e, width, zero_group, &l);
        emit_fi(e, &valid);
        emit_end(e, &u);
        emit_fn_close(e, &outer);
    }
    emit_shared_call(e, f, args, 6);
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
        emit_set(
            e, acc[i],
            emit_fadd(e, emit_get(e, acc[i]), emit_load_vec(e, emit_at_const(e, row, g->first[i]), g->w[i])));
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

static Val offset_at(Emit *e, Val offsets, Val row) {
    return emit_to_i64(e, emit_load_elem(e, e->i32, offsets, row));
}

void emit_EMBEDPOOL(Emit *e, const IrNode *n) {
    const char *kind = ir_attr_s(n, "kind");
    Pool pool = {.width = ir_type_size(n->type), .mean = !strcmp(kind, "mean")};
    LLVMTypeRef types[] = {e->ptr, e->ptr, e->ptr, e->ptr, e->ptr, e->i64, e->i64};
    Val offsets = emit_offsets(e, emit_operand(e, n, 0)->type.axis), f;
    Val args[] = {e->step, row_numbers(e, n), emit_base(e, n->in[1]), emit_base(e, n), offsets, e->lo, e->hi};
    int64_t stride = emit_unit(e, n);
    const char *name =
        arena_printf(e->arena, "embed_pool_%s_%lld_of_%lld", kind, (long long)pool.width, (long long)stride);
    EmitFn outer;
    if (emit_shared_open(e, name, types, 7, &f, &outer)) {
        pool.numbers = LLVMGetParam(f, 1), pool.rows = LLVMGetParam(f, 2);
        Val out = LLVMGetParam(f, 3), off = LLVMGetParam(f, 4);
        EmitLoop row = emit_for(e, LLVMGetParam(f, 5), LLVMGetParam(f, 6), 1);
        pool.first = offset_at(e, off, row.i),
        pool.last = offset_at(e, off, emit_add(e, row.i, emit_i64(e, 1)));
        pool.to = emit_at(e, out, emit_scale(e, row.i, stride));
        emit_groups(e, pool.width, pool_group, &pool);
        emit_end(e, &row);
        emit_fn_close(e, &outer);
    }
    emit_shared_call(e, f, args, 7);
}

void emit_ONEHOT(Emit *e, const IrNode *n) {
    int64_t size = ir_type_size(n->type);
    Val ids = emit_base(e, n->in[0]), out = emit_base(e, n), lo, hi;
    emit_units(e, n->type, &lo, &hi);
    emit_fill(e, out, emit_scale(e, lo, size), emit_scale(e, hi, size), 0);
    EmitLoop u = emit_for(e, lo, hi, 1);
    Val id = emit_load_elem(e, e->i32, ids, u.i);
    EmitIf valid = emit_if(e, is_id(e, id));
    emit_store(e, emit_const(e, 1, 1),
               emit_at(e, out, emit_add(e, emit_scale(e, u.i, size), emit_to_i64(e, id))));
    emit_fi(e, &valid);
    emit_end(e, &u);
}

/* ---- gradients by unique row ---- */

/* A gradient as the occurrences of one lookup find it: at base + index * stride, divided by the row's length
 * if it is a mean's. A row's gradient for positions must find the row first. */
typedef struct {
    const IrNode *g;
    int ordinal, axis;
    bool mean, find_row;
    int64_t stride;    /* 0: one gradient for all */
    Val base, offsets; /* offsets: of the axis, if it takes part */
} Source;

typedef struct {
    Source *source;
    int n, weight, lookups;
    int64_t width;
    Val start, lookup, index; /* of the table's batch */
    Val out, unique;          /* where the sum goes, and whose it is */
} Gather;

static int64_t width_of(const IrWeight *w) {
    int64_t width = 1;
    for (int i = 1; i < w->rank; i++) width *= w->dim[i];
    return width;
}

static Source source_of(Emit *e, const IrNode *n, int i, int weight) {
    int64_t kind = ir_attr(n, "kinds")->ilist.v[i];
    const IrNode *id = emit_operand(e, n, 2 * i), *g = emit_operand(e, n, 2 * i + 1);
    int input = backend_input_lookup(&e->in, id, weight, kind != 0);
    IrLive live = kind ? LIVE_ROW : id->type.live;
    Source s = {.g = g, .ordinal = e->in.inputs[input].ordinal, .axis = id->type.axis, .mean = kind == 2};
    s.stride = g->type.live == LIVE_ALWAYS || g->type.live == LIVE_STEP ? 0 : emit_unit(e, g);
    s.find_row = live == LIVE_POS && g->type.live == LIVE_ROW;
    return s;
}

static Gather gather_of(Emit *e, const IrNode *n) {
    Gather t = {.weight = (int)ir_attr_i(n, "w"), .n = n->n_in / 2};
    t.width = width_of(&e->p->weights[t.weight]);
    t.source = ARENA_ARRAY(e->arena, Source, t.n);
    for (int i = 0; i < t.n; i++) t.source[i] = source_of(e, n, i, t.weight);
    for (int i = 0; i < e->in.n; i++)
        t.lookups += e->in.inputs[i].kind == BE_LOOKUP && e->in.inputs[i].table == t.weight;
    return t;
}

/* The row that holds a position: the last whose offset isn't beyond it. */
static Val row_of_position(Emit *e, Val offsets, Val pos) {
    Val lo = emit_var(e, e->i64), hi = emit_var(e, e->i64);
    emit_set(e, lo, emit_i64(e, 0));
    emit_set(e, hi, emit_to_i64(e, emit_step(e, STEP_rows)));
    EmitLoop bit = emit_for(e, emit_i64(e, 0), emit_i64(e, 32), 1); /* each halves the range */
    Val a = emit_get(e, lo), b = emit_get(e, hi);
    Val mid = LLVMBuildLShr(e->b, emit_add(e, a, b), emit_i64(e, 1), "");
    Val open = emit_icmp(e, LLVMIntSGT, emit_sub(e, b, a), emit_i64(e, 1));
    Val before = emit_icmp(e, LLVMIntULE, offset_at(e, offsets, mid), pos);
    emit_set(e, lo, emit_select(e, LLVMBuildAnd(e->b, open, before, ""), mid, a));
    emit_set(e, hi, emit_select(e, LLVMBuildAnd(e->b, open, LLVMBuildNot(e->b, before, ""), ""), mid, b));
    emit_end(e, &bit);
    return emit_get(e, lo);
}

static void add_source(Emit *e, const Source *s, Val at, Val *acc, Val col, const EmitGroup *g) {
    Val row = s->find_row ? row_of_position(e, s->offsets, at) : at, length = NULL;
    if (s->mean) {
        Val next = offset_at(e, s->offsets, emit_add(e, row, emit_i64(e, 1)));
        length = LLVMBuildSIToFP(e->b, emit_sub(e, next, offset_at(e, s->offsets, row)), e->f32, "");
    }
    Val from = emit_at(e, emit_at(e, s->base, emit_scale(e, row, s->stride)), col);
    for (int i = 0; i < g->n; i++) {
        Val v = emit_load_vec(e, emit_at_const(e, from, g->first[i]), g->w[i]);
        if (length) v = emit_fdiv(e, v, emit_splat(e, length, g->w[i]));
        emit_set(e, acc[i], emit_fadd(e, emit_get(e, acc[i]), v));
    }
}

static void gather_group(Emit *e, Val col, const EmitGroup *g, void *user) {
    const Gather *t = user;
    Val acc[GROUP_PIECES];
    for (int i = 0; i < g->n; i++) {
        acc[i] = emit_var(e, emit_vec(e, g->w[i]));
        emit_set(e, acc[i], emit_const(e, g->w[i], 0));
    }
    EmitLoop o = emit_for(e, offset_at(e, t->start, t->unique),
                          offset_at(e, t->start, emit_add(e, t->unique, emit_i64(e, 1))), 1);
    Val at = emit_to_i64(e, emit_load_elem(e, e->i32, t->index, o.i));
    Val ordinal = emit_load_elem(e, e->i8, t->lookup, o.i);
    for (int i = 0; i < t->n; i++) {
        if (t->lookups == 1) {
            add_source(e, &t->source[i], at, acc, col, g);
            continue;
        }
        EmitIf mine = emit_if(
            e, emit_icmp(e, LLVMIntEQ, ordinal, LLVMConstInt(e->i8, (uint64_t)t->source[i].ordinal, 0)));
        add_source(e, &t->source[i], at, acc, col, g);
        emit_fi(e, &mine);
    }
    emit_end(e, &o);
    for (int i = 0; i < g->n; i++)
        emit_store(e, emit_get(e, acc[i]), emit_at_const(e, emit_at(e, t->out, col), g->first[i]));
}

/* void gather(step, out row, unique row, start, lookup, index, then base and offsets of each source): the sum
 * of one unique row; shared by all tables that are looked up alike. */
static Val gather_function(Emit *e, const Gather *like) {
    const char *name = arena_printf(e->arena, "gather_%lld_of%d", (long long)like->width, like->lookups);
    int n = 6 + 2 * like->n;
    LLVMTypeRef *types = ARENA_ARRAY(e->arena, LLVMTypeRef, n);
    for (int i = 0; i < n; i++) types[i] = i == 2 ? e->i64 : e->ptr;
    for (int i = 0; i < like->n; i++) {
        const Source *s = &like->source[i];
        name = arena_printf(e->arena, "%s_%d%s%s_%lld", name, s->ordinal, s->mean ? "m" : "",
                            s->find_row ? "r" : "", (long long)s->stride);
    }
    Val f;
    EmitFn outer;
    if (!emit_shared_open(e, name, types, n, &f, &outer)) return f;
    Gather t = *like;
    t.source = ARENA_ARRAY(e->arena, Source, t.n);
    t.out = LLVMGetParam(f, 1), t.unique = LLVMGetParam(f, 2);
    t.start = LLVMGetParam(f, 3), t.lookup = LLVMGetParam(f, 4), t.index = LLVMGetParam(f, 5);
    for (int i = 0; i < t.n; i++) {
        t.source[i] = like->source[i];
        t.source[i].base = LLVMGetParam(f, (unsigned)(6 + 2 * i));
        t.source[i].offsets = LLVMGetParam(f, (unsigned)(7 + 2 * i));
    }
    emit_groups(e, t.width, gather_group, &t);
    emit_fn_close(e, &outer);
    return f;
}

/* Arguments that are the same for all unique rows; 1 and 2 are left to fill. */
static Val *gather_args(Emit *e, const Gather *t) {
    Val *a = ARENA_ARRAY(e->arena, Val, 6 + 2 * t->n);
    a[0] = e->step;
    a[3] = emit_table(e, t->weight, TABLE_start);
    a[4] = emit_table(e, t->weight, TABLE_occ_lookup);
    a[5] = emit_table(e, t->weight, TABLE_occ_index);
    for (int i = 0; i < t->n; i++) {
        const Source *s = &t->source[i];
        a[6 + 2 * i] = emit_base(e, s->g);
        a[7 + 2 * i] = s->mean || s->find_row ? emit_offsets(e, s->axis) : LLVMConstNull(e->ptr);
    }
    return a;
}

void emit_ROWGRAD(Emit *e, const IrNode *n) {
    Gather t = gather_of(e, n);
    Val out = emit_base(e, n), f = gather_function(e, &t), *args = gather_args(e, &t);
    EmitLoop u = emit_for(e, e->lo, e->hi, 1);
    args[1] = emit_at(e, out, emit_scale(e, u.i, t.width)), args[2] = u.i;
    emit_shared_call(e, f, args, 6 + 2 * t.n);
    emit_end(e, &u);
}

/* Tiles of a whole table's gradient: so many of its rows. */
static int64_t rows_a_tile(const IrWeight *w) {
    int64_t width = width_of(w);
    return width >= 16384 ? 1 : 16384 / width;
}

int64_t emit_dense_grad_tiles(const IrWeight *w) { return (w->dim[0] + rows_a_tile(w) - 1) / rows_a_tile(w); }

void emit_DENSEGRAD(Emit *e, const IrNode *n) {
    Gather t = gather_of(e, n);
    const IrWeight *w = &e->p->weights[t.weight];
    int64_t tile = rows_a_tile(w);
    Val out = emit_base(e, n), ids = emit_table(e, t.weight, TABLE_id), f = gather_function(e, &t),
        *args = gather_args(e, &t);
    Val lo = emit_scale(e, e->lo, tile),
        hi = emit_min_i64(e, emit_scale(e, e->hi, tile), emit_i64(e, w->dim[0]));
    emit_fill(e, out, emit_scale(e, lo, t.width), emit_scale(e, hi, t.width), 0);
    EmitLoop u = emit_for(e, emit_i64(e, 0), emit_to_i64(e, emit_table(e, t.weight, TABLE_n)), 1);
    Val id = emit_to_i64(e, emit_load_elem(e, e->i32, ids, u.i));
    Val mine = LLVMBuildAnd(e->b, emit_icmp(e, LLVMIntSGE, id, lo), emit_icmp(e, LLVMIntSLT, id, hi), "");
    EmitIf own = emit_if(e, mine);
    args[1] = emit_at(e, out, emit_scale(e, id, t.width)), args[2] = u.i;
    emit_shared_call(e, f, args, 6 + 2 * t.n);
    emit_fi(e, &own);
    emit_end(e, &u);
}
