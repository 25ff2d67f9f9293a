/* --profile FILE.json: what each thread does and when, as Chrome's trace format has it (chrome://tracing,
 * ui.perfetto.dev): an array of complete events, times in µs. Kernels are named by their source lines.
 *
 * One profile a process. Where none is being recorded, a span costs one load and no kernel costs anything:
 * steps that are recorded run another driver (emit_profile.c). Events are kept in memory, each thread's by
 * itself, and written at the end. */
#ifndef CTRC_RUNTIME_PROFILE_H
#define CTRC_RUNTIME_PROFILE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/model.h"

/* Steps first … last. False: the file cannot be written, err says why. The calling thread is the one that
 * runs steps. */
bool rt_profile_open(const RtModel *m, const char *path, uint64_t first, uint64_t last, char *err,
                     size_t err_bytes);
/* Before step number `step`: is it one of them? From then on until the next call spans are recorded or not.
 */
void rt_profile_step(uint64_t step);
bool rt_profile_is_on(void);
/* Once all other threads have ended. Writes the file; *steps: how many were recorded. False: err says why. */
bool rt_profile_close(uint64_t *steps, char *err, size_t err_bytes);

/* What the calling thread is called in the profile; a constant. */
void rt_profile_thread(const char *name);
void rt_profile_step_thread(uint32_t thread); /* "step 0" …, of those that run steps, when they record */
/* A span of the calling thread: 0 if nothing is recorded now. The name is a constant. */
uint64_t rt_span(void);
void rt_span_end(uint64_t begun, const char *name);

#endif
