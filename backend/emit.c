/* A program's module: a kernel for each node, and a driver for each function that hands threads their share
 * of each kernel's work, phase by phase. */
#include <string.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include "backend/emit_update.h"

/* ---- what a node needs ---- */

static bool is_chain(const IrNode *n) {
    return n->op == OP_FUSED && !ir_product_of(n) && !ir_ends_in_reduction(n);
}

int64_t emit_tiles(Emit *e, const IrNode *n) {
    const IrType *x = n->n_in ? &n->in[0]->type : NULL;
    if (ir_is_update_region(n)) return emit_update_region_tiles(&e->target, n);
    if (n->plan.domain != DOM_TILES && n->plan.domain != DOM_ONE) return 1;
    if (ir_product_of(n)) return emit_product_tiles(&e->target, n);
    if (emit_is_ew(n) || is_chain(n)) return emit_ew_tiles(e, n);
    switch (ir_runs_as(n)) {
    case OP_SUMROWS:
    case OP_SUMBLOCKS:
    case OP_MEANROWS: return emit_column_tiles(ir_type_size(n->type));
    case OP_BNSTATS:
    case OP_BNJOINSTATS:
    case OP_BNGSUMS: return emit_column_tiles(ir_type_width(*x));
    case OP_UPDATE: return emit_update_tiles(ir_type_size(*x));
    case OP_PACK: return emit_pack_tiles(&e->target, n);
    case OP_DENSEGRAD: return emit_dense_grad_tiles(&e->p->weights[ir_attr_i(n, "w")]);
    default: return 1;
    }
}

int64_t emit_scratch(const IrProgram *p, const PassTarget *t, const IrNode *n) {
    (void)p;
    if (ir_is_update_region(n)) return emit_update_region_scratch(t, n);
    if (ir_product_of(n)) return emit_product_scratch(t, n);
    if (n->op == OP_ATTEND || n->op == OP_ATTENDGRAD) return emit_attend_scratch(n);
    if (ir_is_recurrent(n)) return emit_gru_scratch(t, n);
    int64_t channels = (ir_type_width(n->type) + 15) / 16 * 16;
    if (n->op == OP_BNNORM) return 4 * channels;
    return n->op == OP_BNGRAD ? 12 * channels : 0;
}

/* Of the kernels of a function, behind which a thread has the values of its block of rows. */
static int64_t kernel_scratch(const IrProgram *p, const PassTarget *t, const IrFunc *f) {
    int64_t most = 0;
    for (int i = 0; i < f->body.n; i++) {
        int64_t need = emit_scratch(p, t, f->body.nodes[i]);
        if (need > most) most = need;
    }
    return (most + 63) / 64 * 64;
}

int64_t backend_scratch_bytes(IrProgram *p, const IrFunc *f, const char *march) {
    PassTarget t;
    if (!backend_target(p->diag, march, &t)) return 0;
    return kernel_scratch(p, &t, f) + f->local_bytes;
}

/* ---- kernels ---- */

static void emit_node(Emit *e, const IrNode *n) {
    switch (n->op) {
#define NODE_EW(ID)
#define NODE_SRC(ID)
#define NODE_READ(ID)
#define NODE_ROOT(ID)
#define NODE_KERNEL(ID)                                                                                      \
    case OP_##ID:                                                                                            \
        emit_##ID(e, n);                                                                                     \
        return;
#define NODE_MOVE NODE_KERNEL
#define NODE_RED NODE_KERNEL
#define NODE_PROD NODE_KERNEL
#define NODE_TAB NODE_KERNEL
#define NODE_NORM NODE_KERNEL
#define NODE_UPD NODE_KERNEL
#define NODE_REG NODE_KERNEL
#define OP(ID, text, mi, ma, at, sh, gr, co, ef, CLS, me) NODE_##CLS(ID)
#include "ir/ops.def"
#undef OP
    case OP_SEGLEN: emit_seg_len_kernel(e, n); return;
    default: emit_ew_kernel(e, n); return;
    }
}

static void show_to_parts(Val f) {
    LLVMSetLinkage(f, LLVMExternalLinkage);
    LLVMSetVisibility(f, LLVMHiddenVisibility);
}

static bool made_here(const Emit *e, const IrNode *n) {
    return e->part == EMIT_WHOLE || (e->part == EMIT_PRODUCTS) == (ir_product_of(n) != NULL);
}

/* A kernel of another part is only declared. Between parts kernels are known by name, outside of the program
 * not. */
static Val make_kernel(Emit *e, const IrNode *n) {
    LLVMTypeRef args[] = {e->ptr, e->i64, e->i64, e->ptr};
    bool visit = ir_is_update_region(n);
    const char *name = arena_printf(e->arena, "%s_k%d_%s", e->f->name, n->id,
                                    visit ? "gradient_and_update" : ir_ops[n->op].text);
    if (!made_here(e, n)) {
        Val elsewhere = LLVMAddFunction(e->mod, name, LLVMFunctionType(e->none, args, 4, 0));
        LLVMSetVisibility(elsewhere, LLVMHiddenVisibility);
        return elsewhere;
    }
    EmitFn outer = emit_fn_open(e, name, args, 4);
    Val f = e->fn;
    if (e->part != EMIT_WHOLE) show_to_parts(f);
    e->lo = LLVMGetParam(f, 1), e->hi = LLVMGetParam(f, 2), e->scratch = LLVMGetParam(f, 3);
    emit_node(e, n);
    emit_fn_close(e, &outer);
    return f;
}

/* ---- drivers ----
 * A driver comes three times: as it is used, with a look at each value after its kernel (check mode), and
 * with a mark of the time after each kernel (a profile). The first hands over to another when the step asks
 * for it. */

typedef enum { DRIVER_PLAIN, DRIVER_CHECKED, DRIVER_MARKED } DriverKind;

typedef struct {
    Val step; /* what kernels get: the step, or this thread's copy of it for a micro-batch */
    Val thread, threads, scratch; /* i64, i64, this thread's */
    Val all_lo, all_hi;           /* the rows that are run: of the step, or of a micro-batch */
    const Val *kernel;            /* by number in the body */
    DriverKind kind;
} Driver;

/* The thread's share of `count` units in blocks: whole blocks, as many as others or one more. */
static void share(Emit *e, Val thread, Val threads, Val count, Val block, Val *lo, Val *hi) {
    Val one = emit_i64(e, 1);
    Val blocks = emit_udiv(e, emit_add(e, count, emit_sub(e, block, one)), block);
    *lo = emit_udiv(e, emit_mul(e, blocks, thread), threads);
    *hi = emit_udiv(e, emit_mul(e, blocks, emit_add(e, thread, one)), threads);
    *lo = emit_min_i64(e, emit_mul(e, *lo, block), count);
    *hi = emit_min_i64(e, emit_mul(e, *hi, block), count);
}

static LLVMTypeRef kernel_type(Emit *e) {
    LLVMTypeRef args[] = {e->ptr, e->i64, e->i64, e->ptr};
    return LLVMFunctionType(e->none, args, 4, 0);
}

/* void run_share(step, kernel, scratch, thread, threads, count, block): the thread's share of a kernel's
 * units */
static Val run_share(Emit *e) {
    Val f, p[7], lo, hi;
    EmitFn outer;
    LLVMTypeRef args[] = {e->ptr, e->ptr, e->ptr, e->i64, e->i64, e->i64, e->i64};
    if (!emit_shared_open(e, "run_share", args, 7, &f, &outer)) return f;
    for (unsigned i = 0; i < 7; i++) p[i] = LLVMGetParam(f, i);
    share(e, p[3], p[4], p[5], p[6], &lo, &hi);
    EmitIf some = emit_if(e, emit_icmp(e, LLVMIntSLT, lo, hi));
    LLVMBuildCall2(e->b, kernel_type(e), p[1], (Val[]){p[0], lo, hi, p[2]}, 4, "");
    emit_fi(e, &some);
    emit_fn_close(e, &outer);
    return f;
}

static int table_of(const IrNode *n) {
    return n->type.live == LIVE_UNIQ ? n->type.axis : (int)ir_attr_i(n, "w");
}

static void barrier(Emit *e) {
    emit_call(e, "rt_barrier", (Val[]){e->step, LLVMGetParam(e->fn, 1), LLVMGetParam(e->fn, 2)}, 3);
}

static EmitIf on_first_thread(Emit *e, const Driver *d) {
    return emit_if(e, emit_icmp(e, LLVMIntEQ, d->thread, emit_i64(e, 0)));
}

/* The thread's share of a node. Tiles are dealt from a thread that moves on with each node, and unique rows
 * from one that their table decides (its nodes must agree), so that nodes of few blocks don't all fall to the
 * same thread. A result doesn't depend on who makes it. */
static void run_node(Emit *e, const Driver *d, const IrNode *n, Val kernel, int turn) {
    Val zero = emit_i64(e, 0), thread = d->thread, count;
    switch (n->plan.domain) {
    case DOM_UNIQ:
        turn = table_of(n);
        count = emit_to_i64(e, emit_table(e, turn, TABLE_n));
        break;
    case DOM_TILES: count = emit_i64(e, emit_tiles(e, n)); break;
    default: {
        EmitIf first = on_first_thread(e, d);
        LLVMBuildCall2(e->b, kernel_type(e), kernel,
                       (Val[]){d->step, zero, emit_i64(e, emit_tiles(e, n)), d->scratch}, 4, "");
        emit_fi(e, &first);
        return;
    }
    }
    if (turn) thread = LLVMBuildURem(e->b, emit_add(e, thread, emit_i64(e, turn)), d->threads, "");
    Val f = run_share(e), block = emit_i64(e, n->plan.block > 0 ? n->plan.block : 1);
    LLVMBuildCall2(e->b, LLVMGlobalGetValueType(f), f,
                   (Val[]){d->step, kernel, d->scratch, thread, d->threads, count, block}, 7, "");
}

/* void check(step, thread, …): when all threads have made a value, the first looks at it, of rows lo to hi-1.
 * One function for all values, which finds each by its plan; `whole`: the place holds all rows. */
enum {
    CHECK_STEP,
    CHECK_THREAD,
    CHECK_THREADS,
    CHECK_OP,
    CHECK_LIVE,
    CHECK_AXIS,
    CHECK_REGION,
    CHECK_OFFSET,
    CHECK_ELEMENTS,
    CHECK_WHOLE,
    CHECK_LO,
    CHECK_HI,
    CHECK_COL,
    CHECK_LD,
    CHECK_SCRATCH,
    CHECK_ARGS
};

/* The arenas that grow: base and capacity by list or table. */
static void check_grown_place(Emit *e, const Val *p, IrRegionKind region, Val arenas, int caps, Val index,
                              Val base) {
    EmitIf here = emit_if(e, emit_icmp(e, LLVMIntEQ, p[CHECK_REGION], emit_i64(e, region)));
    Val cap = emit_load_elem(e, e->i64, emit_step(e, caps), p[CHECK_AXIS]);
    Val bytes = emit_mul(e, cap, emit_scale(e, p[CHECK_OFFSET], 4));
    emit_set(e, base, emit_at_bytes(e, emit_load_elem(e, e->ptr, arenas, index), bytes));
    emit_fi(e, &here);
}

/* Where the value stands, of a block of rows in the thread's own arenas. */
static Val check_place(Emit *e, const Val *p, Val per_pos) {
    Val base = emit_var(e, e->ptr), minus_one = emit_i64(e, -1);
    emit_set(e, base, emit_at_bytes(e, emit_step(e, STEP_fixed), p[CHECK_OFFSET]));
    check_grown_place(e, p, REGION_AXIS, emit_step(e, STEP_axis_arena), STEP_axis_cap, p[CHECK_AXIS], base);
    check_grown_place(e, p, REGION_UNIQ, emit_step(e, STEP_uniq_arena), STEP_uniq_cap, p[CHECK_AXIS], base);
    EmitIf local = emit_if(e, emit_icmp(e, LLVMIntEQ, p[CHECK_REGION], emit_i64(e, REGION_LOCAL)));
    emit_set(e, base,
             emit_at_bytes(e, p[CHECK_SCRATCH], emit_add(e, p[CHECK_OFFSET], emit_i64(e, e->local_at))));
    EmitIf pos = emit_if(e, per_pos);
    check_grown_place(e, p, REGION_LOCAL, p[CHECK_SCRATCH], STEP_local_cap,
                      emit_sub(e, minus_one, p[CHECK_AXIS]), base);
    emit_fi(e, &pos);
    emit_fi(e, &local);
    return base;
}

static Val check_function(Emit *e) {
    LLVMTypeRef args[CHECK_ARGS] = {e->ptr, e->i32, e->i32, e->i32, e->i64, e->i64, e->i64, e->i64,
                                    e->i64, e->i64, e->i64, e->i64, e->i64, e->i64, e->ptr};
    Val f, p[CHECK_ARGS];
    EmitFn outer;
    if (!emit_shared_open(e, arena_printf(e->arena, "check_%s", e->f->name), args, CHECK_ARGS, &f, &outer))
        return f;
    for (unsigned i = 0; i < CHECK_ARGS; i++) p[i] = LLVMGetParam(f, i);
    Val count = emit_var(e, e->i64), from = emit_var(e, e->i64), zero = emit_i64(e, 0), one = emit_i64(e, 1);
    barrier(e);
    EmitIf first = emit_if(e, emit_icmp(e, LLVMIntEQ, p[CHECK_THREAD], emit_i32(e, 0)));
    Val per_pos = emit_icmp(e, LLVMIntEQ, p[CHECK_LIVE], emit_i64(e, LIVE_POS));
    Val base = check_place(e, p, per_pos);
    Val per_row = emit_icmp(e, LLVMIntEQ, p[CHECK_LIVE], emit_i64(e, LIVE_ROW));
    emit_set(e, count, emit_select(e, per_row, emit_sub(e, p[CHECK_HI], p[CHECK_LO]), one));
    emit_set(e, from, emit_select(e, per_row, p[CHECK_LO], zero));
    EmitIf pos = emit_if(e, per_pos);
    Val offsets = emit_load_elem(e, e->ptr, emit_step(e, STEP_offsets), p[CHECK_AXIS]);
    emit_set(e, from, emit_to_i64(e, emit_load_elem(e, e->i32, offsets, p[CHECK_LO])));
    emit_set(e, count,
             emit_sub(e, emit_to_i64(e, emit_load_elem(e, e->i32, offsets, p[CHECK_HI])), emit_get(e, from)));
    emit_fi(e, &pos);
    Val skipped = emit_mul(e, emit_mul(e, emit_get(e, from), p[CHECK_LD]), p[CHECK_WHOLE]);
    emit_set(e, base, emit_at(e, emit_get(e, base), emit_add(e, skipped, p[CHECK_COL])));
    EmitIf uniq = emit_if(e, emit_icmp(e, LLVMIntEQ, p[CHECK_LIVE], emit_i64(e, LIVE_UNIQ)));
    Val table = LLVMBuildInBoundsGEP2(e->b, e->t_table, emit_step(e, STEP_tables), &p[CHECK_AXIS], 1, "");
    emit_set(e, count,
             emit_to_i64(e, emit_load(e, e->i32, LLVMBuildStructGEP2(e->b, e->t_table, table, TABLE_n, ""))));
    emit_fi(e, &uniq);
    emit_call(
        e, "rt_check",
        (Val[]){e->step, p[CHECK_OP], emit_get(e, base), emit_get(e, count), p[CHECK_ELEMENTS], p[CHECK_LD]},
        6);
    emit_fi(e, &first);
    barrier(e);
    emit_fn_close(e, &outer);
    return f;
}

/* Of a gradient and update in one visit, the weight: every optimizer's formula turns a gradient that is not
 * finite into such a weight. */
static void check_weight(Emit *e, const Driver *d, const IrNode *n) {
    const IrNode *update = ir_writer(n);
    barrier(e);
    EmitIf first = on_first_thread(e, d);
    Val weight = emit_step_elem(e, STEP_weights, (int)ir_attr_i(update, "w"));
    Val size = emit_i64(e, ir_type_size(update->in[0]->type));
    emit_call(e, "rt_check", (Val[]){d->step, emit_i32(e, n->id), weight, emit_i64(e, 1), size, size}, 6);
    emit_fi(e, &first);
}

/* Of rows lo to hi-1. */
static void check(Emit *e, const Driver *d, const IrNode *n, Val lo, Val hi) {
    if (ir_is_update_region(n)) {
        check_weight(e, d, n);
        return;
    }
    if (n->type.elem != TY_F32 || n->op == OP_PACK || /* holds what its operand holds */
        ir_of_row_block(n) ||
        (n->type.rank == 3 && ir_ops[n->op].cls == CLASS_NORM && n->type.live == LIVE_STEP))
        return; /* the latter grow by blocks, and what they hold goes into values that are looked at */
    Val f = check_function(e);
    bool whole = !n->plan.per_block && n->plan.region != REGION_LOCAL;
    Val args[CHECK_ARGS] = {[CHECK_STEP] = d->step,
                            [CHECK_THREAD] = LLVMGetParam(e->fn, 1),
                            [CHECK_THREADS] = LLVMGetParam(e->fn, 2),
                            [CHECK_OP] = emit_i32(e, n->id),
                            [CHECK_LIVE] = emit_i64(e, n->type.live),
                            [CHECK_AXIS] = emit_i64(e, n->type.axis),
                            [CHECK_REGION] = emit_i64(e, n->plan.region),
                            [CHECK_OFFSET] = emit_i64(e, n->plan.offset),
                            [CHECK_ELEMENTS] = emit_i64(e, ir_type_size(n->type)),
                            [CHECK_WHOLE] = emit_i64(e, whole),
                            [CHECK_LO] = lo,
                            [CHECK_HI] = hi,
                            [CHECK_COL] = emit_i64(e, n->plan.col),
                            [CHECK_LD] = emit_i64(e, ir_unit_stride(n)),
                            [CHECK_SCRATCH] = d->scratch};
    emit_shared_call(e, f, args, CHECK_ARGS);
}

/* One thread hands over the loss; after a barrier all see whether to stop. */
static void loss(Emit *e, const Driver *d, const IrNode *n) {
    EmitIf first = on_first_thread(e, d);
    emit_call(e, "rt_loss", (Val[]){e->step, emit_load_vec(e, emit_base(e, n->in[0]), 1)}, 2);
    emit_fi(e, &first);
}

static void return_if(Emit *e, Val set) {
    EmitIf asked = emit_if(e, emit_icmp(e, LLVMIntNE, set, emit_i32(e, 0)));
    LLVMBuildRetVoid(e->b);
    LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->cx, e->fn, ""));
    emit_fi(e, &asked);
}

static int last_phase(const IrFunc *f) {
    int last = -1;
    for (int i = 0; i < f->body.n; i++) {
        const IrNode *n = f->body.nodes[i];
        if ((ir_runs(n) || n->op == OP_LOSS) && n->plan.phase > last) last = n->plan.phase;
    }
    return last;
}

/* The number of a block of rows for this thread; leaves the loop if there is none. A checked driver is run by
 * one thread, and waits amid a block. */
static Val next_block(Emit *e, const Driver *d, EmitLoop *loop, Val blocks) {
    if (d->kind == DRIVER_CHECKED) return loop->i;
    Val args[] = {e->step, LLVMGetParam(e->fn, 1), LLVMGetParam(e->fn, 2),
                  LLVMBuildTrunc(e->b, blocks, e->i32, "")};
    Val mine = emit_call(e, "rt_take", args, 4), none = LLVMConstInt(e->i32, RT_NONE_LEFT, 0);
    LLVMBasicBlockRef some = LLVMAppendBasicBlockInContext(e->cx, e->fn, "");
    LLVMBuildCondBr(e->b, emit_icmp(e, LLVMIntEQ, mine, none), loop->exit, some);
    LLVMPositionBuilderAtEnd(e->b, some);
    return emit_to_i64(e, mine);
}

/* The rows' kernels of a phase, for one block of rows after the other: what a kernel makes of a block is
 * still in cache when the next one reads it. */
static void run_rows(Emit *e, const Driver *d, int phase) {
    Val rows = emit_i64(e, ir_row_block(e->f)), count = emit_sub(e, d->all_hi, d->all_lo);
    Val blocks = emit_udiv(e, emit_add(e, count, emit_i64(e, ir_row_block(e->f) - 1)), rows);
    EmitLoop block = emit_for(e, emit_i64(e, 0), blocks, 1);
    Val lo = emit_add(e, d->all_lo, emit_mul(e, next_block(e, d, &block, blocks), rows));
    Val hi = emit_min_i64(e, emit_add(e, lo, rows), d->all_hi);
    for (int i = 0; i < e->f->body.n; i++) {
        const IrNode *n = e->f->body.nodes[i];
        bool made = n->op == OP_RESULT; /* by its region, above */
        if (n->plan.phase != phase || n->plan.domain != DOM_ROWS || (!ir_runs(n) && !made)) continue;
        if (made) {
            if (d->kind == DRIVER_CHECKED) check(e, d, n, lo, hi);
            continue;
        }
        LLVMBuildCall2(e->b, kernel_type(e), d->kernel[i], (Val[]){d->step, lo, hi, d->scratch}, 4, "");
        if (d->kind == DRIVER_CHECKED) check(e, d, n, lo, hi);
        if (d->kind == DRIVER_MARKED) emit_mark(e, n->id);
    }
    emit_end(e, &block);
}

static bool has_rows(const IrFunc *f, int phase) {
    for (int i = 0; i < f->body.n; i++)
        if (f->body.nodes[i]->plan.phase == phase && f->body.nodes[i]->plan.domain == DOM_ROWS) return true;
    return false;
}

static void run_phase(Emit *e, const Driver *d, int phase, bool last) {
    bool has_loss = false, any = false;
    int turn = 0;
    if (has_rows(e->f, phase)) run_rows(e, d, phase);
    for (int i = 0; i < e->f->body.n; i++) {
        const IrNode *n = e->f->body.nodes[i];
        if (n->plan.phase != phase || (n->op != OP_LOSS && !ir_runs(n))) continue;
        any = true;
        if (n->op == OP_LOSS) {
            loss(e, d, n);
            has_loss = true;
            continue;
        }
        if (n->plan.domain == DOM_ROWS) continue; /* nothing else of the phase reads what it makes */
        bool kept = ir_is_kept(e->f, n);
        EmitIf anew;
        if (kept) anew = emit_if(e, emit_icmp(e, LLVMIntEQ, emit_step(e, STEP_kept), emit_i32(e, 0)));
        run_node(e, d, n, d->kernel[i], n->plan.domain == DOM_TILES ? turn++ : 0);
        if (kept) emit_fi(e, &anew);
        if (d->kind == DRIVER_CHECKED) check(e, d, n, d->all_lo, d->all_hi);
        if (d->kind == DRIVER_MARKED) emit_mark(e, n->id);
    }
    if (any && !last) {
        barrier(e);
        if (d->kind == DRIVER_MARKED) emit_mark(e, RT_MARK_BARRIER);
    }
    /* loaded now: the first thread may just have set it */
    if (has_loss && e->train && !last) return_if(e, emit_load(e, e->i32, emit_step_ptr(e, STEP_stop)));
}

/* The thread's copy of the step, and its rows, for micro-batch m of n: rows m*rows/n to (m+1)*rows/n. */
static void enter_block(Emit *e, Driver *d, Val m, Val blocks, Val rows) {
    Val lo = emit_udiv(e, emit_mul(e, rows, m), blocks), hi = emit_add(e, m, emit_i64(e, 1));
    hi = emit_udiv(e, emit_mul(e, rows, hi), blocks);
    static const int field[] = {STEP_row_lo, STEP_row_hi, STEP_block};
    Val value[] = {lo, hi, m};
    for (int i = 0; i < 3; i++)
        LLVMBuildStore(e->b, LLVMBuildTrunc(e->b, value[i], e->i32, ""),
                       LLVMBuildStructGEP2(e->b, e->t_step, d->step, (unsigned)field[i], ""));
    d->all_lo = lo, d->all_hi = hi;
}

/* Phases loop_first to loop_last for one micro-batch after the other. A barrier ends each phase, the last
 * too: the next block's first phase writes where this block's values stand. */
static void run_blocks(Emit *e, const Driver *whole, Val rows) {
    Driver d = *whole;
    d.step = emit_var(e, e->t_step);
    LLVMBuildStore(e->b, emit_load(e, e->t_step, e->step), d.step);
    EmitLoop m = emit_for(e, emit_i64(e, 0), emit_i64(e, e->f->blocks), 1);
    enter_block(e, &d, m.i, emit_i64(e, e->f->blocks), rows);
    for (int phase = e->f->loop_first; phase <= e->f->loop_last; phase++) run_phase(e, &d, phase, false);
    emit_end(e, &m);
}

/* checked, marked: those that a plain one hands over to. */
static Val make_driver(Emit *e, const char *name, DriverKind kind, const Val *kernels, Val checked,
                       Val marked) {
    LLVMTypeRef args[] = {e->ptr, e->i32, e->i32};
    EmitFn outer = emit_fn_open(e, name, args, 3);
    Val f = e->fn, p[] = {e->step, LLVMGetParam(f, 1), LLVMGetParam(f, 2)};
    Driver d = {.step = e->step, .kernel = kernels, .kind = kind};
    if (kind == DRIVER_PLAIN) emit_hand_over(e, checked, marked);
    if (kind == DRIVER_MARKED) emit_mark(e, RT_MARK_START);
    d.thread = emit_to_i64(e, p[1]), d.threads = emit_to_i64(e, p[2]);
    d.scratch = emit_load_elem(e, e->ptr, emit_step(e, STEP_scratch), d.thread);
    Val rows = emit_to_i64(e, emit_step(e, STEP_rows));
    d.all_lo = emit_i64(e, 0), d.all_hi = rows;
    int last = last_phase(e->f);
    for (int phase = 0; phase <= last; phase++) {
        if (e->f->blocks && phase == e->f->loop_first) {
            run_blocks(e, &d, rows);
            phase = e->f->loop_last;
        } else {
            run_phase(e, &d, phase, phase == last);
        }
    }
    emit_fn_close(e, &outer);
    return f;
}

static void make_function(Emit *e, IrFunc *f) {
    e->f = f;
    e->local_at = kernel_scratch(e->p, &e->target, f);
    e->train = !strcmp(f->name, "train");
    Val *kernels = ARENA_ARRAY(e->arena, Val, f->body.n + 1);
    for (int i = 0; i < f->body.n; i++)
        if (ir_runs(f->body.nodes[i])) kernels[i] = make_kernel(e, f->body.nodes[i]);
    if (e->part == EMIT_PRODUCTS) return;
    Val other[] = {
        make_driver(e, arena_printf(e->arena, "checked_%s", f->name), DRIVER_CHECKED, kernels, NULL, NULL),
        make_driver(e, arena_printf(e->arena, "marked_%s", f->name), DRIVER_MARKED, kernels, NULL, NULL)};
    Val driver =
        make_driver(e, arena_printf(e->arena, "ctrc_%s", f->name), DRIVER_PLAIN, kernels, other[0], other[1]);
    show_to_parts(driver);
}

/* ---- the module ---- */

void emit_open_module(Emit *e, LLVMTargetMachineRef tm, const EmitTarget *t) {
    e->mod = LLVMModuleCreateWithNameInContext(e->p->name ? e->p->name : "model", e->cx);
    e->b = LLVMCreateBuilderInContext(e->cx);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(tm);
    LLVMSetModuleDataLayout(e->mod, layout);
    LLVMDisposeTargetData(layout);
    LLVMSetTarget(e->mod, t->triple);
    e->f32 = LLVMFloatTypeInContext(e->cx);
    e->i1 = LLVMInt1TypeInContext(e->cx), e->i8 = LLVMInt8TypeInContext(e->cx);
    e->i32 = LLVMInt32TypeInContext(e->cx), e->i64 = LLVMInt64TypeInContext(e->cx);
    e->ptr = LLVMPointerTypeInContext(e->cx, 0);
    e->none = LLVMVoidTypeInContext(e->cx);
    emit_abi_types(e);
    emit_abi_functions(e);
}

/* LLVM's own passes. Loops are in the shape that is wanted already, vectors and unrolling written out, so its
 * vectorisers stay out (that also keeps the order of sums as written) and what runs is the clean-up:
 * registers for local variables, what is loop-invariant out of loops, equal things once. Half the time of
 * "default<O2>" for the same speed. */
bool emit_optimise(IrProgram *p, LLVMModuleRef mod, LLVMTargetMachineRef tm, int level) {
    static const char *const passes[] = {
        "function(sroa,early-cse,simplifycfg,instcombine<no-verify-fixpoint>)",
        "function(sroa,early-cse,simplifycfg,instcombine<no-verify-fixpoint>,loop-mssa(loop-rotate,licm<"
        "allowspeculation>),"
        "early-cse<memssa>,loop-unroll<O2>,instcombine<no-verify-fixpoint>,simplifycfg)"};
    LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
    LLVMErrorRef failed = LLVMRunPasses(mod, passes[level > 0], tm, o);
    LLVMDisposePassBuilderOptions(o);
    if (!failed) return true;
    char *text = LLVMGetErrorMessage(failed);
    diag_error(p->diag, (Span){0}, NULL, "internal: LLVM: %s", text);
    LLVMDisposeErrorMessage(text);
    return false;
}

static bool verify(IrProgram *p, LLVMModuleRef mod) {
    char *why = NULL;
    bool bad = LLVMVerifyModule(mod, LLVMReturnStatusAction, &why);
    if (bad) diag_error(p->diag, (Span){0}, NULL, "internal: the module is broken: %s", why);
    LLVMDisposeMessage(why);
    return !bad;
}

LLVMModuleRef emit_module(IrProgram *p, int part, LLVMContextRef cx, LLVMTargetMachineRef tm,
                          const EmitTarget *t, int level,
                          void (*model)(Emit *e, const EmitTarget *t, const char *march), const char *march) {
    Emit e = {
        .p = p, .part = part, .arena = p->arena, .target = t->pass, .W = t->pass.vector_floats, .cx = cx};
    int errors = p->diag->errors;
    e.in = backend_inputs(p);
    emit_open_module(&e, tm, t);
    for (int i = 0; i < p->n_funcs; i++)
        if (strcmp(p->funcs[i]->name, "model")) make_function(&e, p->funcs[i]);
    if (model) model(&e, t, march);
    LLVMDisposeBuilder(e.b);
    if (p->diag->errors == errors && verify(p, e.mod) && emit_optimise(p, e.mod, tm, level)) return e.mod;
    LLVMDisposeModule(e.mod);
    return NULL;
}
