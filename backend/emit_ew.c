/* Elementwise ops: what each computes from its operands' values, and the one loop that all of them, and whole
 * fused chains of them, run in. A value is a float or a vector of them; comparisons give 1 and 0. */
#include <string.h>
#include "backend/emit.h"

/* ---- one op at one place ---- */

#define EW(ID) Val emit_##ID(Emit *e, const IrNode *n, Val const *x)
#define EW1(ID, expr)                                                                                        \
    EW(ID) {                                                                                                 \
        (void)e, (void)n;                                                                                    \
        return expr;                                                                                         \
    }
EW1(ADD, emit_fadd(e, x[0], x[1]))
EW1(SUB, emit_fsub(e, x[0], x[1]))
EW1(MUL, emit_fmul(e, x[0], x[1]))
EW1(DIV, emit_fdiv(e, x[0], x[1]))
EW1(NEG, LLVMBuildFNeg(e->b, x[0], ""))
EW1(EXP, emit_exp(e, x[0]))
EW1(LOG, emit_log(e, x[0]))
EW1(LOG1P, emit_log1p(e, x[0]))
EW1(SQRT, emit_sqrt(e, x[0]))
EW1(SQUARE, emit_fmul(e, x[0], x[0]))
EW1(ABS, emit_abs(e, x[0]))
EW1(SIGMOID, emit_sigmoid(e, x[0]))
EW1(TANH, emit_tanh(e, x[0]))
EW1(SOFTPLUS, emit_softplus(e, x[0]))
EW1(ERF, emit_erf(e, x[0]))
EW1(STOPGRAD, x[0])
EW1(BF16, emit_round_bf16(e, x[0]))

/* a where a `p` b holds, else b: with NaN on either side, b */
static Val choose(Emit *e, LLVMRealPredicate p, Val a, Val b) {
    return emit_select(e, emit_fcmp(e, p, a, b), a, b);
}
EW1(MAX2, choose(e, LLVMRealOGE, x[0], x[1]))
EW1(MIN2, choose(e, LLVMRealOLE, x[0], x[1]))
/* 0 > x ? 0 : x keeps NaN, so a broken value stays visible */
EW1(RELU, choose(e, LLVMRealOGT, emit_like(e, x[0], 0), x[0]))

static Val truth(Emit *e, LLVMRealPredicate p, Val const *x) {
    return emit_select(e, emit_fcmp(e, p, x[0], x[1]), emit_like(e, x[0], 1), emit_like(e, x[0], 0));
}
EW1(LT, truth(e, LLVMRealOLT, x))
EW1(LE, truth(e, LLVMRealOLE, x))
EW1(GT, truth(e, LLVMRealOGT, x))
EW1(GE, truth(e, LLVMRealOGE, x))
EW1(EQ, truth(e, LLVMRealOEQ, x))
EW1(NE, truth(e, LLVMRealUNE, x))

EW(LEAKYRELU) {
    Val small = emit_fmul(e, x[0], emit_like(e, x[0], ir_attr_f(n, "slope")));
    return emit_select(e, emit_fcmp(e, LLVMRealOGT, x[0], emit_like(e, x[0], 0)), x[0], small);
}

EW(CLIP) {
    Val above = choose(e, LLVMRealOGT, emit_like(e, x[0], ir_attr_f(n, "lo")), x[0]);
    return choose(e, LLVMRealOLT, emit_like(e, x[0], ir_attr_f(n, "hi")), above);
}

EW(BCELOGITS) { /* max(z, 0) - z y + log1p(e^-|z|) */
    (void)n;
    Val z = x[0], t = emit_exp_negative(e, LLVMBuildFNeg(e->b, emit_abs(e, z), ""));
    Val top = choose(e, LLVMRealOGT, emit_like(e, z, 0), z);
    return emit_fadd(e, emit_fsub(e, top, emit_fmul(e, z, x[1])), emit_log1p(e, t));
}

static Val mix32(Emit *e, Val x) {
    int w = LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(LLVMTypeOf(x)) : 1;
    static const int shift[] = {16, 15, 16};
    static const uint32_t factor[] = {0x7feb352du, 0x846ca68bu};
    for (int i = 0; i < 3; i++) {
        x = LLVMBuildXor(e->b, x, LLVMBuildLShr(e->b, x, emit_splat(e, emit_i32(e, shift[i]), w), ""), "");
        if (i < 2) x = emit_mul(e, x, emit_splat(e, LLVMConstInt(e->i32, factor[i], 0), w));
    }
    return x;
}

static Val low32(Emit *e, Val v) { return LLVMBuildTrunc(e->b, v, e->i32, ""); }

/* x[1] holds the element numbers: the caller gives them beside the value */
EW(DROPOUT) {
    if (!e->train) return x[0];
    double rate = ir_attr_f(n, "rate");
    Val seed = emit_step(e, STEP_seed), step = low32(e, emit_step(e, STEP_step));
    Val high = low32(e, LLVMBuildLShr(e->b, seed, emit_i64(e, 32), ""));
    Val key = LLVMConstInt(e->i32, (uint32_t)ir_attr_i(n, "key"), 0);
    Val h = mix32(e, LLVMBuildXor(e->b, low32(e, seed), mix32(e, high), ""));
    h = mix32(e, emit_add(e, step, mix32(e, emit_add(e, key, h))));
    int w = emit_lanes(x[0]);
    Val u = mix32(e, emit_add(e, x[1], emit_splat(e, h, w)));
    double limit = rate * 4294967296.0; /* u < limit, for an integer u */
    uint64_t whole = (uint64_t)limit;
    if ((double)whole < limit) whole++;
    Val drop = emit_icmp(e, LLVMIntULT, u, emit_splat(e, LLVMConstInt(e->i32, whole, 0), w));
    Val kept = emit_fmul(e, x[0], emit_like(e, x[0], 1.0 / (1.0 - rate)));
    return emit_select(e, drop, emit_like(e, x[0], 0), kept);
}

bool emit_is_ew(const IrNode *n) { return ir_ops[n->op].cls == CLASS_EW; }

static Val ew_op(Emit *e, const IrNode *n, Val const *x) {
    switch (n->op) {
#define EW_CASE_EW(ID)                                                                                       \
    case OP_##ID:                                                                                            \
        return emit_##ID(e, n, x);
#define EW_CASE_SRC(ID)
#define EW_CASE_READ(ID)
#define EW_CASE_TAB(ID)
#define EW_CASE_MOVE(ID)
#define EW_CASE_RED(ID)
#define EW_CASE_PROD(ID)
#define EW_CASE_NORM(ID)
#define EW_CASE_UPD(ID)
#define EW_CASE_ROOT(ID)
#define EW_CASE_REG(ID)
#define OP(ID, text, mi, ma, at, sh, gr, co, ef, CLS, me) EW_CASE_##CLS(ID)
#include "ir/ops.def"
#undef OP
    default: return x[0];
    }
}

/* ---- a body at one place: each node once ---- */

typedef struct {
    const IrNode *node;
    Val value;
} Known;
typedef struct {
    Known *known;
    int n, cap, w;
} Seen;

static bool computed(const EmitBody *b, const IrNode *n) {
    return emit_is_ew(n) && n != b->stop && (b->whole || n == b->root);
}

static Val value_of(Emit *e, const EmitBody *b, Seen *s, const IrNode *n) {
    for (int i = 0; i < s->n; i++)
        if (s->known[i].node == n) return s->known[i].value;
    Val out, x[3];
    if (computed(b, n)) {
        for (int i = 0; i < n->n_in; i++) x[i] = value_of(e, b, s, n->in[i]);
        if (n->op == OP_DROPOUT && e->train) x[1] = b->index(e, n, s->w, b->user);
        out = ew_op(e, n, x);
    } else {
        out = b->leaf(e, n, s->w, b->user);
    }
    ARENA_PUSH(e->arena, s->known, s->n, s->cap, ((Known){n, out}));
    return out;
}

Val emit_body_value(Emit *e, const EmitBody *b, int w) {
    Seen s = {.w = w};
    return value_of(e, b, &s, b->root);
}

/* ---- the loop ---- */

enum { RESULTS = 16 };
typedef struct {
    EmitBody body;
    EmitNest nest;                 /* ref 0 the result, then the other results, then the leaves */
    const IrNode *also[RESULTS];   /* in the body: what other results are made */
    const IrNode *places[RESULTS]; /* where */
    int n_also;
    const IrNode *leaf[NEST_REFS];
    bool is_index[NEST_REFS]; /* the leaf stands for a dropout's element numbers */
    int n_leaf;
} Loop;

static void add_leaf(Loop *l, const IrNode *n, bool is_index) {
    for (int i = 0; i < l->n_leaf; i++)
        if (l->leaf[i] == n && l->is_index[i] == is_index) return;
    if (l->n_leaf == NEST_REFS - 1 - RESULTS) return; /* reported by run_loop */
    l->is_index[l->n_leaf] = is_index;
    l->leaf[l->n_leaf++] = n;
}

static void find_leaves(Loop *l, const IrNode *n, bool training) {
    if (!computed(&l->body, n)) {
        add_leaf(l, n, false);
        return;
    }
    if (n->op == OP_DROPOUT && training) add_leaf(l, n, true);
    for (int i = 0; i < n->n_in; i++) find_leaves(l, n->in[i], training);
}

void emit_strides(IrType t, IrType to, int64_t *out) {
    int64_t size = 1;
    for (int i = 0; i < to.rank; i++) {
        int at = t.rank - 1 - i; /* ranks align from the right */
        int64_t d = at >= 0 ? t.dim[at] : 1;
        out[to.rank - i] = d == 1 ? 0 : size;
        size *= d;
    }
    out[0] = t.live == to.live || (t.live == LIVE_ALWAYS && to.live == LIVE_STEP) ? size : 0;
}

void emit_strides_of(const Emit *e, const IrNode *n, IrType to, int64_t *out) {
    emit_strides(n->type, to, out);
    if (out[0]) out[0] = emit_unit(e, n);
}

static bool is_row_of_pos(const IrNode *n, IrType to) {
    return to.live == LIVE_POS && n->type.live == LIVE_ROW;
}

static int ref_of(const Loop *l, const IrNode *n, bool is_index) {
    for (int i = 0; i < l->n_leaf; i++)
        if (l->leaf[i] == n && l->is_index[i] == is_index) return l->n_also + i + 1;
    return 0;
}

static Val leaf_value(Emit *e, const IrNode *n, int w, void *user) {
    Loop *l = user;
    return emit_ref_load(e, &l->nest, ref_of(l, n, false), w);
}
static Val leaf_index(Emit *e, const IrNode *n, int w, void *user) {
    Loop *l = user;
    return emit_ref_index(e, &l->nest, ref_of(l, n, true), w);
}
static void loop_body(Emit *e, EmitNest *nest, int w, void *user) {
    Loop *l = user;
    Seen s = {.w = w};
    for (int i = 0; i < l->n_also; i++) emit_ref_store(e, nest, i + 1, value_of(e, &l->body, &s, l->also[i]));
    emit_ref_store(e, nest, 0, value_of(e, &l->body, &s, l->body.root));
}

/* The other results of a region, as far as something reads them. */
static void find_results(const Emit *e, Loop *l, const IrNode *region) {
    for (int i = 0; e->f && region->op == OP_FUSED && i < e->f->body.n; i++) {
        const IrNode *n = e->f->body.nodes[i];
        if (n->op != OP_RESULT || n->in[0] != region) continue;
        if (l->n_also == RESULTS) {
            diag_error(e->p->diag, region->span, NULL, "internal: a region with more than %d results",
                       RESULTS + 1);
            return;
        }
        l->places[l->n_also] = n;
        l->also[l->n_also++] = ir_result(region, (int)ir_attr_i(n, "index"));
    }
}

/* Finds the leaves and sets up the nest of what stands in `place`; bases are left to the caller. */
static void open_loop(Emit *e, Loop *l, const IrNode *place) {
    IrType t = place->type;
    l->body.leaf = leaf_value, l->body.index = leaf_index, l->body.user = l;
    find_results(e, l, place);
    for (int i = 0; i < l->n_also; i++) find_leaves(l, l->also[i], e->train);
    find_leaves(l, l->body.root, e->train);
    EmitNest *n = &l->nest;
    *n = (EmitNest){.n = t.rank + 1, .n_ref = l->n_also + l->n_leaf + 1, .body = loop_body, .user = l};
    n->dim[0] = 1;
    for (int i = 0; i < t.rank; i++) n->dim[i + 1] = t.dim[i];
    emit_strides_of(e, place, t, n->ref[0].stride);
    for (int k = 0; k < l->n_also; k++) emit_strides_of(e, l->places[k], t, n->ref[k + 1].stride);
    NestRef *leaf = &n->ref[l->n_also + 1];
    for (int k = 0; k < l->n_leaf; k++) {
        if (l->is_index[k])
            emit_strides(l->leaf[k]->type, t, leaf[k].stride);
        else
            emit_strides_of(e, l->leaf[k] == l->body.stop ? place : l->leaf[k], t, leaf[k].stride);
    }
}

enum { TILE_ELEMENTS = 4096 };

/* Step-wide results: dimensions joined, tiles of the outermost. Gives how many of it are in a tile. */
static int64_t tile_of(Emit *e, EmitNest *n) {
    emit_nest_merge(e, n);
    int64_t inner = 1;
    for (int i = 1; i < n->n; i++) inner *= n->dim[i];
    int64_t tile = TILE_ELEMENTS / inner;
    return tile < 1 ? 1 : tile;
}

static EmitBody body_of(const IrNode *n) {
    if (n->op != OP_FUSED) return (EmitBody){.root = n};
    return (EmitBody){.root = n->body->nodes[n->body->n - 1], .whole = true};
}

int64_t emit_ew_tiles(Emit *e, const IrNode *n) {
    Loop l = {.body = body_of(n)};
    open_loop(e, &l, n);
    int64_t tile = tile_of(e, &l.nest);
    return (l.nest.dim[0] + tile - 1) / tile;
}

/* Computes what stands in `place`, for the units that the kernel's lo..hi covers. */
static void run_loop(Emit *e, Loop *l, const IrNode *place) {
    IrType t = place->type;
    open_loop(e, l, place);
    if (l->n_leaf == NEST_REFS - 1 - RESULTS) {
        diag_error(e->p->diag, place->span, NULL, "internal: a region with more than %d operands",
                   NEST_REFS - 2 - RESULTS);
        return;
    }
    EmitNest *n = &l->nest;
    n->ref[0].base = emit_base(e, place);
    for (int k = 0; k < l->n_also; k++) n->ref[k + 1].base = emit_base(e, l->places[k]);
    for (int k = 0; k < l->n_leaf; k++) {
        const IrNode *leaf = l->leaf[k];
        NestRef *ref = &n->ref[l->n_also + 1 + k];
        if (!l->is_index[k]) ref->base = emit_base(e, leaf == l->body.stop ? place : leaf);
        if (is_row_of_pos(leaf, t))
            ref->row_size = l->is_index[k] ? ir_type_size(leaf->type) : emit_unit(e, leaf);
    }
    if (t.live == LIVE_STEP || t.live == LIVE_ALWAYS) {
        int64_t tile = tile_of(e, n);
        n->lo = emit_scale(e, e->lo, tile);
        n->hi = emit_min_i64(e, emit_scale(e, e->hi, tile), emit_i64(e, n->dim[0]));
        emit_nest(e, n);
    } else {
        emit_nest_units(e, n, t);
    }
}

void emit_ew_kernel(Emit *e, const IrNode *n) {
    Loop l = {.body = body_of(n)};
    run_loop(e, &l, n);
}

void emit_ew_epilogue(Emit *e, const IrNode *fused, const IrNode *first) {
    Loop l = {.body = body_of(fused)};
    l.body.stop = first;
    if (l.body.root != first) run_loop(e, &l, fused);
}
