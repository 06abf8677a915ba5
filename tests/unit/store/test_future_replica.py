"""A partition changes its log directory while it is read and appended."""

import logging
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig, Store
from kstore.errors import (
    ClosedError,
    CompactionAbandonedError,
    CorruptFileError,
    InvalidConfigError,
    KStoreError,
    NewerFormatError,
    PolicyViolationError,
    ReadOnlyError,
    StorageError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from kstore.files import process_lifetime
from kstore.files.files import DISK, Files
from kstore.store import log_manager as manager_module
from support.disks import FaultyDisk, HastyDisk
from support.process_exit import close_as_at_exit
from support.stores import MARKER, QUIET

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=100, file_delete_delay_ms=0)
POINTS = "recovery-point-offset-checkpoint"
STARTS = "log-start-offset-checkpoint"
MARKS = "replication-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"


@pytest.fixture
def dirs(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "d1", tmp_path / "d2"


def filled(dirs: tuple[Path, Path], count: int = 60, files: Files = DISK) -> Store:
    """A store whose topic "t" has its one partition in the first directory."""
    store = Store(dirs, config=QUIET, files=files)
    log = store.create_topic("t", config=SMALL)[0]
    assert log.path == str(dirs[0] / "t-0")
    for value in expected(count):  # a batch each
        log.append(value, timestamp=1_700_000_000_000)
    return store


def values(log: kstore.Log) -> list[bytes | None]:
    return [record.value for record in log]


def expected(count: int) -> list[bytes]:
    return [b"%03d" % n * 30 for n in range(count)]


def folders(path: Path) -> set[str]:
    return {each.name for each in path.iterdir() if each.is_dir()}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the seals, which know their segments by inode."""
    return {
        each.name: each.read_bytes()
        for each in folder.iterdir()
        if not each.name.startswith("kstore.seal.")
    }


# --- a move as it should go -------------------------------------------------------------------


def test_a_moved_partition_keeps_all_its_files_and_checkpoint_entries(
    dirs: tuple[Path, Path],
) -> None:
    with filled(dirs) as store:
        log = store["t"][0]
        log.flush()
        folder = dirs[0] / "t-0"
        (folder / "00000000000000000060.snapshot").write_bytes(b"a broker's")
        (folder / "kstore.cut.00000000000000000000.7.0").write_bytes(b"cut")
        for each in folder.glob("*.log"):
            os.utime(each, ns=(10**18 + 7, 10**18 + 7))
        log.park()  # indexes are cut to their size, as they will be in the copy
        before = contents(folder)
        moved = store.move("t", 0, dirs[1])
        assert moved.source, moved.target == (str(dirs[0]), str(dirs[1]))
        assert moved.size == sum(len(data) for name, data in before.items() if ".log" in name)
        assert folders(dirs[0]) == set()
        assert folders(dirs[1]) == {"t-0"}
        assert log.path == str(dirs[1] / "t-0")
        assert contents(dirs[1] / "t-0") == before
        for each in (dirs[1] / "t-0").glob("*.log"):
            assert each.stat().st_mtime_ns == 10**18 + 7
        assert values(log) == expected(60)
        assert log.append(b"on") == 60
        assert log[60].value == b"on"
    with kstore.open(dirs, config=QUIET) as store:
        assert store["t"][0].recovery is not None
        assert store["t"][0].recovery.segments_scanned == 0
        assert values(store["t"][0]) == [*expected(60), b"on"]


def test_checkpoints_of_both_directories_follow(dirs: tuple[Path, Path]) -> None:
    with filled(dirs) as store:
        log = store["t"][0]
        other = store.create_topic("u", 2)
        log.delete_records(25)
        log.flush()
        store.checkpoint()
        (dirs[0] / CLEANED).write_text("0\n2\nt 0 17\nx 3 4\n")
        store.move("t", 0, dirs[1])
        assert "t 0" not in (dirs[0] / POINTS).read_text()
        assert "t 0" not in (dirs[0] / STARTS).read_text()
        assert "t 0" not in (dirs[0] / MARKS).read_text()
        assert (dirs[0] / CLEANED).read_text() == "0\n1\nx 3 4\n"
        assert "t 0 60\n" in (dirs[1] / POINTS).read_text()
        assert (dirs[1] / STARTS).read_text() == "0\n1\nt 0 25\n"
        assert "t 0 60\n" in (dirs[1] / MARKS).read_text()
        assert (dirs[1] / CLEANED).read_text() == "0\n1\nt 0 17\n"
        assert log.start_offset == 25
        assert len(other) == 2
    for each in dirs:
        assert (each / MARKER).exists()
    with kstore.open(dirs, config=QUIET) as store:
        assert (store["t"][0].start_offset, store["t"][0].end_offset) == (25, 60)


def test_appends_and_reads_continue_meanwhile(dirs: tuple[Path, Path]) -> None:
    errors: list[BaseException] = []
    stop = threading.Event()
    with filled(dirs, 0) as store, kstore.open(dirs, "r", config=QUIET) as elsewhere:
        store.alter_topic("t", config={"segment.bytes": 20_000})
        log = store["t"][0]
        append = log.append  # bound before the move
        seen = elsewhere["t"][0]
        assert seen.end_offset == 0

        def write() -> None:
            number = 0
            while not stop.is_set():
                assert append(b"%03d" % number * 30) == number
                number += 1
                stop.wait(0.0005)

        def read(source: kstore.Log) -> None:
            while not stop.is_set():
                found = values(source)
                assert found == expected(len(found))

        def guarded(work: Callable[[], None]) -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)
                stop.set()

        works: list[Callable[[], None]] = [write, lambda: read(log), lambda: read(seen)]
        threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for turn in range(6):
            stop.wait(0.05)
            store.move("t", 0, dirs[1 - turn % 2])
        stop.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert errors == []
        end = log.end_offset
        assert end > 10
        assert values(log) == values(seen) == expected(end)
        assert seen.path == log.path == str(dirs[0] / "t-0")
    with kstore.open(dirs, config=QUIET) as store:
        assert values(store["t"][0]) == expected(end)


def test_slices_read_before_a_move_stay_valid(dirs: tuple[Path, Path]) -> None:
    with filled(dirs) as store:
        log = store["t"][0]
        mapped = log.read(0)
        assert mapped is not None
        first, segments = bytes(mapped), log.segments  # most of these are not mapped yet
        iterator = iter(log)
        assert next(iterator).value == expected(1)[0]
        store.move("t", 0, dirs[1])
        log.append(b"after")
        assert bytes(mapped) == first
        assert [record.value for record in iterator] == expected(60)[1:]
        assert log[60].value == b"after"
        for view in segments.views:
            slice_read = segments.read(view.base_offset)
            assert slice_read is not None
            assert slice_read.size > 0


def test_a_move_is_throttled_and_reports_its_progress(dirs: tuple[Path, Path]) -> None:
    seen: list[tuple[int, int]] = []
    with filled(dirs) as store:
        log = store["t"][0]
        store.move(
            "t", 0, dirs[1], max_bytes_per_second=log.size * 4, progress=lambda *at: seen.append(at)
        )
        assert seen[-1] == (log.size, log.size)
        assert sorted(seen) == seen
        assert len(seen) == len(log.segments)
        with pytest.raises(InvalidConfigError):
            store.move("t", 0, dirs[0], max_bytes_per_second=0)
        with pytest.raises(InvalidConfigError, match=r"d1, .*d2"):
            store.move("t", 0, dirs[0] / "t-0")
    with kstore.open(dirs, "r") as reader, pytest.raises(ReadOnlyError):
        reader.move("t", 0, dirs[0])


def test_compaction_retention_and_cuts_meanwhile(dirs: tuple[Path, Path]) -> None:
    """The log loses its first segments and its end while it is copied."""
    with filled(dirs, 80) as store:
        log = store["t"][0]
        turns = iter([lambda: log.delete_records(30), lambda: log.truncate_to(50)])

        def meddle(_done: int, _size: int) -> None:
            next(turns, lambda: None)()

        store.move("t", 0, dirs[1], progress=meddle)
        assert (log.start_offset, log.end_offset) == (30, 50)
        assert values(log) == expected(50)[30:]
        assert log.append(b"x") == 50
    assert log.path == str(dirs[1] / "t-0")
    with kstore.open(dirs, config=QUIET) as store:
        assert values(store["t"][0]) == [*expected(50)[30:], b"x"]
        assert store["t"][0].verify().ok


def test_nothing_is_compacted_meanwhile(dirs: tuple[Path, Path]) -> None:
    """Kafka too: a running compaction is abandoned, and none begins before the move is over."""
    message: list[object] = []
    with Store(dirs, config=QUIET) as store:
        log = store.create_topic("t", config=replace(SMALL, cleanup_policy="compact"))[0]
        for n in range(60):
            log.append(b"%03d" % n * 30, key=b"%d" % (n % 3))
        cleaner = store._manager.cleaner
        assert cleaner.grab_filthiest(store._manager) is log
        cleaner._busy.clear()
        begun = threading.Event()

        def compact() -> None:
            try:
                log.compact(max_bytes_per_second=4000, progress=lambda *_: begun.set())
            except CompactionAbandonedError as error:
                message.append(str(error))

        def meddle(_done: int, _size: int) -> None:
            assert cleaner.grab_filthiest(store._manager) is None
            with pytest.raises(CompactionAbandonedError, match="moved"):
                log.compact()
            message.append("tried")

        thread = threading.Thread(target=compact)
        thread.start()
        assert begun.wait(30)
        store.move("t", 0, dirs[1], progress=meddle)
        thread.join(30)
        assert "moved" in str(message[0])
        assert message[1:].count("tried") == len(message) - 1 > 0
        assert len(values(log)) == 60
        assert log.compact().records_kept < 40


# --- moves that do not end ----------------------------------------------------------------------


class Halt(Exception):
    """Stands for whatever ends a move half way."""


def interrupted(store: Store, target: Path, after: int) -> None:
    def halt(done: int, _size: int) -> None:
        if done >= after:
            raise Halt

    with pytest.raises(Halt):
        store.move("t", 0, target, progress=halt)


def test_an_interrupted_move_is_continued(dirs: tuple[Path, Path]) -> None:
    with filled(dirs) as store:
        interrupted(store, dirs[1], 3000)
        (name,) = folders(dirs[1])
        assert uuid.UUID(name.removeprefix("t-0.").removesuffix("-future")).version == 4
        assert store.log_dirs[1].futures == (name,)
        assert store.log_dirs[1].partitions == ()
        store["t"][0].append(b"later")
    assert (dirs[1] / MARKER).exists()
    with kstore.open(dirs, config=QUIET) as store:
        log = store["t"][0]
        assert log.path == str(dirs[0] / "t-0")
        assert store.move("t", 0, dirs[1]).size < log.size - 2000
        assert values(log) == [*expected(60), b"later"]
        assert folders(dirs[0]) == set()
        assert folders(dirs[1]) == {"t-0"}


def test_other_files_of_an_unfinished_copy_are_not_used(dirs: tuple[Path, Path]) -> None:
    with filled(dirs) as store:
        interrupted(store, dirs[1], 4000)
        (name,) = folders(dirs[1])
        data = (dirs[1] / name / f"{0:020d}.log").read_bytes()
        (dirs[1] / name / f"{0:020d}.log").write_bytes(data[:500] + b"x" * 1000)
        (dirs[1] / name / f"{17:020d}.log").write_bytes(b"of another log")
        (dirs[1] / name / f"{90:020d}.log").write_bytes(b"of another log")
        (dirs[1] / name / f"{90:020d}.snapshot").write_bytes(b"of another log")
        log = store["t"][0]
        log.park()
        before = contents(dirs[0] / "t-0")
        store.move("t", 0, dirs[1])
        assert contents(dirs[1] / "t-0") == before


def test_a_cut_log_drops_its_unfinished_copy(dirs: tuple[Path, Path]) -> None:
    """A broker would continue it, and records that were cut would be back."""
    with filled(dirs) as store:
        interrupted(store, dirs[1], 4000)
        store["t"][0].truncate_to(10)
        assert folders(dirs[1]) == set()
        assert store.log_dirs[1].futures == ()


def test_a_move_to_the_current_directory_drops_the_unfinished_copy(dirs: tuple[Path, Path]) -> None:
    with filled(dirs) as store:
        interrupted(store, dirs[1], 4000)
        assert store.move("t", 0, dirs[0]).size == 0
        assert folders(dirs[1]) == set()
        assert values(store["t"][0]) == expected(60)


def test_deleting_the_topic_takes_the_unfinished_copy_along(dirs: tuple[Path, Path]) -> None:
    with filled(dirs) as store:
        interrupted(store, dirs[1], 4000)
        store.delete_topic("t")
        assert folders(dirs[0]) == folders(dirs[1]) == set()


def test_one_move_at_a_time_and_none_of_a_topic_being_deleted(dirs: tuple[Path, Path]) -> None:
    refused: list[type] = []

    def meddle(_done: int, _size: int) -> None:
        if not refused:
            for other in (lambda: store.move("t", 0, dirs[1]), lambda: store.delete_topic("t")):
                with pytest.raises(PolicyViolationError):
                    other()
                refused.append(PolicyViolationError)

    with filled(dirs) as store:
        store.move("t", 0, dirs[1], progress=meddle)
        assert len(refused) == 2
        store.delete_topic("t")


def test_a_store_that_closes_ends_the_move(dirs: tuple[Path, Path]) -> None:
    store = filled(dirs)
    with pytest.raises(ClosedError):
        store.move("t", 0, dirs[1], progress=lambda _done, _size: store.close())
    with kstore.open(dirs, config=QUIET) as store:
        assert values(store["t"][0]) == expected(60)


# --- two plain folders ---------------------------------------------------------------------------


def two_copies(dirs: tuple[Path, Path], sign: int | None) -> None:
    """What a crash between the two renames leaves."""
    filled(dirs).close()
    shutil.copytree(dirs[0] / "t-0", dirs[1] / "t-0")
    if sign is not None:
        (dirs[sign] / "t-0" / "kstore.moved").write_bytes(b'{"format":1}\n')


def test_two_copies_without_a_marker_are_refused(dirs: tuple[Path, Path]) -> None:
    two_copies(dirs, None)
    for mode in ("r", "a"):
        with pytest.raises(CorruptFileError, match="Kafka does not start either"):
            kstore.open(dirs, mode)


@pytest.mark.parametrize("sign", [0, 1])
def test_the_copy_marked_complete_is_used(dirs: tuple[Path, Path], sign: int) -> None:
    two_copies(dirs, sign)
    with kstore.open(dirs, "r") as reader:
        assert reader["t"][0].path == str(dirs[sign] / "t-0")
    with kstore.open(dirs, config=QUIET) as store:
        assert folders(dirs[1 - sign]) == set()
        assert values(store["t"][0]) == expected(60)
        assert not list(dirs[sign].rglob("kstore.moved"))


def test_a_marker_on_the_shorter_copy_is_not_trusted(dirs: tuple[Path, Path]) -> None:
    two_copies(dirs, 1)
    with kstore.open(dirs[0], config=QUIET) as store:
        store["t"][0].append(b"more")
    with pytest.raises(CorruptFileError):
        kstore.open(dirs)
    assert folders(dirs[0]) == folders(dirs[1]) == {"t-0"}


def test_an_old_marker_is_removed_when_the_log_is_opened(dirs: tuple[Path, Path]) -> None:
    filled(dirs).close()
    sign = dirs[0] / "t-0" / "kstore.moved"
    sign.write_bytes(b'{"format":1}\n')
    with kstore.open(dirs, config=QUIET) as store:
        assert values(store["t"][0]) == expected(60)
    assert not sign.exists()


def test_a_marker_of_a_newer_kstore_is_refused_and_kept(dirs: tuple[Path, Path]) -> None:
    two_copies(dirs, 1)
    sign = dirs[1] / "t-0" / "kstore.moved"
    for data, error in ((b'{"format":2}\n', NewerFormatError), (b"moved", CorruptFileError)):
        sign.write_bytes(data)
        for mode in ("r", "a"):
            with pytest.raises(error, match=r"t-0/kstore\.moved"):
                kstore.open(dirs, mode)
        assert folders(dirs[0]) == folders(dirs[1]) == {"t-0"}
        assert sign.read_bytes() == data
    shutil.rmtree(dirs[0] / "t-0")
    sign.write_bytes(b'{"format":2}\n')
    with kstore.open(dirs, config=QUIET) as store, pytest.raises(NewerFormatError, match="newer"):
        store["t"][0]
    assert sign.exists()


def test_an_unfinished_copy_is_all_that_is_left(dirs: tuple[Path, Path]) -> None:
    """The disk of the partition itself is gone: nothing is made over what was copied."""
    with filled(dirs) as store:
        interrupted(store, dirs[1], 4000)
    (name,) = folders(dirs[1])
    shutil.rmtree(dirs[0])
    with kstore.open(dirs[1], config=QUIET) as store:
        assert list(store) == []
        assert any(f"{name}: the unfinished copy" in note for note in store.recovery.notes)
        with pytest.raises(UnknownTopicOrPartitionError, match="rename the copy to t-0"):
            store["t"]
        with pytest.raises(TopicExistsError, match="rename the copy to t-0"):
            store.create_topic("t")
    (dirs[1] / name).rename(dirs[1] / "t-0")
    with kstore.open(dirs[1], config=QUIET) as store:
        found = values(store["t"][0])
        assert found == expected(60)[: len(found)]
        assert len(found) > 30
        store["t"][0].verify().raise_if_corrupt()


def test_a_reader_asks_where_a_partition_is_while_the_store_is_busy(
    dirs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a reader's lock then, so it does not wait forever for the store's."""
    monkeypatch.setattr(manager_module, "_MAX_WAIT", 0.05)
    with filled(dirs) as store, kstore.open(dirs, "r") as reader:
        manager = reader._manager
        assert len(values(reader["t"][0])) == 60
        store.move("t", 0, dirs[1])
        begun, end = threading.Event(), threading.Event()

        def hold() -> None:
            with manager.lock:
                begun.set()
                end.wait(30)

        thread = threading.Thread(target=hold)
        thread.start()
        assert begun.wait(30)
        assert manager._resolve_log_dir("t", 0).path == str(dirs[0])  # not known better yet
        end.set()
        thread.join(30)
        assert manager._resolve_log_dir("t", 0).path == str(dirs[1])
        with manager.lock:  # held by this thread: it may look
            assert manager._resolve_log_dir("t", 0).path == str(dirs[1])
        assert manager.lock.acquire(blocking=False)  # it is not held
        manager.lock.release()


# --- a disk that fails on the way ----------------------------------------------------------------


def die(store: Store) -> None:
    """What a killed process leaves: no close, the lock free."""
    store._manager.stop_background()
    store._manager.release()
    store._closed = True
    process_lifetime.closed(store)


class Disk(FaultyDisk, HastyDisk):
    """Fails on request, and syncs nothing."""

    def fdatasync(self, fd: int) -> None:
        self.step("fdatasync", fd)
        HastyDisk.fdatasync(self, fd)

    def fsync(self, fd: int) -> None:
        self.step("fsync", fd)
        HastyDisk.fsync(self, fd)

    def sync_directory(self, path: str | os.PathLike[str]) -> None:
        self.step("sync_directory", path)
        HastyDisk.sync_directory(self, path)

    def write_atomically(self, path: str | os.PathLike[str], data: bytes) -> None:
        Files.write_atomically(self, path, data)  # its steps fail one by one


def count_calls(tmp_path: Path) -> int:
    disk = Disk()
    with filled((tmp_path / "d1", tmp_path / "d2"), 25, disk) as store:
        disk.calls.clear()
        store.move("t", 0, tmp_path / "d2")
        calls = list(disk.calls)
    assert {"open", "pwrite", "truncate", "fsync", "rename", "remove", "sync_directory"} <= set(
        calls
    )
    return len(calls)


def one_copy(dirs: tuple[Path, Path], appended: list[bytes], where: object) -> None:
    with Store(dirs, config=QUIET, files=HastyDisk()) as store:
        assert values(store["t"][0]) == appended, where
        assert [d for d in dirs if (d / "t-0").exists()] == [Path(store["t"][0].path).parent], where
        store["t"][0].append(b"on")
        store.move("t", 0, dirs[1])
        assert values(store["t"][0]) == [*appended, b"on"], where
        store.apply_retention()  # it removes a folder that was renamed to -delete
        assert folders(dirs[0]) == set(), where
        assert folders(dirs[1]) == {"t-0"}, where


@pytest.mark.parametrize("code", [28, 5], ids=["full disk", "failed disk"])
@pytest.mark.parametrize("sticky", [False, True], ids=["once", "forever"])
def test_any_call_of_a_move_fails(
    tmp_path: Path, code: int, sticky: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    total = count_calls(tmp_path / "count")
    for number in range(total):
        dirs = tmp_path / f"{number}-1", tmp_path / f"{number}-2"
        disk = Disk()
        store = filled(dirs, 25, disk)
        log = store["t"][0]
        appended = expected(25)
        disk.arm(number, lambda: StorageError("injected", errno=code), sticky=sticky)
        with suppress(StorageError):  # what a seal costs is only logged
            store.move("t", 0, dirs[1])
        disk.fail_at = -1
        assert values(log) == appended, number
        try:  # the log takes appends where it is, unless it says that it cannot
            log.append(b"after")
            log.flush()
            appended.append(b"after")
        except StorageError:
            assert log.end_offset == 25, number
        if number % 2:
            die(store)
        else:
            try:
                store.close()
            except KStoreError:
                die(store)
        one_copy(dirs, appended, (number, disk.calls[number]))


def test_a_process_killed_on_the_way_leaves_one_good_copy(tmp_path: Path) -> None:
    """Every call is the last one: the disk says no more, and the process never closes."""

    class Killed(BaseException):
        pass

    total = count_calls(tmp_path / "count")
    for number in range(total):
        dirs = tmp_path / f"{number}-1", tmp_path / f"{number}-2"
        disk = Disk()
        store = filled(dirs, 25, disk)
        disk.arm(number, Killed, sticky=True)
        with pytest.raises(Killed):
            store.move("t", 0, dirs[1])
        die(store)
        one_copy(dirs, expected(25), number)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_as_at_exit()
