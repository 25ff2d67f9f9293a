/* What the tests of ir/ share: a Diag that writes into memory, and texts in and out. */
#ifndef CTRC_TEST_IR_FIXTURE_H
#define CTRC_TEST_IR_FIXTURE_H
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ir/ir.h"

typedef struct {
    Arena *arena;
    Diag *diag;
    FILE *out;
    char *messages; /* what the Diag printed; valid after fx_messages */
    size_t size;
} Fx;

static inline Fx fx_new(void) {
    Fx fx = {.arena = arena_new()};
    return fx;
}

/* The Diag is made on first use, as the stream must not move. */
static inline Diag *fx_diag(Fx *fx) {
    if (!fx->out) {
        fx->out = open_memstream(&fx->messages, &fx->size);
        fx->diag = diag_new(fx->arena, fx->out);
    }
    return fx->diag;
}

static inline const char *fx_messages(Fx *fx) {
    fx_diag(fx);
    fflush(fx->out);
    return fx->messages;
}

static inline void fx_free(Fx *fx) {
    if (fx->out) fclose(fx->out);
    free(fx->messages);
    arena_free(fx->arena);
}

static inline IrProgram *fx_read(Fx *fx, const char *text) {
    return ir_read(fx->arena, fx_diag(fx), "test.ir", text, strlen(text));
}

/* Reads what must be right. */
static inline IrProgram *fx_program(Fx *fx, const char *text) {
    IrProgram *p = fx_read(fx, text);
    if (!p) fail_msg("can't read:\n%s", fx_messages(fx));
    return p;
}

static inline const char *fx_print(Fx *fx, const IrProgram *p) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    ir_print(p, f);
    fclose(f);
    const char *kept = arena_strndup(fx->arena, text, size);
    free(text);
    return kept;
}

/* A file of the source tree. */
static inline const char *fx_file(Fx *fx, const char *path) {
    const char *full = arena_printf(fx->arena, "%s/%s", CTRC_SOURCE_DIR, path);
    FILE *f = fopen(full, "rb");
    if (!f) fail_msg("can't open %s", full);
    fseek(f, 0, SEEK_END);
    size_t size = (size_t)ftell(f);
    rewind(f);
    char *text = arena_alloc(fx->arena, size + 1);
    if (fread(text, 1, size, f) != size) fail_msg("can't read %s", full);
    fclose(f);
    return text;
}

/* Compares with a golden file. CTRC_UPDATE_GOLDEN=1 writes it anew: look at the difference before committing.
 */
static inline void fx_golden(Fx *fx, const char *path, const char *text) {
    if (getenv("CTRC_UPDATE_GOLDEN")) {
        FILE *f = fopen(arena_printf(fx->arena, "%s/%s", CTRC_SOURCE_DIR, path), "wb");
        if (!f) fail_msg("can't write %s", path);
        fputs(text, f);
        fclose(f);
    }
    assert_string_equal(text, fx_file(fx, path));
}

#endif
