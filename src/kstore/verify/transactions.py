"""The transactional side files of a partition, compared with the markers in its log.

Only what is certain is reported: a transaction that began before the first remaining batch, or
whose batches compaction removed, proves nothing. Behind corruption nothing is compared.
Rules: Kafka's TransactionIndex, ProducerStateManager.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from kstore._native.read.aborted_transactions import TransactionWalk
from kstore.errors import CorruptFileError, StorageError
from kstore.files import filenames
from kstore.files.files import Files
from kstore.producer_state import snapshot
from kstore.segment import transaction_index
from kstore.segment.transaction_index import ENTRY_SIZE, AbortedTransaction

Report = Callable[[str, Path, int | None, int | None, str], None]
_INT64_MAX = 2**63 - 1
_LIMIT = 1 << 30  # bytes of a snapshot

TRANSACTIONS = "transaction index"
SNAPSHOT = "snapshot"


class TransactionAudit:
    """Follows the transactions of a partition, segment by segment. Not thread-safe."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        names: list[str],
        report: Report,
        opened: Mapping[int, int] | None = None,
        certain: bool = True,
    ) -> None:
        """``opened``: the transactions that are open at its start, if not that of the log."""
        self._files = files
        self._directory = directory
        self._report = report
        self._walk = TransactionWalk(-1, opened)
        self._certain = certain
        self._begun = opened is not None  # with the log's first segment
        parsed = [(name, filenames.parse(name)) for name in names]
        self._indexes = {
            found.base_offset
            for _, found in parsed
            if found is not None and not found.suffix and found.kind == filenames.TRANSACTION_INDEX
        }
        self._snapshots = {
            found.base_offset
            for _, found in parsed
            if found is not None and not found.suffix and found.kind == filenames.SNAPSHOT
        }

    @property
    def certain(self) -> bool:
        """Whether nothing was skipped so far."""
        return self._certain

    @property
    def is_begun(self) -> bool:
        """Whether a segment was walked, or others come before it."""
        return self._begun

    @property
    def opened(self) -> dict[int, int]:
        """Open transactions at this point: producer ids with first offsets."""
        return dict(self._walk.open)

    def begin(self, base: int) -> None:
        """Begin a segment: its transaction index, and the snapshot of the state before it."""
        if not self._begun:
            self._begun = True
            for offset in sorted(self._snapshots):
                self._check_snapshot(offset, None)
        elif base in self._snapshots:
            self._check_snapshot(base, dict(self._walk.open) if self._certain else None)
        self._walk.aborted.clear()
        self._walk.unproven.clear()

    def feed(self, batches: memoryview) -> None:
        """Walk complete batches, in the order of the log."""
        if self._certain and self._walk.walk(batches, 0, _INT64_MAX) < 0:
            self._certain = False

    def damaged(self) -> None:
        """Note that something was skipped: later batches prove nothing."""
        self._certain = False

    def end(self, base: int, next_offset: int, has_grown: Callable[[], bool]) -> None:
        """End a segment that was walked, and whose last batch ends before next_offset.

        ``has_grown`` is called after the index was read: it may have entries of later batches.
        """
        path = self._directory / filenames.transaction_index_name(base)
        entries = self._entries(base, path)
        if entries is None:
            return
        for entry in entries:
            if entry.last_offset >= next_offset and has_grown():
                continue
            if not base <= entry.last_offset < next_offset:
                self._report(
                    TRANSACTIONS,
                    path,
                    entries.index(entry) * ENTRY_SIZE,
                    entry.last_offset,
                    "the entry's offsets are outside the segment",
                )
                return
        if self._certain:
            self._compare(path, entries)

    def _entries(self, base: int, path: Path) -> list[AbortedTransaction] | None:
        if base not in self._indexes:
            return []
        try:
            entries, fault = transaction_index.load(self._files, path)
            size = self._files.size_of(path)
        except StorageError as error:
            self._report(TRANSACTIONS, path, None, None, error.reason)
            return None
        if fault is not None:
            self._report(TRANSACTIONS, path, fault.position, None, fault.reason)
            return None
        if size % ENTRY_SIZE:
            sentence = "the file ends within an entry"
            self._report(TRANSACTIONS, path, size - size % ENTRY_SIZE, None, sentence)
        return entries

    def _compare(self, path: Path, entries: list[AbortedTransaction]) -> None:
        indexed = {(entry.producer_id, entry.last_offset): entry for entry in entries}
        unproven = set(self._walk.unproven)
        for producer_id, first, marker in self._walk.aborted:
            entry = indexed.pop((producer_id, marker), None)
            if entry is None and (producer_id, first, marker) in unproven:
                continue  # Kafka writes none if the transaction had no records at the marker
            if entry is None:
                sentence = (
                    f"the transaction of producer {producer_id} from offset {first} on was aborted "
                    f"at offset {marker}, and has no entry"
                )
                self._report(TRANSACTIONS, path, None, marker, sentence)
            elif entry.first_offset > first:
                sentence = (
                    f"the aborted transaction of producer {producer_id} begins at offset {first}, "
                    f"not {entry.first_offset}"
                )
                position = entries.index(entry) * ENTRY_SIZE
                self._report(TRANSACTIONS, path, position, marker, sentence)

    def _check_snapshot(self, offset: int, opened: dict[int, int] | None) -> None:
        """Check a snapshot by itself, or against the transactions that are open in the log."""
        path = self._directory / filenames.snapshot_name(offset)
        try:
            data = self._files.read(path, limit=_LIMIT)
            entries = snapshot.parse(data, path=str(path))
        except CorruptFileError as error:
            if opened is None:
                self._report(SNAPSHOT, path, error.position, None, error.reason)
            return
        except StorageError as error:
            if opened is None:
                self._report(SNAPSHOT, path, None, None, error.reason)
            return
        if opened is None:
            for entry in entries:
                if entry.last_offset >= offset or entry.current_transaction_first_offset >= offset:
                    sentence = f"producer {entry.producer_id} has offsets beyond the snapshot"
                    self._report(SNAPSHOT, path, None, entry.last_offset, sentence)
            return
        in_snapshot = {
            entry.producer_id: entry.current_transaction_first_offset
            for entry in entries
            if entry.current_transaction_first_offset >= 0
        }
        for producer_id, first in opened.items():
            if in_snapshot.get(producer_id, _INT64_MAX) > first:
                sentence = (
                    f"the transaction of producer {producer_id} that is open from offset {first} "
                    "on is missing, or begins later"
                )
                self._report(SNAPSHOT, path, None, first, sentence)
