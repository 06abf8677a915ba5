"""Transactions from the headers of batches: open, committed, aborted.

Rules: Kafka's ProducerAppendInfo (what opens and closes a transaction), ControlRecordType and
EndTransactionMarker (markers). The walk reads only headers, and the one record of a control batch.

A control batch without records is a marker that the cleaner has emptied. It proves that the
transaction ended, not how. Kafka empties a marker only after it has removed every record of the
transaction, so any record that remains was copied earlier and counts as aborted.
ProducerAppendInfo skips such a batch, which leaves the transaction open forever.

From transaction indexes, for a Fetch: :mod:`kstore.producer_state.collect_aborted`; their format:
:mod:`kstore.segment.transaction_index`.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from kstore._native.format.argument cimport HeldBytes, hold_bytes
from kstore._native.format.batch_header cimport BatchHeader, crc_matches, read_header
from kstore._native.format.layout cimport CONTROL_BIT, TRANSACTIONAL_BIT
from kstore._native.format.end_marker cimport COMMIT, OTHER, Marker, read_end_marker
from kstore._native.format.status cimport OK, TRUNCATED, Status

cdef enum:
    RECENT = 8                  # a power of two
    EMPTIED = 2                 # by the cleaner, which keeps neither ABORT nor COMMIT
    BEGINNING = 21              # of a batch: its base offset and, in every format, its checksum


@cython.final
cdef class AbortedRanges:
    def __init__(self, ranges=()):
        cdef list rows = sorted(ranges)
        cdef Py_ssize_t n
        if self.ranges != NULL:
            raise ValueError("the ranges are already initialized")
        self.ranges = <AbortedRange*>malloc(max(1, len(rows)) * sizeof(AbortedRange))
        if self.ranges == NULL:
            raise MemoryError
        for n in range(len(rows)):
            producer_id, first, last = rows[n]
            self.ranges[n].producer_id = producer_id
            self.ranges[n].first_offset = first
            self.ranges[n].last_offset = last
        self.count = len(rows)

    def __dealloc__(self):
        free(self.ranges)

    def __contains__(self, batch):
        producer_id, base_offset = batch
        return is_aborted(self.ranges, self.count, producer_id, base_offset)

    def __repr__(self):
        return f"<AbortedRanges of {self.count} transactions>"


@cython.final
cdef class TransactionWalk:
    cdef readonly dict open
    cdef public list aborted
    cdef public list unproven
    cdef public int64_t next_offset
    cdef int64_t[RECENT] recent     # cache: producer ids with an open transaction, by low bits
    cdef uint8_t[BEGINNING] last    # of the last batch that was walked
    cdef bint has_last

    def __init__(self, int64_t next_offset, open_transactions=None):
        cdef int n
        for n in range(RECENT):
            self.recent[n] = -1
        self.next_offset = next_offset
        self.open = {} if open_transactions is None else dict(open_transactions)
        self.aborted = []
        self.unproven = []

    @property
    def last_beginning(self):
        return PyBytes_FromStringAndSize(<char*>self.last, BEGINNING if self.has_last else 0)

    def walk(
        self, data, Py_ssize_t start, int64_t stop_offset, *,
        bint to_marker=False,
    ):
        cdef HeldBytes held = hold_bytes(data)
        cdef BatchHeader batch
        cdef Status status = OK
        cdef int64_t position = start
        cdef int64_t next_offset = self.next_offset
        cdef int64_t end = held.size
        cdef int64_t last = -1
        cdef const uint8_t* bytes_
        if start < 0 or start >= end:
            return start
        bytes_ = held.data
        try:
            while True:
                with nogil:
                    while position < end:
                        status = read_header(bytes_, position, end, &batch)
                        if status != OK or batch.base_offset >= stop_offset:
                            break
                        if batch.last_offset < batch.base_offset:
                            break
                        if batch.magic == 2 and batch.attributes & TRANSACTIONAL_BIT and (
                            batch.last_offset >= next_offset
                        ) and (
                            batch.attributes & CONTROL_BIT
                            or self.recent[batch.producer_id & (RECENT - 1)] != batch.producer_id
                        ):
                            break
                        last = position
                        position += batch.size
                        if batch.last_offset >= next_offset:
                            next_offset = batch.last_offset + 1
                self.next_offset = next_offset
                if position >= end:
                    return position
                if status != OK:
                    return position if status == TRUNCATED else -1
                if batch.last_offset < batch.base_offset:
                    return -1
                if batch.base_offset >= stop_offset:
                    self.next_offset = max(next_offset, stop_offset)    # a gap before it
                    return position
                last = position
                position += batch.size
                next_offset = batch.last_offset + 1
                if self.take(bytes_, &batch) and to_marker:
                    self.next_offset = next_offset
                    return position
        finally:
            if last >= 0:
                memcpy(self.last, bytes_ + last, BEGINNING)
                self.has_last = True

    cdef bint take(self, const uint8_t* data, const BatchHeader* batch) except -1:
        """Record a transactional batch; returns whether it is a valid marker."""
        cdef int kind
        cdef bint is_sound
        cdef Marker marker
        if not batch.attributes & CONTROL_BIT:
            if batch.producer_id not in self.open:
                self.open[batch.producer_id] = batch.base_offset
            self.recent[batch.producer_id & (RECENT - 1)] = batch.producer_id
            return False
        with nogil:             # its end may be on another page, which is on the disk
            is_sound = crc_matches(data, batch)
        if not is_sound:
            return False        # a corrupt marker leaves the transaction open
        kind = EMPTIED if batch.count == 0 else read_end_marker(data, batch, &marker)
        if kind == OTHER:
            return False
        first = self.open.pop(batch.producer_id, None)
        if self.recent[batch.producer_id & (RECENT - 1)] == batch.producer_id:
            self.recent[batch.producer_id & (RECENT - 1)] = -1
        if kind != COMMIT and first is not None:
            self.aborted.append((batch.producer_id, first, batch.last_offset))
            if kind == EMPTIED:
                self.unproven.append((batch.producer_id, first, batch.last_offset))
        return True
