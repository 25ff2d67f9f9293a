#include "runtime/outfile.h"
#include <errno.h>
#include <fcntl.h>
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

/* Its name is given at the end, by way of /proc. */
static FILE *nameless(const RtOut *o) {
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%s", o->path);
    char *slash = strrchr(dir, '/');
    if (slash) slash[slash == dir] = 0;
    if (access("/proc/self/fd", X_OK)) return NULL;
    int fd = open(slash ? dir : ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    return fd < 0 ? NULL : fdopen(fd, "w");
}

/* A file of our own beside path: whatever has its name already, a link of somebody else's among it, is left
 * alone. Permissions are those of any new file, mkstemp's is its owner's only. */
static FILE *named(RtOut *o) {
    int fd = mkostemp(o->temp, O_CLOEXEC);
    if (fd < 0) return NULL;
    o->named = true;
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, 0666 & ~mask);
    return fdopen(fd, "w");
}

static bool give_name(RtOut *o) {
    char from[40], *end = o->temp + strlen(o->temp) - 6;
    snprintf(from, sizeof from, "/proc/self/fd/%d", fileno(o->f));
    for (unsigned k = 0; k < 1000 && !o->named; k++) {
        snprintf(end, 7, "%06u", ((unsigned)getpid() + k) % 1000000);
        o->named = !linkat(AT_FDCWD, from, AT_FDCWD, o->temp, AT_SYMLINK_FOLLOW);
        if (!o->named && errno != EEXIST) break;
    }
    return o->named;
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
    if (!(o->f = nameless(o))) o->f = named(o);
    return o->f ? RT_EXIT_OK : rt_out_failed(o);
}

int rt_out_close(RtOut *o, int code) {
    errno = 0;
    bool ok = o->f && !ferror(o->f) && !fflush(o->f);
    if (o->temp[0] && ok) ok = !fsync(fileno(o->f)) && (code != RT_EXIT_OK || o->named || give_name(o));
    if (o->f && o->f != stdout) ok &= !fclose(o->f);
    if (!ok && code == RT_EXIT_OK) code = rt_out_failed(o);
    if (code == RT_EXIT_OK && o->temp[0] && rename(o->temp, o->path)) code = rt_out_failed(o);
    if (code != RT_EXIT_OK && o->named) unlink(o->temp);
    return code;
}
