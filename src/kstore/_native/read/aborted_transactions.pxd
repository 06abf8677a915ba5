"""Which batches belong to aborted transactions, for the scanner."""

from libc.stdint cimport int64_t


cdef struct AbortedRange:
    int64_t producer_id
    int64_t first_offset
    int64_t last_offset         # of the abort marker


cdef class AbortedRanges:
    cdef AbortedRange* ranges   # by producer id, then by first offset
    cdef readonly Py_ssize_t count


cdef inline bint is_aborted(
    const AbortedRange* ranges, Py_ssize_t count, int64_t producer_id, int64_t base_offset
) noexcept nogil:
    """Whether a transactional batch lies in one of the ranges."""
    cdef Py_ssize_t low = 0, high = count, middle
    cdef const AbortedRange* at
    while low < high:
        middle = (low + high) >> 1
        at = ranges + middle
        if at.producer_id < producer_id or (
            at.producer_id == producer_id and at.first_offset <= base_offset
        ):
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return False
    at = ranges + low - 1
    return at.producer_id == producer_id and base_offset < at.last_offset
