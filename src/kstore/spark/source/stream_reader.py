"""The streaming source: Kafka's offsets as JSON, admission control, AvailableNow, restarts.

Spark persists what ``latestOffset`` returns, never what ``initialOffset`` does: after a crash in
the first batch it asks for the initial offset again. So that one stays symbolic (-1 latest, -2
earliest), and the first batch turns it into numbers: from "latest" it reads nothing and writes
down where the log ended, exactly once.

What is persisted names the topics' identities, too (topic ids, or the creation stamps of topics
without one): a topic that was made again since is lost data, however long it is. In a checkpoint
of Spark's Kafka connector there are only offsets to compare.
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
from kstore.spark.source.batch_plan import find_made_again, report_lost_segments
from kstore.spark.source.batch_reader import RangesPartition
from kstore.spark.source.data_loss import report_data_loss
from kstore.spark.source.offset_ranges import plan_ranges
from kstore.spark.source.offsets import (
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
from kstore.spark.source.snapshot import Snapshot, check_extent, resolve, take_snapshot
from kstore.store.store import Store

_LOOK_FOR_PARTITIONS = 1.0  # seconds between looks for new partitions


class KStoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets and plans in one process for the life of a query; reads in tasks, on a copy.

    What tasks need is in the options and the partitions; the rest is this process's memory only
    and found anew after a restart.
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
        self._looked_at = -_LOOK_FOR_PARTITIONS
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
        snapshot = self._look()
        if not bound.is_time and bound.whole is not None:
            return dict.fromkeys(snapshot.extents, bound.whole)
        resolved = resolve(self._store, snapshot, bound, options)
        ends = snapshot.ends
        if bound.is_time:  # what no record reaches yet is the latest
            return {place: LATEST if at == ends[place] else at for place, at in resolved.items()}
        return dict(bound.offsets)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets is not None:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._look().ends

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return to_json(self._look().ends)

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        snapshot = self._look()
        others = self._made_again(identities_from_json(start), snapshot)
        before = _without(others, from_json(start, "the offset of the checkpoint"))
        ends = snapshot.ends
        if self._target is not None:
            ends = {place: min(end, self._target[place]) for place, end in ends.items()
                    if place in self._target}  # fmt: skip
        gone = set(before) - set(snapshot.extents)
        if gone:
            self._lose(
                UnknownTopicOrPartitionError(
                    f"{format_names(gone)} of the checkpoint are gone",
                    path=self._options.paths[0],
                )
            )
        begins = {place: self._begin(place, before, snapshot, end) for place, end in ends.items()}
        for place, end in ends.items():
            if end < begins[place]:
                self._lose(_shrunk(place, begins[place], end))
        if isinstance(limit, ReadAllAvailable):
            return to_json(ends, snapshot.identities)
        if not self._enough(begins, ends):
            return start
        self._last_batch_at = self._clock()
        if self._options.max_offsets is not None:
            ends = share_out(begins, ends, self._options.max_offsets)
        return to_json(ends, snapshot.identities)

    def _begin(self, place: TopicPartition, before: Offsets, snapshot: Snapshot, end: int) -> int:
        """Where the next batch begins in a partition: a new one from its first record on."""
        offset = before.get(place, EARLIEST)
        low = snapshot.extents[place][0]
        return low if offset == EARLIEST else end if offset == LATEST else offset

    def _enough(self, begins: Offsets, ends: Offsets) -> bool:
        """Whether there is as much as ``minOffsetsPerTrigger`` wants, or it has waited enough."""
        least = self._options.min_offsets
        if least is None or self._target is not None:
            return True
        if self._last_batch_at is None:
            self._last_batch_at = self._clock()
        waited = (self._clock() - self._last_batch_at) * 1000
        there = sum(max(end - begins[place], 0) for place, end in ends.items())
        return there >= least or (there > 0 and waited >= self._options.max_trigger_delay_ms)

    # --- batches ------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The same offsets for the same arguments, after a restart too; what is gone is lost."""
        snapshot = self._look()
        then, until = identities_from_json(start), identities_from_json(end)
        others = {
            topic
            for topic, known in then.items()
            if until.get(topic, known) != known and not _is_still(snapshot, topic, known)
        }
        before = _without(others, from_json(start, "the offset of the checkpoint"))
        stops = from_json(end, "the offset of the checkpoint")
        logs: list[tuple[Log, int, int]] = []
        wanted: list[tuple[Log, int, int]] = []
        for place, stop in _without(self._made_again(until, snapshot), stops).items():
            extent = snapshot.extents.get(place)
            if extent is None:
                self._lose(
                    UnknownTopicOrPartitionError(
                        f"{format_names([place])} was deleted before its records were read",
                        path=self._options.paths[0],
                    )
                )
                continue
            begin = self._begin(place, before, snapshot, stop)
            if begin >= stop:
                continue
            low, high, lost = check_extent(place, begin, stop, extent)
            report_data_loss(lost, self._options.fail_on_data_loss)
            log = self._store[place[0]][place[1]]
            logs.append((log, low, high))
            is_from_earliest = before.get(place, EARLIEST) == EARLIEST
            wanted.append((log, 0 if is_from_earliest else begin, stop))
        plan = plan_ranges(
            logs,
            parallelism=self._parallelism,
            most=self._options.max_partition_bytes,
            min_tasks=self._options.min_partitions,
            most_offsets=self._options.max_records,
            identities=snapshot.identities,
        )
        report_lost_segments(wanted, self._options.fail_on_data_loss)
        return [RangesPartition(task) for task in plan.tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return run_task(self._options, self._columns, getattr(partition, "ranges", ()))

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: the checkpoint is Spark's, and a log keeps what its retention says."""

    # --- the store ----------------------------------------------------------------------------

    @property
    def _store(self) -> Store:
        return open_store(self._options.paths)

    def _look(self) -> Snapshot:
        """The partitions as they are; new ones show within a second."""
        now = self._clock()
        if now - self._looked_at >= _LOOK_FOR_PARTITIONS:
            self._looked_at = now
            iter(self._store)  # lists the directories again
        return take_snapshot(self._store, self._options)

    def _made_again(self, known: dict[str, str | None], snapshot: Snapshot) -> set[str]:
        """Topics that are others now: an error, or a warning and their old offsets are nothing."""
        return find_made_again(known, snapshot.identities, self._options.fail_on_data_loss)

    def _lose(self, error: OffsetOutOfRangeError | UnknownTopicOrPartitionError) -> None:
        report_data_loss(error, self._options.fail_on_data_loss)


def _is_still(snapshot: Snapshot, topic: str, known: str | None) -> bool:
    """Whether a topic is the one of an identity, also if it has got an id since."""
    now = snapshot.identities.get(topic)
    return now is not None and now.is_same(known)


def _without(topics: set[str], offsets: Offsets) -> Offsets:
    return {place: offset for place, offset in offsets.items() if place[0] not in topics}


def share_out(begins: Offsets, ends: Offsets, most: int) -> Offsets:
    """Ends such that ``most`` offsets are read, each partition in proportion to its rest.

    As the connector: nobody with something to read gets nothing, even if that makes a few more.
    """
    rests = {place: max(end - begins[place], 0) for place, end in ends.items()}
    total = sum(rests.values())
    if total <= most:
        return ends
    # The floor, but one at least: a small partition beside a large one is not starved.
    counts = {place: max(rest * most // total, min(rest, 1)) for place, rest in rests.items()}
    left = most - sum(counts.values())
    for place in sorted(counts):  # what the floors left over
        more = min(max(left, 0), rests[place] - counts[place])
        counts[place] += more
        left -= more
    return {
        place: begins[place] + counts[place] if rests[place] else end for place, end in ends.items()
    }


def _shrunk(place: TopicPartition, begin: int, end: int) -> OffsetOutOfRangeError:
    return OffsetOutOfRangeError(
        f"{place[0]}-{place[1]} ends at {end}, but the query is to go on from {begin}: the log was "
        "truncated or created again, or startingOffsets lies beyond its end",
        offset=begin,
    )
