/* bin/ctrc_quick: the driver, linked with these in place of the backend's functions that make code (--wrap),
 * so that LLVM doesn't optimise it, whatever -O says. The compiler's own passes go by -O. */
#include "tests/tools/quick_codegen.h"

bool __real_backend_emit(IrProgram *p, const char *march, int level, BackendEmit what, FILE *out);
bool __wrap_backend_emit(IrProgram *p, const char *march, int level, BackendEmit what, FILE *out);
bool __wrap_backend_emit_parts(IrProgram *p, const char *march, int level, FILE *products, FILE *others);

bool __wrap_backend_emit_parts(IrProgram *p, const char *march, int level, FILE *products, FILE *others) {
    (void)level;
    return quick_object(p, EMIT_PRODUCTS, march, products) && quick_object(p, EMIT_REST, march, others);
}

bool __wrap_backend_emit(IrProgram *p, const char *march, int level, BackendEmit what, FILE *out) {
    (void)level;
    return what == EMIT_OBJ ? quick_object(p, EMIT_WHOLE, march, out)
                            : __real_backend_emit(p, march, 0, what, out);
}
