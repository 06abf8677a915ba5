"""What a log knows of each idempotent or transactional producer."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from kstore._native.format.batch_header cimport BatchHeader


cdef enum:
    BATCHES_KEPT = 5            # of each producer, to answer duplicates


cdef enum Verdict:
    ACCEPTED = 0
    DUPLICATE = 1               # one of the kept batches: answered with its offsets
    OUT_OF_ORDER = 2            # OUT_OF_ORDER_SEQUENCE_NUMBER (45)
    OLD_EPOCH = 3               # INVALID_PRODUCER_EPOCH (47)
    NOT_TRANSACTIONAL = 4       # INVALID_TXN_STATE (48): a plain batch in an open transaction
    FENCED = 5                  # TRANSACTION_COORDINATOR_FENCED (52)


cdef struct KeptBatch:
    int64_t last_offset
    int64_t timestamp
    int32_t last_sequence
    int32_t offset_delta


cdef struct Producer:
    int64_t producer_id
    int64_t last_timestamp
    int64_t transaction_first_offset    # of the open transaction, -1: none
    int32_t coordinator_epoch           # of the last marker, -1: none
    int16_t epoch
    int8_t kept                         # how many of batches are in use
    int8_t oldest                       # slot of the first of them; the others follow, in a ring
    KeptBatch[BATCHES_KEPT] batches


cdef struct OpenTransaction:
    int64_t first_offset
    int64_t producer_id


cdef struct Marker:
    int64_t producer_id
    int64_t timestamp
    int64_t offset
    int32_t coordinator_epoch
    int16_t epoch
    bint commit


cdef class ProducerTable:
    cdef Producer* rows
    cdef Py_ssize_t count, capacity
    cdef int32_t* slots                 # open addressing by producer id: a row's number, or -1
    cdef Py_ssize_t slot_count
    cdef Py_ssize_t latest              # the row that was looked up last
    cdef OpenTransaction* opened        # by first offset, ascending
    cdef Py_ssize_t open_count, open_capacity
    cdef uint8_t* aborted_data          # transaction index of one segment, as on disk
    cdef Py_ssize_t aborted_size, aborted_capacity
    cdef public Py_ssize_t aborted_written  # bytes of it that are in the segment's file
    cdef public int64_t aborted_base    # base offset of that segment

    cdef Py_ssize_t _slot(self, int64_t producer_id) noexcept
    cdef Producer* find(self, int64_t producer_id) noexcept
    cdef int reserve(self, Py_ssize_t more) except -1
    cdef int rehash(self, Py_ssize_t slot_count) except -1
    cdef Verdict judge(
        self, const BatchHeader* batch, bint client, const KeptBatch** duplicate
    ) noexcept
    cdef Verdict judge_marker(self, const Marker* marker, int transaction_version) noexcept
    # These two need what reserve gave, and cannot fail: they follow a write that happened.
    cdef void add_batch(
        self, const BatchHeader* batch, int64_t first, int64_t last, int64_t timestamp
    ) noexcept
    cdef bint add_marker(self, const Marker* marker) noexcept
    cdef bint end_transaction(
        self, Producer* producer, int64_t marker_offset, bint commit
    ) noexcept
    # A batch that a leader has accepted, whatever it is; it stands at data[batch.position].
    cdef bint add_replicated(self, const uint8_t* data, const BatchHeader* batch) noexcept
    cdef Producer* entry(self, int64_t producer_id) noexcept
