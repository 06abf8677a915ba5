"""Consecutive client batches of one log that are appended with one write."""

from libc.stdint cimport int64_t, uint8_t

from kstore._native.append.batch_appender cimport BatchAppender
from kstore._native.append.validate_batch cimport LeaderCheck, LeaderRules
from kstore._native.format.batch_header cimport BatchHeader
from kstore._native.format.layout cimport V2_HEADER_SIZE

cdef enum:
    MAX_RUN_BATCHES = 64


cdef struct RunBatch:
    LeaderCheck check           # the offsets in its header are those of the client
    const uint8_t* data
    int64_t first               # offsets in the log
    int64_t last
    uint8_t[V2_HEADER_SIZE] head    # the first bytes, as the log stores them


cdef class BatchRun:
    cdef BatchAppender to       # None: not begun
    cdef LeaderRules rules
    cdef RunBatch[MAX_RUN_BATCHES] batches
    cdef int count
    cdef int64_t size           # bytes of these batches
    cdef int64_t next_offset    # after these batches
    cdef bint is_published      # the last write ended, even if an error followed it

    cdef bint begin(self, BatchAppender to) except -1
    cdef RunBatch* add(self, const uint8_t* data, int64_t size) except? NULL
    cdef bint _fits(self, RunBatch* batch) except -1
    cdef bint _is_in_sequence(self, const BatchHeader* header) noexcept
    cdef int write(self) except -1
    cdef int _stamp(self, RunBatch* batch) noexcept
    cdef int end(self) except -1
