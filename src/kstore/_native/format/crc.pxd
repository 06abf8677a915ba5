"""Checksums for other kernels; seed is 0, or the result for the preceding bytes."""

from libc.stdint cimport uint8_t, uint32_t


cdef uint32_t crc32c(uint32_t seed, const uint8_t* data, size_t size) noexcept nogil
cdef uint32_t crc32(uint32_t seed, const uint8_t* data, size_t size) noexcept nogil
