/* A checkpoint directory appears at once: it is written beside its place, brought to the disk, and put there
 * by one rename (or an exchange, if a checkpoint stands there). Where the directory itself cannot be replaced
 * (a mount point, or a parent that we may not write) the files are replaced one by one inside; state.json is
 * taken away before and put back last, so that what is left after a crash is never taken for a checkpoint,
 * and the next program that saves there finishes the work: in the temporary directory state.json stands only
 * once all is whole. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/checkpoint_own.h"
#include "runtime/message.h"

bool rt_site_failed(char *err, size_t err_bytes, const char *dir) {
    char reason[RT_SHOWN];
    snprintf(err, err_bytes, "cannot save to %s: %s", dir, rt_reason(errno, reason));
    return false;
}

static bool has(const char *dir, const char *name) {
    char path[RT_PATH];
    return access(rt_path_join(dir, name, path), F_OK) == 0;
}

static bool sync_dir(const char *dir) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL); /* some file systems have no such thing */
    int e = errno;
    if (fd >= 0) close(fd);
    errno = e;
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

/* Names of ours that may stand in a directory without a checkpoint. */
static bool of_ours(const char *name) {
    return !strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, ".tmp") || !strcmp(name, ".lock") ||
           !strcmp(name, ".step");
}

/* An existing directory may be replaced only if it is empty, or a checkpoint is in it. */
static bool may_replace(const char *dir, char *err, size_t err_bytes) {
    struct stat st;
    if (stat(dir, &st)) return errno == ENOENT || rt_site_failed(err, err_bytes, dir);
    if (!S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return rt_site_failed(err, err_bytes, dir);
    }
    for (int i = 0; i < RT_FILES; i++)
        if (has(dir, rt_checkpoint_files[i])) return true;
    DIR *d = opendir(dir);
    if (!d) return rt_site_failed(err, err_bytes, dir);
    bool empty = true;
    for (const struct dirent *e; (e = readdir(d));) empty &= of_ours(e->d_name);
    closedir(d);
    if (!empty)
        snprintf(err, err_bytes, "cannot save to %s: the directory is not empty and holds no checkpoint",
                 dir);
    return empty;
}

bool rt_is_mount(const char *dir) {
    struct statx x;
    return statx(AT_FDCWD, dir, 0, STATX_TYPE, &x) == 0 && (x.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

/* Nothing can be renamed into a mounted directory from outside. A link to a directory would be replaced by
 * one. */
static bool stays(const char *dir) { return rt_is_mount(dir) || rt_is_link(dir); }

static void set_temp(RtSite *g, bool inside) {
    g->inside = inside;
    snprintf(g->temp, sizeof g->temp, "%s%s", g->dir, inside ? "/.tmp" : ".tmp");
}

bool rt_site_find(RtSite *g, const char *dir, char *err, size_t err_bytes) {
    size_t n = strlen(dir);
    if (n >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return rt_site_failed(err, err_bytes, dir);
    }
    strcpy(g->dir, dir);
    while (n > 1 && g->dir[n - 1] == '/') g->dir[--n] = 0;
    set_temp(g, stays(g->dir));
    return true;
}

/* A whole checkpoint in temp whose place is empty: a replacement that broke off. It is all there is. */
static bool halfway(const RtSite *g) {
    return !rt_is_link(g->temp) && has(g->temp, RT_STATE_FILE) && !has(g->dir, RT_STATE_FILE);
}

void rt_site_drop(const RtSite *g) {
    if (!halfway(g)) rt_remove_checkpoint(g->temp);
}

/* ---- putting it in its place ---- */

/* From a temp that has at least state.json. */
static bool move_files(const char *temp, const char *dir) {
    char from[RT_PATH], to[RT_PATH];
    for (int i = 0; i < RT_FILES; i++) {
        const char *name = rt_checkpoint_files[i];
        if (i == RT_FILE_WEIGHTS && !has(temp, name)) continue; /* moved before a crash */
        if (rename(rt_path_join(temp, name, from), rt_path_join(dir, name, to)) || !sync_dir(dir))
            return false;
    }
    rmdir(temp);
    return true;
}

static bool replace_inside(const RtSite *g) {
    char to[RT_PATH];
    if (unlink(rt_path_join(g->dir, RT_STATE_FILE, to)) && errno != ENOENT) return false;
    return sync_dir(g->dir) && move_files(g->temp, g->dir);
}

/* Other files of the old directory (a log, earlier checkpoints) move to the new one. */
static void move_others(const char *from, const char *to) {
    DIR *d = opendir(from);
    for (const struct dirent *e; d && (e = readdir(d));) {
        char a[RT_PATH], b[RT_PATH];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strcmp(e->d_name, RT_WEIGHTS_FILE) ||
            !strcmp(e->d_name, RT_STATE_FILE) || !strcmp(e->d_name, RT_STATE_FILE ".part"))
            continue;
        rename(rt_path_join(from, e->d_name, a), rt_path_join(to, e->d_name, b));
    }
    if (d) closedir(d);
}

static bool put(const RtSite *g) {
    if (g->inside) return replace_inside(g);
    if (renameat2(AT_FDCWD, g->temp, AT_FDCWD, g->dir, RENAME_NOREPLACE) == 0) return true;
    if (errno == EINVAL || errno == ENOSYS) { /* a file system without these flags */
        if (access(g->dir, F_OK) && rename(g->temp, g->dir) == 0) return true;
    }
    if (renameat2(AT_FDCWD, g->temp, AT_FDCWD, g->dir, RENAME_EXCHANGE) == 0) {
        move_others(g->temp, g->dir);
        rt_remove_checkpoint(g->temp);
        return true;
    }
    if (errno == EIO || errno == ENOSPC || errno == EDQUOT)
        return false; /* taking files one by one is no safer */
    return replace_inside(g);
}

bool rt_site_put(const RtSite *g) { return sync_dir(g->temp) && put(g) && sync_parent(g->dir); }

/* ---- after a crash ---- */

static bool finish(const char *temp, const char *dir) {
    return access(dir, F_OK) ? rename(temp, dir) == 0 : move_files(temp, dir);
}

/* What a killed program left in a temporary directory: a whole checkpoint whose place is empty is put there;
 * what an exchange brought along goes back. */
static void recover_from(const char *temp, const RtSite *g) {
    if (access(temp, F_OK) || rt_is_link(temp)) return; /* a link is none of ours */
    if (!has(g->dir, RT_STATE_FILE) && has(temp, RT_STATE_FILE)) finish(temp, g->dir);
    if (!access(g->dir, F_OK)) move_others(temp, g->dir);
}

void rt_site_recover(const RtSite *g) {
    RtSite other = *g;
    set_temp(&other, !g->inside);
    recover_from(g->temp, g);
    recover_from(other.temp, g);
    rt_site_drop(g);
    rt_site_drop(&other);
}

bool rt_site_prepare(RtSite *g, char *err, size_t err_bytes) {
    if (!may_replace(g->dir, err, err_bytes)) return false;
    rt_site_recover(g);
    if (halfway(g) && !finish(g->temp, g->dir)) return rt_site_failed(err, err_bytes, g->dir);
    if (mkdir(g->temp, 0777) == 0) return true;
    int e = errno;
    if (g->inside) return rt_site_failed(err, err_bytes, g->dir);
    set_temp(g, true);
    rt_remove_checkpoint(g->temp);
    if (mkdir(g->temp, 0777) == 0) return true;
    if (errno == ENOENT) errno = e; /* dir isn't there: what kept us from making it? */
    rt_site_failed(err, err_bytes, g->dir);
    set_temp(g, false);
    return false;
}
