"""One log directory (an element of Kafka's ``log.dirs``): its lock and its marker of a clean
shutdown; its names; and whether it is offline after a failure of its disk.

Its checkpoints are in :mod:`kstore.checkpoint.log_dir_offsets`. The directory is Kafka's:
unrecognized files are reported and not changed.
"""

import logging
import os
from collections.abc import Callable, Sequence
from os.path import dirname, join
from typing import NamedTuple

from kstore.checkpoint.clean_shutdown import (
    read_clean_shutdown,
    take_clean_shutdown,
    write_clean_shutdown,
)
from kstore.checkpoint.log_dir_offsets import LogDirOffsets
from kstore.errors import (
    InvalidConfigError,
    KStoreError,
    LogDirOfflineError,
    StorageError,
    StoreLockedError,
)
from kstore.files import filenames
from kstore.files.failure_detector import FailureDetectingFiles
from kstore.files.file_lock import Lock
from kstore.files.filenames import PartitionName, parse_partition_directory
from kstore.files.files import Files
from kstore.files.lock_holders import is_locked_by_this_process

_LOGGER = logging.getLogger("kstore")

# Directories of Kafka's own that are no partitions: its loader skips them too.
NOT_PARTITIONS = frozenset({"remote-log-index-cache", filenames.CLUSTER_METADATA})
NEW_MARKER = b'{"version":0,"brokerEpoch":-1}'


class Contents(NamedTuple):
    """The result of a scan: live partitions, retired ones, other directories, plain files."""

    partitions: list[PartitionName]
    retired: dict[str, PartitionName]
    unrecognized: list[str]
    files: list[str]


def absolute_paths(path: object) -> tuple[str, ...]:
    """One path or a sequence of them, as the distinct absolute paths of a store.

    Raises InvalidConfigError for an empty path, which would be the current directory.
    """
    if isinstance(path, str | os.PathLike):
        paths: list[str | os.PathLike[str]] = [path]
    elif isinstance(path, Sequence) and not isinstance(path, bytes):
        paths = list(path)
    else:
        raise TypeError(f"a store takes a path, or a sequence of paths, not {type(path).__name__}")
    if not all(os.fspath(each) for each in paths):
        raise InvalidConfigError(f"a path is empty in {path!r}; '.' names the current directory")
    absolute = tuple(os.path.abspath(os.fspath(each)) for each in paths)
    if not absolute or len(set(absolute)) != len(absolute):
        raise InvalidConfigError("a store needs one or several distinct directories")
    return absolute


def check_finished(files: Files, path: str) -> None:
    """Raise where a repair was interrupted while it wrote this directory: it lacks records."""
    marker = join(path, filenames.UNFINISHED)
    if files.kind(marker) is not None:
        raise KStoreError(
            "'kstore repair' was interrupted while it wrote this directory, which therefore lacks "
            "records: remove the directory, and run repair again",
            path=marker,
        )


def _lock_directory(files: Files, path: str) -> Lock:
    """Lock a log directory for writing; StoreLockedError says so where this process has it, or
    where a broker serves it."""
    try:
        return files.lock(path)
    except StoreLockedError as error:
        if is_locked_by_this_process(path):
            error.reason = (
                "this process has this directory open for writing already: use that store, which "
                "threads may share, or close it first (`with kstore.open(...) as store:` does); "
                "mode='r' opens another one for reading"
            )
            error.at()
        else:
            # Not at the top: no start needs it.
            from kstore.checkpoint.broker_addresses import read_broker_addresses

            if addresses := read_broker_addresses(files, dirname(path)):
                error.reason = (
                    f"a broker serves this directory at {addresses[0].address}: let a Kafka client "
                    "write to that address, stop the broker, or open with mode='r'"
                )
                error.at()
        raise


class LogDir:
    """A log directory, opened for writing (locked) or for reading (nothing is changed).

    Once ``offline`` it is not used until the store is reopened: nothing is written to it, and
    its logs refuse. With the argument ``offline`` it is offline from the beginning.

    Not thread-safe, except for ``fail``: the store calls it under its own lock.
    """

    def __init__(
        self, files: Files, path: str, *, writable: bool, offline: StorageError | None = None
    ) -> None:
        self.path = path
        self.files = FailureDetectingFiles(files, self.fail)
        self.partition_count = 0
        self.notes: list[str] = []  # faults found in it, in sentences
        self.offline = offline
        self.failed: Callable[[LogDir], None] | None = None  # called once, by the failing thread
        self.needs_recovery = False  # some work is unfinished: the next writer must recover
        if offline is not None:
            _LOGGER.error("%s is skipped: %s", path, offline)
        self.writable = writable
        self._lock: Lock | None = None
        self._marker: bytes | None = None  # content of the clean shutdown marker as found
        self._was_empty: bool | None = None  # None: not scanned yet
        self._begun = False
        self.offsets = LogDirOffsets(self.files, path, self.notes, writable=writable)
        if offline is not None:
            return
        check_finished(self.files, path)
        if writable:
            _make_directories(self.files, path)
            self._lock = _lock_directory(self.files, self.join(filenames.LOCK))
        try:
            self._marker = read_clean_shutdown(self.files, path)
        except BaseException:
            self.release()
            raise

    def join(self, *names: str) -> str:
        return join(self.path, *names)

    def fail(self, error: StorageError) -> None:
        """Take the directory offline, once; any thread may call it."""
        if self.offline is not None:
            return
        self.offline = error
        _LOGGER.error("%s failed and is offline until the store is reopened: %s", self.path, error)
        if self.failed is not None:
            self.failed(self)

    def refusal(self) -> LogDirOfflineError:
        """The error for a use of a log in an offline directory."""
        error = LogDirOfflineError(
            f"the log directory is offline until the store is reopened ({self.offline})",
            errno=None if self.offline is None else self.offline.errno,
            path=self.path,
        )
        error.__cause__ = self.offline
        return error

    @property
    def clean(self) -> bool:
        """Whether the previous writer closed everything, so that no log needs recovery.

        True, too, where the directory was empty at its first scan.
        """
        return self._marker is not None or self._was_empty is True

    @property
    def recovery_due(self) -> bool:
        """Whether no process has the directory open and its last writer did not close it cleanly.

        Then the next writer recovers it first; a reader meanwhile sees no torn tail.
        """
        return not self.clean and not self.owned

    @property
    def owned(self) -> bool:
        """Whether a process has the directory open for writing now."""
        return self.files.probe(self.join(filenames.LOCK))

    @property
    def condition(self) -> str:
        """The present state on disk: "owned" by a writer, else left "clean" or "unclean"."""
        if self.owned:
            return "owned"
        return "clean" if self.files.exists(self.join(filenames.CLEAN_SHUTDOWN)) else "unclean"

    @property
    def modified_ns(self) -> int:
        """When the directory's names last changed; -1 where that is unknown."""
        try:
            return self.files.modified_ns(self.path)
        except StorageError:
            return -1

    def scan(self) -> Contents:
        """Read the directory's names, and count its partitions."""
        directories, others = self.files.scan(self.path)
        live: list[PartitionName] = []
        retired: dict[str, PartitionName] = {}
        unrecognized: list[str] = []
        for name in directories:
            parsed = parse_partition_directory(name)
            if name in NOT_PARTITIONS:
                continue
            if parsed is None:
                unrecognized.append(name)
            elif parsed.state:
                retired[name] = parsed
            else:
                live.append(parsed)
        self.partition_count = len(live) + len(retired)
        if self._was_empty is None:
            copies = [each for each in retired.values() if each.state == filenames.FUTURE]
            self._was_empty = not live and not copies
        return Contents(live, retired, sorted(unrecognized), others)

    def begin(self) -> None:
        """Remove the marker before the first log is opened for writing.

        From here on a crash requires recovery. A directory in which no log was opened keeps it.
        """
        if self._begun or not self.writable:
            return
        self._begun = True
        self._marker = take_clean_shutdown(self.files, self.path)

    def finish(self, *, clean: bool) -> None:
        """Write the original marker back if everything closed cleanly; unlock."""
        began = self._begun or (self._marker is None and self.partition_count > 0)
        if self.writable and began and clean and not self.needs_recovery and self.offline is None:
            content = NEW_MARKER if self._marker is None else self._marker
            write_clean_shutdown(self.files, self.path, content)
        self.release()

    def release(self) -> None:
        """Release the lock and do nothing else."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()


def _make_directories(files: Files, path: str) -> None:
    missing = []
    while files.kind(path) is None:
        missing.append(path)
        path = dirname(path)
    for directory in reversed(missing):
        files.make_directory(directory)
        files.sync_directory(dirname(directory))
