/* Initial values. Each element is a pure function of (seed, weight's name, element): a counter through a
 * mixer gives 53 random bits, the inverse of the distribution makes a value of them. So a row may be made
 * when it is first met, in any order and on any thread. */
#include <math.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "runtime/tables.h"

/* Two rounds of a 64-bit finaliser over a counter that steps by an odd constant (SplitMix64 with a second
 * round): uniform in the open interval (0, 1). */
static double uniform(uint64_t key, uint64_t element) {
    uint64_t x = key + element * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 2; i++) {
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        x ^= x >> 31;
    }
    return ((double)(x >> 11) + 0.5) * 0x1p-53;
}

static double ratio(const double a[8], const double b[7], double r) {
    double num = a[7], den = b[6];
    for (int i = 6; i >= 0; i--) num = num * r + a[i];
    for (int i = 5; i >= 0; i--) den = den * r + b[i];
    return num / (den * r + 1);
}

/* Inverse of the normal distribution function, Wichura's AS 241 (PPND16), relative error about 1e-16. */
static double normal_quantile(double p) {
    static const double a[8] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                                1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                                3.3430575583588128105e4, 2.5090809287301226727e3};
    static const double b[7] = {4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
                                2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
                                5.2264952788528545610e3};
    static const double c[8] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                5.76949722146069140550e0,  3.64784832476320460504e0,
                                1.27045825245236838258e0,  2.41780725177450611770e-1,
                                2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double d[7] = {2.05319162663775882187e0,  1.67638483018380384940e0,
                                6.89767334985100004550e-1, 1.48103976427480074590e-1,
                                1.51986665636164571966e-2, 5.47593808499534494600e-4,
                                1.05075007164441684324e-9};
    static const double e[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                1.78482653991729133580e0,  2.96560571828504891230e-1,
                                2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static const double f[7] = {5.99832206555887937690e-1, 1.36929880922735805310e-1,
                                1.48753612908506148525e-2, 7.86869131145613259100e-4,
                                1.84631831751005468180e-5, 1.42151175831644588870e-7,
                                2.04426310338993978564e-15};
    double q = p - 0.5;
    if (fabs(q) <= 0.425) return q * ratio(a, b, 0.180625 - q * q);
    double r = sqrt(-log(q < 0 ? p : 1 - p));
    double x = r <= 5 ? ratio(c, d, r - 1.6) : ratio(e, f, r - 5);
    return q < 0 ? -x : x;
}

/* A normal value of spread 1 redrawn until it lies within ±2 has this distribution function's inverse. */
static double truncated_quantile(double u) {
    const double tail = 0.022750131948179207200; /* Φ(-2) */
    return normal_quantile(tail + u * (1 - 2 * tail));
}

static void fans(const RtWeight *w, double *in, double *out) {
    *in = *out = w->rank ? (double)w->dim[w->rank - 1] : 1;
    if (w->rank > 1) *in = (double)w->dim[w->rank - 2];
}

/* Spread of the normal cut at ±2 whose standard deviation is 1, so that cut kinds keep the variance they are
 * named for (as TensorFlow's variance scaling does). */
#define CUT_SPREAD 0.87962566103423978

void rt_init_values(const RtWeight *w, uint64_t seed, uint64_t first, uint64_t n, float *out) {
    double in, outs, scale = w->init_arg;
    fans(w, &in, &outs);
    enum { FILL, UNIFORM, NORMAL, TRUNCATED } kind = FILL;
    const char *k = w->init;
    if (!strcmp(k, "zeros"))
        scale = 0;
    else if (!strcmp(k, "ones"))
        scale = 1;
    else if (!strcmp(k, "uniform"))
        kind = UNIFORM;
    else if (!strcmp(k, "normal"))
        kind = NORMAL;
    else if (!strcmp(k, "truncated_normal"))
        kind = TRUNCATED;
    else if (!strcmp(k, "glorot_uniform"))
        kind = UNIFORM, scale = sqrt(6 / (in + outs));
    else if (!strcmp(k, "glorot_normal"))
        kind = TRUNCATED, scale = sqrt(2 / (in + outs)) / CUT_SPREAD;
    else if (!strcmp(k, "he_normal"))
        kind = TRUNCATED, scale = sqrt(2 / in) / CUT_SPREAD;
    if (kind == FILL) {
        for (uint64_t i = 0; i < n; i++) out[i] = (float)scale;
        return;
    }
    uint64_t key = XXH3_64bits_withSeed(w->name, strlen(w->name), seed);
    for (uint64_t i = 0; i < n; i++) {
        double u = uniform(key, first + i);
        double x = kind == UNIFORM ? 2 * u - 1 : kind == NORMAL ? normal_quantile(u) : truncated_quantile(u);
        out[i] = (float)(scale * x);
    }
}
