/* The backend's entrances: description, object code, linking, the reference interpreter. */
#ifndef CTRC_BACKEND_BACKEND_H
#define CTRC_BACKEND_BACKEND_H
#include <stdio.h>
#include "ir/ir.h"
#include "passes/pass.h"

/* --march: "native", "x86-64-v3", "x86-64-v4". False and an error in d if unknown or lower than v3. */
bool backend_target(Diag *d, const char *march, PassTarget *out);

/* What products were measured to cost on this CPU, for schedule and the plan; NULL: nothing is known, or
 * march isn't native. */
struct PassCosts *backend_costs(Diag *d, Arena *a, const char *march);
/* The same, and schedule will have the program's products measured anew. NULL: error reported. */
struct PassCosts *backend_tune(Diag *d, Arena *a, const char *lib_dir);

typedef enum { EMIT_LLVM, EMIT_ASM, EMIT_OBJ } BackendEmit;
/* Whether func train, eval and predict are there; false and an error in p's Diag if not. */
bool backend_has_functions(IrProgram *p);
/* The program after all passes (funcs train, eval, predict with plans) → text or object at out. */
/* A level below -O's: LLVM selects instructions and optimises nothing, in a fifth of the time; for tests. */
enum { BACKEND_QUICK = -1 };
bool backend_emit(IrProgram *p, const char *march, int level, BackendEmit what, FILE *out);
/* The same as two object files for one link, made side by side by two threads. */
bool backend_emit_parts(IrProgram *p, const char *march, int level, FILE *products, FILE *others);
/* Object to a temporary file, linked by `cc` with lib_dir/libctrc_rt.a; replaces exe whole or not at all.
 * alone: linked statically, so that it needs no library where it runs; then no product may go to oneDNN. */
bool backend_link(IrProgram *p, const char *march, int level, const char *lib_dir, const char *exe,
                  bool alone);
/* The same as a shared library that exports the model's own names alone, with a header MODEL.h beside it. */
bool backend_link_library(IrProgram *p, const char *march, int level, const char *lib_dir, const char *so);
/* The model description (runtime/README.md), malloc'd, NUL-terminated. */
char *backend_describe(IrProgram *p, const char *march);
/* The prediction as an ONNX graph without weights: JSON (onnx.c), malloc'd; NULL: there is no function
 * `predict`. */
char *backend_onnx(IrProgram *p);
/* --emit=plan; costs: what schedule chose by, or NULL */
bool backend_emit_plan(IrProgram *p, const char *march, const struct PassCosts *costs, FILE *out);
void backend_emit_dot(IrProgram *p, FILE *out); /* --emit=dot */
/* --emit=html: the page of a program, whose text is kept before the first pass and after each. */
typedef struct BackendPage BackendPage;
BackendPage *backend_page_new(Arena *a);
void backend_page_keep(void *page, IrProgram *p, const PassInfo *pass); /* a PassWatch */
bool backend_page_write(BackendPage *page, IrProgram *p, const char *march, FILE *out);

/* How an operand that the reader delivers is numbered: the same for description, emitter and interpreter. */
typedef struct {
    enum { BE_F32, BE_ID, BE_KEY, BE_LOOKUP } kind;
    const IrNode *value; /* the reader-stage node; for BE_LOOKUP its id */
    int feature;
    int table;           /* BE_LOOKUP: weight */
    bool pooled;         /* BE_LOOKUP: occurrences are listed by row */
    int lookup, ordinal; /* BE_LOOKUP: number among all lookups, and among the table's */
} BackendInput;
typedef struct {
    BackendInput *inputs;
    int n;
    const IrNode **features;
    int n_features; /* reader-stage nodes of all functions, equal ones once, in order */
} BackendInputs;
/* Collects over all functions. Equal reader-stage expressions (also in different functions) are one feature.
 */
BackendInputs backend_inputs(IrProgram *p);
/* The input number by which a function's node reads: as raw value or id … */
int backend_input_raw(const BackendInputs *in, const IrNode *value);
/* … or as positions in a table's unique rows. -1 if there is none. */
int backend_input_lookup(const BackendInputs *in, const IrNode *id, int table, bool pooled);
/* A reader-stage node's number in `features`, -1 if it has none. A column has one only where a step reads it
 * as it is ("value" in the description); as a feature's operand it is named by its column number. */
int backend_feature(const BackendInputs *in, const IrNode *value);
/* Scratch that a function's kernels need for each thread ("scratch_bytes" in the description). */
int64_t backend_scratch_bytes(IrProgram *p, const IrFunc *f, const char *march);

#endif
