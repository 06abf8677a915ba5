"""The export's Python halves, without Spark: intervals, the target's progress, Parquet files."""

import json
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq

import kstore
from kstore.errors import InvalidConfigError, StorageError
from kstore.files.files import DISK, Files
from kstore.spark.jobs import parquet_files
from kstore.spark.jobs.export_target import FOLDER, Exported, Target, add_interval, subtract
from kstore.spark.source import arrow_batches
from kstore.spark.source.aggregates import _windows
from kstore.spark.source.offset_ranges import Plan, plan_ranges
from kstore.spark.source.range_reader import RangeReader
from kstore.store.topic_identity import TopicIdentity
from oracle import writer
from oracle.plain import PlainRecord
from support.stores import QUIET

DAY = 86_400_000
FIRST = 1_700_000_000_000 // DAY * DAY
pairs = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted).map(tuple)


@given(st.lists(pairs), pairs)
def test_intervals_are_sets_of_offsets(found: Any, wanted: Any) -> None:
    done: list[tuple[int, int]] = []
    for start, stop in found:
        done = add_interval(done, start, stop)
    members = {n for start, stop in found for n in range(start, stop)}
    assert {n for start, stop in done for n in range(start, stop)} == members
    assert all(low < high for low, high in done)
    assert all(one[1] < other[0] for one, other in pairwise(done))
    left = subtract(*wanted, done)
    assert [n for low, high in left for n in range(low, high)] == sorted(
        set(range(*wanted)) - members
    )


def records(count: int, draw: random.Random) -> Iterator[kstore.Record]:
    """Of four days, in and out of order, with and without keys, values and headers."""
    for n in range(count):
        headers = tuple((f"h{k}", None if k == 1 else b"%d" % n) for k in range(n % 3))
        yield kstore.Record(
            0,
            FIRST + n * 4 * DAY // count + draw.randrange(-DAY // 8, DAY // 8),
            None if n % 5 == 0 else b"key %d" % (n % 50),
            None if n % 7 == 0 else b"value %d" % n * draw.randrange(4),
            headers,
        )


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    with kstore.open(path, config=QUIET) as store:
        for name, codec in (("orders", "none"), ("clicks", "lz4")):
            settings = kstore.LogConfig(segment_bytes=20_000, batch_compression=codec)
            for log in store.create_topic(name, 2, config=settings):
                log.extend(list(records(800, random.Random(log.partition))))
    return path


def plan_all(path: Path) -> tuple[Plan, dict[Any, list[Any]]]:
    with kstore.open(path, "r") as store:
        logs = [log for name in sorted(store) for log in store[name]]
        rows = {(log.topic, log.partition): [row_of(each) for each in log] for log in logs}
        ends = [(log, log.start_offset, log.end_offset) for log in logs]
        return plan_ranges(ends, parallelism=1, max_bytes=30_000), rows


def row_of(record: Any) -> Any:
    return (record.offset, record.timestamp, record.key, record.value, list(record.headers))


def write_all(path: Path, folder: Path, compression: str = "snappy") -> list[parquet_files.Written]:
    plan, _ = plan_all(path)
    reader = RangeReader((str(path),), "read_uncommitted", True, False)
    return [
        each
        for task in plan.tasks
        for each in parquet_files.write_ranges(reader.read(task), str(folder), "run", compression)
    ]


def rows_in(files: list[Path]) -> list[Any]:
    found = []
    for file in files:
        for row in pq.ParquetFile(file).read().to_pylist():
            headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
            when = int(row["timestamp"].timestamp() * 1000 + 0.5)
            found.append((row["offset"], when, row["key"], row["value"], headers))
            assert row["timestampType"] == 0
    return sorted(found, key=lambda row: row[0])


@pytest.mark.parametrize("compression", parquet_files.COMPRESSIONS)
@pytest.mark.parametrize("group", [1, 1 << 25])
def test_every_record_once_under_its_date(
    log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str, group: int
) -> None:
    monkeypatch.setattr(parquet_files, "_MAX_BUFFERED", group)
    monkeypatch.setattr(parquet_files, "_MAX_OPEN", 2)  # days take turns at their edges
    staged = tmp_path / "staged"
    staged.mkdir()
    written = write_all(log_dir, staged, compression)
    assert len({each.name for each in written}) == len(written) > 8
    _, wanted = plan_all(log_dir)
    for (topic, partition), rows in wanted.items():
        mine = [each for each in written if (each.topic, each.partition) == (topic, partition)]
        assert rows_in([Path(each.staged) for each in mine]) == rows
        assert len({each.name.split("/")[1] for each in mine}) >= 4
    for each in written:
        file = pq.ParquetFile(each.staged)
        assert each.size == Path(each.staged).stat().st_size
        assert file.metadata.num_rows == each.records
        table = file.read()
        date = each.name.split("/")[1].removeprefix("date=")
        assert {when.strftime("%Y-%m-%d") for when in table["timestamp"].to_pylist()} == {date}
        assert (table["offset"][0].as_py(), table["offset"][-1].as_py()) == (each.first, each.last)
        assert file.schema_arrow.field("timestamp").type == pa.timestamp("ms", "UTC")


def test_files_are_named_by_date_and_offsets() -> None:
    assert parquet_files.date_of(0) == "1970-01-01"
    assert parquet_files.date_of(-1) == "1969-12-31"
    assert parquet_files.date_of(parquet_files._FIRST_DAY) == "0001-01-01"
    assert parquet_files.date_of(parquet_files._LAST_DAY) == "9999-12-31"
    for day in (parquet_files._FIRST_DAY - 1, parquet_files._LAST_DAY + 1, 2**40):
        assert parquet_files.date_of(day) == "__HIVE_DEFAULT_PARTITION__"
    assert parquet_files.file_name("a", "2024-05-01", 3, 7, 9) == (
        "topic=a/date=2024-05-01/00003-00000000000000000007-00000000000000000009.parquet"
    )


def test_a_time_beyond_those_of_spark_goes_to_the_default_folder(tmp_path: Path) -> None:
    with kstore.open(tmp_path / "data", config=QUIET) as store:
        log = store.create_topic("far", 1)[0]  # a client may send such a time
        log.append_as_leader(writer.batch([PlainRecord(0, 2**63 - 1, None, b"x")]))
    (only,) = write_all(tmp_path / "data", tmp_path)
    assert "date=__HIVE_DEFAULT_PARTITION__" in only.name
    column = pq.ParquetFile(only.staged).read()["timestamp"]
    assert column.cast(pa.int64()).to_pylist() == [(2**63 - 1) // 1000]


def test_times_are_clipped_at_both_ends() -> None:
    least, most = -(2**63), 2**63 - 1
    far, far_us = most // 1000, most // 1000 * 1000
    assert arrow_batches.microseconds(np.array([least, -5, 7, most])).tolist() == [
        -far_us, -5000, 7000, far_us,
    ]  # fmt: skip
    assert arrow_batches.microseconds(np.array([-far - 1, far])).tolist() == [-far_us, far_us]
    assert arrow_batches.microseconds(np.array([], np.int64)).tolist() == []
    hour = 3_600_000
    numbers = np.array([least // hour, -1, 0, most // hour])
    found = _windows(numbers, hour)
    ends = far // hour * hour * 1000
    assert [found.field(n).cast(pa.int64()).to_pylist() for n in (0, 1)] == [
        [-far_us, -hour * 1000, 0, ends],
        [-ends, 0, hour * 1000, far_us],
    ]


def test_a_fault_in_the_middle_raises(log_dir: Path, tmp_path: Path) -> None:
    plan, _ = plan_all(log_dir)
    reader = RangeReader((str(log_dir),), "read_uncommitted", True, False)

    def breaking() -> Any:
        yield from reader.read(plan.tasks[0])
        raise StorageError("gone", path="x")

    with pytest.raises(StorageError, match="gone"):
        parquet_files.write_ranges(breaking(), str(tmp_path), "run", "snappy")


# --- the target -----------------------------------------------------------------------------------


class Stopping(Files):
    """A disk whose process dies at one of its changes: nothing after it happens."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt

    def rename(self, source: Any, target: Any) -> None:
        self.step()
        super().rename(source, target)

    def make_directory(self, path: Any) -> None:
        self.step()
        super().make_directory(path)

    def sync_directory(self, path: Any) -> None:
        self.step()
        super().sync_directory(path)


def publish(target: Target, written: list[parquet_files.Written]) -> None:
    """As a task's result: the files of each partition cover what they say."""
    ranges = [(each.topic, None, each.partition, each.first, each.last + 1) for each in written]
    target.publish(ranges, written)


def visible(path: Path) -> list[str]:
    return sorted(
        str(each.relative_to(path)) for each in path.rglob("*.parquet") if FOLDER not in str(each)
    )


def test_a_kill_at_any_step_neither_loses_nor_doubles_records(
    log_dir: Path, tmp_path: Path
) -> None:
    plan, rows = plan_all(log_dir)
    task = plan.tasks[0]
    for after in range(60):
        out = tmp_path / f"out{after}"
        out.mkdir()
        disk = Stopping(after)
        finished = False
        try:
            with Target(str(out), disk) as target:
                staged = write_task(log_dir, task, target.staged)
                target.publish(messages_of(task), staged)
                target.finish()
                finished = True
        except KeyboardInterrupt:
            pass
        with Target(str(out)) as target:  # the next run
            left = [
                interval
                for each in task
                for interval in target.left(
                    each.topic, TopicIdentity(), each.partition, (each.start, each.stop), each.stop
                )
            ]
            if left:
                target.publish(messages_of(task), write_task(log_dir, task, target.staged))
            target.finish()
            assert list(Path(target.staged).iterdir()) == []
        found = rows_in([out / name for name in visible(out)])
        wanted = [
            row
            for each in task
            for row in rows[each.topic, each.partition]
            if each.start <= row[0] < each.stop
        ]
        assert found == sorted(wanted, key=lambda row: row[0])
        if finished:
            assert not left
            assert after > 8
            return
    raise AssertionError("it never finished")


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(b"short")])
def test_a_file_that_is_not_here_is_not_exported(log_dir: Path, tmp_path: Path, spoil: Any) -> None:
    task = plan_all(log_dir)[0].tasks[0]
    out = tmp_path / "out"
    with Target(str(out)) as target:
        written = write_task(log_dir, task, target.staged)
        spoil(Path(written[0].staged))
        with pytest.raises(StorageError, match="share") as caught:
            target.publish(messages_of(task), written)
        assert written[0].host
        assert written[0].host in str(caught.value)
        assert written[0].staged in str(caught.value)
    with Target(str(out)) as target:
        assert all(
            target.left(
                each.topic, TopicIdentity(), each.partition, (each.start, each.stop), each.stop
            )
            == [(each.start, each.stop)]
            for each in task
        )
    assert visible(out) == []


def messages_of(task: Any) -> list[Any]:
    return [(each.topic, None, each.partition, each.start, each.stop) for each in task]


def write_task(log_dir: Path, task: Any, folder: str) -> list[parquet_files.Written]:
    reader = RangeReader((str(log_dir),), "read_uncommitted", True, False)
    return parquet_files.write_ranges(reader.read(task), folder, "run", "snappy")


def test_leftovers_of_tasks_are_removed(tmp_path: Path) -> None:
    with Target(str(tmp_path / "out")) as target:
        Path(target.staged, "other-attempt.parquet").write_bytes(b"half")
    with Target(str(tmp_path / "out")) as target:
        assert list(Path(target.staged).iterdir()) == []
        with pytest.raises(StorageError, match="another export"):
            Target(str(tmp_path / "out"))


def test_another_log_under_the_same_name(tmp_path: Path) -> None:
    with Target(str(tmp_path)) as target:
        target.publish([("orders", "id-1", 0, 5, 10)], [])
    seen = Exported(str(tmp_path))
    same = TopicIdentity("id-1")
    assert seen.left("orders", same, 0, (0, 20), 20) == [(0, 5), (10, 20)]
    assert seen.left("orders", same, 1, (0, 3), 3) == [(0, 3)]
    for other in TopicIdentity("id-2"), TopicIdentity():
        with pytest.raises(InvalidConfigError, match="another topic"):
            seen.left("orders", other, 0, (0, 20), 20)
    with pytest.raises(InvalidConfigError, match="truncated"):
        seen.left("orders", same, 0, (0, 9), 9)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b"[" * 100_000,
        b'{"version": 1, "isolation": "a", "topics": {}, "done": {"a": {"0": [[0, Infinity]]}},'
        b' "pending": []}',
        b'{"version": 2, "topics": {}, "done": {}, "pending": []}',
        b'{"version": 1, "isolation": "a", "topics": {}, "done": {"a": 3}, "pending": []}',
        b'{"version": 1, "isolation": "a", "topics": {}, "done": {}, "pending": [["../x", "y"]]}',
        b'{"version": 1, "isolation": "a", "topics": {}, "done": {}, "pending": [["x", "../y"]]}',
        b'{"version": 1, "isolation": "a", "topics": {}, "done": {}, "pending": [["x", "/y"]]}',
    ],
)
def test_a_wrong_progress_file_is_an_error_and_unlocks(tmp_path: Path, text: bytes) -> None:
    Target(str(tmp_path)).__exit__()
    (tmp_path / FOLDER / "progress.json").write_bytes(text)
    for kind in (Target, Exported):
        with pytest.raises(InvalidConfigError, match="progress"):
            kind(str(tmp_path))
    (tmp_path / FOLDER / "progress.json").unlink()
    Target(str(tmp_path)).__exit__()  # the lock was given back


def test_another_isolation_is_refused(tmp_path: Path) -> None:
    with Target(str(tmp_path), isolation="read_committed") as target:
        target.publish([("orders", None, 0, 0, 5)], [])
    for kind in (Exported, Target):
        with pytest.raises(InvalidConfigError, match=r"as read_committed.* read_uncommitted"):
            kind(str(tmp_path))
    with Target(str(tmp_path), isolation="read_committed") as target:
        assert target.left("orders", TopicIdentity(), 0, (0, 5), 5) == []


def test_the_progress_of_an_export_is_small(tmp_path: Path) -> None:
    with Target(str(tmp_path)) as target:
        for n in range(50):
            target.publish([("orders", None, n % 2, n * 10, n * 10 + 20)], [])
    kept = json.loads(DISK.read(str(tmp_path / FOLDER / "progress.json")))
    assert kept["done"] == {"orders": {"0": [[0, 500]], "1": [[10, 510]]}}
