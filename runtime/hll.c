#include "runtime/hll.h"
#include <math.h>

enum { REGISTERS = 1 << RT_HLL_BITS, MOST = 64 - RT_HLL_BITS };

/* x + sum of x^(2^k) 2^(k-1): what registers that are still zero say. */
static double sigma(double x) {
    if (x == 1) return INFINITY;
    double y = 1, z = x, before;
    do {
        x *= x;
        before = z;
        z += x * y;
        y += y;
    } while (z != before);
    return z;
}

/* (1 - x - sum of (1 - x^(2^-k))^2 2^-k) / 3: what full ones say. */
static double tau(double x) {
    if (x == 0 || x == 1) return 0;
    double y = 1, z = 1 - x, before;
    do {
        x = sqrt(x);
        before = z;
        y *= 0.5;
        z -= (1 - x) * (1 - x) * y;
    } while (z != before);
    return z / 3;
}

double rt_hll_count(const RtHll *h) {
    uint32_t of[MOST + 2] = {0};
    for (int i = 0; i < REGISTERS; i++) of[h->rank[i]]++;
    double m = REGISTERS, z = m * tau(1 - of[MOST + 1] / m);
    for (int k = MOST; k >= 1; k--) z = 0.5 * (z + of[k]);
    z += m * sigma(of[0] / m);
    return m * m / (2 * log(2.0) * z);
}
