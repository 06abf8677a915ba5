"""Stores of many partitions, and what they do in the background."""

import errno
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig, Store, StoreConfig
from kstore.errors import (
    BackgroundFailure,
    LogDirOfflineError,
    StorageError,
    TooManyOpenFilesError,
    UnknownTopicOrPartitionError,
)
from support.stores import MARKER, QUIET, Broken, drop, python

# --- many partitions, few descriptors ----------------------------------------------------------


@pytest.fixture
def few_descriptors() -> Iterator[int]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 60, hard))
    yield 60
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_descriptors")
def test_idle_logs_give_their_files_back(tmp_path: Path) -> None:
    config = StoreConfig(max_open_logs=8, max_mapped_segments=8, background=False)
    with kstore.open(tmp_path, config=config) as store:
        topic = store.create_topic("t", 100, config=LogConfig(segment_index_bytes=4096))
        logs = list(topic)
        for round_ in range(2):
            for number, log in enumerate(logs):
                assert log.append(b"%d" % number) == round_
        for number, log in enumerate(logs):
            assert [record.value for record in log] == [b"%d" % number] * 2
        assert len(store._logs._awake) <= 8
    with kstore.open(tmp_path, "r", config=config) as store:
        for number, log in enumerate(store["t"]):
            assert log[1].value == b"%d" % number
        assert set(store.end_offsets().values()) == {2}


@pytest.mark.parametrize(
    ("limit", "logs"), [(64, 10), (256, 42), (512, 128), (896, 256), (1024, 256), (1 << 20, 256)]
)
def test_the_default_of_open_logs_leaves_descriptors_to_others(
    monkeypatch: pytest.MonkeyPatch, limit: int, logs: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))
    assert StoreConfig().max_open_logs == logs
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY,) * 2)
    assert StoreConfig().max_open_logs == 256


def test_the_default_of_open_logs_works_and_closes_with_256_descriptors(tmp_path: Path) -> None:
    code = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
import kstore
with kstore.open(sys.argv[1]) as store:
    topic = store.create_topic("t", 300, config=kstore.LogConfig(segment_index_bytes=4096))
    for log in topic:
        log.append(b"value")
print("closed")
"""
    assert python(code, tmp_path) == "closed\n"
    assert (tmp_path / MARKER).exists()


@pytest.mark.usefixtures("few_descriptors")
def test_without_descriptors_an_append_says_which_limit_to_raise_and_close_finishes(
    tmp_path: Path,
) -> None:
    config = StoreConfig(max_open_logs=1000, background=False)
    store = kstore.open(tmp_path, config=config)
    topic = store.create_topic("t", 100, config=LogConfig(segment_index_bytes=4096))
    done = 0
    refusal = None
    for log in topic:
        try:
            log.append(b"value")
        except TooManyOpenFilesError as error:
            refusal = error
            break
        done += 1
    assert refusal is not None
    assert refusal.errno == errno.EMFILE
    assert "raise its limit (`ulimit -n`" in str(refusal)
    assert "max_open_logs" in str(refusal)
    assert done > 5
    store.close()
    assert (tmp_path / MARKER).exists()
    with kstore.open(tmp_path, config=QUIET) as store:
        assert not store.recovery.unclean
        assert sum(log.end_offset for log in store["t"]) == done


@pytest.mark.usefixtures("few_descriptors")
def test_a_close_after_many_rolls_needs_few_descriptors(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t", config=LogConfig(segment_index_bytes=4096))[0]
        for _ in range(200):
            log.append(b"value")
            log.roll()
    assert (tmp_path / MARKER).exists()


@pytest.mark.usefixtures("few_descriptors")
def test_parking_continues_while_threads_append(tmp_path: Path) -> None:
    config = StoreConfig(max_open_logs=4, max_mapped_segments=8, background=False)
    errors: list[BaseException] = []
    with kstore.open(tmp_path, config=config) as store:
        logs = list(store.create_topic("t", 24, config=LogConfig(segment_index_bytes=4096)))

        def work(start: int) -> None:
            try:
                for number in range(200):
                    logs[(start + number * 7) % len(logs)].append(b"x")
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(n * 5,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert errors == []
        assert sum(log.end_offset for log in logs) == 800


def test_end_offsets_keep_no_file_open(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        for number, log in enumerate(store.create_topic("t", 50)):
            log.extend([b"x"] * number)
    with kstore.open(tmp_path, config=QUIET) as store:
        before = len(os.listdir("/proc/self/fd"))
        ends = store.end_offsets()
        assert len(os.listdir("/proc/self/fd")) == before
        assert {tp.partition: end for tp, end in ends.items()} == {n: n for n in range(50)}
        assert store["t"].end_offsets() == {n: n for n in range(50)}
        with pytest.raises(UnknownTopicOrPartitionError):
            store.end_offsets("u")


# --- background work ----------------------------------------------------------------------------


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def upkeep_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "kstore-upkeep"]


def test_flush_ms_and_retention_work_in_the_background(tmp_path: Path) -> None:
    config = StoreConfig(retention_check_interval_ms=10)
    settings = LogConfig(flush_ms=5, retention_bytes=500, segment_bytes=300)
    assert upkeep_threads() == []
    with kstore.open(tmp_path, config=config) as store:
        log = store.create_topic("t", config=settings)[0]
        assert len(upkeep_threads()) == 1
        for _ in range(20):
            log.append(b"x" * 100)
        wait_until(lambda: log.start_offset > 0)
        wait_until(lambda: log.recovery_point == 20)
    assert upkeep_threads() == []


def test_background_work_can_be_off(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("t", config=LogConfig(flush_ms=1)).append(b"x")
        assert upkeep_threads() == []


def test_background_errors_go_to_their_callback_and_to_no_caller(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = Broken()
    seen: list[BackgroundFailure] = []
    listed: list[tuple[BackgroundFailure, ...]] = []  # then: a later attempt may end the failure
    reported = threading.Event()

    def on_error(failure: BackgroundFailure) -> None:
        seen.append(failure)
        listed.append(store.background_failures)
        reported.set()
        raise RuntimeError("a callback that fails")

    store = Store(tmp_path, files=files, config=StoreConfig(on_background_error=on_error))
    topic = store.create_topic("t", config=LogConfig(flush_ms=1))
    files.failing = True
    topic.append(b"x")
    assert reported.wait(30)
    assert store.end_offsets() == {("t", 0): 1}
    (failure,) = seen
    assert (failure.work, failure.topic, failure.partition) == ("flush", "t", 0)
    assert isinstance(failure.error, StorageError)
    assert listed == [(failure,)]
    assert "flush of t-0 failed in the background" in caplog.text
    wait_until(lambda: "on_background_error failed" in caplog.text)
    with pytest.raises(StorageError):
        topic[0].append(b"y")  # the log itself stays read-only
    with pytest.raises(LogDirOfflineError, match="t-0 from offset"):
        store.close()
    assert not (tmp_path / MARKER).exists()


def test_the_thread_does_not_keep_a_dropped_store(tmp_path: Path) -> None:
    kept = [kstore.open(tmp_path)]
    kept[0].create_topic("t", config=LogConfig(flush_ms=60_000)).append(b"x")
    with pytest.warns(ResourceWarning):
        drop(kept)
    wait_until(lambda: upkeep_threads() == [])
    assert not (tmp_path / MARKER).exists()


def test_checkpoints_are_written_meanwhile(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t")[0]
        for _ in range(10):
            log.append(b"x")
        log.flush()
        store.checkpoint()
        assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 10\n"
        log.truncate_to(4)
        assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 4\n"
