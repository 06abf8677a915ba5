"""Claims that keep two consumers of one group from reading the same partition."""

from hashlib import sha256
from os.path import join
from time import monotonic, sleep

from kstore.coordinator.group.offset_records import PartitionKey
from kstore.coordinator.group.reader_offsets_file import group_file_name, group_of_file_name
from kstore.errors import GroupConflictError, NonEmptyGroupError, StoreLockedError
from kstore.files.filenames import OFFSETS_LOCK_PREFIX
from kstore.files.files import Files, Lock
from kstore.files.lock_holders import lock_holders

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
        start = _lock_position(tp)
        try:
            self._held[tp] = self._files.lock(self._path, start, 1)
        except StoreLockedError:
            other = (tp[0], 0 if tp[1] else 1)
            raise GroupConflictError(
                f"another consumer of group {self._group!r} in {self._holder(start, 1)} reads "
                f"partition {tp[0]}-{tp[1]}: close it (`with store.consumer(...) as consumer:` "
                f"does), or assign other partitions to this one: assignment=[{other}]",
                path=self._path,
            ) from None

    def take_all(self) -> Lock:
        """Claim every partition, also those without a consumer, until the lock is released.

        NonEmptyGroupError if a consumer of the group has one, in this process or another.
        """
        try:
            return self._files.lock(self._path, 1)
        except StoreLockedError:
            raise NonEmptyGroupError(
                f"a consumer of group {self._group!r} is open in {self._holder(1, 0)}: close it "
                "first",
                path=self._path,
            ) from None

    def is_taken(self, tp: PartitionKey) -> bool:
        """Whether a consumer has claimed a partition, in this process or another."""
        return self._files.probe(self._path, _lock_position(tp), 1)

    def are_any_taken(self) -> bool:
        return self._files.probe(self._path, 1)

    def _holder(self, start: int, size: int) -> str:
        """Who has a lock, in words; the lock itself does not name its holder."""
        holders = lock_holders(self._path, start, size)
        return " and ".join(map(str, holders)) or "a process of another user"

    def release(self, tp: PartitionKey) -> None:
        lock = self._held.pop(tp, None)
        if lock is not None:
            lock.release()

    def release_all(self) -> bool:
        """Release all claims; whether there were any."""
        had_claims = bool(self._held)
        for tp in list(self._held):
            self.release(tp)
        return had_claims

    def guard(self) -> Lock:
        """Lock the group's file briefly, waiting for its current holder."""
        return _wait_for(self._files, self._path)


def _lock_position(tp: PartitionKey) -> int:
    digest = sha256(f"{tp[0]}-{tp[1]}".encode()).digest()
    return 1 + int.from_bytes(digest[:7], "big")


def claimed_groups(files: Files, directory: str) -> set[str]:
    """The groups that have an open consumer, in any process.

    Omits a group whose name is too long for a file's name.
    """
    names = {group_of_file_name(name, OFFSETS_LOCK_PREFIX) for name in files.scan(directory)[1]}
    return {
        name
        for name in names
        if name is not None and Claims(files, directory, name).are_any_taken()
    }


def _wait_for(files: Files, path: str) -> Lock:
    end = monotonic() + _WAIT_SECONDS
    while True:
        try:
            return files.lock(path, 0, 1)
        except StoreLockedError:
            if monotonic() >= end:
                raise
            sleep(0.001)
