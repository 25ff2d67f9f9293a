/* From the paths of the command line to the list of files: directories by name, each file with its partner
 * if a second file is read beside it. */
#include "runtime/reader_internal.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    RtFiles *f;
    const char *suffix; /* of second files, NULL: the model has none */
    bool beside;        /* they are read */
    RtMessage *err;
} Find;

static bool ends_with(const char *name, const char *suffix) {
    size_t n = strlen(name), k = strlen(suffix);
    return n >= k && !strcmp(name + n - k, suffix);
}

static const char *coding_of(const char *name) {
    return ends_with(name, ".gz") ? ".gz" : ends_with(name, ".zst") ? ".zst" : "";
}

static bool is_second(const Find *d, const char *name) {
    if (!d->suffix) return false;
    size_t n = strlen(name) - strlen(coding_of(name)), k = strlen(d->suffix);
    return ends_with(name, d->suffix) || (n >= k && !strncmp(name + n - k, d->suffix, k));
}

static char *joined(const char *a, const char *b, const char *c) {
    size_t n = strlen(a) + strlen(b) + strlen(c) + 1;
    char *s = rt_reader_alloc(n, 1);
    snprintf(s, n, "%s%s%s", a, b, c);
    return s;
}

/* For F it is F_neg; for F.gz it is F.gz_neg or F_neg.gz. */
static char *partner_of(const Find *d, const char *path) {
    char *plain = joined(path, d->suffix, "");
    const char *coding = coding_of(path);
    if (!*coding || !access(plain, F_OK)) return plain;
    char *stem = joined(path, "", "");
    stem[strlen(path) - strlen(coding)] = 0;
    char *other = joined(stem, d->suffix, coding);
    free(stem);
    char *found = access(other, F_OK) ? plain : other;
    free(found == plain ? other : plain);
    return found;
}

static bool check_readable(const Find *d, const char *path, const char *of, struct stat *st) {
    char reason[RT_SHOWN];
    int error = stat(path, st) || access(path, R_OK) ? errno : S_ISDIR(st->st_mode) && of ? EISDIR : 0;
    if (!error) return true;
    if (of)
        return rt_message(d->err, "%s: error: cannot open the file beside '%s': %s", path, of,
                          rt_reason(error, reason));
    return rt_message(d->err, "%s: error: cannot open: %s", path, rt_reason(error, reason));
}

static bool add_file(Find *d, char *path, const char *argument) { /* takes path */
    RtFiles *f = d->f;
    size_t cap = f->cap;
    f->file = rt_reader_grow(f->file, &cap, (size_t)f->n + 1, sizeof *f->file);
    f->cap = (uint32_t)cap;
    RtFile *file = &f->file[f->n++];
    memset(file, 0, sizeof *file);
    file->path[0] = path;
    file->argument = argument;
    file->name[0] = path;
    if (!strcmp(path, "-")) {
        file->name[0] = "<stdin>";
        f->sized = false;
        return true;
    }
    struct stat st;
    if (!check_readable(d, path, NULL, &st)) return false;
    if (!S_ISREG(st.st_mode)) f->sized = false;
    file->bytes = (uint64_t)st.st_size;
    f->bytes += file->bytes;
    if (!d->beside) return true;
    file->path[1] = partner_of(d, path);
    file->name[1] = file->path[1];
    return check_readable(d, file->path[1], path, &st);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Names that begin with '.' or '_' are notes of other tools (.crc, _SUCCESS), second files come by their own.
 */
static bool add_directory(Find *d, const char *path) {
    DIR *dir = opendir(path);
    char reason[RT_SHOWN];
    if (!dir) return rt_message(d->err, "%s: error: cannot open: %s", path, rt_reason(errno, reason));
    char **name = NULL;
    size_t cap = 0, n = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.' || e->d_name[0] == '_' || is_second(d, e->d_name)) continue;
        char *file = joined(path, ends_with(path, "/") ? "" : "/", e->d_name);
        struct stat st;
        if (!stat(file, &st) && S_ISDIR(st.st_mode))
            free(file);
        else {
            name = rt_reader_grow(name, &cap, n + 1, sizeof *name);
            name[n++] = file;
        }
    }
    closedir(dir);
    if (n) qsort(name, n, sizeof *name, by_name);
    bool ok = n > 0;
    if (!ok) rt_message(d->err, "%s: error: the directory holds no data files", path);
    for (size_t i = 0; i < n; i++) {
        if (ok)
            ok = add_file(d, name[i], path);
        else
            free(name[i]);
    }
    free(name);
    return ok;
}

static bool add_path(Find *d, const char *path) {
    struct stat st;
    if (!strcmp(path, "-")) {
        if (d->beside)
            return rt_message(d->err,
                              "<stdin>: error: the model reads a second file beside each ('%s'), so stdin "
                              "cannot be its data",
                              d->suffix);
        for (uint32_t i = 0; i < d->f->n; i++)
            if (!strcmp(d->f->file[i].path[0], "-")) return rt_message(d->err, "<stdin>: error: given twice");
    } else if (!stat(path, &st) && S_ISDIR(st.st_mode))
        return add_directory(d, path);
    return add_file(d, joined(path, "", ""), path);
}

bool rt_files_find(RtFiles *f, const char *const *paths, int n, const char *suffix, bool beside,
                   RtMessage *err) {
    memset(f, 0, sizeof *f);
    f->sized = true;
    Find d = {f, suffix, beside, err};
    if (n <= 0) return rt_message(err, "no data files given");
    for (int i = 0; i < n; i++) {
        if (!add_path(&d, paths[i])) return false;
        f->file[f->n - 1].last = true;
    }
    return true;
}

void rt_files_free(RtFiles *f) {
    for (uint32_t i = 0; i < f->n; i++) {
        for (int side = 0; side < RT_SIDES; side++) {
            free(f->file[i].path[side]);
            rt_layout_free(f->file[i].layout[side]);
        }
    }
    free(f->file);
    memset(f, 0, sizeof *f);
}
