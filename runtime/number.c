/* Decimal text to numbers, without the C library's locale and its price.
 *
 * A float is computed in double from the first 19 digits and a power of ten: at most four roundings of half a
 * unit each, so the double is within a few units of the true value, and its nearest float is the right one
 * unless a boundary between two floats lies that near. Those few go to strtof. */
#include "runtime/reader_internal.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POWERS = 64 }; /* beyond: zero, overflow or denormal, left to strtof */
static const double power_of_ten[POWERS + 1] = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22, 1e23, 1e24, 1e25, 1e26, 1e27, 1e28, 1e29, 1e30, 1e31, 1e32, 1e33,
    1e34, 1e35, 1e36, 1e37, 1e38, 1e39, 1e40, 1e41, 1e42, 1e43, 1e44, 1e45, 1e46, 1e47, 1e48, 1e49, 1e50,
    1e51, 1e52, 1e53, 1e54, 1e55, 1e56, 1e57, 1e58, 1e59, 1e60, 1e61, 1e62, 1e63, 1e64};

/* What the syntax says: sign, the digits' place, and the exponent that the last digit kept in `head` has. */
typedef struct {
    bool negative, more;      /* more: digits after the first 19 significant ones */
    uint64_t head;            /* the first 19 significant digits */
    int64_t exponent;         /* value = head * 10^exponent, nearly if more */
    const char *first, *last; /* digits and at most one point */
    int64_t written;          /* the exponent as written */
} Decimal;

static inline bool is_digit(char c) { return (unsigned char)(c - '0') < 10; }

static bool scan_decimal(const char *p, const char *end, Decimal *d) {
    memset(d, 0, sizeof *d);
    if (p < end && (*p == '-' || *p == '+')) d->negative = *p++ == '-';
    d->first = p;
    int significant = 0;
    int64_t digits = 0, after_point = 0;
    bool point = false;
    for (; p < end; p++) {
        if (is_digit(*p)) {
            digits++;
            after_point += point;
            if (significant < 19) {
                d->head = d->head * 10 + (uint64_t)(*p - '0');
                significant += d->head != 0;
            } else {
                d->exponent++; /* this digit is not in head */
                d->more |= *p != '0';
            }
        } else if (*p == '.' && !point)
            point = true;
        else
            break;
    }
    d->last = p;
    if (!digits) return false;
    d->exponent -= after_point;
    if (p < end && (*p == 'e' || *p == 'E')) {
        bool minus = false;
        if (++p < end && (*p == '-' || *p == '+')) minus = *p++ == '-';
        if (p == end) return false;
        for (; p < end && is_digit(*p); p++)
            if (d->written < 1000000000)
                d->written = d->written * 10 + (*p - '0'); /* enough to be 0 or infinite */
        if (minus) d->written = -d->written;
        d->exponent += d->written;
    }
    return p == end;
}

/* The exact way. Digits beyond the 150th cannot change anything but which side of a boundary the value is on,
 * which one further digit says: a boundary between floats has at most 150 digits. */
static float hard_float(const Decimal *d) {
    char text[200];
    int n = 0;
    int64_t exponent = d->written;
    bool point = false, more = false;
    for (const char *p = d->first; p < d->last; p++) {
        if (*p == '.') {
            point = true;
            continue;
        }
        if (point) exponent--;
        if (n == 0 && *p == '0') continue;
        if (n < 150)
            text[n++] = *p;
        else {
            more |= *p != '0';
            exponent++;
        }
    }
    if (!n) return 0;
    if (more) {
        text[n++] = '1';
        exponent--;
    }
    snprintf(text + n, sizeof text - (size_t)n, "e%lld", (long long)exponent); /* no point: no locale */
    return strtof(text, NULL);
}

/* Up to 15 digits with a point or without: digits and power of ten are exact doubles, so their quotient is
 * the nearest double, and its nearest float the right one unless the quotient stands between two floats. */
static inline bool easy_float(const char *p, size_t bytes, float *out) {
    const char *end = p + bytes;
    bool negative = *p == '-';
    uint64_t head = 0, point = 0; /* point: place of the point from the end, 0: none seen */
    p += negative;
    if (end - p > 16 || end - p < 2) {
        if (end - p != 1 || !is_digit(*p)) return false;
    }
    for (; p < end; p++) {
        if (is_digit(*p))
            head = head * 10 + (uint64_t)(*p - '0');
        else if (*p == '.' && !point)
            point = (uint64_t)(end - p);
        else
            return false;
    }
    if (head >> 53) return false;
    double x = (double)head / power_of_ten[point ? point - 1 : 0];
    uint64_t bits;
    memcpy(&bits, &x, 8);
    if ((bits & ((1u << 29) - 1)) == 1u << 28) return false;
    *out = negative ? -(float)x : (float)x;
    return true;
}

RtNumber rt_parse_float(const char *p, size_t bytes, float *out) {
    Decimal d;
    if (bytes && easy_float(p, bytes, out)) return RT_NUMBER_OK;
    if (!scan_decimal(p, p + bytes, &d)) return RT_NUMBER_BAD;
    float f;
    double x = (double)d.head;
    if (d.head == 0)
        f = 0;
    else if (d.exponent < -POWERS || d.exponent > POWERS)
        f = hard_float(&d);
    else {
        x = d.exponent < 0 ? x / power_of_ten[-d.exponent] : x * power_of_ten[d.exponent];
        uint64_t bits;
        memcpy(&bits, &x, 8);
        int64_t from_boundary = (int64_t)(bits & ((1u << 29) - 1)) - (1 << 28);
        bool exact = !d.more && d.exponent == 0 && d.head >> 53 == 0; /* an integer: x is the value itself */
        if ((from_boundary > -16 && from_boundary < 16 && !exact) || x < (double)FLT_MIN * 2 ||
            x > (double)FLT_MAX / 2)
            f = hard_float(&d);
        else
            f = (float)x;
    }
    if (isinf(f)) return RT_NUMBER_RANGE;
    *out = d.negative ? -f : f;
    return RT_NUMBER_OK;
}

RtNumber rt_parse_int(const char *p, size_t bytes, int64_t *out) {
    const char *end = p + bytes;
    bool negative = false;
    if (p < end && (*p == '-' || *p == '+')) negative = *p++ == '-';
    if (p == end) return RT_NUMBER_BAD;
    uint64_t x = 0;
    bool over = false;
    for (; p < end; p++) {
        if (!is_digit(*p)) return RT_NUMBER_BAD;
        over = over || __builtin_mul_overflow(x, (uint64_t)10, &x) ||
               __builtin_add_overflow(x, (uint64_t)(*p - '0'), &x);
    }
    if (over || x > (uint64_t)INT64_MAX + negative) return RT_NUMBER_RANGE;
    *out = negative ? (int64_t)(0 - x) : (int64_t)x;
    return RT_NUMBER_OK;
}
