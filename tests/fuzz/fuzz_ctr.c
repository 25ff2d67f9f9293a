/* Model files: any text is compiled to IR, or told what is wrong with it. What compiles is verified, read
 * back from its own print, and sent through the passes. */
#include "frontend/compile.h"
#include "tests/fuzz/fuzz_program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_enter_directory();
    fuzz_write("fuzz.ctr", data, size);
    Arena *a = arena_new();
    Diag *d = diag_new(a, fuzz_null());
    IrProgram *p = frontend_compile(a, d, "fuzz.ctr", NULL, 0, CTRC_LIBRARY_DIR);
    FUZZ_CHECK(p || d->errors, "no program, and no error");
    if (p && !d->errors) {
        FUZZ_CHECK(ir_verify(p), "compiled to a program that the verifier refuses");
        fuzz_reads_back(a, p);
        fuzz_passes(a, p);
    }
    arena_free(a);
    return 0;
}
