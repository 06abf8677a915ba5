"""Searches in Kafka's offset and time index files, for other kernels.

All functions take the mapped entries as in the file (big-endian) and their count. They never read
beyond the count and always terminate, even for corrupt entries: unsorted keys change only which
slot below the count is returned.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t


# Slot of the largest 8-byte entry whose relative offset is at or below relative; -1 if none.
cdef Py_ssize_t floor_offset(
    const uint8_t* entries, Py_ssize_t count, int32_t relative
) noexcept nogil

# Slot of the largest 12-byte entry whose timestamp is at or below timestamp; -1 if none.
cdef Py_ssize_t floor_time(
    const uint8_t* entries, Py_ssize_t count, int64_t timestamp
) noexcept nogil

# Number of used entries: a preallocated file ends in zeros, which are not entries.
cdef Py_ssize_t used_offset_entries(const uint8_t* entries, Py_ssize_t count) noexcept nogil
cdef Py_ssize_t used_time_entries(const uint8_t* entries, Py_ssize_t count) noexcept nogil

# Position in the log file from which a walk finds offset; 0 without an entry at or below it.
cdef int64_t offset_position(
    const uint8_t* entries, Py_ssize_t count, int64_t base_offset, int64_t offset
) noexcept nogil

# Offset from which a walk finds timestamp; base_offset without an entry at or below it.
cdef int64_t time_offset(
    const uint8_t* entries, Py_ssize_t count, int64_t base_offset, int64_t timestamp
) noexcept nogil
