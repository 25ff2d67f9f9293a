/* --tensorboard DIR: event files as TensorBoard reads them. A file is a row of records (TFRecord: length,
 * its masked CRC, the bytes, their masked CRC), each an Event: wall time, step, and a Summary of scalars.
 * Ours are called events.out.tfevents.SECONDS.HOST.ctrc; only such are ever replaced or cut. */
#ifndef CTRC_RUNTIME_EVENTS_H
#define CTRC_RUNTIME_EVENTS_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct RtEvents RtEvents;
/* Makes DIR if need be. after 0: our files in it are removed. Else they are cut behind their last event of a
 * step up to `after`, and the new file, which sorts behind them, tells TensorBoard to forget what it may have
 * read of later ones. NULL on error. */
RtEvents *rt_events_open(const char *dir, uint64_t after, char *err, size_t err_bytes);
/* The numbers of an object as scalars "key"; those of objects inside as "key/inner key". Not `step`; nulls
 * are left out. */
void rt_events_write(RtEvents *e, uint64_t step, const json_t *numbers);
/* False: something could not be written, err says why. e may be NULL. */
bool rt_events_close(RtEvents *e, char *err, size_t err_bytes);

#endif
