/* What the training data is, so that a later run can tell whether it is still the same. Reading 100 GB before
 * training begins would cost minutes: of large files pieces are read, the rest beside it (data_whole.c). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include "runtime/message.h"
#include "runtime/reader_internal.h"

enum { PIECE = 1 << 20, PIECES = 16 };

/* Reads n bytes from `at`, fewer at the end of the file. -1: errno says why. */
static int64_t read_at(int fd, char *to, size_t n, uint64_t at) {
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(fd, to + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (int64_t)done;
}

static bool hash_pieces(int fd, uint64_t size, uint64_t *digest) {
    char *piece = rt_reader_alloc(PIECE, 1);
    XXH3_state_t *h = XXH3_createState();
    if (!h) rt_out_of_memory();
    XXH3_64bits_reset(h);
    bool whole = size <= (uint64_t)PIECE * PIECES, ok = true;
    uint64_t n = whole ? (size + PIECE - 1) / PIECE : PIECES;
    for (uint64_t i = 0; i < n && ok; i++) {
        uint64_t at = whole ? i * PIECE : (uint64_t)((unsigned __int128)(size - PIECE) * i / (PIECES - 1));
        int64_t got = read_at(fd, piece, PIECE, at);
        ok = got >= 0;
        if (ok) XXH3_64bits_update(h, piece, (size_t)got);
    }
    *digest = XXH3_64bits_digest(h);
    XXH3_freeState(h);
    free(piece);
    return ok;
}

static json_t *describe(const char *path, const char *name, RtMessage *err) {
    struct stat st;
    char reason[RT_SHOWN], hex[20];
    uint64_t digest = 0;
    bool regular = !stat(path, &st) && S_ISREG(st.st_mode); /* opening a pipe would take bytes, or wait */
    if (!regular) return json_pack("{s:s,s:n,s:n}", "file", name, "bytes", "digest");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && hash_pieces(fd, (uint64_t)st.st_size, &digest);
    if (!ok) rt_message(err, "%s: error: cannot read: %s", name, rt_reason(errno, reason));
    if (fd >= 0) close(fd);
    snprintf(hex, sizeof hex, "%016" PRIx64, digest);
    if (!ok) return NULL;
    json_t *o = json_pack("{s:s,s:I,s:s}", "file", name, "bytes", (json_int_t)st.st_size, "digest", hex);
    if ((uint64_t)st.st_size > (uint64_t)PIECE * PIECES) json_object_set_new(o, "whole", json_null());
    return o;
}

json_t *rt_data_digests(const RtModel *m, const char *const *paths, int n, char *err, size_t err_bytes) {
    RtMessage message = {""};
    RtFiles files = {0};
    json_t *all = json_array();
    RtPlan *plan = rt_plan_new(m, RT_TRAIN, &message);
    bool ok = plan && rt_files_find(&files, paths, n, m->beside, plan->side, &message);
    for (uint32_t i = 0; i < files.n && ok; i++)
        for (int side = 0; side < RT_SIDES && ok; side++) {
            const RtFile *f = &files.file[i];
            if (!f->path[side]) continue;
            json_t *o = describe(f->path[side], f->name[side], &message);
            ok = o && !json_array_append_new(all, o);
        }
    rt_files_free(&files);
    rt_plan_free(plan);
    if (ok) return all;
    snprintf(err, err_bytes, "%s", message.text);
    json_decref(all);
    return NULL;
}
