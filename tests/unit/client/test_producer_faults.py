"""Every disk call fails once, in every way, under producers: state never runs ahead of the log."""

from pathlib import Path
from typing import Any

import pytest

from kstore.errors import KStoreError, LogFailedError
from kstore.log.log import Log
from oracle.producers import Leader
from support.disks import FaultyDisk
from support.logs import open_log, read_log
from support.producers import NOW, sent
from unit.log.test_log_faults import FAULTS

SETTINGS: dict[str, Any] = {
    "segment_bytes": 500,
    "index_interval_bytes": 200,
    "file_delete_delay_ms": 0,
    "producer_id_expiration_ms": 2**62,
    "clock": lambda: NOW,
}


def steps(log: Log, leader: Leader) -> Any:
    """Calls that change both alike: producers side by side, transactions that end either way."""

    def send(producer_id: int, epoch: int, sequence: int, count: int, transactional: bool) -> Any:
        data = sent(producer_id, epoch, sequence, count, transactional=transactional)
        return (
            lambda: log.append_as_leader(data),
            lambda: leader.append(
                producer_id, epoch, sequence, count, NOW + count - 1, transactional=transactional
            ),
        )

    def end(producer_id: int, epoch: int, commit: bool) -> Any:
        return (
            lambda: log.append_end_marker(producer_id, epoch, commit=commit),
            lambda: leader.end_transaction(
                producer_id, epoch, NOW, commit=commit, coordinator_epoch=0, version=0
            ),
        )

    for n in range(4):
        yield send(1, n, 0, 3, True)
        yield send(2, 0, 2 * n, 2, False)
        yield send(3, 0, n, 1, True)
        yield end(1, n + 1, n % 2 == 0)
        if n == 2:
            yield end(3, 0, False)
            yield (log.flush, lambda: None)


def agree(log: Log, leader: Leader, where: object) -> None:
    assert log.end_offset == leader.end, where
    assert {tuple(entry) for entry in log.producers()} == leader.entries(), where
    assert log.last_stable_offset == leader.last_stable_offset, where
    found = [tuple(entry)[1:] for entry in log.aborted_transactions(0, leader.end)]
    assert found == leader.aborted, where


def work(log: Log, leader: Leader, where: object = None) -> BaseException | None:
    """Continue as a client does: what failed is sent again, unless the log says that it is over."""
    failed = None
    for ours, theirs in steps(log, leader):
        for _ in range(3):
            before = log.end_offset
            try:
                ours()
            except LogFailedError as error:
                return error
            except (KStoreError, KeyboardInterrupt, MemoryError) as error:
                failed = error
                if log.end_offset > before:  # it was published before the fault
                    break
                agree(log, leader, where)
            else:
                break
        else:
            return failed
        theirs()
        if log.end_offset < leader.end:
            raise AssertionError(where)
    return failed


def calls_of_a_whole_run(directory: Path) -> list[str]:
    disk = FaultyDisk()
    log = open_log(directory, files=disk, **SETTINGS)
    disk.calls.clear()
    leader = Leader()
    assert work(log, leader) is None
    agree(log, leader, "complete")
    assert log.close()
    assert len(list(directory.glob("*.log"))) > 3
    assert len(leader.aborted) == 3
    return list(disk.calls)


@pytest.mark.parametrize("fault", FAULTS)
def test_producers_agree_with_a_leader_after_any_failed_call(tmp_path: Path, fault: str) -> None:
    calls = calls_of_a_whole_run(tmp_path / "count")
    for number, name in enumerate(calls):
        if fault != "full disk" and number % 2:
            continue  # the same lines, half as often
        directory = tmp_path / f"{number}"
        disk = FaultyDisk()
        log = open_log(directory, files=disk, **SETTINGS)
        leader = Leader()
        disk.arm(number, FAULTS[fault])
        failed = work(log, leader, (number, name))
        disk.fail_at = -1
        if not isinstance(failed, LogFailedError):
            agree(log, leader, (number, name))
        clean = False
        try:
            clean = log.close()
        except (KStoreError, KeyboardInterrupt, MemoryError):
            clean = False
        end = leader.end
        again = open_log(directory, clean=clean, recovery_point=log.recovery_point, **SETTINGS)
        agree(again, leader, (number, name, "again"))
        assert again.end_offset == end
        again.close()
        agree(read_log(directory), leader, (number, name, "outside"))


@pytest.mark.parametrize("fault", FAULTS)
def test_producers_agree_with_a_leader_after_a_disk_stays_broken(
    tmp_path: Path, fault: str
) -> None:
    calls = calls_of_a_whole_run(tmp_path / "count")
    for number in range(0, len(calls), 5):
        directory = tmp_path / f"{number}"
        disk = FaultyDisk()
        log = open_log(directory, files=disk, **SETTINGS)
        leader = Leader()
        disk.arm(number, FAULTS[fault], sticky=True)
        work(log, leader, number)
        disk.fail_at = -1
        # The process dies here; another opens what it left.
        again = open_log(directory, clean=False, recovery_point=log.recovery_point, **SETTINGS)
        agree(again, leader, (number, "again"))
        again.close()


def test_truncation_interrupted_anywhere(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "count", files=disk, **SETTINGS)
    work(log, Leader())
    disk.calls.clear()
    log.truncate_to(14)
    count = len(disk.calls)
    expected = {tuple(entry) for entry in log.producers()}, log.last_stable_offset
    aborted = log.aborted_transactions(0, 99)
    assert count > 3
    for number in range(count):
        directory = tmp_path / f"{number}"
        disk = FaultyDisk()
        log = open_log(directory, files=disk, **SETTINGS)
        work(log, Leader())
        disk.arm(number, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            log.truncate_to(14)
        disk.fail_at = -1
        if log.end_offset > 14:
            log.truncate_to(14)
        log.append(b"next")
        assert ({tuple(entry) for entry in log.producers()}, log.last_stable_offset) == expected
        assert log.aborted_transactions(0, 99) == aborted, number
        log.close()
        again = open_log(directory, **SETTINGS)
        assert ({tuple(entry) for entry in again.producers()}, log.last_stable_offset) == expected
        assert again.aborted_transactions(0, 99) == aborted, number
        again.close()
