"""The builder of a record batch, for other kernels."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kstore._native.format.record_span cimport RecordSpan


cdef class BatchBuffer:
    cdef uint8_t* data              # 61 bytes reserved for the header, then records
    cdef Py_ssize_t size            # bytes of data in use, at least 61
    cdef Py_ssize_t capacity
    cdef Py_ssize_t views           # number of exported buffers; data may not move while above 0
    cdef int32_t count
    cdef bint replaced              # the caller replaced the records: put fails
    cdef int64_t base_timestamp     # the first record's
    cdef int64_t max_timestamp
    cdef readonly int64_t producer_id
    cdef readonly int16_t producer_epoch
    cdef readonly int32_t base_sequence

    cpdef void reset(self) noexcept
    cpdef int put(self, object value, object key, object headers, int64_t timestamp) except -1
    cpdef Py_ssize_t put_values(
        self, list values, Py_ssize_t start, int64_t timestamp, Py_ssize_t size_limit
    ) except -1
    cdef void finish_batch(
        self, int64_t base_offset, int32_t leader_epoch, int16_t attributes
    ) noexcept nogil
    cdef int grow(self, int64_t room) except -1
    cdef int add(
        self, object value, object key, object headers, int64_t timestamp, int64_t size_limit
    ) except -1
    cdef Py_ssize_t put_plain(
        self, list values, Py_ssize_t start, int64_t timestamp, int64_t size_limit
    ) noexcept
    cdef int put_span(
        self, RecordSpan* span, int64_t timestamp, list headers, int64_t size_limit
    ) except -1
