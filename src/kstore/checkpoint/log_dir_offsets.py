"""The offsets of partitions in the checkpoint files of one log directory.

Kafka's ``recovery-point-offset-checkpoint``, ``log-start-offset-checkpoint``,
``replication-offset-checkpoint`` (high watermarks) and ``cleaner-offset-checkpoint``. Entries of
partitions that were never opened stay in them.
"""

import logging
from collections.abc import Iterable, Mapping
from os.path import join
from typing import NamedTuple

from kstore.checkpoint.offset_checkpoint import format_offsets, read_offsets, write_offsets
from kstore.checkpoint.quarantine import keep_unreadable
from kstore.errors import CorruptFileError
from kstore.files import filenames
from kstore.files.files import Files

_LOGGER = logging.getLogger("kstore")
_CHECKPOINTED = (filenames.RECOVERY_POINTS, filenames.LOG_STARTS, filenames.HIGH_WATERMARKS)

PartitionKey = tuple[str, int]


class LogState(NamedTuple):
    """A log's values in the checkpoints; ``log_start`` is None where its first segment has it."""

    recovery_point: int
    log_start: int | None
    high_watermark: int


class LogDirOffsets:
    """Reads each checkpoint once, when it is first needed; writes them together.

    Faults are appended to ``notes``, in sentences; a writer keeps a checkpoint that does not parse,
    because its next one would replace it. Not thread-safe.
    """

    def __init__(self, files: Files, path: str, notes: list[str], *, writable: bool) -> None:
        self._files = files
        self._path = path
        self._notes = notes
        self._writable = writable
        self._known: dict[str, Mapping[PartitionKey, int]] = {}  # by file, as read or written
        self._first_dirty: Mapping[PartitionKey, int] | None = None  # as it was when first read
        self._points_seen: tuple[int, Mapping[PartitionKey, int]] | None = None  # by a reader

    def recovery_point(self, key: PartitionKey) -> int:
        """The first offset that may not be on disk; 0 without an entry."""
        return self._entries(filenames.RECOVERY_POINTS).get(key, 0)

    def log_start(self, key: PartitionKey) -> int:
        """The start offset that was set by deleting records; 0 without an entry."""
        return self._entries(filenames.LOG_STARTS).get(key, 0)

    def high_watermark(self, key: PartitionKey) -> int:
        """The high watermark that a partition once had; 0 without an entry."""
        return self._entries(filenames.HIGH_WATERMARKS).get(key, 0)

    def first_dirty_offset(self, key: PartitionKey) -> int:
        """The log cleaner has compacted a partition below it; 0 without an entry."""
        if self._first_dirty is None:
            try:
                self._first_dirty = read_offsets(self._files, self._join(filenames.CLEANER_OFFSETS))
            except CorruptFileError:  # the cleaner starts at the log start
                self._first_dirty = {}
        return self._first_dirty.get(key, 0)

    def current_log_start(self, key: PartitionKey) -> int:
        """The log start on disk now: for a reader, whose writer may raise it."""
        return self._read(filenames.LOG_STARTS).get(key, 0)

    def current_recovery_point(self, key: PartitionKey) -> int:
        """The recovery point on disk now; the file is read once for all partitions."""
        path = self._join(filenames.RECOVERY_POINTS)
        stamp = -1 if self._files.kind(path) is None else self._files.modified_ns(path)
        if self._points_seen is None or self._points_seen[0] != stamp:
            self._points_seen = stamp, self._read(filenames.RECOVERY_POINTS)
        return self._points_seen[1].get(key, 0)

    def cleaner_offset(self, key: PartitionKey) -> int | None:
        """How far a partition was compacted; None where it is unknown."""
        return self._read(filenames.CLEANER_OFFSETS).get(key)

    def checkpoint(self, states: Mapping[PartitionKey, LogState]) -> None:
        """Write the states of these logs; keeps every other entry."""
        points, starts, marks = self._checkpointed()
        for key, state in states.items():
            points[key] = state.recovery_point
            marks[key] = state.high_watermark
            if state.log_start is None:
                starts.pop(key, None)
            else:
                starts[key] = state.log_start
        self._write(points, starts, marks)

    def take_over(self, key: PartitionKey, state: LogState, cleaned: int | None) -> None:
        """Write the checkpoint entries of a partition that is about to be moved here."""
        self.checkpoint({key: state})
        if cleaned is not None:
            offsets = {**self._read(filenames.CLEANER_OFFSETS), key: cleaned}
            write_offsets(self._files, self._join(filenames.CLEANER_OFFSETS), offsets)

    def forget(self, keys: Iterable[PartitionKey]) -> None:
        """Drop the entries of deleted partitions, so that new ones do not inherit them.

        Writes only the files that have one.
        """
        gone = set(keys)
        cleaned = self._read(filenames.CLEANER_OFFSETS)
        if gone & cleaned.keys():
            left = {key: offset for key, offset in cleaned.items() if key not in gone}
            write_offsets(self._files, self._join(filenames.CLEANER_OFFSETS), left)
        self._first_dirty = None
        checkpointed = self._checkpointed()
        if any(gone & mapping.keys() for mapping in checkpointed):
            self._write(
                *({k: v for k, v in each.items() if k not in gone} for each in checkpointed)
            )

    def _join(self, name: str) -> str:
        return join(self._path, name)

    def _entries(self, name: str) -> Mapping[PartitionKey, int]:
        """The entries of a checkpoint that only this process writes."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._read(name)
        return known

    def _read(self, name: str) -> Mapping[PartitionKey, int]:
        # Kafka's rule at start-up: a checkpoint that does not parse is logged, and
        # everything is recovered from the beginning.
        try:
            return read_offsets(self._files, self._join(name))
        except CorruptFileError as error:
            note = f"{error}; continuing without it"
            if self._writable:  # the next checkpoint would replace it
                note += f", kept as {keep_unreadable(self._files, self._path, name)}"
            if note not in self._notes:
                self._notes.append(note)
                _LOGGER.warning("%s", note)
            return {}

    def _checkpointed(self) -> list[dict[PartitionKey, int]]:
        return [dict(self._entries(name)) for name in _CHECKPOINTED]

    def _write(self, *mappings: Mapping[PartitionKey, int]) -> None:
        """Write recovery points, log starts and high watermarks."""
        written = dict(zip(_CHECKPOINTED, mappings, strict=True))
        self._files.write_all_atomically(
            [
                (self._join(name), format_offsets(mapping))
                for name, mapping in written.items()
                if mapping or self._files.exists(self._join(name))
            ]
        )
        self._known.update(written)
