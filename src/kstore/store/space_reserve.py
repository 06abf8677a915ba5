"""Disk space that a broker reserves, so that topics and records can be deleted on a full disk.

Deleting a topic first writes the intent, so that a crash does not leave half a topic. Without a
free byte on the disk, nothing could be deleted.
"""

import errno
import logging
import os
import threading
from collections.abc import Sequence

from kstore.checkpoint.log_dir import LogDir
from kstore.errors import StorageError
from kstore.files.filenames import RESERVE
from kstore.files.open_file import OpenFile

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# For checkpoints and settings: a new file is written before it replaces the old.
MOST_BYTES = 4 << 20
_SHARE = 64  # at most 1/64 of a disk is reserved
CHUNKS = 4  # the space is released in this many parts

_LOGGER = logging.getLogger("kstore")


class SpaceReserve:
    """The file ``kstore.reserve`` in each log directory. Thread safe; all methods block."""

    def __init__(self, log_dirs: Sequence[LogDir]) -> None:
        self._log_dirs = log_dirs
        self._lock = threading.Lock()

    def fill(self) -> bool:
        """Reserve the space that is missing; False if a disk does not have it now."""
        with self._lock:
            filled = [self._fill(log_dir) for log_dir in self._live()]
        return all(filled)

    def _fill(self, log_dir: LogDir) -> bool:
        files, path = log_dir.files, log_dir.join(RESERVE)
        wanted = _wanted(log_dir)
        try:
            with OpenFile(files, path, os.O_RDWR | os.O_CREAT) as fd:
                found = files.size(fd)
                if found < wanted:
                    try:
                        files.allocate(fd, wanted)
                    except StorageError:
                        files.truncate(fd, found)  # a part may have been allocated
                        raise
        except StorageError as error:
            if error.errno not in FULL and log_dir.offline is None:
                _LOGGER.warning("%s cannot be filled: %s", path, error)
            return False
        return True

    def release(self) -> bool:
        """Release a part of the space on each disk; False if nothing is left.

        In parts, because other processes that write to the disk may use what is released.
        """
        with self._lock:
            released = [self._release(log_dir) for log_dir in self._live()]
        return any(released)

    def _release(self, log_dir: LogDir) -> bool:
        files, path = log_dir.files, log_dir.join(RESERVE)
        if not files.exists(path):
            return False
        with OpenFile(files, path, os.O_RDWR) as fd:
            found = files.size(fd)
            files.truncate(fd, max(0, found - max(1, _wanted(log_dir) // CHUNKS)))
        return found > 0

    def remove(self) -> None:
        """Release all space, for the files that a clean stop writes."""
        with self._lock:
            for log_dir in self._live():
                path = log_dir.join(RESERVE)
                if log_dir.files.exists(path):
                    log_dir.files.remove(path)

    def _live(self) -> list[LogDir]:
        return [log_dir for log_dir in self._log_dirs if log_dir.offline is None]


def _wanted(log_dir: LogDir) -> int:
    total, _ = log_dir.files.disk_space(log_dir.path)
    return min(MOST_BYTES, total // _SHARE)
