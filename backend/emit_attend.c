/* Scaled dot-product attention within a row over its list, and its gradient (Vaswani et al. 2017, formula 1;
 * the gradient as in FlashAttention, Dao et al. 2022, with g . y in place of a sum over the weights).
 *
 * A row is done in blocks of QUERIES by KEYS positions. A block's scores live in scratch, so nothing grows
 * with the square of a list, and a list may have any length. The softmax takes two passes over the blocks of
 * keys: the first finds each query's largest score and the sum of e^(score - largest), the second makes the
 * weights and uses them. A list of up to KEYS positions has one block, whose scores the second pass finds in
 * place; longer ones compute them again.
 *
 * The gradient is one op with three results side by side: of its products scores and g v^T are needed for
 * each of dq, dk and dv, and so are the exponentials, which at usual widths cost as much as a product. Three
 * ops would do 8 products and 3 times the exponentials, one does 5 and 1. Keeping each query's log-sum-exp
 * from the forward pass would spare a maximum and a sum over scores that are computed anyway, two operations
 * next to a product's d, at the price of a wider result, copied apart again, in evaluation and prediction
 * too: it isn't kept.
 *
 * All products are C += A B with constant strides, rows of B and C contiguous: for scores, keys are first
 * turned (k^T, scaled) so that neighbouring lanes are neighbouring keys. A block's keys beyond the list are
 * zeros whose scores start at -infinity, so their weights are 0. */
#include <math.h>
#include "backend/emit.h"

enum {
    KEYS = 64,
    QUERIES = 32,
    TILE = 4,  /* rows of a product at a time, */
    PIECES = 3 /* and vectors of columns: their sums are 12 of AVX2's 16 registers */
};

/* ---- products ---- */

typedef struct {
    int64_t columns;
    int64_t a_row, a_col, b_row, c_row; /* element (i, l) of A at a[i * a_row + l * a_col], … */
    int64_t start_row;                  /* C starts from start[i * start_row + j] */
} Product;

typedef struct {
    const Product *p;
    Val a, b, c, start, terms; /* a, c, start: of the tile's first row */
    int rows;
} Tile;

static void tile_group(Emit *e, Val col, const EmitGroup *g, void *user) {
    const Tile *t = user;
    const Product *p = t->p;
    for (int first = 0; first < g->n; first += PIECES) {
        int n = g->n - first < PIECES ? g->n - first : PIECES;
        Val sum[TILE][PIECES], b[PIECES];
        for (int r = 0; r < t->rows; r++)
            for (int i = 0; i < n; i++) {
                Val start =
                    emit_at(e, emit_at_const(e, t->start, r * p->start_row + g->first[first + i]), col);
                sum[r][i] = emit_var(e, emit_vec(e, g->w[first + i]));
                emit_set(e, sum[r][i], emit_load_vec(e, start, g->w[first + i]));
            }
        EmitLoop l = emit_for(e, emit_i64(e, 0), t->terms, 1);
        Val from = emit_at(e, emit_at(e, t->b, emit_scale(e, l.i, p->b_row)), col);
        for (int i = 0; i < n; i++)
            b[i] = emit_load_vec(e, emit_at_const(e, from, g->first[first + i]), g->w[first + i]);
        Val a = emit_at(e, t->a, emit_scale(e, l.i, p->a_col));
        for (int r = 0; r < t->rows; r++) {
            Val x = emit_load_vec(e, emit_at_const(e, a, r * p->a_row), 1);
            for (int i = 0; i < n; i++)
                emit_set(e, sum[r][i],
                         emit_fma(e, emit_splat(e, x, g->w[first + i]), b[i], emit_get(e, sum[r][i])));
        }
        emit_end(e, &l);
        for (int r = 0; r < t->rows; r++)
            for (int i = 0; i < n; i++)
                emit_store(e, emit_get(e, sum[r][i]),
                           emit_at(e, emit_at_const(e, t->c, r * p->c_row + g->first[first + i]), col));
    }
}

enum { A, B, C, START };

/* void product(step, a, b, c, start, rows, terms) */
static Val product(Emit *e, const Product *p) {
    LLVMTypeRef args[] = {e->ptr, e->ptr, e->ptr, e->ptr, e->ptr, e->i64, e->i64};
    Val f, base[4], rows;
    EmitFn outer;
    const char *name = arena_printf(e->arena, "attend_product_%lld_%lld_%lld_%lld_%lld_%lld",
                                    (long long)p->columns, (long long)p->a_row, (long long)p->a_col,
                                    (long long)p->b_row, (long long)p->c_row, (long long)p->start_row);
    if (!emit_shared_open(e, name, args, 7, &f, &outer)) return f;
    for (unsigned i = 0; i < 4; i++) base[i] = LLVMGetParam(f, i + 1);
    rows = LLVMGetParam(f, 5);
    Val whole = LLVMBuildAnd(e->b, rows, emit_i64(e, -TILE), "");
    for (int part = 0; part < 2; part++) {
        EmitLoop i = part ? emit_for(e, whole, rows, 1) : emit_for(e, emit_i64(e, 0), whole, TILE);
        Tile t = {.p = p, .b = base[B], .terms = LLVMGetParam(f, 6), .rows = part ? 1 : TILE};
        t.a = emit_at(e, base[A], emit_scale(e, i.i, p->a_row));
        t.c = emit_at(e, base[C], emit_scale(e, i.i, p->c_row));
        t.start = emit_at(e, base[START], emit_scale(e, i.i, p->start_row));
        emit_groups(e, p->columns, tile_group, &t);
        emit_end(e, &i);
    }
    emit_fn_close(e, &outer);
    return f;
}

static void multiply(Emit *e, Product p, Val a, Val b, Val c, Val start, Val rows, Val terms) {
    emit_shared_call(e, product(e, &p), (Val[]){e->step, a, b, c, start, rows, terms}, 7);
}

/* ---- a row ---- */

typedef struct {
    int64_t d, e;                   /* widths of q and k, of v */
    Val q, k, v, y, g, out;         /* the row's first position; y and g of a gradient only */
    Val count, scale, single;       /* positions; f32; whether one block holds all keys */
    Val keys, values;               /* scratch: k^T scaled, v^T, [width][KEYS] */
    Val score, slope;               /* [QUERIES][KEYS] */
    Val mask, zeros, most, sum;     /* [KEYS], [KEYS], [QUERIES], [QUERIES] */
    Val first_q, n_q, first_k, n_k; /* of the running block */
    Val padded;                     /* n_k up to whole strips */
} Row;

static int64_t strip(const Emit *e) { return 2 * e->W; }
static Val position(Emit *e, Val base, Val at, int64_t width) {
    return emit_at(e, base, emit_scale(e, at, width));
}

int64_t emit_attend_scratch(const IrNode *n) {
    int64_t d = n->in[0]->type.dim[0], e = n->in[2]->type.dim[0];
    bool grad = n->op == OP_ATTENDGRAD;
    return 4 * ((grad ? d + e : d) * KEYS + (grad ? 2 : 1) * QUERIES * KEYS + 2 * KEYS + 2 * QUERIES);
}

static void place_scratch(Emit *e, Row *r, Val at, bool grad) {
    Val *part[] = {&r->mask, &r->zeros, &r->most, &r->sum, &r->score, &r->keys, &r->slope, &r->values};
    int64_t size[] = {KEYS, KEYS, QUERIES, QUERIES, QUERIES * KEYS, r->d * KEYS, QUERIES * KEYS, r->e * KEYS};
    for (int i = 0; i < (grad ? 8 : 6); i++) {
        *part[i] = at;
        at = emit_at_const(e, at, size[i]);
    }
}

/* void turn(step, from, to, count, padded, scale): to[c][j] = scale * from[j][c], zeros for count <= j <
 * padded */
static void turn(Emit *e, Val from, Val to, Val count, Val padded, Val scale, int64_t width) {
    LLVMTypeRef args[] = {e->ptr, e->ptr, e->ptr, e->i64, e->i64, e->f32};
    Val f, p[6], zero = emit_i64(e, 0);
    EmitFn outer;
    if (emit_shared_open(e, arena_printf(e->arena, "attend_turn_%lld", (long long)width), args, 6, &f,
                         &outer)) {
        for (unsigned i = 0; i < 6; i++) p[i] = LLVMGetParam(f, i);
        for (int part = 0; part < 2; part++) {
            EmitLoop j = part ? emit_for(e, p[3], p[4], 1) : emit_for(e, zero, p[3], 1);
            EmitLoop c = emit_for(e, zero, emit_i64(e, width), 1);
            Val x = part ? emit_const(e, 1, 0)
                         : emit_fmul(e, p[5],
                                     emit_load_vec(e, emit_at(e, position(e, p[1], j.i, width), c.i), 1));
            emit_store(e, x, emit_at(e, position(e, p[2], c.i, KEYS), j.i));
            emit_end(e, &c);
            emit_end(e, &j);
        }
        emit_fn_close(e, &outer);
    }
    emit_shared_call(e, f, (Val[]){e->step, from, to, count, padded, scale}, 6);
}

/* Loops over the queries of the block: f(base + i * KEYS …) */
typedef void (*EachQuery)(Emit *e, const Row *r, Val i, Val score);
static void each_query(Emit *e, const Row *r, EachQuery f) {
    EmitLoop i = emit_for(e, emit_i64(e, 0), r->n_q, 1);
    f(e, r, i.i, position(e, r->score, i.i, KEYS));
    emit_end(e, &i);
}

static Val larger(Emit *e, Val a, Val b) { return emit_select(e, emit_fcmp(e, LLVMRealOGT, a, b), a, b); }

/* The largest lane, halves against each other. */
static Val largest_lane(Emit *e, Val x) {
    for (int n = emit_lanes(x); n > 1; n /= 2)
        x = larger(e, emit_take(e, x, 0, n / 2), emit_take(e, x, n / 2, n / 2));
    return x;
}

/* First pass: scores of one query become e^(score - largest so far); the sum over earlier keys follows suit.
 */
static void gather_query(Emit *e, const Row *r, Val i, Val score) {
    Val zero = emit_i64(e, 0), most = emit_var(e, emit_vec(e, e->W)), sum = emit_var(e, emit_vec(e, e->W));
    Val most_at = emit_at(e, r->most, i), sum_at = emit_at(e, r->sum, i), total = emit_var(e, e->f32);
    emit_set(e, most, emit_const(e, e->W, -INFINITY));
    emit_set(e, sum, emit_const(e, e->W, 0));
    EmitLoop j = emit_for(e, zero, r->padded, e->W);
    emit_set(e, most, larger(e, emit_load_vec(e, emit_at(e, score, j.i), e->W), emit_get(e, most)));
    emit_end(e, &j);
    Val before = emit_load_vec(e, most_at, 1), now = larger(e, largest_lane(e, emit_get(e, most)), before);
    j = emit_for(e, zero, r->padded, e->W);
    Val x = emit_exp_negative(
        e, emit_fsub(e, emit_load_vec(e, emit_at(e, score, j.i), e->W), emit_splat(e, now, e->W)));
    emit_store(e, x, emit_at(e, score, j.i));
    emit_set(e, sum, emit_fadd(e, emit_get(e, sum), x));
    emit_end(e, &j);
    emit_set(e, total, emit_hsum(e, emit_get(e, sum)));
    EmitIf earlier = emit_if(e, emit_fcmp(e, LLVMRealOGT, before, emit_const(e, 1, -INFINITY)));
    Val old = emit_fmul(e, emit_load_vec(e, sum_at, 1), emit_exp_negative(e, emit_fsub(e, before, now)));
    emit_set(e, total, emit_fadd(e, old, emit_get(e, total)));
    emit_fi(e, &earlier);
    emit_store(e, now, most_at);
    emit_store(e, emit_get(e, total), sum_at);
}

/* Second pass: what the only block's scores became is divided by the sum; scores computed again become
 * weights. */
static void weigh_query(Emit *e, const Row *r, Val i, Val score) {
    Val inverse = emit_fdiv(e, emit_const(e, 1, 1), emit_load_vec(e, emit_at(e, r->sum, i), 1));
    Val most = emit_load_vec(e, emit_at(e, r->most, i), 1);
    EmitIf only = emit_if(e, r->single);
    for (int again = 0; again < 2; again++) {
        EmitLoop j = emit_for(e, emit_i64(e, 0), r->padded, e->W);
        Val at = emit_at(e, score, j.i), x = emit_load_vec(e, at, e->W);
        if (again) x = emit_exp_negative(e, emit_fsub(e, x, emit_splat(e, most, e->W)));
        emit_store(e, emit_fmul(e, x, emit_splat(e, inverse, e->W)), at);
        emit_end(e, &j);
        if (!again) emit_else(e, &only);
    }
    emit_fi(e, &only);
}

/* The gradient of a query's scores: slope = scale * weight * (slope - g . y), where slope was g v^T. */
static void slope_query(Emit *e, const Row *r, Val i, Val weight) {
    Val at = emit_add(e, r->first_q, i), g = position(e, r->g, at, r->e), y = position(e, r->y, at, r->e);
    Val slope = position(e, r->slope, i, KEYS), dot = emit_const(e, 1, 0);
    for (int64_t c = 0, w = e->W; c < r->e; c += w) {
        while (w > r->e - c) w /= 2;
        Val x = emit_load_vec(e, emit_at_const(e, g, c), (int)w);
        dot = emit_fadd(e, dot,
                        emit_hsum(e, emit_fmul(e, x, emit_load_vec(e, emit_at_const(e, y, c), (int)w))));
    }
    EmitLoop j = emit_for(e, emit_i64(e, 0), r->padded, e->W);
    Val from = emit_at(e, slope, j.i), w = emit_load_vec(e, emit_at(e, weight, j.i), e->W);
    Val x = emit_fsub(e, emit_load_vec(e, from, e->W), emit_splat(e, dot, e->W));
    emit_store(e, emit_fmul(e, emit_fmul(e, emit_splat(e, r->scale, e->W), w), x), from);
    emit_end(e, &j);
}

/* to[n_q][padded] = start + x keys, strip by strip of keys */
static void scores(Emit *e, const Row *r, Val x, int64_t width, Val turned, Val to, Val start) {
    EmitLoop j = emit_for(e, emit_i64(e, 0), r->padded, strip(e));
    multiply(e, (Product){strip(e), width, 1, KEYS, KEYS, 0}, position(e, x, r->first_q, width),
             emit_at(e, turned, j.i), emit_at(e, to, j.i), emit_at(e, start, j.i), r->n_q,
             emit_i64(e, width));
    emit_end(e, &j);
}

/* Keys of the running block, once a row if there is but one: `pass` 0 makes them, 1 if there are more. */
static void turn_keys(Emit *e, const Row *r, int pass) {
    Val first = emit_icmp(e, LLVMIntEQ, r->first_q, emit_i64(e, 0));
    Val more = LLVMBuildNot(e->b, r->single, "");
    EmitIf needed = emit_if(e, pass ? more : LLVMBuildOr(e->b, first, more, ""));
    turn(e, position(e, r->k, r->first_k, r->d), r->keys, r->n_k, r->padded, r->scale, r->d);
    emit_fill(e, r->mask, emit_i64(e, 0), r->n_k, 0);
    emit_fill(e, r->mask, r->n_k, r->padded, -INFINITY);
    emit_fi(e, &needed);
}

static void forward_block(Emit *e, const Row *r) {
    Val to = position(e, r->out, r->first_q, r->e);
    multiply(e, (Product){r->e, KEYS, 1, r->e, r->e, r->e}, r->score, position(e, r->v, r->first_k, r->e), to,
             to, r->n_q, r->n_k);
}

static void backward_block(Emit *e, const Row *r) {
    int64_t all = 2 * r->d + r->e;
    Val first = emit_icmp(e, LLVMIntEQ, r->first_q, emit_i64(e, 0));
    EmitIf needed = emit_if(e, LLVMBuildOr(e->b, first, LLVMBuildNot(e->b, r->single, ""), ""));
    turn(e, position(e, r->v, r->first_k, r->e), r->values, r->n_k, r->padded, emit_const(e, 1, 1), r->e);
    emit_fi(e, &needed);
    scores(e, r, r->g, r->e, r->values, r->slope, r->zeros);
    each_query(e, r, slope_query);
    Val dq = position(e, r->out, r->first_q, all),
        dk = emit_at_const(e, position(e, r->out, r->first_k, all), r->d);
    Val dv = emit_at_const(e, dk, r->d);
    multiply(e, (Product){r->d, KEYS, 1, r->d, all, all}, r->slope, position(e, r->k, r->first_k, r->d), dq,
             dq, r->n_q, r->n_k);
    multiply(e, (Product){r->d, 1, KEYS, r->d, all, all}, r->slope, position(e, r->q, r->first_q, r->d), dk,
             dk, r->n_k, r->n_q);
    multiply(e, (Product){r->e, 1, KEYS, r->e, all, all}, r->score, position(e, r->g, r->first_q, r->e), dv,
             dv, r->n_k, r->n_q);
}

/* One of the two passes over the blocks of keys, for one block of queries. */
static void pass_over_keys(Emit *e, Row *r, int pass, void (*block)(Emit *, const Row *)) {
    EmitLoop k = emit_for(e, emit_i64(e, 0), r->count, KEYS);
    r->first_k = k.i;
    r->n_k = emit_min_i64(e, emit_sub(e, r->count, k.i), emit_i64(e, KEYS));
    r->padded =
        LLVMBuildAnd(e->b, emit_add(e, r->n_k, emit_i64(e, strip(e) - 1)), emit_i64(e, -strip(e)), "");
    turn_keys(e, r, pass);
    EmitIf needed = emit_if(e, pass ? LLVMBuildNot(e->b, r->single, "") : LLVMConstInt(e->i1, 1, 0));
    scores(e, r, r->q, r->d, r->keys, r->score, r->mask);
    emit_fi(e, &needed);
    each_query(e, r, pass ? weigh_query : gather_query);
    if (pass) block(e, r);
    emit_end(e, &k);
}

static void whole_row(Emit *e, Row *r, bool grad) {
    Val zero = emit_i64(e, 0);
    r->single = emit_icmp(e, LLVMIntSLE, r->count, emit_i64(e, KEYS));
    emit_fill(e, r->out, zero, emit_scale(e, r->count, grad ? 2 * r->d + r->e : r->e), 0);
    if (grad) emit_fill(e, r->zeros, zero, emit_i64(e, KEYS), 0);
    EmitLoop q = emit_for(e, zero, r->count, QUERIES);
    r->first_q = q.i;
    r->n_q = emit_min_i64(e, emit_sub(e, r->count, q.i), emit_i64(e, QUERIES));
    emit_fill(e, r->most, zero, r->n_q, -INFINITY);
    pass_over_keys(e, r, 0, NULL);
    pass_over_keys(e, r, 1, grad ? backward_block : forward_block);
    emit_end(e, &q);
}

/* ---- the kernels: all attention of equal widths shares one function for a row ---- */

enum { MOST_PLACES = 6 };

/* void row(step, q, k, v, [y, g,] out, count, scale, scratch) */
static Val row_function(Emit *e, const IrNode *n) {
    bool grad = n->op == OP_ATTENDGRAD;
    Row r = {.d = n->in[0]->type.dim[0], .e = n->in[2]->type.dim[0]};
    Val *place[] = {&r.q, &r.k, &r.v, &r.out}, *places[] = {&r.q, &r.k, &r.v, &r.y, &r.g, &r.out};
    unsigned n_places = grad ? MOST_PLACES : 4;
    LLVMTypeRef args[MOST_PLACES + 4];
    for (unsigned i = 0; i <= n_places; i++) args[i] = e->ptr;
    args[n_places + 1] = e->i64, args[n_places + 2] = e->f32, args[n_places + 3] = e->ptr;
    Val f;
    EmitFn outer;
    const char *name =
        arena_printf(e->arena, "%s_row_%lld_%lld", ir_ops[n->op].text, (long long)r.d, (long long)r.e);
    if (!emit_shared_open(e, name, args, (int)n_places + 4, &f, &outer)) return f;
    for (unsigned i = 0; i < n_places; i++) *(grad ? places : place)[i] = LLVMGetParam(f, i + 1);
    r.count = LLVMGetParam(f, n_places + 1), r.scale = LLVMGetParam(f, n_places + 2);
    place_scratch(e, &r, LLVMGetParam(f, n_places + 3), grad);
    whole_row(e, &r, grad);
    emit_fn_close(e, &outer);
    return f;
}

static void attend(Emit *e, const IrNode *n) {
    Val f = row_function(e, n), args[MOST_PLACES + 4] = {e->step}, base[MOST_PLACES];
    int count = n->n_in + 1;
    for (int i = 0; i < count; i++) base[i] = emit_base(e, i < n->n_in ? n->in[i] : n);
    EmitLoop row = emit_for(e, e->lo, e->hi, 1);
    Val first = emit_offset(e, n->type.axis, row.i);
    Val last = emit_offset(e, n->type.axis, emit_add(e, row.i, emit_i64(e, 1)));
    for (int i = 0; i < count; i++)
        args[i + 1] = position(e, base[i], first, ir_type_size(i < n->n_in ? n->in[i]->type : n->type));
    args[count + 1] = emit_sub(e, last, first);
    args[count + 2] = emit_const(e, 1, ir_attr_f(n, "scale"));
    args[count + 3] = e->scratch;
    emit_shared_call(e, f, args, count + 4);
    emit_end(e, &row);
}

void emit_ATTEND(Emit *e, const IrNode *n) { attend(e, n); }
void emit_ATTENDGRAD(Emit *e, const IrNode *n) { attend(e, n); }
