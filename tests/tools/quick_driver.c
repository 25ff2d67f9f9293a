/* bin/ctrc_quick: the driver, linked with these in front of the backend's functions that make code (--wrap),
 * so that LLVM doesn't optimise it, whatever -O says. The compiler's own passes go by -O. */
#include "backend/backend.h"

bool __real_backend_emit(IrProgram *p, const char *march, int level, BackendEmit what, FILE *out);
bool __wrap_backend_emit(IrProgram *p, const char *march, int level, BackendEmit what, FILE *out);
bool __real_backend_emit_parts(IrProgram *p, const char *march, int level, FILE *products, FILE *others);
bool __wrap_backend_emit_parts(IrProgram *p, const char *march, int level, FILE *products, FILE *others);

bool __wrap_backend_emit_parts(IrProgram *p, const char *march, int level, FILE *products, FILE *others) {
    (void)level;
    return __real_backend_emit_parts(p, march, BACKEND_QUICK, products, others);
}

bool __wrap_backend_emit(IrProgram *p, const char *march, int level, BackendEmit what, FILE *out) {
    (void)level;
    return __real_backend_emit(p, march, what == EMIT_OBJ ? BACKEND_QUICK : 0, what, out);
}
