"""Planning for Spark, without Spark: offsets to bytes of files to tasks."""

import itertools
import os
import random
from pathlib import Path

import pytest

import kstore
from kstore.errors import InvalidConfigError, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from kstore.files.files import Files
from kstore.spark import Plan, plan
from kstore.spark.source.batch_plan import plan_batch
from kstore.spark.source.offset_ranges import (
    HEAD_SIZE,
    SegmentSpan,
    plan_ranges,
    split_span,
    target_size,
)
from kstore.spark.source.options import parse_source
from kstore.spark.source.range_reader import open_store
from kstore.spark.source.snapshot import take_snapshot
from support.compaction import Shape, random_segments
from support.damage import write_damaged

T0 = 1_700_000_000_000
KINDS = {
    "v2": Shape(batches=120, segments=6),
    "v1": Shape(batches=120, segments=6, magics=(1,), codecs=(0, 1, 2), transactions=False),
    "v0": Shape(batches=120, segments=6, magics=(0,), codecs=(0, 1), transactions=False),
    "mixed": Shape(batches=150, segments=4, magics=(0, 1, 2), codecs=(0, 1), transactions=False),
}


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store")
    with kstore.open(path) as store:
        orders = store.create_topic("orders", 2)
        for n in range(1000):
            orders.append(b"value %d" % n, timestamp=T0 + n, partition=n % 2)
    return path


def make_random(path: Path, kind: str, seed: int) -> list[int]:
    """A log of random batches; indexes are made by opening it for writing. Its offsets."""
    directory = path / "t-0"
    directory.mkdir()
    for base, data in random_segments(random.Random(seed), KINDS[kind]).items():
        (directory / f"{base:020}.log").write_bytes(data)
    with kstore.open(
        path, config=kstore.StoreConfig(log=kstore.LogConfig(index_interval_bytes=100))
    ) as store:
        return [record.offset for record in store["t"][0]]


def planned_ranges(found: Plan) -> list[SegmentSpan]:
    return [span for task in found.tasks for each in task for span in each.spans]


def check_shape(found: Plan, start: int, stop: int) -> None:
    """In order, without overlap in offsets or bytes, all within the range."""
    parts = planned_ranges(found)
    assert all(start <= part.start < part.stop <= stop for part in parts)
    for before, after in itertools.pairwise(parts):
        assert before.stop <= after.start
        if before.path == after.path:
            assert before.end_position <= after.position


def test_a_plan_shows_how_many_bytes_it_skips(log_dir: Path) -> None:
    complete = plan(log_dir, topics="orders")
    late = plan(log_dir, topics="orders", since=T0 + 900)
    assert complete.offsets == 1000
    assert late.offsets == 100
    assert 0 < late.size < complete.size // 5
    assert late.all_bytes == complete.all_bytes == complete.size
    assert f"{late.size:,} of {complete.size:,} bytes" in str(late)


def test_a_window_reads_its_own_batches_only(log_dir: Path) -> None:
    # One record a batch: so exactly as many bytes as a hundredth of all.
    exact = plan(
        log_dir, partitions={"orders": [0]}, startingOffsets='{"orders": {"0": 200}}',
        endingOffsets='{"orders": {"0": 205}}',
    )  # fmt: skip
    with kstore.open(log_dir, mode="r") as store:
        log = store["orders"][0]
        first, last = log.read(200), log.read(205)
        assert first is not None
        assert last is not None
        assert exact.size == last.position - first.position


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 300, 2000, 1 << 20])
def test_ranges_cover_every_record_once(tmp_path: Path, kind: str, size: int) -> None:
    offsets = make_random(tmp_path, kind, size)
    low, high = offsets[3], offsets[-3]
    for start, stop in ((0, offsets[-1] + 1), (low, high), (low + 1, low + 2)):
        found = plan(
            tmp_path, topics="t", maxPartitionBytes=size,
            startingOffsets=f'{{"t": {{"0": {max(start, offsets[0])}}}}}',
            endingOffsets=f'{{"t": {{"0": {stop}}}}}',
        )  # fmt: skip
        check_shape(found, start, stop)
        covered = [
            n for n in offsets for part in planned_ranges(found) if part.start <= n < part.stop
        ]
        assert covered == [n for n in offsets if max(start, offsets[0]) <= n < stop]
    if size == 300:
        assert len(found.tasks) == 1
        assert len(plan(tmp_path, topics="t", maxPartitionBytes=size).tasks) > 6


@pytest.mark.parametrize("least", [2, 3, 7, 50])
def test_min_partitions_splits(log_dir: Path, least: int) -> None:
    found = plan(log_dir, topics="orders", minPartitions=least)
    assert len(found.tasks) >= least
    assert found.offsets == 1000


def test_min_partitions_splits_within_a_batch(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        store.create_topic("one")[0].extend([b"x"] * 10)
    found = plan(tmp_path, topics="one", minPartitions=4)
    assert len(found.tasks) == 4
    assert [(part.start, part.stop) for part in planned_ranges(found)] == [
        (0, 2),
        (2, 5),
        (5, 7),
        (7, 10),
    ]
    assert len(plan(tmp_path, topics="one", minPartitions=40).tasks) == 10


def test_thousands_of_tasks_take_a_heap_s_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of sizes that a halving compares does not grow with the number of tasks."""
    with kstore.open(tmp_path) as store:
        store.create_topic("one")[0].extend([b"x"] * 2000)
    asked = [0]

    def counted(planned: SegmentSpan) -> int:
        asked[0] += 1
        return planned.end_position - planned.position

    monkeypatch.setattr(SegmentSpan, "size", property(counted))
    found = plan(tmp_path, topics="one", minPartitions=1000)
    assert len(found.tasks) == 1000
    assert asked[0] < 30_000
    check_shape_of_offsets(found, 2000)


def check_shape_of_offsets(found: Plan, count: int) -> None:
    parts = planned_ranges(found)
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert parts[-1].stop == count


@pytest.mark.parametrize("most", [1, 7, 100, 333, 1000])
def test_max_records_per_partition_bounds_every_task(log_dir: Path, most: int) -> None:
    found = plan(log_dir, topics="orders", maxRecordsPerPartition=most)
    counts = [sum(part.stop - part.start for part in task) for task in found.tasks]
    assert sum(counts) == 1000
    assert max(counts) <= most
    assert len(counts) <= 2 * -(-1000 // most)
    for number in range(2):
        mine = [each for task in found.tasks for each in task if each.partition == number]
        assert [part.start for part in mine] == [0, *(part.stop for part in mine[:-1])]
        assert mine[-1].stop == 500
    assert (
        len(plan(log_dir, topics="orders", maxRecordsPerPartition=500, minPartitions=7).tasks) >= 7
    )


@pytest.mark.spark
def test_max_records_per_partition_of_a_stream(log_dir: Path) -> None:
    from kstore.spark.source.stream_reader import KStoreStreamReader

    wanted = parse_source(
        {"path": str(log_dir), "subscribe": "orders", "maxRecordsPerPartition": "100"},
        streaming=True,
    )
    reader = KStoreStreamReader(wanted, wanted.columns, 2)
    found = reader.partitions({"orders": {"0": -2, "1": -2}}, {"orders": {"0": 500, "1": 500}})
    assert len(found) >= 10


def test_tasks_that_no_driver_bears(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        store.create_topic("one")[0].extend([b"x"] * 100_001)
    with pytest.raises(InvalidConfigError, match=r"maxRecordsPerPartition.*100,000"):
        plan(tmp_path, topics="one", maxRecordsPerPartition=1)


def test_ten_thousand_small_segments(tmp_path: Path) -> None:
    """Merged into few tasks; each file is opened once, nothing of a record is read.

    Only the 21 bytes of a batch's head that identify a segment's file are read.
    """
    with kstore.open(tmp_path) as store:
        store.create_topic("t")[0].extend([b"v" * 50] * 100)
    directory = tmp_path / "t-0"
    data = bytearray((directory / f"{0:020}.log").read_bytes())
    for n in range(1, 10_000):
        data[:8] = (n * 100).to_bytes(8, "big")  # outside the checksum
        (directory / f"{n * 100:020}.log").write_bytes(data)
    disk = CountingDisk()
    with kstore.open(tmp_path, mode="r") as store:
        log = store["t"][0]
        found = plan_ranges(
            [(log, 0, log.end_offset)], parallelism=2, max_bytes=128 << 20, files=disk
        )
    assert found.segments == 10_000
    assert found.offsets == 1_000_000
    assert 2 <= len(found.tasks) <= 20
    assert disk.opened <= 10_000 + 2 * len(found.tasks)
    assert disk.read <= 10_000 * HEAD_SIZE + 100_000


class CountingDisk(Files):
    def __init__(self) -> None:
        self.opened = self.read = 0

    def open(self, path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
        self.opened += 1
        return super().open(path, flags)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        self.read += size
        return super().pread(fd, size, position)


def test_skew_is_cut_and_small_partitions_share_a_task(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        topic = store.create_topic("t", 6)
        topic[0].extend([b"v" * 1000] * 5000)
        for n in range(1, 6):
            topic[n].extend([b"v"] * 10)
    found = plan(tmp_path, topics="t", maxPartitionBytes="1m")
    sizes = [sum(each.size for each in task) for task in found.tasks]
    assert max(sizes) <= 1.3 * (1 << 20)
    assert len(found.tasks) <= 7
    assert [each.partition for each in found.tasks[-1]][-5:] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("damage", ["missing", "zeros", "noise", "short"])
def test_an_index_that_misleads_costs_cuts_only(tmp_path: Path, damage: str) -> None:
    with kstore.open(tmp_path) as store:
        store.create_topic("t")[0].extend([b"v" * 1000] * 5000)
    index = tmp_path / "t-0" / f"{0:020}.index"
    if damage == "missing":
        index.unlink()
    else:
        kept = index.read_bytes()
        noise = random.Random(3).randbytes(len(kept))
        other = {"zeros": bytes(len(kept)), "noise": noise, "short": kept[:13]}
        write_damaged(index, other[damage])
    planned = planned_ranges(plan(tmp_path, topics="t"))[0]
    parts = split_span(Files(), planned, 8)
    assert parts[0].start == 0
    assert parts[-1].stop == 5000
    for before, after in itertools.pairwise(parts):
        assert before.stop == after.start
        assert before.end_position == after.position


def test_a_topic_recreated_since_the_load_is_lost_data(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        store.create_topic("orders")[0].extend([b"old"] * 10)
    texts = {"path": str(tmp_path), "subscribe": "orders"}
    wanted = parse_source(texts)
    snapshot = take_snapshot(open_store(wanted.paths), wanted)
    assert plan_batch(wanted, snapshot, 1).offsets == 10
    with kstore.open(tmp_path) as store:
        store.delete_topic("orders")
        store.create_topic("orders")[0].extend([b"NEW"] * 50)
    with pytest.raises(UnknownTopicOrPartitionError, match="recreated"):
        plan_batch(wanted, snapshot, 1)
    careless = parse_source({**texts, "failondataloss": "false"})
    assert plan_batch(careless, snapshot, 1).offsets == 0


def test_missing_partitions_offsets_and_times_are_refused(log_dir: Path) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="nothing, orders-7"):
        plan(log_dir, partitions={"orders": [0, 7], "nothing": [0]})
    with pytest.raises(OffsetOutOfRangeError, match="failOnDataLoss"):
        plan(log_dir, partitions={"orders": [0]}, endingOffsets='{"orders": {"0": 501}}')
    found = plan(
        log_dir, partitions={"orders": [0]}, endingOffsets='{"orders": {"0": 501}}',
        failOnDataLoss=False,
    )  # fmt: skip
    assert found.offsets == 500
    with pytest.raises(InvalidConfigError, match="it lacks orders-1"):
        plan(log_dir, topics="orders", endingOffsets='{"orders": {"0": 50}}')
    with pytest.raises(InvalidConfigError, match="no record of orders-0 is as late"):
        plan(log_dir, topics="orders", startingTimestamp=T0 + 10_000)
    assert plan(log_dir, topics="orders", since=T0 + 10_000).tasks == ()


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": '{"orders": {"0": 501}}'},
        {"startingOffsets": '{"orders": {"0": 501}}', "endingOffsets": '{"orders": {"0": -1}}'},
        {"startingOffsets": '{"orders": {"0": 600}}', "endingOffsets": '{"orders": {"0": 700}}'},
    ],
)
def test_a_start_beyond_the_end_of_a_log_is_lost_data(
    log_dir: Path, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    named = {"partitions": {"orders": [0]}, **options}
    with pytest.raises(OffsetOutOfRangeError, match="set failOnDataLoss to false to continue"):
        plan(log_dir, **named)
    caplog.clear()
    assert plan(log_dir, **named, failOnDataLoss=False).offsets == 0
    assert "are requested, but the log has 0 to 500" in caplog.text
    assert "set failOnDataLoss" not in caplog.text  # it is set


def test_a_start_beyond_the_end_that_a_query_names_is_refused(log_dir: Path) -> None:
    named = {"partitions": {"orders": [0]}, "startingOffsets": '{"orders": {"0": 30}}'}
    with pytest.raises(InvalidConfigError, match="30 for orders-0, beyond the 20"):
        plan(log_dir, **named, endingOffsets='{"orders": {"0": 20}}')
    assert plan(log_dir, **named, endingOffsets='{"orders": {"0": 30}}').offsets == 0
    assert plan(log_dir, **named, endingTimestamp=T0).offsets == 0  # no such offsets, none lost
    end_of_log = '{"orders": {"0": 500}}'
    assert plan(log_dir, partitions={"orders": [0]}, startingOffsets=end_of_log).offsets == 0


def test_patterns_leave_kafka_s_own_topics_out(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        store.create_topic("orders-eu")[0].append(b"x")
        store.create_topic("orders")[0].append(b"x")
        store.create_topic("__consumer_offsets")
    assert plan(tmp_path, pattern="orders.+").offsets == 1
    assert plan(tmp_path, pattern="rders-?").offsets == 2  # anywhere, as the connector finds it
    assert plan(tmp_path, pattern="^rders").offsets == 0
    assert plan(tmp_path, pattern=".*").offsets == 2


def test_a_snapshot_does_not_see_what_comes_later(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        log = store.create_topic("t")[0]
        log.append(b"x", timestamp=T0)
        wanted = parse_source(
            {"path": str(tmp_path), "subscribe": "t", "endingTimestamp": str(T0 + 5)}
        )
        snapshot = take_snapshot(open_store(wanted.paths), wanted)
        log.append(b"x", timestamp=T0 + 2)
        assert plan_batch(wanted, snapshot, 1).offsets == 1
        again = take_snapshot(open_store(wanted.paths), wanted)
        assert plan_batch(wanted, again, 1).offsets == 2


def test_the_public_names_refer_to_the_documented_objects() -> None:
    """A module named as a function would replace it as soon as it is imported."""
    import kstore.spark

    assert callable(kstore.spark.plan)
    assert callable(kstore.spark.read)
    assert callable(kstore.spark.register)


def test_tasks_are_neither_too_small_nor_too_large() -> None:
    mib = 1 << 20
    assert target_size(100 * mib, 2, 128 * mib, 0) == 32 * mib  # not too small
    assert target_size(1000 * mib, 2, 128 * mib, 0) == 128 * mib  # nor too large
    assert target_size(400 * mib, 2, 128 * mib, 0) == 100 * mib  # two tasks a core
    assert target_size(100 * mib, 2, 128 * mib, 10) == 10 * mib
    assert target_size(0, 0, 128 * mib, 3) == 1
