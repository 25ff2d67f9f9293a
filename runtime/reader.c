/* The reader's public face, its threads and the queues between them. */
#include "runtime/reader_internal.h"
#include "runtime/profile.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    BATCHES = 4,        /* in flight: one in use, the others ahead of it */
    WAKE_NS = 100000000 /* how often RtReaderOptions.wake is asked */
};

/* ---- blocks and rows ---- */

static RtBlock *take_block(RtReader *r) {
    int most = r->o.threads + 2; /* one being cut, one waiting, one a parsing thread */
    pthread_mutex_lock(&r->lock);
    while (!r->free_blocks && r->n_blocks >= most && !r->stop) pthread_cond_wait(&r->block_free, &r->lock);
    RtBlock *b = r->free_blocks;
    if (r->stop)
        b = NULL;
    else if (b)
        r->free_blocks = b->next;
    else {
        b = rt_reader_alloc(1, sizeof *b);
        r->n_blocks++;
    }
    pthread_mutex_unlock(&r->lock);
    return b;
}

static void give_block(RtReader *r, RtBlock *b) {
    pthread_mutex_lock(&r->lock);
    b->next = r->free_blocks;
    r->free_blocks = b;
    pthread_cond_signal(&r->block_free);
    pthread_mutex_unlock(&r->lock);
}

static RtRows *take_rows(RtReader *r, RtRowsKind kind) {
    pthread_mutex_lock(&r->lock);
    RtRows *rows = r->free_rows;
    if (rows)
        r->free_rows = rows->next;
    else {
        rows = rt_rows_new();
        r->all_rows = rt_reader_grow(r->all_rows, &r->cap_all_rows, r->n_all_rows + 1, sizeof *r->all_rows);
        r->all_rows[r->n_all_rows++] = rows;
    }
    pthread_mutex_unlock(&r->lock);
    rt_rows_clear(rows);
    rows->kind = kind;
    return rows;
}

/* Into the ordered line of what is to come; with a block, also to the parsing threads. Waits while enough is
 * ahead: some blocks for each thread, and with shuffling a whole run, so that the next one is parsed while
 * batches of this one go out. */
static bool push_rows(RtReader *r, RtRows *rows, RtBlock *b) {
    uint64_t most = 2 * (uint64_t)r->o.threads + 2;
    pthread_mutex_lock(&r->lock);
    while (!r->stop && r->n_ahead >= most && r->lines_ahead >= r->o.shuffle)
        pthread_cond_wait(&r->rows_space, &r->lock);
    bool go = !r->stop;
    if (go) {
        rows->next = NULL;
        rows->done = !b;
        *r->ahead_end = rows;
        r->ahead_end = &rows->next;
        r->n_ahead++;
        r->lines_ahead += rows->lines;
        if (b) {
            b->rows = rows;
            b->next = NULL;
            *r->work_end = b;
            r->work_end = &b->next;
            pthread_cond_signal(&r->work_ready);
        } else
            pthread_cond_signal(&r->rows_done);
    }
    pthread_mutex_unlock(&r->lock);
    if (!go && b) give_block(r, b);
    return go;
}

/* ---- threads ---- */

/* Blocks of one epoch. False: an error, or told to stop. */
static bool cut_epoch(RtReader *r, RtCutter *c) {
    rt_cutter_rewind(c);
    for (;;) {
        RtBlock *b = take_block(r);
        if (!b) return false;
        RtMessage error;
        uint64_t lines = 0;
        uint64_t begun = rt_span();
        int got = rt_cutter_next(c, b, &lines, &error);
        rt_span_end(begun, "read and split");
        if (got == 1) {
            RtRows *rows = take_rows(r, RT_ROWS);
            rows->file = b->file;
            rows->first_line = b->line[0];
            rows->lines = lines;
            rows->taken = rt_cutter_taken(c);
            if (!push_rows(r, rows, b)) return false;
            continue;
        }
        give_block(r, b);
        RtRows *mark = take_rows(r, got == 0 ? RT_ROWS_EPOCH_END : RT_ROWS_ERROR);
        if (got < 0) mark->error = error;
        return push_rows(r, mark, NULL) && got == 0;
    }
}

static void *cut_thread(void *reader) {
    RtReader *r = reader;
    rt_profile_thread("reader: read and split");
    RtCutter *c = rt_cutter_new(r->plan, &r->files, r->wake[0]);
    for (uint64_t epoch = r->o.first_epoch; (!r->o.epochs || epoch < r->o.epochs) && cut_epoch(r, c); epoch++)
        if (r->o.cache) break;
    rt_cutter_free(c);
    return NULL;
}

static void *parse_thread(void *reader) {
    RtReader *r = reader;
    rt_profile_thread("reader: parse");
    RtParser *p = rt_parser_new(r->plan, &r->files, r->o.bad, &r->o.sampling);
    for (;;) {
        pthread_mutex_lock(&r->lock);
        while (!r->work && !r->stop) pthread_cond_wait(&r->work_ready, &r->lock);
        RtBlock *b = r->stop ? NULL : r->work;
        if (b && !(r->work = b->next)) r->work_end = &r->work;
        pthread_mutex_unlock(&r->lock);
        if (!b) break;
        uint64_t begun = rt_span();
        rt_parse_block(p, b, b->rows);
        rt_span_end(begun, "parse");
        pthread_mutex_lock(&r->lock);
        b->rows->done = true;
        pthread_cond_signal(&r->rows_done);
        pthread_mutex_unlock(&r->lock);
        give_block(r, b);
    }
    rt_parser_free(p);
    return NULL;
}

static bool start(RtReader *r, void *(*run)(void *), RtMessage *err) {
    int error = pthread_create(&r->thread[r->n_threads], NULL, run, r);
    char reason[RT_SHOWN];
    if (error) return rt_message(err, "cannot start a reader thread: %s", rt_reason(error, reason));
    r->n_threads++;
    return true;
}

static bool start_threads(RtReader *r, RtMessage *err) {
    r->thread = rt_reader_alloc((size_t)r->o.threads + 2, sizeof *r->thread);
    for (int i = 0; i < BATCHES; i++) {
        RtBatch *b = rt_batch_new(r->assembler);
        r->all_batches =
            rt_reader_grow(r->all_batches, &r->cap_all_batches, r->n_all_batches + 1, sizeof *r->all_batches);
        r->all_batches[r->n_all_batches++] = b;
        rt_reader_release(r, b);
    }
    if (!start(r, rt_reader_assemble, err)) return false;
    for (int i = 0; i < r->o.threads; i++)
        if (!start(r, parse_thread, err)) return false;
    return start(r, cut_thread, err);
}

/* ---- open and close ---- */

static bool check_options(const RtReader *r, RtMessage *err) {
    for (uint32_t i = 0; i < r->files.n; i++)
        if (!strcmp(r->files.file[i].path[0], "-") && r->o.epochs != 1 && !r->o.cache)
            return rt_message(
                err, "<stdin>: error: stdin can be read once only; several epochs need --cache memory");
    for (int i = 0; i < r->m->n_lookups; i++) {
        const RtWeight *w = &r->m->weights[r->m->lookups[i].table];
        if (w->sparse && w->dim[0] > 1 << 20 && !r->o.tables)
            return rt_message(err, "table '%s' has no storage", w->name);
    }
    return true;
}

static bool open_bad_files(RtReader *r, RtMessage *err) {
    if (r->o.bad == RT_BAD_FAIL || !r->o.bad_path) return true;
    return (r->bad_files = rt_bad_files_new(r->m, r->o.bad_path, r->plan->side, err));
}

static bool open_reader(RtReader *r, RtMessage *err) {
    if (!rt_echo_check(r->m, &r->o.echo, err)) return false;
    if (!(r->plan = rt_plan_new(r->m, r->o.purpose, err))) return false;
    r->plan->echo = r->o.echo;
    rt_echo_declared(r->plan);
    if (!rt_files_find(&r->files, r->o.paths, r->o.n_paths, r->m->beside, r->plan->side, err) ||
        !check_options(r, err))
        return false;
    if (!open_bad_files(r, err)) return false;
    r->assembler = rt_assembler_new(r->plan, r->o.tables, r->o.batch, r->o.index_later);
    char reason[RT_SHOWN];
    if (pipe(r->wake)) return rt_message(err, "cannot make a pipe: %s", rt_reason(errno, reason));
    return start_threads(r, err);
}

RtReader *rt_reader_open(const RtModel *m, const RtReaderOptions *o, char *err, size_t err_bytes) {
    RtReader *r = rt_reader_alloc(1, sizeof *r);
    RtMessage message;
    r->m = m;
    r->o = *o;
    r->bad_rows = o->bad_before;
    if (o->bad_before) rt_message(&r->first_bad, "%s", o->first_bad);
    if (r->o.threads < 1) r->o.threads = 1;
    if (r->o.batch < 1) r->o.batch = 1;
    r->wake[0] = r->wake[1] = -1;
    r->work_end = &r->work;
    r->ahead_end = &r->ahead;
    r->ready_end = &r->ready;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_t *conds[] = {&r->block_free, &r->work_ready, &r->rows_done,
                               &r->rows_space, &r->batch_free, &r->batch_ready};
    for (size_t i = 0; i < sizeof conds / sizeof *conds; i++) pthread_cond_init(conds[i], NULL);
    if (open_reader(r, &message)) return r;
    snprintf(err, err_bytes, "%s", message.text);
    rt_reader_close(r);
    return NULL;
}

static void stop_threads(RtReader *r) {
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_t *conds[] = {&r->block_free, &r->work_ready, &r->rows_done,
                               &r->rows_space, &r->batch_free, &r->batch_ready};
    for (size_t i = 0; i < sizeof conds / sizeof *conds; i++) pthread_cond_broadcast(conds[i]);
    pthread_mutex_unlock(&r->lock);
    if (r->wake[1] >= 0) close(r->wake[1]); /* the other end now reads as ended: that wakes, too */
    for (int i = 0; i < r->n_threads; i++) pthread_join(r->thread[i], NULL);
    if (r->wake[0] >= 0) close(r->wake[0]);
}

static void free_blocks(RtBlock *b) {
    while (b) {
        RtBlock *next = b->next;
        rt_block_free(b);
        b = next;
    }
}

void rt_reader_close(RtReader *r) {
    if (!r) return;
    stop_threads(r);
    free_blocks(r->free_blocks);
    free_blocks(r->work);
    for (size_t i = 0; i < r->n_all_rows; i++) rt_rows_free(r->all_rows[i]);
    for (size_t i = 0; i < r->n_all_batches; i++) rt_batch_free(r->assembler, r->all_batches[i]);
    rt_assembler_free(r->assembler);
    rt_bad_files_free(r->bad_files);
    rt_files_free(&r->files);
    rt_plan_free(r->plan);
    pthread_cond_t *conds[] = {&r->block_free, &r->work_ready, &r->rows_done,
                               &r->rows_space, &r->batch_free, &r->batch_ready};
    for (size_t i = 0; i < sizeof conds / sizeof *conds; i++) pthread_cond_destroy(conds[i]);
    pthread_mutex_destroy(&r->lock);
    free(r->all_rows);
    free(r->all_batches);
    free(r->thread);
    free(r);
}

/* ---- batches ---- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Until there is a batch, or the end. False: woken. With the lock held. */
static bool wait_for_batch(RtReader *r) {
    bool woken = false;
    double from = now();
    while (!r->ready && !r->ended && !woken) {
        struct timespec until;
        if (!r->o.wake) {
            pthread_cond_wait(&r->batch_ready, &r->lock);
            continue;
        }
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += WAKE_NS;
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        pthread_cond_clockwait(&r->batch_ready, &r->lock, CLOCK_MONOTONIC, &until);
        woken = !r->ready && !r->ended && r->o.wake();
    }
    r->wait_seconds += now() - from;
    return !woken;
}

int rt_reader_next(RtReader *r, RtBatch **out, char *err, size_t err_bytes) {
    pthread_mutex_lock(&r->lock);
    if (!r->ready && !r->ended && !wait_for_batch(r)) {
        pthread_mutex_unlock(&r->lock);
        return 2;
    }
    RtBatchOwn *o = r->ready;
    int result = o ? 1 : r->failed ? -1 : 0;
    if (o) {
        r->ready = o->next;
        if (!r->ready) r->ready_end = &r->ready;
        *out = o->batch;
        r->progress = o->progress;
        r->bad_rows = o->bad_rows;
    } else {
        r->bad_rows = r->bad_rows_end;
        if (r->failed) snprintf(err, err_bytes, "%s", r->error.text);
    }
    pthread_mutex_unlock(&r->lock);
    return result;
}

void rt_reader_release(RtReader *r, RtBatch *b) {
    RtBatchOwn *o = b->own;
    pthread_mutex_lock(&r->lock);
    o->next = r->free_batches;
    r->free_batches = o;
    pthread_cond_signal(&r->batch_free);
    pthread_mutex_unlock(&r->lock);
}

const char *rt_reader_file(const RtReader *r, uint32_t file) {
    return file < r->files.n ? r->files.file[file].name[0] : "?";
}
uint64_t rt_reader_bad_rows(const RtReader *r) { return r->bad_rows; }
const char *rt_reader_first_bad(const RtReader *r) { return r->bad_rows ? r->first_bad.text : NULL; }
/* Set as an epoch ends; whoever asks has had a batch that was made after that, or the end. */
static uint64_t locked(const RtReader *r, const uint64_t *value) {
    pthread_mutex_lock((pthread_mutex_t *)&r->lock);
    uint64_t v = *value;
    pthread_mutex_unlock((pthread_mutex_t *)&r->lock);
    return v;
}
uint64_t rt_reader_held_out(const RtReader *r) { return locked(r, &r->held_out); }
uint64_t rt_reader_negatives_left(const RtReader *r) { return locked(r, &r->negatives_left); }
double rt_reader_progress(const RtReader *r) { return r->progress; }
double rt_reader_wait_seconds(const RtReader *r) { return r->wait_seconds; }
uint64_t rt_reader_cache_bytes(const RtReader *r) { return locked(r, &r->cache_bytes); }
