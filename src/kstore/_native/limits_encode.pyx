"""A bare C loop that encodes records: the ceiling the real encoder is measured against.

It trusts everything and checks nothing but the end of its output; for benchmarks only.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from kstore._native.checksum cimport crc32c
from kstore._native.cursor cimport put_varint


def encode(bytes values, Py_ssize_t size, uint8_t[::1] out):
    """Encode values of one size that lie one after another; returns (bytes, CRC-32C)."""
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(values)
    cdef Py_ssize_t count = PyBytes_GET_SIZE(values) // size, n
    cdef uint8_t* to = &out[0]
    cdef uint8_t* end = to + out.shape[0]
    cdef int64_t body
    with nogil:
        for n in range(count):
            if end - to < size + 32:
                break
            body = 6 + size + (n > 63) + (n > 8191) + (size > 63)
            to = put_varint(to, body)
            to[0] = 0
            to[1] = 0
            to = put_varint(to + 2, n)
            to[0] = 1
            to = put_varint(to + 1, size)
            memcpy(to, at + n * size, size)
            to[size] = 0
            to += size + 1
    return to - &out[0], crc32c(0, &out[0], to - &out[0])
