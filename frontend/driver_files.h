/* The driver's files: where the compiler's own ones lie, and outputs that appear whole or not at all. */
#ifndef CTRC_FRONTEND_DRIVER_FILES_H
#define CTRC_FRONTEND_DRIVER_FILES_H
#include "ir/diag.h"

/* ROOT/lib/ctrc (holds libctrc_rt.a) and ROOT/share/ctrc/lib (the layer library), where ROOT/bin/ctrc is the
 * running program. NULL after an error in d. */
const char *driver_runtime_dir(Arena *a, Diag *d);
const char *driver_layer_dir(Arena *a, Diag *d);

/* May path be written? Not a directory, not one of the files that were read (d->files). False after an error.
 * whole: it will be replaced by rename, so it must not be a device or a pipe either. */
bool driver_may_write(Diag *d, const char *path, bool whole);

/* An output: stdout if path is NULL, straight into a device or pipe, else a temporary file beside path. */
typedef struct {
    FILE *file;
    const char *path, *temporary; /* temporary: NULL if the file is written in place */
} DriverOutput;
bool driver_open(Arena *a, Diag *d, const char *path, DriverOutput *out);
/* Closes; with keep the temporary file takes path's place, without it is removed. False after an error in d,
 * a full disk for example. */
bool driver_close(Diag *d, DriverOutput *out, bool keep);

#endif
