"""The largest timestamp of a segment, and whether its time index agrees with its log.

Only the log can be trusted. A time index can be lost, short, or corrupt; a broker that loses one
continues with an empty one, whose entries say nothing about earlier records. So both ends
of the index are compared with batch headers, read from the first batch to the one of
the first entry, and from the last entry but one to the end of the segment. That is two
short reads where timestamps grow. Where the index is missing or wrong, all headers are read, once.
"""

from collections.abc import Callable
from typing import Any, Protocol

from kstore._native.format import batch_fields
from kstore._native.read.segment_end import find_largest_time
from kstore._native.read.segment_view import SegmentView
from kstore.files.files import Files

_FIRST_READ, _LONGEST_READ = 8192, 1 << 20  # bytes
_INT64_MAX = 2**63 - 1

ReadAt = Callable[[int, int], Any]  # position, size: bytes of a log file, fewer at its end


def learn_largest_time(
    view: SegmentView,
    indexed: SegmentView,
    read_at: ReadAt,
    has_only_zeros: Callable[[int, int], bool] = lambda start, end: False,
) -> None:
    """Set the largest timestamp of a segment's published batches, if it is not known yet.

    It stays unknown where corruption hides batches. Appends may continue meanwhile.

    Parameters
    ----------
    indexed
        Has the entries of the segment's indexes: the view itself, or another one.
    has_only_zeros
        Whether the file has nothing but zeros between two positions: a broker that preallocates
        leaves them after the last batch.
    """
    if view.is_largest_known:
        return
    size = view.size  # first: an append notes its own timestamps
    if _learn_from_index(view, indexed, read_at, size):
        return
    timestamp, offset = indexed.time_entry(0)
    view.is_time_index_wrong = indexed.time_index_count > 1 or (
        indexed.time_index_count == 1 and _walk(read_at, 0, size, offset)[1] != timestamp
    )
    end, largest, at = _walk(read_at, 0, size)
    view.note_timestamp(largest, at)
    view.is_largest_known = end == size or has_only_zeros(end, size)


def _learn_from_index(view: SegmentView, indexed: SegmentView, read_at: ReadAt, size: int) -> bool:
    """Whether the headers at both ends of the time index agree with it, and none is missing.

    Uses the last entry but one, as a search begins with an entry before the one it needs: the
    last one may be wrong without a contradiction.
    """
    count = indexed.time_index_count
    if count < 2:
        return False
    timestamp, offset = indexed.time_entry(0)
    if _walk(read_at, 0, size, offset)[1] != timestamp:
        return False
    timestamp, offset = indexed.time_entry(count - 2)
    position = indexed.floor_position(offset)
    head = read_at(position, batch_fields.SIZE_POSITION) if position else b""
    first = batch_fields.base_offset(head) if len(head) == batch_fields.SIZE_POSITION else 0
    if not 0 <= first <= offset:
        return False  # the offset index points behind the batch
    start, largest, _ = _walk(read_at, position, size, offset)
    if largest != timestamp:
        return False
    end, largest, at = _walk(read_at, start, size)
    if end != size:
        return False
    view.note_timestamp(timestamp, offset)
    view.note_timestamp(largest, at)
    view.is_largest_known = True
    return True


def _walk(
    read_at: ReadAt, position: int, size: int, until: int = _INT64_MAX
) -> tuple[int, int, int]:
    """Walk headers from a batch to the one that reaches an offset, or to the end.

    Returns (position after the last batch, largest timestamp, last offset of its batch).
    """
    largest, at, last, step = -1, -1, -1, _FIRST_READ
    while position < size and last < until:
        data = read_at(position, min(step, size - position))
        walked, newest, where, end = find_largest_time(data, 0, until)
        if not walked:
            step = batch_fields.declared_size(data)  # perhaps the batch is larger
            if not len(data) < step <= size - position:
                break
            continue
        if end <= last:
            break  # offsets do not increase: corrupt
        if newest > largest:
            largest, at = newest, where
        position, last = position + walked, end
        step = min(max(2 * step, _FIRST_READ), _LONGEST_READ)
    return position, largest, at


class TimesSource(Protocol):
    """The writer or reader of a log, which reads a segment to find its largest timestamp."""

    def learn_times(self, view: SegmentView) -> object: ...


def largest_timestamp(source: TimesSource, files: Files, view: SegmentView) -> int:
    """Largest timestamp of a segment; its file's modification time where it has none.

    Kafka's LogSegment.largestTimestamp, by which it compacts.
    """
    largest = known_timestamp(source, view)
    return largest if largest >= 0 else files.modified_ns(view.path) // 1_000_000


def known_timestamp(source: TimesSource, view: SegmentView) -> int:
    """Largest timestamp of a segment's records; -1 where none has one, or some are corrupt."""
    source.learn_times(view)
    return view.max_timestamp if view.is_largest_known else -1
