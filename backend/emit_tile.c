/* Products by register tiles. C = A B is cut into tiles of MR rows by NV vectors of columns, whose sums stay
 * in registers over a block of at most KC terms; a panel of B, KC terms of NV vectors, is packed once into
 * scratch and stays in the first-level cache while all row tiles pass by it.
 *
 *     for a block of KC terms, for a group of panels that fit half the second-level cache
 *         pack the group
 *         for MC rows that fit a quarter of it, for each panel, for each tile of MR rows: the tile
 *
 * Every element's sum runs over its terms in order, by fused multiply-adds, whichever tile it is in: a tile
 * with fewer rows than MR computes its last row several times, one with fewer columns is padded with zeros.
 * So results don't depend on how rows are handed to threads.
 *
 * A is read in place, by rows of constant stride; for weight gradients (x^T g) strips of x are packed too. */
#include <string.h>
#include "backend/emit.h"

/* ---- sizes, from the target's registers and caches ---- */

typedef struct {
    int W, MR, NR;
    int64_t kc, panels, mc; /* terms a block, panels a group, rows a block */
} Shape;

static int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t at_least(int64_t a, int64_t least) { return a < least ? least : a; }
static int64_t at_most(int64_t a, int64_t most) { return a > most ? most : a; }

/* Panels that fit half the second-level cache. */
static int64_t group_of(const PassTarget *t, int64_t n, int64_t kc, int NR) {
    return at_most(at_least(t->l2_bytes / 2 / (4 * kc * NR), 1), div_up(n, NR));
}

static Shape shape_of(const PassTarget *t, int64_t n, int64_t k) {
    /* MR * NV sums, NV vectors of B and one of A fit the vector registers, and a pointer for each row of A
     * the general ones: 6 x 2 of 16, 8 x 3 of 32 */
    bool many = t->vector_regs >= 32;
    Shape s = {.W = t->vector_floats, .MR = many ? 8 : 6, .NR = (many ? 3 : 2) * t->vector_floats};
    int64_t most = at_least(t->l1_bytes / (4 * s.NR), 64);
    int64_t blocks = div_up(k, most);
    s.kc = at_most(k, div_up(div_up(k, blocks), 8) * 8);
    s.panels = group_of(t, n, s.kc, s.NR);
    s.mc = at_least(t->l2_bytes / 4 / (4 * s.kc) / s.MR, 1) * s.MR;
    return s;
}

int64_t emit_gemm_scratch(const PassTarget *t, int64_t n, int64_t k) {
    Shape s = shape_of(t, n, k);
    return 4 * s.kc * s.panels * s.NR;
}

/* ---- the tile ---- */

enum { FIRST = 1, LAST = 2 }; /* flags of a block of terms */
enum { MAX_MR = 8, MAX_NV = 3 };

typedef struct {
    const EmitGemm *g;
    const Shape *s;
    int cols; /* of this tile: NR, or what is left in the last panel */
    Val c, c_row, row0, col0, places;
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
    int col = p->v * t->s->W + first;
    const EmitEpilogue *end = t->g->epilogue;
    v = end->f(e, v, emit_add(e, t->row0, t->row[p->r]), emit_add(e, t->col0, emit_i64(e, col)), w, t->places,
               end->user);
    emit_store(e, v, element(e, t, p->r, col));
}

static void store_raw_piece(Emit *e, int first, int w, void *user) {
    TileRow *p = user;
    Val v = emit_take(e, emit_get(e, p->t->sum[p->r][p->v]), first, w);
    emit_store(e, v, element(e, p->t, p->r, p->v * p->t->s->W + first));
}

static void load_piece(Emit *e, int first, int w, void *user) {
    TileRow *p = user;
    int W = p->t->s->W;
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
    for (int r = 0; r < t->s->MR; r++)
        for (int v = 0; v * t->s->W < t->cols; v++) {
            TileRow p = {t, r, v};
            emit_pieces(e, (int)at_most(t->cols - v * t->s->W, t->s->W), piece, &p);
        }
}

/* Rows of C are a row's length apart, so nothing but this brings them into the first-level cache while the
 * sums are made: to be added to, or written. */
static void prefetch_rows(Emit *e, Tile *t) {
    for (int r = 0; r < t->s->MR; r++) {
        for (int col = 0; col < t->cols; col += CACHE_LINE) emit_prefetch(e, element(e, t, r, col), true);
        emit_prefetch(e, element(e, t, r, t->cols - 1), true);
    }
}

/* One term: a column of A times a row of the panel. */
static void term(Emit *e, Tile *t, Val *a, Val b, Val l) {
    int W = t->s->W, vectors = (t->cols + W - 1) / W;
    Val panel = emit_at(e, b, emit_scale(e, l, t->s->NR)), rhs[MAX_NV], at = emit_scale(e, l, t->g->a_col);
    for (int v = 0; v < vectors; v++) {
        rhs[v] = emit_load_vec(e, emit_at_const(e, panel, v * W), W);
        LLVMSetAlignment(rhs[v], 32);
    }
    for (int r = 0; r < t->s->MR; r++) {
        Val lhs = emit_splat(e, emit_load_vec(e, emit_at(e, a[r], at), 1), W);
        for (int v = 0; v < vectors; v++)
            emit_set(e, t->sum[r][v], emit_fma(e, lhs, rhs[v], emit_get(e, t->sum[r][v])));
    }
}

/* void tile(step, a, b, c, a_row, c_row, terms, rows, row0, col0, flags, places): `rows` (1..MR) rows of A
 * from `a`, the panel b, to c; row0 and col0 say where in the result that is. Shared by all products whose
 * columns of A are as far apart and whose epilogue is the same. */
enum { TILE_ARGS = 12 };
static Val make_tile(Emit *e, const EmitGemm *g, const Shape *s, int cols) {
    enum { UNROLL = 4 };
    LLVMTypeRef args[TILE_ARGS];
    for (int i = 0; i < TILE_ARGS; i++) args[i] = i < 4 || i == 11 ? e->ptr : e->i64;
    const char *key = g->epilogue ? g->epilogue->key : "";
    EmitFn outer;
    Val f, p[TILE_ARGS], lhs[MAX_MR];
    if (!emit_shared_open(e, arena_printf(e->arena, "tile_%d_%lld%s", cols, (long long)g->a_col, key), args,
                          TILE_ARGS, &f, &outer))
        return f;
    for (unsigned i = 0; i < TILE_ARGS; i++) p[i] = LLVMGetParam(f, i);
    Val a = p[1], b = p[2], terms = p[6], rows = p[7], flags = p[10];
    Tile t = {
        .g = g, .s = s, .cols = cols, .c = p[3], .c_row = p[5], .row0 = p[8], .col0 = p[9], .places = p[11]};
    Val last_row = emit_sub(e, rows, emit_i64(e, 1));
    for (int r = 0; r < s->MR; r++) {
        t.row[r] = emit_min_i64(e, emit_i64(e, r), last_row);
        lhs[r] = emit_at(e, a, emit_mul(e, t.row[r], p[4]));
        for (int v = 0; v * s->W < cols; v++) {
            t.sum[r][v] = emit_var(e, emit_vec(e, s->W));
            emit_set(e, t.sum[r][v], emit_const(e, s->W, 0));
        }
    }
    prefetch_rows(e, &t);
    Val started = emit_icmp(e, LLVMIntEQ, LLVMBuildAnd(e->b, flags, emit_i64(e, FIRST), ""), emit_i64(e, 0));
    EmitIf resume = emit_if(e, started);
    each_piece(e, &t, load_piece);
    emit_fi(e, &resume);
    Val whole = LLVMBuildAnd(e->b, terms, emit_i64(e, -UNROLL), "");
    EmitLoop l = emit_for(e, emit_i64(e, 0), whole, UNROLL);
    for (int u = 0; u < UNROLL; u++) term(e, &t, lhs, b, emit_add(e, l.i, emit_i64(e, u)));
    emit_end(e, &l);
    EmitLoop rest = emit_for(e, whole, terms, 1);
    term(e, &t, lhs, b, rest.i);
    emit_end(e, &rest);
    if (g->epilogue) {
        Val unfinished =
            emit_icmp(e, LLVMIntEQ, LLVMBuildAnd(e->b, flags, emit_i64(e, LAST), ""), emit_i64(e, 0));
        EmitIf end = emit_if(e, unfinished);
        each_piece(e, &t, store_raw_piece);
        emit_else(e, &end);
        each_piece(e, &t, store_piece);
        emit_fi(e, &end);
    } else {
        each_piece(e, &t, store_raw_piece);
    }
    emit_fn_close(e, &outer);
    return f;
}

/* ---- packing ---- */

typedef struct {
    Val from, to;
    int w;
} Copy;
static void copy_piece(Emit *e, int first, int w, void *user) {
    Copy *c = user;
    emit_store(e, emit_load_vec(e, emit_at_const(e, c->from, first), w), emit_at_const(e, c->to, first));
}
static void zero_piece(Emit *e, int first, int w, void *user) {
    Copy *c = user;
    emit_store(e, emit_const(e, w, 0), emit_at_const(e, c->to, c->w + first));
}

/* Eight vectors of eight become their transpose. */
static void transpose8(Emit *e, Val *v) {
    for (int step = 1; step < 8; step *= 2) {
        Val out[8], low[8], high[8];
        for (int i = 0; i < 8; i++) { /* lanes with bit `step` clear (set) of a pair, interleaved */
            int lane = i & step ? 8 + (i ^ step) : i;
            low[i] = emit_i32(e, lane);
            high[i] = emit_i32(e, i & step ? 8 + i : i | step);
        }
        for (int i = 0; i < 8; i++) {
            if (i & step) continue;
            Val a = v[i], b = v[i | step];
            out[i] = LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(low, 8), "");
            out[i | step] = LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(high, 8), "");
        }
        memcpy(v, out, sizeof out);
    }
}

/* Rows of B whose terms are contiguous (b_row 1): blocks of 8 by 8, what is left one by one. */
static void pack_transposed(Emit *e, const EmitGemm *g, const Shape *s, Val from, Val to, Val terms,
                            int cols) {
    int blocks = cols / 8 * 8;
    Val whole = LLVMBuildAnd(e->b, terms, emit_i64(e, -8), "");
    EmitLoop l = emit_for(e, emit_i64(e, 0), whole, 8);
    for (int j = 0; j < blocks; j += 8) {
        Val v[8];
        for (int i = 0; i < 8; i++)
            v[i] = emit_load_vec(e, emit_at_const(e, emit_at(e, from, l.i), (j + i) * g->b_col), 8);
        transpose8(e, v);
        for (int i = 0; i < 8; i++)
            emit_store(e, v[i], emit_at_const(e, emit_at(e, to, emit_scale(e, l.i, s->NR)), i * s->NR + j));
    }
    emit_end(e, &l);
    EmitLoop rest = emit_for(e, emit_i64(e, 0), terms, 1);
    Val in_blocks = emit_icmp(e, LLVMIntSLT, rest.i, whole);
    Val row = emit_at(e, to, emit_scale(e, rest.i, s->NR)), source = emit_at(e, from, rest.i);
    if (blocks) {
        EmitIf tail = emit_if(e, LLVMBuildNot(e->b, in_blocks, ""));
        for (int j = 0; j < blocks; j++)
            emit_store(e, emit_load_vec(e, emit_at_const(e, source, j * g->b_col), 1),
                       emit_at_const(e, row, j));
        emit_fi(e, &tail);
    }
    for (int j = blocks; j < s->NR; j++) {
        Val v = j < cols ? emit_load_vec(e, emit_at_const(e, source, j * g->b_col), 1) : emit_const(e, 1, 0);
        emit_store(e, v, emit_at_const(e, row, j));
    }
    emit_end(e, &rest);
}

/* `terms` rows of B from `from` (its first column is the panel's) to the panel, padded to NR columns. */
static void pack_panel(Emit *e, const EmitGemm *g, const Shape *s, Val from, Val to, Val terms, int cols) {
    if (g->b_row == 1 && g->b_col != 1) {
        pack_transposed(e, g, s, from, to, terms, cols);
        return;
    }
    EmitLoop l = emit_for(e, emit_i64(e, 0), terms, 1);
    Copy c = {emit_at(e, from, emit_scale(e, l.i, g->b_row)), emit_at(e, to, emit_scale(e, l.i, s->NR)),
              cols};
    if (g->b_col == 1) {
        emit_pieces(e, cols, copy_piece, &c);
    } else {
        for (int j = 0; j < cols; j++)
            emit_store(e, emit_load_vec(e, emit_at_const(e, c.from, j * g->b_col), 1),
                       emit_at_const(e, c.to, j));
    }
    emit_pieces(e, s->NR - cols, zero_piece, &c);
    emit_end(e, &l);
}

/* ---- the loops ---- */

typedef struct {
    const EmitGemm *g;
    Shape s;
    int tail;            /* columns of the last panel if it isn't whole, else 0 */
    int64_t whole;       /* whole panels */
    Val tile, tile_tail; /* functions */
} Plan;

static Plan plan_of(Emit *e, const EmitGemm *g, Shape s) {
    Plan p = {.g = g, .s = s, .tail = (int)(g->n % s.NR), .whole = g->n / s.NR};
    if (p.whole) p.tile = make_tile(e, g, &p.s, s.NR);
    if (p.tail) p.tile_tail = make_tile(e, g, &p.s, p.tail);
    return p;
}

static Val panel_at(Emit *e, const Plan *p, Val panel, Val from) {
    return emit_at(e, e->scratch, emit_scale(e, emit_sub(e, panel, from), p->s.kc * p->s.NR));
}

/* Whole panels from..to-1 whose rows are contiguous in B: a row of B is read along all of them, in the order
 * of memory. Panel by panel, rows a page apart would fall on the same few lines of the caches, and be fetched
 * anew for each panel. */
static void pack_by_rows(Emit *e, const Plan *p, Val terms, Val b, Val from, Val to) {
    EmitLoop l = emit_for(e, emit_i64(e, 0), terms, 1);
    Val row = emit_at(e, b, emit_scale(e, l.i, p->g->b_row)), place = emit_scale(e, l.i, p->s.NR);
    EmitLoop j = emit_for(e, from, to, 1);
    Copy c = {emit_at(e, row, emit_scale(e, j.i, p->s.NR)), emit_at(e, panel_at(e, p, j.i, from), place),
              p->s.NR};
    emit_pieces(e, p->s.NR, copy_piece, &c);
    emit_end(e, &j);
    emit_end(e, &l);
}

/* Panels from..to-1 into scratch: whole ones in a loop, then the last. */
static void pack_group(Emit *e, const Plan *p, Val l0, Val terms, Val from, Val to) {
    const EmitGemm *g = p->g;
    Val b = emit_at(e, g->b, emit_scale(e, l0, g->b_row)), whole = emit_i64(e, p->whole);
    Val end = emit_min_i64(e, to, whole);
    if (p->whole && g->b_col == 1) {
        pack_by_rows(e, p, terms, b, from, end);
    } else if (p->whole) {
        EmitLoop j = emit_for(e, from, end, 1);
        pack_panel(e, g, &p->s, emit_at(e, b, emit_scale(e, j.i, p->s.NR * g->b_col)),
                   panel_at(e, p, j.i, from), terms, p->s.NR);
        emit_end(e, &j);
    }
    if (p->tail) {
        EmitIf here = emit_if(e, emit_icmp(e, LLVMIntSGT, to, whole));
        pack_panel(e, g, &p->s, emit_at_const(e, b, p->whole * p->s.NR * g->b_col),
                   panel_at(e, p, whole, from), terms, p->tail);
        emit_fi(e, &here);
    }
}

/* Where A's rows are: in place, or one packed strip. */
typedef struct {
    Val a, c, terms, flags;
    Val row; /* of the result that `a` begins with; NULL: 0 */
} Block;

/* All tiles of rows lo..hi-1 in one panel. */
static void run_panel(Emit *e, const Plan *p, const Block *k, Val panel, Val col, Val lo, Val hi, Val f) {
    EmitLoop i = emit_for(e, lo, hi, p->s.MR);
    Val rows = emit_min_i64(e, emit_sub(e, hi, i.i), emit_i64(e, p->s.MR));
    Val a = emit_at(e, k->a, emit_scale(e, i.i, p->g->a_row));
    Val c = emit_at(e, emit_at(e, k->c, emit_scale(e, i.i, p->g->c_row)), col);
    Val row = k->row ? emit_add(e, k->row, i.i) : i.i;
    const EmitGemm *g = p->g;
    Val places = g->epilogue ? g->epilogue->places : LLVMConstNull(e->ptr);
    Val args[TILE_ARGS] = {
        e->step, a,   panel,    c,     emit_i64(e, g->a_row), emit_i64(e, g->c_row), k->terms, rows,
        row,     col, k->flags, places};
    emit_shared_call(e, f, args, TILE_ARGS);
    emit_end(e, &i);
}

/* Panels from..to-1, which stand packed in scratch, over rows lo..hi-1. */
static void run_group(Emit *e, const Plan *p, const Block *k, Val from, Val to, Val lo, Val hi) {
    Val whole = emit_i64(e, p->whole);
    if (p->whole) {
        EmitLoop j = emit_for(e, from, emit_min_i64(e, to, whole), 1);
        run_panel(e, p, k, panel_at(e, p, j.i, from), emit_scale(e, j.i, p->s.NR), lo, hi, p->tile);
        emit_end(e, &j);
    }
    if (p->tail) {
        EmitIf here = emit_if(e, emit_icmp(e, LLVMIntSGT, to, whole));
        run_panel(e, p, k, panel_at(e, p, whole, from), emit_i64(e, p->whole * p->s.NR), lo, hi,
                  p->tile_tail);
        emit_fi(e, &here);
    }
}

static Val block_flags(Emit *e, Val l0, Val end, Val all, bool accumulate) {
    Val first = emit_icmp(e, LLVMIntEQ, l0, emit_i64(e, 0)), last = emit_icmp(e, LLVMIntEQ, end, all);
    Val none = emit_i64(e, 0);
    return LLVMBuildOr(e->b, accumulate ? none : emit_select(e, first, emit_i64(e, FIRST), none),
                       emit_select(e, last, emit_i64(e, LAST), none), "");
}

void emit_gemm(Emit *e, const EmitGemm *g, Val lo, Val hi) {
    Plan p = plan_of(e, g, shape_of(&e->target, g->n, g->k));
    Val zero = emit_i64(e, 0), all = emit_i64(e, g->k), panels = emit_i64(e, p.whole + (p.tail > 0));
    EmitLoop l = emit_for(e, zero, all, p.s.kc);
    Val end = emit_min_i64(e, emit_add(e, l.i, emit_i64(e, p.s.kc)), all);
    Block k = {
        .a = emit_at(e, g->a, emit_scale(e, l.i, g->a_col)), .c = g->c, .terms = emit_sub(e, end, l.i)};
    k.flags = block_flags(e, l.i, end, all, g->accumulate);
    k.row = g->row_base;
    EmitLoop group = emit_for(e, zero, panels, p.s.panels);
    Val to = emit_min_i64(e, emit_add(e, group.i, emit_i64(e, p.s.panels)), panels);
    pack_group(e, &p, l.i, k.terms, group.i, to);
    EmitLoop rows = emit_for(e, lo, hi, p.s.mc);
    run_group(e, &p, &k, group.i, to, rows.i, emit_min_i64(e, emit_add(e, rows.i, emit_i64(e, p.s.mc)), hi));
    emit_end(e, &rows);
    emit_end(e, &group);
    emit_end(e, &l);
}

/* ---- weight gradients: C[k,n] = x^T g ----
 * Terms are rows of the batch. Tiles of the result, handed to threads: a strip of MR rows of C by a group of
 * panels, the strips of a group one after another. x is packed anew for each group, so groups are as wide as
 * the cache allows: at 128 columns that took a fifth of the product's time. */

static Shape grad_shape(const PassTarget *t, int64_t k, int64_t n) {
    Shape s = shape_of(t, n, 256);
    s.kc = 256;
    s.panels = group_of(t, n, s.kc, s.NR);
    if (div_up(k, s.MR) < 8) s.panels = at_most(s.panels, 2); /* few strips: more groups, for more threads */
    return s;
}

int64_t emit_grad_w_tiles(const PassTarget *t, int64_t k, int64_t n) {
    Shape s = grad_shape(t, k, n);
    return div_up(k, s.MR) * div_up(div_up(n, s.NR), s.panels);
}

enum { STRIPS = 16, STRIP_SLACK = 16 }; /* packed at a time; floats that packing may write beyond one */

static int64_t packed_floats(const Shape *s) {
    return s->kc * s->panels * s->NR + STRIPS * (s->kc * s->MR + STRIP_SLACK);
}

int64_t emit_grad_w_scratch(const PassTarget *t, int64_t k, int64_t n) {
    Shape s = grad_shape(t, k, n);
    return 4 * packed_floats(&s);
}

/* Tiles whose sums stand in scratch at a time: all of most weights, as what is packed for the tiles of one
 * block of rows is packed anew for each lot; of a huge one as many as eight second-level caches hold. */
static int64_t tiles_in_scratch(const PassTarget *t, const Shape *s, int64_t k, int64_t n) {
    int64_t fit = at_least(8 * t->l2_bytes / (4 * s->MR * s->panels * s->NR), 1);
    return at_most(emit_grad_w_tiles(t, k, n), fit);
}

int64_t emit_grad_sums_scratch(const PassTarget *t, int64_t k, int64_t n) {
    Shape s = grad_shape(t, k, n);
    return 4 * tiles_in_scratch(t, &s, k, n) * s.MR * s.panels * s.NR;
}

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

/* Strips s0..s1-1 of x, each as [terms][MR], one after another at `to`. A row of x is read along all of them,
 * so each cache line once. */
static void pack_strips(Emit *e, const EmitGradW *g, const Shape *s, Val from, Val to, Val terms, Val s0,
                        Val s1) {
    int left = (int)(g->k % s->MR);
    int64_t whole = g->k / s->MR, size = s->kc * s->MR + STRIP_SLACK;
    EmitLoop l = emit_for(e, emit_i64(e, 0), terms, 1);
    Val row = emit_at(e, from, emit_scale(e, l.i, g->k)), place = emit_at(e, to, emit_scale(e, l.i, s->MR));
    EmitLoop t = emit_for(e, s0, emit_min_i64(e, s1, emit_i64(e, whole)), 1);
    Copy c = {emit_at(e, row, emit_scale(e, t.i, s->MR)),
              emit_at(e, place, emit_scale(e, emit_sub(e, t.i, s0), size)), s->MR};
    if (s->MR == 6)
        copy_six(e, c.from, c.to);
    else
        emit_pieces(e, s->MR, copy_piece, &c);
    emit_end(e, &t);
    if (left) {
        EmitIf last = emit_if(e, emit_icmp(e, LLVMIntSGT, s1, emit_i64(e, whole)));
        Copy rest = {emit_at_const(e, row, whole * s->MR),
                     emit_at(e, place, emit_scale(e, emit_sub(e, emit_i64(e, whole), s0), size)), left};
        emit_pieces(e, left, copy_piece, &rest);
        emit_fi(e, &last);
    }
    emit_end(e, &l);
}

/* What a strip's tiles need to know: the block of rows, the panels, which stand packed, and where a strip of
 * the first of these panels would have its sums. */
typedef struct {
    Block k;
    Val from, to;
} GradBlock;

static EmitIf if_last(Emit *e, const GradBlock *b) {
    Val last = LLVMBuildAnd(e->b, b->k.flags, emit_i64(e, LAST), "");
    return emit_if(e, emit_icmp(e, LLVMIntNE, last, emit_i64(e, 0)));
}

/* One panel's tile of a strip without a place in C. What is to be read when the strip is finished is asked
 * for tile by tile: memory has time while a tile's sums are made, but not for a whole strip at once. */
static void announced_tile(Emit *e, const EmitGradW *g, const Plan *p, const GradBlock *b, Val panel,
                           int cols, Val rows, Val f) {
    Val col = emit_scale(e, panel, p->s.NR), zero = emit_i64(e, 0);
    EmitIf done = if_last(e, b);
    EmitLoop r = emit_for(e, zero, rows, 1);
    g->announce(e, emit_add(e, b->k.row, r.i), col, cols, g->user);
    emit_end(e, &r);
    emit_fi(e, &done);
    run_panel(e, p, &b->k, panel_at(e, p, panel, b->from), col, zero, rows, f);
}

static void announced_strip(Emit *e, const EmitGradW *g, const Plan *p, const GradBlock *b, Val rows) {
    Val whole = emit_i64(e, p->whole);
    if (p->whole) {
        EmitLoop j = emit_for(e, b->from, emit_min_i64(e, b->to, whole), 1);
        announced_tile(e, g, p, b, j.i, p->s.NR, rows, p->tile);
        emit_end(e, &j);
    }
    if (p->tail) {
        EmitIf here = emit_if(e, emit_icmp(e, LLVMIntSGT, b->to, whole));
        announced_tile(e, g, p, b, whole, p->tail, rows, p->tile_tail);
        emit_fi(e, &here);
    }
}

/* A strip whose last term is in, row by row. */
static void finish_strip(Emit *e, const EmitGradW *g, const Plan *p, const GradBlock *b, Val rows) {
    EmitIf done = if_last(e, b);
    Val from = emit_scale(e, b->from, p->s.NR);
    Val to = emit_min_i64(e, emit_scale(e, b->to, p->s.NR), emit_i64(e, g->n));
    EmitLoop r = emit_for(e, emit_i64(e, 0), rows, 1);
    Val sums = emit_at(e, b->k.c, emit_add(e, emit_scale(e, r.i, p->g->c_row), from));
    g->finish(e, emit_add(e, b->k.row, r.i), from, to, sums, g->user);
    emit_end(e, &r);
    emit_fi(e, &done);
}

/* Tiles lo..hi-1, whose sums, where they have no place in C, stand one after another in scratch. */
static void grad_tiles(Emit *e, const EmitGradW *g, const Plan *p, Val lo, Val hi) {
    const Shape *s = &p->s;
    int64_t strips = div_up(g->k, s->MR);
    Val zero = emit_i64(e, 0), panels = emit_i64(e, p->whole + (p->tail > 0)), n_strips = emit_i64(e, strips);
    Val strips_at = emit_at_const(e, e->scratch, s->kc * s->panels * s->NR);
    EmitLoop l = emit_for(
        e, zero, emit_select(e, emit_icmp(e, LLVMIntSGT, g->rows, zero), g->rows, emit_i64(e, 1)), s->kc);
    Val end = emit_min_i64(e, emit_add(e, l.i, emit_i64(e, s->kc)), g->rows);
    Block k = {.terms = emit_sub(e, end, l.i), .flags = block_flags(e, l.i, end, g->rows, false)};
    if (g->more)
        k.flags =
            LLVMBuildAnd(e->b, k.flags, emit_select(e, g->more, emit_i64(e, ~FIRST), emit_i64(e, -1)), "");
    EmitLoop group = emit_for(e, emit_udiv(e, lo, n_strips),
                              emit_udiv(e, emit_add(e, hi, emit_i64(e, strips - 1)), n_strips), 1);
    Val from = emit_scale(e, group.i, s->panels), before = emit_scale(e, group.i, strips);
    Val to = emit_min_i64(e, emit_add(e, from, emit_i64(e, s->panels)), panels);
    pack_group(e, p, l.i, k.terms, from, to);
    Val s0 = emit_sub(e, lo, before), s1 = emit_min_i64(e, emit_sub(e, hi, before), n_strips);
    s0 = emit_select(e, emit_icmp(e, LLVMIntSGT, s0, zero), s0, zero);
    EmitLoop few = emit_for(e, s0, s1, STRIPS);
    Val some = emit_min_i64(e, emit_add(e, few.i, emit_i64(e, STRIPS)), s1);
    pack_strips(e, g, s, emit_at(e, g->x, emit_scale(e, l.i, g->k)), strips_at, k.terms, few.i, some);
    EmitLoop i = emit_for(e, few.i, some, 1);
    Val row = emit_scale(e, i.i, s->MR),
        rows = emit_min_i64(e, emit_i64(e, s->MR), emit_sub(e, emit_i64(e, g->k), row));
    k.a = emit_at(e, strips_at, emit_scale(e, emit_sub(e, i.i, few.i), s->kc * s->MR + STRIP_SLACK));
    k.row = row;
    if (g->c) {
        k.c = emit_at(e, g->c, emit_scale(e, row, g->n));
        run_group(e, p, &k, from, to, zero, rows);
    } else {
        Val tile = emit_sub(e, emit_add(e, before, i.i), lo),
            sums = emit_at_const(e, e->scratch, packed_floats(s));
        sums = emit_at(e, sums, emit_scale(e, tile, s->MR * p->g->c_row));
        k.c = emit_at(e, sums, emit_sub(e, zero, emit_scale(e, from, s->NR))); /* tiles add their column */
        GradBlock b = {k, from, to};
        announced_strip(e, g, p, &b, rows);
        finish_strip(e, g, p, &b, rows);
    }
    emit_end(e, &i);
    emit_end(e, &few);
    emit_end(e, &group);
    emit_end(e, &l);
}

void emit_grad_w(Emit *e, const EmitGradW *g, Val lo, Val hi) {
    Shape s = grad_shape(&e->target, g->k, g->n);
    EmitGemm m = {.n = g->n,
                  .k = 0,
                  .a_row = 1,
                  .a_col = s.MR,
                  .b = g->g,
                  .b_row = g->n,
                  .b_col = 1,
                  .c = g->c,
                  .c_row = g->c ? g->n : s.panels * s.NR,
                  .epilogue = g->epilogue};
    Plan p = plan_of(e, &m, s);
    if (g->c) {
        grad_tiles(e, g, &p, lo, hi);
        return;
    }
    int64_t lot = tiles_in_scratch(&e->target, &s, g->k, g->n);
    EmitLoop part = emit_for(e, lo, hi, lot);
    grad_tiles(e, g, &p, part.i, emit_min_i64(e, emit_add(e, part.i, emit_i64(e, lot)), hi));
    emit_end(e, &part);
}
