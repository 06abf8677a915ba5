"""Zeros ahead of the active segment's end (``preallocate``): written, and cut again."""

from errno import EDQUOT, ENOSPC

from kstore._native.read.segment_view import SegmentView
from kstore.errors import StorageError
from kstore.files.files import Files
from kstore.segment.segment import WritableFiles

_ZEROS = memoryview(bytes(1 << 18))  # written at a time


def prewrite(files: Files, opened: WritableFiles, start: int, end: int) -> bool:
    """Write zeros ahead in the active file, so that appends there allocate no blocks.

    Written, not reserved (``fallocate``): a sync needs no change of the file system's metadata
    only for blocks that were written. False where the disk is full: the file is unchanged then.
    Raises StorageError, with some zeros written.
    """
    try:
        for position in range(start, end, len(_ZEROS)):
            files.pwrite(opened.log_fd, _ZEROS[: end - position], position)
    except StorageError as error:
        if error.errno not in (ENOSPC, EDQUOT):
            raise
        files.truncate(opened.log_fd, start)
        return False
    return True


def trim_log(files: Files, view: SegmentView, opened: WritableFiles) -> None:
    """Remove the zeros behind the end of a prewritten file (Kafka's FileRecords.trim)."""
    if opened.prewritten and files.size(opened.log_fd) > view.size:
        files.truncate(opened.log_fd, view.size)
