"""Leader epochs of a log: begun, stamped on batches, asked for, truncated to, never lower."""

from pathlib import Path

import pytest

from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.errors import FencedLeaderEpochError, InvalidConfigError, StorageError
from kstore.files.files import DISK
from kstore.log.writable_log import WritableLog
from oracle import writer as oracle
from oracle.plain import PlainRecord
from oracle.reader import read_log as read_plain
from support.disks import FaultyDisk
from support.logs import log_bytes, open_log, read_log

FILE = "leader-epoch-checkpoint"


def epochs_on_disk(directory: Path) -> list[tuple[int, int]]:
    return [(epoch, start) for epoch, start in LeaderEpochs.load(DISK, directory / FILE)]


def stamped(directory: Path) -> list[tuple[int, int]]:
    """Base offset and leader epoch of each batch."""
    batches = read_plain(log_bytes(directory)).batches
    return [(batch.base_offset, batch.leader_epoch) for batch in batches]


def replicated(offset: int, epoch: int) -> bytes:
    """A batch of one record as a leader stores it."""
    row = PlainRecord(offset, 1000, None, b"replicated")
    return oracle.batch([row], base_offset=offset, leader_epoch=epoch)


def of_three_epochs(directory: Path) -> WritableLog:
    """Offsets 0 and 1 in epoch 0, 2 and 3 in epoch 3, 4 and 5 in epoch 7."""
    log = open_log(directory)
    for epoch in (0, 3, 7):
        log.begin_epoch(epoch)
        log.append(b"first")
        log.append(b"second")
    return log


def test_batches_carry_the_epoch_that_was_begun_before(tmp_path: Path) -> None:
    log = of_three_epochs(tmp_path)
    log.append_as_leader(oracle.batch([PlainRecord(0, 1000, None, b"client")]))
    log.append_end_marker(1, 0, commit=True)
    assert log.leader_epoch == 7
    log.close()
    epochs = [epoch for _, epoch in stamped(tmp_path)]
    assert epochs == [0, 0, 3, 3, 7, 7, 7, 7]
    assert epochs_on_disk(tmp_path) == [(0, 0), (3, 2), (7, 4)]


def test_an_epoch_is_on_disk_before_the_first_append_in_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.leader_epoch == -1
    log.append(b"value")
    log.begin_epoch(4)
    assert epochs_on_disk(tmp_path) == [(0, 0), (4, 1)]
    assert log.epoch_end(4) == (4, 1)


def test_a_killed_log_continues_in_the_epoch_that_was_begun(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(b"value")
    log.flush()
    log.begin_epoch(4)
    again = open_log(tmp_path, clean=False)
    assert again.leader_epoch == 4
    again.append(b"later")
    assert stamped(tmp_path) == [(0, 0), (1, 4)]


def test_an_epoch_never_decreases(tmp_path: Path) -> None:
    log = of_three_epochs(tmp_path)
    log.begin_epoch(7)
    with pytest.raises(FencedLeaderEpochError) as refused:
        log.begin_epoch(6)
    assert refused.value.code == 74
    with pytest.raises(InvalidConfigError):
        log.begin_epoch(-1)
    log.append(b"more")
    assert stamped(tmp_path)[-1] == (6, 7)
    assert epochs_on_disk(tmp_path) == [(0, 0), (3, 2), (7, 4)]


def test_an_epoch_without_a_batch_gives_way_to_the_next(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for epoch in (0, 1, 2):
        log.begin_epoch(epoch)
    assert epochs_on_disk(tmp_path) == [(2, 0)]


def test_ends_and_epochs_are_those_of_offset_for_leader_epoch(tmp_path: Path) -> None:
    log = of_three_epochs(tmp_path)
    reader = read_log(tmp_path)
    for each in (log, reader):
        assert each.leader_epoch == 7
        assert [each.epoch_end(epoch) for epoch in (-1, 0, 2, 3, 6, 7, 8)] == [
            (-1, -1),
            (0, 2),
            (0, 2),
            (3, 4),
            (3, 4),
            (7, 6),
            (-1, -1),
        ]
        assert [each.epoch_at(offset) for offset in (-1, 0, 1, 2, 4, 6)] == [-1, 0, 0, 3, 7, 7]
    reader.close()


def test_truncation_to_an_epoch_removes_later_ones(tmp_path: Path) -> None:
    log = of_three_epochs(tmp_path)
    assert log.truncate_to_epoch(7) == 6
    assert log.truncate_to_epoch(5) == 4
    assert (log.end_offset, log.leader_epoch) == (4, 3)
    assert epochs_on_disk(tmp_path) == [(0, 0), (3, 2)]
    log.append_as_follower(replicated(4, 3) + replicated(5, 9))
    assert epochs_on_disk(tmp_path) == [(0, 0), (3, 2), (9, 5)]
    assert log.truncate_to_epoch(0) == 2
    assert log.epoch_end(0) == (0, 2)


def test_truncation_to_an_epoch_drops_a_later_one_without_batches(tmp_path: Path) -> None:
    log = of_three_epochs(tmp_path)
    log.begin_epoch(9)
    assert log.truncate_to_epoch(8) == 6
    assert (log.leader_epoch, epochs_on_disk(tmp_path)[-1]) == (7, (7, 4))


def test_a_leader_keeps_its_epoch_when_it_truncates_its_log(tmp_path: Path) -> None:
    log = of_three_epochs(tmp_path)
    log.truncate_to(3)
    assert epochs_on_disk(tmp_path) == [(0, 0), (3, 2), (7, 3)]
    log.append(b"more")
    assert stamped(tmp_path)[-1] == (3, 7)


def test_a_followers_batch_of_an_older_epoch_removes_one_without_batches(tmp_path: Path) -> None:
    log = of_three_epochs(tmp_path)
    log.begin_epoch(12)
    log.append_as_follower(replicated(6, 8))
    assert epochs_on_disk(tmp_path) == [(0, 0), (3, 2), (7, 4), (8, 6)]
    assert log.leader_epoch == 8


def test_an_append_that_fails_leaves_the_epoch_that_was_begun(tmp_path: Path) -> None:
    """Whichever of its calls fails: those that save its epoch, and the write of its batch."""
    failures = 0
    for number in range(20):
        disk, directory = FaultyDisk(), tmp_path / f"{number}"
        log = open_log(directory, files=disk)
        log.append(b"value")
        log.begin_epoch(4)
        disk.arm(number, lambda: StorageError("injected", errno=28))
        try:
            log.append_as_follower(replicated(1, 6))
        except StorageError:
            disk.fail_at = -1
            failures += 1
            log.append(b"later")
            assert stamped(directory) == [(0, 0), (1, 4)]
            assert epochs_on_disk(directory) == [(0, 0), (4, 1)]
        disk.fail_at = -1
        log.close()
    assert failures > 3


def test_an_epoch_that_could_not_be_saved_is_not_stamped(tmp_path: Path) -> None:
    failures = 0
    for number in range(10):
        disk, directory = FaultyDisk(), tmp_path / f"{number}"
        log = open_log(directory, files=disk)
        log.append(b"value")
        disk.arm(number, lambda: StorageError("injected", errno=28))
        try:
            log.begin_epoch(4)
        except StorageError:
            disk.fail_at = -1
            failures += 1
            log.append(b"later")
            assert stamped(directory) == [(0, 0), (1, 0)]
            assert epochs_on_disk(directory) == [(0, 0)]
        disk.fail_at = -1
        log.close()
    assert failures > 2


def test_a_log_of_old_messages_has_no_epochs(tmp_path: Path) -> None:
    log = open_log(tmp_path, message_format_version="0.10.0")
    log.begin_epoch(5)
    log.append(b"value")
    assert log.leader_epoch == -1
    assert log.epoch_end(5) == (-1, -1)
    assert log.epoch_at(0) == -1
