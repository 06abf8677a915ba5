"""Searches in Kafka's offset and time index files, for other kernels.

Both take the mapped entries as they lie in the file (big-endian) and a count of entries that
are there; they read nothing beyond, whatever the entries say, and always end. The order of
hostile entries decides only which slot is returned, never whether it lies within the count.
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

# How many entries are used: a preallocated file ends in zeros, which are not entries.
cdef Py_ssize_t used_offset_entries(const uint8_t* entries, Py_ssize_t count) noexcept nogil
cdef Py_ssize_t used_time_entries(const uint8_t* entries, Py_ssize_t count) noexcept nogil

# Byte position in the log file where a walk towards offset may start; 0 if none is nearer.
cdef int64_t offset_position(
    const uint8_t* entries, Py_ssize_t count, int64_t base_offset, int64_t offset
) noexcept nogil

# Offset from which a walk towards timestamp may start; base_offset if none is nearer.
cdef int64_t time_offset(
    const uint8_t* entries, Py_ssize_t count, int64_t base_offset, int64_t timestamp
) noexcept nogil
