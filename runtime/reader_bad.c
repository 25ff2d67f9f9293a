/* Where bad lines go: exactly the bytes that they were, below the header of their file, so that what was
 * mended can be read in their place. Files with another header get a bad file of their own (NAME.2, …), rows
 * of a second file beside one beside it. */
#include "runtime/reader_internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const RtFile *like; /* the file whose headers it begins with; NULL: nothing is written yet */
    FILE *file[RT_SIDES];
    char *path[RT_SIDES];
} BadFile;

struct RtBadFiles {
    const char *path, *suffix; /* suffix NULL: no second file is read */
    BadFile *file;
    size_t n, cap;
};

static bool fail_write(const char *path, RtMessage *err) {
    char reason[RT_SHOWN];
    return rt_message(err, "%s: error: cannot write: %s", path, rt_reason(errno, reason));
}

static bool add_file(RtBadFiles *b, RtMessage *err) {
    b->file = rt_reader_grow(b->file, &b->cap, b->n + 1, sizeof *b->file);
    BadFile *f = &b->file[b->n++];
    memset(f, 0, sizeof *f);
    for (int side = 0; side < (b->suffix ? 2 : 1); side++) {
        size_t bytes = strlen(b->path) + (b->suffix ? strlen(b->suffix) : 0) + 32;
        f->path[side] = rt_reader_alloc(bytes, 1);
        if (b->n == 1)
            snprintf(f->path[side], bytes, "%s%s", b->path, side ? b->suffix : "");
        else
            snprintf(f->path[side], bytes, "%s.%zu%s", b->path, b->n, side ? b->suffix : "");
        f->file[side] = fopen(f->path[side], "wbe");
        if (!f->file[side]) return fail_write(f->path[side], err);
    }
    return true;
}

RtBadFiles *rt_bad_files_new(const RtModel *m, const char *path, bool beside, RtMessage *err) {
    RtBadFiles *b = rt_reader_alloc(1, sizeof *b);
    b->path = path;
    b->suffix = beside ? m->beside : NULL;
    if (add_file(b, err)) return b;
    rt_bad_files_free(b);
    return NULL;
}

static bool same_headers(const RtFile *a, const RtFile *b) {
    for (int side = 0; side < RT_SIDES; side++) {
        const RtLayout *x = a->layout[side], *y = b->layout[side];
        if (!x != !y ||
            (x && (x->header_bytes != y->header_bytes || memcmp(x->header, y->header, x->header_bytes))))
            return false;
    }
    return true;
}

static bool put(BadFile *f, int side, const char *text, size_t bytes, RtMessage *err) {
    return fwrite(text, 1, bytes, f->file[side]) == bytes || fail_write(f->path[side], err);
}

bool rt_bad_files_write(RtBadFiles *b, const RtFile *of, const RtRows *r, RtMessage *err) {
    size_t i = 0;
    while (i < b->n && b->file[i].like && !same_headers(b->file[i].like, of)) i++;
    if (i == b->n && !add_file(b, err)) return false;
    BadFile *f = &b->file[i];
    for (int side = 0; side < (b->suffix ? 2 : 1); side++) {
        const RtLayout *l = of->layout[side];
        if (!f->like && l && !put(f, side, l->header, l->header_bytes, err)) return false;
        if (!put(f, side, r->bad[side], r->bad_bytes[side], err)) return false;
    }
    f->like = of;
    return true;
}

bool rt_bad_files_flush(RtBadFiles *b, RtMessage *err) {
    for (size_t i = 0; i < b->n; i++)
        for (int side = 0; side < RT_SIDES; side++)
            if (b->file[i].file[side] && fflush(b->file[i].file[side]))
                return fail_write(b->file[i].path[side], err);
    return true;
}

void rt_bad_files_free(RtBadFiles *b) {
    if (!b) return;
    for (size_t i = 0; i < b->n; i++)
        for (int side = 0; side < RT_SIDES; side++) {
            if (b->file[i].file[side]) fclose(b->file[i].file[side]);
            free(b->file[i].path[side]);
        }
    free(b->file);
    free(b);
}
