"""Kafka's retention rules: which segments are to be deleted.

Pure functions over facts; the clock is a parameter, and the log deletes the files. With the
settings off (``retention_ms`` and ``retention_bytes`` -1, kstore's defaults) only the log start
offset counts, which moves only on request.

The rules are those of UnifiedLog.deleteOldSegments: by log start offset, then by size, then by
time. Each walks from the oldest segment and stops at the first one to keep.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kstore.config import LogConfig


class SegmentFacts(NamedTuple):
    """The facts about one segment that the rules use."""

    base_offset: int
    next_offset: int  # base offset of the next segment, or the log's end
    size: int  # bytes of the log file
    largest_timestamp: int  # ms, of its records; -1 where they have none
    modified_ms: int  # of the log file, used where records have no timestamp


class Doomed(NamedTuple):
    """A segment that may be deleted, and by which rule: start, size or time."""

    base_offset: int
    rule: str


def segments_to_delete(
    segments: Sequence[SegmentFacts],
    config: LogConfig,
    *,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
) -> list[Doomed]:
    """All segments to delete, oldest first: always the first segments of the log.

    Parameters
    ----------
    segments
        All segments of a log by base offset; the last is the active one.
    end_offset
        The upper bound for deletion: Kafka's high watermark, or the log end of a single process.
    now_ms
        The wall clock, ms since 1970.

    The active segment may be among them (by size or time, if it is not empty): then the log
    rolls first. It raises its start offset to the first remaining segment's base before it removes
    a file. A log that is only compacted (``cleanup.policy=compact``) loses nothing by size
    and time.
    """
    doomed = [
        Doomed(segment.base_offset, "start")
        for segment in by_log_start(segments, log_start_offset, end_offset)
    ]
    if "delete" not in config.cleanup_policy:
        return doomed
    left = segments[len(doomed) :]
    by = by_size(left, config.retention_bytes, end_offset)
    doomed += [Doomed(segment.base_offset, "size") for segment in by]
    left = left[len(by) :]
    doomed += [
        Doomed(segment.base_offset, "time")
        for segment in by_time(left, config.retention_ms, now_ms, end_offset)
    ]
    return doomed


def by_log_start(
    segments: Sequence[SegmentFacts], log_start_offset: int, end_offset: int
) -> Sequence[SegmentFacts]:
    """Segments completely below the log start offset; never the active one."""
    count = 0
    while (
        count < len(segments) - 1
        and segments[count].next_offset <= log_start_offset
        and _deletable(segments, count, end_offset)
    ):
        count += 1
    return segments[:count]


def by_size(
    segments: Sequence[SegmentFacts], retention_bytes: int, end_offset: int
) -> Sequence[SegmentFacts]:
    """The oldest segments that the log can lose and still have retention_bytes; -1: none."""
    excess = sum(segment.size for segment in segments) - retention_bytes
    if retention_bytes < 0 or excess < 0:
        return ()
    count = 0
    while (
        count < len(segments)
        and excess >= segments[count].size
        and _deletable(segments, count, end_offset)
    ):
        excess -= segments[count].size
        count += 1
    return segments[:count]


def by_time(
    segments: Sequence[SegmentFacts], retention_ms: int, now_ms: int, end_offset: int
) -> Sequence[SegmentFacts]:
    """The oldest segments whose newest record is more than retention_ms old; -1: none.

    A segment without timestamps is as old as its file. A timestamp in the future keeps its
    segment and all later ones, as in Kafka.
    """
    if retention_ms < 0:
        return ()
    count = 0
    while (
        count < len(segments)
        and now_ms - _newest(segments[count]) > retention_ms
        and _deletable(segments, count, end_offset)
    ):
        count += 1
    return segments[:count]


def _newest(segment: SegmentFacts) -> int:
    if segment.largest_timestamp >= 0:
        return segment.largest_timestamp
    return segment.modified_ms


def _deletable(segments: Sequence[SegmentFacts], slot: int, end_offset: int) -> bool:
    """Kafka's condition: nothing above the high watermark, and never an empty last segment."""
    segment = segments[slot]
    if slot == len(segments) - 1 and segment.size == 0:
        return False
    return end_offset >= segment.next_offset
