"""``Log.reindex``: everything beside the segments of an open log, while it is used."""

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

import kstore
from kstore.errors import KStoreError, LogFailedError, ReadOnlyError, StorageError
from kstore.files.filenames import REWRITE_PREFIX
from kstore.log.log import Log
from support.damage import write_damaged
from support.disks import FaultyDisk
from support.jobs import logs, make_store, rebuilt_by_recovery, side_files
from support.logs import open_log
from support.producers import sent
from support.stores import QUIET

WHEN = 1_700_000_000_000


@pytest.fixture
def store_dir(tmp_path: Path) -> Path:
    make_store(tmp_path / "data", partitions=1)
    return tmp_path / "data"


def spoil(directory: Path) -> None:
    """A wrong entry in every offset index, and none for times."""
    for each in directory.glob("*.index"):
        with each.open("r+b") as file:
            file.write(b"\x00\x00\x00\x01\x00\x00\x00\x07")
    for each in directory.glob("*.timeindex"):
        each.write_bytes(bytes(24))


def filled(directory: Path, files: FaultyDisk | None = None) -> Log:
    log = open_log(
        directory, segment_bytes=1500, index_interval_bytes=200, file_delete_delay_ms=0,
        **({} if files is None else {"files": files}),
    )  # fmt: skip
    for n in range(60):
        log.append(b"value %d" % n * 4, timestamp=WHEN + n)
    return log


def check(log: Log, count: int = 60) -> None:
    """Every record is found by its offset and by its time; a second reading finds no fault."""
    assert [record.offset for record in log] == list(range(log.start_offset, count))
    for n in range(log.start_offset, count, 7):
        assert log[n].value == b"value %d" % n * 4
        assert log.offset_at(WHEN + n) == n
    log.verify().raise_if_corrupt()


def test_reindex_writes_what_recovery_writes(store_dir: Path, tmp_path: Path) -> None:
    expected = rebuilt_by_recovery(store_dir, tmp_path / "copy")
    before = logs(store_dir)
    with kstore.open(store_dir, config=QUIET) as store:
        for folder in (store_dir / "orders-0", store_dir / "clicks-0"):
            spoil(folder)
            for each in [*folder.glob("*.snapshot"), *folder.glob("*.txnindex")]:
                each.write_bytes(b"?")
        for name in store:
            assert store[name][0].reindex().ok
    assert logs(store_dir) == before
    assert side_files(store_dir) == expected
    assert not list(store_dir.rglob(REWRITE_PREFIX + "*"))


def test_the_open_log_uses_the_new_files(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0")
    log.park()
    spoil(tmp_path / "t-0")
    for n in range(0, 60, 5):  # so that the wrong entries are in memory
        with suppress(KStoreError):
            log.offset_at(WHEN + n)
    seen: list[tuple[int, int]] = []
    report = log.reindex(progress=lambda done, total: seen.append((done, total)))
    assert report.ok
    assert report.bytes == log.size
    assert seen[-1] == (log.size, log.size)
    assert {name.rpartition(".")[2] for name in report.written} >= {"index", "timeindex"}
    check(log)
    for n in range(60, 90):
        log.append(b"value %d" % n * 4, timestamp=WHEN + n)
    check(log, 90)
    assert log.close()
    again = open_log(tmp_path / "t-0")
    check(again, 90)
    again.close()


def test_a_second_time_nothing_is_written(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0")
    log.flush()
    log.reindex()
    views = log.segments.views
    report = log.reindex()
    assert (report.written, report.removed) == ((), ())
    assert all(one is other for one, other in zip(views, log.segments.views, strict=True))
    log.close()


def test_producers_are_what_the_log_says(store_dir: Path) -> None:
    with kstore.open(store_dir, config=QUIET) as store:
        log = store["orders"][0]
        producers = sorted(log.producers())
        aborted = log.aborted_transactions(0, log.end_offset)
        assert aborted
        for each in [*Path(log.path).glob("*.snapshot"), *Path(log.path).glob("*.txnindex")]:
            each.unlink()
        assert log.reindex().ok
        assert sorted(log.producers()) == producers
        assert log.aborted_transactions(0, log.end_offset) == aborted
    with kstore.open(store_dir, config=QUIET) as store:
        assert sorted(store["orders"][0].producers()) == producers


def test_idle_producers_are_forgotten_by_the_log_s_clock(tmp_path: Path) -> None:
    """By the system's clock they have been idle for years."""
    now = WHEN
    log = open_log(tmp_path / "t-0", clock=lambda: now, producer_id_expiration_ms=1000)
    log.append_as_leader(sent(1, 0, 0, timestamp=WHEN))
    log.append_as_leader(sent(2, 0, 0, timestamp=WHEN + 500))
    log.reindex()
    assert [each.producer_id for each in log.producers()] == [1, 2]
    now += 1200
    log.reindex()
    assert [each.producer_id for each in log.producers()] == [2]
    log.close()


@pytest.mark.parametrize("change", ["append", "truncate", "delete", "restart"])
def test_the_log_changes_meanwhile(tmp_path: Path, change: str) -> None:
    log = filled(tmp_path / "t-0")
    log.flush()
    spoil_sealed = sorted((tmp_path / "t-0").glob("*.index"))[:-1]
    for each in spoil_sealed:
        each.write_bytes(b"\x00\x00\x00\x01\x00\x00\x00\x07" * 3)
    left = 60

    def meanwhile(done: int, total: int) -> None:
        nonlocal left
        if left != 60 or done < log.segments.views[0].size * 3:
            return
        left = {"append": 90, "truncate": 41, "delete": 61, "restart": 13}[change]
        if change == "append":
            for n in range(60, 90):
                log.append(b"value %d" % n * 4, timestamp=WHEN + n)
        elif change == "delete":
            log.append(b"value %d" % 60 * 4, timestamp=WHEN + 60)
            log.delete_records(25)
        else:
            log.truncate_to(left)

    assert log.reindex(progress=meanwhile).ok
    assert left != 60
    check(log, left)
    assert log.append(b"value %d" % left * 4, timestamp=WHEN + left) == left
    check(log, left + 1)
    assert log.close()
    assert not list((tmp_path / "t-0").glob(REWRITE_PREFIX + "*"))
    again = open_log(tmp_path / "t-0")
    check(again, left + 1)
    again.close()


def test_a_view_from_before_reads_on(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0")
    records = iter(log)
    offsets = [next(records).offset for _ in range(3)]
    spoil(tmp_path / "t-0")
    assert log.reindex().written
    assert offsets + [record.offset for record in records] == list(range(60))
    log.close()


def test_a_segment_with_damage_keeps_its_files(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0")
    log.flush()
    chosen = sorted((tmp_path / "t-0").glob("*.log"))[1]
    data = bytearray(chosen.read_bytes())
    data[70] ^= 4
    write_damaged(chosen, data)
    index = chosen.with_suffix(".index")
    index.write_bytes(b"12345678")
    report = log.reindex()
    assert not report.ok
    assert [(each.path, each.position) for each in report.damages] == [(str(chosen), 0)]
    assert index.read_bytes() == b"12345678"
    log.close()


class Killed(BaseException):
    pass


@pytest.mark.parametrize("is_kill", [True, False])
def test_every_call_to_the_disk_fails_or_is_the_last(tmp_path: Path, is_kill: bool) -> None:
    """After a kill, and where the disk fails, once or forever: the log is as it was."""
    filled(tmp_path / "base" / "t-0").close()
    for at in range(1000):
        directory = tmp_path / f"{at}" / "t-0"
        shutil.copytree(tmp_path / "base" / "t-0", directory)
        disk = FaultyDisk()
        log = open_log(
            directory, segment_bytes=1500, index_interval_bytes=200, files=disk
        )  # fmt: skip
        spoil(directory)
        error = Killed if is_kill else (lambda: StorageError("injected", errno=28))
        disk.arm(at, error, sticky=is_kill or at % 2 == 0)
        with suppress(Killed, StorageError):
            log.reindex()
        reached = len(disk.calls) > at
        disk.fail_at = -1
        end = 60
        if not is_kill:
            with suppress(LogFailedError):
                end = log.append(b"value %d" % 60 * 4, timestamp=WHEN + 60) + 1
            with suppress(KStoreError):
                log.close()
        for clean in (False, True) if is_kill else (False,):
            again = open_log(directory, clean=clean, segment_bytes=1500, index_interval_bytes=200)
            check(again, end)
            again.reindex()
            check(again, end)
            again.close()
        shutil.rmtree(directory.parent)
        if not reached:
            break
    assert not reached
    assert at > 40


def test_a_log_for_reading_refuses(store_dir: Path) -> None:
    with kstore.open(store_dir, "r") as store, pytest.raises(ReadOnlyError):
        store["orders"][0].reindex()
