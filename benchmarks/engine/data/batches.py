"""Record batches as a client sends them, and segments that repeat one batch."""

import mmap
import os
import random
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from time import time_ns

from kstore._native.append.encode import BatchBuffer
from kstore._native.format.crc import crc32

TIME = 1_700_000_000_000  # milliseconds
VALUE_SIZE = 100
KEYS = 61  # distinct keys in a batch, at most
OVERHEAD = 61  # bytes of a version 2 batch before its records


def build_batch(
    records: int,
    value_size: int = VALUE_SIZE,
    *,
    key_size: int | None = None,
    headers: list[tuple[str, bytes]] | None = None,
    timestamp: int = TIME,
    period: int = 1 << 30,
    producer: tuple[int, int] | None = None,
    base_offset: int = 0,
    leader_epoch: int = 0,
) -> bytes:
    """Build a version 2 batch of random values that are the same in every run.

    Parameters
    ----------
    key_size
        Bytes of each key; None for null keys.
    timestamp, period
        Record ``n`` has ``timestamp + n % period``: a period of 1 gives all of them one timestamp.
    producer
        Producer ID and first sequence number of an idempotent producer.
    """
    draw = random.Random(records)
    buffer = BatchBuffer()
    if producer is not None:
        buffer.set_producer(producer[0], 0, producer[1])
    for n in range(records):
        key = None if key_size is None else b"%0*d" % (key_size, n % KEYS)
        buffer.put(draw.randbytes(value_size), key, headers, timestamp + n % period)
    return buffer.to_bytes(base_offset, leader_epoch)


def client_batch(records: int) -> bytes:
    """Build a batch of 100-byte values with the current time, which retention does not delete."""
    return build_batch(records, timestamp=time_ns() // 1_000_000, period=1, leader_epoch=-1)


def sized_batch(size: int) -> bytes:
    """Build a batch of at most ``size`` bytes of 100-byte values and one timestamp."""
    values = [random.Random(n).randbytes(VALUE_SIZE) for n in range(max(1, size // VALUE_SIZE))]
    buffer = BatchBuffer(size)
    buffer.put_values(values, 0, TIME, size)
    return buffer.to_bytes(0, 0)


def at_offsets(batch: bytes, count: int, records: int) -> Iterator[bytes]:
    """Repeat a batch at growing base offsets, which its checksum does not cover."""
    rest = batch[8:]
    for n in range(count):
        yield (n * records).to_bytes(8, "big") + rest


def message(size: int, offset: int = 0) -> bytes:
    """Build a version 1 message of exactly ``size`` bytes (at least 34) with a null key."""
    value = random.Random(offset).randbytes(size - 34)
    body = struct.pack(">bbqii", 1, 0, TIME, -1, len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(body), crc32(body)) + body


@dataclass
class Segment:
    """A mapped file of equal frames."""

    mapping: mmap.mmap
    frame_size: int
    count: int

    def seeds(self, interval: int = 4096) -> list[int]:
        """Positions that a sparse index with this interval would hold."""
        step = max(1, -(-interval // self.frame_size))
        return [n * self.frame_size for n in range(step, self.count, step)]


def map_segment(size: int, frame: bytes) -> Segment:
    """Map a temporary file of about ``size`` bytes that repeats one frame; its pages are cached."""
    count = max(2, size // len(frame))
    per_block = max(1, (1 << 20) // len(frame))
    block = frame * per_block
    with tempfile.TemporaryFile() as file:
        for _ in range(count // per_block):
            file.write(block)
        file.write(frame * (count % per_block))
        file.flush()
        os.fsync(file.fileno())
        mapping = mmap.mmap(file.fileno(), os.fstat(file.fileno()).st_size, prot=mmap.PROT_READ)
    return Segment(mapping, len(frame), count)
