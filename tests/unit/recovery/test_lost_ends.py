"""What another program removed is reported, and never read as if it had not been."""

import io
import itertools
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig, StoreConfig
from kstore.cli import main
from kstore.errors import CorruptRecordError, RecoveryNeededError
from kstore.files.files import Files
from kstore.log.time_lookup import newest_offset
from kstore.segment import transaction_index
from kstore.verify.partition import verify_partition
from oracle.reader import read_log as oracle_read
from support.damage import cut, overwrite, write_damaged
from support.logs import open_log, read_log
from support.producers import NOW, sent
from support.stores import MARKER, QUIET

FIRST = "00000000000000000000"
KAFKA = StoreConfig(background=False, recovery="kafka")


def filled(root: Path, segments: int = 1, each: int = 10) -> list[Path]:
    """A topic of batches of one record, closed cleanly; its segment files."""
    with kstore.open(root, config=QUIET) as store:
        log = store.create_topic("t", config=LogConfig(index_interval_bytes=100))[0]
        for number in range(segments * each):
            if number and number % each == 0:
                log.roll()
            log.append(b"%d" % number * 20, key=b"k", timestamp=NOW + number)
    return sorted((root / "t-0").glob("*.log"))


def cut_before(path: Path, number: int) -> int:
    """Cut a segment in front of its n-th batch; returns the position."""
    position = oracle_read(path.read_bytes()).batches[number].position
    cut(path, position)
    return position


# --- the end of a log --------------------------------------------------------------------------


@pytest.mark.parametrize("left", [0, 1, 6, 9])
def test_a_reader_reports_an_end_cut_between_batches(
    tmp_path: Path, left: int, caplog: pytest.LogCaptureFixture
) -> None:
    (path,) = filled(tmp_path)
    position = cut_before(path, left)
    with kstore.open(tmp_path, mode="r") as store:
        log = store["t"][0]
        seen: list[int] = []
        with pytest.raises(CorruptRecordError, match="the records between are lost") as caught:
            seen += [record.offset for record in log]
        assert (caught.value.path, caught.value.position) == (str(path), position)
        assert caught.value.offset == left
        for offset in range(left):
            assert log[offset].offset == offset
    assert caplog.text == ""
    (tmp_path / MARKER).unlink()  # a writer killed during a truncation leaves the same
    with kstore.open(tmp_path, mode="r") as store:
        assert [record.offset for record in store["t"][0]] == list(range(left))
    assert caplog.text.count("the records between are lost, unless its writer was killed") == 1
    (tmp_path / "recovery-point-offset-checkpoint").write_text(f"0\n1\nt 0 {left}\n")
    with kstore.open(tmp_path, mode="r") as store:  # above it, nothing more was promised
        assert [record.offset for record in store["t"][0]] == list(range(left))


def test_a_writer_is_warned_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (path,) = filled(tmp_path)
    cut_before(path, 6)
    with caplog.at_level(logging.WARNING), kstore.open(tmp_path, config=QUIET) as store:
        log = store["t"][0]
        assert log.recovery is not None
        assert log.recovery.missing == 4
        assert "ends at offset 6, below the recovery point 10" in str(log.recovery)
        assert [record.offset for record in log] == list(range(6))
        with kstore.open(tmp_path, mode="r") as other:  # its owner knows already
            assert [record.offset for record in other["t"][0]] == list(range(6))
    assert "are missing from the log" in caplog.text
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store["t"][0]
        assert log.recovery is not None
        assert log.recovery.missing == 0


def test_records_deleted_up_to_the_end_are_no_loss(tmp_path: Path) -> None:
    filled(tmp_path)
    with kstore.open(tmp_path, config=QUIET) as store:
        store["t"][0].delete_records(10)
    for mode in ("r", "a"):
        with kstore.open(tmp_path, mode=mode, config=QUIET) as store:
            log = store["t"][0]
            assert (log.start_offset, log.end_offset, list(log)) == (10, 10, [])
            assert log.recovery is None or log.recovery.missing == 0


class Counting(Files):
    """Counts the system calls on checkpoints."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, path, limit=1 << 30):
        self.reads += str(path).endswith("recovery-point-offset-checkpoint")
        return super().read(path, limit)


def test_one_look_at_the_checkpoint_serves_all_partitions(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        for log in store.create_topic("t", partitions=20):
            log.append(b"x")
    for mode in ("r", "a"):
        files = Counting()
        with kstore.Store(tmp_path, mode, config=QUIET, files=files) as store:
            for log in store["t"]:
                assert log.end_offset == 1
                assert log.end_offset == 1
            assert files.reads == 1, mode


# --- a damaged segment without an index --------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_in_kafka_mode_a_damaged_segment_without_an_index_loses_its_end_only(
    tmp_path: Path, number: int, clean: bool
) -> None:
    """As Kafka's LogLoader: what lies behind that segment stays, so the log has a gap."""
    paths = filled(tmp_path, segments=3)
    hurt = paths[number]
    data = bytearray(hurt.read_bytes())
    batch = oracle_read(bytes(data)).batches[4]
    data[batch.position + 70] ^= 1
    write_damaged(hurt, data)
    hurt.with_suffix(".index").unlink()
    inode = hurt.stat().st_ino
    if not clean:
        (tmp_path / MARKER).unlink()
    with (
        pytest.raises(RecoveryNeededError, match="below the recovery point"),
        kstore.open(tmp_path, config=QUIET) as store,
    ):
        list(store["t"][0])
    assert hurt.read_bytes() == data
    with kstore.open(tmp_path, config=KAFKA) as store:
        log = store["t"][0]
        lost = range(10 * number + 4, 10 * number + 10)
        assert [record.offset for record in log] == [n for n in range(30) if n not in lost]
        assert log.recovery is not None
        assert log.recovery.cut_size == len(data) - batch.position
        assert log.end_offset == (24 if number == 2 else 30)
        log.verify().raise_if_corrupt()
    assert hurt.stat().st_size == batch.position
    if number < 2:  # a reader may have it mapped
        assert hurt.stat().st_ino != inode
    (kept,) = hurt.parent.glob("kstore.cut.*")
    assert kept.read_bytes() == data[batch.position :]
    with kstore.open(tmp_path, config=QUIET) as store:
        assert len(list(store["t"][0])) == 24


# --- wrong entries of an index -----------------------------------------------------------------


@pytest.mark.parametrize(("kind", "bits"), [("index", 64), ("timeindex", 96)])
@pytest.mark.parametrize("mode", ["r", "a"])
def test_no_wrong_entry_hides_a_record(tmp_path: Path, kind: str, bits: int, mode: str) -> None:
    """In the middle of an index that a clean open does not look through: no read rests on it."""
    shuffled = [10 * (n - 3 * (n % 5 == 0)) for n in range(320)]  # some are late
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t", config=LogConfig(index_interval_bytes=60))[0]
        for time in shuffled:
            log.append(b"value", timestamp=NOW + time)
        log.roll()
        log.append(b"x", timestamp=NOW + 10_000)
    path = tmp_path / "t-0" / f"{FIRST}.{kind}"
    intact, size = path.read_bytes(), bits // 8
    count = len(intact) // size
    assert count > 200
    detected = 0
    for entry, bit in itertools.product((0, 70, count // 2, count - 1), range(0, bits, 5)):
        wrong = bytearray(intact)
        wrong[(entry + 1) * size - 1 - bit // 8] ^= 1 << bit % 8
        write_damaged(path, wrong)
        with kstore.open(tmp_path, mode=mode, config=QUIET) as store:
            log = store["t"][0]
            for asked in (0, 690, 705, 1595, 1600, 1605, 2210, 3155, 3191, 5000):
                expected = next((n for n, time in enumerate(shuffled) if time >= asked), 320)
                assert log.offset_at(NOW + asked) == expected, (entry, bit, asked)
            for offset in (0, 69, 70, 71, 72, 150, 160, 161, 319, 320):
                assert log[offset].offset == offset, (entry, bit)
            detected += mode == "r" and not log.verify().ok
    path.write_bytes(intact)
    if mode == "r":  # an entry that says another sound thing is none that is wrong
        assert detected > 4 * (bits // 5) * 0.6


# --- side files --------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [None, 0, 5, 34])
def test_a_transaction_index_taken_from_a_running_writer(tmp_path: Path, left: int | None) -> None:
    """The next entry is not written behind a hole of zeros."""
    log = open_log(tmp_path / "t-0", clock=lambda: NOW)
    path = tmp_path / "t-0" / f"{FIRST}.txnindex"
    for number in range(3):
        log.append_as_leader(sent(5, 0, number, transactional=True))
        log.append_end_marker(5, 0, commit=False)
        if number == 1:
            data = path.read_bytes()
            assert len(data) == 68
            path.unlink()
            if left is not None:
                path.write_bytes(data[:left])
    entries = transaction_index.parse(path.read_bytes())
    assert entries == log.aborted_transactions(0, 100)
    assert [(each.first_offset, each.last_offset) for each in entries] == [(0, 1), (2, 3), (4, 5)]


@pytest.mark.parametrize("marker", [True, False])
@pytest.mark.parametrize("last", [True, False])
def test_a_segment_longer_than_any_may_be(tmp_path: Path, last: bool, marker: bool) -> None:
    """Kafka does not open a file of 2 GiB. Of the last segment the zeros are cut; a rolled
    one's are used, and `verify` names them."""
    path = filled(tmp_path, segments=2)[1 if last else 0]
    before = path.read_bytes()
    os.truncate(path, 1 << 31)
    if not marker:
        (tmp_path / MARKER).unlink()
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store["t"][0]
        assert [record.offset for record in log] == list(range(20))
        if last:
            assert path.read_bytes() == before
        else:
            assert path.stat().st_size == 1 << 31
            assert [finding.path for finding in log.verify().findings][:1] == [str(path)]
        assert log.append(b"more") == 20


class CountingReads(Files):
    """Counts what is read of indexes of any kind."""

    read_of_indexes = 0

    def pread(self, fd: int, size: int, position: int) -> bytes:
        data = super().pread(fd, size, position)
        if os.readlink(f"/proc/self/fd/{fd}").endswith("index"):
            self.read_of_indexes += len(data)
        return data


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_the_hole_of_an_index_is_not_read(tmp_path: Path, kind: str, clean: bool) -> None:
    """Of 3 GiB of zeros, which took as much memory and more."""
    log = open_log(tmp_path / "t-0", index_interval_bytes=1, clock=lambda: NOW)
    for number in range(40):
        log.append(b"%d" % number)
    log.close()
    path = tmp_path / "t-0" / f"{FIRST}.{kind}"
    os.truncate(path, 24 << 27)
    files = CountingReads()
    outside = read_log(tmp_path / "t-0", files=files)
    assert [record.offset for record in outside] == list(range(40))
    again = open_log(tmp_path / "t-0", clock=lambda: NOW, clean=clean, files=files)
    assert [record.offset for record in again] == list(range(40))
    assert files.read_of_indexes < 16 << 20
    again.close()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("fault", ["hole", "swapped", "first"])
def test_a_transaction_index_counts_up_to_a_hole_and_is_rebuilt(
    tmp_path: Path, fault: str, sealed: bool, clean: bool
) -> None:
    """However large the hole is, only its beginning is read."""
    log = open_log(tmp_path / "t-0", clock=lambda: NOW)
    for number in range(3):
        log.append_as_leader(sent(5, 0, number, transactional=True))
        log.append_end_marker(5, 0, commit=False)
    if sealed:
        log.roll()
    log.append(b"more")
    aborted = log.aborted_transactions(0, 100)
    log.close()
    path = tmp_path / "t-0" / f"{FIRST}.txnindex"
    data = path.read_bytes()
    assert transaction_index.parse(data) == aborted
    if fault == "hole":
        os.truncate(path, 3 << 30)
    elif fault == "swapped":
        write_damaged(path, data[34:68] + data[:34] + data[68:])
    else:
        overwrite(path, 0, bytes(34))
    files = CountingReads()
    assert read_log(tmp_path / "t-0", files=files).aborted_transactions(0, 100) == aborted
    assert any(
        finding.kind == "transaction index"
        for finding in verify_partition(files, tmp_path / "t-0").findings
    )
    again = open_log(tmp_path / "t-0", clock=lambda: NOW, clean=clean, files=files)
    assert again.aborted_transactions(0, 100) == aborted
    assert path.read_bytes() == data
    assert files.read_of_indexes < 1 << 20
    again.close()


def test_aborted_transactions_before_the_newest_snapshot_are_rebuilt(tmp_path: Path) -> None:
    """A corrupt index of the segment that the newest snapshot is in the middle of."""
    log = open_log(tmp_path / "t-0", clock=lambda: NOW)
    for number in range(4):
        log.append_as_leader(sent(5, 0, number, transactional=True))
        log.append_end_marker(5, 0, commit=False)
        if number == 1:
            log.close()  # with a snapshot
            log = open_log(tmp_path / "t-0", clock=lambda: NOW)
    aborted = log.aborted_transactions(0, 100)
    log.close()
    path = tmp_path / "t-0" / f"{FIRST}.txnindex"
    data = path.read_bytes()
    (tmp_path / "t-0" / f"{8:020d}.snapshot").unlink()
    assert (tmp_path / "t-0" / f"{4:020d}.snapshot").exists()
    overwrite(path, 0, bytes(34))
    again = open_log(tmp_path / "t-0", clock=lambda: NOW, clean=False)
    assert path.read_bytes() == data
    assert again.aborted_transactions(0, 100) == aborted
    again.close()


def test_many_files_are_named_by_the_first_and_the_last(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for path in filled(tmp_path, segments=9, each=2):
        path.with_suffix(".timeindex").unlink()
    with caplog.at_level(logging.DEBUG), kstore.open(tmp_path, config=QUIET) as store:
        report = store["t"][0].recovery
    assert report is not None
    assert len(report.rebuilt) == 9
    assert f"rebuilt 9 side files: {report.rebuilt[0]} to {report.rebuilt[-1]}" in str(report)
    by_level = {record.levelno: record.getMessage() for record in caplog.records}
    assert all(name in by_level[logging.DEBUG] for name in report.rebuilt)
    assert sum(name in by_level[logging.WARNING] for name in report.rebuilt) == 2
    assert "9 files, 00000000000000000000.timeindex to " in by_level[logging.WARNING]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_tool_shows_how_far_recovery_is(tmp_path: Path, monkeypatch) -> None:
    filled(tmp_path)
    (tmp_path / MARKER).unlink()
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["topics", "--create", "--topic", "u", "--log-dir", str(tmp_path)]) == 0
    assert "100%" in terminal.getvalue()
    assert " recovering" in terminal.getvalue()
    assert main(["topics", "--create", "--topic", "v", "--log-dir", str(tmp_path)]) == 0
    assert terminal.getvalue().count("100%") == 1  # nothing to recover any more


# --- lookup by time ----------------------------------------------------------------------------


def _empty_last(paths: list[Path]) -> None:
    cut(paths[-1], 0)


def _remove_last(paths: list[Path]) -> None:
    paths[-1].unlink()


def _cut_last(paths: list[Path]) -> None:
    cut_before(paths[-1], 4)


def _zero_last(paths: list[Path]) -> None:
    write_damaged(paths[-1], bytes(paths[-1].stat().st_size))


def _remove_all(paths: list[Path]) -> None:
    for path in paths:
        path.unlink()


@pytest.mark.parametrize("damage", [_empty_last, _remove_last, _cut_last, _zero_last, _remove_all])
def test_a_reader_refuses_a_lookup_by_time_that_a_lost_end_may_hide(
    tmp_path: Path, damage: Callable[[list[Path]], None]
) -> None:
    damage(filled(tmp_path, 3))
    with kstore.open(tmp_path, mode="r") as store:
        log = store["t"][0]
        assert log.end_offset == 30
        for look in (
            lambda: log.offset_at(NOW + 28),
            lambda: log.since(NOW + 28),
            lambda: list(log.follow(start=0, timeout=0)),
            lambda: list(log),
            lambda: log.read(28),
            lambda: list(log.view().scan()),
        ):
            with pytest.raises(CorruptRecordError, match=r"lost|corrupt"):
                look()
        if damage is not _remove_all:  # what is found in front of the damage is right
            assert log.offset_at(NOW + 12) == 12


@pytest.mark.parametrize("damage", [_empty_last, _remove_last, _cut_last])
def test_the_newest_offset_is_not_named_behind_a_lost_end(
    tmp_path: Path, damage: Callable[[list[Path]], None]
) -> None:
    damage(filled(tmp_path, 3))
    with (
        kstore.open(tmp_path, mode="r") as store,
        pytest.raises(CorruptRecordError, match="lost"),
    ):
        newest_offset(store["t"][0])


def test_a_partition_that_never_had_a_segment_is_no_loss(tmp_path: Path) -> None:
    (path,) = filled(tmp_path)
    path.unlink()
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    with kstore.open(tmp_path, mode="r") as store:
        log = store["t"][0]
        assert (list(log), log.end_offset, log.offset_at(NOW)) == ([], 0, 0)
