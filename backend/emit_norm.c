/* Batch normalisation in training. Statistics and their gradients are owned by columns (channels): a tile
 * reads all rows, in two passes for the variance. The row-wise halves first make what is the same for all
 * rows of a channel, in scratch. */
#include "backend/emit.h"

/* BATCHNORM itself never reaches the backend: differentiate has replaced it. */
void emit_BATCHNORM(Emit *e, const IrNode *n) {
    diag_error(e->p->diag, n->span, NULL, "internal: batchnorm must be gone before code is made");
}

enum { CHAINS = 4 }; /* partial sums side by side, as in emit_reduce.c */

/* How x's rows (positions, and leading dimensions in them) are walked by column tiles. */
typedef struct {
    IrType t, tg; /* of x, and of a gradient that may live less often */
    int64_t k;
    int64_t x_unit, g_unit; /* floats from unit to unit; with leading dimensions x's units are contiguous */
    Val x, g, rows;         /* rows: of channels */
    Val first_row, batch_rows; /* of the step or block */
    Val stats, out;
    double eps;
} Columns;

/* Where a block's two numbers a channel begin; all rows are one block, unless there are micro-batches. */
static Val of_block(Emit *e, const IrNode *n) {
    Val base = emit_base(e, n);
    if (n->type.rank != 3) return base;
    Val block = emit_to_i64(e, emit_step(e, STEP_block));
    return emit_at(e, base, emit_scale(e, block, 2 * ir_type_width(n->type)));
}

static Columns columns_of(Emit *e, const IrNode *n) {
    Columns c = {.t = n->in[0]->type, .x = emit_first_of(e, n->in[0])};
    c.k = ir_type_width(c.t);
    c.x_unit = emit_unit(e, n->in[0]);
    c.rows = emit_scale(e, emit_unit_count(e, c.t), ir_type_size(c.t) / c.k);
    return c;
}

static Val count_of(Emit *e, Val rows) { /* as float, at least 1 */
    Val none = emit_icmp(e, LLVMIntEQ, rows, emit_i64(e, 0));
    return LLVMBuildSIToFP(e->b, emit_select(e, none, emit_i64(e, 1), rows), e->f32, "");
}

/* ---- statistics ---- */

/* Sum over rows of (x - shift), or of its square, for one piece. */
static Val column_sum(Emit *e, const Columns *c, Val at, int w, Val shift, bool square) {
    Val acc[CHAINS], whole = LLVMBuildAnd(e->b, c->rows, emit_i64(e, -CHAINS), "");
    for (int i = 0; i < CHAINS; i++) {
        acc[i] = emit_var(e, emit_vec(e, w));
        emit_set(e, acc[i], emit_const(e, w, 0));
    }
    for (int part = 0; part < 2; part++) {
        EmitLoop m = part ? emit_for(e, whole, c->rows, 1) : emit_for(e, emit_i64(e, 0), whole, CHAINS);
        for (int i = 0; i < (part ? 1 : CHAINS); i++) {
            Val row = emit_add(e, m.i, emit_i64(e, i));
            int64_t stride = ir_type_size(c->t) > c->k ? c->k : c->x_unit;
            Val v = emit_load_vec(e, emit_at(e, emit_at(e, c->x, emit_scale(e, row, stride)), at), w);
            if (shift) v = emit_fsub(e, v, shift);
            Val sum = emit_get(e, acc[i]);
            emit_set(e, acc[i], square ? emit_fma(e, v, v, sum) : emit_fadd(e, v, sum));
        }
        emit_end(e, &m);
    }
    Val low = emit_fadd(e, emit_get(e, acc[0]), emit_get(e, acc[1]));
    return emit_fadd(e, low, emit_fadd(e, emit_get(e, acc[2]), emit_get(e, acc[3])));
}

static void stats_group(Emit *e, Val col, const EmitGroup *g, void *user) {
    const Columns *c = user;
    for (int i = 0; i < g->n; i++) {
        int w = g->w[i];
        Val at = emit_add(e, col, emit_i64(e, g->first[i])), count = emit_splat(e, count_of(e, c->rows), w);
        Val mean = emit_fdiv(e, column_sum(e, c, at, w, NULL, false), count);
        Val var = emit_fdiv(e, column_sum(e, c, at, w, mean, true), count);
        emit_store(e, mean, emit_at(e, c->out, at));
        emit_store(e, var, emit_at(e, emit_at_const(e, c->out, c->k), at));
    }
}

void emit_BNSTATS(Emit *e, const IrNode *n) {
    Columns c = columns_of(e, n);
    c.out = of_block(e, n);
    emit_columns(e, c.k, e->lo, e->hi, stats_group, &c);
}

/* Of the kernel's own block of rows. */
void emit_BNBLOCKSTATS(Emit *e, const IrNode *n) {
    Columns c = columns_of(e, n);
    c.x = emit_at(e, emit_base(e, n->in[0]), emit_scale(e, e->lo, c.x_unit));
    c.rows = emit_sub(e, e->hi, e->lo), c.out = emit_block_part(e, n);
    emit_columns(e, c.k, emit_i64(e, 0), emit_i64(e, emit_column_tiles(c.k)), stats_group, &c);
}

/* The blocks' statistics as one (Chan, Golub, LeVeque 1983): each counts by its share of the rows. */
typedef struct {
    Val x, out, blocks, all;
    int64_t k, rows;
} Join;

static Val share_of(Emit *e, const Join *j, Val block, int w) {
    Val first = emit_scale(e, block, j->rows), left = emit_sub(e, j->all, first);
    Val rows = emit_min_i64(e, left, emit_i64(e, j->rows));
    return emit_splat(e, emit_fdiv(e, LLVMBuildSIToFP(e->b, rows, e->f32, ""), count_of(e, j->all)), w);
}

static void join_group(Emit *e, Val col, const EmitGroup *g, void *user) {
    const Join *j = user;
    for (int i = 0; i < g->n; i++) {
        int w = g->w[i];
        Val at = emit_add(e, col, emit_i64(e, g->first[i])), sum[2];
        for (int pass = 0; pass < 2; pass++) {
            sum[pass] = emit_var(e, emit_vec(e, w));
            emit_set(e, sum[pass], emit_const(e, w, 0));
            EmitLoop b = emit_for(e, emit_i64(e, 0), j->blocks, 1);
            Val from = emit_at(e, emit_at(e, j->x, emit_scale(e, b.i, 2 * j->k)), at);
            Val v = emit_load_vec(e, from, w);
            if (pass) {
                Val d = emit_fsub(e, v, emit_get(e, sum[0]));
                v = emit_fma(e, d, d, emit_load_vec(e, emit_at_const(e, from, j->k), w));
            }
            emit_set(e, sum[pass], emit_fma(e, share_of(e, j, b.i, w), v, emit_get(e, sum[pass])));
            emit_end(e, &b);
        }
        emit_store(e, emit_get(e, sum[0]), emit_at(e, j->out, at));
        emit_store(e, emit_get(e, sum[1]), emit_at(e, emit_at_const(e, j->out, j->k), at));
    }
}

void emit_BNJOINSTATS(Emit *e, const IrNode *n) {
    Join j = {.x = emit_base(e, n->in[0]), .out = emit_base(e, n), .blocks = emit_blocks(e, n)};
    j.k = ir_type_width(n->type), j.rows = ir_attr_i(n, "rows");
    j.all = emit_unit_count(e, (IrType){.live = LIVE_ROW});
    emit_columns(e, j.k, e->lo, e->hi, join_group, &j);
}

/* ---- sums of gradients: g, and g * xhat ---- */

static bool coarse(IrType t) { return t.live == LIVE_ALWAYS || t.live == LIVE_STEP; }

/* Loops over rows, the units in them and leading dimensions; g may be a row's for positions, or one for all.
 */
static void grad_group(Emit *e, Val col, const EmitGroup *p, void *user) {
    const Columns *c = user;
    bool pos = c->t.live == LIVE_POS;
    int64_t lead = ir_type_size(c->t) / c->k;
    Val zero = emit_i64(e, 0), one = emit_i64(e, 1), sum[GROUP_PIECES], dot[GROUP_PIECES], mean[GROUP_PIECES];
    for (int i = 0; i < p->n; i++) {
        sum[i] = emit_var(e, emit_vec(e, p->w[i]));
        dot[i] = emit_var(e, emit_vec(e, p->w[i]));
        emit_set(e, sum[i], emit_const(e, p->w[i], 0));
        emit_set(e, dot[i], emit_const(e, p->w[i], 0));
        mean[i] = emit_load_vec(e, emit_at_const(e, emit_at(e, c->stats, col), p->first[i]), p->w[i]);
    }
    EmitLoop row = emit_for(e, c->first_row, emit_add(e, c->first_row, c->batch_rows), 1);
    Val next = emit_add(e, row.i, one);
    EmitLoop unit = emit_for(e, pos ? emit_offset(e, c->t.axis, row.i) : row.i,
                             pos ? emit_offset(e, c->t.axis, next) : next, 1);
    EmitLoop l = emit_for(e, zero, emit_i64(e, lead), 1);
    Val along = emit_scale(e, l.i, c->k), owner = c->tg.live == LIVE_POS ? unit.i : row.i;
    Val x = emit_at(e, emit_at(e, c->x, emit_add(e, emit_scale(e, unit.i, c->x_unit), along)), col);
    Val g = coarse(c->tg) ? along : emit_add(e, emit_scale(e, owner, c->g_unit), along);
    g = emit_at(e, emit_at(e, c->g, g), col);
    for (int i = 0; i < p->n; i++) {
        Val v = emit_load_vec(e, emit_at_const(e, g, p->first[i]), p->w[i]);
        Val d = emit_fsub(e, emit_load_vec(e, emit_at_const(e, x, p->first[i]), p->w[i]), mean[i]);
        emit_set(e, sum[i], emit_fadd(e, emit_get(e, sum[i]), v));
        emit_set(e, dot[i], emit_fma(e, v, d, emit_get(e, dot[i])));
    }
    emit_end(e, &l);
    emit_end(e, &unit);
    emit_end(e, &row);
    for (int i = 0; i < p->n; i++) {
        Val at = emit_add(e, col, emit_i64(e, p->first[i]));
        Val deviation = emit_load_vec(e, emit_at(e, emit_at_const(e, c->stats, c->k), at), p->w[i]);
        deviation = emit_sqrt(e, emit_fadd(e, deviation, emit_const(e, p->w[i], c->eps)));
        emit_store(e, emit_get(e, sum[i]), emit_at(e, c->out, at));
        emit_store(e, emit_fdiv(e, emit_get(e, dot[i]), deviation),
                   emit_at(e, emit_at_const(e, c->out, c->k), at));
    }
}

static Columns gradients_of(Emit *e, const IrNode *n) {
    Columns c = columns_of(e, n);
    c.x = emit_base(e, n->in[0]);
    c.eps = ir_attr_f(n, "eps");
    c.stats = of_block(e, n->in[1]);
    c.g = emit_base(e, n->in[2]), c.tg = n->in[2]->type, c.g_unit = emit_unit(e, n->in[2]);
    return c;
}

void emit_BNGSUMS(Emit *e, const IrNode *n) {
    Columns c = gradients_of(e, n);
    IrType row = {.live = LIVE_ROW};
    c.out = of_block(e, n);
    c.first_row = emit_first_unit(e, row), c.batch_rows = emit_unit_count(e, row);
    emit_columns(e, c.k, e->lo, e->hi, grad_group, &c);
}

void emit_BNBLOCKGSUMS(Emit *e, const IrNode *n) {
    Columns c = gradients_of(e, n);
    c.first_row = e->lo, c.batch_rows = emit_sub(e, e->hi, e->lo);
    c.out = emit_block_part(e, n);
    emit_columns(e, c.k, emit_i64(e, 0), emit_i64(e, emit_column_tiles(c.k)), grad_group, &c);
}

/* ---- row by row ---- */

enum { X, STATS, GAMMA, LAST }; /* operands; LAST: beta, or sums then g */

static NestRef by_channel(Val base, int rank) {
    NestRef r = {.base = base};
    r.stride[rank] = 1;
    return r;
}

static EmitNest nest_like(Emit *e, const IrNode *n) {
    EmitNest nest = {.n = n->type.rank + 1, .dim = {1}};
    for (int i = 0; i < n->type.rank; i++) nest.dim[i + 1] = n->type.dim[i];
    nest.ref[nest.n_ref++] = emit_ref(e, n, n->type);
    nest.ref[nest.n_ref++] = emit_ref(e, n->in[X], n->type);
    return nest;
}

typedef struct {
    double eps;
    Val count;
} Channel;

static Val inverse_deviation(Emit *e, Val var, double eps) {
    return emit_fdiv(e, emit_like(e, var, 1), emit_sqrt(e, emit_fadd(e, var, emit_like(e, var, eps))));
}

/* scratch = gamma / sqrt(var + eps) */
static void factor_body(Emit *e, EmitNest *n, int w, void *user) {
    Channel *c = user;
    emit_ref_store(
        e, n, 0,
        emit_fmul(e, emit_ref_load(e, n, 1, w), inverse_deviation(e, emit_ref_load(e, n, 2, w), c->eps)));
}

static EmitNest by_channels(Emit *e, const IrNode *n, int64_t k,
                            void (*body)(Emit *, EmitNest *, int, void *), Channel *c) {
    EmitNest f = {.n = 1, .dim = {k}, .n_ref = 3, .body = body, .user = c};
    f.ref[0] = (NestRef){.base = e->scratch, .stride = {1}};
    f.ref[1] = (NestRef){.base = emit_base(e, n->in[GAMMA]), .stride = {1}};
    f.ref[2] = (NestRef){.base = emit_at_const(e, of_block(e, n->in[STATS]), k), .stride = {1}};
    return f;
}

static void norm_body(Emit *e, EmitNest *n, int w, void *user) {
    (void)user; /* refs: y, x, mean, factor, beta */
    Val d = emit_fsub(e, emit_ref_load(e, n, 1, w), emit_ref_load(e, n, 2, w));
    emit_ref_store(e, n, 0, emit_fma(e, d, emit_ref_load(e, n, 3, w), emit_ref_load(e, n, 4, w)));
}

void emit_BNNORM(Emit *e, const IrNode *n) {
    int64_t k = ir_type_width(n->type);
    int rank = n->type.rank;
    Channel c = {.eps = ir_attr_f(n, "eps")};
    EmitNest first = by_channels(e, n, k, factor_body, &c);
    emit_nest(e, &first);
    EmitNest nest = nest_like(e, n);
    nest.body = norm_body;
    nest.ref[nest.n_ref++] = by_channel(of_block(e, n->in[STATS]), rank);
    nest.ref[nest.n_ref++] = by_channel(e->scratch, rank);
    nest.ref[nest.n_ref++] = by_channel(emit_base(e, n->in[LAST]), rank);
    emit_nest_units(e, &nest, n->type);
}

/* What bn_grad needs of a channel: a = gamma / dev, b = sums0 / count, c = sums1 / (dev count) */
static void grad_factors_body(Emit *e, EmitNest *n, int w, void *user) {
    Channel *c = user; /* refs: a, gamma, var, sums0, sums1, b, c */
    Val inv = inverse_deviation(e, emit_ref_load(e, n, 2, w), c->eps), count = emit_splat(e, c->count, w);
    emit_ref_store(e, n, 0, emit_fmul(e, emit_ref_load(e, n, 1, w), inv));
    emit_ref_store(e, n, 5, emit_fdiv(e, emit_ref_load(e, n, 3, w), count));
    emit_ref_store(e, n, 6, emit_fmul(e, inv, emit_fdiv(e, emit_ref_load(e, n, 4, w), count)));
}

static void grad_body(Emit *e, EmitNest *n, int w, void *user) {
    (void)user; /* refs: dx, x, g, mean, a, b, c: dx = a (g - b - (x - mean) c) */
    Val d = emit_fsub(e, emit_ref_load(e, n, 1, w), emit_ref_load(e, n, 3, w));
    Val g = emit_fsub(e, emit_ref_load(e, n, 2, w), emit_ref_load(e, n, 5, w));
    Val rest = emit_fma(e, LLVMBuildFNeg(e->b, d, ""), emit_ref_load(e, n, 6, w), g);
    emit_ref_store(e, n, 0, emit_fmul(e, emit_ref_load(e, n, 4, w), rest));
}

void emit_BNGRAD(Emit *e, const IrNode *n) {
    int64_t k = ir_type_width(n->type), row = (k + 15) / 16 * 16;
    int rank = n->type.rank;
    Columns all = columns_of(e, n);
    Channel c = {ir_attr_f(n, "eps"), count_of(e, all.rows)};
    EmitNest first = by_channels(e, n, k, grad_factors_body, &c);
    Val sums = of_block(e, n->in[LAST]);
    Val base[] = {sums, emit_at_const(e, sums, k), emit_at_const(e, e->scratch, row),
                  emit_at_const(e, e->scratch, 2 * row)};
    for (int i = 0; i < 4; i++) first.ref[first.n_ref++] = (NestRef){.base = base[i], .stride = {1}};
    emit_nest(e, &first);
    EmitNest nest = nest_like(e, n);
    nest.body = grad_body;
    nest.ref[nest.n_ref++] = emit_ref(e, n->in[LAST + 1], n->type);
    nest.ref[nest.n_ref++] = by_channel(of_block(e, n->in[STATS]), rank);
    for (int i = 0; i < 3; i++)
        nest.ref[nest.n_ref++] = by_channel(emit_at_const(e, e->scratch, i * row), rank);
    emit_nest_units(e, &nest, n->type);
}
