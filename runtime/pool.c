#include "runtime/pool.h"
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "runtime/message.h"

/* A few µs of spinning for an evenly loaded neighbour; then some hundred µs of giving the CPU away and
 * looking again; then sleep. On idle CPUs yielding is as good as spinning, and where other processes (or our
 * readers) want them it is far better: at load 10 on two CPUs a barrier cost 23 µs, against 60-200 with 1500
 * spins and no yields, since a thread that spins keeps the one it waits for from running. */
enum { SPINS = 100, YIELDS = 1000 };

typedef struct {
    _Alignas(64) atomic_uint round;
    _Alignas(64) atomic_uint arrived;
    atomic_uint asleep;
} Barrier;

/* Blocks of a thread's share that are taken. */
typedef struct {
    _Alignas(64) atomic_uint taken;
} Share;

typedef struct {
    RtPool *pool;
    uint32_t thread;
} Worker;

struct RtPool {
    Barrier barrier;
    uint32_t threads;
    int spins;
    bool quit;
    RtPoolFn fn; /* written before the barrier that starts a run */
    void *arg;
    Share *share; /* [thread] */
    Worker *workers;
    pthread_t *ids;
};

static long futex(atomic_uint *word, int op, unsigned value) {
    return syscall(SYS_futex, (unsigned *)word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void deal_anew(RtPool *p) {
    for (uint32_t i = 0; i < p->threads; i++)
        atomic_store_explicit(&p->share[i].taken, 0, memory_order_relaxed);
}

static void barrier_wait(RtPool *p) {
    Barrier *b = &p->barrier;
    unsigned round = atomic_load_explicit(&b->round, memory_order_relaxed);
    if (atomic_fetch_add(&b->arrived, 1) + 1 == p->threads) {
        atomic_store_explicit(&b->arrived, 0, memory_order_relaxed);
        deal_anew(p); /* all have left the phase before, none has begun the next */
        atomic_store(&b->round, round + 1);
        if (atomic_load(&b->asleep)) futex(&b->round, FUTEX_WAKE, (unsigned)INT32_MAX);
        return;
    }
    for (int i = 0; i < p->spins; i++) {
        if (atomic_load_explicit(&b->round, memory_order_acquire) != round) return;
        __builtin_ia32_pause();
    }
    for (int i = 0; i < YIELDS; i++) {
        if (atomic_load_explicit(&b->round, memory_order_acquire) != round) return;
        sched_yield();
    }
    atomic_fetch_add(&b->asleep, 1);
    while (atomic_load(&b->round) == round) futex(&b->round, FUTEX_WAIT, round);
    atomic_fetch_sub(&b->asleep, 1);
}

void rt_pool_barrier(RtPool *p) {
    if (p->threads > 1)
        barrier_wait(p);
    else
        deal_anew(p);
}

uint32_t rt_pool_take(RtPool *p, uint32_t thread, uint32_t threads, uint32_t blocks) {
    for (uint32_t k = 0; k < threads; k++) {
        uint64_t whose = (thread + k) % threads;
        uint32_t first = (uint32_t)(blocks * whose / threads),
                 end = (uint32_t)(blocks * (whose + 1) / threads);
        atomic_uint *taken = &p->share[whose].taken;
        if (atomic_load_explicit(taken, memory_order_relaxed) >= end - first) continue;
        uint32_t n = atomic_fetch_add_explicit(taken, 1, memory_order_relaxed);
        if (n < end - first) return first + n;
    }
    return RT_NONE_LEFT;
}

static void *work(void *arg) {
    Worker *w = arg;
    RtPool *p = w->pool;
    for (;;) {
        rt_pool_barrier(p);
        if (p->quit) return NULL;
        p->fn(p->arg, w->thread, p->threads);
        rt_pool_barrier(p);
    }
}

void rt_pool_run(RtPool *p, RtPoolFn fn, void *arg) {
    p->fn = fn;
    p->arg = arg;
    rt_pool_barrier(p);
    fn(arg, 0, p->threads);
    rt_pool_barrier(p);
}

RtPool *rt_pool_new(uint32_t threads) {
    RtPool *p = aligned_alloc(64, (sizeof *p + 63) / 64 * 64);
    if (!p) rt_out_of_memory();
    *p = (RtPool){.threads = threads, .spins = threads <= rt_cpus() ? SPINS : 0};
    p->workers = calloc(threads, sizeof *p->workers);
    p->ids = calloc(threads, sizeof *p->ids);
    p->share = aligned_alloc(64, threads * sizeof *p->share);
    if (!p->workers || !p->ids || !p->share) rt_out_of_memory();
    deal_anew(p);
    for (uint32_t i = 1; i < threads; i++) {
        p->workers[i] = (Worker){p, i};
        int e = pthread_create(&p->ids[i], NULL, work, &p->workers[i]);
        if (e) { /* those made wait at the barrier for ever: the program ends with this error */
            errno = e;
            return NULL;
        }
        pthread_setname_np(p->ids[i], "step");
    }
    return p;
}

void rt_pool_free(RtPool *p) {
    if (!p) return;
    p->quit = true;
    rt_pool_barrier(p);
    for (uint32_t i = 1; i < p->threads; i++) pthread_join(p->ids[i], NULL);
    free(p->workers);
    free(p->ids);
    free(p->share);
    free(p);
}

uint32_t rt_pool_threads(const RtPool *p) { return p->threads; }
