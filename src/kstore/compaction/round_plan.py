"""Plans a round of a log's compaction: collects what Kafka's rules read of its segments."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kstore._native.read.segment_view import SegmentView
from kstore.checkpoint.cleaner_offsets import read_cleaner_offset, write_cleaner_offset
from kstore.compaction.cleanable_segments import CleanableRange, CleanSegment, cleanable_range
from kstore.compaction.compaction_report import CompactionReport
from kstore.config import LogConfig
from kstore.files import filenames
from kstore.files.files import Files
from kstore.lazy_dataclass import lazy_dataclass
from kstore.segment import segment as segments_on_disk
from kstore.segment.largest_timestamp import largest_timestamp
from kstore.segment.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.log.writer import LogWriter


def facts_of(log: "Log", files: Files) -> list[CleanSegment]:
    """The facts that the rules read, oldest segment first."""
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


@lazy_dataclass(frozen=True)
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
    def cleaned_end(self) -> int:
        """The end of the segments that are clean: the base offset of a segment."""
        dirty = self.cleanable.first_dirty_offset
        return max(
            (each.base_offset for each in self.facts if each.base_offset <= dirty),
            default=self.facts[0].base_offset,
        )

    @property
    def empty_report(self) -> CompactionReport:
        """The report with which a compaction that begins with this plan starts."""
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
    return plan if plan.is_empty else with_aborted(plan, log, stop)


def with_aborted(plan: RoundPlan, log: "Log", stop: int) -> RoundPlan:
    """The plan with the transactions that were aborted up to an offset."""
    start = plan.facts[0].base_offset
    return replace(plan, aborted=tuple(log.aborted_transactions(start, stop)))
