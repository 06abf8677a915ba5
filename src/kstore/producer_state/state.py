"""The producer state of a log: its last stable offset, its expiry, its files (snapshots and
transaction indexes).

Kafka's ProducerStateManager. The table itself is native
(:mod:`kstore._native.append.producer_table`) and changes with the appends. This module loads it
from a snapshot and a replay of the log when the log opens, and writes a snapshot when a segment is
rolled and when the log closes.

Both kinds of files are derived: each can be rebuilt from the log. A snapshot that does not parse is
removed; an older one and a longer replay give the same state. An incomplete transaction index is
rewritten: after an unclean stop for every segment that recovery reads; a missing one when the log
is opened (:meth:`ProducerState.restore_indexes`) or a reader first needs it
(:meth:`ProducerState.aborted`). Kafka does not rebuild a missing index, and then returns aborted
records.
"""

import itertools
import logging
import os
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from kstore._native.append.producer_table import ProducerTable
from kstore._native.read.segment_view import SegmentList, SegmentView
from kstore.errors import CorruptFileError, StorageError
from kstore.files import filenames
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.integers import INT64_MIN
from kstore.producer_state import replay, snapshot
from kstore.producer_state.collect_aborted import AbortedFinder
from kstore.producer_state.replay import base_offset_of
from kstore.producer_state.snapshot import ProducerEntry
from kstore.segment import transaction_index
from kstore.segment.transaction_index import ENTRY_SIZE, AbortedTransaction

_LOGGER = logging.getLogger("kstore")
_LIMIT = 1 << 30  # bytes; no snapshot is larger


class UncleanStop(NamedTuple):
    """What recovery started from, which, as in Kafka, decides the producer state after it.

    Kafka's LogLoader.recoverSegment loads the state before each segment that it reads, with the
    log start of the checkpoint, and reads that segment from its first batch on.
    """

    first_read: int  # base offset of the segment that contains the recovery point
    trusted_end: int  # all batches below it had been synced
    log_start_offset: int  # of the checkpoint; may lie below the first segment


class _Searched(NamedTuple):
    """Which rolled segments of a list have aborted transactions, from a slot on."""

    segments: SegmentList
    first: int  # all segments from this slot on were searched
    slots: list[int]  # those with aborted transactions, and the active segment


class ProducerState:
    """The producers of one log. The caller holds the log's lock, except for reads.

    ``table`` changes with the appends; ``snapshot_offset`` is the newest snapshot's, so that an
    unchanged state is not written again.
    """

    def __init__(
        self, files: Files, directory: str, expiration_ms: int, *, writes: bool = True
    ) -> None:
        self.table = ProducerTable()
        self.snapshot_offset = 0
        self.expiration_ms = expiration_ms
        self.stale = False  # the log was truncated: the state must be loaded again before use
        self.loads = 0  # how often a load began
        self.unsynced: list[int] = []  # offsets of snapshots that are not synced yet
        self.replayed = 0  # bytes of log that loading has read
        self.removed: list[str] = []  # names of corrupt and stray snapshots that loading removed
        self.rewritten: list[str] = []  # names of rebuilt transaction indexes
        self._writes = writes  # False: changes only the state in memory, no file
        self._files = files
        self._directory = directory
        self._aborted: dict[SegmentView, list[AbortedTransaction]] = {}
        self._searched: _Searched | None = None
        self._replayed_indexes: dict[SegmentView, bytes] = {}  # of segments replayed completely

    def relocate(self, files: Files, directory: str) -> None:
        """The log has moved to another directory, where all its files are synced."""
        self._files, self._directory = files, directory
        self._aborted.clear()
        self._searched = None
        self._replayed_indexes.clear()
        self.unsynced.clear()

    def take_over(self, older: "ProducerState", segments: SegmentList) -> None:
        """Keep what an older state knows of the aborted transactions of remaining segments."""
        views = segments.views[:-1]
        self._aborted = {view: older._aborted[view] for view in views if view in older._aborted}

    # --- loading -----------------------------------------------------------------------------

    def load(
        self,
        segments: SegmentList,
        now_ms: int,
        *,
        unclean: UncleanStop | None = None,
        quiet: frozenset[int] = frozenset(),
        names: Collection[str] | None = None,
    ) -> None:
        """Load the state at the log's end: the newest valid snapshot, then a replay of the log.

        Kafka's removeStraySnapshots and UnifiedLog.rebuildProducerState, with one difference: a
        cleanly closed log without any snapshot is replayed from its start, where Kafka assumes
        that it has no producers. May be called again, also after an error.

        Parameters
        ----------
        unclean
            After an unclean stop: what recovery started from. Snapshots beyond the first segment
            that it read are removed, and the transaction indexes of the segments from its trusted
            end on are compared with the log, because they may not have been synced.
        quiet
            Base offsets of segments in which recovery found no batch of a producer id.
        names
            A listing of the directory; None: it is listed.
        """
        self.loads += 1
        views, start, end = segments.views, segments.start_offset, segments.end_offset
        bases = [view.base_offset for view in views]
        oldest, newest = start, end
        if unclean is not None:
            newest = first_read = max(unclean.first_read, bases[0])
            oldest = unclean.log_start_offset
        if names is None:
            names = self._files.listdir(self._directory)
        offsets = self._remove_stray_snapshots(names, bases, oldest, newest)
        self.table.clear()
        self.table.begin_segment(-1)
        self.replayed = 0
        self.snapshot_offset = first = start
        is_known = self._load_snapshot(offsets, now_ms)
        if is_known:
            first = self.snapshot_offset
            replay.correct_open_transactions(
                self._files, self.table, views, start, first, mapped=self._writes
            )
        elif unclean is not None and first_read <= start < end:
            # Recovery replays complete segments, also their batches below the log start.
            first = max((base for base in bases if base <= start), default=start)
        self._replayed_indexes.clear()
        is_known = is_known or first <= bases[0]
        self._replay(views, first, end, unclean, quiet, is_known=is_known)
        if unclean is not None:
            self.expire(now_ms)  # as Kafka, which reloads the snapshot that its recovery writes
        self._aborted.clear()
        self._searched = None
        self._begin(segments)
        self.stale = False

    def _remove_stray_snapshots(
        self, names: Iterable[str], bases: Sequence[int], start: int, end: int
    ) -> list[int]:
        """Remove stray snapshots (as Kafka); returns the offsets of the others, ascending.

        A snapshot at no segment's base offset comes from a close of the log: only the newest of
        them is valid, and only above the active segment's base offset.
        """
        found = [
            parsed.base_offset
            for parsed in map(filenames.parse, names)
            if parsed is not None and parsed.kind == filenames.SNAPSHOT and not parsed.suffix
        ]
        on_base = frozenset(bases)
        newest = max((offset for offset in found if offset not in on_base), default=-1)
        offsets = []
        for offset in sorted(found):
            is_valid = offset in on_base or (offset == newest and newest >= bases[-1])
            if is_valid and start < offset <= end:
                offsets.append(offset)
            else:
                self._remove(self._path(offset))
        return offsets

    def _load_snapshot(self, offsets: list[int], now_ms: int) -> bool:
        """Load the newest valid snapshot, if any; removes the corrupt ones."""
        candidates = list(offsets)
        while candidates:
            offset = candidates.pop()
            try:
                data = self._files.read(self._path(offset), _LIMIT)
                entries = snapshot.parse(data, path=self._path(offset))
            except CorruptFileError:
                self._remove(self._path(offset))
                continue
            self.table.load(entries)
            self.expire(now_ms)
            self.snapshot_offset = offset
            return True
        return False

    def _replay(
        self,
        views: Sequence[SegmentView],
        start: int,
        end: int,
        unclean: UncleanStop | None,
        quiet: frozenset[int],
        *,
        is_known: bool,
    ) -> None:
        """Replay the log from an offset; writes snapshots at the last two base offsets.

        ``is_known``: the table has every transaction that is open at ``start``.
        """
        if start >= end:
            return
        slot = max(0, bisect_right(views, start, key=base_offset_of) - 1)
        for view in views[slot:]:
            first = max(start, view.base_offset)
            if view in views[-2:]:
                self.take_snapshot(first)
            self.table.begin_segment(view.base_offset)
            size = view.size
            if view.base_offset not in quiet:
                size = replay.replay_segment(
                    self._files, self.table, view, first, mapped=self._writes
                )
                self.replayed += size
            is_known = is_known and size == view.size
            if is_known and first == view.base_offset:
                self._replayed_indexes[view] = self.table.aborted
            if unclean is not None and view.next_offset > unclean.trusted_end:
                self._repair_index(view, views, first)

    def _repair_index(self, view: SegmentView, views: Sequence[SegmentView], start: int) -> None:
        """Correct a segment's transaction index after a replay of the segment from ``start``."""
        path = os.path.join(self._directory, filenames.transaction_index_name(view.base_offset))
        exists = self._files.kind(path) is not None
        entries, fault = transaction_index.load(self._files, path) if exists else ([], None)
        before = [entry for entry in entries if entry.last_offset < start]
        if fault is not None and len(before) == len(entries) and start > view.base_offset:
            finder = AbortedFinder(self, views)
            self._rebuild(view, path, finder)  # other transactions may have ended before start
            return
        data = transaction_index.encode(before) + self.table.aborted
        if data != transaction_index.encode(entries) or (
            exists and self._files.size_of(path) != len(data)
        ):
            self._replace(path, data)

    def _begin(self, segments: SegmentList) -> None:
        """Load the active segment's transaction index, without entries beyond the log's end.

        It is rebuilt if it does not parse, or if it is missing though the log has transactions.
        """
        active = segments.views[-1]
        path = os.path.join(self._directory, filenames.transaction_index_name(active.base_offset))
        exists = self._files.kind(path) is not None
        if not exists and not self._has_markers() and not self.table.aborted:
            self.table.begin_segment(active.base_offset)  # most logs have no transactions
            return
        finder = AbortedFinder(self, segments.views)
        if exists or not self._has_markers():
            entries = self._read(active, finder) if exists else []
        else:
            entries = self._rebuild(active, path, finder)
        replayed = self.table.transaction_index_of(active.base_offset)
        if replayed:  # a reader's replay may be ahead of the file
            # Of one marker the file's entry counts: a replay from the log start on does not know
            # the transactions that were open there, and gives another last stable offset.
            by_marker = {each.last_offset: each for each in transaction_index.parse(replayed)}
            by_marker |= {each.last_offset: each for each in entries}
            entries = sorted(by_marker.values(), key=_by_last_offset)
        entries = [entry for entry in entries if entry.last_offset < segments.end_offset]
        data = transaction_index.encode(entries)
        on_disk = self._files.size_of(path) if self._files.kind(path) is not None else 0
        if on_disk != len(data):
            self._replace(path, data)
        self.table.begin_segment(active.base_offset, data)

    def _has_markers(self) -> bool:
        """Whether any producer ever ended a transaction."""
        return any(coordinator >= 0 for *_, coordinator, _ in self.table.entries())

    def restore_indexes(self, segments: SegmentList) -> None:
        """Rebuild the missing transaction indexes of rolled segments.

        A segment without aborted transactions has no index, so a missing file alone proves
        nothing. The snapshots at both ends of the segment show whether a producer may have ended
        a transaction in it; only then its headers are read. If they have no abort marker, an empty
        index is written, so that the next open does not read them again. Transactions of a
        producer that expired before the segment was rolled are not found.

        The log works without the indexes: an I/O error is logged as a warning, and a reader that
        needs a missing index reads the segment's headers.
        """
        try:
            self._restore_indexes(segments)
        except StorageError as error:
            _warn(error)

    def _restore_indexes(self, segments: SegmentList) -> None:
        views = segments.views
        if len(views) < 2 or not self._writes:
            return
        finder = AbortedFinder(self, views)
        has_markers: bool | None = None  # computed at most once
        names = set(self._files.listdir(self._directory))
        snapshots: dict[int, list[ProducerEntry] | None] = {}
        for view, following in itertools.pairwise(views):
            name = filenames.transaction_index_name(view.base_offset)
            if name in names or not view.size:
                continue
            ends = view.base_offset, following.base_offset
            snapshots = {
                offset: snapshots[offset]
                if offset in snapshots
                else self._snapshot_if_listed(offset, names)
                for offset in ends
            }
            before, after = (snapshots[offset] for offset in ends)
            if after is None:
                if has_markers is None:
                    has_markers = self._has_markers()
                has_ended_transaction = has_markers
            else:
                unchanged = frozenset(before or ())
                has_ended_transaction = any(
                    producer.coordinator_epoch >= 0 and producer not in unchanged
                    for producer in after
                )
            if has_ended_transaction:
                path = os.path.join(self._directory, name)
                self._aborted[view], data = finder.find(view)
                self._save_index(path, data, write_empty=True)
        self._replayed_indexes.clear()  # the index files exist now

    def _snapshot_if_listed(self, offset: int, names: set[str]) -> list[ProducerEntry] | None:
        """As ``_snapshot_at``, but without reading a file that is missing or has no entries."""
        if filenames.snapshot_name(offset) not in names:
            return None
        if self._files.size_of(self._path(offset)) == snapshot.EMPTY_SIZE:
            return []
        return self._snapshot_at(offset)

    def _snapshot_at(self, offset: int) -> list[ProducerEntry] | None:
        """The entries of the snapshot at an offset; None if it is missing or corrupt."""
        path = self._path(offset)
        if self._files.kind(path) is None:
            return None
        try:
            return snapshot.parse(self._files.read(path, _LIMIT))
        except CorruptFileError:
            return None

    def attach(self, segments: SegmentList, now_ms: int) -> None:
        """Prepare for appends to the last segment, also after an interrupted operation."""
        self.refresh(segments, now_ms)
        if self.table.aborted_base != segments.views[-1].base_offset:
            self._begin(segments)

    def refresh(self, segments: SegmentList, now_ms: int) -> None:
        """Load the state again after a truncation."""
        if self.stale:
            self.load(segments, now_ms)
            self._replayed_indexes.clear()

    def seal(self, old: SegmentView, base_offset: int) -> None:
        """Close the transaction index of a rolled segment and begin that of the new one."""
        self._aborted[old] = transaction_index.parse(self.table.aborted)
        self.table.begin_segment(base_offset)

    def note_none_aborted(self, view: SegmentView) -> None:
        """A new segment has no aborted transactions: without this, that nothing is in its index
        would be found by reading it, once after each round of the cleaner."""
        self._aborted[view] = []

    def forget(self, view: SegmentView) -> None:
        """A segment has left the log. The caller holds the lock under which it is searched."""
        self._aborted.pop(view, None)
        self._searched = None  # it keeps the views of its list

    # --- writing -------------------------------------------------------------------------------

    def take_snapshot(self, offset: int) -> bool:
        """Write the state before ``offset`` as a snapshot, unless a snapshot at it or later exists.

        Returns whether it wrote one. As in Kafka, the file gets its final name at once: the
        checksum detects one that a crash left incomplete. After an exception the file is removed.
        """
        if offset <= self.snapshot_offset or not self._writes:
            return False
        path = self._path(offset)
        try:
            with OpenFile(self._files, path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
                self._files.write(fd, self.table.snapshot())
        except BaseException:
            with suppress(StorageError):  # the first error is the one to report
                self._files.remove(path)
            raise
        self.snapshot_offset = offset
        self.unsynced.append(offset)
        return True

    def write_aborted(self) -> bool:
        """Write the entries of the active segment's transaction index that are only in memory.

        Returns whether it created the file; raises StorageError, and may be called again. If
        another process removed or truncated the file, all entries are written.
        """
        table = self.table
        if len(table.aborted) == table.aborted_written:
            return False
        path = os.path.join(self._directory, filenames.transaction_index_name(table.aborted_base))
        with OpenFile(self._files, path, os.O_WRONLY | os.O_CREAT) as fd:
            start = min(table.aborted_written, self._files.size(fd))
            start -= start % ENTRY_SIZE
            self._files.pwrite(fd, table.aborted[start:], start)
        table.aborted_written = len(table.aborted)
        return start == 0

    def expire(self, now_ms: int) -> int:
        """Remove the producers that are idle for ``expiration_ms``; returns their number.

        A producer with an open transaction stays, whatever its age. The age is that of its last
        record's timestamp (Kafka's ProducerStateManager.isProducerExpired).
        """
        return self.table.remove_idle(max(now_ms - self.expiration_ms, INT64_MIN))

    def open_snapshot(self, offset: int) -> int:
        """A descriptor of a snapshot to sync; -1 if the snapshot left with its segment."""
        path = self._path(offset)
        return self._files.open(path) if self._files.kind(path) is not None else -1

    def are_synced(self, offsets: list[int]) -> None:
        synced = frozenset(offsets)
        self.unsynced = [offset for offset in self.unsynced if offset not in synced]

    def _remove(self, path: str) -> None:
        if self._writes:
            self._files.remove(path)
            self.removed.append(os.path.basename(path))

    def _remove_if_present(self, path: str) -> None:
        if self._files.kind(path) is not None:
            self._remove(path)

    def _replace(self, path: str, data: bytes) -> None:
        if self._writes:
            self._files.write_atomically(path, data)
            self.rewritten.append(os.path.basename(path))

    def _path(self, offset: int) -> str:
        return os.path.join(self._directory, filenames.snapshot_name(offset))

    # --- reading ---------------------------------------------------------------------------------

    def last_stable_offset(self, segments: SegmentList) -> int:
        """First offset of the earliest open transaction, or the log end (Kafka: the high watermark,
        which is kstore's log end). Takes no lock: it reads the end first."""
        end = segments.end_offset
        first = self.table.first_open
        return end if first < 0 else min(max(first, segments.start_offset), end)

    def aborted(self, view: SegmentView, finder: AbortedFinder) -> list[AbortedTransaction]:
        """The aborted transactions whose markers are in one segment.

        The headers of a rolled segment without a transaction index are read once: if it has abort
        markers, the index was lost and is rebuilt. A caller that needs several segments in
        ascending order passes one ``finder`` to all calls, which reads no segment twice.
        """
        active = self.table.transaction_index_of(view.base_offset)
        if active is not None:
            return transaction_index.parse(active)
        aborted = self._aborted.get(view)
        if aborted is None:
            aborted = self._aborted[view] = self._read(view, finder)
        return aborted

    def known_aborted(self, view: SegmentView, offset: int) -> Iterable[AbortedTransaction] | None:
        """As :meth:`aborted`, with markers at or beyond an offset; found by bisection.

        None if the segment was not searched yet: :meth:`aborted` does it. Takes no lock.
        """
        active = self.table.transaction_index_of(view.base_offset)
        if active is not None:
            return transaction_index.entries_ending_at(active, offset)
        aborted = self._aborted.get(view)
        if aborted is None:
            return None
        first = bisect_left(aborted, offset, key=_by_last_offset)
        return (aborted[slot] for slot in range(first, len(aborted)))

    def slots_to_search(self, segments: SegmentList, first: int) -> Sequence[int]:
        """Slots of the segments from ``first`` on that may have aborted transactions, ascending.

        Most logs have none, and a consumer asks at each fetch: what a list of segments gives is
        kept until the list changes. Takes no lock.
        """
        searched = self._searched
        if searched is None or searched.segments is not segments or searched.first > first:
            views, last = segments.views, len(segments.views) - 1
            known = self._aborted
            slots = [slot for slot in range(first, last) if known.get(views[slot]) != []]
            searched = _Searched(segments, first, [*slots, last])
            if all(views[slot] in known for slot in slots):
                self._searched = searched
        return searched.slots[bisect_left(searched.slots, first) :]

    def _read(self, view: SegmentView, finder: AbortedFinder) -> list[AbortedTransaction]:
        path = os.path.join(self._directory, filenames.transaction_index_name(view.base_offset))
        if self._files.kind(path) is None:
            return self._rebuild(view, path, finder)
        entries, fault = transaction_index.load(self._files, path)
        return entries if fault is None else self._rebuild(view, path, finder)

    def _rebuild(
        self, view: SegmentView, path: str, finder: AbortedFinder
    ) -> list[AbortedTransaction]:
        """Rebuild a lost transaction index; after a write error only in memory."""
        entries, data = finder.find(view)
        try:
            self._save_index(path, data)
        except StorageError as error:
            _warn(error)
        return entries

    def _save_index(self, path: str, data: bytes | None, *, write_empty: bool = False) -> None:
        """Write a rebuilt index; with ``write_empty`` also an empty one. An empty one is not
        synced: if a crash loses it, the next open writes it again."""
        if data is None or not self._writes:
            return
        if data or self._files.kind(path) is not None:
            self._replace(path, data)
        elif write_empty:  # not in ``rewritten``: no index was lost
            self._files.close(self._files.open(path, os.O_WRONLY | os.O_CREAT))


def _warn(error: StorageError) -> None:
    _LOGGER.warning(
        "a lost transaction index cannot be rebuilt, and a Kafka broker would return aborted "
        "records until it is: free disk space and open the log again (%s)", error,
    )  # fmt: skip


def _by_last_offset(entry: AbortedTransaction) -> int:
    return entry.last_offset
