/* MATMUL, MATMULGRADW and regions around them: which rows and columns they are, and who computes them.
 *
 *   tile     register tiles on packed panels (emit_tile.c), the epilogue in registers
 *   narrow   up to four columns: dot products (emit_narrow.c)
 *   library  rt_gemm on blocks of rows fixed by the schedule; the epilogue goes over the block in memory
 * after plain    loops, for a weight gradient whose operands don't live equally often (a row's value by
 * positions)
 *
 * The schedule asks for tile or library; narrow and plain are taken where they fit, and library only serves
 * products with one matrix for all rows. */
#include <stdlib.h>
#include "backend/emit_update.h"

static const IrNode *operand(const IrNode *fused, const IrNode *n, int i) {
    const IrNode *x = n->in[i];
    return x->op == OP_ARG && fused->op == OP_FUSED ? fused->in[ir_attr_i(x, "index")] : x;
}

static int64_t rows_of(IrType t) { return t.rank > 1 ? t.dim[t.rank - 2] : 1; }
static bool coarse(IrType t) { return t.live == LIVE_ALWAYS || t.live == LIVE_STEP; }

EmitProduct emit_product(const IrNode *fused, const IrNode *n) {
    EmitProduct p = {.node = n, .x = operand(fused, n, 0)->type, .y = operand(fused, n, 1)->type, .many = 1};
    p.grad = n->op == OP_MATMULGRADW;
    p.bf16 = ir_takes_bf16(n);
    if (p.grad) {
        p.k = ir_type_width(p.x), p.n = ir_type_width(p.y);
        p.m = ir_type_size(p.x) / p.k;
        return p;
    }
    p.ta = ir_attr_i(n, "ta"), p.tb = ir_attr_i(n, "tb");
    p.m = p.ta ? ir_type_width(p.x) : rows_of(p.x);
    p.k = p.ta ? rows_of(p.x) : ir_type_width(p.x);
    p.n = p.tb ? rows_of(p.y) : ir_type_width(p.y);
    p.packed = operand(fused, n, 1)->op == OP_PACK;
    bool shared = coarse(p.y) && p.y.rank == 2;
    p.merged = shared && !p.ta;
    int64_t result = ir_type_size(n->type);
    if (p.merged) p.m = result / p.n;
    p.many = result / (p.m * p.n);
    return p;
}

static bool same_units(IrType a, IrType b) {
    return a.live == b.live && (a.live != LIVE_POS || a.axis == b.axis);
}

EmitChoice emit_choice(const PassTarget *t, const IrNode *n) {
    EmitProduct p = emit_product(n, ir_product_of(n));
    (void)t;
    if (p.packed || p.bf16) return PRODUCT_TILE;
    if (p.grad && !same_units(p.x, p.y)) return PRODUCT_PLAIN;
    if (p.n <= NARROW && (p.grad || p.merged)) return PRODUCT_NARROW;
    if (n->plan.kernel == KERNEL_LIBRARY && (p.grad || (p.merged && !coarse(p.x)))) return PRODUCT_LIBRARY;
    return PRODUCT_TILE;
}

bool emit_by_amx(const PassTarget *t, const IrNode *n) {
    return t->amx && n->plan.kernel == KERNEL_AMX && ir_takes_bf16(ir_product_of(n));
}

const char *emit_choice_why(const PassTarget *t, const IrNode *n) {
    static const char *const why[] = {
        [PRODUCT_TILE] = "at least a vector of columns: sums stay in registers, the epilogue too",
        [PRODUCT_LIBRARY] =
            "fewer columns than a vector, measured to be faster, or asked for by schedule's arguments",
        [PRODUCT_NARROW] = "at most four columns: dot products along the inner size",
        [PRODUCT_PLAIN] = "the operands don't live equally often",
    };
    if (emit_by_amx(t, n))
        return "operands rounded to bfloat16 by mixed-precision, tiles of 16 by 16 sums in fp32 by AMX";
    if (ir_takes_bf16(ir_product_of(n)))
        return t->bf16
                   ? "operands rounded to bfloat16 by mixed-precision, two terms an instruction, sums in fp32"
                   : "operands rounded to bfloat16 in pairs, but the target has no avx512_bf16: its "
                     "vdpbf16ps is computed in fp32";
    return why[emit_choice(t, n)];
}

static int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t emit_product_tiles(const PassTarget *t, const IrNode *n) {
    EmitProduct p = emit_product(n, ir_product_of(n));
    if (!p.grad) return 1;
    switch (emit_choice(t, n)) {
    case PRODUCT_TILE: return emit_grad_w_tiles(t, p.k, p.n, emit_by_amx(t, n));
    case PRODUCT_LIBRARY: return div_up(p.k, emit_library_strip(p.k));
    case PRODUCT_NARROW: return emit_column_tiles(p.k);
    default: return p.k;
    }
}

int64_t emit_product_scratch(const PassTarget *t, const IrNode *n) {
    EmitProduct p = emit_product(n, ir_product_of(n));
    bool amx = emit_by_amx(t, n);
    switch (emit_choice(t, n)) {
    case PRODUCT_TILE:
        if (!p.grad && p.bf16) return emit_gemm_bf16_scratch(t, p.n, p.k, p.packed, amx);
        if (!p.grad) return p.packed ? 0 : emit_gemm_scratch(t, p.n, p.k);
        return emit_grad_w_scratch(t, p.k, p.n, amx) + (ir_writer(n) ? emit_grad_sums_scratch(p.k, p.n) : 0);
    case PRODUCT_NARROW: return p.grad ? 0 : emit_narrow_scratch(p.n, p.k);
    default: return 0;
    }
}

int64_t emit_grad_tile_elements(const PassTarget *t, const IrNode *n) {
    EmitProduct p = emit_product(n, ir_product_of(n));
    EmitChoice choice = emit_choice(t, n);
    return p.n * (choice == PRODUCT_LIBRARY  ? emit_library_strip(p.k)
                  : choice == PRODUCT_NARROW ? TILE_COLUMNS
                                             : 1);
}

/* ---- epilogues in registers ---- */

enum { PLACES = 32 };
typedef struct {
    const IrNode *product;
    IrType to;
    EmitBody body;
    const IrNode *leaf[PLACES]; /* what stands at each of the places */
    int n_leaf;
    EmitEpilogue end;
    Val acc, row, col, places; /* where it is evaluated now */
} Epilogue;

/* Elements before (row, column 0) in a value that repeats along the result with strides s. */
static Val row_offset(Emit *e, const Epilogue *p, const int64_t *s, int64_t *inner) {
    int last = p->to.rank;
    *inner = s[last];
    bool joined = true; /* do rows of the result and of t go in step? */
    for (int d = 0; d + 1 < last; d++) joined &= s[d] == s[d + 1] * p->to.dim[d];
    if (last == 1 || joined) return emit_scale(e, p->row, s[last - 1]);
    Val off = emit_i64(e, 0), rest = p->row;
    for (int d = last - 1; d > 0; d--) {
        Val size = emit_i64(e, p->to.dim[d - 1]), above = emit_udiv(e, rest, size);
        off = emit_add(e, off, emit_scale(e, emit_sub(e, rest, emit_mul(e, above, size)), s[d]));
        rest = above;
    }
    return emit_add(e, off, emit_scale(e, rest, s[0]));
}

static Val epilogue_leaf(Emit *e, const IrNode *n, int w, void *user) {
    Epilogue *p = user;
    int64_t inner, s[NEST_DIMS];
    int place = 0;
    if (n == p->product) return p->acc;
    while (place + 1 < p->n_leaf && p->leaf[place] != n) place++;
    emit_strides_of(e, n, p->to, s);
    Val off = row_offset(e, p, s, &inner), base = emit_load_elem(e, e->ptr, p->places, emit_i64(e, place));
    if (!inner) return emit_splat(e, emit_load_vec(e, emit_at(e, base, off), 1), w);
    return emit_load_vec(e, emit_at(e, base, emit_add(e, off, p->col)), w);
}

static Val epilogue_index(Emit *e, const IrNode *n, int w, void *user) {
    Epilogue *p = user;
    int64_t inner, s[NEST_DIMS];
    emit_strides(n->type, p->to, s);
    Val lanes[64], off = row_offset(e, p, s, &inner);
    Val first = LLVMBuildTrunc(e->b, emit_add(e, off, emit_scale(e, p->col, inner)), e->i32, "");
    if (w == 1) return first;
    for (int i = 0; i < w; i++) lanes[i] = emit_i32(e, i * inner);
    return emit_add(e, emit_splat(e, first, w), LLVMConstVector(lanes, (unsigned)w));
}

static Val epilogue(Emit *e, Val acc, Val row, Val col, int w, Val places, void *user) {
    Epilogue *p = user;
    p->acc = acc, p->row = row, p->col = col, p->places = places;
    return emit_body_value(e, &p->body, w);
}

static int number_in(const IrBody *b, const IrNode *n) {
    int i = 0;
    while (i < b->n && b->nodes[i] != n) i++;
    return i;
}

static bool read_by_ew(const IrBody *b, const IrNode *n) {
    for (int i = 0; i < b->n; i++)
        for (int k = 0; emit_is_ew(b->nodes[i]) && k < b->nodes[i]->n_in; k++)
            if (b->nodes[i]->in[k] == n) return true;
    return false;
}

static void key_attr(const IrAttr *a, FILE *out) {
    if (a->kind == 'f')
        fprintf(out, " %a", a->f);
    else if (a->kind == 'i' || a->kind == 'b')
        fprintf(out, " %lld", (long long)a->i);
    for (int j = 0; a->kind == 'F' && j < a->flist.n; j++) fprintf(out, " %a", a->flist.v[j]);
}

/* A name for all that an epilogue's code depends on but its operands' addresses: ops, attributes, wiring, and
 * how operands are walked. */
static const char *key_of(Emit *e, const IrNode *fused, const IrNode *product) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) abort();
    int64_t s[NEST_DIMS];
    for (int i = 0; i < fused->type.rank - 1; i++) fprintf(out, "%lld ", (long long)fused->type.dim[i]);
    fputs(e->train ? "train" : "eval", out); /* dropout */
    for (int i = 0; i < fused->body->n; i++) {
        const IrNode *n = fused->body->nodes[i];
        fprintf(out, "|%s", ir_ops[n->op].text);
        if (emit_is_ew(n)) {
            for (int k = 0; k < n->n_attrs; k++) key_attr(&n->attrs[k], out);
            for (int k = 0; k < n->n_in; k++) fprintf(out, " %d", number_in(fused->body, n->in[k]));
        }
        if (n == product || (!emit_is_ew(n) && !read_by_ew(fused->body, n))) continue;
        emit_strides_of(e, n, fused->type, s);
        for (int k = 0; k <= fused->type.rank; k++) fprintf(out, ",%lld", (long long)s[k]);
    }
    fclose(out);
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a: a short name, the same in every compilation */
    for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    free(text);
    return arena_printf(e->arena, "_%016llx", (unsigned long long)hash);
}

/* Stores the operands' addresses where tiles find them. */
static void open_epilogue(Emit *e, Epilogue *p, const IrNode *fused) {
    const IrNode *root = fused->body->nodes[fused->body->n - 1];
    p->body = (EmitBody){root, p->product, true, epilogue_leaf, epilogue_index, p};
    p->end = (EmitEpilogue){.f = epilogue, .user = p, .key = key_of(e, fused, p->product)};
    p->end.places = emit_var(e, LLVMArrayType2(e->ptr, PLACES));
    for (int i = 0; i < fused->body->n; i++) {
        const IrNode *n = fused->body->nodes[i];
        if (emit_is_ew(n) || n == p->product) continue;
        if (p->n_leaf == PLACES) {
            diag_error(e->p->diag, fused->span, NULL, "internal: an epilogue with more than %d operands",
                       PLACES);
            return;
        }
        Val at = emit_i64(e, p->n_leaf);
        LLVMBuildStore(e->b, emit_base(e, n), LLVMBuildInBoundsGEP2(e->b, e->ptr, p->end.places, &at, 1, ""));
        p->leaf[p->n_leaf++] = n;
    }
}

/* Whether the body can be evaluated knowing only row and column of the result: a row's value along positions
 * can't, as a position doesn't know its row. */
static bool in_registers(const IrNode *fused) {
    if (fused->op != OP_FUSED || fused->type.live != LIVE_POS) return true;
    for (int i = 0; i < fused->n_in; i++)
        if (fused->in[i]->type.live == LIVE_ROW) {
            const IrNode *product = ir_product_of(fused);
            bool only_factor = true;
            for (int k = 0; k < fused->body->n; k++) {
                const IrNode *b = fused->body->nodes[k];
                for (int j = 0; b != product && j < b->n_in; j++)
                    only_factor &= !(b->in[j]->op == OP_ARG && ir_attr_i(b->in[j], "index") == i);
            }
            if (!only_factor) return false;
        }
    return true;
}

static bool has_epilogue(const IrNode *n, const IrNode *product) {
    return n->op == OP_FUSED && n->body->nodes[n->body->n - 1] != product;
}

/* ---- products ---- */

typedef struct {
    const IrNode *place; /* whose value is made: the product or its region */
    EmitProduct p;
    Epilogue epilogue;
    bool in_registers;
} Job;

static void library_rows(Emit *e, const Job *j, const EmitGemm *g) {
    const EmitProduct *p = &j->p;
    EmitLoop block = emit_for(e, e->lo, e->hi, j->place->plan.block);
    Val end = emit_min_i64(e, emit_add(e, block.i, emit_i64(e, j->place->plan.block)), e->hi), lo, hi;
    Val kept_lo = e->lo, kept_hi = e->hi;
    e->lo = block.i, e->hi = end;
    emit_units(e, p->x, &lo, &hi);
    e->lo = kept_lo, e->hi = kept_hi;
    lo = emit_scale(e, lo, p->m), hi = emit_scale(e, hi, p->m);
    emit_library(e, g, p->tb, lo, hi);
    emit_end(e, &block);
}

/* Where a unit's matrix of operand k begins: unit u of the result, the row that holds it, leading index i. */
static Val matrix_at(Emit *e, const Job *j, int k, Val base, Val unit, Val row, Val lead) {
    IrType t = k ? j->p.y : j->p.x;
    int64_t matrix = t.dim[t.rank - 1] * rows_of(t);
    if (t.rank > 2) base = emit_at(e, base, emit_scale(e, lead, matrix));
    if (coarse(t)) return base;
    bool by_row = t.live == LIVE_ROW && j->place->type.live == LIVE_POS;
    return emit_at(e, base, emit_scale(e, by_row ? row : unit, emit_unit(e, j->p.node->in[k])));
}

static void one_unit(Emit *e, const Job *j, EmitGemm g, Val unit, Val row) {
    const EmitProduct *p = &j->p;
    EmitLoop lead = emit_for(e, emit_i64(e, 0), emit_i64(e, p->many), 1);
    Val index = emit_add(e, emit_scale(e, unit, p->many), lead.i);
    g.a = matrix_at(e, j, 0, g.a, unit, row, lead.i);
    g.b = matrix_at(e, j, 1, g.b, unit, row, lead.i);
    g.c = emit_at(e, emit_at(e, g.c, emit_scale(e, unit, emit_unit(e, j->place))),
                  emit_scale(e, lead.i, p->m * p->n));
    g.row_base = emit_scale(e, index, p->m);
    emit_gemm(e, &g, emit_i64(e, 0), emit_i64(e, p->m));
    emit_end(e, &lead);
}

/* A small product for each unit. */
static void batched(Emit *e, const Job *j, const EmitGemm *g) {
    IrType t = j->place->type;
    bool by_row = t.live == LIVE_POS && (j->p.x.live == LIVE_ROW || j->p.y.live == LIVE_ROW);
    Val lo, hi;
    if (!by_row) {
        emit_units(e, t, &lo, &hi);
        EmitLoop unit = emit_for(e, lo, hi, 1);
        one_unit(e, j, *g, unit.i, unit.i);
        emit_end(e, &unit);
        return;
    }
    EmitLoop row = emit_for(e, e->lo, e->hi, 1);
    EmitLoop unit = emit_for(e, emit_offset(e, t.axis, row.i),
                             emit_offset(e, t.axis, emit_add(e, row.i, emit_i64(e, 1))), 1);
    one_unit(e, j, *g, unit.i, row.i);
    emit_end(e, &unit);
    emit_end(e, &row);
}

static void matmul(Emit *e, Job *j) {
    const EmitProduct *p = &j->p;
    int64_t ldx = ir_type_width(p->x), ldy = ir_type_width(p->y);
    EmitGemm g = {.n = p->n, .k = p->k, .packed = p->packed, .c_row = p->n, .c = emit_base(e, j->place)};
    g.bf16 = p->bf16, g.amx = emit_by_amx(&e->target, j->place);
    g.a = emit_base(e, p->node->in[0]), g.b = emit_base(e, p->node->in[1]);
    if (p->merged && p->m == 1) { /* rows are units */
        ldx = emit_unit(e, p->node->in[0]);
        g.c_row = emit_unit(e, j->place);
    }
    g.a_row = p->ta ? 1 : ldx, g.a_col = p->ta ? ldx : 1;
    g.b_row = p->tb ? 1 : ldy, g.b_col = p->tb ? ldy : 1;
    EmitChoice choice = emit_choice(&e->target, j->place);
    bool fold = j->in_registers && choice != PRODUCT_LIBRARY && has_epilogue(j->place, p->node);
    if (fold) g.epilogue = &j->epilogue.end;
    if (g.amx) emit_amx_open(e);
    if (choice == PRODUCT_LIBRARY) {
        library_rows(e, j, &g);
    } else if (p->merged) {
        Val lo, hi;
        emit_units(e, p->x, &lo, &hi);
        lo = emit_scale(e, lo, p->m), hi = emit_scale(e, hi, p->m);
        if (choice == PRODUCT_NARROW)
            emit_narrow(e, &g, lo, hi);
        else
            emit_gemm(e, &g, lo, hi);
    } else {
        batched(e, j, &g);
    }
    if (g.amx) emit_amx_close(e);
    if (!fold && has_epilogue(j->place, p->node)) emit_ew_epilogue(e, j->place, p->node);
}

/* ---- weight gradients ---- */

typedef struct {
    Val x;
} Scaled;
static void add_scaled(Emit *e, EmitNest *n, int w, void *user) {
    Scaled *s = user;
    emit_ref_store(e, n, 0,
                   emit_fma(e, emit_splat(e, s->x, w), emit_ref_load(e, n, 2, w), emit_ref_load(e, n, 1, w)));
}

/* Address of operand n's matrix for a unit of the finer operand. */
static Val unit_at(Emit *e, const IrNode *n, IrType fine, Val base, Val unit, Val row) {
    if (coarse(n->type)) return base;
    bool by_row = n->type.live == LIVE_ROW && fine.live == LIVE_POS;
    return emit_at(e, base, emit_scale(e, by_row ? row : unit, emit_unit(e, n)));
}

/* Row i of the result, for i in lo..hi-1: term by term over rows, positions in them, leading dimensions. */
static void plain_grad(Emit *e, const EmitProduct *p, const EmitGradW *g) {
    IrType fine = p->x.live > p->y.live ? p->x : p->y;
    bool pos = fine.live == LIVE_POS;
    EmitLoop i = emit_for(e, e->lo, e->hi, 1);
    Val c = emit_at(e, g->c, emit_scale(e, i.i, g->n)), zero = emit_i64(e, 0), one = emit_i64(e, 1);
    IrType rows = {.live = LIVE_ROW};
    Val more = emit_more(e), first = emit_first_unit(e, rows);
    EmitIf begin = emit_if(e, more ? LLVMBuildNot(e->b, more, "") : LLVMConstInt(e->i1, 1, 0));
    emit_fill(e, c, zero, emit_i64(e, g->n), 0);
    emit_fi(e, &begin);
    EmitLoop row = emit_for(e, first, emit_add(e, first, emit_unit_count(e, rows)), 1);
    EmitLoop unit =
        emit_for(e, pos ? emit_offset(e, fine.axis, row.i) : row.i,
                 pos ? emit_offset(e, fine.axis, emit_add(e, row.i, one)) : emit_add(e, row.i, one), 1);
    EmitLoop lead = emit_for(e, zero, emit_i64(e, p->m), 1);
    Val x = emit_at(e, unit_at(e, p->node->in[0], fine, g->x, unit.i, row.i), emit_scale(e, lead.i, g->k));
    Val y = emit_at(e, unit_at(e, p->node->in[1], fine, g->g, unit.i, row.i), emit_scale(e, lead.i, g->n));
    Scaled s = {emit_load_vec(e, emit_at(e, x, i.i), 1)};
    EmitNest n = {.n = 1, .dim = {g->n}, .n_ref = 3, .body = add_scaled, .user = &s};
    n.ref[0] = n.ref[1] = (NestRef){.base = c, .stride = {1}};
    n.ref[2] = (NestRef){.base = y, .stride = {1}};
    emit_nest(e, &n);
    emit_end(e, &lead);
    emit_end(e, &unit);
    emit_end(e, &row);
    emit_end(e, &i);
}

/* The epilogue on the rows of the result that this thread's tiles made: only where a tile is whole rows. */
static void grad_epilogue(Emit *e, const EmitGradW *g, int64_t rows_a_tile) {
    Val lo = emit_scale(e, e->lo, rows_a_tile);
    Val hi = emit_min_i64(e, emit_scale(e, e->hi, rows_a_tile), emit_i64(e, g->k));
    EmitLoop i = emit_for(e, lo, hi, 1);
    EmitLoop col = emit_for(e, emit_i64(e, 0), emit_i64(e, g->n), 1);
    Val at = emit_at(e, emit_at(e, g->c, emit_scale(e, i.i, g->n)), col.i);
    const EmitEpilogue *end = g->epilogue;
    emit_store(e, end->f(e, emit_load_vec(e, at, 1), i.i, col.i, 1, end->places, end->user), at);
    emit_end(e, &col);
    emit_end(e, &i);
}

/* g: c, or what is done without one, and the epilogue. */
static void grad_w(Emit *e, const IrNode *place, const EmitProduct *p, EmitGradW g) {
    IrType fine = p->x.live > p->y.live ? p->x : p->y;
    EmitChoice choice = emit_choice(&e->target, place);
    bool plain = choice == PRODUCT_PLAIN; /* plain counts from row 0 */
    g.k = p->k, g.n = p->n, g.bf16 = p->bf16, g.more = emit_more(e);
    g.amx = emit_by_amx(&e->target, place);
    g.rows = emit_scale(e, emit_unit_count(e, fine), p->m);
    g.x_row = p->m == 1 ? emit_unit(e, p->node->in[0]) : p->k;
    g.g_row = p->m == 1 ? emit_unit(e, p->node->in[1]) : p->n;
    g.x = plain ? emit_base(e, p->node->in[0]) : emit_first_of(e, p->node->in[0]);
    g.g = plain ? emit_base(e, p->node->in[1]) : emit_first_of(e, p->node->in[1]);
    switch (choice) {
    case PRODUCT_TILE:
        if (g.amx) emit_amx_open(e);
        emit_grad_w(e, &g, e->lo, e->hi);
        if (g.amx) emit_amx_close(e);
        return;
    case PRODUCT_NARROW: emit_narrow_grad_w(e, &g, e->lo, e->hi); return;
    case PRODUCT_LIBRARY:
        emit_library_grad(e, &g, e->lo, e->hi);
        if (g.epilogue) grad_epilogue(e, &g, emit_library_strip(g.k));
        return;
    case PRODUCT_PLAIN:
        plain_grad(e, p, &g);
        if (g.epilogue) grad_epilogue(e, &g, 1);
        return;
    }
}

void emit_grad_tiles(Emit *e, const IrNode *region, EmitGradW g) {
    EmitProduct p = emit_product(region, ir_product_of(region));
    grad_w(e, region, &p, g);
}

static void product_kernel(Emit *e, const IrNode *place) {
    const IrNode *product = ir_product_of(place);
    Job j = {.place = place, .p = emit_product(place, product), .in_registers = in_registers(place)};
    j.epilogue = (Epilogue){.product = product, .to = place->type};
    if (has_epilogue(place, product)) {
        const IrNode *root = place->body->nodes[place->body->n - 1];
        if (!ir_type_eq(root->type, product->type)) {
            diag_error(e->p->diag, place->span, NULL, "internal: a product's epilogue changes its shape");
            return;
        }
        open_epilogue(e, &j.epilogue, place);
    }
    if (j.p.grad) {
        const EmitEpilogue *end = has_epilogue(place, product) ? &j.epilogue.end : NULL;
        grad_w(e, place, &j.p, (EmitGradW){.c = emit_base(e, place), .epilogue = end});
    } else
        matmul(e, &j);
}

void emit_MATMUL(Emit *e, const IrNode *n) { product_kernel(e, n); }
void emit_MATMULGRADW(Emit *e, const IrNode *n) { product_kernel(e, n); }

void emit_FUSED(Emit *e, const IrNode *n) {
    e->region = n;
    if (ir_writer(n))
        emit_update_region(e, n);
    else if (ir_product_of(n))
        product_kernel(e, n);
    else if (ir_ends_in_reduction(n))
        emit_reduction(e, n);
    else
        emit_ew_kernel(e, n);
    e->region = NULL;
}
