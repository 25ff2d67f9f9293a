/* The command line of ctrc: argv into one struct, every mistake in it reported. */
#ifndef CTRC_FRONTEND_OPTIONS_H
#define CTRC_FRONTEND_OPTIONS_H
#include "frontend/compile.h"
#include "passes/pass.h"

typedef enum { CMD_COMPILE, CMD_CHECK, CMD_DIFF, CMD_SYNTH, CMD_LIST_PASSES, CMD_VERSION, CMD_HELP } Command;
typedef enum {
    EMIT_NOTHING,
    EMIT_AST,
    EMIT_IR,
    EMIT_PLAN,
    EMIT_LLVM_TEXT,
    EMIT_ASSEMBLY,
    EMIT_OBJECT,
    EMIT_DOT,
    EMIT_HTML,
    EMIT_LIBRARY
} Emit;

typedef struct {
    Command command;
    const char *file, *second; /* second: of `diff` */
    const char *out;           /* -o, NULL if not given */
    Define *defs;
    int n_defs, cap_defs; /* each name once, the last value given */
    Emit emit;
    const char *march;
    bool alone;   /* --static */
    bool tune;    /* --tune-kernels */
    int64_t rows; /* synth */
    uint64_t seed;
    PassOptions pass; /* all but target and out */
} Options;

/* False after errors in d. */
bool options_parse(Arena *a, Diag *d, int argc, char **argv, Options *o);
void options_help(FILE *out);

#endif
