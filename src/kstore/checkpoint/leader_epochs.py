"""Which leader epoch wrote which offsets: Kafka's LeaderEpochFileCache and its file.

The file ``leader-epoch-checkpoint`` has the frame of an offset checkpoint with entries
``epoch start_offset``, ascending in both. kstore stamps the latest epoch on what it appends; a
broker begins the next one (:meth:`kstore.Log.begin_epoch`). All rules are Kafka's, because a Kafka
broker continues from this file.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from os import PathLike
from typing import NamedTuple

from kstore.checkpoint.offset_checkpoint import (
    INT32_MAX,
    INT64_MAX,
    format_frame,
    parse_frame,
    parse_number,
)
from kstore.files.files import Files


class EpochEntry(NamedTuple):
    """An epoch and the first offset written in it."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """The epochs of one log, ascending. Changes need the log's lock, lookups none.

    Changes stay in memory until :meth:`save`; every changing method returns whether it changed
    anything. Kafka saves at once after ``assign`` and may delay after a truncation.
    """

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._entries: tuple[EpochEntry, ...] = ()  # replaced, never changed
        self._saved: tuple[EpochEntry, ...] = ()  # those of the file
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    @classmethod
    def load(cls, files: Files, path: str | PathLike[str]) -> "LeaderEpochs":
        """Read the file; missing or empty means no epochs, a malformed one CorruptFileError.

        Assigns entries in order, as Kafka does: of entries out of order the
        later line wins.
        """
        return cls.parse(files.read(path), path) if files.exists(path) else cls()

    @classmethod
    def parse(cls, data: bytes, path: str | PathLike[str]) -> "LeaderEpochs":
        epochs = cls(
            (
                parse_number(fields[0], INT32_MAX, line, path),
                parse_number(fields[1], INT64_MAX, line, path),
            )
            for line, fields in parse_frame(data, path, columns=2)
        )
        epochs._saved = epochs._entries
        return epochs

    def save(self, files: Files, path: str | PathLike[str]) -> None:
        """Replace the file atomically."""
        entries = self._entries
        files.write_atomically(path, self.format())
        self._saved = entries

    @property
    def is_saved(self) -> bool:
        """Whether the file has these epochs: not after a change whose :meth:`save` has failed."""
        return self._saved == self._entries

    def format(self) -> bytes:
        return format_frame(f"{entry.epoch} {entry.start_offset}" for entry in self._entries)

    def __iter__(self) -> Iterator[EpochEntry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LeaderEpochs) and self._entries == other._entries

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"LeaderEpochs({[tuple(entry) for entry in self._entries]})"

    @property
    def latest(self) -> EpochEntry | None:
        entries = self._entries
        return entries[-1] if entries else None

    @property
    def earliest(self) -> EpochEntry | None:
        entries = self._entries
        return entries[0] if entries else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record that epoch begins at start_offset; ignored if the latest epoch is the same.

        Removes entries at the end that are not below the new one in both columns.
        """
        if not 0 <= epoch <= INT32_MAX or not 0 <= start_offset <= INT64_MAX:
            raise ValueError(f"epoch {epoch} at offset {start_offset} is out of range")
        entries = self._entries
        if entries and epoch == entries[-1].epoch and start_offset >= entries[-1].start_offset:
            return False
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries = entries[:-1]
        self._entries = (*entries, EpochEntry(epoch, start_offset))
        return True

    def truncate_from_end(self, end_offset: int) -> bool:
        """Remove the epochs that start at or beyond end_offset, the new log end."""
        kept = tuple(entry for entry in self._entries if entry.start_offset < end_offset)
        changed = len(kept) < len(self._entries)
        self._entries = kept
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """Make start_offset the log start: its epoch now starts there; removes older ones."""
        entries = self._entries
        gone = bisect_right(entries, start_offset, key=lambda entry: entry.start_offset)
        if gone == 0 or (gone == 1 and entries[0].start_offset == start_offset):
            return False
        self._entries = (EpochEntry(entries[gone - 1].epoch, start_offset), *entries[gone:])
        return True

    def epoch_for(self, offset: int) -> int:
        """The epoch in which an offset was written; -1 where it is unknown."""
        entries = self._entries
        slot = bisect_right(entries, offset, key=lambda entry: entry.start_offset)
        return entries[slot - 1].epoch if slot > 0 else -1

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest known epoch up to this one, and the offset at which the next one starts.

        The log end for the latest epoch, (-1, -1) for a later one. An epoch below the first known
        one ends where that one starts. Kafka's LeaderEpochFileCache.endOffsetFor.
        """
        entries = self._entries
        slot = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
        if epoch >= 0 and slot < len(entries):
            return (entries[slot - 1].epoch if slot else epoch), entries[slot].start_offset
        if entries and entries[-1].epoch == epoch:
            return epoch, log_end
        return -1, -1
