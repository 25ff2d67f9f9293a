/* Files: the layer library, imports, and params, which a file's importer or the command line may set. */
#include "frontend/value.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_FILES 1000

/* ---- files ---- */

/* Reads and parses a file and registers it. NULL after an error. */
SourceFile *ev_open(Ev *ev, const char *path, Span at, bool library) {
    char real[PATH_MAX];
    if (!realpath(path, real)) {
        diag_error(ev->d, at, NULL, "can't read '%s': %s", path, strerror(errno));
        return NULL;
    }
    struct stat st;
    if (stat(real, &st) == 0 && S_ISDIR(st.st_mode)) {
        diag_error(ev->d, at, NULL, "can't read '%s': it is a directory", path);
        return NULL;
    }
    if (ev->n_files >= MAX_FILES) {
        ev_error(ev, at, NULL, "more than %d files", MAX_FILES);
        return NULL;
    }
    size_t size;
    int errors = ev->d->errors;
    const char *text = frontend_read_file(ev->a, ev->d, path, &size);
    if (!text) return NULL;
    int file = diag_add_file(ev->d, path, text, size, library);
    AstBlock *block = ast_parse(ev->a, ev->d, file);
    SourceFile *f = ARENA_NEW(ev->a, SourceFile);
    *f = (SourceFile){.path = path, .real = arena_strdup(ev->a, real), .file = file, .block = block};
    ARENA_PUSH(ev->a, ev->files, ev->n_files, ev->cap_files, f);
    return ev->d->errors == errors ? f : NULL;
}

static int ctr_file(const struct dirent *e) {
    size_t n = strlen(e->d_name);
    return n > 4 && strcmp(e->d_name + n - 4, ".ctr") == 0;
}

/* All files of the library share one scope, above which only built-ins stand: no name of the user's gets in.
 */
bool ev_load_library(Ev *ev) {
    struct dirent **names;
    int n = scandir(ev->library_dir, &names, ctr_file, alphasort), i;
    if (n <= 0) {
        if (n == 0) free(names);
        diag_error(ev->d, (Span){0}, NULL, "no layer library in '%s'", ev->library_dir);
        return false;
    }
    bool right = true;
    for (i = 0; i < n; i++) {
        const char *path = arena_printf(ev->a, "%s/%s", ev->library_dir, names[i]->d_name);
        SourceFile *f = right ? ev_open(ev, path, (Span){0}, true) : NULL;
        if (f) ev_block(ev, ev->library, f->block, true, NULL);
        right = right && f && ev->d->errors == 0;
        free(names[i]);
    }
    free(names);
    return right;
}

/* ---- import ---- */

static const char *beside(Ev *ev, const char *importing, const char *path) {
    const char *slash = strrchr(importing, '/');
    if (path[0] == '/' || !slash) return path;
    return arena_printf(ev->a, "%.*s%s", (int)(slash - importing + 1), importing, path);
}

static SourceFile *known_file(Ev *ev, const char *path) {
    char real[PATH_MAX];
    if (!realpath(path, real)) return NULL;
    for (int i = 0; i < ev->n_files; i++)
        if (strcmp(ev->files[i]->real, real) == 0) return ev->files[i];
    return NULL;
}

static void run_file(Ev *ev, SourceFile *f) {
    Part *part = ev->part;
    ev->part = NULL;
    f->running = true;
    f->scope = scope_new(ev, ev->library);
    ev_block(ev, f->scope, f->block, true, NULL);
    f->running = false;
    ev->part = part;
}

void ev_import(Ev *ev, Scope *s, const AstStmt *st) {
    const char *path = beside(ev, ev->d->files[st->span.file].path, st->import.path);
    SourceFile *f = known_file(ev, path);
    if (f && f->running) {
        ev_error(ev, st->import.path_span, NULL, "'%s' imports itself, directly or by way of others", path);
        return;
    }
    if (!f) {
        f = ev_open(ev, path, st->import.path_span, false);
        if (f) run_file(ev, f);
    }
    if (f && f->scope)
        scope_import(ev, s, f->scope, st->span);
    else
        ev->import_failed = true;
}

/* ---- params ---- */

static const Define *defined(Ev *ev, const char *name) {
    const Define *found = NULL;
    for (int i = 0; i < ev->n_defs; i++) {
        if (strcmp(ev->defs[i].name, name) != 0) continue;
        ev->def_used[i] = true;
        found = &ev->defs[i]; /* the last one counts */
    }
    return found;
}

static Value *parse_define(Ev *ev, const Define *def, const Value *like, Span at) {
    const char *text = def->value;
    if (like->kind == V_STRING) return ev_string(ev, text, strlen(text));
    if (like->kind == V_BOOL && strcmp(text, "true") == 0) return ev_bool(ev, true);
    if (like->kind == V_BOOL && strcmp(text, "false") == 0) return ev_bool(ev, false);
    if (like->kind == V_NUMBER) {
        char *end;
        double x = strtod(text, &end);
        bool plain = *text && !*end && isfinite(x) && !strpbrk(text, "xXpP \t\n");
        if (plain) return ev_number(ev, x);
    }
    ev_error(ev, at, NULL, "-D %s=%s: expected %s, as the default is", def->name, text,
             like->kind == V_BOOL ? "true or false" : "a number");
    return NULL;
}

static const char *type_name(const Value *v) {
    return v->kind == V_NUMBER ? "a number" : v->kind == V_BOOL ? "true or false" : "a string";
}

static void record(Ev *ev, const char *name, Value *v) {
    IrParam param = {.name = name, .is_string = v->kind == V_STRING};
    if (v->kind == V_STRING)
        param.str = v->string.s;
    else
        param.num = v->kind == V_BOOL ? v->boolean : v->number;
    ARENA_PUSH(ev->a, ev->p->params, ev->p->n_params, ev->p->cap_params, param);
    strmap_put(ev->a, &ev->params, name, v);
}

/* -D beats a param set before the import, which beats the default. */
void ev_param(Ev *ev, Scope *s, const AstStmt *st) {
    Value *v = ev_bound_value(ev, s, st->value, st->name, true);
    if (v && v->kind != V_NUMBER && v->kind != V_BOOL && v->kind != V_STRING) {
        ev_error(ev, st->value->span, NULL, "a param is a number, a string, true or false; found %s",
                 ev_describe(ev, v));
        v = NULL;
    }
    if (v && v->kind == V_STRING && strlen(v->string.s) != v->string.n) {
        ev_error(ev, st->value->span, NULL, "a param with a NUL byte");
        v = NULL;
    }
    const Define *def = defined(ev, st->name);
    Value *earlier = scope_own(s, st->name) ? NULL : strmap_get(&ev->params, st->name);
    if (v && earlier && earlier->kind != v->kind) {
        ev_error(ev, st->value->span, NULL, "param '%s' was set to %s before the import, but is %s here",
                 st->name, type_name(earlier), type_name(v));
        v = NULL;
    } else if (v && earlier) {
        v = earlier;
    } else if (v && def) {
        v = parse_define(ev, def, v, st->name_span);
    }
    if (scope_bind(ev, s, st->name, v, BIND_PARAM, st->name_span, st) && v && !earlier)
        record(ev, st->name, v);
}
