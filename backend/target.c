/* --march: which CPU to make code for, and what the passes need to know of it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <llvm-c/Target.h>
#include "backend/emit.h"

static bool has(const char *features, const char *one) {
    size_t n = strlen(one);
    for (const char *s = features; s && *s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL)
        if (s[0] == '+' && !strncmp(s + 1, one, n) && (s[n + 1] == ',' || !s[n + 1])) return true;
    return false;
}

/* "32K" of /sys/devices/system/cpu/cpu0/cache/index<i>/size; 0 if it can't be read */
static int64_t cache_size(int wanted_level) {
    for (int i = 0; i < 8; i++) {
        char path[96], kind[32] = "";
        long level = 0, kib = 0;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        FILE *f = fopen(path, "r");
        if (!f) return 0;
        bool ok = fscanf(f, "%ld", &level) == 1;
        fclose(f);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        if ((f = fopen(path, "r"))) {
            ok = ok && fscanf(f, "%31s", kind) == 1;
            fclose(f);
        }
        if (!ok || level != wanted_level || !strcmp(kind, "Instruction")) continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        if (!(f = fopen(path, "r"))) return 0;
        ok = fscanf(f, "%ldK", &kib) == 1;
        fclose(f);
        return ok ? kib * 1024 : 0;
    }
    return 0;
}

static char *kept(Arena *a, char *llvm_text) {
    char *s = arena_strdup(a, llvm_text);
    LLVMDisposeMessage(llvm_text);
    return s;
}

static bool native(Diag *d, Arena *a, EmitTarget *out) {
    static const char *const v3[] = {"avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe"};
    static const char *const v4[] = {"avx512f", "avx512vl", "avx512dq", "avx512bw", "avx512cd"};
    out->cpu = kept(a, LLVMGetHostCPUName());
    out->features = kept(a, LLVMGetHostCPUFeatures());
    out->level = 4;
    for (size_t i = 0; i < sizeof v4 / sizeof *v4; i++)
        if (!has(out->features, v4[i])) out->level = 3;
    for (size_t i = 0; i < sizeof v3 / sizeof *v3; i++)
        if (!has(out->features, v3[i])) {
            diag_error(d, (Span){0}, "--march=x86-64-v3 makes a program for another machine",
                       "this CPU (%s) lacks '%s': expected at least x86-64-v3", out->cpu, v3[i]);
            return false;
        }
    if (out->level == 4 && has(out->features, "avx512bf16")) out->level = LEVEL_BF16;
    if (out->level == LEVEL_BF16 && has(out->features, "amx-tile") && has(out->features, "amx-bf16"))
        out->level = LEVEL_AMX;
    int64_t l1 = cache_size(1), l2 = cache_size(2);
    if (l1) out->pass.l1_bytes = l1;
    if (l2) out->pass.l2_bytes = l2;
    return true;
}

/* LLVM's own set-up. Here, since machines are made by several threads, but after this. */
static void init_llvm(void) {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
}

/* What can be asked for beside `native`. Those that multiply bfloat16 are made for what they share, so that a
 * program for one runs on the others, but for AMX. */
static const struct {
    const char *march, *cpu, *features;
    int level;
} named[] = {{"x86-64-v3", "x86-64-v3", "", 3},
             {"x86-64-v4", "x86-64-v4", "", 4},
             {"cooperlake", "x86-64-v4", "+avx512bf16", LEVEL_BF16},
             {"sapphirerapids", "x86-64-v4", "+avx512bf16,+amx-tile,+amx-bf16", LEVEL_AMX},
             {"znver4", "x86-64-v4", "+avx512bf16", LEVEL_BF16}};
enum { NAMED = sizeof named / sizeof *named };

static bool by_name(Diag *d, Arena *a, const char *march, EmitTarget *out) {
    const char *known[NAMED + 1] = {"native"};
    for (int i = 0; i < NAMED; i++) {
        known[i + 1] = named[i].march;
        if (strcmp(march, named[i].march)) continue;
        out->cpu = arena_strdup(a, named[i].cpu), out->features = arena_strdup(a, named[i].features);
        out->level = named[i].level;
        return true;
    }
    diag_error(d, (Span){0}, diag_did_you_mean(d, march, known, NAMED + 1),
               "unknown --march '%s': expected native, x86-64-v3, x86-64-v4, or with bfloat16 cooperlake, "
               "sapphirerapids or znver4",
               march);
    return false;
}

bool emit_target(Diag *d, Arena *a, const char *march, EmitTarget *out) {
    init_llvm();
    *out = (EmitTarget){.triple = "x86_64-unknown-linux-gnu", .features = "", .level = 3};
    out->pass = (PassTarget){.l1_bytes = 32 << 10, .l2_bytes = 512 << 10};
    if (strcmp(march, "native") ? !by_name(d, a, march, out) : !native(d, a, out)) return false;
    out->pass.vector_floats = out->level >= 4 ? 16 : 8;
    out->pass.vector_regs = out->level >= 4 ? 32 : 16;
    out->pass.bf16 = out->level >= LEVEL_BF16, out->pass.amx = out->level >= LEVEL_AMX;
    return true;
}

bool backend_target(Diag *d, const char *march, PassTarget *out) {
    EmitTarget t;
    Arena *a = arena_new();
    bool ok = emit_target(d, a, march, &t);
    if (ok) *out = t.pass;
    arena_free(a);
    return ok;
}

LLVMTargetMachineRef emit_machine(Diag *d, const EmitTarget *t, int level) {
    LLVMTargetRef target;
    char *why = NULL;
    if (LLVMGetTargetFromTriple(t->triple, &target, &why)) {
        diag_error(d, (Span){0}, NULL, "LLVM has no code generator for %s: %s", t->triple, why);
        LLVMDisposeMessage(why);
        return NULL;
    }
    LLVMCodeGenOptLevel opt = level == BACKEND_QUICK ? LLVMCodeGenLevelNone
                              : level == 0           ? LLVMCodeGenLevelLess
                                                     : LLVMCodeGenLevelDefault;
    return LLVMCreateTargetMachine(target, t->triple, t->cpu, t->features, opt, LLVMRelocPIC,
                                   LLVMCodeModelDefault);
}
