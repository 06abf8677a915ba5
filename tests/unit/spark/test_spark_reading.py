"""A task's side of reading for Spark, without Spark: what was planned, and what became of it."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import kstore
from kstore.errors import (
    CorruptRecordError,
    OffsetOutOfRangeError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from kstore.files.files import DISK, Files
from kstore.spark import Plan, plan
from kstore.spark.source import range_reader
from kstore.spark.source.arrow_batches import BatchMaker, microseconds
from kstore.spark.source.options import parse_source
from kstore.spark.source.range_reader import RangeReader
from kstore.spark.source.read_task import run_task
from support import ranges
from support.ranges import T0, fill, planned_ranges, read_by_engine, run
from support.stores import QUIET

pytestmark = pytest.mark.usefixtures("no_stores_from_elsewhere")


@pytest.mark.parametrize("size", [700, 5000, 1 << 20])
def test_as_planned_nothing_is_searched(
    tmp_path: Path, size: int, searched: list[tuple[int, int]]
) -> None:
    fill(tmp_path)
    found = plan(tmp_path, topics="t", maxPartitionBytes=size)
    assert run(tmp_path, found) == read_by_engine(tmp_path)
    assert searched == []


def test_batches_larger_than_the_buffer(
    tmp_path: Path, searched: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reader, "CHUNK", 100)
    fill(tmp_path)
    assert run(tmp_path, plan(tmp_path, topics="t")) == read_by_engine(tmp_path)
    assert searched == []


def test_no_byte_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that ends behind a chunk stays in the buffer; heads are compared on the way in."""
    fill(tmp_path)
    monkeypatch.setattr(range_reader, "CHUNK", 1000)  # some batches are larger
    found = plan(tmp_path, topics="t", parallelism=1, startingOffsets='{"t": {"0": 777}}')
    sizes: list[int] = []
    original = Files.preadv_into

    def count(self: Files, fd: int, buffer: memoryview, position: int) -> int:
        sizes.append(original(self, fd, buffer, position))
        return sizes[-1]

    monkeypatch.setattr(Files, "preadv_into", count)
    rows = run(tmp_path, found, startingOffsets='{"t": {"0": 777}}')
    assert rows == read_by_engine(tmp_path)[777:]
    assert sum(sizes) == found.size


def test_reading_a_file_that_is_truncated_meanwhile_ends(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t")[0]
        for n in range(40):
            log.append(b"x" * 100_000, timestamp=T0 + n)
    found = plan(tmp_path, topics="t", parallelism=1)
    wanted = parse_source({"path": str(tmp_path), "subscribe": "t", "columns": "offset"})
    task = run_task(wanted, wanted.columns, found.tasks[0])
    next(task)
    (path,) = (tmp_path / "t-0").glob("*.log")
    os.truncate(path, 1_150_000)
    with pytest.raises(CorruptRecordError, match="position 1100"):
        list(task)


def test_a_compaction_between_planning_and_reading(
    tmp_path: Path, searched: list[tuple[int, int]]
) -> None:
    """The planned files are gone, others stand under their names: what is left comes once."""
    fill(tmp_path, cleanup_policy="compact")
    before = read_by_engine(tmp_path)
    found = plan(tmp_path, topics="t", maxPartitionBytes=5000)
    with kstore.open(tmp_path, config=QUIET) as store:
        store["t"][0].roll()
        store["t"][0].compact()
    after = read_by_engine(tmp_path)
    assert len(after) == 50 < len(before)
    assert run(tmp_path, found) == after
    assert len(searched) > 2


def test_a_compaction_in_the_middle_of_reading(tmp_path: Path) -> None:
    """An open file keeps all its batches, the next range is searched: each offset at most once."""
    fill(tmp_path, cleanup_policy="compact")
    before = dict(read_by_engine(tmp_path))
    found = plan(tmp_path, topics="t", maxPartitionBytes=5000)
    wanted = parse_source({"path": str(tmp_path), "subscribe": "t", "columns": "offset"})
    offsets = []
    for n, task in enumerate(found.tasks):
        for batch in run_task(wanted, wanted.columns, task):
            offsets += batch.column(0).to_pylist()
            if n == 3:
                with kstore.open(tmp_path, config=QUIET) as store:
                    store["t"][0].compact()
    assert offsets == sorted(set(offsets))
    assert set(offsets) <= set(before)
    assert {offset for offset, _ in read_by_engine(tmp_path)} <= set(offsets)


def drop_oldest(path: Path) -> int:
    with kstore.open(path, config=QUIET) as store:
        return store["t"][0].delete_records(1500)


def test_retention_between_planning_and_reading(tmp_path: Path) -> None:
    fill(tmp_path)
    before = read_by_engine(tmp_path)
    found = plan(tmp_path, topics="t", maxPartitionBytes=5000)
    assert drop_oldest(tmp_path) == 1500
    with pytest.raises(OffsetOutOfRangeError, match="set failOnDataLoss to false") as error:
        run(tmp_path, found)
    assert error.value.offset == 0
    rest = run(tmp_path, found, failOnDataLoss=False)
    assert rest == [row for row in before if row[0] >= rest[0][0]]
    assert 1000 < rest[0][0] <= 1500  # what the file still has of the planned is shown


def test_a_topic_deleted_between_planning_and_reading(tmp_path: Path) -> None:
    fill(tmp_path)
    found = plan(tmp_path, topics="t", maxPartitionBytes=5000)
    with kstore.open(tmp_path, config=QUIET) as store:
        store.delete_topic("t")
        store.create_topic("other")
    range_reader._open_stores.clear()
    with pytest.raises(UnknownTopicOrPartitionError, match="t-0 was deleted"):
        run(tmp_path, found)
    assert run(tmp_path, found, failOnDataLoss=False) == []


def test_a_log_truncated_in_place_and_written_again(
    tmp_path: Path, searched: list[tuple[int, int]]
) -> None:
    """As Kafka truncates: the same inode, other batches at the planned position."""
    fill(tmp_path, 400)
    found = plan(tmp_path, topics="t", maxPartitionBytes=3000)
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store["t"][0]
        end = log.end_offset
        log.truncate_to(0)
        while log.end_offset < end:
            log.append(b"other %d" % log.end_offset)
    (copy,) = [path for path in (tmp_path / "t-0").glob("*.log") if path.name.startswith("0" * 20)]
    inode = copy.stat().st_ino
    parts = [each for each in planned_ranges(found) if each.path == str(copy)]
    assert parts[0].inode != inode  # kstore makes a new file; pretend it were Kafka's
    renumbered = Plan(
        tuple(
            tuple(
                replace(
                    each,
                    spans=tuple(
                        replace(p, inode=inode) if p.path == str(copy) else p for p in each.spans
                    ),
                )
                for each in task
            )
            for task in found.tasks
        ),
        0,
        0,
        0,
    )
    assert run(tmp_path, renumbered) == [row for row in read_by_engine(tmp_path) if row[0] < end]
    assert searched


def test_another_file_of_the_same_bytes_is_searched_again(
    tmp_path: Path, searched: list[tuple[int, int]]
) -> None:
    fill(tmp_path)
    found = plan(tmp_path, topics="t", maxPartitionBytes=5000)
    path = Path(planned_ranges(found)[0].path)
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.rename(path)
    assert run(tmp_path, found) == read_by_engine(tmp_path)
    assert len(searched) == sum(each.path == str(path) for each in planned_ranges(found))


def test_a_batch_at_the_planned_position_that_is_another_one(tmp_path: Path) -> None:
    """Truncated in place and written again: a batch at the same byte, with a later offset."""

    def write(name: str, first: list[bytes]) -> Path:
        with kstore.open(tmp_path / name, config=QUIET) as store:
            log = store.create_topic("t")[0]
            log.extend(first, timestamp=T0)
            for _ in range(3):
                log.append(b"y" * 50, timestamp=T0)
            batches = log.read(log.start_offset + len(first))
            assert batches is not None
        (tmp_path / name / "where").write_text(str(batches.position))
        return tmp_path / name / "t-0" / f"{0:020}.log"

    path = write("planned", [b"x" * 100])
    found = plan(
        tmp_path / "planned", topics="t", startingOffsets='{"t": {"0": 1}}',
        endingOffsets='{"t": {"0": 3}}',
    )  # fmt: skip
    (planned,) = planned_ranges(found)
    for size in range(80, 100):
        other = write(f"other{size}", [b"x" * size, b"z"])
        if (tmp_path / f"other{size}" / "where").read_text() == str(planned.position):
            break
    with open(path, "r+b") as file:
        file.write(other.read_bytes())
    assert path.stat().st_ino == planned.inode
    assert run(tmp_path / "planned", found) == [(1, b"z"), (2, b"y" * 50)]


def test_a_host_without_the_directory_is_an_error_and_not_an_empty_store(tmp_path: Path) -> None:
    """With failOnDataLoss=false too: an executor without the mount must not count as deleted."""
    fill(tmp_path / "here")
    found = plan(tmp_path / "here", topics="t")
    (tmp_path / "here").rename(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="every executor have to see it"):
        run(tmp_path / "here", found, failOnDataLoss=False)


def test_another_topic_of_the_same_name_is_not_read(tmp_path: Path) -> None:
    """Created again, or of a directory that is another one on this host."""
    fill(tmp_path)
    found = plan(tmp_path, topics="t", maxPartitionBytes=5000)
    with kstore.open(tmp_path, config=QUIET) as store:
        store.delete_topic("t")
        store.create_topic("t")[0].extend([b"other"] * 3000)
    with pytest.raises(StorageError, match="another topic 't' than the"):
        run(tmp_path, found, failOnDataLoss=False)


def test_a_topic_created_again_whose_file_has_the_planned_inode(tmp_path: Path) -> None:
    """A file system gives a freed inode to the next file: what is alike is not the same topic."""
    fill(tmp_path)
    found = plan(tmp_path, topics="t", parallelism=1)
    with kstore.open(tmp_path, config=QUIET) as store:
        store.delete_topic("t")
        store.create_topic("t")[0].extend([b"other" * 100] * 3000, timestamp=T0)
    (path,) = (tmp_path / "t-0").glob("*.log")
    planned = planned_ranges(found)[0]
    now = path.stat()
    again = replace(
        planned, inode=now.st_ino, end_position=now.st_size, stop=3000, next_offset=3000
    )
    (each, *_) = found.tasks[0]
    mistaken = Plan(((replace(each, spans=(again,)),),), 1, 1, 0)
    with pytest.raises(StorageError, match="another topic 't' than the"):
        run(tmp_path, mistaken)


def test_a_later_segment_that_is_not_the_planned_one(
    tmp_path: Path, searched: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its inode and size are as planned: the head of its first batch shows that it is another."""
    fill(tmp_path / "here")
    found = plan(tmp_path / "here", topics="t", parallelism=1)
    later = planned_ranges(found)[1]
    monkeypatch.setattr(ranges, "T0", T0 + 1)
    fill(tmp_path / "other")
    data = (tmp_path / "other/t-0" / Path(later.path).name).read_bytes()
    assert len(data) == os.path.getsize(later.path)
    assert later.position == 0
    with open(later.path, "r+b") as file:
        file.write(data)
    assert os.stat(later.path).st_ino == later.inode
    run(tmp_path / "here", found)
    assert searched == [(later.start, later.stop)]


def test_nothing_is_mapped(tmp_path: Path, searched: list[tuple[int, int]]) -> None:
    """Of a file on a mount that another machine removes, a mapped page kills the process."""
    fill(tmp_path)
    found = plan(tmp_path, topics="t", maxPartitionBytes=5000)
    unplanned = Plan(
        tuple(
            tuple(
                replace(each, spans=tuple(replace(p, path="") for p in each.spans)) for each in task
            )
            for task in found.tasks
        ),
        0,
        0,
        0,
    )
    assert run(tmp_path, unplanned) == read_by_engine(tmp_path)
    assert len(searched) == len(planned_ranges(found))
    assert f"{tmp_path}/t-0" not in Path("/proc/self/maps").read_text()


def test_nothing_stays_open(tmp_path: Path) -> None:
    fill(tmp_path)
    found = plan(tmp_path, topics="t", maxPartitionBytes=5000)
    wanted = parse_source({"path": str(tmp_path), "subscribe": "t"})

    def descriptors() -> set[str]:
        return {
            os.readlink(f"/proc/self/fd/{fd}")
            for fd in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{fd}")
        }

    before = {name for name in descriptors() if "t-0" in name}
    batches = run_task(wanted, wanted.columns, found.tasks[0])
    next(batches)
    batches.close()  # as Spark does for LIMIT
    assert {name for name in descriptors() if "t-0" in name} == before


def test_reading_only_offsets_reads_no_values(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fill(tmp_path)
    monkeypatch.setattr(
        "kstore.spark.source.arrow_batches.pack", lambda *_: pytest.fail("bytes were copied")
    )
    wanted = parse_source({"path": str(tmp_path), "subscribe": "t", "columns": "offset"})
    (task,) = plan(tmp_path, topics="t", parallelism=1).tasks
    count = sum(batch.num_rows for batch in run_task(wanted, wanted.columns, task))
    assert count == len(read_by_engine(tmp_path))


def test_both_timestamp_types_in_one_log(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        log = store.create_topic("t")[0]
        log.append(b"a", timestamp=T0)
        store.alter_topic("t", config={"message.timestamp.type": "LogAppendTime"})
        log.append(b"b")
        store.alter_topic("t", unset=["message.timestamp.type"])
        log.append(b"c", timestamp=T0)
    wanted = parse_source({"path": str(tmp_path), "subscribe": "t", "columns": "timestampType"})
    rows = [
        value
        for task in plan(tmp_path, topics="t").tasks
        for batch in run_task(wanted, wanted.columns, task)
        for value in batch.column(0).to_pylist()
    ]
    assert rows == [0, 1, 0]


def test_moments_beyond_spark_s_range() -> None:
    import numpy as np

    found = microseconds(np.array([-1, 5, 2**63 - 1], np.int64))
    assert found[:2].tolist() == [-1000, 5000]
    assert found[2] > 2**63 - 2000


def test_header_names_that_are_no_text(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        store.create_topic("t")[0].append(b"v", headers=[("name", b"1"), ("naem", None)])
    path = next((tmp_path / "t-0").glob("*.log"))
    data = path.read_bytes().replace(b"name", b"n\xffme")
    scan = range_reader.ColumnScan(data, check_crc=False)
    batch = BatchMaker(("headers", "offset"), "t", 0).make(next(scan))
    batch.validate(full=True)
    assert batch.column(0).to_pylist() == [
        [{"key": "n\ufffdme", "value": b"1"}, {"key": "naem", "value": None}]
    ]
    assert batch.schema.field("offset").type == pa.int64()


def test_the_disk_is_the_real_one() -> None:
    assert RangeReader((), "read_uncommitted", True, False).files is DISK


def test_another_node_s_replica_under_the_path_is_reported(tmp_path: Path) -> None:
    """A host with a log directory of its own where the shared one should be."""
    meta = "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\nnode.id={}\n"
    fill(tmp_path / "node-1")
    shutil.copytree(tmp_path / "node-1", tmp_path / "node-2")  # a replica: the topic's id is one
    for number in (1, 2):
        (tmp_path / f"node-{number}" / "meta.properties").write_text(meta.format(number))
    mounted = tmp_path / "mounted"
    (tmp_path / "node-1").rename(mounted)
    found = plan(mounted, topics="t")
    expected = read_by_engine(mounted)
    mounted.rename(tmp_path / "node-1")
    (tmp_path / "node-2").rename(mounted)
    range_reader._open_stores.clear()
    with pytest.raises(StorageError, match=r"t-0 of node 2 of .* that of node 1 of .* mount"):
        run(mounted, found)
    (mounted / "meta.properties").unlink()  # it does not say: the files are taken as replaced
    assert run(mounted, found) == expected
