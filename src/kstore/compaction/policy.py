"""Which segments the cleaner may clean and how it groups them: Kafka's rules without I/O.

Pure functions over facts; the clock is a parameter. The rules are those of
LogCleanerManager.cleanableOffsets, LogToClean, Cleaner.groupSegmentsBySize and
CleanedTransactionMetadata.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kstore.config import LogConfig
from kstore.segment.transaction_index import AbortedTransaction

INT32_MAX = 2**31 - 1
ABORT, COMMIT = 0, 1  # of a control batch


class CleanSegment(NamedTuple):
    """The facts about one segment that the policy needs."""

    base_offset: int
    size: int  # bytes of the log file
    index_size: int  # bytes of used entries
    time_index_size: int
    largest_timestamp: int  # ms; the file's modification time if no record has one (as Kafka)
    first_timestamp: int  # largest timestamp of the first batch, -1 if none
    modified_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
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
        found, blocked=_why_nothing(segments, found, config, end_offset, last_stable_offset)
    )


def _why_nothing(
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


@dataclass(slots=True)
class CleanedTransactions:
    """Which batches belong to an aborted transaction, while a pass reads a log in order.

    ``written`` collects the entries of the new segment's transaction index: the aborted
    transactions of which the pass has met a batch, even if it removes that batch.
    """

    written: list[AbortedTransaction] = field(default_factory=list)
    _waiting: list[tuple[int, int, AbortedTransaction]] = field(default_factory=list)
    _aborted: dict[int, AbortedTransaction] = field(default_factory=dict)
    _met: set[int] = field(default_factory=set)  # producers with a met batch of an aborted one
    _committed: set[int] = field(default_factory=set)
    _count: int = 0

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions of the next segments; the same one may be added twice."""
        for transaction in aborted:
            self._count += 1
            heapq.heappush(self._waiting, (transaction.first_offset, self._count, transaction))

    def is_aborted(self, producer_id: int, last_offset: int, *, transactional: bool) -> bool:
        """Whether a batch of records belongs to an aborted transaction (onBatchRead)."""
        self._begin_up_to(last_offset)
        if not transactional:
            return False
        if producer_id in self._aborted:
            self._met.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def is_removable_marker(self, producer_id: int, last_offset: int, kind: int | None) -> bool:
        """Whether no batch of a marker's transaction is left (Kafka's onControlBatchRead).

        ``kind`` is None for a control batch without records.
        """
        self._begin_up_to(last_offset)
        if kind is None and producer_id in self._committed:
            # Another cleaner emptied the marker before the records were replicated to this log:
            # this batch is the only evidence that they were not committed, so it stays until the
            # records are removed.
            self._committed.discard(producer_id)
            return False
        if kind is None and producer_id not in self._aborted:  # cleaned before
            return True
        if kind is None or kind == ABORT:
            transaction = self._aborted.pop(producer_id, None)
            if transaction is None or producer_id not in self._met:
                return True
            self._met.discard(producer_id)
            self.written.append(transaction)
            return False
        if kind == COMMIT:
            has_batches = producer_id in self._committed
            self._committed.discard(producer_id)
            return not has_batches
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            transaction = heapq.heappop(self._waiting)[2]
            self._aborted.setdefault(transaction.producer_id, transaction)
