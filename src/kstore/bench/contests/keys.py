"""Partitions of keys as Kafka's clients choose them, and the key map of a compaction."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from kstore._native.bench import memory_loops
from kstore._native.compaction.offset_map import OffsetMap
from kstore._native.format.murmur2 import (
    murmur2,
    murmur2_many,
    partition_for_key,
    partitions_for_keys,
)
from kstore.bench.contest import Calls, Contest, floor_contest, scaled
from kstore.bench.peers.availability import optional

SIZES = (8, 36)  # of a key: a number, the text of a UUID
PARTITIONS = 12
SECRET = bytes(range(16))
CLIENTS = {"aiokafka": "aiokafka.partitioner", "kafka-python": "kafka.partitioner.default"}


class Keys:
    """Different keys of one size, as bytes and as columns over one buffer."""

    def __init__(self, count: int, size: int) -> None:
        self.names = [b"%0*d" % (size, n * 7919 % 10**8) for n in range(count)]
        self.data = b"".join(self.names)
        positions = np.arange(count, dtype=np.int64) * size
        self.columns: tuple[bytes, Any, Any] = (
            self.data,
            positions,
            np.full(count, size, np.int32),
        )
        self.title = f"{count:,} keys of {size} bytes"


def keys_contest(name: str, calls: Calls, keys: Keys, expected: object) -> Contest:
    floor = ("read every key", partial(memory_loops.read_all, keys.data))
    return floor_contest(name, calls, floor, len(keys.names), "keys", expected=expected)


def hashing(size: int) -> Iterator[Contest]:
    """One call for all keys, one call per key, and the Python clients; all have to agree."""
    keys = Keys(scaled(20_000, 100), size)
    out: Any = np.zeros(len(keys.names), np.int32)
    calls: Calls = {
        "kstore, one call": lambda: int(partitions_for_keys(*keys.columns, PARTITIONS, out).sum()),
        "kstore, one call a key": lambda: sum(
            [partition_for_key(name, PARTITIONS) for name in keys.names]
        ),
    }
    for name, module in CLIENTS.items():
        if (peer := optional(module, name)) is not None:
            calls[name] = partial(partition_by_client, peer.murmur2, keys)
    yield keys_contest(f"partitions of {keys.title}", calls, keys, None)
    calls = {
        "kstore, one call": lambda: int(murmur2_many(*keys.columns, out).sum()),
        "kstore, one call a key": lambda: sum(map(murmur2, keys.names)),
    }
    yield keys_contest(f"murmur2 of {keys.title}", calls, keys, None)


def partition_by_client(hash_of: Callable[[bytes], int], keys: Keys) -> int:
    return sum([(hash_of(name) & 0x7FFFFFFF) % PARTITIONS for name in keys.names])


def put_and_get(keys: Keys) -> int:
    """Put the offset of each key, then ask for all; the sum of the answers."""
    known = OffsetMap(48 * len(keys.names), 0.9, SECRET)
    for offset, name in enumerate(keys.names):
        if not known.put(name, offset):
            raise AssertionError(f"there is no room for key {offset} of {len(keys.names)}")
    return sum(known.get(name) for name in keys.names)


def put_and_get_in_a_dictionary(keys: Keys) -> int:
    known: dict[bytes, int] = {}
    put: Any = known.__setitem__
    for offset, name in enumerate(keys.names):
        put(name, offset)
    return sum(map(known.__getitem__, keys.names))


def mapping() -> Contest:
    keys = Keys(scaled(200_000, 100), SIZES[1])
    count = len(keys.names)
    calls: Calls = {
        "kstore, 24 bytes a key": partial(put_and_get, keys),
        "dictionary": partial(put_and_get_in_a_dictionary, keys),
    }
    expected = count * (count - 1) // 2
    return keys_contest(f"put and get {count:,} keys, a call each", calls, keys, expected)


def contests() -> Iterator[Contest]:
    for size in SIZES:
        yield from hashing(size)
    yield mapping()
