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
 * A is read in place, by rows of constant stride; or it comes in packed strips of a tile's rows, as weight
 * gradients have it (emit_grad_w.c). */
#include <string.h>
#include "backend/emit_tile.h"

/* ---- sizes, from the target's registers and caches ---- */

/* Rows of a tile of so many vectors: the sums, a row of B and an element of A fit the vector registers. */
int emit_tile_rows(const PassTarget *t, int vectors) {
    if (t->vector_regs >= 32) return 8;
    return vectors == 3 ? 4 : vectors == 2 ? 6 : 8;
}

/* Terms a block: three quarters of the first-level cache hold a panel's, the rest is A's and C's. */
int64_t emit_tile_terms(const PassTarget *t) {
    return at_least(t->l1_bytes * 3 / 4 / (4 * 3 * t->vector_floats) / 16, 4) * 16;
}
static int64_t terms_of(const PassTarget *t, int64_t k, int64_t unit) {
    int64_t blocks = at_least(div_up(k, emit_tile_terms(t)), 1);
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
    EmitWeave w = emit_weave(e);
    for (int r = 0; r < t->MR; r++)
        for (int v = 0; v * t->W < t->cols; v++) {
            TileRow p = {t, r, v};
            emit_pieces(e, (int)at_most(t->cols - v * t->W, t->W), piece, &p);
            if (piece == store_piece) emit_woven(e, &w);
        }
    emit_weave_end(e, &w);
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

/* The sums over the block's terms. While they are made, a cache line behind `ahead` is fetched into the
 * second-level cache for every UNROLL terms; NULL: nothing. */
enum { UNROLL = 4 };
static void sums(Emit *e, Tile *t, Val *a, Val b, Val ahead) {
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
 * With packed strips that is nothing, or (first, second, floats of the first, of both) what follows `far`
 * floats of these two runs. Shared by all products whose columns of A are as far apart and whose epilogue is
 * the same. */
enum { PANEL_ARGS = 14, PANEL_PTRS = 5, AHEAD_ARGS = 4 };

/* Where tile number n begins to fetch: each of its turns of terms fetches a cache line. */
static Val tile_ahead(Emit *e, const Val *p, const Tile *t, Val n, bool runs) {
    Val floats = emit_mul(e, n, emit_scale(e, t->terms, CACHE_LINE / 4 / (runs ? UNROLL : 1)));
    if (!runs)
        return emit_at(e, p[2],
                       emit_add(e, p[13], emit_min_i64(e, floats, emit_scale(e, t->terms, t->width))));
    const Val *run = p + PANEL_ARGS;
    Val done = emit_add(e, p[13], floats), second = emit_at(e, run[1], emit_sub(e, done, run[2]));
    second = emit_select(e, emit_icmp(e, LLVMIntSLT, done, run[3]), second,
                         p[2]); /* all of it: b, which is near */
    return emit_select(e, emit_icmp(e, LLVMIntSLT, done, run[2]), emit_at(e, run[0], done), second);
}

static Val make_panel(Emit *e, const EmitGemm *g, int MR, int vectors, int cols, bool runs) {
    LLVMTypeRef args[PANEL_ARGS + AHEAD_ARGS];
    unsigned n_args = PANEL_ARGS + (runs ? AHEAD_ARGS : 0);
    for (unsigned i = 0; i < n_args; i++)
        args[i] = i < PANEL_PTRS || i == PANEL_ARGS || i == PANEL_ARGS + 1 ? e->ptr : e->i64;
    const char *key = g->epilogue ? g->epilogue->key : "";
    const char *name = arena_printf(e->arena, "tile%s_%dx%d_%lld%s%s", g->bf16 ? "_bf16" : "", MR, cols,
                                    (long long)g->a_col, runs ? "_ahead" : "", key);
    EmitFn outer;
    Val f, p[PANEL_ARGS + AHEAD_ARGS];
    if (!emit_shared_open(e, name, args, (int)n_args, &f, &outer)) return f;
    for (unsigned i = 0; i < n_args; i++) p[i] = LLVMGetParam(f, i);
    Tile t = {.g = g, .W = e->W, .MR = MR, .width = vectors * e->W, .cols = cols};
    t.places = p[4], t.a_row = p[5], t.c_row = p[7], t.terms = p[8], t.flags = p[12], t.col0 = p[11];
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < vectors; v++) t.sum[r][v] = emit_var(e, emit_vec(e, e->W));
    Val rows = p[9], number = emit_var(e, e->i64), ahead = NULL;
    emit_set(e, number, emit_i64(e, 0));
    EmitLoop i = emit_for(e, emit_i64(e, 0), rows, MR);
    Val n = emit_get(e, number);
    t.c = emit_at(e, p[3], emit_mul(e, i.i, t.c_row));
    t.row0 = emit_add(e, p[10], i.i);
    if (runs || !g->packs_a) ahead = tile_ahead(e, p, &t, n, runs);
    tile(e, &t, emit_at(e, p[1], emit_mul(e, n, p[6])), p[2], rows, i.i, ahead);
    emit_set(e, number, emit_add(e, n, emit_i64(e, 1)));
    emit_end(e, &i);
    emit_fn_close(e, &outer);
    return f;
}

/* ---- the loops ---- */

static Val panel_at(Emit *e, const TileBlock *k, Val col, int vectors) {
    Val panel = emit_at(e, k->b, emit_mul(e, col, k->b_terms));
    return emit_at(e, panel, emit_mul(e, k->from, emit_i64(e, (int64_t)vectors * e->W)));
}

/* rows from..to-1 of the block by tiles of MR rows */
static void run_rows(Emit *e, const TileBlock *k, Val col, int MR, int vectors, int cols, Val from, Val to) {
    const EmitGemm *g = k->g;
    Val f = make_panel(e, g, MR, vectors, cols, k->ahead), width = emit_i64(e, (int64_t)vectors * e->W);
    Val panel = panel_at(e, k, col, vectors), a = k->a, row = k->row0 ? emit_add(e, k->row0, from) : from;
    if (!g->packs_a) a = emit_at(e, a, emit_scale(e, from, g->a_row));
    Val args[PANEL_ARGS + AHEAD_ARGS] = {e->step,
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
    const TileAhead *h = k->ahead;
    if (h) {
        Val tiles = emit_udiv(e, emit_add(e, emit_sub(e, to, from), emit_i64(e, MR - 1)), emit_i64(e, MR));
        Val run[] = {h->from[0], h->from[1], h->floats[0], emit_add(e, h->floats[0], h->floats[1])};
        args[PANEL_ARGS - 1] = emit_get(e, h->done);
        memcpy(args + PANEL_ARGS, run, sizeof run);
        Val fetched = emit_mul(e, tiles, emit_scale(e, k->terms, CACHE_LINE / 4 / UNROLL));
        emit_set(e, h->done, emit_add(e, args[PANEL_ARGS - 1], fetched));
    }
    emit_shared_call(e, f, args, PANEL_ARGS + (h ? AHEAD_ARGS : 0));
}

void emit_tile_panel(Emit *e, const TileBlock *k, Val col, int vectors, int cols) {
    if (k->g->amx) {
        EmitAmxPanel p = {.vectors = vectors, .cols = cols, .a = k->a, .slots = k->terms, .rows = k->rows};
        p.b = panel_at(e, k, col, vectors), p.c = emit_at(e, k->c, col), p.flags = k->flags;
        p.row0 = k->row0 ? k->row0 : emit_i64(e, 0), p.col0 = k->col0 ? emit_add(e, k->col0, col) : col;
        emit_amx_panel(e, k->g, &p);
        return;
    }
    int MR = k->g->packs_a ? k->g->packs_a : emit_tile_rows(&e->target, vectors);
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

Val emit_tile_flags(Emit *e, Val l0, Val end, Val all, bool accumulate) {
    Val first = emit_icmp(e, LLVMIntEQ, l0, emit_i64(e, 0)), last = emit_icmp(e, LLVMIntEQ, end, all);
    Val none = emit_i64(e, 0);
    return LLVMBuildOr(e->b, accumulate ? none : emit_select(e, first, emit_i64(e, EMIT_FIRST), none),
                       emit_select(e, last, emit_i64(e, EMIT_LAST), none), "");
}

/* One panel: all its terms, block by block. */
static void all_terms(Emit *e, Val col, int vectors, int cols, void *user) {
    TileBlock k = *(const TileBlock *)user;
    const EmitGemm *g = k.g;
    Val all = emit_i64(e, g->k);
    int64_t kc = terms_of(&e->target, g->k, g->amx ? EMIT_AMX_ROWS : 8);
    EmitLoop l = emit_for(e, emit_i64(e, 0), all, kc);
    Val end = emit_min_i64(e, emit_add(e, l.i, emit_i64(e, kc)), all);
    k.a = emit_at(e, k.a, emit_scale(e, l.i, g->a_col));
    k.from = l.i, k.terms = emit_sub(e, end, l.i);
    k.flags = emit_tile_flags(e, l.i, end, all, g->accumulate);
    emit_tile_panel(e, &k, col, vectors, cols);
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
    TileBlock k = {.g = &made, .b = g->b, .b_terms = emit_i64(e, made.k)};
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
