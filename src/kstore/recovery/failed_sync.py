"""``kstore.unsynced``: a sync of a partition's files failed, so the disk may lack what reads show.

After a failed fsync Linux keeps the pages in its cache and marks them clean. Reads still return
them, and so does the recovery of a log that is opened again; a later sync succeeds without writing
them, and a power cut loses them. Bytes reach the disk only when they are written again. So the
next writer rewrites what had not been synced before it acknowledges anything.

The file has no content, because it need not survive a power cut: the page cache does not, and the
disk then shows what it has. If the disk refuses the file too, this process remembers the partition.
"""

import os
from contextlib import suppress

from kstore.errors import StorageError
from kstore.files import filenames
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.segment.scan import READ_SIZE

_REMEMBERED: set[str] = set()  # paths of partition directories


def note_failed_sync(files: Files, directory: str) -> None:
    """Remember that some of a partition's files may not be on disk. Raises nothing."""
    _REMEMBERED.add(os.path.abspath(directory))
    with suppress(StorageError):  # the disk fails: this process remembers it
        files.close(
            files.open(os.path.join(directory, filenames.UNSYNCED), os.O_WRONLY | os.O_CREAT)
        )


def has_failed_sync(files: Files, directory: str) -> bool:
    """Whether a sync has failed since the partition's files were last rewritten."""
    path = os.path.join(directory, filenames.UNSYNCED)
    return os.path.abspath(directory) in _REMEMBERED or files.kind(path) is not None


def write_again(files: Files, directory: str, first_base_offset: int) -> None:
    """Rewrite every file of the segments from a base offset on, sync them, and forget the failure.

    No byte changes, so readers may read and map the files meanwhile. Modification
    times, which Kafka's retention uses where records have no timestamps, are kept.
    """
    for name in sorted(files.listdir(directory)):
        found = filenames.parse(name)
        if found is not None and not found.suffix and found.base_offset >= first_base_offset:
            _write_again(files, os.path.join(directory, name))
    files.sync_directory(directory)
    forget_failed_sync(files, directory)


def forget_failed_sync(files: Files, directory: str) -> None:
    """Everything of the partition was written again, and is on disk."""
    path = os.path.join(directory, filenames.UNSYNCED)
    if files.kind(path) is not None:
        files.remove(path)
    _REMEMBERED.discard(os.path.abspath(directory))


def _write_again(files: Files, path: str) -> None:
    modified_ns = files.modified_ns(path)
    with OpenFile(files, path, os.O_RDWR) as fd:
        size = files.size(fd)
        for position in range(0, size, READ_SIZE):
            files.pwrite(fd, files.pread(fd, min(READ_SIZE, size - position), position), position)
        files.fsync(fd)
    files.set_modified_ns(path, modified_ns)
