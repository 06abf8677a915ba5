"""A restore's decisions and bytes, without Spark: tasks run here, one after the other."""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

import kstore
from kstore.cli import main
from kstore.errors import InvalidConfigError, InvalidRecordError, MessageTooLargeError
from kstore.files.files import Files
from kstore.spark.jobs import restore as job
from kstore.spark.jobs import restore_driver, restore_plan
from kstore.spark.jobs.restore_types import Filter
from oracle.plain import PlainRecord
from oracle.writer import batch
from support.stores import QUIET, make_kafkas_partition
from support.transactions import WHEN, TransactionWriter


def run_here(spark: Any, tasks: Any, work: Any, description: str) -> Iterator[Any]:
    """As run_tasks, out of order as far as a generator can be."""
    order = list(range(len(tasks)))
    random.Random(5).shuffle(order)
    for number in order:
        yield number, work(tasks[number])


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (restore_driver, restore_plan):
        monkeypatch.setattr(module, "run_tasks", run_here)
    monkeypatch.setattr(job, "check_executors", lambda *_: None)
    monkeypatch.setattr(restore_plan, "_CHUNK", 6000)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Gaps by markers and aborted records; headers, nulls, and a record without a time."""
    log_dir = tmp_path / "source"
    config = kstore.LogConfig(segment_bytes=3000, index_interval_bytes=300)
    with kstore.open(log_dir, config=QUIET) as store:
        topic = store.create_topic("orders", 2, config=config)
        for number, log in enumerate(topic):
            teller = TransactionWriter(log)
            for n in range(40 + number):
                teller.data(-1, 3, codec=n % 5)
                teller.data(9, 2)
                teller.end(9, commit=n % 3 > 0)
                log.append(
                    None if n % 7 == 0 else b"value %d" % n,
                    key=None if n % 5 == 0 else b"key %d" % (n % 4),
                    headers=[("a", b"%d" % n), ("none", None)] if n % 2 else None,
                    timestamp=WHEN + n,
                )
    return log_dir


def rows_of(log_dir: Path, topic: str = "orders") -> list[list[tuple[Any, ...]]]:
    with kstore.open(log_dir, "r") as store:
        return [
            [
                (r.offset, r.timestamp, r.key, r.value, tuple(r.headers))
                for r in log.view(isolation="read_committed")
            ]
            for log in store[topic]
        ]


def restore(to: Path, **options: Any) -> Any:
    return job.restore(None, to, **options)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_restore_with_the_same_offsets_equals_its_source(
    source: Path, tmp_path: Path, compression: str
) -> None:
    reports = restore(tmp_path / "to", log_dirs=source, keep_offsets=True, compression=compression)
    expected = rows_of(source)
    assert rows_of(tmp_path / "to") == expected
    assert [each.records for each in reports] == [len(each) for each in expected]
    assert all(each.done for each in reports)
    with kstore.open(tmp_path / "to", "r") as store:
        assert all(log.verify().ok for log in store["orders"])
    assert not list((tmp_path / "to").glob("kstore.staged.*"))
    with pytest.raises(InvalidConfigError, match="must be empty"):
        restore(tmp_path / "to", log_dirs=source, keep_offsets=True)


def test_appended_behind_existing_records_with_new_offsets(source: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    with kstore.open(to, config=QUIET) as store:
        store.create_topic("again", 2).append(b"first", partition=0)
    reports = restore(to, log_dirs=source, rename={"orders": "again"})
    found, expected = rows_of(to, "again"), rows_of(source)
    assert [row[1:] for row in found[0][1:]] == [row[1:] for row in expected[0]]
    assert [row[1:] for row in found[1]] == [row[1:] for row in expected[1]]
    assert [row[0] for row in found[0]] == list(range(len(expected[0]) + 1))
    assert {each.target for each in reports} == {"again"}
    assert not list(to.glob("kstore.*.*staged*")) + list(to.glob("kstore.staged.*"))


def test_a_restore_has_only_the_records_that_a_filter_chooses(source: Path, tmp_path: Path) -> None:
    everything = rows_of(source)[1]
    cases = {
        "times": (Filter(since=WHEN + 5, until=WHEN + 20), lambda r: 5 <= r[1] - WHEN < 20),
        "offsets": (Filter(start=33, stop=90), lambda r: 33 <= r[0] < 90),
        "keys": (Filter(keys=(b"key 1", b"key 3")), lambda r: r[2] in (b"key 1", b"key 3")),
        "pattern": (Filter(key_pattern="^k[12]$"), lambda r: r[2] in (b"k1", b"k2")),
    }  # fmt: skip
    for name, (chosen, wanted) in cases.items():
        restore(tmp_path / name, log_dirs=source, keep_offsets=True, chosen=chosen, partitions=[1])
        found = rows_of(tmp_path / name)
        expected = [row for row in everything if wanted(row)]
        assert expected
        assert found[1] == expected
        assert found[0] == []


def write_parquet(source: Path, folder: Path, *, overlap: bool = True) -> None:
    """As any program may: shuffled, in overlapping files, one row twice, other integer types."""
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    rng = random.Random(3)
    rows = []
    for partition, found in enumerate(rows_of(source)):
        rows += [(partition, *row) for row in found]
    rng.shuffle(rows)
    rows.append(rows[0])
    (folder / "topic=orders" / "date=2023-11-14").mkdir(parents=True)
    for n in range(3):
        part = rows[n::3]
        columns = list(zip(*part, strict=True))
        table = pa.table(
            {
                "partition": pa.array(columns[0], pa.int64()),
                "offset": pa.array(columns[1], pa.int64()),
                "timestamp": pa.array([1000 * t for t in columns[2]], pa.timestamp("us", "UTC")),
                "timestampType": pa.array([0] * len(part), pa.int32()),
                "key": pa.array(columns[3], pa.large_binary()),
                "value": pa.array(columns[4], pa.binary()),
                "headers": pa.array(
                    [[{"key": k, "value": v} for k, v in h] or None for h in columns[5]],
                    pa.list_(pair),
                ),
                "more": pa.array([1.5] * len(part)),
            }
        )
        pq.write_table(
            table, folder / "topic=orders" / "date=2023-11-14" / f"part-{n}.parquet",
            row_group_size=50,
        )  # fmt: skip
    (folder / "_SUCCESS").write_bytes(b"")


@pytest.mark.parametrize("chunk", [500, 1 << 26])
def test_a_restore_from_parquet_equals_the_exported_topic(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(restore_plan, "_CHUNK", chunk)
    write_parquet(source, tmp_path / "export")
    restore(tmp_path / "to", parquet=str(tmp_path / "export"), keep_offsets=True)
    assert rows_of(tmp_path / "to") == rows_of(source)
    restore(tmp_path / "to", parquet=str(tmp_path / "export"), rename={"orders": "new"})
    assert [[row[1:] for row in each] for each in rows_of(tmp_path / "to", "new")] == [
        [row[1:] for row in each] for each in rows_of(source)
    ]


def test_parquet_without_needed_columns_or_files_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"value": [b"1"], "offset": [1]}), tmp_path / "x.parquet")
    with pytest.raises(InvalidRecordError, match="partition, topic"):
        restore(tmp_path / "to", parquet=str(tmp_path / "x.parquet"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidConfigError, match="no Parquet files"):
        restore(tmp_path / "to", parquet=str(tmp_path / "empty"))


def test_a_restore_uses_the_disk_that_is_passed_in(source: Path, tmp_path: Path) -> None:
    seen: list[str] = []

    class Noting(Files):
        def make_directory(self, path: str) -> None:
            seen.append(path)
            super().make_directory(path)

        def remove(self, path: str) -> None:
            seen.append(path)
            super().remove(path)

    restore(tmp_path / "to", log_dirs=source, keep_offsets=True, files=Noting())
    assert seen[0] == str(tmp_path / "to")
    assert any("kstore.staged." in path for path in seen)


class Dead(BaseException):
    """The driver is gone."""


def test_a_restore_killed_between_two_chunks_is_continued(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target has a prefix; the next run with the same file continues behind it."""
    state, count = tmp_path / "state.json", 0
    original = restore_driver.append_staged

    def append(*arguments: Any) -> None:
        nonlocal count
        count += 1
        if count == 3:
            raise Dead
        original(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(restore_driver, "append_staged", append)
        with pytest.raises(Dead):
            restore(tmp_path / "to", log_dirs=source, keep_offsets=True, resume=str(state))
    expected = rows_of(source)
    part = rows_of(tmp_path / "to")
    assert 0 < sum(map(len, part)) < sum(map(len, expected))
    assert all(found == wanted[: len(found)] for found, wanted in zip(part, expected, strict=True))
    assert list((tmp_path / "to").glob("kstore.staged.*"))
    with pytest.raises(InvalidConfigError, match="another job"):
        restore(tmp_path / "to", log_dirs=source, resume=str(state))
    restore(tmp_path / "to", log_dirs=source, keep_offsets=True, resume=str(state))
    assert rows_of(tmp_path / "to") == expected
    assert not list((tmp_path / "to").glob("kstore.staged.*"))


def test_appended_with_new_offsets_is_all_or_nothing_and_once(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, count = restore_driver.encode, 0

    def encode(task: Any) -> Any:
        nonlocal count
        count += 1
        if count == 4:
            raise RuntimeError("this task fails for good")
        return original(task)

    state = str(tmp_path / "state.json")
    with monkeypatch.context() as patched:
        patched.setattr(restore_driver, "encode", encode)
        with pytest.raises(RuntimeError):
            restore(tmp_path / "to", log_dirs=source, resume=state)
    assert rows_of(tmp_path / "to") == [[], []]
    assert not list((tmp_path / "to").glob("kstore.staged.*"))
    restore(tmp_path / "to", log_dirs=source, resume=state)
    once = rows_of(tmp_path / "to")
    assert [len(each) for each in once] == [len(each) for each in rows_of(source)]
    Path(state).unlink()  # as if the driver died before it could note
    restore(tmp_path / "to", log_dirs=source, resume=state)
    assert rows_of(tmp_path / "to") == once


def grow(source: Path, count: int, topic: str = "orders", partitions: int = 2) -> None:
    with kstore.open(source, config=QUIET) as store:
        store.create_topic(topic, partitions, exist_ok=True)
        for n in range(count):
            store[topic][n % partitions].append(b"more %d" % n, timestamp=WHEN)


def values(log_dir: Path, topic: str = "orders") -> list[list[bytes | None]]:
    return [[row[3] for row in each] for each in rows_of(log_dir, topic)]


def test_new_records_of_a_growing_source_are_restored_once(source: Path, tmp_path: Path) -> None:
    """With the same file to resume from: new records, new partitions."""
    to, state = tmp_path / "to", str(tmp_path / "state.json")
    restore(to, log_dirs=source, resume=state)
    grow(source, 10)
    grow(source, 6, "clicks", 1)
    reports = restore(to, log_dirs=source, resume=state)
    assert values(to) == values(source)
    assert values(to, "clicks") == values(source, "clicks")
    assert [each.records for each in reports] == [6, *map(len, rows_of(source))]
    assert all(each.done for each in reports)
    restore(to, log_dirs=source, resume=state)
    assert values(to) == values(source)


@pytest.mark.parametrize("keep_offsets", [False, True])
def test_a_topic_that_was_deleted_since_is_restored_again(
    source: Path, tmp_path: Path, keep_offsets: bool
) -> None:
    to, state = tmp_path / "to", str(tmp_path / "state.json")
    restore(to, log_dirs=source, resume=state, keep_offsets=keep_offsets)
    once = rows_of(to)
    with kstore.open(to, config=QUIET) as store:
        store.delete_topic("orders")
    for _ in range(2):
        restore(to, log_dirs=source, resume=state, keep_offsets=keep_offsets)
        assert rows_of(to) == once


def test_a_topic_without_an_id_that_was_deleted_since_is_restored_again(
    source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its creation stamp is kept; an id that an upgraded broker gives it changes nothing."""
    to, state = tmp_path / "to", str(tmp_path / "state.json")
    for partition in range(2):
        make_kafkas_partition(to, "orders", partition)
    restore(to, log_dirs=source, resume=state)
    restored = rows_of(to)
    for partition in range(2):
        metadata = to / f"orders-{partition}" / "partition.metadata"
        metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    restore(to, log_dirs=source, resume=state)
    assert rows_of(to) == restored
    with kstore.open(to, config=QUIET) as store:
        store.delete_topic("orders", foreign=True)
    for partition in range(2):
        make_kafkas_partition(to, "orders", partition)
    restore(to, log_dirs=source, resume=state)
    assert rows_of(to) == restored
    assert "was deleted since it was restored: restoring it again from orders-0" in caplog.text


def test_other_records_under_the_same_path_are_restored(source: Path, tmp_path: Path) -> None:
    """The file to resume from was removed, and as many offsets are to be restored once more."""
    to, state, other = tmp_path / "to", tmp_path / "state.json", tmp_path / "other"
    with kstore.open(source, "r") as store, kstore.open(other, config=QUIET) as copy:
        copies = copy.create_topic("orders", 2)
        for log in store["orders"]:
            copies[log.partition].extend([b"other"] * log.last_stable_offset)
    restore(to, log_dirs=source, resume=str(state))
    once = rows_of(to)
    state.unlink()
    restore(to, log_dirs=source, resume=str(state))  # never twice
    assert rows_of(to) == once
    state.unlink()
    restore(to, log_dirs=other, resume=str(state))
    for before, now, more in zip(once, rows_of(to), rows_of(other), strict=True):
        assert now[: len(before)] == before
        assert [row[3] for row in now[len(before) :]] == [row[3] for row in more]


@pytest.mark.parametrize("published", [False, True])
def test_a_source_that_grows_while_the_driver_is_dead(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, published: bool
) -> None:
    """It died just before or just after everything showed, and had noted nothing of that."""
    to, state = tmp_path / "to", tmp_path / "state.json"
    original = restore_driver.publish

    def publish(*arguments: Any, **named: Any) -> bool:
        if published:
            original(*arguments, **named)
        raise Dead

    with monkeypatch.context() as patched:
        patched.setattr(restore_driver, "publish", publish)
        with pytest.raises(Dead):
            restore(to, log_dirs=source, resume=str(state))
    assert (sum(map(len, rows_of(to))) > 0) is published
    grow(source, 10)
    restore(to, log_dirs=source, resume=str(state))
    assert values(to) == values(source)


def test_records_of_others_are_not_taken_for_its_own(source: Path, tmp_path: Path) -> None:
    """A file to resume from that knows nothing of them makes no difference."""
    to = tmp_path / "to"
    grow(to, 40)
    with pytest.raises(InvalidConfigError, match="must be empty"):
        restore(to, log_dirs=source, keep_offsets=True, resume=str(tmp_path / "state.json"))
    assert list(map(len, rows_of(to))) == [20, 20]


def test_killed_before_anything_was_noted(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was begun stands in the file before the first record does in the log."""
    state = tmp_path / "state.json"
    kept: list[bytes] = []
    original = restore_driver.append_staged

    def append(*arguments: Any) -> None:
        kept.append(state.read_bytes())
        original(*arguments)

    monkeypatch.setattr(restore_driver, "append_staged", append)
    restore(tmp_path / "to", log_dirs=source, keep_offsets=True, resume=str(state))
    state.write_bytes(kept[0])
    reports = restore(tmp_path / "to", log_dirs=source, keep_offsets=True, resume=str(state))
    assert rows_of(tmp_path / "to") == rows_of(source)
    assert all(each.done for each in reports)


def test_a_failed_job_leaves_nothing_staged(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise InvalidRecordError("never")

    monkeypatch.setattr(restore_driver, "append_staged", fail)
    with pytest.raises(InvalidRecordError):
        restore(tmp_path / "to", log_dirs=source, keep_offsets=True)
    assert not list((tmp_path / "to").glob("kstore.staged.*"))


def test_times_beyond_those_of_spark(tmp_path: Path) -> None:
    times = [2**62, 0, WHEN * 1_000_000, -1]
    with kstore.open(tmp_path / "source", config=QUIET) as store:
        log = store.create_topic("orders")[0]
        log.append_as_follower(
            batch([PlainRecord(n, time, None, b"%d" % n) for n, time in enumerate(times)])
        )
    restore(tmp_path / "to", log_dirs=tmp_path / "source", keep_offsets=True)
    assert [row[1] for row in rows_of(tmp_path / "to")[0]] == times
    chosen = Filter(since=WHEN, until=2**62)
    restore(tmp_path / "some", log_dirs=tmp_path / "source", keep_offsets=True, chosen=chosen)
    assert [row[1] for row in rows_of(tmp_path / "some")[0]] == [WHEN * 1_000_000]


def test_two_topics_cannot_keep_their_offsets_in_one(source: Path, tmp_path: Path) -> None:
    grow(source, 10, "clicks")
    one = {"clicks": "orders"}
    with pytest.raises(InvalidConfigError, match="clicks and orders would both become orders"):
        restore(tmp_path / "to", log_dirs=source, keep_offsets=True, rename=one)
    restore(tmp_path / "new", log_dirs=source, rename=one)
    assert sum(map(len, rows_of(tmp_path / "new"))) == sum(map(len, rows_of(source))) + 10


@pytest.mark.parametrize(
    ("partitions", "offsets", "reason"),
    [
        ([-1], [0], "partition -1"),
        ([1 << 20], [0], "partition 1048576"),
        ([0], [-5], "offset from -5"),
        ([0], [2**63 - 1], "offset from"),
        ([0, 0], [1, None], "no partition or no offset"),
        ([0, None], [1, 2], "no partition or no offset"),
        ([0.5], [1], "not an integer"),
    ],
)
def test_parquet_that_no_log_can_have(
    tmp_path: Path, partitions: list[Any], offsets: list[Any], reason: str
) -> None:
    rows = len(offsets)
    table = pa.table({"partition": partitions, "offset": offsets, "value": [b"v"] * rows})
    (tmp_path / "topic=a").mkdir()
    pq.write_table(table, tmp_path / "topic=a" / "x.parquet")
    with pytest.raises(InvalidRecordError, match=reason):
        restore(tmp_path / "to", parquet=str(tmp_path / "topic=a"), keep_offsets=True)


def test_a_dry_run_omits_finished_chunks(source: Path, tmp_path: Path, capsys: Any) -> None:
    to, state = str(tmp_path / "to"), str(tmp_path / "state.json")
    words = ["spark", "restore", "--dry-run", "--from", str(source), "--log-dir", to]
    for more in ([], ["--keep-offsets"]):
        target = f"{to}{len(more)}"
        options = [*words[:-1], target, "--resume", f"{state}{len(more)}", *more]
        assert main(options) == 0
        assert "would restore 2 partitions" in capsys.readouterr().out
        keep = bool(more)
        restore(Path(target), log_dirs=source, resume=options[-1 - keep], keep_offsets=keep)
        assert main(options) == 0
        assert "0 tasks would restore 0 partitions" in capsys.readouterr().out


def test_invalid_arguments_of_a_restore_are_errors(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match="one source"):
        restore(tmp_path / "to")
    with pytest.raises(InvalidConfigError, match="one target"):
        job.restore(None, log_dirs=source)
    with pytest.raises(InvalidConfigError, match="cannot be kept"):
        job.restore(
            None,
            log_dirs=source,
            bootstrap_server="x:1",
            keep_offsets=True,
        )
    with pytest.raises(InvalidConfigError, match="not a regular expression"):
        restore(tmp_path / "to", log_dirs=source, chosen=Filter(key_pattern="("))
    with pytest.raises(InvalidConfigError, match="none of the topics"):
        restore(tmp_path / "to", log_dirs=source, partitions=[7])
    with kstore.open(tmp_path / "to", config=QUIET) as store:
        store.create_topic("orders", 1)
    with pytest.raises(InvalidConfigError, match="has 1 partition, but 2"):
        restore(tmp_path / "to", log_dirs=source)


def test_the_command_takes_a_cluster_s_address(source: Path, capsys: Any) -> None:
    """Other tools say that there is no server here, and so do other jobs."""
    words = ["--from", str(source), "--bootstrap-server", "127.0.0.1:9", "--dry-run"]
    assert main(["spark", "restore", *words]) == 0
    assert "would restore 2 partitions" in capsys.readouterr().out
    assert main(["spark", "verify", "--bootstrap-server", "127.0.0.1:9"]) == 1
    assert "there is no server here" in capsys.readouterr().err
    assert main(["--help"]) == 0
    assert re.search(r"spark +jobs over complete stores", capsys.readouterr().out)


@pytest.mark.parametrize("keep_offsets", [True, False])
@pytest.mark.parametrize("name", ["segment.bytes", "max.message.bytes"])
def test_a_restore_makes_batches_that_the_topic_takes(
    tmp_path: Path, name: str, keep_offsets: bool
) -> None:
    """Values that do not compress grow by it; only a record that cannot fit is refused."""
    chance = random.Random(3)
    values = [chance.randbytes(957) for _ in range(40)]  # two of them fill a batch
    with kstore.open(tmp_path / "from", config=QUIET) as store:
        store.create_topic("orders")[0].extend(values)
        store.create_topic("large")[0].extend([b"a", chance.randbytes(3000)])
    limits = kstore.LogConfig.from_properties({name: 2000})
    with kstore.open(tmp_path / "to", config=QUIET) as store:
        for topic in ("orders", "large"):
            store.create_topic(topic, config=limits)
    given = {"log_dirs": tmp_path / "from", "compression": "gzip", "keep_offsets": keep_offsets}
    restore(tmp_path / "to", topic="orders", **given)
    with kstore.open(tmp_path / "to", "r") as store:
        assert [(r.offset, r.value) for r in store["orders"][0]] == list(enumerate(values))
    with pytest.raises(MessageTooLargeError, match=r"has 3\d{3} bytes, .* topic accepts 2000"):
        restore(tmp_path / "to", topic="large", **given)
