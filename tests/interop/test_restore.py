"""A restore judged by brokers: they serve the directory it made, and take what it sends."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from interop.dump import dump_log
from interop.node import Node
from support.stores import QUIET
from support.transactions import WHEN, TransactionWriter

COUNT = 60


def run_here(spark: Any, tasks: Any, work: Any, description: str) -> Iterator[Any]:
    for number, task in enumerate(tasks):
        yield number, work(task)


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The job with its tasks done here: Spark is tests/spark's matter."""
    from kstore.spark.jobs import restore, restore_driver, restore_plan

    monkeypatch.setattr(restore_driver, "run_tasks", run_here)
    monkeypatch.setattr(restore, "check_executors", lambda *_: None)
    monkeypatch.setattr(restore_plan, "_CHUNK", 3000)
    return restore


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    with kstore.open(path, config=QUIET) as store:
        topic = store.create_topic("orders", 2, config=kstore.LogConfig(segment_bytes=2500))
        for log in topic:
            teller = TransactionWriter(log)
            for n in range(COUNT):
                teller.data(9, 1)
                teller.end(9, commit=n % 4 > 0)
                log.append(
                    b"value %d" % n, key=b"key %d" % (n % 7),
                    headers=[("n", b"%d" % n), ("n", b"again")], timestamp=WHEN + n,
                )  # fmt: skip
    return path


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    with kstore.open(path, "r") as store:
        return [
            (
                log.partition, r.offset, r.timestamp, r.key.decode(), r.value.decode(),
                tuple((name, value.decode()) for name, value in r.headers),
            )
            for log in store["orders"]
            for r in log.view(isolation="read_committed")
        ]  # fmt: skip


def served(node: Node, count: int) -> list[tuple[Any, ...]]:
    found = node.consume("orders", count)
    return [(r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in found]


def test_a_broker_serves_a_restored_directory(
    kafka: str, tmp_path: Path, source: Path, job: Any
) -> None:
    expected = rows_of(source)
    node = Node(kafka, tmp_path)
    try:
        node.start()
        node.create_topic("orders", 2)
        node.stop()
        path = node.log_dir
        job.restore(None, path, log_dirs=source, keep_offsets=True, compression="zstd")
        dump = dump_log(kafka, sorted(path.glob("orders-*/*.log")), "--deep-iteration")
        assert all(batch.valid for file in dump.files.values() for batch in file.batches)
        node.start()
        node.produce("orders", [("key", "the broker's")])
        found = served(node, len(expected) + 1)
        node.stop()
    finally:
        node.kill()
    new = [row for row in found if row[4] == "the broker's"]
    assert len(new) == 1
    assert [row for row in found if row not in new] == expected


def test_a_broker_gets_all_records_in_order_also_after_a_kill(
    kafka: str, tmp_path: Path, source: Path, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order, to the same partitions; after a stop at least once, from what was noted on."""
    from kstore.spark.jobs.restore_driver import RestoreDriver

    expected = rows_of(source)
    state = str(tmp_path / "state.json")
    original, count = RestoreDriver._save_progress, 0

    class Dead(BaseException):
        pass

    def note(self: Any, *arguments: Any, **named: Any) -> None:
        nonlocal count
        count += 1
        if count == 3:
            raise Dead
        original(self, *arguments, **named)

    node = Node(kafka, tmp_path)
    try:
        node.start()
        node.create_topic("orders", 2)

        def send() -> Any:
            return job.restore(
                None, log_dirs=source, bootstrap_server=node.address, resume=state,
                compression="gzip",
            )  # fmt: skip

        with monkeypatch.context() as patched:
            patched.setattr(RestoreDriver, "_save_progress", note)
            with pytest.raises(Dead):
                send()
        reports = send()
        assert send() == reports
        found = served(node, len(expected) + 100)
        node.stop()
    finally:
        node.kill()
    assert len(expected) < len(found) < 2 * len(expected)
    for partition in range(2):
        there = [row[2:] for row in found if row[0] == partition]
        wanted = [row[2:] for row in expected if row[0] == partition]
        assert list(dict.fromkeys(there)) == wanted
        assert {row[1] for row in found if row[0] == partition} == set(range(len(there)))
