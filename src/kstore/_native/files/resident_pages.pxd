"""Whether bytes are in memory, so that reading them does not wait for a disk."""

from libc.stdint cimport int32_t, int64_t, uint8_t

cdef extern from "files/resident_pages.h" nogil:
    bint pages_are_resident(const uint8_t* first, int64_t size)
    int32_t coarse_seconds()
