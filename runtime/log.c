#include "runtime/log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "runtime/message.h"

struct RtLog {
    FILE *f;
    const char *path;
    int error;
};

RtLog *rt_log_open(const char *path, char *err, size_t err_bytes) {
    char reason[RT_SHOWN];
    FILE *f = fopen(path, "w");
    if (!f) {
        snprintf(err, err_bytes, "cannot write %s: %s", path, rt_reason(errno, reason));
        return NULL;
    }
    RtLog *l = malloc(sizeof *l);
    if (!l) abort();
    *l = (RtLog){f, path, 0};
    return l;
}

void rt_log_write(RtLog *l, json_t *o) {
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(o);
    if (!text) abort();
    errno = 0;
    if ((fprintf(l->f, "%s\n", text) < 0 || fflush(l->f)) && !l->error) l->error = errno ? errno : EIO;
    free(text);
}

bool rt_log_close(RtLog *l, char *err, size_t err_bytes) {
    if (!l) return true;
    char reason[RT_SHOWN];
    if (fclose(l->f) && !l->error) l->error = errno;
    int e = l->error;
    if (e) snprintf(err, err_bytes, "cannot write %s: %s", l->path, rt_reason(e, reason));
    free(l);
    return !e;
}
