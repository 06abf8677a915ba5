"""SIGKILL at every change a log makes to the disk: before it, half way through it, after it.

Each death is a real one: a forked child runs the scenario and is killed at one call; this
process opens what it left, without a word about how it ended. What had returned exists, in
order, with nothing invented; a torn append is cut off and its bytes are kept.
"""

import os
import signal
from pathlib import Path

import pytest

from oracle.reader import read_log as oracle_read
from support import killing_disk
from support.disks import HastyDisk
from support.logs import log_bytes, open_log, read_log

TORTURE = bool(os.environ.get("KSTORE_TORTURE"))
STRIDE = 1 if TORTURE else 2


class Witness:
    """What the child said before it died."""

    def __init__(self, output: str) -> None:
        self.end = 0  # everything below had returned
        self.tried = 0  # nothing at or above was ever begun
        self.start = 0  # nothing at or above had been asked to be deleted
        self.low = 0  # a truncation that was in progress may have gone down to here
        self.flushed = 0
        self.clean = False
        self.changes = -1
        for line in output.splitlines():
            word, *rest = line.split()
            if word == "trying":
                self.tried = max(self.tried, int(rest[1]))
            elif word == "in":
                self.end = self.low = int(rest[1])
            elif word == "flushed":
                self.flushed = int(rest[0])
            elif word == "cutting":
                self.low = int(rest[0])
                self.flushed = min(self.flushed, self.low)
            elif word == "cut":
                self.end = self.low = self.tried = int(rest[0])
            elif word == "deleting":
                self.start = int(rest[0])
            elif word == "closed":
                self.clean = rest[0] == "True"
            elif word == "changes":
                self.changes = int(rest[0])


def live_and_die(directory: Path, scenario: str, at: int, how: str) -> tuple[Witness, bool]:
    """Run a scenario in a child that dies at a change; returns what it said, and if it died."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.dup2(writing, 1)
            killing_disk.run(directory, scenario, at, how)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading) as pipe:
        output = pipe.read()
    _, status = os.waitpid(child, 0)
    died = os.WIFSIGNALED(status)
    assert died or status == 0, (scenario, at, how, output)
    assert not died or os.WTERMSIG(status) == signal.SIGKILL
    return Witness(output), died


def check(directory: Path, witness: Witness, where: tuple[object, ...]) -> None:
    beside = (
        {record.offset: record.value for record in read_log(directory)}
        if any(directory.glob("*.log"))
        else {}
    )
    before = log_bytes(directory)
    log = open_log(
        directory,
        files=HastyDisk(),
        clean=False,
        recovery_point=witness.flushed,
        log_start_offset=0,
        **killing_disk.SETTINGS,
    )
    found = {record.offset: record.value for record in log}
    offsets = list(found)
    # Nothing acknowledged is lost: a process that dies loses nothing that was written.
    assert set(range(witness.start, witness.low)) <= found.keys(), (*where, offsets)
    # Nothing is invented: no offset that was never tried, no value but the one of its offset.
    assert not offsets or offsets[-1] < max(witness.tried, witness.end), (*where, offsets)
    assert all(value is not None and value.startswith(b"%d:v" % o) for o, value in found.items())
    # No hole: the scenarios cut only where batches begin.
    assert offsets == list(range(offsets[0], offsets[-1] + 1)) if offsets else True, where
    # A reader saw the same before the recovery, and a torn tail as absent.
    assert {o: v for o, v in beside.items() if o in found} == found, where
    report = log.recovery
    assert report is not None
    if report.cut_size:
        assert report.cut_size == len(before) - len(log_bytes(directory)), where
        kept = Path(report.kept_in).read_bytes() if report.kept_in else b""
        assert before.endswith(kept), where
        assert len(kept) in (0, report.cut_size), where
        assert kept or not any(before[-report.cut_size :]), where
    end = log.end_offset
    assert log.append(killing_disk.value_at(end, 10)) == end, where
    assert log.close(), where
    plain = oracle_read(log_bytes(directory))
    assert plain.tail_reason is None, where
    assert plain.records[-1].offset == end, where


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork beside threads of other tests
@pytest.mark.parametrize("scenario", killing_disk.SCENARIOS)
def test_killed_at_every_change(tmp_path: Path, scenario: str) -> None:
    witness, died = live_and_die(tmp_path / "survivor", scenario, -1, "after")
    assert not died
    assert witness.clean
    changes = witness.changes
    assert changes > 50
    kills = cuts = 0
    for number, how in enumerate(killing_disk.HOWS):
        for at in range(number % STRIDE, changes, STRIDE):
            directory = tmp_path / f"{at}-{how}"
            witness, died = live_and_die(directory, scenario, at, how)
            kills += died
            cuts += bool(list(directory.glob("*.log"))) and how == "half"
            check(directory, witness, (scenario, at, how))
    assert kills > changes * len(killing_disk.HOWS) // STRIDE * 0.9
    print(f"kills {scenario}: tried={kills} of {changes} changes, violations=0")
