"""The positions of a consumer: asked, and moved by offset, time or commit."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, overload

from kstore.errors import OffsetOutOfRangeError
from kstore.integers import check_integer
from kstore.topic_partition import PartitionLike, TopicPartition, as_topic_partition

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.store.store import Store

_PAIR = "a partition is a pair, or two arguments: position(('orders', 0)), position('orders', 0)"


class _Positions:
    """The methods of :class:`kstore.Consumer` about positions. Thread safe."""

    _lock: Any  # an RLock, which is a function for type checkers
    _positions: dict[TopicPartition, int | None]
    _store: "Store"
    isolation_level: str

    if TYPE_CHECKING:

        def _committed(self, tp: TopicPartition) -> int | None: ...
        def _end(self, log: Log) -> int: ...
        def _known(self, partitions: Iterable[PartitionLike]) -> set[TopicPartition]: ...
        def _log(self, tp: TopicPartition) -> Log: ...
        def _position(self, tp: TopicPartition) -> int: ...

    @overload
    def position(self, partition: PartitionLike, /) -> int: ...
    @overload
    def position(self, topic: str, partition: int, /) -> int: ...
    def position(self, *partition: Any) -> int:
        """The offset that is read next: ``position(("orders", 0))``, or ``position("orders", 0)``.

        Raises OffsetOutOfRangeError if nothing is committed and ``auto_offset_reset="none"``.
        """
        wanted = _pair(partition)
        with self._lock:
            (tp,) = self._known((wanted,))
            return self._position(tp)

    def positions(self) -> dict[TopicPartition, int]:
        """The positions of the assigned partitions, as far as known."""
        with self._lock:
            return {tp: at for tp, at in self._positions.items() if at is not None}

    @overload
    def seek(self, partition: PartitionLike, offset: int) -> None: ...
    @overload
    def seek(self, topic: str, partition: int, offset: int, /) -> None: ...
    def seek(self, *partition: Any, **named: Any) -> None:
        """Continue at an offset; the next read detects one outside the log.

        ``seek(("orders", 0), 1000)``, or ``seek("orders", 0, 1000)``.
        """
        wanted, at = _pair_and_offset(partition, named)
        offset = check_integer("offset", at)
        if offset < 0:
            raise OffsetOutOfRangeError(f"cannot seek to {offset!r}", path=self._store.paths[0])
        with self._lock:
            (tp,) = self._known((wanted,))
            self._positions[tp] = offset

    def seek_to_beginning(self, *partitions: PartitionLike) -> None:
        self._seek_each(partitions, lambda log: log.start_offset)

    def seek_to_end(self, *partitions: PartitionLike) -> None:
        self._seek_each(partitions, self._end)

    def seek_to_time(self, when: datetime | int, *partitions: PartitionLike) -> None:
        """Continue at the first record at or after a time (an aware datetime, or Unix ms)."""
        self._seek_each(partitions, lambda log: log.offset_at(when, isolation=self.isolation_level))

    def seek_to_committed(self, *partitions: PartitionLike) -> None:
        """Continue at the group's committed offsets, else according to ``auto_offset_reset``."""
        with self._lock:
            for tp in self._known(partitions):
                self._positions[tp] = None

    def _seek_each(
        self, partitions: Iterable[PartitionLike], offset: Callable[["Log"], int]
    ) -> None:
        with self._lock:
            for tp in self._known(partitions):
                self._positions[tp] = offset(self._log(tp))

    @overload
    def committed(self, partition: PartitionLike, /) -> int | None: ...
    @overload
    def committed(self, topic: str, partition: int, /) -> int | None: ...
    def committed(self, *partition: Any) -> int | None:
        """The group's committed offset of a partition, None if there is none."""
        return self._committed(_pair(partition))


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
