"""Replays the batches and markers of segments into a producer table."""

from collections.abc import Sequence

from kstore._native.append.producer_table import ProducerTable
from kstore._native.read.segment_view import SegmentView
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.segment import transaction_index

_MAX_OFFSET = 2**63 - 1
_CHUNK = 8 << 20  # bytes read at a time if the segment is not mapped


def replay_segment(
    files: Files,
    table: ProducerTable,
    view: SegmentView,
    start: int,
    *,
    mapped: bool,
    stop: int = _MAX_OFFSET,
) -> int:
    """Replay a segment's published batches in [start, stop); returns the number of bytes read.

    That is the segment's size, unless damage or ``stop`` ends the replay. It parses only headers
    and markers. ``mapped``: the file may be mapped, since no other process truncates it.
    """
    size = view.size
    if size == 0:
        return 0
    with OpenFile(files, view.path) as fd:
        if mapped and files.native:
            with memoryview(files.map(fd, size)) as data:
                return table.replay(data, start, stop)
        position = 0
        while position < size:
            step = _CHUNK
            chunk = files.pread(fd, min(step, size - position), position)
            done = table.replay(chunk, start, stop)
            while done == 0 and step < size - position:
                step *= 8  # one batch is larger than a chunk
                chunk = files.pread(fd, min(step, size - position), position)
                done = table.replay(chunk, start, stop)
            if done == 0:
                break
            position += done
    return position


def correct_open_transactions(
    files: Files,
    table: ProducerTable,
    views: Sequence[SegmentView],
    start: int,
    stop: int,
    *,
    mapped: bool,
) -> None:
    """Close transactions that a snapshot has as open though an emptied control batch ended them.

    The writer of the snapshot at ``stop`` (a Kafka follower, an older kstore) may have skipped a
    control batch without records. This function reads the headers from the earliest open
    transaction, or from the log start, up to the snapshot.
    """
    opened = {entry[0]: entry[-1] for entry in table.entries() if entry[-1] >= 0}
    begin = max(start, min(opened.values(), default=stop))
    if begin >= stop:
        return
    replayed = ProducerTable()
    replayed.load(entry for entry in table.entries() if 0 <= entry[-1] < begin)
    for view in views:
        if view.base_offset < stop and view.next_offset > begin:
            replay_segment(files, replayed, view, begin, stop=stop, mapped=mapped)
    now_open = {entry[0]: entry[-1] for entry in replayed.entries()}
    for ended in transaction_index.parse(replayed.aborted):
        if opened.get(ended.producer_id) == ended.first_offset:
            table.set_open_transaction(ended.producer_id, now_open[ended.producer_id])


def base_offset_of(view: SegmentView) -> int:
    return view.base_offset
