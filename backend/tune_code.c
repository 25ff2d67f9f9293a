/* The code that --tune-kernels measures: the emitter's own tiles and calls, as programs have them, in
 * functions that take their operands as arguments. An epilogue stands for all: a bias and relu, in registers
 * behind a tile, in a loop of its own behind the library, as in a program. */
#include "backend/emit.h"
#include "backend/tune.h"

enum { NONE, C, A, B, SCRATCH, BIAS, LO, HI, ARGS };

static Val relu(Emit *e, Val x) {
    Val zero = emit_like(e, x, 0);
    return emit_select(e, emit_fcmp(e, LLVMRealOGT, x, zero), x, zero);
}

/* places: the bias itself */
static Val end_of_tile(Emit *e, Val sum, Val row, Val col, int w, Val places, void *user) {
    (void)row, (void)user;
    return relu(e, emit_fadd(e, sum, emit_load_vec(e, emit_at(e, places, col), w)));
}

static void add_bias(Emit *e, EmitNest *n, int w, void *user) {
    (void)user;
    emit_ref_store(e, n, 0, relu(e, emit_fadd(e, emit_ref_load(e, n, 0, w), emit_ref_load(e, n, 1, w))));
}

static void epilogue_in_memory(Emit *e, const PassProduct *s, const Val *p) {
    EmitNest n = {.n = 2, .dim = {1, s->n}, .lo = p[LO], .hi = p[HI], .n_ref = 2, .body = add_bias};
    n.ref[0] = (NestRef){.base = p[C], .stride = {s->n, 1}};
    n.ref[1] = (NestRef){.base = p[BIAS], .stride = {0, 1}};
    emit_nest(e, &n);
}

static void product(Emit *e, const PassProduct *s, bool library, const Val *p) {
    EmitEpilogue end = {.f = end_of_tile, .key = "_measured", .places = p[BIAS]};
    EmitGemm g = {
        .n = s->n, .k = s->k, .a = p[A], .a_row = s->k, .a_col = 1, .b = p[B], .c = p[C], .c_row = s->n};
    g.packed = !library;
    g.epilogue = s->ended && !library ? &end : NULL;
    if (!library) {
        emit_gemm(e, &g, p[LO], p[HI]);
        return;
    }
    emit_library(e, &g, s->swapped, p[LO], p[HI]);
    if (s->ended) epilogue_in_memory(e, s, p);
}

static void gradient(Emit *e, const PassProduct *s, bool library, const Val *p) {
    EmitGradW w = {.k = s->k, .n = s->n, .x_row = s->k, .g_row = s->n, .x = p[A], .g = p[B], .c = p[C]};
    w.rows = p[HI];
    int64_t strip = emit_library_strip(s->k), strips = (s->k + strip - 1) / strip;
    if (library)
        emit_library_grad(e, &w, emit_i64(e, 0), emit_i64(e, strips));
    else
        emit_grad_w(e, &w, emit_i64(e, 0), emit_i64(e, emit_grad_w_tiles(&e->target, s->k, s->n, false)));
}

static void pack(Emit *e, const PassProduct *s, const Val *p) {
    emit_pack(e, &(EmitPack){p[A], s->swapped ? 1 : s->n, s->swapped ? s->k : 1, p[C], s->n,
                             emit_i64(e, s->k), false});
}

/* way: 't' tile, 'l' library, 'p' pack */
static void function(Emit *e, const PassProduct *s, const char *name, char way) {
    LLVMTypeRef args[ARGS];
    Val p[ARGS];
    for (int i = 0; i < ARGS; i++) args[i] = i < LO ? e->ptr : e->i64;
    EmitFn outer = emit_fn_open(e, name, args, ARGS);
    LLVMSetLinkage(e->fn, LLVMExternalLinkage);
    for (unsigned i = 0; i < ARGS; i++) p[i] = LLVMGetParam(e->fn, i);
    e->scratch = p[SCRATCH];
    if (way == 'p')
        pack(e, s, p);
    else if (s->grad)
        gradient(e, s, way == 'l', p);
    else
        product(e, s, way == 'l', p);
    emit_fn_close(e, &outer);
}

int64_t tune_scratch(const PassTarget *t, const PassProduct *s) {
    return s->grad ? emit_grad_w_scratch(t, s->k, s->n, false) : emit_gemm_scratch(t, s->n, s->k);
}

static bool fill(Emit *e, const EmitTarget *t, LLVMTargetMachineRef tm, const PassProduct *products, int n,
                 const char *object) {
    emit_open_module(e, tm, t);
    for (int i = 0; i < n; i++) {
        function(e, &products[i], arena_printf(e->arena, "measured_tile_%d", i), 't');
        function(e, &products[i], arena_printf(e->arena, "measured_library_%d", i), 'l');
        if (!products[i].grad) function(e, &products[i], arena_printf(e->arena, "measured_pack_%d", i), 'p');
    }
    LLVMDisposeBuilder(e->b);
    char *why = NULL;
    bool ok = emit_optimise(e->p, e->mod, tm, 2);
    if (ok && LLVMTargetMachineEmitToFile(tm, e->mod, object, LLVMObjectFile, &why)) {
        diag_error(e->p->diag, (Span){0}, NULL, "can't write '%s': %s", object, why);
        LLVMDisposeMessage(why);
        ok = false;
    }
    LLVMDisposeModule(e->mod);
    return ok;
}

bool tune_emit(IrProgram *p, const PassProduct *products, int n, const char *object) {
    EmitTarget t;
    LLVMTargetMachineRef tm =
        emit_target(p->diag, p->arena, "native", &t) ? emit_machine(p->diag, &t, 2) : NULL;
    if (!tm) return false;
    Emit e = {
        .p = p, .arena = p->arena, .target = t.pass, .W = t.pass.vector_floats, .cx = LLVMContextCreate()};
    bool ok = fill(&e, &t, tm, products, n, object);
    LLVMContextDispose(e.cx);
    LLVMDisposeTargetMachine(tm);
    return ok;
}
