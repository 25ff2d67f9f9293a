#include "tests/tools/emit_jit.h"
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Target.h>
#include <stdlib.h>
#include <string.h>
#include "backend/emit.h"
#include "tests/tools/emulate.h"

struct EmitJit {
    LLVMOrcLLJITRef jit;
    EmitTarget target;
    const EmitJitShape *shapes;
    const EmitJitLayer *layer;
    const IrNode *forward, *backward; /* the layer's */
    Emit e;
    Arena *arena;
};

static void stop_if(LLVMErrorRef failed) {
    if (!failed) return;
    char *text = LLVMGetErrorMessage(failed);
    fprintf(stderr, "emit_jit: %s\n", text);
    abort();
}

/* Opens a module, lets `fill` write into it, and loads it. */
static EmitJit *open_jit(void (*fill)(EmitJit *j, int count), EmitJit what, int count, int vector_floats) {
    EmitJit *j = malloc(sizeof *j);
    if (!j) abort();
    *j = what;
    j->arena = arena_new();
    Diag *d = diag_new(j->arena, stderr);
    IrProgram *p = ir_program_new(j->arena, d);
    if (!emit_target(d, j->arena, "native", &j->target)) abort();
    bool as_if = vector_floats < 0;
    j->target.pass.amx = vector_floats == EMIT_JIT_AMX;
    if (as_if) vector_floats = 16, j->target.pass.bf16 = true;
    if (vector_floats)
        j->target.pass.vector_floats = vector_floats, j->target.pass.vector_regs = 2 * vector_floats;
    LLVMTargetMachineRef tm = emit_machine(d, &j->target, 2);
    LLVMOrcThreadSafeContextRef ts = LLVMOrcCreateNewThreadSafeContext();
    j->e = (Emit){.p = p,
                  .arena = j->arena,
                  .target = j->target.pass,
                  .W = j->target.pass.vector_floats,
                  .cx = LLVMOrcThreadSafeContextGetContext(ts)};
    emit_open_module(&j->e, tm, &j->target);
    fill(j, count);
    if (as_if) emulate(&j->e);
    if (!emit_optimise(p, j->e.mod, tm, 2)) abort();
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    LLVMOrcLLJITBuilderRef b = LLVMOrcCreateLLJITBuilder();
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(b,
                                                  LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(tm));
    stop_if(LLVMOrcCreateLLJIT(&j->jit, b));
    LLVMOrcThreadSafeModuleRef mod = LLVMOrcCreateNewThreadSafeModule(j->e.mod, ts);
    stop_if(LLVMOrcLLJITAddLLVMIRModule(j->jit, LLVMOrcLLJITGetMainJITDylib(j->jit), mod));
    LLVMOrcDisposeThreadSafeContext(ts);
    LLVMDisposeBuilder(j->e.b);
    return j;
}

static uintptr_t symbol(EmitJit *j, const char *name) {
    LLVMOrcExecutorAddress at;
    stop_if(LLVMOrcLLJITLookup(j->jit, &at, name));
    return (uintptr_t)at;
}

void emit_jit_free(EmitJit *j) {
    stop_if(LLVMOrcDisposeLLJIT(j->jit));
    arena_free(j->arena);
    free(j);
}

/* ---- math ---- */

static const struct {
    const char *name;
    Val (*f)(Emit *e, Val x);
} math[] = {{"exp", emit_exp},   {"log", emit_log}, {"log1p", emit_log1p},       {"sigmoid", emit_sigmoid},
            {"tanh", emit_tanh}, {"erf", emit_erf}, {"softplus", emit_softplus}, {"bf16", emit_round_bf16}};

static void math_body(Emit *e, EmitNest *n, int w, void *user) {
    Val (*const *f)(Emit *, Val) = user;
    emit_ref_store(e, n, 0, (*f)(e, emit_ref_load(e, n, 1, w)));
}

static void fill_math(EmitJit *j, int count) {
    Emit *e = &j->e;
    for (int i = 0; i < count; i++) {
        LLVMTypeRef args[] = {e->ptr, e->ptr, e->i64};
        EmitFn outer = emit_fn_open(e, math[i].name, args, 3);
        LLVMSetLinkage(e->fn, LLVMExternalLinkage);
        EmitNest n = {
            .n = 1, .lo = emit_i64(e, 0), .hi = LLVMGetParam(e->fn, 2), .n_ref = 2, .body = math_body};
        Val (*f)(Emit *, Val) = math[i].f;
        n.user = &f;
        for (int k = 0; k < 2; k++)
            n.ref[k] = (NestRef){.base = LLVMGetParam(e->fn, (unsigned)k), .stride = {1}};
        emit_nest(e, &n);
        emit_fn_close(e, &outer);
    }
}

EmitJit *emit_jit_math(void) { return open_jit(fill_math, (EmitJit){0}, sizeof math / sizeof *math, 0); }
EmitMathFn emit_jit_math_fn(EmitJit *j, const char *name) { return (EmitMathFn)symbol(j, name); }

/* ---- products ---- */

float emit_jit_end(float sum, int64_t row, int64_t col) { return sum + (float)row + 0.5f * (float)col; }

static Val end_of_tile(Emit *e, Val sum, Val row, Val col, int w, Val places, void *user) {
    (void)places, (void)user;
    Val lanes[16], r = LLVMBuildSIToFP(e->b, row, e->f32, "");
    sum = emit_fadd(e, sum, emit_splat(e, r, w));
    Val first = emit_fmul(e, LLVMBuildSIToFP(e->b, col, e->f32, ""), emit_const(e, 1, 0.5));
    if (w == 1) return emit_fadd(e, sum, first);
    for (int i = 0; i < w; i++) lanes[i] = LLVMConstReal(e->f32, 0.5 * i);
    return emit_fadd(e, sum, emit_fadd(e, emit_splat(e, first, w), LLVMConstVector(lanes, (unsigned)w)));
}

static void fill_gemm(EmitJit *j, const EmitJitShape *s, const char *name, bool packed, bool ends) {
    Emit *e = &j->e;
    LLVMTypeRef args[] = {e->ptr, e->ptr, e->ptr, e->ptr, e->i64, e->i64};
    EmitFn outer = emit_fn_open(e, name, args, 6);
    LLVMSetLinkage(e->fn, LLVMExternalLinkage);
    Val p[6];
    for (unsigned k = 0; k < 6; k++) p[k] = LLVMGetParam(e->fn, k);
    e->scratch = p[3];
    EmitGemm g = {.n = s->n,
                  .k = s->k,
                  .c = p[0],
                  .c_row = s->n,
                  .a = p[1],
                  .a_row = s->ta ? 1 : s->k,
                  .a_col = s->ta ? EMIT_JIT_ROWS : 1,
                  .b = p[2],
                  .b_row = s->tb ? 1 : s->n,
                  .b_col = s->tb ? s->k : 1,
                  .bf16 = s->bf16,
                  .amx = s->bf16 && e->target.amx,
                  .packed = packed};
    EmitEpilogue end = {.f = end_of_tile, .key = "_test", .places = LLVMConstNull(e->ptr)};
    if (ends) g.epilogue = &end;
    if (g.amx) emit_amx_open(e);
    emit_gemm(e, &g, p[4], p[5]);
    if (g.amx) emit_amx_close(e);
    emit_fn_close(e, &outer);
}

static void fill_pack(EmitJit *j, const EmitJitShape *s, const char *name) {
    Emit *e = &j->e;
    LLVMTypeRef args[] = {e->ptr, e->ptr};
    EmitFn outer = emit_fn_open(e, name, args, 2);
    LLVMSetLinkage(e->fn, LLVMExternalLinkage);
    emit_pack(e, &(EmitPack){LLVMGetParam(e->fn, 1), s->tb ? 1 : s->n, s->tb ? s->k : 1,
                             LLVMGetParam(e->fn, 0), s->n, emit_i64(e, s->k), s->bf16});
    emit_fn_close(e, &outer);
}

static void copy_sums(Emit *e, Val sums, Val lo, Val hi, void *user) {
    Val *c = user;
    EmitLoop i = emit_for(e, lo, hi, 1);
    emit_store(e, emit_load_vec(e, emit_at(e, sums, i.i), 1), emit_at(e, *c, i.i));
    emit_end(e, &i);
}

typedef enum { GRAD_MADE, GRAD_GROWN, GRAD_FINISHED } GradForm;

static void fill_grad(EmitJit *j, const EmitJitShape *s, const char *name, GradForm form) {
    Emit *e = &j->e;
    LLVMTypeRef args[] = {e->ptr, e->ptr, e->ptr, e->ptr, e->i64, e->i64, e->i64};
    EmitFn outer = emit_fn_open(e, name, args, 7);
    LLVMSetLinkage(e->fn, LLVMExternalLinkage);
    Val p[7];
    for (unsigned k = 0; k < 7; k++) p[k] = LLVMGetParam(e->fn, k);
    e->scratch = p[3];
    EmitGradW w = {.k = s->k, .n = s->n, .bf16 = s->bf16, .x_row = s->k, .g_row = s->n};
    w.amx = s->bf16 && e->target.amx;
    w.c = p[0], w.x = p[1], w.g = p[2], w.rows = p[6];
    if (form == GRAD_GROWN) w.more = LLVMConstInt(e->i1, 1, 0);
    if (form == GRAD_FINISHED) w.c = NULL, w.finish = copy_sums, w.user = &p[0];
    if (w.amx) emit_amx_open(e);
    emit_grad_w(e, &w, p[4], p[5]);
    if (w.amx) emit_amx_close(e);
    emit_fn_close(e, &outer);
}

static void fill_products(EmitJit *j, int count) {
    Emit *e = &j->e;
    for (int i = 0; i < count; i++) {
        const EmitJitShape *s = &j->shapes[i];
        fill_gemm(j, s, arena_printf(e->arena, "gemm%d", i), false, false);
        fill_gemm(j, s, arena_printf(e->arena, "packed%d", i), true, false);
        fill_gemm(j, s, arena_printf(e->arena, "ended%d", i), true, true);
        fill_pack(j, s, arena_printf(e->arena, "pack%d", i));
        fill_grad(j, s, arena_printf(e->arena, "grad%d", i), GRAD_MADE);
        fill_grad(j, s, arena_printf(e->arena, "grown%d", i), GRAD_GROWN);
        fill_grad(j, s, arena_printf(e->arena, "finished%d", i), GRAD_FINISHED);
    }
}

EmitJit *emit_jit_products(const EmitJitShape *shapes, int count, int vector_floats) {
    return open_jit(fill_products, (EmitJit){.shapes = shapes}, count, vector_floats);
}
EmitGemmFn emit_jit_gemm(EmitJit *j, int shape) {
    return (EmitGemmFn)symbol(j, arena_printf(j->arena, "gemm%d", shape));
}
EmitGemmFn emit_jit_packed(EmitJit *j, int shape) {
    return (EmitGemmFn)symbol(j, arena_printf(j->arena, "packed%d", shape));
}
EmitGemmFn emit_jit_ended(EmitJit *j, int shape) {
    return (EmitGemmFn)symbol(j, arena_printf(j->arena, "ended%d", shape));
}
EmitPackFn emit_jit_pack(EmitJit *j, int shape) {
    return (EmitPackFn)symbol(j, arena_printf(j->arena, "pack%d", shape));
}
EmitGradFn emit_jit_grad(EmitJit *j, int shape) {
    return (EmitGradFn)symbol(j, arena_printf(j->arena, "grad%d", shape));
}
EmitGradFn emit_jit_grown(EmitJit *j, int shape) {
    return (EmitGradFn)symbol(j, arena_printf(j->arena, "grown%d", shape));
}
EmitGradFn emit_jit_finished(EmitJit *j, int shape) {
    return (EmitGradFn)symbol(j, arena_printf(j->arena, "finished%d", shape));
}
int64_t emit_jit_tiles(EmitJit *j, int shape) {
    const EmitJitShape *s = &j->shapes[shape];
    return emit_grad_w_tiles(&j->target.pass, s->k, s->n, s->bf16 && j->target.pass.amx);
}
int64_t emit_jit_scratch(EmitJit *j, int shape) {
    const EmitJitShape *s = &j->shapes[shape];
    const PassTarget *t = &j->target.pass;
    bool amx = s->bf16 && t->amx;
    int64_t a =
        s->bf16 ? emit_gemm_bf16_scratch(t, s->n, s->k, false, amx) : emit_gemm_scratch(t, s->n, s->k);
    int64_t b = emit_grad_w_scratch(t, s->k, s->n, amx) + emit_grad_sums_scratch(s->k, s->n);
    return a > b ? a : b;
}

/* ---- recurrent layers ---- */

int64_t emit_jit_layer_offset(int64_t u, EmitJitPart part) {
    const int64_t sizes[] = {3 * u, 4 * u, 1, u, 4 * u};
    int64_t at = 0;
    for (int i = 0; i < (int)part; i++) at += sizes[i];
    return at;
}

/* A value along list 0 that stands in the arena. */
static IrNode *layer_value(EmitJit *j, IrOp op, EmitJitPart part) {
    int64_t u = j->layer->units, at = emit_jit_layer_offset(u, part);
    IrNode *n = ARENA_NEW(j->arena, IrNode);
    n->op = op;
    n->type = ir_f32(LIVE_POS, 0, 1, (int64_t[]){emit_jit_layer_offset(u, (EmitJitPart)(part + 1)) - at});
    n->plan = (IrPlan){.region = REGION_AXIS, .offset = at};
    return n;
}

static IrNode *layer_weight(EmitJit *j, int64_t number, int64_t columns) {
    IrNode *n = ARENA_NEW(j->arena, IrNode);
    n->op = OP_WEIGHT;
    n->type = ir_f32(LIVE_ALWAYS, -1, 2, (int64_t[]){j->layer->units, columns});
    n->attrs = ARENA_NEW(j->arena, IrAttr);
    *n->attrs = ir_ai("w", number);
    n->n_attrs = 1;
    return n;
}

static void layer_operands(EmitJit *j, IrNode *n, IrNode *const *in, int n_in) {
    n->in = ARENA_ARRAY(j->arena, IrNode *, n_in);
    memcpy(n->in, in, sizeof *in * (size_t)n_in);
    n->n_in = n_in;
}

static void fill_layer(EmitJit *j, int count) {
    (void)count;
    Emit *e = &j->e;
    bool scored = j->layer->scored;
    IrNode *p = layer_value(j, OP_SHIFT, LAYER_P), *a = layer_value(j, OP_SHIFT, LAYER_A),
           *dh = layer_value(j, OP_SHIFT, LAYER_DH), *Ug = layer_weight(j, 0, 2 * j->layer->units),
           *Uc = layer_weight(j, 1, j->layer->units);
    IrNode *forward = layer_value(j, scored ? OP_AUGRU : OP_GRU, LAYER_RECORD);
    IrNode *backward = layer_value(j, scored ? OP_AUGRUGRAD : OP_GRUGRAD, LAYER_GRAD);
    layer_operands(j, forward, (IrNode *[]){p, Ug, Uc, a}, 3 + scored);
    layer_operands(j, backward,
                   scored ? (IrNode *[]){forward, Ug, Uc, a, dh} : (IrNode *[]){forward, Ug, Uc, dh},
                   4 + scored);
    j->forward = forward, j->backward = backward;
    for (int back = 0; back < 2; back++) {
        LLVMTypeRef args[] = {e->ptr, e->i64, e->i64, e->ptr};
        EmitFn outer = emit_fn_open(e, back ? "backward" : "forward", args, 4);
        LLVMSetLinkage(e->fn, LLVMExternalLinkage);
        e->lo = LLVMGetParam(e->fn, 1), e->hi = LLVMGetParam(e->fn, 2), e->scratch = LLVMGetParam(e->fn, 3);
        if (back)
            emit_GRUGRAD(e, backward);
        else
            emit_GRU(e, forward);
        emit_fn_close(e, &outer);
    }
}

EmitJit *emit_jit_layer(const EmitJitLayer *layer, int vector_floats) {
    return open_jit(fill_layer, (EmitJit){.layer = layer}, 1, vector_floats);
}
EmitKernel emit_jit_layer_kernel(EmitJit *j, int backwards) {
    return (EmitKernel)symbol(j, backwards ? "backward" : "forward");
}
int64_t emit_jit_layer_scratch(EmitJit *j) {
    int64_t a = emit_gru_scratch(&j->target.pass, j->forward),
            b = emit_gru_scratch(&j->target.pass, j->backward);
    return a > b ? a : b;
}

float *emit_jit_room(size_t n) {
    float *v = aligned_alloc(64, (n * sizeof *v + 64) / 64 * 64);
    if (!v) abort();
    return v;
}

float *emit_jit_numbers(size_t n, uint32_t seed) {
    float *v = emit_jit_room(n);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = (float)(seed >> 8) / (1 << 23) - 1;
    }
    return v;
}
