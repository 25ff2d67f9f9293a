/* Checkpoints: a directory of weights.safetensors and state.json, written whole or not at all. */
#ifndef CTRC_RUNTIME_CHECKPOINT_H
#define CTRC_RUNTIME_CHECKPOINT_H
#include <jansson.h>
#include "runtime/tables.h"

typedef struct {
    uint64_t step;              /* steps trained */
    uint64_t epoch, epoch_rows; /* position in the data: epochs finished, rows used of the one that began */
    json_t *run;                /* what only training needs, to go on (resume.h); NULL: {} */
} RtState;

/* ---- writing ---- */

/* The right to save into a directory: one program at a time has it. */
typedef struct RtSaver RtSaver;
enum { RT_SAVE_FRESH, RT_SAVE_GO_ON, RT_SAVE_REPAIR };
/* Takes the lock, tells whether a checkpoint can be written, asked before hours of work, and finishes what an
 * earlier program was killed over. keep: how many checkpoints stay, the last one included; earlier ones are
 * DIR/step-N. NULL on error. */
RtSaver *rt_saver_open(const char *dir, int keep, char *err, size_t err_bytes);
/* What becomes of the checkpoints that are there when the first one is saved. FRESH (default): they were
 * another training's and go, DIR/best too; GO_ON: they are earlier ones of this; REPAIR: so too, but the last
 * is damaged and goes. */
void rt_saver_begin(RtSaver *s, int how);
/* Replaces the checkpoint that dir holds, which stays as it is if this one fails; other files in dir stay. */
bool rt_saver_save(RtSaver *s, const RtModel *m, RtTables *t, const RtState *state, char *err,
                   size_t err_bytes);
/* The same from a snapshot: returns at once, and a process of its own writes while the tables change again.
 * None may be under way. Where no process can be made it is saved before this returns. */
void rt_saver_start(RtSaver *s, const RtModel *m, RtTables *t, const RtState *state);
/* How the save that was started has ended, told once: NONE, there is nothing to tell. wait: until it has.
 * HUNG: its process came no further; later saves are made before rt_saver_start returns. */
typedef enum { RT_SAVE_NONE, RT_SAVE_RUNS, RT_SAVE_DONE, RT_SAVE_FAILED, RT_SAVE_HUNG } RtSaveEnd;
RtSaveEnd rt_saver_ask(RtSaver *s, bool wait, char *err, size_t err_bytes);
/* The best one: DIR/best is a second name of what DIR holds. No save may be under way. */
bool rt_saver_keep_best(RtSaver *s, char *err, size_t err_bytes);
/* DIR/best takes DIR's place, and stays under its own name too. */
bool rt_saver_put_best(RtSaver *s, char *err, size_t err_bytes);
/* The step of DIR/best; false: there is none that could be read. */
bool rt_saver_best_step(const RtSaver *s, uint64_t *step);
void rt_saver_close(RtSaver *s); /* waits for what was started; may be NULL */

/* ---- reading ---- */

/* All of these verify checksums. A damaged checkpoint is told by name, with an earlier one that is whole. */
bool rt_checkpoint_is_there(const char *dir);
/* New tables with the checkpoint's seed and weights, without slots: for evaluation and prediction. Warns on
 * stderr if the source has changed but everything fits. */
RtTables *rt_checkpoint_open(const RtModel *m, const char *dir, char *err, size_t err_bytes);
/* state.json of dir; with `previous` of the newest checkpoint in dir that is whole, found is then its
 * directory. The caller frees *json. */
bool rt_checkpoint_state(const RtModel *m, const char *dir, bool previous, RtState *s, json_t **json,
                         char found[], size_t found_bytes, char *err, size_t err_bytes);
/* New tables as training left them, to go on: seed, weights, slots, updates. */
RtTables *rt_checkpoint_resume(const RtModel *m, const char *dir, const json_t *json, char *err,
                               size_t err_bytes);
/* The weights into t, which is fresh, and slots where dir has them (else they stay at their start, with a
 * warning); t stands at step 0. */
bool rt_checkpoint_init(const RtModel *m, const char *dir, RtTables *t, char *err, size_t err_bytes);

#endif
