#include "runtime/outfile.h"
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/message.h"
#include "runtime/program.h"

int rt_out_failed(const RtOut *o) {
    char reason[RT_SHOWN];
    return rt_fail(RT_EXIT_FAILED, "cannot write %s%s: %s", o->path ? "" : "to ",
                   o->path ? o->path : "stdout", rt_reason(errno, reason));
}

/* A file of our own beside path: whatever has its name already, a link of somebody else's among it, is left
 * alone. Permissions are those of any new file, mkstemp's is its owner's only. */
static FILE *temporary(RtOut *o) {
    int fd = mkstemp(o->temp);
    if (fd < 0) {
        o->temp[0] = 0; /* nothing to remove */
        return NULL;
    }
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, 0666 & ~mask);
    return fdopen(fd, "w");
}

int rt_out_open(RtOut *o, const char *path) {
    struct stat st;
    *o = (RtOut){.f = stdout, .path = path};
    if (!path) return RT_EXIT_OK;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        if (S_ISDIR(st.st_mode))
            errno = EISDIR;
        else
            o->f = fopen(path, "w");
        return S_ISDIR(st.st_mode) || !o->f ? rt_out_failed(o) : RT_EXIT_OK;
    }
    if ((size_t)snprintf(o->temp, sizeof o->temp, "%s.XXXXXX", path) >= sizeof o->temp) {
        errno = ENAMETOOLONG;
        return rt_out_failed(o);
    }
    o->f = temporary(o);
    return o->f ? RT_EXIT_OK : rt_out_failed(o);
}

int rt_out_close(RtOut *o, int code) {
    errno = 0;
    bool ok = o->f && !ferror(o->f) && !fflush(o->f);
    if (o->temp[0] && ok) ok = !fsync(fileno(o->f));
    if (o->f && o->f != stdout) ok &= !fclose(o->f);
    if (!ok && code == RT_EXIT_OK) code = rt_out_failed(o);
    if (!o->temp[0]) return code;
    if (code == RT_EXIT_OK && rename(o->temp, o->path)) code = rt_out_failed(o);
    if (code != RT_EXIT_OK) unlink(o->temp);
    return code;
}
