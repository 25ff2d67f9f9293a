/* The two files of a checkpoint, for checkpoint.c, which makes a directory of them. */
#ifndef CTRC_RUNTIME_CHECKPOINT_OWN_H
#define CTRC_RUNTIME_CHECKPOINT_OWN_H
#include "runtime/checkpoint.h"

/* weights.safetensors (checkpoint_weights.c) */
bool rt_weights_write(const char *path, const RtModel *m, RtTables *t, char *err, size_t err_bytes);
/* Fills t (fresh from rt_tables_new) with the weights; slots: these too, and they must all be there.
 * dir: for messages. */
bool rt_weights_read(const char *path, const char *dir, const RtModel *m, RtTables *t, bool slots, char *err,
                     size_t err_bytes);

/* state.json (checkpoint_state.c) */
typedef struct {
    RtState s;
    int64_t seed;
    char digest[40], model[80];
} RtSavedState;
bool rt_state_write(const char *path, const RtModel *m, RtTables *t, const RtState *s, char *err,
                    size_t err_bytes);
/* Refuses a checkpoint whose tables are rows of other vocabularies. dir: for messages. */
bool rt_state_read(const char *path, const char *dir, const RtModel *m, RtSavedState *out, char *err,
                   size_t err_bytes);

#endif
