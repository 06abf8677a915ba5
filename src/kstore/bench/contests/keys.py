"""Partitions of keys as Kafka's clients choose them, and the map of a compaction's keys."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from kstore._native import limits
from kstore._native.keymap import KeyMap
from kstore._native.keys import murmur2, murmur2_many, partition_for_key, partitions_for_keys
from kstore.bench.contest import Contest, scaled
from kstore.bench.peers import optional

SIZES = (8, 36)  # of a key: a number, the text of a UUID
PARTITIONS = 12
SECRET = bytes(range(16))
FLOOR = "read every key"
CLIENTS = {"aiokafka": "aiokafka.partitioner", "kafka-python": "kafka.partitioner.default"}
Calls = dict[str, Callable[[], object]]
Bars = list[tuple[str, str, float | None]]


class Keys:
    """Different keys of one size: as bytes, and as places in one buffer."""

    def __init__(self, count: int, size: int) -> None:
        self.names = [b"%0*d" % (size, n * 7919 % 10**8) for n in range(count)]
        self.data = b"".join(self.names)
        self.positions = np.arange(count, dtype=np.int64) * size
        self.lengths = np.full(count, size, np.int32)

    def __len__(self) -> int:
        return len(self.names)


def hashing(size: int) -> Iterator[Contest]:
    """One call for all, one call a key, and the clients in Python; all have to agree."""
    keys = Keys(scaled(20_000, 100), size)
    partitions: Any = np.zeros(len(keys), np.int32)
    numbers: Any = np.zeros(len(keys), np.int32)
    places: tuple[bytes, Any, Any] = keys.data, keys.positions, keys.lengths
    murmur2_many(*places, numbers)
    partitions_for_keys(*places, PARTITIONS, partitions)
    if numbers.tolist() != [murmur2(name) for name in keys.names]:
        raise AssertionError("hashed together, keys have other hashes")
    if partitions.tolist() != [partition_for_key(name, PARTITIONS) for name in keys.names]:
        raise AssertionError("together, keys have other partitions")
    floor = partial(limits.read_all, keys.data)
    calls: Calls = {
        "kstore, one call": lambda: int(partitions_for_keys(*places, PARTITIONS, partitions).sum()),
        "kstore, one call a key": lambda: sum(
            [partition_for_key(name, PARTITIONS) for name in keys.names]
        ),
        FLOOR: floor,
    }
    bars: Bars = [("kstore, one call", FLOOR, None)]
    for name, module in CLIENTS.items():
        if (peer := optional(module, name)) is not None:
            calls[name] = partial(by_client, peer.murmur2, keys)
            bars.append(("kstore, one call a key", name, None))
    right = int(partitions.sum())
    yield contest(f"partitions of {len(keys):,} keys of {size} bytes", calls, bars, keys, right)
    calls = {
        "kstore, one call": lambda: int(murmur2_many(*places, numbers).sum()),
        "kstore, one call a key": lambda: sum(map(murmur2, keys.names)),
        FLOOR: floor,
    }
    right = int(numbers.sum())
    yield contest(
        f"murmur2 of {len(keys):,} keys of {size} bytes",
        calls,
        [("kstore, one call", FLOOR, None)],
        keys,
        right,
    )


def by_client(hash_of: Callable[[bytes], int], keys: Keys) -> int:
    return sum([(hash_of(name) & 0x7FFFFFFF) % PARTITIONS for name in keys.names])


def contest(name: str, calls: Calls, bars: Bars, keys: Keys, expected: object) -> Contest:
    return Contest(
        name=name,
        calls=calls,
        amount=len(keys),
        unit="keys",
        bars=tuple(bars),
        expected=expected,
        unchecked=frozenset([FLOOR]),
        ceiling=FLOOR,
        rounds=7,
    )


def mapped(keys: Keys) -> int:
    """The latest offset of each key put, then asked for; the sum of what comes back."""
    known = KeyMap(48 * len(keys), 0.9, SECRET)
    for offset, name in enumerate(keys.names):
        if not known.put(name, offset):
            raise AssertionError(f"there is no room for key {offset} of {len(keys)}")
    return sum(known.get(name) for name in keys.names)


def in_a_dictionary(keys: Keys) -> int:
    known: dict[bytes, int] = {}
    put: Any = known.__setitem__
    for offset, name in enumerate(keys.names):
        put(name, offset)
    return sum(map(known.__getitem__, keys.names))


def mapping() -> Contest:
    keys = Keys(scaled(200_000, 100), SIZES[1])
    calls: Calls = {
        "kstore, 24 bytes a key": partial(mapped, keys),
        "dictionary": partial(in_a_dictionary, keys),
        FLOOR: partial(limits.read_all, keys.data),
    }
    bars: Bars = [("kstore, 24 bytes a key", "dictionary", None)]
    right = len(keys) * (len(keys) - 1) // 2
    return contest(f"put and get {len(keys):,} keys, a call each", calls, bars, keys, right)


def contests() -> Iterator[Contest]:
    for size in SIZES:
        yield from hashing(size)
    yield mapping()
