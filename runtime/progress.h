/* The progress line on a terminal: rows, rows a second, loss, time left. */
#ifndef CTRC_RUNTIME_PROGRESS_H
#define CTRC_RUNTIME_PROGRESS_H
#include "runtime/args.h"

typedef struct RtProgress {
    bool on;
    const char *what;    /* "epoch 2/3", "evaluation" */
    double start, shown; /* of this part; when the line was last drawn */
} RtProgress;

void rt_progress_init(RtProgress *p, RtProgressMode mode);
void rt_progress_begin(RtProgress *p, const char *what, double now); /* what must stay */
/* share: 0…1 of this part that is done, negative: unknown; more: seconds that follow this part, in units of
 * it; loss: NaN if there is none. Draws at most five times a second. */
void rt_progress_show(RtProgress *p, double now, uint64_t rows, double loss, double share, double more);
/* Wipes the line, wherever it was drawn; anything else on stderr comes after this. */
void rt_progress_clear(void);

#endif
