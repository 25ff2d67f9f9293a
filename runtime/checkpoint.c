/* A checkpoint directory appears at once: it is written beside its place, brought to the disk, and put there
 * by one rename (or an exchange, if a checkpoint stands there). Where the directory itself cannot be replaced
 * (a mount point, or a parent that we may not write) the files are replaced one by one inside; state.json is
 * taken away before and put back last, so that what is left after a crash is never taken for a checkpoint. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/checkpoint_own.h"
#include "runtime/message.h"
#include "runtime/program.h"

static const char *const files[] = {"weights.safetensors", "state.json"};
enum { WEIGHTS, STATE, FILES };

typedef struct {
    char dir[PATH_MAX], temp[PATH_MAX + 16]; /* temp: where it is written first */
    bool inside;                             /* temp is inside dir */
} Target;

static bool failed(char *err, size_t err_bytes, const char *dir) {
    char reason[RT_SHOWN];
    snprintf(err, err_bytes, "cannot save to %s: %s", dir, rt_reason(errno, reason));
    return false;
}

static const char *join(const char *dir, const char *name, char out[2 * PATH_MAX]) {
    snprintf(out, 2 * PATH_MAX, "%s/%s", dir, name);
    return out;
}

static void remove_ours(const char *dir) {
    char path[2 * PATH_MAX];
    for (int i = 0; i < FILES; i++) unlink(join(dir, files[i], path));
    rmdir(dir);
}

static bool sync_dir(const char *dir) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL); /* some file systems have no such thing */
    if (fd >= 0) close(fd);
    return ok;
}
static bool sync_parent(const char *dir) {
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%s", dir);
    char *slash = strrchr(parent, '/');
    if (!slash)
        strcpy(parent, ".");
    else if (slash == parent)
        parent[1] = 0;
    else
        *slash = 0;
    return sync_dir(parent);
}

/* An existing directory may be replaced only if it is empty, or a checkpoint is in it. */
static bool may_replace(const char *dir, char *err, size_t err_bytes) {
    struct stat st;
    if (stat(dir, &st)) return errno == ENOENT || failed(err, err_bytes, dir);
    if (!S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return failed(err, err_bytes, dir);
    }
    char path[2 * PATH_MAX];
    for (int i = 0; i < FILES; i++)
        if (!access(join(dir, files[i], path), F_OK)) return true;
    DIR *d = opendir(dir);
    if (!d) return failed(err, err_bytes, dir);
    bool empty = true;
    for (const struct dirent *e; (e = readdir(d));)
        empty &= !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strcmp(e->d_name, ".tmp");
    closedir(d);
    if (!empty)
        snprintf(err, err_bytes, "cannot save to %s: the directory is not empty and holds no checkpoint",
                 dir);
    return empty;
}

/* A mounted directory (a container's volume, say) cannot be renamed, and nothing can be renamed into it from
 * outside. */
static bool is_mount(const char *dir) {
    struct statx x;
    return statx(AT_FDCWD, dir, 0, STATX_TYPE, &x) == 0 && (x.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

static bool make_inside(Target *g) {
    g->inside = true;
    snprintf(g->temp, sizeof g->temp, "%s/.tmp", g->dir);
    remove_ours(g->temp); /* of an earlier try that was killed */
    return mkdir(g->temp, 0777) == 0;
}

/* Makes the temporary directory, beside dir or inside it. */
static bool prepare(Target *g, const char *dir, char *err, size_t err_bytes) {
    size_t n = strlen(dir);
    if (n >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return failed(err, err_bytes, dir);
    }
    strcpy(g->dir, dir);
    while (n > 1 && g->dir[n - 1] == '/') g->dir[--n] = 0;
    if (!may_replace(g->dir, err, err_bytes)) return false;
    if (is_mount(g->dir)) return make_inside(g) || failed(err, err_bytes, dir);
    g->inside = false;
    snprintf(g->temp, sizeof g->temp, "%s.tmp", g->dir);
    remove_ours(g->temp);
    if (mkdir(g->temp, 0777) == 0) return true;
    int e = errno;
    if (make_inside(g)) return true;
    if (errno == ENOENT) errno = e; /* dir isn't there: what kept us from making it? */
    return failed(err, err_bytes, dir);
}

bool rt_checkpoint_probe(const char *dir, char *err, size_t err_bytes) {
    Target g;
    if (!prepare(&g, dir, err, err_bytes)) return false;
    rmdir(g.temp);
    return true;
}

/* ---- putting it in its place ---- */

static bool replace_inside(const Target *g) {
    char from[2 * PATH_MAX], to[2 * PATH_MAX];
    if (unlink(join(g->dir, files[STATE], to)) && errno != ENOENT) return false;
    if (!sync_dir(g->dir)) return false;
    for (int i = 0; i < FILES; i++)
        if (rename(join(g->temp, files[i], from), join(g->dir, files[i], to)) || !sync_dir(g->dir))
            return false;
    rmdir(g->temp);
    return true;
}

/* Other files of the old directory (a log, say) move to the new one. */
static void move_others(const char *from, const char *to) {
    DIR *d = opendir(from);
    for (const struct dirent *e; d && (e = readdir(d));) {
        char a[2 * PATH_MAX], b[2 * PATH_MAX];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strcmp(e->d_name, files[0]) ||
            !strcmp(e->d_name, files[1]))
            continue;
        rename(join(from, e->d_name, a), join(to, e->d_name, b));
    }
    if (d) closedir(d);
}

static bool put_in_place(const Target *g) {
    if (g->inside) return replace_inside(g);
    if (renameat2(AT_FDCWD, g->temp, AT_FDCWD, g->dir, RENAME_NOREPLACE) == 0) return true;
    if (errno == EINVAL || errno == ENOSYS) { /* a file system without these flags */
        if (access(g->dir, F_OK) && rename(g->temp, g->dir) == 0) return true;
    }
    if (renameat2(AT_FDCWD, g->temp, AT_FDCWD, g->dir, RENAME_EXCHANGE) == 0) {
        move_others(g->temp, g->dir);
        remove_ours(g->temp);
        return true;
    }
    return replace_inside(g);
}

bool rt_checkpoint_save(const char *dir, const RtModel *m, RtTables *t, const RtState *s, char *err,
                        size_t err_bytes) {
    Target g;
    char path[2 * PATH_MAX];
    if (!prepare(&g, dir, err, err_bytes)) return false;
    bool ok = rt_weights_write(join(g.temp, files[WEIGHTS], path), m, t, err, err_bytes) &&
              rt_state_write(join(g.temp, files[STATE], path), m, t, s, err, err_bytes);
    if (ok && !(sync_dir(g.temp) && put_in_place(&g) && sync_parent(g.dir))) ok = failed(err, err_bytes, dir);
    if (!ok) remove_ours(g.temp);
    return ok;
}

/* ---- reading ---- */

RtTables *rt_checkpoint_open(const RtModel *m, const char *dir, char *err, size_t err_bytes) {
    char path[2 * PATH_MAX];
    struct stat st;
    RtSavedState s;
    if (stat(dir, &st) == 0 && S_ISDIR(st.st_mode) && access(join(dir, files[STATE], path), F_OK)) {
        snprintf(err, err_bytes, "%s: no checkpoint in this directory", dir);
        return NULL;
    }
    if (!rt_state_read(join(dir, files[STATE], path), dir, m, &s, err, err_bytes)) return NULL;
    RtTables *t = rt_tables_new(m, (uint64_t)s.seed, err, err_bytes);
    if (!t) return NULL;
    if (!rt_weights_read(join(dir, files[WEIGHTS], path), dir, m, t, false, err, err_bytes)) {
        rt_tables_free(t);
        return NULL;
    }
    rt_tables_loaded(t, s.s.step);
    if (strcmp(s.digest, m->digest))
        rt_warn("%s: written by the model '%s' from another source (digest %s, here %s); its weights fit",
                dir, s.model, s.digest, m->digest);
    return t;
}
