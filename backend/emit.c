/* A program's module: a kernel for each node, and a driver for each function that hands threads their share of
 * each kernel's work, phase by phase. */
#include <string.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include "backend/emit.h"

/* ---- what a node needs ---- */

static bool is_chain(const IrNode *n) { return n->op == OP_FUSED && !emit_product_of(n); }

int64_t emit_tiles(Emit *e, const IrNode *n) {
    const IrType *x = n->n_in ? &n->in[0]->type : NULL;
    if (n->plan.domain != DOM_TILES && n->plan.domain != DOM_ONE) return 1;
    if (emit_product_of(n)) return emit_product_tiles(&e->target, n);
    if (emit_is_ew(n) || is_chain(n)) return emit_ew_tiles(e, n);
    switch (n->op) {
    case OP_SUMROWS:
    case OP_MEANROWS: return emit_column_tiles(ir_type_size(*x));
    case OP_BNSTATS:
    case OP_BNGSUMS: return emit_column_tiles(ir_type_width(*x));
    case OP_UPDATE: return emit_update_tiles(ir_type_size(*x));
    case OP_DENSEGRAD: return emit_dense_grad_tiles(&e->p->weights[ir_attr_i(n, "w")]);
    default: return 1;
    }
}

int64_t emit_scratch(const IrProgram *p, const PassTarget *t, const IrNode *n) {
    (void)p;
    if (emit_product_of(n)) return emit_product_scratch(t, n);
    int64_t channels = (ir_type_width(n->type) + 15) / 16 * 16;
    if (n->op == OP_BNNORM) return 4 * channels;
    return n->op == OP_BNGRAD ? 12 * channels : 0;
}

int64_t backend_scratch_bytes(IrProgram *p, const IrFunc *f, const char *march) {
    PassTarget t;
    int64_t most = 0;
    if (!backend_target(p->diag, march, &t)) return 0;
    for (int i = 0; i < f->body.n; i++) {
        int64_t need = emit_scratch(p, &t, f->body.nodes[i]);
        if (need > most) most = need;
    }
    return (most + 63) / 64 * 64;
}

/* ---- kernels ---- */

static void emit_node(Emit *e, const IrNode *n) {
    switch (n->op) {
#define NODE_EW(ID)
#define NODE_SRC(ID)
#define NODE_READ(ID)
#define NODE_ROOT(ID)
#define NODE_KERNEL(ID)                                                                                      \
    case OP_##ID: emit_##ID(e, n); return;
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

static bool has_kernel(const IrNode *n) {
    return n->plan.domain != DOM_NONE && ir_ops[n->op].cls != CLASS_ROOT;
}

static Val make_kernel(Emit *e, const IrNode *n) {
    LLVMTypeRef args[] = {e->ptr, e->i64, e->i64, e->ptr};
    EmitFn outer = emit_fn_open(e, arena_printf(e->arena, "%s_k%d_%s", e->f->name, n->id, ir_ops[n->op].text), args, 4);
    Val f = e->fn;
    e->lo = LLVMGetParam(f, 1), e->hi = LLVMGetParam(f, 2), e->scratch = LLVMGetParam(f, 3);
    emit_node(e, n);
    emit_fn_close(e, &outer);
    return f;
}

/* ---- drivers ---- */

typedef struct {
    Val thread, threads, scratch; /* i64, i64, this thread's */
    Val rows_lo, rows_hi;         /* this thread's rows */
} Driver;

/* The thread's share of `count` units in blocks: whole blocks, as many as others or one more. */
static void share(Emit *e, const Driver *d, Val thread, Val count, int64_t block, Val *lo, Val *hi) {
    Val blocks = emit_udiv(e, emit_add(e, count, emit_i64(e, block - 1)), emit_i64(e, block));
    *lo = emit_udiv(e, emit_mul(e, blocks, thread), d->threads);
    *hi = emit_udiv(e, emit_mul(e, blocks, emit_add(e, thread, emit_i64(e, 1))), d->threads);
    *lo = emit_min_i64(e, emit_scale(e, *lo, block), count);
    *hi = emit_min_i64(e, emit_scale(e, *hi, block), count);
}

static int table_of(const IrNode *n) {
    return n->type.live == LIVE_UNIQ ? n->type.axis : (int)ir_attr_i(n, "w");
}

/* The thread's units of a node's domain. Tiles are dealt from a thread that moves on with each node, so that
 * nodes of few tiles don't all fall to the same one; a tile's result doesn't depend on who makes it. */
static void units_of(Emit *e, const Driver *d, const IrNode *n, int turn, Val *lo, Val *hi) {
    int64_t block = n->plan.block > 0 ? n->plan.block : 1;
    Val first = emit_icmp(e, LLVMIntEQ, d->thread, emit_i64(e, 0));
    switch (n->plan.domain) {
    case DOM_ROWS: *lo = d->rows_lo, *hi = d->rows_hi; return;
    case DOM_UNIQ: share(e, d, d->thread, emit_to_i64(e, emit_table(e, table_of(n), TABLE_n)), block, lo, hi); return;
    case DOM_TILES: {
        Val at = LLVMBuildURem(e->b, emit_add(e, d->thread, emit_i64(e, turn)), d->threads, "");
        share(e, d, at, emit_i64(e, emit_tiles(e, n)), block, lo, hi);
        return;
    }
    default:
        *lo = emit_i64(e, 0);
        *hi = emit_select(e, first, emit_i64(e, emit_tiles(e, n)), *lo);
    }
}

static void barrier(Emit *e) {
    emit_call(e, "rt_barrier", (Val[]){e->step, LLVMGetParam(e->fn, 1), LLVMGetParam(e->fn, 2)}, 3);
}

/* In check mode: when all threads have made the value, the first looks at it. */
static void check(Emit *e, const Driver *d, const IrNode *n) {
    if (n->type.elem != TY_F32) return;
    EmitIf on = emit_if(e, emit_icmp(e, LLVMIntNE, emit_step(e, STEP_check), emit_i32(e, 0)));
    barrier(e);
    EmitIf first = emit_if(e, emit_icmp(e, LLVMIntEQ, d->thread, emit_i64(e, 0)));
    Val count = emit_scale(e, emit_unit_count(e, n->type), ir_type_size(n->type));
    emit_call(e, "rt_check", (Val[]){e->step, emit_i32(e, n->id), emit_base(e, n), count}, 4);
    emit_fi(e, &first);
    barrier(e);
    emit_fi(e, &on);
}

static void run_node(Emit *e, const Driver *d, const IrNode *n, int turn) {
    Val kernel = make_kernel(e, n), lo, hi;
    units_of(e, d, n, turn, &lo, &hi);
    EmitIf some = emit_if(e, emit_icmp(e, LLVMIntSLT, lo, hi));
    Val args[] = {e->step, lo, hi, d->scratch};
    LLVMBuildCall2(e->b, LLVMGlobalGetValueType(kernel), kernel, args, 4, "");
    emit_fi(e, &some);
    check(e, d, n);
}

/* One thread hands over the loss; after a barrier all see whether to stop. */
static void loss(Emit *e, const Driver *d, const IrNode *n) {
    EmitIf first = emit_if(e, emit_icmp(e, LLVMIntEQ, d->thread, emit_i64(e, 0)));
    emit_call(e, "rt_loss", (Val[]){e->step, emit_load_vec(e, emit_base(e, n->in[0]), 1)}, 2);
    emit_fi(e, &first);
}

static void stop_if_asked(Emit *e) {
    Val stop = emit_load(e, e->i32, emit_step_ptr(e, STEP_stop)); /* now, not at the start */
    EmitIf asked = emit_if(e, emit_icmp(e, LLVMIntNE, stop, emit_i32(e, 0)));
    LLVMBuildRetVoid(e->b);
    LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->cx, e->fn, ""));
    emit_fi(e, &asked);
}

/* One block size for all rows: threads must own the same rows in every node of a phase. */
static int64_t row_block(const IrFunc *f) {
    int64_t block = 1;
    for (int i = 0; i < f->body.n; i++) {
        const IrPlan *p = &f->body.nodes[i]->plan;
        if (p->domain == DOM_ROWS && p->block > block) block = p->block;
    }
    return block;
}

static Driver open_driver(Emit *e, Val fn) {
    Driver d;
    d.thread = emit_to_i64(e, LLVMGetParam(fn, 1));
    d.threads = emit_to_i64(e, LLVMGetParam(fn, 2));
    d.scratch = emit_load_elem(e, e->ptr, emit_step(e, STEP_scratch), d.thread);
    share(e, &d, d.thread, emit_to_i64(e, emit_step(e, STEP_rows)), row_block(e->f), &d.rows_lo, &d.rows_hi);
    return d;
}

static int last_phase(const IrFunc *f) {
    int last = -1;
    for (int i = 0; i < f->body.n; i++) {
        const IrNode *n = f->body.nodes[i];
        if ((has_kernel(n) || n->op == OP_LOSS) && n->plan.phase > last) last = n->plan.phase;
    }
    return last;
}

static void run_phase(Emit *e, const Driver *d, int phase, bool last) {
    bool has_loss = false, any = false;
    int turn = 0;
    for (int i = 0; i < e->f->body.n; i++) {
        const IrNode *n = e->f->body.nodes[i];
        if (n->plan.phase != phase) continue;
        if (n->op == OP_LOSS) {
            loss(e, d, n);
            has_loss = any = true;
        } else if (has_kernel(n)) {
            run_node(e, d, n, n->plan.domain == DOM_TILES ? turn++ : 0);
            any = true;
        }
    }
    if (any && !last) barrier(e);
    if (has_loss && e->train && !last) stop_if_asked(e);
}

static void make_driver(Emit *e, IrFunc *f) {
    LLVMTypeRef args[] = {e->ptr, e->i32, e->i32};
    e->f = f;
    e->train = !strcmp(f->name, "train");
    EmitFn outer = emit_fn_open(e, arena_printf(e->arena, "ctrc_%s", f->name), args, 3);
    LLVMSetLinkage(e->fn, LLVMExternalLinkage);
    LLVMSetVisibility(e->fn, LLVMHiddenVisibility);
    Driver d = open_driver(e, e->fn);
    int last = last_phase(f);
    for (int phase = 0; phase <= last; phase++) run_phase(e, &d, phase, phase == last);
    emit_fn_close(e, &outer);
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

/* LLVM's own passes. Vectors are explicit already, so its vectorisers stay off: that also keeps the order of
 * sums as written. */
bool emit_optimise(IrProgram *p, LLVMModuleRef mod, LLVMTargetMachineRef tm, int level) {
    LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
    LLVMPassBuilderOptionsSetLoopVectorization(o, 0);
    LLVMPassBuilderOptionsSetSLPVectorization(o, 0);
    LLVMPassBuilderOptionsSetLoopInterleaving(o, 0);
    LLVMErrorRef failed = LLVMRunPasses(mod, level >= 2 ? "default<O2>" : "default<O1>", tm, o);
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

LLVMModuleRef emit_module(IrProgram *p, LLVMContextRef cx, LLVMTargetMachineRef tm, const EmitTarget *t, int level,
                          void (*model)(Emit *e, const EmitTarget *t, const char *march), const char *march) {
    Emit e = {.p = p, .arena = p->arena, .target = t->pass, .W = t->pass.vector_floats, .cx = cx};
    int errors = p->diag->errors;
    e.in = backend_inputs(p);
    emit_open_module(&e, tm, t);
    for (int i = 0; i < p->n_funcs; i++)
        if (strcmp(p->funcs[i]->name, "model")) make_driver(&e, p->funcs[i]);
    if (model) model(&e, t, march);
    LLVMDisposeBuilder(e.b);
    if (p->diag->errors == errors && verify(p, e.mod) && emit_optimise(p, e.mod, tm, level)) return e.mod;
    LLVMDisposeModule(e.mod);
    return NULL;
}
