"""A truncation inside a batch leaves one log end, for everyone and for good."""

import os
from pathlib import Path

import pytest

import kstore
from kstore.checkpoint.known_gaps import read_known_gaps
from kstore.cli import main
from kstore.files.filenames import RECOVERY_POINTS
from kstore.files.files import DISK
from support.damage import write_damaged
from support.stores import MARKER, QUIET


def ends(root: Path, mode: str) -> tuple[int, list[int]]:
    with kstore.open(root, mode=mode, config=QUIET) as store:
        log = store["t"][0]
        assert log.start_offset <= log.end_offset
        return log.end_offset, [record.offset for record in log]


@pytest.mark.parametrize("deleted", [0, 5, 15])
@pytest.mark.parametrize("rolled", [False, True])
def test_the_log_end_survives_reopening_and_no_offset_is_assigned_again(
    tmp_path: Path, deleted: int, rolled: bool
) -> None:
    kept = list(range(deleted, 10))
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t")[0]
        log.extend([b"a"] * 10)
        if rolled:
            log.roll()
        log.extend([b"b"] * 10)
        log.flush()
        log.delete_records(deleted)
        log.truncate_to(18)
        assert log.end_offset == 18
        assert [record.offset for record in log] == kept
        assert ends(tmp_path, "r") == (18, kept)  # beside the writer
    for mode in "r", "a", "r", "a":
        assert ends(tmp_path, mode) == (18, kept)
    assert main(["verify", "--log-dir", str(tmp_path)]) == 0
    with kstore.open(tmp_path, config=QUIET) as store:
        assert store["t"].append(b"new").offset == 18


def test_a_first_batch_that_is_truncated_leaves_an_empty_log_at_the_offset(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t")[0]
        log.extend([b"a"] * 10)
        log.truncate_to(4)
        assert (log.end_offset, list(log)) == (4, [])
        assert ends(tmp_path, "r") == (4, [])
    assert ends(tmp_path, "r") == (4, [])
    assert ends(tmp_path, "a") == (4, [])
    with kstore.open(tmp_path, config=QUIET) as store:
        assert store["t"].append(b"new").offset == 4
    assert ends(tmp_path, "r") == (5, [4])
    assert main(["verify", "--log-dir", str(tmp_path)]) == 0


def test_the_gap_of_a_truncation_is_no_loss_after_a_kill(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        log = kstore.open(tmp_path, config=QUIET).create_topic("t")[0]
        log.extend([b"a"] * 10)
        log.extend([b"b"] * 10)
        log.truncate_to(18)
        log.roll()
        log.append(b"c")
        log.roll()
        log.append(b"d")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert main(["verify", "--log-dir", str(tmp_path)]) == 0
    assert ends(tmp_path, "a") == (20, [*range(10), 18, 19])
    assert main(["verify", "--log-dir", str(tmp_path)]) == 0


# --- a gap that was noted and is truncated ---------------------------------------------------


def make_gap(root: Path) -> int:
    """Offsets 10 to 17 are in no batch, as ``kstore.gaps`` says; the position of offset 4."""
    with kstore.open(root, config=QUIET) as store:
        log = store.create_topic("t")[0]
        for _ in range(5):
            log.extend([b"a"] * 2)
        log.extend([b"b"] * 10)
        log.truncate_to(18)
        log.append(b"c")
        position = log.read(4).position
    assert read_known_gaps(DISK, root / "t-0") == [(10, 18)]
    return position


def lose_a_segment(root: Path) -> None:
    """Fill offsets 4 to 18 again, then remove the segment of 10 to 17 with all that names it."""
    with kstore.open(root, config=QUIET) as store:
        log = store["t"][0]
        for count in (6, 8, 1):
            log.extend([b"new"] * count)
            log.roll()
        log.append(b"last")
    for path in [*(root / "t-0").glob(f"{10:020}.*"), *(root / "t-0").glob("kstore.seal.*")]:
        path.unlink()


@pytest.mark.parametrize(("end", "left"), [(18, [(10, 18)]), (14, [(10, 14)]), (10, []), (4, [])])
def test_a_truncation_shortens_the_gaps_that_are_known(
    tmp_path: Path, end: int, left: list[tuple[int, int]]
) -> None:
    make_gap(tmp_path)
    with kstore.open(tmp_path, config=QUIET) as store:
        store["t"][0].truncate_to(end)
    assert read_known_gaps(DISK, tmp_path / "t-0") == left
    assert (tmp_path / "t-0" / "kstore.gaps").exists() == bool(left)
    assert main(["verify", "--log-dir", str(tmp_path)]) == 0


def test_a_gap_that_was_truncated_does_not_excuse_a_new_one(tmp_path: Path) -> None:
    make_gap(tmp_path)
    with kstore.open(tmp_path, config=QUIET) as store:
        store["t"][0].truncate_to(4)
    lose_a_segment(tmp_path)
    assert main(["verify", "--log-dir", str(tmp_path)]) == 3


def test_a_gap_that_recovery_cut_does_not_excuse_a_new_one(tmp_path: Path) -> None:
    """The log ends in front of the gap again: its bytes were not on disk."""
    position = make_gap(tmp_path)
    for path in (tmp_path / "t-0").glob(f"{18:020}.*"):
        path.unlink()
    log = tmp_path / "t-0" / f"{0:020}.log"
    write_damaged(log, log.read_bytes()[: position + 5])  # inside the batch at offset 4
    for name in (MARKER, RECOVERY_POINTS):
        (tmp_path / name).unlink()
    with kstore.open(tmp_path, config=QUIET) as store:
        assert store["t"][0].end_offset == 4
    lose_a_segment(tmp_path)
    assert main(["verify", "--log-dir", str(tmp_path)]) == 3


def test_no_later_batch_has_a_lower_leader_epoch_than_one_below_the_log_start(
    tmp_path: Path,
) -> None:
    """The log start lies inside the truncated batch: no record is left, a batch is."""
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t")[0]
        log.begin_epoch(3)
        log.extend([b"a"] * 5)
        log.extend([b"b"] * 5)
    with kstore.open(tmp_path, config=QUIET) as store:  # a program that begins no epoch
        log = store["t"][0]
        log.delete_records(7)
        log.truncate_to(7)
        log.append(b"new")
        assert [(record.offset, record.leader_epoch) for record in log] == [(7, 3)]
        log.delete_records(8)
        log.truncate_to(8)  # removes nothing
        log.append(b"next")
        assert [(record.offset, record.leader_epoch) for record in log] == [(8, 3)]
    assert main(["verify", "--log-dir", str(tmp_path)]) == 0
