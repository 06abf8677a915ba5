"""Keys, values and headers between a segment's bytes and columns, row by row.

From a segment: as a list of bytes, packed as in Arrow, as Arrow's views, as headers. Into a batch:
from Arrow's buffers, and the offsets of batches that a task has staged.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from kstore._native.append.encode import BatchBuffer
from kstore._native.bench import memory_loops
from kstore._native.format import ragged_bytes
from kstore._native.format.checksum import crc32c
from kstore._native.spark import arrow_batches
from kstore.bench.contest import Calls, Contest, floor_contest, scaled
from kstore.bench.data.batches import HEADER, TIME, Batches

ROWS = 200_000
SIZE, STRIDE = 100, 110  # of a value, and from one to the next
LIMIT = 1 << 30
SAMPLED = (0, 1, -1)  # rows: the first is null
COPY, READ = "copy the bytes", "read every byte"
NAME, VALUE = HEADER[0].encode(), HEADER[1]


class Rows:
    """Values within a larger buffer, as in a segment."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.data: Any = np.random.default_rng(2).integers(0, 256, count * STRIDE, np.uint8)
        self.positions = np.arange(count, dtype=np.int64) * STRIDE + (STRIDE - SIZE)
        self.lengths = np.full(count, SIZE, np.int32)
        self.lengths[::50] = -1  # null
        self.total = ragged_bytes.total_size(self.lengths)

    def slices(self) -> list[bytes | None]:
        """What ``gather`` returns, in Python."""
        whole = self.data.tobytes()
        return [
            whole[at : at + size] if size >= 0 else None
            for at, size in zip(self.positions.tolist(), self.lengths.tolist(), strict=True)
        ]

    def pack(self, offsets: Any, out: Any) -> tuple[int, int, bytes]:
        nulls = ragged_bytes.pack(self.data, self.positions, self.lengths, offsets, out)
        return nulls, int(offsets[-1]), out[:1000].tobytes()

    def pack_with_numpy(self) -> tuple[int, int, bytes]:
        """Rows of one length, gathered by an array of positions."""
        present = self.lengths >= 0
        out = self.data[self.positions[present][:, None] + np.arange(SIZE)].ravel()
        ends = np.cumsum(np.where(present, SIZE, 0))
        return int((~present).sum()), int(ends[-1]), out[:1000].tobytes()

    def view(self, views: Any) -> list[bytes | None]:
        """Make Arrow's views, and read some values through them: lengths and positions."""
        ragged_bytes.binary_views(self.data, self.positions, self.lengths, views)
        found = views.view(np.int32).reshape(-1, 4)
        return [
            None
            if self.lengths[n] < 0
            else self.data[found[n, 3] : found[n, 3] + found[n, 0]].tobytes()
            for n in SAMPLED
        ]


def from_segments() -> Iterator[Contest]:
    rows = Rows(scaled(ROWS, 100))
    copying = (COPY, partial(memory_loops.copy, bytearray(rows.total), rows.data[: rows.total]))
    name = f"{rows.count:,} values of {SIZE} bytes"
    calls: Calls = {
        "kstore": partial(ragged_bytes.gather, rows.data, rows.positions, rows.lengths),
        "slices": rows.slices,
    }
    yield floor_contest(f"{name} as a list", calls, copying, rows.count, "rows")
    offsets, out = np.zeros(rows.count + 1, np.int32), np.zeros(rows.total, np.uint8)
    calls = {"kstore": partial(rows.pack, offsets, out), "NumPy": rows.pack_with_numpy}
    yield floor_contest(f"{name} packed, with their offsets", calls, copying, rows.count, "rows")
    views: Any = np.zeros(16 * rows.count, np.uint8)
    yield floor_contest(
        f"{name} as Arrow's views",
        {"kstore": partial(rows.view, views)},
        ("copy so many views", partial(memory_loops.copy, bytearray(views.nbytes), views)),
        rows.count,
        "rows",
        expected=[rows.slices()[n] for n in SAMPLED],
    )


def reading_headers() -> Contest:
    count = scaled(ROWS, 100)
    one = bytes([2 * len(NAME)]) + NAME + bytes([2 * len(VALUE)]) + VALUE
    data = one * (2 * count)
    positions = np.arange(count, dtype=np.int64) * (2 * len(one))
    counts = np.full(count, 2, np.int32)
    (names, values), (sizes, lengths) = (
        np.zeros((2, 2 * count), kind) for kind in (np.int64, np.int32)
    )

    def place() -> tuple[int, int, int]:
        found = ragged_bytes.place_headers(data, positions, counts, names, sizes, values, lengths)
        return found, int(sizes.sum()), int(lengths.sum())

    def parse() -> tuple[int, int, int]:
        read = ragged_bytes.read_headers
        found = [each for at in positions.tolist() for each in read(data, at, 2)]
        return (
            len(found),
            sum(len(key) for key, _ in found),
            sum(len(text or b"") for _, text in found),
        )

    return floor_contest(
        f"headers of {count:,} rows, two each",
        {"places, one call": place, "parsed, a call a row": parse},
        (READ, partial(memory_loops.read_all, data)),
        count,
        "rows",
        expected=(2 * count, 2 * count * len(NAME), 2 * count * len(VALUE)),
    )


def into_batches() -> Iterator[Contest]:
    """Arrow's rows without and with headers, beside the same from a list."""
    count = 1000
    rows = [np.random.default_rng(n).bytes(SIZE) for n in range(count)]
    data = b"".join(rows)

    def column(size: int, text: bytes) -> arrow_batches.ArrowBinary:
        ends = np.arange(count + 1, dtype=np.int32) * size
        return arrow_batches.ArrowBinary(count, 0, None, ends, text)

    values = column(SIZE, data)
    headers = arrow_batches.ArrowHeaders(
        column(1, b""), *(column(len(text), text * count) for text in (NAME, VALUE))
    )
    order, times = np.arange(count, dtype=np.int64), np.full(count, TIME, np.int64)
    buffer = BatchBuffer(1 << 18)

    def from_arrow(with_headers: bool) -> int:
        buffer.reset()
        arrow_batches.put_rows(
            buffer, order, times, None, values, headers if with_headers else None
        )
        return crc32c(buffer.sealed())

    def from_list(with_headers: bool) -> int:
        buffer.reset()
        if with_headers:
            for value in rows:
                buffer.put(value, None, [HEADER], TIME)
        else:
            buffer.put_values(rows, 0, TIME, LIMIT)
        return crc32c(buffer.sealed())

    for what, with_headers in (("", False), (" and a header each", True)):
        yield floor_contest(
            f"{count} rows of Arrow's{what} into a batch",
            {
                "kstore, from Arrow": partial(from_arrow, with_headers),
                "kstore, from a list": partial(from_list, with_headers),
            },
            (COPY, partial(memory_loops.copy, bytearray(len(data)), data)),
            count,
            "rows",
        )


def placing() -> Iterator[Contest]:
    """Offsets and epoch, which a batch's checksum does not cover; a timestamp, which it does."""
    work = Batches(150, scaled(16 << 20))
    data = bytearray(work.data)
    for what, time, floor, limit in (
        ("offsets", -1, "one chain in C", memory_loops.count_frames),
        ("offsets and a time", TIME, READ, memory_loops.read_all),
    ):
        yield floor_contest(
            f"give {len(data):,} staged bytes of 16 KB batches their {what}",
            {"kstore": partial(arrow_batches.place_batches, data, 0, len(data), 70, 2, time)},
            (floor, partial(limit, data)),
            len(data),
            expected=(len(data), 70 + work.count),
        )


def contests() -> Iterator[Contest]:
    yield from from_segments()
    yield reading_headers()
    yield from into_batches()
    yield from placing()
