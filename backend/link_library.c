/* --emit=lib: the model as a shared library and a C header. The library's functions are those of
 * runtime/library.h under the model's name; a version script keeps everything else inside. */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "backend/link.h"

static const char *const functions[][2] = {{"open", "rt_library_open"},
                                           {"predict", "rt_library_predict"},
                                           {"predictions", "rt_library_predictions"},
                                           {"prediction_name", "rt_library_name"},
                                           {"close", "rt_library_close"}};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* ---- the header ---- */

static const char header_text[] =
    "/* The model '@' as a library, made by ctrc. Link with lib@.so; see models/serving. */\n"
    "#ifndef CTRC_MODEL_$_H\n"
    "#define CTRC_MODEL_$_H\n"
    "#include <stddef.h>\n"
    "#ifdef __cplusplus\n"
    "extern \"C\" {\n"
    "#endif\n"
    "\n"
    "typedef struct @_model @_model; /* the model with a checkpoint's weights */\n"
    "enum {\n"
    "    $_OK = 0,\n"
    "    $_BAD_ROWS = 1,   /* every row has its place; those of rows that cannot be read hold NaN */\n"
    "    $_CHECKPOINT = 2, /* not there, damaged, or of another model */\n"
    "    $_ARGUMENT = 3,   /* the call itself is wrong, nothing was done */\n"
    "    $_MACHINE = 4,    /* the model's code cannot run on this CPU */\n"
    "    $_MEMORY = 5      /* out of memory */\n"
    "};\n"
    "\n"
    "/* message: room for a text about what went wrong, empty if nothing did; NULL with 0 bytes if it isn't "
    "wanted.\n"
    " * No function prints, and none ends the process. */\n"
    "int @_open(const char *checkpoint, @_model **model, char *message, size_t message_bytes);\n"
    "\n"
    "/* rows: text as in a log file of the model, the header line first if its files have one; label fields "
    "may hold\n"
    " * anything. Predictions go to out, row by row, @_predictions() floats a row. *n_rows: how many rows "
    "out has\n"
    " * room for; afterwards how many there were. Threads may call this side by side on one model; each call "
    "runs on the\n"
    " * thread that makes it. */\n"
    "int @_predict(@_model *model, const char *rows, size_t bytes, float *out, size_t *n_rows,\n"
    "    char *message, size_t message_bytes);\n"
    "\n"
    "size_t @_predictions(const @_model *model); /* of a row */\n"
    "const char *@_prediction_name(const @_model *model, size_t i);\n"
    "void @_close(@_model *model); /* NULL is allowed; no call may be running */\n"
    "\n"
    "#ifdef __cplusplus\n"
    "}\n"
    "#endif\n"
    "#endif\n";

/* '@' is the model's name, '$' the same in capitals. */
static void put_header(FILE *f, const char *name) {
    for (const char *s = header_text; *s; s++) {
        if (*s == '@')
            fputs(name, f);
        else if (*s == '$')
            for (const char *c = name; *c; c++) fputc(toupper((unsigned char)*c), f);
        else
            fputc(*s, f);
    }
}

static void put_exports(FILE *f, const char *name) {
    fputs("{\n  global:\n", f);
    for (int i = 0; i < FUNCTIONS; i++) fprintf(f, "    %s_%s;\n", name, functions[i][0]);
    fputs("  local: *;\n};\n", f);
}

/* A new file beside `to` with what `put` writes; NULL and an error. */
static char *written(IrProgram *p, const char *to, void (*put)(FILE *, const char *)) {
    char *path = link_temporary(p, to, "");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (f) put(f, p->name);
    bool ok = f && !ferror(f);
    if (f && fclose(f)) ok = false;
    if (ok || !path) return path;
    diag_error(p->diag, (Span){0}, NULL, "can't write '%s': %s", path, strerror(errno));
    unlink(path);
    return NULL;
}

/* ---- the library ---- */

bool backend_link_library(IrProgram *p, const char *march, int level, const char *lib_dir, const char *so) {
    const char *slash = strrchr(so, '/');
    const char *header = arena_printf(p->arena, "%.*s%s.h", slash ? (int)(slash + 1 - so) : 0, so, p->name);
    char *text = written(p, header, put_header), *exports = text ? written(p, so, put_exports) : NULL;
    const char *more[FUNCTIONS * 2 + 12];
    int n = 0; /* a comma in a name ends an argument of -Wl, not one of -Xlinker */
    more[n++] = "-ldnnl";
    more[n++] = "-shared";
    more[n++] = "-Xlinker";
    more[n++] = arena_printf(p->arena, "-soname=%s", slash ? slash + 1 : so);
    more[n++] = "-Xlinker";
    more[n++] = arena_printf(p->arena, "--version-script=%s", exports ? exports : "");
    more[n++] = "-Wl,--wrap=abort";
    more[n++] = "-Wl,--wrap=exit";
    more[n++] = "-Wl,--wrap=rt_warn";
    more[n++] = "-Wl,--wrap=rt_out_of_memory";
    for (int i = 0; i < FUNCTIONS; i++) {
        more[n++] = arena_printf(p->arena, "-Wl,-u,%s", functions[i][1]);
        more[n++] =
            arena_printf(p->arena, "-Wl,--defsym,%s_%s=%s", p->name, functions[i][0], functions[i][1]);
    }
    more[n] = NULL;
    bool ok =
        exports && link_program(p, march, level, lib_dir, more, so) && link_publish(p, text, header, 0666);
    if (exports) unlink(exports);
    if (text && !ok) unlink(text);
    return ok;
}
