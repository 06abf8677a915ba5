"""The short forms of ``make torture``'s parts: each in seconds, and each able to fail."""

import gc
from pathlib import Path

import pytest

from torture import bit_flips, io_errors, kills, parts, planted_bugs, random_damage
from torture.parts import Budget, Figures, share

UNBOUNDED = 3600.0


def without_violations(part: str, figures: Figures) -> Figures:
    print(figures.line(part, Budget(0), None))
    assert figures.violations == []
    return figures


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork beside threads of other tests
def test_kills() -> None:
    figures = without_violations("kills", kills.kill_all(Budget(UNBOUNDED), most=1, stride=80))
    assert figures.counts["by_change"] > 80
    assert figures.counts["lived"] == 0
    for kind in ("by_time", "wandering", "in_recovery"):
        assert figures.counts[kind] > 3


def test_io_errors() -> None:
    figures = without_violations(
        "io-errors", io_errors.fail_all(Budget(UNBOUNDED), stride=300, cuts=3)
    )
    assert figures.counts["raised"] > 40
    assert figures.counts["power_cuts"] > 80


def test_mutated_directories() -> None:
    figures = without_violations("mutations", random_damage.mutate_all(Budget(UNBOUNDED), most=100))
    assert figures.counts["directories"] == 100
    assert figures.counts["refusals"] > 20


def test_bit_flips() -> None:
    figures = without_violations("bit-flips", bit_flips.flip_all(Budget(UNBOUNDED), most=150))
    assert figures.counts["flips"] == 150
    assert figures.counts["under_a_checksum"] > 80


QUICK = (
    "flush syncs nothing",
    "a group's commit is acknowledged before its sync",
    "a small file is not synced before its rename",
    "a small file is written in place",
    "recovered indexes are not written",
    "recovery drops the last batch",
    "damage below the recovery point is cut",
    "committed offsets are not part of the transaction",
    "a failed append is not cut off",
    "the lock is one that no other process sees",
)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of stores open when a bug was caught
@pytest.mark.parametrize("name", QUICK)
def test_a_planted_bug_is_caught(name: str) -> None:
    """These are found within a second or two; ``make torture PART=planted`` tries all."""
    assert planted_bugs.caught(name).violation_count > 0
    gc.collect()  # here, lest another test report them


def test_there_are_at_least_twenty_planted_bugs() -> None:
    assert len(planted_bugs.BUGS) >= 20


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_part_that_dies_is_a_violation() -> None:
    def work(number: int) -> Figures:
        figures = Figures()
        figures.counts["done"] += 1
        if number == 1:
            raise SystemExit(3)
        return figures

    figures = share(2, work)
    assert figures.counts["done"] == 1
    assert figures.violation_count == 1
    assert "violations=1" in figures.line("part", Budget(1), ("done", 4))
    assert "goal: 25.0% of 4 done" in figures.line("part", Budget(1), ("done", 4))


@pytest.mark.parametrize("mounts", [None, "", "proc /proc proc rw 0 0\n"])
def test_a_chroot_whose_root_is_not_listed_has_an_unlisted_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounts: str | None
) -> None:
    table = tmp_path / "mounts"
    monkeypatch.setattr(parts, "MOUNT_TABLE", str(table))
    if mounts is not None:
        table.write_text(mounts)
    assert parts.file_system(str(tmp_path)) == "unlisted"
    table.write_text(f"disk / ext4 rw 0 0\nnone {tmp_path} tmpfs rw 0 0\n")
    parts.file_system.cache_clear()
    assert parts.file_system(str(tmp_path)) == "tmpfs"
