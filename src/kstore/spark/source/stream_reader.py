"""The streaming source: Kafka's offsets as JSON, admission control, AvailableNow, restarts.

Spark persists the result of ``latestOffset``, but not that of ``initialOffset``: after a crash in
the first batch it calls that again. So the initial offset stays symbolic (-1 latest, -2 earliest),
and the first batch resolves it: from "latest" it reads nothing, and its end is the log end offset
at that time.

The persisted offsets contain the topics' identities (topic ids, or the creation stamps of topics
without one): the records of a topic that was recreated are lost data, however long the new log is.
A checkpoint of Spark's Kafka connector has only offsets to compare.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from kstore.errors import OffsetOutOfRangeError, UnknownTopicOrPartitionError
from kstore.log.log import Log
from kstore.spark.source.batch_plan import find_recreated, plan_logs
from kstore.spark.source.batch_reader import RangesPartition
from kstore.spark.source.data_loss import report_data_loss
from kstore.spark.source.offsets_json import (
    EARLIEST,
    LATEST,
    Offsets,
    TopicPartition,
    format_names,
    from_json,
    identities_from_json,
    to_json,
)
from kstore.spark.source.options import SourceOptions
from kstore.spark.source.range_reader import open_store
from kstore.spark.source.read_task import run_task
from kstore.spark.source.snapshot import Snapshot, check_extent, take_snapshot
from kstore.spark.source.time_bounds import resolve
from kstore.store.store import Store

_LISTING_INTERVAL = 1.0  # seconds between listings of the directories, which show new partitions


class KStoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the batches of a query in one process for its life; its tasks use a copy.

    Tasks need only the options and their partition. The other state is in the memory of this
    process, and is rebuilt after a restart.
    """

    def __init__(
        self,
        options: SourceOptions,
        columns: tuple[str, ...],
        parallelism: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._columns = columns
        self._parallelism = parallelism
        self._clock = clock
        self._listed_at = -_LISTING_INTERVAL
        self._last_batch_at: float | None = None
        self._initial: Offsets | None = None
        self._target: Offsets | None = None

    # --- offsets ------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (the names are Spark's)
        if self._initial is None:
            self._initial = self._find_initial()
        return to_json(self._initial)

    def _find_initial(self) -> Offsets:
        bound, options = self._options.starting, self._options
        snapshot = self._take_snapshot()
        if not bound.is_time and bound.common is not None:
            return dict.fromkeys(snapshot.extents, bound.common)
        resolved = resolve(self._store, snapshot, bound, options)
        ends = snapshot.ends
        if bound.is_time:  # a time after all records is the latest offset
            return {tp: LATEST if offset == ends[tp] else offset for tp, offset in resolved.items()}
        return dict(bound.offsets)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets is not None:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._take_snapshot().ends

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return to_json(self._take_snapshot().ends)

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        snapshot = self._take_snapshot()
        recreated = self._find_recreated(identities_from_json(start), snapshot)
        before = _without(recreated, from_json(start, "the offset of the checkpoint"))
        ends = snapshot.ends
        if self._target is not None:
            ends = {tp: min(end, self._target[tp]) for tp, end in ends.items()
                    if tp in self._target}  # fmt: skip
        missing = set(before) - set(snapshot.extents)
        if missing:
            self._lose(
                UnknownTopicOrPartitionError(
                    f"{format_names(missing)} of the checkpoint no longer exist",
                    path=self._options.paths[0],
                )
            )
        begins = {tp: self._begin(tp, before, snapshot, end) for tp, end in ends.items()}
        for tp, end in ends.items():
            if end < begins[tp]:
                self._lose(_truncated(tp, begins[tp], end))
        if isinstance(limit, ReadAllAvailable):
            return to_json(ends, snapshot.identities)
        if not self._is_batch_due(begins, ends):
            return start
        self._last_batch_at = self._clock()
        if self._options.max_offsets is not None:
            ends = share_out(begins, ends, self._options.max_offsets)
        return to_json(ends, snapshot.identities)

    def _begin(self, tp: TopicPartition, before: Offsets, snapshot: Snapshot, end: int) -> int:
        """The first offset of the next batch; in a new partition that of its first record."""
        offset = before.get(tp, EARLIEST)
        low = snapshot.extents[tp][0]
        return low if offset == EARLIEST else end if offset == LATEST else offset

    def _is_batch_due(self, begins: Offsets, ends: Offsets) -> bool:
        """Whether ``minOffsetsPerTrigger`` new offsets exist, or ``maxTriggerDelay`` is over."""
        min_offsets = self._options.min_offsets
        if min_offsets is None or self._target is not None:
            return True
        if self._last_batch_at is None:
            self._last_batch_at = self._clock()
        waited = (self._clock() - self._last_batch_at) * 1000
        available = sum(max(end - begins[tp], 0) for tp, end in ends.items())
        is_delayed = available > 0 and waited >= self._options.max_trigger_delay_ms
        return available >= min_offsets or is_delayed

    # --- batches ------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks for the offsets from start to end, also after a restart; reports lost ones."""
        snapshot = self._take_snapshot()
        start_identities, end_identities = identities_from_json(start), identities_from_json(end)
        recreated = {
            topic
            for topic, known in start_identities.items()
            if end_identities.get(topic, known) != known
            and not _has_identity(snapshot, topic, known)
        }
        before = _without(recreated, from_json(start, "the offset of the checkpoint"))
        stops = from_json(end, "the offset of the checkpoint")
        logs: list[tuple[Log, int, int]] = []
        requested: list[tuple[Log, int, int]] = []
        lost_topics = self._find_recreated(end_identities, snapshot)
        for tp, stop in _without(lost_topics, stops).items():
            extent = snapshot.extents.get(tp)
            if extent is None:
                self._lose(
                    UnknownTopicOrPartitionError(
                        f"{format_names([tp])} was deleted before its records were read",
                        path=self._options.paths[0],
                    )
                )
                continue
            begin = self._begin(tp, before, snapshot, stop)
            if begin >= stop:
                continue
            low, high, lost = check_extent(tp, begin, stop, extent)
            report_data_loss(lost, self._options.fail_on_data_loss)
            log = self._store[tp[0]][tp[1]]
            logs.append((log, low, high))
            is_from_earliest = before.get(tp, EARLIEST) == EARLIEST
            requested.append((log, 0 if is_from_earliest else begin, stop))
        plan = plan_logs(logs, requested, self._options, self._parallelism, snapshot)
        return [RangesPartition(task) for task in plan.tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return run_task(self._options, self._columns, getattr(partition, "ranges", ()))

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: Spark writes the checkpoint, and retention alone deletes records."""

    # --- the store ----------------------------------------------------------------------------

    @property
    def _store(self) -> Store:
        return open_store(self._options.paths)

    def _take_snapshot(self) -> Snapshot:
        """The current partitions and their offsets; new partitions are found within a second."""
        now = self._clock()
        if now - self._listed_at >= _LISTING_INTERVAL:
            self._listed_at = now
            iter(self._store)  # lists the directories again
        return take_snapshot(self._store, self._options)

    def _find_recreated(self, known: dict[str, str | None], snapshot: Snapshot) -> set[str]:
        """The recreated topics, whose old offsets are invalid: reports their records as lost."""
        return find_recreated(known, snapshot.identities, self._options.fail_on_data_loss)

    def _lose(self, error: OffsetOutOfRangeError | UnknownTopicOrPartitionError) -> None:
        report_data_loss(error, self._options.fail_on_data_loss)


def _has_identity(snapshot: Snapshot, topic: str, known: str | None) -> bool:
    """Whether a topic has the known identity, also if it got an id since."""
    current = snapshot.identities.get(topic)
    return current is not None and current.is_same(known)


def _without(topics: set[str], offsets: Offsets) -> Offsets:
    return {tp: offset for tp, offset in offsets.items() if tp[0] not in topics}


def share_out(begins: Offsets, ends: Offsets, limit: int) -> Offsets:
    """Ends of a batch of ``limit`` offsets, in proportion to the unread offsets of each partition.

    As in the connector, a partition with unread offsets gets at least one, so that the batch may
    have a few more than ``limit``.
    """
    unread = {tp: max(end - begins[tp], 0) for tp, end in ends.items()}
    total = sum(unread.values())
    if total <= limit:
        return ends
    # Rounded down, but at least one: a small partition beside a large one is not starved.
    counts = {tp: max(count * limit // total, min(count, 1)) for tp, count in unread.items()}
    remainder = limit - sum(counts.values())
    for tp in sorted(counts):
        more = min(max(remainder, 0), unread[tp] - counts[tp])
        counts[tp] += more
        remainder -= more
    return {tp: begins[tp] + counts[tp] if unread[tp] else end for tp, end in ends.items()}


def _truncated(tp: TopicPartition, begin: int, end: int) -> OffsetOutOfRangeError:
    return OffsetOutOfRangeError(
        f"{tp[0]}-{tp[1]} ends at {end}, but the query continues from {begin}: the log was "
        "truncated or recreated, or startingOffsets lies beyond its end",
        offset=begin,
    )
