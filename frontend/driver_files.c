#include "frontend/driver_files.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const Span no_place = {0};

/* ---- the compiler's own files ---- */

/* The folder above the one that holds the running program. */
static const char *root(Arena *a, Diag *d) {
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    if (n <= 0 || n == (ssize_t)sizeof path) {
        diag_error(d, no_place, NULL, "can't tell where ctrc itself lies: /proc/self/exe: %s",
                   n < 0 ? strerror(errno) : "too long");
        return NULL;
    }
    path[n] = 0;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(path, '/');
        if (slash) *slash = 0;
    }
    return arena_strdup(a, path);
}

static const char *own_dir(Arena *a, Diag *d, const char *dir, const char *holds, const char *what) {
    const char *r = root(a, d);
    if (!r) return NULL;
    const char *file = arena_printf(a, "%s/%s%s", r, dir, holds);
    if (access(file, R_OK) != 0) {
        diag_error(d, no_place, "bin/, lib/ and share/ of an installed ctrc are moved together",
                   "can't find %s: %s: %s", what, file, strerror(errno));
        return NULL;
    }
    return arena_printf(a, "%s/%s", r, dir);
}

const char *driver_runtime_dir(Arena *a, Diag *d) {
    return own_dir(a, d, "lib/ctrc", "/libctrc_rt.a", "the runtime library");
}
const char *driver_layer_dir(Arena *a, Diag *d) {
    return own_dir(a, d, "share/ctrc/lib", "/dense.ctr", "the layer library");
}

/* ---- outputs ---- */

bool driver_may_write(Diag *d, const char *path, bool whole) {
    struct stat st, source;
    if (stat(path, &st) != 0) return true; /* opening it says what is wrong, if anything */
    if (S_ISDIR(st.st_mode)) {
        diag_error(d, no_place, "choose another name with -o", "can't write '%s': it is a directory", path);
        return false;
    }
    if (whole && !S_ISREG(st.st_mode)) {
        diag_error(d, no_place, "ctrc check compiles without an output",
                   "can't write '%s': expected a regular file", path);
        return false;
    }
    for (int i = 0; i < d->n_files; i++)
        if (stat(d->files[i].path, &source) == 0 && source.st_dev == st.st_dev &&
            source.st_ino == st.st_ino) {
            diag_error(d, no_place, "choose another name with -o",
                       "can't write '%s': the program was read from it", path);
            return false;
        }
    return true;
}

static bool failed(Diag *d, const char *path) {
    diag_error(d, no_place, NULL, "can't write '%s': %s", path ? path : "stdout",
               strerror(errno ? errno : EIO));
    return false;
}

bool driver_open(Arena *a, Diag *d, const char *path, DriverOutput *out) {
    struct stat st;
    *out = (DriverOutput){.file = stdout, .path = path};
    if (!path) return true;
    if (!driver_may_write(d, path, false)) return false;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        out->file = fopen(path, "wb");
        return out->file || failed(d, path);
    }
    char *temporary = arena_printf(a, "%s.XXXXXX", path);
    int fd = mkstemp(temporary);
    if (fd < 0) return failed(d, path);
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, 0666 & ~mask); /* mkstemp gave 0600 */
    out->file = fdopen(fd, "wb");
    out->temporary = temporary;
    if (out->file) return true;
    close(fd);
    unlink(temporary);
    return failed(d, path);
}

bool driver_close(Diag *d, DriverOutput *out, bool keep) {
    errno = 0;
    bool ok = fflush(out->file) == 0 && !ferror(out->file);
    int why = errno;
    if (out->file != stdout && fclose(out->file) != 0) {
        ok = false;
        why = errno;
    }
    if (ok && keep && out->temporary && rename(out->temporary, out->path) != 0) {
        ok = false;
        why = errno;
    }
    if (out->temporary && (!ok || !keep)) unlink(out->temporary);
    errno = why;
    return ok || (keep && failed(d, out->path)); /* not kept: what went wrong was told */
}
