"""Chooses the partition of a record: murmur2 of the key, else sticky (KIP-794).

The hash is native: ``_native/format/murmur2``.
"""

import inspect
from collections.abc import Callable, Sequence
from itertools import count as counter
from random import randrange

from kstore._native.format.murmur2 import partition_for_key
from kstore.errors import (
    InvalidConfigError,
    UnknownPartitionError,
    UnknownTopicOrPartitionError,
)
from kstore.integers import list_numbers

# (key, value, number of partitions) -> partition
Partitioner = Callable[[bytes | None, bytes | None, int], int]


class StickyPartitioner:
    """The Java client's default: murmur2 of the key; without a key, sticky.

    Records without a key go to one partition until it has received ``batch_size`` bytes, then to
    another random one (KIP-794, without its weighting by queue length, which a local directory
    does not need). Safe to share between threads: at worst a switch comes a record early or late.
    """

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._partition = -1
        self._left = 0

    def __call__(self, key: bytes | None, value: bytes | None, count: int) -> int:
        if key is not None:
            return partition_for_key(key, count)
        partition = self._partition
        if self._left <= 0 or partition >= count:
            partition = self._partition = _other(partition, count)
            self._left = self._batch_size
        try:
            self._left -= 1 if value is None else len(value) + 1
        except TypeError:  # not bytes: the append raises an error that explains values
            self._left -= 1
        return partition


class PartialTopicPartitioner:
    """The default for a topic of which a store has single partitions: without a key, sticky.

    Raises UnknownPartitionError for a key: its partition depends on the number of all partitions,
    which only the cluster knows. Safe to share between threads.
    """

    def __init__(self, batch_size: int, topic: str, present: Callable[[], Sequence[int]]) -> None:
        self._sticky = StickyPartitioner(batch_size)
        self._topic = topic
        self._present = present

    def __call__(self, key: bytes | None, value: bytes | None, count: int) -> int:
        present = self._present()
        if key is not None:
            raise UnknownPartitionError(
                f"the partition of a key depends on how many partitions topic {self._topic!r} has, "
                f"and the store has only {list_numbers(present)}: choose one with partition=, or "
                "partition_by() a function"
            )
        return present[self._sticky(None, value, len(present))]


class RoundRobinPartitioner:
    """One partition after the other, whatever the key: Kafka's RoundRobinPartitioner.

    Safe to share between threads.
    """

    def __init__(self) -> None:
        self._next = counter()

    def __call__(self, key: bytes | None, value: bytes | None, count: int) -> int:
        return next(self._next) % count


_SIGNATURE = (
    "a partitioner is called with the key, the value and the number of partitions, and returns a "
    "number: lambda key, value, count: len(key or b'') % count"
)
# The Java client's default has these names; murmur2_random is librdkafka's.
_DEFAULTS = ("default", "murmur2", "murmur2_random")
_NAMES = "'default' (murmur2 of the key, else sticky; also called 'murmur2') or 'round_robin'"


def as_partitioner(partitioner: Partitioner | str | None) -> Partitioner | None:
    """Check a partitioner that a caller gives; None stands for the topic's own.

    Raises InvalidConfigError for the name of none, and TypeError for a function of another
    signature, such as kafka-python's (key, all_partitions, available).
    """
    if partitioner is None or partitioner in _DEFAULTS:
        return None
    if isinstance(partitioner, str):
        if partitioner.replace("_", "").lower() == "roundrobin":
            return RoundRobinPartitioner()
        raise InvalidConfigError(
            f"a partitioner's name is {_NAMES}, not {partitioner!r}. Or a function: {_SIGNATURE}"
        )
    if not callable(partitioner):
        raise TypeError(f"{_SIGNATURE}; not a {type(partitioner).__name__}")
    if isinstance(partitioner, type):
        raise TypeError(f"{partitioner.__name__} is a class, not a partitioner: {_SIGNATURE}")
    try:
        signature = inspect.signature(partitioner)
    except (TypeError, ValueError):  # a builtin does not say
        return partitioner
    try:
        names = list(signature.bind(None, None, 1).arguments)
    except TypeError:
        raise TypeError(f"{_SIGNATURE}; not {signature}") from None
    if len(names) == 3 and (names[1].startswith("all") or "part" in names[1]):
        raise TypeError(f"{_SIGNATURE}; not kafka-python's {signature}")
    return partitioner


def _other(partition: int, count: int) -> int:
    if count <= 1 or not 0 <= partition < count:
        return randrange(count)
    drawn = randrange(count - 1)
    return drawn + 1 if drawn >= partition else drawn


def choose(partitioner: Partitioner, key: bytes | None, value: bytes | None, count: int) -> int:
    """Call a partitioner and check its result."""
    partition = partitioner(key, value, count)
    if not isinstance(partition, int) or not 0 <= partition < count:
        raise UnknownTopicOrPartitionError(
            f"the partitioner chose {partition!r}; there are partitions 0 to {count - 1}"
        )
    return int(partition)  # also for a bool
