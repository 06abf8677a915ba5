"""A record as an object, for other kernels that make them."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t


cdef class Record:
    cdef readonly int64_t offset
    cdef readonly int32_t leader_epoch
    cdef int8_t timestamp_kind          # -1 none, 0 CreateTime, 1 LogAppendTime
    cdef bint made
    # The four objects after the mark are member descriptors of the type: CPython reads those
    # several times faster than properties. Their order is known to record.pyx.
    cdef int64_t mark
    cdef object key
    cdef object value
    cdef object timestamp               # an int, made once
    cdef object headers


cdef tuple parse_headers(const uint8_t* at, const uint8_t* end, int32_t count)
