"""A consumer: its assigned partitions, their positions, and the committed offsets of a group."""

import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from threading import Event, RLock
from time import monotonic
from typing import TYPE_CHECKING, Any, Never, overload

from kstore.client.argument_errors import nothing_to_read, wrong_commit, wrong_poll
from kstore.client.assignment import AssignedPartition, Assignment
from kstore.client.block_errors import close_block, close_block_in_thread
from kstore.client.chosen_partitions import ChosenPartitions
from kstore.client.consumer_batch import ConsumerBatch, ConsumerRecords, PolledRecords, records_of
from kstore.client.consumer_positions import ConsumerPositions
from kstore.client.consumer_wait import ConsumerWait, ConsumerWaits
from kstore.client.delivery import Committed
from kstore.client.fetcher import Fetcher
from kstore.client.group_partitions import GroupPartitions, OnPartitions, RebalanceListener
from kstore.client.metadata import MetadataView
from kstore.client.uncommitted_reads import UncommittedReads
from kstore.coordinator.group.offset_records import OffsetCommit, check_metadata
from kstore.coordinator.group.reader_offsets_file import TopicIds
from kstore.errors import ClosedError, InvalidConfigError, UnknownTopicOrPartitionError
from kstore.hints.kafka_names import CONSUMER_IN_ASYNCIO, OF_CONSUMERS
from kstore.hints.keyword_names import explain_keywords
from kstore.hints.missing_names import answer_names, no_asyncio
from kstore.integers import INT32_MAX, check_integer, check_integer_setting, check_seconds
from kstore.topic_partition import (
    ByPartition,
    PartitionArgument,
    PartitionLike,
    Partitions,
    TopicPartition,
    as_topic_partition,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from kstore.coordinator.group.store_group import StoreGroup
    from kstore.integers import Seconds
    from kstore.log.log import Log
    from kstore.record import Record
    from kstore.store.store import Store

OnRebalance = Callable[["Consumer", list[TopicPartition]], object]

_RETRIES = 3  # of a poll during which a topic was deleted and recreated


class Consumer:
    """Reads assigned partitions; created by :meth:`kstore.Store.consumer`.

    Consumers of one group and store share the partitions of their topics. A partition of an
    ``assignment`` is not shared: if another consumer of the group reads it, in any process, the
    call raises GroupConflictError. Reading starts at the group's committed offset, else according
    to ``auto_offset_reset``.

    ``close`` it, or use it as a context manager: a consumer that is dropped without it releases
    its partitions with a ResourceWarning. Safe to share between threads, one call at a time.
    """

    @explain_keywords("use store.consumer('orders', group='billing')")
    def __init__(
        self,
        store: "Store",
        group: "StoreGroup | None",
        assignment: Iterable[TopicPartition],
        *,
        auto_offset_reset: str,
        max_poll_records: int,
        timeout: "Seconds",
        isolation_level: str,
        topics: Iterable[str] = (),
        metadata_max_age_ms: "int | timedelta" = 0,
        max_poll_interval_ms: "int | timedelta" = 300_000,
        on_assign: "OnRebalance | None" = None,
        on_revoke: "OnRebalance | None" = None,
        on_lost: "OnRebalance | None" = None,
        enable_auto_commit: bool | None = None,
    ) -> None:
        self._store = store
        self._reads = UncommittedReads(
            store, None if group is None else group.name, is_handled=enable_auto_commit is not None
        )
        self._group = group
        self._assignment = Assignment()
        self._fetcher = Fetcher(
            store,
            self._assignment,
            group,
            auto_offset_reset=auto_offset_reset,
            isolation_level=isolation_level,
        )
        self._waits = ConsumerWaits()
        self._metadata = MetadataView(
            store,
            check_integer_setting("metadata.max.age.ms", metadata_max_age_ms, 0) / 1000,
            self._waits.wake,
        )
        self._max_poll_records = check_integer_setting("max.poll.records", max_poll_records, 1)
        self._timeout = check_seconds("timeout", timeout)
        self.isolation_level = isolation_level
        self._lock = RLock()
        self._stopped = Event()
        interval = check_integer_setting("max.poll.interval.ms", max_poll_interval_ms, 1, INT32_MAX)
        chosen, topics = list(assignment), tuple(topics)
        self._partitions: ChosenPartitions | GroupPartitions
        if group is None or chosen or not topics:
            self._partitions = ChosenPartitions(
                store, group, self._assignment, self._fetcher, topics, chosen
            )
        else:
            self._partitions = GroupPartitions(
                store,
                group,
                self._assignment,
                self._fetcher,
                topics,
                wake=self._waits.wake,
                listener=self._listener(on_assign, on_revoke, on_lost),
                max_poll_interval_ms=interval,
            )
        self._positions = ConsumerPositions(
            self._lock, self._assignment, self._fetcher, self._waits.wake
        )
        try:
            self._partitions.open()
        except BaseException:
            self.close()
            raise

    def _listener(
        self,
        on_assign: "OnRebalance | None",
        on_revoke: "OnRebalance | None",
        on_lost: "OnRebalance | None",
    ) -> RebalanceListener:
        """The caller's callbacks, without a reference to this consumer that would keep it open."""
        own = weakref.ref(self)

        def bound(function: "OnRebalance | None") -> OnPartitions | None:
            def call(partitions: list[TopicPartition]) -> None:
                consumer = own()
                if function is not None and consumer is not None:
                    function(consumer, partitions)

            return None if function is None else call

        return RebalanceListener(bound(on_assign), bound(on_revoke), bound(on_lost))

    # --- assignment -----------------------------------------------------------------------

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return Partitions(self._assignment)

    def assign(self, partitions: Iterable[PartitionArgument]) -> None:
        """Replace the assignment; partitions that stay assigned keep their positions.

        Partitions that a topic gets later are not added. Raises UnknownTopicOrPartitionError,
        GroupConflictError, and InvalidConfigError for a member of a group, which assigns its
        partitions (Kafka's IllegalStateException); then nothing has changed.
        """
        with self._lock:
            self._fetcher.check_open()
            if isinstance(self._partitions, GroupPartitions):
                raise InvalidConfigError(
                    "the group assigns the partitions of this consumer's topics; to choose them "
                    "yourself, use store.consumer(group=..., assignment=[...]) without topics"
                )
            self._partitions.assign(as_topic_partition(tp) for tp in partitions)
        self._waits.wake()

    def pause(self, *partitions: PartitionArgument) -> None:
        """Skip these partitions (all if none is given) until ``resume``, which keeps positions.

        ``pause(("orders", 0), ("orders", 1))``, or a list or set of such pairs.
        """
        self._positions.pause(partitions, paused=True)

    def resume(self, *partitions: PartitionArgument) -> None:
        self._positions.pause(partitions, paused=False)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return self._positions.paused()

    # --- positions ------------------------------------------------------------------------

    @overload
    def position(self, partition: PartitionLike, /) -> int: ...
    @overload
    def position(self, topic: str, partition: int, /) -> int: ...
    def position(self, *partition: Any) -> int:
        """The offset that is read next: ``position(("orders", 0))``, or ``position("orders", 0)``.

        Raises OffsetOutOfRangeError if nothing is committed and ``auto_offset_reset="none"``.
        """
        self._reads.note_commit()  # it may be committed elsewhere
        return self._positions.position(partition)

    def positions(self) -> ByPartition[int]:
        """The positions of the assigned partitions, as far as known."""
        self._reads.note_commit()
        return ByPartition(self._positions.positions())

    @overload
    def seek(self, partition: PartitionLike, offset: int) -> None: ...
    @overload
    def seek(self, topic: str, partition: int, offset: int, /) -> None: ...
    def seek(self, *partition: Any, **named: Any) -> None:
        """Continue at an offset; the next read detects one outside the log.

        ``seek(("orders", 0), 1000)``, or ``seek("orders", 0, 1000)``.
        """
        self._positions.seek(partition, named)

    def seek_to_beginning(self, *partitions: PartitionArgument) -> None:
        self._positions.seek_to_beginning(partitions)

    def seek_to_end(self, *partitions: PartitionArgument) -> None:
        self._positions.seek_to_end(partitions)

    def seek_to_time(self, when: datetime | int, *partitions: PartitionArgument) -> None:
        """Continue at the first record at or after a time (an aware datetime, or Unix ms)."""
        self._positions.seek_to_time(when, partitions)

    def seek_to_committed(self, *partitions: PartitionArgument) -> None:
        """Continue at the group's committed offsets, else according to ``auto_offset_reset``."""
        self._positions.seek_to_committed(partitions)

    @overload
    def committed(self, partition: PartitionLike, /) -> int | None: ...
    @overload
    def committed(self, topic: str, partition: int, /) -> int | None: ...
    def committed(self, *partition: Any) -> int | None:
        """The group's committed offset of a partition, None if there is none."""
        return self._positions.committed(partition)

    # --- reading --------------------------------------------------------------------------

    def poll(
        self,
        *unnamed: Never,
        max_records: int | None = None,
        timeout: "Seconds" = 0.0,
        **unknown: Never,
    ) -> PolledRecords:
        """Up to max_records records by partition; waits up to timeout seconds for the first.

        Advances the positions; commit separately. Returns an empty dict after the timeout.
        """
        if unnamed or unknown:
            raise wrong_poll(unnamed, unknown)
        wanted = self._max_poll_records
        if max_records is not None:
            wanted = check_integer("max_records", max_records)
        if wanted < 1:
            raise InvalidConfigError(f"max_records is at least 1, as max.poll.records: {wanted!r}")
        found = PolledRecords()
        batch = self._next_batch(wanted, check_seconds("timeout", timeout))
        while batch is not None:
            tp = TopicPartition(batch.topic, batch.partition)
            found.setdefault(tp, []).extend(batch)
            wanted -= len(batch)
            batch = self._next_batch(wanted, 0.0) if wanted > 0 else None
        return found

    def batches(self, timeout: "Seconds" = None) -> Iterator[ConsumerBatch]:
        """Batches of up to ``max_poll_records`` records, from each partition in turn.

        Waits for more at the end; ends after timeout seconds without records (None: never), or
        when the consumer is closed.
        """
        seconds = check_seconds("timeout", timeout)
        while True:
            try:
                batch = self._next_batch(self._max_poll_records, seconds)
            except ClosedError:
                if self._closed or self._stopped.is_set():
                    return
                raise
            if batch is None:
                return
            yield batch

    def __iter__(self) -> "Consumer":
        return self

    def __next__(self) -> ConsumerBatch:
        """The next batch; StopIteration after ``timeout`` seconds without a record.

        A later loop or call reads on: records may have come meanwhile.
        """
        for batch in self.batches(self._timeout):
            return batch
        raise StopIteration

    def records(self) -> ConsumerRecords:
        """Records one by one, for ``for`` and ``async for``; waits and ends as iteration does.

        The position is after the last returned record, so ``commit`` in the loop commits up to and
        including it. A seek, ``pause`` or ``assign`` in the loop applies to the next record.
        Batches (``for batch in consumer``) are faster. ``async for`` reads on the event loop.
        """
        return records_of(self)

    def _records(self, timeout: float | None) -> Iterator["Record"]:
        for batch in self.batches(timeout):
            tp = TopicPartition(batch.topic, batch.partition)
            position = batch.stop_offset
            for record in batch:
                if not self._step(tp, batch._source, position, record.offset + 1):
                    break
                position = record.offset + 1
                yield record
            else:
                self._step(tp, batch._source, position, batch.stop_offset)

    def _step(
        self, tp: TopicPartition, source: AssignedPartition, position: int, following: int
    ) -> bool:
        """Change a position within a batch; False if the caller of ``records`` has changed it."""
        with self._lock:
            if self._closed or self._assignment.get(tp) is not source:
                return False
            if source.is_paused or source.position != position:
                return False
            source.position = following
            return True

    def lag(self) -> ByPartition[int]:
        """The lag of each assigned partition in offsets: Kafka's records-lag.

        From the position to the log end, or with read_committed to the last stable offset.
        Negative if the log was truncated below the position. Raises OffsetOutOfRangeError for a
        partition without a position if ``auto_offset_reset="none"``.
        """
        with self._lock:
            self._fetcher.check_open()
            self._partitions.follow(self._metadata)
            return ByPartition(self._positions.lag())

    def _next_batch(self, count: int, timeout: float | None) -> ConsumerBatch | None:
        batch = self._read(count)
        if batch is not None or timeout == 0:
            return batch
        end = None if timeout is None else monotonic() + timeout
        with self._waits.begin() as wait:
            wait.watch(self._awaited())
            while True:
                wait.clear()
                if (batch := self._read(count)) is not None:
                    return batch
                left = None if end is None else end - monotonic()
                if left is not None and left <= 0:
                    return None
                if not wait.watch(self._awaited()):
                    wait.wait(self._longest_wait(wait, left))

    def _read(self, count: int) -> ConsumerBatch | None:
        """Records that exist now."""
        retries = _RETRIES
        with self._lock:
            while True:
                if self._assignment.is_closed:
                    self._fetcher.check_open()
                self._partitions.follow(self._metadata)
                if not (self._partitions.is_member or self._assignment):
                    raise nothing_to_read()
                try:
                    fetched = self._fetcher.fetch(count)
                except (ClosedError, UnknownTopicOrPartitionError):
                    retries -= 1
                    if retries < 0 or not self._is_overtaken():
                        raise
                    continue
                if self._metadata.is_old:  # the records may be of a deleted topic
                    if fetched is not None:
                        self._fetcher.put_back(fetched)
                    continue
                if fetched is None:
                    return None
                self._reads.note_read()
                return ConsumerBatch(self, fetched)

    def _awaited(self) -> "list[Log]":
        """The logs that this process writes, of which some may get records for this consumer."""
        with self._lock:
            return self._fetcher.logs() if self._store.writable else []

    def _longest_wait(self, wait: ConsumerWait, left: float | None) -> float | None:
        """How long to wait for an event, at most."""
        must_poll = not self._store.writable or self._fetcher.is_unstable
        longest = self._partitions.longest_wait()
        if longest is not None:
            left = longest if left is None else min(left, longest)
        return wait.longest(left, must_poll=must_poll)

    def _is_overtaken(self) -> bool:
        """Whether a topic has changed meanwhile, which may explain an error."""
        self._store._check()
        if not self._metadata.is_old:
            self._store._follow_writer()
        return self._metadata.is_old

    def _rewind(self, tp: TopicPartition, source: AssignedPartition, start: int, stop: int) -> None:
        """Reset the position to a failed batch, unless the position has changed since."""
        with self._lock:
            if self._assignment.get(tp) is source and source.position == stop:
                source.position = start
                self._waits.wake()

    # --- committed offsets ----------------------------------------------------------------

    def commit(
        self,
        offsets: Mapping[PartitionLike, int] | None = None,
        *,
        metadata: str = "",
        **unknown: Never,
    ) -> Committed:
        """Commit the next offset to read, of the given partitions or of all with a position.

        The commit is complete when the call returns; ``await consumer.commit()`` works, too.

        Raises InvalidConfigError for a consumer without a group, or metadata beyond 4096
        characters; UnknownTopicIdError if a topic was deleted since its records were read: then
        nothing is committed. TypeError for offsets that are no mapping.
        """
        if unknown or not (offsets is None or isinstance(offsets, Mapping)):
            raise wrong_commit(offsets, unknown)
        self._commit(offsets, metadata, None)
        return Committed()

    def _commit_batch(self, tp: TopicPartition, source: AssignedPartition, offset: int) -> None:
        """Commit a batch that was read under this assignment."""
        with self._lock:
            self._fetcher.check_open()
            self._partitions.check_source(tp, source)
            self._commit({tp: offset}, "", {tp.topic: source.topic_id})

    def _commit(
        self, offsets: Mapping[PartitionLike, int] | None, metadata: str, topic_ids: TopicIds | None
    ) -> None:
        """Commit offsets in topics with these identities; None: the assigned ones."""
        from kstore.coordinator.group.store_group import check_offset

        self._reads.note_commit()
        with self._lock:
            self._fetcher.check_open()
            if self._group is None:
                raise InvalidConfigError("a consumer without a group cannot commit")
            check_metadata(metadata)
            if offsets is None:
                wanted = self._assignment.positions()
            else:
                if topic_ids is None:
                    self._partitions.check_assigned(offsets)
                wanted = {
                    as_topic_partition(tp): check_offset(each) for tp, each in offsets.items()
                }
            if wanted:
                self._partitions.commit(
                    {tp: OffsetCommit(each, -1, metadata) for tp, each in wanted.items()},
                    self._assignment.topic_ids() if topic_ids is None else topic_ids,
                )

    def close(self) -> None:
        """Release the partitions, and leave the group; commits nothing, unless ``on_revoke`` does.

        Warns (UncommittedReadsWarning) if the group's consumer has read records and the program
        has committed none, nor said ``enable_auto_commit=False``; not while an error is handled.

        A second call does nothing.
        """
        self._stopped.set()
        with self._lock:
            try:
                if not self._assignment.is_closed:
                    self._metadata.close()
                    self._partitions.close()
            finally:
                self._assignment.is_closed = True
        self._waits.wake()  # calls in other threads, which find it closed
        self._reads.warn()

    def __del__(self) -> None:
        """Release the partitions, and warn. Takes no lock: it may interrupt code that holds one."""
        if not self._closed and self._partitions.abandon():
            warnings.warn(
                f"{self!r} was not closed: use `with store.consumer(...) as consumer:`",
                ResourceWarning,
                stacklevel=1,
            )

    def _after_fork(self) -> None:
        """In a forked child: the claims are shared with the parent and must not outlive it."""
        self._assignment.is_closed = True
        self._partitions.after_fork()

    @property
    def _closed(self) -> bool:
        """Also True until ``__init__`` has set everything that ``close`` uses."""
        return "_positions" not in self.__dict__ or self._assignment.is_closed

    if not TYPE_CHECKING:  # which would take it for a method that works
        __aiter__ = no_asyncio(CONSUMER_IN_ASYNCIO)

    def __repr__(self) -> str:
        group = "" if self._group is None else f" {self._group.name!r}"
        tps = ", ".join(f"{topic}-{partition}" for topic, partition in self._assignment)
        return f"<kstore.Consumer{group} of {tps or 'nothing'}{' closed' * self._closed}>"

    def __enter__(self) -> "Consumer":
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        close_block(error, self.close)

    async def __aenter__(self) -> "Consumer":
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Close it without blocking the event loop."""
        if error is not None:
            self._reads.note_commit()  # the other thread does not know of it
        await close_block_in_thread(error, self.close)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a Consumer cannot be pickled; create one where it is needed")


answer_names(Consumer, OF_CONSUMERS)
