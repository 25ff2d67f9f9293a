/* Digests of large files from end to end. data_digest.c reads pieces of them, so that training can begin:
 * here a thread of low priority reads them beside training, and the checkpoint has the digest from then on.
 * The next program reads a file again only if it isn't the one that was read, by inode number and time of
 * change: a file that was copied, or written to since. As in git, a time so near to the reading that a later
 * change might bear the same one says nothing. */
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>
#include "runtime/reader_internal.h"
#include "runtime/stop.h"

enum { PIECE = 1 << 20, SETTLED_S = 10 };

typedef struct {
    uint64_t digest;
    int64_t inode, changed; /* ns; 0: says nothing */
} Whole;

static int64_t changed_ns(const struct stat *st) {
    return (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
}

/* False: it cannot be read, was written to meanwhile, or *stop. NULL: what stops training. */
static bool read_whole(const char *path, int64_t bytes, const atomic_bool *stop, char *piece, XXH3_state_t *h,
                       Whole *w) {
    struct stat st = {0}, after;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode);
    int64_t begun = time(NULL), done = 0;
    XXH3_64bits_reset(h);
    for (ssize_t got = 1; ok && got; done += got) {
        ok = !(stop ? atomic_load(stop) : rt_stop_reason() != NULL) && (got = read(fd, piece, PIECE)) >= 0;
        if (ok) XXH3_64bits_update(h, piece, (size_t)got);
    }
    ok = ok && done == bytes && !fstat(fd, &after) && changed_ns(&after) == changed_ns(&st);
    if (fd >= 0) close(fd);
    if (!ok) return false;
    w->digest = XXH3_64bits_digest(h);
    w->inode = (int64_t)st.st_ino;
    w->changed = begun - st.st_ctim.tv_sec >= SETTLED_S ? changed_ns(&st) : 0;
    return true;
}

static void put(json_t *file, const Whole *w) {
    char hex[20];
    snprintf(hex, sizeof hex, "%016" PRIx64, w->digest);
    json_object_set_new(file, "whole", json_string(hex));
    json_object_set_new(file, "inode", json_integer((json_int_t)w->inode));
    json_object_set_new(file, "changed", json_integer((json_int_t)w->changed));
}

static const char *path_of(const json_t *file) { return json_string_value(json_object_get(file, "file")); }
static int64_t bytes_of(const json_t *file) { return json_integer_value(json_object_get(file, "bytes")); }
static bool is_asked(const json_t *file) { return json_is_null(json_object_get(file, "whole")); }

/* ---- before going on ---- */

static bool is_as_read(const char *path, const json_t *saved) {
    struct stat st;
    int64_t changed = json_integer_value(json_object_get(saved, "changed"));
    return changed && !stat(path, &st) && changed == changed_ns(&st) &&
           json_integer_value(json_object_get(saved, "inode")) == (int64_t)st.st_ino;
}

void rt_data_read_whole(json_t *file, const json_t *saved) {
    static const char *const keys[] = {"whole", "inode", "changed"};
    if (!is_asked(file) || !json_is_string(json_object_get(saved, "whole"))) return;
    if (is_as_read(path_of(file), saved)) {
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            json_object_set(file, keys[i], json_object_get(saved, keys[i]));
        return;
    }
    char *piece = rt_reader_alloc(PIECE, 1);
    XXH3_state_t *h = XXH3_createState();
    Whole w;
    if (!h) rt_out_of_memory();
    if (read_whole(path_of(file), bytes_of(file), NULL, piece, h, &w)) put(file, &w);
    XXH3_freeState(h);
    free(piece);
}

/* ---- beside training ---- */

typedef struct {
    json_t *file; /* the thread doesn't touch it, */
    const char *path;
    int64_t bytes;
    Whole whole;
    atomic_bool known; /* only these */
} Entry;
struct RtDigester {
    pthread_t thread;
    atomic_bool stop;
    char *piece;
    XXH3_state_t *h;
    size_t n;
    Entry entry[];
};

static void *digest_all(void *arg) {
    RtDigester *d = arg;
    setpriority(PRIO_PROCESS, 0, 19); /* of this thread */
    for (size_t i = 0; i < d->n && !atomic_load(&d->stop); i++) {
        Entry *e = &d->entry[i];
        if (read_whole(e->path, e->bytes, &d->stop, d->piece, d->h, &e->whole)) atomic_store(&e->known, true);
    }
    return NULL;
}

static size_t list(RtDigester *d, json_t *files) {
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(files); i++) {
        json_t *file = json_array_get(files, i);
        if (!is_asked(file)) continue;
        if (d) d->entry[d->n++] = (Entry){.file = file, .path = path_of(file), .bytes = bytes_of(file)};
        n++;
    }
    return n;
}

static void free_digester(RtDigester *d) {
    XXH3_freeState(d->h);
    free(d->piece);
    free(d);
}

RtDigester *rt_digester_start(json_t *data, json_t *eval_data) {
    size_t n = list(NULL, data) + list(NULL, eval_data);
    if (!n) return NULL;
    RtDigester *d = rt_reader_alloc(1, sizeof *d + n * sizeof *d->entry);
    d->piece = rt_reader_alloc(PIECE, 1);
    if (!(d->h = XXH3_createState())) rt_out_of_memory();
    list(d, data);
    list(d, eval_data);
    sigset_t all, before; /* signals are for the threads that wait in system calls for them */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = !pthread_create(&d->thread, NULL, digest_all, d);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (ok) return d;
    free_digester(d); /* then checkpoints are without */
    return NULL;
}

void rt_digester_note(RtDigester *d) {
    for (size_t i = 0; d && i < d->n; i++) {
        const Entry *e = &d->entry[i];
        if (atomic_load(&e->known) && is_asked(e->file)) put(e->file, &e->whole);
    }
}

void rt_digester_end(RtDigester *d) {
    if (!d) return;
    atomic_store(&d->stop, true);
    pthread_join(d->thread, NULL);
    free_digester(d);
}
