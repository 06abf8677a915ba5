"""A truncation inside a batch leaves one log end, for everyone and for good."""

import os
from pathlib import Path

import pytest

import kstore
from kstore.cli import main
from support.stores import QUIET


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
