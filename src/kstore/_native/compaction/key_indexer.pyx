"""The cleaner's first pass: finds the latest offset of every key, from the first dirty offset.

Rules: Kafka's Cleaner.buildOffsetMapForSegment.
"""

from libc.stdint cimport int64_t, uint8_t

from kstore._native.compaction.offset_map cimport OffsetMap, KeyTable, add_key, flush_pending
from kstore._native.format.argument cimport HeldBytes, hold_bytes
from kstore._native.format.status cimport OK
from kstore._native.read.batch_walk cimport (
    AT_END, COMPRESSED, DAMAGED, DECIDE, FULL, BatchWalk, Event,
)


cdef class KeyIndexer(BatchWalk):
    """The first pass: finds the latest offset of every key, from first_offset."""

    cdef OffsetMap map
    cdef int64_t first_offset
    cdef readonly int64_t latest

    def __cinit__(self, OffsetMap keys not None, int64_t first_offset, decompress):
        self.map = keys
        self.first_offset = first_offset
        self.decompress = decompress
        self.latest = -1

    def run(self):
        """Walk to the next event: 0 end of the buffer, 1 the caller decides, 2 the map is full."""
        cdef Event event
        while True:
            with nogil:
                event = self.walk()
            if event == COMPRESSED:
                event = self.index_decompressed()
                if event == AT_END:
                    continue
            if event == DAMAGED:
                self.fail()
            return <int>event

    def index_batch(self):
        """Index the current batch and continue; returns as run."""
        cdef Event event
        if self.is_compressed():
            event = self.index_decompressed()
        else:
            with nogil:
                event = self.index_uncompressed()
        if event == DAMAGED:
            self.fail()
        return self.run() if event == AT_END else <int>event

    def skip_batch(self):
        """Skip the current batch and continue; returns as run."""
        self.records += max(self.batch.count, 0)
        self.close_batch()
        return self.run()

    def update_latest_offset(self, int64_t offset):
        """Treat offsets up to this one as indexed (Kafka's updateLatestOffset)."""
        self.latest = max(self.latest, offset)

    def finish(self):
        """Add the pending keys to the map."""
        flush_pending(&self.map.table)

    cdef void close_batch(self) noexcept nogil:
        if self.batch.last_offset >= self.first_offset:
            self.latest = max(self.latest, self.batch.last_offset)
        self.step()

    cdef Event walk(self) noexcept nogil:
        cdef Event event
        while True:
            event = self.next_batch()
            if event != DECIDE or self.is_decided_by_transaction():
                return event
            if self.batch.last_offset < self.first_offset:
                self.step()
                continue
            if self.is_compressed():
                return COMPRESSED
            event = self.index_uncompressed()
            if event != AT_END:
                return event

    cdef Event index_uncompressed(self) noexcept nogil:
        cdef const uint8_t* at
        cdef const uint8_t* stop
        self.status = self.fill_uncompressed(&at, &stop)
        if self.status != OK:
            return DAMAGED
        return self.index_rows(at)

    cdef Event index_decompressed(self) except *:
        cdef HeldBytes view
        cdef Event event
        decompressed = self.decompress_batch()
        view = hold_bytes(decompressed)
        with nogil:
            self.status = self.fill_decompressed(view.data, view.size)
            if self.status != OK:
                event = DAMAGED
            else:
                event = self.index_rows(view.data)
        return event

    cdef Event index_rows(self, const uint8_t* data) noexcept nogil:
        """Index the batch's rows; AT_END: done, FULL: the map is full."""
        cdef int64_t n, without_key = 0
        cdef KeyTable* table = &self.map.table
        for n in range(self.rows.count):
            if self.rows.offsets[n] < self.first_offset:
                continue
            if self.rows.key_lengths[n] < 0:
                without_key += 1
            elif not add_key(
                table, data + self.rows.key_positions[n], self.rows.key_lengths[n],
                self.rows.offsets[n],
            ):
                return FULL
        self.invalid += without_key
        self.records += self.rows.count
        self.close_batch()
        return AT_END
