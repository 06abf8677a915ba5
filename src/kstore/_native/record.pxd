"""A record as an object, for other kernels that make them."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t


cdef class Record:
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp
    cdef readonly int32_t leader_epoch
    cdef int32_t header_count           # of raw_headers, while those are not parsed yet
    cdef int8_t timestamp_kind          # -1 none, 0 CreateTime, 1 LogAppendTime
    cdef bint made
    cdef readonly bytes key
    cdef readonly bytes value
    cdef object raw_headers             # bytes to parse on first use, or the parsed tuple

    cdef tuple _fields(self)


cdef tuple parse_headers(const uint8_t* at, const uint8_t* end, int32_t count)
