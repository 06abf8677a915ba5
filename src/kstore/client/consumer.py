"""A consumer: assigned partitions, positions in them, and committed offsets of a group."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from threading import Event, RLock
from time import monotonic
from typing import TYPE_CHECKING

from kstore.client.metadata import MetadataView
from kstore.coordinator.group.messages import METADATA_MAX_BYTES, OffsetCommit
from kstore.coordinator.group.offsets import TopicIds
from kstore.errors import (
    ClosedError,
    GroupConflictError,
    InvalidConfigError,
    OffsetOutOfRangeError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kstore.integers import check_integer, check_integer_setting
from kstore.log.read_committed import Outcomes, check_isolation
from kstore.topic_partition import TopicPartition, as_place

if TYPE_CHECKING:
    from kstore.coordinator.group.committed_offsets import StoreGroup
    from kstore.log.log import Log
    from kstore.log.view import LogView
    from kstore.record import Record
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")

RESETS = ("earliest", "latest", "none")
_PAUSE_MIN = 0.0005  # between looks at several partitions, growing to the maximum while idle
_PAUSE_MAX = 0.02
_RETRIES = 3  # where a topic was deleted, and made again, in the middle of a poll

Place = TopicPartition | tuple[str, int]


class ConsumerBatch:
    """Records of one partition, from ``start_offset`` up to and without ``stop_offset``.

    Iterating gives :class:`kstore.Record`; ``view`` is the same window as columns or Arrow.
    As a context manager it is at-least-once delivery: leaving the block commits ``stop_offset``;
    leaving it by an exception commits nothing and puts the consumer back to ``start_offset``.
    Where the topic was deleted since, and made again, the batch stays one of the old topic:
    committing it and ``view`` raise UnknownTopicIdError.
    Immutable; safe to share between threads.
    """

    __slots__ = (
        "_consumer", "_records", "_topic_id", "partition", "start_offset", "stop_offset", "topic",
    )  # fmt: skip

    def __init__(
        self, consumer: "Consumer", place: TopicPartition, records: list["Record"],
        start_offset: int, stop_offset: int,
    ) -> None:  # fmt: skip
        self._consumer = consumer
        self._records = records
        self._topic_id = consumer._topic_ids[place.topic]
        self.topic, self.partition = place
        self.start_offset = start_offset
        self.stop_offset = stop_offset

    @property
    def view(self) -> "LogView":
        """The records as a view of the log: ``scan()``, ``to_arrow()``."""
        log = self._consumer._log(TopicPartition(self.topic, self.partition))
        if not self._consumer._is_same_topic(self.topic, self._topic_id):  # once the log is there
            raise UnknownTopicIdError(
                f"topic {self.topic!r} was deleted since this batch was read: what has its name "
                "now is another topic. The batch itself has the records",
                path=log.path,
            )
        return log.view(
            self.start_offset, self.stop_offset, isolation=self._consumer.isolation_level
        )

    def __iter__(self) -> Iterator["Record"]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __enter__(self) -> "ConsumerBatch":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        place = TopicPartition(self.topic, self.partition)
        if kind is None:
            self._consumer._commit({place: self.stop_offset}, "", {self.topic: self._topic_id})
        else:
            self._consumer._rewind(place, self.start_offset, self.stop_offset, self._topic_id)

    def __repr__(self) -> str:
        return (
            f"<kstore.ConsumerBatch {self.topic}-{self.partition} "
            f"[{self.start_offset}, {self.stop_offset})>"
        )


class Consumer:
    """Reads assigned partitions; made by :meth:`kstore.Store.consumer`.

    There is no balancing between members: who reads what is given, and a partition that another
    consumer of the group reads, in this process or another, raises GroupConflictError.
    Reading starts at the group's committed offset, else where ``auto_offset_reset`` says.

    Safe to share between threads, one call at a time.
    """

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
        self._topics = tuple(dict.fromkeys(topics))  # whose later partitions are read as well
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
        self._topic_ids: TopicIds = {}  # of the topics that the positions are in
        self._outcomes: dict[TopicPartition, Outcomes] = {}
        self._ends: dict[TopicPartition, int] = {}  # log ends at the last look
        self._paused: set[TopicPartition] = set()
        self._turn = 0
        try:
            here = [TopicPartition(each, n) for each in self._topics for n in self._here(each)]
            self._assign(dict.fromkeys([*here, *assignment]))
        except BaseException:
            self.close()
            raise

    # --- what is read ---------------------------------------------------------------------

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._positions)

    def assign(self, partitions: Iterable[Place]) -> None:
        """Read these partitions and no others from now on; positions of those kept stay.

        Partitions that a topic gets later are not added to them. Raises
        UnknownTopicOrPartitionError, GroupConflictError; then nothing has changed.
        """
        with self._lock:
            self._check()
            self._assign(dict.fromkeys(as_place(place) for place in partitions))
            self._topics = ()

    def _assign(self, wanted: Iterable[TopicPartition]) -> None:
        here = {topic: frozenset(self._here(topic)) for topic in {each for each, _ in wanted}}
        for topic, partition in wanted:
            if partition not in here[topic]:
                raise UnknownTopicOrPartitionError(
                    f"topic {topic!r} has no partition {partition!r} here"
                )
        claimed: list[TopicPartition] = []
        if self._group is not None:
            try:
                for place in wanted:
                    if place not in self._positions:
                        self._group.claims.take(place)
                        claimed.append(place)
            except BaseException:
                for place in claimed:
                    self._group.claims.release(place)
                raise
            for place in self._positions.keys() - set(wanted):
                self._group.claims.release(place)
        self._positions = {place: self._positions.get(place) for place in wanted}
        self._topic_ids = {
            topic: self._topic_ids.get(topic, self._store._manager.identities.identity_of(topic))
            for topic in here
        }
        self._paused &= self._positions.keys()

    def _here(self, topic: str) -> tuple[int, ...]:
        return self._store.topic(topic).partitions

    def _follow_metadata(self) -> None:
        """Take over what has become of the topics since the last look."""
        if not self._metadata.has_changed():
            return
        replaced = {
            topic
            for topic, known in self._topic_ids.items()
            if topic in self._store._catalog.places
            and not self._store._manager.identities.is_same(topic, known)
        }
        for topic in replaced:
            self._begin_again(topic)
        for topic in self._topics:
            for partition in self._store._catalog.places.get(topic, ()):
                place = TopicPartition(topic, partition)
                if place not in self._positions:
                    self._add(place)
                    if topic in replaced:
                        self._positions[place] = None

    def _begin_again(self, topic: str) -> None:
        """The topic was deleted and made again: positions and offsets of the old one are void.

        Kafka's consumer learns it from UNKNOWN_TOPIC_ID (KIP-516), looks at the metadata again
        and goes on at its old position, which is reset only where it is out of range; the new
        topic's records in front of it are missed.
        """
        self._topic_ids[topic] = self._store._manager.identities.identity_of(topic)
        here = self._store._catalog.places[topic]
        places = [place for place in self._positions if place.topic == topic]
        _LOGGER.warning(
            "topic %s was deleted and made again: its partitions %s are read from their committed "
            "offsets, or by auto.offset.reset=%s",
            topic, ", ".join(str(place.partition) for place in places), self._reset,
        )  # fmt: skip
        for place in places:
            self._outcomes.pop(place, None)
            self._ends.pop(place, None)
            self._positions[place] = None
            if topic in self._topics and place.partition not in here:
                del self._positions[place]
                self._paused.discard(place)
                if self._group is not None:
                    self._group.claims.release(place)

    def _add(self, place: TopicPartition) -> None:
        """Read a partition that its topic got later, from its beginning on.

        Whatever ``auto_offset_reset`` is: all its records came while this consumer was reading
        the topic. Kafka's consumer goes by ``auto.offset.reset``, and with ``latest`` misses
        those that came before it saw the partition (KAFKA-12478).
        """
        if self._group is not None:
            try:
                self._group.claims.take(place)
            except GroupConflictError as error:
                _LOGGER.warning("a new partition is left out: %s", error)
                return
        start = self.committed(place)
        if start is None and self._reset != "none":
            start = self._log(place).start_offset
        self._positions[place] = start

    def pause(self, *partitions: Place) -> None:
        """Leave these out (all, if none is named) until ``resume``; positions stay."""
        with self._lock:
            self._paused |= self._known(partitions)

    def resume(self, *partitions: Place) -> None:
        with self._lock:
            self._paused -= self._known(partitions)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(self._paused)

    # --- where ----------------------------------------------------------------------------

    def position(self, partition: Place) -> int:
        """The offset that is read next.

        Raises OffsetOutOfRangeError where nothing is committed and ``auto_offset_reset="none"``.
        """
        with self._lock:
            (place,) = self._known((partition,))
            return self._position(place)

    def positions(self) -> dict[TopicPartition, int]:
        """The positions of all assigned partitions that are known by now."""
        with self._lock:
            return {place: at for place, at in self._positions.items() if at is not None}

    def seek(self, partition: Place, offset: int) -> None:
        """Read on from offset; what lies outside the log is seen when it is read."""
        offset = check_integer("offset", offset)
        if offset < 0:
            raise OffsetOutOfRangeError(f"cannot seek to {offset!r}", path=self._store.paths[0])
        with self._lock:
            (place,) = self._known((partition,))
            self._positions[place] = offset

    def seek_to_beginning(self, *partitions: Place) -> None:
        self._seek_each(partitions, lambda log: log.start_offset)

    def seek_to_end(self, *partitions: Place) -> None:
        self._seek_each(partitions, self._end)

    def seek_to_time(self, when: datetime | int, *partitions: Place) -> None:
        """Read on from the first record at or after a moment (an aware datetime, or ms)."""
        self._seek_each(partitions, lambda log: log.offset_at(when, isolation=self.isolation_level))

    def seek_to_committed(self, *partitions: Place) -> None:
        """Read on from the group's committed offsets; where there is none, from the reset's."""
        with self._lock:
            for place in self._known(partitions):
                self._positions[place] = None

    def _seek_each(self, partitions: Iterable[Place], offset: Callable[["Log"], int]) -> None:
        with self._lock:
            for place in self._known(partitions):
                self._positions[place] = offset(self._log(place))

    # --- reading --------------------------------------------------------------------------

    def poll(
        self, max_records: int | None = None, timeout: float = 0.0
    ) -> dict[TopicPartition, list["Record"]]:
        """Up to max_records records by partition; waits up to timeout seconds for the first.

        Moves the positions on; commit separately. An empty dict when the time is over.
        """
        wanted = self._max_poll_records
        if max_records is not None:
            wanted = check_integer("max_records", max_records)
        if wanted < 1:
            raise InvalidConfigError(f"max_records is at least 1, as max.poll.records: {wanted!r}")
        found: dict[TopicPartition, list[Record]] = {}
        batch = self._next_batch(wanted, timeout)
        while batch is not None:
            place = TopicPartition(batch.topic, batch.partition)
            found.setdefault(place, []).extend(batch)
            wanted -= len(batch)
            batch = self._next_batch(wanted, 0.0) if wanted > 0 else None
        return found

    def batches(self, timeout: float | None = None) -> Iterator[ConsumerBatch]:
        """Batches of up to ``max_poll_records`` records, partition after partition.

        Waits for more at the end; ends after timeout seconds without any (None: never), or when
        the consumer is closed.
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

    def _next_batch(self, count: int, timeout: float | None) -> ConsumerBatch | None:
        end = None if timeout is None else monotonic() + timeout
        pause, retries = _PAUSE_MIN, _RETRIES
        while True:
            with self._lock:
                self._check()
                self._follow_metadata()
                if not self._positions:
                    raise InvalidConfigError(
                        "nothing to read: give the consumer topics=[...], or partitions by assign()"
                    )
                try:
                    batch = self._take_turn(count)
                    alone = self._alone()
                except (ClosedError, UnknownTopicOrPartitionError):
                    retries -= 1
                    if retries < 0 or not self._is_overtaken():
                        raise
                    continue
                if self._metadata.is_old:  # the records may be those of a topic that is gone
                    if batch is not None:
                        place = TopicPartition(batch.topic, batch.partition)
                        self._positions[place] = batch.start_offset
                    continue
            if batch is not None:
                return batch
            left = _PAUSE_MAX if end is None else min(_PAUSE_MAX, end - monotonic())
            if left <= 0:
                return None
            if alone is not None:
                alone[0].wait_beyond(alone[1], left)
            else:
                self._stopped.wait(min(pause, left))
                pause = min(pause * 2, _PAUSE_MAX)

    def _is_overtaken(self) -> bool:
        """Whether an error may be due to a topic that was deleted, and made again, meanwhile."""
        self._store._check()
        if self._metadata.is_old:
            return True
        before = self._store._catalog.version
        self._store._look_again()
        return self._store._catalog.version != before

    def _alone(self) -> tuple["Log", int] | None:
        """The log to sleep on and its end, where only one partition is read."""
        active = [place for place in self._positions if place not in self._paused]
        return (self._log(active[0]), self._ends[active[0]]) if len(active) == 1 else None

    def _take_turn(self, count: int) -> ConsumerBatch | None:
        """The next records of the next partition that has some."""
        places = [place for place in self._positions if place not in self._paused]
        for step in range(len(places)):
            turn = (self._turn + step) % len(places)
            batch = self._read(places[turn], count)
            if batch is not None:
                self._turn = turn + 1
                return batch
        return None

    def _read(self, place: TopicPartition, count: int) -> ConsumerBatch | None:
        log = self._log(place)
        position = self._position(place)
        end = self._ends[place] = log.end_offset
        if not log.start_offset <= position <= end:
            position = self._reset_position(place, position)
        start = position
        end = min(end, self._end(log))
        while position < end:
            # Offsets are labels: where compaction left gaps a window holds fewer, or none.
            stop = min(position + count, end)
            records = list(self._view(place, log, position, stop))
            self._positions[place] = position = stop
            if records:
                return ConsumerBatch(self, place, records, start, stop)
        return None

    def _end(self, log: "Log") -> int:
        """Where reading ends: at the last stable offset, or the log's end."""
        return log.last_stable_offset if self._committed_only else log.end_offset

    def _view(self, place: TopicPartition, log: "Log", start: int, stop: int) -> "LogView":
        if not self._committed_only:
            return log.view(start, stop)
        from kstore.log.view import LogView

        outcomes = self._outcomes.setdefault(place, Outcomes(log))
        return LogView(log, start, stop, isolation=self.isolation_level, outcomes=outcomes)

    def _position(self, place: TopicPartition) -> int:
        position = self._positions[place]
        if position is None:
            committed = self.committed(place)
            position = self._reset_position(place) if committed is None else committed
            self._positions[place] = position
        return position

    def _reset_position(self, place: TopicPartition, lost: int | None = None) -> int:
        log = self._log(place)
        if self._reset == "none":
            what = "nothing is committed" if lost is None else "the position is outside the log"
            raise OffsetOutOfRangeError(
                f"{what} for {place.topic}-{place.partition}, which holds offsets from "
                f"{log.start_offset} to {log.end_offset}, and auto.offset.reset is none",
                path=log.path,
                offset=lost,
            )
        position = log.start_offset if self._reset == "earliest" else self._end(log)
        if lost is not None:
            _LOGGER.warning(
                "offset %d is out of range: %s-%d holds offsets from %d up to %d; it is read from "
                "offset %d on (auto.offset.reset=%s)",
                lost, place.topic, place.partition, log.start_offset, log.end_offset,
                position, self._reset,
            )  # fmt: skip
        self._positions[place] = position
        return position

    def _rewind(self, place: TopicPartition, start: int, stop: int, topic_id: str | None) -> None:
        """Read a batch again that was not worked off, unless the caller went elsewhere since."""
        with self._lock:
            if self._positions.get(place) == stop and self._topic_ids[place.topic] == topic_id:
                self._positions[place] = start

    def _is_same_topic(self, topic: str, topic_id: str | None) -> bool:
        """Whether the topic of a name is the one that had this identity."""
        self._store._look_again()
        return self._store._manager.identities.is_same(topic, topic_id)

    # --- committed offsets ----------------------------------------------------------------

    def commit(self, offsets: Mapping[Place, int] | None = None, *, metadata: str = "") -> None:
        """Commit the next offset to read, of each partition given or of all that were read.

        Raises InvalidConfigError for a consumer without a group, or metadata beyond 4096 bytes;
        UnknownTopicIdError where a topic was deleted since its records were read, then nothing
        is committed.
        """
        self._commit(offsets, metadata, None)

    def _commit(
        self, offsets: Mapping[Place, int] | None, metadata: str, topic_ids: TopicIds | None
    ) -> None:
        """Commit offsets in topics of these identities; None: those that are being read."""
        from kstore.coordinator.group.committed_offsets import check_offset

        with self._lock:
            self._check()
            if self._group is None:
                raise InvalidConfigError("a consumer without a group has nowhere to commit")
            if len(metadata.encode()) > METADATA_MAX_BYTES:
                raise InvalidConfigError(
                    f"the metadata of a committed offset has at most {METADATA_MAX_BYTES} bytes"
                )
            if offsets is None:
                wanted = {
                    place: position
                    for place, position in self._positions.items()
                    if position is not None
                }
            else:
                self._known(offsets)
                wanted = {as_place(place): check_offset(each) for place, each in offsets.items()}
            if wanted:
                self._group.commit(
                    {place: OffsetCommit(each, -1, metadata) for place, each in wanted.items()},
                    self._topic_ids if topic_ids is None else topic_ids,
                )

    def committed(self, partition: Place) -> int | None:
        """The group's committed offset of a partition, None where there is none."""
        with self._lock:
            self._check()
            if self._group is None:
                return None
            commit = self._group.fetch().get(as_place(partition))
            return None if commit is None else commit.offset

    # --- the end --------------------------------------------------------------------------

    def close(self) -> None:
        """Give the partitions back; nothing is committed. Again is harmless."""
        self._closed = True
        self._stopped.set()
        with self._lock:
            if self._group is not None:
                self._group.claims.release_all()

    def _after_fork(self) -> None:
        """In a child: the claims are shared with the parent and must not outlive it."""
        self._closed = True
        if self._group is not None:
            self._group.claims.release_all()

    def _check(self) -> None:
        if self._closed:
            self._store._check()  # a closed or forked store says so itself
            raise ClosedError("the consumer is closed")

    def _log(self, place: TopicPartition) -> "Log":
        return self._store._log(place.topic, place.partition)

    def _known(self, partitions: Iterable[Place]) -> set[TopicPartition]:
        self._check()
        wanted = {as_place(place) for place in partitions} or set(self._positions)
        for place in wanted - self._positions.keys():
            raise UnknownTopicOrPartitionError(
                f"partition {place.topic}-{place.partition} is not assigned to this consumer"
            )
        return wanted

    def __repr__(self) -> str:
        group = "" if self._group is None else f" {self._group.name!r}"
        places = ", ".join(f"{topic}-{partition}" for topic, partition in self._positions)
        return f"<kstore.Consumer{group} of {places or 'nothing'}{' closed' * self._closed}>"

    def __enter__(self) -> "Consumer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a Consumer cannot be pickled; make one where it is needed")
