"""What shows of a publication, at every moment and after every death; without a Spark session."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kstore
from kstore.errors import (
    CorruptRecordError,
    InvalidConfigError,
    InvalidTimestampError,
    KStoreError,
    MessageTooLargeError,
    RecoveryNeededError,
    StorageError,
)
from kstore.files.files import Files
from kstore.spark.sink.commit import abort, publish, sweep
from kstore.spark.sink.options import parse_sink
from kstore.spark.sink.stager import stage
from kstore.spark.sink.write_identity import of_query
from support.publications import OLD, Watched, batch, create_store, ends, leftovers, options, staged

CHILD = """
import os, pickle, signal, sys
from kstore.files.files import Files
from kstore.spark.sink.commit import publish

class Deadly(Files):
    native = False
    steps = int(sys.argv[2])
    def _step(self):
        self.steps -= 1
        if self.steps == 0:
            os.kill(os.getpid(), signal.SIGKILL)
for name in ("write", "pwrite", "fdatasync", "fsync", "rename", "remove", "sync_directory"):
    def made(self, *arguments, _real=getattr(Files, name)):
        self._step()
        return _real(self, *arguments)
    setattr(Deadly, name, made)

with open(sys.argv[1], "rb") as file:
    arguments = pickle.load(file)
publish(*arguments, files=Deadly())
print("done")
"""


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return create_store(tmp_path / "store")


def test_rows_come_out_as_they_went_in(log_dir: Path) -> None:
    assert publish(options(log_dir), "job", staged(log_dir), None)
    with kstore.open(log_dir) as store:
        for number, log in enumerate(store["orders"]):
            got = [record.value for record in log]
            assert got == [b"before", *(b"value %d" % n for n in range(number, 900, 3))]
            assert {record.timestamp for record in log} == {OLD}
            assert log.verify().ok
            assert len(log.segments.views) > 1  # rolled on the way
    assert leftovers(log_dir) == []


def test_a_manifest_too_large_to_read_is_not_written(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kstore.store.atomic_publish.LARGEST_MANIFEST", 100)
    with pytest.raises(KStoreError, match="write it in several jobs"):
        publish(options(log_dir), "job", staged(log_dir), None)
    assert ends(log_dir) == [1, 1, 1]
    assert not any("publishing" in name or "fence" in name for name in leftovers(log_dir))


def test_readers_that_were_open_see_all_or_nothing(log_dir: Path) -> None:
    """At every step of the disk: a reader that looked before, and one that opens now."""
    messages = staged(log_dir)
    reader = kstore.open(log_dir, mode="r")
    logs = list(reader["orders"])
    seen: list[list[int]] = []
    switched = 0

    def look(step: str, path: str | None) -> None:
        nonlocal switched
        found = [log.end_offset for log in logs]
        assert ends(log_dir) == found
        assert [sum(1 for _ in log) for log in logs] == found
        assert len(set(found)) == 1, (step, path, found)
        seen.append(found)
        switched += found[0] > 1

    with reader:
        assert publish(options(log_dir), "job", messages, of_query("q", 0), files=Watched(look))
        assert [log.end_offset for log in logs] == [301, 301, 301]
    assert {tuple(each) for each in seen} == {(1, 1, 1), (301, 301, 301)}
    assert len(seen) > 20


def test_a_publication_that_fails_is_undone_at_once(log_dir: Path) -> None:
    """A full disk at any write: the error comes out, nothing shows, nothing is left but staged."""
    messages = staged(log_dir)
    count = 0

    def fail_at(number: int) -> Any:
        steps = 0

        def on_step(step: str, path: str | None) -> None:
            nonlocal steps
            if step in ("write", "fdatasync"):
                steps += 1
                if steps == number:
                    raise StorageError("planted: the disk is full", errno=28)

        return on_step

    for number in range(1, 60):
        try:
            publish(
                options(log_dir), "job", messages, of_query("q", 0), files=Watched(fail_at(number))
            )
        except (StorageError, OSError):
            with kstore.open(log_dir):  # what a failing disk left, the next writer undoes
                pass
            assert ends(log_dir) == [1, 1, 1], number
            names = leftovers(log_dir)
            assert not [n for n in names if n.startswith(("kstore.publ", "kstore.fence"))]
            messages = staged(log_dir)
            count += 1
            continue
        break
    assert count > 10
    assert ends(log_dir) == [301, 301, 301]


def test_killed_at_many_steps(log_dir: Path, tmp_path: Path) -> None:
    """kill -9 before, within and behind the switch: readers, the next writer, the same batch."""
    import pickle

    before = [1, 1, 1]
    shown, died, seen = False, 0, set()
    env = {**os.environ, "PYTHONPATH": str(Path(kstore.__file__).parents[1])}
    for step in (1, 3, 6, *range(9, 400, 8)):
        messages = staged(log_dir, job=f"job{step}")
        name = tmp_path / "arguments"
        name.write_bytes(
            pickle.dumps((options(log_dir), f"job{step}", messages, of_query("q", step)))
        )
        ran = subprocess.run(
            [sys.executable, "-c", CHILD, str(name), str(step)],
            env=env, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        now = ends(log_dir)  # a reader meets it first
        shown = now != before
        assert now in (before, [n + 300 for n in before]), (step, now)
        seen.add(shown)
        if step % 16 == 1:  # else the next writer is the one that publishes the batch again
            with kstore.open(log_dir) as store:
                assert list(store["orders"].end_offsets().values()) == now
                assert not [n for n in leftovers(log_dir) if n.startswith("kstore.publishing")]
        assert publish(
            options(log_dir), f"r{step}", staged(log_dir, job=f"r{step}"), of_query("q", step)
        ) == (not shown)
        assert ends(log_dir) == [n + 300 for n in before]
        before = [n + 300 for n in before]
        if ran.returncode == 0:
            break
        assert ran.returncode == -signal.SIGKILL, ran.stderr
        died += 1
    assert ran.returncode == 0
    assert died > 10
    assert seen == {True, False}
    with kstore.open(log_dir) as store:
        assert all(log.verify().ok for log in store["orders"])
        values = [record.value for record in store["orders"][0]]
    assert values.count(b"value 0") == len(values) // 300
    assert not [
        n for n in leftovers(log_dir) if n.startswith(("kstore.publishing", "kstore.fence"))
    ]


def test_a_batch_is_published_once(log_dir: Path) -> None:
    assert publish(options(log_dir), "a", staged(log_dir, "a"), of_query("q", 4))
    assert not publish(options(log_dir), "b", staged(log_dir, "b"), of_query("q", 4))
    assert not publish(options(log_dir), "c", staged(log_dir, "c"), of_query("q", 3))
    assert publish(options(log_dir), "d", staged(log_dir, "d"), of_query("q", 5))
    assert publish(options(log_dir), "e", staged(log_dir, "e"), of_query("other", 4))
    assert ends(log_dir) == [901] * 3
    assert leftovers(log_dir) == ["kstore.published.other", "kstore.published.q"]
    document = json.loads((log_dir / "kstore.published.q").read_text())
    assert document["id"] == "q"
    assert document["batch"] == 5
    assert [each["base_offset"] for each in document["partitions"]] == [301] * 3


def test_records_that_another_program_appended_behind_are_never_cut(log_dir: Path) -> None:
    messages = staged(log_dir)

    def stop(step: str, path: str | None) -> None:
        if step == "rename" and path is not None and "kstore.published" in path:
            raise KeyboardInterrupt

    class Undoable(Watched):
        def truncate(self, fd: int, size: int) -> None:
            raise StorageError("planted")

    manifest = log_dir / "kstore.publishing.job"
    kept: dict[str, bytes] = {}

    def keep(step: str, path: str | None) -> None:
        if step == "rename" and path is not None and "kstore.published" in path:
            fences = log_dir.rglob("kstore.fence")
            for each in (manifest, *log_dir.glob("kstore.staged.*"), *fences):
                kept[str(each)] = each.read_bytes()

    assert publish(options(log_dir), "job", messages, of_query("q", 0), files=Watched(keep))
    for name, data in kept.items():  # as it was just before the switch
        Path(name).write_bytes(data)
    # a broker, which knows nothing of fences, appends to one partition
    from kstore.files.filenames import FENCE

    (log_dir / "orders-0" / FENCE).unlink()
    manifest.rename(log_dir / "aside")
    with kstore.open(log_dir) as store:
        store["orders"][0].append(b"the broker's")
    (log_dir / "aside").rename(manifest)
    for name, data in kept.items():
        Path(name).write_bytes(data)
    assert ends(log_dir) == [1, 1, 1]
    with kstore.open(log_dir) as store:
        assert [log.end_offset for log in store["orders"]] == [302, 1, 1]
        assert store["orders"][0][301].value == b"the broker's"


@pytest.mark.parametrize("alone", [False, True])
def test_staged_bytes_that_changed_are_refused(log_dir: Path, alone: bool) -> None:
    message = "the checksum does not match" if alone else "run the job again"
    for job, change in (("flipped", _flip), ("cut", lambda data: data[:100])):
        messages = staged(log_dir, job)
        shared, *own = sorted(log_dir.glob(f"kstore.staged.{job}.*"))
        path = own[1] if alone else shared
        path.write_bytes(change(path.read_bytes()))
        with pytest.raises(CorruptRecordError, match="truncated" if job == "cut" else message):
            publish(options(log_dir), job, messages, None)
        assert ends(log_dir) == [1, 1, 1]


def _flip(data: bytes) -> bytes:
    return data[:100] + bytes([data[100] ^ 1]) + data[101:]  # among a batch's records


def test_a_job_without_all_its_tasks_is_refused(log_dir: Path) -> None:
    one = staged(log_dir)[0]
    assert one is not None
    for messages in ([one, None], [one, one]):
        with pytest.raises(InvalidConfigError, match="the job is incomplete"):
            publish(options(log_dir), "job", messages, None)
    assert ends(log_dir) == [1, 1, 1]


def test_abort_before_the_last_task_and_after_a_publish(log_dir: Path) -> None:
    messages = staged(log_dir)
    staged(log_dir, job="other")
    abort(options(log_dir), "job")
    assert {name.split(".")[2] for name in leftovers(log_dir)} == {"other"}
    late = staged(log_dir)  # its task had not ended
    assert publish(options(log_dir), "other", staged(log_dir, job="other"), of_query("q", 0))
    abort(options(log_dir), "other")
    assert ends(log_dir) == [301] * 3
    path = log_dir / next(each.file for each in late if each is not None)
    assert path.exists()
    sweep(options(log_dir))
    assert path.exists()
    week = time.time() - 8 * 86_400
    for each in log_dir.glob("kstore.staged.*"):
        os.utime(each, (week, week))
    sweep(options(log_dir))
    assert not list(log_dir.glob("kstore.staged.*"))
    with pytest.raises(
        StorageError, match=f"on host {socket.gethostname()}.*nothing was published"
    ):
        publish(options(log_dir), "job", messages, None)
    assert ends(log_dir) == [301] * 3


def test_a_record_that_the_topic_refuses_is_refused_in_the_task(log_dir: Path) -> None:
    with kstore.open(log_dir) as store:
        store.create_topic("compacted", config=kstore.LogConfig(cleanup_policy="compact"))
        store.create_topic("small", config=kstore.LogConfig(max_message_bytes=300))
        store.create_topic(
            "young", config=kstore.LogConfig(message_timestamp_before_max_ms=86_400_000)
        )
    rows = batch(3, partition=pa.array([0, 0, 0], pa.int32()))
    for topic, error in (
        ("compacted", kstore.errors.InvalidRecordError),
        ("young", InvalidTimestampError),
    ):
        with pytest.raises(error):
            stage(options(log_dir, topic=topic), "job", [rows])
    large = batch(1, value=[b"x" * 1000], partition=pa.array([0], pa.int32()))
    with pytest.raises(MessageTooLargeError, match=r"max\.message\.bytes"):
        stage(options(log_dir, topic="small"), "job", [large])
    with pytest.raises(kstore.errors.UnknownTopicOrPartitionError, match="no partition 7"):
        stage(options(log_dir), "job", [batch(1, partition=pa.array([7], pa.int32()))])
    assert leftovers(log_dir) == []


def test_log_append_time_is_stamped_at_the_commit(log_dir: Path) -> None:
    with kstore.open(log_dir) as store:
        store.create_topic(
            "stamped", config=kstore.LogConfig(message_timestamp_type="LogAppendTime")
        )
    rows = batch(30, partition=pa.array([0] * 30, pa.int32()))
    given = options(log_dir, topic="stamped", compression="zstd")
    now = time.time_ns() // 1_000_000
    assert publish(given, "job", [stage(given, "job", [rows])], None)
    with kstore.open(log_dir) as store:
        log = store["stamped"][0]
        assert log.verify().ok
        assert {record.timestamp for record in log}.pop() >= now
        assert len(list(log)) == 30


def test_one_of_several_published_directories_is_not_read_alone(tmp_path: Path) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    with kstore.open(paths) as store:
        store.create_topic("orders", 2)
    given = parse_sink({"paths": json.dumps([str(path) for path in paths]), "topic": "orders"})
    rows = batch(10, partition=pa.array([n % 2 for n in range(10)], pa.int32()))
    kept: dict[Path, bytes] = {}

    def keep(step: str, path: str | None) -> None:
        if step == "rename" and path is not None and "kstore.published" in path:
            for each in (*tmp_path.rglob("kstore.*"),):
                kept[each] = each.read_bytes()

    messages = [stage(given, "job", [rows])]
    assert publish(given, "job", messages, of_query("q", 0), files=Watched(keep))
    for path, data in kept.items():
        path.write_bytes(data)
    with kstore.open(paths[1]) as alone, pytest.raises(RecoveryNeededError, match="one"):
        list(alone["orders"])
    with kstore.open(paths[1], mode="r") as alone:
        assert [log.end_offset for log in alone["orders"] if log.partition in (0, 1)] == [0]
    with kstore.open(paths) as store:
        assert [log.end_offset for log in store["orders"]] == [0, 0]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    from kstore.spark.source import range_reader

    while range_reader._open_stores:
        range_reader._open_stores.popitem()[1].close()


def test_a_failed_clean_up_does_not_fail_a_publication(
    log_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Kept(Files):
        native = False

        def remove(self, path: Any) -> None:
            if "kstore.fence" in str(path) or "kstore.staged" in str(path):
                raise StorageError("planted", errno=errno.EIO, path=path)
            super().remove(path)

    assert publish(options(log_dir), "job", staged(log_dir), of_query("q", 0), files=Kept())
    assert "a file of a finished publication could not be removed: planted" in caplog.text
    assert ends(log_dir) == [301, 301, 301]
    assert not publish(options(log_dir), "again", staged(log_dir, "again"), of_query("q", 0))
    assert ends(log_dir) == [301, 301, 301]
    with kstore.open(log_dir) as store:
        assert [log.append(b"after") for log in store["orders"]] == [301, 301, 301]
    assert not any("kstore.fence" in name for name in leftovers(log_dir))
