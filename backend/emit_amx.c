/* Products of bfloat16 by AMX: registers that are matrices, "tiles" of up to 16 rows of 64 bytes, and
 * tdpbf16ps, which adds the product of two of them to a third. Operands are the slots of emit_bf16.c, pairs
 * of terms in the place of one float:
 *
 *     A   16 rows of 16 slots            from scratch, row by row
 *     B   16 slots of 16 columns each    from a panel as emit_pack.c leaves it, its width apart
 *     C   16 rows of 16 sums in fp32     where the result has them, its rows apart
 *
 * A panel of up to three vectors of columns by 32 rows, or by the last 16 and fewer, are the sums of up to
 * six tiles. One tile each holds what is loaded of A and of B; columns are walked there and back, so that a
 * tile of A serves two of B. All tiles are whole, so that one configuration serves a whole kernel:
 *
 *   terms    a row of A ends in zeros up to 16 slots, and the panel's last slots, if they are fewer, are
 * copied between zeros; rows of B that aren't there would be another panel's numbers, or an infinity rows
 * what A has beyond the last row is anything, and so are the sums of these rows: a tile that lacks rows or
 * columns goes by way of `aside`, on the stack, of which only what exists is copied
 *
 * and so do all sums that an epilogue waits for.
 *
 * What the instruction does (Intel's manual): for each sum, from zero, the products of the pairs' lower
 * halves are added up in order, and those of the upper ones, by fused multiply-adds; both are added, then
 * that to the sum. Each step rounds to nearest, ties to even, whatever MXCSR says, and takes and gives
 * numbers below the smallest normal one as zero, as vdpbf16ps does. So a sum's order is another than by
 * vdpbf16ps, but fixed: its terms by 32 from the first, whatever the blocks. Which half is which makes no
 * difference.
 *
 * The system must have been asked for the tiles' state before (runtime/program.c). A kernel loads the
 * configuration as it begins, and gives the tiles back, so that no thread carries 8 KB of them along. Tiles
 * are named by number: functions that a kernel calls find them as it configured them, and no sums stand in
 * them across a call. */
#include "backend/emit.h"

enum { ROWS = EMIT_AMX_ROWS, SLOTS = EMIT_AMX_ROWS, LANES = EMIT_AMX_ROWS }; /* of a tile */
enum { A_TILE = 6, B_TILE, TILES }; /* before them up to two by three of sums */

int64_t emit_amx_row(int64_t slots) { return (slots + SLOTS - 1) / SLOTS * SLOTS; }

/* ---- the instructions: all that is known of them ---- */

static Val number(Emit *e, int tile) { return LLVMConstInt(e->i8, (unsigned)tile, 0); }

static Val configuration(Emit *e) {
    enum { BYTES = 64, ROW_BYTES = 16, ROW_COUNTS = 48 }; /* where they stand */
    Val byte[BYTES], known = LLVMGetNamedGlobal(e->mod, "amx_tiles");
    if (known) return known;
    for (int i = 0; i < BYTES; i++) byte[i] = number(e, 0);
    byte[0] = number(e, 1); /* the palette: eight tiles of 1 KB */
    for (int t = 0; t < TILES; t++) byte[ROW_BYTES + 2 * t] = number(e, 4 * LANES);
    for (int t = 0; t < TILES; t++) byte[ROW_COUNTS + t] = number(e, ROWS);
    Val g = LLVMAddGlobal(e->mod, LLVMArrayType2(e->i8, BYTES), "amx_tiles");
    LLVMSetInitializer(g, LLVMConstArray2(e->i8, byte, BYTES));
    LLVMSetGlobalConstant(g, 1);
    LLVMSetLinkage(g, LLVMPrivateLinkage);
    LLVMSetAlignment(g, BYTES);
    return g;
}

void emit_amx_open(Emit *e) {
    Val tiles = configuration(e);
    emit_instruction(e, "llvm.x86.ldtilecfg", &tiles, 1);
}
void emit_amx_close(Emit *e) { emit_instruction(e, "llvm.x86.tilerelease", NULL, 0); }

static void zero_tile(Emit *e, int tile) {
    emit_instruction(e, "llvm.x86.tilezero", (Val[]){number(e, tile)}, 1);
}
/* row: floats from row to row */
static void load_tile(Emit *e, int tile, Val from, Val row) {
    emit_instruction(e, "llvm.x86.tileloadd64", (Val[]){number(e, tile), from, emit_scale(e, row, 4)}, 3);
}
static void store_tile(Emit *e, int tile, Val to, Val row) {
    emit_instruction(e, "llvm.x86.tilestored64", (Val[]){number(e, tile), to, emit_scale(e, row, 4)}, 3);
}
static void add_product(Emit *e, int sums) {
    emit_instruction(e, "llvm.x86.tdpbf16ps", (Val[]){number(e, sums), number(e, A_TILE), number(e, B_TILE)},
                     3);
}

/* ---- a panel ---- */

typedef struct {
    const EmitEpilogue *epilogue;
    int vectors, width, cols; /* of the panel: width with its padding */
    Val a, a_row, b, c, c_row, slots, rows, row0, col0, flags, places;
    Val whole, last_slots; /* slots in whole tiles; the others', between zeros */
    Val aside, aside_row;
    /* rows from, from + 1 … of which `left` exist */
    Val from, left;
    int tiles; /* of rows: one or two */
} Panel;

static int sums_tile(const Panel *p, int r, int v) { return r * p->vectors + v; }
static Val row_of(Emit *e, const Panel *p, Val i) {
    return emit_at(e, p->c, emit_mul(e, emit_add(e, p->from, i), p->c_row));
}

/* The slots of a panel's end that are no whole tile, and zeros behind them. */
static void copy_last_slots(Emit *e, const Panel *p) {
    Val rest = emit_sub(e, p->slots, p->whole), zero = emit_i64(e, 0);
    EmitIf some = emit_if(e, emit_icmp(e, LLVMIntNE, rest, zero));
    for (int absent = 0; absent < 2; absent++) {
        EmitLoop l = emit_for(e, absent ? rest : zero, absent ? emit_i64(e, SLOTS) : rest, 1);
        Val to = emit_at(e, p->last_slots, emit_scale(e, l.i, p->width)),
            from = emit_at(e, p->b, emit_scale(e, emit_add(e, p->whole, l.i), p->width));
        for (int col = 0; col < p->width; col += LANES)
            emit_store(
                e, absent ? emit_const(e, LANES, 0) : emit_load_vec(e, emit_at_const(e, from, col), LANES),
                emit_at_const(e, to, col));
        emit_end(e, &l);
    }
    emit_fi(e, &some);
}

/* A tile's worth of terms: A's from `l` on, B's at b. */
static void add_slots(Emit *e, const Panel *p, Val l, Val b) {
    Val a = emit_at(e, p->a, emit_add(e, emit_mul(e, p->from, p->a_row), l));
    int loaded = -1;
    for (int v = 0; v < p->vectors; v++) {
        load_tile(e, B_TILE, emit_at_const(e, b, v * LANES), emit_i64(e, p->width));
        for (int i = 0; i < p->tiles; i++) {
            int r = v % 2 ? p->tiles - 1 - i : i;
            if (r != loaded) load_tile(e, A_TILE, emit_at(e, a, emit_scale(e, p->a_row, r * ROWS)), p->a_row);
            add_product(e, sums_tile(p, r, v));
            loaded = r;
        }
    }
}

static void add_terms(Emit *e, const Panel *p) {
    EmitLoop l = emit_for(e, emit_i64(e, 0), p->whole, SLOTS);
    add_slots(e, p, l.i, emit_at(e, p->b, emit_scale(e, l.i, p->width)));
    emit_end(e, &l);
    EmitIf some = emit_if(e, emit_icmp(e, LLVMIntSLT, p->whole, p->slots));
    add_slots(e, p, p->whole, p->last_slots);
    emit_fi(e, &some);
}

typedef void (*TileMove)(Emit *e, int tile, Val at, Val row);
static void each_tile(Emit *e, const Panel *p, TileMove move, Val at, Val row) {
    for (int r = 0; r < p->tiles; r++)
        for (int v = 0; v < p->vectors; v++)
            move(e, sums_tile(p, r, v),
                 emit_at_const(e, emit_at(e, at, emit_scale(e, row, r * ROWS)), v * LANES), row);
}

/* One row's way between the result and `aside`. */
typedef enum { ROW_IN, ROW_OUT, ROW_ENDED } RowWay;
typedef struct {
    const Panel *p;
    RowWay way;
    Val c, aside, row; /* row: its number in the result */
} Row;

static void row_piece(Emit *e, int first, int w, void *user) {
    const Row *r = user;
    const EmitEpilogue *end = r->p->epilogue;
    Val c = emit_at_const(e, r->c, first), aside = emit_at_const(e, r->aside, first);
    Val v = emit_load_vec(e, r->way == ROW_IN ? c : aside, w);
    if (r->way == ROW_ENDED)
        v = end->f(e, v, r->row, emit_add(e, r->p->col0, emit_i64(e, first)), w, r->p->places, end->user);
    emit_store(e, v, r->way == ROW_IN ? aside : c);
}

static void existing_rows(Emit *e, const Panel *p, RowWay way) {
    EmitLoop i = emit_for(e, emit_i64(e, 0), p->left, 1);
    Row r = {p, way, row_of(e, p, i.i), emit_at(e, p->aside, emit_scale(e, i.i, p->width)),
             emit_add(e, p->row0, emit_add(e, p->from, i.i))};
    emit_pieces(e, p->cols, row_piece, &r);
    emit_end(e, &i);
}

static Val flag(Emit *e, const Panel *p, int which) {
    return emit_icmp(e, LLVMIntNE, LLVMBuildAnd(e->b, p->flags, emit_i64(e, which), ""), emit_i64(e, 0));
}

/* Whether the result has all rows and columns of the tiles, which then move to it and from it at once. */
static Val is_whole(Emit *e, const Panel *p) {
    if (p->cols < p->width) return LLVMConstInt(e->i1, 0, 0);
    return emit_icmp(e, LLVMIntSGE, p->left, emit_i64(e, p->tiles * ROWS));
}

static void begin_sums(Emit *e, const Panel *p) {
    EmitIf first = emit_if(e, flag(e, p, EMIT_FIRST));
    for (int t = 0; t < p->tiles * p->vectors; t++) zero_tile(e, t);
    emit_else(e, &first);
    EmitIf at_once = emit_if(e, is_whole(e, p));
    each_tile(e, p, load_tile, row_of(e, p, emit_i64(e, 0)), p->c_row);
    emit_else(e, &at_once);
    existing_rows(e, p, ROW_IN);
    each_tile(e, p, load_tile, p->aside, p->aside_row);
    emit_fi(e, &at_once);
    emit_fi(e, &first);
}

static void end_sums(Emit *e, const Panel *p) {
    Val ends = p->epilogue ? flag(e, p, EMIT_LAST) : LLVMConstInt(e->i1, 0, 0);
    EmitIf at_once = emit_if(e, LLVMBuildAnd(e->b, is_whole(e, p), LLVMBuildNot(e->b, ends, ""), ""));
    each_tile(e, p, store_tile, row_of(e, p, emit_i64(e, 0)), p->c_row);
    emit_else(e, &at_once);
    each_tile(e, p, store_tile, p->aside, p->aside_row);
    if (p->epilogue) {
        EmitIf last = emit_if(e, ends);
        existing_rows(e, p, ROW_ENDED);
        emit_else(e, &last);
        existing_rows(e, p, ROW_OUT);
        emit_fi(e, &last);
    } else {
        existing_rows(e, p, ROW_OUT);
    }
    emit_fi(e, &at_once);
}

/* Rows from..to-1 by so many tiles of them. */
static void rows_by_tiles(Emit *e, Panel p, int tiles, Val from, Val to) {
    p.tiles = tiles;
    EmitLoop i = emit_for(e, from, to, tiles * ROWS);
    p.from = i.i, p.left = emit_min_i64(e, emit_sub(e, p.rows, i.i), emit_i64(e, tiles * ROWS));
    begin_sums(e, &p);
    add_terms(e, &p);
    end_sums(e, &p);
    emit_end(e, &i);
}

/* void tile_amx(step, a, b, c, places, a_row, c_row, slots, rows, row0, col0, flags): as emit_tile.c's panel.
 */
enum { ARGS = 12, POINTERS = 5 };
static Val panel_function(Emit *e, const EmitGemm *g, int vectors, int cols) {
    LLVMTypeRef types[ARGS];
    for (int i = 0; i < ARGS; i++) types[i] = i < POINTERS ? e->ptr : e->i64;
    const char *name = arena_printf(e->arena, "tile_amx_%d%s", cols, g->epilogue ? g->epilogue->key : "");
    EmitFn outer;
    Val f, x[ARGS];
    if (!emit_shared_open(e, name, types, ARGS, &f, &outer)) return f;
    for (unsigned i = 0; i < ARGS; i++) x[i] = LLVMGetParam(f, i);
    Panel p = {.epilogue = g->epilogue, .vectors = vectors, .width = vectors * LANES, .cols = cols};
    p.a = x[1], p.b = x[2], p.c = x[3], p.places = x[4], p.a_row = x[5], p.c_row = x[6], p.slots = x[7];
    p.rows = x[8], p.row0 = x[9], p.col0 = x[10], p.flags = x[11];
    p.aside = emit_var(e, LLVMArrayType2(e->f32, (uint64_t)(2 * ROWS * p.width)));
    p.last_slots = emit_var(e, LLVMArrayType2(e->f32, (uint64_t)(SLOTS * p.width)));
    LLVMSetAlignment(p.aside, 64), LLVMSetAlignment(p.last_slots, 64);
    p.aside_row = emit_i64(e, p.width), p.whole = LLVMBuildAnd(e->b, p.slots, emit_i64(e, -SLOTS), "");
    copy_last_slots(e, &p);
    /* by two tiles, the last too unless it is 16 rows or fewer */
    Val two = LLVMBuildAnd(e->b, emit_add(e, p.rows, emit_i64(e, ROWS - 1)), emit_i64(e, -2 * ROWS), "");
    rows_by_tiles(e, p, 2, emit_i64(e, 0), emit_min_i64(e, two, p.rows));
    rows_by_tiles(e, p, 1, two, p.rows);
    emit_fn_close(e, &outer);
    return f;
}

void emit_amx_panel(Emit *e, const EmitGemm *g, const EmitAmxPanel *p) {
    Val places = g->epilogue ? g->epilogue->places : LLVMConstNull(e->ptr);
    Val args[ARGS] = {
        e->step,  p->a,    p->b,    p->c,    places,  emit_i64(e, g->a_row), emit_i64(e, g->c_row),
        p->slots, p->rows, p->row0, p->col0, p->flags};
    emit_shared_call(e, panel_function(e, g, p->vectors, p->cols), args, ARGS);
}

/* ---- the left side ---- */

/* LANES of the floats at p that `mask` names, zero for the others, which aren't read. */
static Val masked(Emit *e, Val p, Val mask) {
    LLVMTypeRef types[] = {emit_vec(e, LANES), e->ptr};
    unsigned id = LLVMLookupIntrinsicID("llvm.masked.load", 16);
    Val f = LLVMGetIntrinsicDeclaration(e->mod, id, types, 2);
    Val args[] = {p, emit_i32(e, 4), mask, emit_const(e, LANES, 0)};
    return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(f), f, args, 4, "");
}

/* Lane i of the mask: whether first + i < end, and `exists`. */
static Val lanes_before(Emit *e, Val first, Val end, Val exists) {
    Val lane[LANES],
        left = LLVMBuildTrunc(e->b, emit_min_i64(e, emit_sub(e, end, first), emit_i64(e, LANES)), e->i32, "");
    for (int i = 0; i < LANES; i++) lane[i] = emit_i32(e, i);
    left = emit_select(e, exists, left, emit_i32(e, 0));
    return emit_icmp(e, LLVMIntSLT, LLVMConstVector(lane, LANES), emit_splat(e, left, LANES));
}

/* Term number `term` of LANES rows from `row` on. */
static Val terms_of_rows(Emit *e, const EmitAmxLeft *x, Val term, Val row) {
    Val exists = emit_icmp(e, LLVMIntSLT, term, x->terms);
    Val at = emit_select(e, exists, term, emit_i64(e, 0));
    return masked(e, emit_at(e, x->from, emit_add(e, emit_scale(e, at, x->term), row)),
                  lanes_before(e, row, x->rows, exists));
}

void emit_amx_rows(Emit *e, const EmitAmxLeft *x) {
    EmitLoop row = emit_for(e, emit_i64(e, 0), x->rows, ROWS);
    EmitLoop l = emit_for(e, emit_i64(e, 0), emit_slots(e, x->terms, true), SLOTS);
    Val v[SLOTS];
    for (int s = 0; s < SLOTS; s++) {
        Val term = emit_scale(e, emit_add(e, l.i, emit_i64(e, s)), 2);
        Val first = terms_of_rows(e, x, term, row.i);
        v[s] = emit_bf16_pairs(e, first, terms_of_rows(e, x, emit_add(e, term, emit_i64(e, 1)), row.i));
    }
    emit_transpose(e, v, SLOTS);
    for (int r = 0; r < ROWS; r++) {
        Val to = emit_at(e, x->to, emit_scale(e, emit_add(e, row.i, emit_i64(e, r)), x->to_row));
        emit_store(e, v[r], emit_at(e, to, l.i));
    }
    emit_end(e, &l);
    emit_end(e, &row);
}

typedef struct {
    Val to;
} Zeros;
static void zero_piece(Emit *e, int first, int w, void *user) {
    emit_store(e, emit_const(e, w, 0), emit_at_const(e, ((Zeros *)user)->to, first));
}

void emit_amx_left(Emit *e, const EmitGemm *g, Val a, Val rows, Val to) {
    int64_t slots = emit_terms(g->k, true), to_row = emit_amx_row(slots);
    if (g->a_col != 1) {
        emit_amx_rows(e, &(EmitAmxLeft){a, g->a_col, emit_i64(e, g->k), rows, to, to_row});
        return;
    }
    EmitLoop i = emit_for(e, emit_i64(e, 0), rows, 1);
    Val row = emit_at(e, to, emit_scale(e, i.i, to_row));
    emit_bf16_row(e, emit_at(e, a, emit_scale(e, i.i, g->a_row)), row, g->k);
    emit_pieces(e, (int)(to_row - slots), zero_piece, &(Zeros){emit_at_const(e, row, slots)});
    emit_end(e, &i);
}
