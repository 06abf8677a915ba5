"""Which segments the cleaner may clean and how it groups them: Kafka's rules without I/O.

Pure functions over facts; the clock is a parameter. The rules are those of
LogCleanerManager.cleanableOffsets, LogToClean and Cleaner.groupSegmentsBySize.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kstore.config import LogConfig
from kstore.lazy_dataclass import lazy_dataclass

INT32_MAX = 2**31 - 1


class CleanSegment(NamedTuple):
    """The facts about one segment that the rules read."""

    base_offset: int
    size: int  # bytes of the log file
    index_size: int  # bytes of used entries
    time_index_size: int
    largest_timestamp: int  # ms; the file's modification time if no record has one (as Kafka)
    first_timestamp: int  # largest timestamp of the first batch, -1 if none
    modified_ms: int


@lazy_dataclass(frozen=True, kw_only=True)
class CleanableRange:
    """The offsets of a log that may be cleaned: [first_dirty_offset, first_uncleanable_offset)."""

    first_dirty_offset: int
    first_uncleanable_offset: int  # always a segment's base offset, or first_dirty_offset
    reset: bool  # the checkpointed offset is outside the log, and must be rewritten
    clean_bytes: int
    cleanable_bytes: int
    due: bool  # a dirty record is older than max.compaction.lag.ms
    blocked: str = ""  # why nothing may be cleaned

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to clean."""
        nothing = self.first_dirty_offset >= self.first_uncleanable_offset
        return nothing or self.cleanable_bytes == 0

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def eligible(self, config: LogConfig) -> bool:
        """Whether the cleaner threads may pick the log."""
        return self.dirty_ratio > config.min_cleanable_dirty_ratio or (
            self.due and self.cleanable_bytes > 0
        )


def cleanable_range(
    segments: Sequence[CleanSegment],
    config: LogConfig,
    *,
    checkpoint: int | None,
    log_start_offset: int,
    end_offset: int,
    last_stable_offset: int,
    now_ms: int,
) -> CleanableRange:
    """The offsets of a log that may be cleaned.

    Parameters
    ----------
    segments
        All segments by base offset; the last is the active one.
    checkpoint
        The first dirty offset by ``cleaner-offset-checkpoint``, None without an entry. An offset
        outside the log is reset to the log start.
    now_ms
        The wall clock, ms since 1970.
    """
    first_dirty = log_start_offset if checkpoint is None else checkpoint
    reset = not log_start_offset <= first_dirty <= end_offset
    if reset:
        first_dirty = log_start_offset
    active = segments[-1]
    dirty = _sealed_from(segments, first_dirty)
    limit = min(last_stable_offset, active.base_offset)
    if config.min_compaction_lag_ms > 0:
        young = now_ms - config.min_compaction_lag_ms
        limit = min(
            limit,
            next(
                (segment.base_offset for segment in dirty if segment.largest_timestamp > young),
                limit,
            ),
        )
    limit = max(first_dirty, limit)
    # Rounded down to a segment's base offset: only complete segments are cleaned.
    unclean = _sealed_from(segments, limit)
    uncleanable = unclean[0].base_offset if unclean else active.base_offset
    begin = min(first_dirty, uncleanable)
    cleanable = [segment for segment in _from(segments, begin) if segment.base_offset < uncleanable]
    first_timestamps = [segment.first_timestamp for segment in dirty if segment.first_timestamp > 0]
    found = CleanableRange(
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=max(uncleanable, first_dirty),
        reset=reset,
        clean_bytes=sum(segment.size for segment in segments if segment.base_offset < first_dirty),
        cleanable_bytes=sum(segment.size for segment in cleanable),
        due=(
            bool(first_timestamps) and min(first_timestamps) < now_ms - config.max_compaction_lag_ms
        ),
    )
    if not found.is_empty:
        return found
    return replace(
        found, blocked=_why_blocked(segments, found, config, end_offset, last_stable_offset)
    )


def _why_blocked(
    segments: Sequence[CleanSegment],
    found: CleanableRange,
    config: LogConfig,
    end_offset: int,
    last_stable_offset: int,
) -> str:
    """Why no segment may be cleaned, and what would change that."""
    active = segments[-1]
    first_dirty = found.first_dirty_offset
    if first_dirty >= end_offset:
        return "the log has no records that are not compacted"
    if first_dirty >= active.base_offset or len(segments) == 1:
        what = "only its active segment" if len(segments) == 1 else "new records only there"
        return (
            f"the active segment is never compacted, and the log has {what}: "
            "roll it first, by roll=True or --roll"
        )
    if last_stable_offset < active.base_offset:
        return f"a transaction that begins at offset {last_stable_offset} is open"
    if config.min_compaction_lag_ms > 0:
        return f"records are younger than min.compaction.lag.ms, {config.min_compaction_lag_ms}"
    return "the segments that are not compacted hold no bytes"


def _sealed_from(segments: Sequence[CleanSegment], offset: int) -> Sequence[CleanSegment]:
    """Kafka's nonActiveLogSegmentsFrom: empty if the active segment contains the offset."""
    return () if offset >= segments[-1].base_offset else _from(segments[:-1], offset)


def _from(segments: Sequence[CleanSegment], offset: int) -> Sequence[CleanSegment]:
    """The segments from the one that contains the offset on."""
    first = 0
    while first + 1 < len(segments) and segments[first + 1].base_offset <= offset:
        first += 1
    return segments[first:]


def group_segments(
    segments: Sequence[CleanSegment], config: LogConfig, first_uncleanable_offset: int
) -> list[list[CleanSegment]]:
    """Groups of consecutive segments, each to become one segment, so that small ones merge.

    As in Kafka, the sizes before cleaning decide: of the log, of the indexes, and the range of
    offsets that an index entry can hold.
    """
    groups: list[list[CleanSegment]] = []
    size = index_size = time_index_size = 0  # of the last group
    for number, segment in enumerate(segments):
        group = groups[-1] if groups else []
        following = (
            segments[number + 1].base_offset
            if number + 1 < len(segments)
            else first_uncleanable_offset
        )
        if (
            group
            and size + segment.size <= config.segment_bytes
            and index_size + segment.index_size <= config.segment_index_bytes
            and time_index_size + segment.time_index_size <= config.segment_index_bytes
            and (segment.size == 0 or following - 1 - group[0].base_offset <= INT32_MAX)
        ):
            group.append(segment)
        else:
            groups.append([segment])
            size = index_size = time_index_size = 0
        size += segment.size
        index_size += segment.index_size
        time_index_size += segment.time_index_size
    return groups
