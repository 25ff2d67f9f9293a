/* A program's object code by LLVM without its optimisation, in a fifth of the time: for tests that ask what
 * the compiler's passes and the emitter make of a program, not what LLVM makes of that. */
#ifndef CTRC_TESTS_QUICK_CODEGEN_H
#define CTRC_TESTS_QUICK_CODEGEN_H
#include "backend/emit.h"

/* A program after all passes, or a part of it (EMIT_WHOLE …), as an object at out. */
bool quick_object(IrProgram *p, int part, const char *march, FILE *out);

#endif
