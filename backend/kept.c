#include "backend/kept.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

const char *kept_path(Arena *a, const char *name, bool make) {
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (!base || *base != '/') {
        if (!home || *home != '/') return NULL;
        base = arena_printf(a, "%s/.cache", home);
    }
    const char *folder = arena_printf(a, "%s/ctrc", base);
    if (make && mkdir(base, 0777) != 0 && errno != EEXIST) return NULL;
    if (make && mkdir(folder, 0777) != 0 && errno != EEXIST) return NULL;
    return arena_printf(a, "%s/%s", folder, name);
}

bool kept_write(Arena *a, const char *path, json_t *j) {
    enum { DIGITS = 4 }; /* a measured figure has no more */
    char *temporary = arena_printf(a, "%s.XXXXXX", path);
    int fd = mkstemp(temporary);
    if (fd < 0) {
        json_decref(j);
        return false;
    }
    bool ok = j && json_dumpfd(j, fd, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS)) == 0;
    json_decref(j);
    ok = close(fd) == 0 && ok && rename(temporary, path) == 0;
    int why = errno;
    if (!ok) unlink(temporary);
    errno = why;
    return ok;
}
