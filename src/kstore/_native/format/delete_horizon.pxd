"""The delete horizon of a batch (KIP-534): from when on compaction may remove its tombstones.

The first compaction that keeps a tombstone sets it, ``delete.retention.ms`` later than its own
time, instead of the base timestamp, and marks that by an attribute. A transaction's marker
gets one as well, once no record of the transaction is left. The cleaner's second pass sets and
obeys it: ``_native/compaction/record_filter.pyx``.
"""

from libc.stdint cimport INT64_MAX, int64_t

from kstore._native.format.batch_header cimport BatchHeader
from kstore._native.format.layout cimport DELETE_HORIZON_BIT


cdef inline int64_t delete_horizon_of(const BatchHeader* batch) noexcept nogil:
    """Milliseconds since 1970; -1 for none."""
    if batch.magic == 2 and batch.attributes & DELETE_HORIZON_BIT:
        return batch.base_timestamp
    return -1


cdef inline int64_t delete_horizon_from(int64_t now, int64_t delete_retention) noexcept nogil:
    """The horizon that a compaction at this time sets."""
    return now + min(delete_retention, INT64_MAX - max(now, 0))


cdef inline bint keeps_tombstones(const BatchHeader* batch, int64_t now) noexcept nogil:
    """Whether the tombstones of a batch of v2 stay at this time."""
    cdef int64_t horizon = delete_horizon_of(batch)
    return horizon < 0 or now < horizon
