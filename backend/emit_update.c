/* Updates: each optimizer's formulas (numerics), on whole weights, on touched rows of whole weights, and on
 * rows of tables, whose storage row holds the weights first and then each slot. */
#include <math.h>
#include "backend/emit_update.h"

/* refs of an update's nest */
enum { REF_W, REF_G, REF_SLOT };

static Val scalar(Emit *e, Val like, Val v) { return emit_splat(e, v, emit_lanes(like)); }
static Val k_of(Emit *e, Val like, double v) { return emit_like(e, like, v); }

/* b * a + (1 - b) * x, as a running mean */
static Val mean_of(Emit *e, double b, Val a, Val x) {
    return emit_fma(e, k_of(e, x, 1 - b), x, emit_fmul(e, k_of(e, x, b), a));
}

static Val ftrl(Emit *e, const EmitUpdate *u, Val w, Val g, Val *s) {
    Val lr = scalar(e, g, u->lr), before = emit_sqrt(e, s[0]), n = emit_fma(e, g, g, s[0]),
        after = emit_sqrt(e, n);
    Val sigma = emit_fdiv(e, emit_fsub(e, after, before), lr);
    Val z = emit_fadd(e, s[1], emit_fsub(e, g, emit_fmul(e, sigma, w)));
    Val l1 = k_of(e, g, u->o->l1_ftrl), edge = emit_intrinsic(e, "llvm.copysign", (Val[]){l1, z}, 2);
    Val below = emit_fadd(e, emit_fdiv(e, after, lr), k_of(e, g, 2 * u->o->l2_ftrl));
    Val moved = emit_fdiv(e, emit_fsub(e, edge, z), below);
    s[0] = n, s[1] = z;
    return emit_select(e, emit_fcmp(e, LLVMRealOLE, emit_abs(e, z), l1), k_of(e, g, 0), moved);
}

Val emit_apply_update(Emit *e, const EmitUpdate *u, Val w, Val g, Val *s) {
    const IrOptimizer *o = u->o;
    Val lr = scalar(e, g, u->lr);
    switch (o->kind) {
    case OPT_SGD: return emit_fsub(e, w, emit_fmul(e, lr, g));
    case OPT_MOMENTUM:
        s[0] = emit_fma(e, k_of(e, g, o->momentum), s[0], g);
        return emit_fsub(e, w, emit_fmul(e, lr, s[0]));
    case OPT_ADAGRAD_DECAY: { /* decay is 1 in most steps; what is below `init` already stays at it */
        Val start = k_of(e, g, o->init), kept = emit_fmul(e, s[0], scalar(e, g, u->decay));
        s[0] = emit_select(e, emit_fcmp(e, LLVMRealOGT, start, kept), start, kept);
    } /* fall through */
    case OPT_ADAGRAD:
        s[0] = emit_fma(e, g, g, s[0]);
        return emit_fsub(e, w, emit_fdiv(e, emit_fmul(e, lr, g), emit_sqrt(e, s[0])));
    case OPT_RMSPROP:
        s[0] = mean_of(e, o->rho, s[0], emit_fmul(e, g, g));
        return emit_fsub(
            e, w, emit_fdiv(e, emit_fmul(e, lr, g), emit_sqrt(e, emit_fadd(e, s[0], k_of(e, g, o->eps)))));
    case OPT_ADAM:
    case OPT_ADAM_ASYNC: {
        s[0] = mean_of(e, o->beta1, s[0], g);
        s[1] = mean_of(e, o->beta2, s[1], emit_fmul(e, g, g));
        Val step = emit_fmul(e, scalar(e, g, u->alpha), s[0]);
        return emit_fsub(e, w, emit_fdiv(e, step, emit_fadd(e, emit_sqrt(e, s[1]), k_of(e, g, o->eps))));
    }
    case OPT_FTRL: return ftrl(e, u, w, g, s);
    }
    return w;
}

static void update_body(Emit *e, EmitNest *n, int w, void *user) {
    const EmitUpdate *u = user;
    Val slot[3], g = emit_ref_load(e, n, REF_G, w);
    if (u->scale) g = emit_fmul(e, g, emit_splat(e, u->scale, w));
    for (int s = 0; s < u->n_slots; s++) slot[s] = emit_ref_load(e, n, REF_SLOT + s, w);
    emit_ref_store(e, n, REF_W, emit_apply_update(e, u, emit_ref_load(e, n, REF_W, w), g, slot));
    for (int s = 0; s < u->n_slots; s++) emit_ref_store(e, n, REF_SLOT + s, slot[s]);
}

EmitUpdate emit_update_of(Emit *e, const IrNode *n, const IrNode *scale) {
    const char *names[3];
    int w = (int)ir_attr_i(n, "w");
    EmitUpdate u = {.o = &e->p->opts[e->p->weights[w].optimizer], .weight = w};
    u.n_slots = ir_opt_slots(u.o, names);
    u.lr = emit_opt(e, w, OPT_STEP_lr);
    u.alpha = emit_opt(e, w, OPT_STEP_alpha);
    u.decay = emit_opt(e, w, OPT_STEP_decay);
    if (scale) u.scale = emit_load_vec(e, emit_base(e, scale), 1);
    return u;
}

static EmitNest nest_of(EmitUpdate *u, int64_t size) {
    EmitNest n = {.n = 1, .dim = {size}, .n_ref = REF_SLOT + u->n_slots, .body = update_body, .user = u};
    for (int k = 0; k < n.n_ref; k++) n.ref[k].stride[0] = 1;
    return n;
}

static int64_t row_width(const IrWeight *w) {
    int64_t width = 1;
    for (int i = 1; i < w->rank; i++) width *= w->dim[i];
    return width;
}

/* ---- whole weights: tiles of so many elements ---- */

enum { UPDATE_TILE = 4096 };
int64_t emit_update_tiles(int64_t elements) { return (elements + UPDATE_TILE - 1) / UPDATE_TILE; }

void emit_UPDATE(Emit *e, const IrNode *n) {
    EmitUpdate u = emit_update_of(e, n, n->n_in > 1 ? n->in[1] : NULL);
    const IrWeight *w = &e->p->weights[u.weight];
    int64_t size = row_width(w) * w->dim[0];
    EmitNest nest = nest_of(&u, 0);
    nest.ref[REF_W].base = emit_step_elem(e, STEP_weights, u.weight);
    nest.ref[REF_G].base = emit_base(e, n->in[0]);
    for (int s = 0; s < u.n_slots; s++)
        nest.ref[REF_SLOT + s].base = emit_step_elem(e, STEP_slots, 3 * u.weight + s);
    nest.lo = emit_scale(e, e->lo, UPDATE_TILE);
    nest.hi = emit_min_i64(e, emit_scale(e, e->hi, UPDATE_TILE), emit_i64(e, size));
    emit_nest(e, &nest);
}

/* ---- rows that the batch names ---- */

static void touched(Emit *e, int weight) {
    Val lo = LLVMBuildTrunc(e->b, e->lo, e->i32, ""), hi = LLVMBuildTrunc(e->b, e->hi, e->i32, "");
    EmitIf any = emit_if(e, emit_icmp(e, LLVMIntSLT, e->lo, e->hi));
    emit_call(e, "rt_touched", (Val[]){e->step, emit_i32(e, weight), lo, hi}, 4);
    emit_fi(e, &any);
}

void emit_UPDATETOUCHED(Emit *e, const IrNode *n) {
    EmitUpdate u = emit_update_of(e, n, ir_attr_i(n, "scaled") ? n->in[1] : NULL);
    int64_t width = row_width(&e->p->weights[u.weight]);
    Val ids = emit_table(e, u.weight, TABLE_id), base[5];
    base[REF_W] = emit_step_elem(e, STEP_weights, u.weight);
    base[REF_G] = emit_base(e, n->in[0]);
    for (int s = 0; s < u.n_slots; s++) base[REF_SLOT + s] = emit_step_elem(e, STEP_slots, 3 * u.weight + s);
    EmitLoop i = emit_for(e, e->lo, e->hi, 1);
    EmitNest nest = nest_of(&u, width);
    Val off = emit_scale(e, emit_to_i64(e, emit_load_elem(e, e->i32, ids, i.i)), width);
    for (int k = 0; k < nest.n_ref; k++) nest.ref[k].base = emit_at(e, base[k], off);
    emit_nest(e, &nest);
    emit_end(e, &i);
    touched(e, u.weight);
}

/* A table's row some rows ahead comes from memory meanwhile: rows that a batch names lie anywhere. */
static void fetch_ahead(Emit *e, Val rows, Val numbers, Val i, Val hi, int64_t row_floats) {
    enum { ROWS_AHEAD = 16, MOST = 16 * CACHE_LINE };
    Val last = emit_sub(e, hi, emit_i64(e, 1));
    Val ahead = emit_min_i64(e, emit_add(e, i, emit_i64(e, ROWS_AHEAD)), last);
    Val row = emit_to_i64(e, emit_load_elem(e, e->i32, numbers, ahead));
    Val at = emit_at(e, rows, emit_scale(e, row, row_floats));
    emit_prefetch_run(e, at, row_floats < MOST ? row_floats : MOST, true);
    emit_prefetch(e, emit_at_const(e, at, row_floats - 1), true); /* a row may begin amid a line */
}

/* void update_rows(step, rows, row numbers, g, lr, alpha, decay, scale, lo, hi): shared by the tables of one
 * optimizer and width. */
static Val rows_function(Emit *e, const EmitUpdate *like, int64_t width) {
    LLVMTypeRef types[] = {e->ptr, e->ptr, e->ptr, e->ptr, e->f32, e->f32, e->f32, e->f32, e->i64, e->i64};
    const char *name =
        arena_printf(e->arena, "update_rows_%s%d_%lld%s", ir_opt_name(like->o->kind),
                     e->p->weights[like->weight].optimizer, (long long)width, like->scale ? "_scaled" : "");
    Val f, p[10];
    EmitFn outer;
    if (!emit_shared_open(e, name, types, 10, &f, &outer)) return f;
    for (unsigned i = 0; i < 10; i++) p[i] = LLVMGetParam(f, i);
    EmitUpdate u = {.o = like->o,
                    .n_slots = like->n_slots,
                    .lr = p[4],
                    .alpha = p[5],
                    .decay = p[6],
                    .scale = like->scale ? p[7] : NULL};
    EmitLoop i = emit_for(e, p[8], p[9], 1);
    EmitNest nest = nest_of(&u, width);
    int64_t row_floats = width * (1 + u.n_slots);
    fetch_ahead(e, p[1], p[2], i.i, p[9], row_floats);
    Val row = emit_to_i64(e, emit_load_elem(e, e->i32, p[2], i.i));
    nest.ref[REF_W].base = emit_at(e, p[1], emit_scale(e, row, row_floats));
    nest.ref[REF_G].base = emit_at(e, p[3], emit_scale(e, i.i, width));
    for (int s = 0; s < u.n_slots; s++)
        nest.ref[REF_SLOT + s].base = emit_at_const(e, nest.ref[REF_W].base, (s + 1) * width);
    emit_nest(e, &nest);
    emit_end(e, &i);
    emit_fn_close(e, &outer);
    return f;
}

void emit_UPDATEROWS(Emit *e, const IrNode *n) {
    EmitUpdate u = emit_update_of(e, n, n->n_in > 1 ? n->in[1] : NULL);
    Val f = rows_function(e, &u, row_width(&e->p->weights[u.weight]));
    Val args[] = {e->step,
                  emit_step_elem(e, STEP_table_rows, u.weight),
                  emit_table(e, u.weight, TABLE_slot),
                  emit_base(e, n->in[0]),
                  u.lr,
                  u.alpha,
                  u.decay,
                  u.scale ? u.scale : emit_const(e, 1, 1),
                  e->lo,
                  e->hi};
    emit_shared_call(e, f, args, 10);
    touched(e, u.weight);
}

/* ---- running statistics ---- */

static void running_body(Emit *e, EmitNest *n, int w, void *user) {
    double keep = *(double *)user;
    emit_ref_store(e, n, 0, mean_of(e, keep, emit_ref_load(e, n, 0, w), emit_ref_load(e, n, 1, w)));
}

void emit_BNUPDATE(Emit *e, const IrNode *n) {
    static const char *const which[] = {"mean", "var"};
    double keep = ir_attr_f(n, "momentum");
    int64_t k = ir_type_width(n->in[0]->type);
    for (int i = 0; i < 2; i++) {
        EmitNest nest = {.n = 1, .dim = {k}, .n_ref = 2, .body = running_body, .user = &keep};
        nest.ref[0] =
            (NestRef){.base = emit_step_elem(e, STEP_weights, (int)ir_attr_i(n, which[i])), .stride = {1}};
        nest.ref[1] = (NestRef){.base = emit_at_const(e, emit_base(e, n->in[0]), i * k), .stride = {1}};
        emit_nest(e, &nest);
    }
}
