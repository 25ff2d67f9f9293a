/* FarmHash's Fingerprint64 (Geoff Pike, Google, 2014): what TensorFlow's string_to_hash_bucket_fast takes
 * modulo the number of buckets. Written from the algorithm, which its authors promise never to change. */
#include "runtime/reader_internal.h"
#include <string.h>

static const uint64_t K0 = 0xc3a5c85c97cb3127u, K1 = 0xb492b66fbe98f273u, K2 = 0x9ae16a3b2f90404fu;

static inline uint64_t load64(const char *p) {
    uint64_t x;
    memcpy(&x, p, 8); /* little endian, as all targets are */
    return x;
}
static inline uint64_t load32(const char *p) {
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}
static inline uint64_t rotate(uint64_t x, int by) { return x >> by | x << (64 - by); }
static inline uint64_t shift_mix(uint64_t x) { return x ^ x >> 47; }
static inline uint64_t mix(uint64_t a, uint64_t b, uint64_t mul) {
    a = shift_mix((a ^ b) * mul);
    return shift_mix((b ^ a) * mul) * mul;
}

static uint64_t up_to_16(const char *p, size_t n) {
    uint64_t mul = K2 + n * 2;
    if (n >= 8) {
        uint64_t a = load64(p) + K2, b = load64(p + n - 8);
        return mix(rotate(b, 37) * mul + a, (rotate(a, 25) + b) * mul, mul);
    }
    if (n >= 4) return mix(n + (load32(p) << 3), load32(p + n - 4), mul);
    if (n == 0) return K2;
    uint64_t a = (uint8_t)p[0], b = (uint8_t)p[n >> 1], c = (uint8_t)p[n - 1];
    return shift_mix((a + (b << 8)) * K2 ^ (n + (c << 2)) * K0) * K2;
}

static uint64_t up_to_32(const char *p, size_t n) {
    uint64_t mul = K2 + n * 2, a = load64(p) * K1, b = load64(p + 8), c = load64(p + n - 8) * mul,
             d = load64(p + n - 16) * K2;
    return mix(rotate(a + b, 43) + rotate(c, 30) + d, a + rotate(b + K2, 18) + c, mul);
}

static uint64_t up_to_64(const char *p, size_t n) {
    uint64_t mul = K2 + n * 2, a = load64(p) * K2, b = load64(p + 8), c = load64(p + n - 8) * mul,
             d = load64(p + n - 16) * K2;
    uint64_t y = rotate(a + b, 43) + rotate(c, 30) + d, z = mix(y, a + rotate(b + K2, 18) + c, mul);
    uint64_t e = load64(p + 16) * mul, f = load64(p + 24), g = (y + load64(p + n - 32)) * mul,
             h = (z + load64(p + n - 24)) * mul;
    return mix(rotate(e + f, 43) + rotate(g, 30) + h, e + rotate(f + a, 18) + g, mul);
}

typedef struct {
    uint64_t first, second;
} Pair;
static inline Pair weak(const char *p, uint64_t a, uint64_t b) {
    uint64_t w = load64(p), x = load64(p + 8), y = load64(p + 16), z = load64(p + 24);
    a += w;
    b = rotate(b + a + z, 21);
    uint64_t c = a;
    a += x + y;
    b += rotate(a, 44);
    return (Pair){a + z, b + c};
}

uint64_t rt_farm64(const char *p, size_t n) {
    if (n <= 16) return up_to_16(p, n);
    if (n <= 32) return up_to_32(p, n);
    if (n <= 64) return up_to_64(p, n);
    const uint64_t seed = 81;
    uint64_t x = seed * K2 + load64(p), y = seed * K1 + 113, z = shift_mix(y * K2 + 113) * K2, t;
    Pair v = {0, 0}, w = {0, 0};
    const char *end = p + (n - 1) / 64 * 64, *tail = p + n - 64;
    for (; p != end; p += 64) {
        x = rotate(x + y + v.first + load64(p + 8), 37) * K1;
        y = rotate(y + v.second + load64(p + 48), 42) * K1;
        x ^= w.second;
        y += v.first + load64(p + 40);
        z = rotate(z + w.first, 33) * K1;
        v = weak(p, v.second * K1, x + w.first);
        w = weak(p + 32, z + w.second, y + load64(p + 16));
        t = z, z = x, x = t;
    }
    uint64_t mul = K1 + ((z & 0xff) << 1);
    w.first += (n - 1) & 63;
    v.first += w.first;
    w.first += v.first;
    x = rotate(x + y + v.first + load64(tail + 8), 37) * mul;
    y = rotate(y + v.second + load64(tail + 48), 42) * mul;
    x ^= w.second * 9;
    y += v.first * 9 + load64(tail + 40);
    z = rotate(z + w.first, 33) * mul;
    v = weak(tail, v.second * mul, x + w.first);
    w = weak(tail + 32, z + w.second, y + load64(tail + 16));
    t = z, z = x, x = t;
    return mix(mix(v.first, w.first, mul) + shift_mix(y) * K0 + z, mix(v.second, w.second, mul) + x, mul);
}
