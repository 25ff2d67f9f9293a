/* Preloaded into a program: call number FAULT_AT of the function FAULT fails with EIO, of malloc (calloc,
 * realloc and aligned_alloc count as such) with ENOMEM, with FAULT_ON also all that follow. Calls on stdout
 * and stderr aren't counted, nor those before the program's own first one; those of child processes are. The
 * number of calls is in the file FAULT_COUNT. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static long *calls; /* in memory that children share: the file */
static const char *which;
static long at, on;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULT_COUNT"), *n = getenv("FAULT_AT");
    int fd = path ? open(path, O_RDWR | O_CREAT | O_TRUNC, 0666) : -1;
    which = getenv("FAULT");
    on = getenv("FAULT_ON") != NULL;
    at = n ? atol(n) : 0;
    if (fd < 0) return;
    if (ftruncate(fd, sizeof *calls)) abort();
    void *p = (void *)syscall(SYS_mmap, NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) abort();
    calls = p;
    close(fd);
}

static int started; /* by rt_main, which sets this signal's handler first of all */
__sighandler_t signal(int s, __sighandler_t handler) {
    if (s == SIGXFSZ) started = 1;
    return ((__sighandler_t(*)(int, __sighandler_t))dlsym(RTLD_NEXT, "signal"))(s, handler);
}

static int fails(const char *name) {
    if (!started || !calls || !which || strcmp(which, name)) return 0;
    long n = __atomic_add_fetch(calls, 1, __ATOMIC_RELAXED);
    int fail = n == at || (n > at && on);
    if (fail) errno = strcmp(name, "malloc") ? EIO : ENOMEM;
    return fail;
}

#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

pid_t fork(void) { return fails("fork") ? -1 : REAL(fork)(); }
int fsync(int fd) { return fails("fsync") ? -1 : REAL(fsync)(fd); }
int rename(const char *a, const char *b) { return fails("rename") ? -1 : REAL(rename)(a, b); }
int renameat2(int x, const char *a, int y, const char *b, unsigned flags) {
    return fails("renameat2") ? -1 : REAL(renameat2)(x, a, y, b, flags);
}
int mkdir(const char *path, mode_t mode) { return fails("mkdir") ? -1 : REAL(mkdir)(path, mode); }
int link(const char *a, const char *b) { return fails("link") ? -1 : REAL(link)(a, b); }
int unlink(const char *path) { return fails("unlink") ? -1 : REAL(unlink)(path); }
FILE *fopen(const char *path, const char *mode) { return fails("fopen") ? NULL : REAL(fopen)(path, mode); }
size_t fwrite(const void *p, size_t size, size_t n, FILE *f) {
    return f != stdout && f != stderr && fails("fwrite") ? 0 : REAL(fwrite)(p, size, n, f);
}
int fflush(FILE *f) { return f && f != stdout && f != stderr && fails("fflush") ? EOF : REAL(fflush)(f); }

ssize_t read(int fd, void *to, size_t n) { return fails("read") ? -1 : REAL(read)(fd, to, n); }
ssize_t pread(int fd, void *to, size_t n, off_t at_byte) {
    return fails("read") ? -1 : REAL(pread)(fd, to, n, at_byte);
}
ssize_t write(int fd, const void *p, size_t n) {
    return fd != 1 && fd != 2 && fails("write") ? -1 : REAL(write)(fd, p, n);
}
ssize_t pwrite(int fd, const void *p, size_t n, off_t at_byte) {
    return fails("write") ? -1 : REAL(pwrite)(fd, p, n, at_byte);
}
void *mmap(void *p, size_t n, int prot, int flags, int fd, off_t from) {
    return fails("mmap") ? MAP_FAILED : REAL(mmap)(p, n, prot, flags, fd, from);
}

void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void *malloc(size_t n) { return fails("malloc") ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return fails("malloc") ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return fails("malloc") ? NULL : __libc_realloc(p, n); }
void *aligned_alloc(size_t to, size_t n) { return fails("malloc") ? NULL : __libc_memalign(to, n); }
