"""Continues to read after corrupt batches: every valid batch of a log once.

A corrupt header cannot be trusted: neither for the position of the next batch nor for its offset.
A log is read normally until an error. Then :mod:`kstore.segment.salvage` finds the valid batches
of that segment, as for repair, and reading continues normally with the next segment.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kstore._native.read.segment_view import SegmentList, SegmentView, Slice
from kstore.errors import CorruptRecordError, UnsupportedCompressionTypeError
from kstore.files.descriptor_limit import loading

if TYPE_CHECKING:
    from kstore.log.readable_log import ReadableLog
    from kstore.segment.salvage import Salvaged

Item = TypeVar("Item")
Items = Iterator[tuple[Item, int]]  # each with the offset after it

DAMAGE = (CorruptRecordError, UnsupportedCompressionTypeError)


def read_past_corruption(
    log: "ReadableLog",
    start: int,
    stop: int,
    read: Callable[[int], Items[Item]],
    read_valid: Callable[[Slice, int, int, int], Items[Item]],
    skipped: list[Any] | None,
) -> Iterator[Item]:
    """The items of read(start); after an error, the valid batches of the rest of that segment.

    Parameters
    ----------
    read
        Items from an offset to stop, each with the offset after it; raises at corruption.
    read_valid
        (complete segment, begin, end, offset): items of a range of valid batches, from offset on.
    skipped
        Takes (path, position, size, offset, reason) of what is skipped.

    Memory, after an error: that segment, unless it can be mapped.
    """
    offset = start
    while offset < stop:
        try:
            for item, after in read(offset):
                offset = after
                yield item
            return
        except DAMAGE as error:
            met = error
        segments, number, data = log._source.on_current_segments(
            partial(_read_segment_of, log, offset)
        )
        following = (*segments.views[number + 1 :], None)[0]
        found = _salvage_segment(log, segments.views[number].base_offset, data, following)
        if skipped is not None:
            notes = [
                (note.path, note.position, note.size, _or(note.first_offset, -1), note.reason)
                for note in found.damages
                if note.last_offset is None or note.last_offset >= start
            ]
            if not notes and met.path == data.path and following is None:
                position = met.position or 0
                size = data.size - position
                notes = [(met.path, position, size, _or(met.offset, -1), met.reason)]
            skipped.extend(notes)
        for valid in found.ranges:
            if valid.last_offset >= offset and offset < stop:
                for item, after in read_valid(data, valid.position, valid.end, offset):
                    offset = after
                    yield item
        offset = stop if following is None else max(offset, following.base_offset)


def _salvage_segment(
    log: "ReadableLog", base_offset: int, data: Slice, following: SegmentView | None
) -> "Salvaged":
    """Find the valid batches of a segment; ``following`` is where it has to end."""
    with loading("cannot look for valid batches"):
        from pathlib import Path

        from kstore.segment.find_next_batch import known_boundaries
        from kstore.segment.salvage import LIVE, Source, salvage

    path = Path(data.path)
    marks = partial(known_boundaries, log._files, path, base_offset)
    known = [Source(path, LIVE, base_offset, memoryview(data), boundaries=marks)]
    if following is not None:
        known.append(Source(Path(following.path), LIVE, following.base_offset))
    return salvage(known)


def _read_segment_of(
    log: "ReadableLog", offset: int, segments: SegmentList
) -> tuple[SegmentList, int, Slice]:
    """The segments, the index of the one that holds an offset, and all of its bytes."""
    number = max(segments.floor(offset), 0)
    return segments, number, log._read_whole(segments.views[number])


def check_on_damage(on_damage: str) -> None:
    if on_damage not in ("raise", "skip"):
        raise ValueError(f"on_damage is 'raise' or 'skip', not {on_damage!r}")


def _or(value: int | None, other: int) -> int:
    return other if value is None else value
