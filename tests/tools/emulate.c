#include "tests/tools/emulate.h"
#include "backend/emit.h"

/* ---- AVX512-BF16: functions in LLVM ---- */

static Val dot_function(Emit *e, Val *p) {
    return emit_bf16_dot(e, LLVMBuildBitCast(e->b, p[1], emit_vec(e, 16), ""),
                         LLVMBuildBitCast(e->b, p[2], emit_vec(e, 16), ""), p[0]);
}

static Val convert_function(Emit *e, Val *p) { /* p[1]'s in the lower half */
    LLVMTypeRef ints = LLVMVectorType(e->i32, 16), words = LLVMVectorType(LLVMInt16TypeInContext(e->cx), 16);
    Val half[2], number[32];
    for (int i = 0; i < 2; i++) {
        Val upper = LLVMBuildBitCast(e->b, emit_bf16_pairs(e, p[i], emit_const(e, 16, 0)), ints, "");
        upper = LLVMBuildLShr(e->b, upper, emit_int_like(e, upper, 16), "");
        half[i] = LLVMBuildTrunc(e->b, upper, words, "");
    }
    for (int i = 0; i < 32; i++) number[i] = emit_i32(e, i);
    Val all = LLVMBuildShuffleVector(e->b, half[1], half[0], LLVMConstVector(number, 32), "");
    return LLVMBuildBitCast(e->b, all, LLVMVectorType(LLVMBFloatTypeInContext(e->cx), 32), "");
}

static void replace(Emit *e, const char *intrinsic, const char *name, Val (*body)(Emit *e, Val *p)) {
    Val is = LLVMGetNamedFunction(e->mod, intrinsic), p[3];
    if (!is) return;
    Val f = LLVMAddFunction(e->mod, name, LLVMGlobalGetValueType(is));
    LLVMSetLinkage(f, LLVMInternalLinkage);
    unsigned inlined = LLVMGetEnumAttributeKindForName("alwaysinline", 12);
    LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(e->cx, inlined, 0));
    LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->cx, f, ""));
    for (unsigned i = 0; i < LLVMCountParams(f); i++) p[i] = LLVMGetParam(f, i);
    e->target.bf16 = false; /* the backend's own arithmetic in place of the instruction */
    LLVMBuildRet(e->b, body(e, p));
    LLVMReplaceAllUsesWith(is, f);
    LLVMDeleteFunction(is);
}

static bool has_bf16(void) { return __builtin_cpu_supports("avx512bf16"); }

/* ---- AMX: functions in C, by their addresses ---- */

static void call_instead(LLVMModuleRef mod, const char *intrinsic, uintptr_t function) {
    Val is = LLVMGetNamedFunction(mod, intrinsic);
    if (!is) return;
    LLVMContextRef cx = LLVMGetModuleContext(mod);
    Val at = LLVMConstInt(LLVMInt64TypeInContext(cx), function, 0);
    LLVMReplaceAllUsesWith(is, LLVMConstIntToPtr(at, LLVMPointerTypeInContext(cx, 0)));
    LLVMDeleteFunction(is);
}

void emulate(Emit *e) {
    if (!has_bf16()) {
        replace(e, "llvm.x86.avx512bf16.dpbf16ps.512", "dot", dot_function);
        replace(e, "llvm.x86.avx512bf16.cvtne2ps2bf16.512", "convert", convert_function);
    }
#define INSTEAD(name) call_instead(e->mod, "llvm.x86." #name, (uintptr_t)amx_##name)
    INSTEAD(ldtilecfg), INSTEAD(tilerelease), INSTEAD(tilezero);
    INSTEAD(tileloadd64), INSTEAD(tilestored64), INSTEAD(tdpbf16ps);
#undef INSTEAD
}

void emulate_module(LLVMModuleRef mod) {
    LLVMContextRef cx = LLVMGetModuleContext(mod);
    Emit e = {.mod = mod, .cx = cx, .b = LLVMCreateBuilderInContext(cx), .W = 16};
    e.f32 = LLVMFloatTypeInContext(cx), e.i32 = LLVMInt32TypeInContext(cx);
    e.i64 = LLVMInt64TypeInContext(cx), e.i1 = LLVMInt1TypeInContext(cx);
    emulate(&e);
    LLVMDisposeBuilder(e.b);
}
