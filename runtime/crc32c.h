/* CRC-32C (Castagnoli; RFC 3720, appendix B.4), and as record files mask it. Our own, since a program that
 * needed one more shared library for so little could not be copied to another machine as easily. */
#ifndef CTRC_RUNTIME_CRC32C_H
#define CTRC_RUNTIME_CRC32C_H
#include <stddef.h>
#include <stdint.h>

uint32_t rt_crc32c(const void *p, size_t n);
/* Turned and shifted, so that a checksum of data that holds checksums is still a good one. */
uint32_t rt_crc32c_masked(const void *p, size_t n);

#endif
