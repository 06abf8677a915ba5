"""What a log knows of its producers, and the files that keep it: snapshots, transaction index.

Kafka's ProducerStateManager. The state itself is native
(:mod:`kstore._native.append.producer_table`) and changes with the appends; here it is loaded when a
log opens, replayed from the log where the snapshots end, and written down when a segment is full
and when the log closes.

Both kinds of files are derived: every one can be made anew from the log. A snapshot that does not
parse is removed, and the one before it and the log tell the same. A transaction index that lacks
what the log tells is written anew: after an unclean stop for every segment that recovery looks
at; a lost one whenever the log is opened (:meth:`ProducerState.restore_indexes`), or when it is
first asked for (:meth:`ProducerState.aborted`). Kafka leaves a lost one lost, and then shows
aborted records.
"""

import itertools
import logging
import os
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from kstore._native.append.producer_table import ProducerTable
from kstore._native.read.segment_view import SegmentList, SegmentView
from kstore.errors import CorruptFileError, StorageError
from kstore.files import filenames
from kstore.files.files import Files
from kstore.producer_state import replay, snapshot
from kstore.producer_state.replay import AbortedFinder, base_offset_of
from kstore.producer_state.snapshot import ProducerEntry
from kstore.segment import transaction_index
from kstore.segment.transaction_index import ENTRY_SIZE, AbortedTransaction

_LOGGER = logging.getLogger("kstore")
_LIMIT = 1 << 30  # no snapshot is larger


class UncleanStop(NamedTuple):
    """What recovery went by: it decides, as in Kafka, what is known of producers afterwards.

    Kafka's LogLoader.recoverSegment loads the state before each segment that it reads, with the
    log start that the checkpoint gives, and reads that segment from its first batch on.
    """

    first_read: int  # base offset of the segment that holds the recovery point
    trusted_end: int  # what lies below was on disk
    log_start_offset: int  # of the checkpoint; the first segment may begin behind it


class ProducerState:
    """The producers of one log that is open for writing. The log's lock is held, but for reads.

    ``table`` changes with the appends; ``snapshot_offset`` is the newest snapshot's, so that a
    state that was not changed since is not written again.
    """

    def __init__(
        self, files: Files, directory: str, expiration_ms: int, *, writes: bool = True
    ) -> None:
        self.table = ProducerTable()
        self.snapshot_offset = 0
        self.expiration_ms = expiration_ms
        self.stale = False  # the log was shortened: to be loaded again before it is used
        self.unsynced: list[int] = []  # snapshots that were written and not synced
        self.replayed = 0  # bytes of log that were looked at to load it
        self.removed: list[str] = []  # names of snapshots that loading found bad or astray
        self.rewritten: list[str] = []  # names of transaction indexes made anew
        self._writes = writes  # False: no file is changed, only what is in memory
        self._files = files
        self._directory = directory
        self._aborted: dict[SegmentView, list[AbortedTransaction]] = {}
        self._walked: dict[SegmentView, bytes] = {}  # index entries of what loading replayed whole

    def relocate(self, files: Files, directory: str) -> None:
        """The log goes on in another directory, which has all its files, on disk."""
        self._files, self._directory = files, directory
        self._aborted.clear()  # read again by whoever asks
        self._walked.clear()
        self.unsynced.clear()

    def take_over(self, older: "ProducerState", segments: SegmentList) -> None:
        """Keep what another state of this log has looked up of segments that are still there."""
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
    ) -> None:
        """Bring the state to the log's end: newest good snapshot, then what the log has behind it.

        Kafka's removeStraySnapshots and UnifiedLog.rebuildProducerState, with one difference:
        a cleanly closed log without any snapshot is replayed from its start, where Kafka takes
        it that no producer ever wrote to it. May be called again, where it failed as well.

        Parameters
        ----------
        unclean
            After an unclean stop: what recovery went by. Snapshots beyond the first segment that
            it read are forgotten, and transaction indexes of the segments from its trusted end
            on are compared with the log, because they may not have been on disk.
        quiet
            Base offsets of segments that recovery has read already, without any producer's batch.
        """
        views, start, end = segments.views, segments.start_offset, segments.end_offset
        bases = [view.base_offset for view in views]
        oldest, newest = start, end
        if unclean is not None:
            newest = first_read = max(unclean.first_read, bases[0])
            oldest = unclean.log_start_offset
        offsets = self._sort_out_snapshots(bases, oldest, newest)
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
            # Recovery takes a segment in whole, what lies below the log start as well.
            first = max((base for base in bases if base <= start), default=start)
        self._walked.clear()
        is_known = is_known or first <= bases[0]
        self._replay(views, first, end, unclean, quiet, is_known=is_known)
        if unclean is not None:
            self.expire(now_ms)  # Kafka reads the snapshot again that its recovery ends with
        self._aborted.clear()
        self._begin(segments)
        self.stale = False

    def _sort_out_snapshots(self, bases: Sequence[int], start: int, end: int) -> list[int]:
        """Remove snapshots that belong to nothing; returns the offsets of the others, ascending.

        One that lies on no segment's base was left by a log's close: only the newest of them
        may count, and only above the active segment's base.
        """
        found = [
            parsed.base_offset
            for parsed in map(filenames.parse, self._files.listdir(self._directory))
            if parsed is not None and parsed.kind == filenames.SNAPSHOT and not parsed.suffix
        ]
        on_base = frozenset(bases)
        newest = max((offset for offset in found if offset not in on_base), default=-1)
        kept = []
        for offset in sorted(found):
            counts = offset in on_base or (offset == newest and newest >= bases[-1])
            if counts and start < offset <= end:
                kept.append(offset)
            else:
                self._remove(self._path(offset))
        return kept

    def _load_snapshot(self, offsets: list[int], now_ms: int) -> bool:
        """Load the newest snapshot that is good, if there is one; bad ones go."""
        good = list(offsets)
        while good:
            offset = good.pop()
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
        """Replay the log from an offset; the bases of the last two segments get snapshots then.

        ``is_known``: the table has every transaction that is open at start.
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
                self._walked[view] = self.table.aborted
            if unclean is not None and view.next_offset > unclean.trusted_end:
                self._mend_index(view, views, first)

    def _mend_index(self, view: SegmentView, views: Sequence[SegmentView], start: int) -> None:
        """Make a segment's transaction index say what the log says, here replayed from start."""
        path = os.path.join(self._directory, filenames.transaction_index_name(view.base_offset))
        there = self._files.kind(path) is not None
        entries, fault = transaction_index.load(self._files, path) if there else ([], None)
        before = [entry for entry in entries if entry.last_offset < start]
        if fault is not None and len(before) == len(entries) and start > view.base_offset:
            self._rebuild(view, views, path)  # what else ended before start is not known here
            return
        wanted = transaction_index.encode(before) + self.table.aborted
        if wanted != transaction_index.encode(entries) or (
            there and self._files.size_of(path) != len(wanted)
        ):
            self._replace(path, wanted)

    def _begin(self, segments: SegmentList) -> None:
        """Hold the active segment's transaction index, without what lies beyond the log's end.

        It is made anew where it does not parse, or is missing though there were transactions.
        """
        active = segments.views[-1]
        path = os.path.join(self._directory, filenames.transaction_index_name(active.base_offset))
        there = self._files.kind(path) is not None
        if there or not self._knows_markers():
            entries = self._read(active, segments) if there else []
        else:
            entries = self._rebuild(active, segments.views, path)
        seen = self.table.aborted_of(active.base_offset)
        if seen:  # by the replay: a reader may be ahead of the file
            entries = sorted({*entries, *transaction_index.parse(seen)}, key=_by_last_offset)
        entries = [entry for entry in entries if entry.last_offset < segments.end_offset]
        data = transaction_index.encode(entries)
        on_disk = self._files.size_of(path) if self._files.kind(path) is not None else 0
        if on_disk != len(data):
            self._replace(path, data)
        self.table.begin_segment(active.base_offset, data)

    def _knows_markers(self) -> bool:
        """Whether any producer ever ended a transaction."""
        return any(coordinator >= 0 for *_, coordinator, _ in self.table.entries())

    def restore_indexes(self, segments: SegmentList) -> None:
        """Write the transaction indexes of rolled segments that were lost anew.

        None is there where nothing was aborted, so the snapshots at both ends of a segment tell
        whether any producer may have ended a transaction in it. Only then its headers are walked;
        where they show no abort, an empty index says so to the next who opens the log. What a
        producer did that was forgotten (it expired) before its segment was full is not found.

        The log can be used without: where the disk refuses, a warning says so, and whoever asks
        for one of the others looks through its segment then.
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
        has_markers: bool | None = None  # asked of all producers at most once
        names = set(self._files.listdir(self._directory))
        seen: dict[int, list[ProducerEntry] | None] = {}
        for view, following in itertools.pairwise(views):
            name = filenames.transaction_index_name(view.base_offset)
            if name in names or not view.size:
                continue
            ends = view.base_offset, following.base_offset
            known = {
                offset: seen[offset] if offset in seen else self._known_at(offset, names)
                for offset in ends
            }
            before, after = (known[offset] for offset in ends)
            seen = known
            if after is None:
                if has_markers is None:
                    has_markers = self._knows_markers()
                ended = has_markers
            else:
                same = frozenset(before or ())
                ended = any(each.coordinator_epoch >= 0 and each not in same for each in after)
            if ended:
                path = os.path.join(self._directory, name)
                self._aborted[view], wanted = finder.find(view)
                self._keep(path, wanted, hint=True)
        self._walked.clear()  # an index says it now

    def _known_at(self, offset: int, names: set[str]) -> list[ProducerEntry] | None:
        """As _snapshot_at, by a look at names and sizes where that is enough."""
        if filenames.snapshot_name(offset) not in names:
            return None
        if self._files.size_of(self._path(offset)) == snapshot.EMPTY_SIZE:
            return []
        return self._snapshot_at(offset)

    def _snapshot_at(self, offset: int) -> list[ProducerEntry] | None:
        """The entries of a snapshot, None where there is none that can be read."""
        path = self._path(offset)
        if self._files.kind(path) is None:
            return None
        try:
            return snapshot.parse(self._files.read(path, _LIMIT))
        except CorruptFileError:
            return None

    def attach(self, segments: SegmentList, now_ms: int) -> None:
        """Be ready for appends to the last segment, whatever was interrupted before."""
        self.refresh(segments, now_ms)
        if self.table.aborted_base != segments.views[-1].base_offset:
            self._begin(segments)

    def refresh(self, segments: SegmentList, now_ms: int) -> None:
        """Load again what a truncation made stale."""
        if self.stale:
            self.load(segments, now_ms)
            self._walked.clear()

    def seal(self, old: SegmentView, base_offset: int) -> None:
        """A new segment counts from now on: the old one's transaction index is complete."""
        self._aborted[old] = transaction_index.parse(self.table.aborted)
        self.table.begin_segment(base_offset)

    # --- writing -------------------------------------------------------------------------------

    def take_snapshot(self, offset: int) -> bool:
        """Write down the state as it is before offset, unless the newest snapshot says that.

        Returns whether it did. As Kafka straight under its name: one that a crash cut short does
        not pass its checksum. One that an exception cut short is removed.
        """
        if offset <= self.snapshot_offset or not self._writes:
            return False
        path = self._path(offset)
        try:
            fd = self._files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                self._files.write(fd, self.table.snapshot())
            finally:
                self._files.close(fd)
        except BaseException:
            with suppress(StorageError):  # the first error is the one to report
                self._files.remove(path)
            raise
        self.snapshot_offset = offset
        self.unsynced.append(offset)
        return True

    def write_aborted(self) -> bool:
        """Write entries of the active segment's transaction index that are only in memory.

        Returns whether that made the file; raises StorageError, and may be called again. One
        that somebody removed or cut meanwhile is written whole.
        """
        table = self.table
        if len(table.aborted) == table.aborted_written:
            return False
        path = os.path.join(self._directory, filenames.transaction_index_name(table.aborted_base))
        fd = self._files.open(path, os.O_WRONLY | os.O_CREAT)
        try:
            start = min(table.aborted_written, self._files.size(fd))
            start -= start % ENTRY_SIZE
            self._files.pwrite(fd, table.aborted[start:], start)
        finally:
            self._files.close(fd)
        table.aborted_written = len(table.aborted)
        return start == 0

    def expire(self, now_ms: int) -> int:
        """Forget producers that wrote nothing for so long; returns how many."""
        return self.table.expire(now_ms, self.expiration_ms)

    def open_snapshot(self, offset: int) -> int:
        """Descriptor of a snapshot that is to be synced; -1 where it went with its segment."""
        path = self._path(offset)
        return self._files.open(path) if self._files.kind(path) is not None else -1

    def are_synced(self, offsets: list[int]) -> None:
        synced = frozenset(offsets)
        self.unsynced = [offset for offset in self.unsynced if offset not in synced]

    def _remove(self, path: str) -> None:
        if self._writes:
            self._files.remove(path)
            self.removed.append(os.path.basename(path))

    def _remove_if_there(self, path: str) -> None:
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
        """First offset of the oldest open transaction, or the log end (Kafka: the high watermark,
        which is the log end here). Takes no lock: the end is asked for first."""
        end = segments.end_offset
        first = self.table.first_open
        return end if first < 0 else min(max(first, segments.start_offset), end)

    def aborted(
        self, view: SegmentView, segments: SegmentList, finder: "AbortedFinder | None" = None
    ) -> list[AbortedTransaction]:
        """The aborted transactions whose markers are in one segment.

        A sealed segment without a transaction index is looked through once, by its headers: if
        it has abort markers the index was lost, and is written anew. Whoever asks for several
        segments in ascending order passes one ``finder`` to all calls: it reads none twice.
        """
        held = self.table.aborted_of(view.base_offset)
        if held is not None:
            return transaction_index.parse(held)
        known = self._aborted.get(view)
        if known is None:
            known = self._read(view, segments, finder)
            if len(self._aborted) > 2 * len(segments.views):  # of segments that are gone by now
                self._aborted.clear()
            self._aborted[view] = known
        return known

    def _read(
        self, view: SegmentView, segments: SegmentList, finder: "AbortedFinder | None" = None
    ) -> list[AbortedTransaction]:
        path = os.path.join(self._directory, filenames.transaction_index_name(view.base_offset))
        if self._files.kind(path) is None:
            return self._rebuild(view, segments.views, path, finder)
        entries, fault = transaction_index.load(self._files, path)
        return entries if fault is None else self._rebuild(view, segments.views, path, finder)

    def _rebuild(
        self,
        view: SegmentView,
        views: Sequence[SegmentView],
        path: str,
        finder: "AbortedFinder | None" = None,
    ) -> list[AbortedTransaction]:
        """Make a lost transaction index anew; where the disk refuses, for this time in memory."""
        entries, data = (finder or AbortedFinder(self, views)).find(view)
        try:
            self._keep(path, data)
        except StorageError as error:
            _warn(error)
        return entries

    def _keep(self, path: str, data: bytes | None, *, hint: bool = False) -> None:
        """Write an index that was lost; with ``hint`` an empty one as well, which is not synced:
        if it is lost, somebody looks again."""
        if data is None or not self._writes:
            return
        if data or self._files.kind(path) is not None:
            self._replace(path, data)
        elif hint:  # nothing was lost: nothing to report
            self._files.close(self._files.open(path, os.O_WRONLY | os.O_CREAT))


def _warn(error: StorageError) -> None:
    _LOGGER.warning(
        "a lost transaction index cannot be made anew; a Kafka broker would show aborted records "
        "until it is: make room, and open the log again (%s)", error,
    )  # fmt: skip


def collect_aborted(
    state_of: ProducerState, segments: SegmentList, start: int, stop: int
) -> list[AbortedTransaction]:
    """Aborted transactions with offsets in [start, stop), oldest abort first.

    Kafka's LocalLog.collectAbortedTransactions and TransactionIndex.collectAbortedTxns: from the
    segment that holds start on, until an entry says that nothing below stop was undecided.
    """
    found: list[AbortedTransaction] = []
    finder = AbortedFinder(state_of, segments.views)
    for view in segments.views[max(0, segments.floor(start)) :]:
        for entry in state_of.aborted(view, segments, finder):
            if entry.last_offset >= start and entry.first_offset < stop:
                found.append(entry)
            if entry.last_stable_offset >= stop:
                return found
    return found


def _by_last_offset(entry: AbortedTransaction) -> int:
    return entry.last_offset
