"""What the cleaner may touch, and how its output is cut: Kafka's rules, decided here.

Pure functions over facts; nothing is touched and the clock is a parameter. The rules are those
of LogCleanerManager.cleanableOffsets, LogToClean, Cleaner.groupSegmentsBySize and
CleanedTransactionMetadata.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kstore.config import LogConfig
from kstore.segment.transaction_index import AbortedTransaction

INT32_MAX = 2**31 - 1
ABORT, COMMIT = 0, 1  # of a control batch


class CleanSegment(NamedTuple):
    """What a decision needs to know of one segment."""

    base_offset: int
    size: int  # bytes of the log file
    index_size: int  # bytes of used entries
    time_index_size: int
    largest_timestamp: int  # ms; the file's modification time where it has none (Kafka)
    first_timestamp: int  # largest timestamp of the first batch, -1 if none
    modified_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanableRange:
    """What of a log may be cleaned now. Offsets: [first_dirty, first_uncleanable)."""

    first_dirty_offset: int
    first_uncleanable_offset: int  # always a segment's base offset, or first_dirty_offset
    reset: bool  # the checkpoint was of no use, and is to be written anew
    clean_bytes: int
    cleanable_bytes: int
    due: bool  # max.compaction.lag.ms is over

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def eligible(self, config: LogConfig) -> bool:
        """Whether the cleaner takes it by itself."""
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
    """Which offsets of a log may be cleaned.

    Parameters
    ----------
    segments
        All segments by base offset; the last is the active one.
    checkpoint
        The first dirty offset by ``cleaner-offset-checkpoint``, None without an entry. Outside
        the log it counts as the log start.
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
            next((each.base_offset for each in dirty if each.largest_timestamp > young), limit),
        )
    limit = max(first_dirty, limit)
    # Rounded down to a segment's base: what is cleaned is whole segments.
    unclean = _sealed_from(segments, limit)
    uncleanable = unclean[0].base_offset if unclean else active.base_offset
    begin = min(first_dirty, uncleanable)
    cleanable = [each for each in _from(segments, begin) if each.base_offset < uncleanable]
    started = [each.first_timestamp for each in dirty if each.first_timestamp > 0]
    return CleanableRange(
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=max(uncleanable, first_dirty),
        reset=reset,
        clean_bytes=sum(each.size for each in segments if each.base_offset < first_dirty),
        cleanable_bytes=sum(each.size for each in cleanable),
        due=bool(started) and min(started) < now_ms - config.max_compaction_lag_ms,
    )


def _sealed_from(segments: Sequence[CleanSegment], offset: int) -> Sequence[CleanSegment]:
    """Kafka's nonActiveLogSegmentsFrom: none where the active segment holds the offset."""
    return () if offset >= segments[-1].base_offset else _from(segments[:-1], offset)


def _from(segments: Sequence[CleanSegment], offset: int) -> Sequence[CleanSegment]:
    """The segments from the one that holds an offset on."""
    first = 0
    while first + 1 < len(segments) and segments[first + 1].base_offset <= offset:
        first += 1
    return segments[first:]


def group_segments(
    segments: Sequence[CleanSegment], config: LogConfig, first_uncleanable_offset: int
) -> list[list[CleanSegment]]:
    """Runs of segments that become one segment each; small ones are put together.

    By their sizes before cleaning, as in Kafka: log, indexes, and the offsets that an index
    entry can hold.
    """
    groups: list[list[CleanSegment]] = []
    size = index_size = time_index_size = 0  # of the last group
    for number, each in enumerate(segments):
        group = groups[-1] if groups else []
        following = (
            segments[number + 1].base_offset
            if number + 1 < len(segments)
            else first_uncleanable_offset
        )
        if (
            group
            and size + each.size <= config.segment_bytes
            and index_size + each.index_size <= config.segment_index_bytes
            and time_index_size + each.time_index_size <= config.segment_index_bytes
            and (each.size == 0 or following - 1 - group[0].base_offset <= INT32_MAX)
        ):
            group.append(each)
        else:
            groups.append([each])
            size = index_size = time_index_size = 0
        size += each.size
        index_size += each.index_size
        time_index_size += each.time_index_size
    return groups


@dataclass(slots=True)
class CleanedTransactions:
    """Which batches belong to an aborted transaction, while a cleaner walks a log in order.

    ``written`` collects the aborted transactions that the new segment's index has to name: those
    of which a batch was met, though it goes now.
    """

    written: list[AbortedTransaction] = field(default_factory=list)
    _waiting: list[tuple[int, int, AbortedTransaction]] = field(default_factory=list)
    _aborted: dict[int, AbortedTransaction] = field(default_factory=dict)
    _met: set[int] = field(default_factory=set)  # producers of aborted ones, a batch was met
    _committed: set[int] = field(default_factory=set)
    _count: int = 0

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Transactions of the segments that come next; one may be named more than once."""
        for each in aborted:
            self._count += 1
            heapq.heappush(self._waiting, (each.first_offset, self._count, each))

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

    def ends_nothing(self, producer_id: int, last_offset: int, kind: int | None) -> bool:
        """Whether a marker may go: no batch of its transaction is left (onControlBatchRead)."""
        self._begin_up_to(last_offset)
        if kind is None and producer_id in self._committed:
            # Emptied elsewhere, before the records came here: by this batch alone it is known
            # that they were not committed. It stays until they are gone.
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
            known = producer_id in self._committed
            self._committed.discard(producer_id)
            return not known
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            transaction = heapq.heappop(self._waiting)[2]
            self._aborted.setdefault(transaction.producer_id, transaction)
