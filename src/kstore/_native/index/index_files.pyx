"""Offset index and time index: the largest entry at or below a target, searched in the file.

Kafka looks first at the newest 8 KiB (OffsetIndex's "warm section"), so that lookups near the
end touch no cold page. So does this search; the loops below it are in search_entries.pxd.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from kstore._native.format.checksum import cpu_path, supported_paths

from kstore._native.format.argument cimport HeldColumn, hold_int64s, hold_writable_int64s
from kstore._native.format.cursor cimport get_i32, get_i64, get_u32
from kstore._native.format.layout cimport OFFSET_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE
from kstore._native.index.search_entries cimport (
    KSTORE_PREFETCH, LANES, between_offsets, between_times, halve_lanes, halve_sampled, offset_key,
    time_key,
)

cdef extern from "index/index_gather.h" nogil:
    enum:
        KSTORE_GATHER_LANES
    ctypedef void (*kstore_gather)(
        const uint8_t* entries, Py_ssize_t count, const uint32_t* sample, Py_ssize_t stride,
        int64_t base_offset, const int64_t* offsets, int64_t* positions,
    ) noexcept
    kstore_gather kstore_gather_of(bint avx2, bint avx512) noexcept

# One setting forces the path of every kernel: KSTORE_CPU, which the checksums read.
cdef kstore_gather _gather = kstore_gather_of(cpu_path() == "avx2", cpu_path() == "avx512")

cdef enum:
    WARM_SIZE = 8192            # bytes at the end that are searched first, as Kafka does
    STRIDE = 64                 # every 64th key is sampled for many lookups
    SAMPLE_FROM = 512           # lookups in one call that pay for sampling


# --- one search --------------------------------------------------------------------------

cdef Py_ssize_t floor_offset(
    const uint8_t* entries, Py_ssize_t count, int32_t relative
) noexcept nogil:
    cdef Py_ssize_t last = count - 1
    cdef Py_ssize_t warm = last - WARM_SIZE // OFFSET_INDEX_ENTRY_SIZE
    cdef uint32_t key = <uint32_t>relative
    cdef uint32_t first_key, last_key, warm_key
    if count <= 0 or relative < 0:
        return -1
    last_key = offset_key(entries, last)
    if last_key <= key:
        return last
    if warm > 0:
        warm_key = offset_key(entries, warm)
        if warm_key <= key:
            return between_offsets(entries, warm, last, warm_key, last_key, key)
        last = warm
        last_key = warm_key
    first_key = offset_key(entries, 0)
    if first_key > key:
        return -1
    return between_offsets(entries, 0, last, first_key, last_key, key)


cdef Py_ssize_t floor_time(
    const uint8_t* entries, Py_ssize_t count, int64_t timestamp
) noexcept nogil:
    cdef Py_ssize_t last = count - 1
    cdef Py_ssize_t warm = last - WARM_SIZE // TIME_INDEX_ENTRY_SIZE
    cdef int64_t first_key, last_key, warm_key
    if count <= 0:
        return -1
    last_key = time_key(entries, last)
    if last_key <= timestamp:
        return last
    if warm > 0:
        warm_key = time_key(entries, warm)
        if warm_key <= timestamp:
            return between_times(entries, warm, last, warm_key, last_key, timestamp)
        last = warm
        last_key = warm_key
    first_key = time_key(entries, 0)
    if first_key > timestamp:
        return -1
    return between_times(entries, 0, last, first_key, last_key, timestamp)


# --- what a slot means ---------------------------------------------------------------------

cdef inline int32_t relative_of(int64_t base_offset, int64_t offset) noexcept nogil:
    """Offset relative to the base, at most what an entry can hold; -1 below the base."""
    cdef uint64_t distance
    if offset < base_offset:
        return -1
    distance = <uint64_t>offset - <uint64_t>base_offset
    return <int32_t>distance if distance < 0x7FFFFFFF else 0x7FFFFFFF


cdef inline int64_t position_at(const uint8_t* entries, Py_ssize_t slot) noexcept nogil:
    """The position that a slot holds. No batch starts below 0: such an entry is not believed."""
    cdef int64_t position = get_i32(entries + slot * OFFSET_INDEX_ENTRY_SIZE + 4)
    return position if position > 0 else 0


cdef int64_t offset_position(
    const uint8_t* entries, Py_ssize_t count, int64_t base_offset, int64_t offset
) noexcept nogil:
    cdef Py_ssize_t slot = floor_offset(entries, count, relative_of(base_offset, offset))
    return position_at(entries, slot) if slot >= 0 else 0


cdef inline int64_t offset_at(
    const uint8_t* entries, Py_ssize_t slot, int64_t base_offset
) noexcept nogil:
    return <int64_t>(
        <uint64_t>base_offset + get_u32(entries + slot * TIME_INDEX_ENTRY_SIZE + 8)
    )


cdef int64_t time_offset(
    const uint8_t* entries, Py_ssize_t count, int64_t base_offset, int64_t timestamp
) noexcept nogil:
    cdef Py_ssize_t slot = floor_time(entries, count, timestamp)
    return offset_at(entries, slot, base_offset) if slot >= 0 else base_offset


cdef inline bint zero_offset_entry(const uint8_t* entries, Py_ssize_t slot) noexcept nogil:
    return get_u32(entries + slot * OFFSET_INDEX_ENTRY_SIZE) == 0


cdef inline bint zero_time_entry(const uint8_t* entries, Py_ssize_t slot) noexcept nogil:
    return (
        get_i64(entries + slot * TIME_INDEX_ENTRY_SIZE) == 0
        and get_u32(entries + slot * TIME_INDEX_ENTRY_SIZE + 8) == 0
    )


cdef Py_ssize_t used_offset_entries(const uint8_t* entries, Py_ssize_t count) noexcept nogil:
    """Slots before the zero tail, found by halving. Slot 0 may hold relative offset 0, so it is
    part of the tail only when the rest is and its position is 0 too: that entry would say no
    more than an empty index does."""
    cdef Py_ssize_t low = 0, high = count, middle
    if count <= 0:
        return 0
    while high - low > 1:
        middle = low + ((high - low) >> 1)
        if zero_offset_entry(entries, middle):
            high = middle
        else:
            low = middle
    if low == 0 and get_i64(entries) == 0:
        return 0
    return low + 1


cdef Py_ssize_t used_time_entries(const uint8_t* entries, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t low = 0, high = count, middle
    if count <= 0:
        return 0
    while high - low > 1:
        middle = low + ((high - low) >> 1)
        if zero_time_entry(entries, middle):
            high = middle
        else:
            low = middle
    if low == 0 and zero_time_entry(entries, 0):
        return 0
    return low + 1


# --- many searches -------------------------------------------------------------------------

cdef void lookup_block(
    const uint8_t* entries, Py_ssize_t count, const uint32_t* sample, int64_t base_offset,
    const int64_t* offsets, int64_t* positions, Py_ssize_t lanes,
) noexcept nogil:
    """Positions of up to LANES offsets; count is at least 1."""
    cdef uint32_t[LANES] wanted
    cdef Py_ssize_t[LANES] low
    cdef Py_ssize_t blocks = (count + STRIDE - 1) // STRIDE
    cdef Py_ssize_t width = STRIDE if count >= STRIDE else count
    cdef int32_t relative
    cdef int lane
    for lane in range(LANES):
        low[lane] = 0
        relative = relative_of(base_offset, offsets[lane]) if lane < lanes else 0
        wanted[lane] = <uint32_t>relative if relative >= 0 else 0
    if sample != NULL:
        halve_sampled(sample, blocks, wanted, low)
    else:
        halve_lanes(entries, STRIDE * OFFSET_INDEX_ENTRY_SIZE, blocks, wanted, low)
    for lane in range(LANES):
        low[lane] *= STRIDE
        if low[lane] > count - width:      # the last block may be short: start it earlier
            low[lane] = count - width
        KSTORE_PREFETCH(entries + (low[lane] + 16) * OFFSET_INDEX_ENTRY_SIZE)
        KSTORE_PREFETCH(entries + (low[lane] + 48) * OFFSET_INDEX_ENTRY_SIZE)
    halve_lanes(entries, OFFSET_INDEX_ENTRY_SIZE, width, wanted, low)
    for lane in range(<int>lanes):
        if offset_key(entries, low[lane]) <= wanted[lane] and offsets[lane] >= base_offset:
            positions[lane] = position_at(entries, low[lane])
        else:
            positions[lane] = 0


cdef void lookup_offsets(
    const uint8_t* entries, Py_ssize_t count, int64_t base_offset,
    const int64_t* offsets, int64_t* positions, Py_ssize_t wanted, kstore_gather gather,
) noexcept nogil:
    """Positions of many offsets; ``gather`` NULL: without vectors.

    A sample of every 64th key is small enough to stay in the nearest
    cache; it is rebuilt for each call, so it cannot be stale, and only where enough lookups
    share its cost. Without memory for it the entries themselves are searched.
    """
    cdef Py_ssize_t blocks = (count + STRIDE - 1) // STRIDE
    cdef Py_ssize_t n
    cdef uint32_t* sample = NULL
    if count <= 0:
        memset(positions, 0, <size_t>wanted * sizeof(int64_t))
        return
    if wanted >= SAMPLE_FROM and wanted >= blocks // 4:
        sample = <uint32_t*>malloc(<size_t>blocks * sizeof(uint32_t))
        if sample != NULL:
            for n in range(blocks):
                sample[n] = offset_key(entries, n * STRIDE)
    n = 0
    if gather != NULL and sample != NULL and count <= 0x7FFFFFFF:
        while n + KSTORE_GATHER_LANES <= wanted:
            gather(
                entries, count, sample, STRIDE, base_offset, offsets + n, positions + n
            )
            n += KSTORE_GATHER_LANES
    while n < wanted:
        lookup_block(
            entries, count, sample, base_offset, offsets + n, positions + n,
            LANES if wanted - n > LANES else wanted - n,
        )
        n += LANES
    free(sample)


# --- from Python ---------------------------------------------------------------------------

cdef HeldColumn _result_for(object out, Py_ssize_t size):
    cdef HeldColumn result = hold_writable_int64s(out, "out")
    if result.count != size:
        raise ValueError(f"out holds {result.count} items, {size} are needed")
    return result


cdef Py_ssize_t _entry_count(
    Py_ssize_t length, Py_ssize_t entry_size, object count
) except -1:
    cdef Py_ssize_t there = length // entry_size
    cdef Py_ssize_t asked = count
    if asked < 0 or asked > there:
        raise ValueError(f"count {asked} is not within the {there} entries of the buffer")
    return asked


cdef class OffsetIndex:
    """Kafka's offset index (``.index``): 8-byte entries, relative offset and file position.

    Parameters
    ----------
    buffer
        The file's bytes: an mmap, bytes, or an ndarray of uint8. Held, and kept from being
        closed, for as long as this object lives; never written.
    base_offset
        The segment's base offset, which entries are relative to.
    count
        How many entries are used. None: all of them but the zero tail that a preallocated
        file ends in (found in a few probes, not by reading the file).

    Safe to use from several threads: it never changes. Answers are hints, as in Kafka: an
    index has no checksum, so users of a position check the batch found there. Content
    that is not sorted gives some position of the file's, and no error; ``find_fault`` finds it.
    """

    cdef Py_buffer _view
    cdef const uint8_t* _entries
    cdef readonly Py_ssize_t count
    cdef readonly int64_t base_offset

    def __cinit__(self, object buffer, int64_t base_offset, object count=None):
        PyObject_GetBuffer(buffer, &self._view, PyBUF_SIMPLE)
        self._entries = <const uint8_t*>self._view.buf
        self.base_offset = base_offset
        if count is None:
            self.count = used_offset_entries(
                self._entries, self._view.len // OFFSET_INDEX_ENTRY_SIZE
            )
        else:
            self.count = _entry_count(self._view.len, OFFSET_INDEX_ENTRY_SIZE, count)

    def __dealloc__(self):
        PyBuffer_Release(&self._view)

    def __len__(self):
        return self.count

    def __getitem__(self, Py_ssize_t slot):
        """The entry in a slot, counted from 0: ``(offset, position)``."""
        cdef const uint8_t* at
        if slot < 0:
            slot += self.count
        if slot < 0 or slot >= self.count:
            raise IndexError(f"slot {slot} of {self.count}")
        at = self._entries + slot * OFFSET_INDEX_ENTRY_SIZE
        return (self.base_offset + <int64_t>get_u32(at), get_i32(at + 4))

    def lookup(self, int64_t offset, /):
        """Position in the log file from which a walk finds ``offset``; 0 if no entry is nearer."""
        return offset_position(self._entries, self.count, self.base_offset, offset)

    def entry(self, int64_t offset, /):
        """The largest entry at or below ``offset``, ``(offset, position)``, as Kafka has it:
        ``(base_offset, 0)`` if there is none."""
        cdef Py_ssize_t slot = floor_offset(
            self._entries, self.count, relative_of(self.base_offset, offset)
        )
        if slot < 0:
            return (self.base_offset, 0)
        return (
            self.base_offset + <int64_t>offset_key(self._entries, slot),
            position_at(self._entries, slot),
        )

    def slot(self, int64_t offset, /):
        """The slot of the largest entry at or below ``offset``; -1 if there is none."""
        return floor_offset(self._entries, self.count, relative_of(self.base_offset, offset))

    def lookup_many(self, object offsets, out=None):
        """``lookup`` of every item, in one call and without the GIL.

        Parameters
        ----------
        offsets
            One-dimensional contiguous int64: an ndarray, an ``array.array("q")``.
        out
            A writable buffer of as many int64, which may be ``offsets`` itself. None: a new one.

        Returns
        -------
        ``out``, or a memoryview of int64 (``numpy.asarray`` of it copies nothing). Beside the
        result the call takes at most a 128th of the index file's size, for its duration.
        """
        cdef HeldColumn wanted = hold_int64s(offsets, "offsets")
        cdef HeldColumn result
        if out is None:
            out = memoryview(bytearray(wanted.count * 8)).cast("q")
        result = _result_for(out, wanted.count)
        with nogil:
            lookup_offsets(
                self._entries, self.count, self.base_offset, <const int64_t*>wanted.data,
                <int64_t*>result.data,
                wanted.count, _gather,
            )
        return out

    def lookup_many_by(self, str path, object offsets, out):
        """``lookup_many`` by a named path, for tests and comparisons."""
        cdef HeldColumn wanted = hold_int64s(offsets, "offsets")
        cdef HeldColumn result = _result_for(out, wanted.count)
        cdef kstore_gather gather
        if path not in supported_paths():
            raise ValueError(f"this CPU has no path {path!r}; it has: {supported_paths()}")
        gather = kstore_gather_of(path == "avx2", path == "avx512")
        with nogil:
            lookup_offsets(
                self._entries, self.count, self.base_offset, <const int64_t*>wanted.data,
                <int64_t*>result.data,
                wanted.count, gather,
            )
        return out

    def find_fault(self, log_size=None):
        """Read every entry; None if the index is sound; else what is wrong and where.

        Returns ``(sentence, position, offset)``: the position is that of the entry in the index
        file, the offset what it says (None where the file's size is wrong).

        Sound means, as for Kafka's sanity check and DumpLogSegments: the file is a multiple of
        8 bytes, offsets strictly increase and none is negative, positions never go back, and
        all are below ``log_size`` (the log file's size in bytes) where that is given.
        """
        cdef Py_ssize_t slot
        cdef int64_t offset, position, last_offset = -1, last_position = -1
        cdef int64_t limit = 0x7FFFFFFFFFFFFFFF if log_size is None else log_size
        if self._view.len % OFFSET_INDEX_ENTRY_SIZE:
            return ("the offset index is not a multiple of 8 bytes", self._view.len, None)
        for slot in range(self.count):
            offset = get_i32(self._entries + slot * OFFSET_INDEX_ENTRY_SIZE)
            position = get_i32(self._entries + slot * OFFSET_INDEX_ENTRY_SIZE + 4)
            if offset <= last_offset:
                return (
                    "offsets of the offset index do not increase",
                    slot * OFFSET_INDEX_ENTRY_SIZE, self.base_offset + offset,
                )
            if position < 0 or position < last_position or position >= limit:
                return (
                    f"an entry of the offset index points to {position}, which is not a "
                    "position in its log after the entry before",
                    slot * OFFSET_INDEX_ENTRY_SIZE, self.base_offset + offset,
                )
            last_offset = offset
            last_position = position
        return None


cdef class TimeIndex:
    """Kafka's time index (``.timeindex``): 12-byte entries, timestamp and relative offset.

    An entry ``(timestamp, offset)`` says that no record up to ``offset`` is newer than
    ``timestamp``. Parameters and thread safety are those of ``OffsetIndex``.
    """

    cdef Py_buffer _view
    cdef const uint8_t* _entries
    cdef readonly Py_ssize_t count
    cdef readonly int64_t base_offset

    def __cinit__(self, object buffer, int64_t base_offset, object count=None):
        PyObject_GetBuffer(buffer, &self._view, PyBUF_SIMPLE)
        self._entries = <const uint8_t*>self._view.buf
        self.base_offset = base_offset
        if count is None:
            self.count = used_time_entries(self._entries, self._view.len // TIME_INDEX_ENTRY_SIZE)
        else:
            self.count = _entry_count(self._view.len, TIME_INDEX_ENTRY_SIZE, count)

    def __dealloc__(self):
        PyBuffer_Release(&self._view)

    def __len__(self):
        return self.count

    def __getitem__(self, Py_ssize_t slot):
        """The entry in a slot, counted from 0: ``(timestamp, offset)``."""
        if slot < 0:
            slot += self.count
        if slot < 0 or slot >= self.count:
            raise IndexError(f"slot {slot} of {self.count}")
        return (
            time_key(self._entries, slot), offset_at(self._entries, slot, self.base_offset)
        )

    def lookup(self, int64_t timestamp, /):
        """The offset of the largest entry at or below ``timestamp``, or ``base_offset``.

        Every record before it is at or below ``timestamp``, so a walk may start there.
        """
        return time_offset(self._entries, self.count, self.base_offset, timestamp)

    def entry(self, int64_t timestamp, /):
        """The largest entry at or below ``timestamp``: ``(timestamp, offset)``, or
        ``(-1, base_offset)`` as Kafka has it."""
        cdef Py_ssize_t slot = floor_time(self._entries, self.count, timestamp)
        if slot < 0:
            return (-1, self.base_offset)
        return (
            time_key(self._entries, slot), offset_at(self._entries, slot, self.base_offset)
        )

    def slot(self, int64_t timestamp, /):
        """The slot of the largest entry at or below ``timestamp``; -1 if there is none."""
        return floor_time(self._entries, self.count, timestamp)

    def find_fault(self, end_offset=None):
        """Read every entry; None if the index is sound, else ``(sentence, position, offset)``
        as in ``OffsetIndex.find_fault``.

        Sound means: the file is a multiple of 12 bytes, timestamps strictly increase and none
        is negative, offsets never go back, and all are below ``end_offset`` where that is given.
        """
        cdef Py_ssize_t slot
        cdef int64_t timestamp, relative, last_timestamp = -1, last_relative = 0
        cdef int64_t limit = 0x7FFFFFFFFFFFFFFF
        if end_offset is not None:
            limit = end_offset - self.base_offset
        if self._view.len % TIME_INDEX_ENTRY_SIZE:
            return ("the time index is not a multiple of 12 bytes", self._view.len, None)
        for slot in range(self.count):
            timestamp = time_key(self._entries, slot)
            relative = get_i32(self._entries + slot * TIME_INDEX_ENTRY_SIZE + 8)
            if timestamp <= last_timestamp:
                return (
                    "timestamps of the time index do not increase",
                    slot * TIME_INDEX_ENTRY_SIZE, self.base_offset + relative,
                )
            if relative < last_relative or relative >= limit:
                return (
                    "an entry of the time index has an offset that is not one of its segment "
                    "at or after the entry before",
                    slot * TIME_INDEX_ENTRY_SIZE, self.base_offset + relative,
                )
            last_timestamp = timestamp
            last_relative = relative
        return None
