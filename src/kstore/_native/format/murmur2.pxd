"""Kafka's key hash, for other kernels."""

from libc.stdint cimport int32_t, uint8_t


# MurmurHash2 as in Kafka's Utils.murmur2: seed 0x9747b28c, little-endian, bytes unsigned.
cdef int32_t murmur2(const uint8_t* data, Py_ssize_t size) noexcept nogil
