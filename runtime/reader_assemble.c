/* The assembly thread: takes parsed rows in the order of the files, permutes each run, and makes batches.
 * A batch is handed on only when a further row is known, or the epoch's end: so the last one can say that it
 * is. */
#include "runtime/profile.h"
#include "runtime/reader_internal.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    RtReader *r;
    RtRef *run, *batch;       /* rows of the run and of the batch being filled */
    uint64_t n_run, run_rows; /* run_rows: rows of a whole run, 1 if rows stay in file order */
    size_t cap_run;
    uint32_t n_batch;
    uint64_t epoch, run_number, skip;
    uint64_t good, bad;       /* rows of this epoch; bad ones of the first */
    uint64_t held, negatives; /* rows of this epoch that sampling passed over */
    uint64_t total;           /* rows of an epoch, known from the second on if they are kept */
    double progress;
    RtRows **kept; /* --cache: all rows of an epoch */
    size_t n_kept, cap_kept;
} Assembly;

/* Gives back what nothing needs any more. */
static void recycle(RtReader *r, RtRows *rows) {
    if (r->o.cache) return;
    pthread_mutex_lock(&r->lock);
    rows->next = r->free_rows;
    r->free_rows = rows;
    pthread_mutex_unlock(&r->lock);
}

static RtBatch *free_batch(RtReader *r) {
    pthread_mutex_lock(&r->lock);
    while (!r->free_batches && !r->stop) pthread_cond_wait(&r->batch_free, &r->lock);
    RtBatchOwn *o = r->stop ? NULL : r->free_batches;
    if (o) r->free_batches = o->next;
    pthread_mutex_unlock(&r->lock);
    return o ? o->batch : NULL;
}

static void hand_on(RtReader *r, RtBatch *b) {
    RtBatchOwn *o = b->own;
    o->next = NULL;
    pthread_mutex_lock(&r->lock);
    *r->ready_end = o;
    r->ready_end = &o->next;
    pthread_cond_signal(&r->batch_ready);
    pthread_mutex_unlock(&r->lock);
}

static void set_error(Assembly *a, const RtMessage *error) {
    pthread_mutex_lock(&a->r->lock);
    a->r->error = *error;
    a->r->failed = true;
    pthread_mutex_unlock(&a->r->lock);
}

/* False: told to stop, or an error. */
static bool emit(Assembly *a, bool last) {
    RtBatch *b = free_batch(a->r);
    RtMessage error;
    if (!b) return false;
    uint64_t begun = rt_span();
    bool ok = rt_batch_fill(a->r->assembler, b, a->batch, a->n_batch, &error);
    rt_span_end(begun, "assemble a batch");
    if (!ok) {
        set_error(a, &error);
        return false;
    }
    b->epoch = a->epoch;
    b->last_of_epoch = last;
    RtBatchOwn *o = b->own;
    o->progress = a->progress;
    o->bad_rows = a->bad;
    for (uint32_t i = 0; i < a->n_batch; i++)
        if (!--a->batch[i].rows->unused) recycle(a->r, a->batch[i].rows);
    a->n_batch = 0;
    hand_on(a->r, b);
    return true;
}

static bool add_to_batch(Assembly *a, RtRef ref) {
    if (a->skip) {
        a->skip--;
        if (!--ref.rows->unused) recycle(a->r, ref.rows);
        return true;
    }
    if (a->n_batch == a->r->o.batch && !emit(a, false)) return false;
    a->batch[a->n_batch++] = ref;
    return true;
}

static bool end_run(Assembly *a) {
    rt_shuffle_run(a->run, a->n_run, a->r->o.seed, a->epoch, a->run_number++);
    for (uint64_t i = 0; i < a->n_run; i++)
        if (!add_to_batch(a, a->run[i])) return false;
    a->n_run = 0;
    return true;
}

static bool add_rows(Assembly *a, RtRows *rows) {
    rows->unused = rows->n;
    a->good += rows->n;
    if (!rows->n) recycle(a->r, rows);
    uint32_t n = rows->n; /* rows may be recycled, and filled anew, once the last is used */
    for (uint32_t i = 0; i < n; i++) {
        RtRef ref = {rows, i};
        if (a->run_rows <= 1) {
            if (!add_to_batch(a, ref)) return false;
            continue;
        }
        a->run = rt_reader_grow(a->run, &a->cap_run, a->n_run + 1, sizeof *a->run);
        a->run[a->n_run++] = ref;
        if (a->n_run == a->run_rows && !end_run(a)) return false;
    }
    return true;
}

/* Whole batches that came before an error still count. */
static void fail(Assembly *a, const RtMessage *error) {
    if (a->n_batch == a->r->o.batch && !emit(a, false)) return;
    set_error(a, error);
}

static bool any_rows(const Assembly *a, RtMessage *error) {
    uint64_t places = a->r->o.bad == RT_BAD_HOLD ? a->bad : 0;
    unsigned long long held = a->held, negatives = a->negatives;
    if (a->good > places) return true;
    if (a->bad)
        return rt_message(error, "error: all of the %llu rows are bad, the first: %.700s",
                          (unsigned long long)a->bad, a->r->first_bad.text);
    if (a->r->o.sampling.held)
        return rt_message(error, "none of the %llu rows is held out (--eval-fraction)", held);
    return rt_message(error, "no rows are left: %llu are held out, %llu negatives left out", held, negatives);
}

static void publish_sampled(Assembly *a) {
    pthread_mutex_lock(&a->r->lock);
    a->r->held_out = a->held;
    a->r->negatives_left = a->negatives;
    pthread_mutex_unlock(&a->r->lock);
    a->held = a->negatives = 0;
}

static bool end_epoch(Assembly *a) {
    RtMessage error;
    if (a->r->bad_files && a->epoch == 0 && !rt_bad_files_flush(a->r->bad_files, &error)) {
        fail(a, &error);
        return false;
    }
    if (!any_rows(a, &error)) {
        fail(a, &error);
        return false;
    }
    if (!a->n_kept || !a->total) publish_sampled(a);
    a->progress = 1;
    if (a->n_run && !end_run(a)) return false;
    if (a->epoch == a->r->o.first_epoch && a->r->o.skip_rows >= a->good) {
        rt_message(&error, "the data has %llu rows, training was stopped behind row %llu",
                   (unsigned long long)a->good, (unsigned long long)a->r->o.skip_rows);
        fail(a, &error);
        return false;
    }
    if (a->n_batch && !emit(a, true)) return false;
    a->total = a->good;
    a->epoch++;
    a->good = a->run_number = 0;
    return true;
}

/* ---- where rows come from: text, or what was kept ---- */

static RtRows *next_parsed(RtReader *r) {
    pthread_mutex_lock(&r->lock);
    while (!r->stop && !(r->ahead && r->ahead->done)) pthread_cond_wait(&r->rows_done, &r->lock);
    RtRows *rows = r->stop ? NULL : r->ahead;
    if (rows) {
        r->ahead = rows->next;
        if (!r->ahead) r->ahead_end = &r->ahead;
        r->n_ahead--;
        r->lines_ahead -= rows->lines;
        pthread_cond_signal(&r->rows_space);
    }
    pthread_mutex_unlock(&r->lock);
    return rows;
}

static bool note_bad(Assembly *a, const RtRows *rows) {
    RtReader *r = a->r;
    if (!rows->n_bad || a->epoch) return true;
    if (!a->bad) {
        pthread_mutex_lock(&r->lock);
        r->first_bad = rows->error;
        pthread_mutex_unlock(&r->lock);
    }
    a->bad += rows->n_bad;
    RtMessage error;
    if (!r->bad_files || rt_bad_files_write(r->bad_files, &r->files.file[rows->file], rows, &error))
        return true;
    fail(a, &error);
    return false;
}

static void keep(Assembly *a, RtRows *rows) {
    rt_rows_shrink(rows);
    a->kept = rt_reader_grow(a->kept, &a->cap_kept, a->n_kept + 1, sizeof *a->kept);
    a->kept[a->n_kept++] = rows;
    pthread_mutex_lock(&a->r->lock);
    a->r->cache_bytes += rt_rows_bytes(rows);
    pthread_mutex_unlock(&a->r->lock);
}

/* One epoch from text; false: an error, or told to stop. */
static bool read_epoch(Assembly *a) {
    RtReader *r = a->r;
    for (;;) {
        RtRows *rows = next_parsed(r);
        if (!rows) return false;
        if (rows->kind == RT_ROWS_EPOCH_END) {
            recycle(r, rows);
            return end_epoch(a);
        }
        if (rows->kind == RT_ROWS_ERROR) {
            fail(a, &rows->error);
            return false;
        }
        a->progress = r->files.sized && r->files.bytes ? (double)rows->taken / (double)r->files.bytes : -1;
        bool failed = rows->failed;
        RtMessage error;
        if (failed)
            error = rows->error;
        else if (!note_bad(a, rows))
            return false;
        a->held += rows->n_held;
        a->negatives += rows->n_negatives;
        if (r->o.cache && !failed) keep(a, rows);
        if (!add_rows(a, rows)) return false;
        if (failed) {
            fail(a, &error);
            return false;
        }
    }
}

static bool repeat_epoch(Assembly *a) {
    for (size_t i = 0; i < a->n_kept; i++) {
        a->progress = (double)a->good / (double)a->total;
        if (!add_rows(a, a->kept[i])) return false;
    }
    return end_epoch(a);
}

void *rt_reader_assemble(void *reader) {
    RtReader *r = reader;
    rt_profile_thread("reader: assemble");
    Assembly a = {.r = r,
                  .run_rows = r->o.shuffle,
                  .epoch = r->o.first_epoch,
                  .skip = r->o.skip_rows,
                  .bad = r->o.bad_before};
    a.batch = rt_reader_alloc(r->o.batch, sizeof *a.batch);
    bool more = true;
    while (more && (!r->o.epochs || a.epoch < r->o.epochs))
        more = a.n_kept ? repeat_epoch(&a) : read_epoch(&a);
    pthread_mutex_lock(&r->lock);
    r->ended = true;
    r->bad_rows_end = a.bad;
    pthread_cond_broadcast(&r->batch_ready);
    pthread_mutex_unlock(&r->lock);
    free(a.run);
    free(a.batch);
    free(a.kept);
    return NULL;
}
