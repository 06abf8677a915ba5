"""Finds offsets by time, and collects the facts for retention.

The result is that of a scan of all records: the first offset at or above the log start whose
record, or control record, has the given timestamp or a later one. Kafka's
UnifiedLog.fetchOffsetByTimestamp and LogSegment.findOffsetByTimestamp search one segment only,
the first whose largest timestamp (or modification time, where it has none) reaches the time, and
return nothing where none of its records does.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from kstore._native.read.segment_end import find_end, find_time, first_batch_timestamp
from kstore._native.read.segment_view import SegmentList, SegmentView, Slice
from kstore.errors import CorruptRecordError
from kstore.files.files import Files
from kstore.log.offset_and_timestamp import OffsetAndTimestamp
from kstore.log.retention import SegmentFacts
from kstore.record import Record
from kstore.record.scan import scan_records
from kstore.segment.largest_timestamp import known_timestamp

if TYPE_CHECKING:
    from kstore.log.readable_log import ReadableLog
    from kstore.log.segment_source import SegmentSource

_FIRST_READ, _LONGEST_READ = 8192, 1 << 20  # bytes; an index entry is near
_Found = tuple[int, int, int]  # offset, timestamp and leader epoch of a record


def offset_for_time(log: "ReadableLog", ms: int) -> int | None:
    """Offset of the first record at or after ms, from 0 on; None where none is.

    Skips segments whose records are all older, according to their own headers. Raises
    CorruptRecordError where corrupt or lost records may be the answer.
    """
    found, lost = find_offset_for_time(log, ms)
    if lost is not None:
        raise lost
    return found


def find_record_at_time(log: "ReadableLog", ms: int) -> OffsetAndTimestamp | None:
    """As :func:`offset_for_time`, with the record's timestamp and leader epoch."""
    found, lost = log._source.on_current_segments(partial(_find_time, log._source, ms))
    if lost is not None:
        raise lost
    return None if found is None else OffsetAndTimestamp(*found)


def find_offset_for_time(
    log: "ReadableLog", ms: int
) -> tuple[int | None, CorruptRecordError | None]:
    """As :func:`offset_for_time` among the readable records, and the error if some are lost.

    The error names the lost records that may be the answer; None without any. Raises
    CorruptRecordError for other corruption.
    """
    found, lost = log._source.on_current_segments(partial(_find_time, log._source, ms))
    return None if found is None else found[0], lost


def find_newest(log: "ReadableLog") -> OffsetAndTimestamp | None:
    """The first record with the largest timestamp; None where none has one."""
    found = log._source.on_current_segments(partial(_find_newest, log._source))
    return None if found is None else OffsetAndTimestamp(*found)


def newest_offset(log: "ReadableLog") -> int | None:
    """The offset of :func:`find_newest`."""
    found = find_newest(log)
    return None if found is None else found.offset


def _find_time(
    source: "SegmentSource", ms: int, segments: SegmentList
) -> tuple[_Found | None, CorruptRecordError | None]:
    start = segments.start_offset
    found = None
    for view in segments.views[max(segments.floor(start), 0) :]:
        if may_reach(source, view, ms):
            found = _find_in_segment(source, view, start, ms)
            if found is not None:
                break
    try:
        source.check_lost(start, None if found is None else found[0], ms)
    except CorruptRecordError as lost:
        return found, lost
    return found, None


def _find_newest(source: "SegmentSource", segments: SegmentList) -> _Found | None:
    start = segments.start_offset
    best: _Found | None = None
    for view in segments.views[max(segments.floor(start), 0) :]:
        least = 0 if best is None else best[1] + 1
        if may_reach(source, view, least):
            found = _find_in_segment(source, view, start, max(least, view.max_timestamp))
            # Else it is of a record below the log start, or of one that was compacted away.
            best = found or _find_newest_in_segment(source, view, start, least) or best
    source.check_lost(start, None, 0 if best is None else best[1] + 1)
    return best


def may_reach(source: "SegmentSource", view: SegmentView, ms: int) -> bool:
    """Whether a segment may have a record at or after ms; True if corruption hides the answer."""
    if view.size == 0:
        return False
    if not view.is_largest_known:
        source.learn_times(view)
    return view.max_timestamp >= ms or not view.is_largest_known


def _find_in_segment(
    source: "SegmentSource", view: SegmentView, start: int, ms: int
) -> _Found | None:
    offset = max(start, view.base_offset)
    if not view.is_time_index_wrong:
        source.load_entries(view)
        timestamp, indexed = view.entry_before_time(ms)
        if indexed > offset:
            read = source.read_segment(view, indexed, _FIRST_READ)
            if read is not None and first_batch_timestamp(read) == timestamp:
                offset = indexed
    for data in _slices(source, view, offset):
        for found in _find_in_slice(data, start, ms):
            return found
    return None


def _find_newest_in_segment(
    source: "SegmentSource", view: SegmentView, start: int, least: int
) -> _Found | None:
    best: _Found | None = None
    for data in _slices(source, view, max(start, view.base_offset)):
        position = 0
        while (batch := _find_batch(data, position, least)) is not None:
            for record in _records_of(data, batch, start):
                if record.timestamp >= least:
                    best, least = _found(record), record.timestamp + 1
            position = sum(batch)
    return best


def _slices(source: "SegmentSource", view: SegmentView, offset: int) -> Iterator[Slice]:
    """Bytes of a segment from the batch that holds an offset on, in slices of growing size."""
    size = _FIRST_READ
    while offset < view.next_offset:
        data = source.read_segment(view, offset, size)
        if data is None:
            return
        yield data
        offset = max(offset + 1, find_end(data, 0, offset, False)[1])
        size = min(2 * size, _LONGEST_READ)


def _find_in_slice(data: Slice, start: int, ms: int) -> Iterator[_Found]:
    position = 0
    while (batch := _find_batch(data, position, ms)) is not None:
        for record in _records_of(data, batch, start):
            if record.timestamp >= ms:
                yield _found(record)
        position = sum(batch)


def _records_of(data: Slice, batch: tuple[int, int], start: int) -> Iterator[Record]:
    """The records of a batch, by position and size; with control records, as in Kafka."""
    position, size = batch
    return scan_records(
        data.memory()[position : position + size],
        start_offset=start,
        control=True,
        path=data.path,
        position_base=data.position + position,
    )


def _found(record: Record) -> _Found:
    return record.offset, record.timestamp, record.leader_epoch


def _find_batch(data: Slice, position: int, ms: int) -> tuple[int, int] | None:
    try:
        return find_time(data, position, ms)
    except CorruptRecordError as error:
        where = data.position + (error.position or 0)
        raise CorruptRecordError(error.reason, path=data.path, position=where) from None


def segment_facts(log: "ReadableLog", files: Files) -> list[SegmentFacts]:
    """The facts that the retention rules use, oldest segment first."""
    return [
        SegmentFacts(
            base_offset=view.base_offset,
            next_offset=view.next_offset,
            size=view.size,
            largest_timestamp=known_timestamp(log._source, view),
            modified_ms=files.modified_ns(view.path) // 1_000_000,
        )
        for view in log.segments.views
    ]
