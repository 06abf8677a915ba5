"""The positions of a consumer: asked, and moved by offset, time or commit."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kstore.client.assignment import Assignment
from kstore.client.fetcher import Fetcher
from kstore.errors import OffsetOutOfRangeError
from kstore.integers import check_integer
from kstore.topic_partition import (
    PartitionArgument,
    TopicPartition,
    as_topic_partition,
)

if TYPE_CHECKING:
    from kstore.log.log import Log

_PAIR = "a partition is a pair, or two arguments: position(('orders', 0)), position('orders', 0)"


class ConsumerPositions:
    """The methods of :class:`kstore.Consumer` about positions. Thread safe.

    ``lock`` is the consumer's.
    """

    def __init__(
        self, lock: Any, assignment: Assignment, fetcher: Fetcher, wake: Callable[[], object]
    ) -> None:
        self._lock = lock  # an RLock, which is a function for type checkers
        self._assignment = assignment
        self._fetcher = fetcher
        self._wake = wake  # another thread that waits for records

    def _known(self, partitions: Iterable[PartitionArgument]) -> set[TopicPartition]:
        self._wake()  # it looks when this thread has released the lock
        self._fetcher.check_open()
        return self._assignment.known(partitions)

    def position(self, arguments: tuple[Any, ...]) -> int:
        wanted = _pair(arguments)
        with self._lock:
            (tp,) = self._known((wanted,))
            return self._fetcher.position(tp)

    def positions(self) -> dict[TopicPartition, int]:
        with self._lock:
            return self._assignment.positions()

    def pause(self, partitions: Iterable[PartitionArgument], *, paused: bool) -> None:
        with self._lock:
            for tp in self._known(partitions):
                self._assignment[tp].is_paused = paused

    def paused(self) -> frozenset[TopicPartition]:
        with self._lock:
            return self._assignment.paused()

    def seek(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        wanted, at = _pair_and_offset(arguments, named)
        offset = check_integer("offset", at)
        if offset < 0:
            raise OffsetOutOfRangeError(f"cannot seek to {offset!r}", path=self._fetcher.path)
        with self._lock:
            (tp,) = self._known((wanted,))
            self._assignment[tp].seek(offset)

    def seek_to_beginning(self, partitions: Iterable[PartitionArgument]) -> None:
        self._seek_each(partitions, lambda log: log.start_offset)

    def seek_to_end(self, partitions: Iterable[PartitionArgument]) -> None:
        self._seek_each(partitions, self._fetcher.end)

    def seek_to_time(self, when: datetime | int, partitions: Iterable[PartitionArgument]) -> None:
        level = self._fetcher.isolation_level
        self._seek_each(partitions, lambda log: log.offset_at(when, isolation=level))

    def seek_to_committed(self, partitions: Iterable[PartitionArgument]) -> None:
        with self._lock:
            for tp in self._known(partitions):
                self._assignment[tp].seek(None)

    def _seek_each(
        self, partitions: Iterable[PartitionArgument], offset: Callable[["Log"], int]
    ) -> None:
        with self._lock:
            for tp in self._known(partitions):
                self._assignment[tp].seek(offset(self._fetcher.log(tp)))

    def committed(self, arguments: tuple[Any, ...]) -> int | None:
        wanted = _pair(arguments)
        with self._lock:
            self._fetcher.check_open()
            return self._fetcher.committed(wanted)

    def lag(self) -> dict[TopicPartition, int]:
        """The offsets from each position to the end; the caller has followed the topics."""
        return {
            tp: self._fetcher.end(self._fetcher.log(tp)) - self._fetcher.position(tp)
            for tp in list(self._assignment)
        }


def _pair(arguments: tuple[Any, ...]) -> TopicPartition:
    """The partition that one argument, a pair, or two name; TypeError for others."""
    if len(arguments) == 1:
        return as_topic_partition(arguments[0])
    if len(arguments) == 2 and isinstance(arguments[0], str):
        return as_topic_partition(arguments)
    raise TypeError(_PAIR)


def _pair_and_offset(
    arguments: tuple[Any, ...], named: dict[str, Any]
) -> tuple[TopicPartition, Any]:
    """The partition and the offset of a seek."""
    if set(named) - {"partition", "offset"}:
        name = min(set(named) - {"partition", "offset"})
        raise TypeError(f"seek() has no {name}=: seek(('orders', 0), 1000)")
    given = list(arguments)
    if len(given) < 2 and "partition" in named:
        given.append(named["partition"])
    if "offset" in named:
        given.append(named["offset"])
    if len(given) not in (2, 3) or len(given) != len(arguments) + len(named):
        raise TypeError("seek() takes a partition and an offset: seek(('orders', 0), 1000)")
    return _pair(tuple(given[:-1])), given[-1]
