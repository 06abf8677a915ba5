"""CRC-32C (record batch v2) and CRC-32 (message v0 and v1)."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t

cdef uint32_t[256] _CASTAGNOLI
cdef uint32_t[256] _IEEE


cdef void _fill(uint32_t* table, uint32_t polynomial) noexcept:
    cdef uint32_t n, value
    cdef int bit
    for n in range(256):
        value = n
        for bit in range(8):
            value = (value >> 1) ^ (polynomial if value & 1 else 0)
        table[n] = value

_fill(_CASTAGNOLI, 0x82F63B78)
_fill(_IEEE, 0xEDB88320)


cdef uint32_t _run(uint32_t* table, uint32_t seed, const uint8_t* data, size_t size) noexcept nogil:
    cdef uint32_t value = ~seed
    cdef size_t n
    for n in range(size):
        value = (value >> 8) ^ table[(value ^ data[n]) & 0xFF]
    return ~value


cdef uint32_t crc32c(uint32_t seed, const uint8_t* data, size_t size) noexcept nogil:
    return _run(_CASTAGNOLI, seed, data, size)


cdef uint32_t crc32(uint32_t seed, const uint8_t* data, size_t size) noexcept nogil:
    return _run(_IEEE, seed, data, size)
