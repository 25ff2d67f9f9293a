/* A program that was read without an error: prints, reads back as the same text, goes through all passes, and
 * is told to be right after each by the verifier. */
#ifndef CTRC_FUZZ_PROGRAM_H
#define CTRC_FUZZ_PROGRAM_H
#include "passes/pass.h"
#include "tests/fuzz/fuzz.h"

static inline char *fuzz_print(const IrProgram *p, size_t *n) {
    char *text = NULL;
    FILE *f = open_memstream(&text, n);
    if (!f) abort();
    ir_print(p, f);
    fclose(f);
    return text;
}

static inline void fuzz_reads_back(Arena *a, const IrProgram *p) {
    size_t n, k;
    char *text = fuzz_print(p, &n), *again;
    Diag *d = diag_new(a, fuzz_null());
    IrProgram *q = ir_read(a, d, "fuzz.ir", text, n);
    FUZZ_CHECK(q, "what was printed can't be read:\n%s", text);
    again = fuzz_print(q, &k);
    FUZZ_CHECK(n == k && !memcmp(text, again, n), "printed, read and printed again:\n%s----\n%s", text,
               again);
    free(text);
    free(again);
}

/* A billion rows and a thousand columns are a valid program; to fuzz them only costs time. */
static inline bool fuzz_small(const IrProgram *p) {
    int64_t nodes = 0;
    for (int i = 0; i < p->n_funcs; i++) nodes += p->funcs[i]->body.n;
    return nodes < 500;
}

static inline void fuzz_passes(Arena *a, IrProgram *p) {
    PassOptions o = {
        .level = 2,
        .target = {.vector_floats = 8, .vector_regs = 16, .l1_bytes = 32 << 10, .l2_bytes = 512 << 10},
        .verify_each = true,
        .out = fuzz_null()};
    if (fuzz_small(p) && pass_run_all(p, &o)) fuzz_reads_back(a, p);
}

#endif
