"""Compacts one log: keeps the latest record of each key (Kafka's Cleaner).

A round makes two passes over rolled segments. The first puts the latest offset of each key of the
dirty section into a map of bounded memory. The second copies the retained records of each group of
segments into a new segment and swaps it in at once. If the map is full before the end of the dirty
section, the round ends there and another one follows.
"""

import math
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kstore._native.compaction.key_indexer import KeyIndexer
from kstore._native.compaction.offset_map import OffsetMap
from kstore._native.compaction.record_filter import RecordFilter
from kstore._native.read.batch_walk import BatchWalk
from kstore._native.read.segment_view import SegmentView
from kstore.checkpoint.cleaner_offsets import read_cleaner_offset, write_cleaner_offset
from kstore.compaction.compaction_report import CompactionReport
from kstore.compaction.policy import (
    CleanableRange,
    CleanedTransactions,
    CleanSegment,
    cleanable_range,
    group_segments,
)
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
from kstore.segment import segment as segments_on_disk
from kstore.segment.cleaned_segment import CleanedSegment
from kstore.segment.largest_timestamp import largest_timestamp
from kstore.segment.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.log.writer import LogWriter

BUFFER_SIZE = 1 << 19  # bytes read at a time, and written
LOAD_FACTOR = 0.9
NO_LIMIT = math.inf
_LONGEST_SLEEP = 0.1  # seconds between two checks whether the compaction is to end
_ASK, _FULL = 1, 2  # events of a pass besides 0, the end of the bytes

Progress = Callable[[int, int], None]


class Throttle:
    """Limits a byte rate by sleeping after each chunk. Threads that share one share its rate."""

    def __init__(
        self,
        bytes_per_second: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._free_at = -math.inf
        self._lock = threading.Lock()

    def set_rate(self, bytes_per_second: float) -> None:
        """Limit what passes from now on to another rate."""
        with self._lock:
            self._rate, self._free_at = bytes_per_second, -math.inf

    def passed(self, size: int, check: Callable[[], None] = lambda: None) -> None:
        """Account for ``size`` bytes and sleep to keep the rate; ``check`` may raise meanwhile."""
        if self._rate == math.inf:
            return
        with self._lock:
            until = self._free_at = max(self._free_at, self._clock()) + size / self._rate
        # A shorter sleep is not worth a system call; a longer one would delay a store's close.
        while (left := until - self._clock()) > 0.001:
            check()
            self._sleep(min(left, _LONGEST_SLEEP))


def facts_of(log: "Log", files: Files) -> list[CleanSegment]:
    """The facts that the policy reads, oldest segment first."""
    return _facts_and_next_offsets(log, files)[0]


def _facts_and_next_offsets(log: "Log", files: Files) -> tuple[list[CleanSegment], dict[int, int]]:
    """Both from one list of segments: a truncation may come between two reads of the list."""
    return log._source.on_current_segments(
        lambda segments: (
            [_facts_of(log, files, view) for view in segments.views],
            {view.base_offset: view.next_offset for view in segments.views},
        )
    )


def _facts_of(log: "Log", files: Files, view: SegmentView) -> CleanSegment:
    base = view.base_offset
    names = filenames.index_name(base), filenames.time_index_name(base)
    paths = [os.path.join(log.path, name) for name in names]
    sizes = [files.size_of(path) if files.kind(path) is not None else 0 for path in paths]
    return CleanSegment(
        base_offset=base,
        size=view.size,
        index_size=sizes[0],
        time_index_size=sizes[1],
        largest_timestamp=largest_timestamp(log._source, files, view),
        first_timestamp=segments_on_disk.rolling_timestamp(files, view),
        modified_ms=files.modified_ns(view.path) // 1_000_000,
    )


def range_of(log: "Log", facts: Sequence[CleanSegment], files: Files, now: int) -> CleanableRange:
    """The offsets of a log that may be cleaned now."""
    return cleanable_range(
        facts,
        log.config,
        checkpoint=read_cleaner_offset(files, log.path, (log.topic, log.partition)),
        log_start_offset=log.start_offset,
        end_offset=log.end_offset,
        last_stable_offset=log.last_stable_offset,
        now_ms=now,
    )


# --- compaction -----------------------------------------------------------------------------


def compact(
    log: "Log",
    writer: "LogWriter",
    files: Files,
    *,
    dedupe_buffer_size: int = 134_217_728,
    load_factor: float = LOAD_FACTOR,
    max_bytes_per_second: float = NO_LIMIT,
    throttle: Throttle | None = None,
    progress: Progress | None = None,
    check: Callable[[], None] = lambda: None,
    rounds: int | None = None,
    roll: bool = False,
) -> CompactionReport:
    """Clean the cleanable segments, in rounds, until all are clean or ``rounds`` are done.

    Where nothing may be cleaned, the report's ``passes`` is 0 and its ``reason`` says why.

    Parameters
    ----------
    dedupe_buffer_size, load_factor
        Bytes of the key map (24 a key), and the fraction of it that may be used. If the keys do
        not fit, the log is cleaned in several rounds.
    max_bytes_per_second
        Limit of bytes read plus bytes written.
    throttle
        Instead of this limit: a throttle that several compactions share.
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
        The log was truncated meanwhile, or is being moved to another directory.
    StorageError
        The disk is full or failed. Segments that were not swapped stay as they were.
    """
    if "compact" not in log.config.cleanup_policy:
        raise PolicyViolationError(
            "the topic's cleanup.policy does not have 'compact'; set it with alter_topic",
            path=log.path,
        )
    started = time.perf_counter()
    throttle = throttle or Throttle(max_bytes_per_second)
    if roll:
        log.roll()
    with writer.state.cleaning:
        report: CompactionReport | None = None
        while rounds is None or rounds > 0:
            rounds = None if rounds is None else rounds - 1
            writer.replacer.check_cleaning()
            views = log.segments.views  # before the plan, so that a later change is detected
            plan = plan_round(log, writer, files)
            report = report or plan.empty_report
            if plan.is_empty:
                break
            output = _SwapIntoLog(log, writer, files, check, views)
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


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """The input of one round, complete, so that another process may run it."""

    path: str
    config: LogConfig
    facts: tuple[CleanSegment, ...]
    next_offsets: dict[int, int]  # by base offset
    cleanable: CleanableRange
    now: int
    aborted: tuple[AbortedTransaction, ...]  # up to the first uncleanable offset
    last_epochs: dict[int, int]  # by producer id, of producers without a batch in the log
    last_offsets: dict[int, int]  # by producer id, the last batch's offset of all others

    @property
    def is_empty(self) -> bool:
        """Whether the log has nothing to clean."""
        return self.cleanable.is_empty

    @property
    def empty_report(self) -> CompactionReport:
        """The report of a compaction for which this plan is the first, before its first round."""
        dirty = self.cleanable.first_dirty_offset
        return CompactionReport(
            first_dirty_offset=dirty, end_offset=dirty, reason=self.cleanable.blocked
        )

    def view(self, segment: CleanSegment) -> SegmentView:
        base = segment.base_offset
        path = os.path.join(self.path, filenames.log_name(base))
        return SegmentView(base, path, size=segment.size, next_offset=self.next_offsets[base])

    def aborted_in(self, start: int, stop: int) -> list[AbortedTransaction]:
        """As Log.aborted_transactions."""
        return [a for a in self.aborted if a.last_offset >= start and a.first_offset < stop]


def plan_round(log: "Log", writer: "LogWriter", files: Files) -> RoundPlan:
    """Plan the next round. The caller holds ``writer.state.cleaning``."""
    now = writer.state.now_ms()
    facts, next_offsets = _facts_and_next_offsets(log, files)
    cleanable = range_of(log, facts, files, now)
    if cleanable.reset:
        offset = cleanable.first_dirty_offset
        write_cleaner_offset(files, log.path, (log.topic, log.partition), offset)
    stop = cleanable.first_uncleanable_offset
    producers = log.producers()
    plan = RoundPlan(
        path=log.path,
        config=log.config,
        facts=tuple(facts),
        next_offsets=next_offsets,
        cleanable=cleanable,
        now=now,
        aborted=(),
        last_epochs={e.producer_id: e.producer_epoch for e in producers if e.last_offset < 0},
        last_offsets={e.producer_id: e.last_offset for e in producers if e.last_offset >= 0},
    )
    if plan.is_empty:
        return plan
    return replace(plan, aborted=tuple(log.aborted_transactions(facts[0].base_offset, stop)))


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
        self._writer.replacer.replace_segments(
            [cleaned], [self._view(base) for base in base_offsets]
        )
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
        throttle: Throttle,
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
            records_without_key=without_key + record_filter.invalid,
            bytes_before=sum(segment.size for segment in facts),
            bytes_after=written,
            segments_before=len(facts),
            segments_after=len(groups),
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
