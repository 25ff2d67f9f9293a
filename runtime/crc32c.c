#include "runtime/crc32c.h"

static const uint32_t polynomial = 0x82f63b78u; /* 0x1edc6f41, lowest bit first */

uint32_t rt_crc32c(const void *p, size_t n) {
    const uint8_t *bytes = p;
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) { /* some hundred bytes a line of a log: no table is worth it */
        crc ^= bytes[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
    }
    return ~crc;
}

uint32_t rt_crc32c_masked(const void *p, size_t n) {
    uint32_t crc = rt_crc32c(p, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}
