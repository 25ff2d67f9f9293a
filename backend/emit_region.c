/* Regions that end in a reduction: what is reduced is computed where it is added up, and never stands in
 * memory. A sum's order is that of the same reduction without a region (emit_reduce.c), so its bits are, too.
 * Attention's are not: its weights are divided by their sum once, at the end. */
#include <math.h>
#include <string.h>
#include "backend/emit.h"

enum { MAX_LEAVES = 32 };

typedef struct {
    const IrNode *arg;
    Val base;
    int64_t step[IR_WALK_STEPS];
    int64_t row_size; /* not 0: a row's value among positions, of that many elements */
    Val at;           /* of the present row, unit and outer index */
} Leaf;

typedef struct {
    IrReduction red;
    EmitBody body;
    bool max;
    Leaf leaf[MAX_LEAVES];
    int n_leaf;
    Val out;
    /* where the body is being emitted */
    bool lanes_along; /* a vector's lanes are neighbours along the reduction, else behind it */
    Val along, col;
    int first;
    /* what is summed up: positions of a row, or all of the step's units */
    Val from, to;
} Region;

/* ---- the body at one place ---- */

static Val leaf_value(Emit *e, const IrNode *n, int w, void *user) {
    Region *r = user;
    const Leaf *l = r->leaf;
    while (l->arg != n) l++;
    Val at = l->at;
    if (l->step[WALK_ALONG]) at = emit_at(e, at, emit_scale(e, r->along, l->step[WALK_ALONG]));
    if (l->step[WALK_INNER]) at = emit_at_const(e, emit_at(e, at, r->col), r->first);
    if (w == 1 || l->step[r->lanes_along ? WALK_ALONG : WALK_INNER]) return emit_load_vec(e, at, w);
    return emit_splat(e, emit_load_vec(e, at, 1), w);
}

static Val value(Emit *e, Region *r, Val along, Val col, int first, int w) {
    r->along = along, r->col = col, r->first = first;
    return emit_body_value(e, &r->body, w);
}

static Val larger(Emit *e, Val a, Val b) { return emit_select(e, emit_fcmp(e, LLVMRealOGT, b, a), b, a); }
static Val join(Emit *e, const Region *r, Val a, Val b) {
    return r->max ? larger(e, a, b) : emit_fadd(e, a, b);
}
static void join_to(Emit *e, const Region *r, Val var, Val v) {
    emit_set(e, var, join(e, r, emit_get(e, var), v));
}

static Val across(Emit *e, bool max, Val v) { /* lanes, by halves */
    for (int n = emit_lanes(v); n > 1; n /= 2) {
        Val low = emit_take(e, v, 0, n / 2), high = emit_take(e, v, n / 2, n / 2);
        v = max ? larger(e, low, high) : emit_fadd(e, low, high);
    }
    return v;
}

static Val start(Emit *e, int w, double v) {
    Val var = emit_var(e, emit_vec(e, w));
    emit_set(e, var, emit_const(e, w, v));
    return var;
}

static Val next(Emit *e, Val i) { return emit_add(e, i, emit_i64(e, 1)); }

/* ---- along an axis inside a row ---- */

typedef struct {
    Region *r;
    Val total, to;
} Line;

static void line_piece(Emit *e, int first, int w, void *user) {
    Line *l = user;
    Region *r = l->r;
    int64_t whole = r->red.size / e->W * e->W;
    join_to(e, r, l->total, across(e, r->max, value(e, r, emit_i64(e, whole + first), NULL, 0, w)));
}

/* The last axis: lanes are added up among themselves. */
static void line(Emit *e, Region *r, Val to) {
    int64_t whole = r->red.size / e->W * e->W;
    Line l = {r, start(e, 1, r->max ? -INFINITY : 0), to};
    r->lanes_along = true;
    if (whole) {
        Val acc = emit_var(e, emit_vec(e, e->W));
        emit_set(e, acc, value(e, r, emit_i64(e, 0), NULL, 0, e->W));
        EmitLoop k = emit_for(e, emit_i64(e, e->W), emit_i64(e, whole), e->W);
        join_to(e, r, acc, value(e, r, k.i, NULL, 0, e->W));
        emit_end(e, &k);
        emit_set(e, l.total, across(e, r->max, emit_get(e, acc)));
    }
    emit_pieces(e, (int)(r->red.size - whole), line_piece, &l);
    emit_store(e, emit_get(e, l.total), to);
}

/* Another axis: columns side by side. */
static void columns_group(Emit *e, Val col, const EmitGroup *g, void *user) {
    Line *l = user;
    Region *r = l->r;
    Val acc[GROUP_PIECES];
    for (int i = 0; i < g->n; i++) {
        acc[i] = emit_var(e, emit_vec(e, g->w[i]));
        emit_set(e, acc[i], value(e, r, emit_i64(e, 0), col, g->first[i], g->w[i]));
    }
    EmitLoop k = emit_for(e, emit_i64(e, 1), emit_i64(e, r->red.size), 1);
    for (int i = 0; i < g->n; i++) join_to(e, r, acc[i], value(e, r, k.i, col, g->first[i], g->w[i]));
    emit_end(e, &k);
    for (int i = 0; i < g->n; i++)
        emit_store(e, emit_get(e, acc[i]), emit_at_const(e, emit_at(e, l->to, col), g->first[i]));
}

static bool by_row(const Region *r) {
    for (int i = 0; i < r->n_leaf; i++)
        if (r->leaf[i].row_size) return true;
    return false;
}

/* All leaves at a row (NULL: none walks rows), and at `steps` of what `walk` names behind that. */
static void move_leaves(Emit *e, Region *r, Val row) {
    for (int i = 0; i < r->n_leaf; i++) {
        Leaf *l = &r->leaf[i];
        l->at = l->row_size ? emit_at(e, l->base, emit_scale(e, row, l->row_size)) : l->base;
    }
}
static void step_leaves(Emit *e, Region *r, int walk, Val steps) {
    for (int i = 0; i < r->n_leaf; i++)
        if (r->leaf[i].step[walk])
            r->leaf[i].at = emit_at(e, r->leaf[i].at, emit_scale(e, steps, r->leaf[i].step[walk]));
}

/* Units lo..hi-1, whose leaves' row stands in `at`. */
static void axis_units(Emit *e, Region *r, Val lo, Val hi) {
    const IrReduction *d = &r->red;
    Val at[MAX_LEAVES];
    for (int i = 0; i < r->n_leaf; i++) at[i] = r->leaf[i].at;
    EmitLoop unit = emit_for(e, lo, hi, 1);
    step_leaves(e, r, WALK_UNIT, unit.i);
    EmitLoop outer = emit_for(e, emit_i64(e, 0), emit_i64(e, d->outer), 1);
    step_leaves(e, r, WALK_OUTER, outer.i);
    Val result = emit_add(e, emit_scale(e, unit.i, d->outer), outer.i);
    Line l = {r, NULL, emit_at(e, r->out, emit_scale(e, result, d->inner))};
    if (d->inner == 1)
        line(e, r, l.to);
    else
        emit_groups(e, d->inner, columns_group, &l);
    emit_end(e, &outer);
    emit_end(e, &unit);
    for (int i = 0; i < r->n_leaf; i++) r->leaf[i].at = at[i];
}

static void along_axis(Emit *e, Region *r) {
    Val lo, hi;
    if (!by_row(r)) {
        emit_units(e, r->red.of, &lo, &hi);
        move_leaves(e, r, NULL);
        axis_units(e, r, lo, hi);
        return;
    }
    EmitLoop row = emit_for(e, e->lo, e->hi, 1);
    move_leaves(e, r, row.i);
    axis_units(e, r, emit_offset(e, r->red.of.axis, row.i), emit_offset(e, r->red.of.axis, next(e, row.i)));
    emit_end(e, &row);
}

/* ---- along a list ---- */

/* Stores 0 of an empty list, else v. */
static void store_unless_empty(Emit *e, const Region *r, Val v, Val to) {
    Val empty = emit_icmp(e, LLVMIntEQ, r->from, r->to);
    emit_store(e, emit_select(e, empty, emit_like(e, v, 0), v), to);
}

static void list_group(Emit *e, Val col, const EmitGroup *g, void *user) {
    Line *l = user;
    Region *r = l->r;
    Val acc[GROUP_PIECES];
    for (int i = 0; i < g->n; i++) acc[i] = start(e, g->w[i], r->max ? -INFINITY : 0);
    EmitLoop p = emit_for(e, r->from, r->to, 1);
    for (int i = 0; i < g->n; i++) join_to(e, r, acc[i], value(e, r, p.i, col, g->first[i], g->w[i]));
    emit_end(e, &p);
    Val count = LLVMBuildSIToFP(e->b, emit_sub(e, r->to, r->from), e->f32, "");
    for (int i = 0; i < g->n; i++) {
        Val v = emit_get(e, acc[i]);
        if (r->red.last->op == OP_SEGMEAN) v = emit_fdiv(e, v, emit_splat(e, count, g->w[i]));
        store_unless_empty(e, r, v, emit_at_const(e, emit_at(e, l->to, col), g->first[i]));
    }
}

static void along_list(Emit *e, Region *r, EmitGroupBody group) {
    int axis = r->red.of.axis;
    EmitLoop row = emit_for(e, e->lo, e->hi, 1);
    r->from = emit_offset(e, axis, row.i), r->to = emit_offset(e, axis, next(e, row.i));
    move_leaves(e, r, row.i);
    Line l = {r, NULL, emit_at(e, r->out, emit_scale(e, row.i, r->red.inner))};
    emit_groups(e, r->red.inner, group, &l);
    emit_end(e, &row);
}

/* ---- attention: e^(x - max) v added up, divided by the sum of e^(x - max) ---- */

typedef struct {
    Val x, most; /* address of a row's scores; their largest */
    Val sums[2]; /* of e^(x - most): a vector of positions at a time, the rest one by one */
    Val acc[GROUP_PIECES];
} Weighed;

static Val scores(Emit *e, const Weighed *a, Val position, int w) {
    return emit_load_vec(e, emit_at(e, a->x, position), w);
}

static Val largest(Emit *e, const Region *r, const Weighed *a, Val whole) {
    Val most[2] = {start(e, e->W, -INFINITY), start(e, 1, -INFINITY)};
    for (int rest = 0; rest < 2; rest++) {
        int w = rest ? 1 : e->W;
        EmitLoop p = emit_for(e, rest ? whole : r->from, rest ? r->to : whole, w);
        emit_set(e, most[rest], larger(e, emit_get(e, most[rest]), scores(e, a, p.i, w)));
        emit_end(e, &p);
    }
    return larger(e, across(e, true, emit_get(e, most[0])), emit_get(e, most[1]));
}

static Val exps(Emit *e, Weighed *a, Val position, bool rest) {
    int w = rest ? 1 : e->W;
    Val v = emit_exp_negative(e, emit_fsub(e, scores(e, a, position, w), emit_splat(e, a->most, w)));
    emit_set(e, a->sums[rest], emit_fadd(e, emit_get(e, a->sums[rest]), v));
    return v;
}

static void weigh(Emit *e, Region *r, Weighed *a, Val weight, Val position, Val col, const EmitGroup *g) {
    for (int i = 0; i < g->n; i++) {
        Val v = value(e, r, position, col, g->first[i], g->w[i]);
        emit_set(e, a->acc[i], emit_fma(e, emit_splat(e, weight, g->w[i]), v, emit_get(e, a->acc[i])));
    }
}

static void attention_group(Emit *e, Val col, const EmitGroup *g, void *user) {
    Line *l = user;
    Region *r = l->r;
    const IrNode *x = emit_operand(e, r->red.weight, 0);
    Weighed a = {.x = emit_base(e, x), .sums = {start(e, e->W, 0), start(e, 1, 0)}};
    Val count = emit_sub(e, r->to, r->from);
    Val whole = emit_add(e, r->from, LLVMBuildAnd(e->b, count, emit_i64(e, -(int64_t)e->W), ""));
    for (int i = 0; i < g->n; i++) a.acc[i] = start(e, g->w[i], 0);
    a.most = largest(e, r, &a, whole);
    Val some = emit_var(e, emit_vec(e, e->W)); /* a vector of weights, to be taken one by one */
    EmitLoop p = emit_for(e, r->from, whole, e->W);
    emit_set(e, some, exps(e, &a, p.i, false));
    EmitLoop k = emit_for(e, emit_i64(e, 0), emit_i64(e, e->W), 1);
    weigh(e, r, &a, emit_load_vec(e, emit_at(e, some, k.i), 1), emit_add(e, p.i, k.i), col, g);
    emit_end(e, &k);
    emit_end(e, &p);
    p = emit_for(e, whole, r->to, 1);
    weigh(e, r, &a, exps(e, &a, p.i, true), p.i, col, g);
    emit_end(e, &p);
    Val sum = emit_fadd(e, across(e, false, emit_get(e, a.sums[0])), emit_get(e, a.sums[1]));
    for (int i = 0; i < g->n; i++) {
        Val v = emit_fdiv(e, emit_get(e, a.acc[i]), emit_splat(e, sum, g->w[i]));
        store_unless_empty(e, r, v, emit_at_const(e, emit_at(e, l->to, col), g->first[i]));
    }
}

/* ---- over the step's rows ---- */

enum { CHAINS = 4 }; /* as in emit_reduce.c */

static void rows_group(Emit *e, Val col, const EmitGroup *g, void *user) {
    Line *l = user;
    Region *r = l->r;
    Val acc[CHAINS][GROUP_PIECES], whole = LLVMBuildAnd(e->b, r->to, emit_i64(e, -CHAINS), "");
    for (int c = 0; c < CHAINS; c++)
        for (int i = 0; i < g->n; i++) acc[c][i] = start(e, g->w[i], 0);
    for (int rest = 0; rest < 2; rest++) {
        EmitLoop m = rest ? emit_for(e, whole, r->to, 1) : emit_for(e, emit_i64(e, 0), whole, CHAINS);
        for (int c = 0; c < (rest ? 1 : CHAINS); c++)
            for (int i = 0; i < g->n; i++)
                join_to(e, r, acc[c][i],
                        value(e, r, emit_add(e, m.i, emit_i64(e, c)), col, g->first[i], g->w[i]));
        emit_end(e, &m);
    }
    for (int i = 0; i < g->n; i++) {
        Val low = emit_fadd(e, emit_get(e, acc[0][i]), emit_get(e, acc[1][i]));
        Val v = emit_fadd(e, low, emit_fadd(e, emit_get(e, acc[2][i]), emit_get(e, acc[3][i])));
        Val to = emit_at_const(e, emit_at(e, l->to, col), g->first[i]);
        emit_store(e, emit_grown(e, v, to), to);
    }
}

static void over_rows(Emit *e, Region *r) {
    for (int i = 0; i < r->n_leaf; i++)
        r->leaf[i].at = r->leaf[i].step[WALK_ALONG] ? emit_first_of(e, r->leaf[i].arg) : r->leaf[i].base;
    r->to = emit_unit_count(e, r->red.of);
    Line l = {r, NULL, r->out};
    emit_columns(e, r->red.inner, e->lo, e->hi, rows_group, &l);
}

/* Of the kernel's own block of rows, all columns. */
static void over_block(Emit *e, Region *r, const IrNode *n) {
    Val lo, hi;
    emit_units(e, r->red.of, &lo, &hi);
    for (int i = 0; i < r->n_leaf; i++) {
        Leaf *l = &r->leaf[i];
        l->at = l->step[WALK_ALONG] ? emit_at(e, l->base, emit_scale(e, lo, l->step[WALK_ALONG])) : l->base;
    }
    r->to = emit_sub(e, hi, lo);
    Line l = {r, NULL, emit_block_part(e, n)};
    int64_t tiles = emit_column_tiles(r->red.inner);
    emit_columns(e, r->red.inner, emit_i64(e, 0), emit_i64(e, tiles), rows_group, &l);
}

/* ---- the kernel ---- */

static void find_leaves(Emit *e, Region *r, const IrBody *b) {
    for (int i = 0; i < b->n; i++) {
        const IrNode *n = b->nodes[i];
        if (n->op != OP_ARG) continue;
        if (r->n_leaf == MAX_LEAVES) {
            diag_error(e->p->diag, n->span, NULL, "internal: a region with more than %d operands",
                       MAX_LEAVES);
            return;
        }
        Leaf *l = &r->leaf[r->n_leaf++];
        *l = (Leaf){.arg = n, .base = emit_base(e, n)};
        ir_walk(&r->red, n->type, l->step); /* the verifier has seen to it */
        if (r->red.of.live == LIVE_POS && n->type.live == LIVE_ROW) l->row_size = ir_type_size(n->type);
    }
}

void emit_reduction(Emit *e, const IrNode *n) {
    const IrNode *last = n->body->nodes[n->body->n - 1];
    Region r = {.red = ir_reduction(last), .max = last->op == OP_MAXR || last->op == OP_SEGMAX};
    bool attention = !strcmp(ir_attr_s(n, "kind"), "attention");
    r.body = (EmitBody){
        .root = attention ? r.red.value : last->in[0], .whole = true, .leaf = leaf_value, .user = &r};
    r.out = emit_base(e, n);
    find_leaves(e, &r, n->body);
    if (last->op == OP_SUMROWS)
        over_rows(e, &r);
    else if (last->op == OP_BLOCKSUMS)
        over_block(e, &r, n);
    else if (r.red.axis >= 0)
        along_axis(e, &r);
    else
        along_list(e, &r, attention ? attention_group : list_group);
}
