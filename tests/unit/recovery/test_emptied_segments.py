"""A segment that is empty although it had records: every program finds the loss, by one rule."""

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig
from kstore.cli import main
from kstore.errors import CorruptRecordError, KStoreError
from kstore.files.filenames import CLEANER_OFFSETS, KNOWN_GAPS, RECOVERY_POINTS, cut_name
from kstore.files.files import DISK
from kstore.recovery.lost_segments import LostRange, read_lost
from kstore.segment import header_checksums
from kstore.verify.partition import verify_partition
from support.stores import MARKER, QUIET

EACH, SEGMENTS = 10, 5
END = EACH * SEGMENTS
START = 1_700_000_000_000  # ms
INDEXES = (".index", ".timeindex")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Five rolled segments of ten records each, and an empty one; closed cleanly."""
    return make(tmp_path / "data")


def make(root: Path, policy: str = "delete") -> Path:
    config = LogConfig(cleanup_policy=policy, index_interval_bytes=100, segment_bytes=4096)
    with kstore.open(root, config=QUIET) as store:
        log = store.create_topic("t", config=config)[0]
        for number in range(END):
            log.append(b"v" * 20, key=b"%d" % number, timestamp=START + number)
            if (number + 1) % EACH == 0:
                log.roll()
    return root


def log_of(root: Path, number: int) -> Path:
    return root / "t-0" / f"{number * EACH:020d}.log"


def seal_of(root: Path, number: int) -> Path:
    return root / "t-0" / f"kstore.seal.{number * EACH:020d}"


def empty_log(log: Path) -> None:
    """As a program that truncates the file: its inode stays."""
    assert log.stat().st_size
    os.truncate(log, 0)


def empty_all(log: Path) -> None:
    empty_log(log)
    for suffix in INDEXES:
        os.truncate(log.with_suffix(suffix), 0)


def empty_log_without_indexes(log: Path) -> None:
    empty_log(log)
    for suffix in INDEXES:
        log.with_suffix(suffix).unlink()


def remove_seals(root: Path) -> None:
    for path in (root / "t-0").glob("kstore.seal.*"):
        path.unlink()


def kill(root: Path, point: int | None = END) -> None:
    """As a kill leaves the directory, with this recovery point."""
    (root / MARKER).unlink()
    (root / RECOVERY_POINTS).unlink()
    if point is not None:
        (root / RECOVERY_POINTS).write_text(f"0\n1\nt 0 {point}\n")


def statuses(root: Path) -> tuple[int, int]:
    """Of verify and of repair."""
    return main(["verify", "--log-dir", str(root)]), main(["repair", "--path", str(root)])


def is_refused(root: Path, mode: str, number: int) -> bool:
    """Whether reads of a lost segment's offsets and times raise."""
    first = number * EACH
    with kstore.open(root, mode=mode, config=QUIET) as store:
        log = store["t"][0]
        seen = [record.offset for record in log]
        assert seen == [each for each in range(END) if each // EACH != number]
        errors = [
            read_error(lambda: log[first + 3]),
            read_error(lambda: log.offset_at(START + first + 3)),
        ]
    sentence = f"the records at offsets {first} to {first + EACH - 1} are lost"
    found = [isinstance(each, CorruptRecordError) and sentence in str(each) for each in errors]
    assert found[0] == found[1]
    return found[0]


def read_error(read: Callable[[], object]) -> KStoreError | None:
    try:
        read()
    except KStoreError as error:
        return error
    return None


EMPTY: list[Callable[[Path], None]] = [empty_log, empty_all, empty_log_without_indexes]


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("lose", EMPTY)
@pytest.mark.parametrize("point", ["clean", END, None])
def test_an_emptied_segment_is_lost_for_every_program(
    root: Path, point: int | str | None, lose: Callable[[Path], None], number: int
) -> None:
    """Its header checksums are of the same file, with bytes."""
    lose(log_of(root, number))
    if not isinstance(point, str):
        kill(root, point)
    assert statuses(root) == (1, 2)
    assert is_refused(root, "r", number)
    assert not (root / "t-0" / "kstore.lost").exists()
    assert is_refused(root, "a", number)
    assert read_lost(DISK, root / "t-0")[0][:2] == (number * EACH, number * EACH + EACH)
    assert statuses(root) == (1, 2)
    assert is_refused(root, "r", number)


@pytest.mark.parametrize("number", [0, 2])
def test_below_the_recovery_point_index_entries_prove_the_loss(root: Path, number: int) -> None:
    remove_seals(root)
    empty_log(log_of(root, number))
    kill(root)
    assert statuses(root) == (1, 2)
    assert is_refused(root, "r", number)
    assert is_refused(root, "a", number)
    assert statuses(root) == (1, 2)


def test_above_the_recovery_point_index_entries_are_a_warning(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A power cut may leave an index that was written back, and a log that was not."""
    remove_seals(root)
    empty_log(log_of(root, 2))
    kill(root, 2 * EACH)
    assert statuses(root) == (3, 3)
    sentence = "the records at offsets 20 to 29 are lost"
    for mode in "r", "a":
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert not is_refused(root, mode, 2)
        assert caplog.text.count(sentence) == 1
        assert "a compaction or a power cut leaves the same files" in caplog.text
    assert [each.is_certain for each in read_lost(DISK, root / "t-0")] == [False]
    assert statuses(root) == (3, 3)


@pytest.mark.parametrize("lose", EMPTY)
def test_unsynced_segments_at_the_end_are_no_loss(root: Path, lose: Callable[[Path], None]) -> None:
    remove_seals(root)
    for number in (3, 4):
        lose(log_of(root, number))
    kill(root, 3 * EACH)
    assert statuses(root) == (0, 0)
    with kstore.open(root, mode="r", config=QUIET) as store:
        assert [record.offset for record in store["t"][0]] == list(range(3 * EACH))
    with kstore.open(root, config=QUIET) as store:
        assert store["t"][0].offset_at(START + 3 * EACH) == END
    assert read_lost(DISK, root / "t-0") == []


def test_a_repair_does_not_hide_the_loss(root: Path, tmp_path: Path) -> None:
    empty_log(log_of(root, 2))
    remove_seals(root)
    out = tmp_path / "out"
    assert main(["repair", "--path", str(root), "--execute", "--output", str(out)]) == 2
    report = kstore.plan_repair(root)
    assert [(loss.is_certain, loss.offset) for loss in report.partitions[0].missing] == [(True, 20)]
    assert not report.partitions[0].warnings


@pytest.mark.parametrize("lose", [empty_all, empty_log_without_indexes])
def test_an_empty_segment_without_a_reason_is_a_warning(
    root: Path, lose: Callable[[Path], None]
) -> None:
    """As in the log of a broker, which keeps no seals."""
    remove_seals(root)
    lose(log_of(root, 2))
    assert statuses(root)[1] == 3
    report = verify_partition(DISK, root / "t-0")
    assert [each.offset for each in report.warnings] == [2 * EACH]


@pytest.mark.parametrize("is_sealed", [False, True])
def test_an_empty_segment_hides_no_gap_before_it(root: Path, is_sealed: bool) -> None:
    """Also if its header checksums were written when it was empty."""
    remove_seals(root)
    for path in (root / "t-0").glob(f"{EACH:020d}.*"):
        path.unlink()
    empty_all(log_of(root, 3))
    if is_sealed:
        assert header_checksums.write(DISK, root / "t-0", 3 * EACH)
    assert statuses(root) == (3, 3)
    report = verify_partition(DISK, root / "t-0")
    assert [each.offset for each in report.warnings] == [EACH, 3 * EACH]


# --- what is no loss ---------------------------------------------------------------------------


def replace_by_empty_file(log: Path) -> None:
    """As Kafka's cleaner: other files have the names then, and a seal of kstore's stays."""
    for suffix in (".log", *INDEXES):
        path = log.with_suffix(suffix)
        path.with_suffix(".cleaned").touch()
        path.with_suffix(".cleaned").rename(path)


@pytest.mark.parametrize("stop", ["clean", "unclean"])
@pytest.mark.parametrize("reason", ["policy", "checkpoint", "stale checkpoint", "seal"])
def test_what_compaction_emptied_is_no_loss(tmp_path: Path, reason: str, stop: str) -> None:
    root = make(tmp_path / "data", "compact" if reason == "policy" else "delete")
    replace_by_empty_file(log_of(root, 2))
    if "checkpoint" in reason:
        offset = 3 * EACH if reason == "checkpoint" else EACH
        (root / CLEANER_OFFSETS).write_text(f"0\n1\nt 0 {offset}\n")
    if reason == "seal":
        assert header_checksums.write(DISK, root / "t-0", 2 * EACH, 3 * EACH)
    if stop == "unclean":
        kill(root)
    for _ in range(2):
        assert statuses(root) == (0, 0)
        assert not is_refused(root, "r", 2)
        assert not is_refused(root, "a", 2)
    assert read_lost(DISK, root / "t-0") == []


@pytest.mark.parametrize("has_seals", [True, False])
def test_offsets_that_are_missing_within_segments_show_a_compaction(
    root: Path, has_seals: bool
) -> None:
    """The policy changed back, and the checkpoint was not copied."""
    with kstore.open(root, config=QUIET) as store:
        store.alter_topic("t", config={"cleanup.policy": "compact"})
        log = store["t"][0]
        for number in range(3):
            for each in range(5):
                log.append(b"new", key=b"%d" % (5 * number + each))
            log.roll()
        log.compact()
        store.alter_topic("t", config={"cleanup.policy": "delete"})
        for _ in range(2):
            log.append(b"new")
            log.roll()
    (root / CLEANER_OFFSETS).unlink()
    replace_by_empty_file(sorted((root / "t-0").glob("*.log"))[-3])
    if not has_seals:
        remove_seals(root)
    assert statuses(root) == (0, 0)
    with kstore.open(root, config=QUIET) as store:
        assert store["t"][0].offset_at(START + 25) == 25
    assert read_lost(DISK, root / "t-0") == []
    assert statuses(root) == (0, 0)


def test_a_copy_of_a_compacted_log_may_have_an_older_index(tmp_path: Path) -> None:
    """Made while a broker ran: the index before the compaction, the log after it."""
    root = make(tmp_path / "data", "compact")
    log = log_of(root, 2)
    log.unlink()
    log.touch()
    remove_seals(root)
    kill(root)
    assert not is_refused(root, "r", 2)
    assert not is_refused(root, "a", 2)


def test_what_recovery_cut_and_kept_is_no_loss(root: Path) -> None:
    path = log_of(root, 2)
    shutil.copy(path, root / "t-0" / cut_name(2 * EACH, 0, 0))
    empty_log(path)
    assert main(["repair", "--path", str(root)]) == 0
    assert not is_refused(root, "r", 2)
    assert not is_refused(root, "a", 2)
    assert read_lost(DISK, root / "t-0") == []


def test_a_known_gap_and_the_log_start_explain_an_empty_segment(root: Path) -> None:
    for name, text in (
        ("t-0/" + KNOWN_GAPS, '{"format": 1, "gaps": [[0, 10]]}'),
        ("log-start-offset-checkpoint", "0\n1\nt 0 10\n"),
    ):
        copy = root.parent / Path(name).name
        shutil.copytree(root, copy)
        empty_all(log_of(copy, 0))
        (copy / name).write_text(text)
        assert statuses(copy) == (0, 0)
        assert not is_refused(copy, "a", 0)
        assert read_lost(DISK, copy / "t-0") == []


def test_restored_files_end_the_loss(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "t-0", tmp_path / "saved")
    empty_all(log_of(root, 2))
    assert is_refused(root, "a", 2)
    for path in (tmp_path / "saved").glob(f"{2 * EACH:020d}.*"):
        shutil.copy(path, root / "t-0")
    with kstore.open(root, config=QUIET) as store:
        assert len(list(store["t"][0])) == END
    assert statuses(root) == (0, 0)


def test_a_loss_that_was_accepted_is_not_found_again(root: Path) -> None:
    empty_all(log_of(root, 2))
    assert is_refused(root, "a", 2)
    assert read_lost(DISK, root / "t-0") == [LostRange(20, 30, None)]
    assert not seal_of(root, 2).exists()
    (root / "t-0" / "kstore.lost").unlink()
    assert not is_refused(root, "a", 2)
    assert read_lost(DISK, root / "t-0") == []
    assert statuses(root) == (3, 3)  # the gap still shows
