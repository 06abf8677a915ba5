"""Fields that requests of several kinds share: bounded reads, and the sizes of compact fields."""

from libc.stdint cimport int16_t, uint8_t

from kstore._native.format.ascii_text cimport is_ascii
from kstore._native.format.cursor cimport get_i16


cdef inline Py_ssize_t short_varint(const uint8_t** at, const uint8_t* end) noexcept nogil:
    """An unsigned number of at most 28 bits; -1 for another."""
    cdef Py_ssize_t value = 0
    cdef int shift
    cdef uint8_t byte
    for shift in range(0, 28, 7):
        if at[0] >= end:
            return -1
        byte = at[0][0]
        at[0] += 1
        value |= <Py_ssize_t>(byte & 0x7F) << shift
        if byte < 0x80:
            return value
    return -1


cdef inline bint skip_client_id(const uint8_t** at, const uint8_t* end) noexcept nogil:
    cdef int16_t size
    if end - at[0] < 2:
        return False
    size = get_i16(at[0])
    at[0] += 2
    if size == -1:
        return True
    if size < 0 or size > end - at[0] or not is_ascii(at[0], size):
        return False
    at[0] += size
    return True


cdef inline uint8_t* put_compact_size(uint8_t* at, Py_ssize_t size) noexcept nogil:
    """size + 1 as an unsigned varint, at most five bytes; returns the position behind it."""
    size += 1
    while size >= 0x80:
        at[0] = <uint8_t>(size & 0x7F | 0x80)
        at += 1
        size >>= 7
    at[0] = <uint8_t>size
    return at + 1
