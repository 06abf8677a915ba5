"""Segments of all formats, with the indexes that Kafka writes for them, valid or damaged."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from oracle import writer as oracle
from oracle.plain import ABORT, LOG_APPEND_TIME, PlainRecord
from oracle.reader import read_log as read_plain


class Segment(NamedTuple):
    """The contents of a segment, and the damage to its time index."""

    content: Sequence[tuple[str, list[int], int]]  # kind of batch, timestamps, gap before it
    every: int = 1  # batches between index entries
    how: str = "none"  # see damage
    where: int = 0
    age: int = 0  # modification time of the log file, in seconds since 1970


def of_times(*times: int, kind: str = "v2", **about: object) -> Segment:
    """A segment with one record per batch."""
    return Segment([(kind, [time], 0) for time in times], **about)


def write_segments(directory: Path, *segments: Segment) -> None:
    """Write the files of a log's segments, starting at offset 0."""
    directory.mkdir(exist_ok=True)
    base = 0
    for segment in segments:
        base = max(write_segment(directory, base, segment), base + 1)


def batch_of(kind: str, offset: int, times: list[int]) -> bytes:
    rows = [PlainRecord(offset + n, time, b"k", b"v") for n, time in enumerate(times)]
    largest = max(times)
    if kind == "v0":
        return oracle.message(offset, b"k", b"v", magic=0)
    if kind == "v1":
        return oracle.message(offset, b"k", b"v", magic=1, timestamp=max(times[0], -1))
    if kind == "v1 wrapper":
        rows = [row._replace(timestamp=max(row.timestamp, -1)) for row in rows]
        return oracle.wrapper(rows, magic=1, codec=1)
    if kind == "append time":
        return oracle.batch(rows, timestamp_type=LOG_APPEND_TIME, max_timestamp=max(largest, 0))
    if kind == "marker":
        return oracle.marker(
            offset, ABORT, timestamp=max(largest, 0), producer_id=7, producer_epoch=0
        )
    if kind == "emptied":  # by compaction: the header keeps the time of the removed records
        last = offset + len(times) - 1
        return oracle.batch([], base_offset=offset, last_offset=last, max_timestamp=largest)
    return oracle.batch(rows)


def indexes_of(data: bytes, base: int, every: int, begun: int) -> tuple[bytes, bytes]:
    """Both indexes as Kafka writes them; the time index from batch ``begun``, as if it was lost
    before."""
    entries: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    largest, at = -1, base

    def note_time() -> None:
        if largest >= 0 and (not times or largest > times[-1][0]):
            times.append((largest, at))

    for number, batch in enumerate(read_plain(data).batches):
        if number >= begun and batch.max_timestamp > largest:
            largest, at = batch.max_timestamp, batch.last_offset
        if number and number % every == 0:
            entries.append((batch.last_offset, batch.position))
            note_time()
    note_time()
    return oracle.offset_index(entries, base), oracle.time_index(times, base)


def damage(times: bytes, how: str, where: int) -> bytes | None:
    if how == "lost":
        return None
    if how == "empty":
        return b""
    if how == "cut":
        return times[: where % (len(times) + 1)]
    if how == "bit" and times:
        changed = bytearray(times)
        changed[where // 8 % len(times)] ^= 1 << where % 8
        return bytes(changed)
    if how == "zeros behind":
        return times + bytes(12 * (where % 50))
    if how == "garbage":
        return bytes((where * n * n + n) % 251 for n in range(12 * (where % 5)))
    return times


def write_segment(directory: Path, base: int, segment: Segment) -> int:
    """Write the files of a segment; return the offset after its last batch."""
    content, every, how, where, age = segment
    offset, data = base, b""
    for kind, times, gap in content:
        offset += gap
        data += batch_of(kind, offset, times)
        offset += 1 if kind in ("v0", "v1", "marker") else len(times)
    path = directory / f"{base:020}.log"
    path.write_bytes(data)
    begun = 1 + where % 4 if how == "begun late" else 0
    entries, times_of = indexes_of(data, base, every, begun)
    path.with_suffix(".index").write_bytes(entries)
    kept = damage(times_of, how, where)
    if kept is not None:
        path.with_suffix(".timeindex").write_bytes(kept)
    os.utime(path, (age, age))
    return offset
