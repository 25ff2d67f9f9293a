/* A command's output: stdout, or a file that appears whole or not at all. */
#ifndef CTRC_RUNTIME_OUTFILE_H
#define CTRC_RUNTIME_OUTFILE_H
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

/* Where bytes go: stdout, or a file beside the wanted one that takes its place at the end. It has no name
 * until then, where the file system knows such files, so nothing is left of it if the program is killed. A
 * device or a pipe is written to directly. */
typedef struct {
    FILE *f;
    const char *path;    /* NULL: stdout */
    char temp[PATH_MAX]; /* the name beside path, "": none is wanted */
    bool named;          /* temp is a file */
} RtOut;

/* Both give an exit code, after an error message. path NULL: stdout. */
int rt_out_open(RtOut *o, const char *path);
/* code: of what was done since; if it isn't 0 nothing of the file stays. */
int rt_out_close(RtOut *o, int code);
int rt_out_failed(const RtOut *o); /* says that writing failed, by errno */

#endif
