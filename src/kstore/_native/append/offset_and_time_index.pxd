"""The sparse offset index and time index: an append adds an entry to both once
index.interval.bytes follow the last one.

Inlined into ``log_end``. Rules: Kafka's LogSegment.append. An entry has the position where a batch
begins, and its last offset; that of the time index, the largest timestamp so far and its offset.
"""

from libc.stdint cimport int32_t, int64_t

from kstore._native.format.layout cimport OFFSET_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE
from kstore._native.read.segment_view cimport SegmentView

cdef enum:
    # Index entries are written in groups: a system call per entry would cost a tenth of an
    # append. Lookups in this process use an entry immediately; others walk a little further.
    ENTRIES_PER_WRITE = 64


cdef inline bint is_entry_due(int64_t bytes_since_entry, int64_t index_interval) noexcept:
    return bytes_since_entry > index_interval


cdef inline bint append_index_entry(SegmentView active, int64_t position, int64_t last) except -1:
    """Add an entry to the offset index and the time index; returns whether a group is due."""
    active.add_entry(<int32_t>(last - active.base_offset), <int32_t>position)
    active.add_time(
        active.max_timestamp, <int32_t>(active.offset_of_max_timestamp - active.base_offset))
    return active.entry_count - active.entries_written >= ENTRIES_PER_WRITE


cdef inline bint write_index_entries(
    SegmentView active, files, int index_fd, int time_fd
) except -1:
    """Write pending entries to the index files. False where that fails: they stay in memory."""
    first, entries = active.pending_entries()
    first_time, times = active.pending_times()
    try:
        if entries:
            files.pwrite(index_fd, entries, first * OFFSET_INDEX_ENTRY_SIZE)
        if times:
            files.pwrite(time_fd, times, first_time * TIME_INDEX_ENTRY_SIZE)
    except OSError:
        return False
    active.mark_entries_written(active.entry_count, active.time_count)
    return True
