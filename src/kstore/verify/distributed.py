"""An audit in separate ranges of segments, merged into the report of one complete audit.

A range consists of adjacent segments. Its audit needs two facts about the range before it: where
that one ends, and which transactions are open there. The producer snapshot at the beginning of the
range names these transactions; without a snapshot none are open. If that turns out wrong, or if
segments overlap, the results do not merge, and one task audits the entire partition.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kstore.errors import CorruptFileError, StorageError
from kstore.files import filenames
from kstore.files.files import Files
from kstore.producer_state import snapshot
from kstore.verify.log_dir_state import StateReader
from kstore.verify.losses import Layout, find_losses, join_layouts
from kstore.verify.partition import MAX_FINDINGS, Audit, VerifyReport, add_losses
from kstore.verify.transactions import SNAPSHOT, TRANSACTIONS

_LIMIT = 1 << 30  # bytes of a producer snapshot


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """Segments with base offsets from ``start`` on (None: the first) below ``stop`` (None: all)."""

    start: int | None = None
    stop: int | None = None
    size: int = 0  # bytes of their log files, when it was planned


@dataclass(frozen=True, slots=True)
class SegmentRangeReport:
    """The result of auditing one range, with what a merge with its neighbours needs."""

    report: VerifyReport
    first_base: int | None  # None: the segments were removed
    end_offset: int
    opened: dict[int, int]  # transactions assumed to be open at the beginning
    opened_at_end: dict[int, int]
    certain: bool  # nothing was skipped
    layout: Layout | None = None  # None: the report already includes losses


def plan_ranges(segments: Iterable[tuple[int, int]], target: int) -> list[SegmentRange]:
    """Ranges of about ``target`` bytes from (base offset, size), without a gap between them."""
    starts: list[int] = []
    sizes: list[int] = []
    for base, size in segments:
        if not starts or (sizes[-1] and sizes[-1] + size > target):
            starts.append(base)
            sizes.append(0)
        sizes[-1] += size
    if not starts:
        return [SegmentRange()]
    stops: list[int | None] = [*starts[1:], None]
    return [
        SegmentRange(None if n == 0 else starts[n], stops[n], sizes[n]) for n in range(len(starts))
    ]


def verify_range(
    files: Files,
    directory: str | os.PathLike[str],
    segments: SegmentRange,
    *,
    states: StateReader | None = None,
) -> SegmentRangeReport:
    """Audit a range in one thread; memory as :func:`verify_partition`. Changes nothing."""
    path = Path(directory)
    opened = {} if segments.start is None else _opened_at(files, path, segments.start)
    audit = Audit(
        files,
        path,
        1,
        False,  # a broker may truncate any of its files
        None,
        segments.start,
        segments.stop,
        None if segments.start is None else opened,
        states=states,
    )
    report = audit.run()
    is_complete = segments.start is None and segments.stop is None
    if is_complete:
        audit.conclude()
    transactions = audit.transactions
    return SegmentRangeReport(
        report,
        audit.first_base,
        audit.end_offset,
        opened,
        transactions.opened,
        transactions.certain,
        None if is_complete else audit.layout(),
    )


def _opened_at(files: Files, directory: Path, base: int) -> dict[int, int]:
    path = directory / filenames.snapshot_name(base)
    try:
        if not files.exists(path):
            return {}
        entries = snapshot.parse(files.read(path, limit=_LIMIT), path=str(path))
    except (CorruptFileError, StorageError):  # the audit of the range before it reports this
        return {}
    return {
        entry.producer_id: entry.current_transaction_first_offset
        for entry in entries
        if entry.current_transaction_first_offset >= 0
    }


def merge_reports(reports: Sequence[SegmentRangeReport]) -> VerifyReport | None:
    """The report of the partition from all its ranges, in order; None if they do not merge.

    They do not merge if segments overlap between ranges, if a transaction spans ranges and no
    snapshot has it, or if something is missing that a writer may be about to write.
    """
    merged = VerifyReport()
    before: SegmentRangeReport | None = None
    certain = True
    for report in reports:
        if report.first_base is None:
            continue
        if before is not None:
            certain = certain and before.certain
            if certain and report.opened != before.opened_at_end:
                return None
            if not certain and _has_transaction_findings(report.report):
                return None
            if report.first_base < before.end_offset:
                return None  # the overlap affects how both are read
        merged.merge(report.report, MAX_FINDINGS)
        before = report
    if before is None and reports:
        merged.merge(reports[0].report, MAX_FINDINGS)  # at most side files
    layouts = [report.layout for report in reports if report.layout is not None]
    if layouts:
        layout = join_layouts(layouts)
        losses = find_losses(layout)
        if losses and layout.state is not None:
            return None  # the complete audit checks again
        add_losses(merged, layout, losses)
    return merged


def _has_transaction_findings(report: VerifyReport) -> bool:
    return report.finding_count > len(report.findings) or any(
        found.kind in (TRANSACTIONS, SNAPSHOT) for found in report.findings
    )
