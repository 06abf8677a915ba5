"""Reads batches from a segment's log file without mapping it, because its owner may truncate it.

The offset index leads to a batch; from there the batches are walked to the one that holds the
offset.
"""

from contextlib import suppress

from kstore._native.format import batch_fields
from kstore._native.read.segment_view import SegmentView, Slice, find_batch_reaching, slice_of_bytes
from kstore.errors import CorruptRecordError
from kstore.files.files import Files
from kstore.segment import segment as segments_on_disk

LEAST_READ = 8192  # bytes: an index interval and some batches
_UNKNOWN = -(2**63)


def read_segment_file(files: Files, view: SegmentView, offset: int, max_bytes: int) -> Slice | None:
    """As SegmentList.read, within one segment whose index entries are loaded.

    Raises CorruptRecordError where a batch on the way is invalid; StorageError where the file was
    replaced.
    """
    fd = segments_on_disk.open_log(files, view)
    try:
        # Where the index is wrong, or the log is corrupt, walk the log from its start.
        first = _start_of_walk(files, fd, view, offset)
        starts = [first, min(first, view.floor_position(offset, 1))]
        for start in starts if 0 not in starts else starts[: starts.index(0)]:
            with suppress(CorruptRecordError):
                return _walk_to(files, fd, view, start, offset, max_bytes, start != first)
        return _walk_to(files, fd, view, 0, offset, max_bytes, True)
    finally:
        files.close(fd)


def _start_of_walk(files: Files, fd: int, view: SegmentView, offset: int) -> int:
    """The position from the index, if a batch at or below the offset begins there; else 0."""
    for back in (0, 1):  # a wrapper of v0 or v1 names its last offset
        position = view.floor_position(offset, back)
        if position == 0:
            break
        head = files.pread(fd, batch_fields.SIZE_POSITION, position)
        cut = len(head) < batch_fields.SIZE_POSITION  # a walk from there says so
        if cut or batch_fields.base_offset(head) <= offset:
            return position
    return 0


def _walk_to(
    files: Files,
    fd: int,
    view: SegmentView,
    position: int,
    offset: int,
    max_bytes: int,
    again: bool,
) -> Slice | None:
    """Walk from a batch's position to the one that holds offset; None if none reaches it."""
    while position < view.size:
        wanted = min(max(max_bytes, LEAST_READ), view.size - position)
        data = files.pread(fd, wanted, position)
        try:
            before = view.base_offset - 1 if position == 0 else _UNKNOWN
            at, size = find_batch_reaching(data, 0, offset, before, view.next_offset, again)
            if at == size == 0 and wanted == view.size - position:
                raise CorruptRecordError("the bytes end before the batch does", position=0)
        except CorruptRecordError as error:
            where = position + (error.position or 0)
            raise CorruptRecordError(
                error.reason, path=view.path, position=where, offset=offset
            ) from None
        if size == 0:
            if at == 0:  # not one complete batch in what was read
                max_bytes = max(wanted * 2, batch_fields.declared_size(data))
            position += at
            again = True  # the batches before this one were walked
            continue
        end = min(at + max(max_bytes, size), view.size - position)
        if end > len(data):
            data = files.pread(fd, end - at, position + at)
            return slice_of_bytes(view, data, position + at)
        return slice_of_bytes(view, data[at:end], position + at)
    return None
