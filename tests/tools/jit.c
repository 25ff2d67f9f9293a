#include "tests/tools/jit.h"
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "backend/emit.h"
#include "runtime/program.h"
#include "tests/tools/emulate.h"

struct Jit {
    LLVMOrcLLJITRef jit;
    const RtProgram *program;
};

static bool failed(LLVMErrorRef e, char *err, size_t err_bytes) {
    if (!e) return false;
    char *text = LLVMGetErrorMessage(e);
    snprintf(err, err_bytes, "%s", text);
    LLVMDisposeErrorMessage(text);
    return true;
}

/* What generated code may call: the runtime's functions by the one list of them, … */
static bool define_runtime(LLVMOrcLLJITRef jit, char *err, size_t err_bytes) {
#define FN(result, name, args) {#name, (LLVMOrcExecutorAddress)(uintptr_t)name},
    struct {
        const char *name;
        LLVMOrcExecutorAddress at;
    } fns[] = {RT_FUNCTIONS(FN)};
#undef FN
    enum { N = sizeof fns / sizeof *fns };
    LLVMOrcCSymbolMapPair pairs[N];
    for (int i = 0; i < N; i++) {
        pairs[i].Name = LLVMOrcLLJITMangleAndIntern(jit, fns[i].name);
        pairs[i].Sym.Address = fns[i].at;
        pairs[i].Sym.Flags =
            (LLVMJITSymbolFlags){LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable, 0};
    }
    return !failed(LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(jit), LLVMOrcAbsoluteSymbols(pairs, N)),
                   err, err_bytes);
}

/* … and the C library's, from this process. */
static bool define_process(LLVMOrcLLJITRef jit, char *err, size_t err_bytes) {
    LLVMOrcDefinitionGeneratorRef g;
    char prefix = LLVMOrcLLJITGetGlobalPrefix(jit);
    if (failed(LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(&g, prefix, NULL, NULL), err, err_bytes))
        return false;
    LLVMOrcJITDylibAddGenerator(LLVMOrcLLJITGetMainJITDylib(jit), g);
    return true;
}

static LLVMMemoryBufferRef emitted(IrProgram *p, const char *march, int level, BackendEmit what) {
    char *bytes = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&bytes, &size);
    bool ok = f && backend_emit(p, march, level, what, f);
    if (f) fclose(f);
    LLVMMemoryBufferRef b = ok ? LLVMCreateMemoryBufferWithMemoryRangeCopy(bytes, size, "program") : NULL;
    free(bytes);
    return b;
}

/* Another CPU's code, made for this one. */
static LLVMMemoryBufferRef emulated(IrProgram *p, const char *march, int level) {
    LLVMMemoryBufferRef text = emitted(p, march, level, EMIT_LLVM), code = NULL;
    EmitTarget t;
    if (!text || !emit_target(p->diag, p->arena, "native", &t)) return NULL;
    LLVMContextRef cx = LLVMContextCreate();
    LLVMTargetMachineRef tm = emit_machine(p->diag, &t, level);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMModuleRef mod;
    char *why = NULL;
    if (!LLVMParseIRInContext(cx, text, &mod, &why)) { /* which takes the text */
        emulate_module(mod);
        LLVMConsumeError(LLVMRunPasses(mod, "always-inline", tm, options));
        if (LLVMTargetMachineEmitToMemoryBuffer(tm, mod, LLVMObjectFile, &why, &code)) code = NULL;
        LLVMDisposeModule(mod);
    }
    if (why) fprintf(stderr, "jit: %s\n", why);
    LLVMDisposePassBuilderOptions(options);
    LLVMDisposeTargetMachine(tm);
    LLVMContextDispose(cx);
    return code;
}

static LLVMMemoryBufferRef object(IrProgram *p, const char *march, int level) {
    return strcmp(march, "native") ? emulated(p, march, level) : emitted(p, march, level, EMIT_OBJ);
}

Jit *jit_new(IrProgram *p, const char *march, int level, char *err, size_t err_bytes) {
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    LLVMMemoryBufferRef code = object(p, march, level);
    if (!code) return snprintf(err, err_bytes, "the program could not be emitted"), NULL;
    Jit *j = calloc(1, sizeof *j);
    if (!j) abort();
    if (failed(LLVMOrcCreateLLJIT(&j->jit, NULL), err, err_bytes)) {
        LLVMDisposeMemoryBuffer(code);
        free(j);
        return NULL;
    }
    LLVMOrcExecutorAddress at;
    bool ok = define_runtime(j->jit, err, err_bytes) && define_process(j->jit, err, err_bytes) &&
              !failed(LLVMOrcLLJITAddObjectFile(j->jit, LLVMOrcLLJITGetMainJITDylib(j->jit), code), err,
                      err_bytes) &&
              !failed(LLVMOrcLLJITLookup(j->jit, &at, "ctrc_model"), err, err_bytes);
    if (ok) j->program = (const RtProgram *)(uintptr_t)at;
    if (!ok || (!strcmp(march, "native") && !rt_machine_fits(j->program, err, err_bytes))) {
        jit_free(j);
        return NULL;
    }
    return j;
}

void jit_free(Jit *j) {
    char err[256];
    if (j) failed(LLVMOrcDisposeLLJIT(j->jit), err, sizeof err);
    free(j);
}

const RtProgram *jit_program(const Jit *j) { return j->program; }

RtModel *jit_model(const Jit *j, char *err, size_t err_bytes) {
    RtModel *m = rt_model_parse(j->program->description, j->program->description_bytes, j->program->vocabs,
                                err, err_bytes);
    if (m) m->program = j->program;
    return m;
}
