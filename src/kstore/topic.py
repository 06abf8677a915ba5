"""A topic: a sequence of logs, and the choice of the one that a record goes to."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from random import randrange
from typing import TYPE_CHECKING, NamedTuple

from kstore._native.keys import partition_for_key
from kstore.config import LogConfig
from kstore.errors import UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.store import Store

Headers = Sequence[tuple[str | bytes, bytes | None]]
# (key, value, number of partitions) -> partition
Partitioner = Callable[[bytes | None, bytes | None, int], int]


class Position(NamedTuple):
    """Where a record is: its partition and its offset there."""

    partition: int
    offset: int


class TopicPartition(NamedTuple):
    """A partition by name."""

    topic: str
    partition: int


def as_place(place: object) -> TopicPartition:
    """A partition by name, from any pair (topic, number)."""
    if isinstance(place, tuple | list) and len(place) == 2:
        topic, partition = place
        if isinstance(topic, str) and isinstance(partition, int):
            return TopicPartition(topic, partition)
    raise TypeError(f"a partition is named by a pair (topic, number), not {place!r}")


class StickyPartitioner:
    """Java's default: murmur2 of the key; without a key, one partition for a while.

    A record without a key goes where the last one went, until ``batch_size`` bytes are there;
    then another partition is drawn at random (KIP-794, without its weighing by queue length,
    which a local directory has no use for). Safe to share between threads: at worst a switch
    comes a record early or late.
    """

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._partition = -1
        self._left = 0

    def __call__(self, key: bytes | None, value: bytes | None, count: int) -> int:
        if key is not None:
            if isinstance(key, str):
                raise TypeError("a key is bytes, not str: encode it first, key.encode()")
            return partition_for_key(key, count)
        partition = self._partition
        if self._left <= 0 or partition >= count:
            partition = self._partition = _other(partition, count)
            self._left = self._batch_size
        self._left -= 1 if value is None else len(value) + 1
        return partition


def _other(partition: int, count: int) -> int:
    if count <= 1 or not 0 <= partition < count:
        return randrange(count)
    drawn = randrange(count - 1)
    return drawn + 1 if drawn >= partition else drawn


class Topic:
    """The partitions of one topic, as a sequence of :class:`kstore.Log`.

    ``topic[2]`` is the log of partition 2, opened on first use; ``len(topic)`` is the number of
    partitions; iterating gives the logs in order. In a directory of a Kafka broker that hosts
    only some partitions, or where a log directory is offline, the others are missing:
    ``partitions`` tells which are there, and the length is what ``kstore.topics`` says, else it
    counts up to the highest that is there. Safe to share between threads.
    """

    def __init__(
        self, store: "Store", name: str, partitions: Iterable[int], count: int = 0
    ) -> None:
        self._store = store
        self.name = name
        self.partitions = tuple(sorted(partitions))
        """The partitions that are here, ascending."""
        self._length = max(self.partitions[-1] + 1, count)
        self._partitioner: Partitioner | None = None

    @property
    def store(self) -> "Store":
        return self._store

    @property
    def config(self) -> LogConfig:
        """The topic's settings; those of the store where it has none of its own."""
        return self._store._log_config(self.name)

    @property
    def topic_id(self) -> str | None:
        """Kafka's id of the topic (22 characters), None where the directory has none."""
        return self._store._topic_id(self.name)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator["Log"]:
        for partition in self.partitions:
            yield self._store._log(self.name, partition)

    def __contains__(self, log: object) -> bool:
        return any(log is own for own in self)

    def __getitem__(self, partition: int) -> "Log":
        """The log of a partition; -1 is the last one.

        Raises UnknownTopicOrPartitionError for a partition that is not here.
        """
        if not isinstance(partition, int):
            raise TypeError(f"a partition is a number, not {type(partition).__name__}")
        if partition < 0:
            partition += self._length
        return self._store._log(self.name, partition)

    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        timestamp: datetime | int | None = None,
        partition: int | None = None,
    ) -> Position:
        """Append one record and return where it is.

        The partition is the given one, else the partitioner's choice: murmur2 of the key as in
        Java's client, and for records without a key one partition at a time
        (:class:`StickyPartitioner`). Errors are those of :meth:`kstore.Log.append`, and
        UnknownTopicOrPartitionError for a partition that is not here.
        """
        if partition is None:
            partition = self.partition_for(key, value)
        log = self._store._log(self.name, partition)
        return Position(partition, log.append(value, key=key, headers=headers, timestamp=timestamp))

    def partition_for(self, key: bytes | None, value: bytes | None = None) -> int:
        """The partition that a record would go to."""
        if self._partitioner is None:
            self._partitioner = StickyPartitioner(self.config.batch_size)
        return choose(self._partitioner, key, value, self._length)

    def partition_by(self, partitioner: Partitioner | None) -> None:
        """Choose partitions by ``partitioner(key, value, count)``; None is Java's way again."""
        self._partitioner = partitioner

    def end_offsets(self) -> dict[int, int]:
        """The end offset of every partition, without keeping files open."""
        ends = self._store.end_offsets(self.name)
        return {place.partition: offset for place, offset in ends.items()}

    def flush(self) -> None:
        """Bring every log of the topic that was used to the disk."""
        for log in self._store._loaded(self.name):
            log.flush()

    def __repr__(self) -> str:
        return f"<kstore.Topic {self.name!r}, {len(self)} partitions>"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a Topic cannot be pickled; open the store where it is needed")


def choose(partitioner: Partitioner, key: bytes | None, value: bytes | None, count: int) -> int:
    """Ask a partitioner, and hold it to its range."""
    partition = partitioner(key, value, count)
    if not isinstance(partition, int) or not 0 <= partition < count:
        raise UnknownTopicOrPartitionError(
            f"the partitioner chose {partition!r}; there are partitions 0 to {count - 1}"
        )
    return partition
