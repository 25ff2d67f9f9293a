/* What a model compiled with --emit=lib does for the program that it is linked into. MODEL.h, which ctrc
 * writes, is these functions by the model's own names: MODEL_open for rt_library_open, and so on
 * (backend/link_library.c). */
#ifndef CTRC_RUNTIME_LIBRARY_H
#define CTRC_RUNTIME_LIBRARY_H
#include <stddef.h>

typedef struct RtLibrary RtLibrary; /* a model with a checkpoint's weights */
enum {
    RT_LIBRARY_OK,
    RT_LIBRARY_BAD_ROWS,   /* all rows have their place; those of rows that can't be read hold NaN */
    RT_LIBRARY_CHECKPOINT, /* not there, damaged, or of another model */
    RT_LIBRARY_ARGUMENT,   /* the call itself is wrong: nothing was done */
    RT_LIBRARY_MACHINE,    /* the model's code can't run on this CPU */
    RT_LIBRARY_MEMORY
};

/* message: room for one text about what went wrong, empty if all is well; may be NULL with 0 bytes. */
int rt_library_open(const char *checkpoint, RtLibrary **out, char *message, size_t message_bytes);
/* rows: text as in a log file of the model, with its header line if the model's files have one. Predictions
 * go to out, row by row, those of a row in order of declaration. *n_rows: how many rows out has room for;
 * then how many there were. Any number of threads may call this on one model at a time; each call runs on the
 * thread that makes it. */
int rt_library_predict(RtLibrary *l, const char *rows, size_t bytes, float *out, size_t *n_rows,
                       char *message, size_t message_bytes);
/* Predictions of a row, and their names; NULL beyond. */
size_t rt_library_predictions(const RtLibrary *l);
const char *rt_library_name(const RtLibrary *l, size_t prediction);
void rt_library_close(RtLibrary *l); /* NULL is allowed; no call may be running */

#endif
