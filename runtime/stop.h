/* When training must stop or save before its end: signals, and the time limit of --stop-after. Signals only
 * set flags, which the loop looks at between steps. */
#ifndef CTRC_RUNTIME_STOP_H
#define CTRC_RUNTIME_STOP_H
#include <stdbool.h>

/* saves: there is a place to save to. Then SIGTERM and SIGINT ask to stop (a SIGINT after that ends the
 * program at once); without, they end the program as ever. SIGUSR1 asks to save. Signals that were ignored
 * stay ignored. after: seconds from now, negative: no limit. */
void rt_stop_watch(bool saves, double after);
void rt_stop_unwatch(void);

const char *rt_stop_reason(void); /* "SIGTERM", "SIGINT", "--stop-after"; NULL: go on */
bool rt_stop_save_asked(void);    /* once for each time it was asked */
bool rt_stop_wake(void);          /* one of the two, without taking note of it: for RtReaderOptions.wake */

#endif
