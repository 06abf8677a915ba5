"""Empty segments that had records: what their side files say, and whether the loss is certain.

Only the last segment of a log is empty until records are appended. Compaction leaves other empty
segments, with empty indexes, in a new file. So the records of an empty segment are lost if its
indexes have entries, or if its header checksums are of the same file when it had bytes. Opening a
log, ``verify`` and ``repair`` share this rule. For empty segments without such signs see
:mod:`kstore.verify.losses`.
"""

import os
from collections.abc import Callable, Container
from typing import NamedTuple

from kstore._native.index.index_lookup import OffsetIndex, TimeIndex
from kstore.errors import NewerFormatError, StorageError
from kstore.files import filenames
from kstore.files.files import Files
from kstore.lazy_dataclass import lazy_dataclass
from kstore.segment import header_checksums
from kstore.segment.index_entry import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from kstore.segment.index_sanity import used_size

_MOST = 1 << 26  # bytes


@lazy_dataclass(frozen=True)
class StopState:
    """How a log directory was left; the functions are called only if the answer matters."""

    is_clean: bool
    recovery_point: Callable[[], int]
    was_compacted: Callable[[], bool]  # the log, by its policy or by the cleaner's checkpoint


class Signs(NamedTuple):
    """What shows that an empty segment had records."""

    has_entries: bool  # in a valid index
    was_truncated: bool  # its header checksums are of this file, with bytes

    def find_certainty(self, base: int, stop: StopState, *, is_end: bool) -> bool | None:
        """Whether the loss of the records is certain; None if there is no loss.

        ``is_end``: all later segments are empty, too. Then a power cut, before the segment was
        synced, explains it. A copy of a log that was compacted meanwhile may have an older index
        beside an empty log; and a broker's cleaner that ran twice may reuse an inode.
        """
        if self.has_entries and (stop.is_clean or self.was_truncated):
            return True
        if self.was_truncated:
            return not stop.was_compacted()
        if not self.has_entries:
            return None
        if base < stop.recovery_point():
            return not stop.was_compacted()
        return None if is_end else False


def find_signs(
    files: Files, directory: str | os.PathLike[str], base: int, end: int, names: Container[str]
) -> Signs:
    """The signs of an empty segment before another one at ``end``; ``names`` is a listing.

    No sign counts while the log has the name of an unfinished compaction: indexes may be of the old
    log. Raises StorageError for a file that vanishes.
    """
    if filenames.log_name(base) not in names:
        return Signs(False, False)
    folder = os.fspath(directory)
    was_truncated = filenames.header_checksums_name(base) in names and _had_bytes(
        files, folder, base
    )
    return Signs(_has_entries(files, folder, base, end, names), was_truncated)


def _had_bytes(files: Files, directory: str, base: int) -> bool:
    """Whether header checksums are of this log file, and say that it had bytes."""
    try:
        stamp = header_checksums.read_stamp(files, directory, base)
        about = files.about(os.path.join(directory, filenames.log_name(base)))
    except (StorageError, NewerFormatError):  # an audit reports it
        return False
    return stamp is not None and stamp[0] == about.st_ino and stamp[2] > 0


def _has_entries(files: Files, directory: str, base: int, end: int, names: Container[str]) -> bool:
    """Whether a valid index has entries below end."""
    if (name := filenames.index_name(base)) in names:
        path = os.path.join(directory, name)
        if size := used_size(files, path, OFFSET_ENTRY_SIZE):
            index = OffsetIndex(files.read(path, limit=_MOST)[:size], base)
            if index.find_fault() is None and index[index.count - 1][0] < end:
                return True
    if (name := filenames.time_index_name(base)) in names:
        path = os.path.join(directory, name)
        if size := used_size(files, path, TIME_ENTRY_SIZE):
            times = TimeIndex(files.read(path, limit=_MOST)[:size], base)
            return times.count > 0 and times.find_fault(end) is None
    return False
