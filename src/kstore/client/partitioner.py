"""Chooses the partition of a record: murmur2 of the key, else sticky (KIP-794)."""

from collections.abc import Callable
from random import randrange

from kstore._native.format.murmur2 import partition_for_key
from kstore.errors import UnknownTopicOrPartitionError

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
            try:
                return partition_for_key(key, count)
            except TypeError:
                raise not_bytes("key", key) from None
        partition = self._partition
        if self._left <= 0 or partition >= count:
            partition = self._partition = _other(partition, count)
            self._left = self._batch_size
        try:
            self._left -= 1 if value is None else len(value) + 1
        except TypeError:  # no bytes: the append says what a value is
            self._left -= 1
        return partition


def _other(partition: int, count: int) -> int:
    if count <= 1 or not 0 <= partition < count:
        return randrange(count)
    drawn = randrange(count - 1)
    return drawn + 1 if drawn >= partition else drawn


def not_bytes(what: str, value: object) -> TypeError:
    """The error for a key or value of another type."""
    advice = {
        str: f": encode it first, {what}.encode()",
        int: f": encode it first, b'%d' % {what}",
    }
    return TypeError(f"a {what} is bytes, not {type(value).__name__}{advice.get(type(value), '')}")


def choose(partitioner: Partitioner, key: bytes | None, value: bytes | None, count: int) -> int:
    """Call a partitioner and check its result."""
    partition = partitioner(key, value, count)
    if not isinstance(partition, int) or not 0 <= partition < count:
        raise UnknownTopicOrPartitionError(
            f"the partitioner chose {partition!r}; there are partitions 0 to {count - 1}"
        )
    return int(partition)  # also for a bool
