"""Finding offsets by time, and what retention has to know of each segment.

Rules: Kafka's UnifiedLog.fetchOffsetByTimestamp and LogSegment.findOffsetByTimestamp.
"""

from typing import TYPE_CHECKING

from kstore._native.locate import SegmentView, Slice, find_end, find_time
from kstore.log import segment as segments_on_disk
from kstore.log.files import Files
from kstore.log.retention import SegmentFacts
from kstore.record.scan import scan_records

if TYPE_CHECKING:
    from kstore.log.log import Log

_LOOK = 8192  # bytes read at a time where an index has led near


def offset_for_time(log: "Log", ms: int, files: Files) -> int | None:
    """Offset of the first record at or after ms: the first segment whose largest timestamp
    reaches it, then the first batch, then the first record. None if there is none."""
    segments = log.segments
    for view in segments.views:
        if largest_timestamp(files, log.path, view) < ms:
            continue
        if view.sealed and view.time_index_count == 0:
            segments_on_disk.load_indexes(files, log.path, view)
        timestamp, start = view.floor_time(ms)
        if timestamp >= 0 and not segments_on_disk.is_time_of(files, view, timestamp, start):
            start = view.base_offset  # a wrong entry would hide what lies before it
        start = max(start, segments.start_offset, view.base_offset)
        return _first_in_segment(log, view, start, ms)
    return None


def _first_in_segment(log: "Log", view: SegmentView, start: int, ms: int) -> int | None:
    """Start lies in the first batch to look at, maybe at its end: the index names last offsets."""
    log_start = log.start_offset
    offset = start
    while offset < min(view.next_offset, log.end_offset):
        piece = log.read(offset, _LOOK)
        if piece is None or piece.segment.base_offset != view.base_offset:
            return None
        found = _first_in_slice(piece, log_start, ms)
        if found is not None:
            return found
        offset = max(offset + 1, find_end(piece, 0, offset, False)[1])
    return None


def _first_in_slice(piece: Slice, log_start: int, ms: int) -> int | None:
    position = 0
    while (batch := find_time(piece, position, ms)) is not None:
        position, size = batch
        whole = piece.memory()[position : position + size]
        for record in scan_records(
            whole,
            start_offset=log_start,
            control=True,  # Kafka looks at transaction markers too
            path=piece.path,
            position_base=piece.position + position,
        ):
            if record.timestamp >= ms:
                return record.offset
        position += size
    return None


def largest_timestamp(files: Files, directory: str, view: SegmentView) -> int:
    """Largest timestamp of a segment, by its time index; the file's modification time if none."""
    largest = indexed_timestamp(files, directory, view)
    return largest if largest >= 0 else files.modified_ns(view.path) // 1_000_000


def indexed_timestamp(files: Files, directory: str, view: SegmentView) -> int:
    """Largest timestamp of a segment as the time index tells it; -1 if it has none."""
    if view.max_timestamp < 0 and view.sealed:
        if view.time_index_count > 0:
            view.note_timestamp(*segments_on_disk.newest_time(files, view))
        else:  # into a view of its own: the indexes of all segments would fill the memory
            passing = segments_on_disk.bare(directory, view.base_offset)
            segments_on_disk.load_indexes(files, directory, passing)
            view.note_timestamp(passing.max_timestamp, passing.offset_of_max_timestamp)
            if view.max_timestamp < 0:
                view.note_timestamp(*segments_on_disk.newest_time(files, passing))
    return view.max_timestamp


def segment_facts(log: "Log", files: Files) -> list[SegmentFacts]:
    """What the rules of retention look at, oldest segment first."""
    return [
        SegmentFacts(
            base_offset=view.base_offset,
            next_offset=view.next_offset,
            size=view.size,
            largest_timestamp=indexed_timestamp(files, log.path, view),
            modified_ms=files.modified_ns(view.path) // 1_000_000,
        )
        for view in log.segments.views
    ]
