"""Walking and checking whole segments in page cache, and checking one batch as a leader."""

import mmap
import os
import random
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from kstore._native.checksum import crc32
from kstore._native.encode import BatchBuffer

TIMESTAMP = 1_700_000_000_000


def record_batch(size: int, value_size: int = 100, base_offset: int = 0) -> bytes:
    """One sealed batch v2 of at most ``size`` bytes, values of ``value_size``, no keys."""
    values = [random.Random(n).randbytes(value_size) for n in range(max(1, size // value_size))]
    buffer = BatchBuffer(size)
    buffer.put_values(values, 0, TIMESTAMP, size)
    return buffer.to_bytes(base_offset, 0, 0)


def message(size: int, offset: int = 0) -> bytes:
    """One v1 message of exactly ``size`` bytes (at least 34), null key."""
    value = random.Random(offset).randbytes(size - 34)
    body = struct.pack(">bbqii", 1, 0, TIMESTAMP, -1, len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(body), crc32(body)) + body


@dataclass
class Segment:
    """A mapped file of equal frames, and the positions that a sparse index would hold."""

    mapping: mmap.mmap
    frame_size: int
    count: int

    def seeds(self, interval: int = 4096) -> list[int]:
        step = max(1, -(-interval // self.frame_size))
        return [n * self.frame_size for n in range(step, self.count, step)]


def segment(size: int, frame: bytes, directory: str | None = None) -> Segment:
    """A file of about ``size`` bytes made of one frame again and again, mapped and warm."""
    count = max(2, size // len(frame))
    together = max(1, (1 << 20) // len(frame))
    block = frame * together
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(count // together):
            file.write(block)
        file.write(frame * (count % together))
        file.flush()
        os.fsync(file.fileno())
        mapping = mmap.mmap(file.fileno(), os.fstat(file.fileno()).st_size, prot=mmap.PROT_READ)
    return Segment(mapping, len(frame), count)


def walk_with_struct(mapping: mmap.mmap) -> int:
    """How many frames: what a Python program does without a kernel."""
    take = struct.Struct(">i").unpack_from
    position = count = 0
    end = len(mapping)
    while position + 17 < end:
        position += 12 + take(mapping, position + 8)[0]
        count += 1
    return count


def check_in_a_loop(mapping: mmap.mmap, crc32c: Callable[[memoryview], int]) -> int:
    """How many v2 batches have a right CRC: a Python loop around another package's function."""
    take = struct.Struct(">i").unpack_from
    stored = struct.Struct(">I").unpack_from
    position = right = 0
    with memoryview(mapping) as view:
        while position + 17 < len(view):
            size = 12 + take(view, position + 8)[0]
            with view[position + 21 : position + size] as covered:
                right += crc32c(covered) == stored(view, position + 17)[0]
            position += size
    return right
