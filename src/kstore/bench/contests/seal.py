"""Making and checking the checksums over what Kafka's own leave out, of every 64 batches.

Both walk the headers of a rolled segment only; the rest of it is not read.
"""

import struct
from collections.abc import Iterator
from functools import partial
from mmap import mmap

import crc32c as package

from kstore._native.bench import memory_loops
from kstore._native.recovery.header_checksums import (
    ENTRY_SIZE,
    GROUP_BATCHES,
    ChecksumCheck,
    ChecksumWriter,
)
from kstore.bench.contest import Calls, Contest, scaled
from kstore.bench.data.batches import build_batch, map_segment

GIB = 1 << 30
COVERED = 21  # bytes of a batch v2 before those that its own checksum covers
CHAIN, EVERY = "one chain in C", "read every byte"


def make(mapping: mmap) -> bytes:
    maker = ChecksumWriter(len(mapping))
    if not maker.feed(mapping):
        raise AssertionError("the segment cannot be sealed")
    return maker.finish()


def contradictions(mapping: mmap, seal: bytes) -> int:
    walk = ChecksumCheck(seal, len(mapping))
    return len(walk.feed(mapping, 0) + walk.finish())


def check(mapping: mmap, seal: bytes) -> bytes:
    """The checksums, if no header contradicts them."""
    if found := contradictions(mapping, seal):
        raise AssertionError(f"{found} groups of headers have changed")
    return seal


def in_a_loop(mapping: mmap) -> bytes:
    """The same checksums by a Python loop around another package's function."""
    size_of = struct.Struct(">i").unpack_from
    groups = bytearray()
    position = number = crc = 0
    with memoryview(mapping) as view:
        while position < len(view):
            if number % GROUP_BATCHES == 0:
                groups += crc.to_bytes(4, "big") if number else b""
                groups += position.to_bytes(8, "big")
                crc = 0
            crc = package.crc32c(bytes(view[position : position + COVERED]), crc)
            position += 12 + size_of(view, position + 8)[0]
            number += 1
    groups += crc.to_bytes(4, "big")
    return bytes(groups)


def contests() -> Iterator[Contest]:
    for name, records, size in (
        ("16 KB batches", 150, scaled(GIB)),
        ("one-record batches", 1, scaled(GIB // 4)),
    ):
        mapping = map_segment(size, build_batch(records)).mapping
        seal = make(mapping)
        changed = bytearray(seal)
        changed[ENTRY_SIZE - 1] ^= 1
        if not contradictions(mapping, bytes(changed)):
            raise AssertionError("a changed checksum is not detected")
        calls: Calls = {
            "make a seal": partial(make, mapping),
            "check a seal": partial(check, mapping, seal),
            "Python loop, crc32c (PyPI)": partial(in_a_loop, mapping),
            CHAIN: partial(memory_loops.count_frames, mapping),
            EVERY: partial(memory_loops.read_all, mapping),
        }
        yield Contest(
            name=f"seal {len(mapping):,} bytes of {name}",
            calls=calls,
            amount=len(mapping),
            unchecked=frozenset([CHAIN, EVERY]),
            ceiling=EVERY if records == 1 else CHAIN,  # a chain waits for each header
            rounds=5,
        )
        mapping.close()
