"""A segment that disappears from a closed log is reported by every program that opens it."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig
from kstore.cli import main
from kstore.errors import CorruptFileError, CorruptRecordError, NewerFormatError
from kstore.files.files import DISK
from kstore.recovery.lost_segments import LostRange, find_indexes_without_log, read_lost
from support.producers import NOW
from support.stores import MARKER, QUIET

SEGMENTS, EACH = 5, 10
LOST = "kstore.lost"
STARTS = "log-start-offset-checkpoint"
Loss = Callable[[Path], None]


def remove_log(log: Path) -> None:
    log.unlink()


def remove_segment(log: Path) -> None:
    for path in log.parent.glob(f"*{log.stem}*"):
        path.unlink()


def empty_log(log: Path) -> None:
    assert log.stat().st_size
    log.write_bytes(b"")


def fill(root: Path, policy: str = "delete") -> Path:
    """Five segments of ten records, closed cleanly; returns the partition's directory."""
    config = LogConfig(cleanup_policy=policy, index_interval_bytes=100, segment_bytes=1024)
    with kstore.open(root, config=QUIET) as store:
        log = store.create_topic("t", config=config)[0]
        for number in range(SEGMENTS * EACH):
            if number and number % EACH == 0:
                log.roll()
            log.append(b"v" * 20, key=b"%d" % number, timestamp=NOW + number)
        if policy == "compact":
            log.compact()
    return root / "t-0"


def log_of(folder: Path, number: int) -> Path:
    return folder / f"{number * EACH:020d}.log"


def offsets(root: Path, mode: str = "r") -> list[int]:
    with kstore.open(root, mode=mode, config=QUIET) as store:
        return [record.offset for record in store["t"][0]]


LOSSES = [(remove_log, 0), (empty_log, 0), (remove_log, 2), (empty_log, 2), (remove_segment, 2)]


@pytest.mark.parametrize("mode", ["r", "a"])
@pytest.mark.parametrize(
    ("policy", "lose", "number"),
    [(policy, *each) for policy in ("delete", "compact") for each in LOSSES],
)
def test_a_lost_segment_is_reported_and_hides_no_answer(
    tmp_path: Path,
    policy: str,
    lose: Loss,
    number: int,
    mode: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = fill(tmp_path, policy)
    lose(log_of(folder, number))
    first, end = number * EACH, number * EACH + EACH
    sentence = f"the records at offsets {first} to {end - 1} are lost"
    with caplog.at_level(logging.WARNING), kstore.open(tmp_path, mode=mode, config=QUIET) as store:
        log = store["t"][0]
        seen = [record.offset for record in log]
        assert seen == [each for each in range(SEGMENTS * EACH) if not first <= each < end]
        assert caplog.text.count(sentence) == 1
        with pytest.raises(CorruptRecordError, match=sentence) as caught:
            log.offset_at(NOW + first + 3)
        assert caught.value.offset == first
        with pytest.raises(CorruptRecordError, match=sentence):
            log.since(NOW + first + 3)
        with pytest.raises(CorruptRecordError, match=sentence):
            log[first + 3]
        if number:
            assert log.offset_at(NOW + first - 1) == first - 1  # in front of the loss
        if lose is remove_log and policy == "delete":  # its time index: no record is so late
            assert log.offset_at(NOW + end + 3) == end + 3
        if mode == "a":
            assert log.recovery is not None
            assert log.recovery.alarming
            assert sentence in str(log.recovery)
    assert caplog.text.count(sentence) == 1


@pytest.mark.parametrize(("lose", "number"), LOSSES)
def test_a_writer_keeps_the_evidence(
    tmp_path: Path, lose: Loss, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    folder = fill(tmp_path)
    lose(log_of(folder, number))
    sentence = f"the records at offsets {number * EACH} to {number * EACH + EACH - 1} are lost"
    for _ in range(2):
        offsets(tmp_path, "a")
        assert main(["verify", "--log-dir", str(tmp_path)]) == 1
    assert sum(sentence in each for each in caplog.messages if each.startswith("t-0")) == 2
    with (
        kstore.open(tmp_path, config=QUIET),
        kstore.open(tmp_path, mode="r") as beside,
        pytest.raises(CorruptRecordError, match=sentence),
    ):
        beside["t"][0].offset_at(NOW + number * EACH)


def test_a_log_start_before_the_first_segment_reports_the_lost_offsets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = fill(tmp_path)
    with kstore.open(tmp_path, config=QUIET) as store:
        store["t"][0].delete_records(13)
    assert "1\nt 0 13" in (tmp_path / STARTS).read_text()
    assert offsets(tmp_path) == list(range(13, 50))
    assert caplog.text == ""
    remove_segment(log_of(folder, 1))
    for mode in "r", "a":
        caplog.clear()
        assert offsets(tmp_path, mode) == list(range(20, 50))
        assert caplog.text.count("the records at offsets 13 to 19 are lost") == 1
    assert read_lost(DISK, folder) == [LostRange(13, 20)]


def test_without_a_clean_stop_an_index_without_its_log_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = fill(tmp_path)
    log_of(folder, 0).unlink()
    (tmp_path / MARKER).unlink()
    assert offsets(tmp_path, "a") == list(range(10, 50))
    assert "uncertain: a broker killed while it deletes the segment" in caplog.text
    assert main(["verify", "--log-dir", str(tmp_path)]) == 3
    with kstore.open(tmp_path, mode="r") as store:  # not certain: lookups continue
        assert store["t"][0].offset_at(NOW) == 10


def test_a_loss_ends_with_restored_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = fill(tmp_path)
    saved = tmp_path / "saved"
    shutil.copytree(folder, saved)
    remove_segment(log_of(folder, 2))
    offsets(tmp_path, "a")
    assert (folder / LOST).exists()
    for path in saved.glob(f"{20:020d}.*"):
        shutil.copy(path, folder)
    caplog.clear()
    assert offsets(tmp_path) == list(range(50))
    assert offsets(tmp_path, "a") == list(range(50))
    assert "lost" not in caplog.text
    assert not (folder / LOST).exists()


def test_a_loss_ends_where_retention_or_a_truncation_passes_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in "start", "end":
        caplog.clear()
        root = tmp_path / name
        folder = fill(root)
        log_of(folder, 2).unlink()
        with kstore.open(root, config=QUIET) as store:
            log = store["t"][0]
            if name == "start":
                log.delete_records(35)
            else:
                log.truncate_to(15)
                log.extend([b"again"] * 20)
                assert log.offset_at(NOW + 14) == 14
                assert log[25].value == b"again"
            assert log.offset_at(NOW + 14) == (35 if name == "start" else 14)
        caplog.clear()
        offsets(root, "a")
        assert caplog.text == ""
        assert not (folder / LOST).exists()


@pytest.mark.parametrize(("lose", "number"), LOSSES)
def test_without_the_note_the_loss_is_accepted(
    tmp_path: Path, lose: Loss, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    folder = fill(tmp_path)
    lose(log_of(folder, number))
    offsets(tmp_path, "a")
    (folder / LOST).unlink()
    caplog.clear()
    offsets(tmp_path, "a")
    assert caplog.text == ""
    # Between two segments the gap still shows, and nothing says any more why.
    assert main(["verify", "--log-dir", str(tmp_path)]) == (3 if number or lose is empty_log else 0)


def test_a_crash_before_the_seals_are_rewritten_does_not_bring_the_loss_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = fill(tmp_path)
    seal = folder / f"kstore.seal.{EACH:020d}"
    before = seal.read_bytes()
    remove_segment(log_of(folder, 2))
    offsets(tmp_path, "a")
    assert seal.read_bytes() != before
    seal.write_bytes(before)  # the crash came before it
    offsets(tmp_path, "a")
    (folder / LOST).unlink()
    caplog.clear()
    offsets(tmp_path, "a")
    assert caplog.text == ""


def test_a_note_that_does_not_parse_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = fill(tmp_path)
    (folder / LOST).write_text("{")
    with pytest.raises(CorruptFileError, match="does not parse"):
        read_lost(DISK, folder)
    for mode in "r", "a":
        caplog.clear()
        assert offsets(tmp_path, mode) == list(range(50))
        assert caplog.text.count("kstore.lost does not parse") == 1
    (folder / LOST).write_text('{"format": 2}')
    with pytest.raises(NewerFormatError, match="use a newer one"):
        read_lost(DISK, folder)


@pytest.mark.parametrize("policy", ["delete", "compact", "compact,delete"])
def test_retention_and_compaction_are_no_loss(
    tmp_path: Path, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = fill(tmp_path, policy)
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store["t"][0]
        for number in range(30):
            log.append(b"w", key=b"%d" % number, timestamp=NOW + 50 + number)
        log.roll()
        if "compact" in policy:
            log.compact()
        if "delete" in policy:
            log.delete_records(25)
        log.truncate_to(log.end_offset - 3)
        log.roll()
        expected = [record.offset for record in log]
    for mode in "r", "a", "r":
        assert offsets(tmp_path, mode) == expected
    assert caplog.text == ""
    assert not (folder / LOST).exists()


def test_a_segment_that_is_being_deleted_has_its_log_under_another_name() -> None:
    base, other = f"{0:020d}", f"{7:020d}"
    names = [f"{base}.index", f"{base}.log.deleted", f"{other}.timeindex", "kstore.seal." + other]
    assert find_indexes_without_log(names) == {7: f"{other}.timeindex"}
    # Files that an earlier segment of the same base left do not stand for this one's.
    names = [f"{base}.index", f"{base}.log.deleted", f"{base}.index.deleted"]
    assert find_indexes_without_log(names) == {0: f"{base}.index"}
