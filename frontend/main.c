/* ctrc: the driver. Source or IR text → program → passes → what was asked for. Results go to stdout or -o,
 * everything else to stderr. Exit codes: 0 done, 1 failed (I/O), 2 wrong usage or no valid program. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "backend/backend.h"
#include "frontend/ast.h"
#include "frontend/compile.h"
#include "frontend/driver_files.h"
#include "frontend/options.h"
#include "passes/product_cost.h"

enum { DONE = 0, FAILED = 1, WRONG = 2 };

typedef struct {
    Arena *a;
    Diag *d;
    Options o;
    BackendPage *page; /* --emit=html: fed while the passes run */
} Driver;

/* ---- getting a program ---- */

static bool is_ir(const char *path) {
    size_t n = strlen(path);
    return n > 3 && !strcmp(path + n - 3, ".ir");
}

/* DONE, or FAILED after an error: the file isn't there or can't be read. */
static int can_read(Driver *v, const char *path) {
    size_t size;
    if (access(path, R_OK) == 0) return DONE;
    frontend_read_file(v->a, v->d, path, &size);
    return FAILED;
}

static int load_ir(Driver *v, const char *path, IrProgram **out) {
    size_t size;
    const char *text = frontend_read_file(v->a, v->d, path, &size);
    if (!text) return WRONG;
    diag_add_file(v->d, path, text, size, false); /* so that it isn't overwritten */
    *out = ir_read(v->a, v->d, path, text, size);
    return *out && ir_verify(*out) ? DONE : WRONG;
}

static int load(Driver *v, const char *path, IrProgram **out) {
    int r = can_read(v, path);
    if (r != DONE) return r;
    if (is_ir(path)) return load_ir(v, path, out);
    const char *layers = driver_layer_dir(v->a, v->d);
    if (!layers) return FAILED;
    *out = frontend_compile(v->a, v->d, path, v->o.defs, v->o.n_defs, layers);
    if (!*out || v->d->errors) return WRONG;
    return !v->o.pass.verify_each || ir_verify(*out) ? DONE : WRONG;
}

/* What products cost on this CPU, where -O2 asks for it. False: error reported. */
static bool find_costs(Driver *v) {
    Options *o = &v->o;
    const char *lib = o->tune ? driver_runtime_dir(v->a, v->d) : NULL;
    if (o->tune) o->pass.costs = lib ? backend_tune(v->d, v->a, lib) : NULL;
    if (o->tune) return o->pass.costs != NULL;
    if (o->pass.level == 2 && !o->alone) o->pass.costs = backend_costs(v->d, v->a, o->march);
    return true;
}

/* What came of measuring: the record of schedule, which may be written into a model file. */
static void note_tuned(Driver *v, const IrProgram *p) {
    if (!v->o.pass.costs->asked) {
        diag_warn(v->d, (Span){0},
                  "an .ir file that schedule has run on has them, and schedule(products=…) says them",
                  "--tune-kernels measured nothing: no product's kernel is left to choose");
        return;
    }
    const char *record = "";
    for (int i = 0; i < p->n_applied; i++)
        if (!strncmp(p->applied[i], "schedule", 8)) record = p->applied[i];
    bool chosen = strstr(record, "library=") || strstr(record, "tile=");
    fprintf(stderr, "kernels: %s\n", chosen ? record : "as without measuring, none is better");
}

/* A plan or a picture may be of a part of a program, code is of the whole. */
static bool makes_code(const Driver *v) {
    return v->o.command == CMD_COMPILE && v->o.emit != EMIT_IR && v->o.emit != EMIT_PLAN &&
           v->o.emit != EMIT_HTML && v->o.emit != EMIT_DOT;
}

static int load_and_transform(Driver *v, IrProgram **out) {
    if (!backend_target(v->d, v->o.march, &v->o.pass.target)) return WRONG;
    if (!find_costs(v)) return FAILED;
    int r = load(v, v->o.file, out);
    if (r != DONE) return r;
    v->o.pass.out = stdout;
    if (v->o.emit == EMIT_HTML) {
        v->page = backend_page_new(v->a);
        v->o.pass.watch = backend_page_keep;
        v->o.pass.watch_context = v->page;
    }
    if (!pass_run_all(*out, &v->o.pass)) return v->o.pass.costs && v->o.pass.costs->failed ? FAILED : WRONG;
    if (v->o.tune) note_tuned(v, *out);
    return !makes_code(v) || backend_has_functions(*out) ? DONE : WRONG;
}

/* ---- commands ---- */

static int emit_ast(Driver *v, DriverOutput *out) {
    size_t size;
    const char *text = frontend_read_file(v->a, v->d, v->o.file, &size);
    if (!text) return WRONG;
    AstBlock *b = ast_parse(v->a, v->d, diag_add_file(v->d, v->o.file, text, size, false));
    if (v->d->errors) return WRONG;
    ast_print(b, out->file);
    return DONE;
}

static bool emit_program(Driver *v, IrProgram *p, FILE *out) {
    switch (v->o.emit) {
    case EMIT_IR:
        if (v->o.pass.print_only)
            ir_print_only(p, v->o.pass.print_only, out);
        else
            ir_print(p, out);
        return true;
    case EMIT_PLAN: return backend_emit_plan(p, v->o.march, v->o.pass.costs, out);
    case EMIT_HTML: return backend_page_write(v->page, p, v->o.march, out);
    case EMIT_DOT: backend_emit_dot(p, out); return true;
    case EMIT_LLVM_TEXT: return backend_emit(p, v->o.march, v->o.pass.level, EMIT_LLVM, out);
    case EMIT_ASSEMBLY: return backend_emit(p, v->o.march, v->o.pass.level, EMIT_ASM, out);
    case EMIT_OBJECT: return backend_emit(p, v->o.march, v->o.pass.level, EMIT_OBJ, out);
    default: return false;
    }
}

/* --emit=…: the output is opened last, so that an error leaves nothing behind. */
static int emit(Driver *v) {
    IrProgram *p = NULL;
    DriverOutput out;
    int r = v->o.emit == EMIT_AST ? can_read(v, v->o.file) : load_and_transform(v, &p);
    if (r != DONE) return r;
    if (v->o.emit == EMIT_OBJECT && !v->o.out && isatty(STDOUT_FILENO)) {
        diag_error(v->d, (Span){0}, NULL, "--emit=obj needs -o FILE: an object is nothing for a terminal");
        return WRONG;
    }
    if (!driver_open(v->a, v->d, v->o.out, &out)) return FAILED;
    if (v->o.emit == EMIT_AST)
        r = emit_ast(v, &out);
    else
        r = emit_program(v, p, out.file) ? DONE : FAILED;
    return driver_close(v->d, &out, r == DONE) ? r : FAILED;
}

/* "models/deepfm.ctr" → "deepfm" */
static const char *stem(Arena *a, const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    return arena_strndup(a, base, (size_t)(strrchr(base, '.') - base));
}

static int compile(Driver *v) {
    const char *lib = driver_runtime_dir(v->a, v->d), *name = stem(v->a, v->o.file);
    bool library = v->o.emit == EMIT_LIBRARY;
    const char *exe = v->o.out ? v->o.out : library && *name ? arena_printf(v->a, "lib%s.so", name) : name;
    if (!lib) return FAILED;
    if (!*exe) {
        diag_error(v->d, (Span){0}, NULL, "'%s' has no name to call the program by: give one with -o",
                   v->o.file);
        return WRONG;
    }
    IrProgram *p = NULL;
    int r = load_and_transform(v, &p);
    if (r != DONE) return r;
    if (!driver_may_write(v->d, exe, true)) return FAILED;
    if (library) return backend_link_library(p, v->o.march, v->o.pass.level, lib, exe) ? DONE : FAILED;
    return backend_link(p, v->o.march, v->o.pass.level, lib, exe, v->o.alone) ? DONE : FAILED;
}

static int check(Driver *v) {
    IrProgram *p = NULL;
    DriverOutput out = {.file = stdout}; /* --print-after and the like */
    int r = load_and_transform(v, &p);
    return driver_close(v->d, &out, r == DONE) ? r : FAILED;
}

static int diff(Driver *v) {
    IrProgram *p = NULL, *q = NULL;
    int r = load(v, v->o.file, &p);
    if (r == DONE) r = load(v, v->o.second, &q);
    if (r != DONE) return r;
    int n = frontend_diff(p, q, stdout);
    if (n == 0) fputs("no difference\n", stderr);
    DriverOutput out = {.file = stdout};
    return driver_close(v->d, &out, true) ? DONE : FAILED;
}

static int synth(Driver *v) {
    IrProgram *p = NULL;
    double best = 0;
    int r = load(v, v->o.file, &p);
    if (r != DONE) return r;
    if (!driver_may_write(v->d, v->o.out, false)) return FAILED;
    if (!frontend_synth(p, v->o.rows, v->o.seed, v->o.out, &best)) return FAILED;
    printf("best possible AUC %.4f\n", best);
    DriverOutput out = {.file = stdout};
    return driver_close(v->d, &out, true) ? DONE : FAILED;
}

static int run(Driver *v) {
    DriverOutput out = {.file = stdout};
    switch (v->o.command) {
    case CMD_COMPILE: return v->o.emit != EMIT_NOTHING && v->o.emit != EMIT_LIBRARY ? emit(v) : compile(v);
    case CMD_CHECK: return check(v);
    case CMD_DIFF: return diff(v);
    case CMD_SYNTH: return synth(v);
    case CMD_LIST_PASSES: pass_list(stdout); break;
    case CMD_VERSION: puts("ctrc " CTRC_VERSION); break;
    case CMD_HELP: options_help(stdout); break;
    }
    return driver_close(v->d, &out, true) ? DONE : FAILED;
}

/* No file may become stdin, stdout or stderr where one of these was closed, or a message would be written
 * into it. Using them fails as it would have. */
static void hold_standard_streams(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd) abort();
}

int main(int argc, char **argv) {
    hold_standard_streams();
    signal(SIGXFSZ, SIG_IGN); /* a file too large is a failed write, after which nothing half written stays */
    Driver v = {.a = arena_new()};
    v.d = diag_new(v.a, stderr);
    int r = options_parse(v.a, v.d, argc, argv, &v.o) ? run(&v) : WRONG;
    arena_free(v.a);
    return r;
}
