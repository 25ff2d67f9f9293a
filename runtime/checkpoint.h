/* Checkpoints: a directory of weights.safetensors and state.json, written whole or not at all. */
#ifndef CTRC_RUNTIME_CHECKPOINT_H
#define CTRC_RUNTIME_CHECKPOINT_H
#include "runtime/tables.h"

typedef struct {
    uint64_t step;              /* steps trained */
    uint64_t epoch, epoch_rows; /* position in the data: epochs finished, rows used of the one that began */
} RtState;

/* Whether a checkpoint can be written to dir, asked before hours of work. */
bool rt_checkpoint_probe(const char *dir, char *err, size_t err_bytes);
/* Replaces a checkpoint that dir holds; other files in it stay. */
bool rt_checkpoint_save(const char *dir, const RtModel *m, RtTables *t, const RtState *s, char *err,
                        size_t err_bytes);
/* New tables with the checkpoint's seed and weights, and slots where it has them. Warns on stderr if the
 * source has changed but everything fits. */
RtTables *rt_checkpoint_open(const RtModel *m, const char *dir, char *err, size_t err_bytes);

#endif
