"""A slice of which records have left the log since it was made says so where it is read."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kstore
from kstore import Log, LogView, OffsetOutOfRangeError

READS: list[Callable[[LogView], object]] = [
    list,
    lambda view: list(view.records()),
    lambda view: list(view.records(on_damage="skip")),
    lambda view: list(view.scan()),
    lambda view: list(view.scan(threads=2)),
    lambda view: view.count(),
    lambda view: view.to_arrow(),
    lambda view: view.to_pandas(),
    lambda view: view.latest(),
    lambda view: list(view.batches()),
    lambda view: list(view.slices()),
    lambda view: view.head(3),
    lambda view: view.tail(3),
]


@pytest.fixture(params=["a", "r"])
def logs(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Log, Log]]:
    """A log of 100 records in batches of ten, and the same one as it is read."""
    with kstore.open(tmp_path) as store:
        log = store.create_topic("t", config={"segment.bytes": 160})[0]  # a batch each
        for n in range(10):
            log.extend(b"%d" % each for each in range(10 * n, 10 * n + 10))
        with kstore.open(tmp_path, mode="r") as reader:
            yield log, log if request.param == "a" else reader["t"][0]


@pytest.mark.parametrize("read", READS)
def test_every_way_to_read_it_says_so(
    logs: tuple[Log, Log], read: Callable[[LogView], object]
) -> None:
    log, reading = logs
    view, end = reading[10:45], reading[95:98]
    log.delete_records(30)
    log.truncate_to(90)
    for each in (view, end):
        with pytest.raises(OffsetOutOfRangeError, match="since"):
            read(each)


@pytest.mark.parametrize(
    ("window", "deleted"),
    [
        (slice(10, 15), "10 to 14"),
        (slice(10, 45), "10 to 29"),
        (slice(10, None), "10 to 29"),
        (slice(-80, None), "20 to 29"),
        (slice(None, 30), "0 to 29"),
    ],
)
def test_deleted_records_are_missed(logs: tuple[Log, Log], window: slice, deleted: str) -> None:
    log, reading = logs
    view = reading[window]
    log.delete_records(30)
    text = rf"offsets {deleted} of the slice were deleted since: the log holds \[30, 100\) now"
    with pytest.raises(OffsetOutOfRangeError, match=text):
        list(view)
    with pytest.raises(OffsetOutOfRangeError):
        list(view[:])


@pytest.mark.parametrize("window", [slice(10, 45), slice(None, 41), slice(-5, None)])
def test_truncated_records_are_missed(logs: tuple[Log, Log], window: slice) -> None:
    log, reading = logs
    view = reading[window]
    log.truncate_to(40)
    with pytest.raises(OffsetOutOfRangeError, match="was truncated to 40 since the slice"):
        list(view)


def test_a_window_that_moves_with_the_log_misses_nothing(logs: tuple[Log, Log]) -> None:
    log, reading = logs
    everything, some, rest = reading[:], reading[:60], reading[35:]
    empty, beyond, last = reading[5:5], reading[100:], reading.tail(3)
    skipping = reading.view(0, 40)
    log.delete_records(30)
    assert [view.count() for view in (everything, some, rest, skipping)] == [70, 30, 65, 10]
    assert [view.count() for view in (empty, beyond, last)] == [0, 0, 3]
    log.extend([b"more"])
    assert [view.count() for view in (everything, rest, beyond, last)] == [71, 66, 1, 3]
    log.truncate_to(90)
    assert [view.count() for view in (everything, some, rest)] == [60, 30, 55]


def test_following_from_beyond_the_end_would_skip_records(logs: tuple[Log, Log]) -> None:
    log, reading = logs
    with pytest.raises(OffsetOutOfRangeError, match="101 is beyond the log's end, 100"):
        reading.follow(start=101)
    followed = reading.follow(start=100, timeout=0)
    log.append(b"next")
    assert [record.value for record in followed] == [b"next"]
