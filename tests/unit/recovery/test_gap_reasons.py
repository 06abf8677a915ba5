"""Which gaps between segments recovery and ``verify`` report, and which ones are explained."""

import shutil
from pathlib import Path

import pytest

import kstore
from kstore import StoreConfig
from kstore.cli import main
from kstore.files.filenames import CLEANER_OFFSETS, LOG_STARTS, RECOVERY_POINTS, cut_name
from support.damage import write_damaged
from support.stores import MARKER, QUIET

NAME = "orders-0"
KAFKA = StoreConfig(background=False, recovery="kafka")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Segments of ten records each, at 0, 10, 20 and an empty one at 30, after a kill."""
    path = tmp_path / "data"
    with kstore.open(path, config=QUIET) as store:
        log = store.create_topic("orders")[0]
        for _ in range(3):
            for _ in range(10):
                log.append(b"value")
            log.roll()
    kill(path)
    return path


def kill(root: Path) -> None:
    """What a broker's directory is like after a kill: nothing known to be on disk, no seals."""
    (root / MARKER).unlink()
    (root / RECOVERY_POINTS).unlink()
    for path in (root / NAME).glob("kstore.seal.*"):
        path.unlink()


def lose(root: Path, base: int) -> None:
    found = list((root / NAME).glob(f"{base:020}.*"))
    assert found
    for path in found:
        path.unlink()


def gaps(root: Path) -> tuple[int, list[tuple[int, int]]]:
    """Status of ``verify``, and the gaps that recovery reports: first offset and next base."""
    status = main(["verify", "--log-dir", str(root)])
    with kstore.open(root, config=QUIET) as store:
        report = store["orders"][0].recovery
        assert report is not None
        words = [step.split() for step in report.steps if "begins at" in step]
        assert report.alarming == bool(words)
    return status, [(int(each[4]), int(each[11].rstrip(":"))) for each in words]


def test_a_log_without_a_gap_has_none(root: Path) -> None:
    assert gaps(root) == (0, [])


def test_a_lost_segment_is_a_gap(root: Path) -> None:
    lose(root, 10)
    assert gaps(root) == (3, [(10, 20)])


def test_a_lost_segment_in_front_of_an_empty_one_is_a_gap(root: Path) -> None:
    lose(root, 20)
    assert gaps(root) == (3, [(20, 30)])


def test_a_gap_below_the_log_start_is_none(root: Path) -> None:
    """The process that raised the log start was killed while it deleted the segments."""
    lose(root, 10)
    (root / LOG_STARTS).write_text("0\n1\norders 0 20\n")
    assert gaps(root) == (0, [])


def test_a_gap_that_ends_above_the_log_start_is_one(root: Path) -> None:
    lose(root, 10)
    (root / LOG_STARTS).write_text("0\n1\norders 0 15\n")
    assert gaps(root) == (3, [(10, 20)])


@pytest.mark.parametrize(("dirty", "expected"), [(20, (0, [])), (15, (3, [(10, 20)]))])
def test_compaction_explains_what_ends_below_its_checkpoint(
    root: Path, dirty: int, expected: object
) -> None:
    """Where it stopped within the gap, the segment that began there is lost."""
    lose(root, 10)
    (root / CLEANER_OFFSETS).write_text(f"0\n1\norders 0 {dirty}\n")
    assert gaps(root) == expected


def test_a_seal_explains_what_a_follower_skipped(tmp_path: Path) -> None:
    """Without kstore.gaps: an older kstore did not write it."""
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("orders")[0]
        log.append(b"value")
        log._require_writer().truncator.skip_to(10)
        log.append(b"value")
        log.flush()
    assert (tmp_path / NAME / f"kstore.seal.{0:020}").exists()
    (tmp_path / NAME / "kstore.gaps").unlink()
    (tmp_path / MARKER).unlink()
    (tmp_path / RECOVERY_POINTS).unlink()
    shutil.copytree(tmp_path, tmp_path / "copy")  # no seal fits a copy
    assert gaps(tmp_path) == (0, [])
    assert gaps(tmp_path / "copy") == (3, [(1, 10)])


def test_bytes_that_recovery_cut_and_kept_explain_a_gap(root: Path) -> None:
    path = root / NAME / f"{10:020}.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2 + 70] ^= 1
    write_damaged(path, data)
    path.with_suffix(".index").unlink()
    (root / RECOVERY_POINTS).write_text("0\n1\norders 0 30\n")
    with kstore.open(root, config=KAFKA) as store:
        assert [each.offset for each in store["orders"][0]] != list(range(30))
    kill(root)
    assert gaps(root) == (0, [])


def test_a_cut_before_the_last_bytes_of_a_segment_explains_nothing(root: Path) -> None:
    """The segment continued there, and was complete when the next one began."""
    lose(root, 10)
    size = (root / NAME / f"{0:020}.log").stat().st_size
    (root / NAME / cut_name(0, size - 1, 0)).write_bytes(b"cut")
    assert gaps(root) == (3, [(10, 20)])
    kill(root)
    (root / NAME / cut_name(0, size, 0)).write_bytes(b"cut")
    assert gaps(root) == (0, [])


def test_a_quarantined_segment_explains_its_gap(root: Path) -> None:
    path = root / NAME / f"{10:020}.log"
    path.rename(path.with_name(cut_name(10, 0, 0)))
    lose(root, 10)
    assert gaps(root) == (0, [])


def test_recovery_that_cuts_lowers_the_cleaner_s_checkpoint(root: Path) -> None:
    """Else it would explain a later gap at offsets that were assigned again."""
    (root / CLEANER_OFFSETS).write_text("0\n1\norders 0 30\n")
    for base in (20, 30):
        lose(root, base)
    path = root / NAME / f"{10:020}.log"
    write_damaged(path, path.read_bytes()[:-1])
    with kstore.open(root, config=QUIET) as store:
        assert store["orders"][0].end_offset == 19
    assert (root / CLEANER_OFFSETS).read_text() == "0\n1\norders 0 10\n"  # the active segment's
