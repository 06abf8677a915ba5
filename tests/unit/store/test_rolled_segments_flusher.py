"""Rolled segments are synced in the background, and the recovery points follow."""

import errno
import gc
import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig, StoreConfig
from kstore.errors import BackgroundFailure, LogFailedError, StorageError
from kstore.files.files import Files
from kstore.store.rolled_segments_flusher import RolledSegmentsFlusher
from kstore.store.store import Store
from support.stores import MARKER, QUIET, copy_as_killed, drop, scanned

CONFIG = LogConfig(segment_bytes=1000, segment_index_bytes=4096)
RECORD = bytes(300)


class Refusing(Files):
    """A disk without room for what it syncs, from a moment on."""

    failing = False

    def fdatasync(self, fd: int) -> None:
        if self.failing:
            raise StorageError("cannot sync", errno=errno.ENOSPC)
        super().fdatasync(fd)


class Slow(Files):
    """A disk whose syncs of log files wait for an event."""

    def __init__(self) -> None:
        self.may_sync = threading.Event()
        self.is_syncing = threading.Event()

    def sync_all(
        self, fds: Sequence[int], directories: Collection[str] = (), *, only_data: bool = False
    ) -> None:
        if threading.current_thread().name == RolledSegmentsFlusher.NAME:
            self.is_syncing.set()
            assert self.may_sync.wait(60)
        super().sync_all(fds, directories, only_data=only_data)


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, "nothing happened for a minute"
        threading.Event().wait(0.005)


def is_running() -> bool:
    return any(thread.name == RolledSegmentsFlusher.NAME for thread in threading.enumerate())


def checkpointed(path: Path) -> str:
    return (path / "recovery-point-offset-checkpoint").read_text()


def test_the_recovery_point_follows_a_roll_in_memory_and_in_the_checkpoint(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        log = store.create_topic("t", config=CONFIG)[0]
        log.append(RECORD)
        assert not is_running()  # no thread before the first roll
        for _ in range(7):
            log.append(RECORD)
        active = log.segments.views[-1].base_offset
        assert active > 0
        wait_until(lambda: log.recovery_point == active)
        checkpoint = tmp_path / "recovery-point-offset-checkpoint"
        wait_until(lambda: checkpoint.exists() and f"t 0 {active}\n" in checkpoint.read_text())
        assert store.background_failures == ()
    assert not is_running()


def test_after_a_kill_only_what_was_not_synced_is_read(tmp_path: Path) -> None:
    with kstore.open(tmp_path / "live") as store:
        log = store.create_topic("t", config=CONFIG)[0]
        for _ in range(20):
            log.append(RECORD)
        active = log.segments.views[-1].base_offset
        checkpoint = tmp_path / "live/recovery-point-offset-checkpoint"
        wait_until(lambda: checkpoint.exists() and f"t 0 {active}\n" in checkpoint.read_text())
        copy_as_killed(tmp_path / "live", tmp_path / "killed")
    with kstore.open(tmp_path / "killed", config=QUIET) as store:
        log = store["t"][0]
        assert log.end_offset == 20
        assert scanned(log) == 1


def test_without_background_work_no_thread_starts(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t", config=CONFIG)[0]
        for _ in range(8):
            log.append(RECORD)
        assert not is_running()
        assert log.recovery_point == 0


def test_nothing_is_claimed_and_appends_continue_while_the_disk_syncs(tmp_path: Path) -> None:
    files = Slow()
    with Store(tmp_path, files=files) as store:
        log = store.create_topic("t", config=CONFIG)[0]
        for _ in range(5):
            log.append(RECORD)
        assert files.is_syncing.wait(60)
        for _ in range(5):  # rolls, too
            log.append(RECORD)
        store.checkpoint()
        assert log.recovery_point == 0
        assert "t 0 0\n" in checkpointed(tmp_path)
        files.may_sync.set()
        active = log.segments.views[-1].base_offset
        wait_until(lambda: log.recovery_point == active)  # of the rolls during the sync, too


def test_a_failed_sync_makes_the_log_read_only_and_is_reported(tmp_path: Path) -> None:
    files, seen = Refusing(), list[BackgroundFailure]()
    is_reported = threading.Event()

    def note(failure: BackgroundFailure) -> None:
        seen.append(failure)
        is_reported.set()

    store = Store(tmp_path, config=StoreConfig(on_background_error=note), files=files)
    log = store.create_topic("t", config=CONFIG)[0]
    other = store.create_topic("other", config=CONFIG)[0]
    log.append(RECORD)
    files.failing = True
    log.roll()
    assert is_reported.wait(60)
    files.failing = False
    (failure,) = seen
    assert (failure.work, failure.topic, failure.partition) == ("rolled segments", "t", 0)
    assert store.background_failures == (failure,)
    with pytest.raises(LogFailedError):
        log.append(RECORD)
    assert log[0].value == RECORD
    assert log.recovery_point == 0
    for _ in range(8):
        other.append(RECORD)
    wait_until(lambda: other.recovery_point == other.segments.views[-1].base_offset)
    assert store.background_failures == (failure,)
    store.close()
    assert not (tmp_path / MARKER).exists()
    with kstore.open(tmp_path, config=QUIET) as store:
        assert store["t"][0].end_offset == 1


def test_close_waits_for_the_sync_that_runs_and_is_clean(tmp_path: Path) -> None:
    files = Slow()
    store = Store(tmp_path, files=files)
    log = store.create_topic("t", config=CONFIG)[0]
    for _ in range(5):
        log.append(RECORD)
    assert files.is_syncing.wait(60)
    closing = threading.Thread(target=store.close)
    closing.start()
    assert closing.is_alive()
    files.may_sync.set()
    closing.join(60)
    assert not closing.is_alive()
    assert not is_running()
    assert (tmp_path / MARKER).exists()
    with kstore.open(tmp_path, config=QUIET) as store:
        assert not store.recovery.unclean
        assert store["t"][0].end_offset == 5


def test_a_topic_deleted_during_the_sync_leaves_no_failure(tmp_path: Path) -> None:
    files = Slow()
    with Store(tmp_path, files=files) as store:
        log = store.create_topic("t", config=CONFIG)[0]
        other = store.create_topic("other", config=CONFIG)[0]
        for _ in range(5):
            other.append(RECORD)
        assert files.is_syncing.wait(60)
        for _ in range(5):
            log.append(RECORD)  # waits behind the other log
        store.delete_topic("t")
        files.may_sync.set()
        wait_until(lambda: other.recovery_point > 0)
        wait_until(lambda: not store._manager.rolled._waiting)
        assert store.background_failures == ()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_store_that_is_dropped_ends_its_thread(tmp_path: Path) -> None:
    kept: list[object] = [kstore.open(tmp_path)]
    roll_some(kept[0])
    wait_until(is_running)
    drop(kept)
    wait_until(lambda: gc.collect() >= 0 and not is_running())


def roll_some(store: object) -> None:
    assert isinstance(store, Store)
    log = store.create_topic("t", config=CONFIG)[0]
    for _ in range(5):
        log.append(RECORD)


def test_many_rolls_share_syncs_and_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Slow()
    with Store(tmp_path, files=files) as store:
        checkpoints = []
        written = store._manager.checkpoints
        write = written.write
        monkeypatch.setattr(written, "write", lambda: (checkpoints.append(1), write()))
        logs = list(store.create_topic("t", 20, config=CONFIG))
        for log in logs:
            for _ in range(12):
                log.append(RECORD)
        files.may_sync.set()
        wait_until(lambda: all(log.recovery_point > 0 for log in logs))
        assert os.path.exists(tmp_path / "t-19")
        assert len(checkpoints) <= 3
