"""The warm section of an index, Kafka's (OffsetIndex, KAFKA-6432): its last 8 KiB.

A search starts there, so that lookups near the end of the log read no cold page; only a target
before it is searched in all the rest. The loops are in bisection.pxd.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from kstore._native.format.layout cimport OFFSET_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE
from kstore._native.index.bisection cimport between_offsets, between_times, offset_key, time_key

cdef enum:
    WARM_SIZE = 8192            # bytes


cdef inline Py_ssize_t warm_first_offset(
    const uint8_t* entries, Py_ssize_t count, int32_t relative
) noexcept nogil:
    """Slot of the largest relative offset at or below a target; -1 if none."""
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


cdef inline Py_ssize_t warm_first_time(
    const uint8_t* entries, Py_ssize_t count, int64_t timestamp
) noexcept nogil:
    """Slot of the largest timestamp at or below a target; -1 if none."""
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
