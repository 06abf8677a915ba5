"""The cleaner's second pass: what stays, copied as it is or rebuilt.

Rules: Kafka's Cleaner.cleanInto and shouldRetainRecord, MemoryRecords.filterTo. Messages v0 and
v1 keep their format, as until Kafka 3.9.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from kstore._native.compaction.offset_map cimport (
    OffsetMap, KeyTable, fetch_slot, hash_key, offset_of, sip_hash, sip_home,
)
from kstore._native.format.batch_assembly cimport (
    Bytes, Group, open_group, put_rows, put_wrapper, reserve, LARGEST, NOTHING, TOO_LARGE,
    ILLEGAL_TIMESTAMP,
)
from kstore._native.format.batch_header cimport BatchHeader, read_header, write_header
from kstore._native.format.layout cimport *
from kstore._native.format.record_rows cimport Rows
from kstore._native.format.status cimport Status, OK, BAD_OFFSET, BAD_TIMESTAMP, MESSAGE_TOO_LARGE
from kstore._native.read.batch_walk cimport ASK, CODED, DAMAGED, BatchWalk, Event, horizon_of

cdef extern from "Python.h":
    int PyBUF_READ

cdef enum:
    AHEAD = 32                  # keys looked up together, so that their slots load at once


cdef class RecordFilter(BatchWalk):
    """The second pass: what stays goes to an output, as bytes of the segment to be."""

    cdef OffsetMap map
    cdef object compress
    cdef uint8_t* latest_ones       # a bit for each offset from first_dirty to latest
    cdef readonly int64_t first_dirty
    cdef readonly int64_t latest
    cdef int64_t upper_bound
    cdef int64_t now
    cdef int64_t horizon            # of tombstones that are met for the first time
    cdef bint keep_old_tombstones   # of messages v0 and v1
    cdef int64_t* last_ones         # last offsets of batches that active producers need
    cdef int64_t last_count, last_at
    cdef Bytes out
    cdef Bytes inner
    cdef int64_t kept               # rows that stay
    cdef bint has_tombstone
    cdef bint changed               # the batch's bytes cannot stay as they are
    cdef readonly int64_t records_kept

    def __cinit__(
        self, OffsetMap keys not None, *, int64_t first_dirty, int64_t latest, int64_t upper_bound,
        int64_t now, int64_t delete_retention, last_offsets, decompress, compress,
    ):
        self.map = keys
        self.first_dirty = first_dirty
        self.latest = latest
        self.upper_bound = upper_bound
        self.now = now
        self.horizon = now + min(delete_retention, INT64_MAX - max(now, 0))
        self.decompress = decompress
        self.compress = compress
        ordered = sorted(last_offsets)
        self.last_ones = <int64_t*>calloc(len(ordered) + 1, sizeof(int64_t))
        if self.last_ones == NULL:
            raise MemoryError
        for offset in ordered:
            self.last_ones[self.last_count] = offset
            self.last_count += 1
        self.mark_latest()

    def __dealloc__(self):
        free(self.latest_ones)
        free(self.last_ones)
        free(self.out.data)
        free(self.inner.data)

    cdef int mark_latest(self) except -1:
        """One bit for each offset that some key has in the map, if the bits fit in beside it.

        Then a dirty record needs neither a hash nor a look into the map.
        """
        cdef int64_t span = self.latest - self.first_dirty + 1
        cdef int64_t n, at
        cdef KeyTable* table = &self.map.table
        if span <= 0 or span >> 3 >= (table.most_slots - table.slot_count) * 24:
            return 0
        self.latest_ones = <uint8_t*>calloc((span >> 3) + 1, 1)
        if self.latest_ones == NULL:
            raise MemoryError
        with nogil:
            for n in range(table.slot_count):
                if table.slots[n].tag:
                    at = <int64_t>table.slots[n].tag - 1 - self.first_dirty
                    if 0 <= at < span:
                        self.latest_ones[at >> 3] |= <uint8_t>(1 << (at & 7))
        return 0

    @property
    def memory(self):
        """Bytes of the marks beside the map."""
        return ((self.latest - self.first_dirty + 1) >> 3) + 1 if self.latest_ones else 0

    def begin_segment(self, path, int64_t base_offset, bint keep_old_tombstones):
        self.begin(path, base_offset)
        self.keep_old_tombstones = keep_old_tombstones

    def run(self):
        """Walk until something is to be decided: 0 at the buffer's end, 1 ask."""
        cdef Event event
        while True:
            with nogil:
                event = self.walk()
            if event == CODED:
                self.filter_unpacked(False, self.is_needed(), False)
                continue
            if event == DAMAGED:
                self.fail()
            return <int>event

    def decide(self, bint discard, bint keep_empty, bint set_horizon):
        """Say what becomes of the batch that was asked about; returns as run.

        discard: its records go. keep_empty: the batch stays even without records. set_horizon:
        from this cleaning on counts the time after which it may go.
        """
        keep_empty = keep_empty or self.batch.last_offset + 1 == self.upper_bound
        if discard:
            if keep_empty:
                self.put_empty()
            self.count_batch()
            self.step()
        elif self.is_coded():
            self.filter_unpacked(self.is_control, keep_empty, set_horizon)
        elif not self.filter_plain(self.is_control, keep_empty, set_horizon):
            self.fail()
        return self.run()

    def output(self):
        """What is kept so far, as a view that is good until the next call."""
        return PyMemoryView_FromMemory(<char*>self.out.data, self.out.size, PyBUF_READ)

    @property
    def output_size(self):
        return self.out.size

    def clear_output(self):
        self.out.size = 0

    # --- decisions ------------------------------------------------------------------------

    cdef bint is_needed(self) noexcept nogil:
        """Whether the batch stays even if it is empty, as far as its last offset tells."""
        while self.last_at < self.last_count and (
            self.last_ones[self.last_at] < self.batch.last_offset
        ):
            self.last_at += 1
        return self.batch.last_offset + 1 == self.upper_bound or (
            self.batch.producer_id >= 0 and self.last_at < self.last_count
            and self.last_ones[self.last_at] == self.batch.last_offset
        )

    cdef bint none_is_latest(self) noexcept nogil:
        """Whether the marks alone tell that no record of the batch stays."""
        cdef int64_t at, stop
        if self.latest_ones == NULL or self.batch.magic < 2 or (
            self.batch.base_offset < self.first_dirty or self.batch.last_offset > self.latest
        ):
            return False
        at = self.batch.base_offset - self.first_dirty
        stop = self.batch.last_offset - self.first_dirty + 1
        while at < stop:
            if at & 7 == 0 and stop - at >= 8:
                if self.latest_ones[at >> 3]:
                    return False
                at += 8
                continue
            if self.latest_ones[at >> 3] >> (at & 7) & 1:
                return False
            at += 1
        return True

    cdef void count_batch(self) noexcept nogil:
        self.records += max(self.batch.count, 0)

    cdef Event walk(self) noexcept nogil:
        cdef Event event
        while True:
            event = self.next_batch()
            if event != ASK or self.decided_by_transaction():
                return event
            if self.none_is_latest() and not self.is_needed():
                self.count_batch()
                self.step()
                continue
            if self.is_coded():
                return CODED
            if not self.filter_plain(False, self.is_needed(), False):
                return DAMAGED

    cdef bint filter_plain(self, bint control, bint keep_empty, bint set_horizon) noexcept nogil:
        """Filter the batch at the position, which is not compressed; False if it is damaged."""
        cdef const uint8_t* at
        cdef const uint8_t* stop
        self.status = self.fill_plain(&at, &stop)
        if self.status == OK:
            self.choose(at, control)
            if self.kept == 0:
                self.status = self.empty_output(keep_empty)
            elif self.must_rebuild(set_horizon):
                self.status = self.rebuild(at, stop, set_horizon, &self.out)
            else:
                self.status = self.copy_batch()
        if self.status != OK:
            return False
        self.step()
        return True

    cdef int filter_unpacked(self, bint control, bint keep_empty, bint set_horizon) except -1:
        """Filter the compressed batch at the position, and compress what stays, if it changed."""
        cdef Py_buffer view
        cdef const uint8_t* at
        cdef bint rebuilt = False
        unpacked = self.unpacked()
        PyObject_GetBuffer(unpacked, &view, PyBUF_SIMPLE)
        try:
            with nogil:
                at = <const uint8_t*>view.buf
                self.status = self.fill_unpacked(at, view.len)
                if self.status == OK:
                    self.choose(at, control)
                    if self.batch.magic < 2:
                        self.look_for_others(at, view.len)
                    if self.kept == 0:
                        self.status = self.empty_output(keep_empty)
                    elif self.must_rebuild(set_horizon):
                        rebuilt = True
                        self.inner.size = 0
                        self.status = self.rebuild(at, at + view.len, set_horizon, &self.inner)
                    else:
                        self.status = self.copy_batch()
        finally:
            PyBuffer_Release(&view)
        if self.status == OK and rebuilt:
            self.pack()
        if self.status != OK:
            self.fail()
        self.step()
        return 0

    cdef void choose(self, const uint8_t* data, bint control) noexcept nogil:
        """Leave the rows that stay, and say what is to be known of them."""
        cdef Rows* rows = &self.rows
        cdef int64_t n, to = 0, offset, found
        cdef int64_t horizon = horizon_of(&self.batch)
        cdef bint keep_tombstones = (
            self.keep_old_tombstones if self.batch.magic < 2
            else (horizon < 0 or self.now < horizon)
        )
        cdef bint stays
        cdef int64_t[AHEAD] found_at
        self.has_tombstone = False
        self.changed = False
        self.records += rows.count
        for n in range(rows.count):
            if n % AHEAD == 0 and not control:
                self.look_up(data, n, found_at)
            offset = rows.offsets[n]
            if control or offset > self.latest:
                stays = True
            elif rows.key_lengths[n] < 0:
                if offset < self.first_dirty:   # the others were counted when they were indexed
                    self.invalid += 1
                stays = False
            else:
                found = found_at[n % AHEAD]
                stays = offset >= found and (rows.value_lengths[n] >= 0 or keep_tombstones)
            if not stays:
                continue
            if rows.value_lengths[n] < 0:
                self.has_tombstone = True
            if to != n:
                rows.value_positions[to] = rows.value_positions[n]
                rows.value_lengths[to] = rows.value_lengths[n]
                rows.offsets[to] = offset
                rows.timestamps[to] = rows.timestamps[n]
                rows.key_positions[to] = rows.key_positions[n]
                rows.key_lengths[to] = rows.key_lengths[n]
                rows.header_positions[to] = rows.header_positions[n]
                rows.header_counts[to] = rows.header_counts[n]
            to += 1
        self.changed = to != rows.count
        self.kept = to
        rows.count = to

    cdef void look_up(self, const uint8_t* data, int64_t first, int64_t* found) noexcept nogil:
        """What the map says of the next rows' keys; of dirty ones the marks know it sooner.

        A marked offset is the latest of its key, so it is found as itself; any other dirty one
        is below the latest.
        """
        cdef Rows* rows = &self.rows
        cdef sip_hash[AHEAD] hashes
        cdef bint[AHEAD] open
        cdef int64_t n, at, count = min(<int64_t>AHEAD, rows.count - first)
        cdef const KeyTable* table = &self.map.table
        cdef bint any_open = False
        for n in range(count):
            at = rows.offsets[first + n] - self.first_dirty
            open[n] = False
            if rows.offsets[first + n] > self.latest or rows.key_lengths[first + n] < 0:
                continue
            if at >= 0 and self.latest_ones != NULL:
                found[n] = -1 if self.latest_ones[at >> 3] >> (at & 7) & 1 else INT64_MAX
                continue
            open[n] = any_open = True
            hashes[n] = hash_key(
                table, data + rows.key_positions[first + n], rows.key_lengths[first + n]
            )
            fetch_slot(table.slots + sip_home(hashes[n].low, table.slot_count))
        if any_open:
            for n in range(count):
                if open[n]:
                    found[n] = offset_of(table, hashes[n])

    cdef void look_for_others(self, const uint8_t* data, int64_t size) noexcept nogil:
        """A wrapper whose messages are of another magic is rebuilt (KAFKA-4298)."""
        cdef BatchHeader inner
        cdef int64_t position = 0
        while position < size and read_header(data, position, size, &inner) == OK:
            if inner.magic != self.batch.magic:
                self.changed = True
            position += inner.size

    cdef bint must_rebuild(self, bint set_horizon) noexcept nogil:
        return self.changed or (
            self.batch.magic == 2 and horizon_of(&self.batch) < 0
            and (set_horizon or self.has_tombstone)
        )

    # --- output ---------------------------------------------------------------------------

    cdef Status copy_batch(self) noexcept nogil:
        cdef Status status = reserve(&self.out, self.batch.size)
        if status == OK:
            memcpy(
                self.out.data + self.out.size, self.data() + self.position, self.batch.size
            )
            self.out.size += self.batch.size
            self.records_kept += self.kept
        return status

    cdef Status empty_output(self, bint keep_empty) noexcept nogil:
        if not keep_empty:
            return OK
        return self.empty_batch()

    cdef int put_empty(self) except -1:
        self.status = self.empty_batch()
        if self.status != OK:
            self.fail()
        return 0

    cdef Status empty_batch(self) noexcept nogil:
        """The batch without its records (Kafka: DefaultRecordBatch.writeEmptyHeader).

        In place of messages v0 and v1, which have no such form, stands an empty batch v2: their
        end has to be known as well.
        """
        cdef BatchHeader header = self.batch
        cdef Status status = reserve(&self.out, V2_HEADER_SIZE)
        if status != OK:
            return status
        header.size = V2_HEADER_SIZE
        header.count = 0
        header.base_timestamp = -1
        header.attributes &= LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
        write_header(self.out.data + self.out.size, &header)
        self.out.size += V2_HEADER_SIZE
        return OK

    cdef Status rebuild(
        self, const uint8_t* data, const uint8_t* stop, bint set_horizon, Bytes* to
    ) noexcept nogil:
        """Write the rows that stay into one batch or wrapper; pack() ends a compressed one."""
        cdef Group group
        cdef Status status
        cdef int64_t horizon = horizon_of(&self.batch)
        cdef BatchHeader header = self.batch
        group.magic = self.batch.magic
        group.codec = self.batch.attributes & CODEC_MASK
        group.renumber = False
        group.stamped = group.magic > 0 and (self.batch.attributes & LOG_APPEND_TIME_BIT) != 0
        group.append_time = self.batch.max_timestamp
        group.lowest = -INT64_MAX - 1
        group.refusal = NOTHING
        status = open_group(&group, to)
        if status != OK:
            return status
        if group.magic == 2:
            if horizon < 0 and (set_horizon or self.has_tombstone):
                horizon = self.horizon
            group.fixed = True
            group.base_offset = self.batch.base_offset
            group.base_timestamp = horizon if horizon >= 0 else self.rows.timestamps[0]
        else:
            group.fixed = False
        status = put_rows(&group, to, &self.rows, data, stop, True)
        if status != OK:
            return status
        if group.refusal != NOTHING:
            return refusal_status(group.refusal)
        self.records_kept += self.kept
        header.count = <int32_t>self.kept
        header.base_timestamp = group.base_timestamp
        if group.stamped:
            group.max_timestamp = group.append_time
        header.max_timestamp = group.max_timestamp
        header.attributes &= (
            CODEC_MASK | LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
        )
        if horizon >= 0:
            header.attributes |= DELETE_HORIZON_BIT
        if group.codec == 0:        # of v2: a plain message is one record, and never rebuilt
            header.size = <int32_t>(to.size - group.start)
            write_header(to.data + group.start, &header)
            return OK
        header.base_offset = group.base_offset
        if group.magic < 2:
            header.last_offset = group.last_offset
        self.rebuilt = header
        return OK

    cdef BatchHeader rebuilt        # what pack() writes in front of the compressed records

    cdef int pack(self) except -1:
        """Compress the records in inner with the batch's own codec, and put the batch out."""
        cdef Py_buffer view
        cdef BatchHeader header = self.rebuilt
        packed = self.compress(
            header.attributes & CODEC_MASK, header.magic,
            PyMemoryView_FromMemory(<char*>self.inner.data, self.inner.size, PyBUF_READ),
        )
        PyObject_GetBuffer(packed, &view, PyBUF_SIMPLE)
        try:
            if view.len > LARGEST - 2 * V2_HEADER_SIZE:
                self.status = MESSAGE_TOO_LARGE
                return 0
            if header.magic < 2:
                self.status = put_wrapper(
                    &self.out, <const uint8_t*>view.buf, <int32_t>view.len, header.magic,
                    <uint8_t>(header.attributes & (CODEC_MASK | LOG_APPEND_TIME_BIT)),
                    header.last_offset, header.max_timestamp,
                )
                return 0
            self.status = reserve(&self.out, V2_HEADER_SIZE + view.len)
            if self.status != OK:
                return 0
            memcpy(self.out.data + self.out.size + V2_HEADER_SIZE, view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
        header.size = <int32_t>(V2_HEADER_SIZE + view.len)
        write_header(self.out.data + self.out.size, &header)
        self.out.size += header.size
        return 0


cdef Status refusal_status(int refusal) noexcept nogil:
    if refusal == TOO_LARGE:
        return MESSAGE_TOO_LARGE
    if refusal == ILLEGAL_TIMESTAMP:
        return BAD_TIMESTAMP
    return BAD_OFFSET
