/* Recurrent layers' common parts: see emit_recurrent.h.
 *
 * Bits don't depend on which rows are beside a row: a sum runs over its terms in order by fused
 * multiply-adds, whichever tile it is in, and a tile that reaches beyond the running rows computes what
 * nobody reads. */
#include <string.h>
#include "backend/emit_recurrent.h"

int64_t emit_rec_take(RecScratch *s, int64_t floats) {
    int64_t at = s->floats;
    s->floats += (floats + 15) / 16 * 16;
    return at;
}

/* ---- order ---- */

/* Sorted by rank: a row's place is the number of rows before it. Quadratic, but in vectors and without a
 * branch, and small beside the work on the rows. */
enum { REC_PAD = 48, KEY_BITS = 9 }; /* rows in whole groups and whole vectors; REC_BLOCK < 1 << KEY_BITS */

int64_t emit_rec_order_floats(void) { return 3 * REC_BLOCK * 2; }

static Val i64_at(Emit *e, Val base, Val index) {
    return LLVMBuildInBoundsGEP2(e->b, e->i64, base, &index, 1, "");
}

typedef struct {
    Val first, length;
} RowList;

/* Row i of the block: one behind its end has no positions. */
static RowList list_of(Emit *e, Val offsets, Val lo, Val n, Val i) {
    Val inside = emit_icmp(e, LLVMIntSLT, i, n), zero = emit_i64(e, 0);
    Val row = emit_add(e, lo, emit_select(e, inside, i, zero));
    Val first = emit_to_i64(e, emit_load_elem(e, e->i32, offsets, row));
    Val end = emit_to_i64(e, emit_load_elem(e, e->i32, offsets, emit_add(e, row, emit_i64(e, 1))));
    return (RowList){first, emit_select(e, inside, emit_sub(e, end, first), zero)};
}

/* How many of m keys are greater than key i. */
static Val rank_of(Emit *e, Val keys, Val i, Val m) {
    int w = e->W / 2;
    LLVMTypeRef vec = LLVMVectorType(e->i64, (unsigned)w);
    Val mine = emit_splat(e, emit_load_elem(e, e->i64, keys, i), w), count = emit_var(e, vec);
    emit_set(e, count, LLVMConstNull(vec));
    EmitLoop j = emit_for(e, emit_i64(e, 0), m, w);
    Val theirs = emit_load(e, vec, i64_at(e, keys, j.i));
    LLVMSetAlignment(theirs, 8);
    Val greater = LLVMBuildSExt(e->b, emit_icmp(e, LLVMIntSGT, theirs, mine), vec, "");
    emit_set(e, count, emit_sub(e, emit_get(e, count), greater));
    emit_end(e, &j);
    Val all = emit_get(e, count);
    return emit_intrinsic(e, "llvm.vector.reduce.add", &all, 1);
}

/* void recurrent_order(step, offsets, lo, n, m, to): m is n in whole groups and vectors */
static Val order_function(Emit *e) {
    LLVMTypeRef args[] = {e->ptr, e->ptr, e->i64, e->i64, e->i64, e->ptr};
    Val f, p[6];
    EmitFn outer;
    if (!emit_shared_open(e, "recurrent_order", args, 6, &f, &outer)) return f;
    for (unsigned i = 0; i < 6; i++) p[i] = LLVMGetParam(f, i);
    Val offsets = p[1], lo = p[2], n = p[3], m = p[4], zero = emit_i64(e, 0);
    Val first = p[5], length = i64_at(e, first, emit_i64(e, REC_BLOCK)),
        keys = i64_at(e, first, emit_i64(e, 2 * REC_BLOCK));
    EmitLoop i = emit_for(e, zero, m, 1);
    RowList r = list_of(e, offsets, lo, n, i.i);
    Val key = emit_scale(e, r.length, 1 << KEY_BITS); /* longer ones first, then as they stand */
    key = emit_add(e, key, emit_sub(e, emit_i64(e, (1 << KEY_BITS) - 1), i.i));
    emit_store(e, key, i64_at(e, keys, i.i));
    emit_end(e, &i);
    i = emit_for(e, zero, m, 1);
    Val rank = rank_of(e, keys, i.i, m);
    r = list_of(e, offsets, lo, n, i.i);
    emit_store(e, r.first, i64_at(e, first, rank));
    emit_store(e, r.length, i64_at(e, length, rank));
    emit_end(e, &i);
    emit_fn_close(e, &outer);
    return f;
}

RecOrder emit_rec_order(Emit *e, int axis, Val lo, Val hi, Val to) {
    Val n = emit_sub(e, hi, lo), pad = emit_i64(e, REC_PAD);
    Val m = emit_mul(e, emit_udiv(e, emit_add(e, n, emit_i64(e, REC_PAD - 1)), pad), pad);
    Val args[] = {e->step, emit_offsets(e, axis), lo, n, m, to};
    emit_shared_call(e, order_function(e), args, 6);
    return (RecOrder){to, i64_at(e, to, emit_i64(e, REC_BLOCK)), m};
}

Val emit_rec_live(Emit *e, const RecOrder *o, Val group, Val t) {
    Val live = emit_var(e, e->i64);
    emit_set(e, live, emit_i64(e, 0));
    EmitLoop i = emit_for(e, group, emit_add(e, group, emit_i64(e, REC_GROUP)), 1);
    Val runs = emit_icmp(e, LLVMIntSGT, emit_load_elem(e, e->i64, o->length, i.i), t);
    emit_set(e, live, emit_add(e, emit_get(e, live), emit_to_i64(e, runs)));
    emit_end(e, &i);
    return emit_get(e, live);
}

/* ---- vectors of units ---- */

int64_t emit_rec_padded(int W, int64_t n) { return (n + W - 1) / W * W; }

/* Vectors from..to-1 of n numbers behind `col`, woven by as even groups as can be. */
static void some_vectors(Emit *e, Val col, int64_t n, int64_t from, int64_t to, RecVector body, void *user) {
    int64_t groups = (to - from + WEAVE_PIECES - 1) / WEAVE_PIECES;
    for (int64_t g = 0; g < groups; g++) {
        EmitWeave w = emit_weave(e);
        for (int64_t v = from + g * (to - from) / groups; v < from + (g + 1) * (to - from) / groups; v++) {
            int64_t at = v * e->W, lanes = n - at < e->W ? n - at : e->W;
            body(e, emit_add(e, col, emit_i64(e, at)), (int)lanes, user);
            emit_woven(e, &w);
        }
        emit_weave_end(e, &w);
    }
}

void emit_rec_vectors(Emit *e, int64_t n, RecVector body, void *user) {
    enum { STRAIGHT = 12, EACH = 4 }; /* vectors without a loop; of a loop's turn */
    int64_t vectors = (n + e->W - 1) / e->W, looped = 0;
    if (vectors > STRAIGHT) {
        looped = n / (EACH * e->W) * EACH;
        EmitLoop col = emit_for(e, emit_i64(e, 0), emit_i64(e, looped * e->W), EACH * e->W);
        some_vectors(e, col.i, EACH * e->W, 0, EACH, body, user);
        emit_end(e, &col);
    }
    some_vectors(e, emit_i64(e, 0), n, looped, vectors, body, user);
}

Val emit_rec_load(Emit *e, Val p, int lanes) {
    if (lanes == e->W) return emit_load_vec(e, p, e->W);
    LLVMTypeRef types[] = {emit_vec(e, e->W), e->ptr};
    Val mask[64];
    for (int i = 0; i < e->W; i++) mask[i] = LLVMConstInt(e->i1, i < lanes, 0);
    unsigned id = LLVMLookupIntrinsicID("llvm.masked.load", strlen("llvm.masked.load"));
    Val f = LLVMGetIntrinsicDeclaration(e->mod, id, types, 2);
    Val args[] = {p, emit_i32(e, 4), LLVMConstVector(mask, (unsigned)e->W), emit_const(e, e->W, 0)};
    return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(f), f, args, 4, "");
}

typedef struct {
    Val v, to;
} Store;
static void store_piece(Emit *e, int first, int w, void *user) {
    Store *s = user;
    emit_store(e, emit_take(e, s->v, first, w), emit_at_const(e, s->to, first));
}
void emit_rec_store(Emit *e, Val v, Val p, int lanes) { /* a masked store is slow on AVX2 */
    emit_pieces(e, lanes, store_piece, &(Store){v, p});
}

/* ---- products ----
 * By the panels of emit_pack.c: three vectors of columns by four rows, two by six (by eight and twelve with
 * 32 registers), so all sums of a tile fit the registers and there are enough of them to hide the latency. */

static int sums_of(const Emit *e) { return e->target.vector_regs >= 32 ? 24 : 12; } /* of a tile */

/* Calls body in a loop over all panels: its first column, and its width in vectors. */
typedef void (*PanelBody)(Emit *e, const RecProduct *p, Val col, int vectors, void *user);
static void each_panel(Emit *e, const RecProduct *p, PanelBody body, void *user) {
    EmitPanels panels = emit_panels(e->W, p->n);
    int64_t from = 0;
    for (int v = 3; v > 0; v--) {
        int64_t to = from + panels.count[v] * v * e->W;
        if (from == to) continue;
        EmitLoop col = emit_for(e, emit_i64(e, from), emit_i64(e, to), v * e->W);
        body(e, p, col.i, v, user);
        emit_end(e, &col);
        from = to;
    }
}

enum { MAX_SUMS = 24 };
typedef struct {
    Val a, b, c; /* this tile's corner */
    int rows, vectors;
    Val sum[MAX_SUMS]; /* variables */
} Tile;

static void term(Emit *e, const RecProduct *p, Tile *t, Val l) {
    Val b = emit_at(e, t->b, emit_scale(e, l, (int64_t)t->vectors * e->W)), a = emit_at(e, t->a, l), rhs[3];
    for (int v = 0; v < t->vectors; v++) {
        rhs[v] = emit_load_vec(e, emit_at_const(e, b, v * e->W), e->W);
        LLVMSetAlignment(rhs[v], 32);
    }
    for (int r = 0; r < t->rows; r++) {
        Val lhs = emit_splat(e, emit_load_vec(e, emit_at_const(e, a, r * p->a_row), 1), e->W);
        for (int v = 0; v < t->vectors; v++) {
            Val sum = t->sum[r * t->vectors + v];
            emit_set(e, sum, emit_fma(e, lhs, rhs[v], emit_get(e, sum)));
        }
    }
}

static Val element(Emit *e, const RecProduct *p, const Tile *t, int sum) {
    return emit_at_const(e, t->c, sum / t->vectors * p->c_row + sum % t->vectors * e->W);
}

static void tile(Emit *e, const RecProduct *p, Tile *t) {
    enum { UNROLL = 4 };
    int sums = t->rows * t->vectors;
    int64_t whole = p->terms / UNROLL * UNROLL;
    for (int i = 0; i < sums; i++) {
        t->sum[i] = emit_var(e, emit_vec(e, e->W));
        emit_set(e, t->sum[i], p->add ? emit_load_vec(e, element(e, p, t, i), e->W) : emit_const(e, e->W, 0));
    }
    EmitLoop l = emit_for(e, emit_i64(e, 0), emit_i64(e, whole), UNROLL);
    for (int u = 0; u < UNROLL; u++) term(e, p, t, emit_add(e, l.i, emit_i64(e, u)));
    emit_end(e, &l);
    for (int64_t i = whole; i < p->terms; i++) term(e, p, t, emit_i64(e, i));
    for (int i = 0; i < sums; i++) emit_store(e, emit_get(e, t->sum[i]), element(e, p, t, i));
}

typedef struct {
    Val a, b, c, rows;
} Operands;

static void panel_tiles(Emit *e, const RecProduct *p, Val col, int vectors, void *user) {
    const Operands *o = user;
    Tile t = {.vectors = vectors, .rows = sums_of(e) / vectors};
    t.b = emit_at(e, o->b, emit_scale(e, col, p->terms));
    EmitLoop i = emit_for(e, emit_i64(e, 0), o->rows, t.rows);
    t.a = emit_at(e, o->a, emit_scale(e, i.i, p->a_row));
    t.c = emit_at(e, emit_at(e, o->c, emit_scale(e, i.i, p->c_row)), col);
    tile(e, p, &t);
    emit_end(e, &i);
}

void emit_rec_product(Emit *e, const RecProduct *p, Val a, Val c, Val rows) {
    LLVMTypeRef args[] = {e->ptr, e->ptr, e->ptr, e->ptr, e->i64};
    const char *name =
        arena_printf(e->arena, "recurrent_product_%lld_%lld_%lld_%lld%s", (long long)p->terms,
                     (long long)p->n, (long long)p->a_row, (long long)p->c_row, p->add ? "_add" : "");
    Val f;
    EmitFn outer;
    if (emit_shared_open(e, name, args, 5, &f, &outer)) {
        Operands o = {LLVMGetParam(f, 1), LLVMGetParam(f, 2), LLVMGetParam(f, 3), LLVMGetParam(f, 4)};
        each_panel(e, p, panel_tiles, &o);
        emit_fn_close(e, &outer);
    }
    emit_shared_call(e, f, (Val[]){e->step, a, p->packed, c, rows}, 5);
}
