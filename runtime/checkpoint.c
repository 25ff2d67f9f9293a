/* Checkpoints as a whole: saving with earlier ones kept, reading with damage told. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/checkpoint_own.h"
#include "runtime/message.h"
#include "runtime/program.h"

/* ---- writing ---- */

struct RtSaver {
    RtSite place;
    RtLock *lock;
    int keep, how;
    RtSnapshot snapshot;
    bool alone;    /* no more snapshots: they can't be made, or don't live */
    RtSaveEnd end; /* of a save that rt_saver_start did itself, not told yet */
    char why[RT_MESSAGE];
};

/* AddressSanitizer's allocator (GCC 12) doesn't hold its locks over a fork, as malloc does: with a reader
 * amid an allocation the child would wait for ever. test_runtime_snapshot forks in the sanitizers' tree, too.
 */
#ifdef __SANITIZE_ADDRESS__
enum { CHILD_MAY_ALLOCATE = false };
#else
enum { CHILD_MAY_ALLOCATE = true };
#endif

RtSaver *rt_saver_open(const char *dir, int keep, char *err, size_t err_bytes) {
    RtSaver *s = calloc(1, sizeof *s);
    if (!s) rt_out_of_memory();
    s->keep = keep;
    s->alone = !CHILD_MAY_ALLOCATE;
    bool ok = rt_site_find(&s->place, dir, err, err_bytes) && (s->lock = rt_lock_take(dir, err, err_bytes));
    if (ok) rt_site_recover(&s->place);
    if (ok && rt_site_prepare(&s->place, err, err_bytes)) {
        rt_site_drop(&s->place);
        return s;
    }
    rt_saver_close(s);
    return NULL;
}

void rt_saver_begin(RtSaver *s, int how) { s->how = how; }

void rt_saver_close(RtSaver *s) {
    if (!s) return;
    rt_snapshot_close(&s->snapshot);
    rt_lock_release(s->lock);
    free(s);
}

/* The step of the checkpoint in dir; false: there is none that could be read. */
static bool step_of(const char *dir, uint64_t *step) {
    char path[RT_PATH], err[RT_MESSAGE];
    RtState s;
    json_t *o = NULL;
    bool ok = rt_state_read(rt_path_join(dir, RT_STATE_FILE, path), dir, NULL, &s, &o, err, sizeof err) ==
              RT_READ_OK;
    json_decref(o);
    *step = s.step;
    return ok;
}

/* Before the new one takes its place: a second name for the one that stands there. */
static void keep_last(const RtSaver *s, uint64_t step) {
    char reason[RT_SHOWN];
    uint64_t last;
    if (s->keep < 2 || s->how != RT_SAVE_GO_ON || !step_of(s->place.dir, &last) || last >= step) return;
    if (!rt_keep_last(s->place.dir, last))
        rt_warn("%s: the checkpoint of step %llu is not kept: %s", s->place.dir, (unsigned long long)last,
                rt_reason(errno, reason));
}

bool rt_saver_save(RtSaver *s, const RtModel *m, RtTables *t, const RtState *state, char *err,
                   size_t err_bytes) {
    char path[RT_PATH];
    json_t *checksums = NULL;
    RtSite *g = &s->place;
    if (!rt_site_prepare(g, err, err_bytes)) return false;
    bool ok =
        rt_weights_write(rt_path_join(g->temp, RT_WEIGHTS_FILE, path), m, t, &checksums, err, err_bytes) &&
        rt_state_write(rt_path_join(g->temp, RT_STATE_FILE, path), m, t, state, checksums, err, err_bytes);
    if (ok) keep_last(s, state->step);
    if (ok && !rt_site_put(g)) ok = rt_site_failed(err, err_bytes, g->dir);
    if (!ok) {
        rt_site_drop(g);
        return false;
    }
    if (s->how == RT_SAVE_FRESH) rt_remove_checkpoint(rt_path_join(g->dir, RT_BEST_DIR, path));
    rt_keep_prune(g->dir, s->how == RT_SAVE_FRESH ? 0 : state->step, s->keep - 1);
    s->how = RT_SAVE_GO_ON;
    return true;
}

/* ---- while training goes on ---- */

typedef struct {
    RtSaver *s;
    const RtModel *m;
    RtTables *t;
    const RtState *state;
} Job;

static bool save_in_child(void *arg, char *err, size_t err_bytes) {
    Job *j = arg;
    rt_tables_release(j->t);
    return rt_saver_save(j->s, j->m, j->t, j->state, err, err_bytes);
}

static bool start_child(Job *j) {
    char reason[RT_SHOWN];
    rt_tables_hold(j->t);
    bool ok = rt_snapshot_start(&j->s->snapshot, save_in_child, j);
    int e = errno;
    rt_tables_release(j->t);
    if (!ok) rt_warn("cannot save beside training, which waits for each save: %s", rt_reason(e, reason));
    return ok;
}

void rt_saver_start(RtSaver *s, const RtModel *m, RtTables *t, const RtState *state) {
    Job j = {s, m, t, state};
    if (!s->alone && start_child(&j)) return;
    s->alone = true;
    s->end = rt_saver_save(s, m, t, state, s->why, sizeof s->why) ? RT_SAVE_DONE : RT_SAVE_FAILED;
}

RtSaveEnd rt_saver_ask(RtSaver *s, bool wait, char *err, size_t err_bytes) {
    bool killed = false;
    RtSaveEnd end = s->end;
    if (end == RT_SAVE_FAILED) snprintf(err, err_bytes, "%s", s->why);
    if (end == RT_SAVE_NONE) end = rt_snapshot_ask(&s->snapshot, wait, &killed, err, err_bytes);
    s->end = RT_SAVE_NONE;
    if (end == RT_SAVE_DONE) s->how = RT_SAVE_GO_ON;
    if (killed || end == RT_SAVE_HUNG) { /* killed for want of memory, most likely: two of us don't fit */
        s->alone = true;
        rt_site_recover(&s->place);
    }
    return end;
}

/* ---- the best one ---- */

bool rt_saver_keep_best(RtSaver *s, char *err, size_t err_bytes) {
    char best[RT_PATH];
    return rt_keep_as(s->place.dir, rt_path_join(s->place.dir, RT_BEST_DIR, best)) ||
           rt_site_failed(err, err_bytes, best);
}

bool rt_saver_put_best(RtSaver *s, char *err, size_t err_bytes) {
    char best[RT_PATH], from[RT_PATH], to[RT_PATH];
    RtSite *g = &s->place;
    rt_path_join(g->dir, RT_BEST_DIR, best);
    if (!rt_site_prepare(g, err, err_bytes)) return false;
    bool ok = true;
    for (int i = 0; i < RT_FILES && ok; i++)
        ok = link(rt_path_join(best, rt_checkpoint_files[i], from),
                  rt_path_join(g->temp, rt_checkpoint_files[i], to)) == 0;
    ok = ok && rt_site_put(g);
    if (!ok) {
        rt_site_failed(err, err_bytes, g->dir);
        rt_site_drop(g);
    }
    return ok;
}

bool rt_saver_best_step(const RtSaver *s, uint64_t *step) {
    char best[RT_PATH];
    return step_of(rt_path_join(s->place.dir, RT_BEST_DIR, best), step);
}

/* ---- reading ---- */

bool rt_checkpoint_is_there(const char *dir) {
    char path[RT_PATH];
    return access(rt_path_join(dir, RT_STATE_FILE, path), F_OK) == 0 ||
           access(rt_path_join(dir, RT_WEIGHTS_FILE, path), F_OK) == 0;
}

static bool is_whole(const char *dir) {
    char path[RT_PATH], err[RT_MESSAGE];
    RtState s;
    json_t *o = NULL;
    bool ok = rt_state_read(rt_path_join(dir, RT_STATE_FILE, path), dir, NULL, &s, &o, err, sizeof err) ==
                  RT_READ_OK &&
              rt_weights_whole(rt_path_join(dir, RT_WEIGHTS_FILE, path), json_object_get(o, "checksums"), err,
                               sizeof err);
    json_decref(o);
    return ok;
}

/* The newest whole checkpoint that dir has kept. */
static bool find_kept(const char *dir, char out[RT_PATH]) {
    uint64_t *steps;
    int n = rt_keep_list(dir, &steps);
    bool found = false;
    while (n-- && !found) {
        rt_keep_path(dir, steps[n], out);
        found = is_whole(out);
    }
    free(steps);
    return found;
}

/* Adds to the message about a damaged checkpoint which one can be used instead. */
static void offer_kept(const char *dir, bool resume, char *err, size_t err_bytes) {
    char kept[RT_PATH];
    size_t n = strlen(err);
    if (!find_kept(dir, kept)) return;
    snprintf(err + n, err_bytes - n,
             resume ? "\nhint: the one before it is whole: --resume=previous goes on from %s"
                    : "\nhint: the one before it is whole: %s",
             kept);
}

static RtRead read_state(const RtModel *m, const char *dir, RtState *s, json_t **json, char *err,
                         size_t err_bytes) {
    char path[RT_PATH];
    struct stat st;
    rt_path_join(dir, RT_STATE_FILE, path);
    if (stat(dir, &st) == 0 && S_ISDIR(st.st_mode) && access(path, F_OK) && errno == ENOENT) {
        snprintf(err, err_bytes, "%s: no checkpoint in this directory", dir);
        return RT_READ_DAMAGED;
    }
    return rt_state_read(path, dir, m, s, json, err, err_bytes);
}

static RtRead read_weights(const RtModel *m, const char *dir, const json_t *json, RtTables *t, RtSlots slots,
                           char *err, size_t err_bytes) {
    char path[RT_PATH];
    return rt_weights_read(rt_path_join(dir, RT_WEIGHTS_FILE, path), dir, json_object_get(json, "checksums"),
                           m, t, slots, err, err_bytes);
}

static void warn_of_source(const RtModel *m, const char *dir, const json_t *json) {
    const char *digest = json_string_value(json_object_get(json, "digest"));
    if (strcmp(digest, m->digest))
        rt_warn("%s: written by the model '%s' from another source (digest %s, here %s); its weights fit",
                dir, json_string_value(json_object_get(json, "model")), digest, m->digest);
}

static RtTables *load(const RtModel *m, const char *dir, const json_t *json, RtSlots slots, RtRead *got,
                      char *err, size_t err_bytes) {
    uint64_t seed = (uint64_t)json_integer_value(json_object_get(json, "seed"));
    *got = RT_READ_OTHER;
    RtTables *t = (slots == RT_SLOTS_NONE ? rt_tables_new_fixed : rt_tables_new)(m, seed, err, err_bytes);
    if (t && (*got = read_weights(m, dir, json, t, slots, err, err_bytes)) != RT_READ_OK) {
        rt_tables_free(t);
        return NULL;
    }
    double keep = json_real_value(json_object_get(json, "keep_negatives"));
    if (t && keep > 0 && keep < 1) *rt_tables_keep_negatives(t) = keep;
    if (t) rt_tables_loaded(t, (uint64_t)json_integer_value(json_object_get(json, "step")));
    return t;
}

RtTables *rt_checkpoint_open(const RtModel *m, const char *dir, char *err, size_t err_bytes) {
    RtState s;
    json_t *json = NULL;
    RtTables *t = NULL;
    RtRead got = read_state(m, dir, &s, &json, err, err_bytes);
    if (got == RT_READ_OK) t = load(m, dir, json, RT_SLOTS_NONE, &got, err, err_bytes);
    if (t) warn_of_source(m, dir, json);
    if (got == RT_READ_DAMAGED) offer_kept(dir, false, err, err_bytes);
    json_decref(json);
    return t;
}

bool rt_checkpoint_state(const RtModel *m, const char *dir, bool previous, RtState *s, json_t **json,
                         char found[], size_t found_bytes, char *err, size_t err_bytes) {
    char kept[RT_PATH];
    snprintf(found, found_bytes, "%s", dir);
    if (previous && !is_whole(dir)) {
        if (!find_kept(dir, kept)) {
            snprintf(err, err_bytes, "%s: neither the checkpoint nor one before it is whole", dir);
            return false;
        }
        snprintf(found, found_bytes, "%s", kept);
    }
    RtRead got = read_state(m, found, s, json, err, err_bytes);
    if (got == RT_READ_DAMAGED) offer_kept(dir, true, err, err_bytes);
    return got == RT_READ_OK;
}

RtTables *rt_checkpoint_resume(const RtModel *m, const char *dir, const json_t *json, char *err,
                               size_t err_bytes) {
    RtRead got;
    RtTables *t = load(m, dir, json, RT_SLOTS_ALL, &got, err, err_bytes);
    if (t) rt_state_updates(json, m, t);
    if (got == RT_READ_DAMAGED) offer_kept(dir, true, err, err_bytes);
    return t;
}

bool rt_checkpoint_init(const RtModel *m, const char *dir, RtTables *t, char *err, size_t err_bytes) {
    RtState s;
    json_t *json = NULL;
    RtRead got = read_state(m, dir, &s, &json, err, err_bytes);
    if (got == RT_READ_OK) got = read_weights(m, dir, json, t, RT_SLOTS_IF_THERE, err, err_bytes);
    if (got == RT_READ_OK) {
        rt_tables_loaded(t, 0);
        warn_of_source(m, dir, json);
    }
    if (got == RT_READ_DAMAGED) offer_kept(dir, false, err, err_bytes);
    json_decref(json);
    return got == RT_READ_OK;
}
