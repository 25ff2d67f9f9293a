/* Inside of checkpoints: their two files, their place on disk, the lock. */
#ifndef CTRC_RUNTIME_CHECKPOINT_OWN_H
#define CTRC_RUNTIME_CHECKPOINT_OWN_H
#include <limits.h>
#include <sys/types.h>
#include "runtime/checkpoint.h"

#define RT_WEIGHTS_FILE "weights.safetensors"
#define RT_STATE_FILE "state.json"
enum { RT_PATH = 2 * PATH_MAX };
enum { RT_FILE_WEIGHTS, RT_FILE_STATE, RT_FILES };
extern const char *const rt_checkpoint_files[RT_FILES]; /* in the order in which they are made */
bool rt_is_mount(const char *dir);                      /* a container's volume, say: it can't be renamed */
bool rt_is_link(const char *path);
const char *rt_path_join(const char *dir, const char *name, char out[RT_PATH]);

typedef enum { RT_READ_OK, RT_READ_DAMAGED, RT_READ_OTHER /* whole, but not what was wanted */ } RtRead;

/* ---- weights.safetensors (checkpoint_weights.c) ---- */
/* *checksums: by tensor name, 16 hex digits; the caller's. */
bool rt_weights_write(const char *path, const RtModel *m, RtTables *t, json_t **checksums, char *err,
                      size_t err_bytes);
typedef enum { RT_SLOTS_NONE, RT_SLOTS_ALL, RT_SLOTS_IF_THERE } RtSlots;
/* Fills t (fresh from rt_tables_new). dir: for messages. */
RtRead rt_weights_read(const char *path, const char *dir, const json_t *checksums, const RtModel *m,
                       RtTables *t, RtSlots slots, char *err, size_t err_bytes);
/* Whether the file holds the tensors that checksums name, unharmed. */
bool rt_weights_whole(const char *path, const json_t *checksums, char *err, size_t err_bytes);

/* ---- state.json (checkpoint_state.c) ---- */
/* Takes the reference of checksums. Appears under its name when it is whole on the disk. */
bool rt_state_write(const char *path, const RtModel *m, RtTables *t, const RtState *s, json_t *checksums,
                    char *err, size_t err_bytes);
/* The file, if it is what was written; m NULL: whatever model it is of. Refuses a checkpoint whose tables are
 * rows of other vocabularies. dir: for messages. *json is the caller's. */
RtRead rt_state_read(const char *path, const char *dir, const RtModel *m, RtState *s, json_t **json,
                     char *err, size_t err_bytes);
void rt_state_updates(const json_t *json, const RtModel *m, RtTables *t); /* into t, which is loaded */

/* ---- the place on disk (checkpoint_site.c) ---- */
typedef struct {
    char dir[PATH_MAX], temp[PATH_MAX + 16]; /* temp: where it is written first */
    bool inside;                             /* temp is inside dir */
} RtSite;
bool rt_site_failed(char *err, size_t err_bytes, const char *dir); /* "cannot save to DIR: " errno; false */
/* Where a checkpoint for dir would be written. */
bool rt_site_find(RtSite *g, const char *dir, char *err, size_t err_bytes);
void rt_site_recover(const RtSite *g); /* after a crash; only with the lock */
/* An empty temp, if dir may hold a checkpoint. Recovers first. */
bool rt_site_prepare(RtSite *g, char *err, size_t err_bytes);
void rt_site_drop(const RtSite *g); /* temp and what we wrote into it, unless a replacement broke off */
bool rt_site_put(const RtSite *g);  /* temp is whole: into its place */

/* ---- earlier checkpoints, DIR/step-N (checkpoint_keep.c) ---- */
void rt_keep_path(const char *dir, uint64_t step, char out[RT_PATH]);
/* Gives what stands in dir this second name. False: it could not, errno says why. */
bool rt_keep_last(const char *dir, uint64_t step);
bool rt_keep_as(const char *dir, const char *to); /* so too, for any directory on the same file system */
#define RT_BEST_DIR "best"
/* Removes earlier ones from step `from` on, and of the rest all but the last n. */
void rt_keep_prune(const char *dir, uint64_t from, int n);
int rt_keep_list(const char *dir, uint64_t **steps); /* ascending, malloc'd */
void rt_remove_checkpoint(const char *dir);          /* our files, and dir if nothing else is in it */

/* ---- saving from a snapshot (checkpoint_snapshot.c) ---- */
typedef struct {
    bool running;             /* it has told nothing yet */
    pid_t pid;                /* of a child that isn't reaped yet, 0: none */
    int from;                 /* the pipe that it tells by */
    int64_t looked, idle;     /* ms: when it was looked at; how long it has done nothing */
    uint64_t cpu_ms, written; /* of the child, then */
} RtSnapshot;
extern int rt_snapshot_patience; /* seconds that a child may do nothing */
typedef bool (*RtSnapshotFn)(void *arg, char *err, size_t err_bytes);
/* Calls fn in a child that has the memory as it is now. False: there is none, errno says why. */
bool rt_snapshot_start(RtSnapshot *s, RtSnapshotFn fn, void *arg);
/* What fn returned, told once; killed: the child ended without a word. HUNG: it did nothing any more, and was
 * ended.
 */
RtSaveEnd rt_snapshot_ask(RtSnapshot *s, bool wait, bool *killed, char *err, size_t err_bytes);
void rt_snapshot_close(RtSnapshot *s); /* waits */

/* ---- the lock (checkpoint_lock.c) ---- */
typedef struct RtLock RtLock;
/* Beside dir, or in it where that cannot be. */
RtLock *rt_lock_take(const char *dir, char *err, size_t err_bytes);
void rt_lock_release(RtLock *l);

#endif
