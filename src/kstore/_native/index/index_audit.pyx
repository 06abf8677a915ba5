"""The header walk of verification: compares batch headers with both indexes.

Unlike recovery, it continues after corruption, at the next position in the offset index. It reads
headers only; the decoder verifies checksums and records.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t

from kstore._native.format.argument cimport HeldBytes, hold_bytes
from kstore._native.format.batch_header cimport BatchHeader, read_header
from kstore._native.format.cursor cimport get_i32, get_i64
from kstore._native.format.layout cimport (
    OFFSET_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE, V2_HEADER_SIZE,
)
from kstore._native.format.status cimport OK, TRUNCATED, Status

cdef enum:
    MAX_EVENTS = 64


cdef enum EventKind:
    STRUCTURE = 0
    OFFSETS = 1
    INDEX_POSITION = 2
    INDEX_OFFSET = 3
    TIME_INDEX = 4
    EPOCH = 5

EVENT_NAMES = ("structure", "offsets", "index position", "index offset", "time index", "epoch")


cdef struct Event:
    int kind
    int64_t position            # in the log file; in the index file for the index kinds
    int64_t offset
    int64_t other               # STRUCTURE: status; EPOCH: epoch; OFFSETS: last offset


@cython.final
cdef class BatchAudit:
    """Walks one segment in windows of its file; compares batches, offset index and time index.

    ``index`` and ``time_index`` are the entries of the index files, without a preallocated tail.
    Each offset index entry must point to a batch, and every offset before that position must be
    below the entry's. No record up to a time index entry's offset may have a later timestamp.

    Not thread-safe. ``walk`` releases the GIL.
    """

    cdef Py_buffer _index_view, _time_view
    cdef const uint8_t* _index
    cdef const uint8_t* _times
    cdef Py_ssize_t _slot, _slots, _time_slot, _time_slots
    cdef Event[MAX_EVENTS] _events
    cdef int _event_count
    cdef int32_t _epoch
    cdef int64_t _offset_before         # last_offset before the last batch in order
    cdef int64_t _batch_position, _batch_base   # that batch
    cdef readonly int64_t base_offset, file_size
    cdef readonly int64_t position      # in the file: where the next window must begin
    cdef readonly int64_t wanted        # minimum size of the next window
    cdef readonly int64_t tail_position  # of an incomplete batch at the end; -1 if none
    cdef readonly int64_t last_offset, max_timestamp, batches
    cdef readonly bint at_end
    cdef readonly bint has_gaps         # some offsets within the segment have no record

    def __cinit__(self, int64_t base_offset, int64_t file_size, object index, object time_index):
        PyObject_GetBuffer(index, &self._index_view, PyBUF_SIMPLE)
        PyObject_GetBuffer(time_index, &self._time_view, PyBUF_SIMPLE)
        self._index = <const uint8_t*>self._index_view.buf
        self._times = <const uint8_t*>self._time_view.buf
        self._slots = self._index_view.len // OFFSET_INDEX_ENTRY_SIZE
        self._time_slots = self._time_view.len // TIME_INDEX_ENTRY_SIZE
        self.base_offset = base_offset
        self.file_size = file_size
        self.last_offset = self._offset_before = base_offset - 1
        self.max_timestamp = -1
        self.tail_position = -1
        self.wanted = V2_HEADER_SIZE
        self.at_end = file_size == 0
        self._epoch = -1

    def __dealloc__(self):
        PyBuffer_Release(&self._index_view)
        PyBuffer_Release(&self._time_view)

    def walk(self, object window):
        """Walk the complete batches in a window of the file that begins at ``position``.

        Returns ``(size, events)``: the first size bytes of the window are complete batches, an
        event is ``(kind, position, offset, other)``. Call it until ``at_end``, each time with a
        window from ``position`` of at least ``wanted`` bytes (or up to the end of the file).
        """
        cdef HeldBytes view
        cdef int64_t start = self.position, end
        view = hold_bytes(window)
        if view.size < min(self.wanted, self.file_size - self.position):
            raise ValueError(f"the window has {view.size} bytes, not {self.wanted}")
        with nogil:
            end = self._walk(view.data, view.size)
        return end - start, self._take_events()

    def finish(self):
        """Check the index entries after the last batch; returns events."""
        while self._slot < self._slots and self._event_count < MAX_EVENTS:
            self._report_entry(INDEX_POSITION)
        self._check_times(0x7FFFFFFFFFFFFFFF)
        return self._take_events()

    cdef list _take_events(self):
        cdef int n
        events = [
            (
                EVENT_NAMES[self._events[n].kind], self._events[n].position,
                self._events[n].offset, self._events[n].other,
            )
            for n in range(self._event_count)
        ]
        self._event_count = 0
        return events

    cdef void _add_event(
        self, EventKind kind, int64_t position, int64_t offset, int64_t other
    ) noexcept nogil:
        if self._event_count < MAX_EVENTS:
            self._events[self._event_count] = Event(kind, position, offset, other)
            self._event_count += 1

    cdef int64_t _slot_position(self) noexcept nogil:
        return get_i32(self._index + self._slot * OFFSET_INDEX_ENTRY_SIZE + 4)

    cdef int64_t _slot_offset(self) noexcept nogil:
        return self.base_offset + get_i32(self._index + self._slot * OFFSET_INDEX_ENTRY_SIZE)

    cdef void _report_entry(self, EventKind kind) noexcept nogil:
        self._add_event(
            kind, self._slot * OFFSET_INDEX_ENTRY_SIZE, self._slot_offset(), self._slot_position()
        )
        self._slot += 1

    cdef void _check_times(self, int64_t last_offset) noexcept nogil:
        """Check the time index entries below last_offset: the walk has read all their batches."""
        cdef const uint8_t* at
        cdef int64_t offset
        while self._time_slot < self._time_slots:
            at = self._times + self._time_slot * TIME_INDEX_ENTRY_SIZE
            offset = self.base_offset + get_i32(at + 8)
            if offset >= last_offset:
                return
            if self.max_timestamp > get_i64(at):
                self._add_event(
                    TIME_INDEX, self._time_slot * TIME_INDEX_ENTRY_SIZE, offset, get_i64(at)
                )
            self._time_slot += 1

    cdef bint _resume(self) noexcept nogil:
        """Continue after corruption, at the next position in the offset index."""
        while self._slot < self._slots and self._slot_position() <= self.position:
            self._slot += 1
        if self._slot == self._slots or self._slot_position() >= self.file_size:
            self.at_end = True
            return False
        self.position = self._slot_position()
        self.wanted = V2_HEADER_SIZE
        return True

    cdef int64_t _walk(self, const uint8_t* window, int64_t size) noexcept nogil:
        """Returns the position in the file after the last complete batch."""
        cdef BatchHeader batch
        cdef Status status
        cdef int64_t at = 0, left
        while self._event_count < MAX_EVENTS // 2:
            left = self.file_size - self.position
            if left == 0:
                self.at_end = True
                return self.position
            if size - at < V2_HEADER_SIZE and size - at < left:
                self.wanted = V2_HEADER_SIZE
                return self.position
            # read_header reads only the header, so its limit may be the end of the file.
            status = read_header(window, at, at + left, &batch)
            if status != OK:
                left = self.position
                if status == TRUNCATED and not self._is_indexed_later():
                    self.tail_position = self.position
                    self.at_end = True
                else:
                    self._add_event(STRUCTURE, self.position, self.last_offset + 1, <int64_t>status)
                    self._resume()
                return left
            if batch.size > size - at:
                self.wanted = batch.size
                return self.position
            self._check_batch(&batch)
            self.position += batch.size
            at += batch.size
        self.wanted = V2_HEADER_SIZE
        return self.position

    cdef bint _is_indexed_later(self) noexcept nogil:
        """Whether the offset index has a batch after this position: then it is not the tail."""
        cdef Py_ssize_t slot = self._slots - 1
        cdef int64_t position
        if slot < self._slot:
            return False
        position = get_i32(self._index + slot * OFFSET_INDEX_ENTRY_SIZE + 4)
        return self.position < position < self.file_size

    cdef void _distrust_the_batch_before(self, const BatchHeader* batch) noexcept nogil:
        """Report the batch before this one where its last offset cannot be right.

        It ends beyond this batch, which follows the batches before it: one corrupt offset would
        put every later batch out of order.
        """
        if self._offset_before < batch.base_offset <= batch.last_offset < self.last_offset:
            self._add_event(OFFSETS, self._batch_position, self._batch_base, self.last_offset)
            self.last_offset = self._offset_before

    cdef void _check_batch(self, const BatchHeader* batch) noexcept nogil:
        if batch.base_offset <= self.last_offset:
            self._distrust_the_batch_before(batch)
        while self._slot < self._slots and self._slot_position() < self.position:
            self._report_entry(INDEX_POSITION)
        if self._slot < self._slots and self._slot_position() == self.position:
            if self._slot_offset() <= self.last_offset:
                self._report_entry(INDEX_OFFSET)
            else:
                self._slot += 1
        if (
            batch.base_offset <= self.last_offset
            or batch.last_offset < batch.base_offset
            or batch.last_offset - self.base_offset > INT32_MAX
        ):
            self._add_event(OFFSETS, self.position, batch.base_offset, batch.last_offset)
        else:
            # A v0 or v1 wrapper (count -1) does not have the offset of its first record.
            if batch.count >= 0 and batch.last_offset - self.last_offset != batch.count:
                self.has_gaps = True
            self._offset_before = self.last_offset
            self._batch_position, self._batch_base = self.position, batch.base_offset
            self.last_offset = batch.last_offset
            self._check_times(batch.last_offset)
            if batch.max_timestamp > self.max_timestamp:
                self.max_timestamp = batch.max_timestamp
        if batch.leader_epoch >= 0 and batch.leader_epoch != self._epoch:
            self._epoch = batch.leader_epoch
            self._add_event(EPOCH, self.position, batch.base_offset, batch.leader_epoch)
        self.batches += 1
