"""Whether a batch belongs to the next segment. Rules: Kafka's LogSegment.shouldRoll.

Inlined into ``log_end``, which rolls, and into ``batch_run``, which leaves such a batch to it. The
jitter of segment.jitter.ms is in ``roll_ms`` already.
"""

from libc.stdint cimport int64_t

from kstore._native.append.log_end cimport MAX_RELATIVE, LogEnd

cdef enum:
    NEVER = 0x7FFFFFFFFFFFFFFF      # segment.ms


cdef inline bint is_roll_due(
    LogEnd end, int64_t size, int64_t last, int64_t max_timestamp, int64_t held,
    Py_ssize_t more_entries, int64_t rolling_timestamp,
) except -1:
    """Whether a batch of `size` bytes, with the last offset `last`, needs a new segment.

    The active segment has `held` bytes before it. `more_entries` bounds the index entries of
    batches that are not written yet.
    """
    cdef int64_t waited
    if (
        held > end.segment_bytes - size
        or end.active.entry_count + more_entries >= end.max_entries
        or end.active.time_count + more_entries >= end.max_times
        or last - end.active.base_offset > MAX_RELATIVE
    ):
        return True
    if held == 0 or end.roll_ms == NEVER:
        return False
    if rolling_timestamp >= 0:
        waited = max_timestamp - rolling_timestamp
    else:
        waited = end._now() - end.created_ms
    return waited > end.roll_ms
