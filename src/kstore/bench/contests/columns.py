"""Keys, values and headers between a segment's bytes and the columns of others, row by row.

Out of a segment: as a list of bytes, packed as Arrow has them, as Arrow's views, as headers. Into a
batch: from Arrow's buffers, and what a task has staged given its offsets.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from kstore._native import limits, ragged, staging
from kstore._native.checksum import crc32c
from kstore._native.encode import BatchBuffer
from kstore.bench.contest import Contest, scaled
from kstore.bench.kernels_rows import HEADER, TIME, Batches

ROWS = 200_000
SIZE, STRIDE = 100, 110  # of a value, and from one to the next
LIMIT = 1 << 30
SOME = (0, 1, -1)  # rows: the first is null
COPY, READ = "copy the bytes", "read every byte"
Calls = dict[str, Callable[[], object]]
Bars = list[tuple[str, str, float | None]]


class Rows:
    """Values that lie in a larger buffer, as in a segment."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.data: Any = np.random.default_rng(2).integers(0, 256, count * STRIDE, np.uint8)
        self.positions = np.arange(count, dtype=np.int64) * STRIDE + (STRIDE - SIZE)
        self.lengths = np.full(count, SIZE, np.int32)
        self.lengths[::50] = -1  # null

    @property
    def total(self) -> int:
        return ragged.total_size(self.lengths)

    def sliced(self) -> list[bytes | None]:
        """What ``gather`` gives, by slices."""
        whole = self.data.tobytes()
        return [
            whole[at : at + size] if size >= 0 else None
            for at, size in zip(self.positions.tolist(), self.lengths.tolist(), strict=True)
        ]

    def packed(self, offsets: Any, out: Any) -> tuple[int, int, bytes]:
        nulls = ragged.pack(self.data, self.positions, self.lengths, offsets, out)
        return nulls, int(offsets[-1]), out[:1000].tobytes()

    def packed_by_numpy(self) -> tuple[int, int, bytes]:
        """Rows of one length: a byte's place is one of a table."""
        there = self.lengths >= 0
        out = self.data[self.positions[there][:, None] + np.arange(SIZE)].ravel()
        ends = np.cumsum(np.where(there, SIZE, 0))
        return int((~there).sum()), int(ends[-1]), out[:1000].tobytes()


def contest(
    name: str,
    calls: Calls,
    count: int,
    floor: tuple[str, Callable[[], object]],
    *,
    expected: object = None,
    peers: tuple[str, ...] = (),
) -> Contest:
    ours = next(iter(calls))
    return Contest(
        name=name,
        calls=calls | dict([floor]),
        amount=count,
        unit="rows",
        bars=tuple((ours, peer, None) for peer in (*peers, floor[0])),
        expected=expected,
        unchecked=frozenset([floor[0]]),
        ceiling=floor[0],
        rounds=7,
    )


def out_of_segments() -> Iterator[Contest]:
    rows = Rows(scaled(ROWS, 100))
    room = bytearray(rows.total)
    together = rows.data[: rows.total]
    copying = (COPY, partial(limits.copy, room, together))
    yield contest(
        f"{rows.count:,} values of {SIZE} bytes as a list",
        {
            "kstore": partial(ragged.gather, rows.data, rows.positions, rows.lengths),
            "slices": rows.sliced,
        },
        rows.count,
        copying,
        peers=("slices",),
    )
    offsets, out = np.zeros(rows.count + 1, np.int32), np.zeros(rows.total, np.uint8)
    yield contest(
        f"{rows.count:,} values of {SIZE} bytes packed, with their offsets",
        {"kstore": partial(rows.packed, offsets, out), "NumPy": rows.packed_by_numpy},
        rows.count,
        copying,
        peers=("NumPy",),
    )
    views: Any = np.zeros(16 * rows.count, np.uint8)
    calls: Calls = {"kstore": partial(viewed, rows, views)}
    yield contest(
        f"{rows.count:,} values of {SIZE} bytes as Arrow's views",
        calls,
        rows.count,
        ("copy so many views", partial(limits.copy, bytearray(views.nbytes), views)),
        expected=[rows.sliced()[n] for n in SOME],
    )


def viewed(rows: Rows, views: Any) -> list[bytes | None]:
    """Three of them, read by their views: lengths and places in the data."""
    ragged.binary_views(rows.data, rows.positions, rows.lengths, views)
    found = views.view(np.int32).reshape(-1, 4)
    return [
        None if rows.lengths[n] < 0 else rows.data[view[3] : view[3] + view[0]].tobytes()
        for n, view in ((n, found[n]) for n in SOME)
    ]


def of_headers() -> Iterator[Contest]:
    """Two headers a row."""
    count = scaled(ROWS, 100)
    name, value = HEADER[0].encode(), HEADER[1]
    one = bytes([2 * len(name)]) + name + bytes([2 * len(value)]) + value
    data = one * (2 * count)
    positions = np.arange(count, dtype=np.int64) * (2 * len(one))
    counts = np.full(count, 2, np.int32)
    places = np.zeros((2, 2 * count), np.int64), np.zeros((2, 2 * count), np.int32)

    def placed() -> tuple[int, int, int]:
        (names, values), (sizes, lengths) = places
        found = ragged.place_headers(data, positions, counts, names, sizes, values, lengths)
        return found, int(sizes.sum()), int(lengths.sum())

    def parsed() -> tuple[int, int, int]:
        read = ragged.read_headers
        found = [each for at in positions.tolist() for each in read(data, at, 2)]
        sizes = (sum(len(key) for key, _ in found), sum(len(text or b"") for _, text in found))
        return len(found), *sizes

    yield contest(
        f"headers of {count:,} rows, two each",
        {"places, one call": placed, "parsed, a call a row": parsed},
        count,
        (READ, partial(limits.read_all, data)),
        expected=(2 * count, 2 * count * len(name), 2 * count * len(value)),
    )


def into_batches() -> Iterator[Contest]:
    """Rows of Arrow's without and with headers, beside the same from a list."""
    count = 1000
    values = [np.random.default_rng(n).bytes(SIZE) for n in range(count)]
    data = b"".join(values)
    column = staging.ArrowBinary(count, 0, None, np.arange(count + 1, dtype=np.int32) * SIZE, data)
    name, value = HEADER[0].encode(), HEADER[1]
    headers = staging.ArrowHeaders(
        staging.ArrowBinary(count, 0, None, np.arange(count + 1, dtype=np.int32), b""),
        *(
            staging.ArrowBinary(
                count, 0, None, np.arange(count + 1, dtype=np.int32) * len(text), text * count
            )
            for text in (name, value)
        ),
    )
    order, times = np.arange(count, dtype=np.int64), np.full(count, TIME, np.int64)
    buffer, room = BatchBuffer(1 << 18), bytearray(len(data))

    def from_arrow(with_headers: bool) -> int:
        buffer.reset()
        staging.put_rows(buffer, order, times, None, column, headers if with_headers else None)
        return crc32c(buffer.sealed())

    def from_list(with_headers: bool) -> int:
        buffer.reset()
        if with_headers:
            for value in values:
                buffer.put(value, None, [HEADER], TIME)
        else:
            buffer.put_values(values, 0, TIME, LIMIT)
        return crc32c(buffer.sealed())

    for what, with_headers in (("", False), (" and a header each", True)):
        yield contest(
            f"{count} rows of Arrow's{what} into a batch",
            {
                "kstore, from Arrow": partial(from_arrow, with_headers),
                "kstore, from a list": partial(from_list, with_headers),
            },
            count,
            (COPY, partial(limits.copy, room, data)),
            peers=("kstore, from a list",),
        )


def staged() -> Iterator[Contest]:
    """Offsets and epoch, outside of what a batch's checksum covers; a time of appending, within."""
    work = Batches(150, scaled(16 << 20))
    data = bytearray(work.data)
    for what, time, floor, limit in (
        ("offsets", -1, "one chain in C", limits.count_frames),
        ("offsets and a time", TIME, READ, limits.read_all),
    ):
        yield Contest(
            name=f"give {len(data):,} staged bytes of 16 KB batches their {what}",
            calls={
                "kstore": partial(staging.place_batches, data, 0, len(data), 70, 2, time),
                floor: partial(limit, data),
            },
            amount=len(data),
            bars=(("kstore", floor, None),),
            expected=(len(data), 70 + work.count),
            unchecked=frozenset([floor]),
            ceiling=floor,
            rounds=7,
        )


def contests() -> Iterator[Contest]:
    yield from out_of_segments()
    yield from of_headers()
    yield from into_batches()
    yield from staged()
