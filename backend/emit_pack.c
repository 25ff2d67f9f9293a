/* The right side of a product, as register tiles read it: panels of one to three vectors of columns, each
 * [terms][width] without gaps, one after another, so that the panel that begins with column c stands at
 * c * terms. The columns of the last panel that don't exist are zeros.
 *
 *     W [3,7], vectors of 2:    a b c d e f g
 *                               h i j k l m n    a b c d h i j k o p q r   e f g 0 l m n 0 s t u 0
 *                               o p q r s t u
 *
 * Panels of three vectors by four rows (by eight with 32 registers) fill the registers with sums; what is
 * left goes in panels of two: unlike with one width for all, 36 or 72 columns leave no panel half empty.
 *
 * Products of bfloat16 (emit_bf16.c) read pairs of terms: a panel is [(terms + 1) / 2][width], each element
 * the terms 2l and 2l + 1 of a column.
 *
 * Weights are packed once a step, by all threads, into the place of a `pack`; other matrices by whoever
 * multiplies with them, into scratch. */
#include <string.h>
#include "backend/emit.h"

EmitPanels emit_panels(int W, int64_t n) {
    int64_t vectors = (n + W - 1) / W, rest = vectors % 3;
    EmitPanels p = {{0}};
    p.count[3] = vectors / 3;
    if (rest == 1 && p.count[3]) { /* 3 + 1 is better 2 + 2 */
        p.count[3]--;
        p.count[2] = 2;
    } else {
        p.count[rest] = rest > 0;
    }
    return p;
}

int64_t emit_packed_floats(int W, int64_t terms, int64_t n) { return terms * ((n + W - 1) / W * W); }

/* The last panel's vectors; it is the only one that may lack columns. */
static int last_vectors(const EmitPanels *p) { return p->count[1] ? 1 : p->count[2] ? 2 : 3; }

void emit_each_panel(Emit *e, int64_t n, EmitPanelBody body, void *user) {
    EmitPanels panels = emit_panels(e->W, n);
    int last = last_vectors(&panels);
    int64_t from = 0;
    for (int v = 3; v > 0; v--) {
        int64_t width = (int64_t)v * e->W, count = panels.count[v];
        bool lacks = v == last && n < from + count * width;
        int64_t to = from + (count - lacks) * width;
        if (to - from == width) {
            body(e, emit_i64(e, from), v, (int)width, user);
        } else if (to > from) {
            EmitLoop col = emit_for(e, emit_i64(e, from), emit_i64(e, to), width);
            body(e, col.i, v, (int)width, user);
            emit_end(e, &col);
        }
        if (lacks) body(e, emit_i64(e, to), v, (int)(n - to), user);
        from += count * width;
    }
}

/* ---- rows of B that are contiguous ---- */

typedef struct {
    Val from, to;
    int first;
    Val second, exists; /* of pairs: the row of the second terms, if it exists; else NULL */
} Copy;
static void copy_piece(Emit *e, int first, int w, void *user) {
    Copy *c = user;
    Val to = emit_at_const(e, c->to, first), v = emit_load_vec(e, emit_at_const(e, c->from, first), w);
    if (c->second) {
        Val y = emit_load_vec(e, emit_at_const(e, c->second, first), w);
        v = emit_bf16_pairs(e, v, emit_bf16_zero_unless(e, c->exists, y));
    }
    emit_store(e, v, to);
}
static void zero_piece(Emit *e, int first, int w, void *user) {
    Copy *c = user;
    emit_store(e, emit_const(e, w, 0), emit_at_const(e, c->to, c->first + first));
}

typedef struct {
    const EmitPack *p;
    Val slots, slot, row; /* of a panel's column; this row's */
    Val second, exists;   /* as in Copy */
} RowCopy;

static void copy_row(Emit *e, Val col, int vectors, int cols, void *user) {
    const RowCopy *r = user;
    int64_t width = (int64_t)vectors * e->W;
    Val panel = emit_at(e, r->p->to, emit_mul(e, col, r->slots));
    Copy c = {.from = emit_at(e, r->row, col), .to = emit_at(e, panel, emit_scale(e, r->slot, width))};
    c.first = cols;
    if (r->second) c.second = emit_at(e, r->second, col), c.exists = r->exists;
    emit_pieces(e, cols, copy_piece, &c);
    emit_pieces(e, (int)width - cols, zero_piece, &c);
}

/* A row (or a pair of them) is read along all panels, in the order of memory. Panel by panel, rows a page
 * apart would fall on the same few lines of the caches, and be fetched anew for each panel. */
static void pack_rows(Emit *e, const EmitPack *p, Val lo, Val hi) {
    EmitLoop l = emit_for(e, lo, hi, 1);
    Val first = emit_scale(e, l.i, p->bf16 ? 2 : 1);
    RowCopy r = {.p = p, .slots = emit_slots(e, p->terms, p->bf16), .slot = l.i};
    r.row = emit_at(e, p->b, emit_scale(e, first, p->b_row));
    if (p->bf16) {
        Val next = emit_bf16_second(e, first, p->terms, &r.exists);
        r.second = emit_at(e, p->b, emit_scale(e, next, p->b_row));
    }
    emit_each_panel(e, p->n, copy_row, &r);
    emit_end(e, &l);
}

/* ---- columns of B that are contiguous ---- */

void emit_transpose(Emit *e, Val *v, int n) {
    enum { MOST = 16 };
    for (int step = 1; step < n; step *= 2) {
        Val out[MOST], low[MOST], high[MOST];
        for (int i = 0; i < n; i++) { /* lanes with bit `step` clear (set) of a pair, interleaved */
            int lane = i & step ? n + (i ^ step) : i;
            low[i] = emit_i32(e, lane);
            high[i] = emit_i32(e, i & step ? n + i : i | step);
        }
        for (int i = 0; i < n; i++) {
            if (i & step) continue;
            Val a = v[i], b = v[i | step];
            out[i] = LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(low, (unsigned)n), "");
            out[i | step] = LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(high, (unsigned)n), "");
        }
        memcpy(v, out, sizeof *v * (size_t)n);
    }
}

/* The pair that begins with term number `first` of a column. */
static Val pair_at(Emit *e, const EmitPack *p, Val column, Val first) {
    Val exists, second = emit_bf16_second(e, first, p->terms, &exists);
    Val y = emit_bf16_zero_unless(e, exists, emit_load_vec(e, emit_at(e, column, second), 1));
    return emit_bf16_pairs(e, emit_load_vec(e, emit_at(e, column, first), 1), y);
}

/* The same of pairs: 16 terms by 8 columns. */
static void pack_pair_columns(Emit *e, const EmitPack *p, Val col, int vectors, int cols) {
    int64_t width = (int64_t)vectors * e->W;
    int blocks = cols / 8 * 8;
    Val slots = emit_slots(e, p->terms, true), from = emit_at(e, p->b, emit_scale(e, col, p->b_col)),
        to = emit_at(e, p->to, emit_mul(e, col, slots));
    Val whole = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, p->terms, emit_i64(e, 1), ""), emit_i64(e, -8), "");
    EmitLoop l = emit_for(e, emit_i64(e, 0), whole, 8);
    for (int j = 0; j < blocks; j += 8) {
        Val v[8], first = emit_at(e, from, emit_scale(e, l.i, 2));
        for (int i = 0; i < 8; i++) v[i] = emit_bf16_load(e, emit_at_const(e, first, (j + i) * p->b_col), 8);
        emit_transpose(e, v, 8);
        for (int i = 0; i < 8; i++)
            emit_store(e, v[i], emit_at_const(e, emit_at(e, to, emit_scale(e, l.i, width)), i * width + j));
    }
    emit_end(e, &l);
    EmitLoop rest = emit_for(e, emit_i64(e, 0), slots, 1);
    Val row = emit_at(e, to, emit_scale(e, rest.i, width)), first = emit_scale(e, rest.i, 2);
    EmitIf tail = emit_if(e, emit_icmp(e, LLVMIntSGE, rest.i, whole));
    for (int j = 0; j < blocks; j++)
        emit_store(e, pair_at(e, p, emit_at_const(e, from, j * p->b_col), first), emit_at_const(e, row, j));
    emit_fi(e, &tail);
    for (int j = blocks; j < width; j++) {
        Val v = j < cols ? pair_at(e, p, emit_at_const(e, from, j * p->b_col), first) : emit_const(e, 1, 0);
        emit_store(e, v, emit_at_const(e, row, j));
    }
    emit_end(e, &rest);
}

/* Blocks of 8 terms by 8 columns, what is left one by one. */
static void pack_columns(Emit *e, const EmitPack *p, Val col, int vectors, int cols) {
    if (p->bf16) {
        pack_pair_columns(e, p, col, vectors, cols);
        return;
    }
    int64_t width = (int64_t)vectors * e->W;
    int blocks = cols / 8 * 8;
    Val from = emit_at(e, p->b, emit_scale(e, col, p->b_col)),
        to = emit_at(e, p->to, emit_mul(e, col, p->terms));
    Val whole = LLVMBuildAnd(e->b, p->terms, emit_i64(e, -8), "");
    EmitLoop l = emit_for(e, emit_i64(e, 0), whole, 8);
    for (int j = 0; j < blocks; j += 8) {
        Val v[8];
        for (int i = 0; i < 8; i++)
            v[i] = emit_load_vec(e, emit_at_const(e, emit_at(e, from, l.i), (j + i) * p->b_col), 8);
        emit_transpose(e, v, 8);
        for (int i = 0; i < 8; i++)
            emit_store(e, v[i], emit_at_const(e, emit_at(e, to, emit_scale(e, l.i, width)), i * width + j));
    }
    emit_end(e, &l);
    EmitLoop rest = emit_for(e, emit_i64(e, 0), p->terms, 1);
    Val row = emit_at(e, to, emit_scale(e, rest.i, width)), source = emit_at(e, from, rest.i);
    if (blocks) {
        EmitIf tail = emit_if(e, emit_icmp(e, LLVMIntSGE, rest.i, whole));
        for (int j = 0; j < blocks; j++)
            emit_store(e, emit_load_vec(e, emit_at_const(e, source, j * p->b_col), 1),
                       emit_at_const(e, row, j));
        emit_fi(e, &tail);
    }
    for (int j = blocks; j < width; j++) {
        Val v = j < cols ? emit_load_vec(e, emit_at_const(e, source, j * p->b_col), 1) : emit_const(e, 1, 0);
        emit_store(e, v, emit_at_const(e, row, j));
    }
    emit_end(e, &rest);
}

static void pack_panel(Emit *e, Val col, int vectors, int cols, void *user) {
    pack_columns(e, user, col, vectors, cols);
}

void emit_pack(Emit *e, const EmitPack *p) {
    if (p->b_col == 1)
        pack_rows(e, p, emit_i64(e, 0), emit_slots(e, p->terms, p->bf16));
    else
        emit_each_panel(e, p->n, pack_panel, (void *)p);
}

/* ---- the op ----
 * Tiles: TERMS terms (or pairs) of all panels where rows are contiguous, a panel where columns are. */

enum { TERMS = 16 };

typedef struct {
    int64_t terms, n;
    bool swapped, bf16;
} Packed;

static Packed packed_of(const IrNode *n) {
    IrType t = n->in[0]->type;
    bool swapped = ir_attr_i(n, "t");
    return (Packed){t.dim[swapped], t.dim[!swapped], swapped, ir_takes_bf16(n)};
}

int64_t emit_pack_tiles(const PassTarget *t, const IrNode *n) {
    Packed p = packed_of(n);
    EmitPanels panels = emit_panels(t->vector_floats, p.n);
    return p.swapped ? panels.count[1] + panels.count[2] + panels.count[3]
                     : (emit_terms(p.terms, p.bf16) + TERMS - 1) / TERMS;
}

typedef struct {
    const EmitPack *p;
    Val lo, hi, number; /* panels to pack; a variable: the present one's number */
} Chosen;

/* Packs the panel if its number is one of those. */
static void pack_chosen(Emit *e, Val col, int vectors, int cols, void *user) {
    const Chosen *c = user;
    Val i = emit_get(e, c->number);
    EmitIf mine = emit_if(
        e, LLVMBuildAnd(e->b, emit_icmp(e, LLVMIntSGE, i, c->lo), emit_icmp(e, LLVMIntSLT, i, c->hi), ""));
    pack_columns(e, c->p, col, vectors, cols);
    emit_fi(e, &mine);
    emit_set(e, c->number, emit_add(e, i, emit_i64(e, 1)));
}

void emit_PACK(Emit *e, const IrNode *n) {
    Packed p = packed_of(n);
    int64_t width = ir_type_width(n->in[0]->type);
    Val terms = emit_i64(e, p.terms), slots = emit_i64(e, emit_terms(p.terms, p.bf16));
    EmitPack pack = {.b = emit_base(e, n->in[0]),
                     .b_row = p.swapped ? 1 : width,
                     .b_col = p.swapped ? width : 1,
                     .to = emit_base(e, n),
                     .n = p.n,
                     .terms = terms,
                     .bf16 = p.bf16};
    if (!p.swapped) {
        Val end = emit_min_i64(e, emit_scale(e, e->hi, TERMS), slots);
        pack_rows(e, &pack, emit_scale(e, e->lo, TERMS), end);
        return;
    }
    Chosen c = {&pack, e->lo, e->hi, emit_var(e, e->i64)};
    emit_set(e, c.number, emit_i64(e, 0));
    emit_each_panel(e, p.n, pack_chosen, &c);
}
