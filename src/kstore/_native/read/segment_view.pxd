"""Every read of a log: from an offset to a slice of file bytes."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kstore._native.files.file_map cimport FileMap
from kstore._native.format.argument cimport HeldBytes
from kstore._native.format.status cimport Status


cdef class SegmentView:
    cdef readonly int64_t base_offset
    cdef readonly object path
    cdef readonly int64_t size              # published bytes
    cdef readonly int64_t next_offset       # published: one past the last offset
    cdef public object opener               # called to map the files; returns nothing
    cdef public bint touched                # read since the last sweep of the map budget
    cdef public bint sealed                 # not the active segment: its contents are final
    cdef FileMap log_map
    cdef int64_t resident_from              # the active segment: in memory from this position on
    cdef int64_t resident_at                # when that was so, in ms
    cdef uint8_t* entries                   # offset index, 8 bytes each
    cdef Py_ssize_t entry_count, entry_capacity, entries_written
    cdef uint8_t* time_entries              # time index, 12 bytes each
    cdef Py_ssize_t time_count, time_capacity, times_written
    cdef readonly int64_t max_timestamp     # largest so far, -1 if none
    cdef readonly int64_t offset_of_max_timestamp
    cdef public object inode                # of the listed file; None: not checked
    cdef public bint is_largest_known       # max_timestamp covers every published batch
    cdef public bint is_time_index_wrong    # the log contradicts the time index: do not use it

    cdef int _load(
        self, uint8_t** entries, Py_ssize_t* count, Py_ssize_t* capacity,
        HeldBytes given, Py_ssize_t entry_size
    ) except -1
    cdef int64_t _floor(self, int64_t offset, int back) noexcept
    cdef int64_t _load_near(self, FileMap log_map, int64_t position, int64_t end) except -1
    cdef Status _walk(
        self, const uint8_t* data, int64_t* position, int64_t end, int64_t offset, bint is_retry,
        int32_t* size
    ) noexcept
    cdef bint _starts_at_or_below(
        self, const uint8_t* data, int64_t position, int64_t end, int64_t offset
    ) noexcept
    cdef int add_entry(self, int32_t relative, int32_t position) except -1
    cdef int add_time(self, int64_t timestamp, int32_t relative) except -1
    cdef Slice locate(self, int64_t offset, int64_t max_bytes)


cdef class Slice:
    cdef object owner
    cdef const uint8_t* data
    cdef readonly SegmentView segment
    cdef readonly int64_t position
    cdef readonly Py_ssize_t size
    cdef readonly int64_t next_offset       # one past the last offset published in the segment
    cdef int32_t size_of_first              # bytes of the first batch, 0: read its header

    cdef Py_ssize_t _count_from(self, Py_ssize_t start, count) except -1
    cpdef Slice limit(self, int64_t max_bytes, int64_t up_to, bint min_one_batch)
    cdef int64_t _size_below(self, int64_t up_to) noexcept
    cdef int64_t _walk_below(self, int64_t start, int64_t up_to) noexcept
    cdef bint holds_resident(self, int64_t start, int64_t end) noexcept


cdef class SegmentList:
    cdef readonly tuple views
    cdef SegmentView last
    cdef int64_t* bases
    cdef Py_ssize_t count
    cdef readonly int64_t start_offset

    cdef Py_ssize_t _floor(self, int64_t offset) noexcept
