"""The sums of reports on several partitions, field by field."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import kstore
from kstore import StoreConfig
from kstore.compaction.compaction_report import CompactionReport
from kstore.maintenance.reindex import ReindexReport
from kstore.maintenance.rewrite import RewriteReport
from kstore.store.merge_reports import merge_compactions, merge_reindexes, merge_rewrites

QUIET = StoreConfig(background=False)


def numbered(report: type[Any], start: int, **others: Any) -> Any:
    """A report whose fields are consecutive numbers, so that none is taken for another."""
    names = [field.name for field in fields(report) if field.name not in others]
    return report(**{name: start + n for n, name in enumerate(names)}, **others)


def test_counts_of_compactions_add_up_except_those_of_the_map() -> None:
    reports = [numbered(CompactionReport, start, reason="") for start in (100, 3000, 20)]
    merged = merge_compactions(reports)
    for field in fields(CompactionReport):
        if field.name == "reason":
            continue
        values = [getattr(each, field.name) for each in reports]
        expected = sum(values)
        if field.name == "map_memory":  # one compaction runs at a time
            expected = max(values)
        elif field.name in ("first_dirty_offset", "end_offset"):  # of no single partition
            expected = -1
        assert getattr(merged, field.name) == expected, field.name


def test_reasons_for_compacting_nothing_are_kept_each_once() -> None:
    def nothing(reason: str) -> CompactionReport:
        return CompactionReport(first_dirty_offset=0, end_offset=0, reason=reason)

    merged = merge_compactions([nothing("a"), nothing("b"), nothing("a")])
    assert (merged.passes, merged.reason) == (0, "a; b")
    assert merge_compactions([], "none").reason == "none"


def test_reasons_of_partitions_that_were_compacted_go_before_others() -> None:
    nothing = CompactionReport(first_dirty_offset=0, end_offset=0, reason="a")
    kept = CompactionReport(first_dirty_offset=0, end_offset=9, passes=1, reason="tombstones")
    assert merge_compactions([nothing, kept, kept]).reason == "tombstones"
    done = CompactionReport(first_dirty_offset=0, end_offset=9, passes=1)
    assert merge_compactions([nothing, done]).reason == ""


def test_one_compaction_stays_as_it_is_and_none_is_empty() -> None:
    one = numbered(CompactionReport, 7)
    assert merge_compactions(iter([one])) == one
    assert merge_compactions([]) == CompactionReport(first_dirty_offset=-1, end_offset=-1)


def test_counts_of_rewrites_add_up_and_damages_follow_each_other() -> None:
    first, second = ["damage 1"], ["damage 2", "damage 3"]
    merged = merge_rewrites(
        [numbered(RewriteReport, 10, damages=first), numbered(RewriteReport, 500, damages=second)]
    )
    damages: Any = [*first, *second]
    assert merged == RewriteReport(510, 512, 514, 516, 518, 520, damages)
    assert not merged.ok
    assert (first, second) == (["damage 1"], ["damage 2", "damage 3"])  # unchanged
    assert merge_rewrites([]) == RewriteReport()


def test_files_of_reindexes_follow_each_other() -> None:
    damages: Any = ("damage",)
    merged = merge_reindexes(
        [ReindexReport(1, 10, ("a",), ("b", "c"), ()), ReindexReport(2, 300, ("d",), (), damages)]
    )
    assert merged == ReindexReport(3, 310, ("a", "d"), ("b", "c"), damages)
    assert not merged.ok
    assert merge_reindexes([]) == ReindexReport(0, 0, (), (), ())


def test_a_topics_reports_are_the_sums_of_its_logs(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        topic = store.create_topic("c", 2, config={"cleanup.policy": "compact"})
        for log in topic:
            log.extend((b"%d" % (n % 3), b"x" * 50) for n in range(60))
            log.roll()
        compacted = topic.compact()
        assert (compacted.records_read, compacted.records_kept) == (120, 6)
        assert compacted.keys == 6  # three in each partition
        assert topic.reindex().segments == sum(len(log.segments.views) for log in topic)
