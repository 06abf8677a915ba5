"""Claims that keep two consumers of one group from reading the same partition."""

from hashlib import sha256
from os.path import join
from time import monotonic, sleep

from kstore.coordinator.group.offset_records import PartitionKey
from kstore.coordinator.group.reader_offsets_file import group_file_name
from kstore.errors import GroupConflictError, StoreLockedError
from kstore.files.filenames import OFFSETS_LOCK_PREFIX
from kstore.files.files import Files, Lock

_WAIT_SECONDS = 10.0


class Claims:
    """The partitions that this consumer reads for its group: one lock each, across processes.

    A lock is one byte of ``kstore.offsets-lock.<group>``, whose position is a hash of topic and
    partition; byte 0 guards changes of the group's file. Not thread-safe.
    """

    def __init__(self, files: Files, directory: str, group: str) -> None:
        self._files = files
        self._group = group
        self._path = join(directory, group_file_name(group, OFFSETS_LOCK_PREFIX))
        self._held: dict[PartitionKey, Lock] = {}

    def take(self, tp: PartitionKey) -> None:
        """Claim a partition; GroupConflictError if another consumer of the group has it."""
        if tp in self._held:
            return
        digest = sha256(f"{tp[0]}-{tp[1]}".encode()).digest()
        start = 1 + int.from_bytes(digest[:7], "big")
        try:
            self._held[tp] = self._files.lock(self._path, start, 1)
        except StoreLockedError:
            raise GroupConflictError(
                f"another consumer of group {self._group!r} reads partition {tp[0]}-{tp[1]}",
                path=self._path,
            ) from None

    def release(self, tp: PartitionKey) -> None:
        lock = self._held.pop(tp, None)
        if lock is not None:
            lock.release()

    def release_all(self) -> None:
        for tp in list(self._held):
            self.release(tp)

    def guard(self) -> Lock:
        """Lock the group's file briefly, waiting for its current holder."""
        return _wait_for(self._files, self._path)


def _wait_for(files: Files, path: str) -> Lock:
    end = monotonic() + _WAIT_SECONDS
    while True:
        try:
            return files.lock(path, 0, 1)
        except StoreLockedError:
            if monotonic() >= end:
                raise
            sleep(0.001)
