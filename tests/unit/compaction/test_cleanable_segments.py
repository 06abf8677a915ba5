"""Which offsets may be cleaned, how segments are grouped: Kafka's rules over plain facts."""

import pytest

from kstore.compaction.cleanable_segments import CleanSegment, cleanable_range, group_segments
from kstore.compaction.cleaned_transactions import ABORT, COMMIT, CleanedTransactions
from kstore.config import LogConfig
from kstore.errors import InvalidConfigError
from kstore.segment.transaction_index import AbortedTransaction

NOW = 1_000_000


def segments(*bases, size=100, **facts):
    given = {
        "size": size,
        "index_size": 8,
        "time_index_size": 12,
        "largest_timestamp": 1000,
        "first_timestamp": 500,
        "modified_ms": 2000,
    } | facts
    return [CleanSegment(base_offset=base, **given) for base in bases]


def find(found, *, checkpoint=None, start=0, end=60, stable=60, **config):
    return cleanable_range(
        found,
        LogConfig(cleanup_policy="compact", **config),
        checkpoint=checkpoint,
        log_start_offset=start,
        end_offset=end,
        last_stable_offset=stable,
        now_ms=NOW,
    )


def test_everything_but_the_active_segment():
    found = find(segments(0, 10, 20, 50))
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (0, 50)
    assert (found.clean_bytes, found.cleanable_bytes, found.dirty_ratio) == (0, 300, 1.0)
    assert not found.reset


def test_segments_are_dirty_from_the_checkpoint_on():
    found = find(segments(0, 10, 20, 50), checkpoint=20)
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (20, 50)
    assert (found.clean_bytes, found.cleanable_bytes) == (200, 100)
    # A segment that the checkpoint splits counts on both sides.
    found = find(segments(0, 10, 20, 50), checkpoint=15)
    assert (found.clean_bytes, found.cleanable_bytes) == (200, 200)


@pytest.mark.parametrize("checkpoint", [5, 61])
def test_a_checkpoint_outside_the_log_is_reset(checkpoint):
    found = find(segments(0, 10, 20, 50), checkpoint=checkpoint, start=12)
    assert found.reset
    assert found.first_dirty_offset == 12


def test_not_beyond_the_last_stable_offset_and_complete_segments_only():
    assert find(segments(0, 10, 20, 50), stable=25).first_uncleanable_offset == 20
    assert find(segments(0, 10, 20, 50), stable=20).first_uncleanable_offset == 20
    found = find(segments(0, 10, 20, 50), stable=5)
    assert found.first_uncleanable_offset == 0
    assert found.cleanable_bytes == 0


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (find(segments(0, size=0), end=0, stable=0), "no records that are not compacted"),
        (find(segments(0)), "only its active segment: roll it first, by roll=True or --roll"),
        (find(segments(0, 10, 50), checkpoint=50), "new records only there: roll it first"),
        (find(segments(0, 10, 50), checkpoint=60), "no records that are not compacted"),
        (find(segments(0, 10, 50), stable=5), "a transaction that begins at offset 5 is open"),
        (
            find(segments(0, 10, largest_timestamp=NOW), min_compaction_lag_ms=7),
            "younger than min.compaction.lag.ms, 7",
        ),
        (find(segments(0, 10, size=0)), "hold no bytes"),
        (find(segments(0, 10, 50)), ""),
    ],
)
def test_a_log_with_nothing_to_clean_says_why(found, reason):
    assert reason in found.blocked
    assert found.is_empty == bool(reason) == bool(found.blocked)


def test_compaction_lags_bound_what_is_cleanable():
    young = [*segments(0, 10), *segments(20, 30, 50, largest_timestamp=NOW - 10)]
    assert find(young, min_compaction_lag_ms=11).first_uncleanable_offset == 20
    assert find(young, min_compaction_lag_ms=9).first_uncleanable_offset == 50
    assert find(young).first_uncleanable_offset == 50
    assert find(young, max_compaction_lag_ms=NOW - 501).due
    assert not find(young, max_compaction_lag_ms=NOW - 500).due
    assert not find(young).due


def test_a_log_is_eligible_by_its_dirty_ratio_or_lag():
    config = LogConfig(cleanup_policy="compact", min_cleanable_dirty_ratio=0.5)
    assert not find(segments(0, 10, 20), checkpoint=10).eligible(config)  # half is not more
    assert find(segments(0, 10, 20), checkpoint=0).eligible(config)
    late = find(segments(0, 10, 20), checkpoint=10, max_compaction_lag_ms=10)
    assert late.due
    assert late.eligible(config)
    assert not find(segments(0), checkpoint=0).eligible(config)


def groups(found, **config):
    return [
        [each.base_offset for each in group]
        for group in group_segments(found, LogConfig(**config), 10_000)
    ]


def test_groups_are_limited_by_segment_and_index_size():
    found = segments(0, 10, 20, 30, 40)
    assert groups(found, segment_bytes=250) == [[0, 10], [20, 30], [40]]
    assert groups(found, segment_bytes=99) == [[0], [10], [20], [30], [40]]
    assert groups(found, segment_index_bytes=16) == [[0], [10], [20], [30], [40]]
    assert groups(found, segment_index_bytes=24) == [[0, 10], [20, 30], [40]]
    assert groups([]) == []


def test_segments_are_grouped_within_the_offsets_of_one_index():
    far = segments(0, 10, 2**31 + 1, 2**31 + 5)
    assert [
        [each.base_offset for each in group]
        for group in group_segments(far, LogConfig(), 2**31 + 11)
    ] == [[0], [10, 2**31 + 1], [2**31 + 5]]
    # An empty one does not count: else an empty file stays for every 2^31 offsets.
    far[1:] = segments(10, 2**31 + 1, 2**31 + 5, size=0)
    assert len(group_segments(far, LogConfig(), 2**31 + 9)) == 1


def aborted(producer_id, first, last):
    return AbortedTransaction(0, producer_id, first, last, first)


def test_only_records_of_aborted_transactions_are_removed():
    found = CleanedTransactions()
    found.add([aborted(1, 10, 30), aborted(1, 40, 50)])
    found.add([aborted(1, 10, 30)])  # named by the next segment once more
    assert found.is_aborted(1, 12, transactional=True)
    assert not found.is_aborted(2, 13, transactional=True)
    assert not found.is_aborted(1, 14, transactional=False)
    assert not found.is_removable_marker(1, 30, ABORT)
    assert found.written == [aborted(1, 10, 30)]
    assert not found.is_removable_marker(2, 31, COMMIT)
    assert found.is_removable_marker(2, 32, COMMIT)
    assert found.is_removable_marker(1, 50, ABORT), "no batch of it was met"
    assert found.is_removable_marker(1, 60, None)
    assert not found.is_removable_marker(1, 61, 5), "an unknown kind stays"
    assert len(found.written) == 1


def test_settings_of_the_cleaner_have_kafkas_names():
    config = LogConfig.from_properties(
        {"min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "5"}
    )
    assert config.min_cleanable_dirty_ratio == 0.01
    assert config.to_properties()["min.cleanable.dirty.ratio"] == "0.01"
    for name, value in (("min.cleanable.dirty.ratio", "2"), ("min.cleanable.dirty.ratio", "x")):
        with pytest.raises(InvalidConfigError, match="a number"):
            LogConfig.from_properties({name: value})
