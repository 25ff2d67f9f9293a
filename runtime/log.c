#include "runtime/log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>
#include "runtime/message.h"

struct RtLog {
    FILE *f;
    const char *path;
    int error;
};

/* Where the first line begins that is of a later step, or isn't whole; the file's end if there is none. */
static off_t end_of_step(FILE *f, uint64_t after) {
    char *line = NULL;
    size_t cap = 0;
    off_t at = 0;
    for (ssize_t n; (n = getline(&line, &cap, f)) > 0; at += n) {
        json_t *o = json_loadb(line, (size_t)n, 0, NULL);
        const json_t *step = json_object_get(o, "step");
        bool earlier =
            line[n - 1] == '\n' && json_is_integer(step) && (uint64_t)json_integer_value(step) <= after;
        json_decref(o);
        if (!earlier) break;
    }
    free(line);
    return at;
}

static FILE *open_behind(const char *path, uint64_t after) {
    FILE *f = fopen(path, "r+");
    if (!f) return errno == ENOENT ? fopen(path, "w") : NULL;
    off_t at = end_of_step(f, after);
    if (!fseeko(f, at, SEEK_SET) && !ftruncate(fileno(f), at)) return f;
    int e = errno;
    fclose(f);
    errno = e;
    return NULL;
}

RtLog *rt_log_open(const char *path, uint64_t after, char *err, size_t err_bytes) {
    char reason[RT_SHOWN];
    FILE *f = after ? open_behind(path, after) : fopen(path, "w");
    if (!f) {
        snprintf(err, err_bytes, "cannot write %s: %s", path, rt_reason(errno, reason));
        return NULL;
    }
    RtLog *l = malloc(sizeof *l);
    if (!l) rt_out_of_memory();
    *l = (RtLog){f, path, 0};
    return l;
}

void rt_log_write(RtLog *l, json_t *o) {
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(o);
    if (!text) rt_out_of_memory();
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
