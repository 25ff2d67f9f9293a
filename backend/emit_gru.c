/* gru, augru and their gradients: the state along each row's list, from p, the part of the pre-activations
 * that doesn't need it. Formulas as in ops.def; equations of Cho et al. 2014 with TensorFlow's order (reset
 * before the product), and Zhou et al. 2019 (DIEN) for the scores.
 *
 * Forward, step t of a group of rows, sizes in floats a row:
 *     gates [2u]  = h Ug                 register tiles; none at t = 0, where h is 0
 *     gates       = sigmoid(gates + p)   also to the record
 *     reset [u]   = r h
 *     cand [u]    = reset Uc             register tiles
 *     c           = tanh(cand + p), h = u' h + (1 - u') c, both also to the record
 * Backward, from the last step to the first, with later [u] = what comes back from step t + 1:
 *     d           = dh + later, later = u' d, dc and du from d
 *     back [u]    = dc Uc^T
 *     dr          = back h r (1 - r), later += r back
 *     later      += [dr,du] Ug^T
 * A row's numbers stand side by side in the group's buffers, padded to whole vectors; what is in the padding
 * is never read. */
#include "backend/emit_recurrent.h"

/* ---- what both directions have ---- */

typedef struct {
    int64_t u, padded; /* units; in whole vectors */
    int64_t gates;     /* floats of a row of two gates: whole vectors from either gate's first unit on */
    bool scored;
    int64_t weights_g, weights_c;                                           /* floats of the packed weights */
    int64_t order, packed_g, packed_c, state, product, gate, factor, zeros; /* places in scratch */
    int64_t floats;                                                         /* of scratch */
} Layout;

/* state: h, or what comes back to it. product: a product's result of u columns. gate: both gates, or their
 * gradients. factor: what is multiplied by Uc. */
static Layout layout_of(int W, const IrNode *n) {
    Layout l = {.u = ir_type_width(n->in[2]->type), .scored = n->op == OP_AUGRU || n->op == OP_AUGRUGRAD};
    RecScratch s = {0};
    bool forward = n->op == OP_GRU || n->op == OP_AUGRU;
    l.padded = emit_rec_padded(W, l.u);
    l.gates = emit_rec_padded(W, l.u + l.padded);
    l.order = emit_rec_take(&s, emit_rec_order_floats());
    l.weights_g = forward ? emit_packed_floats(W, l.u, 2 * l.u) : emit_packed_floats(W, 2 * l.u, l.u);
    l.weights_c = emit_packed_floats(W, l.u, l.u);
    l.packed_g = emit_rec_take(&s, n->in[1]->op == OP_PACK ? 0 : l.weights_g);
    l.packed_c = emit_rec_take(&s, n->in[2]->op == OP_PACK ? 0 : l.weights_c);
    l.state = emit_rec_take(&s, REC_GROUP * l.padded);
    l.product = emit_rec_take(&s, REC_GROUP * l.padded);
    l.gate = emit_rec_take(&s, REC_GROUP * l.gates);
    l.factor = emit_rec_take(&s, REC_GROUP * l.padded);
    l.zeros = emit_rec_take(&s, l.padded);
    l.floats = s.floats;
    return l;
}

int64_t emit_gru_scratch(const PassTarget *t, const IrNode *n) {
    return 4 * layout_of(t->vector_floats, n).floats;
}

const char *emit_gru_why(const PassTarget *t, const IrNode *n, Arena *a) {
    Layout l = layout_of(t->vector_floats, n);
    int64_t weights = 4 * (l.weights_g + l.weights_c);
    return arena_printf(a, "rows by length, %d at a time; %.1f KiB of packed weights", REC_GROUP,
                        (double)weights / 1024);
}

typedef struct {
    Layout l;
    Val in, a, dh, out;                      /* p or the record; scores; gradients of h; the result */
    Val state, product, gate, factor, zeros; /* scratch */
    RecProduct by_g, by_c;
    RecOrder order;
    Val group, live, t, first_step; /* of the step that runs; first_step: whether t is 0 */
} Gru;

/* Weight i in panels; if it doesn't come so, they are made in scratch. */
static Val packed(Emit *e, const IrNode *n, int i, bool forward, int64_t place) {
    Val w = emit_base(e, n->in[i]), to = emit_at_const(e, e->scratch, place);
    IrType t = n->in[i]->type;
    if (n->in[i]->op == OP_PACK) return w;
    int64_t width = ir_type_width(t);
    emit_pack(e, &(EmitPack){w, forward ? width : 1, forward ? 1 : width, to, t.dim[forward],
                             emit_i64(e, t.dim[!forward]), false});
    return to;
}

static Gru gru_of(Emit *e, const IrNode *n) {
    Gru g = {.l = layout_of(e->W, n)};
    const Layout *l = &g.l;
    bool forward = n->op == OP_GRU || n->op == OP_AUGRU;
    g.in = emit_base(e, n->in[0]), g.out = emit_base(e, n);
    if (l->scored) g.a = emit_base(e, n->in[3]);
    if (!forward) g.dh = emit_base(e, n->in[n->n_in - 1]);
    g.state = emit_at_const(e, e->scratch, l->state), g.product = emit_at_const(e, e->scratch, l->product);
    g.gate = emit_at_const(e, e->scratch, l->gate), g.factor = emit_at_const(e, e->scratch, l->factor);
    g.zeros = emit_at_const(e, e->scratch, l->zeros);
    g.by_g = (RecProduct){.terms = forward ? l->u : 2 * l->u,
                          .n = forward ? 2 * l->u : l->u,
                          .a_row = forward ? l->padded : l->gates,
                          .c_row = forward ? l->gates : l->padded,
                          .add = !forward,
                          .packed = packed(e, n, 1, forward, l->packed_g)};
    g.by_c = (RecProduct){.terms = l->u,
                          .n = l->u,
                          .a_row = l->padded,
                          .c_row = l->padded,
                          .packed = packed(e, n, 2, forward, l->packed_c)};
    emit_fill(e, g.zeros, emit_i64(e, 0), emit_i64(e, l->padded), 0);
    return g;
}

static void clear(Emit *e, Val rows, int64_t size) {
    emit_fill(e, rows, emit_i64(e, 0), emit_i64(e, REC_GROUP * size), 0);
}

/* Calls step for each time step of each group, the first or the last position first. */
static void each_step(Emit *e, const IrNode *n, Gru *g, bool backwards, void (*step)(Emit *e, Gru *g)) {
    EmitLoop block = emit_for(e, e->lo, e->hi, REC_BLOCK);
    Val end = emit_min_i64(e, emit_add(e, block.i, emit_i64(e, REC_BLOCK)), e->hi), zero = emit_i64(e, 0);
    g->order = emit_rec_order(e, n->type.axis, block.i, end, emit_at_const(e, e->scratch, g->l.order));
    EmitLoop group = emit_for(e, zero, g->order.rows, REC_GROUP);
    g->group = group.i;
    clear(e, g->state, g->l.padded);
    Val longest = emit_load_elem(e, e->i64, g->order.length, group.i);
    EmitLoop t = emit_for(e, zero, longest, 1);
    g->t = backwards ? emit_sub(e, emit_sub(e, longest, emit_i64(e, 1)), t.i) : t.i;
    g->live = emit_rec_live(e, &g->order, group.i, g->t);
    g->first_step = emit_icmp(e, LLVMIntEQ, g->t, zero);
    step(e, g);
    emit_end(e, &t);
    emit_end(e, &group);
    emit_end(e, &block);
}

/* One row at one step. */
typedef struct {
    const Gru *g;
    EmitLoop loop;
    Val position;
    Val in, out;                      /* the position's: p or record, record or result */
    Val state, product, gate, factor; /* the row's */
    Val keep;                         /* 1 - a; NULL: 1 */
    Val before, later;                /* backwards: h of the position before, what comes back from the next */
    Val dh;
} Row;

static Row each_row(Emit *e, const Gru *g, int64_t in_size, int64_t out_size) {
    Row r = {.g = g, .loop = emit_for(e, emit_i64(e, 0), g->live, 1)};
    Val i = r.loop.i;
    r.position = emit_add(e, emit_load_elem(e, e->i64, g->order.first, emit_add(e, g->group, i)), g->t);
    r.in = emit_at(e, g->in, emit_scale(e, r.position, in_size));
    r.out = emit_at(e, g->out, emit_scale(e, r.position, out_size));
    r.state = emit_at(e, g->state, emit_scale(e, i, g->l.padded));
    r.product = emit_at(e, g->product, emit_scale(e, i, g->l.padded));
    r.gate = emit_at(e, g->gate, emit_scale(e, i, g->l.gates));
    r.factor = emit_at(e, g->factor, emit_scale(e, i, g->l.padded));
    if (g->a) r.keep = emit_fsub(e, emit_const(e, 1, 1), emit_load_vec(e, emit_at(e, g->a, r.position), 1));
    return r;
}

/* u' = (1 - a) u */
static Val kept(Emit *e, const Row *r, Val u) {
    return r->keep ? emit_fmul(e, emit_splat(e, r->keep, e->W), u) : u;
}

static Val whole(Emit *e, Val row, Val col) { return emit_load_vec(e, emit_at(e, row, col), e->W); }
static Val part(Emit *e, Val row, int64_t from, Val col, int lanes) {
    return emit_rec_load(e, emit_at(e, emit_at_const(e, row, from), col), lanes);
}
static void put(Emit *e, Val v, Val row, int64_t from, Val col, int lanes) {
    emit_rec_store(e, v, emit_at(e, emit_at_const(e, row, from), col), lanes);
}
static Val one_minus(Emit *e, Val x) { return emit_fsub(e, emit_like(e, x, 1), x); }

/* ---- forward ---- */

/* The product with the state, which is 0 at the first step. */
static void state_product(Emit *e, const Gru *g, const RecProduct *p, Val a, Val c) {
    EmitIf first = emit_if(e, g->first_step);
    clear(e, c, p->c_row);
    emit_else(e, &first);
    emit_rec_product(e, p, a, c, g->live);
    emit_fi(e, &first);
}

static void gate_vector(Emit *e, Val col, int lanes, void *user) {
    const Row *r = user;
    Val v = emit_sigmoid(e, emit_fadd(e, whole(e, r->gate, col), part(e, r->in, 0, col, lanes)));
    emit_store(e, v, emit_at(e, r->gate, col));
    put(e, v, r->out, r->g->l.u, col, lanes);
}

static void reset_vector(Emit *e, Val col, int lanes, void *user) {
    const Row *r = user;
    (void)lanes;
    emit_store(e, emit_fmul(e, whole(e, r->gate, col), whole(e, r->state, col)), emit_at(e, r->factor, col));
}

static void state_vector(Emit *e, Val col, int lanes, void *user) {
    const Row *r = user;
    int64_t u = r->g->l.u;
    Val c = emit_tanh(e, emit_fadd(e, whole(e, r->product, col), part(e, r->in, 2 * u, col, lanes)));
    Val gate = kept(e, r, whole(e, emit_at_const(e, r->gate, u), col)), h = whole(e, r->state, col);
    h = emit_fma(e, gate, emit_fsub(e, h, c), c);
    emit_store(e, h, emit_at(e, r->state, col));
    put(e, h, r->out, 0, col, lanes);
    put(e, c, r->out, 3 * u, col, lanes);
}

static void forward_step(Emit *e, Gru *g) {
    int64_t u = g->l.u;
    state_product(e, g, &g->by_g, g->state, g->gate);
    Row r = each_row(e, g, 3 * u, 4 * u);
    /* the row's next position: there are more rows than the CPU follows by itself */
    emit_prefetch_run(e, emit_at_const(e, r.in, 3 * u), 3 * u, false);
    emit_prefetch_run(e, emit_at_const(e, r.out, 4 * u), 4 * u, true);
    emit_rec_vectors(e, 2 * u, gate_vector, &r);
    emit_rec_vectors(e, u, reset_vector, &r);
    emit_end(e, &r.loop);
    state_product(e, g, &g->by_c, g->factor, g->product);
    r = each_row(e, g, 3 * u, 4 * u);
    emit_rec_vectors(e, u, state_vector, &r);
    emit_end(e, &r.loop);
}

void emit_GRU(Emit *e, const IrNode *n) {
    Gru g = gru_of(e, n);
    each_step(e, n, &g, false, forward_step);
}
void emit_AUGRU(Emit *e, const IrNode *n) { emit_GRU(e, n); }

/* ---- backward ---- */

static Row each_row_back(Emit *e, const Gru *g) {
    int64_t u = g->l.u;
    Row r = each_row(e, g, 4 * u, 4 * u);
    r.dh = emit_at(e, g->dh, emit_scale(e, r.position, u));
    r.before = emit_select(e, g->first_step, g->zeros, emit_at_const(e, r.in, -4 * u));
    /* a row's last position: in its place in `state` stands what a tile that reached too far has left */
    Val length = emit_load_elem(e, e->i64, g->order.length, emit_add(e, g->group, r.loop.i));
    Val last = emit_icmp(e, LLVMIntEQ, emit_add(e, g->t, emit_i64(e, 1)), length);
    r.later = emit_select(e, last, g->zeros, r.state);
    return r;
}

static void candidate_vector(Emit *e, Val col, int lanes, void *user) {
    const Row *r = user;
    int64_t u = r->g->l.u;
    Val gate = part(e, r->in, 2 * u, col, lanes), c = part(e, r->in, 3 * u, col, lanes);
    Val d = emit_fadd(e, part(e, r->dh, 0, col, lanes), whole(e, r->later, col));
    Val mine = kept(e, r, gate);
    put(e, d, r->out, 3 * u, col, lanes);
    emit_store(e, emit_fmul(e, d, mine), emit_at(e, r->state, col));
    Val dc = emit_fmul(e, emit_fmul(e, d, one_minus(e, mine)),
                       emit_fma(e, LLVMBuildFNeg(e->b, c, ""), c, emit_like(e, c, 1)));
    emit_store(e, dc, emit_at(e, r->factor, col));
    put(e, dc, r->out, 2 * u, col, lanes);
    Val away = emit_fsub(e, part(e, r->before, 0, col, lanes), c);
    Val du = emit_fmul(e, emit_fmul(e, emit_fmul(e, d, mine), away), one_minus(e, gate));
    emit_store(e, du, emit_at(e, emit_at_const(e, r->gate, u), col));
    put(e, du, r->out, u, col, lanes);
}

static void reset_grad_vector(Emit *e, Val col, int lanes, void *user) {
    const Row *r = user;
    Val reset = part(e, r->in, r->g->l.u, col, lanes), back = whole(e, r->product, col);
    Val through = emit_fmul(e, back, reset); /* to h */
    Val dr = emit_fmul(e, emit_fmul(e, through, part(e, r->before, 0, col, lanes)), one_minus(e, reset));
    emit_store(e, emit_fadd(e, whole(e, r->state, col), through), emit_at(e, r->state, col));
    put(e, dr, r->gate, 0, col, lanes); /* du stands behind it */
    put(e, dr, r->out, 0, col, lanes);
}

static void no_reset_grad_vector(Emit *e, Val col, int lanes, void *user) {
    const Row *r = user;
    put(e, emit_const(e, e->W, 0), r->out, 0, col, lanes);
}

static void backward_step(Emit *e, Gru *g) {
    int64_t u = g->l.u;
    Row r = each_row_back(e, g);
    emit_prefetch_run(e, emit_at_const(e, r.in, -8 * u), 4 * u, false); /* of the record one is here */
    emit_prefetch_run(e, emit_at_const(e, r.dh, -u), u, false);
    emit_prefetch_run(e, emit_at_const(e, r.out, -4 * u), 4 * u, true);
    emit_rec_vectors(e, u, candidate_vector, &r);
    emit_end(e, &r.loop);
    EmitIf first = emit_if(e, g->first_step); /* no state before it, so nothing goes there or through it */
    r = each_row_back(e, g);
    emit_rec_vectors(e, u, no_reset_grad_vector, &r);
    emit_end(e, &r.loop);
    emit_else(e, &first);
    emit_rec_product(e, &g->by_c, g->factor, g->product, g->live);
    r = each_row_back(e, g);
    emit_rec_vectors(e, u, reset_grad_vector, &r);
    emit_end(e, &r.loop);
    emit_rec_product(e, &g->by_g, g->gate, g->state, g->live);
    emit_fi(e, &first);
}

void emit_GRUGRAD(Emit *e, const IrNode *n) {
    Gru g = gru_of(e, n);
    each_step(e, n, &g, true, backward_step);
}
void emit_AUGRUGRAD(Emit *e, const IrNode *n) { emit_GRUGRAD(e, n); }
