"""Which producers a log knows after an unclean stop."""

import shutil
from pathlib import Path

from kstore.log.log import Log
from support.logs import open_log
from support.producers import NOW, sent


def opened(directory: Path, *, clean: bool = True, start: int = 0, point: int = 0) -> Log:
    return open_log(
        directory,
        clean=clean,
        log_start_offset=start,
        recovery_point=point,
        clock=lambda: NOW,
        producer_id_expiration_ms=2**62,
    )


def test_recovery_goes_by_the_snapshots_below_what_it_reads(tmp_path: Path) -> None:
    """Those above are forgotten, and with them who wrote only what is gone: what tests/interop's
    test_loaded lets Kafka's own loader say."""
    log = opened(tmp_path / "made-0")
    for number in range(3):
        log.append_as_leader(sent(10 + number, 0, 0, 3))
        log.append_as_leader(sent(20 + number, 0, 0, 3))
        log.roll()
    log.append_as_leader(sent(7, 0, 0, 3))
    log.close()

    def known(start: int, point: int, gone: int = 0) -> list[int]:
        copy = tmp_path / f"{start}-{point}-{gone}" / "t-0"
        shutil.copytree(tmp_path / "made-0", copy)
        for base in range(0, gone, 6):
            for path in copy.glob(f"{base:020}.*"):
                path.unlink()
        again = opened(copy, clean=False, start=start, point=point)
        found = sorted(entry.producer_id for entry in again.producers())
        again.close()
        closed = opened(copy, start=max(start, gone))
        assert sorted(entry.producer_id for entry in closed.producers()) == found
        closed.close()
        return found

    everybody = [7, 10, 11, 12, 20, 21, 22]
    assert known(0, 0) == everybody
    assert known(0, 14) == everybody
    assert known(7, 14) == everybody  # the snapshot at 12 is between the two
    assert known(10, 14) == everybody
    assert known(10, 9) == [7, 11, 12, 21, 22]  # the whole segment of 10 is read, none before
    assert known(10, 0) == [7, 11, 12, 21, 22]
    assert known(14, 14) == [7, 12, 22]
    assert known(0, 0, gone=12) == everybody  # an old checkpoint: the snapshot at 12 counts
    assert known(12, 0, gone=12) == [7, 12, 22]
    assert known(21, 18) == []  # nothing is left of the log
