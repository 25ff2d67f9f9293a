#include "runtime/outfile.h"
#include <errno.h>
#include <stdbool.h>
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
    if ((size_t)snprintf(o->temp, sizeof o->temp, "%s.tmp", path) >= sizeof o->temp) {
        errno = ENAMETOOLONG;
        return rt_out_failed(o);
    }
    o->f = fopen(o->temp, "w");
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
