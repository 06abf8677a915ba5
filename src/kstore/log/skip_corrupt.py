"""Reading on behind damage: every sound batch of a log once, whatever the damaged ones say.

A damaged header says nothing that can be gone by: neither where the next batch begins nor what
offset comes next. So a log is read as ever until damage is met; then its segment is salvaged as
:mod:`kstore.segment.salvage` does for repair, and the reading goes on with the segment behind it.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kstore._native.read.segment_view import SegmentList, Slice
from kstore.errors import CorruptRecordError, UnsupportedCompressionTypeError
from kstore.segment.salvage import LIVE, Source, landmarks_of, salvage

if TYPE_CHECKING:
    from kstore.log.log import Log

Item = TypeVar("Item")
Items = Iterator[tuple[Item, int]]  # each with the offset behind it

DAMAGE = (CorruptRecordError, UnsupportedCompressionTypeError)


def read_past_corruption(
    log: "Log",
    start: int,
    stop: int,
    read: Callable[[int], Items[Item]],
    read_sound: Callable[[Slice, int, int, int], Items[Item]],
    skipped: list[Any] | None,
) -> Iterator[Item]:
    """What read(start) gives; from damage to the end of its segment, what of it is sound.

    Parameters
    ----------
    read
        Items from an offset to stop, each with the offset behind it; raises at damage.
    read_sound
        (whole segment, begin, end, offset): items of a run of sound batches, from offset on.
    skipped
        Takes (path, position, size, offset, reason) of what is left out.

    Memory, where damage was met: that segment, unless it can be mapped.
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
        segments, number, whole = log._source.on_current_segments(
            partial(_read_segment_of, log, offset)
        )
        following = (*segments.views[number + 1 :], None)[0]
        base = segments.views[number].base_offset
        marks = partial(landmarks_of, log._files, Path(whole.path), base)
        known = [Source(Path(whole.path), LIVE, base, memoryview(whole), landmarks=marks)]
        if following is not None:  # where this one has to end
            known.append(Source(Path(following.path), LIVE, following.base_offset))
        found = salvage(known)
        if skipped is not None:
            notes = [
                (note.path, note.position, note.size, _or(note.first_offset, -1), note.reason)
                for note in found.damages
                if note.last_offset is None or note.last_offset >= start
            ]
            if not notes and met.path == whole.path and following is None:
                place = met.position or 0
                notes = [(met.path, place, whole.size - place, _or(met.offset, -1), met.reason)]
            skipped.extend(notes)
        for piece in found.pieces:
            if piece.last_offset >= offset and offset < stop:
                for item, after in read_sound(whole, piece.position, piece.end, offset):
                    offset = after
                    yield item
        offset = stop if following is None else max(offset, following.base_offset)


def _read_segment_of(
    log: "Log", offset: int, segments: SegmentList
) -> tuple[SegmentList, int, Slice]:
    """The segments, the number of the one that holds an offset, and all of its bytes."""
    number = max(segments.floor(offset), 0)
    return segments, number, log._read_whole(segments.views[number])


def check_on_damage(on_damage: str) -> None:
    if on_damage not in ("raise", "skip"):
        raise ValueError(f"on_damage is 'raise' or 'skip', not {on_damage!r}")


def _or(value: int | None, other: int) -> int:
    return other if value is None else value
