"""The state of each idempotent or transactional producer of a log."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from kstore._native.format.batch_header cimport BatchHeader
from kstore._native.format.end_marker cimport Marker


cdef enum:
    BATCHES_KEPT = 5            # of each producer, to detect duplicates


cdef enum Verdict:
    ACCEPTED = 0
    DUPLICATE = 1               # one of the kept batches: return its offsets
    OUT_OF_ORDER = 2            # OUT_OF_ORDER_SEQUENCE_NUMBER (45)
    OLD_EPOCH = 3               # INVALID_PRODUCER_EPOCH (47)
    NOT_TRANSACTIONAL = 4       # INVALID_TXN_STATE (48): not part of the open transaction
    FENCED = 5                  # TRANSACTION_COORDINATOR_FENCED (52)


cdef struct KeptBatch:
    int64_t last_offset
    int64_t timestamp
    int32_t last_sequence
    int32_t offset_delta


cdef struct Producer:
    int64_t producer_id
    int64_t last_timestamp
    int64_t transaction_first_offset    # of the open transaction; -1: none
    int32_t coordinator_epoch           # of the last marker; -1: none
    int16_t epoch
    int8_t kept                         # number of batches in use
    int8_t oldest                       # slot of the oldest one: batches is a ring
    KeptBatch[BATCHES_KEPT] batches


cdef struct OpenTransaction:
    int64_t first_offset
    int64_t producer_id


cdef class ProducerTable:
    cdef Producer* rows
    cdef Py_ssize_t count, capacity
    cdef int32_t* slots                 # hash table by producer id: index of a row, or -1
    cdef Py_ssize_t slot_count
    cdef Py_ssize_t latest              # the row found last
    cdef OpenTransaction* open_transactions        # in order of first offset
    cdef Py_ssize_t open_count, open_capacity
    cdef uint8_t* aborted_data          # transaction index of one segment, as on disk
    cdef Py_ssize_t aborted_size, aborted_capacity
    cdef public Py_ssize_t aborted_written  # bytes of it already in the segment's file
    cdef public int64_t aborted_base    # base offset of that segment

    cdef Py_ssize_t _slot(self, int64_t producer_id) noexcept
    cdef Producer* find(self, int64_t producer_id) noexcept
    cdef int reserve(self, Py_ssize_t more) except -1
    cdef int rehash(self, Py_ssize_t slot_count) except -1
    cdef Verdict check_batch(
        self, const BatchHeader* batch, bint client, const KeptBatch** duplicate
    ) noexcept
    cdef Verdict check_marker(self, const Marker* marker, int transaction_version) noexcept
    # These two cannot fail, because they follow the write: call reserve before it.
    cdef void add_batch(
        self, const BatchHeader* batch, int64_t first, int64_t last, int64_t timestamp
    ) noexcept
    cdef bint add_marker(self, const Marker* marker) noexcept
    cdef bint end_transaction(
        self, Producer* producer, int64_t marker_offset, bint commit
    ) noexcept
    # For any batch that a leader has accepted, at data[batch.position].
    cdef bint add_replicated(self, const uint8_t* data, const BatchHeader* batch) noexcept
    cdef Producer* find_or_add(self, int64_t producer_id) noexcept
