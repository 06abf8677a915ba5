"""Every disk call of a log fails once, in every way: nothing acknowledged is lost."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kstore.errors import KStoreError, LogFailedError, StorageError
from kstore.log.log import Log
from support.disks import FaultyDisk
from support.logs import open_log

SETTINGS = {"segment_bytes": 1500, "index_interval_bytes": 200, "file_delete_delay_ms": 0}
FAULTS: dict[str, Callable[[], BaseException]] = {
    "full disk": lambda: StorageError("injected", errno=28),
    "interrupt": KeyboardInterrupt,
    "no memory": MemoryError,
}


def work(log: Log, acknowledged: dict[int, bytes]) -> None:
    """Appends that roll, flushes and a cut; what returned is noted as acknowledged."""
    for n in range(12):
        value = b"%02d" % n * 60
        acknowledged[log.append(value)] = value
    values = [b"e%d" % n * 100 for n in range(8)]
    acknowledged.update(zip(log.extend(values), values, strict=True))
    log.flush()
    acknowledged[log.append(b"last")] = b"last"


def work_and_close(log: Log, acknowledged: dict[int, bytes]) -> None:
    work(log, acknowledged)
    log.close()


def contents(log: Log) -> dict[int, bytes | None]:
    return {record.offset: record.value for record in log}


def agree(found: dict[int, bytes | None], acknowledged: dict[int, bytes]) -> None:
    """Everything acknowledged exists; the rest is what was in progress, with no gap."""
    assert acknowledged.items() <= found.items()
    assert list(found) == list(range(len(found)))
    assert len(found) <= 21


def calls_of_a_whole_run(tmp_path: Path) -> list[str]:
    disk = FaultyDisk()
    log = open_log(tmp_path / "count", files=disk, **SETTINGS)
    disk.calls.clear()
    work(log, {})
    log.close()
    return list(disk.calls)


@pytest.mark.parametrize("fault", FAULTS)
def test_no_acknowledged_record_is_lost_after_any_failed_call(tmp_path: Path, fault: str) -> None:
    calls = calls_of_a_whole_run(tmp_path)
    assert {"open", "write", "truncate", "fdatasync", "sync_directory"} <= set(calls)
    for number, name in enumerate(calls):
        directory = tmp_path / f"{number}"
        disk = FaultyDisk()
        log = open_log(directory, files=disk, **SETTINGS)
        acknowledged: dict[int, bytes] = {}
        disk.arm(number, FAULTS[fault])
        failed = None
        try:
            work(log, acknowledged)
        except (KStoreError, KeyboardInterrupt, MemoryError) as error:
            failed = error
        disk.fail_at = -1
        agree(contents(log), acknowledged)
        before = log.end_offset
        try:  # the log takes appends, unless a sync failed: then it says so
            offset = log.append(b"after")
        except LogFailedError:
            assert name in ("fdatasync", "sync_directory")
        else:
            assert offset == before
            acknowledged[offset] = b"after"
        clean = False
        try:
            clean = log.close()
        except KStoreError:
            failed = failed or RuntimeError("close failed")
        again = open_log(directory, clean=clean, recovery_point=log.recovery_point, **SETTINGS)
        found = contents(again)
        assert acknowledged.items() <= found.items(), (number, name)
        assert list(found) == list(range(len(found))), (number, name)
        again.close()


@pytest.mark.parametrize("fault", FAULTS)
def test_no_acknowledged_record_is_lost_on_a_disk_that_stays_broken(
    tmp_path: Path, fault: str
) -> None:
    calls = calls_of_a_whole_run(tmp_path)
    for number in range(0, len(calls), 3):
        directory = tmp_path / f"{number}"
        disk = FaultyDisk()
        log = open_log(directory, files=disk, **SETTINGS)
        acknowledged: dict[int, bytes] = {}
        disk.arm(number, FAULTS[fault], sticky=True)
        with pytest.raises((KStoreError, KeyboardInterrupt, MemoryError)):
            work_and_close(log, acknowledged)
        disk.fail_at = -1
        # The process dies here; another opens what it left.
        again = open_log(directory, clean=False, recovery_point=log.recovery_point, **SETTINGS)
        found = contents(again)
        assert acknowledged.items() <= found.items(), number
        assert list(found) == list(range(len(found)))
        again.close()


def test_a_failed_sync_makes_the_log_read_only(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "t-0", files=disk)
    log.append(b"a")
    disk.arm(0, lambda: StorageError("injected", errno=5))
    with pytest.raises(StorageError):
        log.flush()
    # The two syncs side by side, and kstore.unsynced, which this disk refuses too.
    asked = {"fdatasync", "sync_directory", "open"}
    assert set(disk.calls) == asked
    disk.fail_at = -1
    with pytest.raises(LogFailedError):
        log.append(b"b")
    with pytest.raises(LogFailedError):  # not asked again: the answer would be a lie
        log.flush()
    assert set(disk.calls) == asked
    assert [record.value for record in log] == [b"a"]
    assert not log.close()


@pytest.mark.parametrize("fault", FAULTS)
def test_the_append_after_a_failed_first_one_writes_the_leader_epochs(
    tmp_path: Path, fault: str
) -> None:
    calls = 0
    for number in range(20):
        disk = FaultyDisk()
        log = open_log(tmp_path / f"t-{number}", files=disk)
        disk.arm(number, FAULTS[fault])
        try:
            log.append(b"first")
        except (KStoreError, KeyboardInterrupt, MemoryError):
            calls += 1
        disk.fail_at = -1
        log.append(b"second")
        path = tmp_path / f"t-{number}" / "leader-epoch-checkpoint"
        assert path.read_text() == "0\n1\n0 0\n", number
        log.close()
    assert calls >= 3
