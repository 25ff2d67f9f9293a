/* --log FILE.jsonl: one JSON object a line, as training goes on. Lines reach the file as they are written, so
 * that it can be followed; an error is kept and told at the end. */
#ifndef CTRC_RUNTIME_LOG_H
#define CTRC_RUNTIME_LOG_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct RtLog RtLog;
/* Replaces a file of that name; with after > 0 goes on behind its lines of steps up to `after`, and drops
 * those of later steps, which will come again. */
RtLog *rt_log_open(const char *path, uint64_t after, char *err, size_t err_bytes);
void rt_log_write(RtLog *l, json_t *o); /* takes the reference */
/* False: some line could not be written, err says why. l may be NULL. */
bool rt_log_close(RtLog *l, char *err, size_t err_bytes);

#endif
