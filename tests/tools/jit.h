/* Runs a compiled program inside the test: the object that ctrc would link is loaded by LLVM's LLJIT, with
 * the runtime's functions of the test itself. */
#ifndef CTRC_TESTS_JIT_H
#define CTRC_TESTS_JIT_H
#include "backend/backend.h"
#include "ir/ir.h"
#include "runtime/model.h"

typedef struct Jit Jit;

/* A level besides -O's. */
enum { JIT_QUICK = BACKEND_QUICK };

/* A program after all passes. For another march than 'native', code for that CPU, in which functions stand
 * for what this one lacks (emulate.h). NULL with one line in err. */
Jit *jit_new(IrProgram *p, const char *march, int level, char *err, size_t err_bytes);
void jit_free(Jit *j);
const RtProgram *jit_program(const Jit *j);
/* The program's own description, parsed. NULL with one line in err. To be freed before the Jit. */
RtModel *jit_model(const Jit *j, char *err, size_t err_bytes);

#endif
