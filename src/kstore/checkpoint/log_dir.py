"""One log directory (an element of Kafka's ``log.dirs``): its lock and its marker of a clean
shutdown; its checkpoints of recovery points, log starts and high watermarks; and whether it is
offline after a failure of its disk.

The directory is Kafka's: unrecognized files are reported and not changed, and
entries of partitions that were never opened stay in the checkpoints.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from os.path import dirname, join
from typing import NamedTuple

from kstore.checkpoint.clean_shutdown import (
    read_clean_shutdown,
    take_clean_shutdown,
    write_clean_shutdown,
)
from kstore.checkpoint.offset_checkpoint import format_offsets, read_offsets, write_offsets
from kstore.checkpoint.quarantine import keep_unreadable
from kstore.errors import (
    CorruptFileError,
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

PartitionKey = tuple[str, int]


class Contents(NamedTuple):
    """The result of a scan: live partitions, retired ones, other directories, plain files."""

    partitions: list[PartitionName]
    retired: dict[str, PartitionName]
    unrecognized: list[str]
    files: list[str]


class LogState(NamedTuple):
    """A log's values in the checkpoints; ``log_start`` is None where its first segment has it."""

    recovery_point: int
    log_start: int | None
    high_watermark: int


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
    """Lock a log directory for writing; StoreLockedError says so where this process has it."""
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
        self._recovery_points: Mapping[PartitionKey, int] | None = None
        self._log_starts: Mapping[PartitionKey, int] | None = None
        self._high_watermarks: Mapping[PartitionKey, int] | None = None
        self._first_dirty: Mapping[PartitionKey, int] | None = None  # as it was when first read
        self._points_seen: tuple[int, Mapping[PartitionKey, int]] | None = None  # by a reader
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

    def recovery_point(self, key: PartitionKey) -> int:
        """The first offset that may not be on disk; 0 without an entry."""
        if self._recovery_points is None:
            self._recovery_points = self._read(filenames.RECOVERY_POINTS)
        return self._recovery_points.get(key, 0)

    def log_start(self, key: PartitionKey) -> int:
        """The start offset that was set by deleting records; 0 without an entry."""
        if self._log_starts is None:
            self._log_starts = self._read(filenames.LOG_STARTS)
        return self._log_starts.get(key, 0)

    def high_watermark(self, key: PartitionKey) -> int:
        """The high watermark that a partition once had; 0 without an entry."""
        if self._high_watermarks is None:
            self._high_watermarks = self._read(filenames.HIGH_WATERMARKS)
        return self._high_watermarks.get(key, 0)

    def first_dirty_offset(self, key: PartitionKey) -> int:
        """The log cleaner has compacted a partition below it; 0 without an entry."""
        if self._first_dirty is None:
            try:
                self._first_dirty = read_offsets(self.files, self.join(filenames.CLEANER_OFFSETS))
            except CorruptFileError:  # the cleaner starts at the log start
                self._first_dirty = {}
        return self._first_dirty.get(key, 0)

    def current_log_start(self, key: PartitionKey) -> int:
        """The log start on disk now: for a reader, whose writer may raise it."""
        return self._read(filenames.LOG_STARTS).get(key, 0)

    def current_recovery_point(self, key: PartitionKey) -> int:
        """The recovery point on disk now; the file is read once for all partitions."""
        path = self.join(filenames.RECOVERY_POINTS)
        stamp = -1 if self.files.kind(path) is None else self.files.modified_ns(path)
        if self._points_seen is None or self._points_seen[0] != stamp:
            self._points_seen = stamp, self._read(filenames.RECOVERY_POINTS)
        return self._points_seen[1].get(key, 0)

    def _read(self, name: str) -> Mapping[PartitionKey, int]:
        # Kafka's rule at start-up: a checkpoint that does not parse is logged, and
        # everything is recovered from the beginning.
        try:
            return read_offsets(self.files, self.join(name))
        except CorruptFileError as error:
            note = f"{error}; continuing without it"
            if self.writable:  # the next checkpoint would replace it
                note += f", kept as {keep_unreadable(self.files, self.path, name)}"
            if note not in self.notes:
                self.notes.append(note)
                _LOGGER.warning("%s", note)
            return {}

    def checkpoint(self, states: Mapping[PartitionKey, LogState]) -> None:
        """Write the states of these logs; keeps every other entry."""
        points = dict(self._current(filenames.RECOVERY_POINTS))
        starts = dict(self._current(filenames.LOG_STARTS))
        marks = dict(self._current(filenames.HIGH_WATERMARKS))
        for key, state in states.items():
            points[key] = state.recovery_point
            marks[key] = state.high_watermark
            if state.log_start is None:
                starts.pop(key, None)
            else:
                starts[key] = state.log_start
        self._write(points, starts, marks)

    def cleaner_offset(self, key: PartitionKey) -> int | None:
        """How far a partition was compacted; None where it is unknown."""
        return self._read(filenames.CLEANER_OFFSETS).get(key)

    def take_over(self, key: PartitionKey, state: LogState, cleaned: int | None) -> None:
        """Write the checkpoint entries of a partition that is about to be moved here."""
        self.checkpoint({key: state})
        if cleaned is not None:
            offsets = {**self._read(filenames.CLEANER_OFFSETS), key: cleaned}
            write_offsets(self.files, self.join(filenames.CLEANER_OFFSETS), offsets)

    def forget(self, keys: Iterable[PartitionKey]) -> None:
        """Drop the entries of deleted partitions, so that new ones do not inherit them."""
        gone = set(keys)
        points, starts, marks, cleaned = (
            dict(self._current(name))
            for name in (
                filenames.RECOVERY_POINTS,
                filenames.LOG_STARTS,
                filenames.HIGH_WATERMARKS,
                filenames.CLEANER_OFFSETS,
            )
        )
        left = {key: offset for key, offset in cleaned.items() if key not in gone}
        if left != cleaned:
            write_offsets(self.files, self.join(filenames.CLEANER_OFFSETS), left)
        for mapping in (points, starts, marks):
            for key in gone & mapping.keys():
                del mapping[key]
        self._write(points, starts, marks)

    def _current(self, name: str) -> Mapping[PartitionKey, int]:
        if name == filenames.RECOVERY_POINTS:
            self.recovery_point(("", -1))
            return self._recovery_points or {}
        if name == filenames.LOG_STARTS:
            self.log_start(("", -1))
            return self._log_starts or {}
        if name == filenames.HIGH_WATERMARKS:
            self.high_watermark(("", -1))
            return self._high_watermarks or {}
        return self._read(name)

    def _write(
        self,
        points: Mapping[PartitionKey, int],
        starts: Mapping[PartitionKey, int],
        marks: Mapping[PartitionKey, int],
    ) -> None:
        contents = [
            (self.join(name), mapping)
            for name, mapping in (
                (filenames.RECOVERY_POINTS, points),
                (filenames.LOG_STARTS, starts),
                (filenames.HIGH_WATERMARKS, marks),
            )
            if mapping or self.files.exists(self.join(name))
        ]
        self.files.write_all_atomically(
            [(path, format_offsets(mapping)) for path, mapping in contents]
        )
        self._recovery_points, self._log_starts = points, starts
        self._high_watermarks = marks

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
