"""Compaction of one log: of every key the latest record stays (Kafka's Cleaner).

Two passes over sealed segments. The first puts the latest offset of each key of the dirty part
into a map of bounded memory; the second copies, group by group, what stays into a new segment,
which is swapped in at once. A map that is full ends the dirty part there; another round follows.
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
from kstore.segment import header_checksums
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
_LONGEST_SLEEP = 0.1  # seconds between two looks whether the compaction is still wanted
_ASK, _FULL = 1, 2  # what a pass answers besides 0, the end of the bytes

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionReport:
    """What a compaction did. Bytes and segments are those that were written anew. Immutable."""

    first_dirty_offset: int
    end_offset: int  # below it everything is compacted: the next first dirty offset
    passes: int = 0  # how often the key map was filled; 0: nothing was dirty
    keys: int = 0  # the most that were in the map
    map_memory: int = 0  # bytes of the map and the marks beside it
    records_read: int = 0  # each once, however many rounds there were
    records_kept: int = 0
    records_without_key: int = 0  # dropped: a compacted log cannot keep them
    bytes_before: int = 0
    bytes_after: int = 0
    segments_before: int = 0
    segments_after: int = 0
    seconds: float = 0.0


class Throttle:
    """Lets bytes pass at a rate, by sleeping after them. Threads may share one, and its rate."""

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

    def passed(self, size: int, check: Callable[[], None] = lambda: None) -> None:
        """Sleep until so many bytes are due; ``check`` is called meanwhile and may raise."""
        if self._rate == math.inf:
            return
        with self._lock:
            until = self._free_at = max(self._free_at, self._clock()) + size / self._rate
        # Shorter sleeps are not worth a system call; longer ones would keep a store from closing.
        while (left := until - self._clock()) > 0.001:
            check()
            self._sleep(min(left, _LONGEST_SLEEP))


def facts_of(log: "Log", files: Files) -> list[CleanSegment]:
    """What the rules look at, oldest segment first."""
    return _facts_and_next_offsets(log, files)[0]


def _facts_and_next_offsets(log: "Log", files: Files) -> tuple[list[CleanSegment], dict[int, int]]:
    """Both of the same segments: a truncation may come between two looks at the log."""
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
        first_timestamp=segments_on_disk.first_timestamp(files, view),
        modified_ms=files.modified_ns(view.path) // 1_000_000,
    )


def range_of(log: "Log", facts: Sequence[CleanSegment], files: Files, now: int) -> CleanableRange:
    """Which offsets of a log may be cleaned now."""
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
) -> CompactionReport:
    """Clean what may be cleaned, round after round until all is, or as many rounds as said.

    Parameters
    ----------
    dedupe_buffer_size, load_factor
        Bytes of the key map (24 a key), and which part of it may be used. Where the keys do not
        fit the log is cleaned in several rounds.
    max_bytes_per_second
        Of what is read and written together.
    throttle
        Instead of it: one that several compactions share.
    progress
        Called with bytes done and bytes in all, of each round.
    check
        Called between pieces; may raise to end it. What was swapped in by then stays.

    Raises
    ------
    PolicyViolationError
        The topic's ``cleanup.policy`` lacks ``compact``.
    CorruptRecordError
        A batch is damaged; its segment and all later ones stay as they were.
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
    with writer.state.cleaning:
        report: CompactionReport | None = None
        while rounds is None or rounds > 0:
            rounds = None if rounds is None else rounds - 1
            writer.replacer.check_cleaning()
            views = log.segments.views  # before the plan: what changes after it is found out
            plan = plan_round(log, writer, files)
            if report is None:
                dirty = plan.cleanable.first_dirty_offset
                report = CompactionReport(first_dirty_offset=dirty, end_offset=dirty)
            if plan.is_empty:
                break
            output = _InPlace(log, writer, files, check, views)
            keys = OffsetMap(dedupe_buffer_size, load_factor, os.urandom(16))
            report = add_rounds(report, Round(plan, files, output, throttle, progress).run(keys))
            write_cleaner_offset(files, log.path, (log.topic, log.partition), report.end_offset)
        assert report is not None
    return replace(report, seconds=time.perf_counter() - started)


def add_rounds(one: CompactionReport, other: CompactionReport) -> CompactionReport:
    """Two rounds as one; the later one wrote the earlier's output anew."""
    return replace(
        other,
        first_dirty_offset=one.first_dirty_offset,
        passes=one.passes + other.passes,
        keys=max(one.keys, other.keys),
        map_memory=max(one.map_memory, other.map_memory),
        records_read=one.records_read + other.records_read - one.records_kept,
        records_kept=other.records_kept,
        records_without_key=one.records_without_key + other.records_without_key,
        bytes_before=one.bytes_before + max(other.bytes_before - one.bytes_after, 0),
        segments_before=one.segments_before + max(other.segments_before - one.segments_after, 0),
    )


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """All that one round has to know of its log; another process may do it."""

    path: str
    config: LogConfig
    facts: tuple[CleanSegment, ...]
    next_offsets: dict[int, int]  # by base offset
    cleanable: CleanableRange
    now: int
    aborted: tuple[AbortedTransaction, ...]  # up to the end of what is cleanable
    last_epochs: dict[int, int]  # of producers without a batch in the log
    last_offsets: dict[int, int]  # of the last batch of the others

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be cleaned."""
        cleanable = self.cleanable
        nothing = cleanable.first_dirty_offset >= cleanable.first_uncleanable_offset
        return nothing or cleanable.cleanable_bytes == 0

    def view(self, segment: CleanSegment) -> SegmentView:
        base = segment.base_offset
        path = os.path.join(self.path, filenames.log_name(base))
        return SegmentView(base, path, size=segment.size, next_offset=self.next_offsets[base])

    def aborted_in(self, start: int, stop: int) -> list[AbortedTransaction]:
        """As Log.aborted_transactions."""
        return [e for e in self.aborted if e.last_offset >= start and e.first_offset < stop]


def plan_round(log: "Log", writer: "LogWriter", files: Files) -> RoundPlan:
    """What the next round has to do now. The caller holds ``writer.state.cleaning``."""
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
    """Where the new segments of a round go."""

    @abstractmethod
    def check(self) -> None:
        """Asked between pieces; may raise to end the round."""

    @abstractmethod
    def new(self, base_offset: int) -> CleanedSegment:
        """A segment to be written, not yet begun."""

    @abstractmethod
    def put(self, cleaned: CleanedSegment, base_offsets: Sequence[int]) -> None:
        """Take a finished segment that stands for those of these base offsets."""

    @abstractmethod
    def abandon(self, cleaned: CleanedSegment) -> None:
        """Remove one that will not be finished, or was not taken."""

    @abstractmethod
    def judge(self, base_offset: int, error: Exception) -> None:
        """A segment could not be read: raise what says why, or nothing."""


class _InPlace(RoundOutput):
    """Swapped into the log at once."""

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
        header_checksums.write(self._files, self._log.path, cleaned.base_offset)

    def abandon(self, cleaned: CleanedSegment) -> None:
        self._writer.replacer.abandon(cleaned)

    def judge(self, base_offset: int, error: Exception) -> None:
        """A file that is gone, or another, is no damage where its segment left the log."""
        view = self._view(base_offset)
        if not any(view is each for each in self._log.segments.views):
            raise CompactionAbandonedError(
                "the log was shortened while it was compacted", path=self._log.path
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
    """One filling of the map, and the segments up to where it got."""

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
        self._facts = {each.base_offset: each for each in plan.facts}
        self._views = {each.base_offset: plan.view(each) for each in plan.facts}
        self._dirty = plan.cleanable.first_dirty_offset
        self._stop = plan.cleanable.first_uncleanable_offset
        self._now = plan.now
        self._throttle = throttle
        self._progress = progress
        self._buffer = memoryview(bytearray(BUFFER_SIZE))
        self._done = 0
        self._total = plan.cleanable.clean_bytes + 2 * plan.cleanable.cleanable_bytes
        clean = [each for each in plan.facts if each.base_offset < self._dirty]
        # Below this age tombstones of v0 and v1 go: they cannot carry a horizon of their own.
        self._old_horizon = clean[-1].modified_ms - self._config.delete_retention_ms if clean else 0

    def run(self, keys: OffsetMap) -> CompactionReport:
        end, without_key = self._index(keys)
        if end <= self._dirty:
            raise InvalidConfigError(
                f"the key map holds {keys.limit} keys, not even those of one batch: raise "
                "log.cleaner.dedupe.buffer.size"
            )
        return self._rewrite(keys, end, without_key)

    # --- the first pass ---------------------------------------------------------------------

    def _index(self, keys: OffsetMap) -> tuple[int, int]:
        """Fill the map: the offset up to which the dirty part is in it, and keyless records."""
        indexer = KeyIndexer(keys, self._dirty, decompress)
        transactions = CleanedTransactions()
        transactions.add(self._plan.aborted_in(self._dirty, self._stop))

        def decide() -> int:
            producer, last = indexer.producer_id, indexer.batch_last_offset
            if indexer.is_control:
                transactions.ends_nothing(producer, last, indexer.control_type)
                return indexer.skip()
            if transactions.is_aborted(producer, last, transactional=True):
                return indexer.skip()
            return indexer.take()

        bases = sorted(base for base in self._views if base < self._stop)
        first = max((n for n, base in enumerate(bases) if base <= self._dirty), default=0)
        bases = bases[first:]
        for number, base in enumerate(bases):
            view = self._views[base]
            indexer.begin(view.path, base)
            if not self._walk(indexer, view, decide):
                break
            following = bases[number + 1] if number + 1 < len(bases) else self._stop
            indexer.note_latest(following - 1)
        indexer.finish()
        return indexer.latest + 1, indexer.invalid

    # --- the second pass --------------------------------------------------------------------

    def _rewrite(self, keys: OffsetMap, end: int, without_key: int) -> CompactionReport:
        chosen = RecordFilter(
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
            views = [self._views[each.base_offset] for each in group]
            written += self._clean_group(chosen, transactions, group, views)
        return CompactionReport(
            first_dirty_offset=self._dirty,
            end_offset=end,
            passes=1,
            keys=len(keys),
            map_memory=keys.memory + chosen.memory,
            records_read=chosen.records,
            records_kept=chosen.records_kept,
            records_without_key=without_key + chosen.invalid,
            bytes_before=sum(each.size for each in facts),
            bytes_after=written,
            segments_before=len(facts),
            segments_after=len(groups),
        )

    def _clean_group(
        self,
        chosen: RecordFilter,
        transactions: CleanedTransactions,
        group: Sequence[CleanSegment],
        views: Sequence[SegmentView],
    ) -> int:
        """Clean segments into one and swap it in; returns its size."""
        cleaned = self._output.new(group[0].base_offset)
        try:
            cleaned.begin()
            for each, view in zip(group, views, strict=True):
                chosen.begin_segment(
                    view.path, view.base_offset, each.modified_ms > self._old_horizon
                )
                self._walk(chosen, view, lambda: self._decide(chosen, transactions), cleaned)
            aborted, transactions.written = transactions.written, []
            modified_ns = self._modified_ns(views[-1])
            cleaned.finish(aborted, views[-1].next_offset, modified_ns, self._config)
            self._output.put(cleaned, [each.base_offset for each in group])
        except BaseException:
            chosen.clear_output()
            self._output.abandon(cleaned)
            raise
        return cleaned.size

    def _decide(self, chosen: RecordFilter, transactions: CleanedTransactions) -> int:
        """What becomes of a marker, or of a batch in a transaction (checkBatchRetention)."""
        producer, last = chosen.producer_id, chosen.batch_last_offset
        if chosen.is_control:
            gone = transactions.ends_nothing(producer, last, chosen.control_type)
            discard = gone and 0 <= chosen.delete_horizon <= self._now
            needed = self._plan.last_epochs.get(producer) == chosen.producer_epoch
        else:
            gone = False
            discard = transactions.is_aborted(producer, last, transactional=True)
            needed = False
        needed = needed or self._plan.last_offsets.get(producer) == last
        return chosen.decide(discard, needed, gone)

    # --- reading and writing ----------------------------------------------------------------

    def _walk(
        self,
        walk: KeyIndexer | RecordFilter,
        view: SegmentView,
        decide: Callable[[], int],
        cleaned: CleanedSegment | None = None,
    ) -> bool:
        """Lead a pass over a segment; False where the map was full before its end."""
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
                self._pass(walk.consumed)
                if cleaned is not None and isinstance(walk, RecordFilter):
                    self._put_out(walk, cleaned)
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

    def _pass(self, size: int) -> None:
        self._throttle.passed(size, self._output.check)
        self._done += size
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)

    def _put_out(self, chosen: RecordFilter, cleaned: CleanedSegment) -> None:
        size = chosen.output_size
        if size:
            cleaned.write(chosen.output())
            chosen.clear_output()
            self._throttle.passed(size, self._output.check)

    def _grow(self, walk: BatchWalk, view: SegmentView, position: int, size: int) -> None:
        """Make room for a batch that is larger than the buffer; it has to be there."""
        wanted = walk.wanted
        if wanted <= size or wanted > view.size - position:
            raise CorruptRecordError(
                f"a batch of {wanted} bytes, of which {view.size - position} are there"
                if wanted
                else "the bytes are not a whole batch",
                path=view.path,
                position=position,
            )
        self._buffer = memoryview(bytearray(wanted))
