"""Merges the reports on several partitions into one, for calls on a topic or a store."""

from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kstore.compaction.compaction_report import CompactionReport
    from kstore.maintenance.reindex import ReindexReport
    from kstore.maintenance.rewrite import RewriteReport
    from kstore.store.topic import Topic


def merge_compactions(
    reports: "Iterable[CompactionReport]", no_logs: str = ""
) -> "CompactionReport":
    """The sum of the counts. The offsets are -1 where there is not exactly one report.

    Keys of different partitions are different keys, while the map is of one partition at a time:
    its memory is the largest. The reason consists of the reasons of those that compacted something,
    or of all if none did, each once; without any report it is ``no_logs``.
    """
    from kstore.compaction.compaction_report import CompactionReport

    several = list(reports)
    if len(several) == 1:
        return several[0]
    counts: dict[str, Any] = {}
    for field in fields(CompactionReport):
        if field.name == "reason":
            continue
        values = [getattr(each, field.name) for each in several]
        counts[field.name] = sum(values)
    counts |= {"first_dirty_offset": -1, "end_offset": -1}
    counts["map_memory"] = max((each.map_memory for each in several), default=0)
    asked = [each for each in several if each.passes] or several
    reasons = dict.fromkeys(each.reason for each in asked if each.reason)
    counts["reason"] = "; ".join(reasons) or ("" if several else no_logs)
    return CompactionReport(**counts)


def merge_rewrites(reports: "Iterable[RewriteReport]") -> "RewriteReport":
    """The sum of the counts, and all damaged segments."""
    from kstore.maintenance.rewrite import RewriteReport

    merged = RewriteReport()
    for each in reports:
        for field in fields(RewriteReport):
            total = getattr(merged, field.name) + getattr(each, field.name)
            setattr(merged, field.name, total)
    return merged


def merge_reindexes(reports: "Iterable[ReindexReport]") -> "ReindexReport":
    """The sum of the counts, and all files and damaged segments; file names have no directory."""
    from kstore.maintenance.reindex import ReindexReport

    several = list(reports)
    return ReindexReport(
        segments=sum(each.segments for each in several),
        bytes=sum(each.bytes for each in several),
        written=tuple(name for each in several for name in each.written),
        removed=tuple(name for each in several for name in each.removed),
        damages=tuple(damage for each in several for damage in each.damages),
    )


def compact_topics(topics: "Iterable[Topic]", **options: Any) -> "CompactionReport":
    """Compact the topics whose ``cleanup.policy`` has ``compact``, one partition at a time."""
    return merge_compactions(
        (
            log.compact(**options)
            for topic in topics
            if "compact" in topic.config.cleanup_policy
            for log in topic
        ),
        no_logs="no topic has cleanup.policy=compact",
    )
