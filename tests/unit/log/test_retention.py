"""Which segments may go: Kafka's rules over plain facts."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore.config import LogConfig
from kstore.log.retention import SegmentFacts, segments_to_delete

DAY = 86_400_000
NOW = 1_800_000_000_000
OFF = LogConfig()


def log(*segments):
    """(size, age in days or None) of each segment, ten offsets a segment; ages before NOW."""
    return [
        SegmentFacts(
            base_offset=10 * n,
            next_offset=10 * (n + 1) if size else 10 * n,
            size=size,
            largest_timestamp=-1 if age is None else NOW - age * DAY,
            modified_ms=NOW,
        )
        for n, (size, age) in enumerate(segments)
    ]


def decide(segments, config, *, start=0, end=None, now=NOW):
    end = segments[-1].next_offset if end is None and segments else end or 0
    doomed = segments_to_delete(
        segments, config, log_start_offset=start, end_offset=end, now_ms=now
    )
    return [(entry.base_offset, entry.rule) for entry in doomed]


def test_ten_year_old_records_stay_unless_retention_is_set():
    segments = log((100, 3650), (100, 3650), (100, 3650))
    assert decide(segments, OFF) == []
    assert decide(segments, OFF, now=2**62) == []


def test_segments_below_the_log_start_are_deleted():
    segments = log((100, 1), (100, 1), (100, 1))
    assert decide(segments, OFF, start=9) == []
    assert decide(segments, OFF, start=10) == [(0, "start")]
    assert decide(segments, OFF, start=19) == [(0, "start")]
    # This rule never deletes the active segment.
    assert decide(segments, OFF, start=30) == [(0, "start"), (10, "start")]
    compact = replace(OFF, cleanup_policy="compact", retention_ms=0)
    assert decide(segments, compact, start=10) == [(0, "start")]


@pytest.mark.parametrize(
    ("limit", "gone"),
    [(1000, 0), (300, 0), (299, 0), (201, 0), (200, 1), (199, 1), (100, 2), (1, 2), (0, 3)],
)
def test_by_size_the_log_keeps_at_least_the_limit(limit, gone):
    segments = log((100, 1), (100, 1), (100, 1))
    found = decide(segments, LogConfig(retention_bytes=limit))
    assert found == [(0, "size"), (10, "size"), (20, "size")][:gone]


@pytest.mark.parametrize(("days", "gone"), [(10, 0), (9, 1), (5, 1), (4, 2), (3, 2), (0, 3)])
def test_segments_older_than_retention_ms_are_deleted(days, gone):
    segments = log((100, 9.5), (100, 4.5), (100, 0.5))
    found = decide(segments, LogConfig(retention_ms=days * DAY))
    assert found == [(0, "time"), (10, "time"), (20, "time")][:gone]


def test_exactly_as_old_as_allowed_stays():
    segments = log((100, 3), (100, 0))
    assert decide(segments, LogConfig(retention_ms=3 * DAY)) == []
    assert decide(segments, LogConfig(retention_ms=3 * DAY - 1)) == [(0, "time")]


def test_a_record_from_the_future_keeps_its_segment_and_all_later_ones():
    segments = log((100, 9), (100, -9), (100, 9), (100, 0))
    assert decide(segments, LogConfig(retention_ms=DAY)) == [(0, "time")]


def test_without_timestamps_the_file_time_decides():
    segments = log((100, None), (100, None))
    old = [segments[0]._replace(modified_ms=NOW - 2 * DAY), segments[1]]
    assert decide(segments, LogConfig(retention_ms=DAY)) == []
    assert decide(old, LogConfig(retention_ms=DAY)) == [(0, "time")]


def test_retention_deletes_the_active_segment_only_if_it_has_records():
    config = LogConfig(retention_ms=DAY)
    assert decide(log((100, 9), (50, 9)), config) == [(0, "time"), (10, "time")]
    assert decide(log((100, 9), (0, 9)), config) == [(0, "time")]
    assert decide(log((0, None)), LogConfig(retention_bytes=0, retention_ms=0)) == []


def test_retention_deletes_nothing_above_the_high_watermark():
    segments = log((100, 9), (100, 9), (100, 9))
    config = LogConfig(retention_ms=DAY, retention_bytes=0)
    assert decide(segments, config, end=19) == [(0, "size")]
    assert decide(segments, config, end=0, start=10) == []


def test_rules_follow_one_another():
    segments = log((100, 9), (100, 1), (100, 9), (100, 1))
    config = LogConfig(retention_bytes=200, retention_ms=2 * DAY)
    assert decide(segments, config, start=10) == [(0, "start"), (10, "size"), (20, "time")]


def test_compacted_logs_lose_nothing_by_size_or_time():
    segments = log((100, 9), (100, 9))
    limits = {"retention_bytes": 0, "retention_ms": 0}
    assert decide(segments, LogConfig(cleanup_policy="compact", **limits)) == []
    assert decide(segments, LogConfig(cleanup_policy="", **limits)) == []
    assert len(decide(segments, LogConfig(cleanup_policy="compact,delete", **limits))) == 2


def test_without_segments_nothing_is_deleted():
    assert decide([], LogConfig(retention_ms=0)) == []


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(-5, 20)), max_size=8),
    st.integers(-1, 500),
    st.integers(-1, 20),
    st.integers(0, 90),
    st.integers(0, 90),
)
def test_retention_deletes_the_oldest_segments_up_to_its_limits(shape, size, days, start, end):
    segments = log(*shape)
    config = LogConfig(retention_bytes=size, retention_ms=days * DAY if days >= 0 else -1)
    found = decide(segments, config, start=start, end=end)
    assert [base for base, _ in found] == [s.base_offset for s in segments[: len(found)]]
    assert all(s.next_offset <= end for s in segments[: len(found)])
    if any(rule == "size" for _, rule in found):
        by_size = [base for base, rule in found if rule != "time"]
        assert sum(s.size for s in segments[len(by_size) :]) >= size
    if size < 0 and days < 0:
        assert all(rule == "start" for _, rule in found)
