/* Matrix products by oneDNN: the only file that knows the library. Each call is one tile on one thread; the
 * threads of a step call it side by side. */
#include <dlfcn.h>
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/abi.h"

/* oneDNN would open an OpenMP team in each of our threads. The limit is a thread's own, so each sets it once.
 * OpenMP comes with oneDNN, built with another runtime it may be missing, and then there is nothing to limit.
 */
static void one_thread(void) {
    static _Thread_local int done;
    if (done) return;
    done = 1;
    void (*set)(int);
    *(void **)&set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (set) set(1);
}

void rt_gemm(uint32_t ta, uint32_t tb, uint64_t m, uint64_t n, uint64_t k, void *a, uint64_t lda, void *b,
             uint64_t ldb, void *c, uint64_t ldc, uint32_t accumulate) {
    if (m == 0 || n == 0) return;
    if (k == 0) {
        for (uint64_t i = 0; i < m && !accumulate; i++) memset((float *)c + i * ldc, 0, n * sizeof(float));
        return;
    }
    one_thread();
    dnnl_status_t s =
        dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, 1.0f, a,
                   (dnnl_dim_t)lda, b, (dnnl_dim_t)ldb, accumulate ? 1.0f : 0.0f, c, (dnnl_dim_t)ldc);
    if (s != dnnl_success) { /* sizes are fixed at compile time: a mistake of ours, not the user's */
        fprintf(stderr, "error: oneDNN refused a product of %llux%llux%llu (status %d)\n",
                (unsigned long long)m, (unsigned long long)n, (unsigned long long)k, (int)s);
        abort();
    }
}
