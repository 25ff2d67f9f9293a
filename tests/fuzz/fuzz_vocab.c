/* Vocabulary files: each value of what is accepted is found at its line, by the compiler's rules and by the
 * program's table. */
#include "ir/ir.h"
#include "runtime/abi.h"
#include "runtime/vocab_table.h"
#include "tests/fuzz/fuzz.h"

/* As the compiler bakes them into a program: each value with its '\n'. */
static void look_up_all(const IrVocab *v) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) abort();
    for (int64_t i = 0; i < v->n; i++) {
        fwrite(v->values[i], 1, (size_t)v->lens[i], f);
        fputc('\n', f);
    }
    fclose(f);
    RtVocabTable *t = rt_vocab_table_new(text, n, (uint64_t)v->n);
    for (int64_t i = 0; i < v->n; i++) {
        uint32_t at = rt_vocab_find(t, v->values[i], (size_t)v->lens[i]);
        FUZZ_CHECK(at == (uint32_t)i, "value %lld is found at %u", (long long)i, at);
    }
    FUZZ_CHECK(rt_vocab_find(t, "\n", 1) == RT_NO_ID, "a newline is a value");
    rt_vocab_table_free(t);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_enter_directory();
    fuzz_write("fuzz.voc", data, size);
    Arena *a = arena_new();
    Diag *d = diag_new(a, fuzz_null());
    IrProgram *p = ir_program_new(a, d);
    IrVocab v = {.path = "fuzz.voc"};
    bool ok = ir_vocab_load(p, &v);
    FUZZ_CHECK(ok == !d->errors, "loaded %d with %d errors", ok, d->errors);
    if (ok) {
        FUZZ_CHECK(v.digest == ir_vocab_digest(&v), "the digest isn't that of the values");
        look_up_all(&v);
    }
    arena_free(a);
    return 0;
}
