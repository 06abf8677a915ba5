"""What checking a stranger's batch costs beside its checksum and its write; producers beside none.

Logs are in page cache, made anew for every round and gone afterwards. A round is a few hundred
batches, so that nothing is written back meanwhile.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, time_ns

from kstore._native.checksum import crc32c
from kstore._native.encode import BatchBuffer
from kstore.bench.contest import Timed
from kstore.bench.log_append import raw_file

_CRC_START = 21
_PREFIX = 16  # what a log writes anew of a batch
PRODUCER_ID = (1 << 62) + 7

# name: (records, bytes of a key or None, headers, bytes of a value)
SHAPES: dict[str, tuple[int, int | None, int, int]] = {
    "150 records of 100 bytes": (150, None, 0, 100),
    "1000 records of 100 bytes": (1000, None, 0, 100),
    "1000 records of 10 bytes": (1000, None, 0, 10),
    "150 records of 100 bytes, keys": (150, 16, 0, 100),
    "150 records of 100 bytes, keys and a header": (150, 16, 1, 100),
    "150 records of 1000 bytes": (150, None, 0, 1000),
}


def shaped(name: str, sequence: int = -1) -> bytes:
    """One batch of a shape as a client sends it, an idempotent one with a sequence."""
    records, key_size, header_count, size = SHAPES[name]
    buffer = BatchBuffer()
    if sequence >= 0:
        buffer.set_producer(PRODUCER_ID, 0, sequence)
    now = time_ns() // 1_000_000
    headers = [("trace", b"0123456789abcdef")] * header_count
    for n in range(records):
        key = None if key_size is None else b"%0*d" % (key_size, n)
        buffer.put(bytes([97 + n % 26]) * size, key, headers, now + n % 7)
    return buffer.to_bytes()


def summed_and_written(
    directory: Path, batches: Sequence[bytes], allowed: dict[str, float] | None = None
) -> Timed:
    """CRC-32C and one writev(2) of the same bytes; per batch. Under each name of ``allowed`` the
    same and so many seconds more."""
    parts = [(memoryview(batch), memoryview(batch)[_CRC_START:]) for batch in batches]
    with raw_file(directory, sum(map(len, batches))) as fd:
        writev = os.writev
        started = perf_counter()
        for batch, summed in parts:
            crc32c(summed)
            writev(fd, (batch[:_PREFIX], batch[_PREFIX:]))
        seconds = perf_counter() - started
    each = seconds / len(batches)
    also = {name: each + more for name, more in (allowed or {}).items()}
    return Timed(each, result=len(batches), also=also)
