"""Segments in page cache: walking frames, checking every batch, checking one as a leader."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import crc32c as package
import numpy as np

from kstore._native import batch, checksum, limits
from kstore.bench import kernels_batch as work
from kstore.bench.contest import Contest, scaled

GIB = 1 << 30


def walking(segment: work.Segment, name: str, *, with_struct: bool = False) -> Contest:
    seeds: Any = np.array(segment.seeds(), dtype=np.int64)
    mapping = segment.mapping
    calls: dict[str, Callable[[], object]] = {
        "kstore, seeds": lambda: len(batch.walk_frames(mapping, seeds)),
        "kstore, no seeds": lambda: len(batch.walk_frames(mapping)),
        "one chain in C": partial(limits.count_frames, mapping),
        "read every byte": lambda: limits.read_all(mapping) and None,
    }
    bars: tuple[tuple[str, str, float | None], ...] = (
        ("kstore, seeds", "one chain in C", 3.0),
        ("kstore, seeds", "read every byte", 0.85),
        ("kstore, no seeds", "one chain in C", None),
    )
    if with_struct:
        calls["Python struct"] = partial(work.walk_with_struct, mapping)
        bars = (("kstore, seeds", "Python struct", 20.0),)
    return Contest(
        name=f"{name}, {len(mapping):,} bytes",
        calls=calls,
        amount=len(mapping),
        bars=bars,
        expected=segment.count,
        unchecked=frozenset(["read every byte"]),
        ceiling="read every byte",
    )


def checking(segment: work.Segment, name: str, one_core: float, two_cores: float) -> Contest:
    seeds = segment.seeds()
    mapping = segment.mapping

    def right(threads: int = 1, seeds: list[int] | None = None) -> int:
        table = batch.scan(mapping, threads=threads, seeds=seeds)
        return len(table) - table.bad_crc_count

    return Contest(
        name=f"{name}, {len(mapping):,} bytes",
        calls={
            "one core": right,
            "two cores": partial(right, threads=2, seeds=seeds),
            "read every byte": lambda: limits.read_all(mapping) and None,
            "Python loop, crc32c (PyPI)": partial(work.check_in_a_loop, mapping, package.crc32c),
        },
        amount=len(mapping),
        bars=(
            ("one core", "read every byte", one_core),
            ("one core", "Python loop, crc32c (PyPI)", 1.3),
            ("two cores", "Python loop, crc32c (PyPI)", two_cores),
            ("two cores", "one core", None),
        ),
        expected=segment.count,
        unchecked=frozenset(["read every byte"]),
        ceiling="read every byte",
    )


def leading(size: int) -> Contest:
    data = work.record_batch(size)
    count = batch.scan(data).count[0]
    stored, covered = int.from_bytes(data[17:21], "big"), memoryview(data)[21:]
    return Contest(
        name=f"check a batch of {size} bytes, {count} records of 100 bytes, as a leader",
        calls={
            "validate_leader": lambda: batch.validate_leader(data, now=work.TIMESTAMP).ok,
            "its CRC alone": lambda: checksum.crc32c(covered) == stored,
        },
        amount=count,
        unit="records",
        bars=(("validate_leader", "its CRC alone", None),),
        expected=True,
        ceiling="its CRC alone",
    )


def contests() -> Iterator[Contest]:
    small = work.message(100)
    yield walking(work.segment(scaled(GIB), small), "walk frames of 100 bytes")
    yield walking(
        work.segment(scaled(GIB // 16), small), "walk frames of 100 bytes", with_struct=True
    )
    yield checking(
        work.segment(scaled(GIB), work.record_batch(16384)),
        "check every batch of 16 KiB",
        0.8,
        2.0,
    )
    yield checking(
        work.segment(scaled(GIB // 4), work.record_batch(1024)),
        "check every batch of 1 KiB",
        0.5,
        5.0,
    )
    for size in (1 << 10, 16 << 10, 110 << 10):
        yield leading(size)
