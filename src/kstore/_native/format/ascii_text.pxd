"""Whether bytes are ASCII text, which needs no other check to be UTF-8."""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy


cdef inline bint is_ascii(const uint8_t* at, Py_ssize_t size) noexcept nogil:
    cdef uint64_t word, seen = 0
    cdef Py_ssize_t position = 0
    while size - position >= 8:
        memcpy(&word, at + position, 8)
        seen |= word
        position += 8
    while position < size:
        seen |= at[position]
        position += 1
    return seen & <uint64_t>0x8080808080808080 == 0
