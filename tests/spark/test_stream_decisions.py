"""What the streaming source decides, in this process; tests/spark has it in a real query."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.errors import (
    CorruptRecordError,
    InvalidConfigError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from kstore.spark.source import range_reader
from kstore.spark.source.options import parse_source
from support.clock import Clock
from support.topics_without_id import WAYS, assign_id, forget_stamps, make_topic, make_topic_again

T0 = 1_700_000_000_000


@pytest.fixture(autouse=True)
def as_in_a_new_process() -> Iterator[None]:
    range_reader._open_stores.clear()
    yield
    for store in range_reader._open_stores.values():
        store.close()
    range_reader._open_stores.clear()


def stream(path: Path, clock: Clock | None = None, **options: object) -> Any:
    from kstore.spark.source.stream_reader import KStoreStreamReader

    texts = {name: str(value) for name, value in options.items()}
    wanted = parse_source({"path": str(path), "subscribe": "t", **texts}, streaming=True)
    return KStoreStreamReader(wanted, wanted.columns, 2, clock or Clock(100.0))


def unlimited() -> Any:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    return ReadAllAvailable()


def offsets_of(tasks: Any) -> list[tuple[int, int, int]]:
    return [(each.partition, each.start, each.stop) for task in tasks for each in task.ranges]


def of_topic(path: Path, *ends: int) -> dict[str, dict[str, int]]:
    """Offsets as they are written down: with the id of the topic that they are of."""
    with kstore.open(path, mode="r") as store:
        return {"t": {str(n): end for n, end in enumerate(ends)}, f"t@{store['t'].topic_id}": {}}


def make_again(path: Path, *counts: int) -> None:
    with kstore.open(path) as store:
        store.delete_topic("t")
        topic = store.create_topic("t", len(counts))
        for n, count in enumerate(counts):
            topic[n].extend([b"new"] * count)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    with kstore.open(tmp_path) as store:
        topic = store.create_topic("t", 2)
        topic[0].extend([b"x"] * 100, timestamp=T0)
        topic[1].extend([b"x"] * 10, timestamp=T0 + 50)
    return tmp_path


def test_the_initial_offset_stays_what_it_is(log_dir: Path) -> None:
    """Spark asks again after a crash in the first batch: the same answer, though the log grew."""
    for starting, symbol in (("latest", -1), ("earliest", -2)):
        before = stream(log_dir, startingOffsets=starting).initialOffset()
        with kstore.open(log_dir) as store:
            store["t"][0].append(b"more")
        assert stream(log_dir, startingOffsets=starting).initialOffset() == before
        assert before == {"t": {"0": symbol, "1": symbol}}


def test_from_latest_the_first_batch_is_empty_and_says_where(log_dir: Path) -> None:
    reader = stream(log_dir)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end == of_topic(log_dir, 100, 10)
    assert reader.partitions(start, end) == []


def test_a_stream_begins_at_a_timestamp(log_dir: Path) -> None:
    reader = stream(log_dir, startingTimestamp=T0 + 20, startingOffsetsByTimestampStrategy="latest")
    assert reader.initialOffset() == {"t": {"0": -1, "1": 0}}
    with pytest.raises(InvalidConfigError, match="no record of t-0 is as late"):
        stream(log_dir, startingTimestamp=T0 + 20).initialOffset()


def test_given_offsets_name_all_partitions(log_dir: Path) -> None:
    assert stream(log_dir, startingOffsets='{"t": {"0": 7, "1": -1}}').initialOffset() == {
        "t": {"0": 7, "1": -1}
    }
    with pytest.raises(InvalidConfigError, match="it lacks t-1"):
        stream(log_dir, startingOffsets='{"t": {"0": 7}}').initialOffset()


def test_a_limit_is_shared_in_proportion(log_dir: Path) -> None:
    reader = stream(log_dir, startingOffsets="earliest", maxOffsetsPerTrigger=50)
    start, ends = reader.initialOffset(), []
    while True:
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        if end == start:
            break
        ends.append(tuple(end["t"].values()))
        start = end
    assert ends == [(46, 4), (91, 9), (100, 10)]


def test_no_partition_starves_and_none_gets_more_than_it_has() -> None:
    from kstore.spark.source.stream_reader import share_out

    begins = {("t", n): 0 for n in range(4)}
    ends = {("t", 0): 10**12, ("t", 1): 1, ("t", 2): 0, ("t", 3): 5}
    shared = share_out(begins, ends, 100)
    assert shared == {("t", 0): 99, ("t", 1): 1, ("t", 2): 0, ("t", 3): 1}
    assert share_out(begins, ends, 10**13) == ends
    assert sum(share_out(begins, dict.fromkeys(begins, 33), 100).values()) == 100


def test_the_least_is_waited_for_but_not_for_ever(log_dir: Path) -> None:
    clock = Clock(100.0)
    reader = stream(
        log_dir, clock, startingOffsets="earliest", minOffsetsPerTrigger=500, maxTriggerDelay="60s"
    )
    start = reader.initialOffset()
    limit = reader.getDefaultReadLimit()
    assert reader.latestOffset(start, limit) == start
    clock.now += 59
    assert reader.latestOffset(start, limit) == start
    clock.now += 2
    assert reader.latestOffset(start, limit) == of_topic(log_dir, 100, 10)


def test_available_now_stops_where_it_was(log_dir: Path) -> None:
    reader = stream(log_dir, startingOffsets="earliest", minOffsetsPerTrigger=500)
    reader.prepareForTriggerAvailableNow()
    with kstore.open(log_dir) as store:
        store["t"][0].append(b"later")
        store.add_partitions("t", 3)[2].append(b"later")
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert end == of_topic(log_dir, 100, 10)
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
    assert reader.reportLatestOffset()["t"]["0"] == 101


def test_new_partitions_show_within_a_second(log_dir: Path) -> None:
    clock = Clock(100.0)
    reader = stream(log_dir, clock)
    start = of_topic(log_dir, 100, 10)
    assert reader.latestOffset(start, unlimited()) == start
    with kstore.open(log_dir) as store:
        store.add_partitions("t", 3)[2].extend([b"x"] * 5)
    clock.now += 1.1
    end = reader.latestOffset(start, unlimited())
    assert end == of_topic(log_dir, 100, 10, 5)
    assert offsets_of(reader.partitions(start, end)) == [(2, 0, 5)]


def test_lost_offsets_are_an_error_or_skipped(log_dir: Path) -> None:
    start = {"t": {"0": 0, "1": 0, "5": 3}}
    with pytest.raises(UnknownTopicOrPartitionError, match="t-5 of the checkpoint no longer exist"):
        stream(log_dir).latestOffset(start, unlimited())
    careless = stream(log_dir, failOnDataLoss=False)
    end = careless.latestOffset(start, unlimited())
    assert end == of_topic(log_dir, 100, 10)
    with kstore.open(log_dir) as store:
        store["t"][0].delete_records(40)
    with pytest.raises(OffsetOutOfRangeError, match="the log has 40 to 100"):
        stream(log_dir).partitions(start, end)
    assert offsets_of(careless.partitions(start, end)) == [(0, 40, 100), (1, 0, 10)]
    # From "earliest" nothing is lost by a start that has moved.
    first = stream(log_dir, startingOffsets="earliest").initialOffset()
    assert offsets_of(stream(log_dir).partitions(first, end)) == [(0, 40, 100), (1, 0, 10)]


def test_a_start_beyond_the_end_is_lost_data(
    log_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"startingOffsets": '{"t": {"0": 101, "1": 0}}'}
    first = stream(log_dir, **given).initialOffset()
    with pytest.raises(OffsetOutOfRangeError, match="startingOffsets lies beyond its end"):
        stream(log_dir, **given).latestOffset(first, unlimited())
    careless = stream(log_dir, **given, failOnDataLoss=False)
    assert careless.latestOffset(first, unlimited()) == of_topic(log_dir, 100, 10)
    assert "set failOnDataLoss" not in caplog.text  # it is set


def test_the_same_batch_again_after_a_restart(log_dir: Path) -> None:
    start, end = {"t": {"0": 3, "1": 0}}, {"t": {"0": 60, "1": 4}}
    before = offsets_of(stream(log_dir).partitions(start, end))
    with kstore.open(log_dir) as store:
        store["t"][0].extend([b"x"] * 1000)
    assert offsets_of(stream(log_dir, maxOffsetsPerTrigger=1).partitions(start, end)) == before
    assert before == [(0, 3, 60), (1, 0, 4)]


def test_a_recreated_topic_is_lost_data_however_long_it_is(log_dir: Path) -> None:
    """Longer than what was read: only its id shows that its records are others."""
    living, careless = stream(log_dir), stream(log_dir, failOnDataLoss=False)
    start = living.latestOffset(living.initialOffset(), unlimited())
    assert careless.latestOffset(start, unlimited()) == start
    make_again(log_dir, 500, 20)
    for reader in (living, stream(log_dir, maxOffsetsPerTrigger=50)):
        with pytest.raises(UnknownTopicOrPartitionError, match="recreated"):
            reader.latestOffset(start, reader.getDefaultReadLimit())
    for reader in (careless, stream(log_dir, failOnDataLoss=False)):
        end = reader.latestOffset(start, unlimited())
        assert end == of_topic(log_dir, 500, 20) != start
        assert offsets_of(reader.partitions(start, end)) == [(0, 0, 500), (1, 0, 20)]
        assert reader.latestOffset(end, unlimited()) == end
    limited = stream(log_dir, failOnDataLoss=False, maxOffsetsPerTrigger=52)
    end = limited.latestOffset(start, limited.getDefaultReadLimit())
    assert end == of_topic(log_dir, 50, 2)
    # After a restart the same batch, which was reported when it was made.
    assert offsets_of(stream(log_dir).partitions(start, end)) == [(0, 0, 50), (1, 0, 2)]


def test_a_recreated_topic_with_fewer_partitions_and_records(
    log_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    start = of_topic(log_dir, 100, 10)
    make_again(log_dir, 3)
    reader = stream(log_dir, failOnDataLoss=False)
    end = reader.latestOffset(start, unlimited())
    assert end == of_topic(log_dir, 3)
    assert len(caplog.records) == 1  # reported once, not for each of its partitions
    assert offsets_of(reader.partitions(start, end)) == [(0, 0, 3)]


def test_a_topic_recreated_before_its_batch_was_read(
    log_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    start, end = {"t": {"0": 3, "1": 0}}, of_topic(log_dir, 60, 4)
    make_again(log_dir, 500, 20)
    with pytest.raises(UnknownTopicOrPartitionError, match="recreated"):
        stream(log_dir).partitions(start, end)
    careless = stream(log_dir, failOnDataLoss=False)
    assert careless.partitions(start, end) == []
    assert len(caplog.records) == 1
    after = careless.latestOffset(end, unlimited())
    assert offsets_of(careless.partitions(end, after)) == [(0, 0, 500), (1, 0, 20)]


def test_a_checkpoint_of_the_connector_opens_and_only_its_offsets_are_compared(
    log_dir: Path,
) -> None:
    """It names no topic's identity."""
    plain = {"t": {"0": 3, "1": 0}}
    end = stream(log_dir).latestOffset(plain, unlimited())
    assert end == of_topic(log_dir, 100, 10)
    assert offsets_of(stream(log_dir).partitions(plain, end)) == [(0, 3, 100), (1, 0, 10)]


def test_a_topic_recreated_while_a_batch_is_planned(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks look for the topic that the offsets are of, not for a later one."""
    reader, end = stream(log_dir), of_topic(log_dir, 100, 10)
    looked = reader._take_snapshot

    def look_and_lose() -> Any:
        found = looked()
        make_again(log_dir, 500, 20)
        return found

    monkeypatch.setattr(reader, "_take_snapshot", look_and_lose)
    tasks = reader.partitions({"t": {"0": 3, "1": 0}}, end)
    ids = {f"t@{each.identity.topic_id}" for task in tasks for each in task.ranges}
    assert ids == set(end) - {"t"}


# --- topics without an id: the checkpoint has their creation stamp -----------------------------


@pytest.mark.parametrize(("has_stamp", "by_kstore"), WAYS)
def test_a_stream_reports_a_recreated_topic_without_id(
    tmp_path: Path, has_stamp: bool, by_kstore: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It is longer than what was read: no record of it is read from the middle."""
    make_topic(tmp_path, 10, 5)
    if not has_stamp:
        forget_stamps(tmp_path)
    living = stream(tmp_path, startingOffsets="earliest")
    start = living.latestOffset(living.initialOffset(), unlimited())
    assert living.latestOffset(start, unlimited()) == start
    make_topic_again(tmp_path, 50, 20, by_kstore=by_kstore)
    for reader in living, stream(tmp_path):
        with pytest.raises(UnknownTopicOrPartitionError, match="deleted and recreated"):
            reader.latestOffset(start, unlimited())
        with pytest.raises(UnknownTopicOrPartitionError, match="deleted and recreated"):
            reader.partitions(living.initialOffset(), start)
    careless = stream(tmp_path, failOnDataLoss=False)
    end = careless.latestOffset(start, unlimited())
    assert "deleted and recreated" in caplog.text
    assert offsets_of(careless.partitions(start, end)) == [(0, 0, 50), (1, 0, 20)]
    assert offsets_of(stream(tmp_path).partitions(start, end)) == [(0, 0, 50), (1, 0, 20)]
    assert stream(tmp_path).latestOffset(end, unlimited()) == end


def test_a_stream_continues_where_its_topic_gets_a_stamp_and_then_an_id(tmp_path: Path) -> None:
    make_topic(tmp_path, 10, 5)
    forget_stamps(tmp_path)
    reader = stream(tmp_path, startingOffsets="earliest")
    offsets = [reader.latestOffset(reader.initialOffset(), unlimited())]
    kstore.open(tmp_path).close()
    offsets.append(stream(tmp_path).latestOffset(offsets[-1], unlimited()))
    assign_id(tmp_path)
    offsets.append(stream(tmp_path).latestOffset(offsets[-1], unlimited()))
    with kstore.open(tmp_path) as store:
        store["t"][1].append(b"more")
    offsets.append(stream(tmp_path).latestOffset(offsets[-1], unlimited()))
    for n, start in enumerate(offsets[:-1]):
        assert offsets_of(stream(tmp_path).partitions(start, offsets[-1])) == [(1, 5, 6)], n


def test_an_older_checkpoint_of_a_topic_without_id_still_opens(tmp_path: Path) -> None:
    """It has offsets only; the next batch binds it to the topic that is read."""
    make_topic(tmp_path, 10, 5)
    end = stream(tmp_path).latestOffset({"t": {"0": 3, "1": 5}}, unlimited())
    assert offsets_of(stream(tmp_path).partitions({"t": {"0": 3, "1": 5}}, end)) == [(0, 3, 10)]
    make_topic_again(tmp_path, 50, 20)
    with pytest.raises(UnknownTopicOrPartitionError, match="deleted and recreated"):
        stream(tmp_path).latestOffset(end, unlimited())


# --- lost segments -------------------------------------------------------------------------------


def test_a_stream_over_a_lost_segment_fails_and_warns_where_it_may_continue(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where the first segment is lost, from the earliest offset; not once it is behind."""
    for number in 0, 2:
        path = tmp_path / str(number)
        with kstore.open(path) as store:
            log = store.create_topic("t")[0]
            for n in range(50):
                if n and n % 10 == 0:
                    log.roll()
                log.append(b"x")
        (path / f"t-0/{number * 10:020}.log").unlink()
        reader = stream(path, startingOffsets="earliest")
        first = reader.initialOffset()
        end = reader.latestOffset(first, unlimited())
        lost = f"offsets {number * 10} to {number * 10 + 9} are lost"
        with pytest.raises(CorruptRecordError, match=f"{lost}.*set failOnDataLoss to false"):
            reader.partitions(first, end)
        caplog.clear()
        careless = stream(path, failOnDataLoss=False)
        assert careless.partitions(first, end)
        assert lost in caplog.text
        behind = {"t": {"0": number * 10 + 10}}
        (task,) = reader.partitions(behind, end)
        assert (task.ranges[0].start, task.ranges[-1].stop) == (number * 10 + 10, 50)
