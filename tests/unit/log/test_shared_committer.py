"""Syncs that many partitions share, and what an append leaves to its caller."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstore import SharedCommitter
from kstore.errors import ClosedError, LogFailedError, StorageError
from kstore.files.files import Files
from kstore.log.writable_log import WritableLog
from oracle.plain import PlainRecord
from oracle.writer import batch, message
from support.logs import open_log


class WatchedDisk(Files):
    """Counts the syncs of log files, may hold them, and may let them fail."""

    def __init__(self) -> None:
        self.syncs = 0
        self.fails = False
        self.open_gate = threading.Event()
        self.open_gate.set()
        self.begun = threading.Semaphore(0)

    def fdatasync(self, fd: int) -> None:
        self.syncs += 1
        self.begun.release()
        self.open_gate.wait(60)
        if self.fails:
            raise StorageError("injected", errno=5)
        super().fdatasync(fd)


def sent(sequence: int = 0) -> bytes:
    row = PlainRecord(0, 1000, None, b"value")
    return batch([row], producer_id=7, producer_epoch=0, base_sequence=sequence)


def test_an_append_may_leave_the_flush_policy_to_the_caller(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_log(tmp_path, files=disk, flush_messages=1)
    disk.syncs = 0
    info = log.append_as_leader(sent(), flush=False)
    assert disk.syncs == 0
    assert log.recovery_point < info.sync_offset == 1
    log.flush()
    assert (disk.syncs, log.recovery_point) == (1, 1)
    log.append_as_leader(sent(1))
    assert (disk.syncs, log.recovery_point) == (2, 2)


def test_old_messages_and_rebuilt_batches_leave_it_too(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_log(tmp_path, files=disk, flush_messages=1, compression_type="gzip")
    disk.syncs = 0
    log.append_as_leader(sent(), flush=False)
    log.append_as_leader(message(0, None, b"value", magic=1, timestamp=1000), flush=False)
    assert (disk.syncs, log.recovery_point) == (0, 0)


def test_a_duplicate_is_acknowledged_when_its_first_copy_is_on_disk(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_log(tmp_path, files=disk, flush_messages=1)
    first = log.append_as_leader(sent(), flush=False)
    repeated = log.append_as_leader(sent(), flush=False)
    assert (repeated.first_offset, repeated.size) == (first.first_offset, 0)
    assert repeated.sync_offset == first.sync_offset > log.recovery_point
    assert log.append_as_leader(sent()).size == 0  # with the topic's own policy: after the sync
    assert log.recovery_point == first.sync_offset


def test_a_duplicate_of_a_batch_whose_sync_failed_is_refused(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = open_log(tmp_path, files=disk, flush_messages=1)
    log.append_as_leader(sent(), flush=False)
    disk.fails = True
    with pytest.raises(StorageError):
        log.append_as_leader(sent())
    disk.fails = False
    with pytest.raises(LogFailedError):
        log.append_as_leader(sent(), flush=False)


def opened(tmp_path: Path, count: int) -> tuple[list[WatchedDisk], list[WritableLog]]:
    disks = [WatchedDisk() for _ in range(count)]
    logs = [open_log(tmp_path / f"{n}", files=disk) for n, disk in enumerate(disks)]
    for log in logs:
        log.append(b"value")
    return disks, logs


def test_logs_are_synced_at_the_same_time(tmp_path: Path) -> None:
    """Each sync waits until all have begun: one after the other they would never end."""
    disks, logs = opened(tmp_path, 4)
    for disk in disks:
        disk.begun = threading.Semaphore(0)
        disk.open_gate.clear()
    with SharedCommitter() as committer:
        waiting = threading.Thread(target=committer.flush, args=(logs,))
        waiting.start()
        assert all(disk.begun.acquire(timeout=60) for disk in disks)
        for disk in disks:
            disk.open_gate.set()
        waiting.join(60)
        assert not waiting.is_alive()
    assert [log.recovery_point for log in logs] == [1] * 4


def test_requests_during_a_sync_share_the_next(tmp_path: Path) -> None:
    (disk,), (log,) = opened(tmp_path, 1)
    log.flush()
    log.append(b"value")
    disk.syncs, disk.begun = 0, threading.Semaphore(0)
    disk.open_gate.clear()
    answers: list[tuple[int, BaseException | None]] = []
    done = threading.Semaphore(0)

    def note(error: BaseException | None) -> None:
        answers.append((log.recovery_point, error))
        done.release()

    with SharedCommitter() as committer:
        committer.request(log, note)
        assert disk.begun.acquire(timeout=60)
        for _ in range(5):
            log.append(b"value")
            committer.request(log, note)
        disk.open_gate.set()
        assert all(done.acquire(timeout=60) for _ in range(6))
    assert disk.syncs == 2
    assert answers == [(2, None)] + [(7, None)] * 5


def test_the_source_of_an_extend_may_wait_for_another_log(tmp_path: Path) -> None:
    """Though a sync of its own log waits for its lock, and is requested before the other one."""
    _, (first, second) = opened(tmp_path, 2)
    synced = threading.Event()
    done: list[BaseException | None] = []

    def source() -> Iterator[bytes]:
        yield b"value"
        committer.request(first, done.append)
        committer.request(second, lambda error: synced.set())
        assert synced.wait(30)
        second.append(b"value")
        synced.clear()
        committer.request(second, lambda error: synced.set())
        assert synced.wait(30)
        yield b"value"

    with SharedCommitter() as committer:
        first.extend(source())
    assert second.recovery_point == 2
    assert done == [None]


def test_an_error_concerns_its_log_only(tmp_path: Path) -> None:
    disks, logs = opened(tmp_path, 3)
    disks[1].fails = True
    with SharedCommitter() as committer:
        with pytest.raises(StorageError, match="injected"):
            committer.flush(logs)
        assert [log.recovery_point for log in logs] == [1, 0, 1]
        committer.flush([])
    with pytest.raises(ClosedError):
        committer.flush(logs)
    committer.close()


def test_a_callback_may_close_the_committer(tmp_path: Path) -> None:
    _, (log,) = opened(tmp_path, 1)
    committer = SharedCommitter()
    done = threading.Event()

    def close(error: BaseException | None) -> None:
        committer.close()
        done.set()

    committer.request(log, close)
    assert done.wait(30)
    committer.close()
    assert not committer._thread.is_alive()


def test_a_callback_that_raises_concerns_no_other_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(error: BaseException | None) -> None:
        raise ValueError("injected")

    _, logs = opened(tmp_path, 20)  # more than there are threads
    with SharedCommitter() as committer:
        for log in logs:
            committer.request(log, fail)
        committer.flush(logs)
    assert [log.recovery_point for log in logs] == [1] * 20
    assert caplog.text.count("ValueError: injected") == 20
