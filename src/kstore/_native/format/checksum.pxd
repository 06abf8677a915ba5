"""Checksums for other kernels: seed 0 starts, an earlier result continues."""

from libc.stdint cimport uint8_t, uint32_t


cdef uint32_t crc32c(uint32_t seed, const uint8_t* data, size_t size) noexcept nogil
cdef uint32_t crc32(uint32_t seed, const uint8_t* data, size_t size) noexcept nogil
