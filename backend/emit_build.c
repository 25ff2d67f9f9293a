/* Thin words over LLVM's builder: typed arithmetic on scalars and vectors alike, memory, loops and branches.
 * Local variables are allocas in the kernel's entry block; LLVM's first pass turns them into registers. */
#include <string.h>
#include "backend/emit.h"

Val emit_i64(Emit *e, int64_t v) { return LLVMConstInt(e->i64, (uint64_t)v, 1); }
Val emit_i32(Emit *e, int64_t v) { return LLVMConstInt(e->i32, (uint64_t)v, 1); }
LLVMTypeRef emit_vec(Emit *e, int w) { return w == 1 ? e->f32 : LLVMVectorType(e->f32, (unsigned)w); }

int emit_lanes(Val v) {
    LLVMTypeRef t = LLVMTypeOf(v);
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(t) : 1;
}

static Val const_lanes(Val scalar, int w) {
    Val lanes[64];
    if (w == 1) return scalar;
    for (int i = 0; i < w; i++) lanes[i] = scalar;
    return LLVMConstVector(lanes, (unsigned)w);
}

Val emit_const(Emit *e, int w, double v) { return const_lanes(LLVMConstReal(e->f32, (double)(float)v), w); }
Val emit_like(Emit *e, Val x, double v) { return emit_const(e, emit_lanes(x), v); }
Val emit_int_like(Emit *e, Val x, int64_t v) { return const_lanes(emit_i32(e, v), emit_lanes(x)); }

Val emit_splat(Emit *e, Val scalar, int w) {
    if (w == 1) return scalar;
    if (LLVMIsConstant(scalar)) return const_lanes(scalar, w);
    LLVMTypeRef t = LLVMVectorType(LLVMTypeOf(scalar), (unsigned)w);
    Val first = LLVMBuildInsertElement(e->b, LLVMGetPoison(t), scalar, emit_i32(e, 0), "");
    return LLVMBuildShuffleVector(e->b, first, LLVMGetPoison(t), const_lanes(emit_i32(e, 0), w), "");
}

Val emit_add(Emit *e, Val a, Val b) { return LLVMBuildAdd(e->b, a, b, ""); }
Val emit_sub(Emit *e, Val a, Val b) { return LLVMBuildSub(e->b, a, b, ""); }
Val emit_mul(Emit *e, Val a, Val b) { return LLVMBuildMul(e->b, a, b, ""); }
Val emit_scale(Emit *e, Val a, int64_t k) {
    return k == 1 ? a : LLVMBuildNSWMul(e->b, a, emit_i64(e, k), "");
}
Val emit_udiv(Emit *e, Val a, Val b) { return LLVMBuildUDiv(e->b, a, b, ""); }
Val emit_min_i64(Emit *e, Val a, Val b) {
    return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, a, b, ""), a, b, "");
}
Val emit_fadd(Emit *e, Val a, Val b) { return LLVMBuildFAdd(e->b, a, b, ""); }
Val emit_fsub(Emit *e, Val a, Val b) { return LLVMBuildFSub(e->b, a, b, ""); }
Val emit_fmul(Emit *e, Val a, Val b) { return LLVMBuildFMul(e->b, a, b, ""); }
Val emit_fdiv(Emit *e, Val a, Val b) { return LLVMBuildFDiv(e->b, a, b, ""); }

Val emit_intrinsic(Emit *e, const char *name, Val *x, int n) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMTypeRef t = LLVMTypeOf(x[0]);
    Val f = LLVMGetIntrinsicDeclaration(e->mod, id, &t, 1);
    return LLVMBuildCall2(e->b, LLVMIntrinsicGetType(e->cx, id, &t, 1), f, x, (unsigned)n, "");
}
Val emit_instruction(Emit *e, const char *name, Val *x, int n) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    Val f = LLVMGetIntrinsicDeclaration(e->mod, id, NULL, 0);
    return LLVMBuildCall2(e->b, LLVMIntrinsicGetType(e->cx, id, NULL, 0), f, x, (unsigned)n, "");
}
Val emit_fma(Emit *e, Val a, Val b, Val c) { return emit_intrinsic(e, "llvm.fma", (Val[]){a, b, c}, 3); }
Val emit_select(Emit *e, Val c, Val a, Val b) { return LLVMBuildSelect(e->b, c, a, b, ""); }
Val emit_fcmp(Emit *e, LLVMRealPredicate p, Val a, Val b) { return LLVMBuildFCmp(e->b, p, a, b, ""); }
Val emit_icmp(Emit *e, LLVMIntPredicate p, Val a, Val b) { return LLVMBuildICmp(e->b, p, a, b, ""); }
Val emit_to_i64(Emit *e, Val v) { return LLVMBuildZExt(e->b, v, e->i64, ""); }
Val emit_to_f32(Emit *e, Val v) { return LLVMBuildUIToFP(e->b, v, e->f32, ""); }

Val emit_take(Emit *e, Val vec, int from, int w) {
    int n = emit_lanes(vec);
    if (n == w && from == 0) return vec;
    if (w == 1) return LLVMBuildExtractElement(e->b, vec, emit_i32(e, from), "");
    Val mask[64];
    for (int i = 0; i < w; i++) mask[i] = emit_i32(e, from + i);
    return LLVMBuildShuffleVector(e->b, vec, LLVMGetPoison(LLVMTypeOf(vec)),
                                  LLVMConstVector(mask, (unsigned)w), "");
}

Val emit_hsum(Emit *e, Val vec) {
    for (int n = emit_lanes(vec); n > 1; n /= 2)
        vec = emit_fadd(e, emit_take(e, vec, 0, n / 2), emit_take(e, vec, n / 2, n / 2));
    return vec;
}

/* ---- memory ---- */
Val emit_at(Emit *e, Val base, Val floats) {
    return LLVMBuildInBoundsGEP2(e->b, e->f32, base, &floats, 1, "");
}
Val emit_at_const(Emit *e, Val base, int64_t floats) {
    return floats ? emit_at(e, base, emit_i64(e, floats)) : base;
}
Val emit_at_bytes(Emit *e, Val base, Val bytes) {
    return LLVMBuildInBoundsGEP2(e->b, e->i8, base, &bytes, 1, "");
}

Val emit_load(Emit *e, LLVMTypeRef t, Val p) { return LLVMBuildLoad2(e->b, t, p, ""); }
Val emit_load_elem(Emit *e, LLVMTypeRef t, Val base, Val index) {
    return emit_load(e, t, LLVMBuildInBoundsGEP2(e->b, t, base, &index, 1, ""));
}
Val emit_load_vec(Emit *e, Val p, int w) {
    Val v = LLVMBuildLoad2(e->b, emit_vec(e, w), p, "");
    LLVMSetAlignment(v, 4);
    return v;
}
static void prefetch(Emit *e, Val p, bool to_write, int levels) {
    unsigned id = LLVMLookupIntrinsicID("llvm.prefetch", 13);
    Val f = LLVMGetIntrinsicDeclaration(e->mod, id, &e->ptr, 1);
    Val args[] = {p, emit_i32(e, to_write), emit_i32(e, levels), emit_i32(e, 1)}; /* data */
    LLVMBuildCall2(e->b, LLVMGlobalGetValueType(f), f, args, 4, "");
}
void emit_prefetch(Emit *e, Val p, bool to_write) { prefetch(e, p, to_write, 3); }
void emit_prefetch_run(Emit *e, Val p, int64_t floats, bool to_write) {
    for (int64_t at = 0; at < floats; at += CACHE_LINE) emit_prefetch(e, emit_at_const(e, p, at), to_write);
}
void emit_prefetch_far(Emit *e, Val p) { prefetch(e, p, false, 2); }
void emit_store(Emit *e, Val v, Val p) { LLVMSetAlignment(LLVMBuildStore(e->b, v, p), 4); }

Val emit_var(Emit *e, LLVMTypeRef t) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    Val first = LLVMGetFirstInstruction(e->entry);
    if (first)
        LLVMPositionBuilderBefore(e->b, first);
    else
        LLVMPositionBuilderAtEnd(e->b, e->entry);
    Val v = LLVMBuildAlloca(e->b, t, "");
    LLVMPositionBuilderAtEnd(e->b, here);
    return v;
}
void emit_set(Emit *e, Val var, Val v) { LLVMBuildStore(e->b, v, var); }
Val emit_get(Emit *e, Val var) { return LLVMBuildLoad2(e->b, LLVMGetAllocatedType(var), var, ""); }

Val emit_i32_table(Emit *e, const int64_t *v, int n) {
    Val *items = ARENA_ARRAY(e->arena, Val, n + 1);
    for (int i = 0; i < n; i++) items[i] = emit_i32(e, v[i]);
    Val g = LLVMAddGlobal(e->mod, LLVMArrayType2(e->i32, (uint64_t)n), "indices");
    LLVMSetInitializer(g, LLVMConstArray2(e->i32, items, (uint64_t)n));
    LLVMSetGlobalConstant(g, 1);
    LLVMSetLinkage(g, LLVMPrivateLinkage);
    return g;
}

/* ---- control ---- */
static LLVMBasicBlockRef new_block(Emit *e) { return LLVMAppendBasicBlockInContext(e->cx, e->fn, ""); }

EmitLoop emit_for(Emit *e, Val lo, Val hi, int64_t step) {
    EmitLoop l = {.head = new_block(e), .exit = new_block(e), .step = emit_i64(e, step)};
    LLVMBasicBlockRef body = new_block(e), before = LLVMGetInsertBlock(e->b);
    LLVMBuildBr(e->b, l.head);
    LLVMPositionBuilderAtEnd(e->b, l.head);
    l.i = LLVMBuildPhi(e->b, e->i64, "");
    LLVMAddIncoming(l.i, &lo, &before, 1);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, l.i, hi, ""), body, l.exit);
    LLVMPositionBuilderAtEnd(e->b, body);
    return l;
}

void emit_end(Emit *e, EmitLoop *l) {
    Val next = LLVMBuildNSWAdd(e->b, l->i, l->step, "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
    LLVMBuildBr(e->b, l->head);
    LLVMAddIncoming(l->i, &next, &latch, 1);
    LLVMPositionBuilderAtEnd(e->b, l->exit);
}

EmitIf emit_if(Emit *e, Val cond) {
    EmitIf f = {.other = new_block(e), .after = new_block(e)};
    LLVMBasicBlockRef then = new_block(e);
    LLVMBuildCondBr(e->b, cond, then, f.other);
    LLVMPositionBuilderAtEnd(e->b, then);
    return f;
}

void emit_else(Emit *e, EmitIf *f) {
    LLVMBuildBr(e->b, f->after);
    LLVMPositionBuilderAtEnd(e->b, f->other);
    f->has_else = true;
}

void emit_fi(Emit *e, EmitIf *f) {
    LLVMBuildBr(e->b, f->after);
    if (!f->has_else) {
        LLVMPositionBuilderAtEnd(e->b, f->other);
        LLVMBuildBr(e->b, f->after);
    }
    LLVMPositionBuilderAtEnd(e->b, f->after);
}

/* ---- functions ---- */

static void attribute(Emit *e, Val f, const char *name) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(e->cx, kind, 0));
}

EmitFn emit_fn_open(Emit *e, const char *name, LLVMTypeRef *args, int n) {
    EmitFn outer = {e->fn, e->step, e->lo, e->hi, e->scratch, e->entry, LLVMGetInsertBlock(e->b)};
    e->fn = LLVMAddFunction(e->mod, name, LLVMFunctionType(e->none, args, (unsigned)n, 0));
    LLVMSetLinkage(e->fn, LLVMInternalLinkage);
    attribute(e, e->fn, "noinline"); /* small functions compile fast, and profiles name them */
    attribute(e, e->fn, "nounwind");
    if (e->W == 16) { /* else LLVM splits vectors in two on CPUs that prefer 256 bits */
        Val f = e->fn;
        const char *width[] = {"prefer-vector-width", "min-legal-vector-width"};
        for (int i = 0; i < 2; i++)
            LLVMAddAttributeAtIndex(
                f, LLVMAttributeFunctionIndex,
                LLVMCreateStringAttribute(e->cx, width[i], (unsigned)strlen(width[i]), "512", 3));
    }
    e->step = LLVMGetParam(e->fn, 0);
    e->entry = LLVMAppendBasicBlockInContext(e->cx, e->fn, "entry");
    LLVMBasicBlockRef body = LLVMAppendBasicBlockInContext(e->cx, e->fn, "");
    LLVMPositionBuilderAtEnd(e->b, e->entry);
    LLVMBuildBr(e->b, body);
    LLVMPositionBuilderAtEnd(e->b, body);
    return outer;
}

void emit_fn_close(Emit *e, const EmitFn *outer) {
    LLVMBuildRetVoid(e->b);
    e->fn = outer->fn, e->step = outer->step, e->lo = outer->lo, e->hi = outer->hi;
    e->scratch = outer->scratch, e->entry = outer->entry;
    if (outer->block) LLVMPositionBuilderAtEnd(e->b, outer->block);
}

bool emit_shared_open(Emit *e, const char *name, LLVMTypeRef *args, int n, Val *f, EmitFn *outer) {
    *f = LLVMGetNamedFunction(e->mod, name);
    if (*f) return false;
    *outer = emit_fn_open(e, name, args, n);
    *f = e->fn;
    return true;
}

void emit_shared_call(Emit *e, Val f, Val *args, int n) {
    LLVMBuildCall2(e->b, LLVMGlobalGetValueType(f), f, args, (unsigned)n, "");
}
