/* The threads of a step. They wait by spinning briefly, then asleep in the kernel. The thread that calls
 * rt_pool_run is thread 0. */
#ifndef CTRC_RUNTIME_POOL_H
#define CTRC_RUNTIME_POOL_H
#include <stdbool.h>
#include <stdint.h>
#include "runtime/abi.h"

typedef struct RtPool RtPool;
typedef void (*RtPoolFn)(void *arg, uint32_t thread, uint32_t threads);

RtPool *rt_pool_new(uint32_t threads); /* NULL with errno if a thread cannot be made */
void rt_pool_free(RtPool *p);
uint32_t rt_pool_threads(const RtPool *p);
/* fn on every thread at once; returns when all are done. */
void rt_pool_run(RtPool *p, RtPoolFn fn, void *arg);
/* Inside fn: waits until all threads have come. */
void rt_pool_barrier(RtPool *p);
/* Inside fn: the next of `blocks` blocks that no thread has taken since the last barrier, RT_NONE_LEFT if all
 * are. Each thread has a share of its own, floor(blocks * thread / threads) on, the same each time, so that what
 * it touched before is in its cache; when that is done it helps those who are behind (another process had their
 * CPU, or their rows are longer). All threads must give the same number. */
uint32_t rt_pool_take(RtPool *p, uint32_t thread, uint32_t threads, uint32_t blocks);

/* CPUs that this process may use: affinity and the cgroup's quota, at least 1. */
uint32_t rt_cpus(void);

#endif
