"""What a tool did to one partition, in a line: for the command line and for Spark's jobs."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kstore.partition_files import count_of

if TYPE_CHECKING:
    from kstore.partition_files import CompactionReport, SegmentDamage


def rewrite_line(report: Any, segments: int) -> str:
    """Of a ``RewriteReport``, or a report with these fields; ``segments`` includes damaged ones."""
    counts = ((report.merged_batches, "merged"), (report.kept_batches, "kept, which would grow"))
    batches = "".join(f"; {count_of(some, 'batch', 'es')} {what}" for some, what in counts if some)
    return (
        f"{report.rewritten} of {count_of(segments, 'segment')} rewritten, "
        f"{report.bytes_before} bytes to {report.bytes_after}{batches}"
    )


def reindex_line(report: Any) -> str:
    """Of a ``ReindexReport``, or a report with its fields."""
    damaged = f", {len(report.damages)} damaged" if report.damages else ""
    return (
        f"{count_of(len(report.written), 'file')} written, {len(report.removed)} removed{damaged} "
        f"({count_of(report.segments, 'segment')}, {report.bytes} bytes)"
    )


def compaction_line(report: "CompactionReport") -> str:
    """The counts, and the offset up to which the log is compacted."""
    if not report.passes:
        why = f": {report.reason}" if report.reason else ""
        return f"nothing to compact; the first dirty offset is {report.end_offset}{why}"
    kept = f" ({count_of(report.tombstones_kept, 'tombstone')})" if report.tombstones_kept else ""
    return (
        f"{count_of(report.records_read, 'record')} to {report.records_kept}{kept}, "
        f"{report.bytes_before} bytes to {report.bytes_after}, "
        f"{count_of(report.segments_before, 'segment')} to {report.segments_after}, "
        f"compacted up to offset {report.end_offset}"
    )


def damage_lines(damages: "Iterable[SegmentDamage]") -> list[str]:
    """A line for each segment that stays as it was, with path, position and offset."""
    return [
        f"  unchanged: {each.path} position {each.position} offset {each.offset}: {each.reason}"
        for each in damages
    ]
