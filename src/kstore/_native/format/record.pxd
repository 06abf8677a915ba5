"""The class Record, for other kernels that create records."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t


cdef class Record:
    cdef readonly int64_t offset
    cdef readonly int32_t leader_epoch
    cdef int8_t timestamp_kind          # -1 none, 0 CreateTime, 1 LogAppendTime
    cdef bint is_initialized
    cdef int32_t origin                 # in _origins; 0: the record does not know its partition
    # The four objects after mark become member descriptors of the type, which CPython reads
    # several times faster than properties. record.pyx depends on their order.
    cdef int64_t mark
    cdef object key
    cdef object value
    cdef object timestamp               # a Python int
    cdef object headers


cdef tuple parse_headers(const uint8_t* at, const uint8_t* end, int32_t count)
