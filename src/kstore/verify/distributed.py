"""An audit in parts that run anywhere, put together to what one audit of the whole would say.

A part is some segments that follow one another. Two things reach from one part into the next:
where the one before ends, and the transactions that are open. Those a part takes from the producer
snapshot at its beginning (none: none are open). If that turns out wrong, or segments overlap
there, the parts prove nothing and the partition is audited as a whole.
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
from kstore.verify.partition import MAX_FINDINGS, Audit, Progress, VerifyReport, add_losses
from kstore.verify.transactions import SNAPSHOT, TRANSACTIONS

_LIMIT = 1 << 30  # bytes of a producer snapshot


@dataclass(frozen=True, slots=True)
class Part:
    """Segments with base offsets from ``start`` on (None: the first) below ``stop`` (None: all)."""

    start: int | None = None
    stop: int | None = None
    size: int = 0  # bytes of their log files, when it was planned


@dataclass(frozen=True, slots=True)
class PartReport:
    """What the audit of a part saw, and what it takes to put it beside its neighbours."""

    report: VerifyReport
    first_base: int | None  # None: there are no such segments any more
    end_offset: int
    opened: dict[int, int]  # transactions taken for open at the beginning
    opened_at_end: dict[int, int]
    certain: bool  # nothing was left out on the way
    layout: Layout | None = None  # None: the report says already what is missing


def plan_parts(segments: Iterable[tuple[int, int]], target: int) -> list[Part]:
    """Parts of about ``target`` bytes of (base offset, size), without a gap between them."""
    starts: list[int] = []
    sizes: list[int] = []
    for base, size in segments:
        if not starts or (sizes[-1] and sizes[-1] + size > target):
            starts.append(base)
            sizes.append(0)
        sizes[-1] += size
    if not starts:
        return [Part()]
    stops: list[int | None] = [*starts[1:], None]
    return [Part(None if n == 0 else starts[n], stops[n], sizes[n]) for n in range(len(starts))]


def verify_part(
    files: Files,
    directory: str | os.PathLike[str],
    part: Part,
    *,
    map_sealed: bool = False,
    progress: Progress | None = None,
    states: StateReader | None = None,
) -> PartReport:
    """Audit a part in one thread; memory as :func:`verify_partition`. Changes nothing."""
    path = Path(directory)
    opened = {} if part.start is None else _opened_at(files, path, part.start)
    audit = Audit(
        files,
        path,
        1,
        map_sealed,
        progress,
        part.start,
        part.stop,
        None if part.start is None else opened,
        states=states,
    )
    report = audit.run()
    is_whole = part.start is None and part.stop is None
    if is_whole:
        audit.conclude()
    transactions = audit.transactions
    return PartReport(
        report,
        audit.first_base,
        audit.end_offset,
        opened,
        transactions.opened,
        transactions.certain,
        None if is_whole else audit.layout(),
    )


def _opened_at(files: Files, directory: Path, base: int) -> dict[int, int]:
    path = directory / filenames.snapshot_name(base)
    try:
        if not files.exists(path):
            return {}
        entries = snapshot.parse(files.read(path, limit=_LIMIT), path=str(path))
    except (CorruptFileError, StorageError):  # the part in front of it tells
        return {}
    return {
        entry.producer_id: entry.current_transaction_first_offset
        for entry in entries
        if entry.current_transaction_first_offset >= 0
    }


def merge_parts(parts: Sequence[PartReport]) -> VerifyReport | None:
    """The report of the whole from all its parts, in order; None if they do not tell.

    Then segments overlap where parts meet, or transactions reach from one part into another in a
    way that no snapshot said; or something is missing that a writer may be about to put there.
    """
    merged = VerifyReport()
    before: PartReport | None = None
    certain = True
    for part in parts:
        if part.first_base is None:
            continue
        if before is not None:
            certain = certain and before.certain
            if certain and part.opened != before.opened_at_end:
                return None
            if not certain and _tells_of_transactions(part.report):
                return None
            if part.first_base < before.end_offset:
                return None  # damage that decides how both are to be read
        merged.merge(part.report, MAX_FINDINGS)
        before = part
    if before is None and parts:
        merged.merge(parts[0].report, MAX_FINDINGS)  # nothing but, perhaps, side files
    layouts = [part.layout for part in parts if part.layout is not None]
    if layouts:
        layout = join_layouts(layouts)
        losses = find_losses(layout)
        if losses and layout.state is not None:
            return None  # the audit of the whole looks again
        add_losses(merged, layout, losses)
    return merged


def _tells_of_transactions(report: VerifyReport) -> bool:
    return report.finding_count > len(report.findings) or any(
        found.kind in (TRANSACTIONS, SNAPSHOT) for found in report.findings
    )
