"""``kstore.uncleanable``: partitions that the log cleaner skips, and why.

Kafka keeps them in memory (LogCleanerManager.uncleanablePartitions, KIP-346) and shows how many
there are. Here each log directory has a plain file, so that other processes can see them::

    {"format": 1, "partitions": [
      {"topic": "orders", "partition": 0, "error": "...", "since_ms": 1700000000000}]}

The file is only a report: the next process that opens the directory for writing tries again.
"""

import json
import logging
from os.path import join
from typing import NamedTuple

from kstore.errors import CorruptFileError, NewerFormatError, StorageError
from kstore.files.filenames import UNCLEANABLE
from kstore.files.files import Files

FORMAT = 1
_MAX_SIZE = 1 << 26
_LONGEST_ERROR = 2000  # characters

_LOGGER = logging.getLogger("kstore")


class UncleanablePartition(NamedTuple):
    """A partition that the log cleaner skips until the cause of the error is removed."""

    topic: str
    partition: int
    error: str
    since_ms: int


def read_uncleanable(files: Files, directory: str) -> tuple[UncleanablePartition, ...]:
    """The partitions of one log directory, in order; none without the file.

    Raises CorruptFileError, NewerFormatError.
    """
    path = join(directory, UNCLEANABLE)
    if files.kind(path) is None:
        return ()
    try:
        document = json.loads(files.read(path, _MAX_SIZE))
        version = document["format"]
        if isinstance(version, int) and version > FORMAT:
            raise NewerFormatError(
                f"{UNCLEANABLE} has format {version} and was written by a newer kstore; "
                f"this one knows formats up to {FORMAT}",
                path=path,
            )
        return tuple(
            UncleanablePartition(
                str(each["topic"]),
                int(each["partition"]),
                str(each["error"]),
                int(each["since_ms"]),
            )
            for each in document["partitions"]
        )
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, NewerFormatError):
            raise
        raise CorruptFileError(
            f"{UNCLEANABLE} does not parse ({error}); it is only a report: remove it",
            path=path,
        ) from None


def write_uncleanable(
    files: Files, directory: str, partitions: tuple[UncleanablePartition, ...]
) -> None:
    """Replace the file of one log directory, or remove it; a failure is only logged."""
    path = join(directory, UNCLEANABLE)
    try:
        if not partitions:
            if files.kind(path) is not None:
                files.remove(path)
            return
        document = {
            "format": FORMAT,
            "partitions": [
                {**each._asdict(), "error": each.error[:_LONGEST_ERROR]} for each in partitions
            ],
        }
        files.write_atomically(path, json.dumps(document, indent=1).encode() + b"\n")
    except StorageError as error:
        _LOGGER.warning("the list of partitions that are not compacted was not written: %s", error)


def try_to_read_uncleanable(files: Files, path: str) -> tuple[UncleanablePartition, ...]:
    """The list that the directory's writer keeps; empty, with a warning, if it does not parse."""
    try:
        return read_uncleanable(files, path)
    except (CorruptFileError, NewerFormatError) as error:
        _LOGGER.warning("%s", error)
        return ()
