/* Reads a source file whole. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "frontend/compile.h"

enum { LIMIT = 64 << 20 };

static const char *fail(Diag *d, const char *path, const char *why) {
    Span nowhere = {0};
    diag_error(d, nowhere, NULL, "can't read '%s': %s", path, why);
    return NULL;
}

static const char *too_large(Arena *a, Diag *d, const char *path, long long size) {
    char *found = size > LIMIT ? arena_printf(a, "%lld", size) : arena_printf(a, "more than %d", LIMIT);
    return fail(d, path, arena_printf(a, "expected at most %d bytes, found %s", LIMIT, found));
}

const char *frontend_read_file(Arena *a, Diag *d, const char *path, size_t *size) {
    *size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail(d, path, strerror(errno));
    struct stat st;
    const char *result = NULL;
    if (fstat(fd, &st) != 0)
        result = fail(d, path, strerror(errno));
    else if (S_ISDIR(st.st_mode))
        result = fail(d, path, "it is a directory");
    else if (S_ISREG(st.st_mode) && st.st_size > LIMIT)
        result = too_large(a, d, path, st.st_size);
    else {
        /* pipes tell no size, and a file may grow: read until the end, whatever fstat said */
        size_t cap = S_ISREG(st.st_mode) ? (size_t)st.st_size + 1 : 1 << 16, n = 0;
        char *text = arena_alloc(a, cap + 1);
        for (;;) {
            if (n == cap) {
                text = arena_grow(a, text, cap + 1, cap * 2 + 1);
                cap *= 2;
            }
            ssize_t got = read(fd, text + n, cap - n);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) {
                result = fail(d, path, strerror(errno));
                break;
            }
            if (got == 0) {
                text[n] = 0;
                *size = n;
                result = text;
                break;
            }
            n += (size_t)got;
            if (n > LIMIT) {
                result = too_large(a, d, path, -1);
                break;
            }
        }
    }
    close(fd);
    return result;
}
