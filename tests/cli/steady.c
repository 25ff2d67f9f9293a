/* Preloaded into a program: counts calls by which a thread gets or gives back memory, by the thread's name.
 * At the end a line "NAME CALLS" of each name goes to the file STEADY_COUNT; the first thread is "main". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 64, NAME = 16 };
static struct Thread {
    char name[NAME];
    long calls;
} threads[THREADS];
static int n_threads;

/* A thread's name is given by the one that starts it, so perhaps after its first calls: asked each time. */
static void count(void) {
    static __thread struct Thread *mine;
    if (!mine) {
        int i = __atomic_fetch_add(&n_threads, 1, __ATOMIC_RELAXED);
        if (i >= THREADS) abort();
        mine = &threads[i];
    }
    mine->calls++;
    if (getpid() == (pid_t)syscall(SYS_gettid))
        strcpy(mine->name, "main");
    else
        prctl(PR_GET_NAME, mine->name);
}

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n) { return count(), __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return count(), __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return count(), __libc_realloc(p, n); }
void *memalign(size_t align, size_t n) { return count(), __libc_memalign(align, n); }
void *aligned_alloc(size_t align, size_t n) { return count(), __libc_memalign(align, n); }
int posix_memalign(void **p, size_t align, size_t n) {
    count();
    return (*p = __libc_memalign(align, n)) ? 0 : 12; /* ENOMEM */
}
#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))
void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
    return count(), REAL(mmap)(at, n, prot, flags, fd, offset);
}
int munmap(void *at, size_t n) { return count(), REAL(munmap)(at, n); }
int madvise(void *at, size_t n, int advice) { return count(), REAL(madvise)(at, n, advice); }

__attribute__((destructor)) static void tell(void) {
    const char *path = getenv("STEADY_COUNT");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    for (int i = 0; fd >= 0 && i < n_threads; i++) dprintf(fd, "%s %ld\n", threads[i].name, threads[i].calls);
    if (fd >= 0) close(fd);
}
