/* Linking: the object goes to a file beside the executable, `cc` joins it with the runtime library, and only
 * a finished executable takes the wanted name. `cc` is started directly, never through a shell.
 *
 * A library (--emit=lib) is linked from the same objects. Its functions are the runtime's, under names that
 * begin with the model's, and nothing else is seen from outside, so two models can be in one process. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "backend/link.h"

extern char **environ;

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1 /* the runtime library was built with it, so the program must be linked with it */
#else
#define SANITIZED 0
#endif

/* An empty file beside exe, named EXE.XXXXXX; its path, or NULL and an error. `cc` would take -x.o for an
 * option,
 * @x.o for a file of arguments. */
char *link_temporary(IrProgram *p, const char *exe, const char *suffix) {
    const char *here = *exe == '-' || *exe == '@' ? "./" : "";
    char *path = arena_printf(p->arena, "%s%s.XXXXXX%s", here, exe, suffix);
    int fd = mkstemps(path, (int)strlen(suffix));
    if (fd < 0) {
        diag_error(p->diag, (Span){0}, NULL, "can't write beside '%s': %s", exe, strerror(errno));
        return NULL;
    }
    close(fd);
    return path;
}

enum { OBJECTS = 2 };

static FILE *open_object(IrProgram *p, const char *path) {
    FILE *f = fopen(path, "wb");
    if (!f) diag_error(p->diag, (Span){0}, NULL, "can't write '%s': %s", path, strerror(errno));
    return f;
}

static bool write_objects(IrProgram *p, const char *march, int level, char *const path[OBJECTS]) {
    FILE *f[OBJECTS] = {open_object(p, path[0])};
    if (f[0] && !(f[1] = open_object(p, path[1]))) fclose(f[0]);
    if (!f[0] || !f[1]) return false;
    bool ok = backend_emit_parts(p, march, level, f[0], f[1]);
    for (int i = 0; i < OBJECTS; i++)
        if (fclose(f[i]) && ok) {
            diag_error(p->diag, (Span){0}, NULL, "can't write '%s': %s", path[i], strerror(errno));
            ok = false;
        }
    return ok;
}

bool link_run(IrProgram *p, char *const *object, int n_objects, const char *lib, const char *const *more,
              const char *to) {
    enum { FIXED = 16 };
    int n = 0, count = 0;
    while (more && more[count]) count++;
    char **argv = ARENA_ARRAY(p->arena, char *, FIXED + n_objects + count);
    const char *const before[] = {"cc", "-o", to};
    const char *const after[] = {lib, "-lxxhash", "-lz", "-lzstd", "-ljansson", "-lpthread", "-lm"};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) argv[n++] = (char *)before[i];
    for (int i = 0; i < n_objects; i++) argv[n++] = object[i];
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) argv[n++] = (char *)after[i];
    for (int i = 0; i < count; i++) argv[n++] = (char *)more[i];
    if (SANITIZED) argv[n++] = "-fsanitize=address,undefined";
    pid_t pid;
    setenv("PATH", "/usr/bin:/bin", 0); /* without any, cc is found and cannot find the linker */
    int failed = posix_spawnp(&pid, "cc", NULL, NULL, argv, environ);
    if (failed) {
        diag_error(p->diag, (Span){0}, failed == ENOENT ? "apt-get install gcc" : NULL,
                   "cannot %s 'cc', which links the program%s%s", failed == ENOENT ? "find" : "run",
                   failed == ENOENT ? "" : ": ", failed == ENOENT ? "" : strerror(failed));
        return false;
    }
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return false;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    diag_error(
        p->diag, (Span){0},
        "what it needs: apt-get install gcc libdnnl-dev libxxhash-dev zlib1g-dev libzstd-dev libjansson-dev",
        "'cc' could not link the program (its messages stand above)");
    return false;
}

/* Debian has oneDNN as a shared library only. The runtime's one call of it is linked where a kernel needs it.
 */
static bool may_stand_alone(IrProgram *p) {
    if (SANITIZED) {
        diag_error(p->diag, (Span){0}, NULL,
                   "--static: sanitizers, which this ctrc was built with, can't be");
        return false;
    }
    for (int f = 0; f < p->n_funcs; f++)
        for (int i = 0; i < p->funcs[f]->body.n; i++) {
            const IrNode *n = p->funcs[f]->body.nodes[i];
            if (n->plan.kernel != KERNEL_LIBRARY || n->plan.domain == DOM_NONE) continue;
            diag_error(p->diag, n->span, "--enable='schedule(products=tile)' generates code for each",
                       "--static: a product is planned for oneDNN, which can't be linked statically");
            return false;
        }
    return true;
}

/* Permissions as any new file gets them: mkstemp's is its owner's alone. */
bool link_publish(IrProgram *p, const char *from, const char *to, unsigned mode) {
    mode_t mask = umask(0);
    umask(mask);
    if (chmod(from, mode & ~mask) == 0 && rename(from, to) == 0) return true;
    diag_error(p->diag, (Span){0}, NULL, "can't write '%s': %s", to, strerror(errno));
    return false;
}

bool link_program(IrProgram *p, const char *march, int level, const char *lib_dir, const char *const *more,
                  const char *exe) {
    const char *lib = arena_printf(p->arena, "%s/libctrc_rt.a", lib_dir);
    if (access(lib, R_OK) != 0) {
        diag_error(p->diag, (Span){0},
                   "ctrc looks for it in ../lib/ctrc beside its own folder: was ctrc moved without it?",
                   "can't read the runtime library '%s': %s", lib, strerror(errno));
        return false;
    }
    char *object[OBJECTS] = {link_temporary(p, exe, ".o")}, *program = NULL;
    if (object[0]) object[1] = link_temporary(p, exe, ".o");
    if (object[1]) program = link_temporary(p, exe, "");
    bool ok = program && write_objects(p, march, level, object) &&
              link_run(p, object, OBJECTS, lib, more, program) && link_publish(p, program, exe, 0777);
    if (program && !ok) unlink(program);
    for (int i = 0; i < OBJECTS; i++)
        if (object[i]) unlink(object[i]);
    return ok;
}

bool backend_link(IrProgram *p, const char *march, int level, const char *lib_dir, const char *exe,
                  bool alone) {
    const char *const more[] = {alone ? "-static" : "-ldnnl", NULL};
    return (!alone || may_stand_alone(p)) && link_program(p, march, level, lib_dir, more, exe);
}
