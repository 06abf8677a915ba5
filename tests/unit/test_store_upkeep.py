"""Stores of many partitions, and what they do in the background."""

import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig, Store, StoreConfig
from kstore.errors import LogDirOfflineError, StorageError, UnknownTopicOrPartitionError
from support.stores import MARKER, QUIET, Broken, drop

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
        assert store._logs.awake_count <= 8
    with kstore.open(tmp_path, "r", config=config) as store:
        for number, log in enumerate(store["t"]):
            assert log[1].value == b"%d" % number
        assert set(store.end_offsets().values()) == {2}


@pytest.mark.usefixtures("few_descriptors")
def test_parking_goes_on_while_threads_append(tmp_path: Path) -> None:
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
        assert {place.partition: end for place, end in ends.items()} == {n: n for n in range(50)}
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


def test_errors_of_the_background_surface_on_the_next_call(tmp_path: Path) -> None:
    files = Broken()
    store = Store(tmp_path, files=files)
    topic = store.create_topic("t", config=LogConfig(flush_ms=1))
    files.failing = True
    topic.append(b"x")
    wait_until(lambda: store._manager.upkeep_failed)
    with pytest.raises(StorageError):
        store.end_offsets()
    assert store.end_offsets() == {("t", 0): 1}  # told once
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
    assert (tmp_path / MARKER).exists()


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
