/* Preloaded into a program: call number FAULT_AT of the function FAULT fails with EIO, with FAULT_ON also all that
 * follow. Calls on stdout and stderr aren't counted; those of child processes are. At the end the number of calls goes
 * to the file FAULT_COUNT. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static long *calls; /* in memory that children share */

__attribute__((constructor)) static void begin(void) {
    calls = mmap(NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (calls == MAP_FAILED) abort();
}

static int fails(const char *name) {
    const char *which = getenv("FAULT"), *at = getenv("FAULT_AT");
    if (!calls || !which || !at || strcmp(which, name)) return 0;
    long n = __atomic_add_fetch(calls, 1, __ATOMIC_RELAXED);
    int fail = n == atol(at) || (n > atol(at) && getenv("FAULT_ON"));
    if (fail) errno = EIO;
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

__attribute__((destructor)) static void tell(void) {
    const char *path = getenv("FAULT_COUNT");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    if (fd < 0) return;
    dprintf(fd, "%ld\n", *calls);
    close(fd);
}
