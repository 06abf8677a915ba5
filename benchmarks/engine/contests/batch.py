"""Segments in page cache: walking frames, checking every batch."""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from mmap import mmap
from typing import Any

import crc32c as package
import numpy as np

from engine.data.batches import Segment, map_segment, message, sized_batch
from engine.data.two_cores import READ_BY_TWO, read_by_two
from kstore._native.bench import memory_loops
from kstore._native.format import batch_scan
from kstore.bench.contest import Bar, Calls, Contest, scaled

GIB = 1 << 30
READ, LOOP = "read every byte", "Python loop, crc32c (PyPI)"


def walk_with_struct(mapping: mmap) -> int:
    """Count frames as a Python program does without a kernel."""
    take = struct.Struct(">i").unpack_from
    position = count = 0
    end = len(mapping)
    while position + 17 < end:
        position += 12 + take(mapping, position + 8)[0]
        count += 1
    return count


def check_in_a_loop(mapping: mmap, crc32c: Callable[[memoryview], int]) -> int:
    """Count batches with a valid CRC in a Python loop around another package's function."""
    take = struct.Struct(">i").unpack_from
    stored = struct.Struct(">I").unpack_from
    position = valid = 0
    with memoryview(mapping) as view:
        while position + 17 < len(view):
            size = 12 + take(view, position + 8)[0]
            with view[position + 21 : position + size] as covered:
                valid += crc32c(covered) == stored(view, position + 17)[0]
            position += size
    return valid


def walking(segment: Segment, *, with_struct: bool = False) -> Contest:
    seeds: Any = np.array(segment.seeds(), dtype=np.int64)
    mapping = segment.mapping
    calls: Calls = {
        "kstore, seeds": lambda: len(batch_scan.walk_frames(mapping, seeds)),
        "kstore, no seeds": lambda: len(batch_scan.walk_frames(mapping)),
        "one chain in C": partial(memory_loops.count_frames, mapping),
        READ: lambda: memory_loops.read_all(mapping) and None,
    }
    bars: tuple[Bar, ...] = (
        ("kstore, seeds", "one chain in C", 3.0),
        ("kstore, seeds", READ, 0.85),
        ("kstore, no seeds", "one chain in C", None),
    )
    if with_struct:
        calls["Python struct"] = partial(walk_with_struct, mapping)
        bars = (("kstore, seeds", "Python struct", 20.0),)
    return Contest(
        name=f"walk frames of 100 bytes, {len(mapping):,} bytes",
        calls=calls,
        amount=segment.count,
        unit="frames",
        bars=bars,
        expected=segment.count,
        unchecked=frozenset([READ]),
    )


def checking(segment: Segment, name: str, wanted: tuple[float, float]) -> Contest:
    """``wanted``: one core against a read of every byte, two cores against a Python loop."""
    mapping = segment.mapping

    def count_valid(threads: int = 1, seeds: list[int] | None = None) -> int:
        table = batch_scan.scan(mapping, threads=threads, seeds=seeds)
        return len(table) - table.bad_crc_count

    return Contest(
        name=f"{name}, {len(mapping):,} bytes",
        calls={
            "one core": count_valid,
            "two cores": partial(count_valid, threads=2, seeds=segment.seeds()),
            READ: lambda: memory_loops.read_all(mapping) and None,
            READ_BY_TWO: lambda: read_by_two(memoryview(mapping)),
            LOOP: partial(check_in_a_loop, mapping, package.crc32c),
        },
        amount=len(mapping),
        bars=(
            ("one core", READ, wanted[0]),
            ("one core", LOOP, 1.3),
            ("two cores", LOOP, wanted[1]),
            ("two cores", "one core", None),
            ("two cores", READ_BY_TWO, None),
        ),
        expected=segment.count,
        unchecked=frozenset([READ, READ_BY_TWO]),
        ceiling=READ_BY_TWO,
    )


def contests() -> Iterator[Contest]:
    frame = message(100)
    yield walking(map_segment(scaled(GIB), frame))
    yield walking(map_segment(scaled(GIB // 16), frame), with_struct=True)
    for size, name, parts, wanted in (
        (16384, "check every batch of 16 KiB", 1, (0.8, 2.0)),
        (1024, "check every batch of 1 KiB", 4, (0.5, 5.0)),
    ):
        yield checking(map_segment(scaled(GIB // parts), sized_batch(size)), name, wanted)
