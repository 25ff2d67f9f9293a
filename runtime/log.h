/* --log FILE.jsonl: one JSON object a line, as training goes on. Lines reach the file as they are written, so
 * that it can be followed; an error is kept and told at the end. */
#ifndef CTRC_RUNTIME_LOG_H
#define CTRC_RUNTIME_LOG_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct RtLog RtLog;
RtLog *rt_log_open(const char *path, char *err, size_t err_bytes); /* replaces a file of that name */
void rt_log_write(RtLog *l, json_t *o);                            /* takes the reference */
/* False: some line could not be written, err says why. l may be NULL. */
bool rt_log_close(RtLog *l, char *err, size_t err_bytes);

#endif
