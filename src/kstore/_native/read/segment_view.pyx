"""From an offset to a slice of file bytes: floor segment, index search, short header walk.

Rules: Kafka's UnifiedLog.read, LogSegment.translateOffset and read. Nearly everything here runs
under the GIL: it takes less than a microsecond, and index entry tables can grow without a lock.
Without the GIL are walks over more than SHORT_WALK bytes or over pages that may not be in memory,
which wait for a disk at each of them, and the load of the first pages of such a walk.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.tuple cimport PyTuple_GET_ITEM
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from kstore._native.files.file_map cimport FileMap, send_memory, were_resident
from kstore._native.format.argument cimport HeldBytes, hold_bytes
from kstore._native.format.cursor cimport get_i32, get_i64, put_i32, put_i64
from kstore._native.format.integer cimport int64_of
from kstore._native.format.layout cimport (
    HEADER_UP_TO_MAGIC, LOG_OVERHEAD, OFFSET_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE, V0_OVERHEAD,
)
from kstore._native.format.status cimport OK, TRUNCATED, Status, raise_for_status
from kstore._native.index.index_lookup cimport floor_offset, floor_time
from kstore._native.read.header_walk cimport (
    SHORT_WALK, PyGILState_Check, end_below, walk_to_offset,
)

cdef enum:
    MAX_RELATIVE = 2147483647
    NOTE_INTERVAL = 4096
    WALKED = 8192                           # bytes of a walk from an index entry, nearly always

cdef int64_t _free_walks = 0                # that did not hold the GIL

include "slice.pxi"


def walks_without_gil():
    """How many walks of reads this process has made without the GIL, for tests."""
    return _free_walks


def find_batch_reaching(
    data, Py_ssize_t start, int64_t offset,
    int64_t before_last=INT64_MIN, int64_t next_offset=INT64_MAX, bint is_retry=True,
):
    """(position, size) of the first batch at or after start whose last offset is offset or above.

    If no complete batch qualifies: (their end, 0). Raises CorruptRecordError for bytes that
    cannot be a batch, and for a batch whose offsets contradict its neighbours. The other
    arguments are those of walk_to_offset.
    """
    cdef HeldBytes held = hold_bytes(data)
    cdef int64_t position = start
    cdef int32_t size = 0
    cdef Status status
    if start < 0 or start >= held.size:
        return start, 0
    with nogil:                             # the caller's bytes may be a mapping, not in memory
        status = walk_to_offset(
            held.data, &position, held.size, offset, before_last, next_offset, is_retry, &size
        )
    if status == TRUNCATED:
        return position, 0
    raise_for_status(status, None, position, -1)
    return position, size


@cython.final
cdef class SegmentView:
    """One segment as this process knows it: its published end, index entries and mapping.

    Not thread safe for writing (the log's lock guards that); safe to read under the GIL.
    """

    def __cinit__(self, int64_t base_offset, path, *, int64_t size=0, next_offset=None):
        self.base_offset = base_offset
        self.path = path
        self.size = size
        self.next_offset = base_offset if next_offset is None else next_offset
        self.max_timestamp = -1
        self.offset_of_max_timestamp = base_offset

    def __dealloc__(self):
        free(self.entries)
        free(self.time_entries)

    def publish(self, int64_t size, int64_t next_offset):
        """Allow readers the bytes up to size, with offsets below next_offset."""
        self.size = size
        self.next_offset = next_offset

    def note_timestamp(self, int64_t timestamp, int64_t offset):
        """Update the largest timestamp, and the last offset of the first batch that has it."""
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.offset_of_max_timestamp = offset

    def load_entries(self, offset_entries, time_entries):
        """Replace the index entries by copies of those in the files."""
        self._load(
            &self.entries, &self.entry_count, &self.entry_capacity, hold_bytes(offset_entries),
            OFFSET_INDEX_ENTRY_SIZE)
        self._load(
            &self.time_entries, &self.time_count, &self.time_capacity, hold_bytes(time_entries),
            TIME_INDEX_ENTRY_SIZE)
        self.entries_written = self.entry_count
        self.times_written = self.time_count

    def clear_time_index(self):
        """Drop the time index entries; later ones overwrite them in the file."""
        self.time_count = self.times_written = 0

    cdef int _load(
        self, uint8_t** entries, Py_ssize_t* count, Py_ssize_t* capacity,
        HeldBytes given, Py_ssize_t entry_size
    ) except -1:
        cdef Py_ssize_t given_count = given.size // entry_size
        cdef uint8_t* grown
        if given_count > capacity[0]:
            grown = <uint8_t*>realloc(entries[0], given_count * entry_size)
            if grown == NULL:
                raise MemoryError
            entries[0] = grown
            capacity[0] = given_count
        if given_count:
            memcpy(entries[0], given.data, given_count * entry_size)
        count[0] = given_count
        return 0

    def unmap(self):
        """Release the mapping, and the index entries of a rolled segment (reloaded on use)."""
        cdef FileMap _released = self.log_map    # see FileMap
        self.log_map = None
        if self.sealed:
            free(self.entries)
            free(self.time_entries)
            self.entries = self.time_entries = NULL
            self.entry_count = self.entry_capacity = self.entries_written = 0
            self.time_count = self.time_capacity = self.times_written = 0

    def attach_log(self, FileMap log_map not None):
        """Set the mapping of the log file."""
        cdef FileMap _released = self.log_map    # see FileMap
        self.log_map = log_map

    @property
    def mapped(self):
        """Whether `unmap` would release anything."""
        return self.log_map is not None or (self.sealed and self.entry_count > 0)

    @property
    def maps_published(self):
        """Whether all published bytes are mapped, so that the file may be renamed or deleted."""
        return self.log_map is not None and self.log_map.size >= self.size

    @property
    def index_count(self):
        return self.entry_count

    @property
    def time_index_count(self):
        return self.time_count

    def pending_entries(self):
        """(first slot, bytes) of offset index entries not yet written to the file."""
        cdef Py_ssize_t first = self.entries_written
        if first == self.entry_count:
            return first, b""
        return first, <bytes>self.entries[
            first * OFFSET_INDEX_ENTRY_SIZE:self.entry_count * OFFSET_INDEX_ENTRY_SIZE]

    def pending_times(self):
        cdef Py_ssize_t first = self.times_written
        if first == self.time_count:
            return first, b""
        return first, <bytes>self.time_entries[
            first * TIME_INDEX_ENTRY_SIZE:self.time_count * TIME_INDEX_ENTRY_SIZE]

    def note_position(self, int64_t offset, int64_t position):
        """Add an index entry: the batches before position end below offset (for a reader)."""
        cdef int64_t relative = offset - self.base_offset
        cdef const uint8_t* last
        if relative > MAX_RELATIVE or position > MAX_RELATIVE:
            return
        if self.entry_count:
            last = self.entries + (self.entry_count - 1) * OFFSET_INDEX_ENTRY_SIZE
            # As sparse as an index: a reader that polls must not add an entry each time.
            if relative <= get_i32(last) or position - get_i32(last + 4) < NOTE_INTERVAL:
                return
        self.add_entry(<int32_t>relative, <int32_t>position)

    def mark_entries_written(self, Py_ssize_t entries, Py_ssize_t times):
        """Record how many entries the index files have."""
        self.entries_written = entries
        self.times_written = times

    def close_time_index(self):
        """Add the last entry when the segment rolls (Kafka: onBecomeInactiveSegment)."""
        if self.max_timestamp >= 0:
            self.add_time(
                self.max_timestamp, <int32_t>(self.offset_of_max_timestamp - self.base_offset)
            )

    cdef int add_entry(self, int32_t relative, int32_t position) except -1:
        cdef uint8_t* grown
        cdef Py_ssize_t capacity
        if self.entry_count == self.entry_capacity:
            capacity = max(64, self.entry_capacity * 2)
            grown = <uint8_t*>realloc(self.entries, capacity * OFFSET_INDEX_ENTRY_SIZE)
            if grown == NULL:
                raise MemoryError
            self.entries = grown
            self.entry_capacity = capacity
        put_i32(self.entries + self.entry_count * OFFSET_INDEX_ENTRY_SIZE, relative)
        put_i32(self.entries + self.entry_count * OFFSET_INDEX_ENTRY_SIZE + 4, position)
        self.entry_count += 1
        return 0

    cdef int add_time(self, int64_t timestamp, int32_t relative) except -1:
        """Kafka's maybeAppend: add an entry only for a timestamp after the last entry's."""
        cdef uint8_t* grown
        cdef Py_ssize_t capacity
        cdef uint8_t* at
        if self.time_count > 0:
            at = self.time_entries + (self.time_count - 1) * TIME_INDEX_ENTRY_SIZE
            if timestamp <= get_i64(at) or relative < get_i32(at + 8):
                return 0
        elif timestamp < 0:
            return 0
        if self.time_count == self.time_capacity:
            capacity = max(64, self.time_capacity * 2)
            grown = <uint8_t*>realloc(self.time_entries, capacity * TIME_INDEX_ENTRY_SIZE)
            if grown == NULL:
                raise MemoryError
            self.time_entries = grown
            self.time_capacity = capacity
        at = self.time_entries + self.time_count * TIME_INDEX_ENTRY_SIZE
        put_i64(at, timestamp)
        put_i32(at + 8, relative)
        self.time_count += 1
        return 0

    # --- reading ---------------------------------------------------------------------

    def floor_position(self, int64_t offset, int back=0):
        """Position of the index entry at or below offset, or `back` entries earlier; 0 if none."""
        return self._floor(offset, back)

    cdef int64_t _floor(self, int64_t offset, int back) noexcept:
        """As floor_position; 0 also for an entry beyond the published end."""
        cdef int64_t relative = offset - self.base_offset
        cdef Py_ssize_t slot
        cdef int64_t position
        if relative < 0 or self.entry_count == 0:
            return 0
        if relative > MAX_RELATIVE:
            relative = MAX_RELATIVE
        slot = floor_offset(self.entries, self.entry_count, <int32_t>relative) - back
        if slot < 0:
            return 0
        position = get_i32(self.entries + slot * OFFSET_INDEX_ENTRY_SIZE + 4)
        return position if 0 <= position < self.size else 0

    def last_indexed(self, int64_t size):
        """(offset, position) of the last index entry within the first size bytes of the log.

        Without an entry: (base offset - 1, 0).
        """
        cdef Py_ssize_t slot = self.entry_count - 1
        cdef const uint8_t* at
        cdef int64_t position
        while slot >= 0:
            at = self.entries + slot * OFFSET_INDEX_ENTRY_SIZE
            position = get_i32(at + 4)
            if 0 <= position < size:
                return self.base_offset + get_i32(at), position
            slot -= 1
        return self.base_offset - 1, 0

    def time_entry(self, Py_ssize_t slot):
        """(timestamp, offset) of a time index entry; (-1, base offset) if slot is out of range."""
        cdef const uint8_t* at
        if not 0 <= slot < self.time_count:
            return -1, self.base_offset
        at = self.time_entries + slot * TIME_INDEX_ENTRY_SIZE
        return get_i64(at), self.base_offset + get_i32(at + 8)

    def entry_before_time(self, int64_t timestamp):
        """The time index entry before the one at or below timestamp, as from time_entry: a search
        from it finds the batch even if one entry is wrong."""
        return self.time_entry(floor_time(self.time_entries, self.time_count, timestamp) - 1)

    cdef Slice locate(self, int64_t offset, int64_t max_bytes):
        """The slice from the batch that contains offset; None if all batches end below it."""
        cdef int64_t position
        cdef int64_t end = self.size
        cdef int32_t size = 0
        cdef Status status
        cdef const uint8_t* data
        cdef int64_t start
        cdef int64_t near
        cdef FileMap log_map = self.log_map
        if end == 0:
            return None
        while log_map is None or log_map.size < end:
            # Not mapped, or the file has outgrown the mapping. Another thread may unmap the view
            # at any time, so this method keeps its own reference.
            self.opener(self)
            log_map = self.log_map
            end = min(end, self.size)  # opening may shrink the view: zeros at the end
        self.touched = True
        data = log_map.data
        position = self._floor(offset, 0)
        near = min(end, position + SHORT_WALK)      # up to where bytes are in memory
        # An entry may be of a batch that was appended since the end was read.
        if position < end and not were_resident(log_map, position, near, end):
            near = self._load_near(log_map, position, end)
        if position > 0 and not self._starts_at_or_below(data, position, end, offset):
            position = self._floor(offset, 1)
            near = self._load_near(log_map, position, end)
            if position > 0 and not self._starts_at_or_below(data, position, end, offset):
                position = 0
                near = self._load_near(log_map, position, end)
        start = position
        status = walk_to_offset(
            data, &position, near, offset, self.base_offset - 1 if start == 0 else INT64_MIN,
            self.next_offset, False, &size)
        # The header of the next batch, which shows a wrong one, must be near, too.
        if near < end and (status != OK or near - position - size < HEADER_UP_TO_MAGIC):
            position = start
            status = self._walk(data, &position, end, offset, False, &size)
        if status != OK and position != end and start > 0:
            # Either the index entry is wrong or the log is corrupt: retry from earlier batches.
            position = self._floor(offset, 1)
            if not 0 < position < start:
                position = 0
            status = self._walk(data, &position, end, offset, True, &size)
            if status != OK and position != end:
                position = 0
                status = self._walk(data, &position, end, offset, True, &size)
        if status == TRUNCATED and position == end:
            return None
        if status != OK:
            raise_for_status(status, self.path, position, offset)
        if max_bytes < size:
            max_bytes = size
        return new_slice(
            self, log_map, data + position, position, min(max_bytes, end - position))

    cdef int64_t _load_near(self, FileMap log_map, int64_t position, int64_t end) except -1:
        """Load what a walk from a position nearly always needs; waits without the GIL.

        Returns the end of these bytes.
        """
        cdef int64_t near = min(end, position + WALKED)
        if not log_map.is_resident(position, near):
            log_map.load(position, near, self.path)
        return near

    cdef Status _walk(
        self, const uint8_t* data, int64_t* position, int64_t end, int64_t offset, bint is_retry,
        int32_t* size
    ) noexcept:
        """walk_to_offset without the GIL; the caller keeps the mapping."""
        global _free_walks
        cdef int64_t before_last = self.base_offset - 1 if position[0] == 0 else INT64_MIN
        cdef int64_t next_offset = self.next_offset
        cdef bint is_held
        cdef Status status
        with nogil:
            is_held = PyGILState_Check()
            status = walk_to_offset(
                data, position, end, offset, before_last, next_offset, is_retry, size)
        _free_walks += not is_held
        return status

    cdef bint _starts_at_or_below(
        self, const uint8_t* data, int64_t position, int64_t end, int64_t offset
    ) noexcept:
        """Whether a batch at position starts at or below offset.

        A v0/v1 wrapper has only its last offset, so a wrapper above offset is not evidence.
        """
        if end - position < HEADER_UP_TO_MAGIC:
            return False
        return get_i64(data + position) <= offset

    def all_published(self):
        """All published bytes as one Slice."""
        if self.size == 0:
            return new_slice(self, b"", <const uint8_t*>b"", 0, 0)
        cdef int64_t end = self.size
        cdef FileMap log_map = self.log_map
        while log_map is None or log_map.size < end:
            self.opener(self)
            log_map = self.log_map
            end = min(end, self.size)
        self.touched = True
        return new_slice(self, log_map, log_map.data, 0, end)


@cython.final
cdef class SegmentList:
    """Snapshot of a log's segments, oldest first, and its log start offset. Immutable."""

    def __cinit__(self, views, int64_t start_offset):
        cdef Py_ssize_t n
        self.views = tuple(views)
        self.count = len(self.views)
        self.last = self.views[self.count - 1] if self.count else None
        self.start_offset = start_offset
        if self.count == 0:
            raise ValueError("a log has at least one segment")
        self.bases = <int64_t*>malloc(self.count * sizeof(int64_t))
        if self.bases == NULL:
            raise MemoryError
        for n in range(self.count):
            self.bases[n] = (<SegmentView?>self.views[n]).base_offset
            if n and self.bases[n] <= self.bases[n - 1]:
                raise ValueError("segments must be in order of base offset")

    def __dealloc__(self):
        free(self.bases)

    def __len__(self):
        return self.count

    def __iter__(self):
        return iter(self.views)

    def __getitem__(self, index):
        return self.views[index]

    def floor(self, int64_t offset):
        """Index of the last segment whose base offset is at or below offset; -1 if none."""
        return self._floor(offset)

    cdef Py_ssize_t _floor(self, int64_t offset) noexcept:
        cdef Py_ssize_t low = 0
        cdef Py_ssize_t high = self.count
        cdef Py_ssize_t middle
        if offset >= self.bases[self.count - 1]:     # most reads are near the end
            return self.count - 1
        while low < high:
            middle = (low + high) >> 1
            if self.bases[middle] <= offset:
                low = middle + 1
            else:
                high = middle
        return low - 1

    @property
    def end_offset(self):
        return self.last.next_offset

    def read(self, offset, max_bytes=1048576, up_to=None, bint min_one_batch=True):
        """The slice from the batch that contains offset; None at the end of the log.

        The other arguments are those of `Slice.limit`; None: no limit. Raises LookupError below
        the log start or beyond the end; TypeError, OverflowError.
        """
        cdef int64_t wanted = int64_of(offset)
        cdef int64_t limit = int64_of(max_bytes)
        cdef int64_t end = self.last.next_offset
        cdef Py_ssize_t n
        cdef Slice found
        if wanted < self.start_offset or wanted > end:
            raise LookupError(offset)
        if wanted == end:
            return None
        n = max(self._floor(wanted), 0)
        while n < self.count:
            found = (<SegmentView>PyTuple_GET_ITEM(self.views, n)).locate(wanted, limit)
            if found is not None:
                if up_to is None and min_one_batch:
                    return found
                end = INT64_MAX if up_to is None else int64_of(up_to)
                return found.limit(limit, end, min_one_batch)
            n += 1
        return None
