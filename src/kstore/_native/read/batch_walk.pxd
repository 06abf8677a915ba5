"""Complete batches in a buffer, one after another, for the cleaner's two passes."""

from libc.stdint cimport int64_t, uint8_t

from kstore._native.format.batch_header cimport BatchHeader
from kstore._native.format.layout cimport DELETE_HORIZON_BIT
from kstore._native.format.record_rows cimport Rows
from kstore._native.format.status cimport Status


cdef enum Event:
    AT_END = 0                  # of the complete batches in the buffer
    ASK = 1                     # the caller decides about the batch
    FULL = 2                    # the map is; the batch counts as not read
    CODED = 3                   # the batch has to be decompressed
    DAMAGED = 4


cdef inline int64_t horizon_of(const BatchHeader* batch) noexcept nogil:
    if batch.magic == 2 and batch.attributes & DELETE_HORIZON_BIT:
        return batch.base_timestamp
    return -1


cdef class BatchWalk:
    cdef Py_buffer view
    cdef object source
    cdef object path
    cdef object decompress
    cdef int64_t position       # in the buffer
    cdef int64_t end
    cdef int64_t start          # of the buffer, in the file
    cdef int64_t last_offset    # of the batch before
    cdef BatchHeader batch
    cdef Status status
    cdef Rows rows
    cdef readonly int64_t records
    cdef readonly int64_t invalid       # records without a key

    cdef const uint8_t* data(self) noexcept nogil
    cdef int fail(self) except -1
    cdef Event next_batch(self) noexcept nogil
    cdef bint decided_by_transaction(self) noexcept nogil
    cdef bint is_coded(self) noexcept nogil
    cdef void step(self) noexcept nogil
    cdef Status fill_plain(self, const uint8_t** from_, const uint8_t** stop) noexcept nogil
    cdef object unpacked(self)
    cdef Status fill_unpacked(self, const uint8_t* at, int64_t size) noexcept nogil
