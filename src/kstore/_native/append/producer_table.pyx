"""The state of each producer of a log: its epoch, last batches and open transaction.

A hash table of C structs: an idempotent append costs one lookup and no Python object. Functions
that cannot fail change the state after a batch is written and published, so a failed append does
not change it.

Rules: Kafka's ProducerStateManager, ProducerStateEntry, ProducerAppendInfo (checkSequence,
checkProducerEpoch, appendEndTxnMarker; KIP-98, KIP-890).
"""

from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove, memset

from kstore._native.format.argument cimport HeldBytes, hold_bytes
from kstore._native.format.batch_header cimport BatchHeader, read_header
from kstore._native.format.crc cimport crc32c
from kstore._native.format.cursor cimport put_i16, put_i32, put_i64, put_u32
from kstore._native.format.layout cimport (
    CONTROL_BIT, TRANSACTION_INDEX_ENTRY_SIZE, TRANSACTIONAL_BIT,
)
from kstore._native.format.end_marker cimport OTHER, Marker, read_end_marker
from kstore._native.format.status cimport OK, Status

cdef enum:
    SNAPSHOT_HEADER_SIZE = 10
    SNAPSHOT_ENTRY_SIZE = 46
    FEWEST_SLOTS = 16


cdef inline int32_t last_sequence_of(const BatchHeader* batch) noexcept:
    """Sequences wrap from 2^31 - 1 to 0 (Kafka's DefaultRecordBatch.incrementSequence)."""
    if batch.base_sequence < 0:
        return -1
    return <int32_t>(
        (<int64_t>batch.base_sequence + (batch.last_offset - batch.base_offset)) & INT32_MAX)


cdef inline int32_t first_sequence_of(const KeptBatch* batch) noexcept:
    """The same backwards (decrementSequence)."""
    return <int32_t>((<int64_t>batch.last_sequence - batch.offset_delta) & INT32_MAX)


cdef inline KeptBatch* newest(Producer* producer) noexcept:
    return &producer.batches[(producer.oldest + producer.kept - 1) % BATCHES_KEPT]


cdef inline void update_epoch(Producer* producer, int16_t epoch) noexcept:
    if producer.epoch != epoch:
        producer.kept = producer.oldest = 0
        producer.epoch = epoch


cdef class ProducerTable:
    """Producers and open transactions of one log, and the aborted ones of one segment.

    Not thread safe: the caller holds the log's lock, except to read ``first_open``.
    """

    def __cinit__(self):
        self.aborted_base = -1
        self.rehash(FEWEST_SLOTS)

    def __dealloc__(self):
        free(self.rows)
        free(self.slots)
        free(self.open_transactions)
        free(self.aborted_data)

    def __len__(self):
        return self.count

    # --- the table -------------------------------------------------------------------------

    cdef Py_ssize_t _slot(self, int64_t producer_id) noexcept:
        """The producer's slot, or the free one for it."""
        cdef Py_ssize_t mask = self.slot_count - 1
        cdef Py_ssize_t at = <Py_ssize_t>(
            (<uint64_t>producer_id * <uint64_t>0x9E3779B97F4A7C15) >> 32) & mask
        while self.slots[at] >= 0 and self.rows[self.slots[at]].producer_id != producer_id:
            at = (at + 1) & mask
        return at

    cdef Producer* find(self, int64_t producer_id) noexcept:
        """The producer's row, NULL if none. Valid until the next reserve."""
        cdef int32_t row
        if self.latest < self.count and self.rows[self.latest].producer_id == producer_id:
            return &self.rows[self.latest]
        row = self.slots[self._slot(producer_id)]
        if row < 0:
            return NULL
        self.latest = row
        return &self.rows[row]

    cdef Producer* find_or_add(self, int64_t producer_id) noexcept:
        """The producer's row, added if it is new; call reserve before."""
        cdef Producer* row = self.find(producer_id)
        if row == NULL:
            row = &self.rows[self.count]
            memset(row, 0, sizeof(Producer))
            row.producer_id = producer_id
            row.last_timestamp = row.transaction_first_offset = row.coordinator_epoch = -1
            row.epoch = -1
            self.slots[self._slot(producer_id)] = <int32_t>self.count
            self.latest = self.count
            self.count += 1
        return row

    cdef int reserve(self, Py_ssize_t more) except -1:
        """Reserve memory for more producers, open transactions and aborted ones."""
        cdef void* grown
        cdef Py_ssize_t wanted
        if self.count + more > self.capacity:
            wanted = max(self.count + more, 2 * self.capacity)
            grown = realloc(self.rows, wanted * sizeof(Producer))
            if grown == NULL:
                raise MemoryError
            self.rows, self.capacity = <Producer*>grown, wanted
        if 2 * (self.count + more) > self.slot_count:
            wanted = self.slot_count
            while wanted < 2 * (self.count + more):
                wanted *= 2
            self.rehash(wanted)
        if self.open_count + more > self.open_capacity:
            wanted = max(self.open_count + more, 2 * self.open_capacity)
            grown = realloc(self.open_transactions, wanted * sizeof(OpenTransaction))
            if grown == NULL:
                raise MemoryError
            self.open_transactions, self.open_capacity = <OpenTransaction*>grown, wanted
        if self.aborted_size + more * TRANSACTION_INDEX_ENTRY_SIZE > self.aborted_capacity:
            wanted = max(
                self.aborted_size + more * TRANSACTION_INDEX_ENTRY_SIZE, 2 * self.aborted_capacity)
            grown = realloc(self.aborted_data, wanted)
            if grown == NULL:
                raise MemoryError
            self.aborted_data, self.aborted_capacity = <uint8_t*>grown, wanted
        return 0

    cdef int rehash(self, Py_ssize_t slot_count) except -1:
        cdef Py_ssize_t n
        cdef void* grown
        if slot_count > self.slot_count:
            grown = realloc(self.slots, slot_count * sizeof(int32_t))
            if grown == NULL:
                raise MemoryError
            self.slots, self.slot_count = <int32_t*>grown, slot_count
        memset(self.slots, 0xFF, self.slot_count * sizeof(int32_t))
        for n in range(self.count):
            self.slots[self._slot(self.rows[n].producer_id)] = <int32_t>n
        return 0

    # --- checks before an append ---------------------------------------------------------------

    cdef Verdict check_batch(
        self, const BatchHeader* batch, bint client, const KeptBatch** duplicate
    ) noexcept:
        """Whether a leader accepts this data batch; checks its sequence only for a client."""
        cdef Producer* known = self.find(batch.producer_id)
        cdef KeptBatch* kept
        cdef int32_t n, last = last_sequence_of(batch)
        if known == NULL:               # a new or expired producer may start at any sequence
            return ACCEPTED
        if client and batch.producer_epoch == known.epoch:
            for n in range(known.kept):
                kept = &known.batches[(known.oldest + n) % BATCHES_KEPT]
                if kept.last_sequence == last and first_sequence_of(kept) == batch.base_sequence:
                    duplicate[0] = kept
                    return DUPLICATE
        if batch.producer_epoch < known.epoch:
            return OLD_EPOCH
        if client and known.epoch != -1:
            last = -1
            if batch.producer_epoch == known.epoch and known.kept > 0:
                last = newest(known).last_sequence
            if batch.base_sequence != (0 if last == INT32_MAX else last + 1):
                return OUT_OF_ORDER
        if known.transaction_first_offset >= 0 and not batch.attributes & TRANSACTIONAL_BIT:
            return NOT_TRANSACTIONAL
        return ACCEPTED

    cdef Verdict check_marker(self, const Marker* marker, int transaction_version) noexcept:
        """Whether a leader accepts this marker. From transaction version 2, its epoch must be above
        the records', unless the transaction has already ended."""
        cdef Producer* known = self.find(marker.producer_id)
        if known == NULL:
            return ACCEPTED
        if marker.epoch < known.epoch:
            return OLD_EPOCH
        if (
            transaction_version >= 2 and marker.epoch == known.epoch
            and known.transaction_first_offset >= 0
        ):
            return OLD_EPOCH
        if marker.coordinator_epoch < known.coordinator_epoch:
            return FENCED
        return ACCEPTED

    # --- updates after an append -------------------------------------------------------------

    cdef void add_batch(
        self, const BatchHeader* batch, int64_t first, int64_t last, int64_t timestamp
    ) noexcept:
        """Record a data batch that was appended at these offsets."""
        cdef Producer* producer = self.find_or_add(batch.producer_id)
        cdef KeptBatch* kept
        update_epoch(producer, batch.producer_epoch)
        if producer.kept == BATCHES_KEPT:
            producer.oldest = (producer.oldest + 1) % BATCHES_KEPT
        else:
            producer.kept += 1
        kept = newest(producer)
        kept.last_sequence = last_sequence_of(batch)
        kept.last_offset = last
        kept.offset_delta = <int32_t>(last - first)
        kept.timestamp = producer.last_timestamp = timestamp
        if batch.attributes & TRANSACTIONAL_BIT and producer.transaction_first_offset < 0:
            producer.transaction_first_offset = first
            self.open_transactions[self.open_count].first_offset = first
            self.open_transactions[self.open_count].producer_id = batch.producer_id
            self.open_count += 1

    cdef bint add_marker(self, const Marker* marker) noexcept:
        """Record a marker; returns whether it aborted a transaction, which is then in the
        transaction index."""
        cdef Producer* producer = self.find_or_add(marker.producer_id)
        update_epoch(producer, marker.epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = marker.timestamp
        return self.end_transaction(producer, marker.offset, marker.commit)

    cdef bint end_transaction(
        self, Producer* producer, int64_t marker_offset, bint commit
    ) noexcept:
        """End the producer's open transaction; returns whether it was aborted."""
        cdef int64_t first = producer.transaction_first_offset
        cdef int64_t stable = marker_offset + 1
        cdef uint8_t* at
        cdef Py_ssize_t n
        if first < 0:
            return False
        producer.transaction_first_offset = -1
        for n in range(self.open_count):
            if self.open_transactions[n].producer_id == producer.producer_id:
                self.open_count -= 1
                memmove(
                    &self.open_transactions[n], &self.open_transactions[n + 1],
                    (self.open_count - n) * sizeof(OpenTransaction))
                break
        if commit:
            return False
        if self.open_count > 0:
            stable = self.open_transactions[0].first_offset
        at = self.aborted_data + self.aborted_size
        put_i16(at, 0)
        put_i64(at + 2, producer.producer_id)
        put_i64(at + 10, first)
        put_i64(at + 18, marker_offset)
        put_i64(at + 26, stable)
        self.aborted_size += TRANSACTION_INDEX_ENTRY_SIZE
        return True

    cdef bint add_replicated(self, const uint8_t* data, const BatchHeader* batch) noexcept:
        """Record a batch of a log; returns whether it aborted a transaction.

        Checks nothing, as in Kafka's replication and recovery: a leader has accepted the batch.
        """
        cdef Marker marker
        cdef Producer* producer
        if batch.magic != 2 or batch.producer_id < 0:
            return False
        if not batch.attributes & CONTROL_BIT:
            self.add_batch(batch, batch.base_offset, batch.last_offset, batch.max_timestamp)
            return False
        if batch.count == 0 and batch.attributes & TRANSACTIONAL_BIT:
            # The cleaner has emptied the marker. It proves only that the transaction ended, so
            # its remaining records count as aborted. Kafka skips such a batch.
            producer = self.find(batch.producer_id)
            return producer != NULL and self.end_transaction(producer, batch.base_offset, False)
        return read_end_marker(data, batch, &marker) != OTHER and self.add_marker(&marker)

    def replay(self, data, int64_t start=0, int64_t stop=0x7FFFFFFFFFFFFFFF):
        """Record the complete batches in data that end at or after start and begin before stop;
        returns the position after the last complete batch."""
        cdef HeldBytes view
        cdef BatchHeader batch
        cdef int64_t position = 0
        cdef Status status
        view = hold_bytes(data)
        while True:
            with nogil:     # skip batches without a producer id
                status = read_header(view.data, position, view.size, &batch)
                while status == OK and batch.base_offset < stop and (
                    batch.producer_id < 0 or batch.last_offset < start
                ):
                    position += batch.size
                    status = read_header(
                        view.data, position, view.size, &batch
                    )
            if status != OK or batch.base_offset >= stop:
                break
            self.reserve(1)
            self.add_replicated(view.data, &batch)
            position += batch.size
        return position

    # --- Python interface --------------------------------------------------------------------

    @property
    def first_open(self):
        """First offset of the oldest open transaction; -1 if none."""
        return self.open_transactions[0].first_offset if self.open_count > 0 else -1

    def entries(self):
        """One tuple for each producer, with the fields of a snapshot entry."""
        cdef Py_ssize_t n
        cdef Producer* producer
        cdef KeptBatch* last
        cdef list found = []
        for n in range(self.count):
            producer = &self.rows[n]
            last = newest(producer) if producer.kept > 0 else NULL
            found.append((
                producer.producer_id, producer.epoch,
                last.last_sequence if last != NULL else -1,
                last.last_offset if last != NULL else -1,
                last.offset_delta if last != NULL else 0,
                producer.last_timestamp, producer.coordinator_epoch,
                producer.transaction_first_offset,
            ))
        return found

    def load(self, entries):
        """Add the entries of a snapshot."""
        cdef Producer* producer
        for (
            producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp,
            coordinator_epoch, first_offset,
        ) in sorted(entries, key=_by_first_offset):
            self.reserve(1)
            producer = self.find_or_add(producer_id)
            producer.epoch = epoch
            producer.last_timestamp = timestamp
            producer.coordinator_epoch = coordinator_epoch
            producer.kept = producer.oldest = 0
            if last_offset >= 0:
                producer.kept = 1
                producer.batches[0].last_sequence = last_sequence
                producer.batches[0].last_offset = last_offset
                producer.batches[0].offset_delta = offset_delta
                producer.batches[0].timestamp = timestamp
            if first_offset >= 0 and producer.transaction_first_offset < 0:
                producer.transaction_first_offset = first_offset
                self.open_transactions[self.open_count].first_offset = first_offset
                self.open_transactions[self.open_count].producer_id = producer_id
                self.open_count += 1

    def set_open_transaction(self, int64_t producer_id, int64_t first_offset):
        """Set the first offset of a producer's open transaction; -1: none is open."""
        cdef Producer* producer = self.find(producer_id)
        cdef Py_ssize_t n, kept = 0
        if producer == NULL:
            return
        self.reserve(1)
        producer = self.find(producer_id)
        producer.transaction_first_offset = first_offset
        for n in range(self.open_count):
            if self.open_transactions[n].producer_id != producer_id:
                self.open_transactions[kept] = self.open_transactions[n]
                kept += 1
        self.open_count = kept
        if first_offset < 0:
            return
        n = kept
        while n > 0 and self.open_transactions[n - 1].first_offset > first_offset:
            self.open_transactions[n] = self.open_transactions[n - 1]
            n -= 1
        self.open_transactions[n].first_offset = first_offset
        self.open_transactions[n].producer_id = producer_id
        self.open_count = kept + 1

    def snapshot(self):
        """A producer snapshot, as on disk."""
        cdef Py_ssize_t n
        cdef bytes out = bytes(SNAPSHOT_HEADER_SIZE + self.count * SNAPSHOT_ENTRY_SIZE)
        cdef uint8_t* start = <uint8_t*><char*>out      # not shared yet
        cdef uint8_t* at = start + SNAPSHOT_HEADER_SIZE
        cdef Producer* producer
        cdef KeptBatch* last
        put_i16(start, 1)
        put_i32(start + 6, <int32_t>self.count)
        for n in range(self.count):
            producer = &self.rows[n]
            last = newest(producer) if producer.kept > 0 else NULL
            put_i64(at, producer.producer_id)
            put_i16(at + 8, producer.epoch)
            put_i32(at + 10, last.last_sequence if last != NULL else -1)
            put_i64(at + 14, last.last_offset if last != NULL else -1)
            put_i32(at + 22, last.offset_delta if last != NULL else 0)
            put_i64(at + 26, producer.last_timestamp)
            put_i32(at + 34, producer.coordinator_epoch)
            put_i64(at + 38, producer.transaction_first_offset)
            at += SNAPSHOT_ENTRY_SIZE
        put_u32(start + 2, crc32c(0, start + 6, len(out) - 6))
        return out

    def clear(self):
        """Remove all producers and open transactions; keeps the segment's aborted ones."""
        self.count = self.open_count = self.latest = 0
        self.rehash(self.slot_count)

    def remove_idle(self, int64_t since):
        """Remove producers without an open transaction whose last record is of that time or older.

        Returns their number. Times are the records' timestamps.
        """
        cdef Py_ssize_t n, kept = 0
        cdef Producer* producer
        for n in range(self.count):
            producer = &self.rows[n]
            if producer.transaction_first_offset < 0 and producer.last_timestamp <= since:
                continue
            if kept != n:
                memcpy(&self.rows[kept], producer, sizeof(Producer))
            kept += 1
        n = self.count - kept
        if n > 0:
            self.count, self.latest = kept, 0
            self.rehash(self.slot_count)
        return n

    @property
    def aborted(self):
        """The transaction index of the segment at ``aborted_base``, as on disk."""
        return (<char*>self.aborted_data)[:self.aborted_size] if self.aborted_size > 0 else b""

    def transaction_index_of(self, int64_t base_offset):
        """The transaction index of that segment; None if this table has another segment's."""
        return self.aborted if self.aborted_base == base_offset else None

    def begin_segment(self, int64_t base_offset, entries=b""):
        """Switch to another segment's transaction index; entries: the contents of its file."""
        cdef Py_ssize_t size = len(entries) // TRANSACTION_INDEX_ENTRY_SIZE
        cdef HeldBytes given
        self.aborted_size = 0
        self.reserve(size)
        size *= TRANSACTION_INDEX_ENTRY_SIZE
        if size > 0:
            given = hold_bytes(entries)
            memcpy(self.aborted_data, given.data, size)
        self.aborted_size = self.aborted_written = size
        self.aborted_base = base_offset


def _by_first_offset(entry):
    return entry[7]
