"""Offset index and time index: finds the largest entry at or below a target in the file.

warm_section.pxd chooses the range of a search, and bisection.pxd has its loops.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from kstore._native.format.crc import cpu_path, supported_paths

from kstore._native.format.argument cimport HeldColumn, hold_int64s, hold_writable_int64s
from kstore._native.format.cursor cimport get_i32, get_i64, get_u32
from kstore._native.format.layout cimport OFFSET_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE
from kstore._native.index.bisection cimport (
    KSTORE_PREFETCH, LANES, bisect_lanes, bisect_sampled, offset_key, time_key,
)
from kstore._native.index.warm_section cimport warm_first_offset, warm_first_time

cdef extern from "index/index_gather.h" nogil:
    enum:
        KSTORE_GATHER_LANES
    ctypedef void (*kstore_gather)(
        const uint8_t* entries, Py_ssize_t count, const uint32_t* sample, Py_ssize_t stride,
        int64_t base_offset, const int64_t* offsets, int64_t* positions,
    ) noexcept
    kstore_gather kstore_gather_of(bint avx2, bint avx512) noexcept

# The environment variable KSTORE_CPU selects the path of every kernel; crc reads it.
cdef kstore_gather _gather = kstore_gather_of(cpu_path() == "avx2", cpu_path() == "avx512")

cdef enum:
    STRIDE = 64                 # lookup_many samples every 64th key
    SAMPLE_FROM = 512           # minimum number of lookups for which a sample pays off


# --- one search --------------------------------------------------------------------------

cdef Py_ssize_t floor_offset(
    const uint8_t* entries, Py_ssize_t count, int32_t relative
) noexcept nogil:
    return warm_first_offset(entries, count, relative)


cdef Py_ssize_t floor_time(
    const uint8_t* entries, Py_ssize_t count, int64_t timestamp
) noexcept nogil:
    return warm_first_time(entries, count, timestamp)


# --- entries -------------------------------------------------------------------------------

cdef inline int32_t relative_of(int64_t base_offset, int64_t offset) noexcept nogil:
    """Offset relative to the base, at most 2^31 - 1; -1 below the base."""
    cdef uint64_t distance
    if offset < base_offset:
        return -1
    distance = <uint64_t>offset - <uint64_t>base_offset
    return <int32_t>distance if distance < 0x7FFFFFFF else 0x7FFFFFFF


cdef inline int64_t position_at(const uint8_t* entries, Py_ssize_t slot) noexcept nogil:
    """The position in a slot; 0 for a negative, corrupt one."""
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
    """Number of slots before the tail of zeros, by binary search. Slot 0 may have relative offset
    0, so it belongs to the tail only if its position is 0, too, and all others do."""
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
        bisect_sampled(sample, blocks, wanted, low)
    else:
        bisect_lanes(entries, STRIDE * OFFSET_INDEX_ENTRY_SIZE, blocks, wanted, low)
    for lane in range(LANES):
        low[lane] *= STRIDE
        if low[lane] > count - width:      # the last block may be short: start it earlier
            low[lane] = count - width
        KSTORE_PREFETCH(entries + (low[lane] + 16) * OFFSET_INDEX_ENTRY_SIZE)
        KSTORE_PREFETCH(entries + (low[lane] + 48) * OFFSET_INDEX_ENTRY_SIZE)
    bisect_lanes(entries, OFFSET_INDEX_ENTRY_SIZE, width, wanted, low)
    for lane in range(<int>lanes):
        if offset_key(entries, low[lane]) <= wanted[lane] and offsets[lane] >= base_offset:
            positions[lane] = position_at(entries, low[lane])
        else:
            positions[lane] = 0


cdef void lookup_offsets(
    const uint8_t* entries, Py_ssize_t count, int64_t base_offset,
    const int64_t* offsets, int64_t* positions, Py_ssize_t wanted, kstore_gather gather,
) noexcept nogil:
    """Positions of many offsets; ``gather`` NULL: without vector instructions.

    If there are enough lookups to share its cost, the call samples every 64th key; the sample
    fits in the L1 cache. Without memory for it, the call searches the entries themselves.
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


# --- Python interface ----------------------------------------------------------------------

cdef HeldColumn _result_for(object out, Py_ssize_t size):
    cdef HeldColumn result = hold_writable_int64s(out, "out")
    if result.count != size:
        raise ValueError(f"out has {result.count} items, {size} are required")
    return result


cdef Py_ssize_t _entry_count(
    Py_ssize_t length, Py_ssize_t entry_size, object count
) except -1:
    cdef Py_ssize_t available = length // entry_size
    cdef Py_ssize_t requested = count
    if requested < 0 or requested > available:
        raise ValueError(
            f"count {requested} is not within the {available} entries of the buffer")
    return requested


cdef class OffsetIndex:
    """Kafka's offset index (``.index``): 8-byte entries, relative offset and file position.

    Parameters
    ----------
    buffer
        The file's bytes: an mmap, bytes, or an ndarray of uint8. This object holds the buffer,
        so that an mmap cannot be closed, and never writes to it.
    base_offset
        The segment's base offset; entries are relative to it.
    count
        Number of used entries. None: all except the tail of zeros of a preallocated file
        (found by binary search).

    Immutable, safe to share between threads. As in Kafka, results are hints: an index has no
    checksum, so verify the batch at the position. For unsorted entries a lookup returns the
    position of some entry, without an error; ``find_fault`` detects them.
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
        """Position in the log file from which a walk finds ``offset``; 0 without such an entry."""
        return offset_position(self._entries, self.count, self.base_offset, offset)

    def lookup_many(self, object offsets, out=None):
        """``lookup`` of every item, in one call and without the GIL.

        Parameters
        ----------
        offsets
            One-dimensional contiguous int64: an ndarray, an ``array.array("q")``.
        out
            A writable buffer of as many int64; may be ``offsets`` itself. None: allocate one.

        Returns
        -------
        ``out``, or a memoryview of int64 (``numpy.asarray`` does not copy it). Temporary memory:
        up to a 128th of the index file's size.
        """
        return self._lookup_many(offsets, out, _gather)

    def lookup_many_by(self, str path, object offsets, out=None):
        """``lookup_many`` by a named CPU path, for tests and benchmarks."""
        if path not in supported_paths():
            raise ValueError(f"this CPU has no path {path!r}; it has: {supported_paths()}")
        return self._lookup_many(
            offsets, out, kstore_gather_of(path == "avx2", path == "avx512")
        )

    cdef object _lookup_many(self, object offsets, object out, kstore_gather gather):
        cdef HeldColumn wanted = hold_int64s(offsets, "offsets")
        cdef HeldColumn result
        if out is None:
            out = memoryview(bytearray(wanted.count * 8)).cast("q")
        result = _result_for(out, wanted.count)
        with nogil:
            lookup_offsets(
                self._entries, self.count, self.base_offset, <const int64_t*>wanted.data,
                <int64_t*>result.data,
                wanted.count, gather,
            )
        return out

    def find_fault(self, log_size=None):
        """Check every entry; returns None if the index is valid, else the first fault.

        A fault is ``(sentence, position, offset)``: the position of the entry in the index file,
        and its offset (None if the file has a wrong size).

        As in Kafka's sanity check and DumpLogSegments, an index is valid if its size is a
        multiple of 8 bytes, offsets strictly increase and none is negative, and positions do not
        decrease and are below ``log_size`` (the size of the log file in bytes), if given.
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
                    f"an entry of the offset index points to {position}: below the previous "
                    "entry's position, or beyond the log",
                    slot * OFFSET_INDEX_ENTRY_SIZE, self.base_offset + offset,
                )
            last_offset = offset
            last_position = position
        return None


cdef class TimeIndex:
    """Kafka's time index (``.timeindex``): 12-byte entries, timestamp and relative offset.

    An entry ``(timestamp, offset)`` means that no record up to ``offset`` has a later timestamp.
    Parameters and thread safety are those of ``OffsetIndex``.
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

        No earlier record has a later timestamp, so a walk may start there.
        """
        return time_offset(self._entries, self.count, self.base_offset, timestamp)

    def find_fault(self, end_offset=None):
        """Check every entry; returns None if the index is valid, else the first fault, as
        ``OffsetIndex.find_fault``.

        An index is valid if its size is a multiple of 12 bytes, timestamps strictly increase and
        none is negative, and offsets do not decrease and are below ``end_offset``, if given.
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
                    f"an entry of the time index has the offset {self.base_offset + relative}: "
                    "below the previous entry's, or beyond the segment",
                    slot * TIME_INDEX_ENTRY_SIZE, self.base_offset + relative,
                )
            last_timestamp = timestamp
            last_relative = relative
        return None
