"""Claims that keep two consumers of one group from reading the same partition."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from hashlib import sha256
from os.path import join
from time import monotonic, sleep

from kstore.coordinator.group.offset_records import PartitionKey
from kstore.coordinator.group.reader_offsets_file import group_file_name, group_of_file_name
from kstore.errors import GroupConflictError, NonEmptyGroupError, StoreLockedError
from kstore.files.file_lock import Lock
from kstore.files.filenames import OFFSETS_LOCK_PREFIX
from kstore.files.files import Files
from kstore.files.lock_holders import LockHolder, lock_holders

_WAIT_SECONDS = 10.0
_FIRST = 1  # the position of the first claim
_SCANS = 5  # attempts to find the process of a consumer, before assuming another user's
_PAUSE = 0.001  # seconds between attempts

LogDirs = Callable[[], Sequence[str]]  # the paths of the online directories, sorted


class Claims:
    """The partitions that this consumer reads for its group: locks across processes.

    A claim locks one byte of ``kstore.offsets-lock.<group>``, at a position hashed from topic and
    partition, in every log directory, because another process may have only one of them open. An
    alteration of the group locks all bytes from position 1. Byte 0 guards changes of the group's
    file. Not thread-safe.
    """

    def __init__(self, files: Files, log_dirs: LogDirs, group: str) -> None:
        self._files = files
        self._log_dirs = log_dirs
        self._group = group
        self._name = group_file_name(group, OFFSETS_LOCK_PREFIX)
        self._locks: dict[str, Lock] = {}  # by path, with the bytes of all claims
        self._held: dict[PartitionKey, list[Lock]] = {}

    def take(self, tp: PartitionKey) -> None:
        """Claim a partition; wait while the group is being altered.

        GroupConflictError if another consumer of the group has it.
        """
        if tp in self._held:
            return
        position = _lock_position(tp)
        taken: list[Lock] = []
        try:
            for path in self._paths():
                taken.append(self._lock_soon(path, position, 1, partial(self._add, path, position)))
        except BaseException as error:
            for lock in taken:
                lock.drop(position, 1)
            if isinstance(error, _HeldByConsumerError):
                other = (tp[0], 0 if tp[1] else 1)
                raise GroupConflictError(
                    f"another consumer of group {self._group!r} in {error.reason} reads "
                    f"partition {tp[0]}-{tp[1]}: close it (`with store.consumer(...) as consumer:` "
                    f"does), or give each consumer partitions of its own, without the topic: "
                    f"store.consumer(group={self._group!r}, assignment=[{other}])",
                    path=error.path,
                ) from None
            raise
        self._held[tp] = taken

    def _add(self, path: str, position: int) -> Lock:
        """Lock a byte of a file with the descriptor that has the other claims."""
        lock = self._locks.get(path)
        if lock is None:
            lock = self._locks[path] = self._files.lock(path, position, 1)
        else:
            lock.add(position, 1)
        return lock

    @contextmanager
    def take_all(self) -> Iterator[None]:
        """Claim all partitions, including those without a consumer, for the duration of the block.

        Waits while another call alters the group. NonEmptyGroupError if a consumer of the group
        has a partition, in this process or another.
        """
        with ExitStack() as locks:
            try:
                for path in self._paths():
                    lock = partial(self._files.lock, path, _FIRST)
                    locks.enter_context(self._lock_soon(path, _FIRST, 0, lock))
            except _HeldByConsumerError as error:
                raise NonEmptyGroupError(
                    f"a consumer of group {self._group!r} is open in {error.reason}: close it "
                    "first",
                    path=error.path,
                ) from None
            yield

    def is_taken(self, tp: PartitionKey) -> bool:
        """Whether a consumer has claimed a partition, in this process or another."""
        position = _lock_position(tp)
        return any(self._is_claimed(path, position, 1) for path in self._paths())

    def are_any_taken(self) -> bool:
        return any(self._is_claimed(path, _FIRST, 0) for path in self._paths())

    def _is_claimed(self, path: str, start: int, size: int) -> bool:
        found = self._files.locked_range(path, start, size)
        return found is not None and not _is_alteration(found)

    def _paths(self) -> list[str]:
        return [join(path, self._name) for path in self._log_dirs()]

    def _lock_soon(self, path: str, start: int, size: int, attempt: Callable[[], Lock]) -> Lock:
        """Lock bytes; wait for the end of an alteration that holds them.

        Raises _HeldByConsumerError if a consumer holds them, GroupConflictError if an alteration
        does not end in time.
        """
        end, scans = monotonic() + _WAIT_SECONDS, 0
        while True:
            with suppress(StoreLockedError):
                return attempt()
            found = self._files.locked_range(path, start, size)
            if found is not None and not _is_alteration(found):
                holders = lock_holders(path, *found)
                # no holder found: the lock was released meanwhile, or belongs to another user
                scans += 1
                if holders or scans == _SCANS:
                    raise _HeldByConsumerError(_in_words(holders), path=path)
            elif monotonic() >= end:
                holders = lock_holders(path, start, size)
                raise GroupConflictError(
                    f"the offsets of group {self._group!r} are being altered by "
                    f"{_in_words(holders)}: try again when that has ended",
                    path=path,
                )
            sleep(_PAUSE)

    def release(self, tp: PartitionKey) -> None:
        for lock in self._held.pop(tp, ()):
            lock.drop(_lock_position(tp), 1)

    def release_all(self) -> bool:
        """Release all claims; return whether there were any."""
        had_claims = bool(self._held)
        self._held.clear()
        while self._locks:
            self._locks.popitem()[1].release()  # in a forked child, the parent's locks stay
        return had_claims

    def guard(self, log_dir: str) -> Lock:
        """Lock the group's file in a log directory briefly, waiting for its current holder.

        StoreLockedError if that has not released it after 10 s.
        """
        path = join(log_dir, self._name)
        end = monotonic() + _WAIT_SECONDS
        while True:
            with suppress(StoreLockedError):
                return self._files.lock(path, 0, 1)
            if monotonic() >= end:
                raise StoreLockedError(
                    f"the file of group {self._group!r} is being changed by "
                    f"{_in_words(lock_holders(path, 0, 1))}: try again when that has ended",
                    path=path,
                )
            sleep(_PAUSE)


class _HeldByConsumerError(GroupConflictError):
    """A consumer has some of the bytes; the reason names its process."""


def _is_alteration(locked: tuple[int, int]) -> bool:
    return locked[1] == 0  # up to any position


def _in_words(holders: Sequence[LockHolder]) -> str:
    """Describe the holders of a lock; the lock itself does not name them."""
    return " and ".join(map(str, holders)) or "a process of another user"


def _lock_position(tp: PartitionKey) -> int:
    digest = sha256(f"{tp[0]}-{tp[1]}".encode()).digest()
    return _FIRST + int.from_bytes(digest[:7], "big")


def claimed_groups(files: Files, log_dirs: LogDirs) -> set[str]:
    """The groups that have an open consumer, in any process.

    Omits a group whose name is too long for a file's name.
    """
    names = {
        group_of_file_name(name, OFFSETS_LOCK_PREFIX)
        for path in log_dirs()
        for name in files.scan(path)[1]
    }
    return {
        name for name in names if name is not None and Claims(files, log_dirs, name).are_any_taken()
    }
