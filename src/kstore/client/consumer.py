"""A consumer: its assigned partitions, their positions, and the committed offsets of a group."""

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Event, RLock
from time import monotonic
from typing import TYPE_CHECKING, Never

from kstore._native.format.record import name_partition
from kstore.client.argument_errors import nothing_to_read, wrong_commit, wrong_poll
from kstore.client.consumer_batch import ConsumerBatch, ConsumerRecords, PolledRecords, records_of
from kstore.client.consumer_positions import _Positions
from kstore.client.delivery import run_in_thread
from kstore.client.metadata import MetadataView
from kstore.coordinator.group.offset_records import METADATA_MAX_BYTES, OffsetCommit
from kstore.coordinator.group.reader_offsets_file import TopicIds
from kstore.errors import (
    ClosedError,
    GroupConflictError,
    InvalidConfigError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from kstore.integers import check_integer, check_integer_setting
from kstore.kafka_names import CONSUMER_IN_ASYNCIO, OF_CONSUMERS, answer_names, no_asyncio
from kstore.log.read_committed import TransactionOutcomes, check_isolation
from kstore.topic_partition import PartitionLike, Partitions, TopicPartition, as_topic_partition

if TYPE_CHECKING:
    from kstore.coordinator.group.store_group import StoreGroup
    from kstore.log.log import Log
    from kstore.log.view import LogView
    from kstore.record import Record
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")

RESETS = ("earliest", "latest", "none")
_PAUSE_MIN = 0.0005  # seconds between polls of several partitions, doubled while idle
_PAUSE_MAX = 0.02
_RETRIES = 3  # of a poll during which a topic was deleted and recreated


class Consumer(_Positions):
    """Reads assigned partitions; created by :meth:`kstore.Store.consumer`.

    The caller assigns partitions: one that another consumer of the group reads, in any process,
    raises GroupConflictError. Reading starts at the group's committed offset, else according to
    ``auto_offset_reset``.

    ``close`` it, or use it as a context manager: a consumer that is dropped without it releases
    its partitions with a ResourceWarning. Safe to share between threads, one call at a time.
    """

    _closed = True  # until everything is initialized

    def __init__(
        self,
        store: "Store",
        group: "StoreGroup | None",
        assignment: Iterable[TopicPartition],
        *,
        auto_offset_reset: str,
        max_poll_records: int,
        timeout: float | None,
        isolation_level: str,
        topics: Iterable[str] = (),
        metadata_max_age_ms: int = 0,
    ) -> None:
        self._committed_only = check_isolation(isolation_level)
        if auto_offset_reset not in RESETS:
            raise InvalidConfigError(
                f"auto.offset.reset must be one of {', '.join(RESETS)}, not {auto_offset_reset!r}"
            )
        self._store = store
        self._group = group
        self._check_members: Callable[[], object] = bool if group is None else group.check_members
        self._topics = tuple(dict.fromkeys(topics))  # topics whose later partitions are read, too
        self._metadata = MetadataView(
            store, check_integer_setting("metadata.max.age.ms", metadata_max_age_ms, 0) / 1000
        )
        self._reset = auto_offset_reset
        self._max_poll_records = check_integer_setting("max.poll.records", max_poll_records, 1)
        self._timeout = timeout
        self.isolation_level = isolation_level
        self._lock = RLock()
        self._stopped = Event()
        self._closed = False
        self._positions: dict[TopicPartition, int | None] = {}  # None: not known yet
        self._topic_ids: TopicIds = {}  # of the assigned topics
        self._outcomes: dict[TopicPartition, TransactionOutcomes] = {}
        self._ends: dict[TopicPartition, int] = {}  # log end offsets at the last read
        self._paused: set[TopicPartition] = set()
        self._turn = 0
        try:
            own = [TopicPartition(each, n) for each in self._topics for n in self._existing(each)]
            self._assign(dict.fromkeys([*own, *assignment]))
        except BaseException:
            self.close()
            raise

    # --- assignment -----------------------------------------------------------------------

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return Partitions(self._positions)

    def assign(self, partitions: Iterable[PartitionLike]) -> None:
        """Replace the assignment; partitions that stay assigned keep their positions.

        Partitions that a topic gets later are not added. Raises UnknownTopicOrPartitionError,
        GroupConflictError; then nothing has changed.
        """
        with self._lock:
            self._check()
            self._assign(dict.fromkeys(as_topic_partition(tp) for tp in partitions))
            self._topics = ()

    def _assign(self, wanted: Iterable[TopicPartition]) -> None:
        present = {
            topic: frozenset(self._existing(topic)) for topic in {each for each, _ in wanted}
        }
        for topic, partition in wanted:
            if partition not in present[topic]:
                raise UnknownTopicOrPartitionError(
                    f"topic {topic!r} has no partition {partition!r} here"
                )
        claimed: list[TopicPartition] = []
        self._check_members()
        if self._group is not None:
            try:
                for tp in wanted:
                    if tp not in self._positions:
                        self._group.claims.take(tp)
                        claimed.append(tp)
            except BaseException:
                for tp in claimed:
                    self._group.claims.release(tp)
                raise
            for tp in self._positions.keys() - set(wanted):
                self._group.claims.release(tp)
        self._positions = {tp: self._positions.get(tp) for tp in wanted}
        self._topic_ids = {
            topic: self._topic_ids.get(topic, self._store._manager.identities.identity_of(topic))
            for topic in present
        }
        self._paused &= self._positions.keys()

    def _existing(self, topic: str) -> tuple[int, ...]:
        return self._store.topic(topic).partitions

    def _follow_metadata(self) -> None:
        """Apply the changes of topics since the last call."""
        if not self._metadata.has_changed():
            return
        replaced = {
            topic
            for topic, known in self._topic_ids.items()
            if topic in self._store._catalog.topics
            and not self._store._manager.identities.is_same(topic, known)
        }
        for topic in replaced:
            self._restart_topic(topic)
        for topic in self._topics:
            for partition in self._store._catalog.topics.get(topic, ()):
                tp = TopicPartition(topic, partition)
                if tp not in self._positions:
                    self._add(tp)
                    if topic in replaced:
                        self._positions[tp] = None

    def _restart_topic(self, topic: str) -> None:
        """Reset the positions in a topic that was deleted and recreated.

        Kafka's consumer gets UNKNOWN_TOPIC_ID (KIP-516), refreshes its metadata and continues at
        its old position, which it resets only if it is out of range; it misses the new topic's
        records below that position.
        """
        self._topic_ids[topic] = self._store._manager.identities.identity_of(topic)
        present = self._store._catalog.topics[topic]
        tps = [tp for tp in self._positions if tp.topic == topic]
        _LOGGER.warning(
            "topic %s was deleted and recreated: its partitions (%s) are read from their committed "
            "offsets, or by auto.offset.reset=%s",
            topic, ", ".join(str(tp.partition) for tp in tps), self._reset,
        )  # fmt: skip
        for tp in tps:
            self._outcomes.pop(tp, None)
            self._ends.pop(tp, None)
            self._positions[tp] = None
            if topic in self._topics and tp.partition not in present:
                del self._positions[tp]
                self._paused.discard(tp)
                if self._group is not None:
                    self._group.claims.release(tp)

    def _add(self, tp: TopicPartition) -> None:
        """Start reading a partition that was added later, from its beginning.

        This ignores ``auto_offset_reset``, because all its records were appended while this
        consumer was reading the topic. Kafka's consumer uses ``auto.offset.reset``, and with
        ``latest`` misses the records appended before it saw the partition (KAFKA-12478).
        """
        if self._group is not None:
            try:
                self._group.claims.take(tp)
            except GroupConflictError as error:
                _LOGGER.warning("a new partition is skipped: %s", error)
                return
        start = self._committed(tp)
        if start is None and self._reset != "none":
            start = self._log(tp).start_offset
        self._positions[tp] = start

    def pause(self, *partitions: PartitionLike) -> None:
        """Skip these partitions (all if none is given) until ``resume``, which keeps positions."""
        with self._lock:
            self._paused |= self._known(partitions)

    def resume(self, *partitions: PartitionLike) -> None:
        with self._lock:
            self._paused -= self._known(partitions)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(self._paused)

    # --- reading --------------------------------------------------------------------------

    def poll(
        self, max_records: int | None = None, timeout: float = 0.0, **unknown: Never
    ) -> dict[TopicPartition, list["Record"]]:
        """Up to max_records records by partition; waits up to timeout seconds for the first.

        Advances the positions; commit separately. Returns an empty dict after the timeout.
        """
        if unknown or isinstance(max_records, float):
            raise wrong_poll(max_records, unknown)
        wanted = self._max_poll_records
        if max_records is not None:
            wanted = check_integer("max_records", max_records)
        if wanted < 1:
            raise InvalidConfigError(f"max_records is at least 1, as max.poll.records: {wanted!r}")
        found = PolledRecords()
        batch = self._next_batch(wanted, timeout)
        while batch is not None:
            tp = TopicPartition(batch.topic, batch.partition)
            found.setdefault(tp, []).extend(batch)
            wanted -= len(batch)
            batch = self._next_batch(wanted, 0.0) if wanted > 0 else None
        return found

    def batches(self, timeout: float | None = None) -> Iterator[ConsumerBatch]:
        """Batches of up to ``max_poll_records`` records, from each partition in turn.

        Waits for more at the end; ends after timeout seconds without records (None: never), or
        when the consumer is closed.
        """
        while True:
            try:
                batch = self._next_batch(self._max_poll_records, timeout)
            except ClosedError:
                if self._closed:
                    return
                raise
            if batch is None:
                return
            yield batch

    def __iter__(self) -> Iterator[ConsumerBatch]:
        return self.batches(self._timeout)

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
                if not self._step(tp, position, record.offset + 1):
                    break
                position = record.offset + 1
                yield record
            else:
                self._step(tp, position, batch.stop_offset)

    def _step(self, tp: TopicPartition, position: int, following: int) -> bool:
        """Change a position within a batch; False if the caller of ``records`` has changed it."""
        with self._lock:
            if self._closed or tp in self._paused or self._positions.get(tp) != position:
                return False
            self._positions[tp] = following
            return True

    def lag(self) -> dict[TopicPartition, int]:
        """The lag of each assigned partition in offsets: Kafka's records-lag.

        From the position to the log end, or with read_committed to the last stable offset.
        Negative if the log was truncated below the position. Raises OffsetOutOfRangeError for a
        partition without a position if ``auto_offset_reset="none"``.
        """
        with self._lock:
            self._check()
            self._follow_metadata()
            return {tp: self._end(self._log(tp)) - self._position(tp) for tp in self._positions}

    def _next_batch(self, count: int, timeout: float | None) -> ConsumerBatch | None:
        end = None if timeout is None else monotonic() + timeout
        pause, retries = _PAUSE_MIN, _RETRIES
        while True:
            with self._lock:
                self._check()
                self._check_members()
                self._follow_metadata()
                if not self._positions:
                    raise nothing_to_read()
                try:
                    batch = self._take_turn(count)
                    single = self._single_log()
                except (ClosedError, UnknownTopicOrPartitionError):
                    retries -= 1
                    if retries < 0 or not self._is_overtaken():
                        raise
                    continue
                if self._metadata.is_old:  # the records may be of a deleted topic
                    if batch is not None:
                        tp = TopicPartition(batch.topic, batch.partition)
                        self._positions[tp] = batch.start_offset
                    continue
            if batch is not None:
                return batch
            left = _PAUSE_MAX if end is None else min(_PAUSE_MAX, end - monotonic())
            if left <= 0:
                return None
            if single is not None:
                single[0].wait_beyond(single[1], left)
            else:
                self._stopped.wait(min(pause, left))
                pause = min(pause * 2, _PAUSE_MAX)

    def _is_overtaken(self) -> bool:
        """Whether a topic has changed meanwhile, which may explain an error."""
        self._store._check()
        if self._metadata.is_old:
            return True
        before = self._store._catalog.version
        self._store._follow_writer()
        return self._store._catalog.version != before

    def _single_log(self) -> tuple["Log", int] | None:
        """The log to wait on and its end offset, if only one partition is read."""
        active = [tp for tp in self._positions if tp not in self._paused]
        return (self._log(active[0]), self._ends[active[0]]) if len(active) == 1 else None

    def _take_turn(self, count: int) -> ConsumerBatch | None:
        """Records of the next partition that has some."""
        tps = [tp for tp in self._positions if tp not in self._paused]
        for step in range(len(tps)):
            turn = (self._turn + step) % len(tps)
            if (batch := self._read(tps[turn], count)) is not None:
                self._turn = turn + 1
                return batch
        return None

    def _read(self, tp: TopicPartition, count: int) -> ConsumerBatch | None:
        log = self._log(tp)
        position = self._position(tp)
        end = self._ends[tp] = log.end_offset
        if not log.start_offset <= position <= end:
            position = self._reset_position(tp, position)
        start, end = position, min(end, self._end(log))
        while position < end:
            stop = min(position + count, end)  # compaction leaves gaps: there may be no records
            records = list(self._view(tp, log, position, stop))
            if log.start_offset > position and not (records and records[0].offset == position):
                return self._read(tp, count)  # deleted meanwhile: resets the position, or raises
            self._positions[tp] = position = stop
            if records:
                name_partition(records, tp.topic, tp.partition)
                return ConsumerBatch(self, tp, records, start, stop)
        return None

    def _end(self, log: "Log") -> int:
        """The last stable offset with read_committed, else the log end offset."""
        return log.last_stable_offset if self._committed_only else log.end_offset

    def _view(self, tp: TopicPartition, log: "Log", start: int, stop: int) -> "LogView":
        if not self._committed_only:
            return log.view(start, stop)
        from kstore.log.view import LogView

        outcomes = self._outcomes.setdefault(tp, TransactionOutcomes(log))
        return LogView(log, start, stop, isolation=self.isolation_level, outcomes=outcomes)

    def _position(self, tp: TopicPartition) -> int:
        position = self._positions[tp]
        if position is None:
            committed = self._committed(tp)
            position = self._reset_position(tp) if committed is None else committed
            self._positions[tp] = position
        return position

    def _reset_position(self, tp: TopicPartition, lost: int | None = None) -> int:
        log = self._log(tp)
        if self._reset == "none":
            what = "nothing is committed" if lost is None else "the position is outside the log"
            raise OffsetOutOfRangeError(
                f"{what} for {tp.topic}-{tp.partition}, which holds offsets from "
                f"{log.start_offset} to {log.end_offset}, and auto.offset.reset is none",
                path=log.path,
                offset=lost,
            )
        position = log.start_offset if self._reset == "earliest" else self._end(log)
        if lost is not None:
            _LOGGER.warning(
                "offset %d is out of range: %s-%d holds offsets from %d up to %d; it is read from "
                "offset %d on (auto.offset.reset=%s)",
                lost, tp.topic, tp.partition, log.start_offset, log.end_offset,
                position, self._reset,
            )  # fmt: skip
        self._positions[tp] = position
        return position

    def _rewind(self, tp: TopicPartition, start: int, stop: int, topic_id: str | None) -> None:
        """Reset the position to a failed batch, unless the position has changed since."""
        with self._lock:
            if self._positions.get(tp) == stop and self._topic_ids[tp.topic] == topic_id:
                self._positions[tp] = start

    # --- committed offsets ----------------------------------------------------------------

    def commit(
        self,
        offsets: Mapping[PartitionLike, int] | None = None,
        *,
        metadata: str = "",
        **unknown: Never,
    ) -> None:
        """Commit the next offset to read, of the given partitions or of all with a position.

        Raises InvalidConfigError for a consumer without a group, or metadata beyond 4096 bytes;
        UnknownTopicIdError if a topic was deleted since its records were read: then nothing is
        committed. TypeError for offsets that are no mapping.
        """
        if unknown or not (offsets is None or isinstance(offsets, Mapping)):
            raise wrong_commit(offsets, unknown)
        self._commit(offsets, metadata, None)

    def _commit(
        self, offsets: Mapping[PartitionLike, int] | None, metadata: str, topic_ids: TopicIds | None
    ) -> None:
        """Commit offsets in topics with these identities; None: the assigned ones."""
        from kstore.coordinator.group.store_group import check_offset

        with self._lock:
            self._check()
            if self._group is None:
                raise InvalidConfigError("a consumer without a group cannot commit")
            if len(metadata.encode()) > METADATA_MAX_BYTES:
                raise InvalidConfigError(
                    f"the metadata of a committed offset has at most {METADATA_MAX_BYTES} bytes"
                )
            if offsets is None:
                wanted = {
                    tp: position for tp, position in self._positions.items() if position is not None
                }
            else:
                self._known(offsets)
                wanted = {
                    as_topic_partition(tp): check_offset(each) for tp, each in offsets.items()
                }
            if wanted:
                self._group.commit(
                    {tp: OffsetCommit(each, -1, metadata) for tp, each in wanted.items()},
                    self._topic_ids if topic_ids is None else topic_ids,
                )

    def _committed(self, tp: TopicPartition) -> int | None:
        with self._lock:
            self._check()
            if self._group is None:
                return None
            commit = self._group.fetch(tp)
            return None if commit is None else commit.offset

    def close(self) -> None:
        """Release the partitions; commits nothing. A second call does nothing."""
        self._closed = True
        self._stopped.set()
        with self._lock:
            if self._group is not None:
                self._group.claims.release_all()

    def __del__(self) -> None:
        """Release the partitions, and warn. Takes no lock: it may interrupt code that holds one."""
        if not self._closed and self._group is not None and self._group.claims.release_all():
            warnings.warn(
                f"{self!r} was not closed: use `with store.consumer(...) as consumer:`",
                ResourceWarning,
                stacklevel=1,
            )

    def _after_fork(self) -> None:
        """In a forked child: the claims are shared with the parent and must not outlive it."""
        self._closed = True
        if self._group is not None:
            self._group.claims.release_all()

    def _check(self) -> None:
        if self._closed:
            self._store._check()  # raises if the store is closed or forked
            raise ClosedError("the consumer is closed")

    def _log(self, tp: TopicPartition) -> "Log":
        return self._store._log(tp.topic, tp.partition)

    def _known(self, partitions: Iterable[PartitionLike]) -> set[TopicPartition]:
        self._check()
        wanted = {as_topic_partition(tp) for tp in partitions} or set(self._positions)
        for tp in wanted - self._positions.keys():
            raise UnknownTopicOrPartitionError(
                f"partition {tp.topic}-{tp.partition} is not assigned to this consumer"
            )
        return wanted

    if not TYPE_CHECKING:  # which would take it for a method that works
        __aiter__ = no_asyncio(CONSUMER_IN_ASYNCIO)

    def __repr__(self) -> str:
        group = "" if self._group is None else f" {self._group.name!r}"
        tps = ", ".join(f"{topic}-{partition}" for topic, partition in self._positions)
        return f"<kstore.Consumer{group} of {tps or 'nothing'}{' closed' * self._closed}>"

    def __enter__(self) -> "Consumer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> "Consumer":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it without blocking the event loop."""
        await run_in_thread(self.close)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a Consumer cannot be pickled; create one where it is needed")


answer_names(Consumer, OF_CONSUMERS)
