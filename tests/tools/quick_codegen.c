#include "tests/tools/quick_codegen.h"
#include <stdlib.h>

static LLVMTargetMachineRef machine(const EmitTarget *t) {
    LLVMTargetRef target;
    char *why = NULL;
    if (LLVMGetTargetFromTriple(t->triple, &target, &why)) {
        fprintf(stderr, "quick_object: %s\n", why);
        abort();
    }
    return LLVMCreateTargetMachine(target, t->triple, t->cpu, t->features, LLVMCodeGenLevelNone, LLVMRelocPIC,
                                   LLVMCodeModelDefault);
}

static bool put(LLVMTargetMachineRef tm, LLVMModuleRef mod, FILE *out) {
    LLVMMemoryBufferRef code;
    char *why = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(tm, mod, LLVMObjectFile, &why, &code)) {
        fprintf(stderr, "quick_object: %s\n", why);
        LLVMDisposeMessage(why);
        return false;
    }
    size_t size = LLVMGetBufferSize(code);
    bool ok = fwrite(LLVMGetBufferStart(code), 1, size, out) == size;
    LLVMDisposeMemoryBuffer(code);
    return ok;
}

bool quick_object(IrProgram *p, int part, const char *march, FILE *out) {
    EmitTarget t;
    if (!emit_target(p->diag, p->arena, march, &t)) return false;
    LLVMTargetMachineRef tm = machine(&t);
    LLVMContextRef cx = LLVMContextCreate();
    LLVMModuleRef mod =
        emit_module(p, part, cx, tm, &t, 0, part == EMIT_PRODUCTS ? NULL : emit_model_constant, march);
    bool ok = mod && put(tm, mod, out);
    if (mod) LLVMDisposeModule(mod);
    LLVMContextDispose(cx);
    LLVMDisposeTargetMachine(tm);
    return ok;
}
