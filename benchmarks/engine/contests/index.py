"""One lookup and many lookups in the offset index, against other searches of the same entries."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from struct import unpack_from
from tempfile import TemporaryDirectory
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from engine.data.fresh import HOT, each_in_turn, hot
from engine.peers.kafka import KafkaLog, kafka_log
from kstore import jit
from kstore._native.bench import memory_loops
from kstore._native.format.crc import supported_paths
from kstore._native.index.index_lookup import OffsetIndex
from kstore.bench.contest import Bar, Calls, Contest, Timed, scaled

SHAPES = ("even", "uniform", "bursty", "exponential")  # how keys are spread
BASE_OFFSET = 10**10
ENTRIES = 262_144  # the index of a 1 GiB segment at its default interval
Int64s = NDArray[np.int64]
# Bars of each vectorized path against the scalar one, generous: they only detect a fallback.
PATHS: dict[str, float | None] = {"table": None, "avx2": 1.0, "avx512": 1.0}
EMPTY, KAFKA = "the same call, nothing to search", "Kafka's OffsetIndex, in Java"
TIMES = 50  # lists of offsets that are looked up in turn
EACH = 20e-9  # seconds that one of many lookups may take
Bars = tuple[Bar, ...]


def keys(shape: str, count: int) -> Int64s:
    """Relative offsets, strictly increasing, below 2^31.

    even: batches of similar sizes, as from a steady producer. uniform: any offset is as likely.
    bursty: runs of consecutive offsets between large gaps. exponential: growing steps.
    """
    random = np.random.default_rng(7)
    if shape == "even":
        return np.cumsum(random.integers(30, 50, count))
    if shape == "uniform":
        drawn = np.unique(random.integers(1, 2**31 - 1, count + count // 8))
        return np.sort(random.permutation(drawn)[:count])
    if shape == "bursty":
        steps = np.ones(count, np.int64)
        steps[::500] = random.integers(1, 2**31 // (count // 500 + 1) - 500, steps[::500].size)
        return np.cumsum(steps)
    grown = np.exp(np.linspace(0, np.log(2**31 - 1 - count), count)).astype(np.int64)
    return np.maximum.accumulate(grown) + np.arange(count)


def entries(relative: Int64s) -> bytes:
    """An index file: the entry in slot n has position n + 1."""
    rows = np.empty((relative.size, 2), ">u4")
    rows[:, 0] = relative
    rows[:, 1] = np.arange(1, relative.size + 1)
    return rows.tobytes()


def targets(relative: Int64s, count: int, seed: int = 11) -> Int64s:
    """Relative offsets to look up: at and just beyond random entries, in random order."""
    random = np.random.default_rng(seed)
    return relative[random.integers(0, relative.size, count)] + random.integers(0, 2, count)


@numba.njit
def ours_compiled(entries: Any, targets: Any) -> Any:
    """The library's search from compiled code; each lookup waits for the one before."""
    count = entries.size // 8
    total = last = 0
    for target in targets:
        last = jit.index_lookup(entries, count, 0, target + (last >> 40))
        total += last
    return total


@numba.njit
def numba_search(entries: Any, count: Any, key: Any) -> Any:
    """What a user would write in Numba, called once per lookup."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        at = 8 * middle
        found = (
            (np.int64(entries[at]) << 24)
            | (np.int64(entries[at + 1]) << 16)
            | (np.int64(entries[at + 2]) << 8)
            | np.int64(entries[at + 3])
        )
        if found <= key:
            low = middle + 1
        else:
            high = middle
    return low


def python_search(data: bytes, count: int, key: int) -> int:
    return bisect_right(range(count), key, key=lambda slot: unpack_from(">I", data, 8 * slot)[0])


def by_kafka(peer: KafkaLog, index: Path, offsets: list[list[int]], expected: int) -> Timed:
    """Kafka's own index over the same file, in Java: all lists in one call, for one of them.

    The result is ``expected`` if the first list alone gives it.
    """
    found = int(peer.lookup(index, BASE_OFFSET, offsets[0], len(offsets[0]))["sum"])
    if found != expected:
        raise AssertionError(f"Kafka's index finds {found}, not {expected}")
    flat = [offset for some in offsets for offset in some]
    reply = peer.lookup(index, BASE_OFFSET, flat, len(flat))
    return Timed(float(reply["seconds"]) / len(offsets), result=found)


def one_lookup(shape: str, count: int, path: Path, peer: KafkaLog | None) -> Contest:
    relative = keys(shape, count)
    data = entries(relative)
    wanted = [targets(relative, 4000, seed) for seed in range(TIMES)]
    index = OffsetIndex(data, BASE_OFFSET)
    empty = OffsetIndex(b"", BASE_OFFSET)
    array, native = np.frombuffer(data, np.uint8), relative.astype(np.uint32)
    offsets = [(some + BASE_OFFSET).tolist() for some in wanted]
    numbers = [some.tolist() for some in wanted]
    native_numbers = [list(some.astype(np.uint32)) for some in wanted]

    def by_numpy(some: list[np.uint32]) -> int:
        return int(sum(native.searchsorted(number, "right") for number in some))

    def by_numba(some: list[int]) -> int:
        return sum(numba_search(array, count, number) for number in some)

    def by_bisect(some: list[int]) -> int:
        return sum(python_search(data, count, number) for number in some)

    calls: Calls = {
        "kstore": each_in_turn(lambda some: sum(map(index.lookup, some)), offsets),
        "ndarray.searchsorted": each_in_turn(by_numpy, native_numbers),
        "numba": each_in_turn(by_numba, numbers),
        "bisect over the file": each_in_turn(by_bisect, numbers),
        EMPTY: each_in_turn(lambda some: sum(map(empty.lookup, some)), offsets),
        f"kstore{HOT}": lambda: sum(map(index.lookup, offsets[0])),
    }
    bars: Bars = (
        ("kstore", "ndarray.searchsorted", 4.5),
        ("kstore", "numba", 3.0),
        ("kstore", "bisect over the file", 25.0),
        ("kstore", EMPTY, 1 / 2.5),
    )
    if peer is not None:
        file = path / f"{count}-{shape}.index"
        file.write_bytes(data)
        found = sum(map(index.lookup, offsets[0]))
        calls[KAFKA] = partial(by_kafka, peer, file, offsets, found)
        bars += (("kstore", KAFKA, 1.0),)
    return Contest(
        name=f"one index lookup from Python, {count} entries, {shape} keys",
        calls=calls,
        amount=len(numbers[0]),
        unit="lookups",
        ceiling=EMPTY,
        easier=hot(calls),
        unchecked=frozenset([EMPTY]),
        bars=bars,
    )


def inside(shape: str, count: int) -> Contest:
    relative = keys(shape, count)
    array = np.frombuffer(entries(relative), np.uint8)
    wanted = [targets(relative, 20_000, seed) for seed in range(32)]

    def by(how: str) -> Callable[[], int]:
        return each_in_turn(partial(memory_loops.search, how, array), wanted)

    return Contest(
        name=f"one index lookup from compiled code, {count} entries, {shape} keys",
        calls={
            "kstore": each_in_turn(partial(ours_compiled, array), wanted),
            "branchy, as Kafka's": by("branchy"),
            "branchless": by("branchless"),
            "branchless, prefetching": by("prefetching"),
        },
        amount=wanted[0].size,
        unit="lookups",
        bars=(
            ("kstore", "branchy, as Kafka's", 1.0),
            ("kstore", "branchless", 1 / 1.5),
            ("kstore", "branchless, prefetching", None),
        ),
    )


def many_lookups(shape: str, count: int) -> Contest:
    relative = keys(shape, count)
    index = OffsetIndex(entries(relative), BASE_OFFSET)
    wanted = targets(relative, scaled(1 << 20))
    offsets, out = wanted + BASE_OFFSET, np.empty_like(wanted)
    looked_up: Any = index.lookup_many
    by_path: Any = index.lookup_many_by
    paths = [path for path in PATHS if path in supported_paths()]
    limit = "20 ns each"
    bars: Bars = (("kstore", limit, 1.0), ("kstore", "numpy.searchsorted", 4.0))
    bars += tuple((f"path {path}", "path table", PATHS[path]) for path in paths if PATHS[path])

    def by(path: str) -> int:
        return int(by_path(path, offsets, out).sum())

    native, native_wanted = relative.astype(np.uint32), wanted.astype(np.uint32)
    return Contest(
        name=f"{wanted.size} index lookups in one call, {count} entries, {shape} keys",
        calls={
            "kstore": lambda: int(looked_up(offsets, out).sum()),
            "numpy.searchsorted": lambda: int(native.searchsorted(native_wanted, "right").sum()),
            **{f"path {path}": partial(by, path) for path in paths},
            limit: lambda: Timed(wanted.size * EACH),
        },
        amount=wanted.size,
        unit="lookups",
        targets=frozenset([limit]),
        unchecked=frozenset([limit]),
        bars=bars,
    )


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as path, kafka_log(Path(path) / "kafka") as peer:
        count = scaled(ENTRIES, 600)
        for shape in SHAPES:
            yield inside(shape, count)
            yield one_lookup(shape, count, Path(path), peer)
            yield many_lookups(shape, count)
