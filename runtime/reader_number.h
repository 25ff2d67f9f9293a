/* Numbers of a few characters, eight bytes at a time: what most of a log's are. For text with readable bytes
 * behind it, as all that stands in a block has. */
#ifndef CTRC_RUNTIME_READER_NUMBER_H
#define CTRC_RUNTIME_READER_NUMBER_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define RT_EACH_BYTE(b) ((uint64_t)(b)*0x0101010101010101u)

static inline uint64_t rt_load64(const char *p) {
    uint64_t x;
    memcpy(&x, p, 8); /* little endian, as all targets are */
    return x;
}

/* Eight digits as values, the first one lowest in memory. */
static inline uint64_t rt_eight_digits(uint64_t x) {
    x = x * 10 + (x >> 8); /* pairs */
    return (((x & 0x000000ff000000ffu) * 0x000f424000000064u) +
            ((x >> 16 & 0x000000ff000000ffu) * 0x0000271000000001u)) >>
           32;
}

/* The high bit of each byte that isn't 0 to 9. */
static inline uint64_t rt_not_digits(uint64_t x) {
    return ((x + RT_EACH_BYTE(0x76)) | x) & RT_EACH_BYTE(0x80);
}

/* Up to eight characters, a sign not counted: [-]digits with at most one point; false: something else. Digits
 * and power of ten are exact doubles, so their quotient is the nearest double. Its nearest float is the right
 * one, too: the middle of two floats, m / 2^j with m < 2^25, is at least 1 / (2^j 10^7) away from a number of
 * seven places that isn't it, so 2^-49 of its size, and a double's rounding is below 2^-53. */
static inline bool rt_short_float(const char *p, uint32_t n, float *out) {
    static const double shift[9] = {1e7, 1e6, 1e5, 1e4, 1e3,
                                    1e2, 1e1, 1,   1}; /* by the point's byte, 8: none */
    uint32_t minus = *p == '-';
    p += minus, n -= minus;
    if (n - 1 > 7) return false;
    uint64_t x = (rt_load64(p) ^ RT_EACH_BYTE('0'))
                 << (64 - 8 * n); /* the last character in the highest byte */
    uint64_t is_point = x ^ RT_EACH_BYTE('.' ^ '0');
    is_point = ~(((is_point & RT_EACH_BYTE(0x7f)) + RT_EACH_BYTE(0x7f)) | is_point) & RT_EACH_BYTE(0x80);
    uint64_t lowest = (is_point & -is_point) >> 7, before = lowest - 1, behind = -(lowest << 8);
    uint32_t points = is_point != 0;
    x = (x & behind) | (x & before) << 8 * points;
    if (rt_not_digits(x) | (n == points)) return false; /* no branch on what is as good as random */
    uint32_t byte = is_point ? (uint32_t)__builtin_ctzll(is_point) >> 3 : 8;
    double d = (double)(int64_t)rt_eight_digits(x) / shift[byte];
    float f = (float)d;
    uint32_t word;
    memcpy(&word, &f, 4);
    word |= minus << 31;
    memcpy(out, &word, 4);
    return true;
}

/* Up to eight digits. */
static inline bool rt_short_int(const char *p, uint32_t n, int64_t *out) {
    uint32_t minus = *p == '-';
    p += minus, n -= minus;
    if (n - 1 > 7) return false;
    uint64_t x = (rt_load64(p) ^ RT_EACH_BYTE('0')) << (64 - 8 * n);
    if (rt_not_digits(x)) return false;
    int64_t value = (int64_t)rt_eight_digits(x);
    *out = minus ? -value : value;
    return true;
}

#endif
