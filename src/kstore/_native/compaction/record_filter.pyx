"""The cleaner's second pass: copies or rebuilds batches with the retained records.

Rules: Kafka's Cleaner.cleanInto and shouldRetainRecord, MemoryRecords.filterTo. Messages v0 and
v1 keep their format, as in Kafka up to 3.9. The delete horizon of tombstones:
``_native/format/delete_horizon.pxd``.
"""

from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from kstore._native.compaction.offset_map cimport (
    OffsetMap, KeyTable, prefetch_slot, hash_key, offset_of, sip_hash, sip_home,
)
from kstore._native.format.argument cimport HeldBytes, hold_bytes
from kstore._native.format.batch_assembly cimport (
    Bytes, Group, open_group, put_rows, put_wrapper, reserve, MAX_BATCH_SIZE, NO_REFUSAL, TOO_LARGE,
    ILLEGAL_TIMESTAMP,
)
from kstore._native.format.batch_header cimport BatchHeader, read_header, write_header
from kstore._native.format.delete_horizon cimport (
    delete_horizon_from, delete_horizon_of, keeps_tombstones,
)
from kstore._native.format.layout cimport *
from kstore._native.format.record_rows cimport Rows
from kstore._native.format.status cimport Status, OK, BAD_OFFSET, BAD_TIMESTAMP, MESSAGE_TOO_LARGE
from kstore._native.read.batch_walk cimport (
    COMPRESSED, DAMAGED, DECIDE, BatchWalk, Event,
)

cdef extern from "Python.h":
    int PyBUF_READ

cdef enum:
    LOOKUP_BATCH = 32           # keys to look up together, so that their cache misses overlap


cdef class RecordFilter(BatchWalk):
    """The second pass: appends the retained records to an output, as bytes of a segment."""

    cdef OffsetMap map
    cdef object compress
    cdef uint8_t* latest_bits       # bitmap of the offsets from first_dirty to latest
    cdef readonly int64_t first_dirty
    cdef readonly int64_t latest
    cdef int64_t upper_bound
    cdef int64_t now
    cdef int64_t horizon            # for tombstones without a delete horizon
    cdef bint keep_old_tombstones   # of messages v0 and v1
    cdef int64_t* required_offsets  # last offsets of active producers' last batches
    cdef int64_t required_count, next_required
    cdef Bytes out
    cdef Bytes inner
    cdef int64_t retained_count
    cdef bint changed               # the batch must be rebuilt
    cdef readonly int64_t records_kept, tombstones_kept
    cdef int64_t tombstone_count    # of the batch, retained

    def __cinit__(
        self, OffsetMap keys not None, *, int64_t first_dirty, int64_t latest, int64_t upper_bound,
        int64_t now, int64_t delete_retention, last_offsets, decompress, compress,
    ):
        self.map = keys
        self.first_dirty = first_dirty
        self.latest = latest
        self.upper_bound = upper_bound
        self.now = now
        self.horizon = delete_horizon_from(now, delete_retention)
        self.decompress = decompress
        self.compress = compress
        ordered = sorted(last_offsets)
        self.required_offsets = <int64_t*>calloc(len(ordered) + 1, sizeof(int64_t))
        if self.required_offsets == NULL:
            raise MemoryError
        for offset in ordered:
            self.required_offsets[self.required_count] = offset
            self.required_count += 1
        self.mark_latest()

    def __dealloc__(self):
        free(self.latest_bits)
        free(self.required_offsets)
        free(self.out.data)
        free(self.inner.data)

    cdef int mark_latest(self) except -1:
        """Set the bit of each offset in the map, if the bitmap fits in the map's unused memory.

        A dirty record then needs neither a hash nor a lookup.
        """
        cdef int64_t span = self.latest - self.first_dirty + 1
        cdef int64_t n, at
        cdef KeyTable* table = &self.map.table
        if span <= 0 or span >> 3 >= (table.max_slots - table.slot_count) * 24:
            return 0
        self.latest_bits = <uint8_t*>calloc((span >> 3) + 1, 1)
        if self.latest_bits == NULL:
            raise MemoryError
        with nogil:
            for n in range(table.slot_count):
                if table.slots[n].tag:
                    at = <int64_t>table.slots[n].tag - 1 - self.first_dirty
                    if 0 <= at < span:
                        self.latest_bits[at >> 3] |= <uint8_t>(1 << (at & 7))
        return 0

    @property
    def memory(self):
        """Bytes of the bitmap."""
        return ((self.latest - self.first_dirty + 1) >> 3) + 1 if self.latest_bits else 0

    def begin_segment(self, path, int64_t base_offset, bint keep_old_tombstones):
        self.begin(path, base_offset)
        self.keep_old_tombstones = keep_old_tombstones

    def run(self):
        """Walk on; returns 0 at the end of the buffer, 1 if the caller has to decide."""
        cdef Event event
        while True:
            with nogil:
                event = self.walk()
            if event == COMPRESSED:
                self.filter_decompressed(False, self.must_keep_header(), False)
                continue
            if event == DAMAGED:
                self.fail()
            return <int>event

    def decide(self, bint discard, bint keep_empty, bint set_horizon):
        """Filter the current batch and continue; returns as run.

        discard: remove its records. keep_empty: keep the header of a batch without records.
        set_horizon: set its delete horizon if it has none.
        """
        keep_empty = keep_empty or self.batch.last_offset + 1 == self.upper_bound
        if discard:
            if keep_empty:
                self.write_empty()
            self.count_batch()
            self.step()
        elif self.is_compressed():
            self.filter_decompressed(self.is_control, keep_empty, set_horizon)
        elif not self.filter_uncompressed(self.is_control, keep_empty, set_horizon):
            self.fail()
        return self.run()

    def output(self):
        """The output so far, as a view that is valid until the next call."""
        return PyMemoryView_FromMemory(<char*>self.out.data, self.out.size, PyBUF_READ)

    @property
    def output_size(self):
        return self.out.size

    def clear_output(self):
        self.out.size = 0

    # --- decisions ------------------------------------------------------------------------

    cdef bint must_keep_header(self) noexcept nogil:
        """Whether the batch's last offset requires its header even without records."""
        while self.next_required < self.required_count and (
            self.required_offsets[self.next_required] < self.batch.last_offset
        ):
            self.next_required += 1
        return self.batch.last_offset + 1 == self.upper_bound or (
            self.batch.producer_id >= 0 and self.next_required < self.required_count
            and self.required_offsets[self.next_required] == self.batch.last_offset
        )

    cdef bint has_no_latest(self) noexcept nogil:
        """Whether, by the bitmap alone, no record of the batch is the latest of its key."""
        cdef int64_t at, stop
        if self.latest_bits == NULL or self.batch.magic < 2 or (
            self.batch.base_offset < self.first_dirty or self.batch.last_offset > self.latest
        ):
            return False
        at = self.batch.base_offset - self.first_dirty
        stop = self.batch.last_offset - self.first_dirty + 1
        while at < stop:
            if at & 7 == 0 and stop - at >= 8:
                if self.latest_bits[at >> 3]:
                    return False
                at += 8
                continue
            if self.latest_bits[at >> 3] >> (at & 7) & 1:
                return False
            at += 1
        return True

    cdef void count_batch(self) noexcept nogil:
        self.records += max(self.batch.count, 0)

    cdef Event walk(self) noexcept nogil:
        cdef Event event
        while True:
            event = self.next_batch()
            if event != DECIDE or self.is_decided_by_transaction():
                return event
            if self.has_no_latest() and not self.must_keep_header():
                self.count_batch()
                self.step()
                continue
            if self.is_compressed():
                return COMPRESSED
            if not self.filter_uncompressed(False, self.must_keep_header(), False):
                return DAMAGED

    cdef bint filter_uncompressed(
        self, bint control, bint keep_empty, bint set_horizon
    ) noexcept nogil:
        """Filter the uncompressed batch at the position; False if it is corrupt."""
        cdef const uint8_t* at
        cdef const uint8_t* stop
        self.status = self.fill_uncompressed(&at, &stop)
        if self.status == OK:
            self.select_rows(at, control)
            if self.retained_count == 0:
                self.status = self.write_empty_if(keep_empty)
            elif self.must_rebuild(set_horizon):
                self.status = self.rebuild(at, stop, set_horizon, &self.out)
            else:
                self.status = self.copy_batch()
        if self.status != OK:
            return False
        self.step()
        return True

    cdef int filter_decompressed(self, bint control, bint keep_empty, bint set_horizon) except -1:
        """Filter the compressed batch at the position; recompress it if records were removed."""
        cdef HeldBytes view
        cdef const uint8_t* at
        cdef bint is_rebuilt = False
        decompressed = self.decompress_batch()
        view = hold_bytes(decompressed)
        with nogil:
            at = view.data
            self.status = self.fill_decompressed(at, view.size)
            if self.status == OK:
                self.select_rows(at, control)
                if self.batch.magic < 2:
                    self.check_inner_magic(at, view.size)
                if self.retained_count == 0:
                    self.status = self.write_empty_if(keep_empty)
                elif self.must_rebuild(set_horizon):
                    is_rebuilt = True
                    self.inner.size = 0
                    self.status = self.rebuild(at, at + view.size, set_horizon, &self.inner)
                else:
                    self.status = self.copy_batch()
        if self.status == OK and is_rebuilt:
            self.write_compressed()
        if self.status != OK:
            self.fail()
        self.step()
        return 0

    cdef void select_rows(self, const uint8_t* data, bint control) noexcept nogil:
        """Reduce rows to the retained ones; set their counts and changed."""
        cdef Rows* rows = &self.rows
        cdef int64_t n, to = 0, offset, found
        cdef bint keep_tombstones = (
            self.keep_old_tombstones if self.batch.magic < 2
            else keeps_tombstones(&self.batch, self.now)
        )
        cdef bint retain
        cdef int64_t[LOOKUP_BATCH] found_at
        self.tombstone_count = 0
        self.changed = False
        self.records += rows.count
        for n in range(rows.count):
            if n % LOOKUP_BATCH == 0 and not control:
                self.find_latest(data, n, found_at)
            offset = rows.offsets[n]
            if control or offset > self.latest:
                retain = True
            elif rows.key_lengths[n] < 0:
                if offset < self.first_dirty:   # the first pass has counted the others
                    self.invalid += 1
                retain = False
            else:
                found = found_at[n % LOOKUP_BATCH]
                retain = offset >= found and (rows.value_lengths[n] >= 0 or keep_tombstones)
            if not retain:
                continue
            if rows.value_lengths[n] < 0:
                self.tombstone_count += 1
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
        self.retained_count = to
        rows.count = to

    cdef void find_latest(self, const uint8_t* data, int64_t first, int64_t* found) noexcept nogil:
        """Find the latest offsets of the next rows' keys; for dirty rows, from the bitmap.

        A dirty offset in the bitmap is the latest of its key: found is -1, so that the row's
        offset is not below. For any other dirty offset, found is INT64_MAX.
        """
        cdef Rows* rows = &self.rows
        cdef sip_hash[LOOKUP_BATCH] hashes
        cdef bint[LOOKUP_BATCH] is_unknown
        cdef int64_t n, at, count = min(<int64_t>LOOKUP_BATCH, rows.count - first)
        cdef const KeyTable* table = &self.map.table
        cdef bint any_unknown = False
        for n in range(count):
            at = rows.offsets[first + n] - self.first_dirty
            is_unknown[n] = False
            if rows.offsets[first + n] > self.latest or rows.key_lengths[first + n] < 0:
                continue
            if at >= 0 and self.latest_bits != NULL:
                found[n] = -1 if self.latest_bits[at >> 3] >> (at & 7) & 1 else INT64_MAX
                continue
            is_unknown[n] = any_unknown = True
            hashes[n] = hash_key(
                table, data + rows.key_positions[first + n], rows.key_lengths[first + n]
            )
            prefetch_slot(table.slots + sip_home(hashes[n].low, table.slot_count))
        if any_unknown:
            for n in range(count):
                if is_unknown[n]:
                    found[n] = offset_of(table, hashes[n])

    cdef void check_inner_magic(self, const uint8_t* data, int64_t size) noexcept nogil:
        """Mark a wrapper for rebuild if its messages have another magic (KAFKA-4298)."""
        cdef BatchHeader inner
        cdef int64_t position = 0
        while position < size and read_header(data, position, size, &inner) == OK:
            if inner.magic != self.batch.magic:
                self.changed = True
            position += inner.size

    cdef bint must_rebuild(self, bint set_horizon) noexcept nogil:
        return self.changed or (
            self.batch.magic == 2 and delete_horizon_of(&self.batch) < 0
            and (set_horizon or self.tombstone_count > 0)
        )

    # --- output ---------------------------------------------------------------------------

    cdef Status copy_batch(self) noexcept nogil:
        cdef Status status = reserve(&self.out, self.batch.size)
        if status == OK:
            memcpy(
                self.out.data + self.out.size, self.data() + self.position, self.batch.size
            )
            self.out.size += self.batch.size
            self.records_kept += self.retained_count
            self.tombstones_kept += self.tombstone_count
        return status

    cdef Status write_empty_if(self, bint keep_empty) noexcept nogil:
        if not keep_empty:
            return OK
        return self.append_empty()

    cdef int write_empty(self) except -1:
        self.status = self.append_empty()
        if self.status != OK:
            self.fail()
        return 0

    cdef Status append_empty(self) noexcept nogil:
        """Append the batch's header without records (Kafka: DefaultRecordBatch.writeEmptyHeader).

        For v0 and v1 messages, which have no such form, an empty v2 batch marks their end
        offset.
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
        """Write the retained rows as one batch; for a compressed one, write_compressed follows."""
        cdef Group group
        cdef Status status
        cdef int64_t horizon = delete_horizon_of(&self.batch)
        cdef BatchHeader header = self.batch
        group.magic = self.batch.magic
        group.codec = self.batch.attributes & CODEC_MASK
        group.renumber = False
        group.log_append_time = group.magic > 0 and (
            self.batch.attributes & LOG_APPEND_TIME_BIT) != 0
        group.append_time = self.batch.max_timestamp
        group.first_offset = -INT64_MAX - 1
        group.refusal = NO_REFUSAL
        status = open_group(&group, to)
        if status != OK:
            return status
        if group.magic == 2:
            if horizon < 0 and (set_horizon or self.tombstone_count > 0):
                horizon = self.horizon
            group.has_base = True
            group.base_offset = self.batch.base_offset
            group.base_timestamp = horizon if horizon >= 0 else self.rows.timestamps[0]
        else:
            group.has_base = False
        status = put_rows(&group, to, &self.rows, data, stop, True)
        if status != OK:
            return status
        if group.refusal != NO_REFUSAL:
            return status_of_refusal(group.refusal)
        self.records_kept += self.retained_count
        self.tombstones_kept += self.tombstone_count
        header.count = <int32_t>self.retained_count
        header.base_timestamp = group.base_timestamp
        if group.log_append_time:
            group.max_timestamp = group.append_time
        header.max_timestamp = group.max_timestamp
        header.attributes &= (
            CODEC_MASK | LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
        )
        if horizon >= 0:
            header.attributes |= DELETE_HORIZON_BIT
        if group.codec == 0:        # v2: an uncompressed v0 or v1 message has one record
            header.size = <int32_t>(to.size - group.start)
            write_header(to.data + group.start, &header)
            return OK
        header.base_offset = group.base_offset
        if group.magic < 2:
            header.last_offset = group.last_offset
        self.rebuilt_header = header
        return OK

    cdef BatchHeader rebuilt_header     # for write_compressed

    cdef int write_compressed(self) except -1:
        """Compress the records in inner with the batch's codec, and append the batch."""
        cdef HeldBytes view
        cdef BatchHeader header = self.rebuilt_header
        compressed = self.compress(
            header.attributes & CODEC_MASK, header.magic,
            PyMemoryView_FromMemory(<char*>self.inner.data, self.inner.size, PyBUF_READ),
        )
        view = hold_bytes(compressed)
        if view.size > MAX_BATCH_SIZE - 2 * V2_HEADER_SIZE:
            self.status = MESSAGE_TOO_LARGE
            return 0
        if header.magic < 2:
            self.status = put_wrapper(
                &self.out, view.data, <int32_t>view.size, header.magic,
                <uint8_t>(header.attributes & (CODEC_MASK | LOG_APPEND_TIME_BIT)),
                header.last_offset, header.max_timestamp,
            )
            return 0
        self.status = reserve(&self.out, V2_HEADER_SIZE + view.size)
        if self.status != OK:
            return 0
        memcpy(self.out.data + self.out.size + V2_HEADER_SIZE, view.data, view.size)
        header.size = <int32_t>(V2_HEADER_SIZE + view.size)
        write_header(self.out.data + self.out.size, &header)
        self.out.size += header.size
        return 0


cdef Status status_of_refusal(int refusal) noexcept nogil:
    if refusal == TOO_LARGE:
        return MESSAGE_TOO_LARGE
    if refusal == ILLEGAL_TIMESTAMP:
        return BAD_TIMESTAMP
    return BAD_OFFSET
