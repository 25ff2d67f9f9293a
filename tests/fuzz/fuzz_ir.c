/* IR text: read or refused; what the verifier takes reads back from its own print and goes through the
 * passes. */
#include "tests/fuzz/fuzz_program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_enter_directory();
    Arena *a = arena_new();
    Diag *d = diag_new(a, fuzz_null());
    char *text =
        arena_strndup(a, (const char *)data, size); /* of the exact length, so that reading past it is seen */
    IrProgram *p = ir_read(a, d, "fuzz.ir", text, size);
    FUZZ_CHECK(p || d->errors, "no program, and no error");
    if (p && ir_verify(p)) {
        fuzz_reads_back(a, p);
        fuzz_passes(a, p);
    }
    arena_free(a);
    return 0;
}
