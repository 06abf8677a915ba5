"""Complete batches in a buffer, one after another, for the cleaner's two passes."""

from libc.stdint cimport int64_t, uint8_t

from kstore._native.format.batch_header cimport BatchHeader
from kstore._native.format.record_rows cimport Rows
from kstore._native.format.status cimport Status


cdef enum Event:
    AT_END = 0                  # no more complete batches in the buffer
    DECIDE = 1                  # the caller decides what happens to the batch
    FULL = 2                    # the offset map is full; the batch is not processed
    COMPRESSED = 3              # the batch must be decompressed first
    DAMAGED = 4


cdef class BatchWalk:
    cdef Py_buffer view
    cdef object source
    cdef object path
    cdef object decompress
    cdef int64_t position       # in the buffer
    cdef int64_t end
    cdef int64_t start          # of the buffer, in the file
    cdef int64_t last_offset    # of the previous batch
    cdef BatchHeader batch
    cdef Status status
    cdef Rows rows
    cdef readonly int64_t records
    cdef readonly int64_t invalid       # records without a key

    cdef const uint8_t* data(self) noexcept nogil
    cdef int fail(self) except -1
    cdef Event next_batch(self) noexcept nogil
    cdef bint is_decided_by_transaction(self) noexcept nogil
    cdef bint is_compressed(self) noexcept nogil
    cdef void step(self) noexcept nogil
    cdef Status fill_uncompressed(
        self, const uint8_t** start_out, const uint8_t** stop_out
    ) noexcept nogil
    cdef object decompress_batch(self)
    cdef Status fill_decompressed(self, const uint8_t* at, int64_t size) noexcept nogil
