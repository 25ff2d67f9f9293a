/* From a program to LLVM text, assembly or an object file: the constant ctrc_model, and backend_emit. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "backend/emit.h"

/* ---- the constant ctrc_model ---- */

static Val bytes_global(Emit *e, const char *name, const char *data, size_t n) {
    Val init = LLVMConstStringInContext2(e->cx, data, n, 1);
    Val g = LLVMAddGlobal(e->mod, LLVMTypeOf(init), name);
    LLVMSetInitializer(g, init);
    LLVMSetGlobalConstant(g, 1);
    LLVMSetLinkage(g, LLVMPrivateLinkage);
    return g;
}

/* The values of a vocabulary one after another, each with its newline. */
static Val vocab_blob(Emit *e, const IrVocab *v) {
    size_t size = 0;
    for (int64_t i = 0; i < v->n; i++) size += (size_t)v->lens[i] + 1;
    char *text = malloc(size + 1), *to = text;
    if (!text) abort();
    for (int64_t i = 0; i < v->n; i++) {
        memcpy(to, v->values[i], (size_t)v->lens[i]);
        to += v->lens[i];
        *to++ = '\n';
    }
    Val fields[] = {bytes_global(e, "vocab", text, size), emit_i64(e, (int64_t)size)};
    free(text);
    return LLVMConstStructInContext(e->cx, fields, 2, 0);
}

static Val vocabs_global(Emit *e) {
    int n = e->p->n_vocabs;
    Val *items = ARENA_ARRAY(e->arena, Val, n + 1);
    for (int i = 0; i < n; i++) items[i] = vocab_blob(e, &e->p->vocabs[i]);
    Val g = LLVMAddGlobal(e->mod, LLVMArrayType2(e->t_blob, (uint64_t)n), "vocabs");
    LLVMSetInitializer(g, LLVMConstArray2(e->t_blob, items, (uint64_t)n));
    LLVMSetGlobalConstant(g, 1);
    LLVMSetLinkage(g, LLVMPrivateLinkage);
    return g;
}

static Val function_or_null(Emit *e, const char *name) {
    Val f = LLVMGetNamedFunction(e->mod, name);
    return f ? f : LLVMConstNull(e->ptr);
}

static Val text_global(Emit *e, const char *name, const char *text, Val *bytes) {
    size_t n = text ? strlen(text) : 0;
    *bytes = emit_i64(e, (int64_t)n);
    return text ? bytes_global(e, name, text, n) : LLVMConstNull(e->ptr);
}

/* Of the CPU: AMX is asked for only where a kernel uses it. */
static int needed_level(const IrProgram *p, const EmitTarget *t) {
    for (int f = 0; t->level == LEVEL_AMX && f < p->n_funcs; f++)
        for (int i = 0; i < p->funcs[f]->body.n; i++) {
            const IrNode *n = p->funcs[f]->body.nodes[i];
            if (ir_product_of(n) && emit_by_amx(&t->pass, n)) return LEVEL_AMX;
        }
    return t->level == LEVEL_AMX ? LEVEL_BF16 : t->level;
}

void emit_model_constant(Emit *e, const EmitTarget *t, const char *march) {
    char *text = backend_describe(e->p, march);
    if (!text) return; /* reported */
    char *graph = backend_onnx(e->p);
    Val text_bytes, graph_bytes;
    Val description = text_global(e, "description", text, &text_bytes);
    Val graph_text = text_global(e, "graph", graph, &graph_bytes);
    /* in the order of RT_STRUCT_MODEL; LLVM compares the types */
    Val fields[] = {emit_i32(e, RT_ABI_VERSION),
                    emit_i32(e, needed_level(e->p, t)),
                    description,
                    text_bytes,
                    vocabs_global(e),
                    function_or_null(e, "ctrc_train"),
                    function_or_null(e, "ctrc_eval"),
                    function_or_null(e, "ctrc_predict"),
                    graph_text,
                    graph_bytes};
    free(text);
    free(graph);
    Val g = LLVMAddGlobal(e->mod, e->t_model, "ctrc_model");
    LLVMSetInitializer(g, LLVMConstStructInContext(e->cx, fields, sizeof fields / sizeof *fields, 0));
    LLVMSetGlobalConstant(g, 1);
}

/* ---- output ---- */

static bool put(IrProgram *p, const char *data, size_t n, FILE *out) {
    if (fwrite(data, 1, n, out) == n) return true;
    diag_error(p->diag, (Span){0}, NULL, "can't write the output: %s", strerror(errno));
    return false;
}

static bool put_module(IrProgram *p, LLVMModuleRef mod, LLVMTargetMachineRef tm, BackendEmit what,
                       FILE *out) {
    if (what == EMIT_LLVM) {
        char *text = LLVMPrintModuleToString(mod);
        bool ok = put(p, text, strlen(text), out);
        LLVMDisposeMessage(text);
        return ok;
    }
    LLVMMemoryBufferRef code;
    char *why = NULL;
    LLVMCodeGenFileType type = what == EMIT_ASM ? LLVMAssemblyFile : LLVMObjectFile;
    if (LLVMTargetMachineEmitToMemoryBuffer(tm, mod, type, &why, &code)) {
        diag_error(p->diag, (Span){0}, NULL, "internal: LLVM makes no code: %s", why);
        LLVMDisposeMessage(why);
        return false;
    }
    bool ok = put(p, LLVMGetBufferStart(code), LLVMGetBufferSize(code), out);
    LLVMDisposeMemoryBuffer(code);
    return ok;
}

static bool emit_part(IrProgram *p, int part, const EmitTarget *t, const char *march, int level,
                      BackendEmit what, FILE *out) {
    LLVMTargetMachineRef tm = emit_machine(p->diag, t, level);
    if (!tm) return false;
    LLVMContextRef cx = LLVMContextCreate();
    LLVMModuleRef mod =
        emit_module(p, part, cx, tm, t, level, part == EMIT_PRODUCTS ? NULL : emit_model_constant, march);
    bool ok = mod && put_module(p, mod, tm, what, out);
    if (mod) LLVMDisposeModule(mod);
    LLVMContextDispose(cx);
    LLVMDisposeTargetMachine(tm);
    return ok;
}

bool backend_emit(IrProgram *p, const char *march, int level, BackendEmit what, FILE *out) {
    EmitTarget t;
    return emit_target(p->diag, p->arena, march, &t) && emit_part(p, EMIT_WHOLE, &t, march, level, what, out);
}

/* ---- in two parts, side by side ----
 * LLVM takes nearly all of a compilation's time, and a context of its own for each thread. What a part needs
 * of the program it only reads; an arena and diagnostics are its own. The cut follows the kind of kernel, not
 * the machine, so that everybody gets the same two objects. */

typedef struct {
    IrProgram p; /* a copy of the struct alone */
    const EmitTarget *t;
    const char *march;
    int level;
    FILE *out;
    bool ok;
} Part;

static void *rest(void *user) {
    Part *part = user;
    part->ok = emit_part(&part->p, EMIT_REST, part->t, part->march, part->level, EMIT_OBJ, part->out);
    return NULL;
}

bool backend_emit_parts(IrProgram *p, const char *march, int level, FILE *products, FILE *others) {
    EmitTarget t;
    if (!emit_target(p->diag, p->arena, march, &t)) return false;
    Part part = {.p = *p, .t = &t, .march = march, .level = level, .out = others};
    Arena *a = arena_new();
    pthread_t thread;
    char *said = NULL;
    size_t size = 0;
    FILE *aside_out = open_memstream(&said, &size);
    if (!aside_out) abort();
    part.p.arena = a;
    part.p.diag = diag_new(a, aside_out);
    part.p.diag->files = p->diag->files; /* to read: where an op came from */
    part.p.diag->n_files = part.p.diag->cap_files = p->diag->n_files;
    bool aside = pthread_create(&thread, NULL, rest, &part) == 0;
    bool ok = emit_part(p, EMIT_PRODUCTS, &t, march, level, EMIT_OBJ, products);
    if (aside)
        pthread_join(thread, NULL);
    else
        rest(&part);
    fclose(aside_out);
    if (ok) { /* what stops both, such as a full disk, is told once */
        fputs(said, p->diag->out);
        p->diag->errors += part.p.diag->errors;
    }
    free(said);
    arena_free(a);
    return ok && part.ok;
}
