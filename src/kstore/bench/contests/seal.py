"""Sealing a segment, and checking a seal: checksums over what Kafka's own leave out, of every 64
batches. Both walk the headers only; the rest of a segment is not read."""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from mmap import mmap

import crc32c as package

from kstore._native import limits
from kstore._native.seal import ENTRY_SIZE, GROUP_BATCHES, SealCheck, SealMaker
from kstore.bench import kernels_batch as work
from kstore.bench.contest import Contest, scaled
from kstore.bench.recovery import batch

GIB = 1 << 30
COVERED = 21  # bytes of a batch v2 in front of what its own checksum covers
CHAIN, EVERY = "one chain in C", "read every byte"


def make(mapping: mmap) -> bytes:
    maker = SealMaker(len(mapping))
    if not maker.feed(mapping):
        raise AssertionError("the segment cannot be sealed")
    return maker.finish()


def check(mapping: mmap, seal: bytes) -> bytes:
    """The seal, where nothing contradicts it."""
    walk = SealCheck(seal, len(mapping))
    if found := walk.feed(mapping, 0) + walk.finish():
        raise AssertionError(f"batches that are not what they were: {found}")
    return seal


def in_a_loop(mapping: mmap) -> bytes:
    """The same seal by a Python loop around another package's function."""
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


def changed(mapping: mmap, seal: bytes) -> None:
    """A seal of other bytes has to be contradicted, or its check is no check."""
    other = bytearray(seal)
    other[ENTRY_SIZE - 1] ^= 1
    walk = SealCheck(other, len(mapping))
    if not walk.feed(mapping, 0) + walk.finish():
        raise AssertionError("a changed seal is believed")


def contests() -> Iterator[Contest]:
    for name, (records, size) in {
        "16 KB batches": (150, scaled(GIB)),
        "one-record batches": (1, scaled(GIB // 4)),
    }.items():
        segment = work.segment(size, batch(records, 100))
        mapping = segment.mapping
        seal = make(mapping)
        changed(mapping, seal)
        calls: dict[str, Callable[[], object]] = {
            "make a seal": partial(make, mapping),
            "check a seal": partial(check, mapping, seal),
            "Python loop, crc32c (PyPI)": partial(in_a_loop, mapping),
            CHAIN: partial(limits.count_frames, mapping),
            EVERY: partial(limits.read_all, mapping),
        }
        yield Contest(
            name=f"seal {len(mapping):,} bytes of {name}",
            calls=calls,
            amount=len(mapping),
            bars=tuple(
                (ours, peer, None)
                for ours in ("make a seal", "check a seal")
                for peer in (CHAIN, "Python loop, crc32c (PyPI)")
            ),
            unchecked=frozenset([CHAIN, EVERY]),
            ceiling=EVERY if records == 1 else CHAIN,  # a chain waits for each header
            rounds=5,
        )
        mapping.close()
