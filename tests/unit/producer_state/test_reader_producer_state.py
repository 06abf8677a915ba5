"""What a reader in another process knows of producers, and by which clock they are forgotten."""

import os
from pathlib import Path
from typing import Any

from kstore.files.files import Files
from support.logs import open_log, read_log
from support.producers import NOW, sent


class Counting(Files):
    """Counts how often a segment's log is opened."""

    opened = 0

    def open(self, path: Any, flags: int = os.O_RDONLY) -> int:
        self.opened += str(path).endswith(".log")
        return super().open(path, flags)


def test_a_reader_that_asks_again_does_not_walk_again(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", clock=lambda: NOW)
    for n in range(3):
        log.append_as_leader(sent(1, n, 0, 3, transactional=True))
        log.append_as_leader(sent(2, 0, 2 * n, 2))
        log.append_end_marker(1, n + 1, commit=n == 1, coordinator_epoch=n)
        log.append_as_leader(sent(3, n, 0, 2, transactional=True))
        log.append_end_marker(3, n + 1, commit=False)
        if n < 2:
            log.roll()
    for path in sorted(Path(log.path).glob("*.txnindex"))[:-1]:  # then logs are looked through
        path.unlink()
    disk = Counting()
    expected = log.aborted_transactions(0, 99)
    os.utime(log.path, (1, 1))  # what was changed just now is listed once more
    outside = read_log(Path(log.path), files=disk)
    assert outside.aborted_transactions(0, 99) == expected
    first, disk.opened = disk.opened, 0
    assert outside.aborted_transactions(0, 99) == expected
    assert sorted(outside.producers()) == sorted(log.producers())
    assert first > 2
    assert disk.opened == 0
    log.append_as_leader(sent(1, 3, 0, transactional=True))
    log.append_end_marker(1, 3, commit=False, coordinator_epoch=9)
    assert outside.aborted_transactions(0, 99) == log.aborted_transactions(0, 99)
    assert len(outside.aborted_transactions(0, 99)) == len(expected) + 1
    assert disk.opened < first  # only what has changed since the newest snapshot
    log.truncate_to(3)
    assert outside.aborted_transactions(0, 99) == log.aborted_transactions(0, 99)
    log.close()


def test_producers_expire_by_the_log_s_clock(tmp_path: Path) -> None:
    """Also when it is opened: a log whose clock stands still expires no producer."""
    log = open_log(tmp_path / "t-0", clock=lambda: NOW, producer_id_expiration_ms=1000)
    log.append_as_leader(sent(1, 0, 0, 3))
    log.close()
    again = open_log(tmp_path / "t-0", clock=lambda: NOW + 500, producer_id_expiration_ms=1000)
    assert [entry.producer_id for entry in again.producers()] == [1]
    again.close()
    later = open_log(tmp_path / "t-0", clock=lambda: NOW + 1002, producer_id_expiration_ms=1000)
    assert later.producers() == []
    later.close()
