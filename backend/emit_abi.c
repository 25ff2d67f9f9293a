/* runtime/abi.def as LLVM types: the structs by their fields, the functions by the text of their arguments.
 */
#include <string.h>
#include "backend/emit.h"

static LLVMTypeRef type_by_name(Emit *e, const char *name, size_t n) {
    const struct {
        const char *name;
        LLVMTypeRef type;
    } types[] = {
        {"ptr", e->ptr}, {"u8", e->i8},   {"u32", e->i32},   {"i32", e->i32},
        {"u64", e->i64}, {"f32", e->f32}, {"void", e->none},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i].name) == n && !strncmp(types[i].name, name, n)) return types[i].type;
    return NULL; /* a type that abi.def doesn't document: LLVM stops at once */
}

#define FIELD(type, name) type_by_name(e, #type, sizeof #type - 1),
void emit_abi_types(Emit *e) {
    LLVMTypeRef step[] = {RT_STRUCT_STEP(FIELD)}, table[] = {RT_STRUCT_TABLE_BATCH(FIELD)},
                opt[] = {RT_STRUCT_OPT_STEP(FIELD)}, blob[] = {RT_STRUCT_BLOB(FIELD)},
                model[] = {RT_STRUCT_MODEL(FIELD)};
#define MAKE(field, list) e->field = LLVMStructTypeInContext(e->cx, list, sizeof list / sizeof *list, 0)
    MAKE(t_step, step);
    MAKE(t_table, table);
    MAKE(t_opt, opt);
    MAKE(t_blob, blob);
    MAKE(t_model, model);
#undef MAKE
}
#undef FIELD

/* "(ptr step, u32 thread)" → argument types */
static void declare(Emit *e, const char *result, const char *name, const char *args) {
    LLVMTypeRef types[16];
    unsigned n = 0;
    for (const char *s = args + 1; *s;) {
        s += strspn(s, " ,\n\\");
        size_t len = strcspn(s, " ");
        types[n++] = type_by_name(e, s, len);
        s += strcspn(s, ",)");
        if (*s == ')') break;
    }
    LLVMTypeRef type = LLVMFunctionType(type_by_name(e, result, strlen(result)), types, n, 0);
    LLVMAddFunction(e->mod, name, type);
}

void emit_abi_functions(Emit *e) {
#define FN(result, name, args) declare(e, #result, #name, #args);
    RT_FUNCTIONS(FN)
#undef FN
}

/* What doesn't change in a step is loaded once, at the kernel's start. */
static LLVMBasicBlockRef enter_entry(Emit *e) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    LLVMPositionBuilderBefore(e->b, LLVMGetBasicBlockTerminator(e->entry));
    return here;
}

static Val field_ptr(Emit *e, LLVMTypeRef type, Val base, int field) {
    return LLVMBuildStructGEP2(e->b, type, base, (unsigned)field, "");
}

Val emit_step_ptr(Emit *e, int field) {
    LLVMBasicBlockRef here = enter_entry(e);
    Val p = field_ptr(e, e->t_step, e->step, field);
    LLVMPositionBuilderAtEnd(e->b, here);
    return p;
}

Val emit_step(Emit *e, int field) {
    LLVMBasicBlockRef here = enter_entry(e);
    LLVMTypeRef type = LLVMStructGetTypeAtIndex(e->t_step, (unsigned)field);
    Val v = emit_load(e, type, field_ptr(e, e->t_step, e->step, field));
    LLVMPositionBuilderAtEnd(e->b, here);
    return v;
}

Val emit_step_elem(Emit *e, int field, int index) {
    Val array = emit_step(e, field);
    LLVMBasicBlockRef here = enter_entry(e);
    Val v = emit_load_elem(e, e->ptr, array, emit_i64(e, index));
    LLVMPositionBuilderAtEnd(e->b, here);
    return v;
}

static Val struct_elem(Emit *e, int array_field, LLVMTypeRef type, int index, int field) {
    Val array = emit_step(e, array_field), at = emit_i64(e, index);
    LLVMBasicBlockRef here = enter_entry(e);
    Val item = LLVMBuildInBoundsGEP2(e->b, type, array, &at, 1, "");
    Val v = emit_load(e, LLVMStructGetTypeAtIndex(type, (unsigned)field), field_ptr(e, type, item, field));
    LLVMPositionBuilderAtEnd(e->b, here);
    return v;
}

Val emit_table(Emit *e, int weight, int field) {
    return struct_elem(e, STEP_tables, e->t_table, weight, field);
}
Val emit_opt(Emit *e, int weight, int field) { return struct_elem(e, STEP_opt, e->t_opt, weight, field); }

Val emit_call(Emit *e, const char *name, Val *args, int n) {
    Val f = LLVMGetNamedFunction(e->mod, name);
    return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(f), f, args, (unsigned)n, "");
}
