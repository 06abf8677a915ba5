"""Compacts one log: keeps the latest record of each key (Kafka's Cleaner).

A round makes two passes over rolled segments. The first puts the latest offset of each key of the
dirty section into a map of bounded memory. The second copies the retained records of each group of
segments into a new segment and swaps it in at once. If the map is full before the end of the dirty
section, the round ends there and another one follows.
"""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kstore._native.compaction.key_indexer import KeyIndexer
from kstore._native.compaction.offset_map import OffsetMap
from kstore._native.compaction.record_filter import RecordFilter
from kstore._native.read.batch_walk import BatchWalk
from kstore._native.read.segment_view import SegmentView
from kstore.checkpoint.cleaner_offsets import write_cleaner_offset
from kstore.compaction.cleanable_segments import CleanSegment, group_segments
from kstore.compaction.cleaned_transactions import CleanedTransactions
from kstore.compaction.compaction_report import CompactionReport
from kstore.compaction.expired_tombstones import has_expired_tombstones
from kstore.compaction.round_plan import RoundPlan, plan_round, with_aborted
from kstore.compaction.throttler import NO_LIMIT, Throttler
from kstore.config import LogConfig
from kstore.errors import (
    CompactionAbandonedError,
    CorruptRecordError,
    InvalidConfigError,
    PolicyViolationError,
    StorageError,
)
from kstore.files import filenames
from kstore.files.files import Files
from kstore.record.codec import compress, decompress
from kstore.segment.cleaned_segment import CleanedSegment

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.log.writer import LogWriter

BUFFER_SIZE = 1 << 19  # bytes read at a time, and written
LOAD_FACTOR = 0.9
_NO_KEYS = 4096  # bytes of a key map that stays empty
_ASK, _FULL = 1, 2  # events of a pass besides 0, the end of the bytes

Progress = Callable[[int, int], None]


def compact(
    log: "Log",
    writer: "LogWriter",
    files: Files,
    *,
    dedupe_buffer_size: int = 134_217_728,
    load_factor: float = LOAD_FACTOR,
    max_bytes_per_second: float = NO_LIMIT,
    throttle: Throttler | None = None,
    progress: Progress | None = None,
    check: Callable[[], None] = lambda: None,
    rounds: int | None = None,
    roll: bool = False,
) -> CompactionReport:
    """Clean the cleanable segments, in rounds, until all are clean or ``rounds`` are done.

    Where all are clean, and ``rounds`` is None, tombstones that ``delete.retention.ms`` no longer
    keeps are removed from them; Kafka's cleaner waits for new records. Where nothing may be
    cleaned, the report's ``passes`` is 0 and its ``reason`` says why; it also says why tombstones
    were kept.

    Parameters
    ----------
    dedupe_buffer_size, load_factor
        Bytes of the key map (24 a key), and the fraction of it that may be used. If the keys do
        not fit, the log is cleaned in several rounds.
    max_bytes_per_second
        Limit of bytes read plus bytes written.
    throttle
        Instead of this limit: a throttler that several compactions share.
    progress
        Called with bytes done and bytes in total of each round.
    check
        Called between chunks; may raise to end the compaction. Segments swapped in so far stay.
    roll
        Roll the active segment first: Kafka's cleaner never compacts it.

    Raises
    ------
    PolicyViolationError
        The topic's ``cleanup.policy`` lacks ``compact``.
    CorruptRecordError
        A batch is corrupt; its segment and all later ones stay as they were.
    CompactionAbandonedError
        The log was truncated meanwhile, records of it were deleted, or it is being moved to another
        directory.
    StorageError
        The disk is full or failed. Segments that were not swapped stay as they were.
    """
    if "compact" not in log.config.cleanup_policy:
        raise PolicyViolationError(
            "the topic's cleanup.policy does not have 'compact'; set it with alter_topic",
            path=log.path,
        )
    started = time.perf_counter()
    throttle = throttle or Throttler(max_bytes_per_second)
    if roll:
        log.roll()
    writer.state.check_lock_order()
    with writer.state.cleaning:
        report: CompactionReport | None = None
        while rounds is None or rounds > 0:
            rounds = None if rounds is None else rounds - 1
            writer.replacer.check_cleaning()
            views = log.segments.views  # before the plan, so that a later change is detected
            plan = plan_round(log, writer, files)
            output = _SwapIntoLog(log, writer, files, check, views)
            if plan.is_empty:
                stop = plan.cleaned_end
                is_first = report is None and rounds is None
                if is_first and has_expired_tombstones(log, stop, plan.now, output.check):
                    plan = with_aborted(plan, log, stop)
                    report = Round(plan, files, output, throttle, progress).purge(stop)
                report = report or plan.empty_report
                break
            report = report or plan.empty_report
            keys = OffsetMap(dedupe_buffer_size, load_factor, os.urandom(16))
            report = add_rounds(report, Round(plan, files, output, throttle, progress).run(keys))
            write_cleaner_offset(files, log.path, (log.topic, log.partition), report.end_offset)
        assert report is not None
    return replace(report, seconds=time.perf_counter() - started)


def add_rounds(first: CompactionReport, second: CompactionReport) -> CompactionReport:
    """The report of two consecutive rounds; the second rewrote the output of the first."""
    return replace(
        second,
        first_dirty_offset=first.first_dirty_offset,
        passes=first.passes + second.passes,
        keys=max(first.keys, second.keys),
        map_memory=max(first.map_memory, second.map_memory),
        records_read=first.records_read + second.records_read - first.records_kept,
        records_kept=second.records_kept,
        records_without_key=first.records_without_key + second.records_without_key,
        bytes_before=first.bytes_before + max(second.bytes_before - first.bytes_after, 0),
        segments_before=first.segments_before
        + max(second.segments_before - first.segments_after, 0),
    )


def _why_tombstones(config: LogConfig) -> str:
    return (
        f"tombstones stay for delete.retention.ms, {config.delete_retention_ms}, after their first "
        "compaction; compact() removes them then"
    )


class RoundOutput(ABC):
    """The destination of the new segments of a round."""

    @abstractmethod
    def check(self) -> None:
        """Called between chunks; may raise to end the round."""

    @abstractmethod
    def new(self, base_offset: int) -> CleanedSegment:
        """A new segment for the round to write; the round calls its ``begin``."""

    @abstractmethod
    def put(self, cleaned: CleanedSegment, base_offsets: Sequence[int]) -> None:
        """Accept a finished segment, which replaces those with these base offsets."""

    @abstractmethod
    def abandon(self, cleaned: CleanedSegment) -> None:
        """Remove a segment that stays unfinished or that ``put`` did not accept."""

    @abstractmethod
    def judge(self, base_offset: int, error: Exception) -> None:
        """Called if a segment cannot be read: may raise an error that says more than this one."""


class _SwapIntoLog(RoundOutput):
    """Swaps each new segment into the log at once."""

    def __init__(
        self,
        log: "Log",
        writer: "LogWriter",
        files: Files,
        check: Callable[[], None],
        views: Sequence[SegmentView],
    ) -> None:
        self._log = log
        self._writer = writer
        self._files = files
        self._check = check
        self._views = {view.base_offset: view for view in views}

    def check(self) -> None:
        self._writer.replacer.check_cleaning()
        self._check()

    def new(self, base_offset: int) -> CleanedSegment:
        return CleanedSegment(self._files, self._log.path, base_offset)

    def put(self, cleaned: CleanedSegment, base_offsets: Sequence[int]) -> None:
        (view,) = self._writer.replacer.replace_segments(
            [cleaned], [self._view(base) for base in base_offsets]
        )
        assert cleaned.finished is not None
        if filenames.TRANSACTION_INDEX not in cleaned.finished.kinds:
            self._writer.state.producers.note_none_aborted(view)
        self._writer.flusher.write_checksums_of(cleaned.base_offset)

    def abandon(self, cleaned: CleanedSegment) -> None:
        self._writer.replacer.abandon(cleaned)

    def judge(self, base_offset: int, error: Exception) -> None:
        """Raise CompactionAbandonedError if the segment has left the log: that is no damage."""
        view = self._view(base_offset)
        if not any(view is current for current in self._log.segments.views):
            raise CompactionAbandonedError(
                "the log was truncated while it was compacted", path=self._log.path
            ) from error

    def _view(self, base_offset: int) -> SegmentView:
        view = self._views.get(base_offset)
        if view is None:
            raise CompactionAbandonedError(
                "the log rolled or was truncated while its compaction was planned",
                path=self._log.path,
            )
        return view


class Round:
    """One filling of the key map, and the cleaning of the segments that it covers."""

    def __init__(
        self,
        plan: RoundPlan,
        files: Files,
        output: RoundOutput,
        throttle: Throttler,
        progress: Progress | None = None,
    ) -> None:
        self._plan = plan
        self._files = files
        self._output = output
        self._config = plan.config
        self._facts = {segment.base_offset: segment for segment in plan.facts}
        self._views = {segment.base_offset: plan.view(segment) for segment in plan.facts}
        self._dirty = plan.cleanable.first_dirty_offset
        self._stop = plan.cleanable.first_uncleanable_offset
        self._now = plan.now
        self._throttle = throttle
        self._progress = progress
        self._buffer = memoryview(bytearray(BUFFER_SIZE))
        self._done = 0
        self._total = plan.cleanable.clean_bytes + 2 * plan.cleanable.cleanable_bytes
        clean = [segment for segment in plan.facts if segment.base_offset < self._dirty]
        # Segments modified up to this time lose their tombstones of v0 and v1, which cannot carry
        # a delete horizon of their own.
        self._legacy_delete_horizon = (
            clean[-1].modified_ms - self._config.delete_retention_ms if clean else 0
        )

    def run(self, keys: OffsetMap) -> CompactionReport:
        end, without_key = self._index(keys)
        if end <= self._dirty:
            raise InvalidConfigError(
                f"the key map holds {keys.limit} keys, fewer than one batch has: raise "
                "log.cleaner.dedupe.buffer.size"
            )
        return self._rewrite(keys, end, without_key)

    def purge(self, end: int) -> CompactionReport:
        """Clean the segments below an offset, none of which is dirty, of what has expired."""
        self._dirty = self._stop = end
        return self._rewrite(OffsetMap(_NO_KEYS, LOAD_FACTOR, os.urandom(16)), end, 0)

    # --- the first pass ---------------------------------------------------------------------

    def _index(self, keys: OffsetMap) -> tuple[int, int]:
        """Fill the map; returns the offset up to which it covers the dirty section, and the number
        of records without a key."""
        indexer = KeyIndexer(keys, self._dirty, decompress)
        transactions = CleanedTransactions()
        transactions.add(self._plan.aborted_in(self._dirty, self._stop))

        def decide() -> int:
            producer, last = indexer.producer_id, indexer.batch_last_offset
            if indexer.is_control:
                transactions.is_removable_marker(producer, last, indexer.control_type)
                return indexer.skip_batch()
            if transactions.is_aborted(producer, last, transactional=True):
                return indexer.skip_batch()
            return indexer.index_batch()

        bases = sorted(base for base in self._views if base < self._stop)
        first = max((n for n, base in enumerate(bases) if base <= self._dirty), default=0)
        bases = bases[first:]
        for number, base in enumerate(bases):
            view = self._views[base]
            indexer.begin(view.path, base)
            if not self._walk(indexer, view, decide):
                break
            following = bases[number + 1] if number + 1 < len(bases) else self._stop
            indexer.update_latest_offset(following - 1)
        indexer.finish()
        return indexer.latest + 1, indexer.invalid

    # --- the second pass --------------------------------------------------------------------

    def _rewrite(self, keys: OffsetMap, end: int, without_key: int) -> CompactionReport:
        record_filter = RecordFilter(
            keys,
            first_dirty=self._dirty,
            latest=end - 1,
            upper_bound=self._stop,
            now=self._now,
            delete_retention=self._config.delete_retention_ms,
            last_offsets=set(self._plan.last_offsets.values()),
            decompress=decompress,
            compress=compress,
        )
        transactions = CleanedTransactions()
        transactions.add(self._plan.aborted)
        facts = [self._facts[base] for base in sorted(self._facts) if base < end]
        groups = group_segments(facts, self._config, self._stop)
        written = 0
        for group in groups:
            views = [self._views[segment.base_offset] for segment in group]
            written += self._clean_group(record_filter, transactions, group, views)
        return CompactionReport(
            first_dirty_offset=self._dirty,
            end_offset=end,
            passes=1,
            keys=len(keys),
            map_memory=keys.memory + record_filter.memory,
            records_read=record_filter.records,
            records_kept=record_filter.records_kept,
            tombstones_kept=record_filter.tombstones_kept,
            records_without_key=without_key + record_filter.invalid,
            bytes_before=sum(segment.size for segment in facts),
            bytes_after=written,
            segments_before=len(facts),
            segments_after=len(groups),
            reason=_why_tombstones(self._config) if record_filter.tombstones_kept else "",
        )

    def _clean_group(
        self,
        record_filter: RecordFilter,
        transactions: CleanedTransactions,
        group: Sequence[CleanSegment],
        views: Sequence[SegmentView],
    ) -> int:
        """Clean a group of segments into one and hand it to the output; returns its size."""
        cleaned = self._output.new(group[0].base_offset)
        try:
            cleaned.begin()
            for segment, view in zip(group, views, strict=True):
                keeps_tombstones = segment.modified_ms > self._legacy_delete_horizon
                record_filter.begin_segment(view.path, view.base_offset, keeps_tombstones)
                self._walk(
                    record_filter, view, lambda: self._decide(record_filter, transactions), cleaned
                )
            aborted, transactions.written = transactions.written, []
            modified_ns = self._modified_ns(views[-1])
            cleaned.finish(aborted, views[-1].next_offset, modified_ns, self._config)
            self._output.put(cleaned, [segment.base_offset for segment in group])
        except BaseException:
            record_filter.clear_output()
            self._output.abandon(cleaned)
            raise
        return cleaned.size

    def _decide(self, record_filter: RecordFilter, transactions: CleanedTransactions) -> int:
        """Decide about a marker, or a batch of a transaction (Kafka's checkBatchRetention)."""
        producer, last = record_filter.producer_id, record_filter.batch_last_offset
        if record_filter.is_control:
            is_removable = transactions.is_removable_marker(
                producer, last, record_filter.control_type
            )
            is_discarded = is_removable and 0 <= record_filter.delete_horizon <= self._now
            keeps_header = self._plan.last_epochs.get(producer) == record_filter.producer_epoch
        else:
            is_removable = False
            is_discarded = transactions.is_aborted(producer, last, transactional=True)
            keeps_header = False
        keeps_header = keeps_header or self._plan.last_offsets.get(producer) == last
        return record_filter.decide(is_discarded, keeps_header, is_removable)

    # --- reading and writing ----------------------------------------------------------------

    def _walk(
        self,
        walk: KeyIndexer | RecordFilter,
        view: SegmentView,
        decide: Callable[[], int],
        cleaned: CleanedSegment | None = None,
    ) -> bool:
        """Run a pass over a segment; False if the map was full before its end."""
        fd = self._open(view)
        try:
            position = 0
            while position < view.size:
                self._output.check()
                size = min(len(self._buffer), view.size - position)
                size = self._files.preadv_into(fd, self._buffer[:size], position)
                walk.attach(self._buffer[:size], position)
                try:
                    event = walk.run()
                    while event == _ASK:
                        event = decide()
                    if event == _FULL:
                        return False
                    if walk.consumed == 0:
                        self._grow(walk, view, position, size)
                        continue
                except CorruptRecordError as error:
                    self._output.judge(view.base_offset, error)
                    raise
                position += walk.consumed
                self._count_read(walk.consumed)
                if cleaned is not None and isinstance(walk, RecordFilter):
                    self._write_output(walk, cleaned)
        finally:
            walk.detach()
            self._files.close(fd)
        return True

    def _open(self, view: SegmentView) -> int:
        try:
            return self._files.open(view.path)
        except StorageError as error:
            self._output.judge(view.base_offset, error)
            raise

    def _modified_ns(self, view: SegmentView) -> int:
        try:
            return self._files.modified_ns(view.path)
        except StorageError as error:
            self._output.judge(view.base_offset, error)
            raise

    def _count_read(self, size: int) -> None:
        self._throttle.passed(size, self._output.check)
        self._done += size
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)

    def _write_output(self, record_filter: RecordFilter, cleaned: CleanedSegment) -> None:
        size = record_filter.output_size
        if size:
            cleaned.write(record_filter.output())
            record_filter.clear_output()
            self._throttle.passed(size, self._output.check)

    def _grow(self, walk: BatchWalk, view: SegmentView, position: int, size: int) -> None:
        """Enlarge the buffer for a large batch; raises CorruptRecordError if it is incomplete."""
        wanted = walk.wanted
        if wanted <= size or wanted > view.size - position:
            raise CorruptRecordError(
                f"a batch of {wanted} bytes, but the segment ends after {view.size - position}"
                if wanted
                else "the bytes are not a complete batch",
                path=view.path,
                position=position,
            )
        self._buffer = memoryview(bytearray(wanted))
