"""One lookup and many lookups in the offset index, against what else a program could call."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from struct import unpack_from
from tempfile import TemporaryDirectory
from typing import Any

import numba
import numpy as np

from kstore import jit
from kstore._native import limits
from kstore._native.checksum import supported_paths
from kstore._native.index import OffsetIndex
from kstore.bench import kernels_index as work
from kstore.bench.contest import Contest, Timed, scaled
from kstore.bench.peers import KafkaLog, kafka_log

# How many lookups are made at once, each path beside the one without vectors: wide bars, which
# see one of them fall back.
PATHS: dict[str, float | None] = {"table": None, "avx2": 1.0, "avx512": 1.0}
EMPTY, KAFKA = "the same call, nothing to search", "Kafka's OffsetIndex, in Java"
TIMES = 50  # that Java looks everything up, to be warm
EACH = 20e-9  # seconds that one of many lookups may take
Bars = tuple[tuple[str, str, float | None], ...]


@numba.njit
def ours_compiled(entries: Any, targets: Any) -> Any:
    """The library's search from compiled code, each lookup waiting for the one before."""
    count = entries.size // 8
    total = last = 0
    for target in targets:
        last = jit.index_lookup(entries, count, 0, target + (last >> 40))
        total += last
    return total


@numba.njit
def numba_search(entries: Any, count: Any, key: Any) -> Any:
    """What a user would write in Numba, called once a lookup."""
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


def by_kafka(peer: KafkaLog, index: Path, offsets: list[int]) -> Timed:
    """Kafka's own index over the same file, in Java."""
    said = peer.lookup(index, work.BASE_OFFSET, offsets, TIMES * len(offsets))
    return Timed(float(said["seconds"]) / TIMES, result=int(said["sum"]))


def only(named: bool, bars: Bars) -> Bars:
    """Ratios are wanted of the index of a segment; of a larger one they are reported."""
    return bars if named else tuple((ours, peer, None) for ours, peer, _ in bars)


def one_lookup(shape: str, count: int, path: Path, peer: KafkaLog | None, named: bool) -> Contest:
    relative = work.keys(shape, count)
    data = work.entries(relative)
    asked = work.targets(relative, 4000)
    index = OffsetIndex(data, work.BASE_OFFSET)
    empty = OffsetIndex(b"", work.BASE_OFFSET)
    array, native = np.frombuffer(data, np.uint8), relative.astype(np.uint32)
    offsets = (asked + work.BASE_OFFSET).tolist()
    numbers = asked.tolist()
    native_numbers = [np.uint32(number) for number in numbers]
    calls: dict[str, Callable[[], object]] = {
        "kstore": lambda: sum(map(index.lookup, offsets)),
        "ndarray.searchsorted": lambda: int(
            sum(native.searchsorted(number, "right") for number in native_numbers)
        ),
        "numba": lambda: sum(numba_search(array, count, number) for number in numbers),
        "bisect over the file": lambda: sum(
            python_search(data, count, number) for number in numbers
        ),
        EMPTY: lambda: sum(map(empty.lookup, offsets)),
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
        calls[KAFKA] = partial(by_kafka, peer, file, offsets)
        bars += (("kstore", KAFKA, 1.0),)
    return Contest(
        name=f"one index lookup from Python, {count} entries, {shape} keys",
        calls=calls,
        amount=len(numbers),
        unit="lookups",
        ceiling=EMPTY,
        unchecked=frozenset([EMPTY]),
        bars=only(named, bars),
    )


def inside(shape: str, count: int, named: bool) -> Contest:
    relative = work.keys(shape, count)
    array = np.frombuffer(work.entries(relative), np.uint8)
    asked = work.targets(relative, 20_000)
    return Contest(
        name=f"one index lookup from compiled code, {count} entries, {shape} keys",
        calls={
            "kstore": partial(ours_compiled, array, asked),
            "branchy, as Kafka's": partial(limits.search, "branchy", array, asked),
            "branchless": partial(limits.search, "branchless", array, asked),
            "branchless, prefetching": partial(limits.search, "prefetching", array, asked),
        },
        amount=asked.size,
        unit="lookups",
        ceiling="branchless, prefetching",
        bars=only(
            named,
            (
                ("kstore", "branchy, as Kafka's", 1.0),
                ("kstore", "branchless", 1 / 1.5),
                ("kstore", "branchless, prefetching", None),
            ),
        ),
    )


def many_lookups(shape: str, count: int, named: bool) -> Contest:
    relative = work.keys(shape, count)
    index = OffsetIndex(work.entries(relative), work.BASE_OFFSET)
    asked = work.targets(relative, scaled(1 << 20))
    offsets, out = asked + work.BASE_OFFSET, np.empty_like(asked)
    looked_up: Any = index.lookup_many
    by_path: Any = index.lookup_many_by
    paths = [path for path in PATHS if path in supported_paths()]
    limit = "20 ns each"
    bars: Bars = (("kstore", limit, 1.0), ("kstore", "numpy.searchsorted", 4.0))
    bars += tuple((f"path {path}", "path table", PATHS[path]) for path in paths if PATHS[path])

    def by(path: str) -> int:
        return int(by_path(path, offsets, out).sum())

    native, native_asked = relative.astype(np.uint32), asked.astype(np.uint32)
    return Contest(
        name=f"{asked.size} index lookups in one call, {count} entries, {shape} keys",
        calls={
            "kstore": lambda: int(looked_up(offsets, out).sum()),
            "numpy.searchsorted": lambda: int(native.searchsorted(native_asked, "right").sum()),
            **{f"path {path}": partial(by, path) for path in paths},
            limit: lambda: Timed(asked.size * EACH),
        },
        amount=asked.size,
        unit="lookups",
        ceiling="kstore",
        targets=frozenset([limit]),
        unchecked=frozenset([limit]),
        bars=only(named, bars),
    )


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as path, kafka_log(Path(path) / "kafka") as peer:
        for entries in (work.ENTRIES, work.LARGEST):
            count, named = scaled(entries, 600), entries == work.ENTRIES
            for shape in work.SHAPES:
                yield inside(shape, count, named)
                yield one_lookup(shape, count, Path(path), peer, named)
                yield many_lookups(shape, count, named)
