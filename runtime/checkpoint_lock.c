/* DIR.lock: held, by flock, by the program that saves into DIR, so that the system frees it however the
 * program ends. The file says who it is. It lies beside the directory, since that is replaced as a whole; in
 * a mounted directory, or under a parent that we may not write, inside. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/checkpoint_own.h"
#include "runtime/message.h"

enum { RETRY_MS = 10, PATIENCE_MS = 20000 };

struct RtLock {
    int fd;
    char path[RT_PATH];
};

/* One name for a directory, however it is called and whether it is there yet. */
static bool canonical(const char *dir, char out[PATH_MAX]) {
    if (realpath(dir, out)) return true;
    char parent[PATH_MAX], base[PATH_MAX];
    snprintf(parent, sizeof parent, "%s", dir);
    size_t n = strlen(parent);
    while (n > 1 && parent[n - 1] == '/') parent[--n] = 0;
    char *slash = strrchr(parent, '/');
    snprintf(base, sizeof base, "%s", slash ? slash + 1 : parent);
    if (slash) slash[slash == parent] = 0;
    if (!realpath(slash ? parent : ".", out)) return false;
    size_t used = strlen(out);
    return (size_t)snprintf(out + used, PATH_MAX - used, "%s%s", used > 1 ? "/" : "", base) < PATH_MAX - used;
}

static bool lock_path(const char *dir, char out[RT_PATH]) {
    char real[PATH_MAX], parent[PATH_MAX];
    if (!canonical(dir, real)) return false;
    strcpy(parent, real);
    char *slash = strrchr(parent, '/');
    slash[slash == parent] = 0;
    bool inside = rt_is_mount(real);
    if (!inside && access(parent, W_OK)) {
        int e = errno;
        inside = !access(real, F_OK);
        errno = e; /* why it cannot be made */
        if (!inside) return false;
    }
    snprintf(out, RT_PATH, "%s%s", real, inside ? "/.lock" : ".lock");
    return true;
}

static void tell_owner(int fd, const char *dir, char *err, size_t err_bytes) {
    char text[300] = "", host[100] = "", here[100] = "";
    long pid = 0;
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    gethostname(here, sizeof here - 1);
    if (n > 0 && sscanf(text, "%ld %99s", &pid, host) == 2)
        snprintf(err, err_bytes, "cannot save to %s: another program saves there (pid %ld%s%s)", dir, pid,
                 strcmp(host, here) ? " on " : "", strcmp(host, here) ? host : "");
    else
        snprintf(err, err_bytes, "cannot save to %s: another program saves there", dir);
}

/* The owner removes the file when it is done: what we locked may not be what bears the name now. */
static bool still_named(int fd, const char *path) {
    struct stat a, b;
    return !fstat(fd, &a) && !stat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static bool write_owner(int fd) {
    char text[300], host[100] = "";
    gethostname(host, sizeof host - 1);
    int n = snprintf(text, sizeof text, "%ld %s\n", (long)getpid(), host);
    return !ftruncate(fd, 0) && pwrite(fd, text, (size_t)n, 0) == n;
}

static bool is_zombie(long pid) {
    char path[40], text[400] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    const char *state = n ? strrchr(text, ')') : NULL; /* "pid (name) S …", and the name may hold anything */
    return state && state[1] == ' ' && (state[2] == 'Z' || state[2] == 'X');
}

/* A program that was killed may leave a process that saved for it (checkpoint_snapshot.c): it holds the lock
 * until it is gone, too, at once unless the disk lets nobody go. */
static bool owner_is_gone(int fd) {
    char text[300] = "", host[100] = "", here[100] = "";
    long pid = 0;
    gethostname(here, sizeof here - 1);
    bool known = pread(fd, text, sizeof text - 1, 0) > 0 && sscanf(text, "%ld %99s", &pid, host) == 2;
    return known && pid > 0 && !strcmp(host, here) &&
           ((kill((pid_t)pid, 0) && errno == ESRCH) || is_zombie(pid));
}

static bool lock(int fd) {
    for (int waited = 0;; waited += RETRY_MS) {
        if (!flock(fd, LOCK_EX | LOCK_NB)) return true;
        if (errno != EWOULDBLOCK || waited >= PATIENCE_MS) return false;
        bool gone = owner_is_gone(fd);
        errno = EWOULDBLOCK;
        if (!gone) return false;
        usleep(RETRY_MS * 1000);
    }
}

RtLock *rt_lock_take(const char *dir, char *err, size_t err_bytes) {
    RtLock *l = malloc(sizeof *l);
    if (!l) rt_out_of_memory();
    l->fd = -1;
    /* no link is followed: in a directory of many users it might lead to a file that we are not to write to
     */
    enum { HOW = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW };
    while (lock_path(dir, l->path) && (l->fd = open(l->path, HOW, 0666)) >= 0) {
        if (!lock(l->fd)) {
            if (errno == EWOULDBLOCK) {
                tell_owner(l->fd, dir, err, err_bytes);
                close(l->fd);
                free(l);
                return NULL;
            }
            if (errno != ENOLCK && errno != ENOSYS && errno != EOPNOTSUPP)
                break; /* a file system without locks: better unlocked than not at all */
        }
        if (still_named(l->fd, l->path)) {
            write_owner(l->fd); /* only for the other's message: a full disk doesn't matter here */
            return l;
        }
        close(l->fd);
        l->fd = -1;
    }
    rt_site_failed(err, err_bytes, dir);
    if (l->fd >= 0) close(l->fd);
    free(l);
    return NULL;
}

void rt_lock_release(RtLock *l) {
    if (!l) return;
    if (still_named(l->fd, l->path)) unlink(l->path);
    close(l->fd);
    free(l);
}
