"""``kstore.ends``: how the transactions ended whose end markers a truncation removes.

Written before the truncation changes a file, and removed when the markers are in the log again. If
the process is killed in between, the next writer reads here which markers to write: the log does
not say any more how the transactions ended. Format: docs/format/kstore-files.md.
"""

import json
import logging
import os
from typing import NamedTuple

from kstore.errors import CorruptFileError, NewerFormatError
from kstore.files.filenames import REMOVED_ENDS
from kstore.files.files import Files
from kstore.producer_state.snapshot import ProducerEntry

_LOGGER = logging.getLogger("kstore")
FORMAT = 1
BEFORE = -1  # as first offset: the transaction began before the truncation's offset
_MOST = 1 << 26  # bytes


class RemovedEnd(NamedTuple):
    """How one transaction ended."""

    producer_id: int
    first_offset: int  # of the transaction, or BEFORE
    is_commit: bool


class RemovedEnds(NamedTuple):
    """The ends that a truncation removes.

    A kill may leave the log with any of the removed segments, so these are also ends of
    transactions that are entirely behind the offset, if they extend over several segments.
    """

    offset: int  # to which the log is truncated
    log_ends: tuple[int, ...]  # higher log ends that a kill may leave
    ends: tuple[RemovedEnd, ...]
    log_end: int  # behind the truncation, or the kill

    def is_commit(self, entry: ProducerEntry) -> bool | None:
        """How the open transaction of a producer ended; None: not known, or it has continued behind
        the truncation."""
        first = entry.current_transaction_first_offset
        if first < 0 or entry.last_offset >= self.log_end:
            return None
        for end in self.ends:
            if end.producer_id == entry.producer_id and (
                first <= self.offset if end.first_offset == BEFORE else first == end.first_offset
            ):
                return end.is_commit
        return None


def load_removed_ends(files: Files, directory: str, log_end: int) -> RemovedEnds | None:
    """The ends that a writer has to write again after a kill; None: there are none.

    Removes the file if another program has appended to the log since. A file that does not parse
    is ignored, with a warning. Raises NewerFormatError.
    """
    try:
        removed = read_removed_ends(files, directory, log_end)
    except CorruptFileError as error:
        _LOGGER.warning("%s: %s", directory, error)
        return None
    if removed is None or log_end <= removed.offset or log_end in removed.log_ends:
        return removed
    forget_removed_ends(files, directory)
    return None


def read_removed_ends(
    files: Files, directory: str | os.PathLike[str], log_end: int
) -> RemovedEnds | None:
    """The file's content, for a log with this end; None without the file.

    Raises CorruptFileError for a file that does not parse, NewerFormatError for a newer format.
    """
    path = os.path.join(directory, REMOVED_ENDS)
    if not files.exists(path):
        return None
    data = files.read(path, limit=_MOST)
    try:
        document = json.loads(data)
        number = int(document["format"])
        if number <= FORMAT:
            return RemovedEnds(
                int(document["offset"]),
                tuple(int(each) for each in document["log_ends"]),
                tuple(
                    RemovedEnd(int(producer_id), int(first), bool(is_commit))
                    for producer_id, first, is_commit in document["ends"]
                ),
                log_end,
            )
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        raise CorruptFileError(f"{REMOVED_ENDS} does not parse: {error!r}", path=path) from None
    raise NewerFormatError(
        f"{REMOVED_ENDS} has format {number}, and this kstore knows format {FORMAT} only: "
        "use a newer one",
        path=path,
    )


def write_removed_ends(files: Files, directory: str, removed: RemovedEnds) -> None:
    """Replace the file, atomically; it is on disk when this returns."""
    document = {
        "format": FORMAT,
        "offset": removed.offset,
        "log_ends": removed.log_ends,
        "ends": removed.ends,
    }
    path = os.path.join(directory, REMOVED_ENDS)
    files.write_atomically(path, json.dumps(document).encode() + b"\n")


def forget_removed_ends(files: Files, directory: str) -> None:
    """Remove the file; it is gone from the disk when this returns."""
    path = os.path.join(directory, REMOVED_ENDS)
    if files.kind(path) is not None:
        files.remove(path)
        files.sync_directory(directory)
