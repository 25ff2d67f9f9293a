/* Weight gradients C[k,n] = x^T g by register tiles. Terms are rows of the batch. A tile of the result,
 * handed to threads, is a strip of a few rows of C by a group of panels: all of them, so that x is packed
 * once, unless there are too few strips for several threads. Strips of x are packed as well as g.
 *
 * Where such a gradient has no place, its sums stand in scratch, and whoever asked for it gets the rows of a
 * lot of strips when their last term is in. */
#include <string.h>
#include "backend/emit_tile.h"

typedef struct {
    int MR;
    int64_t strips, columns, groups; /* columns: of a group, whole panels */
} GradShape;

static GradShape grad_shape(const PassTarget *t, int64_t k, int64_t n, bool amx) {
    enum { ENOUGH = 8, PANELS = 4 };
    EmitPanels p = emit_panels(t->vector_floats, n);
    GradShape s = {
        .MR = amx ? EMIT_AMX_ROWS : emit_tile_rows(t, p.count[3] ? 3 : 2), .columns = n, .groups = 1};
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
    return emit_tile_terms(t) * s->MR + STRIP_SLACK;
}
static int64_t panel_floats(const PassTarget *t, const GradShape *s) {
    return emit_packed_floats(t->vector_floats, emit_tile_terms(t), s->columns);
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
        emit_amx_rows(e, &(EmitAmxLeft){emit_at(e, from, first), g->x_row, terms, rows, to,
                                        emit_tile_terms(&e->target)});
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
    TileBlock k;
    Val c;                    /* the result, or what stands for it in scratch */
    Val first, terms, lo, hi; /* the block's first term, as rows of x, and how many; tiles */
} Grad;

static void grad_panel(Emit *e, Val col, int vectors, int cols, void *user) {
    emit_tile_panel(e, user, col, vectors, cols);
}

/* Rows k->row0 on of a group of n columns, if their last term is in: as one run where rows are whole. */
static void finish_rows(Emit *e, const Grad *d, const TileBlock *k, int64_t n) {
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
    TileBlock k = d->k;
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

/* Blocks of terms that fit half of the second-level cache are fetched one ahead: with few columns there is
 * too little work for each of them to wait for the third level. (Rows that hold much else are not worth it.)
 */
static bool fetches_ahead(const PassTarget *t, const EmitGradW *g, int64_t kc) {
    return !g->amx && 4 * kc * (g->x_row + g->g_row) <= t->l2_bytes / 2;
}

/* x and g of the block behind the one that ends with term `end`. */
static TileAhead next_block(Emit *e, const EmitGradW *g, Val end, int64_t kc) {
    Val terms = emit_min_i64(e, emit_sub(e, g->rows, end), emit_i64(e, kc));
    TileAhead a = {.from = {emit_at(e, g->x, emit_scale(e, end, g->x_row)),
                            emit_at(e, g->g, emit_scale(e, end, g->g_row))},
                   .floats = {emit_scale(e, terms, g->x_row), emit_scale(e, terms, g->g_row)},
                   .done = emit_var(e, e->i64)};
    emit_set(e, a.done, emit_i64(e, 0));
    return a;
}

void emit_grad_w(Emit *e, const EmitGradW *g, Val lo, Val hi) {
    Grad d = {.g = g, .s = grad_shape(&e->target, g->k, g->n, g->amx), .c = g->c, .lo = lo, .hi = hi};
    const GradShape *s = &d.s;
    if (!d.c) d.c = emit_at_const(e, e->scratch, emit_grad_w_scratch(&e->target, g->k, g->n, g->amx) / 4);
    d.m = (EmitGemm){
        .n = g->n, .a_row = 1, .a_col = s->MR, .packs_a = s->MR, .c_row = g->n, .epilogue = g->epilogue};
    d.m.bf16 = g->bf16, d.m.amx = g->amx;
    if (g->amx) d.m.a_row = emit_tile_terms(&e->target), d.m.a_col = 1, d.m.packs_a = 0;
    Val zero = emit_i64(e, 0), one = emit_i64(e, 1), strips = emit_i64(e, s->strips);
    int64_t kc = emit_tile_terms(&e->target) * (g->bf16 ? 2 : 1), whole = g->n / s->columns,
            rest = g->n % s->columns;
    Val some = emit_icmp(e, LLVMIntSGT, g->rows, zero); /* without rows: zeros */
    EmitLoop l = emit_for(e, zero, emit_select(e, some, g->rows, one), kc);
    Val end = emit_min_i64(e, emit_add(e, l.i, emit_i64(e, kc)), g->rows);
    d.first = l.i;
    Val x_strips = emit_at_const(e, e->scratch, panel_floats(&e->target, s));
    d.terms = emit_sub(e, end, l.i);
    d.k = (TileBlock){.g = &d.m,
                      .a = x_strips,
                      .a_tile = emit_i64(e, strip_floats(&e->target, s)),
                      .b = e->scratch,
                      .from = zero,
                      .terms = emit_slots(e, d.terms, g->bf16),
                      .flags = emit_tile_flags(e, l.i, end, g->rows, false)};
    d.k.b_terms = d.k.terms;
    TileAhead ahead;
    if (fetches_ahead(&e->target, g, kc)) ahead = next_block(e, g, end, kc), d.k.ahead = &ahead;
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
