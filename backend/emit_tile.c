/* Products by register tiles. C = A B is cut into tiles of a few rows by NV vectors of columns, whose sums
 * stay in registers over a block of at most KC terms. B is packed in panels of NV vectors (emit_pack.c).
 *
 *     for MC rows that fit the second-level cache, for each panel, for each KC terms, which fit the
 * first-level cache: for each tile of these rows: the tile
 *
 * so that a tile's B comes from the first-level cache, its A from the second, C stays there between blocks of
 * terms, and B is read once for MC rows, the next part of it being fetched meanwhile.
 *
 * Every element's sum runs over its terms in order, by fused multiply-adds, whichever tile it is in: a tile
 * with fewer rows than its size computes its last row several times, one with fewer columns is padded with
 * zeros. So results don't depend on how rows are handed to threads.
 *
 * A is read in place, by rows of constant stride; for weight gradients (x^T g) strips of x are packed too.
 * Where such a gradient has no place, its sums stand in scratch, and whoever asked for it gets the rows of a
 * lot of strips when their last term is in. */
#include <string.h>
#include "backend/emit.h"

/* ---- sizes, from the target's registers and caches ---- */

static int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t at_least(int64_t a, int64_t least) { return a < least ? least : a; }
static int64_t at_most(int64_t a, int64_t most) { return a > most ? most : a; }

/* Rows of a tile of so many vectors: the sums, a row of B and an element of A fit the vector registers. */
static int rows_of_tile(const PassTarget *t, int vectors) {
    if (t->vector_regs >= 32) return 8;
    return vectors == 3 ? 4 : vectors == 2 ? 6 : 8;
}

/* Terms a block: three quarters of the first-level cache hold a panel's, the rest is A's and C's. */
static int64_t most_terms(const PassTarget *t) {
    return at_least(t->l1_bytes * 3 / 4 / (4 * 3 * t->vector_floats) / 16, 4) * 16;
}
static int64_t terms_of(const PassTarget *t, int64_t k, int64_t unit) {
    int64_t blocks = at_least(div_up(k, most_terms(t)), 1);
    return at_least(at_most(k, div_up(div_up(k, blocks), unit) * unit), 1);
}

enum { ROW_UNIT = 24 }; /* a multiple of every tile's rows */
static int64_t rows_of_block(const PassTarget *t, int64_t k) {
    return at_least(t->l2_bytes * 5 / 8 / (4 * at_least(k, 1)) / ROW_UNIT, 1) * ROW_UNIT;
}

int64_t emit_gemm_scratch(const PassTarget *t, int64_t n, int64_t k) {
    return 4 * emit_packed_floats(t->vector_floats, k, n);
}

/* Rows whose pairs stand in scratch at a time; k: pairs. */
static int64_t rows_of_pairs(const PassTarget *t, int64_t k) {
    return at_most(rows_of_block(t, k), EMIT_BF16_ROWS);
}

int64_t emit_gemm_bf16_scratch(const PassTarget *t, int64_t n, int64_t k, bool packed, bool amx) {
    int64_t slots = emit_terms(k, true), row = amx ? emit_amx_row(slots) : slots;
    return (packed ? 0 : emit_gemm_scratch(t, n, slots)) + 4 * EMIT_BF16_ROWS * row;
}

/* ---- the tile ---- */

enum { MAX_MR = 8, MAX_NV = 3 };

typedef struct {
    const EmitGemm *g;
    int W, MR, width; /* floats of a vector, rows of a tile, columns of the panel with its padding */
    int cols;         /* of this tile: width, or fewer in the last panel */
    Val a_row, c_row, terms, flags, places;
    Val c, row0, col0; /* of this tile */
    Val row[MAX_MR];
    Val sum[MAX_MR][MAX_NV]; /* variables */
} Tile;

/* Columns first..first+w-1 of one row, to or from memory. */
typedef struct {
    Tile *t;
    int r, v;
} TileRow;

static Val element(Emit *e, Tile *t, int r, int col) {
    return emit_at_const(e, emit_at(e, t->c, emit_mul(e, t->row[r], t->c_row)), col);
}

static void store_piece(Emit *e, int first, int w, void *user) {
    TileRow *p = user;
    Tile *t = p->t;
    Val v = emit_take(e, emit_get(e, t->sum[p->r][p->v]), first, w);
    int col = p->v * t->W + first;
    const EmitEpilogue *end = t->g->epilogue;
    v = end->f(e, v, emit_add(e, t->row0, t->row[p->r]), emit_add(e, t->col0, emit_i64(e, col)), w, t->places,
               end->user);
    emit_store(e, v, element(e, t, p->r, col));
}

static void store_raw_piece(Emit *e, int first, int w, void *user) {
    TileRow *p = user;
    Val v = emit_take(e, emit_get(e, p->t->sum[p->r][p->v]), first, w);
    emit_store(e, v, element(e, p->t, p->r, p->v * p->t->W + first));
}

static void load_piece(Emit *e, int first, int w, void *user) {
    TileRow *p = user;
    int W = p->t->W;
    Val v = emit_load_vec(e, element(e, p->t, p->r, p->v * W + first), w), var = p->t->sum[p->r][p->v];
    if (w == W) {
        emit_set(e, var, v);
        return;
    }
    Val all = emit_get(e, var);
    for (int i = 0; i < w; i++)
        all = LLVMBuildInsertElement(e->b, all, emit_take(e, v, i, 1), emit_i32(e, first + i), "");
    emit_set(e, var, all);
}

static void each_piece(Emit *e, Tile *t, EmitPiece piece) {
    for (int r = 0; r < t->MR; r++)
        for (int v = 0; v * t->W < t->cols; v++) {
            TileRow p = {t, r, v};
            emit_pieces(e, (int)at_most(t->cols - v * t->W, t->W), piece, &p);
        }
}

/* Rows of C are a row's length apart, so nothing but this brings them into the first-level cache while the
 * sums are made: to be added to, or written. */
static void prefetch_rows(Emit *e, Tile *t) {
    for (int r = 0; r < t->MR; r++) {
        for (int col = 0; col < t->cols; col += CACHE_LINE) emit_prefetch(e, element(e, t, r, col), true);
        emit_prefetch(e, element(e, t, r, t->cols - 1), true);
    }
}

/* One term, or a pair of them: a column of A times a row of the panel. */
static void term(Emit *e, Tile *t, Val *a, Val b, Val l) {
    int W = t->W, vectors = t->width / W;
    Val panel = emit_at(e, b, emit_scale(e, l, t->width)), rhs[MAX_NV], at = emit_scale(e, l, t->g->a_col);
    for (int v = 0; v < vectors; v++) {
        rhs[v] = emit_load_vec(e, emit_at_const(e, panel, v * W), W);
        LLVMSetAlignment(rhs[v], 32);
    }
    for (int r = 0; r < t->MR; r++) {
        Val lhs = emit_splat(e, emit_load_vec(e, emit_at(e, a[r], at), 1), W);
        for (int v = 0; v < vectors; v++) {
            Val sum = emit_get(e, t->sum[r][v]);
            emit_set(e, t->sum[r][v],
                     t->g->bf16 ? emit_bf16_dot(e, lhs, rhs[v], sum) : emit_fma(e, lhs, rhs[v], sum));
        }
    }
}

/* The sums over the block's terms. While they are made, as much of what `ahead` points to is fetched into the
 * second-level cache as they read of A; NULL: nothing. */
static void sums(Emit *e, Tile *t, Val *a, Val b, Val ahead) {
    enum { UNROLL = 4 };
    Val whole = LLVMBuildAnd(e->b, t->terms, emit_i64(e, -UNROLL), "");
    EmitLoop l = emit_for(e, emit_i64(e, 0), whole, UNROLL);
    if (ahead) emit_prefetch_far(e, emit_at(e, ahead, emit_scale(e, l.i, CACHE_LINE / UNROLL)));
    for (int u = 0; u < UNROLL; u++) term(e, t, a, b, emit_add(e, l.i, emit_i64(e, u)));
    emit_end(e, &l);
    EmitLoop rest = emit_for(e, whole, t->terms, 1);
    term(e, t, a, b, rest.i);
    emit_end(e, &rest);
}

static void finish_tile(Emit *e, Tile *t) {
    if (!t->g->epilogue) {
        each_piece(e, t, store_raw_piece);
        return;
    }
    Val last = LLVMBuildAnd(e->b, t->flags, emit_i64(e, EMIT_LAST), "");
    EmitIf end = emit_if(e, emit_icmp(e, LLVMIntEQ, last, emit_i64(e, 0)));
    each_piece(e, t, store_raw_piece);
    emit_else(e, &end);
    each_piece(e, t, store_piece);
    emit_fi(e, &end);
}

/* Rows i..i+MR-1 of `rows`, the last one several times if there are fewer. */
static void tile(Emit *e, Tile *t, Val a, Val b, Val rows, Val i, Val ahead) {
    Val left = emit_sub(e, emit_sub(e, rows, i), emit_i64(e, 1)), lhs[MAX_MR];
    for (int r = 0; r < t->MR; r++) {
        t->row[r] = emit_min_i64(e, emit_i64(e, r), left);
        lhs[r] = emit_at(e, a, emit_mul(e, t->row[r], t->a_row));
        for (int v = 0; v * t->W < t->width; v++) emit_set(e, t->sum[r][v], emit_const(e, t->W, 0));
    }
    prefetch_rows(e, t);
    Val first = LLVMBuildAnd(e->b, t->flags, emit_i64(e, EMIT_FIRST), "");
    EmitIf resume = emit_if(e, emit_icmp(e, LLVMIntEQ, first, emit_i64(e, 0)));
    each_piece(e, t, load_piece);
    emit_fi(e, &resume);
    sums(e, t, lhs, b, ahead);
    finish_tile(e, t);
}

/* void panel(step, a, b, c, places, a_row, a_tile, c_row, terms, rows, row0, col0, flags, far): `rows` rows
 * of A from `a` times the panel b, to c; row0 and col0 say where in the result that is. A's rows are a_row
 * apart, its tiles a_tile. Of what stands `far` floats behind b, as much as b itself is fetched meanwhile.
 * Shared by all products whose columns of A are as far apart and whose epilogue is the same. */
enum { PANEL_ARGS = 14, PANEL_PTRS = 5 };
static Val make_panel(Emit *e, const EmitGemm *g, int MR, int vectors, int cols) {
    LLVMTypeRef args[PANEL_ARGS];
    for (int i = 0; i < PANEL_ARGS; i++) args[i] = i < PANEL_PTRS ? e->ptr : e->i64;
    const char *key = g->epilogue ? g->epilogue->key : "";
    const char *name = arena_printf(e->arena, "tile%s_%dx%d_%lld%s", g->bf16 ? "_bf16" : "", MR, cols,
                                    (long long)g->a_col, key);
    EmitFn outer;
    Val f, p[PANEL_ARGS];
    if (!emit_shared_open(e, name, args, PANEL_ARGS, &f, &outer)) return f;
    for (unsigned i = 0; i < PANEL_ARGS; i++) p[i] = LLVMGetParam(f, i);
    Tile t = {.g = g, .W = e->W, .MR = MR, .width = vectors * e->W, .cols = cols};
    t.places = p[4], t.a_row = p[5], t.c_row = p[7], t.terms = p[8], t.flags = p[12], t.col0 = p[11];
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < vectors; v++) t.sum[r][v] = emit_var(e, emit_vec(e, e->W));
    Val rows = p[9], number = emit_var(e, e->i64), ahead = NULL, end = emit_scale(e, t.terms, t.width);
    emit_set(e, number, emit_i64(e, 0));
    EmitLoop i = emit_for(e, emit_i64(e, 0), rows, MR);
    Val n = emit_get(e, number);
    t.c = emit_at(e, p[3], emit_mul(e, i.i, t.c_row));
    t.row0 = emit_add(e, p[10], i.i);
    if (!g->packs_a) {
        Val done = emit_min_i64(e, emit_mul(e, n, emit_scale(e, t.terms, CACHE_LINE / 4)), end);
        ahead = emit_at(e, p[2], emit_add(e, p[13], done));
    }
    tile(e, &t, emit_at(e, p[1], emit_mul(e, n, p[6])), p[2], rows, i.i, ahead);
    emit_set(e, number, emit_add(e, n, emit_i64(e, 1)));
    emit_end(e, &i);
    emit_fn_close(e, &outer);
    return f;
}

/* ---- the loops ---- */

/* Rows of A, in place or in packed strips, that meet all panels. */
typedef struct {
    const EmitGemm *g; /* with bf16: terms, here and below, are pairs */
    Val a, a_tile, c;  /* of the first row */
    Val b, b_terms;    /* the packed panels; the terms that each holds, of which these are from `from` on */
    Val from, terms, rows, row0, flags;
    Val col0; /* of the result that the first panel begins with; NULL: 0 */
} Block;

static Val panel_at(Emit *e, const Block *k, Val col, int vectors) {
    Val panel = emit_at(e, k->b, emit_mul(e, col, k->b_terms));
    return emit_at(e, panel, emit_mul(e, k->from, emit_i64(e, (int64_t)vectors * e->W)));
}

/* rows from..to-1 of the block by tiles of MR rows */
static void run_rows(Emit *e, const Block *k, Val col, int MR, int vectors, int cols, Val from, Val to) {
    const EmitGemm *g = k->g;
    Val f = make_panel(e, g, MR, vectors, cols), width = emit_i64(e, (int64_t)vectors * e->W);
    Val panel = panel_at(e, k, col, vectors), a = k->a, row = k->row0 ? emit_add(e, k->row0, from) : from;
    if (!g->packs_a) a = emit_at(e, a, emit_scale(e, from, g->a_row));
    Val args[PANEL_ARGS] = {e->step,
                            a,
                            panel,
                            emit_at(e, emit_at(e, k->c, emit_scale(e, from, g->c_row)), col),
                            g->epilogue ? g->epilogue->places : LLVMConstNull(e->ptr),
                            emit_i64(e, g->a_row),
                            g->packs_a ? k->a_tile : emit_i64(e, MR * g->a_row),
                            emit_i64(e, g->c_row),
                            k->terms,
                            emit_sub(e, to, from),
                            row,
                            k->col0 ? emit_add(e, k->col0, col) : col,
                            k->flags,
                            emit_mul(e, k->terms, width)};
    emit_shared_call(e, f, args, PANEL_ARGS);
}

static void run_panel(Emit *e, const Block *k, Val col, int vectors, int cols) {
    if (k->g->amx) {
        EmitAmxPanel p = {.vectors = vectors, .cols = cols, .a = k->a, .slots = k->terms, .rows = k->rows};
        p.b = panel_at(e, k, col, vectors), p.c = emit_at(e, k->c, col), p.flags = k->flags;
        p.row0 = k->row0 ? k->row0 : emit_i64(e, 0), p.col0 = k->col0 ? emit_add(e, k->col0, col) : col;
        emit_amx_panel(e, k->g, &p);
        return;
    }
    int MR = k->g->packs_a ? k->g->packs_a : rows_of_tile(&e->target, vectors);
    Val zero = emit_i64(e, 0);
    if (MR != 6 || k->g->packs_a) {
        run_rows(e, k, col, MR, vectors, cols, zero, k->rows);
        return;
    }
    /* by six, and the last by four: 1 or 2 left over together with six before them */
    Val rows = k->rows, left = LLVMBuildURem(e->b, rows, emit_i64(e, 6), "");
    Val some = emit_icmp(e, LLVMIntNE, left, zero), few = emit_icmp(e, LLVMIntSLT, left, emit_i64(e, 3));
    Val more = emit_icmp(e, LLVMIntSGT, rows, emit_i64(e, 6));
    Val six =
        emit_select(e, LLVMBuildAnd(e->b, few, LLVMBuildAnd(e->b, some, more, ""), ""), emit_i64(e, 6), zero);
    left = emit_select(e, emit_icmp(e, LLVMIntEQ, left, emit_i64(e, 5)), zero, emit_add(e, left, six));
    Val by_six = emit_sub(e, rows, left);
    run_rows(e, k, col, 6, vectors, cols, zero, by_six);
    run_rows(e, k, col, 4, vectors, cols, by_six, rows);
}

static Val block_flags(Emit *e, Val l0, Val end, Val all, bool accumulate) {
    Val first = emit_icmp(e, LLVMIntEQ, l0, emit_i64(e, 0)), last = emit_icmp(e, LLVMIntEQ, end, all);
    Val none = emit_i64(e, 0);
    return LLVMBuildOr(e->b, accumulate ? none : emit_select(e, first, emit_i64(e, EMIT_FIRST), none),
                       emit_select(e, last, emit_i64(e, EMIT_LAST), none), "");
}

/* One panel: all its terms, block by block. */
static void all_terms(Emit *e, Val col, int vectors, int cols, void *user) {
    Block k = *(const Block *)user;
    const EmitGemm *g = k.g;
    Val all = emit_i64(e, g->k);
    int64_t kc = terms_of(&e->target, g->k, g->amx ? EMIT_AMX_ROWS : 8);
    EmitLoop l = emit_for(e, emit_i64(e, 0), all, kc);
    Val end = emit_min_i64(e, emit_add(e, l.i, emit_i64(e, kc)), all);
    k.a = emit_at(e, k.a, emit_scale(e, l.i, g->a_col));
    k.from = l.i, k.terms = emit_sub(e, end, l.i);
    k.flags = block_flags(e, l.i, end, all, g->accumulate);
    run_panel(e, &k, col, vectors, cols);
    emit_end(e, &l);
}

/* The product of pairs that stands for g, A's being in scratch as emit_bf16_left or emit_amx_left leaves
 * them. */
static EmitGemm of_pairs(const EmitGemm *g) {
    EmitGemm pairs = *g;
    pairs.k = emit_terms(g->k, true);
    pairs.a_row = g->a_col == 1 ? pairs.k : 1;
    pairs.a_col = g->a_col == 1 ? 1 : EMIT_BF16_ROWS;
    if (g->amx) pairs.a_row = emit_amx_row(pairs.k), pairs.a_col = 1;
    return pairs;
}

void emit_gemm(Emit *e, const EmitGemm *g, Val lo, Val hi) {
    EmitGemm made = g->bf16 ? of_pairs(g) : *g;
    Block k = {.g = &made, .b = g->b, .b_terms = emit_i64(e, made.k)};
    if (!g->packed) {
        k.b = e->scratch;
        emit_pack(e, &(EmitPack){g->b, g->b_row, g->b_col, k.b, g->n, emit_i64(e, g->k), g->bf16});
    }
    int64_t mc = g->bf16 ? rows_of_pairs(&e->target, made.k) : rows_of_block(&e->target, g->k);
    EmitLoop rows = emit_for(e, lo, hi, mc);
    k.rows = emit_min_i64(e, emit_sub(e, hi, rows.i), emit_i64(e, mc));
    k.a = emit_at(e, g->a, emit_scale(e, rows.i, g->a_row));
    if (g->bf16) {
        int64_t before = g->packed ? 0 : emit_packed_floats(e->W, made.k, g->n);
        Val pairs = emit_at_const(e, e->scratch, before);
        (g->amx ? emit_amx_left : emit_bf16_left)(e, g, k.a, k.rows, pairs);
        k.a = pairs;
    }
    k.c = emit_at(e, g->c, emit_scale(e, rows.i, g->c_row));
    k.row0 = g->row_base ? emit_add(e, g->row_base, rows.i) : rows.i;
    emit_each_panel(e, g->n, all_terms, &k);
    emit_end(e, &rows);
}

/* ---- weight gradients: C[k,n] = x^T g ----
 * Terms are rows of the batch. A tile of the result, handed to threads, is a strip of a few rows of C by a
 * group of panels: all of them, so that x is packed once, unless there are too few strips for several
 * threads. */

typedef struct {
    int MR;
    int64_t strips, columns, groups; /* columns: of a group, whole panels */
} GradShape;

static GradShape grad_shape(const PassTarget *t, int64_t k, int64_t n, bool amx) {
    enum { ENOUGH = 8, PANELS = 4 };
    EmitPanels p = emit_panels(t->vector_floats, n);
    GradShape s = {
        .MR = amx ? EMIT_AMX_ROWS : rows_of_tile(t, p.count[3] ? 3 : 2), .columns = n, .groups = 1};
    s.strips = div_up(k, s.MR);
    int64_t group = PANELS * 3 * t->vector_floats;
    if (s.strips < ENOUGH && p.count[3] > PANELS) s.columns = group, s.groups = div_up(n, group);
    return s;
}

int64_t emit_grad_w_tiles(const PassTarget *t, int64_t k, int64_t n, bool amx) {
    GradShape s = grad_shape(t, k, n, amx);
    return s.strips * s.groups;
}

enum { STRIPS = 16, STRIP_SLACK = 16 }; /* packed at a time; floats that packing may write beyond one */
static int64_t strip_floats(const PassTarget *t, const GradShape *s) {
    return most_terms(t) * s->MR + STRIP_SLACK;
}
static int64_t panel_floats(const PassTarget *t, const GradShape *s) {
    return emit_packed_floats(t->vector_floats, most_terms(t), s->columns);
}

int64_t emit_grad_w_scratch(const PassTarget *t, int64_t k, int64_t n, bool amx) {
    GradShape s = grad_shape(t, k, n, amx);
    return 4 * (panel_floats(t, &s) + STRIPS * strip_floats(t, &s));
}

/* The whole matrix, of which a thread touches its own tiles. */
int64_t emit_grad_sums_scratch(int64_t k, int64_t n) { return 4 * k * n; }

/* Six floats at once: a masked load reads no further, and the two lanes too many of the store are written
 * over by the next term (or fall into the strip's slack). */
static void copy_six(Emit *e, Val from, Val to) {
    LLVMTypeRef types[] = {emit_vec(e, 8), e->ptr};
    unsigned id = LLVMLookupIntrinsicID("llvm.masked.load", 16);
    Val lanes[8];
    for (int i = 0; i < 8; i++) lanes[i] = LLVMConstInt(e->i1, i < 6, 0);
    Val f = LLVMGetIntrinsicDeclaration(e->mod, id, types, 2);
    Val args[] = {from, emit_i32(e, 4), LLVMConstVector(lanes, 8), emit_const(e, 8, 0)};
    emit_store(e, LLVMBuildCall2(e->b, LLVMGlobalGetValueType(f), f, args, 4, ""), to);
}

typedef struct {
    Val from, to;
} Copy;
static void copy_piece(Emit *e, int first, int w, void *user) {
    Copy *c = user;
    emit_store(e, emit_load_vec(e, emit_at_const(e, c->from, first), w), emit_at_const(e, c->to, first));
}

/* The same of bfloat16: two rows of x become one of pairs. Two strips of eight at a time are a vector. */
typedef struct {
    Val first, second, exists, to;
    int MR;
    int64_t strip; /* floats from strip to strip */
} PairCopy;

static void pair_piece(Emit *e, int first, int w, void *user) {
    PairCopy *c = user;
    Val y = emit_load_vec(e, emit_at_const(e, c->second, first), w);
    Val v = emit_bf16_pairs(e, emit_load_vec(e, emit_at_const(e, c->first, first), w),
                            emit_bf16_zero_unless(e, c->exists, y));
    for (int done = 0, n; done < w; done += n) {
        int strip = (first + done) / c->MR, lane = (first + done) % c->MR;
        n = (int)at_most(w - done, c->MR - lane);
        emit_store(e, emit_take(e, v, done, n), emit_at_const(e, c->to, strip * c->strip + lane));
    }
}

/* n columns from strip `strip` on */
static void pair_columns(Emit *e, const PairCopy *c, int MR, Val strip, Val s0, int n) {
    PairCopy here = *c;
    Val col = emit_scale(e, strip, MR);
    here.first = emit_at(e, c->first, col), here.second = emit_at(e, c->second, col);
    here.to = emit_at(e, c->to, emit_scale(e, emit_sub(e, strip, s0), c->strip));
    emit_pieces(e, n, pair_piece, &here);
}

static void pack_pair_strips(Emit *e, const EmitGradW *g, const GradShape *s, Val from, Val to, Val terms,
                             Val s0, Val s1) {
    int left = (int)(g->k % s->MR);
    Val whole = emit_i64(e, g->k / s->MR), end = emit_min_i64(e, s1, whole);
    EmitLoop l = emit_for(e, emit_i64(e, 0), emit_slots(e, terms, true), 1);
    PairCopy c = {.MR = s->MR, .strip = strip_floats(&e->target, s)};
    Val at = emit_scale(e, l.i, 2), next = emit_bf16_second(e, at, terms, &c.exists);
    c.first = emit_at(e, from, emit_scale(e, at, g->x_row));
    c.second = emit_at(e, from, emit_scale(e, next, g->x_row));
    c.to = emit_at(e, to, emit_scale(e, l.i, s->MR));
    Val two = emit_add(e, s0, LLVMBuildAnd(e->b, emit_sub(e, end, s0), emit_i64(e, -2), ""));
    EmitLoop t = emit_for(e, s0, two, 2);
    pair_columns(e, &c, s->MR, t.i, s0, 2 * s->MR);
    emit_end(e, &t);
    EmitIf one = emit_if(e, emit_icmp(e, LLVMIntSLT, two, end));
    pair_columns(e, &c, s->MR, two, s0, s->MR);
    emit_fi(e, &one);
    if (left) {
        EmitIf last = emit_if(e, emit_icmp(e, LLVMIntSGT, s1, whole));
        pair_columns(e, &c, s->MR, whole, s0, left);
        emit_fi(e, &last);
    }
    emit_end(e, &l);
}

/* Strips s0..s1-1 of x, each as [terms][MR], one after another at `to`. A row of x is read along all of them,
 * so each cache line once. */
static void pack_strips(Emit *e, const EmitGradW *g, const GradShape *s, Val from, Val to, Val terms, Val s0,
                        Val s1) {
    if (g->amx) {
        Val first = emit_scale(e, s0, s->MR);
        Val rows = emit_sub(e, emit_min_i64(e, emit_scale(e, s1, s->MR), emit_i64(e, g->k)), first);
        emit_amx_rows(
            e, &(EmitAmxLeft){emit_at(e, from, first), g->x_row, terms, rows, to, most_terms(&e->target)});
        return;
    }
    if (g->bf16) {
        pack_pair_strips(e, g, s, from, to, terms, s0, s1);
        return;
    }
    int left = (int)(g->k % s->MR);
    int64_t whole = g->k / s->MR, size = strip_floats(&e->target, s);
    EmitLoop l = emit_for(e, emit_i64(e, 0), terms, 1);
    Val row = emit_at(e, from, emit_scale(e, l.i, g->x_row)),
        place = emit_at(e, to, emit_scale(e, l.i, s->MR));
    EmitLoop t = emit_for(e, s0, emit_min_i64(e, s1, emit_i64(e, whole)), 1);
    Copy c = {emit_at(e, row, emit_scale(e, t.i, s->MR)),
              emit_at(e, place, emit_scale(e, emit_sub(e, t.i, s0), size))};
    if (s->MR == 6)
        copy_six(e, c.from, c.to);
    else
        emit_pieces(e, s->MR, copy_piece, &c);
    emit_end(e, &t);
    if (left) {
        EmitIf last = emit_if(e, emit_icmp(e, LLVMIntSGT, s1, emit_i64(e, whole)));
        Copy rest = {emit_at_const(e, row, whole * s->MR),
                     emit_at(e, place, emit_scale(e, emit_sub(e, emit_i64(e, whole), s0), size))};
        emit_pieces(e, left, copy_piece, &rest);
        emit_fi(e, &last);
    }
    emit_end(e, &l);
}

/* One block of terms. */
typedef struct {
    const EmitGradW *g;
    GradShape s;
    EmitGemm m;
    Block k;
    Val c;                    /* the result, or what stands for it in scratch */
    Val first, terms, lo, hi; /* the block's first term, as rows of x, and how many; tiles */
} Grad;

static void grad_panel(Emit *e, Val col, int vectors, int cols, void *user) {
    run_panel(e, user, col, vectors, cols);
}

/* Rows k->row0 on of a group of n columns, if their last term is in: as one run where rows are whole. */
static void finish_rows(Emit *e, const Grad *d, const Block *k, int64_t n) {
    const EmitGradW *g = d->g;
    Val last = LLVMBuildAnd(e->b, k->flags, emit_i64(e, EMIT_LAST), "");
    EmitIf done = emit_if(e, emit_icmp(e, LLVMIntNE, last, emit_i64(e, 0)));
    Val end = emit_add(e, k->row0, k->rows);
    if (n == g->n) {
        g->finish(e, d->c, emit_scale(e, k->row0, n), emit_scale(e, end, n), g->user);
    } else {
        EmitLoop row = emit_for(e, k->row0, end, 1);
        Val from = emit_add(e, emit_scale(e, row.i, g->n), k->col0);
        g->finish(e, d->c, from, emit_add(e, from, emit_i64(e, n)), g->user);
        emit_end(e, &row);
    }
    emit_fi(e, &done);
}

/* Those of tiles lo..hi-1 that fall into group number `group`, of n columns. */
static void grad_group(Emit *e, const Grad *d, Val group, int64_t n) {
    const EmitGradW *g = d->g;
    const GradShape *s = &d->s;
    Block k = d->k;
    Val zero = emit_i64(e, 0), before = emit_scale(e, group, s->strips), all = emit_i64(e, s->strips);
    Val col = emit_scale(e, group, s->columns), row = emit_scale(e, d->first, g->g_row);
    emit_pack(e, &(EmitPack){emit_at(e, emit_at(e, g->g, row), col), g->g_row, 1, k.b, n, d->terms, g->bf16});
    Val s0 = emit_sub(e, d->lo, before), s1 = emit_min_i64(e, emit_sub(e, d->hi, before), all);
    s0 = emit_select(e, emit_icmp(e, LLVMIntSGT, s0, zero), s0, zero);
    EmitLoop few = emit_for(e, s0, s1, STRIPS);
    Val some = emit_min_i64(e, emit_add(e, few.i, emit_i64(e, STRIPS)), s1);
    Val x = emit_at(e, g->x, emit_scale(e, d->first, g->x_row));
    pack_strips(e, g, s, x, k.a, d->terms, few.i, some);
    k.row0 = emit_scale(e, few.i, s->MR);
    k.rows = emit_min_i64(e, emit_sub(e, emit_i64(e, g->k), k.row0),
                          emit_scale(e, emit_sub(e, some, few.i), s->MR));
    k.c = emit_at(e, emit_at(e, d->c, emit_scale(e, k.row0, g->n)), col);
    k.col0 = col;
    emit_each_panel(e, n, grad_panel, &k);
    if (!g->c) finish_rows(e, d, &k, n);
    emit_end(e, &few);
}

void emit_grad_w(Emit *e, const EmitGradW *g, Val lo, Val hi) {
    Grad d = {.g = g, .s = grad_shape(&e->target, g->k, g->n, g->amx), .c = g->c, .lo = lo, .hi = hi};
    const GradShape *s = &d.s;
    if (!d.c) d.c = emit_at_const(e, e->scratch, emit_grad_w_scratch(&e->target, g->k, g->n, g->amx) / 4);
    d.m = (EmitGemm){
        .n = g->n, .a_row = 1, .a_col = s->MR, .packs_a = s->MR, .c_row = g->n, .epilogue = g->epilogue};
    d.m.bf16 = g->bf16, d.m.amx = g->amx;
    if (g->amx) d.m.a_row = most_terms(&e->target), d.m.a_col = 1, d.m.packs_a = 0;
    Val zero = emit_i64(e, 0), one = emit_i64(e, 1), strips = emit_i64(e, s->strips);
    int64_t kc = most_terms(&e->target) * (g->bf16 ? 2 : 1), whole = g->n / s->columns,
            rest = g->n % s->columns;
    Val some = emit_icmp(e, LLVMIntSGT, g->rows, zero); /* without rows: zeros */
    EmitLoop l = emit_for(e, zero, emit_select(e, some, g->rows, one), kc);
    Val end = emit_min_i64(e, emit_add(e, l.i, emit_i64(e, kc)), g->rows);
    d.first = l.i;
    Val x_strips = emit_at_const(e, e->scratch, panel_floats(&e->target, s));
    d.terms = emit_sub(e, end, l.i);
    d.k = (Block){.g = &d.m,
                  .a = x_strips,
                  .a_tile = emit_i64(e, strip_floats(&e->target, s)),
                  .b = e->scratch,
                  .from = zero,
                  .terms = emit_slots(e, d.terms, g->bf16),
                  .flags = block_flags(e, l.i, end, g->rows, false)};
    d.k.b_terms = d.k.terms;
    if (g->more)
        d.k.flags = LLVMBuildAnd(e->b, d.k.flags,
                                 emit_select(e, g->more, emit_i64(e, ~EMIT_FIRST), emit_i64(e, -1)), "");
    Val from = emit_udiv(e, lo, strips),
        to = emit_udiv(e, emit_add(e, hi, emit_i64(e, s->strips - 1)), strips);
    EmitLoop group = emit_for(e, from, emit_min_i64(e, to, emit_i64(e, whole)), 1);
    grad_group(e, &d, group.i, s->columns);
    emit_end(e, &group);
    if (rest) {
        EmitIf last = emit_if(e, emit_icmp(e, LLVMIntSGT, to, emit_i64(e, whole)));
        grad_group(e, &d, emit_i64(e, whole), rest);
        emit_fi(e, &last);
    }
    emit_end(e, &l);
}
