/* Passes: each rewrites an IrProgram in place. passes.def lists them in order; one file a pass, named as
 * the pass. A pass returns false after reporting to p->diag. */
#ifndef CTRC_PASSES_PASS_H
#define CTRC_PASSES_PASS_H
#include "ir/ir.h"

/* What schedule and the kernel choice need to know of the target. Filled by the backend. */
typedef struct {
    int vector_floats; /* 8: AVX2, 16: AVX-512 */
    int vector_regs;   /* 16 or 32 */
    int64_t l1_bytes, l2_bytes;
    bool bf16; /* has products of bfloat16 (avx512_bf16) */
    bool amx;  /* has them by tiles too (amx_tile, amx_bf16) */
} PassTarget;

typedef struct {
    const char *name; /* "gru-to-sru" */
    const char *args; /* text between the brackets, or NULL */
} PassArg;

struct PassInfo;
/* Sees the program before the first pass (pass NULL) and after each. */
typedef void PassWatch(void *context, IrProgram *p, const struct PassInfo *pass);

struct PassCosts; /* product_cost.h */

typedef struct {
    int level; /* -O0 … -O2 */
    PassTarget target;
    struct PassCosts *costs; /* of products, as measured on this CPU; NULL: a rule chooses their kernels */
    const PassArg *enable;
    int n_enable; /* command line: wins over the file */
    const PassArg *disable;
    int n_disable;
    const char **print_before, **print_after;
    int n_print_before, n_print_after; /* names or "all" */
    const char *print_only;            /* NULL: the whole program */
    bool verify_each;                  /* verifier and print∘read∘print after each pass */
    FILE *out;                         /* for dumps */
    PassWatch *watch;                  /* NULL, or who looks at every state of the program */
    void *watch_context;
} PassOptions;

typedef bool (*PassFn)(IrProgram *p, const PassOptions *o, const char *args);
typedef enum { PASS_REQUIRED, PASS_EXACT, PASS_CHANGES } PassKind;
typedef struct PassInfo {
    const char *name;
    PassFn run;
    PassKind kind;
    int level;            /* lowest -O that runs it; required ones: 0; PASS_CHANGES: only when asked */
    const char *meaning;  /* one line for --list-passes */
    const char *why_here; /* what it requires and provides */
} PassInfo;
extern const PassInfo pass_table[];
extern const int pass_count;

/* Runs the passes in order, skipping those in p->applied. */
bool pass_run_all(IrProgram *p, const PassOptions *o);
/* Runs one by name: for tests and for `--only`. */
bool pass_run_one(IrProgram *p, const PassOptions *o, const char *name, const char *args);
void pass_list(FILE *out);
/* Does a pass, as p->applied names it, change what is computed, and did it find something to change here? */
bool pass_changed_model(const IrProgram *p, const char *applied);
/* Is the name a pass? If not, reports with the nearest name. */
bool pass_known(Diag *d, const char *name);
/* "a,b(x=1,y=2),c" into PassArgs; false and an error in d if the brackets don't match. */
bool pass_parse_args(Arena *a, Diag *d, const char *text, PassArg **out, int *n);

#endif
