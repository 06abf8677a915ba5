"""A segment between compacted ones that is lost with all of its files; what is no such loss."""

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig
from kstore.cli import main
from kstore.errors import CorruptRecordError
from kstore.files.files import DISK
from kstore.log.log import Log
from kstore.recovery.lost_segments import read_lost
from kstore.segment import header_checksums
from support.producers import NOW
from support.stores import MARKER, QUIET

# Six segments of ten records; the last five of each are written again later, so that compaction
# leaves offsets without records between all segments but the last ones.
SEGMENTS, EACH = 6, 10


def fill(root: Path, policy: str = "compact", *, segment_bytes: int = 3000) -> Path:
    config = LogConfig(
        cleanup_policy=policy,
        index_interval_bytes=100,
        segment_bytes=segment_bytes,
        file_delete_delay_ms=0,
    )
    with kstore.open(root, config=QUIET) as store:
        log = store.create_topic("t", config=config)[0]
        for number in range(SEGMENTS):
            for n in range(EACH):
                key = b"again" if n >= EACH // 2 else b"%d-%d" % (number, n)
                log.append(b"v" * 150, key=key, timestamp=NOW + number * EACH + n)
            log.roll()
        log.append(b"last", key=b"last", timestamp=NOW + 100)
        log.compact()
    return root / "t-0"


def bases(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.log"))


def lose(folder: Path, base: int) -> None:
    for path in folder.glob(f"*{base:020d}*"):
        path.unlink()


def verify(root: Path) -> int:
    return main(["verify", "--log-dir", str(root)])


def check_nothing_lost(root: Path) -> None:
    for is_killed in (False, True):
        assert verify(root) == 0
        if is_killed:
            (root / MARKER).unlink(missing_ok=True)
        with kstore.open(root, config=QUIET) as store:
            log = store["t"][0]
            assert log.recovery is None or not log.recovery.alarming
            list(log)
    assert read_lost(DISK, root / "t-0") == []


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_lost_segment_between_compacted_ones_is_reported(
    tmp_path: Path, is_clean: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = fill(tmp_path)
    assert bases(folder) == [0, 10, 20, 30, 40, 50, 60]
    check_nothing_lost(tmp_path)
    lose(folder, 20)
    if not is_clean:
        (tmp_path / MARKER).unlink()
    capsys.readouterr()
    assert verify(tmp_path) == 1
    found = capsys.readouterr()
    assert (
        "the segment that followed at offset 20 when this one was rolled" in found.out + found.err
    )
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store["t"][0]
        assert log.recovery is not None
        assert "the records at offsets 20 to 29 are lost" in str(log.recovery)
    assert [each[:2] for each in read_lost(DISK, folder)] == [(20, 30)]


def compact_again(log: Log) -> None:
    """All that exists becomes one segment; the active one stays."""
    log.configure(log.config.merge({"segment.bytes": "100000"}, (), log.config))
    log.append(b"more", key=b"again", timestamp=NOW + 200)
    log.roll()
    log.compact()


def recompress(log: Log) -> None:
    assert log.recompress("gzip", force=True, roll=True).rewritten


def truncate_in_a_gap(log: Log) -> None:
    log.truncate_to(27)
    log.append(b"new", key=b"new", timestamp=NOW + 300)


def truncate_at_a_boundary(log: Log) -> None:
    log.truncate_to(30)


def delete(log: Log) -> None:
    log.delete_records(25)


CHANGES = [compact_again, recompress, truncate_in_a_gap, truncate_at_a_boundary, delete]


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_a_compacted_log_on_purpose_is_no_loss(
    tmp_path: Path, change: Callable[[Log], None]
) -> None:
    fill(tmp_path, "compact,delete")
    with kstore.open(tmp_path, config=QUIET) as store:
        change(store["t"][0])
        assert verify(tmp_path) == 0  # beside the writer
    check_nothing_lost(tmp_path)


@pytest.mark.parametrize("change", [compact_again, recompress])
def test_segments_that_were_replaced_name_the_next_one(
    tmp_path: Path, change: Callable[[Log], None]
) -> None:
    folder = fill(tmp_path)
    with kstore.open(tmp_path, config=QUIET) as store:
        change(store["t"][0])
    found = bases(folder)
    assert len(found) > 1
    for base, following in itertools.pairwise(found):
        assert header_checksums.read_following(DISK, folder, base, None) == following


def replace_as_kafka(folder: Path, first: int, *others: int) -> None:
    """As Kafka's cleaner: one new file for several segments; seals are left as they are."""
    data = b"".join((folder / f"{base:020d}.log").read_bytes() for base in (first, *others))
    for base in (first, *others):
        for path in folder.glob(f"{base:020d}.*index"):
            path.unlink()
        (folder / f"{base:020d}.log").unlink()
    (folder / f"{first:020d}.log").write_bytes(data)


@pytest.mark.parametrize("merged", [(0, 10), (10, 20), (20, 30, 40), (40, 50), (0,), (30,)])
def test_segments_that_kafka_s_cleaner_merged_are_no_loss(
    tmp_path: Path, merged: tuple[int, ...]
) -> None:
    folder = fill(tmp_path)
    replace_as_kafka(folder, *merged)
    (tmp_path / MARKER).unlink()  # the indexes are rebuilt
    with kstore.open(tmp_path, config=QUIET):
        pass
    check_nothing_lost(tmp_path)


@pytest.mark.parametrize("again", [27, 29])
def test_kafka_s_truncation_in_a_gap_is_no_loss(tmp_path: Path, again: int) -> None:
    """It leaves a full segment before the gap as it is, and rolls the next one at its end."""
    folder = fill(tmp_path)
    for base in (30, 40, 50, 60):
        lose(folder, base)
    with kstore.open(tmp_path / "made", config=QUIET) as store:
        log = store.create_topic("t", config=LogConfig(index_interval_bytes=100))[0]
        log._require_writer().truncator.skip_to(again)
        for n in range(30):
            log.append(b"v" * 50, key=b"%d" % n, timestamp=NOW + 300)
            if n % 10 == 9:
                log.roll()
    for path in (tmp_path / "made" / "t-0").glob("0*"):
        shutil.copy(path, folder)
    for path in (tmp_path / "recovery-point-offset-checkpoint", tmp_path / MARKER):
        path.unlink()
    assert max(bases(folder)) > 30
    before = os.stat(folder / f"{20:020d}.log").st_ctime_ns
    assert header_checksums.read_following(DISK, folder, 20, None) == 30
    with kstore.open(tmp_path, config=QUIET):
        pass
    assert os.stat(folder / f"{20:020d}.log").st_ctime_ns == before
    assert read_lost(DISK, folder) == []
    assert verify(tmp_path) == 0


def test_a_reader_refuses_the_offsets_that_are_lost(tmp_path: Path) -> None:
    folder = fill(tmp_path)
    lose(folder, 30)
    with kstore.open(tmp_path, "r", config=QUIET) as store:
        log = store["t"][0]
        assert log[24].value == b"v" * 150
        with pytest.raises(CorruptRecordError, match="the records at offsets 30 to 39 are lost"):
            log[32]
